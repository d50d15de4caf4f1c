//go:build linux && cgo

package nvml

import (
	"cmp"
	"time"
	"unsafe"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// handle is a device of the driver, or a MIG instance of one, and how its calls
// went. It belongs to the goroutine that reads the device.
type handle struct {
	lib *library
	dev nvml.Device

	// fatal is the code after which nothing more is asked in this reading:
	// the device is lost or the driver gone. Success where neither is.
	fatal code
	// answered counts the calls of this reading after which the device can
	// be thought well, refused is the code of the last other one.
	answered int
	refused  code
	began    time.Time

	// failing is the device's, and has the functions under who they are
	// called for: "" for the device, "MIG 0 " for an instance.
	failing failures
	who     string
}

// begin forgets how the last reading went.
func (h *handle) begin(now time.Time) {
	h.fatal, h.answered, h.refused, h.began = success, 0, success, now
}

// ask makes one call for a device. Symbol is the name of the library's function
// that the binding's method calls.
func ask[T any](h *handle, symbol string, method func(nvml.Device) (T, nvml.Return)) (T, code) {
	if h.fatal != success {
		var none T
		return none, h.fatal
	}
	v, c := invoke(h.lib, symbol, h.dev, method)
	h.note(symbol, c)
	return v, c
}

// askRaw makes one of the calls that go past the binding.
func askRaw[T any](h *handle, symbol string, call func(function, device unsafe.Pointer) (T, code)) (T, code) {
	var none T
	if h.fatal != success {
		return none, h.fatal
	}
	function := h.lib.function(symbol)
	if function == nil {
		return none, functionNotFound
	}
	v, c := call(function, pointerOf(h.dev))
	h.note(symbol, c)
	return v, c
}

// note keeps account of a call.
func (h *handle) note(symbol string, c code) {
	switch {
	case c == gpuIsLost, c == uninitialized, c == driverNotLoaded, c == versionMismatch:
		h.fatal, h.refused = c, c
		return
	case c.answered():
		h.answered++
		delete(h.failing, h.who+symbol)
	default:
		h.refused = c
		h.failing[h.who+symbol] = failure{c, h.began}
	}
}

// failure is why the reading as a whole is none: success if it is one.
func (h *handle) failure() code {
	switch {
	case h.fatal != success:
		return h.fatal
	case h.answered == 0:
		return h.refused
	default:
		return success
	}
}

// reading asks and converts what a device reports; what it does not report is
// absent with a reason.
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

// integer is what the binding gives counts as.
type integer interface {
	~int | ~int32 | ~uint32 | ~uint64
}

// known reports whether a number is one, not NVML's mark for one that it does
// not know.
func known[T integer](v T) bool {
	if n, wide := any(v).(int); wide && n == blank { // the binding's int for 32 bits
		return false
	}
	return v != ^T(0)
}

// reported is a value, or nothing where it can't be one.
func reported[U any](ok bool, v U) gpu.Reading[U] {
	if !ok {
		return gpu.Reading[U]{}
	}
	return gpu.Of(v)
}

// plain is a number as it is reported.
func plain[U gpu.Megahertz | gpu.RPM | gpu.Bytes | gpu.FramesPerSecond | gpu.Microseconds | int | uint64, T integer](v T) gpu.Reading[U] {
	return reported(known(v), U(v))
}

// share is a percentage. One above 100 can't be right; it is cut to 100 and
// doubtful, so that it misleads no sum.
func share[T integer](v T) gpu.Reading[gpu.Percent] {
	if known(v) && v > 100 {
		return gpu.DoubtfulOf(gpu.Percent(100))
	}
	return reported(known(v), gpu.Percent(v))
}

// What is above these is no reading of any device, today's or one to come.
const (
	mostMemory     gpu.Bytes           = 1 << 50
	mostPower      gpu.Watts           = 10_000
	fastestClock   gpu.Megahertz       = 100_000
	fastestFan     gpu.RPM             = 100_000
	loudestFan     gpu.Percent         = 1000 // of its noise limit
	mostSessions                       = 10_000
	fastestVideo   gpu.FramesPerSecond = 1_000_000
	longestLatency gpu.Microseconds    = 60_000_000
)

// within marks a reading as doubtful that is above the most it can be, where
// that is known.
func within[T cmp.Ordered](r, most gpu.Reading[T]) gpu.Reading[T] {
	v, ok := r.Get()
	limit, known := most.Get()
	if ok && known && v > limit {
		return gpu.DoubtfulOf(v)
	}
	return r
}

// speed is a fan's percentage of its noise limit, which it may pass.
func speed[T integer](v T) gpu.Reading[gpu.Percent] {
	return within(reported(known(v), gpu.Percent(v)), gpu.Of(loudestFan))
}

// clockRate is a frequency in megahertz.
func clockRate(v uint32) gpu.Reading[gpu.Megahertz] {
	return within(plain[gpu.Megahertz](v), gpu.Of(fastestClock))
}

// degrees is a temperature. The largest numbers of 32 bits are marks for "not
// known", and what no chip survives is doubtful.
func degrees(v int64) gpu.Reading[gpu.Celsius] {
	const coldest, hottest, marks = -60, 200, 0x7ffffff0
	if v == -1 || v >= marks || v <= -marks {
		return gpu.Reading[gpu.Celsius]{}
	}
	if v < coldest || v > hottest {
		return gpu.DoubtfulOf(gpu.Celsius(v))
	}
	return gpu.Of(gpu.Celsius(v))
}

// watts is a power in milliwatts.
func watts(milli uint32) gpu.Reading[gpu.Watts] {
	return within(reported(known(milli), gpu.Watts(milli)/1000), gpu.Of(mostPower))
}

// joules is an energy in millijoules.
func joules(milli uint64) gpu.Reading[gpu.Joules] {
	return reported(known(milli), gpu.Joules(milli)/1000)
}

// enabled is a switch.
func enabled(v nvml.EnableState) gpu.Reading[bool] {
	on := v == nvml.FEATURE_ENABLED
	return reported(on || v == nvml.FEATURE_DISABLED, on)
}

// named converts numbers of the driver's to names.
func named[T comparable](names map[T]string) func(T) gpu.Reading[string] {
	return func(v T) gpu.Reading[string] {
		name, ok := names[v]
		return reported(ok, name)
	}
}
