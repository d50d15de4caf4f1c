package alert

import "time"

// HighGPUUsage is the name of the rule about utilization, the oldest rule.
const HighGPUUsage = "high_gpu_usage"

// ofPrograms are the XIDs that a program's own mistake causes.
var ofPrograms = []int{13, 31, 43, 45, 68, 69}

// Default returns a rule with the times and margins that fit what it watches.
func Default(name string, w Watch) Rule {
	r := Rule{
		Name: name, Watch: w, Threshold: w.watch().threshold, Margin: w.watch().margin, Severity: Warning, Enabled: true,
		Hold: 30 * time.Second, Clear: time.Minute, Cooldown: 5 * time.Minute, Repeat: 4 * time.Hour,
	}
	switch w {
	case Fan:
		r.Hold = 5 * time.Minute
	case XID:
		r.Severity, r.Hold, r.Clear, r.Cooldown = Critical, 0, 10*time.Minute, 0
	case ECC:
		r.Severity, r.Hold, r.Clear, r.Cooldown = Critical, 0, time.Hour, 0
	case RowRemap, FanFailing:
		r.Severity = Critical
	case Lost:
		r.Severity, r.Hold, r.Clear, r.Cooldown = Critical, 0, 30*time.Second, 0
	case NotAnswering, DriverGone:
		r.Severity, r.Clear = Critical, 15*time.Second
	case IdleReserved, IdleHeld:
		r.Severity, r.Hold, r.Repeat = Info, 30*time.Minute, 24*time.Hour
	case OrphanMemory:
		r.Repeat = 24 * time.Hour
	}
	return r
}

// Defaults are the rules that hold without a file. Rules that most people do
// not want are there, and not enabled.
func Defaults() []Rule {
	info := func(r Rule) Rule { r.Severity = Info; return r }
	off := func(r Rule) Rule { r.Enabled = false; return r }
	usage := info(Default(HighGPUUsage, Utilization))
	usage.Hold, usage.Clear, usage.Cooldown = 10*time.Second, 15*time.Second, 0
	xid, program := Default("xid", XID), info(Default("xid_of_program", XID))
	xid.IgnoreCodes, program.Codes = ofPrograms, ofPrograms
	return []Rule{
		usage,
		Default("too_hot", TemperatureMargin), off(Default("hot", Temperature)), Default("memory_hot", MemoryTemperature),
		info(Default("memory_full", Memory)),
		off(Default("power_high", Power)), off(info(Default("at_power_limit", PowerShare))),
		info(Default("fan_loud", Fan)), Default("fan_failing", FanFailing),
		Default("throttled_by_heat", ThrottledByHeat), off(info(Default("throttled_by_power", ThrottledByPower))),
		xid, program,
		Default("ecc", ECC), Default("row_remap", RowRemap),
		Default("lost", Lost), Default("not_answering", NotAnswering), Default("driver_gone", DriverGone),
		Default("idle_held", IdleHeld), Default("idle_reserved", IdleReserved), Default("orphan_memory", OrphanMemory),
	}
}
