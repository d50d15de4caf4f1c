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

// slot holds what is known about one device, and decides its state.
type slot struct {
	gpu.Device                        // its state is "" before anything is known
	xids       gpu.Reading[[]gpu.XID] // events: they stay known in every state

	began  time.Time
	done   chan struct{} // closed when the call has ended; nil while none runs
	asleep bool          // when it was last due to be read

	slow time.Time     // since when its calls answer after the deadline; zero: they don't
	took time.Duration // how long the last such call took; 0: none did
}

// MostDeadlines is how many deadlines after its start an answer is too old to count. An answer between one deadline and that makes the
// device slow.
const MostDeadlines = 10

// firstDeadlines is how many deadlines a call gets, on a device that has answered in time, before it counts as hanging. The first answer
// after that is dropped: it may date from before the hang.
const firstDeadlines = 2

func (s *slot) begin(now time.Time) { s.began, s.done = now, make(chan struct{}) }

func (s *slot) sleep(now time.Time) {
	s.enter(gpu.StateAsleep, now, gpu.Advice{
		What: "the system has powered the device down, and gpuwhy lets it sleep",
	})
}

// forget keeps only the identity. A running call continues.
func (s *slot) forget() {
	s.Device = gpu.Device{Identity: s.Identity}
	s.slow, s.took = time.Time{}, 0
}

// finish records how the call ended.
func (s *slot) finish(now time.Time, deadline time.Duration, d gpu.Device, err error) {
	close(s.done)
	s.done = nil
	if d.Health.XIDs.Present() {
		s.xids = d.Health.XIDs
	}
	switch took := now.Sub(s.began); {
	case took >= MostDeadlines*deadline:
		s.enter(gpu.StateNotAnswering, s.began, gpu.Advice{
			What: fmt.Sprintf("the last reading took %v and was out of date by then", took.Round(time.Millisecond)),
			Try:  "look for hung tasks and " + s.Vendor.LogLines() + " in the kernel log (dmesg)",
			Err:  gpu.ErrNotAnswering,
		})
	case err != nil && s.asleep: // it fell asleep during the call
		s.sleep(now)
	case errors.Is(err, ErrLost):
		s.enter(gpu.StateLost, s.began, gpu.AsAdvice(err))
	case err != nil:
		s.enter(gpu.StateNotAnswering, s.began, gpu.AsAdvice(err))
	case took >= deadline && s.State == gpu.StateNotAnswering && s.took == 0:
		s.took = took // hanging or slow: the next call shows which
	default:
		slow := s.slow
		s.enter(gpu.StateOK, s.began, d.Reason)
		s.Identity, s.Readings, s.Accounted, s.SampledAt = d.Identity, d.Readings, d.Accounted, s.began.UTC()
		if !d.SampledAt.IsZero() {
			s.SampledAt = d.SampledAt.UTC()
		}
		if took >= deadline {
			s.slow = slow
			s.isSlow(fmt.Sprintf("its last reading took %v", took.Round(slowly)))
			s.took = took
		}
	}
}

// slowly is the precision with which a device's slowness is reported.
const slowly = 100 * time.Millisecond

// isSlow records that the device answers slowly, since this call or longer.
func (s *slot) isSlow(how string) {
	if s.slow.IsZero() {
		s.slow = s.began
	}
	s.Reason = gpu.Advice{
		What: "slow since " + s.slow.UTC().Format("15:04:05 UTC") + ": " + how,
		Try:  "look for hung tasks and " + s.Vendor.LogLines() + " in the kernel log (dmesg); a machine with no idle core is slow as well",
		Err:  gpu.ErrSlow,
	}
}

// patience is how long a call may run before it counts as hanging.
func (s *slot) patience(deadline time.Duration) time.Duration {
	if s.State != gpu.StateOK {
		return deadline
	}
	return max(firstDeadlines*deadline, s.took+deadline)
}

// enter sets the state, without readings.
func (s *slot) enter(state gpu.State, since time.Time, reason gpu.Advice) {
	s.Health.XIDs = s.xids
	if state != gpu.StateNotAnswering || s.State != state {
		s.slow, s.took = time.Time{}, 0
	}
	s.Enter(state, since.UTC(), reason)
}

// device returns a copy of what is known about the device now.
func (s *slot) device(now time.Time, deadline time.Duration) gpu.Device {
	switch waited := now.Sub(s.began); {
	case s.done == nil || waited < deadline:
	case waited < s.patience(deadline):
		s.isSlow(fmt.Sprintf("it has not answered for %v", waited.Round(slowly)))
	default:
		s.enter(gpu.StateNotAnswering, s.began, gpu.Advice{
			What: "a driver call has not come back",
			Try:  "look for hung tasks and " + s.Vendor.LogLines() + " in the kernel log (dmesg); you may have to restart the machine",
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
	d.Accounted = gpu.Map(d.Accounted, slices.Clone)
	d.Health.XIDs = gpu.Map(d.Health.XIDs, slices.Clone)
	return d
}
