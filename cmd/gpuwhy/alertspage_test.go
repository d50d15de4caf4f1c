//go:build !race

package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/internal/testkit/browser"
	"github.com/gpuwhy/gpuwhy/sampler/nvml/fakenvml"
)

// hotCard starts the program on one card that is too hot, and waits for its
// alert.
func hotCard(t *testing.T, args ...string) (*program, *fakenvml.Machine, contract.Alert) {
	t.Helper()
	lib, m := machine(t, fakenvml.RTX4090())
	m.GPU(0).Set(fakenvml.Temperature, 88)
	m.GPU(0).SetProcesses()
	rules := rulesFile(t, hotRules)
	p := start(t, lib.Env(), append([]string{fast, "--alert-rules=" + rules}, args...)...)
	return p, m, p.dial().nextAlert("it is hot", func(a contract.Alert) bool { return a.Rule == "hot" && a.State == "firing" })
}

// alerts returns what the API says about alerts.
func (p *program) alerts() (list contract.Alerts) {
	p.t.Helper()
	p.get("/api/alerts", &list)
	return list
}

// click clicks a visible element from a script. A browser that has not drawn a page yet would drop a mouse click.
func click(t *testing.T, b *browser.Tab, sel string) {
	t.Helper()
	testkit.Until(t, "it can be pressed: "+sel, func() bool {
		return browser.Ask[bool](b, fmt.Sprintf(`((e) => e?.checkVisibility({ visibilityProperty: true }) === true && (e.click(), true))(document.querySelector(%q))`, sel))
	})
}

// press presses the first button with that text.
func press(b *browser.Tab, in, label string) {
	find := fmt.Sprintf(`[...document.querySelectorAll(%q)].find((e) => e.checkVisibility() && e.textContent.replace(/\s+/g, " ").trim() === %q)`, in+" button", label)
	b.Until(find + ` !== undefined`)
	browser.Ask[bool](b, `(`+find+`.click(), true)`)
}

// Answers to an alert on its page reach the API, another tab and the dashboard, and can be
// taken back.
func TestThePageOfAlerts(t *testing.T) {
	t.Parallel()
	p, m, fired := hotCard(t, "--base-path=/gpus/")
	tab, second, front := quietTab(t, 1440, 900), quietTab(t, 390, 844), quietTab(t, 1440, 900)
	visit := func(b *browser.Tab, path string) {
		t.Helper()
		b.Visit(p.url + path)
	}
	says := func(b *browser.Tab, text string, there bool) {
		t.Helper()
		b.Until(fmt.Sprintf(`document.querySelector("main").textContent.replaceAll("\u00a0", " ").includes(%q) === %t`, text, there))
	}
	visit(tab, "alerts")
	browser.Ask[bool](tab, `(document.querySelector(".al [name=comment]").value = "<b>soon</b> \u202etxet", true)`)
	press(tab, ".al", "Acknowledge")
	known := "acknowledged by " + owner() + ": <b>soon</b> \ufffdtxet"
	says(tab, known, true)
	visit(second, "alerts")
	says(second, known, true)
	says(second, "Nothing new needs attention.", true)
	visit(front, "")
	says(front, "No new alerts: 1 is acknowledged or silenced.", true)
	if a := p.alerts().Alerts; len(a) != 1 || a[0].Acknowledged == nil || a[0].Acknowledged.Comment != "<b>soon</b> \u202etxet" {
		t.Errorf("the API: %+v", a)
	}
	visit(second, "alerts?only=acknowledged")
	click(t, second, ".al summary")
	press(second, ".al", "Undo the acknowledgment")
	says(second, "No alert matches.", true)

	visit(tab, "alerts")
	press(tab, ".al", "8 h")
	tab.Until(`document.querySelector("details[data-key=silenced]") !== null`)
	if list := p.alerts(); len(list.Silences) != 1 || list.Alerts[0].SilencedUntil == nil || list.Silences[0].Rule != "hot" || list.Silences[0].GPUUUID != fired.GPUUUID {
		t.Errorf("the API: %+v", list.Silences)
	}
	visit(second, "alerts?tab=silenced")
	press(second, "#silences", "End it")
	says(second, "No silence is active.", true)

	// A silence of more.
	visit(tab, "alerts?tab=silenced")
	click(t, tab, "#new-silence summary")
	browser.Ask[bool](tab, `((f) => { f.rule.value = "hot"; f.comment.value = "half a sentence"; f.duration_seconds.value = "604800"; return true; })(document.querySelector("#new-silence form"))`)
	press(tab, "#new-silence", "Silence")
	tab.Until(`document.querySelector("#silences").textContent.includes("created by ` + owner() + `: half a sentence")`)
	if list := p.alerts(); len(list.Silences) != 1 || list.Silences[0].GPUUUID != "" || list.Silences[0].Comment != "half a sentence" {
		t.Errorf("the API: %+v", list.Silences)
	}
	press(tab, "#silences", "End it")
	says(tab, "No silence is active.", true)

	// Its card is gone: nothing ends the alert but a person.
	m.GPU(0).Lost()
	p.dial().nextAlert("nothing is reported", func(a contract.Alert) bool { return a.ID == fired.ID && a.State == "no_data" })
	visit(tab, "alerts")
	press(tab, ".al", "Dismiss: the GPU is gone for good")
	says(tab, "Nothing needs attention.", true)
	visit(second, "alerts?tab=history")
	says(second, "Dismissed by hand", true)
}

