//go:build !race

package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/internal/testkit/browser"
)

// The frame of all pages works by keyboard: the palette, the dialog of a process and the choice of colors.
func TestShellByKeyboard(t *testing.T) {
	t.Parallel()
	p := start(t, nil, fast, "--source=simulate:dgx-h100")
	tab := browser.Open(t, 1440, 900)
	tab.Visit(p.url)
	live := `document.getElementById("state").dataset.state === "live"`
	tab.Until(live)
	tab.Settle() // a browser drops what is pressed before it has drawn the page
	tab.Do(chromedp.KeyEvent("k", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
	tab.Until(`document.querySelector("#palette[open] [role=option]") !== null && document.activeElement.closest("#palette") !== null`)
	tab.Do(chromedp.KeyEvent("vllm"))
	tab.Until(`[...document.querySelectorAll("#palette [data-chosen]")].map((a) => a.querySelector("b").textContent).join() === "vllm serve"`)
	// The page goes on beside it.
	taken := browser.Ask[string](tab, `document.getElementById("state").dataset.taken`)
	tab.Until(fmt.Sprintf(`document.getElementById("state").dataset.taken > %q && document.querySelector("#palette[open] input").value === "vllm"`, taken))
	tab.Do(chromedp.KeyEvent(kb.Enter))
	tab.Until(`location.pathname === "/processes" && document.querySelector("#process:modal h2")?.textContent === "vllm serve"`)
	tab.Until(live)
	if got := browser.Ask[string](tab, `document.querySelector("#process-acts a").getAttribute("href")`); !strings.HasPrefix(got, "/gpu/GPU-") {
		t.Errorf("the process leads to %q", got)
	}
	tab.Settle()
	tab.Do(chromedp.KeyEvent(kb.Escape))
	tab.Until(`document.querySelector("#process") === null && location.search === ""`)

	// Sorting by a link changes the page in place, and Back leads back.
	tab.Do(chromedp.Evaluate[chromedp.Void](`void (window.mark = 1)`), chromedp.Click(`.of-memory a`))
	tab.Until(`document.querySelector(".of-memory[aria-sort=descending]") !== null && location.search === "?sort=memory" && window.mark === 1`)
	tab.Do(chromedp.Evaluate[chromedp.Void](`history.back()`))
	tab.Until(`document.querySelector(".of-power[aria-sort=descending]") !== null && location.search === "" && window.mark === 1`)

	// The choice of colors stays, and is there before a script of the page runs.
	background := `getComputedStyle(document.documentElement).backgroundColor`
	for _, want := range []string{"light rgb(246, 246, 243)", "dark rgb(11, 13, 14)"} {
		tab.Do(chromedp.Click(`.top > div > [data-theme-next]`))
		if got := browser.Ask[string](tab, `document.documentElement.dataset.theme + " " + `+background); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	tab.Visit(p.url + "about")
	if got := browser.Ask[string](tab, background); got != "rgb(11, 13, 14)" {
		t.Errorf("another page is %s", got)
	}
	tab.Settle()
	tab.Do(chromedp.Click(`.top > div > [data-theme-next]`))
	if browser.Ask[bool](tab, `"theme" in document.documentElement.dataset`) {
		t.Error("the system's colors do not come back")
	}
	tab.Quiet(leaves)
}

// Within two intervals, a page says that its server stands still, or that it is gone. So does the page of alerts.
func TestStateOfAServerThatHangs(t *testing.T) {
	t.Parallel()
	p := start(t, nil, fast, "--source=simulate:rtx-4090")
	for _, page := range []string{"", "alerts", "processes", "about"} {
		tab := browser.Open(t, 1440, 900)
		tab.Visit(p.url + page)
		state := `document.getElementById("state").dataset.state`
		tab.Until(state + ` === "live"`)
		shown := func(word string) string {
			return fmt.Sprintf(`document.getElementById("state").innerText.includes(%q)`, word)
		}
		tab.Until(shown("Live"))
		testkit.Until(t, "the page says that there is no news", func() bool {
			if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil { // once more: others may let it go on
				t.Fatal(err)
			}
			return browser.Ask[bool](tab, state+` === "silent" && `+shown("No updates")+` && getComputedStyle(document.querySelector("main")).filter === "grayscale(1)"`)
		})
		if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		tab.Until(state + ` === "live"`)
		tab.Do(chromedp.Click("#pause"))
		tab.Until(state + ` === "paused" && document.getElementById("pause").innerText.trim() === "Resume"`)
		tab.Do(chromedp.Click("#pause"))
		tab.Until(state + ` === "live" && document.getElementById("pause").innerText.trim() === "Pause"`)
	}
}
