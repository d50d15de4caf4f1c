package wire

import (
	"cmp"
	"crypto/rand"
	"fmt"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// An Encoder writes the states of one node, for one run of the program. One goroutine at a time may use it.
type Encoder struct {
	packers  *Packers
	instance string
	number   uint64 // of the last whole state; 0: none
	size     int    // of its message
	beside   []byte // its record
	text     []byte // room for the next
}

// NewEncoder returns an Encoder for a new run. All Encoders of a program use the same Packers; nil: the Encoder gets its own.
func NewEncoder(packers *Packers) *Encoder {
	return &Encoder{packers: cmp.Or(packers, new(Packers)), instance: rand.Text()}
}

// Instance returns the run that the Encoder's messages name.
func (e *Encoder) Instance() string { return e.instance }

// Encode writes a state as a delta to the last whole one. If there is none, or if a delta would save little, it writes a whole
// state and says so: then it must also be stored where readers get whole states. The error is [ErrTooLarge], [ErrOfAnother]
// if a device belongs to another node, or says what can't be written.
func (e *Encoder) Encode(s *State) (message []byte, isWhole bool, err error) {
	if e.number > 0 {
		const little = 4 // a delta that saves less than a quarter
		message, err = e.encode(s, delta)
		if err != nil || len(message) <= e.size-e.size/little {
			return message, false, err
		}
	}
	message, err = e.EncodeWhole(s)
	return message, true, err
}

// EncodeWhole writes a whole state. The deltas that follow are based on it. The errors are those of Encode.
func (e *Encoder) EncodeWhole(s *State) (message []byte, err error) { return e.encode(s, whole) }

func (e *Encoder) encode(s *State, kind kind) ([]byte, error) {
	r, err := recordOf(s, e.instance)
	if err == nil {
		e.text, err = gpu.AppendRecord(e.text[:0], r)
	}
	if err != nil {
		return nil, fmt.Errorf("can't encode a state: %w", err)
	}
	if len(e.text) > maxUnpacked {
		return nil, fmt.Errorf("%w: %d bytes, and the limit is %d", ErrTooLarge, len(e.text), maxUnpacked)
	}
	h := header{protocol: Spoken, kind: kind, number: e.number, size: uint64(len(e.text)), instance: e.instance}
	beside := e.beside
	if kind == whole {
		h.number++
		beside = nil
	}
	p := e.packers.borrow()
	defer e.packers.giveBack(p)
	message, err := p.pack(h.append(nil), e.text, beside)
	if err != nil {
		return nil, err
	}
	if len(message) > MaxPacked {
		return nil, fmt.Errorf("%w: %d bytes, and the limit is %d", ErrTooLarge, len(message), MaxPacked)
	}
	if kind == whole {
		// A packer may still hold the old one as its dictionary, so it is not written over.
		e.number, e.size, e.beside, e.text = h.number, len(message), e.text, nil
	}
	return message, nil
}
