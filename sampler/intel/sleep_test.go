//go:build linux

package intel

import (
	"slices"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/drm"
	"github.com/gpuwhy/gpuwhy/sampler/drm/drmtest"
)

// TestAsleep checks that, for a card that sleeps from the start, only its power state and its PCI ids are opened and, for the processes
// that have it open, nothing that asks the driver.
func TestAsleep(t *testing.T) {
	m := drmtest.New(t)
	c := arcB580(m)
	c.Sleep()
	m.Open(100, 7, "dri/renderD129", xeClient("0000:03:00.0", 3, 1, 0, 0, 100, ""))
	ofCard, ofProc := drmtest.Watch(t, c.Dir), drmtest.Watch(t, m.Proc)
	s := source(t, m)
	for range 3 {
		d := after(t, s, time.Second)
		if d.State != gpu.StateAsleep || d.UUID != "PCI-0000:03:00.0" || d.Name != "Intel Arc B580" || !d.SampledAt.IsZero() {
			t.Errorf("%s %q is %s", d.UUID, d.Name, d.State)
		}
	}
	allowed := []string{"power/runtime_status", "vendor", "device", "revision", "subsystem_vendor", "subsystem_device", "drm"}
	for _, file := range ofCard() {
		if !slices.Contains(allowed, file) {
			t.Errorf("%s was opened", file)
		}
	}
	for _, file := range ofProc() {
		if file != "sys/kernel/osrelease" {
			t.Errorf("%s was opened below /proc", file)
		}
	}
	c.Wake()
	if d := read(t, s); d.State != gpu.StateOK || d.Thermal.GPU != gpu.Of[gpu.Celsius](52) {
		t.Errorf("awake it is %s with %v", d.State, d.Thermal.GPU)
	}
}

// TestOneAsleep checks that a sleeping card keeps no other card from being read, and that the walk over /proc for the other card does not
// wake it.
func TestOneAsleep(t *testing.T) {
	m := drmtest.New(t)
	uhd770(m)
	c := arcB580(m)
	c.Sleep()
	m.Open(100, 7, "dri/renderD129", xeClient("0000:03:00.0", 3, 1, 0, 0, 100, ""))
	m.Open(100, 8, "dri/renderD128", i915Client("0000:00:02.0", 3, 500, 0, ""))
	opened := drmtest.Watch(t, m.Proc)
	s := source(t, m)
	for range 2 {
		snap, err := drmtest.Read(t, s)
		if err != nil || snap.Devices[0].State != gpu.StateOK || snap.Devices[1].State != gpu.StateAsleep {
			t.Fatalf("%+v, %v", snap, err)
		}
		clockOf(s).Advance(time.Second)
	}
	if files := opened(); slices.Contains(files, "100/fdinfo/7") || !slices.Contains(files, "100/fdinfo/8") {
		t.Errorf("%v were opened", files)
	}
}

// laptop returns a card that may fall asleep and is idle, and that has been read once.
func laptop(t *testing.T) (*drmtest.Card, *Source) {
	m := drmtest.New(t)
	c := arcB580(m)
	c.Set(map[string]string{"power/control": "auto\n"})
	s := source(t, m)
	read(t, s)
	return c, s
}

// calm reads until the card is left alone.
func calm(t *testing.T, s *Source) {
	t.Helper()
	for range 10 {
		if d := after(t, s, 5*time.Second); d.Reason == drm.LeftAlone {
			return
		}
	}
	t.Fatal("it is never left alone")
}

func TestLeftAlone(t *testing.T) {
	c, s := laptop(t)
	calm(t, s)
	opened := drmtest.Watch(t, c.Dir)
	d := read(t, s)
	if d.State != gpu.StateOK || d.Reason != drm.LeftAlone || !d.SampledAt.IsZero() || d.Thermal.GPU.Quality() != gpu.Stale {
		t.Errorf("left alone it is %s, sampled at %v, with %v", d.State, d.SampledAt, d.Thermal.GPU)
	}
	if d.Modes.Persistence.Quality() != gpu.NotSupported {
		t.Errorf("what it never had is %v", d.Modes.Persistence)
	}
	for _, file := range opened() {
		if file != "power/runtime_status" {
			t.Errorf("%s was opened in a pause", file)
		}
	}
	c.Sleep()
	if d := read(t, s); d.State != gpu.StateAsleep {
		t.Errorf("asleep it is %s", d.State)
	}
	// Somebody uses it: it is read at once, and nothing is compared with earlier values.
	c.Wake()
	c.Set(map[string]string{"hwmon/hwmon3/energy1_input": "9000000000\n"})
	d = read(t, s)
	fresh := d.Reason.IsZero() && d.Thermal.GPU == gpu.Of[gpu.Celsius](52)
	if !fresh || d.Power.Draw.Present() || d.Fans.Fans[0].RPM.Present() {
		t.Errorf("awake it has %v, %v, %+v, %q", d.Thermal.GPU, d.Power.Draw, d.Fans, d.Reason.Text())
	}
}

// TestLeftAloneInVain checks that a card that stays awake, and that nobody has open, is read once after a pause, and then left alone for
// longer.
func TestLeftAloneInVain(t *testing.T) {
	_, s := laptop(t)
	calm(t, s)
	passed := 5 * time.Second // since the start of the pause
	for _, pause := range []time.Duration{20 * time.Second, 40 * time.Second, 80 * time.Second, 2 * time.Minute,
		2 * time.Minute} {
		if d := after(t, s, pause-passed-time.Second); d.Reason != drm.LeftAlone {
			t.Fatalf("a second before %v have passed it is read", pause)
		}
		passed = 0
		if d := after(t, s, time.Second); !d.Reason.IsZero() {
			t.Fatalf("after %v it is not read: %s", pause, d.Reason.Text())
		}
	}
}

// TestNotLeftAlone checks that a card that works, shows a picture or may not sleep is read each time.
func TestNotLeftAlone(t *testing.T) {
	tests := map[string]map[string]string{
		"may not sleep": {"power/control": "on\n"},
		"has a display": {"drm/card1/card1-DP-2/enabled": "enabled\n", "drm/card1/card1-DP-2/dpms": "On\n"},
	}
	for name, files := range tests {
		t.Run(name, func(t *testing.T) {
			c, s := laptop(t)
			c.Set(files)
			for range 12 {
				if d := after(t, s, 10*time.Second); d.SampledAt.IsZero() {
					t.Fatalf("it is left alone: %s", d.Reason.Text())
				}
			}
		})
	}
	t.Run("works", func(t *testing.T) {
		c, s := laptop(t)
		for i := range uint64(8) {
			c.Open(100, 7, "dri/renderD129", xeClient("0000:03:00.0", 3, 50*i, 0, 0, 100+100*i, ""))
			if d := after(t, s, 10*time.Second); d.SampledAt.IsZero() {
				t.Fatalf("it is left alone: %s", d.Reason.Text())
			}
		}
	})
}
