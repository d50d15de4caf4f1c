package nvml

import (
	"log/slog"
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// Config configures a source. Only LibraryPath has a default.
type Config struct {
	// LibraryPath is the library's file. Empty: libnvidia-ml.so.1 where the system's loader finds it, or where containers, WSL and NixOS
	// keep it.
	LibraryPath string
	// SysfsRoot and ProcRoot are where the kernel lists PCI devices, such as "/sys" and "/proc".
	SysfsRoot, ProcRoot string
	// Suspects returns the cards that the kernel log reports as broken; see nvidia.Kernel. Nil: nobody reads the log.
	Suspects func() []gpu.Suspect
	// Deadline is the time after which a driver call counts as hanging.
	Deadline time.Duration
	// Window is how long a sample of a process's usage is current. It should not be shorter than the interval between readings.
	Window time.Duration
	// Apart is the longest time between two readings over which a device's counters are still compared; at least Window.
	Apart time.Duration
	// PCIeThroughput turns on measuring the PCIe traffic of devices without hardware counters for it, at most every 10 s. Each measurement
	// blocks the driver for 20 ms in each direction.
	PCIeThroughput bool
	// Clock is the source's clock. Nil: the machine's clock.
	Clock clockwork.Clock
	Log   *slog.Logger
}
