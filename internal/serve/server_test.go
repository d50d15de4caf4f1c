package serve

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a-h/templ"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/past/history"
	"github.com/gpuwhy/gpuwhy/internal/past/recent"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/past/store/storetest"
	"github.com/gpuwhy/gpuwhy/internal/serve/apidoc"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
)

// Actions are those of package alerts, which is above this one.
var Actions func(book *alert.Shared, newest func() *insight.Fleet) []action.Action

// A stage is all that a server looks at, and what it logged.
type stage struct {
	mu     sync.Mutex
	fleet  *insight.Fleet
	update map[string][]byte // by node

	engine       *alert.Engine
	asked, pages atomic.Int64
	recent       *recent.Store
	log          logged
	pageErr      error
}

// logged is what was logged.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// show makes the snapshots the newest, each of a node.
func (st *stage) show(tb testing.TB, snaps ...*gpu.Snapshot) {
	tb.Helper()
	f := insight.NewFleet()
	updates := map[string][]byte{}
	for _, snap := range snaps {
		m := insight.Of(snap)
		update, err := json.Marshal(contract.NewUpdate(m, nil))
		if err != nil {
			tb.Fatal(err)
		}
		f, updates[snap.Node] = f.With(m), update
		st.recent.Add(snap)
		st.engine.Observe(&insight.Moment{Snapshot: snap})
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.fleet, st.update = f, updates
}

func (st *stage) newest() *insight.Fleet {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.fleet
}

func (st *stage) newestUpdate(node string, _ auth.Audience) []byte {
	st.asked.Add(1)
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.update[node]
}

var testMonitor = contract.Monitor{
	Node: "node", Source: gpu.SourceNVML, Version: "1.2.3", Interval: 5 * time.Second, AlertThreshold: 50, Started: fixture.Time,
}

var testAssets = map[string]Asset{
	"icon.svg":    {Body: []byte("<svg/>"), ContentType: "image/svg+xml"},
	"h4sh/app.js": {Body: []byte("import './b.js'" + strings.Repeat(";", worthZipping)), ContentType: "text/javascript; charset=utf-8", Immutable: true},
}

// remembered is a store with one snapshot of the node of testMonitor.
func remembered() store.Store {
	record, err := gpu.MarshalRecord(fixture.Empty())
	m := storetest.NewModel()
	if err == nil {
		err = m.Write(context.Background(), &store.Batch{Frames: []store.Frame{{Node: testMonitor.Node, Time: fixture.Time, Snapshot: record}}})
	}
	if err != nil {
		panic(err)
	}
	return m
}

// newStage returns a server's configuration with working parts, and the stage
// behind it.
func newStage() (*stage, Config) {
	busy := alert.Rule{Name: "busy", Watch: alert.Utilization, Threshold: 50, Severity: alert.Info, Enabled: true}
	st := &stage{recent: recent.New(), engine: alert.New([]alert.Rule{busy})}
	book := alert.Share(st.engine)
	return st, Config{
		Monitor: testMonitor,
		Newest:  st.newest,
		Update:  st.newestUpdate,
		WS: func(w http.ResponseWriter, _ *http.Request, node string) {
			fmt.Fprint(w, "the socket"+node)
		},
		Recent:  st.recent,
		Past:    &history.Past{Store: remembered(), Keeps: store.Retention{}, Now: func() time.Time { return fixture.Time }},
		Sizes:   &history.Sizes{Past: &history.Past{Store: remembered(), Now: func() time.Time { return fixture.Time }}, Interval: 5 * time.Second},
		Then:    func() (*insight.Stage, error) { return insight.NewStage(), nil },
		Alerts:  book,
		Actions: action.NewDesk(action.Log{Logger: slog.New(slog.DiscardHandler)}, Actions(book, st.newest)...),
		AlertsPage: func(from int, _ string, _ url.Values) templ.Component {
			return templ.ComponentFunc(func(_ context.Context, w io.Writer) error {
				_, err := fmt.Fprintf(w, "<!doctype html><title>alerts</title>%d", from)
				return err
			})
		},
		Picture: func(_ *insight.Fleet, node string, asked url.Values) templ.Component {
			return templ.Raw("<svg>" + node + asked.Encode() + "</svg>")
		},
		PastPage: func(context.Context, *PastQuestion) (templ.Component, error) {
			return templ.Raw("<!doctype html><title>past</title>"), nil
		},
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/plain; version=0.0.4")
			send(w, r, []byte("up 1\n"))
		}),
		Parts: func() map[string]contract.Part {
			return map[string]contract.Part{"sampler": contract.NewPart("ok", fixture.Time)}
		},
		Page: func(*insight.Fleet, string, url.Values) templ.Component {
			return templ.ComponentFunc(func(_ context.Context, w io.Writer) error {
				fmt.Fprintf(w, "<!doctype html><title>gpuwhy</title>%s %d", strings.Repeat("<p>a page</p>", 200), st.pages.Add(1))
				return st.pageErr
			})
		},
		DevicePage: func(p insight.Part, _ url.Values) templ.Component {
			return templ.ComponentFunc(func(_ context.Context, w io.Writer) error {
				fmt.Fprintf(w, "<!doctype html><title>%s</title>", p.Device.UUID)
				return st.pageErr
			})
		},
		EmbedPage: func(p insight.Part, _ url.Values) templ.Component {
			return templ.Raw("<!doctype html><title>card of " + p.Device.UUID + "</title>")
		},
		OtherPages: map[string]func(*insight.Fleet, string, url.Values) templ.Component{
			"processes": func(_ *insight.Fleet, node string, asked url.Values) templ.Component {
				if asked.Get("q") == "none" {
					return nil
				}
				return templ.Raw("<!doctype html><title>processes of " + node + " " + asked.Get("q") + "</title>")
			},
		},
		Manifest: []byte(`{"name":"gpuwhy"}`),
		ErrorPage: func(status int, title string, advice gpu.Advice) templ.Component {
			return templ.ComponentFunc(func(_ context.Context, w io.Writer) error {
				_, err := fmt.Fprintf(w, "<!doctype html><h1>%d %s</h1><p>%s<p>%s", status, title, advice.What, advice.Try)
				return err
			})
		},
		DocsPage: templ.Raw("<!doctype html><title>docs</title>"),
		ReferencePage: func(doc *apidoc.Document) templ.Component {
			return templ.ComponentFunc(func(_ context.Context, w io.Writer) error {
				_, err := fmt.Fprintf(w, "<!doctype html><title>%d addresses</title>", len(doc.Paths))
				return err
			})
		},
		EventsPage: func(doc *apidoc.Events) templ.Component {
			return templ.ComponentFunc(func(_ context.Context, w io.Writer) error {
				_, err := fmt.Fprintf(w, "<!doctype html><title>%d operations</title>", len(doc.Events))
				return err
			})
		},
		Assets: func(path string) (Asset, bool) {
			a, ok := testAssets[path]
			return a, ok
		},
		Address: Address{Listen: "127.0.0.1:8003"},
		Log:     slog.New(slog.NewTextHandler(&st.log, nil)),
	}
}

