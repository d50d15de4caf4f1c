package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// The family of readings that can't be right.

// stuckFor is how long everything must speak against the busy counter. When
// work begins, the counter may be ahead of the power by a second or so.
const stuckFor = 3 * time.Second

// stuckLongEnough reports whether what stuck looks for is no passing moment. Of
// a device that was seen for less long, all that was seen must be so.
func (c *card) stuckLongEnough() bool {
	return c.m.at.IsZero() || c.m.lasted(c.m.stuck) >= min(stuckFor, c.m.at.Sub(c.m.first))
}

func stuckCounter(c *card) *finding {
	if !c.stuck {
		return nil
	}
	// Shares are samples: a process that has none may have worked between two.
	confidence, list := Medium, c.d.Processes.Or(nil)
	lasts := c.m.lasted(c.m.stuck) >= stuckFor
	switch {
	case lasts && len(list) == 0:
		confidence = High
	case !lasts && len(list) > 0:
		confidence = Low
	}
	f := c.heat().figure("busy counter", c.v.util, "%").
		figure("power at rest", c.floor, "W").
		figure("SM clock", c.v.clock, "MHz").
		figure("fastest SM clock", c.v.top, "MHz").
		figure("processes listed", float64(len(list)), "")
	return &finding{
		clause: func(it string) string {
			return c.aside(it, fmt.Sprintf("%s says that it is busy at %s, but its counter looks stuck: %s", it, withUnit(c.v.util, "%"), idleness(list)))
		},
		confidence: confidence,
		since:      c.began(c.m.stuck),
		evidence:   f,
		advice:     "Nothing needs to be done for the fan. The counter is right again after the GPU is reset or the machine is restarted; until then go by power and temperature.",
	}
}

// idleness says of the processes of a device that rests that they do too, as far
// as they have shares.
func idleness(list []gpu.Process) string {
	known := !slices.ContainsFunc(list, func(p gpu.Process) bool { return !has(processShare(&p)) })
	switch {
	case len(list) == 0:
		return "nothing runs on it"
	case !known:
		return "no process on it is seen to do anything"
	case len(list) == 1:
		return "the one process on it does nothing"
	default:
		return fmt.Sprintf("none of the %d processes on it does anything", len(list))
	}
}

// doubtful lists readings that came with a value that can't be right.
func doubtful(c *card) *finding {
	p := &proofs{at: c.at}
	suspect(p, "utilization", c.d.Utilization.GPU, "%", 0, 100)
	suspect(p, "temperature", c.d.Thermal.GPU, "°C", coldest, hottest)
	suspect(p, "memory temperature", c.d.Thermal.Memory, "°C", coldest, hottest)
	suspect(p, "power draw", c.d.Power.Draw, "W", 0, mostWatts)
	suspect(p, "fan, as commanded", c.d.Fans.Commanded(), "%", 0, mostPercent)
	suspect(p, "SM clock", c.d.Clocks.SM, "MHz", 0, mostMegahertz)
	suspect(p, "memory used", gpu.Map(c.d.Memory.Used, gpu.Bytes.MiB), "MiB", 0, mostBytes)
	if len(p.list) == 0 {
		return nil
	}
	texts := make([]string, len(p.list))
	for i, e := range p.list {
		texts[i] = e.Name + " (" + e.Text + ")"
	}
	return &finding{
		clause: func(it string) string {
			return it + " reports what can't be right, and it is left out here: " + strings.Join(texts, ", ")
		},
		confidence: High,
		evidence:   p,
		advice:     "If it stays so, restart the machine, or update the driver; a sensor may be broken.",
		aside:      true,
	}
}

// suspect adds a reading to the evidence that has a value and isn't believed.
func suspect[T ~float64 | ~int](p *proofs, name string, r gpu.Reading[T], unit string, least, most float64) {
	v, ok := r.Get()
	if !ok || has(believed(r, least, most)) {
		return
	}
	if f := float64(v); f >= -1e12 && f <= 1e12 {
		p.figure(name, f, unit)
		return
	}
	p.fact(name, "no number that can be shown")
}
