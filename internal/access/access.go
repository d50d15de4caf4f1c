// Package access decides who makes a request, and what they may do and see: by an API token, a session, a trusted proxy, or by what
// the kernel says about the caller. It has the accounts, sessions and tokens, and the pages and actions about them. All of that is in
// a [ledger.Ledger].
package access

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/alexedwards/scs/v2"
	"golang.org/x/time/rate"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/access/ledger"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/part"
	"github.com/gpuwhy/gpuwhy/internal/serve"
)

// Options are the settings of sign-in. The caller has checked them.
type Options struct {
	// Ledger has the accounts and the audit. The App closes it.
	Ledger ledger.Ledger
	// Open is what everybody may do without signing in; 0: nothing.
	Open auth.Access
	// NoCommands says that no command line is kept here (--show-commands none), so there is none to show.
	NoCommands bool
	// PlainSignIn takes passwords also where others on the network could read them.
	PlainSignIn bool
	// Notice is what every page says of who may do what here; nil: nothing.
	Notice *gpu.Advice
	// Control is the socket over which commands of this machine ask, see package control; nil: there is none. The App closes it.
	Control net.Listener
	// PublicURL is where browsers reach the program, such as "https://gpu.example.org"; empty: where a request says.
	PublicURL string
	// Providers are who else can sign people in, and Proxy is the proxy that does; nil: none does.
	Providers []Provider
	Proxy     *ProxySignIn
	// Ways recognize callers in addition to tokens and sessions, such as by the kernel or a trusted proxy. They are asked in order.
	Ways []Way
}

// Close closes the ledger of an App that was not made.
func (o *Options) Close() error {
	if o == nil {
		return nil
	}
	err := o.Ledger.Close()
	if o.Control != nil {
		err = errors.Join(err, o.Control.Close())
	}
	return err
}

// A Way recognizes who makes a request, by one means.
type Way interface {
	// Recognize returns the principal of a request, and whether the request has what this way looks for. An error refuses the request:
	// it has it, and it is not valid.
	Recognize(r *http.Request) (who auth.Principal, known bool, err error)
}

// Config is what a Room needs.
type Config struct {
	part.Host
	Options
	// Address is where the program is reached.
	Address serve.Address
	// Audit records what is no action, such as a sign-in that failed. If it returns an error, the caller refuses what it was about to do.
	Audit func(ctx context.Context, e *ledger.Entry) error
	// Refused records a refusal that anybody can cause as often as he likes, and does not wait. nil: nobody is told.
	Refused func(e *ledger.Entry)
	// Known reports whether a machine that is known now is in a scope, or none is known at all. nil: nobody knows machines here.
	Known func(auth.Scope) bool
	// Revoke ends the open sockets of principals for whom is returns true.
	Revoke func(is func(auth.Principal) bool)
	// Reopen ends the open sockets of principals who see other things from now on, and may connect again.
	Reopen func(is func(auth.Principal) bool)
}

// A Room decides who makes a request.
type Room struct {
	cfg      Config
	log      *slog.Logger
	ways     []Way
	ledger   *ledger.View  // which is cfg.Ledger, too
	keyed    chan struct{} // has a value after somebody came with a session or a token
	base     string        // the base path without a slash at its end
	shared   share         // for the names of cookies
	manager  *scs.SessionManager
	hasher   *hasher
	tokens   *tokenWay
	uses     uses
	begun    *beginnings
	changes  *pace[string] // of people's own, by who they are
	arrivals *pace[string] // sign-ins that succeeded, by user
	showing  showing
	accounts struct { // whether there is a user, when the ledger was asked last
		sync.Mutex
		any   bool
		asked time.Duration
	}
	vouchers []*voucher
	byProxy  *byProxy // nil: no proxy signs people in
}

// New makes a Room.
func New(cfg Config) *Room {
	view := ledger.Cached(cfg.Ledger, 0)
	cfg.Ledger = view
	if cfg.Refused == nil {
		cfg.Refused = func(*ledger.Entry) {}
	}
	r := &Room{
		cfg: cfg, log: cfg.Log.With("part", "access"), ledger: view, keyed: make(chan struct{}, 1), base: strings.TrimRight(cfg.Address.BasePath, "/"),
		manager: newManager(view), hasher: newHasher(), uses: uses{sessions: map[string]bool{}}, begun: newBeginnings(),
		changes: newPace[string](rate.Every(changeEvery), changeBurst), arrivals: newPace[string](rate.Every(changeEvery), changeBurst), showing: showing{now: map[viewer]*shown{}},
	}
	r.tokens = newTokenWay(r)
	r.ways = append(r.ways, r.tokens, sessionWay{r})
	r.vouchers = r.newVouchers(cfg.Providers)
	if cfg.Proxy != nil {
		r.byProxy = newByProxy(cfg.Proxy, r)
		r.ways = append(r.ways, r.byProxy)
	}
	r.ways = append(r.ways, cfg.Ways...)
	if cfg.Open > 0 {
		r.ways = append(r.ways, open{r, cfg.Open})
	}
	return r
}

