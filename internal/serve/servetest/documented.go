package servetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
)

// Documented is the OpenAPI document as a stranger reads it: from its bytes,
// with a validator that knows nothing of ours.
type Documented struct {
	Paths    map[string]Operations
	compiler *jsonschema.Compiler

	mu      sync.Mutex
	schemas map[string]*jsonschema.Schema
}

// Operations has the operations of a path by method, in small letters.
type Operations map[string]*struct {
	Parameters  []struct{ Name, In string }
	RequestBody Response
	Responses   map[string]Response
}

// A Response is an answer, or the body of a request.
type Response struct {
	Ref     string `json:"$ref"`
	Content map[string]struct {
		Examples map[string]struct{ Value json.RawMessage }
	}
}

const documentURL = "https://example.org/openapi.json"

// NewDocumented is that of the server of [New], which all tests share.
func NewDocumented(t testing.TB) *Documented {
	t.Helper()
	d, err := readDocument()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

var readDocument = sync.OnceValues(func() (*Documented, error) {
	_, rig := New()
	s, err := rig.Server()
	if err != nil {
		return nil, err
	}
	text := Get(s.Handler(), "/openapi.json").Body.Bytes()
	var doc struct {
		Paths      map[string]Operations
		Components struct{ Responses map[string]Response }
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	whole, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	for _, item := range doc.Paths {
		for _, op := range item {
			for status, response := range op.Responses {
				if name, is := strings.CutPrefix(response.Ref, "#/components/responses/"); is {
					common := doc.Components.Responses[name]
					common.Ref = response.Ref
					op.Responses[status] = common
				}
			}
		}
	}
	d := &Documented{Paths: doc.Paths, compiler: jsonschema.NewCompiler(), schemas: map[string]*jsonschema.Schema{}}
	d.compiler.DefaultDraft(jsonschema.Draft2020)
	d.compiler.AssertFormat()
	return d, d.compiler.AddResource(documentURL, closed(whole))
})

// closed makes the objects of the document's schemas have the members that it
// names and no others: clients are to ignore what they don't know, but gpuwhy
// should not send it.
func closed(document any) any {
	schemas := document.(map[string]any)["components"].(map[string]any)["schemas"].(map[string]any)
	for _, schema := range schemas {
		schema.(map[string]any)["additionalProperties"] = false
	}
	return document
}

// Schema returns that of an answer, or without a status of the request's body.
func (d *Documented) Schema(t testing.TB, method, path, status, contentType string) *jsonschema.Schema {
	t.Helper()
	escape := strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace
	pointer := fmt.Sprintf("/paths/%s/%s/responses/%s", escape(path), method, status)
	if status == "" {
		pointer = fmt.Sprintf("/paths/%s/%s/requestBody", escape(path), method)
	}
	if ref := d.Paths[path][method].Responses[status].Ref; ref != "" {
		pointer = strings.TrimPrefix(ref, "#")
	}
	pointer += "/content/" + escape(contentType) + "/schema"
	d.mu.Lock()
	defer d.mu.Unlock()
	if schema := d.schemas[pointer]; schema != nil {
		return schema
	}
	schema, err := d.compiler.Compile(documentURL + "#" + pointer)
	if err != nil {
		t.Fatal(err)
	}
	d.schemas[pointer] = schema
	return schema
}

// Check holds an answer to what is documented of the path and the method.
func (d *Documented) Check(t testing.TB, method, path string, w *httptest.ResponseRecorder) {
	t.Helper()
	method = strings.ToLower(method)
	op := d.Paths[path][method]
	if op == nil {
		t.Errorf("%s %s is not documented", method, path)
		return
	}
	status := fmt.Sprint(w.Code)
	response, ok := op.Responses[status]
	if !ok {
		status = "default"
		response = op.Responses[status]
		if w.Code < 400 {
			t.Errorf("%s: status %d is not documented", path, w.Code)
		}
	}
	contentType, _, _ := strings.Cut(w.Header().Get("Content-Type"), ";")
	if len(response.Content) == 0 {
		if w.Body.Len() > 0 {
			t.Errorf("%s: status %d has a body", path, w.Code)
		}
		return
	}
	if _, ok := response.Content[contentType]; !ok {
		t.Errorf("%s: status %d as %q is not documented", path, w.Code, contentType)
		return
	}
	if !strings.HasSuffix(contentType, "json") || strings.HasSuffix(path, "api.json") || w.Header().Get("Content-Encoding") != "" || w.Body.Len() == 0 {
		return
	}
	if err := d.Schema(t, method, path, status, contentType).Validate(Unmarshal(t, w.Body.Bytes())); err != nil {
		t.Errorf("%s: status %d: %v\n%.2000s", path, w.Code, err, w.Body)
	}
}

// Machines are those of which the API is asked, by what they are like.
func Machines() map[string][]*gpu.Snapshot {
	return map[string][]*gpu.Snapshot{
		"starting":    nil,
		"empty":       {fixture.Empty()},
		"workstation": {fixture.Workstation()},
		"broken":      {fixture.BrokenServer()},
		"mixed":       {fixture.Mixed()},
		"zeros":       {fixture.Zeros()},
		"fleet":       fixture.Fleet(),
		"b200":        {fixture.B200s(2)},
	}
}

// Unmarshal reads JSON as the validator takes it.
func Unmarshal(t testing.TB, text []byte) any {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%v in %.200s", err, text)
	}
	return v
}
