package export

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/clock"
)

func clockAt(t time.Time) clock.Clock {
	return clock.Of(func() time.Time { return t }, func() time.Duration { return time.Duration(t.UnixNano()) })
}

func TestAddresses(t *testing.T) {
	for _, text := range []string{"", "prometheus:9090", "ftp://x/y", "http://", "http://user:secret@x/y", "http://x/#secret", "http://x/%zzsecret"} {
		if _, err := RemoteWrite([]string{text}, ""); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := OTLP([]string{"http://x", "http://x/"}, ""); err == nil {
		t.Error("one address twice")
	}
	all, err := OTLP([]string{"http://a:4318", "https://b/otlp/v1/metrics?key=secret"}, "")
	if err != nil || all[0].url != "http://a:4318/v1/metrics" || all[1].url != "https://b/otlp/v1/metrics?key=secret" || all[1].Name != "otlp https://b/otlp/v1/metrics" {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestCredentials(t *testing.T) {
	const a, b = "http://a/write", "http://b/write"
	read := func(text string, urls ...string) ([]Destination, error) {
		file := filepath.Join(t.TempDir(), "credentials.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return RemoteWrite(urls, file)
	}
	for text, want := range map[string]http.Header{
		"username: me\npassword: secret": {"Authorization": {"Basic bWU6c2VjcmV0"}},
		"bearer_token: secret":           {"Authorization": {"Bearer secret"}},
		"headers: {X-Scope-OrgID: lab}":  {"X-Scope-Orgid": {"lab"}},
	} {
		all, err := read(text, a)
		if err != nil {
			t.Fatal(err)
		}
		h := http.Header{}
		all[0].set(h)
		for name := range want {
			if len(h) != 1 || h.Get(name) != want.Get(name) {
				t.Errorf("%s: %v", text, h)
			}
		}
	}
	all, err := read("- {url: "+b+", bearer_token: secret}", a, b)
	if err != nil || all[0].BearerToken != "" || all[1].BearerToken != "secret" {
		t.Errorf("%+v, %v", all, err)
	}
	for _, text := range []string{
		"", "[]secret", "secret", "secret: 1", "bearer_token: [secret]", "bearer_token: secret\n---\nx: y", "bearer_token: \"sec\\nret\"", "password: secret",
		"{bearer_token: secret, username: me}", "headers: {Content-Type: secret}", "headers: {\"a b\": secret}", "{url: http://other/, bearer_token: secret}",
		"- {url: " + a + ", bearer_token: secret}\n- {url: " + a + ", bearer_token: secret}",
	} {
		if _, err := read(text, a); err == nil || strings.Contains(strings.ReplaceAll(err.Error(), "Secret", ""), "secret") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := read("bearer_token: secret", a, b); err == nil {
		t.Error("one token for two addresses")
	}
	if _, err := RemoteWrite(nil, "file"); err == nil {
		t.Error("credentials without an address")
	}
	if _, err := RemoteWrite([]string{a}, filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a file that is not there")
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "-1": 0, "99999999999999": mostAsked, "soon": 0,
		now.Add(time.Minute).Format(http.TimeFormat): time.Minute, now.Add(-time.Hour).Format(http.TimeFormat): 0,
	} {
		if got := retryAfter(text, now); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
