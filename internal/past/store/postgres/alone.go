package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

// A claim is a connection with a lock that says: this gpuwhy alone writes as its owner. The server gives the lock back when the
// connection ends, as that of a program that is killed does at once.
type claim struct {
	room chan struct{} // has room for the one who looks
	conn *pgx.Conn     // nil: it is not ours
}

// writingAs is the seed of what is locked, so that no other program that uses the database is likely to have it.
const writingAs = 0x6770757768790003

var (
	errTwice = errors.New("another gpuwhy has its lock")
	errCopy  = errors.New("another gpuwhy is of the same installation")
)

// alone makes sure that no other gpuwhy writes under the same name: each would end the other's sessions. Nor as the same owner: each would
// replace the other's documents. It is asked before each batch, since a server can end a connection.
func (s *Store) alone(ctx context.Context) error {
	if s.name == "" {
		return nil
	}
	select {
	case s.claim.room <- struct{}{}:
		defer func() { <-s.claim.room }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if s.claim.conn != nil && s.claim.conn.Ping(ctx) == nil {
		return nil
	}
	s.claim.end()
	conn, err := pgx.ConnectConfig(ctx, s.writer.Config().ConnConfig)
	if err != nil {
		return err
	}
	s.claim.conn = conn
	// Of a machine that lost its power the server finds that out after 25 s: the same machine is not locked out for longer. A
	// connection that has only just ended may have the lock for a moment.
	_, err = conn.Exec(ctx, `SELECT set_config('tcp_keepalives_idle', '10', false), set_config('tcp_keepalives_interval', '5', false),
		set_config('tcp_keepalives_count', '3', false), set_config('lock_timeout', '1s', false)`)
	for _, lock := range []struct {
		locked string
		taken  error
	}{{s.name, errTwice}, {s.owner, errCopy}} {
		if err == nil && lock.locked != "" { // a lock may be taken twice
			_, err = conn.Exec(ctx, "SELECT pg_advisory_lock(hashtextextended(current_schema() || ' ' || $1::text, $2))", lock.locked, int64(writingAs))
		}
		if codeOf(err) == lockNotAvailable {
			err = lock.taken
		}
	}
	if err != nil {
		s.claim.end()
	}
	return err
}

// end gives the lock back.
func (c *claim) end() {
	if c.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.conn.Close(ctx) // it is closed in any case
	c.conn = nil
}
