//go:build linux && cgo

package nvml

import (
	"testing"

	"github.com/jonboulle/clockwork"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler"
	"github.com/gpuwhy/gpuwhy/sampler/nvml/fakenvml"
	"github.com/gpuwhy/gpuwhy/sampler/sourcetest"
)

func TestConformance(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"by address": func(*Config) {},
		"by index":   withoutSysfs,
	} {
		t.Run(name, func(t *testing.T) { conformance(t, name == "by address", change) })
	}
}

func conformance(t *testing.T, sysfs bool, change func(*Config)) {
	var m *fakenvml.Machine
	find := func(uuid string) *fakenvml.Device {
		for _, d := range m.GPUs {
			if d.UUID == uuid {
				return d
			}
		}
		t.Fatalf("no device %s", uuid)
		return nil
	}
	asleep := 0 // number of the device's calls when it fell asleep
	f := sourcetest.Fixture{
		New: func(t *testing.T, clock *clockwork.FakeClock) sampler.Source {
			m = machine(t, fakenvml.RTX4090(), fakenvml.H100())
			return source(t, m, change, func(c *Config) { c.Clock = clock })
		},
		Devices:  2,
		Deadline: testDeadline,
		Vendor:   gpu.NVIDIA,
		Idle: func(_ *testing.T, uuid string) {
			d := find(uuid)
			d.Set(fakenvml.Utilization, 0)
			d.SetProcesses()
		},
		Hang:    func(_ *testing.T, uuid string) { find(uuid).Hang() },
		Release: func(_ *testing.T, uuid string) { find(uuid).Back() },
		Lose:    func(_ *testing.T, uuid string) { find(uuid).Lost() },
		Return:  func(_ *testing.T, uuid string) { find(uuid).Back() },
		Break:   func(*testing.T) { m.Unload() },
		Repair:  func(*testing.T) { m.Load() },
	}
	if sysfs {
		f.Sleep = func(_ *testing.T, uuid string) {
			find(uuid).Sleep()
			asleep = find(uuid).Calls()
		}
		f.Wake = func(t *testing.T, uuid string) {
			if n := find(uuid).Calls() - asleep; n > 0 {
				t.Errorf("%d calls for a device that sleeps", n)
			}
			find(uuid).Wake()
		}
	}
	sourcetest.Run(t, f)
}
