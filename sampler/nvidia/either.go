package nvidia

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/drm"
)

// lookAgain is how often the library is tried while nvidia-smi is read.
const lookAgain = 30 * time.Second

// A Source is one way to read the devices, such as package nvml.
type Source interface {
	Name() string
	Read(ctx context.Context) (*gpu.Snapshot, error)
	Close() error
}

// Either reads the driver's library or, as long as the library can't be loaded, the program nvidia-smi. Both name devices by the same
// UUIDs. One of the two may be missing.
type Either struct {
	// Library is the driver's library; on systems where gpuwhy can't load it, the program takes its place.
	Library Source
	// Program returns the source for nvidia-smi when it is needed. Nil: nvidia-smi is not used.
	Program func() Source
	// SysfsRoot is where the kernel lists PCI devices, such as "/sys"; empty on systems without such files.
	SysfsRoot string
	// Named means that somebody asked for this source by name. Then a card is expected, and a bus without one doesn't change the error.
	Named bool

	// Only Read uses these: when the library was last tried, why it can't be loaded, and whether a device was ever found.
	looked time.Time
	why    gpu.Advice
	seen   bool

	mu      sync.Mutex
	program Source // nil while it is not used
	closed  bool
}

// Name returns the name of the source in use.
func (e *Either) Name() string {
	if p := e.used(); p != nil {
		return p.Name()
	}
	return e.Library.Name()
}

func (e *Either) used() Source {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.program
}

// Costs returns how long the calls of both sources took so far, for each source that measures them.
func (e *Either) Costs() (all []gpu.Cost) {
	for _, way := range []Source{e.Library, e.used()} {
		if metered, ok := way.(interface{ Costs() []gpu.Cost }); ok {
			all = append(all, metered.Costs()...)
		}
	}
	return all
}

// Read reads the source in use and returns its errors. If another kernel driver has the cards, the error names it. If the machine has no
// NVIDIA GPU and nobody asked for one, or has given them all away, the error also wraps gpu.ErrNoCard.
func (e *Either) Read(ctx context.Context) (*gpu.Snapshot, error) {
	program := e.used()
	if program != nil && time.Since(e.looked) < lookAgain {
		return e.readProgram(ctx, program)
	}
	e.looked = time.Now()
	snap, err := e.Library.Read(ctx)
	if errors.Is(err, gpu.ErrNoLibrary) && e.Program != nil {
		if program = e.begin(); program == nil {
			return e.explained(snap, err)
		}
		e.why = gpu.AsAdvice(err)
		other, otherErr := e.readProgram(ctx, program)
		if !errors.Is(otherErr, gpu.ErrNoLibrary) {
			return other, otherErr
		}
	}
	return e.explained(snap, errors.Join(err, e.leave(false)))
}

// readProgram reads the program, and adds a note that says why.
func (e *Either) readProgram(ctx context.Context, program Source) (*gpu.Snapshot, error) {
	snap, err := e.explained(program.Read(ctx))
	if snap != nil && len(snap.Devices) > 0 {
		snap.Notes = append(snap.Notes, gpu.Advice{
			What: "NVIDIA GPUs are read through nvidia-smi, which reports less than the driver's library: " + e.why.What,
			Try:  e.why.Try,
		})
	}
	return snap, err
}

// begin returns the program; nil after Close.
func (e *Either) begin() Source {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.program == nil && !e.closed {
		e.program = e.Program()
	}
	return e.program
}

// leave stops using the program, if it is in use.
func (e *Either) leave(closed bool) error {
	e.mu.Lock()
	program := e.program
	e.program, e.closed = nil, e.closed || closed
	e.mu.Unlock()
	if program == nil {
		return nil
	}
	return program.Close()
}

// explained adds the underlying reason to an error: another driver has the cards, or there can be no device.
func (e *Either) explained(snap *gpu.Snapshot, err error) (*gpu.Snapshot, error) {
	e.seen = e.seen || snap != nil && len(snap.Devices) > 0
	if err == nil {
		return snap, nil
	}
	if held := Held(e.SysfsRoot); held != nil {
		held.Err = errors.Join(held.Err, err)
		return snap, held
	}
	if e.seen || e.Named {
		return snap, err
	}
	none := neverPluggedIn
	if e.SysfsRoot != "" {
		none = func() bool { return drm.NewFinder(e.SysfsRoot, nil).NoDisplay(vendor) }
	}
	why := gpu.AsAdvice(err)
	switch {
	case runtime.GOOS == "darwin":
		return snap, &gpu.Advice{
			What: "gpuwhy can't read Apple GPUs, and macOS has no driver for NVIDIA GPUs: gpuwhy shows the machine itself",
			Try:  "no action needed",
			Err:  errors.Join(gpu.ErrNoCard, err),
		}
	case none():
		return snap, &gpu.Advice{
			What: "this machine has no NVIDIA GPU on its PCI bus, and " + why.What,
			Try:  "no action needed if that is right; otherwise " + why.Try,
			Err:  errors.Join(gpu.ErrNoCard, err),
		}
	}
	return snap, err
}

// Close closes both sources. It does not wait for a hanging Read.
func (e *Either) Close() error { return errors.Join(e.Library.Close(), e.leave(true)) }
