// Package sourcetest tests the promises that every source of GPU readings makes. A source's own test runs this suite on a machine that the
// source can read: recorded, made up or simulated.
//
//	sourcetest.Run(t, sourcetest.Fixture{
//		New:      func(t *testing.T, clock *clockwork.FakeClock) sampler.Source { return nvml.New(…) },
//		Devices:  2,
//		Vendor:   gpu.NVIDIA,
//		Deadline: 2 * time.Second,
//	})
//
// Hooks make things go wrong on the machine. If a hook is nil, the suite does not test the promises about it.
//
// The source uses a fake clock, which the suite moves. The clock stands still while healthy devices are being read, so they are never late,
// however long that takes on a busy machine. Deadlines pass when the suite moves the clock.
package sourcetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jonboulle/clockwork"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/sampler"
)

// A Fixture is a source's machine. Devices are named by their UUID.
type Fixture struct {
	// New returns a source on a machine whose devices all answer. All its times and deadlines use the clock. The suite closes it.
	New func(t *testing.T, clock *clockwork.FakeClock) sampler.Source
	// Devices is the number of devices in the machine.
	Devices int
	// Vendor is the vendor of all of them; empty if they differ.
	Vendor gpu.Vendor
	// Deadline is the source's: a device that does not answer for that long is slow. Time passes in steps of a sixteenth of it. Zero: the
	// source waits for no device.
	Deadline time.Duration

	// Idle makes a device idle: its utilization is 0, and its fans, if any, have a commanded speed of 0.
	Idle func(t *testing.T, uuid string)
	// Hang makes a device's driver calls hang; Release lets them go on. If the source then reads the other devices only after a while, Hang
	// advances the clock by that time.
	Hang, Release func(t *testing.T, uuid string)
	// Lose takes a device off the bus; Return brings it back.
	Lose, Return func(t *testing.T, uuid string)
	// Sleep powers a device down; Wake powers it up. Wake should fail the test if a driver call was made for the device since Sleep.
	Sleep, Wake func(t *testing.T, uuid string)
	// Break takes the driver away; Repair brings it back.
	Break, Repair func(t *testing.T)
}

const (
	// moment is the least time between two readings on the fake clock.
	moment = time.Millisecond
	// glance is the real time after which a Read that waits for a hanging device is ended: the fake clock stands still, and so does its
	// deadline. A healthy device that needs longer is read again.
	glance = 20 * time.Millisecond
)

// Run runs the suite.
func Run(t *testing.T, f Fixture) {
	for _, promise := range []struct {
		name string
		can  bool
		test func(*subject)
	}{
		{"Identity", true, (*subject).identity},
		{"Bounds", true, (*subject).bounds},
		{"Patience", true, (*subject).patience},
		{"Snapshots stay", true, (*subject).snapshotsStay},
		{"Close", true, (*subject).close},
		{"Zero", f.Idle != nil, (*subject).zero},
		{"Hang", f.Hang != nil, func(s *subject) { s.leaves(gpu.StateNotAnswering, f.Hang, f.Release) }},
		{"Lost", f.Lose != nil, func(s *subject) { s.leaves(gpu.StateLost, f.Lose, f.Return) }},
		{"Sleep", f.Sleep != nil, func(s *subject) { s.leaves(gpu.StateAsleep, f.Sleep, f.Wake) }},
		{"No driver", f.Break != nil, (*subject).noDriver},
	} {
		if promise.can {
			t.Run(promise.name, func(t *testing.T) { promise.test(f.open(t)) })
		}
	}
}

// A subject is a source under test.
type subject struct {
	*testing.T
	Fixture
	deadline time.Duration
	clock    *clockwork.FakeClock
	src      sampler.Source
	first    *gpu.Snapshot // its first complete reading
}

func (f Fixture) open(t *testing.T) *subject {
	t.Helper()
	clock := clockwork.NewFakeClock()
	s := &subject{T: t, Fixture: f, deadline: f.Deadline, clock: clock, src: f.New(t, clock)}
	if s.deadline == 0 {
		s.deadline = time.Second
	}
	t.Cleanup(s.closeSource)
	r := s.comesBack(func() reading { return s.readWith(t.Context()) })
	if s.first = r.snap; !s.whole(r) {
		t.Fatalf("the first reading is %s; want %d devices that are ok", r, f.Devices)
	}
	return s
}

// expect fails the test unless ok; the test goes on.
func (s *subject) expect(ok bool, format string, args ...any) {
	s.Helper()
	if !ok {
		s.Errorf(format, args...)
	}
}

func (s *subject) closeSource() {
	closed := make(chan error, 1)
	go func() { closed <- s.src.Close() }()
	err := testkit.Receive(s, "Close to come back", closed)
	s.expect(err == nil, "Close: %v", err)
}

// A reading is what Read returned.
type reading struct {
	snap *gpu.Snapshot
	err  error
	cut  bool // its context had ended
}

