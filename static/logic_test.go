package static_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/browsertest"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/recent"
)

// running is a process with so much memory.
func running(pid int, held gpu.Bytes) gpu.Process {
	return gpu.Process{PID: pid, Memory: gpu.Of(held), Type: gpu.TypeCompute, Facts: gpu.ProcessFacts{Name: gpu.Of("python")}}
}

// Who stands on a row of a table that is sorted by what changes stays there.
func TestUpdatesLeaveTheFocus(t *testing.T) {
	now := time.Now()
	machine := func(second int, list ...gpu.Process) *gpu.Snapshot {
		s := exampleNamed(t, "one", now.Add(time.Duration(second)*time.Second)).Snapshot
		s.Devices[0].Processes = gpu.Of(list)
		return s
	}
	site := newSite(t, machine(0, running(1, 5<<30), running(2, 4<<30), running(3, 3<<30), running(4, 2<<30)), "why")
	tab := browsertest.Open(t, 1440, 900)
	tab.Visit(site.URL + base + "?sort=-memory")
	site.await(t)
	shows := func(want string) {
		t.Helper()
		tab.Until(fmt.Sprintf(`[...document.querySelectorAll("#processes [data-f=pid]")].map((e) => e.textContent).join(" ") === %q`, want))
		if got := browsertest.Ask[string](tab, `document.activeElement.closest("tr")?.querySelector("[data-f=pid]").textContent ?? document.activeElement.tagName`); got != "3" {
			t.Errorf("with the rows %s the focus is on %q", want, got)
		}
	}
	tab.Until(`document.querySelectorAll("#processes > tr").length === 4`)
	tab.Do(chromedp.Focus("#processes > tr:nth-child(3) .plain"))
	shows("1 2 3 4")
	site.publish(t, machine(1, running(1, 1<<30), running(2, 4<<30), running(3, 9<<30), running(4, 2<<30)), "it rises")
	shows("3 2 4 1")
	site.publish(t, machine(2, running(1, 4<<30), running(2, 3<<30), running(3, 1<<30), running(4, 2<<30)), "it falls")
	shows("1 2 4 3")
	site.publish(t, machine(3, running(5, 8<<30), running(2, 3<<30), running(3, 1<<30)), "others end and begin")
	shows("5 2 3")
	tab.Quiet()
}

// savedCSV is what the page's readings are when they are saved.
func savedCSV(t *testing.T, tab *browsertest.Tab) string {
	t.Helper()
	return browsertest.Ask[string](tab, `(() => {
	  const make = URL.createObjectURL;
	  let saved;
	  URL.createObjectURL = (blob) => { saved = blob; return make.call(URL, blob); };
	  document.getElementById("save-csv").click();
	  URL.createObjectURL = make;
	  return saved.text();
	})()`)
}

// drawnTexts has drawn(selector): the texts that were drawn in the canvas of an
// element since it was last cleared.
const drawnTexts = `
	const texts = new WeakMap();
	const { fillText, clearRect } = CanvasRenderingContext2D.prototype;
	CanvasRenderingContext2D.prototype.clearRect = function (...at) { texts.delete(this.canvas); clearRect.apply(this, at); };
	CanvasRenderingContext2D.prototype.fillText = function (text, ...at) { texts.set(this.canvas, [...(texts.get(this.canvas) ?? []), text]); fillText.call(this, text, ...at); };
	window.drawn = (selector) => texts.get(document.querySelector(selector + " canvas")) ?? [];`

// What the page saw before its server was started anew stays in its charts.
func TestChartsOutliveTheServer(t *testing.T) {
	now := time.Now()
	e := exampleNamed(t, "eight", now)
	site := newSite(t, e.Snapshot, e.Why)
	pastOf(site.past, e.Snapshot)
	tab := browsertest.Open(t, 1440, 900)
	visit(t, tab, site)
	tab.Until(pastIsThere)
	readings := func() int { return strings.Count(savedCSV(t, tab), "\n") - 1 }
	before := readings()

	again := exampleNamed(t, "eight", now.Add(3*time.Second)).Snapshot
	site.mu.Lock()
	site.past = recent.New()
	site.past.Add(again)
	site.snapshot = again
	site.mu.Unlock()
	loads := fmt.Sprintf(`performance.getEntriesByType("resource").filter((e) => e.name.includes(%q) && e.responseEnd > 0).length`, "api/gpu/recent")
	had := browsertest.Ask[int](tab, loads)
	site.cut()
	site.await(t)
	tab.Until(fmt.Sprintf(`%s > %d`, loads, had))
	site.publish(t, exampleNamed(t, "eight", now.Add(6*time.Second)).Snapshot, "after it")
	untilWhy(t, tab, "after it")
	if got := readings(); before < 290 || got < before-5 {
		t.Errorf("%d readings before the server was started anew, %d after", before, got)
	}
	tab.Quiet("WebSocket connection to")
}