// One viewer's answer shows up on the open pages of others, and what they are typing there stays.
func TestOthersAnswersShowUp(t *testing.T) {
	t.Parallel()
	p, m, _ := hotCard(t)
	tab, second, front := quietTab(t, 1440, 900), quietTab(t, 390, 844), quietTab(t, 1440, 900)
	for b, path := range map[*browser.Tab]string{tab: "alerts", second: "alerts?tab=silenced", front: ""} {
		b.Visit(p.url + path)
		b.Until(live)
	}
	says := func(b *browser.Tab, text string) {
		t.Helper()
		b.Until(fmt.Sprintf(`document.querySelector("main").textContent.replaceAll("\u00a0", " ").includes(%q)`, text))
	}
	const comment = "#new-silence [name=comment]"
	click(t, second, "#new-silence summary")
	second.Settle()
	second.Do(chromedp.Focus(chromedp.CSS(comment)), chromedp.SendKeys(chromedp.CSS(comment), "half a sen"))
	says(front, "GPU 0 is at 88 °C. Above 80 °C.")
	// The answer comes after what is shown, when the row has gone.
	browser.Ask[bool](tab, `(({ fetch }) => { window.fetch = async (...asked) => {
		const answer = await fetch(...asked);
		while (document.querySelector(".al > form")) await new Promise((shown) => setTimeout(shown, 10));
		return answer;
	}; return true; })(window)`)
	tab.Do(chromedp.Focus(chromedp.CSS(".al > form [formaction$='/silence']")), chromedp.KeyEvent("\r"))
	says(tab, "Nothing new needs attention.")
	tab.Until(`document.activeElement.id === "open"`)
	says(front, "No new alerts: 1 is acknowledged or silenced.")
	says(second, "created by "+owner())
	if !browser.Ask[bool](second, `document.activeElement.value === "half a sen" && document.activeElement.closest("details").open`) {
		t.Error("what was being typed is gone, or has lost the focus")
	}
	press(second, "#silences", "End it")
	says(tab, "GPU 0 is at 88 °C.")
	front.Do(chromedp.Focus(chromedp.CSS("#alerts [formaction$='/acknowledge']")), chromedp.KeyEvent("\r"))
	says(front, "No new alerts: 1 is acknowledged or silenced.")
	front.Until(`document.activeElement.id === "alerts"`)
	says(tab, "acknowledged by "+owner())
	m.GPU(0).Set(fakenvml.Temperature, 50)
	says(tab, "Nothing needs attention.")
	says(front, "No alert needs attention.")
}

// A page that can't reach the server says so at the pressed button.
func TestAlertsOfAServerThatIsGone(t *testing.T) {
	t.Parallel()
	p, _, _ := hotCard(t)
	b := quietTab(t, 1440, 900)
	b.Visit(p.url + "alerts")
	b.Do(chromedp.Evaluate[chromedp.Void](`void (window.fetch = async () => { throw new Error("cut"); })`))
	press(b, ".al", "Got it")
	b.Until(`document.querySelector(".al output").textContent.includes("isn’t answering")`)
}

