// Package export sends series to receivers of Prometheus' remote write and of OTLP.
//
// A [Pusher] observes Moments. It has package metrics walk each of them, and sends the series with the time at
// which they were read, none twice with the same time. A series that has ended gets a mark that says so. Requests
// wait in a bounded queue of each destination while that is away, and the oldest are given up first.
package export

import (
	"cmp"
	"context"
	"hash/maphash"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/gpuwhy/gpuwhy/internal/clock"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/metrics"
)

const (
	// mostInRequest is about how many bytes a request has before it is compressed: what receivers take by default is
	// 20 MB and more.
	mostInRequest = 2 << 20
	// mostWaiting is how many compressed bytes wait for a destination.
	mostWaiting = 32 << 20
	// goodbye is how long what waits can still be sent at the end.
	goodbye = time.Second
)

// Config is what a Pusher needs.
type Config struct {
	Destinations []Destination // at least one
	Metrics      *metrics.Exporter
	Interval     time.Duration // between readings; what a fleet says in that time is one request
	Node         string        // the program's own name
	Version      string        // the program's
	Clock        clock.Clock
	Log          *slog.Logger
}

// A Pusher sends series. Its methods may be called by any goroutine.
type Pusher struct {
	cfg     Config
	otel    bool // somebody wants OpenTelemetry's names
	started time.Time
	seed    maphash.Seed
	all     []*destination

	mu      sync.Mutex
	nodes   map[string]*subject // by the name of the node
	own     *subject            // the program itself
	pending map[format]*request
	joined  map[string]bool // the nodes that are pending
	flushed time.Duration   // when pending requests were sent last
	ended   bool
}

// New makes a Pusher, which sends nothing before Run.
func New(cfg Config) *Pusher {
	p := &Pusher{
		cfg: cfg, started: cfg.Clock.Now(), seed: maphash.MakeSeed(), nodes: map[string]*subject{},
		pending: map[format]*request{}, joined: map[string]bool{},
	}
	for i := range cfg.Destinations {
		d := newDestination(cfg.Destinations[i], cfg.Clock, cfg.Version, cfg.Log.With("part", "export"))
		p.all = append(p.all, d)
		p.pending[d.format] = new(request)
		p.otel = p.otel || d.format == otlp
	}
	p.own = &subject{name: cfg.Node, instance: cfg.Node, began: p.started}
	return p
}

// A subject is a node, or the program itself, of which series are sent.
type subject struct {
	name     string
	instance string // what receivers call it
	cluster  string
	// series are those that were sent last, in the order in which they come, with the time of each.
	series []sent
	// again makes the series that were sent last once more.
	again    func() metrics.Readings
	newest   int64                // the time of the newest series, in ms since 1970
	counters map[uint64]beginning // by series, where OTLP is sent
	stale    time.Duration        // from when on its newest Moment is told no more
	// began is since when its counters count; 0: nobody knows.
	began time.Time
}

type sent struct {
	series uint64
	stamp  int64
}

// A beginning is since when a counter is known, and how far it was.
type beginning struct {
	stamp int64 // in ms since 1970
	value float64
}

// Observe takes in a Moment. It does not wait for a destination.
func (p *Pusher) Observe(m *insight.Moment) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := m.Snapshot
	n := p.nodes[s.Node]
	if p.ended {
		return
	}
	if !m.Link.Silent.IsZero() || p.cfg.Clock.Now().Sub(s.Time) > p.cfg.Metrics.StaleAfter(m) {
		if n != nil {
			p.forget(n)
		}
		return
	}
	known := n != nil
	if !known {
		n = &subject{name: s.Node}
		p.nodes[s.Node] = n
	}
	n.instance, n.cluster, n.stale = s.Node, m.Place.Cluster, p.cfg.Clock.Elapsed()+p.cfg.Metrics.StaleAfter(m)
	p.take(n, s.Time.UnixMilli(), func() metrics.Readings { return p.cfg.Metrics.Readings(s, p.otel) })
	p.joined[s.Node] = true
	if known && len(p.joined) == len(p.nodes) { // of a fleet at the start, more nodes come
		p.flush()
	}
}

