//go:build !race

package static_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/testkit/browser"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
)

// wide are elements that make the page wide.
const wide = `[...document.querySelectorAll("body *")].filter((e) => {
  if (e.getBoundingClientRect().right <= innerWidth + 1) return false;
  for (let p = e.parentElement; p; p = p.parentElement) if (getComputedStyle(p).overflowX !== "visible") return false;
  return true;
}).slice(0, 6).map((e) => e.parentElement.className + " > " + e.outerHTML.slice(0, 120)).join("\n")`

// Nothing is wider than the screen, whatever it is and whatever is read.
func TestNothingOverflows(t *testing.T) {
	t.Parallel()
	examples := fixture.Examples(birth)
	hostile := fixture.Named("eight", birth)
	hostile.Name = "hostile"
	for i := range hostile.Snapshot.Devices {
		d := &hostile.Snapshot.Devices[i]
		d.Name, d.Node = strings.Repeat("Long", 2_000), strings.Repeat("n", 300)
		long := gpu.Of(strings.Repeat("x", 10_000))
		d.Processes = gpu.Of([]gpu.Process{{PID: 1 << 22, Facts: gpu.ProcessFacts{Name: long, User: long, Command: long}}})
	}
	hostile.Snapshot.Node = strings.Repeat("n", 300)
	examples = append(examples, hostile)
	for _, page := range []string{"", "processes", "alerts", "about", "gpu"} {
		t.Run("page "+page, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.atOnce()
			s.publish(s.example("one"))
			tab := s.open(t, strings.Replace(page, "gpu", "", 1), 1440, 900)
			for _, e := range examples {
				if page != "" && (e.Name == "many" || e.Name == "fleet") {
					continue // it takes long, and has no other words
				}
				if e.Snapshot != nil {
					snap := *e.Snapshot // the pages of another test have it too
					s.pass(time.Second)
					s.publish(&snap)
				}
				if page == "gpu" {
					if e.Snapshot == nil || len(e.Snapshot.Devices) == 0 {
						continue
					}
					tab.Visit(s.URL + "gpu/" + url.PathEscape(e.Snapshot.Devices[0].UUID))
				}
				sameAsServed(t, tab)
				for _, width := range []int64{320, 390, 768, 1440, 3840} {
					tab.Resize(width, 900)
					if got := browser.Ask[int](tab, `document.documentElement.scrollWidth`); got > int(width) {
						t.Errorf("%s at %d: %d wide: %s", e.Name, width, got, browser.Ask[string](tab, wide))
					}
				}
			}
			quiet(tab, expected...)
		})
	}
}

// All that can be used is reached by Tab, in the order of the page, and shows that it is.
func TestKeyboardReachesAll(t *testing.T) {
	t.Parallel()
	for _, page := range []string{"", "processes", "alerts", "processes?process=dgx-07/GPU-00000000-0000-4000-8000-000000000000/9001"} {
		t.Run("page "+page, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.atOnce()
			s.publish(s.example("eight"))
			tab := s.open(t, page, 1440, 900)
			do(tab, `window.all = new Set([...(document.querySelector("dialog:modal") ?? document).querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")].filter((e) => e.checkVisibility({ visibilityProperty: true }) && !e.disabled && e.tabIndex >= 0 && !(e.type === "radio" && !e.checked)))`)
			for range browser.Ask[int](tab, `all.size + 10`) {
				tab.Do(chromedp.KeyEvent("\t"))
				if got := browser.Ask[string](tab, `(() => {
				  const e = document.activeElement;
				  all.delete(e);
				  const look = getComputedStyle(e);
				  return e === document.body || look.outlineStyle !== "none" || look.boxShadow !== "none" || e.matches("input, select") ? "" : e.outerHTML.slice(0, 150);
				})()`); got != "" {
					t.Errorf("it does not show that it is reached: %s", got)
				}
			}
			if left := browser.Ask[string](tab, `[...all].map((e) => e.outerHTML.slice(0, 150)).join("\n")`); left != "" {
				t.Errorf("the keyboard does not reach\n%s", left)
			}
			quiet(tab)
		})
	}
}

