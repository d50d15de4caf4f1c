// Package hub keeps each node's newest Moment and the current events, and sends them to WebSocket
// viewers. It encodes each of them once. docs/protocol.md describes the messages.
//
// A slow viewer skips a Moment that a newer one of the same node has replaced, and delays nobody.
// It gets every event in order, or the hub closes its connection with a code that says why.
//
// The package knows the envelope {"event", "data", "id"}, the filters and the limits. The encoders
// in its Config decide what data holds.
package hub

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/lazy"
)

// Config configures a hub. Encode and Status are required; a zero limit means its default.
type Config struct {
	// Encode makes the data of gpu_status_update with the devices that keep allows (nil allows
	// all), as the audience may see them. It is called once for each Moment, audience and filter in
	// use, possibly concurrently.
	Encode func(m *insight.Moment, audience auth.Audience, keep func(*gpu.Device) bool) ([]byte, error)
	// Patch makes a JSON merge patch from the keyed form of one result of Encode to that of another, or from
	// nothing if before is nil. If Patch is nil, clients can't ask for patches.
	Patch func(before, after []byte) ([]byte, error)
	// Status makes the data of gpu_status for an audience, from the Moments that it sees. encoded is the result of Encode for the only node's
	// Moment; "null" before the first one, and for a viewer of several nodes.
	Status func(audience auth.Audience, newest *insight.Fleet, encoded []byte) ([]byte, error)
	// Page makes the whole message page, {"event":"page","data":…}, which brings the page at an address below the
	// base path from the viewer's version to the newest one; nil if the viewer has the newest. changes grows with
	// each [Hub.Turn]. Page also returns the new version and the changes that it includes. ErrNoPage means that
	// no page has the address. If Page is nil, there are no pages.
	Page func(address string, sight auth.Sight, have string, changes uint64) (text []byte, version string, included uint64, err error)
	// Several says that there may be more than one node: viewers then get each node's Moments
	// separately. Otherwise the newest Moment replaces the previous one, whatever its node is
	// called.
	Several bool
	// Events are the names of the events that Announce sends. A filter may name these and
	// gpu_status_update.
	Events  []string
	Origins auth.Origins // foreign origins whose pages may connect; programs that send no Origin always may

	MaxViewers   int           // concurrent connections, 1000 by default; more get a 503
	EventQueue   int           // events that may wait for a viewer, per node that it may see; 64 by default
	PingEvery    time.Duration // 20 s by default; more than WriteTimeout
	WriteTimeout time.Duration // time for a viewer to accept a message or answer a ping, 10 s by default

	Log *slog.Logger // slog.Default if nil
}

// An Act is something that a client can request with a message, with the rate limit of
// request_gpu_update.
type Act struct {
	Event string // the message's name
	// Do performs it; ctx ends with the connection. Errors not made by [Refuse] go to the log.
	Do func(ctx context.Context, ask *Ask) (Reply, error)
}

// An Ask is a message that requests an [Act].
type Ask struct {
	Principal auth.Principal
	Node      string                 // the only node that the viewer sees; empty for all
	Wanted    func(node string) bool // the nodes that the viewer sees and its filter allows
	Data      json.RawMessage        // nil where there is none
}

// A Reply is the result of an [Act].
type Reply struct {
	// Read are the nodes that were read: the reply is the newest update of each.
	Read []string
	// Data is the data of the event "done", if nothing was read.
	Data json.RawMessage
}

const (
	messageLimit = 16 << 10        // bytes of a client's message
	closeTimeout = 5 * time.Second // for a viewer to answer a close frame
	// revokeTimeout is the same for a viewer that may see nothing more, and frameTimeout how long it has for the message that is being written.
	revokeTimeout, frameTimeout = 500 * time.Millisecond, 100 * time.Millisecond
)

func (c Config) withDefaults() Config {
	if c.Encode == nil || c.Status == nil {
		panic("hub: Config needs Encode and Status")
	}
	c.MaxViewers = cmp.Or(c.MaxViewers, 1000)
	c.EventQueue = cmp.Or(c.EventQueue, 64)
	c.PingEvery = cmp.Or(c.PingEvery, 20*time.Second)
	c.WriteTimeout = cmp.Or(c.WriteTimeout, 10*time.Second)
	c.Log = cmp.Or(c.Log, slog.Default())
	return c
}

