package contract

import (
	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/insight"
)

// Alerts answers GET /api/alerts: the alerts that stand, those that are over, and the silences.
type Alerts struct {
	Node   string `json:"node"`                 // name of the machine
	Source string `json:"source" enum:"source"` // where the readings come from
	// Time of the newest snapshot; the monitor's own start before the first reading.
	Timestamp string    `json:"timestamp" format:"date-time"`
	Count     int       `json:"alert_count"` // how many fire
	Alerts    []Alert   `json:"alerts"`      // that fire, the worst first; a thousand at most
	Past      []Alert   `json:"past"`        // the last hundred that are over, the newest first; they have no causes
	Ended     int       `json:"ended_count"` // how many ended in the last 24 hours, however many past has
	Silences  []Silence `json:"silences"`    // in force, the one that ends first, first
}

// mostAlerts is how many are listed. Nobody reads more, and programs can use the counts.
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

// Silence is a time without messages about some alerts, which fire all the same.
type Silence struct {
	ID      string `json:"silence_id"`               // the silence's key
	Rule    string `json:"rule"`                     // pattern of rules' names; empty for all
	Node    string `json:"node"`                     // pattern of machines' names; empty for all
	GPUUUID string `json:"gpu_uuid"`                 // pattern of GPUs' UUIDs; empty for all, and for what is about the machine
	By      string `json:"by"`                       // name of who made it; may be empty
	Comment string `json:"comment"`                  // what they say of it; may be empty
	Since   string `json:"since" format:"date-time"` // when it began
	Until   string `json:"until" format:"date-time"` // when it ends
}

// NewSilence makes it.
func NewSilence(s *alert.Silence) Silence {
	return Silence{s.ID, s.Rule, s.Node, s.GPU, s.By, s.Comment, timestamp(s.Since), timestamp(s.Until)}
}

// Silences answers GET /api/silences.
type Silences struct {
	Silences []Silence `json:"silences"` // in force, the one that ends first, first
}

// NewSilences makes it.
func NewSilences(silences []alert.Silence) Silences { return Silences{listOf(silences, NewSilence)} }

// Note is the body of POST /api/alerts/{id}/acknowledge.
type Note struct {
	By      string `json:"by,omitempty"`                      // ignored: gpuwhy names who makes the request
	Comment string `json:"comment,omitempty" maxlength:"200"` // what they say of it
}

// SilenceRequest is the body of POST /api/silences.
type SilenceRequest struct {
	Rule     string  `json:"rule,omitempty" maxlength:"253"`          // pattern of rules' names: * is any text, ? one character; empty for all
	Node     string  `json:"node,omitempty" maxlength:"253"`          // pattern of machines' names; empty for all
	GPUUUID  string  `json:"gpu_uuid,omitempty" maxlength:"253"`      // pattern of GPUs' UUIDs; empty for all
	By       string  `json:"by,omitempty"`                            // ignored: gpuwhy names who makes the request
	Comment  string  `json:"comment,omitempty" maxlength:"200"`       // what they say of it
	Duration float64 `json:"duration_seconds" min:"1" max:"31622400"` // for how long; 366 days at most
}

// SilenceSpan is the body of POST /api/alerts/{id}/silence.
type SilenceSpan struct {
	By       string  `json:"by,omitempty"`                            // ignored: gpuwhy names who makes the request
	Comment  string  `json:"comment,omitempty" maxlength:"200"`       // what they say of it
	Duration float64 `json:"duration_seconds" min:"1" max:"31622400"` // for how long; 366 days at most
}

// NoteOfSeveral is the body of POST /api/alerts/acknowledge.
type NoteOfSeveral struct {
	IDs     []string `json:"alert_ids" minitems:"1" maxitems:"1000"` // which alerts; of those that are over by then nothing changes
	By      string   `json:"by,omitempty"`                           // ignored: gpuwhy names who makes the request
	Comment string   `json:"comment,omitempty" maxlength:"200"`      // what they say of them
}

// SilenceOfSeveral is the body of POST /api/alerts/silence.
type SilenceOfSeveral struct {
	IDs      []string `json:"alert_ids" minitems:"1" maxitems:"1000"`  // which alerts; of those that are over by then none is silenced
	By       string   `json:"by,omitempty"`                            // ignored: gpuwhy names who makes the request
	Comment  string   `json:"comment,omitempty" maxlength:"200"`       // what they say of them
	Duration float64  `json:"duration_seconds" min:"1" max:"31622400"` // for how long; 366 days at most
}

// SeveralAlerts answers POST /api/alerts/acknowledge.
type SeveralAlerts struct {
	Alerts []Alert `json:"alerts"` // as they stand, in the order of the request
}

// NewSeveralAlerts makes it.
func NewSeveralAlerts(list []alert.Alert, now *insight.Fleet) SeveralAlerts {
	return SeveralAlerts{listOf(list, func(a *alert.Alert) Alert { return NewAlert(a, now) })}
}

// AlertRules answers GET /api/alert-rules.
type AlertRules struct {
	Rules []AlertRule `json:"rules"` // also those that are not enabled
}

// AlertRule says when an alert fires, when it is over, and how often messages repeat it.
type AlertRule struct {
	Name        string   `json:"name"`                                  // the rule's key
	Watch       string   `json:"watch"`                                 // what it looks at
	Enabled     bool     `json:"enabled"`                               // whether it is in force
	Severity    string   `json:"severity" enum:"info,warning,critical"` // how much its alerts matter
	Threshold   Float    `json:"threshold" unit:"any"`                  // beyond which it fires; null where what it looks at either is so or not
	Unit        string   `json:"unit"`                                  // of threshold and margin: "%", "°C", "W", "MiB"; empty for what is counted
	Below       bool     `json:"below"`                                 // it fires below the threshold, not above
	Margin      float64  `json:"margin" unit:"any"`                     // how far back from the threshold it must be to be over
	Hold        float64  `json:"hold_seconds"`                          // how long it must be beyond the threshold to fire
	Clear       float64  `json:"clear_seconds"`                         // how long it must be back to be over
	Cooldown    float64  `json:"cooldown_seconds"`                      // how long no other alert fires after that
	Repeat      float64  `json:"repeat_seconds"`                        // after how long it is told again; 0: never
	Nodes       []string `json:"nodes"`                                 // patterns of the machines that it looks at; all where there are none
	GPUs        []string `json:"gpus"`                                  // patterns of GPUs' UUIDs, names or indices; all where there are none
	Users       []string `json:"users"`                                 // patterns of the users whose processes it looks at; all where there are none
	Processes   []string `json:"processes"`                             // patterns of the processes' names; all where there are none
	Codes       []int    `json:"codes" unit:"any"`                      // XIDs that it counts; all where there are none
	IgnoreCodes []int    `json:"ignore_codes" unit:"any"`               // XIDs that it does not count
	Targets     []string `json:"notify"`                                // names of the targets that are told; all where there are none
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
