package amd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/drm"
	"github.com/gpuwhy/gpuwhy/sampler/perdevice"
)

const (
	driver = "amdgpu"
	vendor = 0x1002 // PCI vendor id
)

// Config configures a source.
type Config struct {
	// SysfsRoot and ProcRoot are where the kernel's files are, such as "/sys" and "/proc". On systems without them they are empty, and the
	// source finds nothing.
	SysfsRoot, ProcRoot string
	// Deadline is the time after which reading a card counts as hanging.
	Deadline time.Duration
	// Holders finds the processes; several sources can share it. Nil: the source has its own.
	Holders *drm.Holders
	// Read reads a file; nil means drm.ReadFile. A recording uses it to listen or to answer.
	Read func(file string) ([]byte, error)
	// Clock is the source's clock. Nil: the machine's clock.
	Clock clockwork.Clock
	Log   *slog.Logger
}

// A Source reads all cards of the amdgpu driver.
type Source struct {
	cfg     Config
	finder  *drm.Finder
	set     *perdevice.Set
	devices map[string]*device // by address; only Read uses it
}

// New returns a source. Read looks for the driver and its cards each time, so both may come and go.
func New(cfg Config) *Source {
	cfg.Clock = cmp.Or(cfg.Clock, clockwork.NewRealClock())
	if cfg.Holders == nil {
		cfg.Holders = drm.NewHolders(cfg.ProcRoot, cfg.SysfsRoot)
		cfg.Holders.Clock = cfg.Clock
	}
	return &Source{
		cfg:     cfg,
		finder:  drm.NewFinder(cfg.SysfsRoot, cfg.Read),
		set:     perdevice.New(cfg.Clock, cfg.Deadline, func() {}),
		devices: map[string]*device{},
	}
}

// Name is the source's name on the wire.
func (s *Source) Name() string { return gpu.SourceAMD }

// Read reads every card once. It returns when all have answered, or soon after ctx ends; see [perdevice.Set.Read] for slow cards.
//
// Without a card, the error wraps a *gpu.Advice, which wraps gpu.ErrNoDriver, gpu.ErrNotPermitted or gpu.ErrNoDevices. If the machine has
// no card for this driver, it also wraps gpu.ErrNoCard.
func (s *Source) Read(ctx context.Context) (*gpu.Snapshot, error) {
	if s.cfg.SysfsRoot == "" {
		return nil, drm.OnlyOnLinux("AMD")
	}
	cards, err := s.finder.Cards(driver)
	if len(cards) == 0 {
		clear(s.devices)
		s.set.Forget()
		return nil, s.noCard(err)
	}
	calls := make([]perdevice.Device, len(cards))
	here := map[string]*device{}
	for i, c := range cards {
		d := s.devices[c.Address]
		if d == nil || d.card.Device.Path != c.Device.Path || d.card.Product != c.Product {
			d = newDevice(s.cfg, c)
		}
		here[c.Address] = d
		calls[i] = perdevice.Device{
			Key: c.Device.Path, Identity: d.known(), Asleep: d.asleep, Read: d.read,
		}
	}
	s.devices = here
	snap := &gpu.Snapshot{Source: gpu.SourceAMD, Devices: s.set.Read(ctx, calls)}
	snap.Drivers = []gpu.Driver{{
		Source: gpu.SourceAMD, Version: s.version(),
		CUDA: gpu.Absent[string](gpu.NotSupported), Library: gpu.Absent[string](gpu.NotSupported),
	}}
	for i := range snap.Devices {
		if snap.Devices[i].Reason.What == drm.LeftAlone.What {
			snap.Devices[i].SampledAt = time.Time{}
		}
	}
	if slices.ContainsFunc(cards, func(c drm.Card) bool { return here[c.Address].hidden.Load() }) {
		snap.Notes = append(snap.Notes, notAll)
	}
	if slices.ContainsFunc(cards, func(c drm.Card) bool { return here[c.Address].untold.Load() }) {
		snap.Notes = append(snap.Notes, notTold)
	}
	return snap, nil
}

// notTold is why a GPU has no utilization if the driver can't report it.
var notTold = gpu.Advice{
	What: "the driver reports neither the utilization of an AMD GPU nor how much of it a ROCm process uses, so both are unknown",
	Try:  "no action needed: utilization is known again once no ROCm process uses the GPU",
}

