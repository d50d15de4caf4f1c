//go:build !race

package app

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/access"
	"github.com/gpuwhy/gpuwhy/internal/access/ledger"
	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/now"
	"github.com/gpuwhy/gpuwhy/internal/part"
	"github.com/gpuwhy/gpuwhy/internal/reading"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
	"github.com/gpuwhy/gpuwhy/sampler"
	"github.com/gpuwhy/gpuwhy/sampler/sim"
)

// A wired server has all addresses of the program that serves, with a wire in each: what a request does there is only noticed.
type wired struct {
	http.Handler
	base    string
	routes  []serve.Route  // with those of the actions, and those that the server itself has
	reached *http.Request  // by the last request; nil: nothing was
	route   *serve.Route   // which it was; nil also for an action
	act     *action.Action // which it was
	called  auth.Principal // who called the action
}

// wire makes a wired server below a base path. Its only machine is called "box".
func wire(t *testing.T, base string) *wired {
	t.Helper()
	nodes, err := sim.Nodes("rtx-4090", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	accounts, err := ledger.InMemory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	opt := Options{
		Address:  serve.Address{Listen: "127.0.0.1:8003", BasePath: base},
		Interval: time.Hour, Deadline: time.Second, MaxViewers: 1, Access: &access.Options{Ledger: accounts},
	}
	a, err := New(opt, []*reading.Inputs{{Node: "box", Sources: []sampler.Source{nodes[0]}}}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	s := fixture.Workstation()
	s.Node = "box"
	a.Publish(s)
	w := &wired{base: strings.TrimSuffix(base, "/")}
	var routes []serve.Route
	for p := range offers[part.Server](a) {
		for _, r := range p.Routes() {
			this := r
			r.Answer = func(_ http.ResponseWriter, asked *http.Request) error {
				w.reached, w.route = asked, &this
				return nil
			}
			r.Doc, r.Live = nil, false // what is documented does not matter here
			routes = append(routes, r)
		}
	}
	w.routes = slices.Clone(routes)
	var acts []action.Action
	for declared := range a.desk.Actions() {
		this := *declared
		act := this
		act.Node, act.Args = nil, nil
		act.Func = action.Takes(func(_ context.Context, c *action.Call, _ struct{}) (any, error) {
			w.reached, w.act, w.called = new(http.Request), &this, c.Principal
			return nil, nil
		})
		acts = append(acts, act)
		for _, pattern := range []string{this.HTTP, this.Form.HTTP} {
			if method, path, ok := strings.Cut(pattern, " "); ok {
				w.routes = append(w.routes, serve.Route{Method: method, Path: path, Needs: this.Needs})
			}
		}
	}
	w.routes = append(w.routes,
		serve.Route{Method: "GET", Path: "/ws", Needs: auth.Read}, serve.Route{Method: "GET", Path: "/openapi.json", Needs: auth.Read},
		serve.Route{Method: "GET", Path: "/docs", Needs: auth.Read},
	)
	kit := serve.NewKit(serve.Settings{Hub: a.Hub, Address: opt.Address, Log: slog.New(slog.DiscardHandler)})
	server, err := serve.New(kit, serve.Config{
		Pages: Find[*now.Site](a), Actions: action.NewDesk(action.Log{Logger: slog.New(slog.DiscardHandler)}, acts...), Identifier: nobody{}, MaxViewers: 1,
	}, routes...)
	if err != nil {
		t.Fatal(err)
	}
	w.Handler = server.Handler()
	return w
}

// nobody is an identifier that knows nobody. Tests name the principal in the context of the request.
type nobody struct{}

// Identify implements [serve.Identifier].
func (nobody) Identify(http.ResponseWriter, *http.Request) (auth.Principal, error) {
	return auth.Principal{}, nil
}

// fill returns the path of a route with a value for each parameter.
func fill(path string) string {
	for {
		before, rest, open := strings.Cut(path, "{")
		_, after, closed := strings.Cut(rest, "}")
		if !open || !closed {
			return path
		}
		value := "box"
		if strings.HasPrefix(rest, "$") {
			value = ""
		}
		path = before + value + after
	}
}

// send sends a request as bytes, as a client without manners would. It returns the answer; nil if the request can't be read.
func (w *wired) send(t *testing.T, who *auth.Principal, method, target string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	w.reached, w.route, w.act, w.called = nil, nil, nil, auth.Principal{}
	text := method + " " + target + " HTTP/1.1\r\nHost: localhost:8003\r\n" + strings.Join(append(headers, "", ""), "\r\n")
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
	if err != nil {
		return nil
	}
	r.RemoteAddr = "192.0.2.1:1234"
	if who != nil {
		r = r.WithContext(auth.NewContext(t.Context(), who))
	}
	answer := httptest.NewRecorder()
	w.ServeHTTP(answer, r)
	return answer
}

// tricks are other ways to write the path of an address, which proxies and servers read differently.
func tricks(base, path string) map[string]string {
	below := strings.TrimPrefix(path, "/")
	upper := strings.ToUpper(path)
	return map[string]string{
		"as it is":               base + path,
		"a slash at the end":     base + path + "/",
		"two slashes":            base + "/" + path,
		"two slashes at first":   "/" + base + path,
		"a dot segment":          base + "/." + path,
		"segments up":            base + "/x/.." + path,
		"escaped segments up":    base + "/x/%2e%2e" + path,
		"escaped slashes":        base + "/" + strings.ReplaceAll(below, "/", "%2F"),
		"escaped letters":        base + "/" + escapeLetters(below),
		"escaped twice":          base + "/" + strings.ReplaceAll(url.PathEscape(below), "%", "%25"),
		"an escaped segment up":  base + "/static/..%2f" + below,
		"a dot at the end":       base + path + ".",
		"an escaped dot":         base + path + "%2e",
		"a NUL":                  base + path + "%00",
		"a parameter":            base + path + ";x=y",
		"a backslash":            base + `/x\..` + path,
		"an escaped line break":  base + path + "%0d%0aX:%20y",
		"capital letters":        base + upper,
		"the base path twice":    base + base + path,
		"no base path":           path,
		"an absolute form":       "http://localhost:8003" + base + path,
		"a machine":              base + "/node/box" + path,
		"an escaped machine":     base + "/node/%62ox" + path,
		"a machine twice":        base + "/node/box/node/box" + path,
		"a machine, and up":      base + "/node/box/.." + path,
		"a machine, escaped up":  base + "/node/box/%2e%2e" + path,
		"a machine, and slashes": base + "/node/box/" + strings.ReplaceAll(path, "/", "%2F"),
		"a machine, two slashes": base + "/node/box/" + path,
		"a machine, and base":    base + "/node/box" + base + path,
		"a machine that is up":   base + "/node/.." + path,
		"no machine":             base + "/node/" + path,
	}
}

func escapeLetters(text string) string {
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; c == '/' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02x", c)
		}
	}
	return b.String()
}

