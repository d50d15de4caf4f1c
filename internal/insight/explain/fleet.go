package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A Standing sums up the state of a node. The highest standing is the one that people should see first.
type Standing int

// The standings. If several apply to a node, it has the highest.
const (
	Resting Standing = iota // no work, and nothing is hot or loud
	Cooling                 // work has ended, but its heat remains
	Busy                    // there is work
	Loud                    // a GPU is close to its temperature limit, or its fan is fast
	Unread                  // it answers, but none of its GPUs can be read
	Silent                  // it is not reporting: its state is unknown, and it may be down
	Broken                  // a GPU is lost, is not answering or needs a reset, or a fan fails
	standings
)

// fast is the speed from which a fan counts as loud, in percent.
const fast = 60

// Broken reports whether the cause is that something is broken.
func (c *Cause) Broken() bool {
	switch c.Kind {
	case Lost, NotAnswering, NeedsAction, FanUnreadable:
		return true
	case NoDevice:
		return c.Case != WithoutCard // then nothing is wrong
	case MachineFan:
		return c.Case == caseStill
	case FanFailing:
		return c.Case != Unasked // in that case the fan turns
	default:
		return false
	}
}

// Broken reports whether something is broken, as the headline then says.
func (a *Answer) Broken() bool {
	if a.members != nil {
		return a.tally[Broken] > 0 || a.tally[Unread] == len(a.members)
	}
	causes := a.Main()
	for i := range causes {
		c := &causes[i]
		if leads := c.Headline != "" && strings.HasSuffix(a.Headline, c.Headline); leads || c.Device != nil || c.Kind == NoDevice {
			return c.Broken()
		}
	}
	return false
}

// Standing sums up the state of a device.
func (d *DeviceAnswer) Standing() Standing {
	switch {
	case len(d.Causes) > 0 && d.Causes[0].Broken():
		return Broken
	case d.loud:
		return Loud
	case d.working:
		return Busy
	case d.Cooling != nil:
		return Cooling
	default:
		return Resting
	}
}

// Standing returns the standing of a node that is not silent.
func (a *Answer) Standing() Standing {
	out := Resting
	for i := range a.Devices {
		out = max(out, a.Devices[i].Standing())
	}
	if len(a.Devices) > 0 {
		return out
	}
	for i := range a.Machine {
		switch c := &a.Machine[i]; {
		case c.Kind == NoDevice && c.Broken():
			out = max(out, Unread)
		case c.Broken():
			out = Broken
		case c.Kind == CPUHeat:
			out = max(out, Loud)
		case c.Kind == CPUWork:
			out = max(out, Busy)
		case c.Kind == CPUCooling:
			out = max(out, Cooling)
		}
	}
	return out
}

// Loudness returns how loud and hot the loudest device is, to compare nodes; 0 without devices.
func (a *Answer) Loudness() float64 {
	if len(a.ranked) == 0 {
		return 0
	}
	return a.ranked[0].loudness
}

// A Member is a node of a fleet, with the answer about it.
type Member struct {
	Node   string
	Silent bool // nothing arrives from it, and the answer is its last
	*Answer
}

// Standing returns the node's standing.
func (m Member) Standing() Standing {
	if m.Silent {
		return Silent
	}
	return m.Answer.Standing()
}

// WorstFirst orders nodes by what people should see first: by standing, then by how loud and hot they are, then by name. Headlines name the
// first of this order, and lists begin with it.
func WorstFirst(a, b Member) int {
	return cmp.Or(cmp.Compare(b.Standing(), a.Standing()), cmp.Compare(b.loudness(), a.loudness()), cmp.Compare(a.Node, b.Node))
}

// loudness returns the Loudness of a node that is not silent.
func (m Member) loudness() float64 {
	if m.Silent {
		return 0
	}
	return m.Loudness()
}

// String returns the standing in a few words.
func (s Standing) String() string { return s.word() }

// A Tally counts the nodes of each standing.
type Tally [standings]int

// Worst returns the highest standing of these nodes.
func (t *Tally) Worst() Standing {
	worst := standings - 1
	for worst > Resting && t[worst] == 0 {
		worst--
	}
	return worst
}

// Nodes returns the number of nodes.
func (t *Tally) Nodes() (n int) {
	for _, count := range t {
		n += count
	}
	return n
}