// serving returns the handler of a server as newStage configures it, changed by
// change.
func serving(tb testing.TB, change ...func(*Config)) (*stage, http.Handler) {
	tb.Helper()
	st, cfg := newStage()
	for _, c := range change {
		c(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return st, s.Handler()
}

// ask sends a request for the path, with headers as "Name: value".
func ask(h http.Handler, method, path string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	r.Host = "localhost:8003"
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		if name == "Host" {
			r.Host = value
			continue
		}
		r.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func get(h http.Handler, path string, headers ...string) *httptest.ResponseRecorder {
	return ask(h, http.MethodGet, path, headers...)
}

// decode reads a JSON body.
func decode[T any](t *testing.T, w *httptest.ResponseRecorder) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatalf("%v in %q", err, w.Body)
	}
	return v
}

// isProblem checks that an answer is a problem of the status, and returns its
// detail.
func isProblem(t *testing.T, w *httptest.ResponseRecorder, status int) string {
	t.Helper()
	if w.Code != status {
		t.Errorf("status %d, want %d", w.Code, status)
	}
	if got := w.Header().Get("Content-Type"); got != typeProblem {
		t.Errorf("content type %q, want %q", got, typeProblem)
	}
	p := decode[map[string]any](t, w)
	if p["status"] != float64(status) || p["title"] != http.StatusText(status) || p["type"] != "about:blank" {
		t.Errorf("the problem is %v, want status %d with its title", p, status)
	}
	detail, _ := p["detail"].(string)
	if detail == "" {
		t.Errorf("the problem has no detail: %v", p)
	}
	return detail
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
		{"/api/gpu/summary", contract.NewSummary(testMonitor, f, 6)},
		{"/api/gpu/metrics", contract.NewUpdate(m, nil)},
		{"/api/gpu/metrics/3", contract.NewOneGPU(part[3])},
		{"/api/gpu/why", contract.NewWhy(testMonitor, f)},
		{"/api/gpu/why/3", contract.NewOneWhy(part[3])},
		{"/api/gpu/why/gpu-800C0DE0-0000-4000-8000-000000000002", contract.NewOneWhy(part[2])},
		{"/gpu/info", contract.NewGPUInfo(testMonitor, f)},
		{"/gpu/metrics", contract.NewGPUMetrics(testMonitor, f)},
		{"/gpu/metrics/7", contract.NewOneGPU(part[7])},
		{"/gpu/metrics/gpu-800C0DE0-0000-4000-8000-000000000002", contract.NewOneGPU(part[2])},
		{"/health", contract.NewProbe(testMonitor, f)},
		{"/health/live", contract.NewProbe(testMonitor, f)},
		{"/health/ready", contract.NewProbe(testMonitor, f)},
		{"/api/gpu/devices", contract.NewDevices(testMonitor, f)},
		{"/api/gpu/driver", contract.NewDriverInfo(testMonitor, f)},
		{"/api/v1/monitoring/gpu-metrics", contract.NewFleet(testMonitor, f)},
		{"/api/v1/gpu/nodes", contract.NewClusterNodes(f)},
		{"/api/v1/gpu/nodes?cluster_id=local", contract.NewClusterNodes(f)},
		{"/api/v1/gpu/nodes/dgx-1", contract.NewClusterNodes(f)[0]},
		{"/api/v1/gpu/nodes/local/dgx-1", contract.NewClusterNodes(f)[0]},
		{"/api/v1/gpu/processes", contract.NewClusterProcesses(contract.NewClusterNodes(f))},
		{"/api/v1/gpu/processes?node_name=dgx-1&cluster_id=local", contract.NewClusterProcesses(contract.NewClusterNodes(f))},
		{"/api/v1/gpu/processes?node_name=dgx-2", []contract.ClusterProcess{}},
		{"/api/v1/gpu/summary", contract.NewClusterSummary(testMonitor, f, nil)},
		{"/api/v1/gpu/summary?cluster_id=local", contract.NewClusterSummary(testMonitor, f, new(contract.LocalCluster))},
	} {
		t.Run(tt.path, func(t *testing.T) {
			st, h := serving(t)
			st.show(t, server)
			w := get(h, tt.path)
			if w.Code != http.StatusOK || w.Header().Get("Content-Type") != typeJSON {
				t.Fatalf("status %d, type %q: %s", w.Code, w.Header().Get("Content-Type"), w.Body)
			}
			if got, want := w.Body.String(), want(t, tt.answer); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			head := ask(h, http.MethodHead, tt.path)
			if head.Code != http.StatusOK || head.Body.Len() > 0 {
				t.Errorf("HEAD: status %d with %d bytes, want 200 with none", head.Code, head.Body.Len())
			}
			if got, want := head.Header().Get("Content-Length"), fmt.Sprint(w.Body.Len()); got != want {
				t.Errorf("HEAD: length %s, want %s", got, want)
			}
		})
	}
}

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
			st, h := serving(t)
			check := func(when string, status int) {
				t.Helper()
				w := get(h, tt.path)
				if w.Code != status {
					t.Errorf("%s: status %d, want %d: %s", when, w.Code, status, w.Body)
				}
				if status >= 400 {
					isProblem(t, w, status)
				}
				if to, want := w.Header().Get("Location"), "/gpu/"+fixture.Workstation().Devices[0].UUID; status == 307 && to != want {
					t.Errorf("%s: leads to %q, want %q", when, to, want)
				}
				if retry := w.Header().Get("Retry-After"); (retry == "5") != (status == 503) {
					t.Errorf("%s: status %d with Retry-After %q", when, status, retry)
				}
			}
			check("starting", tt.starting)
			st.show(t, fixture.Empty())
			check("empty", tt.empty)
			st.show(t, fixture.Workstation())
			check("full", tt.full)
		})
	}
}

