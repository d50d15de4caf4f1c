package sqlite

import (
	"cmp"
	"context"
	"database/sql/driver"
	"fmt"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/past/store/frames"
)

const quarter = int64(frames.Span / time.Millisecond) // of an hour

// quarterOf is when the quarter of an hour begins.
func quarterOf(ms int64) int64 { return ms - ms%quarter }

// A frameWriter packs frames. It knows the newest key frame of each machine.
type frameWriter struct {
	packer frames.Packer
	keys   map[int64]keyFrame
	buffer []byte
}

type frameKey struct{ device, quarter int64 }

type keyFrame struct {
	quarter int64
	*frames.Key
}

// forget makes it read key frames again: what it has written is not in the database.
func (w *frameWriter) forget() { clear(w.keys) }

func (w *frameWriter) write(c *conn, device int64, f *store.Frame) error {
	stamped := stamp(f.Time)
	key, err := w.key(c, frameKey{device, quarterOf(stamped)}, f.Snapshot)
	if err != nil {
		return err
	}
	packed, err := w.pack(f.Snapshot, key)
	if err != nil {
		return err
	}
	_, err = c.exec("INSERT OR REPLACE INTO frames (device, time, record) VALUES (?, ?, ?)", device, stamped, packed)
	return err
}

// pack returns bytes that are valid until the next call.
func (w *frameWriter) pack(record []byte, key *frames.Key) (packed []byte, err error) {
	w.buffer, err = w.packer.Pack(w.buffer[:0], record, key)
	return w.buffer, err
}

// key is the key frame of a quarter: the first frame that is written of it.
func (w *frameWriter) key(c *conn, place frameKey, first []byte) (*frames.Key, error) {
	if k := w.keys[place.device]; k.Key != nil && k.quarter == place.quarter {
		return k.Key, nil
	}
	var r frameReader
	defer r.close()
	key, err := r.readKey(context.Background(), c, place)
	if err != nil {
		return nil, err
	}
	if key == nil {
		key = frames.NewKey(first)
		packed, err := w.pack(first, nil)
		if err != nil {
			return nil, err
		}
		if _, err := c.exec("INSERT INTO key_frames (device, time, record) VALUES (?, ?, ?)", place.device, place.quarter, packed); err != nil {
			return nil, err
		}
	}
	if w.keys == nil {
		w.keys = map[int64]keyFrame{}
	}
	w.keys[place.device] = keyFrame{place.quarter, key}
	return key, nil
}

// A frameReader reads frames of one machine after another.
type frameReader struct {
	whole, beside frames.Unpacker // of key frames, and of the others
	place         frameKey
	key           *frames.Key // of that
}

func (r *frameReader) close() {
	r.whole.Close()
	r.beside.Close()
}

// readKey reads the key frame of a quarter; nil where there is none.
func (r *frameReader) readKey(ctx context.Context, c *conn, place frameKey) (*frames.Key, error) {
	var packed []byte
	const text = "SELECT record FROM key_frames WHERE device = ? AND time = ?"
	err := c.query(ctx, text, []any{place.device, place.quarter}, func(row []driver.Value) error {
		packed = blob(row[0])
		return nil
	})
	if err != nil || packed == nil {
		return nil, err
	}
	record, err := r.whole.Unpack(packed, nil)
	if err != nil {
		return nil, err
	}
	return frames.NewKey(record), nil
}

// read returns the frame that is kept as packed.
func (r *frameReader) read(ctx context.Context, c *conn, device, stamped int64, packed []byte) ([]byte, error) {
	if place := (frameKey{device, quarterOf(stamped)}); r.key == nil || place != r.place {
		key, err := r.readKey(ctx, c, place)
		if key == nil {
			return nil, cmp.Or(err, fmt.Errorf("%w: the key frame of a frame is not there", store.ErrCorrupt))
		}
		r.place, r.key = place, key
	}
	return r.beside.Unpack(packed, r.key)
}
