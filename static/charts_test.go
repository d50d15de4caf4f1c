package static_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/browsertest"
	"github.com/gpuwhy/gpuwhy/internal/contract"
)

// pastIsThere is when charts show the quarter of an hour that pastOf makes up.
const pastIsThere = `document.querySelectorAll(".uplot canvas").length > 4 && /^Last 1[45]/.test(document.getElementById("charts-title").textContent)`

// charted is a page with a quarter of an hour of the named machine in its
// charts, and what was served to it.
func charted(t *testing.T, tab *browsertest.Tab, name, query string) (*site, *gpu.Snapshot) {
	t.Helper()
	e := exampleNamed(t, name, time.Now())
	site := newSite(t, e.Snapshot, e.Why)
	pastOf(site.past, e.Snapshot)
	site.past.Add(e.Snapshot)
	tab.Visit(site.URL + base + query)
	site.await(t)
	tab.Until(pastIsThere)
	return site, e.Snapshot
}

// following is the machine a while later, with other watts.
func following(t *testing.T, s *gpu.Snapshot, later time.Duration, watts gpu.Watts) *gpu.Snapshot {
	t.Helper()
	next := *s
	next.Time = s.Time.Add(later)
	next.Devices = slices.Clone(s.Devices)
	for i := range next.Devices {
		next.Devices[i].Power.Draw = gpu.Of(watts)
	}
	return &next
}

const textOf = `((id) => document.getElementById(id).textContent)`

// Who moves the cursor with keys hears what it points at; nobody else does.
func TestChartCursorIsTold(t *testing.T) {
	tab := browsertest.Open(t, 1440, 900)
	site, s := charted(t, tab, "eight", "")
	said := func(id string) string { return browsertest.Ask[string](tab, textOf+`("`+id+`")`) }
	press := func(keys ...string) {
		t.Helper()
		for _, key := range keys {
			tab.Do(chromedp.KeyEvent(key))
		}
	}
	const power = `[data-metric=power_watts] `
	tab.Do(chromedp.Focus(power + ".plain"))
	press(kb.End)
	newest := `^highest 1890 W · GPU 3 · \d+:\d\d:\d\d`
	matches := func(id, want string) {
		t.Helper()
		tab.Until(fmt.Sprintf("/%s/.test(%s(%q).replaceAll('\\u00a0', ' '))", want, textOf, id))
	}
	matches("said", newest)
	// Another reading says nothing, and the cursor stays where it is.
	told := said("said")
	site.publish(t, following(t, s, time.Second, 33), "next")
	untilWhy(t, tab, "next")
	if got := said("said"); got != told {
		t.Errorf("a reading says %q", got)
	}
	if got := browsertest.Ask[string](tab, `document.querySelector("`+power+`[data-f=readout]").textContent`); got != told {
		t.Errorf("the cursor is at %q, was at %q", got, told)
	}
	press(kb.ArrowRight)
	matches("said", `^highest 33 W · GPU 0 · `)
	// The first there is; to the left of it there is nothing.
	press(kb.Home)
	first := said("said")
	press(kb.ArrowLeft)
	if got := said("said"); got != first || got == told {
		t.Errorf("left of %q is %q", first, got)
	}
	press(kb.ArrowRight)
	if got := said("said"); got == first {
		t.Error("the cursor does not move to the right")
	}
	press(kb.Escape)
	tab.Until(`document.getElementById("said").textContent === "" && document.querySelector("` + power + `[data-f=readout]").textContent === "highest 33\u00a0W · GPU 0"`)
	// The pointer says nothing.
	tab.Do(chromedp.ScrollIntoView(power + ".u-over"))
	over := boxOf(t, tab, power+".u-over")
	move(t, tab, over.X+over.Width/2, over.Y+20)
	move(t, tab, over.X+over.Width/3, over.Y+30)
	tab.Until(`/\d+:\d\d:\d\d/.test(document.querySelector("` + power + `[data-f=readout]").textContent)`)
	if got := said("said"); got != "" {
		t.Errorf("the pointer says %q", got)
	}
	move(t, tab, 1, 1)

	// In the large chart, from line to line as well.
	press(kb.Enter)
	tab.Until(`document.getElementById("large").open && document.querySelector("#large .uplot") !== null`)
	tab.Do(chromedp.Focus("#large .plot"))
	for _, id := range []string{"large-key", "chart-key"} {
		if got := browsertest.Ask[int](tab, `document.querySelectorAll("[aria-describedby=`+id+`]").length`); got == 0 {
			t.Errorf("nothing is described by %s", id)
		}
	}
	press(kb.ArrowLeft)
	matches("large-said", newest[:len(`^highest 1890 W · GPU 3`)]+` · lowest \d+ W · GPU \d · \d+:\d\d:\d\d`)
	press(kb.ArrowDown)
	matches("large-said", `^699 W · GPU 0 · \d+:\d\d:\d\d`)
	press(kb.ArrowDown)
	matches("large-said", `^\d+ W · GPU 1 · `)
	press(kb.ArrowUp, kb.ArrowUp)
	matches("large-said", `^highest 1890 W`)
	press(kb.ArrowUp)
	matches("large-said", `· GPU 7 · `)
	// The line stays while the cursor moves on.
	press(kb.ArrowLeft)
	matches("large-said", `· GPU 7 · `)
	// First the cursor goes, then the chart.
	press(kb.Escape)
	tab.Until(`document.getElementById("large").open && document.getElementById("large-said").textContent === "" && !/:\d\d/.test(document.getElementById("large-readout").textContent)`)
	press(kb.Escape)
	tab.Until(`!document.getElementById("large").open`)
	tab.Quiet()
}

