package access

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/access/ledger"
	"github.com/gpuwhy/gpuwhy/internal/auth"
)

// Rights are what somebody may do and see.
type Rights struct {
	Role  Role       `json:"role"`            // empty: none
	Scope auth.Scope `json:"scope,omitempty"` // the machines on which the role holds; empty: all
	Sees  auth.Scope `json:"sees,omitempty"`  // the machines that they see; empty: all
}

// text is how the audit has rights.
func (r Rights) text() json.RawMessage {
	text, _ := json.Marshal(r)
	return text
}

func (u *User) rights() Rights { return Rights{u.Role, u.Scope, u.Sees} }

// commandsOf says whose command lines somebody sees: an administrator those that machines show to all viewers, others their own whole and
// nobody else's.
func commandsOf(role Role, unix string) auth.Commands {
	if role == Administrator {
		return auth.Shown
	}
	return auth.CommandsOf(unix)
}

// rightsOf are the rights of a principal, who has not come with a token.
func rightsOf(who *auth.Principal) (r Rights) {
	for _, role := range []Role{Viewer, Operator, Administrator} {
		if who.May(role.Access()) {
			r.Role = role
		}
	}
	sees, some := who.Audience.Machines()
	if !some {
		return Rights{}
	}
	r.Scope, r.Sees = who.Scope, sees
	return r
}

// A Guest is somebody whom a proxy signs in, who has made a token: with the rights that the proxy gave when they came last. Its ID is that
// of the principal.
type Guest struct {
	Name string `json:"name"`
	Rights
}

// guestID is what the IDs of guests begin with.
const guestID = "proxy:"

// isGuest reports whether an owner of tokens is a guest.
func isGuest(owner string) bool { return strings.HasPrefix(owner, guestID) }

// A holder is what the owner of a token may do and see now.
type holder struct {
	Rights
	unix    string
	outside bool // somebody else than gpuwhy says what the rights are, and gpuwhy learns it when the owner comes
}

// holder is what the tokens of an account are limited to; nil: they let nobody in.
func (u *User) holder() *holder {
	if u == nil || u.Disabled {
		return nil
	}
	return &holder{u.rights(), u.Unix, u.Provider != ""}
}

// holder is what the tokens of a guest are limited to.
func (g *Guest) holder() *holder { return &holder{Rights: g.Rights, outside: true} }

// holder returns what the owner of tokens may do now; nil: nothing, since it is gone or disabled.
func (r *Room) holder(ctx context.Context, owner string) (*holder, error) {
	if isGuest(owner) {
		found, err := guests.get(ctx, r.ledger, owner)
		if err != nil || found == nil {
			return nil, err
		}
		return found.Value.holder(), nil
	}
	found, err := users.get(ctx, r.ledger, owner)
	if err != nil || found == nil {
		return nil, err
	}
	return found.Value.holder(), nil
}

// longestOutside is how long a token is valid at most whose owner's rights a proxy or a provider decides. Whoever has lost them there may
// never come again, and then gpuwhy does not learn of it: so such a token lasts no longer than a session does.
const longestOutside = 30 * 24 * time.Hour

// within reports whether a token gives no more than rights do.
func (t *Token) within(r Rights) bool {
	return t.Access <= r.Role.Access() && (t.Scope == "" || t.Scope.Within(r.Scope) && t.Scope.Within(r.Sees))
}

// beyond are the changes that remove the tokens of an owner outside which give more than the rights with which the owner came now.
func (r *Room) beyond(ctx context.Context, owner string, now Rights) (changes []ledger.Change, err error) {
	all, err := tokens.list(ctx, r.ledger, owner)
	for _, t := range all {
		if !t.Value.within(now) {
			changes = append(changes, tokens.remove(t.ID))
		}
	}
	return changes, err
}

// seen changes what a guest's tokens may do to the rights with which the guest came now. Tokens that give more end.
func (r *Room) seen(ctx context.Context, id string, now Rights) error {
	return r.retrying(func() error {
		guest, err := guests.get(ctx, r.ledger, id)
		if err != nil || guest == nil || guest.Value.Rights == now {
			return err
		}
		changes := []ledger.Change{guests.remove(id)} // with all tokens
		if now.Role != "" {
			guest.Value.Rights = now
			put, err := guests.put(guest)
			if err != nil {
				return err
			}
			beyond, err := r.beyond(ctx, id, now)
			if err != nil {
				return err
			}
			changes = append(beyond, put)
		}
		return r.ledger.Apply(ctx, changes...)
	})
}
