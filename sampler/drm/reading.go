package drm

import (
	"math"
	"strconv"
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// No device, present or future, can report more than this.
const (
	MostMemory   gpu.Bytes     = 1 << 50
	MostPower    gpu.Watts     = 10_000
	MostEnergy   gpu.Joules    = 1e15
	FastestClock gpu.Megahertz = 100_000
	FastestFan   gpu.RPM       = 100_000
	Coldest      gpu.Celsius   = -60
	Hottest      gpu.Celsius   = 200
)

type quantity interface{ ~float64 | ~int | ~uint64 }

// Of converts a number to a reading; unit is how many of the file's units make one of ours. A number outside the bounds is doubtful, and
// 2^63-1 or more means "not known".
func Of[T quantity](number float64, err error, unit float64, least, most T) gpu.Reading[T] {
	var zero T
	switch v := number / unit; {
	case err != nil:
		return absent[T](err)
	case math.IsNaN(v), number >= math.MaxInt64, v < 0 && zero-1 > 0: // T has no negative numbers
		return gpu.Reading[T]{}
	case v < float64(least) || v > float64(most):
		return gpu.DoubtfulOf(T(v))
	default:
		return gpu.Of(T(v))
	}
}

// Celsius reads an hwmon temperature, in thousandths of a degree. Range -60 to 200 °C.
func (f Folder) Celsius(name string) gpu.Reading[gpu.Celsius] {
	n, err := f.Number(name)
	return Of(n, err, 1000, Coldest, Hottest)
}

// Limit reads an hwmon temperature limit; 0 means none.
func (f Folder) Limit(name string) gpu.Reading[gpu.Celsius] {
	n, err := f.Number(name)
	if err == nil && n == 0 {
		return gpu.Absent[gpu.Celsius](gpu.NotSupported)
	}
	return Of(n, err, 1000, Coldest, Hottest)
}

// Watts reads an hwmon power, in microwatts. Range 0 to 10000 W.
func (f Folder) Watts(name string) gpu.Reading[gpu.Watts] {
	n, err := f.Number(name)
	return Of(n, err, 1e6, 0, MostPower)
}

// Joules reads an hwmon energy counter, in microjoules.
func (f Folder) Joules(name string) gpu.Reading[gpu.Joules] {
	n, err := f.Number(name)
	return Of(n, err, 1e6, 0, MostEnergy)
}

// Hertz reads an hwmon clock, in hertz.
func (f Folder) Hertz(name string) gpu.Reading[gpu.Megahertz] {
	n, err := f.Number(name)
	return Of(n, err, 1e6, 0, FastestClock)
}

// Megahertz reads a clock from a driver's own file, in megahertz.
func (f Folder) Megahertz(name string) gpu.Reading[gpu.Megahertz] {
	n, err := f.Number(name)
	return Of(n, err, 1, 0, FastestClock)
}

// RPM reads an hwmon fan speed. Range 0 to 100000 RPM.
func (f Folder) RPM(name string) gpu.Reading[gpu.RPM] {
	n, err := f.Number(name)
	return Of(n, err, 1, 0, FastestFan)
}

// Size reads an amount of memory, in bytes.
func (f Folder) Size(name string) gpu.Reading[gpu.Bytes] {
	n, err := f.Number(name)
	return Of(n, err, 1, 0, MostMemory)
}

// Percent reads a share; a value above 100 becomes a doubtful 100, so that it distorts no sum.
func (f Folder) Percent(name string) gpu.Reading[gpu.Percent] {
	n, err := f.Number(name)
	return Share(n, err)
}

// Share converts a percentage; see [Folder.Percent].
func Share(percent float64, err error) gpu.Reading[gpu.Percent] {
	r := Of[gpu.Percent](percent, err, 1, 0, 100)
	if r.Quality() == gpu.Doubtful {
		return gpu.DoubtfulOf(gpu.Percent(max(0, min(percent, 100))))
	}
	return r
}

// Generation returns the PCIe generation of a link speed such as "16.0 GT/s PCIe".
func Generation(speed string) gpu.Reading[int] {
	number, _, _ := strings.Cut(speed, " ")
	v, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return gpu.Reading[int]{}
	}
	for i, speed := range []float64{2.5, 5, 8, 16, 32, 64, 128} {
		if v == speed {
			return gpu.Of(i + 1)
		}
	}
	return gpu.Reading[int]{}
}
