package fleet

import (
	"maps"
	"slices"

	"github.com/gpuwhy/gpuwhy/internal/metrics"
)

// Traffic is how a program does that is part of a fleet.
type Traffic struct {
	Connected       bool              // to NATS
	Sending, Silent int               // nodes that other programs read
	Refused         map[string]uint64 // messages that could not be taken, by the node that they came from
	Dropped         uint64            // times that messages were dropped, since they were taken too slowly
	EventsWaiting   int               // of our own nodes, until NATS takes them
	EventsLost      uint64            // for which there was no room
}

const noFleet = "the program is not part of a fleet"

// Metrics are those of the program's part in a fleet.
var Metrics = metrics.Table[*Traffic]{
	metrics.Series("gpuwhy_fleet_connected", metrics.YesNo, "Whether gpuwhy is connected to the fleet's NATS.", noFleet,
		func(f *Traffic, emit metrics.Emit) { emit(metrics.Truth(f.Connected)) }),
	metrics.Series("gpuwhy_fleet_nodes", metrics.Number, "Nodes that other programs read, by whether they send data.", noFleet,
		func(f *Traffic, emit metrics.Emit) {
			emit(metrics.Count(max(f.Sending, 0)), "sending")
			emit(metrics.Count(max(f.Silent, 0)), "silent")
		}, "state"),
	metrics.Series("gpuwhy_fleet_messages_refused_total", metrics.Number, "Messages that could not be accepted, by sending node.", noFleet,
		func(f *Traffic, emit metrics.Emit) {
			for _, sender := range slices.Sorted(maps.Keys(f.Refused)) {
				emit(metrics.Count(f.Refused[sender]), sender)
			}
		}, "sender"),
	metrics.Series("gpuwhy_fleet_messages_dropped_total", metrics.Number, "Times that fleet messages were dropped because this program handled them too slowly.", noFleet,
		func(f *Traffic, emit metrics.Emit) { emit(metrics.Count(f.Dropped)) }),
	metrics.Series("gpuwhy_fleet_events_waiting", metrics.Number, "Events of this program's nodes not yet sent to the fleet.", noFleet,
		func(f *Traffic, emit metrics.Emit) { emit(metrics.Count(max(f.EventsWaiting, 0))) }),
	metrics.Series("gpuwhy_fleet_events_lost_total", metrics.Number, "Events never sent to the fleet because too many were waiting.", noFleet,
		func(f *Traffic, emit metrics.Emit) { emit(metrics.Count(f.EventsLost)) }),
}
