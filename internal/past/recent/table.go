package recent

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Question is a query about the recent past.
type Question struct {
	Node, UUID string // of one node, or one device; empty: of all
	// Among are the nodes that all are, with a line break after each; empty: all.
	Among    string
	Step     time.Duration // the time between two points, in seconds that divide a minute: at least so long
	Interval time.Duration // about how long after one reading the next one is due
}

// A Table has the recent past of devices as means over steps, of steps that are over. The first one begins with a minute, or with the first
// reading. Nobody changes it.
type Table struct {
	From, End time.Time // of the first point, and of the last
	Step      time.Duration
	Points    int
	Rows      []Row // by node and index
	byKey     map[key]int
	spreads   sync.Map // by metric
	hottest   func() []*Row
	together  func() ([]Working, []int)
}

// newTable returns a table without rows. What pages ask of all rows is made once, by the first that asks.
func newTable(step time.Duration) *Table {
	t := &Table{Step: step, byKey: map[key]int{}}
	t.hottest, t.together = sync.OnceValue(t.makeHottest), sync.OnceValues(t.makeTogether)
	return t
}

// A Row is one device, or one machine without any.
type Row struct {
	Node, UUID, Name string
	Index            int
	machine          bool
	values           [][]float32 // by row
	Workers          []Working   // in the order in which they came
}

// A Working is a worker with the mean of what its processes drew, by point; NaN where that is not known.
type Working struct {
	Worker
	Watts []float32
}

// Values are those of a metric by point, NaN where there is none; nil where the metric has none at all.
func (r *Row) Values(metric string) []float32 {
	row, known := rowOf[metric]
	if r == nil || !known || row.machine != r.machine {
		return nil
	}
	return r.values[row.index]
}

// Row is that of a device; nil where there is none. An empty UUID is that of the machine.
func (t *Table) Row(node, uuid string) *Row {
	if i, ok := t.byKey[key{node, uuid}]; ok {
		return &t.Rows[i]
	}
	return nil
}

// A Spread is the least, the median and the most of all rows by point, and their sum; NaN where there is no value.
type Spread struct{ Least, Median, Most, Sum []float32 }

// Spread is that of a metric.
func (t *Table) Spread(metric string) *Spread {
	made, _ := t.spreads.LoadOrStore(metric, sync.OnceValue(func() *Spread { return t.spread(metric) }))
	return made.(func() *Spread)()
}

func (t *Table) spread(metric string) *Spread {
	all := make([]float32, 4*t.Points)
	s := &Spread{all[:t.Points], all[t.Points : 2*t.Points], all[2*t.Points : 3*t.Points], all[3*t.Points:]}
	values, series := make([]float32, 0, len(t.Rows)), make([][]float32, 0, len(t.Rows))
	for j := range t.Rows {
		if row := t.Rows[j].Values(metric); row != nil {
			series = append(series, row)
		}
	}
	for i := range t.Points {
		values = values[:0]
		sum := float32(0)
		for _, row := range series {
			if row[i] == row[i] {
				values = append(values, row[i])
				sum += row[i]
			}
		}
		if len(values) == 0 {
			s.Least[i], s.Median[i], s.Most[i], s.Sum[i] = nan, nan, nan, nan
			continue
		}
		slices.Sort(values)
		s.Least[i], s.Median[i], s.Most[i], s.Sum[i] = values[0], values[len(values)/2], values[len(values)-1], sum
	}
	return s
}

// mostHot is how many rows are the hottest.
const mostHot = 5

// Hottest are the rows that were hottest at the last point, of those that have a temperature there: the hottest first, five at most.
func (t *Table) Hottest() []*Row {
	if t.hottest == nil {
		return nil
	}
	return t.hottest()
}