type box struct{ X, Y, Width, Height float64 }

// boxOf is where an element is, in pixels of the window.
func boxOf(t *testing.T, tab *browsertest.Tab, selector string) box {
	t.Helper()
	return browsertest.Ask[box](tab, fmt.Sprintf(`(({ x, y, width, height }) => ({ X: x, Y: y, Width: width, Height: height }))(document.querySelector(%q).getBoundingClientRect())`, selector))
}

func mouse(t *testing.T, tab *browsertest.Tab, kind input.DispatchMouseEventType, x, y float64, buttons int64) {
	t.Helper()
	browsertest.Call(tab, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: kind, X: x, Y: y, Button: input.MouseButtonLeft, Buttons: buttons, ClickCount: 1})
}

func move(t *testing.T, tab *browsertest.Tab, x, y float64) {
	t.Helper()
	browsertest.Call(tab, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: "mouseMoved", X: x, Y: y})
}

// A chart for which there is no reading, now or in what is kept, takes no room:
// as it is served, and later. It comes with the first reading.
func TestChartsWithoutReadingsAreHidden(t *testing.T) {
	const hidden = `[...%s.querySelectorAll(".chart[hidden]")].map((f) => f.dataset.metric).join(" ")`
	served := `fetch(location.href).then((r) => r.text()).then((text) => ((d) => ` + fmt.Sprintf(hidden, "d") + `)(new DOMParser().parseFromString(text, "text/html")))`
	live := fmt.Sprintf(hidden, "document")
	tab := browsertest.Open(t, 1440, 900)
	agree := func(when, want string) {
		t.Helper()
		tab.Until(fmt.Sprintf("%s === %q", live, want))
		if got := browsertest.Ask[string](tab, served); got != want {
			t.Errorf("%s: %q are hidden as served, want %q", when, got, want)
		}
		if got := browsertest.Ask[string](tab, `[...document.querySelectorAll("#large-over option[value]:disabled")].filter((o) => o.hidden).map((o) => o.value).join(" ")`); got != want {
			t.Errorf("%s: %q can't be laid over, want %q", when, got, want)
		}
	}
	// A workstation has a fan; its readings do not have the bandwidth.
	site, _ := charted(t, tab, "one", "")
	agree("a workstation", "memory_bandwidth_percent")
	site.cut()

	site, s := charted(t, tab, "eight", "?chart=fan_percent")
	agree("a server", "fan_percent memory_bandwidth_percent")
	if browsertest.Ask[bool](tab, `document.getElementById("large").open`) {
		t.Error("a chart is large that has nothing to show")
	}
	if csv := savedCSV(t, tab); strings.Contains(csv, "fan_percent") || !strings.Contains(csv, "power_watts") {
		t.Errorf("it saves %.300s", csv)
	}
	tab.Do(chromedp.Evaluate[chromedp.Void](`void history.replaceState(null, "", location.pathname)`))
	next := following(t, s, time.Second, 100)
	next.Devices[3].Activity.MemoryBandwidth = gpu.Of[gpu.Percent](42)
	site.past.Add(next)
	site.publish(t, next, "it begins")
	agree("the first reading", "fan_percent")
	tab.Until(`document.querySelector("[data-metric=memory_bandwidth_percent] [data-f=readout]").textContent === "42\u00a0% · GPU 3" && document.querySelector("[data-metric=memory_bandwidth_percent] canvas").width > 100`)
	// What was read stays, as long as it is shown.
	later := following(t, s, 2*time.Second, 100)
	site.past.Add(later)
	site.publish(t, later, "it ends")
	untilWhy(t, tab, "it ends")
	agree("no reading any more", "fan_percent")
	// On a GPU's own page, of that GPU alone.
	tab.Visit(site.URL + base + "gpu/" + s.Devices[0].UUID)
	site.await(t)
	if got, want := browsertest.Ask[string](tab, served), "fan_percent memory_bandwidth_percent"; got != want {
		t.Errorf("on a page of its own: %q are hidden, want %q", got, want)
	}
	tab.Quiet("WebSocket connection to")
}

