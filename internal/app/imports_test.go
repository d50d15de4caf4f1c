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
		"gpu", "gpu/catalog", "internal/alerts/alert", "internal/alerts/notify", "internal/serve/apidoc", "internal/contract", "internal/insight",
		"internal/insight/…", "internal/past/history", "internal/past/recent", "internal/past/store", "internal/when", "views/picture",
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
	"internal/past/history":      {"gpu", "internal/insight", "internal/insight/explain", "internal/lazy", "internal/past/store"},
	"internal/state":             {"gpu", "internal/regular"},
	"internal/negotiate":         {},
	"internal/testkit/browser":   {"internal/testkit"},
	"internal/testkit/fixture":   {"gpu"},
	"internal/testkit":           {},
	"internal/testkit/flaky":     {},
	"internal/insight/attribute": {"gpu", "internal/state"},
	"internal/insight/explain":   {"gpu", "internal/state", "internal/lazy"},
	"internal/insight":           {"gpu", "internal/insight/…"},
	"internal/serve/live":        {"internal/auth", "internal/clock"},
	"hub":                        {"gpu", "internal/auth", "internal/insight", "internal/lazy", "internal/nearest", "internal/strictjson"},
	"internal/part":              {"internal/action", "internal/contract", "internal/insight", "internal/metrics", "internal/serve", "internal/state"},
	"internal/action":            {"gpu", "internal/serve/apidoc", "internal/auth"},
	"internal/alerts": {
		"gpu", "views", "internal/action", "internal/alerts/alert", "internal/alerts/notify", "internal/auth", "internal/contract", "internal/insight", "internal/insight/explain", "internal/serve", "internal/serve/apidoc",
	},
	"internal/alerts/alert":         {"gpu", "gpu/catalog", "internal/insight", "internal/insight/…", "internal/lazy"},
	"internal/alerts/rulefile":      {"internal/alerts/alert", "internal/alerts/notify", "internal/nearest", "internal/regular"},
	"internal/alerts/notify":        {"gpu", "internal/alerts/alert", "internal/insight/explain", "internal/lazy", "internal/neterr", "internal/regular"},
	"internal/past/recent":          {"gpu", "gpu/catalog", "internal/insight", "internal/insight/attribute"},
	"internal/past/store":           {"gpu", "gpu/catalog"},
	"internal/past/store/storetest": {"gpu", "internal/past/store", "internal/testkit"},
	"internal/contract": {
		"gpu", "gpu/catalog", "internal/alerts/alert", "internal/forecast/method", "internal/forecast/outlook", "internal/insight", "internal/insight/…", "internal/past/history",
		"internal/past/recent", "internal/past/store",
	},
	"internal/past/store/sqlite":          {"gpu", "internal/state", "internal/past/store", "internal/past/store/frames"},
	"internal/past/scribe":                {"gpu", "internal/helper", "internal/state", "internal/ownfile", "internal/regular", "internal/past/store", "internal/past/store/sqlite"},
	"internal/helper":                     {"gpu"},
	"internal/past/record":                {"gpu", "gpu/catalog", "internal/insight", "internal/insight/…", "internal/past/store"},
	"internal/past/store/frames":          {"internal/past/store"},
	"internal/serve/apidoc":               {"internal/contract"},
	"internal/metrics":                    {"gpu", "gpu/catalog", "internal/insight", "internal/negotiate"},
	"internal/metrics/promtest":           {"internal/testkit"},
	"sampler/smi":                         {"gpu", "internal/lazy", "sampler/nvidia", "sampler/perdevice"},
	"sampler/smi/fakesmi":                 {"internal/testkit", "sampler/captures"},
	"sampler/kube":                        {"gpu", "internal/lazy", "sampler/host", "sampler/smi"},
	"sampler/kube/fakekube":               {"internal/testkit"},
	"sampler/smi/fakesmi/program":         {},
	"internal/past/store/postgres":        {"gpu", "internal/past/store", "internal/past/store/frames"},
	"internal/past/store/postgres/pgtest": {"internal/testkit"},
	"internal/forecast/method":            {},
	"internal/forecast/outlook": {
		"gpu", "internal/forecast/method", "internal/insight", "internal/insight/explain", "internal/state", "internal/past/history", "internal/past/store",
	},
	"internal/serve": {
		"gpu", "internal/action", "internal/auth", "internal/clock", "internal/contract", "internal/insight", "internal/lazy", "internal/nearest", "internal/negotiate", "internal/serve/apidoc", "internal/serve/live", "internal/strictjson",
	},
	"client":        {"gpu", "internal/contract", "internal/insight/explain", "internal/neterr"},
	"internal/term": {"gpu", "internal/contract", "internal/insight", "internal/insight/explain"},
	"internal/now": {
		"gpu", "static", "views", "views/picture", "internal/alerts/alert", "internal/auth", "internal/contract", "internal/insight", "internal/insight/…", "internal/past/history", "internal/past/recent", "internal/serve", "internal/serve/apidoc",
	},
	"internal/serve/servetest": {
		"gpu", "internal/action", "internal/alerts", "internal/alerts/alert", "internal/auth", "internal/clock", "internal/contract", "internal/fleet", "internal/forecast", "internal/insight", "internal/now", "internal/past", "internal/past/history", "internal/past/recent", "internal/past/store", "internal/past/store/storetest", "internal/serve", "internal/serve/apidoc", "internal/testkit/fixture", "static",
	},
	"internal/past": {
		"gpu", "views", "internal/contract", "internal/insight", "internal/nearest", "internal/past/history", "internal/past/store", "internal/serve", "internal/serve/apidoc", "internal/when",
	},
	"internal/forecast": {"internal/contract", "internal/forecast/outlook", "internal/insight", "internal/past/store", "internal/serve", "internal/serve/apidoc"},
	"internal/fleet":    {"gpu", "views", "internal/contract", "internal/insight", "internal/nearest", "internal/serve", "internal/serve/apidoc"},
	"internal/app": {
		"gpu", "hub", "sampler", "static", "internal/action", "internal/alerts", "internal/alerts/alert", "internal/alerts/notify", "internal/alerts/rulefile", "internal/auth", "internal/clock", "internal/contract", "internal/export", "internal/fleet", "internal/fleet/bus", "internal/fleet/downlink", "internal/fleet/uplink", "internal/forecast", "internal/forecast/outlook", "internal/insight", "internal/metrics", "internal/now", "internal/part", "internal/past", "internal/past/deliver", "internal/past/history", "internal/past/recent", "internal/past/record", "internal/past/store", "internal/regular", "internal/serve", "internal/serve/apidoc", "internal/serve/live", "internal/state", "internal/strictjson", "sampler/kube",
	},
	"internal/fleet/talk":     {"gpu", "internal/action", "internal/alerts/alert", "internal/auth", "internal/fleet/wire"},
	"internal/fleet/uplink":   {"internal/action", "internal/alerts/alert", "internal/auth", "internal/clock", "internal/fleet/bus", "internal/fleet/talk", "internal/fleet/wire", "internal/insight"},
	"internal/fleet/downlink": {"gpu", "internal/action", "internal/alerts/alert", "internal/clock", "internal/fleet/bus", "internal/fleet/talk", "internal/fleet/wire", "internal/insight"},
	"internal/fleet/wire":     {"gpu", "internal/insight", "internal/insight/explain"},
	"internal/story":          {},
	"internal/bench":          {},
	"cmd/gpuwhy":              {"…"},
	"cmd/gpuwhy-gallery":      {"…"},
	"internal/fleet/bus":      {"gpu", "internal/lazy", "internal/neterr", "internal/regular"},
	"internal/fleet/natstest": {"internal/testkit"},
	"internal/fleet/broker":   {"gpu", "internal/fleet/bus", "internal/helper", "internal/state", "internal/neterr", "internal/regular"},
	"internal/export":         {"gpu", "internal/clock", "internal/insight", "internal/metrics", "internal/neterr", "internal/regular"},
	"deploy/helm":             {},
	"internal/past/deliver":   {"gpu", "internal/past/store"},
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
