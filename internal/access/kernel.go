package access

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/user"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/access/peer"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/clock"
	"github.com/gpuwhy/gpuwhy/internal/serve"
)

// A KernelConfig is what a [Kernel] needs.
type KernelConfig struct {
	// Loopback says that connections to an address of the loopback network are judged too, and not only those of Unix sockets.
	Loopback bool
	// OwnersOnly leaves other users of this machine to the next way, such as where everybody else has to sign in. Without it, they may
	// read.
	OwnersOnly bool
	OwnerGroup string        // whose members are local owners; empty: none
	Proxies    serve.Proxies // requests that they send are of somebody else
	Clock      clock.Clock
	Log        *slog.Logger
}

// A Kernel is the [Way] of people on this machine: the kernel says which user each of them is. Root, the user who runs gpuwhy and the
// members of a group are local owners. Other users may read.
//
// Somebody whom the kernel does not know is left to the next way. So is a request that a proxy has passed on: its connection is the
// proxy's.
type Kernel struct {
	cfg KernelConfig

	mu     sync.Mutex
	people map[peer.UID]*localUser
	proxy  unnamedProxy
}

// NewKernel returns a Kernel.
func NewKernel(cfg KernelConfig) *Kernel {
	return &Kernel{cfg: cfg, people: map[peer.UID]*localUser{}}
}

// Recognize implements [Way].
func (k *Kernel) Recognize(r *http.Request) (who auth.Principal, known bool, err error) {
	end := peer.FromContext(r.Context())
	switch {
	case end == nil, !end.Unix() && (!k.cfg.Loopback || !end.Loopback()), k.cfg.Proxies.Trusts(r):
		return who, false, nil
	case passedOn(r):
		k.warn(end)
		return who, false, nil
	}
	uid, err := end.UID()
	if err != nil {
		return who, false, nil //nolint:nilerr // nobody knows who it is, and that is no reason to refuse it
	}
	p := k.find(uid)
	if !p.owner && k.cfg.OwnersOnly {
		return who, false, nil
	}
	who = auth.Principal{Access: auth.Read, Audience: p.audience, Way: auth.Local}
	if p.owner {
		who = auth.LocalOwner()
	}
	who.Name, who.ID, who.Address = p.name, p.id, r.RemoteAddr
	if end.Unix() {
		who.Address = "a Unix socket"
	}
	return who, true, nil
}

// passedOn reports whether a proxy has sent a request on behalf of somebody else.
func passedOn(r *http.Request) bool {
	return serve.PassedOn(r) || r.Context().Value(passedKey{}) != nil
}

type passedKey struct{}

// withPassed returns the request so that [passedOn] knows of headers that were taken off.
func withPassed(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), passedKey{}, true))
}

// A localUser is a user of this machine.
type localUser struct {
	id       string // of the principal
	name     string
	owner    bool
	audience auth.Audience // of one who is no owner: the user's own command lines whole, and of others the names of programs
	until    time.Duration // when the group database is asked again, by the clock
	looking  chan struct{} // closed when it has answered; nil: it is not being asked
}

const (
	// forgetful is how long the answer of the group database holds.
	forgetful = time.Minute
	// atMost is how long a request waits for the database, which may be on a server.
	atMost = 2 * time.Second
	// mostPeople is how many are remembered.
	mostPeople = 4096
)

// find returns a user, as the group database says at most a minute ago. While it does not answer, only root and the user who runs
// gpuwhy are owners.
func (k *Kernel) find(uid peer.UID) localUser {
	k.mu.Lock()
	p := k.people[uid]
	if p == nil {
		if len(k.people) >= mostPeople {
			clear(k.people)
		}
		p = &localUser{id: fmt.Sprint("uid:", uid), audience: ownCommands(fmt.Sprint(uid))}
		k.people[uid] = p
	}
	if now := k.cfg.Clock.Elapsed(); p.name != "" && now < p.until {
		defer k.mu.Unlock()
		return *p
	}
	if p.looking == nil {
		p.looking = make(chan struct{})
		go k.look(uid, p)
	}
	looking := p.looking
	k.mu.Unlock()
	late := time.NewTimer(atMost)
	defer late.Stop()
	select {
	case <-looking:
		k.mu.Lock()
		defer k.mu.Unlock()
		return *p
	case <-late.C:
		return localUser{id: p.id, name: fmt.Sprint("user ", uid), owner: owns(uid), audience: ownCommands("")}
	}
}

