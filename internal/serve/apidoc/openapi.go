package apidoc

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"go.yaml.in/yaml/v3"

	"github.com/gpuwhy/gpuwhy/internal/contract"
)

// An Operation is one method of an address.
type Operation struct {
	Path        string // as in http.ServeMux: "/gpu/metrics/{id}"
	Method      string
	Tag         string // the client whose contract it is
	ID          string // a name for programs that generate clients
	Summary     string // a few words
	Description Text
	Params      []*Parameter
	Body        *Body
	Answers     []Answer // by status
	Fresh       bool     // the answer is about this very moment: it has no ETag
}

// Revalidated reports whether its answer has an ETag.
func (o *Operation) Revalidated() bool { return !o.Fresh && o.Method == http.MethodGet }

// Op returns the operation that the parts describe, in any order, still without its
// path and method.
func Op(tag, id, summary string, parts ...Part) Operation {
	o := Operation{Tag: tag, ID: id, Summary: summary}
	Parts(parts).addTo(&o)
	slices.SortStableFunc(o.Answers, func(a, b Answer) int { return cmp.Compare(a.Status, b.Status) })
	return o
}

// A Part is a part of an operation's description: a [Text], a [Parameter], a [Body], an [Answer],
// [Fresh], or several of them.
type Part interface{ addTo(o *Operation) }

// Parts are several.
type Parts []Part

// Text says more than the summary.
type Text string

// InPath returns a parameter in the path.
func InPath(name, description string, example any) Parameter {
	return Parameter{Name: name, In: "path", Description: description, Required: true, Schema: text(), Example: example}
}

// InQuery returns a parameter in the query, of which the example may be nil.
func InQuery(name, description string, example any) Parameter {
	return Parameter{Name: name, In: "query", Description: description, Schema: text(), Example: example}
}

// Repeated returns the parameter as one that may be given several times.
func (p Parameter) Repeated() Parameter {
	p.Schema, p.Example = &Schema{Type: Types{"array"}, Items: p.Schema}, []any{p.Example}
	return p
}

// IsRepeated reports whether it may be given several times.
func (p *Parameter) IsRepeated() bool { return p.Schema.Items != nil }

// A Body is what a client sends, as JSON or as a browser's form.
type Body struct {
	Of       any    // a value of the type that it is decoded to; nil for a form without fields
	Example  string // the name of one of package contract's; empty for none
	Required bool   // there must be one
	Content  []Media
}

// An Answer is one status that a route answers with.
type Answer struct {
	Status      int
	Description string
	ContentType string
	Of          any    // a value of the type that is encoded, nil if it is no JSON of ours
	Or          any    // another type that it may be; nil: there is none
	Example     string // the name of one of package contract's; empty for none
	Detail      string // what an error may say, for its example
	Content     []Media
}

// A Media is a body in one content type. [OpenAPI] makes it.
type Media struct {
	Type    string
	Schema  *Schema // nil if it is no JSON of ours
	Summary string  // of the example
	Example json.RawMessage
}

// Fresh says that an answer is about this very moment and must not be cached.
type Fresh struct{}

func (p Parts) addTo(o *Operation) {
	for _, part := range p {
		part.addTo(o)
	}
}

func (t Text) addTo(o *Operation)      { o.Description = t }
func (p Parameter) addTo(o *Operation) { o.Params = append(o.Params, &p) }
func (b Body) addTo(o *Operation)      { o.Body = &b }
func (a Answer) addTo(o *Operation)    { o.Answers = append(o.Answers, a) }
func (Fresh) addTo(o *Operation)       { o.Fresh = true }

// An API is everything that the document says besides operations and types.
type API struct {
	Version, Description string
	Base                 string // where all paths begin; empty for the root
	Tags                 []Tag  // in order
	// Problem makes what an error is encoded from.
	Problem      func(status int, detail string) any
	OtherProblem Answer // one that any operation may answer with
}

// A Tag groups operations.
type Tag struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

// A Document describes the API. As JSON it is an OpenAPI 3.1 document.
type Document struct {
	API
	Paths   Members[[]*Operation]
	Schemas Members[*Schema]
}

// NotModified describes the answer 304.
func (*Document) NotModified() string {
	return "The client already has this answer: If-None-Match names its ETag."
}

// MarshalJSON implements [json.Marshaler].
func (d *Document) MarshalJSON() ([]byte, error) { return fill("openapi.json.tmpl", d) }

// A Parameter is one in the path or in the query.
type Parameter struct {
	Name        string  `json:"name"`
	In          string  `json:"in"`
	Description string  `json:"description"`
	Required    bool    `json:"required,omitempty"`
	Schema      *Schema `json:"schema"`
	Example     any     `json:"example,omitempty"`
}

