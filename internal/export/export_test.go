package export

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/proto/otlp/common/v1"
	otel "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/clock"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/metrics"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
)

func TestMain(m *testing.M) { os.Exit(testkit.RunTests(m)) }

// server is a node with eight H100, read at a time.
func server(node string, now time.Time) *gpu.Snapshot {
	s := *fixture.Server()
	s.Node, s.Time = node, now
	s.Devices = slices.Clone(s.Devices)
	for i := range s.Devices {
		d := &s.Devices[i]
		d.Node, d.SampledAt = node, now.Add(-50*time.Millisecond)
	}
	return &s
}

// newPusher makes a Pusher whose destinations try again soon and have as long as they need. It sends nothing by itself, see observeNow.
func newPusher(tb testing.TB, log io.Writer, all ...Destination) *Pusher {
	tb.Helper()
	logger := slog.New(slog.NewTextHandler(log, nil))
	exporter, err := metrics.New(metrics.Config{
		Newest: func() *insight.Fleet { return nil }, Self: func() metrics.Self { return metrics.Self{} },
		Interval: time.Minute, Node: "hub", Version: "v1", Log: logger,
	})
	if err != nil {
		tb.Fatal(err)
	}
	p := New(Config{Destinations: all, Metrics: exporter, Interval: 1000 * time.Hour, Node: "hub", Version: "v1", Log: logger})
	for _, d := range p.all {
		d.patience, d.first, d.goodbye = testkit.Patience, time.Millisecond, testkit.Patience
	}
	return p
}

// running runs a Pusher until the test, or who calls stop, ends it.
func running(t *testing.T, p *Pusher) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { p.Run(ctx); close(done) }()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

func (p *Pusher) setClock(c clock.Clock) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cfg.Clock = c
}

// observeNow has a Moment taken in, and sent at once.
func (p *Pusher) observeNow(s *gpu.Snapshot) {
	p.Observe(insight.Of(s))
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.joined) > 0 {
		p.flush()
	}
}

// A receiver takes OTLP.
type receiver struct {
	*httptest.Server
	answer func(n int, w http.ResponseWriter) // nil: takes all

	mu       sync.Mutex
	requests []*otel.MetricsData
	headers  []http.Header
	n        int
}

