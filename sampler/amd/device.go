package amd

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/drm"
	"github.com/gpuwhy/gpuwhy/sampler/perdevice"
)

const (
	sometimes = 10 * time.Second // for readings that change now and then
	seldom    = time.Minute      // for readings that hardly ever change
)

// device reads one card. One goroutine at a time calls read.
type device struct {
	card   drm.Card
	cfg    Config
	log    *slog.Logger
	meter  *drm.Meter
	slept  atomic.Bool // since the last reading
	hidden atomic.Bool // processes may not be seen
	untold atomic.Bool // the driver reports neither utilization nor the work of compute processes

	mu       sync.Mutex
	identity gpu.Identity // as the card reported it, or until then as PCI has it

	// Only read uses these.
	files    *tally
	readings gpu.Readings
	sensors  sensors
	due      map[string]time.Time
	rest     drm.Rest
	kfd      kfd
	nodes    []string // of the card and its partitions
	counted  []residency
	computes bool // a process of the compute driver uses it
	signs    signs
	format   byte                 // of gpu_metrics, as last read; 0: no table
	unified  gpu.Reading[bool]    // it works in the machine's memory
	fastest  gpu.Reading[gpu.RPM] // the top speed of its fan, as the driver reports it
	apu      bool                 // known to be part of a processor
	oneVideo bool                 // one queue encodes and decodes
	began    time.Time
	failing  bool
}

// tally reads the driver's files and counts the results. Its sensors are the files for which the driver asks the card: they fail when the
// card fails, while other files may not.
type tally struct {
	read     func(string) ([]byte, error)
	answered int
	sensors  int   // that answered
	gone     error // why a sensor failed, if the card is lost
	refused  error // the last other failure of a sensor
	denied   error // the error of the last file that may not be read
}

var sensorFile = regexp.MustCompile(`^((gpu|mem|vcn)_busy_percent|gpu_metrics|(temp|power|freq)[0-9]+_(input|average))$`)

func (t *tally) file(file string) ([]byte, error) {
	b, err := t.read(file)
	isSensor := sensorFile.MatchString(filepath.Base(file))
	switch q := drm.Quality(err); {
	case err == nil:
		t.answered++
		if isSensor {
			t.sensors++
		}
	case q == gpu.NotPermitted:
		t.denied = err
	case isSensor && drm.Gone(err):
		t.gone = err
	case isSensor && q != gpu.NotSupported:
		t.refused = err
	}
	return b, err
}

func newDevice(cfg Config, c drm.Card) *device {
	read := cfg.Read
	if read == nil {
		read = drm.ReadFile
	}
	d := &device{
		card: c, cfg: cfg, log: cfg.Log.With("device", c.Address),
		meter:    drm.NewMeter(cfg.Clock, cfg.ProcRoot, cfg.Read),
		identity: c.Identity(gpu.AMD, gpu.SourceAMD, nameByID(&c)),
		files:    &tally{read: read},
		due:      map[string]time.Time{},
	}
	d.kfd = kfd{root: drm.Folder{Path: cfg.SysfsRoot, Read: cfg.Read}.In("class/kfd/kfd")}
	return d
}

func (d *device) known() gpu.Identity {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.identity
}

// asleep reports whether the card is powered down. Asking wakes nothing.
func (d *device) asleep() bool {
	asleep := d.card.Asleep()
	if asleep {
		d.slept.Store(true)
	}
	return asleep
}

// driver returns the card's folder, whose files the driver answers.
func (d *device) driver() drm.Folder { return drm.Folder{Path: d.card.Device.Path, Read: d.files.file} }

// read reads all that is due, unless the card is left alone.
func (d *device) read() (gpu.Device, error) {
	now := d.cfg.Clock.Now()
	if d.slept.Swap(false) {
		d.rest.Awake()
		clear(d.due)
	}
	if d.rest.Pausing(now) {
		return gpu.Device{Identity: d.known(), Readings: d.readings.Stale(), Reason: drm.LeftAlone}, nil
	}
	*d.files = tally{read: d.files.read}
	d.readAll(now)
	if err := d.failure(); err != nil {
		clear(d.due)
		if !d.failing {
			d.log.Warn("the card can't be read", "err", err)
		}
		d.failing = true
		return gpu.Device{}, err
	}
	if d.failing {
		d.log.Info("the card can be read again")
	}
	d.failing = false
	d.rest.Note(now, d.card.MayDoze() && idle(&d.readings))
	out := gpu.Device{Identity: d.known(), Readings: d.readings}
	out.Fans.Fans, out.Instances = slices.Clone(out.Fans.Fans), slices.Clone(out.Instances)
	return out, nil
}