func (t *Table) makeHottest() (out []*Row) {
	type hot struct {
		row     *Row
		celsius float32
	}
	var all []hot
	for i := range t.Rows {
		values := t.Rows[i].Values("temperature_celsius")
		if n := len(values); n > 0 && values[n-1] == values[n-1] {
			all = append(all, hot{&t.Rows[i], values[n-1]})
		}
	}
	slices.SortStableFunc(all, func(a, b hot) int { return cmp.Compare(b.celsius, a.celsius) })
	for _, hottest := range all[:min(len(all), mostHot)] {
		out = append(out, hottest.row)
	}
	return out
}

// Together returns the workers of all rows in the order of the rows, with those of one program and user merged, and the number of devices each is on.
// Their watts are the sum of the known ones, and overlapping visits are merged.
func (t *Table) Together() (workers []Working, devices []int) {
	if t.together == nil {
		return nil, nil
	}
	return t.together()
}

func (t *Table) makeTogether() (out []Working, devices []int) {
	type program struct{ name, user string }
	index := map[program]int{}
	for i := range t.Rows {
		for j := range t.Rows[i].Workers {
			w := &t.Rows[i].Workers[j]
			k := program{w.Name, w.User}
			place, known := index[k]
			if !known {
				place = len(out)
				index[k] = place
				out = append(out, Working{Worker: Worker{Name: w.Name, User: w.User, PID: w.PID}, Watts: make([]float32, t.Points)})
				devices = append(devices, 0)
			}
			sum := &out[place]
			for p, v := range w.Watts {
				if v == v {
					sum.Watts[p] += v
				}
			}
			sum.Visits = append(sum.Visits, w.Visits...)
			devices[place]++
		}
	}
	for i := range out {
		out[i].Visits = union(out[i].Visits)
	}
	return out, devices
}

// union makes one of visits that overlap.
func union(list []Visit) (out []Visit) {
	slices.SortFunc(list, func(a, b Visit) int { return a.From.Compare(b.From) })
	for _, v := range list {
		if n := len(out); n > 0 && (out[n-1].Open || !v.From.After(out[n-1].To)) {
			last := &out[n-1]
			last.To, last.Open = later(last.To, v.To), last.Open || v.Open
			continue
		}
		out = append(out, v)
	}
	return out
}

var nan = float32(math.NaN())

// steps are those that a table can have: each has a reading at least, and they divide what a path begins with.
var steps = []time.Duration{3 * time.Second, 6 * time.Second, 15 * time.Second, 30 * time.Second, time.Minute, 3 * time.Minute, 15 * time.Minute}

// Table answers a question. It is the same table until another step is over. Steps of what other programs read are 15 s at least.
func (s *Store) Table(q Question) *Table {
	s.mu.Lock()
	defer s.mu.Unlock()
	var asked []*shelf
	shortest := q.Step
	for _, shelf := range s.shelves() {
		if _, known := shelf.newest[q.Node]; shelf.first < shelf.end && (known || q.Node == "") {
			asked = append(asked, shelf)
			if shelf != s.near {
				shortest = max(shortest, shelf.bucket)
			}
		}
	}
	if q.Interval > bucket/2 {
		shortest = max(shortest, q.Interval+q.Interval/8)
	}
	step := steps[len(steps)-1]
	if i := slices.IndexFunc(steps, func(s time.Duration) bool { return s >= shortest }); i >= 0 {
		step = steps[i]
	}
	q.Step = step // those that asked for another have the same answer
	t := newTable(step)
	now := allRead(asked, q, max(step, 3*q.Interval))
	if now.IsZero() {
		return t
	}
	t.End = now.Add(q.Interval).Truncate(step)
	if next := now.Truncate(step).Add(step); t.End.After(next) {
		t.End = next
	}
	if last := s.tables[q]; last != nil && last.End.Equal(t.End) {
		return last
	}
	maps.DeleteFunc(s.tables, func(_ Question, old *Table) bool { return t.End.Sub(old.End) > time.Minute+old.Step }) // nobody asks that any more
	const mostTables = 100
	if len(s.tables) >= mostTables {
		clear(s.tables)
	}
	s.tables[q] = t
	t.From = t.End.Add(-Span).Truncate(max(time.Minute, step))
	var first time.Time
	for _, shelf := range asked {
		if oldest := shelf.times[shelf.first%shelf.slots].Truncate(step); first.IsZero() || oldest.Before(first) {
			first = oldest
		}
	}
	if first.After(t.From) {
		t.From = first
	}
	t.Points = max(0, int(t.End.Sub(t.From)/step))
	for _, shelf := range asked {
		shelf.fill(t, q)
	}
	slices.SortFunc(t.Rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Index, b.Index), cmp.Compare(a.UUID, b.UUID))
	})
	for i := range t.Rows {
		t.byKey[key{t.Rows[i].Node, t.Rows[i].UUID}] = i
	}
	return t
}

