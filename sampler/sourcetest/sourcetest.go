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
	// commanded speed of 0. Nil: not tested.
	Idle func(t *testing.T, uuid string)
	// Hang makes a device's driver calls hang, Release lets them go.
	Hang, Release func(t *testing.T, uuid string)
	// Lose takes a device off the bus, Return brings it back.
	Lose, Return func(t *testing.T, uuid string)
	// Sleep powers a device down, Wake up.
	Sleep, Wake func(t *testing.T, uuid string)
	// Untouched fails the test if a driver call was made for the device
	// since Sleep. Nil: not tested.
	Untouched func(t *testing.T, uuid string)
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
	t.Run("Identity", f.identity)
	t.Run("Bounds", f.bounds)
	t.Run("Patience", f.patience)
	t.Run("Snapshots stay", f.snapshotsStay)
	t.Run("Close", f.close)
	optional := func(name string, can bool, test func(*testing.T)) {
		if can {
			t.Run(name, test)
		}
	}
	optional("Zero", f.Idle != nil, f.zero)
	optional("Hang", f.Hang != nil, f.hang)
	optional("Lost", f.Lose != nil, f.lost)
	optional("Sleep", f.Sleep != nil, f.sleep)
	optional("No driver", f.Break != nil, f.noDriver)
}

// expect fails the test unless ok, and lets it go on.
func expect(t *testing.T, ok bool, format string, args ...any) {
	t.Helper()
	if !ok {
		t.Errorf(format, args...)
	}
}

// open returns a source and its first reading, which must be whole.
func (f Fixture) open(t *testing.T) (sampler.Source, *gpu.Snapshot) {
	t.Helper()
	src := f.New(t)
	t.Cleanup(func() { closed(t, src) })
	snap, err := read(t, src, start)
	if !f.whole(snap, err) {
		t.Fatalf("the first reading is %s, %v; want %d devices that are ok", describe(snap), err, f.Devices)
	}
	return src, snap
}

func (f Fixture) whole(snap *gpu.Snapshot, err error) bool {
	return err == nil && len(snap.Devices) == f.Devices &&
		!slices.ContainsFunc(snap.Devices, func(d gpu.Device) bool { return d.State != gpu.StateOK })
}

func closed(t *testing.T, src sampler.Source) {
	err := src.Close()
	expect(t, err == nil, "Close: %v", err)
}

func read(t *testing.T, src sampler.Source, patience time.Duration) (*gpu.Snapshot, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return src.Read(ctx)
}

