package metrics

import (
	dto "github.com/prometheus/client_model/go"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// Readings makes series for export. Each has the time of its own reading.
type Readings struct {
	Families []*dto.MetricFamily // of the names that /metrics has
	OTel     []*dto.MetricFamily // of OpenTelemetry's names; labels are attributes
}

// Readings returns the series of a snapshot, whatever its age; with otel, also under OpenTelemetry's
// names. Any goroutine may call it.
func (e *Exporter) Readings(s *gpu.Snapshot, otel bool) Readings {
	b := newBuilder(true)
	devices := b.nodes(gpu.Nodes{s}, e.ours, e.dcgm)
	out := Readings{Families: b.families}
	if otel {
		out.OTel = b.otel(devices)
	}
	return out
}

// Own returns what the program says about itself now; nothing if its family is not enabled. Series without a
// time are current. Any goroutine may call it.
func (e *Exporter) Own() []*dto.MetricFamily {
	e.mu.Lock()
	defer e.mu.Unlock()
	b := newBuilder(true)
	newest := e.cfg.Newest()
	e.gatherOwn(b, newest, len(e.fresh(newest)) > 0)
	return b.families
}
