package now_test

import (
	"bytes"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/a-h/templ"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/alerts/notify"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/now"
	"github.com/gpuwhy/gpuwhy/internal/past/recent"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
)

func rendered(t *testing.T, page templ.Component) string {
	t.Helper()
	var b bytes.Buffer
	if err := page.Render(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// A page of one node has what is of that node, and leads to its own addresses.
func TestPagesOfANode(t *testing.T) {
	var moments []*insight.Moment
	for _, s := range fixture.Fleet() {
		moments = append(moments, insight.Of(s))
	}
	fleet := insight.NewFleet(moments...)
	own, other := fleet.Moments()[0], fleet.Moments()[1]
	alerts := alert.New([]alert.Rule{{Name: "present", Watch: alert.Temperature, Threshold: -40, Severity: alert.Warning, Enabled: true}})
	for _, m := range moments {
		alerts.Observe(m)
	}
	today := time.Now()
	for _, m := range []*insight.Moment{own, other} {
		silence := alert.Silence{Node: m.Snapshot.Node, Comment: "quiet on " + m.Snapshot.Node, Until: today.Add(time.Hour)}
		if _, _, err := alerts.Silence(silence, today); err != nil {
			t.Fatal(err)
		}
	}
	cfg := &serve.Config{Newest: func() *insight.Fleet { return fleet }, Alerts: alerts, Recent: recent.New(), Parts: func() map[string]contract.Part { return nil }}
	cfg.BasePath = "/x/"
	now.New(cfg, new(now.Hues), func() contract.Monitor { return contract.Monitor{Source: gpu.SourceNVML} }, func() []notify.Status { return nil })

	name, others := own.Snapshot.Node, other.Snapshot.Node
	for what, page := range map[string]string{
		"dashboard": rendered(t, cfg.Page(own.Alone(), name, nil)),
		"alerts":    rendered(t, cfg.AlertsPage(0, name, nil)),
	} {
		if !strings.Contains(page, `data-base="/x/node/`+name+`/"`) {
			t.Errorf("%s: it leads to other addresses", what)
		}
		if !strings.Contains(page, own.Snapshot.Devices[0].UUID) || strings.Contains(page, other.Snapshot.Devices[0].UUID) || strings.Contains(page, others) {
			t.Errorf("%s: it is not about %s alone", what, name)
		}
	}
	if page := rendered(t, cfg.AlertsPage(0, name, url.Values{"tab": {"silenced"}})); !strings.Contains(page, "quiet on "+name) {
		t.Error("the silence of the node is missing")
	}
	for what, page := range map[string]string{"dashboard": rendered(t, cfg.Page(fleet, "", nil)), "alerts": rendered(t, cfg.AlertsPage(0, "", nil))} {
		if !strings.Contains(page, `data-base="/x/"`) || !strings.Contains(page, name) || !strings.Contains(page, others) {
			t.Errorf("%s of all nodes: it is not about all", what)
		}
	}
	part, ok := fleet.Device(others, other.Snapshot.Devices[0].UUID)
	if page := rendered(t, cfg.DevicePage(part, nil)); !ok || !strings.Contains(page, other.Snapshot.Devices[0].UUID) || strings.Contains(page, own.Snapshot.Devices[0].UUID) {
		t.Error("the page of a device is not about it alone")
	}
}

// All pages are there, and the manifest leads to files that are.
func TestOtherPages(t *testing.T) {
	fleet := insight.NewFleet(insight.Of(fixture.Server()))
	cfg := &serve.Config{Newest: func() *insight.Fleet { return fleet }, Alerts: alert.New(nil), Recent: recent.New(), Parts: func() map[string]contract.Part { return nil }}
	cfg.BasePath = "/x/"
	now.New(cfg, new(now.Hues), func() contract.Monitor { return contract.Monitor{Source: gpu.SourceNVML, Version: "v1"} }, func() []notify.Status { return nil })
	uuid := fleet.Nodes()[0].Devices[1].UUID
	for path, want := range map[string]string{"processes": `href="/x/processes?sort=name"`, "nodes": "<h1", "about": "What it costs", "find": uuid} {
		page, ok := cfg.OtherPages[path]
		if !ok {
			t.Fatalf("there is no %s", path)
		}
		if html := rendered(t, page(fleet, "", nil)); !strings.Contains(html, want) {
			t.Errorf("%s: no %q", path, want)
		}
		rendered(t, page(nil, "", url.Values{"q": {"x"}})) // before the first reading
		if of := page(fleet, fleet.Nodes()[0].Node, nil); (of == nil) != (path == "nodes") {
			t.Errorf("%s of one node: %v", path, of)
		}
	}
	part, _ := fleet.Device(fleet.Nodes()[0].Node, uuid)
	if html := rendered(t, cfg.EmbedPage(part, nil)); !strings.Contains(html, uuid) {
		t.Error("the card is of another GPU")
	}
	var manifest struct {
		Start string `json:"start_url"`
		Icons []struct{ Src string }
	}
	if err := json.Unmarshal(cfg.Manifest, &manifest); err != nil || manifest.Start != "/x/" || len(manifest.Icons) != 3 {
		t.Fatalf("%v: %s", err, cfg.Manifest)
	}
	for _, icon := range manifest.Icons {
		if _, ok := cfg.Assets(strings.TrimPrefix(icon.Src, "/x/static/")); !ok {
			t.Errorf("%s is not there", icon.Src)
		}
	}
}
