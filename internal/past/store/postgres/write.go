package postgres

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// Write implements [store.Store], as the other methods do.
func (s *Store) Write(ctx context.Context, b *store.Batch) error {
	if s.viewed {
		return s.advise(ctx, errViewed)
	}
	bounded, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	err := s.write(bounded, b)
	// A batch is written by its keys, so it may be written again.
	for attempt := 0; attempt < 3 && s.retries(bounded, err, attempt); attempt++ {
		err = s.write(bounded, b)
	}
	return s.advise(ctx, err)
}

// retries reports whether to try again at once: another gpuwhy was in the way, or removed a partition; or the
// connection was one to a server that has been restarted. What is known is forgotten after any error.
func (s *Store) retries(ctx context.Context, err error, attempt int) bool {
	if err == nil {
		return false
	}
	s.forget()
	if gone(err) || codeOf(err) == adminShutdown {
		s.reader.Reset()
		s.own.Reset()
		s.writer.Reset()
		return attempt == 0 && ctx.Err() == nil
	}
	code := codeOf(err)
	return code == deadlock || code == noPartition || code == undefinedTable
}

// forget drops the knowledge about the database, so that it is queried again.
func (s *Store) forget() { s.know(func(k *known) { *k = nothing() }) }

func (s *Store) write(ctx context.Context, b *store.Batch) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	if err := s.alone(ctx); err != nil {
		return err
	}
	if err := s.divide(ctx, timesOf(b)); err != nil {
		return err
	}
	var now writing
	err := pgx.BeginFunc(ctx, s.writer, func(tx pgx.Tx) (err error) {
		now = writing{Store: s, tx: tx, batch: b}
		return now.all(ctx)
	})
	if err != nil {
		return err
	}
	s.know(func(k *known) {
		maps.Copy(k.devices, now.devices)
		maps.Copy(k.keys, now.keys)
	})
	return nil
}

// timesOf lists the times of a batch by the tables that are divided by time.
func timesOf(b *store.Batch) map[*partitioned][]time.Time {
	all := map[*partitioned][]time.Time{}
	add := func(t *partitioned, instant time.Time) {
		if times := all[t]; len(times) == 0 || !times[len(times)-1].Equal(instant) {
			all[t] = append(times, instant)
		}
	}
	for i := range b.Rows {
		r := &b.Rows[i]
		add(tableOf(r.Tier, r.UUID == ""), r.Time)
	}
	for i := range b.Frames {
		add(&frameTable, b.Frames[i].Time)
		add(&keyFrameTable, b.Frames[i].Time)
	}
	return all
}

// A writing is a batch that is being written.
type writing struct {
	*Store
	tx      pgx.Tx
	batch   *store.Batch
	devices map[store.Key]device
	keys    map[int64]keyFrame // by machine
}

