package explain_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/explain"
)

// card is a device that answers, with 71 °C, 431 W of 450 W, and a fan at 66 %.
func card(index int, util gpu.Reading[gpu.Percent], processes gpu.Reading[[]gpu.Process]) gpu.Device {
	d := gpu.Device{Identity: gpu.Identity{Index: index, Name: "RTX 4090"}, State: gpu.StateOK}
	d.Utilization.GPU = util
	d.Thermal.GPU = gpu.Of[gpu.Celsius](71)
	d.Power.Draw, d.Power.EnforcedLimit = gpu.Of[gpu.Watts](431.4), gpu.Of[gpu.Watts](450)
	d.Fans.Fans = []gpu.Fan{{Commanded: gpu.Of[gpu.Percent](64)}, {Commanded: gpu.Of[gpu.Percent](66)}}
	d.Processes = processes
	return d
}

func in(state gpu.State, index int) gpu.Device {
	return gpu.Device{Identity: gpu.Identity{Index: index, Name: "RTX 4090"}, State: state}
}

func process(pid int, name string, sm gpu.Percent) gpu.Process {
	return gpu.Process{
		PID: pid, Type: gpu.TypeCompute, SM: gpu.Of(sm),
		Facts: gpu.ProcessFacts{Name: gpu.Of(name), User: gpu.Of("alice")},
	}
}

func percent(v gpu.Percent) gpu.Reading[gpu.Percent] { return gpu.Of(v) }

