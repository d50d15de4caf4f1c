// Package provider signs people in at an OpenID Connect provider. It leads a browser there (authorization code with PKCE), redeems
// the code that the browser comes back with, and checks the ID token: its signature, issuer, audience, nonce and times. What the
// person may do is for package access.
package provider

import (
	"context"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/gpuwhy/gpuwhy/gpu"
)

const (
	// skew is how far the clocks of gpuwhy and of a provider may be apart.
	skew = time.Minute
	// patience is how long a provider may take to answer.
	patience = 10 * time.Second
	// longest is how long an answer of a provider may be, in bytes.
	longest = 1 << 20
	// again is the time after which a provider that did not answer is asked again, at first and at most. One that answered is asked
	// again after refresh, since its addresses may change.
	again, againAtMost, refresh = 5 * time.Second, 5 * time.Minute, time.Hour
)

// Config says which provider signs people in, and how it names them.
type Config struct {
	Name     string // in addresses, such as "keycloak"
	Title    string // on the page, such as "Keycloak"; empty: Name
	Issuer   string // its URL, exactly as its tokens have it
	ClientID string // the name of gpuwhy at the provider
	// Secret returns the client's secret. It is called for each sign-in, since the file that has it may change. nil: a public client.
	Secret func() (string, error)
	Scopes []string // beside openid
	// NameClaim is the claim that has the person's name; empty: preferred_username, or else an e-mail address that the provider has
	// verified. "email" too is taken only if it is verified.
	NameClaim   string
	GroupsClaim string            // the claim that has the person's groups, such as "groups" or "realm_access.roles"
	Require     map[string]string // claims that must have a value, such as hd of a Google organization
	CAs         *x509.CertPool    // whose certificates are accepted; nil: the system's
}

// A Person is somebody whom a provider has signed in.
type Person struct {
	Subject string // tells people apart at this provider; it never changes
	Name    string
	Groups  []string
}

// Errors of a provider. What they wrap is for the log.
var (
	ErrUnreachable = errors.New("the provider does not answer")
	ErrNotAccepted = errors.New("the provider's answer was not accepted")
)

// A Client is gpuwhy at one provider. Its methods may be called concurrently.
type Client struct {
	Config
	http *http.Client
	now  func() time.Time
	log  *slog.Logger

	asking sync.Mutex // one asks the provider for its addresses at a time
	mu     sync.Mutex
	found  *addresses // nil until the provider has answered once
	failed error      // of the last attempt; nil: it answered
	tried  time.Time  // the last attempt
}

// addresses are what a provider says of itself.
type addresses struct {
	provider *oidc.Provider
	verifier *oidc.IDTokenVerifier
	end      string // where people sign out; empty: nowhere
	named    bool   // it names itself when it sends a browser back (RFC 9207)
}

// New returns a client. It asks nobody.
func New(cfg Config, now func() time.Time, log *slog.Logger) *Client {
	return &Client{Config: cfg, http: NewHTTP(cfg.CAs), now: now, log: log.With("provider", cfg.Name)}
}

// NewHTTP returns a client for what a provider publishes. It follows no redirects, and cuts long answers. The certificates of nil are the
// system's.
func NewHTTP(cas *x509.CertPool) *http.Client {
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{RootCAs: cas, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2: true, TLSHandshakeTimeout: patience, IdleConnTimeout: time.Minute,
	}
	return &http.Client{
		Timeout: patience, Transport: bounded{transport},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// bounded cuts answers that are too long.
type bounded struct{ http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	answer.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(answer.Body, longest), answer.Body}
	return answer, nil
}

// CloseIdleConnections is for [http.Client].
func (b bounded) CloseIdleConnections() {
	if t, is := b.RoundTripper.(*http.Transport); is {
		t.CloseIdleConnections()
	}
}

// Label is what the page calls the provider.
func (c *Client) Label() string {
	if c.Title != "" {
		return c.Title
	}
	return c.Name
}

// Down returns why the provider did not answer when it was last asked; nil if it did, or was not asked yet.
func (c *Client) Down() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

// Run asks the provider for its addresses, again and again, until ctx ends.
func (c *Client) Run(ctx context.Context) {
	wait := again
	for {
		next := refresh
		if _, err := c.discover(ctx, 0); err != nil {
			next, wait = wait, min(2*wait, againAtMost)
		} else {
			wait = again
		}
		timer := time.NewTimer(next)
		select {
		case <-ctx.Done():
			timer.Stop()
			c.http.CloseIdleConnections()
			return
		case <-timer.C:
		}
	}
}

// ready returns the addresses. It asks the provider if it never answered, but not more often than every two seconds.
func (c *Client) ready(ctx context.Context) (*addresses, error) {
	c.mu.Lock()
	found := c.found
	c.mu.Unlock()
	if found != nil {
		return found, nil
	}
	return c.discover(ctx, 2*time.Second)
}

// discover asks the provider for its addresses, unless that was done within a time. After a failure, those that it had last stay.
func (c *Client) discover(ctx context.Context, within time.Duration) (*addresses, error) {
	c.asking.Lock()
	defer c.asking.Unlock()
	c.mu.Lock()
	found, failed, tried := c.found, c.failed, c.tried
	c.mu.Unlock()
	if within > 0 && !tried.IsZero() && c.now().Sub(tried) < within {
		return found, failed
	}
	newer, err := c.ask(ctx)
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, ctx.Err()) // nobody waits for it any more, which says nothing of the provider
	}
	switch {
	case err != nil && failed == nil:
		c.log.Warn("an identity provider does not answer", "issuer", c.Issuer, "err", err)
	case err == nil && failed != nil:
		c.log.Info("an identity provider answers again", "issuer", c.Issuer)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tried, c.failed = c.now(), err
	if err == nil {
		c.found = newer
	}
	return newer, err
}

