// Package hub keeps the newest snapshot and the events that stand, encodes
// them once, and serves every WebSocket viewer.
//
// State may be skipped, events may not: a slow viewer misses snapshots that
// newer ones have replaced and delays nobody, but gets every event in order or
// has its connection closed with a code that says why. docs/protocol.md has
// the protocol as a client sees it.
//
// The package knows the envelope {"event", "data", "id"}, the filters and the
// limits. What is inside data it leaves to the encoders that it is handed, when
// to read a device to whoever publishes, and what is worth an event to whoever
// announces.
package hub

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/auth"
)

// Config is what a hub needs. Encode and Status are required; a zero limit
// means its default.
type Config struct {
	// Encode turns a snapshot into the data of gpu_status_update, a JSON
	// object. It is called once for each published snapshot and filter in
	// use, must not change the snapshot, and may be called concurrently.
	Encode func(*gpu.Snapshot) ([]byte, error)
	// Status makes the data of gpu_status, a JSON object. encoded is what
	// Encode made of newest; before the first snapshot newest is nil and
	// encoded is "null". It is called once for each snapshot, when the first
	// viewer connects after it.
	Status func(newest *gpu.Snapshot, encoded []byte) ([]byte, error)
	// Refresh returns a reading begun after the call, for
	// request_gpu_update. Sharing one reading among those who ask, and how
	// often there is one, is its own business; the same *gpu.Snapshot is
	// encoded once. It comes back soon after ctx ends. Where it is nil,
	// request_gpu_update is an unknown event.
	Refresh func(ctx context.Context) (*gpu.Snapshot, error)
	// Origins are the foreign origins whose pages may connect. The host that was asked always may, and so may whoever
	// sends no Origin, which browsers always do.
	Origins auth.Origins

	MaxViewers   int           // connections at once, 1000 by default; more get a 503
	MessageLimit int64         // bytes of a client's message, 16 KiB by default
	EventQueue   int           // events that may wait for one viewer, 64 by default
	PingEvery    time.Duration // 20 s by default; more than WriteTimeout
	WriteTimeout time.Duration // for a viewer to take a message or answer a ping, 10 s by default
	CloseTimeout time.Duration // for a viewer to answer a goodbye, 5 s by default

	Log *slog.Logger // slog.Default where it is nil
}

func (c Config) withDefaults() Config {
	if c.Encode == nil || c.Status == nil {
		panic("hub: Config needs Encode and Status")
	}
	setDefault(&c.MaxViewers, 1000)
	setDefault(&c.MessageLimit, 16<<10)
	setDefault(&c.EventQueue, 64)
	setDefault(&c.PingEvery, 20*time.Second)
	setDefault(&c.WriteTimeout, 10*time.Second)
	setDefault(&c.CloseTimeout, 5*time.Second)
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return c
}

func setDefault[T comparable](v *T, to T) {
	var zero T
	if *v == zero {
		*v = to
	}
}

// A Hub hands the newest snapshot and every event to its viewers. Its methods
// may be called concurrently.
type Hub struct {
	cfg Config
	log *slog.Logger

	publishing sync.Mutex // one Publish at a time
	now        atomic.Pointer[moment]

	mu          sync.Mutex // never held while an encoder runs or a socket is written
	viewers     map[*viewer]struct{}
	standing    []announcement
	onDemand    *Frame // of the last reply to request_gpu_update
	connections int    // counted from before the upgrade
	closing     bool
	farewell    string
	gone        sync.WaitGroup // one for each connection

	encoding, greeting, refreshing *trouble
	counts                         counters
}

// A moment is the newest there is, until newer is closed.
type moment struct {
	snapshot *gpu.Snapshot
	frame    *Frame // of snapshot, or of the last one that could be encoded
	number   uint64 // of frame; 0 before the first
	newer    chan struct{}
}

// New returns a hub without a snapshot. It panics where cfg lacks an encoder.
// It starts no goroutine; each connection has two, and [Hub.Shutdown] ends them.
func New(cfg Config) *Hub {
	cfg = cfg.withDefaults()
	log := cfg.Log
	h := &Hub{
		cfg:        cfg,
		log:        log,
		viewers:    make(map[*viewer]struct{}),
		encoding:   &trouble{log: log, what: "encoding snapshots"},
		greeting:   &trouble{log: log, what: "encoding the status"},
		refreshing: &trouble{log: log, what: "readings on demand"},
	}
	h.now.Store(&moment{frame: h.newFrame(nil), newer: make(chan struct{})})
	return h
}

