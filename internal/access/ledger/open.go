package ledger

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

//go:embed migrations
var migrations embed.FS

var inFile = dialect{
	name: "sqlite",
	taken: func(err error) bool {
		e, ok := errors.AsType[*sqlite.Error](err)
		return ok && (e.Code() == sqlite3.SQLITE_CONSTRAINT_UNIQUE || e.Code() == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY)
	},
}

// inServer waits with an advisory lock: no other program that uses the database is likely to have its number.
var inServer = dialect{
	name: "postgres", numbered: true, lock: "SELECT pg_advisory_xact_lock(7453010330678591489)",
	taken: func(err error) bool {
		e, ok := errors.AsType[*pgconn.PgError](err)
		return ok && e.Code == "23505" // unique_violation
	},
}

// InMemory returns an empty ledger that ends with the program.
func InMemory(ctx context.Context) (Ledger, error) {
	return open(ctx, "file::memory:?_txlock=immediate", "foreign_keys(1)")
}

// OpenFile opens a ledger in a file, and creates it if there is none. Only its owner may read it. No part of the file is mapped into
// memory, and each change is on the disk before it is reported.
func OpenFile(ctx context.Context, file string) (Ledger, error) {
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	name := "file:" + (&url.URL{Path: file}).EscapedPath() + "?mode=rw&_txlock=immediate"
	return open(ctx, name, "journal_mode(TRUNCATE)", "synchronous(FULL)", "busy_timeout(2000)", "secure_delete(1)")
}

func open(ctx context.Context, name string, pragmas ...string) (Ledger, error) {
	for _, p := range pragmas {
		name += "&_pragma=" + p
	}
	db, err := sql.Open("sqlite", name)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // it is one file, and small
	db.SetConnMaxLifetime(0)
	return ready(ctx, &database{db, &inFile, time.Now})
}

// OpenServer opens a ledger in a PostgreSQL database, in the schema of its search_path or in "gpuwhy". Other programs may share it.
func OpenServer(ctx context.Context, address string) (Ledger, error) {
	cfg, err := pgx.ParseConfig(address)
	if err != nil {
		return nil, err
	}
	if cfg.RuntimeParams["search_path"] == "" {
		cfg.RuntimeParams["search_path"] = "gpuwhy"
	}
	schema := cfg.RuntimeParams["search_path"]
	db := stdlib.OpenDB(*cfg)
	db.SetMaxOpenConns(4)
	if _, err := db.ExecContext(ctx, "CREATE SCHEMA IF NOT EXISTS "+pgx.Identifier{schema}.Sanitize()); err != nil {
		return nil, errors.Join(gone(err), db.Close())
	}
	return ready(ctx, &database{db, &inServer, time.Now})
}

// ready brings the tables up to date.
func ready(ctx context.Context, l *database) (Ledger, error) {
	files, err := fs.Sub(migrations, "migrations/"+l.dialect.name)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	dialect := goose.DialectSQLite3
	if l.dialect.numbered {
		dialect = goose.DialectPostgres
	}
	p, err := goose.NewProvider(dialect, l.db, files, goose.WithTableName("ledger_version"), goose.WithDisableGlobalRegistry(true))
	if err == nil {
		_, err = p.Up(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: the ledger of accounts can't be prepared: %w", ErrGone, err), l.Close())
	}
	return l, nil
}
