package now_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/serve/servetest"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
)

const (
	typeJSON = "application/json"
	typeHTML = "text/html; charset=utf-8"
)

func TestAnswers(t *testing.T) {
	server := fixture.BrokenServer()
	m := insight.Of(server)
	f := m.Alone()
	var part []insight.Part
	for p := range f.Parts() {
		part = append(part, p)
	}
	for _, tt := range []struct {
		path   string
		answer any
	}{
		{"/api/gpu/summary", contract.NewSummary(servetest.Monitor, f, 6)},
		{"/api/gpu/metrics", contract.NewUpdate(m, nil)},
		{"/api/gpu/metrics/3", contract.NewOneGPU(part[3])},
		{"/api/gpu/why", contract.NewWhy(servetest.Monitor, f)},
		{"/api/gpu/why/3", contract.NewOneWhy(part[3])},
		{"/api/gpu/why/gpu-800C0DE0-0000-4000-8000-000000000002", contract.NewOneWhy(part[2])},
		{"/gpu/info", contract.NewGPUInfo(servetest.Monitor, f)},
		{"/gpu/metrics", contract.NewGPUMetrics(servetest.Monitor, f)},
		{"/gpu/metrics/7", contract.NewOneGPU(part[7])},
		{"/gpu/metrics/gpu-800C0DE0-0000-4000-8000-000000000002", contract.NewOneGPU(part[2])},
		{"/health", contract.NewProbe(servetest.Monitor, f)},
		{"/health/live", contract.NewProbe(servetest.Monitor, f)},
		{"/health/ready", contract.NewProbe(servetest.Monitor, f)},
		{"/api/gpu/devices", contract.NewDevices(servetest.Monitor, f)},
		{"/api/gpu/driver", contract.NewDriverInfo(servetest.Monitor, f)},
	} {
		t.Run(tt.path, func(t *testing.T) {
			st, h := servetest.Serving(t)
			st.Show(t, server)
			w := servetest.Get(h, tt.path)
			if w.Code != http.StatusOK || w.Header().Get("Content-Type") != typeJSON {
				t.Fatalf("status %d, type %q: %s", w.Code, w.Header().Get("Content-Type"), w.Body)
			}
			if got, want := w.Body.String(), want(t, tt.answer); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			head := servetest.Ask(h, http.MethodHead, tt.path)
			if head.Code != http.StatusOK || head.Body.Len() > 0 {
				t.Errorf("HEAD: status %d with %d bytes, want 200 with none", head.Code, head.Body.Len())
			}
			if got, want := head.Header().Get("Content-Length"), fmt.Sprint(w.Body.Len()); got != want {
				t.Errorf("HEAD: length %s, want %s", got, want)
			}
		})
	}
}

func TestWhatIsSaidWithoutGPU(t *testing.T) {
	st, h := servetest.Serving(t)
	if got, want := servetest.IsProblem(t, servetest.Get(h, "/gpu/metrics"), 503), "the first reading is still in progress: try again in a few seconds"; got != want {
		t.Errorf("starting: %q, want %q", got, want)
	}
	if s := servetest.Decode[contract.Summary](t, servetest.Get(h, "/api/gpu/summary")); s.Available || s.Status != "starting" || s.Why == "" {
		t.Errorf("starting: %+v", s)
	}
	if u := servetest.Decode[contract.Update](t, servetest.Get(h, "/api/gpu/metrics")); u.Available || u.GPUs == nil || len(u.GPUs) > 0 || u.Status != "starting" {
		t.Errorf("starting: %+v", u)
	}
	st.Show(t, fixture.Empty())
	tried := "NVIDIA's management library was not found: install the driver, or check that nvidia-smi runs"
	if got, want := servetest.IsProblem(t, servetest.Get(h, "/gpu/metrics"), 503), "no GPU can be read: "+tried; got != want {
		t.Errorf("empty: %q, want %q", got, want)
	}
	if s := servetest.Decode[contract.Summary](t, servetest.Get(h, "/api/gpu/summary")); s.Available || s.Status != "no_gpu" || s.Reason != tried {
		t.Errorf("empty: %+v", s)
	}
}

func TestDevicePage(t *testing.T) {
	st, h := servetest.Serving(t, func(c *servetest.Rig) { c.BasePath = "/base" })
	snap := fixture.Server()
	st.Show(t, snap)
	uuid := snap.Devices[3].UUID
	w := servetest.Get(h, "/base/gpu/"+uuid)
	if w.Code != 200 || w.Header().Get("Content-Type") != typeHTML || !strings.Contains(w.Body.String(), uuid) {
		t.Errorf("status %d, %s", w.Code, w.Body)
	}
	for _, id := range []string{"3", strings.ToLower(uuid)} {
		if w := servetest.Get(h, "/base/gpu/"+id+"?sort=memory"); w.Code != 307 || w.Header().Get("Location") != "/base/gpu/"+uuid+"?sort=memory" {
			t.Errorf("%s: status %d to %q", id, w.Code, w.Header().Get("Location"))
		}
	}
}

