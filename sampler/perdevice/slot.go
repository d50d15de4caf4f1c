package perdevice

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// ErrLost is wrapped by the error of a read whose device is gone from the bus.
var ErrLost = errors.New("the device is gone from the bus")

// slot holds what is known of one device, and decides its state.
type slot struct {
	gpu.Device                        // its state is "" before anything is known
	xids       gpu.Reading[[]gpu.XID] // events: they stay known in every state

	began time.Time
	done  chan struct{} // closed when the call has ended; nil while none runs
}

func (s *slot) begin(now time.Time) { s.began, s.done = now, make(chan struct{}) }

func (s *slot) sleep(now time.Time) {
	s.enter(gpu.StateAsleep, now, gpu.Advice{
		What: "the system has powered the device down, and gpuwhy leaves it asleep",
	})
}

// finish records how the call ended. A result after the deadline is dropped.
func (s *slot) finish(now time.Time, deadline time.Duration, d gpu.Device, err error) {
	close(s.done)
	s.done = nil
	if d.Health.XIDs.Present() {
		s.xids = d.Health.XIDs
	}
	switch took := now.Sub(s.began); {
	case took >= deadline:
		s.enter(gpu.StateNotAnswering, s.began, gpu.Advice{
			What: fmt.Sprintf("the last driver call took %v, longer than %v", took.Round(time.Millisecond), deadline),
			Try:  "look for hung tasks and XIDs in the kernel log (dmesg)",
			Err:  gpu.ErrNotAnswering,
		})
	case errors.Is(err, ErrLost):
		s.enter(gpu.StateLost, s.began, gpu.AsAdvice(err))
	case err != nil:
		s.enter(gpu.StateNotAnswering, s.began, gpu.AsAdvice(err))
	default:
		s.enter(gpu.StateOK, s.began, d.Reason)
		s.Identity, s.Readings, s.SampledAt = d.Identity, d.Readings, s.began.UTC()
		if !d.SampledAt.IsZero() {
			s.SampledAt = d.SampledAt.UTC()
		}
	}
}

// enter sets the state, without readings.
func (s *slot) enter(state gpu.State, since time.Time, reason gpu.Advice) {
	s.Health.XIDs = s.xids
	s.Enter(state, since.UTC(), reason)
}

// device is a copy of what is known of the device now.
func (s *slot) device(now time.Time, deadline time.Duration) gpu.Device {
	if s.done != nil && now.Sub(s.began) >= deadline {
		s.enter(gpu.StateNotAnswering, s.began, gpu.Advice{
			What: "a driver call has not come back",
			Try:  "look for hung tasks and XIDs in the kernel log (dmesg); a restart of the machine may be needed",
			Err:  gpu.ErrNotAnswering,
		})
	}
	d := s.Device
	if d.State == "" {
		d.Enter(gpu.StateNotAnswering, now.UTC(), gpu.Advice{What: "the device has not answered yet", Err: gpu.ErrNotAnswering})
	}
	d.Fans.Fans = slices.Clone(d.Fans.Fans)
	d.Instances = slices.Clone(d.Instances)
	d.NVLink.Links = slices.Clone(d.NVLink.Links)
	d.Processes = gpu.Map(d.Processes, slices.Clone)
	d.Health.XIDs = gpu.Map(d.Health.XIDs, slices.Clone)
	return d
}
