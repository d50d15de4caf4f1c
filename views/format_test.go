//go:build !race

package views

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"
)

// testdata/format.json holds what both languages must write; the browser test
// of package static runs the same file through format.js.
type formatCase struct {
	Function string
	Value    float64
	Text     string // for functions of texts: what goes in
	Limit    int
	Want     string
}

func formatCases(t *testing.T) []formatCase {
	t.Helper()
	content, err := os.ReadFile("testdata/format.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []formatCase
	if err := json.Unmarshal(content, &cases); err != nil {
		t.Fatal(err)
	}
	return cases
}

func TestFormat(t *testing.T) {
	functions := map[string]func(float64) string{
		"percent": percent, "celsius": celsius, "watts": watts, "rpm": rpm, "megahertz": megahertz, "fps": fps, "delay": delay,
		"memory": memory, "rate": rate, "span": span, "width": width, "hundredth": hundredth,
		"finePercent": func(v float64) string { return tenth(v) + nbsp + "%" },
	}
	cases := formatCases(t)
	if len(cases) < 50 {
		t.Fatalf("only %d cases", len(cases))
	}
	for _, c := range cases {
		var got string
		switch c.Function {
		case "clean":
			got = clean(c.Text, c.Limit)
		case "sentence":
			got = sentence(c.Text)
		default:
			got = functions[c.Function](c.Value)
		}
		if got != c.Want {
			t.Errorf("%s of %v%q: %q, want %q", c.Function, c.Value, c.Text, got, c.Want)
		}
	}
}

func TestCleanBoundsWhatIsNotText(t *testing.T) {
	got := clean("\xff\xfe"+strings.Repeat("a", 10_000), longestName)
	if want := "\ufffd\ufffd" + strings.Repeat("a", longestName-2) + "…"; got != want {
		t.Errorf("got %q", got)
	}
}

func TestBetween(t *testing.T) {
	begin := time.Date(2026, 1, 2, 3, 4, 5, 999_999_999, time.UTC)
	if got := between(begin, begin.Add(-time.Hour)); got != "0\u00a0s" {
		t.Errorf("a moment that is still to come: %q", got)
	}
	// A browser knows no less than a millisecond.
	if got := between(begin, begin.Add(time.Second-500*time.Microsecond)); got != "1\u00a0s" {
		t.Errorf("got %q", got)
	}
}

func TestList(t *testing.T) {
	for want, words := range map[string][]string{
		"": nil, "a": {"a"}, "a and b": {"a", "b"}, "a, b and c": {"a", "b", "c"},
	} {
		if got := list(words); got != want {
			t.Errorf("%v: %q, want %q", words, got, want)
		}
	}
}
