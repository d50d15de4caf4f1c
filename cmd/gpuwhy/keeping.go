package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/fleet/broker"
	"github.com/gpuwhy/gpuwhy/internal/keep"
	"github.com/gpuwhy/gpuwhy/internal/regular"
)

// nowhere is a state directory in which nothing is kept.
const nowhere = "none"

// defaultStateDir is where a program of this user keeps things. Where it has no home, that is an error.
func defaultStateDir() (string, error) {
	if dir := os.Getenv("STATE_DIRECTORY"); dir != "" { // of systemd, for this unit alone
		return filepath.SplitList(dir)[0], nil
	}
	base := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(base) {
		home, err := os.UserHomeDir()
		if err == nil && !filepath.IsAbs(home) {
			err = fmt.Errorf("the home folder %q is no absolute path", home)
		}
		if err != nil {
			return "", fmt.Errorf("there is no folder for it: neither STATE_DIRECTORY nor XDG_STATE_HOME is set, and %w", err)
		}
		base = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(base, "gpuwhy"), nil
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
		release, err := keep.Lock(c.StateDir)
		if err != nil {
			return nil, err
		}
		if c.installation, err = keep.OpenInstallation(c.StateDir); err != nil {
			return nil, errors.Join(err, release())
		}
		return release, nil
	})
	if _, ok := errors.AsType[*gpu.Advice](err); err != nil && !ok {
		err = fmt.Errorf("--state-dir %q: %w", c.StateDir, err)
	}
	return release, err
}

// warnOpenState says that others may change what is kept, or read the keys of a fleet.
func (c *Config) warnOpenState(log *slog.Logger) {
	if c.StateDir == "" {
		return
	}
	keys := filepath.Join(c.StateDir, broker.Dir)
	for _, dir := range []string{c.StateDir, keys} {
		if mode, open := open(dir, 0o002); open {
			log.Warn("everybody may write to a folder in which gpuwhy keeps things: take that from them", "folder", dir, "mode", mode, "try", "chmod o-w")
		}
	}
	for _, name := range broker.Secrets(keys) {
		if mode, open := open(name, 0o077); open {
			log.Warn("others may read or change keys of the fleet: take that from them", "file", name, "mode", mode, "try", "chmod 600")
		}
	}
}

// open reports whether a file or folder gives others one of these rights.
func open(name string, rights fs.FileMode) (mode string, open bool) {
	info, err := os.Stat(name)
	if err != nil || runtime.GOOS == "windows" {
		return "", false
	}
	return info.Mode().Perm().String(), info.Mode().Perm()&rights != 0
}
