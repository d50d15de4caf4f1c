package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/auth"
)

// Each route declares what a principal needs, and what changes something needs
// more than reading.
func TestRoutesDeclareAccess(t *testing.T) {
	_, cfg := newStage()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range s.routes() {
		if r.access < auth.Read || r.access > auth.Administer {
			t.Errorf("%s %s declares no access", r.method, r.path)
		}
		if reads := r.access == auth.Read; reads != (r.method == http.MethodGet) {
			t.Errorf("%s %s needs access %d", r.method, r.path, r.access)
		}
	}
}

// A route serves only principals that have its access.
func TestAccessIsNeeded(t *testing.T) {
	_, cfg := newStage()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for access, want := range map[auth.Access]int{-1: 403, 0: 403, auth.Read: 403, auth.Operate: 200, auth.Administer: 200} {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r = r.WithContext(auth.NewContext(r.Context(), &auth.Principal{Access: access}))
		w := httptest.NewRecorder()
		s.needs(auth.Operate, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { send(w, r, []byte("done")) })).ServeHTTP(w, r)
		if w.Code != want || strings.Contains(w.Body.String(), "done") != (want == 200) {
			t.Errorf("access %d: status %d, want %d: %s", access, w.Code, want, w.Body)
		}
	}
}

// Every route sees the principal, the socket's too.
func TestRequestsHaveAPrincipal(t *testing.T) {
	var seen auth.Principal
	_, h := serving(t, func(c *Config) {
		c.WS = func(_ http.ResponseWriter, r *http.Request, _ string) { seen = auth.FromRequest(r) }
	})
	if get(h, "/ws"); seen != auth.LocalOwner() {
		t.Errorf("the socket is asked for by %+v", seen)
	}
}
