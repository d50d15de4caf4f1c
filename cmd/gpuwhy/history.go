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

// Where the past may be kept, beside the address of a PostgreSQL.
const (
	historySQLite = "sqlite"
	historyOff    = "off"
)

// check reads an address, which may have a password, and is in no error.
func (f *historyFlags) check() error {
	switch {
	case f.History == historySQLite || f.History == historyOff:
	case postgres.Scheme(f.History):
		if err := postgres.CheckAddress(f.History); err != nil {
			return err
		}
	default:
		return errors.New("--history: must be sqlite, off, or the address of a PostgreSQL, postgres://USER@HOST/DATABASE")
	}
	return nil
}

// retentionFlags say for how long the past is kept.
type retentionFlags struct {
	HistoryRetention string `group:"past" default:"raw=48h,1m=30d,15m=2y" placeholder:"TIERS" help:"How long each reading, spans of a minute and spans of a quarter of an hour are kept."`

	retention store.Retention
}

func (f *retentionFlags) check() (err error) {
	if f.retention, err = record.ParseRetention(f.HistoryRetention); err != nil {
		return bad("history-retention", f.HistoryRetention, err.Error())
	}
	return nil
}

// keepsHistory reports whether a past is kept, and whether that is on a server.
func (f *keptFlags) keepsHistory() (kept, onServer bool) {
	onServer = postgres.Scheme(f.History)
	return onServer || f.History != historyOff && f.StateDir != "", onServer
}

func (f *keptFlags) historyFile() string { return filepath.Join(f.StateDir, historyFile) }

// historyPlace tells the database from a copy of it on another machine or in another folder; empty for one on a server.
func (f *keptFlags) historyPlace() string {
	if _, onServer := f.keepsHistory(); onServer {
		return ""
	}
	file, _ := filepath.Abs(f.historyFile()) // else it is empty, and the database alone says which it is
	return f.hostname + ":" + file
}

func (f *keptFlags) server() postgres.Config {
	return postgres.Config{URL: f.History, Name: insight.Key(f.Cluster, f.name())}
}

// ownServer is server for the one who writes there. It is an error while it is not known which installation that is.
func (d *daemon) ownServer() (postgres.Config, error) {
	of := d.server()
	i, err := d.installation.Installation()
	of.Owner = cmp.Or(i.ID, d.name())
	return of, err
}

// newHistory is where the past is kept, if anywhere. It is opened by its first use. Who reads no machine keeps none, and may
// show what others keep on a server.
// node is the name of the only node that the program reads; empty for several.
func (d *daemon) newHistory(as role, node string, log *slog.Logger) *past.Options {
	kept, onServer := d.keepsHistory()
	if !kept || as.reads == nil && !onServer {
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
		outbox = deliver.NewOutbox(deliver.OutboxConfig{Log: log.With("part", "fleet"), Now: time.Now, Node: node, Installation: d.installation.ID})
	}
	open := func(ctx context.Context) (store.Store, error) {
		switch {
		case as.reads == nil:
			return postgres.View(d.server())
		case onServer:
			of, err := d.ownServer()
			if err != nil {
				return nil, err
			}
			s, err := postgres.Open(of)
			return s, d.adopt(ctx, s, err, as, node, log)
		}
		s, err := d.scribe.Open(ctx, scribe.Database{File: d.historyFile(), Begun: begun})
		if err = d.adopt(ctx, s, err, as, node, log); err != nil || outbox == nil {
			return s, err
		}
		return outbox.Attach(ctx, s)
	}
	return &past.Options{
		Outbox: outbox, Collects: as.reads != nil && as.shows, Place: d.historyPlace(), Store: &store.Later{Open: open}, Retention: d.retention, Price: d.ElectricityPrice, Permits: d.permits(), Anew: anew, ReadOnly: as.reads == nil}
}

// adopt gives what the store has of this installation to it, and to the name that the machine has now. err is the error of opening the store,
// which is closed after another one.
func (d *daemon) adopt(ctx context.Context, s store.Store, err error, as role, node string, log *slog.Logger) error {
	if err != nil {
		return err
	}
	i, err := d.installation.Installation()
	was := ""
	if err == nil {
		a := past.Adopter{Store: s, Installation: i.ID, Program: cmp.Or(node, d.name()), Node: node, Records: as.reads != nil && as.shows}
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
func (f *privacyFlags) permits() history.Permits { return host.ShowCommands(f.ShowCommands).OfUser() }

// ownedPast opens the past to change it, which no other program may have then, unless it is on a server. It makes none. Every error
// is a [gpu.Advice].
func (f *keptFlags) ownedPast(ctx context.Context, log *slog.Logger) (st store.Store, where string, err error) {
	viewed, where, err := f.keptPast(ctx)
	if _, onServer := f.keepsHistory(); err != nil || onServer {
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
func (f *keptFlags) keptPast(ctx context.Context) (st store.Store, where string, err error) {
	switch kept, onServer := f.keepsHistory(); {
	case !kept:
		return nil, "", &gpu.Advice{
			What: "with these settings no past is kept", Try: "name the folder with --state-dir, or the database with --history",
		}
	case onServer:
		if st, err = postgres.View(f.server()); err != nil {
			return nil, "", err
		}
		return st, "the database of --history", nil
	}
	file, err := sqlite.View(ctx, f.historyFile())
	if err != nil {
		return nil, "", err
	}
	return file, f.historyFile(), nil
}
