package postgres

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/past/store/frames"
)

// A keyFrame is the newest of a machine.
type keyFrame struct {
	time time.Time
	*frames.Key
}

type frameID struct {
	device int64
	time   time.Time
}

func (w *writing) frames(ctx context.Context) error {
	id := func(f *store.Frame) frameID { return frameID{w.id(store.Key{Node: f.Node}), moment(f.Time)} }
	var rows [][]any
	for _, f := range latest(w.batch.Frames, id) {
		frame := id(f)
		key, err := w.keyFrame(ctx, frame, f.Snapshot)
		if err != nil {
			return err
		}
		packed, err := w.pack(f.Snapshot, key)
		if err != nil {
			return err
		}
		rows = append(rows, []any{frame.device, frame.time, packed})
	}
	return frameTable.merge(ctx, w.tx, rows, w.batch.Delivered)
}

func (s *Store) pack(record []byte, key *frames.Key) ([]byte, error) {
	s.packing.Lock()
	defer s.packing.Unlock()
	return s.packer.Pack(nil, record, key)
}

// keyFrame is that of a frame's quarter of an hour: the first frame of it that anybody writes.
func (w *writing) keyFrame(ctx context.Context, frame frameID, record []byte) (*frames.Key, error) {
	begin := frames.KeyTime(frame.time)
	newest := w.keys[frame.device]
	if newest.Key == nil {
		w.know(func(k *known) { newest = k.keys[frame.device] })
	}
	if newest.Key != nil && newest.time.Equal(begin) {
		return newest.Key, nil
	}
	packed, err := w.pack(record, nil)
	if err != nil {
		return nil, err
	}
	const insert = "INSERT INTO key_frames (device, time, record) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING"
	tag, err := w.tx.Exec(ctx, insert, frame.device, begin, packed)
	if err != nil {
		return nil, err
	}
	key := frames.NewKey(record)
	if tag.RowsAffected() == 0 {
		var u frames.Unpacker
		defer u.Close()
		if key, err = readKey(ctx, w.tx, frameID{frame.device, begin}, &u); err != nil {
			return nil, err
		}
	}
	if w.keys == nil {
		w.keys = map[int64]keyFrame{}
	}
	w.keys[frame.device] = keyFrame{begin, key}
	return key, nil
}

func readKey(ctx context.Context, q querier, frame frameID, u *frames.Unpacker) (*frames.Key, error) {
	var packed []byte
	err := q.QueryRow(ctx, "SELECT record FROM key_frames WHERE device = $1 AND time = $2", frame.device, frame.time).Scan(&packed)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("%w: the key frame of %v is not there", store.ErrCorrupt, frame.time)
	}
	if err != nil {
		return nil, err
	}
	record, err := u.Unpack(packed, nil)
	if err != nil {
		return nil, err
	}
	return frames.NewKey(record), nil
}

// Frames yields frames.
func (s *Store) Frames(ctx context.Context, q store.Query) iter.Seq2[store.Frame, error] {
	var machines []store.Key
	for _, k := range q.Keys {
		machines = append(machines, store.Key{Node: k.Node})
	}
	return stream(ctx, s, func(yield func(store.Frame) error) error {
		return pgx.BeginTxFunc(ctx, s.asker(ctx), snapshot, func(tx pgx.Tx) error {
			all, err := find(ctx, tx, machines, true)
			if err != nil {
				return err
			}
			slices.SortFunc(all, func(a, b found) int { return compareKeys(a.Device, b.Device) })
			r := frameReader{q: &q, tx: tx}
			defer r.whole.Close()
			defer r.beside.Close()
			for _, m := range all {
				if err := r.read(ctx, m, yield); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// A frameReader reads frames of one machine after another.
type frameReader struct {
	q             *store.Query
	tx            pgx.Tx
	whole, beside frames.Unpacker // of key frames, and of the others
	keyID         frameID         // of the key frame
	key           *frames.Key
}

// page is how many frames are read at once. A reader who wants one does not wait for a day of them.
const page = 64

// read yields the frames of one machine.
func (r *frameReader) read(ctx context.Context, m found, yield func(store.Frame) error) error {
	from, to := bound(r.q.From, pgtype.NegativeInfinity), bound(r.q.To, pgtype.Infinity)
	for condition := "time >= $2"; ; condition = "time > $2" {
		rows, err := r.tx.Query(ctx, "SELECT time, record FROM frames WHERE device = $1 AND "+condition+
			" AND time < $3 ORDER BY time LIMIT "+strconv.Itoa(page), m.id, from, to)
		if err != nil {
			return err
		}
		some, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (f store.Frame, err error) {
			f.Node = m.Node
			err = row.Scan(&f.Time, &f.Snapshot)
			inUTC(&f.Time)
			return f, err
		})
		if err != nil {
			return err
		}
		for _, f := range some {
			if f.Snapshot, err = r.unpack(ctx, m.id, f); err != nil {
				return err
			}
			if err := yield(f); err != nil {
				return err
			}
		}
		if len(some) < page {
			return nil
		}
		from = bound(some[page-1].Time, pgtype.NegativeInfinity)
	}
}

func (r *frameReader) unpack(ctx context.Context, device int64, f store.Frame) ([]byte, error) {
	if keyID := (frameID{device, frames.KeyTime(f.Time)}); r.key == nil || keyID != r.keyID {
		key, err := readKey(ctx, r.tx, keyID, &r.whole)
		if err != nil {
			return nil, err
		}
		r.keyID, r.key = keyID, key
	}
	return r.beside.Unpack(f.Snapshot, r.key)
}
