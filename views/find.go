package views

import (
	"cmp"
	"context"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuwhy/gpuwhy/docs"
	"github.com/gpuwhy/gpuwhy/gpu"
)

// A FindPage is the view model of /find: what a search text matches.
type FindPage struct {
	in     *Input
	Asked  string
	Groups []FoundGroup
	part   bool // render the list only
}

// A FoundGroup is the matches of one kind.
type FoundGroup struct {
	Title string
	List  []Found
	Count string // how many of how many are listed; empty if all are
}

// A Found is one match.
type Found struct {
	Path, Icon, Hue string
	Name, Remark    string
	also            []string // further texts that it matches
	rank            int
}

// mostFound limits the matches listed of each kind.
const mostFound = 8

// NewFindPage makes the view model of /find.
func NewFindPage(in Input) FindPage {
	in.keep("q", "part")
	p := FindPage{in: &in, Asked: clean(strings.TrimSpace(in.Get("q")), longestName), part: in.Get("part") == "list"}
	words := strings.Fields(strings.ToLower(p.Asked))
	devices := in.devices()
	all := newProcesses(&in, devices)
	p.add("Pages", words, foundPages(&in))
	p.add("GPUs", words, foundDevices(&in, devices))
	p.add("Processes", words, foundProcesses(&in, all))
	p.add("Users", words, foundUsers(&in, all))
	if len(in.Nodes) > 1 {
		p.add("Machines", words, foundNodes(&in))
		p.add("Labels", words, foundLabels(&in))
	}
	p.add("Jobs, pods and containers", words, foundPlaces(&in, all))
	if len(words) > 0 { // best match first
		p.add("Guide", words, foundGuide(&in))
		slices.SortStableFunc(p.Groups, func(a, b FoundGroup) int { return a.List[0].rank - b.List[0].rank })
	}
	return p
}

// add adds the entries of a list that match all words.
func (p *FindPage) add(title string, words []string, list []Found) {
	out := FoundGroup{Title: title}
	for _, f := range list {
		if f.rank = rankOf(words, f.Name, strings.Join(append([]string{f.Remark}, f.also...), " "), f.Path); f.rank >= 0 {
			out.List = append(out.List, f)
		}
	}
	slices.SortStableFunc(out.List, func(a, b Found) int { return cmp.Compare(a.rank, b.rank) })
	if n := len(out.List); n > mostFound {
		out.Count = strconv.Itoa(mostFound) + " of " + strconv.Itoa(n)
	}
	if out.List = out.List[:min(len(out.List), mostFound)]; len(out.List) > 0 {
		p.Groups = append(p.Groups, out)
	}
}

// rankOf ranks a match: 0 is the name itself, then names that begin with the words, then names that contain them. Below 0
// there is no match.
func rankOf(words []string, name, remark, path string) int {
	name, remark = strings.ToLower(strings.ReplaceAll(name, nbsp, " ")), strings.ToLower(strings.ReplaceAll(remark, nbsp, " "))
	asked := strings.Join(words, " ")
	for _, w := range words {
		contains := func(token string) bool { // a short number matches only whole numbers
			_, err := strconv.Atoi(w)
			return token == w || (err != nil || len(w) > 2) && strings.HasPrefix(token, w)
		}
		if !strings.Contains(name, w) && !slices.ContainsFunc(strings.FieldsFunc(remark, func(r rune) bool { return r == ' ' || r == ',' }), contains) &&
			(len(w) < 4 || !strings.Contains(strings.ToLower(path), w)) {
			return -1
		}
	}
	switch {
	case len(words) == 0, name == asked, strings.HasSuffix(name, " "+asked):
		return 0
	case strings.HasPrefix(name, asked):
		return 1
	case strings.Contains(name, asked):
		return 2
	}
	return 3
}

func foundPages(in *Input) (out []Found) {
	for _, p := range in.shell("").Pages {
		remark := ""
		if p.Name == "Alerts" && p.Count != "" {
			remark = p.Count + " open"
		}
		out = append(out, Found{Path: p.Path, Icon: p.Icon, Name: p.Name, Remark: remark})
	}
	for _, p := range in.accessPages() {
		out = append(out, Found{Path: p.Path, Icon: "person", Name: p.Label, Remark: "who may do what"})
	}
	return append(out,
		Found{Path: in.BasePath + "past?from=last+night", Icon: "clock", Name: "Last night", Remark: "the past"},
		Found{Path: in.guide(""), Icon: "info", Name: "Guide", Remark: "how to use gpuwhy"},
		Found{Path: in.BasePath + "docs", Icon: "info", Name: "API", Remark: "for programs"},
	)
}

// foundGuide returns the pages of the guide that a reader of the page may look for.
func foundGuide(in *Input) (out []Found) {
	for name, title := range docs.Pages() {
		if !strings.Contains(name, "/") { // the others are for developers
			out = append(out, Found{Path: in.guide(name), Icon: "info", Name: title, Remark: "guide", also: []string{name}})
		}
	}
	return out
}

func foundDevices(in *Input, devices []*gpu.Device) (out []Found) {
	for _, d := range devices {
		remark := []string{clean(d.Name, longestName)}
		if d.State != gpu.StateOK {
			remark = append(remark, stateText(string(d.State)))
		} else {
			remark = append(remark, num(d.Thermal.GPU).text(celsius), num(d.Utilization.GPU).text(percent))
		}
		out = append(out, Found{Path: in.BasePath + devicePath(d.UUID), Icon: "chip", Name: in.name(d), Remark: dots(remark...)})
	}
	return out
}

