package apidoc

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuwhy/gpuwhy/internal/contract"
)

// A Schema is a JSON Schema (2020-12), as far as the API needs it.
type Schema struct {
	Ref         string           `json:"$ref,omitempty"`
	Type        Types            `json:"type,omitempty"`
	Format      string           `json:"format,omitempty"`
	Description string           `json:"description,omitempty"`
	Text        string           `json:"-"`                // the description without the unit
	Unit        string           `json:"x-unit,omitempty"` // as people write it: "MiB"
	Const       any              `json:"const,omitempty"`
	Enum        []any            `json:"enum,omitempty"`
	Minimum     *float64         `json:"minimum,omitempty"`
	Maximum     *float64         `json:"maximum,omitempty"`
	MaxItems    int              `json:"maxItems,omitempty"`
	MaxLength   int              `json:"maxLength,omitempty"`
	Items       *Schema          `json:"items,omitempty"`
	Properties  Members[*Schema] `json:"properties,omitempty"`
	Required    []string         `json:"required,omitempty"`
	OneOf       []*Schema        `json:"oneOf,omitempty"`
	AllOf       []*Schema        `json:"allOf,omitempty"`
	// A Schema is what an object with any names has; false closes one, which has
	// none but its properties.
	Additional any `json:"additionalProperties,omitempty"`
}

// Values is the schema of what an object with any names has; nil for all else.
func (s *Schema) Values() *Schema {
	values, _ := s.Additional.(*Schema)
	return values
}

// Types are the JSON types that a value may have. One alone is written as a
// string.
type Types []string

// MarshalJSON implements [json.Marshaler].
func (t Types) MarshalJSON() ([]byte, error) {
	if len(t) == 1 {
		return json.Marshal(t[0])
	}
	return json.Marshal([]string(t))
}

// Nullable reports whether null is one of the values.
func (s *Schema) Nullable() bool {
	return slices.Contains(s.Type, "null") || slices.ContainsFunc(s.OneOf, (*Schema).Nullable)
}

// Members are the members of an object in their order.
type Members[T any] []Member[T]

// A Member is one of them.
type Member[T any] struct {
	Name  string
	Value T
}

// MarshalJSON implements [json.Marshaler].
func (m Members[T]) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for i, member := range m {
		value, err := json.Marshal(member.Value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", member.Name, err)
		}
		if i > 0 {
			out = append(out, ',')
		}
		name, err := json.Marshal(member.Name)
		if err != nil {
			return nil, err
		}
		out = append(append(append(out, name...), ':'), value...)
	}
	return append(out, '}'), nil
}

// Get returns the member of that name, or the zero value.
func (m Members[T]) Get(name string) T {
	for _, member := range m {
		if member.Name == name {
			return member.Value
		}
	}
	var none T
	return none
}

// at returns the place of the member of that name, which it may add.
func (m *Members[T]) at(name string) *T {
	i := slices.IndexFunc(*m, func(member Member[T]) bool { return member.Name == name })
	if i < 0 {
		i = len(*m)
		*m = append(*m, Member[T]{Name: name})
	}
	return &(*m)[i].Value
}

//go:embed comments.json
var commentsFile []byte

// comments are those of the source, by "Type" and "Type.json_name".
func comments() map[string]string {
	var out map[string]string
	if err := json.Unmarshal(commentsFile, &out); err != nil {
		panic(fmt.Sprintf("apidoc: the embedded comments are no JSON: %v", err))
	}
	return out
}

// A unit is what a number counts, and between which bounds it lies.
type unit struct {
	name     string   // as a struct tag gives it: unit:"mib"
	suffixes []string // ends of fields' names that promise it
	text     string   // as people write it; empty for plain numbers
	min, max *float64
}

var units = []unit{
	{"percent", []string{"percent"}, "%", new(0.0), new(100.0)},
	{"mib", []string{"_mb"}, "MiB", new(0.0), nil},
	{"bytes_per_second", []string{"_bytes_per_second"}, "B/s", new(0.0), nil},
	{"celsius", []string{"_celsius"}, "°C", nil, nil},
	{"watts", []string{"_watts"}, "W", new(0.0), nil},
	{"joules", []string{"_joules"}, "J", new(0.0), nil},
	{"megahertz", []string{"_mhz"}, "MHz", new(0.0), nil},
	{"seconds", []string{"_seconds"}, "s", new(0.0), nil},
	{"rpm", []string{"rpm"}, "1/min", new(0.0), nil},
	{"fps", []string{"_fps"}, "1/s", new(0.0), nil},
	{"microseconds", []string{"_us"}, "µs", new(0.0), nil},
	{"lanes", []string{"width"}, "lanes", new(0.0), nil},
	{"count", []string{"count", "_id", "index", "pid", "generation"}, "", new(0.0), nil},
	{name: "any"}, // it depends
}

