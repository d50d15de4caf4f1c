package explain

import (
	"strconv"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// This file has the sentences of causes, kind by kind in the order of an answer: edit them here. A function is one case of a kind;
// its comment has the clause as people read it. testdata/words.golden.txt has all of them with example values, and is written
// by "go test ./internal/insight/explain -run TestWords -update".

// A wording is what one case of a cause says.
type wording struct {
	name string // the case on the wire: it stays where the words change
	// clause is what is so, without a full stop: a sentence is made of one or several.
	clause func(naming) string
	// headline is the same in at most ten words, also as what was so, for readings that are old; nil where the kind never comes first.
	headline func(heading) (now, past string)
	advice   string // sentences; empty where there is nothing to do
	short    string // two or three words for the line below another headline; empty where it is not worth them
}

// A naming is how a clause calls what it is about.
type naming struct {
	it       string // "GPU 0 (RTX 4090)"; "it" where an earlier clause has named the device
	fan      string // "fan 2 of GPU 0 (RTX 4090)", "its fan 2"
	readings string // ", 71 °C, 431 W of 450 W, fan at 66 %"; empty where the device is "it"
	brackets string // the same in brackets: " (71 °C, 431 W of 450 W, fan at 66 %)"
}

// A heading is how a headline calls what it is about. Where it begins with one of them, [heading.GPU], [heading.Fans] and
// [heading.Who] have the capital letter.
type heading struct {
	gpu     string // "GPU 6", or "the GPU" of a machine that has no other
	fans    string // "GPU 6's fan", "your fan", "fan 2 of GPU 6"
	who     string // those who work or worked: "train.py (ann)", "train.py (ann) and others"; empty where nobody is known
	several bool   // they are more than one
	left    string // the time until it is quiet: "4 min"; empty where that is not known
}

// verb is what those do who work, one of them or several: "heats", "heat".
func (h *heading) verb(one, many string) string {
	if h.several {
		return many
	}
	return one
}

// Unasked is the case of [FanFailing] in which the fan turns.
const Unasked = "unasked"

// The cases that rules ask for.
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

// The fan of a machine's only GPU is off: nothing else is worth a headline.

func fanOffHeadline() (now, past string) { return "Your fan is off.", "Your fan was off." }

func fanOffAtWorkHeadline(h heading) (now, past string) {
	return "Your fan is off, though " + h.who + h.verb(" works", " work") + " on it.", "Your fan was off, though " + h.who + " worked on it."
}

func fanOffCoolingHeadline() (now, past string) {
	return "Your fan is off; the GPU still cools down.", "Your fan was off; the GPU still cooled down."
}

// Somebody works with video: "encoding video".
func videoHeadline(h heading, does string, fanRuns bool) (now, past string) {
	now, past = h.Who()+h.verb(" is ", " are ")+does, h.Who()+h.verb(" was ", " were ")+does
	if fanRuns {
		return now + ", so the fan runs.", past + ", so the fan ran."
	}
	return now + " on " + h.gpu + ".", past + " on " + h.gpu + "."
}

// Something is lost, or can't be read.

// GPU 0 (RTX 4090) is lost: the driver no longer finds it, after XID 79 (the GPU has fallen off the bus)
func lostWords(logs, after string) wording {
	return wording{
		name:     "state",
		clause:   func(n naming) string { return n.it + " is lost: the driver no longer finds it" + after },
		headline: func(h heading) (now, past string) { return h.GPU() + " is lost.", h.GPU() + " was lost." },
		advice:   "Look for " + logs + " in the kernel log, check its power cables and seating, and restart the machine.",
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
			return h.GPU() + " does not answer.", h.GPU() + " did not answer."
		},
		advice: "Look for " + logs + " in the kernel log; a restart of the machine may be needed.",
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

// GPU 0 (RTX 4090) has no readings now: it is left alone to fall asleep
func noReadingsWords(reason, advice string) wording {
	return wording{
		name:   "now",
		clause: func(n naming) string { return n.it + " has no readings now" + reason },
		headline: func(h heading) (now, past string) {
			return h.GPU() + " has no readings now.", h.GPU() + " had no readings now."
		},
		advice: advice,
	}
}

const offersLittle = "Nothing needs to be done: a part of a GPU in a virtual machine, or a GPU that is part of a processor, is often read so. " +
	"The machine that it belongs to may show more."

// the driver offers no readings of GPU 0 (A100) but its memory (1.2 of 24.0 GiB of memory in use): neither temperature …
func onlyMemoryWords(used string) wording {
	return wording{
		name: caseMemoryAlone,
		clause: func(n naming) string {
			return "the driver offers no readings of " + n.it + " but its memory (" + used + "): neither temperature nor power, work or fan can be told here"
		},
		headline: func(h heading) (now, past string) {
			return "The driver offers only memory readings of " + h.gpu + ".", "The driver offers only memory readings of " + h.gpu + "."
		},
		advice: offersLittle,
	}
}

// the driver offers no temperature, power, utilization or fan speed of GPU 0 (A100)
func noneOfferedWords() wording {
	return wording{
		name: "none offered",
		clause: func(n naming) string {
			return "the driver offers no temperature, power, utilization or fan speed of " + n.it
		},
		headline: func(h heading) (now, past string) {
			return "The driver offers no readings of " + h.gpu + ".", "The driver offers no readings of " + h.gpu + "."
		},
		advice: offersLittle,
	}
}

// The driver asks for a repair, and gpu has the advice.

const asksForRepair = "its driver asks for a repair"

// GPU 0 (RTX 4090) needs a reset, its driver says (34 °C, 17 W of 450 W, fan off)
func needsResetWords() wording {
	return wording{
		name:   string(gpu.FaultNeedsReset),
		clause: func(n naming) string { return n.it + " needs a reset, its driver says" + n.brackets },
		headline: func(h heading) (now, past string) {
			return h.GPU() + " needs a reset, its driver says.", h.GPU() + " needed a reset, its driver said."
		},
		short: asksForRepair,
	}
}

// the machine needs a restart for GPU 0 (RTX 4090), the driver says (34 °C, 17 W of 450 W, fan off)
func needsRestartWords() wording {
	return wording{
		name: string(gpu.FaultNeedsRestart),
		clause: func(n naming) string {
			return "the machine needs a restart for " + n.it + ", the driver says" + n.brackets
		},
		headline: func(h heading) (now, past string) {
			return "The machine needs a restart for " + h.gpu + ".", "The machine needed a restart for " + h.gpu + "."
		},
		short: asksForRepair,
	}
}

// the driver asks to end the work that GPU 0 (RTX 4090) shares with other GPUs (34 °C, 17 W of 450 W, fan off)
func needsDrainWords() wording {
	return wording{
		name: string(gpu.FaultNeedsDrain),
		clause: func(n naming) string {
			return "the driver asks to end the work that " + n.it + " shares with other GPUs" + n.brackets
		},
		headline: func(h heading) (now, past string) {
			return "The driver asks to end the work that " + h.gpu + " shares with other GPUs.",
				"The driver asks to end the work that " + h.gpu + " shares with other GPUs."
		},
		short: asksForRepair,
	}
}

// GPU 0 (RTX 4090) needs a reset once its work is done, its driver says (34 °C, 17 W of 450 W, fan off)
func needsLaterResetWords() wording {
	return wording{
		name: string(gpu.FaultNeedsLaterReset),
		clause: func(n naming) string {
			return n.it + " needs a reset once its work is done, its driver says" + n.brackets
		},
		headline: func(h heading) (now, past string) {
			return h.GPU() + " needs a reset once its work is done.", h.GPU() + " needed a reset once its work was done."
		},
		short: asksForRepair,
	}
}

// GPU 0 (RTX 4090) needs somebody to act, its driver says (34 °C, 17 W of 450 W, fan off)
func needsActionWords() wording {
	return wording{
		name:   string(gpu.FaultNeedsAction),
		clause: func(n naming) string { return n.it + " needs somebody to act, its driver says" + n.brackets },
		headline: func(h heading) (now, past string) {
			return h.GPU() + " needs somebody to act, its driver says.", h.GPU() + " needed somebody to act, its driver said."
		},
		short: asksForRepair,
	}
}

// The busy counter.

// GPU 0 (RTX 4090) says that it is busy at 100 %, but its counter looks stuck: nothing runs on it (34 °C, 17 W of 450 W, fan off)
func stuckCounterWords(busy, idleness string) wording {
	return wording{
		name: "stuck",
		clause: func(n naming) string {
			return n.it + " says that it is busy at " + busy + ", but its counter looks stuck: " + idleness + n.brackets
		},
		headline: func(h heading) (now, past string) {
			return h.GPU() + "'s busy counter looks stuck.", h.GPU() + "'s busy counter looked stuck."
		},
		advice: "Nothing needs to be done for the fan. The counter is right again after the GPU is reset or the machine is restarted; " +
			"until then go by power and temperature.",
	}
}

// The temperature sensor.

const reloadDriver = "Go by power and fan until the driver is loaded again; an update of the driver may mend it."

// GPU 0 (RTX 4090) has reported 71 °C for minutes, though it draws no more than at rest, where it was at 34 °C: its temperature …
func frozenAtRestWords(temp, rest string) wording {
	return wording{
		name: "at rest",
		clause: func(n naming) string {
			return n.it + " has reported " + temp + " for minutes, though it draws no more than at rest, where it was at " + rest +
				": its temperature sensor looks stuck"
		},
		headline: frozenHeadline,
		advice:   reloadDriver,
	}
}

// GPU 0 (RTX 4090) has reported 71 °C all the time while its power changed by 231 W: its temperature sensor looks stuck
func frozenWords(temp, swing string) wording {
	return wording{
		name: "temperature",
		clause: func(n naming) string {
			return n.it + " has reported " + temp + " all the time while its power changed by " + swing + ": its temperature sensor looks stuck"
		},
		headline: frozenHeadline,
		advice:   reloadDriver,
	}
}

func frozenHeadline(h heading) (now, past string) {
	return h.GPU() + "'s temperature sensor looks stuck.", h.GPU() + "'s temperature sensor looked stuck."
}

// Fans that fail, or that somebody has set.

// fan 2 of GPU 0 (RTX 4090) stands still, though it is told to turn at 66 %
func fanStillWords(told string) wording {
	return wording{
		name:     caseStill,
		clause:   func(n naming) string { return n.fan + " stands still, though it is told to turn at " + told },
		headline: func(h heading) (now, past string) { return h.Fans() + " stands still.", h.Fans() + " stood still." },
		advice: "Look whether something blocks it or its cable is loose, and watch the temperature: without this fan the GPU may have to slow down. " +
			"If it does not turn again, have the fan replaced.",
	}
}

// fan 2 of GPU 0 (RTX 4090) turns at 900 RPM, where 2100 RPM are usual at 66 %
func fanSlowWords(speed, usual, told string) wording {
	return wording{
		name: "slow",
		clause: func(n naming) string {
			return n.fan + " turns at " + speed + ", where " + usual + " are usual at " + told
		},
		headline: func(h heading) (now, past string) {
			return h.Fans() + " turns slower than it should.", h.Fans() + " turned slower than it should."
		},
		advice: "Clean it and look whether something rubs or blocks it: a worn bearing slows a fan down before it stops.",
	}
}

// the fan of GPU 0 (RTX 4090) is off at 84 °C, where it should turn
func fanOffWords(temp string) wording {
	return wording{
		name:   "off",
		clause: func(n naming) string { return n.fan + " is off at " + temp + ", where it should turn" },
		headline: func(h heading) (now, past string) {
			return h.Fans() + " is off though " + h.gpu + " is hot.", h.Fans() + " was off though " + h.gpu + " was hot."
		},
		advice: "End the work, and look whether the fan's cable is loose or a tool or a quiet switch keeps the fan off. " +
			"Without a fan the GPU will slow down or shut down.",
	}
}

// fan 2 of GPU 0 (RTX 4090) turns at 2600 RPM, though the driver asks for 0 %
func fanUnaskedWords(speed string) wording {
	return wording{
		name:   Unasked,
		clause: func(n naming) string { return n.fan + " turns at " + speed + ", though the driver asks for 0 %" },
		headline: func(h heading) (now, past string) {
			return h.Fans() + " turns though the driver says off.", h.Fans() + " turned though the driver said off."
		},
		advice: "Another program or the card's own firmware drives it: look for a fan tool, or for the card's quiet switch.",
	}
}

// the fan of GPU 0 (RTX 4090) can't be read: the driver reports an error. gpu has the advice.
func fanUnreadableWords() wording {
	return wording{
		name:   string(gpu.FaultFanUnreadable),
		clause: func(n naming) string { return n.fan + " can't be read: the driver reports an error" },
		headline: func(h heading) (now, past string) {
			return h.Fans() + " can't be read: the driver reports an error.", h.Fans() + " can't be read: the driver reported an error."
		},
		short: "its fan can't be read",
	}
}

const (
	giveFanBack       = "Give the fan back to the driver: end the fan tool that has set it, or choose automatic control in it."
	giveFanBackNVIDIA = "Give the fan back to the driver: end the fan tool that has set it, or choose automatic control in it " +
		"(nvidia-settings, or the tool's own switch)."
)

func fanByHandHeadline(h heading) (now, past string) {
	return "Someone has set " + h.fans + " by hand.", "Someone had set " + h.fans + " by hand."
}

// the fan of GPU 0 (RTX 4090) is set by hand, to 0 %, and still turns at 900 RPM, about as slowly as it can (34 °C)
func fanLeastByHandWords(set, turns, temp string) wording {
	return wording{
		name: "least",
		clause: func(n naming) string {
			return n.fan + " is set by hand, to " + set + ", and still turns at " + turns + ", about as slowly as it can" + temp
		},
		headline: fanByHandHeadline,
		advice:   giveFanBack,
	}
}

// the fan of GPU 0 (RTX 4090) is driven by a program and not by the driver, at 66 % now (71 °C)
func fanCurveWords(speed, temp string) wording {
	return wording{
		name: "curve",
		clause: func(n naming) string {
			return n.fan + " is driven by a program and not by the driver, at " + speed + " now" + temp
		},
		headline: func(h heading) (now, past string) {
			return "A program drives " + h.fans + " by its own curve.", "A program drove " + h.fans + " by its own curve."
		},
		advice: giveFanBack,
	}
}

// the fan of GPU 0 (RTX 4090) is set by hand, to 80 %, and does not follow the temperature (34 °C)
func fanByHandWords(set, temp string) wording {
	return wording{
		name: casePolicy,
		clause: func(n naming) string {
			return n.fan + " is set by hand, to " + set + ", and does not follow the temperature" + temp
		},
		headline: fanByHandHeadline,
		advice:   giveFanBack,
	}
}

// the fan of GPU 0 (RTX 4090) is set by hand, and does not follow the temperature
func fanByHandUnknownWords() wording {
	return wording{
		name:     "unknown speed",
		clause:   func(n naming) string { return n.fan + " is set by hand, and does not follow the temperature" },
		headline: fanByHandHeadline,
		advice:   giveFanBack,
	}
}

// the fan of GPU 0 (RTX 4090) stays at 66 % whatever the temperature is, between 50 °C and 71 °C: a person or a tool has probably set it
func fanFixedWords(speed, coolest, hottest string) wording {
	return wording{
		name: "fixed",
		clause: func(n naming) string {
			return n.fan + " stays at " + speed + " whatever the temperature is, between " + coolest + " and " + hottest +
				": a person or a tool has probably set it"
		},
		headline: func(h heading) (now, past string) {
			return "Someone has probably set " + h.fans + " by hand.", "Someone had probably set " + h.fans + " by hand."
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

// Somebody works. Where there is no advice here, it is who to end, and maybe a lower power limit.

func probablyHeadline(h heading) (now, past string) {
	return h.Who() + h.verb(" is", " are") + " probably heating " + h.gpu + ".", h.Who() + h.verb(" was", " were") + " probably heating " + h.gpu + "."
}

func burstsHeadline(h heading) (now, past string) {
	return h.Who() + h.verb(" works", " work") + " on " + h.gpu + " in bursts.", h.Who() + " worked on " + h.gpu + " in bursts."
}

// python (pid 4242, alice) keeps GPU 0 (RTX 4090) busy at 98 % for 12 min, 71 °C, 431 W of 450 W, fan at 66 %
func workWords(sure Confidence, who, how, extra string) wording {
	w := wording{
		name:     caseProcesses,
		clause:   func(n naming) string { return who + " keeps " + n.it + " " + how + extra + n.readings },
		headline: probablyHeadline,
	}
	if sure >= High {
		w.headline = func(h heading) (now, past string) {
			return h.Who() + h.verb(" is", " are") + " heating " + h.gpu + ".", h.Who() + h.verb(" was", " were") + " heating " + h.gpu + "."
		}
	}
	return w
}

// python (pid 4242, alice) keeps GPU 0 (RTX 4090) busy in bursts, 40 % of the time for 12 min, 71 °C, 431 W of 450 W, fan at 66 %
func burstsWords(who, how string) wording {
	return wording{
		name:     "bursts",
		clause:   func(n naming) string { return who + " keeps " + n.it + " " + how + n.readings },
		headline: burstsHeadline,
	}
}

// GPU 0 (RTX 4090) is busy in bursts for 12 min, 71 °C, 431 W of 450 W, fan at 66 %, by a program that ends and begins again: the last …
func comesBackWords(how, program string) wording {
	return wording{
		name: "comes back",
		clause: func(n naming) string {
			return n.it + " is " + how + n.readings + ", by a program that ends and begins again: the last time it was " + program
		},
		headline: burstsHeadline,
	}
}

// python (pid 4242, alice) probably keeps GPU 0 (RTX 4090) busy for 12 min, 71 °C, 431 W of 450 W, fan at 66 %
func guessedWords(who, how string) wording {
	return wording{
		name:     "guessed",
		clause:   func(n naming) string { return who + " probably keeps " + n.it + " " + how + n.readings },
		headline: probablyHeadline,
	}
}

// A process that gpuwhy can't see (pid 4242) keeps GPU 0 (RTX 4090) busy at 98 % for 12 min, 71 °C, 431 W of 450 W, fan at 66 %
func hiddenWorkWords(pid, how string) wording {
	return wording{
		name: "hidden",
		clause: func(n naming) string {
			return "A process that gpuwhy can't see (pid " + pid + ") keeps " + n.it + " " + how + n.readings
		},
		headline: func(h heading) (now, past string) {
			return "Something that gpuwhy can't see is heating " + h.gpu + ".", "Something that gpuwhy can't see was heating " + h.gpu + "."
		},
		advice: "Look for it in other containers and virtual machines, or start gpuwhy with a view of the host's processes (in a container: --pid=host).",
	}
}

// GPU 0 (RTX 4090) is busy at 98 % for 12 min, 71 °C, 431 W of 450 W, fan at 66 %, and no process is listed that explains it
func nobodyWords(how, blame string) wording {
	return wording{
		name:   "nobody",
		clause: func(n naming) string { return n.it + " is " + how + n.readings + ", and " + blame },
		headline: func(h heading) (now, past string) {
			return "Something that is not listed is heating " + h.gpu + ".", "Something that was not listed was heating " + h.gpu + "."
		},
	}
}

// GPU 0 (RTX 4090) is busy at 98 % for 12 min, 71 °C, 431 W of 450 W, fan at 66 %, and no process that gpuwhy may see explains it
func unseenWorkWords(how, blame string) wording {
	return wording{
		name:   "unseen",
		clause: func(n naming) string { return n.it + " is " + how + n.readings + ", and " + blame },
		headline: func(h heading) (now, past string) {
			return "Something that gpuwhy may not see is heating " + h.gpu + ".", "Something that gpuwhy may not see was heating " + h.gpu + "."
		},
		advice: "To see whose work it is, run gpuwhy as root, or give it the capabilities CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH.",
	}
}

// GPU 0 (RTX 4090) says that it is busy at 100 %, 34 °C, 17 W of 450 W, fan off, but its power and clocks are those of rest: whether …
func unprovenWords(busy string) wording {
	return wording{
		name: "unproven",
		clause: func(n naming) string {
			return n.it + " says that it is busy at " + busy + n.readings +
				", but its power and clocks are those of rest: whether anybody works on it can't be told yet"
		},
		headline: func(h heading) (now, past string) {
			return h.GPU() + " says it is busy; nothing else shows it.", h.GPU() + " said it was busy; nothing else showed it."
		},
		advice: "Look again in a few seconds: work that has just begun shows in the counter first. If it stays so, go by power and temperature.",
	}
}

// Work has ended, and its heat has not.

const quietByItself = "Nothing needs to be done: it gets quiet by itself."

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

// GPU 0 (RTX 4090) is cooling down after python (pid 4242, alice) kept it awake, until 40 s ago (60 °C, …), and should be quiet in …
func letGoWords(who, ago, ends string) wording {
	return wording{
		name: "after",
		clause: func(n naming) string {
			return n.it + " is cooling down after " + who + " kept it awake, until " + ago + n.brackets + ends
		},
		headline: func(h heading) (now, past string) {
			now, past = h.GPU()+" is cooling down; nothing works on it.", h.GPU()+" was cooling down; nothing worked on it."
			if h.who != "" {
				now, past = h.GPU()+" is cooling down: "+h.who+" let it rest.", h.GPU()+" was cooling down: "+h.who+" let it rest."
			}
			if h.left != "" {
				now = "Cooling down without work, quiet in about " + h.left + "."
			}
			return now, past
		},
		advice: quietByItself,
	}
}

// GPU 0 (RTX 4090) begins to cool down after python (pid 4242, alice), which left it 4 s ago (71 °C, 300 W of 450 W, fan at 66 %)
func coolingBeginsWords(who, how, ago, ends string) wording {
	return wording{
		name: "begins",
		clause: func(n naming) string {
			return n.it + " begins to cool down after " + who + how + ago + n.brackets + ends
		},
		headline: coolingHeadline,
		advice:   quietByItself,
	}
}

// GPU 0 (RTX 4090) is cooling down (60 °C, 17 W of 450 W, fan at 30 %), probably from work before gpuwhy was watching
func coolingUnseenWords(ends string) wording {
	return wording{
		name: "before",
		clause: func(n naming) string {
			return n.it + " is cooling down" + n.brackets + ", probably from work before gpuwhy was watching" + ends
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
	return "What ended processes left keeps " + h.gpu + " awake.", "What ended processes left kept " + h.gpu + " awake."
}

// what python (pid 4242, alice) left behind keeps GPU 0 (RTX 4090) awake (44 °C, …), 46 W above its idle draw
func leftBehindWords(who, more, uuid string) wording {
	return wording{
		name: caseLeftBehind,
		clause: func(n naming) string {
			return "what " + who + " left behind keeps " + n.it + " awake" + n.brackets + more
		},
		headline: leftBehindHeadline,
		advice:   "Nothing that runs holds it any more: reset the GPU (nvidia-smi --gpu-reset -i " + uuid + ", as root), or restart the machine.",
	}
}

// what python (pid 4242, alice) left behind keeps GPU 0 (RTX 4090) awake (44 °C, …), 46 W above its idle draw
func leftInUseWords(who, more string) wording {
	return wording{
		name: "left in use",
		clause: func(n naming) string {
			return "what " + who + " left behind keeps " + n.it + " awake" + n.brackets + more
		},
		headline: leftBehindHeadline,
		advice: "Nothing that runs holds that any more, but others use the GPU: restart the machine, or reset the GPU once no process and no display " +
			"uses it.",
	}
}

// what python (pid 4242, alice) left behind keeps GPU 0 (RX 7900 XT) awake (44 °C, …), 46 W above its idle draw
func leftForGoodWords(who, more string) wording {
	return wording{
		name: "left for good",
		clause: func(n naming) string {
			return "what " + who + " left behind keeps " + n.it + " awake" + n.brackets + more
		},
		headline: leftBehindHeadline,
		advice:   "Nothing that runs holds it any more: restart the machine.",
	}
}

// a process that gpuwhy can't see (pid 4242) with 2 other processes keeps GPU 0 (RTX 4090) awake without using it (44 °C, …), 46 W …
func hiddenHolderWords(pid, others, more string) wording {
	return wording{
		name: "hidden holder",
		clause: func(n naming) string {
			return "a process that gpuwhy can't see (pid " + pid + ")" + others + " keeps " + n.it + " awake without using it" + n.brackets + more
		},
		headline: func(h heading) (now, past string) {
			return "Something that gpuwhy can't see keeps " + h.gpu + " awake.", "Something that gpuwhy can't see kept " + h.gpu + " awake."
		},
		advice: "Look for it in other containers and virtual machines, or start gpuwhy with a view of the host's processes (in a container: --pid=host). " +
			"If it has ended, a restart of the machine frees the GPU.",
	}
}

// andClocksSet is added where a process holds a device whose clocks are set, too.
const andClocksSet = "; its clocks are set by hand, too"

func endHolder(who string) string {
	return "End " + who + ", or have it give the GPU back (a notebook: shut its kernel down; a model server: let it unload)."
}

// python (pid 4242, alice) with 2 other processes keeps GPU 0 (RTX 4090) awake without using it (44 °C, …), 46 W above its idle draw
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

// python (pid 4242, alice) with 2 other processes keeps GPU 0 (RTX 4090) awake, and uses it little (44 °C, …), 46 W above its idle draw
func lightUserWords(who, others, more string) wording {
	return wording{
		name: caseLightUser,
		clause: func(n naming) string {
			return who + others + " keeps " + n.it + " awake, and uses it little" + n.brackets + more
		},
		headline: func(h heading) (now, past string) {
			return h.Who() + " uses " + h.gpu + " little, and keeps it awake.", h.Who() + " uses " + h.gpu + " little, and kept it awake."
		},
		advice: endHolder(who),
	}
}

// somebody has set the clocks of GPU 0 (RTX 4090), which keeps it awake without work (44 °C, …), 46 W above its idle draw
func clocksSetWords(more string) wording {
	return wording{
		name: "locked",
		clause: func(n naming) string {
			return "somebody has set the clocks of " + n.it + ", which keeps it awake without work" + n.brackets + more
		},
		headline: func(h heading) (now, past string) {
			return "Clocks set by hand keep " + h.gpu + " awake.", "Clocks set by hand keep " + h.gpu + " awake."
		},
		advice: "Let the driver choose the clocks again: nvidia-smi -rgc and -rac, as root, or in the tool that has set them.",
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
		advice: "Lower the display's refresh rate, or use one display fewer: some cards rest only at 60 Hz or with one display.",
	}
}

// being asked for readings (by gpuwhy, or by another monitor) keeps GPU 0 (RTX 4090) awake, since persistence mode is off (44 °C, …) …
func persistenceWords(more string) wording {
	return wording{
		name: casePersistence,
		clause: func(n naming) string {
			return "being asked for readings (by gpuwhy, or by another monitor) keeps " + n.it + " awake, since persistence mode is off" + n.brackets + more
		},
		headline: func(h heading) (now, past string) {
			return "Asking for readings keeps " + h.gpu + " awake.", "Asking for readings kept " + h.gpu + " awake."
		},
		advice: "Turn persistence mode on (nvidia-smi -pm 1, or the nvidia-persistenced service), or let gpuwhy read less often with a longer --interval.",
	}
}

// What to do where nothing that is listed keeps a device awake.
const (
	lookForContext = "Look with nvidia-smi whether a process holds a context that gpuwhy can't see, such as one of another container."
	lookForProgram = "Look whether a program that gpuwhy can't see has the GPU open, such as one of another user or container."
)

// GPU 0 (RTX 4090) is awake without work (44 °C, 63 W of 450 W, fan off), 46 W above its idle draw, and nothing that is listed explains it
func nothingHoldsWords(more, advice string) wording {
	return wording{
		name: "nothing",
		clause: func(n naming) string {
			return n.it + " is awake without work" + n.brackets + more + ", and nothing that is listed explains it"
		},
		headline: func(h heading) (now, past string) {
			return h.GPU() + " is awake, and nothing explains it.", h.GPU() + " was awake, and nothing explained it."
		},
		advice: advice,
	}
}

// Heat or power holds it back.

const (
	coolerAir = "Give it cooler air: clean filters and fans, leave space before the intakes, close empty slots. A lower power limit makes less heat."
	slowedBy  = "slowed by heat"
)

// GPU 0 (RTX 4090) is held back by its heat (71 °C, 24 °C below where its hardware slows itself down)
func heatDriverWords(temp string) wording {
	return wording{
		name:   "driver",
		clause: func(n naming) string { return n.it + " is held back by its heat" + temp },
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

// GPU 0 (RTX 4090) slows itself down hard, because it is too hot (95 °C)
func heatHardwareWords(temp string) wording {
	return wording{
		name:   "hardware",
		clause: func(n naming) string { return n.it + " slows itself down hard, because it is too hot" + temp },
		headline: func(h heading) (now, past string) {
			if h.who == "" {
				return "Heat slows " + h.gpu + " down hard.", "Heat slowed " + h.gpu + " down hard."
			}
			return h.Who() + h.verb(" heats ", " heat ") + h.gpu + " until it slows down hard.",
				h.Who() + " heated " + h.gpu + " until it slowed down hard."
		},
		advice: coolerAir,
		short:  slowedBy,
	}
}

// GPU 0 (RX 7900 XT) is held back by its hot spot, which is at 110 °C (71 °C)
func heatHotSpotWords(spot, temp string) wording {
	return wording{
		name:   "hot spot",
		clause: func(n naming) string { return n.it + " is held back by its hot spot, which is at " + spot + temp },
		headline: func(h heading) (now, past string) {
			if h.who == "" {
				return "Its hot spot slows " + h.gpu + " down.", "Its hot spot slowed " + h.gpu + " down."
			}
			return h.Who() + h.verb(" heats", " heat") + " the hot spot of " + h.gpu + " until it slows down.",
				h.Who() + " heated the hot spot of " + h.gpu + " until it slowed down."
		},
		advice: "Give it cooler air: clean filters and fans, leave space before the intakes. A hot spot far above the rest of the chip comes from dried paste, " +
			"or a cooler that sits or works badly: have it looked at, while it has a warranty.",
		short: slowedBy,
	}
}

// GPU 0 (RTX 3090) is held back by its memory, which is at 104 °C (71 °C)
func heatMemoryWords(memory, temp string) wording {
	return wording{
		name:   "memory",
		clause: func(n naming) string { return n.it + " is held back by its memory, which is at " + memory + temp },
		headline: func(h heading) (now, past string) {
			if h.who == "" {
				return "Its hot memory slows " + h.gpu + " down.", "Its hot memory slowed " + h.gpu + " down."
			}
			return h.Who() + h.verb(" heats", " heat") + " the memory of " + h.gpu + " until it slows down.",
				h.Who() + " heated the memory of " + h.gpu + " until it slowed down."
		},
		advice: coolerAir,
		short:  slowedBy,
	}
}

// GPU 0 (RTX 4090) is slowed down by its own hardware: heat, or the power supply
func powerHardwareWords() wording {
	return wording{
		name:   "hardware",
		clause: func(n naming) string { return n.it + " is slowed down by its own hardware: heat, or the power supply" },
		headline: func(h heading) (now, past string) {
			return h.GPU() + "'s own hardware slows it down.", h.GPU() + "'s own hardware slowed it down."
		},
		advice: "Check the power cables and the temperature of the card's surroundings.",
		short:  "slowed down by its hardware",
	}
}

// GPU 0 (RTX 4090) is slowed down because the power supply asks it to draw less
func powerBrakeWords() wording {
	return wording{
		name:   "brake",
		clause: func(n naming) string { return n.it + " is slowed down because the power supply asks it to draw less" },
		headline: func(h heading) (now, past string) {
			return "The power supply slows " + h.gpu + " down.", "The power supply slowed " + h.gpu + " down."
		},
		advice: "Check the power supply and its cables; in a server, its power budget.",
		short:  "slowed down by the power supply",
	}
}

// GPU 0 (RTX 4090) is held back by its power limit (450 W). most is to what it may be raised: "600 W"; empty where that is not known.
func powerLimitWords(limit, most string) wording {
	w := wording{
		name:   "limit",
		clause: func(n naming) string { return n.it + " is held back by its power limit" + limit },
		headline: func(h heading) (now, past string) {
			return h.GPU() + " is at its power limit.", h.GPU() + " was at its power limit."
		},
		advice: "This is normal at full work: the limit keeps heat and noise down.",
		short:  "at its power limit",
	}
	if most != "" {
		w.advice += " It may be raised to " + most + ", for more speed, heat and noise."
	}
	return w
}

// It is hotter than it was, or than others.

const hotterThanUsual = "hotter than usual"

// GPU 0 (RTX 4090) is hot for its power: 12 °C hotter than it was at 431 W, and 14 °C hotter than its neighbors
func hotterThanBeforeWords(degrees, power, thanNeighbors string) wording {
	also := ""
	if thanNeighbors != "" {
		also = ", and " + thanNeighbors + " hotter than its neighbors"
	}
	return wording{
		name: "than before",
		clause: func(n naming) string {
			return n.it + " is hot for its power: " + degrees + " hotter than it was at " + power + also
		},
		headline: func(h heading) (now, past string) {
			return h.GPU() + " runs hotter than it used to.", h.GPU() + " ran hotter than it used to."
		},
		advice: "Clean its fans and filters, and look whether something blocks the air before or behind it.",
		short:  hotterThanUsual,
	}
}

// GPU 1 (RTX 4090) is warmed by GPU 0 (RTX 4090) beside it: 12 °C hotter than it was at 17 W
func warmedBesideWords(neighbor, degrees, power string) wording {
	return wording{
		name: "beside work",
		clause: func(n naming) string {
			return n.it + " is warmed by " + neighbor + " beside it: " + degrees + " hotter than it was at " + power
		},
		headline: func(h heading) (now, past string) {
			return h.Who() + " beside it warms " + h.gpu + ".", h.Who() + " beside it warmed " + h.gpu + "."
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
		advice: "Clean its fans and filters, and look whether something blocks the air before or behind it. " +
			"Cards behind others get warmer air: some difference is the chassis' design.",
		short: hotterThanUsual,
	}
}

// A fan turns at rest.

// the fan of GPU 0 (RTX 3090) turns at 50 % for the memory, which is at 90 °C
func fanForMemoryWords(speed, memory string) wording {
	return wording{
		name:   "memory",
		clause: func(n naming) string { return n.fan + " turns at " + speed + " for the memory, which is at " + memory },
		headline: func(h heading) (now, past string) {
			return h.Fans() + " runs for its hot memory.", h.Fans() + " ran for its hot memory."
		},
	}
}

// the fan of GPU 0 (RX 7900 XT) turns at 50 % for the hot spot of the chip, which is at 80 °C
func fanForHotSpotWords(speed, spot string) wording {
	return wording{
		name: "hot spot",
		clause: func(n naming) string {
			return n.fan + " turns at " + speed + " for the hot spot of the chip, which is at " + spot
		},
		headline: func(h heading) (now, past string) {
			return h.Fans() + " runs for its hot spot.", h.Fans() + " ran for its hot spot."
		},
	}
}

// What to do where nothing that is shown explains a fan, and where all that it could follow is shown.
const (
	mayFollowUnshown = "It may follow the memory or a hot spot, which this driver does not show, or a curve that a tool has set: " +
		"look for a fan tool, and whether the card's zero-RPM mode is on."
	mayFollowCurve = "It may follow a curve that a tool has set: look for a fan tool, and whether the card's zero-RPM mode is on."
)

// the fan of GPU 0 (RTX 4090) turns at 50 % though nothing works at 34 °C: what it goes by is not shown here
func fanUnexplainedWords(speed, though, temp, advice string) wording {
	return wording{
		name: "unexplained",
		clause: func(n naming) string {
			return n.fan + " turns at " + speed + " " + though + temp + ": what it goes by is not shown here"
		},
		headline: func(h heading) (now, past string) {
			return h.Fans() + " is fast, and nothing shown explains it.", h.Fans() + " was fast, and nothing shown explained it."
		},
		advice: advice,
	}
}

func runsOffHeatHeadline(h heading) (now, past string) {
	return h.Fans() + " still runs off the heat.", h.Fans() + " still ran off the heat."
}

// the fan of GPU 0 (RTX 4090) still turns at 50 % at 40 °C after python (pid 4242, alice): it slows down later than the GPU cools
func fanLateWords(speed, temp string) wording {
	return wording{
		name: "late",
		clause: func(n naming) string {
			return n.fan + " still turns at " + speed + temp + ": it slows down later than the GPU cools"
		},
		headline: runsOffHeatHeadline,
		advice:   "Nothing needs to be done: it slows down by itself.",
	}
}

// the fan of GPU 0 (RTX 4090) starts and stops again and again at 50 °C: it began to turn 4 times in four minutes
func fanOnAndOffWords(temp, times string) wording {
	return wording{
		name: "on and off",
		clause: func(n naming) string {
			return n.fan + " starts and stops again and again" + temp + ": it began to turn " + times + " in four minutes"
		},
		headline: func(h heading) (now, past string) {
			return h.Fans() + " starts and stops again and again.", h.Fans() + " started and stopped again and again."
		},
		advice: "The GPU is as warm as its fan starts and stops at: let it get a little cooler (more air, one display fewer), " +
			"or set a curve with more between start and stop.",
	}
}

// the fan of GPU 0 (RTX 4090) still turns at 30 % at 48 °C after python (pid 4242, alice): it only stops at 45 °C
func fanHeldWords(speed, temp, stops string) wording {
	return wording{
		name:     "held",
		clause:   func(n naming) string { return n.fan + " still turns at " + speed + temp + ": " + stops },
		headline: runsOffHeatHeadline,
		advice:   "Nothing needs to be done: it stops by itself when the GPU is cool enough.",
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
		advice: "Nothing needs to be done. Some cards can stop their fans at rest: look for a zero-RPM mode.",
	}
}

// Nothing works.

// GPU 0 (RTX 4090) draws power without work (71 °C, 431 W of 450 W, fan at 66 %), and nothing that it reports explains it
func unexplainedWords() wording {
	return wording{
		name: "power",
		clause: func(n naming) string {
			return n.it + " draws power without work" + n.brackets + ", and nothing that it reports explains it"
		},
		headline: func(h heading) (now, past string) {
			return h.GPU() + " draws power, and nothing explains it.", h.GPU() + " drew power, and nothing explained it."
		},
		advice: "Look again in a few seconds: work that has just begun or ended shows in the power first.",
	}
}

// GPU 0 (GT 1030) does not report how busy it is (34 °C)
func idleUnknownWords() wording {
	return wording{
		name:   "unknown",
		clause: func(n naming) string { return n.it + " does not report how busy it is" + n.brackets },
		headline: func(h heading) (now, past string) {
			return h.GPU() + " does not say how busy it is.", h.GPU() + " did not say how busy it was."
		},
	}
}

// GPU 0 (GT 1030) is cool, and does not report how busy it is (34 °C)
func idleCoolWords() wording {
	return wording{
		name:     caseCool,
		clause:   func(n naming) string { return n.it + " is cool, and does not report how busy it is" + n.brackets },
		headline: func(h heading) (now, past string) { return h.GPU() + " is cool.", h.GPU() + " was cool." },
	}
}

// GPU 0 (RTX 4090) is idle at 0 %, 34 °C, 17 W of 450 W, fan off
func idleWords(busy string) wording {
	return wording{
		name:     caseIdle,
		clause:   func(n naming) string { return n.it + " is idle" + busy + n.readings },
		headline: func(h heading) (now, past string) { return h.GPU() + " rests.", h.GPU() + " rests." },
	}
}

// gpuwhy has just begun to watch GPU 0 (RTX 4090) (34 °C, 17 W of 450 W, fan off), and can't tell yet how busy it is
func idleFirstWords() wording {
	return wording{
		name: "first",
		clause: func(n naming) string {
			return "gpuwhy has just begun to watch " + n.it + n.brackets + ", and can't tell yet how busy it is"
		},
		headline: func(h heading) (now, past string) {
			return "How busy " + h.gpu + " is can't be told yet.", "How busy " + h.gpu + " was can't be told yet."
		},
	}
}

// GPU 0 (RTX 4090) does no work now (44 °C, 63 W of 450 W, fan off), and gpuwhy has not watched long enough to say more
func idleTooEarlyWords() wording {
	return wording{
		name: "too early",
		clause: func(n naming) string {
			return n.it + " does no work now" + n.brackets + ", and gpuwhy has not watched long enough to say more"
		},
		headline: func(h heading) (now, past string) {
			return h.GPU() + " does no work; more can't be told yet.", h.GPU() + " did no work; more can't be told yet."
		},
	}
}

const lookAtAir = "Look at the air that reaches it: cards beside it that work, a full case, something before the intake."

// GPU 0 (RTX 4090) is idle at 0 %, 60 °C, 17 W of 450 W, fan off; it gets warmer without work, and nothing that it reports explains it
func idleWarmsWords(busy string) wording {
	return wording{
		name: "stays warm", // in the same interval of the past
		clause: func(n naming) string {
			return n.it + " is idle" + busy + n.readings + "; it gets warmer without work, and nothing that it reports explains it"
		},
		headline: func(h heading) (now, past string) {
			return h.GPU() + " gets warmer, and nothing explains it.", h.GPU() + " gets warmer, and nothing explained it."
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
			return h.GPU() + " is warm; why can't be told yet.", h.GPU() + " was warm; why can't be told yet."
		},
	}
}

// GPU 0 (RTX 4090) is idle at 0 %, 60 °C, 17 W of 450 W, fan off; it stays warm without work, and nothing that it reports explains it
func idleStaysWarmWords(busy string) wording {
	return wording{
		name: "stays warm",
		clause: func(n naming) string {
			return n.it + " is idle" + busy + n.readings + "; it stays warm without work, and nothing that it reports explains it"
		},
		headline: func(h heading) (now, past string) {
			return h.GPU() + " stays warm, and nothing explains it.", h.GPU() + " stayed warm, and nothing explained it."
		},
		advice: lookAtAir,
	}
}

// It is kept for a pod.

// GPU 0 (H100) is reserved by pod ml/train-0, which has had no process on it for 12 min. isReserved names the device and the pods.
func reservedWords(isReserved func(it string) string, nothing string) wording {
	return wording{
		name:   "one pod",
		clause: func(n naming) string { return isReserved(n.it) + ", which has " + nothing },
		advice: "If the pod does not need it, delete the pod: until then nobody else gets the GPU.",
		short:  "reserved by a pod",
	}
}

// GPU 0 (H100) is reserved by pods ml/train-0 and ml/eval, which have had no process on it for 12 min
func reservedBySeveralWords(areReserved func(it string) string, nothing string) wording {
	return wording{
		name:   "pods",
		clause: func(n naming) string { return areReserved(n.it) + ", which have " + nothing },
		advice: "If the pods do not need it, delete them: until then nobody else gets the GPU.",
		short:  "reserved by a pod",
	}
}

// It has no fan of its own.

// GPU 0 (H100) has no fan of its own: the chassis fans are what you hear
func noFanWords() wording {
	return wording{
		name:   "no fan",
		clause: func(n naming) string { return n.it + " has no fan of its own: the chassis fans are what you hear" },
		headline: func(h heading) (now, past string) {
			return h.GPU() + " has no fan of its own.", h.GPU() + " had no fan of its own."
		},
		advice: "The chassis' fans follow its hottest part: see the machine's management controller for what they go by.",
		short:  "the chassis fans cool it",
	}
}

// GPU 0 (Radeon 780M) is part of the processor, and has no fan of its own: the processor's is what you hear
func processorFanWords() wording {
	return wording{
		name: "processor",
		clause: func(n naming) string {
			return n.it + " is part of the processor, and has no fan of its own: the processor's is what you hear"
		},
		headline: func(h heading) (now, past string) {
			return h.GPU() + " is part of the processor, and has no fan.", h.GPU() + " was part of the processor, and had no fan."
		},
	}
}

// the driver does not show the fans that cool GPU 0 (RTX 4090 Laptop)
func fansNotShownWords() wording {
	return wording{
		name:   "not shown",
		clause: func(n naming) string { return "the driver does not show the fans that cool " + n.it },
	}
}

// What has no headline of its own.

// GPU 0 (RTX 4090) had the driver error XID 31 (a program used a wrong memory address), and has broken memory rows that wait to be …
func driverErrorWords(what, memory, advice string) wording {
	and := ""
	if memory != "" {
		and = ", and has " + memory
	}
	return wording{
		name:   "now",
		clause: func(n naming) string { return n.it + " had the driver error " + what + and },
		advice: advice,
		short:  "a driver error of late",
	}
}

// GPU 0 (A100) has broken memory rows that wait to be replaced
func brokenMemoryWords(what, advice string) wording {
	return wording{
		name:   "memory",
		clause: func(n naming) string { return n.it + " has " + what },
		advice: advice,
		short:  "broken memory is to be replaced",
	}
}

const sensorMayBeBroken = "If it stays so, restart the machine, or update the driver; a sensor may be broken."

// GPU 0 (RTX 4090) reports what can't be right, and it is left out here: temperature (511 °C)
func leftOutWords(wrong string) wording {
	return wording{
		name: "left out",
		clause: func(n naming) string {
			return n.it + " reports what can't be right, and it is left out here: " + wrong
		},
		advice: sensorMayBeBroken,
	}
}

// GPU 0 (RTX 4090) reports what is probably wrong, and no cause here goes by it: power draw (3 W)
func probablyWrongWords(perhaps string) wording {
	return wording{
		name: "probably wrong",
		clause: func(n naming) string {
			return n.it + " reports what is probably wrong, and no cause here goes by it: " + perhaps
		},
		advice: sensorMayBeBroken,
	}
}

// GPU 0 (RTX 4090) reports what can't be right, and it is left out here: temperature (511 °C); and what is probably wrong: power draw (3 W)
func wrongAndPerhapsWords(wrong, perhaps string) wording {
	return wording{
		name: "both",
		clause: func(n naming) string {
			return n.it + " reports what can't be right, and it is left out here: " + wrong + "; and what is probably wrong: " + perhaps
		},
		advice: sensorMayBeBroken,
	}
}

// what can't be told of GPU 0 (RTX 4090) here: how hot it is (not offered by this product or driver)
func missingWords(missing, advice string) wording {
	return wording{
		name:   "missing",
		clause: func(n naming) string { return "what can't be told of " + n.it + " here: " + missing },
		advice: advice,
	}
}

// Parts of the sentences above.

// How somebody works, behind "busy" or "keeps GPU 0 busy": " in bursts, 40 % of the time", "again for 37 s, 24 min in all".
const (
	inBursts     = " in bursts"
	withUnlisted = ", together with work that is not listed"
)

func partOfTime(share string) string   { return ", " + share + " of the time" }
func withVideo(share string) string    { return " with video at " + share }
func atAbout(share string) string      { return " at about " + share }
func againFor(now, all string) string  { return "again for " + now + ", " + all + " in all" }
func butForAMoment(busy string) string { return " but for a moment at " + busy }
func butForALittle(busy string) string {
	return " but for a little that makes no heat (" + busy + " busy)"
}

// Who works: "python (pid 4242, alice) together with blender (pid 77, bob) and 2 other processes".
func moreLikeIt(n int) string            { return " with " + Plural(n, "more like it", "more like it") }
func togetherWith(partner string) string { return " together with " + partner }
func andOthers(n int) string             { return " and " + Plural(n, "other process", "other processes") }
func withOthers(n int) string            { return " with " + Plural(n, "other process", "other processes") }
func manyNames(first string) string      { return first + " and others" }
func othersWork(n int) string {
	return Plural(n, "other process works", "other processes work") + " on it"
}
func othersAtWork(n int) string { return Plural(n, "other GPU is", "other GPUs are") + " at work" }
func alsoOthers(n int, are string) string {
	return ", and " + Plural(n, "another one is ", "others are ") + are
}
func hiddenProcess(pid string) string { return "a process that gpuwhy can't see (pid " + pid + ")" }

const (
	unseenWork    = "unseen work"
	encodingVideo = "encoding video"
	decodingVideo = "decoding video"
	anyVideo      = "encoding or decoding video"
)

// Why nobody can be named.
const (
	noneListedExplains = "no process that is listed explains it"
	noneIsListed       = "no process is listed that explains it"
	noneSeenExplains   = "no process that gpuwhy may see explains it"
	driverDoesNotSay   = "the driver does not say which process it is"
)

// What the processes of a device with a stuck counter do.
const (
	nothingRuns    = "nothing runs on it"
	noneSeenAtWork = "no process on it is seen to do anything"
	oneDoesNothing = "the one process on it does nothing"
)

func noneDoesAnything(n int) string {
	return "none of the " + strconv.Itoa(n) + " processes on it does anything"
}

// How work ended, between who did it and when: "python (pid 4242, alice), which left it 40 s ago".
const (
	leftIt         = ", which left it "
	thatStopped    = " that stopped "
	stoppedWorking = ", which stopped working "
	earlierText    = "earlier"
	justNow        = "just now"
	unlistedHolder = "something that is not listed" // "cooling down after something that is not listed kept it awake"
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

// What shows that a device is awake, behind "keeps GPU 0 awake".
const clocksUp = ": its clocks are up"

func aboveIdle(watts string) string { return ", " + watts + " above its idle draw" }

// "(71 °C, 24 °C below where its hardware slows itself down)"
func belowSlowdown(degrees string) string {
	return degrees + " below where its hardware slows itself down"
}

// What a fan at rest goes by.
const (
	thoughNothingWorks = "though nothing works"
	thoughCool         = "though the GPU is cool"
	stopsLower         = "it stops at a lower temperature than it starts at"
)

func stopsOnlyAt(temp string) string { return "it only stops at " + temp }

// "GPU 0 is reserved by pod ml/train-0, which has no process on it"
const noProcessOnIt = "no process on it"

func noProcessFor(span string) string { return "had no process on it for " + span }

// What can't be told of a device, and what would show it.
const (
	whichProcesses = "which processes use it"
	howBusy        = "how busy it is"
	howBusyMIG     = "how busy it is, which the driver does not say of a GPU that is cut into instances (MIG)"
	howHot         = "how hot it is"
	whatItDraws    = "what it draws"
	runWithRights  = "run gpuwhy as root, or with the rights that the driver asks for"
	viewOfHost     = "start gpuwhy with a view of the host's processes (in a container: --pid=host)"
)

func whoRuns(n int) string {
	return "who runs " + Plural(n, "process", "processes") + " without a name"
}
func notOffered(what string) string         { return what + " (not offered by this product or driver)" }
func notPermitted(what string) string       { return what + " (not permitted)" }
func memoryInUse(used, total string) string { return used + " of " + total + " GiB of memory in use" }

// What makes a device at work quieter: "End or pause python (pid 4242, alice). Or let it run with less heat …".
func endOrPause(what string) string { return "End or pause " + what }
func orLessPower(uuid, watts string) string {
	return "Or let it run with less heat and noise, and a little more slowly: nvidia-smi -i " + uuid + " -pl " + watts + ", as root."
}

// The same as a list of things to do, each with its command.
const (
	letItRest = "Let it rest"
	resetIt   = "Reset it"
	pauseIt   = "Pause"
	endIt     = "End"
	seeWhy    = "See why"
)

func capAt(watts string) string   { return "Cap at " + watts }
func orCapAt(watts string) string { return "Or cap its power at " + watts + "." } // without a command

// Causes of the machine, which are about no single device.

// A machineWording is what such a cause says.
type machineWording struct {
	name           string // the case on the wire
	clause         string // what is so, without a full stop
	headline, past string // the same in at most ten words, now and of what was so; empty where the cause never comes first
	advice, short  string // as of a wording
}

// The first reading is still under way
func startingWords() machineWording {
	return machineWording{clause: "The first reading is still under way"}
}

const noGPU = "No GPU can be read"

func noGPUHeadline() (now, past string) { return noGPU + " here.", "No GPU could be read here." }

// No GPU can be read
func noGPUWords() machineWording { return machineWording{clause: noGPU} }

// No GPU can be read: NVIDIA's library was not found
func noGPUForWords(reason, advice string) machineWording {
	return machineWording{clause: noGPU + ": " + reason, advice: advice}
}

// No GPU can be read: no card that gpuwhy reads is in this machine, or none is visible here
func noCardWords() machineWording {
	return machineWording{
		clause: noGPU + ": no card that gpuwhy reads is in this machine, or none is visible here",
		advice: "nothing needs to be done if it has none; else check that the card is seated and powered, and given to this virtual machine or container",
	}
}

// amdgpu can't be read: /sys can't be read
func sourceFailedWords(source, what, advice string) machineWording {
	return machineWording{clause: source + " can't be read: " + what, advice: advice}
}

// It is not the GPU's fan: the CPU fan turns at 3100 RPM, with the CPU at 91 °C. who is who keeps the CPU busy, or how to see it.
func otherFanWords(fan, speed, who string) machineWording {
	return machineWording{
		clause:   "It is not the GPU's fan: the " + fan + " turns at " + speed,
		headline: "It is not the GPU's fan, but the " + fan + ".",
		past:     "It was not the GPU's fan, but the " + fan + ".",
		advice:   "Look what keeps the CPU busy (" + who + "), and at the case's fans and their curve in the firmware's settings.",
	}
}

// The CPU fan is loud too, at 3100 RPM, with the CPU at 91 °C
func loudFanBesideWords(fan, speed, who string) machineWording {
	w := otherFanWords(fan, speed, who)
	w.clause, w.headline, w.past = "The "+fan+" is loud too, at "+speed, "", ""
	return w
}

// 6 of 8 GPUs run hotter than they did at the same power, by 7 °C on average: probably the air that reaches them is warmer
func warmAirWords(hotter, known, degrees string) machineWording {
	return machineWording{
		clause: hotter + " of " + known + " GPUs run hotter than they did at the same power, by " + degrees + " on average: " +
			"probably the air that reaches them is warmer",
		headline: "The GPUs run warmer than usual.",
		past:     "The GPUs ran warmer than usual.",
		advice:   "Look at the room's cooling, and at the chassis' fans and filters.",
	}
}

// A machine without a device: why its fans run. readings are such as " (84 °C, 120 W, the CPU fan at 2100 RPM)".

// The CPU fan stands still, though it has turned before and the CPU is at 91 °C
func cpuFanStillWords(temp string) machineWording {
	return machineWording{
		name:     caseStill,
		clause:   "The CPU fan stands still, though it has turned before and the CPU is at " + temp,
		headline: "The CPU fan stands still, and the CPU is hot.",
		past:     "The CPU fan stood still, and the CPU was hot.",
		advice:   "Look whether something blocks it or its cable is loose; shut the machine down if the temperature rises.",
	}
}

// The CPU has slowed itself down for its heat (99 °C, the CPU fan at 3100 RPM). who is who heats it; empty where nobody is known.
func cpuHeatWords(who, readings string) machineWording {
	w := machineWording{
		clause:   "The CPU has slowed itself down for its heat" + readings,
		headline: "The CPU is so hot that it slows itself down.",
		past:     "The CPU was so hot that it slowed itself down.",
		advice:   "Clean its cooler and filters, and look whether the cooler sits well. Less work at once makes less heat.",
		short:    slowedBy,
	}
	if who != "" {
		w.headline, w.past = who+" heats the CPU until it slows down.", who+" heated the CPU until it slowed down."
	}
	return w
}

// Something keeps the CPU busy at 80 % for 12 min (84 °C), and no process that gpuwhy sees has much of it
func somethingWorksWords(how string) machineWording {
	return machineWording{
		name:     "nobody",
		clause:   "Something keeps the CPU busy" + how + ", and no process that gpuwhy sees has much of it",
		headline: "Something keeps the CPU busy.",
		past:     "Something kept the CPU busy.",
		advice:   "Look for it with top, as root.",
	}
}

// Many processes keep the CPU busy at 80 % for 12 min (84 °C); the first of them is cc1 (16 processes, ann)
func manyWorkWords(how, first string) machineWording {
	return machineWording{
		name:     "many",
		clause:   "Many processes keep the CPU busy" + how + "; the first of them is " + first,
		headline: "Many processes keep the CPU busy.",
		past:     "Many processes kept the CPU busy.",
		advice:   "Look for it with top, as root.",
	}
}

// cc1 (16 processes, ann) keeps the CPU busy at 80 % for 12 min (84 °C). who is "cc1 (ann)".
func processWorksWords(who, process, how string, fansRun, mayEnd bool) machineWording {
	w := machineWording{
		name:     "process",
		clause:   process + " keeps the CPU busy" + how,
		headline: who + " keeps the CPU busy.",
		past:     who + " kept the CPU busy.",
		advice:   "End or pause " + process + ".",
	}
	if fansRun {
		w.headline, w.past = who+" keeps the CPU busy, so the fans run.", who+" kept the CPU busy, so the fans ran."
	}
	if !mayEnd {
		w.advice = "Look what it works for; it should not be ended."
	}
	return w
}

// The CPU is cooling down after cc1 (16 processes, ann), which stopped 20 s ago (60 °C)
func cpuCoolingWords(who, process, ago string) machineWording {
	return machineWording{
		clause:   "The CPU is cooling down after " + process + ", which stopped " + ago,
		headline: "The CPU cools down after " + who + ".",
		past:     "The CPU cooled down after " + who + ".",
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
		advice:   "Look at the air that reaches it: a fan that stands still, a full case, dust.",
		short:    name + " " + temp,
	}
	if fansRun {
		w.headline, w.past = "The "+name+" is hot, so the fans run.", "The "+name+" was hot, so the fans ran."
	}
	return w
}

// The CPU fan turns at 3100 RPM, with the CPU at 80 °C and hardly any work
func fanForHotCPUWords(fan, speed, temp string) machineWording {
	return machineWording{
		name:     "hot",
		clause:   "The " + fan + " turns at " + speed + ", with the CPU at " + temp + " and hardly any work",
		headline: "The CPU is hot without work, so the fans run.",
		past:     "The CPU was hot without work, so the fans ran.",
		advice:   "Look whether its cooler sits well, and for dust.",
	}
}

// The case fan turns at 3100 RPM, and neither the CPU's work nor a temperature can be read
func fanUntoldWords(fan, speed string) machineWording {
	return machineWording{
		name:     "untold",
		clause:   "The " + fan + " turns at " + speed + ", and neither the CPU's work nor a temperature can be read",
		headline: "The " + fan + " is fast; why can't be told.",
		past:     "The " + fan + " was fast; why can't be told.",
		advice:   "Let gpuwhy see the machine's /proc and /sys.",
	}
}

// The case fan turns at 3100 RPM, and neither work nor a temperature that is shown explains it
func fanForNothingWords(fan, speed string) machineWording {
	return machineWording{
		name:     "nothing",
		clause:   "The " + fan + " turns at " + speed + ", and neither work nor a temperature that is shown explains it",
		headline: "The " + fan + " is fast, and nothing here explains it.",
		past:     "The " + fan + " was fast, and nothing here explained it.",
		advice:   "Look at its curve in the firmware's settings. In servers the management controller (BMC) sets the fans, often fast at rest too.",
	}
}

// No fan can be read here: the system shows no sensor of a fan
func noFanShownWords(what, advice string) machineWording {
	return machineWording{
		clause:   "No fan can be read here: " + what,
		headline: "No fan can be read here.",
		past:     "No fan could be read here.",
		advice:   advice,
		short:    "no fan can be read here",
	}
}

// No fan can be read here: none of the sensors of its fans answers
func fanSensorsSilentWords() machineWording {
	return noFanShownWords("none of the sensors of its fans answers", "look for the sensors' drivers in the kernel log (dmesg)")
}

// The machine does no work that can be heard, with its CPU at 2 % (40 °C)
func restSlowFansWords(how string) machineWording {
	return machineWording{
		name:     "slow",
		clause:   "The machine does no work that can be heard" + how,
		headline: "The machine rests, and its fans turn slowly.",
		past:     "The machine rests, and its fans turn slowly.",
	}
}

// The machine does no work that can be heard, with its CPU at 2 % (40 °C)
func restFansOffWords(how string) machineWording {
	return machineWording{
		name:     "off",
		clause:   "The machine does no work that can be heard" + how,
		headline: "The machine rests, and its fans stand still.",
		past:     "The machine rests, and its fans stand still.",
	}
}

// The machine does no work that can be heard, with its CPU at 2 % (40 °C)
func restNoFanWords(how string) machineWording {
	return machineWording{name: "no fan", clause: "The machine does no work that can be heard" + how}
}

// What the CPU does can't be told from the readings so far (40 °C)
func restTooEarlyWords(readings string) machineWording {
	return machineWording{
		name:     "too early",
		clause:   "What the CPU does can't be told from the readings so far" + readings,
		headline: "Why the fans run can't be told yet.",
		past:     "Why the fans ran can't be told yet.",
	}
}

// Several devices of one machine at rest.

func fansRestHeadline() (now, past string) {
	return "Nothing works, and the fans are at rest.", "Nothing worked, and the fans were at rest."
}

func nothingWorksHeadline() (now, past string) {
	return "Nothing works on the GPUs.", "Nothing worked on the GPUs."
}

func fansOffHeadline() (now, past string) { return "Your fans are off.", "Your fans were off." }

// Several nodes.

// The verbs of such a headline, in the present and in the past.
type verbs struct{ is, are, can string }

var isNow, wasThen = verbs{"is", "are", "can"}, verbs{"was", "were", "could"}

// word is a standing in a few words, which say how a node is.
func (s Standing) word(v verbs) string {
	switch s {
	case Resting:
		return "quiet"
	case Cooling:
		return "cooling down"
	case Busy:
		return "at work"
	case Unread:
		return "without a GPU that " + v.can + " be read"
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
		return "1 " + v.is + " " + s.word(v)
	}
	return strconv.Itoa(t[s]) + " " + v.are + " " + s.word(v)
}

// 2 of 40 nodes are broken
func fleetHeadline(v verbs, count, nodes int, s Standing) string {
	switch count {
	case nodes:
		return "All " + strconv.Itoa(nodes) + " nodes " + v.are + " " + s.word(v)
	case 1:
		return "1 of " + strconv.Itoa(nodes) + " nodes " + v.is + " " + s.word(v)
	default:
		return strconv.Itoa(count) + " of " + strconv.Itoa(nodes) + " nodes " + v.are + " " + s.word(v)
	}
}

// "; the worst is n1: the GPU is lost", behind the number of those that are broken or loud. what may be empty.
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

// "; the others are quiet", behind the number of those that are silent, or have no GPU that can be read
func fleetOthers(v verbs, busy bool) string {
	if busy {
		return "; none that answers " + v.is + " loud"
	}
	return "; the others " + v.are + " quiet"
}

// ", and none is loud", behind the number of those that work or cool down
func fleetNone(v verbs, s Standing) string {
	if s == Busy {
		return ", and none " + v.is + " loud"
	}
	return ", and none " + v.is + " at work"
}

func silentNodes(n int) string { return Plural(n, "node is silent", "nodes are silent") }

// What is said of a node of which nothing comes any more: "when it was last heard, train.py was heating GPU 6".
const nothingComes = "nothing comes of this node"

func lastHeard(was string) string { return "when it was last heard, " + was }

// Parts of sentences about the machine: ", with the CPU at 91 °C".
const (
	someWork      = "work"
	someEndedWork = "work that has ended"
)

func withCPUAt(temp string) string    { return ", with the CPU at " + temp }
func withItsCPUAt(busy string) string { return ", with its CPU at " + busy }
