package testkit_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// measured are the only test files that sleep by the machine's clock, because the time is part of what they measure.
var measured = []string{
	"cmd/gpuwhy/bench_test.go",
	"cmd/gpuwhy/kills_soak_test.go",
	"cmd/gpuwhy/past_postgres_test.go",
	"cmd/gpuwhy/past_soak_test.go",
	"internal/bench/crowd_test.go",
	"internal/bench/fleet_test.go",
	"internal/bench/full_test.go",
	"internal/bench/rest_test.go",
	"internal/bench/scale_test.go",
	"internal/bench/server_test.go",
	"sampler/kube/scale_test.go",
	"sampler/smi/hardware_test.go",
}

// Tests wait for the event with Until or Receive, or run in a testing/synctest bubble, where sleeping takes no time.
func TestTestsDoNotSleep(t *testing.T) {
	t.Parallel()
	root := os.DirFS("../..")
	var sleep []string
	virtual := map[string]bool{} // folders whose tests have bubbles, which may stand in another file than what sleeps in them
	err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != ".", d.IsDir() && d.Name() == "bin":
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := fs.ReadFile(root, path)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		bubble := imports(file, "testing/synctest") || imports(file, "github.com/gpuwhy/gpuwhy/internal/fleet/natstest")
		virtual[filepath.Dir(path)] = virtual[filepath.Dir(path)] || bubble
		if sleeps(file) && !bubble {
			sleep = append(sleep, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range sleep {
		if !slices.Contains(measured, path) && !virtual[filepath.Dir(path)] {
			t.Errorf("%s sleeps: wait for the event with testkit.Until, or use testing/synctest; if the span itself is measured, list the file here", path)
		}
	}
	for _, path := range measured {
		if !slices.Contains(sleep, path) {
			t.Errorf("%s does not sleep, and is in the list of those that do", path)
		}
	}
}

func sleeps(file *ast.File) (found bool) {
	ast.Inspect(file, func(n ast.Node) bool {
		if call, ok := n.(*ast.SelectorExpr); ok && call.Sel.Name == "Sleep" {
			x, ok := call.X.(*ast.Ident)
			found = found || ok && x.Name == "time"
		}
		return !found
	})
	return found
}

func imports(file *ast.File, path string) bool {
	return slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool { return strings.Trim(i.Path.Value, `"`) == path })
}
