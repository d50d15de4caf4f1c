package smi

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/nvidia"
)

// A value is one value as nvidia-smi prints it: "97", "97.43 W", "[N/A]", "16x", or a sentence that says why it is missing.
type value string

// plain is the value without brackets, which tells an absent value from a name.
func (v value) plain() string {
	return strings.ToLower(strings.TrimSpace(strings.Trim(strings.TrimSpace(string(v)), "[]")))
}

// absent says why a value that is not a number or a name is missing.
func (v value) absent() gpu.Quality {
	switch s := v.plain(); {
	case s == "n/a", s == "none", s == "not supported", s == "function not found", strings.Contains(s, "deprecated"):
		return gpu.NotSupported
	case strings.Contains(s, "permission"):
		return gpu.NotPermitted
	default:
		return gpu.NotReported
	}
}

// failed reports whether the value says that reading it failed. A working device does not say that about everything.
func (v value) failed() bool {
	_, isNumber := v.number()
	return !isNumber && v.plain() != "" && v.absent() == gpu.NotReported
}

// isError reports whether the value is the driver's word for an error of an existing part. Other words, such as "[Not Found]" or
// "[Timeout]", only mean that there is no value now.
func (v value) isError() bool {
	s := v.plain()
	return s == "err!" || s == "unknown error"
}

// excuses are the words, without brackets, that replace a missing value.
var excuses = []string{
	"n/a", "err!", "none", "no data", "not supported", "function not found", "unknown error", "insufficient permissions",
	"gpu is lost", "gpu requires reset", "reset required", "requested functionality has been deprecated",
}

// excuse reports whether the value is one of those words, or a sentence in brackets.
func (v value) excuse() bool {
	s := strings.TrimSpace(string(v))
	inside, opens := strings.CutPrefix(s, "[")
	inside, closes := strings.CutSuffix(inside, "]")
	return opens && closes && !strings.ContainsAny(inside, "[]") || slices.Contains(excuses, v.plain())
}

// number parses the number in the value. It cuts off the unit, takes a decimal comma as a point, and ignores a comma before three digits.
func (v value) number() (float64, bool) {
	s, _, _ := strings.Cut(strings.TrimSpace(string(v)), " ")
	s = strings.TrimSuffix(strings.TrimSuffix(s, "%"), "x")
	if s == "" || strings.Trim(s, "+-0123456789.,") != "" {
		return 0, false
	}
	if i := strings.LastIndexByte(s, ','); i >= 0 && len(s)-i-1 < 3 {
		s = s[:i] + "." + s[i+1:]
	}
	n, err := strconv.ParseFloat(strings.ReplaceAll(s, ",", ""), 64)
	return n, err == nil && !math.IsInf(n, 0) && !isMark(n)
}

// isMark reports whether a number is one of the driver's marks for an unknown one.
func isMark(n float64) bool { return n == math.MaxUint32 || n >= math.MaxInt64 }

// read converts the number, or says why it is missing.
func read[T any](v value, convert func(float64) gpu.Reading[T]) gpu.Reading[T] {
	n, ok := v.number()
	if !ok {
		return gpu.Absent[T](v.absent())
	}
	return convert(n)
}

// amount converts a number that can't be negative; more than most is doubtful.
func amount[T ~float64](v value, most T) gpu.Reading[T] {
	return read(v, func(n float64) gpu.Reading[T] {
		if n < 0 {
			return gpu.Reading[T]{}
		}
		return nvidia.Within(gpu.Of(T(n)), gpu.Of(most))
	})
}

// count converts a whole number that can't be negative.
func count[T int | uint64](v value) gpu.Reading[T] {
	return read(v, func(n float64) gpu.Reading[T] {
		if n < 0 || n != math.Trunc(n) {
			return gpu.Reading[T]{}
		}
		return gpu.Of(T(n))
	})
}

// mebibytes converts memory, which nvidia-smi prints in whole MiB.
func mebibytes(v value) gpu.Reading[gpu.Bytes] {
	return read(v, func(n float64) gpu.Reading[gpu.Bytes] {
		if n < 0 || n > 1<<43 { // more bytes than fit into 64 bits
			return gpu.Reading[gpu.Bytes]{}
		}
		return nvidia.Within(gpu.Of(gpu.Bytes(n*(1<<20))), gpu.Of(nvidia.MostMemory))
	})
}

func share(v value) gpu.Reading[gpu.Percent] {
	return read(v, func(n float64) gpu.Reading[gpu.Percent] {
		if n < 0 {
			return gpu.Reading[gpu.Percent]{}
		}
		return nvidia.Share(gpu.Percent(n))
	})
}

func degrees(v value) gpu.Reading[gpu.Celsius] {
	return read(v, func(n float64) gpu.Reading[gpu.Celsius] { return nvidia.Degrees(gpu.Celsius(n)) })
}

