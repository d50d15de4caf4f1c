//go:build !race

package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/cdproto/performance"

	"github.com/gpuwhy/gpuwhy/internal/testkit/browser"
)

// noon is a moment of simulated days.
var noon = time.Date(2026, time.March, 3, 12, 6, 0, 0, time.UTC)

// A reading makes the browser lay the page out once: nothing asks where things
// are while they are being written.
func TestAReadingIsLaidOutOnce(t *testing.T) {
	for _, profile := range []string{"rtx-4090", "dgx-h100"} {
		t.Run(profile, func(t *testing.T) {
			s := newStage(t, profile, 5*time.Second)
			p := s.playPast(profile, noon, 2*time.Minute)
			tab := quietTab(t, 1440, 900)
			tab.Visit(s.url)
			tab.Until(live)
			tab.Settle()
			browser.Call(tab, performance.Enable, performance.EnableParams{})
			const warm, counted = 2, 6
			version := func() string {
				return browser.Ask[string](tab, `document.querySelector("meta[name=version]").content`)
			}
			for n := 1; n <= warm+counted; n++ {
				was, before := version(), durations(tab)["LayoutCount"]
				for _, snap := range p.next(5 * time.Second) {
					s.Publish(snap)
				}
				tab.Until(fmt.Sprintf(`document.querySelector("meta[name=version]").content !== %q`, was))
				tab.Settle()
				if laidOut := durations(tab)["LayoutCount"] - before; n > warm && laidOut > 1 {
					t.Errorf("reading %d: laid out %v times", n, laidOut)
				}
			}
		})
	}
}

// A temperature has the color of how near it is to its limit, whatever the style sheet says of other lines.
func TestHeatHasItsColor(t *testing.T) {
	tab := quietTab(t, 1440, 900)
	tab.Visit(startGallery(t) + "state/heat/")
	tab.Until(`document.querySelector("#picture .heat") !== null`)
	if got := browser.Ask[string](tab, `getComputedStyle(document.querySelector("#picture .heat")).stroke`); got != `url("#picture-heat")` {
		t.Errorf("the temperature has the stroke %s", got)
	}
}

// The answer and its picture are on the first screen, of one GPU all that it reports, of eight all
// cards, and of a fleet the nodes that stand out.
func TestTheFirstScreen(t *testing.T) {
	address, b := startGallery(t), openTab(t, 1440, 900)
	for _, tt := range []struct {
		state string
		last  string // is to end on the first screen
	}{
		{"one/", "#gpus"}, {"video/", "#gpus"}, {"quiet/", "#gpus"}, {"heat/", "#picture"}, {"eight/", "#picture"}, {"fleet/", "#picture"}, {"thousand/", "#picture"},
		{"heat/", ".cards .card"}, {"fleet/", "#standouts tbody tr"},
	} {
		t.Run(tt.state+tt.last, func(t *testing.T) {
			lend(t, b)
			b.Visit(address + "state/" + tt.state)
			b.Until(live)
			b.Settle()
			for _, what := range []string{".headline", ".chips", tt.last} {
				if end := browser.Ask[float64](b, fmt.Sprintf(`document.querySelector(%q).getBoundingClientRect().bottom`, what)); end > 900 || end <= 0 {
					t.Errorf("%s ends at %v of 900", what, end)
				}
			}
			if cut := browser.Ask[string](b, outside); cut != "" {
				t.Errorf("these leave their cards: %s", cut)
			}
		})
	}
}

// outside are texts that go beyond their cards, tiles and nodes.
const outside = `[...document.querySelectorAll(".card b, .card span, .tile b, .tile span, .node header *, .chip, .btn > *")]
  .filter((e) => e.checkVisibility({ visibilityProperty: true }) && !e.closest(".unseen") && getComputedStyle(e).overflow !== "hidden" && e.getBoundingClientRect().right > e.closest(".card, .tile, .node, .chip, .btn").getBoundingClientRect().right + 1)
  .map((e) => e.textContent + " in " + e.closest(".card, .tile, .node, .chip, .btn").innerText.slice(0, 60)).join("; ")`

