package past

import (
	"maps"
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/metrics"
)

// Written is how the writing of the past does. Its counts are by kind: "readings", "frames" and so on.
type Written struct {
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

const noPast = "no history is kept"

// Metrics are those of the writing.
var Metrics = metrics.Table[*Written]{
	metrics.Series("gpuwhy_history_written_total", metrics.Number, "Rows written to the history database, by kind.", noPast,
		func(h *Written, emit metrics.Emit) { eachKind(h.Written, emit) }, "kind"),
	metrics.Series("gpuwhy_history_waiting", metrics.Number, "Rows waiting to be written to the history database, by kind.", noPast,
		func(h *Written, emit metrics.Emit) { eachKind(h.Waiting, emit) }, "kind"),
	metrics.Series("gpuwhy_history_waiting_bytes", metrics.Bytes, "Approximate memory used by the waiting rows.", noPast,
		func(h *Written, emit metrics.Emit) { emit(metrics.Count(max(h.WaitingBytes, 0))) }),
	metrics.Series("gpuwhy_history_dropped_total", metrics.Number,
		"Rows never written to the history database because too many were waiting, by kind.", noPast,
		func(h *Written, emit metrics.Emit) { eachKind(h.Dropped, emit) }, "kind"),
	metrics.Series("gpuwhy_history_batches_total", metrics.Number, "Batches written to the history database.", noPast,
		func(h *Written, emit metrics.Emit) { emit(metrics.Count(h.Batches)) }),
	metrics.Series("gpuwhy_history_write_failures_total", metrics.Number, "Failed attempts to write to the history database.", noPast,
		func(h *Written, emit metrics.Emit) { emit(metrics.Count(h.Failures)) }),
	metrics.Series("gpuwhy_history_write_failing", metrics.YesNo, "Whether writing to the history database is failing.", noPast,
		func(h *Written, emit metrics.Emit) { emit(metrics.Truth(h.Failing)) }),
	metrics.Series("gpuwhy_history_last_write_timestamp_seconds", metrics.Timestamp, "When the history database was last written to.",
		noPast+", or nothing has been written yet", func(h *Written, emit metrics.Emit) { emit(metrics.Unix(h.LastWrite)) }),
	metrics.Series("gpuwhy_history_bytes", metrics.Bytes, "Size of the history database, measured once an hour.",
		noPast+", or it has not been measured yet", func(h *Written, emit metrics.Emit) { emit(h.Bytes) }),
	metrics.Series("gpuwhy_history_full_bytes", metrics.Bytes,
		"Estimated size of the history database once --history-retention is reached.",
		noPast+", or it has not been measured yet", func(h *Written, emit metrics.Emit) { emit(h.FullBytes) }),
}

func eachKind(counts map[string]int, emit metrics.Emit) {
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		emit(metrics.Count(max(counts[kind], 0)), kind)
	}
}
