//go:build linux

package amd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/drm"
	"github.com/gpuwhy/gpuwhy/sampler/drm/drmtest"
	"github.com/gpuwhy/gpuwhy/sampler/sourcetest"
)

const address = "0000:03:00.0"

// first reads the first device, which must be in a state.
func first(t *testing.T, s *Source, state gpu.State) *gpu.Device {
	t.Helper()
	d := &read(t, s).Devices[0]
	if d.State != state {
		t.Errorf("the device is %s (%s), want %s", d.State, d.Reason.Text(), state)
	}
	return d
}

// A card whose readings all fail says why, and returns when they work again.
func TestCardFails(t *testing.T) {
	const refuses = "the driver refuses every reading of the GPU, as it does during a reset"
	for _, tt := range []struct {
		errno syscall.Errno
		state gpu.State
		what  string
		is    error
	}{
		{syscall.EPERM, gpu.StateNotAnswering, refuses, gpu.ErrNotAnswering},
		{syscall.EIO, gpu.StateNotAnswering, refuses, gpu.ErrNotAnswering},
		{syscall.ENODEV, gpu.StateLost, "the driver reports that the GPU is gone", syscall.ENODEV},
		{syscall.EACCES, gpu.StateNotAnswering, "gpuwhy is not allowed to read the GPU's files in /sys", gpu.ErrNotPermitted},
		{syscall.EOPNOTSUPP, gpu.StateNotAnswering, "the driver offers no readings of the GPU", gpu.ErrNotAnswering},
	} {
		t.Run(tt.errno.Error(), func(t *testing.T) {
			m, f := drmtest.New(t), &faults{}
			c := m.Card(0, address, "amdgpu", navi31())
			m.Card(1, "0000:0c:00.0", "amdgpu", phoenix())
			s := newSource(t, m, f)
			first(t, s, gpu.StateOK)
			f.set(c.Dir, tt.errno)
			d := first(t, s, tt.state)
			if d.Reason.What != tt.what || d.Reason.Try == "" || !errors.Is(&d.Reason, tt.is) || d.UUID != "GPU-4c1a9f7e0b35d262" {
				t.Errorf("%s: %s (%v)", d.UUID, d.Reason.Text(), d.Reason.Err)
			}
			for _, d := range read(t, s).Devices {
				for _, problem := range sourcetest.Check(&d, clockOf(s).Now()) {
					t.Error(problem)
				}
				if d.State != gpu.StateOK && d.PCI != address {
					t.Errorf("%s is %s", d.PCI, d.State)
				}
			}
			f.set(c.Dir, 0)
			if d := first(t, s, gpu.StateOK); d.Thermal.GPU != gpu.Of[gpu.Celsius](51) {
				t.Errorf("back, it has %v", d.Thermal.GPU)
			}
		})
	}
}

// While the sensors of a card under reset fail one after the other, its memory is still known.
func TestSomeSensorsFail(t *testing.T) {
	m, f := drmtest.New(t), &faults{}
	c := m.Card(0, address, "amdgpu", navi31())
	s := newSource(t, m, f)
	for _, file := range []string{
		"gpu_metrics", "gpu_busy_percent", "mem_busy_percent", "hwmon/hwmon4/temp1_input", "hwmon/hwmon4/power1_average",
	} {
		f.set(c.File(file), syscall.EPERM)
	}
	d := only(t, s)
	if d.State != gpu.StateOK || d.Power.Draw.Quality() != gpu.NotReported || d.Utilization.GPU.Quality() != gpu.NotReported ||
		d.Thermal.HotSpot != gpu.Of[gpu.Celsius](67) {
		t.Errorf("%s\n%s", d.State, facts(d))
	}
}

// Each file of a card may hang: only that card does not answer, Read does not wait for it, and when the file answers again the card
// returns.
func TestEachFileHangs(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for each file")
	}
	for _, file := range []string{
		"gpu_busy_percent", "mem_info_vram_total", "gpu_metrics",
		"hwmon/hwmon4/name", "hwmon/hwmon4/temp2_label", "hwmon/hwmon4/fan1_input",
		"unique_id", "vbios_version", "pp_dpm_sclk", "current_link_speed", "drm/card0/card0-DP-1/enabled",
	} {
		t.Run(file, func(t *testing.T) {
			m := drmtest.New(t)
			c := m.Card(0, address, "amdgpu", navi31())
			m.Card(1, "0000:0c:00.0", "amdgpu", phoenix())
			s := newSource(t, m, nil)
			read(t, s)
			c.Hang(c.File(file))
			clockOf(s).Advance(seldom) // all files are read again
			snap := drmtest.Hangs(t, s, clockOf(s), s.cfg.Deadline, 0)
			if d := &snap.Devices[0]; !errors.Is(&d.Reason, gpu.ErrNotAnswering) {
				t.Errorf("the reason is %s", d.Reason.Text())
			}
			read(t, s) // it is no longer waited for
			c.Release(c.File(file), navi31()[file])
			drmtest.Answers(t, s)
		})
	}
}