func (c *Client) ask(ctx context.Context) (*addresses, error) {
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, c.http), patience)
	defer cancel()
	provider, err := oidc.NewProvider(ctx, c.Issuer)
	if mismatch, is := errors.AsType[*oidc.IssuerMismatchError](err); is {
		return nil, c.down(err, "the provider calls itself "+strconv.Quote(mismatch.Discovered), "write the issuer exactly so")
	}
	if err != nil {
		return nil, c.down(err, c.Label()+" does not answer", "check that its issuer "+c.Issuer+" is right and can be reached from here")
	}
	var more struct {
		JWKS  string `json:"jwks_uri"`
		End   string `json:"end_session_endpoint"`
		Named bool   `json:"authorization_response_iss_parameter_supported"`
	}
	if err := provider.Claims(&more); err != nil {
		return nil, c.down(err, c.Label()+" says nothing useful of itself", "check its issuer "+c.Issuer)
	}
	endpoint := provider.Endpoint()
	for _, address := range []string{endpoint.AuthURL, endpoint.TokenURL, more.JWKS} {
		if err := CheckURL(address); err != nil {
			return nil, c.down(err, c.Label()+" has an address that can't be used", "its document /.well-known/openid-configuration must have only https addresses")
		}
	}
	if CheckURL(more.End) != nil {
		more.End = ""
	}
	// The times are checked here, since the library allows for five minutes in one of them and none in the other.
	verifier := provider.VerifierContext(oidc.ClientContext(context.WithoutCancel(ctx), c.http), &oidc.Config{ClientID: c.ClientID, SkipExpiryCheck: true})
	return &addresses{provider, verifier, more.End, more.Named}, nil
}

// down returns the error of a provider that can't be used now.
func (c *Client) down(err error, what, try string) error {
	return &gpu.Advice{What: what, Try: try, Err: fmt.Errorf("%w: %w", ErrUnreachable, err)}
}

// CheckURL returns what is wrong with the address of a provider: only on this machine it may be without encryption.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return fmt.Errorf("%q must be a URL, such as https://sso.example.org", text)
	case u.User != nil || u.Fragment != "":
		return fmt.Errorf("%q must have no name, password or fragment", text)
	case u.Scheme == "http" && !loopback(u.Hostname()):
		return fmt.Errorf("%q must begin with https://: whoever can change what the provider says could sign in as anybody", text)
	}
	return nil
}

func loopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return err == nil && address.IsLoopback() || host == "localhost"
}

// An Attempt is what ties a sign-in to the browser that began it. All of it is secret but State, which the provider gets.
type Attempt struct {
	State, Nonce, Verifier string
	Redirect               string // where the provider sends the browser back to
}

func (c *Client) oauth(found *addresses, a *Attempt, secret string) *oauth2.Config {
	endpoint := found.provider.Endpoint()
	if secret == "" {
		endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	scopes := []string{oidc.ScopeOpenID}
	for _, scope := range c.Scopes {
		if !slices.Contains(scopes, scope) {
			scopes = append(scopes, scope)
		}
	}
	return &oauth2.Config{ClientID: c.ClientID, ClientSecret: secret, Endpoint: endpoint, RedirectURL: a.Redirect, Scopes: scopes}
}

// Begin returns where a browser goes to sign in.
func (c *Client) Begin(ctx context.Context, a *Attempt) (string, error) {
	found, err := c.ready(ctx)
	if err != nil {
		return "", err
	}
	return c.oauth(found, a, "").AuthCodeURL(a.State, oidc.Nonce(a.Nonce), oauth2.S256ChallengeOption(a.Verifier)), nil
}

// Ends reports whether there is a place where people sign out of the provider, as far as it has answered.
func (c *Client) Ends() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.found != nil && c.found.end != ""
}

