package gpu

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"sync"
	"time"
)

// A writeFunc appends a value.
type writeFunc func(b []byte, v reflect.Value) ([]byte, error)

var writers sync.Map // writeFunc by reflect.Type

// writerOf is how values of a type are written. It is found once, since to look at types takes longer than to write.
func writerOf(t reflect.Type) writeFunc {
	if f, known := writers.Load(t); known {
		return f.(writeFunc)
	}
	f := newWriter(t)
	writers.Store(t, f)
	return f
}

func newWriter(t reflect.Type) writeFunc {
	if isReading(t) {
		return readingWriter(t)
	}
	switch t {
	case timeType:
		return func(b []byte, v reflect.Value) ([]byte, error) {
			moment, _ := reflect.TypeAssert[*time.Time](v.Addr())
			return append(moment.UTC().AppendFormat(append(b, '"'), time.RFC3339Nano), '"'), nil
		}
	case durationType:
		return func(b []byte, v reflect.Value) ([]byte, error) {
			return strconv.AppendQuote(b, time.Duration(v.Int()).String()), nil
		}
	case errorType:
		return func(b []byte, v reflect.Value) ([]byte, error) {
			text, err := json.Marshal(recordOf(v.Interface().(error)))
			return append(b, text...), err
		}
	case rawType:
		return func(b []byte, v reflect.Value) ([]byte, error) {
			out := bytes.NewBuffer(b)
			err := json.Compact(out, v.Bytes())
			return out.Bytes(), err
		}
	}
	switch t.Kind() {
	case reflect.Struct:
		return structWriter(t)
	case reflect.Slice:
		return sliceWriter(writerOf(t.Elem()))
	case reflect.Pointer:
		write := writerOf(t.Elem())
		return func(b []byte, v reflect.Value) ([]byte, error) { return write(b, v.Elem()) } // a nil one is zero, and left out
	case reflect.Float64:
		return writeFloat
	}
	if t.Implements(reflect.TypeFor[json.Marshaler]()) || t.Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
		return writeJSON
	}
	switch t.Kind() {
	case reflect.String:
		return writeString
	case reflect.Int, reflect.Int64:
		return func(b []byte, v reflect.Value) ([]byte, error) { return strconv.AppendInt(b, v.Int(), 10), nil }
	case reflect.Uint64:
		return func(b []byte, v reflect.Value) ([]byte, error) { return strconv.AppendUint(b, v.Uint(), 10), nil }
	}
	return writeJSON
}

func isReading(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[recordable]())
}

// qualityField is where a [Reading] has its quality.
const qualityField = 1

func readingWriter(t reflect.Type) writeFunc {
	r, _ := reflect.TypeAssert[recordable](reflect.New(t))
	value, _ := r.record()
	write := writerOf(value.Type())
	return func(b []byte, v reflect.Value) ([]byte, error) {
		if q := Quality(v.Field(qualityField).Uint()); q < Doubtful {
			return append(append(append(b, `{"`+absentKey+`":"`...), q.String()...), `"}`...), nil
		}
		r, _ := reflect.TypeAssert[recordable](v.Addr())
		value, q := r.record()
		if q == Good {
			return write(b, value)
		}
		b, err := write(append(b, `{"`+doubtfulKey+`":`...), value)
		return append(b, '}'), err
	}
}

func structWriter(t reflect.Type) writeFunc {
	type field struct {
		name, key string
		index     int
		reading   bool
		nested    bool // a struct that is zero if nothing of it is written
		write     writeFunc
	}
	var fields []field
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Tag.Get("record") == "-" { // it stays in this program
			continue
		}
		if !f.IsExported() {
			return func(b []byte, _ reflect.Value) ([]byte, error) {
				return b, fmt.Errorf("%s.%s is not exported, and can't be written", t, f.Name)
			}
		}
		reading := isReading(f.Type)
		fields = append(fields, field{
			name: f.Name, key: strconv.Quote(f.Name) + ":", index: i, reading: reading,
			nested: !reading && f.Type.Kind() == reflect.Struct && f.Type != timeType, write: writerOf(f.Type),
		})
	}
	return func(b []byte, v reflect.Value) ([]byte, error) {
		b = append(b, '{')
		for i := range fields {
			f := &fields[i]
			value := v.Field(f.index)
			if f.reading {
				if Quality(value.Field(qualityField).Uint()) == NotReported {
					continue
				}
			} else if !f.nested && value.IsZero() {
				continue
			}
			before := len(b)
			if b[before-1] != '{' {
				b = append(b, ',')
			}
			b = append(b, f.key...)
			begin := len(b)
			var err error
			if b, err = f.write(b, value); err != nil {
				return nil, fmt.Errorf("%s: %w", f.name, err)
			}
			if f.nested && len(b) == begin+len("{}") {
				b = b[:before]
			}
		}
		return append(b, '}'), nil
	}
}

func sliceWriter(write writeFunc) writeFunc {
	return func(b []byte, v reflect.Value) ([]byte, error) {
		if v.IsNil() {
			return append(b, null...), nil
		}
		b = append(b, '[')
		for i := range v.Len() {
			if i > 0 {
				b = append(b, ',')
			}
			var err error
			if b, err = write(b, v.Index(i)); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	}
}

func writeFloat(b []byte, v reflect.Value) ([]byte, error) {
	f := v.Float()
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return strconv.AppendQuote(b, fmt.Sprint(f)), nil // JSON has no such number
	}
	return strconv.AppendFloat(b, f, 'g', -1, 64), nil
}

// writeString writes a text as encoding/json does.
func writeString(b []byte, v reflect.Value) ([]byte, error) {
	s := v.String()
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return writeJSON(b, v)
		}
	}
	return append(append(append(b, '"'), s...), '"'), nil
}

// writeJSON writes what is rare, or writes itself.
func writeJSON(b []byte, v reflect.Value) ([]byte, error) {
	text, err := json.Marshal(v.Interface())
	return append(b, text...), err
}
