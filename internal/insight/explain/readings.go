package explain

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// absences are the states in which a device can't be read, in the order of a sentence; they are also kinds of causes.
var absences = []gpu.State{gpu.StateNotAnswering, gpu.StateLost, gpu.StateAsleep}

func absent(d *device, f *finding) {
	after := ""
	if newest, ok := d.newestFailure(); ok {
		after = ", after " + newest.what
	}
	switch {
	case d.State == gpu.StateAsleep:
		f.say(High, asleepWords())
	case d.State == gpu.StateNotAnswering:
		f.say(High, notAnsweringWords(d.Vendor.LogLines(), after))
	case d.State == gpu.StateLost && errors.Is(&d.Reason, gpu.ErrNotListed):
		f.say(High, d.notListed())
	case d.State == gpu.StateLost:
		f.say(High, lostWords(d.Vendor.LogLines(), after))
	default:
		return
	}
	f.Advice = cmp.Or(Advice(d.Reason.Try), f.Advice) // the source may know better
	f.Since, f.readAt = d.Since, d.Since
	f.fact("state", string(d.State))
	f.readAt = d.s.Time
	f.fact("reason", textOf(d.Reason.What))
}

// notListed returns the words for a card that the driver leaves out of its list.
func (d *device) notListed() wording {
	words, reason := notListedWords, textOf(d.Reason.What)
	if strings.Contains(reason, "off the bus") {
		words = offTheBusWords
	}
	if !strings.Contains(reason, d.PCI) {
		reason += " (" + textOf(d.PCI) + ")"
	}
	return words(reason)
}

func noReadings(d *device, f *finding) {
	if d.reportsAnything() && !d.offersOnlyMemory() || d.cooling() {
		return
	}
	reason := textOf(d.Reason.What)
	f.fact("reason", reason)
	if reason != "" {
		reason = ": " + reason
	}
	switch used := d.memoryUse(); {
	case !d.offersNothing():
		f.say(High, noReadingsWords(reason, Advice(d.Reason.Try)))
		return
	case used != "":
		f.say(High, onlyMemoryWords(used))
		f.figure("memory used", d.Memory.Used.Or(0).MiB(), "MiB").figure("memory", d.Memory.Total.Or(0).MiB(), "MiB")
	default:
		f.say(High, noneOfferedWords())
	}
	f.fact("not offered", "temperature, power, utilization and fan speed")
}

// offersOnlyMemory reports whether the driver offers only the memory of a device, and nobody is seen to use it.
func (d *device) offersOnlyMemory() bool {
	return d.offersNothing() && d.doing == unknown && d.figures == "" && len(d.Processes.Or(nil)) == 0
}

// offersNothing reports whether the driver never offers any reading that shows heat, noise or work. Readings that are only missing now
// don't count.
func (d *device) offersNothing() bool {
	for _, q := range []gpu.Quality{d.Utilization.GPU.Quality(), d.Thermal.GPU.Quality(), d.Power.Draw.Quality(), d.Fans.Commanded().Quality()} {
		if q != gpu.NotSupported {
			return false
		}
	}
	return true
}

// memoryUse is "1.2 of 24.0 GiB of memory in use"; empty if the driver does not report it.
func (d *device) memoryUse() string {
	used, ok := d.Memory.Used.Trusted()
	total, known := d.Memory.Total.Trusted()
	if !ok || !known {
		return ""
	}
	gib := func(b gpu.Bytes) string { return strconv.FormatFloat(float64(b)/(1<<30), 'f', 1, 64) }
	return memoryInUse(gib(used), gib(total))
}

func (d *device) reportsAnything() bool {
	return d.doing != unknown || d.figures != "" || len(d.Processes.Or(nil)) > 0 || d.memoryUse() != ""
}

// repairs are what a driver may ask for, most urgent first.
var repairs = []struct {
	kind  gpu.FaultKind
	words func() wording
}{
	{gpu.FaultNeedsRestart, needsRestartWords},
	{gpu.FaultNeedsReset, needsResetWords},
	{gpu.FaultNeedsDrain, needsDrainWords},
	{gpu.FaultNeedsAction, needsActionWords},
	{gpu.FaultNeedsLaterReset, needsLaterResetWords},
}

// needsAction is about the most urgent thing that the driver asks for.
func needsAction(d *device, f *finding) {
	for _, repair := range repairs {
		if d.stands(f, repair.kind, repair.words) {
			return
		}
	}
}

func fanUnreadable(d *device, f *finding) {
	f.fanName = "the fan"
	if !d.stands(f, gpu.FaultFanUnreadable, fanUnreadableWords) {
		f.fanName = ""
	}
}

// stands fills in a finding about a current fault; false if there is none.
func (d *device) stands(f *finding, kind gpu.FaultKind, words func() wording) bool {
	all := d.Health.Faults.Or(nil)
	i := slices.IndexFunc(all, func(f gpu.Fault) bool { return f.Kind == kind })
	if i < 0 {
		return false
	}
	what, try := kind.Meaning()
	f.say(High, words())
	f.Since, f.Advice = d.began(all[i].Last), try
	f.fact("the driver says", what)
	return true
}