// headline says which of several nodes needs people first. node is the first of the nodes that the headline is about; what and was are its
// condition, in the present and in the past, and are empty if there is nothing to say.
func (t *Tally) headline(node, what, was string) (now, past string) {
	return t.tell(isNow, node, what), t.tell(wasThen, node, was)
}

func (t *Tally) tell(v verbs, node, what string) string {
	n, top := t.Nodes(), t.Worst()
	count := t[top]
	text := fleetHeadline(v, count, n, top)
	switch top {
	case Broken, Loud:
		text += fleetWorst(v, count, textOf(node), what)
		if t.besides(Silent) { // nobody knows what goes on there
			text += "; " + t.are(v, Silent)
		}
	case Silent, Unread:
		if count == 1 && node != "" {
			text += ", " + textOf(node)
		}
		rest := *t
		rest[Silent], rest[Unread] = 0, 0
		switch {
		case rest.Nodes() == 0:
		case t.besides(Loud):
			text += "; " + t.are(v, Loud)
		default:
			text += fleetOthers(v, rest[Busy] > 0)
		}
	case Busy, Cooling:
		text += fleetNone(v, top)
	}
	return strings.TrimRight(text, ".") + "."
}

// besides reports whether the headline mentions nodes of a standing beside the nodes that it is about.
func (t *Tally) besides(s Standing) bool {
	switch worst := t.Worst(); s {
	case Silent:
		return t[s] > 0 && worst == Broken
	case Loud:
		return t[s] > 0 && (worst == Silent || worst == Unread)
	default:
		return false
	}
}

// others counts the nodes that the headline is not about.
func (t *Tally) others() (out []string) {
	told := false
	for s := standings - 1; s >= Resting; s-- {
		switch {
		case t[s] == 0:
		case !told:
			told = true
		case t.besides(s):
		case s == Resting && t[Silent]+t[Unread]+t[Cooling]+t[Resting] == t.Nodes() && t[Cooling] == 0: // "the others are quiet"
		default:
			out = append(out, strconv.Itoa(t[s])+" "+s.String())
		}
	}
	return out
}

// Unseen answers somebody who may see none of the nodes.
func Unseen() Answer { return onlyCause(noMachineWords().cause(NoMachine, "").Cause) }

// onlyCause is the answer without a node.
func onlyCause(c Cause) Answer {
	return Answer{Sentence: c.Sentence, Machine: []Cause{c}, Layers: Layers{Headline: c.Sentence}}
}

