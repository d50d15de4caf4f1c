//go:build linux && cgo

package nvml

import (
	"fmt"
	"strconv"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// code is what a call returned (nvmlReturn_t). It is not the binding's own
// type, which asks the library for a text whenever it is printed.
type code int

const (
	success           = code(nvml.SUCCESS)
	uninitialized     = code(nvml.ERROR_UNINITIALIZED)
	invalidArgument   = code(nvml.ERROR_INVALID_ARGUMENT)
	notSupported      = code(nvml.ERROR_NOT_SUPPORTED)
	noPermission      = code(nvml.ERROR_NO_PERMISSION)
	notFound          = code(nvml.ERROR_NOT_FOUND)
	insufficientSize  = code(nvml.ERROR_INSUFFICIENT_SIZE)
	insufficientPower = code(nvml.ERROR_INSUFFICIENT_POWER)
	driverNotLoaded   = code(nvml.ERROR_DRIVER_NOT_LOADED)
	timeout           = code(nvml.ERROR_TIMEOUT)
	libraryNotFound   = code(nvml.ERROR_LIBRARY_NOT_FOUND)
	functionNotFound  = code(nvml.ERROR_FUNCTION_NOT_FOUND)
	gpuIsLost         = code(nvml.ERROR_GPU_IS_LOST)
	resetRequired     = code(nvml.ERROR_RESET_REQUIRED)
	operatingSystem   = code(nvml.ERROR_OPERATING_SYSTEM)
	versionMismatch   = code(nvml.ERROR_LIB_RM_VERSION_MISMATCH)
	argumentVersion   = code(nvml.ERROR_ARGUMENT_VERSION_MISMATCH)
	unknown           = code(nvml.ERROR_UNKNOWN)
)

var codeNames = map[code]string{
	success:           "success",
	uninitialized:     "uninitialized",
	invalidArgument:   "invalid argument",
	notSupported:      "not supported",
	noPermission:      "no permission",
	notFound:          "not found",
	insufficientSize:  "insufficient size",
	insufficientPower: "insufficient external power",
	driverNotLoaded:   "driver not loaded",
	timeout:           "timeout",
	libraryNotFound:   "library not found",
	functionNotFound:  "function not found",
	gpuIsLost:         "GPU is lost",
	resetRequired:     "reset required",
	operatingSystem:   "blocked by the operating system",
	versionMismatch:   "driver and library versions differ",
	argumentVersion:   "argument version mismatch",
	unknown:           "unknown error",
}

func (c code) String() string {
	if name, ok := codeNames[c]; ok {
		return name
	}
	return "NVML code " + strconv.Itoa(int(c))
}

// Error makes a code an error of its own, for logs.
func (c code) Error() string { return fmt.Sprintf("%s (NVML code %d)", c.String(), int(c)) }

// older reports whether an older function may answer where this one did not.
func (c code) older() bool {
	switch c {
	case notSupported, functionNotFound, argumentVersion, invalidArgument:
		return true
	}
	return false
}

// quality is why a reading is absent where its call returned this.
func (c code) quality() gpu.Quality {
	switch {
	case c.older(): // what we ask for is always valid, to a driver that knows it
		return gpu.NotSupported
	case c == noPermission:
		return gpu.NotPermitted
	default:
		return gpu.NotReported
	}
}

// answered reports whether the device itself is well where a call returned
// this.
func (c code) answered() bool {
	return c == success || c.quality() != gpu.NotReported || c == notFound || c == insufficientSize
}

// failure reports whether a device that answers this at all calls fails. One
// that the driver does not know or permit is not ours.
func (c code) failure() bool {
	switch c {
	case success, notFound, invalidArgument, noPermission:
		return false
	}
	return true
}

// ofDriver reports whether the driver as a whole may have gone, not just a
// reading or a device.
func (c code) ofDriver() bool {
	switch c {
	case uninitialized, driverNotLoaded, versionMismatch, unknown:
		return true
	}
	return false
}

// advice says what a code that concerns the driver or a whole device means for
// people.
func (c code) advice() *gpu.Advice {
	a := &gpu.Advice{
		What: "the NVIDIA driver answers: " + c.String(),
		Try:  "look for lines with NVRM in the kernel log (dmesg), and check that nvidia-smi runs",
		Err:  fmt.Errorf("%w: %w", gpu.ErrNoDriver, c),
	}
	switch c {
	case driverNotLoaded:
		a.What = "the NVIDIA library is installed, and its driver is not loaded"
		a.Try = "load it with modprobe nvidia, or restart the machine if it was just installed; check that nvidia-smi runs"
	case uninitialized:
		a.What = "the NVIDIA driver was taken away"
		a.Try = "wait until it is loaded again"
	case versionMismatch:
		a.What = "the NVIDIA driver in the kernel and its library have different versions"
		a.Try = "restart the machine, or unload and load the driver, and restart gpuwhy; this is usual after an update"
		a.Err = fmt.Errorf("%w: %w", gpu.ErrVersionMismatch, c)
	case noPermission:
		a.What = "gpuwhy may not talk to the NVIDIA driver"
		a.Try = "let its user read and write /dev/nvidiactl and /dev/nvidia0 (often the group video), or start it with the NVIDIA container runtime"
		a.Err = fmt.Errorf("%w: %w", gpu.ErrNotPermitted, c)
	case unknown, operatingSystem:
		a.What = "the NVIDIA driver answers: unknown error"
		a.Try = "if gpuwhy runs in a container, the container has lost its GPUs, usually because systemd was reloaded: create it again; else look for lines with NVRM in the kernel log (dmesg)"
	case resetRequired:
		a.What = "the device must be reset before it can be used again"
		a.Try = "stop what uses it and run nvidia-smi --gpu-reset, or restart the machine"
	case insufficientPower:
		a.What = "the device does not get enough power"
		a.Try = "check that its power cables are plugged in"
	case timeout:
		a.What = "the NVIDIA driver gave up waiting for the device"
		a.Try = "look for an XID in the kernel log (dmesg)"
		a.Err = fmt.Errorf("%w: %w", gpu.ErrNotAnswering, c)
	}
	return a
}
