//go:build !race

package views

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/a-h/templ"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/serve/apidoc"
)

const hostile = `<script>alert(1)</script>" onload="x`

// The documents' pages take what they are given for text, work under the
// strictest policy, and lead to one another.
func TestDocumentPages(t *testing.T) {
	asset := func(name string) string { return "/base/static/h4sh/" + name }
	schema := &apidoc.Schema{Ref: "#/components/schemas/X"}
	field := &apidoc.Schema{Type: apidoc.Types{"array", "null"}, Items: schema, Text: hostile}
	share := &apidoc.Schema{Type: apidoc.Types{"number"}, Minimum: new(0.0), Maximum: new(100.0), Unit: "MiB", Enum: []any{}}
	schemas := apidoc.Members[*apidoc.Schema]{
		{Name: hostile, Value: &apidoc.Schema{Description: hostile, Properties: apidoc.Members[*apidoc.Schema]{{Name: hostile, Value: field}}}},
		{Name: "X", Value: &apidoc.Schema{Properties: apidoc.Members[*apidoc.Schema]{{Name: "share", Value: share}}}},
	}
	example, err := json.Marshal(hostile)
	if err != nil {
		t.Fatal(err)
	}
	reference := &apidoc.Document{
		API: apidoc.API{Version: hostile, Description: hostile, Tags: []apidoc.Tag{{Name: hostile, Description: hostile}}},
		Paths: apidoc.Members[[]*apidoc.Operation]{{Name: "/x", Value: []*apidoc.Operation{{
			Path: "/x", Method: "POST", Tag: hostile, Summary: hostile, Description: hostile,
			Params:  []*apidoc.Parameter{{Name: hostile, In: hostile, Description: hostile, Schema: field}},
			Answers: []apidoc.Answer{{Status: 200, Description: hostile, Content: []apidoc.Media{{Type: hostile, Schema: schema, Example: example}}}},
		}}}},
		Schemas: schemas,
	}
	events := &apidoc.Events{
		Version: hostile, Address: hostile, Text: hostile, Schemas: schemas,
		Limits: []apidoc.Fact{{Name: hostile, Meaning: hostile}}, CloseCodes: []apidoc.Fact{{Name: hostile, Meaning: hostile}},
		Events: []*apidoc.Event{{Name: hostile, Summary: hostile, Description: hostile, Reply: []string{hostile}, Data: schema, Example: example}},
	}
	site := Site{Base: "/base/", Asset: asset, Kind: gpu.Simulated}
	for name, page := range map[string]templ.Component{
		"docs": DocsPage(site), "redoc": ReferencePage(reference, site), "docs/events": EventsPage(events, site),
	} {
		var out bytes.Buffer
		if err := page.Render(t.Context(), &out); err != nil {
			t.Fatal(err)
		}
		html := out.String()
		if bad := regexp.MustCompile(`<script>|<style|\sstyle=|\son[a-z]+=|https?://`).FindString(strings.NewReplacer("&#34; onload=&#34;x", "", `\&#34; onload=\&#34;x`, "").Replace(html)); bad != "" {
			t.Errorf("%s has %q", name, bad)
		}
		if strings.Count(html, "Simulated data.") != 1 {
			t.Errorf("%s does not say that the readings are invented", name)
		}
		if strings.Contains(html, "Recorded data.") {
			t.Errorf("%s says that the readings are recorded", name)
		}
		for _, other := range []string{"docs", "redoc", "docs/events", "openapi.json", "openapi.yaml", "asyncapi.json"} {
			if !strings.Contains(html, `href="/base/`+other+`"`) {
				t.Errorf("%s does not lead to %s", name, other)
			}
		}
		if !strings.Contains(html, `href="/base/`+name+`" aria-current="page"`) {
			t.Errorf("%s does not say where it is", name)
		}
		if name == "docs" && !strings.Contains(html, `show-method-in-nav-bar="as-plain-text"`) || name == "redoc" && !strings.Contains(html, `<a href="#post-x">POST /x</a>`) {
			t.Errorf("%s lists addresses without their methods", name)
		}
		if name == "docs" {
			continue
		}
		for _, want := range []string{"list of", "or null", "MiB", "0 to 100", `href="#type-X"`, `id="type-X"`} {
			if !strings.Contains(html, want) {
				t.Errorf("%s lacks %q", name, want)
			}
		}
	}
}
