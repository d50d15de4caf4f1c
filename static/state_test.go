//go:build !race

package static_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/testkit/browser"
)

// loads counts how often the page was loaded.
const loads = `sessionStorage.loads = Number(sessionStorage.loads ?? 0) + 1;`

// The page says that it is live while readings come, and soon that none does, or that the server is away.
func TestTheStateIsTrue(t *testing.T) {
	t.Parallel()
	for _, page := range []string{"", "alerts", "processes"} {
		t.Run("page "+page, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.publish(s.example("one"))
			tab := s.open(t, page, 1440, 900)
			untilState(tab, "live")
			// Less than two intervals, and more than a reading and its way may take.
			tab.Pass(1700 * time.Millisecond)
			if is := browser.Ask[string](tab, `document.getElementById("state").dataset.state`); is != "live" {
				t.Errorf("the next reading may still come, and it is %s", is)
			}
			tab.Pass(time.Millisecond)
			untilState(tab, "silent")
			tab.Until(`/^No updates for 2\ss$/.test(document.getElementById("state").innerText) && document.body.hasAttribute("data-stale")`)

			s.refuse.Store(true)
			s.cut()
			untilState(tab, "lost")
			tab.Until(`/^Connection lost/.test(document.getElementById("state").innerText)`)
			s.next(s.example("one"))
			untilState(tab, "polling")
			if !browser.Ask[bool](tab, `!document.body.hasAttribute("data-stale")`) {
				t.Error("what was asked for is called old")
			}
			s.refuse.Store(false)
			untilState(tab, "live")
			sameAsServed(t, tab)
			quiet(tab, expected...)
		})
	}
}

func TestStartingAndNone(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	tab := s.open(t, "", 1440, 900)
	untilState(tab, "starting")
	s.next(s.example("none"))
	untilState(tab, "none")
	s.next(s.example("one"))
	untilState(tab, "live")
	sameAsServed(t, tab)
	quiet(tab, expected...)
}

// The page of a GPU that was taken out says so, and goes on once it is back.
func TestGone(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	eight := s.example("eight")
	s.publish(eight)
	tab := s.open(t, "gpu/"+eight.Devices[0].UUID, 1440, 900)
	less := s.example("eight")
	less.Devices = less.Devices[1:]
	s.next(less)
	untilState(tab, "gone")
	s.next(s.example("eight"))
	untilState(tab, "live")
	sameAsServed(t, tab)
	quiet(tab, expected...)
}

// While it is paused nothing changes, also over a reload; then it is up to date at once.
func TestPause(t *testing.T) {
	t.Parallel()
	s, tab := shown(t, "eight", "?show=busy")
	tab.Do(chromedp.Click("#pause"))
	untilState(tab, "paused")
	if got := browser.Ask[string](tab, `document.getElementById("pause").innerText.trim() + location.search`); got != "Resume?show=busy&paused=1" {
		t.Errorf("it is %s", got)
	}
	do(tab, `window.changes = [], new MutationObserver((list) => { for (const m of list) if (!m.target.closest?.("#state") && !m.target.parentElement?.closest("#state")) changes.push(m.type + " " + m.attributeName + " " + m.target.nodeName); })
	  .observe(document.body, { subtree: true, childList: true, attributes: true, characterData: true })`)
	got := browser.Ask[int](tab, `wire.patched + wire.whole`)
	s.next(s.example("one"))
	tab.Until(fmt.Sprintf(`wire.patched + wire.whole > %d`, got)) // it has come
	tab.Settle()
	if got := browser.Ask[string](tab, `changes.join("; ")`); got != "" {
		t.Errorf("it changes: %s", got)
	}
	tab.Do(chromedp.Click("#pause"))
	sameAsServed(t, tab)
	if got := browser.Ask[string](tab, `document.getElementById("pause").innerText.trim() + location.search`); got != "Pause?show=busy" {
		t.Errorf("it is %s", got)
	}

	tab.Do(chromedp.Click("#pause"))
	untilState(tab, "paused")
	tab.Do(chromedp.Reload())
	tab.Until(`document.getElementById("state")?.dataset.state === "paused" && wire.open === 1`)
	s.next(s.example("eight"))
	tab.Do(chromedp.Click("#pause"))
	sameAsServed(t, tab)
	quiet(tab)
}

