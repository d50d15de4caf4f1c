package hub

import (
	"cmp"
	"sync"
	"sync/atomic"

	"github.com/gpuwhy/gpuwhy/internal/auth"
)

// A mailbox decides what one viewer gets next: its events in order, none skipped, then the newest
// frame of each node. It holds no frames and knows no socket.
type mailbox struct {
	hub      *Hub
	who      auth.Principal
	only     string               // the only node that the viewer sees; empty for all
	deflates bool                 // the viewer takes compressed messages
	wake     func()               // called when there may be something new, with mu held
	page     atomic.Pointer[page] // the page that the viewer shows; nil: it gets updates and events
	picky    atomic.Bool          // it wants patches, or only a part of each update

	mu      sync.Mutex
	filter  *filter
	queue   []message
	waiting int // the number of kindEvent messages in queue
	closed  bool

	// Only the caller of next uses these:
	greets     *state          // the state for the viewer's first message, until that is made
	older      []string        // nodes whose newest frame it gets first, before the frames after last
	last       *mark           // the viewer has everything up to this mark that it wants
	told       uint64          // number of the last frame up to last
	lastFilter *filter         // the filter in force then
	bases      map[string]base // what the viewer has of each node, if it gets patches
}

func newMailbox(h *Hub, who auth.Principal, only string) mailbox {
	return mailbox{hub: h, who: who, only: only, wake: func() {}, filter: everything}
}

// start adds the current events. With one node the greeting has its frame.
func (m *mailbox) start(now *state, standing []announcement) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.page.Load() != nil {
		return
	}
	m.greets, m.last, m.told = now, now.last, now.number
	if m.several() {
		m.older = nodesOf(now.until(now.number))
	}
	for i := range standing {
		if a := &standing[i]; m.hearsOf(&a.Event) {
			m.queue = append(m.queue, a.messageFor(m.who.Audience))
		}
	}
}

// forFew reports whether the viewer's messages are made for it alone, or for few.
func (m *mailbox) forFew() bool { return m.page.Load() != nil || m.picky.Load() }

// several reports whether the viewer may see more than one node.
func (m *mailbox) several() bool { return m.hub.cfg.Several && m.only == "" }

// announce appends the events that the viewer wants, or none if there is no room.
func (m *mailbox) announce(news []announcement) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || m.page.Load() != nil {
		return true
	}
	before := len(m.queue)
	for i := range news {
		if a := &news[i]; m.filter.wants(&a.Event) && m.hearsOf(&a.Event) {
			m.queue = append(m.queue, a.messageFor(m.who.Audience))
		}
	}
	added := len(m.queue) - before
	if added > 0 && m.waiting > 0 && m.waiting+added > m.room() {
		clear(m.queue[before:])
		m.queue = m.queue[:before]
		return false
	}
	m.waiting += added
	m.wake()
	return true
}

// sees reports whether the viewer may see a node.
func (m *mailbox) sees(node string) bool {
	return m.who.Audience.SeesAll() || m.who.Audience.Sees(m.hub.Newest().Machine(node))
}

// hearsOf reports whether an event is about what the viewer may see. One about no node is for those who see all.
func (m *mailbox) hearsOf(e *Event) bool { return (m.only == "" || e.Node == m.only) && m.sees(e.Node) }

// room returns how many events may wait.
func (m *mailbox) room() int {
	if m.several() {
		return m.hub.cfg.EventQueue * max(1, len(m.hub.now.Load().entries))
	}
	return m.hub.cfg.EventQueue
}

// reply appends the answer to one of the viewer's own requests.
func (m *mailbox) reply(answer message) { m.subscribe(nil, answer) }

// subscribe puts f in force, unless it is nil, for everything after the reply.
func (m *mailbox) subscribe(f *filter, answer message) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		m.filter = cmp.Or(f, m.filter)
		m.picky.Store(m.filter.delta || m.filter.narrow)
		m.queue = append(m.queue, answer)
		m.wake()
	}
}

func (m *mailbox) inForce() *filter {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.filter
}

