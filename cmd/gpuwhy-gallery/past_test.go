//go:build !race

package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/klauspost/compress/gzip"

	"github.com/gpuwhy/gpuwhy/internal/app"
	"github.com/gpuwhy/gpuwhy/internal/past/store/sqlite"
	"github.com/gpuwhy/gpuwhy/internal/testkit/browser"
)

// eightOfADay serves the past of eight GPUs.
func eightOfADay(tb testing.TB) http.Handler {
	tb.Helper()
	g := &gallery{opt: app.Options{Version: "gallery"}, log: slog.New(slog.DiscardHandler)}
	g.opt.BasePath, g.opt.Listen = "/", "127.0.0.1:8003"
	h, err := g.newPast("past-day", 8)
	if err != nil {
		tb.Fatal(err)
	}
	return h
}

func pastOf(tb testing.TB, h http.Handler, query string) *httptest.ResponseRecorder {
	tb.Helper()
	r := httptest.NewRequestWithContext(tb.Context(), http.MethodGet, "/state/past-day/past?tz=UTC"+query, nil)
	r.Host = "127.0.0.1:8003"
	r.Header.Set("Accept-Encoding", "gzip")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		tb.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return w
}

// A day of eight GPUs is a light page, and needs no style of its own elements.
func TestThePastIsLight(t *testing.T) {
	h := eightOfADay(t)
	for _, query := range []string{"", "&compare=yesterday", "&at=2026-03-29T08:20:00Z"} {
		w := pastOf(t, h, query)
		sent := w.Body.Len()
		zr, err := gzip.NewReader(w.Body)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(zr)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%q: %d bytes, %d compressed", query, len(text), sent)
		if sent > 60_000 || strings.Contains(string(text), " style=") || strings.Contains(string(text), "<b>probe") {
			t.Errorf("%q: %d bytes compressed", query, sent)
		}
	}
}

// aDayInAFile serves the past of eight GPUs from a file, and returns its address.
func aDayInAFile(b *testing.B) string {
	b.Helper()
	kept, err := sqlite.Open(b.Context(), sqlite.Options{File: filepath.Join(b.TempDir(), "history.db")})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := kept.Close(); err != nil {
			b.Error(err)
		}
	})
	if err := fillPast(kept, 8, time.Minute); err != nil {
		b.Fatal(err)
	}
	server := httptest.NewUnstartedServer(nil)
	b.Cleanup(server.Close)
	g := &gallery{opt: app.Options{Version: "gallery"}, log: slog.New(slog.DiscardHandler)}
	g.opt.BasePath, g.opt.Listen = "/", server.Listener.Addr().String()
	if server.Config.Handler, err = g.servePast("past-day", 8, kept); err != nil {
		b.Fatal(err)
	}
	server.Start()
	return server.URL + "/state/past-day/past?tz=UTC"
}

// BenchmarkThePast answers with the page of a day of eight GPUs, from a file.
func BenchmarkThePast(b *testing.B) {
	address := aDayInAFile(b)
	for b.Loop() {
		r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, address, http.NoBody)
		if err != nil {
			b.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			b.Fatal(err)
		}
		n, err := io.Copy(io.Discard, answer.Body)
		if err := errors.Join(err, answer.Body.Close()); err != nil || answer.StatusCode != http.StatusOK || n < 50_000 {
			b.Fatalf("%s, %d bytes; %v", answer.Status, n, err)
		}
	}
}

// BenchmarkThePastIsDrawn is how long a day of eight GPUs takes until it is drawn, at 1440 × 900: all of it, the server and the network
// included, and of it the time from the first byte to the picture; and the same where another span takes the place of one in the page.
func BenchmarkThePastIsDrawn(b *testing.B) {
	tab := browser.Open(b, 1440, 900)
	address := aDayInAFile(b)
	sums := map[string]float64{}
	n := 0.0
	for b.Loop() {
		tab.Visit(address)
		tab.Until(`document.readyState === "complete" && document.getElementById("past-picture") && performance.getEntriesByName("first-contentful-paint").length > 0`)
		browser.Call(tab, performance.Enable, performance.EnableParams{TimeDomain: performance.EnableTimeDomainThreadTicks})
		before := durations(tab)["TaskDuration"]
		for unit, took := range browser.Ask[map[string]float64](tab, `(async () => {
			const at = performance.getEntriesByType("navigation")[0], paint = performance.getEntriesByName("first-contentful-paint")[0].startTime;
			const began = performance.now();
			let placed = false;
			document.body.addEventListener("patched", () => { placed = true; }, { once: true });
			document.querySelector(".past-choice a[href*='from=24h']").click();
			while (!placed) await new Promise((r) => requestAnimationFrame(r));
			await new Promise((r) => requestAnimationFrame(() => setTimeout(r)));
			return { "ms-all/op": paint, "ms-browser/op": paint - at.responseStart, "ms-in-place/op": performance.now() - began };
		})()`) {
			sums[unit] += took
		}
		sums["ms-main/op"] += 1000 * (durations(tab)["TaskDuration"] - before)
		browser.Call(tab, performance.Disable, cdp.Empty{})
		n++
	}
	for unit, sum := range sums {
		b.ReportMetric(sum/n, unit)
	}
}