// Printed, it is black on white, without what is to be pressed.
func TestPrints(t *testing.T) {
	t.Parallel()
	_, tab := shown(t, "eight", "")
	tab.Prefer("prefers-color-scheme: dark")
	browser.Call(tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print", Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}})
	tab.Settle()
	if got := browser.Ask[string](tab, `[getComputedStyle(document.body).color.match(/\d+/g).every((part) => part < 40), getComputedStyle(document.documentElement).backgroundColor, ...["#pause", "#find", "#more"].map((e) => document.querySelector(e).checkVisibility())].join(" ")`); got != "true rgb(255, 255, 255) false false false" {
		t.Errorf("printed: %s", got)
	}
	quiet(tab)
}

func TestPagesDoNotGrow(t *testing.T) {
	t.Parallel()
	for _, page := range []string{"", "alerts"} {
		t.Run("page "+page, func(t *testing.T) {
			t.Parallel()
			doesNotGrow(t, page, 96)
		})
	}
}

// doesNotGrow shows that many updates, after which the machine is as it was, and so is what the page holds.
func doesNotGrow(t *testing.T, page string, updates int) {
	t.Helper()
	s := newSite(t, 10*time.Second)
	s.atOnce()
	// The same sixteen machines again and again, with a process that is new each time.
	machine := func(n int) {
		snap := s.example("eight")
		for i := range snap.Devices[:3] {
			snap.Devices[i].Utilization.GPU = gpu.Of(gpu.Percent((n*7 + 13*i) % 16))
			snap.Devices[i].Thermal.GPU = gpu.Of(gpu.Celsius(60 + (n+i)%16))
		}
		if n%16 > 8 {
			snap.Devices[4].State, snap.Devices[4].Since, snap.Devices[4].Readings = gpu.StateLost, s.time(), gpu.Readings{}
		}
		list := append([]gpu.Process(nil), snap.Devices[0].Processes.Or(nil)...)
		snap.Devices[0].Processes = gpu.Of(append(list, gpu.Process{PID: 100_000 + n, Memory: gpu.Of[gpu.Bytes](1 << 30)}))
		s.next(snap)
	}
	n := 0
	for range 100 { // until charts and the list of what was are full
		n++
		machine(n)
	}
	tab := s.open(t, page, 1440, 900)
	browser.Call(tab, performance.Enable, performance.EnableParams{})
	holds := func() map[string]float64 {
		sameAsServed(t, tab)
		for range 3 { // what nobody holds goes in steps
			browser.Call(tab, heapprofiler.CollectGarbage, cdp.Empty{})
		}
		out := map[string]float64{"elements": browser.Ask[float64](tab, `document.querySelectorAll("*").length`)}
		for _, m := range browser.Call(tab, performance.GetMetrics, cdp.Empty{}).Metrics {
			out[m.Name] = m.Value
		}
		return out
	}
	for range 16 {
		n++
		machine(n)
		holds()
	}
	do(tab, fmt.Sprintf(`window.goal = %d`, s.time().UnixMilli()))
	before := holds()
	for range updates / 16 {
		for range 16 {
			n++
			machine(n)
			do(tab, `goal += 10000`)
			tab.Until(`Number(document.getElementById("state").dataset.taken) === goal`)
		}
	}
	after := holds()
	// The same page has a time more or less on its axis, depending on the time. The browser keeps 141 bytes of each question
	// (a page that nothing changes, asked 6,400 times).
	for name, more := range map[string]float64{"elements": 20, "Nodes": 100, "JSEventListeners": 0, "Documents": 0, "Frames": 0, "JSHeapUsedSize": 300_000 + 200*float64(updates)} {
		t.Logf("%s: %.0f, then %.0f", name, before[name], after[name])
		if after[name] > before[name]+more {
			t.Errorf("%s: %.0f before %d updates, and %.0f after them", name, before[name], updates, after[name])
		}
	}
	quiet(tab)
}

// BenchmarkUpdateOfAPage is what a reading costs the main thread of an open page with a quarter of an hour in its charts, as the
// browser measures it: in all, and of it scripts, layout and style. With it goes the size of the message.
func BenchmarkUpdateOfAPage(b *testing.B) {
	for _, gpus := range []int{8, 64, 1000} {
		b.Run(fmt.Sprintf("gpus=%d", gpus), func(b *testing.B) {
			profile := fmt.Sprintf("fleet:%d", gpus)
			if gpus == 8 {
				profile = "dgx-h100"
			}
			s, step := simulated(b, profile, min(15*time.Minute, 2000*time.Minute/time.Duration(gpus)))
			tab := s.open(b, "", 1440, 900)
			frames := func(cause func()) {
				do(tab, `window.came = new Promise((done) => document.body.addEventListener("patched", () => requestAnimationFrame(() => requestAnimationFrame(() => done(true))), { once: true }))`)
				cause()
				browser.Ask[bool](tab, `came`)
			}
			frames(step)
			browser.Call(tab, performance.Enable, performance.EnableParams{})
			durations := func() map[string]float64 {
				sums := map[string]float64{}
				for _, m := range browser.Call(tab, performance.GetMetrics, cdp.Empty{}).Metrics {
					sums[m.Name] = m.Value
				}
				return sums
			}
			before := durations()
			updates := 0
			for b.Loop() {
				frames(step)
				updates++
			}
			after := durations()
			for range updates { // what it costs to ask the browser, and to draw two frames in which nothing is new
				frames(func() { do(tab, `document.body.dispatchEvent(new Event("patched"))`) })
			}
			b.ReportMetric(1000*(durations()["TaskDuration"]-after["TaskDuration"])/float64(updates), "ms-of-measuring/op")
			for name, unit := range map[string]string{
				"TaskDuration": "ms-main/op", "ScriptDuration": "ms-script/op", "LayoutDuration": "ms-layout/op", "RecalcStyleDuration": "ms-style/op",
			} {
				b.ReportMetric(1000*(after[name]-before[name])/float64(updates), unit)
			}
			b.ReportMetric((after["LayoutCount"]-before["LayoutCount"])/float64(updates), "layouts/op")
		})
	}
}

// broken are words that a line breaks within, of those that are no longer than a line of a phone.
const broken = `(() => {
  const out = new Set(), walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let n; (n = walk.nextNode()); ) {
    const el = n.parentElement;
    if (!el.checkVisibility({ visibilityProperty: true }) || el.closest(".unseen, noscript, code")) continue;
    for (const word of n.data.matchAll(/[\p{L}\p{N}_]{1,18}/gu)) {
      const range = document.createRange();
      range.setStart(n, word.index);
      range.setEnd(n, word.index + word[0].length);
      if (new Set([...range.getClientRects()].filter((r) => r.width > 0).map((r) => Math.round(r.top))).size > 1) out.add(word[0] + " in " + (el.className || el.localName));
    }
  }
  return [...out].join(", ");
})()`

// unclipped reports whether how new the page is has all of its room: the smallest part of a pixel less cuts letters off.
const unclipped = `(([text]) => {
  const range = document.createRange();
  range.selectNodeContents(text);
  return range.getBoundingClientRect().width <= text.getBoundingClientRect().width + .01;
})([...document.querySelectorAll("#state > span")].filter((e) => e.checkVisibility()))`

// However long the name of the machine is, no line breaks within a word, and the header is one line.
func TestWordsStayWhole(t *testing.T) {
	t.Parallel()
	for _, page := range []string{"", "alerts", "processes", "alerts?tab=rules", "gpu/GPU-00000000-0000-4000-8000-000000000000"} {
		t.Run("page "+page, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.opt.Node = "ip-10-0-12-34.eu-west-1.compute.internal"
			s.begin()
			snap := s.example("eight")
			snap.Node = s.opt.Node
			for i := range snap.Devices {
				snap.Devices[i].Node = s.opt.Node
				snap.Devices[i].Clocks.SM = gpu.Of[gpu.Megahertz](2100)
				snap.Devices[i].NVLink.Links = []gpu.Link{{Active: gpu.Of(true), Version: gpu.Of("4.0"), Speed: gpu.Of[gpu.BytesPerSecond](26.6e9), Peer: gpu.Of("switch"), PeerPCI: gpu.Of("0000:05:00.0"), CRCFlit: gpu.Of[uint64](0)}}
			}
			s.publish(snap)
			tab := s.open(t, page, 1440, 900)
			for _, width := range []int64{320, 360, 390, 620, 768, 1024, 1280, 1440, 1920, 2560} {
				tab.Resize(width, 900)
				if got := browser.Ask[string](tab, broken); got != "" {
					t.Errorf("at %d it breaks %s", width, got)
				}
				if got := browser.Ask[bool](tab, unclipped); !got {
					t.Errorf("at %d there is no room for how new the page is", width)
				}
				if got := browser.Ask[string](tab, `[...document.querySelectorAll(".top .brand, .top .nav > a, .top .host")].filter((e) => e.checkVisibility() && e.getBoundingClientRect().height > 60).map((e) => e.textContent).join(", ")`); got != "" {
					t.Errorf("at %d the header has more than one line: %s", width, got)
				}
			}
			if got := browser.Ask[string](tab, `document.querySelector(".host b").title`); got != s.opt.Node {
				t.Errorf("the whole name is %q", got)
			}
			quiet(tab)
		})
	}
}

