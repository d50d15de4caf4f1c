package now_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/serve/servetest"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
)

// A page of one node has what is of that node, and leads to its own addresses.
func TestPagesOfANode(t *testing.T) {
	var moments []*insight.Moment
	for _, s := range fixture.Fleet() {
		moments = append(moments, insight.Of(s))
	}
	fleet := insight.NewFleet(moments...)
	own, other := fleet.Moments()[0], fleet.Moments()[1]
	st, h := servetest.Serving(t, func(c *servetest.Rig) {
		c.Monitor.Several = true
		c.BasePath, c.Newest = "/x/", func() *insight.Fleet { return fleet }
	})
	st.Engine.SetRules([]alert.Rule{{Name: "present", Watch: alert.Temperature, Threshold: -40, Severity: alert.Warning, Enabled: true}}, time.Now())
	for _, m := range moments {
		st.Engine.Observe(m)
	}
	today := time.Now()
	for _, m := range []*insight.Moment{own, other} {
		silence := alert.Silence{Node: m.Snapshot.Node, Comment: "quiet on " + m.Snapshot.Node, Until: today.Add(time.Hour)}
		if _, _, err := st.Engine.Silence(silence, today); err != nil {
			t.Fatal(err)
		}
	}
	page := func(path string) string { return servetest.Get(h, path, "Accept: text/html").Body.String() }

	name, others := own.Snapshot.Node, other.Snapshot.Node
	for what, page := range map[string]string{"dashboard": page("/x/node/" + name + "/"), "alerts": page("/x/node/" + name + "/alerts")} {
		if !strings.Contains(page, `data-base="/x/node/`+name+`/"`) {
			t.Errorf("%s: it leads to other addresses", what)
		}
		if !strings.Contains(page, own.Snapshot.Devices[0].UUID) || strings.Contains(page, other.Snapshot.Devices[0].UUID) || strings.Contains(page, others) {
			t.Errorf("%s: it is not about %s alone", what, name)
		}
	}
	if page := page("/x/node/" + name + "/alerts?tab=silenced"); !strings.Contains(page, "quiet on "+name) {
		t.Error("the silence of the node is missing")
	}
	for what, page := range map[string]string{"dashboard": page("/x/"), "alerts": page("/x/alerts")} {
		if !strings.Contains(page, `data-base="/x/"`) || !strings.Contains(page, name) || !strings.Contains(page, others) {
			t.Errorf("%s of all nodes: it is not about all", what)
		}
	}
	uuid := other.Snapshot.Devices[0].UUID
	if page := page("/x/gpu/" + uuid); !strings.Contains(page, uuid) || strings.Contains(page, own.Snapshot.Devices[0].UUID) {
		t.Error("the page of a device is not about it alone")
	}
}

// All pages are there, and the manifest leads to files that are.
func TestOtherPages(t *testing.T) {
	fleet := insight.NewFleet(insight.Of(fixture.Server()))
	node, uuid := fleet.Nodes()[0].Node, fleet.Nodes()[0].Devices[1].UUID
	_, h := servetest.Serving(t, func(c *servetest.Rig) {
		c.BasePath, c.Pages, c.Newest = "/x/", nil, func() *insight.Fleet { return fleet }
	})
	_, before := servetest.Serving(t, func(c *servetest.Rig) { c.BasePath = "/x/" })
	for path, want := range map[string]string{
		"processes": `href="/x/processes?sort=name"`, "nodes": "<h1", "about": "What it costs", "find": uuid, "embed/gpu/" + uuid: uuid,
	} {
		if w := servetest.Get(h, "/x/"+path); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: status %d, no %q", path, w.Code, want)
		}
		if w := servetest.Get(before, "/x/"+path+"?q=x"); (w.Code == http.StatusOK) == strings.Contains(path, "gpu") {
			t.Errorf("%s before the first reading: status %d", path, w.Code)
		}
		if w := servetest.Get(h, "/x/node/"+node+"/"+path); (w.Code == http.StatusNotFound) != (path == "nodes") {
			t.Errorf("%s of one node: status %d", path, w.Code)
		}
	}
	var manifest struct {
		Start string `json:"start_url"`
		Icons []struct{ Src string }
	}
	w := servetest.Get(h, "/x/manifest.webmanifest")
	if err := json.Unmarshal(w.Body.Bytes(), &manifest); err != nil || manifest.Start != "/x/" || len(manifest.Icons) != 3 {
		t.Fatalf("%v: %s", err, w.Body)
	}
	for _, icon := range manifest.Icons {
		if w := servetest.Get(h, icon.Src); w.Code != http.StatusOK {
			t.Errorf("%s is not there", icon.Src)
		}
	}
}
