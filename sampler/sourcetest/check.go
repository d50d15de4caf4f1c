package sourcetest

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/gpu/catalog"
)

// Check returns what is wrong with a device, whatever its source: a value out of bounds that is not doubtful, a reading whose origin the
// catalog does not know, readings of a device that can't have any, a state without a reason, a time in the future.
func Check(d *gpu.Device, now time.Time) []string {
	c := &checker{uuid: d.UUID, now: now}
	c.state(d)
	for r := range catalog.All() {
		r.Visit(d, func(part string, ref catalog.Ref) { c.reading(d.Origin(), r, part, ref) })
	}
	c.parts(d)
	c.memory("memory", d.Memory)
	for i, in := range d.Instances {
		c.memory(fmt.Sprintf("memory of instance %d", i), in.Memory)
		c.expect(in.UUID != "", "instance %d has no UUID", i)
	}
	seen := map[[3]any]bool{}
	for i, p := range d.Processes.Or(nil) {
		c.process(i, &p)
		key := [3]any{p.PID, p.GPUInstance, p.ComputeInstance}
		c.expect(!seen[key], "process %d is listed twice", p.PID)
		seen[key] = true
	}
	return c.problems
}

// parts checks lists against the readings about them.
func (c *checker) parts(d *gpu.Device) {
	counted := func(what string, count gpu.Reading[int], listed int) {
		n, ok := count.Get()
		c.expect(ok && n == listed || !ok && listed == 0, "%d %s are listed, and there are %v", listed, what, count)
	}
	counted("instances", d.Modes.Instances, len(d.Instances))
	counted("NVLinks", d.NVLink.Count, len(d.NVLink.Links))
	for i, l := range d.NVLink.Links {
		c.expect(l.Index == i, "link %d is in place %d", l.Index, i)
	}
	c.expect(!d.Fans.Combined.Or(false) || len(d.Fans.Fans) == 1, "%d fans, one of which stands for all", len(d.Fans.Fans))
	c.expect(d.Processes.Present() == d.ProcessesPartial.Present(), "there are processes: %v, and that the list is partial: %v",
		d.Processes.Present(), d.ProcessesPartial)
}

type checker struct {
	uuid     string
	now      time.Time
	problems []string
}

// expect adds a problem unless ok.
func (c *checker) expect(ok bool, format string, args ...any) {
	if !ok {
		c.problems = append(c.problems, c.uuid+": "+fmt.Sprintf(format, args...))
	}
}

func (c *checker) state(d *gpu.Device) {
	c.expect(!d.Since.IsZero() && !d.Since.After(c.now), "%s since %v", d.State, d.Since)
	switch d.State {
	case gpu.StateOK:
		c.expect(!d.SampledAt.IsZero() || !d.Reason.IsZero(), "ok without a reading or a reason")
		c.expect(!d.SampledAt.After(c.now), "sampled in the future, at %v", d.SampledAt)
	case gpu.StateNotAnswering, gpu.StateLost, gpu.StateAsleep:
		c.expect(d.Reason.What != "", "%s without a reason", d.State)
		readings := d.Readings
		readings.Health.XIDs, readings.Health.Faults = gpu.Reading[[]gpu.XID]{}, gpu.Reading[[]gpu.Fault]{} // events may be present: they can explain the state
		c.expect(d.SampledAt.IsZero() && reflect.DeepEqual(readings, gpu.Readings{}), "%s, and has readings", d.State)
	default:
		c.expect(false, "unknown state %q", d.State)
	}
}

// most is the highest value that a unit can have, with a wide margin.
var most = map[catalog.Unit]float64{
	catalog.Percent: 100, catalog.Celsius: 200, catalog.Watts: 10_000, catalog.Joules: 1e15,
	catalog.Megahertz: 100_000, catalog.RPM: 100_000, catalog.Bytes: 1 << 50, catalog.BytesPerSecond: 1e14,
	catalog.FramesPerSecond: 1e6, catalog.Microseconds: 6e7, catalog.Count: 1 << 31, catalog.Total: 1 << 62,
	catalog.PerformanceState: 15, catalog.Parts: 1 << 10,
}

func (c *checker) reading(source string, r *catalog.Row, part string, ref catalog.Ref) {
	name := r.ID
	if r.List != "" {
		name += " of " + part
	}
	known := r.From == nil || r.From.Of(source) != "" || source == gpu.SourceSimulated
	c.expect(known || !ref.Present(), "%s is reported, and the catalog names no call of %s for it", name, source)
	limit, ok := most[r.Unit]
	if !ok {
		return
	}
	least := 0.0
	switch {
	case r.Unit == catalog.Celsius:
		least = -100
	case r.Unit == catalog.Percent && strings.HasPrefix(r.ID, "fan"):
		limit = 1000 // of a noise limit, and not clamped
	}
	c.bounded(name, catalog.Number(ref), least, limit)
}

func (c *checker) process(i int, p *gpu.Process) {
	c.expect(p.PID > 0, "a process has the pid %d", p.PID)
	c.expect(p.Type != "", "process %d has no type", p.PID)
	number := func(name string, ref catalog.Ref, limit float64) {
		c.bounded(fmt.Sprintf("%s of process %d", name, i), catalog.Number(ref), 0, limit)
	}
	number("sm", &p.SM, 100)
	number("memory bandwidth", &p.MemoryBandwidth, 100)
	number("encoder", &p.Encoder, 100)
	number("decoder", &p.Decoder, 100)
	number("cpu", &p.Facts.CPU, 100_000) // of one core
	number("memory", &p.Memory, most[catalog.Bytes])
	number("rss", &p.Facts.RSS, most[catalog.Bytes])
}

// bounded checks that a value is a number, and that a good one is within the bounds.
func (c *checker) bounded(name string, r gpu.Reading[float64], least, most float64) {
	v := r.Or(0)
	c.expect(!math.IsNaN(v) && !math.IsInf(v, 0), "%s is %v", name, v)
	c.expect(r.Quality() != gpu.Good || v >= least && v <= most, "%s is %v, outside %v to %v", name, v, least, most)
}

func (c *checker) memory(name string, m gpu.Memory) {
	total, ok := m.Total.Get()
	for part, r := range map[string]gpu.Reading[gpu.Bytes]{"used": m.Used, "free": m.Free, "reserved": m.Reserved} {
		v, good := r.Trusted()
		c.expect(!ok || !good || v <= total, "%s: %d bytes %s of %d", name, v, part, total)
	}
}
