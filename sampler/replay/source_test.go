package replay

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler"
	"github.com/gpuwhy/gpuwhy/sampler/recording"
	"github.com/gpuwhy/gpuwhy/sampler/sourcetest"
)

var then = time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC)

// reading returns a machine's report at a time after the first reading.
func reading(after time.Duration) *gpu.Snapshot {
	now := then.Add(after)
	d := gpu.Device{
		Identity: gpu.Identity{
			UUID: "GPU-1", Node: "host-1", Vendor: gpu.NVIDIA, Source: gpu.SourceNVML, Name: "NVIDIA Test", PCI: "0000:01:00.0",
		},
		State: gpu.StateOK, Since: then.Add(-time.Hour), SampledAt: now,
	}
	d.Thermal.GPU = gpu.Of(gpu.Celsius(40 + after.Seconds()))
	d.Power.Energy = gpu.Of(gpu.Joules(1000 + 20*after.Seconds()))
	d.PCIe.Replays = gpu.Of(uint64(after.Seconds()))
	d.Memory.Used, d.Memory.Total = gpu.DoubtfulOf[gpu.Bytes](9), gpu.Absent[gpu.Bytes](gpu.NotPermitted)
	return &gpu.Snapshot{
		Time: now, Node: "host-1", Source: gpu.SourceNVML, Devices: []gpu.Device{d},
		Drivers: []gpu.Driver{{Source: gpu.SourceNVML, Version: gpu.Of("550.54.15")}},
		Host:    &gpu.Host{Hostname: "host-1"},
	}
}

