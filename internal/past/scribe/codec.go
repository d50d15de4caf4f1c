package scribe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// Both processes run the same program, so they exchange the fields of Go values in order, without names or versions. nil
// stays nil. A time is sent with its nanoseconds and comes back in UTC.

var (
	timeType   = reflect.TypeFor[time.Time]()
	memoryType = reflect.TypeFor[gpu.Reading[gpu.Bytes]]()
	valuesType = reflect.TypeFor[[]store.Value]()
)

// encode appends a value.
func encode(b []byte, v reflect.Value) []byte {
	switch v.Type() {
	case timeType:
		return appendTime(b, v.Interface().(time.Time))
	case memoryType:
		return appendMemory(b, v.Interface().(gpu.Reading[gpu.Bytes]))
	case valuesType:
		return appendValues(b, v.Interface().([]store.Value))
	}
	switch v.Kind() {
	case reflect.Bool:
		return appendFlag(b, v.Bool())
	case reflect.Int, reflect.Int64, reflect.Int32, reflect.Int16, reflect.Int8:
		return binary.AppendVarint(b, v.Int())
	case reflect.Uint, reflect.Uint64, reflect.Uint32, reflect.Uint16, reflect.Uint8:
		return binary.AppendUvarint(b, v.Uint())
	case reflect.Float64:
		return appendFloat(b, v.Float())
	case reflect.String:
		return appendText(b, v.String())
	case reflect.Pointer:
		if v.IsNil() {
			return append(b, 0)
		}
		return encode(append(b, 1), v.Elem())
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return appendBytes(b, v.Bytes())
		}
		if v.IsNil() {
			return append(b, 0)
		}
		b = binary.AppendUvarint(b, uint64(v.Len())+1)
		for i := range v.Len() {
			b = encode(b, v.Index(i))
		}
		return b
	case reflect.Map:
		if v.IsNil() {
			return append(b, 0)
		}
		b = binary.AppendUvarint(b, uint64(v.Len())+1)
		for each := v.MapRange(); each.Next(); {
			b = encode(encode(b, each.Key()), each.Value())
		}
		return b
	case reflect.Struct:
		if b, known := appendKnown(b, v.Addr().Interface()); known {
			return b
		}
		for _, field := range v.Fields() {
			b = encode(b, field)
		}
		return b
	}
	panic("scribe: no code for " + v.Type().String()) // a new kind of field; the test of all types finds it
}

// appendKnown appends what is often sent, without a look at its type's fields. It takes a pointer.
func appendKnown(b []byte, v any) (_ []byte, known bool) {
	switch v := v.(type) {
	case *store.Row:
		return appendRow(b, v), true
	case *store.Session:
		return appendStored(b, store.Sessions, v), true
	case *store.Cause:
		return appendStored(b, store.Causes, v), true
	case *store.Event:
		return appendStored(b, store.Events, v), true
	}
	return b, false
}

// known reads a value that appendKnown wrote. It reuses the texts of the value that v had before, where they are equal.
func (d *decoder) known(v any) bool {
	switch v := v.(type) {
	case *store.Row:
		d.row(v, nil)
	case *store.Session:
		readStored(d, store.Sessions, v)
	case *store.Cause:
		readStored(d, store.Causes, v)
	case *store.Event:
		readStored(d, store.Events, v)
	default:
		return false
	}
	return true
}

func appendTime(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(b, 0)
	}
	return binary.AppendUvarint(binary.AppendVarint(append(b, 1), t.Unix()), uint64(t.Nanosecond()))
}

func appendFloat(b []byte, f float64) []byte {
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(f))
}

// How a value is sent of which most rows have many: absent ones take no room, and a reading one number.
const (
	isReading  = 1 << iota // least, mean and most are the same, of one reading
	isDoubtful             // it can't be right
)

// appendValues appends those that are there with how far each is from the one before, and then 0.
func appendValues(b []byte, values []store.Value) []byte {
	if values == nil {
		return append(b, 0)
	}
	b = binary.AppendUvarint(b, uint64(len(values))+1)
	last := -1
	for i := range values {
		v := &values[i]
		if v.Count == 0 && *v == (store.Value{}) {
			continue
		}
		b = binary.AppendUvarint(b, uint64(i-last))
		last = i
		var kind byte
		if v.Doubtful {
			kind |= isDoubtful
		}
		if v.Count == 1 && v.Least == v.Mean && v.Most == v.Mean {
			b = appendFloat(append(b, kind|isReading), v.Mean)
			continue
		}
		b = binary.AppendVarint(append(b, kind), int64(v.Count))
		b = appendFloat(appendFloat(appendFloat(b, v.Least), v.Mean), v.Most)
	}
	return append(b, 0)
}

