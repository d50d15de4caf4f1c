package auth_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/auth"
)

func TestPrincipalOfARequest(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	if p := auth.FromRequest(r); p != (auth.Principal{}) || p.Access >= auth.Read {
		t.Errorf("nobody has put a principal there, and it is %+v", p)
	}
	owner := auth.LocalOwner()
	r = r.WithContext(auth.NewContext(r.Context(), &owner))
	if p := auth.FromRequest(r); p != owner || p.Access < auth.Administer || p.Audience != auth.Everything || p.Name == "" {
		t.Errorf("%+v, want %+v", p, owner)
	}
}

func TestParseOrigins(t *testing.T) {
	for origin, ok := range map[string]bool{
		"https://a.example": true, "http://localhost:3000": true, "https://*.example:8443": true, "http://[::1]:80a": false,
		"http://[::1]:8080": true, "a.example": false, "*": false, "ftp://a": false, "https://": false, "https://a/": false,
		"https://a.example:443": false, "http://a.example:80": false, "https://u@a": false, "https://a?b": false, `https://a\b`: false,
		"https://[a": false, "https://A.example": true, "https://gpu-*.example": true,
	} {
		if _, err := auth.ParseOrigins([]string{"https://b.example", origin}); (err == nil) != ok {
			t.Errorf("ParseOrigins(%q) = %v", origin, err)
		}
	}
}

func TestAllow(t *testing.T) {
	origins, err := auth.ParseOrigins([]string{"https://Board.example.org", "https://*.farm.example", "http://[::1]:3000", "https://gpu-*.example:8443"})
	if err != nil {
		t.Fatal(err)
	}
	for origin, want := range map[string]bool{
		"https://board.example.org": true, "https://BOARD.example.org": true, "https://a.farm.example": true, "https://a.b.farm.example": true,
		"http://[::1]:3000": true, "https://gpu-7.example:8443": true,
		"http://board.example.org": false, "https://board.example.org:8443": false, "https://farm.example": false, "https://evilfarm.example": false,
		"https://evil.example/.farm.example": false, "http://::3000": false, "https://gpu-7.example": false, "null": false, "": false,
	} {
		if got := origins.Allow(origin); got != want {
			t.Errorf("Allow(%q) = %t", origin, got)
		}
	}
	if auth.Origins(nil).Allow("https://a.example") {
		t.Error("no origin is configured, and one is allowed")
	}
}

func TestParseFrames(t *testing.T) {
	for origin, ok := range map[string]bool{
		"https://wiki.example.org": true, "https://WIKI.example.org": true, "http://board:3000": true, "https://*.example.org": true, "https://10.0.0.7:8443": true,
		"https://gpu-*.example.org": false, "https://*": false, "http://[::1]:3000": false, "https://a.example;script-src": false,
		"https://a.example,b": false, "https://a'": false, "https://a.example:443": false, "a.example": false, "*": false, "": false,
		"https://a.example b": false, "https://a.": false, "'self'": false, "data:": false,
	} {
		frames, err := auth.ParseFrames([]string{"https://b.example", origin})
		if (err == nil) != ok {
			t.Errorf("ParseFrames(%q) = %v", origin, err)
		}
		if ok && (len(frames) != 2 || frames[1] != strings.ToLower(origin)) {
			t.Errorf("%q is %q", origin, frames)
		}
	}
}
