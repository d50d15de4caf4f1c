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

	Rules   []Rule // that are in force
	Targets []Target
	History *History // nil where no past is kept
	Fleet   *Fleet   // nil for a program on its own
	Exports []Export // where these series are sent
	Helpers []Helper // processes that the program has started for itself
}

// A Helper is a process that belongs to the program. Its cost is not part of process_*, which are about the program's own
// process.
type Helper struct {
	Name     string
	Resident int64         // bytes of memory
	CPU      time.Duration // that it has used
}

// Fleet is the state of a program that is part of a fleet.
type Fleet struct {
	Connected       bool              // to NATS
	Sending, Silent int               // nodes that other programs read
	Refused         map[string]uint64 // messages that could not be taken, by the node that they came from
	Dropped         uint64            // times that messages were dropped, since they were taken too slowly
	EventsWaiting   int               // of our own nodes, until NATS takes them
	EventsLost      uint64            // for which there was no room
}

// An Export is one destination of series. Its counts are of samples.
type Export struct {
	Name                  string
	Sent, Failed, Dropped uint64 // taken, refused for good, given up since too many waited
	Waiting, WaitingBytes int    // now
	LastSent              time.Time
	Failing               bool // the newest try failed
}

// History is the state of writing the history. Its counts are by kind: "readings", "frames" and so on.
type History struct {
	Written, Dropped map[string]int // since the program began
	Waiting          map[string]int // now
	WaitingBytes     int
	Batches          uint64
	Failures         uint64 // tries to write that failed
	Failing          bool   // the newest did
	LastWrite        time.Time
	// Bytes is the size of the database, FullBytes its estimated size once the retention is reached; absent until measured.
	Bytes, FullBytes gpu.Reading[float64]
}

// A Rule is an alert rule, with the number of its alerts that are firing.
type Rule struct {
	Name, Severity string
	Firing         int
}

// A Target is one destination of notifications with its counts.
type Target struct {
	Name                  string
	Sent, Failed, Dropped uint64 // messages that were taken, tries that failed, events that were given up
	Queued                int    // events that wait
	Failing               bool   // the newest try failed
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
	noTarget   = "no notification targets are configured"
	noHistory  = "no history is kept"
	notInFleet = "the program is not part of a fleet"
	noExport   = "no export is configured"
	noHelper   = "the program has no helper process: on Linux one writes --state-dir, and one serves --fleet-listen"
)

