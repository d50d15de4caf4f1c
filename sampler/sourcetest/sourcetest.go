// Package sourcetest holds the promises that every source of GPU readings
// makes, as one suite: a source's own test runs it on a machine that the
// source can read, recorded, made up or simulated.
//
//	sourcetest.Run(t, sourcetest.Fixture{
//		New:     func(t *testing.T) sampler.Source { return nvml.New(…) },
//		Devices: 2,
//		Vendor:  gpu.NVIDIA,
//	})
//
// Hooks make things go wrong on the machine. If a hook is nil, the suite does not
// test the promises about it.
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

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler"
)

// A Fixture is a source's machine. Devices are named by their UUID.
type Fixture struct {
	// New returns a source on a machine whose devices all answer. The
	// suite closes it.
	New func(t *testing.T) sampler.Source
	// Devices is how many the machine has.
	Devices int
	// Vendor is who made all of them; empty where it differs.
	Vendor gpu.Vendor

	// Idle makes a device idle: utilization 0, and what fans it has with a
	// commanded speed of 0.
	Idle func(t *testing.T, uuid string)
	// Hang makes a device's driver calls hang, Release lets them go.
	Hang, Release func(t *testing.T, uuid string)
	// Lose takes a device off the bus, Return brings it back.
	Lose, Return func(t *testing.T, uuid string)
	// Sleep powers a device down, Wake up. Wake should fail the test if a driver
	// call was made for the device since Sleep.
	Sleep, Wake func(t *testing.T, uuid string)
	// Break takes the driver away, Repair brings it back.
	Break, Repair func(t *testing.T)
}

const (
	start      = 5 * time.Second        // for a first reading, which may load the driver
	patience   = 200 * time.Millisecond // for readings after it
	slack      = 2 * time.Second        // what they may take longer
	eventually = 20 * time.Second       // a change is seen
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
	src   sampler.Source
	first *gpu.Snapshot // its first reading, which is whole
}

func (f Fixture) open(t *testing.T) *subject {
	t.Helper()
	s := &subject{T: t, Fixture: f, src: f.New(t)}
	t.Cleanup(s.closeSource)
	var err error
	if s.first, err = s.read(start); !s.whole(s.first, err) {
		t.Fatalf("the first reading is %s, %v; want %d devices that are ok", describe(s.first), err, f.Devices)
	}
	return s
}

// expect fails the test unless ok, and lets it go on.
func (s *subject) expect(ok bool, format string, args ...any) {
	s.Helper()
	if !ok {
		s.Errorf(format, args...)
	}
}

func (s *subject) whole(snap *gpu.Snapshot, err error) bool {
	return err == nil && len(snap.Devices) == s.Devices &&
		!slices.ContainsFunc(snap.Devices, func(d gpu.Device) bool { return d.State != gpu.StateOK })
}

func (s *subject) closeSource() {
	err := s.src.Close()
	s.expect(err == nil, "Close: %v", err)
}

func (s *subject) read(patience time.Duration) (*gpu.Snapshot, error) {
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	return s.src.Read(ctx)
}

// again is a reading that has to succeed.
func (s *subject) again() *gpu.Snapshot {
	s.Helper()
	snap, err := s.read(start)
	if err != nil {
		s.Fatal(err)
	}
	return snap
}

// await reads until the condition holds.
func (s *subject) await(what string, holds func(*gpu.Snapshot, error) bool) {
	s.Helper()
	for end := time.Now().Add(eventually); ; time.Sleep(5 * time.Millisecond) {
		snap, err := s.read(patience)
		if holds(snap, err) {
			return
		}
		if time.Now().After(end) {
			s.Fatalf("after %v still not: %s; the last reading is %s, %v", eventually, what, describe(snap), err)
		}
	}
}

