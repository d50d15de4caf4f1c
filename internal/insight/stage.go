package insight

import (
	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight/attribute"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// A Stage makes the Moments of a node. One goroutine at a time may call its
// methods.
type Stage struct {
	// History and Floors remember what the answers need of earlier snapshots. The
	// Stages of several nodes may share them.
	History *explain.History
	Floors  *attribute.Floors
	// Reserve fills in for whom devices are reserved; it may be nil.
	Reserve func([]gpu.Device)
}

// NewStage returns a Stage that remembers nothing yet.
func NewStage() *Stage {
	return &Stage{History: explain.NewHistory(), Floors: new(attribute.Floors)}
}

// Next makes the Moment of the node's next snapshot, and learns from it.
func (s *Stage) Next(snap *gpu.Snapshot) *Moment {
	snap = s.complete(snap)
	return New(snap, s.History.Add(snap))
}

// Beside makes the Moment of a snapshot that was read on demand, between two
// periodic ones. It uses the past and does not change it.
func (s *Stage) Beside(snap *gpu.Snapshot) *Moment {
	snap = s.complete(snap)
	return New(snap, s.History.Beside(snap))
}

// complete returns a copy of the snapshot with facts of its devices that are not
// readings: the idle floors, and for whom devices are reserved.
func (s *Stage) complete(snap *gpu.Snapshot) *gpu.Snapshot {
	snap = s.Floors.Note(snap)
	if s.Reserve != nil {
		s.Reserve(snap.Devices)
	}
	return snap
}