func TestWhatIsSaidWithoutGPU(t *testing.T) {
	st, h := serving(t)
	if got, want := isProblem(t, get(h, "/gpu/metrics"), 503), "the first reading is still in progress: try again in a few seconds"; got != want {
		t.Errorf("starting: %q, want %q", got, want)
	}
	if s := decode[contract.Summary](t, get(h, "/api/gpu/summary")); s.Available || s.Status != "starting" || s.Why == "" {
		t.Errorf("starting: %+v", s)
	}
	if u := decode[contract.Update](t, get(h, "/api/gpu/metrics")); u.Available || u.GPUs == nil || len(u.GPUs) > 0 || u.Status != "starting" {
		t.Errorf("starting: %+v", u)
	}
	st.show(t, fixture.Empty())
	tried := "NVIDIA's management library was not found: install the driver, or check that nvidia-smi runs"
	if got, want := isProblem(t, get(h, "/gpu/metrics"), 503), "no GPU can be read: "+tried; got != want {
		t.Errorf("empty: %q, want %q", got, want)
	}
	if s := decode[contract.Summary](t, get(h, "/api/gpu/summary")); s.Available || s.Status != "no_gpu" || s.Reason != tried {
		t.Errorf("empty: %+v", s)
	}
}

func TestDevicePage(t *testing.T) {
	st, h := serving(t, func(c *Config) { c.BasePath = "/base" })
	snap := fixture.Server()
	st.show(t, snap)
	uuid := snap.Devices[3].UUID
	w := get(h, "/base/gpu/"+uuid)
	if w.Code != 200 || w.Header().Get("Content-Type") != typeHTML || !strings.Contains(w.Body.String(), uuid) {
		t.Errorf("status %d, %s", w.Code, w.Body)
	}
	for _, id := range []string{"3", strings.ToLower(uuid)} {
		if w := get(h, "/base/gpu/"+id+"?sort=memory"); w.Code != 307 || w.Header().Get("Location") != "/base/gpu/"+uuid+"?sort=memory" {
			t.Errorf("%s: status %d to %q", id, w.Code, w.Header().Get("Location"))
		}
	}
	st.pageErr = io.ErrUnexpectedEOF
	isProblem(t, get(h, "/base/gpu/"+uuid), 500)
}

