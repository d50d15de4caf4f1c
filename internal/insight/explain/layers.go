package explain

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// Layers are an answer in layers of increasing length. Everything that tells people why uses them.
type Layers struct {
	// Headline is the answer in at most ten words and 60 characters, not counting names. Its only figure is the time until the device is
	// quiet.
	Headline string
	Past     string // the headline in the past tense, for old readings: "train.py was heating GPU 6."
	Facts    []Fact // its evidence; at most four
	Rest     string // what else there is to know, in one line; may be empty
	Action   Action // what would end it; zero if there is nothing to do
	Ways     []Way  // the same as a list
}

// A Fact is a short text such as "85 °C".
type Fact struct {
	Text    string
	Warning bool // close to a limit, or beyond it
}

// An Action is something that a person can do. gpuwhy never does it.
type Action struct {
	Text    string // one or two sentences
	Command string // the exact command for it; empty if there is none
}

const mostFacts = 4

// short names a device in a headline: "the GPU" if its machine has only one.
func (d *device) short() string {
	if len(d.all) == 1 {
		return "the GPU"
	}
	return "GPU " + strconv.Itoa(d.Index)
}

// fans names a device's fans in a headline; they mostly turn as one.
func (d *device) fans() string {
	if len(d.all) == 1 {
		return "your fan"
	}
	return d.short() + "'s fan"
}

// ShortName names a process in a headline: "train.py (ann)".
func ShortName(p *gpu.Process) string {
	name := called(p)
	if user := p.Facts.User.Or(""); user != "" {
		name += " (" + userName(user) + ")"
	}
	return name
}

// GPU names the device at the beginning of a headline.
func (h *heading) GPU() string { return capital(h.gpu) }

// Fans names the fans at the beginning of a headline.
func (h *heading) Fans() string { return capital(h.fans) }

// Who names those who work at the beginning of a headline. A process's name is not capitalized.
func (h *heading) Who() string {
	if strings.HasPrefix(h.who, "a process") {
		return capital(h.who)
	}
	return h.who
}

// heading returns the names in a device's headline: the device, the processes, and the time until it is quiet.
func (d *device) heading(f *finding) heading {
	who := d.blamed(f.Kind)
	h := heading{gpu: d.short(), fans: d.fans(), who: who.name, several: who.several}
	if f.Kind == FanFailing && len(d.Fans.Fans) > 1 && f.fanName != "the fan" {
		h.fans = f.fanName + " of " + d.short()
	}
	if f.Kind == CoolingDown {
		if t, known := d.m.toQuiet(); known {
			h.left = Span(roundUp(t))
		}
	}
	return h
}

// whose is how a headline names those who work or worked.
type whose struct {
	name    string
	several bool
}

// whoIs returns the process that a cause of this kind names, which may have others beside it; empty if it names none.
func (d *device) whoIs(kind Kind) string {
	if kind == HotForPower || kind == CoolingDown && d.m.work.hottest() == nil && (d.m.cooling == nil || !d.m.cooling.released) {
		return "" // these are not processes
	}
	return d.blamed(kind).name
}

// blamed returns those whom a headline names.
func (d *device) blamed(kind Kind) (w whose) {
	hottest := d.m.work.hottest()
	switch kind {
	case Work, LimitedByHeat:
		switch {
		case d.between():
			w.name = ShortName(&hottest.process)
		case len(d.culprits) == 0, kind == LimitedByHeat && (d.hidden() || d.guessed()):
		default:
			named := d.named()
			w.name = ShortName(named[0])
			switch partners := d.partners(named[0]); len(partners) {
			case 0:
			case 1:
				w = whose{w.name + " and " + ShortName(partners[0]), true}
			default:
				w = whose{manyNames(w.name), true}
			}
		}
	case CoolingDown:
		if c := d.m.cooling; c != nil && c.released {
			if c.holder.PID != 0 {
				w.name = ShortName(&c.holder)
			}
			break
		}
		if w.name = unseenWork; hottest != nil {
			w.name = ShortName(&hottest.process)
		}
	case HeldAwake:
		if h := d.holders(); len(h) > 0 {
			w.name = ShortName(h[0])
		} else if p := d.drawer(); p != nil && d.reasons&gpu.ReasonApplicationClocks == 0 {
			w.name = ShortName(p)
		}
	case HotForPower:
		if neighbor := d.working(); neighbor != nil {
			w.name = neighbor.short()
		}
	}
	return w
}

