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

// An Operation is what a route answers to a method.
type Operation struct {
	Method      string // GET where it is empty
	ID          string // a name for programs that generate clients
	Tag         string // the client whose contract it is
	Summary     string // a few words
	Description string
	Params      []Param
	// Body is a value of the type that the request's body is decoded to; nil
	// where it has none. BodyRequired says that there must be one.
	Body         any
	BodyRequired bool
	// BodyExample is the name of one of package contract's; empty for none.
	BodyExample string
	// Form says that a browser's form is taken too, with the members of Body.
	Form    bool
	Answers []Answer
	// Fresh says that the answer is about this very moment: it has no ETag.
	Fresh bool
}

func (o *Operation) method() string { return cmp.Or(o.Method, http.MethodGet) }

// A Param is a parameter in the path or in the query.
type Param struct {
	Name        string
	In          string // "path" or "query"
	Description string
	Example     string
	Repeated    bool // in the query: it may be given several times
}

// An Answer is one status that a route answers with.
type Answer struct {
	Status      int
	Description string
	ContentType string
	// Of is a value of the type that is encoded, nil where it is no JSON of
	// ours.
	Of any
	// Example is the name of one of package contract's; empty for none.
	Example string
	// Detail is what an error may say, for its example.
	Detail string
}

// A Route is an address with what it answers.
type Route struct {
	Path string // as in http.ServeMux: "/gpu/metrics/{id}"
	Operation
}

// An API is all that the document says beside the routes.
type API struct {
	Title, Description, Version, License string
	// Base is where all paths begin; empty for the root.
	Base string
	// Tags with a sentence each, in order.
	Tags []Tag
	// Problem is a value of the type that errors are encoded from.
	Problem any
	// ProblemExample makes one of them.
	ProblemExample func(status int, detail string) json.RawMessage
	// OtherProblem is one that any route may answer with.
	OtherProblem Answer
}

// A Tag groups operations.
type Tag struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

// A Document is OpenAPI 3.1.
type Document struct {
	OpenAPI    string             `json:"openapi"`
	Info       Info               `json:"info"`
	Servers    []Server           `json:"servers"`
	Tags       []Tag              `json:"tags"`
	Paths      Members[*PathItem] `json:"paths"`
	Components Components         `json:"components"`
}

// Info is who made it.
type Info struct {
	Title       string  `json:"title"`
	Version     string  `json:"version"`
	Description string  `json:"description"`
	License     License `json:"license"`
}

// License is under which terms.
type License struct {
	Name       string `json:"name"`
	Identifier string `json:"identifier,omitempty"`
}

// Server is where the paths begin.
type Server struct {
	URL string `json:"url"`
}

// PathItem is what a path answers, by method in small letters.
type PathItem struct {
	Operations Members[*OperationObject]
}

// MarshalJSON implements [json.Marshaler].
func (p *PathItem) MarshalJSON() ([]byte, error) { return json.Marshal(p.Operations) }

// OperationObject is one method of it.
type OperationObject struct {
	Tags        []string                   `json:"tags"`
	Summary     string                     `json:"summary"`
	Description string                     `json:"description,omitempty"`
	ID          string                     `json:"operationId"`
	Parameters  []*Parameter               `json:"parameters,omitempty"`
	Body        *RequestBody               `json:"requestBody,omitempty"`
	Responses   Members[*ResponseOrRefObj] `json:"responses"`
}

// RequestBody is what a client sends.
type RequestBody struct {
	Required bool            `json:"required,omitempty"`
	Content  Members[*Media] `json:"content"`
}

// Parameter is one of its parameters.
type Parameter struct {
	Name        string  `json:"name"`
	In          string  `json:"in"`
	Description string  `json:"description"`
	Required    bool    `json:"required,omitempty"`
	Schema      *Schema `json:"schema"`
	Example     any     `json:"example,omitempty"`
}

// ResponseOrRefObj is an answer, or a reference to one.
type ResponseOrRefObj struct {
	Ref         string          `json:"$ref,omitempty"`
	Description string          `json:"description,omitempty"`
	Headers     Members[Header] `json:"headers,omitempty"`
	Content     Members[*Media] `json:"content,omitempty"`
}

// Header is one of an answer's headers.
type Header struct {
	Description string  `json:"description"`
	Schema      *Schema `json:"schema"`
}

