package static_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/chromedp"

	"github.com/gpuwhy/gpuwhy/internal/alert"
	"github.com/gpuwhy/gpuwhy/internal/browsertest"
	"github.com/gpuwhy/gpuwhy/internal/contract"
)

// firing is an alert as the stream has it.
func firing(id, severity string, at time.Time) contract.Alert {
	text := at.UTC().Format(time.RFC3339Nano)
	return contract.Alert{ID: id, State: "firing", Since: text, Timestamp: text, Message: id + " is so.", Rule: "hot", Severity: severity}
}

// Who stands on an alert's button stays there, and sees it, whatever comes
// before it and however the others change places.
func TestAlertsLeaveTheFocus(t *testing.T) {
	now := time.Now()
	e := exampleNamed(t, "one", now)
	tab := browsertest.Open(t, 1440, 900)
	site := newSite(t, e.Snapshot, e.Why)
	visit(t, tab, site)
	shows := func(want string) {
		t.Helper()
		tab.Until(fmt.Sprintf(`[...document.querySelectorAll("#alerts > *")].map((e) => e.dataset.key).join(" ") === %q`, want))
		if got := browsertest.Ask[string](tab, `(document.activeElement.closest(".alert")?.dataset.key ?? document.activeElement.tagName) + " " + document.activeElement.checkVisibility()`); got != "c true" {
			t.Errorf("with %s the focus is on %s", want, got)
		}
	}
	site.send(t, "alert", firing("b", "warning", now))
	site.send(t, "alert", firing("c", "warning", now))
	tab.Until(`document.querySelectorAll("#alerts > *").length === 2`)
	tab.Do(chromedp.Click("#more-alerts"), chromedp.Focus("#alerts [data-key=c] button"))
	shows("b c")
	site.send(t, "alert", firing("c", "critical", now))
	shows("c b")
	site.send(t, "alert", firing("a", "critical", now))
	shows("c a b")
	site.send(t, "alert", firing("c", "info", now))
	shows("a b c")
	// Also where only the first is shown.
	tab.Do(chromedp.Evaluate[chromedp.Void](`document.getElementById("alerts").removeAttribute("data-open")`))
	shows("a b c")
	tab.Quiet()
}

// Nor does the page of alerts take it, when another order comes from the server
// while somebody types.
func TestThePageOfAlertsLeavesTheFocus(t *testing.T) {
	now := time.Now()
	e := exampleNamed(t, "one", now)
	tab := browsertest.Open(t, 1440, 900)
	site := newSite(t, e.Snapshot, e.Why)
	put := func(severities ...alert.Severity) {
		site.mu.Lock()
		defer site.mu.Unlock()
		site.standing = nil
		for i, severity := range severities {
			site.standing = append(site.standing, alert.Alert{ID: string(rune('a' + i)), Rule: "hot", Severity: severity, State: "firing", Message: "It is hot.", Since: now.Add(time.Duration(i-9) * time.Minute)})
		}
	}
	put("warning", "warning", "warning")
	tab.Visit(site.URL + base + "alerts")
	site.await(t)
	tab.Until(`document.getElementById("connection").dataset.state === "live"`)
	shows := func(want string) {
		t.Helper()
		tab.Until(fmt.Sprintf(`[...document.querySelectorAll("#firing > li")].map((e) => e.dataset.key).join(" ") === %q`, want))
		if got := browsertest.Ask[string](tab, `document.activeElement.closest("li")?.dataset.key + " " + document.activeElement.value + " " + document.activeElement.checkVisibility()`); got != "b half a sen true" {
			t.Errorf("with %s the focus is on %q", want, got)
		}
	}
	tab.Do(chromedp.Click("[data-key=b] summary"), chromedp.SendKeys("[data-key=b] [name=comment]", "half a sen"))
	shows("a b c")
	for i, tt := range []struct {
		want       string
		severities []alert.Severity
	}{
		{"b a c", []alert.Severity{"warning", "critical", "warning"}},
		{"a c b", []alert.Severity{"critical", "info", "warning"}},
		{"b c a", []alert.Severity{"info", "critical", "warning"}},
		{"d b c a", []alert.Severity{"info", "warning", "warning", "critical"}},
	} {
		put(tt.severities...)
		site.send(t, "alert", firing("news", "info", now.Add(time.Duration(i)*time.Second)))
		shows(tt.want)
	}
	if got := browsertest.Ask[int](tab, `document.querySelectorAll(".firing details[open]").length`); got != 1 {
		t.Errorf("%d alerts are open, want the one that was opened", got)
	}
	tab.Quiet()
}

