package lazy

import (
	"strings"
	"sync"
)

// How many strings a [Matcher] remembers, and how long they may be in bytes.
const (
	remembered = 64
	longest    = 128
)

// A Matcher is a pattern for names that are the same at each reading: it remembers what it was asked lately. It is not for
// secrets. Several goroutines may use it.
type Matcher struct {
	*Regexp
	mu    sync.Mutex
	known map[string]bool
}

// Match is [Pattern] as a Matcher.
func Match(pattern string) *Matcher { return &Matcher{Regexp: Pattern(pattern)} }

// MatchString is that of [regexp.Regexp].
func (m *Matcher) MatchString(s string) bool {
	if len(s) > longest {
		return m.Regexp.MatchString(s)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	is, known := m.known[s]
	if !known {
		is = m.Regexp.MatchString(s)
		if m.known == nil || len(m.known) >= remembered {
			m.known = make(map[string]bool)
		}
		m.known[strings.Clone(s)] = is // s may be a part of something long
	}
	return is
}
