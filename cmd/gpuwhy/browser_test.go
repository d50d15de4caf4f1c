//go:build !race

package main

import (
	"os"
	"strconv"
	"syscall"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/testkit/browser"
	"github.com/gpuwhy/gpuwhy/sampler/nvml/fakenvml"
)

// live is the condition that a page follows the server.
const live = `document.getElementById("state")?.dataset.state === "live"`

// quietTab is a tab that must have logged nothing and asked no other host when the
// test ends.
func quietTab(t testing.TB, width, height int, more ...browser.Option) *browser.Tab {
	t.Helper()
	b := browser.Open(t, width, height, more...)
	t.Cleanup(func() { b.Quiet(leaves) })
	return b
}

// leaves is the browser's message if a page is left before it is connected, as on a slow machine.
const leaves = "WebSocket is closed before the connection is established"

func shows(text string) string {
	return `document.body.innerText.includes("` + text + `")`
}

func TestThePageFollowsTheDriverWithoutAReload(t *testing.T) {
	t.Parallel()
	lib, m := machine(t, fakenvml.RTX4090().With(fakenvml.Name, "<b>Card</b>"))
	m.GPU(0).SetProcesses(fakenvml.Process{PID: uint32(os.Getpid()), Type: "compute", Memory: 3 << 30, SM: 9})
	p := start(t, lib.Env(), fast, "--base-path=/gpus/")
	tab := browser.Open(t, 1440, 900)
	tab.Visit(p.url)
	tab.Until(live)
	if !browser.Ask[bool](tab, `performance.getEntriesByType("resource").every((r) => new URL(r.name).pathname.startsWith("/gpus/"))`) {
		t.Error("the page asks for something outside of its base path")
	}
	tab.Until(shows(`<b>Card</b>`))
	tab.Until(`document.querySelector(".processes [data-key$='/` + strconv.Itoa(os.Getpid()) + `']") !== null`)
	browser.Ask[any](tab, `window.loadedOnce = true`)

	m.GPU(0).Set(fakenvml.Temperature, 79)
	tab.Until(shows("79\u00a0°C"))
	m.GPU(0).Set(fakenvml.Utilization, 93)
	tab.Until(`document.getElementById("why").textContent.includes("93\u00a0%")`)
	m.GPU(0).Lost()
	tab.Until(`/lost/i.test(document.querySelector("h1").innerText)`)
	m.GPU(0).Back()
	tab.Until(shows("79\u00a0°C"))
	if !browser.Ask[bool](tab, `window.loadedOnce === true`) {
		t.Error("the page was loaded again")
	}
	tab.Quiet(leaves)
}

func TestThePageFindsARestartedServerAgain(t *testing.T) {
	t.Parallel()
	lib, m := machine(t, fakenvml.RTX4090())
	listen := "--listen=" + freeAddress(t)
	p := start(t, lib.Env(), fast, listen)
	tab := browser.Open(t, 390, 844)
	tab.Visit(p.url)
	tab.Until(live)
	if err := p.stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	tab.Until("!(" + live + ")")
	m.GPU(0).Set(fakenvml.Temperature, 64)
	again := start(t, lib.Env(), fast, listen)
	tab.Until(live)
	tab.Until(shows("64\u00a0°C"))
	if again.url != p.url {
		t.Errorf("the second one is at %s", again.url)
	}
	tab.Quiet("WebSocket connection to", "ERR_CONNECTION_REFUSED", "Failed to fetch") // while it was away
}

func TestThePageSaysWhyThereIsNoGPUAndGoesLive(t *testing.T) {
	t.Parallel()
	lib, _ := machine(t, fakenvml.RTX4090())
	if err := lib.Hide(); err != nil {
		t.Fatal(err)
	}
	p := start(t, lib.Env(), fast)
	tab := browser.Open(t, 1440, 900)
	tab.Visit(p.url)
	tab.Until(shows("libnvidia-ml.so.1"))
	tab.Until(shows("gpuwhy --source simulate:demo"))
	if err := lib.Show(); err != nil {
		t.Fatal(err)
	}
	tab.Until(shows("RTX 4090"))
	tab.Until("!" + shows("simulate:"))
	tab.Quiet(leaves)
}

// A link to this moment later shows what is shown now.
func TestALinkToThisMoment(t *testing.T) {
	t.Parallel()
	p := start(t, nil, "--source=simulate:dgx-h100", fast, "--state-dir="+t.TempDir())
	p.remembered()
	tab := quietTab(t, 1440, 900)
	tab.Visit(p.url)
	tab.Until(live)
	browser.Ask[bool](tab, `(document.getElementById("pause").click(), true)`) // the moment stays the same
	const headline = `[...document.querySelectorAll(":is(#past-then, main:not(:has(#past-then))) .headline :is(.who, .is)")].map((e) => e.textContent).join("")`
	link := browser.Ask[string](tab, `new Promise((done) => {
	  Object.defineProperty(navigator, "clipboard", { value: { writeText: async (text) => done(text) } });
	  document.getElementById("link").click();
	})`)
	said := browser.Ask[string](tab, headline)
	p.remembered()
	tab.Visit(link)
	tab.Until(`document.querySelector("#past-then .headline") !== null`)
	if then := browser.Ask[string](tab, headline); then != said {
		t.Errorf("%s shows %q, and it was %q", link, then, said)
	}
}