// End returns where a browser goes to sign out of the provider too, which then sends it to back; empty if there is no such place.
func (c *Client) End(ctx context.Context, back string) string {
	found, err := c.ready(ctx)
	if err != nil || found.end == "" {
		return ""
	}
	u, err := url.Parse(found.end)
	if err != nil {
		return ""
	}
	query := u.Query()
	query.Set("client_id", c.ClientID)
	query.Set("post_logout_redirect_uri", back)
	u.RawQuery = query.Encode()
	return u.String()
}

// An Answer is what a browser brings back from a provider.
type Answer struct {
	Code   string
	Issuer string // iss; empty: the provider did not name itself
}

// Redeem returns the person whom a browser's answer is about. Its errors wrap [ErrUnreachable] or [ErrNotAccepted].
func (c *Client) Redeem(ctx context.Context, a *Attempt, answer Answer) (*Person, error) {
	found, err := c.ready(ctx)
	if err != nil {
		return nil, err
	}
	if answer.Issuer != "" && answer.Issuer != c.Issuer || answer.Issuer == "" && found.named {
		return nil, c.refuse("another provider has answered", fmt.Errorf("it names itself %q", answer.Issuer))
	}
	secret := ""
	if c.Secret != nil {
		if secret, err = c.Secret(); err != nil {
			return nil, c.refuse("gpuwhy's secret for it can't be read", err)
		}
	}
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, c.http), 2*patience)
	defer cancel()
	tokens, err := c.oauth(found, a, secret).Exchange(ctx, answer.Code, oauth2.VerifierOption(a.Verifier))
	if said, is := errors.AsType[*oauth2.RetrieveError](err); is { // its text has the provider's answer, which may repeat the secret
		return nil, c.refuse("it did not accept the code", fmt.Errorf("status %d, error %.60q", said.Response.StatusCode, said.ErrorCode))
	}
	if err != nil {
		return nil, c.down(unsaid(err), c.Label()+" does not answer", "try again in a minute")
	}
	raw, _ := tokens.Extra("id_token").(string)
	if raw == "" {
		return nil, c.refuse("it sent no ID token", errors.New("the answer has no id_token"))
	}
	token, err := found.verifier.Verify(ctx, raw)
	if err != nil {
		if _, network := errors.AsType[net.Error](err); network || strings.Contains(err.Error(), "fetching keys") {
			return nil, c.down(err, "the keys of "+c.Label()+" can't be read", "try again in a minute")
		}
		return nil, c.refuse("its ID token is not valid", err)
	}
	claims := map[string]any{}
	if err := token.Claims(&claims); err != nil {
		return nil, c.refuse("its ID token can't be read", err)
	}
	if err := c.check(token, claims, a.Nonce, tokens.AccessToken); err != nil {
		return nil, c.refuse("its ID token is not valid", err)
	}
	if err := c.complete(ctx, found, token.Subject, claims, tokens); err != nil {
		return nil, err
	}
	return c.person(token.Subject, claims)
}

// unsaid is an error without the address of a request, whose query may have a secret.
func unsaid(err error) error {
	if e, is := errors.AsType[*url.Error](err); is {
		return e.Err
	}
	return err
}

// refuse returns the error of an answer that is not accepted.
func (c *Client) refuse(what string, err error) error {
	return &gpu.Advice{
		What: c.Label() + " did not sign you in: " + what, Try: "sign in again; if that does not help, ask the person who runs gpuwhy, whose log says more",
		Err: fmt.Errorf("%w: %s: %w", ErrNotAccepted, what, err),
	}
}

// CheckTimes returns why a token does not hold at a time. The clock of who issued it may be a minute off.
func CheckTimes(token *oidc.IDToken, claims map[string]any, now time.Time) error {
	after, limited := claims["nbf"].(float64)
	switch {
	case token.Expiry.Unix() <= 0 || !now.Before(token.Expiry.Add(skew)):
		return fmt.Errorf("it expired at %s", token.Expiry.UTC().Format(time.RFC3339))
	case token.IssuedAt.Unix() <= 0 || token.IssuedAt.After(now.Add(skew)):
		return fmt.Errorf("it was issued at %s, which is not yet", token.IssuedAt.UTC().Format(time.RFC3339))
	case limited && time.Unix(int64(after), 0).After(now.Add(skew)):
		return errors.New("it is not valid yet")
	}
	return nil
}