// forget ends the series of a node of which nothing comes any more.
func (p *Pusher) forget(n *subject) {
	p.end(n, n.series, n.newest+1)
	delete(p.nodes, n.name)
	delete(p.joined, n.name)
}

// take puts the series of a subject into the pending requests, and ends those that are gone.
func (p *Pusher) take(n *subject, now int64, read func() metrics.Readings) {
	readings := read()
	before, i := n.series, 0
	var known map[uint64]int64 // the series before, by their hash, where their order is another now
	last := func(series uint64) (stamp int64, ok bool) {
		if i < len(before) && before[i].series == series {
			i++
			return before[i-1].stamp, true
		}
		if known == nil {
			known = make(map[uint64]int64, len(before))
			for _, b := range before {
				known[b.series] = b.stamp
			}
		}
		stamp, ok = known[series]
		return stamp, ok
	}
	after := make([]sent, 0, len(before))
	for _, families := range [][]*dto.MetricFamily{readings.Families, readings.OTel} {
		for _, f := range families {
			kept := f.Metric[:0]
			for _, m := range f.GetMetric() {
				series := p.hash(f.GetName(), m.GetLabel())
				stamp := m.GetTimestampMs()
				if m.TimestampMs == nil {
					stamp, m.TimestampMs = now, &now
				}
				was, ok := last(series)
				after = append(after, sent{series, max(stamp, was)})
				if !ok || stamp > was {
					kept = append(kept, m)
					n.newest = max(n.newest, stamp)
				}
			}
			f.Metric = kept
		}
	}
	var gone []sent
	if i < len(before) || known != nil {
		there := make(map[uint64]bool, len(after))
		for _, a := range after {
			there[a.series] = true
		}
		for _, b := range before {
			if !there[b.series] {
				gone = append(gone, b)
			}
		}
	}
	p.end(n, gone, now)
	p.add(n, readings, false)
	n.series, n.again = after, read
}

// end marks that series have ended.
func (p *Pusher) end(n *subject, gone []sent, now int64) {
	if len(gone) == 0 {
		return
	}
	last := make(map[uint64]int64, len(gone))
	for _, g := range gone {
		last[g.series] = g.stamp
		delete(n.counters, g.series)
	}
	readings := n.again()
	for _, families := range [][]*dto.MetricFamily{readings.Families, readings.OTel} {
		for _, f := range families {
			kept := f.Metric[:0]
			for _, m := range f.GetMetric() {
				if stamp, ok := last[p.hash(f.GetName(), m.GetLabel())]; ok {
					m.TimestampMs = new(max(now, stamp+1))
					kept = append(kept, m)
				}
			}
			f.Metric = kept
		}
	}
	p.add(n, readings, true)
}

// hash tells series apart.
func (p *Pusher) hash(name string, labels []*dto.LabelPair) uint64 {
	const prime = 1099511628211
	h := maphash.String(p.seed, name)
	for _, l := range labels {
		h = h*prime ^ maphash.String(p.seed, l.GetName())
		h = h*prime ^ maphash.String(p.seed, l.GetValue())
	}
	return h
}

// add writes series into the pending requests. It sends those that are large.
func (p *Pusher) add(n *subject, r metrics.Readings, ended bool) {
	for format, pending := range p.pending {
		if format == otlp {
			pending.addOTLP(p, n, r, ended)
		} else {
			pending.addRemoteWrite(n, r.Families, ended, func() { p.send(format) })
		}
		if len(pending.body) >= mostInRequest {
			p.send(format)
		}
	}
}

