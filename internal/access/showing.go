package access

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/contract"
)

// showFor is how long an administrator sees all command lines after asking for it. Whoever wants to see them for longer asks again, so the
// audit has an entry for each hour.
const showFor = time.Hour

// A viewer is who sees all command lines: a principal with its session or token.
type viewer struct{ id, key string }

func viewerOf(who *auth.Principal) viewer { return viewer{who.ID, who.Key} }

// showing has the administrators who see all command lines now. It is in memory alone: only the program that reads a machine has whole
// command lines, and nobody sees them any more after it has restarted.
type showing struct {
	mu  sync.Mutex
	now map[viewer]*shown
}

// A shown is one administrator's hour.
type shown struct {
	until time.Duration // by the clock
	timer *time.Timer   // ends open sockets
}

// shows reports whether somebody sees all command lines at a time of the clock.
func (s *showing) shows(v viewer, now time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.now[v]
	return one != nil && now < one.until
}

// begin lets somebody see them, and calls ended when the hour is over.
func (s *showing) begin(v viewer, now time.Duration, ended func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one := s.now[v]; one != nil {
		one.timer.Stop()
	}
	one := &shown{until: now + showFor}
	one.timer = time.AfterFunc(showFor, func() {
		s.mu.Lock()
		current := s.now[v] == one
		if current {
			delete(s.now, v)
		}
		s.mu.Unlock()
		if current {
			ended()
		}
	})
	s.now[v] = one
}

// end hides them from somebody, and reports whether they were shown.
func (s *showing) end(v viewer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.now[v]
	if one == nil {
		return false
	}
	one.timer.Stop()
	delete(s.now, v)
	return true
}

func (s *showing) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.now {
		one.timer.Stop()
	}
	clear(s.now)
}

// widen lets an administrator see all command lines who has asked for it.
func (r *Room) widen(who *auth.Principal) {
	if who.ID != "" && who.MayOnAll(auth.Administer) && r.showing.shows(viewerOf(who), r.cfg.Clock.Elapsed()) {
		who.Audience = auth.NewAudience("", auth.Entire)
	}
}

var nobodyShown = &action.Refusal{
	Code: "nobody", Status: http.StatusConflict, What: "gpuwhy can't tell you apart from others, and would show the command lines to them, too",
	Try: "sign in, or call gpuwhy over its Unix socket",
}

var noneShown = &action.Refusal{
	Code: "none", Status: http.StatusConflict, What: "there are no command lines to show: gpuwhy was started with --show-commands none, and keeps none",
	Try: "start it with another --show-commands, such as names, which shows them to nobody else",
}

// showCommands lets the caller see all command lines for an hour.
func (r *Room) showCommands(_ context.Context, c *action.Call, _ struct{}) (any, error) {
	if err := administers(&c.Principal); err != nil {
		return nil, err
	}
	if c.Principal.ID == "" {
		return nil, nobodyShown
	}
	if r.cfg.NoCommands {
		return nil, noneShown
	}
	v := viewerOf(&c.Principal)
	r.showing.begin(v, r.cfg.Clock.Elapsed(), func() { r.reopen(v) })
	answer := contract.ShownCommands{Until: contract.Timestamp(r.cfg.Clock.Now().Add(showFor))}
	c.Note(nil, answer)
	r.reopen(v)
	return answer, nil
}

// hideCommands ends that at once.
func (r *Room) hideCommands(_ context.Context, c *action.Call, _ struct{}) (any, error) {
	if err := administers(&c.Principal); err != nil {
		return nil, err
	}
	v := viewerOf(&c.Principal)
	if r.showing.end(v) {
		r.reopen(v)
	}
	return nil, nil //nolint:nilnil // there is nothing to say
}

// reopen ends the open sockets of somebody who sees other command lines from now on. Pages open them again.
func (r *Room) reopen(v viewer) {
	shows := r.showing.shows(v, r.cfg.Clock.Elapsed())
	r.cfg.Reopen(func(p auth.Principal) bool {
		return viewerOf(&p) == v && (p.Audience.Commands() == auth.Entire) != shows
	})
}
