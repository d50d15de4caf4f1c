//go:build !race && linux

package bench

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/sys/unix"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/app"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/reading"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/sampler"
	"github.com/gpuwhy/gpuwhy/sampler/sim"
)

// fleetInterval is the time between two readings of a node.
const fleetInterval = 5 * time.Second

// machines are nodes of eight GPUs that somebody reads.
type machines struct {
	sources   []*sim.Source
	templates [][]*gpu.Snapshot // a few readings of each source
	names     []string
	seq       uint64
}

func newMachines(nodes int) (*machines, error) {
	began := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	sources, err := sim.Nodes("fleet:800", func() time.Time { return began })
	if err != nil {
		return nil, err
	}
	m := &machines{sources: sources, templates: make([][]*gpu.Snapshot, len(sources))}
	for range 6 {
		for i, source := range sources {
			s, err := source.Read(context.Background())
			if err != nil {
				return nil, err
			}
			m.templates[i] = append(m.templates[i], s)
		}
		began = began.Add(fleetInterval)
	}
	for i := range nodes {
		m.names = append(m.names, fmt.Sprintf("gpu-%05d", i))
	}
	return m, nil
}

// A fleet is the parts of a hub to which many nodes publish, as other programs do once their Moments are decoded.
type fleet struct {
	*app.App
	*machines
	addr string
}

