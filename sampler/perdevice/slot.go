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

// A Result is what one read of a device returned.
type Result struct {
	Identity gpu.Identity
	Readings gpu.Readings
	// Reason is shown beside the readings, see [gpu.Device.Reason].
	Reason gpu.Advice
}

// slot holds what is known of one device, and decides its state.
type slot struct {
	state  gpu.State // "" before anything is known
	since  time.Time
	reason gpu.Advice

	flying bool // a call runs
	began  time.Time
	done   chan struct{} // closed when it has ended

	identity gpu.Identity
	good     *Result // of the last call that answered in time, while in StateOK
	sampled  time.Time
	xids     gpu.Reading[[]gpu.XID] // events: they stay known in every state
}

func (s *slot) begin(now time.Time) {
	s.flying, s.began, s.done = true, now, make(chan struct{})
}

func (s *slot) sleep(now time.Time) {
	s.enter(gpu.StateAsleep, now, gpu.Advice{
		What: "the system has powered the device down, and gpuwhy leaves it asleep",
	})
}

// finish records how the call ended. A result after the deadline is dropped.
func (s *slot) finish(now time.Time, deadline time.Duration, r Result, err error) {
	s.flying = false
	close(s.done)
	if xids := r.Readings.Health.XIDs; xids.Present() {
		s.xids = xids
	}
	switch took := now.Sub(s.began); {
	case took >= deadline:
		s.enter(gpu.StateNotAnswering, s.began, gpu.Advice{
			What: fmt.Sprintf("the last driver call took %v, longer than %v", took.Round(time.Millisecond), deadline),
			Try:  "look for hung tasks and XIDs in the kernel log (dmesg)",
			Err:  gpu.ErrNotAnswering,
		})
	case errors.Is(err, ErrLost):
		s.enter(gpu.StateLost, s.began, adviceOf(err, gpu.Advice{
			What: "the device has fallen off the bus",
			Try:  "look for an XID in the kernel log (dmesg); resetting the device or restarting the machine may bring it back",
		}))
	case err != nil:
		s.enter(gpu.StateNotAnswering, s.began, adviceOf(err, gpu.Advice{
			What: "every driver call for this device fails",
			Try:  "look for the device in the kernel log (dmesg)",
		}))
	default:
		s.enter(gpu.StateOK, s.began, gpu.Advice{})
		s.identity, s.good, s.sampled = r.Identity, &r, s.began
	}
}

// enter sets the state. Since only changes with the state.
func (s *slot) enter(state gpu.State, since time.Time, reason gpu.Advice) {
	if s.state != state {
		s.state, s.since = state, since
	}
	s.reason = reason
	s.good = nil
}

// device is what is known of the device now.
func (s *slot) device(now time.Time, deadline time.Duration) gpu.Device {
	if s.flying && now.Sub(s.began) >= deadline {
		s.enter(gpu.StateNotAnswering, s.began, gpu.Advice{
			What: "a driver call has not come back",
			Try:  "look for hung tasks and XIDs in the kernel log (dmesg); a restart of the machine may be needed",
			Err:  gpu.ErrNotAnswering,
		})
	}
	if s.state == "" {
		return gpu.Device{Identity: s.identity, State: gpu.StateNotAnswering, Since: now.UTC(), Reason: gpu.Advice{
			What: "the device has not answered yet",
			Err:  gpu.ErrNotAnswering,
		}}
	}
	d := gpu.Device{Identity: s.identity, State: s.state, Since: s.since.UTC(), Reason: s.reason}
	if s.good == nil {
		d.Health.XIDs = gpu.Map(s.xids, slices.Clone)
	} else {
		d.SampledAt = s.sampled.UTC()
		d.Readings = clone(s.good.Readings)
		d.Reason = s.good.Reason
	}
	return d
}

// clone returns a copy that shares nothing with r, since the same readings can be
// returned again.
func clone(r gpu.Readings) gpu.Readings {
	r.Fans.Fans = slices.Clone(r.Fans.Fans)
	r.Instances = slices.Clone(r.Instances)
	r.Processes = gpu.Map(r.Processes, slices.Clone)
	r.Health.XIDs = gpu.Map(r.Health.XIDs, slices.Clone)
	return r
}

// adviceOf is the advice that err wraps, or instead with err as its cause.
func adviceOf(err error, instead gpu.Advice) gpu.Advice {
	if a, ok := errors.AsType[*gpu.Advice](err); ok {
		return *a
	}
	instead.Err = err
	return instead
}