// headline returns the headline of a device with this first cause, in the present and in the past tense.
func (d *device) headline(first *finding) (now, past string) {
	h := d.heading(first)
	if off := d.fan == 0 && !(d.rpm > 0); off && len(d.all) == 1 {
		switch {
		case first.Kind == Idle && (first.Case == caseIdle || first.Case == caseCool):
			return fanOffHeadline()
		case first.Kind == Work && h.who != "" && first.Confidence == High:
			return fanOffAtWorkHeadline(h)
		case first.Kind == CoolingDown:
			return fanOffCoolingHeadline()
		}
	}
	if first.Kind == Work && first.Case == caseProcesses && d.video >= idleBelow && d.video > orElse(d.util, 0) {
		does := decodingVideo
		switch {
		case believed(d.Utilization.Video, 0, 100) >= d.video:
			does = anyVideo
		case believed(d.Utilization.Encoder, 0, 100) >= d.video:
			does = encodingVideo
		}
		return videoHeadline(h, does, d.fan > 0 || d.rpm > 0)
	}
	if first.headline == nil {
		return "", ""
	}
	return first.headline(h)
}

// layers returns the layers of a device with this first cause.
func (d *device) layers(first *finding, others []Cause) Layers {
	l := Layers{Facts: d.facts(first)}
	l.Headline, l.Past = d.headline(first)
	var rest []string
	if since := first.Since; d.State == gpu.StateOK && d.age(since) >= 5*time.Second {
		lasts := Span(d.age(since))
		switch first.Kind {
		case CoolingDown:
			rest = append(rest, d.sinceThen()+" "+lasts+" ago")
		case Work:
			rest = append(rest, d.workLasts())
		default:
			rest = append(rest, "for "+lasts)
		}
	}
	if first.Kind == Work && len(d.named()) > 1 {
		rest = append(rest, othersWork(len(d.named())-1))
	}
	for _, c := range others {
		said := func(f Fact) bool { return f.Text == c.Short }
		if c.Short != "" && len(rest) < 3 && !slices.ContainsFunc(l.Facts, said) {
			rest = append(rest, c.Short)
		}
	}
	l.Rest = strings.Join(rest, " · ")
	l.Action = Action{Text: first.Advice, Command: d.command(first.Kind, first.Case)}
	l.Ways = d.ways(first)
	return l
}

// sinceThen says what started a cool-down: somebody stopped, or slowed down, or let the device go.
func (d *device) sinceThen() string {
	c := d.m.cooling
	switch {
	case c == nil, c.unseen:
	case c.released:
		return letGo
	default:
		if h := d.m.work.hottest(); h != nil {
			if p := d.livesOn(&h.process); p != nil && processShare(p) >= 1 && processShare(p) < strong {
				return slowedDown
			}
		}
	}
	return stopped
}

