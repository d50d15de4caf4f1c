package views

import (
	"maps"
	"net/url"
	"slices"

	"github.com/a-h/templ"
)

// Choices are what a person chose on a page: how it is sorted, what it shows, what is expanded.
// They are the query of its address, so a link contains them all.
//
// Links and forms with data-choice change them without a load, and a dialog is open while the address asks for it.
type Choices struct {
	Path  string // path of the page, from the root of the server
	Asked url.Values
}

// Get returns the choice with that name; empty for the default.
func (c Choices) Get(name string) string { return c.Asked.Get(name) }

// longestChoice is the longest choice, in characters.
const longestChoice = 200

// keep drops all choices but those that the page has, so its links don't repeat unknown parameters.
func (c *Choices) keep(names ...string) {
	kept := url.Values{}
	for _, name := range append(names, "kiosk") {
		if v := cut(c.Asked.Get(name)); v != "" {
			kept.Set(name, v)
		}
	}
	c.Asked = kept
}

func cut(text string) string {
	n := 0
	for i := range text {
		if n++; n > longestChoice {
			return text[:i]
		}
	}
	return text
}

// Link returns the address of the page with other choices, as pairs of name and value. An empty value selects the default.
func (c Choices) Link(pairs ...string) templ.SafeURL {
	asked := maps.Clone(c.Asked)
	if asked == nil {
		asked = url.Values{}
	}
	for i := 0; i < len(pairs); i += 2 {
		asked.Del(pairs[i])
		if pairs[i+1] != "" {
			asked.Set(pairs[i], pairs[i+1])
		}
	}
	if len(asked) == 0 {
		return templ.SafeURL(c.Path)
	}
	return templ.SafeURL(c.Path + "?" + asked.Encode())
}

// kept returns the current choices except those named, for the hidden fields of a form that sets those.
func (c Choices) kept(names ...string) (pairs [][2]string) {
	for _, name := range slices.Sorted(maps.Keys(c.Asked)) {
		if slices.Contains(names, name) {
			continue
		}
		pairs = append(pairs, [2]string{name, c.Get(name)})
	}
	return pairs
}
