package alert

import "time"

// HighGPUUsage is the name of the rule about utilization that there always was.
const HighGPUUsage = "high_gpu_usage"

// ofPrograms are the XIDs that a program's own fault causes.
var ofPrograms = []int{13, 31, 43, 45, 68, 69}

// Default returns a rule with the times and margins that fit what it watches.
func Default(name string, w Watch) Rule {
	r := Rule{
		Name: name, Watch: w, Severity: Warning, Enabled: true,
		Hold: 30 * time.Second, Clear: time.Minute, Cooldown: 5 * time.Minute, Repeat: 4 * time.Hour,
	}
	switch w {
	case Utilization:
		r.Threshold, r.Margin = 50, 5
	case Temperature:
		r.Threshold, r.Margin = 85, 3
	case MemoryTemperature:
		r.Threshold, r.Margin = 95, 3
	case TemperatureMargin:
		r.Threshold, r.Margin = 5, 3
	case Memory:
		r.Threshold, r.Margin = 95, 3
	case Power:
		r.Threshold, r.Margin = 300, 10
	case PowerShare:
		r.Threshold, r.Margin = 98, 3
	case Fan:
		r.Threshold, r.Margin, r.Hold = 90, 5, 5*time.Minute
	case XID:
		r.Hold, r.Clear, r.Cooldown = 0, 10*time.Minute, 0
		r.Severity = Critical
	case ECC:
		r.Hold, r.Clear, r.Cooldown = 0, time.Hour, 0
		r.Severity = Critical
	case RowRemap, FanFailing:
		r.Severity = Critical
	case Lost:
		r.Hold, r.Clear, r.Cooldown = 0, 30*time.Second, 0
		r.Severity = Critical
	case NotAnswering, DriverGone:
		r.Clear = 15 * time.Second
		r.Severity = Critical
	case IdleReserved:
		r.Hold, r.Repeat = 30*time.Minute, 24*time.Hour
		r.Severity = Info
	case IdleHeld:
		r.Threshold, r.Hold, r.Repeat = 1024, 30*time.Minute, 24*time.Hour
		r.Severity = Info
	case OrphanMemory:
		r.Threshold, r.Repeat = 256, 24*time.Hour
	}
	return r
}

// Defaults are the rules that hold without a file. Those that most people would
// not want to be told of are there, and not enabled.
func Defaults() []Rule {
	usage := Default(HighGPUUsage, Utilization)
	usage.Hold, usage.Clear, usage.Cooldown, usage.Severity = 10*time.Second, 15*time.Second, 0, Info
	tooHot := Default("too_hot", TemperatureMargin)
	hot := Default("hot", Temperature)
	hot.Enabled = false
	memoryHot := Default("memory_hot", MemoryTemperature)
	memoryFull := Default("memory_full", Memory)
	memoryFull.Severity = Info
	power := Default("power_high", Power)
	power.Enabled = false
	limit := Default("at_power_limit", PowerShare)
	limit.Enabled, limit.Severity = false, Info
	loud := Default("fan_loud", Fan)
	loud.Severity = Info
	byPower := Default("throttled_by_power", ThrottledByPower)
	byPower.Enabled, byPower.Severity = false, Info
	xid := Default("xid", XID)
	xid.IgnoreCodes = ofPrograms
	program := Default("xid_of_program", XID)
	program.Codes, program.Severity = ofPrograms, Info
	return []Rule{
		usage, tooHot, hot, memoryHot, memoryFull, power, limit, loud,
		Default("fan_failing", FanFailing),
		Default("throttled_by_heat", ThrottledByHeat), byPower,
		xid, program,
		Default("ecc", ECC), Default("row_remap", RowRemap),
		Default("lost", Lost), Default("not_answering", NotAnswering), Default("driver_gone", DriverGone),
		Default("idle_held", IdleHeld), Default("idle_reserved", IdleReserved), Default("orphan_memory", OrphanMemory),
	}
}