func newReceiver(t *testing.T, answer func(n int, w http.ResponseWriter)) *receiver {
	t.Helper()
	r := &receiver{answer: answer}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		unzipped, err := gzip.NewReader(req.Body)
		if err != nil {
			t.Error(err)
			return
		}
		text, err := io.ReadAll(unzipped)
		if err != nil {
			t.Error(err)
		}
		var data otel.MetricsData
		if err := proto.Unmarshal(text, &data); err != nil {
			t.Error(err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.n++
		r.requests, r.headers = append(r.requests, &data), append(r.headers, req.Header)
		if r.answer != nil {
			r.answer(r.n, w)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n
}

func (r *receiver) destination(t *testing.T) Destination {
	t.Helper()
	all, err := OTLP([]string{r.URL}, "")
	if err != nil {
		t.Fatal(err)
	}
	return all[0]
}

// A point is what a receiver got of a series at a time.
type point struct {
	metric     *otel.Metric
	scope      *otel.ScopeMetrics
	attributes map[string]string
	*otel.NumberDataPoint
	resource map[string]string
}

func texts(list []*v1.KeyValue) map[string]string {
	out := map[string]string{}
	for _, kv := range list {
		out[kv.GetKey()] = kv.GetValue().GetStringValue()
	}
	return out
}

// points are those of a metric, in all requests so far.
func (r *receiver) points(name string) (out []point) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, data := range r.requests {
		for _, rm := range data.GetResourceMetrics() {
			for _, sm := range rm.GetScopeMetrics() {
				for _, m := range sm.GetMetrics() {
					if name != "" && m.GetName() != name {
						continue
					}
					for _, p := range append(m.GetGauge().GetDataPoints(), m.GetSum().GetDataPoints()...) {
						out = append(out, point{m, sm, texts(p.GetAttributes()), p, texts(rm.GetResource().GetAttributes())})
					}
				}
			}
		}
	}
	return out
}

func TestOTLP(t *testing.T) {
	r := newReceiver(t, nil)
	p := newPusher(t, t.Output(), r.destination(t))
	stop := running(t, p)
	now := time.Now().Truncate(time.Millisecond)
	first := server("node-1", now)
	first.Devices[1].Thermal.GPU = gpu.DoubtfulOf(gpu.Celsius(500))
	first.Devices[2].Power.Draw = gpu.Absent[gpu.Watts](gpu.Stale)
	p.observeNow(first)
	testkit.Until(t, "the first request", func() bool { return r.count() == 1 })

	temperatures := r.points("hw.temperature")
	if n := len(r.points("gpuwhy_gpu_temperature_celsius")); n != 7 {
		t.Errorf("%d temperatures under our name, want those of all but the doubtful one", n)
	}
	i := slices.IndexFunc(temperatures, func(p point) bool {
		return p.attributes["hw.parent"] == first.Devices[0].UUID && p.attributes["hw.sensor_location"] == ""
	})
	if i < 0 {
		t.Fatal("the chip's temperature is not there")
	}
	got := temperatures[i]
	want, _ := first.Devices[0].Thermal.GPU.Get()
	if got.GetAsDouble() != float64(want) || got.metric.GetUnit() != "Cel" || got.attributes["hw.type"] != "temperature" || got.attributes["hw.id"] == "" {
		t.Errorf("the temperature: %v", got)
	}
	if got.scope.GetSchemaUrl() != schema || got.resource["host.name"] != "node-1" || got.resource["service.name"] != "gpuwhy" {
		t.Errorf("of %v by %s", got.resource, got.scope.GetSchemaUrl())
	}
	if sampled := first.Devices[0].SampledAt; !time.Unix(0, int64(got.GetTimeUnixNano())).Equal(sampled.Truncate(time.Millisecond)) {
		t.Errorf("the time is %v, want %v", time.Unix(0, int64(got.GetTimeUnixNano())), sampled)
	}
	if n := len(r.points("hw.power")); n != 7 {
		t.Errorf("%d powers, want those of all but the stale one", n)
	}
	energies := r.points("hw.energy")
	for _, e := range energies {
		if !e.metric.GetSum().GetIsMonotonic() || e.GetStartTimeUnixNano() != e.GetTimeUnixNano() || e.attributes["hw.type"] != "gpu" {
			t.Errorf("an energy that was first seen: %v", e)
		}
	}
	if len(energies) != 8 || len(r.points("hw.gpu.memory.usage")) != 8 || len(r.points("hw.gpu.memory.utilization")) != 8 || len(r.points("hw.gpu.memory.limit")) != 8 {
		t.Error("not all that each GPU reports has a point")
	}
	for name, how := range metrics.Instruments {
		for _, p := range r.points(name) {
			if p.metric.GetUnit() != how.Unit || (p.metric.GetSum() != nil) != how.Sum {
				t.Errorf("%s: %v", name, p.metric)
			}
		}
	}
	if self := r.points("gpuwhy_build_info"); len(self) != 1 || self[0].attributes["version"] != "v1" {
		t.Errorf("the program says of itself %v", self)
	}

	// Device 0 was not read anew, device 3 is gone, and energies have grown.
	second := server("node-1", now.Add(time.Minute))
	second.Devices[0].SampledAt = first.Devices[0].SampledAt
	for i := range second.Devices {
		second.Devices[i].Power.Energy = gpu.Map(second.Devices[i].Power.Energy, func(j gpu.Joules) gpu.Joules { return j + 100 })
	}
	second.Devices[4].Power.Energy = gpu.Of(gpu.Joules(1)) // its driver was loaded again
	lost := second.Devices[3].UUID
	second.Devices = slices.Delete(second.Devices, 3, 4)
	p.setClock(clockAt(second.Time))
	p.observeNow(second)
	testkit.Until(t, "the second request", func() bool { return r.count() == 2 })
	times := map[string][]point{}
	for _, e := range r.points("hw.energy") {
		times[e.attributes["hw.id"]] = append(times[e.attributes["hw.id"]], e)
	}
	if n := len(times[first.Devices[0].UUID]); n != 1 {
		t.Errorf("%d points of a device that was read once", n)
	}
	if e := times[first.Devices[1].UUID]; len(e) != 2 || e[1].GetStartTimeUnixNano() != e[0].GetTimeUnixNano() || e[1].GetAsDouble() != e[0].GetAsDouble()+100 {
		t.Errorf("a counter that goes on: %v", e)
	}
	if e := times[first.Devices[5].UUID]; len(e) != 2 || e[1].GetStartTimeUnixNano() == e[0].GetTimeUnixNano() {
		i := slices.IndexFunc(second.Devices, func(d gpu.Device) bool { return d.UUID == first.Devices[5].UUID })
		if j, _ := second.Devices[i].Power.Energy.Get(); j == 1 {
			t.Errorf("a counter that began anew: %v", e)
		}
	}
	if e := times[lost]; len(e) != 2 || e[1].GetFlags() != uint32(otel.DataPointFlags_DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK) || e[1].GetValue() != nil {
		t.Errorf("a series that has ended: %v", e)
	}

	stop()
	ended := 0
	for _, u := range r.points("gpuwhy_gpu_utilization_ratio") {
		if u.GetFlags() != 0 {
			ended++
		}
	}
	if ended != 8 {
		t.Errorf("%d series ended by the end, want those of all eight", ended)
	}
	if up := r.points("gpuwhy_up"); up[len(up)-1].GetFlags() == 0 {
		t.Error("what the program says of itself did not end")
	}
	noneTwice(t, r)
}

// noneTwice checks that no series has two points of one time.
func noneTwice(t *testing.T, r *receiver) {
	t.Helper()
	type key struct {
		series string
		stamp  uint64
	}
	seen := map[key]bool{}
	for _, p := range r.points("") {
		var names []string
		for name, value := range p.attributes {
			names = append(names, name+"="+value)
		}
		slices.Sort(names)
		k := key{p.metric.GetName() + strings.Join(names, ",") + p.resource["host.name"], p.GetTimeUnixNano()}
		if seen[k] {
			t.Errorf("twice: %v", k)
		}
		seen[k] = true
	}
}

// What a receiver answers decides what becomes of a request.
func TestAnswers(t *testing.T) {
	partial := protowire.AppendTag(nil, 1, protowire.BytesType)
	partial = protowire.AppendBytes(partial, append([]byte{1 << 3, 5, 2<<3 | 2, 3}, "old"...))
	for name, c := range map[string]struct {
		answer   func(n int, w http.ResponseWriter)
		requests int // until the first batch is done with
		failed   bool
		says     string // in the state, after it
	}{
		"taken": {nil, 1, false, ""},
		"busy": {func(n int, w http.ResponseWriter) {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(map[bool]int{true: 429, false: 200}[n < 3])
		}, 3, false, ""},
		"unavailable": {func(n int, w http.ResponseWriter) { w.WriteHeader(map[bool]int{true: 503, false: 200}[n < 4]) }, 4, false, ""},
		"refused":     {func(_ int, w http.ResponseWriter) { http.Error(w, "too <b>old", http.StatusBadRequest) }, 1, true, "answers 400 Bad Request: gpuwhy drops what it refuses"},
		"not let in":  {func(_ int, w http.ResponseWriter) { w.WriteHeader(http.StatusUnauthorized) }, 1, true, "check the credentials"},
		"elsewhere": {func(_ int, w http.ResponseWriter) {
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(http.StatusTemporaryRedirect)
		}, 1, true, "redirects"},
		"page": {func(_ int, w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte("<p>log in"))
		}, 1, true, "web page"},
		"garbage": {func(_ int, w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/x-protobuf")
			_, _ = w.Write([]byte("\xff\xff\xff"))
		}, 1, true, "does not answer in OTLP"},
		"partial": {func(_ int, w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/x-protobuf")
			_, _ = w.Write(partial)
		}, 1, false, "does not accept everything"},
		"broken": {func(_ int, w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) }, 1, true, "answers 500"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReceiver(t, c.answer)
			var log bytes.Buffer
			p := newPusher(t, &log, r.destination(t))
			stop := running(t, p)
			p.observeNow(server("node-1", time.Now()))
			var s State
			testkit.Until(t, "the end of the batch", func() bool { s = p.States()[0]; return s.Waiting == 0 })
			if n := r.count(); n != c.requests {
				t.Errorf("%d requests, want %d", n, c.requests)
			}
			if (s.Failed > 5) != c.failed || s.Failed > 0 && s.Failed != 5 && s.Sent != 0 {
				t.Errorf("sent %d, failed %d", s.Sent, s.Failed)
			}
			if s.Err != nil {
				advice := gpu.AsAdvice(s.Err)
				text := advice.Text()
				if c.says == "" || !strings.Contains(text, c.says) {
					t.Errorf("it says %q", text)
				}
			} else if c.says != "" {
				t.Errorf("it does not say %q", c.says)
			}
			if name == "refused" { // once, however often
				p.setClock(clockAt(time.Now().Add(time.Minute)))
				p.observeNow(server("node-1", time.Now().Add(time.Minute)))
				testkit.Until(t, "the second batch", func() bool { return p.States()[0].Waiting == 0 && r.count() == 2 })
				stop()
				if n := strings.Count(log.String(), "level=WARN"); n != 1 {
					t.Errorf("told %d times:\n%s", n, log.String())
				}
			}
		})
	}
}