// If the fdinfo of a process hangs, its card does not answer, but the other one does.
func TestFdinfoHangs(t *testing.T) {
	m := drmtest.New(t)
	m.Card(0, address, "amdgpu", navi31())
	m.Card(1, "0000:0c:00.0", "amdgpu", phoenix())
	info := client(1, vram, ran("gfx", time.Second))
	m.Open(100, 5, "dri/renderD128", info)
	m.Open(101, 5, "dri/renderD129", "drm-driver:\tamdgpu\ndrm-pdev:\t0000:0c:00.0\ndrm-client-id:\t1\ndrm-engine-gfx:\t1 ns\n")
	file := filepath.Join(m.Proc, "100/fdinfo/5")
	s := newSource(t, m, nil)
	read(t, s)
	m.Hang(file)
	if other := drmtest.Hangs(t, s, clockOf(s), s.cfg.Deadline, 0).Devices[1]; len(other.Processes.Or(nil)) != 1 {
		t.Errorf("the other card has %v", other.Processes)
	}
	m.Release(file, info)
	drmtest.Answers(t, s)
}

// Cards come and go between two readings.
func TestHotPlug(t *testing.T) {
	m := drmtest.New(t)
	c := m.Card(0, address, "amdgpu", navi31())
	late := m.Card(1, "0000:0c:00.0", "amdgpu", phoenix())
	late.Unplug()
	s := newSource(t, m, nil)
	for range 3 {
		if d := only(t, s); d.PCI != address || d.State != gpu.StateOK {
			t.Fatalf("%s is %s", d.PCI, d.State)
		}
		late.Plug()
		if n := len(read(t, s).Devices); n != 2 {
			t.Errorf("%d devices, want 2", n)
		}
		late.Unplug()
		only(t, s)
	}
	c.Unplug()
	_, err := s.Read(t.Context())
	if !errors.Is(err, gpu.ErrNoDevices) {
		t.Errorf("without a card: %v", err)
	}
	c.Plug()
	only(t, s)
}

// A card that vanishes while it is read is lost, and nothing else happens.
func TestCardVanishesWhileRead(t *testing.T) {
	m := drmtest.New(t)
	c := m.Card(0, address, "amdgpu", navi31())
	cfg := config(t, m, nil)
	gone := false
	cfg.Read = func(file string) ([]byte, error) {
		if filepath.Base(file) == "mem_info_vram_used" && !gone {
			gone = true
			c.Unplug()
		}
		return drm.ReadFile(file)
	}
	s := openSource(t, cfg)
	if d := only(t, s); d.State != gpu.StateLost || d.Reason.What == "" {
		t.Errorf("it is %s: %s", d.State, d.Reason.Text())
	}
}

