package explain

import (
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A Way is one thing that a person can do about the headline. gpuwhy never does it.
type Way struct {
	Text    string // a word or two if there is a command, otherwise a sentence
	Command string // the exact command for it; empty if there is none
}

// ways returns what can be done about a device, each with its exact command if there is one.
func (d *device) ways(first *finding) (out []Way) {
	live := gpu.KindOf(d.Source) == gpu.Live
	command := d.command(first.Kind, first.Case)
	lower, lowers := d.lowerLimit()
	lowers = lowers && (first.Kind == LimitedByHeat || first.Kind == Work && first.Advice == d.lessWork())
	switch {
	case command != "" && first.Kind == HeldAwake && first.Case == casePersistence:
		out = append(out, Way{letItRest, command})
	case command != "" && (first.Kind == NeedsAction || first.Kind == HeldAwake && first.Case == caseLeftBehind):
		out = append(out, Way{resetIt, command})
	case command != "":
		if pids, kills := strings.CutPrefix(command, "sudo kill "); kills && first.Kind == Work {
			out = append(out, Way{pauseIt, "sudo kill -STOP " + pids})
		}
		out = append(out, Way{endIt, command})
	case first.Kind == Work && lowers:
		out = append(out, Way{d.endWork() + ".", ""})
	case first.Advice != "":
		out = append(out, Way{first.Advice, ""})
	}
	switch {
	case lowers && live:
		out = append(out, Way{capAt(withUnit(lower, "W")), "sudo nvidia-smi -i " + d.UUID + " -pl " + number(lower)})
	case lowers:
		out = append(out, Way{orCapAt(withUnit(lower, "W")), ""})
	case live && d.Vendor == gpu.NVIDIA && (first.Kind == Lost || first.Kind == NotAnswering):
		out = append(out, Way{seeWhy, "sudo dmesg | grep -i xid"})
	}
	return out
}

// lowerLimit returns a power limit at which a device works a little more slowly, and gets less hot.
func (d *device) lowerLimit() (watts float64, can bool) {
	lower := 0.8 * d.limit
	return lower, d.Vendor == gpu.NVIDIA && plainName().MatchString(d.UUID) && lower >= believed(d.Power.MinLimit, 1, mostWatts)
}

// endWork says which process to end.
func (d *device) endWork() string {
	if len(d.culprits) > 0 && !gone(d.culprits[0]) && !d.hidden() {
		return endOrPause(ProcessName(d.culprits[0]))
	}
	return endOrPause("the work")
}
