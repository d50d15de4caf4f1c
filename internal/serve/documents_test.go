//go:build !race

package serve_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/internal/serve/servetest"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

// Each field says what it is, each number its unit, each parameter what it
// does.
func TestDocumentsSayEnough(t *testing.T) {
	_, cfg := servetest.New()
	s, err := cfg.Server()
	if err != nil {
		t.Fatal(err)
	}
	doc := s.Document()
	s.Events() // panics for a field that says too little
	if len(doc.Paths) < 24 || len(doc.Schemas) < 30 {
		t.Errorf("%d paths and %d schemas", len(doc.Paths), len(doc.Schemas))
	}
	// What is no part of the API is named here, so that nothing is forgotten.
	notDocumented := []string{"/{$}", "/static/{path...}", "/favicon.ico", "/robots.txt", "/docs", "/docs/events", "/redoc", "/gpu/{id}", "/past", "/ws", "/alerts", "/audit", "/processes", "/nodes", "/about", "/find", "/embed/gpu/{id}", "/manifest.webmanifest",
		"/guide", "/guide/{page...}", "/guide/search"}
	for _, r := range s.Routes() {
		if (r.Doc == nil) != slices.Contains(notDocumented, r.Path) {
			t.Errorf("%s: documented %v", r.Path, r.Doc != nil)
		}
	}
	checkRoutes(t, s.Routes())
}

var inBraces = regexp.MustCompile(`\{([^}]+)\}`)

// checkRoutes finds routes that are documented badly: a parameter of the path that
// is not described, or the other way around, an operation without a name or one
// that another has, an error without an example.
func checkRoutes(t *testing.T, routes []serve.Route) {
	t.Helper()
	seen := map[string]bool{}
	for _, r := range routes {
		if r.Doc == nil {
			continue
		}
		var inPath, described []string
		for _, m := range inBraces.FindAllStringSubmatch(r.Path, -1) {
			inPath = append(inPath, m[1])
		}
		for _, p := range r.Doc.Params {
			if p.In == "path" {
				described = append(described, p.Name)
			}
			if p.Description == "" {
				t.Errorf("%s: the parameter %s is not described", r.Path, p.Name)
			}
		}
		if !slices.Equal(inPath, described) {
			t.Errorf("%s: parameters %v are described", r.Path, described)
		}
		if r.Doc.ID == "" || seen[r.Doc.ID] || r.Doc.Summary == "" || r.Doc.Tag == "" || len(r.Doc.Answers) == 0 {
			t.Errorf("%s: its operation is not whole, or another has its name %q", r.Path, r.Doc.ID)
		}
		seen[r.Doc.ID] = true
		for _, a := range r.Doc.Answers {
			if a.Status >= 400 && a.Detail == "" {
				t.Errorf("%s: status %d has no example", r.Path, a.Status)
			}
		}
	}
}

// The documents are what they say they are, by the schemas of those who say
// what OpenAPI and AsyncAPI are.
func TestDocumentsAreValid(t *testing.T) {
	for _, base := range []string{"", "/gpu-3"} {
		_, h := servetest.Serving(t, func(c *servetest.Rig) { c.BasePath = base })
		for path, schema := range map[string]string{"/openapi.json": "openapi-3.1.schema.json", "/asyncapi.json": "asyncapi-3.0.schema.json"} {
			w := servetest.Get(h, base+path)
			if err := compile(t, schema).Validate(servetest.Unmarshal(t, w.Body.Bytes())); err != nil {
				t.Errorf("%s: %v", path, err)
			}
			if again := servetest.Get(h, base+path, "If-None-Match: "+w.Header().Get("ETag")); again.Code != http.StatusNotModified {
				t.Errorf("%s: status %d for its own ETag", path, again.Code)
			}
		}
		var doc struct{ Servers []struct{ URL string } }
		if err := json.Unmarshal(servetest.Get(h, base+"/openapi.json").Body.Bytes(), &doc); err != nil || doc.Servers[0].URL != cmp.Or(base, "/") {
			t.Errorf("the server is %v, %v", doc.Servers, err)
		}
	}
}

