package contract

import (
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/past/recent"
)

// The names of the events with an [Alert].
const (
	// HighGPUUsage is sent when utilization is above the threshold, and when that is over.
	HighGPUUsage = "high_gpu_usage_alert"
	// AlertEvent is sent for all other changes of alerts.
	AlertEvent = "alert"
)

// NameOf returns the name of the event for news of a rule's alert. For a viewer that connects while
// an alert is open, the news is that it fired.
func NameOf(rule string, news alert.News) string {
	if rule == alert.HighGPUUsage && (news == alert.Fired || news == alert.Over) {
		return HighGPUUsage
	}
	return AlertEvent
}

// Alert is the data of high_gpu_usage_alert and of alert.
type Alert struct {
	ID          string    `json:"alert_id"`                              // the alert's key, unchanged when it is over
	Rule        string    `json:"rule"`                                  // name of its rule
	Severity    string    `json:"severity" enum:"info,warning,critical"` // how much it matters
	State       string    `json:"state" enum:"firing,no_data,resolved"`  // firing: it is still so; no_data: it fired, but the value is not reported now; resolved: it is over
	Node        string    `json:"node"`                                  // name of the machine
	Source      string    `json:"source" enum:"source"`                  // the source of the readings
	GPUID       int       `json:"gpu_id" unit:"any"`                     // place by PCI address; -1 if it is about the machine
	GPUUUID     string    `json:"gpu_uuid"`                              // the GPU's key; empty if it is about the machine
	GPUName     string    `json:"gpu_name"`                              // product name; empty if it is about the machine
	Utilization Percent   `json:"utilization_percent"`                   // current utilization. Null while the GPU does not answer
	Threshold   Float     `json:"threshold_percent"`                     // the threshold, if it is in percent; otherwise null
	Watch       string    `json:"watch"`                                 // what the rule watches
	Value       Float     `json:"value" unit:"any"`                      // current value of what the rule watches. Null for a condition, and if not reported
	Unit        string    `json:"unit"`                                  // unit of value and threshold: "%", "°C", "W", "MiB"; empty for counts
	Limit       Float     `json:"threshold" unit:"any"`                  // the value beyond which the alert fires; null for a condition
	Since       string    `json:"since" format:"date-time"`              // when it was first seen
	Timestamp   string    `json:"timestamp" format:"date-time"`          // time of the snapshot
	Processes   []Process `json:"processes"`                             // the processes that cause it, busiest first
	Message     string    `json:"message"`                               // one sentence for people
	Fired       string    `json:"fired_message"`                         // the message when it fired, kept after it is over; empty for an alert from an earlier version of gpuwhy
	Peak        Float     `json:"peak" unit:"any"`                       // the value furthest beyond the threshold so far. Null if there is no value
	Users       []string  `json:"users"`                                 // the users whose processes caused it
	Advice      string    `json:"advice"`                                // what to do, in a sentence; empty if the causes say it
	Why         string    `json:"why"`                                   // what explains the GPU's current state, in one sentence; empty if the GPU is gone
	Headline    string    `json:"headline"`                              // the same in a few words; empty if the GPU is gone
	Causes      []Cause   `json:"causes"`                                // the causes, most important first
	// Who acknowledged it; null if nobody did. Acknowledged alerts are not repeated.
	Acknowledged *Acknowledgment `json:"acknowledged"`
	// Until when targets get no messages about it; null if no silence covers it.
	SilencedUntil *string `json:"silenced_until" format:"date-time"`
}

// Acknowledgment says that somebody knows about an alert.
type Acknowledgment struct {
	By        string `json:"by"`                           // who acknowledged it; may be empty
	Comment   string `json:"comment"`                      // their comment; may be empty
	Timestamp string `json:"timestamp" format:"date-time"` // when
}

// NewProcesses makes the processes of an alert.
func NewProcesses(list []gpu.Process) []Process {
	return listOf(list, func(p *gpu.Process) Process { return newProcess(p, gpu.Reading[gpu.Watts]{}) })
}

