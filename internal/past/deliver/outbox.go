package deliver

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// DefaultBytes is the default limit for waiting parcels, in bytes: what a node with eight GPUs has to deliver for several
// days.
const DefaultBytes = 512 << 20

// Lost counts the data dropped for lack of room since the program started. Rest are sessions, causes and events.
type Lost struct{ Frames, Readings, Spans, Rest int }

func (l Lost) plus(m Lost) Lost {
	return Lost{l.Frames + m.Frames, l.Readings + m.Readings, l.Spans + m.Spans, l.Rest + m.Rest}
}

// String returns a text for people; empty if nothing was lost.
func (l Lost) String() string {
	var text string
	for _, count := range []struct {
		n    int
		what string
	}{{l.Frames, "snapshots"}, {l.Readings, "readings"}, {l.Spans, "spans"}, {l.Rest, "sessions, causes and events"}} {
		if count.n > 0 {
			if text != "" {
				text += ", "
			}
			text += fmt.Sprint(count.n, " ", count.what)
		}
	}
	return text
}

// OutboxConfig configures an Outbox. Only Bytes has a default.
type OutboxConfig struct {
	Log   *slog.Logger
	Now   func() time.Time
	Bytes int64 // of parcels that wait at most; 0: DefaultBytes
	// Node is the name of the only node that this program reads: parcels that wait under its former name are sent under this one. Empty
	// for several nodes.
	Node string
	// Installation returns this program's installation ID, by which collectors distinguish it from another program with the same name; nil or "": it has none.
	Installation func() (id string, err error)
}

// An Outbox makes parcels of the data written to a store. The store keeps them until they are sent, and writes them in the same transaction as
// their data. Several goroutines may call its methods.
type Outbox struct {
	cfg   OutboxConfig
	log   *slog.Logger
	codec *codec
	more  chan struct{} // has a value when there may be something to send

	change sync.Mutex   // held by the one who changes what is kept
	kept   store.Outbox // set by Attach, once
	limit  int64
	number int64 // of the newest parcel
	full   bool  // it was said that parts are lost

	mu    sync.Mutex
	state State
}

// NewOutbox returns an outbox. It has no parcels before [Outbox.Attach].
func NewOutbox(cfg OutboxConfig) *Outbox {
	return &Outbox{cfg: cfg, log: cfg.Log.With("part", "delivery"), codec: newCodec(), more: make(chan struct{}, 1)}
}

// A Keeper is a store that can keep parcels.
type Keeper interface {
	store.Store
	store.Outbox
}

// Attach returns a store that writes to both the store and the outbox. Call it once, when the store is open.
func (o *Outbox) Attach(ctx context.Context, kept Keeper) (store.Store, error) {
	number, parcels, bytes, err := kept.LastParcel(ctx)
	if err != nil {
		return nil, err
	}
	o.change.Lock()
	defer o.change.Unlock()
	o.kept, o.limit, o.number = kept, cmp.Or(o.cfg.Bytes, DefaultBytes), number
	o.note(func(s *State) { s.Waiting, s.Bytes = parcels, bytes })
	o.wake()
	return &outboxStore{kept, o}, nil
}

// outboxStore is a store that also writes to an outbox.
type outboxStore struct {
	store.Store
	outbox *Outbox
}

// Write writes the batch, and makes parcels of it.
func (t *outboxStore) Write(ctx context.Context, b *store.Batch) error {
	o := t.outbox
	o.change.Lock()
	defer o.change.Unlock()
	installation := ""
	if o.cfg.Installation != nil {
		var err error
		if installation, err = o.cfg.Installation(); err != nil {
			return err
		}
	}
	parcels, tooLong, err := o.codec.parcels(b, installation)
	if err != nil {
		return err
	}
	next := max(o.number+1, o.cfg.Now().UnixMicro()) // also larger than those of a store that was lost
	bytes := int64(0)
	for i := range parcels {
		parcels[i].Number = next + int64(i)
		bytes += int64(len(parcels[i].Data))
	}
	whole := *b
	whole.Parcels = parcels
	if err := t.Store.Write(ctx, &whole); err != nil {
		return err
	}
	o.number = next + int64(len(parcels))
	o.note(func(s *State) {
		s.Waiting, s.Bytes, s.Lost = s.Waiting+len(parcels), s.Bytes+bytes, s.Lost.plus(tooLong)
	})
	if err := o.shrink(ctx); err != nil {
		o.log.Warn("the outbox of the past can't be made smaller", "err", err)
	}
	o.wake()
	return nil
}

