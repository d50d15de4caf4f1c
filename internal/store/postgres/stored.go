package postgres

import (
	"context"
	"encoding/binary"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/store"
)

// A storedTable keeps what a [store.Table] declares.
type storedTable[T any] struct {
	*store.Table[T]
	*table
}

func newStoredTable[T any](t *store.Table[T]) *storedTable[T] {
	all := typed("device bigint")
	var key []string
	if !t.Global {
		key = append(key, "device")
	}
	for i := range t.Fields {
		f := &t.Fields[i]
		if all = append(all, fieldColumns(f)...); f.Key {
			key = append(key, f.Postgres)
		}
	}
	if t.Order != nil {
		all = append(all, typed("ordinal bigint")...)
	}
	return &storedTable[T]{t, newTable(t.Name, key, all)}
}

// fieldColumns are the columns of a field. Where one is added, the rows that are there already get the zero value.
func fieldColumns[T any](f *store.Field[T]) []column {
	switch f.Kind {
	case store.TextField:
		return []column{{name: f.Postgres, kind: "text", zero: "''"}}
	case store.TimeField:
		return []column{{name: f.Postgres, kind: "timestamptz", zero: "'0001-01-01 00:00:00+00'"}}
	case store.AmountField:
		return []column{{name: f.Postgres, kind: "double precision", zero: "0"}}
	case store.FlagField:
		return []column{{name: f.Postgres, kind: "boolean", zero: "false"}}
	case store.MemoryField:
		return []column{{name: f.Postgres, kind: "bigint"}, {name: f.PostgresQuality, kind: "text", zero: "''"}}
	case store.DataField:
		return []column{{name: f.Postgres, kind: "bytea"}}
	}
	return []column{{name: f.Postgres, kind: "bigint", zero: "0"}}
}

// fieldValues appends the values of a field's columns.
func fieldValues[T any](row []any, f *store.Field[T], v *T) []any {
	switch f.Kind {
	case store.TextField:
		return append(row, store.Text(*f.Text(v)))
	case store.TimeField:
		return append(row, moment(*f.Time(v)))
	case store.SpanField:
		return append(row, int64(*f.Span(v)))
	case store.NumberField:
		return append(row, int64(*f.Number(v)))
	case store.AmountField:
		return append(row, *f.Amount(v))
	case store.FlagField:
		return append(row, *f.Flag(v))
	case store.MemoryField:
		var value any
		if bytes, ok := f.Memory(v).Get(); ok {
			value = int64(bytes) //nolint:gosec // it is read back as it was
		}
		return append(row, value, f.Memory(v).Quality().String())
	case store.DataField:
		if data := *f.Data(v); len(data) > 0 {
			return append(row, data)
		}
		return append(row, nil)
	}
	return row
}

// row is a row in the order of the columns, and its key.
func (t *storedTable[T]) row(v *T, device int64) (row []any, key string) {
	row = append(make([]any, 0, len(t.columns)), device)
	var unique []byte
	if !t.Global {
		unique = binary.AppendVarint(unique, device)
	}
	for i := range t.Fields {
		f := &t.Fields[i]
		if row = fieldValues(row, f, v); !f.Key {
			continue
		}
		switch value := row[len(row)-1].(type) {
		case string:
			unique = append(binary.AppendUvarint(unique, uint64(len(value))), value...)
		case int64:
			unique = binary.AppendVarint(unique, value)
		case time.Time:
			unique = binary.AppendVarint(unique, value.UnixMilli())
		}
	}
	if t.Order != nil {
		row = append(row, *t.Order(v))
	}
	return row, string(unique)
}

// write writes rows, of each key the last one: a statement can't change a row twice.
func write[T any](ctx context.Context, w *writing, t *storedTable[T], all []T) error {
	places, rows := map[string]int{}, make([][]any, 0, len(all))
	for i := range all {
		node, uuid := t.Device(&all[i])
		row, key := t.row(&all[i], w.id(store.Key{Node: *node, UUID: *uuid}))
		if place, twice := places[key]; twice {
			rows[place] = row
			continue
		}
		places[key] = len(rows)
		rows = append(rows, row)
	}
	return t.merge(ctx, w.tx, rows, w.batch.Delivered)
}

// A scan is where a row of a table is read to.
type scan[T any] struct {
	v     T
	to    []any    // of node and UUID of the device, and the table's columns
	after []func() // what is left to do then
}

func newScan[T any](t *storedTable[T]) *scan[T] {
	s := new(scan[T])
	node, uuid := t.Device(&s.v)
	s.to = []any{node, uuid, nil}
	for i := range t.Fields {
		addTarget(s, &t.Fields[i])
	}
	if t.Order != nil {
		s.to = append(s.to, nil)
	}
	return s
}

func addTarget[T any](s *scan[T], f *store.Field[T]) {
	switch f.Kind {
	case store.TextField:
		s.to = append(s.to, f.Text(&s.v))
	case store.TimeField:
		t := f.Time(&s.v)
		s.to, s.after = append(s.to, t), append(s.after, func() { *t = t.UTC() })
	case store.SpanField:
		s.to = append(s.to, (*int64)(f.Span(&s.v)))
	case store.NumberField:
		s.to = append(s.to, f.Number(&s.v))
	case store.AmountField:
		s.to = append(s.to, f.Amount(&s.v))
	case store.FlagField:
		s.to = append(s.to, f.Flag(&s.v))
	case store.MemoryField:
		var value *int64
		var quality string
		s.to = append(s.to, &value, &quality)
		s.after = append(s.after, func() { *f.Memory(&s.v) = store.MemoryReading(value, quality) })
	case store.DataField:
		s.to = append(s.to, f.Data(&s.v))
	}
}

// each yields the rows of a table.
func each[T any](ctx context.Context, s *Store, t *storedTable[T], where clause, order string) iter.Seq2[T, error] {
	names := make([]string, len(t.names))
	for i, name := range t.names {
		names[i] = "t." + quoted(name)
	}
	sql := "SELECT d.node, d.uuid, " + strings.Join(names, ", ") + " FROM " + t.name + " t JOIN devices d ON d.id = t.device" +
		where.String() + " ORDER BY " + order
	return stream(ctx, s, func(yield func(T) error) error {
		rows, err := s.asker(ctx).Query(ctx, sql, where.args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		found := newScan(t)
		for rows.Next() {
			if err := rows.Scan(found.to...); err != nil {
				return err
			}
			for _, do := range found.after {
				do()
			}
			if err := yield(found.v); err != nil {
				return err
			}
		}
		return rows.Err()
	})
}

// updateDevice gives a device what is known of it, where that is new. Its values are node, UUID, order and the fields.
var updateDevice = func() string {
	var set, names, values []string
	for i := range store.Devices.Fields {
		name, value := quoted(store.Devices.Fields[i].Postgres), "$"+strconv.Itoa(i+4)
		set, names, values = append(set, name+" = "+value), append(names, name), append(values, value)
	}
	return "UPDATE devices SET ordinal = $3, " + strings.Join(set, ", ") + " WHERE node = $1 AND uuid = $2 AND (" + strings.Join(names, ", ") +
		") IS DISTINCT FROM (" + strings.Join(values, ", ") + ") AND ($3::bigint = 0 OR ordinal <= $3)"
}()
