// Package explain answers "why is my GPU fan running?". It finds the causes for each device and for the machine and ranks them. Each cause
// has a sentence, the figures that support it, a confidence, and advice on how to end it.
//
// The rules are pure functions of a snapshot and of what a [History] remembers about each device: when work began and ended and who did it,
// how much power the device draws at rest, how long earlier cool-downs took, how hot the device runs at a given power. The package knows no
// clock, no driver and no wire format: the snapshots carry the time. docs/why.md describes every cause for users.
package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// answer finds all causes. learn gives a device its memory, including the snapshot's own reading.
func answer(s *gpu.Snapshot, machine *machineMemory, learn func(*device)) Answer {
	out := Answer{Time: s.Time, Devices: make([]DeviceAnswer, len(s.Devices))}
	devices := all(s, learn)
	for i, d := range devices {
		out.Devices[i] = d.explain()
		out.Devices[i].led = d.m.led
	}
	heard(devices, out.Devices)
	out.rank()
	for i := range out.ranked {
		out.ranked[i].led = i == 0
	}
	for i, d := range devices {
		d.m.led = out.Devices[i].led
	}
	found := machineCauses(s, machine, devices)
	for i := range found {
		out.Machine = append(out.Machine, found[i].Cause)
	}
	if len(devices) == 0 {
		out.traffic = traffic(s.Host)
	}
	out.Sentence = out.say()
	out.layer(found)
	return out
}

// all returns the snapshot's devices, after each has learned.
func all(s *gpu.Snapshot, learn func(*device)) []*device {
	devices := make([]*device, len(s.Devices))
	for i := range s.Devices {
		devices[i] = newDevice(&s.Devices[i], s, devices, learn)
	}
	return devices
}

// ahead is how much louder another device must be to be named first instead.
const ahead = 0.08

// heard puts first the device whose fan people hear: a fan that is fast, and clearly faster than all others, whichever device is working.
func heard(devices []*device, answers []DeviceAnswer) {
	const faster = 15 // percent
	loudest, second := -1, 0.0
	for i, d := range devices {
		switch {
		case d.State != gpu.StateOK || !present(d.fan):
		case loudest < 0 || d.fan > devices[loudest].fan:
			if loudest >= 0 {
				second = devices[loudest].fan
			}
			loudest = i
		default:
			second = max(second, d.fan)
		}
	}
	if loudest < 0 || len(devices) < 2 {
		return
	}
	stays := 0.0 // a device that was first stays first until it is clearly slower
	if devices[loudest].m.led {
		stays = 5
	}
	if fan := devices[loudest].fan; fan >= fast-stays && fan >= second+faster-stays && devices[loudest].doing != working {
		answers[loudest].loudness++
	}
}

// rank orders devices, loudest first. The device that was first stays first until another is clearly louder.
func (a *Answer) rank() {
	a.ranked = those(a.Devices, func(*DeviceAnswer) bool { return true })
	score := func(d *DeviceAnswer) float64 {
		if d.led {
			return d.loudness + ahead
		}
		return d.loudness
	}
	slices.SortStableFunc(a.ranked, func(x, y *DeviceAnswer) int {
		return cmp.Or(cmp.Compare(score(y), score(x)), cmp.Compare(x.Device.Index, y.Device.Index))
	})
}

func machineCauses(s *gpu.Snapshot, machine *machineMemory, devices []*device) []machineFinding {
	out := append(otherFan(s, machine, devices), warmAir(devices)...)
	if len(devices) == 0 {
		heard, gone := alone(s, machine), noDevice(s.Failures)
		if noCard(s.Failures) {
			gone.Case = WithoutCard
		}
		if len(heard) > 0 && gone.Case != "" {
			out = append(heard, gone)
		} else { // a failure comes first: it may be what people hear
			out = append(append(out, gone), heard...)
		}
	} else {
		for _, f := range s.Failures {
			what := textOf(f.Advice.What)
			c := sourceFailedWords(textOf(f.Source), what, f.Advice.Try).cause(SourceFailed, ":"+f.Source)
			c.Since, c.Evidence = f.Since, []Evidence{{Name: "failed", Text: what, At: f.Since}}
			out = append(out, c)
		}
	}
	for i, n := range s.Notes {
		out = append(out, machineWording{clause: capital(n.What), advice: n.Try}.cause(Note, ":"+strconv.Itoa(i)))
	}
	for i := range out {
		out[i].Node = s.Node
	}
	return out
}

