package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/app"
	"github.com/gpuwhy/gpuwhy/internal/fleet/deliver"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/past"
	"github.com/gpuwhy/gpuwhy/internal/record"
	"github.com/gpuwhy/gpuwhy/internal/scribe"
	"github.com/gpuwhy/gpuwhy/internal/store"
	"github.com/gpuwhy/gpuwhy/internal/store/postgres"
	"github.com/gpuwhy/gpuwhy/internal/store/sqlite"
	"github.com/gpuwhy/gpuwhy/sampler/host"
)

// historyFile is the database in the state directory.
const historyFile = "history.db"

// Where the past may be kept, beside the address of a PostgreSQL.
const (
	historySQLite = "sqlite"
	historyOff    = "off"
)

// checkHistory reads the settings of the past. An address may have a password, and is in no error.
func (c *Config) checkHistory() (err error) {
	switch {
	case c.History == historySQLite || c.History == historyOff:
	case postgres.Scheme(c.History):
		if err := postgres.CheckAddress(c.History); err != nil {
			return err
		}
	default:
		return errors.New("--history: must be sqlite, off, or the address of a PostgreSQL, postgres://USER@HOST/DATABASE")
	}
	if c.retention, err = record.ParseRetention(c.HistoryRetention); err != nil {
		return bad("history-retention", c.HistoryRetention, err.Error())
	}
	return nil
}

// keepsHistory reports whether a past is kept, and whether that is on a server.
func (c *Config) keepsHistory() (kept, onServer bool) {
	onServer = postgres.Scheme(c.History)
	return onServer || c.History != historyOff && c.StateDir != "", onServer
}

func (c *Config) historyFile() string { return filepath.Join(c.StateDir, historyFile) }

// historyPlace tells the database from a copy of it on another machine or in another folder; empty for one on a server.
func (c *Config) historyPlace() string {
	if _, onServer := c.keepsHistory(); onServer {
		return ""
	}
	file, _ := filepath.Abs(c.historyFile()) // else it is empty, and the database alone says which it is
	return c.hostname + ":" + file
}

func (c *Config) server() postgres.Config {
	return postgres.Config{URL: c.History, Name: insight.Key(c.Cluster, c.name())}
}

// ownServer is server for the one who writes there. It is an error while it is not known which installation that is.
func (c *Config) ownServer() (postgres.Config, error) {
	of := c.server()
	i, err := c.installation.Installation()
	of.Owner = cmp.Or(i.ID, c.name())
	return of, err
}

// newHistory is where the past is kept, if anywhere. It is opened by its first use. Who reads no machine keeps none, and may
// show what others keep on a server.
// node is the name of the only node that the program reads; empty for several.
func (c *Config) newHistory(as role, node string, log *slog.Logger) *app.History {
	kept, onServer := c.keepsHistory()
	if !kept || !as.reads && !onServer {
		return nil
	}
	anew := make(chan struct{}, 1)
	begun := func() {
		select {
		case anew <- struct{}{}:
		default: // it is known already
		}
	}
	var outbox *deliver.Outbox
	if as.publishes && !as.shows && !onServer { // who shows the fleet records it, and so does a server that all write to
		outbox = deliver.NewOutbox(deliver.OutboxConfig{Log: log.With("part", "fleet"), Now: time.Now, Node: node, Installation: c.installation.ID})
	}
	open := func(ctx context.Context) (store.Store, error) {
		switch {
		case !as.reads:
			return postgres.View(c.server())
		case onServer:
			of, err := c.ownServer()
			if err != nil {
				return nil, err
			}
			s, err := postgres.Open(of)
			return s, c.adopt(ctx, s, err, as, node, log)
		}
		s, err := c.scribe.Open(ctx, scribe.Database{File: c.historyFile(), Begun: begun})
		if err = c.adopt(ctx, s, err, as, node, log); err != nil || outbox == nil {
			return s, err
		}
		return outbox.Attach(ctx, s)
	}
	return &app.History{
		Outbox: outbox, Place: c.historyPlace(), Store: &store.Later{Open: open}, Retention: c.retention, Price: c.ElectricityPrice, Permits: c.permits(), Anew: anew, ReadOnly: !as.reads}
}

// adopt gives what the store has of this installation to it, and to the name that the machine has now. err is the error of opening the store,
// which is closed after another one.
func (c *Config) adopt(ctx context.Context, s store.Store, err error, as role, node string, log *slog.Logger) error {
	if err != nil {
		return err
	}
	i, err := c.installation.Installation()
	was := ""
	if err == nil {
		a := app.Adopter{Store: s, Installation: i.ID, Program: cmp.Or(node, c.name()), Node: node, Records: as.reads && as.shows}
		was, err = a.Adopt(ctx)
	}
	if err != nil {
		return errors.Join(err, s.Close())
	}
	if was != "" {
		log.Info("this machine has got another name, and keeps its past", "was", was, "is", node)
	}
	return nil
}

// permits is what may be shown of the past now, whatever was kept.
func (c *Config) permits() past.Permits { return host.ShowCommands(c.ShowCommands).OfUser() }

// ownedPast opens the past to change it, which no other program may have then, unless it is on a server. It makes none. Every error
// is a [gpu.Advice].
func (c *Config) ownedPast(ctx context.Context, log *slog.Logger) (st store.Store, where string, err error) {
	viewed, where, err := c.keptPast(ctx)
	if _, onServer := c.keepsHistory(); err != nil || onServer {
		return viewed, where, err
	}
	// What is damaged would be set aside by opening or changing it.
	if err := errors.Join(viewed.Check(ctx), viewed.Close()); err != nil {
		return nil, "", err
	}
	st, err = sqlite.Open(ctx, sqlite.Options{File: where, Log: log, Now: time.Now})
	if errors.Is(err, store.ErrLocked) {
		advice := gpu.AsAdvice(err)
		advice.Try = "end it first, and start it again afterwards"
		return nil, "", &advice
	}
	return st, where, err
}

// keptPast opens the past that a gpuwhy with these settings keeps, to read it also while that one runs. where names it for
// people. Every error is a [gpu.Advice].
func (c *Config) keptPast(ctx context.Context) (st store.Store, where string, err error) {
	switch kept, onServer := c.keepsHistory(); {
	case !kept:
		return nil, "", &gpu.Advice{
			What: "with these settings no past is kept", Try: "name the folder with --state-dir, or the database with --history",
		}
	case onServer:
		if st, err = postgres.View(c.server()); err != nil {
			return nil, "", err
		}
		return st, "the database of --history", nil
	}
	file, err := sqlite.View(ctx, c.historyFile())
	if err != nil {
		return nil, "", err
	}
	return file, c.historyFile(), nil
}
