package main

import (
	"context"
	"errors"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/fleet/bus"
	"github.com/gpuwhy/gpuwhy/internal/past/deliver"
	"github.com/gpuwhy/gpuwhy/internal/past/scribe"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/past/store/postgres"
	"github.com/gpuwhy/gpuwhy/internal/release"
)

// recordCommand stores the past of a fleet in one database.
type recordCommand struct {
	commonFlags
	keptFlags
	retentionFlags
	joiningFlags
}

func (c *recordCommand) check() error {
	return first(c.retentionFlags.check, c.joiningFlags.check, func() error { return c.keptFlags.check(true) })
}

// Run records until a signal. It retries after failures, and logs them.
func (c *recordCommand) Run(env *environment) error {
	env.tellUnknown(nil)
	kept, onServer := c.keepsHistory()
	switch {
	case len(c.fleet) == 0:
		return usageError{&gpu.Advice{What: "no fleet is named", Try: "name its NATS servers with --fleet, such as --fleet tls://gpu-1.example.org:4222"}}
	case !kept:
		return usageError{&gpu.Advice{What: "no database is given to store the past in", Try: "give its address with --history postgres://USER@HOST/DATABASE"}}
	}
	writer := scribe.Start("", env.log, nil) // it locks only the database
	open := func(ctx context.Context) (store.Store, error) {
		if onServer { // any number of recorders write there, each without a name
			return postgres.Open(postgres.Config{URL: c.History, Patience: recordPatience})
		}
		return writer.Open(ctx, scribe.Database{File: c.historyFile()})
	}
	st := &store.Later{Open: open}
	b, err := bus.Open(bus.Config{URLs: c.fleet, Credentials: c.FleetCredentials, Name: "gpuwhy record " + c.name(), Log: env.log})
	if err != nil {
		return usageError{err}
	}
	r := deliver.NewCollector(deliver.CollectorConfig{
		Store: st, Retention: c.retention, JetStream: b.JetStream(), Stream: bus.PastStream, NodeOf: bus.NodeOfSubject, Log: env.log, Now: time.Now,
		Place: c.historyPlace(), GivesWay: true,
	})
	env.log.Info("recording the past of the fleet", "version", release.Version)
	err = r.Run(env.ctx)
	s := r.State()
	env.log.Info("recording ends", "messages", s.Written, "refused_of_nodes", len(s.Refused))
	return errors.Join(err, b.Close(), st.Close(), writer.Close())
}

// recordPatience is how long the server may take to store the data of many nodes.
const recordPatience = 30 * time.Second
