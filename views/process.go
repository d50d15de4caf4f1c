package views

import (
	"strconv"
	"time"

	"github.com/a-h/templ"

	"github.com/gpuwhy/gpuwhy/gpu"
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
	Running Value  // for how long
	Started string // RFC 3339; empty where that is not known
}

func newProcesses(s *gpu.Snapshot) []Process {
	var out []Process
	for i := range s.Devices {
		d := &s.Devices[i]
		for j := range d.Processes.Or(nil) {
			out = append(out, newProcess(d, &d.Processes.Or(nil)[j], s.Time))
		}
	}
	return out
}

func newProcess(d *gpu.Device, p *gpu.Process, now time.Time) Process {
	f := &p.Facts
	out := Process{
		Key:     d.Node + "/" + d.UUID + "/" + strconv.Itoa(p.PID),
		GPU:     strconv.Itoa(d.Index),
		Name:    shown(f.Name, longestName),
		Command: shown(f.Command, longestCommand),
		PID:     strconv.Itoa(p.PID),
		User:    shown(f.User, longestName),
		Type:    string(p.Type),
		Memory:  show(mebi(p.Memory), memory),
		SM:      show(num(p.SM), percent),
		Running: absent(f.Started.Quality()),
	}
	if gi, ok := p.GPUInstance.Get(); ok {
		out.GPU += " · MIG " + strconv.Itoa(gi)
		out.Key += "/" + strconv.Itoa(gi)
	}
	if out.Command.Mark == Missing {
		out.Command.Text = "command " + out.Command.Text
	}
	if started, ok := f.Started.Get(); ok {
		out.Started = started.UTC().Format("2006-01-02T15:04:05Z")
		out.Running = Value{Text: between(started, now), Title: "since " + started.UTC().Format("2006-01-02 15:04:05 UTC")}
	}
	return out
}

// newUnlisted names the devices whose processes can't be listed, which is not
// the same as having none.
func newUnlisted(s *gpu.Snapshot) string {
	var names []string
	for i := range s.Devices {
		if d := &s.Devices[i]; d.State == gpu.StateOK && !d.Processes.Present() {
			names = append(names, "GPU "+strconv.Itoa(d.Index))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "The driver does not list the processes of " + list(names) + "."
}

func (p Process) running() templ.Attributes {
	out := p.Running.attrs()
	if p.Started != "" {
		out["datetime"] = p.Started
	}
	return out
}
