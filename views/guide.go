package views

import "github.com/gpuwhy/gpuwhy/internal/insight/explain"

// A Guide is what all pages of the documentation have in common. Its addresses are those for one page, from which they may be
// relative.
type Guide struct {
	Asset    func(name string) string // as in [Input]
	Home     string                   // the first page of the guide
	Live     string                   // gpuwhy's own page; empty where the guide is a folder of files
	Search   string                   // where the search form leads
	Version  string                   // of gpuwhy; empty where it isn't said
	Links    []Link                   // at the end of each page
	Sections []GuideSection
}

// A GuideSection is a group of pages.
type GuideSection struct {
	Title, Lead string
	Pages       []GuideLink
}

// A GuideLink leads to a page.
type GuideLink struct {
	Link
	Says string // the first sentence of the page
	Here bool
}

// A GuidePage is the view model of a page of the guide.
type GuidePage struct {
	*Guide
	Title          string
	Body           string         // HTML, which package guide makes of Markdown; it escapes the HTML in that
	Contents       []GuideHeading // empty if there are too few to list
	Previous, Next *Link          // nil at either end
}

// A GuideHeading is a heading of a page.
type GuideHeading struct {
	Link
	Level int // 2 or 3
}

// GuideResults is the view model of the page with what a search has found.
type GuideResults struct {
	*Guide
	Asked string
	List  []GuideResult // best first
	More  int           // how many others match
	Index string        // address of the script that has all texts, where no server searches; empty where one does
}

// A GuideResult is a part of a page that matches.
type GuideResult struct {
	Path    string
	Page    string  // its title
	Heading string  // empty for the beginning of the page
	Text    []Piece // from where it matches
}

// A Piece is some text, which may be marked as what somebody looks for.
type Piece struct {
	Text   string
	Marked bool
}

// head is that of a page. index is the address of a script with all texts; empty where a page needs none.
func (g *Guide) head(title, index string) head {
	h := head{Title: title + " · gpuwhy", asset: g.Asset, Styles: []string{"app.css", "guide.css"}, Deferred: []string{g.Asset("guide.js")}}
	if index != "" {
		h.Deferred = append([]string{index}, h.Deferred...)
	}
	return h
}

// section returns the section that a page is in, by its title; empty for none.
func (g *Guide) section() string {
	for _, s := range g.Sections {
		for _, p := range s.Pages {
			if p.Here {
				return s.Title
			}
		}
	}
	return ""
}

func placeCount(n int) string { return explain.Plural(n, "place", "places") }
