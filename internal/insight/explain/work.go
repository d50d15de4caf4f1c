package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

func work(d *device, f *finding) {
	if d.doing != working {
		return
	}
	d.sayWork(f)
	f.Since, f.Advice = d.began(d.m.work.begun), cmp.Or(f.Advice, d.lessWork())
	f.heat(d).figure("utilization", d.util, "%")
	if d.unproven() {
		f.rest(d)
	}
	if d.video > 0 {
		f.figure("busiest video engine", d.video, "%")
	}
	if d.m.work.on && !f.Since.IsZero() {
		f.happened("work began", f.Since)
	}
	const most = 4
	named := d.named()
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

// unproven reports whether the busy counter alone speaks for work.
func (d *device) unproven() bool {
	return d.doing == working && len(d.culprits) == 0 && d.contradicted()
}

func (d *device) sayWork(f *finding) {
	sure := d.blame()
	if d.unproven() {
		f.say(sure, "unproven", withUnit(d.util, "%"))
		return
	}
	how := "busy"
	switch {
	case d.util >= idleBelow && !(d.video > d.util):
		how += " at " + withUnit(d.util, "%")
	case d.video >= idleBelow:
		how += " with video at " + withUnit(d.video, "%")
	}
	if lasts := d.age(d.began(d.m.work.begun)); d.m.work.on && lasts >= time.Minute {
		how += " for " + Span(lasts)
	}
	if len(d.culprits) > 0 {
		what := "processes"
		if d.guessed() {
			what = "guessed"
		}
		f.say(sure, what, ProcessName(d.culprits[0])+others(len(d.named())-1), how)
		return
	}
	blame := "no process is listed that explains it"
	if !d.Processes.Present() {
		blame = "the driver does not say which process it is"
	}
	if by := d.reservedBy("it"); by != "" {
		blame += " (" + by + ")"
	}
	f.say(sure, "nobody", how, blame)
}

// named are the culprits worth naming: a desktop draws a little beside every game.
func (d *device) named() []*gpu.Process {
	var out []*gpu.Process
	for i, p := range d.culprits {
		share := processShare(p)
		if i == 0 || !has(share) || share >= max(idleBelow, 0.1*highest(processShare(d.culprits[0]), 0)) {
			out = append(out, p)
		}
	}
	return out
}

// guessed reports whether only the power speaks for work.
func (d *device) guessed() bool {
	return !has(d.util) && !has(d.video) &&
		!slices.ContainsFunc(d.culprits, func(p *gpu.Process) bool { return processShare(p) >= idleBelow })
}

// blame is how sure it is that the first of the culprits does the work.
func (d *device) blame() Confidence {
	if len(d.culprits) == 0 || d.guessed() {
		return Low
	}
	share := processShare(d.culprits[0])
	switch {
	case has(share) && share*2 >= highest(d.util, d.video) && !d.contradicted():
		return High
	case share >= 1, len(d.culprits) == 1:
		return Medium
	default:
		return Low
	}
}

// lessWork says what makes a device at work quieter.
func (d *device) lessWork() string {
	text := "End or pause the work"
	if len(d.culprits) > 0 && !gone(d.culprits[0]) {
		text = "End or pause " + ProcessName(d.culprits[0])
	}
	lower := 0.8 * d.limit
	if d.Vendor != gpu.NVIDIA || !(lower >= believed(d.Power.MinLimit, 1, mostWatts)) {
		return text + "."
	}
	return text + ". Or let it run with less heat and noise, and a little more slowly: nvidia-smi -i " +
		nameOf(d.UUID) + " -pl " + number(lower) + ", as root."
}

// Culprits are those of the wanted processes that work, busiest first. Where none
// has a share (the driver takes no samples, or none fell into the work) they
// are those with a compute context, by memory.
func Culprits(list []gpu.Process, wanted func(*gpu.Process) bool) []*gpu.Process {
	found := those(list, func(p *gpu.Process) bool { return Works(p) && wanted(p) })
	if len(found) == 0 {
		found = those(list, func(p *gpu.Process) bool { return p.Type != gpu.TypeGraphics && wanted(p) })
	}
	slices.SortStableFunc(found, func(a, b *gpu.Process) int {
		return cmp.Or(cmp.Compare(highest(processShare(b), 0), highest(processShare(a), 0)), byMemory(a, b))
	})
	return found
}

// byMemory orders processes, the one that holds most first.
func byMemory(a, b *gpu.Process) int {
	return cmp.Or(cmp.Compare(b.Memory.Or(0), a.Memory.Or(0)), cmp.Compare(a.PID, b.PID))
}

// Works reports whether a process works, according to the driver.
func Works(p *gpu.Process) bool { return processShare(p) > 0 }

// those are the elements of a list that are wanted.
func those[T any](list []T, wanted func(*T) bool) []*T {
	var out []*T
	for i := range list {
		if wanted(&list[i]) {
			out = append(out, &list[i])
		}
	}
	return out
}

// unused reports whether pods have reserved a device and none has a process on it, as far as is known.
func (d *device) unused() bool {
	list, listed := d.Processes.Get()
	return listed && len(d.Reservations.Or(nil)) > 0 && !slices.ContainsFunc(list, func(p gpu.Process) bool {
		pod, known := p.Facts.Pod.Get()
		return p.Type != gpu.TypeGraphics || !known || !pod.None()
	})
}

// reserved is about a device that is kept for a pod which has nothing on it.
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
	what, nothing := "one pod", "no process on it"
	if len(gpu.ReservingPods(list)) > 1 {
		what = "pods"
	}
	if lasts := d.age(d.m.unused); lasts >= time.Minute {
		nothing = "had no process on it for " + Span(lasts)
	}
	f.say(High, what, d.reservedBy(it), nothing)
}

// reservedBy says which pods have reserved a device, or a part of it; empty for none, or not known.
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
