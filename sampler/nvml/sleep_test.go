//go:build linux && cgo

package nvml

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/nvidia"
	"github.com/gpuwhy/gpuwhy/sampler/nvml/fakenvml"
)

func TestAllAsleep(t *testing.T) {
	m := machine(t, fakenvml.RTX4090())
	m.GPU(0).Sleep()
	s := source(t, m)
	before := m.Calls()
	for range 3 {
		d := readOne(t, s)
		if d.State != gpu.StateAsleep || d.UUID != "PCI-0000:01:00.0" || d.PCI != "0000:01:00.0" || d.Name != "NVIDIA GPU 10de:2684" {
			t.Errorf("%s %q at %s is %s", d.UUID, d.Name, d.PCI, d.State)
		}
	}
	if n := m.Calls() - before; n != 0 {
		t.Errorf("%d calls of the library while the only card sleeps", n)
	}
	m.GPU(0).Wake()
	if d := readOne(t, s); d.State != gpu.StateOK || d.UUID != m.GPU(0).UUID {
		t.Errorf("awake, %s is %s", d.UUID, d.State)
	}
	// Asleep again, it keeps its name.
	m.GPU(0).Sleep()
	before = m.Calls()
	if d := readOne(t, s); d.State != gpu.StateAsleep || d.UUID != m.GPU(0).UUID || d.Name != "NVIDIA GeForce RTX 4090" {
		t.Errorf("asleep again, %s %q is %s", d.UUID, d.Name, d.State)
	}
	if n := m.Calls() - before; n != 0 {
		t.Errorf("%d calls of the library after it fell asleep", n)
	}
}

// TestSomeAsleep checks that the library is initialized for the awake card, and the other is not touched.
func TestSomeAsleep(t *testing.T) {
	m := machine(t, fakenvml.RTX4090(), fakenvml.H100())
	m.GPU(0).Sleep()
	s := source(t, m)
	snap := read(t, s)
	if a, b := snap.Devices[0], snap.Devices[1]; a.State != gpu.StateAsleep || b.State != gpu.StateOK {
		t.Errorf("the cards are %s and %s, want asleep and ok", a.State, b.State)
	}
	if n := m.GPU(0).Calls(); n != 0 {
		t.Errorf("%d calls of the card that sleeps", n)
	}
	if n := m.Calls("nvmlDeviceGetHandleByIndex_v2"); n != 0 {
		t.Errorf("%d handles taken by index, which attaches whatever is there", n)
	}
	m.GPU(0).Wake()
	if snap := read(t, s); !allOK(snap, nil) {
		t.Errorf("awake, the cards are %s and %s", snap.Devices[0].State, snap.Devices[1].State)
	}
}

// TestSomeAsleepAndFewerListed checks that, while a card sleeps, the driver's own list is not walked, even if it differs from the kernel's.
func TestSomeAsleepAndFewerListed(t *testing.T) {
	whole := machine(t, fakenvml.RTX4090(), fakenvml.H100())
	whole.GPU(0).Sleep()
	kernel := func(c *Config) { c.SysfsRoot, c.ProcRoot = whole.SysfsRoot, whole.ProcRoot }
	m := machine(t, fakenvml.H100())
	snap := read(t, source(t, m, kernel))
	if len(snap.Devices) != 2 || snap.Devices[0].State != gpu.StateAsleep || snap.Devices[1].State != gpu.StateOK {
		t.Errorf("%+v, want one asleep and one ok", snap.Devices)
	}
	if n := m.Calls("nvmlDeviceGetHandleByIndex_v2"); n != 0 {
		t.Errorf("%d handles taken by index", n)
	}
}

// TestDriverFailsBesideSleeper checks that a sleeping card stays listed while the driver fails.
func TestDriverFailsBesideSleeper(t *testing.T) {
	m := machine(t, fakenvml.RTX4090(), fakenvml.H100())
	m.GPU(0).Sleep()
	m.Unload()
	snap, err := try(t, source(t, m))
	if err == nil || snap == nil || len(snap.Devices) != 1 || snap.Devices[0].State != gpu.StateAsleep {
		t.Errorf("%+v, %v; want the sleeping card and an error", snap, err)
	}
}

// TestKnownWhileItHangs checks that a device that has reported its UUID keeps it, even if the driver was gone in between and the device
// hangs when it is attached again.
func TestKnownWhileItHangs(t *testing.T) {
	m := machine(t, fakenvml.RTX4090(), fakenvml.H100())
	m.GPU(0).Sleep()
	s := source(t, m)
	read(t, s)
	m.Unload()
	until(t, s, "an error", func(_ *gpu.Snapshot, err error) bool { return err != nil })
	m.GPU(1).Hang()
	m.Load()
	snap := until(t, s, "no error", func(_ *gpu.Snapshot, err error) bool { return err == nil })
	if d := snap.Devices[1]; d.State != gpu.StateNotAnswering || d.UUID != m.GPU(1).UUID {
		t.Errorf("%s is %s, want %s not answering", d.UUID, d.State, m.GPU(1).UUID)
	}
}

