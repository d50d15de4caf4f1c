package ledger

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/state"
)

//go:embed migrations
var migrations embed.FS

var inFile = dialect{
	name: "sqlite", finishes: true,
	taken: func(err error) bool {
		e, ok := errors.AsType[*sqlite.Error](err)
		return ok && (e.Code() == sqlite3.SQLITE_CONSTRAINT_UNIQUE || e.Code() == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY)
	},
	explain: explainFile,
}

// inServer waits with an advisory lock: no other program that uses the database is likely to have its number.
var inServer = dialect{
	name: "postgres", numbered: true, lock: "SELECT pg_advisory_xact_lock(" + strconv.Itoa(changing) + ")",
	taken:   func(err error) bool { return codeOf(err) == "23505" }, // unique_violation
	explain: explainServer,
}

// Numbers of advisory locks of PostgreSQL.
const (
	changing  = 0x676e7563_6c656401
	preparing = 0x676e7563_6c656402
)

// InMemory returns an empty ledger that ends with the program.
func InMemory(ctx context.Context) (Ledger, error) {
	db, err := openSQLite("file::memory:?_txlock=immediate")
	if err != nil {
		return nil, err
	}
	return ready(ctx, &database{db, &inFile, "memory", time.Now})
}

// mark is the application ID of an SQLite file that has a ledger.
const mark = 0x67776c67

// OpenFile opens a ledger in a file, and creates it if there is none. Only the owner of its folder may read it. No part of the file is
// mapped into memory, and each change is on the disk before it is reported.
//
// A file that is no ledger, is damaged or was written by a newer version stays as it is, and so does a link: accounts must not be lost, and
// nobody may become the first administrator, because something is wrong with a file.
func OpenFile(ctx context.Context, file string) (Ledger, error) {
	info, err := os.Lstat(file)
	if errors.Is(err, fs.ErrNotExist) {
		if err = create(ctx, file); err == nil {
			info, err = os.Lstat(file)
		}
	}
	if err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
		if err = os.Chmod(file, 0o600); errors.Is(err, errors.ErrUnsupported) {
			err = nil
		}
	}
	l, err := open(ctx, file, info, err, "rw", "journal_mode(TRUNCATE)", "synchronous(FULL)", "busy_timeout(2000)", "secure_delete(1)")
	if err != nil {
		return nil, err
	}
	return ready(ctx, l)
}

// Look opens a ledger in a file for whoever must change nothing, such as to check settings beside a program that runs. The file and what is
// beside it stay as they are, so an earlier version's tables do too. What changes something is an error.
func Look(ctx context.Context, file string) (Ledger, error) {
	info, err := os.Lstat(file)
	l, err := open(ctx, file, info, err, "ro", "busy_timeout(2000)", "query_only(1)")
	if err != nil {
		return nil, err
	}
	return l, nil
}

// open opens a file, about which somebody has asked, if it has a ledger.
func open(ctx context.Context, file string, info fs.FileInfo, err error, mode string, pragmas ...string) (*database, error) {
	l := &database{nil, &inFile, file, time.Now}
	switch {
	case err != nil:
		return nil, l.gone(ctx, err)
	case !info.Mode().IsRegular():
		return nil, &gpu.Advice{
			What: file + " is not a regular file", Err: ErrGone,
			Try: "find out who has put it there, and remove it; gpuwhy keeps its accounts in that place, and follows no link",
		}
	case info.Size() == 0:
		return nil, l.gone(ctx, errEmpty)
	}
	l.db, err = openSQLite(nameOf(file, mode), pragmas...)
	if err != nil {
		return nil, l.gone(ctx, err)
	}
	var made int64
	if err := l.db.QueryRowContext(ctx, "PRAGMA application_id").Scan(&made); err != nil {
		return nil, errors.Join(l.gone(ctx, err), l.Close())
	}
	if again, err := os.Lstat(file); err != nil || !os.SameFile(info, again) {
		return nil, errors.Join(l.gone(ctx, fmt.Errorf("%s was replaced while it was opened: %w", file, err)), l.Close())
	}
	if made != mark {
		return nil, errors.Join(&gpu.Advice{
			What: file + " is another program's database", Try: "move it away, or name another folder with --state-dir", Err: ErrGone,
		}, l.Close())
	}
	return l, nil
}

