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
	"github.com/gpuwhy/gpuwhy/internal/fleet/uplink"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/nearest"
	"github.com/gpuwhy/gpuwhy/internal/reading"
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

// The names in --source. "auto" stands for every source that reads a real machine, never for a
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

// isLinux decides what can be read.
const isLinux = runtime.GOOS == "linux"

// kernelFiles returns where the kernel has its files by default. Other systems have none, so
// gpuwhy must not look: on Windows, anybody could have created a folder /sys.
func kernelFiles() kong.Vars {
	if !isLinux {
		return kong.Vars{"sysfs": "", "procfs": "", "kmsg": ""}
	}
	return kong.Vars{"sysfs": "/sys", "procfs": "/proc", "kmsg": "/dev/kmsg"}
}

// reads returns a sentence that says which GPUs a build for a system can read.
func reads(system string, library bool) string {
	switch {
	case system == "darwin":
		return "On macOS it reads no GPU, and shows only the machine."
	case system != "linux":
		return "It reads NVIDIA GPUs through nvidia-smi. It reads AMD and Intel GPUs, and NVIDIA's library, only on Linux."
	case !library:
		return "It reads NVIDIA GPUs through nvidia-smi, and AMD and Intel GPUs. It does not use NVIDIA's library, since it was built without cgo."
	}
	return "It reads NVIDIA GPUs through NVIDIA's library or nvidia-smi, and AMD and Intel GPUs."
}

// simulates returns the simulated profile.
func (f *sourceFlags) simulates() (profile string, ok bool) {
	if len(f.Source) != 1 {
		return "", false
	}
	return strings.CutPrefix(f.Source[0], simulation)
}

// live reports whether readings show a real machine as it is now.
func (f *sourceFlags) live() bool {
	_, simulated := f.simulates()
	_, played := f.replays()
	return !simulated && !played
}

// wrong returns what is wrong with the list of sources; "" for nothing.
func (f *sourceFlags) wrong() string {
	message := "must be auto, or some of " + strings.Join(realSources, ", ") + " separated by commas, or simulate:PROFILE, or replay:DIR"
	if len(f.Source) == 0 {
		return message
	}
	if profile, ok := f.simulates(); ok {
		if _, err := sim.Nodes(profile, time.Now); err != nil {
			return err.Error() + nearest.Hint(profile, sim.Profiles())
		}
		return ""
	}
	if dir, ok := f.replays(); ok {
		return checkReplay(dir)
	}
	for i, name := range f.Source {
		switch {
		case name == sourceAuto && len(f.Source) > 1:
			return "auto stands for all sources: give it alone"
		case strings.HasPrefix(name, simulation):
			return "a simulation can't be combined with other sources: give it alone"
		case strings.HasPrefix(name, recorded):
			return "a recording can't be combined with other sources: give it alone"
		case slices.Contains(f.Source[:i], name):
			return fmt.Sprintf("%q is named twice", name)
		case name != sourceAuto && !slices.Contains(realSources, name):
			return message + nearest.Hint(name, sourceWords())
		}
	}
	return ""
}

// A target is the machine to read, and how to read it.
type target struct {
	*nameFlags
	*sourceFlags
	*paceFlags
	*deadlineFlags
	*deviceFlags
	*privacyFlags
	labels  map[string]string
	allow   uplink.Allow // what hubs may ask for about it
	helpers func() []int // processes that belong to this one; nil: none
}

func (f *readingFlags) target() *target {
	return &target{&f.nameFlags, &f.sourceFlags, &f.paceFlags, &f.deadlineFlags, &f.deviceFlags, &f.privacyFlags, nil, uplink.DefaultAllow, nil}
}

func (f *serveFlags) target() *target {
	return &target{&f.nameFlags, &f.sourceFlags, &f.paceFlags, &f.deadlineFlags, &f.deviceFlags, &f.privacyFlags, f.labels, f.allow, nil}
}

// inputs returns the inputs of each node, with its place. A real machine is one node.
func (m *target) inputs(log *slog.Logger) ([]*reading.Inputs, error) {
	all, err := m.read(log)
	for _, in := range all {
		m.locate(in)
	}
	return all, err
}

