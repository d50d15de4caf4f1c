package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// answer finds all causes. memoryOf returns what is known of a device's past,
// with the snapshot's own reading in it.
func answer(s *gpu.Snapshot, memoryOf func(*gpu.Device) *memory) Answer {
	out := Answer{Time: s.Time, Devices: make([]DeviceAnswer, len(s.Devices))}
	memories := make([]*memory, len(s.Devices))
	for i := range s.Devices {
		memories[i] = memoryOf(&s.Devices[i])
	}
	near := newPeers(s, memories)
	for i := range s.Devices {
		out.Devices[i] = explainDevice(&s.Devices[i], s, memories[i], near)
	}
	out.rank()
	out.Machine = machineCauses(s, out.Devices, memories)
	for i := range out.Machine {
		out.Machine[i].Node = s.Node
	}
	out.Sentence = out.say()
	return out
}

// Combine answers for several nodes at once: its sentence is about the loudest
// device of all. One answer alone stays as it is, and none says that nothing was
// read yet.
func Combine(of []*Answer) Answer {
	switch len(of) {
	case 0:
		return starting()
	case 1:
		return *of[0]
	}
	var out Answer
	for _, a := range of {
		if a.Time.After(out.Time) {
			out.Time = a.Time
		}
		for _, c := range a.Machine {
			if !slices.ContainsFunc(out.Machine, func(same Cause) bool { return same.Kind == c.Kind && same.Sentence == c.Sentence }) {
				c.ID += "@" + c.Node
				out.Machine = append(out.Machine, c)
			}
		}
		out.Devices = append(out.Devices, a.Devices...)
	}
	out.rank()
	out.Sentence = out.say()
	if len(out.Devices) > 0 {
		if lead := out.Devices[out.ranked[0]].Device; lead.State == gpu.StateOK {
			out.Sentence = "On " + textOf(lead.Node) + ", " + out.Sentence
		}
	}
	return out
}

func starting() Answer {
	const text = "The first reading is still under way."
	return Answer{Sentence: text, Machine: []Cause{{ID: string(Starting), Kind: Starting, Sentence: text, Confidence: High}}}
}

// rank orders the devices, the loudest first. One that does not answer is
// never the one that the sentence is about while another does.
func (a *Answer) rank() {
	a.ranked = make([]int, len(a.Devices))
	for i := range a.ranked {
		a.ranked[i] = i
	}
	slices.SortStableFunc(a.ranked, func(i, j int) int {
		x, y := &a.Devices[i], &a.Devices[j]
		return cmp.Or(
			cmp.Compare(present(y), present(x)),
			cmp.Compare(y.loudness, x.loudness),
			cmp.Compare(y.Device.Utilization.GPU.Or(-1), x.Device.Utilization.GPU.Or(-1)),
			cmp.Compare(x.Device.Index, y.Device.Index),
		)
	})
}

// present ranks devices that report something before those that don't.
func present(d *DeviceAnswer) int {
	switch {
	case d.Device.State != gpu.StateOK:
		return 0
	case len(d.Causes) > 0 && d.Causes[0].Kind == NoReadings:
		return 1
	default:
		return 2
	}
}

// machineCauses are those that are about no single device.
func machineCauses(s *gpu.Snapshot, devices []DeviceAnswer, memories []*memory) []Cause {
	var out []Cause
	if c := warmAir(s, devices, memories); c != nil {
		out = append(out, *c)
	}
	if len(devices) == 0 {
		out = append(out, noDevice(s))
	} else {
		for i := range s.Failures {
			out = append(out, sourceFailed(&s.Failures[i]))
		}
	}
	for i := range s.Notes {
		out = append(out, note(i, &s.Notes[i]))
	}
	return out
}

func noDevice(s *gpu.Snapshot) Cause {
	c := Cause{ID: string(NoDevice), Kind: NoDevice, Sentence: sentence("No GPU can be read" + because(s.Failures)), Confidence: High}
	for i := range s.Failures {
		f := &s.Failures[i]
		c.Evidence = append(c.Evidence, fact("failed: "+f.Source, textOf(f.Advice.What), f.Since))
		if i > 0 {
			continue
		}
		c.Since = f.Since
		if f.Advice.Try != "" {
			c.Advice = sentence(capital(f.Advice.Try))
		}
	}
	return c
}

// because is what has failed; what to do about it is advice.
func because(failures []gpu.Failure) string {
	if len(failures) == 0 {
		return ""
	}
	return ": " + strings.TrimRight(textOf(failures[0].Advice.What), ".")
}

func sourceFailed(f *gpu.Failure) Cause {
	c := Cause{
		ID: string(SourceFailed) + ":" + f.Source, Kind: SourceFailed,
		Sentence:   sentence(textOf(f.Source) + " can't be read: " + textOf(f.Advice.What)),
		Confidence: High, Since: f.Since,
		Evidence: []Evidence{fact("failed", textOf(f.Advice.What), f.Since)},
	}
	if f.Advice.Try != "" {
		c.Advice = sentence(capital(f.Advice.Try))
	}
	return c
}

func note(i int, n *gpu.Advice) Cause {
	c := Cause{
		ID: fmt.Sprintf("%s:%d", Note, i), Kind: Note,
		Sentence: sentence(capital(n.What)), Confidence: High,
		Evidence: []Evidence{},
	}
	if n.Try != "" {
		c.Advice = sentence(capital(n.Try))
	}
	return c
}

// say is the machine's sentence: the loudest device's, how many others work,
// and who is missing. Those who are missing are never left out, since they may
// be the reason. Why there is no GPU at all is told by the cause alone.
func (a *Answer) say() string {
	if len(a.Devices) == 0 {
		return sentence("No GPU can be read")
	}
	lead := &a.Devices[a.ranked[0]]
	if lead.Device.State != gpu.StateOK {
		return sentence(a.absentees()...)
	}
	clauses := []string{strings.TrimRight(lead.Sentence, ".")}
	busy := 0
	for i := range a.Devices {
		if a.Devices[i].working && &a.Devices[i] != lead {
			busy++
		}
	}
	switch busy {
	case 0:
	case 1:
		clauses = append(clauses, "1 other GPU is at work")
	default:
		clauses = append(clauses, fmt.Sprintf("%d other GPUs are at work", busy))
	}
	for i := range a.Machine {
		if a.Machine[i].Kind == WarmAir {
			clauses = append(clauses, strings.TrimRight(a.Machine[i].Sentence, "."))
		}
	}
	return strings.Join(append(clauses, a.absentees()...), "; ") + "."
}

// absentees has a clause for each way in which devices are not there.
func (a *Answer) absentees() []string {
	var out []string
	for _, in := range []struct {
		state     gpu.State
		one, many string
	}{
		{gpu.StateNotAnswering, "is not answering", "are not answering"},
		{gpu.StateLost, "is lost", "are lost"},
		{gpu.StateAsleep, "is asleep", "are asleep"},
	} {
		var first *gpu.Device
		n := 0
		for i := range a.Devices {
			if d := a.Devices[i].Device; d.State == in.state {
				if n++; n == 1 {
					first = d
				}
			}
		}
		switch n {
		case 0:
		case 1:
			out = append(out, DeviceName(first)+" "+in.one)
		default:
			out = append(out, fmt.Sprintf("%d GPUs %s", n, in.many))
		}
	}
	return out
}
