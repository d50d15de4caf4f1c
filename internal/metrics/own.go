package metrics

import (
	"maps"
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// Self is how the program does.
type Self struct {
	Took    time.Duration // the newest reading of all sources; zero before the first
	Sources []Source

	Viewers   int               // connections now
	Refused   uint64            // that could not be had
	Ended     map[string]uint64 // by why
	Published uint64            // snapshots
	Encodings uint64            // of snapshots, for viewers
	Messages  uint64            // written to viewers
	Bytes     uint64            // of them
	Skipped   uint64            // snapshots that slow viewers missed
	// EncodingFails says that snapshots can't be encoded for viewers now.
	EncodingFails bool

	Rules   []Rule   // of alerts, that are in force
	Targets []Target // of notifications
}

// A Rule is one of alerts, with how many of its alerts stand.
type Rule struct {
	Name, Severity string
	Firing         int
}

// A Target is one place that notifications are sent to, and how that goes.
type Target struct {
	Name                  string
	Sent, Failed, Dropped uint64 // messages that were taken, tries that failed, events that were given up
	Queued                int    // events that wait
	Failing               bool   // the newest try failed
}

// A Source is how one source of devices does.
type Source struct {
	Name        string
	Failing     bool      // it can't be read now
	LastSuccess time.Time // zero if it never could be read
}

// own is what our own metrics are made from.
type own struct {
	Self
	config    *Config
	snapshot  *gpu.Snapshot // nil before the first
	fresh     bool
	scrapes   uint64
	encodings uint64
}

func count(n uint64) gpu.Reading[float64] { return gpu.Of(float64(n)) }

const (
	noSnapshot = "nothing has been read yet"
	noTarget   = "the rules of alerts have no targets"
)

// ownRows are about gpuwhy itself. They are there whatever the devices do.
var ownRows = []row[*own]{
	{
		name: "gpuwhy_up", unit: yesNo,
		help:  "Whether the newest reading is at most three intervals old. While it is 0, all that it says is left out.",
		value: func(o *own) gpu.Reading[float64] { return gpu.Of(zeroOne(o.fresh)) },
	},
	{
		name: "gpuwhy_simulated", unit: yesNo, absent: noSnapshot,
		help: "Whether there are invented devices, which somebody asked for by name.",
		value: func(o *own) gpu.Reading[float64] {
			if o.snapshot == nil {
				return gpu.Reading[float64]{}
			}
			return gpu.Of(zeroOne(o.snapshot.Simulated()))
		},
	},
	{
		name: "gpuwhy_build_info", unit: number, labels: []string{"version"},
		help: "The program. Always 1.",
		each: func(o *own, emit emit) { emit(one, o.config.Version) },
	},
	{
		name: "gpuwhy_interval_seconds", unit: seconds, help: "Time between readings.",
		value: func(o *own) gpu.Reading[float64] { return gpu.Of(o.config.Interval.Seconds()) },
	},
	{
		name: "gpuwhy_last_reading_timestamp_seconds", unit: timestamp, absent: noSnapshot,
		help: "When the newest reading began.",
		value: func(o *own) gpu.Reading[float64] {
			if o.snapshot == nil {
				return gpu.Reading[float64]{}
			}
			return unix(o.snapshot.Time)
		},
	},
	{
		name: "gpuwhy_reading_duration_seconds", unit: seconds, absent: noSnapshot,
		help: "How long the newest reading of all sources took.",
		value: func(o *own) gpu.Reading[float64] {
			if o.Took == 0 {
				return gpu.Reading[float64]{}
			}
			return gpu.Of(o.Took.Seconds())
		},
	},
	{
		name: "gpuwhy_source_up", unit: yesNo, labels: []string{"source"}, absent: noSnapshot,
		help: "Whether the source of devices can be read.",
		each: func(o *own, emit emit) {
			for _, s := range o.Sources {
				emit(gpu.Of(zeroOne(!s.Failing)), s.Name)
			}
		},
	},
	{
		name: "gpuwhy_source_last_success_timestamp_seconds", unit: timestamp, labels: []string{"source"}, absent: "it never could be read",
		help: "When the source of devices could be read last.",
		each: func(o *own, emit emit) {
			for _, s := range o.Sources {
				emit(unix(s.LastSuccess), s.Name)
			}
		},
	},
	{
		name: "gpuwhy_viewers", unit: number, help: "WebSocket connections now.",
		value: func(o *own) gpu.Reading[float64] { return count(uint64(max(o.Viewers, 0))) },
	},
	{
		name: "gpuwhy_viewers_refused_total", kind: counter, unit: number, help: "Requests for a WebSocket connection that did not become one.",
		value: func(o *own) gpu.Reading[float64] { return count(o.Refused) },
	},
	{
		name: "gpuwhy_viewers_ended_total", kind: counter, unit: number, labels: []string{"reason"}, absent: "none has ended so",
		help: "WebSocket connections that ended, by why.",
		each: func(o *own, emit emit) {
			for _, reason := range slices.Sorted(maps.Keys(o.Ended)) {
				emit(count(o.Ended[reason]), reason)
			}
		},
	},
	{
		name: "gpuwhy_snapshots_published_total", kind: counter, unit: number, help: "Snapshots that were published to viewers.",
		value: func(o *own) gpu.Reading[float64] { return count(o.Published) },
	},
	{
		name: "gpuwhy_snapshots_encoded_total", kind: counter, unit: number, help: "Encodings of snapshots for viewers: one for each snapshot and filter in use.",
		value: func(o *own) gpu.Reading[float64] { return count(o.Encodings) },
	},
	{
		name: "gpuwhy_snapshots_skipped_total", kind: counter, unit: number, help: "Snapshots that slow viewers missed because newer ones were there.",
		value: func(o *own) gpu.Reading[float64] { return count(o.Skipped) },
	},
	{
		name: "gpuwhy_encoding_failing", unit: yesNo, help: "Whether snapshots can't be encoded for viewers.",
		value: func(o *own) gpu.Reading[float64] { return gpu.Of(zeroOne(o.EncodingFails)) },
	},
	{
		name: "gpuwhy_messages_sent_total", kind: counter, unit: number, help: "Messages written to viewers.",
		value: func(o *own) gpu.Reading[float64] { return count(o.Messages) },
	},
	{
		name: "gpuwhy_sent_bytes_total", kind: counter, unit: bytesUnit, help: "Bytes written to viewers.",
		value: func(o *own) gpu.Reading[float64] { return count(o.Bytes) },
	},
	{
		name: "gpuwhy_alerts_firing", unit: number, labels: []string{"rule", "severity"}, absent: "no rule of alerts is in force",
		help: "Alerts that stand, by rule; 0 where the rule is in force and none does.",
		each: func(o *own, emit emit) {
			for _, r := range o.Rules {
				emit(count(uint64(max(r.Firing, 0))), r.Name, r.Severity)
			}
		},
	},
	{
		name: "gpuwhy_notifications_total", kind: counter, unit: number, labels: []string{"target", "result"}, absent: noTarget,
		help: "What became of notifications: messages that were sent, tries that failed, and alerts that were dropped because they could not be told in time.",
		each: func(o *own, emit emit) {
			for _, t := range o.Targets {
				emit(count(t.Sent), t.Name, "sent")
				emit(count(t.Failed), t.Name, "failed")
				emit(count(t.Dropped), t.Name, "dropped")
			}
		},
	},
	{
		name: "gpuwhy_notifications_queued", unit: number, labels: []string{"target"}, absent: noTarget,
		help: "Alerts that the target is still to be told.",
		each: func(o *own, emit emit) {
			for _, t := range o.Targets {
				emit(count(uint64(max(t.Queued, 0))), t.Name)
			}
		},
	},
	{
		name: "gpuwhy_notification_target_failing", unit: yesNo, labels: []string{"target"}, absent: noTarget,
		help: "Whether the newest try to tell the target failed.",
		each: func(o *own, emit emit) {
			for _, t := range o.Targets {
				emit(gpu.Of(zeroOne(t.Failing)), t.Name)
			}
		},
	},
	{
		name: "gpuwhy_scrapes_total", kind: counter, unit: number, help: "Requests for these metrics.",
		value: func(o *own) gpu.Reading[float64] { return count(o.scrapes) },
	},
	{
		name: "gpuwhy_scrapes_encoded_total", kind: counter, unit: number, help: "Times that these metrics were encoded before; the other requests shared one.",
		value: func(o *own) gpu.Reading[float64] { return count(o.encodings) },
	},
}
