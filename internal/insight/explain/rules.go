package explain

import (
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A rule looks for one kind of cause on one device. It is a pure function of
// the card.
type rule struct {
	kind Kind
	find func(*card) *finding // nil: it isn't so
}

// The rules, in the order in which causes are told. Each file of rules is a
// family; what one of them finds, no other has to know, since what a card does
// (works, cools down, rests) is decided once, in newCard.
var (
	absentRules = []rule{
		{Lost, lost},
		{NotAnswering, notAnswering},
		{Asleep, asleep},
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

// A finding is a cause before it is told.
type finding struct {
	// clause tells it of a device that is called so: by its name, or "it"
	// where another cause has named it already.
	clause     func(it string) string
	confidence Confidence
	since      time.Time
	evidence   *proofs
	advice     string
	// aside says that the device's own sentence can do without it.
	aside bool
}

// A card is all that a rule looks at: a device as it is and was, and the
// devices beside it.
type card struct {
	d     *gpu.Device
	s     *gpu.Snapshot
	m     *memory
	peers peers
	name  string

	at       time.Time // of the reading
	v        vitals
	floor    float64 // W at rest; none: not known
	stuck    bool
	doing    activity
	listed   bool           // the driver lists processes
	culprits []*gpu.Process // who works, or could
}

func newCard(d *gpu.Device, s *gpu.Snapshot, m *memory, p peers) *card {
	c := &card{d: d, s: s, m: m, peers: p, name: DeviceName(d), at: sampledAt(d, s)}
	c.v = vitalsOf(d)
	c.floor = floorOf(d)
	c.doing = activityOf(d, &c.v, c.floor)
	if c.stuck = stuck(d, &c.v, c.floor) && c.stuckLongEnough(); c.stuck {
		c.doing = resting
	}
	c.listed = d.Processes.Present()
	if c.doing == working {
		c.culprits = workers(d, &c.v, c.floor)
	}
	return c
}

// cooling reports whether the device is on its way down from work.
func (c *card) cooling() bool {
	return c.doing == resting && c.m.cooling.on && !c.m.work.on
}

// age is how long something has been so at the time of the reading.
func (c *card) age(since time.Time) time.Duration {
	if since.IsZero() {
		return 0
	}
	return max(c.at.Sub(since), 0)
}

// began is since when something is so, if its beginning was seen.
func (c *card) began(since time.Time) time.Time {
	if !since.After(c.m.first) {
		return time.Time{}
	}
	return since
}

// longestSentence is how many causes a device's sentence has at most.
const longestSentence = 3

// explainDevice runs the rules that apply to a device.
func explainDevice(d *gpu.Device, s *gpu.Snapshot, m *memory, p peers) DeviceAnswer {
	rules := presentRules
	if d.State != gpu.StateOK {
		rules = absentRules
	}
	c := newCard(d, s, m, p)
	out := DeviceAnswer{Device: d, working: c.doing == working && !c.unproven()}
	it := "it"
	var clauses []string
	for _, r := range rules {
		f := r.find(c)
		if f == nil {
			continue
		}
		out.Causes = append(out.Causes, f.cause(r.kind, d, c.name))
		switch {
		case f.aside || len(clauses) == longestSentence:
		case len(clauses) == 0:
			if r.kind == FanFailing || r.kind == FanByHand {
				it = "the GPU" // not the fan
			}
			clauses = append(clauses, f.clause(c.name))
		default:
			clauses = append(clauses, f.clause(it))
		}
	}
	out.Sentence = sentence(clauses...)
	out.loudness = loudness(c, out.Causes)
	return out
}

func (f *finding) cause(kind Kind, d *gpu.Device, name string) Cause {
	c := Cause{
		ID:   string(kind) + ":" + d.UUID,
		Kind: kind, Device: d, Sentence: sentence(f.clause(name)),
		Confidence: f.confidence, Since: f.since, Advice: f.advice,
	}
	if f.evidence != nil {
		c.Evidence = f.evidence.list
	}
	return c
}

// loudness is how much of the machine's noise and heat a device is likely to
// make, for choosing which one the machine's sentence is about: its fan before
// its temperature before its power. What can't be heard counts for less than
// what can, however busy it is.
func loudness(c *card, causes []Cause) float64 {
	const coolest, usualLimit = 30.0, 95.0
	heat := 0.0
	if has(c.v.temp) {
		limit := usualLimit
		if has(c.v.slowdown) {
			limit = max(c.v.slowdown, coolest+1)
		}
		heat = min(max((c.v.temp-coolest)/(limit-coolest), 0), 1.2)
	}
	fan := heat // of the chassis, which follow the heat
	if has(c.v.fan) {
		fan = min(c.v.fan/100, 1.2)
	}
	score := 0.45*fan + 0.35*heat
	if load := c.v.load(); has(load) {
		score += 0.2 * min(load, 1.2)
	}
	if slices.ContainsFunc(causes, func(c Cause) bool { return c.Kind == FanFailing || c.Kind == FanByHand }) {
		score++
	}
	return score
}
