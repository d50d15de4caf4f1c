//go:build !race

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// Each command has the statuses of docs/commands.md: 0 for its help, 2 for a wrong command line and, where it asks a gpuwhy that does
// not run, 1.
func TestExitStatuses(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("\n| command | status 1 also means |\n| --- | --- |\n")
	nobody := "--url=http://" + freeAddress(t)
	for _, leaf := range grammar().Leaves(true) {
		line := words(leaf)
		if f, is := reflect.TypeAssert[finder](leaf.Target.Addr()); is && leaf.Parent.Name != "do" {
			fmt.Fprintf(&b, "| `gpuwhy %s` | %s |\n", leaf.Path(), f.Fails())
		} else if is && !strings.Contains(b.String(), "`gpuwhy do ACTION`") {
			fmt.Fprintf(&b, "| `gpuwhy do ACTION` | %s |\n", f.Fails())
		}
		if leaf.Name == "help" {
			continue
		}
		if leaf.Parent.Type == kong.ApplicationNode || leaf.Parent.Children[0] == leaf { // subcommands are parsed in the same way
			if r := inside(append(line, "--help")...); r.code != exitOK {
				t.Errorf("%s --help: status %d: %s", line, r.code, r.stderr)
			}
			if r := inside(append(line, "--paint")...); r.code != exitUsage || r.stdout != "" {
				t.Errorf("%s --paint: status %d: %s%s", line, r.code, r.stdout, r.stderr)
			}
		}
		for _, flag := range leaf.Flags {
			if flag.Name != "url" {
				continue
			}
			if r := inside(append(line, nobody)...); r.code != exitError || r.stderr == "" {
				t.Errorf("%s with nobody to ask: status %d: %s", line, r.code, r.stderr)
			}
		}
	}
	if r := inside("man", "/dev/null/pages"); r.code != exitError {
		t.Errorf("man into a folder that can't be: status %d: %s", r.code, r.stderr)
	}
	const begin, end = "TestExitStatuses -update` writes what follows -->\n", "<!-- until here -->"
	text := readTop(t, "docs/commands.md")
	before, rest, _ := strings.Cut(text, begin)
	table, after, found := strings.Cut(rest, end)
	if !found {
		t.Fatal("docs/commands.md has no place for the table")
	}
	want := b.String() + "\n"
	if *updateDocs {
		if err := os.WriteFile(filepath.Join(top, "docs/commands.md"), []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if table != want {
		t.Errorf("docs/commands.md has\n%s\nwant\n%s", table, want)
	}
}
