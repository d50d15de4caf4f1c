//go:build !race

package views

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
)

// factOf finds a fact by its path.
func factOf(t *testing.T, d *gpu.Device, path string) DeviceFact {
	t.Helper()
	for _, g := range newFacts(d) {
		for _, f := range g.Facts {
			if f.Path == path {
				return f
			}
		}
	}
	t.Fatalf("no fact %s", path)
	return DeviceFact{}
}

func TestFacts(t *testing.T) {
	for name, c := range map[string]struct {
		change     func(*gpu.Device)
		path, want string
	}{
		"a value":         {func(d *gpu.Device) { d.Thermal.Shutdown = gpu.Of[gpu.Celsius](92) }, "temperature.shutdown_threshold_celsius", "92\u00a0°C"},
		"zero is a value": {func(d *gpu.Device) { d.Health.UncorrectedVolatile = gpu.Of(uint64(0)) }, "health.ecc_uncorrected_volatile", "0"},
		"not reported":    {func(*gpu.Device) {}, "serial", "not reported"},
		"not offered":     {func(d *gpu.Device) { d.Serial = gpu.Absent[string](gpu.NotSupported) }, "serial", "not offered"},
		"not permitted":   {func(d *gpu.Device) { d.Serial = gpu.Absent[string](gpu.NotPermitted) }, "serial", "not permitted"},
		"stale":           {func(d *gpu.Device) { d.Power.Draw = gpu.Absent[gpu.Watts](gpu.Stale) }, "power.power_draw_watts", "stale"},
		"stale since": {func(d *gpu.Device) {
			d.Power.Draw, d.SampledAt = gpu.Absent[gpu.Watts](gpu.Stale), noon.Add(-time.Minute)
		}, "power.power_draw_watts", "stale since 2026-01-02 11:59:00 UTC"},
		"doubtful":          {func(d *gpu.Device) { d.Power.Draw = gpu.DoubtfulOf[gpu.Watts](1890) }, "power.power_draw_watts", "1890\u00a0W ?"},
		"of a lost device":  {func(d *gpu.Device) { d.State = gpu.StateLost }, "power.power_draw_watts", "not read since 2026-01-02 11:00:00 UTC"},
		"who a lost one is": {func(d *gpu.Device) { d.State = gpu.StateLost }, "gpu_name", "Card"},
		"energy":            {func(d *gpu.Device) { d.Power.Energy = gpu.Of[gpu.Joules](9e6) }, "power.total_energy_joules", "2.5\u00a0kWh"},
		"a little energy":   {func(d *gpu.Device) { d.Power.Energy = gpu.Of[gpu.Joules](7200) }, "power.total_energy_joules", "2\u00a0Wh"},
		"held by nothing":   {func(d *gpu.Device) { d.Clocks.EventReasons = gpu.Of(gpu.ClockEventReasons(0)) }, "clock_event_reasons", "nothing"},
		"held":              {func(d *gpu.Device) { d.Clocks.EventReasons = gpu.Of(gpu.ReasonIdle | gpu.ReasonDisplayClockSetting) }, "clock_event_reasons", "no work; a display"},
		"performance state": {func(d *gpu.Device) { d.Clocks.PerformanceState = gpu.Of(8) }, "performance_state", "P8"},
		"a mode":            {func(d *gpu.Device) { d.Modes.Persistence = gpu.Of(false) }, "modes.persistence", "no"},
		"no errors":         {func(d *gpu.Device) { d.Health.XIDs = gpu.Of([]gpu.XID{}) }, "health.xids", "none"},
		"errors":            {func(d *gpu.Device) { d.Health.XIDs = gpu.Of([]gpu.XID{{Code: 79}}) }, "health.xids", "1 kind"},
		"encoder sessions":  {func(d *gpu.Device) { d.Encoding.Sessions = gpu.Of(2) }, "encoder.session_count", "2"},
		"encoder pace":      {func(d *gpu.Device) { d.Encoding.FrameRate = gpu.Of[gpu.FramesPerSecond](119) }, "encoder.average_fps", "119\u00a0fps"},
		"encoder delay":     {func(d *gpu.Device) { d.Encoding.Latency = gpu.Of[gpu.Microseconds](4210) }, "encoder.average_latency_us", "4.2\u00a0ms"},
		"no session":        {func(d *gpu.Device) { d.Encoding.Latency = gpu.Of[gpu.Microseconds](0) }, "encoder.average_latency_us", "0.0\u00a0ms"},
		"no fan":            {func(d *gpu.Device) { d.Fans.Count = gpu.Of(0) }, "fan_count", "0"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := factOf(t, device(c.change), c.path).Value.Text; got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// Traffic over PCIe names the call that it comes from, which differs by product and
// setting.
func TestWhereTrafficOverPCIeComesFrom(t *testing.T) {
	some := gpu.Of[gpu.BytesPerSecond](2e6)
	for name, c := range map[string]struct {
		activity           gpu.Activity
		text, source, when string
	}{
		"counted":       {gpu.Activity{PCIeSent: some}, "2.0\u00a0MB/s", "nvmlGpmMetricsGet (PCIE_TX_PER_SEC)", "not measured"},
		"measured":      {gpu.Activity{PCIeSent: some, PCIeMeasuredAt: gpu.Of(noon)}, "2.0\u00a0MB/s", "nvmlDeviceGetPcieThroughput", "2026-01-02 12:00:00 UTC"},
		"neither":       {gpu.AbsentActivity(gpu.NotSupported), "not offered", "nvmlGpmMetricsGet (PCIE_TX_PER_SEC)", "not measured"},
		"one direction": {gpu.Activity{PCIeReceived: some, PCIeMeasuredAt: gpu.Of(noon)}, "not reported", "nvmlDeviceGetPcieThroughput", "2026-01-02 12:00:00 UTC"},
	} {
		t.Run(name, func(t *testing.T) {
			d := device(func(d *gpu.Device) { d.Activity = c.activity })
			f, when := factOf(t, d, "activity.pcie_sent_bytes_per_second"), factOf(t, d, "activity.pcie_measured_at")
			if f.Value.Text != c.text || f.Source != c.source || when.Value.Text != c.when {
				t.Errorf("%q from %q, measured at %q; want %+v", f.Value.Text, f.Source, when.Value.Text, c)
			}
		})
	}
}

// Every fact has a label and one place, and those that people get wrong are
// explained.
func TestFactsAreExplained(t *testing.T) {
	seen := map[string]bool{}
	for _, g := range newFacts(device(func(*gpu.Device) {})) {
		if g.Title == "" || len(g.Facts) == 0 {
			t.Errorf("an empty group %q", g.Title)
		}
		for _, f := range g.Facts {
			if f.Label == "" || f.Path == "" || f.Format == "" || seen[f.Path] {
				t.Errorf("%q is not whole, or there twice: %+v", f.Path, f)
			}
			seen[f.Path] = true
		}
	}
	for path, words := range map[string]string{
		"utilization.gpu_percent": "One small kernel can make it 100 %", "fan_speed_percent": "not the speed it turns at",
		"memory.used_mb": "whether they use it or not", "power.power_draw_watts": "heat",
	} {
		if f := factOf(t, device(func(*gpu.Device) {}), path); !strings.Contains(f.Means, words) || f.Source == "" {
			t.Errorf("%s: %q from %q", path, f.Means, f.Source)
		}
	}
}

func TestDevicePage(t *testing.T) {
	s := machine("eight")
	in := input(s, "why")
	own, other := s.Devices[1].UUID, s.Devices[0].UUID
	identity := func(node, uuid string) gpu.Identity { return gpu.Identity{Node: node, UUID: uuid} }
	in.Alerts = []alert.Alert{
		{ID: "a", Device: identity("dgx-07", other), Message: "of GPU 0", Since: noon},
		{ID: "b", Device: identity("dgx-07", own), Message: "of GPU 1", Since: noon},
		{ID: "c", Device: identity("dgx-08", "GPU-of-another-machine"), Message: "of its GPU 1", Since: noon},
		{ID: "d", Device: identity("dgx-08", own), Message: "of another machine", Since: noon},
		{ID: "e", Device: identity("dgx-07", ""), Message: "of the machine", Since: noon},
	}
	p := NewDevicePage(in, &s.Devices[1])
	if p.Title != "▲ 93\u00a0% · 85\u00a0°C · GPU 1 · gpuwhy" || p.GPUs.All != 1 || len(p.Processes.Rows) != 1 || p.AlertLine.Item.Title != "of GPU\u00a01" || p.AlertLine.More != "" || p.Sums != nil {
		t.Errorf("got %+v", p)
	}
	if len(in.Alerts) != 5 || in.Alerts[1].ID != "b" {
		t.Error("the input was changed")
	}
	html := render(t, p)
	for _, part := range []string{`id="facts-title">Facts<`, `<h1>GPU`, `href="#facts-title"`} {
		if !strings.Contains(html, part) {
			t.Errorf("%q is missing", part)
		}
	}
	if strings.Contains(html, `id="host"`) || strings.Count(html, "<h1") != 1 {
		t.Error("it shows the machine, or has two titles")
	}
	if lost := render(t, NewDevicePage(in, &s.Devices[6])); !strings.Contains(lost, `not read since <time datetime="2025-12-31T10:00:00Z">2025-12-31 10:00:00 UTC</time>`) {
		t.Error("a lost device is not said to be")
	}
}
