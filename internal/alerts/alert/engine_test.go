package alert

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// usage is the rule about utilization that there always was: above 50 % for
// 10 s, until 45 % or less for 15 s.
func usage() Rule { return Defaults()[0] }

// busy is one without times.
func busy(threshold float64) Rule {
	return Rule{Name: "busy", Watch: Utilization, Threshold: threshold, Margin: 5, Severity: Info, Enabled: true}
}

// absent is a utilization that is not reported.
const absent = -1

// missing is a device that is not in the snapshot at all.
const missing = -2

func snapshotAt(seconds int, utils ...float64) *gpu.Snapshot {
	s := &gpu.Snapshot{Time: start.Add(time.Duration(seconds) * time.Second), Node: "n"}
	for i, util := range utils {
		if util == missing {
			continue
		}
		d := gpu.Device{Identity: gpu.Identity{Node: "n", UUID: string(rune('a' + i)), Name: "Card", Index: i}, State: gpu.StateOK}
		if util != absent {
			d.Utilization.GPU = gpu.Of(gpu.Percent(util))
		}
		s.Devices = append(s.Devices, d)
	}
	return s
}

// said is what an alert said, briefly: "firing a", "resolved b".
func said(changes []Change) []string {
	out := []string{}
	for _, c := range turns(changes) {
		out = append(out, string(c.State)+" "+c.Device.UUID)
	}
	return out
}

// turns are the changes by which an alert begins or ends.
func turns(changes []Change) []Change {
	return slices.DeleteFunc(slices.Clone(changes), func(c Change) bool { return c.News != Fired && c.News != Over })
}

// standing is what stands, in the same words.
func standing(e *Engine) []string {
	out := []string{}
	for _, a := range e.Standing() {
		out = append(out, string(a.State)+" "+a.Device.UUID)
	}
	return out
}

// A step is the utilization of one device from a second on, read each second
// until the next step.
type step struct {
	start int
	util  float64
}

// play reads one device each second until the end and returns what was said
// when: "12 firing a".
func play(e *Engine, steps []step, end int) []string {
	out := []string{}
	util := 0.0
	for second := range end {
		for _, st := range steps {
			if st.start == second {
				util = st.util
			}
		}
		for _, text := range said(e.Observe(&insight.Moment{Snapshot: snapshotAt(second, util)})) {
			out = append(out, time.Duration(second*int(time.Second)).String()+" "+text)
		}
	}
	return out
}

// With the default rule: above 50 % for 10 s, until 45 % or less for 15 s.
func TestHoldAndClear(t *testing.T) {
	tests := []struct {
		name  string
		steps []step
		want  []string
	}{
		{"idle", []step{{0, 0}}, nil},
		{"at the threshold is not above it", []step{{0, 50}}, nil},
		{"just above", []step{{5, 50.1}}, []string{"15s firing a"}},
		{"not long enough", []step{{5, 99}, {15, 50}}, nil},
		{"a dip begins the hold anew", []step{{0, 99}, {9, 50}, {10, 99}}, []string{"20s firing a"}},
		{"over", []step{{0, 99}, {20, 45}}, []string{"10s firing a", "35s resolved a"}},
		{"between the lines it stands", []step{{0, 99}, {20, 45.1}}, []string{"10s firing a"}},
		{"a rise between the lines begins the clear anew", []step{{0, 99}, {20, 0}, {34, 46}, {35, 45}}, []string{"10s firing a", "50s resolved a"}},
		{"absent begins the hold anew", []step{{0, 99}, {9, absent}, {10, 99}}, []string{"20s firing a"}},
		{"absent resolves nothing", []step{{0, 99}, {20, absent}}, []string{"10s firing a"}},
		{"absent begins the clear anew", []step{{0, 99}, {20, 0}, {34, absent}, {35, 0}}, []string{"10s firing a", "50s resolved a"}},
		{"missing begins the hold anew", []step{{0, 99}, {9, missing}, {10, 99}}, []string{"20s firing a"}},
		{"missing resolves nothing", []step{{0, 99}, {20, missing}}, []string{"10s firing a"}},
		{"missing begins the clear anew", []step{{0, 99}, {20, 0}, {34, missing}, {35, 0}}, []string{"10s firing a", "50s resolved a"}},
		{"and again", []step{{0, 99}, {11, 0}, {40, 99}, {60, 0}}, []string{"10s firing a", "26s resolved a", "50s firing a", "1m15s resolved a"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := play(New([]Rule{usage()}), tt.steps, 120); !slices.Equal(got, tt.want) {
				t.Errorf("said %q, want %q", got, tt.want)
			}
		})
	}
}

