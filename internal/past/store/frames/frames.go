// Package frames packs the frames of a store, which are whole snapshots. A frame mostly repeats the one before it, so each
// frame is packed against a key frame of the same machine: the first frame of its quarter of an hour. Unpacking a frame needs
// its key frame.
package frames

import (
	"fmt"
	"math/bits"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// Span is how long a key frame is one.
const Span = 15 * time.Minute

// KeyTime is when the span of a key frame begins that has this time.
func KeyTime(t time.Time) time.Time { return t.UTC().Truncate(Span) }

const (
	dictionary = 1        // the ID of the only one
	shortest   = 64       // bytes of a key frame that is worth a dictionary
	longest    = 64 << 20 // bytes of a frame that is read
)

// A Key is a key frame, whole.
type Key struct{ record []byte }

// NewKey makes a key frame of a record, of which it keeps a copy.
func NewKey(record []byte) *Key { return &Key{append([]byte{}, record...)} }

// dict is what it brings: nothing where it is missing or too short.
func (k *Key) dict() []byte {
	if k == nil || len(k.record) < shortest {
		return nil
	}
	return k.record
}

// A Packer packs frames. It is used by one goroutine at a time.
type Packer struct {
	encoder *zstd.Encoder
	key     *Key // that the encoder has
}

// Pack packs a record beside a key frame; nil: by itself. It appends that to out.
func (p *Packer) Pack(out, record []byte, key *Key) ([]byte, error) {
	if p.encoder == nil || key != p.key {
		// Another encoder for another key frame: one that is reset keeps a second one for streams, as large as itself.
		set, dict := zstd.WithEncoderDictDelete(), key.dict()
		if dict != nil {
			set = zstd.WithEncoderDictRaw(dictionary, dict)
		}
		var err error
		if p.encoder, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest),
			zstd.WithWindowSize(window(len(dict)+len(record))), zstd.WithLowerEncoderMem(true), zstd.WithZeroFrames(true), set); err != nil {
			p.encoder = nil
			return nil, fmt.Errorf("a frame can't be packed: %w", err)
		}
		p.key = key
	}
	return p.encoder.EncodeAll(record, out), nil
}

// window is how far back an encoder looks for what repeats, in bytes: over so many, as it holds as much memory.
func window(over int) int {
	const least, most = 1 << 16, 1 << 19
	return min(max(1<<bits.Len(uint(over)), least), most)
}

// An Unpacker unpacks frames. It is used by one goroutine at a time.
type Unpacker struct {
	decoder *zstd.Decoder
	key     *Key
}

// Unpack returns the record. The error is [store.ErrCorrupt] where that was not packed so.
func (u *Unpacker) Unpack(packed []byte, key *Key) ([]byte, error) {
	if u.decoder == nil || key != u.key {
		if err := u.use(key); err != nil {
			return nil, err
		}
	}
	record, err := u.decoder.DecodeAll(packed, []byte{})
	if err != nil {
		return nil, fmt.Errorf("%w: a frame can't be read: %w", store.ErrCorrupt, err)
	}
	return record, nil
}

func (u *Unpacker) use(key *Key) (err error) {
	u.Close()
	options := []zstd.DOption{zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(longest)}
	if dict := key.dict(); dict != nil {
		options = append(options, zstd.WithDecoderDictRaw(dictionary, dict))
	}
	if u.decoder, err = zstd.NewReader(nil, options...); err != nil {
		return fmt.Errorf("a frame can't be read: %w", err)
	}
	u.key = key
	return nil
}

// Close ends it. It may be used again.
func (u *Unpacker) Close() {
	if u.decoder != nil {
		u.decoder.Close()
		u.decoder = nil
	}
}
