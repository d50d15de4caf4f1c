package scribe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/store"
)

// Both processes run the same program, so that what they send each other is the fields of Go values in their order, without
// names or versions. What is nil stays nil. A time is sent with its nanoseconds, and comes back in UTC.

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
		if v.Bool() {
			return append(b, 1)
		}
		return append(b, 0)
	case reflect.Int, reflect.Int64, reflect.Int32, reflect.Int16, reflect.Int8:
		return binary.AppendVarint(b, v.Int())
	case reflect.Uint, reflect.Uint64, reflect.Uint32, reflect.Uint16, reflect.Uint8:
		return binary.AppendUvarint(b, v.Uint())
	case reflect.Float64:
		return appendFloat(b, v.Float())
	case reflect.String:
		return append(binary.AppendUvarint(b, uint64(v.Len())), v.String()...)
	case reflect.Pointer:
		if v.IsNil() {
			return append(b, 0)
		}
		return encode(append(b, 1), v.Elem())
	case reflect.Slice:
		if v.IsNil() {
			return append(b, 0)
		}
		b = binary.AppendUvarint(b, uint64(v.Len())+1)
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return append(b, v.Bytes()...)
		}
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
		for _, field := range v.Fields() {
			b = encode(b, field)
		}
		return b
	}
	panic("scribe: no code for " + v.Type().String()) // a new kind of field; the test of all types finds it
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
	b = append(binary.AppendUvarint(b, uint64(len(r.Node))), r.Node...)
	b = append(binary.AppendUvarint(b, uint64(len(r.UUID))), r.UUID...)
	b = appendTime(append(b, byte(r.Tier)), r.Time)
	b = appendValues(binary.AppendVarint(b, int64(r.Readings)), r.Values)
	return append(binary.AppendUvarint(b, uint64(len(r.State))), r.State...)
}

// appendSession is encode of a session, of which a question about a year has more than a hundred thousand.
func appendSession(b []byte, s *store.Session) []byte {
	b = appendTexts(b, s.Node, s.UUID, s.Boot)
	b = appendTime(appendTime(binary.AppendVarint(b, int64(s.PID)), s.Started), s.Begin)
	b = appendTexts(b, s.User, s.Name, s.Program, s.Command, s.Container, s.Image, s.Pod, s.Unit, s.Job, string(s.Type))
	b = appendTexts(appendTime(appendTime(b, s.From), s.To), string(s.Outcome))
	b = appendMemory(binary.AppendVarint(b, int64(s.Seen)), s.PeakMemory)
	b = binary.AppendVarint(appendFloat(b, s.MemorySeconds), int64(s.MemoryKnown))
	b = binary.AppendVarint(appendFloat(b, s.SMSeconds), int64(s.SMKnown))
	b = binary.AppendVarint(appendFloat(b, s.Joules), int64(s.JoulesKnown))
	b = append(binary.AppendVarint(appendTexts(b, s.JoulesMethod), int64(s.Busy)), 0)
	if s.Accounted {
		b[len(b)-1] = 1
	}
	return binary.AppendVarint(b, s.Order)
}

func appendTexts(b []byte, texts ...string) []byte {
	for _, t := range texts {
		b = append(binary.AppendUvarint(b, uint64(len(t))), t...)
	}
	return b
}

func appendMemory(b []byte, r gpu.Reading[gpu.Bytes]) []byte {
	return binary.AppendUvarint(append(b, byte(r.Quality())), uint64(r.Or(0)))
}

// A decoder reads what was encoded. After an error all that it returns is zero.
type decoder struct {
	b   []byte
	err error
}

var errShort = errors.New("scribe: the message ends too soon")

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

// session reads what appendSession wrote. Its texts are those of the session that was read into s before, where they are the same.
func (d *decoder) session(s *store.Session) {
	d.texts(&s.Node, &s.UUID, &s.Boot)
	s.PID, s.Started, s.Begin = int(d.varint()), d.time(), d.time()
	d.texts(&s.User, &s.Name, &s.Program, &s.Command, &s.Container, &s.Image, &s.Pod, &s.Unit, &s.Job, (*string)(&s.Type))
	s.From, s.To = d.time(), d.time()
	d.texts((*string)(&s.Outcome))
	s.Seen, s.PeakMemory = time.Duration(d.varint()), d.memory()
	s.MemorySeconds, s.MemoryKnown = d.float(), time.Duration(d.varint())
	s.SMSeconds, s.SMKnown = d.float(), time.Duration(d.varint())
	s.Joules, s.JoulesKnown = d.float(), time.Duration(d.varint())
	d.texts(&s.JoulesMethod)
	s.Busy, s.Accounted, s.Order = time.Duration(d.varint()), d.byte() != 0, d.varint()
}

func (d *decoder) texts(all ...*string) {
	for _, t := range all {
		*t = d.text(*t)
	}
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
		for _, field := range v.Fields() {
			d.decode(field)
		}
	default:
		panic("scribe: no code for " + v.Type().String())
	}
}

func (d *decoder) slice(v reflect.Value) {
	n, isNil := d.length()
	if isNil {
		return
	}
	if v.Type().Elem().Kind() == reflect.Uint8 {
		v.SetBytes(append([]byte{}, d.bytes(uint64(n))...))
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
