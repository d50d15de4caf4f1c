package views

import (
	"maps"
	"net/url"
	"slices"

	"github.com/a-h/templ"
)

// Choices are what a person chose of a page: how it is sorted, what it shows, what is open.
// They are the query of its address, so that a link has them all.
type Choices struct {
	Path  string // of the page, from the root of the server
	Asked url.Values
}

// Of is what was chosen of that name; empty for the default.
func (c Choices) Of(name string) string { return c.Asked.Get(name) }

// With is the address of the page with another choice; an empty value stands for the default. Pairs are of names and values.
func (c Choices) With(pairs ...string) templ.SafeURL {
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

// kept are all pairs of names and values that were asked for but those of the names, for a form that asks for those.
func (c Choices) kept(names ...string) (pairs [][2]string) {
	for _, name := range slices.Sorted(maps.Keys(c.Asked)) {
		if slices.Contains(names, name) {
			continue
		}
		for _, v := range c.Asked[name] {
			pairs = append(pairs, [2]string{name, v})
		}
	}
	return pairs
}
