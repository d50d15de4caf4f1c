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
	"github.com/gpuwhy/gpuwhy/internal/access"
	"github.com/gpuwhy/gpuwhy/internal/alerts"
	"github.com/gpuwhy/gpuwhy/internal/alerts/rulefile"
	"github.com/gpuwhy/gpuwhy/internal/app"
	"github.com/gpuwhy/gpuwhy/internal/certs"
	"github.com/gpuwhy/gpuwhy/internal/fleet/broker"
	"github.com/gpuwhy/gpuwhy/internal/neterr"
	"github.com/gpuwhy/gpuwhy/internal/ownfile"
	"github.com/gpuwhy/gpuwhy/internal/past/scribe"
	"github.com/gpuwhy/gpuwhy/internal/reading"
	"github.com/gpuwhy/gpuwhy/internal/release"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/internal/state"
)

type serveCommand struct{ serveFlags }

// Run serves until the context ends.
func (c *serveCommand) Run(env *environment) error {
	shows := c.FleetListen != ""
	return env.run(&c.programFlags, role{reads: c.target(), page: true, publishes: shows || len(c.fleet) > 0, shows: shows})
}

// A role is what a long-running program does.
type role struct {
	reads     *target // nil: none
	page      bool    // it serves a page
	publishes bool    // it publishes what it reads to a fleet
	shows     bool    // it shows what others publish
}

// A daemon is a long-running program, with the helpers that it has started.
type daemon struct {
	*programFlags
	installation *state.Installed // of the state directory, once it is locked; nil without one
	scribe       scribe.Scribe    // of the same
	fleetServer  broker.Server    // nil: this program is none
}

// run runs the program until the context ends.
func (env *environment) run(flags *programFlags, r role) (err error) {
	d := &daemon{programFlags: flags}
	rules, _ := d.rules() // its errors are reported when it is used
	env.tellUnknown(append(variablesOf(rules), d.secretVariables()...))
	collectSooner()
	hangups := make(chan os.Signal, 1)
	if d.AlertRules != "" || !onTerminal() {
		signal.Notify(hangups, syscall.SIGHUP)
		defer signal.Stop(hangups)
	}
	release, err := d.takeStateDir(env.log)
	if err != nil {
		return err
	}
	if d.notKept != nil {
		env.log.Warn("nothing is kept across a restart", "err", d.notKept, "try", app.TryStateDir)
	}
	d.warnOpenState(env.log)
	defer func() { err = errors.Join(err, release()) }()
	var in []*reading.Inputs
	if r.reads != nil {
		r.reads.helpers = d.helperPids
		if in, err = r.reads.inputs(env.log); err != nil {
			return err
		}
	}
	options := d.options()
	if d.scribe != nil {
		options.Files = d.scribe
	}
	if options.Fleet, err = env.newFleet(d, r, in); err != nil {
		if env.ctx.Err() != nil { // stopped while the fleet's server was starting, which is no error
			err = nil
		}
		return errors.Join(err, reading.CloseAll(in))
	}
	if options.Clusters, err = d.newClusters(env.log); err != nil {
		return errors.Join(err, reading.CloseAll(in), options.Fleet.Close())
	}
	share(len(d.helpers()))
	if options.TLS, err = d.certificate(env.ctx, r.page); err != nil {
		return errors.Join(err, reading.CloseAll(in), options.Fleet.Close())
	}
	options.History = d.newHistory(r, only(in), env.log)
	var admitted admission
	options.Audit = d.auditOptions(env.log, d.AccountsDeadline)
	if options.Access, admitted, err = env.newAccess(d, r); err != nil {
		return errors.Join(err, reading.CloseAll(in), options.Fleet.Close(), options.TLS.Close(), options.History.Close())
	}
	a, err := app.New(options, in, env.log)
	if err != nil {
		return usageError{err}
	}
	var ln net.Listener
	if r.page {
		if ln, err = d.listenHere(env.ctx); err != nil {
			return errors.Join(err, a.Close())
		}
		if err := admitted.confine(ln); err != nil {
			return errors.Join(err, ln.Close(), a.Close())
		}
		secure := app.Find[*certs.Room](a)
		env.greet(secure, addressText(ln.Addr()), d.BasePath)
		if f := options.Fleet; f != nil && f.Joins != "" {
			fmt.Fprintf(env.stdout, "machines join at %s: 'gpuwhy fleet join-command NODE' prints the line for each\n", f.Joins)
		}
		if d.SignIn {
			d.tellSetup(env, app.Find[*access.Room](a), secure, ln)
		}
	}
	ctx, stop := context.WithCancel(env.ctx)
	var idle sync.WaitGroup
	idle.Go(func() { ownfile.Run(ctx, env.log.With("part", "ownfile")) })
	defer idle.Wait()
	defer stop()
	return a.Run(env.ctx, ln, hangups)
}

// only returns the name of the only node; empty if there are several, or none.
func only(in []*reading.Inputs) string {
	if len(in) != 1 {
		return ""
	}
	return in[0].Node
}

// options returns the settings of the serving program.
func (d *daemon) options() app.Options {
	return app.Options{
		Version: release.Version,
		Node:    d.name(),
		Address: serve.Address{
			Listen: d.address(), Hostname: d.hostname, BasePath: d.BasePath, AllowOrigins: d.origins, AllowEmbed: d.frames, AllowHosts: d.hosts,
			TrustedProxies: d.proxies, MaxViewersOfAddress: d.MaxViewersPerAddress,
		},
		MaxViewers:       d.MaxViewers,
		Interval:         d.Interval,
		IdleInterval:     d.IdleInterval,
		Deadline:         d.Deadline,
		AlertRules:       d.AlertRules,
		AlertUtilization: d.AlertUtilization,
		MetricsFamilies:  d.MetricsFamilies,
		OpenMetrics:      d.OpenMetrics,
		StateDir:         d.StateDir,
		Installation:     d.installation,
		TLS:              d.certs(),
		Export:           d.exports,
		NotKept:          d.notKept,
		Helpers:          d.helperCosts,
	}
}

// rules returns the rules in the alert rules file, or the default rules.
func (f *alertFlags) rules() (*rulefile.File, error) {
	return alerts.Rules(f.AlertRules, f.AlertUtilization)
}

// variablesOf returns the variables that hold addresses of alert targets. file may be nil.
func variablesOf(file *rulefile.File) (names []string) {
	if file == nil {
		return nil
	}
	for i := range file.Notify.Targets {
		names = append(names, file.Notify.Targets[i].URLEnv)
	}
	return names
}

// onTerminal reports whether the program belongs to a terminal, and may end with it.
func onTerminal() bool {
	terminal, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return false
	}
	terminal.Close()
	return true
}

// addressText returns an address as --listen has it.
func addressText(a net.Addr) string {
	if a.Network() == "unix" {
		return "unix:" + a.String()
	}
	return a.String()
}

// listen opens the address, or returns what is wrong with it.
func listen(ctx context.Context, flag, address string) (net.Listener, error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	switch {
	case err == nil:
		return ln, nil
	case neterr.InUse(err):
		return nil, &gpu.Advice{
			What: "another program is listening on " + address,
			Try:  "stop it, or choose another port with --" + flag + " (port 0 picks a free one)",
			Err:  err,
		}
	case neterr.Forbidden(err):
		return nil, &gpu.Advice{What: "not permitted to listen on " + address, Try: "choose a port above 1023 with --" + flag, Err: err}
	default:
		return nil, &gpu.Advice{What: "can't listen on " + address, Try: "give --" + flag + " an address of this machine (" + err.Error() + ")", Err: err}
	}
}
