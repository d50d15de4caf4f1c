package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

func work(d *device, f *finding) {
	if d.doing != working {
		return
	}
	d.sayWork(f)
	f.Since = d.workSince()
	f.Advice = cmp.Or(f.Advice, d.lessWork())
	const most = 4
	named := d.named()
	f.Evidence = slices.Grow(f.Evidence, 9+3*min(len(named), most))
	f.heat(d).figure("utilization", d.util, "%")
	if d.unproven() {
		f.rest(d)
	}
	if d.video > 0 {
		f.figure("busiest video engine", d.video, "%")
	}
	if d.m.work.bursts {
		f.readAt = time.Time{}
		f.figure("mean utilization of four minutes", d.usually(), "%")
		f.readAt = d.readAt
	}
	if d.m.work.active && !f.Since.IsZero() {
		f.happened("work began", f.Since)
	}
	for _, p := range firsts(named, most) {
		name := ProcessName(p)
		f.figure("work of "+name, processShare(p), "%").figure("memory of "+name, memoryOf(p), "MiB")
		if started, ok := p.Facts.Started.Get(); ok {
			f.happened("start of "+name, started)
		}
	}
	if more := len(named) - most; more > 0 {
		f.figure("further processes", float64(more), "")
	}
}

// workSince returns when the work of the first culprit began, or the device's if no process is listed; zero if that was not seen.
func (d *device) workSince() time.Time {
	since := d.m.work.begun
	if len(d.culprits) > 0 {
		if a := d.m.work.account(d.culprits[0]); a != nil {
			since = a.begun
		} else if !d.hidden() {
			return time.Time{} // its work was not seen before
		}
	}
	return d.began(since)
}

// workLasts says how long the first culprit has worked, or the device if no process is listed: "for 12 min", and after a pause "again for
// 37 s, 24 min in all".
func (d *device) workLasts() string {
	since, spent := d.workSince(), &d.m.work.spent
	if len(d.culprits) > 0 {
		if a := d.m.work.account(d.culprits[0]); a != nil {
			spent = &a.spent
		}
	}
	lasts := d.age(since)
	switch now := d.age(spent.resumed); {
	case d.m.work.bursts, spent.resumed.IsZero(), since.After(spent.resumed) && spent.worked <= lasts:
		return "for " + Span(lasts)
	case since.After(spent.resumed):
		now = lasts
		fallthrough
	default:
		if spent.worked < now+pausesFrom { // almost nothing happened before the pause
			return "for " + Span(now)
		}
		return againFor(Span(now), Span(spent.worked))
	}
}

// usually returns the mean utilization of the current work, at most over the trail.
func (d *device) usually() float64 {
	return mean(d.m.within(min(trailed, max(pause, d.age(d.m.work.begun)))), func(p point) float64 { return p.busy })
}

// unproven reports whether only the busy counter shows work.
func (d *device) unproven() bool {
	return d.doing == working && len(d.culprits) == 0 && d.contradicted()
}

func (d *device) sayWork(f *finding) {
	sure := d.blame()
	if d.unproven() {
		f.say(sure, unprovenWords(withUnit(d.util, "%")))
		return
	}
	a := manner{how: "busy"}
	recent := mean(d.m.within(pause/2), func(p point) float64 { return p.busy })
	switch {
	case d.m.work.bursts:
		a.how += inBursts
		if part := d.m.partAtWork(); present(part) {
			a.how += partOfTime(withUnit(part, "%"))
			f.readAt = time.Time{}
			f.figure("part of the time with work", part, "%").readAt = d.readAt
		}
	case d.util >= idleBelow && !(d.video > d.util):
		a.how += " at " + withUnit(d.util, "%")
	case d.video >= idleBelow:
		a.how += withVideo(withUnit(d.video, "%"))
	case recent >= 1:
		a.how += atAbout(withUnit(recent, "%"))
		f.readAt = time.Time{}
		f.figure("mean utilization of late", recent, "%").readAt = d.readAt
	}
	if lasts := d.age(d.workSince()); d.m.work.active && lasts >= time.Minute {
		a.lasts = d.workLasts()
	}
	switch {
	case d.hidden() && len(d.culprits) > 0 && processShare(d.culprits[0]) >= idleBelow: // gone, says /proc
		f.say(sure, hiddenWorkWords(strconv.Itoa(d.culprits[0].PID), a))
	case d.hidden():
		f.say(sure, d.nobody(a, noneListedExplains))
	case len(d.culprits) > 0:
		switch who := d.who(ProcessName); {
		case d.guessed():
			f.say(sure, guessedWords(who, a))
		case d.m.work.bursts:
			f.say(sure, burstsWords(who, a))
		case sure < High && processShare(d.culprits[0]) >= 1 && d.together()*2 < d.util:
			f.say(sure, workWords(sure, who, a, withUnlisted))
		default:
			f.say(sure, workWords(sure, who, a, ""))
		}
	case d.between():
		f.say(Medium, comesBackWords(a, ProcessName(&d.m.work.hottest().process)))
	default:
		f.say(sure, d.nobody(a, noneIsListed))
	}
}

