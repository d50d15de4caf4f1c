package hub

import (
	"errors"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// Stats are what a hub has done since it was made.
type Stats struct {
	Viewers   int               // connections now
	Refused   uint64            // requests that did not become one
	Published uint64            // Moments that could be encoded
	Encodings uint64            // calls of Config.Encode
	Messages  uint64            // written to viewers, pings included
	Bytes     uint64            // of them, with their framing
	Skipped   uint64            // Moments that viewers did not get, since newer ones replaced them
	Ended     map[string]uint64 // connections that ended, by why
	// Failing is the time since which Moments can't be encoded, and Err the reason;
	// zero and nil if they can.
	Failing time.Time
	Err     error
}

// Stats returns what the hub has done so far.
func (h *Hub) Stats() Stats {
	h.mu.Lock()
	viewers := h.connections
	h.mu.Unlock()
	since, err := h.encoding.state()
	return Stats{
		Viewers:   viewers,
		Refused:   h.counts.refused.Load(),
		Published: h.counts.published.Load(),
		Encodings: h.counts.encodings.Load(),
		Messages:  h.counts.messages.Load(),
		Bytes:     h.counts.bytes.Load(),
		Skipped:   h.counts.skipped.Load(),
		Ended:     h.counts.reasons(),
		Failing:   since,
		Err:       err,
	}
}

type counters struct {
	refused, published, encodings, messages, bytes, skipped atomic.Uint64

	mu    sync.Mutex
	ended map[string]uint64
}

func (c *counters) end(why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended == nil {
		c.ended = make(map[string]uint64)
	}
	c.ended[why]++
}

func (c *counters) reasons() map[string]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.ended)
}

// A trouble is something that fails and recovers. The hub logs when it begins and
// when it ends, not each failure.
type trouble struct {
	log  *slog.Logger
	what string

	mu    sync.Mutex
	since time.Time
	err   error
}

func (t *trouble) begin(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		t.since = time.Now()
		t.log.Error("failing", "what", t.what, "err", err)
	}
	t.err = err
}

var errNothingEncoded = errors.New("the encoder returned nothing")

// encoded returns what an encoder returned, of which nothing at all is an error
// too.
func (t *trouble) encoded(data []byte, err error) ([]byte, error) {
	if err == nil && len(data) == 0 {
		err = errNothingEncoded
	}
	if err != nil {
		t.begin(err)
	}
	return data, err
}

func (t *trouble) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		t.log.Info("well again", "what", t.what, "failing_for", time.Since(t.since))
	}
	t.since, t.err = time.Time{}, nil
}

func (t *trouble) state() (since time.Time, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.since, t.err
}