// Units are told with the name of a chart, and with its figures.
func TestChartsHaveUnits(t *testing.T) {
	tab := browsertest.Open(t, 1440, 900)
	charted(t, tab, "one", "")
	for metric, want := range map[string]string{
		"utilization_percent": "Utilization %", "temperature_celsius": "Temperature °C", "power_watts": "Power W", "sm_clock_mhz": "Clock MHz",
	} {
		got := browsertest.Ask[string](tab, fmt.Sprintf(`document.querySelector("[data-metric=%s] h3").innerText + "|" + document.querySelector("[data-metric=%[1]s] [data-f=stats]").innerText`, metric))
		name, stats, _ := strings.Cut(got, "|")
		_, unit, _ := strings.Cut(want, " ")
		if name != want || !strings.HasSuffix(stats, "\u00a0"+unit) {
			t.Errorf("%s: %q, %q", metric, name, stats)
		}
	}
	tab.Quiet()
}

// A span of the large chart: by dragging, with a finger too, by keys and by
// buttons. What is told, listed and saved is of that span, and what comes
// does not end it.
func TestZoom(t *testing.T) {
	tab := browsertest.Open(t, 1440, 900)
	site, s := charted(t, tab, "eight", "?chart=power_watts&line=0")
	tab.Until(`document.getElementById("large").open`)
	rows := func() []string {
		t.Helper()
		csv := browsertest.Ask[string](tab, `(() => {
		  const make = URL.createObjectURL;
		  let saved;
		  URL.createObjectURL = (blob) => { saved = blob; return make.call(URL, blob); };
		  document.getElementById("large-csv").click();
		  URL.createObjectURL = make;
		  return saved.text();
		})()`)
		return strings.Split(strings.TrimSpace(csv), "\r\n")[1:]
	}
	stats := func() string { return browsertest.Ask[string](tab, textOf+`("large-stats")`) }
	all := len(rows())
	whole := stats()
	span := func(rows []string) time.Duration {
		t.Helper()
		var at [2]time.Time
		for i, row := range []string{rows[0], rows[len(rows)-1]} {
			text, _, _ := strings.Cut(row, ",")
			var err error
			if at[i], err = time.Parse(time.RFC3339, text); err != nil {
				t.Fatal(err)
			}
		}
		return at[1].Sub(at[0])
	}

	// An early part, by the mouse.
	over := boxOf(t, tab, "#large .u-over")
	drag := func() {
		t.Helper()
		y := over.Y + 50
		mouse(t, tab, "mousePressed", over.X+0.2*over.Width, y, 1)
		move := func(part float64) { mouse(t, tab, "mouseMoved", over.X+part*over.Width, y, 1) }
		move(0.3)
		move(0.4)
		if got := boxOf(t, tab, "#large .u-select"); got.Width < 0.19*over.Width || got.Width > 0.21*over.Width {
			t.Errorf("%v of %v are marked while it is dragged", got.Width, over.Width)
		}
		mouse(t, tab, "mouseReleased", over.X+0.4*over.Width, y, 0)
		tab.Until(`!document.getElementById("large-all").hidden`)
	}
	drag()
	part := rows()
	if got := span(part); got < 160*time.Second || got > 200*time.Second {
		t.Errorf("a fifth of a quarter of an hour is %v", got)
	}
	if got := stats(); got == whole || !strings.HasPrefix(got, "min ") {
		t.Errorf("of a part: %q", got)
	}
	if browsertest.Ask[float64](tab, `document.querySelector("#large .u-select").offsetWidth`) != 0 {
		t.Error("what was dragged over stays marked")
	}
	// A mark that is outside is not listed; new readings do not end it.
	now := s.Time.UTC().Format(time.RFC3339Nano)
	site.send(t, "high_gpu_usage_alert", contract.Alert{ID: "a", State: "firing", Node: s.Node, GPUID: 0, GPUUUID: s.Devices[0].UUID, Since: now, Timestamp: now, Message: "m"})
	before := stats()
	site.publish(t, following(t, s, time.Second, 12), "goes on")
	untilWhy(t, tab, "goes on")
	if got := stats(); got != before {
		t.Errorf("a reading changes %q to %q", before, got)
	}
	if got := rows(); !slices.Equal(got, part) {
		t.Errorf("%d rows, had %d", len(got), len(part))
	}
	if got := browsertest.Ask[int](tab, `document.querySelectorAll("#large-marks > li").length`); got != 0 {
		t.Errorf("%d marks of another time are listed", got)
	}
	tab.Do(chromedp.Click("#large-all"))
	tab.Until(`document.getElementById("large-all").hidden && document.activeElement === document.querySelector("#large .plot") && document.querySelectorAll("#large-marks > li").length === 1`)
	if got := len(rows()); got != all+1 {
		t.Errorf("%d rows of all, had %d", got, all)
	}

	// By keys: the newest half, which goes on with what comes.
	tab.Do(chromedp.KeyEvent("+"))
	tab.Until(`!document.getElementById("large-all").hidden`)
	half := rows()
	if got := span(half); got < 440*time.Second || got > 460*time.Second || len(half) > all/2+3 {
		t.Errorf("half is %v, %d of %d rows", got, len(half), all)
	}
	if got := browsertest.Ask[string](tab, textOf+`("large-said")`); got != stats() {
		t.Errorf("it says %q, shows %q", got, stats())
	}
	site.publish(t, following(t, s, 2*time.Second, 13), "goes on again")
	untilWhy(t, tab, "goes on again")
	if got := rows(); !strings.HasSuffix(got[len(got)-1], ",13") {
		t.Errorf("the newest half ends with %q", got[len(got)-1])
	}
	tab.Do(chromedp.KeyEvent("-"))
	tab.Until(`document.getElementById("large-all").hidden`)
	tab.Do(chromedp.KeyEvent("+"), chromedp.KeyEvent("+"))
	tab.Do(chromedp.KeyEvent(kb.Home)) // the cursor takes the span with it
	if got, first := rows(), rows()[0]; span(got) > 240*time.Second || first != func() string { tab.Do(chromedp.KeyEvent("0")); return rows()[0] }() {
		t.Errorf("at its beginning: %v from %q", span(got), first)
	}
	tab.Until(`document.getElementById("large-all").hidden`)
	// By buttons, and no further in than a few readings.
	tab.Do(chromedp.Click(`#large [value="0.5"]`), chromedp.Focus("#large .plot"))
	for range 12 {
		tab.Do(chromedp.KeyEvent("+"))
	}
	if got := len(rows()); got < 2 || got > 12 {
		t.Errorf("%d rows when nearest", got)
	}
	tab.Do(chromedp.KeyEvent("0"))

	// With a finger; up and down scrolls.
	browsertest.Call(tab, emulation.SetTouchEmulationEnabled, emulation.SetTouchEmulationEnabledParams{Enabled: true})
	touch := func(kind input.DispatchTouchEventType, x, y float64) {
		t.Helper()
		var points []*input.TouchPoint
		if kind != "touchEnd" {
			points = []*input.TouchPoint{{X: over.X + x*over.Width, Y: over.Y + y}}
		}
		browsertest.Call(tab, input.DispatchTouchEvent, input.DispatchTouchEventParams{Type: kind, TouchPoints: points})
	}
	touch("touchStart", 0.5, 90)
	for x := 0.52; x < 0.71; x += 0.02 {
		touch("touchMove", x, 90)
	}
	touch("touchEnd", 0, 0)
	tab.Until(`!document.getElementById("large-all").hidden`)
	if got := span(rows()); got < 150*time.Second || got > 200*time.Second {
		t.Errorf("a finger shows %v", got)
	}
	// Closed and opened again, all is shown.
	tab.Do(chromedp.Click("#large-close"))
	tab.Until(`!document.getElementById("large").open`)
	tab.Do(chromedp.Click("[data-metric=power_watts] .plain"))
	tab.Until(`document.getElementById("large").open && document.getElementById("large-all").hidden`)
	if got := len(rows()); got < all {
		t.Errorf("%d rows when opened again, had %d", got, all)
	}
	tab.Quiet()
}

