// Package servetest has a server with all rooms, for tests.
package servetest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a-h/templ"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/access/ledger"
	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/alerts"
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/audit"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/clock"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/fleet"
	"github.com/gpuwhy/gpuwhy/internal/forecast"
	"github.com/gpuwhy/gpuwhy/internal/guide"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/now"
	"github.com/gpuwhy/gpuwhy/internal/past"
	"github.com/gpuwhy/gpuwhy/internal/past/history"
	"github.com/gpuwhy/gpuwhy/internal/past/recent"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/past/store/storetest"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/internal/serve/apidoc"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
	"github.com/gpuwhy/gpuwhy/static"
)

// A Stage is all that a server looks at, and what it logged.
type Stage struct {
	mu     sync.Mutex
	fleet  *insight.Fleet
	update map[string][]byte // by node

	Engine *alert.Engine
	Recent *recent.Store
	Asked  atomic.Int64 // how often an update was asked for
	Log    Logged
}

// Logged is what was logged.
type Logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements [io.Writer].
func (l *Logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// String is all that was logged.
func (l *Logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Show makes the snapshots the newest, each of a node.
func (st *Stage) Show(tb testing.TB, snaps ...*gpu.Snapshot) {
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
		st.Recent.Add(snap)
		st.Engine.Observe(&insight.Moment{Snapshot: snap})
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.fleet, st.update = f, updates
}

// Newest are the Moments that are shown.
func (st *Stage) Newest() *insight.Fleet {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.fleet
}

func (st *Stage) newestUpdate(node string, _ auth.Audience) []byte {
	st.Asked.Add(1)
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.update[node]
}

// Monitor is what the server says of itself.
var Monitor = contract.Monitor{
	Node: "node", Source: gpu.SourceNVML, Version: "1.2.3", Interval: 5 * time.Second, AlertThreshold: 50, Started: fixture.Time,
}

// Assets are the files of the server, by their paths.
var Assets = map[string]serve.Asset{
	"icon.svg":    {Body: []byte("<svg/>"), ContentType: "image/svg+xml"},
	"h4sh/app.js": {Body: []byte("import './b.js'" + strings.Repeat(";", 1024)), ContentType: "text/javascript; charset=utf-8", Immutable: true},
}

// A Rig is what a server is made of. A test may change it before that.
type Rig struct {
	Monitor contract.Monitor
	serve.Address
	Newest func() *insight.Fleet
	Update func(node string, audience auth.Audience) []byte
	WS     func(w http.ResponseWriter, r *http.Request, node string)

	Past       *history.Past
	Sizes      *history.Sizes
	Price      float64
	Forecaster forecast.Forecaster
	Clusters   func() []string

	Recent  *recent.Store // nil: that of the stage
	Flush   func(context.Context) error
	Noticed func(*http.Request)
	Proven  func(host string) bool // nil: no certificate is
	HSTS    time.Duration
	Pages   serve.Pages // nil: those of the program
	Clock   clock.Clock
	Log     *slog.Logger
	// Routes are further ones. It may be nil.
	Routes func(*serve.Kit) []serve.Route

	stage *Stage
}

// New returns a rig with working parts, and the stage behind it, on which nothing is shown yet.
func New() (*Stage, *Rig) {
	busy := alert.Rule{Name: "busy", Watch: alert.Utilization, Threshold: 50, Severity: alert.Info, Enabled: true}
	st := &Stage{Recent: recent.New(), Engine: alert.New([]alert.Rule{busy})}
	return st, &Rig{
		Monitor: Monitor,
		Newest:  st.Newest,
		Update:  st.newestUpdate,
		WS:      func(w http.ResponseWriter, _ *http.Request, node string) { fmt.Fprint(w, "the socket"+node) },
		Past:    &history.Past{Store: remembered(), Keeps: store.Retention{}, Now: func() time.Time { return fixture.Time }},
		Sizes:   &history.Sizes{Past: &history.Past{Store: remembered(), Now: func() time.Time { return fixture.Time }}, Interval: 5 * time.Second},
		Pages:   Pages{},
		Address: serve.Address{Listen: "127.0.0.1:8003"},
		Log:     slog.New(slog.NewTextHandler(&st.Log, nil)),
		stage:   st,
	}
}

// remembered is a store with one snapshot of the node of Monitor.
func remembered() store.Store {
	record, err := gpu.MarshalRecord(fixture.Empty())
	m := storetest.NewModel()
	if err == nil {
		err = m.Write(context.Background(), &store.Batch{Frames: []store.Frame{{Node: Monitor.Node, Time: fixture.Time, Snapshot: record}}})
	}
	if err != nil {
		panic(err)
	}
	return m
}

// Sites are the rooms of a server.
type Sites struct {
	Now      *now.Site
	Past     *past.Site
	Forecast *forecast.Site
	Fleet    *fleet.Site
	Alerts   *alerts.Site
}

// Server makes a server with all rooms.
func (rig *Rig) Server() (*serve.Server, error) {
	s, _, err := rig.Make()
	return s, err
}

// Make is Server that returns the rooms, too.
func (rig *Rig) Make() (*serve.Server, *Sites, error) {
	kit := serve.NewKit(serve.Settings{Monitor: rig.Monitor, Hub: rigged{rig}, Address: rig.Address, Clock: rig.Clock, Log: rig.Log})
	book := alert.Share(rig.stage.Engine)
	shown := &now.Site{
		Kit: kit, Assets: static.New(), Hues: new(now.Hues), Monitor: func() contract.Monitor { return rig.Monitor }, Recent: cmp.Or(rig.Recent, rig.stage.Recent), Alerts: book,
		Parts: func() map[string]contract.Part {
			return map[string]contract.Part{"sampler": contract.NewPart("ok", fixture.Time)}
		},
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/plain; version=0.0.4")
			if r.Method != http.MethodHead {
				_, _ = io.WriteString(w, "up 1\n")
			}
		}),
	}
	foreseen := &forecast.Site{Kit: kit, Kept: rig.Past != nil, Forecaster: rig.Forecaster}
	kept := &past.Site{
		Kit: kit, Past: rig.Past, Sizes: rig.Sizes, Price: rig.Price, Shell: shown, Forecasts: foreseen,
		Then: func() (*insight.Stage, error) { return insight.NewStage(), nil },
	}
	shown.Past, shown.Forecasts = kept, foreseen
	machines, alerted := &fleet.Site{Kit: kit, Shell: shown, Clusters: rig.Clusters}, &alerts.Site{Kit: kit, Book: book, Shell: shown}
	routes := slices.Concat(shown.Routes(), kept.Routes(), foreseen.Routes(), machines.Routes(), alerted.Routes())
	audited := &audit.Site{Kit: kit, Shell: shown, Record: entries{}, Looked: func(context.Context, string) error { return nil }}
	routes = append(routes, audited.Routes()...)
	routes = append(routes, (&guide.Site{Kit: kit, Asset: shown.URL}).Routes()...)
	if rig.Routes != nil {
		routes = append(routes, rig.Routes(kit)...)
	}
	pages := rig.Pages
	if pages == nil {
		pages = shown
	}
	room := &alerts.Room{Book: book, Newest: rig.Newest, Now: time.Now}
	cfg := serve.Config{
		Pages: pages, Actions: action.NewDesk(action.Log{Logger: slog.New(slog.DiscardHandler)}, room.Actions()...),
		Keeper: rigged{rig}, Watch: rigged{rig}, Proven: rig.Proven, HSTS: rig.HSTS,
	}
	s, err := serve.New(kit, cfg, routes...)
	return s, &Sites{shown, kept, foreseen, machines, alerted}, err
}

