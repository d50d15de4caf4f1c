package gpu

import (
	"hash/maphash"
	"reflect"
	"sync/atomic"
)

// Shared keeps one copy of what the records of many devices have in common: short texts (names, versions, words) and lists of
// NVLink links. It holds some thousands, and replaces old ones. The zero Shared is ready to use, also by many goroutines. Values
// read with it must not be changed.
type Shared struct {
	texts [1 << 14]atomic.Pointer[string]
	lists [1 << 10]atomic.Pointer[sharedList]
}

type sharedList struct {
	text  string
	value reflect.Value
}

const (
	longestSharedText = 64      // bytes; longer ones are sentences with figures in them
	longestSharedList = 8 << 10 // bytes of its text
)

var sharedSeed = maphash.MakeSeed()

func slotOf[T any](slots []atomic.Pointer[T], text []byte) *atomic.Pointer[T] {
	return &slots[maphash.Bytes(sharedSeed, text)%uint64(len(slots))]
}

func (s *Shared) text(b []byte) string {
	if s == nil || len(b) > longestSharedText {
		return string(b)
	}
	slot := slotOf(s.texts[:], b)
	if known := slot.Load(); known != nil && *known == string(b) {
		return *known
	}
	text := string(b)
	slot.Store(&text)
	return text
}

// sharedReader reads a list that is mostly as in another record: then it is that one's.
func sharedReader(read readFunc) readFunc {
	return func(r *recordReader, v reflect.Value) error {
		if r.reader == nil || r.reader.Shared == nil {
			return read(r, v)
		}
		r.next()
		begin := r.pos
		text, err := r.whole()
		if err != nil {
			return err
		}
		if len(text) > longestSharedList {
			r.pos = begin
			return read(r, v)
		}
		slot := slotOf(r.reader.Shared.lists[:], text)
		if known := slot.Load(); known != nil && known.text == string(text) {
			v.Set(known.value)
			return nil
		}
		r.pos = begin
		if err := read(r, v); err != nil {
			return err
		}
		list := reflect.New(v.Type()).Elem() // v is a place in the record, and would keep that
		list.Set(v)
		slot.Store(&sharedList{string(text), list})
		return nil
	}
}
