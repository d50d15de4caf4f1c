package smi

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
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
	var clock *clockwork.FakeClock
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
	asleep := 0 // number of readings of the device when it fell asleep
	f := sourcetest.Fixture{
		New: func(t *testing.T, c *clockwork.FakeClock) sampler.Source {
			m = machine(t, "blackwell-570")
			if sysfs {
				m.PlugIn()
			}
			clock = c
			s = source(t, m, func(cfg *Config) { cfg.Clock = c })
			return s
		},
		Devices:  2,
		Deadline: testDeadline,
		Vendor:   gpu.NVIDIA,
		Idle: func(_ *testing.T, uuid string) {
			m.Set(address(uuid), "utilization.gpu", "0 %")
			m.Set(address(uuid), "fan.speed", "0 %")
		},
		Hang: func(t *testing.T, uuid string) {
			held := "held query hang " + address(uuid)
			before := m.Count(held)
			m.Fault("hang " + address(uuid))
			testkit.Until(t, "the loop to hang", func() bool { return m.Count(held) > before })
			testkit.Until(t, "the device to have a loop of its own", func() bool {
				clock.Advance(s.cfg.stall())
				s.mu.Lock()
				defer s.mu.Unlock()
				return !s.apart[address(uuid)].IsZero()
			})
			pass(t, s, time.Second) // Read waits for loops that have just started
		},
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
			// A running command keeps a real device awake: it does not fall asleep before a reading has ended the command.
			before := m.Running()
			m.Sleep(address(uuid), true)
			testkit.Until(t, "the commands that read it to end", func() bool {
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				defer cancel()
				_, _ = s.Read(ctx)
				return !slices.ContainsFunc(m.Running(), func(pid string) bool { return slices.Contains(before, pid) })
			})
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