// entries are the audit of a server: each question is answered with the same entry.
type entries struct{}

// Entries implements [audit.Record].
func (entries) Entries(_ context.Context, q ledger.Query) ([]ledger.Entry, error) {
	if q.Before == 1 {
		return nil, nil
	}
	return []ledger.Entry{{Number: 1, Time: fixture.Time, Action: "silenceAlert", Principal: "anna", Result: "done", Args: json.RawMessage(`{"a":1}`)}}, nil
}

// Verify implements [audit.Record].
func (entries) Verify(context.Context) (ledger.Chain, error) {
	return ledger.Chain{First: 1, Last: 1, Head: "00"}, nil
}

// rigged is what a server asks for what a rig has.
type rigged struct{ rig *Rig }

// Newest implements [serve.Hub].
func (r rigged) Newest() *insight.Fleet { return r.rig.Newest() }

// Latest implements [serve.Hub].
func (r rigged) Latest() *insight.Fleet { return r.rig.Newest() }

// Changes implements [serve.Hub].
func (rigged) Changes() uint64 { return 0 }

// Update implements [serve.Hub].
func (r rigged) Update(node string, audience auth.Audience) []byte {
	return r.rig.Update(node, audience)
}

// Serve implements [serve.Hub].
func (r rigged) Serve(w http.ResponseWriter, q *http.Request, node string) { r.rig.WS(w, q, node) }

