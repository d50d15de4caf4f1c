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
	idleBelow = 3 // percent of utilization: a desktop redraws windows now and then
	// A power draw is steady if it stays, for this time and this many readings, within a band around its mean: a part of the mean, or some
	// watts if that is more.
	steadyFor      = 10 * time.Second
	steadyReadings = 3
	steadyPart     = 0.05
	steadyWatts    = 2
	longest        = time.Minute // longest run of readings examined as one, so that a slow fall is followed
	leastWatts     = 0.5         // a sensor that reports less says nothing
	mostWatts      = 10_000      // more than any device draws at rest
)

// A Floor learns the idle draw of one device: the lowest steady power draw seen while no work ran. The zero Floor has learned nothing.
type Floor struct {
	Watts  gpu.Reading[gpu.Watts] // absent until it is known
	last   time.Time              // the newest reading
	breaks int                    // of the readings until then
	seen   time.Time              // time of the last reading, maybe in an earlier run
	told   float64                // the floor at the last call of [Floors.Learned]; 0: never
	begun  time.Time              // of the current run of idle readings
	n      int
	sum    float64
}

// Observe takes in a reading. Repeated or older readings change nothing.
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

// idle reports whether, as far as known, no work runs and no program keeps the device from rest.
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

// video reports whether a video engine is working.
func video(u *gpu.Utilization) bool {
	return u.Encoder.Or(0) > 0 || u.Decoder.Or(0) > 0 || u.Video.Or(0) > 0
}

// slow reports whether a device says that it has lowered its clocks. If a program's context keeps them up, the power draw is not that of
// rest.
func slow(d *gpu.Device) bool {
	if d.Vendor == gpu.AMD || d.Vendor == gpu.Intel { // they have no performance states, and don't report that they are idle
		clock, ok := d.Clocks.Graphics.Trusted()
		top, ok2 := d.Clocks.MaxGraphics.Trusted()
		return ok && ok2 && 5*clock < 3*top // some AMD devices rest at half of their highest clock
	}
	return d.Clocks.EventReasons.Or(0)&gpu.ReasonIdle != 0 || d.Clocks.PerformanceState.Or(0) >= gpu.RestsFrom
}

// Floors learns the floors of all devices. The zero value is ready to use, and several goroutines may call its methods.
type Floors struct {
	// Learned is called when a floor becomes known, and when one has fallen by as much as a steady draw may vary. It must not block, nor
	// call the Floors; it may be nil.
	Learned func()

	mu      sync.Mutex
	devices map[state.Device]Floor
}

// Note learns from a snapshot, and returns a copy of it whose devices have their floors, as far as known. It does not change the snapshot
// itself.
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

// tell reports a floor that is new, or much lower than before.
func (f *Floors) tell(floor *Floor) {
	watts, known := floor.Watts.Get()
	if is := float64(watts); known && (floor.told == 0 || is < floor.told-max(steadyWatts, steadyPart*floor.told)) {
		floor.told = is
		if f.Learned != nil {
			f.Learned()
		}
	}
}

// Kept is what is kept across restarts: the floors, but not observations in progress.
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