// owns reports whether a user needs no group to be an owner.
func owns(uid peer.UID) bool { return uid == 0 || int(uid) == os.Geteuid() }

func (k *Kernel) look(uid peer.UID, p *localUser) {
	name, owner := k.ask(uid)
	k.mu.Lock()
	defer k.mu.Unlock()
	if name == "" { // processes of such a user show the number
		name = fmt.Sprint("user ", uid)
	} else {
		p.audience = ownCommands(name)
	}
	p.name, p.owner, p.until = name, owner, k.cfg.Clock.Elapsed()+forgetful
	close(p.looking)
	p.looking = nil
}

func ownCommands(user string) auth.Audience { return auth.NewAudience("", auth.CommandsOf(user)) }

// ask asks the user and group databases, which takes as long as they like. The name is empty if the user has none.
func (k *Kernel) ask(uid peer.UID) (name string, owner bool) {
	owner = owns(uid)
	u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
	if err != nil {
		return "", owner
	}
	name = u.Username
	if owner || k.cfg.OwnerGroup == "" {
		return name, owner
	}
	group, err := user.LookupGroup(k.cfg.OwnerGroup)
	if err != nil {
		if _, none := errors.AsType[user.UnknownGroupError](err); !none {
			k.cfg.Log.Warn("the members of the owner group are not known", "group", k.cfg.OwnerGroup, "err", err)
		}
		return name, false
	}
	groups, err := u.GroupIds()
	return name, err == nil && slices.Contains(groups, group.Gid)
}

// An unnamedProxy is a program of this machine that passes on requests of others, although nobody has named it as a trusted proxy.
type unnamedProxy struct {
	first, last time.Time // when it has passed one on; zero: there is none
	user        string    // who runs it
	unix        bool      // it came over a Unix socket
}

// proxied is how long a warning about such a proxy stays after its last request.
const proxied = 10 * time.Minute

func (p *unnamedProxy) recent(now time.Time) bool {
	return !p.last.IsZero() && now.Sub(p.last) < proxied
}

func (p *unnamedProxy) advice() *gpu.Advice {
	try := "if it is your proxy, name the user that it runs as with --proxy-user, or start gpuwhy with --trusted-proxy 127.0.0.1,::1; otherwise find out which program it is"
	if p.unix {
		try = "if it is your proxy, name the user that it runs as with --proxy-user; otherwise find out which program it is"
	}
	return &gpu.Advice{
		What: "a program of " + p.user + " on this machine passes on requests of others, and nobody has named it as a trusted proxy. Whoever comes through it may read at most", Try: try,
	}
}

// warn remembers that such a proxy has passed on a request, and logs the first.
func (k *Kernel) warn(end *peer.End) {
	now := k.cfg.Clock.Now()
	k.mu.Lock()
	known := k.proxy.recent(now)
	k.proxy.last = now
	k.mu.Unlock()
	if known {
		return
	}
	name := "an unknown user"
	if uid, err := end.UID(); err == nil {
		name = k.find(uid).name
	}
	k.mu.Lock()
	k.proxy.first, k.proxy.user, k.proxy.unix = now, name, end.Unix()
	advice := k.proxy.advice()
	k.mu.Unlock()
	k.cfg.Log.Warn("a proxy of this machine is not trusted", "why", advice.What, "try", advice.Try)
}

// Warning returns what the page and health say about a proxy on this machine that nobody has named, and since when there is one; nil if
// there was none lately.
func (k *Kernel) Warning() (*gpu.Advice, time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.proxy.recent(k.cfg.Clock.Now()) || k.proxy.first.IsZero() {
		return nil, time.Time{}
	}
	return k.proxy.advice(), k.proxy.first
}