func TestMethods(t *testing.T) {
	_, h := serving(t)
	for _, path := range []string{"/", "/ws", "/api/gpu/summary", "/gpu/metrics/0", "/gpu/info", "/gpu/0", "/static/x.js", "/health/live", "/favicon.ico"} {
		for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "BREW"} {
			w := ask(h, method, path)
			isProblem(t, w, http.StatusMethodNotAllowed)
			if got := w.Header().Get("Allow"); got != "GET, HEAD, OPTIONS" {
				t.Errorf("%s %s: Allow is %q", method, path, got)
			}
		}
		w := ask(h, http.MethodOptions, path)
		if w.Code != http.StatusNoContent || w.Body.Len() > 0 || w.Header().Get("Allow") != "GET, HEAD, OPTIONS" {
			t.Errorf("OPTIONS %s: status %d, %d bytes, Allow %q", path, w.Code, w.Body.Len(), w.Header().Get("Allow"))
		}
	}
	isProblem(t, ask(h, "POST", "/nothing"), http.StatusNotFound)
}

// The update's bytes are those that the socket sends, whatever they are.
func TestUpdateIsNotEncodedAgain(t *testing.T) {
	_, h := serving(t, func(c *Config) {
		f := insight.Of(fixture.Workstation()).Alone()
		c.Newest = func() *insight.Fleet { return f }
		c.Update = func(string, auth.Audience) []byte { return []byte("the very bytes") }
	})
	if got := get(h, "/api/gpu/metrics").Body.String(); got != "the very bytes" {
		t.Errorf("got %q", got)
	}
}

