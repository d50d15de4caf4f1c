package explain_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// start is when every story begins.
var start = time.Date(2026, 3, 14, 15, 0, 0, 0, time.UTC)

const model = "RTX 4090"

// restingDevice returns a device with two fans that stand still: 34 °C, 17 W of 450 W, nothing running on it.
func restingDevice() gpu.Device {
	return gpu.Device{
		Identity: gpu.Identity{UUID: "GPU-0", Node: "desk", Name: model, Vendor: gpu.NVIDIA},
		State:    gpu.StateOK,
		Readings: gpu.Readings{
			Utilization: gpu.Utilization{GPU: gpu.Of[gpu.Percent](0), Encoder: gpu.Of[gpu.Percent](0), Decoder: gpu.Of[gpu.Percent](0)},
			Thermal:     gpu.Thermal{GPU: gpu.Of[gpu.Celsius](34), Slowdown: gpu.Of[gpu.Celsius](95)},
			Fans: gpu.Fans{Count: gpu.Of(2), Fans: []gpu.Fan{
				fan(0, 0), fan(0, 0),
			}},
			Power: gpu.Power{
				Draw: gpu.Of[gpu.Watts](17.3), EnforcedLimit: gpu.Of[gpu.Watts](450), MinLimit: gpu.Of[gpu.Watts](150), MaxLimit: gpu.Of[gpu.Watts](600),
			},
			Clocks:    gpu.Clocks{SM: gpu.Of[gpu.Megahertz](210), MaxSM: gpu.Of[gpu.Megahertz](3120), PerformanceState: gpu.Of(8), EventReasons: gpu.Of(gpu.ReasonIdle)},
			Modes:     gpu.Modes{Persistence: gpu.Of(true), DisplayActive: gpu.Of(false)},
			Processes: gpu.Of([]gpu.Process{}),
		},
	}
}

// fan returns a fan that follows its command: 32 RPM per percent.
func fan(percent gpu.Percent, rpm gpu.RPM) gpu.Fan {
	return gpu.Fan{Commanded: gpu.Of(percent), RPM: gpu.Of(rpm), Target: gpu.Of(percent), Policy: gpu.Of("automatic")}
}

func fansAt(d *gpu.Device, percent gpu.Percent) {
	d.Fans = gpu.Fans{Count: gpu.Of(2), Fans: []gpu.Fan{fan(percent, gpu.RPM(32*percent)), fan(percent, gpu.RPM(32*percent))}}
}

// busy puts the device to work: 71 °C, 431 W, fans at 66 %.
func busy(d *gpu.Device, util gpu.Percent, processes ...gpu.Process) {
	d.Utilization.GPU = gpu.Of(util)
	d.Thermal.GPU, d.Power.Draw = gpu.Of[gpu.Celsius](71), gpu.Of[gpu.Watts](431.4)
	d.Clocks.SM, d.Clocks.PerformanceState, d.Clocks.EventReasons = gpu.Of[gpu.Megahertz](2715), gpu.Of(2), gpu.Of(gpu.ClockEventReasons(0))
	fansAt(d, 66)
	d.Processes = gpu.Of(processes)
}

// held makes a device without work keep its clocks up.
func held(d *gpu.Device) {
	d.Thermal.GPU, d.Power.Draw = gpu.Of[gpu.Celsius](44), gpu.Of[gpu.Watts](63)
	d.Clocks.SM, d.Clocks.PerformanceState, d.Clocks.EventReasons = gpu.Of[gpu.Megahertz](2745), gpu.Of(0), gpu.Of(gpu.ClockEventReasons(0))
}

// passive takes the device's fans away.
func passive(d *gpu.Device) { d.Fans = gpu.Fans{Count: gpu.Of(0)} }

func process(pid int, name string, sm gpu.Percent) gpu.Process {
	return gpu.Process{
		PID: pid, Type: gpu.TypeCompute, SM: gpu.Of(sm), Memory: gpu.Of[gpu.Bytes](2 << 30),
		Facts: gpu.ProcessFacts{Name: gpu.Of(name), User: gpu.Of("alice"), Started: gpu.Of(start.Add(-time.Hour))},
	}
}