func TestNoCard(t *testing.T) {
	for name, tt := range map[string]struct {
		prepare func(t *testing.T, m *drmtest.Machine)
		is      error
		what    string
	}{
		"nothing": {func(*testing.T, *drmtest.Machine) {}, gpu.ErrNoDriver, "this machine has no AMD GPU"},
		"no sysfs": {func(t *testing.T, m *drmtest.Machine) {
			if err := os.RemoveAll(m.Sysfs); err != nil {
				t.Fatal(err)
			}
		}, gpu.ErrNoDriver, "this machine has no AMD GPU"},
		"another maker's": {func(_ *testing.T, m *drmtest.Machine) {
			m.Card(0, address, "i915", map[string]string{"vendor": "0x8086\n"})
		}, gpu.ErrNoDriver, "this machine has no AMD GPU"},
		"driver not loaded": {func(t *testing.T, m *drmtest.Machine) {
			c := m.Card(0, address, "amdgpu", navi31())
			without(t, c, filepath.Join(m.Sysfs, "bus/pci/drivers/amdgpu"))
		}, gpu.ErrNoDriver, "is not loaded"},
		"driver failed": {func(t *testing.T, m *drmtest.Machine) {
			without(t, m.Card(0, address, "amdgpu", navi31()))
		}, gpu.ErrNoDevices, "does not handle the AMD GPU at " + address},
		"driver begins": {func(t *testing.T, m *drmtest.Machine) {
			c := m.Card(0, address, "amdgpu", navi31())
			for _, node := range c.Nodes {
				if err := os.Remove(filepath.Join(m.Sysfs, "class/drm", node)); err != nil {
					t.Fatal(err)
				}
			}
		}, gpu.ErrNoDevices, "does not handle the AMD GPU at " + address},
		"the old driver": {func(_ *testing.T, m *drmtest.Machine) {
			m.Card(0, address, "radeon", navi31())
		}, gpu.ErrNoDriver, "the old radeon driver has the AMD GPU at " + address},
		"given to a virtual machine": {func(_ *testing.T, m *drmtest.Machine) {
			m.Card(0, address, "vfio-pci", navi31())
		}, gpu.ErrNoDevices, "another driver has the AMD GPU at " + address + " (vfio-pci)"},
	} {
		t.Run(name, func(t *testing.T) {
			m := drmtest.New(t)
			tt.prepare(t, m)
			_, err := newSource(t, m, nil).Read(t.Context())
			advice, ok := errors.AsType[*gpu.Advice](err)
			if !ok || !errors.Is(err, tt.is) || !strings.Contains(advice.What, tt.what) || advice.Try == "" {
				t.Errorf("%v, want %v with %q", err, tt.is, tt.what)
			}
		})
	}
}

// without removes what a card has while a driver serves it, and the given files.
func without(t *testing.T, c *drmtest.Card, files ...string) {
	t.Helper()
	files = append(files, c.File("driver"))
	for _, node := range c.Nodes {
		files = append(files, filepath.Join(c.Sysfs, "class/drm", node))
	}
	for _, file := range files {
		if err := os.RemoveAll(file); err != nil {
			t.Fatal(err)
		}
	}
}

// Sixteen cards, two of them with the same number: all are listed.
func TestManyCards(t *testing.T) {
	m := drmtest.New(t)
	for i := range 16 {
		files := navi31()
		if i > 1 {
			delete(files, "unique_id")
		}
		m.Card(i, fmt.Sprintf("0000:%02x:00.0", 16+i), "amdgpu", files)
	}
	devices := read(t, newSource(t, m, nil)).Devices
	if len(devices) != 16 || !slices.IsSortedFunc(devices, func(a, b gpu.Device) int { return strings.Compare(a.PCI, b.PCI) }) {
		t.Errorf("%d devices", len(devices))
	}
}

// A sleeping card is not touched: neither its files nor the driver's reports about its processes, which may wake it.
func TestAsleep(t *testing.T) {
	m := drmtest.New(t)
	topology(m)
	c := m.Card(0, address, "amdgpu", laptop())
	m.Open(100, 5, "dri/renderD128", "drm-driver:\tamdgpu\ndrm-client-id:\t1\ndrm-engine-gfx:\t1 ns\n")
	c.Sleep()
	ofCard, ofProcesses := drmtest.Watch(t, c.Dir), drmtest.Watch(t, m.Proc)
	s := newSource(t, m, nil)
	for range 5 {
		if d := only(t, s); d.State != gpu.StateAsleep || d.UUID != gpu.UUIDAt(address) || d.Name == "" {
			t.Errorf("%s %s is %s", d.UUID, d.Name, d.State)
		}
	}
	for _, file := range ofCard() {
		if !slices.Contains(whenAsleep, file) {
			t.Errorf("%s was opened", file)
		}
	}
	if files := ofProcesses(); slices.ContainsFunc(files, func(f string) bool { return f != "sys" && f != "sys/kernel" }) {
		t.Errorf("of processes %q were opened", files)
	}
	c.Wake()
	if d := only(t, s); d.State != gpu.StateOK || !d.Thermal.GPU.Present() {
		t.Errorf("awake it is %s", d.State)
	}
}

