// Package explain says in words what a snapshot shows: pure functions from
// snapshots to plain English sentences. It knows no clock, no driver and no
// wire format.
package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// idleBelow is the utilization under which a device is not called busy.
const idleBelow gpu.Percent = 5

// Why answers "why is my GPU fan running?" in one sentence that names the
// busiest device and process. s may be nil: nothing was read yet.
func Why(s *gpu.Snapshot) string {
	if s == nil {
		return "The first reading is still under way."
	}
	if len(s.Devices) == 0 {
		return "No GPU can be read" + because(s.Failures) + "."
	}
	answering := devicesIn(s, gpu.StateOK)
	if len(answering) == 0 {
		return sentence(absentees(s))
	}
	busiest := slices.MaxFunc(answering, busier)
	return sentence(append([]string{deviceClause(busiest)}, absentees(s)...))
}

func because(failures []gpu.Failure) string {
	if len(failures) == 0 {
		return ""
	}
	return ": " + strings.TrimRight(failures[0].Advice.Text(), ".")
}

func devicesIn(s *gpu.Snapshot, state gpu.State) []*gpu.Device {
	var out []*gpu.Device
	for i := range s.Devices {
		if s.Devices[i].State == state {
			out = append(out, &s.Devices[i])
		}
	}
	return out
}

// busier orders devices by utilization, then power, then temperature. A
// device that doesn't report one of them ranks lowest in it.
func busier(a, b *gpu.Device) int {
	return cmp.Or(
		cmp.Compare(a.Utilization.GPU.Or(-1), b.Utilization.GPU.Or(-1)),
		cmp.Compare(a.Power.Draw.Or(-1), b.Power.Draw.Or(-1)),
		cmp.Compare(a.Thermal.GPU.Or(-300), b.Thermal.GPU.Or(-300)),
		cmp.Compare(b.Index, a.Index),
	)
}

// deviceClause says what the device does and who makes it.
func deviceClause(d *gpu.Device) string {
	util, known := d.Utilization.GPU.Get()
	if !known {
		if !hasFigures(d) {
			return DeviceName(d) + " has no readings now" + reason(d)
		}
		return join(DeviceName(d)+" does not report its utilization", "it is at ", figures(d))
	}
	if util < idleBelow {
		return join(fmt.Sprintf("%s is idle at %.0f %%", DeviceName(d), float64(util)), "", figures(d))
	}
	busy := fmt.Sprintf("%s busy at %.0f %%", DeviceName(d), float64(util))
	list, listed := d.Processes.Get()
	if culprits := Culprits(list); len(culprits) > 0 {
		return join(ProcessName(&culprits[0])+others(len(culprits)-1)+" keeps "+busy, "", figures(d))
	}
	blame := "no process is listed that explains it"
	if !listed {
		blame = "the driver does not say which process it is"
	}
	return join(fmt.Sprintf("%s is busy at %.0f %%", DeviceName(d), float64(util)), "", figures(d)) + ", and " + blame
}

func reason(d *gpu.Device) string {
	if text := d.Reason.Text(); text != "" {
		return ": " + text
	}
	return ""
}

func hasFigures(d *gpu.Device) bool { return len(figures(d)) > 0 }

// figures are the heat, power and fan of a device, as far as it reports them.
func figures(d *gpu.Device) []string {
	var out []string
	if t, ok := d.Thermal.GPU.Get(); ok {
		out = append(out, fmt.Sprintf("%.0f °C", float64(t)))
	}
	if w, ok := d.Power.Draw.Get(); ok {
		text := fmt.Sprintf("%.0f W", float64(w))
		if limit, ok := d.Power.EnforcedLimit.Get(); ok {
			text += fmt.Sprintf(" of %.0f W", float64(limit))
		}
		out = append(out, text)
	}
	if f, ok := d.Fans.Commanded().Get(); ok {
		out = append(out, fmt.Sprintf("fan at %.0f %%", float64(f)))
	}
	return out
}

func join(clause, lead string, figures []string) string {
	if len(figures) == 0 {
		return clause
	}
	return clause + ", " + lead + strings.Join(figures, ", ")
}

func others(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return " with 1 other process"
	default:
		return fmt.Sprintf(" with %d other processes", n)
	}
}

// absentees has a clause for each way in which devices are not there: these
// are never left out of an answer, since they may be the reason.
func absentees(s *gpu.Snapshot) []string {
	var out []string
	for _, in := range []struct {
		state     gpu.State
		one, many string
	}{
		{gpu.StateNotAnswering, "is not answering", "are not answering"},
		{gpu.StateLost, "is lost", "are lost"},
		{gpu.StateAsleep, "is asleep", "are asleep"},
	} {
		switch list := devicesIn(s, in.state); len(list) {
		case 0:
		case 1:
			out = append(out, DeviceName(list[0])+" "+in.one)
		default:
			out = append(out, fmt.Sprintf("%d GPUs %s", len(list), in.many))
		}
	}
	return out
}

// sentence begins with a capital where the first word is ours; the name of a
// process stays as it is.
func sentence(clauses []string) string {
	text := strings.Join(clauses, "; ")
	if text == "" {
		return ""
	}
	if strings.HasPrefix(text, unnamed+" (") {
		text = strings.ToUpper(text[:1]) + text[1:]
	}
	return strings.TrimRight(text, ".") + "."
}

// unnamed is how a process is called whose name the host can't see.
const unnamed = "a process"

// DeviceName is how a sentence calls a device: "GPU 0 (NVIDIA H100 PCIe)".
func DeviceName(d *gpu.Device) string {
	if d.Name == "" {
		return fmt.Sprintf("GPU %d", d.Index)
	}
	return fmt.Sprintf("GPU %d (%s)", d.Index, d.Name)
}

// ProcessName is how a sentence calls a process: "python (pid 4242, alice)";
// a process whose name the host can't see is "a process (pid 4242)".
func ProcessName(p *gpu.Process) string {
	name := p.Facts.Name.Or(unnamed)
	if user, ok := p.Facts.User.Get(); ok {
		return fmt.Sprintf("%s (pid %d, %s)", name, p.PID, user)
	}
	return fmt.Sprintf("%s (pid %d)", name, p.PID)
}

// Culprits are the processes that have work on the device, busiest first.
// Where none has a share (the driver takes no samples, or the work fell
// between two) they are those with a compute context, by memory.
func Culprits(list []gpu.Process) []gpu.Process {
	working := slices.DeleteFunc(slices.Clone(list), func(p gpu.Process) bool { return share(&p) <= 0 })
	if len(working) == 0 {
		working = slices.DeleteFunc(slices.Clone(list), func(p gpu.Process) bool { return p.Type == gpu.TypeGraphics })
	}
	slices.SortStableFunc(working, func(a, b gpu.Process) int {
		return cmp.Or(
			cmp.Compare(share(&b), share(&a)),
			cmp.Compare(b.Memory.Or(0), a.Memory.Or(0)),
			cmp.Compare(a.PID, b.PID),
		)
	})
	return working
}

// share is the largest of a process's engine shares; 0 where it has none.
func share(p *gpu.Process) gpu.Percent {
	return max(p.SM.Or(0), p.Encoder.Or(0), p.Decoder.Or(0))
}