// notKnowable says what can't be known here, and which permission or feature is missing.
func notKnowable(d *device, f *finding) {
	if !d.reportsAnything() || d.offersOnlyMemory() {
		return
	}
	var missing, tries []string
	miss := func(name, why, what, try string) {
		f.fact(name, why)
		missing = append(missing, what)
		if try != "" {
			tries = append(tries, Advice(try))
		}
	}
	// never adds a reading that never appears.
	never := func(what string, q gpu.Quality, try string) {
		switch q {
		case gpu.NotSupported:
			miss(what, "not offered by this product or driver", notOffered(what), "")
		case gpu.NotPermitted:
			miss(what, "not permitted", notPermitted(what), try)
		}
	}
	never(whichProcesses, d.Processes.Quality(), runWithRights)
	if pids := d.strangers(); len(pids) > 0 {
		try := ""
		if len(d.s.Notes) == 0 {
			try = viewOfHost
		}
		miss("processes without a name", strings.Join(pids, ", "),
			whoRuns(len(pids)), try)
	}
	whole := d.Utilization.GPU.Quality()
	if whole == gpu.NotSupported && d.Modes.MIG.Or(false) {
		miss("utilization", "not offered while the GPU is split into MIG instances",
			howBusyMIG, "")
	} else {
		never(howBusy, whole, "")
	}
	never(howHot, d.Thermal.GPU.Quality(), "")
	never(whatItDraws, d.Power.Draw.Quality(), "")
	if len(missing) > 0 {
		f.say(High, missingWords(strings.Join(missing, "; "), strings.Join(tries, " ")))
		f.minor = true
	}
}

// strangers returns the pids of living processes without a known name.
func (d *device) strangers() []string {
	const most = 8
	var pids []string
	for _, p := range those(d.Processes.Or(nil), func(p *gpu.Process) bool { return !p.Facts.Name.Present() && !gone(p) }) {
		pids = append(pids, fmt.Sprintf("pid %d", p.PID))
	}
	if more := len(pids) - most; more > 0 {
		pids = append(pids[:most], fmt.Sprintf("and %d more", more))
	}
	return pids
}

// stuckFor is how long everything else must contradict the busy counter. When work begins, the counter may be ahead of the power by a
// second or so.
const stuckFor = 3 * time.Second

func stuckCounter(d *device, f *finding) {
	if !d.stuck {
		return
	}
	list := d.Processes.Or(nil)
	sure, lasts := High, d.age(d.m.stuck) >= stuckFor
	switch {
	case !lasts && len(list) > 0:
		sure = Low
	case !lasts || len(list) > 0:
		sure = Medium // shares are samples: a process without one may have worked between two samples
	}
	f.say(sure, stuckCounterWords(withUnit(d.util, "%"), idleness(list)))
	f.Since = d.began(d.m.stuck)
	f.heat(d).figure("busy counter", d.util, "%").rest(d)
}

// idleness says that the processes of a resting device do nothing.
func idleness(list []gpu.Process) string {
	known := !slices.ContainsFunc(list, func(p gpu.Process) bool { return !present(processShare(&p)) })
	switch {
	case len(list) == 0:
		return nothingRuns
	case !known:
		return noneSeenAtWork
	case len(list) == 1:
		return oneDoesNothing
	default:
		return noneDoesAnything(len(list))
	}
}

func doubtful(d *device, f *finding) {
	s := suspects{finding: f}
	suspect(&s, "utilization", d.Utilization.GPU, "%", 0, 100)
	suspect(&s, "temperature", d.Thermal.GPU, "°C", coldest, hottest)
	suspect(&s, "memory temperature", d.Thermal.Memory, "°C", coldest, hottest)
	suspect(&s, "power draw", d.Power.Draw, "W", 0, mostWatts)
	suspect(&s, "fan, as commanded", d.Fans.Commanded(), "%", 0, mostPercent)
	for i := range d.Fans.Fans {
		suspect(&s, "fan, as measured", d.Fans.Fans[i].RPM, "RPM", 0, mostRPM)
	}
	suspect(&s, "SM clock", d.Clocks.SM, "MHz", 0, mostMegahertz)
	suspect(&s, "memory used", gpu.Map(d.Memory.Used, gpu.Bytes.MiB), "MiB", 0, mostBytes)
	wrong, perhaps := strings.Join(s.wrong, ", "), strings.Join(s.perhaps, ", ")
	switch {
	case len(f.Evidence) == 0:
		return
	case perhaps == "":
		f.say(High, leftOutWords(wrong))
	case wrong == "":
		f.say(Medium, probablyWrongWords(perhaps))
	default:
		f.say(High, wrongAndPerhapsWords(wrong, perhaps))
	}
	f.minor = true
}

// suspects are the impossible readings, and those that are probably wrong, as a sentence names them.
type suspects struct {
	*finding
	wrong, perhaps []string
}

// suspect adds a reading that no rule uses to the evidence and to one of the lists.
func suspect[T ~float64 | ~int](s *suspects, name string, r gpu.Reading[T], unit string, least, most float64) {
	v, ok := r.Get()
	value := float64(v)
	if r.Quality() != gpu.Implausible && (!ok || present(believed(r, least, most))) {
		return
	}
	switch {
	case !ok:
		s.fact(name, "an impossible value")
	case value >= -1e12 && value <= 1e12:
		s.figure(name, value, unit)
	default:
		s.fact(name, "no number that can be shown")
	}
	text := name + " (" + s.Evidence[len(s.Evidence)-1].Text + ")"
	if ok && value >= least && value <= most {
		s.perhaps = append(s.perhaps, text)
	} else {
		s.wrong = append(s.wrong, text)
	}
}