// durations are the browser's own sums for the page, in seconds, and counts.
func durations(tab *browser.Tab) map[string]float64 {
	sums := map[string]float64{}
	for _, m := range browser.Call(tab, performance.GetMetrics, cdp.Empty{}).Metrics {
		sums[m.Name] = m.Value
	}
	return sums
}

// From the page of now, the story of the last night is two clicks away.
func TestLastNightIsFound(t *testing.T) {
	b := openTab(t, 1440, 900)
	b.Visit(startGallery(t) + "state/past-one/")
	click := func(selector string) {
		browser.Ask[bool](b, fmt.Sprintf(`(document.querySelector(%q).click(), true)`, selector))
	}
	click(".nav a[href$='past']")
	b.Until(`document.body?.classList.contains("of-past") && document.readyState === "complete"`)
	click(".past-choice a[href*='last+night']")
	b.Until(`location.search.includes("last+night") && document.querySelector(".past-choice a[href*='last+night']").hasAttribute("aria-current") && document.querySelector(".why")?.textContent.includes("train_sdxl.py of jokafor ran")`)
}

const pointer = `((type, share, by) => {
  const picture = document.getElementById("past-picture"), box = picture.querySelector("[data-quantity] > svg").getBoundingClientRect();
  const at = { clientX: box.left + share * box.width, clientY: box.top + 5, bubbles: true, pointerId: 1, pointerType: by };
  picture.setPointerCapture = () => {};
  picture.dispatchEvent(new PointerEvent(type, at));
  return true;
})`

// A pastTab is a tab with the past of one GPU.
type pastTab struct {
	*browser.Tab
	t       *testing.T
	address string
}

func (p *pastTab) visit(query string) {
	p.t.Helper()
	p.Visit(p.address + query)
	p.Until(`document.readyState === "complete" && document.getElementById("past-picture") !== null && performance.getEntriesByType("resource").some((e) => e.name.endsWith("then.js"))`)
}

func (p *pastTab) point(kind string, share float64, by string) {
	browser.Ask[bool](p.Tab, fmt.Sprintf(`%s(%q, %v, %q)`, pointer, kind, share, by))
}

func (p *pastTab) keys(keys ...string) {
	actions := []chromedp.Action[chromedp.Void]{chromedp.Focus("#past-picture")}
	for _, k := range keys {
		mods := []chromedp.KeyOption{}
		if name, shifted := strings.CutPrefix(k, "shift "); shifted {
			k, mods = name, append(mods, chromedp.KeyModifiers(chromedp.ModifierShift))
		}
		actions = append(actions, chromedp.KeyEvent(k, mods...))
	}
	p.Do(actions...)
}

// until waits until the address says that, and the page about it is shown.
func (p *pastTab) until(asked map[string]string, also string) {
	p.t.Helper()
	wants := []string{`document.getElementById("past-picture") !== null`, also}
	for name, value := range asked {
		wants = append(wants, fmt.Sprintf(`(new URLSearchParams(location.search).get(%q) ?? "") === %q`, name, value))
	}
	p.Until(strings.Join(wants, " && "))
}

