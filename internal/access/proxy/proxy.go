// Package proxy recognizes people whom a trusted proxy has signed in, by the headers that it adds to their requests. Such a header is
// worth nothing from anybody else, so it is taken off all other requests. What the person may do is for package access.
package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/access/provider"
)

// A family are the headers of one kind of proxy.
type family struct {
	users  []string // each has the name of the person
	groups string   // the groups, with commas between them; empty: it sends none
	others []string // more headers about the person, which gpuwhy does not need
}

var families = []family{
	{users: []string{"Remote-User", "Remote-Email"}, groups: "Remote-Groups", others: []string{"Remote-Name"}}, // Authelia, Apache
	{ // oauth2-proxy in front
		users:  []string{"X-Forwarded-User", "X-Forwarded-Email", "X-Forwarded-Preferred-Username"},
		groups: "X-Forwarded-Groups", others: []string{"X-Forwarded-Access-Token"},
	},
	{ // oauth2-proxy asked by nginx
		users:  []string{"X-Auth-Request-User", "X-Auth-Request-Email", "X-Auth-Request-Preferred-Username"},
		groups: "X-Auth-Request-Groups", others: []string{"X-Auth-Request-Access-Token"},
	},
	{users: []string{"Tailscale-User-Login"}, others: []string{"Tailscale-User-Name", "Tailscale-User-Profile-Pic"}},
	{users: []string{assertion}, others: []string{"Cf-Access-Authenticated-User-Email"}},
}

// assertion is the header of Cloudflare Access. Its value is signed.
const assertion = "Cf-Access-Jwt-Assertion"

// identities are all headers that say who somebody is.
var identities = func() map[string]bool {
	all := map[string]bool{}
	for _, f := range families {
		for _, header := range slices.Concat(f.users, f.others, []string{f.groups}) {
			all[header] = header != ""
		}
	}
	return all
}()

// Headers are the headers that can have the name of a person.
func Headers() (names []string) {
	for _, f := range families {
		names = append(names, f.users...)
	}
	return names
}

// Identities are all headers that say something of who a person is.
func Identities() (names []string) {
	for header, is := range identities {
		if is {
			names = append(names, header)
		}
	}
	slices.Sort(names)
	return names
}

// Strip takes all headers off a request that say who somebody is, and reports whether there were any.
func Strip(h http.Header) (stripped bool) {
	for header := range h {
		if identities[header] {
			delete(h, header)
			stripped = true
		}
	}
	return stripped
}

// Config says how a proxy names people.
type Config struct {
	Header string // one of [Headers]
	// Issuer and Audience are of the tokens of Cloudflare Access, such as https://team.cloudflareaccess.com; empty for other headers.
	Issuer, Audience string
}

// Check returns what is wrong with a configuration, and the setting that is at fault: "header", "issuer" or "audience".
func (c *Config) Check() (setting string, err error) {
	signed := c.Header == assertion
	switch {
	case !slices.Contains(Headers(), c.Header):
		return "header", fmt.Errorf("must be one of %s", strings.Join(Headers(), ", "))
	case signed && c.Issuer == "":
		return "issuer", errors.New("is needed for " + assertion + ": give the team's address, such as https://team.cloudflareaccess.com")
	case signed && c.Audience == "":
		return "audience", errors.New("is needed for " + assertion + ": give the audience tag of the application")
	case !signed && c.Issuer != "":
		return "issuer", errors.New("is for " + assertion + " alone")
	case !signed && c.Audience != "":
		return "audience", errors.New("is for " + assertion + " alone")
	case signed:
		return "issuer", provider.CheckURL(c.Issuer)
	}
	return "", nil
}

// A Reader reads who a proxy has signed in.
type Reader struct {
	cfg      Config
	groups   string
	verifier *oidc.IDTokenVerifier // nil for headers without a signature
	now      func() time.Time
}

// New returns a reader. The configuration is checked.
func New(cfg Config, now func() time.Time) *Reader {
	r := &Reader{cfg: cfg, now: now}
	for _, f := range families {
		if slices.Contains(f.users, cfg.Header) {
			r.groups = f.groups
		}
	}
	if cfg.Header == assertion {
		issuer := strings.TrimSuffix(cfg.Issuer, "/")
		keys := oidc.NewRemoteKeySet(oidc.ClientContext(context.Background(), provider.NewHTTP(nil)), issuer+"/cdn-cgi/access/certs")
		r.verifier = oidc.NewVerifier(issuer, keys, &oidc.Config{
			ClientID: cfg.Audience, SkipExpiryCheck: true, SupportedSigningAlgs: []string{oidc.RS256, oidc.ES256},
		})
	}
	return r
}

// A Person is somebody whom a proxy has signed in.
type Person struct {
	Name   string
	Groups []string
}

// Read returns the person whom a request of a trusted proxy is from; nil if the proxy has signed in nobody. An error says what is wrong
// with a header.
func (r *Reader) Read(request *http.Request) (*Person, error) {
	name, there, err := one(request.Header, r.cfg.Header)
	if err != nil || !there {
		return nil, err
	}
	if r.verifier != nil {
		return r.verified(request.Context(), name)
	}
	p := &Person{Name: name}
	if groups, there, err := one(request.Header, r.groups); err != nil {
		return nil, err
	} else if there {
		for group := range strings.SplitSeq(groups, ",") {
			if group = strings.TrimSpace(group); group != "" {
				p.Groups = append(p.Groups, group)
			}
		}
	}
	return p, nil
}

// longestOf is how long the value of a header may be, in bytes: of a name, of groups, and of a signed token.
func longestOf(header string) int {
	switch {
	case header == assertion, strings.HasSuffix(header, "-Groups"):
		return 16 << 10
	default:
		return 256
	}
}

// one returns the only value of a header. Groups alone may be empty: a person may be in none.
func one(h http.Header, header string) (value string, there bool, err error) {
	values := h[header]
	if header == "" || len(values) == 0 {
		return "", false, nil
	}
	value = strings.TrimSpace(values[0])
	var what string
	switch {
	case len(values) > 1:
		what = "is there " + strconv.Itoa(len(values)) + " times"
	case value == "" && strings.HasSuffix(header, "-Groups"):
		return "", false, nil
	case value == "":
		what = "is empty"
	case len(value) > longestOf(header):
		what = "is too long"
	case !utf8.ValidString(value) || strings.ContainsFunc(value, func(r rune) bool { return !unicode.IsPrint(r) }):
		what = "has a character that can't be printed"
	default:
		return value, true, nil
	}
	return "", false, &gpu.Advice{
		What: "the header " + header + " of the proxy " + what, Try: "have the proxy send it once, with the name of the person, and take it off what clients send",
	}
}

// verified returns the person whom a signed token names.
func (r *Reader) verified(ctx context.Context, raw string) (*Person, error) {
	invalid := func(err error) error {
		return &gpu.Advice{
			What: "the token of Cloudflare Access is not valid", Try: "sign in again; if that does not help, check the issuer and the audience tag in gpuwhy's settings", Err: err,
		}
	}
	token, err := r.verifier.Verify(ctx, raw)
	if err != nil {
		return nil, invalid(err)
	}
	claims := map[string]any{}
	if err := token.Claims(&claims); err != nil {
		return nil, invalid(err)
	}
	if err := provider.CheckTimes(token, claims, r.now()); err != nil {
		return nil, invalid(err)
	}
	email, _ := claims["email"].(string)
	name, there, err := one(http.Header{"Email": {email}}, "Email")
	if err != nil || !there {
		return nil, invalid(errors.New("it has no e-mail address: tokens of services are not for people"))
	}
	return &Person{Name: name}, nil
}