func (d *device) readAll(now time.Time) {
	r := &d.readings
	if len(d.due) == 0 { // everything is read
		*r = gpu.Readings{}
		gpu.Withdraw(r, gpu.NotSupported)
	}
	late := !d.sensors.found // as while the driver is loading
	due := d.isDue("limits", now, seldom)
	if due || late {
		d.sensors = d.findSensors()
	}
	if due || late && d.sensors.found {
		d.kfd.find(&d.card)
		d.identify()
		d.readLimits()
	}
	if d.isDue("state", now, sometimes) {
		d.readState()
	}
	d.readLive()
	d.readProcesses(now)
	d.began = now
}

// isDue reports whether to read something again now. The caller then does.
func (d *device) isDue(what string, now time.Time, every time.Duration) bool {
	if now.Before(d.due[what]) {
		return false
	}
	d.due[what] = now.Add(every)
	return true
}

// failure returns why the whole card can't be read, or nil.
func (d *device) failure() error {
	_, err := os.Stat(d.card.Device.Path)
	f := d.files
	switch {
	case errors.Is(err, fs.ErrNotExist), f.gone != nil && f.sensors == 0:
		return fmt.Errorf("%w: %w", perdevice.ErrLost, &gpu.Advice{
			What: "the driver reports that the GPU is gone",
			Try:  "look for a failed reset in the kernel log (dmesg); restarting the machine may bring it back",
			Err:  cmp.Or(f.gone, err),
		})
	case f.sensors > 0, f.refused == nil && f.answered > 0:
		return nil
	case f.refused != nil:
		return &gpu.Advice{
			What: "the driver refuses every reading of the GPU, as it does during a reset",
			Try:  "wait a moment; if this persists, look for GPU resets in the kernel log (dmesg)",
			Err:  fmt.Errorf("%w: %w", gpu.ErrNotAnswering, f.refused),
		}
	case f.denied != nil:
		return &gpu.Advice{
			What: "gpuwhy is not allowed to read the GPU's files in /sys",
			Try:  "give gpuwhy read access to them, which every user of the machine has by default",
			Err:  fmt.Errorf("%w: %w", gpu.ErrNotPermitted, f.denied),
		}
	default:
		return &gpu.Advice{
			What: "the driver offers no readings of the GPU",
			Try:  "look in the kernel log (dmesg) for why the driver failed to set it up",
			Err:  gpu.ErrNotAnswering,
		}
	}
}

// idle reports whether nothing seems to need the card. The compute driver keeps a card awake for each of its processes, whose share is not
// known. A process that has used the card's engines, as its fdinfo shows, but does nothing now does not keep the card awake.
func idle(r *gpu.Readings) bool {
	busy, ok := r.Utilization.GPU.Get()
	return ok && busy == 0 && !r.Modes.DisplayActive.Or(false) &&
		!slices.ContainsFunc(r.Processes.Or(nil), func(p gpu.Process) bool {
			return (p.Type == gpu.TypeCompute || p.Type == gpu.TypeComputeGraphics) && p.SM.Or(1) > 0
		})
}

// identify reads the card's identity.
func (d *device) identify() {
	card := d.driver()
	text := func(name string) gpu.Reading[string] {
		v, err := card.Text(name)
		switch {
		case err != nil:
			return gpu.Absent[string](drm.Quality(err))
		case v == "":
			return gpu.Absent[string](gpu.NotSupported)
		}
		return gpu.Of(v)
	}
	id := d.known()
	id.Name = text("product_name").Or(id.Name)
	id.Serial = text("serial_number")
	id.VBIOS = text("vbios_version")
	id.DriverVersion = versionOf(d.cfg)
	id.Architecture = d.kfd.architecture()
	id.VendorIndex = gpu.Absent[int](gpu.NotSupported)
	if unique, ok := text("unique_id").Get(); ok && isUnique(unique) {
		id.UUID = "GPU-" + unique
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.identity = id
}

// isUnique reports whether a text is a chip's serial number: 64 bits in hexadecimal.
func isUnique(text string) bool {
	zero := true
	for _, c := range text {
		zero = zero && c == '0'
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(text) == 16 && !zero
}