func TestRecent(t *testing.T) {
	st, h := servetest.Serving(t)
	if got := servetest.Decode[contract.Recent](t, servetest.Get(h, "/api/gpu/recent?gpu=0")); len(got.GPUs) != 0 {
		t.Errorf("before the first reading there is a past: %+v", got)
	}
	servetest.IsProblem(t, servetest.Get(h, "/api/gpu/recent?gpu=0&gpu=zero"), 422)
	st.Show(t, fixture.Server())
	first := servetest.Get(h, "/api/gpu/recent")
	if got, want := first.Body.String(), want(t, contract.NewRecent(servetest.Monitor, st.Newest(), st.Recent.View(nil))); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for query, uuids := range map[string]int{"gpu=0": 1, "gpu=0&gpu=3": 2, "gpu=GPU-800c0de0-0000-4000-8000-000000000003&gpu=3": 1, "other=1": 8} {
		got := servetest.Decode[contract.Recent](t, servetest.Get(h, "/api/gpu/recent?"+query))
		if len(got.GPUs) != uuids {
			t.Errorf("%s: %d GPUs, want %d", query, len(got.GPUs), uuids)
		}
	}
	servetest.IsProblem(t, servetest.Get(h, "/api/gpu/recent?gpu=0&gpu="), 422)
	servetest.IsProblem(t, servetest.Get(h, "/api/gpu/recent?gpu=0&gpu=99"), 404)

	// The store may hear of a snapshot after the first who asks about it.
	late := fixture.Server()
	late.Time = late.Time.Add(5 * time.Second)
	st.Recent.Add(late)
	if got := servetest.Decode[contract.Recent](t, servetest.Get(h, "/api/gpu/recent")); len(got.OffsetsSeconds) != 2 {
		t.Errorf("%d points after the store got another, want 2", len(got.OffsetsSeconds))
	}
}

func TestHealth(t *testing.T) {
	st, h := servetest.Serving(t)
	st.Show(t, fixture.BrokenServer())
	for _, path := range []string{"/api/health", "/health/detailed"} {
		w := servetest.Get(h, path)
		got := servetest.Decode[contract.MonitorHealth](t, w)
		if got.Status != "degraded" || got.GPUCount != 8 || got.AnsweringGPUCount != 6 || got.Parts["sampler"].State != "ok" || got.UptimeSeconds <= 0 {
			t.Errorf("%s: %+v", path, got)
		}
		if cache := w.Header().Get("Cache-Control"); cache != "no-store" || w.Header().Get("ETag") != "" {
			t.Errorf("%s may be kept: Cache-Control %q, ETag %q", path, cache, w.Header().Get("ETag"))
		}
	}
}

func TestHome(t *testing.T) {
	const browser = "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"
	st, h := servetest.Serving(t)
	st.Show(t, fixture.Workstation())
	for _, tt := range []struct {
		name, contentType string
		headers           []string
	}{
		{"browser", typeHTML, []string{browser}},
		{"curl, and Python's clients", typeJSON, []string{"Accept: */*"}},
		{"axios", typeJSON, []string{"Accept: application/json, text/plain, */*"}},
		{"JSON after all types", typeJSON, []string{"Accept: */*, application/json"}},
		{"JSON, text and all types", typeJSON, []string{"Accept: application/json, text/plain, */*"}},
		{"all types", typeJSON, []string{"Accept: */*"}},
		{"HTML and all types", typeHTML, []string{"Accept: text/html, */*"}},
		{"any text", typeHTML, []string{"Accept: text/*, */*"}},
		{"nothing said", typeJSON, nil},
		{"nothing that we have", typeJSON, []string{"Accept: image/png"}},
		{"JSON", typeJSON, []string{"Accept: application/json"}},
		{"JSON before HTML", typeJSON, []string{"Accept: text/html;q=0.5, application/json"}},
		{"HTML before JSON", typeHTML, []string{"Accept: application/json;q=0.5, text/html;q=0.6"}},
		{"anything but HTML", typeJSON, []string{"Accept: */*, text/html;q=0"}},
		{"on two lines", typeJSON, []string{"Accept: text/html;q=0.1", "Accept: application/*"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := servetest.Get(h, "/", tt.headers...)
			if w.Code != 200 || w.Header().Get("Content-Type") != tt.contentType {
				t.Errorf("status %d, type %q, want 200 and %q", w.Code, w.Header().Get("Content-Type"), tt.contentType)
			}
			if vary := w.Header().Values("Vary"); len(vary) == 0 || vary[0] != "Accept" {
				t.Errorf("Vary is %q, want Accept in it", vary)
			}
		})
	}
	if got := servetest.Get(h, "/", "Accept: application/json").Body.String(); got != `{"service":"gpuwhy","version":"1.2.3","status":"ok","source":"nvml","timestamp":"2026-03-14T15:09:26.535897Z"}` {
		t.Errorf("the service is %s", got)
	}
	before := servetest.Get(h, "/", browser).Body.String()
	st.Engine.Observe(&insight.Moment{Snapshot: fixture.Server()})
	if after := servetest.Get(h, "/", browser).Body.String(); before == after {
		t.Error("the page was not rendered anew")
	}
}

// The update's bytes are those that the socket sends, whatever they are.
func TestUpdateIsNotEncodedAgain(t *testing.T) {
	_, h := servetest.Serving(t, func(c *servetest.Rig) {
		f := insight.Of(fixture.Workstation()).Alone()
		c.Newest = func() *insight.Fleet { return f }
		c.Update = func(string, auth.Audience) []byte { return []byte("the very bytes") }
	})
	if got := servetest.Get(h, "/api/gpu/metrics").Body.String(); got != "the very bytes" {
		t.Errorf("got %q", got)
	}
}

// want marshals what an answer has to be.
func want(t *testing.T, answer any) string {
	t.Helper()
	b, err := json.Marshal(answer)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