// about reports whether a question is about a node.
func (q *Question) about(node string) bool {
	return (q.Node == "" || q.Node == node) && (q.Among == "" || strings.Contains("\n"+q.Among, "\n"+node+"\n"))
}

// allRead is until when a node was read, or all, but for those of which nothing was heard for as long as silent.
func allRead(shelves []*shelf, q Question, silent time.Duration) (now time.Time) {
	var newest time.Time
	for _, s := range shelves {
		for node, last := range s.newest {
			if q.about(node) {
				newest = later(newest, last)
			}
		}
	}
	now = newest
	for _, s := range shelves {
		for node, last := range s.newest {
			if q.Node == "" && q.about(node) && last.Before(now) && newest.Sub(last) < silent {
				now = last
			}
		}
	}
	return now
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func (s *shelf) fill(t *Table, q Question) {
	point := make([]int, 0, s.slots) // of each moment; -1: none
	for i := s.first; i < s.end; i++ {
		offset := s.times[i%s.slots].Truncate(s.bucket).Sub(t.From)
		if offset < 0 || int(offset/t.Step) >= t.Points {
			point = append(point, -1)
			continue
		}
		point = append(point, int(offset/t.Step))
	}
	counts := make([]float64, t.Points)
	sums := make([]float64, t.Points)
	for k, d := range s.devices {
		if !q.about(k.node) || q.UUID != "" && k.uuid != q.UUID {
			continue
		}
		r := Row{Node: k.node, UUID: k.uuid, Name: d.name, Index: d.index, machine: d.machine, values: make([][]float32, len(d.rows))}
		for row := range d.rows {
			r.values[row] = d.rows[row].meansOf(s.first, point, sums, counts)
		}
		r.Workers = d.working(s.first, point, sums, counts)
		t.Rows = append(t.Rows, r)
	}
}

// meansOf are the means of one row by point; nil where there is none.
func (s *series) meansOf(first int, point []int, sums, counts []float64) []float32 {
	if s.counts == nil {
		return nil
	}
	clear(sums)
	clear(counts)
	some := false
	for i, p := range point {
		if m := s.meanAt((first + i) % len(s.counts)); p >= 0 && m.count > 0 {
			sums[p] += m.sum
			counts[p] += m.count
			some = true
		}
	}
	if !some {
		return nil
	}
	return quotients(sums, counts)
}

func quotients(sums, counts []float64) []float32 {
	out := make([]float32, len(sums))
	for i := range out {
		out[i] = nan
		if v := sums[i] / counts[i]; counts[i] > 0 && !math.IsInf(v, 0) {
			out[i] = float32(v)
		}
	}
	return out
}

func (w *work) working(first int, point []int, sums, counts []float64) (out []Working) {
	for _, worker := range w.workers {
		clear(sums)
		clear(counts)
		for i, p := range point {
			if place := (first + i) % w.slots; p >= 0 && w.known[place] > 0 {
				sums[p] += float64(worker.watts[place])
				counts[p] += float64(w.known[place])
			}
		}
		copied := worker.Worker
		copied.Visits = slices.Clone(worker.Visits)
		out = append(out, Working{copied, quotients(sums, counts)})
	}
	return out
}
