package explain

import (
	"strconv"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// This file holds the sentences of all causes, in the order in which an answer lists them. Each function is one case of a kind, and its
// comment shows the clause as people read it. testdata/words.golden.txt shows every sentence with example values;
// "go test ./internal/insight/explain -run TestWords -update" writes it.

// A wording is what one case of a cause says.
type wording struct {
	name string // the case on the wire; it stays the same when the words change
	// clause states the cause without a full stop. A sentence joins one or more clauses.
	clause func(naming) string
	// headline says the same in at most ten words, in the present and, for old readings, in the past. It is nil for a kind that never comes first.
	headline func(heading) (now, past string)
	advice   string // sentences; empty if there is nothing to do
	short    string // two or three words for the line below another headline; empty if that line leaves it out
}

// A naming has the names that a clause uses for its subject.
type naming struct {
	it       string // "GPU 0 (RTX 4090)"; "it" if an earlier clause has named the device
	fan      string // "fan 2 of GPU 0 (RTX 4090)", "its fan 2"
	readings string // ", 71 °C, 431 W of 450 W, fan at 66 %"; empty if the device is "it"
	brackets string // the same in brackets: " (71 °C, 431 W of 450 W, fan at 66 %)"
}

// A heading has the names that a headline uses for its subject. At the beginning of a headline, [heading.GPU], [heading.Fans] and
// [heading.Who] add the capital letter.
type heading struct {
	gpu     string // "GPU 6", or "the GPU" if the machine has only one
	fans    string // "GPU 6's fan", "your fan", "fan 2 of GPU 6"
	who     string // whoever works or worked: "train.py (ann)", "train.py (ann) and others"; empty if unknown
	several bool   // who names more than one
	left    string // the time until it is quiet: "4 min"; empty if unknown
}

// verb chooses the form of a verb that agrees with who: "heats", "heat".
func (h *heading) verb(one, many string) string {
	if h.several {
		return many
	}
	return one
}

// Unasked is the case of [FanFailing] in which a fan turns although the driver asks for 0 %.
const Unasked = "unasked"

// The cases that rules refer to.
const (
	caseMemoryAlone = "memory alone"
	caseStill       = "still"
	casePolicy      = "policy"
	caseTarget      = "target"
	caseProcesses   = "processes"
	caseHolder      = "holder"
	caseLightUser   = "light user"
	caseLeftBehind  = "left behind"
	casePersistence = "persistence"
	caseIdle        = "idle"
	caseCool        = "cool"
)

// Headlines for a machine whose only GPU has its fan off.

func fanOffHeadline() (now, past string) { return "Your fan is off.", "Your fan was off." }

func fanOffAtWorkHeadline(h heading) (now, past string) {
	return "Your fan is off, though " + h.who + h.verb(" uses", " use") + " the GPU.", "Your fan was off, though " + h.who + " used the GPU."
}

func fanOffCoolingHeadline() (now, past string) {
	return "Your fan is off; the GPU is still cooling down.", "Your fan was off; the GPU was still cooling down."
}

// Somebody encodes or decodes video: does is such as "encoding video".
func videoHeadline(h heading, does string, fanRuns bool) (now, past string) {
	now, past = h.Who()+h.verb(" is ", " are ")+does, h.Who()+h.verb(" was ", " were ")+does
	if fanRuns {
		return now + ", so the fan is running.", past + ", so the fan was running."
	}
	return now + " on " + h.gpu + ".", past + " on " + h.gpu + "."
}

// The device is lost, or can't be read.

// GPU 0 (RTX 4090) is lost: the driver no longer finds it, after XID 79 (the GPU has fallen off the bus)
func lostWords(logs, after string) wording {
	return wording{
		name:     "state",
		clause:   func(n naming) string { return n.it + " is lost: the driver no longer finds it" + after },
		headline: func(h heading) (now, past string) { return h.GPU() + " is lost.", h.GPU() + " was lost." },
		advice:   "Look for " + logs + " in the kernel log, check the card's power cables and seating, and restart the machine.",
	}
}

// GPU 0 (RTX 4090) is lost: the kernel has it off the bus (0000:01:00.0)
func offTheBusWords(reason string) wording {
	return wording{
		name:   "off the bus",
		clause: func(n naming) string { return n.it + " is lost: " + reason },
		headline: func(h heading) (now, past string) {
			return h.GPU() + " has fallen off the bus.", h.GPU() + " had fallen off the bus."
		},
	}
}

// GPU 0 (RTX 4090) is broken: the kernel has the card, and the driver does not list it (0000:01:00.0)
func notListedWords(reason string) wording {
	return wording{
		name:   "not listed",
		clause: func(n naming) string { return n.it + " is broken: " + reason },
		headline: func(h heading) (now, past string) {
			return h.GPU() + " is broken: the driver does not list it.", h.GPU() + " was broken: the driver did not list it."
		},
	}
}

// GPU 0 (RTX 4090) is not answering
func notAnsweringWords(logs, after string) wording {
	return wording{
		name:   "state",
		clause: func(n naming) string { return n.it + " is not answering" + after },
		headline: func(h heading) (now, past string) {
			return h.GPU() + " is not answering.", h.GPU() + " was not answering."
		},
		advice: "Look for " + logs + " in the kernel log; you may have to restart the machine.",
	}
}

// GPU 0 (RTX 4090) is asleep: the system has powered it down
func asleepWords() wording {
	return wording{
		name:     "state",
		clause:   func(n naming) string { return n.it + " is asleep: the system has powered it down" },
		headline: func(h heading) (now, past string) { return h.GPU() + " is asleep.", h.GPU() + " was asleep." },
	}
}

// GPU 0 (RTX 4090) has no readings now: the amdgpu driver is not answering
func noReadingsWords(reason, advice string) wording {
	return wording{
		name:   "now",
		clause: func(n naming) string { return n.it + " has no readings now" + reason },
		headline: func(h heading) (now, past string) {
			return h.GPU() + " has no readings now.", h.GPU() + " had no readings."
		},
		advice: advice,
	}
}

const offersLittle = "No action needed: a part of a GPU in a virtual machine, or a GPU inside a processor, often reports no more than this. " +
	"The host machine may show more."

// the driver reports nothing about GPU 0 (A100) except memory (1.2 of 24.0 GiB of memory in use): temperature, power, …
func onlyMemoryWords(used string) wording {
	return wording{
		name: caseMemoryAlone,
		clause: func(n naming) string {
			return "the driver reports nothing about " + n.it + " except memory (" + used + "): temperature, power, utilization and fan are unknown here"
		},
		headline: func(h heading) (now, past string) {
			return "The driver reports only the memory of " + h.gpu + ".", "The driver reported only the memory of " + h.gpu + "."
		},
		advice: offersLittle,
	}
}

// the driver reports no temperature, power, utilization or fan speed for GPU 0 (A100)
func noneOfferedWords() wording {
	return wording{
		name: "none offered",
		clause: func(n naming) string {
			return "the driver reports no temperature, power, utilization or fan speed for " + n.it
		},
		headline: func(h heading) (now, past string) {
			return "The driver reports no readings for " + h.gpu + ".", "The driver reported no readings for " + h.gpu + "."
		},
		advice: offersLittle,
	}
}

// The driver asks for a recovery. Package gpu has the advice.

const asksForRepair = "its driver asks for recovery"

// GPU 0 (RTX 4090) needs a reset, according to its driver (34 °C, 17 W of 450 W, fan off)
func needsResetWords() wording {
	return wording{
		name:   string(gpu.FaultNeedsReset),
		clause: func(n naming) string { return n.it + " needs a reset, according to its driver" + n.brackets },
		headline: func(h heading) (now, past string) {
			return h.GPU() + " needs a reset, according to its driver.", h.GPU() + " needed a reset, according to its driver."
		},
		short: asksForRepair,
	}
}

// the machine needs a restart to recover GPU 0 (RTX 4090), according to the driver (34 °C, 17 W of 450 W, fan off)
func needsRestartWords() wording {
	return wording{
		name: string(gpu.FaultNeedsRestart),
		clause: func(n naming) string {
			return "the machine needs a restart to recover " + n.it + ", according to the driver" + n.brackets
		},
		headline: func(h heading) (now, past string) {
			return "The machine needs a restart to recover " + h.gpu + ".", "The machine needed a restart to recover " + h.gpu + "."
		},
		short: asksForRepair,
	}
}

// the driver asks you to end the work that GPU 0 (RTX 4090) shares with other GPUs (34 °C, 17 W of 450 W, fan off)
func needsDrainWords() wording {
	return wording{
		name: string(gpu.FaultNeedsDrain),
		clause: func(n naming) string {
			return "the driver asks you to end the work that " + n.it + " shares with other GPUs" + n.brackets
		},
		headline: func(h heading) (now, past string) {
			return "The driver asks you to end the work that " + h.gpu + " shares with other GPUs.",
				"The driver asked you to end the work that " + h.gpu + " shares with other GPUs."
		},
		short: asksForRepair,
	}
}

// GPU 0 (RTX 4090) needs a reset once its work is done, according to its driver (34 °C, 17 W of 450 W, fan off)
func needsLaterResetWords() wording {
	return wording{
		name: string(gpu.FaultNeedsLaterReset),
		clause: func(n naming) string {
			return n.it + " needs a reset once its work is done, according to its driver" + n.brackets
		},
		headline: func(h heading) (now, past string) {
			return h.GPU() + " needs a reset once its work is done.", h.GPU() + " needed a reset once its work was done."
		},
		short: asksForRepair,
	}
}

// GPU 0 (RTX 4090) needs attention, according to its driver (34 °C, 17 W of 450 W, fan off)
func needsActionWords() wording {
	return wording{
		name:   string(gpu.FaultNeedsAction),
		clause: func(n naming) string { return n.it + " needs attention, according to its driver" + n.brackets },
		headline: func(h heading) (now, past string) {
			return h.GPU() + " needs attention, according to its driver.", h.GPU() + " needed attention, according to its driver."
		},
		short: asksForRepair,
	}
}

// The busy counter.

// GPU 0 (RTX 4090) reports 100 % utilization, but its counter looks stuck: nothing is running on it (34 °C, 17 W of 450 W, fan off)
func stuckCounterWords(busy, idleness string) wording {
	return wording{
		name: "stuck",
		clause: func(n naming) string {
			return n.it + " reports " + busy + " utilization, but its counter looks stuck: " + idleness + n.brackets
		},
		headline: func(h heading) (now, past string) {
			return h.GPU() + "'s busy counter looks stuck.", h.GPU() + "'s busy counter looked stuck."
		},
		advice: "The fan needs no action. The counter recovers when you reset the GPU or restart the machine; " +
			"until then, rely on power and temperature.",
	}
}

// The temperature sensor.

const reloadDriver = "Rely on power and fan until you reload the driver; a driver update may fix it."

// GPU 0 (RTX 4090) has reported 71 °C for minutes, though it draws no more than when it idled at 34 °C: its temperature …
func frozenAtRestWords(temp, rest string) wording {
	return wording{
		name: "at rest",
		clause: func(n naming) string {
			return n.it + " has reported " + temp + " for minutes, though it draws no more than when it idled at " + rest +
				": its temperature sensor looks stuck"
		},
		headline: frozenHeadline,
		advice:   reloadDriver,
	}
}

// GPU 0 (RTX 4090) has kept reporting 71 °C while its power draw changed by 231 W: its temperature sensor looks stuck
func frozenWords(temp, swing string) wording {
	return wording{
		name: "temperature",
		clause: func(n naming) string {
			return n.it + " has kept reporting " + temp + " while its power draw changed by " + swing + ": its temperature sensor looks stuck"
		},
		headline: frozenHeadline,
		advice:   reloadDriver,
	}
}

func frozenHeadline(h heading) (now, past string) {
	return h.GPU() + "'s temperature sensor looks stuck.", h.GPU() + "'s temperature sensor looked stuck."
}

// A fan fails, or somebody has set it.

// fan 2 of GPU 0 (RTX 4090) is not turning, though it is told to run at 66 %
func fanStillWords(told string) wording {
	return wording{
		name:   caseStill,
		clause: func(n naming) string { return n.fan + " is not turning, though it is told to run at " + told },
		headline: func(h heading) (now, past string) {
			return h.Fans() + " is not turning.", h.Fans() + " was not turning."
		},
		advice: "Check whether something blocks it or its cable is loose, and watch the temperature: without this fan the GPU may have to slow down. " +
			"If it does not start again, have it replaced.",
	}
}

// fan 2 of GPU 0 (RTX 4090) turns at 900 RPM, but 2100 RPM is usual at 66 %
func fanSlowWords(speed, usual, told string) wording {
	return wording{
		name: "slow",
		clause: func(n naming) string {
			return n.fan + " turns at " + speed + ", but " + usual + " is usual at " + told
		},
		headline: func(h heading) (now, past string) {
			return h.Fans() + " turns more slowly than it should.", h.Fans() + " turned more slowly than it should."
		},
		advice: "Clean it and check whether something rubs against it or blocks it: a worn bearing slows a fan down before it stops.",
	}
}

// the fan of GPU 0 (RTX 4090) is off at 84 °C, when it should be turning
func fanOffWords(temp string) wording {
	return wording{
		name:   "off",
		clause: func(n naming) string { return n.fan + " is off at " + temp + ", when it should be turning" },
		headline: func(h heading) (now, past string) {
			return h.Fans() + " is off, though " + h.gpu + " is hot.", h.Fans() + " was off, though " + h.gpu + " was hot."
		},
		advice: "End the work, and check whether the fan's cable is loose, or a tool or a quiet switch keeps the fan off. " +
			"Without its fan the GPU will slow down or shut down.",
	}
}

// fan 2 of GPU 0 (RTX 4090) turns at 2600 RPM, though the driver asks for 0 %
func fanUnaskedWords(speed string) wording {
	return wording{
		name:   Unasked,
		clause: func(n naming) string { return n.fan + " turns at " + speed + ", though the driver asks for 0 %" },
		headline: func(h heading) (now, past string) {
			return h.Fans() + " is turning, though the driver says off.", h.Fans() + " was turning, though the driver said off."
		},
		advice: "Another program or the card's own firmware controls it: look for a fan tool, or for the card's quiet switch.",
	}
}

// the fan of GPU 0 (RTX 4090) can't be read: the driver reports an error. gpu has the advice.
func fanUnreadableWords() wording {
	return wording{
		name:   string(gpu.FaultFanUnreadable),
		clause: func(n naming) string { return n.fan + " can't be read: the driver reports an error" },
		headline: func(h heading) (now, past string) {
			return h.Fans() + " can't be read: the driver reports an error.", h.Fans() + " couldn't be read: the driver reported an error."
		},
		short: "its fan can't be read",
	}
}

const (
	giveFanBack       = "Give the fan back to the driver: quit the fan tool that set it, or switch that tool to automatic control."
	giveFanBackNVIDIA = "Give the fan back to the driver: quit the fan tool that set it, or switch it to automatic control " +
		"(in nvidia-settings, or in the tool itself)."
)

func fanByHandHeadline(h heading) (now, past string) {
	return "Someone set " + h.fans + " by hand.", "Someone had set " + h.fans + " by hand."
}

// the fan of GPU 0 (RTX 4090) is set to 0 % by hand but still turns at 900 RPM, about as slowly as it can (34 °C)
func fanLeastByHandWords(set, turns, temp string) wording {
	return wording{
		name: "least",
		clause: func(n naming) string {
			return n.fan + " is set to " + set + " by hand but still turns at " + turns + ", about as slowly as it can" + temp
		},
		headline: fanByHandHeadline,
		advice:   giveFanBack,
	}
}

// the fan of GPU 0 (RTX 4090) is controlled by a program, not by the driver, and is now at 66 % (71 °C)
func fanCurveWords(speed, temp string) wording {
	return wording{
		name: "curve",
		clause: func(n naming) string {
			return n.fan + " is controlled by a program, not by the driver, and is now at " + speed + temp
		},
		headline: func(h heading) (now, past string) {
			return "A program controls " + h.fans + " with its own curve.", "A program controlled " + h.fans + " with its own curve."
		},
		advice: giveFanBack,
	}
}

// the fan of GPU 0 (RTX 4090) is set to 80 % by hand and does not follow the temperature (34 °C)
func fanByHandWords(set, temp string) wording {
	return wording{
		name: casePolicy,
		clause: func(n naming) string {
			return n.fan + " is set to " + set + " by hand and does not follow the temperature" + temp
		},
		headline: fanByHandHeadline,
		advice:   giveFanBack,
	}
}

// the fan of GPU 0 (RTX 4090) is set by hand and does not follow the temperature
func fanByHandUnknownWords() wording {
	return wording{
		name:     "unknown speed",
		clause:   func(n naming) string { return n.fan + " is set by hand and does not follow the temperature" },
		headline: fanByHandHeadline,
		advice:   giveFanBack,
	}
}

// the fan of GPU 0 (RTX 4090) stays at 66 % whatever the temperature, from 50 °C to 71 °C: a person or a tool has probably set it
func fanFixedWords(speed, coolest, hottest string) wording {
	return wording{
		name: "fixed",
		clause: func(n naming) string {
			return n.fan + " stays at " + speed + " whatever the temperature, from " + coolest + " to " + hottest +
				": a person or a tool has probably set it"
		},
		headline: func(h heading) (now, past string) {
			return "Someone probably set " + h.fans + " by hand.", "Someone had probably set " + h.fans + " by hand."
		},
		advice: giveFanBack,
	}
}

// the fan of GPU 0 (RTX 4090) stays at 80 %, though the driver wants 30 % (34 °C)
func fanTargetWords(speed, wanted, temp string) wording {
	return wording{
		name: caseTarget,
		clause: func(n naming) string {
			return n.fan + " stays at " + speed + ", though the driver wants " + wanted + temp
		},
		headline: func(h heading) (now, past string) {
			return h.Fans() + " does not follow the driver.", h.Fans() + " did not follow the driver."
		},
		advice: giveFanBack,
	}
}

// Somebody works. Without advice here, the advice is whom to end, and possibly a lower power limit.

// A manner is how busy something is, and for how long.
type manner struct {
	how   string // "busy at 98 %"
	lasts string // "for 12 min", "again for 37 s, 24 min in all"; empty if that is unknown or too short to say
}

// keeps is "keeps GPU 0 busy at 98 %" or "has kept GPU 0 busy at 98 % for 12 min": now is the verb without a duration, lasting the verb with one.
func (a manner) keeps(now, lasting, it string) string {
	if a.lasts == "" {
		return now + " " + it + " " + a.how
	}
	return lasting + " " + it + " " + a.how + " " + a.lasts
}

// is is "is busy at 98 %", or "has been busy at 98 % for 12 min".
func (a manner) is() string {
	if a.lasts == "" {
		return "is " + a.how
	}
	return "has been " + a.how + " " + a.lasts
}

func probablyHeadline(h heading) (now, past string) {
	return h.Who() + h.verb(" is", " are") + " probably heating " + h.gpu + ".", h.Who() + h.verb(" was", " were") + " probably heating " + h.gpu + "."
}

func burstsHeadline(h heading) (now, past string) {
	return h.Who() + h.verb(" works", " work") + " on " + h.gpu + " in bursts.", h.Who() + " worked on " + h.gpu + " in bursts."
}

// python (pid 4242, alice) has kept GPU 0 (RTX 4090) busy at 98 % for 12 min, 71 °C, 431 W of 450 W, fan at 66 %
func workWords(sure Confidence, who string, a manner, extra string) wording {
	w := wording{
		name:     caseProcesses,
		clause:   func(n naming) string { return who + " " + a.keeps("keeps", "has kept", n.it) + extra + n.readings },
		headline: probablyHeadline,
	}
	if sure >= High {
		w.headline = func(h heading) (now, past string) {
			return h.Who() + h.verb(" is", " are") + " heating " + h.gpu + ".", h.Who() + h.verb(" was", " were") + " heating " + h.gpu + "."
		}
	}
	return w
}

// python (pid 4242, alice) has kept GPU 0 (RTX 4090) busy in bursts (40 % of the time) for 12 min, 71 °C, 431 W of 450 W, fan at 66 %
func burstsWords(who string, a manner) wording {
	return wording{
		name:     "bursts",
		clause:   func(n naming) string { return who + " " + a.keeps("keeps", "has kept", n.it) + n.readings },
		headline: burstsHeadline,
	}
}

// GPU 0 (RTX 4090) has been busy in bursts for 12 min from a program that ends and starts again, most recently python (…), 71 °C, …
func comesBackWords(a manner, program string) wording {
	return wording{
		name: "comes back",
		clause: func(n naming) string {
			return n.it + " " + a.is() + " from a program that ends and starts again, most recently " + program + n.readings
		},
		headline: burstsHeadline,
	}
}

// python (pid 4242, alice) has probably kept GPU 0 (RTX 4090) busy for 12 min, 71 °C, 431 W of 450 W, fan at 66 %
func guessedWords(who string, a manner) wording {
	return wording{
		name: "guessed",
		clause: func(n naming) string {
			return who + " " + a.keeps("probably keeps", "has probably kept", n.it) + n.readings
		},
		headline: probablyHeadline,
	}
}

// a process that gpuwhy can't see (pid 4242) has kept GPU 0 (RTX 4090) busy at 98 % for 12 min, 71 °C, 431 W of 450 W, fan at 66 %
func hiddenWorkWords(pid string, a manner) wording {
	return wording{
		name: "hidden",
		clause: func(n naming) string {
			return hiddenProcess(pid) + " " + a.keeps("keeps", "has kept", n.it) + n.readings
		},
		headline: func(h heading) (now, past string) {
			return "Something that gpuwhy can't see is heating " + h.gpu + ".", "Something that gpuwhy can't see was heating " + h.gpu + "."
		},
		advice: "Look for it in other containers and virtual machines, or let gpuwhy see the host's processes (in a container: --pid=host).",
	}
}

// GPU 0 (RTX 4090) has been busy at 98 % for 12 min, 71 °C, 431 W of 450 W, fan at 66 %, and no listed process explains it
func nobodyWords(a manner, blame string) wording {
	return wording{
		name:   "nobody",
		clause: func(n naming) string { return n.it + " " + a.is() + n.readings + ", and " + blame },
		headline: func(h heading) (now, past string) {
			return "Something unlisted is heating " + h.gpu + ".", "Something unlisted was heating " + h.gpu + "."
		},
	}
}

// GPU 0 (RTX 4090) has been busy at 98 % for 12 min, 71 °C, 431 W of 450 W, fan at 66 %, and no process that gpuwhy is allowed to …
func unseenWorkWords(a manner, blame string) wording {
	return wording{
		name:   "unseen",
		clause: func(n naming) string { return n.it + " " + a.is() + n.readings + ", and " + blame },
		headline: func(h heading) (now, past string) {
			return "Something hidden from gpuwhy is heating " + h.gpu + ".", "Something hidden from gpuwhy was heating " + h.gpu + "."
		},
		advice: "To see whose work it is, run gpuwhy as root, or give it the capabilities CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH.",
	}
}

// GPU 0 (RTX 4090) reports 100 % utilization, 34 °C, 17 W of 450 W, fan off, but its power and clocks are at idle level: gpuwhy …
func unprovenWords(busy string) wording {
	return wording{
		name: "unproven",
		clause: func(n naming) string {
			return n.it + " reports " + busy + " utilization" + n.readings +
				", but its power and clocks are at idle level: gpuwhy can't tell yet whether anything is working on it"
		},
		headline: func(h heading) (now, past string) {
			return h.GPU() + " reports being busy; nothing else confirms it.", h.GPU() + " reported being busy; nothing else confirmed it."
		},
		advice: "Check again in a few seconds: new work shows in the counter first. If this persists, rely on power and temperature.",
	}
}

// Work has ended, and its heat remains.

const quietByItself = "No action needed: it will become quiet by itself."

func coolingHeadline(h heading) (now, past string) {
	now, past = h.GPU()+" is cooling down after "+h.who+".", h.GPU()+" was cooling down after "+h.who+"."
	if h.left != "" {
		now = "Cooling down after " + h.who + ", quiet in about " + h.left + "."
	}
	return now, past
}

// GPU 0 (RTX 4090) is cooling down after python (pid 4242, alice), which left it 40 s ago (60 °C, …), and should be quiet in about 4 min
func coolingWords(who, how, ago, ends string) wording {
	return wording{
		name:     "after",
		clause:   func(n naming) string { return n.it + " is cooling down after " + who + how + ago + n.brackets + ends },
		headline: coolingHeadline,
		advice:   quietByItself,
	}
}

// GPU 0 (RTX 4090) is cooling down after python (pid 4242, alice) kept it awake until 40 s ago (60 °C, …), and should be quiet in …
func letGoWords(who, ago, ends string) wording {
	return wording{
		name: "after",
		clause: func(n naming) string {
			return n.it + " is cooling down after " + who + " kept it awake until " + ago + n.brackets + ends
		},
		headline: func(h heading) (now, past string) {
			now, past = h.GPU()+" is cooling down; no work is running.", h.GPU()+" was cooling down; no work was running."
			if h.who != "" {
				now, past = h.GPU()+" is cooling down: "+h.who+" released it.", h.GPU()+" was cooling down: "+h.who+" released it."
			}
			if h.left != "" {
				now = "Cooling down with no work, quiet in about " + h.left + "."
			}
			return now, past
		},
		advice: quietByItself,
	}
}

// GPU 0 (RTX 4090) is starting to cool down after python (pid 4242, alice), which left it 4 s ago (71 °C, 300 W of 450 W, fan at 66 %)
func coolingBeginsWords(who, how, ago, ends string) wording {
	return wording{
		name: "begins",
		clause: func(n naming) string {
			return n.it + " is starting to cool down after " + who + how + ago + n.brackets + ends
		},
		headline: coolingHeadline,
		advice:   quietByItself,
	}
}

// GPU 0 (RTX 4090) is cooling down (60 °C, 17 W of 450 W, fan at 30 %), probably from work before gpuwhy started watching
func coolingUnseenWords(ends string) wording {
	return wording{
		name: "before",
		clause: func(n naming) string {
			return n.it + " is cooling down" + n.brackets + ", probably from work before gpuwhy started watching" + ends
		},
		headline: func(h heading) (now, past string) {
			now, past = h.GPU()+" is cooling down from earlier work.", h.GPU()+" was cooling down from earlier work."
			if h.left != "" {
				now = "Cooling down, quiet in about " + h.left + "."
			}
			return now, past
		},
		advice: quietByItself,
	}
}

// Something keeps it awake.

func leftBehindHeadline(h heading) (now, past string) {
	return "Leftovers from ended processes keep " + h.gpu + " awake.", "Leftovers from ended processes kept " + h.gpu + " awake."
}

// leftovers from python (pid 4242, alice) keep GPU 0 (RTX 4090) awake (44 °C, …), 46 W above its idle draw
func leftBehindWords(who, more, uuid string) wording {
	return wording{
		name: caseLeftBehind,
		clause: func(n naming) string {
			return "leftovers from " + who + " keep " + n.it + " awake" + n.brackets + more
		},
		headline: leftBehindHeadline,
		advice:   "No running process holds them: reset the GPU (nvidia-smi --gpu-reset -i " + uuid + ", as root), or restart the machine.",
	}
}

// leftovers from python (pid 4242, alice) keep GPU 0 (RTX 4090) awake (44 °C, …), 46 W above its idle draw
func leftInUseWords(who, more string) wording {
	return wording{
		name: "left in use",
		clause: func(n naming) string {
			return "leftovers from " + who + " keep " + n.it + " awake" + n.brackets + more
		},
		headline: leftBehindHeadline,
		advice: "No running process holds them, but others use the GPU: restart the machine, or reset the GPU once no process and no display " +
			"uses it.",
	}
}

// leftovers from python (pid 4242, alice) keep GPU 0 (RX 7900 XT) awake (44 °C, …), 46 W above its idle draw
func leftForGoodWords(who, more string) wording {
	return wording{
		name: "left for good",
		clause: func(n naming) string {
			return "leftovers from " + who + " keep " + n.it + " awake" + n.brackets + more
		},
		headline: leftBehindHeadline,
		advice:   "No running process holds them: restart the machine.",
	}
}

// a process that gpuwhy can't see (pid 4242) along with 2 other processes keeps GPU 0 (RTX 4090) awake without using it (44 °C, …), 46 W …
func hiddenHolderWords(pid, others, more string) wording {
	return wording{
		name: "hidden holder",
		clause: func(n naming) string {
			return hiddenProcess(pid) + others + " keeps " + n.it + " awake without using it" + n.brackets + more
		},
		headline: func(h heading) (now, past string) {
			return "Something that gpuwhy can't see keeps " + h.gpu + " awake.", "Something that gpuwhy can't see kept " + h.gpu + " awake."
		},
		advice: "Look for it in other containers and virtual machines, or let gpuwhy see the host's processes (in a container: --pid=host). " +
			"If it has ended, restarting the machine frees the GPU.",
	}
}

// andClocksSet is added if a process holds a device whose clocks are also set by hand.
const andClocksSet = "; its clocks are also set by hand"

func endHolder(who string) string {
	return "End " + who + ", or make it release the GPU (notebook: shut down its kernel; model server: unload the model)."
}

// python (pid 4242, alice) along with 2 other processes keeps GPU 0 (RTX 4090) awake without using it (44 °C, …), 46 W above its idle draw
func holderWords(who, others, more string) wording {
	return wording{
		name: caseHolder,
		clause: func(n naming) string {
			return who + others + " keeps " + n.it + " awake without using it" + n.brackets + more
		},
		headline: func(h heading) (now, past string) {
			return h.Who() + h.verb(" keeps ", " keep ") + h.gpu + " awake without using it.", h.Who() + " kept " + h.gpu + " awake without using it."
		},
		advice: endHolder(who),
	}
}

// python (pid 4242, alice) along with 2 other processes keeps GPU 0 (RTX 4090) awake but barely uses it (44 °C, …), 46 W above its idle draw
func lightUserWords(who, others, more string) wording {
	return wording{
		name: caseLightUser,
		clause: func(n naming) string {
			return who + others + " keeps " + n.it + " awake but barely uses it" + n.brackets + more
		},
		headline: func(h heading) (now, past string) {
			return h.Who() + h.verb(" barely uses ", " barely use ") + h.gpu + h.verb(" but keeps", " but keep") + " it awake.", h.Who() + " barely used " + h.gpu + " but kept it awake."
		},
		advice: endHolder(who),
	}
}

// clocks set by hand keep GPU 0 (RTX 4090) awake without work (44 °C, …), 46 W above its idle draw
func clocksSetWords(more string) wording {
	return wording{
		name: "locked",
		clause: func(n naming) string {
			return "clocks set by hand keep " + n.it + " awake without work" + n.brackets + more
		},
		headline: func(h heading) (now, past string) {
			return "Clocks set by hand keep " + h.gpu + " awake.", "Clocks set by hand kept " + h.gpu + " awake."
		},
		advice: "Let the driver choose the clocks again: run nvidia-smi -rgc and -rac as root, or use the tool that set them.",
	}
}

// a display keeps GPU 0 (RTX 4090) awake (44 °C, 63 W of 450 W, fan off), 46 W above its idle draw
func displayWords(more string) wording {
	return wording{
		name:   "display",
		clause: func(n naming) string { return "a display keeps " + n.it + " awake" + n.brackets + more },
		headline: func(h heading) (now, past string) {
			return "A display keeps " + h.gpu + " awake.", "A display kept " + h.gpu + " awake."
		},
		advice: "Lower the display's refresh rate, or use one display fewer: some cards only go idle at 60 Hz or with a single display.",
	}
}

// monitoring (by gpuwhy or by another tool) keeps GPU 0 (RTX 4090) awake, because persistence mode is off (44 °C, …) …
func persistenceWords(more string) wording {
	return wording{
		name: casePersistence,
		clause: func(n naming) string {
			return "monitoring (by gpuwhy or by another tool) keeps " + n.it + " awake, because persistence mode is off" + n.brackets + more
		},
		headline: func(h heading) (now, past string) {
			return "Monitoring keeps " + h.gpu + " awake.", "Monitoring kept " + h.gpu + " awake."
		},
		advice: "Turn on persistence mode (nvidia-smi -pm 1, or the nvidia-persistenced service), or have gpuwhy read less often with a longer --interval.",
	}
}

// What to do if nothing listed keeps a device awake.
const (
	lookForContext = "Check with nvidia-smi whether a process holds a context that gpuwhy can't see, for example one in another container."
	lookForProgram = "Check whether a program that gpuwhy can't see has the GPU open, for example one of another user or container."
)

// GPU 0 (RTX 4090) is awake without work (44 °C, 63 W of 450 W, fan off), 46 W above its idle draw, and nothing listed explains it
func nothingHoldsWords(more, advice string) wording {
	return wording{
		name: "nothing",
		clause: func(n naming) string {
			return n.it + " is awake without work" + n.brackets + more + ", and nothing listed explains it"
		},
		headline: func(h heading) (now, past string) {
			return h.GPU() + " is awake, and nothing explains it.", h.GPU() + " was awake, and nothing explained it."
		},
		advice: advice,
	}
}

// Heat or power holds it back.

const (
	coolerAir = "Give it cooler air: clean filters and fans, leave space in front of the intakes, close empty slots. A lower power limit makes less heat."
	slowedBy  = "slowed by heat"
)

// GPU 0 (RTX 4090) is slowed by heat (71 °C, 24 °C below its hardware slowdown)
func heatDriverWords(temp string) wording {
	return wording{
		name:   "driver",
		clause: func(n naming) string { return n.it + " is slowed by heat" + temp },
		headline: func(h heading) (now, past string) {
			if h.who == "" {
				return "Heat slows " + h.gpu + " down.", "Heat slowed " + h.gpu + " down."
			}
			return h.Who() + h.verb(" heats ", " heat ") + h.gpu + " until it slows down.", h.Who() + " heated " + h.gpu + " until it slowed down."
		},
		advice: coolerAir,
		short:  slowedBy,
	}
}

// GPU 0 (RTX 4090) is slowed sharply because it is too hot (95 °C)
func heatHardwareWords(temp string) wording {
	return wording{
		name:   "hardware",
		clause: func(n naming) string { return n.it + " is slowed sharply because it is too hot" + temp },
		headline: func(h heading) (now, past string) {
			if h.who == "" {
				return "Heat slows " + h.gpu + " down sharply.", "Heat slowed " + h.gpu + " down sharply."
			}
			return h.Who() + h.verb(" heats ", " heat ") + h.gpu + " until it slows down sharply.",
				h.Who() + " heated " + h.gpu + " until it slowed down sharply."
		},
		advice: coolerAir,
		short:  slowedBy,
	}
}

// GPU 0 (RX 7900 XT) is slowed by its hot spot, which is at 110 °C (71 °C)
func heatHotSpotWords(spot, temp string) wording {
	return wording{
		name:   "hot spot",
		clause: func(n naming) string { return n.it + " is slowed by its hot spot, which is at " + spot + temp },
		headline: func(h heading) (now, past string) {
			if h.who == "" {
				return h.GPU() + " is slowed by its hot spot.", h.GPU() + " was slowed by its hot spot."
			}
			return h.Who() + h.verb(" heats", " heat") + " the hot spot of " + h.gpu + " until it slows down.",
				h.Who() + " heated the hot spot of " + h.gpu + " until it slowed down."
		},
		advice: "Give it cooler air: clean filters and fans, leave space in front of the intakes. A hot spot far above the rest of the chip points to " +
			"dried-out paste or a badly seated or failing cooler: have it checked while under warranty.",
		short: slowedBy,
	}
}

// GPU 0 (RTX 3090) is slowed by its memory, which is at 104 °C (71 °C)
func heatMemoryWords(memory, temp string) wording {
	return wording{
		name:   "memory",
		clause: func(n naming) string { return n.it + " is slowed by its memory, which is at " + memory + temp },
		headline: func(h heading) (now, past string) {
			if h.who == "" {
				return h.GPU() + " is slowed by its hot memory.", h.GPU() + " was slowed by its hot memory."
			}
			return h.Who() + h.verb(" heats", " heat") + " the memory of " + h.gpu + " until it slows down.",
				h.Who() + " heated the memory of " + h.gpu + " until it slowed down."
		},
		advice: coolerAir,
		short:  slowedBy,
	}
}

// GPU 0 (RTX 4090) is slowed by its own hardware, because of heat or the power supply
func powerHardwareWords() wording {
	return wording{
		name: "hardware",
		clause: func(n naming) string {
			return n.it + " is slowed by its own hardware, because of heat or the power supply"
		},
		headline: func(h heading) (now, past string) {
			return h.GPU() + "'s own hardware slows it down.", h.GPU() + "'s own hardware slowed it down."
		},
		advice: "Check the power cables and the temperature around the card.",
		short:  "slowed by its hardware",
	}
}

// GPU 0 (RTX 4090) is slowed because the power supply asks it to draw less
func powerBrakeWords() wording {
	return wording{
		name:   "brake",
		clause: func(n naming) string { return n.it + " is slowed because the power supply asks it to draw less" },
		headline: func(h heading) (now, past string) {
			return "The power supply slows " + h.gpu + " down.", "The power supply slowed " + h.gpu + " down."
		},
		advice: "Check the power supply and its cables; in a server, check its power budget too.",
		short:  "slowed by the power supply",
	}
}

// GPU 0 (RTX 4090) is held back by its power limit (450 W). most is the limit that it can be raised to: "600 W"; empty if unknown.
func powerLimitWords(limit, most string) wording {
	w := wording{
		name:   "limit",
		clause: func(n naming) string { return n.it + " is held back by its power limit" + limit },
		headline: func(h heading) (now, past string) {
			return h.GPU() + " is at its power limit.", h.GPU() + " was at its power limit."
		},
		advice: "This is normal at full load: the limit keeps heat and noise down.",
		short:  "at its power limit",
	}
	if most != "" {
		w.advice += " You can raise it to " + most + " for more speed, heat and noise."
	}
	return w
}

// It is hotter than before, or than its neighbors.

const hotterThanUsual = "hotter than usual"

// GPU 0 (RTX 4090) is hot for its power: 12 °C hotter than it used to be at 431 W, and 14 °C hotter than its neighbors
func hotterThanBeforeWords(degrees, power, thanNeighbors string) wording {
	also := ""
	if thanNeighbors != "" {
		also = ", and " + thanNeighbors + " hotter than its neighbors"
	}
	return wording{
		name: "than before",
		clause: func(n naming) string {
			return n.it + " is hot for its power: " + degrees + " hotter than it used to be at " + power + also
		},
		headline: func(h heading) (now, past string) {
			return h.GPU() + " runs hotter than it used to.", h.GPU() + " ran hotter than it used to."
		},
		advice: "Clean its fans and filters, and check whether something blocks the air in front of it or behind it.",
		short:  hotterThanUsual,
	}
}

// GPU 1 (RTX 4090) is warmed by GPU 0 (RTX 4090) beside it: 12 °C hotter than it used to be at 17 W
func warmedBesideWords(neighbor, degrees, power string) wording {
	return wording{
		name: "beside work",
		clause: func(n naming) string {
			return n.it + " is warmed by " + neighbor + " beside it: " + degrees + " hotter than it used to be at " + power
		},
		headline: func(h heading) (now, past string) {
			return h.GPU() + " is warmed by " + h.who + " beside it.", h.GPU() + " was warmed by " + h.who + " beside it."
		},
		advice: "Leave an empty slot between the cards, or give the upper one more air.",
		short:  hotterThanUsual,
	}
}

// GPU 0 (H100) is hot for its power: 14 °C hotter than its neighbors at 431 W
func hotterThanNeighborsWords(degrees, power string) wording {
	return wording{
		name: "than neighbors",
		clause: func(n naming) string {
			return n.it + " is hot for its power: " + degrees + " hotter than its neighbors at " + power
		},
		headline: func(h heading) (now, past string) {
			return h.GPU() + " runs hotter than its neighbors.", h.GPU() + " ran hotter than its neighbors."
		},
		advice: "Clean its fans and filters, and check whether something blocks the air in front of it or behind it. " +
			"Cards behind others get warmer air, so some difference is normal.",
		short: hotterThanUsual,
	}
}

// A fan turns without work.

// the fan of GPU 0 (RTX 3090) turns at 50 % because of the memory, which is at 90 °C
func fanForMemoryWords(speed, memory string) wording {
	return wording{
		name: "memory",
		clause: func(n naming) string {
			return n.fan + " turns at " + speed + " because of the memory, which is at " + memory
		},
		headline: func(h heading) (now, past string) {
			return h.Fans() + " is running because of hot memory.", h.Fans() + " was running because of hot memory."
		},
	}
}

// the fan of GPU 0 (RX 7900 XT) turns at 50 % because of the chip's hot spot, which is at 80 °C
func fanForHotSpotWords(speed, spot string) wording {
	return wording{
		name: "hot spot",
		clause: func(n naming) string {
			return n.fan + " turns at " + speed + " because of the chip's hot spot, which is at " + spot
		},
		headline: func(h heading) (now, past string) {
			return h.Fans() + " is running because of a hot spot.", h.Fans() + " was running because of a hot spot."
		},
	}
}

// What to do if no reading explains a fan: the first if the driver does not report everything that a fan may follow.
const (
	mayFollowUnshown = "It may follow the memory or a hot spot, which this driver does not report, or a curve that a tool has set: " +
		"look for a fan tool, and check whether the card's zero-RPM mode is on."
	mayFollowCurve = "It may follow a curve that a tool has set: look for a fan tool, and check whether the card's zero-RPM mode is on."
)

// the fan of GPU 0 (RTX 4090) turns at 50 % with no work running at 34 °C, and no reading explains it
func fanUnexplainedWords(speed, though, temp, advice string) wording {
	return wording{
		name: "unexplained",
		clause: func(n naming) string {
			return n.fan + " turns at " + speed + " " + though + temp + ", and no reading explains it"
		},
		headline: func(h heading) (now, past string) {
			return h.Fans() + " is fast, and no reading explains it.", h.Fans() + " was fast, and no reading explained it."
		},
		advice: advice,
	}
}

func runsOffHeatHeadline(h heading) (now, past string) {
	return h.Fans() + " is still winding down.", h.Fans() + " was still winding down."
}

// the fan of GPU 0 (RTX 4090) still turns at 50 % at 40 °C after python (pid 4242, alice): it slows down later than the GPU cools down
func fanLateWords(speed, temp string) wording {
	return wording{
		name: "late",
		clause: func(n naming) string {
			return n.fan + " still turns at " + speed + temp + ": it slows down later than the GPU cools down"
		},
		headline: runsOffHeatHeadline,
		advice:   "No action needed: it will slow down by itself.",
	}
}

// the fan of GPU 0 (RTX 4090) keeps starting and stopping at 50 °C: it started 4 times in four minutes
func fanOnAndOffWords(temp, times string) wording {
	return wording{
		name: "on and off",
		clause: func(n naming) string {
			return n.fan + " keeps starting and stopping" + temp + ": it started " + times + " in four minutes"
		},
		headline: func(h heading) (now, past string) {
			return h.Fans() + " keeps starting and stopping.", h.Fans() + " kept starting and stopping."
		},
		advice: "The GPU is right at the temperature where its fan starts and stops: cool it a little (more air, one display fewer), " +
			"or set a fan curve with a wider gap between the two.",
	}
}

// the fan of GPU 0 (RTX 4090) still turns at 30 % at 48 °C after python (pid 4242, alice): it only stops at 45 °C
func fanHeldWords(speed, temp, stops string) wording {
	return wording{
		name:     "held",
		clause:   func(n naming) string { return n.fan + " still turns at " + speed + temp + ": " + stops },
		headline: runsOffHeatHeadline,
		advice:   "No action needed: it stops by itself when the GPU is cool enough.",
	}
}

// the fan of GPU 0 (RTX 4090) turns at 30 %, about as slowly as it can at 34 °C
func fanFloorWords(speed, temp string) wording {
	return wording{
		name:   "floor",
		clause: func(n naming) string { return n.fan + " turns at " + speed + ", about as slowly as it can" + temp },
		headline: func(h heading) (now, past string) {
			return h.Fans() + " turns as slowly as it can.", h.Fans() + " turned as slowly as it could."
		},
		advice: "No action needed. Some cards can stop their fans when idle: look for a zero-RPM mode.",
	}
}

// There is no work.

// GPU 0 (RTX 4090) draws power without work (71 °C, 431 W of 450 W, fan at 66 %), and none of its readings explains it
func unexplainedWords() wording {
	return wording{
		name: "power",
		clause: func(n naming) string {
			return n.it + " draws power without work" + n.brackets + ", and none of its readings explains it"
		},
		headline: func(h heading) (now, past string) {
			return h.GPU() + " draws power, and nothing explains it.", h.GPU() + " drew power, and nothing explained it."
		},
		advice: "Check again in a few seconds: work that has just started or ended shows in the power draw first.",
	}
}

// GPU 0 (GT 1030) does not report how busy it is (34 °C)
func idleUnknownWords() wording {
	return wording{
		name:   "unknown",
		clause: func(n naming) string { return n.it + " does not report how busy it is" + n.brackets },
		headline: func(h heading) (now, past string) {
			return h.GPU() + " does not report how busy it is.", h.GPU() + " did not report how busy it was."
		},
	}
}

// GPU 0 (GT 1030) is cool and does not report how busy it is (34 °C)
func idleCoolWords() wording {
	return wording{
		name:     caseCool,
		clause:   func(n naming) string { return n.it + " is cool and does not report how busy it is" + n.brackets },
		headline: func(h heading) (now, past string) { return h.GPU() + " is cool.", h.GPU() + " was cool." },
	}
}

// GPU 0 (RTX 4090) is idle at 0 %, 34 °C, 17 W of 450 W, fan off
func idleWords(busy string) wording {
	return wording{
		name:     caseIdle,
		clause:   func(n naming) string { return n.it + " is idle" + busy + n.readings },
		headline: func(h heading) (now, past string) { return h.GPU() + " is idle.", h.GPU() + " was idle." },
	}
}

// gpuwhy has just started watching GPU 0 (RTX 4090) (34 °C, 17 W of 450 W, fan off) and can't tell yet how busy it is
func idleFirstWords() wording {
	return wording{
		name: "first",
		clause: func(n naming) string {
			return "gpuwhy has just started watching " + n.it + n.brackets + " and can't tell yet how busy it is"
		},
		headline: func(h heading) (now, past string) {
			return "Too early to tell how busy " + h.gpu + " is.", "Too early to tell how busy " + h.gpu + " was."
		},
	}
}

// GPU 0 (RTX 4090) has no work now (44 °C, 63 W of 450 W, fan off), and gpuwhy has not watched long enough to say more
func idleTooEarlyWords() wording {
	return wording{
		name: "too early",
		clause: func(n naming) string {
			return n.it + " has no work now" + n.brackets + ", and gpuwhy has not watched long enough to say more"
		},
		headline: func(h heading) (now, past string) {
			return h.GPU() + " has no work; too early to say more.", h.GPU() + " had no work; too early to say more."
		},
	}
}

const lookAtAir = "Check the air that reaches it: busy cards beside it, a crowded case, something in front of the intake."

// GPU 0 (RTX 4090) is idle at 0 %, 60 °C, 17 W of 450 W, fan off; it is getting warmer without work, and none of its readings explains it
func idleWarmsWords(busy string) wording {
	return wording{
		name: "stays warm", // in the same interval of the past
		clause: func(n naming) string {
			return n.it + " is idle" + busy + n.readings + "; it is getting warmer without work, and none of its readings explains it"
		},
		headline: func(h heading) (now, past string) {
			return h.GPU() + " is getting warmer, and nothing explains it.", h.GPU() + " was getting warmer, and nothing explained it."
		},
		advice: lookAtAir,
	}
}

// GPU 0 (RTX 4090) is warm without work (60 °C, 17 W of 450 W, fan off), and gpuwhy has not watched long enough to tell why
func idleCantTellWords() wording {
	return wording{
		name: "can't tell yet",
		clause: func(n naming) string {
			return n.it + " is warm without work" + n.brackets + ", and gpuwhy has not watched long enough to tell why"
		},
		headline: func(h heading) (now, past string) {
			return h.GPU() + " is warm; too early to tell why.", h.GPU() + " was warm; too early to tell why."
		},
	}
}

// GPU 0 (RTX 4090) is idle at 0 %, 60 °C, 17 W of 450 W, fan off; it stays warm without work, and none of its readings explains it
func idleStaysWarmWords(busy string) wording {
	return wording{
		name: "stays warm",
		clause: func(n naming) string {
			return n.it + " is idle" + busy + n.readings + "; it stays warm without work, and none of its readings explains it"
		},
		headline: func(h heading) (now, past string) {
			return h.GPU() + " stays warm, and nothing explains it.", h.GPU() + " stayed warm, and nothing explained it."
		},
		advice: lookAtAir,
	}
}

// It is reserved for a pod.

// GPU 0 (H100) is reserved by pod ml/train-0, which has had no process on it for 12 min. isReserved names the device and the pods.
func reservedWords(isReserved func(it string) string, nothing string) wording {
	return wording{
		name:   "one pod",
		clause: func(n naming) string { return isReserved(n.it) + ", which has " + nothing },
		advice: "If the pod does not need it, delete the pod: until then nobody else can use the GPU.",
		short:  "reserved by a pod",
	}
}

// GPU 0 (H100) is reserved by pods ml/train-0 and ml/eval, which have had no process on it for 12 min
func reservedBySeveralWords(areReserved func(it string) string, nothing string) wording {
	return wording{
		name:   "pods",
		clause: func(n naming) string { return areReserved(n.it) + ", which have " + nothing },
		advice: "If the pods do not need it, delete them: until then nobody else can use the GPU.",
		short:  "reserved by a pod",
	}
}

// It has no fan of its own.

// GPU 0 (H100) has no fan of its own: you hear the chassis fans
func noFanWords() wording {
	return wording{
		name:   "no fan",
		clause: func(n naming) string { return n.it + " has no fan of its own: you hear the chassis fans" },
		headline: func(h heading) (now, past string) {
			return h.GPU() + " has no fan of its own.", h.GPU() + " had no fan of its own."
		},
		advice: "The chassis fans follow its hottest part: the machine's management controller shows which sensors they follow.",
		short:  "the chassis fans cool it",
	}
}

// GPU 0 (Radeon 780M) is part of the processor and has no fan of its own: you hear the processor's fan
func processorFanWords() wording {
	return wording{
		name: "processor",
		clause: func(n naming) string {
			return n.it + " is part of the processor and has no fan of its own: you hear the processor's fan"
		},
		headline: func(h heading) (now, past string) {
			return h.GPU() + " is part of the processor and has no fan.", h.GPU() + " was part of the processor and had no fan."
		},
	}
}

// the driver does not report the fans that cool GPU 0 (RTX 4090 Laptop)
func fansNotShownWords() wording {
	return wording{
		name:   "not shown",
		clause: func(n naming) string { return "the driver does not report the fans that cool " + n.it },
	}
}

// Causes without a headline of their own.

// GPU 0 (RTX 4090) had a driver error, XID 31 (a program used a wrong memory address), and has faulty memory rows waiting …
func driverErrorWords(what, memory, advice string) wording {
	and := ""
	if memory != "" {
		and = ", and has " + memory
	}
	return wording{
		name:   "now",
		clause: func(n naming) string { return n.it + " had a driver error, " + what + and },
		advice: advice,
		short:  "a recent driver error",
	}
}

// GPU 0 (A100) has faulty memory rows waiting to be replaced
func brokenMemoryWords(what, advice string) wording {
	return wording{
		name:   "memory",
		clause: func(n naming) string { return n.it + " has " + what },
		advice: advice,
		short:  "faulty memory to be replaced",
	}
}

const sensorMayBeBroken = "If this persists, restart the machine or update the driver; a sensor may be broken."

// GPU 0 (RTX 4090) reports impossible values, ignored here: temperature (511 °C)
func leftOutWords(wrong string) wording {
	return wording{
		name: "left out",
		clause: func(n naming) string {
			return n.it + " reports impossible values, ignored here: " + wrong
		},
		advice: sensorMayBeBroken,
	}
}

// GPU 0 (RTX 4090) reports values that are probably wrong, and no cause here relies on them: power draw (3 W)
func probablyWrongWords(perhaps string) wording {
	return wording{
		name: "probably wrong",
		clause: func(n naming) string {
			return n.it + " reports values that are probably wrong, and no cause here relies on them: " + perhaps
		},
		advice: sensorMayBeBroken,
	}
}

// GPU 0 (RTX 4090) reports impossible values, ignored here: temperature (511 °C); and values that are probably wrong: power draw (3 W)
func wrongAndPerhapsWords(wrong, perhaps string) wording {
	return wording{
		name: "both",
		clause: func(n naming) string {
			return n.it + " reports impossible values, ignored here: " + wrong + "; and values that are probably wrong: " + perhaps
		},
		advice: sensorMayBeBroken,
	}
}

// not known about GPU 0 (RTX 4090): how hot it is (not offered by this product or driver)
func missingWords(missing, advice string) wording {
	return wording{
		name:   "missing",
		clause: func(n naming) string { return "not known about " + n.it + ": " + missing },
		advice: advice,
	}
}

// Parts of the sentences above.

// How somebody works, after "busy" or "keeps GPU 0 busy": " in bursts (40 % of the time)", "again for 37 s, 24 min in all".
const (
	inBursts     = " in bursts"
	withUnlisted = ", together with unlisted work"
)

func partOfTime(share string) string   { return " (" + share + " of the time)" }
func withVideo(share string) string    { return " with video at " + share }
func atAbout(share string) string      { return " at about " + share }
func againFor(now, all string) string  { return "again for " + now + ", " + all + " in all" }
func butForAMoment(busy string) string { return " except for a moment at " + busy }
func butForALittle(busy string) string {
	return " except for light work that makes no heat (" + busy + " busy)"
}

// Who works: "python (pid 4242, alice) together with blender (pid 77, bob) and 2 other processes".
func moreLikeIt(n int) string            { return " with " + Plural(n, "more like it", "more like it") }
func togetherWith(partner string) string { return " together with " + partner }
func andOthers(n int) string             { return " and " + Plural(n, "other process", "other processes") }
func withOthers(n int) string            { return " along with " + Plural(n, "other process", "other processes") }
func manyNames(first string) string      { return first + " and others" }
func othersWork(n int) string {
	return Plural(n, "other process uses", "other processes use") + " it"
}
func othersAtWork(n int) string { return Plural(n, "other GPU is", "other GPUs are") + " busy" }
func alsoOthers(n int, are string) string {
	return ", and " + Plural(n, "other is ", "others are ") + are
}
func hiddenProcess(pid string) string { return "a process that gpuwhy can't see (pid " + pid + ")" }

const (
	unseenWork    = "unseen work"
	encodingVideo = "encoding video"
	decodingVideo = "decoding video"
	anyVideo      = "encoding or decoding video"
)

// Why no process can be named.
const (
	noneListedExplains = "none of the listed processes explains it"
	noneIsListed       = "no listed process explains it"
	noneSeenExplains   = "no process that gpuwhy is allowed to see explains it"
	driverDoesNotSay   = "the driver does not say which process it is"
)

// What the processes of a device with a stuck counter do.
const (
	nothingRuns    = "nothing is running on it"
	noneSeenAtWork = "no process on it is seen working"
	oneDoesNothing = "the only process on it does nothing"
)

func noneDoesAnything(n int) string {
	return "none of the " + strconv.Itoa(n) + " processes on it does anything"
}

// How work ended, between the process and the time: "python (pid 4242, alice), which left it 40 s ago".
const (
	leftIt         = ", which left it "
	thatStopped    = " that stopped "
	stoppedWorking = ", which stopped working "
	earlierText    = "earlier"
	justNow        = "just now"
	unlistedHolder = "something unlisted" // "cooling down after something unlisted kept it awake"
)

func slowedDownTo(share string) string { return ", which slowed down to " + share + " of the GPU " }
func agoText(span string) string       { return span + " ago" }
func quietIn(span string) string       { return ", and should be quiet in about " + span }

// The same in the line below a headline, before "40 s ago".
const (
	letGo      = "let go"
	slowedDown = "slowed down"
	stopped    = "stopped"
)

// What shows that a device is awake, after "keeps GPU 0 awake".
const clocksUp = ": its clocks are up"

func aboveIdle(watts string) string { return ", " + watts + " above its idle draw" }

// "(71 °C, 24 °C below its hardware slowdown)"
func belowSlowdown(degrees string) string {
	return degrees + " below its hardware slowdown"
}

// Why a fan turns without work.
const (
	thoughNothingWorks = "with no work running"
	thoughCool         = "while the GPU is cool"
	stopsLower         = "it stops at a lower temperature than it starts at"
)

func stopsOnlyAt(temp string) string { return "it only stops at " + temp }

// "GPU 0 is reserved by pod ml/train-0, which has no process on it"
const noProcessOnIt = "no process on it"

func noProcessFor(span string) string { return "had no process on it for " + span }

// What is unknown about a device, and what would show it.
const (
	whichProcesses = "which processes use it"
	howBusy        = "how busy it is"
	howBusyMIG     = "how busy it is, which the driver does not report for a GPU split into MIG instances"
	howHot         = "how hot it is"
	whatItDraws    = "how much power it draws"
	runWithRights  = "run gpuwhy as root, or with the rights that the driver requires"
	viewOfHost     = "let gpuwhy see the host's processes (in a container: --pid=host)"
)

func whoRuns(n int) string {
	return "what " + Plural(n, "unnamed process is", "unnamed processes are")
}
func notOffered(what string) string         { return what + " (not offered by this product or driver)" }
func notPermitted(what string) string       { return what + " (not permitted)" }
func memoryInUse(used, total string) string { return used + " of " + total + " GiB of memory in use" }

// What makes a busy device quieter: "End or pause python (pid 4242, alice). Or keep it running a little slower …".
func endOrPause(what string) string { return "End or pause " + what }
func orLessPower(uuid, watts string) string {
	return "Or keep it running a little slower, with less heat and noise: nvidia-smi -i " + uuid + " -pl " + watts + ", as root."
}

// The same as a list of actions, each with its command.
const (
	letItRest = "Let it go idle"
	resetIt   = "Reset it"
	pauseIt   = "Pause"
	endIt     = "End"
	seeWhy    = "See why"
)

func capAt(watts string) string   { return "Cap at " + watts }
func orCapAt(watts string) string { return "Or cap its power at " + watts + "." } // without a command

// Causes about the whole machine, not about a single device.

// A machineWording is what such a cause says.
type machineWording struct {
	name           string // the case on the wire
	clause         string // the cause, without a full stop
	headline, past string // the same in at most ten words, in the present and in the past; empty if the cause never comes first
	advice, short  string // as in a wording
}

// The first reading is still under way
func startingWords() machineWording {
	return machineWording{clause: "The first reading is still under way"}
}

// No machine that you may see is known here now
func noMachineWords() machineWording {
	return machineWording{
		clause: NoMachineSeen,
		advice: AskWhichMachines,
	}
}

// What somebody is told who may see none of the machines, and whom to ask. Neither names one.
const (
	NoMachineSeen    = "No machine that you may see is known here now"
	AskWhichMachines = "ask the person who runs gpuwhy which machines your account or token is for; a machine that is away appears when it is back"
)

const noGPU = "No GPU can be read"

func noGPUHeadline() (now, past string) { return noGPU + " here.", "No GPU could be read here." }

// No GPU can be read
func noGPUWords() machineWording { return machineWording{clause: noGPU} }

// No GPU can be read: NVIDIA's library was not found
func noGPUForWords(reason, advice string) machineWording {
	return machineWording{clause: noGPU + ": " + reason, advice: advice}
}

// No GPU can be read: this machine has no GPU that gpuwhy supports, or none is visible here
func noCardWords() machineWording {
	return machineWording{
		clause: noGPU + ": this machine has no GPU that gpuwhy supports, or none is visible here",
		advice: "no action needed if it has none; otherwise check that the card is seated and powered, and passed through to this virtual machine or container",
	}
}

// amdgpu can't be read: /sys can't be read
func sourceFailedWords(source, what, advice string) machineWording {
	return machineWording{clause: source + " can't be read: " + what, advice: advice}
}

// It is not the GPU's fan: the CPU fan turns at 3100 RPM, with the CPU at 91 °C. who is what keeps the CPU busy, or how to see it.
func otherFanWords(fan, speed, who string) machineWording {
	return machineWording{
		clause:   "It is not the GPU's fan: the " + fan + " turns at " + speed,
		headline: "It is not the GPU's fan but the " + fan + ".",
		past:     "It was not the GPU's fan but the " + fan + ".",
		advice:   "Check what keeps the CPU busy (" + who + "), and check the case fans and their curve in the firmware settings.",
	}
}

// The CPU fan is loud too, at 3100 RPM, with the CPU at 91 °C
func loudFanBesideWords(fan, speed, who string) machineWording {
	w := otherFanWords(fan, speed, who)
	w.clause, w.headline, w.past = "The "+fan+" is loud too, at "+speed, "", ""
	return w
}

// 6 of 8 GPUs run hotter than before at the same power, by 7 °C on average: the air that reaches them is probably warmer
func warmAirWords(hotter, known, degrees string) machineWording {
	return machineWording{
		clause: hotter + " of " + known + " GPUs run hotter than before at the same power, by " + degrees + " on average: " +
			"the air that reaches them is probably warmer",
		headline: "The GPUs run warmer than usual.",
		past:     "The GPUs ran warmer than usual.",
		advice:   "Check the room's cooling, and the chassis fans and filters.",
	}
}

// Why the fans of a machine without a GPU run. readings is such as " (84 °C, 120 W, the CPU fan at 2100 RPM)".

// The CPU fan is not turning, though it has turned before and the CPU is at 91 °C
func cpuFanStillWords(temp string) machineWording {
	return machineWording{
		name:     caseStill,
		clause:   "The CPU fan is not turning, though it has turned before and the CPU is at " + temp,
		headline: "The CPU fan is not turning, and the CPU is hot.",
		past:     "The CPU fan was not turning, and the CPU was hot.",
		advice:   "Check whether something blocks it or its cable is loose; shut the machine down if the temperature rises.",
	}
}

// The CPU has been slowed by heat (99 °C, the CPU fan at 3100 RPM). who is the process that heats it; empty if unknown.
func cpuHeatWords(who, readings string) machineWording {
	w := machineWording{
		clause:   "The CPU has been slowed by heat" + readings,
		headline: "Heat slows the CPU down.",
		past:     "Heat slowed the CPU down.",
		advice:   "Clean its cooler and filters, and check that the cooler is seated well. Running less at once makes less heat.",
		short:    slowedBy,
	}
	if who != "" {
		w.headline, w.past = who+" heats the CPU until it slows down.", who+" heated the CPU until it slowed down."
	}
	return w
}

// Something has kept the CPU busy at 80 % for 12 min (84 °C), and no process that gpuwhy sees accounts for much of it
func somethingWorksWords(a manner, readings string) machineWording {
	return machineWording{
		name:     "nobody",
		clause:   "Something " + a.keeps("keeps", "has kept", "the CPU") + readings + ", and no process that gpuwhy sees accounts for much of it",
		headline: "Something keeps the CPU busy.",
		past:     "Something kept the CPU busy.",
		advice:   "Look for it with top, as root.",
	}
}

// Many processes have kept the CPU busy at 80 % for 12 min (84 °C); the busiest is cc1 (16 processes, ann)
func manyWorkWords(a manner, readings, first string) machineWording {
	return machineWording{
		name:     "many",
		clause:   "Many processes " + a.keeps("keep", "have kept", "the CPU") + readings + "; the busiest is " + first,
		headline: "Many processes keep the CPU busy.",
		past:     "Many processes kept the CPU busy.",
		advice:   "Look for it with top, as root.",
	}
}

// cc1 (16 processes, ann) has kept the CPU busy at 80 % for 12 min (84 °C). who is "cc1 (ann)".
func processWorksWords(who, process string, a manner, readings string, fansRun, mayEnd bool) machineWording {
	w := machineWording{
		name:     "process",
		clause:   process + " " + a.keeps("keeps", "has kept", "the CPU") + readings,
		headline: who + " keeps the CPU busy.",
		past:     who + " kept the CPU busy.",
		advice:   "End or pause " + process + ".",
	}
	if fansRun {
		w.headline, w.past = who+" keeps the CPU busy, so the fans are running.", who+" kept the CPU busy, so the fans were running."
	}
	if !mayEnd {
		w.advice = "Check what it is doing, but don't end it."
	}
	return w
}

// The CPU is cooling down after cc1 (16 processes, ann), which stopped 20 s ago (60 °C)
func cpuCoolingWords(who, process, ago string) machineWording {
	return machineWording{
		clause:   "The CPU is cooling down after " + process + ", which stopped " + ago,
		headline: "The CPU is cooling down after " + who + ".",
		past:     "The CPU was cooling down after " + who + ".",
		advice:   quietByItself,
	}
}

// The chipset is hot, at 95 °C; fans may follow it
func hotSensorWords(name, temp string, fansRun bool) machineWording {
	w := machineWording{
		name:     name,
		clause:   "The " + name + " is hot, at " + temp + "; fans may follow it",
		headline: "The " + name + " is hot.",
		past:     "The " + name + " was hot.",
		advice:   "Check the air that reaches it: a fan that is not turning, a crowded case, dust.",
		short:    name + " " + temp,
	}
	if fansRun {
		w.headline, w.past = "The "+name+" is hot, so the fans are running.", "The "+name+" was hot, so the fans were running."
	}
	return w
}

// The CPU fan turns at 3100 RPM, with the CPU at 80 °C and hardly any work
func fanForHotCPUWords(fan, speed, temp string) machineWording {
	return machineWording{
		name:     "hot",
		clause:   "The " + fan + " turns at " + speed + ", with the CPU at " + temp + " and hardly any work",
		headline: "The CPU is hot without work, so the fans are running.",
		past:     "The CPU was hot without work, so the fans were running.",
		advice:   "Check that its cooler is seated well, and look for dust.",
	}
}

// The case fan turns at 3100 RPM, and neither the CPU's work nor a temperature can be read
func fanUntoldWords(fan, speed string) machineWording {
	return machineWording{
		name:     "untold",
		clause:   "The " + fan + " turns at " + speed + ", and neither the CPU's work nor a temperature can be read",
		headline: "The " + fan + " is fast for an unknown reason.",
		past:     "The " + fan + " was fast for an unknown reason.",
		advice:   "Give gpuwhy access to the machine's /proc and /sys.",
	}
}

// The case fan turns at 3100 RPM, and neither work nor a reported temperature explains it
func fanForNothingWords(fan, speed string) machineWording {
	return machineWording{
		name:     "nothing",
		clause:   "The " + fan + " turns at " + speed + ", and neither work nor a reported temperature explains it",
		headline: "The " + fan + " is fast, and nothing here explains it.",
		past:     "The " + fan + " was fast, and nothing here explained it.",
		advice:   "Check its curve in the firmware settings. In servers the management controller (BMC) sets the fans, often fast even when idle.",
	}
}

// No fan can be read here: the system has no fan sensor
func noFanShownWords(what, advice string) machineWording {
	return machineWording{
		clause:   "No fan can be read here: " + what,
		headline: "No fan can be read here.",
		past:     "No fan could be read here.",
		advice:   advice,
		short:    "no fan can be read here",
	}
}

// No fan can be read here: none of its fan sensors answers
func fanSensorsSilentWords() machineWording {
	return noFanShownWords("none of its fan sensors answers", "look for the sensor drivers in the kernel log (dmesg)")
}

// The machine is doing little work, with its CPU at 2 % (40 °C)
func restSlowFansWords(how string) machineWording {
	return machineWording{
		name:     "slow",
		clause:   "The machine is doing little work" + how,
		headline: "The machine is idle, and its fans turn slowly.",
		past:     "The machine was idle, and its fans turned slowly.",
	}
}

// The machine is doing little work, with its CPU at 2 % (40 °C)
func restFansOffWords(how string) machineWording {
	return machineWording{
		name:     "off",
		clause:   "The machine is doing little work" + how,
		headline: "The machine is idle, and its fans are off.",
		past:     "The machine was idle, and its fans were off.",
	}
}

// The machine is doing little work, with its CPU at 2 % (40 °C)
func restNoFanWords(how string) machineWording {
	return machineWording{name: "no fan", clause: "The machine is doing little work" + how}
}

// The readings so far don't show what the CPU is doing (40 °C)
func restTooEarlyWords(readings string) machineWording {
	return machineWording{
		name:     "too early",
		clause:   "The readings so far don't show what the CPU is doing" + readings,
		headline: "Too early to tell why the fans are running.",
		past:     "Too early to tell why the fans were running.",
	}
}

// Several idle devices of one machine.

func fansRestHeadline() (now, past string) {
	return "No work is running, and the fans are quiet.", "No work was running, and the fans were quiet."
}

func nothingWorksHeadline() (now, past string) {
	return "No work is running on the GPUs.", "No work was running on the GPUs."
}

func fansOffHeadline() (now, past string) { return "Your fans are off.", "Your fans were off." }

// Several machines.

// The verbs of such a headline, in the present and in the past.
type verbs struct{ is, are string }

var isNow, wasThen = verbs{"is", "are"}, verbs{"was", "were"}

// word describes a node with that standing in a few words.
func (s Standing) word() string {
	switch s {
	case Resting:
		return "quiet"
	case Cooling:
		return "cooling down"
	case Busy:
		return "busy"
	case Unread:
		return "without a readable GPU"
	case Silent:
		return "silent"
	case Loud:
		return "loud"
	default:
		return "broken"
	}
}

// are says how many nodes have a standing: "1 is silent".
func (t *Tally) are(v verbs, s Standing) string {
	if t[s] == 1 {
		return "1 " + v.is + " " + s.word()
	}
	return strconv.Itoa(t[s]) + " " + v.are + " " + s.word()
}

// 2 of 40 machines are broken
func fleetHeadline(v verbs, count, nodes int, s Standing) string {
	switch count {
	case nodes:
		return "All " + strconv.Itoa(nodes) + " machines " + v.are + " " + s.word()
	case 1:
		return "1 of " + strconv.Itoa(nodes) + " machines " + v.is + " " + s.word()
	default:
		return strconv.Itoa(count) + " of " + strconv.Itoa(nodes) + " machines " + v.are + " " + s.word()
	}
}

// "; the worst is n1: the GPU is lost", after the number of broken or loud machines. what may be empty.
func fleetWorst(v verbs, count int, node, what string) string {
	text := "; the worst " + v.is + " " + node
	if count == 1 {
		text = ", " + node
	}
	if what != "" {
		text += ": " + what
	}
	return text
}

// "; the others are quiet", after the number of machines that are silent, or have no GPU that can be read
func fleetOthers(v verbs, busy bool) string {
	if busy {
		return "; none of the others " + v.is + " loud"
	}
	return "; the others " + v.are + " quiet"
}

// ", and none is loud", after the number of machines that are busy or cooling down
func fleetNone(v verbs, s Standing) string {
	if s == Busy {
		return ", and none " + v.is + " loud"
	}
	return ", and none " + v.is + " busy"
}

func silentNodes(n int) string { return Plural(n, "machine is silent", "machines are silent") }

// What is said of a node that has stopped reporting: "when it last reported, train.py was heating GPU 6".
const nothingComes = "this machine is not reporting"

func lastHeard(was string) string { return "when it last reported, " + was }

// Parts of sentences about the machine: ", with the CPU at 91 °C".
const (
	someWork      = "work"
	someEndedWork = "work that has ended"
)

func withCPUAt(temp string) string    { return ", with the CPU at " + temp }
func withItsCPUAt(busy string) string { return ", with its CPU at " + busy }
