package intel

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
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

// The kernel's drivers.
const (
	driverI915 = "i915"
	driverXe   = "xe"
)

const vendorID = 0x8086

// Config configures a source.
type Config struct {
	// SysfsRoot and ProcRoot are where the kernel's files are, such as "/sys" and "/proc".
	SysfsRoot, ProcRoot string
	// DevicesRoot is where the device files are, such as "/dev". They are opened to ask the drivers for the size of a card's memory, which
	// mostly no file has. Empty: the drivers are not asked.
	DevicesRoot string
	// Deadline is the time after which reading a card counts as hanging.
	Deadline time.Duration
	// Holders finds the processes; sources that share it share its walks over /proc. Nil: the source has its own.
	Holders *drm.Holders
	// Read reads a file; nil means drm.ReadFile. A recording uses it to listen or to answer.
	Read func(file string) ([]byte, error)
	// Clock is the source's clock. Nil: the machine's clock.
	Clock clockwork.Clock
	Log   *slog.Logger
}

// A Source reads all Intel GPUs of this machine.
type Source struct {
	cfg    Config
	finder *drm.Finder
	set    *perdevice.Set
	cards  map[string]*card // by address, including gone ones. Only Read uses it.
}

// New returns a source. It looks for GPUs at each reading.
func New(cfg Config) *Source {
	cfg.Clock = cmp.Or(cfg.Clock, clockwork.NewRealClock())
	if cfg.Holders == nil {
		cfg.Holders = drm.NewHolders(cfg.ProcRoot, cfg.SysfsRoot)
		cfg.Holders.Clock = cfg.Clock
	}
	if cfg.Read == nil {
		cfg.Read = drm.ReadFile
	}
	return &Source{
		cfg:    cfg,
		finder: drm.NewFinder(cfg.SysfsRoot, cfg.Read),
		set:    perdevice.New(cfg.Clock, cfg.Deadline, func() {}),
		cards:  map[string]*card{},
	}
}

// Name is the source's name on the wire.
func (s *Source) Name() string { return gpu.SourceIntel }

// Read reads every GPU once. It returns when all have answered, or soon after ctx ends; see [perdevice.Set.Read] for slow ones. A card that
// has gone stays in the snapshot as lost.
//
// Without a readable GPU, the error wraps a *gpu.Advice, which wraps gpu.ErrNoDriver or gpu.ErrNoDevices. If the machine has no card for
// these drivers, it also wraps gpu.ErrNoCard.
func (s *Source) Read(ctx context.Context) (*gpu.Snapshot, error) {
	if s.cfg.SysfsRoot == "" {
		return nil, drm.OnlyOnLinux("Intel")
	}
	found, err := s.finder.Cards(driverI915, driverXe)
	if err != nil {
		s.set.Forget()
		return nil, &gpu.Advice{
			What: "the kernel's list of graphics cards can't be read",
			Try:  "check that gpuwhy has read access to /sys/class/drm",
			Err:  fmt.Errorf("%w: %w", gpu.ErrNoDriver, err),
		}
	}
	s.adopt(found)
	if len(s.cards) == 0 {
		s.set.Forget()
		return nil, s.nothing()
	}
	order := slices.SortedFunc(maps.Values(s.cards), func(a, b *card) int {
		return cmp.Or(cmp.Compare(len(a.Address), len(b.Address)), cmp.Compare(a.Address, b.Address))
	})
	calls := make([]perdevice.Device, len(order))
	for i, c := range order {
		calls[i] = perdevice.Device{Key: c.key, Identity: c.identity, Asleep: c.asleep, Read: c.read}
	}
	devices := s.set.Read(ctx, calls)
	for i := range devices {
		if devices[i].Reason == drm.LeftAlone {
			devices[i].SampledAt = time.Time{}
		}
	}
	return &gpu.Snapshot{
		Source:  gpu.SourceIntel,
		Devices: devices,
		Drivers: []gpu.Driver{{
			Source: gpu.SourceIntel, Version: order[0].identity.DriverVersion,
			CUDA: gpu.Absent[string](gpu.NotSupported), Library: gpu.Absent[string](gpu.NotSupported),
		}},
		Notes: notes(order),
	}, nil
}

