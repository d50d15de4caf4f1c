package main

import (
	"cmp"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/app"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/sampler"
	"github.com/gpuwhy/gpuwhy/sampler/amd"
	"github.com/gpuwhy/gpuwhy/sampler/drm"
	"github.com/gpuwhy/gpuwhy/sampler/host"
	"github.com/gpuwhy/gpuwhy/sampler/intel"
	"github.com/gpuwhy/gpuwhy/sampler/kernellog"
	"github.com/gpuwhy/gpuwhy/sampler/nvidia"
	"github.com/gpuwhy/gpuwhy/sampler/nvml"
	"github.com/gpuwhy/gpuwhy/sampler/sim"
	"github.com/gpuwhy/gpuwhy/sampler/smi"
)

// The names in --source. "auto" stands for all that read a real machine, and is never a
// simulation.
const (
	sourceAuto  = "auto"
	sourceNVML  = "nvml"
	sourceSMI   = "nvidia-smi"
	sourceAMD   = "amd"
	sourceIntel = "intel"
	simulation  = "simulate:"
)

var realSources = []string{sourceNVML, sourceSMI, sourceAMD, sourceIntel}

// isLinux decides what can be read at all.
const isLinux = runtime.GOOS == "linux"

// kernelFiles are where the kernel has its files by default. Other systems have none, and
// nothing is looked for: on Windows /sys would be a folder that anybody may have made.
func kernelFiles() kong.Vars {
	if !isLinux {
		return kong.Vars{"sysfs": "", "procfs": "", "kmsg": ""}
	}
	return kong.Vars{"sysfs": "/sys", "procfs": "/proc", "kmsg": "/dev/kmsg"}
}

// reads says in a sentence which GPUs a build for a system can read.
func reads(system string, library bool) string {
	switch {
	case system == "darwin":
		return "It reads no GPU on macOS, and shows the machine itself."
	case system != "linux":
		return "It reads NVIDIA GPUs through nvidia-smi. Those of AMD and Intel, and NVIDIA's library, it reads on Linux alone."
	case !library:
		return "It reads NVIDIA GPUs through nvidia-smi, and those of AMD and Intel; not NVIDIA's library, since it was built without cgo."
	}
	return "It reads NVIDIA GPUs through NVIDIA's library or nvidia-smi, and those of AMD and Intel."
}

// simulates returns the profile that is simulated.
func (c *Config) simulates() (profile string, ok bool) {
	if len(c.Source) != 1 {
		return "", false
	}
	return strings.CutPrefix(c.Source[0], simulation)
}

// checkSource says what is wrong with the list of sources; "" for nothing.
func (c *Config) checkSource() string {
	of := "must be auto, or some of " + strings.Join(realSources, ", ") + " with commas, or simulate:PROFILE, or replay:DIR"
	if len(c.Source) == 0 {
		return of
	}
	if profile, ok := c.simulates(); ok {
		if _, err := sim.Nodes(profile, time.Now); err != nil {
			return err.Error()
		}
		return ""
	}
	if dir, ok := c.replays(); ok {
		return checkReplay(dir)
	}
	for i, name := range c.Source {
		switch {
		case name == sourceAuto && len(c.Source) > 1:
			return "auto stands for all sources: give it alone"
		case strings.HasPrefix(name, simulation):
			return "a simulation is never mixed with other sources: give it alone"
		case strings.HasPrefix(name, recorded):
			return "a recording is never mixed with other sources: give it alone"
		case slices.Contains(c.Source[:i], name):
			return fmt.Sprintf("%q is there twice", name)
		case name != sourceAuto && !slices.Contains(realSources, name):
			return of
		}
	}
	return ""
}

// newInputs returns the inputs of each node, with its place; a real machine is one.
func newInputs(cfg *Config, log *slog.Logger) ([]*app.Inputs, error) {
	all, err := readInputs(cfg, log)
	for _, in := range all {
		cfg.locate(in)
	}
	return all, err
}

