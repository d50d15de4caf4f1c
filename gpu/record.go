package gpu

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"
)

// MarshalRecord writes a snapshot as one line of JSON that [UnmarshalRecord] reads back
// exactly. It is for files and other gpuwhys; clients get the contracts. Names are the field names of
// this package, values have the units of their types (memory is in bytes), durations are
// text such as "1h30m0s", and zero values are left out. A reading is:
//
//   - its value, if it is Good;
//   - {"doubtful": value};
//   - {"absent": "not_supported"}; one that is left out is "not_reported".
func MarshalRecord(s *Snapshot) ([]byte, error) {
	b, err := AppendRecord(nil, s)
	if err != nil {
		return nil, fmt.Errorf("a snapshot can't be written: %w", err)
	}
	return b, nil
}

// AppendRecord appends any value of exported fields in the format of [MarshalRecord]. The value may not have maps; a
// json.RawMessage is written without spaces. A [RecordReader] reads it.
func AppendRecord[T any](b []byte, v *T) ([]byte, error) {
	return writerOf(reflect.TypeFor[T]())(b, reflect.ValueOf(v).Elem())
}

// UnmarshalRecord reads what [MarshalRecord] wrote. A field that this version does not have
// is an error that names it.
func UnmarshalRecord(line []byte) (*Snapshot, error) {
	s := new(Snapshot)
	r := recordReader{text: line}
	if err := r.readAll(s); err != nil {
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
	rawType      = reflect.TypeFor[json.RawMessage]()
)

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

// Error returns the text of the recorded error.
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

// Moved moves every time of the snapshot by the same duration, but none beyond latest.
func (s *Snapshot) Moved(offset time.Duration, latest time.Time) {
	move := func(t *time.Time) {
		if t.IsZero() {
			return
		}
		if *t = t.Add(offset); t.After(latest) {
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