// The limits are there with the first picture, before anything is read anew.
func TestLimitsAreThereAtOnce(t *testing.T) {
	e := exampleNamed(t, "one", time.Now())
	site := newSite(t, e.Snapshot, e.Why)
	pastOf(site.past, e.Snapshot)
	site.past.Add(e.Snapshot)
	tab := browsertest.Open(t, 1440, 900)
	tab.Before(drawnTexts)
	visit(t, tab, site)
	tab.Until(`drawn(".chart[data-metric=power_watts]").includes("limit")`)
	tab.Until(pastIsThere)
	if got := strings.Count(savedCSV(t, tab), "\n"); got < 290 {
		t.Errorf("%d readings", got)
	}
	tab.Quiet()
}

// While the page asks by itself, it tries for a socket without a word, and
// who wants a reading now has it now.
func TestPollingIsQuiet(t *testing.T) {
	e := exampleNamed(t, "one", time.Now())
	site := newSite(t, e.Snapshot, e.Why)
	site.interval = time.Hour // it does not ask again by itself
	site.setRefuse(true)
	tried := make(chan struct{}, 100)
	handler := site.Config.Handler
	site.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(w, r)
		if strings.HasSuffix(r.URL.Path, "/ws") {
			tried <- struct{}{}
		}
	})
	tab := browsertest.Open(t, 1440, 900)
	tab.Before(quickRetry)
	tab.Visit(site.URL + base)
	tab.Until(`document.getElementById("connection").dataset.state === "polling"`)
	tab.Do(chromedp.Evaluate[chromedp.Void](`void (window.said = [], new MutationObserver(() => said.push(document.getElementById("connection").textContent)).observe(document.getElementById("connection"), { childList: true, characterData: true, subtree: true }))`))
	for len(tried) > 0 {
		<-tried
	}
	for n := range 5 {
		why := fmt.Sprintf("asked for %d", n)
		site.mu.Lock()
		site.snapshot, site.why = exampleNamed(t, "one", time.Now()).Snapshot, why
		site.mu.Unlock()
		tab.Do(chromedp.Click("#ask"))
		untilWhy(t, tab, why)
		select {
		case <-tried:
		case <-time.After(20 * time.Second):
			t.Fatal("it does not try for a socket")
		}
	}
	if said := browsertest.Ask[string](tab, `said.join("; ")`); said != "" {
		t.Errorf("it announces %s", said)
	}
	tab.Quiet("WebSocket connection to")
}

// A tab whose server is gone says so in its title and icon, seen or not.
func TestTitleSaysThatItIsStale(t *testing.T) {
	for _, hidden := range []bool{false, true} {
		t.Run(fmt.Sprintf("hidden %v", hidden), func(t *testing.T) {
			now := time.Now()
			e := exampleNamed(t, "one", now)
			site := newSite(t, e.Snapshot, e.Why)
			site.interval = 200 * time.Millisecond
			tab := browsertest.Open(t, 1440, 900)
			visit(t, tab, site)
			tab.Do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`void (Object.defineProperty(document, "hidden", { value: %v, configurable: true }), document.dispatchEvent(new Event("visibilitychange")))`, hidden)))
			site.setRefuse(true)
			site.cut()
			tab.Until(`document.title === "× no reading · gpuwhy" && decodeURIComponent(document.querySelector("link[rel=icon]").href).includes("#8a9499")`)
			site.setRefuse(false)
			site.await(t)
			site.publish(t, exampleNamed(t, "one", time.Now().Add(time.Minute)).Snapshot, "back")
			tab.Until(`document.title === "97\u00a0% · 71\u00a0°C · gpuwhy" && !decodeURIComponent(document.querySelector("link[rel=icon]").href).includes("#8a9499")`)
			tab.Quiet("WebSocket connection to", "Failed to load resource")
		})
	}
}

