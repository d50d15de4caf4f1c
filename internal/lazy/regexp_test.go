package lazy_test

import (
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/lazy"
)

func TestPattern(t *testing.T) {
	card := lazy.Pattern(`^card(\d+)$`)
	if got := card().FindStringSubmatch("card12"); len(got) != 2 || got[1] != "12" {
		t.Errorf("the pattern finds %q", got)
	}
	if first, again := card(), card(); first != again {
		t.Error("the pattern is compiled at each use")
	}
}

// Tests find mistakes even in patterns that they don't use.
func TestPatternIsWrong(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a pattern that can't be compiled was taken, in a test")
		}
	}()
	lazy.Pattern(`(`)
}
