package access

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/access/ledger"
	"github.com/gpuwhy/gpuwhy/internal/auth"
)

// watchStep is how often a program whose users have signed in looks whether another program has ended a session, or changed a user.
const watchStep = 500 * time.Millisecond

// A watch ends open sockets of those who may no longer look: whose session or token has ended, or whose user was changed, wherever that was
// done. It also writes when sessions were last used.
type watch struct {
	ledger ledger.Ledger
	used   atomic.Bool // a session or token was recognized

	mu   sync.Mutex
	seen map[string]bool // sessions that were used since they were written last

	// The others are those of watchOver alone.
	read     bool // keys and people are those of revision
	revision int64
	keys     map[string]time.Time // of sessions and tokens: when they end; zero: never
	people   map[string]*row[User]
	tokens   map[string]*row[Token]
	written  time.Duration // when the use of sessions was written, as elapsed time
}

// saw notes that a session was used.
func (w *watch) saw(id string) {
	w.used.Store(true)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen[id] = true
}

// watchOver looks until ctx ends.
func (r *Room) watchOver(ctx context.Context) {
	every := time.NewTicker(watchStep)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		if !r.watch.used.Load() {
			continue
		}
		if err := r.look(ctx); err != nil && ctx.Err() == nil {
			r.log.Debug("accounts can't be read", "err", err) // who asks for something is told
		}
	}
}

// look ends the sockets of those who may no longer look.
func (r *Room) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	w := &r.watch
	if now := r.cfg.Clock.Elapsed(); now-w.written >= seenStep {
		w.written = now
		if err := r.writeSeen(ctx); err != nil {
			return err
		}
	}
	revision, err := r.ledger.Revision(ctx)
	if err != nil {
		return err
	}
	if !w.read || revision != w.revision {
		if err := r.readStanding(ctx); err != nil {
			return err
		}
		w.read, w.revision = true, revision
	}
	now := r.cfg.Clock.Now()
	r.cfg.Revoke(func(p auth.Principal) bool {
		if ends, there := w.keys[p.Key]; p.Key != "" && (!there || !ends.IsZero() && !ends.After(now)) {
			return true
		}
		if token := w.tokens[p.Key]; token != nil {
			now, valid := tokenPrincipal(token, w.people[identityOf(token.Owner)], p.Address)
			return !valid || now != p
		}
		if !p.SignedIn() {
			return false
		}
		u := w.people[p.ID]
		return u == nil || u.Value.Disabled || u.Value.principal(u.ID, p.Way, p.Address, p.Key) != p
	})
	return nil
}

// readStanding reads which sessions, tokens and users there are.
func (r *Room) readStanding(ctx context.Context) error {
	w := &r.watch
	w.keys, w.people, w.tokens = map[string]time.Time{}, map[string]*row[User]{}, map[string]*row[Token]{}
	for _, kind := range []string{sessions.kind, tokens.kind} {
		items, err := r.ledger.List(ctx, kind, "")
		if err != nil {
			return err
		}
		for i := range items {
			w.keys[items[i].ID] = items[i].Expires
		}
	}
	made, err := tokens.list(ctx, r.ledger, "")
	if err != nil {
		return err
	}
	for _, t := range made {
		w.tokens[t.ID] = t
	}
	people, err := users.list(ctx, r.ledger, "")
	for _, u := range people {
		w.people[identityOf(u.ID)] = u
	}
	return err
}

// writeSeen writes when sessions were last used, all at once. An open socket is a use.
func (r *Room) writeSeen(ctx context.Context) error {
	w := &r.watch
	r.cfg.Revoke(func(p auth.Principal) bool {
		if p.SignedIn() {
			w.saw(p.Key)
		}
		return false
	})
	w.mu.Lock()
	seen := w.seen
	w.seen = map[string]bool{}
	w.mu.Unlock()
	now := r.cfg.Clock.Now().UTC()
	var changes []ledger.Change
	for id := range seen {
		s, err := sessions.get(ctx, r.ledger, id)
		if err != nil {
			return err
		}
		if s == nil || now.Sub(s.Value.Seen) < seenStep {
			continue
		}
		s.Value.Seen = now
		s.Expires = now.Add(idleLimit)
		if s.Value.Ends.Before(s.Expires) {
			s.Expires = s.Value.Ends
		}
		change, err := sessions.put(s)
		if err != nil {
			return err
		}
		changes = append(changes, change)
	}
	if len(changes) == 0 {
		return nil
	}
	err := r.ledger.Apply(ctx, changes...)
	if !errors.Is(err, ledger.ErrConflict) {
		return err
	}
	for _, change := range changes { // one of them has ended, or another program has written it
		if err := r.ledger.Apply(ctx, change); err != nil && !errors.Is(err, ledger.ErrConflict) {
			return err
		}
	}
	return nil
}
