package replay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/amd"
	"github.com/gpuwhy/gpuwhy/sampler/drm"
	"github.com/gpuwhy/gpuwhy/sampler/intel"
	"github.com/gpuwhy/gpuwhy/sampler/recording"
	"github.com/gpuwhy/gpuwhy/sampler/smi"
)

// reader is a sampler.Source.
type reader interface {
	Name() string
	Read(ctx context.Context) (*gpu.Snapshot, error)
	Close() error
}

// raw are the sources that read a capture's raw files.
type raw struct {
	sources []reader
	dir     string // the files as in /sys and /proc; empty: none
	proc    recording.Tree
}

func openRaw(c *recording.Capture, cfg Config) (_ *raw, err error) {
	r := &raw{}
	defer func() {
		if err != nil {
			err = &gpu.Advice{
				What: "the raw files of " + c.Dir + " can't be read: " + err.Error(), Try: "check the files named there", Err: err,
			}
			_ = r.close() // the returned error says enough
		}
	}()
	if c.HasSMI() {
		files := os.DirFS(filepath.Join(c.Dir, filepath.FromSlash(recording.SMIFolder)))
		r.sources = append(r.sources, smi.New(smi.Config{
			Run: smi.Recorded(files), Interval: cfg.Interval, Deadline: cfg.Deadline, Clock: cfg.Clock, Log: quiet(cfg.Log),
		}))
	}
	sysfs, err := c.Tree(recording.SysfsFile)
	if err != nil || len(sysfs) == 0 {
		return r, err
	}
	proc, err := c.Tree(recording.ProcFile)
	if err != nil {
		return r, err
	}
	if runtime.GOOS != "linux" {
		return r, errors.New("files of Linux's /sys can only be read on Linux")
	}
	if r.dir, err = os.MkdirTemp("", "gpuwhy-replay-"); err != nil {
		return r, err
	}
	// The kernel's links are resolved below the root, which must not contain links itself.
	if r.dir, err = filepath.EvalSymlinks(r.dir); err != nil {
		return r, err
	}
	r.proc = proc
	sysRoot, procRoot := filepath.Join(r.dir, "sys"), filepath.Join(r.dir, "proc")
	for root, tree := range map[string]recording.Tree{sysRoot: sysfs, procRoot: proc} {
		if err := errors.Join(os.MkdirAll(root, 0o700), tree.Unpack(root)); err != nil {
			return r, err
		}
	}
	read := proc.Reader(procRoot, sysfs.Reader(sysRoot, drm.ReadFile))
	holders := drm.NewHolders(procRoot, sysRoot)
	holders.Clock = cfg.Clock
	if hasPrefix(sysfs, "bus/pci/drivers/amdgpu/") {
		r.sources = append(r.sources, amd.New(amd.Config{
			SysfsRoot: sysRoot, ProcRoot: procRoot, Deadline: cfg.Deadline, Holders: holders, Read: read, Clock: cfg.Clock, Log: quiet(cfg.Log),
		}))
	}
	if hasPrefix(sysfs, "bus/pci/drivers/i915/") || hasPrefix(sysfs, "bus/pci/drivers/xe/") {
		r.sources = append(r.sources, intel.New(intel.Config{
			SysfsRoot: sysRoot, ProcRoot: procRoot, Deadline: cfg.Deadline, Holders: holders, Read: read, Clock: cfg.Clock, Log: quiet(cfg.Log),
		}))
	}
	if len(r.sources) == 0 {
		return r, fmt.Errorf("%s has no card of a driver that gpuwhy reads", recording.SysfsFile)
	}
	return r, nil
}

func hasPrefix(t recording.Tree, prefix string) bool {
	for name := range t {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// quiet returns a log that marks messages about a machine that is not here.
func quiet(log *slog.Logger) *slog.Logger { return log.With("replayed", true) }

// read reads all sources at once. A failure of one does not affect the others.
func (r *raw) read(ctx context.Context) (*gpu.Snapshot, error) {
	snaps, errs := make([]*gpu.Snapshot, len(r.sources)), make([]error, len(r.sources))
	var wg sync.WaitGroup
	for i, s := range r.sources {
		wg.Go(func() { snaps[i], errs[i] = s.Read(ctx) })
	}
	wg.Wait()
	all := &gpu.Snapshot{}
	for _, s := range snaps {
		if s != nil {
			all.Devices = append(all.Devices, s.Devices...)
			all.Drivers = append(all.Drivers, s.Drivers...)
			all.Notes = append(all.Notes, s.Notes...)
		}
	}
	for i := range all.Devices {
		d := &all.Devices[i]
		d.Processes = gpu.Map(d.Processes, slices.Clone) // the source may keep using its own
		processes := d.Processes.Or(nil)
		for k := range processes {
			if comm := clean(string(r.proc[fmt.Sprintf("%d/comm", processes[k].PID)].Text)); comm != "" {
				processes[k].Facts.Name = gpu.Of(comm)
			}
		}
	}
	return all, errors.Join(errs...)
}

func (r *raw) close() error {
	var errs []error
	for _, s := range r.sources {
		errs = append(errs, s.Close())
	}
	if r.dir != "" {
		errs = append(errs, os.RemoveAll(r.dir))
	}
	return errors.Join(errs...)
}

// clean makes a capture's text fit for people: one line, of bounded length, without control characters.
func clean(text string) string {
	const most = 200
	text = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	if r := []rune(text); len(r) > most {
		text = string(r[:most]) + "…"
	}
	return strings.TrimSpace(text)
}
