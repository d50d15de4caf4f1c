package explain

import (
	"slices"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A rule looks for one kind of cause on one device. It is a pure function of
// the device.
type rule struct {
	kind Kind
	find func(*device) *finding // nil: the cause is not there
}

// The rules, in the order in which a sentence names causes. Rules don't know of
// one another: newDevice decides once what a device does (it works, cools down
// or rests).
var (
	absentRules = []rule{
		{Lost, inState(gpu.StateLost, " is lost: the driver no longer finds it",
			"look for \"Xid 79\" in the kernel log, check its power cables and seating, and restart the machine")},
		{NotAnswering, inState(gpu.StateNotAnswering, " is not answering",
			"look for NVRM and Xid lines in the kernel log; a restart of the machine may be needed")},
		{Asleep, inState(gpu.StateAsleep, " is asleep: the system has powered it down", "")},
	}
	presentRules = []rule{
		{NoReadings, noReadings},
		{StuckCounter, stuckCounter},
		{FanFailing, fanFailing},
		{FanByHand, fanByHand},
		{Work, work},
		{CoolingDown, coolingDown},
		{HeldAwake, heldAwake},
		{LimitedByHeat, limitedByHeat},
		{LimitedPower, limitedByPower},
		{HotForPower, hotForPower},
		{Unexplained, unexplained},
		{Idle, idle},
		{Reserved, reserved},
		{ChassisFans, chassisFans},
		{Doubtful, doubtful},
		{NotKnowable, notKnowable},
	}
)

// A finding is a cause before it has its sentence.
type finding struct {
	clause     string // with the placeholders below
	fanName    string // what itsFan stands for: "fan 2"
	confidence Confidence
	since      time.Time
	advice     string
	// minor: the device's own sentence leaves it out.
	minor bool
	evidence
}

// The placeholders of a clause. No text from outside has control characters:
// clean replaces them.
const (
	it         = "\x01" // the device: its name, or "it" where an earlier clause has named it
	itsFan     = "\x02" // the finding's fan: "fan 2 of GPU 0", "its fan 2"
	readings   = "\x03" // where the device is named: ", 71 °C, 431 W of 450 W, fan at 66 %"
	inBrackets = "\x04" // the same in brackets
)

const placeholders = it + itsFan + readings + inBrackets

// tell fills in the clause for a device that is called name.
func (f *finding) tell(d *device, name string) string {
	var b strings.Builder
	text := f.clause
	for i := strings.IndexAny(text, placeholders); i >= 0; i = strings.IndexAny(text, placeholders) {
		b.WriteString(text[:i])
		switch placeholder := text[i : i+1]; {
		case placeholder == it:
			b.WriteString(name)
		case placeholder == itsFan:
			b.WriteString(fanOf(f.fanName, name))
		case name != d.name || d.figures() == "":
		case placeholder == readings:
			b.WriteString(", " + d.figures())
		default:
			b.WriteString(" (" + d.figures() + ")")
		}
		text = text[i+1:]
	}
	b.WriteString(text)
	return b.String()
}

// A device is all that a rule looks at: the readings of now, the past, and the
// devices beside it.
type device struct {
	vitals
	s     *gpu.Snapshot
	m     *memory
	peers peers
	name  string

	at       time.Time // of the reading
	steady   bool      // temperature and power are those of a state, not of a change
	stuck    bool      // the busy counter
	doing    activity
	listed   bool           // the driver lists processes
	culprits []*gpu.Process // those who work, or could
}

func newDevice(of *gpu.Device, s *gpu.Snapshot, m *memory, p peers) *device {
	d := &device{vitals: vitalsOf(of), s: s, m: m, peers: p, name: DeviceName(of), at: sampledAt(of, s)}
	d.steady = of.State == gpu.StateOK && d.settled(m)
	d.doing = d.activity()
	if d.stuck = d.looksStuck() && d.stuckLongEnough(); d.stuck {
		d.doing = resting
	}
	d.listed = of.Processes.Present()
	if d.doing == working {
		d.culprits = d.workers()
	}
	return d
}

// cooling reports whether the device cools down after work.
func (d *device) cooling() bool {
	return d.doing == resting && d.m.cooling.on && !d.m.work.on
}

// age is how long something has been so at the time of the reading.
func (d *device) age(since time.Time) time.Duration {
	if since.IsZero() {
		return 0
	}
	return max(d.at.Sub(since), 0)
}

// began returns since, or zero where something was so from the first reading on.
func (d *device) began(since time.Time) time.Time {
	if !since.After(d.m.first) {
		return time.Time{}
	}
	return since
}

// longestSentence is how many causes a device's sentence has at most.
const longestSentence = 3

// explain runs the rules that apply to a device.
func (d *device) explain() DeviceAnswer {
	rules := presentRules
	if d.State != gpu.StateOK {
		rules = absentRules
	}
	out := DeviceAnswer{Device: d.Device, working: d.doing == working && !d.unproven()}
	pronoun := "it"
	var clauses []string
	for _, r := range rules {
		f := r.find(d)
		if f == nil {
			continue
		}
		named := f.tell(d, d.name)
		out.Causes = append(out.Causes, Cause{
			ID: string(r.kind) + ":" + d.UUID, Kind: r.kind, Device: d.Device, Sentence: sentence(named),
			Confidence: f.confidence, Since: f.since, Advice: f.advice, Evidence: f.list,
		})
		switch {
		case f.minor || len(clauses) == longestSentence:
		case len(clauses) > 0:
			clauses = append(clauses, f.tell(d, pronoun))
		default:
			clauses = append(clauses, named)
			if f.fanName != "" {
				pronoun = "the GPU" // not the fan
			}
		}
	}
	out.Sentence = sentence(clauses...)
	out.loudness = loudness(d, out.Causes)
	return out
}

// loudness estimates how much of the machine's noise and heat a device makes.
// It chooses the device for the machine's sentence. The fan counts for more
// than the temperature, the temperature for more than the power: what people
// can't hear counts for less, however busy the device is.
func loudness(d *device, causes []Cause) float64 {
	const coolest, usualLimit = 30.0, 95.0
	heat := 0.0
	if has(d.temp) {
		limit := usualLimit
		if has(d.slowdown) {
			limit = max(d.slowdown, coolest+1)
		}
		heat = min(max((d.temp-coolest)/(limit-coolest), 0), 1.2)
	}
	fan := heat // of the chassis, which follow the heat
	if has(d.fan) {
		fan = min(d.fan/100, 1.2)
	}
	score := 0.45*fan + 0.35*heat
	if load := d.load(); has(load) {
		score += 0.2 * min(load, 1.2)
	}
	if slices.ContainsFunc(causes, func(c Cause) bool { return c.Kind == FanFailing || c.Kind == FanByHand }) {
		score++
	}
	return score
}