// notes returns what may not be read, and which right would change that.
func notes(cards []*card) (all []gpu.Advice) {
	if slices.ContainsFunc(cards, func(c *card) bool { return c.hidesProcesses.Load() }) {
		all = append(all, gpu.Advice{
			What: "gpuwhy is not allowed to read all processes that use the Intel GPU, so its utilization is unknown",
			Try:  "run gpuwhy as root or with CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH and, in a container, with the host's process IDs",
		})
	}
	if slices.ContainsFunc(cards, func(c *card) bool { return c.hidesPower.Load() }) {
		all = append(all, gpu.Advice{
			What: "gpuwhy is not allowed to read the power of the integrated Intel GPU",
			Try:  "run gpuwhy as root, or give its user read access to energy_uj under /sys/class/powercap",
		})
	}
	return all
}

// adopt takes the cards that the kernel lists. Cards that it no longer lists are gone, or forgotten once both drivers are unloaded.
func (s *Source) adopt(found []drm.Card) {
	listed := map[string]bool{}
	for _, c := range found {
		if _, err := os.Lstat(filepath.Join(c.Device.Path, "physfn")); err == nil {
			continue // a part of another card, made for virtual machines
		}
		listed[c.Address] = true
		if known := s.cards[c.Address]; known == nil || !known.is(&c) {
			s.cards[c.Address] = newCard(c, &s.cfg)
		}
	}
	loaded := s.loaded()
	for address, c := range s.cards {
		c.gone = !listed[address]
		if c.gone && !loaded {
			delete(s.cards, address)
		}
	}
}

// loaded reports whether one of the drivers is loaded.
func (s *Source) loaded() bool {
	return slices.ContainsFunc([]string{driverI915, driverXe}, func(driver string) bool {
		_, err := os.Stat(filepath.Join(s.cfg.SysfsRoot, "bus/pci/drivers", driver))
		return err == nil
	})
}

// nothing says why there is no GPU.
func (s *Source) nothing() *gpu.Advice {
	var unserved []string
	for _, d := range s.finder.Displays(vendorID) {
		switch d.Driver {
		case "":
			unserved = append(unserved, d.Address)
		case driverI915, driverXe:
		default:
			return &gpu.Advice{
				What: "the Intel GPU at " + d.Address + " is bound to the driver " + d.Driver,
				Try:  "no action needed if a virtual machine uses it; otherwise bind it to i915 or xe",
				Err:  fmt.Errorf("%w: %w", gpu.ErrNoCard, gpu.ErrNoDevices),
			}
		}
	}
	switch {
	case len(unserved) > 0:
		return &gpu.Advice{
			What: "no driver handles the Intel GPU at " + strings.Join(unserved, ", "),
			Try:  "load the kernel module that lspci -k names (i915 or xe), and look for its lines in the kernel log (dmesg)",
			Err:  gpu.ErrNoDriver,
		}
	case s.loaded():
		return &gpu.Advice{
			What: "Intel's graphics drivers are loaded, but they handle no GPU",
			Try:  "check that the card is seated and powered and, in a container, that it is visible there",
			Err:  fmt.Errorf("%w: %w", gpu.ErrNoCard, gpu.ErrNoDevices),
		}
	default:
		return &gpu.Advice{
			What: "none of Intel's graphics drivers (i915, xe) is loaded",
			Try:  "no action needed if the machine has no Intel GPU; otherwise install a kernel with its driver",
			Err:  fmt.Errorf("%w: %w", gpu.ErrNoCard, gpu.ErrNoDriver),
		}
	}
}

// Close ends a waiting Read. It does not wait for a card whose driver hangs.
func (s *Source) Close() error {
	s.set.Close()
	return nil
}
