//go:build !race

package views

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/insight/attribute"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/internal/past/recent"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
	"github.com/gpuwhy/gpuwhy/sampler/sim"
)

func fleetOf(nodes []fixture.Node) *insight.Fleet {
	var all []*insight.Moment
	for i := range nodes {
		n := &nodes[i]
		all = append(all, insight.Of(n.Snapshot).At(
			insight.Place{Cluster: n.Cluster, Labels: n.Labels}, insight.Link{Remote: true, Silent: n.Silent, Why: n.Why, Notes: n.Notes}))
	}
	return insight.NewFleet(all...)
}

// ofFleet is what the page of a fleet is made of, as package web makes it.
func ofFleet(f *insight.Fleet, asked string) Input {
	in := input(nil, "")
	in.Several, in.Fleet, in.Nodes, in.Root = true, f, f.Nodes(), "/"
	in.Asked, _ = url.ParseQuery(asked)
	a := f.Answer()
	in.Layers, in.Past, in.Why, in.Causes = contract.NewLayers(a), a.Past, a.Sentence, a.Main()
	find := f.Finder()
	in.Said = func(d *gpu.Device) *explain.DeviceAnswer {
		part, _ := find(d)
		return part.Why
	}
	in.Attribution = func(d *gpu.Device) *attribute.Attribution {
		part, _ := find(d)
		return part.Attribution
	}
	return in
}

func rowsOf(l NodeList) (rows []NodeRow) {
	for _, g := range l.Groups {
		rows = append(rows, g.Rows...)
	}
	return rows
}

func TestNodes(t *testing.T) {
	all := fixture.Fleet()
	bad := all[len(all)-1]
	bad.Devices[0].State = gpu.StateLost
	var moments []*insight.Moment
	for _, s := range all {
		moments = append(moments, insight.Of(s))
	}
	rows := rowsOf(NewNodesPage(ofFleet(insight.NewFleet(moments...), "")).List)
	if len(rows) != 3 || rows[0].Name != bad.Node || !strings.Contains(rows[0].Answer, "is lost") || rows[0].Path != "/node/"+bad.Node+"/" || rows[0].Level != Bad {
		t.Errorf("%+v", rows)
	}
	names := rowsOf(NewNodesPage(ofFleet(insight.NewFleet(moments...), "sort=name")).List)
	if names[0].Name != "node-001" || names[2].Name != bad.Node {
		t.Errorf("by name: %+v", names)
	}
}

// A node that is silent stays, as what it was: it counts as silent, and as nothing else.
func TestSilentNodeOnThePage(t *testing.T) {
	f := fleetOf(fixture.Nodes(noon, 6, true))
	p := NewPage(ofFleet(f, ""))
	const silent, key = "gpu-0002", "render:gpu-0002.example.org"
	html := render(t, p)
	rows := rowsOf(p.Nodes)
	i := slices.IndexFunc(rows, func(r NodeRow) bool { return r.Key == key })
	if i < 0 {
		t.Fatalf("it has no row: %+v", rows)
	}
	r := rows[i]
	if s := r.Silence; s == nil || s.Lasts != "12"+nbsp+"min" || !strings.Contains(s.Why, "sends nothing") || !strings.Contains(s.Try, "gpuwhy agent") {
		t.Errorf("its silence: %+v", r.Silence)
	}
	if !strings.Contains(r.Answer, "was") || r.Level != Near || r.Busy != "unknown" || r.Hottest.Mark != Missing || r.Power.Mark != Missing {
		t.Errorf("its row: %+v", r)
	}
	without := fleetOf(slices.Delete(fixture.Nodes(noon, 6, true), 1, 2))
	if q := NewPage(ofFleet(without, "")); p.GPUs.Busy != q.GPUs.Busy || p.GPUs.Problem != q.GPUs.Problem || p.GPUs.All != q.GPUs.All+2 {
		t.Errorf("it counts: %+v, without it %+v", p.GPUs.Counts, q.GPUs.Counts)
	}
	for _, part := range []string{">its agent sends nothing. look whether", "data-silent", `datetime="` + stamp(noon.Add(-12*time.Minute)) + `"`, "its clock is 4"} {
		if !strings.Contains(html, part) && !strings.Contains(strings.ToLower(html), part) {
			t.Errorf("%q is missing", part)
		}
	}
	if strings.Contains(strings.Join(each(p.Failures, func(f *Failure) string { return f.Source }), " "), silent) {
		t.Error("it is also among what can't be read")
	}
	if len(p.Failures) == 0 || !strings.HasPrefix(p.Failures[0].Source, "lab:gpu-0003.example.org: ") {
		t.Errorf("what can't be read names no node: %+v", p.Failures)
	}
	if !slices.ContainsFunc(rows, func(r NodeRow) bool { return len(r.Notes) == 1 && strings.Contains(r.Notes[0].What, "clock") }) {
		t.Error("the note about the clock is missing")
	}

	m, _ := f.Node(key)
	in := ofFleet(m.Alone(), "")
	in.BasePath, in.Nodes = "/node/x/", m.Last().Alone().Nodes()
	own := NewPage(in)
	html = render(t, own)
	if own.Silence == nil || own.Back != "/" || !strings.Contains(own.Answer.Headline(), "was") || !strings.Contains(html, "shows the last data from this machine") {
		t.Errorf("its own page: %+v, %q", own.Silence, own.Answer.Headline())
	}
	if own := NewPage(ofFleet(fleetOf(fixture.Nodes(noon, 1, false)), "")); own.Silence != nil || own.Back != "" {
		t.Errorf("a node whose news come: %+v", own.Silence)
	}
}

