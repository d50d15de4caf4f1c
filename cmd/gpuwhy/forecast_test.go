//go:build !race

package main

import (
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/past/store/sqlite"
	"github.com/gpuwhy/gpuwhy/sampler/nvml/fakenvml"
)

// leaked writes a day of minutes until now: jobs that take memory and give it back, then one that loses a tenth of a GiB a minute,
// for two hours, until so many bytes are used.
func leaked(t *testing.T, dir string, key store.Key, used float64) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Options{File: filepath.Join(dir, historyFile), Log: slog.New(slog.DiscardHandler), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	const gib, leaks, aMinute = 1 << 30, 120, 0.1
	r, column := rand.New(rand.NewPCG(7, 4)), store.DeviceColumns.Find("memory_used")
	b := &store.Batch{Devices: []store.Device{{Node: key.Node, UUID: key.UUID}}}
	last := used/gib - aMinute*leaks
	base, left, now := last, 0, time.Now().Truncate(time.Minute)
	for i := 24 * 60; i > 0; i-- {
		if left--; left < 0 || i == leaks {
			base, left = 1+8*r.Float64(), 30+r.IntN(180)
		}
		if i <= leaks {
			base = last
		}
		v := gib * (base + aMinute*float64(max(leaks-i, 0)) + 0.01*r.NormFloat64())
		row := store.Row{Key: key, Tier: store.Minute, Time: now.Add(-time.Duration(i) * time.Minute), Readings: 12, Values: make([]store.Value, len(store.DeviceColumns))}
		row.Values[column] = store.Value{Least: v, Mean: v, Most: v, Count: 12}
		b.Rows = append(b.Rows, row)
	}
	if err := s.Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// A leak that began before the program started is reported: as an alert, by the API, on the pages and in a terminal.
func TestALeakIsForetold(t *testing.T) {
	t.Parallel()
	const total, reserved, left = 24 << 30, 0.5 * (1 << 30), 2 << 30
	used := total - reserved - left
	card := fakenvml.RTX4090().With("memory_total", total).With("memory_reserved", int(reserved)).With("memory_used", strconv.Itoa(int(used)))
	lib, m := machine(t, card)
	dir := t.TempDir()
	leaked(t, dir, store.Key{Node: "box", UUID: m.GPU(0).UUID}, used)
	rules := rulesFile(t, "rules: [{name: memory_full_soon, below: 40, hold: 0s}]")
	p := start(t, lib.Env(), "--interval=1s", "--node=box", "--state-dir="+dir, "--alert-rules="+rules, "--electricity-price=0.3")

	a := p.dial().nextAlert("the memory is full soon", func(a contract.Alert) bool { return a.Rule == "memory_full_soon" && a.State == "firing" })
	if minutes := value(t, "value", a.Value); math.Abs(minutes-20) > 5 || a.Unit != "min" || !strings.Contains(a.Message, "will fill its memory in about ") || a.Advice == "" {
		t.Errorf("%+v", a)
	}
	var list contract.Forecasts
	p.get("/api/gpu/forecast?gpu=0", &list)
	if len(list.GPUs) != 1 || len(list.GPUs[0].Forecasts) != 6 || list.GPUs[0].GPUUUID != m.GPU(0).UUID {
		t.Fatalf("%+v", list)
	}
	for i, f := range list.GPUs[0].Forecasts {
		if f.Shown != (i == 0) || f.Shown == (f.Reason != "") || f.Value.Present() != f.Shown {
			t.Errorf("%+v", f)
		}
	}
	f := list.GPUs[0].Forecasts[0]
	if seconds := value(t, "seconds", f.Value); math.Abs(seconds-20*60) > 5*60 || value(t, "low", f.Low) > seconds || value(t, "high", f.High) < seconds {
		t.Errorf("%+v", f)
	}
	if value(t, "its error", f.Error) >= value(t, "that of as now", f.AsNow.Error) || f.Trials < 9 {
		t.Errorf("%+v", f)
	}
	for path, want := range map[string]string{"/": ">memory full in about ", "/past": " will be full in about ", "/api/gpu/why": `"sentence":"The memory of GPU 0 `} {
		if response, body := p.fetch(path, http.Header{"Accept": {"text/html, */*;q=0.1"}}); response.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("%s: %d, and no %q", path, response.StatusCode, want)
		}
	}
	if r := inside("why", "-v", "--url="+p.url); r.code != exitOK || !strings.Contains(r.stdout, "What comes next:\n  The memory of GPU 0 ") {
		t.Errorf("%+v", r)
	}
}
