package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/gpuwhy/gpuwhy/internal/browsertest"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/sampler/nvml/fakenvml"
)

// hotCard starts the program on one card that is too hot, and waits for its
// alert.
func hotCard(t *testing.T, args ...string) (*program, *fakenvml.Machine, contract.Alert) {
	t.Helper()
	lib, m := machine(t, fakenvml.RTX4090())
	m.GPU(0).Set(fakenvml.Temperature, 88)
	m.GPU(0).SetProcesses()
	rules := rulesFile(t, "rules: [{name: hot, above: 80, hold: 0s, clear: 0s, cooldown: 0s, enabled: true}, {name: too_hot, enabled: false}, {name: high_gpu_usage, enabled: false}, {name: lost, enabled: false}]")
	p := start(t, lib.Env(), append([]string{fast, "--alert-rules=" + rules}, args...)...)
	return p, m, p.dial().nextAlert("it is hot", func(a contract.Alert) bool { return a.Rule == "hot" && a.State == "firing" })
}

// alerts is what the API says of alerts.
func (p *program) alerts() (list contract.Alerts) {
	p.t.Helper()
	p.get("/api/alerts", &list)
	return list
}

func click(sel string) chromedp.Action[chromedp.Void] { return chromedp.Click(chromedp.CSS(sel)) }

// press presses the first button of that text.
func press(b *browsertest.Tab, in, label string) {
	find := fmt.Sprintf(`[...document.querySelectorAll(%q)].find((e) => e.checkVisibility() && e.textContent.replace(/\s+/g, " ").trim() === %q)`, in+" button", label)
	b.Until(find + ` !== undefined`)
	browsertest.Ask[bool](b, `(`+find+`.click(), true)`)
}

// What is said of an alert on its page is known to the API, to another tab and
// to the dashboard, and can be taken back.
func TestThePageOfAlerts(t *testing.T) {
	t.Parallel()
	p, m, fired := hotCard(t, "--base-path=/gpus/")
	tab, second, front := quietTab(t, 1440, 900), quietTab(t, 390, 844), quietTab(t, 1440, 900)
	for _, b := range []*browsertest.Tab{tab, second} {
		b.Visit(p.url + "alerts")
		b.Until(live)
	}
	front.Visit(p.url)
	front.Until(live)
	everywhere := func(text string, there bool) {
		t.Helper()
		for _, b := range []*browsertest.Tab{tab, second, front} {
			b.Until(fmt.Sprintf(`document.querySelector("main").textContent.replaceAll("\u00a0", " ").includes(%q) === %t`, text, there))
		}
	}
	// While one is typing in another form, which stays as it is.
	tab.Do(click("#new-silence summary"), chromedp.Focus(chromedp.CSS("#new-silence [name=comment]")), chromedp.SendKeys(chromedp.CSS("#new-silence [name=comment]"), "half a sen"))
	browsertest.Ask[bool](second, `(document.querySelector(".firing [name=comment]").value = "<b>soon</b> \u202etxet", true)`)
	press(second, ".firing", "Acknowledge")
	everywhere("acknowledged by local owner: <b>soon</b> \ufffdtxet", true)
	if !browsertest.Ask[bool](tab, `document.activeElement.value === "half a sen" && document.activeElement.closest("details").open`) {
		t.Error("what was being typed is gone, or has lost the focus")
	}
	if a := p.alerts().Alerts; len(a) != 1 || a[0].Acknowledged == nil || a[0].Acknowledged.Comment != "<b>soon</b> \u202etxet" {
		t.Errorf("the API: %+v", a)
	}
	press(tab, ".firing", "Take the acknowledgment back")
	everywhere("acknowledged by", false)

	press(tab, ".firing", "8 h")
	everywhere("silenced until ", true)
	if list := p.alerts(); len(list.Silences) != 1 || list.Alerts[0].SilencedUntil == nil || list.Silences[0].Rule != "hot" || list.Silences[0].GPUUUID != fired.GPUUUID {
		t.Errorf("the API: %+v", list.Silences)
	}
	press(second, "#silences", "End it")
	everywhere("silenced until ", false)

	// A silence of more, with what was typed before.
	browsertest.Ask[bool](tab, `((f) => { f.rule.value = "hot"; f.duration_seconds.value = "604800"; return true; })(document.querySelector("#new-silence form"))`)
	press(tab, "#new-silence", "Silence")
	tab.Until(`document.querySelector("#silences").textContent.includes("made by local owner: half a sen")`)
	if list := p.alerts(); len(list.Silences) != 1 || list.Silences[0].GPUUUID != "" || list.Silences[0].Comment != "half a sen" {
		t.Errorf("the API: %+v", list.Silences)
	}
	press(tab, "#silences", "End it")

	// Its card is gone: nothing ends the alert but a person.
	m.GPU(0).Lost()
	p.dial().nextAlert("nothing is reported", func(a contract.Alert) bool { return a.ID == fired.ID && a.State == "no_data" })
	press(tab, ".firing", "Dismiss: its GPU is gone for good")
	for _, b := range []*browsertest.Tab{tab, second} {
		b.Until(`document.querySelectorAll(".firing").length === 0 && document.querySelector("[role=status].why").textContent === "Nothing fires."`)
		b.Until(`document.querySelector("[aria-labelledby=past-title]").textContent.includes("Dismissed by hand")`)
	}
}