// unitOf returns the unit of a tag, or else the one that a field's name ends in.
func unitOf(at, tag, field string) unit {
	i := slices.IndexFunc(units, func(u unit) bool {
		if tag != "" {
			return u.name == tag
		}
		return slices.ContainsFunc(u.suffixes, func(suffix string) bool { return strings.HasSuffix(field, suffix) })
	})
	if i < 0 {
		panic(fmt.Sprintf("apidoc: %s is a number of the unknown unit %q", at, tag))
	}
	return units[i]
}

// Enumerations that several fields share, by the name in their tag.
var enumerations = map[string]string{
	"quality": "not_reported,not_supported,not_permitted,stale,doubtful",
	"source":  "nvml,nvidia-smi,amdgpu,intel,kubernetes,simulated,mixed",
	"state":   "ok,not_answering,lost,asleep",
	"status":  "starting,ok,degraded,no_gpu",
}

// Schemas are the schemas of Go types, those of structs by their names. A field that
// says too little of itself makes the methods panic: a test makes the documents.
type Schemas struct {
	prefix   string // of references, such as "#/components/schemas/"
	comments map[string]string
	named    Members[*Schema]
}

// NewSchemas returns an empty set, whose references begin with the prefix.
func NewSchemas(prefix string) *Schemas {
	return &Schemas{prefix: prefix, comments: comments()}
}

// Of returns the schema of a type: of a struct, a reference to it.
func (s *Schemas) Of(t reflect.Type) *Schema { return s.of(t, "") }

// OfBody returns the schema of what a client sends: it has no members but those.
func (s *Schemas) OfBody(t reflect.Type) *Schema {
	ref := s.Of(t)
	s.named.Get(typeName(t)).Additional = false
	return ref
}

// pageOfForm is what a form may have beside the members of a body.
var pageOfForm = Member[*Schema]{"page", &Schema{
	Type: Types{"string"}, Description: "The page that the form is on, to which the answer leads: alerts, or gpu/ and a UUID; the dashboard for all else.",
}}

// OfForm returns the schema of the form that has the members of a struct, if any.
func (s *Schemas) OfForm(t reflect.Type) *Schema {
	form := &Schema{Type: Types{"object"}, Additional: false}
	if t != nil {
		body := s.named.Get(typeName(t))
		form.Properties = slices.Clone(body.Properties)
		form.Required = body.Required
	}
	form.Properties = append(form.Properties, pageOfForm)
	return form
}

func (s *Schemas) of(t reflect.Type, format string) *Schema {
	switch t {
	case reflect.TypeFor[messageID]():
		return &Schema{Type: Types{"number", "string"}}
	case reflect.TypeFor[contract.Bytes](): // MiB, with decimals
		return &Schema{Type: Types{"number", "null"}}
	case reflect.TypeFor[contract.Time]():
		return &Schema{Type: Types{"string", "null"}, Format: format}
	}
	if get, ok := t.MethodByName("Get"); ok && strings.HasPrefix(t.Name(), "Reading[") {
		return orNull(s.of(get.Type.Out(0), format))
	}
	switch t.Kind() {
	case reflect.Bool:
		return &Schema{Type: Types{"boolean"}}
	case reflect.Int, reflect.Uint64, reflect.Int64:
		return &Schema{Type: Types{"integer"}}
	case reflect.Float64:
		return &Schema{Type: Types{"number"}}
	case reflect.String:
		return &Schema{Type: Types{"string"}, Format: format}
	case reflect.Interface: // a GPU's index or UUID
		return &Schema{Type: Types{"integer", "string"}}
	case reflect.Slice:
		return &Schema{Type: Types{"array"}, Items: s.of(t.Elem(), format)}
	case reflect.Map:
		return &Schema{Type: Types{"object"}, Additional: s.of(t.Elem(), format)}
	case reflect.Pointer:
		return orNull(s.of(t.Elem(), format))
	case reflect.Struct:
		return s.ref(t)
	default:
		panic(fmt.Sprintf("apidoc: no schema for %v", t))
	}
}

