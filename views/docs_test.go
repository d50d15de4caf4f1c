package views

import (
	"bytes"
	"context"
	"io"
	"regexp"
	"strings"
	"testing"
)

const hostile = `<script>alert(1)</script>" onload="x`

// The documents' pages take what they are given for text, work under the
// strictest policy, and lead to one another.
func TestDocumentPages(t *testing.T) {
	asset := func(name string) string { return "/base/static/h4sh/" + name }
	field := FieldDoc{Name: hostile, Type: TypeRef{Before: "list of ", Name: hostile, Anchor: "type-X"}, Null: true, Unit: "MiB", Range: "0 to 100", Text: hostile}
	kinds := []TypeDoc{{Anchor: "type-X", Name: hostile, Text: hostile, Fields: []FieldDoc{field}}}
	for name, page := range map[string]interface {
		Render(context.Context, io.Writer) error
	}{
		"docs": DocsPage{BasePath: "/base/", Asset: asset},
		"redoc": ReferencePage{
			Title: hostile, Version: hostile, Intro: []string{hostile}, Types: kinds, BasePath: "/base/", Asset: asset,
			Groups: []OperationGroup{{Anchor: "g", Name: hostile, Text: hostile, Operations: []OperationDoc{{
				Anchor: "o", Method: "POST", Path: "/x", Summary: hostile, Text: hostile, Params: []FieldDoc{field}, Example: hostile,
				Answers: []AnswerDoc{{Status: "200", Text: hostile, Type: field.Type}},
			}}}},
		},
		"docs/events": EventsPage{
			Version: hostile, Address: hostile, Intro: []string{hostile}, Types: kinds, BasePath: "/base/", Asset: asset,
			Messages: []MessageDoc{{Anchor: "m", Name: hostile, Summary: hostile, Text: hostile, Type: field.Type, Reply: []string{hostile}, Example: hostile}},
			Tables:   []FactTable{{Title: "When it ends", Rows: []Fact{{hostile, hostile}}}},
		},
	} {
		var out bytes.Buffer
		if err := page.Render(t.Context(), &out); err != nil {
			t.Fatal(err)
		}
		html := out.String()
		if bad := regexp.MustCompile(`<script>|<style|\sstyle=|\son[a-z]+=|https?://`).FindString(strings.ReplaceAll(html, "&#34; onload=&#34;x", "")); bad != "" {
			t.Errorf("%s has %q", name, bad)
		}
		for _, other := range []string{"docs", "redoc", "docs/events", "openapi.json", "openapi.yaml", "asyncapi.json"} {
			if !strings.Contains(html, `href="/base/`+other+`"`) {
				t.Errorf("%s does not lead to %s", name, other)
			}
		}
		if !strings.Contains(html, `href="/base/`+name+`" aria-current="page"`) {
			t.Errorf("%s does not say where it is", name)
		}
		if name == "docs" && !strings.Contains(html, `show-method-in-nav-bar="as-plain-text"`) || name == "redoc" && !strings.Contains(html, `<a href="#o">POST /x</a>`) {
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