func TestGroupsOfNodes(t *testing.T) {
	f := fleetOf(fixture.Nodes(noon, 40, true))
	titles := func(gs []NodeGroup) []string { return each(gs, func(g *NodeGroup) string { return g.Title }) }
	for asked, want := range map[string][]string{
		"":              nil,
		"by=cluster":    {"lab", "render"},
		"by=rack":       {"lab r01", "lab r02", "lab r03", "render r01", "render r02", "render r03"},
		"by=label:pool": {"pool = dev", "pool = serve", "pool = train"},
		"by=label:none": {"Without none"},
		"by=nonsense":   nil,
	} {
		l := NewNodesPage(ofFleet(f, asked)).List
		if got := titles(l.All); !slices.Equal(got, want) {
			t.Errorf("%q: groups %q, want %q", asked, got, want)
		}
		if n := len(rowsOf(l)); n != 40 {
			t.Errorf("%q: %d rows", asked, n)
		}
	}
	l := NewNodesPage(ofFleet(f, "by=cluster&of=render")).List
	if rows := rowsOf(l); len(rows) != 20 || rows[0].Silence == nil || !l.All[1].Chosen || strings.Contains(string(l.All[1].Path), "of=") {
		t.Errorf("one cluster: %d rows, %+v", len(rows), l.All)
	}
	if says := l.All[1].Says; !strings.HasPrefix(says, "20 machines · 1 silent") {
		t.Errorf("it says %q", says)
	}
	p := NewPage(ofFleet(f, "by=rack&of=lab+r01"))
	if parts := p.GPUs.parts(); len(parts) != 1 || parts[0].Title != "lab r01" || len(parts[0].Groups) != 8-1 { // of the third no GPU can be read
		t.Errorf("the wall: %+v", parts)
	}
}

// Pages of very many nodes have bounds, and each node is on one of them.
func TestThousandsOfNodes(t *testing.T) {
	f := fleetOf(fixture.Nodes(noon, 1000, true))
	seen := map[string]bool{}
	for begin := 0; begin < 1000; begin += mostNodes {
		p := NewNodesPage(ofFleet(f, fmt.Sprintf("by=label:pool&from=%d", begin)))
		rows := rowsOf(p.List)
		if len(rows) != mostNodes || p.List.Listed == "" || (p.List.Before == "") != (begin == 0) || (p.List.After == "") != (begin == 800) {
			t.Fatalf("from %d: %d rows, %+v", begin, len(rows), p.List.pages)
		}
		for _, r := range rows {
			seen[r.Key] = true
		}
		if html := render(t, p); len(html) > 300_000 {
			t.Errorf("%d bytes", len(html))
		}
	}
	if len(seen) != 1000 {
		t.Errorf("%d nodes are on a page", len(seen))
	}
	p := NewPage(ofFleet(f, ""))
	if len(rowsOf(p.Nodes)) > fewNodes || len(p.GPUs.Groups) != mostOnWall || p.GPUs.Listed == "" || len(p.Users.Rows) > fewUsers {
		t.Errorf("%d rows, %d on the wall, %d users", len(rowsOf(p.Nodes)), len(p.GPUs.Groups), len(p.Users.Rows))
	}
	if html := render(t, p); len(html) > 600_000 {
		t.Errorf("%d bytes", len(html))
	}
	if found := NewFindPage(ofFleet(f, "q=gpu")); !slices.ContainsFunc(found.Groups, func(g FoundGroup) bool {
		return g.Title == "Machines" && g.Count == "8 of 1000" && len(g.List) == mostFound
	}) {
		t.Errorf("found: %+v", found.Groups)
	}
}

func TestFindInAFleet(t *testing.T) {
	f := fleetOf(fixture.Nodes(noon, 40, true))
	for asked, want := range map[string]string{
		"gpu-0017":   "/node/lab:gpu-0017.example.org/",
		"pool=serve": "/nodes?by=label%3Apool&of=serve",
		"lab":        "/nodes?by=cluster&of=lab",
		"user1":      "user=user1",
		"silent":     "/node/render:gpu-0002.example.org/",
	} {
		p := NewFindPage(ofFleet(f, "q="+url.QueryEscape(asked)))
		if !slices.ContainsFunc(p.Groups, func(g FoundGroup) bool {
			return slices.ContainsFunc(g.List, func(f Found) bool { return strings.Contains(f.Path, want) })
		}) {
			t.Errorf("%q does not find %s: %+v", asked, want, p.Groups)
		}
	}
}