// flush sends the pending series, with the program's metrics about itself.
func (p *Pusher) flush() {
	families := p.cfg.Metrics.Own()
	for i, f := range families {
		families[i] = plain(f)
	}
	p.take(p.own, p.cfg.Clock.Now().UnixMilli(), func() metrics.Readings { return metrics.Readings{Families: copyOf(families)} })
	for format := range p.pending {
		p.send(format)
	}
	clear(p.joined)
	p.flushed = p.cfg.Clock.Elapsed()
}

// copyOf copies families so far that their lists can be made shorter.
func copyOf(families []*dto.MetricFamily) []*dto.MetricFamily {
	out := make([]*dto.MetricFamily, len(families))
	for i, f := range families {
		out[i] = &dto.MetricFamily{Name: f.Name, Help: f.Help, Type: f.Type}
		for _, m := range f.GetMetric() {
			out[i].Metric = append(out[i].Metric, &dto.Metric{Label: m.GetLabel(), Gauge: m.Gauge, Counter: m.Counter, TimestampMs: m.TimestampMs})
		}
	}
	return out
}

// send puts a pending request into the queues of its destinations.
func (p *Pusher) send(f format) {
	pending := p.pending[f]
	if pending.samples == 0 {
		return
	}
	done := &batch{body: pending.compress(f), samples: pending.samples}
	pending.body, pending.samples = pending.body[:0], 0
	for _, d := range p.all {
		if d.format == f {
			d.push(done)
		}
	}
}

// Run sends until ctx ends. Then it marks that all series have ended, and tries once more to send what waits.
func (p *Pusher) Run(ctx context.Context) {
	var sending sync.WaitGroup
	for _, d := range p.all {
		sending.Go(func() { d.run(ctx) })
	}
	defer sending.Wait()
	// Programs that were started together do not send together.
	first := time.NewTimer(time.Duration(rand.Int64N(int64(p.cfg.Interval)))) //nolint:gosec // it guards nothing
	defer first.Stop()
	select {
	case <-first.C:
	case <-ctx.Done():
	}
	ticks := time.NewTicker(p.cfg.Interval)
	defer ticks.Stop()
	for ctx.Err() == nil {
		p.tick()
		select {
		case <-ticks.C:
		case <-ctx.Done():
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range p.nodes {
		p.forget(n)
	}
	p.end(p.own, p.own.series, p.cfg.Clock.Now().UnixMilli())
	for format := range p.pending {
		p.send(format)
	}
	p.ended = true
	for _, d := range p.all {
		d.close()
	}
}

// tick sends what has waited for nodes that say nothing, and ends the series of those that have been silent for long.
func (p *Pusher) tick() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.cfg.Clock.Elapsed()
	for _, n := range p.nodes {
		if now > n.stale {
			p.forget(n)
		}
	}
	if (len(p.joined) > 0 || len(p.nodes) == 0) && now-p.flushed > p.cfg.Interval*9/10 {
		p.flush()
	}
}

// States are those of the destinations.
func (p *Pusher) States() []State {
	out := make([]State, len(p.all))
	for i, d := range p.all {
		out[i] = d.state()
	}
	return out
}

// plain turns a family of summaries, as some of the Go runtime's are, into gauges of their counts and sums.
func plain(f *dto.MetricFamily) *dto.MetricFamily {
	if f.GetType() != dto.MetricType_SUMMARY {
		return f
	}
	out := &dto.MetricFamily{Name: new(f.GetName() + "_count"), Help: f.Help, Type: dto.MetricType_COUNTER.Enum()}
	for _, m := range f.GetMetric() {
		out.Metric = append(out.Metric, &dto.Metric{
			Label: m.GetLabel(), TimestampMs: m.TimestampMs, Counter: &dto.Counter{Value: new(float64(m.GetSummary().GetSampleCount()))},
		})
	}
	return out
}

// valueOf is the number of a series.
func valueOf(m *dto.Metric) float64 {
	return cmp.Or(m.GetGauge().GetValue(), m.GetCounter().GetValue())
}
