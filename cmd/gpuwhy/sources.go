package main

import (
	"cmp"
	"log/slog"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/app"
	"github.com/gpuwhy/gpuwhy/sampler"
	"github.com/gpuwhy/gpuwhy/sampler/host"
	"github.com/gpuwhy/gpuwhy/sampler/nvml"
	"github.com/gpuwhy/gpuwhy/sampler/sim"
)

// newInputs returns the inputs of each node; a real machine is one. Its devices are in the
// order of the table of sources. "auto" is never a simulation.
func newInputs(cfg *Config, log *slog.Logger) ([]*app.Inputs, error) {
	if profile, ok := strings.CutPrefix(cfg.Source, "simulate:"); ok {
		nodes, err := sim.Nodes(profile, time.Now)
		if err != nil {
			return nil, err
		}
		var all []*app.Inputs
		for _, source := range nodes {
			in := &app.Inputs{Node: source.Node(), Origin: cfg.Source, Sources: []sampler.Source{source}}
			if len(nodes) == 1 {
				in.Node = cmp.Or(cfg.Node, in.Node)
			}
			all = append(all, in)
		}
		return all, nil
	}
	local := host.New(host.ShowCommands(cfg.ShowCommands), log.With("part", "host"))
	// The origin is "auto" for every source, since it is the same machine.
	in := &app.Inputs{Node: cfg.name(), Origin: "auto", Host: local}
	if hint := local.Hint(); !hint.IsZero() {
		in.Notes = append(in.Notes, hint)
	}
	for _, row := range []struct {
		name string
		auto bool
		open func() sampler.Source
	}{
		{gpu.SourceNVML, true, func() sampler.Source { return newNVML(cfg, log) }},
	} {
		if cfg.Source == row.name || cfg.Source == "auto" && row.auto {
			in.Sources = append(in.Sources, row.open())
		}
	}
	return []*app.Inputs{in}, nil
}

func newNVML(cfg *Config, log *slog.Logger) sampler.Source {
	return nvml.New(nvml.Config{
		LibraryPath: cfg.NVMLLibrary,
		SysfsRoot:   cfg.SysfsRoot,
		ProcRoot:    "/proc",
		Deadline:    cfg.Deadline,
		// The window covers the work between two readings. At short intervals it
		// covers the driver's own samples, which are up to a second apart.
		Window:         max(cfg.Interval, 2*time.Second),
		PCIeThroughput: cfg.PCIeThroughput,
		Log:            log.With("part", "nvml"),
	})
}