// Flush implements [serve.Keeper].
func (r rigged) Flush(ctx context.Context) error {
	if r.rig.Flush == nil {
		return nil
	}
	return r.rig.Flush(ctx)
}

// Noticed implements [serve.Watch].
func (r rigged) Noticed(q *http.Request) {
	if r.rig.Noticed != nil {
		r.rig.Noticed(q)
	}
}

// Pages are short pages that belong to no room.
type Pages struct{}

// Error implements [serve.Pages].
func (Pages) Error(status int, title string, advice gpu.Advice) templ.Component {
	return templ.ComponentFunc(func(_ context.Context, w io.Writer) error {
		_, err := fmt.Fprintf(w, "<!doctype html><h1>%d %s</h1><p>%s<p>%s", status, title, advice.What, advice.Try)
		return err
	})
}

// Docs implements [serve.Pages].
func (Pages) Docs() templ.Component { return templ.Raw("<!doctype html><title>docs</title>") }

// Reference implements [serve.Pages].
func (Pages) Reference(doc *apidoc.Document) templ.Component {
	return templ.Raw(fmt.Sprintf("<!doctype html><title>%d addresses</title>", len(doc.Paths)))
}

// Events implements [serve.Pages].
func (Pages) Events(doc *apidoc.Events) templ.Component {
	return templ.Raw(fmt.Sprintf("<!doctype html><title>%d operations</title>", len(doc.Events)))
}

// Asset implements [serve.Pages].
func (Pages) Asset(path string) (serve.Asset, bool) {
	a, ok := Assets[path]
	return a, ok
}

// Serving returns the handler of a server as [New] rigs it, changed by change.
func Serving(tb testing.TB, change ...func(*Rig)) (*Stage, http.Handler) {
	tb.Helper()
	st, rig := New()
	for _, c := range change {
		c(rig)
	}
	s, err := rig.Server()
	if err != nil {
		tb.Fatal(err)
	}
	return st, s.Handler()
}

// Ask sends a request for the path, with headers as "Name: value".
func Ask(h http.Handler, method, path string, headers ...string) *httptest.ResponseRecorder {
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

// Get asks with GET.
func Get(h http.Handler, path string, headers ...string) *httptest.ResponseRecorder {
	return Ask(h, http.MethodGet, path, headers...)
}

// Say sends a body to an address.
func Say(h http.Handler, method, path, contentType, content string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(content))
	r.Host = "localhost"
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// Decode reads a JSON body.
func Decode[T any](tb testing.TB, w *httptest.ResponseRecorder) T {
	tb.Helper()
	var v T
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		tb.Fatalf("%v in %q", err, w.Body)
	}
	return v
}

// IsProblem checks that an answer is a problem of the status, and returns its detail.
func IsProblem(tb testing.TB, w *httptest.ResponseRecorder, status int) string {
	tb.Helper()
	if w.Code != status {
		tb.Errorf("status %d, want %d", w.Code, status)
	}
	if got := w.Header().Get("Content-Type"); got != "application/problem+json" {
		tb.Errorf("content type %q", got)
	}
	p := Decode[map[string]any](tb, w)
	if p["status"] != float64(status) || p["title"] != http.StatusText(status) || p["type"] != "about:blank" {
		tb.Errorf("the problem is %v, want status %d with its title", p, status)
	}
	detail, _ := p["detail"].(string)
	if detail == "" {
		tb.Errorf("the problem has no detail: %v", p)
	}
	return detail
}

// Alerting returns a server of which one alert stands, its document, and the alert's ID.
func Alerting(tb testing.TB, change ...func(*Rig)) (h http.Handler, doc *Documented, id string) {
	tb.Helper()
	st, h := Serving(tb, change...)
	st.Show(tb, fixture.Workstation())
	list := Decode[contract.Alerts](tb, Get(h, "/api/alerts"))
	if len(list.Alerts) != 1 || list.Alerts[0].Why == "" || list.Node != "node" || list.Timestamp == "" {
		tb.Fatalf("%+v", list)
	}
	return h, NewDocumented(tb), list.Alerts[0].ID
}

// Origins reads origins that may read answers.
func Origins(tb testing.TB, list ...string) auth.Origins {
	tb.Helper()
	parsed, err := auth.ParseOrigins(list)
	if err != nil {
		tb.Fatal(err)
	}
	return parsed
}
