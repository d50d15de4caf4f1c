package perdevice

import (
	"context"
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// DefaultDeadline is the time after which a call counts as hanging.
const DefaultDeadline = 2 * time.Second

// A Device is what a [Set] reads.
type Device struct {
	// Key identifies the device and never changes: a PCI address, a UUID.
	Key string
	// Identity is what is known of the device before it has answered.
	Identity gpu.Identity
	// Asleep reports whether the system has powered the device down; then
	// the device is not read. Asleep must be quick and must wake nothing: it
	// reads one file of sysfs. Nil stands for never.
	Asleep func() bool
	// Read asks the driver, and may hang. An error that wraps [ErrLost] makes
	// the device lost, any other error makes it not answering; people see a
	// *gpu.Advice in it. The result is the caller's.
	Read func() (Result, error)
}

// A Set reads devices, with at most one call at a time for each device.
type Set struct {
	deadline time.Duration

	closing chan struct{} // closed by Close

	mu     sync.Mutex
	slots  map[string]*entry
	closed bool
	then   func() // after Close: to be called when no call runs any more
	flying int
}

type entry struct {
	slot
	done chan struct{} // closed when the running call ends
}

// New returns a set that has read nothing. A deadline of 0 stands for
// [DefaultDeadline].
func New(deadline time.Duration) *Set {
	if deadline <= 0 {
		deadline = DefaultDeadline
	}
	return &Set{deadline: deadline, closing: make(chan struct{}), slots: map[string]*entry{}}
}

// Read starts a call for each device that has none running, and returns all
// devices in their order when every call has answered, or ctx ends:
//
//   - A device that answered is in StateOK with its new readings.
//   - A device whose call runs for less than the deadline keeps its state and its
//     last readings, with their older SampledAt. Read waits up to the deadline for
//     a device that has never answered, even where ctx has an earlier deadline,
//     but not after ctx is canceled.
//   - A device whose call runs for longer is in StateNotAnswering since the call
//     began and has no readings. Read does not wait for it. The late result is
//     dropped, and the next Read after it starts another call.
//   - A device whose call failed is in StateNotAnswering or StateLost. The next
//     Read calls it again.
//   - A device that sleeps is in StateAsleep, and is not called.
//
// One goroutine at a time may call Read. A device that is no longer given is
// forgotten once no call for it runs. After Close, Read starts no calls.
func (s *Set) Read(ctx context.Context, devices []Device) []gpu.Device {
	s.start(devices)
	for _, d := range devices {
		s.wait(ctx, d.Key)
	}
	return s.collect(devices)
}

// start begins the calls.
func (s *Set) start(devices []Device) {
	asleep := make([]bool, len(devices))
	for i, d := range devices {
		asleep[i] = d.Asleep != nil && d.Asleep()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, d := range devices {
		e := s.slots[d.Key]
		if e == nil {
			e = &entry{slot: slot{identity: d.Identity}}
			s.slots[d.Key] = e
		}
		switch {
		case e.flying || s.closed:
		case asleep[i]:
			e.sleep(time.Now())
		default:
			e.begin(time.Now())
			e.done = make(chan struct{})
			s.flying++
			go s.call(e, d.Read, e.done)
		}
	}
}

// call is one driver call, on its own goroutine.
func (s *Set) call(e *entry, read func() (Result, error), done chan struct{}) {
	r, err := read()
	s.mu.Lock()
	e.finish(time.Now(), s.deadline, r, err)
	close(done)
	s.flying--
	var then func()
	if s.flying == 0 {
		then, s.then = s.then, nil
	}
	s.mu.Unlock()
	if then != nil {
		then()
	}
}

// wait returns when the device's call has ended or passed the deadline, or when
// ctx ends and the device has answered before.
func (s *Set) wait(ctx context.Context, key string) {
	s.mu.Lock()
	e := s.slots[key]
	flying, done, known, left := e.flying, e.done, e.state != "", time.Until(e.began.Add(s.deadline))
	s.mu.Unlock()
	if !flying || left <= 0 {
		return
	}
	overdue := time.NewTimer(left)
	defer overdue.Stop()
	ended := ctx.Done()
	for {
		select {
		case <-done:
			return
		case <-overdue.C:
			return
		case <-s.closing:
			return
		case <-ended:
			if known || ctx.Err() == context.Canceled {
				return
			}
			ended = nil // nothing is known of this device yet
		}
	}
}

// collect returns what is known of the devices now, and forgets all others.
func (s *Set) collect(devices []Device) []gpu.Device {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	out := make([]gpu.Device, len(devices))
	listed := make(map[string]bool, len(devices))
	for i, d := range devices {
		out[i] = s.slots[d.Key].device(now, s.deadline)
		listed[d.Key] = true
	}
	for key, e := range s.slots {
		if !listed[key] && !e.flying {
			delete(s.slots, key)
		}
	}
	return out
}

// Flying is the number of calls that run.
func (s *Set) Flying() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flying
}

// Close ends a Read that waits, and later ones start no calls. Close does not
// wait: a goroutine whose driver call hangs stays until that call returns. Once no
// call runs, then is called, unless it is nil: by Close, or on the goroutine of
// the last call. A second Close does nothing.
func (s *Set) Close(then func()) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.closed = true
	close(s.closing)
	if s.flying > 0 {
		s.then, then = then, nil
	}
	s.mu.Unlock()
	if then != nil {
		then()
	}
}
