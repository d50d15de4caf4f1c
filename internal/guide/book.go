// Package guide shows gpuwhy's documentation, which package docs has, as pages: below /guide in the program, and as a folder of files
// for a web server ([Write]). HTML in the documentation is shown as text, never passed on.
package guide

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extensionast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"github.com/gpuwhy/gpuwhy/docs"
	"github.com/gpuwhy/gpuwhy/views"
)

// A place has the addresses of pages and pictures, as links from a page have them. The page named "" is the first one.
type place interface {
	page(from, name string) string
	picture(from, name string) string
}

// A book is the whole documentation.
type book struct {
	place    place
	sections []docs.Section
	pages    []*page // in order
	byName   map[string]*page
	passages []passage // of all pages, for the search
}

// A page is one file of the documentation.
type page struct {
	name     string // of its file without ".md", such as "adr/0001-patience"
	title    string
	says     string // its first sentence
	html     string
	headings []heading
}

// A heading is a heading of a page, below its title.
type heading struct {
	level        int
	anchor, text string
}

// A passage is the text below a heading of a page, or below its title.
type passage struct {
	page            *page
	anchor, heading string // empty below the title
	text            string
}

// newBook reads the pages of the sections. A link that leads nowhere is an error.
func newBook(files fs.FS, sections []docs.Section, at place) (*book, error) {
	b := &book{place: at, sections: sections, byName: map[string]*page{}}
	parsed := map[*page]source{}
	for _, s := range sections {
		for _, name := range s.Pages {
			content, err := fs.ReadFile(files, name+".md")
			if err != nil {
				return nil, fmt.Errorf("guide: %w", err)
			}
			p := &page{name: name}
			parsed[p] = b.parse(p, content)
			b.pages, b.byName[name] = append(b.pages, p), p
		}
	}
	for _, p := range b.pages {
		if err := b.link(files, p, parsed[p]); err != nil {
			return nil, err
		}
		var out bytes.Buffer
		if err := markdown.Renderer().Render(&out, parsed[p].content, parsed[p].root); err != nil {
			return nil, fmt.Errorf("guide: %s: %w", p.name, err)
		}
		p.html = out.String()
	}
	return b, nil
}

// A source is a parsed file.
type source struct {
	content []byte
	root    ast.Node
}

var markdown = goldmark.New(
	goldmark.WithExtensions(extension.Table, extension.Strikethrough),
	goldmark.WithParserOptions(parser.WithAutoHeadingID()),
	goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(asText{}, 100))), // before those of goldmark
)

// parse parses a page, and takes its title, headings and passages.
func (b *book) parse(p *page, content []byte) source {
	root := markdown.Parser().Parse(text.NewReader(content), parser.WithContext(parser.NewContext(parser.WithIDs(anchors{}))))
	now := &passage{page: p}
	var said strings.Builder
	flush := func() {
		now.text = strings.Join(strings.Fields(said.String()), " ")
		said.Reset()
		b.passages = append(b.passages, *now)
	}
	var top ast.Node // the title, which is shown apart
	for n := root.FirstChild(); n != nil; n = n.NextSibling() {
		h, is := n.(*ast.Heading)
		if !is {
			plain(&said, n, content)
			if p.says == "" && n.Kind() == ast.KindParagraph {
				p.says = firstSentence(strings.Join(strings.Fields(said.String()), " "))
			}
			continue
		}
		var title strings.Builder
		plain(&title, h, content)
		label := strings.TrimSpace(title.String())
		if h.Level == 1 && p.title == "" {
			p.title, top = label, h
			continue
		}
		flush()
		anchor := ""
		if id, ok := h.AttributeString("id"); ok {
			anchor = string(id.([]byte)) //nolint:forcetypeassert // anchors makes it
		}
		p.headings = append(p.headings, heading{h.Level, anchor, label})
		now = &passage{page: p, anchor: anchor, heading: label}
	}
	flush()
	if top != nil {
		root.RemoveChild(root, top)
	}
	return source{content, root}
}

// firstSentence returns the first sentence of a paragraph.
func firstSentence(text string) string {
	for i := range text {
		if (text[i] == '.' || text[i] == ':') && (i+1 == len(text) || text[i+1] == ' ') {
			return text[:i] + "."
		}
	}
	return text
}

// plain writes the text of a node with a space after each block.
func plain(out *strings.Builder, n ast.Node, content []byte) {
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // it returns only errors of this function
		switch n := n.(type) {
		case *ast.Text:
			if entering {
				out.Write(n.Value(content))
				if n.SoftLineBreak() || n.HardLineBreak() {
					out.WriteByte(' ')
				}
			}
		case *ast.String:
			if entering {
				out.Write(n.Value)
			}
		case *ast.AutoLink:
			if entering {
				out.Write(n.Label(content))
			}
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			for i := range n.Lines().Len() {
				if line := n.Lines().At(i); entering {
					out.Write(line.Value(content))
				}
			}
		}
		if !entering && n.Type() == ast.TypeBlock {
			out.WriteByte(' ')
		}
		return ast.WalkContinue, nil
	})
}