// A Hub serves its viewers. Its methods may be called concurrently.
//
// A Moment costs the same with a hundred nodes and with ten thousand; a test counts allocations. A viewer that reads nothing holds no
// Moment: only its waiting events, and the one message that is being written. A reply to request_gpu_update is made when it is written.
type Hub struct {
	cfg Config

	publishing sync.Mutex // one Publish at a time
	now        atomic.Pointer[state]

	mu          sync.Mutex // never held while an encoder runs or a socket is written
	viewers     map[*viewer]struct{}
	arriving    map[*viewer]struct{} // handshake not finished
	standing    *standing
	held        map[string]*frame // by node: read on demand after the newest was published
	connections int               // counted from before the upgrade
	hearing     map[string]int    // connections that get updates, by node; "" for viewers of all nodes
	farewell    *goodbye          // set once the hub shuts down
	gone        sync.WaitGroup    // one for each connection, and one for each goroutine that serves one

	acts  map[string]*Act
	named []string // the names of acts, in order

	turns   turns
	changes atomic.Uint64 // counts changes of what pages show

	encoding, patching, greetings, refreshing, acting, paging *trouble
	counts                                                    counters
}

// A state has the newest frames of all nodes, until newer is closed.
type state struct {
	fleet     *insight.Fleet
	entries   []entry // one per node, sorted by name
	number    uint64  // of the newest frame; 0 before the first
	last      *mark   // of the newest frame for viewers
	newer     chan struct{}
	greetings lazy.Map[greeted, packet]
}

// A mark remembers that viewers get a frame, without holding the frame, or that a node was removed. The hub
// keeps the newest mark, and each viewer keeps the mark it has reached; all others are garbage. So a viewer's
// next message is found without looking at nodes that have nothing new.
type mark struct {
	node   string
	number uint64 // of the frame; 0: the node was removed
	next   *mark
}

// An entry has the newest frame of one node.
type entry struct {
	newest *frame
	shown  *frame // newest, or the last earlier one that could be encoded; nil if none could
}

func (e entry) node() string { return e.newest.moment.Snapshot.Node }

// failing reports whether the newest frame could not be encoded, whole or for a filter.
func (e entry) failing() bool { return e.shown != e.newest || e.newest.failed.Load() }

// entry returns a node's entry.
func (s *state) entry(node string) (e entry, ok bool) {
	i, ok := slices.BinarySearchFunc(s.entries, node, func(e entry, node string) int { return strings.Compare(e.node(), node) })
	if ok {
		e = s.entries[i]
	}
	return e, ok
}

// frame returns a node's frame for viewers; it may be nil.
func (s *state) frame(node string) *frame {
	e, _ := s.entry(node)
	return e.shown
}

// data returns the data of a node's newest gpu_status_update; it may be nil.
func (s *state) data(node string, audience auth.Audience) []byte {
	if f := s.frame(node); f != nil && audience.Sees(f.moment.Machine()) {
		if p, err := f.packet(audience, everything); err == nil {
			return p.data()
		}
	}
	return nil
}

// until returns the frames for viewers up to a number, oldest first.
func (s *state) until(number uint64) (frames []*frame) {
	for _, e := range s.entries {
		if f := e.shown; f != nil && f.number <= number {
			frames = append(frames, f)
		}
	}
	slices.SortFunc(frames, func(a, b *frame) int { return cmp.Compare(a.number, b.number) })
	return frames
}

