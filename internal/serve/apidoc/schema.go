package apidoc

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/gpuwhy/gpuwhy/internal/contract"
)

// A Schema is a JSON Schema (2020-12), limited to what the API needs.
type Schema struct {
	Ref         string           `json:"$ref,omitempty"`
	Type        Types            `json:"type,omitempty"`
	Format      string           `json:"format,omitempty"`
	Description string           `json:"description,omitempty"`
	Text        string           `json:"-"`                // the description without the unit
	Unit        string           `json:"x-unit,omitempty"` // as people write it: "MiB"
	Enum        []any            `json:"enum,omitempty"`
	Minimum     *float64         `json:"minimum,omitempty"`
	Maximum     *float64         `json:"maximum,omitempty"`
	MaxLength   int              `json:"maxLength,omitempty"`
	Items       *Schema          `json:"items,omitempty"`
	MinItems    int              `json:"minItems,omitempty"`
	MaxItems    int              `json:"maxItems,omitempty"`
	Properties  Members[*Schema] `json:"properties,omitempty"`
	Required    []string         `json:"required,omitempty"`
	OneOf       []*Schema        `json:"oneOf,omitempty"`
	AllOf       []*Schema        `json:"allOf,omitempty"`
	// A Schema is that of the values of an object with any names. False allows no
	// names but the properties.
	Additional any `json:"additionalProperties,omitempty"`
	// Ignored says that the field is accepted and has no effect, as the tag ignored:"true" says.
	Ignored bool `json:"-"`
	// Secret says that nobody may read the value on a screen or in a record, as the tag secret:"true" says.
	Secret bool `json:"-"`
}

// SchemaOf returns the schema of a struct, as the API's document has it.
func SchemaOf(value any) *Schema {
	s, t := newSchemas(), reflect.TypeOf(value)
	s.SchemaOf(t)
	return s.named.Get(typeName(t))
}

// Values is the schema of the values of an object with any names. It is nil for all
// other schemas.
func (s *Schema) Values() *Schema {
	values, _ := s.Additional.(*Schema)
	return values
}

// Types are the JSON types that a value may have. A single one is written as a string.
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

// Members are the members of an object, in the order in which they are written.
type Members[T any] []Member[T]

// A Member is one of them.
type Member[T any] struct {
	Name  string
	Value T
}

