package contract

import (
	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/insight"
)

// Alerts answers GET /api/alerts: open alerts, past alerts and silences.
type Alerts struct {
	Node   string `json:"node"`                 // name of the machine
	Source string `json:"source" enum:"source"` // the source of the readings
	// Time of the newest snapshot; before the first reading, when the monitor started.
	Timestamp string    `json:"timestamp" format:"date-time"`
	Count     int       `json:"alert_count"` // the number of open alerts
	Alerts    []Alert   `json:"alerts"`      // open alerts, worst first; at most a thousand
	Past      []Alert   `json:"past"`        // the last hundred alerts that are over, newest first, without causes
	Ended     int       `json:"ended_count"` // the number of alerts that ended in the last 24 hours, which may exceed the length of past
	Silences  []Silence `json:"silences"`    // active silences, in the order in which they end
}

// mostAlerts is how many alerts are listed. Nobody reads more, and programs can use the counts.
const mostAlerts = 1000

// NewAlerts makes it.
func NewAlerts(m Monitor, f *insight.Fleet, standing, past []alert.Alert, ended int, silences []alert.Silence) Alerts {
	count := len(standing)
	standing = standing[:min(count, mostAlerts)]
	out := Alerts{
		Node: m.Node, Count: count, Ended: ended,
		Alerts:   listOf(standing, func(a *alert.Alert) Alert { return NewAlert(a, f) }),
		Past:     listOf(past, func(a *alert.Alert) Alert { return NewAlert(a, nil) }),
		Silences: listOf(silences, NewSilence),
	}
	out.Timestamp, out.Source = m.head(f)
	return out
}

// Silence is a time without messages about some alerts, which still fire.
type Silence struct {
	ID      string `json:"silence_id"`               // the silence's key
	Rule    string `json:"rule"`                     // pattern for rule names; empty for all
	Node    string `json:"node"`                     // pattern for machine names; empty for all
	GPUUUID string `json:"gpu_uuid"`                 // pattern for GPU UUIDs; empty for all, including alerts about the machine
	By      string `json:"by"`                       // who made it; may be empty
	Comment string `json:"comment"`                  // their comment; may be empty
	Since   string `json:"since" format:"date-time"` // when it began
	Until   string `json:"until" format:"date-time"` // when it ends
}

// NewSilence makes it.
func NewSilence(s *alert.Silence) Silence {
	return Silence{s.ID, s.Rule, s.Node, s.GPU, s.By, s.Comment, timestamp(s.Since), timestamp(s.Until)}
}

// Silences answers GET /api/silences.
type Silences struct {
	Silences []Silence `json:"silences"` // active silences, in the order in which they end
}

// NewSilences makes it.
func NewSilences(silences []alert.Silence) Silences { return Silences{listOf(silences, NewSilence)} }

// Note is the body of POST /api/alerts/{id}/acknowledge.
type Note struct {
	By      string `json:"by,omitempty" ignored:"true"`       // ignored: gpuwhy records who makes the request
	Comment string `json:"comment,omitempty" maxlength:"200"` // a comment
}

// SilenceRequest is the body of POST /api/silences.
type SilenceRequest struct {
	Rule     string  `json:"rule,omitempty" maxlength:"253"`          // pattern for rule names: * is any text, ? one character; empty for all
	Node     string  `json:"node,omitempty" maxlength:"253"`          // pattern for machine names; empty for all
	GPUUUID  string  `json:"gpu_uuid,omitempty" maxlength:"253"`      // pattern for GPU UUIDs; empty for all
	By       string  `json:"by,omitempty" ignored:"true"`             // ignored: gpuwhy records who makes the request
	Comment  string  `json:"comment,omitempty" maxlength:"200"`       // a comment
	Duration float64 `json:"duration_seconds" min:"1" max:"31622400"` // length of the silence; at most 366 days
}

// SilenceSpan is the body of POST /api/alerts/{id}/silence.
type SilenceSpan struct {
	By       string  `json:"by,omitempty" ignored:"true"`             // ignored: gpuwhy records who makes the request
	Comment  string  `json:"comment,omitempty" maxlength:"200"`       // a comment
	Duration float64 `json:"duration_seconds" min:"1" max:"31622400"` // length of the silence; at most 366 days
}

