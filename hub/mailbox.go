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
	wake     func()               // is called when there may be something new, with mu held
	page     atomic.Pointer[page] // what the viewer shows; nil: it gets updates and events
	picky    atomic.Bool          // it wants patches, or a part of each update

	mu      sync.Mutex
	filter  *filter
	queue   []message
	waiting int // how many of queue are kindEvent
	closed  bool

	// Only the caller of next uses these:
	greets *state          // the state in the viewer's first message, until that is made
	older  []string        // nodes of which it gets the newest first, and then what is behind last
	last   *mark           // up to which it has been told, or did not want to be
	told   uint64          // number of the last frame up to there
	by     *filter         // that was in force then
	bases  map[string]base // what the viewer has of each node, where it gets patches
}

func newMailbox(h *Hub, who auth.Principal, only string) mailbox {
	return mailbox{hub: h, who: who, only: only, wake: func() {}, filter: everything}
}

// start adds the standing events. With one node the greeting has its frame.
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
	for _, a := range standing {
		if m.only == "" || a.Node == m.only {
			m.queue = append(m.queue, a.message)
		}
	}
}

// forFew reports whether what the viewer gets is made for it, or for few.
func (m *mailbox) forFew() bool { return m.page.Load() != nil || m.picky.Load() }

// several reports whether the viewer may see more than one node.
func (m *mailbox) several() bool { return m.hub.cfg.Several && m.only == "" }

// announce appends the events that the viewer wants, or none where there is no room.
func (m *mailbox) announce(news []announcement) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || m.page.Load() != nil {
		return true
	}
	before := len(m.queue)
	for i := range news {
		if m.filter.wants(&news[i].Event) && (m.only == "" || news[i].Node == m.only) {
			m.queue = append(m.queue, news[i].message)
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

// room is how many events may wait.
func (m *mailbox) room() int {
	if m.several() {
		return m.hub.cfg.EventQueue * max(1, len(m.hub.now.Load().entries))
	}
	return m.hub.cfg.EventQueue
}

// reply appends the answer to one of the viewer's own requests.
func (m *mailbox) reply(answer message) { m.subscribe(nil, answer) }

// subscribe puts f in force, unless it is nil, for all that comes after the reply.
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
	msg, by, ok := m.pop()
	if ok {
		return m.resolve(msg), true
	}
	if by == nil {
		return message{}, false
	}
	if p := m.page.Load(); p != nil {
		m.last, m.older = nil, nil // or marks would wait for it
		return m.hub.turn(m.who.Sight(), p)
	}
	if by != m.by { // who begins to get patches begins with the newest
		m.by, m.bases = by, nil
		if by.delta {
			m.older, m.bases = nodesOf(now.until(m.told)), map[string]base{}
		}
	}
	for f, ok := m.newer(now, by); ok; f, ok = m.newer(now, by) {
		if p, err := m.packet(f, by); err == nil {
			return message{head: p.frameFor(m.deflates)}, true
		} // the log has the error; the viewer keeps the frame that it has
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
func (m *mailbox) newer(now *state, by *filter) (*frame, bool) {
	for len(m.older) > 0 {
		f := now.of(m.older[0])
		m.older = m.older[1:]
		if f != nil && f.number <= m.told && m.wants(f, by) { // a later one is behind last
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
		switch f := now.of(m.last.node); {
		case f == nil || !m.wants(f, by):
		case f.number > m.told:
			m.hub.counts.skipped.Add(1)
		default:
			return f, true
		}
	}
	return nil, false
}

// packet is what the viewer gets of a frame: an update, or a patch of the one that it has.
func (m *mailbox) packet(f *frame, by *filter) (packet, error) {
	if !by.delta {
		return f.packet(m.who.Audience, by)
	}
	node := f.moment.Snapshot.Node
	if !m.several() {
		node = "" // the newest replaces the one before, whatever its node is called
	}
	p, has, err := f.patch(m.who.Audience, by, m.bases[node])
	m.bases[node] = has
	return p, err
}

// wants is false, with several nodes, if the filter keeps none of the frame's devices.
func (m *mailbox) wants(f *frame, by *filter) bool {
	if m.only != "" && f.moment.Snapshot.Node != m.only {
		return false
	}
	return by.hears(eventUpdate) && (!m.several() || !by.narrow || f.keptBy(by))
}

// resolve puts the newest frame of the node into a reply to request_gpu_update.
func (m *mailbox) resolve(msg message) message {
	if msg.node == "" {
		return msg
	}
	answer := refused(&refusal{codeUnavailable, "the reading can't be encoded: see gpuwhy's log"}, msg.id)
	if f := m.hub.latest(msg.node); f != nil {
		if p, err := f.packet(m.who.Audience, msg.by); err == nil {
			answer = p.reply(eventUpdate, msg.id)
		}
	}
	answer.kind = msg.kind
	return answer
}

// pop takes the first message of the queue. The filter is nil once it is closed.
func (m *mailbox) pop() (msg message, by *filter, ok bool) {
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
		m.queue = nil // most viewers' are empty most of the time
	}
	if msg.kind == kindEvent {
		m.waiting--
	}
	return msg, m.filter, true
}
