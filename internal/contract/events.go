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
	// HighGPUUsage is when utilization is above the threshold, and when that is over.
	HighGPUUsage = "high_gpu_usage_alert"
	// AlertEvent is all other news of alerts.
	AlertEvent = "alert"
)

// NameOf is the name of the event for news of an alert of a rule. For a viewer that
// connects while an alert stands, it has fired.
func NameOf(rule string, news alert.News) string {
	if rule == alert.HighGPUUsage && (news == alert.Fired || news == alert.Over) {
		return HighGPUUsage
	}
	return AlertEvent
}

// Alert is the data of high_gpu_usage_alert and of alert.
type Alert struct {
	ID          string    `json:"alert_id"`                              // the alert's key, the same when it is over
	Rule        string    `json:"rule"`                                  // name of the rule that it is of
	Severity    string    `json:"severity" enum:"info,warning,critical"` // how much it matters
	State       string    `json:"state" enum:"firing,no_data,resolved"`  // whether it is still so; no_data: it was, and nothing is reported now that could end it
	Node        string    `json:"node"`                                  // name of the machine
	Source      string    `json:"source" enum:"source"`                  // where the readings come from
	GPUID       int       `json:"gpu_id" unit:"any"`                     // place by PCI address; -1 where it is about the machine
	GPUUUID     string    `json:"gpu_uuid"`                              // the GPU's key; empty where it is about the machine
	GPUName     string    `json:"gpu_name"`                              // product name; empty where it is about the machine
	Utilization Percent   `json:"utilization_percent"`                   // now. Null while the GPU does not answer
	Threshold   Float     `json:"threshold_percent"`                     // the same as threshold, where that is in percent; null elsewhere
	Watch       string    `json:"watch"`                                 // what the rule looks at
	Value       Float     `json:"value" unit:"any"`                      // of what the rule looks at, now. Null where it either is so or not, and where it is not reported
	Unit        string    `json:"unit"`                                  // of value and threshold: "%", "°C", "W", "MiB"; empty for what is counted
	Limit       Float     `json:"threshold" unit:"any"`                  // beyond which the alert fires; null where it either is so or not
	Since       string    `json:"since" format:"date-time"`              // when it first was seen to be so
	Timestamp   string    `json:"timestamp" format:"date-time"`          // time of the snapshot
	Processes   []Process `json:"processes"`                             // those that cause it, busiest first
	Message     string    `json:"message"`                               // one sentence for people
	Fired       string    `json:"fired_message"`                         // the message when it fired, which tells what for also once it is over; empty of one that an earlier gpuwhy told of
	Peak        Float     `json:"peak" unit:"any"`                       // the value that was furthest beyond the threshold so far. Null where there is no value
	Users       []string  `json:"users"`                                 // whose processes caused it
	Advice      string    `json:"advice"`                                // what to do, a sentence; empty where the causes say it
	Why         string    `json:"why"`                                   // why the GPU is as it is now, in one sentence; empty where it is gone
	Headline    string    `json:"headline"`                              // the same in a few words; empty where it is gone
	Causes      []Cause   `json:"causes"`                                // what makes it so, the most important first
	// Who said that they know of it; null where nobody has. Such an alert is not repeated.
	Acknowledged *Acknowledgment `json:"acknowledged"`
	// Until when nobody gets messages about it; null where no silence covers it.
	SilencedUntil *string `json:"silenced_until" format:"date-time"`
}

// Acknowledgment says that somebody knows of an alert.
type Acknowledgment struct {
	By        string `json:"by"`                           // name of who said so; may be empty
	Comment   string `json:"comment"`                      // what they say of it; may be empty
	Timestamp string `json:"timestamp" format:"date-time"` // when
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
		Processes:     listOf(a.Processes, func(p *gpu.Process) Process { return newProcess(p, gpu.Reading[gpu.Watts]{}) }),
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
	if by := a.Acknowledged; by != nil {
		out.Acknowledged = &Acknowledgment{by.By, by.Comment, timestamp(by.At)}
	}
	if p, ok := now.Device(a.Device.Node, a.Device.UUID); ok {
		out.Why, out.Headline, out.Causes = p.Why.Sentence, p.Why.Headline, newCauses(p.Why.Causes)
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
	// One entry a machine, from the time without a GPU; left out where there was none.
	Machines []RecentMachine `json:"machines,omitempty"`
}

// RecentMachine is the past of a machine without a GPU.
type RecentMachine struct {
	Node string `json:"node"` // name of the machine
	// By metric, as those of a GPU.
	Values map[string][]Int `json:"values" unit:"any"`
}

// RecentSeries is one device's past; a value is null where there was no reading.
type RecentSeries struct {
	GPUID   int    `json:"gpu_id"`   // place by PCI address
	GPUUUID string `json:"gpu_uuid"` // the GPU's key
	GPUName string `json:"gpu_name"` // product name
	Node    string `json:"node"`     // name of the machine that the GPU is in
	// By metric, whose name ends in its unit: whole numbers, one for each offset, null where there was
	// no reading.
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
