package access

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/alexedwards/scs/v2"

	"github.com/gpuwhy/gpuwhy/internal/access/ledger"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/serve"
)

const (
	// idleLimit ends a session that nobody uses, and absoluteLimit any.
	idleLimit     = 7 * 24 * time.Hour
	absoluteLimit = 30 * 24 * time.Hour
	// seenStep is how often at most the use of a session is written.
	seenStep = time.Minute
	// mostSessions is how many sessions a user has at most: a further one ends the oldest.
	mostSessions = 50
	// young is how long after it began a session may change how its user signs in.
	young = 10 * time.Minute
	// longestAgent limits what is stored of how a browser names itself, in bytes.
	longestAgent = 200
)

// cookie is the name of one of the cookies, as a request has it.
func (r *Room) cookie(request *http.Request, what string) string {
	return cookieName(r.secure(request), r.base, r.shared.suffix(request.Context(), r.ledger)) + what
}

// secure reports whether the browser of a request speaks TLS.
func (r *Room) secure(request *http.Request) bool {
	return r.cfg.Address.TrustedProxies.Secure(request)
}

// address is where a request comes from, as the audit shows it.
func (r *Room) address(request *http.Request) string {
	if a := r.cfg.Address.TrustedProxies.Client(request); a.IsValid() {
		return a.String()
	}
	return ""
}

// setCookie sets one of the cookies; without a value, it removes it. SameSite is Lax: with Strict, whoever follows a link from a chat or a
// mail to gpuwhy would have to sign in again. Requests that change something are checked for their origin anyway.
func (r *Room) setCookie(w http.ResponseWriter, request *http.Request, what, value string, life time.Duration) {
	path := r.base
	if path == "" {
		path = "/"
	}
	age := int(life / time.Second)
	if value == "" {
		age = -1
	}
	http.SetCookie(w, &http.Cookie{
		Name: r.cookie(request, what), Value: value, Path: path, MaxAge: age, HttpOnly: true, Secure: r.secure(request), SameSite: http.SameSiteLaxMode,
	})
}

// newManager is the session library, with sessions in the ledger. It makes the secrets, gives each session a new one when it begins, and sets
// the limits. (Its New would also start a store in memory, with a goroutine that nobody can end.)
func newManager(l ledger.Ledger) *scs.SessionManager {
	return &scs.SessionManager{Lifetime: absoluteLimit, IdleTimeout: idleLimit, Store: sessionStore{l}, Codec: sessionCodec{}}
}

// sessionValue is the only value of a session for the library: a [Session].
const sessionValue = "session"

// sessionCodec has a session as its document in the ledger.
type sessionCodec struct{}

// Encode implements [scs.Codec].
func (sessionCodec) Encode(deadline time.Time, values map[string]any) ([]byte, error) {
	s, ok := values[sessionValue].(Session)
	if !ok {
		return nil, errors.New("a session without a user can't be written")
	}
	s.Ends = deadline
	return json.Marshal(s)
}

// Decode implements [scs.Codec].
func (sessionCodec) Decode(doc []byte) (deadline time.Time, values map[string]any, err error) {
	var s Session
	if err := json.Unmarshal(doc, &s); err != nil {
		return deadline, nil, fmt.Errorf("a session can't be read: %w", err)
	}
	return s.Ends, map[string]any{sessionValue: s}, nil
}

// sessionStore is the ledger for the session library.
type sessionStore struct{ ledger ledger.Ledger }

// FindCtx implements [scs.CtxStore].
func (s sessionStore) FindCtx(ctx context.Context, token string) ([]byte, bool, error) {
	it, err := s.ledger.Get(ctx, sessions.kind, hashOf(token))
	if it == nil || err != nil {
		return nil, false, err
	}
	return it.Doc, true, nil
}

// CommitCtx implements [scs.CtxStore]. Only a new session is committed.
func (s sessionStore) CommitCtx(ctx context.Context, token string, doc []byte, expiry time.Time) error {
	var of Session
	if err := json.Unmarshal(doc, &of); err != nil {
		return err
	}
	return s.ledger.Apply(ctx, ledger.Change{Item: ledger.Item{Kind: sessions.kind, ID: hashOf(token), Owner: of.User, Expires: expiry, Doc: doc}})
}

