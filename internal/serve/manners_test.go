package serve_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/internal/serve/servetest"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
)

const board = "https://board.example.org"

// readMethods are those of most addresses.
const readMethods = "GET, HEAD, OPTIONS"

// addresses are one for each route, with whether its answer is about this very
// moment, and so never kept.
func addresses(t *testing.T, cfg *servetest.Rig) map[string]bool {
	t.Helper()
	s, err := cfg.Server()
	if err != nil {
		t.Fatal(err)
	}
	example := strings.NewReplacer("{$}", "", "{path...}", "h4sh/app.js", "{page...}", "start", "{id}", "0", "{cluster}", "local", "{node}", "dgx-1")
	out := map[string]bool{}
	for _, r := range s.Routes() {
		if r.Method != http.MethodGet {
			continue
		}
		if r.Path == "/gpu/{id}" { // an index leads to the UUID
			r.Path = "/gpu/" + fixture.Server().Devices[0].UUID
		}
		out[example.Replace(r.Path)] = r.Doc != nil && r.Doc.Fresh
	}
	return out
}

// Every address there is has the same manners.
func TestManners(t *testing.T) {
	allowBoard := func(c *servetest.Rig) { c.AllowOrigins = servetest.Origins(t, board) }
	st, h := servetest.Serving(t, allowBoard)
	st.Show(t, fixture.Server())
	_, cfg := servetest.New()
	for path, fresh := range addresses(t, cfg) {
		t.Run(path, func(t *testing.T) {
			full := servetest.Get(h, path)
			if full.Code != http.StatusOK {
				t.Fatalf("status %d: %s", full.Code, full.Body)
			}
			if path != "/api/silences" { // TestMethodsOfActions
				mannersOfMethods(t, h, path)
			}
			mannersOfOrigins(t, h, path)
			if path == "/ws" || path == "/metrics" || path == "/" {
				return // answered by others, or anew each time
			}
			mannersOfCaches(t, h, path, full, fresh)
		})
	}
}

func mannersOfMethods(t *testing.T, h http.Handler, path string) {
	t.Helper()
	if w := servetest.Ask(h, http.MethodOptions, path); w.Code != http.StatusNoContent || w.Header().Get("Allow") != readMethods || w.Body.Len() > 0 {
		t.Errorf("OPTIONS: status %d, Allow %q", w.Code, w.Header().Get("Allow"))
	}
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "CONNECT", "TRACE", "BREW"} {
		w := servetest.Ask(h, method, path)
		if detail := servetest.IsProblem(t, w, http.StatusMethodNotAllowed); !strings.Contains(detail, "GET") || w.Header().Get("Allow") != readMethods {
			t.Errorf("%s: %q, Allow %q", method, detail, w.Header().Get("Allow"))
		}
	}
}

func mannersOfOrigins(t *testing.T, h http.Handler, path string) {
	t.Helper()
	for origin, allowed := range map[string]string{board: board, "https://evil.example": "", "null": ""} {
		w := servetest.Get(h, path, "Origin: "+origin)
		if got := w.Header().Get("Access-Control-Allow-Origin"); got != allowed || !slices.Contains(w.Header().Values("Vary"), "Origin") {
			t.Errorf("%s: allowed %q, Vary %q", origin, got, w.Header().Values("Vary"))
		}
	}
	servetest.IsProblem(t, servetest.Get(h, path, "Host: evil.example"), http.StatusMisdirectedRequest)
}

func mannersOfCaches(t *testing.T, h http.Handler, path string, full *httptest.ResponseRecorder, fresh bool) {
	t.Helper()
	head := servetest.Ask(h, http.MethodHead, path)
	if head.Code != full.Code || head.Body.Len() > 0 {
		t.Errorf("HEAD: status %d with %d bytes", head.Code, head.Body.Len())
	}
	tag := full.Header().Get("ETag")
	if fresh {
		if cache := full.Header().Get("Cache-Control"); cache != "no-store" || tag != "" {
			t.Errorf("it may be kept: %q, ETag %q", cache, tag)
		}
		return
	}
	for _, name := range []string{"Content-Type", "Content-Length", "ETag", "Cache-Control", "Vary"} {
		if a, b := full.Header().Get(name), head.Header().Get(name); a != b || a == "" && name != "Vary" {
			t.Errorf("%s of GET %q, of HEAD %q", name, a, b)
		}
	}
	if w := servetest.Get(h, path, "If-None-Match: "+tag); w.Code != http.StatusNotModified || w.Body.Len() > 0 || w.Header().Get("ETag") != tag {
		t.Errorf("for its own ETag: status %d, %d bytes", w.Code, w.Body.Len())
	}
	zipped := servetest.Get(h, path, "Accept-Encoding: gzip")
	if full.Body.Len() >= serve.WorthZipping && (zipped.Header().Get("Content-Encoding") != "gzip" || !slices.Contains(zipped.Header().Values("Vary"), "Accept-Encoding")) {
		t.Errorf("%d bytes are not compressed: Vary %q", full.Body.Len(), zipped.Header().Values("Vary"))
	}
	if zipped.Header().Get("Content-Encoding") == "gzip" && zipped.Header().Get("ETag") == tag {
		t.Error("two representations have one ETag")
	}
}

// What is not there says so, and lists nothing.
func TestNothingThere(t *testing.T) {
	st, h := servetest.Serving(t)
	st.Show(t, fixture.Server())
	for _, path := range []string{
		"/nothing", "/static/", "/static/h4sh", "/static/h4sh/", "/docs/", "/docs/index.html", "/openapi", "/api", "/api/", "/api/v1/gpu",
		"/api/v1/gpu/nodes/", "/api/v1/gpu/nodes/local/dgx-1/more", "/gpu/", "/.git/config", "/%2e%2e/etc/passwd", "/\xff", "/favicon.ico/x",
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host, r.URL.Path = "localhost", path
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		servetest.IsProblem(t, w, http.StatusNotFound)
	}
	for _, base := range []string{"", "/gpu-3"} {
		_, h := servetest.Serving(t, func(c *servetest.Rig) { c.BasePath = base })
		for _, method := range []string{"GET", "HEAD", "OPTIONS", "POST", "DELETE", "BREW"} {
			if w := servetest.Ask(h, method, base+"/static"); w.Code != http.StatusNotFound || w.Header().Get("Location") != "" {
				t.Errorf("%s %s/static: status %d to %q", method, base, w.Code, w.Header().Get("Location"))
			}
		}
	}
}

// What is there that is like an address is named.
func TestAddressesThatAreLike(t *testing.T) {
	_, h := servetest.Serving(t)
	for path, want := range map[string]string{
		"/api/gpu/recnt":  `there is nothing at this address (did you mean "/api/gpu/recent"?)`,
		"/api/gpu/alerts": `there is nothing at this address (did you mean "/api/alerts"?)`,
		"/api/gpu/events": `there is nothing at this address (did you mean "/api/events"?)`,
	} {
		w := servetest.Get(h, path)
		if want != "" && !strings.Contains(strings.ReplaceAll(w.Body.String(), `\"`, `"`), want) {
			t.Errorf("%s: %s, want %s", path, w.Body, want)
		}
	}
}
