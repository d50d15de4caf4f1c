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
	// Bytes is the size of the database, FullBytes about that once it is kept for as long as it is to be; absent until measured.
	Bytes, FullBytes gpu.Reading[float64]
}

const noPast = "no past is kept"

// Metrics are those of the writing.
var Metrics = metrics.Table[*Written]{
	metrics.Series("gpuwhy_history_written_total", metrics.Number, "What was written to the database of the past, by kind.", noPast,
		func(h *Written, emit metrics.Emit) { eachKind(h.Written, emit) }, "kind"),
	metrics.Series("gpuwhy_history_waiting", metrics.Number, "What waits to be written to the database of the past, by kind.", noPast,
		func(h *Written, emit metrics.Emit) { eachKind(h.Waiting, emit) }, "kind"),
	metrics.Series("gpuwhy_history_waiting_bytes", metrics.Bytes, "The memory that it takes, about.", noPast,
		func(h *Written, emit metrics.Emit) { emit(metrics.Count(max(h.WaitingBytes, 0))) }),
	metrics.Series("gpuwhy_history_dropped_total", metrics.Number,
		"What was never written to the database of the past, by kind: there was no room for more to wait.", noPast,
		func(h *Written, emit metrics.Emit) { eachKind(h.Dropped, emit) }, "kind"),
	metrics.Series("gpuwhy_history_batches_total", metrics.Number, "Batches that were written to the database of the past.", noPast,
		func(h *Written, emit metrics.Emit) { emit(metrics.Count(h.Batches)) }),
	metrics.Series("gpuwhy_history_write_failures_total", metrics.Number, "Tries to write to the database of the past that failed.", noPast,
		func(h *Written, emit metrics.Emit) { emit(metrics.Count(h.Failures)) }),
	metrics.Series("gpuwhy_history_write_failing", metrics.YesNo, "Whether the database of the past can't be written to.", noPast,
		func(h *Written, emit metrics.Emit) { emit(metrics.Truth(h.Failing)) }),
	metrics.Series("gpuwhy_history_last_write_timestamp_seconds", metrics.Timestamp, "When the database of the past was written to last.",
		noPast+", or none was written yet", func(h *Written, emit metrics.Emit) { emit(metrics.Unix(h.LastWrite)) }),
	metrics.Series("gpuwhy_history_bytes", metrics.Bytes, "The size of the database of the past, measured once an hour.",
		noPast+", or it was not measured yet", func(h *Written, emit metrics.Emit) { emit(h.Bytes) }),
	metrics.Series("gpuwhy_history_full_bytes", metrics.Bytes,
		"About the size of the database of the past once it is kept for as long as --history-retention says.",
		noPast+", or it was not measured yet", func(h *Written, emit metrics.Emit) { emit(h.FullBytes) }),
}

func eachKind(counts map[string]int, emit metrics.Emit) {
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		emit(metrics.Count(max(counts[kind], 0)), kind)
	}
}
