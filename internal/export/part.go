package export

import (
	"context"
	"fmt"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/metrics"
	"github.com/gpuwhy/gpuwhy/internal/part"
)

// A Room sends series to who stores them.
type Room struct{ *Pusher }

// NewRoom makes a Room of at least one destination. What is sent is what the exporter has.
func NewRoom(host *part.Host, destinations []Destination, exporter *metrics.Exporter) *Room {
	return &Room{New(Config{
		Destinations: destinations, Metrics: exporter, Interval: host.Interval, Node: host.Node, Version: host.Version, Clock: host.Clock, Log: host.Log,
	})}
}

// Name implements [part.Part].
func (r *Room) Name() string { return "export" }

// Follow makes series of a Moment.
func (r *Room) Follow(m *insight.Moment) { r.Observe(m) }

// Run sends until ctx ends.
func (r *Room) Run(ctx context.Context) error {
	r.Pusher.Run(ctx)
	return nil
}

// Health is how the sending does. It has failed while one destination takes none.
func (r *Room) Health() map[string]contract.Part {
	return map[string]contract.Part{"export": health(r.States())}
}

func health(all []State) contract.Part {
	var last time.Time
	var failing []State
	for _, s := range all {
		if s.LastSent.After(last) {
			last = s.LastSent
		}
		if s.Err != nil {
			failing = append(failing, s)
		}
	}
	health := contract.NewPart("ok", last)
	if len(failing) == 0 {
		return health
	}
	s := failing[0]
	advice := gpu.AsAdvice(s.Err)
	advice.What = fmt.Sprintf("%s; samples waiting: %d, dropped: %d", advice.What, s.Waiting, s.Failed+s.Dropped)
	if more := len(failing) - 1; more > 0 {
		advice.What += fmt.Sprintf("; other failing destinations: %d", more)
	}
	return health.Failed(&advice, s.Since)
}

// Measure fills in what became of the samples.
func (r *Room) Measure(self *metrics.Self) {
	self.Parts = append(self.Parts, Metrics.Of(r.States()))
}
