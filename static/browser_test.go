package static_test

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alert"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/fixture"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/insight/attribute"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/internal/recent"
	"github.com/gpuwhy/gpuwhy/static"
	"github.com/gpuwhy/gpuwhy/views"
)

const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

const base = "/gpu-why/"

// A site serves the page as a server would: the page itself from the newest
// snapshot, the files, a WebSocket, and the recent past. Beside it are the
// modules as they are written, for tests of one alone.
type site struct {
	*httptest.Server
	assets   *static.Assets
	interval time.Duration
	past     *recent.Store

	mu       sync.Mutex
	snapshot *gpu.Snapshot
	nodes    []*gpu.Snapshot // of several nodes, whose devices the snapshot has too
	why      string
	alerts   []contract.Alert
	causes   []explain.Cause // of the first paint, in place of the snapshot's
	standing []alert.Alert   // in the first paint
	next     []contract.GPUForecast
	viewers  map[*websocket.Conn]chan struct{}
	refuse   bool
	arrived  chan struct{} // one for each viewer that was greeted
	requests chan string   // what viewers send

	summaries int // how often the summary was asked for
}

// assets are read once for all sites.
var assets = sync.OnceValue(static.New)

func newSite(t *testing.T, s *gpu.Snapshot, why string) *site {
	t.Helper()
	site := &site{
		assets: assets(), interval: 3 * time.Second, past: recent.New(),
		snapshot: s, why: why,
		viewers: map[*websocket.Conn]chan struct{}{}, arrived: make(chan struct{}, 100), requests: make(chan string, 1000),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+base+"{$}", site.page)
	mux.HandleFunc("GET "+base+"gpu/{uuid}", site.page)
	mux.HandleFunc("GET "+base+"alerts", site.alertsPage)
	mux.HandleFunc("GET "+base+"static/", site.file)
	mux.Handle("GET "+base+"source/", http.StripPrefix(base+"source/", http.FileServerFS(os.DirFS("."))))
	mux.HandleFunc("GET "+base+"modules", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `<!doctype html><link rel="icon" href="data:,"><body><template id="t-note"><li></li></template>`) // the browser has gone
	})
	mux.HandleFunc("GET "+base+"ws", site.stream)
	mux.HandleFunc("GET "+base+"api/gpu/recent", site.recent)
	mux.HandleFunc("GET "+base+"api/gpu/summary", func(w http.ResponseWriter, _ *http.Request) {
		site.mu.Lock()
		defer site.mu.Unlock()
		site.summaries++
		_, _ = w.Write(encode(site.ofAll(site.summary()))) // the browser has gone
	})
	mux.HandleFunc("GET "+base+"api/alerts", func(w http.ResponseWriter, _ *http.Request) {
		site.mu.Lock()
		defer site.mu.Unlock()
		_, _ = w.Write(encode(contract.Alerts{Alerts: append([]contract.Alert{}, site.alerts...)})) // the browser has gone
	})
	mux.HandleFunc("GET "+base+"api/gpu/metrics", func(w http.ResponseWriter, _ *http.Request) {
		site.mu.Lock()
		defer site.mu.Unlock()
		_, _ = w.Write(encode(site.ofAll(newUpdate(site.snapshot, site.why)))) // the browser has gone
	})
	site.Server = httptest.NewServer(mux)
	t.Cleanup(func() {
		site.cut()
		site.Close()
	})
	return site
}

// fleet is what the page is about.
func (s *site) fleet() *insight.Fleet {
	if s.snapshot == nil {
		return nil
	}
	moments := []*insight.Moment{insight.New(s.snapshot, explained(s.snapshot))}
	if len(s.nodes) > 1 {
		moments = nil
		for _, n := range s.nodes {
			moments = append(moments, insight.New(n, explained(n)))
		}
	}
	return insight.NewFleet(moments...)
}

func (s *site) summary() contract.Summary {
	out := contract.NewSummary(s.monitor(), s.fleet(), len(s.alerts))
	out.Why = s.why
	return out
}

func (s *site) monitor() contract.Monitor {
	return contract.Monitor{Node: "node", Source: gpu.SourceNVML, Version: "v0", Interval: s.interval, AlertThreshold: 50, Started: time.Now()}
}

