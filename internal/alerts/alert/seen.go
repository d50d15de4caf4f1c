package alert

import (
	"slices"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/insight"
)

// Seen returns a book as those see it who may see these nodes alone: their alerts, the silences that name one of them literally, and the
// rules that name no machine and no GPU.
func Seen(b Book, nodes []string) Book {
	s := &seen{Book: b, nodes: make(map[string]bool, len(nodes))}
	for _, node := range nodes {
		s.nodes[node] = true
	}
	return s
}

// seen is a part of a book.
type seen struct {
	Book
	nodes map[string]bool
}

// Rules implements [Book].
func (s *seen) Rules() []Rule {
	return slices.DeleteFunc(slices.Clone(s.Book.Rules()), func(r Rule) bool { return len(r.Scope.Nodes)+len(r.Scope.GPUs) > 0 })
}

func (s *seen) only(list []Alert) []Alert {
	return slices.DeleteFunc(slices.Clone(list), func(a Alert) bool { return !s.nodes[a.Device.Node] })
}

// Standing implements [Book].
func (s *seen) Standing() []Alert { return s.only(s.Book.Standing()) }

// Past implements [Book].
func (s *seen) Past() []Alert { return s.only(s.Book.Past()) }

// Firing implements [Book].
func (s *seen) Firing(node string) int { return s.sum(node, s.Book.Firing) }

// EndedSince implements [Book].
func (s *seen) EndedSince(node string, since time.Time) int {
	return s.sum(node, func(node string) int { return s.Book.EndedSince(node, since) })
}

// sum adds up what counts on a node, or on all nodes that are seen.
func (s *seen) sum(node string, count func(node string) int) (n int) {
	if node != "" {
		if s.nodes[node] {
			n = count(node)
		}
		return n
	}
	for node := range s.nodes {
		n += count(node)
	}
	return n
}

// Silences implements [Book].
func (s *seen) Silences(now time.Time) []Silence {
	return slices.DeleteFunc(slices.Clone(s.Book.Silences(now)), func(x Silence) bool {
		node, one := x.One()
		return !one || !s.nodes[node]
	})
}

// One returns the only node that a silence is about. It has none if its pattern may match several.
func (x *Silence) One() (node string, one bool) {
	node = strings.NewReplacer(`\\`, `\`, `\*`, `*`, `\?`, `?`, `\[`, `[`).Replace(x.Node)
	return node, x.Node != "" && Literally(node) == x.Node
}

// For returns alerts with the command lines that somebody sees.
func For(list []Alert, commands auth.Commands) []Alert {
	if commands == auth.Shown {
		return list
	}
	list = slices.Clone(list)
	for i := range list {
		list[i].Processes = insight.ProcessesFor(list[i].Processes, commands)
	}
	return list
}
