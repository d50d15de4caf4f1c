package metrics

import (
	"math"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

type kind uint8

const (
	gauge kind = iota
	counter
)

// A unit says how a reading, in the vocabulary's unit, is written in each
// family.
type unit struct {
	name string // in our family, as people write it
	ours func(float64) float64

	dcgmName string // in DCGM's, whose names don't say it
	dcgm     func(float64) float64
}

func as(v float64) float64 { return v }

var (
	number    = unit{name: "", ours: as, dcgm: as}
	yesNo     = unit{name: "0 or 1", ours: as, dcgm: as}
	celsius   = unit{name: "°C", ours: as, dcgmName: "°C", dcgm: as}
	watts     = unit{name: "W", ours: as, dcgmName: "W", dcgm: as}
	seconds   = unit{name: "s", ours: as, dcgm: as}
	timestamp = unit{name: "s since 1970", ours: as, dcgm: as}
	percent   = unit{name: "ratio", ours: func(v float64) float64 { return v / 100 }, dcgmName: "%", dcgm: as}
	active    = unit{name: "ratio", ours: percent.ours, dcgm: percent.ours} // a share in DCGM's family too
	rate      = unit{name: "bytes/s", ours: as, dcgmName: "bytes/s", dcgm: as}
	bytesUnit = unit{name: "bytes", ours: as, dcgmName: "MiB", dcgm: func(v float64) float64 { return math.Trunc(v / (1 << 20)) }}
	joules    = unit{name: "J", ours: as, dcgmName: "mJ", dcgm: func(v float64) float64 { return math.Round(v * 1000) }}
	megahertz = unit{name: "Hz", ours: func(v float64) float64 { return v * 1e6 }, dcgmName: "MHz", dcgm: as}
	frames    = unit{name: "1/s", ours: as, dcgm: as}
	micros    = unit{name: "s", ours: func(v float64) float64 { return v / 1e6 }, dcgm: as}
	rpm       = unit{name: "1/min", ours: as, dcgm: as}
)

// A row declares one metric: its name in our family, what it says, what it is
// called elsewhere, and how it is had from a subject (a device, the host, the
// program). Exactly one of value and each is set.
type row[T any] struct {
	name   string
	kind   kind
	unit   unit
	labels []string // beside those of every series of the subject
	help   string   // a sentence
	absent string   // when there is no series, where "the device does not report it" is not all
	from   string   // the driver's call, or the file
	otel   string   // the name in OpenTelemetry's semantic conventions

	// dcgm is the metric's name in the DCGM family; none where it is empty.
	dcgm *dcgmForm

	// always: also for a device that is not ok.
	always bool
	value  func(T) gpu.Reading[float64]
	// each calls emit for each series, with a value for each of labels.
	each func(s T, emit emit)
}

type emit func(v gpu.Reading[float64], labels ...string)

// dcgmForm is what a device's metric is in the DCGM family.
type dcgmForm struct {
	name  string
	kind  kind                                     // DCGM's own, which follows no suffix
	value func(*device) gpu.Reading[float64]       // the row's own where it is nil
	help  string                                   // the row's own, with the unit, where it is empty
	part  func(*gpu.Instance) gpu.Reading[float64] // in place of the device where MIG mode parts it; may be nil
}

// num turns a reading of any unit into one of a number.
func num[T ~float64 | ~uint64 | ~int](r gpu.Reading[T]) gpu.Reading[float64] {
	return gpu.Map(r, func(v T) float64 { return float64(v) })
}

// boolean turns a switch into 0 or 1.
func boolean(r gpu.Reading[bool]) gpu.Reading[float64] {
	return gpu.Map(r, zeroOne)
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
	return gpu.Of(seconds1970(t))
}

func seconds1970(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }
