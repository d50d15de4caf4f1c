package main

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"slices"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/app"
	"github.com/gpuwhy/gpuwhy/internal/fleet/broker"
	"github.com/gpuwhy/gpuwhy/internal/fleet/bus"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/sampler/host"
	"github.com/gpuwhy/gpuwhy/sampler/kube"
)

// agentCommand reads this machine for a fleet.
type agentCommand struct{}

// Run publishes until the context ends.
func (agentCommand) Run(env *environment) error {
	switch {
	case env.cfg.FleetListen != "":
		return usageError{bad("fleet-listen", env.cfg.FleetListen, "is for 'gpuwhy serve' and 'gpuwhy hub', which show the fleet")}
	case len(env.cfg.fleet) == 0:
		return usageError{errNoFleet}
	}
	env.cfg.takeLabels(env.ctx, env.log)
	return env.run(role{reads: true, page: env.cfg.Listen != "", publishes: true})
}

// hubCommand shows a fleet.
type hubCommand struct{}

// Run serves until the context ends.
func (hubCommand) Run(env *environment) error {
	shows := len(env.cfg.fleet) > 0 || env.cfg.FleetListen != ""
	if !shows && env.cfg.Clusters == "" {
		return usageError{errNoFleet}
	}
	if env.cfg.ownStateDir && env.cfg.FleetListen == "" { // it keeps nothing that another hub lacks
		env.cfg.StateDir, env.cfg.ownStateDir, env.cfg.notKept = "", false, nil
	}
	return env.run(role{page: true, shows: shows})
}

var errNoFleet = &gpu.Advice{
	What: "no fleet is named", Try: "give its NATS servers with --fleet, such as --fleet tls://gpu-1.example.org:4222, and credentials with --fleet-credentials",
}

// newFleet connects to the fleet, if there is one, and is its server where that is asked for.
func (env *environment) newFleet(as role, in []*app.Inputs) (_ *app.Fleet, err error) {
	if !as.publishes && !as.shows {
		return nil, nil
	}
	cfg, log := env.cfg, env.log.With("part", "fleet")
	if err := cfg.checkFleetRole(); err != nil {
		return nil, usageError{err}
	}
	f := &app.Fleet{Publishes: as.publishes, Shows: as.shows, Records: as.reads && as.shows}
	of := bus.Config{URLs: cfg.fleet, Credentials: cfg.FleetCredentials, Name: "gpuwhy " + cfg.name(), Log: log}
	if cfg.FleetListen != "" {
		dir, err := cfg.fleetDir()
		if err != nil {
			return nil, usageError{err}
		}
		server, err := broker.StartApart(env.ctx, broker.Config{Dir: dir, Listen: cfg.FleetListen, Hosts: cfg.FleetHost, Log: log, Free: host.FreeSpace})
		if err != nil {
			return nil, err
		}
		cfg.fleetServer = server
		f.Server, f.Joins = server, cfg.joins(server.Addr())
		of.InProcess, of.Credentials = server.InProcess(), server.Credentials()
	}
	if len(in) == 1 && !as.shows && cfg.Clusters == "" { // its credentials are for that node alone
		of.Node = in[0].Node
	}
	if f.Bus, err = bus.Open(of); err != nil {
		return nil, errors.Join(usageError{err}, f.Close())
	}
	return f, nil
}

// joins is the URL of the server of the fleet in this program, as join-command has it.
func (c *Config) joins(listening net.Addr) string {
	host, port, _ := net.SplitHostPort(listening.String()) // it has both
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		host = append(slices.Clone(c.FleetHost), c.hostname)[0]
	}
	return "tls://" + net.JoinHostPort(host, port)
}

// locate says where a machine is.
func (c *Config) locate(in *app.Inputs) {
	if c.Cluster != "" {
		in.Place.Cluster, in.Place.Name = c.Cluster, in.Node
		in.Node = insight.Key(c.Cluster, in.Node)
	}
	if len(c.labels) == 0 {
		return
	}
	labels := maps.Clone(c.labels)
	for key, value := range in.Place.Labels {
		if _, named := labels[key]; !named {
			labels[key] = value
		}
	}
	in.Place.Labels = labels
}

// takeLabels takes over the labels that Kubernetes gives the node of this pod; those of --label win.
func (c *Config) takeLabels(ctx context.Context, log *slog.Logger) {
	labels, err := kube.OwnLabels(ctx, c.name())
	if err != nil {
		log.Warn("the labels of this node are not known", "node", c.name(), "err", err,
			"try", "let the pod's service account get nodes, and give --node the node's name in the cluster")
		return
	}
	for key, value := range labels {
		if _, named := c.labels[key]; !named {
			c.labels[key] = value
		}
	}
}
