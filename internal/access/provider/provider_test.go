package provider_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/oauth2-proxy/mockoidc"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/access/provider"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.RunTests(m)) }

// An issuer is a provider in this process.
type issuer struct {
	*mockoidc.MockOIDC
	// token changes what the provider sends for a code; nil: nothing. raw is the ID token.
	token func(raw string) string
	// says changes what the provider says of itself.
	says map[string]any
	// info is what userinfo adds.
	info map[string]any
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	m, err := mockoidc.NewServer(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &issuer{MockOIDC: m}
	if err := m.AddMiddleware(s.change); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Start(ln, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Server.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// change is the middleware that makes the provider say something else.
func (s *issuer) change(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := httptest.NewRecorder()
		next.ServeHTTP(answer, r)
		content := map[string]any{}
		if answer.Code == http.StatusOK && json.Unmarshal(answer.Body.Bytes(), &content) == nil {
			switch r.URL.Path {
			case mockoidc.TokenEndpoint:
				if raw, is := content["id_token"].(string); is && s.token != nil {
					if content["id_token"] = s.token(raw); content["id_token"] == "" {
						delete(content, "id_token")
					}
				}
			case mockoidc.DiscoveryEndpoint:
				maps.Copy(content, s.says)
			case mockoidc.UserinfoEndpoint:
				maps.Copy(content, s.info)
			}
			text, _ := json.Marshal(content)
			answer.Body = bytes.NewBuffer(text)
		}
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	})
}

// client is gpuwhy at the provider.
func (s *issuer) client(change ...func(*provider.Config)) *provider.Client {
	cfg := provider.Config{
		Name: "mock", Title: "Mock", Issuer: s.Issuer(), ClientID: s.ClientID, Secret: func() (string, error) { return s.ClientSecret, nil },
		Scopes: []string{"profile", "email", "groups"}, GroupsClaim: "groups",
	}
	for _, c := range change {
		c(&cfg)
	}
	return provider.New(cfg, time.Now, slog.New(slog.DiscardHandler))
}

var attempt = &provider.Attempt{
	State: "a state", Nonce: "a nonce", Verifier: "a-verifier-of-at-least-43-characters-as-RFC-7636-has-it", Redirect: "http://127.0.0.1:8003/sign-in/with/mock/callback",
}

// signIn follows a browser to the provider, and returns the code that it brings back.
func signIn(t *testing.T, c *provider.Client, a *provider.Attempt) string {
	t.Helper()
	address, err := c.Begin(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	asked, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	if q := asked.Query(); q.Get("code_challenge_method") != "S256" || q.Get("code_challenge") == a.Verifier || q.Get("state") != a.State || q.Get("nonce") != a.Nonce ||
		!strings.Contains(" "+q.Get("scope")+" ", " openid ") || strings.Contains(address, "secret") {
		t.Errorf("the browser is sent to %s", address)
	}
	browser := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer browser.CloseIdleConnections()
	answer, err := browser.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	back, err := answer.Location()
	if err != nil {
		t.Fatalf("%s: %v", answer.Status, err)
	}
	if back.Query().Get("state") != a.State {
		t.Errorf("the browser comes back to %s", back)
	}
	return back.Query().Get("code")
}

// forge signs other claims with an algorithm and a key, as somebody who has them could.
func forge(t *testing.T, raw string, alg jose.SignatureAlgorithm, key any, kid string, change func(claims map[string]any)) string {
	t.Helper()
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(raw, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	claims := map[string]any{}
	if err := json.Unmarshal(payload, &claims); err != nil {
		t.Fatal(err)
	}
	change(claims)
	text, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	if alg == "none" {
		return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + base64.RawURLEncoding.EncodeToString(text) + "."
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, (&jose.SignerOptions{}).WithHeader("kid", kid))
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(text)
	if err != nil {
		t.Fatal(err)
	}
	compact, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return compact
}

// kidOf is the name of the key that has signed a token.
func kidOf(raw string) string {
	text, _ := base64.RawURLEncoding.DecodeString(strings.Split(raw, ".")[0])
	var header struct{ Kid string }
	_ = json.Unmarshal(text, &header)
	return header.Kid
}

func TestSignIn(t *testing.T) {
	s := newIssuer(t)
	c := s.client()
	p, err := c.Redeem(t.Context(), attempt, provider.Answer{Code: signIn(t, c, attempt)})
	if err != nil {
		t.Fatal(err)
	}
	if p.Subject != "1234567890" || p.Name != "jane.doe" || !slices.Equal(p.Groups, []string{"engineering", "design"}) {
		t.Errorf("%+v", p)
	}
	if err := c.Down(); err != nil {
		t.Error(err)
	}
}

// What a provider sends is taken only if every part of it is right. All but the first lines of the table are attacks.
func TestTokens(t *testing.T) {
	other, err := mockoidc.RandomKeypair(2048)
	if err != nil {
		t.Fatal(err)
	}
	set := func(claim string, value any) func(map[string]any) {
		return func(claims map[string]any) { claims[claim] = value }
	}
	unset := func(claim string) func(map[string]any) { return func(claims map[string]any) { delete(claims, claim) } }
	in := func(d time.Duration) int64 { return time.Now().Add(d).Unix() }
	public := func(key *rsa.PublicKey) []byte {
		der, _ := x509.MarshalPKIXPublicKey(crypto.PublicKey(key))
		return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	}
	none := func(map[string]any) {}
	for _, tt := range []struct {
		name   string
		change func(claims map[string]any)
		alg    jose.SignatureAlgorithm
		key    func(s *issuer) any
		kid    string // empty: that of the provider's key
		says   string // empty: it is accepted
	}{
		{name: "as it is", change: none},
		{name: "expired 50 s ago", change: set("exp", in(-50*time.Second))},
		{name: "issued in 50 s", change: set("iat", in(50*time.Second))},
		{name: "for several clients and this one", change: func(c map[string]any) { c["azp"] = c["aud"].([]any)[0]; c["aud"] = append(c["aud"].([]any), "other") }},

		{name: "expired", change: set("exp", in(-70*time.Second)), says: "expired"},
		{name: "without an end", change: unset("exp"), says: "expired"},
		{name: "issued in the future", change: set("iat", in(90*time.Second)), says: "not yet"},
		{name: "without a beginning", change: unset("iat"), says: "not yet"},
		{name: "not valid yet", change: set("nbf", in(90*time.Second)), says: "not valid yet"},
		{name: "another audience", change: set("aud", "other"), says: "audience"},
		{name: "no audience", change: unset("aud"), says: "audience"},
		{name: "for several clients, and not authorized for this one", change: func(c map[string]any) { c["aud"] = append(c["aud"].([]any), "other") }, says: "another client"},
		{name: "authorized for another client", change: set("azp", "other"), says: "another client"},
		{name: "another issuer", change: set("iss", "https://evil.example"), says: "issued by a different provider"},
		{name: "the issuer with a slash", change: func(c map[string]any) { c["iss"] = c["iss"].(string) + "/" }, says: "issued by a different provider"},
		{name: "another nonce", change: set("nonce", "b nonce"), says: "nonce"},
		{name: "no nonce", change: unset("nonce"), says: "nonce"},
		{name: "no subject", change: unset("sub"), says: "subject"},
		{name: "another access token", change: set("at_hash", "AAAAAAAAAAAAAAAAAAAAAA"), says: "access token hash"},
		{name: "no signature", change: none, alg: "none", says: "signature algorithm"},
		{name: "the public key as a secret", change: none, alg: jose.HS256, key: func(s *issuer) any { return public(s.Keypair.PublicKey) }, says: "signature algorithm"},
		{name: "the client's secret as a key", change: none, alg: jose.HS256, key: func(s *issuer) any { return []byte(strings.Repeat(s.ClientSecret, 4)) }, says: "signature algorithm"},
		{name: "another key", change: none, key: func(*issuer) any { return other.PrivateKey }, says: "failed to verify"},
		{name: "another key with its own name", change: none, key: func(*issuer) any { return other.PrivateKey }, kid: "other", says: "failed to verify"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newIssuer(t)
			s.token = func(raw string) string {
				alg, kid := tt.alg, tt.kid
				if alg == "" {
					alg = jose.RS256
				}
				if kid == "" {
					kid = kidOf(raw)
				}
				var key any = s.Keypair.PrivateKey
				if tt.key != nil {
					key = tt.key(s)
				}
				return forge(t, raw, alg, key, kid, tt.change)
			}
			c := s.client()
			_, err := c.Redeem(t.Context(), attempt, provider.Answer{Code: signIn(t, c, attempt)})
			switch {
			case tt.says == "" && err != nil:
				t.Error(err)
			case tt.says != "" && (!errors.Is(err, provider.ErrNotAccepted) || !strings.Contains(err.Error(), tt.says)):
				t.Errorf("%v, want one about %q", err, tt.says)
			}
		})
	}
}

// A code works once, and only with the verifier that its sign-in began with.
func TestCodes(t *testing.T) {
	s := newIssuer(t)
	c := s.client()
	code := signIn(t, c, attempt)
	if _, err := c.Redeem(t.Context(), attempt, provider.Answer{Code: code}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Redeem(t.Context(), attempt, provider.Answer{Code: code}); !errors.Is(err, provider.ErrNotAccepted) {
		t.Errorf("a code works twice: %v", err)
	}
	wrong := *attempt
	wrong.Verifier = strings.Repeat("b", 43)
	if _, err := c.Redeem(t.Context(), &wrong, provider.Answer{Code: signIn(t, c, attempt)}); !errors.Is(err, provider.ErrNotAccepted) {
		t.Errorf("the code of another sign-in works: %v", err)
	}
	if _, err := c.Redeem(t.Context(), attempt, provider.Answer{Code: ""}); !errors.Is(err, provider.ErrNotAccepted) {
		t.Errorf("no code works: %v", err)
	}
}

// The provider repeats the client's secret in its errors: neither people nor the log see it.
func TestSecretsAreNotTold(t *testing.T) {
	s := newIssuer(t)
	c := s.client(func(cfg *provider.Config) { cfg.Secret = func() (string, error) { return "a-wrong-secret", nil } })
	code := signIn(t, c, attempt)
	_, err := c.Redeem(t.Context(), attempt, provider.Answer{Code: code})
	if !errors.Is(err, provider.ErrNotAccepted) || strings.Contains(err.Error(), "a-wrong-secret") || strings.Contains(err.Error(), code) {
		t.Errorf("%v", err)
	}
}

// A provider that signs with new keys is asked for them.
func TestKeysThatRotate(t *testing.T) {
	s := newIssuer(t)
	c := s.client()
	for range 2 {
		if _, err := c.Redeem(t.Context(), attempt, provider.Answer{Code: signIn(t, c, attempt)}); err != nil {
			t.Fatal(err)
		}
		next, err := mockoidc.RandomKeypair(2048)
		if err != nil {
			t.Fatal(err)
		}
		next.Kid = "next"
		s.Keypair = next
	}
}

// An answer of another provider is not for this one, even if a browser brings it here.
func TestMixUp(t *testing.T) {
	honest, evil := newIssuer(t), newIssuer(t)
	c := honest.client()
	code := signIn(t, c, attempt)
	if _, err := c.Redeem(t.Context(), attempt, provider.Answer{Code: code, Issuer: evil.Issuer()}); !errors.Is(err, provider.ErrNotAccepted) {
		t.Errorf("%v", err)
	}
	evil.says = map[string]any{"authorization_response_iss_parameter_supported": true}
	e := evil.client()
	if _, err := e.Redeem(t.Context(), attempt, provider.Answer{Code: signIn(t, e, attempt)}); !errors.Is(err, provider.ErrNotAccepted) {
		t.Errorf("it names itself at other times, and now does not: %v", err)
	}
	if _, err := e.Redeem(t.Context(), attempt, provider.Answer{Code: signIn(t, e, attempt), Issuer: evil.Issuer()}); err != nil {
		t.Error(err)
	}
}

// A provider that does not answer is asked again, and nothing fails but signing in there.
func TestProviderThatDoesNotAnswer(t *testing.T) {
	s := newIssuer(t)
	s.QueueError(&mockoidc.ServerError{Code: http.StatusInternalServerError, Error: "gone"})
	now := time.Now()
	cfg := s.client().Config
	c := provider.New(cfg, func() time.Time { return now }, slog.New(slog.DiscardHandler))
	if _, err := c.Begin(t.Context(), attempt); !errors.Is(err, provider.ErrUnreachable) || c.Down() == nil {
		t.Errorf("%v, %v", err, c.Down())
	}
	if _, err := c.Begin(t.Context(), attempt); !errors.Is(err, provider.ErrUnreachable) {
		t.Errorf("it is asked again at once: %v", err)
	}
	now = now.Add(3 * time.Second)
	if _, err := c.Begin(t.Context(), attempt); err != nil || c.Down() != nil {
		t.Errorf("%v, %v", err, c.Down())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c.Run(ctx) // returns
}

// What a provider says of itself is taken only if it is about itself, and encrypted.
func TestWhatAProviderSays(t *testing.T) {
	for name, says := range map[string]map[string]any{
		"another issuer":           {"issuer": "https://evil.example"},
		"a token address in clear": {"token_endpoint": "http://evil.example/token"},
		"keys in clear":            {"jwks_uri": "http://evil.example/keys"},
		"no address":               {"authorization_endpoint": ""},
		"a script":                 {"authorization_endpoint": "javascript:alert(1)"},
	} {
		s := newIssuer(t)
		s.says = says
		if address, err := s.client().Begin(t.Context(), attempt); !errors.Is(err, provider.ErrUnreachable) {
			t.Errorf("%s: %s, %v", name, address, err)
		}
	}
	s := newIssuer(t)
	s.says = map[string]any{"end_session_endpoint": "https://sso.example/end?x=1", "id_token_signing_alg_values_supported": []string{"none", "HS256"}}
	c := s.client()
	if got := c.End(t.Context(), "https://gpu.example/sign-in"); got != "https://sso.example/end?client_id="+url.QueryEscape(s.ClientID)+
		"&post_logout_redirect_uri=https%3A%2F%2Fgpu.example%2Fsign-in&x=1" {
		t.Error(got)
	}
	s.token = func(raw string) string { return forge(t, raw, "none", nil, "", func(map[string]any) {}) }
	if _, err := c.Redeem(t.Context(), attempt, provider.Answer{Code: signIn(t, c, attempt)}); !errors.Is(err, provider.ErrNotAccepted) {
		t.Errorf("unsigned tokens are taken if the provider wants that: %v", err)
	}
	s.token = func(string) string { return "" }
	if _, err := c.Redeem(t.Context(), attempt, provider.Answer{Code: signIn(t, c, attempt)}); !errors.Is(err, provider.ErrNotAccepted) {
		t.Errorf("no ID token is needed: %v", err)
	}
}

// People are named, and their groups found, as the settings say.
func TestClaims(t *testing.T) {
	s := newIssuer(t)
	for _, tt := range []struct {
		name   string
		claims map[string]any // nil removes one
		info   map[string]any
		change func(*provider.Config)
		want   string // the name and the groups
		says   string
	}{
		{name: "an address that is verified", claims: map[string]any{"preferred_username": nil}, want: "jane.doe@example.com [engineering design]"},
		{name: "an address that is not", claims: map[string]any{"preferred_username": nil, "email_verified": nil}, info: map[string]any{"preferred_username": nil}, says: "does not say your name"},
		{name: "an address that says it is not", claims: map[string]any{"email_verified": false}, change: func(c *provider.Config) { c.NameClaim = "email" }, says: "does not say your name"},
		{name: "verified as text", claims: map[string]any{"email_verified": "true"}, change: func(c *provider.Config) { c.NameClaim = "email" }, want: "jane.doe@example.com [engineering design]"},
		{name: "another claim", claims: map[string]any{"nick": "jd"}, change: func(c *provider.Config) { c.NameClaim = "nick" }, want: "jd [engineering design]"},
		{name: "a name that is no text", claims: map[string]any{"nick": []string{"jd"}}, change: func(c *provider.Config) { c.NameClaim = "nick" }, says: "does not say your name"},
		{
			name: "roles of Keycloak", claims: map[string]any{"realm_access": map[string]any{"roles": []any{"gpu", 7}}},
			change: func(c *provider.Config) { c.GroupsClaim = "realm_access.roles" }, want: "jane.doe [gpu]",
		},
		{name: "a claim with dots in its name", claims: map[string]any{"a.b": "x"}, change: func(c *provider.Config) { c.GroupsClaim = "a.b" }, want: "jane.doe [x]"},
		{name: "no groups", claims: map[string]any{"groups": nil}, want: "jane.doe [engineering design]"}, // userinfo has them
		{name: "groups elsewhere", claims: map[string]any{"groups": nil}, info: map[string]any{"groups": "one"}, want: "jane.doe [one]"},
		{name: "somebody else's groups", claims: map[string]any{"groups": nil}, info: map[string]any{"sub": "2"}, says: "somebody else"},
		{
			name:   "too many groups",
			claims: map[string]any{"groups": nil, "_claim_names": map[string]any{"groups": "src1"}, "_claim_sources": map[string]any{"src1": map[string]any{"endpoint": "https://graph.example"}}},
			says:   "too many groups",
		},
		{name: "of the organization", claims: map[string]any{"hd": "example.org"}, change: func(c *provider.Config) { c.Require = map[string]string{"hd": "example.org"} }, want: "jane.doe [engineering design]"},
		{name: "of another organization", claims: map[string]any{"hd": "evil.example"}, change: func(c *provider.Config) { c.Require = map[string]string{"hd": "example.org"} }, says: "for other people"},
		{name: "of none", change: func(c *provider.Config) { c.Require = map[string]string{"hd": "example.org"} }, says: "for other people"},
	} {
		s.info = tt.info
		s.token = func(raw string) string {
			return forge(t, raw, jose.RS256, s.Keypair.PrivateKey, kidOf(raw), func(claims map[string]any) {
				for claim, value := range tt.claims {
					if claims[claim] = value; value == nil {
						delete(claims, claim)
					}
				}
			})
		}
		if tt.change == nil {
			tt.change = func(*provider.Config) {}
		}
		c := s.client(tt.change)
		p, err := c.Redeem(t.Context(), attempt, provider.Answer{Code: signIn(t, c, attempt)})
		switch {
		case tt.says != "":
			if advice, is := errors.AsType[*gpu.Advice](err); !is || !strings.Contains(advice.Text(), tt.says) {
				t.Errorf("%s: %v, want %q", tt.name, err, tt.says)
			}
		case err != nil:
			t.Errorf("%s: %v", tt.name, err)
		default:
			if got := fmt.Sprint(p.Name, " ", p.Groups); got != tt.want {
				t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
			}
		}
	}
}

func TestCheckURL(t *testing.T) {
	for text, ok := range map[string]bool{
		"https://sso.example.org": true, "https://sso.example.org/realms/lab": true, "http://127.0.0.1:5556/dex": true, "http://localhost:5556": true, "http://[::1]:1": true,
		"http://sso.example.org": false, "sso.example.org": false, "https://": false, "": false, "ftp://a": false, "https://u:p@a": false, "https://a#b": false, "http://127.0.0.1.evil.example": false,
	} {
		if err := provider.CheckURL(text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}