// An alert that stands is told anew: how long ago it began, and how it is now.
// What is newer than that stays.
func TestAlertsAreToldAnew(t *testing.T) {
	now := time.Now()
	e := exampleNamed(t, "one", now)
	tab := browsertest.Open(t, 1440, 900)
	tab.Before(`window.setInterval = ((real) => (f, ms) => real(f, ms === 30000 ? 100 : ms))(setInterval)`)
	site := newSite(t, e.Snapshot, e.Why)
	site.standing = []alert.Alert{{ID: "a", Rule: "hot", Severity: "warning", State: "firing", Message: "10 s ago.", Since: now}}
	visit(t, tab, site)
	put := func(message string, at time.Time, news bool) {
		t.Helper()
		a, b := firing("a", "warning", at), firing("b", "warning", at)
		a.Message, b.Message = message, message
		site.mu.Lock()
		site.alerts, site.standing[0].Message = []contract.Alert{a, b}, message
		site.mu.Unlock()
		if news {
			site.send(t, "alert", a)
		}
	}
	says := func(want string) {
		t.Helper()
		tab.Until(fmt.Sprintf(`document.querySelector("[data-key=a] [data-f=message]").textContent.replaceAll("\u00a0", " ") === %q`, want))
	}
	put("10 s ago.", now, true)
	says("10 s ago.")
	put("40 s ago.", now.Add(30*time.Second), false)
	says("40 s ago.")
	put("It is newer.", now.Add(time.Hour), true)
	says("It is newer.")
	put("It is older.", now.Add(time.Minute), false)
	tab.Do(chromedp.Evaluate[chromedp.Void](`new Promise((done) => { const real = fetch; let n = 0; window.fetch = (...of) => { if (++n === 3) done(); return real(...of); }; })`, chromedp.EvalAwaitPromise))
	says("It is newer.")
	if got := browsertest.Ask[int](tab, `document.querySelectorAll("#alerts > *").length`); got != 1 {
		t.Errorf("%d alerts, want the one that was sent", got)
	}
	tab.Visit(site.URL + base + "alerts")
	tab.Until(`document.querySelector(".firing .says").textContent === "It is older."`)
	put("60 s ago.", now, false)
	tab.Until(`document.querySelector(".firing .says").textContent.replaceAll("\u00a0", " ") === "60 s ago."`)
	tab.Quiet()
}

// Of thousands of alerts the worst hundred are listed, and the page stays quick.
func TestThousandsOfAlerts(t *testing.T) {
	now := time.Now()
	e := exampleNamed(t, "one", now)
	tab := browsertest.Open(t, 1440, 900)
	site := newSite(t, e.Snapshot, e.Why)
	visit(t, tab, site)
	tab.Do(chromedp.Evaluate[chromedp.Void](`void (window.long = 0, new PerformanceObserver((l) => { for (const e of l.getEntries()) long = Math.max(long, e.duration); }).observe({ type: "longtask" }))`))
	for i := range 3000 {
		severity := "info"
		if i == 2500 {
			severity = "critical"
		}
		site.send(t, "alert", firing(fmt.Sprintf("a%d", i), severity, now))
	}
	tab.Until(`document.getElementById("more-alerts").textContent === "Show the worst 100 of 3000"`)
	if got := browsertest.Ask[string](tab, `document.querySelectorAll("#alerts > *").length + " " + document.querySelector("#alerts > *").dataset.key`); got != "100 a2500" {
		t.Errorf("it lists %s", got)
	}
	over := firing("a2500", "critical", now)
	over.State = "resolved"
	site.send(t, "alert", over)
	tab.Until(`document.querySelector("#alerts > *").dataset.key === "a0"`)
	site.publish(t, exampleNamed(t, "one", time.Now()).Snapshot, "next")
	untilWhy(t, tab, "next")
	if !browsertest.Ask[bool](tab, `document.title.startsWith("▲")`) {
		t.Error("the title does not tell of them")
	}
	t.Logf("the longest task took %.0f ms", browsertest.Ask[float64](tab, `long`))
	tab.Quiet()
}

