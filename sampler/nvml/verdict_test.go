//go:build linux && cgo

package nvml

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/nvml/fakenvml"
)

const (
	keyRecovery fakenvml.Key = "field230" // NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
	keyReset    fakenvml.Key = "field226" // NVML_FI_DEV_RESET_STATUS
	keyDrain    fakenvml.Key = "field227" // NVML_FI_DEV_DRAIN_AND_RESET_STATUS
)

func standing(d *gpu.Device) string {
	if !d.Health.Faults.Present() {
		return d.Health.Faults.Quality().String()
	}
	var all []string
	for _, f := range d.Health.Faults.Or(nil) {
		all = append(all, string(f.Kind))
	}
	return strings.Join(all, " ")
}

// A recovery that the driver asks for is a current fault, and the device's reason.
func TestWhatTheDriverAsksFor(t *testing.T) {
	card := fakenvml.RTX4090()
	reset := fakenvml.Error(int(resetRequired))
	for what, c := range map[string]struct {
		gpu  fakenvml.GPU
		want string
	}{
		"nothing is said":         {card, "not_supported"},
		"nothing":                 {card.With(keyRecovery, 0), ""},
		"a reset":                 {card.With(keyRecovery, 1), "needs_reset"},
		"a restart":               {card.With(keyRecovery, 2), "needs_restart"},
		"a drain":                 {card.With(keyRecovery, 3), "needs_drain"},
		"a drain and a reset":     {card.With(keyRecovery, 4), "needs_drain_and_reset"},
		"of the future":           {card.With(keyRecovery, 77), "needs_action"},
		"not permitted":           {card.With(keyRecovery, fakenvml.Error(int(noPermission))), "not_supported"},
		"an older driver":         {card.With(keyReset, 1).With(keyDrain, 0), "needs_reset"},
		"an older driver, both":   {card.With(keyReset, 0).With(keyDrain, 1), "needs_drain_and_reset"},
		"an older driver, none":   {card.With(keyReset, 0).With(keyDrain, 0), ""},
		"in place of a reading":   {card.With(fakenvml.Utilization, reset), "needs_reset"},
		"in place of a fan":       {card.With(fakenvml.Fan(1, "speed"), reset), "needs_reset"},
		"in place of the answer":  {card.With(keyRecovery, reset), "needs_reset"},
		"a fan that is an error":  {card.With(fakenvml.Fan(1, "speed"), fakenvml.Error(int(unknown))), "fan_unreadable"},
		"a fan and a reset":       {card.With(fakenvml.Fan(0, "speed"), fakenvml.Error(int(unknown))).With(keyRecovery, 1), "fan_unreadable needs_reset"},
		"a fan that is unknown":   {card.With(fakenvml.Fan(0, "speed"), fakenvml.Error(int(notSupported))), "not_supported"},
		"a server card, no fan":   {fakenvml.H100().With(keyRecovery, 0), ""},
		"a server card to reboot": {fakenvml.H100().With(keyRecovery, 7), "needs_restart"},
	} {
		t.Run(what, func(t *testing.T) {
			s := source(t, machine(t, c.gpu))
			for range 3 {
				if d := readOne(t, s); strings.Contains(standing(d), "fan_unreadable") {
					t.Error("a single error of a fan counts")
				}
				pass(s, 900*time.Millisecond)
			}
			d := readOne(t, s)
			if got := standing(d); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			asks := len(d.Health.Standing()) > 0
			if d.State != gpu.StateOK || errors.Is(&d.Reason, gpu.ErrNeedsAction) != asks || asks != (d.Reason.What != "") || asks != (d.Reason.Try != "") {
				t.Errorf("%s: %q, %q", d.State, d.Reason.What, d.Reason.Try)
			}
		})
	}
}

// It ends when the driver stops asking, and counts again when it begins again.
func TestWhatTheDriverAsksForEnds(t *testing.T) {
	m := machine(t, fakenvml.RTX4090().With(keyRecovery, 0))
	s := source(t, m)
	if d := readOne(t, s); standing(d) != "" {
		t.Fatal(standing(d))
	}
	for count := range uint64(2) {
		m.GPU(0).Set(keyRecovery, 1)
		pass(s, sometimes)
		began := clockOf(s).Now().UTC()
		for range 2 {
			d := readOne(t, s)
			if f := d.Health.Standing(); len(f) != 1 || f[0].Count != count+1 || !f[0].Last.Equal(began) {
				t.Fatalf("%+v, want count %d since %v", f, count+1, began)
			}
			pass(s, time.Second)
		}
		m.GPU(0).Set(keyRecovery, 0)
		pass(s, sometimes)
		if d := readOne(t, s); standing(d) != "" || d.Reason.What != "" {
			t.Fatalf("%q, %q", standing(d), d.Reason.What)
		}
	}
}