// New returns a hub. It panics if cfg lacks an encoder. It starts no goroutine; each connection has one, and [Hub.Shutdown] ends it.
func New(cfg Config) *Hub {
	cfg = cfg.withDefaults()
	log := cfg.Log
	h := &Hub{
		cfg:        cfg,
		viewers:    make(map[*viewer]struct{}),
		arriving:   make(map[*viewer]struct{}),
		held:       make(map[string]*frame),
		hearing:    make(map[string]int),
		acts:       make(map[string]*Act),
		encoding:   &trouble{log: log, what: "encoding snapshots"},
		patching:   &trouble{log: log, what: "making patches"},
		greetings:  &trouble{log: log, what: "encoding the status"},
		refreshing: &trouble{log: log, what: "readings on demand"},
		acting:     &trouble{log: log, what: "what clients ask for"},
		paging:     &trouble{log: log, what: "rendering pages"},
	}
	h.changes.Store(1) // a page without a version has seen none
	h.now.Store(&state{last: &mark{}, newer: make(chan struct{})})
	h.standing = newStanding(nil)
	return h
}

// Accept says what clients can have done, in the order in which they are listed, before the first comes. One of the acts may be
// request_gpu_update, which reads nodes, and passes a Moment of each to Publish or [Hub.Hold], from a reading that began after the
// call.
func (h *Hub) Accept(acts ...Act) {
	for i := range acts {
		a := &acts[i]
		h.acts[a.Event], h.named = a, append(h.named, a.Event)
	}
}

// Publish makes m the newest Moment of its node, whatever its Seq, and wakes everybody waiting for one.
// It waits for no viewer. If m can't be encoded, viewers keep the node's last Moment that could be, and
// the log says so once. If nobody gets updates of the node, m is encoded only on request.
func (h *Hub) Publish(m *insight.Moment) { h.PublishAll([]*insight.Moment{m}) }

// PublishAll publishes several Moments with one new state for all, so that the cost of a Moment does not grow with the
// number of nodes. Of several Moments of one node the last counts.
func (h *Hub) PublishAll(moments []*insight.Moment) {
	if len(moments) == 0 {
		return
	}
	h.publishing.Lock()
	defer h.publishing.Unlock()

	moments = h.lastOfEach(moments)
	old := h.now.Load()
	next := &state{number: old.number, last: old.last, newer: make(chan struct{})}
	fresh := make([]entry, 0, len(moments))
	well := true
	for _, m := range moments {
		next.number++
		f, node := &frame{hub: h, moment: m, number: next.number}, m.Snapshot.Node
		e := entry{f, old.frame(node)}
		// Filters that failed for the previous frame may fail for this one later.
		well = well && (e.shown == nil || !e.shown.failed.Load())
		if h.encodable(f) {
			e.shown = f
			next.append(node, f.number)
			h.counts.published.Add(1)
		}
		fresh = append(fresh, e)
	}
	slices.SortFunc(fresh, func(a, b entry) int { return strings.Compare(a.node(), b.node()) })
	if h.cfg.Several {
		next.fleet, next.entries = old.fleet.With(moments...), insight.Merge(old.entries, fresh, entry.node)
	} else {
		next.fleet, next.entries = moments[0].Alone(), fresh
	}
	if _, err := h.encoding.state(); err != nil && well && !slices.ContainsFunc(next.entries, entry.failing) {
		h.encoding.end()
	}
	h.now.Store(next)
	close(old.newer)
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.held) > 0 {
		for _, m := range moments {
			delete(h.held, m.Snapshot.Node)
		}
	}
	h.wakeHearers()
}

// lastOfEach returns the last Moment of each node, in their order; with only one node, the last Moment.
func (h *Hub) lastOfEach(moments []*insight.Moment) []*insight.Moment {
	if len(moments) == 1 {
		return moments
	}
	if !h.cfg.Several {
		return moments[len(moments)-1:]
	}
	later := make(map[string]bool, len(moments))
	out := make([]*insight.Moment, 0, len(moments))
	for _, m := range slices.Backward(moments) {
		if !later[m.Snapshot.Node] {
			later[m.Snapshot.Node] = true
			out = append(out, m)
		}
	}
	slices.Reverse(out)
	return out
}

// append adds a mark. Nobody has this state yet; a viewer at the previous mark looks beyond it only once there is a newer state.
func (s *state) append(node string, number uint64) {
	s.last.next = &mark{node: node, number: number}
	s.last = s.last.next
}

