package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"github.com/gpuwhy/gpuwhy/client"
	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/app"
	"github.com/gpuwhy/gpuwhy/internal/serve/apidoc"
	"github.com/gpuwhy/gpuwhy/internal/term"
)

// doCommand has a command for each action with an HTTP address, except those of accounts, which have commands of their own. It is made from
// the declarations of the actions.
type doCommand struct{ kong.Plugins }

func newDo() any {
	var commands []member
	for _, a := range app.Actions() {
		if a.HTTP != "" && !strings.Contains(a.Command.Name, " ") {
			commands = append(commands, commandOf(newActionCommand(&a), a.Command.Name, a.Summary))
		}
	}
	return &doCommand{kong.Plugins{structOf(commands).Addr().Interface()}}
}

// commandOf makes a command part of another.
func commandOf[C any](command C, name, summary string) member {
	return member{reflect.ValueOf(command), []string{"cmd", "", "name", name, "help", summary + "."}}
}

// An actionRequest is an action with its target and its arguments, as a command line has them.
type actionRequest struct {
	declared  *action.Action
	target    *argument // nil: it has none
	arguments []*argument

	Given kong.Plugins `embed:""` // the target and the arguments as kong fills them in
	JSON  bool         `name:"json" help:"Print what the API answers."`
}

func newActionRequest(a *action.Action) actionRequest {
	c := actionRequest{declared: a}
	var all []*argument
	if a.Targeted() {
		c.target = targetOf(a)
		all = append(all, c.target)
	}
	if a.Args != nil {
		c.arguments = argumentsOf(apidoc.SchemaOf(a.Args), a.Command.Argument)
		all = append(all, c.arguments...)
	}
	members := make([]member, len(all))
	for i, arg := range all {
		members[i] = member{reflect.Zero(arg.kind), arg.tags}
	}
	given := structOf(members)
	for i, arg := range all {
		arg.value = given.Field(i)
	}
	c.Given = kong.Plugins{given.Addr().Interface()}
	return c
}

// Help is the text below the summary.
func (c *actionRequest) Help() string { return string(c.declared.Text) }

func (c *actionRequest) check() error {
	var checks []func() error
	if c.target != nil {
		checks = append(checks, c.target.check)
	}
	for _, a := range c.arguments {
		checks = append(checks, a.check)
	}
	return first(checks...)
}

// run requests the action, and prints what was done.
func (c *actionRequest) run(env *environment, running *client.Client) error {
	request, err := c.request()
	if err != nil {
		return err
	}
	var answer bytes.Buffer
	unsaved := running.Copy(env.ctx, &answer, request)
	if unsaved != nil && !errors.Is(unsaved, client.ErrUnsaved) {
		return legible(unsaved)
	}
	return cmp.Or(c.tell(env.stdout, answer.Bytes()), unsaved)
}

// An actionCommand requests an action from a running gpuwhy.
type actionCommand struct {
	actionRequest
	URL string `name:"url" placeholder:"URL" help:"Where gpuwhy is served; by default, what --listen and --base-path say."`
	commonFlags
	clientFlags
}

func newActionCommand(a *action.Action) actionCommand {
	return actionCommand{actionRequest: newActionRequest(a)}
}

// Fails says when the command ends with status 1.
func (actionCommand) Fails() string {
	return "gpuwhy refuses; or the change is in effect, but a restart of gpuwhy would lose it"
}

func (c *actionCommand) check() error { return first(c.clientFlags.check, c.actionRequest.check) }

// Run requests the action, and prints what was done.
func (c actionCommand) Run(env *environment) error {
	running, err := c.client(c.URL, client.Options{Flag: "--url"})
	if err != nil {
		return err
	}
	return c.run(env, running)
}

func (c *actionRequest) request() (r client.Request, err error) {
	var target string
	if c.target != nil {
		target = fmt.Sprint(c.target.given())
	}
	r.Method, r.Path = c.declared.Request(target)
	if c.declared.Args != nil {
		body := map[string]any{}
		for _, a := range c.arguments {
			value := a.given()
			if file, given := value.(string); given && a.schema.Secret {
				if value, err = readSecret(file, a.field); err != nil {
					return r, err
				}
			}
			if value != nil {
				body[a.field] = value
			}
		}
		r.Body = body
	}
	return r, nil
}

// tell prints an answer, which may be empty.
func (c *actionRequest) tell(w io.Writer, answer []byte) error {
	switch {
	case c.JSON && len(answer) == 0:
		return nil
	case c.JSON:
		return term.JSON(w, json.RawMessage(answer))
	}
	text := c.declared.Answer.Description
	if c.declared.Command.Done != nil {
		var err error
		if text, err = c.declared.Command.Done(answer); err != nil {
			return err
		}
	}
	for line := range strings.Lines(text) {
		if _, err := fmt.Fprintln(w, term.Printable(strings.TrimSuffix(line, "\n"))); err != nil {
			return err
		}
	}
	return nil
}

// An argument is a flag of an action's command, or its target.
type argument struct {
	field  string // its name in the body
	label  string // as people write it: "--comment"
	schema *apidoc.Schema
	kind   reflect.Type
	tags   []string      // for kong, each with its value
	value  reflect.Value // of that kind; nil if it is not given
}

func targetOf(a *action.Action) *argument {
	name := a.Target.Name
	return &argument{
		label: name, schema: &apidoc.Schema{Type: apidoc.Types{"string"}}, kind: reflect.TypeFor[*string](),
		tags: []string{"arg", "", "name", name, "help", a.Target.Param.Description},
	}
}