// An answer is made once for the newest Moments, however many ask. The summary
// follows the number of alerts.
func TestMadeOnce(t *testing.T) {
	st, h := serving(t)
	st.show(t, fixture.Workstation())
	askAll := func() {
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() { get(h, "/api/gpu/metrics") })
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
		{"after an alert", func() { st.engine.Observe(&insight.Moment{Snapshot: fixture.Server()}) }, 1, 9},
		{"after a reading", func() { st.show(t, fixture.Server()) }, 2, 9},
	} {
		step.change()
		askAll()
		if got := st.asked.Load(); got != step.made {
			t.Errorf("%s: made %d times, want %d", step.what, got, step.made)
		}
		if got := decode[contract.Summary](t, get(h, "/api/gpu/summary")).ActiveAlerts; got != step.alerts {
			t.Errorf("%s: %d active alerts, want %d", step.what, got, step.alerts)
		}
	}
}

func TestRecent(t *testing.T) {
	st, h := serving(t)
	if got := decode[contract.Recent](t, get(h, "/api/gpu/recent?gpu=0")); len(got.GPUs) != 0 {
		t.Errorf("before the first reading there is a past: %+v", got)
	}
	isProblem(t, get(h, "/api/gpu/recent?gpu=0&gpu=zero"), 422)
	st.show(t, fixture.Server())
	first := get(h, "/api/gpu/recent")
	if got, want := first.Body.String(), want(t, contract.NewRecent(testMonitor, st.newest(), st.recent.View(nil))); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for query, uuids := range map[string]int{"gpu=0": 1, "gpu=0&gpu=3": 2, "gpu=GPU-800c0de0-0000-4000-8000-000000000003&gpu=3": 1, "other=1": 8} {
		got := decode[contract.Recent](t, get(h, "/api/gpu/recent?"+query))
		if len(got.GPUs) != uuids {
			t.Errorf("%s: %d GPUs, want %d", query, len(got.GPUs), uuids)
		}
	}
	isProblem(t, get(h, "/api/gpu/recent?gpu=0&gpu="), 422)
	isProblem(t, get(h, "/api/gpu/recent?gpu=0&gpu=99"), 404)

	// The store may hear of a snapshot after the first who asks about it.
	late := fixture.Server()
	late.Time = late.Time.Add(5 * time.Second)
	st.recent.Add(late)
	if got := decode[contract.Recent](t, get(h, "/api/gpu/recent")); len(got.OffsetsSeconds) != 2 {
		t.Errorf("%d points after the store got another, want 2", len(got.OffsetsSeconds))
	}
}

func TestHealth(t *testing.T) {
	st, h := serving(t)
	st.show(t, fixture.BrokenServer())
	for _, path := range []string{"/api/health", "/health/detailed"} {
		w := get(h, path)
		got := decode[contract.MonitorHealth](t, w)
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
	st, h := serving(t)
	st.show(t, fixture.Workstation())
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
			w := get(h, "/", tt.headers...)
			if w.Code != 200 || w.Header().Get("Content-Type") != tt.contentType {
				t.Errorf("status %d, type %q, want 200 and %q", w.Code, w.Header().Get("Content-Type"), tt.contentType)
			}
			if vary := w.Header().Values("Vary"); len(vary) == 0 || vary[0] != "Accept" {
				t.Errorf("Vary is %q, want Accept in it", vary)
			}
		})
	}
	if got := get(h, "/", "Accept: application/json").Body.String(); got != `{"service":"gpuwhy","version":"1.2.3","status":"ok","source":"nvml","timestamp":"2026-03-14T15:09:26.535897Z"}` {
		t.Errorf("the service is %s", got)
	}
	if a, b := get(h, "/", browser).Body.String(), get(h, "/", browser).Body.String(); a == b {
		t.Error("the page was not rendered anew")
	}
}

