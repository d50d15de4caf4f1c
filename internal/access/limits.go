package access

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/gpuwhy/gpuwhy/internal/access/ledger"
	"github.com/gpuwhy/gpuwhy/internal/access/peer"
	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/serve"
)

const (
	// freeFailures may happen without a delay. After each further one the delay doubles, from a second to longestDelay.
	freeFailures = 5
	longestDelay = 15 * time.Minute
	// forgiven is how long after the last failure all are forgotten.
	forgiven = 24 * time.Hour
	// places are how many counts of failures there are for names, and as many for addresses. Two that share one are counted together, so
	// strangers can't fill the ledger.
	places = 1 << 14
	// deviceLife is how long a browser that has signed in is known, and mostDevices how many there are of a user.
	deviceLife  = 365 * 24 * time.Hour
	mostDevices = 20
)

// Attempts count failures to sign in, since the last success.
type Attempts struct {
	Failures int       `json:"failures"`
	Last     time.Time `json:"last"`
}

// delay is how long after the last failure the next attempt is allowed.
func (a *Attempts) delay() time.Duration {
	if a.Failures < freeFailures {
		return 0
	}
	return time.Duration(min(math.Exp2(float64(a.Failures-freeFailures)), longestDelay.Seconds())) * time.Second
}

// A Device is a browser that a user has signed in with before. Strangers who fail to sign in as the user do not delay it. Its ID is the
// hash of its cookie.
type Device struct {
	Seen time.Time `json:"seen"`
}

// place is the ID of the count of failures that a name or an address has.
func place(kind, of string) string {
	sum := sha256.Sum256([]byte(kind + "\n" + of))
	return fmt.Sprintf("%s:%04x", kind, binary.BigEndian.Uint32(sum[:])%places)
}

// addressBudget is the ID of the count of failures of a request's address.
func (r *Room) addressBudget(request *http.Request) string {
	return place("address", r.household(request))
}

// household is which client a request comes from: where it is and, if the kernel knows, which user of this machine it is. All of them have the
// same address.
func (r *Room) household(request *http.Request) string {
	where := serve.Household(r.cfg.Address.TrustedProxies.Client(request)).String()
	end := peer.FromContext(request.Context())
	if end == nil || !end.Unix() && !end.Loopback() || r.cfg.Address.TrustedProxies.Trusts(request) {
		return where
	}
	uid, err := end.UID()
	if err != nil {
		return where // nobody knows who it is, so it is counted with all whom nobody knows
	}
	return fmt.Sprint(where, " uid:", uid)
}

const (
	// beginRate is how many sign-ins with a passkey or a provider may begin in a second, and beginBurst at once: each is written to the ledger.
	beginRate, beginBurst = 20, 100
	// ownRate and ownBurst are how many of one client may: no stranger keeps everybody else out.
	ownRate, ownBurst = 1, 20
	// mostPaced is how many are remembered.
	mostPaced = 4096
)

// A pace limits how often each of many may do something. Many goroutines may call it.
type pace[K comparable] struct {
	every rate.Limit
	burst int

	mu  sync.Mutex
	own map[K]*rate.Limiter
}

func newPace[K comparable](every rate.Limit, burst int) *pace[K] {
	return &pace[K]{every: every, burst: burst, own: map[K]*rate.Limiter{}}
}

// allow reports whether somebody may do it now.
func (p *pace[K]) allow(who K, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	own := p.own[who]
	if own == nil {
		if len(p.own) >= mostPaced {
			maps.DeleteFunc(p.own, func(_ K, l *rate.Limiter) bool { return l.TokensAt(now) >= float64(p.burst) })
		}
		if len(p.own) >= mostPaced {
			clear(p.own)
		}
		own = rate.NewLimiter(p.every, p.burst)
		p.own[who] = own
	}
	return own.AllowN(now, 1)
}

// spent reports whether somebody may not do it now. It is no use.
func (p *pace[K]) spent(who K, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	own := p.own[who]
	return own != nil && own.TokensAt(now) < 1
}

// beginnings limit how often people begin to sign in in a way that takes two steps. Many goroutines may call it.
type beginnings struct {
	all *rate.Limiter
	own *pace[string] // by household
}

func newBeginnings() *beginnings {
	return &beginnings{all: rate.NewLimiter(beginRate, beginBurst), own: newPace[string](ownRate, ownBurst)}
}

// allow reports whether a client may begin.
func (b *beginnings) allow(client string) bool {
	return b.own.allow(client, time.Now()) && b.all.Allow()
}

const (
	// changeEvery is how often somebody may change what is their own, such as tokens, and changeBurst how often at once: each change is in the
	// audit, which nobody is to fill. It is 1,440 changes a day.
	changeEvery = time.Minute
	changeBurst = 30
)

var tooFast = &action.Refusal{
	Code: "too_fast", Status: http.StatusTooManyRequests, What: "you have changed your tokens, your sessions or how you sign in too often in a short time",
	Try: "try again in a minute; after the first 30 changes, one a minute is possible",
}

