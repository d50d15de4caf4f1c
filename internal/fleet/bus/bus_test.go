package bus

import (
	"os"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.RunTests(m)) }

func FuzzToken(f *testing.F) {
	for _, s := range []string{"gpu-1", "rack 1/gpu.2", "a:b", "=41", "=", "é\x00*.>", strings.Repeat("x", 253), "=3a", "=3A", "=4", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		token := Token(s)
		if back, err := NodeOf(token); s != "" && (err != nil || back != s) || s == "" && err == nil {
			t.Errorf("NodeOf(Token(%q) = %q) = %q, %v", s, token, back, err)
		}
		if i := strings.IndexFunc(token, func(r rune) bool { return r != '=' && (r > 0x7f || !plain(byte(r))) }); i >= 0 {
			t.Errorf("Token(%q) = %q: no token of a subject", s, token)
		}
		// And the other way: a token that is taken is that of its node.
		if node, err := NodeOf(s); err == nil && Token(node) != s {
			t.Errorf("NodeOf(%q) = %q, whose token is %q", s, node, Token(node))
		}
	})
}