// A link to a process that has ended opens, and says so.
func TestLinkToAnEndedProcess(t *testing.T) {
	now := time.Now()
	e := exampleNamed(t, "one", now)
	site := newSite(t, e.Snapshot, e.Why)
	tab := browsertest.Open(t, 1440, 900)
	d := &e.Snapshot.Devices[0]
	tab.Visit(site.URL + base + "?process=" + d.Node + "/" + d.UUID + "/999")
	site.await(t)
	for n := range 2 { // and goes on to
		tab.Until(`document.getElementById("process").open && document.getElementById("process").innerText.replace(/\s+/g, " ").trim() === "Process 999 × It is no longer on this GPU. Nothing else is known of it."`)
		why := fmt.Sprintf("again %d", n)
		site.publish(t, exampleNamed(t, "one", now.Add(time.Duration(n+1)*time.Second)).Snapshot, why)
		untilWhy(t, tab, why)
	}
	tab.Do(chromedp.KeyEvent("\u001b"))
	tab.Until(`!document.getElementById("process").open && location.search === ""`)
	tab.Do(chromedp.Focus("#processes .plain"), chromedp.KeyEvent("\r"))
	tab.Until(`document.getElementById("process").open && document.getElementById("process").innerText.includes("48213")`)
	tab.Quiet()
}

// Each card has its course beside its utilization, as long as there are few.
func TestCardsHaveTrends(t *testing.T) {
	for name, want := range map[string]bool{"eight": true, "many": false} {
		e := exampleNamed(t, name, time.Now())
		site := newSite(t, e.Snapshot, e.Why)
		pastOf(site.past, e.Snapshot)
		tab := browsertest.Open(t, 1440, 900)
		visit(t, tab, site)
		tab.Until(`/1[45]/.test(document.getElementById("charts-title").textContent)`) // the past is there
		const drawn = `(document.querySelector("#cards .trend path").getAttribute("d")?.split("L").length ?? 0)`
		if want {
			tab.Until(drawn + " > 30")
		} else { // a reading later it would be there
			site.publish(t, exampleNamed(t, name, time.Now()).Snapshot, "later")
			untilWhy(t, tab, "later")
			if got := browsertest.Ask[int](tab, drawn); got > 30 {
				t.Errorf("%s: a line of %d points", name, got)
			}
		}
		tab.Quiet()
	}
}

// A finger has no pointer that hovers: the first touch of a cell says what it is,
// the second opens it.
func TestWallByTouch(t *testing.T) {
	e := exampleNamed(t, "fleet", time.Now())
	site := newSite(t, e.Snapshot, e.Why)
	tab := browsertest.Open(t, 390, 844)
	browsertest.Call(tab, emulation.SetTouchEmulationEnabled, emulation.SetTouchEmulationEnabledParams{Enabled: true})
	visit(t, tab, site)
	tab.Until(`document.getElementById("wall-canvas").height > 200`)
	tab.Do(chromedp.Evaluate[chromedp.Void](`void document.getElementById("wall-canvas").scrollIntoView()`))
	tap := func(x, y float64) {
		t.Helper()
		box := browsertest.Ask[[2]float64](tab, `(({ left, top }) => [left, top])(document.getElementById("wall-canvas").getBoundingClientRect())`)
		for _, touch := range []input.DispatchTouchEventParams{
			{Type: input.DispatchTouchEventTypeTouchStart, TouchPoints: []*input.TouchPoint{{X: box[0] + x, Y: box[1] + y}}},
			{Type: input.DispatchTouchEventTypeTouchEnd, TouchPoints: []*input.TouchPoint{}},
		} {
			browsertest.Call(tab, input.DispatchTouchEvent, touch)
		}
	}
	const readout = `document.getElementById("wall-readout").textContent`
	tap(60, 8)
	tab.Until(readout + `.startsWith("GPU 0 ")`)
	tap(120, 8)
	tab.Until(readout + `.startsWith("GPU ") && !` + readout + `.startsWith("GPU 0 ")`)
	if at := browsertest.Ask[string](tab, `location.pathname`); at != base {
		t.Errorf("the first touch of a cell has opened %s", at)
	}
	tap(120, 8)
	tab.Until(`location.pathname.includes("/gpu/")`)
	tab.Quiet()
}

