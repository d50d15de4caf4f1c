package hub

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/lazy"
)

// A frame is a Moment with its encodings.
type frame struct {
	hub     *Hub
	moment  *insight.Moment
	number  uint64      // counts all published frames, from 1
	failed  atomic.Bool // encoding it failed at least once
	packets lazy.Map[view, packet]
	patches lazy.Map[step, packet]
}

// A step is the way from a viewer's current frame to another one, in the form that the viewer gets.
type step struct {
	view
	baseNumber uint64 // number of the viewer's frame; 0: none
	had        part   // of that frame
}

// A base is the update that a viewer has of one node.
type base struct {
	number, seq uint64 // numbers of the frame and of the snapshot
	part        part
	data        []byte
}

// A view is a part of a Moment for one audience.
type view struct {
	audience auth.Audience
	part     part
}

// A part is the set of devices of a Moment that a filter keeps, as a bit for each; empty means all. Two filters may have the same part.
type part string

func (f *frame) part(filter *filter) part {
	devices := f.moment.Snapshot.Devices
	if !filter.narrow {
		return ""
	}
	kept, bits := 0, make([]byte, len(devices)/8+1)
	for i := range devices {
		if filter.keeps(&devices[i]) {
			kept++
			bits[i/8] |= 1 << (i % 8)
		}
	}
	if kept == len(devices) {
		return ""
	}
	return part(bits)
}

// packet returns the frame's update with the devices that a filter keeps.
func (f *frame) packet(audience auth.Audience, filter *filter) (packet, error) {
	return f.packetOf(view{audience, f.part(filter)}, filter)
}

func (f *frame) packetOf(v view, filter *filter) (packet, error) {
	return f.packets.Get(v, func() (packet, error) {
		var keep func(*gpu.Device) bool
		if v.part != "" {
			keep = filter.keeps
		}
		f.hub.counts.encodings.Add(1)
		data, err := f.hub.encoding.encoded(f.hub.cfg.Encode(f.moment.For(v.audience), v.audience, keep))
		if err != nil {
			f.failed.Store(true)
			return packet{}, err
		}
		return newPacket(eventUpdate, data).compressible(), nil
	})
}

// patch returns the patch from a viewer's current update to this one, and the base it has
// afterwards.
func (f *frame) patch(audience auth.Audience, filter *filter, current base) (packet, base, error) {
	v := view{audience, f.part(filter)}
	p, err := f.packetOf(v, filter)
	if err != nil {
		return packet{}, current, err
	}
	now := base{f.number, f.moment.Snapshot.Seq, v.part, p.data()}
	out, err := f.patches.Get(step{v, current.number, current.part}, func() (packet, error) {
		patch, err := f.hub.patching.encoded(f.hub.cfg.Patch(current.data, now.data))
		if err != nil {
			return packet{}, err
		}
		f.hub.patching.end()
		baseSeq := []byte("null")
		if current.number > 0 {
			baseSeq = strconv.AppendUint(nil, current.seq, 10)
		}
		node, err := json.Marshal(f.moment.Snapshot.Node)
		if err != nil {
			panic(err) // a string can always be marshaled
		}
		return newPacket(eventPatch, fmt.Appendf(nil, `{"node":%s,"base":%s,"seq":%d,"patch":%s}`, node, baseSeq, now.seq, patch)).compressible(), nil
	})
	if err != nil {
		return packet{}, current, err
	}
	return out, now, nil
}

// keptBy reports whether a filter keeps any device.
func (f *frame) keptBy(filter *filter) bool {
	devices := f.moment.Snapshot.Devices
	for i := range devices {
		if filter.keeps(&devices[i]) {
			return true
		}
	}
	return false
}

// A packet is one message as it goes over the wire to every viewer: the WebSocket frame's header, then {"event":NAME,"data":DATA}.
type packet struct {
	bytes  []byte
	header int           // length of the header
	start  int           // start of DATA
	small  func() []byte // returns the whole frame, compressed; nil if compressing is not worthwhile
}

// compressible returns the packet with a frame that is compressed once for all viewers, if that is worthwhile.
func (p packet) compressible() packet {
	if len(p.bytes) >= deflateFrom {
		p.small = sync.OnceValue(func() []byte { return deflated(p.bytes[p.header:]) })
	}
	return p
}

// frameFor returns the frame for a viewer, compressed or not.
func (p packet) frameFor(compressed bool) []byte {
	if compressed && p.small != nil {
		return p.small()
	}
	return p.bytes
}

func newPacket(event string, data []byte) packet {
	opening := fmt.Appendf(nil, `{"event":%q,"data":`, event)
	size := len(opening) + len(data) + len(`}`)
	b := appendHeader(make([]byte, 0, maxHeader+size), size)
	header := len(b)
	b = append(b, opening...)
	return packet{bytes: append(append(b, data...), '}'), header: header, start: len(b)}
}

// data returns DATA alone.
func (p packet) data() []byte { return p.bytes[p.start : len(p.bytes)-1 : len(p.bytes)-1] }

// reply returns the answer to the request id, with p's data, which is not copied.
func (p packet) reply(event string, id json.RawMessage) message {
	if id == nil {
		return message{head: p.bytes, kind: kindReply}
	}
	opening := fmt.Appendf(nil, `{"event":%q,"id":%s,"data":`, event, id)
	tail := p.bytes[p.start:]
	head := appendHeader(make([]byte, 0, maxHeader+len(opening)), len(opening)+len(tail))
	return message{head: append(head, opening...), tail: tail, kind: kindReply}
}

// A message is sent to one viewer: a WebSocket frame in one or two pieces.
type message struct {
	head, tail []byte
	kind       kind
	// If node is set, the message is that node's newest frame at the time of sending, with the id of the request.
	node   string
	filter *filter // the filter in force when the viewer asked
	id     json.RawMessage
}

type kind int

const (
	kindState    kind = iota // a frame, which a newer one may replace
	kindEvent                // an event announced while the viewer was connected
	kindStanding             // an event announced before
	kindReply                // the reply to the viewer's own request
	kindPart                 // a part of such a reply; more parts follow
)

const (
	maxHeader   = 10
	textFrame   = 0x81 // final fragment, opcode 1
	opcodeBits  = 0x0f
	closeOpcode = 0x8
)

var pingFrame = []byte{0x89, 0} // final fragment, opcode 9, no payload

// pongFrame returns the answer to a ping, which has at most 125 bytes.
func pongFrame(payload []byte) []byte { return append([]byte{0x8a, byte(len(payload))}, payload...) }

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
