package terminal

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/gpuwhy/gpuwhy/client"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// A pageKind says what a page is about.
type pageKind int

const (
	helpPage pageKind = iota
	machinePage
	gpuPage
	processPage
)

// A page is text in place of the tables. It is made of what is known at each frame, so it changes while it is read.
type page struct {
	kind pageKind
	key  string
	top  int
}

func (m *model) open(kind pageKind, key string) { m.page = &page{kind, key, 0} }

// detail opens the page of what is selected, or of the first row.
func (m *model) detail() tea.Cmd {
	if m.page != nil {
		m.page = nil
		return nil
	}
	keys := m.keysOf(m.focus)
	if len(keys) == 0 {
		return nil
	}
	if m.selected[m.focus] == "" {
		m.choose(m.focus, keys[0])
	}
	m.open(map[pane]pageKind{machinePane: machinePage, gpuPane: gpuPage, processPane: processPage}[m.focus], m.selected[m.focus])
	return nil
}

// A writer makes the lines of a page.
type writer struct {
	m     *model
	lines []row
}

func (w *writer) title(text string) {
	if len(w.lines) > 0 {
		w.lines = append(w.lines, row{})
	}
	var r row
	w.lines = append(w.lines, *r.add(plain, " ").add(heading, text))
}

// say adds a sentence, over as many lines as it takes.
func (w *writer) say(role role, indent int, text string) {
	for _, line := range wrap(text, w.m.width-2-indent, 12) {
		var r row
		w.lines = append(w.lines, *r.add(plain, strings.Repeat(" ", 1+indent)).add(role, line))
	}
}

// labels is the width of the labels of figures.
func (w *writer) labels() int { return min(44, max(28, w.m.width/4)) }

// fact adds a figure. Without a text there is nothing to say.
func (w *writer) fact(label, text string) {
	if text == "" {
		return
	}
	for i, line := range wrap(text, w.m.width-w.labels()-4, 4) {
		var r row
		w.lines = append(w.lines, *r.add(dim, "   "+fit(either(i == 0, clean(label), ""), w.labels()-2, false)+"  ").add(plain, line))
	}
}

func (w *writer) layers(l *client.Layers) {
	w.say(roleIf(l.Broken, bad, strong), 0, either(l.Broken, "! ", "")+l.Headline)
	var facts []string
	for _, f := range l.Facts {
		facts = append(facts, either(f.Warning, "! ", "")+f.Text)
	}
	w.say(plain, 0, strings.Join(facts, " · "))
	w.say(dim, 0, l.Rest)
	w.say(dim, 0, l.Action.Text)
	if l.Action.Command != "" {
		w.say(plain, 0, "to stop it: "+l.Action.Command)
	}
	for _, p := range l.Next {
		w.say(dim, 0, "next: "+p.Sentence)
	}
}

func (w *writer) causes(list []client.Cause) {
	zone := w.m.options.Zone
	for i := range list {
		c := &list[i]
		w.lines = append(w.lines, row{})
		w.say(strong, 0, c.Sentence)
		w.fact("certainty", c.Certainty)
		if c.Since != nil {
			w.fact("since", explain.Clock(moment(*c.Since).In(zone), time.DateTime))
		}
		for _, e := range c.Evidence {
			text := e.Text
			if e.Moment && e.At != nil {
				text = explain.Clock(moment(*e.At).In(zone), time.DateTime)
			}
			w.fact(e.Name, text)
		}
		w.fact("what helps", c.Advice)
	}
}