func (s *site) page(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.snapshot != nil {
		now = s.snapshot.Time
	}
	var b bytes.Buffer
	in := views.Input{
		Monitor: s.monitor(), Nodes: s.fleet().Nodes(), Why: s.why, BasePath: base, Health: base + "api/health",
		Asset: func(name string) string { return s.assets.URL(base, name) }, Now: now,
	}
	answer := s.fleet().Answer()
	in.Layers, in.Causes, in.Alerts = contract.NewLayers(answer), answer.Causes(), s.standing
	if s.causes != nil {
		in.Causes = s.causes
	}
	in.Attribution = func(d *gpu.Device) *attribute.Attribution {
		return new(attribute.Of(d, attribute.ForeignPIDs(s.snapshot)))
	}
	in.Kept = s.kept
	page := views.NewPage(in)
	if uuid := r.PathValue("uuid"); uuid != "" {
		d, ok := s.snapshot.Device(uuid)
		if !ok {
			http.NotFound(w, r)
			return
		}
		part, _ := s.fleet().Device("", uuid)
		in.Layers, in.Forecasts = contract.NewLayersOfOne(part.Why), s.next
		page = views.NewDevicePage(in, d)
	}
	if err := page.Render(r.Context(), &b); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Security-Policy", policy)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(b.Bytes()) // the browser has gone
}

func (s *site) alertsPage(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	page := views.NewAlertsPage(views.AlertsInput{Input: views.Input{
		Monitor: s.monitor(), Nodes: s.fleet().Nodes(), BasePath: base, Now: s.snapshot.Time, Alerts: s.standing,
		Asset: func(name string) string { return s.assets.URL(base, name) },
	}, AnswerOf: func(*alert.Alert) *explain.DeviceAnswer { return nil }})
	_ = page.Render(r.Context(), w) // the browser has gone
}

func (s *site) kept(metric string, of []*gpu.Device) bool {
	return s.past.Has(metric, func(node, uuid string) bool {
		return of == nil || slices.ContainsFunc(of, func(d *gpu.Device) bool { return d.Node == node && d.UUID == uuid })
	})
}

func (s *site) file(w http.ResponseWriter, r *http.Request) {
	content, contentType, ok := s.assets.Open(strings.TrimPrefix(r.URL.Path, base+"static/"))
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", contentType)
	_, _ = w.Write(content) // the browser has gone
}

func (s *site) recent(w http.ResponseWriter, _ *http.Request) {
	_ = json.NewEncoder(w).Encode(contract.NewRecent(s.monitor(), nil, s.past.View(nil))) // the browser has gone
}

func (s *site) stream(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	refuse := s.refuse
	s.mu.Unlock()
	if refuse {
		http.Error(w, "away", http.StatusServiceUnavailable)
		return
	}
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer conn.CloseNow()
	gone := make(chan struct{})
	s.mu.Lock()
	var encoded []byte
	if s.snapshot != nil {
		encoded = encode(newUpdate(s.snapshot, s.why))
	}
	status := contract.NewGPUStatus(s.monitor(), s.fleet(), encoded, time.Now())
	greeting := [][]byte{message("gpu_status", status)}
	if len(s.nodes) > 1 {
		greeting = s.greetNodes(status)
	}
	for _, m := range greeting {
		if err == nil {
			err = conn.Write(r.Context(), websocket.MessageText, m)
		}
	}
	for _, a := range s.alerts {
		if err == nil {
			err = conn.Write(r.Context(), websocket.MessageText, message("high_gpu_usage_alert", a))
		}
	}
	s.viewers[conn] = gone
	s.mu.Unlock()
	s.arrived <- struct{}{}
	for err == nil { // requests are read and not answered: the next update is soon
		var request []byte
		_, request, err = conn.Read(r.Context())
		select {
		case s.requests <- string(request):
		default:
		}
	}
	s.mu.Lock()
	delete(s.viewers, conn)
	s.mu.Unlock()
	close(gone)
}