// beyond are cells of tables whose texts are wider than they are.
const beyond = `[...document.querySelectorAll(".table tbody td")]
  .filter((e) => e.checkVisibility({ visibilityProperty: true }) && getComputedStyle(e).overflow !== "hidden" && e.scrollWidth > e.clientWidth + 1)
  .map((e) => e.textContent + " in " + e.closest("table").className).join("; ")`

// On a phone the processes of eight GPUs are within three screens, and a thousand GPUs are no endless page.
func TestAPhone(t *testing.T) {
	address, b := startGallery(t), openTab(t, 390, 844)
	for _, tt := range []struct {
		state, what string
		most        float64
	}{
		{"heat/", `document.getElementById("processes").getBoundingClientRect().top`, 3 * 844},
		{"eight/", `document.getElementById("processes").getBoundingClientRect().top`, 3 * 844},
		{"one/", `document.getElementById("processes").getBoundingClientRect().top`, 2 * 844},
		{"thousand/", `document.documentElement.scrollHeight`, 7000},
		{"many/", `document.documentElement.scrollHeight`, 8000},
		{"fleet/", `document.documentElement.scrollHeight`, 8000},
		{"thousand/alerts", `document.documentElement.scrollHeight`, 9000},
	} {
		t.Run(tt.state, func(t *testing.T) {
			lend(t, b)
			b.Resize(390, 844)
			b.Visit(address + "state/" + tt.state)
			b.Until(live)
			b.Settle()
			got := browser.Ask[float64](b, tt.what)
			if t.Log(got); got > tt.most {
				t.Errorf("%v pixels, want at most %v", got, tt.most)
			}
			b.Resize(360, 780)
			if found := browser.Ask[string](b, beyond); found != "" {
				t.Errorf("at 360 these stand on what is beside them: %s", found)
			}
		})
	}
}

// small are what fingers may miss. A link in a sentence is as high as its line; what a label makes larger counts with that.
const small = `[...document.querySelectorAll("a[href], button, select, input:not([type=hidden]), summary, textarea")]
  .filter((e) => e.checkVisibility({ visibilityProperty: true, opacityProperty: true }) && !e.closest("p, dd, h3, th, td, dt, figcaption, .skip, .unseen, .note") )
  .map((e) => [e, (e.closest("label") ?? e).getBoundingClientRect()])
  .filter(([e, box]) => box.width > 1 && (box.height < 43.5 || box.width < 43.5) && !e.matches(".tile, .wall a"))
  .map(([e, box]) => Math.round(box.width) + " × " + Math.round(box.height) + " " + e.outerHTML.slice(0, 110)).join("\n")`

// What is pressed is 44 pixels high on a phone.
func TestTargetsOnAPhone(t *testing.T) {
	address, b := startGallery(t), openTab(t, 390, 844)
	for _, state := range []string{"one/", "heat/", "fleet/", "thousand/", "eight/processes", "eight/processes?process=dgx-07/GPU-00000000-0000-4000-8000-000000000000/9001", "alerts/alerts", "alerts/alerts?tab=silenced", "one/gpu/GPU-00000000-0000-4000-8000-000000000000", "fleet/nodes", "eight/about", "eight/find"} {
		t.Run(state, func(t *testing.T) {
			lend(t, b)
			b.Resize(390, 844)
			b.Visit(address + "state/" + state)
			b.Settle()
			if found := browser.Ask[string](b, small); found != "" {
				t.Errorf("too small for a finger:\n%s", found)
			}
		})
	}
}

// The page of one node of several goes on being that.
func TestThePageOfANode(t *testing.T) {
	b := quietTab(t, 1440, 900)
	address, pass := playGallery(t)
	b.Visit(address + "state/fleet/node/node-002/?show=busy")
	b.Until(live)
	const version = `document.querySelector("meta[name=version]").content`
	for range 2 {
		was := browser.Ask[string](b, version)
		pass(5 * time.Second)
		b.Until(version + fmt.Sprintf(` !== %q`, was))
	}
	if got := browser.Ask[string](b, `document.querySelector(".host").textContent + " " + document.querySelector(".seg i").textContent`); got != "node-002 8" {
		t.Errorf("it has become %q", got)
	}
}