// MarshalJSON implements [json.Marshaler].
func (m Members[T]) MarshalJSON() ([]byte, error) {
	members := make([][]byte, len(m))
	for i, member := range m {
		object, err := json.Marshal(map[string]T{member.Name: member.Value})
		if err != nil {
			return nil, err
		}
		members[i] = object[1 : len(object)-1]
	}
	return slices.Concat([]byte("{"), bytes.Join(members, []byte(",")), []byte("}")), nil
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

// value returns the place of the member with that name. It adds the member if needed.
func (m *Members[T]) value(name string) *T {
	i := slices.IndexFunc(*m, func(member Member[T]) bool { return member.Name == name })
	if i < 0 {
		i = len(*m)
		*m = append(*m, Member[T]{Name: name})
	}
	return &(*m)[i].Value
}

//go:embed *.json *.tmpl *.md
var files embed.FS

func read(name string) string {
	text, err := files.ReadFile(name)
	if err != nil {
		panic(fmt.Sprintf("apidoc: %v", err))
	}
	return string(text)
}

func load[T any](name string) (out T) {
	decoder := json.NewDecoder(strings.NewReader(read(name)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&out); err != nil {
		panic(fmt.Sprintf("apidoc: %s: %v", name, err))
	}
	return out
}

// A vocabulary is what field tags refer to.
type vocabulary struct {
	Units        []unit              `json:"units"`
	Enumerations map[string][]string `json:"enumerations"` // that several fields share
}

// A unit is what a number counts, and between which bounds it lies.
type unit struct {
	Name     string   `json:"name"`     // as a struct tag gives it: unit:"mib"
	Suffixes []string `json:"suffixes"` // ends of fields' names that promise it
	Text     string   `json:"text"`     // as people write it; empty for plain numbers
	Min      *float64 `json:"min"`
	Max      *float64 `json:"max"`
}

// unitOf returns the unit of a tag, or else the one that a field's name ends in.
func (s *schemas) unitOf(member, tag, field string) unit {
	i := slices.IndexFunc(s.Units, func(u unit) bool {
		if tag != "" {
			return u.Name == tag
		}
		return slices.ContainsFunc(u.Suffixes, func(suffix string) bool { return strings.HasSuffix(field, suffix) })
	})
	if i < 0 {
		panic(fmt.Sprintf("apidoc: %s is a number of the unknown unit %q", member, tag))
	}
	return s.Units[i]
}

const schemaRefs = "#/components/schemas/"

// schemas are the schemas of Go types, structs by name. The methods panic on a field that says too
// little about itself; a test makes all documents.
type schemas struct {
	vocabulary
	comments map[string]string // of the source, by "Type" and "Type.json_name"
	named    Members[*Schema]
}

func newSchemas() *schemas { return &schemas{vocabulary: words(), comments: comments()} }

var (
	words    = sync.OnceValue(func() vocabulary { return load[vocabulary]("vocabulary.json") })
	comments = sync.OnceValue(func() map[string]string { return load[map[string]string]("comments.json") })
)

// SchemaOf returns the schema of a type: of a struct, a reference to it.
func (s *schemas) SchemaOf(t reflect.Type) *Schema { return s.schemaFor(t, "") }

// OfBody returns the schema of what a client sends. It allows no other members.
func (s *schemas) OfBody(t reflect.Type) *Schema {
	ref := s.SchemaOf(t)
	s.named.Get(typeName(t)).Additional = false
	return ref
}

// pageOfForm is what a form may have beside the members of a body.
var pageOfForm = Member[*Schema]{"page", &Schema{
	Type: Types{"string"}, Description: "The form's page, to which the answer redirects: alerts, perhaps with a query, or gpu/ and a UUID; anything else means the dashboard.",
}}

// OfForm returns the schema of the form that has the members of a struct, if any.
func (s *schemas) OfForm(t reflect.Type) *Schema {
	form := &Schema{Type: Types{"object"}, Additional: false}
	if t != nil {
		body := s.named.Get(typeName(t))
		form.Properties = slices.Clone(body.Properties)
		form.Required = body.Required
	}
	form.Properties = append(form.Properties, pageOfForm)
	return form
}

func (s *schemas) schemaFor(t reflect.Type, format string) *Schema {
	switch t {
	case reflect.TypeFor[messageID]():
		return &Schema{Type: Types{"number", "string"}}
	case reflect.TypeFor[json.RawMessage](): // any value
		return new(Schema)
	case reflect.TypeFor[mergePatch]():
		return &Schema{Type: Types{"object"}}
	case reflect.TypeFor[json.RawMessage](): // of a type that the answer does not know
		return &Schema{Type: Types{"object", "array", "string", "number", "boolean", "null"}}
	case reflect.TypeFor[contract.Bytes](): // MiB, with decimals
		return &Schema{Type: Types{"number", "null"}}
	case reflect.TypeFor[contract.Time]():
		return &Schema{Type: Types{"string", "null"}, Format: format}
	}
	if get, ok := t.MethodByName("Get"); ok && strings.HasPrefix(t.Name(), "Reading[") {
		return orNull(s.schemaFor(get.Type.Out(0), format))
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
		return &Schema{Type: Types{"array"}, Items: s.schemaFor(t.Elem(), format)}
	case reflect.Map:
		return &Schema{Type: Types{"object"}, Additional: s.schemaFor(t.Elem(), format)}
	case reflect.Pointer:
		return orNull(s.schemaFor(t.Elem(), format))
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
func (s *schemas) ref(t reflect.Type) *Schema {
	name := typeName(t)
	ref := &Schema{Ref: schemaRefs + name}
	if s.named.Get(name) != nil {
		return ref
	}
	schema := &Schema{Type: Types{"object"}, Description: sentence(s.comments[t.Name()])}
	*s.named.value(name) = schema // before its fields, which may refer to it
	s.fields(t, schema)
	return ref
}

// typeName begins with a capital for an unexported type too.
func typeName(t reflect.Type) string { return strings.ToUpper(t.Name()[:1]) + t.Name()[1:] }

// fields adds the fields of t and of what t embeds.
func (s *schemas) fields(t reflect.Type, schema *Schema) {
	for f := range t.Fields() {
		if f.Anonymous {
			s.fields(f.Type, schema)
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		*schema.Properties.value(name) = s.field(t, f, name)
		if options != "omitempty" && options != "omitzero" {
			schema.Required = append(schema.Required, name)
		}
	}
}

func (s *schemas) field(owner reflect.Type, f reflect.StructField, name string) *Schema {
	var schema *Schema
	if named, ok := f.Tag.Lookup("schema"); ok {
		schema = orNull(&Schema{Ref: schemaRefs + named})
	} else {
		schema = s.schemaFor(f.Type, f.Tag.Get("format"))
	}
	member := owner.Name() + "." + name
	comment := cmp.Or(f.Tag.Get("help"), s.comments[member])
	if comment == "" {
		panic("apidoc: " + member + " has no comment")
	}
	if f.Tag.Get("null") != "" {
		schema = orNull(schema)
	}
	innermost := schema.Innermost()
	s.number(innermost, member, f, name)
	s.enumerate(innermost, f)
	if longest, ok := tagged(member, f, "maxlength"); ok {
		innermost.MaxLength = int(longest)
	}
	for key, bound := range map[string]*int{"minitems": &schema.MinItems, "maxitems": &schema.MaxItems} {
		if n, ok := tagged(member, f, key); ok {
			*bound = int(n)
		}
	}
	description := sentence(comment)
	if schema.Nullable() && !strings.Contains(strings.ToLower(description), "null") {
		description += " Null if not reported."
	}
	if schema.Ref != "" { // what stands beside a $ref is lost on some readers
		schema = &Schema{AllOf: []*Schema{schema}}
	}
	schema.Ignored, schema.Secret = f.Tag.Get("ignored") != "", f.Tag.Get("secret") == "true"
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
func (s *schemas) number(schema *Schema, member string, f reflect.StructField, name string) {
	if len(schema.Type) == 0 || schema.Type[0] != "number" && schema.Type[0] != "integer" {
		return
	}
	u := s.unitOf(member, f.Tag.Get("unit"), name)
	schema.Unit, schema.Minimum, schema.Maximum = u.Text, u.Min, u.Max
	for key, bound := range map[string]**float64{"min": &schema.Minimum, "max": &schema.Maximum} {
		if f.Tag.Get(key) == "none" {
			*bound = nil
		} else if v, ok := tagged(member, f, key); ok {
			*bound = &v
		}
	}
}

// tagged returns the number that a tag of a field gives.
func tagged(member string, f reflect.StructField, key string) (float64, bool) {
	text, ok := f.Tag.Lookup(key)
	v, err := strconv.ParseFloat(text, 64)
	if ok && err != nil {
		panic(fmt.Sprintf("apidoc: %s: %s is %q, no number", member, key, text))
	}
	return v, ok
}

func (s *schemas) enumerate(schema *Schema, f reflect.StructField) {
	tag := f.Tag.Get("enum")
	if tag == "" {
		return
	}
	values, shared := s.Enumerations[tag]
	if !shared {
		values = strings.Split(tag, ",")
	}
	for _, value := range values {
		schema.Enum = append(schema.Enum, value)
	}
	if schema.Nullable() {
		schema.Enum = append(schema.Enum, nil)
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
