package export

import "github.com/gpuwhy/gpuwhy/internal/metrics"

const noExport = "no export is configured"

// Metrics are those of the destinations.
var Metrics = metrics.Table[[]State]{
	metrics.Series("gpuwhy_export_samples_total", metrics.Number,
		"Results for samples to a destination: sent, refused for good (failed), or dropped because too many were waiting.",
		noExport, metrics.Every(func(x *State, emit metrics.Emit) {
			emit(metrics.Count(x.Sent), x.Name, "sent")
			emit(metrics.Count(x.Failed), x.Name, "failed")
			emit(metrics.Count(x.Dropped), x.Name, "dropped")
		}), "destination", "result"),
	metrics.Series("gpuwhy_export_waiting", metrics.Number, "Samples waiting for a destination.", noExport,
		metrics.Every(func(x *State, emit metrics.Emit) { emit(metrics.Count(max(x.Waiting, 0)), x.Name) }), "destination"),
	metrics.Series("gpuwhy_export_waiting_bytes", metrics.Bytes, "Compressed size of the samples waiting for a destination.", noExport,
		metrics.Every(func(x *State, emit metrics.Emit) { emit(metrics.Count(max(x.WaitingBytes, 0)), x.Name) }), "destination"),
	metrics.Series("gpuwhy_export_failing", metrics.YesNo, "Whether the last attempt to send series to the destination failed.", noExport,
		metrics.Every(func(x *State, emit metrics.Emit) { emit(metrics.Truth(x.Err != nil), x.Name) }), "destination"),
	metrics.Series("gpuwhy_export_last_sent_timestamp_seconds", metrics.Timestamp, "When the destination last accepted samples.", noExport+", or none has been accepted yet",
		metrics.Every(func(x *State, emit metrics.Emit) { emit(metrics.Unix(x.LastSent), x.Name) }), "destination"),
}
