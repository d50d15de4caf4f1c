package sqlite

import (
	"context"
	"database/sql/driver"
	"slices"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// A storedColumn has a field, or the quality of one: that column comes after the one with its value.
type storedColumn[T any] struct {
	*store.Field[T]
	name    string
	quality bool
	shared  bool // the text is a number of the table texts
}

// definition is what SQL says of the column where it is added: rows that are there already have the zero value of the field.
func (c *storedColumn[T]) definition() string {
	switch c.Place(new(T)).(type) {
	case *string:
		if !c.shared {
			return c.name + " TEXT NOT NULL DEFAULT ''"
		}
	case *float64:
		return c.name + " REAL"
	case *[]byte:
		return c.name + " BLOB"
	case *store.Memory:
		if !c.quality {
			return c.name + " INTEGER"
		}
	}
	return c.name + " INTEGER NOT NULL DEFAULT 0"
}

// A storedTable keeps what a [store.Table] declares.
type storedTable[T any] struct {
	*store.Table[T]
	until   func(*T) time.Time // how long the texts of a row are used, of a table that shares them
	columns []storedColumn[T]
	insert  string // what has the same key is given the rest
}

// newStoredTable makes the table. Without until its texts are all in its rows. First are columns that stand before the declared ones.
func newStoredTable[T any](t *store.Table[T], until func(*T) time.Time, first ...string) *storedTable[T] {
	out := &storedTable[T]{Table: t, until: until}
	var set, key []string
	if !t.Global {
		key = []string{"device"}
	}
	names := append(slices.Clone(first), "device")
	for i := range t.Fields {
		f := &t.Fields[i]
		shared := until != nil && !f.Inline
		all := []storedColumn[T]{{f, f.SQLite, false, shared}}
		if f.Quality != "" {
			all = append(all, storedColumn[T]{f, f.SQLiteQuality, true, shared})
		}
		out.columns = append(out.columns, all...)
		for _, c := range all {
			if names = append(names, c.name); f.Key {
				key = append(key, c.name)
			} else {
				set = append(set, c.name+" = excluded."+c.name)
			}
		}
	}
	newer := ""
	if t.Order != nil {
		names = append(names, "ordinal")
		set = append(set, "ordinal = excluded.ordinal")
		newer = " WHERE excluded.ordinal = 0 OR excluded.ordinal >= ordinal"
	}
	values := t.Name + " (" + strings.Join(names, ", ") + ") VALUES (?" + strings.Repeat(", ?", len(names)-1) + ")"
	if t.Global { // SQLite knows the key by what stands first
		out.insert = "INSERT OR REPLACE INTO " + values
	} else {
		out.insert = "INSERT INTO " + values + " ON CONFLICT (" + strings.Join(key, ", ") + ") DO UPDATE SET " + strings.Join(set, ", ") + newer
	}
	return out
}

var (
	sessionTable = newStoredTable(store.Sessions, func(s *store.Session) time.Time { return s.To })
	causeTable   = newStoredTable(store.Causes, func(c *store.Cause) time.Time { return c.To })
	eventTable   = newStoredTable(store.Events, nil, "hash")
	deviceTable  = newStoredTable(store.Devices, nil)
)

// write inserts a row: the columns that stand first have these values.
func write[T any](w *writer, t *storedTable[T], v *T, first ...driver.Value) error {
	node, uuid := t.Device(v)
	id, err := w.id(store.Key{Node: *node, UUID: *uuid})
	if err != nil {
		return err
	}
	w.args = w.args[:0]
	for _, value := range first {
		w.add(value)
	}
	w.add(id)
	if err := addFields(w, t, v); err != nil {
		return err
	}
	if t.Order != nil {
		w.add(*t.Order(v))
	}
	_, err = w.write.execNamed(t.insert, w.args)
	return err
}

// addFields adds the values of a row's fields.
func addFields[T any](w *writer, t *storedTable[T], v *T) error {
	var told *teller
	if t.until != nil {
		told = w.teller(t.until(v))
	}
	for i := range t.columns {
		c := &t.columns[i]
		switch p := c.Place(v).(type) {
		case *string:
			if c.shared {
				w.add(told.number(*p))
			} else {
				w.add(store.Text(*p))
			}
		case *time.Time:
			w.add(stamp(*p))
		case *time.Duration:
			w.add(int64(*p))
		case *int:
			w.add(int64(*p))
		case *float64:
			w.add(*p)
		case *bool:
			w.add(int64(btoi(*p)))
		case *store.Memory:
			bytes, known := p.Get()
			switch {
			case c.quality:
				w.add(told.number(p.Quality().String()))
			case known:
				w.add(int64(bytes)) //nolint:gosec // it is read back as it was
			default:
				w.add(nil)
			}
		case *[]byte:
			w.add(*p)
		}
	}
	if told != nil {
		return told.err
	}
	return nil
}

// A selection reads rows of a table.
type selection[T any] struct {
	*storedTable[T]
	columns []storedColumn[T] // that are read, in their order after the device
	text    string            // of the query, without conditions
}

// wanted are the columns that the table must have.
func (t *storedTable[T]) wanted() wanted {
	out := wanted{table: t.Name}
	for i := range t.columns {
		out.columns = append(out.columns, wantedColumn{t.columns[i].name, t.columns[i].definition()})
	}
	return out
}

// choose is what is read of a table that may lack columns: NULL stands for these. Brief chooses the fields that [store.Query.Brief] needs.
func (t *storedTable[T]) choose(absent []string, brief bool) *selection[T] {
	out := &selection[T]{storedTable: t}
	names := []string{"device"}
	for _, c := range t.columns {
		switch {
		case brief && !c.Brief:
			continue
		case slices.Contains(absent, c.name):
			names = append(names, "NULL")
		default:
			names = append(names, c.name)
		}
		out.columns = append(out.columns, c)
	}
	out.text = "SELECT " + strings.Join(names, ", ") + " FROM " + t.Name
	return out
}

// query yields what a query finds that begins with the selection's text. Names are the devices by their IDs.
func (s *selection[T]) query(ctx context.Context, c *conn, text string, args []any, names map[int64]store.Key, found func(T) error) error {
	l, v := newListener(ctx, c), new(T)
	return c.queryOnce(ctx, text, args, func(row []driver.Value) error {
		node, uuid := s.Device(v)
		device := names[integer(row[0])]
		*node, *uuid = device.Node, device.UUID
		if readFields(s.columns, v, l, row[1:]); l.err != nil {
			return l.err
		}
		return found(*v)
	})
}

// readFields reads the values of fields. The other fields of v stay.
func readFields[T any](columns []storedColumn[T], v *T, l *listener, row []driver.Value) {
	for i := range columns {
		c, cell := &columns[i], row[i]
		switch p := c.Place(v).(type) {
		case *string:
			if c.shared {
				*p = l.text(cell)
			} else {
				*p = text(cell)
			}
		case *time.Time:
			*p = moment(cell)
		case *time.Duration:
			*p = time.Duration(integer(cell))
		case *int:
			*p = int(integer(cell))
		case *float64:
			*p = float(cell)
		case *bool:
			*p = integer(cell) != 0
		case *store.Memory:
			if c.quality {
				var bytes *int64
				if n, known := row[i-1].(int64); known {
					bytes = &n
				}
				*p = store.MemoryReading(bytes, l.text(cell))
			}
		case *[]byte:
			*p = nil
			if data := blob(cell); len(data) > 0 {
				*p = data
			}
		}
	}
}
