package views

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// texts are those that both the first paint and the scripts write; what
// only markup says is in the templates, and what only scripts say is in them.
// Values stand where there are braces. Of counted things there are two forms.
var texts = map[string]string{
	"not_reported":        "not reported",
	"not_reported why":    "the device or its driver does not say",
	"not_supported":       "not offered",
	"not_supported why":   "the device or its driver does not offer it",
	"not_permitted":       "not permitted",
	"not_permitted why":   "it exists, but gpuwhy may not read it",
	"stale":               "stale",
	"stale why":           "it was reported before, and the device does not answer now",
	"doubtful why":        "reported like this, but it can't be right",
	"not read since":      "not read since {}",
	"stale since":         "stale since {}",
	"and":                 "{} and {}",
	"of":                  "of {}",
	"gpu":                 "GPU {}",
	"since":               "since {}",
	"ago":                 "{} ago",
	"GPUs":                "{} GPU|{} GPUs",
	"processes":           "{} process|{} processes",
	"nodes":               "{} node|{} nodes",
	"cores":               "{} core|{} cores",
	"kinds":               "{} kind|{} kinds",
	"yes":                 "yes",
	"no":                  "no",
	"none":                "none",
	"nothing":             "nothing",
	"state busy":          "busy",
	"state idle":          "idle",
	"state on":            "answering",
	"busy from":           strconv.Itoa(gpu.BusyFrom), // percent
	"state lost":          "lost",
	"state asleep":        "asleep",
	"state not_answering": "not answering",
	"for":                 "for {}",

	// What to do where the source gave no reason for a state.
	"do not_answering": "A call to the driver has not come back. See the kernel log (dmesg).",
	"do lost":          "The driver no longer finds it. See the kernel log (dmesg); restart the machine if it stays away.",
	"do asleep":        "The system has powered it down until a program uses it.",

	// cards
	"stand out":      "{} of {} GPUs stand out: the lost, those that don’t answer, those nearest to their limit of heat.",
	"slows at":       "slows at {}",
	"memory at":      "memory {}",
	"pcie":           "PCIe {} ×{}",
	"encoder":        "encoder {}",
	"decoder":        "decoder {}",
	"no fan":         "no fan of its own",
	"no fan why":     "the chassis cools it, and gpuwhy can't see those fans",
	"by hand":        "set by hand",
	"unlisted":       "processes {}",
	"no process":     "no process",
	"no process why": "no process has a context on it",
	"someone":        "a process",
	"someone why":    "its name can't be seen from here",
	"pid":            "pid {}",
	"more processes": "{} more process|{} more processes",
	"MIG instances":  "{} MIG instance|{} MIG instances",

	// What costs the work something, by the names of clock event reasons.
	"held sw_power_cap":            "the power limit",
	"held hw_slowdown":             "the hardware's own protection",
	"held sw_thermal_slowdown":     "heat",
	"held hw_thermal_slowdown":     "heat",
	"held hw_power_brake_slowdown": "the power supply",

	// the machine as a whole
	"driver":       "driver {}",
	"CUDA":         "CUDA {}",
	"not read":     "{}, {} not read",
	"not told":     "{}, {} not known",
	"no GPU read":  "What was tried",
	"not all read": "Not everything can be read",
	"failing":      "failing for {}",
	"again":        "trying again in {}",
	"CPU":          "CPU",
	"load":         "Load",
	"loads":        "{} over 5\u00a0min · {} over 15\u00a0min",
	"memory":       "Memory",
	"swap":         "Swap",
	"reads":        "reads {}",
	"writes":       "writes {}",
	"in":           "in",
	"out":          "{} out",
	"self":         "gpuwhy itself",
	"of one core":  "of one core",
	"of memory":    "{} of memory",
	"up":           "up {}",

	// causes, by how sure they are
	"sure high":   "Certainty: high",
	"sure medium": "Certainty: medium, something else could look the same",
	"sure low":    "Certainty: low, what would decide is not reported",
	"since, for":  "since {}, for {}",

	// alerts, by their rule, or else their severity
	"alert high_gpu_usage": "High usage",
	"alert critical":       "Critical",
	"alert warning":        "Warning",
	"alert info":           "Note",
	"alert no_data":        "No data",
	"alert resolved":       "Over",
	"more":                 "and {} more",
	"worst":                "Show the worst {} of {}",
	"acknowledged":         "acknowledged",
	"by":                   "{} by {}",
	"says":                 "{}: {}",
	"silenced":             "silenced until {}",

	// processes
	"first processes": "The first {} of {} processes: sort or narrow to see others.",
	"not listed":      "The driver does not list the processes of {}.",
	"pod":             "pod {}",
	"container":       "container {}",
	"job":             "job {}",
	"command":         "command {}",
	"MIG":             "{} · MIG {}",

	// what watts were split by
	"split sm_share": "shares of the multiprocessors’ time",
	"split memory":   "the memory that they hold",

	// what holds the clocks, by the names on the wire
	"reason gpu_idle":                    "there is nothing to do",
	"reason applications_clocks_setting": "somebody set the clocks",
	"reason sw_power_cap":                "the power limit",
	"reason hw_slowdown":                 "the hardware's own protection",
	"reason sync_boost":                  "in step with another GPU",
	"reason sw_thermal_slowdown":         "heat, says the driver",
	"reason hw_thermal_slowdown":         "heat, says the hardware",
	"reason hw_power_brake_slowdown":     "the power supply asks for less",
	"reason display_clock_setting":       "a display needs it",
}

// Words is the script with the words, for package static to serve beside its
// own.
func Words() []byte {
	list, err := json.Marshal(texts)
	if err != nil {
		panic("views: the words can't be encoded: " + err.Error())
	}
	return []byte("export const words = " + string(list) + ";\n")
}

// say is the text of that name with the values in it; empty where there is no
// such text.
func say(name string, values ...string) string {
	return fill(texts[name], values...)
}

// fill puts values where there are braces. What is in them stays as it is.
func fill(text string, values ...string) string {
	parts := strings.Split(text, "{}")
	for i, v := range values[:min(len(values), len(parts)-1)] {
		parts[i] += v
	}
	return strings.Join(parts, "")
}

// count is a number of things: "1 GPU", "2 GPUs".
func count(name string, n int) string {
	one, many, _ := strings.Cut(texts[name], "|")
	if n != 1 {
		one = many
	}
	return fill(one, strconv.Itoa(n))
}
