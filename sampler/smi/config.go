package smi

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// Config configures a source. Only Run and Program have defaults.
type Config struct {
	// Run runs nvidia-smi. Nil: the program on this machine; see Program.
	Run Run
	// Program is the program's file. Empty: nvidia-smi in PATH, or where Windows, WSL and containers keep it.
	Program string
	// SysfsRoot and ProcRoot are where the kernel lists PCI devices, such as "/sys" and "/proc". Empty if the program runs on another
	// machine.
	SysfsRoot, ProcRoot string
	// Suspects returns the cards that the kernel log reports as broken; see nvidia.Kernel. Nil: nobody reads the log.
	Suspects func() []gpu.Suspect
	// Interval is the time between two readings. If it is longer than a second, the commands print more often: every tenth of it, but at
	// most every second and at least every 10 s. So a reading is at most that old.
	Interval time.Duration
	// Pace returns the time between two answers of Run, if Run does not keep the pace that commands ask for; it may change. Nil: Run keeps
	// it.
	Pace func() time.Duration
	// Deadline is the time after which a device counts as slow; see [perdevice.Set.Read].
	Deadline time.Duration
	// PCIeThroughput turns on reporting the PCIe traffic, measured every 10 s.
	PCIeThroughput bool
	// Clock is the source's clock. Nil: the machine's clock.
	Clock clockwork.Clock
	Log   *slog.Logger
}

// A Run runs nvidia-smi with some arguments, writes its output, and returns when the program has ended, or was ended because ctx is done.
// It must not leave the program running. The writers never block for long and never fail.
//
// The arguments hold no character that a shell would interpret. The environment should have LC_ALL=C and NVSMI_SHOW_ALL_DEVICES=1: without
// the latter, old versions list the processes of only four devices. The error may have an ExitCode or ExitStatus method.
type Run func(ctx context.Context, stdout, stderr io.Writer, args ...string) error

const (
	quickLoop  = time.Second
	slowLoop   = 10 * time.Second
	sometimes  = 10 * time.Second
	seldom     = time.Minute
	firstRetry = 500 * time.Millisecond
	lastRetry  = 30 * time.Second
)

// period is the time between two lines of a loop for one device.
func (c *Config) period() time.Duration {
	if c.Pace != nil {
		return c.Pace()
	}
	return min(c.Interval, max(quickLoop, min(c.Interval/10, slowLoop)))
}

// stall is how long a loop may be silent before it counts as stuck in one of its devices.
func (c *Config) stall() time.Duration { return max(3*c.period(), c.Deadline/8) }
