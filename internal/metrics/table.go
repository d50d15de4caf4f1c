package metrics

import (
	"math"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/gpu/catalog"
)

// A Unit says how a reading, which has the catalog's unit, is written in each family.
type Unit struct {
	name string // in our family, as people write it
	ours func(float64) float64

	dcgmName string // in the DCGM family, whose names do not say it
	dcgm     func(float64) float64
}

func unchanged(v float64) float64 { return v }

func over(n float64) func(float64) float64 { return func(v float64) float64 { return v / n } }

// The units of metrics.
var (
	Number    = Unit{name: "", ours: unchanged, dcgm: unchanged}
	YesNo     = Unit{name: "0 or 1", ours: unchanged, dcgm: unchanged}
	Seconds   = Unit{name: "s", ours: unchanged, dcgm: unchanged}
	Timestamp = Unit{name: "s since 1970", ours: unchanged, dcgm: unchanged}
	percent   = Unit{name: "ratio", ours: over(100), dcgmName: "%", dcgm: unchanged}
	mebibytes = func(v float64) float64 { return math.Trunc(v / (1 << 20)) }
	Bytes     = Unit{name: "bytes", ours: unchanged, dcgmName: "MiB", dcgm: mebibytes}
)

// units are the units of the catalog's readings. What is no quantity is a number.
var units = [catalog.Processes + 1]Unit{
	catalog.Count: Number, catalog.Total: Number, catalog.PerformanceState: Number, catalog.Parts: Number,
	catalog.Text: Number, catalog.Errors: Number, catalog.Processes: Number,
	catalog.Reasons: YesNo, catalog.Switch: YesNo,
	catalog.Moment:          Timestamp,
	catalog.Percent:         percent,
	catalog.Bytes:           Bytes,
	catalog.Celsius:         {name: "°C", ours: unchanged, dcgmName: "°C", dcgm: unchanged},
	catalog.Watts:           {name: "W", ours: unchanged, dcgmName: "W", dcgm: unchanged},
	catalog.Joules:          {name: "J", ours: unchanged, dcgmName: "mJ", dcgm: func(v float64) float64 { return math.Round(v * 1000) }},
	catalog.Megahertz:       {name: "Hz", ours: func(v float64) float64 { return v * 1e6 }, dcgmName: "MHz", dcgm: unchanged},
	catalog.RPM:             {name: "1/min", ours: unchanged, dcgm: unchanged},
	catalog.BytesPerSecond:  {name: "bytes/s", ours: unchanged, dcgmName: "bytes/s", dcgm: unchanged},
	catalog.FramesPerSecond: {name: "1/s", ours: unchanged, dcgm: unchanged},
	catalog.Microseconds:    {name: "s", ours: over(1e6), dcgm: unchanged},
}

// A Row declares one metric: its name in our family, what it says, its names
// it from a subject (a device, a snapshot, the program).
type Row[T any] struct {
	name   string
	unit   Unit
	labels []string // beside those of every series of the subject
	help   string   // a sentence
	absent string   // when there is no series, if not just because the device does not report it
	source string   // the driver's call, or the file
	otel   string   // the name in OpenTelemetry's semantic conventions
	dcgm   *dcgmForm
	forms  []otelForm // how it is told under OpenTelemetry's names

	readAt func(s T) time.Time // when it was read, if not with the subject's other readings; zero: with them
	always bool                // also for a device that is not ok
	each   func(s T, emit Emit)
}

// An Emit takes one series of a row. An absent reading makes none.
type Emit func(v gpu.Reading[float64], labels ...string)

// counts reports whether the metric is a counter, whose name says so; the others are gauges.
func (r *Row[T]) counts() bool { return strings.HasSuffix(r.name, "_total") }

// Each calls one for each element of a list.
func Each[S, T any](list func(S) []T, one func(*T, Emit)) func(S, Emit) {
	return func(s S, emit Emit) {
		elements := list(s)
		for i := range elements {
			one(&elements[i], emit)
		}
	}
}

// Plain is the row of a number that is always known.
func Plain[T any](name string, u Unit, help string, value func(T) float64) Row[T] {
	return Row[T]{name: name, unit: u, help: help, each: func(s T, emit Emit) { emit(gpu.Of(value(s))) }}
}

// num turns a reading of any unit into one of a number.
func num[T ~float64 | ~uint64 | ~int](r gpu.Reading[T]) gpu.Reading[float64] {
	return gpu.Map(r, func(v T) float64 { return float64(v) })
}

func zeroOne(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// one is the value of series that say all they say in their labels.
var one = gpu.Of(1.0)

// Unix is a moment in seconds since 1970; absent for the zero time.
func Unix(t time.Time) gpu.Reading[float64] {
	if t.IsZero() {
		return gpu.Reading[float64]{}
	}
	return gpu.Of(float64(t.UnixMicro()) / 1e6)
}