// TestAllLostAreLookedForAgain checks that a library that found a device lost is initialized again, which it needs to find the device, if
// no other device answers.
func TestAllLostAreLookedForAgain(t *testing.T) {
	m := machine(t, fakenvml.RTX4090(), fakenvml.H100())
	s := source(t, m)
	read(t, s)
	m.GPU(0).Lost()
	m.GPU(1).Lost()
	for range 3 {
		read(t, s)
		pass(s, seldom/3-time.Second)
	}
	if n := m.Calls("nvmlInit_v2"); n != 1 {
		t.Errorf("%d initializations within the minute, want the first", n)
	}
	pass(s, time.Minute)
	read(t, s)
	snap := read(t, s)
	if n := m.Calls("nvmlInit_v2"); n != 2 {
		t.Errorf("%d initializations after the minute, want another one", n)
	}
	if a, b := snap.Devices[0].State, snap.Devices[1].State; a != gpu.StateLost || b != gpu.StateLost {
		t.Errorf("the cards are %s and %s, want both lost", a, b)
	}
}

// TestFailingHoldsUpNobody checks that a lost or failing device takes the library from no answering device. Its own handle is tried at each
// reading, and renewed once a minute.
func TestFailingHoldsUpNobody(t *testing.T) {
	for name, change := range map[string]func(*Config){"by address": func(*Config) {}, "by index": withoutSysfs} {
		for _, answer := range []int{int(gpuIsLost), int(timeout), int(unknown)} {
			t.Run(fmt.Sprint(name, ", ", code(answer)), func(t *testing.T) {
				m := machine(t, fakenvml.RTX4090(), fakenvml.H100())
				s := source(t, m, change)
				read(t, s)
				m.GPU(1).Answer(answer)
				m.Hang("nvmlInit_v2")
				attach := []string{"nvmlDeviceGetHandleByPciBusId_v2", "nvmlDeviceGetHandleByIndex_v2"}
				attached := m.GPU(1).Calls(attach...)
				for minute := range 3 {
					pass(s, seldom+time.Second)
					s.session.devices[1].again = time.Time{}
					for range 2 {
						pass(s, time.Millisecond)
						begun, calls := clockOf(s).Now(), m.GPU(1).Calls()
						snap := read(t, s)
						if d := snap.Devices[0]; d.State != gpu.StateOK || d.SampledAt.Before(begun) {
							t.Fatalf("in minute %d the healthy card is %s, sampled at %v", minute, d.State, d.SampledAt)
						}
						if d := snap.Devices[1]; d.State == gpu.StateOK || d.UUID != m.GPU(1).UUID || m.GPU(1).Calls() == calls {
							t.Errorf("in minute %d %s is %s after %d calls", minute, d.UUID, d.State, m.GPU(1).Calls()-calls)
						}
					}
				}
				if n := m.Calls("nvmlShutdown"); n != 0 {
					t.Errorf("the library was shut down %d times beside a card that answers", n)
				}
				if n := m.GPU(1).Calls(attach...) - attached; n < 2 || n > 3 {
					t.Errorf("attached anew %d times in three minutes, want once in each in which it had failed before", n)
				}
				m.GPU(1).Back()
				if !allOK(read(t, s), nil) {
					t.Error("the card is not back")
				}
				m.GPU(1).RaiseXID(79)
				if got := read(t, s).Devices[1].Health.XIDs.Or(nil); len(got) != 1 {
					t.Errorf("XIDs %v of the card that is back, want one", got)
				}
			})
		}
	}
}

// laptop returns a machine whose only card may fall asleep and is idle, with a source.
func laptop(t *testing.T) (*fakenvml.Machine, *Source) {
	m := machine(t, fakenvml.RTX4090().With(keyDisplayActive, 0))
	m.GPU(0).AllowSleep(true)
	return m, source(t, m)
}

// calm reads until the source leaves the machine alone.
func calm(t *testing.T, m *fakenvml.Machine, s *Source) {
	t.Helper()
	for range nvidia.CalmReadings {
		readOne(t, s)
		pass(s, nvidia.CalmTime/2)
	}
	awaitInitialized(m, 0)
}

