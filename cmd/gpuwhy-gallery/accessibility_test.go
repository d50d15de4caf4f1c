//go:build !race

package main

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/gpuwhy/gpuwhy/internal/clock"
	"github.com/gpuwhy/gpuwhy/internal/testkit/browser"
)

func TestMain(m *testing.M) {
	code := m.Run()
	browser.Close()
	os.Exit(code)
}

// live is when a page follows the server.
const live = `document.getElementById("state").dataset.state === "live"`

// openTab opens a tab in which no page finds that its server takes too long: the
// clock of its scripts stands still.
func openTab(t testing.TB, width, height int) *browser.Tab {
	t.Helper()
	b := browser.Open(t, width, height)
	b.StopClock()
	return b
}

// quietTab is a tab that must have said nothing, and have asked no other host,
// when the test ends.
func quietTab(t testing.TB, width, height int) *browser.Tab {
	t.Helper()
	b := openTab(t, width, height)
	t.Cleanup(func() { b.Quiet() })
	return b
}

// lend lends a tab to a subtest, during which it must say nothing and ask no other host.
func lend(t testing.TB, b *browser.Tab) {
	t.Helper()
	b.Lend(t)
	t.Cleanup(func() { b.Quiet() })
}

//go:embed testdata/axe-core/axe.min.js
var axeCore string

// Which rules axe-core asks: all, or those that depend on sizes and colors.
const (
	allRules  = `["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]`
	ofDrawing = `{ type: "rule", values: ["color-contrast", "link-in-text-block", "scrollable-region-focusable", "target-size"] }`
)

// axe returns what axe-core finds wrong with the page as it is, one a line. Of a long list it looks at the first items, but for
// 'make soak', which has it look at all.
func axe(t *testing.T, b *browser.Tab, rules string) string {
	t.Helper()
	if !browser.Ask[bool](b, `typeof window.axe === "object"`) {
		b.Do(chromedp.Evaluate[chromedp.Void](axeCore + "\n;void 0"))
	}
	leaves := `["rapi-doc"]` // the API's viewer is its makers' own, and has its page's <main>
	if !thorough {
		leaves += `, ["li:nth-child(n+9)"], ["tr:nth-child(n+9)"]`
	}
	return browser.Ask[string](b, strings.NewReplacer("LEAVES", leaves, "RULES", rules).Replace(`axe.run({ exclude: [LEAVES] }, {
	    rules: document.querySelector("rapi-doc") === null ? {} : { "landmark-one-main": { enabled: false } },
	    runOnly: RULES, resultTypes: ["violations"],
	    iframes: false, preload: false, // what is in frames is looked at by itself; no rule asks for style sheets or media
	  }).then((found) => found.violations.map((v) =>
	    v.id + ": " + v.help + "\n" + v.nodes.slice(0, 4).map((n) => "    " + n.target + " " + n.html.slice(0, 160) + "\n      " + n.failureSummary.replace(/\n/g, " ")).join("\n")).join("\n"))`))
}

// accessible asks axe-core about the page at a width, in light or in dark.
func accessible(t *testing.T, b *browser.Tab, width int64, look string) {
	t.Helper()
	b.Resize(width, 900)
	b.Prefer("prefers-color-scheme: " + look)
	browser.Ask[bool](b, `(window.scrollTo(0, 0), true)`) // what is half under the header is not too small
	b.Settle()
	if found := axe(t, b, allRules); found != "" {
		t.Errorf("%d wide, %s:\n%s", width, look, found)
	}
}

// startGallery serves the gallery until the test ends, and returns where it is. However long the test takes, its
// machines stay as they are when somebody first looks at them.
func startGallery(t *testing.T) (address string) {
	t.Helper()
	address, _ = playGallery(t)
	return address
}

// playGallery is [startGallery] of machines for which time goes on as the test says, from one afternoon on.
func playGallery(t *testing.T) (address string, pass func(time.Duration)) {
	t.Helper()
	var passed atomic.Int64
	now := func() time.Time {
		return time.Date(2026, time.May, 12, 15, 4, 5, 0, time.UTC).Add(time.Duration(passed.Load()))
	}
	ctx, end := context.WithCancel(context.Background())
	said, says := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, []string{"--listen=127.0.0.1:0"}, clock.Of(now, clock.Program().Elapsed), says, t.Output())
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
	return address, func(d time.Duration) { passed.Add(int64(d)) }
}

// A stop is what has the focus after a press of the Tab key.
type stop struct {
	Name    string `json:"name"`
	Visible bool   `json:"visible"` // that it has the focus, and itself
}

