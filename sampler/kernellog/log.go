// Package kernellog reads what drivers report about GPUs in the kernel log. It knows XIDs and other messages
// of NVIDIA's driver, and hangs, resets and errors of amdgpu, i915 and xe. It knows the lines that the drivers
// write, and which events a source has already reported. Package sampler decides when to read the log, and
// knows the devices.
//
// docs/errors.md lists the lines.
package kernellog

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// Config configures a log. Path and Log have no defaults.
type Config struct {
	// Path is /dev/kmsg, or a regular file or named pipe with the same records.
	Path string
	Log  *slog.Logger

	// Tests replace the machine's own.
	uptime func() time.Duration // the clock of the records
	open   func(path string) (reader, error)
}

// A reader is the open log. read never waits for more: it returns io.EOF if there is nothing more now, and errGap if records were lost.
type reader interface {
	read(buf []byte) (int, error)
	close() error
}

// Log is the kernel log. One goroutine at a time may call Read, and another Describe.
type Log struct {
	cfg Config

	reading sync.Mutex // over the reading of the file
	file    reader
	lines   lines
	buf     []byte        // for one call of read
	last    *uint64       // the number of the newest record
	caught  time.Duration // by the records' clock, when everything was last read; 0 before that
	gap     bool          // records were lost before the newest call

	mu    sync.Mutex
	state state
	ledger
}

// state is whether the log can be read. The zero state, before the first attempt, is not ok.
type state struct {
	tried  bool
	why    gpu.Quality // NotPermitted or NotSupported; NotReported: it is ok, or fails for another reason
	ok     bool
	advice gpu.Advice
}

var errGap = errors.New("records are gone")

// New returns a log that the first Read opens.
func New(cfg Config) *Log {
	if cfg.uptime == nil {
		cfg.uptime = uptime
	}
	if cfg.open == nil {
		cfg.open = open
	}
	return &Log{cfg: cfg, ledger: newLedger()}
}

// Read takes in what the kernel has written since the last call; now is the clock's time. It returns when there is nothing more, or ctx has
// ended; the next call continues. If the log can't be opened, each call tries again.
func (l *Log) Read(ctx context.Context, now time.Time) {
	l.reading.Lock()
	defer l.reading.Unlock()
	l.mu.Lock()
	l.begin(now)
	l.mu.Unlock()
	if l.file == nil {
		f, err := l.cfg.open(l.cfg.Path)
		if err != nil {
			l.fail(err)
			return
		}
		l.file, l.lines = f, lines{}
	}
	if err := l.drain(ctx, now); err != nil {
		l.fail(err)
		if err := l.file.close(); err != nil {
			l.cfg.Log.Debug("the kernel's log was not closed", "err", err)
		}
		l.file = nil
		return
	}
	l.set(state{tried: true, ok: true})
}

func (l *Log) drain(ctx context.Context, now time.Time) error {
	if l.buf == nil {
		l.buf = make([]byte, mostLine)
	}
	up, before := l.cfg.uptime(), l.gap
	l.gap = false
	for ctx.Err() == nil {
		n, err := l.file.read(l.buf)
		switch {
		case errors.Is(err, io.EOF):
			l.caught = up
			return nil
		case errors.Is(err, errGap):
			if l.caught == 0 { // lines from before gpuwhy began may be missing anyway
				continue
			}
			if !before && !l.gap {
				l.cfg.Log.Warn("the kernel's log lost lines before gpuwhy could read them: errors of drivers can be missing")
			}
			l.gap = true
		case err != nil:
			return err
		default:
			l.lines.cut(l.buf[:n], func(line string) { l.take(line, now, up) })
		}
	}
	return nil
}

// take reads a line of the log.
func (l *Log) take(line string, now time.Time, up time.Duration) {
	r, ok := parseRecord(line)
	if !ok || l.last != nil && r.seq <= *l.last { // already read before the file was reopened
		return
	}
	l.last = &r.seq
	e, ok := parse(r.text)
	if !ok {
		return
	}
	// The records' clock and the machine's drift apart. A record that was missing when everything had been read is newer than that.
	ago := max(up-r.uptime, 0)
	if l.caught != 0 {
		ago = min(ago, up-l.caught)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	occurred := now.Add(-ago)
	e.earlier = l.caught == 0 && occurred.Before(l.began)
	l.hear(e, occurred)
}

// fail records why the log can't be read.
func (l *Log) fail(err error) {
	s := state{tried: true}
	switch {
	case refused(err):
		s.why = gpu.NotPermitted
		s.advice = gpu.Advice{
			What: "gpuwhy is not allowed to read the kernel log (" + l.cfg.Path + "), so it does not see errors of GPU drivers",
			Try:  "give gpuwhy the capability CAP_SYSLOG and its user read access to the file, or set kernel.dmesg_restrict to 0 (sysctl)",
			Err:  err,
		}
	case errors.Is(err, fs.ErrNotExist):
		s.why = gpu.NotSupported
		if runtime.GOOS == "linux" {
			s.advice = gpu.Advice{
				What: "there is no " + l.cfg.Path + " here, so gpuwhy does not see errors of GPU drivers",
				Try:  "if gpuwhy runs in a container, give it --device /dev/kmsg and --cap-add SYSLOG",
				Err:  err,
			}
		}
	default:
		s.advice = gpu.Advice{What: "the kernel log (" + l.cfg.Path + ") can't be read: " + err.Error(), Err: err}
	}
	l.set(s)
}

func (l *Log) set(s state) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch before := l.state; {
	case s.ok && before.tried && !before.ok:
		l.cfg.Log.Info("the kernel's log can be read again")
	case !s.ok && (!before.tried || before.ok):
		l.cfg.Log.Info("the kernel's log can't be read", "what", cmp.Or(s.advice.What, "this system has none"))
	}
	l.state = s
}

// Close closes the file. It does not wait for a hanging call.
func (l *Log) Close() error {
	if !l.reading.TryLock() {
		return nil
	}
	defer l.reading.Unlock()
	if l.file == nil {
		return nil
	}
	err := l.file.close()
	l.file = nil
	return err
}