// Invalid bytes become a usable name, key and version.
func TestGarbageTexts(t *testing.T) {
	const garbage = "\xf8\x95\xa0\x81\x12\x7f\xef\xbf\x02"
	for what, c := range map[string]struct {
		gpu        fakenvml.GPU
		name, uuid string
	}{
		"the name":                {fakenvml.RTX4090().With(fakenvml.Name, garbage), "NVIDIA GPU", "GPU-4e0a6b6c-5d1f-4c3a-9c0e-000000000001"},
		"a part of the name":      {fakenvml.RTX4090().With(fakenvml.Name, "NVIDIA RTX\x07 4090\xff"), "NVIDIA RTX 4090", "GPU-4e0a6b6c-5d1f-4c3a-9c0e-000000000001"},
		"the UUID":                {fakenvml.RTX4090().With(fakenvml.UUID, garbage), "NVIDIA GeForce RTX 4090", "PCI-0000:01:00.0"},
		"one byte of the UUID":    {fakenvml.RTX4090().With(fakenvml.UUID, "GPU-4e0a\x016c"), "NVIDIA GeForce RTX 4090", "PCI-0000:01:00.0"},
		"markup in the UUID":      {fakenvml.RTX4090().With(fakenvml.UUID, "GPU-<script>"), "NVIDIA GeForce RTX 4090", "PCI-0000:01:00.0"},
		"everything":              {fakenvml.RTX4090().With(fakenvml.Name, garbage).With(fakenvml.UUID, garbage).With(keySerial, garbage).With("vbios", garbage), "NVIDIA GPU", "PCI-0000:01:00.0"},
		"a UUID without a GPU-":   {fakenvml.RTX4090().With(fakenvml.UUID, "11112222-3333-4444-8555-666677778888"), "NVIDIA GeForce RTX 4090", "11112222-3333-4444-8555-666677778888"},
		"nothing, as it is right": {fakenvml.RTX4090(), "NVIDIA GeForce RTX 4090", "GPU-4e0a6b6c-5d1f-4c3a-9c0e-000000000001"},
	} {
		t.Run(what, func(t *testing.T) {
			m := machine(t, c.gpu)
			s := source(t, m)
			m.SetDriver("555.85 [\x01Deprecated; use another]")
			snap := read(t, s)
			d := &snap.Devices[0]
			if d.Name != c.name || d.UUID != c.uuid || d.Serial.Present() {
				t.Errorf("%q, %q, %v", d.Name, d.UUID, d.Serial)
			}
			if d.DriverVersion != gpu.Of("555.85") || snap.Drivers[0].Version != gpu.Of("555.85") {
				t.Errorf("driver %v, %v", d.DriverVersion, snap.Drivers[0].Version)
			}
			if again := read(t, s).Devices[0].UUID; again != c.uuid {
				t.Errorf("it has another key then: %q", again)
			}
		})
	}
}

// A card that is bound in the kernel but missing from the driver's list is lost, and the others are read.
func TestACardThatTheDriverDoesNotList(t *testing.T) {
	for _, listed := range []int{1, 0} {
		m := machine(t, fakenvml.RTX4090(), fakenvml.RTX4090().At(2))
		m.Count(listed)
		s := source(t, m)
		s.kernel.Devices = t.TempDir()
		snap := until(t, s, "the card that is missing", func(snap *gpu.Snapshot, err error) bool { return err == nil && len(snap.Devices) == 2 })
		lost := &snap.Devices[1]
		if lost.State != gpu.StateLost || lost.PCI != "0000:02:00.0" || !strings.Contains(lost.Reason.What, "0000:02:00.0") {
			t.Errorf("%s at %s: %q", lost.State, lost.PCI, lost.Reason.What)
		}
		if first := &snap.Devices[0]; (first.State == gpu.StateOK) != (listed == 1) {
			t.Errorf("the other is %s: %q", first.State, first.Reason.Text())
		}
		closes(t, s)
	}
}

// What the kernel log says about a card that has lost its driver.
func TestACardOffTheBus(t *testing.T) {
	m := machine(t, fakenvml.RTX4090(), fakenvml.RTX4090().At(2))
	m.Count(1)
	lost := time.Now().UTC().Add(-time.Hour)
	s := source(t, m, func(c *Config) {
		c.Suspects = func() []gpu.Suspect { return []gpu.Suspect{{PCI: "0000:02:00.0", Kind: gpu.FaultOffBus, Last: lost}} }
	})
	s.kernel.Devices = t.TempDir()
	snap := until(t, s, "the card", func(snap *gpu.Snapshot, err error) bool { return err == nil && len(snap.Devices) == 2 })
	if d := &snap.Devices[1]; d.State != gpu.StateLost || !d.Since.Equal(lost) || !strings.Contains(d.Reason.What, "fallen off the bus") {
		t.Errorf("%s since %v: %q", d.State, d.Since, d.Reason.What)
	}
}

// A GPU for which the driver only reports an identity, or its memory, is still read: Orin, and a part of a GPU in a virtual machine.
func TestADriverThatOffersNothing(t *testing.T) {
	bare := fakenvml.GPU{fakenvml.UUID: "11112222-3333-4444-8555-666677778888", fakenvml.Name: "Orin (nvgpu)", fakenvml.PCI: "0000:00:00.0"}
	part := bare.With("memory_total", 24<<30).With("memory_used", 1204<<20)
	for what, c := range map[string]struct {
		gpu    fakenvml.GPU
		memory string
	}{
		"nothing":      {bare, "not_supported"},
		"memory alone": {part, "25769803776"},
	} {
		t.Run(what, func(t *testing.T) {
			d := readOne(t, source(t, machine(t, c.gpu), withoutSysfs))
			if d.State != gpu.StateOK || d.UUID != bare[fakenvml.UUID] || d.Memory.Total.String() != c.memory {
				t.Errorf("%s: %s %q, memory %v", what, d.State, d.UUID, d.Memory.Total)
			}
			for name, q := range map[string]gpu.Quality{
				"utilization": d.Utilization.GPU.Quality(), "temperature": d.Thermal.GPU.Quality(), "power": d.Power.Draw.Quality(), "fan": d.Fans.Commanded().Quality(),
			} {
				if q != gpu.NotSupported {
					t.Errorf("%s: %s is %v", what, name, q)
				}
			}
		})
	}
}
