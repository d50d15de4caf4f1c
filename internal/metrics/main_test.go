package metrics_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alerts"
	"github.com/gpuwhy/gpuwhy/internal/alerts/notify"
	"github.com/gpuwhy/gpuwhy/internal/audit"
	"github.com/gpuwhy/gpuwhy/internal/export"
	"github.com/gpuwhy/gpuwhy/internal/fleet"
	"github.com/gpuwhy/gpuwhy/internal/metrics"
	"github.com/gpuwhy/gpuwhy/internal/past"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

func TestMain(m *testing.M) {
	when := time.Unix(1773500966, 0)
	metrics.Capabilities.Healthy = []metrics.Told{
		past.Metrics.Of(&past.Written{
			Written: map[string]int{"readings": 51840, "frames": 5760, "events": 3}, Dropped: map[string]int{"readings": 7, "frames": 0, "events": 0},
			Waiting: map[string]int{"readings": 9, "frames": 1, "events": 0}, WaitingBytes: 65536, Batches: 5761, Failures: 2, Failing: true,
			LastWrite: when, Bytes: gpu.Of(48e6), FullBytes: gpu.Of(331e6),
		}),
		fleet.Metrics.Of(&fleet.Traffic{
			Connected: true, Sending: 11, Silent: 1, Refused: map[string]uint64{"lab:gpu-17": 3}, Dropped: 2, EventsWaiting: 4, EventsLost: 5,
		}),
		alerts.Metrics.Of([]alerts.Firing{{Name: "high_gpu_usage", Severity: "info", Alerts: 2}, {Name: "lost", Severity: "critical"}}),
		alerts.TargetMetrics.Of([]notify.Status{
			{Name: "ops", Sent: 3}, {Name: "phone", Sent: 1, Failed: 12, Dropped: 2, Queued: 5, FailingSince: when},
		}),
		export.Metrics.Of([]export.State{
			{Name: "remote-write https://prometheus.example.org/api/v1/write", Sent: 51840, LastSent: time.Date(2026, 3, 2, 12, 0, 0, 250_000_000, time.UTC)},
			{Name: "otlp http://collector:4318/v1/metrics", Sent: 7, Failed: 2, Dropped: 1, Waiting: 320, WaitingBytes: 4096, Err: errors.New("it is away")},
		}),
		audit.Metrics.Of(&audit.State{Recorded: 4712, Failed: 3, Lost: 0, Waiting: 2}),
	}
	os.Exit(testkit.RunTests(m))
}
