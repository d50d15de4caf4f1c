// Package recent keeps the last 15 minutes of the main readings in memory, so pages show them at once. It has
// the readings of each device, and of a machine that has none. It keeps means over short spans, not every
// reading; for nodes read by other programs the spans are longer, because there may be thousands of nodes.
// Nothing is written to disk.
//
// A hub that begins to show a node, or shows it again after a silence, asks it for these minutes and adds
// them where it knows nothing itself ([Store.Past], [Store.Fill]).
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

// coarse is the bucket of nodes that other programs read: as long as the steps of all pictures but the first.
const coarse = 15 * time.Second

// held is how far back readings are held: pictures begin at a whole minute, so that they change at their end alone for as long.
const held = Span + time.Minute

// A Store keeps the recent past. Its methods may be called at the same time.
type Store struct {
	mu         sync.Mutex
	near, far  *shelf              // of nodes that this program reads, and of those that others read
	tables     map[Question]*Table // the last ones
	generation uint64
}

// A shelf has the past of nodes, as means over buckets of the same length.
//
// Moments are numbered. The times and values of moment i are in place i modulo
// the number of slots, the same for all devices.
type shelf struct {
	bucket     time.Duration
	slots      int // how many moments are held
	first, end int // the oldest moment, and the one after the newest; older ones may be added, so both begin above 0
	times      []time.Time
	devices    map[key]*device
	newest     map[string]time.Time // by node
	breaks     map[string]int       // of its readings, by node
}

type key struct{ node, uuid string }

type device struct {
	machine bool // one without a device; its rows are those of [catalog.OfHost]
	index   int
	name    string
	newest  int      // the newest moment that has a reading, or in which the device came
	rows    []series // by row
	open    []mean   // by row, of the newest moment
	work
}

// A series has the means of one row by place, once there is one. A mean has the precision of a float32: one part in 16 million.
type series struct {
	means  []float32
	counts []uint8 // of readings, 255 stands for more; 0: there is no mean
}

// A mean grows with each reading.
type mean struct{ sum, count float64 }

// New returns an empty store.
func New() *Store {
	return &Store{near: newShelf(bucket), far: newShelf(coarse), tables: map[Question]*Table{}}
}

func newShelf(bucket time.Duration) *shelf {
	slots := int(held / bucket)
	return &shelf{
		bucket: bucket, slots: slots, first: slots, end: slots, times: make([]time.Time, slots), devices: map[key]*device{}, newest: map[string]time.Time{}, breaks: map[string]int{},
	}
}

func (s *Store) shelves() [2]*shelf { return [2]*shelf{s.near, s.far} }

// Add takes a snapshot in. Devices that have no readings get a gap. Snapshots older
// than the newest one of their node are ignored, unless the clock was set back.
func (s *Store) Add(snap *gpu.Snapshot) { s.observe(s.near, snap, nil) }

// Observe takes in a Moment, as Add does its snapshot, and who worked on each device.
func (s *Store) Observe(m *insight.Moment) {
	shelf := s.near
	if m.Link.Remote {
		shelf = s.far
	}
	s.observe(shelf, m.Snapshot, m.Attribution)
}

func (s *Store) observe(shelf *shelf, snap *gpu.Snapshot, whose []attribute.Attribution) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if shelf.breaks[snap.Node] != snap.Breaks {
		shelf.breaks[snap.Node] = snap.Breaks
		clear(s.tables)
		shelf.forget(snap.Time)
	}
	if shelf.observe(snap, whose) {
		s.generation++
	}
}

func (s *shelf) observe(snap *gpu.Snapshot, whose []attribute.Attribution) bool {
	before := s.newest[snap.Node]
	if !s.begin(snap.Node, snap.Time) {
		return false
	}
	for i := range snap.Devices {
		d := &snap.Devices[i]
		device := s.add(&d.Identity, func(i int) gpu.Reading[float64] { return rows[i].Number(d) })
		if whose != nil {
			device.note(d, &whose[i], (s.end-1)%s.slots, before, snap.Time)
		}
	}
	if len(snap.Devices) == 0 && snap.Host != nil {
		s.addMachine(snap.Node, func(i int) gpu.Reading[float64] { return catalog.OfHost[i].Number(snap.Host) })
	}
	return true
}