// foundProcesses returns each process once, the highest power draw first.
func foundProcesses(in *Input, all []*Process) (out []Found) {
	plain := *in
	plain.Choices = Choices{Path: in.BasePath + "processes"}
	rows := grouped(all, "")
	new(ProcessTable).sort(plain.Choices, rows)
	for _, r := range rows {
		r.dress(&plain)
		var pids []string
		for _, p := range r.processes {
			if !slices.Contains(pids, p.PID) {
				pids = append(pids, p.PID)
			}
		}
		text := "pid " + strings.Join(pids[:min(len(pids), 3)], ", ")
		if len(pids) > 3 {
			text += " …"
		}
		out = append(out, Found{
			Path: string(r.Open), Icon: "list", Hue: r.Hue, Name: r.Name.Text,
			Remark: dots(r.User.Text, either(strings.HasSuffix(r.GPUs, "GPUs"), r.GPUs, "GPU "+r.GPUs), text),
		})
	}
	return out
}

func foundUsers(in *Input, all []*Process) (out []Found) {
	plain := *in
	plain.Choices = Choices{Path: in.BasePath + "processes"}
	rows := grouped(all, "user")
	new(ProcessTable).sort(plain.Choices, rows)
	for _, r := range rows {
		r.dress(&plain)
		if r.User.Mark != Missing {
			out = append(out, Found{Path: string(r.Open), Icon: "person", Hue: in.Hues.hueOf(r.User.Text), Name: r.User.Text, Remark: dots(r.Many, r.Power.Text)})
		}
	}
	return out
}

func foundNodes(in *Input) (out []Found) {
	for _, m := range in.Fleet.Moments() {
		remark, values := []string{gpuCount(len(m.Snapshot.Devices))}, []string{m.Place.Cluster}
		if m.Silent() {
			remark = append(remark, stateText(stateSilent))
		}
		for _, name := range m.Place.LabelNames() {
			value := clean(m.Place.Labels[name], longestName)
			remark, values = append(remark, clean(name, longestName)+"="+value), append(values, value)
		}
		out = append(out, Found{
			Path: in.nodePath(m.Snapshot.Node), Icon: "node", Name: clean(m.Snapshot.Node, longestName),
			Remark: dots(remark[:min(len(remark), mostRemarks)]...), also: append(values, remark...),
		})
	}
	return out
}

// mostRemarks limits the remarks about a node, which may have very many labels.
const mostRemarks = 5

// foundLabels returns the labels of nodes, each name and value once.
func foundLabels(in *Input) (out []Found) {
	type label struct{ name, value string }
	counts := map[label]int{}
	for _, m := range in.Fleet.Moments() {
		for name, value := range m.Place.Labels {
			counts[label{name, value}]++
		}
		if m.Place.Cluster != "" {
			counts[label{"", m.Place.Cluster}]++
		}
	}
	for _, chosen := range slices.SortedFunc(maps.Keys(counts), func(a, b label) int {
		return cmp.Or(strings.Compare(a.name, b.name), strings.Compare(a.value, b.value))
	}) {
		key, name := "cluster", "cluster "+clean(chosen.value, longestName)
		if chosen.name != "" {
			key, name = "label:"+chosen.name, clean(chosen.name, longestName)+"="+clean(chosen.value, longestName)
		}
		path := Choices{Path: in.BasePath + "nodes"}.Link("by", key, "of", asked(chosen.value))
		out = append(out, Found{Path: string(path), Icon: "node", Name: name, Remark: nodeCount(counts[chosen])})
	}
	return out
}

// foundPlaces returns the pods, containers, jobs and units in which processes run, the highest power draw first.
func foundPlaces(in *Input, all []*Process) (out []Found) {
	index := map[string]int{}
	var places [][]*Process
	for _, p := range all {
		if p.Place.Mark != Plain || p.Place.Text == "" || p.Place.Text == noneText {
			continue
		}
		i, found := index[p.Place.Text]
		if !found {
			i, index[p.Place.Text] = len(places), len(places)
			places = append(places, nil)
		}
		places[i] = append(places[i], p)
	}
	for _, these := range places {
		path := Choices{Path: in.BasePath + "processes"}.Link("group", "none", "place", these[0].Place.Text)
		out = append(out, Found{Path: string(path), Icon: "list", Hue: these[0].Hue, Name: these[0].Place.Text, Remark: dots(processCount(pids(these)), these[0].User.Text)})
	}
	return out
}

// Render writes the whole page as HTML, or only the list.
func (p FindPage) Render(ctx context.Context, w io.Writer) error {
	if p.part {
		return foundList(p).Render(ctx, w)
	}
	return document(p.in.head("Find · gpuwhy", ""), findBody(p)).Render(ctx, w)
}

// A NodesPage is the view model of /nodes, the list of machines.
type NodesPage struct {
	in   *Input
	List NodeList
}

// NewNodesPage makes the view model of /nodes.
func NewNodesPage(in Input) NodesPage {
	in.keep("by", "of", "sort", "from")
	return NodesPage{in: &in, List: newNodeList(&in, false)}
}

// countOrUnknown writes a count. Unknown says that there may be more.
func countOrUnknown(n int, unknown bool) string {
	switch {
	case !unknown:
		return strconv.Itoa(n)
	case n > 0:
		return strconv.Itoa(n) + ", others unknown"
	}
	return "unknown"
}

// Render writes the whole page as HTML, as [Page.Render] does.
func (p NodesPage) Render(ctx context.Context, w io.Writer) error {
	return document(p.in.head("Fleet · gpuwhy", ""), nodesBody(p)).Render(ctx, w)
}
