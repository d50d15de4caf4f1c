// Package hub keeps the newest Moment of each node and the events that stand,
// encodes them once, and serves every WebSocket viewer as docs/protocol.md says.
//
// A slow viewer skips a Moment if a newer one of the same node has replaced it, and
// delays nobody. It gets every event in order, or the hub closes its connection
// with a code that says why.
//
// The package knows the envelope {"event", "data", "id"}, the filters and the
// limits. What data has is for the encoders in its Config.
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

// Config is what a hub needs. Encode and Status are required; a zero limit
// means its default.
type Config struct {
	// Encode makes the data of gpu_status_update, with the devices that keep allows
	// (nil allows all), as the audience may see them. It is called once for each
	// Moment, audience and filter in use, maybe concurrently.
	Encode func(m *insight.Moment, to auth.Audience, keep func(*gpu.Device) bool) ([]byte, error)
	// Patch makes a JSON merge patch that makes the keyed form of one answer of Encode that of another; of nothing
	// where before is nil. If Patch is nil, nobody can ask for patches.
	Patch func(before, after []byte) ([]byte, error)
	// Status makes the data of gpu_status. encoded is what Encode made of the one
	// node's Moment; "null" before the first, and for a viewer of several nodes.
	Status func(newest *insight.Fleet, encoded []byte) ([]byte, error)
	// Acts are what clients can have done, in the order in which they are listed. One of them may be request_gpu_update, which reads
	// nodes, and passes a Moment of each to Publish or [Hub.Hold], from a reading that began after the call.
	Acts []Act
	// Page makes the whole message page, {"event":"page","data":…}: what makes the page at an address below the base
	// path, of which the viewer has a version, the newest one; nil where it is that. Changes grows with each
	// [Hub.Turn]. The answer has the version, and of which changes it is. An error that is ErrNoPage says that no
	// page has the address. If Page is nil, there are no pages.
	Page func(address string, to auth.Sight, have string, changes uint64) (text []byte, version string, of uint64, err error)
	// Several says that there may be more than one node: viewers then get each
	// node's Moments by themselves. Otherwise the newest Moment replaces the one
	// before, whatever its node is called.
	Several bool
	// Events are the names of what Announce sends. A filter may name these and
	// gpu_status_update.
	Events  []string
	Origins auth.Origins // foreign ones whose pages may connect; programs that send no Origin always may

	MaxViewers   int           // connections at once, 1000 by default; more get a 503
	EventQueue   int           // events that may wait for one viewer for each node that it may see, 64 by default
	PingEvery    time.Duration // 20 s by default; more than WriteTimeout
	WriteTimeout time.Duration // for a viewer to take a message or answer a ping, 10 s by default

	Log *slog.Logger // slog.Default where it is nil
}

// An Act is what a client can have done by a message, as often as request_gpu_update.
type Act struct {
	Event string // the message's name
	// Do does it, until ctx ends with the connection. An error that is none of [Refuse] goes to the log.
	Do func(ctx context.Context, ask *Ask) (Reply, error)
}

// An Ask is a message that asks for an [Act].
type Ask struct {
	Principal auth.Principal
	Node      string                 // the one node that the viewer sees; empty for all
	Wanted    func(node string) bool // the nodes that the viewer sees, and its filter allows
	Data      json.RawMessage        // nil where there is none
}

// A Reply is what became of an [Act].
type Reply struct {
	// Read are nodes that were read: the reply is the newest update of each.
	Read []string
	// Data is that of the event "done", if nothing was read.
	Data json.RawMessage
}