// Forget forgets a node that is no part of the fleet any more.
func (s *Store) Forget(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, shelf := range s.shelves() {
		for k := range shelf.devices {
			if k.node == node {
				delete(shelf.devices, k)
			}
		}
		delete(shelf.newest, node)
		delete(shelf.breaks, node)
	}
	clear(s.tables)
	s.generation++
}

// forget drops everything later than now, because the clock was set back.
func (s *shelf) forget(now time.Time) {
	for s.end > s.first && s.times[(s.end-1)%s.slots].After(now) {
		s.end--
	}
	for _, d := range s.devices {
		clear(d.open) // what is the newest moment now is taken up again
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
func (s *shelf) begin(node string, now time.Time) bool {
	if now.Before(s.newest[node]) {
		return false
	}
	s.newest[node] = now
	if s.end > s.first && !now.Truncate(s.bucket).After(s.times[(s.end-1)%s.slots].Truncate(s.bucket)) {
		return true
	}
	for s.end > s.first && (s.end-s.first == s.slots || now.Sub(s.times[s.first%s.slots]) > held) {
		s.first++
	}
	place := s.end % s.slots
	s.times[place] = now
	for k, d := range s.devices {
		clear(d.open)
		d.blank(place, s.times[s.first%s.slots])
		if d.newest < s.first {
			delete(s.devices, k)
		}
	}
	s.end++
	return true
}

// blank empties a place for another moment.
func (d *device) blank(place int, oldest time.Time) {
	for i := range d.rows {
		if d.rows[i].counts != nil {
			d.rows[i].counts[place] = 0
		}
	}
	d.begin(place, oldest)
}

func (s *shelf) add(id *gpu.Identity, reading func(row int) gpu.Reading[float64]) *device {
	d := s.series(key{id.Node, id.UUID}, len(rows))
	d.index, d.name = id.Index, id.Name
	s.put(d, reading)
	return d
}

func (s *shelf) addMachine(node string, reading func(row int) gpu.Reading[float64]) {
	d := s.series(key{node, ""}, len(catalog.OfHost))
	d.machine = true
	s.put(d, reading)
}

func (s *shelf) series(k key, rows int) *device {
	d := s.devices[k]
	if d == nil || len(d.rows) != rows {
		d = &device{newest: s.end - 1, rows: make([]series, rows), open: make([]mean, rows), work: work{slots: s.slots}}
		s.devices[k] = d
	}
	return d
}

func (s *shelf) put(d *device, reading func(row int) gpu.Reading[float64]) {
	place := (s.end - 1) % s.slots
	for i := range d.rows {
		v, ok := reading(i).Get()
		if !ok {
			continue
		}
		series, now := &d.rows[i], &d.open[i]
		if series.means == nil {
			series.means, series.counts = make([]float32, s.slots), make([]uint8, s.slots)
		}
		if series.counts[place] > 0 && now.count == 0 { // the clock was set back to it
			*now = series.meanAt(place)
		}
		now.sum += v
		now.count++
		series.means[place], series.counts[place] = float32(now.sum/now.count), uint8(min(now.count, 255))
		d.newest = s.end - 1
	}
}

// meanAt is the mean in a place; its count is 0 where there is none.
func (s *series) meanAt(place int) mean {
	if s.counts == nil {
		return mean{}
	}
	n := float64(s.counts[place])
	return mean{float64(s.means[place]) * n, n}
}

// Generation changes with each snapshot that is added. A view that is taken after
// Generation was read is at least as new.
func (s *Store) Generation() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.generation
}

// begins is the oldest moment within the span: older ones are for pictures alone.
func (s *shelf) begins() int {
	i := max(s.first, s.end-int(Span/s.bucket))
	for i < s.end && s.times[(s.end-1)%s.slots].Sub(s.times[i%s.slots]) > Span {
		i++
	}
	return i
}

// Reports says whether there is a reading of the metric with that name, of a device
// that keep allows, or of a machine without a device; nil allows all. It is false if no metric
// has that name.
func (s *Store) Reports(metric string, keep func(node, uuid string) bool) bool {
	row, known := rowOf[metric]
	if !known {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, shelf := range s.shelves() {
		for k, d := range shelf.devices {
			if d.machine != row.machine || keep != nil && !keep(k.node, k.uuid) {
				continue
			}
			for i := shelf.begins(); i < shelf.end; i++ {
				if d.rows[row.index].meanAt(i%shelf.slots).count > 0 {
					return true
				}
			}
		}
	}
	return false
}

// A place is that of a metric in the rows of devices, or of machines without any.
type place struct {
	machine bool
	index   int
}

var rowOf = func() map[string]place {
	out := map[string]place{}
	for i, r := range rows {
		out[r.Kept] = place{false, i}
	}
	for i := range catalog.OfHost {
		out[catalog.OfHost[i].Kept] = place{true, i}
	}
	return out
}()

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
func (s *Store) View(keep func(node, uuid string, index int) bool) View {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.shelves()
	return view(all[:], keep, false)
}

// view puts shelves together: what they have of one bucket of the first is of one time.
func view(shelves []*shelf, keep func(node, uuid string, index int) bool, work bool) View {
	v := View{Times: []time.Time{}}
	for _, s := range shelves {
		for i := s.begins(); i < s.end; i++ {
			v.Times = append(v.Times, s.times[i%s.slots])
		}
	}
	slices.SortStableFunc(v.Times, compareTimes)
	v.Times = slices.CompactFunc(v.Times, func(a, b time.Time) bool { return compareTimes(a, b) == 0 })
	for _, s := range shelves {
		v.add(s, keep, work)
	}
	slices.SortFunc(v.Machines, func(a, b Series) int { return cmp.Compare(a.Node, b.Node) })
	slices.SortFunc(v.Series, func(a, b Series) int { return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Index, b.Index)) })
	return v
}