// However a request writes an address, and whatever its method is, it reaches what is there only with the access that this needs; and
// what is about the program is never there for a machine.
func TestNoPathLeadsAround(t *testing.T) {
	methods := []string{"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "TRACE", "CONNECT", "get", "PROPFIND", "POST\t"}
	people := []*auth.Principal{nil, {Access: auth.Metrics, Audience: auth.Everything}, {Access: auth.Read, Audience: auth.Everything}, {Access: auth.Operate, Audience: auth.Everything}}
	found := map[string]bool{}
	for _, base := range []string{"/", "/gpu-3/"} {
		w := wire(t, base)
		ask := func(who *auth.Principal, method, target, what string) {
			answer := w.send(t, who, method, target)
			if answer == nil {
				return
			}
			var principal auth.Principal
			if who != nil {
				principal = *who
			}
			tell := func(format string, args ...any) {
				t.Helper()
				t.Errorf("%s %s (%s) by %+v: "+format, append([]any{method, target, what, who}, args...)...)
			}
			switch {
			case w.act != nil:
				if found[w.act.ID] = true; !w.called.May(w.act.Needs) || w.called != principal {
					tell("the action %s is done", w.act.ID)
				}
			case w.route != nil:
				found[w.route.Path] = true
				if caller := auth.FromRequest(w.reached); !caller.May(w.route.Needs) || caller != principal {
					tell("%s %s is reached, which needs %d", w.route.Method, w.route.Path, w.route.Needs)
				}
				if sent := w.reached.Method; sent != w.route.Method && (sent != http.MethodHead || w.route.Method != http.MethodGet) {
					tell("%s %s is reached", w.route.Method, w.route.Path)
				}
				if w.route.Whole && serve.Node(w.reached) != "" {
					tell("%s is reached, which is about the program", w.route.Path)
				}
			case answer.Code < 300 && !principal.May(auth.Read) && method != http.MethodOptions:
				tell("status %d: %.200s", answer.Code, answer.Body)
			case answer.Code >= 500:
				tell("status %d: %.200s", answer.Code, answer.Body)
			}
		}
		for _, route := range w.routes {
			path := fill(route.Path)
			asked := map[string]bool{}
			for what, target := range tricks(w.base, path) {
				if asked[target] {
					continue
				}
				asked[target] = true
				some := people
				if base != "/" { // what they may do does not depend on it
					some = []*auth.Principal{nil, people[len(people)-1]}
				}
				for _, who := range some {
					ask(who, route.Method, target, what)
				}
			}
			for _, method := range methods {
				ask(nil, method, w.base+path, "another method")
				ask(people[2], method, w.base+path, "another method")
			}
		}
	}
	for _, some := range []string{"/alerts", "/sign-in", "/audit"} { // some can be reached, or the wires tell nothing
		if needs := some == "/audit"; found[some] == needs {
			t.Errorf("%s is reached: %v", some, !needs)
		}
	}
	if !found["silenceAlert"] {
		t.Error("an operator reaches no action")
	}
}

// No page of another site makes a browser change anything: not by an action, nor by the form of a page. Nothing that changes something
// is a GET.
func TestForeignPagesChangeNothing(t *testing.T) {
	w := wire(t, "/")
	administrator := &auth.Principal{Name: "root", Access: auth.Administer, Audience: auth.Everything, Way: auth.Password, ID: "user:1", Key: "k"}
	changes := 0
	for _, route := range w.routes {
		if route.Method == http.MethodGet {
			continue
		}
		changes++
		path := fill(route.Path)
		for _, foreign := range [][]string{
			{"Sec-Fetch-Site: cross-site"}, {"Sec-Fetch-Site: same-site"}, {"Origin: https://evil.example"}, {"Origin: null"},
			{"Origin: http://localhost:8004"}, {"Origin: http://localhost.evil.example:8003"}, {"Sec-Fetch-Site: cross-site", "Origin: http://localhost:8003"},
		} {
			for _, body := range []string{"application/x-www-form-urlencoded", "text/plain", "multipart/form-data; boundary=x", "application/json"} {
				answer := w.send(t, administrator, route.Method, path, append([]string{"Content-Type: " + body, "Content-Length: 0"}, foreign...)...)
				if w.reached != nil || answer.Code != http.StatusForbidden {
					t.Errorf("%s %s, %v: status %d, reached: %v", route.Method, path, foreign, answer.Code, w.reached != nil)
				}
			}
		}
		for _, own := range [][]string{{"Sec-Fetch-Site: same-origin"}, {"Origin: http://localhost:8003"}, {}} {
			if answer := w.send(t, administrator, route.Method, path, append([]string{"Content-Length: 0"}, own...)...); w.reached == nil {
				t.Errorf("%s %s, %v: status %d: gpuwhy's own page does not reach it: %.200s", route.Method, path, own, answer.Code, answer.Body)
			}
		}
	}
	if changes < 20 {
		t.Errorf("only %d addresses change something", changes)
	}
}