// What happened near the moment that was clicked comes first.
func TestMarksNearAMomentComeFirst(t *testing.T) {
	tab := browsertest.Open(t, 1440, 900)
	site, s := charted(t, tab, "eight", "?chart=power_watts")
	tab.Until(`document.getElementById("large").open`)
	for i, ago := range []time.Duration{12 * time.Minute, 8 * time.Minute, 2 * time.Minute} {
		at := s.Time.Add(-ago).UTC().Format(time.RFC3339Nano)
		site.send(t, "alert", contract.Alert{ID: fmt.Sprint(i), State: "firing", Node: s.Node, GPUID: i, GPUUUID: s.Devices[i].UUID, Since: at, Timestamp: at, Message: "m"})
	}
	site.publish(t, following(t, s, time.Second, 12), "next")
	order := func(want string) {
		t.Helper()
		tab.Until(fmt.Sprintf(`[...document.querySelectorAll("#large-marks > li")].map((li) => li.textContent.slice(-1)).join("") === %q`, want))
	}
	order("210")
	over := boxOf(t, tab, "#large .u-over")
	x, y := over.X+over.Width*7.5/15, over.Y+30 // eight minutes before its end
	move(t, tab, x-5, y)
	move(t, tab, x, y)
	mouse(t, tab, "mousePressed", x, y, 1)
	mouse(t, tab, "mouseReleased", x, y, 0)
	order("102")
	tab.Do(chromedp.Focus("#large .plot"), chromedp.KeyEvent(kb.Home))
	order("012")
	tab.Do(chromedp.KeyEvent(kb.Escape))
	order("210")
	tab.Quiet()
}

