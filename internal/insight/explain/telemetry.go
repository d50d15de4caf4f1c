package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// These rules are about readings that can't be right.

// stuckFor is how long everything else must contradict the busy counter. When
// work begins, the counter may be ahead of the power by a second or so.
const stuckFor = 3 * time.Second

// stuckLongEnough reports whether what looksStuck finds is no passing moment. Of
// a device that was seen for less long, all readings must have been so.
func (d *device) stuckLongEnough() bool {
	return d.m.at.IsZero() || d.m.lasted(d.m.stuck) >= min(stuckFor, d.m.at.Sub(d.m.first))
}

func stuckCounter(d *device) *finding {
	if !d.stuck {
		return nil
	}
	list := d.Processes.Or(nil)
	f := &finding{
		clause: it + " says that it is busy at " + withUnit(d.util, "%") +
			", but its counter looks stuck: " + idleness(list) + inBrackets,
		// Shares are samples: a process without one may have worked between two.
		confidence: Medium,
		since:      d.began(d.m.stuck),
		advice: "Nothing needs to be done for the fan. The counter is right again after the GPU is reset " +
			"or the machine is restarted; until then go by power and temperature.",
		evidence: d.heat(),
	}
	lasts := d.m.lasted(d.m.stuck) >= stuckFor
	switch {
	case lasts && len(list) == 0:
		f.confidence = High
	case !lasts && len(list) > 0:
		f.confidence = Low
	}
	f.figure("busy counter", d.util, "%").rest(d)
	return f
}

// idleness says that the processes of a resting device do nothing, as far as
// they have shares.
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

// doubtful lists the readings whose value can't be right.
func doubtful(d *device) *finding {
	f := &finding{
		confidence: High,
		advice:     "If it stays so, restart the machine, or update the driver; a sensor may be broken.",
		minor:      true,
		evidence:   evidence{at: d.at},
	}
	suspect(f, "utilization", d.Utilization.GPU, "%", 0, 100)
	suspect(f, "temperature", d.Thermal.GPU, "°C", coldest, hottest)
	suspect(f, "memory temperature", d.Thermal.Memory, "°C", coldest, hottest)
	suspect(f, "power draw", d.Power.Draw, "W", 0, mostWatts)
	suspect(f, "fan, as commanded", d.Fans.Commanded(), "%", 0, mostPercent)
	suspect(f, "SM clock", d.Clocks.SM, "MHz", 0, mostMegahertz)
	suspect(f, "memory used", gpu.Map(d.Memory.Used, gpu.Bytes.MiB), "MiB", 0, mostBytes)
	if len(f.list) == 0 {
		return nil
	}
	texts := make([]string, len(f.list))
	for i, e := range f.list {
		texts[i] = e.Name + " (" + e.Text + ")"
	}
	f.clause = it + " reports what can't be right, and it is left out here: " + strings.Join(texts, ", ")
	return f
}

// suspect adds a reading to the evidence that has a value which can't be right.
func suspect[T ~float64 | ~int](f *finding, name string, r gpu.Reading[T], unit string, least, most float64) {
	v, ok := r.Get()
	switch value := float64(v); {
	case !ok || has(believed(r, least, most)):
	case value >= -1e12 && value <= 1e12:
		f.figure(name, value, unit)
	default:
		f.fact(name, "no number that can be shown")
	}
}
