package metrics

import (
	"math"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/gpu/catalog"
)

// A unit says how a reading, which has the catalog's unit, is written in each family.
type unit struct {
	name string // in our family, as people write it
	ours func(float64) float64

	dcgmName string // in the DCGM family, whose names do not say it
	dcgm     func(float64) float64
}

func as(v float64) float64 { return v }

func over(n float64) func(float64) float64 { return func(v float64) float64 { return v / n } }

var (
	number    = unit{name: "", ours: as, dcgm: as}
	yesNo     = unit{name: "0 or 1", ours: as, dcgm: as}
	seconds   = unit{name: "s", ours: as, dcgm: as}
	timestamp = unit{name: "s since 1970", ours: as, dcgm: as}
	percent   = unit{name: "ratio", ours: over(100), dcgmName: "%", dcgm: as}
	mebibytes = func(v float64) float64 { return math.Trunc(v / (1 << 20)) }
	bytesUnit = unit{name: "bytes", ours: as, dcgmName: "MiB", dcgm: mebibytes}
)

// units are the units of the catalog's readings. What is no quantity is a number.
var units = [catalog.Processes + 1]unit{
	catalog.Count: number, catalog.Total: number, catalog.PerformanceState: number, catalog.Parts: number,
	catalog.Text: number, catalog.Errors: number, catalog.Processes: number,
	catalog.Reasons: yesNo, catalog.Switch: yesNo,
	catalog.Moment:          timestamp,
	catalog.Percent:         percent,
	catalog.Bytes:           bytesUnit,
	catalog.Celsius:         {name: "°C", ours: as, dcgmName: "°C", dcgm: as},
	catalog.Watts:           {name: "W", ours: as, dcgmName: "W", dcgm: as},
	catalog.Joules:          {name: "J", ours: as, dcgmName: "mJ", dcgm: func(v float64) float64 { return math.Round(v * 1000) }},
	catalog.Megahertz:       {name: "Hz", ours: func(v float64) float64 { return v * 1e6 }, dcgmName: "MHz", dcgm: as},
	catalog.RPM:             {name: "1/min", ours: as, dcgm: as},
	catalog.BytesPerSecond:  {name: "bytes/s", ours: as, dcgmName: "bytes/s", dcgm: as},
	catalog.FramesPerSecond: {name: "1/s", ours: as, dcgm: as},
	catalog.Microseconds:    {name: "s", ours: over(1e6), dcgm: as},
}

// A row declares one metric: its gpuwhy_* name, its help text, its names elsewhere, and how to read
// it from a subject (a device, a snapshot, the program).
type row[T any] struct {
	name   string
	unit   unit
	labels []string // beside those of every series of the subject
	help   string   // a sentence
	absent string   // when there is no series, if not just because the device does not report it
	from   string   // the driver's call, or the file
	otel   string   // the name in OpenTelemetry's semantic conventions
	dcgm   *dcgmForm
	forms  []otelForm // how it is told under OpenTelemetry's names

	at     func(s T) time.Time // when it was read, if not with the subject's other readings; zero: with them
	always bool                // also for a device that is not ok
	each   func(s T, emit emit)
}

// An emit receives one series of a row. An absent reading makes none.
type emit func(v gpu.Reading[float64], labels ...string)

// counts reports whether the metric is a counter, whose name says so; the others are gauges.
func (r *row[T]) counts() bool { return strings.HasSuffix(r.name, "_total") }

// eachOf calls emit for each element of a list.
func eachOf[S, T any](list func(S) []T, one func(*T, emit)) func(S, emit) {
	return func(s S, emit emit) {
		elements := list(s)
		for i := range elements {
			one(&elements[i], emit)
		}
	}
}

// plain is the row of a number that is always known.
func plain[T any](name string, u unit, help string, value func(T) float64) row[T] {
	return row[T]{name: name, unit: u, help: help, each: func(s T, emit emit) { emit(gpu.Of(value(s))) }}
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

// unix is a moment in seconds since 1970; absent for the zero time.
func unix(t time.Time) gpu.Reading[float64] {
	if t.IsZero() {
		return gpu.Reading[float64]{}
	}
	return gpu.Of(float64(t.UnixMicro()) / 1e6)
}