// Combine answers for several nodes: how many of them need people, and which one comes first. Silent nodes count only as silent. A single
// answer is returned as it is; without answers, the result says that nothing has been read yet.
func Combine(members []Member) Answer {
	switch len(members) {
	case 0:
		return onlyCause(startingWords().cause(Starting, "").Cause)
	case 1:
		return *members[0].Answer
	}
	out := Answer{members: members}
	var silent *Member // the first silent one
	unread := ""
	for i := range members {
		m := &members[i]
		standing := m.Standing()
		out.tally[standing]++
		if standing == Silent {
			silent = cmp.Or(silent, m)
			continue
		}
		if standing == Unread {
			unread = cmp.Or(unread, m.Node)
		}
		out.add(m)
	}
	out.rank()
	worst := slices.MinFunc(members, WorstFirst).Node
	other := func(d *DeviceAnswer) int {
		if d.Device.Node == worst {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(out.ranked, func(x, y *DeviceAnswer) int {
		return cmp.Or(cmp.Compare(y.Standing(), x.Standing()), cmp.Compare(other(x), other(y)))
	})
	out.sayOfAll(silent, unread)
	return out
}

// add adds a node's answer.
func (a *Answer) add(m *Member) {
	if m.Time.After(a.Time) {
		a.Time = m.Time
	}
	for _, c := range m.Machine {
		if !slices.ContainsFunc(a.Machine, func(same Cause) bool { return same.Kind == c.Kind && same.Sentence == c.Sentence }) {
			c.ID += "@" + c.Node
			a.Machine = append(a.Machine, c)
		}
	}
	for _, d := range m.Devices {
		if d.Action.Command != "" {
			d.Action.Text = "On " + textOf(d.Device.Node) + ": " + d.Action.Text
		}
		d.Ways = slices.Clone(d.Ways)
		for i := range d.Ways {
			if d.Ways[i].Command != "" {
				d.Ways[i].Text += " on " + textOf(d.Device.Node)
			}
		}
		a.Devices = append(a.Devices, d)
	}
}

// sayOfAll makes the layers and the sentence for several nodes.
func (a *Answer) sayOfAll(silent *Member, unread string) {
	t := &a.tally
	var first *DeviceAnswer
	if len(a.ranked) > 0 {
		first = a.ranked[0]
	}
	worst := t.Worst()
	about := first != nil && first.Standing() == worst && worst >= Loud // the headline is about that device
	switch {
	case about:
		what := inside(strings.TrimRight(first.Headline, "."))
		was := inside(strings.TrimRight(cmp.Or(first.Past, first.Headline), "."))
		if who := first.Causes[0].Who; first.Standing() == Loud && who != "" {
			what, was = ofUser(who), ofUser(who)
		}
		a.Headline, a.Past = t.headline(first.Device.Node, what, was)
		a.Facts, a.Action, a.Ways = first.Facts, first.Action, first.Ways
	case worst == Broken, worst == Loud: // a machine without a GPU
		i := slices.IndexFunc(a.members, func(m Member) bool { return m.Standing() == worst })
		a.Headline, a.Past = t.headline(a.members[i].Node, "", "")
		a.Facts, a.Action = a.members[i].Facts, a.members[i].Action
	default:
		name := unread
		if silent != nil {
			name, a.Action = silent.Node, silent.Action
		}
		a.Headline, a.Past = t.headline(name, "", "")
		if busy := those(a.Devices, func(d *DeviceAnswer) bool { return d.working }); len(a.Devices) > 0 {
			a.Facts = []Fact{{Text: fmt.Sprintf("%d of %d GPUs busy", len(busy), len(a.Devices))}}
		}
	}
	rest := t.others()
	if about {
		if busy := those(a.Devices, func(d *DeviceAnswer) bool { return d.working && d != first }); len(busy) > 0 {
			rest = append(rest, Plural(len(busy), "other GPU busy", "other GPUs busy"))
		}
	}
	a.Rest = strings.Join(rest, " · ")
	if first == nil {
		a.Sentence = a.Headline
		return
	}
	a.Sentence = a.say()
	if first.Device.State == gpu.StateOK {
		a.Sentence = "On " + textOf(first.Device.Node) + ", " + inside(a.Sentence)
	}
	if n := t[Silent]; n > 0 {
		parts := []string{a.Sentence, silentNodes(n)}
		if worst == Silent {
			slices.Reverse(parts)
		}
		a.Sentence = together(parts)
	}
}

// ofUser returns who a headline names, as "train.py of mchen".
func ofUser(who string) string {
	name, after, found := strings.Cut(who, " (")
	user, rest, closed := strings.Cut(after, ")")
	if !found || !closed {
		return who
	}
	return name + " of " + user + rest
}

// Outlived is the answer about a node that has stopped reporting, made from its last answer: its snapshot is
// the current one, in which no reading is fresh, and why says what is known about the silence.
func Outlived(s *gpu.Snapshot, last *Answer, why gpu.Advice) Answer {
	out := Explain(s)
	then := func(l *Layers) Layers {
		past := cmp.Or(l.Past, l.Headline)
		return Layers{Headline: past, Past: past, Facts: l.Facts, Action: Action{Text: Advice(textOf(why.Try))}}
	}
	out.Time, out.Layers = last.Time, then(&last.Layers)
	what := cmp.Or(textOf(why.What), nothingComes)
	out.Sentence = sentence(capital(what), lastHeard(inside(strings.TrimRight(out.Headline, "."))))
	// The device that was first stays first, since a page shows the device that its headline is about.
	place := func(d *DeviceAnswer) int {
		for i, was := range last.ranked {
			if was.Device.UUID == d.Device.UUID {
				return i
			}
		}
		return len(last.ranked)
	}
	slices.SortStableFunc(out.ranked, func(x, y *DeviceAnswer) int { return cmp.Compare(place(x), place(y)) })
	for i := range out.Devices {
		d := &out.Devices[i]
		j := slices.IndexFunc(last.Devices, func(was DeviceAnswer) bool { return was.Device.UUID == d.Device.UUID })
		if j < 0 {
			continue
		}
		d.Layers = then(&last.Devices[j].Layers)
		d.Sentence = sentence(capital(what), lastHeard(inside(strings.TrimRight(d.Headline, "."))))
	}
	return out
}
