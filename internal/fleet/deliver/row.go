package deliver

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/fxamacker/cbor/v2"

	"github.com/gpuwhy/gpuwhy/internal/store"
)

// A row is what package store declares of a T, as a message has it: a map by the names of the fields, in their order, without what is zero. Its device
// is "uuid": the first, or after a key that is unique by itself; the node is that of the message.
type row[T any] struct{ has T }

// tables are what package store declares that messages have.
var tables = []any{store.Devices, store.Sessions, store.Causes, store.Events}

func tableFor[T any]() *store.Table[T] {
	for _, t := range tables {
		if t, is := t.(*store.Table[T]); is {
			return t
		}
	}
	panic("deliver: a row that is not declared")
}

func rowsOf[T any](all []T) []row[T] {
	if len(all) == 0 {
		return nil
	}
	out := make([]row[T], len(all))
	for i := range all {
		out[i].has = all[i]
	}
	return out
}

const uuidName = "uuid"

// MarshalCBOR implements [cbor.Marshaler].
func (r row[T]) MarshalCBOR() ([]byte, error) {
	var w rowWriter
	t := tableFor[T]()
	_, uuid := t.Device(&r.has)
	if !t.Global {
		w.add(uuidName, *uuid, *uuid != "")
	}
	for i := range t.Fields {
		f := &t.Fields[i]
		if writeField(&w, f, &r.has); f.Key && t.Global {
			w.add(uuidName, *uuid, *uuid != "")
		}
	}
	return w.item(), w.err
}

// A rowWriter writes the pairs of a map.
type rowWriter struct {
	pairs bytes.Buffer
	n     int
	err   error // the first
}

// add writes a pair, if it is to be there.
func (w *rowWriter) add(name string, value any, there bool) {
	if !there || w.err != nil {
		return
	}
	w.n++
	if w.err = cbor.MarshalToBuffer(name, &w.pairs); w.err == nil {
		w.err = cbor.MarshalToBuffer(value, &w.pairs)
	}
}

// item is the whole map. The library has no way to write one pair by pair whose length comes first.
func (w *rowWriter) item() []byte {
	const major, few, next = 5 << 5, 24, 24 // of a map; how many pairs its first byte can say, or that the next one does
	if w.n < few {
		return append([]byte{major | byte(w.n)}, w.pairs.Bytes()...)
	}
	return append([]byte{major | next, byte(w.n)}, w.pairs.Bytes()...)
}

func writeField[T any](w *rowWriter, f *store.Field[T], v *T) {
	switch f.Kind {
	case store.TextField:
		w.add(f.Name, *f.Text(v), f.Always || *f.Text(v) != "")
	case store.TimeField:
		ms := stamp(*f.Time(v))
		w.add(f.Name, ms, f.Always || ms != 0)
	case store.SpanField:
		w.add(f.Name, f.Span(v).Nanoseconds(), f.Always || *f.Span(v) != 0)
	case store.NumberField:
		w.add(f.Name, *f.Number(v), f.Always || *f.Number(v) != 0)
	case store.AmountField:
		w.add(f.Name, *f.Amount(v), f.Always || *f.Amount(v) != 0)
	case store.FlagField:
		w.add(f.Name, *f.Flag(v), f.Always || *f.Flag(v))
	case store.MemoryField:
		bytes, known := f.Memory(v).Get()
		w.add(f.Name, uint64(bytes), known)
		w.add(f.Quality, f.Memory(v).Quality().String(), true)
	case store.DataField:
		w.add(f.Name, *f.Data(v), f.Always || len(*f.Data(v)) > 0)
	}
}

// UnmarshalCBOR implements [cbor.Unmarshaler]. What this version does not know is left out.
func (r *row[T]) UnmarshalCBOR(text []byte) error {
	var pairs rowReader
	if err := decoding.Unmarshal(text, &pairs.values); err != nil {
		return err
	}
	t := tableFor[T]()
	_, uuid := t.Device(&r.has)
	pairs.read(uuidName, uuid)
	for i := range t.Fields {
		readField(&pairs, &t.Fields[i], &r.has)
	}
	return errors.Join(pairs.errs...)
}

// A rowReader has the values of a map, as they came.
type rowReader struct {
	values map[string]cbor.RawMessage
	errs   []error
}

// read reads a value, if there is one, to where a pointer points.
func (r *rowReader) read(name string, to any) {
	if text, has := r.values[name]; has {
		if err := decoding.Unmarshal(text, to); err != nil {
			r.errs = append(r.errs, err)
		}
	}
}

func readField[T any](r *rowReader, f *store.Field[T], v *T) {
	switch f.Kind {
	case store.TextField:
		r.read(f.Name, f.Text(v))
	case store.TimeField:
		var ms int64
		r.read(f.Name, &ms)
		*f.Time(v) = moment(ms)
	case store.SpanField:
		r.read(f.Name, f.Span(v))
	case store.NumberField:
		r.read(f.Name, f.Number(v))
	case store.AmountField:
		r.read(f.Name, f.Amount(v))
	case store.FlagField:
		r.read(f.Name, f.Flag(v))
	case store.MemoryField:
		var bytes *uint64
		var quality string
		r.read(f.Name, &bytes)
		r.read(f.Quality, &quality)
		*f.Memory(v) = store.MemoryReading(bytes, quality)
	case store.DataField:
		r.read(f.Name, f.Data(v))
	}
}

// readRows are the rows of a message, of its node.
func readRows[T any](r *reader, rows []row[T]) (out []T) {
	t := tableFor[T]()
	for i := range rows {
		v := rows[i].has
		node, uuid := t.Device(&v)
		*node = r.Node
		r.text(longestName, *uuid)
		for i := range t.Fields {
			checkField(r, &t.Fields[i], &v)
		}
		if t.Order != nil {
			*t.Order(&v) = r.number
		}
		out = append(out, v)
	}
	return out
}

// checkField finds what can't be.
func checkField[T any](r *reader, f *store.Field[T], v *T) {
	switch f.Kind {
	case store.TextField:
		longest := longestText
		if f.Short {
			longest = longestName
		}
		r.text(longest, *f.Text(v))
	case store.TimeField:
		if t := *f.Time(v); !f.Unset || !t.IsZero() {
			r.time(stamp(t))
		}
	case store.SpanField:
		if d := *f.Span(v); d < 0 || d > longestTime {
			r.check(r.refuse("a duration in it can't be: %d ns", d.Nanoseconds()))
		}
	case store.AmountField:
		if a := *f.Amount(v); !(a >= 0 && a <= mostOf) { // also refuses NaN
			r.check(r.refuse("a sum in it can't be: %v", a))
		}
	case store.DataField:
		data := *f.Data(v)
		if r.text(longestText, string(data)); len(data) > 0 && !json.Valid(data) {
			r.check(r.refuse("an event in it has data that is no JSON"))
		}
	}
}
