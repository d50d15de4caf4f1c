package gpu

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"time"
)

// MarshalRecord writes a snapshot as one line of JSON that [UnmarshalRecord] reads back
// exactly. It is for files; clients get the contracts. The names are those of the fields in
// this package, values have the units of their types (memory is in bytes), durations are
// text such as "1h30m0s", and what is zero is left out. A reading is:
//
//   - its value, if that is good;
//   - {"doubtful": value};
//   - {"absent": "not_supported"}; one that is left out is "not_reported".
func MarshalRecord(s *Snapshot) ([]byte, error) {
	b, err := appendRecord(nil, reflect.ValueOf(s).Elem())
	if err != nil {
		return nil, fmt.Errorf("a snapshot can't be written: %w", err)
	}
	return b, nil
}

// UnmarshalRecord reads what [MarshalRecord] wrote. A field that this version does not have
// is an error that names it.
func UnmarshalRecord(line []byte) (*Snapshot, error) {
	s := new(Snapshot)
	r := recordReader{text: line}
	err := r.read(readerOf(reflect.TypeFor[Snapshot]()), reflect.ValueOf(s).Elem())
	if err == nil && r.next() != 0 {
		err = r.unexpected()
	}
	if err != nil {
		return nil, fmt.Errorf("snapshot%w", err)
	}
	return s, nil
}

// recordable is a *[Reading].
type recordable interface {
	record() (value reflect.Value, q Quality)
	recall(q Quality)
}

func (r *Reading[T]) record() (reflect.Value, Quality) {
	return reflect.ValueOf(&r.value).Elem(), r.quality
}
func (r *Reading[T]) recall(q Quality) { r.quality = q }

const (
	doubtfulKey = "doubtful"
	absentKey   = "absent"
)

var (
	timeType     = reflect.TypeFor[time.Time]()
	durationType = reflect.TypeFor[time.Duration]()
	errorType    = reflect.TypeFor[error]()
)

func appendRecord(b []byte, v reflect.Value) ([]byte, error) {
	if r, ok := reflect.TypeAssert[recordable](v.Addr()); ok {
		value, q := r.record()
		switch q {
		case Good:
			return appendRecord(b, value)
		case Doubtful:
			b, err := appendRecord(append(b, `{"`+doubtfulKey+`":`...), value)
			return append(b, '}'), err
		default:
			return fmt.Appendf(b, `{"%s":"%s"}`, absentKey, q), nil
		}
	}
	switch v.Type() {
	case timeType:
		return append(v.Interface().(time.Time).UTC().AppendFormat(append(b, '"'), time.RFC3339Nano), '"'), nil
	case durationType:
		return strconv.AppendQuote(b, time.Duration(v.Int()).String()), nil
	case errorType:
		text, err := json.Marshal(recordOf(v.Interface().(error)))
		return append(b, text...), err
	}
	switch v.Kind() {
	case reflect.Struct:
		b = append(b, '{')
		for field, value := range v.Fields() {
			if value.IsZero() {
				continue
			}
			if b[len(b)-1] != '{' {
				b = append(b, ',')
			}
			var err error
			if b, err = appendRecord(append(strconv.AppendQuote(b, field.Name), ':'), value); err != nil {
				return nil, fmt.Errorf("%s: %w", field.Name, err)
			}
		}
		return append(b, '}'), nil
	case reflect.Slice:
		if v.IsNil() {
			return append(b, null...), nil
		}
		b = append(b, '[')
		for i := range v.Len() {
			if i > 0 {
				b = append(b, ',')
			}
			var err error
			if b, err = appendRecord(b, v.Index(i)); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	case reflect.Pointer:
		return appendRecord(b, v.Elem()) // a nil one is zero, and left out
	case reflect.Float64:
		if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			return strconv.AppendQuote(b, fmt.Sprint(f)), nil // JSON has no such number
		}
		return strconv.AppendFloat(b, v.Float(), 'g', -1, 64), nil
	default: // text, whole numbers, truth
		text, err := json.Marshal(v.Interface())
		return append(b, text...), err
	}
}

// A recordedError is an error that was read from a file.
type recordedError struct {
	Text string
	Is   []string `json:",omitempty"` // the texts of this package's errors that it wraps
}

func recordOf(err error) *recordedError {
	e := &recordedError{Text: err.Error()}
	for _, known := range sentinels {
		if errors.Is(err, known) {
			e.Is = append(e.Is, known.Error())
		}
	}
	return e
}

// Error returns the text of the error that was recorded.
func (e *recordedError) Error() string { return e.Text }

// Unwrap returns this package's errors that it wraps.
func (e *recordedError) Unwrap() (all []error) {
	for _, known := range sentinels {
		if slices.Contains(e.Is, known.Error()) {
			all = append(all, known)
		}
	}
	return all
}

// Moved moves every time of a snapshot, but none beyond the latest.
func (s *Snapshot) Moved(by time.Duration, latest time.Time) {
	move := func(t *time.Time) {
		if t.IsZero() {
			return
		}
		if *t = t.Add(by); t.After(latest) {
			*t = latest
		}
	}
	eachTime(reflect.ValueOf(s).Elem(), move)
}

func eachTime(v reflect.Value, visit func(*time.Time)) {
	if t, ok := reflect.TypeAssert[*time.Time](v.Addr()); ok {
		visit(t)
		return
	}
	if r, ok := reflect.TypeAssert[recordable](v.Addr()); ok {
		if value, q := r.record(); q >= Doubtful {
			eachTime(value, visit)
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			eachTime(field, visit)
		}
	case reflect.Slice:
		for i := range v.Len() {
			eachTime(v.Index(i), visit)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			eachTime(v.Elem(), visit)
		}
	}
}
