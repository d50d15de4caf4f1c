//go:build linux

package intel

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/jonboulle/clockwork"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler"
	"github.com/gpuwhy/gpuwhy/sampler/drm/drmtest"
	"github.com/gpuwhy/gpuwhy/sampler/sourcetest"
)

func TestConformance(t *testing.T) {
	var m *drmtest.Machine
	var cards map[string]*drmtest.Card
	var opened func() []string
	act := map[string]string{"i915": "drm/card0/gt/gt0/rps_act_freq_mhz", "xe": "tile0/gt0/freq0/act_freq"}
	all := func(do func(*drmtest.Card)) {
		for _, c := range cards {
			do(c)
		}
	}
	sourcetest.Run(t, sourcetest.Fixture{
		New: func(t *testing.T, clock *clockwork.FakeClock) sampler.Source {
			m = drmtest.New(t)
			kernel(m, "6.19.0-test")
			cards = map[string]*drmtest.Card{}
			for _, c := range []*drmtest.Card{uhd770(m), arcB580(m)} {
				cards[gpu.UUIDAt(c.Address)] = c
			}
			m.Open(100, 7, "dri/renderD128", i915Client("0000:00:02.0", 3, 500, 0, "drm-resident-system0:\t64 MiB\n"))
			m.Open(200, 8, "dri/card1", xeClient("0000:03:00.0", 4, 5, 90, 0, 1000, "drm-resident-vram0:\t2048 MiB\n"))
			return source(t, m, func(c *Config) { c.Clock = clock })
		},
		Devices:  2,
		Deadline: deadline,
		Vendor:   gpu.Intel,
		Idle:     func(*testing.T, string) { m.Exit(100) },
		Hang:     func(_ *testing.T, uuid string) { m.Hang(cards[uuid].File(act[cards[uuid].Driver])) },
		Release:  func(_ *testing.T, uuid string) { m.Release(cards[uuid].File(act[cards[uuid].Driver]), "600\n") },
		Lose:     func(_ *testing.T, uuid string) { cards[uuid].Unplug() },
		Return:   func(_ *testing.T, uuid string) { cards[uuid].Plug() },
		Sleep: func(t *testing.T, uuid string) {
			cards[uuid].Sleep()
			opened = drmtest.Watch(t, cards[uuid].Dir)
		},
		Wake: func(t *testing.T, uuid string) {
			for _, file := range opened() {
				if file != "power/runtime_status" && file != "power" {
					t.Errorf("%s was opened while the GPU slept", file)
				}
			}
			cards[uuid].Wake()
		},
		Break: func(t *testing.T) {
			all((*drmtest.Card).Unplug)
			for _, driver := range []string{driverI915, driverXe} {
				if err := os.RemoveAll(filepath.Join(m.Sysfs, "bus/pci/drivers", driver)); err != nil {
					t.Fatal(err)
				}
			}
		},
		Repair: func(*testing.T) { all((*drmtest.Card).Plug) },
	})
}
