//go:build linux && cgo

package nvml

import (
	"reflect"
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

const (
	// A machine is let go when it was idle for so many readings, over so
	// long a time.
	calmReadings = 3
	calmTime     = 10 * time.Second
	// firstPause is longer than drivers take to power an idle card down.
	firstPause   = 20 * time.Second
	longestPause = 2 * time.Minute
)

// rest decides when a machine whose cards may fall asleep is left alone, so
// that they do. It has no clock.
type rest struct {
	calm      int // idle readings in a row
	calmSince time.Time
	until     time.Time     // left alone until then
	pause     time.Duration // how long the last pause was
	slept     []string      // addresses of cards seen asleep in this pause
}

// note takes in a reading, and reports whether to let the cards go now. A
// machine that is not idle begins anew.
func (r *rest) note(now time.Time, idle bool) (letGo bool) {
	if !idle {
		*r = rest{}
		return false
	}
	if r.calm == 0 {
		r.calmSince = now
	}
	r.calm++
	// After a pause in which no card fell asleep, one look is enough.
	if r.pause == 0 && (r.calm < calmReadings || now.Sub(r.calmSince) < calmTime) {
		return false
	}
	r.pause = min(max(firstPause, 2*r.pause), longestPause)
	r.until, r.calm, r.slept = now.Add(r.pause), 0, nil
	return true
}

// resting reports whether the cards are to be left alone now. The pause ends
// early when one that had fallen asleep is awake: somebody uses it.
func (r *rest) resting(now time.Time, cards []card) bool {
	if !now.Before(r.until) {
		return false
	}
	for _, c := range cards {
		switch was := slices.Contains(r.slept, c.address); {
		case c.asleep() && !was:
			r.slept = append(r.slept, c.address)
		case !c.asleep() && was:
			*r = rest{}
			return false
		}
	}
	return true
}

// idle reports whether nothing seems to need the device: no work, and no
// process but such as only draw, on no display.
func idle(d *gpu.Device) bool {
	if d.State == gpu.StateAsleep {
		return true
	}
	busy, ok := d.Utilization.GPU.Get()
	processes, listed := d.Processes.Get()
	return d.State == gpu.StateOK && ok && busy == 0 && listed && !d.Modes.DisplayActive.Or(false) &&
		!slices.ContainsFunc(processes, func(p gpu.Process) bool { return p.Type != gpu.TypeGraphics })
}

// leftAlone is why a device that is awake has no readings for a while.
var leftAlone = gpu.Advice{
	What: "the device is idle, and left alone so that it can fall asleep",
	Try:  "nothing needs to be done: it is read again soon",
}

// stale returns the readings with all that were there absent as stale.
func stale(r gpu.Readings) gpu.Readings {
	r.Fans.Fans = slices.Clone(r.Fans.Fans)
	r.Instances = slices.Clone(r.Instances)
	fade(reflect.ValueOf(&r).Elem())
	return r
}

// fade replaces every reading within v that has a value.
func fade(v reflect.Value) {
	switch v.Kind() {
	case reflect.Slice:
		for i := range v.Len() {
			fade(v.Index(i))
		}
	case reflect.Struct:
		if r, ok := reflect.TypeAssert[interface{ Present() bool }](v.Addr()); ok {
			if r.Present() {
				v.Set(reflect.ValueOf(absent(v.Interface())))
			}
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fade(v.Field(i))
			}
		}
	}
}

// absent is a stale reading of the same type as r. One of a type that is missing
// here is not reported; a test finds it.
func absent(r any) any {
	switch r.(type) {
	case gpu.Reading[gpu.Percent]:
		return gpu.Absent[gpu.Percent](gpu.Stale)
	case gpu.Reading[gpu.Bytes]:
		return gpu.Absent[gpu.Bytes](gpu.Stale)
	case gpu.Reading[gpu.Celsius]:
		return gpu.Absent[gpu.Celsius](gpu.Stale)
	case gpu.Reading[gpu.Watts]:
		return gpu.Absent[gpu.Watts](gpu.Stale)
	case gpu.Reading[gpu.Joules]:
		return gpu.Absent[gpu.Joules](gpu.Stale)
	case gpu.Reading[gpu.Megahertz]:
		return gpu.Absent[gpu.Megahertz](gpu.Stale)
	case gpu.Reading[gpu.RPM]:
		return gpu.Absent[gpu.RPM](gpu.Stale)
	case gpu.Reading[gpu.BytesPerSecond]:
		return gpu.Absent[gpu.BytesPerSecond](gpu.Stale)
	case gpu.Reading[gpu.FramesPerSecond]:
		return gpu.Absent[gpu.FramesPerSecond](gpu.Stale)
	case gpu.Reading[gpu.Microseconds]:
		return gpu.Absent[gpu.Microseconds](gpu.Stale)
	case gpu.Reading[gpu.ClockEventReasons]:
		return gpu.Absent[gpu.ClockEventReasons](gpu.Stale)
	case gpu.Reading[int]:
		return gpu.Absent[int](gpu.Stale)
	case gpu.Reading[uint64]:
		return gpu.Absent[uint64](gpu.Stale)
	case gpu.Reading[bool]:
		return gpu.Absent[bool](gpu.Stale)
	case gpu.Reading[string]:
		return gpu.Absent[string](gpu.Stale)
	case gpu.Reading[time.Time]:
		return gpu.Absent[time.Time](gpu.Stale)
	case gpu.Reading[[]gpu.Process]:
		return gpu.Absent[[]gpu.Process](gpu.Stale)
	case gpu.Reading[[]gpu.XID]:
		return gpu.Absent[[]gpu.XID](gpu.Stale)
	default:
		return reflect.Zero(reflect.TypeOf(r)).Interface()
	}
}
