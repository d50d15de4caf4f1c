package ledger

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A database is a ledger in an SQL database.
type database struct {
	db      *sql.DB
	dialect *dialect
	now     func() time.Time
}

// A dialect is how one kind of database differs from the other.
type dialect struct {
	name string
	// numbered says that placeholders are $1, $2 and so on, and not ?.
	numbered bool
	// lock makes transactions that change something wait for each other; empty: they do so by themselves.
	lock string
	// taken reports whether an error says that a name or ID is taken.
	taken func(error) bool
}

// text returns the SQL with the dialect's placeholders.
func (d *dialect) text(query string) string {
	if !d.numbered {
		return query
	}
	var b strings.Builder
	n := 0
	for part := range strings.SplitSeq(query, "?") {
		if n > 0 {
			b.WriteString("$" + strconv.Itoa(n))
		}
		b.WriteString(part)
		n++
	}
	return b.String()
}

const itemColumns = "kind, id, name, owner, expires, version, doc"

// micro is a time as the database has it; 0 for the zero time.
func micro(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func timeOf(micro int64) time.Time {
	if micro == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micro).UTC()
}

// Get implements [Ledger].
func (l *database) Get(ctx context.Context, kind, id string) (*Item, error) {
	return l.one(ctx, "id = ?", kind, id)
}

// Named implements [Ledger].
func (l *database) Named(ctx context.Context, kind, name string) (*Item, error) {
	return l.one(ctx, "name = ?", kind, name)
}

