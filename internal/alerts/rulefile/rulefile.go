// Package rulefile reads the YAML file with alert rules and message targets. A file is accepted as
// a whole or not at all. Its errors have line numbers and are reported together.
package rulefile

import (
	"bytes"
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/alerts/notify"
	"github.com/gpuwhy/gpuwhy/internal/nearest"
	"github.com/gpuwhy/gpuwhy/internal/regular"
)

// largest is how long a file may be.
const largest = 1 << 20

// Schema is the JSON Schema (2020-12) of the file, for editors.
//
//go:embed schema.json
var Schema []byte

// A File is the content of a rules file.
type File struct {
	// Rules are all rules: the defaults, as the file changes them, and the
	// file's own.
	Rules  []alert.Rule
	Notify notify.Config // who gets messages
}

// Load reads a file and checks that the addresses are where it says. A rule named like a default
// one changes only the keys it sets.
func Load(name string, defaults []alert.Rule) (*File, error) {
	text, err := regular.Read(name, largest)
	switch {
	case errors.Is(err, regular.ErrLong):
		return nil, Errors{{name, 1, "the file is larger than 1 MiB: shorten it, or name another"}}
	case errors.Is(err, regular.ErrIrregular):
		return nil, fmt.Errorf("%s is a folder, a pipe or a device: name a regular file that has the rules", name)
	case err != nil:
		return nil, err
	}
	return parse(name, text, defaults, (*notify.Config).Resolve)
}

// An Error is one thing that is wrong with a file.
type Error struct {
	File string
	Line int    // from 1
	What string // with where it is: "rules[2] (too_hot): above: must be …"
}

func (e Error) Error() string { return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.What) }

// Errors are all errors of a file, in the order of its lines.
type Errors []Error

func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i := range e {
		lines[i] = e[i].Error()
	}
	return strings.Join(lines, "\n")
}

type document struct {
	Rules         []yaml.Node `yaml:"rules"`
	notify.Config `yaml:",inline"`
}

type parser struct {
	file string
	errs Errors
}

func (p *parser) wrong(line int, format string, args ...any) {
	p.errs = append(p.errs, Error{File: p.file, Line: max(line, 1), What: fmt.Sprintf(format, args...)})
}

// invalid adds the errors of a rule or a configuration that a node has.
func (p *parser) invalid(node *yaml.Node, where string, err error) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range joined.Unwrap() {
			p.invalid(node, where, err)
		}
	} else if bad, ok := errors.AsType[*alert.Invalid](err); ok {
		p.wrong(lineOf(node, bad.Field), "%s%v", where, bad)
	} else if err != nil {
		p.wrong(node.Line, "%s%v", where, err)
	}
}

// parse reads a file's text. resolve checks its targets. The error is an [Errors].
func parse(name string, text []byte, defaults []alert.Rule, resolve func(*notify.Config) error) (*File, error) {
	p := &parser{file: name}
	doc := document{Config: notify.Defaults()}
	if root := p.root(text); root != nil && p.decode(root, "", &doc) != nil {
		p.invalid(root, "", resolve(&doc.Config))
	}
	file := &File{p.rules(&doc, defaults), doc.Config}
	if len(p.errs) > 0 {
		slices.SortStableFunc(p.errs, func(a, b Error) int { return cmp.Compare(a.Line, b.Line) })
		return nil, p.errs
	}
	return file, nil
}

// root returns the only document of the text; nil where the text is empty.
func (p *parser) root(text []byte) *yaml.Node {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var doc yaml.Node
	switch err := decoder.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		line, what := lined(err.Error())
		p.wrong(line, "invalid YAML: %s", what)
		return nil
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		p.wrong(1, "the file has several YAML documents, and only one is allowed")
		return nil
	}
	if root := doc.Content[0]; root.Tag != "!!null" {
		return root
	}
	return nil
}

// rules returns the default rules, as a document changes them, and its own.
func (p *parser) rules(doc *document, defaults []alert.Rule) []alert.Rule {
	rules := slices.Clone(defaults)
	lines := map[string]int{}   // of the rules so far, by their names
	targets := len(p.errs) == 0 // all of them are known
	for i := range doc.Rules {
		node, where := &doc.Rules[i], fmt.Sprintf("rules[%d]: ", i)
		var written alert.Rule
		keys := p.decode(node, where, &written)
		if keys == nil {
			continue
		}
		line, twice := lines[written.Name]
		lines[written.Name] = node.Line
		if written.Name != "" {
			where = fmt.Sprintf("rules[%d] (%s): ", i, written.Name)
		}
		if twice {
			p.wrong(node.Line, "%sname: line %d already has a rule with that name", where, line)
			continue
		}
		rule, err := begin(&written, keys, defaults)
		if err == nil {
			p.decode(node, where, &rule)
			err = rule.Check()
		}
		p.invalid(node, where, err)
		for _, name := range rule.Targets {
			if targets && !slices.ContainsFunc(doc.Targets, func(t notify.Target) bool { return t.Name == name }) {
				var names []string
				for i := range doc.Targets {
					names = append(names, doc.Targets[i].Name)
				}
				p.wrong(lineOf(node, "notify"), "%snotify: no target is named %q%s%s", where, name, nearest.Hint(name, names), thereAre(names))
			}
		}
		if j := slices.IndexFunc(rules, func(r alert.Rule) bool { return r.Name == rule.Name }); j >= 0 {
			rules[j] = rule
		} else {
			rules = append(rules, rule)
		}
	}
	return rules
}

// thereAre lists names at the end of an error.
func thereAre(names []string) string {
	if len(names) == 0 {
		return "; no targets are defined"
	}
	return "; targets: " + strings.Join(names, ", ")
}

func words[T ~string](all []T) []string {
	out := make([]string, len(all))
	for i := range all {
		out[i] = string(all[i])
	}
	return out
}

// begin returns the rule that a rule with these keys starts from: the default one with its name, or
// one that fits its watch. Its error is an [alert.Invalid].
func begin(written *alert.Rule, keys map[string]bool, defaults []alert.Rule) (rule alert.Rule, err error) {
	name, watch := written.Name, written.Watch
	j := slices.IndexFunc(defaults, func(r alert.Rule) bool { return r.Name == name })
	switch {
	case name == "":
		return rule, alert.Refuse("name", "every rule needs one")
	case j >= 0 && (!keys["watch"] || watch == defaults[j].Watch):
		rule = defaults[j]
	case j >= 0:
		return rule, alert.Refuse("watch", "the rule with that name watches %s: leave this out, or choose another name", defaults[j].Watch)
	case !keys["watch"]:
		return rule, alert.Refuse("watch", "required, because no default rule has that name: one of %s", list(alert.Watches()))
	case !slices.Contains(alert.Watches(), watch):
		return rule, alert.Refuse("watch", "%q is not something gpuwhy can watch%s; use one of %s", string(watch), nearest.Hint(string(watch), words(alert.Watches())), list(alert.Watches()))
	default:
		rule = alert.Default(name, watch)
	}
	side, other := "above", "below"
	if rule.Watch.Below() {
		side, other = other, side
	}
	if keys[other] && !rule.Watch.Condition() {
		return rule, alert.Refuse(other, "%s fires %s its threshold: write %s", rule.Watch, side, side)
	}
	return rule, nil
}

func list(watches []alert.Watch) string {
	return strings.Join(strings.Fields(strings.Trim(fmt.Sprint(watches), "[]")), ", ")
}