// write makes a capture from lines.
func write(t *testing.T, lines ...string) string {
	t.Helper()
	dir := t.TempDir()
	m := recording.Manifest{Format: recording.Format, Made: recording.ByMachine, Began: then}
	text, err := m.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{recording.ManifestFile: string(text), recording.ReadingsFile: strings.Join(lines, "\n") + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func line(t *testing.T, s *gpu.Snapshot) string {
	t.Helper()
	b, err := gpu.MarshalRecord(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func open(t *testing.T, dir string, clock clockwork.Clock) *Source {
	t.Helper()
	s, err := Open(dir, Config{Clock: clock, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func tenSeconds(t *testing.T) string {
	t.Helper()
	var lines []string
	for i := range 10 {
		lines = append(lines, line(t, reading(time.Duration(i)*time.Second)))
	}
	return write(t, lines...)
}

// The readings come at their recorded pace, with their times moved to now.
func TestPace(t *testing.T) {
	clock := clockwork.NewFakeClockAt(time.Date(2031, 1, 2, 3, 4, 5, 0, time.UTC))
	s, began := open(t, tenSeconds(t), clock), clock.Now()
	if s.Node() != "host-1" || s.Name() != gpu.SourceRecorded {
		t.Errorf("node %q, name %q", s.Node(), s.Name())
	}
	for _, tt := range []struct {
		after  time.Duration
		second float64 // in the recording
		round  int
	}{
		{0, 0, 0}, {900 * time.Millisecond, 0, 0}, {3500 * time.Millisecond, 3, 0}, {9900 * time.Millisecond, 9, 0},
		{10 * time.Second, 0, 1}, {25 * time.Second, 5, 2}, {26 * time.Second, 6, 2},
	} {
		clock.Advance(clock.Until(began.Add(tt.after)))
		snap, err := s.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		d := &snap.Devices[0]
		now := began.Add(time.Duration(tt.round)*10*time.Second + time.Duration(tt.second)*time.Second)
		want := gpu.Of(gpu.Celsius(40 + tt.second))
		if d.Thermal.GPU != want || !d.SampledAt.Equal(now) || !snap.Time.Equal(now) || snap.Breaks != tt.round {
			t.Errorf("after %v: %v of %v in round %d, want %v of %v in round %d",
				tt.after, d.Thermal.GPU, d.SampledAt, snap.Breaks, want, now, tt.round)
		}
		if want := now.Add(-time.Hour - time.Duration(tt.second)*time.Second); !d.Since.Equal(want) {
			t.Errorf("after %v: since %v, want %v", tt.after, d.Since, want)
		}
	}
}

// Counters don't run backwards when the recording starts over.
func TestCountersGrow(t *testing.T) {
	clock := clockwork.NewFakeClock()
	s := open(t, tenSeconds(t), clock)
	var energy gpu.Joules
	var replays uint64
	for range 45 {
		snap, err := s.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		d := &snap.Devices[0]
		if e, n := d.Power.Energy.Or(-1), d.PCIe.Replays.Or(0); e < energy || n < replays {
			t.Fatalf("%v J after %v, %d replays after %d", e, energy, n, replays)
		} else {
			energy, replays = e, n
		}
		clock.Advance(time.Second)
	}
	if energy < 1000+4*180 {
		t.Errorf("%v J after four rounds of 180 J", energy)
	}
}

// Every snapshot is marked as recorded, and otherwise unchanged.
func TestLabels(t *testing.T) {
	snap, err := open(t, tenSeconds(t), clockwork.NewFakeClock()).Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d := &snap.Devices[0]
	if snap.Kind() != gpu.Recorded || d.Source != gpu.SourceRecorded || d.Origin() != gpu.SourceNVML || snap.Drivers[0].Source != gpu.SourceRecorded {
		t.Errorf("%+v", snap)
	}
	if note := snap.Notes[0].Text(); !strings.Contains(note, "a recording of 2026-03-14 15:09 UTC") || !strings.Contains(note, "with 10 readings, repeated every 10s") {
		t.Errorf("the note is %q", note)
	}
	if want := reading(0).Devices[0].Readings; !reflect.DeepEqual(d.Readings, want) {
		t.Errorf("%+v, want %+v", d.Readings, want)
	}
	if snap.Host.Hostname != "host-1" {
		t.Errorf("the host is %+v", snap.Host)
	}
}

// A machine without a GPU is played with its reason.
func TestNoDevice(t *testing.T) {
	r := reading(0)
	r.Devices = nil
	r.Failures = []gpu.Failure{{Source: gpu.SourceNVML, Since: then, Advice: gpu.Advice{What: "no library", Try: "install it", Err: gpu.ErrNoLibrary}}}
	snap, err := open(t, write(t, line(t, r)), clockwork.NewFakeClock()).Read(t.Context())
	if !errors.Is(err, gpu.ErrNoLibrary) || snap.Host == nil || len(snap.Failures) != 0 {
		t.Errorf("%+v, %v", snap, err)
	}
}

// An unreadable line costs only itself.
func TestBadLines(t *testing.T) {
	lines := []string{
		"not JSON", line(t, reading(0)), line(t, reading(0)), `{"Seq":7}`, line(t, reading(time.Second)), line(t, reading(2*time.Second))[:200],
	}
	s := open(t, write(t, lines...), clockwork.NewFakeClock())
	if s.capture.Len() != 2 || len(s.capture.Unread) != 4 {
		t.Errorf("%d readings, unread are %q", s.capture.Len(), s.capture.Unread)
	}
	snap, err := s.Read(t.Context())
	if err != nil || !strings.Contains(snap.Notes[0].Text(), "4 more can't be read (line 1:") {
		t.Errorf("%+v, %v", snap.Notes, err)
	}
}

func TestNoCaptures(t *testing.T) {
	newer := t.TempDir()
	files := map[string]string{"": "", "text": "a text", "empty": "format: 1\nmade: recorded\n", "newer": "format: 99\n"}
	for name, want := range map[string]string{
		"": "it has no capture.yaml", "text": "can't be read", "empty": "neither readings.jsonl nor raw files", "newer": "format 99",
	} {
		dir := filepath.Join(newer, name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if text := files[name]; text != "" {
			if err := os.WriteFile(filepath.Join(dir, recording.ManifestFile), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, err := Open(dir, Config{Log: slog.New(slog.DiscardHandler)})
		advice, ok := errors.AsType[*gpu.Advice](err)
		if !ok || !strings.Contains(advice.What, want) || advice.Try == "" {
			t.Errorf("%q: %v, want %q", name, err, want)
		}
	}
	if _, err := Open(write(t, "{}"), Config{Log: slog.New(slog.DiscardHandler)}); err == nil || !strings.Contains(err.Error(), "no line of") {
		t.Errorf("without a line that can be read: %v", err)
	}
}

func TestConformance(t *testing.T) {
	dir := tenSeconds(t)
	sourcetest.Run(t, sourcetest.Fixture{
		New:     func(t *testing.T, clock *clockwork.FakeClock) sampler.Source { return open(t, dir, clock) },
		Devices: 1,
		Vendor:  gpu.NVIDIA,
	})
}

// Without a device, the failures of several sources come in their recorded order.
func TestFailuresKeepTheirOrder(t *testing.T) {
	r := reading(0)
	r.Devices, r.Failures = nil, nil
	for _, what := range []string{"first", "second", "third"} {
		r.Failures = append(r.Failures, gpu.Failure{Source: what, Since: then, Advice: gpu.Advice{What: what}})
	}
	snap, err := open(t, write(t, line(t, r)), clockwork.NewFakeClockAt(then)).Read(t.Context())
	if snap == nil || err == nil {
		t.Fatal(snap, err)
	}
	var said []string
	for _, f := range snap.Failures {
		said = append(said, f.Advice.What)
	}
	if said = append(said, err.Error()); strings.Join(said, " ") != "first second third" {
		t.Errorf("%q", said)
	}
}