// However utilization moves between the two lines, nothing is said.
func TestHoveringSaysNothing(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	rule := usage()
	hovering := func() float64 { return float64(rule.Threshold) - random.Float64()*float64(rule.Margin)*0.999 }
	for _, firing := range []bool{false, true} {
		e := New([]Rule{rule})
		second := 0
		if firing {
			for ; len(e.Standing()) == 0; second++ {
				e.Observe(&insight.Moment{Snapshot: snapshotAt(second, 100)})
			}
		}
		for range 2000 {
			second++
			if changes := e.Observe(&insight.Moment{Snapshot: snapshotAt(second, hovering())}); len(changes) > 0 {
				t.Fatalf("firing %v: said %q while utilization was between the lines", firing, said(changes))
			}
		}
		if got := len(e.Standing()) == 1; got != firing {
			t.Errorf("firing is %v after hovering, was %v", got, firing)
		}
	}
}

// The rule as it is written, over any utilization: an alert fires only after
// Hold above the threshold, and is over only after Clear under the lower line;
// the two alternate, and name the same alert.
func TestAnyUtilization(t *testing.T) {
	rule := usage()
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 5))
		e := New([]Rule{rule})
		var firing *Change
		var above, below time.Time // since, in readings without a gap
		util, changes := 0.0, 0
		for second := 0; second < 2000; second += 1 + random.IntN(4) {
			switch random.IntN(8) {
			case 0:
				util = 100 * random.Float64()
			case 1:
				util = absent
			case 2:
				util = missing
			case 3:
				util = 40 + 15*random.Float64()
			}
			now := start.Add(time.Duration(second) * time.Second)
			since(&above, now, util > float64(rule.Threshold))
			since(&below, now, util >= 0 && util <= float64(rule.Threshold-rule.Margin))

			said := turns(e.Observe(&insight.Moment{Snapshot: snapshotAt(second, util)}))
			switch {
			case len(said) == 0:
				if firing == nil && !above.IsZero() && now.Sub(above) >= rule.Hold {
					t.Fatalf("seed %d, %ds: nothing said after %v above the threshold", seed, second, now.Sub(above))
				}
			case len(said) > 1:
				t.Fatalf("seed %d, %ds: %d messages about one device", seed, second, len(said))
			case said[0].State == Firing:
				if firing != nil || above.IsZero() || now.Sub(above) < rule.Hold || !said[0].Since.Equal(above) {
					t.Fatalf("seed %d, %ds: fires since %v, above the threshold since %v, firing before: %v", seed, second, said[0].Since, above, firing)
				}
				firing = &said[0]
				below = time.Time{}
			default:
				if firing == nil || firing.ID != said[0].ID || below.IsZero() || now.Sub(below) < rule.Clear {
					t.Fatalf("seed %d, %ds: %q is over, under the line since %v, firing before: %v", seed, second, said[0].ID, below, firing)
				}
				firing = nil
				above = time.Time{}
			}
			changes += len(said)
			if (firing != nil) != (len(e.Standing()) == 1) {
				t.Fatalf("seed %d, %ds: %d alerts stand, firing: %v", seed, second, len(e.Standing()), firing)
			}
		}
		if changes == 0 {
			t.Errorf("seed %d tests nothing: nothing was ever said", seed)
		}
	}
}

func since(begin *time.Time, now time.Time, holds bool) {
	switch {
	case !holds:
		*begin = time.Time{}
	case begin.IsZero():
		*begin = now
	}
}

func TestOrderOfDevices(t *testing.T) {
	e := New([]Rule{busy(50)})
	if got, want := said(e.Observe(&insight.Moment{Snapshot: snapshotAt(0, 99, 1, 99, 99)})), []string{"firing a", "firing c", "firing d"}; !slices.Equal(got, want) {
		t.Errorf("said %q, want %q", got, want)
	}
	if got, want := said(e.Observe(&insight.Moment{Snapshot: snapshotAt(1, 1, 99, 99, 1)})), []string{"resolved a", "firing b", "resolved d"}; !slices.Equal(got, want) {
		t.Errorf("said %q, want %q", got, want)
	}
	if got, want := standing(e), []string{"firing b", "firing c"}; !slices.Equal(got, want) {
		t.Errorf("standing are %q, want %q", got, want)
	}
}