// errEmpty is the error of a file without content: a ledger is never empty.
var errEmpty = errors.New("the file is empty")

// create makes a file with an empty ledger. It has its name once it is whole.
func create(ctx context.Context, file string) (err error) {
	unfinished := file + ".new"
	if err := os.Remove(unfinished); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(unfinished, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(unfinished))
		}
	}()
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := state.Bequeath(unfinished); err != nil {
		return err
	}
	db, err := openSQLite(nameOf(unfinished, "rw"), "journal_mode(MEMORY)", "synchronous(OFF)", "application_id("+strconv.Itoa(mark)+")")
	if err != nil {
		return err
	}
	l, err := ready(ctx, &database{db, &inFile, unfinished, time.Now})
	if err != nil {
		return err
	}
	if err := errors.Join(l.Close(), f.Sync()); err != nil {
		return err
	}
	if err := os.Rename(unfinished, file); err != nil {
		return err
	}
	return state.SyncFolder(filepath.Dir(file))
}

// nameOf is a file as the driver wants it, to read and write ("rw") or only to read ("ro"). The file has to be there.
func nameOf(file, mode string) string {
	return "file:" + (&url.URL{Path: file}).EscapedPath() + "?mode=" + mode + "&_txlock=immediate"
}

func openSQLite(name string, pragmas ...string) (*sql.DB, error) {
	for _, p := range pragmas {
		name += "&_pragma=" + p
	}
	db, err := sql.Open("sqlite", name)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // it is one file, and small
	return db, nil
}

// OpenServer opens a ledger in a PostgreSQL database, in the schema of its search_path or in "gpuwhy". Other programs may share it. Errors
// do not have the address, which may have a password.
func OpenServer(ctx context.Context, address string) (Ledger, error) {
	cfg, err := pgx.ParseConfig(address)
	if err != nil {
		return nil, &gpu.Advice{
			What: "the address of the PostgreSQL server for accounts is invalid",
			Try:  "give it as postgres://user@host:5432/database, and the password in PGPASSWORD or in a file that PGPASSFILE names", Err: ErrGone,
		}
	}
	parameters := cfg.RuntimeParams
	for name, unless := range map[string]string{
		"search_path": "gpuwhy", "application_name": "gpuwhy",
		"idle_in_transaction_session_timeout": "5s", // a program that was stopped must not lock out the others
	} {
		if parameters[name] == "" {
			parameters[name] = unless
		}
	}
	schema, _, _ := strings.Cut(parameters["search_path"], ",")
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = 5 * time.Second
	}
	cfg.DialFunc = (&net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 10 * time.Second, Count: 3}}).DialContext
	db := stdlib.OpenDB(*cfg)
	db.SetMaxOpenConns(4)
	l := &database{db, &inServer, "the PostgreSQL server at " + net.JoinHostPort(cfg.Host, strconv.Itoa(int(cfg.Port))), time.Now}
	release, err := prepare(ctx, db, schema)
	if err != nil {
		return nil, errors.Join(l.gone(ctx, err), l.Close())
	}
	defer release()
	return ready(ctx, l)
}

// prepare makes the schema, and keeps other programs from changing tables until release is called.
func prepare(ctx context.Context, db *sql.DB, schema string) (release func(), err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = tx.Rollback() // the error that led here is told
		}
	}()
	if _, err := tx.ExecContext(ctx, "SET LOCAL idle_in_transaction_session_timeout = '60s'"); err != nil {
		return nil, err
	}
	if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock("+strconv.Itoa(preparing)+")"); err != nil {
		return nil, err
	}
	var there bool
	var encoding string
	if err := tx.QueryRowContext(ctx, "SELECT current_schema() IS NOT NULL, current_setting('server_encoding')").Scan(&there, &encoding); err != nil {
		return nil, err
	}
	if encoding != "UTF8" {
		return nil, errEncoding
	}
	if !there { // others see it as soon as it is made, which is not in this transaction
		if _, err := db.ExecContext(ctx, "CREATE SCHEMA "+pgx.Identifier{strings.TrimSpace(schema)}.Sanitize()); err != nil {
			return nil, err
		}
	}
	return func() { _ = tx.Rollback() }, nil // it has changed nothing
}