func describe(snap *gpu.Snapshot) string {
	if snap == nil {
		return "none"
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%d devices:", len(snap.Devices))
	for _, d := range snap.Devices {
		fmt.Fprintf(&out, " %s %s (%s);", d.UUID, d.State, d.Reason.Text())
	}
	return out.String()
}

// find reads until the condition holds for the device, and checks it.
func (s *subject) find(uuid, what string, holds func(*gpu.Device) bool) (found *gpu.Device) {
	s.Helper()
	s.await(uuid+" "+what, func(snap *gpu.Snapshot, _ error) bool {
		if snap == nil {
			return false
		}
		d, ok := snap.Device(uuid)
		found = d
		return ok && holds(d)
	})
	s.check(found)
	return found
}

func (s *subject) check(d *gpu.Device) {
	s.Helper()
	for _, problem := range Check(d) {
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

func (s *subject) patience() {
	canceled, cancel := context.WithCancel(s.Context())
	cancel()
	short, cancel := context.WithTimeout(s.Context(), time.Millisecond)
	defer cancel()
	for what, ctx := range map[string]context.Context{"a canceled context": canceled, "a context of 1ms": short} {
		begun := time.Now()
		_, _ = s.src.Read(ctx) // whether it could read anything is not the question
		took := time.Since(begun)
		s.expect(took <= time.Millisecond+slack, "with %s Read took %v", what, took)
	}
}

// snapshotsStay: what was returned does not change.
func (s *subject) snapshotsStay() {
	text := func() []string { return strings.SplitAfter(fmt.Sprintf("%#v", s.first), ", ") }
	before := text()
	for range 3 {
		s.again()
	}
	diff := cmp.Diff(before, text())
	s.expect(diff == "", "a snapshot changed after it was returned (-before +after):\n%s", diff)
}

// close: Close may come at any time, and neither it nor a Read hangs on it.
func (s *subject) close() {
	done := make(chan struct{}, 2)
	go func() {
		for range 5 {
			_, _ = s.read(patience) // it may fail, and has to come back
		}
		done <- struct{}{}
	}()
	go func() {
		s.closeSource()
		done <- struct{}{}
	}()
	end := time.After(eventually)
	for range 2 {
		select {
		case <-done:
		case <-end:
			s.Fatal("Close and Read at the same time do not come back")
		}
	}
}

func (s *subject) zero() {
	uuid := s.first.Devices[0].UUID
	s.Idle(s.T, uuid)
	d := s.find(uuid, "has a reported utilization of 0", func(d *gpu.Device) bool {
		return d.Utilization.GPU == gpu.Of[gpu.Percent](0)
	})
	for i, fan := range d.Fans.Fans {
		s.expect(fan.Commanded.Or(-1) == 0, "fan %d is commanded to %v, want a reported 0", i, fan.Commanded)
	}
}

// leaves: a device that can't be read for a while holds up neither Read nor the others,
// and is live in the first reading after that.
func (s *subject) leaves(state gpu.State, begin, end func(*testing.T, string)) {
	uuid, since := s.first.Devices[0].UUID, s.first.Devices[0].Since
	inState := func(state gpu.State) *gpu.Device {
		s.Helper()
		return s.find(uuid, "is "+string(state), func(d *gpu.Device) bool { return d.State == state })
	}
	begin(s.T, uuid)
	left := time.Now()
	s.readOthers(uuid)
	d := inState(state)
	s.expect(!d.Since.Before(left.Add(-slack)), "it is %s since %v, and was made so at %v", state, d.Since, left)
	begun := time.Now()
	s.readOthers(uuid)

	end(s.T, uuid)
	d = inState(gpu.StateOK)
	s.expect(d.Since.After(since), "it is back since %v, which is not after %v", d.Since, since)
	s.expect(!d.SampledAt.Before(begun), "it is back with readings of %v, from before it came back", d.SampledAt)
}

// readOthers: a reading of all devices but one is live and in time.
func (s *subject) readOthers(but string) {
	s.Helper()
	begun := time.Now()
	snap, err := s.read(patience)
	took := time.Since(begun)
	if err != nil || took > patience+slack {
		s.Fatalf("Read took %v without %s: %v", took, but, err)
	}
	for _, d := range snap.Devices {
		live := d.State == gpu.StateOK && !d.SampledAt.Before(begun)
		s.expect(live || d.UUID == but, "%s is %s, sampled at %v, without another device since %v",
			d.UUID, d.State, d.SampledAt, begun)
	}
}

func (s *subject) noDriver() {
	s.Break(s.T)
	var failure error
	s.await("an error of the driver", func(snap *gpu.Snapshot, err error) bool {
		failure = err
		return err != nil && (snap == nil || len(snap.Devices) == 0)
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