// The YAML says what the JSON says.
func TestYAMLIsTheJSON(t *testing.T) {
	_, h := servetest.Serving(t)
	w := servetest.Get(h, "/openapi.yaml")
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
	if json.Unmarshal(asJSON, &one) != nil || json.Unmarshal(servetest.Get(h, "/openapi.json").Body.Bytes(), &other) != nil {
		t.Fatal("no JSON")
	}
	a, errA := json.Marshal(one)
	b, errB := json.Marshal(other)
	if errA != nil || errB != nil || !bytes.Equal(a, b) {
		t.Errorf("they differ: %d and %d bytes", len(a), len(b))
	}
}

// Every example is what its schema says, one of an error fits its status, and
// what is asked and said of alerts has some.
func TestExamplesAreValid(t *testing.T) {
	d := servetest.NewDocumented(t)
	seen := 0
	for path, item := range d.Paths {
		for method, op := range item {
			op.Responses[""] = op.RequestBody
			for status, response := range op.Responses {
				for contentType, media := range response.Content {
					for name, example := range media.Examples {
						seen++
						value := servetest.Unmarshal(t, example.Value)
						if err := d.Schema(t, method, path, status, contentType).Validate(value); err != nil {
							t.Errorf("%s %s %s %s: %v", method, path, status, name, err)
						}
						if contentType == typeProblem {
							exampleFits(t, method+" "+path, cmp.Or(strings.TrimPrefix(status, "default"), "421"), value)
						}
					}
					isPage := strings.HasPrefix(contentType, "text/") // for browsers
					if len(media.Examples) == 0 && strings.Contains(path, "alert") && !isPage && len(op.RequestBody.Content) != 1 {
						t.Errorf("%s %s %s has no example as %s", method, path, status, contentType)
					}
				}
			}
		}
	}
	if seen < 150 {
		t.Errorf("only %d examples", seen)
	}
}

func exampleFits(t *testing.T, operation, status string, value any) {
	t.Helper()
	p := value.(map[string]any)
	if code, err := strconv.Atoi(status); err != nil || fmt.Sprint(p["status"]) != status || p["title"] != http.StatusText(code) {
		t.Errorf("%s: the example of %s is %v", operation, status, p)
	}
}

// The examples of errors are what those who do so are told.
func TestExamplesOfErrorsAreTold(t *testing.T) {
	h, doc, id := servetest.Alerting(t)
	for _, tt := range []struct{ method, path, base, contentType, content string }{
		{"GET", "/gpu/metrics/{id}", "7", "", ""},
		{"GET", "/gpu/metrics/{id}", "first", "", ""},
		{"GET", "/api/v1/gpu/nodes/{node}", "other", "", ""},
		{"POST", "/api/alerts/{id}/acknowledge", "none", "", ""},
		{"POST", "/api/alerts/{id}/acknowledge", id, "text/plain", "hello"},
		{"POST", "/api/alerts/{id}/acknowledge", id, typeJSON, "{"},
		{"POST", "/api/alerts/{id}/acknowledge", id, typeJSON, strings.Repeat(" ", serve.MaxBody+1)},
		{"POST", "/api/alerts/{id}/dismiss", id, "", ""},
		{"POST", "/api/alerts/{id}/silence", id, typeJSON, `{"duration_seconds":0}`},
		{"DELETE", "/api/silences/{id}", "none", "", ""},
	} {
		w := servetest.Say(h, tt.method, strings.NewReplacer("{id}", tt.base, "{node}", tt.base).Replace(tt.path), tt.contentType, tt.content)
		doc.Check(t, tt.method, tt.path, w)
		example := doc.Paths[tt.path][strings.ToLower(tt.method)].Responses[fmt.Sprint(w.Code)].Content[typeProblem].Examples["example"].Value
		if diff := gocmp.Diff(servetest.Unmarshal(t, example), servetest.Unmarshal(t, w.Body.Bytes())); diff != "" {
			t.Errorf("%s %s at %s (-example +told):\n%s", tt.method, tt.path, tt.base, diff)
		}
	}
}

