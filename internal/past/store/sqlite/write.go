package sqlite

import (
	"context"
	"crypto/sha256"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// Write implements [store.Store].
func (s *Store) Write(ctx context.Context, b *store.Batch) error {
	return s.change(ctx, func(db *database) error {
		w := writer{database: db, named: map[store.Key]int64{}, told: map[string]keptText{}, delivered: b.Delivered}
		if err := db.write.transact("BEGIN IMMEDIATE", func() error { return w.batch(ctx, b) }); err != nil {
			db.frames.forget()
			if len(b.Renamed) > 0 { // which is undone
				err = errors.Join(err, db.identify(context.WithoutCancel(ctx)))
			}
			return err
		}
		maps.Copy(db.devices, w.named)
		db.remember(w.told)
		return nil
	})
}

// A writer writes one batch.
type writer struct {
	*database
	named map[store.Key]int64 // devices that the batch is the first to name
	told  map[string]keptText // texts that it is the first to use, or to use so late
	args  []driver.NamedValue // of rows

	packed []byte // values among these

	delivered bool // see [store.Batch]
}

func (w *writer) batch(ctx context.Context, b *store.Batch) error {
	for _, part := range []func() error{
		func() error { return w.rename(ctx, b.Renamed) }, each(b.Devices, w.device), each(b.Rows, w.row), each(b.Frames, w.frame), each(b.Sessions, w.session), each(b.Causes, w.cause),
		each(b.Events, w.event), func() error { return w.documents(b.Documents) },
		each(b.Unsettled, func(u *store.Bucket) error {
			return w.bucket("INSERT OR REPLACE INTO unsettled (tier, device, time) VALUES (?, ?, ?)", u)
		}),
		each(b.Settled, func(u *store.Bucket) error {
			if _, known := w.devices[u.Key]; !known && w.named[u.Key] == 0 {
				return nil // nothing of it can be unsettled
			}
			return w.bucket("DELETE FROM unsettled WHERE tier = ? AND device = ? AND time = ?", u)
		}),
		each(b.Parcels, w.parcel),
	} {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := part(); err != nil {
			return err
		}
	}
	return nil
}

// each writes a list.
func each[T any](list []T, write func(*T) error) func() error {
	return func() error {
		for i := range list {
			if err := write(&list[i]); err != nil {
				return err
			}
		}
		return nil
	}
}

// rename gives the devices of machines to other names.
func (w *writer) rename(ctx context.Context, all []store.Renaming) error {
	for _, r := range all {
		if _, err := w.write.exec("UPDATE OR IGNORE devices SET node = ? WHERE node = ?", store.Text(r.To), store.Text(r.From)); err != nil {
			return err
		}
	}
	if len(all) == 0 {
		return nil
	}
	return w.identify(ctx)
}

func (w *writer) device(d *store.Device) error {
	id, err := w.id(d.Key())
	if err != nil {
		return err
	}
	w.args = w.args[:0]
	w.add(id)
	w.add(d.Order)
	if err := addFields(w, deviceTable, d); err != nil {
		return err
	}
	_, err = w.write.execNamed(updateDevice, w.args)
	return err
}

// updateDevice gives the device with an ID what is known of it.
var updateDevice = func() string {
	set := []string{"ordinal = ?2"}
	for i, c := range deviceTable.columns {
		set = append(set, fmt.Sprintf("%s = ?%d", c.name, i+3))
	}
	return "UPDATE devices SET " + strings.Join(set, ", ") + " WHERE id = ?1 AND (?2 = 0 OR ordinal <= ?2)"
}()

// id is the ID of a device, which gets one where it has none.
func (w *writer) id(k store.Key) (int64, error) {
	if id, known := w.devices[k]; known {
		return id, nil
	}
	if id, known := w.named[k]; known {
		return id, nil
	}
	node, uuid := store.Text(k.Node), store.Text(k.UUID)
	if _, err := w.write.exec("INSERT OR IGNORE INTO devices (node, uuid) VALUES (?, ?)", node, uuid); err != nil {
		return 0, err
	}
	id, err := w.write.number(context.Background(), "SELECT id FROM devices WHERE node = ? AND uuid = ?", node, uuid)
	if err == nil {
		w.named[k] = id
	}
	return id, err
}

func (w *writer) row(r *store.Row) error {
	id, err := w.id(r.Key)
	if err != nil {
		return err
	}
	t := tableOf(r.UUID == "", r.Tier)
	w.args, w.packed = w.args[:0], w.packed[:0]
	w.add(id)
	w.add(stamp(r.Time))
	if r.UUID == "" || r.State == gpu.StateOK {
		w.add(nil)
	} else {
		w.add(string(r.State))
	}
	if r.Tier == store.Raw {
		w.reading(t.columns, r.Values)
	} else {
		w.span(t.columns, r)
	}
	insert := t.insert
	if w.delivered {
		insert = t.deliver
	}
	_, err = w.write.execNamed(insert, w.args)
	return err
}

func (w *writer) add(v driver.Value) {
	w.args = append(w.args, driver.NamedValue{Ordinal: len(w.args) + 1, Value: v})
}

func (w *writer) reading(columns store.Columns, values []store.Value) {
	w.add(orNull(columns.Doubtful(values)))
	for i := range columns {
		var v driver.Value
		if i < len(values) && values[i].Count > 0 {
			if n, ok := columns[i].Number(values[i].Mean); ok {
				v = n
			}
		}
		w.add(v)
	}
}

// orNull is NULL in place of an empty text.
func orNull(s string) driver.Value {
	if s == "" {
		return nil
	}
	return s
}

func (w *writer) span(columns store.Columns, r *store.Row) {
	w.add(int64(r.Readings))
	counts := len(w.args)
	w.add(nil) // until they are known
	most := mostCount(columns, r)
	var others []string
	if most != r.Readings {
		others = append(others, strconv.Itoa(most))
	}
	for i := range columns {
		if !columns[i].Spans {
			continue
		}
		var v driver.Value
		if i < len(r.Values) {
			v = w.pack(&columns[i], &r.Values[i])
		}
		if v != nil && r.Values[i].Count != most {
			others = append(others, columns[i].Name+"="+strconv.Itoa(r.Values[i].Count))
		}
		w.add(v)
	}
	w.args[counts].Value = orNull(strings.Join(others, ","))
}

// mostCount is the number of readings that the most quantities of a span have. That of a device that was lost meanwhile is less
// than that of the row.
func mostCount(columns store.Columns, r *store.Row) int {
	spans, most := map[int]int{}, r.Readings
	for i := range min(len(columns), len(r.Values)) {
		if n := r.Values[i].Count; columns[i].Spans && n > 0 {
			if spans[n]++; spans[n] > spans[most] || spans[n] == spans[most] && n == r.Readings {
				most = n
			}
		}
	}
	return most
}

// pack is a value of a span: the mean, where least and most are the same; else the mean and how far they are from that, each as a
// number of as few bytes as it needs. With a column for each of them a row is a quarter larger. nil: absent.
func (w *writer) pack(c *store.Column, v *store.Value) driver.Value {
	mean, ok := c.Number(v.Mean)
	least, hasLeast := c.Number(v.Least)
	most, hasMost := c.Number(v.Most)
	switch {
	case v.Count == 0 || !ok || !hasLeast || !hasMost:
		return nil
	case least == mean && most == mean:
		return mean
	}
	begin := len(w.packed)
	w.packed = binary.AppendVarint(w.packed, mean)
	w.packed = binary.AppendUvarint(w.packed, uint64(mean-least)) //nolint:gosec // unpack takes it back
	w.packed = binary.AppendUvarint(w.packed, uint64(most-mean))  //nolint:gosec // unpack takes it back
	return w.packed[begin:]
}

// unpack reads what pack made; ok is false where it is absent.
func unpack(v driver.Value) (least, mean, most int64, ok bool) {
	if mean, ok = v.(int64); ok {
		return mean, mean, mean, true
	}
	packed, _ := v.([]byte)
	mean, n := binary.Varint(packed)
	below, m := binary.Uvarint(packed[max(n, 0):])
	above, l := binary.Uvarint(packed[max(n, 0)+max(m, 0):])
	return mean - int64(below), mean, mean + int64(above), n > 0 && m > 0 && l > 0 //nolint:gosec // as pack made it
}

func (w *writer) frame(f *store.Frame) error {
	id, err := w.id(store.Key{Node: f.Node})
	if err != nil {
		return err
	}
	return w.frames.write(w.write, id, f)
}

func (w *writer) session(s *store.Session) error { return write(w, sessionTable, s) }

func (w *writer) cause(c *store.Cause) error { return write(w, causeTable, c) }

func (w *writer) event(e *store.Event) error {
	id := sha256.Sum256([]byte(store.Text(e.ID)))
	return write(w, eventTable, e, int64(binary.BigEndian.Uint64(id[:]))) //nolint:gosec // any number will do
}

func (w *writer) documents(documents map[string][]byte) error {
	for name, text := range documents {
		var err error
		switch {
		case name == store.Identity:
			_, err = w.write.exec("INSERT OR IGNORE INTO documents (name, text) VALUES (?, ?)", name, text)
		case len(text) == 0:
			_, err = w.write.exec("DELETE FROM documents WHERE name = ?", name)
		default:
			_, err = w.write.exec("INSERT OR REPLACE INTO documents (name, text) VALUES (?, ?)", name, text)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) bucket(statement string, b *store.Bucket) error {
	id, err := w.id(b.Key)
	if err == nil {
		_, err = w.write.exec(statement, b.Tier.String(), id, b.Time)
	}
	return err
}
