package rulefile

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/gpuwhy/gpuwhy/internal/alert"
	"github.com/gpuwhy/gpuwhy/internal/alert/notify"
)

// largest is how long a file may be.
const largest = 1 << 20

// Schema is the JSON Schema (2020-12) of the file, for editors.
//
//go:embed schema.json
var Schema []byte

// A File has what a file of rules says.
type File struct {
	// Rules are all rules: the defaults, as the file changes them, and the
	// file's own.
	Rules  []alert.Rule
	Notify notify.Config // who gets messages
}

// Load reads a file, and checks that the addresses are where it says. A rule with
// the name of a default one changes what it writes and leaves the rest.
func Load(name string, defaults []alert.Rule) (*File, error) {
	// Reading a pipe might wait for ever.
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", name)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, largest+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	file, err := parse(text, defaults, (*notify.Config).Resolve)
	if all, ok := errors.AsType[Errors](err); ok {
		for i := range all {
			all[i].File = name
		}
	}
	return file, err
}

// An Error is one thing that is wrong with a file.
type Error struct {
	File string // may be empty
	Line int    // from 1
	What string // with where it is: "rules[2] (too_hot): above: must be …"
}

func (e Error) Error() string {
	if e.File == "" {
		return fmt.Sprintf("line %d: %s", e.Line, e.What)
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.What)
}

// Errors are all that is wrong with a file, in the order of its lines.
type Errors []Error

func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i := range e {
		lines[i] = e[i].Error()
	}
	return strings.Join(lines, "\n")
}

// parse reads the text of a file. Its error is an [Errors].
func parse(text []byte, defaults []alert.Rule, resolve func(*notify.Config) error) (*File, error) {
	p := &parser{}
	file := p.file(text, defaults, resolve)
	if len(p.errs) > 0 {
		slices.SortStableFunc(p.errs, func(a, b Error) int { return a.Line - b.Line })
		return nil, p.errs
	}
	return file, nil
}

// document is a file as it is written.
type document struct {
	Rules         []yaml.Node `yaml:"rules"`
	Targets       []yaml.Node `yaml:"targets"`
	GroupWait     *duration   `yaml:"group_wait"`
	GroupInterval *duration   `yaml:"group_interval"`
	PublicURL     *string     `yaml:"public_url"`
}

// entry is a rule as it is written. A field that is nil is not there.
type entry struct {
	Name        string          `yaml:"name"`
	Watch       *alert.Watch    `yaml:"watch"`
	Above       *float64        `yaml:"above"`
	Below       *float64        `yaml:"below"`
	Margin      *float64        `yaml:"margin"`
	Hold        *duration       `yaml:"hold"`
	Clear       *duration       `yaml:"clear"`
	Cooldown    *duration       `yaml:"cooldown"`
	Repeat      *duration       `yaml:"repeat"`
	Severity    *alert.Severity `yaml:"severity"`
	Scope       *scope          `yaml:"scope"`
	Codes       *[]int          `yaml:"codes"`
	IgnoreCodes *[]int          `yaml:"ignore_codes"`
	Enabled     *bool           `yaml:"enabled"`
	Notify      *[]string       `yaml:"notify"`
}

type scope struct {
	Nodes     []string `yaml:"nodes"`
	GPUs      []string `yaml:"gpus"`
	Users     []string `yaml:"users"`
	Processes []string `yaml:"processes"`
}

// duration is written as in Go: "90s", "1h30m".
type duration time.Duration

// UnmarshalYAML implements [yaml.Unmarshaler].
func (d *duration) UnmarshalYAML(node *yaml.Node) error {
	v, err := time.ParseDuration(node.Value)
	if err != nil || node.Kind != yaml.ScalarNode {
		return &yaml.TypeError{Errors: []string{fmt.Sprintf("line %d: %q is no time: write it as 30s, 5m or 1h30m", node.Line, node.Value)}}
	}
	*d = duration(v)
	return nil
}

// A parser collects all that is wrong.
type parser struct{ errs Errors }

func (p *parser) wrong(line int, format string, args ...any) {
	p.errs = append(p.errs, Error{Line: max(line, 1), What: fmt.Sprintf(format, args...)})
}

func (p *parser) file(text []byte, defaults []alert.Rule, resolve func(*notify.Config) error) *File {
	if len(text) > largest {
		p.wrong(1, "the file is longer than 1 MiB")
		return nil
	}
	out := &File{Rules: slices.Clone(defaults), Notify: notify.Defaults()}
	root := p.root(text)
	if root == nil {
		return out
	}
	doc := document{
		GroupWait: (*duration)(&out.Notify.GroupWait), GroupInterval: (*duration)(&out.Notify.GroupInterval),
		PublicURL: &out.Notify.PublicURL,
	}
	if !p.decode(root, "", &doc) {
		return nil
	}
	p.rules(doc.Rules, out)
	p.targets(root, doc.Targets, &out.Notify, resolve)
	p.routes(doc.Rules, out)
	return out
}

// targets reads who gets messages.
func (p *parser) targets(root *yaml.Node, nodes []yaml.Node, out *notify.Config, resolve func(*notify.Config) error) {
	before := len(p.errs)
	out.Targets = make([]notify.Target, len(nodes))
	for i := range nodes {
		p.decode(&nodes[i], fmt.Sprintf("targets[%d]: ", i), &out.Targets[i])
	}
	for _, check := range []func(*notify.Config) error{(*notify.Config).Check, resolve} {
		if len(p.errs) == before {
			p.invalid(root, nodes, check(out))
		}
	}
}