// The line above the cards does the same, there and on the card's own page.
func TestAlertsAreAnsweredWhereTheyStand(t *testing.T) {
	t.Parallel()
	p, _, fired := hotCard(t)
	for _, path := range []string{"", "gpu/" + fired.GPUUUID} {
		b := quietTab(t, 1440, 900)
		b.Visit(p.url + path)
		b.Until(live)
		b.Do(chromedp.Focus(chromedp.CSS("[data-do=acknowledge]")), chromedp.KeyEvent("\r"))
		b.Until(`document.querySelector("#alerts .said").textContent === "acknowledged by local owner"`)
		b.Until(`document.activeElement.matches("#alerts .said") && document.querySelector("[data-do=acknowledge]").hidden`)
		press(b, "#alerts", "Silence 1 h")
		b.Until(`/^acknowledged by local owner · silenced until \d+\/\d+\/\d{4}, [\d:]+ [AP]M UTC$/.test(document.querySelector("#alerts .said").textContent)`)
		// The first paint says what the script has written.
		said := browsertest.Ask[string](b, `document.querySelector("#alerts .said").textContent`)
		b.Visit(p.url + path)
		if first := browsertest.Ask[string](b, `document.querySelector("#alerts .said").textContent`); first != said {
			t.Errorf("%q: the first paint has %q, the script %q", path, first, said)
		}
		b.Until(live)
		p.ask("DELETE", "/api/silences/"+p.alerts().Silences[0].ID, "", nil)
		p.ask("DELETE", "/api/alerts/"+fired.ID+"/acknowledge", "", nil)
		b.Until(`document.querySelector("#alerts .said").textContent === "" && !document.querySelector("[data-do=silence]").hidden`)
	}
	// A page that can't reach the server says so where one has pressed.
	b := quietTab(t, 1440, 900)
	b.Visit(p.url)
	b.Until(live)
	b.Do(chromedp.Evaluate[chromedp.Void](`void (window.fetch = async () => { throw new Error("cut"); })`))
	press(b, "#alerts", "Acknowledge")
	b.Until(`document.querySelector("#alerts output").textContent.includes("does not answer")`)
}

// Without JavaScript forms lead back to the page that they are on, also where
// the browser does not say that a request is of the same site, as it does not on
// plain HTTP.
func TestAlertsWithoutJavaScript(t *testing.T) {
	t.Parallel()
	p, _, fired := hotCard(t, "--allow-host=gpubox.test")
	b := browsertest.Open(t, 1440, 900, chromedp.Flag("host-resolver-rules", "MAP gpubox.test 127.0.0.1"))
	t.Cleanup(func() { b.Quiet("Cross-Origin-Opener-Policy header has been ignored") }) // as it is on plain HTTP
	browsertest.Call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	site := strings.Replace(p.url, "127.0.0.1", "gpubox.test", 1)
	// sends presses what sends a form, and waits for what only the page has to
	// which its answer leads.
	sends := func(press, then, path string) {
		t.Helper()
		b.Do(click(press), chromedp.WaitReady(chromedp.CSS(then)))
		if at := browsertest.Ask[string](b, `location.pathname`); at != path {
			t.Errorf("%s leads to %s, want %s", press, at, path)
		}
	}
	b.Visit(site + "alerts")
	sends("[formaction$='/acknowledge']", "[action$='/unacknowledge']", "/alerts")
	if a := p.alerts().Alerts; len(a) != 1 || a[0].Acknowledged == nil || a[0].Acknowledged.By != "local owner" {
		t.Errorf("acknowledged: %+v", a)
	}
	sends("[action$='/unacknowledge'] button", "[formaction$='/acknowledge']", "/alerts")
	sends("[formaction$='/silence']", "#silences button", "/alerts")
	sends("#silences button", "[formaction$='/silence']", "/alerts")
	if list := p.alerts(); list.Alerts[0].Acknowledged != nil || len(list.Silences) != 0 {
		t.Errorf("taken back: %+v", list)
	}
	b.Visit(site)
	sends("[data-do=silence]", "#alerts [data-do=silence][hidden]", "/")
	b.Visit(site + "gpu/" + fired.GPUUUID)
	sends("[data-do=acknowledge]", "#alerts [data-do=acknowledge][hidden]", "/gpu/"+fired.GPUUUID)
	if text := browsertest.Ask[string](b, `document.querySelector("#alerts").innerText`); !strings.Contains(text, "acknowledged by local owner · silenced until ") {
		t.Errorf("the page shows %q", text)
	}
}
