//go:build linux && cgo

package nvml

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/nvidia"
	"github.com/gpuwhy/gpuwhy/sampler/perdevice"
)

// code is the result of a call (nvmlReturn_t). The binding's own type calls the library for a text whenever it is printed; this one does
// not.
type code int

const (
	success          = code(nvml.SUCCESS)
	uninitialized    = code(nvml.ERROR_UNINITIALIZED)
	invalidArgument  = code(nvml.ERROR_INVALID_ARGUMENT)
	notSupported     = code(nvml.ERROR_NOT_SUPPORTED)
	noPermission     = code(nvml.ERROR_NO_PERMISSION)
	notFound         = code(nvml.ERROR_NOT_FOUND)
	insufficientSize = code(nvml.ERROR_INSUFFICIENT_SIZE)
	timeout          = code(nvml.ERROR_TIMEOUT)
	driverNotLoaded  = code(nvml.ERROR_DRIVER_NOT_LOADED)
	functionNotFound = code(nvml.ERROR_FUNCTION_NOT_FOUND)
	gpuIsLost        = code(nvml.ERROR_GPU_IS_LOST)
	resetRequired    = code(nvml.ERROR_RESET_REQUIRED)
	versionMismatch  = code(nvml.ERROR_LIB_RM_VERSION_MISMATCH)
	argumentVersion  = code(nvml.ERROR_ARGUMENT_VERSION_MISMATCH)
	unknown          = code(nvml.ERROR_UNKNOWN)
)

// codes are the codes that gpuwhy knows: their names and, for codes about the driver or a whole device, the advice for people.
var codes = map[code]struct {
	gpu.Advice
	name string
	err  error // nil: gpu.ErrNoDriver
}{
	success:                            {name: "success"},
	invalidArgument:                    {name: "invalid argument"},
	notSupported:                       {name: "not supported"},
	notFound:                           {name: "not found"},
	insufficientSize:                   {name: "insufficient size"},
	code(nvml.ERROR_LIBRARY_NOT_FOUND): {name: "library not found"},
	functionNotFound:                   {name: "function not found"},
	argumentVersion:                    {name: "argument version mismatch"},
	gpuIsLost:                          {name: "GPU is lost", Advice: nvidia.Lost, err: perdevice.ErrLost},
	driverNotLoaded:                    {name: "driver not loaded", Advice: nvidia.NotLoaded},
	uninitialized: {
		name:   "uninitialized",
		Advice: gpu.Advice{What: "the NVIDIA driver was unloaded", Try: "wait until it is loaded again"},
	},
	versionMismatch:                     {name: "driver and library versions differ", Advice: nvidia.VersionMismatch, err: gpu.ErrVersionMismatch},
	noPermission:                        {name: "no permission", Advice: nvidia.NotPermitted, err: gpu.ErrNotPermitted},
	unknown:                             {name: "unknown error", Advice: nvidia.Unknown},
	code(nvml.ERROR_OPERATING_SYSTEM):   {name: "blocked by the operating system", Advice: nvidia.Unknown},
	resetRequired:                       {name: "reset required", Advice: nvidia.ResetRequired},
	code(nvml.ERROR_INSUFFICIENT_POWER): {name: "insufficient external power", Advice: nvidia.Underpowered},
	timeout:                             {name: "timeout", Advice: nvidia.Timeout, err: gpu.ErrNotAnswering},
}

func (c code) String() string {
	return cmp.Or(codes[c].name, "NVML code "+strconv.Itoa(int(c)))
}

// Error makes a code an error, for logs.
func (c code) Error() string { return fmt.Sprintf("%s (NVML code %d)", c.String(), int(c)) }

// older reports whether an older function may succeed after this code.
func (c code) older() bool {
	return c == notSupported || c == functionNotFound || c == argumentVersion || c == invalidArgument
}

// quality says why a reading is absent if its call returned this code.
func (c code) quality() gpu.Quality {
	switch {
	case c.older(): // our arguments are always valid for a driver that knows them
		return gpu.NotSupported
	case c == noPermission:
		return gpu.NotPermitted
	default:
		return gpu.NotReported
	}
}

// answered reports whether the device itself works if a call returned this code.
func (c code) answered() bool {
	return c == success || c.quality() != gpu.NotReported || c == notFound || c == insufficientSize
}

// failure reports whether a device whose calls all return this code has failed. A device that the driver does not know or does not permit
// is not ours.
func (c code) failure() bool {
	return c != success && c != notFound && c != invalidArgument && c != noPermission
}

// ofDriver reports whether the code may mean that the whole driver is gone.
func (c code) ofDriver() bool {
	return c == uninitialized || c == driverNotLoaded || c == versionMismatch || c == unknown
}

// advice returns the text for people for a code about the driver or a whole device.
func (c code) advice() *gpu.Advice {
	m := codes[c]
	return &gpu.Advice{
		What: cmp.Or(m.What, "the NVIDIA driver reports: "+c.String()),
		Try:  cmp.Or(m.Try, "look for NVRM lines in the kernel log (dmesg), and check that nvidia-smi runs"),
		Err:  fmt.Errorf("%w: %w", cmp.Or(m.err, gpu.ErrNoDriver), c),
	}
}
