package state

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A Device names a device. What was learned about a simulation or recording is never used for a
// real device.
type Device struct {
	Node      string `json:"node"`
	UUID      string `json:"uuid"`
	Simulated bool   `json:"simulated,omitzero"`
	Recorded  bool   `json:"recorded,omitzero"`
}

// DeviceOf names a device that was read.
func DeviceOf(d *gpu.Device) Device {
	kind := gpu.KindOf(d.Source)
	return Device{Node: d.Node, UUID: d.UUID, Simulated: kind == gpu.Simulated, Recorded: kind == gpu.Recorded}
}

// Learned says which device something was learned about. Learned values embed it.
type Learned struct {
	Device
	Seen time.Time `json:"seen"` // the newest reading
}

func (l Learned) learned() Learned { return l }

type learned interface{ learned() Learned }

const (
	learnedFor = 90 * 24 * time.Hour // after a device was seen last
	// MaxDevices is how many devices have saved state: those seen last.
	MaxDevices = 4096
)

// Newest returns what is worth keeping, the most recently seen device first.
func Newest[T learned](all []T) []T {
	slices.SortFunc(all, func(a, b T) int {
		x, y := a.learned(), b.learned()
		return cmp.Or(y.Seen.Compare(x.Seen), cmp.Compare(x.Node, y.Node), cmp.Compare(x.UUID, y.UUID))
	})
	return all[:min(len(all), MaxDevices)]
}

// Fresh returns saved values without those that are older than three months or implausible. The
// error says how many were implausible.
func Fresh[T learned](kept []T, now time.Time, plausible func(*T) bool) (fresh []T, err error) {
	wrong := 0
	for i := range kept {
		learned := kept[i].learned()
		switch {
		case i >= MaxDevices || learned.UUID == "" || learned.Seen.After(now.Add(time.Hour)) || !plausible(&kept[i]):
			wrong++
		case now.Sub(learned.Seen) <= learnedFor:
			fresh = append(fresh, kept[i])
		}
	}
	if wrong > 0 {
		err = fmt.Errorf("saved values of %d of %d devices are impossible", wrong, len(kept))
	}
	return fresh, err
}