func (l *database) one(ctx context.Context, where, kind, value string) (*Item, error) {
	found, err := l.items(ctx, "kind = ? AND "+where, kind, value)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

// List implements [Ledger].
func (l *database) List(ctx context.Context, kind, owner string) ([]Item, error) {
	if owner == "" {
		return l.items(ctx, "kind = ?", kind)
	}
	return l.items(ctx, "kind = ? AND owner = ?", kind, owner)
}

func (l *database) items(ctx context.Context, where string, args ...any) (found []Item, err error) {
	args = append(args, micro(l.now()))
	rows, err := l.db.QueryContext(ctx, l.dialect.text("SELECT "+itemColumns+" FROM items WHERE "+where+" AND (expires = 0 OR expires > ?) ORDER BY id"), args...)
	if err != nil {
		return nil, gone(err)
	}
	defer func() { err = errors.Join(err, gone(rows.Close())) }()
	for rows.Next() {
		var it Item
		var name sql.NullString
		var expires int64
		var doc string
		if err := rows.Scan(&it.Kind, &it.ID, &name, &it.Owner, &expires, &it.Version, &doc); err != nil {
			return nil, gone(err)
		}
		it.Name, it.Expires, it.Doc = name.String, timeOf(expires), json.RawMessage(doc)
		found = append(found, it)
	}
	return found, gone(rows.Err())
}

// Apply implements [Ledger].
func (l *database) Apply(ctx context.Context, changes ...Change) error {
	return l.transact(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "UPDATE heads SET number = number + 1 WHERE name = 'revision'"); err != nil {
			return gone(err)
		}
		for i := range changes {
			if err := l.change(ctx, tx, &changes[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

func (l *database) change(ctx context.Context, tx *sql.Tx, c *Change) error {
	var version int64
	var expires int64
	err := tx.QueryRowContext(ctx, l.dialect.text("SELECT version, expires FROM items WHERE kind = ? AND id = ?"), c.Kind, c.ID).Scan(&version, &expires)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return gone(err)
	}
	there := version
	if expires > 0 && expires <= micro(l.now()) {
		there = 0 // what has expired is not there for anybody
	}
	if c.Was != Any && c.Was != there {
		return ErrConflict
	}
	if c.Remove {
		return l.remove(ctx, tx, c.Kind, c.ID)
	}
	// Whoever has the name and has expired must not keep it.
	if c.Name != "" {
		_, err = tx.ExecContext(ctx, l.dialect.text("DELETE FROM items WHERE kind = ? AND name = ? AND id <> ? AND expires > 0 AND expires <= ?"),
			c.Kind, c.Name, c.ID, micro(l.now()))
		if err != nil {
			return gone(err)
		}
	}
	name := sql.NullString{String: c.Name, Valid: c.Name != ""}
	_, err = tx.ExecContext(ctx, l.dialect.text("INSERT INTO items ("+itemColumns+") VALUES (?, ?, ?, ?, ?, ?, ?)"+
		" ON CONFLICT (kind, id) DO UPDATE SET name = excluded.name, owner = excluded.owner, expires = excluded.expires, version = excluded.version, doc = excluded.doc"),
		c.Kind, c.ID, name, c.Owner, micro(c.Expires), version+1, string(c.Doc))
	if err != nil && l.dialect.taken(err) {
		return ErrConflict
	}
	return gone(err)
}

// remove removes an item and all that it owns.
func (l *database) remove(ctx context.Context, tx *sql.Tx, kind, id string) error {
	if _, err := tx.ExecContext(ctx, l.dialect.text("DELETE FROM items WHERE kind = ? AND id = ?"), kind, id); err != nil {
		return gone(err)
	}
	_, err := tx.ExecContext(ctx, l.dialect.text("DELETE FROM items WHERE owner = ?"), id)
	return gone(err)
}

// Revision implements [Ledger].
func (l *database) Revision(ctx context.Context) (n int64, err error) {
	err = l.db.QueryRowContext(ctx, "SELECT number FROM heads WHERE name = 'revision'").Scan(&n)
	return n, gone(err)
}

// Append implements [Ledger].
func (l *database) Append(ctx context.Context, e *Entry) error {
	return l.transact(ctx, func(tx *sql.Tx) error {
		number, hash, err := l.head(ctx, tx)
		if err != nil {
			return err
		}
		e.Number, e.Time = number+1, e.Time.UTC().Truncate(time.Microsecond)
		doc, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("the audit entry can't be written: %w", err)
		}
		e.Hash = link(hash, doc)
		_, err = tx.ExecContext(ctx, l.dialect.text("INSERT INTO audit (number, time, action, principal, target, node, result, doc, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"),
			e.Number, micro(e.Time), e.Action, e.Principal, e.Target, e.Node, e.Result, string(doc), e.Hash)
		return gone(err)
	})
}

// head is the number and the hash of the newest entry, or the anchor.
func (l *database) head(ctx context.Context, tx *sql.Tx) (number int64, hash string, err error) {
	err = tx.QueryRowContext(ctx, "SELECT number, hash FROM audit ORDER BY number DESC LIMIT 1").Scan(&number, &hash)
	if errors.Is(err, sql.ErrNoRows) {
		err = tx.QueryRowContext(ctx, "SELECT number, text FROM heads WHERE name = 'anchor'").Scan(&number, &hash)
	}
	return number, hash, gone(err)
}

// link is the hash of an entry.
func link(before string, doc []byte) string {
	sum := sha256.New()
	sum.Write([]byte(before + "\n"))
	sum.Write(doc)
	return hex.EncodeToString(sum.Sum(nil))
}

// Entries implements [Ledger].
func (l *database) Entries(ctx context.Context, q Query) (found []Entry, err error) {
	where, args := []string{"1 = 1"}, []any{}
	equal := func(column, value string) {
		if value != "" {
			where, args = append(where, column+" = ?"), append(args, value)
		}
	}
	equal("principal", q.Principal)
	equal("action", q.Action)
	equal("target", q.Target)
	equal("node", q.Node)
	equal("result", q.Result)
	if !q.From.IsZero() {
		where, args = append(where, "time >= ?"), append(args, micro(q.From))
	}
	if !q.To.IsZero() {
		where, args = append(where, "time < ?"), append(args, micro(q.To))
	}
	if q.Before > 0 {
		where, args = append(where, "number < ?"), append(args, q.Before)
	}
	most := q.Most
	if most <= 0 {
		most = 100
	}
	text := "SELECT number, doc, hash FROM audit WHERE " + strings.Join(where, " AND ") + " ORDER BY number DESC LIMIT " + strconv.Itoa(most)
	err = l.entries(ctx, text, args, func(number int64, doc, hash string) error {
		var e Entry
		if err := json.Unmarshal([]byte(doc), &e); err != nil {
			return fmt.Errorf("audit entry %d can't be read: %w", number, err)
		}
		e.Hash = hash
		found = append(found, e)
		return nil
	})
	return found, err
}

func (l *database) entries(ctx context.Context, text string, args []any, each func(number int64, doc, hash string) error) (err error) {
	rows, err := l.db.QueryContext(ctx, l.dialect.text(text), args...)
	if err != nil {
		return gone(err)
	}
	defer func() { err = errors.Join(err, gone(rows.Close())) }()
	for rows.Next() {
		var number int64
		var doc, hash string
		if err := rows.Scan(&number, &doc, &hash); err != nil {
			return gone(err)
		}
		if err := each(number, doc, hash); err != nil {
			return err
		}
	}
	return gone(rows.Err())
}

// Prune implements [Ledger].
func (l *database) Prune(ctx context.Context, before time.Time) error {
	return l.transact(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, l.dialect.text("DELETE FROM items WHERE expires > 0 AND expires <= ?"), micro(l.now())); err != nil {
			return gone(err)
		}
		if before.IsZero() {
			return nil
		}
		// Entries are removed from the beginning alone: one whose time is wrong stays, with those after it.
		var kept sql.NullInt64
		if err := tx.QueryRowContext(ctx, l.dialect.text("SELECT MIN(number) FROM audit WHERE time >= ?"), micro(before)).Scan(&kept); err != nil {
			return gone(err)
		}
		last, args := "SELECT number, hash FROM audit ORDER BY number DESC LIMIT 1", []any{}
		if kept.Valid {
			last, args = "SELECT number, hash FROM audit WHERE number < ? ORDER BY number DESC LIMIT 1", []any{kept.Int64}
		}
		var number int64
		var hash string
		err := tx.QueryRowContext(ctx, l.dialect.text(last), args...).Scan(&number, &hash)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return gone(err)
		}
		if _, err := tx.ExecContext(ctx, l.dialect.text("DELETE FROM audit WHERE number <= ?"), number); err != nil {
			return gone(err)
		}
		_, err = tx.ExecContext(ctx, l.dialect.text("UPDATE heads SET number = ?, text = ? WHERE name = 'anchor'"), number, hash)
		return gone(err)
	})
}

