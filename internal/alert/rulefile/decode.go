package rulefile

import (
	"cmp"
	"errors"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// decode reads a node into a struct whose fields have yaml tags, and refuses
// unknown keys. Where is put before what is wrong, such as "rules[2]: ". It
// reports whether the node is good.
func (p *parser) decode(node *yaml.Node, where string, into any) bool {
	before := len(p.errs)
	p.keys(node, where, reflect.TypeOf(into).Elem())
	if len(p.errs) > before {
		return false
	}
	if err := node.Decode(into); err != nil {
		p.mismatch(err, where)
		return false
	}
	return true
}

// keys refuses keys that a struct has no field for, on all levels.
func (p *parser) keys(node *yaml.Node, where string, t reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if t.Kind() != reflect.Struct || t == reflect.TypeFor[yaml.Node]() {
		return
	}
	if node.Kind != yaml.MappingNode {
		p.wrong(node.Line, "%smust be a map of keys and values", where)
		return
	}
	fields := map[string]reflect.Type{}
	var names []string
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if name == "" || name == "-" {
			continue
		}
		fields[name] = f.Type
		names = append(names, name)
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		of, known := fields[key.Value]
		switch {
		case !known:
			p.wrong(key.Line, "%sunknown key %q; there are %s", where, key.Value, strings.Join(names, ", "))
		case seen[key.Value]:
			p.wrong(key.Line, "%s%s: is there twice", where, key.Value)
		case value.Tag == "!!null":
			p.wrong(key.Line, "%s%s: has no value: give it one, or leave it out", where, key.Value)
		default:
			p.keys(value, where+key.Value+": ", of)
		}
		seen[key.Value] = true
	}
}

// lineOf returns the line of a field such as "scope.gpus" below a node, or the
// node's own line where it has no such field.
func lineOf(node *yaml.Node, field string) int {
	line := node.Line
	for name := range strings.SplitSeq(field, ".") {
		i := slices.IndexFunc(node.Content, func(n *yaml.Node) bool { return n.Value == name })
		if node.Kind != yaml.MappingNode || i < 0 || i+1 >= len(node.Content) {
			break
		}
		line, node = node.Content[i].Line, node.Content[i+1]
	}
	return line
}

var (
	linePattern     = regexp.MustCompile(`(?:^|yaml: )line (\d+): (.*)`)
	mismatchPattern = regexp.MustCompile("^cannot unmarshal !!(\\w+)(?: `(.*)`)? into (.*)$")
)

// inWords are what people call Go's types.
var inWords = map[string]string{
	"float64": "a number", "int": "a whole number", "bool": "true or false", "string": "a text",
	"[]int": "a list of whole numbers", "[]string": "a list of texts", "[]yaml.Node": "a list",
}

// mismatch says which values have a wrong type.
func (p *parser) mismatch(err error, where string) {
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
			what = given + " is not " + cmp.Or(inWords[m[3]], "a text")
		}
		p.wrong(line, "%s%s", where, what)
	}
}

// syntax says where the text is not YAML.
func (p *parser) syntax(err error) {
	line, what := lined(err.Error())
	p.wrong(line, "no valid YAML: %s", what)
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