// A person who comes back to a page that is paused sees that, and how old what
// is shown is; from a minute on it is greyed.
func TestAPausedPageGrowsOld(t *testing.T) {
	now := time.Now()
	e := exampleNamed(t, "one", now)
	tab := browsertest.Open(t, 390, 844)
	site := newSite(t, e.Snapshot, e.Why)
	visit(t, tab, site)
	grey := `getComputedStyle(document.querySelector("main")).filter === "grayscale(1)"`
	if browsertest.Ask[bool](tab, `document.getElementById("paused").checkVisibility() || `+grey) {
		t.Error("it is paused from the beginning")
	}
	tab.Do(chromedp.Click("#pause"))
	tab.Until(`/^Paused: what is shown is \d+\ss old\.$/.test(document.getElementById("paused").innerText) && document.getElementById("age").textContent === "paused"`)
	later := func(d time.Duration, why string) {
		t.Helper()
		tab.Do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`void (window.realNow ??= Date.now, Date.now = () => realNow.call(Date) + %d)`, d.Milliseconds())))
		site.publish(t, exampleNamed(t, "one", time.Now().Add(d)).Snapshot, why)
	}
	later(30*time.Second, "half a minute later")
	tab.Until(`/ 3\d\ss old/.test(document.getElementById("paused").innerText) && !document.body.hasAttribute("data-stale") && !document.body.hasAttribute("data-old")`)
	later(3*time.Hour, "three hours later")
	tab.Until(`document.getElementById("paused").innerText.replaceAll("\u00a0", " ") === "Paused: what is shown is 3 h 0 min old." && !document.body.hasAttribute("data-stale") && ` + grey)
	// Also by who has gone down.
	tab.Do(chromedp.Evaluate[chromedp.Void](`window.scrollTo(0, 1e6)`))
	if y := browsertest.Ask[float64](tab, `document.getElementById("paused").getBoundingClientRect().top`); y != 0 {
		t.Errorf("it is at %g of the window", y)
	}
	tab.Do(chromedp.Evaluate[chromedp.Void](`window.scrollTo(0, 0)`), chromedp.Click("#pause"))
	untilWhy(t, tab, "three hours later")
	tab.Until(`!document.body.hasAttribute("data-old") && document.getElementById("paused").hidden && document.getElementById("age").textContent.startsWith("updated")`)
	tab.Quiet()
}

// The browser's own notifications and sound, with its permission.
func TestTheBrowserTells(t *testing.T) {
	now := time.Now()
	e := exampleNamed(t, "one", now)
	tab := browsertest.Open(t, 1440, 900)
	site := newSite(t, e.Snapshot, e.Why)
	visit(t, tab, site)
	tab.Do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, browser.SetPermission, browser.SetPermissionParams{
			Origin: site.URL, BrowserContextID: chromedp.FromContext(ctx).BrowserContextID,
			Permission: &browser.PermissionDescriptor{Name: "notifications"}, Setting: browser.PermissionSettingGranted,
		})
		return err
	}))
	tab.Do(chromedp.Evaluate[chromedp.Void](`void (window.told = [], window.sounds = [],
	  window.Notification = class extends Notification { constructor(...of) { super(...of); told.push(this); this.onshow = () => { this.seen = true; }; this.onerror = () => { this.refused = true; }; } },
	  window.AudioContext = class extends AudioContext { constructor() { super(); sounds.push(this); } })`))
	tab.Do(chromedp.Click(".menu summary"), chromedp.Click("#notify"), chromedp.Click("#sound"))
	tab.Until(`Notification.permission === "granted" && document.getElementById("notify").checked && document.getElementById("told").textContent === ""`)
	tab.Until(`sounds.length === 1 && sounds[0].state === "running" && sounds[0].currentTime > 0.6`)
	site.publish(t, exampleNamed(t, "one", time.Now()).Snapshot, "next")
	untilWhy(t, tab, "next")
	site.send(t, "alert", firing("<b>a</b>", "warning", now))
	tab.Until(`told.length === 1 && (told[0].seen || told[0].refused)`)
	if got := browsertest.Ask[string](tab, `[told[0].title, told[0].body, told[0].tag, told[0].seen === true, sounds.length].join("|")`); got != "Warning|<b>a</b> is so.|<b>a</b>|true|1" {
		t.Errorf("it tells %s", got)
	}
	tab.Quiet()
}
