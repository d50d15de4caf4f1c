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
	"github.com/gpuwhy/gpuwhy/internal/metrics"
	"github.com/gpuwhy/gpuwhy/internal/past/scribe"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/regular"
	"github.com/gpuwhy/gpuwhy/internal/state"
)

// nowhere is the value of --state-dir that keeps nothing.
const nowhere = "none"

// defaultStateDir returns where this user's programs keep state. Without a home folder, that is an error.
func defaultStateDir() (string, error) {
	if dir := os.Getenv("STATE_DIRECTORY"); dir != "" { // set by systemd, for this unit only
		return filepath.SplitList(dir)[0], nil
	}
	base := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(base) {
		home, err := os.UserHomeDir()
		if err == nil && !filepath.IsAbs(home) {
			err = fmt.Errorf("the home folder %q is not an absolute path", home)
		}
		if err != nil {
			return "", fmt.Errorf("there is no folder to use: neither STATE_DIRECTORY nor XDG_STATE_HOME is set, and %w", err)
		}
		base = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(base, "gpuwhy"), nil
}

// takeStateDir makes sure that only this program writes to the state directory, and starts a scribe that writes. release ends both. If
// the directory is only the default, a failure does not end the program.
func (d *daemon) takeStateDir(log *slog.Logger) (release func() error, err error) {
	none := func() error { return nil }
	if d.StateDir == "" {
		return none, nil
	}
	if err = d.tryStateDir(log); err != nil && d.ownStateDir {
		d.notKept, d.StateDir = err, ""
		return none, nil
	}
	if err != nil {
		return nil, err
	}
	return d.scribe.Close, nil
}

func (d *daemon) tryStateDir(log *slog.Logger) error {
	// If the disk does not even say whether the folder exists, somebody must fix it before gpuwhy can start.
	_, err := regular.InTime(func() (fs.FileInfo, error) { return os.Stat(d.StateDir) })
	if errors.Is(err, regular.ErrSlow) {
		return fmt.Errorf("--state-dir %q: %w", d.StateDir, err)
	}
	s := scribe.Start(d.StateDir, log, databases)
	_, err = regular.InTime(func() (none struct{}, err error) { return none, s.Take(context.Background()) })
	switch _, told := errors.AsType[*gpu.Advice](err); {
	case err == nil:
	case errors.Is(err, regular.ErrSlow):
		log.Warn("the disk of the state directory accepts no writes: the past and the state are kept once it does", "dir", d.StateDir, "try", store.TrySlow)
	case told:
		return errors.Join(err, s.Close())
	default:
		return errors.Join(usageError{fmt.Errorf("--state-dir %q: %w", d.StateDir, err)}, s.Close())
	}
	installation := &state.Installed{Shelf: s}
	if _, err := installation.Installation(); errors.Is(err, state.ErrDamaged) { // otherwise it becomes known later
		return errors.Join(err, s.Close())
	}
	d.scribe, d.installation = s, installation
	return nil
}

// helpers returns the pids of this program's helper processes, by name.
func (d *daemon) helpers() map[string]int {
	pids := map[string]int{}
	if d.scribe != nil {
		pids[scribe.Name] = d.scribe.Pid()
	}
	if d.fleetServer != nil {
		pids[broker.Name] = d.fleetServer.Pid()
	}
	maps.DeleteFunc(pids, func(_ string, pid int) bool { return pid == 0 })
	return pids
}

func (d *daemon) helperPids() []int { return slices.Collect(maps.Values(d.helpers())) }

// helperCosts returns what the helpers cost.
func (d *daemon) helperCosts() (all []metrics.Helper) {
	for name, pid := range d.helpers() {
		if resident, cpu, err := helper.Cost(pid); err == nil { // otherwise it has ended
			all = append(all, metrics.Helper{Name: name, Resident: resident, CPU: cpu})
		}
	}
	slices.SortFunc(all, func(a, b metrics.Helper) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// warnOpenState warns if others may change the state, or read a fleet's keys.
func (f *stateFlags) warnOpenState(log *slog.Logger) {
	if f.StateDir == "" {
		return
	}
	_, _ = regular.InTime(func() (none struct{}, err error) { // don't wait for a disk that does not answer
		f.warnOpen(log)
		return none, nil
	})
}

func (f *stateFlags) warnOpen(log *slog.Logger) {
	keys := filepath.Join(f.StateDir, broker.Dir)
	for _, dir := range []string{f.StateDir, keys} {
		if mode, open := open(dir, 0o002); open {
			log.Warn("everyone may write to a folder of gpuwhy's state: remove that permission", "folder", dir, "mode", mode, "try", "chmod o-w")
		}
	}
	for _, name := range broker.Secrets(keys) {
		if mode, open := open(name, 0o077); open {
			log.Warn("others may read or change the fleet's keys: remove that permission", "file", name, "mode", mode, "try", "chmod 600")
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
