package views

import (
	"strconv"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/insight/attribute"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// This file has the texts of pages that stand in several places, or are chosen by what is read: edit them here. What stands in one place
// alone is in its template. testdata/words.golden.txt has all of them with example values, and is written by
// "go test ./views -run TestWords -update".

// An absence is what stands in place of a value, and why there is none.
type absence struct{ text, why string }

var (
	notMeasured    = absence{"not measured", ""}
	notReported    = absence{"not reported", "the device or its driver does not say"}
	notSupported   = absence{"not offered", "the device or its driver does not offer it"}
	notPermitted   = absence{"not permitted", "it exists, but gpuwhy may not read it"}
	stale          = absence{"stale", "it was reported before, and the device does not answer now"}
	implausible    = absence{"can't be right", "it was reported, with a value that is impossible"}
	machinesMemory = absence{"the machine’s", "it has no memory of its own"}
	noOwnFan       = absence{"no fan of its own", "the chassis cools it, and gpuwhy can't see those fans"}
	noProcess      = absence{"no process", "no process has a context on it"}
	noProcessSeen  = absence{"no process that can be seen", "others may use it"}
	someProcess    = absence{"a process", "its name can't be seen from here"}
	endedProcess   = absence{"Ended process", "it does not exist any more, and the driver has not freed what it held"}
)

// absenceOf is why a reading has no value.
func absenceOf(q gpu.Quality) absence {
	switch q {
	case gpu.NotSupported:
		return notSupported
	case gpu.NotPermitted:
		return notPermitted
	case gpu.Stale:
		return stale
	case gpu.Implausible:
		return implausible
	default:
		return notReported
	}
}

// Values in words.

const (
	doubtfulWhy = "reported like this, and probably wrong: nothing goes by it" // beside a value
	yesText     = "yes"
	noText      = "no"
	noneText    = "none"
	nothingText = "nothing"
)

// "not read since 22:31", "stale since 22:31", "since 22:31", of a value; "30 s ago", "for 12 min".
func notReadSince(moment string) string { return "not read since " + moment }
func staleSince(moment string) string   { return "stale since " + moment }
func sinceText(moment string) string    { return "since " + moment }
func agoText(span string) string        { return span + " ago" }
func forText(span string) string        { return "for " + span }

// "of 450 W", behind a value; "431 and 450", the end of a list.
func ofText(most string) string          { return "of " + most }
func andText(before, last string) string { return before + " and " + last }

// Numbers of things: "1 GPU", "2 GPUs".

func gpuCount(n int) string       { return explain.Plural(n, "GPU", "GPUs") }
func processCount(n int) string   { return explain.Plural(n, "process", "processes") }
func nodeCount(n int) string      { return explain.Plural(n, "node", "nodes") }
func coreCount(n int) string      { return explain.Plural(n, "core", "cores") }
func kindCount(n int) string      { return explain.Plural(n, "kind", "kinds") }
func moreProcesses(n int) string  { return explain.Plural(n, "more process", "more processes") }
func migInstances(n int) string   { return explain.Plural(n, "MIG instance", "MIG instances") }
func partitionCount(n int) string { return explain.Plural(n, "partition", "partitions") }

// gpuName is how pages call a device: "GPU 3".
func gpuName(index int) string { return "GPU " + strconv.Itoa(index) }

// Devices and nodes.

// The states of a device beside those of package gpu.
const (
	stateBusy   = "busy"
	stateIdle   = "idle"
	stateOn     = "on" // it answers, and nobody knows whether it works
	stateSilent = "silent"
)

// stateText is a state in a word; empty for one that is not known.
func stateText(state string) string {
	switch state {
	case stateBusy:
		return "busy"
	case stateIdle:
		return "idle"
	case stateOn:
		return "answering"
	case stateSilent:
		return "silent"
	case string(gpu.StateLost):
		return "lost"
	case string(gpu.StateAsleep):
		return "asleep"
	case string(gpu.StateNotAnswering):
		return "not answering"
	default:
		return ""
	}
}

// whatToDo is what to do about a state, where the source gave no reason for it.
func whatToDo(state string) string {
	switch state {
	case string(gpu.StateNotAnswering):
		return "A call to the driver has not come back. See the kernel log (dmesg)."
	case string(gpu.StateLost):
		return "The driver no longer finds it. See the kernel log (dmesg); restart the machine if it stays away."
	case string(gpu.StateAsleep):
		return "The system has powered it down until a program uses it."
	default:
		return ""
	}
}

// The list of GPUs.
const (
	allText         = "All"
	busyText        = "Busy"
	problemText     = "Problem"
	noneBusy        = "No GPU is busy."
	noProblem       = "No GPU has a problem."
	restingText     = "resting"
	fanOffText      = "fan off"
	fanFailsText    = "fan fails"
	needsActionText = "needs action"
	slowedByHeatIs  = "slowed by heat"
	nearHeatLimit   = "near its limit of heat"
	powerLimited    = "power-limited"
	computeText     = "Compute"
	clockText       = "Clock"
	pcieText        = "PCIe"
	hotSpotText     = "Hot spot"
	memoryHeatText  = "Memory’s temperature"
	bandwidthText   = "Memory bandwidth"
	memoryClockText = "Memory’s clock"
)

func notKnown(n int) string  { return strconv.Itoa(n) + " not known" }
func moreWrong(n int) string { return "and " + strconv.Itoa(n) + " more, marked below" }
func gpusFrom(first, last int) string {
	return "GPUs " + strconv.Itoa(first) + "–" + strconv.Itoa(last)
}
func andOthers(n int) string      { return " and " + strconv.Itoa(n) + " more" } // behind a name
func fanAt(speed string) string   { return "fan " + speed }
func slowedBy(what string) string { return "slowed by " + what }

// Cards: "slows at 90 °C", "memory 9501 MHz", "PCIe 4 ×16", "encoder 30 %".
func slowsAt(celsius string) string { return "slows at " + celsius }
func memoryAt(clock string) string  { return "memory " + clock }
func pcieLink(generation, width int) string {
	return "PCIe " + strconv.Itoa(generation) + " ×" + strconv.Itoa(width)
}
func encoderAt(share string) string     { return "encoder " + share }
func decoderAt(share string) string     { return "decoder " + share }
func videoAt(share string) string       { return "video " + share }
func processesAre(absent string) string { return "processes " + absent } // "processes not permitted"
func pidText(pid int) string            { return "pid " + strconv.Itoa(pid) }
func withoutUnified(gpus string) string { return "without " + gpus + " in the machine’s memory" }

const (
	ofMachinesMemory = "of the machine’s memory"
	byHandText       = "set by hand" // a fan
)

// held are the reasons that cost the work something, and what they are in words.
var held = []struct {
	reason gpu.ClockEventReasons
	text   string
}{
	{gpu.ReasonHardwareSlowdown, "the hardware's own protection"},
	{gpu.ReasonThermalSlowdown, "heat"},
	{gpu.ReasonHardwareThermal, "heat"},
	{gpu.ReasonHardwarePowerBrake, "the power supply"},
}

// holdsClocks is what holds the clocks.
var holdsClocks = []struct {
	reason gpu.ClockEventReasons
	text   string
}{
	{gpu.ReasonIdle, "there is nothing to do"},
	{gpu.ReasonApplicationClocks, "somebody set the clocks"},
	{gpu.ReasonPowerCap, "the power limit"},
	{gpu.ReasonHardwareSlowdown, "the hardware's own protection"},
	{gpu.ReasonSyncBoost, "in step with another GPU"},
	{gpu.ReasonThermalSlowdown, "heat, says the driver"},
	{gpu.ReasonHardwareThermal, "heat, says the hardware"},
	{gpu.ReasonHardwarePowerBrake, "the power supply asks for less"},
	{gpu.ReasonDisplayClockSetting, "a display needs it"},
	{gpu.ReasonBoardLimit, "a limit of the board"},
	{gpu.ReasonReliability, "so that the chip lives long"},
}

// splitBy is what watts were split by; empty where they were not.
func splitBy(m attribute.Method) string {
	switch m {
	case attribute.BySM:
		return "shares of the multiprocessors’ time"
	case attribute.ByMemory:
		return "the memory that they hold"
	default:
		return ""
	}
}

// The machine as a whole.
const (
	theGPU        = "GPU"
	allGPUs       = "All GPUs"
	processorText = "Processor"
	networkText   = "Network"
	kernelText    = "Kernel"
	noGPURead     = "What was tried"
	notAllRead    = "Not everything can be read"
	cpuText       = "CPU"
	loadText      = "Load"
	memoryText    = "Memory"
	swapText      = "Swap"
	incoming      = "in" // behind a rate
	selfText      = "gpuwhy itself"
	ofOneCore     = "of one core"
)

func driverText(version string) string   { return "driver " + version }
func cudaText(version string) string     { return "CUDA " + version }
func notRead(n int) string               { return strconv.Itoa(n) + " not read" }
func failingFor(span string) string      { return "failing for " + span }
func tryingAgainIn(span string) string   { return "trying again in " + span }
func temperatureOf(sensor string) string { return sensor + " temperature" }
func loads(fiveMinutes, fifteen string) string {
	return fiveMinutes + " over 5" + nbsp + "min · " + fifteen + " over 15" + nbsp + "min"
}
func readsText(rate string) string  { return "reads " + rate }
func writesText(rate string) string { return "writes " + rate }
func outgoing(rate string) string   { return rate + " out" }
func ofMemory(size string) string   { return size + " of memory" }
func upFor(span string) string      { return "up " + span }

// Processes.

// "The processes of GPU 0 and GPU 1 are not known: …", above their table.
func processesNotKnown(gpus string) string {
	return "The processes of " + gpus + " are not known: it does not answer."
}
func processesNotListed(gpus string) string {
	return "The driver does not list the processes of " + gpus + "."
}
func processesHidden(gpus string) string { return "gpuwhy may not see all processes of " + gpus + "." }

func podText(name string) string          { return "pod " + name }
func containerText(name string) string    { return "container " + name }
func jobText(id int) string               { return "job " + strconv.Itoa(id) }
func commandIs(absent string) string      { return "command " + absent } // "command not permitted"
func onInstance(gpu string, n int) string { return gpu + " · MIG " + strconv.Itoa(n) }

// Causes.

// certainty is how sure a cause is.
func certainty(c explain.Confidence) string {
	switch {
	case c >= explain.High:
		return "Certainty: high"
	case c >= explain.Medium:
		return "Certainty: medium, something else could look the same"
	default:
		return "Certainty: low, what would decide is not reported"
	}
}

// Alerts.

const acknowledgedText = "acknowledged"

// "acknowledged by ann", "acknowledged by ann: I look at it"
func didBy(did, who string) string      { return did + " by " + who }
func didSaying(did, what string) string { return did + ": " + what }

// severityName is a severity in a word; empty for an empty one.
func severityName(s alert.Severity) string {
	switch s {
	case alert.Critical:
		return "Critical"
	case alert.Warning:
		return "Warning"
	case alert.Info:
		return "Info"
	default:
		return ""
	}
}

// alertStateName is the state of an alert that does not fire.
func alertStateName(s alert.State) string {
	switch s {
	case alert.NoData:
		return "No data"
	case alert.Resolved:
		return "Over"
	default:
		return ""
	}
}

// A being is what one thing is or does, and several: "is busy", "are busy".
type being struct{ one, many string }

// counted is that of n things.
func (b being) counted(n int) string {
	if n == 1 {
		return b.one
	}
	return b.many
}

// beingOf is what those with an alert are or do, by what is watched; empty for what this version does not know.
func beingOf(w alert.Watch) being {
	switch w {
	case alert.Utilization:
		return being{"is busy", "are busy"}
	case alert.Temperature:
		return being{"is hot", "are hot"}
	case alert.TemperatureMargin:
		return being{"is near its limit of heat", "are near their limits of heat"}
	case alert.MemoryTemperature:
		return being{"has hot memory", "have hot memory"}
	case alert.Memory:
		return being{"has nearly full memory", "have nearly full memory"}
	case alert.MemoryFullIn:
		return being{"will soon have full memory", "will soon have full memory"}
	case alert.Power:
		return being{"draws much power", "draw much power"}
	case alert.PowerShare:
		return being{"is at its power limit", "are at their power limits"}
	case alert.Fan:
		return being{"has a loud fan", "have loud fans"}
	case alert.FanFailing:
		return being{"has a failing fan", "have failing fans"}
	case alert.FanUnreadable:
		return being{"has a fan that can't be read", "have fans that can't be read"}
	case alert.NeedsAction:
		return being{"needs a reset or the like", "need resets or the like"}
	case alert.ThrottledByHeat:
		return being{"is slowed by heat", "are slowed by heat"}
	case alert.ThrottledByPower:
		return being{"is slowed by its power limit", "are slowed by their power limits"}
	case alert.XID:
		return being{"had driver errors", "had driver errors"}
	case alert.Fault:
		return being{"had hangs or errors", "had hangs or errors"}
	case alert.ECC:
		return being{"had memory errors", "had memory errors"}
	case alert.RowRemap:
		return being{"has broken memory", "have broken memory"}
	case alert.Lost:
		return being{"is lost", "are lost"}
	case alert.NotAnswering:
		return being{"does not answer", "do not answer"}
	case alert.DriverGone:
		return being{"can't be read", "can't be read"}
	case alert.NodeSilent:
		return being{"sends nothing", "send nothing"}
	case alert.IdleHeld:
		return being{"has idle memory in use", "have idle memory in use"}
	case alert.IdleReserved:
		return being{"is reserved and has no work", "are reserved and have no work"}
	case alert.OrphanMemory:
		return being{"holds memory of ended processes", "hold memory of ended processes"}
	case noData:
		return being{"does not report", "do not report"}
	case easing:
		return being{"is getting better", "are getting better"}
	default:
		return being{}
	}
}
