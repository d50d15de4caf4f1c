package gpu

// ClockEventReasons is the set of what holds a device's clocks where they are,
// in the driver's own bits (nvmlClocksEventReason…). Older drivers call them
// throttle reasons.
type ClockEventReasons uint64

// The clock event reasons.
const (
	ReasonIdle                ClockEventReasons = 1 << 0 // nothing to do
	ReasonApplicationClocks   ClockEventReasons = 1 << 1 // a person or program set them
	ReasonPowerCap            ClockEventReasons = 1 << 2 // the power limit, by the driver
	ReasonHardwareSlowdown    ClockEventReasons = 1 << 3 // the hardware: heat, power brake or both
	ReasonSyncBoost           ClockEventReasons = 1 << 4 // in step with another device
	ReasonThermalSlowdown     ClockEventReasons = 1 << 5 // heat, by the driver
	ReasonHardwareThermal     ClockEventReasons = 1 << 6 // heat, by the hardware
	ReasonHardwarePowerBrake  ClockEventReasons = 1 << 7 // the power supply asks for less
	ReasonDisplayClockSetting ClockEventReasons = 1 << 8 // a display needs it
)

var reasonNames = []struct {
	bit  ClockEventReasons
	name string
}{
	{ReasonIdle, "gpu_idle"},
	{ReasonApplicationClocks, "applications_clocks_setting"},
	{ReasonPowerCap, "sw_power_cap"},
	{ReasonHardwareSlowdown, "hw_slowdown"},
	{ReasonSyncBoost, "sync_boost"},
	{ReasonThermalSlowdown, "sw_thermal_slowdown"},
	{ReasonHardwareThermal, "hw_thermal_slowdown"},
	{ReasonHardwarePowerBrake, "hw_power_brake_slowdown"},
	{ReasonDisplayClockSetting, "display_clock_setting"},
}

// Names lists the reasons of the set by the names that nvidia-smi gives them,
// such as "sw_power_cap"; never nil. Bits of newer drivers have none.
func (r ClockEventReasons) Names() []string {
	names := []string{}
	for _, n := range reasonNames {
		if r&n.bit != 0 {
			names = append(names, n.name)
		}
	}
	return names
}

// Throttled reports whether heat or power holds the clocks down, which costs
// the work something; idle and set clocks don't.
func (r ClockEventReasons) Throttled() bool {
	const held = ReasonPowerCap | ReasonHardwareSlowdown | ReasonThermalSlowdown | ReasonHardwareThermal | ReasonHardwarePowerBrake
	return r&held != 0
}
