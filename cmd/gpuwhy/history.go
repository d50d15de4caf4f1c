package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/past"
	"github.com/gpuwhy/gpuwhy/internal/past/deliver"
	"github.com/gpuwhy/gpuwhy/internal/past/history"
	"github.com/gpuwhy/gpuwhy/internal/past/record"
	"github.com/gpuwhy/gpuwhy/internal/past/scribe"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/past/store/postgres"
	"github.com/gpuwhy/gpuwhy/internal/past/store/sqlite"
	"github.com/gpuwhy/gpuwhy/sampler/host"
)

// historyFile is the database in the state directory.
const historyFile = "history.db"

// The values of --history, besides the address of a PostgreSQL database.
const (
	historySQLite = "sqlite"
	historyOff    = "off"
)

// check checks an address. The address may have a password, so errors do not quote it.
func (f *historyFlags) check() error {
	switch {
	case f.History == historySQLite || f.History == historyOff:
	case postgres.Scheme(f.History):
		if err := postgres.CheckAddress(f.History); err != nil {
			return err
		}
	default:
		return errors.New("--history: must be sqlite, off, or the address of a PostgreSQL database, postgres://USER@HOST/DATABASE")
	}
	return nil
}

// retentionFlags say for how long the past is kept.
type retentionFlags struct {
	HistoryRetention string `group:"past" default:"raw=48h,1m=30d,15m=2y" placeholder:"TIERS" help:"How long to keep single readings (raw), summaries of a minute (1m) and summaries of 15 minutes (15m)."`

	retention store.Retention
}

func (f *retentionFlags) check() (err error) {
	if f.retention, err = record.ParseRetention(f.HistoryRetention); err != nil {
		return bad("history-retention", f.HistoryRetention, err.Error())
	}
	return nil
}

// keepsHistory reports whether a past is kept, and whether it is on a server.
func (f *keptFlags) keepsHistory() (kept, onServer bool) {
	onServer = postgres.Scheme(f.History)
	return onServer || f.History != historyOff && f.StateDir != "", onServer
}

func (f *keptFlags) historyFile() string { return filepath.Join(f.StateDir, historyFile) }

// historyPlace distinguishes the database from a copy on another machine or in another folder; empty for one on a server.
func (f *keptFlags) historyPlace() string {
	if _, onServer := f.keepsHistory(); onServer {
		return ""
	}
	file, _ := filepath.Abs(f.historyFile()) // without a path, only the database's own ID identifies it
	return f.hostname + ":" + file
}

func (f *keptFlags) server() postgres.Config {
	return postgres.Config{URL: f.History, Name: insight.Key(f.Cluster, f.name())}
}

// ownServer is like server, for the program that writes there. It fails while the installation is unknown.
func (d *daemon) ownServer() (postgres.Config, error) {
	server := d.server()
	i, err := d.installation.Installation()
	server.Owner = cmp.Or(i.ID, d.name())
	return server, err
}

// newHistory returns where the past is kept, if anywhere. The first use opens it. A program that reads no machine keeps no past,
// but may show the past that others keep on a server. node is the name of the only node that the program reads; empty for several.
func (d *daemon) newHistory(r role, node string, log *slog.Logger) *past.Options {
	kept, onServer := d.keepsHistory()
	if !kept || r.reads == nil && !onServer {
		return nil
	}
	anew := make(chan struct{}, 1)
	begun := func() {
		select {
		case anew <- struct{}{}:
		default: // already known
		}
	}
	var outbox *deliver.Outbox
	if r.publishes && !r.shows && !onServer { // a program that shows the fleet records it; a shared server needs no delivery
		outbox = deliver.NewOutbox(deliver.OutboxConfig{Log: log.With("part", "fleet"), Now: time.Now, Node: node, Installation: d.installation.ID})
	}
	open := func(ctx context.Context) (store.Store, error) {
		switch {
		case r.reads == nil:
			return postgres.View(d.server())
		case onServer:
			server, err := d.ownServer()
			if err != nil {
				return nil, err
			}
			s, err := postgres.Open(server)
			return s, d.adopt(ctx, s, err, r, node, log)
		}
		s, err := d.scribe.Open(ctx, scribe.Database{File: d.historyFile(), Begun: begun})
		if err = d.adopt(ctx, s, err, r, node, log); err != nil || outbox == nil {
			return s, err
		}
		return outbox.Attach(ctx, s)
	}
	return &past.Options{
		Outbox: outbox, Collects: r.reads != nil && r.shows, Place: d.historyPlace(), Store: &store.Later{Open: open}, Retention: d.retention, Price: d.ElectricityPrice, Permits: d.permits(), Anew: anew, ReadOnly: r.reads == nil}
}

// adopt moves this installation's data in the store to the machine's current name. err is the error of opening the store. adopt closes
// the store after any other error.
func (d *daemon) adopt(ctx context.Context, s store.Store, err error, r role, node string, log *slog.Logger) error {
	if err != nil {
		return err
	}
	i, err := d.installation.Installation()
	was := ""
	if err == nil {
		a := past.Adopter{Store: s, Installation: i.ID, Program: cmp.Or(node, d.name()), Node: node, Records: r.reads != nil && r.shows}
		was, err = a.Adopt(ctx)
	}
	if err != nil {
		return errors.Join(err, s.Close())
	}
	if was != "" {
		log.Info("this machine has a new name, and keeps its past", "was", was, "is", node)
	}
	return nil
}

// permits returns what may be shown of the past now, whatever was stored.
func (f *privacyFlags) permits() history.Permits { return host.ShowCommands(f.ShowCommands).OfUser() }

// ownedPast opens the past to change it. Unless it is on a server, no other program may have it open. It does not create one. Every
// error is a [gpu.Advice].
func (f *keptFlags) ownedPast(ctx context.Context, log *slog.Logger) (st store.Store, where string, err error) {
	viewed, where, err := f.keptPast(ctx)
	if _, onServer := f.keepsHistory(); err != nil || onServer {
		return viewed, where, err
	}
	// Opening or changing a damaged file would set it aside.
	if err := errors.Join(viewed.Check(ctx), viewed.Close()); err != nil {
		return nil, "", err
	}
	st, err = sqlite.Open(ctx, sqlite.Options{File: where, Log: log, Now: time.Now})
	if errors.Is(err, store.ErrLocked) {
		advice := gpu.AsAdvice(err)
		advice.Try = "stop it first, and start it again afterwards"
		return nil, "", &advice
	}
	return st, where, err
}

// keptPast opens the past of a gpuwhy with these settings for reading, even while that gpuwhy runs. where names it for people.
// Every error is a [gpu.Advice].
func (f *keptFlags) keptPast(ctx context.Context) (st store.Store, where string, err error) {
	switch kept, onServer := f.keepsHistory(); {
	case !kept:
		return nil, "", &gpu.Advice{
			What: "no past is kept with these settings", Try: "name the folder with --state-dir, or the database with --history",
		}
	case onServer:
		if st, err = postgres.View(f.server()); err != nil {
			return nil, "", err
		}
		return st, "the database named by --history", nil
	}
	file, err := sqlite.View(ctx, f.historyFile())
	if err != nil {
		return nil, "", err
	}
	return file, f.historyFile(), nil
}
