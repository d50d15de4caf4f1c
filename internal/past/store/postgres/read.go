package postgres

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

func compareKeys(a, b store.Device) int {
	return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.UUID, b.UUID))
}

func compareIndexes(a, b store.Device) int {
	return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Index, b.Index), cmp.Compare(a.UUID, b.UUID))
}

// reading does what only reads, and does it again where the connection was one to a server that has been restarted.
func (s *Store) reading(ctx context.Context, read func() error) error {
	attempt := func() error {
		if err := s.ready(ctx); err != nil {
			return err
		}
		return read()
	}
	err := attempt()
	if ctx.Err() == nil && s.retries(ctx, err, 0) {
		err = attempt()
	}
	return s.advise(ctx, err)
}

// errStopped ends a query whose reader wants no more.
var errStopped = errors.New("the reader stopped")

// stream makes a sequence of what read yields. read ends when yield returns an error.
func stream[V any](ctx context.Context, s *Store, read func(yield func(V) error) error) iter.Seq2[V, error] {
	return func(yield func(V, error) bool) {
		var yielded, stopped bool
		var failed error
		err := s.reading(ctx, func() error {
			if yielded { // it can't begin again
				return failed
			}
			failed = read(func(v V) error {
				yielded = true
				if stopped = !yield(v, nil); stopped {
					return errStopped
				}
				return nil
			})
			if stopped {
				return nil
			}
			return failed
		})
		if err != nil && !stopped {
			var none V
			yield(none, err)
		}
	}
}

// A clause is the conditions of a query.
type clause struct {
	all  []string
	args []any
}

// add adds a condition, in which each $? stands for the next value.
func (c *clause) add(condition string, values ...any) {
	for _, v := range values {
		c.args = append(c.args, v)
		condition = strings.Replace(condition, "$?", fmt.Sprintf("$%d", len(c.args)), 1)
	}
	c.all = append(c.all, condition)
}

func (c *clause) String() string {
	if len(c.all) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(c.all, " AND ")
}

// keys adds that a device, which is named d, is one of these.
func (c *clause) keys(keys []store.Key) {
	if len(keys) == 0 {
		return
	}
	var nodes, uuids []string
	for _, k := range keys {
		nodes, uuids = append(nodes, store.Text(k.Node)), append(uuids, store.Text(k.UUID))
	}
	c.add("(d.node, d.uuid) IN (SELECT * FROM unnest($?::text[], $?::text[]))", nodes, uuids)
}

func (c *clause) equal(name, value string) {
	if value != "" {
		c.add(name+" = $?", value)
	}
}

// overlaps adds that what was from from_time to to_time overlaps the query. What has ended is found by its span.
func (c *clause) overlaps(q *store.Query) {
	if q.From.IsZero() && q.To.IsZero() {
		return
	}
	from, to := bound(q.From, pgtype.NegativeInfinity), bound(q.To, pgtype.Infinity)
	c.add("(span IS NULL OR span && tstzrange(least($?::timestamptz, $?), greatest($?::timestamptz, $?), '[]'))", from, to, from, to)
	c.add("from_time < $? AND (to_time > $? OR from_time = $?)", to, from, from)
}

// bound is a time, or without one that it is not bounded.
func bound(t time.Time, without pgtype.InfinityModifier) pgtype.Timestamptz {
	if t.IsZero() {
		return pgtype.Timestamptz{InfinityModifier: without, Valid: true}
	}
	return pgtype.Timestamptz{Time: t.UTC(), Valid: true}
}

// Devices lists devices.
func (s *Store) Devices(ctx context.Context) (out []store.Device, err error) {
	err = s.reading(ctx, func() error {
		var names strings.Builder
		for i := range store.Devices.Fields {
			names.WriteString("d." + quoted(store.Devices.Fields[i].Postgres) + ", ")
		}
		rows, err := s.asker(ctx).Query(ctx, "SELECT d.node, d.uuid, "+names.String()+ends("least", "ASC")+", "+ends("greatest", "DESC")+" FROM devices d")
		if err != nil {
			return err
		}
		var first, last *time.Time
		found := new(scan[store.Device])
		found.targets = []any{&found.v.Node, &found.v.UUID}
		for i := range store.Devices.Fields {
			found.add(store.Devices.Fields[i].Place(&found.v))
		}
		_, err = pgx.ForEachRow(rows, append(found.targets, &first, &last), func() error {
			d := found.v
			if first != nil {
				d.First, d.Last = first.UTC(), last.UTC()
			}
			out = append(out, d)
			return nil
		})
		return err
	})
	slices.SortFunc(out, compareIndexes)
	return out, err
}

