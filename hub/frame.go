package hub

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"sync"
	"sync/atomic"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A Frame is a snapshot with its encodings: for everybody, and for each filter
// in use. Each is made once, by whoever needs it first.
type Frame struct {
	Snapshot *gpu.Snapshot

	hub      *Hub
	whole    func() (packet, error)
	greeting func() (packet, error)
	failed   atomic.Bool // an encoding of it failed

	mu       sync.Mutex
	filtered map[string]func() (packet, error) // by filter.key
}

func (h *Hub) newFrame(s *gpu.Snapshot) *Frame {
	f := &Frame{Snapshot: s, hub: h}
	f.whole = sync.OnceValues(func() (packet, error) { return f.encode(s) })
	f.greeting = sync.OnceValues(f.greet)
	return f
}

// Data is what Config.Encode made of the snapshot: the data of
// gpu_status_update, and the very bytes that the viewers get. It must not be
// changed.
func (f *Frame) Data() []byte {
	p, err := f.whole()
	if err != nil {
		return nil // never for a frame that Newest returns
	}
	return p.data()
}

func (f *Frame) encode(s *gpu.Snapshot) (packet, error) {
	data, err := f.hub.encode(s)
	if err != nil {
		f.failed.Store(true)
		return packet{}, err
	}
	return newPacket(eventUpdate, data), nil
}

func (f *Frame) greet() (packet, error) {
	encoded := []byte("null")
	if f.Snapshot != nil {
		encoded = f.Data()
	}
	data, err := f.hub.status(f.Snapshot, encoded)
	if err != nil {
		return packet{}, err
	}
	return newPacket(eventStatus, data), nil
}

// packet returns the frame as a viewer with this filter gets it.
func (f *Frame) packet(by *filter) (packet, error) {
	if by.key == "" {
		return f.whole()
	}
	f.mu.Lock()
	get, ok := f.filtered[by.key]
	if !ok {
		get = sync.OnceValues(func() (packet, error) { return f.filter(by) })
		if f.filtered == nil {
			f.filtered = make(map[string]func() (packet, error))
		}
		f.filtered[by.key] = get
	}
	f.mu.Unlock()
	return get()
}

func (f *Frame) filter(by *filter) (packet, error) {
	part := f.Snapshot.Filtered(by.keeps)
	if len(part.Devices) == len(f.Snapshot.Devices) {
		return f.whole()
	}
	return f.encode(part)
}

// A packet is one message as it goes over the wire, the same bytes for every
// viewer: the WebSocket frame's header (a server's frames carry no mask), then
// {"event":NAME,"data":DATA}.
type packet struct {
	bytes []byte
	start int // of DATA
}

func newPacket(event string, data []byte) packet {
	opening := append(appendQuoted([]byte(`{"event":`), event), `,"data":`...)
	size := len(opening) + len(data) + len(`}`)
	b := appendHeader(make([]byte, 0, maxHeader+size), size)
	b = append(b, opening...)
	start := len(b)
	b = append(b, data...)
	return packet{append(b, '}'), start}
}

// data is DATA alone.
func (p packet) data() []byte { return p.bytes[p.start : len(p.bytes)-1 : len(p.bytes)-1] }

// reply returns p's event and data as the answer to the request id. The data is
// shared with p, not copied.
func (p packet) reply(event string, id json.RawMessage) message {
	if id == nil {
		return message{head: p.bytes, kind: kindReply}
	}
	opening := appendQuoted([]byte(`{"event":`), event)
	opening = append(append(opening, `,"id":`...), id...)
	opening = append(opening, `,"data":`...)
	tail := p.bytes[p.start:]
	head := appendHeader(make([]byte, 0, maxHeader+len(opening)), len(opening)+len(tail))
	return message{head: append(head, opening...), tail: tail, kind: kindReply}
}

// A message is what goes to one viewer: a WebSocket frame in one or two pieces.
type message struct {
	head, tail []byte
	kind       kind
}

type kind int

const (
	kindState    kind = iota // what a newer one may replace
	kindEvent                // announced while the viewer was there
	kindStanding             // announced before
	kindReply                // to the viewer's own request
)

const (
	maxHeader   = 10
	textFrame   = 0x81 // final fragment, opcode 1
	opcodeBits  = 0x0f
	closeOpcode = 0x8
)

var pingFrame = []byte{0x89, 0} // final fragment, opcode 9, no payload

// appendHeader appends the header of an unmasked text frame (RFC 6455, 5.2).
func appendHeader(b []byte, size int) []byte {
	switch {
	case size <= 125:
		return append(b, textFrame, byte(size))
	case size <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(b, textFrame, 126), uint16(size))
	default:
		return binary.BigEndian.AppendUint64(append(b, textFrame, 127), uint64(size))
	}
}

// appendQuoted appends s as a JSON string.
func appendQuoted(b []byte, s string) []byte {
	quoted, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string can always be marshaled
	}
	return append(b, quoted...)
}
