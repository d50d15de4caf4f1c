package kube

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"
)

// A session is a shell in a container that executes one round after another.
type session struct {
	pod    target
	began  time.Time
	lasts  time.Duration
	rounds int
	cut    bool // we ended it
	stdin  *io.PipeWriter
	cancel context.CancelFunc
	out    *output
	done   chan struct{} // closed when the stream has ended
	err    error         // why; read only after done

	mu    sync.Mutex
	round *round // being executed now
}

func (s *session) current() *round {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.round
}

func (s *session) set(r *round) {
	s.mu.Lock()
	s.round = r
	s.mu.Unlock()
}

// open begins a session. It does not wait for the stream.
func (c *console) open(ctx context.Context, pod target) *session {
	text, mark := newScript(c.limit())
	reader, writer := io.Pipe()
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // it is ended by end
	s := &session{
		pod: pod, began: c.now(), lasts: jitter(oftenAsked), stdin: writer, cancel: cancel, done: make(chan struct{}),
	}
	s.out = &output{
		mark: []byte(mark),
		print: func(id int, text []byte) {
			if r := s.current(); r != nil {
				r.print(id, text)
			}
		},
		ended: func(id, code int) {
			if r := s.current(); r != nil {
				r.ended(id, code)
			}
		},
	}
	go func() {
		defer close(s.done)
		defer cancel()
		s.err = c.api.exec(ctx, pod, []string{"sh", "-c", text}, reader, s.out, s.out)
	}()
	return s
}

// ended reports whether the stream has ended.
func (s *session) ended() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// hangUp ends the session, if there is one. The shell reaches the end of its input.
func (c *console) hangUp() {
	if c.s == nil {
		return
	}
	s := c.s
	c.s = nil
	if s.ended() && !s.cut {
		c.note(s)
	}
	s.end()
}

// farewell is how long the shell may take to end by itself. After that nothing of the stream is left on either side.
const farewell = time.Second

func (s *session) end() {
	s.out.end()
	_ = s.stdin.Close() // it never fails
	t := time.NewTimer(farewell)
	defer t.Stop()
	select {
	case <-s.done:
	case <-t.C:
	}
	s.cancel()
	<-s.done
}

// errMute is of a stream that opens and says nothing.
var errMute = errors.New("the stream is silent")

// through executes a round in the session, or in a new one if that has ended.
func (c *console) through(ctx context.Context, pod target, r *round) error {
	if c.s != nil && c.now().Sub(c.s.began) > c.s.lasts {
		c.hangUp()
	}
	for attempt := 1; ; attempt++ {
		fresh := c.s == nil || c.s.ended()
		if c.s != nil && fresh {
			c.hangUp()
			if !c.loops(c.now()) {
				return c.once(ctx, pod, r)
			}
		}
		err := c.send(ctx, pod, r, fresh)
		switch {
		case err == nil || ctx.Err() != nil:
			return err
		case c.s != nil && withoutShell(err, c.s.out.said()):
			c.hangUp()
			c.noShell = true
			return c.each(ctx, pod, r)
		case errors.Is(err, errMute) && c.cfg.Mode == Auto:
			c.hangUp()
			c.broken, c.onceTill = 0, c.now().Add(onceFor)
			c.log.Info("a stream is silent; for a while, each reading uses its own exec", "pod", pod.pod)
			return c.once(ctx, pod, r)
		case fresh || attempt > 1:
			return err
		}
		// It held until now, and ended for example because its server restarted.
	}
}

// note counts a stream that did not hold.
func (c *console) note(s *session) {
	if s.rounds >= holds {
		c.broken = 0
		return
	}
	if c.broken++; c.broken > 1 && c.cfg.Mode == Auto {
		c.broken, c.onceTill = 0, c.now().Add(onceFor)
		c.log.Info("streams keep breaking; for a while, each reading uses its own exec", "pod", s.pod.pod, "err", s.err)
	}
}

// send executes a round in the session, and opens the session first if it is fresh, which takes one of the execs that may begin at once.
func (c *console) send(ctx context.Context, pod target, r *round, fresh bool) error {
	if fresh {
		if !c.take(ctx) {
			return ctx.Err()
		}
		defer c.give()
		c.s = c.open(ctx, pod)
	}
	s := c.s
	s.set(r)
	defer s.set(nil)
	var lines []byte
	for i := range r.commands {
		lines = append(append(lines, r.commands[i].String()...), '\n')
	}
	deadline := c.api.clock.NewTimer(c.cfg.Deadline)
	defer deadline.Stop()
	written := make(chan struct{})
	go func() {
		defer close(written)
		_, _ = s.stdin.Write(lines) // done reports an end of the stream
	}()
	var err error
	select {
	case <-r.finished:
		s.rounds++
	case <-s.done:
		err = s.err
		if err == nil {
			err = errEnded
		}
	case <-ctx.Done():
		err = ctx.Err()
	case <-deadline.Chan():
		err = context.DeadlineExceeded
	}
	if err == nil {
		<-written
		return r.close(nil, nil)
	}
	ended := s.ended()
	if !ended { // it is stuck, or we are ending
		s.cut = true
		s.end()
	}
	<-written
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if !ended && fresh && !s.out.started() {
		return errMute
	}
	if ended && !fresh && r.untouched() {
		return err
	}
	return r.close(err, s.out)
}

// untouched reports whether no command has ended. Then the round can be repeated.
func (r *round) untouched() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left < len(r.commands) {
		return false
	}
	r.text = nil
	return true
}

// errEnded means a stream that ended without an error.
var errEnded = errors.New("the stream has ended")