// argumentTypes are the types of arguments by that of their schemas. Each has a nil value.
var argumentTypes = map[string]struct {
	kind        reflect.Type
	placeholder string
}{
	"string":  {reflect.TypeFor[*string](), "TEXT"},
	"number":  {reflect.TypeFor[*float64](), "NUMBER"},
	"integer": {reflect.TypeFor[*int64](), "NUMBER"},
	"boolean": {reflect.TypeFor[*bool](), ""},
	"array":   {reflect.TypeFor[[]string](), "TEXT"},
	seconds:   {reflect.TypeFor[*time.Duration](), "DURATION"},
}

// seconds is the unit of a time, which people write with any unit.
const seconds = "s"

// argumentsOf are the arguments that a body has, without those that have no effect. That of the field positional is written without a
// flag. Secrets are in files: a command line shows its arguments to everybody on the machine.
func argumentsOf(body *apidoc.Schema, positional string) (all []*argument) {
	for _, p := range body.Properties {
		if p.Value.Ignored {
			continue
		}
		kind, name := argumentTypes[p.Value.Type[0]], p.Name
		if p.Value.Unit == seconds {
			kind, name = argumentTypes[seconds], strings.TrimSuffix(name, "_seconds")
		}
		a := &argument{field: p.Name, schema: p.Value, kind: kind.kind}
		name = strings.ReplaceAll(name, "_", "-")
		help, placeholder := strings.TrimSpace(p.Value.Text+" "+a.limits("Must be ")), kind.placeholder
		if p.Name == positional {
			a.label, a.tags = name, []string{"arg", "", "name", name, "help", help}
			all = append(all, a)
			continue
		}
		if p.Value.Secret {
			name, placeholder = name+"-file", "FILE"
			help = strings.TrimSpace(p.Value.Text + " In a file; - reads it from standard input, or asks for it.")
		}
		a.label = "--" + name
		a.tags = []string{"name", name, "help", help, "placeholder", placeholder, "env", "-"} // a variable is for settings
		if slices.Contains(body.Required, p.Name) {
			a.tags = append(a.tags, "required", "")
		}
		all = append(all, a)
	}
	return all
}

// limits says after an introduction what a value must be; empty if it may be anything.
func (a *argument) limits(intro string) string {
	number := func(v *float64) string {
		if a.schema.Unit == seconds {
			return strings.TrimSuffix(strings.TrimSuffix((time.Duration(*v)*time.Second).String(), "0s"), "0m")
		}
		return fmt.Sprint(*v)
	}
	s := a.schema
	switch {
	case s.Minimum != nil && s.Maximum != nil:
		return intro + "from " + number(s.Minimum) + " to " + number(s.Maximum) + "."
	case s.Minimum != nil:
		return intro + "at least " + number(s.Minimum) + "."
	case s.Maximum != nil:
		return intro + "at most " + number(s.Maximum) + "."
	case s.MaxLength > 0:
		return intro + fmt.Sprintf("at most %d characters.", s.MaxLength)
	case s.MaxItems > 0:
		return intro + fmt.Sprintf("%d to %d; repeatable, or separated by commas.", s.MinItems, s.MaxItems)
	}
	return ""
}

// given returns the value for the body; nil if there is none.
func (a *argument) given() any {
	if a.value.IsNil() {
		return nil
	}
	switch value := a.value.Interface().(type) {
	case []string:
		return value
	case *time.Duration:
		return value.Seconds()
	default:
		return a.value.Elem().Interface()
	}
}

func (a *argument) check() error {
	s, wrong := a.schema, false
	switch value := a.given().(type) {
	case float64:
		wrong = !(s.Minimum == nil || value >= *s.Minimum) || !(s.Maximum == nil || value <= *s.Maximum) // also refuses NaN
	case int64:
		wrong = s.Minimum != nil && float64(value) < *s.Minimum || s.Maximum != nil && float64(value) > *s.Maximum
	case string:
		if value == "" && !a.schema.Nullable() {
			return fmt.Errorf("%s is empty: give a value", a.label)
		}
		wrong = !s.Secret && s.MaxLength > 0 && utf8.RuneCountInString(value) > s.MaxLength
	case []string:
		wrong = len(value) < s.MinItems || s.MaxItems > 0 && len(value) > s.MaxItems
	}
	if wrong {
		return fmt.Errorf("%s: %s", a.label, strings.TrimSuffix(a.limits("must be "), "."))
	}
	return nil
}

// A member is a field of a struct that is made at run time, since kong takes commands and flags as fields.
type member struct {
	value reflect.Value
	tags  []string // keys, each with its value
}

// structOf returns a struct with members, which can be set.
func structOf(members []member) reflect.Value {
	fields := make([]reflect.StructField, len(members))
	for i, m := range members {
		var tag strings.Builder
		for pair := range slices.Chunk(m.tags, 2) {
			fmt.Fprintf(&tag, "%s:%q ", pair[0], pair[1])
		}
		fields[i] = reflect.StructField{Name: fmt.Sprintf("Member%d", i), Type: m.value.Type(), Tag: reflect.StructTag(strings.TrimSpace(tag.String()))}
	}
	made := reflect.New(reflect.StructOf(fields)).Elem()
	for i, m := range members {
		made.Field(i).Set(m.value)
	}
	return made
}
