// Package sourcetest holds the promises that every source of GPU readings
// makes, as one suite: a source's own test runs it on a machine that the
// source can read, recorded, made up or simulated.
//
//	sourcetest.Run(t, sourcetest.Fixture{
//		New:     func(t *testing.T) sourcetest.Source { return nvml.New(…) },
//		Devices: 2,
//		Vendor:  gpu.NVIDIA,
//	})
//
// What can be made to go wrong on the machine is told with hooks; where one is
// nil, its promises are not tested.
package sourcetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A Source is what the sampler reads: it declares the same methods.
type Source interface {
	Name() string
	Read(ctx context.Context) (*gpu.Snapshot, error)
	Close() error
}

// A Fixture is a source's machine. Devices are named by their UUID.
type Fixture struct {
	// New returns a source on a machine whose devices all answer. The
	// suite closes it.
	New func(t *testing.T) Source
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
	// start is for a first reading, which may load the driver.
	start = 5 * time.Second
	// patience is for readings after it, slack what they may take longer.
	patience = 200 * time.Millisecond
	slack    = 2 * time.Second
	// eventually bounds the wait for a change to be seen.
	eventually = 20 * time.Second
)

// Run runs the suite.
func Run(t *testing.T, f Fixture) {
	t.Run("Identity", f.identity)
	t.Run("Bounds", f.bounds)
	t.Run("Patience", f.patience)
	t.Run("Snapshots stay", f.snapshotsStay)
	t.Run("Close", f.close)
	optional := func(name string, test func(*testing.T), hooks ...any) {
		if !slices.ContainsFunc(hooks, func(h any) bool { return reflect.ValueOf(h).IsNil() }) {
			t.Run(name, test)
		}
	}
	optional("Zero", f.zero, f.Idle)
	optional("Hang", f.hang, f.Hang, f.Release)
	optional("Lost", f.lost, f.Lose, f.Return)
	optional("Sleep", f.sleep, f.Sleep, f.Wake)
	optional("No driver", f.noDriver, f.Break, f.Repair)
}

