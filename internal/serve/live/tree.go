package live

import (
	"bytes"
	"errors"
	"hash/maphash"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// A node is an element, a text or a comment, as browsers parse it.
type node struct {
	*html.Node
	kids []*node
	key  string // an element's name, with its key among its siblings if it has one
	hash uint64 // hash of the whole node
}

var seed = maphash.MakeSeed()

// errNoBody is returned for a document without a body. The parser adds a missing
// body, except to a frameset.
var errNoBody = errors.New("the page has no body")

// parse parses a page and returns its body and title.
func parse(page []byte) (body *node, title string, err error) {
	doc, err := html.Parse(bytes.NewReader(page))
	if err != nil {
		return nil, "", err
	}
	var found *html.Node
	for n := range doc.Descendants() {
		switch n.DataAtom {
		case atom.Body:
			found = n
		case atom.Title:
			if title == "" && n.FirstChild != nil && n.Namespace == "" {
				title = n.FirstChild.Data
			}
		}
		if found != nil {
			break
		}
	}
	if found == nil {
		return nil, "", errNoBody
	}
	return newNode(found), title, nil
}

func newNode(n *html.Node) *node {
	out := &node{Node: n}
	var h maphash.Hash
	h.SetSeed(seed)
	_, _ = h.WriteString(n.Data) // it never fails
	for _, a := range n.Attr {
		h.WriteByte(1)
		_, _ = h.WriteString(a.Key)
		h.WriteByte(2)
		_, _ = h.WriteString(a.Val)
	}
	if n.Type == html.ElementNode {
		out.key = n.Data + " " + keyOf(n)
	}
	for kid := range n.ChildNodes() {
		k := newNode(kid)
		h.WriteByte(byte(3 + kid.Type))
		var sum [8]byte
		for i := range sum {
			sum[i] = byte(k.hash >> (8 * i))
		}
		_, _ = h.Write(sum[:])
		out.kids = append(out.kids, k)
	}
	out.hash = h.Sum64()
	return out
}

// keyOf returns what identifies an element among its siblings: its data-key, else its id; empty without both.
func keyOf(n *html.Node) (key string) {
	for _, a := range n.Attr {
		switch a.Key {
		case "data-key":
			return "k" + a.Val
		case "id":
			key = "i" + a.Val
		}
	}
	return key
}

// attribute returns an attribute by name.
func (n *node) attribute(name string) (value string, found bool) {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val, true
		}
	}
	return "", false
}

// outer returns the node as HTML.
func (n *node) outer() string {
	var out strings.Builder
	if err := html.Render(&out, n.Node); err != nil {
		panic("live: " + err.Error()) // a parsed node can always be written
	}
	return out.String()
}
