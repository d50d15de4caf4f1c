package captures_test

import (
	"log/slog"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/gpu/catalog"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/sampler"
	"github.com/gpuwhy/gpuwhy/sampler/captures"
	"github.com/gpuwhy/gpuwhy/sampler/recording"
	"github.com/gpuwhy/gpuwhy/sampler/replay"
	"github.com/gpuwhy/gpuwhy/sampler/sourcetest"
)

func TestMain(m *testing.M) { os.Exit(testkit.RunTests(m)) }

func open(t *testing.T, name string, clock clockwork.Clock) *replay.Source {
	t.Helper()
	s, err := replay.Open(name, replay.Config{
		Interval: 100 * time.Millisecond, Deadline: 10 * time.Second, Clock: clock, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Every capture's machine keeps the promises of a source.
func TestConformance(t *testing.T) {
	for _, name := range captures.Names() {
		t.Run(name, func(t *testing.T) {
			if _, err := os.Stat(name + "/" + recording.SysfsFile); err == nil && runtime.GOOS != "linux" {
				t.Skip("files of Linux's /sys are read on Linux alone")
			}
			s := open(t, name, clockwork.NewFakeClock())
			snap, err := s.Read(t.Context())
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if err != nil || len(snap.Devices) == 0 {
				t.Fatalf("%+v, %v", snap, err)
			}
			for i := range snap.Devices {
				known := 0
				for r := range catalog.All() {
					r.Visit(&snap.Devices[i], func(_ string, ref catalog.Ref) {
						if ref.Present() {
							known++
						}
					})
				}
				if known < 12 {
					t.Errorf("device %d has %d readings: %+v", i, known, snap.Devices[i])
				}
			}
			if snap.Kind() != gpu.Recorded {
				t.Errorf("it does not say that it is recorded, but %s", snap.Kind())
			}
			sourcetest.Run(t, sourcetest.Fixture{
				New:      func(t *testing.T, clock *clockwork.FakeClock) sampler.Source { return open(t, name, clock) },
				Devices:  len(snap.Devices),
				Deadline: 10 * time.Second,
				Vendor:   snap.Devices[0].Vendor,
			})
		})
	}
}

// Every capture says what it is, and where it comes from.
func TestManifests(t *testing.T) {
	for _, name := range captures.Names() {
		c, err := recording.Open(name)
		if err != nil {
			t.Error(err)
			continue
		}
		if c.Title == "" || c.Public() && (len(c.Facts) == 0 || !strings.HasPrefix(c.Made, "from public facts")) {
			t.Errorf("%s says too little of itself: %+v", name, c.Manifest)
		}
	}
}
