package now_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/clock"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/past/recent"
	"github.com/gpuwhy/gpuwhy/internal/serve/servetest"
	"github.com/gpuwhy/gpuwhy/internal/testkit/browser"
)

func TestMain(m *testing.M) {
	code := m.Run()
	browser.Close()
	os.Exit(code)
}

// pictured serves the pages of a machine with three cards that were read for so long: the second is 10 °C warmer than the first, and the
// third 20 °C.
func pictured(t *testing.T, long time.Duration) string {
	t.Helper()
	past := recent.New()
	stage := insight.NewStage()
	var newest *insight.Moment
	ends := time.Now().UTC().Truncate(time.Minute)
	for at := ends.Add(-long); !at.After(ends); at = at.Add(time.Second) {
		s := &gpu.Snapshot{Node: "n", Time: at, Source: gpu.SourceSimulated}
		for i := range 3 {
			d := gpu.Device{State: gpu.StateOK, Identity: gpu.Identity{Node: "n", UUID: fmt.Sprintf("GPU-%d", i), Index: i, Name: "Card"}}
			d.Power.Draw, d.Power.EnforcedLimit = gpu.Of(gpu.Watts(100*(i+1))), gpu.Of[gpu.Watts](450)
			d.Thermal.GPU, d.Thermal.Slowdown = gpu.Of(gpu.Celsius(50+10*i)), gpu.Of[gpu.Celsius](90)
			d.Fans.Fans = []gpu.Fan{{Commanded: gpu.Of(gpu.Percent(30 * i))}}
			s.Devices = append(s.Devices, d)
		}
		newest = stage.Next(s)
		past.Observe(newest)
	}
	site := httptest.NewUnstartedServer(nil)
	_, rig := servetest.New()
	rig.Monitor = contract.Monitor{Node: "n", Source: gpu.SourceSimulated, Interval: time.Second}
	rig.Newest = func() *insight.Fleet { return newest.Alone() }
	rig.WS = func(w http.ResponseWriter, r *http.Request, _ string) { http.NotFound(w, r) }
	rig.Past, rig.Sizes, rig.Pages = nil, nil, nil
	rig.Clock = clock.Of(func() time.Time { return ends }, clock.Program().Elapsed)
	rig.BasePath, rig.Listen = "/", site.Listener.Addr().String()
	rig.Recent = past
	s, err := rig.Server()
	if err != nil {
		t.Fatal(err)
	}
	site.Config.Handler = s.Handler()
	site.Start()
	t.Cleanup(site.Close)
	return site.URL
}

// pointer moves the pointer over an element: to shares of its width and height.
func pointer(tab *browser.Tab, selector string, x, y float64) {
	browser.Ask[bool](tab, fmt.Sprintf(`(() => {
		const el = document.querySelector(%q), b = el.getBoundingClientRect();
		el.dispatchEvent(new PointerEvent("pointermove", { bubbles: true, clientX: b.left + %v * b.width, clientY: b.top + %v * b.height }));
		return true;
	})()`, selector, x, y))
}

// The cursor is at one moment in the picture and in all charts, and all values are those of one GPU: of the picture's, or of that whose line
// the pointer is near to.
func TestTheCursorIsAtOneMoment(t *testing.T) {
	tab := browser.Open(t, 1440, 1200)
	tab.Visit(pictured(t, 10*time.Minute) + "/?gpu=GPU-2")
	text := func(selector string) string {
		return browser.Ask[string](tab, `document.querySelector(`+"`"+selector+"`"+`)?.innerText.replaceAll("\u00a0", " ") ?? "nothing"`)
	}
	const chart = `.chart[data-metric=temperature_celsius] .lines`
	pointer(tab, chart, .5, .05) // near to no line
	for _, want := range []string{"GPU 2", "Temperature\t70 °C", "Power\t300 W", "Fan\t60 %"} {
		if got := text(".tip"); !strings.Contains(got, want) {
			t.Errorf("beside the pointer is %q, want %q", got, want)
		}
	}
	if n := browser.Ask[int](tab, `new Set([...document.querySelectorAll(".lines .cursor")].map((c) => c.getAttribute("x1"))).size`); n != 1 {
		t.Errorf("the charts' cursors are at %d moments", n)
	}
	for lane, want := range map[string]string{"power": "300W", "temperature": "70°C", "fan": "60%"} {
		if got := strings.Join(strings.Fields(text(`.readings [data-reading=`+lane+`] .then`)), ""); got != want {
			t.Errorf("the %s is %q at the cursor, want %q", lane, got, want)
		}
	}
	spot := browser.Ask[float64](tab, `(() => {
		const m = /1 0 0 (\S+) 0 (\S+)\)/.exec(document.querySelector("`+chart+` [data-scale]").getAttribute("transform"));
		return (2 * 50 * Number(m[1]) + Number(m[2])) / 100;
	})()`) // where 50 °C are drawn
	pointer(tab, chart, .5, spot)
	for _, want := range []string{"GPU 0", "Temperature\t50 °C", "Power\t100 W", "Fan\t0 %"} {
		if got := text(".tip"); !strings.Contains(got, want) {
			t.Errorf("beside the pointer near the line is %q, want %q", got, want)
		}
	}
	pointer(tab, "h1", .5, .5)
	if browser.Ask[bool](tab, `!!document.querySelector(".tip, .cursor, .then:not(:empty)")`) {
		t.Error("the cursor stays when the pointer is gone")
	}
	browser.Ask[bool](tab, `document.querySelector("#picture .timeline").focus(), true`)
	press := func(key string) string {
		browser.Ask[bool](tab, `document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "`+key+`", bubbles: true })), true`)
		return browser.Ask[string](tab, `document.querySelector(".lines .cursor")?.getAttribute("x1") ?? ""`)
	}
	end, before := press("End"), press("ArrowLeft")
	if end == before || press("ArrowRight") != end || press("Home") == end || press("Escape") != "" {
		t.Errorf("keys go from %q to %q", end, before)
	}
	tab.Quiet("/ws", "WebSocket")
}

// The picture can be drawn on a canvas and read from it: so it is saved as PNG.
func TestThePictureIsSavedAsPNG(t *testing.T) {
	tab := browser.Open(t, 1440, 1200)
	tab.Visit(pictured(t, 10*time.Minute) + "/")
	got := browser.Ask[string](tab, `new Promise((done) => {
		HTMLAnchorElement.prototype.click = function () { fetch(this.href).then((r) => r.blob()).then((b) => done(this.download + " " + b.type + " " + (b.size > 10000)), (e) => done(this.download + " " + this.href.slice(0, 5))); };
		document.getElementById("picture-share").dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true }));
	})`)
	if !strings.HasPrefix(got, "gpuwhy.png") {
		t.Errorf("saved is %q", got)
	}
}

// A page without a past draws nothing, and the browser finds nothing wrong with it.
func TestThePictureOfNothing(t *testing.T) {
	tab := browser.Open(t, 1440, 1200)
	tab.Visit(pictured(t, 0) + "/")
	pointer(tab, "#picture .timeline", .5, .5)
	if browser.Ask[bool](tab, `!document.querySelector("#picture .none").checkVisibility() || !!document.querySelector(".chart")`) {
		t.Error("it does not say that there is nothing yet, or has a chart")
	}
	tab.Quiet("/ws", "WebSocket")
}
