package explain

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// How a process is called whose name the host can't see, and one that does not
// exist any more.
const (
	unnamed = "a process"
	ended   = "a process that has ended"
	// leftBy begins a clause about what one has left behind.
	leftBy = "what a process that has ended"
)

// DeviceName is how a sentence calls a device: "GPU 0 (NVIDIA H100 PCIe)".
func DeviceName(d *gpu.Device) string {
	if d.Name == "" {
		return "GPU " + strconv.Itoa(d.Index)
	}
	return "GPU " + strconv.Itoa(d.Index) + " (" + nameOf(d.Name) + ")"
}

// ProcessName is how a sentence calls a process: "python (pid 4242, alice)", or
// "python (pid 4242, alice, container trainer)". One whose name the host can't
// see is "a process (pid 4242)", one that is gone "a process that has ended
// (pid 4242)".
func ProcessName(p *gpu.Process) string {
	name := unnamed
	if gone(p) {
		name = ended
	}
	if n, ok := p.Facts.Name.Get(); ok && n != "" {
		name = nameOf(n)
	}
	parts := []string{"pid " + strconv.Itoa(p.PID)}
	if user, ok := p.Facts.User.Get(); ok && user != "" {
		parts = append(parts, nameOf(user))
	}
	if home := belongsTo(&p.Facts); home != "" {
		parts = append(parts, home)
	}
	return name + " (" + strings.Join(parts, ", ") + ")"
}

// gone reports whether a process is known to exist no more.
func gone(p *gpu.Process) bool { return !p.Facts.Exists.Or(true) }

// belongsTo is what a process is part of, as people know it best: its pod, its
// container, its job, or the service that it belongs to; empty where it is
// part of none, or that is not known.
func belongsTo(f *gpu.ProcessFacts) string {
	if pod := f.Pod.Or(gpu.Pod{}); !pod.None() {
		if name := pod.Name.Or(""); name != "" {
			return "pod " + nameOf(strings.TrimPrefix(pod.Namespace.Or("")+"/"+name, "/"))
		}
		return "pod " + nameOf(pod.UID)
	}
	if c := f.Container.Or(gpu.Container{}); !c.None() {
		if name := c.Name.Or(""); name != "" {
			return "container " + nameOf(name)
		}
		return "container " + nameOf(c.ID[:min(len(c.ID), 12)])
	}
	if job := f.Job.Or(gpu.Job{}); !job.None() {
		return "job " + strconv.Itoa(job.ID)
	}
	if unit := f.Unit.Or(gpu.Unit{}); strings.HasSuffix(unit.Name, ".service") && !strings.HasPrefix(unit.Name, "user@") {
		return nameOf(unit.Name)
	}
	return ""
}

// How many characters of a text that is not ours a sentence has room for.
const (
	longestName = 80
	longestText = 400
)

// nameOf makes a name that a device or a process gave itself fit for a
// sentence.
func nameOf(s string) string { return clean(s, longestName) }

// textOf does so with what a source or the system says.
func textOf(s string) string { return clean(s, longestText) }

func clean(s string, longest int) string {
	if utf8.RuneCountInString(s) > longest {
		s = string([]rune(s)[:longest-1]) + "…"
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// sentence makes a sentence of clauses. It begins with a capital where the
// first word is ours; the name of a process stays as it is.
func sentence(clauses ...string) string {
	text := strings.TrimRight(strings.Join(clauses, "; "), ".")
	for _, ours := range []string{unnamed + " (", ended + " (", "a fan ", "a display ", leftBy, "being asked ", "fan ", "the fan ", "what can't ", "a part of GPU "} {
		if strings.HasPrefix(text, ours) {
			text = strings.ToUpper(text[:1]) + text[1:]
			break
		}
	}
	return text + "."
}

// number is a value rounded for people: "431", never "-0". Evidence has the
// value itself.
func number(v float64) string { return strconv.FormatInt(int64(math.Round(v)), 10) }

func withUnit(v float64, unit string) string {
	if unit == "" {
		return number(v)
	}
	return number(v) + " " + unit
}

// Span is how long something takes, as people say it: "40 s", "12 min".
func Span(d time.Duration) string {
	switch d = max(d, 0); {
	case d < 90*time.Second:
		return strconv.Itoa(int(d.Round(time.Second)/time.Second)) + " s"
	case d < 90*time.Minute:
		return strconv.Itoa(int(d.Round(time.Minute)/time.Minute)) + " min"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d.Round(time.Hour)/time.Hour)) + " h"
	default:
		return strconv.Itoa(int(d/(24*time.Hour))) + " days"
	}
}

