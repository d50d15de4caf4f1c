package metrics

import (
	"maps"
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// Self is the state of the program.
type Self struct {
	Took    time.Duration // the newest reading of all sources; zero before the first
	Sources []Source

	Costs []gpu.Cost // of the calls to drivers

	Viewers int    // connections now
	Refused uint64 // requests that did not become a connection
	// Connections are those that are no viewers, now; Displaced were closed to make room for others.
	Connections int
	Displaced   uint64
	Ended       map[string]uint64 // connections that ended, by why
	Published   uint64            // snapshots
	Encodings   uint64            // of snapshots, for viewers
	Messages    uint64            // written to viewers
	Bytes       uint64            // of these messages
	Skipped     uint64            // snapshots that slow viewers missed
	// EncodingFails says that snapshots can't be encoded for viewers now.
	EncodingFails bool
	// StateFails says that what a restart must not lose can't be written now.
	StateFails bool

	Helpers []Helper // processes that the program has started for itself

	Parts []Told // by capabilities, beside all this
}

// A Helper is a process that belongs to the program. Its cost is not part of process_*, which are about the program's own
// process.
type Helper struct {
	Name     string
	Resident int64         // bytes of memory
	CPU      time.Duration // that it has used
}

// A Source is the state of one source of devices.
type Source struct {
	Name        string
	Failing     bool      // it can't be read now
	LastSuccess time.Time // zero if it never could be read
}

// own is the subject of our own metrics.
type own struct {
	Self
	config    *Config
	nodes     gpu.Nodes // none before the first reading
	fresh     bool
	scrapes   uint64
	encodings uint64
}

const (
	noSnapshot = "there is no reading yet"
	noHelper   = "the program has no helper process: on Linux one writes --state-dir, and one serves --fleet-listen"
)

// ownRows are about gpuwhy itself. They are always there, whatever the state of the devices.
var ownRows = Table[*own]{
	Plain("gpuwhy_up", YesNo,
		"Whether the newest reading is at most three intervals old (with --idle-interval, three of those). While it is 0, all series from that reading are left out.",
		func(o *own) float64 { return zeroOne(o.fresh) }),
	Series("gpuwhy_simulated", YesNo, "Whether the devices are simulated, as requested by name.", noSnapshot,
		func(o *own, emit Emit) {
			if len(o.nodes) > 0 {
				emit(gpu.Of(zeroOne(o.nodes.Kind() == gpu.Simulated)))
			}
		}),
	Series("gpuwhy_recorded", YesNo, "Whether a recording is played, as requested by name.", noSnapshot,
		func(o *own, emit Emit) {
			if len(o.nodes) > 0 {
				emit(gpu.Of(zeroOne(o.nodes.Kind() == gpu.Recorded)))
			}
		}),
	Series("gpuwhy_build_info", Number, "Version of the program. Always 1.", "",
		func(o *own, emit Emit) { emit(one, o.config.Version) }, "version"),
	Plain("gpuwhy_interval_seconds", Seconds, "Time between readings.",
		func(o *own) float64 { return o.config.Interval.Seconds() }),
	Series("gpuwhy_last_reading_timestamp_seconds", Timestamp, "When the newest reading began.", noSnapshot,
		func(o *own, emit Emit) { emit(Unix(o.nodes.Time())) }),
	Series("gpuwhy_reading_duration_seconds", Seconds, "How long the newest reading of all sources took.", noSnapshot,
		func(o *own, emit Emit) {
			if o.Took > 0 {
				emit(gpu.Of(o.Took.Seconds()))
			}
		}),
	Series("gpuwhy_source_up", YesNo, "Whether gpuwhy can read the source of devices.", noSnapshot,
		Each(ownSources, func(s *Source, emit Emit) { emit(gpu.Of(zeroOne(!s.Failing)), s.Name) }), "source"),
	Series("gpuwhy_source_last_success_timestamp_seconds", Timestamp, "When gpuwhy last read the source of devices.",
		"it has never been read", Each(ownSources, func(s *Source, emit Emit) { emit(Unix(s.LastSuccess), s.Name) }), "source"),
	ofCost("gpuwhy_driver_calls_total", Number, "Finished calls to the driver, by function; the call \"reading\" is a whole reading of the source.",
		func(c *gpu.Cost) float64 { return float64(c.Count) }),
	ofCost("gpuwhy_driver_call_seconds_total", Seconds, "Total time that all calls to the driver took.",
		func(c *gpu.Cost) float64 { return c.Total.Seconds() }),
	ofCost("gpuwhy_driver_call_longest_seconds", Seconds, "Time of the longest call to the driver since gpuwhy started.",
		func(c *gpu.Cost) float64 { return c.Longest.Seconds() }),
	Plain("gpuwhy_viewers", Number, "Open WebSocket connections.", func(o *own) float64 { return float64(max(o.Viewers, 0)) }),
	Plain("gpuwhy_viewers_refused_total", Number, "Requests for a WebSocket connection that were refused or failed.",
		func(o *own) float64 { return float64(o.Refused) }),
	Plain("gpuwhy_connections", Number, "Open HTTP connections, not counting WebSocket connections.",
		func(o *own) float64 { return float64(o.Connections) }),
	Plain("gpuwhy_connections_displaced_total", Number, "HTTP connections closed because there were too many, from one address or in total.",
		func(o *own) float64 { return float64(o.Displaced) }),
	Series("gpuwhy_viewers_ended_total", Number, "WebSocket connections that ended, by reason.", "none has ended for this reason",
		func(o *own, emit Emit) {
			for _, reason := range slices.Sorted(maps.Keys(o.Ended)) {
				emit(Count(o.Ended[reason]), reason)
			}
		}, "reason"),
	Plain("gpuwhy_snapshots_published_total", Number, "Snapshots published to viewers.",
		func(o *own) float64 { return float64(o.Published) }),
	Plain("gpuwhy_snapshots_encoded_total", Number,
		"Snapshots encoded for viewers: one encoding per snapshot and filter in use.",
		func(o *own) float64 { return float64(o.Encodings) }),
	Plain("gpuwhy_snapshots_skipped_total", Number, "Snapshots that slow viewers skipped because a newer one was available.",
		func(o *own) float64 { return float64(o.Skipped) }),
	Plain("gpuwhy_encoding_failing", YesNo, "Whether encoding snapshots for viewers is failing.",
		func(o *own) float64 { return zeroOne(o.EncodingFails) }),
	Plain("gpuwhy_state_write_failing", YesNo,
		"Whether writing the state that a restart must not lose is failing; 0 if there is none to keep.",
		func(o *own) float64 { return zeroOne(o.StateFails) }),
	Plain("gpuwhy_messages_sent_total", Number, "Messages written to viewers.",
		func(o *own) float64 { return float64(o.Messages) }),
	Plain("gpuwhy_sent_bytes_total", Bytes, "Bytes written to viewers.", func(o *own) float64 { return float64(o.Bytes) }),
	Series("gpuwhy_helper_resident_memory_bytes", Bytes,
		"Resident memory of a helper process of gpuwhy: the one that writes its state (scribe) or the one that serves its fleet (fleet). For gpuwhy's own process see process_resident_memory_bytes.",
		noHelper, Each(ownHelpers, func(h *Helper, emit Emit) { emit(gpu.Of(float64(h.Resident)), h.Name) }), "helper"),
	Series("gpuwhy_helper_cpu_seconds_total", Seconds, "CPU time used by a helper process of gpuwhy. For gpuwhy's own process see process_cpu_seconds_total.",
		noHelper, Each(ownHelpers, func(h *Helper, emit Emit) { emit(gpu.Of(h.CPU.Seconds()), h.Name) }), "helper"),
	Plain("gpuwhy_scrapes_total", Number, "Requests for these metrics.", func(o *own) float64 { return float64(o.scrapes) }),
	Plain("gpuwhy_scrapes_encoded_total", Number,
		"How often these metrics have been encoded; the other requests shared an encoding.",
		func(o *own) float64 { return float64(o.encodings) }),
}

func ofCost(name string, u Unit, help string, value func(*gpu.Cost) float64) Row[*own] {
	return Series(name, u, help, "the driver has not been called yet",
		Each(ownCosts, func(c *gpu.Cost, emit Emit) { emit(gpu.Of(value(c)), c.Source, c.Call) }), "source", "call")
}

func ownSources(o *own) []Source { return o.Sources }
func ownCosts(o *own) []gpu.Cost { return o.Costs }
func ownHelpers(o *own) []Helper { return o.Helpers }
