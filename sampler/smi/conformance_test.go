package smi

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler"
	"github.com/gpuwhy/gpuwhy/sampler/smi/fakesmi"
	"github.com/gpuwhy/gpuwhy/sampler/sourcetest"
)

func TestConformance(t *testing.T) {
	for name, sysfs := range map[string]bool{"with sysfs": true, "without": false} {
		t.Run(name, func(t *testing.T) { conformance(t, sysfs) })
	}
}

func conformance(t *testing.T, sysfs bool) {
	if sysfs && runtime.GOOS != "linux" {
		t.Skip("there is no sysfs")
	}
	var m *fakesmi.Machine
	var s *Source
	address := func(uuid string) string {
		for line := range strings.Lines(m.Read("query-gpu")) {
			if values, ok := strings.CutPrefix(strings.TrimSpace(line), "uuid = "); ok {
				for i, v := range strings.Split(values, " | ") {
					if v == uuid {
						return m.Addresses()[i]
					}
				}
			}
		}
		t.Fatalf("no device %s", uuid)
		return ""
	}
	reads := func(uuid string) int { return m.Count(" " + address(uuid)) }
	asleep := 0 // how often the device had been read when it fell asleep
	f := sourcetest.Fixture{
		New: func(t *testing.T) sampler.Source {
			m = machine(t, "blackwell-570")
			if sysfs {
				m.PlugIn()
			}
			s = source(t, m)
			return s
		},
		Devices: 2,
		Vendor:  gpu.NVIDIA,
		Idle: func(_ *testing.T, uuid string) {
			m.Set(address(uuid), "utilization.gpu", "0 %")
			m.Set(address(uuid), "fan.speed", "0 %")
		},
		Hang:    func(_ *testing.T, uuid string) { m.Fault("hang " + address(uuid)) },
		Release: func(*testing.T, string) { m.Heal("hang") },
		Lose:    func(_ *testing.T, uuid string) { m.Fault("lost " + address(uuid)) },
		Return:  func(*testing.T, string) { m.Heal("lost") },
		Break: func(*testing.T) {
			m.Fault("fail 9 NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running.")
			m.Fault("die")
		},
		Repair: func(*testing.T) { m.Heal() },
	}
	if sysfs {
		f.Sleep = func(t *testing.T, uuid string) {
			m.Sleep(address(uuid), true)
			// A command that runs keeps a real device awake: it does not fall asleep
			// before a reading has ended the command.
			for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				_, _ = s.Read(ctx)
				cancel()
				if before := reads(uuid); settled(func() bool { return reads(uuid) == before }) {
					break
				}
			}
			asleep = reads(uuid)
		}
		f.Wake = func(t *testing.T, uuid string) {
			if n := reads(uuid) - asleep; n > 0 {
				t.Errorf("it was read %d times while it slept", n)
			}
			m.Sleep(address(uuid), false)
		}
	}
	sourcetest.Run(t, f)
}

// settled reports whether something holds for a while.
func settled(holds func() bool) bool {
	for range 20 {
		if !holds() {
			return false
		}
		time.Sleep(10 * time.Millisecond)
	}
	return true
}
