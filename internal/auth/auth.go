// Package auth has the types for who makes a request, what they may do and what they may see.
// Package serve decides, in one place, who a principal is. This package imports no other package
// of gpuwhy, so every package may use its types.
//
// What is hidden from an [Audience] is left out before anything is encoded for it. Secrets in command lines are the exception: package
// host masks them when it reads them, for everybody.
package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Access is what a route requires and what a principal may do. Each level includes the lower ones.
// The zero value is no access, and every route must declare a level.
type Access int

// The levels of access.
const (
	Metrics    Access = iota + 1 // read /metrics and nothing else
	Read                         // see what gpuwhy knows
	Operate                      // acknowledge and silence alerts
	Administer                   // change accounts, devices and gpuwhy itself
)

// Anyone is what a route requires that is also there for people who have not signed in, such as the page to sign in.
const Anyone Access = -1

// accessNames are the names of the levels between programs.
var accessNames = map[Access]string{Metrics: "metrics", Read: "read", Operate: "operate", Administer: "administer"}

// String is the level's name; empty for no access.
func (a Access) String() string { return accessNames[a] }

// MarshalText returns the level's name; empty for no access.
func (a Access) MarshalText() ([]byte, error) { return []byte(accessNames[a]), nil }

// UnmarshalText reads a level's name. Any other text is no access.
func (a *Access) UnmarshalText(name []byte) error {
	*a = 0
	for level, known := range accessNames {
		if known == string(name) {
			*a = level
		}
	}
	return nil
}

// A Principal is who makes a request. The zero value may do and see nothing.
type Principal struct {
	Name     string   `json:"name"` // the name that alerts and silences show for whoever changed them
	Access   Access   `json:"access"`
	Audience Audience `json:"audience"`
	// Scope limits Access above Read to some machines; empty: it holds on all.
	Scope Scope `json:"scope,omitempty"`
	// ID tells apart principals of the same name, such as "user:7f3a", "token:91bc" or "uid:1000". Empty: nobody in particular.
	ID string `json:"id,omitempty"`
	// Way is how gpuwhy recognized the principal: one of the constants below.
	Way Way `json:"way,omitempty"`
	// Address is where the request came from, as the audit shows it.
	Address string `json:"address,omitempty"`
	// Key is the ID of the session or token that the request came with, and ends with; empty: neither.
	Key string `json:"-"`
}

// A Way is how gpuwhy recognizes who makes a request.
type Way string

// The ways.
const (
	Local    Way = "local"    // the kernel says which user of this machine calls
	Open     Way = "open"     // nobody has to sign in
	Password Way = "password" // with a session that began with a password
	Passkey  Way = "passkey"  // with a session that began with a passkey
	Provider Way = "provider" // with a session that an OIDC provider vouched for
	Proxy    Way = "proxy"    // a trusted proxy says who it is
	Token    Way = "token"    // with an API token
	Picture  Way = "picture"  // with a token in the address of one picture, for which alone it is
	Hub      Way = "hub"      // a hub of the fleet asks
)

// SignedIn reports whether the principal has a session, which it can end.
func (p Principal) SignedIn() bool { return p.Way == Password || p.Way == Passkey || p.Way == Provider }

// Account is the ID of the principal's account; empty if it has none. A token that belongs to an account is another principal.
func (p Principal) Account() string {
	id, has := strings.CutPrefix(p.ID, AccountID)
	if !has {
		return ""
	}
	return id
}

// What the IDs of principals begin with.
const (
	AccountID = "user:"
	TokenID   = "token:"
)

// May reports whether the principal has the access, at least on some machine. Without a declared access, nobody may.
func (p Principal) May(needed Access) bool {
	return needed == Anyone || needed >= Metrics && p.Access >= needed
}

// MayOn reports whether the principal has the access on a machine.
func (p Principal) MayOn(needed Access, m Machine) bool {
	return p.May(needed) && (needed <= Read || p.Scope.Has(m))
}

// MayOnAll reports whether the principal has the access on all machines and sees them all, as what is about no machine needs: accounts,
// tokens and the audit.
func (p Principal) MayOnAll(needed Access) bool {
	return p.May(needed) && p.Scope == "" && p.Audience.SeesAll()
}

// A Sight determines how a page looks: principals with the same Sight share rendered pages.
type Sight struct {
	Audience Audience
	Access   Access
	Scope    Scope
	SignedIn bool
}

// Sight returns what determines how pages look for the principal.
func (p Principal) Sight() Sight { return Sight{p.Audience, p.Access, p.Scope, p.SignedIn()} }

// Principal is nobody in particular who sees so much.
func (s Sight) Principal() Principal {
	p := Principal{Audience: s.Audience, Access: s.Access, Scope: s.Scope}
	if s.SignedIn {
		p.Way = Password
	}
	return p
}

