//go:build !race && linux

package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/sampler/nvml/fakenvml"
)

// A statement is a row of the table of states: what happened, and what gpuwhy said about it.
type statement struct{ fault, state, says string }

// A trouble is a fault of a device or a driver as people meet it.
type trouble struct {
	name  string
	whom  func(*contract.UpdateGPU) bool
	begin func(w *workshop)
	state string // of who has it, as word says it
	says  string // is in the reason
	end   func(w *workshop)
	more  bool // only where every fault is made
}

const (
	desktopAt = "0000:81:00.0"
	serverAt  = "0000:82:00.0"
)

func (w *workshop) desktop() *fakenvml.Device { return w.nvidia.GPU(0) }
func (w *workshop) server() *fakenvml.Device  { return w.nvidia.GPU(1) }

func answers(code int) func(*workshop) {
	return func(w *workshop) { w.desktop().Answer(code) }
}

var troubles = []trouble{
	{name: "driver not loaded", whom: hasVendor("nvidia"), state: "not answering",
		begin: func(w *workshop) { w.nvidia.Unload() }, end: func(w *workshop) { w.nvidia.Load() },
		says: "the driver is not loaded"},
	{name: "library and kernel module of different versions", more: true, whom: hasVendor("nvidia"),
		state: "not answering", says: "different versions", begin: func(w *workshop) { w.nvidia.Answer(18) }},
	{name: "no permission", more: true, whom: hasVendor("nvidia"), state: "not answering", says: "is not allowed to talk",
		begin: func(w *workshop) { w.nvidia.Answer(4) }},
	{name: "container lost its GPUs", whom: hasVendor("nvidia"), begin: func(w *workshop) { w.nvidia.Answer(999) },
		state: "not answering", says: "container has lost its GPUs"},
	{name: "driver finds no device", whom: hasVendor("nvidia"), state: "lost", says: "no longer lists",
		begin: func(w *workshop) { w.nvidia.Together(func() { w.nvidia.Count(0); w.nvidia.Reload() }) },
		end:   func(w *workshop) { w.nvidia.Count(4) }},
	{name: "every call hangs", whom: hasVendor("nvidia"), begin: func(w *workshop) { w.nvidia.Hang() },
		state: "not answering", says: "has not come back"},
	{name: "driver goes away and comes back newer", whom: hasVendor("nvidia"), state: "ok",
		begin: func(w *workshop) {
			w.nvidia.Unload()
			w.until("it is away", is(hasVendor("nvidia"), func(g *contract.UpdateGPU) bool { return g.State != "ok" }))
			w.nvidia.SetDriver("599.99")
			w.nvidia.Load()
			w.until("it is newer", func(u *contract.Update) bool {
				return slices.ContainsFunc(u.Drivers, func(d contract.Driver) bool { return d.Version.Or("") == "599.99" })
			})
			w.until("it answers", is(hasVendor("nvidia"), func(g *contract.UpdateGPU) bool { return g.State == "ok" }))
		}},
	{name: "driver comes back newer than the library", whom: hasVendor("nvidia"), state: "not answering", says: "restart gpuwhy",
		begin: func(w *workshop) { w.nvidia.Together(func() { w.nvidia.Answer(18, "nvmlInit_v2"); w.nvidia.Reload() }) }},
	{name: "fallen off the bus (XID 79)", whom: hasAddress(desktopAt), state: "lost", says: "XID 79",
		begin: func(w *workshop) {
			w.desktop().RaiseXID(79)
			for range 3 {
				w.next()
			}
			w.desktop().Lost()
		}},
	{name: "lost", more: true, whom: hasAddress(serverAt), state: "lost", says: "fallen off the bus",
		begin: func(w *workshop) { w.server().Lost() }},
	{name: "needs a reset", whom: hasAddress(desktopAt), begin: answers(16), state: "not answering", says: "must be reset"},
	{name: "not enough power", more: true, whom: hasAddress(desktopAt), begin: answers(8), state: "not answering", says: "power"},
	{name: "driver gives up waiting", more: true, whom: hasAddress(desktopAt), begin: answers(10),
		state: "not answering", says: "gave up"},
	{name: "a call hangs", whom: hasAddress(desktopAt), begin: func(w *workshop) { w.desktop().Hang("nvmlDeviceGetPowerUsage") },
		state: "not answering", says: "has not come back"},
	{name: "a call is slow", whom: hasAddress(desktopAt), state: "slow", says: "slow since",
		begin: func(w *workshop) { w.desktop().Slow(hurried+hurried/10, "nvmlDeviceGetPowerUsage") }},
	{name: "AMD card taken out", more: true, whom: hasAddress(amdAt), state: "lost",
		begin: func(w *workshop) { w.amd.Unplug() }, end: func(w *workshop) { w.amd.Plug() }},
	{name: "Intel card taken out", more: true, whom: hasAddress(arcAt), state: "lost",
		begin: func(w *workshop) { w.intel.Unplug() }, end: func(w *workshop) { w.intel.Plug() }},
	{name: "empty name", whom: hasAddress(desktopAt), begin: func(w *workshop) { w.desktop().Set(fakenvml.Name, "") }, state: "ok",
		end: func(w *workshop) { w.desktop().Set(fakenvml.Name, "NVIDIA GeForce RTX 4090") }, more: true},
	{name: "processes that are not there", more: true, whom: hasAddress(desktopAt), state: "ok", begin: func(w *workshop) {
		w.desktop().SetProcesses(fakenvml.Process{PID: 4_194_999, Type: "compute", Memory: 1 << 62, SM: 4_000_000},
			fakenvml.Process{PID: 0, Type: "compute"},
			fakenvml.Process{PID: 1<<32 - 1, Type: "graphics", Memory: fakenvml.NotAvailable})
	}, end: func(w *workshop) { w.desktop().SetProcesses() }},
	{name: "process list grows while it is read", whom: hasAddress(desktopAt), state: "ok", begin: func(w *workshop) {
		var all []fakenvml.Process
		for n := range 12 {
			for range 40 {
				all = append(all, fakenvml.Process{PID: uint32(5_000_000 + len(all)), Type: "compute", Memory: 1 << 20})
			}
			w.desktop().SetProcesses(all...)
			if n%3 == 0 {
				w.next()
			}
		}
	}, end: func(w *workshop) { w.desktop().SetProcesses() }},
	garbage("2^64-1", "18446744073709551615"),
	garbage("2^63", "9223372036854775808"),
	garbage("2^32-1", "4294967295"),
	garbage("five digits", "99999"),
	garbage("below zero", "-1"),
	garbage("0 at once", "0"),
}

