//go:build !race

package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// docs/performance.md lists every benchmark, and no others.
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

// Each link in the documents leads to an existing file, and to one of its headings.
func TestLinksOfTheDocumentsLead(t *testing.T) {
	t.Parallel()
	code := regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading := regexp.MustCompile(`(?m)^#+ +(.*)$`)
	notInAddress := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	leads := func(file, anchor string) bool {
		if anchor == "" {
			_, err := fs.Stat(os.DirFS(top), file)
			return err == nil
		}
		for _, h := range heading.FindAllStringSubmatch(readTop(t, file), -1) {
			if strings.ReplaceAll(notInAddress.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-") == anchor {
				return true
			}
		}
		return false
	}
	links := 0
	err := fs.WalkDir(os.DirFS(top), ".", func(page string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || page != "README.md" && page != "CHANGELOG.md" && (!strings.HasPrefix(page, "docs/") || path.Ext(page) != ".md") {
			return err
		}
		for _, l := range link.FindAllStringSubmatch(code.ReplaceAllString(readTop(t, page), ""), -1) {
			file, anchor, _ := strings.Cut(l[1], "#")
			if strings.Contains(file, "://") {
				continue
			}
			links++
			if file = path.Join(path.Dir(page), file); strings.HasPrefix(l[1], "#") {
				file = page
			}
			if !leads(file, anchor) {
				t.Errorf("%s links %s, which is not there", page, l[1])
			}
		}
		return nil
	})
	if err != nil || links < 100 {
		t.Errorf("%d links; %v", links, err)
	}
}

// The changes are listed by release, the newest first, and what is not released yet before all; each release has notes.
func TestReleases(t *testing.T) {
	t.Parallel()
	var releases []string
	for _, m := range regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(readTop(t, "CHANGELOG.md"), -1) {
		releases = append(releases, m[1])
	}
	if len(releases) < 2 || releases[0] != "Unreleased" {
		t.Fatalf("CHANGELOG.md has %q", releases)
	}
	form := regexp.MustCompile(`^(\d+\.\d+\.\d+) \([A-Z][a-z]+ \d{4}\)$`)
	for i, release := range releases[1:] {
		m := form.FindStringSubmatch(release)
		if m == nil || i > 0 && compareVersions(m[1], form.FindStringSubmatch(releases[i])[1]) >= 0 {
			t.Fatalf("%q is no release, or is listed before a later one", release)
		}
		notes, err := exec.CommandContext(t.Context(), top+"/tools/release-notes", m[1]).CombinedOutput()
		if err != nil || len(notes) < 200 || strings.Contains(string(notes), "](docs/") {
			t.Errorf("the notes of %s: %v\n%s", m[1], err, notes)
		}
	}
	if notes, err := exec.CommandContext(t.Context(), top+"/tools/release-notes", "0.0.1").CombinedOutput(); err == nil {
		t.Errorf("a release that is none has notes: %s", notes)
	}
}

// compareVersions compares two versions, number by number.
func compareVersions(a, b string) int {
	numbers := func(version string) (list []int) {
		for part := range strings.SplitSeq(version, ".") {
			n, _ := strconv.Atoi(part) // only digits match
			list = append(list, n)
		}
		return list
	}
	return slices.Compare(numbers(a), numbers(b))
}