// notAll is what to do if some processes are not visible.
var notAll = gpu.Advice{
	What: "gpuwhy is not allowed to see all processes, so it does not know how much of the AMD GPUs some of them use",
	Try:  "run gpuwhy as root or with the capabilities CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH and, in a container, with the host's process IDs",
}

// version returns the driver's version if the driver was built separately, otherwise the kernel's.
func (s *Source) version() gpu.Reading[string] { return versionOf(s.cfg) }

func versionOf(cfg Config) gpu.Reading[string] {
	module := drm.Folder{Path: filepath.Join(cfg.SysfsRoot, "module", driver), Read: cfg.Read}
	if v, err := module.Text("version"); err == nil && v != "" {
		return gpu.Of(v)
	}
	v, err := drm.Folder{Path: cfg.ProcRoot, Read: cfg.Read}.Text("sys/kernel/osrelease")
	if err != nil || v == "" {
		return gpu.Reading[string]{}
	}
	return gpu.Of(v)
}

// noCard says why there is no card to read.
func (s *Source) noCard(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return &gpu.Advice{
			What: "gpuwhy is not allowed to read the list of graphics cards in /sys",
			Try:  "give gpuwhy read access to /sys/class/drm",
			Err:  fmt.Errorf("%w: %w", gpu.ErrNotPermitted, err),
		}
	}
	var bare, old, others []string
	for _, d := range s.finder.Displays(vendor) {
		switch d.Driver {
		case "", driver: // no node yet, or creating one failed
			bare = append(bare, d.Address)
		case "radeon":
			old = append(old, d.Address)
		default:
			others = append(others, d.Address+" ("+drm.Clean(d.Driver)+")")
		}
	}
	_, loaded := os.Stat(filepath.Join(s.cfg.SysfsRoot, "bus/pci/drivers", driver))
	cause := func(sentinel error) error {
		if err != nil {
			return fmt.Errorf("%w: %w", sentinel, err)
		}
		return sentinel
	}
	switch {
	case len(bare) > 0 && loaded != nil:
		return &gpu.Advice{
			What: "there is an AMD GPU at " + strings.Join(bare, ", ") + ", but the amdgpu driver is not loaded",
			Try:  "load it (modprobe amdgpu), or look in the kernel log (dmesg) for why it failed",
			Err:  cause(gpu.ErrNoDriver),
		}
	case len(bare) > 0:
		return &gpu.Advice{
			What: "the amdgpu driver is loaded but does not handle the AMD GPU at " + strings.Join(bare, ", "),
			Try:  "look for the reason in the kernel log (dmesg)",
			Err:  cause(gpu.ErrNoDevices),
		}
	case len(old) > 0:
		return &gpu.Advice{
			What: "the old radeon driver has the AMD GPU at " + strings.Join(old, ", ") + ", and gpuwhy only reads the amdgpu driver",
			Try: "if the GPU is from 2012 or later, give it to amdgpu with the kernel options radeon.si_support=0 " +
				"radeon.cik_support=0 amdgpu.si_support=1 amdgpu.cik_support=1",
			Err: cause(gpu.ErrNoDriver),
		}
	case len(others) > 0:
		return &gpu.Advice{
			What: "another driver has the AMD GPU at " + strings.Join(others, ", "),
			Try:  "read it in its virtual machine, or give it back to the amdgpu driver",
			Err:  fmt.Errorf("%w: %w", gpu.ErrNoCard, cause(gpu.ErrNoDevices)),
		}
	case loaded != nil:
		return &gpu.Advice{
			What: "this machine has no AMD GPU, or none is visible here",
			Try:  "check that the card is seated and powered and, in a container, that /sys is the machine's own",
			Err:  fmt.Errorf("%w: %w", gpu.ErrNoCard, cause(gpu.ErrNoDriver)),
		}
	default:
		return &gpu.Advice{
			What: "the amdgpu driver is loaded but finds no GPU",
			Try:  "check that the card is seated and powered, and look for it in the kernel log (dmesg)",
			Err:  fmt.Errorf("%w: %w", gpu.ErrNoCard, cause(gpu.ErrNoDevices)),
		}
	}
}

// Close ends a waiting Read. It does not wait for a hanging card. After Close, Read returns no new readings.
func (s *Source) Close() error {
	s.set.Close()
	return nil
}
