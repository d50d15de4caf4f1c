package access

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/access/ledger"
	"github.com/gpuwhy/gpuwhy/internal/access/peer"
	"github.com/gpuwhy/gpuwhy/internal/access/proxy"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/serve"
)

// ProxySignIn says how trusted proxies, which [serve.Address].TrustedProxies names, sign people in, and what those may do.
type ProxySignIn struct {
	proxy.Config
	// Roles give roles to groups and people.
	Roles []Grant
	// Others is the role of people without a grant; empty: they are refused.
	Others Role
}

const (
	// metAgain is after how long without a request a person who comes by a proxy is recorded anew, and mostMet how many are remembered.
	metAgain = 12 * time.Hour
	mostMet  = 10_000
)

// byProxy is the way of people whom a trusted proxy has signed in.
type byProxy struct {
	*ProxySignIn
	room   *Room
	reader *proxy.Reader

	mu  sync.Mutex
	met map[string]meeting // by name
}

// A meeting is the last request of somebody.
type meeting struct {
	at     time.Time
	rights Rights
}

func newByProxy(s *ProxySignIn, room *Room) *byProxy {
	return &byProxy{ProxySignIn: s, room: room, reader: proxy.New(s.Config, room.cfg.Clock.Now), met: map[string]meeting{}}
}

// ProxyUsers is for [serve.Proxies]: over loopback and a Unix socket, the kernel says which user has the other end of a connection, and it is
// a proxy's if it is one of these.
func ProxyUsers(users []peer.UID) func(*http.Request) (proxy, decided bool) {
	return func(r *http.Request) (proxy, decided bool) {
		end := peer.FromContext(r.Context())
		if end == nil || !end.Unix() && !end.Loopback() {
			return false, false
		}
		uid, err := end.UID()
		return err == nil && slices.Contains(users, uid), true
	}
}

// trusts reports whether a proxy that signs people in has sent a request.
func (p *byProxy) trusts(request *http.Request) bool {
	return p.room.cfg.Address.TrustedProxies.Trusts(request)
}

// strip takes off a request whatever says who somebody is, unless the proxy that may say so has sent it. A request that had such a header still
// counts as one that a proxy has passed on.
func (r *Room) strip(request *http.Request) *http.Request {
	if (r.byProxy == nil || !r.byProxy.trusts(request)) && proxy.Strip(request.Header) {
		return withPassed(request)
	}
	return request
}

// Recognize implements [Way]. A proxy that has signed in nobody leads to nobody, whatever the kernel says about the proxy itself.
func (p *byProxy) Recognize(request *http.Request) (auth.Principal, bool, error) {
	if !p.trusts(request) {
		return auth.Principal{}, false, nil
	}
	person, err := p.reader.Read(request)
	if advice, is := errors.AsType[*gpu.Advice](err); is {
		p.room.log.Warn("the header of a proxy was refused", "header", p.Header, "err", err)
		return auth.Principal{}, true, serve.Refuse(http.StatusUnauthorized, advice.What, advice.Try)
	}
	if err != nil || person == nil {
		return auth.Principal{}, true, err
	}
	rights, ok := granted(p.Roles, p.Others, person.Name, person.Groups)
	who := auth.Principal{
		Name: person.Name, Access: rights.Role.Access(), Audience: auth.NewAudience(rights.Sees, commandsOf(rights.Role, "")), // a proxy does not say which user of the machines somebody is
		Scope: rights.Scope, ID: guestID + person.Name, Way: auth.Proxy, Address: p.room.address(request),
	}
	e := p.room.entry(request, "signIn", "done")
	e.Principal, e.Identity, e.Way, e.Address, e.Target = who.Name, who.ID, string(auth.Proxy), who.Address, p.Header
	if !ok {
		e.Result, e.Detail = "refused", "there is no role for the person or the groups "+strings.Join(person.Groups, ", ")
		return auth.Principal{}, true, errors.Join(errNoRole, p.meet(request.Context(), e, Rights{}))
	}
	return who, true, p.meet(request.Context(), e, rights)
}

var errNoRole = serve.Refuse(http.StatusForbidden, "the proxy signed you in, but you may not use this gpuwhy", tryOwner)

// meet records the first request of a person, and the first with other rights, which their tokens then have too. What can't be recorded is
// refused.
func (p *byProxy) meet(ctx context.Context, e *ledger.Entry, rights Rights) error {
	now := p.room.cfg.Clock.Now()
	p.mu.Lock()
	last, known := p.met[e.Principal]
	if known && last.rights == rights && now.Sub(last.at) < metAgain {
		p.met[e.Principal] = meeting{now, rights}
		p.mu.Unlock()
		return nil
	}
	p.mu.Unlock()
	e.After = rights.text()
	if known {
		e.Before = last.rights.text()
	}
	if err := p.room.cfg.Audit(ctx, e); err != nil {
		return err
	}
	if err := p.room.seen(ctx, e.Identity, rights); err != nil {
		return p.room.unreachable(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.met) >= mostMet {
		clear(p.met)
	}
	p.met[e.Principal] = meeting{now, rights}
	return nil
}
