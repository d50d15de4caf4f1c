package main

import (
	"log/slog"
	"maps"
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/app"
	"github.com/gpuwhy/gpuwhy/internal/fleet/bus"
	"github.com/gpuwhy/gpuwhy/internal/insight"
)

// agentCommand reads this machine for a fleet.
type agentCommand struct{}

// Run publishes until the context ends.
func (agentCommand) Run(env *environment) error {
	if len(env.cfg.Fleet) == 0 {
		return usageError{errNoFleet}
	}
	return env.run(role{reads: true, page: env.cfg.Listen != "", publishes: true})
}

// hubCommand shows a fleet.
type hubCommand struct{}

// Run serves until the context ends.
func (hubCommand) Run(env *environment) error {
	if len(env.cfg.Fleet) == 0 {
		return usageError{errNoFleet}
	}
	if env.cfg.ownStateDir { // it keeps nothing that another hub lacks
		env.cfg.StateDir, env.cfg.ownStateDir = "", false
	}
	return env.run(role{page: true, shows: true})
}

var errNoFleet = &gpu.Advice{
	What: "no fleet is named", Try: "give its NATS servers with --fleet, such as --fleet tls://gpu-1.example.org:4222, and credentials with --fleet-credentials",
}

// newFleet connects to the fleet, if there is one.
func (c *Config) newFleet(as role, in []*app.Inputs, log *slog.Logger) (*app.Fleet, error) {
	if !as.publishes && !as.shows {
		return nil, nil
	}
	of := bus.Config{URLs: c.Fleet, Credentials: c.FleetCredentials, Name: "gpuwhy " + c.name(), Log: log.With("part", "fleet")}
	if len(in) == 1 && !as.shows { // its credentials are for that node alone
		of.Node = in[0].Node
	}
	b, err := bus.Open(of)
	if err != nil {
		return nil, err
	}
	return &app.Fleet{Bus: b, Publishes: as.publishes, Shows: as.shows}, nil
}

// locate says where a machine is.
func (c *Config) locate(in *app.Inputs) {
	if c.Cluster != "" {
		in.Place.Cluster, in.Place.Name = c.Cluster, in.Node
		in.Node = insight.Key(c.Cluster, in.Node)
	}
	if len(c.Label) == 0 {
		return
	}
	labels := maps.Clone(in.Place.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	for _, label := range c.Label {
		key, value, _ := strings.Cut(label, "=")
		labels[key] = value
	}
	in.Place.Labels = labels
}
