package alert

import (
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// State is what an alert says.
type State string

// The states of an alert.
const (
	Firing   State = "firing"
	NoData   State = "no_data" // it fired, and the device does not report now what is watched: that ends nothing
	Resolved State = "resolved"
)

// An Alert is what one rule says of one device, or of the machine. It does not
// change: a later state of it is another Alert with the same ID. What has a name in
// JSON is kept over a restart as it is.
type Alert struct {
	ID       string   `json:"id"` // the same when it fires, stands and is resolved
	Rule     string   `json:"rule"`
	Watch    Watch    `json:"watch"`
	Severity Severity `json:"severity"`
	State    State    `json:"-"`
	// Device is what it is about. Of an alert about the machine only the Node
	// and Source are set; of one about a node of the fleet the Node alone.
	Device gpu.Identity `json:"-"`
	// Utilization of the device; absent where it does not answer now.
	Utilization gpu.Reading[gpu.Percent] `json:"-"`
	// Value of what is watched, in Unit; absent for conditions, and in the
	// state NoData.
	Value     gpu.Reading[float64] `json:"-"`
	Unit      string               `json:"unit,omitzero"`
	Threshold gpu.Reading[float64] `json:"-"`                  // absent for conditions
	Since     time.Time            `json:"since"`              // when it was first seen to be so
	Before    bool                 `json:"before,omitzero"`    // it may have been so before Since: the reading before, if any, did not tell
	Time      time.Time            `json:"time"`               // of the snapshot that this is about
	Ended     time.Time            `json:"ended,omitzero"`     // when it was so no more, once the alert is over; zero where that was not seen
	CutShort  string               `json:"cut_short,omitzero"` // what ended it, if it was not over by itself: "Dismissed by hand."; empty until then
	// Processes that cause it, busiest first. Once it is not so any more, they
	// are those of the last moment at which it was.
	Processes []gpu.Process `json:"-"`
	Message   string        `json:"message"`
	Advice    string        `json:"advice,omitzero"` // what to do, a sentence; empty where the causes of the device say it
	// The message in two parts, for whoever names the device and the time in another way. Empty until
	// the first reading after a restart.
	Is     string `json:"-"` // what is so now, after the name of what it is about: "is lost"
	More   string `json:"-"` // sentences; may be empty
	Easing bool   `json:"-"` // what it fired for is not so now: it ends if that stays

	// What it fired for, which stays when it is over: the message when it fired, and its first part as Is; the value that was furthest
	// beyond the threshold so far, absent for conditions; and whose processes caused it, the first of them first.
	Fired   string               `json:"fired,omitzero"`
	FiredIs string               `json:"fired_is,omitzero"`
	Peak    gpu.Reading[float64] `json:"-"`
	Users   []string             `json:"users,omitempty"`

	Acknowledged  *Acknowledgment `json:"acknowledged,omitempty"` // nil where nobody has
	SilencedUntil time.Time       `json:"-"`                      // when the silence ends that covers it; zero for none
	Targets       []string        `json:"-"`                      // the rule's
	Told          time.Time       `json:"-"`                      // when people were told last, of those that stand; zero: never
}

// About reports whether the alert is about a device, not the machine.
func (a *Alert) About() bool { return a.Device.UUID != "" }

// PeakText is the value that was furthest beyond the threshold, with its unit, for people; empty where there is none.
func (a *Alert) PeakText() string {
	v, ok := a.Peak.Get()
	if !ok {
		return ""
	}
	return amount(v, a.Unit)
}

// Noun is what it is about: a "GPU", a "driver", or a "machine".
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

// Lasted is how long it is so, or was: the clear time does not count.
func (a *Alert) Lasted() time.Duration {
	if !a.Ended.IsZero() {
		return a.Ended.Sub(a.Since)
	}
	return a.Time.Sub(a.Since)
}

// An Acknowledgment says that somebody knows of an alert. The alert is then not
// repeated.
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
	Repeated News = "repeated" // nothing has changed for so long that people are told again
	DataGone News = "data_gone"
	DataBack News = "data_back"
	Resumed  News = "resumed" // it is seen to stand since gpuwhy began anew; nothing has happened
	Marked   News = "marked"  // acknowledged or silenced, or not any more
	Over     News = "over"
)

// A Change is an alert with what is new about it.
type Change struct {
	Alert
	News News
	Tell bool // people are to be told
}
