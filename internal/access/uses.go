package access

import (
	"context"
	"errors"
	"sync"

	"github.com/gpuwhy/gpuwhy/internal/access/ledger"
	"github.com/gpuwhy/gpuwhy/internal/auth"
)

// The uses of sessions since they were written last.
type uses struct {
	mu       sync.Mutex
	sessions map[string]bool // by ID
}

// saw notes that a session was used.
func (u *uses) saw(id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.sessions[id] = true
}

// writeUses writes when sessions were last used, all at once. An open socket is a use.
func (r *Room) writeUses(ctx context.Context) error {
	u := &r.uses
	r.cfg.Revoke(func(p auth.Principal) bool {
		if p.SignedIn() {
			u.saw(p.Key)
		}
		return false
	})
	u.mu.Lock()
	seen := u.sessions
	u.sessions = map[string]bool{}
	u.mu.Unlock()
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
		change.Quiet = true
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
