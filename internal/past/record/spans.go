package record

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// tiers are those of spans.
var tiers = [len(store.Tiers) - 1]store.Tier(store.Tiers[store.Minute:])

// A span gathers the readings of a device in a minute or a quarter of an hour. It makes the same row of the same
// readings in any order: sums of whole numbers are exact, up to 2^53. One of six hours gathers nothing: its row is made of those of
// its quarters of an hour, so that it is the same after a restart, when the readings may be forgotten.
type span struct {
	begin    time.Time
	whole    bool // it has all its readings, which were seen in this run: its row needs no look into the store
	readings int
	last     time.Time // of its readings
	state    gpu.State // at last
	values   []sum     // by column, of those that are in spans
}

type sum struct {
	least, most, sum float64
	count            int
}

func (s *span) add(w *row) {
	if s.values == nil {
		s.values = make([]sum, len(w.columns))
	}
	s.readings++
	if !w.time.Before(s.last) {
		s.last, s.state = w.time, w.state
	}
	for i, v := range w.numbers {
		if !w.columns[i].Spans || math.IsNaN(v) || w.doubtful != nil && slices.Contains(w.doubtful, i) {
			continue
		}
		m := &s.values[i]
		if m.count == 0 {
			m.least, m.most = v, v
		}
		m.least, m.most, m.sum, m.count = min(m.least, v), max(m.most, v), m.sum+v, m.count+1
	}
}

// row is that of the span.
func (s *span) row(key store.Key, tier store.Tier, columns store.Columns) store.Row {
	out := store.Row{Key: key, Tier: tier, Time: s.begin, Readings: s.readings, Values: make([]store.Value, len(columns)), State: s.state}
	for i := range s.values {
		if m, scale := &s.values[i], columns[i].Scale; m.count > 0 {
			mean := math.Round(m.sum / float64(m.count))
			out.Values[i] = store.Value{Least: m.least / scale, Mean: mean / scale, Most: m.most / scale, Count: m.count}
		}
	}
	return out
}

// addToSpans adds a reading to the spans that it is in.
func (r *Recorder) addToSpans(n *node, d *device, w *row) {
	for i, tier := range tiers {
		begin := w.time.Truncate(tier.Span())
		if s := d.spans[i]; s != nil && !s.begin.Equal(begin) {
			r.endSpan(n, d, i, w.time)
		}
		s := d.spans[i]
		if s == nil {
			s = &span{begin: begin, whole: tier != store.SixHours && r.earlier != nil && begin.After(d.newest)}
			d.spans[i] = s
			b := store.Bucket{Key: d.Key(), Tier: tier, Time: begin}
			delete(n.later, b)
			delete(r.out.remakes, b)
			r.out.unsettle(b)
		}
		if !w.time.After(d.newest) { // it may take the place of one that is in the store
			s.whole = false
		}
		if s.whole {
			s.add(w)
		}
	}
}

// endSpan makes the row of a span, or lets it be made of what the store has.
func (r *Recorder) endSpan(n *node, d *device, i int, now time.Time) {
	s, tier := d.spans[i], tiers[i]
	d.spans[i] = nil
	b := store.Bucket{Key: d.Key(), Tier: tier, Time: s.begin}
	switch {
	case s.begin.Add(tier.Span()).After(now): // the clock was set back: it will get more
		n.later[b] = true
	case s.whole:
		r.out.span(s.row(d.Key(), tier, d.columns), b)
	default:
		r.out.remake(b)
	}
}

// endSpans ends the spans of a node that are over, also of devices that have left.
func (r *Recorder) endSpans(n *node, now time.Time) {
	for _, d := range n.devices {
		for i, s := range d.spans {
			if s != nil && !s.begin.Add(tiers[i].Span()).After(now) {
				r.endSpan(n, d, i, now)
			}
		}
	}
	for b := range n.later {
		if !b.Time.Add(b.Tier.Span()).After(now) {
			delete(n.later, b)
			r.out.remake(b)
		}
	}
}

// join adds a row of the store: a reading, or the row of a shorter span.
func (s *span) join(row *store.Row, columns store.Columns) {
	if s.values == nil {
		s.values = make([]sum, len(columns))
	}
	s.readings += row.Readings
	s.state = row.State
	for i, v := range row.Values {
		if !columns[i].Spans || v.Count == 0 || v.Doubtful {
			continue
		}
		least, mean, most := math.Round(v.Least*columns[i].Scale), math.Round(v.Mean*columns[i].Scale), math.Round(v.Most*columns[i].Scale)
		m := &s.values[i]
		if m.count == 0 {
			m.least, m.most = least, most
		}
		m.least, m.most = min(m.least, least), max(m.most, most)
		m.sum, m.count = m.sum+mean*float64(v.Count), m.count+v.Count
	}
}

// remake makes the row of a span of what the store has: of the readings, or of six hours of quarters of an hour. A row that it has
// already stays if it is of more readings: then some of what it was made of is forgotten by now.
func remake(ctx context.Context, rows store.Store, b store.Bucket) (*store.Row, error) {
	q := store.Query{From: b.Time, To: b.Time.Add(b.Tier.Span()), Keys: []store.Key{b.Key}, Machines: b.UUID == ""}
	columns := store.DeviceColumns
	if q.Machines {
		columns = store.MachineColumns
	}
	if b.Tier == store.SixHours {
		q.Tier = store.Quarter
	}
	made := span{begin: b.Time}
	for found, err := range rows.Rows(ctx, q) {
		if err != nil {
			return nil, err
		}
		made.join(&found, columns)
	}
	q.Tier, q.To = b.Tier, b.Time.Add(time.Millisecond)
	for kept, err := range rows.Rows(ctx, q) {
		if err != nil {
			return nil, err
		}
		if kept.Readings > made.readings {
			return nil, nil
		}
	}
	if made.readings == 0 {
		return nil, nil
	}
	out := made.row(b.Key, b.Tier, columns)
	return &out, nil
}