// Nobody waits for a receiver that is away or does not answer, and the queue has an end.
func TestBoundedQueue(t *testing.T) {
	release := make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(hangs.Close)
	t.Cleanup(func() { close(release) })
	all, err := RemoteWrite([]string{hangs.URL + "/hangs", "http://127.0.0.1:1/away?key=secret"}, "")
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	p := newPusher(t, &log, all...)
	p.all[0].goodbye = time.Millisecond
	stop := running(t, p)
	b := &batch{body: make([]byte, mostWaiting/4), samples: 3}
	for range 10 {
		for _, d := range p.all {
			d.push(b)
		}
	}
	for _, s := range p.States() {
		if s.WaitingBytes > mostWaiting || s.Dropped < 5*3 || s.Waiting+int(s.Dropped) != 10*3 {
			t.Errorf("%+v", s)
		}
	}
	testkit.Until(t, "what is away is told", func() bool { return p.States()[1].Err != nil })
	stop()
	for _, text := range []string{log.String(), p.States()[1].Err.Error(), p.States()[1].Name} {
		if strings.Contains(text, "secret") {
			t.Errorf("it shows a secret: %s", text)
		}
	}
}

// deaf is a receiver that takes a request and never answers.
type deaf struct{}

func (deaf) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// A receiver that never answers has its time for each request, and no more than a second at the end.
func TestReceiverThatNeverAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPusher(t, t.Output(), Destination{Name: "deaf", format: remoteWrite, url: "http://deaf.example.org"})
		d := p.all[0]
		d.client.Transport, d.patience, d.goodbye = deaf{}, patience, goodbye
		stop := running(t, p)
		p.observeNow(server("node-1", time.Now()))
		time.Sleep(patience - time.Millisecond)
		if s := p.States()[0]; s.Err != nil || s.Waiting == 0 {
			t.Errorf("before its time is over: %+v", s)
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if s := p.States()[0]; s.Err == nil || !strings.Contains(s.Err.Error(), "does not answer in time") || s.Waiting == 0 {
			t.Errorf("when its time is over: %+v", s)
		}
		begun := time.Now()
		stop()
		if took := time.Since(begun); took != goodbye {
			t.Errorf("the end took %v", took)
		}
	})
}

