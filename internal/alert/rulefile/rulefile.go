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

// A File is what is in force when it is.
type File struct {
	// Rules are all rules: the defaults as far as the file leaves them, and the
	// file's own.
	Rules []alert.Rule
	// Notify is whom they tell.
	Notify notify.Config
}

// Load reads a file, and checks that the addresses are where it says. Rules whose name is that of one of the defaults change
// what they write and leave the rest.
func Load(name string, defaults []alert.Rule) (*File, error) {
	// A pipe would be waited for, and could not be read again.
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
	if err != nil {
		return nil, inFile(name, err)
	}
	return file, nil
}

// inFile puts the file's name before each of the errors.
func inFile(name string, err error) error {
	var all Errors
	if !errors.As(err, &all) {
		return fmt.Errorf("%s: %w", name, err)
	}
	named := make(Errors, len(all))
	for i, e := range all {
		named[i] = e
		named[i].File = name
	}
	return named
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

// Errors are all that is wrong with a file, in the order of the lines; a line
// each.
type Errors []Error

func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i := range e {
		lines[i] = e[i].Error()
	}
	return strings.Join(lines, "\n")
}

// Parse reads the text of a file alone, no environment and no other files. Its
// error is an [Errors].
func Parse(text []byte, defaults []alert.Rule) (*File, error) {
	return parse(text, defaults, func(*notify.Config) error { return nil })
}

func parse(text []byte, defaults []alert.Rule, resolve func(*notify.Config) error) (*File, error) {
	p := &parser{}
	file := p.file(text, defaults, resolve)
	if len(p.errs) > 0 {
		slices.SortStableFunc(p.errs, func(a, b Error) int { return a.Line - b.Line })
		return nil, p.errs
	}
	return file, nil
}

// document is the form of a file.
type document struct {
	Rules         []yaml.Node `yaml:"rules"`
	Targets       []yaml.Node `yaml:"targets"`
	GroupWait     *duration   `yaml:"group_wait"`
	GroupInterval *duration   `yaml:"group_interval"`
	PublicURL     *string     `yaml:"public_url"`
}

// entry is a rule as it is written. What is nil is left as it was.
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

// duration is a time as Go writes it: "90s", "1h30m".
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
	var doc document
	if !p.decode(root, "", &doc) {
		return nil
	}
	p.rules(doc.Rules, out)
	if p.notify(root, &doc, &out.Notify) {
		p.invalid(root, doc.Targets, resolve(&out.Notify))
	}
	p.routes(doc.Rules, out)
	return out
}

// notify reads whom to tell. It reports whether that is good.
func (p *parser) notify(root *yaml.Node, doc *document, out *notify.Config) bool {
	before := len(p.errs)
	set((*duration)(&out.GroupWait), doc.GroupWait)
	set((*duration)(&out.GroupInterval), doc.GroupInterval)
	set(&out.PublicURL, doc.PublicURL)
	out.Targets = make([]notify.Target, len(doc.Targets))
	for i := range doc.Targets {
		p.decode(&doc.Targets[i], fmt.Sprintf("targets[%d]", i), &out.Targets[i])
	}
	if len(p.errs) == before {
		p.invalid(root, doc.Targets, out.Check())
	}
	return len(p.errs) == before
}

// invalid says what is wrong with whom to tell, with its line.
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

// routes says which rules tell somebody who is not there.
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

// root is the one document of the text; nil where there is nothing in it.
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
		if !p.decode(node, where, &e) {
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
		e.apply(&rule)
		for _, err := range flatten(rule.Check()) {
			line := node.Line
			what := err.Error()
			if bad, ok := errors.AsType[*alert.Invalid](err); ok {
				line = lineOf(node, bad.Field)
			}
			p.wrong(line, "%s: %s", where, what)
		}
		if j >= 0 {
			out.Rules[j] = rule
		} else {
			out.Rules = append(out.Rules, rule)
		}
	}
}

// begin is the rule before the entry says anything: the default of that name, or
// what fits the thing that is watched.
func (p *parser) begin(node *yaml.Node, where string, e *entry, defaults []alert.Rule, j int) (alert.Rule, bool) {
	var rule alert.Rule
	switch {
	case j >= 0 && (e.Watch == nil || *e.Watch == defaults[j].Watch):
		rule = defaults[j]
	case j >= 0:
		p.wrong(lineOf(node, "watch"), "%s: watch: the rule of that name watches %s: leave it out, or take another name", where, defaults[j].Watch)
		return rule, false
	case e.Watch == nil:
		p.wrong(node.Line, "%s: watch: a rule whose name is none of the defaults must say what it watches: one of %s", where, list(alert.Watches()))
		return rule, false
	case !slices.Contains(alert.Watches(), *e.Watch):
		p.wrong(lineOf(node, "watch"), "%s: watch: %q is nothing that can be watched; it must be one of %s", where, string(*e.Watch), list(alert.Watches()))
		return rule, false
	default:
		rule = alert.Default(e.Name, *e.Watch)
	}
	field, other, given := "above", "below", e.Below
	if rule.Watch.Below() {
		field, other, given = "below", "above", e.Above
	}
	if given != nil && !rule.Watch.Condition() {
		p.wrong(lineOf(node, other), "%s: %s: %s fires %s its threshold: write %s", where, other, rule.Watch, field, field)
		return rule, false
	}
	return rule, true
}

func list[T ~string](items []T) string {
	out := make([]string, len(items))
	for i := range items {
		out[i] = string(items[i])
	}
	return strings.Join(out, ", ")
}

// apply writes over a rule what the entry says.
func (e *entry) apply(r *alert.Rule) {
	set(&r.Threshold, e.Above)
	set(&r.Threshold, e.Below)
	set(&r.Margin, e.Margin)
	set((*duration)(&r.Hold), e.Hold)
	set((*duration)(&r.Clear), e.Clear)
	set((*duration)(&r.Cooldown), e.Cooldown)
	set((*duration)(&r.Repeat), e.Repeat)
	set(&r.Severity, e.Severity)
	set(&r.Codes, e.Codes)
	set(&r.IgnoreCodes, e.IgnoreCodes)
	set(&r.Enabled, e.Enabled)
	set(&r.Targets, e.Notify)
	if s := e.Scope; s != nil {
		r.Scope = alert.Scope{Nodes: s.Nodes, GPUs: s.GPUs, Users: s.Users, Processes: s.Processes}
	}
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// flatten takes joined errors apart.
func flatten(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, err := range joined.Unwrap() {
			all = append(all, flatten(err)...)
		}
		return all
	}
	if err == nil {
		return nil
	}
	return []error{err}
}
