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
	"unicode/utf8"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A database is a ledger in an SQL database.
type database struct {
	db      *sql.DB
	dialect *dialect
	place   string // the file or the server, for people
	now     func() time.Time
}

// A dialect is how one kind of database differs from the other.
type dialect struct {
	name string
	// numbered says that placeholders are $1, $2 and so on, and not ?.
	numbered bool
	// lock makes transactions that change something wait for each other; empty: they do so by themselves.
	lock string
	// finishes says that a transaction that has begun is not given up when its context ends: it takes no time but that of the disk, which
	// no context ends.
	finishes bool
	// taken reports whether an error says that a name or ID is taken.
	taken func(error) bool
	// explain says what an error means for people.
	explain func(place string, err error) (what, try string)
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

// storable reports whether each kind of database can have a text. Others are nobody's ID and name.
func storable(texts ...string) bool {
	return !slices.ContainsFunc(texts, func(text string) bool { return !utf8.ValidString(text) || strings.ContainsRune(text, 0) })
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
	if value == "" || !storable(value) {
		return nil, nil
	}
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
	return l.items(ctx, "kind = ? AND owner = ? AND owner <> ''", kind, owner)
}

func (l *database) items(ctx context.Context, where string, args ...any) (found []Item, err error) {
	text := "SELECT " + itemColumns + " FROM items WHERE " + where + " AND (expires = 0 OR expires > ?) ORDER BY id"
	rows, err := l.db.QueryContext(ctx, l.dialect.text(text), append(args, micro(l.now()))...)
	if err != nil {
		return nil, l.gone(ctx, err)
	}
	defer func() { err = errors.Join(err, l.gone(ctx, rows.Close())) }()
	for rows.Next() {
		var it Item
		var name sql.NullString
		var expires int64
		var doc string
		if err := rows.Scan(&it.Kind, &it.ID, &name, &it.Owner, &expires, &it.Version, &doc); err != nil {
			return nil, l.gone(ctx, err)
		}
		it.Name, it.Expires, it.Doc = name.String, timeOf(expires), json.RawMessage(doc)
		found = append(found, it)
	}
	return found, l.gone(ctx, rows.Err())
}

// Apply implements [Ledger].
func (l *database) Apply(ctx context.Context, changes ...Change) error {
	if err := check(changes); err != nil {
		return err
	}
	return l.transact(ctx, func(ctx context.Context, tx *sql.Tx) error {
		loud := false
		for i := range changes {
			had, err := l.change(ctx, tx, &changes[i])
			if err != nil {
				return err
			}
			loud = loud || had && !changes[i].Quiet
		}
		if !loud {
			return nil
		}
		return revise(ctx, tx)
	})
}

// check returns what is wrong with changes that no ledger can make.
func check(changes []Change) error {
	for i := range changes {
		c := &changes[i]
		switch {
		case c.Kind == "" || c.ID == "" || !storable(c.Kind, c.ID, c.Name, c.Owner):
			return fmt.Errorf("%q is no item of the ledger", c.Kind+" "+c.ID)
		case !c.Remove && c.Owner == c.ID: // whoever removes it would remove all that the owner has
			return fmt.Errorf("%s %s has the ID of its owner", c.Kind, c.ID)
		case !c.Remove && (!json.Valid(c.Doc) || !utf8.Valid(c.Doc)):
			return fmt.Errorf("the document of %s %s is not JSON", c.Kind, c.ID)
		}
	}
	return nil
}

// revise says that items have changed.
func revise(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, "UPDATE heads SET number = number + 1 WHERE name = 'revision'")
	return err
}

