package serve_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a-h/templ"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/internal/serve/servetest"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
)

// The content types of answers.
const (
	typeJSON    = "application/json"
	typeProblem = "application/problem+json"
	typeForm    = "application/x-www-form-urlencoded"
	typeHTML    = "text/html; charset=utf-8"
)

func TestMain(m *testing.M) { os.Exit(testkit.RunTests(m)) }

// Each route before the first reading, without a GPU, and with one.
func TestStatuses(t *testing.T) {
	for _, tt := range []struct {
		path                  string
		starting, empty, full int
	}{
		{"/", 200, 200, 200},
		{"/ws", 200, 200, 200},
		{"/api/gpu/summary", 200, 200, 200},
		{"/api/gpu/metrics", 200, 200, 200},
		{"/api/gpu/metrics/0", 503, 503, 200},
		{"/api/gpu/recent", 200, 200, 200},
		{"/api/gpu/recent?gpu=0", 200, 404, 200},
		{"/api/gpu/recent?gpu=zero", 422, 422, 422},
		{"/api/gpu/why", 200, 200, 200},
		{"/api/gpu/why/0", 503, 503, 200},
		{"/api/gpu/why/1", 503, 503, 404},
		{"/api/gpu/why/one", 422, 422, 422},
		{"/api/health", 200, 200, 200},
		{"/gpu/info", 503, 200, 200}, // before that nobody knows whether a library is installed
		{"/gpu/metrics", 503, 503, 200},
		{"/gpu/metrics/0", 503, 503, 200},
		{"/gpu/metrics/1", 503, 503, 404},
		{"/gpu/metrics/one", 422, 422, 422},
		{"/health", 200, 200, 200},
		{"/health/detailed", 200, 200, 200},
		{"/health/ready", 503, 200, 200},
		{"/health/live", 200, 200, 200},
		{"/api/gpu/devices", 200, 200, 200},
		{"/api/gpu/driver", 200, 200, 200},
		{"/api/v1/monitoring/gpu-metrics", 200, 200, 200},
		{"/api/v1/gpu/nodes", 200, 200, 200},
		{"/api/v1/gpu/nodes?cluster_id=", 200, 200, 200},
		{"/api/v1/gpu/nodes?cluster_id=local", 503, 400, 200},
		{"/api/v1/gpu/nodes?cluster_id=remote", 404, 404, 404},
		{"/api/v1/gpu/nodes/local/workstation", 503, 404, 200},
		{"/api/v1/gpu/nodes/local/other", 503, 404, 404},
		{"/api/v1/gpu/nodes/remote/workstation", 404, 404, 404},
		{"/api/v1/gpu/nodes/workstation", 503, 404, 200},
		{"/api/v1/gpu/nodes/workstation?cluster_id=local", 503, 404, 200},
		{"/api/v1/gpu/nodes/workstation?cluster_id=remote", 404, 404, 404},
		{"/api/v1/gpu/nodes/", 404, 404, 404},
		{"/api/v1/gpu/processes", 200, 200, 200},
		{"/api/v1/gpu/processes?cluster_id=local", 503, 400, 200},
		{"/api/v1/gpu/processes?cluster_id=remote", 404, 404, 404},
		{"/api/v1/gpu/processes?node_name=workstation", 200, 200, 200},
		{"/api/v1/gpu/processes?node_name=other", 200, 200, 200},
		{"/api/v1/gpu/summary", 200, 200, 200},
		{"/api/v1/gpu/summary?cluster_id=local", 503, 400, 200},
		{"/api/v1/gpu/summary?cluster_id=remote", 404, 404, 404},
		{"/metrics", 200, 200, 200},
		{"/docs", 200, 200, 200},
		{"/docs/", 404, 404, 404},
		{"/docs/events", 200, 200, 200},
		{"/redoc", 200, 200, 200},
		{"/openapi.json", 200, 200, 200},
		{"/openapi.yaml", 200, 200, 200},
		{"/asyncapi.json", 200, 200, 200},
		{"/favicon.ico", 200, 200, 200},
		{"/robots.txt", 200, 200, 200},
		{"/static/h4sh/app.js", 200, 200, 200},
		{"/static/nothing.js", 404, 404, 404},
		{"/static/", 404, 404, 404},
		{"/static/h4sh/", 404, 404, 404},
		{"/gpu", 404, 404, 404},
		{"/gpu/0", 503, 503, 307},
		{"/gpu/1", 503, 503, 404},
		{"/gpu/one", 422, 422, 422},
		{"/gpu/metrics/", 404, 404, 404},
		{"/nothing", 404, 404, 404},
	} {
		t.Run(tt.path, func(t *testing.T) {
			st, h := servetest.Serving(t)
			check := func(when string, status int) {
				t.Helper()
				w := servetest.Get(h, tt.path)
				if w.Code != status {
					t.Errorf("%s: status %d, want %d: %s", when, w.Code, status, w.Body)
				}
				if status >= 400 {
					servetest.IsProblem(t, w, status)
				}
				if location, want := w.Header().Get("Location"), "/gpu/"+fixture.Workstation().Devices[0].UUID; status == 307 && location != want {
					t.Errorf("%s: leads to %q, want %q", when, location, want)
				}
				if retry := w.Header().Get("Retry-After"); (retry == "5") != (status == 503) {
					t.Errorf("%s: status %d with Retry-After %q", when, status, retry)
				}
			}
			check("starting", tt.starting)
			st.Show(t, fixture.Empty())
			check("empty", tt.empty)
			st.Show(t, fixture.Workstation())
			check("full", tt.full)
		})
	}
}