// Another version of the program has other scripts: the page is loaded anew, once.
func TestAnotherVersionIsLoaded(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.publish(s.example("one"))
	tab := s.open(t, "", 1440, 900, loads)
	s.opt.Version = "v2"
	s.begin()
	s.next(s.example("one"))
	s.cut()
	tab.Until(`document.body?.dataset.version === "v2" && wire.open === 1`)
	s.next(s.example("eight"))
	sameAsServed(t, tab)
	if n := browser.Ask[string](tab, `sessionStorage.loads`); n != "2" {
		t.Errorf("it was loaded %s times", n)
	}
	quiet(tab, expected...)
}

// Where loading the page does not make it one of the new version, it is not loaded over and over, and is not called live.
func TestAnotherVersionIsNotLoaded(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.publish(s.example("one"))
	tab := s.open(t, "", 1440, 900, loads)
	s.former.Store(s.handler.Load())
	s.opt.Version = "v2"
	s.begin()
	s.next(s.example("one"))
	s.cut()
	tab.Until(`sessionStorage.loads === "2" && document.getElementById("state")?.dataset.state === "lost" && document.body.hasAttribute("data-stale") && /retrying in 30\ss/.test(document.getElementById("state").innerText)`)
	for range 3 {
		came := browser.Ask[int](tab, `wire.whole`)
		s.next(s.example("eight"))
		tab.Until(fmt.Sprintf(`wire.whole > %d`, came))
	}
	if n := browser.Ask[string](tab, `sessionStorage.loads + document.body.dataset.version`); n != "2v1" {
		t.Errorf("loads and version are %s", n)
	}
	tab.Pass(30 * time.Second)
	s.next(s.example("one"))
	tab.Until(`sessionStorage.loads === "3" && document.getElementById("state")?.dataset.state === "lost"`)
	quiet(tab, expected...)
}

// What swallows sockets on the way is soon noticed: the page asks by HTTP then, also while it tries again.
func TestSwallowedSockets(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.publish(s.example("one"))
	tab := browser.Open(t, 1440, 900)
	tab.StopClock()
	tab.Before(wire + quick + `window.WebSocket = class { static CONNECTING = 0; static OPEN = 1; readyState = 0; constructor() { wire.sockets++; } close() { this.readyState = 3; } };`)
	tab.Visit(s.URL)
	untilState(tab, "connecting")
	s.next(s.example("one"))
	tab.Pass(5 * time.Second)
	if got := browser.Ask[string](tab, `wire.sockets + document.getElementById("state").dataset.state`); got != "1silent" {
		t.Errorf("a socket may still open, and the sockets and the state are %s", got)
	}
	tab.Pass(time.Millisecond)
	untilState(tab, "polling")
	tab.Until(`wire.sockets === 2`)
	s.next(s.example("eight"))
	tab.Pass(s.opt.Interval + 500*time.Millisecond) // a reading is asked for soon after there should be one
	sameAsServed(t, tab)
	quiet(tab, expected...)
}

// Who finds something while the server is away stays where they are, and keeps what they wrote.
func TestFindWhileAway(t *testing.T) {
	t.Parallel()
	s, tab := shown(t, "eight", "?show=busy")
	tab.Do(chromedp.Click("#find"))
	tab.Until(`document.querySelectorAll("#found a").length > 3`)
	s.away.Store(true)
	tab.Do(chromedp.SendKeys("#palette > input", "about"))
	tab.Until(`document.querySelector("#found [role=alert]")?.checkVisibility() && document.querySelectorAll("#found a").length === 0`)
	if got := browser.Ask[string](tab, `location.search + document.querySelector("#palette > input").value`); got != "?show=busyabout" {
		t.Errorf("it is at %s", got)
	}
	s.away.Store(false)
	tab.Do(chromedp.SendKeys("#palette > input", " "))
	tab.Until(`document.querySelector("#found a")?.href.endsWith("/about") && !document.querySelector("#found [role=alert]")`)
	quiet(tab, expected...)
}

