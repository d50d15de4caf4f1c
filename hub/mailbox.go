package hub

import (
	"sync"
	"sync/atomic"
)

// A mailbox is what one viewer is owed: its events in order, none skipped, then
// the newest frame. It knows nothing of sockets and goroutines.
type mailbox struct {
	limit   int            // of events that wait
	skipped *atomic.Uint64 // frames that the viewer never had
	kick    chan struct{}  // told when there may be something new; capacity 1

	mu      sync.Mutex
	filter  *filter
	queue   []message
	waiting int // of kindEvent in queue
	closed  bool

	sent *moment // the last that the viewer has had; of the one who calls next
}

func newMailbox(limit int, skipped *atomic.Uint64) mailbox {
	return mailbox{limit: limit, skipped: skipped, kick: make(chan struct{}, 1), filter: everything}
}

// start begins with what stands. The viewer gets the frame of now with its
// greeting.
func (m *mailbox) start(now *moment, standing []announcement) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sent = now
	for _, a := range standing {
		m.queue = append(m.queue, a.message)
	}
}

// announce appends the events that the viewer wants to hear. Where earlier ones
// wait and there is no room for all, it appends none and returns false; what is
// announced at once always fits an empty queue.
func (m *mailbox) announce(news []announcement) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return true
	}
	before := len(m.queue)
	for i := range news {
		if m.filter.wants(&news[i].Event) {
			m.queue = append(m.queue, news[i].message)
		}
	}
	added := len(m.queue) - before
	if added > 0 && m.waiting > 0 && m.waiting+added > m.limit {
		clear(m.queue[before:])
		m.queue = m.queue[:before]
		return false
	}
	m.waiting += added
	m.wake()
	return true
}

// reply appends the answer to one of the viewer's own requests.
func (m *mailbox) reply(answer message) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		m.queue = append(m.queue, answer)
		m.wake()
	}
}

// subscribe puts f in force. All that comes after its reply obeys it.
func (m *mailbox) subscribe(f *filter, answer message) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		m.filter = f
		m.queue = append(m.queue, answer)
		m.wake()
	}
}

func (m *mailbox) inForce() *filter {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.filter
}

func (m *mailbox) wake() {
	select {
	case m.kick <- struct{}{}:
	default: // it has been told already
	}
}

// close ends it: nothing is owed any more.
func (m *mailbox) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	m.queue = nil
}

// next returns what the viewer is owed now: events first, in order, none
// skipped; then the newest frame, if it has not had that one.
func (m *mailbox) next(now *moment) (message, bool) {
	msg, by, ok := m.pop()
	if ok || by == nil {
		return msg, ok
	}
	if now.number == m.sent.number {
		return message{}, false
	}
	missed := now.number - m.sent.number - 1
	m.sent = now
	if !by.hears(eventUpdate) {
		return message{}, false
	}
	m.skipped.Add(missed)
	p, err := now.frame.packet(by)
	if err != nil {
		return message{}, false // the hub has told; the viewer keeps the frame it has
	}
	return message{head: p.bytes}, true
}

// pop takes the first message of the queue. Where there is none it returns the
// filter in force, nil once the mailbox is closed.
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
	return msg, nil, true
}