// paced refuses a change of somebody's own that comes too soon after others. Administrators of all machines are not limited, and the audit names
// them.
func (r *Room) paced(who *auth.Principal) error {
	if who.MayOnAll(auth.Administer) || r.changes.allow(cmp.Or(who.ID, who.Name), r.cfg.Clock.Now()) {
		return nil
	}
	return tooFast
}

var errOften = serve.Refuse(http.StatusTooManyRequests, "you have signed in too often in a short time",
	"go on in a browser that is signed in, or try again in a minute; after the first 30 times, once a minute is possible").RetryAfter(strconv.Itoa(int(changeEvery.Seconds())))

// arrives refuses a sign-in of a user who has proven who it is, if it comes too soon after others: each is in the audit. Nobody else can use up the
// user's sign-ins, since failures do not count here, and sessions that have begun go on. As with changes, administrators of all machines are not
// limited.
func (r *Room) arrives(request *http.Request, user *row[User]) error {
	if user.Value.administersAll() || r.arrivals.allow(user.ID, r.cfg.Clock.Now()) {
		return nil
	}
	return r.refused(request, "signIn", errOften)
}

// waits reports whether arrives would refuse a sign-in of the user now, for ways that use up something before.
func (r *Room) waits(user *row[User]) bool {
	return !user.Value.administersAll() && r.arrivals.spent(user.ID, r.cfg.Clock.Now())
}

// budgets are the IDs of the counts of failures that an attempt to sign in belongs to: those of the address and of the name, or that of the
// device if the user has signed in with it before.
func (r *Room) budgets(request *http.Request, name string) ([]string, error) {
	device, err := r.device(request)
	if err != nil {
		return nil, err
	}
	if device != nil {
		user, err := users.named(request.Context(), r.ledger, nameOf(name))
		if err != nil {
			return nil, err
		}
		if user != nil && user.ID == device.Owner {
			return []string{"device:" + device.ID}, nil
		}
	}
	return []string{r.addressBudget(request), place("name", nameOf(name))}, nil
}

// device is the browser of a request, if somebody has signed in with it; else nil.
func (r *Room) device(request *http.Request) (*row[Device], error) {
	cookie, err := request.Cookie(r.cookie(request, "-device"))
	if err != nil {
		return nil, nil //nolint:nilerr // the cookie is not there
	}
	return devices.get(request.Context(), r.ledger, hashOf(cookie.Value))
}

// affords refuses a request to sign in while one of its budgets has a delay.
func (r *Room) affords(request *http.Request, budgets []string) error {
	ctx := request.Context()
	var wait time.Duration
	for _, id := range budgets {
		a, err := attempts.get(ctx, r.ledger.Ledger, id) // past the view: other hubs count, too
		if err != nil {
			return err
		}
		if a != nil {
			// If the clock was set back, nobody waits longer than the delay.
			wait = max(wait, min(a.Value.delay(), a.Value.Last.Add(a.Value.delay()).Sub(r.cfg.Clock.Now())))
		}
	}
	if wait <= 0 {
		return nil
	}
	seconds := strconv.Itoa(int(math.Ceil(wait.Seconds())))
	return r.refused(request, "signIn", serve.Refuse(http.StatusTooManyRequests, "there were too many failures to sign in", "try again in "+seconds+" s").RetryAfter(seconds))
}

// failed counts a failure.
func (r *Room) failed(ctx context.Context, budgets []string) (err error) {
	for _, id := range budgets {
		err = errors.Join(err, r.retrying(func() error {
			a, err := attempts.get(ctx, r.ledger.Ledger, id)
			if err != nil {
				return err
			}
			if a == nil {
				a = &row[Attempts]{Item: ledger.Item{ID: id}}
			}
			now := r.cfg.Clock.Now()
			a.Value.Failures++
			a.Value.Last, a.Expires = now.UTC(), now.Add(forgiven)
			change, err := attempts.put(a)
			if err != nil {
				return err
			}
			change.Quiet = true
			return r.ledger.Apply(ctx, change)
		}))
	}
	return err
}

// succeeded forgets the failures of a user or a device. Those of an address stay: whoever has an account could else guess the passwords of
// others without a delay.
func (r *Room) succeeded(ctx context.Context, budgets []string) error {
	id := budgets[len(budgets)-1]
	a, err := attempts.get(ctx, r.ledger.Ledger, id)
	if err != nil || a == nil {
		return err
	}
	forgotten := attempts.remove(id)
	forgotten.Quiet = true
	return r.ledger.Apply(ctx, forgotten)
}

// retrying calls f again while somebody else changes the same.
func (r *Room) retrying(f func() error) (err error) {
	for range 5 {
		if err = f(); !errors.Is(err, ledger.ErrConflict) {
			break
		}
	}
	return err
}