// limitDegrees converts a limit; 0 means none.
func limitDegrees(v value) gpu.Reading[gpu.Celsius] {
	return read(v, func(n float64) gpu.Reading[gpu.Celsius] {
		if n == 0 {
			return gpu.Absent[gpu.Celsius](gpu.NotSupported)
		}
		return nvidia.Degrees(gpu.Celsius(n))
	})
}

func watts(v value) gpu.Reading[gpu.Watts]         { return amount(v, nvidia.MostPower) }
func megahertz(v value) gpu.Reading[gpu.Megahertz] { return amount(v, nvidia.FastestClock) }
func sessions(v value) gpu.Reading[int] {
	return nvidia.Within(count[int](v), gpu.Of(nvidia.MostSessions))
}
func kilobytes(v value) gpu.Reading[gpu.BytesPerSecond] {
	return gpu.Map(amount(v, nvidia.FastestBus/1000), func(n gpu.BytesPerSecond) gpu.BytesPerSecond { return 1000 * n })
}

// state converts a performance state: "P8".
func state(v value) gpu.Reading[int] {
	number, ok := strings.CutPrefix(strings.TrimSpace(string(v)), "P")
	n, err := strconv.Atoi(number)
	switch {
	case ok && err == nil && n >= 0 && n <= 15:
		return gpu.Of(n)
	case ok: // P32 means unknown
		return gpu.Reading[int]{}
	default:
		return gpu.Absent[int](v.absent())
	}
}

// reasons converts a set of clock event reasons: "0x0000000000000004".
func reasons(v value) gpu.Reading[gpu.ClockEventReasons] {
	bits, err := strconv.ParseUint(strings.TrimSpace(string(v)), 0, 64)
	switch {
	case err != nil:
		return gpu.Absent[gpu.ClockEventReasons](v.absent())
	case bits == math.MaxUint64:
		return gpu.Reading[gpu.ClockEventReasons]{}
	default:
		return gpu.Of(nvidia.EventReasons(bits))
	}
}

// flag converts a switch, in any of the words for on and off.
func flag(v value) gpu.Reading[bool] {
	switch v.plain() {
	case "enabled", "yes", "on", "active":
		return gpu.Of(true)
	case "disabled", "no", "off", "not active":
		return gpu.Of(false)
	default:
		return gpu.Absent[bool](v.absent())
	}
}

// name converts a text that the manufacturer chose.
func name(v value) gpu.Reading[string] {
	s, ok := nvidia.Text(string(v))
	if !ok || strings.HasPrefix(s, "[") {
		return gpu.Absent[string](v.absent())
	}
	return gpu.Of(s)
}

// version converts the driver's version, without what the driver appends to it.
func version(v value) gpu.Reading[string] {
	s, ok := nvidia.Version(string(v))
	if !ok {
		return gpu.Absent[string](v.absent())
	}
	return gpu.Of(s)
}

var virtualizations = map[string]string{
	"none": "none", "pass-through": "passthrough", "vgpu": "vgpu", "host vgpu": "host_vgpu", "host vsga": "host_vsga",
}

func virtualization(v value) gpu.Reading[string] {
	if mode, ok := virtualizations[v.plain()]; ok {
		return gpu.Of(mode)
	}
	return gpu.Absent[string](v.absent())
}

var computeModes = map[string]bool{"default": true, "exclusive_thread": true, "exclusive_process": true, "prohibited": true}

func computeMode(v value) gpu.Reading[string] {
	if mode := v.plain(); computeModes[mode] {
		return gpu.Of(mode)
	}
	return gpu.Absent[string](v.absent())
}

// busAddress converts a PCI address to the kernel's form. nvidia-smi prints eight digits of the domain: "00000000:01:00.0", old versions
// four.
func busAddress(v value) (string, bool) {
	domain, rest, ok := strings.Cut(strings.TrimSpace(string(v)), ":")
	bus, rest, ok2 := strings.Cut(rest, ":")
	device, function, ok3 := strings.Cut(rest, ".")
	if !ok || !ok2 || !ok3 || len(domain) > 8 || len(bus) != 2 || len(device) != 2 || len(function) != 1 {
		return "", false
	}
	var n [4]uint64
	for i, s := range []string{domain, bus, device, function} {
		v, err := strconv.ParseUint(s, 16, 32)
		if err != nil {
			return "", false
		}
		n[i] = v
	}
	hex := func(n uint64, digits int) string {
		s := strconv.FormatUint(n, 16)
		return strings.Repeat("0", max(digits-len(s), 0)) + s
	}
	return hex(n[0], 4) + ":" + hex(n[1], 2) + ":" + hex(n[2], 2) + "." + hex(n[3], 1), true
}