// Media is an answer's body in one content type.
type Media struct {
	Schema   *Schema          `json:"schema,omitempty"`
	Examples Members[Example] `json:"examples,omitempty"`
}

// Example is one such body.
type Example struct {
	Summary string          `json:"summary"`
	Value   json.RawMessage `json:"value"`
}

// examples has one.
func examples(summary string, value json.RawMessage) Members[Example] {
	return Members[Example]{{"example", Example{summary, value}}}
}

// Components are what others refer to.
type Components struct {
	Schemas   Members[*Schema]           `json:"schemas"`
	Responses Members[*ResponseOrRefObj] `json:"responses"`
}

const (
	schemaRefs   = "#/components/schemas/"
	responseRefs = "#/components/responses/"
)

const typeProblem = "application/problem+json"

// OpenAPI makes the document. What the types say too little about is in its
// second result, a sentence each, for a test to insist on.
func OpenAPI(api API, routes []Route) (*Document, []string) {
	schemas := NewSchemas(schemaRefs)
	doc := &Document{
		OpenAPI: "3.1.0",
		Info:    Info{api.Title, api.Version, api.Description, License{api.License, api.License}},
		Servers: []Server{{cmp.Or(api.Base, "/")}},
		Tags:    api.Tags,
	}
	problem := func(a Answer) Members[*Media] {
		return Members[*Media]{
			{typeProblem, &Media{schemas.Of(reflect.TypeOf(api.Problem)), examples(a.Description, api.ProblemExample(a.Status, a.Detail))}},
			{"text/html", &Media{}}, // for a browser
		}
	}
	for _, route := range routes {
		item := doc.Paths.Get(route.Path)
		if item == nil {
			item = &PathItem{}
			doc.Paths = append(doc.Paths, Member[*PathItem]{route.Path, item})
		}
		item.Operations = append(item.Operations, Member[*OperationObject]{strings.ToLower(route.method()), operation(schemas, route, problem)})
	}
	doc.Components = Components{Schemas: schemas.Named(), Responses: commonResponses(api.OtherProblem.Description, problem(api.OtherProblem))}
	return doc, schemas.Faults()
}

// commonResponses are those of every route.
func commonResponses(description string, problem Members[*Media]) Members[*ResponseOrRefObj] {
	return Members[*ResponseOrRefObj]{
		{"NotModified", &ResponseOrRefObj{Description: "The client has this very answer already: the request's If-None-Match names its ETag."}},
		{"Problem", &ResponseOrRefObj{
			Description: description,
			Content:     problem,
		}},
	}
}

func operation(schemas *Schemas, route Route, problem func(Answer) Members[*Media]) *OperationObject {
	op := &OperationObject{
		Tags: []string{route.Tag}, Summary: route.Summary, Description: route.Description, ID: route.ID,
	}
	for _, p := range route.Params {
		op.Parameters = append(op.Parameters, parameter(p))
	}
	op.Body = requestBody(schemas, route)
	revalidated := !route.Fresh && route.method() == http.MethodGet
	for _, a := range byStatus(route.Answers) {
		op.Responses = append(op.Responses, response(schemas, a, problem, revalidated))
		if a[0].Status == 200 && revalidated {
			op.Responses = append(op.Responses, Member[*ResponseOrRefObj]{"304", &ResponseOrRefObj{Ref: responseRefs + "NotModified"}})
		}
	}
	op.Responses = append(op.Responses, Member[*ResponseOrRefObj]{"default", &ResponseOrRefObj{Ref: responseRefs + "Problem"}})
	return op
}

// requestBody is nil where a client sends none.
func requestBody(schemas *Schemas, route Route) *RequestBody {
	if route.Body == nil && !route.Form {
		return nil
	}
	out := &RequestBody{Required: route.BodyRequired}
	var example Members[Example]
	if route.BodyExample != "" {
		example = examples(route.Summary, contract.Example(route.BodyExample))
	}
	var body reflect.Type
	if route.Body != nil {
		body = reflect.TypeOf(route.Body)
		out.Content = Members[*Media]{{"application/json", &Media{schemas.OfBody(body), example}}}
	}
	if route.Form {
		out.Content = append(out.Content, Member[*Media]{"application/x-www-form-urlencoded", &Media{schemas.OfForm(body), example}})
	}
	return out
}