// The same UUID on two nodes is two devices.
func TestNodesAreApart(t *testing.T) {
	e := New([]Rule{busy(50)})
	s := snapshotAt(0, 99, 0)
	s.Devices[1].UUID, s.Devices[1].Node = s.Devices[0].UUID, "other"
	changes := e.Observe(&insight.Moment{Snapshot: s})
	if len(changes) != 1 || changes[0].Device.Node != "n" {
		t.Errorf("said %q, want one about the device of node n", said(changes))
	}
}

// A threshold lower than the margin leaves room for an alert to be over.
func TestLowThresholds(t *testing.T) {
	for _, threshold := range []float64{0, 1, 3, 5, 8} {
		e := New([]Rule{busy(threshold)})
		fired, over := said(e.Observe(&insight.Moment{Snapshot: snapshotAt(0, 98)})), said(e.Observe(&insight.Moment{Snapshot: snapshotAt(1, 0)}))
		if !slices.Equal(fired, []string{"firing a"}) || !slices.Equal(over, []string{"resolved a"}) {
			t.Errorf("threshold %v: said %q at 98 %%, %q at 0 %%", threshold, fired, over)
		}
	}
}

// A reading that can't be right neither fires nor resolves.
func TestDoubtfulDecidesNothing(t *testing.T) {
	e := New([]Rule{busy(50)})
	doubtful := func(second int, util gpu.Percent) []Change {
		s := snapshotAt(second, 0)
		s.Devices[0].Utilization.GPU = gpu.DoubtfulOf(util)
		return e.Observe(&insight.Moment{Snapshot: s})
	}
	if changes := doubtful(0, 100); len(changes) != 0 {
		t.Errorf("fired for a doubtful 100 %%: %q", said(changes))
	}
	e.Observe(&insight.Moment{Snapshot: snapshotAt(1, 99)})
	if changes := turns(doubtful(2, 0)); len(changes) != 0 {
		t.Errorf("resolved by a doubtful 0 %%: %q", said(changes))
	}
}