// others is " with 2 other processes"; empty for none.
func others(n int) string {
	switch {
	case n <= 0:
		return ""
	case n == 1:
		return " with 1 other process"
	default:
		return fmt.Sprintf(" with %d other processes", n)
	}
}

// figures are the heat, power and fan of a device, as far as it reports them
// and they can be believed: "71 °C, 431 W of 450 W, fan at 66 %".
func (c *card) figures() string {
	var out []string
	if has(c.v.temp) {
		out = append(out, withUnit(c.v.temp, "°C"))
	}
	if has(c.v.power) {
		text := withUnit(c.v.power, "W")
		if has(c.v.limit) {
			text += " of " + withUnit(c.v.limit, "W")
		}
		out = append(out, text)
	}
	switch {
	case !has(c.v.fan):
	case c.v.fan == 0 && !c.v.turning():
		out = append(out, "fan off")
	default:
		out = append(out, "fan at "+withUnit(c.v.fan, "%"))
	}
	return strings.Join(out, ", ")
}

// figured is a clause with the figures after it, where it is the first about
// the device: it calls the device by its name.
func (c *card) figured(it, clause string) string {
	if f := c.figures(); f != "" && it == c.name {
		return clause + ", " + f
	}
	return clause
}

// aside is a clause with the figures in brackets, where it is the first about the
// device and ends with something else than what they are of.
func (c *card) aside(it, clause string) string {
	if f := c.figures(); f != "" && it == c.name {
		return clause + " (" + f + ")"
	}
	return clause
}

// figure is evidence that is a number.
func figure(name string, value float64, unit string, at time.Time) Evidence {
	text := withUnit(value, unit)
	if unit == "MiB" && value >= 1024 { // as the page has it
		text = strconv.FormatFloat(value/1024, 'f', 1, 64) + " GiB"
	}
	return Evidence{Name: name, Value: gpu.Of(value), Unit: unit, Text: text, At: at}
}

// happened is evidence that is a moment.
func happened(name string, at time.Time) Evidence {
	return Evidence{Name: name, Text: at.UTC().Format("2006-01-02 15:04:05 UTC"), At: at, Moment: true}
}

// fact is evidence that is a text.
func fact(name, text string, at time.Time) Evidence {
	return Evidence{Name: name, Text: text, At: at}
}

// proofs collects evidence; figures that are absent are left out.
type proofs struct {
	at   time.Time
	list []Evidence
}

func (p *proofs) figure(name string, value float64, unit string) *proofs {
	if has(value) {
		p.list = append(p.list, figure(name, value, unit, p.at))
	}
	return p
}

func (p *proofs) fact(name, text string) {
	if text != "" {
		p.list = append(p.list, fact(name, text, p.at))
	}
}

func (p *proofs) add(e ...Evidence) { p.list = append(p.list, e...) }

// heat is what a device reports of its heat, as evidence.
func (c *card) heat() *proofs {
	p := &proofs{at: c.at, list: make([]Evidence, 0, 8)}
	return p.figure("temperature", c.v.temp, "°C").
		figure("power draw", c.v.power, "W").
		figure("power limit", c.v.limit, "W").
		figure("fan, as commanded", c.v.fan, "%")
}