// OpenAPI makes the document of operations.
func OpenAPI(api API, operations []Operation) *Document {
	b := &builder{newSchemas(), api}
	doc := &Document{API: api}
	for _, o := range operations {
		list := doc.Paths.value(o.Path)
		*list = append(*list, b.operation(o))
	}
	doc.OtherProblem.Content = b.content(api.OtherProblem)
	doc.Schemas = b.named
	return doc
}

// A builder makes the parts of a document.
type builder struct {
	*schemas
	api API
}

// operation is o with all content.
func (b *builder) operation(o Operation) *Operation {
	if o.Body != nil {
		o.Body = b.body(o.Summary, *o.Body)
	}
	answers := o.Answers
	o.Answers = nil
	for _, a := range answers {
		a.Content = b.content(a)
		if last := len(o.Answers) - 1; last >= 0 && o.Answers[last].Status == a.Status {
			o.Answers[last].Content = append(o.Answers[last].Content, a.Content...)
		} else {
			o.Answers = append(o.Answers, a)
		}
	}
	return &o
}

func (b *builder) body(summary string, body Body) *Body {
	form := Media{Type: "application/x-www-form-urlencoded", Summary: summary}
	if body.Example != "" {
		form.Example = contract.Example(body.Example)
	}
	shape := reflect.TypeOf(body.Of)
	if shape != nil {
		body.Content = []Media{{"application/json", b.OfBody(shape), summary, form.Example}}
	}
	form.Schema = b.OfForm(shape)
	body.Content = append(body.Content, form)
	return &body
}

func (b *builder) content(a Answer) []Media {
	switch {
	case a.Status >= http.StatusBadRequest:
		p := b.api.Problem(a.Status, a.Detail)
		return []Media{
			{"application/problem+json", b.SchemaOf(reflect.TypeOf(p)), a.Description, encoded(p)},
			{Type: "text/html"}, // for a browser
		}
	case a.ContentType == "":
		return nil
	}
	media := Media{Type: a.ContentType, Summary: "From a made-up machine"}
	if a.Example != "" {
		media.Example = contract.Example(a.Example)
	}
	if a.Of != nil {
		media.Schema = b.SchemaOf(reflect.TypeOf(a.Of))
	}
	if a.Or != nil {
		media.Schema = &Schema{OneOf: []*Schema{media.Schema, b.SchemaOf(reflect.TypeOf(a.Or))}}
	}
	return []Media{media}
}

// encoded is an example, of which all values can be encoded.
func encoded(example any) json.RawMessage {
	out, err := json.Marshal(example)
	if err != nil {
		panic(fmt.Sprintf("apidoc: the example %+v can't be encoded: %v", example, err))
	}
	return out
}

func text() *Schema { return &Schema{Type: Types{"string"}} }

// forms are the documents with blanks for what Go knows.
var forms = template.Must(template.New("").Funcs(template.FuncMap{
	"json":  func(v any) string { return string(encoded(v)) },
	"lower": strings.ToLower,
}).ParseFS(files, "*.tmpl"))

func fill(form string, document any) ([]byte, error) {
	var out bytes.Buffer
	err := forms.ExecuteTemplate(&out, form, document)
	return out.Bytes(), err
}

// YAML writes a document as YAML, in the order of its JSON.
func YAML(document any) ([]byte, error) {
	var node yaml.Node
	var out bytes.Buffer
	encoded, err := json.Marshal(document)
	if err == nil {
		err = yaml.Unmarshal(encoded, &node) // JSON is YAML
	}
	if err == nil {
		block(&node)
		encoder := yaml.NewEncoder(&out)
		encoder.SetIndent(2)
		err = errors.Join(encoder.Encode(&node), encoder.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("write a document as YAML: %w", err)
	}
	return out.Bytes(), nil
}

// notText matches what readers of YAML 1.1 may not take for text unless it is quoted:
// truth values, null, numbers to the base 8 or 60, dates. It matches all that begins
// as a number, since readers differ.
var notText = regexp.MustCompile(`^([-+]?\.?[0-9].*|(?i:y|n|yes|no|on|off|true|false|null|[-+]?\.(inf|nan))|~|=|<<)?$`)

// block removes JSON's braces, brackets and quotes.
func block(node *yaml.Node) {
	if node.Kind != yaml.ScalarNode || !notText.MatchString(node.Value) {
		node.Style = 0
	}
	for _, child := range node.Content {
		block(child)
	}
}
