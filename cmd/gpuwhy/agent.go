package main

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"slices"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/fleet"
	"github.com/gpuwhy/gpuwhy/internal/fleet/broker"
	"github.com/gpuwhy/gpuwhy/internal/fleet/bus"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/reading"
	"github.com/gpuwhy/gpuwhy/sampler/host"
	"github.com/gpuwhy/gpuwhy/sampler/kube"
)

// agentCommand reads this machine for a fleet.
type agentCommand struct{ serveFlags }

// Run publishes until the context ends.
func (c *agentCommand) Run(env *environment) error {
	switch {
	case c.FleetListen != "":
		return usageError{bad("fleet-listen", c.FleetListen, "is for 'gpuwhy serve' and 'gpuwhy hub', which show the fleet")}
	case len(c.fleet) == 0:
		return usageError{errNoFleet}
	}
	reads := c.target()
	reads.takeLabels(env.ctx, env.log)
	return env.run(&c.programFlags, role{reads: reads, page: c.Listen != "", publishes: true})
}

// hubCommand shows a fleet.
type hubCommand struct{ programFlags }

func (c *hubCommand) check() error { return c.programFlags.check(true) }

// Run serves until the context ends.
func (c *hubCommand) Run(env *environment) error {
	shows := len(c.fleet) > 0 || c.FleetListen != ""
	if !shows && c.Clusters == "" {
		return usageError{errNoFleet}
	}
	if c.ownStateDir && c.FleetListen == "" { // it has no state that other hubs lack
		c.StateDir, c.ownStateDir, c.notKept = "", false, nil
	}
	return env.run(&c.programFlags, role{page: true, shows: shows})
}

var errNoFleet = &gpu.Advice{
	What: "no fleet is named", Try: "name its NATS servers with --fleet, such as --fleet tls://gpu-1.example.org:4222, and a file of credentials with --fleet-credentials",
}

// newFleet connects to the fleet, if there is one, and runs its server if asked to.
func (env *environment) newFleet(d *daemon, r role, in []*reading.Inputs) (_ *fleet.Options, err error) {
	if !r.publishes && !r.shows {
		return nil, nil
	}
	log := env.log.With("part", "fleet")
	if err := d.checkFleetRole(); err != nil {
		return nil, usageError{err}
	}
	f := &fleet.Options{Publishes: r.publishes, Shows: r.shows}
	config := bus.Config{URLs: d.fleet, Credentials: d.FleetCredentials, Name: "gpuwhy " + d.name(), Log: log}
	if d.FleetListen != "" {
		dir, err := d.fleetDir()
		if err != nil {
			return nil, usageError{err}
		}
		server, err := broker.StartApart(env.ctx, broker.Config{Dir: dir, Listen: d.FleetListen, Hosts: d.FleetHost, Log: log, Free: host.FreeSpace})
		if err != nil {
			return nil, err
		}
		d.fleetServer = server
		f.Server, f.Joins = server, joinURL(server.Addr(), append(slices.Clone(d.FleetHost), d.hostname))
		config.InProcess, config.Credentials = server.InProcess(), server.Credentials()
	}
	if len(in) == 1 && !r.shows && d.Clusters == "" { // its credentials are only for that node
		config.Node = in[0].Node
	}
	if f.Bus, err = bus.Open(config); err != nil {
		return nil, errors.Join(usageError{err}, f.Close())
	}
	if r.reads != nil {
		f.Allow = r.reads.allow
	}
	if r.shows {
		if f.Signer, err = d.signer(d.FleetCredentials, log); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	return f, nil
}

// joinURL returns the URL of this program's fleet server, as join-command prints it. hosts are its names, the best first.
func joinURL(listening net.Addr, hosts []string) string {
	host, port, _ := net.SplitHostPort(listening.String()) // it has both
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		host = hosts[0]
	}
	return "tls://" + net.JoinHostPort(host, port)
}

// locate says where a machine is.
func (m *target) locate(in *reading.Inputs) {
	if m.Cluster != "" {
		in.Place.Cluster, in.Place.Name = m.Cluster, in.Node
		in.Node = insight.Key(m.Cluster, in.Node)
	}
	if len(m.labels) == 0 {
		return
	}
	labels := maps.Clone(m.labels)
	for key, value := range in.Place.Labels {
		if _, named := labels[key]; !named {
			labels[key] = value
		}
	}
	in.Place.Labels = labels
}

// takeLabels adds the labels that Kubernetes gives this pod's node. Labels from --label win.
func (m *target) takeLabels(ctx context.Context, log *slog.Logger) {
	labels, err := kube.OwnLabels(ctx, m.name())
	if err != nil {
		log.Warn("the labels of this node can't be read", "node", m.name(), "err", err,
			"try", "allow the pod's service account to get nodes, and set --node to the node's name in the cluster")
		return
	}
	for key, value := range labels {
		if _, named := m.labels[key]; !named {
			m.labels[key] = value
		}
	}
}
