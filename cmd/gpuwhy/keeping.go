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
	"slices"
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/fleet/broker"
	"github.com/gpuwhy/gpuwhy/internal/helper"
	"github.com/gpuwhy/gpuwhy/internal/metrics"
	"github.com/gpuwhy/gpuwhy/internal/regular"
	"github.com/gpuwhy/gpuwhy/internal/scribe"
	"github.com/gpuwhy/gpuwhy/internal/store"
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
	c.scribe = s
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