// What may be sent is what is taken: bodies that the document refuses are
// refused, and the others are not.
func TestBodiesAreDocumented(t *testing.T) {
	h, doc, id := servetest.Alerting(t)
	text := func(n int) string { return strings.Repeat("ä", n) }
	for _, path := range []string{"/api/silences", "/api/alerts/{id}/silence", "/api/alerts/{id}/acknowledge", "/api/alerts/acknowledge", "/api/alerts/silence"} {
		for _, content := range []string{
			`{"alert_ids":["` + id + `"]}`, `{"alert_ids":[]}`, `{"alert_ids":["` + id + `"],"duration_seconds":60}`, `{"alert_ids":[7],"duration_seconds":60}`,
			`{}`, `[]`, `null`, `{"duration_seconds":0}`, `{"duration_seconds":1}`, `{"duration_seconds":31622400}`, `{"duration_seconds":31622401}`,
			`{"duration_seconds":"60"}`, `{"duration_seconds":60,"comment":"` + text(200) + `"}`, `{"duration_seconds":60,"comment":"` + text(201) + `"}`,
			`{"comment":"` + text(200) + `"}`, `{"by":"` + text(201) + `"}`, `{"comment":"` + text(201) + `"}`, `{"duration_seconds":60,"who":"anna"}`, `{"who":"anna"}`, `{"by":7}`,
		} {
			refused := doc.Schema(t, "post", path, "", typeJSON).Validate(servetest.Unmarshal(t, []byte(content))) != nil
			w := servetest.Say(h, "POST", strings.Replace(path, "{id}", id, 1), typeJSON, content)
			doc.Check(t, "POST", path, w)
			if took := w.Code < 300; took == refused {
				t.Errorf("%s %.60s: status %d, and the document refuses it: %v", path, content, w.Code, refused)
			}
		}
		for _, form := range []string{"duration_seconds=60&by=anna&page=alerts", "who=anna&duration_seconds=60"} {
			w := servetest.Say(h, "POST", strings.Replace(path, "{id}", id, 1), typeForm, form)
			doc.Check(t, "POST", path, w)
		}
	}
	w := servetest.Say(h, "POST", "/api/alerts/"+id+"/acknowledge", typeForm, "by=anna&page=alerts")
	doc.Check(t, "POST", "/api/alerts/{id}/acknowledge", w)
	if w.Code != http.StatusSeeOther {
		t.Errorf("a form: status %d", w.Code)
	}
	raw := servetest.Unmarshal(t, servetest.Get(h, "/openapi.json").Body.Bytes()).(map[string]any)["components"].(map[string]any)["schemas"].(map[string]any)
	for _, name := range []string{"Note", "SilenceRequest", "SilenceSpan", "NoteOfSeveral", "SilenceOfSeveral"} {
		if others := raw[name].(map[string]any)["additionalProperties"]; others != false {
			t.Errorf("%s: other members are %v", name, others)
		}
	}
	form := doc.Schema(t, "post", "/api/alerts/{id}/acknowledge", "", typeForm)
	if form.Validate(map[string]any{"by": "anna", "page": "alerts"}) != nil || form.Validate(map[string]any{"who": "anna"}) == nil {
		t.Error("the document takes other forms")
	}
}

// The pages have the policy of all others, but for the viewer's, which may
// style itself and nothing more.
func TestDocumentPages(t *testing.T) {
	_, h := servetest.Serving(t)
	for path, title := range map[string]string{"/docs": "docs", "/redoc": "addresses", "/docs/events": "operations"} {
		w := servetest.Get(h, path)
		if w.Code != 200 || w.Header().Get("Content-Type") != typeHTML || !strings.Contains(w.Body.String(), title) {
			t.Errorf("%s: %d %q %s", path, w.Code, w.Header().Get("Content-Type"), w.Body)
		}
		got := w.Header().Get("Content-Security-Policy")
		want := serve.Policy()
		if path == "/docs" {
			want = strings.Replace(want, "style-src 'self'", "style-src 'self' 'unsafe-inline'", 1)
		}
		if got != want {
			t.Errorf("%s: the policy is %q", path, got)
		}
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
