//go:build !race

package contract_test

import (
	"slices"
	"testing"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
)

// Who asks for some GPUs gets the machine's sentence, and the causes of those
// and of the machine.
func TestCausesOfAFilter(t *testing.T) {
	s := fixture.BrokenServer()
	s.Notes = []gpu.Advice{{What: "something can't be seen"}}
	m := insight.Of(s)
	u := contract.NewUpdate(m, func(d *gpu.Device) bool { return d.Index == 3 })
	var kinds []string
	for _, c := range u.Causes {
		kinds = append(kinds, c.Kind)
		if c.GPUID != nil && *c.GPUID != 3 {
			t.Errorf("a cause of GPU %d: %s", *c.GPUID, c.Sentence)
		}
	}
	if want := []string{"note", "lost"}; u.Why != m.Answer.Sentence || !slices.Equal(kinds, want) {
		t.Errorf("why %q, causes %v, want those of the machine and %v", u.Why, kinds, want)
	}
}

// An update has the layers of the machine's answer and of each GPU's, and says which tell of a fault.
func TestLayersOfAnUpdate(t *testing.T) {
	s := fixture.BrokenServer()
	s.Devices[5].State = gpu.StateOK
	m := insight.Of(s)
	u := contract.NewUpdate(m, func(d *gpu.Device) bool { return d.Index < 4 })
	if u.Headline != m.Answer.Headline || !u.Broken || len(u.Facts) == 0 || u.Action.Text == "" {
		t.Errorf("the machine's: %+v", u.Layers)
	}
	for i, g := range u.GPUs {
		device := &m.Answer.Devices[i]
		same := g.Headline == device.Headline && len(g.Facts) == len(device.Facts) && g.Rest == device.Rest
		if !same || g.Action != contract.Action(device.Action) || g.Broken != (i == 3) {
			t.Errorf("GPU %d: %+v, want those of %+v", i, g.Layers, device.Layers)
		}
	}
}

// The fault of a fan is one, unless it turns unasked. What leads may be no GPU at all.
func TestBroken(t *testing.T) {
	cause := func(kind explain.Kind, what string) explain.Cause {
		return explain.Cause{Kind: kind, Case: what, Device: &gpu.Device{}}
	}
	lost := cause(explain.Lost, "state")
	warm := explain.Cause{Kind: explain.WarmAir, Headline: "It is warm."}
	other := explain.Cause{Kind: explain.OtherFan, Headline: "Another fan."}
	for name, tt := range map[string]struct {
		headline string
		causes   []explain.Cause
		broken   bool
	}{
		"work":                   {"It works.", []explain.Cause{cause(explain.Work, "processes"), lost}, false},
		"lost":                   {"It is lost.", []explain.Cause{{Kind: explain.Note}, warm, lost}, true},
		"another fan, and lost":  {"On a: Another fan.", []explain.Cause{other, lost}, false},
		"a fan that is blocked":  {"It stands still.", []explain.Cause{cause(explain.FanFailing, "still")}, true},
		"a fan that nobody asks": {"It turns.", []explain.Cause{cause(explain.FanFailing, "unasked")}, false},
		"no GPU":                 {"No GPU.", []explain.Cause{{Kind: explain.Note}, {Kind: explain.NoDevice}}, true},
		"nothing yet":            {"Wait.", []explain.Cause{{Kind: explain.Starting}}, false},
	} {
		a := explain.Answer{Machine: tt.causes, Layers: explain.Layers{Headline: tt.headline}}
		if got := contract.NewLayers(&a); got.Broken != tt.broken || got.Headline != tt.headline {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A live update stays small however many GPUs there are; the loudest come first.
func TestCausesOfManyGPUs(t *testing.T) {
	s := fixture.H100s(64)
	s.Devices[50].Thermal.GPU = gpu.Of[gpu.Celsius](86)
	u := contract.NewUpdate(insight.Of(s), nil)
	if len(u.Causes) != 64 || u.Causes[0].GPUID == nil || *u.Causes[0].GPUID != 50 {
		t.Errorf("%d causes, the first is %+v", len(u.Causes), u.Causes[0])
	}
	if all := contract.NewWhy(monitor, alone(s)); len(all.Causes) <= 64 || len(all.GPUs) != 64 {
		t.Errorf("/api/gpu/why has %d causes of %d GPUs", len(all.Causes), len(all.GPUs))
	}
}

// The GPU of an alert may be gone when it is told of.
func TestAnAlertOfAGPUThatIsGone(t *testing.T) {
	gone := alert.Alert{Device: gpu.Identity{Node: "node", UUID: "GPU-1"}}
	a := contract.NewAlert(&gone, alone(fixture.Empty()))
	if a.Why != "" || len(a.Causes) != 0 {
		t.Errorf("got %+v", a)
	}
}
