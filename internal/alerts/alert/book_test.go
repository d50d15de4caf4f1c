package alert

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight"
)

// far is a Moment of a node that another program reads, which may be silent since some seconds ago.
func far(node string, second, silent int) *insight.Moment {
	l := insight.Link{Remote: true, At: start.Add(time.Duration(second) * time.Second)}
	if silent > 0 {
		l.Silent = l.At.Add(-time.Duration(silent) * time.Second)
		l.Why = gpu.Advice{What: "nothing has come from that machine", Try: "see whether it runs"}
	}
	s := snapshotAt(0, 99)
	s.Node, s.Devices[0].Node = node, node
	return insight.Of(s).At(insight.Place{}, l)
}

// The engine of a hub tells that a node is silent, and of nothing that the node tells itself.
func TestNodeSilent(t *testing.T) {
	e := New([]Rule{busy(50), Default("driver_gone", DriverGone), Default("node_silent", NodeSilent)})
	var said []string
	for _, step := range []struct{ second, silent int }{{0, 0}, {5, 0}, {17, 12}, {30, 25}, {35, 0}, {45, 0}, {50, 0}, {60, 0}} {
		for _, c := range e.Observe(far("gpu-17", step.second, step.silent)) {
			said = append(said, string(c.News)+": "+c.Message)
			if c.Device.Node != "gpu-17" || c.About() || !strings.HasPrefix(c.ID, "node_silent-gpu-17-") {
				t.Errorf("%+v", c.Alert)
			}
		}
	}
	want := []string{
		"fired: The machine no longer sends data: nothing has come from that machine; this began just now.",
		"over: The machine sends data again. The alert is over after 18 s.",
	}
	if !slices.Equal(said, want) {
		t.Errorf("said %q, want %q", said, want)
	}
}

// A node that was taken out has no alerts any more.
func TestForget(t *testing.T) {
	e := New([]Rule{Default("node_silent", NodeSilent)})
	e.Observe(far("gpu-17", 0, 9))
	e.Observe(far("gpu-18", 0, 9))
	changes := e.Forget("gpu-17", start.Add(time.Minute))
	if len(changes) != 1 || changes[0].News != Over || !strings.HasPrefix(changes[0].Message, "The machine was removed from the fleet.") {
		t.Fatalf("%+v", changes)
	}
	if left := e.Standing(); len(left) != 1 || left[0].Device.Node != "gpu-18" || len(e.Past()) != 1 {
		t.Errorf("%d stand, %d are over", len(left), len(e.Past()))
	}
}

// shared is a book of a hub, and the engines of two nodes that report to it.
func shared(t *testing.T) (*Shared, map[string]*Engine) {
	t.Helper()
	s, nodes := Share(New([]Rule{Default("node_silent", NodeSilent)})), map[string]*Engine{}
	for _, node := range []string{"one", "two"} {
		nodes[node] = New([]Rule{busy(50)})
		m := snapshotAt(0, 99)
		m.Node, m.Devices[0].Node, m.Devices[0].UUID = node, node, "GPU-of-"+node
		nodes[node].Observe(&insight.Moment{Snapshot: m})
	}
	report(s, nodes)
	return s, nodes
}

func report(s *Shared, nodes map[string]*Engine) (news bool) {
	for node, e := range nodes {
		news = s.Take(node, e.Report(node, start)) || news
	}
	return news
}

