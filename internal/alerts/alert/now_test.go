package alert

import (
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight"
)

// The short words of an alert are those of now: one that fired for a lost device does not say that it is lost once it
// merely does not answer.
func TestWhatIsSoNow(t *testing.T) {
	lost := Default("lost", Lost)
	silent := Default("silent", NotAnswering)
	hot := Default("hot", Temperature)
	xids := Default("xid", XID)
	hot.Hold, lost.Clear = 0, 30*time.Second
	e := New([]Rule{lost, silent, hot, xids})
	see := func(second int, change func(*gpu.Device)) {
		d := healthy()
		change(&d)
		e.Observe(&insight.Moment{Snapshot: snapshotOf(second, d)})
	}
	in := func(s gpu.State) func(*gpu.Device) { return func(d *gpu.Device) { d.State = s } }
	want := func(when string, rule, is, more string, easing bool) {
		t.Helper()
		for _, a := range e.Standing() {
			if a.Rule == rule {
				if a.Is != is || a.More != more || a.Easing != easing {
					t.Errorf("%s: %q, %q, easing %v; want %q, %q, %v", when, a.Is, a.More, a.Easing, is, more, easing)
				}
				return
			}
		}
		t.Errorf("%s: no alert of %s", when, rule)
	}
	see(0, in(gpu.StateOK))
	see(1, in(gpu.StateLost))
	want("lost", "lost", "is lost", "The driver no longer finds it.", false)
	if told := e.Standing()[0].Told; !told.Equal(start.Add(time.Second)) {
		t.Errorf("told at %v", told)
	}
	see(5, in(gpu.StateNotAnswering))
	want("silent", "lost", "is not answering, and is no longer reported as lost", "If it stays that way, the alert ends in 30 s.", true)
	see(36, in(gpu.StateNotAnswering))
	want("silent for long", "silent", "is not answering", "", false)
	if all := e.Standing(); len(all) != 1 {
		t.Errorf("%d alerts stand: %+v", len(all), all)
	}
	see(40, func(d *gpu.Device) {
		d.Thermal.GPU = gpu.Of(gpu.Celsius(91))
		d.Health.XIDs = gpu.Of([]gpu.XID{{Code: 79, Count: 2}})
	})
	want("hot", "hot", "is at 91 °C", "Above 85 °C.", false)
	want("errors", "xid", "had 2 driver errors", "The last one: XID 79 (the GPU has fallen off the bus). The first came just now.", false)
	see(50, func(d *gpu.Device) { d.Thermal.GPU = gpu.Reading[gpu.Celsius]{} })
	want("no data", "hot", "does not report its temperature", "It is unclear whether this is over.", false)
}
