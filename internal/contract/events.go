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
	ID          string    `json:"alert_id"`                     // the alert's key, the same when it is over
	State       string    `json:"state" enum:"firing,resolved"` // whether it is still so
	Node        string    `json:"node"`                         // name of the machine
	Source      string    `json:"source" enum:"source"`         // where the readings come from
	GPUID       int       `json:"gpu_id"`                       // place by PCI address
	GPUUUID     string    `json:"gpu_uuid"`                     // the GPU's key
	GPUName     string    `json:"gpu_name"`                     // product name
	Utilization Float     `json:"utilization_percent"`          // now. Null while the GPU does not answer
	Threshold   float64   `json:"threshold_percent"`            // above which the alert fires
	Since       string    `json:"since" format:"date-time"`     // when utilization rose above the threshold
	Timestamp   string    `json:"timestamp" format:"date-time"` // time of the snapshot
	Processes   []Process `json:"processes"`                    // those that cause it, busiest first
	Message     string    `json:"message"`                      // one sentence for people
	Why         string    `json:"why"`                          // why the GPU is as it is now, in one sentence; empty where it is gone
	Causes      []Cause   `json:"causes"`                       // what makes it so, in the order in which they are told
}

// NewAlert makes it; [Alert.Explain] adds the causes.
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
		Causes:      []Cause{},
	}
	for i := range a.Processes {
		out.Processes[i] = newProcess(&a.Processes[i], gpu.Reading[gpu.Watts]{})
	}
	return out
}

// Recent answers GET /api/gpu/recent: what the page's charts start with. All
// series share the times: Start plus each of OffsetsSeconds.
type Recent struct {
	Node     string  `json:"node"`                 // name of the machine
	Source   string  `json:"source" enum:"source"` // where the readings come from
	Interval float64 `json:"interval_seconds"`     // time between readings
	// Time of the newest snapshot; the monitor's own start before the first reading.
	Timestamp string `json:"timestamp" format:"date-time"`
	// Time of the first point; the monitor's own start where there is none.
	Start          string         `json:"start" format:"date-time"`
	OffsetsSeconds []float64      `json:"offsets_seconds"` // time of each point after start
	GPUs           []RecentSeries `json:"gpus"`            // one entry a GPU
}

// RecentSeries is one device's past; a value is null where there was no
// reading.
type RecentSeries struct {
	GPUID   int    `json:"gpu_id"`   // place by PCI address
	GPUUUID string `json:"gpu_uuid"` // the GPU's key
	GPUName string `json:"gpu_name"` // product name
	Node    string `json:"node"`     // name of the machine that the GPU is in
	// By metric, whose name ends in its unit: whole numbers, one for each offset, null where there was
	// no reading.
	Values map[string][]Int `json:"values" unit:"any"`
}

// NewRecent makes it; newest may be nil.
func NewRecent(m Monitor, newest *gpu.Snapshot, v recent.View) Recent {
	out := Recent{
		Node:           m.Node,
		Source:         m.Source,
		Interval:       m.Interval.Seconds(),
		Timestamp:      timestamp(m.Started),
		Start:          timestamp(m.Started),
		OffsetsSeconds: make([]float64, len(v.Times)),
		GPUs:           make([]RecentSeries, len(v.Series)),
	}
	if newest != nil {
		out.Source, out.Timestamp = newest.Source, timestamp(newest.Time)
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
