// Package record turns Moments into the past that a store keeps. A [Recorder] receives each Moment and turns it into the
// rows of a [store.Store]: readings, spans of readings, snapshots, process sessions, causes as intervals, and events. It
// writes them from its own goroutine. Callers never wait for the store: the queue is bounded, and dropped rows are counted.
//
// Durations come from consecutive readings. If readings are not consecutive (gpuwhy did not run, the machine slept,
// its clock was set), there is a gap, and time in a gap counts for nobody.
//
// # Rows
//
// A row has a device's readings at one time, as whole numbers of each column's resolution. Rows of a minute and of a quarter of an hour
// have the least, the mean, the greatest and the count. They are made in memory. If a span began before the program started, or gets
// readings again after the clock was set back, the store lists it as unsettled. Its row is made from the stored readings once the span
// is over, with the same result. A row of six hours is always made from the stored rows of its quarters of an hour, so readings need not be
// kept that long.
//
// # Sessions
//
// A session is one process (boot, pid and start) on one device. The time between two readings counts once, for the processes in both,
// with the values of the later one. After a restart a session goes on where it ended, so its Seen is less than the time from its first
// to its last reading. recognize.go decides whether a process belongs to a session, even if its start is unknown. Nobody knows what a
// lost device did: its sessions end as gpu_lost, unless their processes are seen again. If the clock is set, sessions move with it.
//
// # Causes
//
// A cause is an interval. It goes on if it is missing for two readings at most. It is written when it begins, changes or ends, and each
// minute. After a kill, a cause is taken to end at the last stored reading.
//
// # Writing
//
// One goroutine writes, four seconds after something has come. If the store fails, the goroutine pauses for 1, 2, 4 and at most 60
// seconds. If the store hangs, no second call is made. Waiting data is bounded in readings and bytes: beyond that, the oldest readings
// and snapshots are dropped first and sessions last, and [Recorder.State] counts the losses.
package record

import (
	"log/slog"
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// Config is what a Recorder needs. The last two have defaults.
type Config struct {
	Store store.Store
	Nodes []string // whose Moments come from the start on
	// Later says of which other nodes Moments may come; nil: of none.
	Later     func(node string) bool
	Interval  time.Duration   // between two Moments of a node
	Retention store.Retention // see [ParseRetention]
	Version   string          // of gpuwhy
	Log       *slog.Logger

	MaxReadings int // that wait for the store; 0: 100,000
	MaxBytes    int // of all that waits, about; 0: 32 MiB
}

const (
	// framesEvery is how often a whole snapshot of a node is kept, at most; a reading may be a little early.
	framesEvery = 5 * time.Second
	early       = 250 * time.Millisecond
	// forgetAfter is how long a device that left its machine is remembered.
	forgetAfter = 24 * time.Hour
)

// A Recorder makes a past of Moments. Its methods may be called at the same time; the Moments of a node come in order.
type Recorder struct {
	cfg  Config
	log  *slog.Logger
	soon chan struct{} // there is something to write

	mu      sync.Mutex
	nodes   map[string]*node
	out     buffer
	earlier *earlier // nil until the store has said what it has
	state   State
	told    bool      // that something is dropped, since the writing began to fail
	writing time.Time // when the write began that is under way; zero: none is
	set     time.Time // when a clock was set last, by this program's clock; zero: never
}

// New makes a Recorder that writes nothing before [Recorder.Run].
func New(cfg Config) *Recorder {
	if cfg.MaxReadings == 0 {
		cfg.MaxReadings = 100_000
	}
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = 32 << 20
	}
	return &Recorder{
		cfg: cfg, log: cfg.Log.With("part", "history"), soon: make(chan struct{}, 1),
		nodes: map[string]*node{}, out: newBuffer(cfg.MaxReadings, cfg.MaxBytes),
	}
}

// A node is the recorder's memory of one machine.
type node struct {
	name    string
	moments int       // so far
	time    time.Time // of the newest
	breaks  int
	set     time.Duration // of the clock, in all
	boot    string
	booted  time.Time // when the machine was started; zero: not known
	framed  time.Time // when a snapshot was kept last

	devices map[string]*device // by UUID; "" is the machine
	causes  map[causeID]*interval
	later   map[store.Bucket]bool // spans that have readings and end after now, since the clock was set back
}

// A device is the recorder's memory of one device, or of a machine.
type device struct {
	store.Device
	columns  store.Columns
	moment   int       // the number of the node's newest Moment that has it
	seen     time.Time // the time of that
	newest   time.Time // the latest time of a reading so far, also of earlier runs
	sampled  time.Time // when the values of its newest reading were read
	read     time.Time // the time of its newest reading without a gap after it; zero: there is none
	spans    [len(tiers)]*span
	sessions sessions
	changes  changes
}

// Observe takes a Moment in. It does not wait for the store.
func (r *Recorder) Observe(m *insight.Moment) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := m.Snapshot
	n := r.node(s.Node)
	readAt := milliseconds(s.Time)
	gap := r.follow(n, s, readAt)
	n.moments++
	r.keepFrame(n, s, readAt)
	if s.Host != nil {
		n.noteHost(s.Host, readAt)
		r.observeMachine(n, s, readAt)
	}
	for i := range s.Devices {
		r.observeDevice(n, m, i, readAt)
	}
	r.leave(n, readAt)
	r.observeCauses(n, m, readAt, gap)
	r.endSpans(n, readAt)
	n.time = readAt
	r.limit()
}

// AddEvent keeps an event that happened elsewhere, such as an alert.
func (r *Recorder) AddEvent(e store.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.out.event(e)
	r.limit()
}

