package hub

import (
	"errors"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// Stats are a hub's counters since it was made.
type Stats struct {
	Viewers   int               // connections now
	Refused   uint64            // requests that did not become a connection
	Published uint64            // Moments that could be encoded
	Encodings uint64            // calls of Config.Encode
	Messages  uint64            // written to viewers, pings included
	Bytes     uint64            // bytes of the messages, including framing
	Skipped   uint64            // Moments that viewers did not get because newer ones replaced them
	Ended     map[string]uint64 // connections that ended, by reason
	Failing   time.Time         // when encoding Moments began to fail; zero if it works
	Err       error             // why
}

// Stats returns what the hub has done so far.
func (h *Hub) Stats() Stats {
	h.mu.Lock()
	viewers := h.connections
	h.mu.Unlock()
	c := &h.counts
	s := Stats{
		Viewers: viewers, Refused: c.refused.Load(), Published: c.published.Load(), Encodings: c.encodings.Load(),
		Messages: c.messages.Load(), Bytes: c.bytes.Load(), Skipped: c.skipped.Load(),
	}
	s.Failing, s.Err = h.encoding.state()
	c.mu.Lock()
	defer c.mu.Unlock()
	s.Ended = maps.Clone(c.ended)
	return s
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

// A trouble is something that fails and recovers. The log has its beginning and its end.
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

// encoded returns what an encoder returned. Nothing at all is an error too.
func (t *trouble) encoded(data []byte, err error) ([]byte, error) {
	if err == nil && len(data) == 0 {
		err = errors.New("the encoder returned nothing")
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