// Of a page that can't be rendered nothing is sent, and its cause is in the log
// alone, once.
func TestPageFails(t *testing.T) {
	st, h := serving(t)
	st.pageErr = fmt.Errorf("the cause")
	w := get(h, "/", "Accept: text/html")
	if w.Code != 500 || strings.Contains(w.Body.String(), "a page") || strings.Contains(w.Body.String(), "the cause") || !strings.Contains(w.Body.String(), "internal error") {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
	if got := strings.Count(st.log.String(), "the cause"); got != 1 {
		t.Errorf("the cause is in the log %d times, want once: %s", got, &st.log)
	}
}

func TestCompression(t *testing.T) {
	st, h := serving(t)
	st.show(t, fixture.Server())
	plain := get(h, "/gpu/metrics")
	for _, accept := range []string{"gzip", "br, gzip;q=0.5", "*", "GZIP", "*;q=0, gzip"} {
		w := get(h, "/gpu/metrics", "Accept-Encoding: "+accept)
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
		if w := get(h, "/gpu/metrics", "Accept-Encoding: "+accept); w.Header().Get("Content-Encoding") != "" || w.Header().Get("Vary") != "Accept-Encoding" {
			t.Errorf("%q: encoding %q, Vary %q", accept, w.Header().Get("Content-Encoding"), w.Header().Get("Vary"))
		}
	}
	once := newBody(typeJSON, bytes.Repeat([]byte("x"), worthZipping))
	if first, second := once.zipped(), once.zipped(); &first.bytes[0] != &second.bytes[0] {
		t.Error("a body was compressed twice")
	}
	if w := get(h, "/gpu/info", "Accept-Encoding: gzip"); w.Header().Get("Content-Encoding") != "" || w.Header().Get("Vary") != "" {
		t.Error("a few bytes were compressed")
	}
}

func TestRevalidation(t *testing.T) {
	st, h := serving(t)
	st.show(t, fixture.Server())
	for _, path := range []string{"/api/gpu/summary", "/api/gpu/metrics", "/gpu/metrics", "/gpu/metrics/1", "/gpu/info", "/api/gpu/devices", "/api/gpu/recent", "/robots.txt"} {
		w := get(h, path)
		etag := w.Header().Get("ETag")
		if len(etag) < 8 || etag[0] != '"' {
			t.Errorf("%s: %q is no strong ETag", path, etag)
		}
		if got := w.Header().Get("Cache-Control"); got != "no-cache" {
			t.Errorf("%s: Cache-Control is %q", path, got)
		}
		for _, condition := range []string{etag, "W/" + etag, `"other", ` + etag, "*"} {
			w := get(h, path, "If-None-Match: "+condition)
			if w.Code != 304 || w.Body.Len() > 0 || w.Header().Get("ETag") != etag || w.Header().Get("Content-Type") != "" {
				t.Errorf("%s, If-None-Match %s: status %d, %d bytes, ETag %q", path, condition, w.Code, w.Body.Len(), w.Header().Get("ETag"))
			}
		}
		if w := get(h, path, `If-None-Match: "other"`); w.Code != 200 {
			t.Errorf("%s: status %d for another ETag", path, w.Code)
		}
	}
	before := get(h, "/gpu/metrics").Header().Get("ETag")
	st.show(t, fixture.BrokenServer())
	if w := get(h, "/gpu/metrics", "If-None-Match: "+before); w.Code != 200 {
		t.Errorf("status %d after another snapshot, want 200", w.Code)
	}
}

func TestStatic(t *testing.T) {
	_, h := serving(t)
	w := get(h, "/static/h4sh/app.js")
	if !bytes.Equal(w.Body.Bytes(), testAssets["h4sh/app.js"].Body) || w.Header().Get("Content-Type") != "text/javascript; charset=utf-8" {
		t.Errorf("%q as %q", w.Body, w.Header().Get("Content-Type"))
	}
	if got := w.Header().Get("Cache-Control"); got != "public, max-age=31536000, immutable" {
		t.Errorf("Cache-Control is %q", got)
	}
	if w := get(h, "/static/h4sh/app.js", "Accept-Encoding: gzip"); w.Body.Len() >= worthZipping || w.Header().Get("Content-Encoding") != "gzip" || w.Header().Get("Vary") != "Accept-Encoding" {
		t.Errorf("%q, encoding %q, Vary %q", w.Body, w.Header().Get("Content-Encoding"), w.Header().Get("Vary"))
	}
	icon := get(h, "/favicon.ico", "Accept-Encoding: gzip")
	if icon.Body.String() != "<svg/>" || icon.Header().Get("Content-Type") != "image/svg+xml" || icon.Header().Get("Cache-Control") != "no-cache" {
		t.Errorf("%q as %q, Cache-Control %q", icon.Body, icon.Header().Get("Content-Type"), icon.Header().Get("Cache-Control"))
	}
	if w := get(h, "/static/..%2f..%2fetc/passwd"); w.Code != 404 {
		t.Errorf("status %d for a path that leads out", w.Code)
	}
}

func TestBasePath(t *testing.T) {
	for _, base := range []string{"/gpu-3/live", "/gpu-3/live/"} {
		st, h := serving(t, func(c *Config) { c.BasePath = base })
		st.show(t, fixture.Workstation())
		for path, status := range map[string]int{
			"/gpu-3/live/": 200, "/gpu-3/live/api/gpu/summary": 200, "/gpu-3/live/gpu/metrics/0": 200, "/gpu-3/live/static/h4sh/app.js": 200,
			"/gpu-3/live/ws": 200, "/gpu-3/live?a=b": 307, "/gpu-3/live/nothing": 404,
			"/": 404, "/api/gpu/summary": 404, "/gpu-3": 404, "/gpu-3/liver": 404, "/ws": 404,
		} {
			if w := get(h, path); w.Code != status {
				t.Errorf("%s: status %d, want %d", path, w.Code, status)
			}
		}
		if got := get(h, "/gpu-3/live?a=b").Header().Get("Location"); got != "/gpu-3/live/?a=b" {
			t.Errorf("%s leads to %q", base, got)
		}
		if got := get(h, "/gpu-3/live//api/gpu/summary").Header().Get("Location"); got != "/gpu-3/live/api/gpu/summary" {
			t.Errorf("a doubled slash leads to %q", got)
		}
	}
	_, h := serving(t, func(c *Config) { c.BasePath = "/" })
	if w := get(h, "/"); w.Code != 200 {
		t.Errorf("the base path / gives status %d", w.Code)
	}
}

// While snapshots come, answers are whole, and nobody is sent back in time.
func TestWhileSnapshotsChange(t *testing.T) {
	st, h := serving(t)
	st.show(t, fixture.Server())
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
					w := get(h, path)
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
		st.show(t, next)
	}
	close(stop)
	all.Wait()
}