// change makes a change. had reports whether there was an item before, also one that has expired.
func (l *database) change(ctx context.Context, tx *sql.Tx, c *Change) (had bool, err error) {
	now := micro(l.now())
	var version, expires int64
	err = tx.QueryRowContext(ctx, l.dialect.text("SELECT version, expires FROM items WHERE kind = ? AND id = ?"), c.Kind, c.ID).Scan(&version, &expires)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return false, err
	}
	had = version > 0
	there := version
	if expires > 0 && expires <= now {
		there = 0 // what has expired is not there for anybody
	}
	if c.Was != Any && c.Was != there {
		return had, ErrConflict
	}
	if c.Remove || there < version {
		if err := l.remove(ctx, tx, "SELECT CAST(? AS TEXT), CAST(? AS TEXT)", c.Kind, c.ID); err != nil || c.Remove {
			return had, err
		}
	}
	if c.Owner != "" {
		var owners int
		err := tx.QueryRowContext(ctx, l.dialect.text("SELECT COUNT(*) FROM items WHERE id = ? AND (expires = 0 OR expires > ?)"), c.Owner, now).Scan(&owners)
		if err != nil {
			return had, err
		}
		if owners == 0 {
			return had, ErrConflict
		}
	}
	name := sql.NullString{String: c.Name, Valid: c.Name != ""}
	if name.Valid { // whoever has the name and has expired must not keep it
		err := l.remove(ctx, tx, "SELECT kind, id FROM items WHERE kind = ? AND name = ? AND id <> ? AND expires > 0 AND expires <= ?", c.Kind, c.Name, c.ID, now)
		if err != nil {
			return had, err
		}
	}
	_, err = tx.ExecContext(ctx, l.dialect.text("INSERT INTO items ("+itemColumns+") VALUES (?, ?, ?, ?, ?, ?, ?)"+
		" ON CONFLICT (kind, id) DO UPDATE SET name = excluded.name, owner = excluded.owner, expires = excluded.expires, version = excluded.version, doc = excluded.doc"),
		c.Kind, c.ID, name, c.Owner, micro(c.Expires), version+1, string(c.Doc))
	if err != nil && l.dialect.taken(err) {
		return had, ErrConflict
	}
	return had, err
}

// remove removes the items whose kinds and IDs a query finds, and all that they own.
func (l *database) remove(ctx context.Context, tx *sql.Tx, which string, args ...any) error {
	_, err := tx.ExecContext(ctx, l.dialect.text(
		"WITH RECURSIVE leaving (kind, id) AS ("+which+
			" UNION SELECT items.kind, items.id FROM items JOIN leaving ON items.owner = leaving.id WHERE items.owner <> '')"+
			" DELETE FROM items WHERE (kind, id) IN (SELECT kind, id FROM leaving)"), args...)
	return err
}

// Revision implements [Ledger].
func (l *database) Revision(ctx context.Context) (n int64, err error) {
	err = l.db.QueryRowContext(ctx, "SELECT number FROM heads WHERE name = 'revision'").Scan(&n)
	return n, l.gone(ctx, err)
}

// mostText bounds each text of an audit entry, in bytes: people who have not signed in may write some of them.
const mostText = 2 << 10

// storedText is a text as an entry has it.
func storedText(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\x00", "\ufffd")
	if len(text) > mostText {
		text = strings.ToValidUTF8(text[:mostText], "") + "…"
	}
	return text
}

// stored is an entry as the database has it.
func (e *Entry) stored() Entry {
	s := *e
	for _, text := range []*string{&s.Action, &s.Principal, &s.Identity, &s.Way, &s.Address, &s.Target, &s.Node, &s.Asked, &s.Result, &s.Detail} {
		*text = storedText(*text)
	}
	s.Time = s.Time.UTC().Truncate(time.Microsecond)
	return s
}

// Append implements [Ledger].
func (l *database) Append(ctx context.Context, e *Entry) error {
	s := e.stored()
	err := l.transact(ctx, func(ctx context.Context, tx *sql.Tx) error {
		last, hash, err := headOf(ctx, tx, "head")
		if err != nil {
			return err
		}
		s.Number = last + 1
		doc, err := json.Marshal(&s)
		if err != nil {
			return &notStored{err}
		}
		s.Hash = link(hash, doc)
		_, err = tx.ExecContext(ctx, l.dialect.text("INSERT INTO audit (number, time, action, principal, target, node, result, doc, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"),
			s.Number, micro(s.Time), s.Action, s.Principal, s.Target, s.Node, s.Result, string(doc), s.Hash)
		if err != nil && l.dialect.taken(err) {
			return &gpu.Advice{
				What: fmt.Sprintf("no audit entry can be added, since somebody else has added number %d", s.Number),
				Try:  "find out who with 'gpuwhy audit check', and restore the accounts and the audit from a backup", Err: &gone{err},
			}
		}
		if err != nil {
			return err
		}
		return l.setHead(ctx, tx, "head", s.Number, s.Hash)
	})
	if err == nil {
		e.Number, e.Time, e.Hash = s.Number, s.Time, s.Hash
	}
	return err
}