var (
	python   = process(4242, "python", 95)
	blender  = process(77, "blender", 30)
	shell    = gpu.Process{PID: 9, Type: gpu.TypeGraphics, SM: gpu.Of[gpu.Percent](1), Facts: gpu.ProcessFacts{Name: gpu.Of("gnome-shell"), User: gpu.Of("alice")}}
	stranger = gpu.Process{PID: 7, Type: gpu.TypeCompute, SM: gpu.Of[gpu.Percent](50)}
)

// made returns a device after some changes.
func made(changes ...func(*gpu.Device)) gpu.Device {
	d := restingDevice()
	for _, change := range changes {
		change(&d)
	}
	return d
}

func working(util gpu.Percent, processes ...gpu.Process) func(*gpu.Device) {
	return func(d *gpu.Device) { busy(d, util, processes...) }
}

func indexed(index int) func(*gpu.Device) {
	return func(d *gpu.Device) { d.Index, d.UUID = index, "GPU-"+string(rune('0'+index)) }
}

func deviceIn(state gpu.State, index int) gpu.Device {
	return gpu.Device{Identity: gpu.Identity{UUID: "GPU-" + string(rune('0'+index)), Index: index, Name: model, Node: "desk"}, State: state, Since: start}
}

func snapshot(devices ...gpu.Device) *gpu.Snapshot {
	return &gpu.Snapshot{Time: start, Node: "desk", Devices: devices}
}

// radeon makes it an AMD device, which has no performance states but a hot spot.
func radeon(d *gpu.Device) {
	d.Vendor, d.Source, d.Name = gpu.AMD, gpu.SourceAMD, "Radeon RX 7900 XTX"
	d.Clocks.PerformanceState = gpu.Absent[int](gpu.NotSupported)
	d.Thermal.HotSpot = gpu.Of(d.Thermal.GPU.Or(0) + 21)
}

// counted makes the driver report only the fan's speed.
func counted(rpm gpu.RPM) func(*gpu.Device) {
	return func(d *gpu.Device) {
		d.Fans = gpu.Fans{Count: gpu.Of(1), Fans: []gpu.Fan{{RPM: gpu.Of(rpm)}}}
		gpu.Withdraw(&d.Fans.Fans[0].Commanded, gpu.NotSupported)
	}
}

func partOfCPU(d *gpu.Device) {
	d.Shared.Unified, d.Fans = gpu.Of(true), gpu.Fans{Count: gpu.Of(0)}
}