// facts returns the readings that say most about a kind of cause.
func (d *device) facts(first *finding) []Fact {
	var out []Fact
	kind := first.Kind
	add := func(text string, warning bool) {
		if text != "" && len(out) < mostFacts {
			out = append(out, Fact{text, warning})
		}
	}
	temp, power, fan := "", "", ""
	if present(d.temp) {
		temp = withUnit(d.temp, "°C")
	}
	if present(d.power) {
		if power = withUnit(d.power, "W"); present(d.limit) {
			power = number(d.power) + " W of " + number(d.limit)
		}
	}
	switch {
	case d.fan == 0 && !(d.rpm > 0):
		fan = "fan off"
	case present(d.fan):
		fan = "fan " + d.fanSpeed()
		if c := d.m.cooling; c != nil && d.fan < d.m.work.endFan-3 {
			fan += " falling"
		}
	}
	hot := d.temp >= d.slowdown-10
	video := ""
	if d.video >= idleBelow && d.video > orElse(d.util, 0) {
		video = "video " + withUnit(d.video, "%")
	}
	switch kind {
	case Lost, NotAnswering, Asleep, NoReadings:
		if first.Case == caseMemoryAlone {
			add(d.memoryUse(), false)
		}
		add(textOf(d.Reason.What), kind == Lost)
		if kind != NoReadings && d.s.Time.Sub(d.Since) >= 5*time.Second && !d.Since.IsZero() {
			add("for "+Span(d.s.Time.Sub(d.Since)), false)
		}
		return out
	case HeldAwake:
		add(power, false)
		if present(d.clock) {
			add(withUnit(d.clock, "MHz"), false)
		}
		add(temp, hot)
		add(fan, false)
	case FanFailing:
		for _, e := range first.Evidence { // of the failing fan
			switch {
			case strings.HasSuffix(e.Name, ", as commanded"):
				add("fan told "+e.Text, true)
			case strings.HasSuffix(e.Name, ", measured"):
				add(e.Text, true)
			}
		}
		add(temp, hot)
		add(power, false)
	case NeedsAction, FanUnreadable:
		add(textOf(d.Reason.What), true)
		add(temp, hot)
		add(power, false)
		add(fan, false)
	case FanByHand, FanAtRest, CoolingDown:
		add(fan, false)
		add(temp, hot)
		add(power, false)
	default:
		add(video, false)
		add(temp, hot)
		if d.hotSpot >= 100 {
			add("hot spot "+withUnit(d.hotSpot, "°C"), true)
		}
		if memory := believed(d.Thermal.Memory, coldest, hottest); memory >= 90 {
			add("memory "+withUnit(memory, "°C"), true)
		}
		add(power, false)
		add(fan, false)
		switch {
		case d.reasons&reasonsOfHeat != 0:
			out = out[:min(len(out), mostFacts-1)]
			add("slowed by heat", true)
		case d.reasons&gpu.ReasonPowerCap != 0 && d.doing == working:
			add("at its power limit", false)
		}
	}
	return out
}

// leads reports whether a cause of the machine has the headline: if there is a device, only another fan of its node does.
func (a *Answer) leads(c *Cause) bool {
	return len(a.ranked) > 0 && c.Kind == OtherFan && c.Node == a.ranked[0].Device.Node
}

// layerAlone makes the layers of machines without a device: why their fans run, or that no device can be read.
func (a *Answer) layerAlone(found []machineFinding) {
	gone := slices.IndexFunc(a.Machine, func(c Cause) bool { return c.Kind == NoDevice })
	lead := slices.IndexFunc(a.Machine, func(c Cause) bool { return c.Headline != "" })
	var rest []string
	if lead >= 0 && (gone < 0 || lead < gone) {
		c := &a.Machine[lead]
		a.Layers = Layers{Headline: c.Headline, Past: found[lead].past, Action: Action{c.Advice, c.command}}
		if c.command != "" {
			a.Ways = []Way{{endIt, c.command}}
		} else if c.Advice != "" {
			a.Ways = []Way{{c.Advice, ""}}
		}
		for _, e := range firsts(c.Evidence, mostFacts) {
			a.Facts = append(a.Facts, Fact{e.Name + " " + e.Text, e.Unit == "°C" && e.Value.Or(0) >= veryHot})
		}
		if lasts := a.Time.Sub(c.Since); !c.Since.IsZero() && lasts >= 5*time.Second && c.Kind != CPUCooling {
			rest = append(rest, "for "+Span(lasts))
		}
	} else {
		a.Headline, a.Past = noGPUHeadline()
		if lead >= 0 {
			rest = append(rest, strings.TrimRight(a.Machine[lead].Headline, "."))
		}
	}
	for i := range a.Machine {
		if c := &a.Machine[i]; c.Short != "" && i != lead {
			rest = append(rest, c.Short)
		}
	}
	a.Rest = strings.Join(append(rest, a.traffic...), " · ")
}

