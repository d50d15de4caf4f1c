package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"

	"github.com/gpuwhy/gpuwhy/internal/browsertest"
)

// A reading makes the browser lay the page out once: nothing asks where things
// are while they are being written. The clock that moves the age of what is
// shown stands still here.
func TestAReadingIsLaidOutOnce(t *testing.T) {
	for _, profile := range []string{"dgx-h100", "fleet:64", "fleet:1000"} {
		t.Run(profile, func(t *testing.T) {
			s := newStage(t, 5*time.Second)
			a := s.playPast(profile, time.Date(2026, time.March, 3, 12, 0, 0, 0, time.UTC), 2*time.Minute, 5*time.Second)
			tab := quietTab(t, 1440, 900)
			tab.Before(countDraws + "; window.setInterval = () => 0")
			tab.Visit(s.url)
			tab.Until(live)
			tab.Until(`document.querySelectorAll(".uplot").length > 4`)
			browsertest.Call(tab, performance.Enable, performance.EnableParams{})
			// The first that is drawn may bring what was not there before: the wall.
			const warm, counted = 2, 8
			var before float64
			for n := 1; n <= warm+counted; n++ {
				s.Publish(a.next(t, 5*time.Second))
				browsertest.Ask[bool](tab, fmt.Sprintf("drawn(%d)", n))
				after := durations(tab)["LayoutCount"]
				if laidOut := after - before; n > warm && laidOut != 1 {
					t.Errorf("reading %d: laid out %v times", n, laidOut)
				}
				if n == warm+counted/2 {
					browsertest.Ask[bool](tab, `document.getElementById("charts").scrollIntoView() === undefined`)
					tab.Settle()
					after = durations(tab)["LayoutCount"]
				}
				before = after
			}
		})
	}
}

// All GPUs are on one screen, with what stands of alerts in one line above
// them: the worst, and how many more there are.
func TestAllGPUsAreOnOneScreen(t *testing.T) {
	for _, profile := range []string{"dgx-h100", "fleet:64"} {
		t.Run(profile, func(t *testing.T) {
			s := newStage(t, 5*time.Second)
			s.playPast(profile, loudest(t, profile), 5*time.Minute, 5*time.Second)
			standing := len(s.Alerts.Standing())
			if standing < 3 {
				t.Fatalf("only %d alerts stand", standing)
			}
			tab := quietTab(t, 1440, 900)
			tab.Resize(1440, 900)
			tab.Visit(s.url)
			tab.Until(live)
			tab.Settle()
			const end = `document.getElementById("cards").getBoundingClientRect().bottom`
			if got := browsertest.Ask[float64](tab, end); got > 900 {
				t.Errorf("the cards end at %v of 900", got)
			}
			if cut := browsertest.Ask[string](tab, `[...document.querySelectorAll("#cards .value")].filter((v) => v.getBoundingClientRect().right > v.closest(".card").getBoundingClientRect().right).map((v) => v.closest(".card").innerText).join("; ")`); cut != "" {
				t.Errorf("values leave their cards: %s", cut)
			}
			const seen = `[...document.querySelectorAll("#alerts > .alert")].filter((a) => a.checkVisibility()).length`
			if got := browsertest.Ask[int](tab, seen); got != 1 {
				t.Errorf("%d alerts are shown", got)
			}
			tab.Until(fmt.Sprintf(`document.getElementById("more-alerts").textContent === "and %d more"`, standing-1))
			tab.Do(chromedp.Focus("#more-alerts"), chromedp.KeyEvent("\r"))
			tab.Until(fmt.Sprintf(seen+` === %d`, standing))
			tab.Do(chromedp.KeyEvent("\r"))
			tab.Until(seen + ` === 1`)
		})
	}
}