// Rewrite says that the store has lost what it had, such as a database that was damaged and begins anew: what goes on is written
// at once, from its beginning.
func (r *Recorder) Rewrite() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.nodes {
		for _, d := range n.devices {
			if d.Name != "" { // else it is not known who it is
				r.out.device(d.Device)
			}
			for _, s := range d.sessions.live {
				if !s.held() {
					r.out.session(s.estimated(&d.sessions.rest))
				}
			}
			for i, s := range d.spans {
				if s != nil {
					r.out.unsettle(store.Bucket{Key: d.Key(), Tier: tiers[i], Time: s.begin})
				}
			}
		}
		for _, c := range n.causes {
			r.out.cause(c.Cause)
		}
	}
	r.limit()
}

// limit drops data over the limits, and wakes the writer.
func (r *Recorder) limit() {
	if r.out.limit() && !r.told {
		r.told = true
		r.log.Warn("history can't be written fast enough, and some of it is lost", "lost", r.out.dropped.String())
	}
	select {
	case r.soon <- struct{}{}:
	default: // already known
	}
}

func (r *Recorder) node(name string) *node {
	n := r.nodes[name]
	if n == nil {
		n = &node{name: name, devices: map[string]*device{}, causes: map[causeID]*interval{}, later: map[store.Bucket]bool{}}
		r.nodes[name] = n
	}
	return n
}

// device returns the memory of a device, or a new one.
func (r *Recorder) device(n *node, uuid string) *device {
	d := n.devices[uuid]
	if d == nil {
		d = &device{Device: store.Device{Node: n.name, UUID: uuid}, columns: store.DeviceColumns}
		if uuid == "" {
			d.columns = store.MachineColumns
		}
		if r.earlier != nil {
			d.newest = r.earlier.newest[d.Key()]
		}
		n.devices[uuid] = d
	}
	return d
}

// follow takes the node's clock in, and reports whether there is a gap before the Moment.
func (r *Recorder) follow(n *node, s *gpu.Snapshot, readAt time.Time) (gap bool) {
	set := s.ClockSet - n.set
	gap = n.moments == 0 || s.Breaks != n.breaks || readAt.Sub(n.time) > r.longest() || readAt.Before(n.time)
	if n.moments > 0 && set != 0 {
		r.set = time.Now()
		r.out.event(clockSet(n.name, readAt, set))
		for _, d := range n.devices {
			d.sessions.move(set)
		}
	}
	for _, d := range n.devices {
		if gap || d.moment != n.moments { // it was not there
			d.read = time.Time{}
		}
	}
	n.breaks, n.set = s.Breaks, s.ClockSet
	return gap
}

// longest is the longest time between two readings that follow one another.
func (r *Recorder) longest() time.Duration { return r.cfg.Interval * 5 / 2 }

// noteHost notes in which run of the machine its processes are.
func (n *node) noteHost(h *gpu.Host, readAt time.Time) {
	n.boot, n.booted = h.Boot, time.Time{}
	if up, ok := h.Uptime.Trusted(); ok {
		n.booted = readAt.Add(-up)
	}
}

func (r *Recorder) keepFrame(n *node, s *gpu.Snapshot, readAt time.Time) {
	if since := readAt.Sub(n.framed); since >= 0 && since < framesEvery-early {
		return
	}
	record, err := gpu.MarshalRecord(s)
	if err != nil {
		r.log.Error("a snapshot is not kept", "err", err)
		return
	}
	n.framed = readAt
	r.out.frame(store.Frame{Node: n.name, Time: readAt, Snapshot: record})
}

func (r *Recorder) observeMachine(n *node, s *gpu.Snapshot, readAt time.Time) {
	d := r.device(n, "")
	r.identify(d, store.Device{Node: n.name, Name: s.Host.Hostname, Kind: s.Kind()})
	d.moment, d.seen = n.moments, readAt
	r.observeRow(n, d, readAt, "", machineReadings(s.Host))
}

func (r *Recorder) observeDevice(n *node, m *insight.Moment, i int, readAt time.Time) {
	seen := &m.Snapshot.Devices[i]
	d := r.device(n, seen.UUID)
	r.identify(d, store.Device{
		Node: n.name, UUID: seen.UUID, Name: seen.Name, Vendor: string(seen.Vendor), Index: seen.Index, Kind: gpu.KindOf(seen.Source),
	})
	d.moment, d.seen = n.moments, readAt
	fresh := seen.SampledAt.IsZero() || !seen.SampledAt.Equal(d.sampled) // a slow device has its last readings once more
	d.sampled = seen.SampledAt
	if fresh {
		r.observeRow(n, d, readAt, seen.State, deviceReadings(seen, r.stands(d, readAt)))
	}
	r.observeSessions(n, d, m, i, readAt, fresh)
	r.observeAccounted(n, d, seen.Accounted)
	r.observeChanges(d, seen, readAt)
}

// identify notes who a device is, where that is new.
func (r *Recorder) identify(d *device, is store.Device) {
	if d.Device != is || d.moment == 0 {
		d.Device = is
		r.out.device(is)
	}
}

// leave takes note of devices that are not in the node's newest Moment.
func (r *Recorder) leave(n *node, readAt time.Time) {
	for uuid, d := range n.devices {
		if d.moment == n.moments || uuid == "" {
			continue
		}
		r.lose(d)
		r.leaveThrottles(d, readAt)
		if d.seen.IsZero() {
			d.seen = readAt
		}
		if readAt.Sub(d.seen) > forgetAfter && d.spans == [len(tiers)]*span{} {
			delete(n.devices, uuid)
		}
	}
}

// milliseconds is a time as it is kept.
func milliseconds(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }
