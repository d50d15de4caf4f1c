package views

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

const (
	mostNodes  = 200 // rows of a page of /nodes
	mostOnWall = 500 // nodes of a page of tiles or squares
	fewNodes   = 5   // rows on the dashboard: nodes that stand out
	fewUsers   = 8   // rows on the dashboard
	mostGroups = 100 // groups of nodes listed
	fewGroups  = 12  // the same on the dashboard
	mostLabels = 50  // labels offered for grouping
)

// nowhere stands in addresses for nodes without a cluster, a rack or the label.
const nowhere = "~"

// A Silence says since when a node has been silent, and why.
type Silence struct {
	Since    time.Time
	Lasts    string // "12 min"
	Why, Try string
}

// A NodeNote is a problem with a node's updates.
type NodeNote struct{ What, Try string }

// A NodeRow is one node as a row.
type NodeRow struct {
	Key, Name, Path string
	Answer          string // the headline of its own page; in the past tense if it is silent
	Level           Level
	Hottest, Power  Value
	Busy            string // "3 of 8"
	Silence         *Silence
	Notes           []NodeNote

	moment *insight.Moment
	group  string // its group
}

// A NodeGroup is the nodes of one cluster or rack, or with one label value.
type NodeGroup struct {
	Key, Title string
	Says       string // "40 machines · 2 loud · 1 silent"
	Path       templ.SafeURL
	Level      Level
	Chosen     bool
	Rows       []NodeRow
}

// A NodeList is the nodes of a page, as its address selects.
type NodeList struct {
	Count  string // "412 machines"
	Bys    []Option
	Sorts  []Option
	Groups []NodeGroup // groups with rows on this page; one without a title if ungrouped
	All    []NodeGroup // all groups; none if ungrouped
	More   string      // how many groups are not in All
	Left   string      // how many nodes have no row on the dashboard
	Path   string      // address of /nodes
	pages
}

// pages says which rows are shown, with links to the previous and the next ones.
type pages struct {
	Listed        string
	Before, After templ.SafeURL
}

// paged selects the rows [from, to) of n by the choice "from".
func paged(address Choices, what string, n, most int) (p pages, from, to int) {
	from, _ = strconv.Atoi(address.Get("from"))
	from = min(max(from, 0), max(n-1, 0)) / most * most
	to = min(from+most, n)
	if n > most {
		p.Listed = what + " " + strconv.Itoa(from+1) + " to " + strconv.Itoa(to) + " of " + strconv.Itoa(n)
		if from > 0 {
			p.Before = address.Link("from", either(from > most, strconv.Itoa(from-most), ""))
		}
		if to < n {
			p.After = address.Link("from", strconv.Itoa(to))
		}
	}
	return p, from, to
}

// nodePath returns the address of a node's own page.
func (in *Input) nodePath(node string) string {
	return cmp.Or(in.Root, in.BasePath) + "node/" + url.PathEscape(node) + "/"
}

// member returns the newest Moment of a node; nil if only snapshots are known.
func (in *Input) member(node string) *insight.Moment {
	m, _ := in.Fleet.Node(node)
	return m
}

// silence describes a silent node; nil while updates arrive.
func (in *Input) silence(m *insight.Moment) *Silence {
	if m == nil || !m.Silent() {
		return nil
	}
	return &Silence{
		Since: m.Link.Silent, Lasts: lastsFor(m.Link.Silent, in.Now), Why: sentence(explain.Advice(m.Link.Why.What)), Try: sentence(explain.Advice(m.Link.Why.Try)),
	}
}

// silent reports whether a node sends no updates.
func (in *Input) silent(node string) bool {
	m := in.member(node)
	return m != nil && m.Silent()
}

func nodeNotes(m *insight.Moment) []NodeNote {
	return each(m.Link.Notes, func(a *gpu.Advice) NodeNote {
		return NodeNote{sentence(explain.Advice(a.What)), sentence(explain.Advice(a.Try))}
	})
}

// A grouping assigns nodes to groups. Its name is the one in the address.
type grouping struct {
	name  string
	value func(*insight.Moment) string // the group; empty for none
}

// grouping returns the grouping that the address selects; without one, all nodes are in one group.
func (in *Input) grouping() grouping {
	name := in.Get("by")
	none := grouping{"", func(*insight.Moment) string { return "" }}
	switch label, isLabel := strings.CutPrefix(name, "label:"); {
	case name == "cluster":
		return grouping{name, func(m *insight.Moment) string { return m.Place.Cluster }}
	case name == "rack":
		return grouping{name, func(m *insight.Moment) string {
			rack := m.Place.Rack()
			if m.Place.Cluster == "" || rack == "" {
				return rack
			}
			return m.Place.Cluster + " " + rack // two clusters may have racks of the same name
		}}
	case isLabel && label != "":
		return grouping{name, func(m *insight.Moment) string { return m.Place.Labels[label] }}
	}
	return none
}

// title returns the title of a group.
func (g grouping) title(value string) string {
	label, isLabel := strings.CutPrefix(g.name, "label:")
	switch {
	case value != "" && isLabel:
		return clean(label, longestName) + " = " + clean(value, longestName)
	case value != "":
		return clean(value, longestName)
	case isLabel:
		return "Without " + clean(label, longestName)
	case g.name != "":
		return "No " + g.name
	}
	return ""
}

// asked returns the name of a group in the address.
func asked(value string) string { return cmp.Or(value, nowhere) }

// bys returns the groupings that the nodes offer.
func (in *Input) bys() []Option {
	clusters, racks := false, false
	labels := map[string]bool{}
	for _, m := range in.Fleet.Moments() {
		clusters = clusters || m.Place.Cluster != ""
		racks = racks || m.Place.Rack() != ""
		for name := range m.Place.Labels {
			if len(labels) < mostLabels && !slices.Contains(insight.RackLabels, name) {
				labels[name] = true
			}
		}
	}
	out := []Option{{Label: "Not grouped"}}
	if clusters {
		out = append(out, Option{Value: "cluster", Label: "By cluster"})
	}
	if racks {
		out = append(out, Option{Value: "rack", Label: "By rack"})
	}
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		out = append(out, Option{Value: cut("label:" + name), Label: "By " + clean(name, longestName)})
	}
	for i := range out {
		out[i].Chosen = out[i].Value == in.Get("by")
	}
	if len(out) == 1 {
		return nil
	}
	return out
}

// nodeSorts lists the orders of nodes.
var nodeSorts = []Option{{Value: "", Label: "Worst first"}, {Value: "name", Label: "By name"}}

// levelOfNode returns how much attention a node needs.
func levelOfNode(s explain.Standing) Level {
	switch {
	case s == explain.Broken:
		return Bad
	case s > explain.Busy:
		return Near
	}
	return Normal
}

// newNodeRow makes the row of a node.
func newNodeRow(in *Input, m *insight.Moment) NodeRow {
	s := m.Snapshot
	r := NodeRow{
		Key: s.Node, Name: clean(s.Node, longestName), Path: in.nodePath(s.Node), Answer: sentence(strings.TrimSuffix(m.Answer.Headline, ".")),
		Silence: in.silence(m), Notes: nodeNotes(m), Level: levelOfNode(m.Standing()), group: in.grouping().value(m),
	}
	devices := slices.Collect(gpu.Nodes{s}.Devices())
	if r.Silence != nil {
		r.Hottest, r.Power, r.Busy = missing(stale), missing(stale), "unknown"
		return r
	}
	busy, unknown := 0, 0
	for _, d := range devices {
		switch works, known := in.works(d); {
		case works:
			busy++
		case !known:
			unknown++
		}
	}
	heat, _ := highest(devices, func(d *gpu.Device) number { return num(d.Thermal.GPU) })
	r.Hottest, r.Power = show(heat, celsius), show(num(gpu.Nodes{s}.Totals().PowerDraw), watts)
	r.Busy = countOrUnknown(busy, unknown > 0)
	if unknown == 0 {
		r.Busy = strconv.Itoa(busy) + " of " + strconv.Itoa(len(devices))
	}
	if len(devices) == 0 {
		r.Busy = "no GPU"
	}
	return r
}

