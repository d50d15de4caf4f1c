//go:build !race

package static_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/app"
	"github.com/gpuwhy/gpuwhy/internal/clock"
	"github.com/gpuwhy/gpuwhy/internal/reading"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/internal/testkit/browser"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
	"github.com/gpuwhy/gpuwhy/sampler"
)

const base = "/gpu-why/"

// birth is when the clocks of sites begin.
var birth = time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC)

// A site is the program itself, with made-up readings. What its clock names stands still but where a test
// moves it, so that a page is the same each time that it is rendered. So does the clock of its pages'
// scripts ([browser.Tab.Pass]). Beside it are the modules as they are written.
type site struct {
	*app.App
	URL     string
	tb      testing.TB
	opt     app.Options
	handler atomic.Pointer[http.Handler]

	away   atomic.Bool                  // it answers nothing
	refuse atomic.Bool                  // it takes no socket
	proxy  atomic.Pointer[http.Handler] // answers pages and sockets in its place, if there is one, as who asks for a sign-in does
	former atomic.Pointer[http.Handler] // answers all but sockets, if there is one
	driven atomic.Bool                  // time elapses as pass says, and not otherwise
	sent   atomic.Int64

	mu      sync.Mutex
	now     time.Time
	seq     uint64
	asked   func() *gpu.Snapshot // reads on demand
	sockets map[net.Conn]struct{}
}

// newSite begins a site that has had no reading yet. Its readings are a second apart, or that long.
func newSite(tb testing.TB, interval ...time.Duration) *site {
	tb.Helper()
	s, began := &site{tb: tb, now: birth, sockets: map[net.Conn]struct{}{}}, time.Now()
	elapsed := func() time.Duration {
		passed := s.time().Sub(birth)
		if s.driven.Load() {
			return passed
		}
		return passed + time.Since(began)
	}
	served := httptest.NewUnstartedServer(s)
	s.opt = app.Options{
		Version: "v1", Address: serve.Address{Listen: served.Listener.Addr().String(), BasePath: base}, MaxViewers: 100,
		Interval: append(interval, time.Second)[0], Deadline: time.Second, AlertUtilization: 50,
		Clock: clock.Of(s.time, elapsed),
	}
	s.begin()
	served.Config.ConnState = s.follow
	served.Start()
	s.URL = served.URL + base
	tb.Cleanup(func() {
		s.cut()
		served.Close()
		_ = s.Shutdown(context.Background()) // its viewers were cut off
	})
	return s
}

// begin starts the program, or another one in its place.
func (s *site) begin(inputs ...*reading.Inputs) {
	if len(inputs) == 0 {
		inputs = []*reading.Inputs{{Node: "made up", Sources: []sampler.Source{s}, Refresh: s.Read}}
	}
	var err error
	if s.App, err = app.New(s.opt, inputs, slog.New(slog.NewTextHandler(s.tb.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))); err != nil {
		s.tb.Fatal(err)
	}
	h := s.Handler()
	s.handler.Store(&h)
}

// ServeHTTP implements [http.Handler].
func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch path := strings.TrimPrefix(r.URL.Path, base); {
	case strings.HasPrefix(path, "source/"):
		http.StripPrefix(base+"source/", http.FileServerFS(os.DirFS("."))).ServeHTTP(w, r)
	case s.proxy.Load() != nil && !strings.HasPrefix(path, "static/"):
		(*s.proxy.Load()).ServeHTTP(w, r)
	case s.away.Load(), s.refuse.Load() && path == "ws":
		http.Error(w, "away", http.StatusServiceUnavailable)
	case path != "ws" && s.former.Load() != nil:
		(*s.former.Load()).ServeHTTP(w, r)
	default:
		(*s.handler.Load()).ServeHTTP(&counted{w, &s.sent}, r)
	}
}

// counted counts the bytes of answers.
type counted struct {
	http.ResponseWriter
	n *atomic.Int64
}

func (c *counted) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return c.ResponseWriter.Write(p)
}

func (c *counted) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (s *site) follow(conn net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state == http.StateHijacked {
		s.sockets[conn] = struct{}{}
	}
}

// cut ends all sockets without a goodbye.
func (s *site) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn := range s.sockets {
		_ = conn.Close() // it may have ended by itself
	}
	clear(s.sockets)
}

func (s *site) time() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// pass moves the clock.
func (s *site) pass(d time.Duration) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
	return s.now
}

// Name implements [sampler.Source].
func (s *site) Name() string { return gpu.SourceNVML }

// Close implements [sampler.Source].
func (s *site) Close() error { return nil }

// Read implements [sampler.Source]: what is read on demand.
func (s *site) Read(context.Context) (*gpu.Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked == nil {
		return nil, fmt.Errorf("nothing is read on demand here")
	}
	return s.asked(), nil
}

// publish makes this the newest reading, of the site's time.
func (s *site) publish(snap *gpu.Snapshot) {
	s.mu.Lock()
	s.seq++
	snap.Seq, snap.Time = s.seq, s.now
	s.mu.Unlock()
	s.Publish(snap)
}

// next publishes a reading an interval later.
func (s *site) next(snap *gpu.Snapshot) {
	s.pass(s.opt.Interval)
	s.publish(snap)
}

// example is the machine of that name of package fixture, as of now.
func (s *site) example(name string) *gpu.Snapshot { return fixture.Named(name, s.time()).Snapshot }

// fixture is example where mu is locked.
func (s *site) fixture(name string) *gpu.Snapshot { return fixture.Named(name, s.now).Snapshot }

