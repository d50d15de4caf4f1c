package nvidia

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A way is a source with scripted answers.
type way struct {
	name   string
	err    error
	snap   *gpu.Snapshot
	reads  int
	closed bool
}

func (w *way) Name() string { return w.name }
func (w *way) Close() error { w.closed = true; return nil }

func (w *way) Read(context.Context) (*gpu.Snapshot, error) {
	w.reads++
	if w.snap == nil {
		return nil, w.err
	}
	s := *w.snap
	return &s, w.err
}

var (
	missing = &gpu.Advice{What: "the library was not found", Try: "install it", Err: gpu.ErrNoLibrary}
	one     = &gpu.Snapshot{Devices: []gpu.Device{{Identity: gpu.Identity{UUID: "GPU-1"}}}}
)

func TestEitherReadsTheProgramWhileTheLibraryIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		library, program := &way{name: "nvml", err: missing}, &way{name: "nvidia-smi", snap: one}
		made := 0
		e := &Either{Library: library, Program: func() Source { made++; return program }}
		for range 3 {
			snap, err := e.Read(t.Context())
			if err != nil || len(snap.Devices) != 1 || e.Name() != "nvidia-smi" {
				t.Fatalf("%v %v %s", snap, err, e.Name())
			}
			if len(snap.Notes) != 1 || snap.Notes[0].Try != "install it" {
				t.Errorf("notes %v", snap.Notes)
			}
			time.Sleep(5 * time.Second)
		}
		if library.reads != 1 || made != 1 {
			t.Errorf("the library was tried %d times, %d programs", library.reads, made)
		}
		library.snap, library.err = one, nil
		time.Sleep(lookAgain)
		if snap, err := e.Read(t.Context()); err != nil || len(snap.Notes) != 0 || e.Name() != "nvml" || !program.closed {
			t.Errorf("%v %v %s, the program is closed: %v", snap, err, e.Name(), program.closed)
		}
	})
}

func TestEitherSaysWhyTheLibraryFailsWhereThereIsNoProgram(t *testing.T) {
	program := &way{name: "nvidia-smi", err: &gpu.Advice{What: "not found", Err: gpu.ErrNoLibrary}}
	e := &Either{Library: &way{name: "nvml", err: missing}, Program: func() Source { return program }, SysfsRoot: t.TempDir()}
	_, err := e.Read(t.Context())
	if a := gpu.AsAdvice(err); a.What != missing.What || e.Name() != "nvml" || !program.closed || errors.Is(err, gpu.ErrNoCard) {
		t.Errorf("%v, by %s", err, e.Name())
	}
}

// A library that exists but fails is not replaced: the program uses the same library.
func TestEitherKeepsALibraryThatFails(t *testing.T) {
	library := &way{name: "nvml", err: &gpu.Advice{What: "the driver is not loaded", Err: gpu.ErrNoDriver}}
	e := &Either{Library: library, Program: func() Source { t.Error("the program is made"); return nil }, SysfsRoot: t.TempDir()}
	if _, err := e.Read(t.Context()); !errors.Is(err, gpu.ErrNoDriver) {
		t.Error(err)
	}
}

func TestEitherKnowsThatThereIsNoCard(t *testing.T) {
	sysfs := t.TempDir()
	device := filepath.Join(sysfs, "bus/pci/devices/0000:03:00.0")
	plug := func(vendor string) {
		err := errors.Join(os.MkdirAll(device, 0o755),
			os.WriteFile(filepath.Join(device, "vendor"), []byte(vendor), 0o600), os.WriteFile(filepath.Join(device, "class"), []byte("0x030000\n"), 0o600))
		if err != nil {
			t.Fatal(err)
		}
	}
	library := &way{name: "nvml", err: missing}
	e := &Either{Library: library, Program: func() Source { return &way{err: missing} }, SysfsRoot: sysfs}
	absent := func() bool { _, err := e.Read(t.Context()); return errors.Is(err, gpu.ErrNoCard) }
	if absent() {
		t.Error("certain without a list of PCI devices")
	}
	plug("0x1002\n")
	if !absent() {
		t.Error("not certain beside an AMD card")
	}
	e.Named = true
	if absent() {
		t.Error("certain of a card that somebody asked for")
	}
	e.Named = false
	plug("0x10de\n")
	if absent() {
		t.Error("certain beside a card")
	}
	plug("0x1002\n")
	if err := os.MkdirAll(filepath.Join(sysfs, "class/misc/dxg"), 0o755); err != nil {
		t.Fatal(err)
	}
	if absent() {
		t.Error("certain under WSL")
	}
	if err := os.RemoveAll(filepath.Join(sysfs, "class")); err != nil {
		t.Fatal(err)
	}
	// A card that was found, and then a driver that went away: the card has not gone.
	library.snap, library.err = one, nil
	if _, err := e.Read(t.Context()); err != nil {
		t.Error(err)
	}
	library.snap, library.err = nil, missing
	if absent() {
		t.Error("certain of a card that was seen")
	}
}

func TestEitherAfterClose(t *testing.T) {
	program := &way{name: "nvidia-smi", snap: one}
	e := &Either{Library: &way{err: missing}, Program: func() Source { return program }}
	if _, err := e.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil || !program.closed {
		t.Errorf("%v, the program is closed: %v", err, program.closed)
	}
	if _, err := e.Read(t.Context()); !errors.Is(err, gpu.ErrNoLibrary) {
		t.Error(err)
	}
}

// With only one source, and without files that list the bus, there is only the error.
func TestEitherOfOneWay(t *testing.T) {
	e := &Either{Library: &way{name: "nvidia-smi", err: missing}}
	if _, err := e.Read(t.Context()); gpu.AsAdvice(err).What != missing.What || errors.Is(err, gpu.ErrNoCard) || e.Name() != "nvidia-smi" {
		t.Errorf("%v, by %s", err, e.Name())
	}
	e = &Either{Library: &way{name: "nvidia-smi", snap: one}}
	if snap, err := e.Read(t.Context()); err != nil || len(snap.Devices) != 1 || len(snap.Notes) != 0 {
		t.Errorf("%v %v", snap, err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

func TestNoneOnABusOfWindows(t *testing.T) {
	for _, tt := range []struct {
		names []string
		want  bool
	}{
		{nil, false},
		{[]string{"VEN_8086&DEV_A780&SUBSYS_86941043&REV_01"}, true},
		{[]string{"VEN_8086&DEV_A780", "ven_10de&dev_2684&SUBSYS_16F110DE&REV_A1"}, false},
	} {
		if got := none(tt.names); got != tt.want {
			t.Errorf("%v: %v", tt.names, got)
		}
	}
}
