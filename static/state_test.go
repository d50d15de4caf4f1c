package static_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/browsertest"
)

// play publishes reading after reading, until it is stopped.
func (s *site) play(of func() *gpu.Snapshot) (stop func()) {
	ctx, cancel := context.WithCancel(s.tb.Context())
	var done sync.WaitGroup
	done.Go(func() {
		for ctx.Err() == nil {
			s.next(of())
			select {
			case <-time.After(s.opt.Interval):
			case <-ctx.Done():
			}
		}
	})
	return func() { cancel(); done.Wait() }
}

// loads counts how often the page was loaded.
const loads = `sessionStorage.loads = Number(sessionStorage.loads ?? 0) + 1;`

// The page says that it is live while readings come, and soon that none does, or that the server is away.
func TestTheStateIsTrue(t *testing.T) {
	t.Parallel()
	for _, page := range []string{"", "alerts", "processes"} {
		t.Run("page "+page, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, 500*time.Millisecond)
			one := func() *gpu.Snapshot { return s.example("one") }
			stop := s.play(one)
			tab := s.open(t, page, 1440, 900, `window.was = [], new MutationObserver(() => {
			  const now = document.getElementById("state")?.dataset.state;
			  if (now && now !== was.at(-1)?.[0]) was.push([now, performance.now()]);
			}).observe(document, { subtree: true, attributes: true, childList: true });`)
			untilState(tab, "live")
			stop()
			browsertest.Ask[bool](tab, same+`.then(() => { window.last = performance.now(); return true; })`)
			untilState(tab, "silent")
			// Two intervals, the time of a reading, and up to a second until the page looks.
			if took := browsertest.Ask[float64](tab, `was.at(-1)[1] - last`); took > 5000 { // of a busy machine
				t.Errorf("it takes %.0f ms to say that nothing comes", took)
			}
			tab.Until(`/^No news for \d+\ss$/.test(document.getElementById("state").innerText) && document.body.hasAttribute("data-stale")`)

			s.refuse.Store(true)
			s.cut()
			untilState(tab, "lost")
			tab.Until(`/^Connection lost/.test(document.getElementById("state").innerText)`)
			stop = s.play(one)
			untilState(tab, "polling")
			if !browsertest.Ask[bool](tab, `!document.body.hasAttribute("data-stale")`) {
				t.Error("what was asked for is called old")
			}
			s.refuse.Store(false)
			untilState(tab, "live")
			stop()
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
	if got := browsertest.Ask[string](tab, `document.getElementById("pause").innerText.trim() + location.search`); got != "Resume?show=busy&paused=1" {
		t.Errorf("it is %s", got)
	}
	do(tab, `window.changes = [], new MutationObserver((list) => { for (const m of list) if (!m.target.closest?.("#state") && !m.target.parentElement?.closest("#state")) changes.push(m.type + " " + m.attributeName + " " + m.target.nodeName); })
	  .observe(document.body, { subtree: true, childList: true, attributes: true, characterData: true })`)
	got := browsertest.Ask[int](tab, `wire.patched + wire.whole`)
	s.next(s.example("one"))
	tab.Until(fmt.Sprintf(`wire.patched + wire.whole > %d`, got)) // it has come
	tab.Settle()
	if got := browsertest.Ask[string](tab, `changes.join("; ")`); got != "" {
		t.Errorf("it changes: %s", got)
	}
	tab.Do(chromedp.Click("#pause"))
	sameAsServed(t, tab)
	if got := browsertest.Ask[string](tab, `document.getElementById("pause").innerText.trim() + location.search`); got != "Pause?show=busy" {
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
	if n := browsertest.Ask[string](tab, `sessionStorage.loads`); n != "2" {
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
	tab.Until(`sessionStorage.loads === "2" && document.getElementById("state")?.dataset.state === "lost" && document.body.hasAttribute("data-stale") && /again in (30|2\d)\ss/.test(document.getElementById("state").innerText)`)
	for range 3 {
		s.next(s.example("eight"))
		tab.Settle()
	}
	if n := browsertest.Ask[string](tab, `sessionStorage.loads + document.body.dataset.version`); n != "2v1" {
		t.Errorf("loads and version are %s", n)
	}
	quiet(tab, expected...)
}

// What swallows sockets on the way is soon noticed: the page asks by HTTP then, also while it tries again.
func TestSwallowedSockets(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	stop := s.play(func() *gpu.Snapshot { return s.example("one") })
	tab := browsertest.Open(t, 1440, 900)
	tab.Before(wire + quick + `window.WebSocket = class { static CONNECTING = 0; static OPEN = 1; readyState = 0; constructor() { wire.sockets++; } close() { this.readyState = 3; } };`)
	tab.Visit(s.URL)
	untilState(tab, "polling")
	if took := browsertest.Ask[float64](tab, `performance.now()`); took > 15_000 {
		t.Errorf("it took %.0f ms", took)
	}
	stop()
	tab.Until(`wire.sockets >= 2`)
	s.next(s.example("eight"))
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
	if got := browsertest.Ask[string](tab, `location.search + document.querySelector("#palette > input").value`); got != "?show=busyabout" {
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
func hide(tab *browsertest.Tab, hidden bool) {
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
	if n := browsertest.Ask[int](tab, `wire.open`); n != 1 {
		t.Errorf("it has %d sockets, and is to tell of alerts", n)
	}
	quiet(tab)
}
