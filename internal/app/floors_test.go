package app

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/reading"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/sampler"
	"github.com/gpuwhy/gpuwhy/sampler/sim"
)

// A device's draw at rest is stored as soon as it is learned, so that a program that is then killed has it at its next start.
func TestAFloorIsKeptWhenItIsLearned(t *testing.T) {
	dir := t.TempDir()
	opt := Options{Address: serve.Address{Listen: "127.0.0.1:0", BasePath: "/"}, Interval: time.Hour, Deadline: time.Second, MaxViewers: 1, StateDir: dir}
	nodes, err := sim.Nodes("rtx-4090", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(opt, []*reading.Inputs{{Node: "box", Origin: "nvml", Sources: []sampler.Source{nodes[0]}}}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); a.keeper.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	begin := time.Now().Add(-time.Minute)
	for second := 0; second <= 15; second += 5 {
		now := begin.Add(time.Duration(second) * time.Second)
		d := gpu.Device{Identity: gpu.Identity{UUID: "GPU-1", Node: "box", Source: gpu.SourceNVML, Name: "Card"}, State: gpu.StateOK, SampledAt: now}
		d.Utilization.GPU, d.Power.Draw, d.Processes = gpu.Of[gpu.Percent](0), gpu.Of[gpu.Watts](21), gpu.Of([]gpu.Process{})
		a.Publish(&gpu.Snapshot{Node: "box", Source: gpu.SourceNVML, Time: now, Devices: []gpu.Device{d}})
	}
	testkit.Until(t, "the floor is kept", func() bool {
		text, _ := os.ReadFile(filepath.Join(dir, "floors.json"))
		return strings.Contains(string(text), `"watts":21`)
	})
}
