package audit

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A SystemLog takes a line about each entry. One goroutine calls it.
type SystemLog interface {
	// Tell returns once the line is taken, which may take as long as the system log likes. After an error it is told the line again; unless
	// the line is too long for it.
	Tell(line string) error
}

const (
	// mostLines is how many lines wait for the system log. Whoever acts never waits for it.
	mostLines = 1000
	// tooSlow is how long the system log may take for a line before health says so.
	tooSlow = 10 * time.Second
)

// A reporter tells the system log lines, in their order, and keeps them while it is away.
type reporter struct {
	to    SystemLog
	log   *slog.Logger
	now   func() time.Time
	lines chan string

	mu    sync.Mutex
	since time.Time // when the line that is being told came to be so; zero: none is
	err   error     // why it was not taken yet
	lost  uint64    // lines for which there was no room, or that were too long
}

func newReporter(to SystemLog, log *slog.Logger, now func() time.Time) *reporter {
	return &reporter{to: to, log: log, now: now, lines: make(chan string, mostLines)}
}

// add has the system log told a line, and does not wait.
func (r *reporter) add(line string) {
	select {
	case r.lines <- line:
	default:
		r.lose("there was no room for more", nil)
	}
}

// lose counts a line that the system log is not told.
func (r *reporter) lose(why string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lost++; r.lost == 1 {
		r.log.Error("the system log is not told of all entries", "why", why, "err", err)
	}
}

// run tells lines until stop is closed, and then those that are left, if it is told them at the first attempt.
func (r *reporter) run(stop <-chan struct{}) {
	for {
		select {
		case line := <-r.lines:
			if !r.tell(line, stop) {
				return
			}
			continue
		default:
		}
		select {
		case line := <-r.lines:
			if !r.tell(line, stop) {
				return
			}
		case <-stop:
			if len(r.lines) == 0 {
				return
			}
		}
	}
}

// tell tells a line until it is taken. It reports whether it was, or never can be.
func (r *reporter) tell(line string, stop <-chan struct{}) bool {
	r.state(r.now(), nil)
	for failed := false; ; {
		err := r.to.Tell(line)
		switch {
		case err == nil:
			if failed {
				r.log.Info("the system log is told of entries again", "waiting", len(r.lines))
			}
			r.state(time.Time{}, nil)
			return true
		case isTooLong(err):
			r.lose("an entry is too long", err)
			r.state(time.Time{}, nil)
			return true
		case !failed:
			failed = true
			r.log.Warn("the system log is not told of entries, which wait", "err", err, "try", trySystem)
		}
		r.failed(err)
		later := time.NewTimer(again)
		select {
		case <-later.C:
		case <-stop:
			later.Stop()
			return false
		}
	}
}

func (r *reporter) state(since time.Time, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.since, r.err = since, err
}

func (r *reporter) failed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

const trySystem = "start the machine's system log, or check its disk; or leave out --audit-syslog"

// trouble is why the system log does not have all entries, and since when; nil if it does, or soon will.
func (r *reporter) trouble() (*gpu.Advice, time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case !r.since.IsZero() && (r.err != nil || r.now().Sub(r.since) > tooSlow):
		return &gpu.Advice{What: fmt.Sprintf("the system log takes no entries; that wait for it: %d", len(r.lines)+1), Try: trySystem, Err: r.err}, r.since
	case r.lost > 0:
		return &gpu.Advice{
			What: fmt.Sprintf("entries that the system log was not told since gpuwhy started: %d", r.lost), Try: "look for them in the audit; the machine's system log may be too slow",
		}, time.Time{}
	}
	return nil, time.Time{}
}
