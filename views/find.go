package views

import (
	"cmp"
	"context"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A FindPage has what was found by a few letters.
type FindPage struct {
	in     *Input
	Asked  string
	Groups []FoundGroup
	part   bool // the list alone is asked for
}

// A FoundGroup is what was found of one kind.
type FoundGroup struct {
	Title string
	List  []Found
}

// A Found is one thing that was found.
type Found struct {
	Path, Icon, Hue string
	Name, Remark    string
	rank            int
}

// mostFound is how many of a kind are listed.
const mostFound = 8

// NewFindPage makes the view model.
func NewFindPage(in Input) FindPage {
	in.keep("q", "part")
	p := FindPage{in: &in, Asked: clean(strings.TrimSpace(in.Choices.Of("q")), longestName), part: in.Choices.Of("part") == "list"}
	words := strings.Fields(strings.ToLower(p.Asked))
	devices := in.devices()
	all := newProcesses(&in, devices)
	p.add("Pages", words, foundPages(&in))
	p.add("GPUs", words, foundDevices(&in, devices))
	p.add("Processes", words, foundProcesses(&in, all))
	p.add("Users", words, foundUsers(&in, all))
	if len(in.Nodes) > 1 {
		p.add("Nodes", words, foundNodes(&in))
	}
	if len(words) > 0 { // what fits best comes first
		slices.SortStableFunc(p.Groups, func(a, b FoundGroup) int { return a.List[0].rank - b.List[0].rank })
	}
	return p
}

// add adds those of a list that have each of the words.
func (p *FindPage) add(title string, words []string, list []Found) {
	out := FoundGroup{Title: title}
	for _, f := range list {
		if f.rank = rankOf(words, f.Name, f.Remark, f.Path); f.rank >= 0 {
			out.List = append(out.List, f)
		}
	}
	slices.SortStableFunc(out.List, func(a, b Found) int { return cmp.Compare(a.rank, b.rank) })
	if out.List = out.List[:min(len(out.List), mostFound)]; len(out.List) > 0 {
		p.Groups = append(p.Groups, out)
	}
}

// rankOf says how well a name fits: 0 is the name itself, then names that begin with the words, and those that have them; below 0
// is what does not fit.
func rankOf(words []string, name, remark, path string) int {
	name, remark = strings.ToLower(strings.ReplaceAll(name, nbsp, " ")), strings.ToLower(strings.ReplaceAll(remark, nbsp, " "))
	asked := strings.Join(words, " ")
	for _, w := range words {
		has := func(token string) bool { // a short number is the whole of one
			_, err := strconv.Atoi(w)
			return token == w || (err != nil || len(w) > 2) && strings.HasPrefix(token, w)
		}
		if !strings.Contains(name, w) && !slices.ContainsFunc(strings.FieldsFunc(remark, func(r rune) bool { return r == ' ' || r == ',' }), has) &&
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
	return append(out,
		Found{Path: in.BasePath + "past?from=last+night", Icon: "clock", Name: "Last night", Remark: "the past"},
		Found{Path: in.BasePath + "docs", Icon: "info", Name: "API", Remark: "for programs"},
	)
}

func foundDevices(in *Input, devices []*gpu.Device) (out []Found) {
	for _, d := range devices {
		remark := []string{clean(d.Name, longestName)}
		if d.State != gpu.StateOK {
			remark = append(remark, say("state "+string(d.State)))
		} else {
			remark = append(remark, num(d.Thermal.GPU).text(celsius), num(d.Utilization.GPU).text(percent))
		}
		out = append(out, Found{Path: in.BasePath + devicePath(d.UUID), Icon: "chip", Name: in.name(d), Remark: dots(remark...)})
	}
	return out
}

// foundProcesses has each process once, the one that draws most first.
func foundProcesses(in *Input, all []Process) (out []Found) {
	plain := *in
	plain.Choices = Choices{Path: in.BasePath + "processes"}
	rows := grouped(&plain, all, "")
	new(ProcessTable).sort(plain.Choices, rows)
	for i := range rows {
		r := &rows[i]
		var pids []string
		for _, p := range r.of {
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

func foundUsers(in *Input, all []Process) (out []Found) {
	plain := *in
	plain.Choices = Choices{Path: in.BasePath + "processes"}
	rows := grouped(&plain, all, "user")
	new(ProcessTable).sort(plain.Choices, rows)
	for i := range rows {
		r := &rows[i]
		if r.User.Mark != Missing {
			out = append(out, Found{Path: string(r.Open), Icon: "person", Hue: hueOf(r.User.Text), Name: r.User.Text, Remark: dots(r.Many, r.Power.Text)})
		}
	}
	return out
}

func foundNodes(in *Input) (out []Found) {
	for _, n := range in.Nodes {
		out = append(out, Found{Path: in.BasePath + "node/" + url.PathEscape(n.Node) + "/", Icon: "node", Name: clean(n.Node, longestName), Remark: count("GPUs", len(n.Devices))})
	}
	return out
}

// Render writes the whole page as HTML, or the list alone.
func (p FindPage) Render(ctx context.Context, w io.Writer) error {
	if p.part {
		return foundList(p).Render(ctx, w)
	}
	return document(p.in.head("Find · gpuwhy", ""), findBody(p)).Render(ctx, w)
}

// A NodesPage lists the machines.
type NodesPage struct {
	in   *Input
	Rows []NodeRow
}

// A NodeRow is one machine.
type NodeRow struct {
	Name, Path         string
	GPUs, Busy         string
	Hottest, Power     Value
	Trouble            string // what is wrong; empty where nothing is
	Processes, Machine string
	bad                int
}

// NewNodesPage makes the view model: machines with something wrong first.
func NewNodesPage(in Input) NodesPage {
	in.keep()
	p := NodesPage{in: &in}
	for _, n := range in.Nodes {
		one := gpu.Nodes{n}
		t := one.Totals()
		devices := slices.Collect(one.Devices())
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
		row := NodeRow{
			Name: clean(n.Node, longestName), Path: in.BasePath + "node/" + url.PathEscape(n.Node) + "/",
			GPUs: strconv.Itoa(t.Devices), Busy: countOrUnknown(busy, unknown > 0), Hottest: show(heat, celsius), Power: show(num(t.PowerDraw), watts),
			Processes: countOrUnknown(t.Processes, newUnlisted(devices, in.name) != ""),
		}
		var wrong []string
		for _, d := range devices {
			if d.State == gpu.StateLost || d.State == gpu.StateNotAnswering {
				wrong = append(wrong, "GPU "+strconv.Itoa(d.Index)+" "+say("state "+string(d.State)))
				row.bad++
			}
		}
		if len(n.Failures) > 0 {
			wrong, row.bad = append(wrong, sentence(n.Failures[0].Advice.What)), row.bad+1
		}
		row.Trouble = strings.Join(wrong, ", ")
		p.Rows = append(p.Rows, row)
	}
	slices.SortStableFunc(p.Rows, func(a, b NodeRow) int { return b.bad - a.bad })
	return p
}

// countOrUnknown is how many there are of which that is known; some are not where unknown is set.
func countOrUnknown(n int, unknown bool) string {
	switch {
	case !unknown:
		return strconv.Itoa(n)
	case n > 0:
		return strconv.Itoa(n) + ", others not known"
	}
	return "not known"
}

// Render writes the whole page as HTML, as [Page.Render] does.
func (p NodesPage) Render(ctx context.Context, w io.Writer) error {
	return document(p.in.head("Nodes · gpuwhy", ""), nodesBody(p)).Render(ctx, w)
}
