package gpu

import "time"

// An AccountedProcess is a process that used a device and has ended, as reported by the driver's accounting. The driver
// reports neither its user nor its name.
type AccountedProcess struct {
	PID int // of the machine
	// Started is when it began to use the device, by the machine's clock at that time; UTC, microseconds.
	Started time.Time
	Ran     time.Duration // from then until it let go of the device; whole milliseconds, more than 0
	// PeakMemory is the most device memory that it held at once. NotReported if the driver does not say.
	PeakMemory Reading[Bytes]
	// Utilization is the share of Ran in which one of its kernels ran. The driver samples once a second: NotReported for a
	// process that ran for less and was never sampled.
	Utilization Reading[Percent]
}

// Ended is when it let go of the device.
func (p *AccountedProcess) Ended() time.Time { return p.Started.Add(p.Ran) }
