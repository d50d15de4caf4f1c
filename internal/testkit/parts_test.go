package testkit_test

import (
	"errors"
	"go/build/constraint"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Of the two parts of make test, one has the race detector. What is left out there is in the other.
func TestNoTestIsInNeitherPart(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("make"); errors.Is(err, exec.ErrNotFound) && os.Getenv("CI") == "" {
		t.Skip("make is not installed")
	}
	command := exec.CommandContext(t.Context(), "make", "-C", "../..", "--no-print-directory", "-n", "test-plain")
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "MAKE") && !strings.HasPrefix(variable, "MFLAGS") { // those of the make that runs this test
			command.Env = append(command.Env, variable)
		}
	}
	said, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	words := map[string]bool{}
	for _, word := range regexp.MustCompile(`[\w./-]+`).FindAllString(string(said), -1) {
		words[word] = true
	}
	root, left := os.DirFS("../.."), 0
	err = fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != ".", d.IsDir() && d.Name() == "bin":
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := fs.ReadFile(root, path)
		if err != nil || !withoutDetectorAlone(t, path, string(text)) {
			return err
		}
		for _, found := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)[A-Z]\w*)\(`).FindAllStringSubmatch(string(text), -1) {
			left++
			if !words[found[1]] || !words["./"+filepath.Dir(path)+"/"] {
				t.Errorf("%s: %s is in no part of make test: begin the file with '//go:build !race'", path, found[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if left < 100 {
		t.Errorf("only %d tests are for the part without the detector", left)
	}
}

// withoutDetectorAlone reports whether a file is built on Linux without the race detector, and not with it.
func withoutDetectorAlone(t *testing.T, path, text string) bool {
	t.Helper()
	line, _, _ := strings.Cut(text, "\n")
	if !constraint.IsGoBuild(line) {
		return false
	}
	expression, err := constraint.Parse(line)
	if err != nil {
		t.Errorf("%s: %v", path, err)
		return false
	}
	built := func(race bool) bool {
		return expression.Eval(func(tag string) bool {
			return tag == "linux" || tag == "unix" || tag == "amd64" || tag == "cgo" || tag == "race" && race
		})
	}
	return built(false) && !built(true)
}