// byStatus puts the answers of one status together: they differ in their
// content types.
func byStatus(answers []Answer) [][]Answer {
	var out [][]Answer
	for _, a := range answers {
		if n := len(out); n > 0 && out[n-1][0].Status == a.Status {
			out[n-1] = append(out[n-1], a)
			continue
		}
		out = append(out, []Answer{a})
	}
	return out
}

func parameter(p Param) *Parameter {
	schema := &Schema{Type: Types{"string"}}
	if p.Repeated {
		schema = &Schema{Type: Types{"array"}, Items: schema}
	}
	out := &Parameter{Name: p.Name, In: p.In, Description: p.Description, Required: p.In == "path", Schema: schema}
	switch {
	case p.Example == "":
	case p.Repeated:
		out.Example = []string{p.Example}
	default:
		out.Example = p.Example
	}
	return out
}

func response(schemas *Schemas, answers []Answer, problem func(Answer) Members[*Media], revalidated bool) Member[*ResponseOrRefObj] {
	first := answers[0]
	out := &ResponseOrRefObj{Description: first.Description}
	text := Schema{Type: Types{"string"}}
	switch {
	case first.Status >= 400:
		out.Content = problem(first)
		if first.Status == 503 {
			out.Headers = Members[Header]{{"Retry-After", Header{"Seconds until another try is worth it.", &Schema{Type: Types{"integer"}}}}}
		}
		return Member[*ResponseOrRefObj]{strconv.Itoa(first.Status), out}
	case first.Status == http.StatusSeeOther:
		out.Headers = Members[Header]{{"Location", Header{"Where the browser goes.", &text}}}
	case revalidated:
		out.Headers = Members[Header]{
			{"ETag", Header{"Of this answer; give it back in If-None-Match.", &text}},
			{"Cache-Control", Header{"How long until a newer one can be there.", &text}},
		}
	}
	for _, a := range answers {
		if a.ContentType == "" {
			continue // it has no body
		}
		media := &Media{}
		if a.Example != "" {
			media.Examples = examples("Of a made-up machine", contract.Example(a.Example))
		}
		if a.Of != nil {
			media.Schema = schemas.Of(reflect.TypeOf(a.Of))
		}
		out.Content = append(out.Content, Member[*Media]{a.ContentType, media})
	}
	return Member[*ResponseOrRefObj]{strconv.Itoa(first.Status), out}
}

var inBraces = regexp.MustCompile(`\{([^}]+)\}`)

// Faults says where routes are documented badly: a parameter of the path that
// is not described, or the other way around, an operation without a name or one
// that another has, an error without an example.
func Faults(routes []Route) []string {
	var faults []string
	seen := map[string]bool{}
	for _, r := range routes {
		var inPath, described []string
		for _, m := range inBraces.FindAllStringSubmatch(r.Path, -1) {
			inPath = append(inPath, m[1])
		}
		for _, p := range r.Params {
			if p.In == "path" {
				described = append(described, p.Name)
			}
			if p.Description == "" {
				faults = append(faults, fmt.Sprintf("%s: the parameter %s is not described", r.Path, p.Name))
			}
		}
		if !slices.Equal(inPath, described) {
			faults = append(faults, fmt.Sprintf("%s: parameters %v are described", r.Path, described))
		}
		if r.ID == "" || seen[r.ID] || r.Summary == "" || r.Tag == "" || len(r.Answers) == 0 {
			faults = append(faults, fmt.Sprintf("%s: its operation is not whole, or another has its name %q", r.Path, r.ID))
		}
		seen[r.ID] = true
		for _, a := range r.Answers {
			if a.Status >= 400 && a.Detail == "" {
				faults = append(faults, fmt.Sprintf("%s: status %d has no example", r.Path, a.Status))
			}
		}
	}
	return faults
}

// YAML writes what the JSON says, with its order.
func YAML(document []byte) ([]byte, error) {
	var node yaml.Node
	if err := yaml.Unmarshal(document, &node); err != nil { // JSON is YAML
		return nil, fmt.Errorf("read JSON as YAML: %w", err)
	}
	block(&node)
	var text bytes.Buffer
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	if err := errors.Join(encoder.Encode(&node), encoder.Close()); err != nil {
		return nil, fmt.Errorf("write YAML: %w", err)
	}
	return text.Bytes(), nil
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
