package alerts

import (
	"github.com/gpuwhy/gpuwhy/internal/alerts/notify"
	"github.com/gpuwhy/gpuwhy/internal/metrics"
)

// Firing is a rule that is in force, with the number of its alerts that stand.
type Firing struct {
	Name, Severity string
	Alerts         int
}

const noTarget = "no notification targets are configured"

// Metrics are those of the rules.
var Metrics = metrics.Table[[]Firing]{
	metrics.Series("gpuwhy_alerts_firing", metrics.Number, "Open alerts, by rule; 0 if the rule is in force and has none.",
		"no alert rule is in force",
		metrics.Every(func(r *Firing, emit metrics.Emit) { emit(metrics.Count(max(r.Alerts, 0)), r.Name, r.Severity) }), "rule", "severity"),
}

// TargetMetrics are those of the targets.
var TargetMetrics = metrics.Table[[]notify.Status]{
	metrics.Series("gpuwhy_notifications_total", metrics.Number,
		"Notification results: messages sent, failed attempts, and alerts dropped because they could not be delivered in time.",
		noTarget, metrics.Every(func(t *notify.Status, emit metrics.Emit) {
			emit(metrics.Count(t.Sent), t.Name, "sent")
			emit(metrics.Count(t.Failed), t.Name, "failed")
			emit(metrics.Count(t.Dropped), t.Name, "dropped")
		}), "target", "result"),
	metrics.Series("gpuwhy_notifications_queued", metrics.Number, "Alerts waiting to be sent to the target.", noTarget,
		metrics.Every(func(t *notify.Status, emit metrics.Emit) { emit(metrics.Count(max(t.Queued, 0)), t.Name) }), "target"),
	metrics.Series("gpuwhy_notification_target_failing", metrics.YesNo, "Whether the last attempt to notify the target failed.", noTarget,
		metrics.Every(func(t *notify.Status, emit metrics.Emit) { emit(metrics.Truth(!t.FailingSince.IsZero()), t.Name) }), "target"),
}
