package alert

import (
	"fmt"
	"testing"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// BenchmarkObserve10000 is one look of all default rules at a fleet: 588 GPUs with
// two processes each are 10,000 evaluations; a tenth of them is at work.
func BenchmarkObserve10000(b *testing.B) {
	enabled := 0
	for _, r := range Defaults() {
		if r.Enabled && r.Watch != DriverGone {
			enabled++
		}
	}
	n := (10_000 + enabled - 1) / enabled
	devices := make([]gpu.Device, n)
	for i := range devices {
		devices[i] = healthy()
		devices[i].UUID, devices[i].Index = fmt.Sprintf("GPU-%08d", i), i
		devices[i].Processes = gpu.Of([]gpu.Process{process(i, "python", "alice", 90, 60*mib), process(i+1, "jupyter", "bob", 0, mib)})
		if i%10 == 0 {
			devices[i].Utilization.GPU = gpu.Of(gpu.Percent(99))
		}
	}
	e, s := New(Defaults()), snapshotOf(0, devices...)
	answer := explain.Explain(s)
	e.Observe(&insight.Moment{Snapshot: s, Answer: answer})
	for second := 5; b.Loop(); second += 5 {
		next := snapshotOf(second, devices...)
		e.Observe(&insight.Moment{Snapshot: next, Answer: answer})
	}
	b.ReportMetric(float64(n*enabled), "evaluations/op")
}
