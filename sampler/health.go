package sampler

import (
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// Health is the state of the sampler and its sources.
type Health struct {
	// LastReading is when the newest reading began; zero before the first.
	LastReading time.Time
	// Took is how long it took.
	Took    time.Duration
	Sources []SourceHealth
}

// SourceHealth is the state of one source.
type SourceHealth struct {
	Name        string
	LastSuccess time.Time    // zero if the source could never be read
	Failure     *gpu.Failure // nil while the source can be read
}

// Health returns the state at the newest reading.
func (s *Sampler) Health() Health {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.health
}

func (s *Sampler) note(snap *gpu.Snapshot, took time.Duration) {
	h := Health{LastReading: snap.Time, Took: took}
	for _, src := range s.sources {
		h.Sources = append(h.Sources, SourceHealth{src.Name(), src.lastSuccess, src.failure})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.health = h
}
