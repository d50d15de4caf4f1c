package app

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/sampler"
	"github.com/gpuwhy/gpuwhy/sampler/sim"
)

// The files in testdata/state were written by a program from before version 2 of the
// file format.
func TestOldFilesAreRead(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/state")); err != nil {
		t.Fatal(err)
	}
	written := time.Date(2026, 11, 22, 6, 14, 0, 0, time.UTC)
	for range 2 { // the second time from files that this program has written
		nodes, err := sim.Nodes("rtx-4090", time.Now)
		if err != nil {
			t.Fatal(err)
		}
		source := nodes[0]
		var log bytes.Buffer
		opt := Options{Address: serve.Address{Listen: "127.0.0.1:0", BasePath: "/"}, Interval: time.Hour, Deadline: time.Second, MaxViewers: 1, StateDir: dir,
			AlertRules: "testdata/state/rules.yaml",
		}
		a, err := New(opt, []*Inputs{{Node: "box", Origin: "simulate:rtx-4090", Sources: []sampler.Source{source}}}, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		a.keeper.Restore(written)
		if log.Len() > 0 {
			t.Errorf("the log says %s", &log)
		}
		view := a.Recent.View(nil)
		if len(view.Times) < 5 || len(view.Series) != 1 || !(view.Series[0].Values["power_watts"][0].Or(0) > 0) {
			t.Errorf("recent: %+v", view)
		}
		if floors := a.stage.Floors.Kept().Floors; len(floors) != 1 || floors[0].Watts < 1 {
			t.Errorf("floors: %+v", floors)
		}
		if learned := a.stage.History.Kept().Devices; len(learned) != 1 || learned[0].Curve.Step == 0 || len(learned[0].Fans) != 2 {
			t.Errorf("baselines: %+v", learned)
		}
		if targets := a.notifier.Status(); len(targets) != 1 || targets[0].Queued != 2 || targets[0].FailingSince.IsZero() {
			t.Errorf("notifications: %+v", targets)
		}
		if standing := a.Alerts.Standing(); len(standing) != 2 || standing[0].Rule != "busy" || standing[0].State != alert.NoData || standing[0].Threshold.Or(0) != 1 || standing[0].Device.Name == "" {
			t.Errorf("alerts: %+v", standing)
		}
		if err := a.keeper.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// The health answer reports that state can't be written, until it can.
func TestHealthHasTheState(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	a := newApp(t, dir)
	if err := a.keeper.Close(); err == nil {
		t.Error("a missing folder was written to")
	}
	if part := a.parts()["state"]; part.State != "failed" || part.LastError == nil || part.LastErrorAt == nil {
		t.Errorf("while it fails: %+v", part)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := a.keeper.Close(); err != nil {
		t.Error(err)
	}
	if part := a.parts()["state"]; part.State != "ok" || part.LastError != nil || part.LastSuccess == nil {
		t.Errorf("afterwards: %+v", part)
	}
	if _, is := newApp(t, "").parts()["state"]; is {
		t.Error("a program that keeps nothing says how that does")
	}
}