// ownRows are about gpuwhy itself. They are always there, whatever the state of the devices.
var ownRows = []row[*own]{
	plain("gpuwhy_up", yesNo,
		"Whether the newest reading is at most three intervals old (with --idle-interval, three of those). While it is 0, all series from that reading are left out.",
		func(o *own) float64 { return zeroOne(o.fresh) }),
	ofOwn("gpuwhy_simulated", yesNo, "Whether the devices are simulated, as requested by name.", noSnapshot,
		func(o *own, emit emit) {
			if len(o.nodes) > 0 {
				emit(gpu.Of(zeroOne(o.nodes.Kind() == gpu.Simulated)))
			}
		}),
	ofOwn("gpuwhy_recorded", yesNo, "Whether a recording is played, as requested by name.", noSnapshot,
		func(o *own, emit emit) {
			if len(o.nodes) > 0 {
				emit(gpu.Of(zeroOne(o.nodes.Kind() == gpu.Recorded)))
			}
		}),
	ofOwn("gpuwhy_build_info", number, "Version of the program. Always 1.", "",
		func(o *own, emit emit) { emit(one, o.config.Version) }, "version"),
	plain("gpuwhy_interval_seconds", seconds, "Time between readings.",
		func(o *own) float64 { return o.config.Interval.Seconds() }),
	ofOwn("gpuwhy_last_reading_timestamp_seconds", timestamp, "When the newest reading began.", noSnapshot,
		func(o *own, emit emit) { emit(unix(o.nodes.Time())) }),
	ofOwn("gpuwhy_reading_duration_seconds", seconds, "How long the newest reading of all sources took.", noSnapshot,
		func(o *own, emit emit) {
			if o.Took > 0 {
				emit(gpu.Of(o.Took.Seconds()))
			}
		}),
	ofOwn("gpuwhy_source_up", yesNo, "Whether gpuwhy can read the source of devices.", noSnapshot,
		eachOf(ownSources, func(s *Source, emit emit) { emit(gpu.Of(zeroOne(!s.Failing)), s.Name) }), "source"),
	ofOwn("gpuwhy_source_last_success_timestamp_seconds", timestamp, "When gpuwhy last read the source of devices.",
		"it has never been read", eachOf(ownSources, func(s *Source, emit emit) { emit(unix(s.LastSuccess), s.Name) }), "source"),
	ofCost("gpuwhy_driver_calls_total", number, "Finished calls to the driver, by function; the call \"reading\" is a whole reading of the source.",
		func(c *gpu.Cost) float64 { return float64(c.Count) }),
	ofCost("gpuwhy_driver_call_seconds_total", seconds, "Total time that all calls to the driver took.",
		func(c *gpu.Cost) float64 { return c.Total.Seconds() }),
	ofCost("gpuwhy_driver_call_longest_seconds", seconds, "Time of the longest call to the driver since gpuwhy started.",
		func(c *gpu.Cost) float64 { return c.Longest.Seconds() }),
	plain("gpuwhy_viewers", number, "Open WebSocket connections.", func(o *own) float64 { return float64(max(o.Viewers, 0)) }),
	plain("gpuwhy_viewers_refused_total", number, "Requests for a WebSocket connection that were refused or failed.",
		func(o *own) float64 { return float64(o.Refused) }),
	plain("gpuwhy_connections", number, "Open HTTP connections, not counting WebSocket connections.",
		func(o *own) float64 { return float64(o.Connections) }),
	plain("gpuwhy_connections_displaced_total", number, "HTTP connections closed because there were too many, from one address or in total.",
		func(o *own) float64 { return float64(o.Displaced) }),
	ofOwn("gpuwhy_viewers_ended_total", number, "WebSocket connections that ended, by reason.", "none has ended for this reason",
		func(o *own, emit emit) {
			for _, reason := range slices.Sorted(maps.Keys(o.Ended)) {
				emit(count(o.Ended[reason]), reason)
			}
		}, "reason"),
	plain("gpuwhy_snapshots_published_total", number, "Snapshots published to viewers.",
		func(o *own) float64 { return float64(o.Published) }),
	plain("gpuwhy_snapshots_encoded_total", number,
		"Snapshots encoded for viewers: one encoding per snapshot and filter in use.",
		func(o *own) float64 { return float64(o.Encodings) }),
	plain("gpuwhy_snapshots_skipped_total", number, "Snapshots that slow viewers skipped because a newer one was available.",
		func(o *own) float64 { return float64(o.Skipped) }),
	plain("gpuwhy_encoding_failing", yesNo, "Whether encoding snapshots for viewers is failing.",
		func(o *own) float64 { return zeroOne(o.EncodingFails) }),
	plain("gpuwhy_state_write_failing", yesNo,
		"Whether writing the state that a restart must not lose is failing; 0 if there is none to keep.",
		func(o *own) float64 { return zeroOne(o.StateFails) }),
	plain("gpuwhy_messages_sent_total", number, "Messages written to viewers.",
		func(o *own) float64 { return float64(o.Messages) }),
	plain("gpuwhy_sent_bytes_total", bytesUnit, "Bytes written to viewers.", func(o *own) float64 { return float64(o.Bytes) }),
	ofHistory("gpuwhy_history_written_total", number, "Rows written to the history database, by kind.",
		func(h *History, emit emit) { eachKind(h.Written, emit) }, "kind"),
	ofHistory("gpuwhy_history_waiting", number, "Rows waiting to be written to the history database, by kind.",
		func(h *History, emit emit) { eachKind(h.Waiting, emit) }, "kind"),
	ofHistory("gpuwhy_history_waiting_bytes", bytesUnit, "Approximate memory used by the waiting rows.",
		func(h *History, emit emit) { emit(count(max(h.WaitingBytes, 0))) }),
	ofHistory("gpuwhy_history_dropped_total", number,
		"Rows never written to the history database because too many were waiting, by kind.",
		func(h *History, emit emit) { eachKind(h.Dropped, emit) }, "kind"),
	ofHistory("gpuwhy_history_batches_total", number, "Batches written to the history database.",
		func(h *History, emit emit) { emit(count(h.Batches)) }),
	ofHistory("gpuwhy_history_write_failures_total", number, "Failed attempts to write to the history database.",
		func(h *History, emit emit) { emit(count(h.Failures)) }),
	ofHistory("gpuwhy_history_write_failing", yesNo, "Whether writing to the history database is failing.",
		func(h *History, emit emit) { emit(gpu.Of(zeroOne(h.Failing))) }),
	ofOwn("gpuwhy_history_last_write_timestamp_seconds", timestamp, "When the history database was last written to.",
		noHistory+", or nothing has been written yet", whereKept(func(h *History, emit emit) { emit(unix(h.LastWrite)) })),
	ofOwn("gpuwhy_history_bytes", bytesUnit, "Size of the history database, measured once an hour.",
		noHistory+", or it has not been measured yet", whereKept(func(h *History, emit emit) { emit(h.Bytes) })),
	ofOwn("gpuwhy_history_full_bytes", bytesUnit,
		"Estimated size of the history database once --history-retention is reached.",
		noHistory+", or it has not been measured yet", whereKept(func(h *History, emit emit) { emit(h.FullBytes) })),
	ofFleet("gpuwhy_fleet_connected", yesNo, "Whether gpuwhy is connected to the fleet's NATS.",
		func(f *Fleet, emit emit) { emit(gpu.Of(zeroOne(f.Connected))) }),
	ofFleet("gpuwhy_fleet_nodes", number, "Nodes that other programs read, by whether they send data.",
		func(f *Fleet, emit emit) {
			emit(count(max(f.Sending, 0)), "sending")
			emit(count(max(f.Silent, 0)), "silent")
		}, "state"),
	ofFleet("gpuwhy_fleet_messages_refused_total", number, "Messages that could not be accepted, by sending node.",
		func(f *Fleet, emit emit) {
			for _, sender := range slices.Sorted(maps.Keys(f.Refused)) {
				emit(count(f.Refused[sender]), sender)
			}
		}, "sender"),
	ofFleet("gpuwhy_fleet_messages_dropped_total", number, "Times that fleet messages were dropped because this program handled them too slowly.",
		func(f *Fleet, emit emit) { emit(count(f.Dropped)) }),
	ofFleet("gpuwhy_fleet_events_waiting", number, "Events of this program's nodes not yet sent to the fleet.",
		func(f *Fleet, emit emit) { emit(count(max(f.EventsWaiting, 0))) }),
	ofFleet("gpuwhy_fleet_events_lost_total", number, "Events never sent to the fleet because too many were waiting.",
		func(f *Fleet, emit emit) { emit(count(f.EventsLost)) }),
	ofOwn("gpuwhy_alerts_firing", number, "Open alerts, by rule; 0 if the rule is in force and has none.",
		"no alert rule is in force",
		eachOf(ownRules, func(r *Rule, emit emit) { emit(count(max(r.Firing, 0)), r.Name, r.Severity) }), "rule", "severity"),
	ofOwn("gpuwhy_notifications_total", number,
		"Notification results: messages sent, failed attempts, and alerts dropped because they could not be delivered in time.",
		noTarget, eachOf(ownTargets, func(t *Target, emit emit) {
			emit(count(t.Sent), t.Name, "sent")
			emit(count(t.Failed), t.Name, "failed")
			emit(count(t.Dropped), t.Name, "dropped")
		}), "target", "result"),
	ofOwn("gpuwhy_notifications_queued", number, "Alerts waiting to be sent to the target.", noTarget,
		eachOf(ownTargets, func(t *Target, emit emit) { emit(count(max(t.Queued, 0)), t.Name) }), "target"),
	ofOwn("gpuwhy_notification_target_failing", yesNo, "Whether the last attempt to notify the target failed.", noTarget,
		eachOf(ownTargets, func(t *Target, emit emit) { emit(gpu.Of(zeroOne(t.Failing)), t.Name) }), "target"),
	ofOwn("gpuwhy_export_samples_total", number,
		"Results for samples to a destination: sent, refused for good (failed), or dropped because too many were waiting.",
		noExport, eachOf(ownExports, func(x *Export, emit emit) {
			emit(count(x.Sent), x.Name, "sent")
			emit(count(x.Failed), x.Name, "failed")
			emit(count(x.Dropped), x.Name, "dropped")
		}), "destination", "result"),
	ofOwn("gpuwhy_export_waiting", number, "Samples waiting for a destination.", noExport,
		eachOf(ownExports, func(x *Export, emit emit) { emit(count(max(x.Waiting, 0)), x.Name) }), "destination"),
	ofOwn("gpuwhy_export_waiting_bytes", bytesUnit, "Compressed size of the samples waiting for a destination.", noExport,
		eachOf(ownExports, func(x *Export, emit emit) { emit(count(max(x.WaitingBytes, 0)), x.Name) }), "destination"),
	ofOwn("gpuwhy_export_failing", yesNo, "Whether the last attempt to send series to the destination failed.", noExport,
		eachOf(ownExports, func(x *Export, emit emit) { emit(gpu.Of(zeroOne(x.Failing)), x.Name) }), "destination"),
	ofOwn("gpuwhy_export_last_sent_timestamp_seconds", timestamp, "When the destination last accepted samples.", noExport+", or none has been accepted yet",
		eachOf(ownExports, func(x *Export, emit emit) { emit(unix(x.LastSent), x.Name) }), "destination"),
	ofOwn("gpuwhy_helper_resident_memory_bytes", bytesUnit,
		"Resident memory of a helper process of gpuwhy: the one that writes its state (scribe) or the one that serves its fleet (fleet). For gpuwhy's own process see process_resident_memory_bytes.",
		noHelper, eachOf(ownHelpers, func(h *Helper, emit emit) { emit(gpu.Of(float64(h.Resident)), h.Name) }), "helper"),
	ofOwn("gpuwhy_helper_cpu_seconds_total", seconds, "CPU time used by a helper process of gpuwhy. For gpuwhy's own process see process_cpu_seconds_total.",
		noHelper, eachOf(ownHelpers, func(h *Helper, emit emit) { emit(gpu.Of(h.CPU.Seconds()), h.Name) }), "helper"),
	plain("gpuwhy_scrapes_total", number, "Requests for these metrics.", func(o *own) float64 { return float64(o.scrapes) }),
	plain("gpuwhy_scrapes_encoded_total", number,
		"How often these metrics have been encoded; the other requests shared an encoding.",
		func(o *own) float64 { return float64(o.encodings) }),
}