// A fleet says in one request what its nodes say in an interval; what is large is divided.
func TestOneRequestAnInterval(t *testing.T) {
	r := newReceiver(t, nil)
	p := newPusher(t, t.Output(), r.destination(t))
	now := time.Now()
	for i := range 3 {
		at := now.Add(time.Duration(i) * time.Minute)
		p.setClock(clockAt(at))
		for _, node := range []string{"a", "b", "c"} {
			p.Observe(insight.Of(server(node, at)))
		}
	}
	if n := len(p.all[0].queue); n != 2 { // each goes when all three have said something
		t.Errorf("%d requests", n)
	}
	for i := range 24 {
		p.Observe(insight.Of(server("large-"+string(rune('a'+i)), now.Add(2*time.Minute))))
	}
	p.mu.Lock()
	p.flush()
	p.mu.Unlock()
	if n := len(p.all[0].queue); n < 5 {
		t.Errorf("%d requests of 24 nodes", n)
	}
	running(t, p)
	testkit.Until(t, "all requests", func() bool { return p.States()[0].Waiting == 0 })
	noneTwice(t, r)
	for _, data := range r.requests {
		if n := proto.Size(data); n > 2*mostInRequest {
			t.Errorf("a request of %d bytes", n)
		}
	}
}

// A node that is silent, or whose snapshot is old, has no series.
func TestSilent(t *testing.T) {
	r := newReceiver(t, nil)
	p := newPusher(t, t.Output(), r.destination(t))
	now := time.Now()
	p.Observe(insight.Of(server("old", now.Add(-time.Hour))))
	m := insight.Of(server("node-1", now))
	p.Observe(m)
	p.Observe(m.At(insight.Place{}, insight.Link{Remote: true, Silent: now}))
	p.mu.Lock()
	p.flush()
	if len(p.nodes) != 0 {
		t.Errorf("nodes: %v", p.nodes)
	}
	p.mu.Unlock()
	running(t, p)
	testkit.Until(t, "the request", func() bool { return r.count() > 0 })
	gauges := r.points("gpuwhy_gpu_utilization_ratio")
	if len(gauges) != 16 || gauges[15].GetFlags() == 0 || gauges[15].GetTimeUnixNano() <= gauges[0].GetTimeUnixNano() {
		t.Errorf("%d points of a node that became silent", len(gauges))
	}
	for _, g := range gauges {
		if g.attributes["node"] == "old" {
			t.Error("an old reading was sent")
		}
	}
}