// NewAlert makes an Alert. Its causes are those of the alert's device now, if that still exists.
func NewAlert(a *alert.Alert, now *insight.Fleet) Alert {
	out := Alert{
		ID:            a.ID,
		Rule:          a.Rule,
		Severity:      string(a.Severity),
		State:         string(a.State),
		Node:          a.Device.Node,
		Source:        a.Device.Source,
		GPUID:         -1,
		Utilization:   a.Utilization,
		Watch:         string(a.Watch),
		Value:         a.Value,
		Unit:          a.Unit,
		Limit:         a.Threshold,
		Since:         timestamp(a.Since),
		Timestamp:     timestamp(a.Time),
		Processes:     NewProcesses(a.Processes),
		Message:       a.Message,
		Fired:         a.Fired,
		Peak:          a.Peak,
		Users:         append([]string{}, a.Users...),
		Advice:        a.Advice,
		Causes:        []Cause{},
		SilencedUntil: optionalTime(a.SilencedUntil),
	}
	if a.About() {
		out.GPUID, out.GPUUUID, out.GPUName = a.Device.Index, a.Device.UUID, a.Device.Name
	}
	if a.Unit == "%" {
		out.Threshold = out.Limit
	}
	if ack := a.Acknowledged; ack != nil {
		out.Acknowledged = &Acknowledgment{ack.By, ack.Comment, timestamp(ack.At)}
	}
	if p, ok := now.Device(a.Device.Node, a.Device.UUID); ok {
		out.Why, out.Headline, out.Causes = p.Why.Sentence, p.Why.Headline, newCauses(p.Why.Causes)
	}
	return out
}

// Recent answers GET /api/gpu/recent: what the page's charts start with. All series share the same
// times: start plus each of offsets_seconds.
type Recent struct {
	Node     string  `json:"node"`                 // name of the machine
	Source   string  `json:"source" enum:"source"` // the source of the readings
	Interval float64 `json:"interval_seconds"`     // time between readings
	// Time of the newest snapshot; before the first reading, when the monitor started.
	Timestamp string `json:"timestamp" format:"date-time"`
	// Time of the first point; without points, when the monitor started.
	Start          string         `json:"start" format:"date-time"`
	OffsetsSeconds []float64      `json:"offsets_seconds"` // time of each point after start
	GPUs           []RecentSeries `json:"gpus"`            // one entry per GPU
	// One entry per machine, for times without a GPU; left out if there were none.
	Machines []RecentMachine `json:"machines,omitempty"`
}

// RecentMachine is the past of a machine without a GPU.
type RecentMachine struct {
	Node string `json:"node"` // name of the machine
	// Values by metric, as for a GPU.
	Values map[string][]Int `json:"values" unit:"any"`
}

// RecentSeries is one device's past. A value is null if there was no reading.
type RecentSeries struct {
	GPUID   int    `json:"gpu_id"`   // place by PCI address
	GPUUUID string `json:"gpu_uuid"` // the GPU's key
	GPUName string `json:"gpu_name"` // product name
	Node    string `json:"node"`     // name of the GPU's machine
	// Values by metric, whose name ends in its unit: whole numbers, one per offset, null if there
	// was no reading.
	Values map[string][]Int `json:"values" unit:"any"`
}

// NewRecent makes it.
func NewRecent(m Monitor, f *insight.Fleet, v recent.View) Recent {
	out := Recent{
		Node:           m.Node,
		Interval:       m.Interval.Seconds(),
		Start:          timestamp(m.Started),
		OffsetsSeconds: listOf(v.Times, func(t *time.Time) float64 { return inSeconds(t.Sub(v.Times[0])) }),
		GPUs:           listOf(v.Series, newRecentSeries),
		Machines: listOf(v.Machines, func(s *recent.Series) RecentMachine {
			return RecentMachine{s.Node, newRecentSeries(s).Values}
		}),
	}
	out.Timestamp, out.Source = m.head(f)
	if len(v.Times) > 0 {
		out.Start = timestamp(v.Times[0])
	}
	return out
}

func newRecentSeries(s *recent.Series) RecentSeries {
	values := make(map[string][]Int, len(s.Values))
	for metric, list := range s.Values {
		values[metric] = listOf(list, func(v *Float) Int { return integer(*v) })
	}
	return RecentSeries{s.Index, s.UUID, s.Name, s.Node, values}
}
