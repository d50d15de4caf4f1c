package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/fleet/broker"
	"github.com/gpuwhy/gpuwhy/internal/helper"
	"github.com/gpuwhy/gpuwhy/internal/keep"
	"github.com/gpuwhy/gpuwhy/internal/metrics"
	"github.com/gpuwhy/gpuwhy/internal/regular"
	"github.com/gpuwhy/gpuwhy/internal/scribe"
	"github.com/gpuwhy/gpuwhy/internal/store"
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

// takeStateDir makes sure that this program alone can keep something, and has a scribe write it. release ends that. Where
// nobody has asked for it, that it can't be kept ends nothing.
func (c *Config) takeStateDir(log *slog.Logger) (release func() error, err error) {
	none := func() error { return nil }
	if c.StateDir == "" {
		return none, nil
	}
	if err = c.tryStateDir(log); err != nil && c.ownStateDir {
		c.notKept, c.StateDir = err, ""
		return none, nil
	}
	if err != nil {
		return nil, err
	}
	return c.scribe.Close, nil
}

func (c *Config) tryStateDir(log *slog.Logger) error {
	// A disk that does not even say whether the folder is there has to be seen to before anything starts.
	_, err := regular.InTime(func() (fs.FileInfo, error) { return os.Stat(c.StateDir) })
	if errors.Is(err, regular.ErrSlow) {
		return fmt.Errorf("--state-dir %q: %w", c.StateDir, err)
	}
	s := scribe.Start(c.StateDir, log)
	_, err = regular.InTime(func() (none struct{}, err error) { return none, s.Take(context.Background()) })
	switch _, told := errors.AsType[*gpu.Advice](err); {
	case err == nil:
	case errors.Is(err, regular.ErrSlow):
		log.Warn("the disk of the state directory takes no writes: the past and the state are kept as soon as it does", "dir", c.StateDir, "try", store.TrySlow)
	case told:
		return errors.Join(err, s.Close())
	default:
		return errors.Join(usageError{fmt.Errorf("--state-dir %q: %w", c.StateDir, err)}, s.Close())
	}
	installation := &keep.Installed{Shelf: s}
	if _, err := installation.Installation(); errors.Is(err, keep.ErrDamaged) { // else it is known later
		return errors.Join(err, s.Close())
	}
	c.scribe, c.installation = s, installation
	return nil
}

// helpers are the processes that belong to this one, by name.
func (c *Config) helpers() map[string]int {
	pids := map[string]int{}
	if c.scribe != nil {
		pids[scribe.Name] = c.scribe.Pid()
	}
	if c.fleetServer != nil {
		pids[broker.Name] = c.fleetServer.Pid()
	}
	maps.DeleteFunc(pids, func(_ string, pid int) bool { return pid == 0 })
	return pids
}

func (c *Config) helperPids() []int { return slices.Collect(maps.Values(c.helpers())) }

// helperCosts are what they cost.
func (c *Config) helperCosts() (all []metrics.Helper) {
	for name, pid := range c.helpers() {
		if resident, cpu, err := helper.Cost(pid); err == nil { // else it has ended
			all = append(all, metrics.Helper{Name: name, Resident: resident, CPU: cpu})
		}
	}
	slices.SortFunc(all, func(a, b metrics.Helper) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// warnOpenState says that others may change what is kept, or read the keys of a fleet.
func (c *Config) warnOpenState(log *slog.Logger) {
	if c.StateDir == "" {
		return
	}
	_, _ = regular.InTime(func() (none struct{}, err error) { // a disk that does not answer holds up nobody
		c.warnOpen(log)
		return none, nil
	})
}

func (c *Config) warnOpen(log *slog.Logger) {
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