// A line stands out while its button has the pointer or the focus.
func TestALineStandsOut(t *testing.T) {
	tab := browsertest.Open(t, 1440, 900)
	browsertest.Call(tab, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	charted(t, tab, "many", "")
	const readout = `document.querySelector("[data-metric=temperature_celsius] [data-f=readout]").textContent`
	const button = "#series > li:nth-child(13) button"
	strong := func() int {
		return browsertest.Ask[int](tab, `(() => { const c = document.querySelector("[data-metric=temperature_celsius] canvas"); return c.getContext("2d").getImageData(0, 0, c.width, c.height).data.filter((v, i) => i % 4 === 3 && v > 200).length; })()`)
	}
	tab.Do(chromedp.ScrollIntoView(button))
	before := strong()
	tab.Do(chromedp.Focus(button))
	tab.Until(`/^\d+\u00a0°C · GPU 12$/.test(` + readout + `)`)
	if got := strong(); got > before*2/3 {
		t.Errorf("%d strong pixels with one line that stands out, %d before", got, before)
	}
	tab.Do(chromedp.Focus("#pause"))
	tab.Until(readout + `.startsWith("highest ")`)
	tab.Do(chromedp.ScrollIntoView(button))
	at := boxOf(t, tab, button)
	move(t, tab, at.X+10, at.Y+10)
	tab.Until(readout + `.endsWith(" · GPU 12")`)
	move(t, tab, 1, 1)
	tab.Until(readout + `.startsWith("highest ")`)
	tab.Quiet("getImageData")
}

// drawnBoxes has boxesIn(canvas): where texts stand in a canvas since it was
// last cleared, in its own pixels; and picture, the last that was saved.
const drawnBoxes = `{
	const texts = new WeakMap();
	const { fillText, clearRect } = CanvasRenderingContext2D.prototype;
	const { toBlob } = HTMLCanvasElement.prototype;
	window.boxesIn = (canvas) => texts.get(canvas) ?? [];
	CanvasRenderingContext2D.prototype.clearRect = function (...at) { texts.delete(this.canvas); clearRect.apply(this, at); };
	CanvasRenderingContext2D.prototype.fillText = function (text, x, y, most = Infinity) {
	  if (text.trim() && !"▴▾".includes(text)) {
	    const m = this.measureText(text), part = Math.min(1, most / m.width), t = this.getTransform();
	    const at = [[-m.actualBoundingBoxLeft, -m.actualBoundingBoxAscent], [m.actualBoundingBoxRight, -m.actualBoundingBoxAscent], [-m.actualBoundingBoxLeft, m.actualBoundingBoxDescent], [m.actualBoundingBoxRight, m.actualBoundingBoxDescent]]
	      .map(([dx, dy]) => t.transformPoint({ x: x + dx * part, y: y + dy }));
	    const box = { text, part, left: Math.min(...at.map((p) => p.x)), right: Math.max(...at.map((p) => p.x)), top: Math.min(...at.map((p) => p.y)), bottom: Math.max(...at.map((p) => p.y)) };
	    texts.set(this.canvas, [...boxesIn(this.canvas), box]);
	  }
	  if (most === Infinity) fillText.call(this, text, x, y); else fillText.call(this, text, x, y, most);
	};
	HTMLCanvasElement.prototype.toBlob = function (...args) { window.picture = this; return toBlob.apply(this, args); };
	window.wrong = (canvas) => {
	  const list = boxesIn(canvas), said = [];
	  list.forEach((a, i) => {
	    if (a.left < 0 || a.top < 0 || a.right > canvas.width || a.bottom > canvas.height) said.push(a.text + " is cut off");
	    for (const b of list.slice(0, i)) if (a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom && a.text !== "limit" && b.text !== "limit") said.push(a.text + " is over " + b.text);
	  });
	  return said.length || list.length < 3 ? [list.length + " texts", ...said] : [];
	};
}`

// size gives the window another size and its pixels another.
func size(t *testing.T, tab *browsertest.Tab, width, height int64, pixels float64) {
	t.Helper()
	browsertest.Call(tab, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: pixels})
}