// All that somebody chooses in the picture is in the address afterwards, whatever it is chosen with.
func TestThePictureIsUsed(t *testing.T) {
	p := &pastTab{quietTab(t, 1440, 900), t, startGallery(t) + "state/past-one/past"}
	const power = `[...document.querySelectorAll("[data-reading=power] .v")].find((v) => v.checkVisibility()).innerText`
	const night = "?from=2026-03-28T20:00:00Z&to=2026-03-29T08:00:00Z&tz=UTC"

	p.visit(night)
	idle := browser.Ask[string](p.Tab, power)
	const atCursor = power + ` + " " + document.querySelector(".past-axis .pill + text")?.textContent`
	for share, want := range map[float64][2]string{0.125: {"W", ":30"}, 0.25: {"–", ":00"}} { // gpuwhy was away at 23:00
		p.point("pointermove", share, "mouse")
		if got := browser.Ask[string](p.Tab, atCursor); !strings.Contains(got, want[0]) || !strings.Contains(got, want[1]) {
			t.Errorf("at the cursor: %q, want %q", got, want)
		}
	}
	browser.Ask[bool](p.Tab, `(document.querySelector("h1").dispatchEvent(new PointerEvent("pointermove", { bubbles: true })), true)`)
	if got := browser.Ask[string](p.Tab, power); got != idle {
		t.Errorf("without a cursor: %q, want %q", got, idle)
	}
	for _, by := range []string{"mouse", "touch"} {
		p.visit(night)
		p.point("pointerdown", 0.25, by)
		p.point("pointermove", 0.4, by)
		p.point("pointerup", 0.5, by)
		p.until(map[string]string{"from": "2026-03-28T23:00:00Z", "to": "2026-03-29T02:00:00Z"}, `document.querySelector("h1").textContent.includes("23:00")`)
	}
	p.visit(night) // a finger that scrolls chooses nothing
	p.point("pointerdown", 0.25, "touch")
	p.point("pointercancel", 0.3, "touch")
	p.point("pointerup", 0.5, "touch")
	p.until(map[string]string{"from": "2026-03-28T20:00:00Z"}, `document.querySelector("#past-picture .span") === null`)

	p.visit("?from=6h&tz=UTC")
	p.keys(kb.Home, "shift "+kb.PageDown, "shift "+kb.PageDown, kb.Enter)
	p.until(map[string]string{"from": "2026-03-29T04:00:00Z", "to": "2026-03-29T05:12:00Z"}, `document.querySelector("h1").textContent.includes("05:12")`)
	p.keys(kb.Home, kb.PageDown)
	p.Until(`document.querySelector("#past-picture .cursor") !== null`)
	p.Do(chromedp.NavigateBack())
	p.until(map[string]string{"from": "6h", "to": ""}, `document.querySelector("h1").textContent.includes("04:00 to 10:00") && document.querySelector("#past-picture .cursor") === null`)

	// What was typed and not sent gives way to what is chosen, and the page is not loaded anew for that.
	p.Do(chromedp.SendKeys(".past-form [name=from]", "soon"))
	browser.Ask[bool](p.Tab, `(window.stays = true, document.querySelector(".past-choice a[href*='from=15m']").click(), true)`)
	p.until(map[string]string{"from": "15m"}, `window.stays && document.querySelector(".past-form [name=from]").value === "15m"`)
}

// A real mouse presses whatever is drawn under it, the cursor too, and leaves nothing behind when it goes away.
func TestAMouseChoosesInThePicture(t *testing.T) {
	p := &pastTab{quietTab(t, 1440, 900), t, startGallery(t) + "state/past-one/past"}
	mouse := func(kind input.DispatchMouseEventType, share float64) {
		t.Helper()
		at := browser.Ask[[2]float64](p.Tab, fmt.Sprintf(`(({ left, width, top, height }) => [left + %v * width, top + height / 2])(document.querySelector("[data-quantity=power] > svg").getBoundingClientRect())`, share))
		e := input.DispatchMouseEventParams{Type: kind, X: at[0], Y: at[1]}
		if kind != input.DispatchMouseEventTypeMouseMoved {
			e.Button, e.ClickCount = input.MouseButtonLeft, 1
		}
		browser.Call(p.Tab, input.DispatchMouseEvent, e)
	}
	const moved, pressed, released = input.DispatchMouseEventTypeMouseMoved, input.DispatchMouseEventTypeMousePressed, input.DispatchMouseEventTypeMouseReleased
	p.visit("?from=6h&tz=UTC")
	mouse(moved, 0.25)
	mouse(pressed, 0.25)
	mouse(moved, 0.3)
	p.Until(`document.querySelector("#past-picture .span") !== null`)
	mouse(moved, 0.75)
	mouse(released, 0.75)
	p.until(nil, `/from=2026-03-29T05.*to=2026-03-29T08/.test(location.search) && document.querySelector("h1").textContent.includes("05:")`)
	mouse(moved, 0.5)
	p.Until(`document.querySelector("#past-picture .cursor") !== null`)
	mouse(moved, -0.5) // beside the picture
	p.Until(`document.querySelector("#past-picture .cursor") === null`)
	mouse(moved, 0.5)
	mouse(pressed, 0.5)
	mouse(released, 0.5)
	p.until(nil, `/at=2026-03-29T0[67]/.test(location.search) && document.activeElement?.id === "past-then"`)
}

