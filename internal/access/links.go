package access

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/access/ledger"
	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/serve"
)

// linkLife is how long a link works.
const linkLife = 15 * time.Minute

// A Link lets whoever has it choose a password, once. Its ID is the hash of its secret.
type Link struct {
	User string `json:"user,omitempty"` // the ID; empty: it makes the first administrator
}

// setupName is the name of the link that makes the first administrator: there is one at a time.
const setupName = "setup"

// errUsed refuses a link of a user, and errSetup one that makes the first administrator.
var (
	errUsed  = serve.Refuse(http.StatusGone, "this link does not work any more", "links work once, for 15 minutes: ask for another, or run 'gpuwhy user reset NAME' on the machine")
	errSetup = serve.Refuse(http.StatusGone, "this link does not work any more",
		"links work once, for 15 minutes: if there is no administrator yet, start gpuwhy again, and it prints another; or run 'gpuwhy user add NAME --role administrator' on the machine")
)

// ErrAdministered is returned where somebody wants to make the first administrator, and there is one.
var ErrAdministered = errors.New("there is an administrator already")

// SetupLink returns the address of a page that makes the first administrator, below the server's address, such as "/setup?link=…". It
// works once, for 15 minutes, until the next call. It returns [ErrAdministered] if there is an administrator.
func (r *Room) SetupLink(ctx context.Context) (string, error) {
	if has, err := r.administered(ctx); err != nil || has {
		return "", errors.Join(err, errIf(has, ErrAdministered))
	}
	before, err := links.named(ctx, r.ledger, setupName)
	if err != nil {
		return "", err
	}
	var changes []ledger.Change
	if before != nil {
		changes = append(changes, links.remove(before.ID))
	}
	return r.newLink(ctx, "/setup", ledger.Item{Name: setupName}, changes...)
}

func errIf(is bool, err error) error {
	if is {
		return err
	}
	return nil
}

// administered reports whether there is an administrator who is not disabled.
func (r *Room) administered(ctx context.Context) (bool, error) {
	all, err := users.list(ctx, r.ledger, "")
	for _, u := range all {
		if u.Value.Role == Administrator && !u.Value.Disabled {
			return true, nil
		}
	}
	return false, err
}

// resetLink returns the address of a page on which a user can choose a new password, below the server's address, such as "/reset?link=…".
// It works once, for 15 minutes.
func (r *Room) resetLink(ctx context.Context, userID string) (string, error) {
	user, err := users.get(ctx, r.ledger, userID)
	if err != nil {
		return "", err
	}
	if user != nil && user.Value.Provider != "" {
		return "", errVouched
	}
	return r.newLink(ctx, "/reset", ledger.Item{Owner: userID})
}

func (r *Room) newLink(ctx context.Context, page string, it ledger.Item, changes ...ledger.Change) (string, error) {
	secret := newSecret()
	it.ID, it.Expires = hashOf(secret), r.cfg.Clock.Now().Add(linkLife)
	change, err := links.put(&row[Link]{Item: it, Value: Link{User: it.Owner}})
	if err != nil {
		return "", err
	}
	if err := r.ledger.Apply(ctx, append(changes, change)...); err != nil {
		return "", err
	}
	return r.base + page + "?link=" + secret, nil
}

// link finds the link with a secret, which is for one user or makes the first administrator.
func (r *Room) link(ctx context.Context, secret string, setup bool) (*row[Link], error) {
	found, err := links.get(ctx, r.ledger, hashOf(secret))
	if err != nil {
		return nil, err
	}
	if found == nil || setup != (found.Value.User == "") || !found.Expires.After(r.cfg.Clock.Now()) {
		if setup {
			return nil, errSetup
		}
		return nil, errUsed
	}
	if setup {
		if has, err := r.administered(ctx); err != nil || has {
			return nil, errors.Join(err, errIf(has, errSetup))
		}
	}
	return found, nil
}

// use is the change that uses up a link. It conflicts with itself.
func (l Link) use(found *row[Link]) ledger.Change {
	return ledger.Change{Item: ledger.Item{Kind: links.kind, ID: found.ID}, Was: found.Version, Remove: true}
}

var errTaken = action.Invalid("name", "is taken by somebody who is no administrator: choose another")

// setUp makes the first administrator with a link.
func (r *Room) setUp(request *http.Request, secret, name, password string) (*row[User], error) {
	ctx := request.Context()
	found, err := r.link(ctx, secret, true)
	if err != nil {
		return nil, err
	}
	if err := checkName(name); err != nil {
		return nil, err
	}
	if taken, err := users.named(ctx, r.ledger, nameOf(name)); err != nil || taken != nil {
		return nil, errors.Join(err, errIf(taken != nil, errTaken))
	}
	hash, err := r.newHash(ctx, name, password)
	if err != nil {
		return nil, err
	}
	user := &row[User]{
		Item:  ledger.Item{ID: newID(), Name: nameOf(name)},
		Value: User{Name: name, Role: Administrator, Password: hash, Created: r.cfg.Clock.Now().UTC()},
	}
	change, err := users.put(user)
	if err != nil {
		return nil, err
	}
	e := r.entry(request, "setUp", "done")
	e.Principal, e.Identity, e.Target = name, identityOf(user.ID), name
	return user, r.redeem(ctx, e, found, change)
}

// reset changes the password of a user with a link, and ends the user's sessions.
func (r *Room) reset(request *http.Request, secret, password string) (*row[User], error) {
	ctx := request.Context()
	found, err := r.link(ctx, secret, false)
	if err != nil {
		return nil, err
	}
	user, err := users.get(ctx, r.ledger, found.Value.User)
	if err != nil || user == nil || user.Value.Disabled {
		return nil, errors.Join(err, errIf(err == nil, errUsed))
	}
	changes, err := r.passwordChanges(ctx, user, password, "")
	if err != nil {
		return nil, err
	}
	e := r.entry(request, "resetPassword", "done")
	e.Principal, e.Identity, e.Target = user.Value.Name, identityOf(user.ID), user.Value.Name
	if err := r.redeem(ctx, e, found, changes...); err != nil {
		return nil, err
	}
	r.revoke(changes)
	return user, nil
}

// redeem makes changes with a link, once.
func (r *Room) redeem(ctx context.Context, e *ledger.Entry, found *row[Link], changes ...ledger.Change) error {
	e.Way = string(auth.Password)
	if err := r.cfg.Audit(ctx, e); err != nil {
		return err
	}
	err := r.ledger.Apply(ctx, append([]ledger.Change{found.Value.use(found)}, changes...)...)
	if errors.Is(err, ledger.ErrConflict) {
		return errUsed
	}
	return err
}