// Publish makes s, which is not nil, the newest snapshot, whatever its Seq, and
// wakes whoever waits for it. It encodes s and returns without waiting for any viewer. Where
// s can't be encoded, viewers and [Hub.Newest] keep the last that could be, and
// the log says so once.
func (h *Hub) Publish(s *gpu.Snapshot) {
	h.publishing.Lock()
	defer h.publishing.Unlock()

	old := h.now.Load()
	next := &moment{snapshot: s, frame: h.frameOf(s), number: old.number + 1, newer: make(chan struct{})}
	if _, err := next.frame.whole(); err != nil {
		next.frame, next.number = old.frame, old.number
	} else if !old.frame.failed.Load() {
		h.encoding.end()
	}
	h.now.Store(next)
	close(old.newer)
}

// frameOf returns the frame of s, the one that there is already if it is the
// newest or the last that was read on demand.
func (h *Hub) frameOf(s *gpu.Snapshot) *Frame {
	if now := h.now.Load(); now.frame.Snapshot == s {
		return now.frame
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.onDemand == nil || h.onDemand.Snapshot != s {
		h.onDemand = h.newFrame(s)
	}
	return h.onDemand
}

// Newest returns the newest frame, or nil before the first.
func (h *Hub) Newest() *Frame {
	now := h.now.Load()
	if now.number == 0 {
		return nil
	}
	return now.frame
}

// Feed yields the newest snapshot, and each newer one as soon as it is there,
// until ctx ends. Who is slow misses those in between. It does not depend on
// whether a snapshot can be encoded.
func (h *Hub) Feed(ctx context.Context) iter.Seq[*gpu.Snapshot] {
	return func(yield func(*gpu.Snapshot) bool) {
		for ctx.Err() == nil {
			now := h.now.Load()
			if now.snapshot != nil && !yield(now.snapshot) {
				return
			}
			select {
			case <-now.newer:
			case <-ctx.Done():
			}
		}
	}
}

// An Event is what viewers must not miss, such as an alert that begins.
type Event struct {
	Name string
	// Node, UUID and Index say which device it is about, for viewers that
	// asked for some only. Where UUID or Node is empty it is about none in
	// particular, and that filter lets it pass.
	Node, UUID string
	Index      int
	Data       []byte // a JSON object; not changed afterwards
}

// An announcement is an event, ready for every viewer's socket.
type announcement struct {
	Event
	message message
}

// Announce appends changes to what each viewer is owed, and remembers standing
// (the alerts that fire now) for those who connect later: each of them gets
// either the change or the standing event, never neither. A viewer that has no
// room for changes, because it has not read the ones before, is disconnected.
// Announce waits for no viewer.
func (h *Hub) Announce(changes, standing []Event) {
	news := announcements(changes, kindEvent)
	stand := announcements(standing, kindStanding)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.standing = stand
	for v := range h.viewers {
		if !v.mail.announce(news) {
			v.end(goodbyeQueueFull)
		}
	}
}

func announcements(events []Event, k kind) []announcement {
	out := make([]announcement, len(events))
	for i, e := range events {
		out[i] = announcement{e, message{head: newPacket(e.Name, e.Data).bytes, kind: k}}
	}
	return out
}

var errNothingEncoded = errors.New("the encoder returned nothing")

// encode is Config.Encode, counted, with its failures told.
func (h *Hub) encode(s *gpu.Snapshot) ([]byte, error) {
	h.counts.encodings.Add(1)
	data, err := h.cfg.Encode(s)
	if err == nil && len(data) == 0 {
		err = errNothingEncoded
	}
	if err != nil {
		h.encoding.begin(err)
		return nil, err
	}
	return data, nil
}

// status is Config.Status, with its failures told.
func (h *Hub) status(s *gpu.Snapshot, encoded []byte) ([]byte, error) {
	data, err := h.cfg.Status(s, encoded)
	if err == nil && len(data) == 0 {
		err = errNothingEncoded
	}
	if err != nil {
		h.greeting.begin(err)
		return nil, err
	}
	h.greeting.end()
	return data, nil
}

// register makes v a viewer: from here on it is owed every event.
func (h *Hub) register(v *viewer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	v.mail.start(h.now.Load(), h.standing)
	h.viewers[v] = struct{}{}
	if h.closing {
		v.end(goodbyeShutdown(h.farewell))
	}
}

func (h *Hub) unregister(v *viewer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.viewers, v)
}
