package attribute

import (
	"time"

	"github.com/gpuwhy/gpuwhy/internal/keep"
)

// Kept is what is kept over a restart: the floors, and not what is under way.
type Kept struct {
	Floors []keptFloor `json:"floors"`
}

type keptFloor struct {
	keep.Learned
	Watts float64 `json:"watts"`
}

// mostWatts is more than any device draws at rest.
const mostWatts = 10_000

// Kept returns the floors.
func (f *Floors) Kept() Kept {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out Kept
	for k, floor := range f.devices {
		if floor.floor > 0 {
			out.Floors = append(out.Floors, keptFloor{keep.Learned{Device: k, Seen: floor.seen()}, floor.floor})
		}
	}
	out.Floors = keep.Newest(out.Floors)
	return out
}

// seen is the time of the newest reading, of an earlier run where there is none
// of this one.
func (f *Floor) seen() time.Time {
	if f.last.IsZero() {
		return f.kept
	}
	return f.last
}

// Restore takes the floors of devices that have none yet.
func (f *Floors) Restore(kept Kept, now time.Time) error {
	fresh, err := keep.Fresh(kept.Floors, now, func(k *keptFloor) bool { return k.Watts >= leastWatts && k.Watts <= mostWatts })
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.devices == nil {
		f.devices = map[keep.Device]*Floor{}
	}
	for _, k := range fresh {
		if f.devices[k.Device] == nil {
			// Not last: a clock that was set back is no reason to wait.
			f.devices[k.Device] = &Floor{floor: k.Watts, kept: k.Seen}
		}
	}
	return err
}
