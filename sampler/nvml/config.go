package nvml

import (
	"log/slog"
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// Config is what a source needs. Only LibraryPath has a default.
type Config struct {
	// LibraryPath is the library's file. Empty: libnvidia-ml.so.1 where the
	// system's loader finds it, or where containers, WSL and NixOS have it.
	LibraryPath string
	// SysfsRoot and ProcRoot are where the kernel lists PCI devices, such as
	// "/sys" and "/proc".
	SysfsRoot, ProcRoot string
	// Suspects are the cards that the kernel's log calls broken; see nvidia.Kernel. Nil: nobody reads it.
	Suspects func() []gpu.Suspect
	// Deadline is the time after which a driver call counts as hanging.
	Deadline time.Duration
	// Window is how long a sample of what a process uses is current. It should
	// not be shorter than the interval of the readings.
	Window time.Duration
	// Apart is the longest time between two readings, of which the counters of a device say
	// what was in between; at least Window.
	Apart time.Duration
	// PCIeThroughput measures the traffic over PCIe on devices whose hardware
	// does not count it, at most every 10 s. That blocks the driver for 20 ms
	// in each direction.
	PCIeThroughput bool
	// Clock is what the source knows the time by. Nil: the machine's clock.
	Clock clockwork.Clock
	Log   *slog.Logger
}
