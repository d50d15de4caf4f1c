package views

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight/attribute"
)

// A Process is one process on one device.
type Process struct {
	Key     string // its device, pid and MIG instance
	GPU     string // "0", or "0 · MIG 3"
	Device  string // the address of its device's page
	Name    Value
	Command Value
	PID     string
	User    Value
	Hue     string // the class of its color
	Type    string
	Memory  Value
	SM      Value  // its share of the engine that it uses most
	Power   Value  // an estimate
	Place   Value  // where it runs: a pod, a container, a job or a unit
	Running Value  // for how long
	Started string // RFC 3339; empty where that is not known

	d     *gpu.Device
	p     *gpu.Process
	watts number
	main  string // what the job, the container or the program of one user is called, of which it is a part
}

// newProcesses are those of some devices, with the sum of each to compare them by.
func newProcesses(in *Input, devices []*gpu.Device) []Process {
	var out []Process
	now := in.now()
	for _, d := range devices {
		list := d.Processes.Or(nil)
		shares := make([]attribute.Share, len(list))
		if in.Attribution != nil {
			if a := in.Attribution(d); a != nil && len(a.Shares) == len(list) {
				shares = a.Shares
			}
		}
		for i := range list {
			p := newProcess(d, len(in.Nodes) > 1, &list[i], shares[i].Power, now)
			p.Hue, p.Device = in.hue(&list[i]), in.BasePath+devicePath(d.UUID)
			out = append(out, p)
		}
	}
	return out
}

// now is when the newest reading was taken; before the first it is the present.
func (in *Input) now() time.Time {
	if len(in.Nodes) > 0 {
		return in.Nodes.Time()
	}
	return in.Now
}

func newProcess(d *gpu.Device, several bool, p *gpu.Process, power gpu.Reading[gpu.Watts], now time.Time) Process {
	f := &p.Facts
	out := Process{
		Key:     d.Node + "/" + d.UUID + "/" + strconv.Itoa(p.PID),
		GPU:     strconv.Itoa(d.Index),
		Name:    shown(programOf(p), longestName),
		Command: shown(f.Command, longestCommand),
		PID:     strconv.Itoa(p.PID),
		User:    shown(f.User, longestName),
		Type:    string(p.Type),
		Memory:  show(mebi(p.Memory), memory),
		SM:      show(engineShare(p), percent),
		Power:   show(num(power), watts),
		Place:   newPlace(f),
		Running: absent(f.Started.Quality()),
		d:       d, p: p, watts: num(power),
	}
	if several {
		out.GPU = clean(d.Node, longestName) + "/" + out.GPU
	}
	if gi, ok := p.GPUInstance.Get(); ok {
		out.GPU = say("MIG", out.GPU, strconv.Itoa(gi))
		out.Key += "/" + strconv.Itoa(gi)
	}
	if out.Command.Mark == Missing {
		out.Command.Text = say("command", out.Command.Text)
	}
	if !f.Exists.Or(true) {
		out.Name = Value{Text: say("ended"), Mark: Missing, Title: say("ended why")}
	} else if out.Name.Mark == Missing {
		out.Name = missing("someone")
	}
	if started, ok := f.Started.Get(); ok {
		out.Started = stamp(started)
		out.Running = Value{Text: between(started, now), Title: say("since", moment(started))}
	}
	out.main = strings.Join([]string{d.Node, out.PID}, "\x00")
	if job := placeOf(f); job != "" && job != clean(f.Unit.Or(gpu.Unit{}).Name, longestName) { // a unit may have much in it
		out.main = strings.Join([]string{d.Node, job, f.User.Or("")}, "\x00")
	} else if strings.HasSuffix(job, ".service") {
		out.main = strings.Join([]string{d.Node, job, f.User.Or(""), f.Program.Or("")}, "\x00")
	} else if f.Exists.Or(true) && f.User.Present() && f.Program.Present() && f.Command.Present() {
		out.main = strings.Join([]string{d.Node, f.User.Or(""), f.Program.Or(""), f.Command.Or("")}, "\x00")
	}
	return out
}

// engineShare is a process's share of the engine that it uses most.
func engineShare(p *gpu.Process) number {
	most := num(p.SM)
	for _, n := range []number{num(p.Encoder), num(p.Decoder), num(p.Video)} {
		if n.over(most) {
			most = n
		}
	}
	return most
}

// newPlace is where a process runs, by the name that people know best; "none" if in nothing known.
func newPlace(f *gpu.ProcessFacts) Value {
	text := placeOf(f)
	if text == "" && !f.Unit.Present() {
		return absent(f.Unit.Quality())
	}
	return Value{Text: cmp.Or(text, say("none"))}
}

// placeOf is the pod, container, job or unit of a process; empty if it has none, or if that is not
// known.
func placeOf(f *gpu.ProcessFacts) string {
	pod, container, job, unit := f.Pod.Or(gpu.Pod{}), f.Container.Or(gpu.Container{}), f.Job.Or(gpu.Job{}), f.Unit.Or(gpu.Unit{})
	text := unit.Name
	switch {
	case !pod.None():
		text = say("pod", cmp.Or(pod.Name.Or(""), pod.UID))
	case !container.None():
		text = say("container", cmp.Or(container.Name.Or(""), container.ID[:min(len(container.ID), 12)]))
	case !job.None():
		text = say("job", strconv.Itoa(job.ID))
	}
	return clean(text, longestName)
}

// newUnlisted names the devices whose processes can't be listed, or not all: they may have some.
func newUnlisted(devices []*gpu.Device, name func(*gpu.Device) string) string {
	var away, unlisted, partly []string
	for _, d := range devices {
		switch {
		case d.State == gpu.StateAsleep: // no program uses it
		case d.State != gpu.StateOK:
			away = append(away, name(d))
		case !d.Processes.Present():
			unlisted = append(unlisted, name(d))
		case d.ProcessesPartial.Or(false):
			partly = append(partly, name(d))
		}
	}
	of := func(text string, names []string) string { return either(len(names) == 0, "", say(text, list(names))) }
	return strings.TrimSpace(of("not answering", away) + " " + of("not listed", unlisted) + " " + of("others hidden", partly))
}