// NoteOfSeveral is the body of POST /api/alerts/acknowledge.
type NoteOfSeveral struct {
	IDs     []string `json:"alert_ids" minitems:"1" maxitems:"1000"` // the alerts; those that are already over do not change
	By      string   `json:"by,omitempty" ignored:"true"`            // ignored: gpuwhy records who makes the request
	Comment string   `json:"comment,omitempty" maxlength:"200"`      // a comment
}

// SilenceOfSeveral is the body of POST /api/alerts/silence.
type SilenceOfSeveral struct {
	IDs      []string `json:"alert_ids" minitems:"1" maxitems:"1000"`  // the alerts; those that are already over are not silenced
	By       string   `json:"by,omitempty" ignored:"true"`             // ignored: gpuwhy records who makes the request
	Comment  string   `json:"comment,omitempty" maxlength:"200"`       // a comment
	Duration float64  `json:"duration_seconds" min:"1" max:"31622400"` // length of the silence; at most 366 days
}

// SeveralAlerts answers POST /api/alerts/acknowledge.
type SeveralAlerts struct {
	Alerts []Alert `json:"alerts"` // the current alerts, in the order of the request
}

// NewSeveralAlerts makes it.
func NewSeveralAlerts(list []alert.Alert, now *insight.Fleet) SeveralAlerts {
	return SeveralAlerts{listOf(list, func(a *alert.Alert) Alert { return NewAlert(a, now) })}
}

// AlertRules answers GET /api/alert-rules.
type AlertRules struct {
	Rules []AlertRule `json:"rules"` // all rules, including disabled ones
}

// AlertRule says when an alert fires, when it is over, and how often messages repeat it.
type AlertRule struct {
	Name        string   `json:"name"`                                  // the rule's key
	Watch       string   `json:"watch"`                                 // what it watches
	Enabled     bool     `json:"enabled"`                               // whether it is in force
	Severity    string   `json:"severity" enum:"info,warning,critical"` // how much its alerts matter
	Threshold   Float    `json:"threshold" unit:"any"`                  // the value beyond which it fires; null for a condition
	Unit        string   `json:"unit"`                                  // unit of threshold and margin: "%", "°C", "W", "MiB"; empty for counts
	Below       bool     `json:"below"`                                 // whether it fires below the threshold rather than above
	Margin      float64  `json:"margin" unit:"any"`                     // how far back from the threshold the value must be for the alert to end
	Hold        float64  `json:"hold_seconds"`                          // how long the value must be beyond the threshold to fire
	Clear       float64  `json:"clear_seconds"`                         // how long the value must be back for the alert to end
	Cooldown    float64  `json:"cooldown_seconds"`                      // how long no other alert fires after that
	Repeat      float64  `json:"repeat_seconds"`                        // how often targets are reminded; 0: never
	Nodes       []string `json:"nodes"`                                 // patterns for machine names; all if empty
	GPUs        []string `json:"gpus"`                                  // patterns for GPU UUIDs, names or indices; all if empty
	Users       []string `json:"users"`                                 // patterns for the users whose processes count; all if empty
	Processes   []string `json:"processes"`                             // patterns for process names; all if empty
	Codes       []int    `json:"codes" unit:"any"`                      // XIDs that count; all if empty
	IgnoreCodes []int    `json:"ignore_codes" unit:"any"`               // XIDs that do not count
	Targets     []string `json:"notify"`                                // names of the targets that get messages; all if empty
}

// NewAlertRules makes it.
func NewAlertRules(rules []alert.Rule) AlertRules { return AlertRules{listOf(rules, newAlertRule)} }

func newAlertRule(r *alert.Rule) AlertRule {
	threshold := gpu.Of(r.Threshold)
	if r.Watch.Condition() {
		threshold = Float{}
	}
	return AlertRule{
		Name: r.Name, Watch: string(r.Watch), Enabled: r.Enabled, Severity: string(r.Severity),
		Threshold: threshold, Unit: r.Watch.Unit(), Below: r.Watch.Below(), Margin: r.Margin,
		Hold: r.Hold.Seconds(), Clear: r.Clear.Seconds(), Cooldown: r.Cooldown.Seconds(), Repeat: r.Repeat.Seconds(),
		Nodes: listed(r.Scope.Nodes), GPUs: listed(r.Scope.GPUs), Users: listed(r.Scope.Users), Processes: listed(r.Scope.Processes),
		Codes: listed(r.Codes), IgnoreCodes: listed(r.IgnoreCodes), Targets: listed(r.Targets),
	}
}

// listed is a list that is never null.
func listed[T any](list []T) []T { return append([]T{}, list...) }