// A notStored error is of an entry that is no JSON.
type notStored struct{ error }

func (e *notStored) Error() string { return "the audit entry can't be written: " + e.error.Error() }

func headOf(ctx context.Context, tx *sql.Tx, name string) (number int64, hash string, err error) {
	err = tx.QueryRowContext(ctx, "SELECT number, text FROM heads WHERE name = '"+name+"'").Scan(&number, &hash)
	return number, hash, err
}

func (l *database) setHead(ctx context.Context, tx *sql.Tx, name string, number int64, hash string) error {
	_, err := tx.ExecContext(ctx, l.dialect.text("UPDATE heads SET number = ?, text = ? WHERE name = ?"), number, hash, name)
	return err
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
	only := func(condition string, value any, given bool) {
		if given {
			where, args = append(where, condition), append(args, value)
		}
	}
	for column, value := range map[string]string{"principal": q.Principal, "action": q.Action, "target": q.Target, "node": q.Node, "result": q.Result} {
		if !storable(value) {
			return nil, nil
		}
		only(column+" = ?", value, value != "")
	}
	only("time >= ?", micro(q.From), !q.From.IsZero())
	only("time < ?", micro(q.To), !q.To.IsZero())
	only("number < ?", q.Before, q.Before > 0)
	most := q.Most
	if most <= 0 {
		most = 100
	}
	text := "SELECT number, doc, hash FROM audit WHERE " + strings.Join(where, " AND ") + " ORDER BY number DESC LIMIT " + strconv.Itoa(most)
	rows, err := l.db.QueryContext(ctx, l.dialect.text(text), args...)
	if err != nil {
		return nil, l.gone(ctx, err)
	}
	defer func() { err = errors.Join(err, l.gone(ctx, rows.Close())) }()
	for rows.Next() {
		var number int64
		var doc string
		var e Entry
		if err := rows.Scan(&number, &doc, &e.Hash); err != nil {
			return nil, l.gone(ctx, err)
		}
		if err := json.Unmarshal([]byte(doc), &e); err != nil {
			return nil, changed(number)
		}
		found = append(found, e)
	}
	return found, l.gone(ctx, rows.Err())
}

// atOnce is how many entries are verified or removed in one transaction: others can append in between.
const atOnce = 1000

