package proxy_test

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/access/proxy"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.RunTests(m)) }

func request(header http.Header) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header = header
	return r
}

// Each header that can have a name is read with the groups of its family, and with nothing of another one.
func TestRead(t *testing.T) {
	for _, header := range proxy.Headers() {
		if strings.HasPrefix(header, "Cf-") {
			continue
		}
		r := proxy.New(proxy.Config{Header: header}, time.Now)
		all := http.Header{header: {" anna@example.org "}}
		for _, other := range proxy.Identities() {
			switch {
			case strings.HasSuffix(other, "-Groups"):
				all.Set(other, "staff, gpu,,"+other)
			case other != header:
				all.Set(other, "mallory")
			}
		}
		p, err := r.Read(request(all))
		if err != nil || p.Name != "anna@example.org" {
			t.Fatalf("%s: %+v, %v", header, p, err)
		}
		family, _, _ := strings.Cut(header, "-User")
		family = strings.TrimSuffix(strings.TrimSuffix(family, "-Email"), "-Preferred")
		want := []string{"staff", "gpu", family + "-Groups"}
		if family == "Tailscale" {
			want = nil
		}
		if !slices.Equal(p.Groups, want) {
			t.Errorf("%s: the groups are %q, want %q", header, p.Groups, want)
		}
		delete(all, header)
		if p, err := r.Read(request(all)); p != nil || err != nil {
			t.Errorf("without %s there is %+v, %v", header, p, err)
		}
	}
}