// await reads until the condition holds.
func await(t *testing.T, src sampler.Source, what string, holds func(*gpu.Snapshot, error) bool) {
	t.Helper()
	for end := time.Now().Add(eventually); ; time.Sleep(5 * time.Millisecond) {
		snap, err := read(t, src, patience)
		if holds(snap, err) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after %v still not: %s; the last reading is %s, %v", eventually, what, describe(snap), err)
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
func find(t *testing.T, src sampler.Source, uuid, what string, holds func(*gpu.Device) bool) (found *gpu.Device) {
	t.Helper()
	await(t, src, uuid+" "+what, func(snap *gpu.Snapshot, _ error) bool {
		if snap == nil {
			return false
		}
		d, ok := snap.Device(uuid)
		found = d
		return ok && holds(d)
	})
	check(t, found)
	return found
}

func check(t *testing.T, d *gpu.Device) {
	t.Helper()
	for _, problem := range Check(d) {
		t.Error(problem)
	}
}

// inState waits until the device is in the state.
func inState(t *testing.T, src sampler.Source, uuid string, state gpu.State) *gpu.Device {
	t.Helper()
	return find(t, src, uuid, "is "+string(state), func(d *gpu.Device) bool { return d.State == state })
}

func (f Fixture) identity(t *testing.T) {
	src, snap := f.open(t)
	name := src.Name()
	expect(t, name != "" && snap.Source == name, "the source is %q and its snapshot's %q, want the same name", name, snap.Source)
	for _, d := range snap.Drivers {
		expect(t, d.Source == name, "a driver is of source %q, want %q", d.Source, name)
	}
	seen := map[string]bool{}
	for _, d := range snap.Devices {
		expect(t, d.UUID != "" && !seen[d.UUID], "UUID %q is empty or has come before", d.UUID)
		seen[d.UUID] = true
		expect(t, d.Name != "", "%s has no name", d.UUID)
		expect(t, d.Source == name, "%s is of source %q, want %q", d.UUID, d.Source, name)
		expect(t, d.Vendor != "", "%s is made by nobody", d.UUID)
		expect(t, f.Vendor == "" || d.Vendor == f.Vendor, "%s is made by %q, want %q", d.UUID, d.Vendor, f.Vendor)
	}
	for i, d := range again(t, src).Devices {
		before := snap.Devices[i].Identity
		same := d.UUID == before.UUID && d.Name == before.Name && d.PCI == before.PCI
		expect(t, same, "device %d is %+v, and was %+v", i, d.Identity, before)
	}
}

func again(t *testing.T, src sampler.Source) *gpu.Snapshot {
	t.Helper()
	snap, err := read(t, src, start)
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

func (f Fixture) bounds(t *testing.T) {
	src, first := f.open(t)
	for _, snap := range []*gpu.Snapshot{first, again(t, src)} {
		for i := range snap.Devices {
			check(t, &snap.Devices[i])
		}
	}
}

func (f Fixture) patience(t *testing.T) {
	src, _ := f.open(t)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	for what, ctx := range map[string]context.Context{"a canceled context": canceled, "a context of 1ms": short} {
		begun := time.Now()
		_, _ = src.Read(ctx) // whether it could read anything is not the question
		took := time.Since(begun)
		expect(t, took <= time.Millisecond+slack, "with %s Read took %v", what, took)
	}
}

// snapshotsStay: what was returned does not change.
func (f Fixture) snapshotsStay(t *testing.T) {
	src, first := f.open(t)
	text := func() []string { return strings.SplitAfter(fmt.Sprintf("%#v", first), ", ") }
	before := text()
	for range 3 {
		again(t, src)
	}
	diff := cmp.Diff(before, text())
	expect(t, diff == "", "a snapshot changed after it was returned (-before +after):\n%s", diff)
}

// close: Close may come at any time, and neither it nor a Read hangs on it.
func (f Fixture) close(t *testing.T) {
	src, _ := f.open(t)
	done := make(chan struct{}, 2)
	go func() {
		for range 5 {
			_, _ = read(t, src, patience) // it may fail, and has to come back
		}
		done <- struct{}{}
	}()
	go func() {
		closed(t, src)
		done <- struct{}{}
	}()
	end := time.After(eventually)
	for range 2 {
		select {
		case <-done:
		case <-end:
			t.Fatal("Close and Read at the same time do not come back")
		}
	}
}

func (f Fixture) zero(t *testing.T) {
	src, snap := f.open(t)
	uuid := snap.Devices[0].UUID
	f.Idle(t, uuid)
	d := find(t, src, uuid, "has a reported utilization of 0", func(d *gpu.Device) bool {
		return d.Utilization.GPU == gpu.Of[gpu.Percent](0)
	})
	for i, fan := range d.Fans.Fans {
		expect(t, fan.Commanded.Or(-1) == 0, "fan %d is commanded to %v, want a reported 0", i, fan.Commanded)
	}
}

// hang: a device that hangs holds up neither Read nor the others, and is live
// in the first reading after it let go.
func (f Fixture) hang(t *testing.T) {
	src, snap := f.open(t)
	uuid, since := snap.Devices[0].UUID, snap.Devices[0].Since
	f.Hang(t, uuid)
	begun := time.Now()
	snap, err := read(t, src, patience)
	took := time.Since(begun)
	expect(t, took <= patience+slack, "Read took %v while a device hangs", took)
	expect(t, err == nil, "Read: %v", err)
	fresh(t, snap, begun, uuid)
	d := inState(t, src, uuid, gpu.StateNotAnswering)
	expect(t, !d.Since.Before(begun.Add(-slack)), "it is not answering since %v, and hangs since %v", d.Since, begun)
	begun = time.Now()
	snap, _ = read(t, src, patience)
	fresh(t, snap, begun, uuid)

	f.Release(t, uuid)
	d = inState(t, src, uuid, gpu.StateOK)
	expect(t, d.Since.After(since), "it is back since %v, which is not after %v", d.Since, since)
	expect(t, !d.SampledAt.Before(begun), "it is back with readings of %v, from before it was let go", d.SampledAt)
}

// fresh: all devices but one were read since begun.
func fresh(t *testing.T, snap *gpu.Snapshot, begun time.Time, but string) {
	t.Helper()
	if snap == nil {
		t.Error("no snapshot while a device hangs")
		return
	}
	for _, d := range snap.Devices {
		live := d.State == gpu.StateOK && !d.SampledAt.Before(begun)
		expect(t, live || d.UUID == but, "%s is %s, sampled at %v, while another device hangs since %v",
			d.UUID, d.State, d.SampledAt, begun)
	}
}

func (f Fixture) lost(t *testing.T) {
	src, snap := f.open(t)
	uuid := snap.Devices[0].UUID
	f.Lose(t, uuid)
	d := inState(t, src, uuid, gpu.StateLost)
	begun := time.Now()
	snap, _ = read(t, src, patience)
	fresh(t, snap, begun, uuid)
	f.Return(t, uuid)
	back := inState(t, src, uuid, gpu.StateOK)
	expect(t, !back.Since.Before(d.Since), "it is back since %v, before it was lost at %v", back.Since, d.Since)
}

func (f Fixture) sleep(t *testing.T) {
	src, snap := f.open(t)
	uuid := snap.Devices[0].UUID
	f.Sleep(t, uuid)
	inState(t, src, uuid, gpu.StateAsleep)
	_, err := read(t, src, patience)
	expect(t, err == nil, "a sleeping device is an error: %v", err)
	if f.Untouched != nil {
		f.Untouched(t, uuid)
	}
	f.Wake(t, uuid)
	inState(t, src, uuid, gpu.StateOK)
}

func (f Fixture) noDriver(t *testing.T) {
	src, _ := f.open(t)
	f.Break(t)
	var failure error
	await(t, src, "an error of the driver", func(snap *gpu.Snapshot, err error) bool {
		failure = err
		return err != nil && (snap == nil || len(snap.Devices) == 0)
	})
	advice, ok := errors.AsType[*gpu.Advice](failure)
	expect(t, ok && advice.What != "" && advice.Try != "", "the error %v says not what happened and what to try", failure)
	sentinels := []error{gpu.ErrNoLibrary, gpu.ErrNoDriver, gpu.ErrVersionMismatch, gpu.ErrNotPermitted, gpu.ErrNotAnswering, gpu.ErrNoDevices}
	known := slices.ContainsFunc(sentinels, func(s error) bool { return errors.Is(failure, s) })
	expect(t, known, "the error %v is none of package gpu's", failure)
	f.Repair(t)
	await(t, src, "all devices are back", f.whole)
}
