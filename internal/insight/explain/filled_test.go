package explain

import (
	"strings"
	"testing"
)

func TestFilled(t *testing.T) {
	values := []string{"{gpu}", "GPU 0", "{who}", "{gpu} {x} (ann)", "{left}", ""}
	replacer := strings.NewReplacer(values...)
	for _, text := range []string{"", "{who}", "{who} keeps {gpu} busy", "{", "}{", "{{who}}", "{gpu", "{whom} {left}.", "GPU}{gpu}{gpu}", "no"} {
		if got, want := filled(text, values...), replacer.Replace(text); got != want {
			t.Errorf("%q is filled to %q, want %q", text, got, want)
		}
	}
}