// wakeHearers wakes the viewers that get updates. The caller holds mu.
func (h *Hub) wakeHearers() {
	h.turns.wake(func(yield func(*viewer) bool) {
		for v := range h.viewers {
			if v.mail.page.Load() == nil && !yield(v) {
				return
			}
		}
	})
}

// Remove removes a node: viewers get nothing more about it, and new connections don't see it. Publishing a Moment of it
// later brings it back.
func (h *Hub) Remove(node string) {
	h.publishing.Lock()
	defer h.publishing.Unlock()
	old := h.now.Load()
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.held, node)
	if _, ok := old.entry(node); ok {
		next := &state{
			number: old.number, last: old.last, newer: make(chan struct{}), fleet: old.fleet.Without(node),
			entries: slices.DeleteFunc(slices.Clone(old.entries), func(e entry) bool { return e.node() == node }),
		}
		next.append(node, 0)
		if len(next.entries) == 0 {
			next.fleet = nil // as before the first Moment
		}
		h.now.Store(next)
		close(old.newer)
		h.wakeHearers()
	}
	h.changed()
}

// encodable reports whether a frame can be encoded. While all is well and nobody gets updates of the node, it does not
// try: the first request finds out.
func (h *Hub) encodable(f *frame) bool {
	h.mu.Lock()
	nobody := h.hearing[""]+h.hearing[f.moment.Snapshot.Node] == 0
	h.mu.Unlock()
	if _, err := h.encoding.state(); nobody && err == nil {
		return true
	}
	_, err := f.packet(auth.Everything, everything)
	return err == nil
}

// Hold keeps a Moment that was read on demand, for the replies to its requests, until there is a
// newer one of its node.
func (h *Hub) Hold(m *insight.Moment) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held[m.Snapshot.Node] = &frame{hub: h, moment: m}
	h.changed()
}

// Changes counts changes of what pages show, from 1.
func (h *Hub) Changes() uint64 { return h.changes.Load() }

// Turn wakes the viewers of pages because something that pages show has changed, for example data
// derived from the newest Moment, or an acknowledged alert. [Hub.Hold] does so too.
func (h *Hub) Turn() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changed()
}

// changed wakes the viewers of pages. The caller holds mu.
func (h *Hub) changed() {
	h.changes.Add(1)
	h.turns.wake(func(yield func(*viewer) bool) {
		for v := range h.viewers {
			if v.mail.page.Load() != nil && !yield(v) {
				return
			}
		}
	})
}

// latest returns the frame of a node's newest Moment, published or held; it may be nil.
func (h *Hub) latest(node string) *frame {
	h.mu.Lock()
	defer h.mu.Unlock()
	return cmp.Or(h.held[node], h.now.Load().frame(node))
}

// Latest is Newest, including Moments read on demand since then.
func (h *Hub) Latest() *insight.Fleet {
	now := h.now.Load()
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.held) == 0 {
		return now.fleet
	}
	held := make([]*insight.Moment, 0, len(h.held))
	for _, f := range h.held {
		held = append(held, f.moment)
	}
	return now.fleet.With(held...)
}

// Newest returns the newest Moment of each node; nil before the first.
func (h *Hub) Newest() *insight.Fleet { return h.now.Load().fleet }

// Update returns the data of a node's newest gpu_status_update: the bytes that viewers get, which
// must not be changed; nil if there is none.
func (h *Hub) Update(node string, audience auth.Audience) []byte {
	return h.now.Load().data(node, audience)
}

// Feed yields the newest Moment of each node and then each newer one, including those that can't be
// encoded, until ctx ends. A slow caller skips replaced ones.
func (h *Hub) Feed(ctx context.Context) iter.Seq[*insight.Moment] {
	return func(yield func(*insight.Moment) bool) {
		for moments := range h.FeedAll(ctx) {
			for _, m := range moments {
				if ctx.Err() != nil || !yield(m) {
					return
				}
			}
		}
	}
}

