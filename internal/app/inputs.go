package app

import (
	"context"
	"errors"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler"
)

// Inputs are where the readings of one node come from.
type Inputs struct {
	// Node is the name of the machine.
	Node string
	// Origin says where the readings come from, in files that survive a restart:
	// "auto" for the real machine, or "simulate:PROFILE".
	Origin string
	// Sources read the devices; there is at least one. Devices are listed in the
	// order of their sources.
	Sources []sampler.Source
	// Host reads the machine itself; nil if the source is a simulation, which
	// simulates its host.
	Host Host
	// Notes go into each snapshot.
	Notes []gpu.Advice
	// Refresh reads the machine on demand; nil if the sampler does that.
	Refresh func(context.Context) (*gpu.Snapshot, error)
}

// A Host reads the machine that the devices are in.
type Host interface {
	sampler.Host
	// Reserve says for whom devices are reserved, in place.
	Reserve([]gpu.Device)
	// Settle waits until container runtimes and the kubelet have answered the
	// questions that were asked.
	Settle(context.Context) error
	Close() error
}

// Close closes all inputs. Nobody may read them at the same time.
func (in *Inputs) Close() error {
	errs := []error{in.closeHost()}
	for _, s := range in.Sources {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// closeHost closes the host, which the sampler does not close.
func (in *Inputs) closeHost() error {
	if in.Host == nil {
		return nil
	}
	return in.Host.Close()
}

// reserve says for whom devices are reserved, in place.
func (in *Inputs) reserve(devices []gpu.Device) {
	if in.Host != nil {
		in.Host.Reserve(devices)
	}
}

// settle waits up to a second for the names of containers and for reservations, and
// puts them into a snapshot that nobody has seen yet. It leaves out those that are
// not known by then.
func (in *Inputs) settle(ctx context.Context, snap *gpu.Snapshot) {
	if in.Host == nil {
		return
	}
	waiting, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := in.Host.Settle(waiting); err != nil && ctx.Err() != nil {
		return
	}
	in.reserve(snap.Devices)
	for i := range snap.Devices {
		in.Host.Describe(ctx, snap.Devices[i].Processes.Or(nil))
	}
}
