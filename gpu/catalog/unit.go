package catalog

import (
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A Unit is the unit of a reading, by its type in package gpu.
type Unit uint8

// The units. From Text on, they are not quantities.
const (
	Count            Unit = iota // number of things now
	Total                        // events since a start: it only grows
	PerformanceState             // 0 (fastest) to 15
	Parts                        // number of parts of a device; 0 reads "none"
	Percent
	Celsius
	Watts
	Joules
	Megahertz
	RPM
	Bytes
	BytesPerSecond
	FramesPerSecond
	Microseconds
	Moment // seconds since 1970
	Switch // 1: on, 0: off
	Text
	Reasons   // a set of clock event reasons
	Errors    // a list of the driver's errors; as a number, their count
	Processes // a list of processes; as a number, their count
)

// String returns the symbol after a number; empty if there is none.
func (u Unit) String() string {
	return map[Unit]string{Percent: "%", Celsius: "°C", Watts: "W", Joules: "J", Megahertz: "MHz", RPM: "RPM"}[u]
}

func unitOf(r Ref) Unit {
	u, _ := look(r)
	return u
}

// Number returns a reading as a number in its unit; 1 for a reading that is not a quantity.
func Number(r Ref) gpu.Reading[float64] {
	_, n := look(r)
	return n
}

func look(r Ref) (Unit, gpu.Reading[float64]) {
	switch r := r.(type) {
	case *gpu.Reading[gpu.Percent]:
		return Percent, number(r)
	case *gpu.Reading[gpu.Celsius]:
		return Celsius, number(r)
	case *gpu.Reading[gpu.Watts]:
		return Watts, number(r)
	case *gpu.Reading[gpu.Joules]:
		return Joules, number(r)
	case *gpu.Reading[gpu.Megahertz]:
		return Megahertz, number(r)
	case *gpu.Reading[gpu.RPM]:
		return RPM, number(r)
	case *gpu.Reading[gpu.Bytes]:
		return Bytes, number(r)
	case *gpu.Reading[gpu.BytesPerSecond]:
		return BytesPerSecond, number(r)
	case *gpu.Reading[gpu.FramesPerSecond]:
		return FramesPerSecond, number(r)
	case *gpu.Reading[gpu.Microseconds]:
		return Microseconds, number(r)
	case *gpu.Reading[int]:
		return Count, number(r)
	case *gpu.Reading[uint64]:
		return Total, number(r)
	case *gpu.Reading[bool]:
		return Switch, gpu.Map(*r, zeroOne)
	case *gpu.Reading[time.Time]:
		return Moment, gpu.Map(*r, func(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 })
	case *gpu.Reading[gpu.ClockEventReasons]:
		return Reasons, gpu.Map(*r, func(gpu.ClockEventReasons) float64 { return 1 })
	case *gpu.Reading[string]:
		return Text, gpu.Map(*r, func(string) float64 { return 1 })
	case *gpu.Reading[[]gpu.XID]:
		return Errors, gpu.Map(*r, countXIDs)
	case *gpu.Reading[[]gpu.Fault]:
		return Errors, gpu.Map(*r, countFaults)
	case *gpu.Reading[[]gpu.Process]:
		return Processes, gpu.Map(*r, func(list []gpu.Process) float64 { return float64(len(list)) })
	default:
		panic("catalog: a reading of a type that has no unit")
	}
}

func number[T ~float64 | ~uint64 | ~int](r *gpu.Reading[T]) gpu.Reading[float64] {
	return gpu.Map(*r, func(v T) float64 { return float64(v) })
}

func zeroOne(set bool) float64 {
	if set {
		return 1
	}
	return 0
}

func countXIDs(list []gpu.XID) float64 {
	n := uint64(0)
	for _, x := range list {
		n += x.Count
	}
	return float64(n)
}

func countFaults(list []gpu.Fault) float64 {
	n := uint64(0)
	for _, f := range list {
		n += f.Count
	}
	return float64(n)
}