const (
	messageLimit = 16 << 10        // bytes of a client's message
	closeTimeout = 5 * time.Second // for a viewer to answer a goodbye
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
	arriving    map[*viewer]struct{} // whose handshake is under way
	standing    *standing
	held        map[string]*frame // by node: read on demand since the newest was published
	connections int               // counted from before the upgrade
	hearing     map[string]int    // connections that get updates: of one node by its name, of all by the empty one
	farewell    *goodbye          // once the hub shuts down
	gone        sync.WaitGroup    // one for each connection, and each goroutine that serves one

	acts  map[string]*Act
	named []string // the names of Config.Acts

	turns   turns
	changes atomic.Uint64 // how often something changed that pages show

	encoding, patching, greetings, refreshing, acting, paging *trouble
	counts                                                    counters
}

// A state has the newest of all nodes, until newer is closed.
type state struct {
	fleet     *insight.Fleet
	entries   []entry // one for each node, in the order of their names
	number    uint64  // of the newest frame; 0 before the first
	last      *mark   // of the newest frame that viewers get
	newer     chan struct{}
	greetings lazy.Map[greeted, packet]
}

// A mark remembers a frame that viewers get, without the frame, or that a node was taken out. The hub keeps the
// newest mark, and each viewer the one that it has come to: all others are garbage. So what a viewer gets next
// is found without a look at the nodes of which nothing is new.
type mark struct {
	node   string
	number uint64 // of the frame; 0 where the node was taken out
	next   *mark
}

// An entry is the newest of one node.
type entry struct {
	newest *frame
	shown  *frame // newest, or the last one before it that could be encoded; nil if none could
}

func (e entry) node() string { return e.newest.moment.Snapshot.Node }

// failing reports whether the newest could not be encoded, whole or for a filter.
func (e entry) failing() bool { return e.shown != e.newest || e.newest.failed.Load() }

// entry returns that of a node.
func (s *state) entry(node string) (e entry, ok bool) {
	i, ok := slices.BinarySearchFunc(s.entries, node, func(e entry, node string) int { return strings.Compare(e.node(), node) })
	if ok {
		e = s.entries[i]
	}
	return e, ok
}

// of returns the frame of a node that viewers get; it may be nil.
func (s *state) of(node string) *frame {
	e, _ := s.entry(node)
	return e.shown
}

// data is that of the newest gpu_status_update about a node; it may be nil.
func (s *state) data(node string, to auth.Audience) []byte {
	if f := s.of(node); f != nil {
		if p, err := f.packet(to, everything); err == nil {
			return p.data()
		}
	}
	return nil
}

// until returns the frames for viewers up to a number, the oldest first.
func (s *state) until(number uint64) (frames []*frame) {
	for _, e := range s.entries {
		if f := e.shown; f != nil && f.number <= number {
			frames = append(frames, f)
		}
	}
	slices.SortFunc(frames, func(a, b *frame) int { return cmp.Compare(a.number, b.number) })
	return frames
}

// New returns a hub. It panics if cfg lacks an encoder. It starts no goroutine; each
// connection has one, and [Hub.Shutdown] ends it.
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
	for i := range cfg.Acts {
		a := &h.cfg.Acts[i]
		h.acts[a.Event], h.named = a, append(h.named, a.Event)
	}
	h.changes.Store(1) // a page without a version has seen none
	h.now.Store(&state{last: &mark{}, newer: make(chan struct{})})
	h.standing = newStanding(nil)
	return h
}

// Publish makes m the newest Moment of its node, whatever its Seq, and wakes those
// who wait for one. It waits for no viewer. If m can't be encoded, viewers keep the
// node's last Moment that could be, and the log says so once. Where nobody gets updates of the node, m is
// not encoded until somebody asks for it.
func (h *Hub) Publish(m *insight.Moment) { h.PublishAll([]*insight.Moment{m}) }

// PublishAll is Publish of several Moments, with one new state for all: what a Moment costs does then not depend on how many
// nodes there are, as long as PublishAll is called as seldom. Of Moments of one node the last counts.
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
		e := entry{f, old.of(node)}
		// The filters that failed for the frame before may fail for this one later.
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

// lastOfEach are the last Moments of each node, in their order; where there can be one node alone, the last.
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