// The numbers on the wall can be read on every shade, in every look.
func TestWallCanBeRead(t *testing.T) {
	for _, look := range []emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "light"}, {Name: "prefers-color-scheme", Value: "dark"}, {Name: "forced-colors", Value: "active"}} {
		t.Run(look.Name+" "+look.Value, func(t *testing.T) {
			e := exampleNamed(t, "fleet", time.Now())
			for i := range 101 { // every shade
				e.Snapshot.Devices[i].Utilization.GPU = gpu.Of(gpu.Percent(i))
			}
			site := newSite(t, e.Snapshot, e.Why)
			tab := browsertest.Open(t, 1440, 900)
			browsertest.Call(tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{&look}})
			tab.Before(`
				window.texts = new Map();
				const fillText = CanvasRenderingContext2D.prototype.fillText;
				CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
				  if (this.canvas.id === "wall-canvas" && x > 40 && text !== "×") { // the numbers of rows are on the page itself
				    const [r, g, b] = this.getImageData(Math.round(x), Math.round(y - 8), 1, 1).data;
				    const before = this.fillStyle;
				    this.fillRect(Math.round(x), Math.round(y - 8), 1, 1); // the ink as it comes out
				    const ink = [...this.getImageData(Math.round(x), Math.round(y - 8), 1, 1).data].slice(0, 3);
				    this.fillStyle = ` + "`rgb(${r} ${g} ${b})`" + `;
				    this.fillRect(Math.round(x), Math.round(y - 8), 1, 1);
				    this.fillStyle = before;
				    const light = (rgb) => rgb.reduce((sum, v, n) => sum + [0.2126, 0.7152, 0.0722][n] * (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4), 0);
				    const [a, c] = [light([r, g, b]), light(ink)];
				    texts.set(text, (Math.max(a, c) + 0.05) / (Math.min(a, c) + 0.05));
				  }
				  fillText.call(this, text, x, y);
				};`)
			visit(t, tab, site)
			tab.Until(`texts.size > 100`)
			if worst := browsertest.Ask[string](tab, `[...texts].filter(([, contrast]) => contrast < 4.5).map(([text, contrast]) => text + ": " + contrast.toFixed(1)).join(", ")`); worst != "" {
				t.Errorf("hard to read: %s", worst)
			}
			tab.Quiet("willReadFrequently")
		})
	}
}

// A chosen GPU that reports nothing leaves the charts, and the way back, where
// they are.
func TestALineWithoutReadingsLeavesTheCharts(t *testing.T) {
	e := exampleNamed(t, "eight", time.Now())
	site := newSite(t, e.Snapshot, e.Why)
	pastOf(site.past, e.Snapshot)
	tab := browsertest.Open(t, 1440, 900)
	visit(t, tab, site)
	tab.Until(`document.querySelectorAll("#charts .uplot").length > 4`)
	const shown = `[...document.querySelectorAll("#charts .chart")].filter((c) => c.checkVisibility()).length`
	before := browsertest.Ask[int](tab, shown)
	tab.Do(chromedp.Click("#series > li:nth-child(6) button")) // of one that does not answer
	tab.Until(`document.querySelector("[data-metric=power_watts] [data-f=readout]").textContent === "no reading"`)
	if got := browsertest.Ask[int](tab, shown); got != before {
		t.Errorf("%d charts, %d before", got, before)
	}
	tab.Do(chromedp.Click("#series > li:nth-child(6) button"), chromedp.Click("[data-metric=utilization_percent] button"))
	tab.Until(`document.getElementById("large").open`)
	tab.Do(chromedp.Click("#large-series > li:nth-child(4) button")) // whose utilization is not offered
	tab.Until(`document.querySelector("#large-series > li:nth-child(4) button").getAttribute("aria-pressed") === "true"`)
	if !browsertest.Ask[bool](tab, `document.getElementById("large").open`) {
		t.Error("the large chart has closed")
	}
	tab.Quiet()
}

// A page that is paused stands still, whatever has its charts drawn anew; when it
// goes on, it has what came meanwhile.
func TestAPausedPageStandsStill(t *testing.T) {
	now := time.Now()
	machine := func(second int, draw gpu.Watts) *gpu.Snapshot {
		s := exampleNamed(t, "one", now.Add(time.Duration(second)*time.Second)).Snapshot
		s.Devices[0].Power.Draw, s.Devices[0].Thermal.GPU = gpu.Of(draw), gpu.Of(gpu.Celsius(50+second))
		return s
	}
	site := newSite(t, machine(0, 100), "why")
	site.past.Add(machine(-3, 99))
	site.past.Add(machine(0, 100))
	tab := browsertest.Open(t, 1440, 900)
	visit(t, tab, site)
	const readout = `document.querySelector("[data-metric=power_watts] [data-f=readout]").textContent`
	tab.Until(readout + ` === "100\u00a0W"`)
	tab.Do(chromedp.Click("#pause"))
	site.publish(t, machine(3, 333), "later")
	site.past.Add(machine(3, 333))
	tab.Until(`document.title.includes("53")`) // it has come
	tab.Do(chromedp.EmulateViewport(1000, 700), chromedp.Click("[data-metric=power_watts] button"))
	tab.Until(`document.getElementById("large").open && document.querySelector("#large .uplot") !== null`)
	if got := browsertest.Ask[string](tab, readout+` + ", " + document.getElementById("large-stats").textContent`); strings.Contains(got, "333") {
		t.Errorf("the charts of a paused page say %s", got)
	}
	if saved := savedCSV(t, tab); strings.Contains(saved, "333") {
		t.Errorf("it saves %s", saved)
	}
	tab.Do(chromedp.Click("#large-close"), chromedp.Click("#pause"))
	tab.Until(readout + ` === "333\u00a0W"`)
	tab.Quiet()
}