// close empties the mailbox for good.
func (m *mailbox) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	m.queue = nil
}

// next returns the viewer's next message.
func (m *mailbox) next(now *state) (message, bool) {
	msg, filter, ok := m.pop()
	if ok {
		return m.resolve(msg), true
	}
	if filter == nil {
		return message{}, false
	}
	if p := m.page.Load(); p != nil {
		m.last, m.older = nil, nil // otherwise marks would pile up for it
		return m.hub.turn(m.who.Sight(), p)
	}
	if filter != m.lastFilter { // a viewer that starts to get patches starts with the newest frame
		m.lastFilter, m.bases = filter, nil
		if filter.delta {
			m.older, m.bases = nodesOf(now.until(m.told)), map[string]base{}
		}
	}
	for f, ok := m.newer(now, filter); ok; f, ok = m.newer(now, filter) {
		if p, err := m.packet(f, filter); err == nil {
			return message{head: p.frameFor(m.deflates)}, true
		} // the error is logged; the viewer keeps its frame
	}
	return message{}, false
}

func nodesOf(frames []*frame) []string {
	nodes := make([]string, len(frames))
	for i, f := range frames {
		nodes[i] = f.moment.Snapshot.Node
	}
	return nodes
}

// newer finds the oldest frame that the viewer wants and has not received, and counts those that were
// replaced.
func (m *mailbox) newer(now *state, filter *filter) (*frame, bool) {
	for len(m.older) > 0 {
		f := now.frame(m.older[0])
		m.older = m.older[1:]
		if f != nil && f.number <= m.told && m.wants(f, filter) { // a later one is after last
			return f, true
		}
	}
	for m.last != now.last {
		m.last = m.last.next
		if m.last.number == 0 {
			delete(m.bases, m.last.node)
			continue
		}
		m.told = m.last.number
		switch f := now.frame(m.last.node); {
		case f == nil || !m.wants(f, filter):
		case f.number > m.told:
			m.hub.counts.skipped.Add(1)
		default:
			return f, true
		}
	}
	return nil, false
}

// packet returns what the viewer gets of a frame: an update, or a patch of its last update.
func (m *mailbox) packet(f *frame, filter *filter) (packet, error) {
	if !filter.delta {
		return f.packet(m.who.Audience, filter)
	}
	node := f.moment.Snapshot.Node
	if !m.several() {
		node = "" // the newest replaces the previous one, whatever its node is called
	}
	p, current, err := f.patch(m.who.Audience, filter, m.bases[node])
	m.bases[node] = current
	return p, err
}

// wants is false, with several nodes, if the filter keeps none of the frame's devices.
func (m *mailbox) wants(f *frame, filter *filter) bool {
	if m.only != "" && f.moment.Snapshot.Node != m.only || !m.who.Audience.Sees(f.moment.Machine()) {
		return false
	}
	return filter.hears(eventUpdate) && (!m.several() || !filter.narrow || f.keptBy(filter))
}

// resolve puts the node's newest frame into a reply to request_gpu_update.
func (m *mailbox) resolve(msg message) message {
	if msg.node == "" {
		return msg
	}
	answer := refused(&refusal{codeUnavailable, "the reading can't be encoded: see gpuwhy's log"}, msg.id)
	if f := m.hub.latest(msg.node); f != nil && m.who.Audience.Sees(f.moment.Machine()) {
		if p, err := f.packet(m.who.Audience, msg.filter); err == nil {
			answer = p.reply(eventUpdate, msg.id)
		}
	}
	answer.kind = msg.kind
	return answer
}

// pop takes the first message from the queue. The filter is nil once the mailbox is closed.
func (m *mailbox) pop() (msg message, filter *filter, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return message{}, nil, false
	case len(m.queue) == 0:
		return message{}, m.filter, false
	}
	msg = m.queue[0]
	m.queue[0] = message{}
	if m.queue = m.queue[1:]; len(m.queue) == 0 {
		m.queue = nil // most viewers' queues are empty most of the time
	}
	if msg.kind == kindEvent {
		m.waiting--
	}
	return msg, m.filter, true
}
