package lazy_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/lazy"
)

func TestMatch(t *testing.T) {
	const pattern = `^(?:[a-z]*[02468]|x{200})$`
	m, plain := lazy.Match(pattern), regexp.MustCompile(pattern)
	for range 3 {
		for n := range 200 {
			if s := fmt.Sprint("name", n); m.MatchString(s) != plain.MatchString(s) {
				t.Errorf("%s: %v", s, m.MatchString(s))
			}
		}
	}
	if !m.MatchString(strings.Repeat("x", 200)) {
		t.Error("what is long does not match")
	}
}

// The same names are asked about at each reading: the pattern is not needed for them again.
func TestMatchRemembers(t *testing.T) {
	m := lazy.Match(`^python`)
	names := []string{"python3", "bash", ""}
	for _, name := range names {
		m.MatchString(name)
	}
	m.Regexp = nil
	for i, name := range names {
		if m.MatchString(name) != (i == 0) {
			t.Errorf("%q: %v", name, i != 0)
		}
	}
}
