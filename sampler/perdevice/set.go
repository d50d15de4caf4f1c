package perdevice

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A Device is what a [Set] reads.
type Device struct {
	// Key identifies the device and never changes: a PCI address or a UUID.
	Key string
	// Identity is what is known of the device before it has answered.
	Identity gpu.Identity
	// Asleep reports whether the system has powered the device down; then the device is not read. Asleep must be quick and must wake
	// nothing: it reads one sysfs file. Nil means never.
	Asleep func() bool
	// Read asks the driver, and may hang. It returns the identity, the readings and the reason (see [gpu.Device.Reason]), and SampledAt if
	// the readings did not begin with the call. Its error wraps a *gpu.Advice for people. An error that also wraps [ErrLost] makes the
	// device lost, any other makes it not answering. With an error, only the events among the readings count. If Read is nil, no call is
	// made and the device keeps what is known about it.
	Read func() (gpu.Device, error)
}

// A Set reads devices, with at most one call at a time for each device.
type Set struct {
	clock    clockwork.Clock
	deadline time.Duration
	idle     func()
	closing  chan struct{} // closed by Close

	mu     sync.Mutex
	slots  map[string]*slot // by key
	closed bool
	flying int
}

// New returns a set that has read nothing. All times and waits use the given clock. Whenever the last running call has ended, its goroutine
// calls idle.
func New(clock clockwork.Clock, deadline time.Duration, idle func()) *Set {
	return &Set{clock: clock, deadline: deadline, idle: idle, closing: make(chan struct{}), slots: map[string]*slot{}}
}

// Read starts a call for each device without a running call, and returns all devices, in the given order, once every call has answered or
// ctx ends:
//
//   - A device that answered is in StateOK with its new readings.
//   - A device whose call has run for less than the deadline keeps its state and its
//     last readings, with their older SampledAt. Read waits up to the deadline for
//     a device that has never answered, even if ctx has an earlier deadline, but not
//     after ctx is canceled.
//   - A device whose call has run for longer is slow, as its Reason says; it keeps its
//     readings for one more deadline. A device that was slow before keeps them for one
//     deadline more than its last call took.
//   - A device whose call has run for even longer is in StateNotAnswering since the call
//     began, and has no readings. Read does not wait for it. Its late result is dropped,
//     and the next Read starts another call. If that call is late too, the device is slow:
//     its results count unless they took ten deadlines.
//   - A device whose call failed is in StateNotAnswering or StateLost. The next
//     Read calls it again.
//   - A device that sleeps is in StateAsleep, and is not called.
//
// One goroutine at a time may call Read. A device that is no longer passed is forgotten once no call for it runs. After Close, Read starts
// no calls.
func (s *Set) Read(ctx context.Context, devices []Device) []gpu.Device {
	for _, d := range devices {
		s.start(d)
	}
	for _, d := range devices {
		s.wait(ctx, d.Key)
	}
	return s.collect(devices)
}

func (s *Set) start(d Device) {
	asleep := d.Asleep != nil && d.Asleep()
	s.mu.Lock()
	defer s.mu.Unlock()
	place := s.slots[d.Key]
	if place == nil {
		place = &slot{Device: gpu.Device{Identity: d.Identity}}
		s.slots[d.Key] = place
	}
	place.asleep = asleep
	switch {
	case place.done != nil || s.closed:
	case asleep:
		place.sleep(s.clock.Now())
	case d.Read == nil:
	default:
		place.begin(s.clock.Now())
		s.flying++
		go s.call(place, d.Read)
	}
}

func (s *Set) call(place *slot, read func() (gpu.Device, error)) {
	d, err := read()
	s.mu.Lock()
	place.finish(s.clock.Now(), s.deadline, d, err)
	s.flying--
	last := s.flying == 0
	s.mu.Unlock()
	if last {
		s.idle()
	}
}

// wait waits for the device's call, as documented at Read.
func (s *Set) wait(ctx context.Context, key string) {
	s.mu.Lock()
	place := s.slots[key]
	done, known, until := place.done, place.State != "", place.began.Add(s.deadline)
	s.mu.Unlock()
	if done != nil {
		Await(ctx, s.clock, done, s.closing, until, !known)
	}
}

// Await waits until done is closed, and reports whether it is. It gives up when stop is closed, when ctx is canceled, and at the time until
// on the clock. Unless it is patient, it also gives up at the deadline of ctx.
func Await(ctx context.Context, clock clockwork.Clock, done, stop <-chan struct{}, until time.Time, patient bool) bool {
	overdue := clock.NewTimer(clock.Until(until))
	defer overdue.Stop()
	ended := ctx.Done()
	for {
		select {
		case <-done:
			return true
		case <-overdue.Chan():
			return false
		case <-stop:
			return false
		case <-ended:
			if !patient || errors.Is(ctx.Err(), context.Canceled) {
				return false
			}
			ended = nil
		}
	}
}

// WithTimeout is [context.WithTimeout] with a clock. Unlike package clockwork's contexts, it always reports whether it has ended, even with
// a fake clock.
func WithTimeout(parent context.Context, clock clockwork.Clock, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	late := clock.AfterFunc(d, func() { cancel(context.DeadlineExceeded) })
	return &timedContext{ctx, clock.Now().Add(d)}, func() {
		late.Stop()
		cancel(context.Canceled)
	}
}

type timedContext struct {
	context.Context
	deadline time.Time
}

// Deadline is on the set's clock, not the machine's.
func (c *timedContext) Deadline() (time.Time, bool) { return c.deadline, true }

// Err is [context.DeadlineExceeded] once the deadline has passed on that clock.
func (c *timedContext) Err() error {
	err := c.Context.Err()
	if err != nil && errors.Is(context.Cause(c.Context), context.DeadlineExceeded) {
		return context.DeadlineExceeded
	}
	return err
}

// collect returns what is known about the devices now, and forgets all others.
func (s *Set) collect(devices []Device) []gpu.Device {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	out := make([]gpu.Device, len(devices))
	listed := make(map[string]bool, len(devices))
	for i, d := range devices {
		out[i] = s.slots[d.Key].device(now, s.deadline)
		listed[d.Key] = true
	}
	maps.DeleteFunc(s.slots, func(key string, place *slot) bool { return !listed[key] && place.done == nil })
	return out
}

// Forget drops what the devices reported, after a time in which nobody read them. Otherwise old reports would stay until the devices answer
// again.
func (s *Set) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, place := range s.slots {
		place.forget()
	}
}

// Flying returns the number of running calls.
func (s *Set) Flying() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flying
}

// Close ends a waiting Read; later Reads start no calls. Close does not wait: a goroutine whose driver call hangs stays until that call
// returns. A second Close does nothing.
func (s *Set) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		close(s.closing)
	}
}
