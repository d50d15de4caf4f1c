package postgres

import (
	"context"
	"encoding/binary"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/past/store"
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
	switch f.Place(new(T)).(type) {
	case *string:
		return []column{{name: f.Postgres, kind: "text", zero: "''"}}
	case *time.Time:
		return []column{{name: f.Postgres, kind: "timestamptz", zero: "'0001-01-01 00:00:00+00'"}}
	case *float64:
		return []column{{name: f.Postgres, kind: "double precision", zero: "0"}}
	case *bool:
		return []column{{name: f.Postgres, kind: "boolean", zero: "false"}}
	case *store.Memory:
		return []column{{name: f.Postgres, kind: "bigint"}, {name: f.PostgresQuality, kind: "text", zero: "''"}}
	case *[]byte:
		return []column{{name: f.Postgres, kind: "bytea"}}
	}
	return []column{{name: f.Postgres, kind: "bigint", zero: "0"}}
}

// appendValues appends what a field's columns get of the value at its place.
func appendValues(row []any, place any) []any {
	switch p := place.(type) {
	case *string:
		return append(row, store.Text(*p))
	case *time.Time:
		return append(row, moment(*p))
	case *time.Duration:
		return append(row, int64(*p))
	case *int:
		return append(row, int64(*p))
	case *float64:
		return append(row, *p)
	case *bool:
		return append(row, *p)
	case *store.Memory:
		var value any
		if bytes, ok := p.Get(); ok {
			value = int64(bytes) //nolint:gosec // it is read back as it was
		}
		return append(row, value, p.Quality().String())
	case *[]byte:
		if len(*p) > 0 {
			return append(row, *p)
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
		if row = appendValues(row, f.Place(v)); !f.Key {
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
	v       T
	targets []any    // of node and UUID of the device, and the table's columns
	finish  []func() // what is left to do then
}

func newScan[T any](t *storedTable[T]) *scan[T] {
	s := new(scan[T])
	node, uuid := t.Device(&s.v)
	s.targets = []any{node, uuid, nil}
	for i := range t.Fields {
		s.add(t.Fields[i].Place(&s.v))
	}
	if t.Order != nil {
		s.targets = append(s.targets, nil)
	}
	return s
}

// add reads the columns of a field to its place.
func (s *scan[T]) add(place any) {
	switch p := place.(type) {
	case *time.Time:
		s.targets, s.finish = append(s.targets, p), append(s.finish, func() { *p = p.UTC() })
	case *time.Duration:
		s.targets = append(s.targets, (*int64)(p))
	case *store.Memory:
		var value *int64
		var quality string
		s.targets, s.finish = append(s.targets, &value, &quality), append(s.finish, func() { *p = store.MemoryReading(value, quality) })
	default:
		s.targets = append(s.targets, p)
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
			if err := rows.Scan(found.targets...); err != nil {
				return err
			}
			for _, do := range found.finish {
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
