package attribute

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// keptFloors is what is remembered over a restart: the floors, not what is
// under way.
type keptFloors struct {
	Version int         `json:"version"`
	Floors  []keptFloor `json:"floors"`
}

const keptVersion = 1

type keptFloor struct {
	Node      string    `json:"node"`
	UUID      string    `json:"uuid"`
	Simulated bool      `json:"simulated,omitzero"`
	Watts     float64   `json:"watts"`
	Seen      time.Time `json:"seen"` // its newest reading
}

const (
	// keptFor is how long a floor is worth keeping of a device that is not
	// seen any more.
	keptFor = 90 * 24 * time.Hour
	// maxKept bounds how many are kept: those seen last.
	maxKept = 4096
	// mostWatts is more than any device draws at rest.
	mostWatts = 10_000
)

// Keep returns the floors as JSON, for Restore.
func (f *Floors) Keep() ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := keptFloors{Version: keptVersion, Floors: []keptFloor{}}
	for k, floor := range f.devices {
		if floor.floor > 0 {
			out.Floors = append(out.Floors, keptFloor{k.node, k.uuid, k.simulated, floor.floor, floor.seen()})
		}
	}
	slices.SortFunc(out.Floors, func(a, b keptFloor) int {
		return cmp.Or(b.Seen.Compare(a.Seen), cmp.Compare(a.Node, b.Node), cmp.Compare(a.UUID, b.UUID))
	})
	out.Floors = out.Floors[:min(len(out.Floors), maxKept)]
	return json.Marshal(out)
}

// seen is the time of the newest reading, of an earlier run where there is none
// of this one.
func (f *Floor) seen() time.Time {
	if f.last.IsZero() {
		return f.kept
	}
	return f.last
}

// Restore takes in what Keep returned in an earlier run, of devices that have
// no floor yet. What is older than three months at now is left out, and what
// can't be right; the error says so, beside which the rest is good.
func (f *Floors) Restore(text []byte, now time.Time) error {
	var in keptFloors
	if err := json.Unmarshal(text, &in); err != nil {
		return fmt.Errorf("attribute: not what was kept: %w", err)
	}
	if in.Version != keptVersion {
		return fmt.Errorf("attribute: kept in version %d, and %d is read", in.Version, keptVersion)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.devices == nil {
		f.devices = map[deviceKey]*Floor{}
	}
	wrong := 0
	for i, k := range in.Floors {
		key := deviceKey{k.Node, k.UUID, k.Simulated}
		switch {
		case i >= maxKept || k.UUID == "" || !(k.Watts >= leastWatts && k.Watts <= mostWatts) || k.Seen.After(now.Add(time.Hour)):
			wrong++
		case now.Sub(k.Seen) > keptFor || f.devices[key] != nil:
		default:
			// Not last: a clock that was set back is no reason to wait.
			f.devices[key] = &Floor{floor: k.Watts, kept: k.Seen}
		}
	}
	if wrong > 0 {
		return fmt.Errorf("attribute: %d of %d floors that were kept can't be right", wrong, len(in.Floors))
	}
	return nil
}
