//go:build !race

package views

import (
	"bytes"
	"compress/gzip"
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/a-h/templ"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/gpu/catalog"
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight/attribute"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// nodesOf is none for a machine that was not read yet.
func nodesOf(s *gpu.Snapshot) gpu.Nodes {
	if s == nil {
		return nil
	}
	return gpu.Nodes{s}
}

func asset(name string) string { return "/static/0123456789ab/" + name }

// machine is a made-up one, as of noon.
func machine(name string) *gpu.Snapshot { return fixture.Named(name, noon).Snapshot }

func input(s *gpu.Snapshot, why string) Input {
	return Input{
		Sight:   auth.LocalOwner().Sight(),
		Monitor: contract.Monitor{Version: "v1.2.3", Node: "asked", Source: gpu.SourceNVML, Interval: 5 * time.Second, AlertThreshold: 50},
		Nodes:   nodesOf(s), Why: why, BasePath: "/", Choices: Choices{Path: "/"}, Health: "/api/health", Asset: asset, Now: noon,
	}
}

func render(t *testing.T, c templ.Component) string {
	t.Helper()
	var b bytes.Buffer
	if err := c.Render(context.Background(), &b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func device(change func(*gpu.Device)) *gpu.Device {
	d := &gpu.Device{State: gpu.StateOK, Since: noon.Add(-time.Hour), Identity: gpu.Identity{UUID: "GPU-1", Node: "n", Index: 3, Name: "Card"}}
	change(d)
	return d
}

func TestMeters(t *testing.T) {
	plain := func(text string) Value { return Value{Text: text} }
	for name, c := range map[string]struct {
		change func(*gpu.Device)
		meter  int
		want   Figure
	}{
		"utilization of zero is a value": {
			func(d *gpu.Device) { d.Utilization.GPU = gpu.Of[gpu.Percent](0) }, 0,
			Figure{Key: "utilization", Label: "Utilization", Value: plain("0\u00a0%"), Fill: "0"},
		},
		"utilization that is not there has no bar": {
			func(*gpu.Device) {}, 0,
			Figure{Key: "utilization", Label: "Utilization", Value: absent(gpu.NotReported)},
		},
		"not permitted says so": {
			func(d *gpu.Device) { d.Utilization.GPU = gpu.Absent[gpu.Percent](gpu.NotPermitted) }, 0,
			Figure{Key: "utilization", Label: "Utilization", Value: Value{"not permitted", Missing, "it exists, but gpuwhy isn’t allowed to read it", ""}},
		},
		"memory": {
			func(d *gpu.Device) { d.Memory.Used, d.Memory.Total = gpu.Of(gpu.Bytes(0)), gpu.Of(gpu.Bytes(8<<30)) }, 1,
			Figure{Key: "memory", Label: "Memory", Value: plain("0\u00a0MiB"), Remark: "of 8.0\u00a0GiB", Fill: "0"},
		},
		"memory that is nearly full": {
			func(d *gpu.Device) {
				d.Memory.Used, d.Memory.Total = gpu.Of(gpu.Bytes(95<<20)), gpu.Of(gpu.Bytes(100<<20))
			}, 1,
			Figure{Key: "memory", Label: "Memory", Value: plain("95\u00a0MiB"), Remark: "of 100\u00a0MiB", Fill: "95", Level: Near},
		},
		"a total alone": {
			func(d *gpu.Device) { d.Memory.Total = gpu.Of(gpu.Bytes(8 << 30)) }, 1,
			Figure{Key: "memory", Label: "Memory", Value: absent(gpu.NotReported), Remark: "of 8.0\u00a0GiB"},
		},
		"temperature against where it slows down": {
			func(d *gpu.Device) {
				d.Thermal.GPU, d.Thermal.Slowdown = gpu.Of[gpu.Celsius](77), gpu.Of[gpu.Celsius](87)
			}, 2,
			Figure{Key: "temperature", Label: "Temperature", Value: plain("77\u00a0°C"), Remark: "slows at 87\u00a0°C", Fill: "88.5", Level: Near},
		},
		"temperature against its margin": {
			func(d *gpu.Device) { d.Thermal.GPU, d.Thermal.Margin = gpu.Of[gpu.Celsius](60), gpu.Of[gpu.Celsius](2) }, 2,
			Figure{Key: "temperature", Label: "Temperature", Value: plain("60\u00a0°C"), Remark: "slows at 62\u00a0°C", Fill: "96.8", Level: AtTop},
		},
		"temperature without a limit": {
			func(d *gpu.Device) { d.Thermal.GPU = gpu.Of[gpu.Celsius](60) }, 2,
			Figure{Key: "temperature", Label: "Temperature", Value: plain("60\u00a0°C"), Fill: "60"},
		},
		"power that can't be right": {
			func(d *gpu.Device) {
				d.Power.Draw, d.Power.EnforcedLimit = gpu.DoubtfulOf[gpu.Watts](600), gpu.Of[gpu.Watts](160)
			}, 3,
			Figure{Key: "power", Label: "Power", Value: Value{"600\u00a0W ?", Doubtful, "reported, but probably wrong: gpuwhy doesn’t rely on it", ""}, Remark: "of 160\u00a0W", Fill: "100"},
		},
		"power without a limit has no bar": {
			func(d *gpu.Device) { d.Power.Draw, d.Power.EnforcedLimit = gpu.Of[gpu.Watts](60), gpu.Of[gpu.Watts](0) }, 3,
			Figure{Key: "power", Label: "Power", Value: plain("60\u00a0W"), Remark: "of 0\u00a0W"},
		},
		"a fan that stands still": {
			func(d *gpu.Device) {
				d.Fans = gpu.Fans{Count: gpu.Of(1), Fans: []gpu.Fan{{Commanded: gpu.Of[gpu.Percent](0), RPM: gpu.Of[gpu.RPM](0)}}}
			}, 4,
			Figure{Key: "fan", Label: "Fan", Value: plain("0\u00a0%"), Remark: "0\u00a0RPM", Fill: "0"},
		},
		"a fan above its noise limit, set by hand": {
			func(d *gpu.Device) {
				d.Fans = gpu.Fans{Fans: []gpu.Fan{{Commanded: gpu.Of[gpu.Percent](30)}, {Commanded: gpu.Of[gpu.Percent](108), RPM: gpu.Of[gpu.RPM](3480), Policy: gpu.Of("manual")}}}
			}, 4,
			Figure{Key: "fan", Label: "Fan", Value: plain("108\u00a0%"), Remark: "3480\u00a0RPM, set by hand", Fill: "100", Level: AtTop},
		},
		"a passive card": {
			func(d *gpu.Device) { d.Fans.Count = gpu.Of(0) }, 4,
			Figure{Key: "fan", Label: "Fan", Value: Value{"no fan of its own", Missing, "the chassis cools it with fans that gpuwhy can’t see", ""}},
		},
		"fans that are not reported": {
			func(*gpu.Device) {}, 4,
			Figure{Key: "fan", Label: "Fan", Value: absent(gpu.NotReported)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := newTile(new(Input), device(c.change), noon).Meters[c.meter]
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Only NVIDIA calls the parts of a device MIG instances.
func TestTileOfAPartitionedDevice(t *testing.T) {
	for vendor, want := range map[gpu.Vendor]string{gpu.NVIDIA: "2 MIG instances", gpu.AMD: "2 partitions"} {
		got := newTile(new(Input), device(func(d *gpu.Device) { d.Vendor, d.Instances = vendor, make([]gpu.Instance, 2) }), noon)
		if !strings.Contains(got.Speed, want) {
			t.Errorf("of %s it says %q, want %q", vendor, got.Speed, want)
		}
	}
}

func TestTileStates(t *testing.T) {
	for name, c := range map[string]struct {
		change                           func(*gpu.Device)
		state, text, noticeTitle, notice string
	}{
		"busy":    {func(d *gpu.Device) { d.Utilization.GPU = gpu.Of[gpu.Percent](5) }, "busy", "busy", "", ""},
		"idle":    {func(d *gpu.Device) { d.Utilization.GPU = gpu.Of[gpu.Percent](4) }, "idle", "idle", "", ""},
		"unknown": {func(*gpu.Device) {}, "on", "answering", "", ""},
		"resting": {func(d *gpu.Device) { d.Reason = gpu.Advice{What: "left alone"} }, "on", "answering", "", "left alone"},
		"stuck": {
			func(d *gpu.Device) {
				d.State, d.Reason = gpu.StateNotAnswering, gpu.Advice{What: "a call hangs", Try: "look at dmesg"}
			},
			"not_answering", "not answering", "for 60\u00a0min", "a call hangs: look at dmesg",
		},
		"lost":   {func(d *gpu.Device) { d.State = gpu.StateLost }, "lost", "lost", "for 60\u00a0min", whatToDo("lost")},
		"asleep": {func(d *gpu.Device) { d.State = gpu.StateAsleep }, "asleep", "asleep", "for 60\u00a0min", whatToDo("asleep")},
	} {
		t.Run(name, func(t *testing.T) {
			d := device(c.change)
			got := newTile(new(Input), d, noon)
			if got.State != c.state || got.StateText != c.text || got.NoticeTitle != c.noticeTitle || got.Notice != c.notice {
				t.Errorf("got %q %q %q %q", got.State, got.StateText, got.NoticeTitle, got.Notice)
			}
			if got.Answers != (d.State == gpu.StateOK) {
				t.Errorf("answers: %v", got.Answers)
			}
		})
	}
}

// What a GPU has of the machine's memory is said as such, and is never 0 of its own.
func TestMemoryOfTheMachine(t *testing.T) {
	unified := func(used gpu.Reading[gpu.Bytes], own gpu.Memory) func(*gpu.Device) {
		return func(d *gpu.Device) { d.Memory, d.Shared = own, gpu.SharedMemory{Unified: gpu.Of(true), Used: used} }
	}
	carved := gpu.Memory{Total: gpu.Of[gpu.Bytes](512 << 20), Used: gpu.Of[gpu.Bytes](512 << 20)}
	for name, c := range map[string]struct {
		change        func(*gpu.Device)
		value, remark string
	}{
		"how much is known":       {unified(gpu.Of[gpu.Bytes](3<<30), gpu.Memory{}), "3.0\u00a0GiB", "of the machine’s memory"},
		"and a part is set apart": {unified(gpu.Of[gpu.Bytes](3<<29), carved), "2.0\u00a0GiB", "of the machine’s memory"},
		"how much is not known":   {unified(gpu.Absent[gpu.Bytes](gpu.NotSupported), gpu.Memory{}), "the machine’s", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := newTile(new(Input), device(c.change), noon).Meters[1]
			if got.Value.Text != c.value || got.Remark != c.remark || got.Level != Normal {
				t.Errorf("got %q %q %v", got.Value.Text, got.Remark, got.Level)
			}
		})
	}
	alone := newSums(new(Input), []*gpu.Device{device(unified(gpu.Of[gpu.Bytes](3<<30), gpu.Memory{}))})[1]
	if alone.Value.Text != "the machine’s" || alone.Remark != "" {
		t.Errorf("the total is %q %q", alone.Value.Text, alone.Remark)
	}
}

// What is split of a GPU in a processor may be the processor's, and is said as that.
func TestUseOfTheMachinesMemory(t *testing.T) {
	for _, unified := range []bool{false, true} {
		d := device(func(d *gpu.Device) { d.Shared.Unified = gpu.Of(unified) })
		a := attribute.Of(d, false)
		uses := newUses(d, &a)
		memory, power := uses[0].Facts[0].Means, uses[1].Facts[1].Means
		if strings.Contains(memory, "the machine’s memory") != unified || strings.Contains(power, "CPU cores’ draw") != unified {
			t.Errorf("unified %v: %q, %q", unified, memory, power)
		}
	}
}

// Parts that are not offered, not permitted and not there are three things.
func TestNoInstances(t *testing.T) {
	for want, r := range map[string]gpu.Reading[int]{
		"not offered": gpu.Absent[int](gpu.NotSupported), "not permitted": gpu.Absent[int](gpu.NotPermitted), "none": gpu.Of(0), "7": gpu.Of(7),
	} {
		d := device(func(d *gpu.Device) { d.Modes.Instances = r })
		if got := newFact(d, catalog.Reading("modes.instances")).Value.Text; got != want {
			t.Errorf("%v is %q, want %q", r, got, want)
		}
	}
}

// Who may use a GPU unseen is not said not to be there.
func TestHiddenProcesses(t *testing.T) {
	d := device(func(d *gpu.Device) { d.Processes, d.ProcessesPartial = gpu.Of([]gpu.Process{}), gpu.Of(true) })
	if got := newTile(new(Input), d, noon).Who.Text; got != "no visible process" {
		t.Errorf("the tile says %q", got)
	}
	name := func(*gpu.Device) string { return "GPU 0" }
	if got, want := newUnlisted([]*gpu.Device{d}, name), "gpuwhy has no permission to see all processes on GPU 0."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWho(t *testing.T) {
	named := func(pid int, kind gpu.ProcessType, held gpu.Bytes, sm gpu.Reading[gpu.Percent]) gpu.Process {
		return gpu.Process{PID: pid, Type: kind, Memory: gpu.Of(held), SM: sm, Facts: gpu.ProcessFacts{Name: gpu.Of("p"), User: gpu.Of("u")}}
	}
	none := gpu.Reading[gpu.Percent]{}
	for name, c := range map[string]struct {
		list        gpu.Reading[[]gpu.Process]
		who, detail string
	}{
		"not listed":               {gpu.Absent[[]gpu.Process](gpu.NotPermitted), "processes not permitted", ""},
		"none":                     {gpu.Of([]gpu.Process{}), "no process", ""},
		"the largest share":        {gpu.Of([]gpu.Process{named(1, "compute", 9<<30, gpu.Of[gpu.Percent](0)), named(2, "graphics", 1<<30, gpu.Of[gpu.Percent](3))}), "p", "u · pid 2 · 1.0\u00a0GiB · 1 more process"},
		"compute before graphics":  {gpu.Of([]gpu.Process{named(1, "graphics", 9<<30, none), named(2, "compute", 1<<30, none), named(3, "compute", 1<<29, none)}), "p", "u · pid 2 · 1.0\u00a0GiB · 2 more processes"},
		"a process without a name": {gpu.Of([]gpu.Process{{PID: 7}}), "a process", "pid 7"},
	} {
		t.Run(name, func(t *testing.T) {
			tile := newTile(new(Input), device(func(d *gpu.Device) { d.Processes = c.list }), noon)
			if tile.Who.Text != c.who || tile.Detail != c.detail {
				t.Errorf("got %q %q", tile.Who.Text, tile.Detail)
			}
		})
	}
}

func TestHeld(t *testing.T) {
	for reasons, want := range map[gpu.ClockEventReasons]string{
		0: "", gpu.ReasonIdle: "", gpu.ReasonApplicationClocks: "",
		gpu.ReasonPowerCap: "power-limited",
		gpu.ReasonThermalSlowdown | gpu.ReasonHardwareThermal:     "slowed by heat",
		gpu.ReasonPowerCap | gpu.ReasonHardwareThermal | 1<<40:    "slowed by heat · power-limited",
		gpu.ReasonHardwareSlowdown | gpu.ReasonHardwarePowerBrake: "slowed by hardware protection and the power supply",
	} {
		got := newTile(new(Input), device(func(d *gpu.Device) { d.Clocks.EventReasons = gpu.Of(reasons) }), noon).Held
		if got != want {
			t.Errorf("%b: %q, want %q", reasons, got, want)
		}
		if reasons.Throttled() != (want != "") {
			t.Errorf("%b: %q, though throttled is %v", reasons, want, reasons.Throttled())
		}
	}
}

func TestProcessRow(t *testing.T) {
	s := &gpu.Snapshot{Time: noon, Devices: []gpu.Device{*device(func(d *gpu.Device) {
		d.Processes = gpu.Of([]gpu.Process{
			{PID: 7, Type: gpu.TypeCompute, GPUInstance: gpu.Of(0), SM: gpu.Of[gpu.Percent](0), Facts: gpu.ProcessFacts{
				Command: gpu.Absent[string](gpu.NotPermitted), Started: gpu.Of(noon.Add(-90 * time.Second)),
				Pod: gpu.Of(gpu.Pod{UID: "1-2", Name: gpu.Of("trainer-0")}),
			}},
		})
	})}}
	in := input(s, "why")
	in.Attribution = func(*gpu.Device) *attribute.Attribution {
		return &attribute.Attribution{Shares: []attribute.Share{{Power: gpu.Of[gpu.Watts](42)}}}
	}
	got := newProcesses(&in, devicesOf(s))
	if len(got) != 1 {
		t.Fatalf("%d processes", len(got))
	}
	want := Process{
		Key: "n/GPU-1/7/0", GPU: "3 · MIG 0", Device: "/gpu/GPU-1", PID: "7", Type: "compute", Name: missing(someProcess), User: absent(gpu.NotReported),
		Memory: absent(gpu.NotReported), Hue: "p6",
		Command: Value{"command not permitted", Missing, "it exists, but gpuwhy isn’t allowed to read it", ""},
		SM:      Value{Text: "0\u00a0%"},
		Power:   Value{Text: "42\u00a0W"}, Place: Value{Text: "pod trainer-0"},
		Running: Value{Text: "1\u00a0min", Title: "since 2026-01-02 11:58:30 UTC"}, Started: "2026-01-02T11:58:30Z",
	}
	if diff := cmp.Diff(want, *got[0], cmpopts.IgnoreUnexported(Process{})); diff != "" {
		t.Error(diff)
	}
}

func TestPlace(t *testing.T) {
	id := strings.Repeat("ab", 32)
	none := gpu.ProcessFacts{Pod: gpu.Of(gpu.Pod{}), Container: gpu.Of(gpu.Container{}), Job: gpu.Of(gpu.Job{}), Unit: gpu.Of(gpu.Unit{})}
	in := func(change func(*gpu.ProcessFacts)) gpu.ProcessFacts {
		f := none
		change(&f)
		return f
	}
	for _, c := range []struct {
		facts gpu.ProcessFacts
		want  Value
	}{
		{gpu.ProcessFacts{}, absent(gpu.NotReported)},
		{gpu.ProcessFacts{Unit: gpu.Absent[gpu.Unit](gpu.NotPermitted)}, absent(gpu.NotPermitted)},
		{none, Value{Text: "none"}},
		{in(func(f *gpu.ProcessFacts) { f.Unit = gpu.Of(gpu.Unit{Name: "a.service"}) }), Value{Text: "a.service"}},
		{in(func(f *gpu.ProcessFacts) { f.Job, f.Unit = gpu.Of(gpu.Job{ID: 7}), gpu.Of(gpu.Unit{Name: "a.service"}) }), Value{Text: "job 7"}},
		{in(func(f *gpu.ProcessFacts) { f.Container = gpu.Of(gpu.Container{ID: id}) }), Value{Text: "container abababababab"}},
		{in(func(f *gpu.ProcessFacts) { f.Container = gpu.Of(gpu.Container{ID: id, Name: gpu.Of("<b>\u202e")}) }), Value{Text: "container <b>\ufffd"}},
		{in(func(f *gpu.ProcessFacts) { f.Pod = gpu.Of(gpu.Pod{UID: "1-2"}) }), Value{Text: "pod 1-2"}},
	} {
		if got := newPlace(&c.facts); got != c.want {
			t.Errorf("got %+v, want %+v", got, c.want)
		}
	}
}

func TestUnlisted(t *testing.T) {
	s := &gpu.Snapshot{Devices: []gpu.Device{
		*device(func(d *gpu.Device) { d.Index = 0 }),
		*device(func(d *gpu.Device) { d.Index, d.State = 1, gpu.StateLost }),
		*device(func(d *gpu.Device) { d.Index, d.Processes = 2, gpu.Of([]gpu.Process{}) }),
	}}
	if got, want := newUnlisted(devicesOf(s), new(Input).name), "Without an answer from GPU 1, the processes there are unknown. The driver doesn’t list the processes on GPU 0."; got != want {
		t.Errorf("got %q", got)
	}
}

func TestHostRows(t *testing.T) {
	if rows := newHostRows(nil); rows != nil {
		t.Errorf("of no host: %v", rows)
	}
	if got := newMachine(nil); got != "" {
		t.Errorf("of no host: %q", got)
	}
	rows := newHostRows(&gpu.Host{SwapTotal: gpu.Of(gpu.Bytes(0)), CPU: gpu.Of[gpu.Percent](0)})
	want := []Figure{
		{Key: "cpu", Label: "CPU", Value: Value{Text: "0\u00a0%"}, Fill: "0"},
		{Key: "load", Label: "Load", Value: absent(gpu.NotReported)},
		{Key: "memory", Label: "Memory", Value: absent(gpu.NotReported)},
		{Key: "swap", Label: "Swap", Value: Value{Text: "none"}},
		{Key: "self", Label: "gpuwhy itself", Value: absent(gpu.NotReported), Remark: "of one core"},
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Error(diff)
	}
}

func TestPageBeforeTheFirstReading(t *testing.T) {
	p := NewPage(input(nil, "The first reading is still under way."))
	if !p.Taken.IsZero() || p.in.Nodes.Status() != "starting" || p.in.place() != "asked" || p.Title != "gpuwhy" || p.GPUs.All != 0 {
		t.Errorf("got %+v", p)
	}
	html := render(t, p)
	if !strings.Contains(html, `id="waiting">`) || !strings.Contains(html, `id="failures" hidden`) || strings.Contains(html, `id="gpus"`) {
		t.Error("the page does not wait for the first reading")
	}
}

func TestPageWithoutGPU(t *testing.T) {
	p := NewPage(input(machine("none"), "No GPU can be read."))
	want := Failure{
		Source: "nvml", Since: "failing for 20\u00a0min", Next: "trying again in 12\u00a0s",
		What: "The NVIDIA driver is not loaded: libnvidia-ml.so.1 was not found.",
		Try:  "Install the driver, or check that nvidia-smi runs on this machine.",
	}
	if p.in.Nodes.Status() != "no_gpu" || p.FailTitle != "What was tried" || len(p.Failures) != 2 || p.Failures[0] != want {
		t.Errorf("got %q %q %+v", p.in.Nodes.Status(), p.FailTitle, p.Failures)
	}
	for _, total := range p.Sums {
		if strings.HasPrefix(total.Value.Text, "0 ") {
			t.Errorf("%s is %q of nothing", total.Label, total.Value.Text)
		}
	}
}

func TestPageOfEight(t *testing.T) {
	s := machine("eight")
	in := input(s, "why")
	in.Alerts = []alert.Alert{
		{ID: "a1", Rule: "high_gpu_usage", Severity: "warning", State: "firing", Message: "GPU 0 is busy", Since: noon.Add(-42 * time.Second)},
		{ID: "a2", Rule: "lost", Severity: "critical", State: "firing", Message: "GPU 6 is lost", Since: noon},
		{ID: "a3", Rule: "hot", Severity: "warning", State: "no_data", Message: "GPU 5 was hot", Since: noon.Add(-time.Hour)},
		{ID: "a4", Rule: "new", Severity: "info", State: "firing", Message: "GPU 7 is new", Since: noon.Add(-time.Hour)},
	}
	p := NewPage(in)
	if p.in.Nodes.Status() != "degraded" || p.GPUs.Shape != Cards || p.Title != "▲ 99\u00a0% · 85\u00a0°C · gpuwhy" || p.in.Nodes.Kind() != gpu.Live {
		t.Errorf("got %q %q %q %v", p.in.Nodes.Status(), p.GPUs.Shape, p.Title, p.in.Nodes.Kind() != gpu.Live)
	}
	if got, want := p.GPUs.Counts, (Counts{All: 8, Busy: 3, Problem: 3, Unknown: 3}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if l := p.AlertLine; l.Item.Title != "GPU\u00a06 is lost" || l.More != "2 more" || l.Info != "1 for your information" {
		t.Errorf("the line is %+v", l)
	}
}

func TestWhatIsNotLiveSaysSo(t *testing.T) {
	html := render(t, NewPage(input(fixture.Many(noon, 64), "why")))
	if !strings.Contains(html, `><span>Simulated</span>`) {
		t.Error("no word that the data is simulated")
	}
	played := fixture.Workstation()
	played.Source, played.Devices[0].Source, played.Devices[0].RecordedFrom = gpu.SourceRecorded, gpu.SourceRecorded, gpu.SourceNVML
	html = render(t, NewPage(input(played, "why")))
	if !strings.Contains(html, `><span>Recorded</span>`) || strings.Contains(html, "Simulated") {
		t.Error("no word that the data is recorded, or that it is simulated")
	}
	if p := NewPage(input(fixture.Many(noon, 64), "why")); p.GPUs.Shape != Tiles || len(p.GPUs.Groups) != 8 {
		t.Errorf("got %q, %d groups", p.GPUs.Shape, len(p.GPUs.Groups))
	}
}

// What a device or a process says about itself is text, and not too much.
func TestHostileTexts(t *testing.T) {
	const script = `<script>alert("1")</script>`
	long := strings.Repeat("x", 10_000)
	s := machine("one")
	s.Node = script
	s.Devices[0].Name = `"><img src=x onerror=alert(1)>` + long
	s.Devices[0].Reason = gpu.Advice{What: script}
	s.Devices[0].Processes = gpu.Of([]gpu.Process{
		{PID: 1, Type: gpu.TypeCompute, Memory: gpu.Of[gpu.Bytes](0), SM: gpu.Of[gpu.Percent](0), Facts: gpu.ProcessFacts{
			Name: gpu.Of(script), User: gpu.Of("\u202eadmin"), Command: gpu.Of("</td><style>*{display:none}</style>" + long), Started: gpu.Of(noon),
		}},
	})
	s.Host.Disks[0].Mount = script
	in := input(s, script+long)
	in.Layers = contract.Layers{
		Headline: script + long, Facts: []contract.Fact{{Text: script + "\u202e"}}, Rest: script, Action: contract.Action{Text: script, Command: "kill " + script},
	}
	html := render(t, NewPage(in))
	if strings.Contains(html, "<script>alert") || strings.Contains(html, "<img") || strings.Contains(html, "<style") {
		t.Error("markup came through")
	}
	if strings.Contains(html, "\u202e") {
		t.Error("the direction of writing can be turned")
	}
	if strings.Contains(html, strings.Repeat("x", longestSentence)) {
		t.Error("texts are as long as they like")
	}
	if !strings.Contains(html, "&lt;script&gt;alert(") || !strings.Contains(html, "\ufffdadmin") {
		t.Error("the texts are not shown at all")
	}
}

// Every page must work under a policy that allows nothing inline.
func TestNothingInline(t *testing.T) {
	inline := regexp.MustCompile(`(?i)<style|\sstyle=|\son[a-z]+=|javascript:|<script(?:>|[^>]*[^>]>[^<])`)
	pages := map[string]string{
		"error":   render(t, ErrorPage(404, "There is no such page", gpu.Advice{What: "what", Try: "try"}, Site{Base: "/", Asset: asset})),
		"gallery": render(t, exampleGallery),
	}
	for _, e := range fixture.Examples(noon) {
		pages[e.Name] = render(t, NewPage(input(e.Snapshot, e.Why)))
		if e.Snapshot != nil && len(e.Snapshot.Devices) > 0 {
			pages[e.Name+"'s first GPU"] = render(t, NewDevicePage(input(e.Snapshot, e.Why), &e.Snapshot.Devices[0]))
		}
	}
	for name, html := range pages {
		if found := inline.FindString(html); found != "" {
			t.Errorf("%s: %q", name, found)
		}
		for _, url := range regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllStringSubmatch(html, -1) {
			if !strings.HasPrefix(url[1], "#") && !strings.HasPrefix(url[1], "/") || strings.HasPrefix(url[1], "//") {
				t.Errorf("%s: %q is elsewhere", name, url[1])
			}
		}
	}
	if !inline.MatchString(`<p onclick="x">`) || !inline.MatchString(`<script type="module">x</script>`) || inline.MatchString(`<script type="module" src="/x"></script>`) {
		t.Error("the test's own pattern is wrong")
	}
}

var exampleGallery = Gallery([]FrameGroup{
	{"Machines", []Frame{{ID: "hung", Title: "One that hangs", Says: "It says so.", Press: "#pause", URL: "/state/hung/#charts-title"}}},
}, asset, "/static/gallery.js")

func TestExamplesHaveEveryState(t *testing.T) {
	html := render(t, exampleGallery)
	for _, e := range fixture.Examples(noon) {
		in := input(e.Snapshot, e.Why)
		html += render(t, NewPage(in))
		for i := range min(len(in.devices()), 3) {
			html += render(t, NewDevicePage(in, in.devices()[i]))
		}
	}
	for _, state := range []string{"busy", "idle", "on", "not_answering", "lost", "asleep"} {
		if !strings.Contains(html, `data-state="`+state+`"`) {
			t.Errorf("nothing is %s", state)
		}
	}
	for _, text := range []string{"not reported", "not offered", "not permitted", "no fan of its own", "set by hand", "\u00a0W ?", "Simulated</span>", "Waiting for", `src="/state/hung/" data-at="charts-title" title="Machines: One that hangs" data-press="#pause" loading="lazy"`, `href="#hung-state"`, `id="hung-state"`, "nothing here was measured"} {
		if !strings.Contains(html, text) {
			t.Errorf("%q is missing", text)
		}
	}
}

func TestErrorPage(t *testing.T) {
	html := render(t, ErrorPage(404, "There is no such page", gpu.Advice{What: "Nothing is at <here>.", Try: "Go back."}, Site{Base: "/base/", Asset: asset}))
	for _, part := range []string{"404", "There is no such page</h1>", "Nothing is at &lt;here&gt;.", "Go back.", `href="/base/"`} {
		if !strings.Contains(html, part) {
			t.Errorf("%q is missing", part)
		}
	}
	for code, again := range map[int]bool{404: false, 503: true} {
		html := render(t, ErrorPage(code, "", gpu.Advice{}, Site{Base: "/", Asset: asset}))
		if strings.Contains(html, `http-equiv="refresh"`) != again {
			t.Errorf("%d: asks again: %v", code, !again)
		}
	}
}

// The page is light; that of very many devices has what stands out, and the
// scripts fetch the rest.
func TestPageIsSmall(t *testing.T) {
	for name, limit := range map[string]int{"eight": 9500, "many": 24_000, "fleet": 24_000} {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		e := fixture.Named(name, noon)
		in := input(e.Snapshot, e.Why)
		in.Layers, in.Causes = exampleLayers, exampleCauses(e.Snapshot, noon)
		if _, err := w.Write([]byte(render(t, NewPage(in)))); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d bytes", name, b.Len())
		if b.Len() > limit || b.Len() < 1000 {
			t.Errorf("the page of %s has %d bytes compressed, more than %d", name, b.Len(), limit)
		}
	}
}

func TestVeryMany(t *testing.T) {
	s := fixture.Many(noon, 1000)
	s.Devices[7].Thermal.GPU = gpu.Of[gpu.Celsius](86)
	p := NewPage(input(s, "why"))
	l := p.GPUs
	if l.Shape != Squares || len(l.Groups) != 125 || len(l.Groups[0].Spots) != 8 || l.Groups[1].Name != "GPUs 8–15" || len(p.Processes.Rows) != fewProcesses {
		t.Errorf("%q, %d groups, the second %+v, %d processes", l.Shape, len(l.Groups), l.Groups[1], len(p.Processes.Rows))
	}
	if len(l.Cards) != 2 || l.Cards[0].Title != "GPU 500" || l.Cards[1].Title != "GPU 7" || !strings.HasPrefix(p.Processes.Count, "9") {
		t.Errorf("%d have words, the first %+v; %q", len(l.Cards), l.Cards[0], p.Processes.Count)
	}
}

func BenchmarkPage(b *testing.B) {
	for name, s := range map[string]*gpu.Snapshot{"eight": machine("eight"), "thousand": fixture.Many(noon, 1000)} {
		b.Run(name, func(b *testing.B) {
			in := input(s, "why")
			var buf bytes.Buffer
			for b.Loop() {
				buf.Reset()
				if err := NewPage(in).Render(b.Context(), &buf); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// What totals are held against is of the same devices, or not said.
func TestTotalsAreOfTheSameDevices(t *testing.T) {
	gpuWith := func(change func(*gpu.Device)) gpu.Device {
		return *device(func(d *gpu.Device) {
			d.Memory.Used, d.Memory.Total = gpu.Of[gpu.Bytes](2<<30), gpu.Of[gpu.Bytes](8<<30)
			d.Power.Draw, d.Power.EnforcedLimit = gpu.Of[gpu.Watts](100), gpu.Of[gpu.Watts](300)
			d.Utilization.GPU = gpu.Of[gpu.Percent](50)
			change(d)
		})
	}
	for name, c := range map[string]struct {
		change func(*gpu.Device)
		want   [2]string // memory, power
	}{
		"all known":             {func(*gpu.Device) {}, [2]string{"of 16.0\u00a0GiB", "of 600\u00a0W"}},
		"a total is missing":    {func(d *gpu.Device) { d.Memory.Total = gpu.Absent[gpu.Bytes](gpu.NotSupported) }, [2]string{"", "of 600\u00a0W"}},
		"neither is there":      {func(d *gpu.Device) { d.Memory = gpu.Memory{} }, [2]string{"of 8.0\u00a0GiB", "of 600\u00a0W"}},
		"the machine's memory":  {func(d *gpu.Device) { d.Memory, d.Shared.Unified = gpu.Memory{}, gpu.Of(true) }, [2]string{"of 8.0\u00a0GiB, excluding 1 GPU using the machine’s memory", "of 600\u00a0W"}},
		"no limit":              {func(d *gpu.Device) { d.Power.EnforcedLimit = gpu.Reading[gpu.Watts]{} }, [2]string{"of 16.0\u00a0GiB", ""}},
		"a doubtful draw":       {func(d *gpu.Device) { d.Power.Draw = gpu.DoubtfulOf[gpu.Watts](9000) }, [2]string{"of 16.0\u00a0GiB", ""}},
		"no utilization":        {func(d *gpu.Device) { d.Utilization.GPU = gpu.Absent[gpu.Percent](gpu.NotSupported) }, [2]string{"of 16.0\u00a0GiB", "of 600\u00a0W"}},
		"one that is not there": {func(d *gpu.Device) { d.State, d.Readings = gpu.StateLost, gpu.Readings{} }, [2]string{"of 8.0\u00a0GiB", "of 300\u00a0W, 1 not read"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &gpu.Snapshot{Time: noon, Devices: []gpu.Device{gpuWith(func(*gpu.Device) {}), gpuWith(c.change)}}
			sums := newSums(new(Input), devicesOf(s))
			if got := [2]string{sums[1].Remark, sums[0].Remark}; got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// The tile of the GPU that the sentence is about stands out, if it is one of
// several and has something to explain.
func TestTheAnswersTile(t *testing.T) {
	first, second := *device(func(*gpu.Device) {}), *device(func(d *gpu.Device) { d.UUID = "GPU-2" })
	cause := func(kind explain.Kind) explain.Cause {
		return explain.Cause{Kind: kind, Device: &first, Sentence: "why"}
	}
	for name, c := range map[string]struct {
		devices []gpu.Device
		causes  []explain.Cause
		want    string
	}{
		"work":     {[]gpu.Device{second, first}, []explain.Cause{{Kind: explain.Note}, cause(explain.Work)}, "GPU-1"},
		"idle":     {[]gpu.Device{second, first}, []explain.Cause{cause(explain.Idle)}, ""},
		"one GPU":  {[]gpu.Device{first}, []explain.Cause{cause(explain.Work)}, ""},
		"no cause": {[]gpu.Device{second, first}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(&gpu.Snapshot{Time: noon, Devices: c.devices}, "why")
			in.Causes = c.causes
			got := ""
			for _, tile := range NewPage(in).GPUs.Cards {
				if tile.Answer {
					got += strings.TrimPrefix(tile.Key, "n/")
				}
			}
			if got != c.want {
				t.Errorf("it is %q, want %q", got, c.want)
			}
		})
	}
}

// Without a driver the headline says so, and the panel what was tried: nothing
// is said twice.
func TestNoDriverIsToldOnce(t *testing.T) {
	for _, e := range []fixture.Example{fixture.Named("none", noon)} {
		in := input(e.Snapshot, e.Why)
		in.Layers = contract.Layers{Headline: "Nothing is here.", Broken: true}
		in.Causes = []explain.Cause{{
			ID: "no_gpu", Since: noon.Add(-20 * time.Minute), Confidence: explain.High, Sentence: e.Why,
			Advice:   "Install the driver, or check that nvidia-smi runs on this machine.",
			Evidence: []explain.Evidence{{Name: "failed: nvml", Text: "libnvidia-ml.so.1 was not found", At: noon.Add(-20 * time.Minute)}},
		}}
		html := render(t, NewPage(in))
		for _, text := range []string{"libnvidia-ml.so.1 was not found", "install the driver", "What was tried"} {
			if n := strings.Count(strings.ToLower(html), strings.ToLower(text)); n != 1 {
				t.Errorf("%q is there %d times", text, n)
			}
		}
		if !strings.Contains(html, `id="evidence" hidden>`) {
			t.Error("there is evidence beside the panel")
		}
	}
}

// With several nodes the page names the node of each GPU, and has no machine of
// its own.
func TestSeveralNodes(t *testing.T) {
	a, b := fixture.Named("one", noon).Snapshot, fixture.Named("eight", noon).Snapshot
	in := input(nil, "why")
	in.Nodes = gpu.Nodes{b, a}
	p := NewPage(in)
	if cards := p.GPUs.Cards; p.in.place() != "Fleet of 2" || len(cards) != 9 || cards[8].Title != a.Node+" "+gpuName(0) || p.Host != nil || p.Machine != "" {
		t.Errorf("node %q, %d cards, the last is %q", p.in.place(), len(cards), cards[len(cards)-1].Title)
	}
	if p.Answer.Question != "What needs attention now?" {
		t.Errorf("it asks %q", p.Answer.Question)
	}
}

func devicesOf(s *gpu.Snapshot) []*gpu.Device { return slices.Collect(gpu.Nodes{s}.Devices()) }
