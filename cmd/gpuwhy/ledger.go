package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/access/ledger"
	"github.com/gpuwhy/gpuwhy/internal/past/scribe"
	"github.com/gpuwhy/gpuwhy/internal/past/store/postgres"
)

// accountsFile is the database in the state directory that has the accounts and the audit.
const accountsFile = "access.db"

// ledgerFlags say where accounts are kept, and the record of who did what.
type ledgerFlags struct {
	Accounts string `group:"access" placeholder:"ADDRESS" help:"Where to keep accounts, sessions, tokens and the audit, if not in --state-dir: postgres://USER@HOST/DATABASE, which several hubs may share, with the password in PGPASSWORD or in the file named by PGPASSFILE." docs:"access.md#where-accounts-are-kept"`
	// AccountsDeadline is how long that database may take to answer.
	AccountsDeadline time.Duration `group:"access" default:"2s" placeholder:"TIME" help:"How long the accounts and the audit may take to answer. An action that can't be recorded by then is refused." docs:"access.md#the-audit"`
}

// check checks the address. It may have a password, so errors do not quote it.
func (f *ledgerFlags) check() error {
	if err := refuse(rule{f.AccountsDeadline < 100*time.Millisecond || f.AccountsDeadline > time.Minute, "accounts-deadline", f.AccountsDeadline, "must be from 100ms to 1m"}); err != nil {
		return err
	}
	switch {
	case f.Accounts == "":
		return nil
	case !postgres.Scheme(f.Accounts):
		return errors.New("--accounts: must be the address of a PostgreSQL database, postgres://USER@HOST/DATABASE")
	}
	if err := postgres.CheckAddress(f.Accounts); err != nil {
		return fmt.Errorf("--accounts: %w", err)
	}
	return nil
}

// databases are the databases that a scribe writes, besides the past.
var databases = scribe.Kinds{
	accountsKind: func(file string) scribe.Other {
		return &ledger.Opened{Open: func(ctx context.Context) (ledger.Ledger, error) { return ledger.OpenFile(ctx, file) }}
	},
}

// accountsKind is the kind of database that has accounts.
const accountsKind = "accounts"

// newLedger returns the ledger of accounts and of the audit. Its first use opens it, so a ledger that can't be opened keeps nobody from
// starting. Without a state directory and a server, it ends with the program.
func (d *daemon) newLedger(log *slog.Logger) *ledger.View {
	switch {
	case d.Accounts != "":
		return ledger.Cached(&ledger.Later{Deadline: d.AccountsDeadline, Open: func(ctx context.Context) (ledger.Ledger, error) {
			return ledger.OpenServer(ctx, d.Accounts)
		}}, ledger.Often)
	case d.scribe != nil:
		return ledger.Cached(&ledger.Later{Deadline: d.AccountsDeadline, Open: func(ctx context.Context) (ledger.Ledger, error) {
			l := ledger.Apart(d.scribe.Other(accountsKind, filepath.Join(d.StateDir, accountsFile)))
			_, err := l.Revision(ctx)
			return l, err
		}}, 0)
	}
	return ledger.Cached(&fleeting{Ledger: &ledger.Later{Deadline: d.AccountsDeadline, Open: ledger.InMemory}, log: log}, 0)
}

// A fleeting ledger is one in memory. It warns once somebody makes something that should last.
type fleeting struct {
	ledger.Ledger
	log    *slog.Logger
	warned sync.Once
}

// Apply implements [ledger.Ledger].
func (f *fleeting) Apply(ctx context.Context, changes ...ledger.Change) error {
	if slices.ContainsFunc(changes, func(c ledger.Change) bool { return !c.Remove && c.Expires.IsZero() }) {
		f.warned.Do(func() {
			f.log.Warn("accounts and tokens end with this program, since it has no place to keep them", "try", "name a folder with --state-dir, or a PostgreSQL database with --accounts")
		})
	}
	return f.Ledger.Apply(ctx, changes...)
}
