package metrics

import (
	"strings"

	dto "github.com/prometheus/client_model/go"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A builder makes families of series. A scrape of many devices is thousands of
// series, so label pairs are shared and series come out of slabs.
type builder struct {
	families []*dto.MetricFamily
	pairs    map[[2]string]*dto.LabelPair
}

func newBuilder() *builder {
	return &builder{pairs: make(map[[2]string]*dto.LabelPair)}
}

// validLabel is what a device or a process calls itself as UTF-8, which a label
// must be.
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

// labels returns base and further labels. An empty value is no label to
// Prometheus, and is left out.
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

// close adds a family that has series; one without is left out.
func (b *builder) close(f *family) {
	if len(f.out.Metric) > 0 {
		b.families = append(b.families, f.out)
	}
}

// A family is one under construction.
type family struct {
	out      *dto.MetricFamily
	counts   bool
	gauges   []gaugeSeries
	counters []counterSeries
}

// A series and what it points to, in one piece of memory.
type (
	gaugeSeries struct {
		metric dto.Metric
		gauge  dto.Gauge
		value  float64
	}
	counterSeries struct {
		metric  dto.Metric
		counter dto.Counter
		value   float64
	}
)

// newFamily returns a family with memory for some series; it takes more.
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

func (f *family) add(labels []*dto.LabelPair, v float64) {
	if f.counts {
		if len(f.counters) == 0 {
			f.counters = make([]counterSeries, f.room())
		}
		s := &f.counters[0]
		f.counters = f.counters[1:]
		s.value = v
		s.counter.Value = &s.value
		s.metric.Counter, s.metric.Label = &s.counter, labels
		f.out.Metric = append(f.out.Metric, &s.metric)
		return
	}
	if len(f.gauges) == 0 {
		f.gauges = make([]gaugeSeries, f.room())
	}
	s := &f.gauges[0]
	f.gauges = f.gauges[1:]
	s.value = v
	s.gauge.Value = &s.value
	s.metric.Gauge, s.metric.Label = &s.gauge, labels
	f.out.Metric = append(f.out.Metric, &s.metric)
}

// room is how many series the next slab has.
func (f *family) room() int {
	return max(cap(f.out.Metric)-len(f.out.Metric), len(f.out.Metric), 1)
}

// collect makes the families of a table about a single subject.
func collect[T any](b *builder, rows []row[T], subject T, node string) {
	base := []*dto.LabelPair{b.pair("node", node)}
	for i := range rows {
		r := &rows[i]
		f := newFamily(r.name, r.help, r.counts(), 1)
		r.readings(subject, func(v gpu.Reading[float64], values ...string) {
			if n, ok := v.Trusted(); ok {
				f.add(b.labels(base, r.labels, values), r.unit.ours(n))
			}
		})
		b.close(f)
	}
}

// snapshot makes the families of everything that a snapshot says.
func (b *builder) snapshot(s *gpu.Snapshot, ours, dcgm bool) {
	devices := b.devices(s, dcgm)
	if ours {
		collect(b, nodeRows, s, s.Node)
		if s.Host != nil {
			collect(b, hostRows, s.Host, s.Node)
		}
		b.ours(devices)
	}
	if dcgm {
		b.dcgm(devices)
	}
}

// ours makes the gpuwhy_gpu_* families, row by row over all devices. What can't
// be right has no series but the one that says so: a rule or a board would take
// it for a reading.
func (b *builder) ours(devices []*device) {
	doubtful := newFamily(doubtfulRow.name, doubtfulRow.help, false, 0)
	for i := range deviceRows {
		r := &deviceRows[i]
		f := newFamily(r.name, r.help, r.counts(), len(devices))
		for _, d := range devices {
			if d.State != gpu.StateOK && !r.always {
				continue
			}
			doubted := false
			r.readings(d, func(v gpu.Reading[float64], values ...string) {
				if n, ok := v.Trusted(); ok {
					f.add(b.labels(d.labels, r.labels, values), r.unit.ours(n))
				}
				doubted = doubted || v.Quality() == gpu.Doubtful
			})
			if doubted {
				doubtful.add(b.labels(d.labels, doubtfulRow.labels, []string{r.name}), 1)
			}
		}
		b.close(f)
	}
	b.close(doubtful)
}