// rows are the lines of the page that are seen.
func (p *page) rows(m *model, room int) []row {
	w := &writer{m: m}
	u := m.shown().newest(m.node())
	switch {
	case p.kind == helpPage:
		w.help()
	case u == nil:
		w.say(dim, 0, "Waiting for the first reading.")
	case p.kind == machinePage:
		w.machine(u)
	case p.kind == gpuPage:
		w.gpu(u, p.key)
	default:
		w.process(u, p.key)
	}
	p.top = max(0, min(p.top, len(w.lines)-room))
	seen := w.lines[p.top:min(len(w.lines), p.top+room)]
	if below := len(w.lines) - p.top - len(seen); below > 0 {
		var r row
		seen = append(append([]row{}, seen[:len(seen)-1]...), *r.add(dim, fmt.Sprintf(" ↓ %d more lines", below+1)))
	}
	return seen
}

func (w *writer) help() {
	w.title("Keys")
	for _, b := range bindings {
		if b.when != nil && !b.when(w.m) {
			continue
		}
		var labels []string
		for _, k := range b.keys {
			labels = append(labels, k.label)
		}
		w.fact(strings.Join(labels, " "), b.help)
	}
	w.say(dim, 2, "The mouse selects a row, a second click opens it; a click on a title sorts, and the wheel scrolls.")
	w.title("Signs")
	w.fact(absent, "not reported; a 0 is a reading")
	w.fact("!", "near or beyond a limit, or broken")
	w.fact("76 °C?", "the driver reports it, but it is doubtful")
	w.fact("GPU %", "a process's share of the multiprocessors' time; on several GPUs the highest")
	w.fact("WATTS", "an estimate: the part of the GPU's power that falls to the process")
}

func (w *writer) machine(u *client.Update) {
	w.title(u.Node)
	w.layers(&u.Layers)
	w.say(plain, 0, u.Reason)
	w.causes(u.Causes)
	for _, note := range u.Notes {
		w.say(dim, 0, note)
	}
}

func (w *writer) gpu(u *client.Update, key string) {
	for i := range u.GPUs {
		if g := &u.GPUs[i]; gpuKey(g) == key {
			w.title(fmt.Sprintf("GPU %d  %s  %s", g.ID, g.Name, g.UUID))
			w.layers(&g.Layers)
			w.say(plain, 0, g.StateReason)
			for j := range u.Causes {
				if c := &u.Causes[j]; c.GPUUUID != nil && *c.GPUUUID == key {
					w.causes(u.Causes[j : j+1])
				}
			}
			w.title("Readings")
			w.readings(g)
			return
		}
	}
	w.say(dim, 0, "This GPU is not there any more.")
}

