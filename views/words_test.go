//go:build !race

package views

import (
	"encoding/json"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/gpu"
)

func TestSay(t *testing.T) {
	for want, got := range map[string]string{
		"of 5": say("of", "5"), " of ": fill("{} of {}"), "GPU {}": say("gpu", "{}"),
		"1 GPU": count("GPUs", 1), "0 GPUs": count("GPUs", 0), "2 GPUs": count("GPUs", 2), "": say("nobody has said this", "x"),
		"for 5 s": say("for", "5 s"),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// What is said has a text, and each text is said.
func TestEveryTextIsSaid(t *testing.T) {
	asked := regexp.MustCompile(`(?:\bsay|\bcount|\bmissing)\("([^"]+)"`)
	begins := regexp.MustCompile(`say\("([a-z]+ )" ?\+`)
	other := regexp.MustCompile(`"([A-Za-z_ ,]+)"`)
	var names, prefixes []string
	for q := range gpu.Doubtful {
		names = append(names, q.String()) // see absent
	}
	files, err := fs.Glob(os.DirFS("."), "*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") || name == "words.go" {
			continue
		}
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range begins.FindAllStringSubmatch(string(source), -1) {
			prefixes = append(prefixes, m[1])
		}
		for _, m := range asked.FindAllStringSubmatch(string(source), -1) {
			if !strings.HasSuffix(m[1], " ") {
				if names = append(names, m[1]); texts[m[1]] == "" {
					t.Errorf("%s: there is no text %q", name, m[1])
				}
			}
		}
		for _, m := range other.FindAllStringSubmatch(string(source), -1) {
			names = append(names, m[1]) // chosen before it is said
		}
	}
	for name := range texts {
		if !slices.Contains(names, strings.TrimSuffix(name, " why")) && !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
			t.Errorf("nobody says %q", name)
		}
	}
}

// A name that is in two groups would have the text of either.
func TestTextsHaveNamesOfTheirOwn(t *testing.T) {
	var groups map[string]map[string]string
	if err := json.Unmarshal(wordsFile, &groups); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, group := range groups {
		n += len(group)
	}
	if n != len(texts) {
		t.Errorf("%d texts have %d names", n, len(texts))
	}
}
