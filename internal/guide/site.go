package guide

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/a-h/templ"

	"github.com/gpuwhy/gpuwhy/docs"
	"github.com/gpuwhy/gpuwhy/static"
	"github.com/gpuwhy/gpuwhy/views"
)

// inFolder is a folder of files, with relative addresses: a web server may have it anywhere, and a browser may open it without one.
type inFolder struct{}

func (inFolder) page(from, name string) string {
	if name == "" {
		name = "index"
	}
	return up(from) + name + ".html"
}

func (inFolder) picture(from, name string) string { return up(from) + name }

// up leads from a page to the folder of all.
func up(from string) string { return strings.Repeat("../", strings.Count(from, "/")) }

// indexFile is the script that has all texts for the search.
const indexFile = "index.js"

// Write writes the guide into a folder, which it makes, as files that refer to each other by relative addresses. The version is that of
// gpuwhy; it may be empty.
func Write(folder, version string) error {
	b, err := newBook(docs.Files, docs.Sections, inFolder{})
	if err != nil {
		return err
	}
	assets := static.New()
	files := map[string][]byte{}
	for _, name := range []string{"app.css", "guide.css", "guide.js", "theme.js", "icon.svg"} {
		content, _, ok := assets.Open(strings.TrimPrefix(assets.URL("", name), "static/"))
		if !ok {
			return fmt.Errorf("guide: there is no file %s for the pages", name)
		}
		files["static/"+name] = content
	}
	frame := func(here string) *views.Guide {
		g := b.frame(here)
		g.Version, g.Asset = version, func(name string) string { return up(here) + "static/" + name }
		return g
	}
	pages := map[string]templ.Component{
		"index": views.GuideHome(frame("")), searchName: views.GuideFound(&views.GuideResults{Guide: frame(searchName), Index: indexFile}),
	}
	for _, p := range b.pages {
		pages[p.name] = b.content(frame(p.name), p)
	}
	for name, page := range pages {
		var html bytes.Buffer
		if err := page.Render(context.Background(), &html); err != nil {
			return fmt.Errorf("guide: %s: %w", name, err)
		}
		files[name+".html"] = html.Bytes()
	}
	if files[indexFile], err = b.index(); err != nil {
		return err
	}
	err = fs.WalkDir(docs.Files, "screenshots", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files[name], err = docs.Files.ReadFile(name)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("guide: %w", err)
	}
	for name, content := range files {
		file := filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // everybody may read it
			return fmt.Errorf("guide: %w", err)
		}
		if err := os.WriteFile(file, content, 0o644); err != nil { //nolint:gosec // everybody may read it
			return fmt.Errorf("guide: %w", err)
		}
	}
	return nil
}

// index is a script with all texts: of each part of a page its address, the title of the page, its heading and its text.
func (b *book) index() ([]byte, error) {
	parts := make([][4]string, 0, len(b.passages))
	for i := range b.passages {
		p := &b.passages[i]
		address := b.place.page(searchName, p.page.name)
		if p.anchor != "" {
			address += "#" + p.anchor
		}
		parts = append(parts, [4]string{address, p.page.title, p.heading, p.text})
	}
	text, err := json.Marshal(parts)
	if err != nil {
		return nil, fmt.Errorf("guide: %w", err)
	}
	return append([]byte("globalThis.guideIndex = "), text...), nil
}
