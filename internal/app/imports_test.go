package app

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/gpuwhy/gpuwhy/"

// folders matches a row of the table in docs/architecture.md: the packages, and what they may import.
var folders = regexp.MustCompile(`(?m)^\| (` + "`[^|]*`" + `) \|.*\| ([^|;]*)(?:;[^|]*)? \|$`)

// allowed says which of our packages each may import.
func allowed(t *testing.T) map[string][]string {
	text, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	quoted := regexp.MustCompile("`([^`]+)`")
	all := map[string][]string{}
	for _, row := range folders.FindAllStringSubmatch(string(text), -1) {
		may := []string{}
		for _, m := range quoted.FindAllStringSubmatch(row[2], -1) {
			may = append(may, m[1])
		}
		if row[2] == "everything" {
			may = []string{"…"}
		}
		for _, m := range quoted.FindAllStringSubmatch(row[1], -1) {
			all[m[1]] = may
		}
	}
	return all
}

// within reports whether a list has a package, by name or below a folder.
func within(list []string, name string) bool {
	return slices.ContainsFunc(list, func(allowed string) bool {
		folder, all := strings.CutSuffix(allowed, "…")
		return strings.TrimSuffix(folder, "/") == name || all && strings.HasPrefix(name, folder)
	})
}

func TestImportsPointDown(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", module+"...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	imports := map[string][]string{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := decoder.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		ours := []string{}
		for _, imported := range p.Imports {
			if name, is := strings.CutPrefix(imported, module); is {
				ours = append(ours, name)
			}
		}
		imports[strings.TrimPrefix(p.ImportPath, module)] = ours
	}
	// A room is a part of the program; nodes are read for all of them.
	isRoom := func(name string) bool {
		return slices.Contains(imports[name], "internal/part") && name != "internal/app" && name != "internal/reading"
	}
	table := allowed(t)
	for name, ours := range imports {
		may, known := table[name]
		if !known {
			t.Errorf("%s is not in the table of docs/architecture.md: say there what it may import", name)
			continue
		}
		for _, imported := range ours {
			if !within(may, imported) {
				t.Errorf("%s imports %s: imports point down, see docs/architecture.md", name, imported)
			}
			if isRoom(imported) && name != "internal/app" && !strings.HasPrefix(name, "cmd/") && !strings.HasSuffix(name, "test") {
				t.Errorf("%s imports the capability %s: declare what it needs of that as an interface, which package app passes in", name, imported)
			}
		}
	}
	for name := range table {
		if imports[name] == nil {
			t.Errorf("%s is in the table of docs/architecture.md, and no package", name)
		}
	}
}
