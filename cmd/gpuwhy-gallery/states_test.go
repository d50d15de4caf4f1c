package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/browsertest"
	"github.com/gpuwhy/gpuwhy/views"
)

// A way brings a page into a state and returns when it is there.
type way func(t *testing.T, b *browsertest.Tab)

// example is the dashboard of a made-up machine of package views.
func example(name string, then ...string) way {
	return func(t *testing.T, b *browsertest.Tab) {
		s := newStage(t)
		s.show(name)
		b.Visit(s.url)
		b.Until(live)
		for _, condition := range then {
			b.Until(condition)
		}
	}
}

// of is a page of the machine of eight, some of which are not as they should be.
func of(device int, then func(t *testing.T, s *stage, b *browsertest.Tab)) way {
	return func(t *testing.T, b *browsertest.Tab) {
		s := newStage(t)
		s.show("eight")
		b.Visit(s.url + "gpu/" + exampleOf(t, "eight").Devices[device].UUID)
		b.Until(live)
		if then != nil {
			then(t, s, b)
		}
	}
}

func exampleOf(t *testing.T, name string) *gpu.Snapshot {
	t.Helper()
	for _, e := range views.Examples(time.Now()) {
		if e.Name == name {
			return e.Snapshot
		}
	}
	t.Fatalf("there is no example %q", name)
	return nil
}

// on is the dashboard of a busy machine with a past and with alerts, and then
// what a person does.
func on(path string, steps ...any) way {
	return func(t *testing.T, b *browsertest.Tab) {
		s := newStage(t, 5*time.Second)
		s.playPast("dgx-h100", loudest(t, "dgx-h100"), 15*time.Minute, 5*time.Second)
		b.Visit(s.url + path)
		b.Until(live)
		for _, step := range steps {
			switch step := step.(type) {
			case string:
				b.Until(step)
			case chromedp.Action[chromedp.Void]:
				b.Do(step)
			}
		}
	}
}

// A gate is a proxy before a stage that can refuse sockets, or everything.
type gate struct {
	*httptest.Server
	sockets, all atomic.Bool // refused
}

func newGate(t *testing.T, to string) *gate {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{}
	behind := httputil.NewSingleHostReverseProxy(target)
	behind.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.all.Load() || g.sockets.Load() && strings.HasSuffix(r.URL.Path, "/ws") {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		r.Host = target.Host
		r.Header.Del("Origin") // which is this proxy's, and no page's of the server
		behind.ServeHTTP(w, r)
	}))
	t.Cleanup(g.Close)
	return g
}

const charted = `document.querySelectorAll("#charts .uplot").length > 4 && document.querySelectorAll("#charts .uplot").length === document.querySelectorAll(".chart:not([hidden])").length`