// nobody says that nobody can be named, and why.
func (d *device) nobody(a manner, blame string) wording {
	words := nobodyWords
	switch {
	case d.ProcessesPartial.Or(false), d.ProcessesPartial.Quality() == gpu.NotPermitted:
		words, blame = unseenWorkWords, noneSeenExplains
	case !d.Processes.Present():
		blame = driverDoesNotSay
	}
	if pods := d.reservedBy("it"); pods != "" && len(d.culprits) == 0 {
		blame += " (" + pods + ")"
	}
	return words(a, blame)
}

// between reports whether a program that works in bursts, each with another pid, has just ended once more.
func (d *device) between() bool {
	return len(d.culprits) == 0 && d.m.work.bursts && !(d.util >= idleBelow) && d.m.comesBack()
}

// who names those who work: the first, similar processes, and the second if it does a good part too.
func (d *device) who(name func(*gpu.Process) string) string {
	named := d.named()
	first, partners := named[0], d.partners(named[0])
	like, text := 0, name(first)
	for _, p := range named[1:] {
		if alike(p, first) {
			like++
		}
	}
	rest := len(named) - 1 - like
	switch {
	case like > 0:
		text += moreLikeIt(like)
	case len(partners) > 0:
		text += togetherWith(name(partners[0]))
		if rest--; rest > 0 {
			return text + andOthers(rest)
		}
	}
	return text + others(rest)
}

// partners returns processes at work that run something else than the first, and do a good part too.
func (d *device) partners(first *gpu.Process) []*gpu.Process {
	return slices.DeleteFunc(slices.Clone(d.named()[1:]), func(p *gpu.Process) bool {
		return alike(p, first) || d.part(p)*5 < d.part(first)*2
	})
}

// part returns a process's recent usage.
func (d *device) part(p *gpu.Process) float64 {
	return highest(highest(d.shareOf(p), 0), d.accountShare(p))
}

// together returns the usage of the device by all listed processes.
func (d *device) together() (sum float64) {
	list := d.Processes.Or(nil)
	for i := range list {
		sum += highest(processShare(&list[i]), 0)
	}
	return sum
}

// hidden reports whether the listed processes don't do the work: somebody does whom gpuwhy, or the driver, does not see.
func (d *device) hidden() bool {
	if len(d.culprits) == 0 || d.guessed() || d.m == nil {
		return false
	}
	first := d.culprits[0]
	share := processShare(first)
	if gone(first) && share >= idleBelow {
		return true
	}
	if len(d.silent) > 0 {
		return false
	}
	recent := mean(d.m.within(pause), func(p point) float64 { return p.busy })
	if d.m.work.account(first) == nil {
		recent = d.util
	}
	return present(share) && recent >= 20 && d.together() < 0.2*recent && d.util >= 20 && d.accountShare(first) < 0.2*recent
}

// accountShare returns a process's recent usage.
func (d *device) accountShare(p *gpu.Process) float64 {
	if a := d.m.work.account(p); a != nil {
		return a.share
	}
	return 0
}

// named returns the culprits worth naming: a desktop draws a little beside every game.
func (d *device) named() []*gpu.Process {
	if d.worth != nil || len(d.culprits) == 0 {
		return d.worth
	}
	d.worth = make([]*gpu.Process, 0, len(d.culprits))
	least := max(idleBelow, 0.1*highest(processShare(d.culprits[0]), 0))
	for i, p := range d.culprits {
		if share := processShare(p); i == 0 || !present(share) || share >= least {
			d.worth = append(d.worth, p)
		}
	}
	return d.worth
}

// guessed reports whether only the power shows work.
func (d *device) guessed() bool {
	return !present(d.util) && !(d.video >= idleBelow) &&
		!slices.ContainsFunc(d.culprits, func(p *gpu.Process) bool { return processShare(p) >= idleBelow })
}

// blame returns how sure it is that the first culprit does the work.
func (d *device) blame() Confidence {
	if len(d.culprits) == 0 || d.guessed() || len(d.silent) > 1 {
		return Low
	}
	if len(d.silent) == 1 {
		return Medium
	}
	share := highest(processShare(d.culprits[0]), d.accountShare(d.culprits[0]))
	busy := highest(d.util, d.video)
	if d.hidden() {
		if gone(d.culprits[0]) && share*2 >= busy {
			return Medium
		}
		return Low
	}
	switch {
	case present(processShare(d.culprits[0])) && share*2 >= busy && share >= 1 && !d.contradicted():
		return High
	case share >= 1, len(d.culprits) == 1:
		return Medium
	default:
		return Low
	}
}