func (m *target) read(log *slog.Logger) ([]*reading.Inputs, error) {
	if profile, ok := m.simulates(); ok {
		nodes, err := sim.Nodes(profile, time.Now)
		if err != nil {
			return nil, err
		}
		var all []*reading.Inputs
		for _, source := range nodes {
			in := &reading.Inputs{Node: source.Node(), Origin: m.Source[0], Sources: []sampler.Source{source}, Place: insight.Place{Labels: source.Labels()}, Earlier: source.Earlier}
			if len(nodes) == 1 {
				in.Node = cmp.Or(m.Node, in.Node)
			}
			all = append(all, in)
		}
		return all, nil
	}
	if dir, ok := m.replays(); ok {
		return m.newReplay(dir, log)
	}
	local := host.New(m.SysfsRoot, host.ShowCommands(m.ShowCommands), log.With("part", "host"))
	local.Helpers = m.helpers
	// The origin is "auto" for every source, since it is the same machine.
	in := &reading.Inputs{Node: m.name(), Origin: sourceAuto, Host: local}
	var suspects func() []gpu.Suspect
	if m.KernelLog != "" {
		kernel := kernellog.New(kernellog.Config{Path: m.KernelLog, Log: log.With("part", "kernellog")})
		in.KernelLog, suspects = kernel, kernel.Suspects
	}
	in.Sources = m.newSources(suspects, log)
	in.Guessed = slices.Contains(m.Source, sourceAuto)
	if hint := local.Hint(); !hint.IsZero() {
		in.Notes = append(in.Notes, hint)
	}
	return []*reading.Inputs{in}, nil
}

// newSources returns the requested sources. The two ways to read NVIDIA's devices are one
// source, which uses the program if the library can't be loaded. suspects returns the cards that
// are broken according to the kernel log; nil if nobody reads the log.
func (m *target) newSources(suspects func() []gpu.Suspect, log *slog.Logger) (all []sampler.Source) {
	named := func(name string) bool {
		return slices.Contains(m.Source, name) || slices.Contains(m.Source, sourceAuto)
	}
	switch {
	case named(sourceNVML) && named(sourceSMI) && !isLinux:
		all = append(all, &nvidia.Either{Library: m.newSMI(suspects, log), SysfsRoot: m.SysfsRoot})
	case named(sourceNVML) && named(sourceSMI):
		program := func() nvidia.Source { return m.newSMI(suspects, log) }
		all = append(all, &nvidia.Either{Library: m.newNVML(suspects, log), Program: program, SysfsRoot: m.SysfsRoot})
	case named(sourceNVML):
		all = append(all, &nvidia.Either{Library: m.newNVML(suspects, log), SysfsRoot: m.SysfsRoot, Named: true})
	case named(sourceSMI):
		all = append(all, &nvidia.Either{Library: m.newSMI(suspects, log), SysfsRoot: m.SysfsRoot, Named: true})
	}
	holders := drm.NewHolders(m.ProcRoot, m.SysfsRoot)
	var devices string // the device files are those of the real sysfs
	if m.SysfsRoot == "/sys" {
		devices = "/dev"
	}
	if named(sourceAMD) {
		all = append(all, amd.New(amd.Config{
			SysfsRoot: m.SysfsRoot,
			ProcRoot:  m.ProcRoot,
			Deadline:  m.Deadline,
			Holders:   holders,
			Log:       log.With("part", sourceAMD),
		}))
	}
	if named(sourceIntel) {
		all = append(all, intel.New(intel.Config{
			SysfsRoot:   m.SysfsRoot,
			ProcRoot:    m.ProcRoot,
			DevicesRoot: devices,
			Deadline:    m.Deadline,
			Holders:     holders,
			Log:         log.With("part", sourceIntel),
		}))
	}
	return all
}

func (m *target) newNVML(suspects func() []gpu.Suspect, log *slog.Logger) *nvml.Source {
	return nvml.New(nvml.Config{
		LibraryPath: m.NVMLLibrary,
		SysfsRoot:   m.SysfsRoot,
		ProcRoot:    m.ProcRoot,
		Suspects:    suspects,
		Deadline:    m.Deadline,
		// The window covers the work between two readings. At short intervals it
		// covers the driver's own samples, which are up to a second apart.
		Window:         max(m.Interval, 2*time.Second),
		Apart:          max(m.Interval, m.IdleInterval),
		PCIeThroughput: m.PCIeThroughput,
		Log:            log.With("part", sourceNVML),
	})
}

func (m *target) newSMI(suspects func() []gpu.Suspect, log *slog.Logger) *smi.Source {
	return smi.New(smi.Config{
		Program:        m.NvidiaSMI,
		SysfsRoot:      m.SysfsRoot,
		ProcRoot:       m.ProcRoot,
		Suspects:       suspects,
		Interval:       m.Interval,
		Deadline:       m.Deadline,
		PCIeThroughput: m.PCIeThroughput,
		Log:            log.With("part", sourceSMI),
	})
}