// Who chooses again before the page is there goes back to what was shown, not to what never was.
func TestBackLeadsToWhatWasShown(t *testing.T) {
	p := &pastTab{quietTab(t, 1440, 900), t, startGallery(t) + "state/past-one/past"}
	p.visit("?from=6h&tz=UTC")
	browser.Ask[bool](p.Tab, `(["15m", "24h"].forEach((from) => document.querySelector(".past-choice a[href*='from=" + from + "']").click()), true)`)
	p.until(map[string]string{"from": "24h"}, `document.querySelector("h1").textContent.includes("Sat 28 Mar 10:00")`)
	p.Do(chromedp.NavigateBack())
	p.until(map[string]string{"from": "6h"}, `document.querySelector("h1").textContent.includes("04:00 to 10:00")`)
}

// A page of the past that was changed in its place is the one that is loaded, whatever was chosen.
func TestAChosenPastIsTheLoadedOne(t *testing.T) {
	p := &pastTab{quietTab(t, 1440, 900), t, startGallery(t) + "state/past-day/past"}
	p.visit("?from=6h&tz=UTC")
	for _, link := range []string{
		".past-choice a[href*='from=24h']", ".past-choice a[href*='gpu=GPU-00000000-0000-4000-8000-000000000006']", ".past-compare a[href*=yesterday]",
		"#past-happened li:last-child a", "#past-back", "#past-close", ".past-choice a[href*='from=1h']",
	} {
		if diff := browser.Ask[string](p.Tab, fmt.Sprintf(`(async () => {
			const changed = new Promise((done) => document.body.addEventListener("patched", done, { once: true }));
			document.querySelector(%q).click();
			await changed;
			const fresh = new DOMParser().parseFromString(await (await fetch(location.href, { headers: { Accept: "text/html" } })).text(), "text/html");
			const own = new Set(["open", "data-told"]);
			const written = (node) => !(node instanceof Element || node.nodeType === 1) ? [node.nodeValue]
				: [node.localName, ...[...node.attributes].filter((a) => !own.has(a.name)).map((a) => a.name + "=" + a.value).sort(),
					...(node.hasAttribute("data-own") || node.localName === "noscript" ? [] : [...node.childNodes].flatMap(written))];
			const [now, next] = [written(document.body), written(fresh.body)], i = now.findIndex((text, i) => text !== next[i]);
			return i < 0 && now.length === next.length && document.title === fresh.title ? "" : now[i] + " in place of " + next[i];
		})()`, link)); diff != "" {
			t.Errorf("after %s there is %s", link, diff)
		}
	}
}

