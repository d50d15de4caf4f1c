package wire

import (
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/klauspost/compress/zstd"
)

const (
	dictionary = 1       // the ID of the only one
	window     = 1 << 20 // bytes that a packer looks back: over the records of a hundred GPUs and the state beside
	keptBuffer = 1 << 20 // bytes of the largest buffer that is kept for the next message
)

// A packer packs and unpacks one message at a time. It belongs to no node, since ten thousand packers would take gigabytes. What
// it needs from a node is passed each time.
type packer struct {
	encoder *zstd.Encoder
	decoder *zstd.Decoder
	beside  []byte // that the encoder has
	base    []byte // room for what is unpacked
	text    []byte
}

// Packers pack and unpack messages of many nodes. They keep memory for as many messages as can be processed at once. The zero Packers is
// ready to use, also by many goroutines.
type Packers struct {
	once sync.Once
	idle chan *packer // that nobody uses now
}

func (all *Packers) borrow() *packer {
	all.once.Do(func() { all.idle = make(chan *packer, runtime.GOMAXPROCS(0)) })
	select {
	case p := <-all.idle:
		return p
	default:
		return new(packer)
	}
}

func (all *Packers) giveBack(p *packer) {
	if cap(p.base) > keptBuffer {
		p.base = nil
	}
	if cap(p.text) > keptBuffer {
		p.text = nil
	}
	select {
	case all.idle <- p:
	default:
	}
}

// pack appends a record, packed as a delta to another one; nil: on its own.
func (p *packer) pack(out, record, beside []byte) ([]byte, error) {
	var err error
	if p.encoder == nil {
		p.encoder, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest),
			zstd.WithWindowSize(window), zstd.WithLowerEncoderMem(true))
		if err != nil {
			return nil, fmt.Errorf("can't compress a state: %w", err)
		}
	}
	if len(p.beside) != len(beside) || len(beside) > 0 && &p.beside[0] != &beside[0] {
		set := zstd.WithEncoderDictDelete()
		if len(beside) > 0 {
			set = zstd.WithEncoderDictRaw(dictionary, beside)
		}
		if err := p.encoder.ResetWithOptions(nil, set); err != nil {
			p.encoder = nil
			return nil, fmt.Errorf("can't compress a state: %w", err)
		}
		p.beside = beside
	}
	return p.encoder.EncodeAll(record, out), nil
}

// unpack returns a record, which is valid until the next call.
func (p *packer) unpack(h *header, frame []byte, beside *base) ([]byte, error) {
	var err error
	if beside != nil {
		if p.base, err = p.whole(p.base, beside.frame, nil); err != nil {
			return nil, err
		}
		p.text, err = p.whole(p.text, frame, p.base)
	} else {
		p.text, err = p.whole(p.text, frame, nil)
	}
	if err == nil && uint64(len(p.text)) != h.size {
		err = fmt.Errorf("%w: %d bytes, but it says %d", ErrUnreadable, len(p.text), h.size)
	}
	return p.text, err
}

func (p *packer) whole(into, frame, beside []byte) ([]byte, error) {
	var err error
	if p.decoder == nil {
		p.decoder, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(maxUnpacked))
		if err != nil {
			return nil, fmt.Errorf("can't decompress a state: %w", err)
		}
	}
	set := zstd.WithDecoderDictDelete()
	if beside != nil {
		set = zstd.WithDecoderDictRaw(dictionary, beside)
	}
	if err := p.decoder.ResetWithOptions(nil, set); err != nil {
		p.decoder = nil
		return nil, fmt.Errorf("can't decompress a state: %w", err)
	}
	text, err := p.decoder.DecodeAll(frame, into[:0])
	switch {
	case errors.Is(err, zstd.ErrDecoderSizeExceeded), errors.Is(err, zstd.ErrWindowSizeExceeded):
		return nil, fmt.Errorf("%w: %w", ErrTooLarge, err)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	return text, nil
}
