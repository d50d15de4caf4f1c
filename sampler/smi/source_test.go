package smi

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/smi/fakesmi"
	"github.com/gpuwhy/gpuwhy/sampler/sourcetest"
)

// Every machine is read as a whole, and keeps the promises of a device.
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
				if d.PCI == "" || d.UUID[:4] != "GPU-" || !d.Thermal.GPU.Present() || !d.Memory.Total.Present() ||
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

// What the processes and instances of some machines are.
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

// A command that hangs while the fields are asked for ends with the source.
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