// newFleet starts the parts. Nothing is published yet.
func newFleet(tb testing.TB, nodes int) *fleet {
	tb.Helper()
	m, err := newMachines(nodes)
	if err != nil {
		tb.Fatal(err)
	}
	f := &fleet{machines: m}
	var inputs []*reading.Inputs
	for i, m := range m.sources[:2] { // never read: they say that there are several
		inputs = append(inputs, &reading.Inputs{Node: fmt.Sprint("unread-", i), Origin: "auto", Sources: []sampler.Source{m}})
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	f.addr = listener.Addr().String()
	log := slog.New(slog.DiscardHandler)
	f.App, err = app.New(app.Options{
		Address: serve.Address{Listen: f.addr, BasePath: "/"}, Node: "hub", Interval: fleetInterval, Deadline: time.Second, MaxViewers: maxViewers,
	}, inputs, log)
	if err != nil {
		tb.Fatal(err)
	}
	serving := serve.HTTPServer(f.Handler(), log)
	var done sync.WaitGroup
	done.Go(func() { _ = serving.Serve(listener) }) // it is closed
	tb.Cleanup(func() {
		_ = f.Shutdown(context.Background()) // who reads nothing is cut off
		_ = serving.Close()
		done.Wait()
	})
	return f
}

// moment makes a node's next Moment, dated now.
func (m *machines) moment(i int, now time.Time) *insight.Moment {
	m.seq++
	readings := m.templates[i%len(m.templates)]
	s := *readings[int(m.seq)/len(m.names)%len(readings)]
	s.Node, s.Seq, s.Time = m.names[i], m.seq, now
	s.Devices = slices.Clone(s.Devices)
	for j := range s.Devices {
		d := &s.Devices[j]
		d.Node, d.UUID, d.SampledAt = s.Node, s.Node+"-"+strconv.Itoa(j), now
		d.Power.Draw = gpu.Of(d.Power.Draw.Or(100) + gpu.Watts(m.seq%7))
	}
	return insight.Of(&s).At(insight.Place{}, insight.Link{Remote: true})
}

// fill gives all nodes a past of 15 minutes.
func (f *fleet) fill() {
	for ago := -16 * time.Minute; ago < 0; ago += 15 * time.Second {
		now := time.Now().Add(ago)
		var batch []*insight.Moment
		for i := range f.names {
			batch = append(batch, f.moment(i, now.Add(time.Duration(i)*fleetInterval/time.Duration(len(f.names)))))
		}
		f.Take(batch)
	}
}

// cpuOfSelf returns this process's CPU time, including the kernel's.
func cpuOfSelf(tb testing.TB) time.Duration {
	tb.Helper()
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func cpuOfThread(tb testing.TB) time.Duration {
	tb.Helper()
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(t.Nano())
}

// play publishes what all nodes publish in a period, spread evenly, in batches ten times a second. It returns how many
// Moments there were, and when each was published.
func (f *fleet) play(span time.Duration) (published []time.Time) {
	const each = 100 * time.Millisecond
	begun, n := time.Now(), 0
	for tick := 1; time.Duration(tick)*each <= span; tick++ {
		time.Sleep(time.Until(begun.Add(time.Duration(tick) * each))) // the pace is part of what is measured
		due := int(time.Duration(tick) * each * time.Duration(len(f.names)) / fleetInterval)
		var batch []*insight.Moment
		for ; n < due; n++ {
			now := time.Now()
			batch = append(batch, f.moment(n%len(f.names), now))
			published = append(published, now)
		}
		f.Take(batch)
	}
	return published
}

// A witness is a viewer of a page that records how current the page is.
type witness struct {
	conn  *websocket.Conn
	ended chan struct{}
	mu    sync.Mutex
	seen  []sight
}

// A sight is a message that brings the page to the state after everything published up to a time.
type sight struct {
	arrived time.Time
	taken   int64 // in ms since 1970; 0 where the message does not say
	bytes   int
}

var takenOf = regexp.MustCompile(`data-taken[^0-9]{1,6}([0-9]{13})`)

func newWitness(tb testing.TB, addr, path string) *witness {
	tb.Helper()
	conn, _, err := websocket.Dial(tb.Context(), "ws://"+addr+path, nil) //nolint:bodyclose // Dial says that nobody needs to
	if err != nil {
		tb.Fatal(err)
	}
	conn.SetReadLimit(-1)
	w := &witness{conn: conn, ended: make(chan struct{})}
	go func() {
		defer close(w.ended)
		for {
			_, text, err := conn.Read(context.Background())
			if err != nil {
				return
			}
			s := sight{arrived: time.Now(), bytes: len(text)}
			if m := takenOf.FindSubmatch(text); m != nil {
				s.taken, _ = strconv.ParseInt(string(m[1]), 10, 64) // digits alone
			}
			w.mu.Lock()
			w.seen = append(w.seen, s)
			w.mu.Unlock()
		}
	}()
	tb.Cleanup(func() {
		_ = conn.CloseNow() // it may be closed already
		<-w.ended
	})
	return w
}

// await waits until the page shows everything published up to a time, or the viewer is cut off, which fails.
func (w *witness) await(tb testing.TB, published time.Time) {
	tb.Helper()
	testkit.Until(tb, "the page shows what was published last", func() bool {
		select {
		case <-w.ended:
			tb.Fatal("the viewer was cut off")
		default:
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		return slices.ContainsFunc(w.seen, func(s sight) bool { return s.taken >= published.UnixMilli() })
	})
}

// late returns how long each Moment took to reach the page, sorted, and the bytes per second. The page must have the last Moment.
func (w *witness) late(published []time.Time) (all []time.Duration, bytes float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := 0
	for _, sent := range published {
		for w.seen[i].taken < sent.UnixMilli() {
			i++
		}
		all = append(all, w.seen[i].arrived.Sub(sent))
	}
	for _, s := range w.seen {
		if s.arrived.After(published[0]) {
			bytes += float64(s.bytes)
		}
	}
	slices.Sort(all)
	return all, bytes / published[len(published)-1].Sub(published[0]).Seconds()
}

// A load is the cost of nodes for a hub.
type load struct {
	cpu, heap, garbage float64 // µs by node and second, bytes by node, bytes by node and second
	late               []time.Duration
	bytes              float64 // to a viewer, a second
}

func heapOf() runtime.MemStats {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m
}

const fleetPage = "/ws?page=&have="

// weigh lets nodes publish for some time to a hub with viewers of the fleet's page.
func weigh(tb testing.TB, nodes, viewers int, span time.Duration) load {
	tb.Helper()
	f := newFleet(tb, nodes)
	before := heapOf().HeapAlloc
	f.fill()
	// The cost of making the Moments themselves.
	samples := min(nodes, 200)
	var m0, m1 runtime.MemStats
	runtime.ReadMemStats(&m0)
	made := cpuOfSelf(tb)
	for i := range samples {
		f.moment(i, time.Now())
	}
	made = (cpuOfSelf(tb) - made) / time.Duration(samples)
	runtime.ReadMemStats(&m1)
	madeBytes := float64(m1.TotalAlloc-m0.TotalAlloc) / float64(samples)

	var connected int
	var w *witness
	if viewers > 0 {
		begin(tb, role{Crowd: &crowdConfig{Addr: f.addr, Path: fleetPage, Viewers: viewers - 1, Does: doesRead}}, &connected)
		w = newWitness(tb, f.addr, fleetPage)
	}
	f.play(2 * time.Second)
	runtime.ReadMemStats(&m0)
	cpu := cpuOfSelf(tb)
	published := f.play(span)
	cpu = cpuOfSelf(tb) - cpu - made*time.Duration(len(published))
	runtime.ReadMemStats(&m1)
	nodeSeconds := float64(nodes) * span.Seconds()
	l := load{
		cpu:     float64(cpu.Microseconds()) / nodeSeconds,
		garbage: (float64(m1.TotalAlloc-m0.TotalAlloc) - madeBytes*float64(len(published))) / nodeSeconds,
	}
	l.heap = (float64(heapOf().HeapAlloc) - float64(before)) / float64(nodes)
	if w != nil {
		w.await(tb, published[len(published)-1])
		l.late, l.bytes = w.late(published)
	}
	runtime.KeepAlive(f)
	return l
}

// BenchmarkFleetAnswers measures the cost of requests about a fleet.
func BenchmarkFleetAnswers(b *testing.B) {
	for _, nodes := range []int{100, 1000} {
		f := newFleet(b, nodes)
		f.fill()
		var fresh []*insight.Moment
		for i := range nodes {
			fresh = append(fresh, f.moment(i, time.Now()))
		}
		f.Take(fresh)
		for path, accept := range map[string]string{
			"/": "text/html", "/nodes": "text/html", "/processes": "text/html", "/alerts": "text/html", "/node/gpu-00050/": "text/html",
			"/metrics": "text/plain", "/api/gpu/summary": "application/json", "/api/v1/gpu/nodes": "application/json",
		} {
			b.Run(fmt.Sprintf("nodes=%d/path=%s", nodes, path), func(b *testing.B) {
				n := 0
				for i := range b.N {
					b.StopTimer()
					f.Take([]*insight.Moment{f.moment(i%nodes, time.Now())})
					b.StartTimer()
					r := httptest.NewRequest(http.MethodGet, "http://"+f.addr+path, nil)
					r.Header.Set("Accept", accept)
					w := httptest.NewRecorder()
					f.Handler().ServeHTTP(w, r)
					if n = w.Body.Len(); w.Code != http.StatusOK {
						b.Fatalf("%d: %.200s", w.Code, w.Body)
					}
				}
				b.ReportMetric(float64(n)/1e3, "kB")
			})
		}
	}
}

// BenchmarkFleet has nodes of eight GPUs that other programs read every 5 s, and 100 viewers of the page of all nodes. The memory includes the
// Moments.
func BenchmarkFleet(b *testing.B) { benchmarkFleet(b, 100, 1000) }

// BenchmarkFleetUnseen is the same without viewers: the cost of the nodes alone.
func BenchmarkFleetUnseen(b *testing.B) { benchmarkUnseen(b, 100, 1000) }

func benchmarkUnseen(b *testing.B, sizes ...int) {
	b.Helper()
	var before, bytes float64
	for i, nodes := range sizes {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			f := newFleet(b, nodes)
			empty := heapOf().HeapAlloc
			f.fill()
			heap := float64(heapOf().HeapAlloc-empty) / float64(nodes)
			// A round of all nodes, in batches of a tenth of a second each.
			batches := int(fleetInterval / (100 * time.Millisecond))
			runtime.LockOSThread() // whose time is counted, so that of the collector's own threads is not
			defer runtime.UnlockOSThread()
			var cpu time.Duration
			var rounds []float64
			for b.Loop() {
				cpu = 0
				for i := range batches {
					var batch []*insight.Moment
					for n := i * nodes / batches; n < (i+1)*nodes/batches; n++ {
						batch = append(batch, f.moment(n, time.Now()))
					}
					begun := cpuOfThread(b)
					f.Take(batch)
					cpu += cpuOfThread(b) - begun
				}
				rounds = append(rounds, float64(cpu.Nanoseconds())/1e3/float64(nodes))
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(rounds)/fleetInterval.Seconds(), "us-cpu/node/s")
			b.ReportMetric(heap/1e3, "kB/node")
			if i > 0 && before > 0 {
				b.ReportMetric(median(rounds)/before, "x-cpu-of-a-tenth")
				b.ReportMetric(heap/bytes, "x-memory-of-a-tenth")
			}
			before, bytes = median(rounds), heap
			runtime.KeepAlive(f)
		})
	}
}

// The cost of a Moment for the whole program does not depend on the number of nodes, and each node takes little memory.
func TestANodeCostsTheSameInALargeFleet(t *testing.T) {
	const batch = 20
	mallocs := func(nodes int) float64 {
		f := newFleet(t, nodes)
		now := time.Now()
		for round := range 4 {
			var all []*insight.Moment
			for i := range nodes {
				all = append(all, f.moment(i, now.Add(time.Duration(round)*fleetInterval)))
			}
			f.Take(all)
		}
		next := 0
		batches := make([][]*insight.Moment, 7) // AllocsPerRun has one run more
		for i := range batches {
			for range batch {
				batches[i] = append(batches[i], f.moment(next%nodes, now.Add(4*fleetInterval)))
				next++
			}
		}
		next = 0
		return testing.AllocsPerRun(len(batches)-1, func() {
			f.Take(batches[next])
			next++
		}) / batch
	}
	few, many := mallocs(100), mallocs(800)
	t.Logf("%.1f allocations for a Moment at 100 nodes, %.1f at 800", few, many)
	if many > 1.5*few+5 {
		t.Errorf("%.0f allocations for a Moment at 100 nodes, %.0f at 800", few, many)
	}
}

func benchmarkFleet(b *testing.B, sizes ...int) {
	b.Helper()
	var before load
	for i, nodes := range sizes {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			l := weigh(b, nodes, 100, 15*time.Second)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(l.cpu, "us-cpu/node/s")
			b.ReportMetric(l.heap/1e3, "kB/node")
			b.ReportMetric(l.garbage/1e3, "kB-garbage/node/s")
			b.ReportMetric(l.bytes/1e3, "kB/viewer/s")
			b.ReportMetric(float64(l.late[len(l.late)/2].Milliseconds()), "ms-late")
			b.ReportMetric(float64(l.late[len(l.late)*99/100].Milliseconds()), "ms-late-p99")
			if i > 0 && before.cpu > 0 {
				b.ReportMetric(l.cpu/before.cpu, "x-cpu-of-a-tenth")
				b.ReportMetric(l.heap/before.heap, "x-memory-of-a-tenth")
			}
			before = l
		})
	}
}
