package gpu

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"
)

// A recordReader reads a record in one pass. encoding/json would read a value again for each value around it, because
// readings need their own unmarshaler; that takes ten times as long.
type recordReader struct {
	text   []byte
	pos    int
	reader *RecordReader // nil: the record is of this version, and our own
	room   int           // bytes that are left, of one from somebody else
}

// A RecordReader reads records from other programs, which may be of another version. Unknown parts don't affect the rest: it
// skips fields that this version does not have, and a reading with an unknown quality is NotReported. Many goroutines may use
// one.
type RecordReader struct {
	// Room is how many bytes of memory the values may take, not counting their texts. It bounds what a short record can
	// demand: an empty device takes three bytes of text, but thousands of bytes of memory.
	Room int
	// Shared holds what other records have as well; nil: share nothing.
	Shared *Shared
}

// ErrNoRoom means that the values of a record take more memory than allowed.
var ErrNoRoom = errors.New("its values take too much memory")

// ReadRecord reads what [AppendRecord] wrote. The error names the field, and wraps [ErrNoRoom] if the room was exceeded.
func ReadRecord[T any](reader *RecordReader, text []byte, into *T) error {
	r := recordReader{text: text, reader: reader, room: reader.Room}
	return r.readAll(into)
}

// readAll reads the whole text into what a pointer points to.
func (r *recordReader) readAll(into any) error {
	v := reflect.ValueOf(into).Elem()
	err := r.read(readerOf(v.Type()), v)
	if err == nil && r.next() != 0 {
		err = r.unexpected()
	}
	return err
}

// fill takes the room of n values.
func (r *recordReader) fill(t reflect.Type, n int) error {
	if r.reader == nil {
		return nil
	}
	if r.room -= n * int(t.Size()); r.room < 0 {
		return ErrNoRoom
	}
	return nil
}

func (r *recordReader) str(text []byte) string {
	if r.reader == nil {
		return string(text)
	}
	return r.reader.Shared.text(text)
}

// A readFunc reads the next value into v, which can be set.
type readFunc func(r *recordReader, v reflect.Value) error

var readers sync.Map // readFunc by reflect.Type

// readerOf is how values of a type are read. No type of a snapshot has itself within it.
func readerOf(t reflect.Type) readFunc {
	if f, known := readers.Load(t); known {
		return f.(readFunc)
	}
	f := newReader(t)
	readers.Store(t, f)
	return f
}