// open returns a source and its first reading, which must be whole.
func (f Fixture) open(t *testing.T) (Source, *gpu.Snapshot) {
	t.Helper()
	src := f.New(t)
	t.Cleanup(func() {
		if err := src.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	snap, err := read(t, src, start)
	if err != nil {
		t.Fatalf("the first reading failed: %v", err)
	}
	if len(snap.Devices) != f.Devices {
		t.Fatalf("the first reading has %d devices, want %d", len(snap.Devices), f.Devices)
	}
	for _, d := range snap.Devices {
		if d.State != gpu.StateOK {
			t.Fatalf("device %s is %s (%s), want ok", d.UUID, d.State, d.Reason.Text())
		}
	}
	return src, snap
}

func read(t *testing.T, src Source, patience time.Duration) (*gpu.Snapshot, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return src.Read(ctx)
}

// await reads until the condition holds.
func await(t *testing.T, src Source, what string, holds func(*gpu.Snapshot, error) bool) {
	t.Helper()
	end := time.Now().Add(eventually)
	pause := time.NewTicker(5 * time.Millisecond)
	defer pause.Stop()
	for {
		snap, err := read(t, src, patience)
		if holds(snap, err) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after %v still not: %s; the last reading is %s, %v", eventually, what, describe(snap), err)
		}
		<-pause.C
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
func find(t *testing.T, src Source, uuid, what string, holds func(*gpu.Device) bool) (found *gpu.Device) {
	t.Helper()
	await(t, src, uuid+" "+what, func(snap *gpu.Snapshot, _ error) bool {
		if snap == nil {
			return false
		}
		d, ok := snap.Device(uuid)
		found = d
		return ok && holds(d)
	})
	for _, problem := range Check(found) {
		t.Error(problem)
	}
	return found
}

// inState waits until the device is in the state.
func inState(t *testing.T, src Source, uuid string, state gpu.State) *gpu.Device {
	t.Helper()
	return find(t, src, uuid, "is "+string(state), func(d *gpu.Device) bool { return d.State == state })
}

func (f Fixture) identity(t *testing.T) {
	src, snap := f.open(t)
	if src.Name() == "" || snap.Source != src.Name() {
		t.Errorf("the source is %q and its snapshot's %q, want the same name", src.Name(), snap.Source)
	}
	for _, d := range snap.Drivers {
		if d.Source != src.Name() {
			t.Errorf("a driver is of source %q, want %q", d.Source, src.Name())
		}
	}
	seen := map[string]bool{}
	for _, d := range snap.Devices {
		if d.UUID == "" || seen[d.UUID] {
			t.Errorf("UUID %q is empty or has come before", d.UUID)
		}
		seen[d.UUID] = true
		if d.Name == "" {
			t.Errorf("%s has no name", d.UUID)
		}
		if d.Source != src.Name() {
			t.Errorf("%s is of source %q, want %q", d.UUID, d.Source, src.Name())
		}
		if d.Vendor == "" || f.Vendor != "" && d.Vendor != f.Vendor {
			t.Errorf("%s is made by %q, want %q", d.UUID, d.Vendor, f.Vendor)
		}
	}
	again, err := read(t, src, start)
	if err != nil {
		t.Fatal(err)
	}
	for i, d := range again.Devices {
		if before := snap.Devices[i].Identity; d.UUID != before.UUID || d.Name != before.Name || d.PCI != before.PCI {
			t.Errorf("device %d is %s %q at %s, and was %s %q at %s", i, d.UUID, d.Name, d.PCI, before.UUID, before.Name, before.PCI)
		}
	}
}

func (f Fixture) bounds(t *testing.T) {
	src, first := f.open(t)
	second, err := read(t, src, start)
	if err != nil {
		t.Fatal(err)
	}
	for _, snap := range []*gpu.Snapshot{first, second} {
		for i := range snap.Devices {
			for _, problem := range Check(&snap.Devices[i]) {
				t.Error(problem)
			}
		}
	}
}

func (f Fixture) patience(t *testing.T) {
	src, _ := f.open(t)
	within := func(what string, limit time.Duration, ctx context.Context) {
		t.Helper()
		begun := time.Now()
		_, _ = src.Read(ctx) // whether it could read anything is not the question
		if took := time.Since(begun); took > limit+slack {
			t.Errorf("with %s Read took %v", what, took)
		}
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	within("a canceled context", 0, canceled)
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	within("a context of 1ms", time.Millisecond, short)
}

// snapshotsStay: what was returned is the caller's and does not change.
func (f Fixture) snapshotsStay(t *testing.T) {
	src, first := f.open(t)
	text := func() []string { return strings.SplitAfter(fmt.Sprintf("%#v", first), ", ") }
	before := text()
	for range 3 {
		if _, err := read(t, src, start); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(before, text()); diff != "" {
		t.Errorf("a snapshot changed after it was returned (-before +after):\n%s", diff)
	}
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
		if err := src.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
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
		if v, ok := fan.Commanded.Get(); !ok || v != 0 {
			t.Errorf("fan %d is commanded to %v, want a reported 0", i, fan.Commanded)
		}
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
	if took := time.Since(begun); took > patience+slack {
		t.Errorf("Read took %v while a device hangs", took)
	}
	if err != nil {
		t.Errorf("Read: %v", err)
	}
	fresh(t, snap, begun, uuid)
	d := inState(t, src, uuid, gpu.StateNotAnswering)
	if d.Since.Before(begun.Add(-slack)) {
		t.Errorf("it is not answering since %v, and hangs since %v", d.Since, begun)
	}
	begun = time.Now()
	snap, _ = read(t, src, patience)
	fresh(t, snap, begun, uuid)

	f.Release(t, uuid)
	d = inState(t, src, uuid, gpu.StateOK)
	if !d.Since.After(since) {
		t.Errorf("it is back since %v, which is not after %v", d.Since, since)
	}
	if d.SampledAt.Before(begun) {
		t.Errorf("it is back with readings of %v, from before it was let go", d.SampledAt)
	}
}

// fresh: all devices but one were read since begun.
func fresh(t *testing.T, snap *gpu.Snapshot, begun time.Time, but string) {
	t.Helper()
	if snap == nil {
		t.Error("no snapshot while a device hangs")
		return
	}
	for _, d := range snap.Devices {
		if d.UUID != but && (d.State != gpu.StateOK || d.SampledAt.Before(begun)) {
			t.Errorf("%s is %s, sampled at %v, while another device hangs since %v", d.UUID, d.State, d.SampledAt, begun)
		}
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
	if back.Since.Before(d.Since) {
		t.Errorf("it is back since %v, before it was lost at %v", back.Since, d.Since)
	}
}

func (f Fixture) sleep(t *testing.T) {
	src, snap := f.open(t)
	uuid := snap.Devices[0].UUID
	f.Sleep(t, uuid)
	inState(t, src, uuid, gpu.StateAsleep)
	if _, err := read(t, src, patience); err != nil {
		t.Errorf("a sleeping device is an error: %v", err)
	}
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
	if !ok || advice.What == "" || advice.Try == "" {
		t.Errorf("the error %v says not what happened and what to try", failure)
	}
	sentinels := []error{gpu.ErrNoDriver, gpu.ErrVersionMismatch, gpu.ErrNotPermitted, gpu.ErrNotAnswering, gpu.ErrNoDevices}
	if !slices.ContainsFunc(sentinels, func(s error) bool { return errors.Is(failure, s) }) {
		t.Errorf("the error %v is none of package gpu's", failure)
	}
	f.Repair(t)
	await(t, src, "all devices are back", func(snap *gpu.Snapshot, err error) bool {
		return err == nil && snap != nil && len(snap.Devices) == f.Devices &&
			!slices.ContainsFunc(snap.Devices, func(d gpu.Device) bool { return d.State != gpu.StateOK })
	})
}