// appendRow is encode of a row, of which queries have most.
func appendRow(b []byte, r *store.Row) []byte {
	b = appendText(appendText(b, r.Node), r.UUID)
	b = appendTime(append(b, byte(r.Tier)), r.Time)
	b = appendValues(binary.AppendVarint(b, int64(r.Readings)), r.Values)
	return appendText(b, string(r.State))
}

// appendStored is encode of what a table declares, of which a question about a year has more than a hundred thousand.
func appendStored[T any](b []byte, t *store.Table[T], v *T) []byte {
	node, uuid := t.Device(v)
	b = appendText(appendText(b, *node), *uuid)
	if t.Order != nil {
		b = binary.AppendVarint(b, *t.Order(v))
	}
	for i := range t.Fields {
		switch p := t.Fields[i].Place(v).(type) {
		case *string:
			b = appendText(b, *p)
		case *time.Time:
			b = appendTime(b, *p)
		case *time.Duration:
			b = binary.AppendVarint(b, int64(*p))
		case *int:
			b = binary.AppendVarint(b, int64(*p))
		case *float64:
			b = appendFloat(b, *p)
		case *bool:
			b = appendFlag(b, *p)
		case *store.Memory:
			b = appendMemory(b, *p)
		case *[]byte:
			b = appendBytes(b, *p)
		}
	}
	return b
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

func appendFlag(b []byte, flag bool) []byte {
	if flag {
		return append(b, 1)
	}
	return append(b, 0)
}

func appendBytes(b, list []byte) []byte {
	if list == nil {
		return append(b, 0)
	}
	return append(binary.AppendUvarint(b, uint64(len(list))+1), list...)
}

func appendMemory(b []byte, r gpu.Reading[gpu.Bytes]) []byte {
	return binary.AppendUvarint(append(b, byte(r.Quality())), uint64(r.Or(0)))
}

// A decoder reads what was encoded. After an error all that it returns is zero.
type decoder struct {
	b   []byte
	err error
}

var errShort = errors.New("scribe: the message is truncated")

func (d *decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
	d.b = nil
}

func (d *decoder) uvarint() uint64 {
	n, size := binary.Uvarint(d.b)
	if size <= 0 {
		d.fail(errShort)
		return 0
	}
	d.b = d.b[size:]
	return n
}

func (d *decoder) varint() int64 {
	n, size := binary.Varint(d.b)
	if size <= 0 {
		d.fail(errShort)
		return 0
	}
	d.b = d.b[size:]
	return n
}

// bytes are the next n, which stay the message's.
func (d *decoder) bytes(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.fail(errShort)
		return nil
	}
	next := d.b[:n]
	d.b = d.b[n:]
	return next
}

func (d *decoder) byte() byte {
	if b := d.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) float() float64 {
	if b := d.bytes(8); b != nil {
		return math.Float64frombits(binary.LittleEndian.Uint64(b))
	}
	return 0
}

func (d *decoder) time() time.Time {
	if d.byte() == 0 {
		return time.Time{}
	}
	sec, nsec := d.varint(), d.uvarint()
	return time.Unix(sec, int64(nsec)).UTC() //nolint:gosec // as appendTime wrote it
}

// length is that of a list, and whether it is nil. Each of its elements takes a byte at least.
func (d *decoder) length() (n int, isNil bool) {
	size := d.uvarint()
	if size == 0 {
		return 0, true
	}
	if size-1 > uint64(len(d.b)) {
		d.fail(errShort)
		return 0, true
	}
	return int(size - 1), false //nolint:gosec // not more than the message has bytes
}

// values reads what appendValues wrote, into reuse where that fits.
func (d *decoder) values(reuse []store.Value) []store.Value {
	size := d.uvarint()
	if size == 0 || d.err != nil {
		return nil
	}
	if size > 1<<16 {
		d.fail(fmt.Errorf("scribe: a row of %d values", size-1))
		return nil
	}
	values := reuse
	if values != nil && uint64(len(values)) == size-1 {
		clear(values)
	} else {
		values = make([]store.Value, size-1)
	}
	for next := uint64(0); ; {
		far := d.uvarint()
		if d.err != nil {
			return nil
		}
		if far == 0 {
			return values
		}
		if next += far; next > uint64(len(values)) {
			d.fail(errShort)
			return nil
		}
		v, kind := &values[next-1], d.byte()
		v.Doubtful = kind&isDoubtful != 0
		if kind&isReading != 0 {
			f := d.float()
			v.Least, v.Mean, v.Most, v.Count = f, f, f, 1
			continue
		}
		v.Count = int(d.varint())
		v.Least, v.Mean, v.Most = d.float(), d.float(), d.float()
	}
}