// await waits for a viewer that has been greeted.
func (s *site) await(t *testing.T) {
	t.Helper()
	select {
	case <-s.arrived:
	case <-time.After(20 * time.Second):
		t.Fatal("no WebSocket came")
	}
}

// send gives every viewer a message.
func (s *site) send(t *testing.T, event string, data any) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn := range s.viewers {
		if err := conn.Write(t.Context(), websocket.MessageText, message(event, data)); err != nil {
			t.Fatalf("the page does not read: %v", err)
		}
	}
}

// publish makes snap the newest snapshot and sends it.
func (s *site) publish(t *testing.T, snap *gpu.Snapshot, why string) {
	t.Helper()
	s.mu.Lock()
	s.snapshot, s.why = snap, why
	s.mu.Unlock()
	s.send(t, "gpu_status_update", newUpdate(snap, why))
}

// newUpdate is the update with its causes, and with another sentence.
func newUpdate(s *gpu.Snapshot, why string) contract.Update {
	u := contract.NewUpdate(insight.New(s, explained(s)), nil)
	u.Why = why
	return u
}

// explained is why the snapshot is as it is, with times and texts that differ
// from one snapshot to the next, and are the same for one.
func explained(s *gpu.Snapshot) explain.Answer {
	if s == nil {
		return explain.Combine(nil)
	}
	answer := explain.Explain(s)
	r := rand.New(rand.NewPCG(uint64(s.Time.UnixNano()), 5))
	vary := func(causes []explain.Cause) {
		for i := range causes {
			c := &causes[i]
			c.Confidence = pick(r, explain.High, explain.Medium, explain.Low)
			c.Since = pick(r, time.Time{}, s.Time, s.Time.Add(-time.Duration(r.Int64N(1e15))))
			c.Advice = pick(r, "", c.Advice, "End <b>it</b>\u202e.")
			c.Evidence = slices.Clone(c.Evidence)
			for j := range c.Evidence {
				c.Evidence[j].At = pick(r, time.Time{}, s.Time, s.Time.Add(-time.Duration(r.Int64N(4e9))), s.Time.Add(-time.Duration(r.Int64N(1e15))))
			}
		}
	}
	vary(answer.Machine)
	for i := range answer.Devices {
		vary(answer.Devices[i].Causes)
	}
	return answer
}

// cut ends every connection without a goodbye, and waits until they are gone.
func (s *site) cut() {
	s.mu.Lock()
	var gone []chan struct{}
	for conn, done := range s.viewers {
		_ = conn.CloseNow() // it may have gone by itself
		gone = append(gone, done)
	}
	s.mu.Unlock()
	for _, done := range gone {
		<-done
	}
}

func (s *site) setRefuse(refuse bool) {
	s.mu.Lock()
	s.refuse = refuse
	s.mu.Unlock()
}

func message(event string, data any) []byte {
	return encode(map[string]any{"event": event, "data": data})
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// pastOf makes a quarter of an hour up that ends at the snapshot.
func pastOf(store *recent.Store, s *gpu.Snapshot) {
	for n := 300; n > 0; n-- {
		then := *s
		then.Time = s.Time.Add(-time.Duration(n) * 3 * time.Second)
		then.Devices = append([]gpu.Device(nil), s.Devices...)
		for i := range then.Devices {
			d := &then.Devices[i]
			wave := 0.75 + 0.25*math.Sin(float64(n)/(9+3*float64(i%7)))
			d.Utilization.GPU = gpu.Map(d.Utilization.GPU, func(p gpu.Percent) gpu.Percent { return p * gpu.Percent(wave) })
			d.Thermal.GPU = gpu.Map(d.Thermal.GPU, func(c gpu.Celsius) gpu.Celsius { return c - 8 + gpu.Celsius(8*wave) })
			d.Power.Draw = gpu.Map(d.Power.Draw, func(w gpu.Watts) gpu.Watts { return w * gpu.Watts(wave) })
			if n > 120 && n < 150 && i == 0 {
				d.Readings = gpu.Readings{}
			}
		}
		store.Add(&then)
	}
}

func exampleNamed(t *testing.T, name string, now time.Time) fixture.Example {
	t.Helper()
	return fixture.Named(name, now)
}
