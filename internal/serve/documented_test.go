package serve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
)

// documented is the OpenAPI document as a stranger reads it: from its bytes,
// with a validator that knows nothing of ours.
type documented struct {
	paths    map[string]documentedPath
	compiler *jsonschema.Compiler

	mu      sync.Mutex
	schemas map[string]*jsonschema.Schema
}

// documentedPath has the operations of a path by method, in small letters.
type documentedPath map[string]*struct {
	Parameters  []struct{ Name, In string }
	RequestBody documentedResponse
	Responses   map[string]documentedResponse
}

type documentedResponse struct {
	Ref     string `json:"$ref"`
	Content map[string]struct {
		Examples map[string]struct{ Value json.RawMessage }
	}
}

const documentURL = "https://example.org/openapi.json"

func newDocumented(t testing.TB) *documented {
	t.Helper()
	_, h := serving(t)
	text := get(h, "/openapi.json").Body.Bytes()
	var doc struct {
		Paths      map[string]documentedPath
		Components struct{ Responses map[string]documentedResponse }
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
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
	d := &documented{paths: doc.Paths, compiler: jsonschema.NewCompiler(), schemas: map[string]*jsonschema.Schema{}}
	d.compiler.DefaultDraft(jsonschema.Draft2020)
	d.compiler.AssertFormat()
	if err := d.compiler.AddResource(documentURL, closed(unmarshal(t, text))); err != nil {
		t.Fatal(err)
	}
	return d
}

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

// schema returns that of an answer, or without a status of the request's body.
func (d *documented) schema(t testing.TB, method, path, status, contentType string) *jsonschema.Schema {
	t.Helper()
	escape := strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace
	at := fmt.Sprintf("/paths/%s/%s/responses/%s", escape(path), method, status)
	if status == "" {
		at = fmt.Sprintf("/paths/%s/%s/requestBody", escape(path), method)
	}
	if ref := d.paths[path][method].Responses[status].Ref; ref != "" {
		at = strings.TrimPrefix(ref, "#")
	}
	at += "/content/" + escape(contentType) + "/schema"
	d.mu.Lock()
	defer d.mu.Unlock()
	if schema := d.schemas[at]; schema != nil {
		return schema
	}
	schema, err := d.compiler.Compile(documentURL + "#" + at)
	if err != nil {
		t.Fatal(err)
	}
	d.schemas[at] = schema
	return schema
}

// check holds an answer to what is documented of the path and the method.
func (d *documented) check(t testing.TB, method, path string, w *httptest.ResponseRecorder) {
	t.Helper()
	method = strings.ToLower(method)
	op := d.paths[path][method]
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
	if err := d.schema(t, method, path, status, contentType).Validate(unmarshal(t, w.Body.Bytes())); err != nil {
		t.Errorf("%s: status %d: %v\n%.2000s", path, w.Code, err, w.Body)
	}
}

// machinesOf are those of which the API is asked, by what they are like.
func machinesOf() map[string][]*gpu.Snapshot {
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

// compile reads the schema of a file in testdata, which refers to others there.
func compile(t testing.TB, name string) *jsonschema.Schema {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	document, err := jsonschema.UnmarshalJSON(file)
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("https://example.org/"+name, document); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("https://example.org/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func unmarshal(t testing.TB, text []byte) any {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%v in %.200s", err, text)
	}
	return v
}
