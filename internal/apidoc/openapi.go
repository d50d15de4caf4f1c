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
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/gpuwhy/gpuwhy/internal/contract"
)

// A Route is an address with what it answers.
type Route struct {
	Path string // as in http.ServeMux: "/gpu/metrics/{id}"
	Operation
}

// An Operation is what a route answers to a method.
type Operation struct {
	Method      string // GET where it is empty
	Tag         string // the client whose contract it is
	ID          string // a name for programs that generate clients
	Summary     string // a few words
	Description Text
	Params      []*Parameter
	Body        *Body
	Answers     []Answer // by status
	Fresh       bool     // the answer is about this very moment: it has no ETag
}

// Op returns the operation that the parts describe, in any order.
func Op(tag, id, summary string, parts ...Part) Operation {
	o := Operation{Tag: tag, ID: id, Summary: summary}
	Parts(parts).addTo(&o)
	slices.SortStableFunc(o.Answers, func(a, b Answer) int { return cmp.Compare(a.Status, b.Status) })
	return o
}

// A Part is what is said of an operation: a [Text], a [Parameter], a [Body], an
// [Answer], [Fresh], or several of them.
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

// A Body is what a client sends, as JSON or as a browser's form.
type Body struct {
	Of       any    // a value of the type that it is decoded to; nil for a form without fields
	Example  string // the name of one of package contract's; empty for none
	Required bool   // there must be one
}

// An Answer is one status that a route answers with.
type Answer struct {
	Status      int
	Description string
	ContentType string
	Of          any    // a value of the type that is encoded, nil where it is no JSON of ours
	Example     string // the name of one of package contract's; empty for none
	Detail      string // what an error may say, for its example
}

// Fresh says that an answer is about this very moment.
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

func (o *Operation) method() string { return cmp.Or(o.Method, http.MethodGet) }

// An API is all that the document says beside the routes.
type API struct {
	Title, Description, Version, License string
	Base                                 string // where all paths begin; empty for the root
	Tags                                 []Tag  // in order
	// Problem makes what an error is encoded from.
	Problem      func(status int, detail string) any
	OtherProblem Answer // one that any route may answer with
}

// A Tag groups operations.
type Tag struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

// A Document is OpenAPI 3.1.
type Document struct {
	OpenAPI string            `json:"openapi"`
	Info    Info              `json:"info"`
	Servers []Members[string] `json:"servers"`
	Tags    []Tag             `json:"tags"`
	// Paths have their operations by method, in small letters.
	Paths      Members[Members[*OperationObject]] `json:"paths"`
	Components struct {
		Schemas   Members[*Schema]   `json:"schemas"`
		Responses Members[*Response] `json:"responses"`
	} `json:"components"`
}

// Info is who made it, and under which terms.
type Info struct {
	Title       string          `json:"title"`
	Version     string          `json:"version"`
	Description string          `json:"description"`
	License     Members[string] `json:"license"`
}

// OperationObject is one method of a path.
type OperationObject struct {
	Tags        []string           `json:"tags"`
	Summary     string             `json:"summary"`
	Description string             `json:"description,omitempty"`
	ID          string             `json:"operationId"`
	Parameters  []*Parameter       `json:"parameters,omitempty"`
	Body        *RequestBody       `json:"requestBody,omitempty"`
	Responses   Members[*Response] `json:"responses"`
}

// Parameter is one of its parameters, or a header of an answer, whose name
// stands before it.
type Parameter struct {
	Name        string  `json:"name,omitempty"`
	In          string  `json:"in,omitempty"`
	Description string  `json:"description"`
	Required    bool    `json:"required,omitempty"`
	Schema      *Schema `json:"schema"`
	Example     any     `json:"example,omitempty"`
}

// RequestBody is what a client sends.
type RequestBody struct {
	Required bool            `json:"required,omitempty"`
	Content  Members[*Media] `json:"content"`
}

// Response is an answer, or a reference to one.
type Response struct {
	Ref         string              `json:"$ref,omitempty"`
	Description string              `json:"description,omitempty"`
	Headers     Members[*Parameter] `json:"headers,omitempty"`
	Content     Members[*Media]     `json:"content,omitempty"`
}

// Media is a body in one content type.
type Media struct {
	Schema   *Schema          `json:"schema,omitempty"`
	Examples Members[Example] `json:"examples,omitempty"`
}

// Example is one such body.
type Example struct {
	Summary string          `json:"summary"`
	Value   json.RawMessage `json:"value"`
}

const (
	schemaRefs   = "#/components/schemas/"
	responseRefs = "#/components/responses/"
)