func (r reading) String() string {
	var out strings.Builder
	if r.snap == nil {
		out.WriteString("none")
	} else {
		fmt.Fprintf(&out, "%d devices:", len(r.snap.Devices))
		for _, d := range r.snap.Devices {
			fmt.Fprintf(&out, " %s %s of %s (%s);", d.UUID, d.State, d.SampledAt.Format("15:04:05.000"), d.Reason.Text())
		}
	}
	fmt.Fprintf(&out, " error: %v", r.err)
	return out.String()
}

func (s *subject) whole(r reading) bool {
	return r.err == nil && len(r.snap.Devices) == s.Devices &&
		!slices.ContainsFunc(r.snap.Devices, func(d gpu.Device) bool { return d.State != gpu.StateOK })
}

// dated is a context with a deadline on the fake clock.
type dated struct {
	context.Context
	deadline time.Time
}

// Deadline is on the fake clock.
func (d dated) Deadline() (time.Time, bool) { return d.deadline, true }

// readWith reads with a context that ends in real time, and has a deadline on the fake clock.
func (s *subject) readWith(ctx context.Context) reading {
	snap, err := s.src.Read(dated{ctx, s.clock.Now().Add(s.deadline)})
	return reading{snap, err, ctx.Err() != nil}
}

// glanceAt waits for the devices, but only briefly in real time.
func (s *subject) glanceAt() reading {
	ctx, cancel := context.WithTimeout(s.Context(), glance)
	defer cancel()
	return s.readWith(ctx)
}

// comesBack fails the test if the reading never returns.
func (s *subject) comesBack(read func() reading) reading {
	s.Helper()
	done := make(chan reading, 1)
	go func() { done <- read() }()
	return testkit.Receive(s, "Read to come back", done)
}

func (s *subject) read() reading {
	s.Helper()
	return s.comesBack(s.glanceAt)
}

// live waits for a reading with current values in which all devices except one are ok. The clock stands still meanwhile.
func (s *subject) live(but string) *gpu.Snapshot {
	s.Helper()
	s.clock.Advance(moment)
	now := s.clock.Now()
	stale := func(d gpu.Device) bool {
		return d.UUID != but && (d.State != gpu.StateOK || d.SampledAt.Before(now))
	}
	var last reading
	testkit.Until(s, "a reading of "+now.Format("15:04:05.000")+" of all devices but "+but, func() bool {
		last = s.read()
		return last.err == nil && len(last.snap.Devices) == s.Devices && !slices.ContainsFunc(last.snap.Devices, stale)
	}, func() string { return last.String() })
	return last.snap
}

// again returns another complete reading.
func (s *subject) again() (snap *gpu.Snapshot) {
	s.Helper()
	s.await("another whole reading", func(r reading) bool {
		snap = r.snap
		return s.whole(r)
	})
	return snap
}

// await reads until the condition holds. The clock moves while Read waits for no device.
func (s *subject) await(what string, holds func(reading) bool) {
	s.Helper()
	var last reading
	testkit.Until(s, what, func() bool {
		last = s.read()
		if !last.cut {
			s.clock.Advance(s.deadline / 16)
		}
		return holds(last)
	}, func() string { return last.String() })
}

// becomes waits until a device is in a state, and checks it. The others stay live meanwhile, while the clock moves only a little.
func (s *subject) becomes(uuid string, state gpu.State) (d *gpu.Device) {
	s.Helper()
	testkit.Until(s, uuid+" is "+string(state), func() bool {
		d, _ = s.live(uuid).Device(uuid)
		if d != nil && d.State == state {
			return true
		}
		s.clock.Advance(s.deadline / 100)
		return false
	}, func() any { return d })
	s.check(d)
	return d
}

// hangs waits until a device is not answering: after exactly two deadlines. The others stay live meanwhile.
func (s *subject) hangs(uuid string) *gpu.Device {
	s.Helper()
	step := s.deadline / 16
	for range 2*16 + 2 {
		if d, ok := s.live(uuid).Device(uuid); ok && d.State == gpu.StateNotAnswering {
			s.check(d)
			return d
		}
		s.clock.Advance(step)
	}
	s.Fatalf("%s hangs for more than two deadlines of %v, and is not %s", uuid, s.deadline, gpu.StateNotAnswering)
	return nil
}

func (s *subject) check(d *gpu.Device) {
	s.Helper()
	for _, problem := range Check(d, s.clock.Now()) {
		s.Error(problem)
	}
}

