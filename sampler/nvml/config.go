package nvml

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/gpuwhy/gpuwhy/sampler/perdevice"
)

// Config is what a source needs to know. Its zero is what a machine with an
// ordinary driver needs.
type Config struct {
	// LibraryPath is the library's file. Empty: libnvidia-ml.so.1 wherever
	// the system's loader finds it, and then where containers, WSL and
	// NixOS have it.
	LibraryPath string
	// SysfsRoot and ProcRoot are where the kernel tells of PCI devices:
	// "/sys" and "/proc" where empty.
	SysfsRoot, ProcRoot string
	// Deadline is after how long a driver call counts as hanging; 2 s
	// where 0.
	Deadline time.Duration
	// Window is how long a sample of what a process uses stands for the
	// present; 5 s where 0. It should not be shorter than the interval of
	// the readings.
	Window time.Duration
	// PCIeThroughput has the traffic over PCIe measured on devices whose
	// hardware does not count it: each direction for 20 ms, one after the
	// other, each 10 s at most. The driver is busy meanwhile.
	PCIeThroughput bool
	Log            *slog.Logger // nil: discard
}

func (c Config) withDefaults() Config {
	c.SysfsRoot = cmp.Or(c.SysfsRoot, "/sys")
	c.ProcRoot = cmp.Or(c.ProcRoot, "/proc")
	c.Deadline = cmp.Or(c.Deadline, perdevice.DefaultDeadline)
	c.Window = cmp.Or(c.Window, 5*time.Second)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}