// wake makes Send send what waits.
func (o *Outbox) wake() {
	select {
	case o.more <- struct{}{}:
	default: // already known
	}
}

// shrink drops parts of parcels while too much waits: first frames, then readings, then spans, and last the rest; the
// oldest of each first. The caller holds o.change.
func (o *Outbox) shrink(ctx context.Context) error {
	for _, part := range []store.Parts{store.WithFrames, store.WithReadings, store.WithSpans, store.WithRest} {
		for o.State().Bytes > o.limit {
			some, err := o.kept.Parcels(ctx, part, 16)
			if err != nil {
				return err
			}
			if len(some) == 0 {
				break
			}
			for _, p := range some {
				if err := o.lighten(ctx, p, part); err != nil {
					return err
				}
			}
			if !o.full {
				o.full = true
				o.log.Warn("too much waits to be delivered; a part is dropped: the oldest snapshots first, then readings", "bytes", o.limit)
			}
		}
	}
	return nil
}

// lighten removes a part from a parcel.
func (o *Outbox) lighten(ctx context.Context, p store.Parcel, part store.Parts) error {
	before := int64(len(p.Data))
	m, err := o.codec.unpack(p.Data)
	if err != nil { // of an earlier version, or damaged: nobody else could read it either
		o.log.Warn("removing a parcel of the past that can't be read", "err", err)
		m = new(message)
	}
	lost := m.without(part)
	if p.Parts = m.parts(); p.Parts == 0 {
		p.Data = nil
	} else if p.Data, _, err = o.codec.pack(m); err != nil {
		return err
	}
	if err := o.kept.Repack(ctx, p); err != nil {
		return err
	}
	o.note(func(s *State) {
		if s.Bytes, s.Lost = s.Bytes+int64(len(p.Data))-before, s.Lost.plus(lost); p.Data == nil {
			s.Waiting--
		}
	})
	return nil
}

// next returns the parcels to send next.
func (o *Outbox) next(ctx context.Context) ([]store.Parcel, error) {
	o.change.Lock()
	kept := o.kept
	o.change.Unlock()
	if kept == nil {
		return nil, nil
	}
	some, err := kept.Parcels(ctx, everything, atOnce)
	for i := range some {
		o.readdress(&some[i])
	}
	return some, err
}

// readdress changes a parcel's former node name to the current one, since no collector would accept the former one. A parcel that can't be read
// stays as it is.
func (o *Outbox) readdress(p *store.Parcel) {
	if o.cfg.Node == "" || p.Node == o.cfg.Node {
		return
	}
	m, err := o.codec.unpack(p.Data)
	if err != nil {
		return
	}
	m.Node = o.cfg.Node
	if data, _, err := o.codec.pack(m); err == nil {
		p.Node, p.Data = o.cfg.Node, data
	}
}

// posted removes sent parcels.
func (o *Outbox) posted(ctx context.Context, sent []store.Parcel) error {
	if len(sent) == 0 {
		return nil
	}
	o.change.Lock()
	defer o.change.Unlock()
	numbers := make([]int64, len(sent))
	for i := range sent {
		numbers[i] = sent[i].Number
	}
	parcels, bytes, err := o.kept.Posted(ctx, numbers)
	if err != nil {
		return err
	}
	o.note(func(s *State) { s.Waiting, s.Bytes = s.Waiting-parcels, s.Bytes-bytes })
	o.full = o.full && o.State().Bytes > o.limit/2
	return nil
}

// note changes the state.
func (o *Outbox) note(change func(*State)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	change(&o.state)
}