// Prune implements [Ledger].
func (l *database) Prune(ctx context.Context, before time.Time) error {
	if err := l.removeExpired(ctx); err != nil || before.IsZero() {
		return err
	}
	for more := true; more; {
		err := l.transact(ctx, func(ctx context.Context, tx *sql.Tx) error {
			anchor, _, err := headOf(ctx, tx, "anchor")
			if err != nil {
				return err
			}
			last, hash := anchor, ""
			page, err := l.page(ctx, tx, anchor)
			for i := range page {
				if page[i].time >= micro(before) {
					break
				}
				last, hash = page[i].number, page[i].hash
			}
			if more = len(page) == atOnce && last == page[atOnce-1].number; err != nil || last == anchor {
				return err
			}
			if _, err := tx.ExecContext(ctx, l.dialect.text("DELETE FROM audit WHERE number <= ?"), last); err != nil {
				return err
			}
			return l.setHead(ctx, tx, "anchor", last, hash)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *database) removeExpired(ctx context.Context) error {
	return l.transact(ctx, func(ctx context.Context, tx *sql.Tx) error {
		now, expired := micro(l.now()), 0
		err := tx.QueryRowContext(ctx, l.dialect.text("SELECT COUNT(*) FROM items WHERE expires > 0 AND expires <= ?"), now).Scan(&expired)
		if err != nil || expired == 0 {
			return err
		}
		if err := revise(ctx, tx); err != nil { // what they own goes with them
			return err
		}
		return l.remove(ctx, tx, "SELECT kind, id FROM items WHERE expires > 0 AND expires <= ?", now)
	})
}

// An auditRow is an entry with what its columns say of it.
type auditRow struct {
	number, time                            int64
	action, principal, target, node, result string
	doc, hash                               string
}

// page returns the entries after one, as many as are read at once.
func (l *database) page(ctx context.Context, tx *sql.Tx, after int64) (page []auditRow, err error) {
	rows, err := tx.QueryContext(ctx, l.dialect.text("SELECT number, time, action, principal, target, node, result, doc, hash FROM audit"+
		" WHERE number > ? ORDER BY number LIMIT "+strconv.Itoa(atOnce)), after)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var r auditRow
		if err := rows.Scan(&r.number, &r.time, &r.action, &r.principal, &r.target, &r.node, &r.result, &r.doc, &r.hash); err != nil {
			return nil, err
		}
		page = append(page, r)
	}
	return page, rows.Err()
}

// Verify implements [Ledger].
func (l *database) Verify(ctx context.Context) (c Chain, err error) {
	for more := true; more && err == nil; {
		err = l.transact(ctx, func(ctx context.Context, tx *sql.Tx) error {
			anchor, hash, err := headOf(ctx, tx, "anchor")
			if err != nil {
				return err
			}
			c.Anchor = anchor
			if anchor > c.Last || c.Last == 0 { // this is the first page, or somebody has removed entries meanwhile
				c.Last, c.Head = anchor, hash
			}
			if c.First > 0 {
				c.First = max(c.First, anchor+1)
			}
			page, err := l.page(ctx, tx, c.Last)
			if err != nil {
				return err
			}
			for i := range page {
				if err := c.extend(&page[i]); err != nil {
					return err
				}
			}
			if more = len(page) == atOnce; more {
				return nil
			}
			return c.ends(headOf(ctx, tx, "head"))
		})
	}
	if c.First == 0 || c.First > c.Last {
		c.First, c.Last = 0, 0
	}
	return c, err
}

// extend adds the next entry to a chain that holds.
func (c *Chain) extend(r *auditRow) error {
	var e Entry
	switch next := c.Last + 1; {
	case r.number != next:
		return missing(next)
	case link(c.Head, []byte(r.doc)) != r.hash || json.Unmarshal([]byte(r.doc), &e) != nil:
		return changed(r.number)
	case auditRow{e.Number, micro(e.Time), e.Action, e.Principal, e.Target, e.Node, e.Result, r.doc, r.hash} != *r: // its columns, by which it is found
		return changed(r.number)
	}
	if c.First == 0 {
		c.First = r.number
	}
	c.Last, c.Head = r.number, r.hash
	return nil
}

// ends compares the last entry with the head.
func (c *Chain) ends(number int64, hash string, err error) error {
	switch {
	case err != nil:
		return err
	case number > c.Last:
		return missing(c.Last + 1)
	case number < c.Last:
		return &BrokenError{number + 1, fmt.Sprintf("audit entry %d was added by another program", number+1)}
	case hash != c.Head:
		return changed(number)
	}
	return nil
}

func missing(number int64) error {
	return &BrokenError{number, fmt.Sprintf("audit entry %d is missing", number)}
}

func changed(number int64) error {
	return &BrokenError{number, fmt.Sprintf("audit entry %d was changed, or the hash of the one before it", number)}
}

// Close implements [Ledger].
func (l *database) Close() error { return l.db.Close() }

// transact runs do as one transaction that nobody else's change overlaps.
func (l *database) transact(ctx context.Context, do func(context.Context, *sql.Tx) error) (err error) {
	conn, err := l.db.Conn(ctx)
	if err != nil {
		return l.gone(ctx, err)
	}
	defer func() { _ = conn.Close() }() // it goes back to the others
	if l.dialect.finishes {
		ctx = context.WithoutCancel(ctx)
	}
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return l.gone(ctx, err)
	}
	defer func() { _ = tx.Rollback() }() // it does nothing after a commit
	if l.dialect.lock != "" {
		if _, err := tx.ExecContext(ctx, l.dialect.lock); err != nil {
			return l.gone(ctx, err)
		}
	}
	if err := do(ctx, tx); err != nil {
		return l.gone(ctx, err)
	}
	return l.gone(ctx, tx.Commit())
}

// gone says of an error of the database that the ledger can't be reached. It leaves the ledger's own errors as they are.
func (l *database) gone(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, ErrConflict) || errors.Is(err, ErrGone) {
		return err
	}
	if broken, ok := errors.AsType[*BrokenError](err); ok {
		return broken
	}
	if bad, ok := errors.AsType[*notStored](err); ok {
		return bad
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	what, try := l.dialect.explain(l.place, err)
	return &gpu.Advice{What: what, Try: try, Err: &gone{err}}
}