// row reads what appendRow wrote. Its texts are those of the row that was read into r before, where they are the same.
func (d *decoder) row(r *store.Row, reuse []store.Value) {
	r.Node, r.UUID = d.text(r.Node), d.text(r.UUID)
	r.Tier, r.Time, r.Readings = store.Tier(d.byte()), d.time(), int(d.varint())
	r.Values = d.values(reuse)
	r.State = gpu.State(d.text(string(r.State)))
}

// readStored reads what appendStored wrote. Its texts are those of what was read into v before, where they are the same.
func readStored[T any](d *decoder, t *store.Table[T], v *T) {
	node, uuid := t.Device(v)
	*node, *uuid = d.text(*node), d.text(*uuid)
	if t.Order != nil {
		*t.Order(v) = d.varint()
	}
	for i := range t.Fields {
		switch p := t.Fields[i].Place(v).(type) {
		case *string:
			*p = d.text(*p)
		case *time.Time:
			*p = d.time()
		case *time.Duration:
			*p = time.Duration(d.varint())
		case *int:
			*p = int(d.varint())
		case *float64:
			*p = d.float()
		case *bool:
			*p = d.byte() != 0
		case *store.Memory:
			*p = d.memory()
		case *[]byte:
			*p = d.list()
		}
	}
}

// list reads bytes, a copy of the message's.
func (d *decoder) list() []byte {
	n, isNil := d.length()
	if isNil {
		return nil
	}
	return append([]byte{}, d.bytes(uint64(n))...)
}

// text reads a string, which is the one before where that is the same.
func (d *decoder) text(before string) string {
	if b := d.bytes(d.uvarint()); string(b) != before {
		return string(b)
	}
	return before
}

// decode reads a value.
func (d *decoder) decode(v reflect.Value) {
	switch v.Type() {
	case timeType:
		v.Set(reflect.ValueOf(d.time()))
		return
	case memoryType:
		v.Set(reflect.ValueOf(d.memory()))
		return
	case valuesType:
		v.Set(reflect.ValueOf(d.values(nil)))
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(d.byte() != 0)
	case reflect.Int, reflect.Int64, reflect.Int32, reflect.Int16, reflect.Int8:
		v.SetInt(d.varint())
	case reflect.Uint, reflect.Uint64, reflect.Uint32, reflect.Uint16, reflect.Uint8:
		v.SetUint(d.uvarint())
	case reflect.Float64:
		v.SetFloat(d.float())
	case reflect.String:
		v.SetString(string(d.bytes(d.uvarint())))
	case reflect.Pointer:
		if d.byte() != 0 {
			v.Set(reflect.New(v.Type().Elem()))
			d.decode(v.Elem())
		}
	case reflect.Slice:
		d.slice(v)
	case reflect.Map:
		n, isNil := d.length()
		if isNil {
			return
		}
		v.Set(reflect.MakeMapWithSize(v.Type(), n))
		for range n {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			d.decode(key)
			d.decode(value)
			v.SetMapIndex(key, value)
		}
	case reflect.Struct:
		if d.known(v.Addr().Interface()) {
			return
		}
		for _, field := range v.Fields() {
			d.decode(field)
		}
	default:
		panic("scribe: no code for " + v.Type().String())
	}
}

func (d *decoder) slice(v reflect.Value) {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		v.SetBytes(d.list())
		return
	}
	n, isNil := d.length()
	if isNil {
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), n, n))
	for i := range n {
		d.decode(v.Index(i))
	}
}

func (d *decoder) memory() gpu.Reading[gpu.Bytes] {
	q, bytes := gpu.Quality(d.byte()), gpu.Bytes(d.uvarint())
	switch {
	case q == gpu.Good:
		return gpu.Of(bytes)
	case q == gpu.Doubtful:
		return gpu.DoubtfulOf(bytes)
	case q > gpu.Good:
		d.fail(fmt.Errorf("scribe: no quality %d", q))
		return gpu.Reading[gpu.Bytes]{}
	}
	return gpu.Absent[gpu.Bytes](q)
}
