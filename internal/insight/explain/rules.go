package explain

import (
	"cmp"
	_ "embed" // words.json
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A rule looks for one kind of cause on one device. It is a pure function of
// the device, and fills in the finding. Without a clause the cause is not there.
type rule struct {
	kind Kind
	find func(*device, *finding)
}

// The rules about a device that answers, in the order of a sentence. They don't know of one another.
var rules = []rule{
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
	{DriverError, driverError},
	{Doubtful, doubtful},
	{NotKnowable, notKnowable},
}

// A finding is a cause before it has its sentence.
type finding struct {
	Cause          // its Confidence is High where the rule says nothing else
	clause  string // with the placeholders below
	fanName string // what itsFan stands for: "fan 2"
	minor   bool   // the device's own sentence leaves it out
	at      time.Time
}

// words.json has what findings say, by kind and case; what all cases of a kind say is
// under "*". The texts have the placeholders below, and %s for each value.
//
//go:embed words.json
var wordsText []byte

type wording struct{ Clause, Advice string }

// read reads a file that is part of the program; a test reads each.
func read[T any](text []byte) (out T) {
	if err := json.Unmarshal(text, &out); err != nil {
		panic(err)
	}
	return out
}

var wordings = sync.OnceValue(func() map[Kind]map[string]wording {
	names := strings.NewReplacer("{it}", `\u0001`, "{fan}", `\u0002`, "{readings}", `\u0003`, "{(readings)}", `\u0004`)
	return read[map[Kind]map[string]wording]([]byte(names.Replace(string(wordsText))))
})

// say gives the finding its words.
func (f *finding) say(sure Confidence, what string, values ...any) {
	kind := wordings()[f.Kind]
	f.clause, f.Confidence = fmt.Sprintf(kind[what].Clause, values...), sure
	f.Advice = cmp.Or(kind[what].Advice, kind["*"].Advice)
}

// The placeholders of a clause. clean leaves no control characters in texts from outside.
const (
	it         = "\x01" // {it} is the device: its name, or "it" where an earlier clause has named it
	itsFan     = "\x02" // {fan} is the finding's fan: "fan 2 of GPU 0", "its fan 2"
	readings   = "\x03" // {readings} stands where the device is named: ", 71 °C, 431 W of 450 W, fan at 66 %"
	inBrackets = "\x04" // {(readings)} is the same in brackets
)

// tell returns the clause about a device that is called name.
func (f *finding) tell(d *device, name string) string {
	after, around := "", ""
	if name == d.name && d.figures != "" {
		after, around = ", "+d.figures, " ("+d.figures+")"
	}
	text := strings.ReplaceAll(f.clause, readings, after)
	text = strings.ReplaceAll(text, inBrackets, around)
	text = strings.ReplaceAll(text, itsFan, fanOf(f.fanName, name))
	return strings.ReplaceAll(text, it, name)
}

func (d *device) cooling() bool { return d.doing == resting && d.m.cooling && !d.m.work.on }

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

const longestSentence = 3 // causes

// explain runs the rules that apply to a device.
func (d *device) explain() DeviceAnswer {
	apply := rules
	if d.State != gpu.StateOK {
		apply = []rule{{Kind(d.State), absent}}
	}
	out := DeviceAnswer{Device: d.Device, working: d.doing == working && !d.unproven()}
	pronoun, badFan := "it", false
	var clauses []string
	var f finding
	for _, r := range apply {
		f = finding{Cause: Cause{Kind: r.kind, Device: d.Device, Confidence: High}, at: d.at}
		r.find(d, &f)
		if f.clause == "" {
			continue
		}
		clause := f.tell(d, d.name)
		f.ID, f.Sentence = string(r.kind)+":"+d.UUID, sentence(clause)
		out.Causes = append(out.Causes, f.Cause)
		badFan = badFan || f.fanName != ""
		switch {
		case f.minor || len(clauses) == longestSentence:
			continue
		case len(clauses) > 0:
			clause = f.tell(d, pronoun)
		case f.fanName != "":
			pronoun = "the GPU" // not the fan
		}
		clauses = append(clauses, clause)
	}
	out.Sentence = sentence(clauses...)
	out.loudness = d.loudness()
	if badFan {
		out.loudness++
	}
	return out
}

// loudness estimates a device's part of the noise and heat. What people can't hear counts for less.
// Devices that report nothing come last, and after them those that do not answer.
func (d *device) loudness() float64 {
	const coolest, usualLimit = 30.0, 95.0
	heat := 0.0
	if has(d.temp) {
		limit := max(or(d.slowdown, usualLimit), coolest+1)
		heat = min(max((d.temp-coolest)/(limit-coolest), 0), 1.2)
	}
	// Without fans: those of the chassis, which follow the heat.
	score := 0.45*or(min(d.fan/100, 1.2), heat) + 0.35*heat + 0.2*or(min(d.load(), 1.2), 0)
	switch {
	case d.State != gpu.StateOK:
		score -= 20
	case !d.reportsAnything():
		score -= 10
	}
	return score
}