// garbage is a device whose numbers are all the same nonsense.
func garbage(name, value string) trouble {
	var were map[fakenvml.Key]any
	set := func(d *fakenvml.Device, model fakenvml.GPU) {
		wrong := map[fakenvml.Key]any{}
		were = map[fakenvml.Key]any{}
		for key, v := range model {
			number := strings.Trim(v, "0123456789.") == ""
			if number && !slices.Contains([]fakenvml.Key{"processes", "samples", "fans", "mig", "mig_max"}, key) {
				wrong[key], were[key] = value, v
			}
		}
		d.SetAll(wrong)
	}
	return trouble{
		name: "every number is " + name, more: name != "2^63", whom: hasAddress(serverAt), state: "ok",
		begin: func(w *workshop) { set(w.server(), fakenvml.H100().At(0x82)) },
		end:   func(w *workshop) { w.server().SetAll(were) },
	}
}

// sane reports nonsense among the readings.
func (s *stand) sane(which func(*contract.UpdateGPU) bool) {
	s.Helper()
	for i := range s.u.GPUs {
		g := &s.u.GPUs[i]
		if !which(g) {
			continue
		}
		for what, v := range map[string][2]float64{ // by its place in the update
			"utilization.gpu_percent":     {float64(g.Utilization.GPU.Or(0)), 100},
			"temperature.current_celsius": {float64(g.Temperature.GPU.Or(0)), 200},
			"power.power_draw_watts":      {float64(g.Power.Draw.Or(0)), 10_000},
			"fan_speed_percent":           {float64(g.FanSpeedPercent.Or(0)), 1000},
			"clocks.sm_clock_mhz":         {float64(g.Clocks.SM.Or(0)), 100_000},
			"memory.used_mb":              {g.Memory.Used.Or(0).MiB(), 1 << 30},
			"memory.total_mb":             {g.Memory.Total.Or(0).MiB(), 1 << 30},
		} {
			if (v[0] < 0 || v[0] > v[1]) && g.Quality[what] != "doubtful" {
				s.Errorf("%s is %v, and not doubtful", what, v[0])
			}
		}
	}
}

