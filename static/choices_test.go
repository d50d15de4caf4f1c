//go:build !race

package static_test

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/gpuwhy/gpuwhy/internal/testkit/browser"
)

// where are the address and the page that is shown.
func untilAt(t *testing.T, tab *browser.Tab, query string) {
	t.Helper()
	tab.Until(fmt.Sprintf(`location.search === %q`, query))
	sameAsServed(t, tab)
}

// What a person chooses is in the address, and the page follows without being loaded: by a link, by a form, Back and Forward.
func TestChoices(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.publish(s.example("eight"))
	tab := s.open(t, "processes", 1440, 900, loads)
	do(tab, `document.querySelector('.processes thead .of-memory a').click()`)
	untilAt(t, tab, "?sort=memory")
	do(tab, `document.querySelector('.processes thead .of-memory a').click()`)
	tab.Until(`location.search.includes("sort=memory") && location.search !== "?sort=memory"`)
	second := browser.Ask[string](tab, `location.search`)
	untilAt(t, tab, second)
	do(tab, `history.back()`)
	untilAt(t, tab, "?sort=memory")
	do(tab, `history.back()`)
	untilAt(t, tab, "")
	do(tab, `history.go(2)`)
	untilAt(t, tab, second)

	// A form keeps what it is not about, and forgets what is no choice any more.
	do(tab, `((list) => { list.value = "user"; list.dispatchEvent(new Event("input", { bubbles: true })); })(document.querySelector("form.filters [name=group]"))`)
	tab.Until(`new URLSearchParams(location.search).get("group") === "user" && new URLSearchParams(location.search).get("sort") === "memory"`)
	untilAt(t, tab, browser.Ask[string](tab, `location.search`))
	tab.Do(chromedp.SendKeys("form.filters [name=q]", "python"))
	tab.Until(`new URLSearchParams(location.search).get("q") === "python"`)
	sameAsServed(t, tab)
	do(tab, `((list) => { list.value = ""; list.dispatchEvent(new Event("input", { bubbles: true })); })(document.querySelector("form.filters [name=group]"))`)
	tab.Until(`!new URLSearchParams(location.search).has("group")`)
	sameAsServed(t, tab)
	// Going back, the form shows what is shown.
	do(tab, `history.back()`)
	tab.Until(`!new URLSearchParams(location.search).has("q")`)
	sameAsServed(t, tab)
	if got := browser.Ask[string](tab, `[...new FormData(document.querySelector("form.filters"))].filter(([, v]) => v).map(([n, v]) => n + "=" + v).sort().join("&")`); got != browser.Ask[string](tab, `[...new URLSearchParams(location.search)].map(([n, v]) => n + "=" + v).sort().join("&")`) {
		t.Errorf("the form has %s", got)
	}
	search := browser.Ask[string](tab, `location.search`)
	tab.Do(chromedp.Reload())
	tab.Until(`document.getElementById("state")?.dataset.state !== "still" && wire.open === 1`)
	untilAt(t, tab, search)
	if n := browser.Ask[string](tab, `sessionStorage.loads`); n != "2" {
		t.Errorf("it was loaded %s times, once by hand", n)
	}
	quiet(tab)
}

// A dialog is one of the choices: Back closes it, and Escape, and its cross; Forward opens it again.
func TestADialogIsAChoice(t *testing.T) {
	t.Parallel()
	s, tab := shown(t, "eight", "processes?group=none")
	const first = `document.querySelector(".processes tbody a[data-choice]")`
	open := func() {
		t.Helper()
		tab.Until(`document.querySelector("dialog[data-modal]:modal") !== null`)
		sameAsServed(t, tab)
	}
	closed := func() {
		t.Helper()
		tab.Until(`document.querySelector("dialog[data-modal]") === null`)
		untilAt(t, tab, "?group=none")
	}
	do(tab, first+`.focus(), `+first+`.click()`)
	open()
	s.next(s.example("eight"))
	open()
	do(tab, `history.back()`)
	closed()
	do(tab, `history.forward()`)
	open()
	tab.Do(chromedp.KeyEvent("\u001b"))
	closed()
	do(tab, first+`.click()`)
	open()
	tab.Do(chromedp.Click("dialog [data-close]"))
	closed()
	// Its process ends: it says so.
	do(tab, first+`.click()`)
	open()
	s.next(s.example("idle"))
	tab.Until(`document.getElementById("process-ended") !== null`)
	open()
	address := browser.Ask[string](tab, `location.href`)
	tab.Visit(address)
	open()
	quiet(tab)
}

// What a browser remembers of a page's choices is chosen again in a new tab. Other pages have choices of the same
// names, and what none of them knows is not asked for.
func TestChoicesLast(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.publish(s.example("eight"))
	tab := s.open(t, "", 1440, 900)
	choose := func(form, name, value string) {
		t.Helper()
		do(tab, fmt.Sprintf(`((list) => { list.value = %q; list.dispatchEvent(new Event("input", { bubbles: true })); })(document.querySelector("%s [name=%s]"))`, value, form, name))
		tab.Until(fmt.Sprintf(`location.search === "?%s=%s"`, name, value))
	}
	visit := func(page, query string) {
		t.Helper()
		tab.Visit("about:blank")
		tab.Visit(s.URL + page)
		tab.Until(`document.getElementById("state")?.dataset.state === "live" && wire.open === 1`)
		untilAt(t, tab, query)
	}
	choose("form.choices", "sort", "temperature")
	visit("processes", "")
	choose("form.filters", "group", "user")
	visit("alerts", "")
	choose("form", "group", "gpu")
	visit("about", "")
	visit("gpu/"+s.example("eight").Devices[0].UUID, "")
	visit("processes", "?group=user")
	visit("alerts", "?group=gpu")
	visit("", "?sort=temperature")
	if got := browser.Ask[string](tab, `document.querySelector("form.choices [name=sort]").value`); got != "temperature" {
		t.Errorf("the form has %s", got)
	}
	do(tab, `localStorage.setItem("gpuwhy sort", "of yore")`)
	visit("", "")
	if n := browser.Ask[int](tab, `wire.whole`); n != 0 {
		t.Errorf("the page was asked for %d times more", n)
	}
	quiet(tab)
}