func readInputs(cfg *Config, log *slog.Logger) ([]*app.Inputs, error) {
	if profile, ok := cfg.simulates(); ok {
		nodes, err := sim.Nodes(profile, time.Now)
		if err != nil {
			return nil, err
		}
		var all []*app.Inputs
		for _, source := range nodes {
			in := &app.Inputs{Node: source.Node(), Origin: cfg.Source[0], Sources: []sampler.Source{source}, Place: insight.Place{Labels: source.Labels()}}
			if len(nodes) == 1 {
				in.Node = cmp.Or(cfg.Node, in.Node)
			}
			all = append(all, in)
		}
		return all, nil
	}
	if dir, ok := cfg.replays(); ok {
		return newReplay(cfg, dir, log)
	}
	local := host.New(cfg.SysfsRoot, host.ShowCommands(cfg.ShowCommands), log.With("part", "host"))
	local.Helpers = cfg.helperPids
	// The origin is "auto" for every source, since it is the same machine.
	in := &app.Inputs{Node: cfg.name(), Origin: sourceAuto, Host: local}
	var suspects func() []gpu.Suspect
	if cfg.KernelLog != "" {
		kernel := kernellog.New(kernellog.Config{Path: cfg.KernelLog, Log: log.With("part", "kernellog")})
		in.KernelLog, suspects = kernel, kernel.Suspects
	}
	in.Sources = newSources(cfg, suspects, log)
	in.Guessed = slices.Contains(cfg.Source, sourceAuto)
	if hint := local.Hint(); !hint.IsZero() {
		in.Notes = append(in.Notes, hint)
	}
	return []*app.Inputs{in}, nil
}

// newSources returns the sources that are asked for. Both ways to read NVIDIA's devices are
// one source: the program is read where the library can't be loaded. suspects are the cards that the
// kernel's log calls broken; nil where nobody reads it.
func newSources(cfg *Config, suspects func() []gpu.Suspect, log *slog.Logger) (all []sampler.Source) {
	named := func(name string) bool {
		return slices.Contains(cfg.Source, name) || slices.Contains(cfg.Source, sourceAuto)
	}
	switch {
	case named(sourceNVML) && named(sourceSMI) && !isLinux:
		all = append(all, &nvidia.Either{Library: newSMI(cfg, suspects, log), SysfsRoot: cfg.SysfsRoot})
	case named(sourceNVML) && named(sourceSMI):
		program := func() nvidia.Source { return newSMI(cfg, suspects, log) }
		all = append(all, &nvidia.Either{Library: newNVML(cfg, suspects, log), Program: program, SysfsRoot: cfg.SysfsRoot})
	case named(sourceNVML):
		all = append(all, &nvidia.Either{Library: newNVML(cfg, suspects, log), SysfsRoot: cfg.SysfsRoot, Named: true})
	case named(sourceSMI):
		all = append(all, &nvidia.Either{Library: newSMI(cfg, suspects, log), SysfsRoot: cfg.SysfsRoot, Named: true})
	}
	holders := drm.NewHolders(cfg.ProcRoot, cfg.SysfsRoot)
	var devices string // the device files are those of the real sysfs
	if cfg.SysfsRoot == "/sys" {
		devices = "/dev"
	}
	if named(sourceAMD) {
		all = append(all, amd.New(amd.Config{
			SysfsRoot: cfg.SysfsRoot,
			ProcRoot:  cfg.ProcRoot,
			Deadline:  cfg.Deadline,
			Holders:   holders,
			Log:       log.With("part", sourceAMD),
		}))
	}
	if named(sourceIntel) {
		all = append(all, intel.New(intel.Config{
			SysfsRoot:   cfg.SysfsRoot,
			ProcRoot:    cfg.ProcRoot,
			DevicesRoot: devices,
			Deadline:    cfg.Deadline,
			Holders:     holders,
			Log:         log.With("part", sourceIntel),
		}))
	}
	return all
}

func newNVML(cfg *Config, suspects func() []gpu.Suspect, log *slog.Logger) *nvml.Source {
	return nvml.New(nvml.Config{
		LibraryPath: cfg.NVMLLibrary,
		SysfsRoot:   cfg.SysfsRoot,
		ProcRoot:    cfg.ProcRoot,
		Suspects:    suspects,
		Deadline:    cfg.Deadline,
		// The window covers the work between two readings. At short intervals it
		// covers the driver's own samples, which are up to a second apart.
		Window:         max(cfg.Interval, 2*time.Second),
		Apart:          max(cfg.Interval, cfg.IdleInterval),
		PCIeThroughput: cfg.PCIeThroughput,
		Log:            log.With("part", sourceNVML),
	})
}

func newSMI(cfg *Config, suspects func() []gpu.Suspect, log *slog.Logger) *smi.Source {
	return smi.New(smi.Config{
		Program:        cfg.NvidiaSMI,
		SysfsRoot:      cfg.SysfsRoot,
		ProcRoot:       cfg.ProcRoot,
		Suspects:       suspects,
		Interval:       cfg.Interval,
		Deadline:       cfg.Deadline,
		PCIeThroughput: cfg.PCIeThroughput,
		Log:            log.With("part", sourceSMI),
	})
}
