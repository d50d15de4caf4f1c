package deliver

import (
	"bytes"
	"encoding/json"
	"errors"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// A row encodes a T as package store declares it: a map with the names of the fields, in order, without zero values. Its device is "uuid", which comes
// first or after a key that is unique on its own; its node is the message's.
type row[T any] struct{ value T }

// tables are package store's declarations of the tables that messages have.
var tables = []any{store.Devices, store.Sessions, store.Causes, store.Events}

func tableFor[T any]() *store.Table[T] {
	for _, t := range tables {
		if t, is := t.(*store.Table[T]); is {
			return t
		}
	}
	panic("deliver: an undeclared row")
}

func rowsOf[T any](all []T) []row[T] {
	if len(all) == 0 {
		return nil
	}
	out := make([]row[T], len(all))
	for i := range all {
		out[i].value = all[i]
	}
	return out
}

const uuidName = "uuid"

// MarshalCBOR implements [cbor.Marshaler].
func (r row[T]) MarshalCBOR() ([]byte, error) {
	var w rowWriter
	t := tableFor[T]()
	_, uuid := t.Device(&r.value)
	if !t.Global {
		w.add(uuidName, *uuid, *uuid != "")
	}
	for i := range t.Fields {
		f := &t.Fields[i]
		if writeField(&w, f, &r.value); f.Key && t.Global {
			w.add(uuidName, *uuid, *uuid != "")
		}
	}
	return w.item(), w.err
}

// A rowWriter writes the pairs of a map.
type rowWriter struct {
	pairs bytes.Buffer
	n     byte  // there are few
	err   error // the first
}

// add writes a pair, if it is needed.
func (w *rowWriter) add(name string, value any, there bool) {
	if !there || w.err != nil {
		return
	}
	w.n++
	if w.err = cbor.MarshalToBuffer(name, &w.pairs); w.err == nil {
		w.err = cbor.MarshalToBuffer(value, &w.pairs)
	}
}

// item returns the whole map. The library can't write a map pair by pair, since its length comes first.
func (w *rowWriter) item() []byte {
	const major, few, next = 5 << 5, 24, 24 // of a map; how many pairs its first byte can say, or that the next one does
	if w.n < few {
		return append([]byte{major | w.n}, w.pairs.Bytes()...)
	}
	return append([]byte{major | next, w.n}, w.pairs.Bytes()...)
}

func writeField[T any](w *rowWriter, f *store.Field[T], v *T) {
	switch p := f.Place(v).(type) {
	case *string:
		w.add(f.Name, *p, f.Always || *p != "")
	case *time.Time:
		ms := stamp(*p)
		w.add(f.Name, ms, f.Always || ms != 0)
	case *time.Duration:
		w.add(f.Name, p.Nanoseconds(), f.Always || *p != 0)
	case *int:
		w.add(f.Name, *p, f.Always || *p != 0)
	case *float64:
		w.add(f.Name, *p, f.Always || *p != 0)
	case *bool:
		w.add(f.Name, *p, f.Always || *p)
	case *store.Memory:
		bytes, known := p.Get()
		w.add(f.Name, uint64(bytes), known)
		w.add(f.Quality, p.Quality().String(), true)
	case *[]byte:
		w.add(f.Name, *p, f.Always || len(*p) > 0)
	}
}

// UnmarshalCBOR implements [cbor.Unmarshaler]. It skips unknown fields.
func (r *row[T]) UnmarshalCBOR(text []byte) error {
	var pairs rowReader
	if err := decoding.Unmarshal(text, &pairs.values); err != nil {
		return err
	}
	t := tableFor[T]()
	_, uuid := t.Device(&r.value)
	pairs.read(uuidName, uuid)
	for i := range t.Fields {
		readField(&pairs, &t.Fields[i], &r.value)
	}
	return errors.Join(pairs.errs...)
}

// A rowReader has the values of a map, as received.
type rowReader struct {
	values map[string]cbor.RawMessage
	errs   []error
}

// read decodes a value, if there is one, into a pointer's target.
func (r *rowReader) read(name string, value any) {
	if text, there := r.values[name]; there {
		if err := decoding.Unmarshal(text, value); err != nil {
			r.errs = append(r.errs, err)
		}
	}
}

func readField[T any](r *rowReader, f *store.Field[T], v *T) {
	switch p := f.Place(v).(type) {
	case *time.Time:
		var ms int64
		r.read(f.Name, &ms)
		*p = moment(ms)
	case *store.Memory:
		var bytes *uint64
		var quality string
		r.read(f.Name, &bytes)
		r.read(f.Quality, &quality)
		*p = store.MemoryReading(bytes, quality)
	default:
		r.read(f.Name, p)
	}
}

// readRows returns a message's rows, with its node.
func readRows[T any](r *reader, rows []row[T]) (out []T) {
	t := tableFor[T]()
	for i := range rows {
		v := rows[i].value
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

// checkField finds impossible values.
func checkField[T any](r *reader, f *store.Field[T], v *T) {
	switch p := f.Place(v).(type) {
	case *string:
		longest := longestText
		if f.Short {
			longest = longestName
		}
		r.text(longest, *p)
	case *time.Time:
		if t := *p; !f.Unset || !t.IsZero() {
			r.time(stamp(t))
		}
	case *time.Duration:
		if d := *p; d < 0 || d > longestTime {
			r.check(r.refuse("it has an impossible duration: %d ns", d.Nanoseconds()))
		}
	case *float64:
		if a := *p; !(a >= 0 && a <= mostOf) { // also refuses NaN
			r.check(r.refuse("it has an impossible sum: %v", a))
		}
	case *[]byte:
		data := *p
		if r.text(longestText, string(data)); len(data) > 0 && !json.Valid(data) {
			r.check(r.refuse("it has an event whose data is not JSON"))
		}
	}
}