// The machine is shown as it was: by a click or a key, step by step, replayed, and not any more after a way back.
func TestTheMachineIsShownAsItWas(t *testing.T) {
	p := &pastTab{quietTab(t, 1440, 900), t, startGallery(t) + "state/past-one/past"}
	shows := func(clock string) string {
		return fmt.Sprintf(`document.querySelector("#past-then time")?.textContent.includes(%q) && document.querySelector("#past-then .headline")?.textContent !== "" && document.querySelector("#past-then .figs") !== null`, clock)
	}
	p.visit("?from=6h&tz=UTC")
	p.point("pointerdown", 0.5, "mouse")
	p.point("pointerup", 0.5, "mouse")
	p.until(map[string]string{"at": "2026-03-29T07:00:00Z"}, shows("07:00:00"))

	// A click in the picture gives it the focus, and the keys are those of the machine all the same.
	browser.Ask[bool](p.Tab, `(document.getElementById("past-picture").focus(), true)`)
	p.point("pointerdown", 0.75, "mouse")
	p.point("pointerup", 0.75, "mouse")
	p.until(map[string]string{"at": "2026-03-29T08:30:00Z"}, shows("08:30:00"))
	p.Do(chromedp.KeyEvent(kb.ArrowRight))
	p.until(map[string]string{"at": "2026-03-29T08:31:00Z"}, shows("08:31:00"))
	p.Do(chromedp.KeyEvent(kb.Escape))
	p.until(map[string]string{"at": ""}, `document.getElementById("past-then") === null && document.activeElement?.id === "past-picture"`)
	p.point("pointerdown", 0.5, "mouse")
	p.point("pointerup", 0.5, "mouse")
	p.until(map[string]string{"at": "2026-03-29T07:00:00Z"}, shows("07:00:00"))
	browser.Ask[bool](p.Tab, `(document.getElementById("past-picture").focus(), true)`)
	p.Do(chromedp.KeyEvent(kb.Escape))
	p.until(map[string]string{"at": ""}, `document.getElementById("past-then") === null`)
	p.point("pointerdown", 0.5, "mouse")
	p.point("pointerup", 0.5, "mouse")
	p.until(map[string]string{"at": "2026-03-29T07:00:00Z"}, shows("07:00:00"))

	p.Do(chromedp.Click("#past-on"))
	p.until(map[string]string{"at": "2026-03-29T07:01:00Z"}, shows("07:01:00"))
	p.Do(chromedp.KeyEvent(kb.ArrowLeft), chromedp.KeyEvent(kb.ArrowLeft))
	p.until(map[string]string{"at": "2026-03-29T06:59:00Z"}, shows("06:59:00"))
	p.Do(chromedp.KeyEvent(kb.Escape))
	p.until(map[string]string{"at": ""}, `document.getElementById("past-then") === null`)
	p.keys(kb.End, kb.ArrowLeft, kb.Enter)
	p.until(map[string]string{"at": "2026-03-29T09:59:00Z"}, shows("09:59:00"))
	p.Do(chromedp.NavigateBack())
	p.until(map[string]string{"at": ""}, `document.getElementById("past-then") === null`)

	// A replay goes on by itself, and says in the address where it is.
	p.visit("?from=6h&tz=UTC&at=2026-03-29T08:00:00Z")
	p.Do(chromedp.Click("#past-replay"))
	p.until(map[string]string{"play": "60"}, `((at) => at >= "2026-03-29T08:03:00Z" && document.querySelector("#past-then time")?.textContent.includes(at.slice(11, 19)) && `+
		`document.querySelector("#past-then .headline")?.textContent !== "" && document.querySelector("#past-then .figs") !== null)(new URLSearchParams(location.search).get("at") ?? "")`)
	if stop := browser.Ask[string](p.Tab, `document.getElementById("past-replay").textContent`); stop != "Stop" {
		t.Errorf("it can't be stopped: %q", stop)
	}
	browser.Ask[bool](p.Tab, `(document.getElementById("past-replay").click(), true)`) // which each step replaces
	p.until(map[string]string{"play": ""}, `document.getElementById("past-replay")?.textContent === "Replay at 60 ×"`)
	p.Do(chromedp.Focus(".past-compare a[href*=yesterday]"), chromedp.KeyEvent(kb.Enter))
	p.until(map[string]string{"compare": "yesterday"}, `document.activeElement.textContent === "the day before" && `+
		`document.querySelector("#past-picture .beside") !== null && document.getElementById("past-then") !== null`)
}

// Names of many GPUs and of nodes have lines enough on a phone.
func TestNamesOfManyGPUsWrap(t *testing.T) {
	b := quietTab(t, 390, 900)
	b.Visit(startGallery(t) + "state/past-one/past?tz=UTC")
	if wide := browser.Ask[int64](b, `(() => {
		document.querySelector(".outlooks h3").textContent = "GPUs\u00a00–7 of node-001.example.org, GPUs\u00a00 and 2–7 of node-002.example.org and GPUs\u00a00–7 of node-003.example.org";
		document.querySelector(".past-lane > h3").textContent = "node-001.example.org GPU\u00a00";
		const [title, name] = [document.querySelector(".outlooks h3"), document.querySelector(".past-lane > h3")];
		return Math.max(document.documentElement.scrollWidth - innerWidth, title.scrollWidth - title.clientWidth, name.scrollWidth - name.clientWidth);
	})()`); wide > 0 {
		t.Errorf("they are %d pixels wider than there is room", wide)
	}
}