// One reading, without a past.
func TestWhy(t *testing.T) {
	unlisted := func(d *gpu.Device) { d.Processes = gpu.Absent[[]gpu.Process](gpu.NotPermitted) }
	partial := func(d *gpu.Device) { d.ProcessesPartial = gpu.Of(true) }
	noUtil := func(d *gpu.Device) { d.Utilization = gpu.Utilization{} }
	never := func(d *gpu.Device) { gpu.Withdraw(&d.Utilization, gpu.NotSupported) }
	noShare := gpu.Process{PID: 6, Type: gpu.TypeCompute, SM: gpu.Absent[gpu.Percent](gpu.NotSupported), Facts: python.Facts}
	begins := gpu.Process{PID: 8, Type: gpu.TypeGraphics, Facts: python.Facts}
	begins.Facts.Name, begins.Facts.Program = gpu.Of("game"), gpu.Of("game")
	bare := gpu.Device{Identity: gpu.Identity{Index: 2}, State: gpu.StateOK}
	leftAlone := bare
	leftAlone.Reason = gpu.Advice{What: "it is left alone to fall asleep", Try: "open the page to wake it"}
	busyBare := bare
	busyBare.Utilization.GPU, busyBare.Processes = gpu.Of[gpu.Percent](50), gpu.Of([]gpu.Process{python})

	tests := []struct {
		name    string
		devices []gpu.Device
		want    string
	}{
		{"idle", []gpu.Device{made()},
			"GPU 0 (RTX 4090) is idle at 0 %, 34 °C, 17 W of 450 W, fan off."},
		{"a little is idle too", []gpu.Device{made(func(d *gpu.Device) { d.Utilization.GPU = gpu.Of[gpu.Percent](4.9) })},
			"GPU 0 (RTX 4090) is idle at 5 %, 34 °C, 17 W of 450 W, fan off."},
		{"no power limit", []gpu.Device{made(func(d *gpu.Device) { d.Power = gpu.Power{Draw: d.Power.Draw} })},
			"GPU 0 (RTX 4090) is idle at 0 %, 34 °C, 17 W, fan off."},
		{"the fan turns a little", []gpu.Device{made(func(d *gpu.Device) { fansAt(d, 30) })},
			"GPU 0 (RTX 4090) is idle at 0 %, 34 °C, 17 W of 450 W, fan at 30 %."},

		{"busy", []gpu.Device{made(working(98, python))},
			"python (pid 4242, alice) keeps GPU 0 (RTX 4090) busy at 98 %, 71 °C, 431 W of 450 W, fan at 66 %."},
		{"with another", []gpu.Device{made(working(98, blender, python))},
			"python (pid 4242, alice) along with 1 other process keeps GPU 0 (RTX 4090) busy at 98 %, 71 °C, 431 W of 450 W, fan at 66 %."},
		{"a desktop that draws a little is no culprit", []gpu.Device{made(working(98, shell, python))},
			"python (pid 4242, alice) keeps GPU 0 (RTX 4090) busy at 98 %, 71 °C, 431 W of 450 W, fan at 66 %."},
		{"with others", []gpu.Device{made(working(98, blender, python, stranger))},
			"python (pid 4242, alice) together with a process (pid 7) and 1 other process keeps GPU 0 (RTX 4090) busy at 98 %, 71 °C, 431 W of 450 W, fan at 66 %."},
		{"by one that the host can't see", []gpu.Device{made(working(98, stranger))},
			"A process (pid 7) keeps GPU 0 (RTX 4090) busy at 98 %, 71 °C, 431 W of 450 W, fan at 66 %."},
		{"with video", []gpu.Device{made(working(9, python), func(d *gpu.Device) { d.Utilization.Encoder = gpu.Of[gpu.Percent](74) })},
			"python (pid 4242, alice) keeps GPU 0 (RTX 4090) busy with video at 74 %, 71 °C, 431 W of 450 W, fan at 66 %."},
		{"nothing else is reported", []gpu.Device{busyBare},
			"python (pid 4242, alice) keeps GPU 2 busy at 50 %."},
		{"no process is listed", []gpu.Device{made(working(98))},
			"GPU 0 (RTX 4090) is busy at 98 %, 71 °C, 431 W of 450 W, fan at 66 %, and no listed process explains it."},
		{"others may be hidden", []gpu.Device{made(working(98), partial)},
			"GPU 0 (RTX 4090) is busy at 98 %, 71 °C, 431 W of 450 W, fan at 66 %, and no process that gpuwhy is allowed to see explains it."},
		{"the driver can't say which process", []gpu.Device{made(working(98), unlisted)},
			"GPU 0 (RTX 4090) is busy at 98 %, 71 °C, 431 W of 450 W, fan at 66 %, and the driver does not say which process it is."},
		{"shares alone tell work", []gpu.Device{made(working(0, python), noUtil)},
			"python (pid 4242, alice) keeps GPU 0 (RTX 4090) busy, 71 °C, 431 W of 450 W, fan at 66 %."},
		{"power alone tells work", []gpu.Device{made(working(0, gpu.Process{PID: 5, Type: gpu.TypeCompute, Facts: python.Facts}), noUtil)},
			"python (pid 5, alice) probably keeps GPU 0 (RTX 4090) busy, 71 °C, 431 W of 450 W, fan at 66 %."},
		{"no utilization", []gpu.Device{made(never)},
			"GPU 0 (RTX 4090) is cool and does not report how busy it is (34 °C, 17 W of 450 W, fan off)."},
		{"no utilization yet", []gpu.Device{made(noUtil)},
			"gpuwhy has just started watching GPU 0 (RTX 4090) (34 °C, 17 W of 450 W, fan off) and can't tell yet how busy it is."},
		{"one of whom the driver does not say what it does", []gpu.Device{made(working(98, shell, noShare), radeon)},
			"python (pid 6, alice) keeps GPU 0 (Radeon RX 7900 XTX) busy at 98 %, 71 °C, hot spot 92 °C, 431 W of 450 W, fan at 66 %."},
		{"one that was not measured yet", []gpu.Device{made(working(98, shell, begins), radeon)},
			"game (pid 8, alice) keeps GPU 0 (Radeon RX 7900 XTX) busy at 98 %, 71 °C, hot spot 92 °C, 431 W of 450 W, fan at 66 %."},
		{"a fan that is only counted", []gpu.Device{made(working(98, python), counted(2350))},
			"python (pid 4242, alice) keeps GPU 0 (RTX 4090) busy at 98 %, 71 °C, 431 W of 450 W, fan at 2350 RPM."},
		{"a part of the processor", []gpu.Device{made(working(60, python), partOfCPU)},
			"python (pid 4242, alice) keeps GPU 0 (RTX 4090) busy at 60 %, 71 °C, 431 W of 450 W."},

		{"a passive card", []gpu.Device{made(working(98, python), passive)},
			"python (pid 4242, alice) keeps GPU 0 (RTX 4090) busy at 98 %, 71 °C, 431 W of 450 W; it has no fan of its own: you hear the chassis fans."},
		{"a passive card that rests makes no noise", []gpu.Device{made(passive)},
			"GPU 0 (RTX 4090) is idle at 0 %, 34 °C, 17 W of 450 W."},
		{"power without work", []gpu.Device{made(working(0), func(d *gpu.Device) { d.Clocks.SM = gpu.Of[gpu.Megahertz](300) })},
			"GPU 0 (RTX 4090) is warm without work (71 °C, 431 W of 450 W, fan at 66 %), and gpuwhy has not watched long enough to tell why."},
		{"no reading", []gpu.Device{bare}, "GPU 2 has no readings now."},
		{"no reading on purpose", []gpu.Device{leftAlone},
			"GPU 2 has no readings now: it is left alone to fall asleep."},

		{"the loudest, not the busiest", []gpu.Device{
			made(func(d *gpu.Device) {
				d.Utilization.GPU, d.Processes = gpu.Of[gpu.Percent](100), gpu.Of([]gpu.Process{blender})
			}, func(d *gpu.Device) { d.Clocks.SM = gpu.Of[gpu.Megahertz](2000) }),
			made(indexed(1), working(60, python)),
			bare,
		}, "python (pid 4242, alice) keeps GPU 1 (RTX 4090) busy at 60 %, 71 °C, 431 W of 450 W, fan at 66 %; 1 other GPU is busy."},
		{"others work too", []gpu.Device{made(working(90, python)), made(indexed(1), working(95, blender)), made(indexed(2), working(80, blender))},
			"python (pid 4242, alice) keeps GPU 0 (RTX 4090) busy at 90 %, 71 °C, 431 W of 450 W, fan at 66 %; 2 other GPUs are busy."},
		{"the first of equals", []gpu.Device{made(), made(indexed(1))},
			"GPU 0 (RTX 4090) is idle at 0 %, 34 °C, 17 W of 450 W, fan off."},
		{"one is missing", []gpu.Device{made(), deviceIn(gpu.StateNotAnswering, 1)},
			"GPU 1 (RTX 4090) is not answering."},
		{"all kinds are missing", []gpu.Device{made(), deviceIn(gpu.StateAsleep, 1), deviceIn(gpu.StateLost, 2), deviceIn(gpu.StateNotAnswering, 3), deviceIn(gpu.StateLost, 4)},
			"GPU 3 (RTX 4090) is not answering; 2 GPUs are lost; GPU 1 (RTX 4090) is asleep."},
		{"hung", []gpu.Device{deviceIn(gpu.StateNotAnswering, 0)}, "GPU 0 (RTX 4090) is not answering."},
		{"lost", []gpu.Device{deviceIn(gpu.StateLost, 0)}, "GPU 0 (RTX 4090) is lost."},
		{"asleep", []gpu.Device{deviceIn(gpu.StateAsleep, 0), deviceIn(gpu.StateAsleep, 1)}, "2 GPUs are asleep."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := explain.Explain(snapshot(tt.devices...)).Sentence
			if got != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

func TestWhyWithoutDevices(t *testing.T) {
	failure := gpu.Failure{Source: "nvml", Since: start, Advice: gpu.Advice{What: "NVIDIA's library was not found", Try: "install the driver."}}
	for _, tt := range []struct {
		name   string
		snap   *gpu.Snapshot
		want   string
		kind   explain.Kind
		advice string
	}{
		{"no snapshot", nil, "The first reading is still under way.", explain.Starting, ""},
		{"no device", &gpu.Snapshot{}, "No GPU can be read.", explain.NoDevice, ""},
		{"a failure", &gpu.Snapshot{Failures: []gpu.Failure{failure, {}}},
			"No GPU can be read.", explain.NoDevice, "Install the driver."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := explain.Combine(nil)
			if tt.snap != nil {
				got = explain.Explain(tt.snap)
			}
			if got.Sentence != tt.want {
				t.Errorf("got %q, want %q", got.Sentence, tt.want)
			}
			if len(got.Machine) != 1 || got.Machine[0].Kind != tt.kind || got.Machine[0].Advice != tt.advice {
				t.Errorf("causes of the machine: %+v", got.Machine)
			}
		})
	}
}

func TestCausesOfTheMachine(t *testing.T) {
	s := snapshot(made())
	s.Failures = []gpu.Failure{{Source: "amdgpu", Since: start, Advice: gpu.Advice{What: "/sys can't be read", Try: "run it as root"}}}
	s.Notes = []gpu.Advice{{What: "processes of other pid namespaces have no names", Try: "start gpuwhy with --pid=host"}}
	got := explain.Explain(s)
	var lines []string
	for _, c := range got.Causes() {
		lines = append(lines, c.ID+" "+c.Confidence.String()+": "+c.Sentence+" > "+c.Advice)
	}
	want := []string{
		"source_failed:amdgpu high: amdgpu can't be read: /sys can't be read. > Run it as root.",
		"note:0 high: Processes of other pid namespaces have no names. > Start gpuwhy with --pid=host.",
		"idle:GPU-0 high: GPU 0 (RTX 4090) is idle at 0 %, 34 °C, 17 W of 450 W, fan off. > ",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
}

func TestCulprits(t *testing.T) {
	idle := func(pid int, kind gpu.ProcessType, memory gpu.Bytes) gpu.Process {
		return gpu.Process{PID: pid, Type: kind, SM: gpu.Of[gpu.Percent](0), Memory: gpu.Of(memory)}
	}
	unsampled := gpu.Process{PID: 6, Type: gpu.TypeCompute, SM: gpu.Absent[gpu.Percent](gpu.NotSupported)}
	video := gpu.Process{PID: 8, Type: gpu.TypeGraphics, SM: gpu.Of[gpu.Percent](1), Encoder: gpu.Of[gpu.Percent](95)}
	tests := []struct {
		name string
		list []gpu.Process
		want []int
	}{
		{"none", nil, nil},
		{"busiest first", []gpu.Process{process(1, "a", 10), process(2, "b", 90), process(3, "c", 50)}, []int{2, 3, 1}},
		{"the idle are no culprits of work", []gpu.Process{idle(5, gpu.TypeCompute, 999), process(1, "a", 10)}, []int{1}},
		{"video engines count", []gpu.Process{process(1, "a", 10), video}, []int{8, 1}},
		{"none has a share: compute by memory", []gpu.Process{idle(4, gpu.TypeGraphics, 99), idle(3, gpu.TypeCompute, 1), idle(2, gpu.TypeMPS, 5), unsampled}, []int{2, 3, 6}},
		{"equals by pid", []gpu.Process{process(9, "a", 10), process(3, "b", 10)}, []int{3, 9}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := slices.Clone(tt.list)
			var got []int
			for _, p := range explain.Culprits(tt.list, func(*gpu.Process) bool { return true }) {
				got = append(got, p.PID)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			if !slices.EqualFunc(before, tt.list, func(a, b gpu.Process) bool { return a.PID == b.PID }) {
				t.Error("the list that was given has changed: it belongs to a published snapshot")
			}
		})
	}
}

func TestNamesAreFitForASentence(t *testing.T) {
	p := process(1, "evil\x1b[31m\nname", 50)
	p.Facts.User = gpu.Of(strings.Repeat("x", 500))
	got := explain.ProcessName(&p)
	if strings.ContainsAny(got, "\x1b\n") || len([]rune(got)) > 120 || !strings.HasSuffix(got, "…)") {
		t.Errorf("got %q", got)
	}
}

// What would end it depends on the process.
func TestAdvice(t *testing.T) {
	gone := gpu.Process{PID: 7, Type: gpu.TypeCompute, SM: gpu.Of[gpu.Percent](0), Memory: gpu.Of[gpu.Bytes](8 << 30), Facts: gpu.ProcessFacts{Exists: gpu.Of(false)}}
	idler := process(4242, "python", 0)
	holding := func(list ...gpu.Process) gpu.Device {
		return made(held, func(d *gpu.Device) { d.Processes = gpu.Of(list) })
	}
	for _, tt := range []struct {
		name   string
		device gpu.Device
		want   string
	}{
		{"work", made(working(98, python)), "End or pause python (pid 4242, alice). Or keep it running a little slower, with less heat and noise: nvidia-smi -i GPU-0 -pl 360, as root."},
		{"work of nobody", made(working(98)), "End or pause the work. Or keep it running a little slower, with less heat and noise: nvidia-smi -i GPU-0 -pl 360, as root."},
		{"a limit that can't be lower", made(working(98, python), func(d *gpu.Device) { d.Power.MinLimit = gpu.Of[gpu.Watts](400) }), "End or pause python (pid 4242, alice)."},
		{"another vendor's", made(working(98, python), func(d *gpu.Device) { d.Vendor = gpu.AMD }), "End or pause python (pid 4242, alice)."},
		{"held", holding(gone, idler), "End python (pid 4242, alice), or make it release the GPU (notebook: shut down its kernel; model server: unload the model)."},
		{"held by one who was never seen", holding(gone), "Look for it in other containers and virtual machines, or let gpuwhy see the host's processes (in a container: --pid=host). If it has ended, restarting the machine frees the GPU."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := play(t, during(30*time.Second, tt.device))
			if got := a.Devices[0].Causes[0].Advice; got != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

func TestWhatAProcessBelongsTo(t *testing.T) {
	container := gpu.Container{ID: strings.Repeat("0123456789ab", 5) + "cdef"}
	named := container
	named.Name = gpu.Of("trainer")
	for _, tt := range []struct {
		name  string
		facts gpu.ProcessFacts
		want  string
	}{
		{"nothing is known", gpu.ProcessFacts{}, "a process (pid 1)"},
		{"it is gone", gpu.ProcessFacts{Exists: gpu.Of(false)}, "a process that has ended (pid 1)"},
		{"nothing", gpu.ProcessFacts{Container: gpu.Of(gpu.Container{}), Pod: gpu.Of(gpu.Pod{}), Job: gpu.Of(gpu.Job{}), Unit: gpu.Of(gpu.Unit{})}, "a process (pid 1)"},
		{"a container by name", gpu.ProcessFacts{Container: gpu.Of(named)}, "a process (pid 1, container trainer)"},
		{"a container by id", gpu.ProcessFacts{Container: gpu.Of(container)}, "a process (pid 1, container 0123456789ab)"},
		{"a container with a short id", gpu.ProcessFacts{Container: gpu.Of(gpu.Container{ID: "web"})}, "a process (pid 1, container web)"},
		{"a pod before its container", gpu.ProcessFacts{Container: gpu.Of(named), Pod: gpu.Of(gpu.Pod{UID: "u", Namespace: gpu.Of("ml"), Name: gpu.Of("train-0")})}, "a process (pid 1, pod ml/train-0)"},
		{"a pod without a name", gpu.ProcessFacts{Pod: gpu.Of(gpu.Pod{UID: "3f2a"})}, "a process (pid 1, pod 3f2a)"},
		{"a job", gpu.ProcessFacts{Job: gpu.Of(gpu.Job{ID: 812})}, "a process (pid 1, job 812)"},
		{"a service", gpu.ProcessFacts{Unit: gpu.Of(gpu.Unit{Name: "ollama.service"})}, "a process (pid 1, ollama.service)"},
		{"somebody's session", gpu.ProcessFacts{Unit: gpu.Of(gpu.Unit{Name: "session-3.scope"})}, "a process (pid 1)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := explain.ProcessName(&gpu.Process{PID: 1, Facts: tt.facts}); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