// link gives the links and pictures of a page their addresses. A link to a file of the source that is no page becomes its text: readers
// of the guide may not have that file.
func (b *book) link(files fs.FS, p *page, src source) error {
	var wrong error
	fail := func(destination []byte) {
		if wrong == nil {
			wrong = fmt.Errorf("guide: %s links %s, which is not there", p.name, destination)
		}
	}
	var toText []*ast.Link
	err := ast.Walk(src.root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Image:
			name := path.Join(path.Dir(p.name), string(n.Destination))
			if _, err := fs.Stat(files, name); err != nil {
				fail(n.Destination)
			}
			n.Destination = []byte(b.place.picture(p.name, name))
		case *ast.Link:
			to, anchor, _ := strings.Cut(string(n.Destination), "#")
			if strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") {
				n.SetAttributeString("rel", []byte("noreferrer"))
				return ast.WalkContinue, nil
			}
			target := p
			if to != "" {
				name := path.Join(path.Dir(p.name), to)
				if target = b.byName[strings.TrimSuffix(name, ".md")]; target == nil {
					if !strings.HasPrefix(name, "..") && name != "adr" {
						fail(n.Destination)
					}
					toText = append(toText, n)
					return ast.WalkContinue, nil
				}
			}
			if anchor != "" && !target.hasAnchor(anchor) {
				fail(n.Destination)
			}
			if to != "" {
				n.Destination = []byte(b.place.page(p.name, target.name))
				if anchor != "" {
					n.Destination = append(n.Destination, "#"+anchor...)
				}
			}
		}
		return ast.WalkContinue, nil
	})
	for _, l := range toText {
		for child := l.FirstChild(); child != nil; child = l.FirstChild() {
			l.Parent().InsertBefore(l.Parent(), l, child)
		}
		l.Parent().RemoveChild(l.Parent(), l)
	}
	if wrong == nil {
		wrong = err
	}
	return wrong
}

// hasAnchor reports whether a heading of the page has that anchor.
func (p *page) hasAnchor(anchor string) bool {
	for _, h := range p.headings {
		if h.anchor == anchor {
			return true
		}
	}
	return false
}

// anchors makes the anchors of headings as GitHub makes them, so that links work in both places.
type anchors map[string]int

// Generate implements [parser.IDs].
func (a anchors) Generate(heading []byte, _ ast.NodeKind) []byte {
	var id strings.Builder
	for _, r := range strings.ToLower(strings.TrimSpace(string(heading))) {
		switch {
		case r == ' ':
			id.WriteByte('-')
		case r == '-' || r == '_' || isWord(r):
			id.WriteRune(r)
		}
	}
	n := a[id.String()]
	a[id.String()]++
	if n > 0 {
		return fmt.Appendf(nil, "%s-%d", id.String(), n)
	}
	return []byte(id.String())
}

// Put implements [parser.IDs].
func (a anchors) Put(id []byte) { a[string(id)]++ }

// asText renders HTML as the text that it is, without comments, and has tables and code scroll.
type asText struct{}

// RegisterFuncs implements [renderer.NodeRenderer].
func (asText) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindHTMLBlock, func(w util.BufWriter, content []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		block := n.(*ast.HTMLBlock)                                 //nolint:forcetypeassert // of this kind
		if !entering || block.HTMLBlockType == ast.HTMLBlockType2 { // a comment is for people who write the page
			return ast.WalkContinue, nil
		}
		_, _ = w.WriteString("<pre>")
		for i := range n.Lines().Len() {
			line := n.Lines().At(i)
			html.DefaultWriter.RawWrite(w, line.Value(content))
		}
		if block.HasClosure() {
			html.DefaultWriter.RawWrite(w, block.ClosureLine.Value(content))
		}
		_, err := w.WriteString("</pre>\n")
		return ast.WalkContinue, err
	})
	r.Register(ast.KindRawHTML, func(w util.BufWriter, content []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			raw := n.(*ast.RawHTML) //nolint:forcetypeassert // of this kind
			for i := range raw.Segments.Len() {
				segment := raw.Segments.At(i)
				html.DefaultWriter.RawWrite(w, segment.Value(content))
			}
		}
		return ast.WalkSkipChildren, nil
	})
	code := func(w util.BufWriter, content []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		_, _ = w.WriteString(`<pre tabindex="0"><code>`) // whoever has no mouse scrolls it, too
		for i := range n.Lines().Len() {
			line := n.Lines().At(i)
			html.DefaultWriter.RawWrite(w, line.Value(content))
		}
		_, err := w.WriteString("</code></pre>\n")
		return ast.WalkContinue, err
	}
	r.Register(ast.KindFencedCodeBlock, code)
	r.Register(ast.KindCodeBlock, code)
	r.Register(extensionast.KindTableCell, func(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		tag := "td"
		if n.Parent().Kind() == extensionast.KindTableHeader && n.HasChildren() { // a heading without text heads nothing
			tag = "th"
		}
		switch cell := n.(*extensionast.TableCell); { //nolint:forcetypeassert // of this kind
		case !entering:
			_, _ = w.WriteString("</" + tag + ">\n")
		case cell.Alignment == extensionast.AlignRight: // the page's policy allows no style of a single element
			_, _ = w.WriteString("<" + tag + ` class="right">`)
		default:
			_, _ = w.WriteString("<" + tag + ">")
		}
		return ast.WalkContinue, nil
	})
	r.Register(extensionast.KindTable, func(w util.BufWriter, _ []byte, _ ast.Node, entering bool) (ast.WalkStatus, error) {
		tag := "</table></div>\n"
		if entering {
			tag = `<div class="frame" tabindex="0"><table>` + "\n"
		}
		_, err := w.WriteString(tag)
		return ast.WalkContinue, err
	})
}

// contents are the headings that a page lists, if it has more than two.
func (p *page) contents() (list []views.GuideHeading) {
	for _, h := range p.headings {
		if h.level <= 3 {
			list = append(list, views.GuideHeading{Link: views.Link{Path: "#" + h.anchor, Label: h.text}, Level: h.level})
		}
	}
	if len(list) < 3 {
		return nil
	}
	return list
}
