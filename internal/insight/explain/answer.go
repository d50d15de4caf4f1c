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
	SourceFailed  Kind = "source_failed"       // of the machine: one source of several
	Note          Kind = "note"                // of the machine: what gpuwhy can't see from here
)

// Confidence is how likely a cause is the true one, from 0 to 1. It is a judgment, not a measured frequency: each rule gives one of three
// values.
type Confidence float64

// The confidences that rules give.
const (
	High   Confidence = 0.95 // the device says so itself, or readings agree that do not depend on one another
	Medium Confidence = 0.7  // the readings fit, and something else could look the same
	Low    Confidence = 0.4  // the best guess where the readings that would decide are absent
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
	// Value in Unit; absent where the evidence is a text.
	Value gpu.Reading[float64]
	Unit  string    // "W", "°C", "%", "RPM", "MHz", "MiB", "s"; empty for a plain number or a text
	Text  string    // for people, with its unit: "431 W"; "manual"
	At    time.Time // when it was read or happened; zero where that is not known
	// Moment says that At is the evidence, and Text is the same in words.
	Moment bool
}

// A Cause is one reason why a device is hot, loud or busy, or why nobody can tell.
type Cause struct {
	// ID is the same for as long as the cause stands: its kind, and the
	// device's UUID where it is about one.
	ID         string
	Kind       Kind
	Case       string      // which of the kind's sentences is used
	Node       string      // the machine's name
	Device     *gpu.Device // of the snapshot; nil where the cause is about the machine
	Sentence   string      // ends with a full stop
	Confidence Confidence
	Since      time.Time // when it began; zero where that was not seen
	Evidence   []Evidence
	Advice     string // what would stop it, a sentence; empty where there is nothing to do
	Headline   string // of a cause of the machine; devices have [Layers]
	command    string // of a cause of a machine without a device, as in [Action]
	Who        string // the process that it names, as headlines call it; empty where it names none
	Short      string // what it is in two or three words; empty where it is not worth a word beside another
}

// A DeviceAnswer is why one device is as it is.
type DeviceAnswer struct {
	Device *gpu.Device
	Layers
	Sentence string  // states the main causes
	Causes   []Cause // in the order of their kinds; never empty
	// Cooling is the cool-down that goes on, and Cooled the last one that was over by itself, not because work began; nil: none
	// was seen.
	Cooling, Cooled *Cooldown
	// Next is what comes next, what is soonest first, as far as that can be told. Asked says that it was tried to tell it for
	// the present; else Next is empty. Whoever makes forecasts fills them in, package explain does not.
	Next     []Prospect
	Asked    bool
	loudness float64
	quiet    bool // nothing works, and the fan is at rest
	hasFan   bool // that reports its speed
	off      bool // the fan is
	led      bool // it was told of first
	working  bool
	unknown  bool // whether it works
	loud     bool // it is near its limit of heat, or its fan is fast
}

// Works reports whether somebody's work was seen on a device, and whether that can be told.
func (a *DeviceAnswer) Works() (works, known bool) { return a.working, !a.unknown }

// needs reports whether its driver asks for something to be done.
func (a *DeviceAnswer) needs() bool {
	return slices.ContainsFunc(a.Causes, func(c Cause) bool { return c.Kind == NeedsAction })
}

// A Cooldown is how a device gets cool and quiet after work.
type Cooldown struct {
	Begun time.Time
	Over  time.Time                  // when it was quiet, or else over; zero while it goes on
	Left  gpu.Reading[time.Duration] // until it is quiet, of one that goes on; absent where that can't be told, or it is quiet
}

// A Prospect is one thing that comes next, and can be told.
type Prospect struct {
	Kind     string // package forecast's name for it
	Short    string // "memory full in about 26 min"
	Sentence string // the same with the device and the interval
	// Left is the time until it comes, 0 or more; absent of what has no such time, such as a month's energy.
	Left gpu.Reading[time.Duration]
}

// An Answer is why a machine's fans run.
type Answer struct {
	Time time.Time // of the snapshot; zero where there is none
	Layers
	// Sentence is about the loudest and hottest device. It says how many
	// others work, and which are absent.
	Sentence string
	traffic  []string        // what goes on beside, of a machine without a device
	Machine  []Cause         // causes that are about no single device
	Devices  []DeviceAnswer  // in the order of the snapshot
	ranked   []*DeviceAnswer // the same, loudest first
	members  []Member        // of which it is the answer; nil for one
	tally    Tally           // of those
}

// Causes returns all causes: the machine's, then those of each device, the loudest first.
func (a *Answer) Causes() []Cause {
	out := append(make([]Cause, 0, len(a.Machine)+4*len(a.ranked)), a.Machine...)
	for _, d := range a.ranked {
		out = append(out, d.Causes...)
	}
	return out
}

// NoCard reports whether the answer is about a machine that has no card.
func (a *Answer) NoCard() bool {
	return len(a.Devices) == 0 && slices.ContainsFunc(a.Machine, func(c Cause) bool { return c.Kind == NoDevice && c.Case == WithoutCard })
}

// WithoutCard is the case of [NoDevice] in which nothing is wrong.
const WithoutCard = "no card"

// Main returns the causes behind the sentence: the machine's, and the loudest device's.
func (a *Answer) Main() []Cause {
	if len(a.ranked) == 0 {
		return a.Machine
	}
	return slices.Concat(a.Machine, a.ranked[0].Causes)
}
