package wire

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"sync/atomic"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A Decoder reads the states of one node. One goroutine at a time uses it.
type Decoder struct {
	node  string
	texts *Texts
	base  *base // nil: none yet
}

// A base is a whole state, packed: it takes a tenth of its record.
type base struct {
	instance string
	number   uint64
	frame    []byte
}

// NewDecoder returns a Decoder of the node of that key. Decoders share the texts that many of them read; nil: no other does.
func NewDecoder(node string, texts *Texts) *Decoder {
	if texts == nil {
		texts = new(Texts)
	}
	return &Decoder{node: node, texts: texts}
}

// Decode reads a message. It keeps nothing of its bytes. The errors are those above, and none of them changes anything: the
// next good message is read as if the bad one had not been.
func (d *Decoder) Decode(message []byte) (*State, error) {
	h, frame, err := cut(message)
	if err != nil {
		return nil, err
	}
	late := d.base != nil && d.base.instance == h.instance && h.number < d.base.number
	var beside *base
	switch {
	case late:
		return nil, ErrLate
	case h.kind == whole:
	case d.base == nil || d.base.instance != h.instance || h.number != d.base.number:
		return nil, ErrNoBase
	default:
		beside = d.base
	}
	r, err := d.record(&h, frame, beside)
	if err != nil {
		return nil, err
	}
	s, err := r.state(&h, d.node)
	if err != nil {
		return nil, err
	}
	if h.kind == whole {
		d.base = &base{h.instance, h.number, bytes.Clone(frame)}
	}
	return s, nil
}

func (d *Decoder) record(h *header, frame []byte, beside *base) (*record, error) {
	p := borrow()
	defer p.giveBack()
	text, err := p.unpack(h, frame, beside)
	if err != nil {
		return nil, err
	}
	r := new(record)
	if err := gpu.ReadRecord(&gpu.RecordReader{Room: maxValues, Text: d.texts.text}, text, r); err != nil {
		if errors.Is(err, gpu.ErrNoRoom) {
			return nil, fmt.Errorf("%w: %w", ErrTooLarge, err)
		}
		return nil, &fieldError{err}
	}
	return r, nil
}

// A fieldError says which field of a record can't be read. What the sender wrote there may be long.
type fieldError struct{ err error }

// Error is at most a few lines.
func (e *fieldError) Error() string {
	const most = 300
	return fmt.Sprintf("%v: the field %.*s", ErrUnreadable, most, e.err)
}

// Unwrap returns ErrUnreadable alone: of what is wrong in a record nothing else can be told apart.
func (e *fieldError) Unwrap() error { return ErrUnreadable }

// Texts are short texts that states have in common: names, versions, units, words, those of a node's last state. It holds at most
// so many, and forgets one where another takes its place. Its zero is ready, and many goroutines may use one.
type Texts struct {
	slots [1 << 14]atomic.Pointer[string]
}

const longestShared = 64 // bytes; longer ones are sentences with figures in them

var seed = maphash.MakeSeed()

func (t *Texts) text(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if len(b) > longestShared {
		return string(b)
	}
	slot := &t.slots[maphash.Bytes(seed, b)%uint64(len(t.slots))]
	if s := slot.Load(); s != nil && *s == string(b) {
		return *s
	}
	s := string(b)
	slot.Store(&s)
	return s
}
