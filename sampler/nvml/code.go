//go:build linux && cgo

package nvml

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/perdevice"
)

// code is what a call returned (nvmlReturn_t). The binding's own type asks the
// library for a text whenever it is printed; this one does not.
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
	versionMismatch  = code(nvml.ERROR_LIB_RM_VERSION_MISMATCH)
	argumentVersion  = code(nvml.ERROR_ARGUMENT_VERSION_MISMATCH)
	unknown          = code(nvml.ERROR_UNKNOWN)
)

// codes are the codes that gpuwhy knows: their names, and for codes that concern the
// driver or a whole device the advice for people.
var codes = map[code]struct {
	name, what, try string
	err             error // gpu.ErrNoDriver where nil
}{
	success:                            {name: "success"},
	invalidArgument:                    {name: "invalid argument"},
	notSupported:                       {name: "not supported"},
	notFound:                           {name: "not found"},
	insufficientSize:                   {name: "insufficient size"},
	code(nvml.ERROR_LIBRARY_NOT_FOUND): {name: "library not found"},
	functionNotFound:                   {name: "function not found"},
	argumentVersion:                    {name: "argument version mismatch"},
	gpuIsLost: {
		name: "GPU is lost",
		what: "the device has fallen off the bus",
		try:  "look for an XID in the kernel log (dmesg); resetting the device or restarting the machine may bring it back",
		err:  perdevice.ErrLost,
	},
	driverNotLoaded: {
		name: "driver not loaded",
		what: "the NVIDIA library is installed, and its driver is not loaded",
		try:  "load it with modprobe nvidia, or restart the machine if it was just installed; check that nvidia-smi runs",
	},
	uninitialized: {
		name: "uninitialized",
		what: "the NVIDIA driver was taken away",
		try:  "wait until it is loaded again",
	},
	versionMismatch: {
		name: "driver and library versions differ",
		what: "the NVIDIA driver in the kernel and its library have different versions",
		try:  "restart the machine, or unload and load the driver, and restart gpuwhy; this is usual after an update",
		err:  gpu.ErrVersionMismatch,
	},
	noPermission: {
		name: "no permission",
		what: "gpuwhy may not talk to the NVIDIA driver",
		try:  "let its user read and write /dev/nvidiactl and /dev/nvidia0 (often the group video), or start it with the NVIDIA container runtime",
		err:  gpu.ErrNotPermitted,
	},
	unknown:                           {name: "unknown error", what: unknownWhat, try: unknownTry},
	code(nvml.ERROR_OPERATING_SYSTEM): {name: "blocked by the operating system", what: unknownWhat, try: unknownTry},
	code(nvml.ERROR_RESET_REQUIRED): {
		name: "reset required",
		what: "the device must be reset before it can be used again",
		try:  "stop what uses it and run nvidia-smi --gpu-reset, or restart the machine",
	},
	code(nvml.ERROR_INSUFFICIENT_POWER): {
		name: "insufficient external power",
		what: "the device does not get enough power",
		try:  "check that its power cables are plugged in",
	},
	timeout: {
		name: "timeout",
		what: "the NVIDIA driver gave up waiting for the device",
		try:  "look for an XID in the kernel log (dmesg)",
		err:  gpu.ErrNotAnswering,
	},
}

const (
	unknownWhat = "the NVIDIA driver answers: unknown error"
	unknownTry  = "if gpuwhy runs in a container, the container has lost its GPUs, usually because systemd was reloaded: create it again; else look for lines with NVRM in the kernel log (dmesg)"
)

func (c code) String() string {
	return cmp.Or(codes[c].name, "NVML code "+strconv.Itoa(int(c)))
}

// Error makes a code an error, for logs.
func (c code) Error() string { return fmt.Sprintf("%s (NVML code %d)", c.String(), int(c)) }

// older reports whether an older function may answer after this code.
func (c code) older() bool {
	return c == notSupported || c == functionNotFound || c == argumentVersion || c == invalidArgument
}

// quality is why a reading is absent if its call returned this code.
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

// failure reports whether a device whose calls all return this code fails. One that the
// driver does not know or permit is not ours.
func (c code) failure() bool {
	return c != success && c != notFound && c != invalidArgument && c != noPermission
}

// ofDriver reports whether the driver as a whole may be gone.
func (c code) ofDriver() bool {
	return c == uninitialized || c == driverNotLoaded || c == versionMismatch || c == unknown
}

// advice says what a code means that concerns the driver or a whole device.
func (c code) advice() *gpu.Advice {
	m := codes[c]
	return &gpu.Advice{
		What: cmp.Or(m.what, "the NVIDIA driver answers: "+c.String()),
		Try:  cmp.Or(m.try, "look for lines with NVRM in the kernel log (dmesg), and check that nvidia-smi runs"),
		Err:  fmt.Errorf("%w: %w", cmp.Or(m.err, gpu.ErrNoDriver), c),
	}
}
