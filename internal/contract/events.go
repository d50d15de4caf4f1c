package contract

import (
	"math"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alert"
	"github.com/gpuwhy/gpuwhy/internal/recent"
)

// HighGPUUsage is the name of the event that an [Alert] is sent as.
const HighGPUUsage = "high_gpu_usage_alert"

// Alert is the data of high_gpu_usage_alert.
type Alert struct {
	ID          string    `json:"alert_id"`
	State       string    `json:"state"` // firing, resolved
	Node        string    `json:"node"`
	Source      string    `json:"source"`
	GPUID       int       `json:"gpu_id"`
	GPUUUID     string    `json:"gpu_uuid"`
	GPUName     string    `json:"gpu_name"`
	Utilization Float     `json:"utilization_percent"` // null while the device does not answer
	Threshold   float64   `json:"threshold_percent"`
	Since       string    `json:"since"`
	Timestamp   string    `json:"timestamp"`
	Processes   []Process `json:"processes"` // those that cause it, busiest first
	Message     string    `json:"message"`
}

// NewAlert makes it.
func NewAlert(a *alert.Alert) Alert {
	out := Alert{
		ID:          a.ID,
		State:       string(a.State),
		Node:        a.Device.Node,
		Source:      a.Device.Source,
		GPUID:       a.Device.Index,
		GPUUUID:     a.Device.UUID,
		GPUName:     a.Device.Name,
		Utilization: float(a.Utilization),
		Threshold:   float64(a.Threshold),
		Since:       timestamp(a.Since),
		Timestamp:   timestamp(a.Time),
		Processes:   make([]Process, len(a.Processes)),
		Message:     a.Message,
	}
	for i := range a.Processes {
		out.Processes[i] = newProcess(&a.Processes[i])
	}
	return out
}

// Recent answers GET /api/gpu/recent: what the page's charts start with. All
// series share the times: Start plus each of OffsetsSeconds.
type Recent struct {
	Node     string  `json:"node"`
	Source   string  `json:"source"`
	Interval float64 `json:"interval_seconds"`
	// Start is the time of the first point; the monitor's own start where
	// there is none.
	Start          string         `json:"start"`
	OffsetsSeconds []float64      `json:"offsets_seconds"`
	GPUs           []RecentSeries `json:"gpus"`
}

// RecentSeries is one device's past; a value is null where there was no
// reading.
type RecentSeries struct {
	GPUID   int              `json:"gpu_id"`
	GPUUUID string           `json:"gpu_uuid"`
	GPUName string           `json:"gpu_name"`
	Node    string           `json:"node"`
	Values  map[string][]Int `json:"values"` // by metric, such as "power_watts", rounded
}

// NewRecent makes it; newest may be nil.
func NewRecent(m Monitor, newest *gpu.Snapshot, v recent.View) Recent {
	out := Recent{
		Node:           m.Node,
		Source:         m.Source,
		Interval:       m.Interval.Seconds(),
		Start:          timestamp(m.Started),
		OffsetsSeconds: make([]float64, len(v.Times)),
		GPUs:           make([]RecentSeries, len(v.Series)),
	}
	if newest != nil {
		out.Source = newest.Source
	}
	if len(v.Times) > 0 {
		out.Start = timestamp(v.Times[0])
	}
	for i, t := range v.Times {
		out.OffsetsSeconds[i] = math.Round(t.Sub(v.Times[0]).Seconds()*1000) / 1000
	}
	for i := range v.Series {
		s := &v.Series[i]
		values := make(map[string][]Int, len(s.Values))
		for _, metric := range recent.Metrics() {
			values[metric.String()] = rounded(s.Values[metric])
		}
		out.GPUs[i] = RecentSeries{s.Index, s.UUID, s.Name, s.Node, values}
	}
	return out
}

func rounded(values []float64) []Int {
	out := make([]Int, len(values))
	for i, v := range values {
		out[i] = whole(v, true) // NaN, where there was no reading, is null
	}
	return out
}
