package views

import (
	"strconv"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/insight/attribute"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// This file has the page texts that are used in several places or depend on readings. Texts used in one place are in their template.
// testdata/words.golden.txt lists all texts of this file with example values; "go test ./views -run TestWords -update" writes it.

// An absence is the text shown instead of a value, and why there is none.
type absence struct{ text, why string }

var (
	notMeasured    = absence{"not measured", ""}
	notReported    = absence{"not reported", "the device or its driver doesn’t report it"}
	notSupported   = absence{"not offered", "the device or its driver doesn’t offer it"}
	notPermitted   = absence{"not permitted", "it exists, but gpuwhy isn’t allowed to read it"}
	stale          = absence{"stale", "reported earlier; the device isn’t answering now"}
	implausible    = absence{"impossible value", "the device reported a value that can’t be right"}
	machinesMemory = absence{"the machine’s", "it has no memory of its own"}
	noOwnFan       = absence{"no fan of its own", "the chassis cools it with fans that gpuwhy can’t see"}
	noProcess      = absence{"no process", "no process has a context on it"}
	noProcessSeen  = absence{"no visible process", "processes that gpuwhy can’t see may be using it"}
	someProcess    = absence{"a process", "its name isn’t visible from here"}
	endedProcess   = absence{"Ended process", "it no longer exists, but the driver hasn’t freed what it held"}
)

// absenceOf says why a reading has no value.
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
	doubtfulWhy = "reported, but probably wrong: gpuwhy doesn’t rely on it" // beside a value
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
func nodeCount(n int) string      { return explain.Plural(n, "machine", "machines") }
func fleetText(n int) string      { return "Fleet of " + strconv.Itoa(n) } // in place of a machine's name
func coreCount(n int) string      { return explain.Plural(n, "core", "cores") }
func kindCount(n int) string      { return explain.Plural(n, "kind", "kinds") }
func moreProcesses(n int) string  { return explain.Plural(n, "more process", "more processes") }
func migInstances(n int) string   { return explain.Plural(n, "MIG instance", "MIG instances") }
func partitionCount(n int) string { return explain.Plural(n, "partition", "partitions") }

// gpuName is the name of a device on pages: "GPU 3".
func gpuName(index int) string { return "GPU " + strconv.Itoa(index) }

// Devices and nodes.

// States of a device in addition to those of package gpu.
const (
	stateBusy   = "busy"
	stateIdle   = "idle"
	stateOn     = "on" // it answers, but whether it is busy is unknown
	stateSilent = "silent"
)

// stateText is a state in words; empty for an unknown one.
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

// whatToDo says what to do about a state, if the source gave no reason for it.
func whatToDo(state string) string {
	switch state {
	case string(gpu.StateNotAnswering):
		return "A call to the driver hasn’t returned. Check the kernel log (dmesg)."
	case string(gpu.StateLost):
		return "The driver no longer finds it. Check the kernel log (dmesg); restart the machine if it doesn’t come back."
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
	restingText     = "idle"
	fanOffText      = "fan off"
	fanFailsText    = "fan failing"
	needsActionText = "needs attention"
	slowedByHeatIs  = "slowed by heat"
	nearHeatLimit   = "close to its temperature limit"
	powerLimited    = "power-limited"
	computeText     = "Compute"
	clockText       = "Clock"
	pcieText        = "PCIe"
	hotSpotText     = "Hot spot"
	memoryHeatText  = "Memory temperature"
	bandwidthText   = "Memory bandwidth"
	memoryClockText = "Memory clock"
)

func notKnown(n int) string  { return strconv.Itoa(n) + " not reporting" }
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
func withoutUnified(gpus string) string { return "excluding " + gpus + " using the machine’s memory" }

const (
	ofMachinesMemory = "of the machine’s memory"
	byHandText       = "set by hand" // a fan
)

// held lists the reasons that slow work down, in words.
var held = []struct {
	reason gpu.ClockEventReasons
	text   string
}{
	{gpu.ReasonHardwareSlowdown, "hardware protection"},
	{gpu.ReasonThermalSlowdown, "heat"},
	{gpu.ReasonHardwareThermal, "heat"},
	{gpu.ReasonHardwarePowerBrake, "the power supply"},
}

// holdsClocks lists all reasons that hold the clocks, in words.
var holdsClocks = []struct {
	reason gpu.ClockEventReasons
	text   string
}{
	{gpu.ReasonIdle, "no work"},
	{gpu.ReasonApplicationClocks, "application clocks that someone set"},
	{gpu.ReasonPowerCap, "the power limit"},
	{gpu.ReasonHardwareSlowdown, "hardware protection"},
	{gpu.ReasonSyncBoost, "sync with another GPU"},
	{gpu.ReasonThermalSlowdown, "heat (driver)"},
	{gpu.ReasonHardwareThermal, "heat (hardware)"},
	{gpu.ReasonHardwarePowerBrake, "the power supply (power brake)"},
	{gpu.ReasonDisplayClockSetting, "a display"},
	{gpu.ReasonBoardLimit, "the board’s limit"},
	{gpu.ReasonReliability, "the reliability limit"},
}

// splitBy says how power was split among processes; empty if it was not.
func splitBy(m attribute.Method) string {
	switch m {
	case attribute.BySM:
		return "share of SM time"
	case attribute.ByMemory:
		return "memory in use"
	default:
		return ""
	}
}

// The machine as a whole.
const (
	theGPU        = "GPU"
	allGPUs       = "All GPUs"
	processorText = "CPU"
	networkText   = "Network"
	kernelText    = "Kernel"
	noGPURead     = "What was tried"
	notAllRead    = "Some sources can’t be read"
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

// Notes above the table of processes, about the named GPUs.
func processesNotKnown(gpus string) string {
	return "Without an answer from " + gpus + ", the processes there are unknown."
}
func processesNotListed(gpus string) string {
	return "The driver doesn’t list the processes on " + gpus + "."
}
func processesHidden(gpus string) string {
	return "gpuwhy has no permission to see all processes on " + gpus + "."
}

func podText(name string) string          { return "pod " + name }
func containerText(name string) string    { return "container " + name }
func jobText(id int) string               { return "job " + strconv.Itoa(id) }
func commandIs(absent string) string      { return "command " + absent } // "command not permitted"
func onInstance(gpu string, n int) string { return gpu + " · MIG " + strconv.Itoa(n) }

// Causes.

// certainty says how certain a cause is.
func certainty(c explain.Confidence) string {
	switch {
	case c >= explain.High:
		return "Certainty: high"
	case c >= explain.Medium:
		return "Certainty: medium; another cause could look the same"
	default:
		return "Certainty: low; the reading that would decide it is missing"
	}
}

// Alerts.

const acknowledgedText = "acknowledged"

// "acknowledged by ann", "acknowledged by ann: I look at it"
func didBy(did, who string) string      { return did + " by " + who }
func didSaying(did, what string) string { return did + ": " + what }

// severityName is a severity as a word; empty for an empty one.
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

// alertStateName is the state of an alert that is not firing.
func alertStateName(s alert.State) string {
	switch s {
	case alert.NoData:
		return "No data"
	case alert.Resolved:
		return "Resolved"
	default:
		return ""
	}
}

// A being is a predicate for one subject and for several: "is busy", "are busy".
type being struct{ one, many string }

// counted returns the predicate for n subjects.
func (b being) counted(n int) string {
	if n == 1 {
		return b.one
	}
	return b.many
}

// beingOf returns the predicate of an alert's subject, by what the rule watches; empty for a watch that this version does not know.
func beingOf(w alert.Watch) being {
	switch w {
	case alert.Utilization:
		return being{"is busy", "are busy"}
	case alert.Temperature:
		return being{"is hot", "are hot"}
	case alert.TemperatureMargin:
		return being{"is close to its temperature limit", "are close to their temperature limits"}
	case alert.MemoryTemperature:
		return being{"has hot memory", "have hot memory"}
	case alert.Memory:
		return being{"has nearly full memory", "have nearly full memory"}
	case alert.MemoryFullIn:
		return being{"will soon run out of memory", "will soon run out of memory"}
	case alert.Power:
		return being{"draws a lot of power", "draw a lot of power"}
	case alert.PowerShare:
		return being{"is at its power limit", "are at their power limits"}
	case alert.Fan:
		return being{"has a loud fan", "have loud fans"}
	case alert.FanFailing:
		return being{"has a failing fan", "have failing fans"}
	case alert.FanUnreadable:
		return being{"has a fan that can’t be read", "have fans that can’t be read"}
	case alert.NeedsAction:
		return being{"needs attention", "need attention"}
	case alert.ThrottledByHeat:
		return being{"is slowed by heat", "are slowed by heat"}
	case alert.ThrottledByPower:
		return being{"is held back by power", "are held back by power"}
	case alert.XID:
		return being{"had driver errors", "had driver errors"}
	case alert.Fault:
		return being{"had hangs or errors", "had hangs or errors"}
	case alert.ECC:
		return being{"had memory errors", "had memory errors"}
	case alert.RowRemap:
		return being{"has faulty memory", "have faulty memory"}
	case alert.Lost:
		return being{"is lost", "are lost"}
	case alert.NotAnswering:
		return being{"is not answering", "are not answering"}
	case alert.DriverGone:
		return being{"can’t be read", "can’t be read"}
	case alert.NodeSilent:
		return being{"is silent", "are silent"}
	case alert.IdleHeld:
		return being{"is idle with memory in use", "are idle with memory in use"}
	case alert.IdleReserved:
		return being{"is reserved but idle", "are reserved but idle"}
	case alert.OrphanMemory:
		return being{"holds memory of ended processes", "hold memory of ended processes"}
	case noData:
		return being{"is not reporting", "are not reporting"}
	case easing:
		return being{"is recovering", "are recovering"}
	default:
		return being{}
	}
}