// What can't be one name is refused, and not taken for another one.
func TestHeadersThatAreRefused(t *testing.T) {
	r := proxy.New(proxy.Config{Header: "Remote-User"}, time.Now)
	for name, header := range map[string]http.Header{
		"two names":         {"Remote-User": {"anna", "root"}},
		"two equal names":   {"Remote-User": {"anna", "anna"}},
		"empty":             {"Remote-User": {""}},
		"only spaces":       {"Remote-User": {"  "}},
		"empty and a name":  {"Remote-User": {"", "anna"}},
		"too long":          {"Remote-User": {strings.Repeat("a", 257)}},
		"a line break":      {"Remote-User": {"anna\nroot"}},
		"a null":            {"Remote-User": {"anna\x00"}},
		"an escape":         {"Remote-User": {"anna\x1b[31m"}},
		"right to left":     {"Remote-User": {"anna\u202etoor"}},
		"not UTF-8":         {"Remote-User": {"anna\xff"}},
		"two lists":         {"Remote-User": {"anna"}, "Remote-Groups": {"a", "b"}},
		"a long list":       {"Remote-User": {"anna"}, "Remote-Groups": {strings.Repeat("a,", 9000)}},
		"a list with nulls": {"Remote-User": {"anna"}, "Remote-Groups": {"a\x00"}},
	} {
		p, err := r.Read(request(header))
		if advice, is := errors.AsType[*gpu.Advice](err); p != nil || !is || !strings.Contains(advice.What, "Remote-") || advice.Try == "" {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
	if p, err := r.Read(request(http.Header{"Remote-User": {"Ann Ä"}, "Remote-Groups": {""}})); err != nil || p.Name != "Ann Ä" || p.Groups != nil {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestStrip(t *testing.T) {
	h := http.Header{"Accept": {"x"}, "X-Forwarded-For": {"192.0.2.1"}, "X-Forwarded-Proto": {"https"}, "Authorization": {"Bearer x"}}
	kept := len(h)
	for _, header := range proxy.Identities() {
		h.Set(header, "root")
	}
	for _, header := range proxy.Headers() {
		if h.Get(header) == "" {
			t.Errorf("%s is no identity", header)
		}
	}
	if proxy.Strip(h); len(h) != kept {
		t.Errorf("what is left: %v", h)
	}
}

func TestCheck(t *testing.T) {
	for _, tt := range []struct {
		cfg     proxy.Config
		setting string
	}{
		{proxy.Config{Header: "Remote-User"}, ""},
		{proxy.Config{Header: "Cf-Access-Jwt-Assertion", Issuer: "https://team.cloudflareaccess.com", Audience: "x"}, ""},
		{proxy.Config{Header: "X-User"}, "header"},
		{proxy.Config{Header: "Remote-Groups"}, "header"},
		{proxy.Config{Header: "Remote-User", Issuer: "https://a"}, "issuer"},
		{proxy.Config{Header: "Remote-User", Audience: "x"}, "audience"},
		{proxy.Config{Header: "Cf-Access-Jwt-Assertion", Audience: "x"}, "issuer"},
		{proxy.Config{Header: "Cf-Access-Jwt-Assertion", Issuer: "https://a"}, "audience"},
		{proxy.Config{Header: "Cf-Access-Jwt-Assertion", Issuer: "http://team.example", Audience: "x"}, "issuer"},
	} {
		if setting, err := tt.cfg.Check(); (err == nil) != (tt.setting == "") || err != nil && setting != tt.setting {
			t.Errorf("%+v: %s, %v", tt.cfg, setting, err)
		}
	}
}

// The token of Cloudflare Access is believed only if the team's keys have signed it for this application.
func TestAssertions(t *testing.T) {
	newKey := func() *rsa.PrivateKey {
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	key, other := newKey(), newKey()
	kid := "1"
	team := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/cdn-cgi/access/certs" {
			http.NotFound(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &key.PublicKey, KeyID: kid, Algorithm: "RS256", Use: "sig"}}})
	}))
	defer team.Close()
	sign := func(alg jose.SignatureAlgorithm, with any, kid string, change func(map[string]any)) string {
		claims := map[string]any{
			"iss": team.URL, "aud": []string{"the-tag"}, "email": "anna@example.org", "sub": "7335d417", "type": "app",
			"iat": time.Now().Unix(), "nbf": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
		}
		change(claims)
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: with}, (&jose.SignerOptions{}).WithHeader("kid", kid))
		if err != nil {
			t.Fatal(err)
		}
		text, _ := json.Marshal(claims)
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
	r := proxy.New(proxy.Config{Header: "Cf-Access-Jwt-Assertion", Issuer: team.URL + "/", Audience: "the-tag"}, time.Now)
	read := func(raw string) (*proxy.Person, error) {
		return r.Read(request(http.Header{"Cf-Access-Jwt-Assertion": {raw}, "Cf-Access-Authenticated-User-Email": {"root@example.org"}}))
	}
	none := func(map[string]any) {}
	set := func(claim string, value any) func(map[string]any) {
		return func(claims map[string]any) { claims[claim] = value }
	}
	good := sign(jose.RS256, key, kid, none)
	if p, err := read(good); err != nil || p.Name != "anna@example.org" || p.Groups != nil {
		t.Errorf("%+v, %v", p, err)
	}
	for name, raw := range map[string]string{
		"another team":        sign(jose.RS256, key, kid, set("iss", "https://evil.cloudflareaccess.com")),
		"another application": sign(jose.RS256, key, kid, set("aud", []string{"another-tag"})),
		"expired":             sign(jose.RS256, key, kid, set("exp", time.Now().Add(-2*time.Minute).Unix())),
		"without an end":      sign(jose.RS256, key, kid, set("exp", nil)),
		"not valid yet":       sign(jose.RS256, key, kid, set("nbf", time.Now().Add(2*time.Minute).Unix())),
		"of a service":        sign(jose.RS256, key, kid, func(c map[string]any) { delete(c, "email"); c["common_name"] = "x" }),
		"a name of two lines": sign(jose.RS256, key, kid, set("email", "anna\nroot")),
		"another key":         sign(jose.RS256, other, kid, none),
		"an unknown key":      sign(jose.RS256, other, "2", none),
		"a shared secret":     sign(jose.HS256, key.N.Bytes(), kid, none),
		"unsigned":            "eyJhbGciOiJub25lIn0." + strings.Split(good, ".")[1] + ".",
		"no token":            "anna@example.org",
	} {
		if p, err := read(raw); p != nil || err == nil || strings.Contains(fmt.Sprint(err), raw) {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
	key, kid = other, "2"
	// The library may just have asked for the keys, and answers from that once more.
	testkit.Until(t, "the new keys are taken", func() bool {
		p, err := read(sign(jose.RS256, other, "2", none))
		return err == nil && p.Name == "anna@example.org"
	})
}