// The labels of the axes have room on every screen.
func TestAxesHaveRoom(t *testing.T) {
	tab := browsertest.Open(t, 1440, 900)
	tab.Before(drawnBoxes)
	for _, name := range []string{"one", "eight"} {
		for _, width := range []int64{390, 768, 1440, 3840} {
			size(t, tab, width, 900, 1+float64(width%4/2)) // of both kinds of pixels
			site, _ := charted(t, tab, name, "?chart=sm_clock_mhz&over=power_watts")
			tab.Until(`document.querySelector("#large .uplot") !== null`)
			check := func(what string) {
				t.Helper()
				browsertest.Ask[bool](tab, `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`)
				if got := browsertest.Ask[string](tab, `[...document.querySelectorAll(".uplot canvas")].flatMap((c) => wrong(c).map((w) => (c.closest("[data-metric]")?.dataset.metric ?? "large") + ": " + w)).slice(0, 10).join("; ")`); got != "" {
					t.Errorf("%s, %d pixels wide, %s: %s", name, width, what, got)
				}
			}
			check("all")
			for range 5 {
				tab.Do(chromedp.Click(`#large [value="0.5"]`))
			}
			check("half a minute")
			site.cut()
		}
	}
	tab.Quiet("WebSocket connection to")
}

// A picture that is saved says what it is of, when it was, whose the lines
// are, and that they were simulated, and all of it can be read.
func TestSavedPictureSpeaksForItself(t *testing.T) {
	tab := browsertest.Open(t, 1440, 900)
	tab.Before(drawnBoxes + `; HTMLAnchorElement.prototype.click = () => {};`)
	for _, shot := range []struct {
		name       string
		lines      int
		width      int64
		pixels     float64
		note, look string
	}{
		{"one", 1, 1440, 2, "workstation · gpuwhy", "light"},
		{"eight", 8, 390, 2, "dgx-07 · gpuwhy", "dark"},
		{"many", 64, 1440, 1, "sim-rack · simulated data · gpuwhy", "dark"},
		{"many", 64, 390, 1, "sim-rack · simulated data · gpuwhy", "light"},
	} {
		size(t, tab, shot.width, 900, shot.pixels)
		browsertest.Call(tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: shot.look}}})
		site, _ := charted(t, tab, shot.name, "?chart=power_watts&over=temperature_celsius")
		tab.Until(`document.querySelector("#large .uplot") !== null && ` + textOf + `("node") !== ""`)
		tab.Do(chromedp.Evaluate[chromedp.Void](`void document.getElementById("large-png").click()`))
		list := browsertest.Ask[[]string](tab, `boxesIn(picture).map((b) => b.text)`)
		span := browsertest.Ask[string](tab, textOf+`("large-stats")`)
		if got := len(list); got != shot.lines+4 {
			t.Errorf("%s: it has %d texts: %q", shot.name, got, list)
		}
		if list[0] != "Power, W · dashed: Temperature, °C" || list[1] != "GPU 0" || list[shot.lines] != fmt.Sprint("GPU ", shot.lines-1) || list[len(list)-1] != shot.note {
			t.Errorf("%s: it says %q", shot.name, list)
		}
		if got := list[len(list)-3] + " · " + list[len(list)-2]; got != span || !strings.Contains(got, fmt.Sprint(time.Now().Year())) {
			t.Errorf("%s: it says %q, shown is %q", shot.name, got, span)
		}
		if got := browsertest.Ask[[]string](tab, `[...wrong(picture), ...boxesIn(picture).filter((b) => b.part < 0.8).map((b) => b.text + " is squeezed")]`); len(got) > 0 {
			t.Errorf("%s, %d wide: %q", shot.name, shot.width, got)
		}
		// Its ground is the page's: what is drawn on it can be seen.
		if got, want := browsertest.Ask[bool](tab, `picture.getContext("2d").getImageData(1, 1, 1, 1).data[0] < 128`), shot.look == "dark"; got != want {
			t.Errorf("%s, %s: its ground is dark: %v", shot.name, shot.look, got)
		}
		site.cut()
	}
	tab.Quiet("WebSocket connection to")
}

