package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/keep"
	"github.com/gpuwhy/gpuwhy/internal/regular"
)

// nowhere is a state directory in which nothing is kept.
const nowhere = "none"

// defaultStateDir is where a program of this user keeps things; empty where it has no home.
func defaultStateDir() string {
	if dir := os.Getenv("STATE_DIRECTORY"); dir != "" { // of systemd, for this unit alone
		return filepath.SplitList(dir)[0]
	}
	base := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(base) {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		base = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(base, "gpuwhy")
}

// takeStateDir makes sure that this program alone can keep something. release ends that. Where nobody has
// asked for it, that it can't be kept ends nothing.
func (c *Config) takeStateDir() (release func() error, err error) {
	if release, err = c.tryStateDir(); err != nil && c.ownStateDir {
		c.notKept, c.StateDir = err, ""
		return func() error { return nil }, nil
	}
	return release, err
}

func (c *Config) tryStateDir() (release func() error, err error) {
	if c.StateDir == "" {
		return func() error { return nil }, nil
	}
	release, err = regular.InTime(func() (func() error, error) {
		if err := os.MkdirAll(c.StateDir, 0o700); err != nil {
			return nil, usageError{err}
		}
		probe, err := os.CreateTemp(c.StateDir, ".probe-*")
		if err != nil {
			return nil, usageError{fmt.Errorf("can't be written to: %w", err)}
		}
		probe.Close()
		if err := os.Remove(probe.Name()); err != nil {
			return nil, usageError{err}
		}
		return keep.Lock(c.StateDir)
	})
	if _, ok := errors.AsType[*gpu.Advice](err); err != nil && !ok {
		err = fmt.Errorf("--state-dir %q: %w", c.StateDir, err)
	}
	return release, err
}