func (w *writing) all(ctx context.Context) error {
	err := w.rename(ctx)
	if err != nil {
		return err
	}
	if w.devices, err = w.identify(ctx); err != nil {
		return err
	}
	for _, part := range []func(context.Context) error{w.rows, w.frames, w.sessions, w.causes, w.events, w.documents, w.unsettled} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

// rename gives the devices of machines to other names, unless somebody writes as one of the old names.
func (w *writing) rename(ctx context.Context) error {
	for _, r := range w.batch.Renamed {
		from, to := store.Text(r.From), store.Text(r.To)
		alone := from == w.name
		if !alone {
			err := w.tx.QueryRow(ctx, "SELECT pg_try_advisory_xact_lock(hashtextextended(current_schema() || ' ' || $1::text, $2))", from, int64(writingAs)).Scan(&alone)
			if err != nil {
				return err
			}
		}
		if !alone {
			continue
		}
		_, err := w.tx.Exec(ctx, `UPDATE devices d SET node = $2 WHERE node = $1
			AND NOT EXISTS (SELECT 1 FROM devices o WHERE o.node = $2 AND o.uuid = d.uuid)`, from, to)
		if err != nil {
			return err
		}
		w.know(func(k *known) {
			maps.DeleteFunc(k.devices, func(d store.Key, _ device) bool { return d.Node == from || d.Node == to })
		})
	}
	return nil
}

func cleanKey(k store.Key) store.Key {
	return store.Key{Node: store.Text(k.Node), UUID: store.Text(k.UUID)}
}

func (w *writing) id(k store.Key) int64 { return w.devices[cleanKey(k)].id }

// latest are the last values of each key. A statement can't change a row twice.
func latest[K comparable, V any](all []V, keyOf func(*V) K) []*V {
	places := make(map[K]int, len(all))
	out := make([]*V, 0, len(all))
	for i := range all {
		k := keyOf(&all[i])
		if j, twice := places[k]; twice {
			out[j] = &all[i]
			continue
		}
		places[k] = len(out)
		out = append(out, &all[i])
	}
	return out
}

type rowKey struct {
	tier   store.Tier
	device int64
	time   int64
}

func (w *writing) rows(ctx context.Context) error {
	byTable := map[*partitioned][][]any{}
	for _, r := range latest(w.batch.Rows, func(r *store.Row) rowKey { return rowKey{r.Tier, w.id(r.Key), r.Time.UnixMilli()} }) {
		t := tableOf(r.Tier, r.UUID == "")
		byTable[t] = append(byTable[t], rowOf(r, w.id(r.Key), len(t.columns)))
	}
	for i := range ofRows() { // always in the same order, so that two writers don't wait for each other
		if err := ofRows()[i].merge(ctx, w.tx, byTable[&ofRows()[i]], w.batch.Delivered); err != nil {
			return err
		}
	}
	return nil
}

// rowOf is a row in the order of its table's columns.
func rowOf(r *store.Row, device int64, width int) []any {
	machine := r.UUID == ""
	columns := columnsOf(machine)
	out := append(make([]any, 0, width), device, moment(r.Time), nil)
	if !machine && r.State != "" {
		out[2] = store.Text(string(r.State))
	}
	if r.Tier == store.Raw {
		out = append(out, orNil(columns.Doubtful(r.Values)))
	} else {
		out = append(out, int64(r.Readings))
	}
	for i := range columns {
		var v store.Value
		if i < len(r.Values) {
			v = r.Values[i]
		}
		switch c := &columns[i]; {
		case r.Tier == store.Raw:
			out = append(out, numberOf(c, v))
		case c.Spans:
			out = appendSpan(out, c, v, r.Readings)
		}
	}
	return out
}

func orNil(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// numberOf is a single reading in steps of its column; nil: absent.
func numberOf(c *store.Column, v store.Value) any {
	n, ok := c.Number(v.Mean)
	if v.Count == 0 || !ok {
		return nil
	}
	return n
}

func appendSpan(out []any, c *store.Column, v store.Value, readings int) []any {
	least, hasLeast := c.Number(v.Least)
	mean, hasMean := c.Number(v.Mean)
	most, hasMost := c.Number(v.Most)
	if v.Count == 0 || !hasLeast || !hasMean || !hasMost {
		return append(out, nil, nil, nil, nil)
	}
	return append(out, orNothing(least, mean), mean, orNothing(most, mean), orNothing(int64(v.Count), int64(readings)))
}

// orNothing is nil for what is the same as something else.
func orNothing(n, same int64) any {
	if n == same {
		return nil
	}
	return n
}

func (w *writing) sessions(ctx context.Context) error {
	return write(ctx, w, sessions, w.batch.Sessions)
}

func (w *writing) causes(ctx context.Context) error { return write(ctx, w, causes, w.batch.Causes) }

func (w *writing) events(ctx context.Context) error { return write(ctx, w, events, w.batch.Events) }

func (w *writing) documents(ctx context.Context) error {
	if len(w.batch.Documents) == 0 {
		return nil
	}
	b := new(pgx.Batch)
	for name, text := range w.batch.Documents {
		if name == store.Identity {
			b.Queue("INSERT INTO documents (owner, name, text) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING", w.ownerOf(name), name, text)
			continue
		}
		owner := w.ownerOf(name)
		name = store.Text(name)
		if len(text) == 0 {
			// Also what an earlier version kept under the machine's name, or another machine of that name would read it.
			b.Queue("DELETE FROM documents WHERE name = $2 AND (owner = $1 OR owner = $3 AND $1 <> '')", owner, name, w.name)
			continue
		}
		b.Queue(`INSERT INTO documents (owner, name, text) VALUES ($1, $2, $3)
			ON CONFLICT (owner, name) DO UPDATE SET text = excluded.text`, owner, name, text)
	}
	return w.tx.SendBatch(ctx, b).Close()
}

// unsettled is of what this gpuwhy has to do: another one does its own.
func (w *writing) unsettled(ctx context.Context) error {
	const given = "unnest($1::text[], $2::text[], $3::smallint[], $4::timestamptz[]) AS b (node, uuid, tier, time)"
	if err := w.buckets(ctx, w.batch.Unsettled, `INSERT INTO unsettled (device, tier, time)
		SELECT d.id, b.tier, b.time FROM `+given+` JOIN devices d USING (node, uuid) ON CONFLICT DO NOTHING`); err != nil {
		return err
	}
	return w.buckets(ctx, w.batch.Settled, `DELETE FROM unsettled u USING `+given+` JOIN devices d USING (node, uuid)
		WHERE u.device = d.id AND u.tier = b.tier AND u.time = b.time`)
}

func (w *writing) buckets(ctx context.Context, all []store.Bucket, sql string) error {
	if len(all) == 0 {
		return nil
	}
	var nodes, uuids []string
	var tiers []int16
	var times []time.Time
	for _, b := range all {
		k := cleanKey(b.Key)
		nodes, uuids = append(nodes, k.Node), append(uuids, k.UUID)
		tiers, times = append(tiers, int16(b.Tier)), append(times, moment(b.Time))
	}
	_, err := w.tx.Exec(ctx, sql, nodes, uuids, tiers, times)
	return err
}

// A device has the number of a device in the database, and its description there.
type device struct {
	id   int64
	said store.Device
}

// identify returns all devices that the batch names, and writes those that the database does not have yet.
func (w *writing) identify(ctx context.Context) (map[store.Key]device, error) {
	named := map[store.Key]device{}
	w.know(func(k *known) {
		name := func(key store.Key) { key = cleanKey(key); named[key] = k.devices[key] }
		w.named(name)
	})
	var unknown, changed []store.Device
	for k, d := range named {
		if d.id == 0 {
			unknown = append(unknown, store.Device{Node: k.Node, UUID: k.UUID})
		}
	}
	for _, d := range latest(w.batch.Devices, func(d *store.Device) store.Key { return cleanKey(d.Key()) }) {
		said := *d
		store.Devices.Clean(&said)
		said.First, said.Last = time.Time{}, time.Time{}
		if before := named[said.Key()]; before.id == 0 || before.said != said {
			changed = append(changed, said)
			changed[len(changed)-1].Order = d.Order
			named[said.Key()] = device{before.id, said}
		}
	}
	if err := w.number(ctx, unknown, named); err != nil {
		return nil, err
	}
	return named, w.describe(ctx, changed)
}

// named calls name with every key in the batch.
func (w *writing) named(name func(store.Key)) {
	b := w.batch
	for i := range b.Devices {
		name(b.Devices[i].Key())
	}
	for i := range b.Rows {
		name(b.Rows[i].Key)
	}
	for i := range b.Frames {
		name(store.Key{Node: b.Frames[i].Node})
	}
	for i := range b.Sessions {
		name(b.Sessions[i].Key)
	}
	for i := range b.Causes {
		name(b.Causes[i].Key)
	}
	for i := range b.Events {
		name(b.Events[i].Key)
	}
	for i := range b.Unsettled {
		name(b.Unsettled[i].Key)
	}
}

// number gives devices their numbers, of which several gpuwhy may think at the same time.
func (w *writing) number(ctx context.Context, unknown []store.Device, named map[store.Key]device) error {
	if len(unknown) == 0 {
		return nil
	}
	slices.SortFunc(unknown, compareKeys)
	var nodes, uuids []string
	for _, d := range unknown {
		nodes, uuids = append(nodes, d.Node), append(uuids, d.UUID)
	}
	// Only what is not there is tried: a number that is not used is lost.
	const insert = `INSERT INTO devices (node, uuid) SELECT n.* FROM unnest($1::text[], $2::text[]) AS n (node, uuid)
		WHERE NOT EXISTS (SELECT FROM devices d WHERE d.node = n.node AND d.uuid = n.uuid) ON CONFLICT DO NOTHING`
	if _, err := w.tx.Exec(ctx, insert, nodes, uuids); err != nil {
		return err
	}
	rows, err := w.tx.Query(ctx, `SELECT d.id, d.node, d.uuid FROM devices d
		JOIN unnest($1::text[], $2::text[]) AS n (node, uuid) USING (node, uuid)`, nodes, uuids)
	if err != nil {
		return err
	}
	var id int64
	var k store.Key
	_, err = pgx.ForEachRow(rows, []any{&id, &k.Node, &k.UUID}, func() error {
		named[k] = device{id, named[k].said}
		return nil
	})
	return err
}

// describe writes what devices are.
func (w *writing) describe(ctx context.Context, changed []store.Device) error {
	if len(changed) == 0 {
		return nil
	}
	slices.SortFunc(changed, compareKeys)
	b := new(pgx.Batch)
	for _, d := range changed {
		values := []any{d.Node, d.UUID, d.Order}
		for i := range store.Devices.Fields {
			values = appendValues(values, store.Devices.Fields[i].Place(&d))
		}
		b.Queue(updateDevice, values...)
	}
	return w.tx.SendBatch(ctx, b).Close()
}

// codeOf is the server's code of an error; empty: it comes from elsewhere.
func codeOf(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}
