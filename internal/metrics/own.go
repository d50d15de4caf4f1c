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

// A Helper is a process that belongs to the program. What it costs is in none of process_*, which are about the program's own process.
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
	noSnapshot = "nothing has been read yet"
	noHelper   = "the program has no helper process: on Linux it has one that writes --state-dir, and one with --fleet-listen"
)

// ownRows are about gpuwhy itself. They are there whatever the devices do.
var ownRows = Table[*own]{
	Plain("gpuwhy_up", YesNo,
		"Whether the newest reading is at most three intervals old (with --idle-interval three of those). While it is 0, all that it says is left out.",
		func(o *own) float64 { return zeroOne(o.fresh) }),
	Series("gpuwhy_simulated", YesNo, "Whether there are invented devices, which somebody asked for by name.", noSnapshot,
		func(o *own, emit Emit) {
			if len(o.nodes) > 0 {
				emit(gpu.Of(zeroOne(o.nodes.Kind() == gpu.Simulated)))
			}
		}),
	Series("gpuwhy_recorded", YesNo, "Whether a recording is played, which somebody asked for by name.", noSnapshot,
		func(o *own, emit Emit) {
			if len(o.nodes) > 0 {
				emit(gpu.Of(zeroOne(o.nodes.Kind() == gpu.Recorded)))
			}
		}),
	Series("gpuwhy_build_info", Number, "The program. Always 1.", "",
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
	Series("gpuwhy_source_up", YesNo, "Whether the source of devices can be read.", noSnapshot,
		Each(ownSources, func(s *Source, emit Emit) { emit(gpu.Of(zeroOne(!s.Failing)), s.Name) }), "source"),
	Series("gpuwhy_source_last_success_timestamp_seconds", Timestamp, "When the source of devices could be read last.",
		"it never could be read", Each(ownSources, func(s *Source, emit Emit) { emit(Unix(s.LastSuccess), s.Name) }), "source"),
	ofCost("gpuwhy_driver_calls_total", Number, "Calls to the driver that have returned, by function; the call \"reading\" is all that a reading of the source takes.",
		func(c *gpu.Cost) float64 { return float64(c.Count) }),
	ofCost("gpuwhy_driver_call_seconds_total", Seconds, "The time from the call until it returned, of all calls.",
		func(c *gpu.Cost) float64 { return c.Total.Seconds() }),
	ofCost("gpuwhy_driver_call_longest_seconds", Seconds, "The same, of the call that took longest since gpuwhy began.",
		func(c *gpu.Cost) float64 { return c.Longest.Seconds() }),
	Plain("gpuwhy_viewers", Number, "WebSocket connections now.", func(o *own) float64 { return float64(max(o.Viewers, 0)) }),
	Plain("gpuwhy_viewers_refused_total", Number, "Requests for a WebSocket connection that did not become one.",
		func(o *own) float64 { return float64(o.Refused) }),
	Plain("gpuwhy_connections", Number, "HTTP connections now that are no WebSocket connections.",
		func(o *own) float64 { return float64(o.Connections) }),
	Plain("gpuwhy_connections_displaced_total", Number, "HTTP connections that were closed because there were too many, of one address or in all.",
		func(o *own) float64 { return float64(o.Displaced) }),
	Series("gpuwhy_viewers_ended_total", Number, "WebSocket connections that ended, by why.", "none has ended so",
		func(o *own, emit Emit) {
			for _, reason := range slices.Sorted(maps.Keys(o.Ended)) {
				emit(Count(o.Ended[reason]), reason)
			}
		}, "reason"),
	Plain("gpuwhy_snapshots_published_total", Number, "Snapshots that were published to viewers.",
		func(o *own) float64 { return float64(o.Published) }),
	Plain("gpuwhy_snapshots_encoded_total", Number,
		"Encodings of snapshots for viewers: one for each snapshot and filter in use.",
		func(o *own) float64 { return float64(o.Encodings) }),
	Plain("gpuwhy_snapshots_skipped_total", Number, "Snapshots that slow viewers missed because newer ones were there.",
		func(o *own) float64 { return float64(o.Skipped) }),
	Plain("gpuwhy_encoding_failing", YesNo, "Whether snapshots can't be encoded for viewers.",
		func(o *own) float64 { return zeroOne(o.EncodingFails) }),
	Plain("gpuwhy_state_write_failing", YesNo,
		"Whether what a restart must not lose can't be written; 0 where nothing is to be kept.",
		func(o *own) float64 { return zeroOne(o.StateFails) }),
	Plain("gpuwhy_messages_sent_total", Number, "Messages written to viewers.",
		func(o *own) float64 { return float64(o.Messages) }),
	Plain("gpuwhy_sent_bytes_total", Bytes, "Bytes written to viewers.", func(o *own) float64 { return float64(o.Bytes) }),
	Series("gpuwhy_helper_resident_memory_bytes", Bytes,
		"Resident memory of a helper process of gpuwhy: what writes its state (scribe), or is the server of its fleet (fleet). That of gpuwhy's own process is process_resident_memory_bytes.",
		noHelper, Each(ownHelpers, func(h *Helper, emit Emit) { emit(gpu.Of(float64(h.Resident)), h.Name) }), "helper"),
	Series("gpuwhy_helper_cpu_seconds_total", Seconds, "Processor time that a helper process of gpuwhy has used. That of gpuwhy's own process is process_cpu_seconds_total.",
		noHelper, Each(ownHelpers, func(h *Helper, emit Emit) { emit(gpu.Of(h.CPU.Seconds()), h.Name) }), "helper"),
	Plain("gpuwhy_scrapes_total", Number, "Requests for these metrics.", func(o *own) float64 { return float64(o.scrapes) }),
	Plain("gpuwhy_scrapes_encoded_total", Number,
		"Times that these metrics were encoded before; the other requests shared one.",
		func(o *own) float64 { return float64(o.encodings) }),
}

func ofCost(name string, u Unit, help string, value func(*gpu.Cost) float64) Row[*own] {
	return Series(name, u, help, "the driver was not called yet",
		Each(ownCosts, func(c *gpu.Cost, emit Emit) { emit(gpu.Of(value(c)), c.Source, c.Call) }), "source", "call")
}

func ownSources(o *own) []Source { return o.Sources }
func ownCosts(o *own) []gpu.Cost { return o.Costs }
func ownHelpers(o *own) []Helper { return o.Helpers }
