package server

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

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

// Each field says what it is, each number its unit, each parameter what it
// does.
func TestDocumentsSayEnough(t *testing.T) {
	_, cfg := newStage()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	doc, faults := s.document()
	_, eventFaults := s.events()
	for _, fault := range append(faults, eventFaults...) {
		t.Error(fault)
	}
	if len(doc.Paths) < 24 || len(doc.Components.Schemas) < 30 {
		t.Errorf("%d paths and %d schemas", len(doc.Paths), len(doc.Components.Schemas))
	}
	// What is no part of the API is named here, so that nothing is forgotten.
	notDocumented := []string{"/{$}", "/static/{path...}", "/favicon.ico", "/robots.txt", "/docs", "/docs/events", "/redoc", "/ws", "/alerts"}
	for _, r := range s.routes() {
		if (r.doc == nil) != slices.Contains(notDocumented, r.path) {
			t.Errorf("%s: documented %v", r.path, r.doc != nil)
		}
	}
}

// The documents are what they say they are, by the schemas of those who say
// what OpenAPI and AsyncAPI are.
func TestDocumentsAreValid(t *testing.T) {
	for _, base := range []string{"", "/gpu-3"} {
		_, h := serving(t, func(c *Config) { c.BasePath = base })
		for path, schema := range map[string]string{"/openapi.json": "openapi-3.1.schema.json", "/asyncapi.json": "asyncapi-3.0.schema.json"} {
			w := get(h, base+path)
			if err := compile(t, schema).Validate(unmarshal(t, w.Body.Bytes())); err != nil {
				t.Errorf("%s: %v", path, err)
			}
			if again := get(h, base+path, "If-None-Match: "+w.Header().Get("ETag")); again.Code != http.StatusNotModified {
				t.Errorf("%s: status %d for its own ETag", path, again.Code)
			}
		}
		var doc struct{ Servers []struct{ URL string } }
		if err := json.Unmarshal(get(h, base+"/openapi.json").Body.Bytes(), &doc); err != nil || doc.Servers[0].URL != cmp.Or(base, "/") {
			t.Errorf("the server is %v, %v", doc.Servers, err)
		}
	}
}

// The YAML says what the JSON says.
func TestYAMLIsTheJSON(t *testing.T) {
	_, h := serving(t)
	w := get(h, "/openapi.yaml")
	if got := w.Header().Get("Content-Type"); got != "application/yaml" {
		t.Errorf("content type %q", got)
	}
	var fromYAML any
	if err := yaml.Unmarshal(w.Body.Bytes(), &fromYAML); err != nil {
		t.Fatal(err)
	}
	asJSON, err := json.Marshal(fromYAML)
	if err != nil {
		t.Fatal(err)
	}
	var one, other any
	if json.Unmarshal(asJSON, &one) != nil || json.Unmarshal(get(h, "/openapi.json").Body.Bytes(), &other) != nil {
		t.Fatal("no JSON")
	}
	a, errA := json.Marshal(one)
	b, errB := json.Marshal(other)
	if errA != nil || errB != nil || !bytes.Equal(a, b) {
		t.Errorf("they differ: %d and %d bytes", len(a), len(b))
	}
}

// Every example is what its schema says.
func TestExamplesAreValid(t *testing.T) {
	d := newDocumented(t)
	seen := 0
	for path, item := range d.paths {
		for method, op := range item {
			for status, response := range op.Responses {
				for contentType, media := range response.Content {
					for name, example := range media.Examples {
						seen++
						schema := d.schema(t, method, path, status, contentType)
						if err := schema.Validate(unmarshal(t, example.Value)); err != nil {
							t.Errorf("%s %s %s %s: %v", method, path, status, name, err)
						}
					}
				}
			}
		}
	}
	if seen < 40 {
		t.Errorf("only %d examples", seen)
	}
}

// The pages have the policy of all others, but for the viewer's, which may
// style itself and nothing more.
func TestDocumentPages(t *testing.T) {
	_, h := serving(t)
	for path, title := range map[string]string{"/docs": "docs", "/redoc": "addresses", "/docs/events": "operations"} {
		w := get(h, path)
		if w.Code != 200 || w.Header().Get("Content-Type") != typeHTML || !strings.Contains(w.Body.String(), title) {
			t.Errorf("%s: %d %q %s", path, w.Code, w.Header().Get("Content-Type"), w.Body)
		}
		policy := w.Header().Get("Content-Security-Policy")
		want := fixedHeaders["Content-Security-Policy"]
		if path == "/docs" {
			want = strings.Replace(want, "style-src 'self'", "style-src 'self' 'unsafe-inline'", 1)
		}
		if policy != want {
			t.Errorf("%s: the policy is %q", path, policy)
		}
	}
}
