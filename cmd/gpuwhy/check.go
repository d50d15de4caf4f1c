package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/app"
	"github.com/gpuwhy/gpuwhy/internal/fleet/broker"
	"github.com/gpuwhy/gpuwhy/internal/fleet/bus"
	"github.com/gpuwhy/gpuwhy/internal/neterr"
	"github.com/gpuwhy/gpuwhy/internal/reading"
	"github.com/gpuwhy/gpuwhy/internal/regular"
)

// checkServe does everything that 'gpuwhy serve' does before it starts, but leaves nothing behind, asks nobody and locks nothing.
// notes are about problems that may be gone by the time it starts.
func (env *environment) checkServe(c *serveFlags) (notes []string, err error) {
	silent := slog.New(slog.DiscardHandler)
	note := func(err error) {
		if err != nil {
			notes = append(notes, gpu.AsAdvice(err).What)
		}
	}
	if err := c.probeStateDir(); err != nil {
		if !c.ownStateDir {
			return nil, err
		}
		note(&gpu.Advice{What: "nothing is kept across a restart: " + err.Error()})
		c.StateDir = ""
	}
	if err := c.checkFleetRole(); err != nil {
		return nil, usageError{err}
	}
	if c.FleetCredentials != "" {
		if err := bus.CheckCredentials(c.FleetCredentials); err != nil {
			return nil, usageError{err}
		}
	}
	if dir, err := c.fleetDir(); c.FleetListen != "" && err == nil && broker.Exists(dir) {
		if _, err := broker.OpenAuthority(dir); err != nil {
			return nil, err
		}
	}
	if err := c.checkAdmission(env.ctx); err != nil {
		return nil, err
	}
	note(c.checkAccounts(env.ctx))
	in, err := c.target().inputs(silent)
	if err != nil {
		return nil, err
	}
	options := (&daemon{programFlags: &c.programFlags}).options()
	if options.Clusters, err = c.newClusters(silent); err != nil {
		return nil, errors.Join(err, reading.CloseAll(in))
	}
	a, err := app.New(options, in, silent)
	if err != nil {
		return nil, usageError{err}
	}
	if err := a.Close(); err != nil {
		return nil, err
	}
	opens := []func() (net.Listener, error){func() (net.Listener, error) { return c.listenHere(env.ctx) }}
	if c.FleetListen != "" {
		opens = append(opens, func() (net.Listener, error) { return listen(env.ctx, "fleet-listen", c.FleetListen) })
	}
	for _, open := range opens {
		ln, err := open()
		switch {
		case err == nil:
			err = ln.Close()
			note(err)
		case neterr.InUse(err): // perhaps the gpuwhy with these settings
			note(err)
		default:
			return nil, usageError{err}
		}
	}
	return notes, nil
}

// probeStateDir returns why the state directory can't be used, without creating it. That another gpuwhy uses it is no reason.
func (f *stateFlags) probeStateDir() error {
	if f.StateDir == "" {
		return nil
	}
	_, err := regular.InTime(func() (none struct{}, err error) {
		dir := filepath.Clean(f.StateDir)
		for {
			info, err := os.Stat(dir)
			switch parent := filepath.Dir(dir); {
			case errors.Is(err, os.ErrNotExist) && parent != dir:
				dir = parent
				continue
			case err != nil:
				return none, err
			case !info.IsDir():
				return none, fmt.Errorf("%s is not a folder", dir)
			}
			probe, err := os.MkdirTemp(dir, ".probe-*") // permissions alone don't say
			if err != nil {
				return none, fmt.Errorf("can't write to %s: %w", dir, errors.Unwrap(err))
			}
			return none, os.Remove(probe)
		}
	})
	if err != nil {
		return usageError{fmt.Errorf("--state-dir %q: %w", f.StateDir, err)}
	}
	return nil
}

// checkFleetRole returns an error if the fleet settings contradict each other.
func (f *programFlags) checkFleetRole() error {
	if f.FleetListen != "" && len(f.fleet) > 0 {
		return bad("fleet-listen", f.FleetListen, "can't be used with --fleet: a machine either runs a fleet's server or joins a fleet")
	}
	return nil
}
