package wire

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A Decoder reads the states of one node. One goroutine at a time uses it.
type Decoder struct {
	node    string
	packers *Packers
	shared  *gpu.Shared
	base    *base // nil: none yet
}

// A base is a whole state, packed: it takes a tenth of its record.
type base struct {
	instance string
	number   uint64
	frame    []byte
}

// NewDecoder returns a Decoder for the node with that key. All Decoders of a hub use the same Packers (nil: the Decoder gets its own) and one
// Shared, so that what nodes have in common is in memory once (nil: nothing is shared).
func NewDecoder(node string, packers *Packers, shared *gpu.Shared) *Decoder {
	return &Decoder{node: node, packers: cmp.Or(packers, new(Packers)), shared: shared}
}

// Decode reads a message. It keeps none of its bytes. The errors are those above. A bad message changes nothing: the next
// good one is read as if the bad one had not arrived.
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
	p := d.packers.borrow()
	defer d.packers.giveBack(p)
	text, err := p.unpack(h, frame, beside)
	if err != nil {
		return nil, err
	}
	r := new(record)
	if err := gpu.ReadRecord(&gpu.RecordReader{Room: maxValues, Shared: d.shared}, text, r); err != nil {
		if errors.Is(err, gpu.ErrNoRoom) {
			return nil, fmt.Errorf("%w: %w", ErrTooLarge, err)
		}
		return nil, &fieldError{err}
	}
	return r, nil
}

// A fieldError names the field of a record that can't be read. The sender's text in it may be long.
type fieldError struct{ err error }

// Error returns at most a few lines.
func (e *fieldError) Error() string {
	const most = 300
	return fmt.Sprintf("%v: the field %.*s", ErrUnreadable, most, e.err)
}

// Unwrap returns only ErrUnreadable: callers can't distinguish errors within a record.
func (e *fieldError) Unwrap() error { return ErrUnreadable }
