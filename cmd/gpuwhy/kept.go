package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/natefinch/atomic"
)

// kept is what is known over a restart, in files below the state directory.
// Without a directory nothing is kept.
type kept struct {
	files []keptFile
	log   *slog.Logger
	// soon and told say that something changed that is to be written at once:
	// an alert, or what targets were told.
	soon, told <-chan struct{}
	// news is held while alerts change and what is to be told of them.
	news sync.Locker
}

// A keptFile is one of them.
type keptFile struct {
	name    string
	what    string // "the alerts of before"
	when    keepWhen
	keep    func() ([]byte, error)
	restore func(text []byte, now time.Time) error
}

// keepWhen is when a file is written. All are at the end.
type keepWhen uint8

const (
	atEnd    keepWhen = iota // much, and soon out of date
	hourly                   // what took hours: now and then
	promptly                 // what must not be lost: when it changes
)

const (
	// keepEvery is how often what took hours is written.
	keepEvery = 10 * time.Minute
	// writePause is the least time between two writes, whatever changes.
	writePause = time.Second
	// maxKept bounds what is read of a file, in bytes.
	maxKept = 64 << 20
)

// kept lists what the program keeps, in the order in which it is written: an end
// between what targets are to be told and the alerts repeats a message, and
// loses none. A simulation has files of its own, so that it writes over nothing
// that is known of real devices.
func (a *app) kept() *kept {
	k := &kept{log: a.log, soon: a.alerts.changed, told: a.alerts.notifier.Changed(), news: &a.alerts.order}
	if a.cfg.StateDir == "" {
		return k
	}
	file := func(name string) string {
		if strings.HasPrefix(a.cfg.Source, "simulate:") {
			name = "simulated-" + name
		}
		return filepath.Join(a.cfg.StateDir, name)
	}
	// However a real machine is read, it is the same machine.
	origin := "auto"
	if strings.HasPrefix(a.cfg.Source, "simulate:") {
		origin = a.cfg.Source
	}
	node := a.inputs.node
	k.files = []keptFile{
		{
			file("recent.json"), "the last minutes", atEnd,
			func() ([]byte, error) { return a.recent.Keep(origin) },
			func(text []byte, now time.Time) error { return a.recent.Restore(text, origin, now) },
		},
		{file("floors.json"), "what devices draw at rest", hourly, a.floors.Keep, a.floors.Restore},
		{file("baselines.json"), "how devices are at work and after it", hourly, a.history.Keep, a.history.Restore},
		{
			file("notifications.json"), "what targets are still to be told", promptly, a.alerts.notifier.Keep,
			func(text []byte, _ time.Time) error { return a.alerts.notifier.Restore(text) },
		},
		{
			file("alerts.json"), "alerts and silences", promptly,
			func() ([]byte, error) { return a.alerts.Keep(origin, node) },
			func(text []byte, now time.Time) error { return a.alerts.Restore(text, origin, node, now) },
		},
	}
	return k
}

// restore takes in what an earlier run has kept. What can't be used is said,
// and begins anew.
func (k *kept) restore() {
	for _, f := range k.files {
		text, err := readKept(f.name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = f.restore(text, time.Now())
		}
		if err != nil {
			k.log.Warn("something of before is lost, and begins anew", "what", f.what, "file", f.name, "err", err)
		}
	}
}

func readKept(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxKept+1))
	if err == nil && len(text) > maxKept {
		err = fmt.Errorf("longer than %d bytes", maxKept)
	}
	return text, err
}

// write writes the files of which it is time, each whole or not at all.
func (k *kept) write(now keepWhen) error {
	var errs []error
	for _, t := range k.promptly() {
		errs = append(errs, t.write())
	}
	for i := range k.files {
		if f := &k.files[i]; f.when != promptly && f.when >= now {
			errs = append(errs, f.now().write())
		}
	}
	return errors.Join(errs...)
}

// promptly returns what goes into the files that must not be lost, all of one
// moment: what the alerts say was told is among what is to be told.
func (k *kept) promptly() (out []keptText) {
	if len(k.files) == 0 {
		return nil
	}
	k.news.Lock()
	defer k.news.Unlock()
	for i := range k.files {
		if f := &k.files[i]; f.when == promptly {
			out = append(out, f.now())
		}
	}
	return out
}

// A keptText is what goes into a file.
type keptText struct {
	*keptFile
	text []byte
	err  error
}

func (f *keptFile) now() keptText {
	text, err := f.keep()
	return keptText{f, text, err}
}

func (t keptText) write() error {
	err := t.err
	if err == nil {
		err = atomic.WriteFile(t.name, bytes.NewReader(t.text))
	}
	if err != nil {
		return fmt.Errorf("%s can't be kept: %w", t.what, err)
	}
	return nil
}

// keepOn writes until ctx ends. A disk that is slow holds nobody up.
func (k *kept) keepOn(ctx context.Context) {
	ticks := time.NewTicker(keepEvery)
	defer ticks.Stop()
	failing := false
	for {
		now := promptly
		select {
		case <-ctx.Done():
			return
		case <-k.soon:
		case <-k.told:
		case <-ticks.C:
			now = hourly
		}
		err := k.write(now)
		if err != nil && !failing {
			k.log.Warn("a restart would lose something", "err", err)
		}
		failing = err != nil
		if pause(ctx, writePause) != nil {
			return
		}
	}
}