// check checks what the library leaves to its caller.
func (c *Client) check(token *oidc.IDToken, claims map[string]any, nonce, access string) error {
	party, named := claims["azp"]
	if err := CheckTimes(token, claims, c.now()); err != nil {
		return err
	}
	switch {
	case token.Subject == "" || len(token.Subject) > 255:
		return errors.New("it has no subject")
	case nonce == "" || subtle.ConstantTimeCompare([]byte(token.Nonce), []byte(nonce)) != 1:
		return errors.New("its nonce is not that of this sign-in")
	case named && party != c.ClientID, len(token.Audience) > 1 && !named:
		return errors.New("it was issued for another client")
	case token.AccessTokenHash != "":
		return token.VerifyAccessToken(access)
	}
	return nil
}

// complete adds claims that are wanted and that the ID token does not have, if the provider tells them elsewhere.
func (c *Client) complete(ctx context.Context, found *addresses, subject string, claims map[string]any, tokens *oauth2.Token) error {
	_, groups := lookup(claims, c.GroupsClaim)
	if _, name := c.name(claims); name && (groups || c.GroupsClaim == "") && !slices.ContainsFunc(c.required(), func(claim string) bool { return claims[claim] == nil }) {
		return nil
	}
	if asks := CheckURL(found.provider.UserInfoEndpoint()) == nil; !asks || overage(claims, c.GroupsClaim) {
		return nil
	}
	info, err := found.provider.UserInfo(ctx, oauth2.StaticTokenSource(tokens))
	if err != nil {
		return c.down(unsaid(err), c.Label()+" does not say who you are", "try again in a minute")
	}
	if info.Subject != subject {
		return c.refuse("it speaks of somebody else", errors.New("the subject of its userinfo is another"))
	}
	more := map[string]any{}
	if err := info.Claims(&more); err != nil {
		return c.refuse("its userinfo can't be read", err)
	}
	for claim, value := range more {
		if _, has := claims[claim]; !has {
			claims[claim] = value
		}
	}
	return nil
}

func (c *Client) required() (claims []string) {
	for claim := range c.Require {
		claims = append(claims, claim)
	}
	slices.Sort(claims)
	return claims
}

// overage reports whether the provider names no groups because there are too many.
func overage(claims map[string]any, claim string) bool {
	elsewhere, _ := claims["_claim_names"].(map[string]any)
	_, groups := elsewhere[claim]
	return claim != "" && groups
}

func (c *Client) person(subject string, claims map[string]any) (*Person, error) {
	for _, claim := range c.required() {
		if !slices.Contains(texts(claims[claim]), c.Require[claim]) {
			return nil, &gpu.Advice{
				What: c.Label() + " signed you in, but this gpuwhy is for other people", Try: "sign in with another account, or ask the person who runs gpuwhy",
				Err: fmt.Errorf("%w: the claim %s is not %q", ErrNotAccepted, claim, c.Require[claim]),
			}
		}
	}
	p := &Person{Subject: subject}
	var named bool
	if p.Name, named = c.name(claims); !named {
		return nil, c.refuse("it does not say your name", fmt.Errorf("no claim has it: set name-claim, and scopes so that the provider sends it (it sent %s)", names(claims)))
	}
	if c.GroupsClaim != "" {
		if overage(claims, c.GroupsClaim) {
			return nil, c.refuse("you are in too many groups for it to name them", errors.New("the groups are left out of the ID token: have the provider send only those that gpuwhy needs"))
		}
		groups, _ := lookup(claims, c.GroupsClaim)
		p.Groups = texts(groups)
	}
	return p, nil
}

// name returns the person's name, if the claims have it.
func (c *Client) name(claims map[string]any) (string, bool) {
	wanted := []string{c.NameClaim}
	if c.NameClaim == "" {
		wanted = []string{"preferred_username", "email"}
	}
	for _, claim := range wanted {
		value, _ := lookup(claims, claim)
		name, _ := value.(string)
		if claim == "email" && claims["email_verified"] != true && claims["email_verified"] != "true" {
			continue
		}
		if name = strings.TrimSpace(name); name != "" {
			return name, true
		}
	}
	return "", false
}

// lookup returns a claim. A name with dots may be a path through objects, such as "realm_access.roles".
func lookup(claims map[string]any, name string) (value any, has bool) {
	if value, has = claims[name]; has {
		return value, true
	}
	first, rest, nested := strings.Cut(name, ".")
	if object, is := claims[first].(map[string]any); is && nested {
		return lookup(object, rest)
	}
	return nil, false
}

// texts are the texts of a claim that has one or several.
func texts(value any) (all []string) {
	switch value := value.(type) {
	case string:
		return []string{value}
	case bool:
		return []string{strconv.FormatBool(value)}
	case []any:
		for _, v := range value {
			if text, is := v.(string); is {
				all = append(all, text)
			}
		}
	}
	return all
}

// names lists the names of claims.
func names(claims map[string]any) string {
	var all []string
	for claim := range claims {
		all = append(all, fmt.Sprintf("%.40q", claim))
	}
	slices.Sort(all)
	return strings.Join(all[:min(len(all), 30)], ", ")
}