func TestLeftAlone(t *testing.T) {
	m, s := laptop(t)
	calm(t, m, s)
	before := m.Calls()
	d := readOne(t, s)
	if d.State != gpu.StateOK || d.Reason.IsZero() || !d.SampledAt.IsZero() || d.UUID != m.GPU(0).UUID {
		t.Errorf("left alone, %s is %s, sampled at %v, reason %q", d.UUID, d.State, d.SampledAt, d.Reason.Text())
	}
	if q := d.Thermal.GPU.Quality(); q != gpu.Stale {
		t.Errorf("its temperature is %v, want stale", q)
	}
	if q := d.Thermal.Memory.Quality(); q != gpu.NotSupported {
		t.Errorf("what it never had is %v, want not_supported", q)
	}
	if n := m.Calls() - before; n != 0 {
		t.Errorf("%d calls while it is left alone", n)
	}

	m.GPU(0).Sleep()
	if d := readOne(t, s); d.State != gpu.StateAsleep {
		t.Errorf("asleep, it is %s", d.State)
	}
	pass(s, time.Hour)
	if d := readOne(t, s); d.State != gpu.StateAsleep || m.Calls() != before {
		t.Errorf("an hour later it is %s, after %d calls", d.State, m.Calls()-before)
	}

	// Somebody uses it: it is read at once.
	m.GPU(0).Wake()
	m.GPU(0).Set(fakenvml.Utilization, 80)
	if d := readOne(t, s); d.Utilization.GPU != gpu.Of(gpu.Percent(80)) || !d.Reason.IsZero() {
		t.Errorf("in use it reads %v, reason %q", d.Utilization.GPU, d.Reason.Text())
	}
}

// TestLeftAloneInVain checks that a card that stays awake is read again, and left alone for longer next time.
func TestLeftAloneInVain(t *testing.T) {
	m, s := laptop(t)
	calm(t, m, s)
	for _, pause := range []time.Duration{nvidia.FirstPause, 2 * nvidia.FirstPause, 4 * nvidia.FirstPause, nvidia.LongestPause, nvidia.LongestPause} {
		before := m.Calls("nvmlDeviceGetPowerUsage")
		pass(s, pause-nvidia.CalmTime/2-time.Second)
		if d := readOne(t, s); d.Reason.IsZero() {
			t.Fatalf("a second before %v have passed it is read", pause)
		}
		pass(s, nvidia.CalmTime/2+time.Second)
		if d := readOne(t, s); !d.Reason.IsZero() {
			t.Fatalf("after %v it is not read: %s", pause, d.Reason.Text())
		}
		if n := m.Calls("nvmlDeviceGetPowerUsage") - before; n != 1 {
			t.Errorf("read %d times after %v, want once", n, pause)
		}
		awaitInitialized(m, 0)
		pass(s, nvidia.CalmTime/2)
	}
}

// TestNotLeftAlone checks that a card that works, shows a picture or may not sleep is read at each reading.
func TestNotLeftAlone(t *testing.T) {
	tests := map[string]func(*fakenvml.Machine){
		"may not sleep": func(m *fakenvml.Machine) { m.GPU(0).AllowSleep(false) },
		"works":         func(m *fakenvml.Machine) { m.GPU(0).Set(fakenvml.Utilization, 1) },
		"can't say":     func(m *fakenvml.Machine) { m.GPU(0).Unset(fakenvml.Utilization) },
		"has a display": func(m *fakenvml.Machine) { m.GPU(0).Set(keyDisplayActive, 1) },
		"has a process": func(m *fakenvml.Machine) { m.GPU(0).SetProcesses(fakenvml.Process{PID: 5, Type: "compute"}) },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			m, s := laptop(t)
			change(m)
			for range 20 {
				if d := readOne(t, s); d.State != gpu.StateOK || d.SampledAt.IsZero() {
					t.Fatalf("%s, sampled at %v", d.State, d.SampledAt)
				}
				pass(s, nvidia.CalmTime)
			}
			if n := m.Calls("nvmlDeviceGetPowerUsage"); n < 20 {
				t.Errorf("read %d times of 20", n)
			}
		})
	}
}

// TestOtherCardWakes checks that a pause ends when one of several cards is used again.
func TestOtherCardWakes(t *testing.T) {
	m := machine(t, fakenvml.RTX4090().With(keyDisplayActive, 0), fakenvml.H100().With(fakenvml.Utilization, 0))
	m.GPU(1).SetProcesses()
	for _, d := range m.GPUs {
		d.AllowSleep(true)
	}
	s := source(t, m)
	for range nvidia.CalmReadings {
		read(t, s)
		pass(s, nvidia.CalmTime/2)
	}
	awaitInitialized(m, 0)
	m.GPU(1).Sleep()
	states := func() (out []gpu.State) {
		for _, d := range read(t, s).Devices {
			out = append(out, d.State)
		}
		return out
	}
	if got := states(); !slices.Equal(got, []gpu.State{gpu.StateOK, gpu.StateAsleep}) || m.Counters().Initialized != 0 {
		t.Errorf("the cards are %v", got)
	}
	m.GPU(1).Wake()
	snap := read(t, s)
	if !allOK(snap, nil) || snap.Devices[1].SampledAt.IsZero() {
		t.Errorf("awake, the second card is %s, sampled at %v", snap.Devices[1].State, snap.Devices[1].SampledAt)
	}
}