// A drag that is let go beyond the edge is one up to it; a chart that is large
// fits the screen however that is turned.
func TestLargeChartUnderAHand(t *testing.T) {
	e := exampleNamed(t, "eight", time.Now())
	site := newSite(t, e.Snapshot, e.Why)
	pastOf(site.past, e.Snapshot)
	tab := browsertest.Open(t, 1440, 900)
	tab.Visit(site.URL + base + "?chart=power_watts")
	site.await(t)
	tab.Until(`document.querySelector("#large[open] .u-over") !== null && document.getElementById("charts-title").textContent.includes("15")`)
	over := browsertest.Ask[[4]float64](tab, `(({ left, top, width, height }) => [left, top, width, height])(document.querySelector("#large .u-over").getBoundingClientRect())`)
	at := func(kind input.DispatchMouseEventType, x float64, buttons int64) {
		t.Helper()
		event := input.DispatchMouseEventParams{Type: kind, X: x, Y: over[1] + over[3]/2, Button: "left", Buttons: buttons, ClickCount: 1}
		browsertest.Call(tab, input.DispatchMouseEvent, event)
	}
	const beyond = 8 // pixels
	at("mousePressed", over[0]+0.6*over[2], 1)
	at("mouseMoved", over[0]+0.8*over[2], 1)
	at("mouseMoved", over[0]+over[2]+beyond, 1)
	at("mouseReleased", over[0]+over[2]+beyond, 0)
	tab.Until(`!document.getElementById("large-all").hidden`)
	if got := browsertest.Ask[float64](tab, `document.querySelector("#large .u-select").getBoundingClientRect().width`); got != 0 {
		t.Errorf("%v pixels stay selected", got)
	}
	tab.Do(chromedp.EmulateViewport(844, 390))
	tab.Until(`document.querySelector("#large .u-over").getBoundingClientRect().height < 200`)
	tab.Quiet()
}

// An alert is said when it comes and when it is over, and not each time that its
// minutes change.
func TestAlertsAreSaidOnce(t *testing.T) {
	now := time.Now()
	e := exampleNamed(t, "one", now)
	site := newSite(t, e.Snapshot, e.Why)
	tab := browsertest.Open(t, 1440, 900)
	visit(t, tab, site)
	site.publish(t, exampleNamed(t, "one", now.Add(time.Second)).Snapshot, "later")
	untilWhy(t, tab, "later")
	tab.Do(chromedp.Evaluate[chromedp.Void](`void (window.said = [], new MutationObserver(() => said.push(document.getElementById("said").textContent)).observe(document.getElementById("said"), { childList: true, characterData: true, subtree: true }))`))
	a := contract.Alert{ID: "a", Rule: "hot", Severity: "warning", State: "firing", Node: "n", Since: now.UTC().Format(time.RFC3339), Timestamp: now.UTC().Format(time.RFC3339), Message: "GPU 0 is hot, 1 min."}
	site.send(t, "alert", a)
	a.Message = "GPU 0 is hot, 2 min."
	site.send(t, "alert", a)
	a.State, a.Message = "resolved", "GPU 0 was hot. The alert is over."
	site.send(t, "alert", a)
	tab.Until(`said.at(-1) === "Over · GPU\u00a00 was hot. The alert is over."`)
	if got := browsertest.Ask[string](tab, `said.join("; ")`); strings.Contains(got, "2\u00a0min") || !strings.Contains(got, "1\u00a0min") {
		t.Errorf("it said %q", got)
	}
	if browsertest.Ask[bool](tab, `document.getElementById("alerts").ariaLive !== null`) {
		t.Error("and its list speaks too")
	}
	tab.Quiet()
}
