package alert

import (
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// State is the state of an alert.
type State string

// The states of an alert.
const (
	Firing   State = "firing"
	NoData   State = "no_data" // it fired, and the device does not report the value now; that does not end it
	Resolved State = "resolved"
)

// An Alert is what one rule says about one device or about the machine. It is immutable: a later
// state is another Alert with the same ID. Fields with a JSON name survive a restart unchanged.
type Alert struct {
	ID       string   `json:"id"` // the same from firing to resolved
	Rule     string   `json:"rule"`
	Watch    Watch    `json:"watch"`
	Severity Severity `json:"severity"`
	State    State    `json:"-"`
	// Device is what the alert is about. For an alert about the machine only Node and Source are
	// set; for one about a node of the fleet, only Node.
	Device gpu.Identity `json:"-"`
	// Utilization of the device; absent while the device does not answer.
	Utilization gpu.Reading[gpu.Percent] `json:"-"`
	// Value is the watched value, in Unit; absent for conditions and in the state NoData.
	Value     gpu.Reading[float64] `json:"-"`
	Unit      string               `json:"unit,omitzero"`
	Threshold gpu.Reading[float64] `json:"-"`                  // absent for conditions
	Since     time.Time            `json:"since"`              // when it was first seen to be so
	Before    bool                 `json:"before,omitzero"`    // it may have begun before Since: the previous reading, if any, did not report it
	Time      time.Time            `json:"time"`               // time of the snapshot that this state is from
	Ended     time.Time            `json:"ended,omitzero"`     // when the condition ended, once the alert is over; zero if that was not seen
	CutShort  string               `json:"cut_short,omitzero"` // what ended it, if it did not end on its own: "Dismissed by hand."; empty until then
	// Processes that cause it, busiest first. Once the cause is gone, they are the processes of the
	// last moment at which it held.
	Processes []gpu.Process `json:"-"`
	Message   string        `json:"message"`
	Advice    string        `json:"advice,omitzero"` // what to do, in a sentence; empty if the device's causes say it
	// The message in two parts, for callers that name the device and the time in another way. Empty
	// until the first reading after a restart.
	Is     string `json:"-"` // the current state, to follow the name of the subject: "is lost"
	More   string `json:"-"` // sentences; may be empty
	Easing bool   `json:"-"` // the value is back: the alert ends if it stays there

	// What it fired for, kept once it is over: the message when it fired, with its first part as Is; the value furthest beyond
	// the threshold so far, absent for conditions; and the users whose processes caused it, in order of appearance.
	Fired   string               `json:"fired,omitzero"`
	FiredIs string               `json:"fired_is,omitzero"`
	Peak    gpu.Reading[float64] `json:"-"`
	Users   []string             `json:"users,omitempty"`

	Acknowledged  *Acknowledgment `json:"acknowledged,omitempty"` // nil if nobody has
	SilencedUntil time.Time       `json:"-"`                      // when the silence that covers it ends; zero for none
	Targets       []string        `json:"-"`                      // the rule's
	Told          time.Time       `json:"-"`                      // when people were last told, for open alerts; zero: never
}

// About reports whether the alert is about a device, not the machine.
func (a *Alert) About() bool { return a.Device.UUID != "" }

// PeakText is the value furthest beyond the threshold, with its unit, for people; empty if there is none.
func (a *Alert) PeakText() string {
	v, ok := a.Peak.Get()
	if !ok {
		return ""
	}
	return amount(v, a.Unit)
}

// Noun names the kind of subject: "GPU", "driver" or "machine".
func (a *Alert) Noun() string {
	switch keyOf(&a.Device).about() {
	case aSource:
		return "driver"
	case aNode:
		return "machine"
	default:
		return "GPU"
	}
}

// Lasted is how long the condition lasts, or lasted, without the clear time.
func (a *Alert) Lasted() time.Duration {
	if !a.Ended.IsZero() {
		return a.Ended.Sub(a.Since)
	}
	return a.Time.Sub(a.Since)
}

// An Acknowledgment says that somebody knows about an alert. The alert is then not repeated.
type Acknowledgment struct {
	By      string    `json:"by"`      // name of the principal; may be empty
	Comment string    `json:"comment"` // may be empty
	At      time.Time `json:"at"`
}

// News is what changed about an alert.
type News string

// What can change.
const (
	Fired    News = "fired"
	Repeated News = "repeated" // it has stood so long that people are reminded
	DataGone News = "data_gone"
	DataBack News = "data_back"
	Resumed  News = "resumed" // it still stands after a restart of gpuwhy; nothing has happened
	Marked   News = "marked"  // acknowledged or silenced, or no longer so
	Over     News = "over"
)

// A Change is an alert and what is new about it.
type Change struct {
	Alert
	News News
	Tell bool // whether people should be told
}
