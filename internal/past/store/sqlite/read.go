package sqlite

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// errEnough ends a query whose reader has had enough.
var errEnough = errors.New("the reader has enough")

// yields makes a sequence of what do finds in the database as it is when the sequence is read.
func yields[V any](ctx context.Context, s *Store, do func(c *conn, found func(V) error) error) iter.Seq2[V, error] {
	return func(yield func(V, error) bool) {
		err := s.view(ctx, func(c *conn) error {
			return do(c, func(v V) error {
				if !yield(v, nil) {
					return errEnough
				}
				return nil
			})
		})
		if err != nil && !errors.Is(err, errEnough) {
			var none V
			yield(none, err)
		}
	}
}

// A device is one with its ID.
type device struct {
	store.Device
	id int64
}

// devices are all in their order, or the one of a key.
func devices(ctx context.Context, c *conn, keys ...store.Key) (all []device, err error) {
	where := ""
	var args []any
	if len(keys) > 0 {
		where, args = " WHERE node = ? AND uuid = ?", []any{keys[0].Node, keys[0].UUID}
	}
	err = c.query(ctx, selectDevices+where, args, func(row []driver.Value) error {
		d := device{store.Device{Node: text(row[1]), UUID: text(row[2])}, integer(row[0])}
		readFields(deviceTable.columns, &d.Device, nil, row[3:])
		all = append(all, d)
		return nil
	})
	slices.SortFunc(all, func(a, b device) int {
		return cmp.Or(strings.Compare(a.Node, b.Node), cmp.Compare(a.Index, b.Index), strings.Compare(a.UUID, b.UUID))
	})
	return all, err
}

var selectDevices = func() string {
	names := []string{"id", "node", "uuid"}
	for _, c := range deviceTable.columns {
		names = append(names, c.name)
	}
	return "SELECT " + strings.Join(names, ", ") + " FROM devices"
}()

// queryDevices are the devices that a query is about.
func queryDevices(ctx context.Context, c *conn, keys []store.Key) ([]device, error) {
	if len(keys) <= 1 {
		return devices(ctx, c, keys...)
	}
	asked := map[store.Key]bool{}
	for _, k := range keys {
		asked[k] = true
	}
	all, err := devices(ctx, c)
	return slices.DeleteFunc(all, func(d device) bool { return !asked[d.Key()] }), err
}

// Devices implements [store.Store], as the methods below do.
func (s *Store) Devices(ctx context.Context) (out []store.Device, err error) {
	err = s.view(ctx, func(c *conn) error {
		all, err := devices(ctx, c)
		if err != nil {
			return err
		}
		for _, d := range all {
			if d.First, d.Last, err = ends(ctx, c, &d); err != nil {
				return err
			}
			out = append(out, d.Device)
		}
		return nil
	})
	return out, err
}

// ends are the times of a device's first and last row. See [store.Device].
func ends(ctx context.Context, c *conn, d *device) (first, last time.Time, err error) {
	for _, tier := range store.Tiers[:store.SixHours] {
		t := tableOf(d.UUID == "", tier)
		from, err := c.number(ctx, "SELECT min(time) FROM "+t.name+" WHERE device = ?", d.id)
		if err != nil {
			return first, last, err
		}
		to, err := c.number(ctx, "SELECT max(time) FROM "+t.name+" WHERE device = ?", d.id)
		if err != nil {
			return first, last, err
		}
		if from := moment(from); first.IsZero() || !from.IsZero() && from.Before(first) {
			first = from
		}
		if to := moment(to); to.After(last) {
			last = to
		}
	}
	return first, last, nil
}

// bounds are a query's range of time.
func bounds(q *store.Query) (from, to int64) {
	from, to = math.MinInt64, math.MaxInt64
	if !q.From.IsZero() {
		from = ceiling(q.From)
	}
	if !q.To.IsZero() {
		to = ceiling(q.To)
	}
	return from, to
}

