package explain

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// The family of work: who uses the device.

func work(c *card) *finding {
	if c.doing != working {
		return nil
	}
	f := &finding{
		since:    c.m.work.since,
		evidence: c.heat().figure("utilization", c.v.util, "%"),
		advice:   c.lessWork(),
	}
	if c.unproven() {
		f.evidence.figure("power at rest", c.floor, "W").figure("SM clock", c.v.clock, "MHz").figure("fastest SM clock", c.v.top, "MHz").
			figure("processes listed", float64(len(c.d.Processes.Or(nil))), "")
		f.advice = "Look again in a few seconds: work that has just begun shows in the counter first. If it stays so, go by power and temperature."
	}
	if c.v.video > 0 {
		f.evidence.figure("busiest video engine", c.v.video, "%")
	}
	if c.m.work.on && !f.since.IsZero() {
		f.evidence.add(happened("work began", f.since))
	}
	c.nameCulprits(f.evidence)
	f.confidence = c.blame()
	f.clause = func(it string) string { return c.workClause(it) }
	return f
}

// unproven reports whether there is nothing but the busy counter that speaks
// for work, and power and clocks speak against it.
func (c *card) unproven() bool {
	return c.doing == working && len(c.culprits) == 0 && contradicted(&c.v, c.floor)
}

func (c *card) workClause(it string) string {
	if c.unproven() {
		return c.figured(it, fmt.Sprintf("%s says that it is busy at %s", it, withUnit(c.v.util, "%"))) +
			", but its power and clocks are those of rest: whether anybody works on it can't be told yet"
	}
	how := "busy"
	switch {
	case c.v.util >= idleBelow && !(c.v.video > c.v.util):
		how += " at " + withUnit(c.v.util, "%")
	case c.v.video >= idleBelow:
		how += " with video at " + withUnit(c.v.video, "%")
	}
	if lasts := c.age(c.m.work.since); c.m.work.on && lasts >= time.Minute {
		how += " for " + Span(lasts)
	}
	if len(c.culprits) > 0 {
		keeps := " keeps "
		if c.guessed() {
			keeps = " probably keeps "
		}
		return c.figured(it, ProcessName(c.culprits[0])+others(c.helpers())+keeps+it+" "+how)
	}
	blame := "no process is listed that explains it"
	if !c.listed {
		blame = "the driver does not say which process it is"
	}
	if by := c.reservedBy("it"); by != "" {
		blame += " (" + by + ")"
	}
	return c.figured(it, it+" is "+how) + ", and " + blame
}

// helpers are how many others have a part of the work that is worth telling:
// a desktop draws a little beside every game.
func (c *card) helpers() int {
	n := 0
	for i := range c.culprits[1:] {
		if c.counts(1 + i) {
			n++
		}
	}
	return n
}

// counts reports whether the i-th culprit has a part worth telling, or none
// that is known.
func (c *card) counts(i int) bool {
	share := processShare(c.culprits[i])
	return i == 0 || !has(share) || share >= max(idleBelow, 0.1*highest(processShare(c.culprits[0]), 0))
}

// guessed reports whether work is told by the power alone.
func (c *card) guessed() bool {
	if has(c.v.util) || has(c.v.video) {
		return false
	}
	return !slices.ContainsFunc(c.culprits, func(p *gpu.Process) bool { return processShare(p) >= idleBelow })
}

// blame is how sure it is that the first of the culprits does the work.
func (c *card) blame() Confidence {
	if len(c.culprits) == 0 || c.guessed() {
		return Low
	}
	share := processShare(c.culprits[0])
	switch {
	case has(share) && share*2 >= highest(c.v.util, c.v.video) && !contradicted(&c.v, c.floor):
		return High
	case share >= 1, len(c.culprits) == 1:
		return Medium
	default:
		return Low
	}
}

// nameCulprits adds the processes that work, with their part of it.
func (c *card) nameCulprits(p *proofs) {
	const most = 4
	named := 0
	for i := range c.culprits {
		if !c.counts(i) {
			continue
		}
		if named++; named > most {
			continue
		}
		q := c.culprits[i]
		name := ProcessName(q)
		if share := processShare(q); has(share) {
			p.figure("work of "+name, share, "%")
		}
		if memory := believed(gpu.Map(q.Memory, gpu.Bytes.MiB), 0, mostBytes); has(memory) {
			p.figure("memory of "+name, memory, "MiB")
		}
		if started, ok := q.Facts.Started.Get(); ok {
			p.add(happened("start of "+name, started))
		}
	}
	if named > most {
		p.figure("further processes", float64(named-most), "")
	}
}

// lessWork says what makes a device at work quieter.
func (c *card) lessWork() string {
	text := "End or pause the work"
	if len(c.culprits) > 0 && !gone(c.culprits[0]) {
		text = "End or pause " + ProcessName(c.culprits[0])
	}
	least := believed(c.d.Power.MinLimit, 1, mostWatts)
	lower := 0.8 * c.v.limit
	if c.d.Vendor != gpu.NVIDIA || !has(lower) || !(lower >= least) {
		return text + "."
	}
	return fmt.Sprintf("%s. Or let it run with less heat and noise, and a little more slowly: nvidia-smi -i %s -pl %s, as root.",
		text, nameOf(c.d.UUID), number(lower))
}

// Culprits are the processes that have work on the device, busiest first.
// Where none has a share (the driver takes no samples, or the work fell
// between two) they are those with a compute context, by memory.
func Culprits(list []gpu.Process) []gpu.Process {
	found := culprits(list)
	out := make([]gpu.Process, len(found))
	for i, p := range found {
		out[i] = *p
	}
	return out
}

// culprits are those of Culprits, in the list itself.
func culprits(list []gpu.Process) []*gpu.Process {
	found := those(list, func(p *gpu.Process) bool { return share(p) > 0 })
	if len(found) == 0 {
		found = those(list, func(p *gpu.Process) bool { return p.Type != gpu.TypeGraphics })
	}
	slices.SortStableFunc(found, func(a, b *gpu.Process) int {
		return cmp.Or(
			cmp.Compare(share(b), share(a)),
			cmp.Compare(b.Memory.Or(0), a.Memory.Or(0)),
			cmp.Compare(a.PID, b.PID),
		)
	})
	return found
}

func those(list []gpu.Process, wanted func(*gpu.Process) bool) []*gpu.Process {
	var out []*gpu.Process
	for i := range list {
		if wanted(&list[i]) {
			out = append(out, &list[i])
		}
	}
	return out
}

// share is the largest of a process's engine shares that can be believed; 0
// where it has none.
func share(p *gpu.Process) gpu.Percent {
	var most gpu.Percent
	for _, r := range []gpu.Reading[gpu.Percent]{p.SM, p.Encoder, p.Decoder} {
		if v, ok := r.Trusted(); ok {
			most = max(most, v)
		}
	}
	return most
}
