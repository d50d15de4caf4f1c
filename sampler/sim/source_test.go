package sim

import (
	"testing"
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler"
	"github.com/gpuwhy/gpuwhy/sampler/sourcetest"
)

// A stage is a simulated machine whose schedule a test can move.
type stage struct {
	*Source
	clock clockwork.Clock
}

func (s *stage) open(t *testing.T, profile string, clock clockwork.Clock) {
	t.Helper()
	nodes, err := Nodes(profile, clock.Now)
	if err != nil {
		t.Fatal(err)
	}
	s.Source, s.clock = nodes[0], clock
}

func (s *stage) device(t *testing.T, uuid string) *device {
	t.Helper()
	for _, d := range s.devices {
		if d.identity.UUID == uuid {
			return d
		}
	}
	t.Fatalf("no device %s", uuid)
	return nil
}

// move sets the second of the device's cycle.
func (s *stage) move(d *device, second int) {
	d.offset += time.Duration(float64(second)*float64(time.Second)) - time.Duration(d.moment(s.clock.Now()).second*float64(time.Second))
}

// begins and ends move the device's schedule to a change of its state.
func (s *stage) begins(state gpu.State) func(*testing.T, string) {
	return func(t *testing.T, uuid string) { s.move(s.device(t, uuid), failingTimes(t, state).From) }
}

func (s *stage) ends(state gpu.State) func(*testing.T, string) {
	return func(t *testing.T, uuid string) { s.move(s.device(t, uuid), failingTimes(t, state).To) }
}

func failingTimes(t *testing.T, state gpu.State) fault {
	t.Helper()
	for _, f := range inStock().Jobs["failing"].Faults {
		if f.State == state {
			return f
		}
	}
	t.Fatalf("the failing card is never %s", state)
	return fault{}
}

func TestFailingCardKeepsTheSourcesPromises(t *testing.T) {
	s := &stage{}
	sourcetest.Run(t, sourcetest.Fixture{
		New: func(t *testing.T, clock *clockwork.FakeClock) sampler.Source {
			s.open(t, "dgx-h100", clock)
			// The failing card comes first, while it works.
			s.devices[0], s.devices[7] = s.devices[7], s.devices[0]
			s.move(s.devices[0], 100)
			return s
		},
		Devices: 8,
		Vendor:  gpu.NVIDIA,
		Hang:    s.begins(gpu.StateNotAnswering),
		Release: s.ends(gpu.StateNotAnswering),
		Lose:    s.begins(gpu.StateLost),
		Return:  s.ends(gpu.StateLost),
		Sleep:   s.begins(gpu.StateAsleep),
		Wake:    s.ends(gpu.StateAsleep),
	})
}

func TestDesktopKeepsTheSourcesPromises(t *testing.T) {
	s := &stage{}
	sourcetest.Run(t, sourcetest.Fixture{
		New:     func(t *testing.T, clock *clockwork.FakeClock) sampler.Source { s.open(t, "rtx-4090", clock); return s },
		Devices: 1,
		Vendor:  gpu.NVIDIA,
		Idle: func(t *testing.T, uuid string) {
			d := s.device(t, uuid)
			tape := d.moment(s.clock.Now()).tape
			for second := cycleSeconds - 300; second < cycleSeconds-1; second++ {
				if tape.samples[second].gpu == 0 && tape.samples[second+1].gpu == 0 {
					s.move(d, second)
					return
				}
			}
			t.Fatal("the desktop never rests")
		},
	})
}

func TestFleetKeepsTheSourcesPromises(t *testing.T) {
	s := &stage{}
	sourcetest.Run(t, sourcetest.Fixture{
		New:     func(t *testing.T, clock *clockwork.FakeClock) sampler.Source { s.open(t, "fleet:8", clock); return s },
		Devices: 8,
		Vendor:  gpu.NVIDIA,
	})
}
