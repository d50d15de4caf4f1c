package live

import (
	"encoding/json"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// A patch says how one node becomes another. It is JSON, as short as possible without a
// table of known strings:
//
//	null                   no difference
//	"text"                 for a text node: the new text
//	[attributes, children, index, patch, index, patch, …]
//
// attributes are alternating names and values, 0 for none; null removes an attribute, and
// a list is a string spliced from the old one (see [splice]).
//
// children lists the element's new children, 0 for the same in the same order: a
// number is the old child with that index, [first, count] are several in a row, {"t": text}
// is a new text, and a string is the HTML of a new element. The patches that follow apply to
// children by their new index.
type patch any

// diff returns the patch that turns old into next; nil if they are equal. Both must have the same name.
func diff(old, next *node) patch {
	if old.hash == next.hash {
		return nil
	}
	if next.Type != html.ElementNode {
		return next.Data
	}
	var attributes, children any = 0, 0
	if a := attributesOf(old, next); len(a) > 0 {
		attributes = a
	}
	var inner []any
	if _, own := next.attribute("data-own"); !own && next.Data != "noscript" { // a patched page does not show it
		origins := pair(old.kids, next.kids)
		if list := childrenOf(old, next, origins); list != nil {
			children = list
		}
		for i, kid := range next.kids {
			if j := origins[i]; j >= 0 {
				if p := diff(old.kids[j], kid); p != nil {
					inner = append(inner, i, p)
				}
			}
		}
	}
	if attributes == 0 && children == 0 && inner == nil {
		return nil // the script owns the difference
	}
	return append([]any{attributes, children}, inner...)
}

func attributesOf(old, next *node) (out []any) {
	for _, a := range next.Attr {
		before, had := old.attribute(a.Key)
		if had && before == a.Val {
			continue
		}
		var value any = a.Val
		if had && a.Key == "d" { // scripts rewrite moments in other attributes
			value = splice(before, a.Val)
		}
		out = append(out, a.Key, value)
	}
	for _, a := range old.Attr {
		if _, kept := next.attribute(a.Key); !kept {
			out = append(out, a.Key, nil)
		}
	}
	return out
}

// pair finds the old child of each new one; -1 for none. Elements with a key match those with the same key; all
// others, and texts, match in order by kind.
func pair(old, next []*node) []int {
	kind := func(n *node) string {
		if n.Type == html.ElementNode {
			return n.key
		}
		return string(rune('0' + n.Type))
	}
	byKind := make(map[string][]int, len(old))
	for i, n := range old {
		byKind[kind(n)] = append(byKind[kind(n)], i)
	}
	origins := make([]int, len(next))
	for i, n := range next {
		origins[i] = -1
		if list := byKind[kind(n)]; len(list) > 0 {
			origins[i], byKind[kind(n)] = list[0], list[1:]
		}
	}
	return origins
}

// childrenOf lists the new children if they or their order changed.
func childrenOf(old, next *node, origins []int) (out []any) {
	same := len(old.kids) == len(next.kids)
	for i, j := range origins {
		same = same && i == j
	}
	if same {
		return nil
	}
	out = []any{}
	for i := 0; i < len(origins); {
		switch n := next.kids[i]; {
		case origins[i] >= 0:
			first := i
			for i++; i < len(origins) && origins[i] == origins[first]+i-first; i++ {
			}
			if i-first == 1 {
				out = append(out, origins[first])
			} else {
				out = append(out, []int{origins[first], i - first})
			}
			continue
		case n.Type == html.ElementNode:
			out = append(out, n.outer())
		default: // pages have no comments
			out = append(out, map[string]string{"t": n.Data})
		}
		i++
	}
	return out
}

const (
	worthSplicing = 64 // bytes
	piece         = 16 // bytes of a search
)

// splice says how a long string becomes another: pieces of the old one as two numbers each (start and length), with
// new strings between them. Numbers count UTF-16 units, as scripts do, so only ASCII is spliced. In all other cases
// it returns the new string.
func splice(old, next string) any {
	if len(next) < worthSplicing || len(old) < piece || !ascii(old) || !ascii(next) {
		return next
	}
	var out []any
	literal := 0 // start of the part not found in old
	flush := func(end int) {
		if literal < end {
			out = append(out, next[literal:end])
		}
	}
	known := 0 // how much of old is used
	for place := 0; place+piece <= len(next); {
		i := known
		if !strings.HasPrefix(old[i:], next[place:place+piece]) {
			if i = strings.Index(old[known:], next[place:place+piece]); i < 0 {
				place++
				if place-literal > 4*worthSplicing { // too different to go on
					return next
				}
				continue
			}
			i += known
		}
		n := piece
		for place+n < len(next) && i+n < len(old) && next[place+n] == old[i+n] {
			n++
		}
		flush(place)
		out = append(out, i, n)
		place, known = place+n, i+n
		literal = place
	}
	flush(len(next))
	if !slices.ContainsFunc(out, func(part any) bool { _, is := part.(int); return is }) {
		return next
	}
	return out
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// encode writes a patch or a message as JSON without escaping < and &: it is never embedded in a page.
func encode(p any) []byte {
	var out strings.Builder
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(p); err != nil {
		panic("live: " + err.Error()) // strings, numbers and encoded JSON can always be written
	}
	return []byte(strings.TrimSuffix(out.String(), "\n"))
}