// Without JavaScript, forms lead back to their page, even if the browser does not mark a
// request as same-site, as on plain HTTP.
func TestAlertsWithoutJavaScript(t *testing.T) {
	t.Parallel()
	p, _, fired := hotCard(t, "--allow-host=gpubox.test")
	b := browser.Open(t, 1440, 900, chromedp.Flag("host-resolver-rules", "MAP gpubox.test 127.0.0.1"))
	t.Cleanup(func() { b.Quiet(leaves, "Cross-Origin-Opener-Policy header has been ignored") }) // as it is on plain HTTP
	browser.Call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	site := strings.Replace(p.url, "127.0.0.1", "gpubox.test", 1)
	// sends presses what sends a form, and waits for what only the page has to
	// which its answer leads.
	sends := func(press, then, path string) {
		t.Helper()
		click(t, b, press)
		b.Do(chromedp.WaitReady(chromedp.CSS(then)))
		if location := browser.Ask[string](b, `location.pathname + location.search`); location != path {
			t.Errorf("%s leads to %s, want %s", press, location, path)
		}
	}
	const gone = "#no-alert:not([hidden])"
	b.Visit(site + "alerts?group=gpu")
	sends(".al > form [formaction$='/acknowledge']", gone, "/alerts?group=gpu")
	if a := p.alerts().Alerts; len(a) != 1 || a[0].Acknowledged == nil || a[0].Acknowledged.By != owner() {
		t.Errorf("acknowledged: %+v", a)
	}
	b.Visit(site + "alerts?only=acknowledged")
	click(t, b, ".al summary")
	sends("[action$='/unacknowledge'] button", gone, "/alerts?only=acknowledged")
	b.Visit(site + "alerts")
	sends(".al > form [formaction$='/silence']", gone, "/alerts")
	b.Visit(site + "alerts?tab=silenced")
	sends("#silences button", "#no-silence:not([hidden])", "/alerts?tab=silenced")
	if list := p.alerts(); list.Alerts[0].Acknowledged != nil || len(list.Silences) != 0 {
		t.Errorf("taken back: %+v", list)
	}
	b.Visit(site)
	sends("#alerts [formaction$='/silence']", "#alerts .quiet", "/")
	p.ask("DELETE", "/api/silences/"+p.alerts().Silences[0].ID, "", nil)
	b.Visit(site + "gpu/" + fired.GPUUUID)
	sends("#alerts [formaction$='/acknowledge']", "#alerts .quiet", "/gpu/"+fired.GPUUUID)
	if text := browser.Ask[string](b, `document.querySelector("#alerts").innerText`); !strings.Contains(text, "No new alerts: 1 is acknowledged or silenced.") {
		t.Errorf("the page shows %q", text)
	}
}

// Several alerts can be answered at once, also without JavaScript: the chosen ones, or all that are shown.
func TestSeveralAlertsAtOnce(t *testing.T) {
	t.Parallel()
	lib, m := machine(t, fakenvml.RTX4090(), fakenvml.RTX4090().At(2), fakenvml.RTX4090().At(3))
	for i := range 3 {
		m.GPU(i).Set(fakenvml.Temperature, 88)
	}
	rules := rulesFile(t, hotRules)
	p := start(t, lib.Env(), fast, "--alert-rules="+rules)
	p.dial().nextAlert("all are hot", func(contract.Alert) bool { return len(p.alerts().Alerts) == 3 })
	b := browser.Open(t, 390, 844)
	browser.Call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	count := func(what string) int {
		return browser.Ask[int](b, fmt.Sprintf(`document.querySelectorAll(%q).length`, what))
	}
	b.Visit(p.url + "alerts")
	if n := count(".al"); n != 3 || browser.Ask[bool](b, `document.querySelector("#chosen button").checkVisibility({ visibilityProperty: true })`) {
		t.Fatalf("%d alerts, or one can answer those chosen while none is", n)
	}
	click(t, b, ".al:nth-child(2) input[type=checkbox]")
	click(t, b, "#chosen [formaction$='/silence']")
	b.Do(chromedp.WaitReady(chromedp.CSS("#alert-groups .al:nth-child(2):last-child")))
	if list := p.alerts(); len(list.Silences) != 1 || list.Alerts[1].SilencedUntil == nil || list.Alerts[0].SilencedUntil != nil {
		t.Errorf("silenced: %+v", list.Silences)
	}
	click(t, b, "#shown button")
	b.Do(chromedp.WaitReady(chromedp.CSS("#no-alert:not([hidden])")))
	for i, a := range p.alerts().Alerts {
		if (a.Acknowledged != nil) != (i != 1) {
			t.Errorf("alert %d: %+v", i, a.Acknowledged)
		}
	}
	if n := count(".quiet-fold"); n != 2 {
		t.Errorf("%d folds", n)
	}
}
