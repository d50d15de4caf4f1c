// Package wire turns a node's state into bytes, and back into a state at another gpuwhy. It does not know how bytes travel.
//
// A message is a header and a packed record. The header has the protocol's version, the sender's run and a number. The record
// is JSON with field names, as [gpu.AppendRecord] writes it: exact, and without zero values. It is packed on its own (a whole
// state), or relative to the last whole state (a delta), so that unchanged data costs almost nothing. A delta needs that one
// whole state and no other delta, so a lost delta does no harm. A delta names the sender's run and the whole state's number,
// so it is never applied to another state. The packed frame also has a checksum.
//
// The receiver computes from the readings who uses what, so that is not sent. The answer is sent, since it needs the node's
// past.
//
// How the protocol changes:
//
//   - A new field raises the minor version. A reader skips fields that it does not know, treats missing ones as "not said",
//     and a reading with an unknown quality as "not reported". It keeps unknown words (kinds, states, reasons) as they are.
//   - Removing a field, changing its type or meaning, or moving a header field needs a new major version. A message of another
//     major version is refused with [ErrVersion].
//   - testdata/schema.txt has all fields; a test compares it with the code.
package wire

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight"
)

// A Protocol is a version of how states are written.
type Protocol struct{ Major, Minor int }

// Spoken is the version that this program writes. It reads all minor versions of the same major version.
var Spoken = Protocol{Major: 1, Minor: 0}

// String returns the version as text, such as "1.0".
func (p Protocol) String() string { return fmt.Sprintf("%d.%d", p.Major, p.Minor) }

// A Hello identifies the sender.
type Hello struct {
	Version  string        // of the sender's program
	Protocol Protocol      // of the message; an Encoder writes [Spoken]
	Instance string        // random, of one run of the sender; an Encoder writes its own
	Started  time.Time     // when that run began, by the sender's clock
	Sent     time.Time     // when the message was made, by the sender's clock
	Interval time.Duration // between the sender's states; zero where it does not say
}

// A State is what a node reports about itself at one time.
type State struct {
	Hello
	// Moment is the node's Moment, with its Place. Its Link is not sent, since the receiver sets it.
	Moment *insight.Moment
	// Extra has other sections by name, such as "alerts"; the name determines the format. All are kept.
	Extra map[string]json.RawMessage
}

// Why a message is refused. A refused message does not change a [Decoder].
var (
	ErrNoBase     = errors.New("the whole state that this is based on is missing") // ask the node for it
	ErrLate       = errors.New("a newer whole state of the same run is here")      // nothing is lost
	ErrVersion    = errors.New("another version of the protocol")                  // in a [gpu.Advice]
	ErrTooLarge   = errors.New("larger than a message may be")
	ErrUnreadable = errors.New("it can't be read")
	ErrOfAnother  = errors.New("it is about another node")
)

// Limits of a message. Anything larger is refused before memory is allocated for it.
const (
	MaxPacked   = 1 << 20  // bytes of a message
	maxUnpacked = 4 << 20  // bytes of its record
	maxValues   = 16 << 20 // bytes of the values of the record, beside their texts
	maxSections = 64
	maxLabels   = 1000
)

type kind byte

const (
	whole kind = 1
	delta kind = 2
)

// A header starts a message: magic, major and minor version, and the length of the rest of the header, which has the kind,
// number, size and instance. Later minor versions append to those.
type header struct {
	protocol Protocol
	kind     kind
	number   uint64 // of the whole state, from 1; of a delta, of the one beside it
	size     uint64 // bytes of the record
	instance string
}

const (
	magic        = "GPUW"
	fixed        = len(magic) + 3 // up to the rest
	mostInstance = 64             // bytes of an instance
)

func (h *header) append(b []byte) []byte {
	b = append(append(b, magic...), byte(h.protocol.Major), byte(h.protocol.Minor), 0)
	begin := len(b)
	b = binary.AppendUvarint(binary.AppendUvarint(append(b, byte(h.kind)), h.number), h.size)
	b = append(append(b, byte(len(h.instance))), h.instance...)
	b[begin-1] = byte(len(b) - begin)
	return b
}

// InstanceOf returns the sender's run that a message names. The errors are those of [Decoder.Decode].
func InstanceOf(message []byte) (string, error) {
	h, _, err := cut(message)
	return h.instance, err
}

// cut reads the header of a message, and returns the rest.
func cut(message []byte) (h header, frame []byte, err error) {
	switch {
	case len(message) > MaxPacked:
		return h, nil, fmt.Errorf("%w: %d bytes, and the limit is %d", ErrTooLarge, len(message), MaxPacked)
	case len(message) < fixed || string(message[:len(magic)]) != magic:
		return h, nil, fmt.Errorf("%w: it is not a gpuwhy message", ErrUnreadable)
	}
	h.protocol = Protocol{int(message[len(magic)]), int(message[len(magic)+1])}
	if h.protocol.Major != Spoken.Major {
		return h, nil, otherVersion(h.protocol)
	}
	b := message[fixed:]
	n := int(message[fixed-1])
	if n > len(b) {
		return h, nil, fmt.Errorf("%w: its header is cut off", ErrUnreadable)
	}
	b, frame = b[:n], b[n:]
	bad := fmt.Errorf("%w: its header is damaged", ErrUnreadable)
	if len(b) == 0 {
		return h, nil, bad
	}
	h.kind, b = kind(b[0]), b[1:]
	for _, number := range []*uint64{&h.number, &h.size} {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			return h, nil, bad
		}
		*number, b = v, b[n:]
	}
	if len(b) == 0 || int(b[0]) > len(b)-1 || b[0] == 0 || b[0] > mostInstance {
		return h, nil, bad
	}
	h.instance = string(b[1 : 1+b[0]])
	switch {
	case h.kind != whole && h.kind != delta:
		return h, nil, fmt.Errorf("%w: messages of kind %d are unknown", ErrUnreadable, h.kind)
	case h.size > maxUnpacked:
		return h, nil, fmt.Errorf("%w: %d bytes when unpacked, and the limit is %d", ErrTooLarge, h.size, maxUnpacked)
	}
	return h, frame, nil
}

// otherVersion says which of the two programs to update.
func otherVersion(theirs Protocol) error {
	advice := &gpu.Advice{
		What: fmt.Sprintf("it speaks version %s of the protocol between gpuwhys, and this one speaks version %s", theirs, Spoken),
		Try:  "update gpuwhy here", Err: ErrVersion,
	}
	if theirs.Major < Spoken.Major {
		advice.Try = "update gpuwhy on the node"
	}
	return advice
}
