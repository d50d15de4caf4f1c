//go:build !race

package deliver_test

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/past/deliver"
	"github.com/gpuwhy/gpuwhy/internal/past/record"
	"github.com/gpuwhy/gpuwhy/internal/past/store/sqlite"
	"github.com/gpuwhy/gpuwhy/sampler/sim"
)

// Logs how much a GPU delivers in a day, in the batches of an agent. docs/fleet.md has these figures.
func TestBytesOfADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, err := sim.Nodes("dgx-h100", time.Now)
		if err != nil {
			t.Fatal(err)
		}
		retention, err := record.ParseRetention(record.DefaultRetention)
		if err != nil {
			t.Fatal(err)
		}
		o := deliver.NewOutbox(deliver.OutboxConfig{Log: logger(t), Now: time.Now, Bytes: 1 << 40})
		kept, err := sqlite.Open(t.Context(), sqlite.Options{File: filepath.Join(t.TempDir(), "history.db"), Log: logger(t), Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = kept.Close() })
		s, err := o.Attach(t.Context(), kept)
		if err != nil {
			t.Fatal(err)
		}
		node := nodes[0].Node()
		r := record.New(record.Config{Store: s, Nodes: []string{node}, Interval: 5 * time.Second, Retention: retention, Version: "test", Log: logger(t)})
		go r.Run(t.Context())
		stage, gpus := insight.NewStage(), 0
		const span = 30 * time.Minute
		for range int(span / (5 * time.Second)) {
			read, err := nodes[0].Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			read.Node, gpus = node, len(read.Devices)
			for i := range read.Devices {
				read.Devices[i].Node, read.Devices[i].Index = node, i
			}
			r.Observe(stage.Next(read))
			time.Sleep(5 * time.Second)
		}
		state := o.State()
		day := func(n int64) int64 { return n * int64(24*time.Hour/span) }
		perGPU := day(state.Bytes) / int64(gpus)
		t.Logf("%d GPUs: %d messages and %.1f MB of a node and day, %d bytes a message, %.1f MB of a GPU and day",
			gpus, day(int64(state.Waiting)), float64(day(state.Bytes))/1e6, state.Bytes/int64(state.Waiting), float64(perGPU)/1e6)
		if perGPU > 20e6 || state.Waiting == 0 {
			t.Errorf("%d bytes of a GPU and day", perGPU)
		}
	})
}
