package views

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight/attribute"
)

// A Process is one row of the process table.
type Process struct {
	Key     string // its device, pid and MIG instance
	GPU     string // "0", or "0 · MIG 3"
	Name    Value
	Command Value
	PID     string
	User    Value
	Type    string
	Memory  Value
	SM      Value
	Power   Value  // an estimate
	Place   Value  // where it runs: a pod, a container, a job or a unit
	Running Value  // for how long
	Started string // RFC 3339; empty where that is not known
}

// mostProcesses is how many rows the table has at most.
const mostProcesses = 200

// newProcesses are those of all devices; attribution is as in [Input].
func newProcesses(devices []*gpu.Device, several bool, attribution func(*gpu.Device) *attribute.Attribution, now time.Time) []Process {
	var out []Process
	for _, d := range devices {
		list := d.Processes.Or(nil)
		shares := make([]attribute.Share, len(list))
		if attribution != nil {
			shares = attribution(d).Shares
		}
		for i := range list {
			out = append(out, newProcess(d, several, &list[i], shares[i].Power, now))
		}
	}
	return out
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
		SM:      show(num(p.SM), percent),
		Power:   show(num(power), watts),
		Place:   newPlace(f),
		Running: absent(f.Started.Quality()),
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
	if started, ok := f.Started.Get(); ok {
		out.Started = stamp(started)
		out.Running = Value{Text: between(started, now), Title: say("since", moment(started))}
	}
	return out
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
	var unlisted, partly []string
	for _, d := range devices {
		switch {
		case d.State != gpu.StateOK:
		case !d.Processes.Present():
			unlisted = append(unlisted, name(d))
		case d.ProcessesPartial.Or(false):
			partly = append(partly, name(d))
		}
	}
	of := func(text string, names []string) string { return either(len(names) == 0, "", say(text, list(names))) }
	return strings.TrimSpace(of("not listed", unlisted) + " " + of("others hidden", partly))
}

func (p Process) running() templ.Attributes {
	return attributes("title", p.Running.Title, "data-mark", string(p.Running.Mark), "datetime", p.Started)
}
