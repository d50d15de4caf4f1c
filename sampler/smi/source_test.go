package smi

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/drm"
	"github.com/gpuwhy/gpuwhy/sampler/smi/fakesmi"
	"github.com/gpuwhy/gpuwhy/sampler/sourcetest"
)

// Every machine is read completely, and its devices keep their promises.
func TestMachines(t *testing.T) {
	for _, name := range fakesmi.Names() {
		t.Run(name, func(t *testing.T) {
			s := source(t, machine(t, name))
			snap := whole(t, s)
			for i := range snap.Devices {
				d := &snap.Devices[i]
				for _, problem := range sourcetest.Check(d, clockOf(s).Now()) {
					t.Error(problem)
				}
				unified := d.Shared.Unified.Or(false)
				if d.PCI == "" || d.UUID[:4] != "GPU-" || !d.Thermal.GPU.Present() || d.Memory.Total.Present() == unified ||
					!d.Clocks.SM.Present() ||
					!d.Clocks.MaxVideo.Present() || !d.Clocks.EventReasons.Present() || !d.Clocks.PerformanceState.Present() {
					t.Errorf("%+v", d)
				}
			}
			if snap.Source != gpu.SourceNvidiaSMI || len(snap.Drivers) != 1 || !snap.Drivers[0].Version.Present() {
				t.Errorf("source %q, drivers %+v", snap.Source, snap.Drivers)
			}
		})
	}
}

// A system on a chip works in the machine's memory, and is in no slot. A card without a memory reading is not one: not in MIG mode, and not
// if it reports nothing else.
func TestUnifiedMemory(t *testing.T) {
	card := gpu.PCIe{Generation: gpu.Of(4), MaxGeneration: gpu.Of(4), Width: gpu.Of(16), MaxWidth: gpu.Of(16)}
	for name, tt := range map[string]struct {
		machine string
		lacks   []string // fields that are not supported
		window  string   // of the host, if it differs
		want    gpu.Reading[bool]
		link    *gpu.PCIe
	}{
		"DGX Spark":             {"dgx-spark-580", nil, "", gpu.Of(true), &drm.NoSlot},
		"A100 in MIG mode":      {"a100-mig-535", []string{"memory.total", "memory.used", "memory.free", "memory.reserved"}, "N/A", gpu.Of(false), nil},
		"RTX 4090":              {"rtx4090-550", []string{"memory.total"}, "", gpu.Of(false), &card},
		"RTX 4090 says nothing": {"rtx4090-550", []string{"memory.total"}, "N/A", gpu.Reading[bool]{}, &card},
	} {
		t.Run(name, func(t *testing.T) {
			m := machine(t, tt.machine)
			for _, field := range tt.lacks {
				m.Set(m.Addresses()[0], field, "[N/A]")
			}
			if tt.window != "" {
				const begins, ends = "<bar1_memory_usage><total>", "</total>"
				xml := m.Read("query.xml")
				begin := strings.Index(xml, begins) + len(begins)
				m.Write("query.xml", xml[:begin]+tt.window+xml[begin+strings.Index(xml[begin:], ends):])
			}
			d := whole(t, source(t, m)).Devices[0]
			if d.Shared.Unified != tt.want {
				t.Errorf("unified is %v, want %v", d.Shared.Unified, tt.want)
			}
			d.PCIe.Replays = gpu.Reading[uint64]{}
			if tt.link != nil {
				want := *tt.link
				if want.Replays = d.PCIe.Replays; d.PCIe != want {
					t.Errorf("the link is %+v, want %+v", d.PCIe, want)
				}
			}
		})
	}
}

// The processes and instances of some machines.
func TestProcessesAndInstances(t *testing.T) {
	text := func(d *gpu.Device) (out []string) {
		for _, p := range d.Processes.Or(nil) {
			out = append(out, fmt.Sprint(p.PID, " ", p.Type, " ", p.Memory, " ", p.SM, " ", p.Encoder, " ", p.GPUInstance))
		}
		return out
	}
	for name, want := range map[string][][]string{
		"a100-mig-535": {
			{"48211 compute 9663676416 not_supported not_supported 3", "48990 compute not_permitted not_supported not_supported 4"},
			{"51200 compute 52219084800 98 0 not_reported"},
		},
		"rtx4090-550": {{
			"30112 compute 18454937600 95 0 not_reported", "1612 graphics 274726912 1 0 not_reported",
			"2977 compute+graphics 63963136 0 0 not_reported",
		}},
		"windows-551": {{
			"25704 compute not_reported 3 49 not_reported", "26660 compute not_reported 3 99 not_reported",
			"2056 compute+graphics not_reported 0 0 not_reported", "4680 compute+graphics not_reported 0 0 not_reported",
		}},
		"blackwell-570": {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := source(t, machine(t, name))
			snap := whole(t, s)
			for i := range want {
				if got := text(&snap.Devices[i]); !slices.Equal(got, want[i]) {
					t.Errorf("device %d has %q, want %q", i, got, want[i])
				}
			}
			if d := &snap.Devices[0]; d.Modes.MIG.Or(false) != (len(d.Instances) == 2) {
				t.Errorf("MIG is %v, with %d instances", d.Modes.MIG, len(d.Instances))
			}
			if d := &snap.Devices[0]; d.ProcessesPartial != gpu.Of(false) || d.Shared.Unified != gpu.Of(false) {
				t.Errorf("processes are partial: %v, memory is the machine's: %v", d.ProcessesPartial, d.Shared.Unified)
			}
			if name == "a100-mig-535" {
				a, b := &snap.Devices[0], &snap.Devices[1]
				if a.Modes.Instances != gpu.Of(2) || a.Instances[0].Processes != gpu.Of(1) || a.Instances[0].Profile != gpu.Of("2g.20gb") ||
					a.Instances[1].Engine.Quality() != gpu.NotSupported || a.Modes.Virtualization != gpu.Of("none") {
					t.Errorf("%v instances: %+v; %v", a.Modes.Instances, a.Instances, a.Modes.Virtualization)
				}
				if b.Modes.Instances != gpu.Of(0) {
					t.Errorf("%v instances without MIG mode", b.Modes.Instances)
				}
			}
		})
	}
}

// A command that hangs while the fields are requested ends with the source.
func TestCloseEndsTheFirstCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, ended := make(chan struct{}), make(chan struct{})
		s := New(Config{
			Deadline: 10 * time.Second, Interval: time.Second, Log: slog.New(slog.DiscardHandler),
			Run: func(ctx context.Context, _, _ io.Writer, _ ...string) error {
				close(began)
				<-ctx.Done()
				close(ended)
				return ctx.Err()
			},
		})
		begun := time.Now()
		if _, err := s.Read(t.Context()); err == nil || time.Since(begun) != 10*time.Second {
			t.Errorf("%v after %v, though nothing has answered", err, time.Since(begun))
		}
		<-began
		begun = time.Now()
		if err := s.Close(); err != nil || time.Since(begun) > 0 {
			t.Errorf("Close: %v after %v", err, time.Since(begun))
		}
		select {
		case <-ended:
		default:
			t.Error("the command goes on")
		}
	})
}