// However slowly the page comes, what is there does not move.
func TestLoadingMovesNothing(t *testing.T) {
	t.Parallel()
	for name, size := range map[string][2]int{"a desk": {1440, 900}, "a wide screen": {1920, 1080}, "a tablet": {768, 1024}, "a phone": {390, 844}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.publish(s.example("eight"))
			drawn := make(chan struct{})
			var slow http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch strings.TrimPrefix(r.URL.Path, base) {
				case "drawn":
					select {
					case drawn <- struct{}{}:
					case <-r.Context().Done():
					}
					return
				case "":
				default:
					(*s.handler.Load()).ServeHTTP(w, r)
					return
				}
				whole := httptest.NewRecorder()
				r.Header.Del("Accept-Encoding")
				(*s.handler.Load()).ServeHTTP(whole, r)
				w.Header().Set("Content-Type", whole.Header().Get("Content-Type"))
				for part := range slices.Chunk(whole.Body.Bytes(), 3<<10) {
					_, _ = w.Write(part) // the page may be closed
					w.(http.Flusher).Flush()
					select {
					case <-drawn:
					case <-r.Context().Done():
						return
					}
				}
			})
			s.proxy.Store(&slow)
			tab := browser.Open(t, size[0], size[1])
			tab.StopClock()
			tab.Before(`window.moved = []; new PerformanceObserver((list) => {
			  for (const e of list.getEntries()) moved.push([e.value, e.sources.map(({ node }) => node?.id || node?.className || node?.nodeName)]);
			}).observe({ type: "layout-shift", buffered: true });
			(async () => {
			  while (document.readyState !== "complete") {
			    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
			    await fetch("` + base + `drawn");
			  }
			})();`)
			tab.Visit(s.URL)
			untilState(tab, "live")
			tab.Settle()
			if got := browser.Ask[float64](tab, `moved.reduce((all, [value]) => all + value, 0)`); got > .02 {
				t.Errorf("it moves by %.3f: %s", got, browser.Ask[string](tab, `JSON.stringify(moved)`))
			}
		})
	}
}

// On a wall nobody scrolls: the answer, the picture and all cards are seen at once.
func TestAWallShowsAllCards(t *testing.T) {
	t.Parallel()
	_, tab := shown(t, "eight", "?kiosk=1")
	for _, size := range [][2]int64{{1280, 720}, {1366, 768}, {1920, 1080}, {3840, 2160}, {1080, 1920}} {
		tab.Resize(size[0], size[1])
		tab.Settle()
		if got := browser.Ask[string](tab, `[...document.querySelectorAll(".cards > .card")].map((e) => e.getBoundingClientRect().bottom <= innerHeight).join(" ") + " " + (document.documentElement.scrollWidth <= innerWidth)`); got != strings.Repeat("true ", 9)[:44] {
			t.Errorf("at %d by %d: %s", size[0], size[1], got)
		}
	}
	quiet(tab)
}
