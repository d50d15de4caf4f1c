//go:build !race

package views

import (
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
)

// working is a machine of n devices, of which each is at its own temperature; change may do more.
func working(n int, change func(i int, d *gpu.Device)) *gpu.Snapshot {
	s := &gpu.Snapshot{Time: noon, Node: "n"}
	for i := range n {
		s.Devices = append(s.Devices, *device(func(d *gpu.Device) {
			d.Index, d.UUID = i, "GPU-"+strconv.Itoa(i)
			d.Utilization.GPU, d.Thermal.GPU, d.Thermal.Slowdown = gpu.Of[gpu.Percent](50), gpu.Of(gpu.Celsius(40+i%40)), gpu.Of[gpu.Celsius](90)
			d.Power.Draw = gpu.Of(gpu.Watts(300 - i))
			if change != nil {
				change(i, d)
			}
		}))
	}
	return s
}

func asking(s *gpu.Snapshot, query string) Page {
	in := input(s, "why")
	asked, err := url.ParseQuery(query)
	if err != nil {
		panic(err)
	}
	in.Choices = Choices{Path: "/", Asked: asked}
	return NewPage(in)
}

// indices are those of the cards, in their order.
func indices(p Page) string {
	var out []string
	for _, c := range p.GPUs.Cards {
		out = append(out, strconv.Itoa(c.device.Index))
	}
	return strings.Join(out, " ")
}

func TestCountsOfUnknownGPUs(t *testing.T) {
	s := working(6, func(i int, d *gpu.Device) {
		switch i {
		case 1:
			d.Utilization.GPU = gpu.Of[gpu.Percent](0)
		case 2:
			d.Utilization.GPU = gpu.Absent[gpu.Percent](gpu.NotSupported)
		case 3:
			d.State = gpu.StateLost
		case 4:
			d.State = gpu.StateAsleep
		case 5:
			d.Clocks.EventReasons = gpu.Of(gpu.ReasonHardwareThermal)
		}
	})
	l := asking(s, "").GPUs
	if want := (Counts{All: 6, Busy: 2, Problem: 2, Unknown: 2}); l.Counts != want {
		t.Errorf("got %+v, want %+v", l.Counts, want)
	}
	if l.Unknown != "2 not reporting" || l.Filters[1].Count != "2" || l.Filters[2].Level != Bad {
		t.Errorf("%q, %+v", l.Unknown, l.Filters)
	}
	if states := l.Cards; states[5].Says != "slowed by heat" || states[5].Level != Near || states[3].Level != Bad || states[4].Level != Normal {
		t.Errorf("got %+v", states)
	}
}

// A GPU for which its driver asks something is one with a problem, whatever works on it.
func TestAGPUThatNeedsActionIsAProblem(t *testing.T) {
	s := working(2, func(i int, d *gpu.Device) {
		if i == 1 {
			d.Health.Faults = gpu.Of([]gpu.Fault{{Kind: gpu.FaultNeedsReset, Count: 1, Last: noon}})
		}
	})
	a := explain.Explain(s)
	in := input(s, "why")
	in.Said = func(d *gpu.Device) *explain.DeviceAnswer { return &a.Devices[d.Index] }
	l := NewPage(in).GPUs
	if l.Problem != 1 || l.Cards[1].Level != Bad || l.Cards[1].Says != "needs attention" || l.Cards[0].Level != Normal {
		t.Errorf("%+v: %q and %q", l.Counts, l.Cards[0].Says, l.Cards[1].Says)
	}
}

// What the answer says of a device's work is what the list counts, whatever the counter of its use says.
func TestTheListCountsAsTheAnswerDoes(t *testing.T) {
	s := working(3, func(_ int, d *gpu.Device) {
		d.Utilization.GPU = gpu.Absent[gpu.Percent](gpu.NotSupported)
		d.Power.EnforcedLimit = gpu.Of[gpu.Watts](310)
	})
	a := explain.Explain(s)
	in := input(s, "why")
	in.Said = func(d *gpu.Device) *explain.DeviceAnswer { return &a.Devices[d.Index] }
	if l := NewPage(in).GPUs; l.Busy != 3 || l.Counts.Unknown != 0 || !strings.Contains(a.Rest, "2 other GPUs busy") {
		t.Errorf("the list counts %+v, the answer says %q", l.Counts, a.Rest)
	}
}