func count[T int | uint64](n T) gpu.Reading[float64] { return gpu.Of(float64(n)) }

func ofOwn(name string, u unit, help, absent string, each func(*own, emit), labels ...string) row[*own] {
	return row[*own]{name: name, unit: u, help: help, absent: absent, each: each, labels: labels}
}

func ofCost(name string, u unit, help string, value func(*gpu.Cost) float64) row[*own] {
	return ofOwn(name, u, help, "the driver has not been called yet",
		eachOf(ownCosts, func(c *gpu.Cost, emit emit) { emit(gpu.Of(value(c)), c.Source, c.Call) }), "source", "call")
}

// ofFleet is a row about a program of a fleet.
func ofFleet(name string, u unit, help string, each func(*Fleet, emit), labels ...string) row[*own] {
	return ofOwn(name, u, help, notInFleet, func(o *own, emit emit) {
		if o.Fleet != nil {
			each(o.Fleet, emit)
		}
	}, labels...)
}

func ofHistory(name string, u unit, help string, each func(*History, emit), labels ...string) row[*own] {
	return ofOwn(name, u, help, noHistory, whereKept(each), labels...)
}

func whereKept(each func(*History, emit)) func(*own, emit) {
	return func(o *own, emit emit) {
		if o.History != nil {
			each(o.History, emit)
		}
	}
}

func eachKind(counts map[string]int, emit emit) {
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		emit(count(max(counts[kind], 0)), kind)
	}
}

func ownSources(o *own) []Source { return o.Sources }
func ownCosts(o *own) []gpu.Cost { return o.Costs }
func ownRules(o *own) []Rule     { return o.Rules }
func ownTargets(o *own) []Target { return o.Targets }
func ownExports(o *own) []Export { return o.Exports }
func ownHelpers(o *own) []Helper { return o.Helpers }
