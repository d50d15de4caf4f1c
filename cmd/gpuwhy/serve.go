package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alert/rulefile"
	"github.com/gpuwhy/gpuwhy/internal/app"
	"github.com/gpuwhy/gpuwhy/internal/neterr"
	"github.com/gpuwhy/gpuwhy/internal/ownfile"
	"github.com/gpuwhy/gpuwhy/internal/server"
)

type serveCommand struct{}

// Run serves until the context ends.
func (serveCommand) Run(env *environment) error {
	shows := env.cfg.FleetListen != ""
	return env.run(role{reads: true, page: true, publishes: shows || len(env.cfg.fleet) > 0, shows: shows})
}

// A role is what a program does that runs until it is ended.
type role struct {
	reads     bool // this machine
	page      bool // is served
	publishes bool // to a fleet what it reads
	shows     bool // what others publish
}

// run runs the program until the context ends.
func (env *environment) run(as role) (err error) {
	cfg := env.cfg
	env.tellUnknown()
	collectSooner()
	hangups := make(chan os.Signal, 1)
	if cfg.AlertRules != "" || !onTerminal() {
		signal.Notify(hangups, syscall.SIGHUP)
		defer signal.Stop(hangups)
	}
	release, err := cfg.takeStateDir(env.log)
	if err != nil {
		return err
	}
	if cfg.notKept != nil {
		env.log.Warn("nothing is kept over a restart", "err", cfg.notKept, "try", app.TryStateDir)
	}
	cfg.warnOpenState(env.log)
	defer func() { err = errors.Join(err, release()) }()
	var in []*app.Inputs
	if as.reads {
		if in, err = newInputs(cfg, env.log); err != nil {
			return err
		}
	}
	options := cfg.options()
	if cfg.scribe != nil {
		options.Files = cfg.scribe
	}
	if options.Fleet, err = env.newFleet(as, in); err != nil {
		return errors.Join(err, app.CloseAll(in))
	}
	if options.Clusters, err = cfg.newClusters(env.log); err != nil {
		return errors.Join(err, app.CloseAll(in), options.Fleet.Close())
	}
	share(len(cfg.helpers()))
	options.History = cfg.newHistory(as, only(in), env.log)
	a, err := app.New(options, in, env.log)
	if err != nil {
		return usageError{err}
	}
	var ln net.Listener
	if as.page {
		if ln, err = listen(env.ctx, "listen", cfg.address()); err != nil {
			return errors.Join(err, a.Close())
		}
		fmt.Fprintf(env.stdout, "gpuwhy %s: %s\n", versionText(), ownURL(ln.Addr().String(), cfg.BasePath))
		if f := options.Fleet; f != nil && f.Joins != "" {
			fmt.Fprintf(env.stdout, "machines join at %s: 'gpuwhy fleet join-command NODE' prints the line for each\n", f.Joins)
		}
	}
	ctx, stop := context.WithCancel(env.ctx)
	var idle sync.WaitGroup
	idle.Go(func() { ownfile.Run(ctx, env.log.With("part", "ownfile")) })
	defer idle.Wait()
	defer stop()
	return a.Run(env.ctx, ln, hangups)
}

// only is the name of the only node; empty where there are several, or none.
func only(in []*app.Inputs) string {
	if len(in) != 1 {
		return ""
	}
	return in[0].Node
}

// options are the settings of the program that serves.
func (c *Config) options() app.Options {
	return app.Options{
		Version: versionText(),
		Node:    c.name(),
		Address: server.Address{
			Listen: c.address(), Hostname: c.hostname, BasePath: c.BasePath, AllowOrigins: c.origins, AllowEmbed: c.frames, AllowHosts: c.hosts,
			TrustedProxies: c.proxies, MaxViewersOfAddress: c.MaxViewersPerAddress,
		},
		MaxViewers:       c.MaxViewers,
		Interval:         c.Interval,
		IdleInterval:     c.IdleInterval,
		Deadline:         c.Deadline,
		AlertRules:       c.AlertRules,
		AlertUtilization: c.AlertUtilization,
		MetricsFamilies:  c.MetricsFamilies,
		StateDir:         c.StateDir,
		Installation:     c.installation,
		Export:           c.exports,
		NotKept:          c.notKept,
		Helpers:          c.helperCosts,
	}
}

// rules are those of the file of alert rules, or the default rules.
func (c *Config) rules() (*rulefile.File, error) { return app.Rules(c.AlertRules, c.AlertUtilization) }

// onTerminal reports whether the program belongs to a terminal, with which it may end.
func onTerminal() bool {
	terminal, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return false
	}
	terminal.Close()
	return true
}

// listen opens the address, or says what is wrong with it.
func listen(ctx context.Context, flag, address string) (net.Listener, error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	switch {
	case err == nil:
		return ln, nil
	case neterr.InUse(err):
		return nil, &gpu.Advice{
			What: "another program listens on " + address,
			Try:  "end it, or choose another port with --" + flag + " (port 0 takes a free one)",
			Err:  err,
		}
	case neterr.Forbidden(err):
		return nil, &gpu.Advice{What: "not permitted to listen on " + address, Try: "choose another port, above 1023, with --" + flag, Err: err}
	default:
		return nil, &gpu.Advice{What: "can't listen on " + address, Try: "give --" + flag + " an address of this machine (" + err.Error() + ")", Err: err}
	}
}
