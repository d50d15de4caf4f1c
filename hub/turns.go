package hub

import (
	"iter"
	"runtime"
	"sync"
)

// turns decide which viewer is served next. A few goroutines serve all viewers, one after the other, and
// end when nobody waits: between messages a viewer has only its reader. Nothing that a client does holds
// them up. A separate goroutine writes what a connection does not accept at once, and what takes long to
// make and few viewers share: a page, a patch, or a filtered update.
type turns struct {
	mu      sync.Mutex
	waiting []*viewer // from head on
	head    int
	writers int
}

// A turn is where a viewer stands. It belongs to the hub's turns.
type turn int

const (
	resting turn = iota
	waiting      // to be served
	served
	again   // served, and something new came meanwhile
	retired // its connection has ended
)

// wake gives viewers a turn, those that are served another one.
func (t *turns) wake(viewers iter.Seq[*viewer]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for v := range viewers {
		t.add(v)
	}
}

// add is wake. The caller holds mu.
func (t *turns) add(v *viewer) {
	switch v.turn {
	case resting:
		if v.mail.forFew() {
			v.turn = served
			v.hub.gone.Go(v.serveAlone)
			return
		}
		v.turn = waiting
		if len(t.waiting) == cap(t.waiting) && t.head > len(t.waiting)/2 { // it need not grow
			n := copy(t.waiting, t.waiting[t.head:])
			clear(t.waiting[n:])
			t.waiting, t.head = t.waiting[:n], 0
		}
		t.waiting = append(t.waiting, v)
		if t.writers < max(2, runtime.GOMAXPROCS(0)) {
			t.writers++
			v.hub.gone.Go(t.work)
		}
	case served:
		v.turn = again
	}
}

// work serves viewers until none waits.
func (t *turns) work() {
	for v := t.next(); v != nil; v = t.next() {
		v.serve()
	}
}

// next takes the viewer that has waited longest; nil where none waits, and the writer ends.
func (t *turns) next() *viewer {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.head < len(t.waiting) {
		v := t.waiting[t.head]
		t.waiting[t.head] = nil
		t.head++
		if v.turn == waiting {
			v.turn = served
			return v
		}
	}
	t.waiting, t.head = t.waiting[:0], 0
	t.writers--
	return nil
}

// rest ends a viewer's turn.
func (t *turns) rest(v *viewer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch v.turn {
	case again:
		v.turn = resting
		t.add(v)
	case served:
		v.turn = resting
	}
}

// retire gives a viewer no more turns. One that it has may go on.
func (t *turns) retire(v *viewer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v.turn = retired
}