// states are all that a person can meet, and how a page gets there.
var states = []struct {
	name    string
	reach   way
	allowed []string // on the console
}{
	{name: "starting", reach: example("starting", `!document.getElementById("waiting").hidden`)},
	{name: "one", reach: example("one", charted)},
	{name: "lost-hung-asleep", reach: example("eight", charted)},
	{name: "sixty-four", reach: example("many")},
	{name: "a-thousand", reach: example("fleet", `document.getElementById("wall-canvas").height > 200`)},
	{name: "no-driver", reach: example("none", `!document.getElementById("failures").hidden`)},
	{name: "simulated", reach: on("", charted, `!document.getElementById("simulated").hidden`)},
	{name: "stale", reach: func(t *testing.T, b *browsertest.Tab) {
		s := newStage(t, 250*time.Millisecond)
		s.show("eight")
		b.Visit(s.url)
		b.Until(live)
		b.Until(`document.body.hasAttribute("data-stale")`)
	}},
	{name: "connection-lost", allowed: []string{"502"}, reach: func(t *testing.T, b *browsertest.Tab) {
		s := newStage(t, 5*time.Second)
		s.show("eight")
		g := newGate(t, s.url)
		b.Visit(g.URL)
		b.Until(live)
		g.all.Store(true)
		if err := s.Hub.Shutdown(t.Context(), "it is cut off"); err != nil {
			t.Error(err)
		}
		b.Until(`document.getElementById("connection").dataset.state === "waiting"`)
	}},
	{name: "asking-now-and-then", allowed: []string{"502"}, reach: func(t *testing.T, b *browsertest.Tab) {
		s := newStage(t)
		s.show("eight")
		g := newGate(t, s.url)
		g.sockets.Store(true)
		b.Visit(g.URL)
		b.Until(`document.getElementById("connection").dataset.state === "polling"`)
	}},
	{name: "paused", reach: on("", chromedp.Click(chromedp.CSS("#pause")), `document.getElementById("age").textContent.startsWith("paused")`)},
	{name: "without-scripts", reach: func(t *testing.T, b *browsertest.Tab) {
		s := newStage(t)
		s.show("eight")
		browsertest.Call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
		b.Visit(s.url)
		browsertest.Call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{})
	}},
	{name: "menu", reach: on("", chromedp.Click(chromedp.CSS(".menu summary")), `document.querySelector(".menu").open`)},
	{name: "evidence", reach: on("", chromedp.Click(chromedp.CSS(".evidence summary")), `document.querySelector(".evidence").open`)},
	{name: "process", reach: on("", chromedp.Click(chromedp.CSS("#processes tr .plain")), `document.getElementById("process").open`)},
	{name: "large-chart", reach: on("?chart=power_watts&over=temperature_celsius", `document.querySelector("#large[open] .uplot") !== null`)},
	{name: "by-user", reach: on("?group=user", `document.querySelectorAll("#processes [scope=rowgroup]").length > 2`)},
	{name: "nothing-found", reach: on("?q=nothing-is-called-this", `document.querySelectorAll("#processes > tr").length === 0`)},
	{name: "gpu", reach: of(0, nil)},
	{name: "gpu-lost", reach: of(6, nil)},
	{name: "gpu-asleep", reach: of(7, nil)},
	{name: "gpu-gone", reach: of(3, func(_ *testing.T, s *stage, b *browsertest.Tab) {
		s.show("one")
		b.Until(`!document.getElementById("gone").hidden`)
	})},
	{name: "alerts", reach: on("alerts", `document.querySelectorAll("#firing > li").length > 3`)},
	{name: "no-alerts", reach: func(t *testing.T, b *browsertest.Tab) {
		s := newStage(t)
		s.show("one")
		b.Visit(s.url + "alerts")
		b.Until(live)
	}},
	{name: "not-found", allowed: []string{"404 (Not Found)"}, reach: func(t *testing.T, b *browsertest.Tab) {
		b.Visit(newStage(t).url + "nowhere")
		b.Until(shows("404"))
	}},
}

// Every state is reached, fits every width, and has nothing that axe-core finds
// wrong, in light and in dark. `make looks` keeps the pictures.
func TestEveryState(t *testing.T) {
	dir := t.ArtifactDir()
	for _, state := range states {
		t.Run(state.name, func(t *testing.T) {
			b := browsertest.Open(t, 1440, 900)
			state.reach(t, b)
			lookAt(t, b, dir, state.name, true)
			b.Visit("about:blank") // before what it is connected to ends
			b.Quiet(state.allowed...)
		})
	}
}

// lookAt takes pictures of what is shown at each width, in light and in dark,
// and asks axe-core of it if that is to be asked.
func lookAt(t *testing.T, b *browsertest.Tab, dir, name string, ask bool) {
	t.Helper()
	for _, width := range []int64{1440, 768, 390} {
		b.Resize(width, 900)
		for _, look := range []string{"light", "dark"} {
			b.Prefer("prefers-color-scheme: " + look)
			b.Settle()
			what := fmt.Sprintf("%s-%d-%s", name, width, look)
			if got := browsertest.Ask[int64](b, `document.documentElement.scrollWidth`); got > width {
				t.Errorf("%s is %d wide", what, got)
			}
			if ask && width != 768 { // a width between two that are asked about
				if found := axe(t, b); found != "" {
					t.Errorf("%s:\n%s", what, found)
				}
			}
			picture := browsertest.Call(b, page.CaptureScreenshot, page.CaptureScreenshotParams{}).Data
			if err := os.WriteFile(filepath.Join(dir, what+".png"), picture, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}