func (s *subject) identity() {
	name := s.src.Name()
	named := name != "" && s.first.Source == name
	s.expect(named, "the source is %q and its snapshot's %q, want the same name", name, s.first.Source)
	for _, d := range s.first.Drivers {
		s.expect(d.Source == name, "a driver is of source %q, want %q", d.Source, name)
	}
	seen := map[string]bool{}
	for _, d := range s.first.Devices {
		s.expect(d.UUID != "" && !seen[d.UUID], "UUID %q is empty or has come before", d.UUID)
		seen[d.UUID] = true
		s.expect(d.Name != "", "%s has no name", d.UUID)
		s.expect(d.Source == name, "%s is of source %q, want %q", d.UUID, d.Source, name)
		s.expect(d.Vendor != "", "%s is made by nobody", d.UUID)
		s.expect(s.Vendor == "" || d.Vendor == s.Vendor, "%s is made by %q, want %q", d.UUID, d.Vendor, s.Vendor)
	}
	for i, d := range s.again().Devices {
		before := s.first.Devices[i].Identity
		same := d.UUID == before.UUID && d.Name == before.Name && d.PCI == before.PCI
		s.expect(same, "device %d is %+v, and was %+v", i, d.Identity, before)
	}
}

func (s *subject) bounds() {
	for _, snap := range []*gpu.Snapshot{s.first, s.again()} {
		for i := range snap.Devices {
			s.check(&snap.Devices[i])
		}
	}
}

// patience checks that Read returns when its context ends, even immediately, whether or not it read anything.
func (s *subject) patience() {
	s.Helper()
	canceled, cancel := context.WithCancel(s.Context())
	cancel()
	short, cancel := context.WithTimeout(s.Context(), time.Millisecond)
	defer cancel()
	for _, ctx := range []context.Context{canceled, short} {
		s.clock.Advance(moment)
		s.comesBack(func() reading { return s.readWith(ctx) })
	}
}

// snapshotsStay checks that returned snapshots never change.
func (s *subject) snapshotsStay() {
	text := func() []string { return strings.SplitAfter(fmt.Sprintf("%#v", s.first), ", ") }
	before := text()
	for range 3 {
		s.again()
	}
	diff := cmp.Diff(before, text())
	s.expect(diff == "", "a snapshot changed after it was returned (-before +after):\n%s", diff)
}

// close checks that Close may be called at any time, and that neither Close nor a Read hangs because of it.
func (s *subject) close() {
	read := make(chan struct{})
	go func() {
		defer close(read)
		for range 5 {
			s.glanceAt() // it may fail, but must return
		}
	}()
	s.closeSource()
	testkit.Receive(s, "Read to come back beside Close", read)
}

func (s *subject) zero() {
	uuid := s.first.Devices[0].UUID
	s.Idle(s.T, uuid)
	var d *gpu.Device
	moves := func(f gpu.Fan) bool { return f.Commanded.Or(-1) != 0 }
	testkit.Until(s, "a reported utilization of 0, and fans that are commanded to a reported 0", func() bool {
		d, _ = s.live("").Device(uuid)
		s.clock.Advance(s.deadline / 16)
		return d != nil && d.Utilization.GPU == gpu.Of[gpu.Percent](0) && !slices.ContainsFunc(d.Fans.Fans, moves)
	}, func() string { return fmt.Sprintf("%v, %+v", d.Utilization.GPU, d.Fans.Fans) })
	s.check(d)
}

// leaves checks that an unreadable device holds up neither Read nor the others, and is live in the first reading after it recovers.
func (s *subject) leaves(state gpu.State, begin, end func(*testing.T, string)) {
	uuid := s.first.Devices[0].UUID
	s.live("")
	left := s.clock.Now() // also for a call running now
	begin(s.T, uuid)
	s.live(uuid)
	s.patience()
	var d *gpu.Device
	if state == gpu.StateNotAnswering {
		d = s.hangs(uuid)
	} else {
		d = s.becomes(uuid, state)
	}
	s.expect(!d.Since.Before(left), "it is %s since %v, and was made so at %v", state, d.Since, left)

	known := s.clock.Now() // also for a call running now, unless it hangs
	s.live(uuid)
	s.patience()
	end(s.T, uuid)
	d = s.becomes(uuid, gpu.StateOK)
	s.expect(!d.Since.Before(left), "it is back since %v, and was made %s at %v", d.Since, state, left)
	s.expect(!d.SampledAt.Before(known), "it is back with readings of %v, and was %s at %v", d.SampledAt, state, known)
}

func (s *subject) noDriver() {
	s.Break(s.T)
	var failure error
	s.await("an error of the driver", func(r reading) bool {
		failure = r.err
		return r.err != nil && (r.snap == nil || len(r.snap.Devices) == 0)
	})
	advice, ok := errors.AsType[*gpu.Advice](failure)
	s.expect(ok && advice.What != "" && advice.Try != "", "the error %v says not what happened and what to try", failure)
	sentinels := []error{
		gpu.ErrNoLibrary, gpu.ErrNoDriver, gpu.ErrVersionMismatch, gpu.ErrNotPermitted, gpu.ErrNotAnswering, gpu.ErrNoDevices,
	}
	known := slices.ContainsFunc(sentinels, func(s error) bool { return errors.Is(failure, s) })
	s.expect(known, "the error %v is none of package gpu's", failure)
	s.Repair(s.T)
	s.await("all devices are back", s.whole)
}