// DeleteCtx implements [scs.CtxStore].
func (s sessionStore) DeleteCtx(ctx context.Context, token string) error {
	return s.ledger.Apply(ctx, sessions.remove(hashOf(token)))
}

// Find implements [scs.Store].
func (s sessionStore) Find(token string) ([]byte, bool, error) {
	return s.FindCtx(context.Background(), token)
}

// Commit implements [scs.Store].
func (s sessionStore) Commit(token string, doc []byte, expiry time.Time) error {
	return s.CommitCtx(context.Background(), token, doc, expiry)
}

// Delete implements [scs.Store].
func (s sessionStore) Delete(token string) error { return s.DeleteCtx(context.Background(), token) }

// sessionWay recognizes whoever has signed in, by the cookie.
type sessionWay struct{ room *Room }

// Recognize implements [Way]. A session that has ended is none: what everybody may see is there without one.
func (s sessionWay) Recognize(request *http.Request) (auth.Principal, bool, error) {
	r := s.room
	session, id, err := r.session(request)
	if err != nil || session == nil {
		return auth.Principal{}, false, err
	}
	user, err := users.get(request.Context(), r.ledger, session.User)
	if err != nil {
		return auth.Principal{}, false, r.unreachable(err)
	}
	if user == nil || user.Value.Disabled {
		return auth.Principal{}, false, nil
	}
	r.uses.saw(id)
	return user.Value.principal(user.ID, session.Way, r.address(request), id), true, nil
}

// session is the session of a request, and its ID; nil if it has none.
func (r *Room) session(request *http.Request) (*Session, string, error) {
	cookie, err := request.Cookie(r.cookie(request, ""))
	if err != nil || cookie.Value == "" {
		return nil, "", nil //nolint:nilerr // the cookie is not there
	}
	ctx, err := r.manager.Load(request.Context(), cookie.Value)
	if err != nil {
		return nil, "", r.unreachable(err)
	}
	s, ok := r.manager.Get(ctx, sessionValue).(Session)
	if now := r.cfg.Clock.Now(); !ok || !now.Before(s.Ends) || !now.Before(s.Seen.Add(idleLimit+seenStep)) {
		return nil, "", nil
	}
	return &s, hashOf(cookie.Value), nil
}

// unreachable says what nobody can be recognized without.
func (r *Room) unreachable(err error) error {
	if errors.Is(err, ledger.ErrGone) || errors.Is(err, context.DeadlineExceeded) {
		r.log.Debug("accounts can't be read", "err", err) // the watch of sockets logs it once
		return errGone
	}
	return err
}

var errGone = serve.Refuse(http.StatusServiceUnavailable, "the accounts can't be read at this moment", "try again in a few seconds; gpuwhy's log has the reason").RetryAfter("5")

// beginSession signs a user in, whom somebody has vouched for in that way: the browser gets a new session, and loses the one that it had. It
// refuses users that are disabled or sign in too often, and whatever can't be recorded.
func (r *Room) beginSession(w http.ResponseWriter, request *http.Request, userID string, way auth.Way) error {
	ctx := request.Context()
	user, err := users.get(ctx, r.ledger, userID)
	if err != nil {
		return err
	}
	e := r.entry(request, "signIn", "done")
	e.Way = string(way)
	if user == nil || user.Value.Disabled || user.Value.vouchedElsewhere(way) {
		e.Result, e.Detail = "refused", "disabled"
		if user != nil && !user.Value.Disabled {
			e.Detail = "signs in with the provider " + user.Value.Provider + " alone"
		}
		if user != nil {
			e.Principal, e.Identity = user.Value.Name, identityOf(user.ID)
		}
		return errors.Join(errWrong, r.cfg.Audit(ctx, e))
	}
	e.Principal, e.Identity = user.Value.Name, identityOf(user.ID)
	if err := r.arrives(request, user); err != nil {
		return err
	}
	if err := r.cfg.Audit(ctx, e); err != nil {
		return err
	}
	old := ""
	if cookie, err := request.Cookie(r.cookie(request, "")); err == nil {
		old = cookie.Value
	}
	if ctx, err = r.manager.Load(ctx, old); err != nil {
		return err
	}
	if err := r.manager.RenewToken(ctx); err != nil { // whoever has put a cookie there does not know this one
		return err
	}
	now := r.cfg.Clock.Now().UTC()
	agent := strings.ToValidUTF8(request.UserAgent()[:min(len(request.UserAgent()), longestAgent)], "")
	r.manager.Put(ctx, sessionValue, Session{User: userID, Way: way, Began: now, Seen: now, Address: r.address(request), Agent: agent})
	secret, _, err := r.manager.Commit(ctx)
	if err != nil {
		return err
	}
	if old != "" {
		r.revokeKeys(hashOf(old))
	}
	r.setCookie(w, request, "", secret, absoluteLimit)
	if err := r.fewSessions(ctx, userID); err != nil {
		return err
	}
	if err := r.remember(w, request, userID); err != nil {
		return err
	}
	return r.retrying(func() error {
		user, err := users.get(ctx, r.ledger, userID)
		if err != nil || user == nil {
			return err
		}
		user.Value.Seen = now
		change, err := users.put(user)
		if err != nil {
			return err
		}
		change.Quiet = true
		return r.ledger.Apply(ctx, change)
	})
}

