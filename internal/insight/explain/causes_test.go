package explain_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight/attribute"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// What a process does with a device that it holds: nothing, a little, or copying data.
func TestWhatAHolderDoes(t *testing.T) {
	idler := process(4242, "python", 0)
	little := process(4242, "python", 3)
	holding := func(p gpu.Process, received gpu.BytesPerSecond) gpu.Device {
		return made(held, func(d *gpu.Device) {
			d.Utilization.GPU, d.Processes = gpu.Of(p.SM.Or(0)), gpu.Of([]gpu.Process{p})
			d.Activity.PCIeReceived = gpu.Of(received)
		})
	}
	for name, tt := range map[string]struct {
		device gpu.Device
		kind   explain.Kind
		says   string
		unused bool // the answer says that it does not use the device
	}{
		"nothing":      {holding(idler, 3e6), explain.HeldAwake, "python (pid 4242, alice) keeps GPU 0 (RTX 4090) awake without using it", true},
		"a little":     {holding(little, 3e6), explain.HeldAwake, "python (pid 4242, alice) keeps GPU 0 (RTX 4090) awake but barely uses it", false},
		"a slow copy":  {holding(idler, 4e8), explain.HeldAwake, "python (pid 4242, alice) keeps GPU 0 (RTX 4090) awake but barely uses it", false},
		"a fast copy":  {holding(idler, 22e9), explain.Work, "python (pid 4242, alice) has kept GPU 0 (RTX 4090) busy", false},
		"five percent": {holding(process(4242, "python", 5), 3e6), explain.Work, "python (pid 4242, alice) has kept GPU 0 (RTX 4090) busy at", false},
		"an old copy": {made(held, func(d *gpu.Device) {
			d.Processes = gpu.Of([]gpu.Process{idler})
			d.Activity.PCIeReceived, d.Activity.PCIeMeasuredAt = gpu.Of[gpu.BytesPerSecond](22e9), gpu.Of(start.Add(-time.Hour))
		}), explain.HeldAwake, "without using it", true},
		"not a number": {holding(idler, gpu.BytesPerSecond(-1)), explain.HeldAwake, "without using it", true},
	} {
		t.Run(name, func(t *testing.T) {
			a := play(t, during(2*time.Minute, made()), during(3*time.Minute, tt.device))
			if first := a.Devices[0].Causes[0]; first.Kind != tt.kind || !strings.Contains(a.Sentence, tt.says) {
				t.Errorf("it is %s: %q, want %s: %q", first.Kind, a.Sentence, tt.kind, tt.says)
			}
			if got := strings.Contains(a.Sentence, "without using it"); got != tt.unused {
				t.Errorf("said %q", a.Sentence)
			}
		})
	}
}

// Clocks set by hand keep a device from rest; once they are free, it cools down, and nobody had worked.
func TestSetClocks(t *testing.T) {
	locked := made(held, func(d *gpu.Device) {
		d.Thermal.GPU, d.Clocks.EventReasons = gpu.Of[gpu.Celsius](58), gpu.Of(gpu.ReasonApplicationClocks)
	})
	h, floors := explain.NewHistory(), new(attribute.Floors)
	a := playOn(t, h, floors, start, during(2*time.Minute, made()), during(3*time.Minute, locked))
	if want := "Clocks set by hand keep GPU 0 (RTX 4090) awake without work (58 °C, 63 W of 450 W, fan off), 46 W above its idle draw."; a.Sentence != want {
		t.Errorf("got %q, want %q", a.Sentence, want)
	}
	cooler := made(func(d *gpu.Device) { d.Thermal.GPU = gpu.Of[gpu.Celsius](55) })
	a = playOn(t, h, floors, start.Add(5*time.Minute), during(15*time.Second, cooler))
	if first := a.Devices[0].Causes[0]; first.Kind != explain.CoolingDown || first.Case != "after" || strings.Contains(a.Sentence, "work") {
		t.Errorf("it is %s/%s: %q", first.Kind, first.Case, a.Sentence)
	}
}

// Broken memory that waits to be replaced is in the answer, whatever else is.
func TestBrokenMemory(t *testing.T) {
	for want, change := range map[string]func(*gpu.Health){
		"it has faulty memory rows waiting to be replaced":      func(h *gpu.Health) { h.RemapPending = gpu.Of(true) },
		"it has faulty memory that no spare memory can replace": func(h *gpu.Health) { h.RemapPending, h.RemapFailed = gpu.Of(true), gpu.Of(true) },
		"it has faulty memory pages waiting to be retired":      func(h *gpu.Health) { h.RetirementPending = gpu.Of(true) },
		"": func(h *gpu.Health) {
			h.RemapPending, h.RemapFailed, h.RetirementPending = gpu.Of(false), gpu.Absent[bool](gpu.NotSupported), gpu.DoubtfulOf(true)
		},
	} {
		broken := func(d *gpu.Device) { change(&d.Health) }
		for _, d := range []gpu.Device{made(broken), made(working(98, python), broken)} {
			a := play(t, during(time.Minute, d))
			if want == "" && strings.Contains(a.Sentence, "broken") || !strings.Contains(a.Sentence, want) {
				t.Errorf("said %q, want %q", a.Sentence, want)
			}
			if want != "" && !strings.Contains(a.Rest, "faulty memory") {
				t.Errorf("the line says %q", a.Rest)
			}
		}
	}
}

// If a card is broken or loud while another one works, it comes first, or is in the line below.
func TestBesideABusyCard(t *testing.T) {
	busyOne := made(working(98, python))
	loud := func(percent gpu.Percent) gpu.Device {
		return made(indexed(1), func(d *gpu.Device) { fansAt(d, percent); d.Thermal.GPU = gpu.Of[gpu.Celsius](44) })
	}
	dead := made(indexed(1), func(d *gpu.Device) {
		fansAt(d, 40)
		d.Fans.Fans[0].RPM, d.Fans.Fans[1].RPM = gpu.Of[gpu.RPM](0), gpu.Of[gpu.RPM](0)
		d.Thermal.GPU = gpu.Of[gpu.Celsius](41)
	})
	turning := made(indexed(1), func(d *gpu.Device) { fansAt(d, 40) })
	for name, tt := range map[string]struct {
		other    gpu.Device
		headline string
		rest     string
		broken   bool
	}{
		"a dead fan":         {dead, "Fan 1 of GPU 1 is not turning.", "python (alice) is heating GPU 0", true},
		"a fan at full":      {loud(95), "GPU 1's fan is fast, and no reading explains it.", "python (alice) is heating GPU 0", false},
		"a fan a bit faster": {loud(72), "python (alice) is heating GPU 0.", "GPU 1's fan is fast", false},
		"a quiet fan":        {loud(30), "python (alice) is heating GPU 0.", "for 2 min", false},
	} {
		t.Run(name, func(t *testing.T) {
			a := play(t, during(time.Minute, made(), turning), during(2*time.Minute+5*time.Second, busyOne, tt.other))
			if a.Headline != tt.headline || !strings.Contains(a.Rest, tt.rest) || a.Broken() != tt.broken {
				t.Errorf("said %q, %q, broken: %v; want %q, %q", a.Headline, a.Rest, a.Broken(), tt.headline, tt.rest)
			}
		})
	}
}