// ready brings the tables up to date.
func ready(ctx context.Context, l *database) (Ledger, error) {
	if err := l.migrate(ctx); err != nil {
		return nil, errors.Join(l.gone(ctx, err), l.Close())
	}
	return l, nil
}

func (l *database) migrate(ctx context.Context) error {
	files, err := fs.Sub(migrations, "migrations/"+l.dialect.name)
	if err != nil {
		return err
	}
	dialect := goose.DialectSQLite3
	if l.dialect.numbered {
		dialect = goose.DialectPostgres
	}
	p, err := goose.NewProvider(dialect, l.db, files, goose.WithTableName("ledger_version"), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	has, knows, err := p.GetVersions(ctx)
	switch {
	case err != nil:
		return err
	case has > knows:
		return &gpu.Advice{What: "a newer gpuwhy has written the accounts in " + l.place, Try: "update this gpuwhy", Err: ErrGone}
	case has < knows:
		_, err = p.Up(ctx)
	}
	return err
}

// explainFile implements dialect.explain.
func explainFile(file string, err error) (what, try string) {
	code := 0
	if failed, ok := errors.AsType[*sqlite.Error](err); ok {
		code = failed.Code() & 0xff // the rest says where
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "the disk with the accounts in " + file + " is not answering", trySlow
	case code == sqlite3.SQLITE_FULL, errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "the disk with the accounts in " + file + " is full", "free some space"
	case code == sqlite3.SQLITE_READONLY, code == sqlite3.SQLITE_PERM, code == sqlite3.SQLITE_AUTH, errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return "the accounts in " + file + " can't be written", "give the user that runs gpuwhy write access to that file and its folder, or name another folder with --state-dir"
	case code == sqlite3.SQLITE_BUSY, code == sqlite3.SQLITE_LOCKED:
		return "another program has locked the accounts in " + file, "stop the other program that reads or writes the file"
	case code == sqlite3.SQLITE_IOERR, code == sqlite3.SQLITE_CANTOPEN:
		return "the accounts in " + file + " can't be reached", "check that its disk is there and answers"
	case code == sqlite3.SQLITE_CORRUPT, code == sqlite3.SQLITE_NOTADB, code == sqlite3.SQLITE_ERROR, errors.Is(err, errEmpty), errors.Is(err, sql.ErrNoRows):
		return "the accounts in " + file + " are damaged",
			"stop gpuwhy and restore that file from a backup; or move it away to begin without accounts and without the record of who did what"
	}
	return "the accounts in " + file + " can't be used", "see gpuwhy's log"
}

var errEncoding = errors.New("the database stores text in another encoding")

func codeOf(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// explainServer implements dialect.explain.
func explainServer(server string, err error) (what, try string) {
	code := codeOf(err)
	class := code[:min(2, len(code))]
	switch {
	case errors.Is(err, errEncoding):
		return server + " stores the database's text in another encoding", "create a database with ENCODING 'UTF8'"
	case code == "28P01":
		return server + " does not accept the password", "set PGPASSWORD, or the file that PGPASSFILE names, to this user's password"
	case class == "28":
		return server + " does not let this user in", "check the server's pg_hba.conf, and give a user and password (PGPASSWORD, PGPASSFILE)"
	case code == "3D000":
		return server + " has no such database", "create it with createdb, or give another name in --accounts"
	case code == "42501":
		return server + " does not let this user make or change the tables of accounts", "grant it the right to create in the database, or make it the owner of these tables"
	case code == "25006":
		return server + " is a read-only copy", "give the address of the primary server in --accounts"
	case code == "53100":
		return server + " has a full disk", "free some space there"
	case class == "53":
		return server + " has no connections left, or is short of another resource", "raise its max_connections, or check its log"
	case class == "42", class == "XX", class == "58", errors.Is(err, sql.ErrNoRows):
		return "the accounts on " + server + " are damaged", "check the server's log, and restore the tables from a backup"
	}
	return server + " with the accounts is not answering", "check that it runs and that this machine can reach it; gpuwhy continues by itself when it answers again"
}
