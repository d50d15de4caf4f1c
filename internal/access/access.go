// Package access decides who makes a request, and what they may do and see: by an API token, a session, a trusted proxy, or by what
// the kernel says about the caller. It has the accounts, sessions and tokens, and the pages and actions about them. All of that is in
// a [ledger.Ledger].
package access

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/alexedwards/scs/v2"
	"golang.org/x/time/rate"

	"github.com/gpuwhy/gpuwhy/internal/access/ledger"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/part"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/internal/state"
	"github.com/gpuwhy/gpuwhy/views"
)

// Options are the settings of sign-in. The caller has checked them.
type Options struct {
	// PlainSignIn lets people sign in over HTTP without TLS from other machines.
	PlainSignIn bool
	// Ledger has the accounts and the audit. The App closes it.
	Ledger ledger.Ledger
	// Open is what everybody may do without signing in; 0: nothing.
	Open auth.Access
	// Ways recognize callers in addition to tokens and sessions, such as by the kernel or a trusted proxy. They are asked in order.
	Ways []Way
}

// Close closes the ledger of an App that was not made.
func (o *Options) Close() error {
	if o == nil {
		return nil
	}
	return o.Ledger.Close()
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
	// Installation is the installation of the program, for the names of cookies; nil without one.
	Installation *state.Installed
	// Audit records what is no action, such as a sign-in that failed. If it returns an error, the caller refuses what it was about to do.
	Audit func(ctx context.Context, e *ledger.Entry) error
	// Revoke ends the open sockets of principals for whom is returns true.
	Revoke func(is func(auth.Principal) bool)
}

// A Room decides who makes a request.
type Room struct {
	cfg      Config
	log      *slog.Logger
	ways     []Way
	ledger   *cache
	base     string // the base path without a slash at its end
	manager  *scs.SessionManager
	hasher   *hasher
	tokens   *tokenWay
	watch    watch
	begun    *rate.Limiter // ceremonies of passkeys
	accounts struct {      // whether there is a user, when the ledger was asked last
		sync.Mutex
		any   bool
		asked time.Duration
	}
	// providers are the buttons of the page to sign in.
	providers []views.Link
}

// New makes a Room.
func New(cfg Config) *Room {
	kept := newCache(cfg.Ledger, cfg.Clock)
	r := &Room{
		cfg: cfg, log: cfg.Log.With("part", "access"), ledger: kept, base: strings.TrimRight(cfg.Address.BasePath, "/"),
		manager: newManager(kept), hasher: newHasher(), watch: watch{seen: map[string]bool{}}, begun: rate.NewLimiter(ceremonyRate, ceremonyBurst),
	}
	r.tokens = newTokenWay(r)
	r.ways = append(r.ways, r.tokens, sessionWay{r})
	r.ways = append(r.ways, cfg.Ways...)
	if cfg.Open > 0 {
		r.ways = append(r.ways, open(cfg.Open))
	}
	return r
}

// Name implements [part.Part].
func (*Room) Name() string { return "access" }

// Identify implements serve.Identifier.
func (r *Room) Identify(_ http.ResponseWriter, request *http.Request) (auth.Principal, error) {
	for _, way := range r.ways {
		if who, known, err := way.Recognize(request); err != nil || known {
			return who, err
		}
	}
	return auth.Principal{}, nil
}

// open is the way of a program that nobody has to sign in to.
type open auth.Access

// Recognize implements [Way].
func (o open) Recognize(r *http.Request) (auth.Principal, bool, error) {
	return auth.Principal{Name: "anyone", Access: auth.Access(o), Audience: auth.Everything, Way: auth.Open, Address: r.RemoteAddr}, true, nil
}

// Run ends the sockets of those who may no longer look, and removes expired sessions, tokens and links, until ctx ends. It
// writes when tokens were used.
func (r *Room) Run(ctx context.Context) error {
	uses := time.NewTicker(usedEach)
	defer uses.Stop()
	var watching sync.WaitGroup
	watching.Go(func() { r.watchOver(ctx) })
	defer watching.Wait()
	for every := time.NewTicker(time.Hour); ; {
		select {
		case <-ctx.Done():
			every.Stop()
			return nil
		case <-uses.C:
			r.tokens.writeUses(ctx)
		case <-every.C:
			if err := r.cfg.Ledger.Prune(ctx, time.Time{}); err != nil {
				r.log.Warn("expired sessions were not removed", "err", err)
			}
		}
	}
}

// Close closes the ledger.
func (r *Room) Close() error {
	r.hasher.close()
	return r.cfg.Ledger.Close()
}