func compareTimes(a, b time.Time) int { return a.Truncate(bucket).Compare(b.Truncate(bucket)) }

func (v *View) add(s *shelf, keep func(node, uuid string, index int) bool, work bool) {
	first := s.begins()
	indexes := make([]int, s.end-first) // of each moment in the view
	for i := range indexes {
		indexes[i], _ = slices.BinarySearchFunc(v.Times, s.times[(first+i)%s.slots], compareTimes)
	}
	for k, d := range s.devices {
		if d.newest < first || keep != nil && (d.machine || !keep(k.node, k.uuid, d.index)) {
			continue
		}
		series := Series{Node: k.node, UUID: k.uuid, Name: d.name, Index: d.index, Values: make(map[string][]gpu.Reading[float64], len(d.rows))}
		if work {
			series.Work = d.kept(first, s.end)
		}
		for row, kept := range d.metrics() {
			values := make([]gpu.Reading[float64], len(v.Times))
			for i := range indexes {
				if m := d.rows[row].meanAt((first + i) % s.slots); m.count > 0 {
					values[indexes[i]] = gpu.Of(m.sum / m.count)
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

// Kept returns what the store has of nodes that this program reads: those that read the others keep that of them.
func (s *Store) Kept() View {
	s.mu.Lock()
	defer s.mu.Unlock()
	return view([]*shelf{s.near}, nil, true)
}

// Restore fills an empty store with the kept moments that are not older than Span.
func (s *Store) Restore(kept View, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.generation++
	s.near.restore(kept, now)
	return nil
}

func (s *shelf) restore(kept View, now time.Time) {
	for i, t := range kept.Times {
		if age := now.Sub(t); age > Span || age < 0 || !s.begin("", t) {
			continue
		}
		for _, d := range kept.Series {
			id := gpu.Identity{Node: d.Node, UUID: d.UUID, Name: d.Name, Index: d.Index}
			device := s.add(&id, func(row int) gpu.Reading[float64] { return valueAt(d.Values[rows[row].Kept], i) })
			device.restore(d.Work, i, (s.end-1)%s.slots)
		}
		for _, m := range kept.Machines {
			s.addMachine(m.Node, func(row int) gpu.Reading[float64] { return valueAt(m.Values[catalog.OfHost[row].Kept], i) })
		}
	}
}

func valueAt(list []gpu.Reading[float64], i int) (v gpu.Reading[float64]) {
	if i < len(list) {
		v = list[i]
	}
	return v
}
