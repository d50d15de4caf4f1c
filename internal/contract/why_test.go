package contract_test

import (
	"slices"
	"testing"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/fixture"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// Who asks for some GPUs gets the machine's sentence, and the causes of those
// and of the machine.
func TestCausesOfAFilter(t *testing.T) {
	s := fixture.BrokenServer()
	s.Notes = []gpu.Advice{{What: "something can't be seen"}}
	answer := explain.Explain(s)
	only := s.Filtered(func(d *gpu.Device) bool { return d.Index == 3 })
	u := contract.NewUpdate(only, "")
	u.Explain(only, &answer)
	var kinds []string
	for _, c := range u.Causes {
		kinds = append(kinds, c.Kind)
		if c.GPUID != nil && *c.GPUID != 3 {
			t.Errorf("a cause of GPU %d: %s", *c.GPUID, c.Sentence)
		}
	}
	if want := []string{"note", "lost"}; u.Why != answer.Sentence || !slices.Equal(kinds, want) {
		t.Errorf("why %q, causes %v, want those of the machine and %v", u.Why, kinds, want)
	}
}

// A live update stays small however many GPUs there are; the loudest come first.
func TestCausesOfManyGPUs(t *testing.T) {
	s := fixture.H100s(64)
	s.Devices[50].Thermal.GPU = gpu.Of[gpu.Celsius](86)
	answer := explain.Explain(s)
	u := contract.NewUpdate(s, "")
	u.Explain(s, &answer)
	if len(u.Causes) != 64 || u.Causes[0].GPUID == nil || *u.Causes[0].GPUID != 50 {
		t.Errorf("%d causes, the first is %+v", len(u.Causes), u.Causes[0])
	}
	if all := contract.NewWhy(monitor, s, &answer); len(all.Causes) <= 64 || len(all.GPUs) != 64 {
		t.Errorf("/api/gpu/why has %d causes of %d GPUs", len(all.Causes), len(all.GPUs))
	}
}

// The GPU of an alert may be gone when it is told of.
func TestAnAlertOfAGPUThatIsGone(t *testing.T) {
	answer := explain.Explain(fixture.Empty())
	a := contract.Alert{GPUUUID: "GPU-1", Causes: []contract.Cause{}}
	a.Explain(answer.Of("node", "GPU-1"))
	if a.Why != "" || len(a.Causes) != 0 {
		t.Errorf("got %+v", a)
	}
}