// ceiling is the first whole millisecond that is not before a time: what is kept is in whole ones.
func ceiling(t time.Time) int64 { return t.Add(time.Millisecond - 1).UnixMilli() }

// Rows yields rows.
func (s *Store) Rows(ctx context.Context, q store.Query) iter.Seq2[store.Row, error] {
	return yields(ctx, s, func(c *conn, found func(store.Row) error) error {
		about, err := queryDevices(ctx, c, q.Keys)
		if err != nil {
			return err
		}
		reader := newRowReader(&q, s.absent)
		statement, err := c.Prepare(reader.query) // its columns are those of the query: it is not kept
		if err != nil {
			return err
		}
		defer func() { _ = statement.Close() }() // returns the error of its last use again
		for i := range about {
			if (about[i].UUID == "") != q.Machines {
				continue
			}
			if err := reader.read(ctx, statement, &about[i], found); err != nil {
				return err
			}
		}
		return nil
	})
}

// A rowReader reads the rows of a query, one device after another.
type rowReader struct {
	*table
	reused   []store.Value // nil where each row has its own
	query    string
	wanted   []int // columns
	from, to int64
}

// newRowReader reads the rows of tables that may lack columns.
func newRowReader(q *store.Query, absent map[string][]string) *rowReader {
	r := &rowReader{table: tableOf(q.Machines, q.Tier)}
	r.from, r.to = bounds(q)
	if q.Reuse {
		r.reused = make([]store.Value, len(r.columns))
	}
	names := r.fixed()
	for i := range r.columns {
		if r.keeps(i) && (q.Columns == nil || slices.Contains(q.Columns, i)) && !slices.Contains(absent[r.name], r.columns[i].Name) {
			r.wanted, names = append(r.wanted, i), append(names, r.columns[i].Name)
		}
	}
	const condition = " WHERE device = ? AND time >= ? AND time < ? ORDER BY time"
	r.query = "SELECT " + strings.Join(names, ", ") + " FROM " + r.name + condition
	return r
}

func (r *rowReader) read(ctx context.Context, s driver.Stmt, d *device, found func(store.Row) error) error {
	return query(ctx, s, []any{d.id, r.from, r.to}, func(row []driver.Value) error {
		out := store.Row{Key: d.Key(), Tier: r.tier, Time: moment(row[0]), Readings: 1, Values: r.reused}
		if r.reused == nil {
			out.Values = make([]store.Value, len(r.columns))
		}
		switch {
		case row[1] != nil:
			out.State = gpu.State(text(row[1]))
		case d.UUID != "":
			out.State = gpu.StateOK
		}
		if r.tier == store.Raw {
			r.readings(out.Values, row)
		} else {
			out.Readings = int(integer(row[2]))
			r.spans(out.Values, row)
		}
		return found(out)
	})
}

func (r *rowReader) readings(values []store.Value, row []driver.Value) {
	for n, i := range r.wanted {
		values[i] = store.Value{}
		if n, ok := row[3+n].(int64); ok {
			v := r.columns[i].Value(n)
			values[i] = store.Value{Least: v, Mean: v, Most: v, Count: 1}
		}
	}
	r.columns.Doubt(values, text(row[2]))
}

func (r *rowReader) spans(values []store.Value, row []driver.Value) {
	readings := int(integer(row[2]))
	for n, i := range r.wanted {
		values[i] = store.Value{}
		if least, mean, most, ok := unpack(row[4+n]); ok {
			c := &r.columns[i]
			values[i] = store.Value{Least: c.Value(least), Mean: c.Value(mean), Most: c.Value(most), Count: readings}
		}
	}
	if others := text(row[3]); others != "" {
		r.counts(values, others)
	}
}