// walk presses Tab until the focus has been everywhere and leaves the page. What
// has the focus must be visible, and so must be that it has the focus.
func walk(t *testing.T, b *browser.Tab) {
	t.Helper()
	for range 500 {
		b.Do(chromedp.KeyEvent(kb.Tab))
		focused := browser.Ask[*stop](b, `(() => {
		  const e = document.activeElement;
		  if (!e || e === document.body || e.dataset.walked) return null;
		  e.dataset.walked = "yes";
		  const style = getComputedStyle(e), box = e.getBoundingClientRect();
		  const ring = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1;
		  const name = (e.getAttribute("aria-label") || e.innerText || e.title || e.id || e.className || e.tagName).trim().slice(0, 60);
		  return { name: e.tagName.toLowerCase() + " " + name,
		    visible: ring && box.width > 0 && box.height > 0 && box.bottom > 0 && box.top < innerHeight };
		})()`)
		if focused == nil {
			return
		}
		if !focused.Visible {
			t.Errorf("%s has the focus, and that is not visible", focused.Name)
		}
	}
	t.Fatal("the focus never leaves the page")
}

// The Tab key reaches every control, in view and marked.
func TestKeyboardAlone(t *testing.T) {
	address, b := startGallery(t), openTab(t, 1440, 900)
	for _, state := range []string{"heat/", "fleet/", "eight/processes", "alerts/alerts", "eight/gpu/GPU-00000000-0000-4000-8000-000000000000"} {
		t.Run(state, func(t *testing.T) {
			lend(t, b)
			b.Visit(address + "state/" + state)
			b.Until(live)
			// Readings that come meanwhile would take the marks of what was walked with them.
			browser.Ask[bool](b, `(document.getElementById("pause").click(), true)`)
			walk(t, b)
			if missed := browser.Ask[[]string](b, `[...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex]")]
			  .filter((e) => e.checkVisibility({ visibilityProperty: true }) && !e.disabled && e.tabIndex >= 0 && !e.dataset.walked)
			  .map((e) => e.outerHTML.slice(0, 160))`); len(missed) > 0 {
				t.Errorf("the Tab key does not reach:\n%s", strings.Join(missed, "\n"))
			}
		})
	}
}

// What is chosen with keys is in the address, and a dialog gives the focus back to what has opened it.
func TestKeysThatChoose(t *testing.T) {
	b := quietTab(t, 1440, 900)
	b.Visit(startGallery(t) + "state/eight/processes")
	b.Until(live)
	const first = "tbody tr .of-name a"
	b.Do(chromedp.Focus(chromedp.CSS(first)), chromedp.KeyEvent(kb.Enter))
	b.Until(`document.querySelector("#process:modal") !== null && location.search.includes("process=")`)
	b.Do(chromedp.KeyEvent(kb.Escape))
	b.Until(`document.getElementById("process") === null && !location.search.includes("process=")`)
	b.Until(`document.activeElement?.closest("tbody tr .of-name") !== null`)
	b.Do(chromedp.NavigateBack())
	b.Until(`document.querySelector("#process:modal") !== null`)
	b.Do(chromedp.KeyEvent(kb.Escape))
	b.Until(`document.getElementById("process") === null`)

	b.Do(chromedp.Focus(chromedp.CSS("[name=q]")), chromedp.KeyEvent("carol"))
	b.Until(`location.search.includes("q=carol") && document.querySelectorAll("tbody tr").length === 2`)
	if !browser.Ask[bool](b, `document.activeElement?.name === "q" && document.activeElement.value === "carol"`) {
		t.Error("what is typed in has lost the focus")
	}

	b.Do(chromedp.KeyEvent("k", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
	b.Until(`document.querySelector("#palette:modal") !== null`)
	b.Do(chromedp.KeyEvent("about"))
	b.Until(`document.querySelectorAll("#palette .found a, #palette a").length === 1`)
	b.Do(chromedp.KeyEvent(kb.Enter))
	b.Until(`location.pathname.endsWith("/about") && document.readyState === "complete"`)
}

// Who asks the system for more contrast, or has colors of their own, gets a page without problems, too.
func TestContrast(t *testing.T) {
	address, b := startGallery(t), quietTab(t, 1440, 900)
	for _, path := range []string{"state/eight/", "state/fleet/", "state/alerts/alerts", "state/eight/processes"} {
		b.Visit(address + path)
		b.Until(live)
		for _, preference := range []string{"prefers-contrast: more", "forced-colors: active"} {
			b.Prefer(preference)
			b.Settle()
			if found := axe(t, b, ofDrawing); found != "" {
				t.Errorf("%s, %s:\n%s", path, preference, found)
			}
		}
	}
}