// invalid adds the errors of a configuration, with their lines.
func (p *parser) invalid(root *yaml.Node, targets []yaml.Node, err error) {
	for _, err := range flatten(err) {
		bad, ok := errors.AsType[*alert.Invalid](err)
		if !ok {
			p.wrong(1, "%v", err)
			continue
		}
		line := lineOf(root, bad.Field)
		var i int
		var field string
		if n, err := fmt.Sscanf(bad.Field, "targets[%d].%s", &i, &field); err == nil && n == 2 && i < len(targets) {
			line = lineOf(&targets[i], field)
		}
		p.wrong(line, "%v", err)
	}
}

// routes says which rules name a target that is not there.
func (p *parser) routes(nodes []yaml.Node, out *File) {
	if len(p.errs) > 0 {
		return
	}
	for i := range nodes {
		var e entry
		if nodes[i].Decode(&e) != nil || e.Notify == nil {
			continue
		}
		for _, name := range *e.Notify {
			if !slices.ContainsFunc(out.Notify.Targets, func(t notify.Target) bool { return t.Name == name }) {
				p.wrong(lineOf(&nodes[i], "notify"), "rules[%d] (%s): notify: there is no target %q", i, e.Name, name)
			}
		}
	}
}

// root returns the only document of the text; nil where the text is empty.
func (p *parser) root(text []byte) *yaml.Node {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var doc yaml.Node
	switch err := decoder.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		p.syntax(err)
		return nil
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		p.wrong(1, "one YAML document is read, and there are more")
		return nil
	}
	if root := doc.Content[0]; root.Tag != "!!null" {
		return root
	}
	return nil
}

func (p *parser) rules(nodes []yaml.Node, out *File) {
	defaults := len(out.Rules)
	seen := map[string]int{}
	for i := range nodes {
		node := &nodes[i]
		where := fmt.Sprintf("rules[%d]", i)
		var e entry
		if !p.decode(node, where+": ", &e) {
			continue
		}
		if e.Name == "" {
			p.wrong(node.Line, "%s: name: every rule needs one", where)
			continue
		}
		where += " (" + e.Name + ")"
		if line, twice := seen[e.Name]; twice {
			p.wrong(node.Line, "%s: name: line %d has a rule of that name", where, line)
			continue
		}
		seen[e.Name] = node.Line
		j := slices.IndexFunc(out.Rules[:defaults], func(r alert.Rule) bool { return r.Name == e.Name })
		rule, ok := p.begin(node, where, &e, out.Rules[:defaults], j)
		if !ok {
			continue
		}
		if into := over(&rule); node.Decode(&into) != nil {
			continue // not after the first time
		}
		for _, err := range flatten(rule.Check()) {
			line := node.Line
			if bad, ok := errors.AsType[*alert.Invalid](err); ok {
				line = lineOf(node, bad.Field)
			}
			p.wrong(line, "%s: %v", where, err)
		}
		if j >= 0 {
			out.Rules[j] = rule
		} else {
			out.Rules = append(out.Rules, rule)
		}
	}
}

// begin returns the rule that an entry changes: the default one of that name, or
// one that fits what the entry watches.
func (p *parser) begin(node *yaml.Node, where string, e *entry, defaults []alert.Rule, j int) (alert.Rule, bool) {
	var rule alert.Rule
	refuse := func(field, format string, args ...any) (alert.Rule, bool) {
		p.wrong(lineOf(node, field), "%s: %s: %s", where, field, fmt.Sprintf(format, args...))
		return rule, false
	}
	switch {
	case j >= 0 && (e.Watch == nil || *e.Watch == defaults[j].Watch):
		rule = defaults[j]
	case j >= 0:
		return refuse("watch", "the rule of that name watches %s: leave it out, or take another name", defaults[j].Watch)
	case e.Watch == nil:
		return refuse("watch", "a rule whose name is none of the defaults must say what it watches: one of %s", list(alert.Watches()))
	case !slices.Contains(alert.Watches(), *e.Watch):
		return refuse("watch", "%q is nothing that can be watched; it must be one of %s", string(*e.Watch), list(alert.Watches()))
	default:
		rule = alert.Default(e.Name, *e.Watch)
	}
	field, other, given := "above", "below", e.Below
	if rule.Watch.Below() {
		field, other, given = "below", "above", e.Above
	}
	if given != nil && !rule.Watch.Condition() {
		return refuse(other, "%s fires %s its threshold: write %s", rule.Watch, field, field)
	}
	return rule, true
}

func list(watches []alert.Watch) string {
	return strings.Join(strings.Fields(strings.Trim(fmt.Sprint(watches), "[]")), ", ")
}

// over returns an entry that is decoded into a rule.
func over(r *alert.Rule) entry {
	return entry{
		Above: &r.Threshold, Below: &r.Threshold, Margin: &r.Margin, Severity: &r.Severity, Scope: (*scope)(&r.Scope),
		Hold: (*duration)(&r.Hold), Clear: (*duration)(&r.Clear), Cooldown: (*duration)(&r.Cooldown), Repeat: (*duration)(&r.Repeat),
		Codes: &r.Codes, IgnoreCodes: &r.IgnoreCodes, Enabled: &r.Enabled, Notify: &r.Targets,
	}
}

// flatten takes joined errors apart.
func flatten(err error) (all []error) {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return slices.DeleteFunc([]error{err}, func(err error) bool { return err == nil })
	}
	for _, err := range joined.Unwrap() {
		all = append(all, flatten(err)...)
	}
	return all
}
