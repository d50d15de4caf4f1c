package gpu

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strconv"
	"time"
)

// MarshalJSON implements [json.Marshaler] with the format promised to clients: null if
// there is no value, or none that JSON can express. Measured values have a decimal point
// (45.0) and at most two decimals, memory is in MiB, and times are in UTC with
// microseconds. Whole numbers are exact.
func (r Reading[T]) MarshalJSON() ([]byte, error) {
	if !r.Present() {
		return null, nil
	}
	switch v := any(r.value).(type) {
	case bool:
		return strconv.AppendBool(nil, v), nil
	case Bytes:
		return decimal(v.MiB()), nil
	case int:
		return whole(int64(v)), nil
	case int64:
		return whole(v), nil
	case uint64:
		if v > math.MaxInt64 { // no counter gets there, and few clients could read it
			return null, nil
		}
		return whole(int64(v)), nil
	case time.Time:
		return v.UTC().AppendFormat(make([]byte, 0, 32), `"`+TimeFormat+`"`), nil
	}
	if v := reflect.ValueOf(r.value); v.Kind() == reflect.Float64 {
		return decimal(v.Float()), nil
	}
	return json.Marshal(r.value)
}

var null = []byte("null")

// TimeFormat is RFC 3339 with microseconds, for times in UTC.
const TimeFormat = "2006-01-02T15:04:05.000000Z07:00"

func whole(v int64) []byte { return strconv.AppendInt(make([]byte, 0, 8), v, 10) }

// decimal writes 45.0, or 45.25. A value beyond all readings is written as it is.
func decimal(v float64) []byte {
	b := make([]byte, 0, 8) // most have room
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return null
	case math.Abs(v) >= 1<<46:
		if b = strconv.AppendFloat(b, v, 'f', -1, 64); !bytes.ContainsRune(b, '.') {
			b = append(b, ".0"...)
		}
		return b
	case v < 0:
		b, v = append(b, '-'), -v
	}
	n := int64(math.Round(v * 100)) // much faster than writing a float
	b = append(strconv.AppendInt(b, n/100, 10), '.', '0'+byte(n/10%10))
	if n%10 != 0 {
		b = append(b, '0'+byte(n%10))
	}
	return b
}

// UnmarshalJSON implements [json.Unmarshaler], for clients written in Go. It takes every
// value as Good.
func (r *Reading[T]) UnmarshalJSON(b []byte) error {
	*r = Reading[T]{}
	if string(b) == "null" {
		return nil
	}
	r.quality = Good
	if amount, ok := any(&r.value).(*Bytes); ok {
		var mib float64
		err := json.Unmarshal(b, &mib)
		*amount = Bytes(mib * (1 << 20))
		return err
	}
	return json.Unmarshal(b, &r.value)
}