// newNodeList lists the nodes that the address selects; with few, only those that stand out.
func newNodeList(in *Input, few bool) NodeList {
	l := NodeList{Count: nodeCount(len(in.Fleet.Moments())), Bys: in.bys(), Path: in.BasePath + "nodes"}
	for _, o := range nodeSorts {
		o.Chosen = o.Value == in.Get("sort")
		l.Sorts = append(l.Sorts, o)
	}
	way, value := in.grouping(), in.Get("of")
	var rows []NodeRow
	counts := map[string]*explain.Tally{}
	for _, m := range in.Fleet.Moments() {
		group, standing := way.value(m), m.Standing()
		if counts[group] == nil {
			counts[group] = new(explain.Tally)
		}
		counts[group][standing]++
		if way.name != "" && value != "" && asked(group) != value {
			continue
		}
		if !few || standing > explain.Busy || len(m.Link.Notes) > 0 {
			rows = append(rows, NodeRow{Key: m.Snapshot.Node, moment: m, group: group})
		}
	}
	slices.SortStableFunc(rows, func(a, b NodeRow) int {
		last := either01(a.group == "") - either01(b.group == "")
		worst := 0
		if few || in.Get("sort") != "name" {
			worst = insight.WorstFirst(a.moment, b.moment)
		}
		if few {
			return worst
		}
		return cmp.Or(last, strings.Compare(a.group, b.group), worst, strings.Compare(a.Key, b.Key))
	})
	from, to := 0, min(len(rows), fewNodes)
	if few {
		if n := len(rows) - to; n > 0 {
			l.Left = "and " + strconv.Itoa(n) + " more"
		}
	} else {
		l.pages, from, to = paged(in.Choices, "Machines", len(rows), mostNodes)
	}
	for _, r := range rows[from:to] {
		if n := len(l.Groups); n == 0 || !few && l.Groups[n-1].Key != asked(r.group) {
			g := NodeGroup{Key: asked(r.group)}
			if !few && way.name != "" {
				g.Title, g.Says = way.title(r.group), saysOf(counts[r.group])
			}
			l.Groups = append(l.Groups, g)
		}
		g := &l.Groups[len(l.Groups)-1]
		g.Rows = append(g.Rows, newNodeRow(in, r.moment))
	}
	if way.name == "" {
		return l
	}
	most := either2(few, fewGroups, mostGroups)
	for _, group := range slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		worst := 0
		if few && len(counts) > most { // only the worst have room
			worst = slices.Compare(badOf(counts[b]), badOf(counts[a]))
		}
		return cmp.Or(worst, either01(a == "")-either01(b == ""), strings.Compare(a, b))
	}) {
		if len(l.All) == most {
			l.More = "and " + strconv.Itoa(len(counts)-most) + " more groups"
			break
		}
		n, chosen := counts[group], asked(group) == value
		g := NodeGroup{
			Key: asked(group), Title: way.title(group), Says: saysOf(n), Chosen: chosen,
			Path: in.Link("of", either(chosen, "", asked(group)), "from", ""), Level: levelOfNode(n.Worst()),
		}
		l.All = append(l.All, g)
	}
	return l
}

// badOf counts the nodes of a group that stand out, worst standing first.
func badOf(n *explain.Tally) []int {
	var out []int
	for s := explain.Broken; s > explain.Busy; s-- {
		out = append(out, n[s])
	}
	return out
}

// saysOf counts nodes by standing. Nodes without a problem are not told apart.
func saysOf(n *explain.Tally) string {
	parts := []string{nodeCount(n.Nodes())}
	for s := explain.Broken; s >= explain.Busy; s-- {
		if n[s] > 0 {
			parts = append(parts, strconv.Itoa(n[s])+" "+s.String())
		}
	}
	return dots(parts...)
}

// A UserRow is what a user has on all GPUs now.
type UserRow struct {
	Key, Hue      string
	User          Value
	Path          templ.SafeURL // their processes
	GPUs, Nodes   int
	Memory, Power Value
}

// A UserTable shows who uses the GPUs of several nodes now.
type UserTable struct {
	Rows []UserRow
	Left string // how many users have no row
	All  string
	Past string // address of the usage in the past; empty if no history is kept
}

// newUserTable sums up processes by user, the highest power draw first.
func newUserTable(in *Input, all []*Process) UserTable {
	plain := *in
	plain.Choices = Choices{Path: in.BasePath + "processes"}
	rows := grouped(all, "user")
	new(ProcessTable).sort(plain.Choices, rows)
	t := UserTable{All: in.BasePath + "processes?group=user"}
	if n := len(rows) - fewUsers; n > 0 {
		t.Left = "and " + strconv.Itoa(n) + " more"
	}
	if in.HasPast {
		t.Past = in.BasePath + "past?from=-24h#past-use"
	}
	for _, r := range rows[:min(len(rows), fewUsers)] {
		r.dress(&plain)
		devices, nodes := map[*gpu.Device]bool{}, map[string]bool{}
		for _, p := range r.processes {
			devices[p.d], nodes[p.d.Node] = true, true
		}
		u := UserRow{Key: r.Key, Hue: in.Hues.hueOf(either(r.User.Mark == Plain, r.User.Text, "")), User: r.User, GPUs: len(devices), Nodes: len(nodes), Memory: r.Memory, Power: r.Power}
		if r.User.Mark == Plain {
			u.Path = r.Open
		}
		t.Rows = append(t.Rows, u)
	}
	return t
}
