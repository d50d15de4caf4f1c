//go:build linux

package amd

import (
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler"
	"github.com/gpuwhy/gpuwhy/sampler/drm/drmtest"
	"github.com/gpuwhy/gpuwhy/sampler/sourcetest"
)

// whenAsleep are the files of a sleeping card that may be opened.
var whenAsleep = []string{
	"power/runtime_status", "power/control", "vendor", "device", "revision", "subsystem_vendor", "subsystem_device", "drm",
}

func TestConformance(t *testing.T) {
	var cards []*drmtest.Card
	var f *faults
	find := func(t *testing.T, uuid string) *drmtest.Card {
		t.Helper()
		for i, known := range []string{"GPU-4c1a9f7e0b35d262", "PCI-0000:0c:00.0", "GPU-a1b2c3d4e5f60718"} {
			if uuid == known {
				return cards[i]
			}
		}
		t.Fatalf("no card is %s", uuid)
		return nil
	}
	var opened func() []string
	var text string
	sourcetest.Run(t, sourcetest.Fixture{
		New: func(t *testing.T, clock *clockwork.FakeClock) sampler.Source {
			m := drmtest.New(t)
			f = &faults{}
			cards = []*drmtest.Card{
				m.Card(0, "0000:03:00.0", "amdgpu", navi31(), "0000:00:01.1", "0000:01:00.0", "0000:02:00.0"),
				m.Card(1, "0000:0c:00.0", "amdgpu", phoenix()),
				m.Card(2, "0000:75:00.0", "amdgpu", mi300x()),
			}
			cfg := config(t, m, f)
			cfg.Deadline, cfg.Clock = 2*time.Second, clock
			return New(cfg)
		},
		Devices:  3,
		Deadline: 2 * time.Second,
		Vendor:   gpu.AMD,
		Idle: func(t *testing.T, uuid string) {
			find(t, uuid).Set(map[string]string{"gpu_busy_percent": "0\n", "hwmon/hwmon4/pwm1": "0\n"})
		},
		Hang: func(t *testing.T, uuid string) {
			c := find(t, uuid)
			text = navi31()["gpu_busy_percent"]
			c.Hang(c.File("gpu_busy_percent"))
		},
		Release: func(t *testing.T, uuid string) {
			c := find(t, uuid)
			c.Release(c.File("gpu_busy_percent"), text)
		},
		Lose:   func(t *testing.T, uuid string) { f.set(find(t, uuid).Dir, syscall.ENODEV) },
		Return: func(t *testing.T, uuid string) { f.set(find(t, uuid).Dir, 0) },
		Sleep: func(t *testing.T, uuid string) {
			find(t, uuid).Sleep()
			opened = drmtest.Watch(t, find(t, uuid).Dir)
		},
		Wake: func(t *testing.T, uuid string) {
			for _, file := range opened() {
				if !slices.Contains(whenAsleep, filepath.ToSlash(file)) {
					t.Errorf("%s of a card that sleeps was opened", file)
				}
			}
			find(t, uuid).Wake()
		},
		Break: func(*testing.T) {
			for _, c := range cards {
				c.Unplug()
			}
		},
		Repair: func(*testing.T) {
			for _, c := range cards {
				c.Plug()
			}
		},
	})
}
