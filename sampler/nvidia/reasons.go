package nvidia

import "github.com/gpuwhy/gpuwhy/gpu"

// EventReasons translates the driver's set of clock event reasons. Bits that are not
// known are left out.
func EventReasons(bits uint64) (set gpu.ClockEventReasons) {
	for _, r := range reasons {
		if bits&r.bit != 0 {
			set |= r.reason
		}
	}
	return set
}

// reasons are the bits as nvml.h has them (nvmlClocksEventReason…).
var reasons = []struct {
	bit    uint64
	reason gpu.ClockEventReasons
}{
	{0x1, gpu.ReasonIdle},
	{0x2, gpu.ReasonApplicationClocks},
	{0x4, gpu.ReasonPowerCap},
	{0x8, gpu.ReasonHardwareSlowdown},
	{0x10, gpu.ReasonSyncBoost},
	{0x20, gpu.ReasonThermalSlowdown},
	{0x40, gpu.ReasonHardwareThermal},
	{0x80, gpu.ReasonHardwarePowerBrake},
	{0x100, gpu.ReasonDisplayClockSetting},
	{0x200, gpu.ReasonBoardLimit},
	{0x400, gpu.ReasonReliability},
}