// otherDevices says what else there is to know about devices other than lead: what is broken, what is loud without work, and who works if
// lead doesn't. It gives the headline of one of each, and how many more there are.
func (a *Answer) otherDevices(lead *DeviceAnswer) (out []string) {
	tell := func(wanted func(*DeviceAnswer) bool, more string) {
		var first *DeviceAnswer
		n := 0
		for _, d := range a.ranked {
			if d != lead && d.Device.State == gpu.StateOK && d.Device.Node == lead.Device.Node && wanted(d) {
				first = cmp.Or(first, d)
				n++
			}
		}
		if first == nil || first.Headline == "" {
			return
		}
		text := strings.TrimRight(first.Headline, ".")
		if n > 1 && more != "" {
			text += alsoOthers(n-1, more)
		}
		out = append(out, text)
	}
	tell(func(d *DeviceAnswer) bool { return d.Standing() == Broken }, "broken")
	tell(func(d *DeviceAnswer) bool {
		return d.Standing() == Loud && (!d.working || d.heated() && !lead.heated())
	}, "loud")
	if !lead.working && lead.Device.State == gpu.StateOK {
		tell(func(d *DeviceAnswer) bool { return d.working && d.Standing() != Broken }, "")
	}
	return out
}

// heated reports whether heat is the first thing to report about a device, whoever works on it.
func (a *DeviceAnswer) heated() bool {
	return len(a.Causes) > 0 && (a.Causes[0].Kind == LimitedByHeat || a.Causes[0].Kind == HotForPower)
}

// layer makes the machine's layers: those of the first cause, and what else goes on.
func (a *Answer) layer(found []machineFinding) {
	if len(a.ranked) == 0 {
		a.layerAlone(found)
		return
	}
	var rest []string
	for i := range a.Machine {
		if c := &a.Machine[i]; c.Headline != "" && a.Headline == "" && a.leads(c) {
			a.Layers = Layers{Headline: c.Headline, Past: found[i].past, Action: Action{Text: c.Advice}}
			for _, e := range firsts(c.Evidence, mostFacts) {
				a.Facts = append(a.Facts, Fact{Text: e.Name + " " + e.Text})
			}
		}
	}
	lead := a.ranked[0]
	told := a.Headline != ""
	if !told {
		a.Layers = lead.Layers
	} else {
		rest = append(rest, strings.TrimRight(lead.Headline, "."))
	}
	if a.Rest != "" {
		rest = append(rest, a.Rest)
	}
	rest = append(rest, a.otherDevices(lead)...)
	named := func(d *DeviceAnswer) bool { return slices.Contains(rest, strings.TrimRight(d.Headline, ".")) }
	if busy := those(a.Devices, func(d *DeviceAnswer) bool { return d.working && d != lead && !named(d) }); len(busy) > 0 {
		rest = append(rest, Plural(len(busy), "other GPU busy", "other GPUs busy"))
	}
	if n := len(a.Devices); !told && n > 1 && !slices.ContainsFunc(a.Devices, func(d DeviceAnswer) bool { return d.working || !d.quiet }) && a.ranked[0].quiet {
		switch {
		case !slices.ContainsFunc(a.Devices, func(d DeviceAnswer) bool { return d.hasFan }):
			a.Headline, a.Past = nothingWorksHeadline()
		case !slices.ContainsFunc(a.Devices, func(d DeviceAnswer) bool { return !d.off }):
			a.Headline, a.Past = fansOffHeadline()
		default:
			a.Headline, a.Past = fansRestHeadline()
		}
	}
	if lead.Device.State != gpu.StateOK || lead.needs() && !lead.working { // people hear another fan
		if i := slices.IndexFunc(a.ranked, func(d *DeviceAnswer) bool { return d.working && d != lead && d.Device.State == gpu.StateOK }); i >= 0 && !named(a.ranked[i]) {
			rest = append(rest, strings.TrimRight(a.ranked[i].Headline, "."))
		}
	}
	for _, text := range a.absentees() {
		if !strings.HasPrefix(text, DeviceName(lead.Device)) {
			rest = append(rest, text)
		}
	}
	a.Rest = strings.Join(rest, " · ")
}
