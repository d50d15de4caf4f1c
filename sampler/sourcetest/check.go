package sourcetest

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// Check returns what is wrong with a device, whatever source it comes from: a
// value out of bounds that is not doubtful, readings of a device that has none
// to give, a state without a reason.
func Check(d *gpu.Device) []string {
	c := &checker{uuid: d.UUID}
	c.state(d)
	c.walk("", reflect.ValueOf(d.Readings))
	c.memory("Memory", d.Memory)
	for i, in := range d.Instances {
		c.memory(fmt.Sprintf("Instances[%d].Memory", i), in.Memory)
		if in.UUID == "" {
			c.add("instance %d has no UUID", i)
		}
	}
	bounded(c, "Clocks.PerformanceState", d.Clocks.PerformanceState, 0, 15)
	seen := map[string]bool{}
	for _, p := range d.Processes.Or(nil) {
		if p.PID <= 0 {
			c.add("a process has the pid %d", p.PID)
		}
		if p.Type == "" {
			c.add("process %d has no type", p.PID)
		}
		key := fmt.Sprint(p.PID, p.GPUInstance, p.ComputeInstance)
		if seen[key] {
			c.add("process %d is listed twice", p.PID)
		}
		seen[key] = true
	}
	return c.problems
}

type checker struct {
	uuid     string
	problems []string
}

func (c *checker) add(format string, args ...any) {
	c.problems = append(c.problems, c.uuid+": "+fmt.Sprintf(format, args...))
}

func (c *checker) state(d *gpu.Device) {
	if d.Since.IsZero() || d.Since.After(time.Now()) {
		c.add("%s since %v", d.State, d.Since)
	}
	switch d.State {
	case gpu.StateOK:
		if d.SampledAt.IsZero() && d.Reason.IsZero() {
			c.add("ok without a reading or a reason")
		}
		if d.SampledAt.After(time.Now()) {
			c.add("sampled in the future, at %v", d.SampledAt)
		}
	case gpu.StateNotAnswering, gpu.StateLost, gpu.StateAsleep:
		if d.Reason.What == "" {
			c.add("%s without a reason", d.State)
		}
		readings := d.Readings
		readings.Health.XIDs = gpu.Reading[[]gpu.XID]{} // events: they may say why
		if !d.SampledAt.IsZero() || !reflect.DeepEqual(readings, gpu.Readings{}) {
			c.add("%s, and has readings", d.State)
		}
	default:
		c.add("unknown state %q", d.State)
	}
}

// walk checks every reading that a value holds.
func (c *checker) walk(path string, v reflect.Value) {
	switch r := v.Interface().(type) {
	case gpu.Reading[gpu.Percent]:
		most := 100.0
		if strings.Contains(path, ".Fans[") {
			most = 1000 // of a noise limit, and not clamped
		}
		if strings.HasSuffix(path, ".Facts.CPU") {
			most = 100_000 // of one core
		}
		bounded(c, path, r, 0, most)
	case gpu.Reading[gpu.Celsius]:
		bounded(c, path, r, -100, 200)
	case gpu.Reading[gpu.Watts]:
		bounded(c, path, r, 0, 10_000)
	case gpu.Reading[gpu.Megahertz]:
		bounded(c, path, r, 0, 100_000)
	case gpu.Reading[gpu.RPM]:
		bounded(c, path, r, 0, 100_000)
	case gpu.Reading[gpu.Joules]:
		bounded(c, path, r, 0, 1e15)
	case gpu.Reading[gpu.BytesPerSecond]:
		bounded(c, path, r, 0, 1e14)
	case gpu.Reading[gpu.FramesPerSecond]:
		bounded(c, path, r, 0, 1e6)
	case gpu.Reading[gpu.Microseconds]:
		bounded(c, path, r, 0, 6e7)
	case gpu.Reading[gpu.Bytes]:
		bounded(c, path, r, 0, 1<<50)
	case gpu.Reading[int]:
		bounded(c, path, r, 0, 1<<31)
	case gpu.Reading[uint64]:
		bounded(c, path, r, 0, 1<<62)
	case gpu.Reading[[]gpu.Process]:
		for i, p := range r.Or(nil) {
			c.walk(fmt.Sprintf("%s[%d]", path, i), reflect.ValueOf(p))
		}
	default:
		c.within(path, v)
	}
}

func (c *checker) within(path string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				c.walk(path+"."+f.Name, v.Field(i))
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			c.walk(fmt.Sprintf("%s[%d]", path, i), v.Index(i))
		}
	}
}

type quantity interface {
	~int | ~uint64 | ~float64
}

// bounded: a good value lies between the bounds; a doubtful one says itself
// that it can't be right, but is a number.
func bounded[T quantity](c *checker, path string, r gpu.Reading[T], least, most float64) {
	v, ok := r.Get()
	f := float64(v)
	switch {
	case !ok:
	case math.IsNaN(f) || math.IsInf(f, 0):
		c.add("%s is %v", path, v)
	case r.Quality() == gpu.Good && (f < least || f > most):
		c.add("%s is %v, outside %v to %v", path, v, least, most)
	}
}

func (c *checker) memory(path string, m gpu.Memory) {
	total, ok := m.Total.Get()
	for name, part := range map[string]gpu.Reading[gpu.Bytes]{"used": m.Used, "free": m.Free, "reserved": m.Reserved} {
		if v := part.Or(0); ok && part.Quality() == gpu.Good && v > total {
			c.add("%s: %d bytes %s of %d", path, v, name, total)
		}
	}
}