// FeedAll is like Feed but yields everything new at once, in the order of publication.
func (h *Hub) FeedAll(ctx context.Context) iter.Seq[[]*insight.Moment] {
	return func(yield func([]*insight.Moment) bool) {
		for seen := uint64(0); ctx.Err() == nil; {
			now := h.now.Load()
			var newer []*frame
			for _, e := range now.entries {
				if e.newest.number > seen {
					newer = append(newer, e.newest)
				}
			}
			slices.SortFunc(newer, func(a, b *frame) int { return cmp.Compare(a.number, b.number) })
			moments := make([]*insight.Moment, len(newer))
			for i, f := range newer {
				moments[i] = f.moment
			}
			if len(moments) > 0 && !yield(moments) {
				return
			}
			seen = now.number
			select {
			case <-now.newer:
			case <-ctx.Done():
			}
		}
	}
}

// An Event is news that viewers must not miss, such as a firing alert.
type Event struct {
	Name string
	// The device that it is about, for filters. An event about none, with an empty Node or UUID,
	// passes all filters.
	Node, UUID string
	Index      int
	Data       []byte // a JSON object; must not change afterwards
	// Other makes the Data for those who do not see the command lines that all viewers see; nil: it has none.
	Other func(auth.Commands) []byte
}

// An announcement is an event ready for every viewer's socket.
type announcement struct {
	Event
	message message
}

// messageFor returns the message with the command lines that an audience sees.
func (a *announcement) messageFor(audience auth.Audience) message {
	if commands := audience.Commands(); a.Other != nil && commands != auth.Shown {
		return message{head: newPacket(a.Name, a.Other(commands)).bytes, kind: a.message.kind}
	}
	return a.message
}

// standing are the events that new connections get first. They are made when the first one
// connects.
type standing struct{ ready func() []announcement }

func newStanding(events func() []Event) *standing {
	return &standing{sync.OnceValue(func() []announcement {
		if events == nil {
			return nil
		}
		return announcements(events(), kindStanding)
	})}
}

// Announce appends changes to each viewer's mailbox, and keeps standing for viewers that connect later;
// the hub calls it once, when the first of them connects. It may be nil. Announce disconnects viewers
// whose mailbox is full and waits for none.
func (h *Hub) Announce(changes []Event, standing func() []Event) {
	news := announcements(changes, kindEvent)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.standing = newStanding(standing)
	for v := range h.viewers {
		if !v.mail.announce(news) {
			v.end(queueFull)
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

// greeted are viewers that get the same greeting: they have one audience, and see one node or all.
type greeted struct {
	audience auth.Audience
	only     string
}

// greeting returns the gpu_status of a state, for an audience that sees one node, or all.
func (h *Hub) greeting(s *state, audience auth.Audience, only string) (packet, error) {
	return s.greetings.Get(greeted{audience, only}, func() (packet, error) {
		f := s.fleet.Seen(audience)
		if m, ok := f.Node(only); ok {
			f = m.Alone()
		}
		encoded := []byte("null")
		if nodes := f.Nodes(); len(nodes) > 0 && (!h.cfg.Several || only != "") {
			if data := s.data(nodes[0].Node, audience); data != nil {
				encoded = data
			}
		}
		data, err := h.greetings.encoded(h.cfg.Status(audience, f, encoded))
		if err != nil {
			return packet{}, err
		}
		h.greetings.end()
		return newPacket(eventStatus, data), nil
	})
}

// register makes v a viewer: from now on it gets every event.
func (h *Hub) register(v *viewer) {
	v.mail.wake = v.wake
	for {
		h.mu.Lock()
		stands := h.standing
		h.mu.Unlock()
		if events := stands.ready(); h.enter(v, stands, events) {
			return
		}
	}
}

// enter makes v a viewer, unless the current events have changed.
func (h *Hub) enter(v *viewer, stands *standing, events []announcement) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if stands != h.standing {
		return false
	}
	v.mail.start(h.now.Load(), events)
	delete(h.arriving, v)
	h.viewers[v] = struct{}{}
	switch {
	case h.farewell != nil:
		v.end(*h.farewell)
	case v.denied != nil:
		v.end(*v.denied)
	}
	const later = time.Hour // its time is set when it is used
	v.pinging = time.AfterFunc(later, v.pingIsDue)
	v.pinging.Reset(h.cfg.PingEvery)
	v.wake()
	return true
}