func TestMethods(t *testing.T) {
	_, h := servetest.Serving(t)
	for _, path := range []string{"/", "/ws", "/api/gpu/summary", "/gpu/metrics/0", "/gpu/info", "/gpu/0", "/static/x.js", "/health/live", "/favicon.ico"} {
		for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "BREW"} {
			w := servetest.Ask(h, method, path)
			servetest.IsProblem(t, w, http.StatusMethodNotAllowed)
			if got := w.Header().Get("Allow"); got != "GET, HEAD, OPTIONS" {
				t.Errorf("%s %s: Allow is %q", method, path, got)
			}
		}
		w := servetest.Ask(h, http.MethodOptions, path)
		if w.Code != http.StatusNoContent || w.Body.Len() > 0 || w.Header().Get("Allow") != "GET, HEAD, OPTIONS" {
			t.Errorf("OPTIONS %s: status %d, %d bytes, Allow %q", path, w.Code, w.Body.Len(), w.Header().Get("Allow"))
		}
	}
	servetest.IsProblem(t, servetest.Ask(h, "POST", "/nothing"), http.StatusNotFound)
}

// An answer is made once for the newest Moments, however many ask. The summary
// follows the number of alerts.
func TestMadeOnce(t *testing.T) {
	st, h := servetest.Serving(t)
	st.Show(t, fixture.Workstation())
	askAll := func() {
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() { servetest.Get(h, "/api/gpu/metrics") })
		}
		all.Wait()
	}
	for _, step := range []struct {
		what   string
		change func()
		made   int64
		alerts int
	}{
		{"at first", func() {}, 1, 1},
		{"again", func() {}, 1, 1},
		{"after an alert", func() { st.Engine.Observe(&insight.Moment{Snapshot: fixture.Server()}) }, 1, 9},
		{"after a reading", func() { st.Show(t, fixture.Server()) }, 2, 9},
	} {
		step.change()
		askAll()
		if got := st.Asked.Load(); got != step.made {
			t.Errorf("%s: made %d times, want %d", step.what, got, step.made)
		}
		if got := servetest.Decode[contract.Summary](t, servetest.Get(h, "/api/gpu/summary")).ActiveAlerts; got != step.alerts {
			t.Errorf("%s: %d active alerts, want %d", step.what, got, step.alerts)
		}
	}
}

