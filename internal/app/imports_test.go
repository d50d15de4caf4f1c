package app

import (
	"encoding/json"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/gpuwhy/gpuwhy/"

// allowed says which of our packages each may import, as docs/architecture.md
// does. A folder that ends in /… stands for all below it.
var allowed = map[string][]string{
	"gpu":                        {},
	"static":                     {},
	"hub":                        {"gpu", "internal/auth", "internal/strictjson"},
	"views":                      {"gpu"},
	"sampler":                    {"gpu"},
	"sampler/perdevice":          {"gpu"},
	"sampler/nvml":               {"gpu", "sampler/perdevice"},
	"sampler/nvml/fakenvml":      {},
	"sampler/sim":                {"gpu"},
	"sampler/host":               {"gpu"},
	"sampler/sourcetest":         {"gpu"},
	"internal/insight/explain":   {"gpu"},
	"internal/alert":             {"gpu", "internal/insight/attribute", "internal/insight/explain"},
	"internal/alert/rulefile":    {"internal/alert", "internal/alert/notify"},
	"internal/alert/notify":      {"gpu", "internal/alert", "internal/insight/explain"},
	"internal/recent":            {"gpu"},
	"internal/insight/attribute": {"gpu"},
	"internal/contract":          {"gpu", "internal/alert", "internal/insight/attribute", "internal/insight/explain", "internal/recent"},
	"internal/fixture":           {"gpu"},
	"internal/browsertest":       {},
	"internal/apidoc":            {"internal/contract"},
	"internal/auth":              {},
	"internal/strictjson":        {},
	"internal/negotiate":         {},
	"internal/metrics":           {"gpu", "internal/negotiate"},
	"internal/server":            {"gpu", "internal/alert", "internal/apidoc", "internal/auth", "internal/contract", "internal/insight/explain", "internal/negotiate", "internal/recent", "internal/strictjson"},
	"internal/keep":              {},
	"internal/term":              {"gpu", "internal/contract", "internal/insight/explain"},
	"internal/web": {
		"gpu", "static", "views", "internal/alert", "internal/alert/notify", "internal/apidoc", "internal/contract",
		"internal/insight/attribute", "internal/insight/explain", "internal/recent", "internal/server",
	},
	"internal/app": {
		"gpu", "hub", "sampler", "internal/alert", "internal/alert/notify", "internal/alert/rulefile", "internal/auth", "internal/contract",
		"internal/insight/attribute", "internal/insight/explain", "internal/keep", "internal/metrics", "internal/recent",
		"internal/server", "internal/web",
	},
	"cmd/gpuwhy":         nil, // everything
	"cmd/gpuwhy-gallery": nil,
}

func TestImportsPointDown(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", module+"...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	decoder := json.NewDecoder(strings.NewReader(string(out)))
	seen := 0
	for {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := decoder.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(p.ImportPath, module)
		may, known := allowed[name]
		if !known {
			t.Errorf("%s is not in the table of this test: say there, and in docs/architecture.md, what it may import", name)
			continue
		}
		seen++
		for _, imported := range p.Imports {
			ours, is := strings.CutPrefix(imported, module)
			if is && may != nil && !slices.Contains(may, ours) {
				t.Errorf("%s imports %s: imports point down, see docs/architecture.md", name, ours)
			}
		}
	}
	if seen != len(allowed) {
		t.Errorf("%d packages checked, the table has %d", seen, len(allowed))
	}
}
