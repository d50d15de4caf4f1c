package nvidia

import "github.com/gpuwhy/gpuwhy/gpu"

// EventReasons translates the driver's bit set of clock event reasons. It leaves out unknown bits.
func EventReasons(bits uint64) (set gpu.ClockEventReasons) {
	for _, r := range reasons {
		if bits&r.bit != 0 {
			set |= r.reason
		}
	}
	return set
}

// reasons maps the bits of nvml.h (nvmlClocksEventReason…).
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