// Who asks for it gets a reading that began then.
func TestReadNow(t *testing.T) {
	t.Parallel()
	s, tab := shown(t, "one", "")
	asked := make(chan struct{}, 9)
	s.mu.Lock()
	s.asked = func() *gpu.Snapshot {
		asked <- struct{}{}
		snap := s.fixture("one")
		snap.Devices[0].Thermal.GPU = gpu.Of[gpu.Celsius](53)
		return snap
	}
	s.mu.Unlock()
	s.pass(time.Second)
	tab.Do(chromedp.Click("#more summary"), chromedp.Click("#ask"))
	tab.Until(`document.title.includes("53")`)
	if len(asked) != 1 {
		t.Errorf("it was read %d times", len(asked))
	}
	sameAsServed(t, tab)
	quiet(tab)
}

// hide makes the tab one that nobody sees, or somebody.
func hide(tab *browser.Tab, hidden bool) {
	do(tab, fmt.Sprintf(`Object.defineProperty(document, "hidden", { value: %v, configurable: true }), document.dispatchEvent(new Event("visibilitychange"))`, hidden))
}

// A tab that nobody sees holds no socket, but where it is to tell of alerts. It is up to date as soon as it is shown.
func TestHidden(t *testing.T) {
	t.Parallel()
	s, tab := shown(t, "eight", "")
	hide(tab, true)
	tab.Until(`wire.open === 0`)
	s.next(s.example("one"))
	s.next(s.example("one"))
	hide(tab, false)
	sameAsServed(t, tab)

	tab.Do(chromedp.Click("#more summary"), chromedp.Click("#sound"))
	tab.Until(`document.body.hasAttribute("data-told")`)
	hide(tab, true)
	s.next(s.example("eight"))
	sameAsServed(t, tab)
	if n := browser.Ask[int](tab, `wire.open`); n != 1 {
		t.Errorf("it has %d sockets, and is to tell of alerts", n)
	}
	quiet(tab)
}

// After the machine slept the page says at once how old its reading is, and connects without waiting for the old connection.
func TestWakes(t *testing.T) {
	t.Parallel()
	s, tab := shown(t, "one", "")
	s.away.Store(true) // the network is not back yet
	tab.Sleep(time.Minute)
	tab.Until(`/^(No updates for 1\smin|Connection lost.*)$/.test(document.getElementById("state").innerText) && document.body.hasAttribute("data-stale") && wire.sockets > 1`)
	s.away.Store(false)
	s.pass(time.Minute)
	s.next(s.example("one"))
	do(tab, `dispatchEvent(new Event("online"))`)
	untilState(tab, "live")
	sameAsServed(t, tab)

	// The clock was set: the reading is as old as the server says.
	tab.Sleep(time.Hour)
	untilState(tab, "live")
	tab.Sleep(-time.Hour)
	untilState(tab, "live")

	// Where both clocks go on while the machine sleeps, the page was not run.
	sockets := browser.Ask[int](tab, `wire.sockets`)
	tab.Pass(11 * time.Second)
	tab.Until(fmt.Sprintf(`wire.sockets > %d`, sockets))

	// A page that was hidden finds it when it is shown.
	s.next(s.example("one"))
	untilState(tab, "live")
	hide(tab, true)
	s.away.Store(true)
	tab.Sleep(time.Minute)
	hide(tab, false)
	tab.Until(`/^(No updates for 1\smin|Connection lost.*)$/.test(document.getElementById("state").innerText) && document.body.hasAttribute("data-stale")`)
	quiet(tab, expected...)
}