// From a dark screen, charts come on paper in ink: whole, and in the sheet's
// own size.
func TestChartsPrint(t *testing.T) {
	tab := browsertest.Open(t, 1440, 900)
	browsertest.Call(tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}})
	// Whether the lines are of those for dark screens, or of those for light ones.
	tab.Before(`window.inks = () => [...document.querySelectorAll(".chart:not([hidden]) canvas")].map((c) => {
	  const { data } = c.getContext("2d").getImageData(0, 0, c.width, c.height), seen = new Set();
	  for (let i = 0; i < data.length; i += 4) if (data[i + 3] === 255) seen.add(data[i] * 65536 + data[i + 1] * 256 + data[i + 2]);
	  const some = (list) => list.some((n) => seen.has(n));
	  return (some([0x5cc0b2, 0xf29a5c, 0x8fa8ff, 0xd095de, 0xd6be4c, 0xf487ac]) ? "dark" : "") + (some([0x1f6f78, 0xc2500f, 0x3b5bc4, 0x8a3a99, 0x80700a, 0xbb2a5c]) ? "light" : "");
	}).join(" ");
	addEventListener("afterprint", () => { window.printed = inks(); });`)
	charted(t, tab, "eight", "")
	const dark, light = "dark dark dark dark dark", "light light light light light"
	screen := browsertest.Ask[string](tab, `inks()`)
	browsertest.Call(tab, page.PrintToPDF, page.PrintToPDFParams{})
	paper := browsertest.Ask[string](tab, `printed`)
	again := browsertest.Ask[string](tab, `new Promise((done) => requestAnimationFrame(() => done(inks())))`)
	if screen != dark || paper != light || again != dark {
		t.Errorf("before %q, printed %q, after %q", screen, paper, again)
	}
	// In the layout of paper nothing of a chart is outside of it.
	tab.Do(chromedp.Evaluate[chromedp.Void](`void dispatchEvent(new Event("beforeprint"))`))
	browsertest.Call(tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"})
	size(t, tab, 720, 1000, 1)
	if got := browsertest.Ask[string](tab, `[...document.querySelectorAll(".chart:not([hidden])")].map((f) => {
	  const a = f.getBoundingClientRect(), c = f.querySelector("canvas"), b = c.getBoundingClientRect();
	  return b.left >= a.left && b.right <= a.right + 1 && b.bottom <= f.querySelector("[data-f=stats]").getBoundingClientRect().top + 1 && b.width > 150 && Math.abs(b.width / b.height - c.width / c.height) < 0.02 ? "" : f.dataset.metric + JSON.stringify([a, b]);
	}).filter(Boolean).join("; ")`); got != "" {
		t.Errorf("cut off on paper: %s", got)
	}
	if got := browsertest.Ask[string](tab, `getComputedStyle(document.getElementById("chart-key")).display`); got != "none" {
		t.Errorf("on paper there are keys to press: %s", got)
	}
	tab.Quiet("getImageData")
}
