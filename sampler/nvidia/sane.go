package nvidia

import (
	"cmp"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// No device, present or future, can report more than this.
const (
	MostMemory     gpu.Bytes           = 1 << 50
	MostPower      gpu.Watts           = 10_000
	FastestClock   gpu.Megahertz       = 100_000
	FastestFan     gpu.RPM             = 100_000
	LoudestFan     gpu.Percent         = 1000 // of its noise limit
	MostSessions                       = 10_000
	FastestVideo   gpu.FramesPerSecond = 1_000_000
	LongestLatency gpu.Microseconds    = 60_000_000
	FastestLink    gpu.BytesPerSecond  = 1e14
	FastestBus     gpu.BytesPerSecond  = 1e12 // PCIe
)

// Within marks a reading above its maximum as doubtful, if the maximum is known.
func Within[T cmp.Ordered](r, most gpu.Reading[T]) gpu.Reading[T] {
	v, ok := r.Get()
	limit, known := most.Get()
	if ok && known && v > limit {
		return gpu.DoubtfulOf(v)
	}
	return r
}

// Degrees marks as doubtful a temperature that no chip survives.
func Degrees(v gpu.Celsius) gpu.Reading[gpu.Celsius] {
	const coldest, hottest = -60, 200
	if v < coldest || v > hottest {
		return gpu.DoubtfulOf(v)
	}
	return gpu.Of(v)
}

// Share returns a percentage. A value above 100 becomes a doubtful 100, so that it distorts no sum.
func Share(v gpu.Percent) gpu.Reading[gpu.Percent] {
	if v > 100 {
		return gpu.DoubtfulOf[gpu.Percent](100)
	}
	return gpu.Of(v)
}

// Plausible marks a power draw far above the limit as doubtful. Short peaks above the limit are real.
func Plausible(draw, most gpu.Reading[gpu.Watts]) gpu.Reading[gpu.Watts] {
	const far = 2
	if most.Or(0) <= 0 {
		return draw
	}
	return Within(draw, gpu.Of(far*most.Or(0)))
}
