package nvml

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/gpuwhy/gpuwhy/sampler/perdevice"
)

// Config is what a source needs. The zero value is right for a machine with an
// ordinary driver.
type Config struct {
	// LibraryPath is the library's file. Empty: libnvidia-ml.so.1 where the
	// system's loader finds it, or where containers, WSL and NixOS have it.
	LibraryPath string
	// SysfsRoot and ProcRoot are where the kernel lists PCI devices: "/sys"
	// and "/proc" where empty.
	SysfsRoot, ProcRoot string
	// Deadline is the time after which a driver call counts as hanging; 2 s
	// where 0.
	Deadline time.Duration
	// Window is how long a sample of what a process uses is current; 5 s where
	// 0. It should not be shorter than the interval of the readings.
	Window time.Duration
	// PCIeThroughput measures the traffic over PCIe on devices whose hardware
	// does not count it, at most every 10 s. That blocks the driver for 20 ms
	// in each direction.
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