func newReader(t reflect.Type) readFunc {
	if isReading(t) {
		r, _ := reflect.TypeAssert[recordable](reflect.New(t))
		value, _ := r.record()
		return readingReader(readerOf(value.Type()))
	}
	switch t {
	case timeType:
		return readTime
	case durationType:
		return readDuration
	case errorType:
		return readError
	case rawType:
		return readJSON
	}
	switch t.Kind() {
	case reflect.Struct:
		return structReader(t)
	case reflect.Slice:
		read := sliceReader(readerOf(t.Elem()))
		if t == reflect.TypeFor[[]Link]() {
			return sharedReader(read)
		}
		return read
	case reflect.Pointer:
		read := readerOf(t.Elem())
		return func(r *recordReader, v reflect.Value) error {
			if err := r.fill(t.Elem(), 1); err != nil {
				return err
			}
			v.Set(reflect.New(t.Elem()))
			return read(r, v.Elem())
		}
	case reflect.Float64:
		return readFloat
	case reflect.Uint64:
		return readUint
	}
	if p := reflect.PointerTo(t); p.Implements(reflect.TypeFor[json.Unmarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return readJSON
	}
	switch t.Kind() {
	case reflect.String:
		return readString
	case reflect.Int, reflect.Int64:
		return readInt
	}
	return readJSON
}

func (r *recordReader) read(read readFunc, v reflect.Value) error {
	err := read(r, v)
	if _, placed := errors.AsType[*placeError](err); err != nil && !placed {
		err = &placeError{err: err}
	}
	return err
}

// A placeError says where in a record an error is.
type placeError struct {
	place string // such as ".Devices[3].State"
	err   error
}

func (e *placeError) Error() string { return e.place + ": " + e.err.Error() }
func (e *placeError) Unwrap() error { return e.err }

// in says that an error is at a place.
func in(place string, err error) error {
	if e, placed := errors.AsType[*placeError](err); placed {
		e.place = place + e.place
		return e
	}
	return &placeError{place, err}
}

// next is the next character that is no space; 0 at the end.
func (r *recordReader) next() byte {
	for ; r.pos < len(r.text); r.pos++ {
		switch c := r.text[r.pos]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

func (r *recordReader) unexpected() error {
	if r.pos >= len(r.text) {
		return errors.New("unexpected end of the record")
	}
	return fmt.Errorf("unexpected %q at character %d of the record", r.text[r.pos], r.pos+1)
}

// take passes a character, if it is the next.
func (r *recordReader) take(c byte) bool {
	if r.next() != c {
		return false
	}
	r.pos++
	return true
}

func (r *recordReader) want(c byte) error {
	if !r.take(c) {
		return r.unexpected()
	}
	return nil
}

// quoted passes a text, and returns it with its quotes; plain says that it is what stands between them.
func (r *recordReader) quoted() (text []byte, plain bool, err error) {
	if err := r.want('"'); err != nil {
		return nil, false, err
	}
	begin := r.pos - 1
	plain = true
	for ; r.pos < len(r.text); r.pos++ {
		switch c := r.text[r.pos]; {
		case c == '"':
			r.pos++
			return r.text[begin:r.pos], plain, nil
		case c == '\\':
			plain = false
			r.pos++
		case c < ' ' || c >= 0x80:
			plain = false
		}
	}
	return nil, false, r.unexpected()
}

// string passes a text.
func (r *recordReader) string() (text string, err error) {
	quoted, plain, err := r.quoted()
	switch {
	case err != nil:
		return "", err
	case plain:
		return r.str(quoted[1 : len(quoted)-1]), nil
	}
	err = json.Unmarshal(quoted, &text)
	return text, err
}

// word passes a number, or a word such as true.
func (r *recordReader) word() []byte {
	r.next()
	begin := r.pos
	for ; r.pos < len(r.text); r.pos++ {
		if c := r.text[r.pos]; (c < '0' || c > '9') && (c < 'a' || c > 'z') && c != '-' && c != '+' && c != '.' && c != 'E' {
			break
		}
	}
	return r.text[begin:r.pos]
}

// whole passes any value, and returns its text.
func (r *recordReader) whole() ([]byte, error) {
	r.next()
	begin, depth := r.pos, 0
	for {
		switch c := r.next(); c {
		case '{', '[':
			depth++
			r.pos++
		case '}', ']':
			depth--
			r.pos++
		case ',', ':':
			r.pos++
		case '"':
			if _, _, err := r.quoted(); err != nil {
				return nil, err
			}
		default:
			if len(r.word()) == 0 {
				return nil, r.unexpected()
			}
		}
		if depth <= 0 {
			return r.text[begin:r.pos], nil
		}
	}
}

// members passes an object, and calls read at each value.
func (r *recordReader) members(read func(name []byte) error) error {
	if err := r.want('{'); err != nil {
		return err
	}
	for first := true; !r.take('}'); first = false {
		if !first {
			if err := r.want(','); err != nil {
				return err
			}
		}
		name, _, err := r.quoted()
		if err == nil {
			err = r.want(':')
		}
		if err != nil {
			return err
		}
		name = name[1 : len(name)-1]
		if err := read(name); err != nil {
			return in("."+string(name), err)
		}
	}
	return nil
}

func structReader(t reflect.Type) readFunc {
	type field struct {
		index int
		read  readFunc
	}
	fields := map[string]field{}
	for i := range t.NumField() {
		if f := t.Field(i); f.IsExported() && f.Tag.Get("record") != "-" {
			fields[f.Name] = field{i, readerOf(f.Type)}
		}
	}
	return func(r *recordReader, v reflect.Value) error {
		return r.members(func(name []byte) error {
			f, known := fields[string(name)]
			if !known {
				if r.reader != nil {
					return r.pass()
				}
				return fmt.Errorf("there is no %q", name)
			}
			return f.read(r, v.Field(f.index))
		})
	}
}

func sliceReader(read readFunc) readFunc {
	return func(r *recordReader, v reflect.Value) error {
		if r.next() == null[0] {
			return readJSON(r, v)
		}
		if err := r.want('['); err != nil {
			return err
		}
		v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		defer clip(v)
		for i := 0; !r.take(']'); i++ {
			if i > 0 {
				if err := r.want(','); err != nil {
					return err
				}
			}
			if i == v.Cap() {
				v.Grow(1)
				if err := r.fill(v.Type().Elem(), v.Cap()); err != nil {
					return err
				}
			}
			v.SetLen(i + 1)
			v.Index(i).SetZero()
			if err := read(r, v.Index(i)); err != nil {
				return in("["+strconv.Itoa(i)+"]", err)
			}
		}
		return nil
	}
}

// clip gives back the room behind a slice, which may be as much as the slice takes.
func clip(v reflect.Value) {
	if n := v.Len(); n < v.Cap() {
		exact := reflect.MakeSlice(v.Type(), n, n)
		reflect.Copy(exact, v)
		v.Set(exact)
	}
}

func readingReader(read readFunc) readFunc {
	return func(r *recordReader, v reflect.Value) error {
		reading, _ := reflect.TypeAssert[recordable](v.Addr())
		value, _ := reading.record()
		begin := r.pos
		if r.take('{') {
			name, _, err := r.quoted()
			switch string(name) {
			case `"` + doubtfulKey + `"`:
				reading.recall(Doubtful)
				return r.only(func() error { return read(r, value) })
			case `"` + absentKey + `"`:
				value.SetZero()
				return r.only(func() error { return r.absent(reading) })
			}
			r.pos = begin // it is a value
			if k := value.Kind(); err == nil && r.reader != nil && (k != reflect.Struct || value.Type() == timeType) {
				value.SetZero() // of a quality that this version does not have
				reading.recall(NotReported)
				return r.pass()
			}
		}
		reading.recall(Good)
		return read(r, value)
	}
}

func (r *recordReader) absent(reading recordable) error {
	reason, err := r.string()
	if err != nil {
		return err
	}
	q := slices.Index(qualityNames[:Doubtful], reason)
	if q < 0 {
		if r.reader != nil {
			reading.recall(NotReported)
			return nil
		}
		return fmt.Errorf("%q is no reason why a reading is absent", reason)
	}
	reading.recall(Quality(q))
	return nil
}

// only reads the value of an object's only member, whose name has been read.
func (r *recordReader) only(read func() error) error {
	if err := r.want(':'); err != nil {
		return err
	}
	if err := read(); err != nil {
		return err
	}
	return r.want('}')
}

func readTime(r *recordReader, v reflect.Value) error {
	text, _, err := r.quoted()
	if err != nil {
		return err
	}
	t, _ := reflect.TypeAssert[*time.Time](v.Addr())
	err = t.UnmarshalJSON(text)
	*t = t.UTC()
	return err
}

func readDuration(r *recordReader, v reflect.Value) error {
	text, err := r.string()
	if err != nil {
		return err
	}
	d, err := time.ParseDuration(text)
	v.SetInt(int64(d))
	return err
}

func readError(r *recordReader, v reflect.Value) error {
	text, err := r.whole()
	if err == nil {
		err = r.fill(reflect.TypeFor[string](), len(text)) // it may be a list of so many
	}
	if err != nil {
		return err
	}
	e := new(recordedError)
	err = json.Unmarshal(text, e)
	v.Set(reflect.ValueOf(e))
	return err
}

// readFloat reads a number, or the text of what JSON has no number for.
func readFloat(r *recordReader, v reflect.Value) error {
	if r.next() == '"' {
		quoted, _, err := r.quoted()
		if err != nil {
			return err
		}
		switch string(quoted) {
		case `"NaN"`:
			v.SetFloat(math.NaN())
		case `"+Inf"`:
			v.SetFloat(math.Inf(1))
		case `"-Inf"`:
			v.SetFloat(math.Inf(-1))
		default:
			return errors.New("a text is no number")
		}
		return nil
	}
	text, err := r.number()
	if err != nil {
		return err
	}
	f, err := strconv.ParseFloat(string(text), 64)
	v.SetFloat(f)
	return err
}

// number passes a number as JSON writes it.
func (r *recordReader) number() ([]byte, error) {
	r.next()
	text := r.word()
	digits := bytes.TrimPrefix(text, []byte("-"))
	if len(digits) == 0 {
		return nil, r.unexpected()
	}
	if !json.Valid(text) || digits[0] < '0' || digits[0] > '9' {
		return nil, fmt.Errorf("%.40q is no number", text)
	}
	return text, nil
}

func readUint(r *recordReader, v reflect.Value) error {
	text, err := r.number()
	if err != nil {
		return err
	}
	n, err := strconv.ParseUint(string(text), 10, 64)
	v.SetUint(n)
	return err
}

func readInt(r *recordReader, v reflect.Value) error {
	text, err := r.number()
	if err != nil {
		return err
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err == nil && v.OverflowInt(n) {
		err = strconv.ErrRange
	}
	v.SetInt(n)
	return err
}

func readString(r *recordReader, v reflect.Value) error {
	text, err := r.string()
	v.SetString(text)
	return err
}

// readJSON reads what is rare, or reads itself.
func readJSON(r *recordReader, v reflect.Value) error {
	text, err := r.whole()
	if err != nil {
		return err
	}
	return json.Unmarshal(text, v.Addr().Interface())
}

// pass passes a value that this version has no place for.
func (r *recordReader) pass() error {
	text, err := r.whole()
	if err == nil && !json.Valid(text) {
		err = fmt.Errorf("%.40q is no value", text)
	}
	return err
}