// A browser that the way swallows sockets of is up to date by HTTP, and is not told otherwise.
func TestAskingIsAConnection(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.publish(s.example("one"))
	tab := s.open(t, "", 1440, 900)
	s.refuse.Store(true)
	s.cut()
	untilState(tab, "polling")
	do(tab, `window.states = [], new MutationObserver(() => states.push(document.getElementById("state").dataset.state + (document.body.hasAttribute("data-stale") ? " and grey" : "")))
	  .observe(document.getElementById("state"), { attributeFilter: ["data-state"] })`)
	const step = 300 * time.Millisecond
	for passed := time.Duration(0); passed < 6*time.Second; passed += step {
		if s.pass(step); (passed+step)/s.opt.Interval != passed/s.opt.Interval {
			s.publish(s.example("one"))
		}
		tab.Pass(step)
	}
	if got := browser.Ask[string](tab, `states.join("; ") + (document.body.hasAttribute("data-stale") ? " grey" : "")`); got != "" {
		t.Errorf("it says %s", got)
	}
	// It does say so where no reading comes, and where no answer does.
	s.pass(5 * time.Second)
	passUntilState(t, tab, "silent")
	s.away.Store(true)
	passUntilState(t, tab, "lost")
	quiet(tab, expected...)
}

// Where no socket ever opens, the page is asked for at once, and nobody is told that a connection was lost.
func TestSocketsThatNeverOpen(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.publish(s.example("one"))
	s.refuse.Store(true)
	tab := browser.Open(t, 1440, 900)
	tab.StopClock()
	tab.Before(wire + quick + `window.states = new Set(); addEventListener("DOMContentLoaded", () => new MutationObserver(() => states.add(document.getElementById("state").dataset.state))
	  .observe(document.getElementById("state"), { attributeFilter: ["data-state"] }))`)
	tab.Visit(s.URL)
	untilState(tab, "polling")
	for range 20 {
		s.pass(200 * time.Millisecond)
		tab.Pass(200 * time.Millisecond)
	}
	if got := browser.Ask[string](tab, `[...states].filter((s) => !["connecting", "polling", "silent"].includes(s)).join(" ") + (document.body.hasAttribute("data-stale") ? " and grey" : "")`); got != "" {
		t.Errorf("it says %s", got)
	}
	// Where nothing answers either, it says so.
	s.away.Store(true)
	passUntilState(t, tab, "lost")
	quiet(tab, expected...)
}

// Who stands between asks for a sign-in: the page says so, and leads there.
func TestSignedOut(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("another origin is asked for something") }))
	t.Cleanup(elsewhere.Close)
	for name, answer := range map[string]http.HandlerFunc{
		"at another origin": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL+"/sign-in", http.StatusFound)
		},
		"at this origin": func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/sign-in" {
				http.Redirect(w, r, "/sign-in", http.StatusFound)
			}
		},
		"by status": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "who is it?", http.StatusUnauthorized) },
		"with a form that is forbidden": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, "<!DOCTYPE html><title>Sign in</title><form></form>")
		},
		"at this address": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<!DOCTYPE html><title>Sign in</title><form></form>")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.publish(s.example("one"))
			tab := s.open(t, "?show=busy", 1440, 900, loads)
			var proxy http.Handler = answer
			s.proxy.Store(&proxy)
			s.cut()
			untilState(tab, "signedout")
			if got := browser.Ask[string](tab, `document.getElementById("state").innerText + document.body.hasAttribute("data-stale") + document.querySelector("#state a:is(:any-link)").checkVisibility() + sessionStorage.loads`); got != "Signed out: sign in againtruetrue1" {
				t.Errorf("it is %q", got)
			}
			s.proxy.Store(nil)
			tab.Do(chromedp.Click(`#state [data-of="signedout"] a`))
			tab.Until(`sessionStorage.loads === "2" && document.getElementById("state")?.dataset.state === "live" && location.search === "?show=busy"`)
			if name != "at another origin" { // DevTools call it asked where it was not followed
				quiet(tab, expected...)
			}
		})
	}
}