// counts sets those that are not the number of readings.
func (r *rowReader) counts(values []store.Value, others string) {
	for other := range strings.SplitSeq(others, ",") {
		name, count, named := strings.Cut(other, "=")
		if !named {
			if n, err := strconv.Atoi(name); err == nil {
				for _, i := range r.wanted {
					values[i].Count = min(values[i].Count, 1) * n // what is absent stays so
				}
			}
			continue
		}
		n, err := strconv.Atoi(count)
		if i := r.columns.Find(name); err == nil && i >= 0 && values[i].Count > 0 {
			values[i].Count = n
		}
	}
}

// Frames yields frames.
func (s *Store) Frames(ctx context.Context, q store.Query) iter.Seq2[store.Frame, error] {
	return yields(ctx, s, func(c *conn, found func(store.Frame) error) error {
		var nodes []store.Key
		for _, k := range q.Keys {
			nodes = append(nodes, store.Key{Node: k.Node})
		}
		about, err := queryDevices(ctx, c, nodes)
		if err != nil {
			return err
		}
		var unpack frameReader
		defer unpack.close()
		from, to := bounds(&q)
		for _, d := range about {
			if d.UUID != "" {
				continue
			}
			const text = "SELECT time, record FROM frames WHERE device = ? AND time >= ? AND time < ? ORDER BY time"
			err := c.query(ctx, text, []any{d.id, from, to}, func(row []driver.Value) error {
				record, err := unpack.read(ctx, c, d.id, integer(row[0]), blob(row[1]))
				if err != nil {
					return err
				}
				return found(store.Frame{Node: d.Node, Time: moment(row[0]), Snapshot: record})
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// A filter is what a query asks for, as conditions that all have to hold.
type filter struct {
	conditions []string
	args       []any
}

func (f *filter) add(condition string, args ...any) {
	f.conditions, f.args = append(f.conditions, condition), append(f.args, args...)
}

// oneOf asks for one of a list.
func (f *filter) oneOf(column string, list []any) {
	f.add(column+" IN (?"+strings.Repeat(", ?", max(len(list), 1)-1)+")", append(list, make([]any, btoi(len(list) == 0))...)...)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (f *filter) kinds(kinds []string) {
	if kinds == nil {
		return
	}
	var list []any
	for _, k := range kinds {
		list = append(list, k)
	}
	f.oneOf("kind", list)
}

// sharedText asks for one of a list of texts that are kept by their numbers.
func (f *filter) sharedText(column string, list []string) {
	var hashes, texts filter
	var all, values []any
	for _, t := range list {
		all, values = append(all, hashOf(t)), append(values, t)
	}
	hashes.oneOf("hash", all)
	texts.oneOf("text", values)
	f.add(column+" IN (SELECT id FROM texts WHERE "+hashes.conditions[0]+" AND "+texts.conditions[0]+")",
		append(hashes.args, texts.args...)...)
}

// overlaps asks for what was from since to until.
func (f *filter) overlaps(q *store.Query) {
	from, to := bounds(q)
	f.add("since < ?", to)
	if !q.From.IsZero() {
		f.add("until >= ? AND (until > ? OR since >= ?)", from, from, from)
	}
}

// where is the condition, and the devices by their IDs that the query is about.
func (f *filter) where(ctx context.Context, c *conn, keys []store.Key) (string, map[int64]store.Key, error) {
	about, err := queryDevices(ctx, c, keys)
	if err != nil {
		return "", nil, err
	}
	names := map[int64]store.Key{}
	var ids []any
	for _, d := range about {
		names[d.id] = d.Key()
		ids = append(ids, d.id)
	}
	if len(keys) > 0 {
		f.oneOf("device", ids)
	}
	return " WHERE " + strings.Join(f.conditions, " AND "), names, nil
}

// Sessions yields sessions.
func (s *Store) Sessions(ctx context.Context, q store.Query) iter.Seq2[store.Session, error] {
	return yields(ctx, s, func(c *conn, found func(store.Session) error) error {
		var f filter
		f.overlaps(&q)
		for _, is := range [][2]string{{"user", q.User}, {"job", q.Job}, {"pod", q.Pod}} {
			if is[1] != "" {
				f.add(is[0]+textIs, hashOf(is[1]), is[1])
			}
		}
		if q.Name != "" {
			f.add("(name"+textIs+" OR program"+textIs+")", hashOf(q.Name), q.Name, hashOf(q.Name), q.Name)
		}
		if q.Open {
			f.add("outcome = 'open'")
		}
		where, names, err := f.where(ctx, c, q.Keys)
		if err != nil {
			return err
		}
		scan := ""
		if q.Brief {
			scan = scanned(&q)
		}
		chosen := sessionTable.choose(s.absent[store.Sessions.Name], q.Brief)
		return chosen.query(ctx, c, chosen.text+scan+where+" ORDER BY since", f.args, names, found)
	})
}

// scanned lets SQLite read all sessions in the order of the file, in place of one after another by an index, where most are asked for.
func scanned(q *store.Query) string {
	if q.To.Sub(q.From) < 100*day || len(q.Keys) > 0 && len(q.Keys) < 4 {
		return ""
	}
	return " NOT INDEXED"
}

// Causes yields causes.
func (s *Store) Causes(ctx context.Context, q store.Query) iter.Seq2[store.Cause, error] {
	return yields(ctx, s, func(c *conn, found func(store.Cause) error) error {
		var f filter
		f.overlaps(&q)
		if q.Kinds != nil {
			f.sharedText("kind", q.Kinds)
		}
		if q.Open {
			f.add("open")
		}
		if q.Lasting > 0 {
			f.add("until - since >= ?", q.Lasting.Milliseconds())
		}
		where, names, err := f.where(ctx, c, q.Keys)
		if err != nil {
			return err
		}
		order := " ORDER BY since"
		if q.First > 0 {
			order, f.args = order+", device, cause LIMIT ?", append(f.args, q.First)
		}
		chosen := causeTable.choose(s.absent[store.Causes.Name], false)
		return chosen.query(ctx, c, chosen.text+where+order, f.args, names, found)
	})
}

// Events yields events.
func (s *Store) Events(ctx context.Context, q store.Query) iter.Seq2[store.Event, error] {
	return yields(ctx, s, func(c *conn, found func(store.Event) error) error {
		var f filter
		from, to := bounds(&q)
		f.add("time >= ? AND time < ?", from, to)
		f.kinds(q.Kinds)
		where, names, err := f.where(ctx, c, q.Keys)
		if err != nil {
			return err
		}
		chosen := eventTable.choose(s.absent[store.Events.Name], false)
		text := chosen.text + where
		if q.Newest > 0 {
			text, f.args = "SELECT * FROM ("+text+" ORDER BY time DESC, id DESC LIMIT ?)", append(f.args, q.Newest)
		}
		return chosen.query(ctx, c, text+" ORDER BY time, id", f.args, names, found)
	})
}

// Document returns small state.
func (s *Store) Document(ctx context.Context, name string) (document []byte, err error) {
	err = s.view(ctx, func(c *conn) error {
		return c.query(ctx, "SELECT text FROM documents WHERE name = ?", []any{name}, func(row []driver.Value) error {
			document = blob(row[0])
			return nil
		})
	})
	return document, err
}

// Unsettled lists spans.
func (s *Store) Unsettled(ctx context.Context, tier store.Tier, before time.Time) (out []store.Bucket, err error) {
	err = s.view(ctx, func(c *conn) error {
		_, end := bounds(&store.Query{To: before})
		const list = "SELECT d.node, d.uuid, u.time FROM unsettled u JOIN devices d ON d.id = u.device WHERE u.tier = ? AND u.time < ?"
		return c.query(ctx, list, []any{tier.String(), end}, func(row []driver.Value) error {
			out = append(out, store.Bucket{Key: store.Key{Node: text(row[0]), UUID: text(row[1])}, Tier: tier, Time: moment(row[2])})
			return nil
		})
	})
	return out, err
}
