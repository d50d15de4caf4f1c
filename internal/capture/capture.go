// Package capture records a machine for a bug report, as a folder of plain files. A capture has
// gpuwhy's readings over a while, and the raw data behind them (see package recording and
// docs/captures.md). It replaces names of people, machines and programs, unless asked to keep them.
// It reads nothing that a source would not read: a sleeping card stays asleep.
package capture

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/natefinch/atomic"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/recording"
	"github.com/gpuwhy/gpuwhy/sampler/smi"
)

// Options say what to record.
type Options struct {
	Dir   string
	Names bool // keep names
	// Next waits for the next reading; Every is the time between readings. Recording ends
	// For after the first reading; 0: when the context ends.
	Next       func(context.Context) (*gpu.Snapshot, error)
	Every, For time.Duration
	// Started is called once the folder exists; it may be nil.
	Started func()
	// Most is the size limit for the readings, in bytes; 0: recording.MaxReadings.
	Most int64

	Version string   // of gpuwhy
	Sources []string // as in --source
	Vendors []gpu.Vendor
	// SysfsRoot and ProcRoot are where the kernel's files are; NvidiaSMI runs nvidia-smi.
	SysfsRoot, ProcRoot string
	NvidiaSMI           smi.Run
	// Names to replace that are known before anything is read: the user's and the
	// machine's.
	User, Host string
	Log        *slog.Logger

	// rawTime limits each of nvidia-smi's commands, and reading the files of a vendor's cards. Only tests set it.
	rawTime time.Duration
}

// A Summary says what was recorded.
type Summary struct {
	recording.Manifest
	Full bool // the recording ended at its size limit
}

type recorder struct {
	Options
	mask     *mask
	manifest recording.Manifest
	lines    *os.File
	size     int64
}

// Record records until the time is over or ctx ends, which is not an error. It refuses a folder that is not empty.
func Record(ctx context.Context, o Options) (*Summary, error) {
	if o.Most == 0 {
		o.Most = recording.MaxReadings
	}
	o.rawTime = cmp.Or(o.rawTime, 10*time.Second)
	r := &recorder{Options: o, mask: newMask(o.Names), manifest: recording.Manifest{
		Format: recording.Format, Made: recording.ByMachine, Gpuwhy: o.Version, Every: o.Every.String(), Sources: o.Sources,
		Began: time.Now().UTC().Truncate(time.Second),
	}}
	r.mask.user(o.User)
	r.mask.replace(aHost, o.Host)
	if err := r.begin(); err != nil {
		return nil, err
	}
	if o.Started != nil {
		o.Started()
	}
	full, err := r.record(ctx)
	err = errors.Join(err, r.lines.Close(), r.end())
	if err != nil {
		return nil, err
	}
	return &Summary{Manifest: r.manifest, Full: full}, nil
}

// begin creates the folder. From then on it is a valid capture, whatever happens.
func (r *recorder) begin() error {
	entries, err := os.ReadDir(r.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = os.MkdirAll(r.Dir, 0o700)
	case err == nil && len(entries) > 0:
		return &gpu.Advice{
			What: r.Dir + " is not empty",
			Try:  "name a folder that does not exist yet, or empty this one",
		}
	}
	if err != nil {
		return &gpu.Advice{What: "can't write to " + r.Dir + ": " + err.Error(), Try: "name another folder", Err: err}
	}
	if err := r.writeManifest(); err != nil {
		return err
	}
	r.lines, err = os.OpenFile(filepath.Join(r.Dir, recording.ReadingsFile), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	return err
}

// record writes readings until the time is over or ctx ends, or there are too many.
func (r *recorder) record(ctx context.Context) (full bool, err error) {
	first, err := r.Next(ctx)
	if err != nil {
		return false, unlessEnded(ctx, err)
	}
	if full, err = r.add(first); full || err != nil {
		return full, err
	}
	// The raw files come after the first reading: by then most names are known.
	if err := errors.Join(r.recordRaw(ctx, first), r.writeManifest()); err != nil {
		return false, err
	}
	if r.For > 0 {
		limited, stop := context.WithTimeout(ctx, r.For)
		defer stop()
		ctx = limited
	}
	for {
		s, err := r.Next(ctx)
		if err != nil {
			return false, unlessEnded(ctx, err)
		}
		if full, err = r.add(s); full || err != nil {
			return full, err
		}
	}
}

// unlessEnded returns the error, or nil if the context has ended.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// add writes a reading.
func (r *recorder) add(s *gpu.Snapshot) (full bool, err error) {
	line, err := gpu.MarshalRecord(s)
	if err != nil {
		return false, err
	}
	own, err := gpu.UnmarshalRecord(line) // masking must not change the original
	if err != nil {
		return false, err
	}
	r.mask.snapshot(own)
	if line, err = gpu.MarshalRecord(own); err != nil {
		return false, err
	}
	if r.size += int64(len(line)) + 1; r.size > r.Most {
		return true, nil
	}
	if _, err := r.lines.Write(append(line, '\n')); err != nil {
		return false, r.failed(err)
	}
	r.manifest.Readings++
	if h := own.Host; h != nil {
		r.manifest.System, r.manifest.Kernel = h.OS, h.Kernel
	}
	return false, nil
}

func (r *recorder) end() error {
	r.manifest.Ended = time.Now().UTC().Truncate(time.Second)
	return r.writeManifest()
}

func (r *recorder) writeManifest() error {
	r.manifest.Masked = r.mask.kinds()
	text, err := r.manifest.Bytes()
	if err != nil {
		return err
	}
	return r.write(recording.ManifestFile, text)
}

// write writes a whole file, or nothing.
func (r *recorder) write(name string, text []byte) error {
	file := filepath.Join(r.Dir, filepath.FromSlash(name))
	err := os.MkdirAll(filepath.Dir(file), 0o700)
	if err == nil {
		err = atomic.WriteFile(file, bytes.NewReader(text))
	}
	if err != nil {
		return r.failed(err)
	}
	return nil
}

func (r *recorder) failed(err error) error {
	return &gpu.Advice{
		What: "the capture can't be written: " + err.Error(),
		Try:  "check the space on the disk; the readings in " + r.Dir + " so far are usable",
		Err:  err,
	}
}

// missing records what is missing from the capture, each text once.
func (r *recorder) missing(format string, args ...any) {
	text := r.mask.text(fmt.Sprintf(format, args...))
	if !slices.Contains(r.manifest.Missing, text) {
		r.manifest.Missing = append(r.manifest.Missing, text)
	}
}
