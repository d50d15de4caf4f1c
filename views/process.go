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
	Hue     string // its color class
	Type    string
	Memory  Value
	SM      Value  // its share of its busiest engine
	Power   Value  // an estimate
	Place   Value  // the pod, container, job or unit that it runs in
	Running Value  // for how long
	Started string // RFC 3339; empty if unknown

	d     *gpu.Device
	p     *gpu.Process
	watts number
	main  group
}

// A group is what related processes share: a job, a container, or the program of one user.
type group struct {
	node, place, user, program, command string
	pid                                 int // set if it stands alone
}

// newProcesses returns the processes of some devices with all their texts.
func newProcesses(in *Input, devices []*gpu.Device) []*Process {
	all := bareProcesses(in, devices)
	for _, p := range all {
		p.dress(in)
	}
	return all
}

// bareProcesses returns the processes of some devices with only what grouping, sums and sorting need: of thousands few are shown, and only those are dressed.
func bareProcesses(in *Input, devices []*gpu.Device) []*Process {
	n := 0
	for _, d := range devices {
		n += len(d.Processes.Or(nil))
	}
	made, out := make([]Process, n), make([]*Process, 0, n)
	for _, d := range devices {
		list := d.Processes.Or(nil)
		if len(list) == 0 {
			continue
		}
		var shares []attribute.Share
		if in.Attribution != nil {
			if a := in.Attribution(d); a != nil && len(a.Shares) == len(list) {
				shares = a.Shares
			}
		}
		for i := range list {
			p := &made[len(out)]
			p.d, p.p, p.User, p.main = d, &list[i], shown(list[i].Facts.User, longestName), mainOf(d, &list[i])
			var power gpu.Reading[gpu.Watts]
			if shares != nil {
				power = shares[i].Power
			}
			p.watts = num(power)
			out = append(out, p)
		}
	}
	return out
}

// now returns the time of the newest reading, or the present before the first.
func (in *Input) now() time.Time {
	if len(in.Nodes) > 0 {
		return in.Nodes.Time()
	}
	return in.Now
}

// dress adds the texts of a process.
func (out *Process) dress(in *Input) {
	if out.Key != "" {
		return
	}
	d, p, now := out.d, out.p, in.now()
	f := &p.Facts
	out.Key = d.Node + "/" + d.UUID + "/" + strconv.Itoa(p.PID)
	out.GPU = strconv.Itoa(d.Index)
	out.Name = shown(programOf(p), longestName)
	out.Command = shown(f.Command, longestCommand)
	out.PID = strconv.Itoa(p.PID)
	out.Type = string(p.Type)
	out.Memory = show(mebi(p.Memory), memory)
	out.SM = show(engineShare(p), percent)
	out.Power = show(out.watts, watts)
	out.Place = newPlace(f)
	out.Running = absent(f.Started.Quality())
	out.Hue, out.Device = in.hue(p), in.BasePath+devicePath(d.UUID)
	if len(in.Nodes) > 1 {
		out.GPU = clean(d.Node, longestName) + "/" + out.GPU
	}
	if gi, ok := p.GPUInstance.Get(); ok {
		out.GPU = onInstance(out.GPU, gi)
		out.Key += "/" + strconv.Itoa(gi)
	}
	if out.Command.Mark == Missing {
		out.Command.Text = commandIs(out.Command.Text)
	}
	if !f.Exists.Or(true) {
		out.Name = missing(endedProcess)
	} else if out.Name.Mark == Missing {
		out.Name = missing(someProcess)
	}
	if started, ok := f.Started.Get(); ok {
		out.Started = stamp(started)
		out.Running = Value{Text: between(started, now), Title: sinceText(moment(started))}
	}
}

// mainOf returns the group that a process belongs to.
func mainOf(d *gpu.Device, p *gpu.Process) group {
	f := &p.Facts
	if job := placeOf(f); job != "" && job != clean(f.Unit.Or(gpu.Unit{}).Name, longestName) { // a unit may contain much
		return group{node: d.Node, place: job, user: f.User.Or("")}
	} else if strings.HasSuffix(job, ".service") {
		return group{node: d.Node, place: job, user: f.User.Or(""), program: f.Program.Or("")}
	} else if f.Exists.Or(true) && f.User.Present() && f.Program.Present() && f.Command.Present() {
		return group{node: d.Node, user: f.User.Or(""), program: f.Program.Or(""), command: f.Command.Or("")}
	}
	return group{node: d.Node, pid: p.PID}
}

// engineShare returns a process's share of its busiest engine.
func engineShare(p *gpu.Process) number {
	most := num(p.SM)
	for _, n := range []number{num(p.Encoder), num(p.Decoder), num(p.Video)} {
		if n.over(most) {
			most = n
		}
	}
	return most
}

// newPlace returns where a process runs, by its best-known name; "none" if it is in nothing known.
func newPlace(f *gpu.ProcessFacts) Value {
	text := placeOf(f)
	if text == "" && !f.Unit.Present() {
		return absent(f.Unit.Quality())
	}
	return Value{Text: cmp.Or(text, noneText)}
}

// placeOf returns the pod, container, job or unit of a process; empty if it has none, or if that is
// unknown.
func placeOf(f *gpu.ProcessFacts) string {
	pod, container, job, unit := f.Pod.Or(gpu.Pod{}), f.Container.Or(gpu.Container{}), f.Job.Or(gpu.Job{}), f.Unit.Or(gpu.Unit{})
	text := unit.Name
	switch {
	case !pod.None():
		text = podText(cmp.Or(pod.Name.Or(""), pod.UID))
	case !container.None():
		text = containerText(cmp.Or(container.Name.Or(""), container.ID[:min(len(container.ID), 12)]))
	case !job.None():
		text = jobText(job.ID)
	}
	return clean(text, longestName)
}

// newUnlisted names the devices whose processes can't all be listed, so they may have more.
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
	var said []string
	for _, part := range []struct {
		words func(string) string
		names []string
	}{{processesNotKnown, away}, {processesNotListed, unlisted}, {processesHidden, partly}} {
		if len(part.names) > 0 {
			said = append(said, part.words(list(part.names)))
		}
	}
	return strings.Join(said, " ")
}
