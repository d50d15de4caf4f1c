package metrics

import (
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A builder makes families of series. A scrape of many devices has thousands of
// series, so they share label pairs and are allocated in slabs.
type builder struct {
	families []*dto.MetricFamily
	pairs    map[[2]string]*dto.LabelPair
	timed    bool // each series has the time of its reading
}

func newBuilder(timed bool) *builder {
	return &builder{pairs: make(map[[2]string]*dto.LabelPair), timed: timed}
}

// time is a time for series, in milliseconds since 1970; nil where they have none.
func (b *builder) time(t time.Time) *int64 {
	if !b.timed {
		return nil
	}
	return new(t.UnixMilli())
}

// validLabel makes a name valid UTF-8, as a label must be.
func validLabel(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func (b *builder) pair(name, value string) *dto.LabelPair {
	key := [2]string{name, value}
	p, ok := b.pairs[key]
	if !ok {
		p = &dto.LabelPair{Name: new(name), Value: new(validLabel(value))}
		b.pairs[key] = p
	}
	return p
}

// labels returns base and further labels. It leaves out a label with an empty value.
func (b *builder) labels(base []*dto.LabelPair, names, values []string) []*dto.LabelPair {
	if len(names) == 0 {
		return base
	}
	out := make([]*dto.LabelPair, len(base), len(base)+len(names))
	copy(out, base)
	for i, name := range names {
		if values[i] != "" {
			out = append(out, b.pair(name, values[i]))
		}
	}
	return out
}

// close adds a family, unless it has no series.
func (b *builder) close(f *family) {
	if len(f.out.Metric) > 0 {
		b.families = append(b.families, f.out)
	}
}

// A family is a metric family under construction.
type family struct {
	out      *dto.MetricFamily
	counts   bool
	gauges   []series[dto.Gauge]
	counters []series[dto.Counter]
}

// A series is a metric with all that it points to, in one piece of memory.
type series[V any] struct {
	metric dto.Metric
	typed  V
	value  float64
}

// newFamily returns a family with memory for as many series as room. It can take more.
func newFamily(name, help string, counts bool, room int) *family {
	typ := dto.MetricType_GAUGE
	if counts {
		typ = dto.MetricType_COUNTER
	}
	return &family{
		out:    &dto.MetricFamily{Name: &name, Help: &help, Type: &typ, Metric: make([]*dto.Metric, 0, room)},
		counts: counts,
	}
}

// add adds a series, with its time where series have one.
func (f *family) add(labels []*dto.LabelPair, v float64, stamp *int64) {
	var m *dto.Metric
	if f.counts {
		s := next(f, &f.counters)
		m, s.value, s.typed.Value = &s.metric, v, &s.value
		m.Counter = &s.typed
	} else {
		s := next(f, &f.gauges)
		m, s.value, s.typed.Value = &s.metric, v, &s.value
		m.Gauge = &s.typed
	}
	m.Label, m.TimestampMs = labels, stamp
	f.out.Metric = append(f.out.Metric, m)
}

// next takes a series out of the slab, or out of a new one.
func next[V any](f *family, slab *[]series[V]) *series[V] {
	if len(*slab) == 0 {
		*slab = make([]series[V], max(cap(f.out.Metric)-len(f.out.Metric), len(f.out.Metric), 1))
	}
	s := &(*slab)[0]
	*slab = (*slab)[1:]
	return s
}

// A base is what all series of a subject share.
type base struct {
	labels []*dto.LabelPair
	// read is when its readings were read, told when the rest was; both are nil where series have no time.
	read, told *int64
}

// collect makes a family of each row, with the series of all subjects. A doubtful
// reading has no series there. If doubtful is not nil, it has one in that family.
func collect[T any](b *builder, rows []Row[T], subjects []T, baseOf func(T) base, ok func(T) bool, doubtful *family) {
	for i := range rows {
		r := &rows[i]
		f := newFamily(r.name, r.help, r.counts(), len(subjects))
		var labels []*dto.LabelPair // of the subject
		var stamp *int64
		doubted := false
		emit := func(v gpu.Reading[float64], values ...string) {
			if n, ok := v.Trusted(); ok {
				f.add(b.labels(labels, r.labels, values), r.unit.ours(n), stamp)
			}
			doubted = doubted || v.Quality() == gpu.Doubtful
		}
		for _, s := range subjects {
			if !r.always && !ok(s) {
				continue
			}
			subject := baseOf(s)
			labels, stamp, doubted = subject.labels, b.timeOf(r.always, &subject), false
			if r.readAt != nil {
				if t := r.readAt(s); !t.IsZero() {
					stamp = b.time(t)
				}
			}
			r.each(s, emit)
			if doubted && doubtful != nil {
				doubtful.add(b.labels(labels, doubtfulRow.labels, []string{r.name}), 1, stamp)
			}
		}
		b.close(f)
	}
}

// timeOf is the time of a row's series: what is always known is told by the snapshot.
func (b *builder) timeOf(always bool, subject *base) *int64 {
	if always {
		return subject.told
	}
	return subject.read
}

// collectOf makes the families of a table whose subjects belong to one node each, and are of one time.
func collectOf[T any](b *builder, rows []Row[T], subjects []T, origin func(T) (node string, read time.Time)) {
	collect(b, rows, subjects, func(s T) base {
		node, t := origin(s)
		stamp := b.time(t)
		return base{[]*dto.LabelPair{b.pair("node", node)}, stamp, stamp}
	}, func(T) bool { return true }, nil)
}

// nodes makes the families of everything that the nodes' snapshots say, and returns their devices.
func (b *builder) nodes(nodes gpu.Nodes, ours, dcgm bool) []*device {
	devices := b.devices(nodes, dcgm)
	if ours {
		collectOf(b, nodeRows, nodes, func(s *gpu.Snapshot) (string, time.Time) { return s.Node, s.Time })
		doubtful := newFamily(doubtfulRow.name, doubtfulRow.help, false, 0)
		collect(b, deviceRows, devices, func(d *device) base { return d.base },
			func(d *device) bool { return d.State == gpu.StateOK }, doubtful)
		b.close(doubtful)
	}
	if dcgm {
		b.dcgm(devices)
	}
	return devices
}