func TestUsersOfAFleet(t *testing.T) {
	in := ofFleet(fleetOf(fixture.Nodes(noon, 40, true)), "")
	in.HasPast = true
	p := NewPage(in)
	busy, gpus := 0, 0
	for _, u := range p.Users.Rows {
		gpus += u.GPUs
		if u.Nodes > 1 {
			busy++
		}
		if !strings.HasPrefix(string(u.Path), "/processes?") || u.Power.Text == "" || u.Memory.Text == "" {
			t.Errorf("%+v", u)
		}
	}
	if busy == 0 || gpus == 0 || gpus > p.GPUs.All || p.Users.Past == "" {
		t.Errorf("%+v", p.Users)
	}
}

var tags = regexp.MustCompile(`<[^>]*>`)

// What nodes and labels are called is text in the page, and one part of an address.
func TestHostileNamesOfNodes(t *testing.T) {
	nodes := fixture.Nodes(noon, 8, true)
	const evil = `<script>alert(1)</script>"'/../?a=b#c%2F` + "\u202e"
	for i := range nodes {
		n := &nodes[i]
		n.Cluster = evil
		n.Labels = map[string]string{evil: evil, "rack": evil}
		n.Node += evil
		for j := range n.Devices {
			n.Devices[j].Node = n.Node
		}
		n.Why, n.Notes = gpu.Advice{What: evil, Try: evil}, []gpu.Advice{{What: evil, Try: evil}}
	}
	f := fleetOf(nodes)
	for _, asked := range []string{"", "by=cluster", "by=rack", "by=" + url.QueryEscape("label:"+evil), "by=cluster&of=" + url.QueryEscape(evil)} {
		for name, html := range map[string]string{
			"now": render(t, NewPage(ofFleet(f, asked))), "nodes": render(t, NewNodesPage(ofFleet(f, asked))), "find": render(t, NewFindPage(ofFleet(f, "q=script"))),
		} {
			if strings.Contains(html, "<script>alert") || strings.Contains(tags.ReplaceAllString(html, ""), "\u202e") || strings.Contains(html, `/node/lab:gpu-0001.example.org<`) {
				t.Errorf("%s?%s: a name is markup", name, asked)
			}
		}
	}
	row := rowsOf(NewNodesPage(ofFleet(f, "")).List)[0]
	u, err := url.Parse(row.Path)
	if err != nil || strings.Count(u.EscapedPath(), "/") != 3 || u.RawQuery != "" || u.Fragment != "" {
		t.Errorf("%q: %v", row.Path, err)
	}
}

// What a page of many nodes does not show, it does not put into words: from seven hundred nodes on, which fill the wall, each further
// one costs next to nothing.
func TestWhatIsNotShownIsNotMade(t *testing.T) {
	pieces := func(nodes int) float64 {
		in := ofFleet(fleetOf(fixture.Nodes(noon, nodes, false)), "")
		return testing.AllocsPerRun(2, func() { render(t, NewPage(in)) })
	}
	if each := (pieces(1400) - pieces(700)) / 700; each > 12 {
		t.Errorf("a node that is not shown costs %.0f allocations", each)
	}
}

// A device that is asked for by what a page knows of it is the one that is found by its names, in whatever order.
func TestFinderOfAFleet(t *testing.T) {
	f := fleetOf(fixture.Nodes(noon, 6, false))
	find := f.Finder()
	for range 2 {
		for d := range f.Nodes().Devices() {
			want, _ := f.Device(d.Node, d.UUID)
			if got, found := find(d); !found || got.Device != d || got.Why != want.Why || got.Attribution != want.Attribution {
				t.Fatalf("of %s %s: %+v", d.Node, d.UUID, got)
			}
		}
	}
	if _, found := find(device(func(*gpu.Device) {})); found {
		t.Error("it found a device of no node")
	}
}

func BenchmarkFleetPage(b *testing.B) {
	for _, nodes := range []int{100, 1000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			when, past := noon, recent.New()
			sources, err := sim.Nodes("fleet:800", func() time.Time { return when })
			if err != nil {
				b.Fatal(err)
			}
			moments := make([]*insight.Moment, nodes)
			for range 8 {
				for i := range moments {
					s, err := sources[i%len(sources)].Read(context.Background())
					if err != nil {
						b.Fatal(err)
					}
					s.Node = fmt.Sprintf("gpu-%05d", i)
					for j := range s.Devices {
						s.Devices[j].Node, s.Devices[j].UUID = s.Node, fmt.Sprint(s.Node, "-", j)
					}
					moments[i] = insight.Of(s).At(insight.Place{}, insight.Link{Remote: true})
					past.Observe(moments[i])
				}
				when = when.Add(coarsest)
			}
			in := ofFleet(insight.NewFleet(moments...), "")
			in.Recent = func(node, uuid string, step time.Duration) *recent.Table {
				return past.Table(recent.Question{Node: node, UUID: uuid, Step: step, Interval: in.Interval})
			}
			b.ReportAllocs()
			var out bytes.Buffer
			for b.Loop() {
				out.Reset()
				if err := NewPage(in).Render(b.Context(), &out); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