// BenchmarkObserve is what a device costs each interval: its series are made, compared with those before, written and compressed.
func BenchmarkObserve(b *testing.B) {
	for _, c := range []struct {
		name         string
		destinations func() []Destination
	}{
		{"remote-write", func() []Destination {
			return []Destination{{Name: "x", format: remoteWrite, url: "http://127.0.0.1:1"}}
		}},
		{"otlp", func() []Destination { return []Destination{{Name: "x", format: otlp, url: "http://127.0.0.1:1"}} }},
	} {
		b.Run(c.name, func(b *testing.B) {
			p := newPusher(b, io.Discard, c.destinations()...)
			now := time.Now()
			const nodes = 32
			var round [2][nodes]*insight.Moment // the second has other times, as the next reading would
			for i := range round {
				for j := range round[i] {
					round[i][j] = insight.Of(server(fmt.Sprintf("node-%d", j), now))
				}
			}
			sent, n := 0, 0
			for b.Loop() {
				n++
				now := now.Add(time.Duration(n) * time.Second)
				p.setClock(clockAt(now))
				for _, m := range round[n%2] {
					m.Snapshot.Time = now
					for i := range m.Snapshot.Devices {
						m.Snapshot.Devices[i].SampledAt = now
					}
					p.Observe(m)
				}
				for _, q := range p.all[0].queue {
					sent += len(q.body)
				}
				p.all[0].queue = nil
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/1e3/float64(8*nodes*n), "µs/device")
			b.ReportMetric(float64(sent)/float64(8*nodes*n), "B/device")
		})
	}
}
