// Package recent keeps the last minutes of each device's main readings in
// memory, so that a page opened now shows them at once. It keeps means over
// short spans, not every reading, and forgets at a restart: history with a
// longer past and a disk is another package's.
package recent

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// Metric is one of the readings that are kept.
type Metric int

// The metrics that are kept, in the order of [Series.Values].
const (
	Utilization Metric = iota // percent
	Memory                    // percent of the device's memory that is used
	Temperature               // degrees Celsius
	Power                     // watts
	Fan                       // percent, as commanded; the fastest fan's
	SMClock                   // MHz
	Bandwidth                 // percent of the memory's bandwidth in use
	metrics
)

var metricNames = [metrics]string{
	"utilization_percent", "memory_percent", "temperature_celsius", "power_watts", "fan_percent", "sm_clock_mhz",
	"memory_bandwidth_percent",
}

// String returns the metric's name with its unit, such as "power_watts".
func (m Metric) String() string { return metricNames[m] }

// Metrics lists all metrics in order.
func Metrics() []Metric {
	out := make([]Metric, metrics)
	for i := range out {
		out[i] = Metric(i)
	}
	return out
}

// Span is how far back a store reaches.
const Span = 15 * time.Minute

// MaxPoints is how many points a series has at most. Readings closer together
// than Span/MaxPoints are put into one point, their mean.
const MaxPoints = 300

const bucket = Span / MaxPoints

// A Store keeps the recent past. Its methods may be called at the same time.
type Store struct {
	mu         sync.Mutex
	times      ring[time.Time]
	devices    map[key]*device
	newest     map[string]time.Time // by node
	generation uint64
}

type key struct{ node, uuid string }

type device struct {
	index  int
	name   string
	points ring[point]
}

// point is one moment of one device: sums and counts, so that a mean can grow.
type point struct {
	sum [metrics]float64
	n   [metrics]uint32
}

// New returns an empty store.
func New() *Store {
	return &Store{devices: map[key]*device{}, newest: map[string]time.Time{}}
}

// Add takes a snapshot in. Devices that have no readings get a gap.
// Snapshots older than the newest one of their node are ignored.
func (s *Store) Add(snap *gpu.Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if snap.Time.Before(s.newest[snap.Node]) {
		return
	}
	s.newest[snap.Node] = snap.Time
	// Nodes are read at about the same time, not in the order of their times.
	if last, ok := s.times.last(); ok && !snap.Time.Truncate(bucket).After(last.Truncate(bucket)) {
		s.addPoints(snap)
		return
	}
	for s.times.n > 0 && (s.times.n == MaxPoints || snap.Time.Sub(*s.times.first()) > Span) {
		s.drop()
	}
	s.times.push(snap.Time)
	for _, d := range s.devices {
		d.points.push(point{})
	}
	s.addPoints(snap)
}

// drop forgets the oldest moment, and devices of which nothing is left.
func (s *Store) drop() {
	s.times.pop()
	for k, d := range s.devices {
		d.points.pop()
		if !d.points.contains(func(p *point) bool { return p.n != [metrics]uint32{} }) {
			delete(s.devices, k)
		}
	}
}

func (s *Store) addPoints(snap *gpu.Snapshot) {
	s.generation++
	for i := range snap.Devices {
		d := &snap.Devices[i]
		k := key{d.Node, d.UUID}
		known := s.devices[k]
		if known == nil {
			known = &device{}
			for range s.times.n {
				known.points.push(point{})
			}
			s.devices[k] = known
		}
		known.index, known.name = d.Index, d.Name
		p, _ := known.points.last()
		add(p, Utilization, d.Utilization.GPU)
		add(p, Memory, d.Memory.Utilization())
		add(p, Temperature, d.Thermal.GPU)
		add(p, Power, d.Power.Draw)
		add(p, Fan, d.Fans.Commanded())
		add(p, SMClock, d.Clocks.SM)
		add(p, Bandwidth, d.Activity.MemoryBandwidth)
	}
}

func add[T gpu.Percent | gpu.Celsius | gpu.Watts | gpu.Megahertz](p *point, m Metric, r gpu.Reading[T]) {
	if v, ok := r.Get(); ok {
		p.sum[m] += float64(v)
		p.n[m]++
	}
}

// Generation is another number after each snapshot that was taken in. A view
// that is taken later than the number is at least as new.
func (s *Store) Generation() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.generation
}

// Has says whether there is a reading of the metric of that name, of a device
// that keep allows; nil allows all. There is none of a name that is no metric's.
func (s *Store) Has(metric string, keep func(node, uuid string) bool) bool {
	m := slices.Index(metricNames[:], metric)
	if m < 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, d := range s.devices {
		if (keep == nil || keep(k.node, k.uuid)) && d.points.contains(func(p *point) bool { return p.n[m] > 0 }) {
			return true
		}
	}
	return false
}

// A View is a copy of the past: for each device one value per metric and time.
type View struct {
	Times  []time.Time // oldest first
	Series []Series    // ordered by device index
}

// A Series is one device's part of a view.
type Series struct {
	Node, UUID, Name string
	Index            int
	// Values by metric and time; NaN where there was no reading.
	Values [metrics][]float64
}

// View copies the past of the devices that keep allows; nil allows all.
func (s *Store) View(keep func(node, uuid string, index int) bool) View {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := View{Times: s.times.slice()}
	for k, d := range s.devices {
		if keep != nil && !keep(k.node, k.uuid, d.index) {
			continue
		}
		series := Series{Node: k.node, UUID: k.uuid, Name: d.name, Index: d.index}
		points := d.points.slice()
		for m := range metrics {
			values := make([]float64, len(points))
			for i := range points {
				values[i] = math.NaN()
				if n := points[i].n[m]; n > 0 {
					values[i] = points[i].sum[m] / float64(n)
				}
			}
			series.Values[m] = values
		}
		v.Series = append(v.Series, series)
	}
	slices.SortFunc(v.Series, func(a, b Series) int { return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Index, b.Index)) })
	return v
}

// ring is a queue of at most MaxPoints elements; a full one takes no more.
type ring[T any] struct {
	buf   []T
	start int
	n     int
}

func (r *ring[T]) push(v T) {
	if r.buf == nil {
		r.buf = make([]T, MaxPoints)
	}
	r.n++
	*r.at(r.n - 1) = v
}

func (r *ring[T]) pop() {
	r.start = (r.start + 1) % len(r.buf)
	r.n--
}

func (r *ring[T]) at(i int) *T { return &r.buf[(r.start+i)%len(r.buf)] }

func (r *ring[T]) first() *T { return r.at(0) }

func (r *ring[T]) last() (*T, bool) {
	if r.n == 0 {
		return nil, false
	}
	return r.at(r.n - 1), true
}

func (r *ring[T]) contains(wanted func(*T) bool) bool {
	for i := range r.n {
		if wanted(r.at(i)) {
			return true
		}
	}
	return false
}

// slice copies the elements, oldest first.
func (r *ring[T]) slice() []T {
	out := make([]T, r.n)
	for i := range out {
		out[i] = *r.at(i)
	}
	return out
}
