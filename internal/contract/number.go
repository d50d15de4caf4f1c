package contract

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// Float is a measured value that JSON writes with a decimal point (45.0), as
// the contract's first server did, or null where there is none. It is rounded
// to two decimals.
type Float struct {
	value float64
	ok    bool
}

// MarshalJSON implements [json.Marshaler].
func (f Float) MarshalJSON() ([]byte, error) {
	if !f.ok || math.IsNaN(f.value) || math.IsInf(f.value, 0) {
		return []byte("null"), nil
	}
	b := strconv.AppendFloat(make([]byte, 0, 24), hundredths(f.value), 'f', -1, 64)
	if !bytes.ContainsRune(b, '.') {
		b = append(b, ".0"...)
	}
	return b, nil
}

// hundredths rounds to two decimals. A value so large that it has none is left
// as it is: 100 times it may be no number.
func hundredths(v float64) float64 {
	if math.Abs(v) >= 1<<46 {
		return v
	}
	return math.Round(v*100) / 100
}

// UnmarshalJSON implements [json.Unmarshaler], for clients written in Go.
func (f *Float) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*f = Float{}
		return nil
	}
	f.ok = true
	return json.Unmarshal(b, &f.value)
}

// Get returns the value, and whether there is one.
func (f Float) Get() (float64, bool) { return f.value, f.ok }

// Int is a measured value that JSON writes without a decimal point, or null.
type Int struct {
	value int64
	ok    bool
}

// MarshalJSON implements [json.Marshaler].
func (i Int) MarshalJSON() ([]byte, error) {
	if !i.ok {
		return []byte("null"), nil
	}
	return strconv.AppendInt(make([]byte, 0, 20), i.value, 10), nil
}

// UnmarshalJSON implements [json.Unmarshaler].
func (i *Int) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*i = Int{}
		return nil
	}
	i.ok = true
	return json.Unmarshal(b, &i.value)
}

// Get returns the value, and whether there is one.
func (i Int) Get() (int64, bool) { return i.value, i.ok }

type floating interface {
	gpu.Percent | gpu.Celsius | gpu.Watts | gpu.Joules | gpu.Megahertz | gpu.RPM | gpu.BytesPerSecond | gpu.FramesPerSecond | gpu.Microseconds | float64
}

func float[T floating](r gpu.Reading[T]) Float {
	v, ok := r.Get()
	return Float{float64(v), ok}
}

func mib(r gpu.Reading[gpu.Bytes]) Float {
	v, ok := r.Get()
	return Float{v.MiB(), ok}
}

// integer rounds half away from zero, as the contracts with integers ask.
func integer[T floating](r gpu.Reading[T]) Int {
	v, ok := r.Get()
	return whole(float64(v), ok)
}

func mibInteger(r gpu.Reading[gpu.Bytes]) Int {
	v, ok := r.Get()
	return whole(v.MiB(), ok)
}

// whole is null for what no integer can be.
func whole(v float64, ok bool) Int {
	if !ok || math.IsNaN(v) || math.Abs(v) >= 1<<63 {
		return Int{}
	}
	return Int{int64(math.Round(v)), true}
}

// count is exact, and null beyond the integers that JSON has in Go: no counter
// gets there.
func count[T int | uint64](r gpu.Reading[T]) Int {
	v, ok := r.Get()
	n := int64(v)
	if !ok || (n < 0) != (v < 0) {
		return Int{}
	}
	return Int{n, true}
}

// pointer is for values whose JSON needs no care: text, truth, lists.
func pointer[T any](r gpu.Reading[T]) *T {
	if v, ok := r.Get(); ok {
		return &v
	}
	return nil
}

// listOf makes a list of another one, never null.
func listOf[D, S any](list []S, element func(*S) D) []D {
	out := make([]D, len(list))
	for i := range list {
		out[i] = element(&list[i])
	}
	return out
}

// inSeconds rounds to milliseconds.
func inSeconds(d time.Duration) float64 { return math.Round(d.Seconds()*1000) / 1000 }

// timestamp writes RFC 3339, UTC, with fractional seconds always there.
func timestamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z07:00") }

func optionalTime(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	return new(timestamp(t))
}
