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

	"github.com/gpuwhy/gpuwhy/internal/attribute"
	"github.com/gpuwhy/gpuwhy/internal/explain"
)

// learned keeps what was learned of devices over a restart, in files below the
// state directory: what they draw at rest, and how they are at work and after
// it. Without a directory nothing is kept.
type learned struct {
	files []learnedFile
	log   *slog.Logger
}

type learnedFile struct {
	name    string
	keep    func() ([]byte, error)
	restore func([]byte, time.Time) error
}

const (
	// keepEvery is how often it is written, so that a crash loses little of
	// what took hours.
	keepEvery = 10 * time.Minute
	// maxLearned bounds what is read of a file, in bytes.
	maxLearned = 16 << 20
)

// newLearned has files of their own for a simulation, so that it writes over
// nothing that is known of real devices.
func newLearned(cfg *Config, floors *attribute.Floors, history *explain.History, log *slog.Logger) *learned {
	l := &learned{log: log}
	if cfg.StateDir == "" {
		return l
	}
	prefix := ""
	if strings.HasPrefix(cfg.Source, "simulate:") {
		prefix = "simulated-"
	}
	l.files = []learnedFile{
		{filepath.Join(cfg.StateDir, prefix+"floors.json"), floors.Keep, floors.Restore},
		{filepath.Join(cfg.StateDir, prefix+"baselines.json"), history.Keep, history.Restore},
	}
	return l
}

// restore takes in what an earlier run has kept. What can't be used is said,
// and learned anew.
func (l *learned) restore() {
	for _, f := range l.files {
		text, err := readLearned(f.name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = f.restore(text, time.Now())
		}
		if err != nil {
			l.log.Warn("some of what was learned of devices is lost, and learned anew", "file", f.name, "err", err)
		}
	}
}

func readLearned(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxLearned+1))
	if err == nil && len(text) > maxLearned {
		err = fmt.Errorf("longer than %d bytes", maxLearned)
	}
	return text, err
}

// keep writes all files, each whole or not at all.
func (l *learned) keep() error {
	var errs []error
	for _, f := range l.files {
		text, err := f.keep()
		if err == nil {
			err = atomic.WriteFile(f.name, bytes.NewReader(text))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("what was learned of devices: %w", err))
		}
	}
	return errors.Join(errs...)
}

// keepOn writes now and then until ctx ends. A disk that is slow holds nobody
// up.
func (l *learned) keepOn(ctx context.Context) {
	failing := false
	for pause(ctx, keepEvery) == nil {
		err := l.keep()
		if err != nil && !failing {
			l.log.Warn("what is learned of devices can't be kept", "err", err)
		}
		failing = err != nil
	}
}