// ends is the first or the last time of a device's or machine's rows. See [store.Device].
func ends(choice, order string) string {
	timesIn := func(machines bool) string {
		var times []string
		for _, tier := range store.Tiers[:store.SixHours] {
			times = append(times, "(SELECT time FROM "+tableOf(tier, machines).name+" WHERE device = d.id ORDER BY time "+order+" LIMIT 1)")
		}
		return choice + "(" + strings.Join(times, ", ") + ")"
	}
	return "CASE WHEN d.uuid = '' THEN " + timesIn(true) + " ELSE " + timesIn(false) + " END"
}

// A found device is one of which rows are read.
type found struct {
	id int64
	store.Device
}

// find returns devices or machines in their order.
func find(ctx context.Context, q querier, keys []store.Key, machines bool) ([]found, error) {
	var where clause
	where.add("(d.uuid = '') = $?", machines)
	where.keys(keys)
	rows, err := q.Query(ctx, "SELECT d.id, d.node, d.uuid, d.number FROM devices d"+where.String(), where.args...)
	if err != nil {
		return nil, err
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (f found, err error) {
		return f, row.Scan(&f.id, &f.Node, &f.UUID, &f.Index)
	})
	slices.SortFunc(all, func(a, b found) int { return compareIndexes(a.Device, b.Device) })
	return all, err
}

// snapshot reads at one time: a batch is seen whole or not at all.
var snapshot = pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}

