package gpu

// ClockEventReasons is the set of what holds a device's clocks where they are. A
// source translates its driver's own set into this one.
type ClockEventReasons uint64

// The clock event reasons.
const (
	ReasonIdle                ClockEventReasons = 1 << iota // nothing to do
	ReasonApplicationClocks                                 // a person or program set them
	ReasonPowerCap                                          // the power limit, by the driver
	ReasonHardwareSlowdown                                  // the hardware: heat, power brake or both
	ReasonSyncBoost                                         // in step with another device
	ReasonThermalSlowdown                                   // heat, by the driver
	ReasonHardwareThermal                                   // heat, by the hardware
	ReasonHardwarePowerBrake                                // the power supply asks for less
	ReasonDisplayClockSetting                               // a display needs it
	ReasonBoardLimit                                        // a limit of the board: a current, or its voltage regulator
	ReasonReliability                                       // so that the chip lives long
)

// reasonNames are promises to clients, in the order of the constants.
var reasonNames = [...]string{
	"gpu_idle", "applications_clocks_setting", "sw_power_cap", "hw_slowdown", "sync_boost", "sw_thermal_slowdown",
	"hw_thermal_slowdown", "hw_power_brake_slowdown", "display_clock_setting", "board_limit", "reliability",
}

// Names lists the reasons by their names on the wire; never nil.
func (r ClockEventReasons) Names() []string {
	names := []string{}
	for i, name := range reasonNames {
		if r&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// Throttled reports whether heat, power or a limit of the board or the chip holds the
// clocks down, which costs the work something; idle and set clocks don't.
func (r ClockEventReasons) Throttled() bool {
	const held = ReasonPowerCap | ReasonHardwareSlowdown | ReasonThermalSlowdown | ReasonHardwareThermal | ReasonHardwarePowerBrake |
		ReasonBoardLimit | ReasonReliability
	return r&held != 0
}
