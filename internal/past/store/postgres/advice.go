package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

var (
	errEncoding = errors.New("the database stores text in another encoding")
	errNothing  = errors.New("it has no gpuwhy tables")
	errOlder    = errors.New("an older gpuwhy made the tables")
	errViewed   = errors.New("it is open for reading only")
)

// Codes of the server that are looked for by themselves.
const (
	deadlock       = "40P01"
	noPartition    = "23514" // a check was not passed: the only one is that of partitions
	undefinedTable = "42P01"
	adminShutdown  = "57P01" // the server, or somebody there, has ended the connection

	lockNotAvailable = "55P03" // in the time that there was for it
)

// A saying is what to say to people of an error.
type saying struct {
	is        error
	what, try string // what follows the server's name
}

// sayings are by the server's codes, whole or by the first two characters.
var sayings = map[string]saying{
	"53100": {store.ErrFull, "has no disk space left", "free some space there, or keep less (--history-retention)"},
	"25006": {store.ErrReadOnly, "is read-only", "it may be a standby: give the address of the primary server"},
	"42501": {
		store.ErrReadOnly, "does not let this user change the tables",
		"grant it the right to create in the database, or make it the owner of gpuwhy's tables",
	},
	"28P01": {
		store.ErrGone, "does not accept the password", "set PGPASSWORD, or the file that PGPASSFILE names, to this user's password",
	},
	"28": {
		store.ErrGone, "does not let this user in", "check the server's pg_hba.conf, and give a user and password (PGPASSWORD, PGPASSFILE)",
	},
	"3D000": {store.ErrGone, "has no such database", "create it with createdb, or give another name in the address"},
	"53300": {store.ErrGone, "has no connections left", "raise its max_connections, or stop programs that hold connections"},
	"53":    {store.ErrGone, "is short of memory or another resource", "check the server's log"},
	"57014": {store.ErrGone, "took too long", "check whether it is overloaded, and its statement_timeout"},
	"57":    {store.ErrGone, "is starting or shutting down", "gpuwhy continues by itself when it answers again"},
	"08":    {store.ErrGone, "has closed the connection", "gpuwhy reconnects by itself"},
	lockNotAvailable: {
		store.ErrLocked, "does not allow changes to the tables now", "another program has been reading them for a long time: gpuwhy tries again by itself",
	},
	"40":    {store.ErrLocked, "has too many clients writing the same rows", "gpuwhy tries again by itself"},
	"XX001": {store.ErrCorrupt, "has a damaged database", "check the server's log, and restore the database from a backup"},
	"XX002": {store.ErrCorrupt, "has found a damaged index in the database", "check the server's log, and run REINDEX DATABASE"},
	"58":    {store.ErrCorrupt, "can't read or write its files", "check the server's log and its disk"},
}

// advise says an error to people. That of the caller's own context stays what it is.
func (s *Store) advise(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, store.ErrNewer):
		return &gpu.Advice{What: "a newer gpuwhy created the tables on " + s.server, Try: "update this gpuwhy", Err: err}
	case errors.Is(err, errNothing):
		return &gpu.Advice{
			What: "there is no history on " + s.server + ", in the schema " + strconv.Quote(s.schema) + " of that database",
			Try:  "check the database and the search_path in the address, or start a gpuwhy that keeps its history there", Err: err,
		}
	case errors.Is(err, errOlder):
		return &gpu.Advice{
			What: "an older gpuwhy created the tables on " + s.server,
			Try:  "read them with that version, or start this gpuwhy with the same --history, which upgrades them", Err: err,
		}
	case errors.Is(err, errTwice):
		return &gpu.Advice{
			What: "another gpuwhy writes as " + strconv.Quote(s.name) + " to the database on " + s.server,
			Try:  "give each machine its own name with --node, or stop one of the two; gpuwhy then continues by itself",
			Err:  fmt.Errorf("%w: %w", store.ErrLocked, err),
		}
	case errors.Is(err, errCopy):
		return &gpu.Advice{
			What: "another gpuwhy, with a copy of this one's state directory, writes to the database on " + s.server,
			Try:  "on the machine to which the state directory was copied, remove installation.json from it and start gpuwhy again",
			Err:  fmt.Errorf("%w: %w", store.ErrLocked, err),
		}
	case errors.Is(err, errViewed):
		return &gpu.Advice{What: "the database is open for reading only", Try: "only the gpuwhy that owns it may write to it", Err: store.ErrReadOnly}
	case errors.Is(err, store.ErrCorrupt): // found here, and not by the server
		return s.advice(err, sayings["XX001"])
	case errors.Is(err, errEncoding):
		return s.advice(err, saying{
			store.ErrReadOnly, "stores the database's text in another encoding", "create a database with ENCODING 'UTF8'",
		})
	case codeOf(err) != "":
		code := codeOf(err)
		for _, code := range []string{code, code[:min(2, len(code))]} {
			if say, known := sayings[code]; known {
				return s.advice(err, say)
			}
		}
	case gone(err):
		return s.advice(err, saying{
			store.ErrGone, "is not answering",
			"check that it runs and that this machine can reach it; gpuwhy continues by itself when it answers again",
		})
	}
	return fmt.Errorf("%s: %w", s.server, err)
}

// advice wraps an error with a sentinel and what to do.
func (s *Store) advice(err error, say saying) error {
	return &gpu.Advice{What: s.server + " " + say.what, Try: say.try, Err: fmt.Errorf("%w: %w", say.is, err)}
}

// gone reports whether the server was not reached, or was lost, or took too long.
func gone(err error) bool {
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	is := func(cut error) bool { return errors.Is(err, cut) }
	return slices.ContainsFunc([]error{
		context.DeadlineExceeded, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, pgconn.ErrConnClosed,
	}, is)
}
