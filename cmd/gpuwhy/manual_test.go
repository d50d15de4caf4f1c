//go:build !race

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

// tool returns a program that a test needs. Where it is missing, the test is skipped, or fails if CI is set: `make test` installs it.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("%s is missing: tools/needs installs it", name)
	}
	t.Skipf("%s is missing: tools/needs installs it", name)
	return ""
}

// outputOf runs a program and returns what it prints.
func outputOf(t *testing.T, input string, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s", program, err, out)
	}
	return string(out)
}

// completions returns a file with the script for a shell.
func completions(t *testing.T, shell string) string {
	t.Helper()
	r := inside("completion", shell)
	if r.code != exitOK {
		t.Fatal(r.stderr)
	}
	file := filepath.Join(t.TempDir(), "completion")
	if err := os.WriteFile(file, []byte(r.stdout), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// What shells offer, by what is on the line.
var offered = map[string]string{
	"gpuwhy wh":                                "why",
	"gpuwhy history ":                          "size export compact check",
	"gpuwhy --log-level debug hist":            "history",
	"gpuwhy --node past hist":                  "history",
	"gpuwhy history export ":                   "readings sessions causes events",
	"gpuwhy history export --json readings --": "", // more than can be listed here: it must have --tier
	"gpuwhy why --log-level ":                  "debug info warn error",
	"gpuwhy history export readings --tier ":   "raw 1m 15m 6h",
	"gpuwhy do sil":                            "silence silence-matching silence-several",
	"gpuwhy help his":                          "history",
	"gpuwhy completion ":                       "bash zsh fish",
	"gpuwhy why 0 ":                            "",
}

// sameWords compares lists in any order.
func sameWords(a, b []string) bool {
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

func TestCompletionInBash(t *testing.T) {
	t.Parallel()
	file := completions(t, "bash")
	outputOf(t, "", "bash", "-n", file)
	const script = `source "$1"
complete -p gpuwhy
while IFS= read -r line; do
	COMP_LINE=$line COMP_POINT=${#line}
	_gpuwhy
	printf '%s=> %s\n' "$line" "${COMPREPLY[*]}"
done`
	var lines []string
	for line := range offered {
		lines = append(lines, line)
	}
	// bash itself splits words at = and at :.
	lines = append(lines, "gpuwhy why --log-level=d", "gpuwhy why --source=simulate:d", "gpuwhy why --source nvml,am", "gpuwhy why --wat")
	out := outputOf(t, strings.Join(lines, "\n")+"\n", "bash", "-c", script, "bash", file)
	first, rest, _ := strings.Cut(out, "\n")
	if first != "complete -F _gpuwhy gpuwhy" {
		t.Errorf("bash completes with %q", first)
	}
	got := map[string]string{}
	for line := range strings.Lines(rest) {
		asked, answer, _ := strings.Cut(strings.TrimSpace(line), "=>")
		got[asked] = strings.TrimSpace(answer)
	}
	for line, want := range offered {
		if line == "gpuwhy history export --json readings --" {
			if words := strings.Fields(got[line]); !slices.Contains(words, "--tier=") || slices.Contains(words, "--watch") || !slices.Contains(words, "--json") {
				t.Errorf("%s: %q", line, got[line])
			}
			continue
		}
		if !sameWords(strings.Fields(got[line]), strings.Fields(want)) {
			t.Errorf("%s: %q, want %q", line, got[line], want)
		}
	}
	for line, want := range map[string]string{"gpuwhy why --log-level=d": "debug", "gpuwhy why --source=simulate:d": "demo dgx-h100", "gpuwhy why --source nvml,am": "nvml,amd", "gpuwhy why --wat": "--watch"} {
		if got[line] != want {
			t.Errorf("%s: %q, want %q", line, got[line], want)
		}
	}
}

func TestCompletionInFish(t *testing.T) {
	t.Parallel()
	fish, file := tool(t, "fish"), completions(t, "fish")
	outputOf(t, "", fish, "--no-execute", file)
	const script = `source $argv[1]
while read --null line
	echo "=> $line"
	complete -C $line
end`
	var lines []string
	for line := range offered {
		lines = append(lines, line)
	}
	home := t.TempDir()
	cmd := exec.CommandContext(t.Context(), fish, "--no-config", "-c", script, file)
	cmd.Env, cmd.Dir = append(os.Environ(), "HOME="+home), home
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\x00") + "\x00")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, part := range strings.Split(string(out), "=> ")[1:] {
		asked, answers, _ := strings.Cut(part, "\n")
		got[asked] = []string{}
		for answer := range strings.Lines(answers) {
			word, _, _ := strings.Cut(strings.TrimSpace(answer), "\t")
			got[asked] = append(got[asked], word)
		}
	}
	for line, want := range offered {
		if line == "gpuwhy history export --json readings --" {
			if words := got[line]; !slices.Contains(words, "--tier") || slices.Contains(words, "--watch") {
				t.Errorf("%s: %q", line, got[line])
			}
			continue
		}
		if got[line] == nil || !sameWords(got[line], strings.Fields(want)) {
			t.Errorf("%s: %q, want %q", line, got[line], want)
		}
	}
}

// zsh reads the script, from a folder of $fpath and by itself, and completes with its function.
func TestCompletionInZsh(t *testing.T) {
	t.Parallel()
	zsh, file := tool(t, "zsh"), completions(t, "zsh")
	outputOf(t, "", zsh, "-n", file)
	folder := t.TempDir()
	if err := testkit.CopyProgram(filepath.Join(folder, "_gpuwhy"), file); err != nil {
		t.Fatal(err)
	}
	const load = "autoload -U compinit; compinit -D -u; "
	const say = "; print -r -- $_comps[gpuwhy] $+functions[_gpuwhy]"
	if got := outputOf(t, "", zsh, "-f", "-c", load+"source "+file+say); got != "_gpuwhy 1\n" {
		t.Errorf("sourced: %q", got)
	}
	if got := outputOf(t, "", zsh, "-f", "-c", "fpath=("+folder+" $fpath); "+load+say[2:]); got != "_gpuwhy 1\n" {
		t.Errorf("from a folder: %q", got)
	}
	// Each function knows its flags: a name that the list lacks would be an empty specification.
	const walk = `
compdef() { }
source "$1"
_gpuwhy_arguments() { local id; for id in ${(s: :)1}; do [[ -n $_gpuwhy_flags[$id] ]] || print -r -- "no flag $id"; done; called=$((called + 1)) }
for f in ${(k)functions[(I)_gpuwhy*]}; do [[ $f == _gpuwhy_arguments ]] || $f; done
print -r -- $called`
	if got, want := strings.TrimSpace(outputOf(t, "", zsh, "-f", "-c", walk, "zsh", file)), fmt.Sprint(countOf(grammar().Node)); got != want {
		t.Errorf("%s functions have flags, want %s", got, want)
	}
}

// countOf counts a command and those below it.
func countOf(node *kong.Node) int {
	n := 1
	for _, below := range node.Children {
		n += countOf(below)
	}
	return n
}

// There is a page for each command. man finds nothing wrong with them, and each has all flags.
func TestManPages(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "man")
	l := commandLine()
	l.Date = "2026-11-28" // a build of a test has none
	names, err := l.Man(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, leaf := range l.App.Leaves(true) {
		name := "gpuwhy-" + strings.ReplaceAll(leaf.Path(), " ", "-") + ".1"
		if !slices.Contains(names, name) {
			t.Errorf("%s is missing", name)
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		page := strings.ReplaceAll(string(text), `\-`, "-")
		for _, flag := range leaf.Flags {
			if !strings.Contains(page, `\fB--`+flag.Name+`\fR`) {
				t.Errorf("%s lacks --%s", name, flag.Name)
			}
		}
	}
	mandoc := tool(t, "mandoc")
	for i := range names {
		names[i] = filepath.Join(dir, names[i])
	}
	if out, err := exec.CommandContext(t.Context(), mandoc, append([]string{"-T", "lint"}, names...)...).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("mandoc: %v\n%s", err, out)
	}
}