func orNull(s *Schema) *Schema {
	if s.Ref != "" {
		return &Schema{OneOf: []*Schema{s, {Type: Types{"null"}}}}
	}
	s.Type = append(s.Type, "null")
	return s
}

// ref describes a struct when it is first seen.
func (s *Schemas) ref(t reflect.Type) *Schema {
	name := typeName(t)
	ref := &Schema{Ref: s.prefix + name}
	if s.named.Get(name) != nil {
		return ref
	}
	schema := &Schema{Type: Types{"object"}, Description: sentence(s.comments[t.Name()])}
	*s.named.at(name) = schema // before its fields, which may refer to it
	s.fields(t, schema)
	return ref
}

// typeName begins with a capital for an unexported type too.
func typeName(t reflect.Type) string { return strings.ToUpper(t.Name()[:1]) + t.Name()[1:] }

// fields adds those of t, and those of what it embeds.
func (s *Schemas) fields(t reflect.Type, into *Schema) {
	for f := range t.Fields() {
		if f.Anonymous {
			s.fields(f.Type, into)
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		*into.Properties.at(name) = s.field(t, f, name)
		if options != "omitempty" && options != "omitzero" {
			into.Required = append(into.Required, name)
		}
	}
}

func (s *Schemas) field(owner reflect.Type, f reflect.StructField, name string) *Schema {
	var schema *Schema
	if named, ok := f.Tag.Lookup("schema"); ok {
		schema = orNull(&Schema{Ref: s.prefix + named})
	} else {
		schema = s.of(f.Type, f.Tag.Get("format"))
	}
	at := owner.Name() + "." + name
	comment := s.comments[at]
	if comment == "" {
		panic("apidoc: " + at + " has no comment")
	}
	if f.Tag.Get("null") != "" {
		schema = orNull(schema)
	}
	innermost := schema.Innermost()
	innermost.number(at, f, name)
	innermost.enumerate(f)
	if longest, ok := tagged(at, f, "maxlength"); ok {
		innermost.MaxLength = int(longest)
	}
	description := sentence(comment)
	if schema.Nullable() && !strings.Contains(strings.ToLower(description), "null") {
		description += " Null where it is not reported."
	}
	if schema.Ref != "" { // what stands beside a $ref is lost on some readers
		schema = &Schema{AllOf: []*Schema{schema}}
	}
	schema.Text = strings.TrimSpace(description)
	schema.Description = schema.Text
	if unit := innermost.Unit; unit != "" { // few readers show x-unit
		schema.Description += " Unit: " + unit + "."
	}
	return schema
}

// Innermost is the schema of a list's elements, or of an object's values.
func (s *Schema) Innermost() *Schema {
	for {
		switch {
		case s.Items != nil:
			s = s.Items
		case s.Values() != nil:
			s = s.Values()
		default:
			return s
		}
	}
}

// number gives a number its unit and bounds.
func (s *Schema) number(at string, f reflect.StructField, name string) {
	if len(s.Type) == 0 || s.Type[0] != "number" && s.Type[0] != "integer" {
		return
	}
	u := unitOf(at, f.Tag.Get("unit"), name)
	s.Unit, s.Minimum, s.Maximum = u.text, u.min, u.max
	for key, bound := range map[string]**float64{"min": &s.Minimum, "max": &s.Maximum} {
		if f.Tag.Get(key) == "none" {
			*bound = nil
		} else if v, ok := tagged(at, f, key); ok {
			*bound = &v
		}
	}
}

// tagged returns the number that a tag of a field gives.
func tagged(at string, f reflect.StructField, key string) (float64, bool) {
	text, ok := f.Tag.Lookup(key)
	v, err := strconv.ParseFloat(text, 64)
	if ok && err != nil {
		panic(fmt.Sprintf("apidoc: %s: %s is %q, no number", at, key, text))
	}
	return v, ok
}

func (s *Schema) enumerate(f reflect.StructField) {
	values, ok := f.Tag.Lookup("enum")
	if !ok {
		return
	}
	for value := range strings.SplitSeq(cmp.Or(enumerations[values], values), ",") {
		s.Enum = append(s.Enum, value)
	}
	if s.Nullable() {
		s.Enum = append(s.Enum, nil)
	}
}

// sentence begins with a capital and ends with a full stop.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	text = strings.ToUpper(text[:1]) + text[1:]
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	return text
}