func TestSharedAlerts(t *testing.T) {
	s, nodes := shared(t)
	s.Observe(far("three", 9, 9))
	if got := s.Standing(); len(got) != 3 || got[0].Rule != "node_silent" {
		t.Fatalf("%d stand: %+v", len(got), got)
	}
	if s.Firing("") != 3 || s.Firing("one") != 1 || s.Firing("three") != 1 || s.Firing("four") != 0 {
		t.Error("they are counted wrong")
	}
	if rules := s.Rules(); len(rules) != 2 {
		t.Errorf("%d rules", len(rules))
	}
	if report(s, nodes) {
		t.Error("the same report is news")
	}
	other := s.Others()[0]
	s.Tell(&Change{Alert: other, News: Over})
	if s.Firing(other.Device.Node) != 0 || len(s.Others()) != 1 {
		t.Error("an alert that was told to be over stands")
	}
	for range 2 {
		s.Tell(&Change{Alert: other, News: Fired})
	}
	if s.Firing(other.Device.Node) != 1 || len(s.Others()) != 2 {
		t.Error("an alert that was told to have fired does not stand once")
	}
	if got := s.Holder(other.ID); got != other.Device.Node || s.Holder("none") != "" {
		t.Errorf("%s is held by %q", other.ID, got)
	}
	if _, err := nodes[other.Device.Node].Acknowledge(other.ID, &Acknowledgment{By: "ann", At: start}); err != nil {
		t.Fatal(err)
	}
	if !report(s, nodes) || s.Others()[0].Acknowledged == nil && s.Others()[1].Acknowledged == nil {
		t.Error("what was acknowledged at the node is no news")
	}
	if !s.Take("one", nil) || s.Firing("one") != 0 {
		t.Error("a node that is gone has alerts")
	}
}

// A silence that several have is in force once, and is found by the ID that any of them gave it.
func TestSharedSilences(t *testing.T) {
	s, nodes := shared(t)
	all := Silence{Comment: "maintenance", Until: start.Add(time.Hour)}
	for _, e := range []*Engine{s.Engine, nodes["one"], nodes["two"]} {
		if _, _, err := e.Silence(all, start); err != nil {
			t.Fatal(err)
		}
	}
	one := Silence{Node: "one", Until: start.Add(time.Hour)}
	if _, _, err := nodes["one"].Silence(one, start); err != nil {
		t.Fatal(err)
	}
	report(s, nodes)
	if got := s.Silences(start); len(got) != 2 {
		t.Errorf("%+v is in force", got)
	}
	for _, e := range []*Engine{s.Engine, nodes["one"], nodes["two"]} {
		if x, ok := s.FindSilence(e.Silences(start)[0].ID); !ok || x.Comment != "maintenance" {
			t.Errorf("found: %+v, %t", x, ok)
		}
	}
	if x, ok := s.FindSilence("none"); ok {
		t.Errorf("found: %+v", x)
	}
	if got := s.Covered(&all); !slices.Equal(got, []string{"one", "two"}) || !slices.Equal(s.Silenced(&all), got) {
		t.Errorf("%q are covered, %q have it", got, s.Silenced(&all))
	}
	if got := s.Covered(&one); !slices.Equal(got, []string{"one"}) || !slices.Equal(s.Silenced(&one), got) {
		t.Errorf("%q are covered, %q have it", got, s.Silenced(&one))
	}
}

// Alerts of others that are over stand beside the own ones, the newest first, each once.
func TestSharedPast(t *testing.T) {
	s, _ := shared(t)
	for i, id := range []string{"b", "a", "b"} {
		s.Ended(&Alert{ID: id, Time: start.Add(time.Duration(i) * time.Minute)})
	}
	var ids []string
	for _, a := range s.Past() {
		ids = append(ids, a.ID)
	}
	if !slices.Equal(ids, []string{"b", "a"}) {
		t.Errorf("%q", ids)
	}
	for i := range 300 { // one machine does not take the place of all others, nor of another's alert
		s.Ended(&Alert{ID: "a" + strconv.Itoa(i%50), Device: gpu.Identity{Node: "loud"}, Time: start.Add(time.Hour)})
		s.Ended(&Alert{ID: "a", Device: gpu.Identity{Node: "loud"}, Time: start.Add(time.Hour)})
	}
	if past := s.Past(); len(past) != mostOfNode+2 || past[len(past)-1].ID != "a" {
		t.Errorf("%d are remembered", len(past))
	}
}

// Where two machines call an alert the same, none of them holds it: one of them may lie.
func TestAlertsOfOneName(t *testing.T) {
	s, _ := shared(t)
	id := s.Others()[0].ID
	for _, node := range []string{"one", "two"} {
		s.Take(node, &Report{Standing: []Alert{{ID: id, Device: gpu.Identity{Node: node}}}})
	}
	if got := s.Holder(id); got != "" {
		t.Errorf("%s is held by %q", id, got)
	}
}
