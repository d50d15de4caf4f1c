package access

import (
	"context"
	"errors"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/access/ledger"
	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/auth"
)

// What the branch of sign-in has.
const linkLife = 15 * time.Minute

type Passkey struct{}

var passkeys = table[Passkey]{"passkey"}

func (r *Room) resetLink(_ context.Context, _ string) (string, error) {
	return "/reset?link=" + newSecret(), nil
}

func (r *Room) newHash(_ context.Context, _, password string) (string, error) {
	if len(password) < 15 {
		return "", action.Invalid("password", "must have at least 15 characters")
	}
	return "hash", nil
}

func checkName(name string) error {
	if nameOf(name) == "" {
		return errors.New("no name")
	}
	return nil
}

func identityOf(id string) string { return auth.AccountID + id }

func (r *Room) endings(ctx context.Context, userID, except string) (all []ledger.Change, err error) {
	list, err := sessions.list(ctx, r.cfg.Ledger, userID)
	for _, s := range list {
		if s.ID != except {
			all = append(all, sessions.remove(s.ID))
		}
	}
	return all, err
}

func noted(c *action.Call, before, after any) {}
