package access

import (
	"context"
	"maps"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/access/ledger"
	"github.com/gpuwhy/gpuwhy/internal/auth"
)

const (
	// look is how often open sockets are compared with the ledger, and settled how long a socket may take to open after its request was
	// recognized.
	look, settled = time.Second, 10 * time.Second
	// retry is how often a ledger that does not answer is asked, if nobody else asks it.
	retry = 5 * time.Second
	// mostUnknown is how long sockets stay open while the ledger does not say whether they may.
	mostUnknown = time.Minute
	// checksOfChange is how often all is checked after a change: a socket that was opening during the first one is found by the next.
	checksOfChange = 3
)

// noticeKey says that somebody came with a session or a token, who may open a socket.
func (r *Room) noticeKey(who *auth.Principal) {
	if who.Key == "" {
		return
	}
	select {
	case r.keyed <- struct{}{}:
	default: // it is known already
	}
}

// watch ends the open sockets of principals whose session or token has ended, whose user is gone or disabled, or who may now do something
// else than when they connected. It asks for nothing while no such principal has a socket.
func (r *Room) watch(ctx context.Context) {
	w := watch{room: r, known: map[string]time.Time{}, unchecked: checksOfChange, good: time.Now(), until: time.Now().Add(settled)}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for keyed := r.keyed; ; {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-r.ledger.Changed():
			w.unchecked = checksOfChange
		case <-keyed:
			w.until = time.Now().Add(settled)
		}
		wait := w.pass(ctx)
		if keyed = r.keyed; wait == 0 {
			timer.Stop()
			continue
		}
		if timer.Reset(wait); wait < retry {
			keyed = nil // it looks anyway
		}
	}
}

// A watch is what the room knows of those who have open sockets.
type watch struct {
	room      *Room
	known     map[string]time.Time // when the sessions and tokens that were checked expire, by their keys; zero: never
	unchecked int                  // how often all is still to be checked
	good      time.Time            // when the ledger said last who may have a socket
	until     time.Time            // until when to look, though nobody has a socket
	failing   bool
}

// pass looks once, and returns when to look again; 0: once something happens.
func (w *watch) pass(ctx context.Context) time.Duration {
	r := w.room
	if r.ledger.Trouble().Err != nil || r.ledger.Trouble().Answered.IsZero() {
		_, _ = r.ledger.Revision(ctx) // how that ends is in its Trouble
	}
	w.note(ctx)
	now := time.Now()
	held := r.held()
	maps.DeleteFunc(w.known, func(key string, _ time.Time) bool { return !held[key] })
	if len(held) == 0 && now.After(w.until) {
		if w.unchecked, w.good = 0, now; r.ledger.Trouble().Err != nil {
			return retry
		}
		return 0
	}
	err := r.ledger.Look(ctx)
	select {
	case <-r.ledger.Changed():
		w.unchecked = checksOfChange
	default:
	}
	if err == nil && w.due(held, now) {
		err = w.check(ctx, held)
		w.unchecked--
	}
	switch {
	case err == nil:
		w.good = now
	case ctx.Err() != nil:
	case time.Since(w.good) > mostUnknown:
		r.cfg.Revoke(func(who auth.Principal) bool { return who.Key != "" })
	}
	if r.ledger.Shared() {
		return ledger.Often
	}
	return look
}

// held returns the keys that have open sockets.
func (r *Room) held() map[string]bool {
	held := map[string]bool{}
	r.cfg.Revoke(func(who auth.Principal) bool {
		if who.Key != "" {
			held[who.Key] = true
		}
		return false
	})
	return held
}

// due reports whether the sockets are to be compared with the ledger: after a change, for a key that was not checked, and when one expires.
func (w *watch) due(held map[string]bool, now time.Time) bool {
	if w.unchecked > 0 {
		return true
	}
	for key := range held {
		if expires, known := w.known[key]; !known || !expires.IsZero() && !expires.After(now) {
			w.unchecked = 1
			return true
		}
	}
	return false
}

// check compares the sockets of the held keys with the ledger. Of a key that came since, what is read here may be from before its session or
// token was made: the next check has it.
func (w *watch) check(ctx context.Context, held map[string]bool) error {
	now, err := w.room.standing(ctx)
	if err != nil {
		return err
	}
	w.room.cfg.Revoke(func(who auth.Principal) bool {
		if !held[who.Key] {
			return false
		}
		expires, stays := now.stays(&who)
		w.known[who.Key] = expires
		return !stays
	})
	return nil
}

// note logs when the ledger stops answering, and when it answers again.
func (w *watch) note(ctx context.Context) {
	t := w.room.ledger.Trouble()
	switch {
	case t.Err != nil && !w.failing && ctx.Err() == nil:
		w.failing = true
		w.room.log.Error("the accounts can't be reached: nobody can sign in, and tokens and actions are refused", "err", t.Err)
	case t.Err == nil && w.failing:
		w.failing = false
		w.room.log.Info("the accounts can be reached again")
	}
}

// A standing is all that decides who may do what.
type standing struct {
	users    map[string]*row[User]
	guests   map[string]*row[Guest]
	sessions map[string]*row[Session]
	tokens   map[string]*row[Token]
	widen    func(*auth.Principal)
}

// holder is what the owner of tokens may do now; nil: nothing.
func (s *standing) holder(owner string) *holder {
	if g := s.guests[owner]; g != nil {
		return g.Value.holder()
	}
	if u := s.users[owner]; u != nil {
		return u.Value.holder()
	}
	return nil
}

func (r *Room) standing(ctx context.Context) (s standing, err error) {
	s.widen = r.widen
	if s.users, err = users.all(ctx, r.ledger); err != nil {
		return s, err
	}
	if s.guests, err = guests.all(ctx, r.ledger); err != nil {
		return s, err
	}
	if s.sessions, err = sessions.all(ctx, r.ledger); err != nil {
		return s, err
	}
	s.tokens, err = tokens.all(ctx, r.ledger)
	return s, err
}

// all returns all items by their IDs.
func (t table[T]) all(ctx context.Context, l ledger.Ledger) (map[string]*row[T], error) {
	rows, err := t.list(ctx, l, "")
	all := make(map[string]*row[T], len(rows))
	for _, r := range rows {
		all[r.ID] = r
	}
	return all, err
}

// stays reports whether a principal with a key may keep its socket, and until when; zero: for ever.
func (s *standing) stays(who *auth.Principal) (expires time.Time, stays bool) {
	switch who.Way {
	case auth.Token, auth.Picture:
		t := s.tokens[who.Key]
		if t == nil {
			return expires, false
		}
		now, valid := tokenPrincipal(t, s.holder(t.Owner), who.Address)
		if s.widen(&now); !valid || now != *who {
			return expires, false
		}
		return t.Expires, true
	default:
		session := s.sessions[who.Key]
		if session == nil {
			return expires, false
		}
		u := s.users[session.Value.User]
		if u == nil || u.Value.Disabled {
			return expires, false
		}
		now := u.Value.principal(u.ID, who.Way, who.Address, who.Key)
		if s.widen(&now); now != *who {
			return expires, false
		}
		return session.Expires, true
	}
}
