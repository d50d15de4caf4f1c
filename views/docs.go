package views

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuwhy/gpuwhy/internal/serve/apidoc"
)

// An operation is one method of one address.
type operation struct {
	*apidoc.Operation
	anchor string
}

// operations returns the operations with a tag.
func operations(doc *apidoc.Document, tag string) []operation {
	var out []operation
	for _, path := range doc.Paths {
		for _, op := range path.Value {
			if op.Tag == tag {
				out = append(out, operation{op, anchorOf(strings.ToLower(op.Method), op.Path)})
			}
		}
	}
	return out
}

// body returns the schema of the JSON that a client sends; nil if it sends none.
func (o operation) body() *apidoc.Schema {
	if o.Body == nil || o.Body.Content[0].Type != "application/json" {
		return nil
	}
	return o.Body.Content[0].Schema
}

// example returns an example response as JSON; may be empty.
func (o operation) example() string {
	for _, a := range o.Answers {
		if a.Status < http.StatusMultipleChoices && len(a.Content) > 0 && a.Content[0].Example != nil {
			return indented(a.Content[0].Example)
		}
	}
	return ""
}

// byName returns the types of a document, sorted by name.
func byName(schemas apidoc.Members[*apidoc.Schema]) apidoc.Members[*apidoc.Schema] {
	return slices.SortedFunc(slices.Values(schemas), func(a, b apidoc.Member[*apidoc.Schema]) int { return cmp.Compare(a.Name, b.Name) })
}

// A typeName names a type in words: "list of GPU".
type typeName struct {
	before string // "list of "
	name   string
	anchor string // anchor of the type on the page; empty for basic types
}

// nameOf returns the type name of a value, and whether the value may be null.
func nameOf(s *apidoc.Schema) (name typeName, null bool) {
	switch {
	case s.Ref != "":
		name := lastPart(s.Ref)
		return typeName{name: name, anchor: anchorOf("type", name)}, false
	case len(s.AllOf) > 0:
		return nameOf(s.AllOf[0])
	case len(s.OneOf) > 0:
		name, _ = nameOf(s.OneOf[0])
	case s.Items != nil:
		name = within("list of ", s.Items)
	case s.Values() != nil:
		name = within("map of ", s.Values())
	case s.Format == "date-time":
		name.name = "time"
	default:
		name.name = strings.Join(slices.DeleteFunc(slices.Clone(s.Type), func(t string) bool { return t == "null" }), " or ")
	}
	return name, s.Nullable()
}

func within(before string, s *apidoc.Schema) typeName {
	name, null := nameOf(s)
	name.before = before + name.before + either(null, "nullable ", "")
	return name
}

// rangeOf returns the range of a value, such as "0 to 100", or its possible values.
func rangeOf(s *apidoc.Schema) string {
	switch {
	case len(s.Enum) > 0:
		var values []string
		for _, v := range s.Enum {
			if text, ok := v.(string); ok {
				values = append(values, text)
			}
		}
		return strings.Join(values, ", ")
	case s.Minimum != nil && s.Maximum != nil:
		return exact(*s.Minimum) + " to " + exact(*s.Maximum)
	case s.Minimum != nil:
		return "at least " + exact(*s.Minimum)
	case s.MaxLength > 0:
		return "at most " + strconv.Itoa(s.MaxLength) + " characters"
	default:
		return ""
	}
}

func lastPart(ref string) string { return ref[strings.LastIndexByte(ref, '/')+1:] }

var notInAnchors = regexp.MustCompile(`[^A-Za-z0-9_]+`)

func anchorOf(kind, name string) string {
	return kind + "-" + strings.Trim(notInAnchors.ReplaceAllString(name, "-"), "-")
}

var (
	link   = regexp.MustCompile(`\[([^\]]+)\]\([^)]+\)`)
	spaces = regexp.MustCompile(`\s+`)
)

// paragraphs turns a document's Markdown into plain text.
func paragraphs(text string) []string {
	text = strings.NewReplacer("**", "", "`", "").Replace(text)
	return each(strings.Split(text, "\n\n"), func(p *string) string {
		return link.ReplaceAllString(spaces.ReplaceAllString(*p, " "), "$1")
	})
}

func indented(example json.RawMessage) string {
	var out bytes.Buffer
	if err := json.Indent(&out, example, "", "  "); err != nil {
		panic(fmt.Sprintf("an example is no JSON: %v", err))
	}
	return out.String()
}