// MayOn reports whether those with the Sight have an access on a machine.
func (s Sight) MayOn(needed Access, m Machine) bool { return s.Principal().MayOn(needed, m) }

// MayOnAll reports whether those with the Sight have an access on all machines.
func (s Sight) MayOnAll(needed Access) bool { return s.Principal().MayOnAll(needed) }

// LocalOwner is the principal for people whom the kernel shows to own this gpuwhy, and for whoever asks a program that has no sign-in
// at all, such as the gallery.
func LocalOwner() Principal {
	return Principal{Name: "local owner", Access: Administer, Audience: Everything, Way: Local}
}

type principalKey struct{}

// NewContext returns a context that carries the principal.
func NewContext(ctx context.Context, p *Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// FromContext returns the principal that the context carries, if it carries one.
func FromContext(ctx context.Context) (Principal, bool) {
	if p, ok := ctx.Value(principalKey{}).(*Principal); ok {
		return *p, true
	}
	return Principal{}, false
}

// FromRequest returns the principal of a request that package server has accepted,
// such as one that upgrades to a WebSocket.
func FromRequest(r *http.Request) Principal {
	p, _ := FromContext(r.Context())
	return p
}

// Origins are the foreign origins whose pages may read answers and connect to
// the WebSocket, as patterns of [path.Match].
type Origins []string

// ParseOrigins reads origins as browsers send them: "scheme://host" or "scheme://host:port",
// without the scheme's default port; * stands for any part of the host. Its error says which one is
// wrong and why.
func ParseOrigins(list []string) (Origins, error) {
	origins := make(Origins, len(list))
	for i, origin := range list {
		origin, err := asciiOrigin(origin)
		if err == nil {
			err = checkOrigin(origin)
		}
		if err != nil {
			return nil, err
		}
		// In a pattern, brackets are classes of characters; IPv6 addresses have them.
		origins[i] = strings.NewReplacer("[", `\[`, "]", `\]`).Replace(strings.ToLower(origin))
	}
	return origins, nil
}

func checkOrigin(origin string) error {
	scheme, host, _ := strings.Cut(origin, "://")
	u, err := url.Parse(strings.ReplaceAll(origin, "*", "x"))
	switch {
	case !strings.Contains(origin, "://") || scheme != "http" && scheme != "https":
		return fmt.Errorf("origin %q does not begin with http:// or https://", origin)
	case err != nil:
		return fmt.Errorf("origin %q: %w", origin, errors.Unwrap(err))
	case u.Hostname() == "" || strings.ContainsAny(host, "/?#@\\"):
		return fmt.Errorf("origin %q must be a scheme, a host and perhaps a port, such as https://host.example:3000", origin)
	case scheme == "http" && u.Port() == "80", scheme == "https" && u.Port() == "443":
		return fmt.Errorf("origin %q: leave out the default port, as browsers do", origin)
	}
	return nil
}

// Allow reports whether pages of the origin may read answers.
func (o Origins) Allow(origin string) bool {
	return slices.ContainsFunc(o, func(pattern string) bool {
		ok, err := path.Match(pattern, strings.ToLower(origin))
		return ok && err == nil
	})
}

// Frames are the foreign origins whose pages may show a part of gpuwhy in a frame, as browsers read them in
// a Content-Security-Policy.
type Frames []string

// frame matches what can stand in a Content-Security-Policy, and nothing that ends it.
var frame = regexp.MustCompile(`^https?://(?:\*\.)?[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?(?::[0-9]{1,5})?$`)

// ParseFrames reads origins as [ParseOrigins] does. Here * stands for everything before the first dot of a host, and
// browsers do not accept IPv6 addresses.
func ParseFrames(list []string) (Frames, error) {
	frames := make(Frames, len(list))
	for i, origin := range list {
		origin, err := asciiOrigin(origin)
		if err == nil {
			err = checkOrigin(origin)
		}
		if err != nil {
			return nil, err
		}
		if frames[i] = strings.ToLower(origin); !frame.MatchString(frames[i]) {
			return nil, fmt.Errorf("origin %q must be a scheme, a host name and perhaps a port, such as https://wiki.example.org or https://*.example.org", origin)
		}
	}
	return frames, nil
}

// Allow reports whether pages of the origin may show a part of gpuwhy, as a browser decides it.
func (f Frames) Allow(origin string) bool {
	origin = strings.ToLower(origin)
	return slices.ContainsFunc(f, func(allowed string) bool {
		before, after, below := strings.Cut(allowed, "*")
		return origin == allowed || below && strings.HasPrefix(origin, before) && strings.HasSuffix(origin, after) && len(origin) > len(allowed)-1
	})
}
