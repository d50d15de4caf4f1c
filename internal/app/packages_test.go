package app

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/gpuwhy/gpuwhy/"

var update = flag.Bool("update", false, "write docs/packages.md anew")

// A folder is a package of ours, as 'go list' has it.
type folder struct {
	ImportPath string
	Doc        string // the first sentence of its comment
	Imports    []string

	name string   // without the module
	ours []string // what it imports of the module
}

// folders are all packages of the module, by name.
func folders(t *testing.T) (all []folder) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Doc,Imports", module+"...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var f folder
		if err := decoder.Decode(&f); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		f.name = strings.TrimPrefix(f.ImportPath, module)
		for _, imported := range f.Imports {
			if name, is := strings.CutPrefix(imported, module); is {
				f.ours = append(f.ours, name)
			}
		}
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b folder) int { return strings.Compare(a.name, b.name) })
	return all
}

// rooms are the capabilities. The packages below a room's folder belong to it.
var rooms = []string{
	"internal/access", "internal/alerts", "internal/audit", "internal/certs", "internal/clusters", "internal/export", "internal/fleet", "internal/forecast", "internal/guide", "internal/now", "internal/past",
}

// vocabulary are the packages below rooms whose types and questions other rooms share. They know no room.
var vocabulary = []string{"internal/access/ledger", "internal/alerts/alert", "internal/past/history", "internal/past/recent", "internal/past/store"}

// An arrow is a rule about imports: a package that importers match may import of ours what only matches, where there is such a list,
// and nothing that never matches. A pattern that ends in /… is a folder with all below it.
type arrow struct {
	importers   []string
	only, never []string
	why         string
}

var arrows = []arrow{
	{importers: []string{"docs"}, only: []string{}, why: "the documentation knows nobody who shows it"},
	{importers: []string{"gpu/…"}, only: []string{"gpu/…"}, why: "the vocabulary knows nothing else"},
	{
		importers: []string{"sampler/…"},
		only:      []string{"gpu/…", "sampler/…", "internal/clock", "internal/lazy", "internal/testkit/…"},
		why:       "who reads devices knows no capability: those receive Moments from the hub",
		never:     nil,
	},
	{
		importers: []string{"hub"},
		only:      []string{"gpu/…", "internal/auth", "internal/insight", "internal/lazy", "internal/nearest", "internal/strictjson"},
		why:       "the hub gets encoders; it knows no contract and no capability",
	},
	{importers: []string{"internal/insight/…"}, only: []string{"gpu/…", "internal/auth", "internal/insight/…", "internal/state", "internal/lazy"}, why: "Moments are made of snapshots alone; auth says who sees which"},
	{importers: []string{"internal/serve/…"}, never: append([]string{"hub", "views/…", "internal/metrics", "sampler/…"}, below(rooms)...), why: "the core that answers requests knows no capability"},
	{importers: []string{"views/…", "static/…", "client", "internal/contract"}, never: append([]string{"hub", "internal/app", "internal/serve", "internal/metrics", "sampler/…"}, rooms...), why: "what is shown and said knows nobody who serves it"},
	{importers: vocabulary, never: append([]string{"hub", "internal/app", "internal/serve/…", "internal/contract", "views/…", "internal/metrics", "sampler/…"}, rooms...), why: "what rooms share knows no room, and nobody who serves or shows it"},
	{importers: []string{"internal/past/store/…"}, only: []string{"gpu/…", "internal/past/store/…", "internal/state", "internal/testkit/…"}, why: "a store is asked, and asks nobody"},
	{importers: []string{"internal/forecast/method"}, only: []string{}, why: "what a forecast knows is the series that it is given"},
}

// patterns are all names in the rules.
func patterns() []string {
	all := slices.Concat(rooms, vocabulary)
	for _, a := range arrows {
		all = slices.Concat(all, a.importers, a.only, a.never)
	}
	return all
}

// below are folders with all in them.
func below(folders []string) (patterns []string) {
	for _, f := range folders {
		patterns = append(patterns, f+"/…")
	}
	return patterns
}

// within reports whether a list has a package, by name or as below a folder.
func within(list []string, name string) bool {
	return slices.ContainsFunc(list, func(pattern string) bool {
		folder, all := strings.CutSuffix(pattern, "/…")
		return folder == name || all && strings.HasPrefix(name, folder+"/")
	})
}

// roomOf is the room that a package belongs to; empty for none.
func roomOf(name string) string {
	for _, room := range rooms {
		if within([]string{room + "/…"}, name) {
			return room
		}
	}
	return ""
}

func TestArrows(t *testing.T) {
	all := folders(t)
	for _, pattern := range patterns() { // of a name that nothing has any more, a rule would say nothing
		if !slices.ContainsFunc(all, func(f folder) bool { return within([]string{pattern}, f.name) }) {
			t.Errorf("there is no package %s, of which rules for imports tell", pattern)
		}
	}
	for _, f := range all {
		if strings.HasSuffix(f.name, "test") { // it helps tests, which put the whole together
			continue
		}
		for _, other := range f.ours {
			for _, a := range arrows {
				if within(a.importers, f.name) && (a.only != nil && !within(a.only, other) || within(a.never, other)) {
					t.Errorf("%s imports %s: %s", f.name, other, a.why)
				}
			}
			if importer, imported := roomOf(f.name), roomOf(other); importer != "" && imported != "" && importer != imported && !slices.Contains(vocabulary, other) {
				t.Errorf("%s imports %s: rooms don't import each other; declare a small interface for what you need", f.name, other)
			}
			if slices.Contains(rooms, other) && roomOf(f.name) != other && f.name != "internal/app" && !strings.HasPrefix(f.name, "cmd/") {
				t.Errorf("%s imports %s: only internal/app and commands know a room", f.name, other)
			}
		}
	}
}

// docs/packages.md lists the packages, with the first sentence of each one's comment and what it imports of ours.
func TestPackages(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Packages\n\nEach package with the first sentence of its comment and what it imports of ours. `go test ./internal/app -run TestPackages -update` writes this table;\n" +
		"the rules for imports are in [internal/app/packages_test.go](../internal/app/packages_test.go), and their reasons in [architecture](architecture.md).\n\n" +
		"| package | what it is for | imports |\n| --- | --- | --- |\n")
	for _, f := range folders(t) {
		what := f.Doc
		for _, lead := range []string{"Package " + path.Base(f.name) + " ", "Command " + path.Base(f.name) + " "} {
			what = strings.TrimPrefix(what, lead)
		}
		if what == "" && len(f.Imports) > 0 {
			t.Errorf("%s has no package comment", f.name)
		}
		imports := make([]string, len(f.ours))
		for i, name := range f.ours {
			imports[i] = "`" + name + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", f.name, strings.TrimSuffix(strings.ReplaceAll(what, "|", `\|`), "."), strings.Join(imports, " "))
	}
	const name = "../../docs/packages.md"
	if *update {
		if err := os.WriteFile(name, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != b.String() {
		t.Error("docs/packages.md is not what the packages say: run 'go test ./internal/app -run TestPackages -update', and look at what changed")
	}
}