func TestOrderOfCards(t *testing.T) {
	s := working(4, func(i int, d *gpu.Device) {
		if i == 2 {
			d.Thermal.GPU = gpu.Absent[gpu.Celsius](gpu.NotReported)
		}
		d.Memory.Used = gpu.Of(gpu.Bytes((i * 7 % 4) << 30))
		d.Utilization.Encoder = gpu.Of(gpu.Percent(60 * (i % 2)))
	})
	for query, want := range map[string]string{
		"": "0 1 2 3", "sort=temperature": "3 1 0 2", "sort=power": "0 1 2 3", "sort=memory": "1 2 3 0", "sort=utilization": "1 3 0 2", "sort=nonsense": "0 1 2 3",
		"pin=2": "2 0 1 3", "pin=3,1": "1 3 0 2", "pin=3&pin=1": "1 3 0 2", "sort=temperature&pin=0": "0 3 1 2", "pin=9": "0 1 2 3",
		"show=problem": "", "show=busy&sort=temperature": "3 1 0 2", "show=nonsense": "0 1 2 3",
	} {
		if got := indices(asking(s, query)); got != want {
			t.Errorf("%s: got %q, want %q", query, got, want)
		}
	}
	if l := asking(s, "show=problem").GPUs; l.Left != "No GPU has a problem." {
		t.Errorf("an empty list says %q", l.Left)
	}
}

func TestPinsAreInTheAddress(t *testing.T) {
	s := working(3, nil)
	p := asking(s, "pin=2&sort=power")
	if c := p.GPUs.Cards; !c[0].Pinned || c[0].Pin != "/?sort=power" || c[1].Pin != "/?pin=2%2C0&sort=power" {
		t.Errorf("got %q, %q", c[0].Pin, c[1].Pin)
	}
	in := input(nil, "why")
	in.Nodes = gpu.Nodes{fixture.Named("eight", noon).Snapshot, fixture.Named("one", noon).Snapshot}
	node := in.Nodes[0].Node
	in.Choices = Choices{Path: "/", Asked: url.Values{"pin": {node + "/1"}}}
	if c := NewPage(in).GPUs.Cards; c[0].Title != node+" GPU 1" || !c[0].Pinned {
		t.Errorf("the first is %q", c[0].Title)
	}
}

// A filter hides cards; tiles and squares keep their places.
func TestFilterOfTiles(t *testing.T) {
	s := working(16, func(i int, d *gpu.Device) {
		if i == 9 {
			d.State = gpu.StateLost
		}
	})
	l := asking(s, "show=problem&color=temperature&pin=1").GPUs
	if l.Shape != Tiles || len(l.Groups) != 2 || l.Groups[0].Name != "GPUs 8–15" || l.Groups[0].Right != "1 lost" || !l.Groups[1].Pinned {
		t.Fatalf("got %+v", l.Groups)
	}
	for _, g := range l.Groups {
		for _, spot := range g.Spots {
			if spot.Dim == (spot.Level == Bad) {
				t.Errorf("%s is dim: %v", spot.Number, spot.Dim)
			}
		}
	}
	if spot := l.Groups[1].Spots[0]; spot.Figure != "40°" || spot.Small != "50" || spot.Step != "u1" {
		t.Errorf("got %+v", spot)
	}
	if spot := l.Groups[0].Spots[1]; spot.Figure != "lost" || spot.Step != "" {
		t.Errorf("got %+v", spot)
	}
}

