package intel

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/drm"
	"github.com/gpuwhy/gpuwhy/sampler/perdevice"
)

const (
	sometimes = 10 * time.Second
	seldom    = time.Minute
)

// A card is one GPU, even if it is part of a processor. One goroutine at a time calls its read.
type card struct {
	drm.Card
	key        string
	cfg        *Config
	log        *slog.Logger
	identity   gpu.Identity
	integrated bool

	gone  bool        // the kernel does not list it; read does not use this
	slept atomic.Bool // since the last reading
	// What may not be read, for the snapshot's notes.
	hidesProcesses, hidesPower atomic.Bool

	rest     drm.Rest
	due      map[string]time.Time // when to read again what is not read each time
	last     time.Time            // the previous reading; zero: there is nothing to compare with
	readings gpu.Readings
	memory   gpu.Reading[gpu.Bytes] // the card's own, once the driver has been asked
	parts    []gt
	sensors  sensors
	domain   drm.Folder
	draw     draw
	growth   growth
	idling   idling
	use      use
	files    answers
	failing  string // what was last logged
}

func newCard(found drm.Card, cfg *Config) *card {
	c := &card{Card: found, key: found.Address + " " + found.Driver, cfg: cfg}
	c.log = cfg.Log.With("device", found.Address)
	c.integrated = integrated(found.Product, found.Address)
	c.Device.Read = c.readFile
	c.identity = found.Identity(gpu.Intel, gpu.SourceIntel, productName(&found))
	c.identity.Architecture = architecture(found.Product)
	c.identity.VendorIndex = gpu.Absent[int](gpu.NotSupported)
	c.identity.Serial = gpu.Absent[string](gpu.NotSupported)
	c.identity.VBIOS = gpu.Absent[string](gpu.NotSupported)
	c.identity.DriverVersion = driverVersion(cfg, found.Driver)
	return c
}

// driverVersion returns the module's own version, as Intel's own builds have, otherwise the kernel's.
func driverVersion(cfg *Config, driver string) gpu.Reading[string] {
	version, _ := drm.Folder{Path: filepath.Join(cfg.SysfsRoot, "module", driver)}.Text("version")
	if version == "" {
		version, _ = drm.Folder{Path: filepath.Join(cfg.ProcRoot, "sys/kernel")}.Text("osrelease")
	}
	if version == "" {
		return gpu.Reading[string]{}
	}
	return gpu.Of(version)
}

// is reports whether the kernel lists the same card with the same driver.
func (c *card) is(listed *drm.Card) bool {
	same := c.Driver == listed.Driver && c.Product == listed.Product
	return same && c.Node() == listed.Node() && c.Device.Path == listed.Device.Path
}

func (c *card) asleep() bool {
	if c.gone || !c.Asleep() {
		return false
	}
	c.slept.Store(true)
	return true
}

// read reads all that is due, unless the card is left alone.
func (c *card) read() (gpu.Device, error) {
	now := c.cfg.Clock.Now()
	if c.slept.Swap(false) {
		c.rest.Awake()
		c.forget()
	}
	if c.rest.Pausing(now) {
		return gpu.Device{Identity: c.identity, Readings: c.readings.Stale(), Reason: drm.LeftAlone}, nil
	}
	c.files = answers{}
	if c.due == nil {
		c.due = map[string]time.Time{}
		gpu.Withdraw(&c.readings, gpu.NotSupported)
	}
	if c.isDue("limits", now, seldom) {
		c.readLimits()
	}
	if c.isDue("state", now, sometimes) {
		c.readState()
	}
	c.readLive(now)
	if err := c.failure(); err != nil {
		c.forget()
		c.report(err)
		return gpu.Device{}, err
	}
	c.report(nil)
	c.last = now
	switch {
	case !c.MayDoze():
		c.rest.Awake()
	case c.readings.Utilization.GPU.Quality() != gpu.NotReported: // in the first reading it is not known yet
		c.rest.Note(now, c.idle())
	}
	if c.rest.Pausing(now) {
		c.forget() // counters over a pause say nothing about now
	}
	return gpu.Device{Identity: c.identity, Readings: c.readings}, nil
}

// forget makes the next reading the first one.
func (c *card) forget() {
	c.due, c.last, c.draw, c.idling, c.use = nil, time.Time{}, draw{}, idling{}, use{}
}

func (c *card) isDue(what string, now time.Time, every time.Duration) bool {
	if now.Before(c.due[what]) {
		return false
	}
	c.due[what] = now.Add(every)
	return true
}

// idle reports whether nothing seems to need the card.
func (c *card) idle() bool {
	const nothing = 1
	r := &c.readings
	busy, ok := r.Utilization.GPU.Trusted()
	return ok && busy < nothing && !r.Modes.DisplayActive.Or(false)
}

// failure returns why the whole reading failed: the card or its driver is gone, or none of the driver's files can be read.
func (c *card) failure() error {
	driver, err := os.Readlink(filepath.Join(c.Device.Path, "driver"))
	switch {
	case err == nil && filepath.Base(driver) != c.Driver:
		err = fs.ErrNotExist
		fallthrough
	case errors.Is(err, fs.ErrNotExist), c.files.good == 0 && drm.Gone(c.files.failed):
		return &gpu.Advice{
			What: "the GPU is gone from the bus, or its driver has released it",
			Try:  "look for " + c.Address + " in the kernel log (dmesg); restarting the machine may bring it back",
			Err:  fmt.Errorf("%w: %w", perdevice.ErrLost, cmp.Or(err, c.files.failed)),
		}
	case c.files.good == 0 && c.files.failed != nil:
		return &gpu.Advice{
			What: "the driver " + c.Driver + " answers no requests about the GPU",
			Try:  `look for "GPU HANG", "reset" and "wedged" in the kernel log (dmesg); you may have to restart the machine`,
			Err:  fmt.Errorf("%w: %w", gpu.ErrNotAnswering, c.files.failed),
		}
	default:
		return nil
	}
}

// report logs when the card begins to fail, and when it works again.
func (c *card) report(err error) {
	why := ""
	if err != nil {
		why = gpu.AsAdvice(err).What
	}
	switch why {
	case c.failing:
		return
	case "":
		c.log.Info("the GPU can be read again")
	default:
		c.log.Warn("the GPU can't be read", "what", why, "err", err)
	}
	c.failing = why
}

// answers are the results of reading the driver's files in one reading.
type answers struct {
	good   int
	failed error // error of the first file that exists, is permitted and can't be read
}

// own are files of the PCI core, which answers without the driver.
var own = []string{"/vendor", "/class", "_link_speed", "_link_width", "/power/control", "/power/runtime_status",
	"/resource", "/name", "/enabled", "/dpms", "/comm"}

func (c *card) readFile(file string) ([]byte, error) {
	text, err := c.cfg.Read(file)
	for _, end := range own {
		if strings.HasSuffix(file, end) {
			return text, err
		}
	}
	switch {
	case err == nil:
		c.files.good++
	case c.files.failed == nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission):
		c.files.failed = err
	}
	return text, err
}
