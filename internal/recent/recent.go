// Package recent keeps the last 15 minutes of each device's main readings, and of a
// machine that has none, in memory, so that a page shows them as soon as it is opened. It keeps means over
// short spans, not every reading. It has no disk and no longer past.
package recent

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/gpu/catalog"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/insight/attribute"
)

// rows are the readings that the catalog marks to be kept. A metric is the name under
// which one is kept, with its unit, such as "power_watts".
var rows = slices.DeleteFunc(slices.Collect(catalog.All()), func(r *catalog.Row) bool { return r.Kept == "" })

// Span is how far back a store reaches.
const Span = 15 * time.Minute

// MaxPoints is how many points a series has at most. Readings closer together
// than Span/MaxPoints are put into one point, their mean.
const MaxPoints = 300

const bucket = Span / MaxPoints

// held is how far back readings are held: pictures begin at a whole minute, so that they change at their end alone for as long.
const held = Span + time.Minute

// slots is how many points are held.
const slots = int(held / bucket)

// width is how many means a moment of a series has room for.
var width = max(len(rows), len(catalog.OfHost))

// A Store keeps the recent past. Its methods may be called at the same time.
//
// Moments are numbered. The times and values of moment i are in place i modulo
// slots, the same for all devices.
type Store struct {
	mu         sync.Mutex
	first, end int // the oldest moment, and the one after the newest
	times      [slots]time.Time
	devices    map[key]*device
	newest     map[string]time.Time // by node
	breaks     map[string]int       // of its readings, by node
	tables     map[Question]*Table  // the last ones
	generation uint64
}

type key struct{ node, uuid string }

type device struct {
	machine bool // one without a device; its rows are those of [catalog.OfHost]
	index   int
	name    string
	newest  int    // the newest moment that has a reading, or in which the device came
	means   []mean // by place and row
	work
}

// A mean grows with each reading.
type mean struct{ sum, count float64 }

func offset(moment int) int { return moment % slots * width }

// New returns an empty store.
func New() *Store {
	return &Store{devices: map[key]*device{}, newest: map[string]time.Time{}, breaks: map[string]int{}, tables: map[Question]*Table{}}
}

// Add takes a snapshot in. Devices that have no readings get a gap. Snapshots older
// than the newest one of their node are ignored, unless the clock was set back.
func (s *Store) Add(snap *gpu.Snapshot) { s.observe(snap, nil) }

// Observe takes in a Moment, as Add does its snapshot, and who worked on each device.
func (s *Store) Observe(m *insight.Moment) { s.observe(m.Snapshot, m.Attribution) }

func (s *Store) observe(snap *gpu.Snapshot, whose []attribute.Attribution) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.breaks[snap.Node] != snap.Breaks {
		s.breaks[snap.Node] = snap.Breaks
		s.forget(snap.Time)
	}
	before := s.newest[snap.Node]
	if !s.begin(snap.Node, snap.Time) {
		return
	}
	for i := range snap.Devices {
		d := &snap.Devices[i]
		of := s.add(&d.Identity, func(i int) gpu.Reading[float64] { return rows[i].Number(d) })
		if whose != nil {
			of.note(d, &whose[i], s.end-1, before, snap.Time)
		}
	}
	if len(snap.Devices) == 0 && snap.Host != nil {
		s.addMachine(snap.Node, func(i int) gpu.Reading[float64] { return catalog.OfHost[i].Number(snap.Host) })
	}
}

// forget leaves out what is later than now, since the clock was set back.
func (s *Store) forget(now time.Time) {
	clear(s.tables)
	for s.end > s.first && s.times[(s.end-1)%slots].After(now) {
		s.end--
	}
	for _, d := range s.devices {
		d.forget(now)
	}
	for node, newest := range s.newest {
		if newest.After(now) {
			s.newest[node] = now
		}
	}
}

// begin begins a new moment, unless the time is before the newest of the node. Nodes are read at about
// the same time, and not in the order of their times.
func (s *Store) begin(node string, now time.Time) bool {
	if now.Before(s.newest[node]) {
		return false
	}
	s.newest[node] = now
	if s.end > s.first && !now.Truncate(bucket).After(s.times[(s.end-1)%slots].Truncate(bucket)) {
		s.generation++
		return true
	}
	for s.end > s.first && (s.end-s.first == slots || now.Sub(s.times[s.first%slots]) > held) {
		s.first++
	}
	s.times[s.end%slots] = now
	for k, d := range s.devices {
		clear(d.means[offset(s.end):][:width])
		d.begin(s.end, s.times[s.first%slots])
		if d.newest < s.first {
			delete(s.devices, k)
		}
	}
	s.end++
	s.generation++
	return true
}

func (s *Store) add(id *gpu.Identity, reading func(row int) gpu.Reading[float64]) *device {
	d := s.series(key{id.Node, id.UUID})
	d.index, d.name = id.Index, id.Name
	s.put(d, len(rows), reading)
	return d
}

func (s *Store) addMachine(node string, reading func(row int) gpu.Reading[float64]) {
	d := s.series(key{node, ""})
	d.machine = true
	s.put(d, len(catalog.OfHost), reading)
}