// What is not known has no color of rest, and no 0.
func TestAnUnknownTileIsNoZero(t *testing.T) {
	s := working(13, func(_ int, d *gpu.Device) { d.Utilization.GPU = gpu.Absent[gpu.Percent](gpu.NotSupported) })
	for _, g := range asking(s, "").GPUs.Groups {
		for _, spot := range g.Spots {
			if spot.Figure != "–" || spot.Step != "" {
				t.Fatalf("got %+v", spot)
			}
		}
		if g.Says != "" {
			t.Errorf("the group is %q", g.Says)
		}
	}
}

func TestTheEngineThatMatters(t *testing.T) {
	d := device(func(d *gpu.Device) {
		d.Utilization.GPU, d.Utilization.Encoder = gpu.Of[gpu.Percent](10), gpu.Of[gpu.Percent](71)
	})
	if m := newTile(new(Input), d, noon).Meters[0]; m.Label != "Encoder" || m.Value.Text != "71\u00a0%" {
		t.Errorf("got %+v", m)
	}
	if f := newFigures(d); f[0].Label != "Encoder" || f[1].Label != "Compute" {
		t.Errorf("got %+v", f)
	}
	d.Utilization.GPU = gpu.Absent[gpu.Percent](gpu.NotSupported)
	d.Utilization.Encoder = gpu.Of[gpu.Percent](0)
	if m := newTile(new(Input), d, noon).Meters[0]; m.Label != "Utilization" || m.Value.Text != "not offered" {
		t.Errorf("an encoder at rest is in place of what is not known: %+v", m)
	}
}

// However many devices in whatever states: each is counted once, and shown once in every order and filter that has it.
func TestEveryGPUIsThereOnce(t *testing.T) {
	states := []gpu.State{gpu.StateOK, gpu.StateOK, gpu.StateOK, gpu.StateLost, gpu.StateNotAnswering, gpu.StateAsleep}
	random := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		n := 2 + random.IntN(200)
		s := working(n, func(_ int, d *gpu.Device) {
			d.State = states[random.IntN(len(states))]
			if random.IntN(3) == 0 {
				d.Utilization.GPU = gpu.Reading[gpu.Percent]{}
			}
		})
		all := asking(s, "pin=1&sort="+[]string{"", "temperature", "memory"}[random.IntN(3)])
		seen := map[string]int{}
		l := all.GPUs
		if l.Shape == Cards {
			for _, c := range l.Cards {
				seen[c.Key]++
			}
		}
		for _, g := range l.Groups {
			for _, spot := range g.Spots {
				seen[spot.Key]++
			}
		}
		if len(seen) != n || l.All != n || l.Busy+l.Counts.Unknown+l.Problem > 2*n {
			t.Fatalf("of %d GPUs there are %d, counted as %+v", n, len(seen), l.Counts)
		}
		for key, times := range seen {
			if times != 1 {
				t.Fatalf("%s is there %d times", key, times)
			}
		}
		busy := asking(s, "show=busy").GPUs
		if busy.Counts != l.Counts {
			t.Fatalf("a filter changes the counts: %+v, %+v", busy.Counts, l.Counts)
		}
		if l.Shape == Cards && len(busy.Cards) != l.Busy {
			t.Fatalf("%d busy cards, counted %d", len(busy.Cards), l.Busy)
		}
		keys := map[string]bool{}
		for _, g := range l.Groups {
			if keys[g.Key] {
				t.Fatalf("two groups have the key %s", g.Key)
			}
			keys[g.Key] = true
		}
	}
}

func TestOfAThousandOnlyWhatIsWrongHasWords(t *testing.T) {
	s := working(1000, func(i int, d *gpu.Device) {
		if i%10 == 3 {
			d.State = gpu.StateNotAnswering
		}
	})
	l := asking(s, "").GPUs
	if len(l.Cards) != mostWrong || l.Left != "and 76 more, marked below" {
		t.Errorf("%d have words; %q", len(l.Cards), l.Left)
	}
	if !slices.ContainsFunc(l.Groups, func(g Group) bool { return g.Sums == "8 GPUs · 7 busy · 1 not answering" }) {
		t.Errorf("got %q", l.Groups[0].Sums)
	}
}
