package app

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
	"github.com/gpuwhy/gpuwhy/sampler"
	"github.com/gpuwhy/gpuwhy/sampler/sim"
)

// A removed node disappears from all answers, and its alerts are over.
func TestARemovedNodeVanishes(t *testing.T) {
	machines, err := sim.Nodes("fleet:16", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	var inputs []*Inputs
	for _, m := range machines {
		inputs = append(inputs, &Inputs{Node: m.Node(), Origin: "simulate:fleet:16", Sources: []sampler.Source{m}})
	}
	opt := Options{Address: serve.Address{Listen: "127.0.0.1:0", BasePath: "/"}, Node: "hub", Interval: time.Hour, Deadline: time.Second, MaxViewers: 1, AlertUtilization: 50}
	a, err := New(opt, inputs, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().Add(-time.Hour)
	for range 100 { // as long as any rule waits
		now = now.Add(30 * time.Second)
		var all []*insight.Moment
		for _, node := range []string{"stays", "goes"} {
			s := fixture.H100s(1)
			s.Node, s.Time = node, now
			d := &s.Devices[0]
			d.Node, d.UUID, d.SampledAt, d.Utilization.GPU = node, "GPU-"+node, now, gpu.Of[gpu.Percent](99)
			all = append(all, insight.Of(s))
		}
		a.Take(all)
	}
	seen := func() (said []string) {
		for _, path := range []string{"/api/v1/gpu/nodes", "/api/v1/gpu/alerts", "/api/gpu/metrics/recent", "/metrics", "/nodes"} {
			r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:0"+path, nil)
			w := httptest.NewRecorder()
			a.Handler().ServeHTTP(w, r)
			if strings.Contains(w.Body.String(), "goes") {
				said = append(said, path)
			}
		}
		if a.Alerts.Firing("goes") > 0 {
			said = append(said, "alerts")
		}
		for _, series := range a.Recent.View(nil).Series {
			if series.Node == "goes" {
				said = append(said, "recent")
			}
		}
		return said
	}
	if said := seen(); len(said) < 4 {
		t.Errorf("before, it is in %v alone", said)
	}
	a.Remove("goes")
	for _, where := range seen() {
		if where != "/api/v1/gpu/alerts" { // which has those that are over
			t.Errorf("it is still in %s", where)
		}
	}
	if a.Alerts.Firing("stays") == 0 || len(a.Hub.Newest().Moments()) != 1 {
		t.Error("the other node is gone, too")
	}
	if over := a.Alerts.Past(); len(over) == 0 || over[0].Device.Node != "goes" {
		t.Errorf("%d alerts are over", len(over))
	}
}