func (s *Store) series(k key) *device {
	d := s.devices[k]
	if d == nil {
		d = &device{newest: s.end - 1, means: make([]mean, slots*width)}
		s.devices[k] = d
	}
	return d
}

func (s *Store) put(d *device, rows int, reading func(row int) gpu.Reading[float64]) {
	place := offset(s.end - 1)
	for i := range rows {
		if v, ok := reading(i).Get(); ok {
			d.means[place+i].sum += v
			d.means[place+i].count++
			d.newest = s.end - 1
		}
	}
}

// Generation changes with each snapshot that is added. A view that is taken after
// Generation was read is at least as new.
func (s *Store) Generation() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.generation
}

// begins is the oldest moment within the span: older ones are for pictures alone.
func (s *Store) begins() int {
	i := max(s.first, s.end-MaxPoints)
	for i < s.end && s.times[(s.end-1)%slots].Sub(s.times[i%slots]) > Span {
		i++
	}
	return i
}

// Has reports whether there is a reading of the metric with that name, of a device
// that keep allows, or of a machine without a device; nil allows all. It is false if no metric
// has that name.
func (s *Store) Has(metric string, keep func(node, uuid string) bool) bool {
	row, machine := slices.IndexFunc(rows, func(r *catalog.Row) bool { return r.Kept == metric }), false
	if row < 0 {
		row, machine = slices.IndexFunc(catalog.OfHost, func(r catalog.HostRow) bool { return r.Kept == metric }), true
	}
	if row < 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, d := range s.devices {
		if d.machine != machine || keep != nil && !keep(k.node, k.uuid) {
			continue
		}
		for i := s.begins(); i < s.end; i++ {
			if d.means[offset(i)+row].count > 0 {
				return true
			}
		}
	}
	return false
}

// A View is a copy of the past: for each device one value per metric and time. It is
// also what is kept over a restart.
type View struct {
	Times  []time.Time `json:"times"` // oldest first
	Series []Series    `json:"devices"`
	// Machines are those without a device: they have a node and values alone.
	Machines []Series `json:"machines,omitempty"`
}

// A Series is one device's part of a view.
type Series struct {
	Node  string `json:"node"`
	UUID  string `json:"uuid"`
	Name  string `json:"name"`
	Index int    `json:"index"`
	// Values by metric and time, absent where there was no reading.
	Values map[string][]gpu.Reading[float64] `json:"values"`
	// Work is who was on the device; only of what is kept.
	Work []KeptWork `json:"work,omitempty"`
}

// View copies the past of the devices that keep allows, by node and index; nil allows all, and
// machines without a device.
func (s *Store) View(keep func(node, uuid string, index int) bool) View { return s.view(keep, false) }

func (s *Store) view(keep func(node, uuid string, index int) bool, work bool) View {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := View{Times: []time.Time{}}
	first := s.begins()
	for i := first; i < s.end; i++ {
		v.Times = append(v.Times, s.times[i%slots])
	}
	for k, d := range s.devices {
		if d.newest < first || keep != nil && (d.machine || !keep(k.node, k.uuid, d.index)) {
			continue
		}
		series := Series{Node: k.node, UUID: k.uuid, Name: d.name, Index: d.index, Values: make(map[string][]gpu.Reading[float64], width)}
		if work {
			series.Work = d.kept(first, s.end)
		}
		for row, kept := range d.metrics() {
			values := make([]gpu.Reading[float64], len(v.Times))
			for i := range values {
				if m := d.means[offset(first+i)+row]; m.count > 0 {
					values[i] = gpu.Of(m.sum / m.count)
				}
			}
			series.Values[kept] = values
		}
		if d.machine {
			v.Machines = append(v.Machines, series)
		} else {
			v.Series = append(v.Series, series)
		}
	}
	slices.SortFunc(v.Machines, func(a, b Series) int { return cmp.Compare(a.Node, b.Node) })
	slices.SortFunc(v.Series, func(a, b Series) int { return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Index, b.Index)) })
	return v
}

// metrics are the names of a series' rows.
func (d *device) metrics() (out []string) {
	if d.machine {
		for i := range catalog.OfHost {
			out = append(out, catalog.OfHost[i].Kept)
		}
		return out
	}
	for _, r := range rows {
		out = append(out, r.Kept)
	}
	return out
}

// Kept returns the whole store.
func (s *Store) Kept() View { return s.view(nil, true) }

// Restore fills an empty store, as far as what was kept is not older than Span.
func (s *Store) Restore(kept View, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, at := range kept.Times {
		if age := now.Sub(at); age > Span || age < 0 || !s.begin("", at) {
			continue
		}
		for _, d := range kept.Series {
			id := gpu.Identity{Node: d.Node, UUID: d.UUID, Name: d.Name, Index: d.Index}
			of := s.add(&id, func(row int) gpu.Reading[float64] { return valueAt(d.Values[rows[row].Kept], i) })
			of.restore(d.Work, i, s.end-1)
		}
		for _, m := range kept.Machines {
			s.addMachine(m.Node, func(row int) gpu.Reading[float64] { return valueAt(m.Values[catalog.OfHost[row].Kept], i) })
		}
	}
	return nil
}

func valueAt(list []gpu.Reading[float64], i int) (v gpu.Reading[float64]) {
	if i < len(list) {
		v = list[i]
	}
	return v
}
