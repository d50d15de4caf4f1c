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

// allowed says which of our packages each package may import, as docs/architecture.md
// does. A folder that ends in /… stands for all packages below it.
var allowed = map[string][]string{
	"gpu":             {},
	"gpu/catalog":     {"gpu"},
	"static":          {},
	"static/generate": {"views/picture"},
	"views/picture":   {"internal/when"},
	"views": {
		"gpu", "gpu/catalog", "internal/alert", "internal/alert/notify", "internal/apidoc", "internal/contract", "internal/insight",
		"internal/insight/…", "internal/past", "internal/recent", "internal/store", "internal/when", "views/picture",
	},
	"sampler":               {"gpu", "internal/clock", "sampler/plausible"},
	"sampler/plausible":     {"gpu"},
	"sampler/perdevice":     {"gpu"},
	"sampler/kernellog":     {"gpu", "internal/lazy"},
	"sampler/nvidia":        {"gpu", "internal/lazy", "sampler/drm"},
	"sampler/nvml":          {"gpu", "sampler/nvidia", "sampler/perdevice"},
	"sampler/nvml/fakenvml": {"internal/testkit"},
	"sampler/drm":           {"gpu"},
	"sampler/drm/drmtest":   {"gpu", "internal/testkit", "sampler/captures", "sampler/recording"},
	"sampler/amd":           {"gpu", "sampler/drm", "sampler/perdevice"},
	"sampler/intel":         {"gpu", "sampler/drm", "sampler/perdevice"},
	"sampler/sim":           {"gpu"},
	"sampler/recording":     {"gpu"},
	"sampler/replay":        {"gpu", "sampler/amd", "sampler/drm", "sampler/intel", "sampler/recording", "sampler/smi"},
	"sampler/captures":      {},
	"internal/capture": {
		"gpu", "internal/lazy", "sampler/amd", "sampler/drm", "sampler/intel", "sampler/nvidia", "sampler/recording", "sampler/smi",
	},
	"sampler/host":               {"gpu", "internal/lazy"},
	"sampler/sourcetest":         {"gpu", "gpu/catalog", "internal/testkit", "sampler"},
	"internal/lazy":              {},
	"internal/strictjson":        {},
	"internal/auth":              {},
	"internal/clock":             {},
	"internal/regular":           {},
	"internal/ownfile":           {},
	"internal/neterr":            {},
	"internal/nearest":           {},
	"internal/when":              {"gpu", "internal/lazy"},
	"internal/past":              {"gpu", "internal/insight", "internal/insight/explain", "internal/lazy", "internal/store"},
	"internal/keep":              {"gpu", "internal/regular"},
	"internal/negotiate":         {},
	"internal/testkit/browser":   {"internal/testkit"},
	"internal/testkit/fixture":   {"gpu"},
	"internal/testkit":           {},
	"internal/testkit/flaky":     {},
	"internal/insight/attribute": {"gpu", "internal/keep"},
	"internal/insight/explain":   {"gpu", "internal/keep", "internal/lazy"},
	"internal/insight":           {"gpu", "internal/insight/…"},
	"internal/live":              {"internal/auth", "internal/clock"},
	"hub":                        {"gpu", "internal/auth", "internal/insight", "internal/lazy", "internal/nearest", "internal/strictjson"},
	"internal/action":            {"gpu", "internal/apidoc", "internal/auth"},
	"internal/alerts": {
		"gpu", "internal/action", "internal/alert", "internal/apidoc", "internal/auth", "internal/contract", "internal/insight",
	},
	"internal/alert":           {"gpu", "gpu/catalog", "internal/insight", "internal/insight/…", "internal/lazy"},
	"internal/alert/rulefile":  {"internal/alert", "internal/alert/notify", "internal/nearest", "internal/regular"},
	"internal/alert/notify":    {"gpu", "internal/alert", "internal/insight/explain", "internal/lazy", "internal/neterr", "internal/regular"},
	"internal/recent":          {"gpu", "gpu/catalog", "internal/insight", "internal/insight/attribute"},
	"internal/store":           {"gpu", "gpu/catalog"},
	"internal/store/storetest": {"gpu", "internal/store", "internal/testkit"},
	"internal/contract": {
		"gpu", "gpu/catalog", "internal/alert", "internal/forecast", "internal/foresight", "internal/insight", "internal/insight/…", "internal/past",
		"internal/recent", "internal/store",
	},
	"internal/store/sqlite":          {"gpu", "internal/keep", "internal/store", "internal/store/frames"},
	"internal/scribe":                {"gpu", "internal/helper", "internal/keep", "internal/ownfile", "internal/regular", "internal/store", "internal/store/sqlite"},
	"internal/helper":                {"gpu"},
	"internal/record":                {"gpu", "gpu/catalog", "internal/insight", "internal/insight/…", "internal/store"},
	"internal/store/frames":          {"internal/store"},
	"internal/apidoc":                {"internal/contract"},
	"internal/metrics":               {"gpu", "gpu/catalog", "internal/insight", "internal/negotiate"},
	"internal/metrics/promtest":      {"internal/testkit"},
	"sampler/smi":                    {"gpu", "internal/lazy", "sampler/nvidia", "sampler/perdevice"},
	"sampler/smi/fakesmi":            {"internal/testkit", "sampler/captures"},
	"sampler/kube":                   {"gpu", "internal/lazy", "sampler/host", "sampler/smi"},
	"sampler/kube/fakekube":          {"internal/testkit"},
	"sampler/smi/fakesmi/program":    {},
	"internal/store/postgres":        {"gpu", "internal/store", "internal/store/frames"},
	"internal/store/postgres/pgtest": {"internal/testkit"},
	"internal/forecast":              {},
	"internal/foresight": {
		"gpu", "internal/forecast", "internal/insight", "internal/insight/explain", "internal/keep", "internal/past", "internal/store",
	},
	"internal/server": {
		"gpu", "internal/action", "internal/alert", "internal/apidoc", "internal/auth", "internal/clock", "internal/contract", "internal/foresight", "internal/insight",
		"internal/lazy", "internal/live", "internal/nearest", "internal/negotiate", "internal/past", "internal/recent", "internal/store", "internal/strictjson",
		"internal/when",
	},
	"client":        {"gpu", "internal/contract", "internal/insight/explain", "internal/neterr"},
	"internal/term": {"gpu", "internal/contract", "internal/insight", "internal/insight/explain"},
	"internal/web": {
		"gpu", "static", "views", "views/picture", "internal/alert", "internal/alert/notify", "internal/apidoc", "internal/contract",
		"internal/insight", "internal/insight/…", "internal/past", "internal/recent", "internal/server", "internal/store",
		"internal/when",
	},
	"internal/app": {
		"gpu", "hub", "sampler", "internal/action", "internal/alert", "internal/alert/notify", "internal/alert/rulefile", "internal/alerts", "internal/apidoc", "internal/auth", "internal/clock", "internal/contract",
		"internal/export", "internal/fleet/bus", "internal/fleet/deliver", "internal/fleet/downlink", "internal/fleet/uplink", "internal/foresight", "internal/insight", "internal/keep", "internal/live", "internal/metrics", "internal/past", "internal/recent", "internal/record", "internal/regular", "internal/server",
		"internal/store", "internal/strictjson", "internal/web", "sampler/kube",
	},
	"internal/fleet/talk":     {"gpu", "internal/action", "internal/alert", "internal/auth", "internal/fleet/wire"},
	"internal/fleet/uplink":   {"internal/action", "internal/alert", "internal/auth", "internal/clock", "internal/fleet/bus", "internal/fleet/talk", "internal/fleet/wire", "internal/insight"},
	"internal/fleet/downlink": {"gpu", "internal/action", "internal/alert", "internal/clock", "internal/fleet/bus", "internal/fleet/talk", "internal/fleet/wire", "internal/insight"},
	"internal/fleet/wire":     {"gpu", "internal/insight", "internal/insight/explain"},
	"internal/story":          {},
	"internal/bench":          {},
	"cmd/gpuwhy":              {"…"},
	"cmd/gpuwhy-gallery":      {"…"},
	"internal/fleet/bus":      {"gpu", "internal/lazy", "internal/neterr", "internal/regular"},
	"internal/fleet/natstest": {"internal/testkit"},
	"internal/fleet/broker":   {"gpu", "internal/fleet/bus", "internal/helper", "internal/keep", "internal/neterr", "internal/regular"},
	"internal/export":         {"gpu", "internal/clock", "internal/insight", "internal/metrics", "internal/neterr", "internal/regular"},
	"deploy/helm":             {},
	"internal/fleet/deliver":  {"gpu", "internal/store"},
}

// within reports whether a list has a package, by name or below a folder.
func within(list []string, name string) bool {
	return slices.ContainsFunc(list, func(allowed string) bool {
		folder, all := strings.CutSuffix(allowed, "…")
		return allowed == name || all && strings.HasPrefix(name, folder)
	})
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
			if is && !within(may, ours) {
				t.Errorf("%s imports %s: imports point down, see docs/architecture.md", name, ours)
			}
		}
	}
	if seen != len(allowed) {
		t.Errorf("%d packages checked, the table has %d", seen, len(allowed))
	}
}