// Two machines may have a GPU with the same index, or even with the same UUID. A
// rule about one of them says nothing about the other.
func TestMachinesAreApart(t *testing.T) {
	for name, tt := range map[string]struct {
		scope Scope
		want  []string // nodes
	}{
		"everywhere":    {Scope{}, []string{"one", "two"}},
		"on one":        {Scope{Nodes: []string{"one"}}, []string{"one"}},
		"one GPU there": {Scope{Nodes: []string{"two"}, GPUs: []string{"a"}}, []string{"two"}},
		"by an index":   {Scope{GPUs: []string{"0"}}, []string{"one", "two"}},
		"by a name":     {Scope{GPUs: []string{"*one*"}}, []string{"one"}},
		"in capitals":   {Scope{GPUs: []string{"A"}}, []string{"one", "two"}},
		"over a slash":  {Scope{GPUs: []string{"*6800*"}}, []string{"two"}},
		"as it is":      {Scope{GPUs: []string{"Card Two [RX 6800/6800 XT]"}}, []string{"two"}},
		"none":          {Scope{GPUs: []string{"1", "GPU-*", "card"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			rule := busy(50)
			rule.Scope = tt.scope
			e := New([]Rule{rule})
			s := snapshotAt(0, 90, 90)
			for i, node := range []string{"one", "two"} {
				s.Devices[i].Node, s.Devices[i].UUID, s.Devices[i].Index, s.Devices[i].Name = node, "a", 0, "Card One 4090"
				if node == "two" {
					s.Devices[i].Name = "Card Two [RX 6800/6800 XT]"
				}
			}
			var got []string
			for _, c := range e.Observe(&insight.Moment{Snapshot: s}) {
				got = append(got, c.Device.Node)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("%q fire, want %q", got, tt.want)
			}
			quiet := snapshotAt(1, 0, 90)
			quiet.Devices[0].Identity, quiet.Devices[1].Identity = s.Devices[0].Identity, s.Devices[1].Identity
			for _, c := range e.Observe(&insight.Moment{Snapshot: quiet}) {
				if c.Device.Node != "one" {
					t.Errorf("%s: %s", c.Device.Node, c.Message)
				}
			}
		})
	}
}

// A rule about an index looks at the device that has it now: a restart may give it to another.
func TestScopeFollowsTheIndex(t *testing.T) {
	rule := busy(50)
	rule.Scope.GPUs = []string{"0"}
	e := New([]Rule{rule})
	firing := func(changes []Change) (got []string) {
		for _, c := range changes {
			got = append(got, c.Device.UUID+" "+string(c.News))
		}
		return got
	}
	s := snapshotAt(0, 90, 90)
	first, second := s.Devices[0].UUID, s.Devices[1].UUID
	if got, want := firing(e.Observe(&insight.Moment{Snapshot: s})), []string{first + " fired"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	s = snapshotAt(1, 90, 90)
	s.Devices[0].Index, s.Devices[1].Index = 1, 0
	e.Observe(&insight.Moment{Snapshot: s})
	s = snapshotAt(2, 90, 90)
	s.Devices[0].Index, s.Devices[1].Index = 1, 0
	e.Observe(&insight.Moment{Snapshot: s})
	var now []string
	for _, a := range e.Standing() {
		now = append(now, a.Device.UUID)
	}
	if want := []string{second}; !slices.Equal(now, want) {
		t.Errorf("%q stand, want %q", now, want)
	}
}

// A rule whose scope has nothing is named, unless it may be about another machine.
func TestUncovered(t *testing.T) {
	rules := []Rule{busy(50), busy(50), busy(50), busy(50)}
	for i, scope := range []Scope{{}, {GPUs: []string{"0"}}, {GPUs: []string{"GPU-typo"}}, {Nodes: []string{"elsewhere"}, GPUs: []string{"7"}}} {
		rules[i].Name, rules[i].Scope = fmt.Sprint("r", i), scope
	}
	e := New(rules)
	for others, want := range map[bool][]string{false: {"r2", "r3"}, true: {"r2"}} {
		var got []string
		for _, r := range e.Uncovered(gpu.Nodes{snapshotAt(0, 0, 0)}, others) {
			got = append(got, r.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("others %v: %q, want %q", others, got, want)
		}
	}
}

// A node that is read says nothing of the devices of another.
func TestNodesAreObservedApart(t *testing.T) {
	rule := Default("high_gpu_usage", Utilization)
	rule.Hold, rule.Clear, rule.Threshold = 0, 0, 50
	e := New([]Rule{rule})
	moment := func(node string, second int, util float64) *insight.Moment {
		s := snapshotAt(second, util)
		s.Node, s.Devices[0].Node = node, node
		return &insight.Moment{Snapshot: s}
	}
	e.Observe(moment("one", 0, 99))
	for second := 1; second < 100; second++ {
		if changes := e.Observe(moment("two", second, 1)); len(changes) > 0 {
			t.Fatalf("node two changes %s: %s", changes[0].Device.Node, changes[0].Message)
		}
	}
	if standing := e.Standing(); len(standing) != 1 || standing[0].Device.Node != "one" || standing[0].State != Firing {
		t.Errorf("standing: %+v", standing)
	}
}

// Several Moments are one announcement, which says what is new of their nodes; of nodes that other programs read there is
// nothing to say here, and neither of nodes without alerts.
func TestObserveAll(t *testing.T) {
	moment := func(node string, n int, util float64, remote bool) *insight.Moment {
		s := snapshotAt(n, util)
		s.Node = node
		for i := range s.Devices {
			s.Devices[i].Node = node
		}
		return &insight.Moment{Snapshot: s, Link: insight.Link{Remote: remote}}
	}
	e := New([]Rule{busy(50)})
	var announced []string
	var stands int
	e.Announce = func(nodes []string, changes []Change, standing []Alert) {
		text := strings.Join(nodes, "+") + ":"
		for _, c := range changes {
			text += " " + c.Device.Node + " " + string(c.News)
		}
		announced, stands = append(announced, text), len(standing)
	}
	e.ObserveAll([]*insight.Moment{moment("a", 0, 0, false), moment("b", 0, 0, false)})
	for n := 1; stands == 0 && n < 100; n++ {
		e.ObserveAll([]*insight.Moment{moment("a", n, 99, false), moment("far", n, 99, true), moment("b", n, 99, false)})
	}
	e.ObserveAll([]*insight.Moment{moment("c", 0, 0, false)})
	e.ObserveAll([]*insight.Moment{moment("far", 200, 99, true)})
	if e.Firing("a") != 1 || e.Firing("b") != 1 || e.Firing("far") != 0 {
		t.Errorf("%d alerts on a, %d on b, %d on far", e.Firing("a"), e.Firing("b"), e.Firing("far"))
	}
	e.Forget("a", snapshotAt(300, 0).Time)
	if e.Firing("") != 1 || stands != 1 {
		t.Errorf("%d alerts stand, %d were announced", e.Firing(""), stands)
	}
	if want := []string{"a+far+b: a fired b fired", "a: a over"}; !slices.Equal(announced, want) {
		t.Errorf("announced %q, want %q", announced, want)
	}
}
