package main

import (
	"cmp"
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler"
	"github.com/gpuwhy/gpuwhy/sampler/host"
	"github.com/gpuwhy/gpuwhy/sampler/nvml"
	"github.com/gpuwhy/gpuwhy/sampler/sim"
)

// inputs is where readings come from.
type inputs struct {
	node    string
	sources []sampler.Source
	host    sampler.Host // nil where a simulation brings its own
	reader  *host.Reader // the same; nil too
	notes   []gpu.Advice
}

// newInputs has the table of sources, in the order in which their devices are
// listed. "auto" reads all that a machine may have; a simulation is never among
// them.
func newInputs(cfg *Config, log *slog.Logger) (*inputs, error) {
	if profile, ok := strings.CutPrefix(cfg.Source, "simulate:"); ok {
		nodes, err := sim.Nodes(profile, time.Now)
		if err != nil {
			return nil, err
		}
		if len(nodes) > 1 {
			return &inputs{node: cmp.Or(cfg.Node, "fleet-monitor"), sources: []sampler.Source{joined(nodes)}}, nil
		}
		return &inputs{node: cmp.Or(cfg.Node, nodes[0].Node()), sources: []sampler.Source{nodes[0]}}, nil
	}
	local := host.New(host.Config{ShowCommands: host.ShowCommands(cfg.ShowCommands), Log: log.With("part", "host")})
	in := &inputs{node: cmp.Or(cfg.Node, cfg.hostname), host: local, reader: local}
	if hint := local.Hint(); !hint.IsZero() {
		in.notes = append(in.notes, hint)
	}
	for _, row := range []struct {
		name string
		auto bool
		open func() sampler.Source
	}{
		{gpu.SourceNVML, true, func() sampler.Source { return newNVML(cfg, log) }},
	} {
		if cfg.Source == row.name || (cfg.Source == "auto" && row.auto) {
			in.sources = append(in.sources, row.open())
		}
	}
	return in, nil
}

// joined reads all nodes of a simulated fleet as one source, until each node has
// a sampler of its own.
type joined []*sim.Source

// Name implements [sampler.Source].
func (joined) Name() string { return gpu.SourceSimulated }

// Close implements [sampler.Source].
func (joined) Close() error { return nil }

// Read implements [sampler.Source].
func (j joined) Read(ctx context.Context) (*gpu.Snapshot, error) {
	all := &gpu.Snapshot{Source: gpu.SourceSimulated}
	for _, s := range j {
		snap, err := s.Read(ctx)
		if err != nil {
			return nil, err
		}
		for i := range snap.Devices {
			snap.Devices[i].Node = s.Node()
		}
		all.Time, all.Host, all.Drivers = snap.Time, snap.Host, snap.Drivers
		all.Devices = append(all.Devices, snap.Devices...)
	}
	return all, nil
}

// close lets go of what the sampler does not.
func (in *inputs) close() error {
	if in.reader == nil {
		return nil
	}
	return in.reader.Close()
}

// reserve says for whom devices are kept, in a snapshot that nobody has seen
// yet. A simulation brings its own.
func (in *inputs) reserve(snap *gpu.Snapshot) {
	if in.reader != nil {
		in.reader.Reserve(snap.Devices)
	}
}

// settle waits a moment for what containers are called and for whom devices
// are kept, and puts it into a snapshot that nobody has seen yet. What is not
// there by then is left out.
func (in *inputs) settle(ctx context.Context, snap *gpu.Snapshot) {
	if in.reader == nil {
		return
	}
	in.reserve(snap)
	waiting, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := in.reader.Settle(waiting); err != nil && ctx.Err() != nil {
		return
	}
	in.reserve(snap)
	for i := range snap.Devices {
		in.reader.Describe(ctx, snap.Devices[i].Processes.Or(nil))
	}
}

func newNVML(cfg *Config, log *slog.Logger) sampler.Source {
	return nvml.New(nvml.Config{
		LibraryPath: cfg.NVMLLibrary,
		SysfsRoot:   cfg.SysfsRoot,
		Deadline:    cfg.Deadline,
		// Work between two readings is seen whole; at short intervals the
		// driver's own samples, up to a second apart, are.
		Window:         max(cfg.Interval, 2*time.Second),
		PCIeThroughput: cfg.PCIeThroughput,
		Log:            log.With("part", "nvml"),
	})
}
