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
	"time"

	"github.com/natefinch/atomic"
)

// kept is what is known over a restart, in files below the state directory.
// Without a directory nothing is kept.
type kept struct {
	files []keptFile
	log   *slog.Logger
	// soon says that something changed that is to be written at once.
	soon chan struct{}
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

// kept lists what the program keeps. A simulation has files of its own, so that
// it writes over nothing that is known of real devices.
func (a *app) kept() *kept {
	k := &kept{log: a.log, soon: a.alerts.changed}
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
			file("alerts.json"), "alerts and silences", promptly,
			func() ([]byte, error) { return a.alerts.Keep(origin, node) },
			func(text []byte, now time.Time) error { return a.alerts.Restore(text, origin, node, now) },
		},
		{
			file("notifications.json"), "what targets are still to be told", promptly, a.alerts.notifier.Keep,
			func(text []byte, _ time.Time) error { return a.alerts.notifier.Restore(text) },
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
	for _, f := range k.files {
		if f.when < now {
			continue
		}
		text, err := f.keep()
		if err == nil {
			err = atomic.WriteFile(f.name, bytes.NewReader(text))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s can't be kept: %w", f.what, err))
		}
	}
	return errors.Join(errs...)
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