// Rows yields rows.
func (s *Store) Rows(ctx context.Context, q store.Query) iter.Seq2[store.Row, error] {
	return stream(ctx, s, func(yield func(store.Row) error) error {
		return pgx.BeginTxFunc(ctx, s.asker(ctx), snapshot, func(tx pgx.Tx) error {
			devices, err := find(ctx, tx, q.Keys, q.Machines)
			if err != nil {
				return err
			}
			r := newRowReader(&q)
			for _, d := range devices {
				if err := r.read(ctx, tx, d, yield); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// A rowReader reads rows of one table.
type rowReader struct {
	*store.Query
	columns store.Columns
	numbers []int // of the columns that are read
	reused  []store.Value
	sql     string
}

func newRowReader(q *store.Query) *rowReader {
	r := &rowReader{Query: q, columns: columnsOf(q.Machines)}
	names := []string{"time", "state"}
	if q.Tier == store.Raw {
		names = append(names, "doubtful")
	} else {
		names = append(names, "readings")
	}
	for i, c := range r.columns {
		switch {
		case q.Columns != nil && !slices.Contains(q.Columns, i):
			continue
		case q.Tier == store.Raw:
			names = append(names, c.Name)
		case c.Spans:
			names = append(names, c.Name+"_least", c.Name+"_mean", c.Name+"_most", c.Name+"_count")
		default:
			continue
		}
		r.numbers = append(r.numbers, i)
	}
	r.sql = "SELECT " + list(names) + " FROM " + tableOf(q.Tier, q.Machines).name +
		" WHERE device = $1 AND time >= $2 AND time < $3 ORDER BY time"
	return r
}

// read yields the rows of one device.
func (r *rowReader) read(ctx context.Context, tx pgx.Tx, d found, yield func(store.Row) error) error {
	rows, err := tx.Query(ctx, r.sql, d.id, bound(r.From, pgtype.NegativeInfinity), bound(r.To, pgtype.Infinity))
	if err != nil {
		return err
	}
	defer rows.Close()
	key := store.Key{Node: d.Node, UUID: d.UUID}
	for rows.Next() {
		row, err := r.row(rows.RawValues())
		if err != nil {
			return err
		}
		row.Key = key
		if err := yield(row); err != nil {
			return err
		}
	}
	return rows.Err()
}

// row is made of what the server sends, in its binary format.
func (r *rowReader) row(raw [][]byte) (row store.Row, err error) {
	row.Tier, row.Readings, row.Values = r.Tier, 1, r.reused
	if !r.Reuse || r.reused == nil {
		row.Values = make([]store.Value, len(r.columns))
		r.reused = row.Values
	}
	micros, ok := number(raw[0])
	if !ok {
		return row, errors.New("a row without a time")
	}
	row.Time = time.UnixMicro(micros + beginning).UTC()
	row.State = gpu.State(raw[1])
	values := raw[3:]
	if r.Tier == store.Raw {
		for i, n := range r.numbers {
			row.Values[n] = store.Value{}
			if v, ok := number(values[i]); ok {
				value := r.columns[n].Value(v)
				row.Values[n] = store.Value{Least: value, Mean: value, Most: value, Count: 1}
			}
		}
		r.columns.Doubt(row.Values, string(raw[2]))
		return row, nil
	}
	readings, _ := number(raw[2])
	row.Readings = int(readings)
	for i, n := range r.numbers {
		row.Values[n] = span(&r.columns[n], values[4*i:4*i+4], readings)
	}
	return row, nil
}

// span is a value of least, mean, most and count.
func span(c *store.Column, raw [][]byte, readings int64) store.Value {
	mean, ok := number(raw[1])
	if !ok {
		return store.Value{}
	}
	or := func(raw []byte, instead int64) int64 {
		if n, ok := number(raw); ok {
			return n
		}
		return instead
	}
	return store.Value{
		Least: c.Value(or(raw[0], mean)), Mean: c.Value(mean), Most: c.Value(or(raw[2], mean)), Count: int(or(raw[3], readings)),
	}
}

// beginning is from when the server counts, in microseconds since 1970.
var beginning = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()

// number is a whole number as the server sends it; ok is false where there is none.
func number(raw []byte) (n int64, ok bool) {
	if len(raw) != 8 {
		return 0, false
	}
	return int64(binary.BigEndian.Uint64(raw)), true //nolint:gosec // it is sent so
}

// Sessions yields sessions.
func (s *Store) Sessions(ctx context.Context, q store.Query) iter.Seq2[store.Session, error] {
	var where clause
	where.keys(q.Keys)
	where.overlaps(&q)
	where.equal("t.user_name", q.User)
	where.equal("t.job", q.Job)
	where.equal("t.pod", q.Pod)
	if q.Name != "" {
		where.add("$? IN (t.name, t.program)", q.Name)
	}
	if q.Open {
		where.add("t.outcome = 'open'")
	}
	return each(ctx, s, sessions, where, "from_time")
}

func inUTC(times ...*time.Time) {
	for _, t := range times {
		*t = t.UTC()
	}
}

// Causes yields causes.
func (s *Store) Causes(ctx context.Context, q store.Query) iter.Seq2[store.Cause, error] {
	var where clause
	where.keys(q.Keys)
	where.overlaps(&q)
	where.kinds(q.Kinds)
	if q.Open {
		where.add("t.open")
	}
	if q.Lasting > 0 {
		where.add("t.to_time - t.from_time >= $?", q.Lasting)
	}
	order := "from_time"
	if q.First > 0 {
		order += ", t.device, t.id LIMIT " + strconv.Itoa(q.First)
	}
	return each(ctx, s, causes, where, order)
}

func (c *clause) kinds(kinds []string) {
	if kinds != nil {
		c.add("t.kind = ANY($?)", kinds)
	}
}

// Events yields events.
func (s *Store) Events(ctx context.Context, q store.Query) iter.Seq2[store.Event, error] {
	var where clause
	where.keys(q.Keys)
	where.kinds(q.Kinds)
	if !q.From.IsZero() {
		where.add("t.time >= $?", q.From)
	}
	if !q.To.IsZero() {
		where.add("t.time < $?", q.To)
	}
	if q.Newest == 0 {
		return each(ctx, s, events, where, "time, id")
	}
	newest := each(ctx, s, events, where, fmt.Sprintf("time DESC, id DESC LIMIT %d", q.Newest))
	return func(yield func(store.Event, error) bool) {
		var all []store.Event
		for e, err := range newest {
			if err != nil {
				yield(e, err)
				return
			}
			all = append(all, e)
		}
		for _, e := range slices.Backward(all) {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// Document returns small state of this gpuwhy.
func (s *Store) Document(ctx context.Context, name string) (text []byte, err error) {
	err = s.reading(ctx, func() error {
		const query = "SELECT text FROM documents WHERE name = $1 AND (owner = $2 OR owner IN ($3, $4) AND $2 <> '') ORDER BY owner = $2 DESC, owner = $3 DESC LIMIT 1"
		bare := s.name[strings.LastIndexByte(s.name, ':')+1:] // earlier versions left the cluster out
		err := s.own.QueryRow(ctx, query, store.Text(name), s.ownerOf(name), s.name, bare).Scan(&text)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	return text, err
}

// ownerOf is whose a document is.
func (s *Store) ownerOf(document string) string {
	if store.Shared(document) {
		return ""
	}
	return s.owner
}

// Unsettled lists spans, also those that others have to settle.
func (s *Store) Unsettled(ctx context.Context, tier store.Tier, before time.Time) (out []store.Bucket, err error) {
	err = s.reading(ctx, func() error {
		rows, err := s.asker(ctx).Query(ctx, `SELECT d.node, d.uuid, u.time FROM unsettled u JOIN devices d ON d.id = u.device
			WHERE u.tier = $1 AND u.time < $2`, int16(tier), bound(before, pgtype.Infinity))
		if err != nil {
			return err
		}
		out, err = pgx.AppendRows(out, rows, func(row pgx.CollectableRow) (b store.Bucket, err error) {
			b.Tier = tier
			err = row.Scan(&b.Node, &b.UUID, &b.Time)
			inUTC(&b.Time)
			return b, err
		})
		return err
	})
	return out, err
}