func TestBadConfig(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"--allow-host":   func(c *Config) { c.AllowHosts = []string{"http://gpu.example"} },
		"--allow-host *": func(c *Config) { c.AllowHosts = []string{"*"} },
	} {
		_, cfg := newStage()
		change(&cfg)
		_, err := New(cfg)
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
	st, h := serving(t, func(c *Config) { c.Monitor.Several = true })
	st.show(t, fixture.Workstation(), fixture.BrokenServer())
	summary := decode[map[string]any](t, get(h, "/api/gpu/summary"))
	if summary["node"] != nil || summary["node_count"] != 2.0 || summary["gpu_count"] != 9.0 {
		t.Errorf("summary: %v", summary)
	}
	if all := decode[contract.Update](t, get(h, "/api/gpu/metrics")); len(all.GPUs) != 9 || all.GPUs[0].Node != "dgx-1" || all.GPUs[8].Node != "workstation" {
		t.Errorf("%d GPUs, in the order of nodes and indexes", len(all.GPUs))
	}
	if list := decode[contract.Fleet](t, get(h, "/api/v1/monitoring/gpu-metrics")); list.GPUs[8].ID != "gpu-8" {
		t.Errorf("the last one is %q: ids count over the whole list", list.GPUs[8].ID)
	}
	for _, path := range []string{"/api/gpu/metrics/0", "/gpu/metrics/0", "/gpu/0", "/api/gpu/why/0", "/api/gpu/recent?gpu=0"} {
		if detail := isProblem(t, get(h, path), http.StatusBadRequest); !strings.Contains(detail, "/node/{name}/") {
			t.Errorf("%s: %s", path, detail)
		}
	}
	if one := decode[contract.OneGPU](t, get(h, "/api/gpu/metrics/GPU-800c0de0-0000-4000-8000-000000000002")); one.Node != "dgx-1" {
		t.Errorf("by UUID: %+v", one)
	}
	for path, want := range map[string]int{
		"/node/workstation/": 200, "/node/workstation/gpu/metrics/0": 200, "/node/workstation/api/gpu/summary": 200, "/node/workstation/api/alerts": 200,
		"/node/dgx-1/api/gpu/why/3": 200, "/node/workstation/gpu/metrics/3": 404, "/node/dgx-2/api/gpu/summary": 404,
		"/node/workstation/ws": 200, "/node/workstation/alerts": 200, "/node/workstation/api/health": 404, "/node/workstation/node/dgx-1/": 404, "/node/workstation/metrics": 404,
	} {
		if w := get(h, path); w.Code != want {
			t.Errorf("%s: %d, want %d: %s", path, w.Code, want, w.Body)
		}
	}
	if one := decode[contract.Update](t, get(h, "/api/gpu/metrics?node=workstation")); len(one.GPUs) != 1 || one.Node != "workstation" {
		t.Errorf("?node= has %d GPUs of %q", len(one.GPUs), one.Node)
	}
	isProblem(t, get(h, "/api/gpu/metrics?node=other"), http.StatusNotFound)
	isProblem(t, get(h, "/node/workstation/api/gpu/metrics?node=dgx-1"), http.StatusNotFound)
	if list := decode[map[string]any](t, get(h, "/node/workstation/api/alerts")); list["node"] != "workstation" {
		t.Errorf("a node's alerts are of %v", list["node"])
	}
	if w := get(h, "/node/workstation/gpu/0"); !strings.HasPrefix(w.Header().Get("Location"), "/node/workstation/gpu/GPU-") {
		t.Errorf("an index leads to %q, want a page of that node", w.Header().Get("Location"))
	}
	w := say(h, "POST", "/node/workstation/api/silences", typeJSON, `{"rule":"hot","duration_seconds":60}`)
	if made := decode[contract.Silence](t, w); made.Node != "workstation" {
		t.Errorf("a silence made for a node is for %q", made.Node)
	}
	for path, want := range map[string]int{"/api/silences": 1, "/node/workstation/api/silences": 1, "/node/dgx-1/api/silences": 0} {
		if list := decode[contract.Silences](t, get(h, path)); len(list.Silences) != want {
			t.Errorf("%s: %+v", path, list)
		}
	}
	if list := decode[contract.Alerts](t, get(h, "/node/dgx-1/api/alerts")); len(list.Silences) != 0 {
		t.Errorf("a node has silences of another: %+v", list.Silences)
	}
	if w := say(h, "POST", "/node/workstation/api/silences", typeForm, "rule=hot&duration_seconds=60"); w.Header().Get("Location") != "/node/workstation/#alerts" {
		t.Errorf("the form leads to %q", w.Header().Get("Location"))
	}
	own := decode[map[string]any](t, get(h, "/node/workstation/api/gpu/summary"))
	if own["node"] != "workstation" || own["gpu_count"] != 1.0 {
		t.Errorf("a node's summary: %v", own)
	}
	if got := decode[contract.Recent](t, get(h, "/node/workstation/api/gpu/recent")); len(got.GPUs) != 1 {
		t.Errorf("a node's past has %d GPUs, want 1", len(got.GPUs))
	}
}