// fewSessions ends the oldest sessions of a user who has too many.
func (r *Room) fewSessions(ctx context.Context, userID string) error {
	all, err := sessions.list(ctx, r.ledger, userID)
	if err != nil || len(all) <= mostSessions {
		return err
	}
	slices.SortFunc(all, func(a, b *row[Session]) int { return a.Value.Began.Compare(b.Value.Began) })
	var changes []ledger.Change
	for _, s := range all[:len(all)-mostSessions] {
		changes = append(changes, sessions.remove(s.ID))
	}
	return r.end(ctx, changes)
}

// remember lets the browser be known as one that the user has signed in with.
func (r *Room) remember(w http.ResponseWriter, request *http.Request, userID string) error {
	ctx, now := request.Context(), r.cfg.Clock.Now()
	device, err := r.device(request)
	if err != nil {
		return err
	}
	if device != nil && device.Owner == userID {
		return nil
	}
	all, err := devices.list(ctx, r.ledger, userID)
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b *row[Device]) int { return a.Value.Seen.Compare(b.Value.Seen) })
	var changes []ledger.Change
	for len(all) >= mostDevices {
		changes, all = append(changes, devices.remove(all[0].ID)), all[1:]
	}
	secret := newSecret()
	change, err := devices.put(&row[Device]{Item: ledger.Item{ID: hashOf(secret), Owner: userID, Expires: now.Add(deviceLife)}, Value: Device{Seen: now.UTC()}})
	if err != nil {
		return err
	}
	change.Quiet = true
	if err := r.ledger.Apply(ctx, append(changes, change)...); err != nil {
		return err
	}
	r.setCookie(w, request, "-device", secret, deviceLife)
	return nil
}

// endings are the changes that end all sessions of a user but one, if one is named.
func (r *Room) endings(ctx context.Context, userID, except string) (changes []ledger.Change, err error) {
	all, err := sessions.list(ctx, r.ledger, userID)
	if err != nil {
		return nil, err
	}
	for _, s := range all {
		if s.ID != except {
			changes = append(changes, sessions.remove(s.ID))
		}
	}
	return changes, nil
}

// end ends sessions and their open sockets.
func (r *Room) end(ctx context.Context, changes []ledger.Change) error {
	if len(changes) == 0 {
		return nil
	}
	if err := r.ledger.Apply(ctx, changes...); err != nil {
		return err
	}
	r.revoke(changes)
	return nil
}

// revoke ends the open sockets of sessions that changes have ended.
func (r *Room) revoke(changes []ledger.Change) {
	var keys []string
	for i := range changes {
		if changes[i].Remove && changes[i].Kind == sessions.kind {
			keys = append(keys, changes[i].ID)
		}
	}
	r.revokeKeys(keys...)
}

func (r *Room) revokeKeys(keys ...string) {
	if len(keys) > 0 {
		r.cfg.Revoke(func(p auth.Principal) bool { return p.Key != "" && slices.Contains(keys, p.Key) })
	}
}

// EndSession ends a session and its open sockets.
func (r *Room) endSession(ctx context.Context, id string) error {
	return r.end(ctx, []ledger.Change{sessions.remove(id)})
}