// OpenAPI makes the document.
func OpenAPI(api API, routes []Route) *Document {
	b := &builder{newSchemas(), api}
	doc := &Document{
		OpenAPI: "3.1.0",
		Info:    Info{api.Title, api.Version, api.Description, Members[string]{{"name", api.License}, {"identifier", api.License}}},
		Servers: []Members[string]{{{"url", cmp.Or(api.Base, "/")}}},
		Tags:    api.Tags,
	}
	for _, route := range routes {
		item := doc.Paths.at(route.Path)
		*item.at(strings.ToLower(route.method())) = b.operation(route)
	}
	doc.Components.Responses = Members[*Response]{
		{"NotModified", &Response{Description: "The client has this very answer already: the request's If-None-Match names its ETag."}},
		{"Problem", &Response{Description: api.OtherProblem.Description, Content: b.problem(api.OtherProblem)}},
	}
	doc.Components.Schemas = b.named
	return doc
}

// A builder makes the parts of a document.
type builder struct {
	*schemas
	api API
}

func (b *builder) operation(route Route) *OperationObject {
	op := &OperationObject{
		Tags: []string{route.Tag}, Summary: route.Summary, Description: string(route.Description), ID: route.ID,
		Parameters: route.Params, Body: b.requestBody(route.Summary, route.Body),
	}
	revalidated := !route.Fresh && route.method() == http.MethodGet
	for _, a := range route.Answers {
		b.respond(op.Responses.at(strconv.Itoa(a.Status)), a, revalidated)
		if a.Status == http.StatusOK && revalidated {
			*op.Responses.at("304") = &Response{Ref: responseRefs + "NotModified"}
		}
	}
	*op.Responses.at("default") = &Response{Ref: responseRefs + "Problem"}
	return op
}

// requestBody is nil where a client sends none.
func (b *builder) requestBody(summary string, body *Body) *RequestBody {
	if body == nil {
		return nil
	}
	out := &RequestBody{Required: body.Required}
	var example Members[Example]
	if body.Example != "" {
		example = examples(summary, contract.Example(body.Example))
	}
	of := reflect.TypeOf(body.Of)
	if of != nil {
		*out.Content.at("application/json") = &Media{b.OfBody(of), example}
	}
	*out.Content.at("application/x-www-form-urlencoded") = &Media{b.OfForm(of), example}
	return out
}

// respond adds an answer to those of its status, which differ in their content
// types.
func (b *builder) respond(to **Response, a Answer, revalidated bool) {
	out := *to
	if out == nil {
		out = &Response{Description: a.Description}
		*to = out
		header := func(name, description string, schema *Schema) {
			*out.Headers.at(name) = &Parameter{Description: description, Schema: schema}
		}
		switch {
		case a.Status == http.StatusServiceUnavailable:
			header("Retry-After", "Seconds until another try is worth it.", &Schema{Type: Types{"integer"}})
		case a.Status == http.StatusSeeOther:
			header("Location", "Where the browser goes.", text())
		case a.Status < 400 && revalidated:
			header("ETag", "Of this answer; give it back in If-None-Match.", text())
			header("Cache-Control", "How long until a newer one can be there.", text())
		}
	}
	switch {
	case a.Status >= 400:
		out.Content = b.problem(a)
	case a.ContentType != "":
		media := &Media{}
		if a.Example != "" {
			media.Examples = examples("Of a made-up machine", contract.Example(a.Example))
		}
		if a.Of != nil {
			media.Schema = b.Of(reflect.TypeOf(a.Of))
		}
		*out.Content.at(a.ContentType) = media
	}
}

// problem is the content of an error.
func (b *builder) problem(a Answer) Members[*Media] {
	p := b.api.Problem(a.Status, a.Detail)
	return Members[*Media]{
		{"application/problem+json", &Media{b.Of(reflect.TypeOf(p)), examples(a.Description, encoded(p))}},
		{"text/html", &Media{}}, // for a browser
	}
}

// examples has one.
func examples(summary string, value json.RawMessage) Members[Example] {
	return Members[Example]{{"example", Example{summary, value}}}
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

// YAML writes what a document says as JSON, with its order.
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

// notText is what readers of YAML 1.1 may take for something other than text
// unless it is quoted: truth values, null, numbers to the base 8 or 60, dates.
// Of what begins as a number all is quoted, since readers differ.
var notText = regexp.MustCompile(`^([-+]?\.?[0-9].*|(?i:y|n|yes|no|on|off|true|false|null|[-+]?\.(inf|nan))|~|=|<<)?$`)

// block takes away how JSON looks.
func block(node *yaml.Node) {
	if node.Kind != yaml.ScalarNode || !notText.MatchString(node.Value) {
		node.Style = 0
	}
	for _, child := range node.Content {
		block(child)
	}
}