// Verify implements [Ledger].
func (l *database) Verify(ctx context.Context) (c Chain, err error) {
	err = l.db.QueryRowContext(ctx, "SELECT number, text FROM heads WHERE name = 'anchor'").Scan(&c.Anchor, &c.Head)
	if err != nil {
		return c, gone(err)
	}
	next := c.Anchor + 1
	err = l.entries(ctx, "SELECT number, doc, hash FROM audit ORDER BY number", nil, func(number int64, doc, hash string) error {
		var e Entry
		switch {
		case number != next:
			return &BrokenError{next, fmt.Sprintf("audit entry %d is missing", next)}
		case link(c.Head, []byte(doc)) != hash || json.Unmarshal([]byte(doc), &e) != nil || e.Number != number:
			return &BrokenError{number, fmt.Sprintf("audit entry %d was changed, or one before it", number)}
		}
		if c.First == 0 {
			c.First = number
		}
		c.Last, c.Head = number, hash
		next++
		return nil
	})
	return c, err
}

// Close implements [Ledger].
func (l *database) Close() error { return l.db.Close() }

func (l *database) transact(ctx context.Context, do func(*sql.Tx) error) (err error) {
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return gone(err)
	}
	defer func() {
		if err != nil {
			_ = tx.Rollback() // the error that led here is told
		}
	}()
	if l.dialect.lock != "" {
		if _, err := tx.ExecContext(ctx, l.dialect.lock); err != nil {
			return gone(err)
		}
	}
	if err := do(tx); err != nil {
		return err
	}
	return gone(tx.Commit())
}

// gone says of an error of the database that the ledger can't be reached.
func gone(err error) error {
	if err == nil || slices.ContainsFunc([]error{ErrConflict, ErrGone, context.Canceled}, func(known error) bool { return errors.Is(err, known) }) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrGone, err)
}
