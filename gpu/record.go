package gpu

import (
	"bytes"
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
	if err := readRecord(line, reflect.ValueOf(s).Elem(), "snapshot"); err != nil {
		return nil, err
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

func readRecord(b []byte, v reflect.Value, name string) error {
	if r, ok := reflect.TypeAssert[recordable](v.Addr()); ok {
		return readReading(b, r, name)
	}
	fail := func(err error) error {
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	}
	switch v.Type() {
	case timeType:
		var t time.Time
		err := json.Unmarshal(b, &t)
		v.Set(reflect.ValueOf(t.UTC()))
		return fail(err)
	case durationType:
		var text string
		if err := json.Unmarshal(b, &text); err != nil {
			return fail(err)
		}
		d, err := time.ParseDuration(text)
		v.SetInt(int64(d))
		return fail(err)
	case errorType:
		var e recordedError
		err := json.Unmarshal(b, &e)
		v.Set(reflect.ValueOf(&e))
		return fail(err)
	}
	switch v.Kind() {
	case reflect.Struct:
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(b, &fields); err != nil {
			return fail(err)
		}
		for field, text := range fields {
			of := v.FieldByName(field)
			if !of.IsValid() {
				return fail(fmt.Errorf("there is no %q", field))
			}
			if err := readRecord(text, of, name+"."+field); err != nil {
				return err
			}
		}
		return nil
	case reflect.Slice:
		var list []json.RawMessage
		if err := json.Unmarshal(b, &list); err != nil {
			return fail(err)
		}
		if list == nil {
			return nil
		}
		v.Set(reflect.MakeSlice(v.Type(), len(list), len(list)))
		for i, text := range list {
			if err := readRecord(text, v.Index(i), fmt.Sprintf("%s[%d]", name, i)); err != nil {
				return err
			}
		}
		return nil
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return readRecord(b, v.Elem(), name)
	case reflect.Float64:
		if len(b) > 0 && b[0] == '"' {
			f, err := strconv.ParseFloat(string(bytes.Trim(b, `"`)), 64)
			v.SetFloat(f)
			return fail(err)
		}
	}
	return fail(json.Unmarshal(b, v.Addr().Interface()))
}

func readReading(b []byte, r recordable, name string) error {
	value, _ := r.record()
	var not map[string]json.RawMessage
	if json.Unmarshal(b, &not) == nil && len(not) == 1 {
		if text, doubtful := not[doubtfulKey]; doubtful {
			r.recall(Doubtful)
			return readRecord(text, value, name)
		}
		if text, absent := not[absentKey]; absent {
			var reason string
			if err := json.Unmarshal(text, &reason); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			q := slices.Index(qualityNames[:Doubtful], reason)
			if q < 0 {
				return fmt.Errorf("%s: %q is no reason why a reading is absent", name, reason)
			}
			r.recall(Quality(q))
			return nil
		}
	}
	r.recall(Good)
	return readRecord(b, value, name)
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
