package main

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/gpuwhy/gpuwhy/internal/browsertest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	browsertest.Close()
	os.Exit(code)
}

// live is when a page follows the server.
const live = `document.getElementById("connection").dataset.state === "live"`

// quietTab is a tab that must have said nothing, and have asked no other host,
// when the test ends.
func quietTab(t testing.TB, width, height int, more ...browsertest.Option) *browsertest.Tab {
	t.Helper()
	b := browsertest.Open(t, width, height, more...)
	t.Cleanup(func() { b.Quiet() })
	return b
}

//go:embed testdata/axe-core/axe.min.js
var axeCore string

// axe returns what axe-core finds wrong with the page as it is, one a line.
func axe(t *testing.T, b *browsertest.Tab) string {
	t.Helper()
	if !browsertest.Ask[bool](b, `typeof window.axe === "object"`) {
		b.Do(chromedp.Evaluate[chromedp.Void](axeCore + "\n;void 0"))
	}
	return browsertest.Ask[string](b, `axe.run({ exclude: [["rapi-doc"]] }, { // the API's viewer is its makers' own, and has its page's <main>
	    rules: { "landmark-one-main": { enabled: document.querySelector("rapi-doc") === null } },
	    runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"], resultTypes: ["violations"],
	    iframes: false, // what is in frames is looked at by itself
	  }).then((found) => found.violations.map((v) =>
	    v.id + ": " + v.help + "\n" + v.nodes.slice(0, 4).map((n) => "    " + n.target + " " + n.html.slice(0, 160) + "\n      " + n.failureSummary.replace(/\n/g, " ")).join("\n")).join("\n"))`)
}

// accessible asks axe-core about the page at a width, in light or in dark.
func accessible(t *testing.T, b *browsertest.Tab, width int64, look string) {
	t.Helper()
	b.Resize(width, 900)
	b.Prefer("prefers-color-scheme: " + look)
	b.Settle()
	if found := axe(t, b); found != "" {
		t.Errorf("%d wide, %s:\n%s", width, look, found)
	}
}

// Who asks the system for more contrast gets a page without problems, too.
func TestMoreContrast(t *testing.T) {
	address := startGallery(t)
	for _, path := range []string{"state/eight/", "state/alerts/alerts"} {
		b := quietTab(t, 1440, 900)
		b.Visit(address + path)
		b.Until(live)
		b.Prefer("prefers-contrast: more")
		b.Settle()
		if found := axe(t, b); found != "" {
			t.Errorf("%s:\n%s", path, found)
		}
	}
}

