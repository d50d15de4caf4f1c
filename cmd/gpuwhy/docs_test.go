package main

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
)

// Each benchmark is in docs/performance.md, and what is there exists.
func TestEveryBenchmarkIsDocumented(t *testing.T) {
	t.Parallel()
	document := readTop(t, "docs/performance.md")
	declared := regexp.MustCompile(`(?m)^func Benchmark(\w+)\(`)
	exists := map[string]bool{}
	err := fs.WalkDir(os.DirFS(top), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		for _, m := range declared.FindAllStringSubmatch(readTop(t, path), -1) {
			exists[m[1]] = true
			if !strings.Contains(document, "`"+m[1]+"`") {
				t.Errorf("%s has Benchmark%s, which docs/performance.md does not mention", path, m[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|").FindAllStringSubmatch(document, -1) {
		if !exists[m[1]] {
			t.Errorf("docs/performance.md mentions Benchmark%s, which does not exist", m[1])
		}
	}
}