// A machineFinding is a cause about no single device.
type machineFinding struct {
	Cause
	past string // its headline in the past tense
}

// cause makes a cause from its words. id follows the kind in its ID.
func (w machineWording) cause(kind Kind, id string) machineFinding {
	return machineFinding{Cause{
		ID: string(kind) + id, Kind: kind, Case: w.name, Sentence: sentence(w.clause), Confidence: High, Advice: Advice(w.advice),
		Headline: w.headline, Short: w.short,
	}, w.past}
}

// Advice makes a sentence from what to do; empty if there is nothing to do.
func Advice(try string) string {
	if try == "" {
		return ""
	}
	return sentence(capital(try))
}

func noDevice(failures []gpu.Failure) machineFinding {
	if len(failures) == 0 {
		return noGPUWords().cause(NoDevice, "")
	}
	first := failures[0]
	words := noGPUForWords(strings.TrimRight(textOf(first.Advice.What), "."), first.Advice.Try)
	if len(failures) > 1 && noCard(failures) {
		words = noCardWords()
	}
	c := words.cause(NoDevice, "")
	c.Since = first.Since
	for _, f := range failures {
		c.Evidence = append(c.Evidence, Evidence{Name: "failed: " + f.Source, Text: textOf(f.Advice.What), At: f.Since})
	}
	return c
}

// say makes the machine's sentence: the loudest device's, how many others work, and which are absent, since they may be the reason. Why
// there is no GPU at all is only in the cause.
func (a *Answer) say() string {
	if len(a.Devices) == 0 {
		for i := range a.Machine {
			if c := &a.Machine[i]; c.Kind == NoDevice {
				return sentence(noGPU)
			} else if c.Headline != "" {
				return c.Sentence
			}
		}
		return sentence(noGPU)
	}
	lead := a.ranked[0]
	broken := lead.Device.State != gpu.StateOK
	var clauses, after []string
	for i := range a.Machine {
		c := &a.Machine[i]
		switch {
		case a.leads(c) && c.Headline != "", c.Kind == SourceFailed && broken:
			clauses = append(clauses, c.Sentence)
		case c.Node == lead.Device.Node && (c.Kind == WarmAir || c.Kind == OtherFan):
			after = append(after, c.Sentence)
		}
	}
	if broken {
		return together(append(clauses, a.absentees()...))
	}
	clauses = append(clauses, lead.Sentence)
	busy := those(a.Devices, func(d *DeviceAnswer) bool { return d.working && d != lead })
	if len(busy) > 0 {
		clauses = append(clauses, othersAtWork(len(busy)))
	}
	clauses = append(clauses, a.otherDevices(lead)...)
	return together(slices.Concat(clauses, after, a.absentees()))
}

// together joins several sentences into one.
func together(sentences []string) string {
	for i := range sentences {
		if sentences[i] = strings.TrimRight(sentences[i], "."); i > 0 {
			sentences[i] = inside(sentences[i])
		}
	}
	return sentence(sentences...)
}

// absentees returns a clause for each state in which a device can't be read.
func (a *Answer) absentees() []string {
	var out []string
	for _, state := range absences {
		is := strings.ReplaceAll(string(state), "_", " ")
		switch are := those(a.Devices, func(d *DeviceAnswer) bool { return d.Device.State == state }); len(are) {
		case 0:
		case 1:
			out = append(out, DeviceName(are[0].Device)+" is "+is)
		default:
			out = append(out, fmt.Sprintf("%d GPUs are %s", len(are), is))
		}
	}
	return out
}
