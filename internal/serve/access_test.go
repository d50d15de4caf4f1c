package serve_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/serve/servetest"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
)

// These routes are there without sign-in, and no other: whoever adds one decides that here, too.
var open = []string{
	"/static/{path...}", "/favicon.ico", "/robots.txt", "/manifest.webmanifest", // no reading is in them
	"/guide", "/guide/{page...}", "/guide/search", // the same in every program; see internal/guide's TestTheGuideNamesNothing
	"/health", "/health/live", "/health/ready", "/api/health", // without names; see package app's TestStrangersLearnNoNames
}

// Each route declares what a principal needs, and what changes something needs more than reading.
func TestRoutesDeclareAccess(t *testing.T) {
	_, cfg := servetest.New()
	s, err := cfg.Server()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range s.Routes() {
		switch {
		case (r.Needs == auth.Anyone) != slices.Contains(open, r.Path):
			t.Errorf("%s %s is open: %t", r.Method, r.Path, r.Needs == auth.Anyone)
		case r.Needs == auth.Anyone:
		case r.Needs == auth.Metrics && r.Path == "/metrics":
		case r.Needs < auth.Read || r.Needs > auth.Administer:
			t.Errorf("%s %s declares no access", r.Method, r.Path)
		case r.Needs == auth.Read && r.Method != http.MethodGet:
			t.Errorf("%s %s needs access %d", r.Method, r.Path, r.Needs)
		}
	}
}

// A route serves only principals that have its access.
func TestAccessIsNeeded(t *testing.T) {
	_, cfg := servetest.New()
	s, err := cfg.Server()
	if err != nil {
		t.Fatal(err)
	}
	for access, want := range map[auth.Access]int{-1: 403, 0: 401, auth.Read: 403, auth.Operate: 200, auth.Administer: 200} {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r = r.WithContext(auth.NewContext(r.Context(), &auth.Principal{Access: access}))
		w := httptest.NewRecorder()
		s.Needs(auth.Operate, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "done") })).ServeHTTP(w, r)
		if w.Code != want || strings.Contains(w.Body.String(), "done") != (want == 200) {
			t.Errorf("access %d: status %d, want %d: %s", access, w.Code, want, w.Body)
		}
	}
}

// What gets to a route without a principal may do nothing, whatever the route is.
func TestNoPrincipalNoAnswer(t *testing.T) {
	st, cfg := servetest.New()
	cfg.WS = func(http.ResponseWriter, *http.Request, string) { t.Error("the socket is opened for nobody") }
	s, err := cfg.Server()
	if err != nil {
		t.Fatal(err)
	}
	st.Show(t, fixture.Workstation())
	for _, r := range s.Routes() {
		path := strings.NewReplacer("{$}", "", "{path...}", "icon.svg", "{id}", "0", "{cluster}", "local", "{node}", "node").Replace(r.Path)
		for _, prefix := range []string{"", "/node/" + fixture.Workstation().Node} {
			if r.Needs == auth.Anyone && prefix == "" { // below a node, it is not
				continue
			}
			for _, who := range []*auth.Principal{nil, {}, {Name: "ann", Audience: auth.Everything}, {Access: max(r.Needs, auth.Metrics) - 1, Audience: auth.Everything}} {
				asked := httptest.NewRequest(r.Method, prefix+path, nil)
				if who != nil {
					asked = asked.WithContext(auth.NewContext(asked.Context(), who))
				}
				w := httptest.NewRecorder()
				s.Mux().ServeHTTP(w, asked)
				want := http.StatusForbidden
				if who == nil || *who == (auth.Principal{}) {
					want = http.StatusUnauthorized
				}
				if r.Whole && prefix != "" && who != nil && who.May(auth.Read) { // it is not there for a node
					want = http.StatusNotFound
				}
				if w.Code != want {
					t.Errorf("%s %s%s by %+v: status %d", r.Method, prefix, path, who, w.Code)
				}
			}
		}
	}
	if page, err := s.Render(t.Context(), "", auth.Sight{}); err == nil {
		t.Errorf("a page is rendered for nobody: %s", page)
	}
}

// An answer that is kept is one audience's alone, and who may not look is not noticed.
func TestAnswersAreOfAnAudience(t *testing.T) {
	noticed, guests := 0, auth.NewAudience(auth.Scope("node:"+fixture.Workstation().Node), auth.Shown)
	st, h := servetest.Serving(t, func(c *servetest.Rig) {
		c.Update = func(_ string, audience auth.Audience) []byte { return []byte(`"for ` + audience + `"`) }
		c.Noticed = func(*http.Request) { noticed++ }
	})
	st.Show(t, fixture.Workstation())
	for _, audience := range []auth.Audience{guests, auth.Everything, guests, "", "guests"} {
		for _, access := range []auth.Access{auth.Read, 0} {
			r := httptest.NewRequest(http.MethodGet, "/api/gpu/metrics", nil)
			r.Host = "localhost"
			w := httptest.NewRecorder()
			before := noticed
			h.ServeHTTP(w, r.WithContext(auth.NewContext(r.Context(), &auth.Principal{Access: access, Audience: audience})))
			allowed, sees := access >= auth.Read, audience == guests || audience == auth.Everything
			if (allowed && sees) != (w.Body.String() == `"for `+string(audience)+`"`) || allowed != (noticed > before) {
				t.Errorf("%q with access %d gets %s", audience, access, w.Body)
			}
		}
	}
}

// Every route sees the principal, the socket's too.
func TestRequestsHaveAPrincipal(t *testing.T) {
	var seen auth.Principal
	_, h := servetest.Serving(t, func(c *servetest.Rig) {
		c.WS = func(_ http.ResponseWriter, r *http.Request, _ string) { seen = auth.FromRequest(r) }
	})
	if servetest.Get(h, "/ws"); seen != auth.LocalOwner() {
		t.Errorf("the socket is asked for by %+v", seen)
	}
}
