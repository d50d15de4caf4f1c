package explain

import (
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A Kind names the rule that found a cause. A device has at most one cause of each kind.
type Kind string

// The kinds. A device's causes have this order.
const (
	Lost          Kind = "lost"
	NotAnswering  Kind = "not_answering"
	Asleep        Kind = "asleep"
	NoReadings    Kind = "no_readings"         // it answers, but reports no readings, now or ever
	NeedsAction   Kind = "needs_action"        // its driver asks for a reset or similar
	StuckCounter  Kind = "busy_counter_stuck"  // "100 % busy" but nothing running
	FanFailing    Kind = "fan_failing"         // the fan does not turn as commanded
	FanUnreadable Kind = "fan_unreadable"      // the driver fails to read a fan
	FanByHand     Kind = "fan_set_by_hand"     // the fan does not follow the temperature
	Work          Kind = "work"                // somebody uses the device
	CoolingDown   Kind = "cooling_down"        // work has ended, but its heat remains
	HeldAwake     Kind = "held_awake"          // no work, but fast clocks or more power than at rest
	LimitedByHeat Kind = "limited_by_heat"     // heat holds its clocks down
	LimitedPower  Kind = "limited_by_power"    // a power limit holds its clocks down
	HotForPower   Kind = "hot_for_its_power"   // hotter than before, or than its neighbors
	FanAtRest     Kind = "fan_at_rest"         // its fan turns, and neither work nor the heat of work explains it
	Frozen        Kind = "frozen_sensor"       // the temperature does not change while the power does
	Unexplained   Kind = "unexplained"         // power without any reported work
	Idle          Kind = "idle"                // nothing to explain
	Reserved      Kind = "reserved_unused"     // for a pod that has no process on it
	ChassisFans   Kind = "chassis_fans"        // it has no fan of its own
	DriverError   Kind = "driver_error"        // the newest XID of the last hour
	Doubtful      Kind = "doubtful_reading"    // an impossible or unlikely reading
	NotKnowable   Kind = "not_knowable"        // what can't be known here, and what is missing
	WarmAir       Kind = "warm_air"            // of the machine: all its devices run hotter than before
	OtherFan      Kind = "other_fan"           // of the machine: the loud fan is not the device's
	CPUWork       Kind = "cpu_work"            // of a machine without a device: somebody uses the CPU
	CPUCooling    Kind = "cpu_cooling_down"    // likewise: that work has ended, but its heat remains
	CPUHeat       Kind = "cpu_limited_by_heat" // likewise: the CPU slows itself down
	HotSensor     Kind = "hot_sensor"          // likewise: a part other than the CPU
	MachineFan    Kind = "machine_fan"         // likewise: a fan that nothing known explains, or that fails
	NoFanShown    Kind = "no_fan_shown"        // likewise: the system shows no fan
	MachineAtRest Kind = "machine_at_rest"     // likewise: nothing to explain
	NoDevice      Kind = "no_gpu"              // of the machine: nothing can be read
	Starting      Kind = "starting"            // of the machine: nothing has been read yet
	NoMachine     Kind = "no_machine"          // of no machine: there are some, and whoever asks may see none of them
	SourceFailed  Kind = "source_failed"       // of the machine: one source of several
	Note          Kind = "note"                // of the machine: what gpuwhy can't see from here
)

// Confidence is how likely a cause is the true one, from 0 to 1. It is a judgment, not a measured frequency: each rule gives one of three
// values.
type Confidence float64

// The confidences that rules give.
const (
	High   Confidence = 0.95 // the device says so itself, or independent readings agree
	Medium Confidence = 0.7  // the readings fit, but something else could look the same
	Low    Confidence = 0.4  // the best guess while the deciding readings are absent
)

// String returns "high", "medium" or "low".
func (c Confidence) String() string {
	switch {
	case c >= High:
		return "high"
	case c >= Medium:
		return "medium"
	default:
		return "low"
	}
}

// Evidence is one figure that supports a cause.
type Evidence struct {
	Name string // "power draw"
	// Value in Unit; absent if the evidence is text.
	Value gpu.Reading[float64]
	Unit  string    // "W", "°C", "%", "RPM", "MHz", "MiB", "s"; empty for a plain number or a text
	Text  string    // for people, with the unit: "431 W"; "manual"
	At    time.Time // when it was read or happened; zero if unknown
	// Moment says that At is the evidence, and Text says the same in words.
	Moment bool
}

// A Cause is one reason why a device is hot, loud or busy, or why nobody can tell.
type Cause struct {
	// ID stays the same while the cause lasts: its kind, plus the
	// device's UUID if it is about one.
	ID         string
	Kind       Kind
	Case       string      // which of the kind's sentences is used
	Node       string      // the machine's name
	Device     *gpu.Device // in the snapshot; nil if the cause is about the machine
	Sentence   string      // ends with a full stop
	Confidence Confidence
	Since      time.Time // when it began; zero if that was not seen
	Evidence   []Evidence
	Advice     string // a sentence that says what would stop it; empty if there is nothing to do
	Headline   string // of a cause about the machine; devices have [Layers]
	command    string // of a cause about a machine without a device, as in [Action]
	Who        string // the process that it names, as in headlines; empty if it names none
	Short      string // the cause in two or three words; empty if it is not worth mentioning beside another cause
}

// A DeviceAnswer explains the state of one device.
type DeviceAnswer struct {
	Device *gpu.Device
	Layers
	Sentence string  // states the main causes
	Causes   []Cause // in the order of their kinds; never empty
	// Cooling is the current cool-down, and Cooled the last one that ended by itself, not because work began; nil if none
	// was seen.
	Cooling, Cooled *Cooldown
	// Next lists what comes next, soonest first, as far as it can be predicted. Asked says whether a prediction for
	// the present was tried; if not, Next is empty. Package foresight fills in both.
	Next     []Prospect
	Asked    bool
	loudness float64
	quiet    bool // no work, and the fan is quiet
	hasFan   bool // that reports its speed
	off      bool // the fan is
	led      bool // it was named first
	working  bool
	unknown  bool // whether it works
	loud     bool // it is close to its temperature limit, or its fan is fast
}

// Works reports whether work was seen on a device, and whether that is known.
func (a *DeviceAnswer) Works() (works, known bool) { return a.working, !a.unknown }

// needs reports whether its driver asks for action.
func (a *DeviceAnswer) needs() bool {
	return slices.ContainsFunc(a.Causes, func(c Cause) bool { return c.Kind == NeedsAction })
}

// A Cooldown is a device becoming cool and quiet after work.
type Cooldown struct {
	Begun time.Time
	Over  time.Time                  // when the device was quiet, or the cool-down ended otherwise; zero while it lasts
	Left  gpu.Reading[time.Duration] // time until it is quiet; absent if that is unknown, or the cool-down is over
}

// A Prospect is one predicted event.
type Prospect struct {
	Kind     string // package forecast's name for it
	Short    string // "memory full in about 26 min"
	Sentence string // the same with the device and the interval
	// Left is the time until it happens, 0 or more; absent for predictions without such a time, such as a month's energy.
	Left gpu.Reading[time.Duration]
}

// An Answer explains why a machine's fans run.
type Answer struct {
	Time time.Time // of the snapshot; zero if there is none
	Layers
	// Sentence is about the loudest and hottest device. It says how many
	// others are busy, and which are absent.
	Sentence string
	traffic  []string        // other activity of a machine without a device
	Machine  []Cause         // causes about the whole machine
	Devices  []DeviceAnswer  // in the order of the snapshot
	ranked   []*DeviceAnswer // the same, loudest first
	members  []Member        // the members that it combines; nil for a single machine
	tally    Tally           // of those
}

// Causes returns all causes: the machine's, then each device's, loudest device first.
func (a *Answer) Causes() []Cause {
	out := append(make([]Cause, 0, len(a.Machine)+4*len(a.ranked)), a.Machine...)
	for _, d := range a.ranked {
		out = append(out, d.Causes...)
	}
	return out
}

// NoCard reports whether the answer is about a machine without a card.
func (a *Answer) NoCard() bool {
	return len(a.Devices) == 0 && slices.ContainsFunc(a.Machine, func(c Cause) bool { return c.Kind == NoDevice && c.Case == WithoutCard })
}

// WithoutCard is the case of [NoDevice] in which nothing is wrong.
const WithoutCard = "no card"

// Main returns the causes behind the sentence: the machine's and the loudest device's.
func (a *Answer) Main() []Cause {
	if len(a.ranked) == 0 {
		return a.Machine
	}
	return slices.Concat(a.Machine, a.ranked[0].Causes)
}
