package audit

import "github.com/gpuwhy/gpuwhy/internal/metrics"

const noAudit = "gpuwhy records nothing"

// Metrics are those of the recording.
var Metrics = metrics.Table[*State]{
	metrics.Series("gpuwhy_audit_entries_total", metrics.Number, "Entries recorded of who did what.", noAudit,
		func(s *State, emit metrics.Emit) { emit(metrics.Count(s.Recorded)) }),
	metrics.Series("gpuwhy_audit_failures_total", metrics.Number,
		"Attempts to record who did what that failed, by what followed: failed (refused, or tried again) or lost (only the log has the entry).", noAudit,
		func(s *State, emit metrics.Emit) {
			emit(metrics.Count(s.Failed), "failed")
			emit(metrics.Count(s.Lost), "lost")
		}, "result"),
	metrics.Series("gpuwhy_audit_entries_waiting", metrics.Number, "Entries that could not be recorded yet.", noAudit,
		func(s *State, emit metrics.Emit) { emit(metrics.Count(max(s.Waiting, 0))) }),
}