// lessWork says how to make a working device quieter.
func (d *device) lessWork() string {
	text := d.endWork()
	lower, can := d.lowerLimit()
	if !can {
		return text + "."
	}
	return text + ". " + orLessPower(nameOf(d.UUID), number(lower))
}

// Culprits returns those of the wanted processes that work, busiest first. If none has a share (the driver takes no samples, or none fell
// into the work), it returns those with a compute context, by memory.
func Culprits(list []gpu.Process, wanted func(*gpu.Process) bool) []*gpu.Process {
	found := those(list, func(p *gpu.Process) bool { return Works(p) && wanted(p) })
	if len(found) == 0 {
		found = those(list, func(p *gpu.Process) bool { return p.Type != gpu.TypeGraphics && !gone(p) && wanted(p) })
	}
	type part struct {
		p     *gpu.Process
		share float64
		i     int
	}
	parts := make([]part, len(found))
	for i, p := range found {
		parts[i] = part{p, highest(processShare(p), 0), i}
	}
	slices.SortFunc(parts, func(a, b part) int {
		if a.share != b.share {
			return cmp.Compare(b.share, a.share)
		}
		return cmp.Or(byMemory(a.p, b.p), a.i-b.i)
	})
	for i := range parts {
		found[i] = parts[i].p
	}
	return found
}

// byMemory orders processes by memory, largest first.
func byMemory(a, b *gpu.Process) int {
	return cmp.Or(cmp.Compare(b.Memory.Or(0), a.Memory.Or(0)), cmp.Compare(a.PID, b.PID))
}

// Works reports whether a process works, according to the driver.
func Works(p *gpu.Process) bool { return processShare(p) > 0 }

// those returns the wanted elements of a list.
func those[T any](list []T, wanted func(*T) bool) []*T {
	var out []*T
	for i := range list {
		if wanted(&list[i]) {
			out = append(out, &list[i])
		}
	}
	return out
}

// unused reports whether pods have reserved a device and, as far as known, none has a process on it.
func (d *device) unused() bool {
	list, listed := d.AllProcesses()
	return listed && len(d.Reservations.Or(nil)) > 0 && !slices.ContainsFunc(list, func(p gpu.Process) bool {
		pod, known := p.Facts.Pod.Get()
		return p.Type != gpu.TypeGraphics || !known || !pod.None()
	})
}

// reserved is about a device that is kept for a pod without a process on it.
func reserved(d *device, f *finding) {
	if d.doing != resting || !d.unused() {
		return
	}
	f.Since = d.began(d.m.unused)
	list := d.Reservations.Or(nil)
	for _, r := range firsts(list, 4) {
		text := fmt.Sprintf("pod %s, container %s, %s", nameOf(r.Namespace+"/"+r.Pod), nameOf(r.Container), nameOf(r.Resource))
		if r.Instance != "" {
			text += ", instance " + nameOf(r.Instance)
		}
		f.fact("reserved by", text)
	}
	if more := len(list) - 4; more > 0 {
		f.figure("further reservations", float64(more), "")
	}
	f.figure("processes listed", float64(len(d.Processes.Or(nil))), "")
	words, nothing := reservedWords, noProcessOnIt
	if len(gpu.ReservingPods(list)) > 1 {
		words = reservedBySeveralWords
	}
	if lasts := d.age(d.m.unused); lasts >= time.Minute {
		nothing = noProcessFor(Span(lasts))
	}
	f.say(High, words(d.reservedBy, nothing))
}

// reservedBy says which pods have reserved a device, or a part of it; empty if none, or not known.
func (d *device) reservedBy(called string) string {
	list := d.Reservations.Or(nil)
	if len(list) == 0 {
		return ""
	}
	pods := gpu.ReservingPods(list)
	for i, name := range pods {
		pods[i] = nameOf(name)
	}
	who := "pod " + pods[0]
	switch n := len(pods); {
	case n > 3:
		who = fmt.Sprintf("%d pods (%s, …)", n, strings.Join(pods[:2], ", "))
	case n > 1:
		who = "pods " + strings.Join(pods[:n-1], ", ") + " and " + pods[n-1]
	}
	if !slices.ContainsFunc(list, func(r gpu.Reservation) bool { return r.Instance == "" }) {
		called = "a part of " + called
	}
	return called + " is reserved by " + who
}