func TestWhy(t *testing.T) {
	none := gpu.Of([]gpu.Process{})
	unlisted := gpu.Absent[[]gpu.Process](gpu.NotPermitted)
	python, blender := process(4242, "python", 90), process(77, "blender", 8)
	stranger := gpu.Process{PID: 7, Type: gpu.TypeCompute, SM: gpu.Of[gpu.Percent](50)}
	graphics := gpu.Process{PID: 9, Type: gpu.TypeGraphics, SM: gpu.Of[gpu.Percent](0), Facts: gpu.ProcessFacts{Name: gpu.Of("Xorg")}}
	noLimit := card(0, percent(0), none)
	noLimit.Power.EnforcedLimit = gpu.Reading[gpu.Watts]{}
	bare := gpu.Device{Identity: gpu.Identity{Index: 2}, State: gpu.StateOK}
	leftAlone := bare
	leftAlone.Reason = gpu.Advice{What: "it is left alone to fall asleep", Try: "open the page to wake it"}
	busyBare := bare
	busyBare.Utilization.GPU, busyBare.Processes = percent(50), gpu.Of([]gpu.Process{python})

	tests := []struct {
		name    string
		devices []gpu.Device
		want    string
	}{
		{"idle", []gpu.Device{card(0, percent(0), none)},
			"GPU 0 (RTX 4090) is idle at 0 %, 71 °C, 431 W of 450 W, fan at 66 %."},
		{"a little is idle too", []gpu.Device{card(0, percent(4.9), gpu.Of([]gpu.Process{python}))},
			"GPU 0 (RTX 4090) is idle at 5 %, 71 °C, 431 W of 450 W, fan at 66 %."},
		{"no power limit", []gpu.Device{noLimit},
			"GPU 0 (RTX 4090) is idle at 0 %, 71 °C, 431 W, fan at 66 %."},
		{"busy", []gpu.Device{card(0, percent(98), gpu.Of([]gpu.Process{python}))},
			"python (pid 4242, alice) keeps GPU 0 (RTX 4090) busy at 98 %, 71 °C, 431 W of 450 W, fan at 66 %."},
		{"with another", []gpu.Device{card(0, percent(98), gpu.Of([]gpu.Process{blender, python}))},
			"python (pid 4242, alice) with 1 other process keeps GPU 0 (RTX 4090) busy at 98 %, 71 °C, 431 W of 450 W, fan at 66 %."},
		{"with others", []gpu.Device{card(0, percent(98), gpu.Of([]gpu.Process{blender, python, stranger}))},
			"python (pid 4242, alice) with 2 other processes keeps GPU 0 (RTX 4090) busy at 98 %, 71 °C, 431 W of 450 W, fan at 66 %."},
		{"by one that the host can't see", []gpu.Device{card(0, percent(98), gpu.Of([]gpu.Process{stranger}))},
			"A process (pid 7) keeps GPU 0 (RTX 4090) busy at 98 %, 71 °C, 431 W of 450 W, fan at 66 %."},
		{"nothing else is reported", []gpu.Device{busyBare},
			"python (pid 4242, alice) keeps GPU 2 busy at 50 %."},
		{"no process is listed", []gpu.Device{card(0, percent(98), none)},
			"GPU 0 (RTX 4090) is busy at 98 %, 71 °C, 431 W of 450 W, fan at 66 %, and no process is listed that explains it."},
		{"only an idle desktop is listed", []gpu.Device{card(0, percent(98), gpu.Of([]gpu.Process{graphics}))},
			"GPU 0 (RTX 4090) is busy at 98 %, 71 °C, 431 W of 450 W, fan at 66 %, and no process is listed that explains it."},
		{"the driver can't say which process", []gpu.Device{card(0, percent(98), unlisted)},
			"GPU 0 (RTX 4090) is busy at 98 %, 71 °C, 431 W of 450 W, fan at 66 %, and the driver does not say which process it is."},
		{"no utilization", []gpu.Device{card(0, gpu.Reading[gpu.Percent]{}, none)},
			"GPU 0 (RTX 4090) does not report its utilization, it is at 71 °C, 431 W of 450 W, fan at 66 %."},
		{"no reading", []gpu.Device{bare},
			"GPU 2 has no readings now."},
		{"no reading on purpose", []gpu.Device{leftAlone},
			"GPU 2 has no readings now: it is left alone to fall asleep: open the page to wake it."},

		{"the busiest", []gpu.Device{card(0, percent(10), none), card(1, percent(60), gpu.Of([]gpu.Process{python})), bare},
			"python (pid 4242, alice) keeps GPU 1 (RTX 4090) busy at 60 %, 71 °C, 431 W of 450 W, fan at 66 %."},
		{"the first of equals", []gpu.Device{card(0, percent(0), none), card(1, percent(0), none)},
			"GPU 0 (RTX 4090) is idle at 0 %, 71 °C, 431 W of 450 W, fan at 66 %."},
		{"one is missing", []gpu.Device{card(0, percent(0), none), in(gpu.StateNotAnswering, 1)},
			"GPU 0 (RTX 4090) is idle at 0 %, 71 °C, 431 W of 450 W, fan at 66 %; GPU 1 (RTX 4090) is not answering."},
		{"all kinds are missing", []gpu.Device{card(0, percent(0), none), in(gpu.StateAsleep, 1), in(gpu.StateLost, 2), in(gpu.StateNotAnswering, 3), in(gpu.StateLost, 4)},
			"GPU 0 (RTX 4090) is idle at 0 %, 71 °C, 431 W of 450 W, fan at 66 %; GPU 3 (RTX 4090) is not answering; 2 GPUs are lost; GPU 1 (RTX 4090) is asleep."},
		{"hung", []gpu.Device{in(gpu.StateNotAnswering, 0)}, "GPU 0 (RTX 4090) is not answering."},
		{"lost", []gpu.Device{in(gpu.StateLost, 0)}, "GPU 0 (RTX 4090) is lost."},
		{"asleep", []gpu.Device{in(gpu.StateAsleep, 0), in(gpu.StateAsleep, 1)}, "2 GPUs are asleep."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := explain.Why(&gpu.Snapshot{Devices: tt.devices})
			if got != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
			isSentence(t, got)
		})
	}
}

func TestWhyWithoutDevices(t *testing.T) {
	failure := gpu.Failure{Advice: gpu.Advice{What: "NVIDIA's library was not found", Try: "install the driver."}}
	for _, tt := range []struct {
		snap *gpu.Snapshot
		want string
	}{
		{nil, "The first reading is still under way."},
		{&gpu.Snapshot{}, "No GPU can be read."},
		{&gpu.Snapshot{Failures: []gpu.Failure{failure, {}}}, "No GPU can be read: NVIDIA's library was not found: install the driver."},
	} {
		got := explain.Why(tt.snap)
		if got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
		isSentence(t, got)
	}
}

func isSentence(t *testing.T, s string) {
	t.Helper()
	if strings.HasSuffix(s, "..") || !strings.HasSuffix(s, ".") || strings.Contains(s, "  ") {
		t.Errorf("%q is no sentence", s)
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
			for _, p := range explain.Culprits(tt.list) {
				got = append(got, p.PID)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			if !slices.Equal(before, tt.list) {
				t.Error("the list that was given has changed: it belongs to a published snapshot")
			}
		})
	}
}
