package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"net/url"
	"strings"
	"sync"
	"time"

	"modernc.org/sqlite"
)

// A conn is one connection, which one goroutine uses at a time. It is the driver's own: package database/sql takes longer
// for the values of a row than SQLite does.
type conn struct {
	driver.Conn
	prepared map[string]driver.Stmt // of texts that come again: there is a fixed number of them
}

// name is the file as the driver wants it. It has to be there.
func name(file string) string { return "file:" + (&url.URL{Path: file}).EscapedPath() + "?mode=rw" }

// nameToView is the same to read it alone.
func nameToView(file string) string { return strings.TrimSuffix(name(file), "rw") + "ro" }

func dial(name string, pragmas ...string) (*conn, error) {
	opened, err := new(sqlite.Driver).Open(name)
	if err != nil {
		return nil, err
	}
	c := &conn{opened, map[string]driver.Stmt{}}
	for _, p := range pragmas {
		if err := c.run("PRAGMA " + p); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return c, nil
}

// Close ends the connection and what was prepared on it.
func (c *conn) Close() error {
	for _, s := range c.prepared {
		_ = s.Close() // returns the error of its last use again
	}
	return c.Conn.Close()
}

func (c *conn) prepare(text string) (driver.Stmt, error) {
	if s := c.prepared[text]; s != nil {
		return s, nil
	}
	s, err := c.Prepare(text)
	if err == nil {
		c.prepared[text] = s
	}
	return s, err
}

// run executes a statement once.
func (c *conn) run(text string) error {
	_, err := c.Conn.(driver.ExecerContext).ExecContext(context.Background(), text, nil)
	return err
}

// exec executes a statement that is used again, and returns how many rows it has changed.
func (c *conn) exec(text string, args ...any) (changed int64, err error) {
	return c.execNamed(text, named(args))
}

func (c *conn) execNamed(text string, args []driver.NamedValue) (changed int64, err error) {
	s, err := c.prepare(text)
	if err != nil {
		return 0, err
	}
	result, err := s.(driver.StmtExecContext).ExecContext(context.Background(), args)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// query calls each with every row, until it returns an error. The slice is used again.
func (c *conn) query(ctx context.Context, text string, args []any, each func(row []driver.Value) error) error {
	s, err := c.prepare(text)
	if err != nil {
		return err
	}
	return query(ctx, s, args, each)
}

// queryOnce is query of a text that was made for it, such as one with the columns that somebody asked for. It is not kept.
func (c *conn) queryOnce(ctx context.Context, text string, args []any, each func(row []driver.Value) error) error {
	s, err := c.Prepare(text)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }() // returns the error of its last use again
	return query(ctx, s, args, each)
}

func query(ctx context.Context, s driver.Stmt, args []any, each func(row []driver.Value) error) (err error) {
	rows, err := s.(driver.StmtQueryContext).QueryContext(ctx, named(args))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	row := make([]driver.Value, len(rows.Columns()))
	for n := 0; ; n++ {
		if n&63 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		switch err := rows.Next(row); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := each(row); err != nil {
			return err
		}
	}
}

// number is the one number that a query returns; 0 where it is NULL, or there is no row.
func (c *conn) number(ctx context.Context, text string, args ...any) (n int64, err error) {
	err = c.query(ctx, text, args, func(row []driver.Value) error {
		n = integer(row[0])
		return nil
	})
	return n, err
}

// transact runs do as one transaction, of which nothing is left where it returns an error.
func (c *conn) transact(begin string, do func() error) error {
	if _, err := c.exec(begin); err != nil {
		return err
	}
	done := false
	defer func() {
		if !done { // do has failed, or panics
			_, _ = c.exec("ROLLBACK") // which fails where SQLite has done so by itself
		}
	}()
	if err := do(); err != nil {
		return err
	}
	if _, err := c.exec("COMMIT"); err != nil {
		return err
	}
	done = true
	return nil
}

func named(args []any) []driver.NamedValue {
	out := make([]driver.NamedValue, len(args))
	for i, a := range args {
		out[i] = driver.NamedValue{Ordinal: i + 1, Value: value(a)}
	}
	return out
}

// value is one as the driver takes it.
func value(a any) driver.Value {
	switch a := a.(type) {
	case int:
		return int64(a)
	case bool:
		if a {
			return int64(1)
		}
		return int64(0)
	case time.Time:
		return stamp(a)
	case time.Duration:
		return int64(a)
	}
	return a
}

// stamp is a time as it is kept; 0 for the zero time.
func stamp(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func moment(v driver.Value) time.Time {
	ms := integer(v)
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

func integer(v driver.Value) int64 {
	n, _ := v.(int64) // NULL is 0
	return n
}

func float(v driver.Value) float64 {
	f, _ := v.(float64)
	return f
}

func text(v driver.Value) string {
	s, _ := v.(string)
	return s
}

func blob(v driver.Value) []byte {
	b, _ := v.([]byte)
	return b
}

// A pool has the connections of those who read.
type pool struct {
	name string // of the file, for the driver

	mu     sync.Mutex
	idle   []*conn
	closed bool
}

const (
	idleReaders = 2
	// kibibytes of pages that a connection keeps in memory
	cacheOfReader, cacheOfWriter = "cache_size = -1024", "cache_size = -512"
)

func (p *pool) get() (*conn, error) {
	p.mu.Lock()
	if last := len(p.idle) - 1; last >= 0 {
		c := p.idle[last]
		p.idle = p.idle[:last]
		p.mu.Unlock()
		return c, nil
	}
	p.mu.Unlock()
	return dial(p.name, "busy_timeout = 2000", "query_only = 1", cacheOfReader)
}

// put takes a connection back. It is closed where there are enough.
func (p *pool) put(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle) == idleReaders {
		_ = c.Close() // nothing was written on it
		return
	}
	p.idle = append(p.idle, c)
}

// close ends the connections that nobody uses; the others end when they are given back.
func (p *pool) close() (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, c := range p.idle {
		err = errors.Join(err, c.Close())
	}
	p.idle = nil
	return err
}