// Name implements [part.Part].
func (*Room) Name() string { return "access" }

// Identify implements serve.Identifier.
func (r *Room) Identify(_ http.ResponseWriter, request *http.Request) (auth.Principal, error) {
	request = r.strip(request)
	for _, way := range r.ways {
		who, known, err := way.Recognize(request)
		switch {
		case err != nil:
			return auth.Principal{}, r.refused(request, "identify", err)
		case known:
			r.widen(&who)
			r.noticeKey(&who)
			return who, nil
		}
	}
	return auth.Principal{}, nil
}

// refused records that a request is refused, and returns why. What is the program's own fault is no refusal.
func (r *Room) refused(request *http.Request, what string, why error) error {
	if status, advice := serve.AsRefusal(why); status < http.StatusInternalServerError {
		e := r.entry(request, what, "refused")
		e.Detail = advice.What
		r.cfg.Refused(e)
	}
	return why
}

// open is the way of a program that nobody has to sign in to.
type open struct {
	room   *Room
	access auth.Access
}

// Recognize implements [Way].
func (o open) Recognize(r *http.Request) (auth.Principal, bool, error) {
	return auth.Principal{Name: "anyone", Access: o.access, Audience: auth.Everything, Way: auth.Open, Address: o.room.address(r)}, true, nil
}

// A warner is a [Way] that may be set up in the wrong way.
type warner interface {
	// Warning returns what to do about it, and since when it is so; nil: nothing is wrong.
	Warning() (*gpu.Advice, time.Time)
}

// warning returns the first of the ways' warnings.
func (r *Room) warning() (*gpu.Advice, time.Time) {
	for _, way := range r.ways {
		if w, may := way.(warner); may {
			if advice, since := w.Warning(); advice != nil {
				return advice, since
			}
		}
	}
	return nil, time.Time{}
}

// Notices are what every page says to somebody of who may do what here. Only those who administer gpuwhy learn how it is set up in the wrong way:
// the warning may name a user of the machine, who can cause it at will.
func (r *Room) Notices(who *auth.Principal) (all []gpu.Advice) {
	if r.cfg.Notice != nil {
		all = append(all, *r.cfg.Notice)
	}
	if warning, _ := r.warning(); warning != nil && who.MayOnAll(auth.Administer) {
		all = append(all, *warning)
	}
	return all
}

// Run removes expired sessions, tokens and links, writes when sessions and tokens were used, and ends the open sockets of whoever may no longer have
// one, until ctx ends.
func (r *Room) Run(ctx context.Context) error {
	var all sync.WaitGroup
	all.Go(func() { r.tend(ctx) })
	all.Go(func() { r.watch(ctx) })
	all.Go(func() { r.runVouchers(ctx) })
	all.Wait()
	return nil
}

func (r *Room) tend(ctx context.Context) {
	prune, write := time.NewTicker(time.Hour), time.NewTicker(seenStep)
	defer prune.Stop()
	defer write.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-write.C:
			r.tokens.writeUses(ctx)
			if err := r.writeUses(ctx); err != nil && ctx.Err() == nil {
				r.log.Debug("the use of sessions was not written", "err", err) // the accounts say why
			}
		case <-prune.C:
			if err := r.cfg.Ledger.Prune(ctx, time.Time{}); err != nil && ctx.Err() == nil {
				r.log.Warn("expired sessions were not removed", "err", err)
			}
		}
	}
}

// Health is whether the ledger answers. It also has the warning about a way that is set up in the wrong way: people still get in, so that is
// no failure.
func (r *Room) Health() map[string]contract.Part {
	t := r.ledger.Trouble()
	state := "ok"
	if t.Answered.IsZero() {
		state = "starting"
	}
	health := contract.NewPart(state, t.Answered)
	if t.Err != nil {
		health = health.Failed(t.Err, t.Since)
	} else if warning, since := r.warning(); warning != nil {
		health = health.Failed(warning, since)
		health.State, health.Discreet = state, "gpuwhy is set up in a way that it warns of: administrators and the owner of the machine see on each page what it is."
	}
	return map[string]contract.Part{"access": health}
}

// Close closes the ledger.
func (r *Room) Close() error {
	r.hasher.close()
	r.showing.close()
	return r.cfg.Ledger.Close()
}
