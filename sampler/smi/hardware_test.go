//go:build gpu && linux && cgo

package smi

import (
	"context"
	"fmt"
	"log/slog"
	"os/exec"
	"reflect"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/gpu/catalog"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/sampler/nvml"
)

// moving are units of readings that change between two readings in one second.
var moving = map[catalog.Unit]bool{
	catalog.Percent: true, catalog.Watts: true, catalog.Celsius: true, catalog.Megahertz: true, catalog.Bytes: true, catalog.BytesPerSecond: true,
}

// TestHardware needs an NVIDIA GPU: go test -tags gpu ./sampler/smi -run TestHardware -v. It reads the library, the program and nvidia-smi
// itself in the same second, ten times, and prints the results side by side. What does not change within a second must be the same.
func TestHardware(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	byLibrary := nvml.New(nvml.Config{SysfsRoot: "/sys", ProcRoot: "/proc", Deadline: 5 * time.Second, Window: 5 * time.Second, Log: log})
	byProgram := New(Config{SysfsRoot: "/sys", ProcRoot: "/proc", Interval: time.Second, Deadline: 5 * time.Second, Log: log})
	t.Cleanup(func() {
		if err := byLibrary.Close(); err != nil {
			t.Error(err)
		}
		if err := byProgram.Close(); err != nil {
			t.Error(err)
		}
	})
	testkit.Until(t, "a whole reading", func() bool { return isWhole(byProgram.Read(t.Context())) })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for round := range 10 {
		want, err := byLibrary.Read(ctx)
		if err != nil {
			t.Fatal(err)
		}
		itself, err := exec.CommandContext(ctx, "nvidia-smi", "--format=csv",
			"--query-gpu=uuid,utilization.gpu,memory.used,temperature.gpu,power.draw,clocks.current.graphics,fan.speed,pstate").Output()
		if err != nil {
			t.Fatal(err)
		}
		got, err := byProgram.Read(ctx)
		if err != nil || len(got.Devices) != len(want.Devices) {
			t.Fatalf("%v, %d devices by the program, %d by the library", err, len(got.Devices), len(want.Devices))
		}
		var out strings.Builder
		fmt.Fprintf(&out, "round %d, %v\n%s", round, time.Now().UTC(), itself)
		table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
		for i := range want.Devices {
			w, g := &want.Devices[i], &got.Devices[i]
			for r := range catalog.All() {
				if differs[r.ID] != "" || strings.HasPrefix(r.ID, "activity.") {
					continue
				}
				a, b := texts(r, w), texts(r, g)
				fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", w.UUID, r.ID, a, b)
				if a != b && !moving[r.Unit] {
					t.Errorf("%s: %s is %s by the library, %s by the program", w.UUID, r.ID, a, b)
				}
			}
			fmt.Fprintf(table, "%s\tprocesses\t%s\t%s\n", w.UUID, pids(w), pids(g))
		}
		if err := table.Flush(); err != nil {
			t.Fatal(err)
		}
		t.Log(out.String())
		time.Sleep(time.Second)
	}
}

func texts(r *catalog.Row, d *gpu.Device) string {
	var all []string
	r.Visit(d, func(_ string, ref catalog.Ref) {
		all = append(all, fmt.Sprint(reflect.ValueOf(ref).Elem().Interface()))
	})
	return strings.Join(all, " ")
}

func pids(d *gpu.Device) string {
	var all []string
	for _, p := range d.Processes.Or(nil) {
		all = append(all, fmt.Sprintf("%d: %v", p.PID, p.Memory))
	}
	return strings.Join(all, ", ")
}
