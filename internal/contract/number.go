package contract

import (
	"math"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// Float is a measured value in any unit, Int one that a contract wants as a whole number. The
// others are readings by unit; see [gpu.Reading.MarshalJSON].
type (
	Float        = gpu.Reading[float64]
	Int          = gpu.Reading[int64]
	Count        = gpu.Reading[int]
	Switch       = gpu.Reading[bool]
	Total        = gpu.Reading[uint64]
	Percent      = gpu.Reading[gpu.Percent]
	Bytes        = gpu.Reading[gpu.Bytes] // in MiB on the wire
	Celsius      = gpu.Reading[gpu.Celsius]
	Watts        = gpu.Reading[gpu.Watts]
	Joules       = gpu.Reading[gpu.Joules]
	Megahertz    = gpu.Reading[gpu.Megahertz]
	RPM          = gpu.Reading[gpu.RPM]
	Rate         = gpu.Reading[gpu.BytesPerSecond]
	FPS          = gpu.Reading[gpu.FramesPerSecond]
	Microseconds = gpu.Reading[gpu.Microseconds]
	Text         = gpu.Reading[string]
	Time         = gpu.Reading[time.Time]
)

// integer rounds half away from zero. It is null for values that no integer can represent.
func integer[T ~float64](r gpu.Reading[T]) Int {
	v := float64(r.Or(T(math.NaN())))
	if math.IsNaN(v) || math.Abs(v) >= 1<<63 {
		return Int{}
	}
	return gpu.Of(int64(math.Round(v)))
}

func mibInteger(r Bytes) Int { return integer(gpu.Map(r, gpu.Bytes.MiB)) }

// pointer is nil if there is no value.
func pointer[T any](r gpu.Reading[T]) *T {
	if v, ok := r.Get(); ok {
		return &v
	}
	return nil
}

// listOf makes a list of another one, never null.
func listOf[D, S any](list []S, element func(*S) D) []D {
	out := make([]D, len(list))
	for i := range list {
		out[i] = element(&list[i])
	}
	return out
}

// listOrNull is null if there is no reading.
func listOrNull[D, S any](r gpu.Reading[[]S], element func(*S) D) []D {
	list, ok := r.Get()
	if !ok {
		return nil
	}
	return listOf(list, element)
}

// inSeconds rounds to milliseconds.
func inSeconds(d time.Duration) float64 { return math.Round(d.Seconds()*1000) / 1000 }

func timestamp(t time.Time) string { return t.UTC().Format(gpu.TimeFormat) }

func optionalTime(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	return new(timestamp(t))
}
