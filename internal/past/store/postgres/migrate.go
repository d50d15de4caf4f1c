package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Numbers of advisory locks. No other program that uses the database is likely to have them.
const (
	changing   = 0x6770757768790001 // tables are made or changed
	forgetting = 0x6770757768790002 // what is old is removed
)

// ready makes the tables, or brings them up to date, where that was not done yet.
func (s *Store) ready(ctx context.Context) error {
	select {
	case s.preparing <- struct{}{}:
		defer func() { <-s.preparing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	var prepared bool
	s.know(func(k *known) { prepared = k.prepared })
	if prepared {
		return nil
	}
	if err := s.prepare(ctx); err != nil {
		return err
	}
	s.know(func(k *known) { k.prepared = true })
	return nil
}

// prepare changes the database only if it has to: one that can only be read is read.
func (s *Store) prepare(ctx context.Context) error {
	version, current, err := s.current(ctx)
	switch {
	case err != nil || current:
		return err
	case s.viewed && version == 0:
		return errNothing
	case s.viewed:
		return errOlder
	}
	return pgx.BeginFunc(ctx, s.writer, func(tx pgx.Tx) error {
		// Who comes second finds all done.
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", int64(changing)); err != nil {
			return err
		}
		if err := s.makeSchema(ctx, tx); err != nil {
			return err
		}
		if err := s.migrate(ctx); err != nil {
			return err
		}
		return s.addColumns(ctx, tx)
	})
}

// current returns the version of the tables, 0 where there are none, and reports whether the database has all tables and columns.
// No reader may keep writers from asking that.
func (s *Store) current(ctx context.Context) (version int64, current bool, err error) {
	var encoding string
	var made bool
	err = s.own.QueryRow(ctx, "SELECT current_setting('server_encoding'), to_regclass('goose_db_version') IS NOT NULL").
		Scan(&encoding, &made)
	if err != nil {
		return 0, false, err
	}
	if encoding != "UTF8" {
		return 0, false, fmt.Errorf("%w: %s", errEncoding, encoding)
	}
	if !made {
		return 0, false, nil
	}
	err = s.own.QueryRow(ctx, "SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied").Scan(&version)
	if err != nil {
		return 0, false, err
	}
	newest, err := newest()
	switch {
	case err != nil:
		return version, false, err
	case version > newest:
		return version, false, fmt.Errorf("%w: its tables are of version %d, those of this one of %d", store.ErrNewer, version, newest)
	case version < newest:
		return version, false, nil
	}
	missing, err := missingColumns(ctx, s.own)
	return version, len(missing) == 0, err
}

// newest is the version of the newest migration.
func newest() (version int64, err error) {
	names, err := fs.Glob(migrations, "migrations/*.sql")
	for _, name := range names {
		v, err := goose.NumericComponent(name)
		if err != nil {
			return 0, err
		}
		version = max(version, v)
	}
	return version, err
}

func (s *Store) makeSchema(ctx context.Context, tx pgx.Tx) error {
	var there bool
	if err := tx.QueryRow(ctx, "SELECT current_schema() IS NOT NULL").Scan(&there); err != nil || there {
		return err
	}
	// Other connections see it as soon as it is committed.
	_, err := s.writer.Exec(ctx, "CREATE SCHEMA "+pgx.Identifier{s.schema}.Sanitize())
	return err
}

func (s *Store) migrate(ctx context.Context) (err error) {
	db := stdlib.OpenDBFromPool(s.writer)
	defer func() { err = errors.Join(err, db.Close()) }()
	return migrate(ctx, db)
}

func migrate(ctx context.Context, db *sql.DB) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	_, err = provider.Up(ctx)
	return err
}

// querier is a connection, a transaction or a pool.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

var _ querier = (*pgxpool.Pool)(nil)

// missingColumns are the columns that tables don't have, as changes of the tables: those of the catalog, and of the fields that package store declares.
func missingColumns(ctx context.Context, q querier) (changes []string, err error) {
	for _, t := range append(written(), newStoredTable(store.Devices).table) {
		rows, err := q.Query(ctx, `SELECT attname::text FROM pg_attribute
			WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped`, t.name)
		if err != nil {
			return nil, err
		}
		names, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return nil, err
		}
		existing := map[string]bool{}
		for _, name := range names {
			existing[name] = true
		}
		var shown, others []string // what pages show comes first in a row, where the server finds it sooner
		for _, c := range t.columns {
			add := "ADD COLUMN " + quoted(c.name) + " " + c.kind
			if c.zero != "" {
				add += " NOT NULL DEFAULT " + c.zero
			}
			switch {
			case existing[c.name]:
			case c.shown:
				shown = append(shown, add)
			default:
				others = append(others, add)
			}
		}
		add := append(shown, others...)
		if len(add) > 0 {
			changes = append(changes, "ALTER TABLE "+t.name+" "+strings.Join(add, ", "))
		}
	}
	return changes, nil
}

// addColumns adds the columns that a newer version has. It waits a little for those who use the tables.
func (s *Store) addColumns(ctx context.Context, tx pgx.Tx) error {
	changes, err := missingColumns(ctx, tx)
	if err != nil || len(changes) == 0 {
		return err
	}
	changes = append([]string{"SET LOCAL lock_timeout = '3s'"}, changes...)
	_, err = tx.Exec(ctx, strings.Join(changes, ";"), pgx.QueryExecModeSimpleProtocol)
	return err
}

func quoted(name string) string { return pgx.Identifier{name}.Sanitize() }
