package gpu

import "time"

// An AccountedProcess is a process that was on a device and ended, as the driver's accounting tells of it. The driver says
// neither whose it was nor what its name was.
type AccountedProcess struct {
	PID int // of the machine
	// Started is when it began to use the device, by the machine's clock as it was set then; UTC, microseconds.
	Started time.Time
	Ran     time.Duration // from then until it let go of the device; whole milliseconds, more than 0
	// PeakMemory is the most that it held on the device at a time. NotReported where the driver does not say.
	PeakMemory Reading[Bytes]
	// Utilization is the mean over Ran of the share of time in which a kernel of it ran. The driver looks once a second:
	// NotReported of a process that ran for less and of which it saw nothing.
	Utilization Reading[Percent]
}

// Ended is when it let go of the device.
func (p *AccountedProcess) Ended() time.Time { return p.Started.Add(p.Ran) }
