package attribute

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/state"
)

const (
	idleBelow = 3 // percent of utilization: a desktop draws its windows now and then
	// A draw is steady that stays that long, for that many readings, within
	// a band around its mean: a part of it, or some watts where that is more.
	steadyFor      = 10 * time.Second
	steadyReadings = 3
	steadyPart     = 0.05
	steadyWatts    = 2
	longest        = time.Minute // that a run of readings is looked at as one: a slow fall is followed
	leastWatts     = 0.5         // less is a sensor that says nothing
	mostWatts      = 10_000      // more than any device draws at rest
)

// A Floor learns the idle draw of one device: the lowest that it was seen to
// draw steadily while no work ran. Its zero has learned nothing.
type Floor struct {
	Watts  gpu.Reading[gpu.Watts] // absent until it is known
	last   time.Time              // reading
	breaks int                    // of the readings until then
	seen   time.Time              // the last reading, of an earlier run where there is none of this one
	told   float64                // as it was when [Floors.Learned] was called last; 0: never
	begun  time.Time              // of the run of idle readings
	n      int
	sum    float64
}

// Observe takes a reading in. The same one once more, or an older one, changes nothing.
func (f *Floor) Observe(d *gpu.Device) {
	if !d.SampledAt.After(f.last) {
		return
	}
	f.last, f.seen = d.SampledAt, d.SampledAt
	draw, ok := d.Power.Draw.Trusted()
	w := float64(draw)
	if !ok || !(w >= leastWatts) || math.IsInf(w, 0) || !idle(d) {
		f.n = 0
		return
	}
	mean := f.sum / float64(f.n)
	if f.n == 0 || math.Abs(w-mean) > max(steadyWatts, steadyPart*mean) || f.last.Sub(f.begun) > longest {
		f.n, f.begun, f.sum = 0, f.last, 0
	}
	f.n++
	f.sum += w
	mean = f.sum / float64(f.n)
	if f.n >= steadyReadings && f.last.Sub(f.begun) >= steadyFor && mean < float64(f.Watts.Or(math.MaxFloat64)) {
		f.Watts = gpu.Of(gpu.Watts(mean))
	}
}

// idle reports whether no work runs, as far as is known, and no program keeps the device from rest.
func idle(d *gpu.Device) bool {
	list, listed := d.Processes.Get()
	u, known := d.Utilization.GPU.Get()
	if !known && (!listed || len(list) > 0) || u >= idleBelow || video(&d.Utilization) {
		return false
	}
	return !slices.ContainsFunc(list, func(p gpu.Process) bool {
		holds := p.Type != gpu.TypeGraphics && !slow(d)
		return holds || p.SM.Or(0) >= idleBelow || p.Encoder.Or(0) > 0 || p.Decoder.Or(0) > 0 || p.Video.Or(0) > 0
	})
}

// video reports whether a video engine works.
func video(u *gpu.Utilization) bool {
	return u.Encoder.Or(0) > 0 || u.Decoder.Or(0) > 0 || u.Video.Or(0) > 0
}

// slow reports whether a device says that it has let its clocks go. Where a
// program holds a context and they stay up, what it draws is no rest.
func slow(d *gpu.Device) bool {
	if d.Vendor == gpu.AMD || d.Vendor == gpu.Intel { // which have no states, and don't say that they are idle
		clock, ok := d.Clocks.Graphics.Trusted()
		top, ok2 := d.Clocks.MaxGraphics.Trusted()
		return ok && ok2 && 5*clock < 3*top // some of AMD rest at half of their highest clock
	}
	return d.Clocks.EventReasons.Or(0)&gpu.ReasonIdle != 0 || d.Clocks.PerformanceState.Or(0) >= gpu.RestsFrom
}

// Floors learns the floors of all devices. Its zero is ready, and its methods
// may be called by several goroutines.
type Floors struct {
	// Learned is called when a floor that was not known is, and when one has become lower by as much as a steady draw may vary. It
	// must not wait, nor call the Floors; it may be nil.
	Learned func()

	mu      sync.Mutex
	devices map[state.Device]Floor
}

// Note learns from a snapshot, and returns a copy of it in which devices have
// their floors, as far as they are known. The snapshot itself is not changed.
func (f *Floors) Note(s *gpu.Snapshot) *gpu.Snapshot {
	out := *s
	out.Devices = slices.Clone(s.Devices)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.devices == nil {
		f.devices = map[state.Device]Floor{}
	}
	for i := range out.Devices {
		d := &out.Devices[i]
		k := state.DeviceOf(d)
		floor := f.devices[k]
		if d.State == gpu.StateOK {
			if floor.breaks != s.Breaks {
				floor.last, floor.n, floor.breaks = time.Time{}, 0, s.Breaks
			}
			floor.Observe(d)
			f.tell(&floor)
			f.devices[k] = floor
		}
		d.IdleFloor = floor.Watts
	}
	return &out
}

// tell tells of a floor that is new, or much lower than it was.
func (f *Floors) tell(floor *Floor) {
	watts, known := floor.Watts.Get()
	if is := float64(watts); known && (floor.told == 0 || is < floor.told-max(steadyWatts, steadyPart*floor.told)) {
		floor.told = is
		if f.Learned != nil {
			f.Learned()
		}
	}
}

// Kept is what is kept over a restart: the floors, and not what is under way.
type Kept struct {
	Floors []keptFloor `json:"floors"`
}

type keptFloor struct {
	state.Learned
	Watts gpu.Watts `json:"watts"`
}

// Kept returns the floors.
func (f *Floors) Kept() Kept {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out Kept
	for k, floor := range f.devices {
		if watts, known := floor.Watts.Get(); known {
			out.Floors = append(out.Floors, keptFloor{state.Learned{Device: k, Seen: floor.seen}, watts})
		}
	}
	out.Floors = state.Newest(out.Floors)
	return out
}

// Restore takes the floors of devices that have none yet.
func (f *Floors) Restore(kept Kept, now time.Time) error {
	fresh, err := state.Fresh(kept.Floors, now, func(k *keptFloor) bool { return k.Watts >= leastWatts && k.Watts <= mostWatts })
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.devices == nil {
		f.devices = map[state.Device]Floor{}
	}
	for _, k := range fresh {
		if floor := f.devices[k.Device]; !floor.Watts.Present() {
			floor.Watts, floor.seen, floor.told = gpu.Of(k.Watts), k.Seen, float64(k.Watts) // not last: a clock that was set back is no reason to wait
			f.devices[k.Device] = floor
		}
	}
	return err
}
