package rulefile

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/alerts/notify"
	"github.com/gpuwhy/gpuwhy/internal/nearest"
)

// decode reads a node into a struct whose fields have their key as a yaml tag, or several as a keys
// tag. It refuses unknown keys and leaves fields without a key alone. where is a prefix for errors,
// such as "rules[2]: ". It returns the keys that are present; nil if the node is invalid.
func (p *parser) decode(node *yaml.Node, where string, into any) map[string]bool {
	before := len(p.errs)
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if node.Kind != yaml.MappingNode {
		p.wrong(node.Line, "%smust be a map of keys and values", where)
		return nil
	}
	fields := map[string]reflect.Value{}
	var names []string
	target := reflect.ValueOf(into).Elem()
	for _, f := range reflect.VisibleFields(target.Type()) {
		if f.Anonymous {
			continue
		}
		for name := range strings.SplitSeq(cmp.Or(f.Tag.Get("keys"), f.Tag.Get("yaml")), ",") {
			fields[name] = target.FieldByIndex(f.Index)
			names = append(names, name)
		}
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		field, known := fields[key.Value]
		switch {
		case !known:
			p.wrong(key.Line, "%sunknown key %q%s; known keys: %s", where, key.Value, nearest.Hint(key.Value, names), strings.Join(names, ", "))
		case seen[key.Value]:
			p.wrong(key.Line, "%s%s: appears twice", where, key.Value)
		case value.Tag == "!!null":
			p.wrong(key.Line, "%s%s: has no value: set one, or leave it out", where, key.Value)
		default:
			p.value(value, where, key.Value, field)
		}
		seen[key.Value] = true
	}
	if len(p.errs) > before {
		return nil
	}
	return seen
}

func (p *parser) value(node *yaml.Node, where, key string, field reflect.Value) {
	switch into := field.Addr().Interface().(type) {
	case *alert.Scope:
		p.decode(node, where+key+": ", into)
	case *[]notify.Target:
		var nodes []yaml.Node
		p.mismatch(node.Decode(&nodes), where)
		*into = make([]notify.Target, len(nodes))
		for i := range nodes {
			p.decode(&nodes[i], fmt.Sprintf("%s[%d]: ", key, i), &(*into)[i])
		}
	case *time.Duration:
		p.duration(node, where, into)
	default:
		p.mismatch(node.Decode(into), where)
	}
}

// duration reads a duration as Go writes it: "90s", "1h30m", 0. The YAML package itself refuses a
// plain 0, and quotes only the beginning of an invalid one.
func (p *parser) duration(node *yaml.Node, where string, into *time.Duration) {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if node.Kind != yaml.ScalarNode {
		p.mismatch(node.Decode(into), where)
		return
	}
	var err error
	if *into, err = time.ParseDuration(node.Value); err != nil {
		p.wrong(node.Line, "%s%q is %s", where, node.Value, inWords["time.Duration"])
	}
}

// lineOf returns the line of a field such as "scope.gpus", or of what is there of it.
func lineOf(node *yaml.Node, field string) int {
	line := node.Line
	for _, name := range strings.FieldsFunc(field, func(r rune) bool { return strings.ContainsRune(".[]", r) }) {
		i := slices.IndexFunc(node.Content, func(n *yaml.Node) bool { return n.Value == name })
		if node.Kind == yaml.SequenceNode {
			i, _ = strconv.Atoi(name)
			line, node = node.Content[i].Line, node.Content[i]
		} else if node.Kind == yaml.MappingNode && i >= 0 {
			line, node = node.Content[i].Line, node.Content[i+1]
		}
	}
	return line
}

var (
	linePattern     = regexp.MustCompile(`(?s)(?:^|yaml: )line (\d+): (.*)`) // a value may have lines
	mismatchPattern = regexp.MustCompile("(?s)^cannot unmarshal !!(\\w+)(?: `(.*)`)? into (.*)$")
)

// inWords say how a value does not fit a Go type; by default it is not a string.
var inWords = map[string]string{
	"float64": "not a number", "int": "not a whole number", "bool": "not true or false",
	"[]int": "not a list of whole numbers", "[]string": "not a list of strings", "[]yaml.Node": "not a list",
	"time.Duration": "not a duration: write it as 30s, 5m or 1h30m",
}

func (p *parser) mismatch(err error, where string) {
	if err == nil {
		return
	}
	texts := []string{err.Error()}
	if many, ok := errors.AsType[*yaml.TypeError](err); ok {
		texts = many.Errors
	}
	for _, text := range texts {
		line, what := lined(text)
		if m := mismatchPattern.FindStringSubmatch(what); m != nil {
			given := map[string]string{"seq": "a list", "map": "a map"}[m[1]]
			if m[2] != "" {
				given = strconv.Quote(m[2])
			}
			what = given + " is " + cmp.Or(inWords[m[3]], "not a string")
		}
		p.wrong(line, "%s%s", where, what)
	}
}

// lined takes the line out of an error of the YAML package.
func lined(text string) (line int, what string) {
	if m := linePattern.FindStringSubmatch(text); m != nil {
		if line, err := strconv.Atoi(m[1]); err == nil {
			return line, m[2]
		}
	}
	return 1, strings.TrimPrefix(text, "yaml: ")
}