// startGallery serves the gallery until the test ends, and returns where it is.
func startGallery(t *testing.T) string {
	t.Helper()
	ctx, end := context.WithCancel(context.Background())
	said, says := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, []string{"--listen=127.0.0.1:0"}, says, t.Output())
		ended <- errors.Join(err, says.Close())
	}()
	t.Cleanup(func() {
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	line, err := bufio.NewReader(said).ReadString('\n')
	_, address, ok := strings.Cut(strings.TrimSpace(line), "gpuwhy gallery: ")
	if err != nil || !ok {
		t.Fatalf("it said %q: %v", line, err)
	}
	return address
}

// A stop is what has the focus after a press of the Tab key.
type stop struct {
	Name    string `json:"name"`
	Visible bool   `json:"visible"` // that it has the focus, and itself
}

// walk presses Tab until the focus has been everywhere and leaves the page. What
// has the focus must be visible, and so must be that it has the focus.
func walk(t *testing.T, b *browsertest.Tab) {
	t.Helper()
	for range 500 {
		b.Do(chromedp.KeyEvent(kb.Tab))
		at := browsertest.Ask[*stop](b, `(() => {
		  const e = document.activeElement;
		  if (!e || e === document.body || e.dataset.walked) return null;
		  e.dataset.walked = "yes";
		  const style = getComputedStyle(e), box = e.getBoundingClientRect();
		  const ring = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1;
		  const name = (e.getAttribute("aria-label") || e.innerText || e.title || e.id || e.className || e.tagName).trim().slice(0, 60);
		  return { name: e.tagName.toLowerCase() + " " + name,
		    visible: ring && box.width > 0 && box.height > 0 && box.bottom > 0 && box.top < innerHeight };
		})()`)
		if at == nil {
			return
		}
		if !at.Visible {
			t.Errorf("%s has the focus, and that is not visible", at.Name)
		}
	}
	t.Fatal("the focus never leaves the page")
}

// The Tab key reaches every control of the page of alerts.
func TestKeyboardOnThePageOfAlerts(t *testing.T) {
	b := quietTab(t, 1440, 900)
	b.Visit(startGallery(t) + "state/alerts/alerts")
	b.Until(live)
	walk(t, b)
}

// Every control is reached with the Tab key, in view and marked, and works with
// the keys that its role promises.
func TestKeyboardAlone(t *testing.T) {
	s, b := newStage(t), quietTab(t, 1440, 900)
	s.show("eight")
	b.Visit(s.url)
	b.Until(live)
	b.Until(`document.querySelectorAll("#series button").length === 8`)
	walk(t, b)
	if missed := browsertest.Ask[[]string](b, `[...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex]")]
	  .filter((e) => e.checkVisibility() && !e.disabled && e.tabIndex >= 0 && !e.dataset.walked && !e.closest("template"))
	  .filter((e) => !(e.type === "radio" && document.querySelector('[name="' + e.name + '"][data-walked]')))
	  .map((e) => e.outerHTML.slice(0, 160))`); len(missed) > 0 {
		t.Errorf("the Tab key does not reach:\n%s", strings.Join(missed, "\n"))
	}

	press := func(on, key string) {
		t.Helper()
		b.Do(chromedp.Focus(chromedp.CSS(on)), chromedp.KeyEvent(key))
	}
	returns := func(on string) {
		t.Helper()
		b.Until(`document.activeElement === document.querySelector(` + strconv.Quote(on) + `)`)
	}
	for _, key := range []string{kb.Enter, " "} {
		// One GPU alone in the charts, and all again.
		const third = "#series > li:nth-child(3) button"
		press(third, key)
		b.Until(`document.querySelector("` + third + `").getAttribute("aria-pressed") === "true"`)
		press(third, key)
		b.Until(`document.querySelector("` + third + `").getAttribute("aria-pressed") === "false"`)

		// The table in another order.
		press(".sort[data-sort=pid]", key)
		b.Until(`document.querySelector(".sort[data-sort=pid]").closest("th").ariaSort !== null`)
		press(".sort[data-sort=gpu]", key)
		b.Until(`document.querySelector(".sort[data-sort=pid]").closest("th").ariaSort === null`)

		// A process in detail, and back to its row.
		press("#processes tr .plain", key)
		b.Until(`document.getElementById("process").open`)
		b.Do(chromedp.KeyEvent(kb.Escape))
		b.Until(`!document.getElementById("process").open`)
		returns("#processes tr .plain")

		// A chart that is large, with another metric over it, and back.
		press(".chart .plain", key)
		b.Until(`document.getElementById("large").open`)
		press("#large-over", "P") // Power
		b.Until(`document.getElementById("large-over").value !== ""`)
		press("#large-close", key)
		b.Until(`!document.getElementById("large").open`)
		returns(".chart .plain")

		// The page stands still, and goes on.
		press("#pause", key)
		b.Until(`document.getElementById("pause").getAttribute("aria-pressed") === "true"`)
		press("#pause", key)
		b.Until(`document.getElementById("pause").getAttribute("aria-pressed") === "false"`)

		// The menu opens and closes.
		press(".menu summary", key)
		b.Until(`document.querySelector(".menu").open`)
		press(".menu summary", key)
		b.Until(`!document.querySelector(".menu").open`)
	}
	// One process, and all again.
	b.Do(chromedp.Focus(chromedp.CSS("#by-text")), chromedp.KeyEvent("9001"))
	b.Until(`document.querySelectorAll("#processes > tr").length === 1`)
	press("#show-all", kb.Enter)
	b.Until(`document.querySelectorAll("#processes > tr").length > 1`)

	b.Do(chromedp.Focus(chromedp.CSS("#series > li:nth-child(3) button")))
	// What the focus is on stays when the next reading comes.
	s.show("eight")
	b.Settle()
	if !browsertest.Ask[bool](b, `document.activeElement === document.querySelector("#series > li:nth-child(3) button")`) {
		t.Error("an update takes the focus away")
	}
}
