//go:build linux && cgo

package nvml

import (
	"time"
	"unsafe"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/nvidia"
)

// handle is a device or a MIG instance of the driver, with the results of its calls.
type handle struct {
	lib *library
	dev nvml.Device

	began    time.Time // this reading, like the next three fields
	fatal    code      // the code that ended it: the device is lost or the driver gone
	answered int       // calls that show that the device works
	refused  code      // the result of the last other call
	core     code      // the result of the last core reading that failed
	worked   bool      // a core reading has succeeded

	// failing are the functions whose last call failed, including calls for the device's instances. Each name has a prefix: "" for the
	// device, "MIG 0 " for an instance.
	failing map[string]failure
	who     string
}

// begin forgets the results of the last reading.
func (h *handle) begin(now time.Time) {
	h.fatal, h.answered, h.refused, h.began = success, 0, success, now
	h.core, h.worked = success, false
}

// core are functions of which a working device answers at least one.
var core = map[string]bool{
	"nvmlDeviceGetUtilizationRates": true, "nvmlDeviceGetPowerUsage": true,
	"nvmlDeviceGetMemoryInfo_v2": true, "nvmlDeviceGetMemoryInfo": true,
	"nvmlDeviceGetTemperatureV": true, "nvmlDeviceGetTemperature": true,
}

// ask calls a method of the binding, which calls the library's function symbol.
func ask[T any](h *handle, symbol string, method func(nvml.Device) (T, nvml.Return)) (T, code) {
	if h.fatal != success {
		var none T
		return none, h.fatal
	}
	f := h.lib.lookUp(symbol)
	v, c := timed(f, h.dev, method)
	h.note(f, symbol, c)
	return v, c
}

// askRaw makes a call that bypasses the binding.
func askRaw[T any](h *handle, symbol string, call func(function, device unsafe.Pointer) (T, code)) (T, code) {
	return ask(h, symbol, func(dev nvml.Device) (T, nvml.Return) {
		v, c := call(h.lib.function(symbol), pointerOf(dev))
		return v, nvml.Return(c)
	})
}

// note records the result of a call. A function that the library lacks was not called.
func (h *handle) note(f *function, symbol string, c code) {
	if f.core {
		h.worked = h.worked || c == success
		if c != functionNotFound && c != notSupported && c != argumentVersion {
			h.core = c
		}
	}
	switch {
	case c == functionNotFound:
	case c == gpuIsLost, c == uninitialized, c == driverNotLoaded, c == versionMismatch:
		h.fatal, h.refused = c, c
	case c.answered():
		h.answered++
		if len(h.failing) > 0 {
			delete(h.failing, h.who+symbol)
		}
	default:
		h.refused = c
		h.failing[h.who+symbol] = failure{c, h.began}
	}
}

// failure returns why the reading as a whole failed, or success.
func (h *handle) failure() code {
	switch {
	case h.fatal != success:
		return h.fatal
	case h.answered == 0:
		return h.refused
	case !h.worked:
		return h.core // success if the device offers none of these readings
	default:
		return success
	}
}

func reading[T, U any](h *handle, symbol string, method func(nvml.Device) (T, nvml.Return), convert func(T) gpu.Reading[U]) gpu.Reading[U] {
	v, c := ask(h, symbol, method)
	return converted(v, c, convert)
}

func converted[T, U any](v T, c code, convert func(T) gpu.Reading[U]) gpu.Reading[U] {
	if c != success {
		return gpu.Absent[U](c.quality())
	}
	return convert(v)
}

type integer interface {
	~int | ~int32 | ~uint32 | ~uint64
}

// known reports whether a number differs from NVML's mark for an unknown one.
func known[T integer](v T) bool {
	if n, wide := any(v).(int); wide && n == blank { // the binding's int for 32 bits
		return false
	}
	return v != ^T(0)
}

// reported returns a reading of a value, or NotReported unless ok.
func reported[U any](ok bool, v U) gpu.Reading[U] {
	if !ok {
		return gpu.Reading[U]{}
	}
	return gpu.Of(v)
}

func plain[U gpu.Megahertz | gpu.RPM | gpu.Bytes | gpu.FramesPerSecond | gpu.Microseconds | int | uint64, T integer](v T) gpu.Reading[U] {
	return reported(known(v), U(v))
}

// share converts a percentage. A value above 100 becomes a doubtful 100, so that it distorts no sum.
func share[T integer](v T) gpu.Reading[gpu.Percent] {
	if !known(v) {
		return gpu.Reading[gpu.Percent]{}
	}
	return nvidia.Share(gpu.Percent(v))
}

// speed converts a fan's percentage of its noise limit, which it may exceed.
func speed[T integer](v T) gpu.Reading[gpu.Percent] {
	return nvidia.Within(reported(known(v), gpu.Percent(v)), gpu.Of(nvidia.LoudestFan))
}

func clockRate(v uint32) gpu.Reading[gpu.Megahertz] {
	return nvidia.Within(plain[gpu.Megahertz](v), gpu.Of(nvidia.FastestClock))
}

// degrees converts a temperature. The largest 32-bit numbers mean "not known".
func degrees[T int32 | uint32](bits T) gpu.Reading[gpu.Celsius] {
	const marks = 0x7ffffff0
	v := int32(bits)
	if v == -1 || v >= marks || v <= -marks {
		return gpu.Reading[gpu.Celsius]{}
	}
	return nvidia.Degrees(gpu.Celsius(v))
}

func watts(milli uint32) gpu.Reading[gpu.Watts] {
	return nvidia.Within(reported(known(milli), gpu.Watts(milli)/1000), gpu.Of(nvidia.MostPower))
}

func memorySize(bytes uint64) gpu.Reading[gpu.Bytes] {
	return nvidia.Within(plain[gpu.Bytes](bytes), gpu.Of(nvidia.MostMemory))
}

func joules(milli uint64) gpu.Reading[gpu.Joules] {
	return reported(known(milli), gpu.Joules(milli)/1000)
}

func enabled(v nvml.EnableState) gpu.Reading[bool] {
	set := v == nvml.FEATURE_ENABLED
	return reported(set || v == nvml.FEATURE_DISABLED, set)
}

// named returns a function that converts the driver's numbers to names.
func named[T comparable](names map[T]string) func(T) gpu.Reading[string] {
	return func(v T) gpu.Reading[string] {
		name, ok := names[v]
		return reported(ok, name)
	}
}
