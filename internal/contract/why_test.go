package contract_test

import (
	"slices"
	"testing"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alert"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/fixture"
	"github.com/gpuwhy/gpuwhy/internal/insight"
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