// Of a page that can't be rendered nothing is sent, and its cause is in the log
// alone, once.
func TestPageFails(t *testing.T) {
	st, h := servetest.Serving(t, func(c *servetest.Rig) {
		c.Routes = func(k *serve.Kit) []serve.Route {
			return []serve.Route{serve.LivePage("/broken", func(w http.ResponseWriter, r *http.Request) error {
				return k.LiveHTML(w, r, templ.ComponentFunc(func(_ context.Context, w io.Writer) error {
					_, _ = io.WriteString(w, "<!doctype html><title>a page</title>")
					return errors.New("the cause")
				}))
			})}
		}
	})
	w := servetest.Get(h, "/broken", "Accept: text/html")
	if w.Code != 500 || strings.Contains(w.Body.String(), "a page") || strings.Contains(w.Body.String(), "the cause") || !strings.Contains(w.Body.String(), "internal error") {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
	if got := strings.Count(st.Log.String(), "the cause"); got != 1 {
		t.Errorf("the cause is in the log %d times, want once: %s", got, &st.Log)
	}
}

func TestCompression(t *testing.T) {
	st, h := servetest.Serving(t)
	st.Show(t, fixture.Server())
	plain := servetest.Get(h, "/gpu/metrics")
	for _, accept := range []string{"gzip", "br, gzip;q=0.5", "*", "GZIP", "*;q=0, gzip"} {
		w := servetest.Get(h, "/gpu/metrics", "Accept-Encoding: "+accept)
		if w.Header().Get("Content-Encoding") != "gzip" || w.Header().Get("Content-Length") != fmt.Sprint(w.Body.Len()) {
			t.Errorf("%q: encoding %q, length %s of %d", accept, w.Header().Get("Content-Encoding"), w.Header().Get("Content-Length"), w.Body.Len())
			continue
		}
		if w.Header().Get("ETag") == plain.Header().Get("ETag") {
			t.Errorf("%q: two representations have one ETag", accept)
		}
		zr, err := gzip.NewReader(w.Body)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(zr); err != nil || !bytes.Equal(got, plain.Body.Bytes()) {
			t.Errorf("%q: unzipped differs from plain: %v", accept, err)
		}
	}
	for _, accept := range []string{"identity", "br", "gzip;q=0", "gzip;q=0.0, *", "gzip;q=high", ""} {
		if w := servetest.Get(h, "/gpu/metrics", "Accept-Encoding: "+accept); w.Header().Get("Content-Encoding") != "" || w.Header().Get("Vary") != "Accept-Encoding" {
			t.Errorf("%q: encoding %q, Vary %q", accept, w.Header().Get("Content-Encoding"), w.Header().Get("Vary"))
		}
	}
	if w := servetest.Get(h, "/gpu/info", "Accept-Encoding: gzip"); w.Header().Get("Content-Encoding") != "" || w.Header().Get("Vary") != "" {
		t.Error("a few bytes were compressed")
	}
}

func TestRevalidation(t *testing.T) {
	st, h := servetest.Serving(t)
	st.Show(t, fixture.Server())
	for _, path := range []string{"/api/gpu/summary", "/api/gpu/metrics", "/gpu/metrics", "/gpu/metrics/1", "/gpu/info", "/api/gpu/devices", "/api/gpu/recent", "/robots.txt"} {
		w := servetest.Get(h, path)
		etag := w.Header().Get("ETag")
		if len(etag) < 8 || etag[0] != '"' {
			t.Errorf("%s: %q is no strong ETag", path, etag)
		}
		if got := w.Header().Get("Cache-Control"); got != "private, no-cache" {
			t.Errorf("%s: Cache-Control is %q", path, got)
		}
		for _, condition := range []string{etag, "W/" + etag, `"other", ` + etag, "*"} {
			w := servetest.Get(h, path, "If-None-Match: "+condition)
			if w.Code != 304 || w.Body.Len() > 0 || w.Header().Get("ETag") != etag || w.Header().Get("Content-Type") != "" {
				t.Errorf("%s, If-None-Match %s: status %d, %d bytes, ETag %q", path, condition, w.Code, w.Body.Len(), w.Header().Get("ETag"))
			}
		}
		if w := servetest.Get(h, path, `If-None-Match: "other"`); w.Code != 200 {
			t.Errorf("%s: status %d for another ETag", path, w.Code)
		}
	}
	before := servetest.Get(h, "/gpu/metrics").Header().Get("ETag")
	st.Show(t, fixture.BrokenServer())
	if w := servetest.Get(h, "/gpu/metrics", "If-None-Match: "+before); w.Code != 200 {
		t.Errorf("status %d after another snapshot, want 200", w.Code)
	}
}

func TestStatic(t *testing.T) {
	_, h := servetest.Serving(t)
	w := servetest.Get(h, "/static/h4sh/app.js")
	if !bytes.Equal(w.Body.Bytes(), servetest.Assets["h4sh/app.js"].Body) || w.Header().Get("Content-Type") != "text/javascript; charset=utf-8" {
		t.Errorf("%q as %q", w.Body, w.Header().Get("Content-Type"))
	}
	if got := w.Header().Get("Cache-Control"); got != "public, max-age=31536000, immutable" {
		t.Errorf("Cache-Control is %q", got)
	}
	if w := servetest.Get(h, "/static/h4sh/app.js", "Accept-Encoding: gzip"); w.Body.Len() >= serve.WorthZipping || w.Header().Get("Content-Encoding") != "gzip" || w.Header().Get("Vary") != "Accept-Encoding" {
		t.Errorf("%q, encoding %q, Vary %q", w.Body, w.Header().Get("Content-Encoding"), w.Header().Get("Vary"))
	}
	icon := servetest.Get(h, "/favicon.ico", "Accept-Encoding: gzip")
	if icon.Body.String() != "<svg/>" || icon.Header().Get("Content-Type") != "image/svg+xml" || icon.Header().Get("Cache-Control") != "private, no-cache" {
		t.Errorf("%q as %q, Cache-Control %q", icon.Body, icon.Header().Get("Content-Type"), icon.Header().Get("Cache-Control"))
	}
	if w := servetest.Get(h, "/static/..%2f..%2fetc/passwd"); w.Code != 404 {
		t.Errorf("status %d for a path that leads out", w.Code)
	}
}

func TestBasePath(t *testing.T) {
	for _, base := range []string{"/gpu-3/live", "/gpu-3/live/"} {
		st, h := servetest.Serving(t, func(c *servetest.Rig) { c.BasePath = base })
		st.Show(t, fixture.Workstation())
		for path, status := range map[string]int{
			"/gpu-3/live/": 200, "/gpu-3/live/api/gpu/summary": 200, "/gpu-3/live/gpu/metrics/0": 200, "/gpu-3/live/static/h4sh/app.js": 200,
			"/gpu-3/live/ws": 200, "/gpu-3/live?a=b": 307, "/gpu-3/live/nothing": 404,
			"/": 404, "/api/gpu/summary": 404, "/gpu-3": 404, "/gpu-3/liver": 404, "/ws": 404,
		} {
			if w := servetest.Get(h, path); w.Code != status {
				t.Errorf("%s: status %d, want %d", path, w.Code, status)
			}
		}
		if got := servetest.Get(h, "/gpu-3/live?a=b").Header().Get("Location"); got != "/gpu-3/live/?a=b" {
			t.Errorf("%s leads to %q", base, got)
		}
		if got := servetest.Get(h, "/gpu-3/live//api/gpu/summary").Header().Get("Location"); got != "/gpu-3/live/api/gpu/summary" {
			t.Errorf("a doubled slash leads to %q", got)
		}
	}
	_, h := servetest.Serving(t, func(c *servetest.Rig) { c.BasePath = "/" })
	if w := servetest.Get(h, "/"); w.Code != 200 {
		t.Errorf("the base path / gives status %d", w.Code)
	}
}

// While snapshots come, answers are whole, and nobody is sent back in time.
func TestWhileSnapshotsChange(t *testing.T) {
	st, h := servetest.Serving(t)
	st.Show(t, fixture.Server())
	stop := make(chan struct{})
	var all sync.WaitGroup
	for _, path := range []string{"/api/gpu/summary", "/api/gpu/metrics", "/gpu/metrics", "/gpu/metrics/3", "/api/gpu/devices", "/api/gpu/recent", "/api/health"} {
		for range 2 {
			all.Go(func() {
				last := ""
				for {
					select {
					case <-stop:
						return
					default:
					}
					var got struct{ Timestamp string }
					w := servetest.Get(h, path)
					if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 200 || got.Timestamp < last {
						t.Errorf("%s: status %d, %v, %s after %s", path, w.Code, err, got.Timestamp, last)
						return
					}
					last = got.Timestamp
				}
			})
		}
	}
	for i := range 40 {
		next := fixture.Server()
		next.Time = next.Time.Add(time.Duration(i) * time.Second)
		st.Show(t, next)
	}
	close(stop)
	all.Wait()
}

func TestBadConfig(t *testing.T) {
	for name, change := range map[string]func(*servetest.Rig){
		"--allow-host":   func(c *servetest.Rig) { c.AllowHosts = []string{"http://gpu.example"} },
		"--allow-host *": func(c *servetest.Rig) { c.AllowHosts = []string{"*"} },
	} {
		_, cfg := servetest.New()
		change(cfg)
		_, err := cfg.Server()
		advice := gpu.AsAdvice(err)
		flag, _, _ := strings.Cut(name, " ")
		if err == nil || !strings.Contains(advice.Try, flag) {
			t.Errorf("%s: %v, want advice about the flag", name, err)
		}
	}
}

// Of several nodes every answer about all says so, an index alone names no GPU,
// and each node has addresses of its own.
func TestSeveralNodes(t *testing.T) {
	st, h := servetest.Serving(t, func(c *servetest.Rig) { c.Monitor.Several = true })
	st.Show(t, fixture.Workstation(), fixture.BrokenServer())
	summary := servetest.Decode[map[string]any](t, servetest.Get(h, "/api/gpu/summary"))
	if summary["node"] != nil || summary["node_count"] != 2.0 || summary["gpu_count"] != 9.0 {
		t.Errorf("summary: %v", summary)
	}
	if all := servetest.Decode[contract.Update](t, servetest.Get(h, "/api/gpu/metrics")); len(all.GPUs) != 9 || all.GPUs[0].Node != "dgx-1" || all.GPUs[8].Node != "workstation" {
		t.Errorf("%d GPUs, in the order of nodes and indexes", len(all.GPUs))
	}
	if list := servetest.Decode[contract.Fleet](t, servetest.Get(h, "/api/v1/monitoring/gpu-metrics")); list.GPUs[8].ID != "gpu-8" {
		t.Errorf("the last one is %q: ids count over the whole list", list.GPUs[8].ID)
	}
	for _, path := range []string{"/api/gpu/metrics/0", "/gpu/metrics/0", "/gpu/0", "/api/gpu/why/0", "/api/gpu/recent?gpu=0"} {
		if detail := servetest.IsProblem(t, servetest.Get(h, path), http.StatusBadRequest); !strings.Contains(detail, "/node/{name}/") {
			t.Errorf("%s: %s", path, detail)
		}
	}
	if one := servetest.Decode[contract.OneGPU](t, servetest.Get(h, "/api/gpu/metrics/GPU-800c0de0-0000-4000-8000-000000000002")); one.Node != "dgx-1" {
		t.Errorf("by UUID: %+v", one)
	}
	for path, want := range map[string]int{
		"/node/workstation/": 200, "/node/workstation/gpu/metrics/0": 200, "/node/workstation/api/gpu/summary": 200, "/node/workstation/api/alerts": 200,
		"/node/dgx-1/api/gpu/why/3": 200, "/node/workstation/gpu/metrics/3": 404, "/node/dgx-2/api/gpu/summary": 404,
		"/node/workstation/ws": 200, "/node/workstation/alerts": 200, "/node/workstation/api/health": 404, "/node/workstation/node/dgx-1/": 404, "/node/workstation/metrics": 404,
	} {
		if w := servetest.Get(h, path); w.Code != want {
			t.Errorf("%s: %d, want %d: %s", path, w.Code, want, w.Body)
		}
	}
	if one := servetest.Decode[contract.Update](t, servetest.Get(h, "/api/gpu/metrics?node=workstation")); len(one.GPUs) != 1 || one.Node != "workstation" {
		t.Errorf("?node= has %d GPUs of %q", len(one.GPUs), one.Node)
	}
	servetest.IsProblem(t, servetest.Get(h, "/api/gpu/metrics?node=other"), http.StatusNotFound)
	servetest.IsProblem(t, servetest.Get(h, "/node/workstation/api/gpu/metrics?node=dgx-1"), http.StatusNotFound)
	if list := servetest.Decode[map[string]any](t, servetest.Get(h, "/node/workstation/api/alerts")); list["node"] != "workstation" {
		t.Errorf("a node's alerts are of %v", list["node"])
	}
	if w := servetest.Get(h, "/node/workstation/gpu/0"); !strings.HasPrefix(w.Header().Get("Location"), "/node/workstation/gpu/GPU-") {
		t.Errorf("an index leads to %q, want a page of that node", w.Header().Get("Location"))
	}
	w := servetest.Say(h, "POST", "/node/workstation/api/silences", typeJSON, `{"rule":"hot","duration_seconds":60}`)
	if made := servetest.Decode[contract.Silence](t, w); made.Node != "workstation" {
		t.Errorf("a silence made for a node is for %q", made.Node)
	}
	for path, want := range map[string]int{"/api/silences": 1, "/node/workstation/api/silences": 1, "/node/dgx-1/api/silences": 0} {
		if list := servetest.Decode[contract.Silences](t, servetest.Get(h, path)); len(list.Silences) != want {
			t.Errorf("%s: %+v", path, list)
		}
	}
	if list := servetest.Decode[contract.Alerts](t, servetest.Get(h, "/node/dgx-1/api/alerts")); len(list.Silences) != 0 {
		t.Errorf("a node has silences of another: %+v", list.Silences)
	}
	if w := servetest.Say(h, "POST", "/node/workstation/api/silences", typeForm, "rule=hot&duration_seconds=60"); w.Header().Get("Location") != "/node/workstation/#alerts" {
		t.Errorf("the form leads to %q", w.Header().Get("Location"))
	}
	own := servetest.Decode[map[string]any](t, servetest.Get(h, "/node/workstation/api/gpu/summary"))
	if own["node"] != "workstation" || own["gpu_count"] != 1.0 {
		t.Errorf("a node's summary: %v", own)
	}
	if got := servetest.Decode[contract.Recent](t, servetest.Get(h, "/node/workstation/api/gpu/recent")); len(got.GPUs) != 1 {
		t.Errorf("a node's past has %d GPUs, want 1", len(got.GPUs))
	}
}