func (w *writer) readings(g *client.UpdateGPU) {
	used, total := pool(g)
	of := func(text, label string) string {
		if text == absent {
			return ""
		}
		if label == "of" {
			return " of " + text
		}
		return " · " + label + " " + text
	}
	w.fact("utilization", shown(g.Utilization.GPU, percent)+of(shown(g.Utilization.Memory, percent), "memory traffic")+of(shown(g.Utilization.Encoder, percent), "encoder")+of(shown(g.Utilization.Decoder, percent), "decoder"))
	w.fact("memory", shown(used, gibi)+"/"+shown(total, gibi)+" GiB")
	w.fact("temperature", shown(g.Temperature.GPU, celsius)+of(shown(g.Temperature.HotSpot, celsius), "hot spot")+of(shown(g.Temperature.Memory, celsius), "memory")+
		of(shown(g.Temperature.Slowdown, celsius), "slows down at")+of(shown(g.Temperature.Shutdown, celsius), "shuts down at"))
	w.fact("power", shown(g.Power.Draw, watts)+of(shown(g.Power.Limit, watts), "limit")+of(shown(g.Power.MaxLimit, watts), "at most")+of(shown(g.Attribution.IdleFloor, watts), "at rest"))
	for i, f := range g.Fans {
		w.fact("fan "+strconv.Itoa(i), shown(f.Commanded, percent)+of(shown(f.RPM, rpm), "turns at")+of(f.Policy.Or(absent), "set"))
	}
	if n, known := g.FanCount.Get(); known && n == 0 {
		w.fact("fan", "none of its own")
	}
	w.fact("clocks", shown(g.Clocks.SM, megahertz)+of(shown(g.Clocks.MaxSM, megahertz), "of")+of(shown(g.Clocks.Memory, megahertz), "memory"))
	if len(g.EventReasons) > 0 {
		w.fact("limited by", strings.ReplaceAll(strings.Join(g.EventReasons, ", "), "_", " "))
	}
	if g.PCIe.Generation.Present() {
		w.fact("PCIe", fmt.Sprintf("%d.0 ×%d, at most %d.0 ×%d", g.PCIe.Generation.Or(0), g.PCIe.Width.Or(0), g.PCIe.MaxGeneration.Or(0), g.PCIe.MaxWidth.Or(0)))
	}
	w.fact("performance state", pointed(g.PerformanceState))
	w.fact("reserved by", pointed(g.ReservedBy))
	for _, x := range g.Health.XIDs {
		w.fact("error "+strconv.Itoa(x.Code), fmt.Sprintf("%d× %s", x.Count, x.Meaning.Or("")))
	}
	for _, f := range g.Health.Faults {
		w.fact("fault", fmt.Sprintf("%d× %s  %s", f.Count, strings.ReplaceAll(f.Kind, "_", " "), f.Meaning.Or("")))
	}
	w.fact("driver", pointed(g.DriverVersion))
	w.fact("bus address", g.PCIBusID)
	w.fact("state", strings.ReplaceAll(g.State, "_", " ")+" since "+explain.Clock(moment(g.StateSince).In(w.m.options.Zone), time.DateTime))
	for _, r := range []client.Unexplained{g.Attribution.Memory.Unexplained, g.Attribution.Utilization.Unexplained, g.Attribution.Power.Unexplained} {
		w.fact("unaccounted", r.ReasonText)
	}
}

func (w *writer) process(u *client.Update, key string) {
	for _, e := range w.m.entries(u) {
		if e.key != key {
			continue
		}
		if e.group != "" {
			w.title(e.group)
			w.fact("processes", strconv.Itoa(e.count))
		} else {
			w.title(fmt.Sprintf("Process %d  %s", e.process.PID, cmp.Or(pointed(e.process.Program), e.process.Name)))
			w.facts(&e)
		}
		w.fact("GPUs", indexes(e.gpus))
		w.fact("GPU memory", shown(e.memory, size))
		w.fact("power", shown(e.power, watts)+" (an estimate)")
		return
	}
	w.say(dim, 0, "This process is not there any more.")
}

func (w *writer) facts(e *entry) {
	p := e.process
	w.fact("user", cmp.Or(e.user(), absent))
	w.fact("command", e.command())
	if c := p.Container; c != nil && c.ID != "" {
		w.fact("container", strings.TrimSpace(c.Runtime+" "+c.Name.Or("")+" "+c.ID))
		w.fact("image", c.Image.Or(""))
	}
	if pod := p.Pod; pod != nil && pod.UID != "" {
		w.fact("pod", pod.Namespace.Or("")+"/"+pod.Name.Or(pod.UID))
	}
	if j := p.SlurmJob; j != nil && j.ID != 0 {
		w.fact("Slurm job", strings.TrimSpace(strconv.Itoa(j.ID)+" "+j.Step))
	}
	if unit := p.Unit; unit != nil {
		w.fact("systemd unit", unit.Name)
	}
	if started, known := p.StartedAt.Get(); known {
		w.fact("started", explain.Clock(started.In(w.m.options.Zone), time.DateTime)+", "+explain.Span(e.at.Sub(started))+" ago")
	}
	w.fact("kind of work", p.Type)
	w.fact("GPU %", shown(e.use, percent))
	w.fact("CPU", shown(p.CPU, percent)+" of a core")
	w.fact("memory", shown(p.RSS, size)+" of the machine")
	for path, why := range p.Quality {
		w.fact(strings.ReplaceAll(path, "_", " "), strings.ReplaceAll(why, "_", " "))
	}
}
