package perdevice

import (
	"context"
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// DefaultDeadline is after how long a call counts as hanging.
const DefaultDeadline = 2 * time.Second

// A Device is one that a [Set] is asked to read.
type Device struct {
	// Key tells devices apart and stays the same: a PCI address, a UUID.
	Key string
	// Identity is what is known of the device before it has answered.
	Identity gpu.Identity
	// Asleep reports whether the system has powered the device down; such a
	// device is not read. It must be quick and wake nothing: one file of
	// sysfs. Nil stands for never.
	Asleep func() bool
	// Read asks the driver, and may hang. An error with [ErrLost] in it
	// makes the device lost, any other one not answering; a *gpu.Advice in
	// it is shown to people. What it returns is the caller's.
	Read func() (Result, error)
}

// A Set reads devices, each of them with at most one call under way.
type Set struct {
	deadline time.Duration

	closing chan struct{} // closed by Close

	mu     sync.Mutex
	slots  map[string]*entry
	closed bool
	then   func() // after Close: for when no call is under way
	flying int
}

type entry struct {
	slot
	done chan struct{} // closed when the call under way ends
}

// New returns a set that has read nothing. A deadline of 0 stands for
// [DefaultDeadline].
func New(deadline time.Duration) *Set {
	if deadline <= 0 {
		deadline = DefaultDeadline
	}
	return &Set{deadline: deadline, closing: make(chan struct{}), slots: map[string]*entry{}}
}

// Read starts a call for each device that has none under way, and returns all
// devices in their order when every call has answered, or ctx ends:
//
//   - A device that answered is in StateOK with its new readings.
//   - One whose call is under way for less than the deadline keeps its last
//     readings, with the older SampledAt that they have, and its state. One
//     that has never been heard of is waited for up to the deadline, even where
//     ctx has a shorter one; a ctx that is canceled ends that too.
//   - One whose call is under way for longer is in StateNotAnswering since it
//     began, has no readings, and is not waited for. What the call returns in
//     the end is dropped, and the next Read starts another.
//   - One whose call failed is in StateNotAnswering or StateLost, and called
//     again by the next Read.
//   - One that sleeps is in StateAsleep, and not called.
//
// One goroutine at a time may call Read. Devices that are no longer given are
// forgotten once they have no call under way. After Close it starts no calls.
func (s *Set) Read(ctx context.Context, devices []Device) []gpu.Device {
	s.start(devices)
	for _, d := range devices {
		s.wait(ctx, d.Key)
	}
	return s.collect(devices)
}

// start begins what calls there are to begin.
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

// wait returns when the device's call has ended, has passed the deadline, or
// ctx ends and the device is known already.
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
			ended = nil // nothing at all is known of this device
		}
	}
}

// collect says what is known of the devices now, and forgets all others.
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

// Flying is the number of calls under way.
func (s *Set) Flying() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flying
}

// Close makes Read start nothing more, and one that waits return. It does not
// wait: a goroutine whose driver call hangs stays until the driver lets it go.
// Once no call is under way, then is called, where it is not nil: by Close, or
// on the goroutine of the last call. Only the first Close counts.
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