// append adds a mark. Nobody has the state yet; who has the mark before it looks behind that once there is a newer state.
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

// Remove takes a node out: no viewer gets anything of it any more, and whoever connects finds no such node. A Moment that is
// published later makes it a node again.
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
			next.fleet = nil // as before the first
		}
		h.now.Store(next)
		close(old.newer)
		h.wakeHearers()
	}
	h.changed()
}

// encodable reports whether a frame can be encoded. While all is well and nobody gets updates of the node, that is not
// tried: who asks first finds out.
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

// Hold keeps a Moment that was read on demand for the replies to those who asked,
// until there is a newer one of its node.
func (h *Hub) Hold(m *insight.Moment) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held[m.Snapshot.Node] = &frame{hub: h, moment: m}
	h.changed()
}

// Changes is how often something changed that pages show, from 1.
func (h *Hub) Changes() uint64 { return h.changes.Load() }

// Turn wakes the viewers of pages, since something changed that pages show: also what others made of
// the newest Moment, or what people said of an alert. [Hub.Hold] does so too.
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

// latest is the frame of a node's newest Moment, published or held; it may be nil.
func (h *Hub) latest(node string) *frame {
	h.mu.Lock()
	defer h.mu.Unlock()
	return cmp.Or(h.held[node], h.now.Load().of(node))
}

// Latest is Newest with the Moments that were read on demand since.
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

// Update returns the data of the newest gpu_status_update about a node, the very
// bytes that viewers get, not to be changed; nil where there is none.
func (h *Hub) Update(node string, to auth.Audience) []byte { return h.now.Load().data(node, to) }

// Feed yields the newest Moment of each node, and then each newer one, until ctx
// ends, also those that can't be encoded. A slow caller skips what was replaced.
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

// FeedAll is Feed of all that is new at once, in the order in which it was published.
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

// An Event is news that viewers must not miss, such as an alert that begins.
type Event struct {
	Name string
	// The device that it is about, for filters. What is about none, with an empty
	// Node or UUID, passes them.
	Node, UUID string
	Index      int
	Data       []byte // a JSON object; not changed afterwards
}

// An announcement is an event, ready for every viewer's socket.
type announcement struct {
	Event
	message message
}

// standing are the events that whoever connects gets first. They are made for the first who does.
type standing struct{ ready func() []announcement }

func newStanding(events func() []Event) *standing {
	return &standing{sync.OnceValue(func() []announcement {
		if events == nil {
			return nil
		}
		return announcements(events(), kindStanding)
	})}
}

// Announce appends changes to each viewer's mailbox, and keeps standing for viewers
// that connect later: once for all of them, and only where there is one, the hub calls it. It may be nil.
// Announce disconnects those whose mailbox has no room, and waits for none.
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

// greeted are viewers who get the same greeting: those who may see so much, of one node or of all.
type greeted struct {
	to   auth.Audience
	only string
}

// greeting is the gpu_status of a state, for an audience that sees one node, or all.
func (h *Hub) greeting(s *state, to auth.Audience, only string) (packet, error) {
	return s.greetings.Get(greeted{to, only}, func() (packet, error) {
		f := s.fleet
		if m, ok := f.Node(only); ok {
			f = m.Alone()
		}
		encoded := []byte("null")
		if nodes := f.Nodes(); len(nodes) > 0 && (!h.cfg.Several || only != "") {
			if data := s.data(nodes[0].Node, to); data != nil {
				encoded = data
			}
		}
		data, err := h.greetings.encoded(h.cfg.Status(f, encoded))
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

// enter makes v a viewer, unless other events stand now.
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
	case v.denied:
		v.end(revoked)
	}
	const later = time.Hour // its time is set once it is there
	v.pinging = time.AfterFunc(later, v.pingIsDue)
	v.pinging.Reset(h.cfg.PingEvery)
	v.wake()
	return true
}