// An idle card that may sleep is left alone for some time: nothing of it is opened, its readings are stale, and the reason is given. A
// working card is never left alone.
func TestIdleIsLeftAlone(t *testing.T) {
	m := drmtest.New(t)
	c := m.Card(0, address, "amdgpu", laptop())
	s := newSource(t, m, nil)
	only(t, s)
	alone := func(seconds int) (n int) {
		for range seconds {
			clockOf(s).Advance(time.Second)
			opened := drmtest.Watch(t, c.Dir)
			d := only(t, s)
			left := d.Reason.What == drm.LeftAlone.What
			touched := slices.DeleteFunc(opened(), func(f string) bool { return slices.Contains(whenAsleep, f) })
			if left != (len(touched) == 0) || left != d.SampledAt.IsZero() || d.State != gpu.StateOK {
				t.Errorf("left alone: %v, opened: %q, sampled at %v, %s", left, touched, d.SampledAt, d.State)
			}
			if left {
				n++
				if d.Thermal.GPU.Quality() != gpu.Stale {
					t.Errorf("left alone, its temperature is %v", d.Thermal.GPU)
				}
			}
		}
		return n
	}
	if n := alone(30); n < 15 || n > 25 {
		t.Errorf("idle, it was left alone in %d of 30 readings", n)
	}
	c.Set(map[string]string{"gpu_busy_percent": "50\n"})
	clockOf(s).Advance(time.Hour)
	if n := alone(30); n != 0 {
		t.Errorf("at work, it was left alone in %d readings", n)
	}
	c.Set(map[string]string{"gpu_busy_percent": "0\n", "power/control": "on\n"})
	if n := alone(30); n != 0 {
		t.Errorf("always awake, it was left alone in %d readings", n)
	}
}

// A process that computed on a card some time ago, as programs that draw do, does not keep it from being left alone. A process of the
// compute driver does: a card with one never sleeps.
func TestWhatNeedsACard(t *testing.T) {
	for name, tt := range map[string]struct {
		process gpu.Process
		idle    bool
	}{
		"draws":                 {gpu.Process{Type: gpu.TypeGraphics, SM: gpu.Of[gpu.Percent](0)}, true},
		"has computed":          {gpu.Process{Type: gpu.TypeComputeGraphics, SM: gpu.Of[gpu.Percent](0)}, true},
		"computes":              {gpu.Process{Type: gpu.TypeComputeGraphics, SM: gpu.Of[gpu.Percent](3)}, false},
		"of the compute driver": {gpu.Process{Type: gpu.TypeCompute, SM: gpu.Absent[gpu.Percent](gpu.NotSupported)}, false},
		"first reading":         {gpu.Process{Type: gpu.TypeCompute}, false},
	} {
		var r gpu.Readings
		r.Utilization.GPU, r.Processes = gpu.Of[gpu.Percent](0), gpu.Of([]gpu.Process{tt.process})
		if idle(&r) != tt.idle {
			t.Errorf("%s: idle is %v", name, !tt.idle)
		}
	}
}

// After a sleep, a card is read at once, even if a pause had begun before.
func TestWakesInAPause(t *testing.T) {
	m := drmtest.New(t)
	c := m.Card(0, address, "amdgpu", laptop())
	s := newSource(t, m, nil)
	only(t, s)
	for only(t, s).Reason.IsZero() {
		clockOf(s).Advance(time.Second)
	}
	c.Sleep()
	if d := only(t, s); d.State != gpu.StateAsleep {
		t.Errorf("it is %s", d.State)
	}
	c.Wake()
	if d := only(t, s); d.State != gpu.StateOK || !d.Reason.IsZero() || !d.Thermal.GPU.Present() {
		t.Errorf("awake it is %s: %s", d.State, d.Reason.Text())
	}
}

// While a driver is loading, its sensors appear a little later.
func TestSensorsComeLate(t *testing.T) {
	m := drmtest.New(t)
	files := navi31()
	c := m.Card(0, address, "amdgpu", files)
	c.Remove("hwmon")
	s := newSource(t, m, nil)
	if d := only(t, s); d.Power.EnforcedLimit.Present() || d.Thermal.GPU != gpu.Of[gpu.Celsius](51) { // the table has it
		t.Errorf("without sensors\n%s", facts(d))
	}
	c.Set(files)
	if d := only(t, s); !d.Power.EnforcedLimit.Present() || !d.Thermal.Shutdown.Present() || len(d.Fans.Fans) != 1 {
		t.Errorf("with sensors\n%s", facts(d))
	}
}

// On a system without sysfs this source finds no card.
func TestElsewhere(t *testing.T) {
	s := New(Config{Deadline: time.Second})
	defer s.Close()
	if snap, err := s.Read(t.Context()); snap != nil || !errors.Is(err, gpu.ErrNoCard) || !strings.Contains(gpu.AsAdvice(err).What, "only on Linux") {
		t.Errorf("%v %v", snap, err)
	}
}
