//go:build !race

package static_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/testkit/browser"
)

// busiest makes another process the one that draws most, so that rows move.
func busiest(s *site, n int) *gpu.Snapshot {
	snap := s.example("eight")
	for i := range snap.Devices {
		d := &snap.Devices[i]
		if d.State != gpu.StateOK {
			continue
		}
		watts := gpu.Watts(100 + 100*((i+n)%5))
		d.Power.Draw = gpu.Of(watts)
		list := slices.Clone(d.Processes.Or(nil))
		for j := range list {
			list[j].SM = gpu.Of(gpu.Percent(10 + (i+j+n)%5*20))
		}
		d.Processes = gpu.Of(list)
	}
	return snap
}

// What comes leaves a reader alone: the focus, what was typed, what is selected, what is open, and where the page is.
func TestUpdatesLeaveTheReaderAlone(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.publish(busiest(s, 0))
	tab := s.open(t, "processes?group=none", 1440, 400)
	order := func() string {
		return browser.Ask[string](tab, `[...document.querySelectorAll(".processes tbody tr")].map((r) => r.dataset.key).join(" ")`)
	}
	before := order()
	do(tab, `window.stays = document.querySelector(".processes tbody tr:last-child a"), stays.focus(), scrollTo(0, 60)`)
	moved := false
	for n := 1; n < 5; n++ {
		s.next(busiest(s, n))
		sameAsServed(t, tab)
		moved = moved || order() != before
		if got := browser.Ask[string](tab, `document.activeElement === stays ? "" : document.activeElement.outerHTML.slice(0, 100)`); got != "" {
			t.Errorf("after %d updates the focus is on %s", n, got)
		}
		if got := browser.Ask[float64](tab, `scrollY`); got != 60 {
			t.Errorf("the page is at %v", got)
		}
	}
	if !moved {
		t.Error("no row moves, which this test is about")
	}
	do(tab, `scrollTo(0, 0)`)
	tab.Do(chromedp.SendKeys("form.filters [name=q]", "a"))
	tab.Until(`location.search.includes("q=a")`)
	s.next(busiest(s, 1))
	sameAsServed(t, tab)
	tab.Do(chromedp.KeyEvent("b"))
	s.next(busiest(s, 2))
	tab.Until(`location.search.includes("q=ab")`)
	sameAsServed(t, tab)
	if got := browser.Ask[string](tab, `document.activeElement.name + "=" + document.activeElement.value`); got != "q=ab" {
		t.Errorf("what is typed is %s", got)
	}
	quiet(tab)

	tab.Visit(s.URL)
	tab.Until(`wire.open === 1`)
	do(tab, `document.querySelector("#evidence summary").click(), getSelection().selectAllChildren(document.querySelector("#gpus-title")), scrollTo(0, 200)`)
	tab.Until(`document.getElementById("evidence").open`)
	for n := range 4 {
		s.next(busiest(s, n))
		sameAsServed(t, tab)
		if got := browser.Ask[string](tab, `[document.getElementById("evidence").open, getSelection().toString(), scrollY].join(" ")`); got != "true GPUs 200" {
			t.Errorf("after update %d: %s", n, got)
		}
	}
	quiet(tab)
}

// What is typed into a form of an alert stays while others come before it.
func TestAlertsLeaveWhatIsTyped(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.atOnce()
	lost := func(which ...int) *gpu.Snapshot {
		snap := s.example("eight")
		snap.Devices = snap.Devices[:5]
		for _, i := range which {
			snap.Devices[i].State, snap.Devices[i].Since, snap.Devices[i].Readings = gpu.StateLost, s.time(), gpu.Readings{}
		}
		return snap
	}
	s.publish(lost(3))
	tab := s.open(t, "alerts", 1440, 900)
	tab.Until(`document.querySelector("#alert-groups details input[name=comment]") !== null`)
	do(tab, `window.field = document.querySelector("#alert-groups details input[name=comment]"), window.row = field.closest("details"), row.open = true, field.focus()`)
	tab.Do(chromedp.KeyEvent("half a sen"))
	for _, which := range [][]int{{3, 1}, {3, 1, 0}, {3, 0}, {3}} {
		s.next(lost(which...))
		sameAsServed(t, tab)
		if got := browser.Ask[string](tab, `[document.activeElement === field, field.isConnected, field.value, row.open].join(" ")`); got != "true true half a sen true" {
			t.Errorf("with %v lost: %s", which, got)
		}
	}
	quiet(tab)
}

// Times are those of the reader's clock, in pages as they come and after they were patched.
func TestTimesAreTheReaders(t *testing.T) {
	t.Parallel()
	for _, page := range []string{"", "alerts", "gpu/GPU-00000000-0000-4000-8000-000000000000", "processes"} {
		t.Run("page "+page, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.atOnce()
			lost := func(gone bool) *gpu.Snapshot {
				snap := s.example("eight")
				snap.Devices[0].Health.XIDs = gpu.Of([]gpu.XID{{Code: 79, Count: 1, Last: s.time().Add(-time.Hour)}})
				if gone {
					snap.Devices[1].State, snap.Devices[1].Since, snap.Devices[1].Readings = gpu.StateLost, s.time(), gpu.Readings{}
				}
				return snap
			}
			if strings.HasPrefix(page, "gpu/") {
				page = "gpu/" + s.example("eight").Devices[0].UUID
			}
			s.publish(lost(false))
			tab := browser.Open(t, 1440, 900)
			readIn(tab, "de-DE", "Europe/Berlin")
			tab.Before(wire)
			tab.Visit(s.URL + page)
			tab.Until(`wire.open === 1`)
			for i := range 4 {
				if left := browser.Ask[string](tab, `[...document.querySelectorAll("body *")].flatMap((e) => e.closest("script, noscript, .of-running") ? [] : [e.title ?? "", ...[...e.childNodes].filter((n) => n.nodeType === 3).map((n) => n.data)]).filter((s) => /\bUTC\b/.test(s)).join("; ")`); left != "" {
					t.Errorf("it still has %s", left)
				}
				s.next(lost(i%2 == 0))
				sameAsServed(t, tab)
			}
			quiet(tab)
		})
	}
}
