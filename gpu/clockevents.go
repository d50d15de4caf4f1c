package gpu

// ClockEventReasons is the set of reasons for a device's current clocks. A source
// translates its driver's own set into this one.
type ClockEventReasons uint64

// The clock event reasons.
const (
	ReasonIdle                ClockEventReasons = 1 << iota // nothing to do
	ReasonApplicationClocks                                 // a person or a program set them
	ReasonPowerCap                                          // the power limit, by the driver
	ReasonHardwareSlowdown                                  // the hardware: heat, power brake or both
	ReasonSyncBoost                                         // in step with another device
	ReasonThermalSlowdown                                   // heat, by the driver
	ReasonHardwareThermal                                   // heat, by the hardware
	ReasonHardwarePowerBrake                                // the power supply demands a lower draw
	ReasonDisplayClockSetting                               // a display needs it
	ReasonBoardLimit                                        // a limit of the board: a current, or its voltage regulator
	ReasonReliability                                       // to protect the chip's lifetime
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

// Throttled reports whether heat, power or a limit of the board or the chip lowers the
// clocks, which slows work down. Idle and fixed clocks are not throttling.
func (r ClockEventReasons) Throttled() bool {
	const held = ReasonPowerCap | ReasonHardwareSlowdown | ReasonThermalSlowdown | ReasonHardwareThermal | ReasonHardwarePowerBrake |
		ReasonBoardLimit | ReasonReliability
	return r&held != 0
}