func (w *workshop) suffer(tr *trouble) statement {
	w.Helper()
	w.fault(tr.whom)
	tr.begin(w)
	w.until(tr.name+": "+tr.state, func(*contract.Update) bool { return w.words(tr.whom) == tr.state })
	w.heard(2)
	w.until(tr.name+": still "+tr.state, func(*contract.Update) bool { return w.words(tr.whom) == tr.state })
	w.sane(tr.whom)
	said := w.said(tr.whom)
	if !strings.Contains(said, tr.says) {
		w.Errorf("%s: it says %q", tr.name, said)
	}
	w.nvidia.Heal()
	if tr.end != nil {
		tr.end(w)
	}
	w.well(gpusOfAll)
	return statement{tr.name, tr.state, said}
}

// failing are faults that exist when the program starts.
func failing(t *testing.T) (all []statement) {
	t.Helper()
	t.Run("no library", func(t *testing.T) {
		lib := fakenvml.Build(t)
		m := lib.Machine(t, fakenvml.RTX4090())
		if err := lib.Hide(); err != nil {
			t.Fatal(err)
		}
		s := newStand(t, start, nil, "--source=nvml", "--nvml-library="+lib.Path(), "--sysfs-root="+m.SysfsRoot)
		says := strings.ReplaceAll(s.failure("was not found"), lib.Path(), "libnvidia-ml.so.1")
		all = append(all, statement{"library missing", "failure", says})
		if err := lib.Show(); err != nil {
			t.Fatal(err)
		}
		s.well(1)
	})
	t.Run("unusable library", func(t *testing.T) {
		lib := fakenvml.Build(t, "nvmlInit_v2")
		m := lib.Machine(t, fakenvml.RTX4090())
		s := newStand(t, start, nil, "--source=nvml", "--nvml-library="+lib.Path(), "--sysfs-root="+m.SysfsRoot)
		says := strings.ReplaceAll(s.failure("lacks nvmlInit_v2"), lib.Path(), "libnvidia-ml.so.1")
		all = append(all, statement{"library without what every driver has", "failure", says})
	})
	t.Run("older library", func(t *testing.T) {
		w := newWorkshop(t, start, "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetTemperatureV", "nvmlDeviceGetNumFans",
			"nvmlDeviceGetFanSpeedRPM", "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetComputeRunningProcesses_v3",
			"nvmlDeviceGetComputeRunningProcesses_v2",
			"nvmlGpmQueryDeviceSupport", "nvmlDeviceGetJpgUtilization")
		if !is(hasAddress(serverAt), func(g *contract.UpdateGPU) bool { return hasReadings(g) && len(g.Processes) == 1 })(&w.u) {
			t.Errorf("%+v", w.u.GPUs)
		}
		all = append(all, statement{"library of an older driver", w.words(hasVendor("nvidia")), ""})
	})
	t.Run("sixteen, of which two have the same UUID", func(t *testing.T) {
		lib := fakenvml.Build(t)
		var gpus []fakenvml.GPU
		for i := range 16 {
			gpus = append(gpus, fakenvml.H100().At(0x10+i))
		}
		gpus[15] = gpus[15].With(fakenvml.UUID, gpus[14][fakenvml.UUID])
		m := lib.Machine(t, gpus...)
		s := newStand(t, start, lib.Env(), "--source=nvml", "--sysfs-root="+m.SysfsRoot, "--proc-root="+m.ProcRoot)
		s.until("they are read", func(u *contract.Update) bool { return u.Answering == 16 })
		whom := hasAddress(m.GPU(3).PCI)
		s.fault(whom)
		m.GPU(3).Hang()
		s.until("one hangs", is(whom, func(g *contract.UpdateGPU) bool { return g.State == "not_answering" }))
		s.heard(3)
		all = append(all, statement{"16 devices, of which two have the same UUID, and one hangs", s.words(whom), s.said(whom)})
		s.target = nil
		m.Heal()
		s.until("all are well", func(u *contract.Update) bool { return u.Answering == 16 && u.Status == "ok" })
	})
	return all
}

// failure returns what is said about the only source, which can't be read.
func (s *stand) failure(says string) string {
	s.Helper()
	u := s.until("it fails", func(u *contract.Update) bool { return len(u.Failures) == 1 })
	text := u.Failures[0].What
	var health contract.MonitorHealth
	if code := s.p.get("/api/health", &health); !strings.Contains(health.Reason, text) || health.Status == "ok" {
		s.Errorf("/api/health says %d %s %q", code, health.Status, health.Reason)
	}
	if _, page := s.p.fetch("/", map[string][]string{"Accept": {"text/html"}}); !strings.Contains(string(page), says) {
		s.Errorf("the page does not say %q", says)
	}
	if !strings.Contains(text, says) || u.Failures[0].Since == "" || u.Failures[0].Try == "" {
		s.Errorf("it says %+v", u.Failures[0])
	}
	return text + ": " + u.Failures[0].Try
}
