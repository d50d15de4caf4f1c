package recent

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gpuwhy/gpuwhy/gpu"
)

func filled(start time.Time) *Store {
	s := New()
	for i := range 10 {
		d := gpu.Device{Identity: gpu.Identity{Node: "n", UUID: "GPU-1", Name: "Card", Index: 3}}
		if i != 4 { // a gap
			d.Utilization.GPU = gpu.Of(gpu.Percent(10 * i))
			d.Memory.Total, d.Memory.Used = gpu.Of[gpu.Bytes](1000), gpu.Of(gpu.Bytes(i))
			d.Power.Draw = gpu.Of(gpu.Watts(float64(i) + 0.5))
		}
		s.Add(&gpu.Snapshot{Time: start.Add(time.Duration(i) * 5 * time.Second), Devices: []gpu.Device{d}})
	}
	return s
}

func TestSavedIsLoadedAgain(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	name := filepath.Join(t.TempDir(), "recent.json")
	before := filled(start)
	if err := before.Save(name, "auto"); err != nil {
		t.Fatal(err)
	}
	after := New()
	if err := after.Load(name, "auto", start.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before.View(nil), after.View(nil), cmpopts.EquateNaNs(), cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Errorf("loaded differs from saved (-want +got):\n%s", diff)
	}
	if v := after.View(nil).Series[0].Values[Temperature][0]; !math.IsNaN(v) {
		t.Errorf("a temperature that was never read came back as %v", v)
	}
}

func TestLoadTakesNothingOldAndNothingForeign(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	name := filepath.Join(t.TempDir(), "recent.json")
	if err := filled(start).Save(name, "simulate:rtx-4090"); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		why, origin string
		now         time.Time
		want        int
	}{
		{"another origin", "auto", start.Add(time.Minute), 0},
		{"too old", "simulate:rtx-4090", start.Add(time.Hour), 0},
		{"partly too old", "simulate:rtx-4090", start.Add(Span + 20*time.Second), 6},
		{"from the future", "simulate:rtx-4090", start.Add(-time.Hour), 0},
	} {
		s := New()
		if err := s.Load(name, tt.origin, tt.now); err != nil {
			t.Errorf("%s: %v", tt.why, err)
		}
		if got := len(s.View(nil).Times); got != tt.want {
			t.Errorf("%s: %d moments loaded, want %d", tt.why, got, tt.want)
		}
	}
}

func TestLoadOfABadFileSaysSo(t *testing.T) {
	dir := t.TempDir()
	if err := New().Load(filepath.Join(dir, "none.json"), "auto", time.Now()); err != nil {
		t.Errorf("a file that does not exist: %v", err)
	}
	name := filepath.Join(dir, "recent.json")
	if err := os.WriteFile(name, []byte(`{"times":[`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := New().Load(name, "auto", time.Now()); err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("a torn file: %v", err)
	}
	if err := New().Save(filepath.Join(dir, "missing", "recent.json"), "auto"); err == nil {
		t.Error("Save into a folder that does not exist succeeded")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}
