// Package docs has gpuwhy's documentation: the pages of this folder, and the order in which the guide shows them. It knows nobody who
// shows them.
package docs

import (
	"embed"
	"iter"
	"strings"
)

// Files are the pages, which are Markdown, and their pictures. Names have slashes and are relative to this folder.
//
//go:embed *.md adr/*.md screenshots/*.png
var Files embed.FS

// A Section is a group of pages that answer the same kind of question.
type Section struct {
	Title string
	Lead  string // a sentence that says whom it is for
	Pages []string
}

// Sections are all pages, each once, in the order in which the guide shows them. A page is named by its file without ".md".
var Sections = []Section{
	{"Start", "From nothing to the answer in five minutes.", []string{"start", "install", "page", "terminal"}},
	{"Why the fan runs", "How gpuwhy makes its answer, and how far to trust it.", []string{"why", "readings", "forecast"}},
	{"Tasks", "One page for each thing that people want to do.", []string{
		"silence", "last-night", "share", "slack", "prometheus", "first-fleet", "kubernetes", "proxies", "deploy", "notifications", "fleet", "access", "captures",
	}},
	{"Reference", "Every flag, address, event, metric and alert.", []string{"commands", "settings", "api", "protocol", "metrics", "alerts", "past", "amd", "intel", "errors"}},
	{"Troubleshooting", "By what you see.", []string{"troubleshooting", "reliability"}},
	{"About gpuwhy", "What it costs, how far it goes, how safe it is, and what else there is.", []string{"security", "performance", "scale", "compared"}},
	{"For developers", "How gpuwhy is built, and why it is built that way.", append([]string{"architecture", "packages", "adding-a-source"}, decisions()...)},
}

// decisions are the records of choices that somebody may want to undo, oldest first.
func decisions() (pages []string) {
	entries, err := Files.ReadDir("adr")
	if err != nil {
		panic("docs: the embedded files can't be read: " + err.Error())
	}
	for _, e := range entries {
		pages = append(pages, "adr/"+strings.TrimSuffix(e.Name(), ".md"))
	}
	return pages
}

// Pages yields the name and the title of each page, in the order of the guide.
func Pages() iter.Seq2[string, string] {
	return func(yield func(name, title string) bool) {
		for _, s := range Sections {
			for _, name := range s.Pages {
				if !yield(name, Title(name)) {
					return
				}
			}
		}
	}
}

// Title returns the title of a page, which is its first line; empty if there is no such page.
func Title(name string) string {
	text, err := Files.ReadFile(name + ".md")
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimPrefix(first, "# ")
}