// shown begins a site with an example, and opens a page of it.
func shown(t *testing.T, name, page string) (*site, *browser.Tab) {
	t.Helper()
	s := newSite(t)
	s.publish(s.example(name))
	return s, s.open(t, page, 1440, 900)
}

// wire counts what the page gets through its sockets.
const wire = `window.wire = { sockets: 0, open: 0, patched: 0, whole: 0, errors: 0 };
window.WebSocket = class extends WebSocket {
  constructor(...of) {
    super(...of);
    wire.sockets++;
    this.addEventListener("open", () => { wire.open++; });
    this.addEventListener("close", () => { wire.open--; });
    this.addEventListener("message", (e) => {
      const { event, data } = JSON.parse(e.data);
      if (event === "error") wire.errors++;
      else if (data.from) wire.patched++;
      else wire.whole++;
    });
  }
};`

// quick takes the shortest of the waits between two connections.
const quick = `Math.random = () => 0;`

// open opens a page in a tab of its own and waits until it is live.
func (s *site) open(tb testing.TB, page string, width, height int, before ...string) *browser.Tab {
	tb.Helper()
	tab := browser.Open(tb, width, height)
	tab.StopClock()
	for _, script := range append([]string{wire, quick}, before...) {
		tab.Before(script)
	}
	tab.Visit(s.URL + page)
	tab.Until(`["live", "silent", "none", "starting"].includes(document.getElementById("state")?.dataset.state) && wire.open === 1`)
	return tab
}

// untilState waits for what the page says of how new it is.
func untilState(tab *browser.Tab, state string) {
	tab.Until(fmt.Sprintf(`document.getElementById("state").dataset.state === %q`, state))
}

// passUntilState lets seconds pass until the page says that. An answer that comes after a step counts from the time after that
// step, so that no single step is sure to be long enough.
func passUntilState(t *testing.T, tab *browser.Tab, state string) {
	t.Helper()
	testkit.Until(t, "the page is "+state, func() bool {
		tab.Pass(time.Second)
		return browser.Ask[string](tab, `document.getElementById("state").dataset.state`) == state
	})
}

// same compares the page as it is with the one that the server would send now, if it is as new as
// that soon: to the letter, but for what is the scripts' own.
const same = `(async () => {
  const { rewriteMoments } = await import("` + base + `source/moments.js");
  const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
  const own = new Set(["open", "data-stale", "data-paused", "data-told", "data-done", "data-failed"]);
  const versionOf = (doc) => doc.querySelector('meta[name="version"]')?.content ?? doc.title;
  let served;
  for (let i = 0; ; i++) {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" }, cache: "no-store" });
    if (!answer.ok && document.getElementById("state")?.dataset.state === "gone") return "";
    served = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (answer.ok && versionOf(served) === versionOf(document)) break;
    if (i === 20) return "it is at " + versionOf(document) + ", " + document.getElementById("state")?.dataset.state + " " + JSON.stringify(wire) + ", and is now " + (answer.ok ? versionOf(served) : answer.status);
    await sleep(2 + i);
  }
  rewriteMoments(served);
  const lines = (doc) => {
    const out = [doc.title];
    const walk = (node, depth) => {
      if (!(node instanceof Element) && node.nodeType !== 1) { out.push(" ".repeat(depth) + JSON.stringify(node.nodeValue)); return; }
      const attributes = [...node.attributes].filter((a) => !own.has(a.name) && !(a.name === "data-state" && node.id === "state"))
        .map((a) => a.name + "=" + JSON.stringify(a.value)).sort().join(" ");
      out.push(" ".repeat(depth) + node.localName + " " + attributes);
      if (!node.hasAttribute("data-own") && node.localName !== "noscript") for (const child of node.childNodes) walk(child, depth + 1);
    };
    walk(doc.body, 0);
    return out;
  };
  const live = lines(document), fresh = lines(served);
  const found = [];
  for (let i = 0; i < Math.max(live.length, fresh.length) && found.length < 6; i++) {
    if (live[i] !== fresh[i]) found.push("live:   " + live[i] + "\nserved: " + fresh[i]);
  }
  return found.join("\n");
})()`

// sameAsServed reports whether the page is what the server would send now, once it is as new as that.
func sameAsServed(t *testing.T, tab *browser.Tab) bool {
	t.Helper()
	diff := ""
	testkit.Until(t, "the page is as new as what the server sends", func() bool {
		diff = browser.Ask[string](tab, same)
		return !strings.HasPrefix(diff, "it is at ")
	}, func() string { return diff })
	if diff != "" {
		t.Errorf("%s is not what the server sends:\n%s", browser.Ask[string](tab, `location.pathname + location.search`), diff)
	}
	return diff == ""
}

// readIn makes the page's reader one of that language and place.
func readIn(tab *browser.Tab, locale, zone string) {
	browser.Call(tab, emulation.SetLocaleOverride, emulation.SetLocaleOverrideParams{Locale: locale})
	browser.Call(tab, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: zone})
}

// do runs a script in the page.
func do(tab *browser.Tab, script string) {
	tab.Do(chromedp.Evaluate[chromedp.Void](`void (` + script + `)`))
}

// expected is what the console says where the server is away, or there is no such GPU.
var expected = []string{"WebSocket connection to", "Failed to load resource", "the page: Error: 5"}

// quiet fails the test if the console has anything else.
func quiet(tab *browser.Tab, allowed ...string) {
	tab.Quiet(append([]string{"<line> attribute y", "<svg> attribute viewBox"}, allowed...)...)
}
