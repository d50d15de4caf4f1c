package static_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alert"
	"github.com/gpuwhy/gpuwhy/internal/browsertest"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/fixture"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

func untilWhy(t *testing.T, tab *browsertest.Tab, why string) {
	t.Helper()
	tab.Until(fmt.Sprintf(`document.getElementById("why").textContent.replaceAll("\u00a0", " ") === %q`, why))
}

// visit opens the page and waits until it is live.
func visit(t *testing.T, tab *browsertest.Tab, site *site) {
	t.Helper()
	tab.Visit(site.URL + base)
	site.await(t)
	tab.Until(`document.getElementById("connection").dataset.state === "live"`)
}

// differences compares the page as it is with the page that the server would
// send now, element by element; charts and what tells of the connection aside.
const differences = `(async () => {
  // data-at is for the script that has written the moment anew.
  const served = new DOMParser().parseFromString(await (await fetch(location.href)).text(), "text/html");
  const lines = (doc) => {
    const out = [document.body.hasAttribute("data-stale") ? "" : doc.title];
    const walk = (el, depth) => {
      if (el.matches("#charts, #alerts, noscript, template, #age, #connection, .tools, dialog, #said, #wall-canvas, .trend")) return;
      const attributes = [...el.attributes].filter((a) => !(el === doc.body && /^data-(now|stale)$/.test(a.name)) && a.name !== "data-at")
        .map((a) => a.name + "=" + JSON.stringify(a.value)).sort().join(" ");
      const text = [...el.childNodes].filter((n) => n.nodeType === 3).map((n) => n.data.trim()).join("");
      out.push(" ".repeat(depth) + el.tagName.toLowerCase() + " " + attributes + " " + text);
      for (const child of el.children) walk(child, depth + 1);
    };
    walk(doc.body, 0);
    return out;
  };
  const live = lines(document), fresh = lines(served);
  const found = [];
  for (let i = 0; i < Math.max(live.length, fresh.length) && found.length < 12; i++) {
    if (live[i] !== fresh[i]) found.push("live:   " + live[i] + "\nserved: " + fresh[i]);
  }
  return found.join("\n");
})()`

func sameAsServed(t *testing.T, tab *browsertest.Tab) bool {
	t.Helper()
	diff := browsertest.Ask[string](tab, differences)
	if diff != "" {
		t.Errorf("the live page is not the served one:\n%s", diff)
	}
	return diff == ""
}

// A page that was kept live is the page that the server sends, to the letter,
// after any change of what the machine is like.
func TestLivePageIsTheServedPage(t *testing.T) {
	tab := browsertest.Open(t, 1440, 900)
	readIn(t, tab, "sv-SE", "UTC") // where moments are written as the server does
	site := newSite(t, nil, "The first reading is still under way.")
	visit(t, tab, site)
	tab.Do(chromedp.Evaluate[chromedp.Void](`void (window.sameDocument = true)`))
	sameAsServed(t, tab)
	now := time.Now()
	for _, name := range []string{"eight", "many", "no card", "no fan", "fleet", "one", "none", "fleet", "eight", "one"} {
		t.Run(name, func(t *testing.T) {
			now = now.Add(time.Second)
			e := exampleNamed(t, name, now)
			site.publish(t, e.Snapshot, e.Why)
			untilWhy(t, tab, e.Why)
			sameAsServed(t, tab)
		})
	}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 60 {
		now = now.Add(time.Second)
		why := fmt.Sprintf("Random machine %d.", i)
		site.publish(t, randomSnapshot(random, now), why)
		untilWhy(t, tab, why)
		if !sameAsServed(t, tab) {
			t.Fatalf("machine %d", i)
		}
	}
	if !browsertest.Ask[bool](tab, `window.sameDocument === true && document.scripts.length === 1`) {
		t.Error("the page was loaded anew, or has another script")
	}
	tab.Quiet()
}

// So is the page of one GPU, of which anything may be reported.
func TestLiveDevicePageIsTheServedPage(t *testing.T) {
	tab := browsertest.Open(t, 1440, 900)
	readIn(t, tab, "sv-SE", "UTC")
	random := rand.New(rand.NewPCG(3, 4))
	now := time.Now()
	machine := func() *gpu.Snapshot {
		now = now.Add(time.Second)
		s := randomSnapshot(random, now)
		s.Devices = append(s.Devices[:0], randomDevice(random, 7, s.Node, now), randomDevice(random, 8, s.Node, now))
		return s
	}
	site := newSite(t, machine(), "why")
	tab.Visit(site.URL + base + "gpu/GPU-7")
	site.await(t)
	for i := range 60 {
		s := machine()
		site.publish(t, s, "why")
		tab.Until(fmt.Sprintf(`document.body.dataset.taken === "%d"`, now.UnixMilli()))
		if !sameAsServed(t, tab) {
			t.Fatalf("machine %d", i)
		}
	}
	none := machine()
	none.Devices = none.Devices[1:]
	site.publish(t, none, "gone")
	tab.Until(`!document.getElementById("gone").hidden && document.querySelectorAll("#cards > li").length === 1`)
	tab.Quiet()
}

// readIn makes the page's reader one of that language and place.
func readIn(t *testing.T, tab *browsertest.Tab, locale, zone string) {
	t.Helper()
	browsertest.Call(tab, emulation.SetLocaleOverride, emulation.SetLocaleOverrideParams{Locale: locale})
	browsertest.Call(tab, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: zone})
}

// Once it is live, moments are written as the reader writes them, where they
// are.
func TestMomentsAreTheReaders(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	e := exampleNamed(t, "one", now)
	site := newSite(t, e.Snapshot, e.Why)
	for _, reader := range []struct{ locale, zone, began, state string }{
		{"de-DE", "Europe/Berlin", "02.01.2026, 10:46:00 MEZ", "30.12.2025, 10:00:00 MEZ"},
		{"en-US", "America/New_York", "01/02/2026, 04:46:00 AM EST", "12/30/2025, 04:00:00 AM EST"},
	} {
		tab := browsertest.Open(t, 1440, 900)
		readIn(t, tab, reader.locale, reader.zone)
		visit(t, tab, site)
		tab.Until(fmt.Sprintf(`document.querySelector("#processes time").title.replace(/\s/g, " ") === "since %s"`, reader.began))
		tab.Visit(site.URL + base + "gpu/" + e.Snapshot.Devices[0].UUID)
		site.await(t)
		tab.Until(fmt.Sprintf(`document.querySelector("[data-path=state_since]").textContent.replace(/\s/g, " ") === %q`, reader.state))
		tab.Quiet()
	}
}

// So they are before a message has come, on every page and in every tooltip.
func TestMomentsAreTheReadersAtOnce(t *testing.T) {
	e := exampleNamed(t, "eight", time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC))
	e.Snapshot.Devices[0].Health.XIDs = gpu.Of([]gpu.XID{{Code: 79, Count: 1, Last: e.Snapshot.Time.Add(-time.Hour)}})
	site := newSite(t, e.Snapshot, e.Why)
	began := e.Snapshot.Time.Add(-134 * time.Minute)
	site.causes = []explain.Cause{{
		ID: "work", Device: &e.Snapshot.Devices[0], Sentence: e.Why, Confidence: explain.High, Since: began,
		Evidence: []explain.Evidence{{Name: "work began", Text: "2026-01-02 09:46:00 UTC", At: began, Moment: true}},
	}}
	site.setRefuse(true)
	site.standing = []alert.Alert{{ID: "a", Rule: "hot", Severity: "warning", State: "firing", Device: e.Snapshot.Devices[0].Identity, Since: e.Snapshot.Time.Add(-time.Minute), SilencedUntil: e.Snapshot.Time.Add(time.Hour)}}
	tab := browsertest.Open(t, 1440, 900)
	readIn(t, tab, "de-DE", "Europe/Berlin")
	for path, want := range map[string][]string{
		"": {
			`document.querySelector(".alert").title === "since 02.01.2026, 12:59:00 MEZ"`,
			`document.querySelector(".alert .said").textContent === "silenced until 02.01.2026, 14:00:00 MEZ"`,
			`document.querySelector("#processes time").title === "since 02.01.2026, 10:00:00 MEZ"`,
			`document.querySelector("#causes [data-f=about]").textContent.includes("since 02.01.2026, 10:46:00 MEZ, for 2")`,
			`[...document.querySelectorAll("#causes b")].some((b) => b.textContent === "02.01.2026, 10:46:00 MEZ")`,
		},
		"gpu/" + e.Snapshot.Devices[0].UUID: {
			`document.querySelector("[data-path=state_since]").textContent === "30.12.2025, 10:00:00 MEZ"`,
			`document.querySelector("[data-list='health.xids'] [data-path=last]").textContent === "02.01.2026, 12:00:00 MEZ"`,
		},
		"gpu/" + e.Snapshot.Devices[6].UUID: {
			`document.querySelector("[data-path='memory.used_mb']").textContent === "not read since 31.12.2025, 11:00:00 MEZ"`,
		},
	} {
		tab.Visit(site.URL + base + path)
		tab.Until(`document.getElementById("connection").dataset.state !== "off"`)
		for _, condition := range want {
			if !browsertest.Ask[bool](tab, condition) {
				t.Errorf("%q: not %s", path, condition)
			}
		}
		if left := browsertest.Ask[string](tab, `[...document.querySelectorAll("body *")].flatMap((e) => [e.title ?? "", ...[...e.childNodes].filter((n) => n.nodeType === 3).map((n) => n.data)]).filter((s) => s.includes("UTC")).join("; ")`); left != "" {
			t.Errorf("%q still has %s", path, left)
		}
	}
	tab.Quiet("WebSocket connection to", "Failed to load resource")
}

// The evidence is there to be opened, stays open while it changes, and what
// processes call themselves is text in it.
func TestEvidenceStaysOpen(t *testing.T) {
	now := time.Now()
	machine := func(n int) *gpu.Snapshot {
		s := exampleNamed(t, "eight", now.Add(time.Duration(n)*time.Second)).Snapshot
		s.Devices = s.Devices[:5] // those that answer
		d := &s.Devices[1]        // the hottest
		d.Utilization.GPU = gpu.Of(gpu.Percent(90 + n))
		d.Processes = gpu.Of([]gpu.Process{{PID: 4242, Type: gpu.TypeCompute, Memory: gpu.Of(gpu.Bytes(1 << 30)), SM: gpu.Of(gpu.Percent(90)), Facts: gpu.ProcessFacts{Name: gpu.Of("<b>mallory")}}})
		return s
	}
	tab := browsertest.Open(t, 1440, 900)
	site := newSite(t, machine(0), "why")
	visit(t, tab, site)
	cards := browsertest.Ask[float64](tab, `document.getElementById("cards").getBoundingClientRect().top`)
	if browsertest.Ask[bool](tab, `document.getElementById("evidence").open`) {
		t.Error("it is open without being asked for")
	}
	tab.Do(chromedp.Focus("#evidence summary"), chromedp.KeyEvent("\r"))
	tab.Until(`document.getElementById("evidence").open && document.querySelector("#causes b").checkVisibility()`)
	tab.Do(chromedp.Evaluate[chromedp.Void](`void (window.first = document.querySelector("#causes > li"))`))
	for n := 1; n < 4; n++ {
		why := fmt.Sprintf("why %d", n)
		site.publish(t, machine(n), why)
		untilWhy(t, tab, why)
		text := browsertest.Ask[string](tab, `document.getElementById("causes").innerText`)
		for _, part := range []string{fmt.Sprintf("%d\u00a0%%", 90+n), "<b>mallory (pid\u00a04242)", "Certainty: "} {
			if !strings.Contains(text, part) {
				t.Errorf("%q is missing in %s", part, text)
			}
		}
	}
	if !browsertest.Ask[bool](tab, `document.getElementById("evidence").open && window.first.isConnected && document.activeElement.matches("#evidence summary")`) {
		t.Error("an update closes it, makes it anew, or takes the focus away")
	}
	tab.Do(chromedp.KeyEvent("\r"))
	tab.Until(`!document.getElementById("evidence").open`)
	site.publish(t, machine(4), "why 4")
	untilWhy(t, tab, "why 4")
	if browsertest.Ask[bool](tab, `document.getElementById("evidence").open`) {
		t.Error("an update opens it")
	}
	if got := browsertest.Ask[float64](tab, `document.getElementById("cards").getBoundingClientRect().top`); got != cards {
		t.Errorf("the cards are at %v, and were at %v", got, cards)
	}

	// A GPU's own page has it open, of that GPU alone, under its first cause.
	tab.Visit(site.URL + base + "gpu/" + machine(0).Devices[0].UUID)
	site.await(t)
	tab.Until(`document.getElementById("evidence").open && document.querySelector(".says").textContent.includes("GPU\u00a00") && document.querySelector(".headline").textContent.includes("GPU\u00a00")`)
	if text := browsertest.Ask[string](tab, `document.getElementById("evidence").innerText`); strings.Contains(text, "GPU 1") || strings.Contains(text, "mallory") {
		t.Errorf("the page of GPU 0 has %s", text)
	}
	// A message that has no room for it leaves what is known.
	u := newUpdate(machine(5), "why")
	u.Causes = u.Causes[:1]
	site.send(t, "gpu_status_update", u)
	tab.Until(fmt.Sprintf(`document.body.dataset.taken === "%d"`, now.Add(5*time.Second).UnixMilli()))
	if !browsertest.Ask[bool](tab, `document.querySelector(".says").textContent.includes("GPU\u00a00") && document.querySelectorAll("#causes > li").length > 0`) {
		t.Error("its causes are gone")
	}
	tab.Quiet()
}

// quickRetry takes the shortest of the waits between two connections.
const quickRetry = `Math.random = () => 0`

func TestReconnects(t *testing.T) {
	now := time.Now()
	e := exampleNamed(t, "one", now)
	tab := browsertest.Open(t, 1440, 900)
	site := newSite(t, e.Snapshot, e.Why)
	site.interval = time.Second // a reading is old after three
	tab.Before(quickRetry)
	visit(t, tab, site)

	site.setRefuse(true)
	site.cut()
	tab.Until(`document.getElementById("connection").dataset.state === "waiting"`)
	// Nothing comes: what is shown grows old, and says so.
	tab.Until(`document.body.hasAttribute("data-stale") && document.getElementById("age").textContent.startsWith("no reading for")`)

	site.setRefuse(false)
	site.await(t)
	tab.Until(`document.getElementById("connection").dataset.state === "live"`)
	e = exampleNamed(t, "eight", time.Now())
	site.publish(t, e.Snapshot, e.Why)
	untilWhy(t, tab, e.Why)
	tab.Until(`!document.body.hasAttribute("data-stale") && document.querySelectorAll("#cards > li").length === 8`)
	tab.Quiet("WebSocket connection to")
}

// Where something cuts WebSockets, the page asks by itself, until it may.
func TestAsksWithoutSocket(t *testing.T) {
	e := exampleNamed(t, "one", time.Now())
	tab := browsertest.Open(t, 1440, 900)
	site := newSite(t, e.Snapshot, e.Why)
	site.interval = time.Second // a reading is old after three
	site.setRefuse(true)
	tab.Before(quickRetry)
	tab.Visit(site.URL + base)
	tab.Until(`document.getElementById("connection").dataset.state === "polling"`)
	site.mu.Lock()
	e = exampleNamed(t, "eight", time.Now())
	site.snapshot, site.why, site.alerts = e.Snapshot, "asked for", []contract.Alert{{ID: "a", State: "firing", Severity: "warning", Since: e.Snapshot.Time.Format(time.RFC3339), Message: "first"}}
	site.mu.Unlock()
	untilWhy(t, tab, "asked for")
	tab.Until(`!document.body.hasAttribute("data-stale") && document.querySelectorAll("#cards > li").length === 8`)
	tab.Until(`document.getElementById("alerts").innerText.includes("first")`)
	site.mu.Lock()
	site.alerts = []contract.Alert{{ID: "b", State: "firing", Severity: "critical", Since: e.Snapshot.Time.Format(time.RFC3339), Message: "second"}}
	site.mu.Unlock()
	tab.Until(`document.getElementById("alerts").innerText.includes("second") && document.querySelectorAll("#alerts > *").length === 1`)

	site.setRefuse(false)
	site.await(t)
	tab.Until(`document.getElementById("connection").dataset.state === "live"`)
	site.publish(t, exampleNamed(t, "one", time.Now()).Snapshot, "live again")
	untilWhy(t, tab, "live again")
	tab.Until(`document.getElementById("alerts").innerText.includes("second")`)
	tab.Quiet("WebSocket connection to")
}

func TestPauseAndReadNow(t *testing.T) {
	now := time.Now()
	e := exampleNamed(t, "one", now)
	tab := browsertest.Open(t, 1440, 900)
	site := newSite(t, e.Snapshot, e.Why)
	visit(t, tab, site)
	tab.Do(chromedp.Click("#ask"))
	if got := <-site.requests; !strings.Contains(got, `"event":"request_gpu_update"`) {
		t.Errorf("it asks %s", got)
	}
	tab.Do(chromedp.Click("#pause"))
	site.publish(t, exampleNamed(t, "eight", time.Now()).Snapshot, "not yet")
	tab.Until(`document.title.startsWith("99\u00a0%")`) // it has come
	tab.Until(`document.getElementById("age").textContent === "paused" && /^Paused: what is shown is \d+\ss old\.$/.test(document.getElementById("paused").innerText)`)
	if got := browsertest.Ask[int](tab, `document.querySelectorAll("#cards > li").length`); got != 1 {
		t.Errorf("%d cards while it is paused, want 1", got)
	}
	tab.Do(chromedp.Click("#pause"))
	untilWhy(t, tab, "not yet")
	tab.Quiet()
}

// Whoever asks for it is told of alerts that fire from then on.
func TestTellsOfAlerts(t *testing.T) {
	now := time.Now()
	e := exampleNamed(t, "one", now)
	tab := browsertest.Open(t, 1440, 900)
	site := newSite(t, e.Snapshot, e.Why)
	at := now.UTC().Format(time.RFC3339Nano)
	uuid := e.Snapshot.Devices[0].UUID
	site.alerts = []contract.Alert{{ID: "old", State: "firing", GPUUUID: uuid, Since: at, Timestamp: at, Message: "it was firing before"}}
	visit(t, tab, site)
	tab.Do(chromedp.Evaluate[chromedp.Void](`void (window.told = [], window.tones = 0,
	  window.Notification = class { static permission = "granted"; static requestPermission = async () => "granted"; constructor(title, o) { told.push(title + ": " + o.body); } },
	  OscillatorNode.prototype.start = function () { tones++; }, OscillatorNode.prototype.stop = () => {})`))
	tab.Do(chromedp.Click(".menu summary"), chromedp.Click("#notify"), chromedp.Click("#sound"))
	tab.Until(`localStorage.getItem("gpuwhy notify") === "on" && localStorage.getItem("gpuwhy sound") === "on" && tones === 2`)
	site.publish(t, exampleNamed(t, "one", time.Now()).Snapshot, "next")
	alert := contract.Alert{ID: "new", State: "firing", GPUUUID: uuid, Since: at, Timestamp: at, Message: "<b>busy</b>", Rule: "high_gpu_usage", Severity: "warning"}
	site.send(t, "high_gpu_usage_alert", alert)
	site.send(t, "high_gpu_usage_alert", alert)
	alert.State = "resolved"
	site.send(t, "high_gpu_usage_alert", alert)
	tab.Until(`document.querySelector("#alerts > [data-state=resolved]") !== null`)
	if got := browsertest.Ask[string](tab, `told.join("; ") + " " + tones`); got != "High usage: <b>busy</b> 4" {
		t.Errorf("it tells %q", got)
	}
	site.publish(t, exampleNamed(t, "one", time.Now()).Snapshot, "last")
	tab.Until(`document.title.startsWith("▲ 97\u00a0%") && document.querySelector("link[rel=icon]").href.startsWith("data:image/svg+xml,")`)
	tab.Quiet()
}

func TestReportHasNoNames(t *testing.T) {
	e := exampleNamed(t, "eight", time.Now())
	tab := browsertest.Open(t, 1440, 900)
	site := newSite(t, e.Snapshot, e.Why)
	visit(t, tab, site)
	tab.Do(chromedp.Evaluate[chromedp.Void](`void (Object.defineProperty(navigator, "clipboard", { value: { writeText: async (text) => { window.copied = text; } } }))`))
	tab.Do(chromedp.Click(".menu summary"), chromedp.Click("#copy"))
	tab.Until(`document.getElementById("told").textContent.startsWith("Copied.")`)
	tab.Do(chromedp.KeyEvent("\u001b"))
	tab.Until(`!document.querySelector(".menu").open && document.activeElement.tagName === "SUMMARY"`)
	text := browsertest.Ask[string](tab, `copied`)
	for _, part := range []string{"gpuwhy v0, Mozilla", "driver 550.54.15, CUDA 12.4", "Debian", `"state":"lost"`, `"processes":1`} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing", part)
		}
	}
	for _, part := range []string{"carol", "dgx-07", "GPU-0000"} {
		if strings.Contains(text, part) {
			t.Errorf("%q is in it", part)
		}
	}
	tab.Quiet()
}

func TestAlertsComeAndGo(t *testing.T) {
	now := time.Now()
	e := exampleNamed(t, "one", now)
	tab := browsertest.Open(t, 1440, 900)
	site := newSite(t, e.Snapshot, e.Why)
	visit(t, tab, site)

	at := func(d time.Duration) string { return now.Add(d).UTC().Format(time.RFC3339Nano) }
	alert := contract.Alert{ID: "a1", State: "firing", Since: at(-42 * time.Second), Timestamp: at(0), Message: "<b>busy</b>", Rule: "high_gpu_usage", Severity: "warning"}
	site.send(t, "high_gpu_usage_alert", alert)
	tab.Until(`document.querySelector("#alerts > [data-key=a1]")?.innerText.replace(/\s+/g, " ") .trim() === "High usage <b>busy</b> Acknowledge Silence 1 h"`)

	// What people say of it stands beside it, as text, and can't be said twice.
	today := now.UTC().Add(time.Hour).Truncate(time.Hour).Format(time.RFC3339Nano)
	alert.Acknowledged, alert.SilencedUntil = &contract.Acknowledgment{By: "<i>ann</i>", Comment: "\u202enot yet"}, &today
	site.send(t, "alert", alert)
	tab.Until(`/^acknowledged by <i>ann<\/i>: \ufffdnot yet · silenced until .*:00:00.* UTC$/.test(document.querySelector("#alerts .said").textContent)`)
	tab.Until(`[...document.querySelectorAll("#alerts button")].every((b) => b.hidden) && document.querySelector("#alerts [data-do=silence]").getAttribute("formaction") === "` + base + `api/alerts/a1/silence"`)
	alert.Acknowledged, alert.SilencedUntil = nil, nil

	// It stands again after the connection was lost, once.
	site.mu.Lock()
	site.alerts = []contract.Alert{alert}
	site.mu.Unlock()
	site.cut()
	site.await(t)
	site.publish(t, exampleNamed(t, "one", now.Add(time.Second)).Snapshot, "again")
	untilWhy(t, tab, "again")
	tab.Until(`document.querySelectorAll("#alerts > *").length === 1`)

	alert.State, alert.Message = "resolved", "it is over"
	site.send(t, "high_gpu_usage_alert", alert)
	tab.Until(`document.querySelector("#alerts > [data-state=resolved]")?.innerText.replace(/\s+/g, " ").trim() === "Over it is over"`)

	// One that ended while the page was away is gone after the next reading.
	site.send(t, "high_gpu_usage_alert", contract.Alert{ID: "a2", State: "firing", Since: at(0), Timestamp: at(0), Message: "second"})
	tab.Until(`document.querySelectorAll("#alerts > *").length === 2`)
	site.mu.Lock()
	site.alerts = nil
	site.mu.Unlock()
	site.cut()
	site.await(t)
	site.publish(t, exampleNamed(t, "one", now.Add(2*time.Second)).Snapshot, "third")
	untilWhy(t, tab, "third")
	tab.Until(`!document.querySelector("#alerts > [data-key=a2]")`)
	tab.Quiet("WebSocket connection to")
}

// Hundreds of updates leave as many elements as one; with "make soak", thousands.
func TestElementsDoNotGrow(t *testing.T) { elementsDoNotGrow(t, 1) }

// elementsDoNotGrow sends updates until the machine was so many times as at first.
func elementsDoNotGrow(t *testing.T, rounds int) {
	t.Helper()
	now := time.Now()
	site := newSite(t, exampleNamed(t, "eight", now).Snapshot, "why")
	tab := browsertest.Open(t, 1440, 900)
	visit(t, tab, site)
	tab.Until(`document.querySelectorAll(".uplot").length > 4`)
	update := func(n int) {
		s := exampleNamed(t, "eight", now.Add(time.Duration(n)*time.Second)).Snapshot
		busy := &s.Devices[n%4]
		busy.Utilization.GPU = gpu.Of(gpu.Percent(n % 101))
		// Two processes with one pid, of which one is new each time.
		list := append([]gpu.Process(nil), s.Devices[0].Processes.Or(nil)...)
		s.Devices[0].Processes = gpu.Of(append(list, list[0], gpu.Process{PID: 100_000 + n}))
		site.publish(t, s, fmt.Sprintf("Update %d.", n))
	}
	count := func(n int) int {
		untilWhy(t, tab, fmt.Sprintf("Update %d.", n))
		return browsertest.Ask[int](tab, `document.querySelectorAll("*").length`)
	}
	update(1)
	before := count(1)
	// The machine of update 1 is that of every 404th after it.
	last := 1 + rounds*404
	for n := 2; n <= last; n++ {
		update(n)
		if n%100 == 0 { // let it draw some of them
			count(n)
		}
	}
	if after := count(last); after != before {
		t.Errorf("%d elements after %d updates, %d after the first", after, last, before)
	}
	if got := browsertest.Ask[int](tab, `document.querySelectorAll("#processes > tr").length`); got != 5 {
		t.Errorf("%d rows of processes, want 5", got)
	}
	tab.Quiet()
}

func TestChartsBeginWithThePastAndGoOn(t *testing.T) {
	now := time.Now()
	e := exampleNamed(t, "eight", now)
	site := newSite(t, e.Snapshot, e.Why)
	pastOf(site.past, e.Snapshot)
	tab := browsertest.Open(t, 1440, 900)
	visit(t, tab, site)
	tab.Until(`document.querySelectorAll(".uplot canvas").length > 4 && document.querySelectorAll("#series > li").length === 8`)

	next := exampleNamed(t, "eight", now.Add(time.Second)).Snapshot
	next.Devices[2].Thermal.GPU = gpu.Of[gpu.Celsius](93)
	site.publish(t, next, "next")
	readout := func(metric string) string {
		return fmt.Sprintf(`document.querySelector("[data-metric=%s] [data-f=readout]").textContent`, metric)
	}
	tab.Until(readout("temperature_celsius") + ` === "highest 93\u00a0°C · GPU 2"`)
	tab.Do(chromedp.Click("#series > li:nth-child(2) button"))
	tab.Until(readout("temperature_celsius") + ` === "85\u00a0°C · GPU 1" && document.querySelectorAll("#series [aria-pressed=true]").length === 1`)
	tab.Quiet()
}

func TestLargeChart(t *testing.T) {
	now := time.Now()
	e := exampleNamed(t, "eight", now)
	site := newSite(t, e.Snapshot, e.Why)
	pastOf(site.past, e.Snapshot)
	tab := browsertest.Open(t, 1440, 900)
	visit(t, tab, site)
	tab.Until(`document.querySelectorAll(".uplot canvas").length > 4`)
	if got := browsertest.Ask[string](tab, `document.querySelector("[data-metric=utilization_percent] [data-f=stats]").textContent`); !strings.HasPrefix(got, "min 0 · avg ") || !strings.HasSuffix(got, " · max 99\u00a0%") {
		t.Errorf("the range of utilization is %q", got)
	}
	// By the keyboard alone, with a second metric over it.
	tab.Do(chromedp.Focus("[data-metric=power_watts] .plain"), chromedp.KeyEvent("\r"))
	tab.Until(`document.getElementById("large").open && document.querySelector("#large .uplot canvas") && document.getElementById("large-title").textContent === "Power, W"`)
	tab.Do(chromedp.Evaluate[chromedp.Void](`void (document.getElementById("large-over").value = "temperature_celsius", document.getElementById("large-over").onchange())`))
	tab.Until(`document.getElementById("large-title").textContent === "Power, W · dashed: Temperature, °C"`)
	if got := browsertest.Ask[string](tab, `location.search`); got != "?chart=power_watts&over=temperature_celsius" {
		t.Errorf("the address has %q", got)
	}

	// The arrow keys move the cursor: back by one reading.
	tab.Do(chromedp.Focus("#large .plot"), chromedp.KeyEvent("\u0302"))
	tab.Until(`/ · GPU \d.* · \d+:\d\d:\d\d/.test(document.getElementById("large-readout").textContent)`)

	// What happens is marked, and told in words: an alert, a process that
	// goes and one that comes.
	site.send(t, "high_gpu_usage_alert", contract.Alert{ID: "a", State: "firing", Node: e.Snapshot.Node, GPUID: 2, GPUUUID: e.Snapshot.Devices[2].UUID, Since: now.UTC().Format(time.RFC3339Nano), Timestamp: now.UTC().Format(time.RFC3339Nano), Message: "m"})
	next := exampleNamed(t, "eight", now.Add(time.Second)).Snapshot
	next.Devices[0].Processes = gpu.Of([]gpu.Process{{PID: 77, Facts: gpu.ProcessFacts{Name: gpu.Of("<i>new"), User: gpu.Of("zoe")}}})
	site.publish(t, next, "next")
	tab.Until(`document.querySelectorAll("#large-marks > li").length === 3`)
	text := browsertest.Ask[string](tab, `document.getElementById("large-marks").textContent`)
	for _, part := range []string{"alert on GPU 2", "went: train.py (pid 9001, carol) on GPU 0", "came: <i>new (pid 77, zoe) on GPU 0"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in %q", part, text)
		}
	}

	// What is saved is what is shown.
	tab.Do(chromedp.Evaluate[chromedp.Void](`void (HTMLAnchorElement.prototype.click = function () {}, URL.createObjectURL = (blob) => { window.saved = blob; return "#"; })`))
	save := func(button, what string) string {
		t.Helper()
		tab.Do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`void (window.saved = null, document.getElementById(%q).click())`, button)))
		tab.Until(`window.saved !== null`)
		return browsertest.Ask[string](tab, what)
	}
	lines := strings.Split(save("large-csv", `window.saved.text()`), "\r\n")
	if len(lines) < 300 || !strings.HasPrefix(lines[0], "time,GPU 0 power_watts,GPU 1 power_watts,") || !strings.HasSuffix(lines[0], ",GPU 7 temperature_celsius") || !strings.Contains(lines[len(lines)-2], ",698.7,") {
		t.Errorf("the CSV has %d lines, from %q to %q", len(lines), lines[0], lines[len(lines)-2])
	}
	if got := save("large-png", `window.saved.arrayBuffer().then((b) => String.fromCharCode(...new Uint8Array(b).slice(1, 4)) + (b.byteLength > 10000))`); got != "PNGtrue" {
		t.Errorf("the picture is %q", got)
	}
	tab.Do(chromedp.KeyEvent("\u001b"), chromedp.KeyEvent("\u001b")) // the cursor goes first
	tab.Until(`!document.getElementById("large").open && !document.querySelector("#large .uplot") && location.search === "?over=temperature_celsius"`)
	tab.Quiet()
}

// The rows that are shown, as "name pid".
const processNames = `[...document.querySelectorAll("#processes > tr")].map((r) => r.className === "of" ? r.innerText.trim().replace(/\s+/g, " ") : r.querySelector("[data-f=name]").textContent + " " + r.querySelector("[data-f=pid]").textContent).join(", ")`

func TestProcessesAreSortedNarrowedAndGrouped(t *testing.T) {
	now := time.Now()
	e := exampleNamed(t, "eight", now)
	running := func(pid int, name, user string, held gpu.Bytes) gpu.Process {
		return gpu.Process{PID: pid, Memory: gpu.Of(held), Type: gpu.TypeCompute, Facts: gpu.ProcessFacts{Name: gpu.Of(name), User: gpu.Of(user), Command: gpu.Of("/opt/" + name)}}
	}
	for i := range e.Snapshot.Devices {
		e.Snapshot.Devices[i].Processes = gpu.Of([]gpu.Process{})
	}
	e.Snapshot.Devices[0].Processes = gpu.Of([]gpu.Process{running(10, "b", "carol", 1<<30), running(9, "a", "dave", 3<<30), {PID: 7}})
	e.Snapshot.Devices[1].Processes = gpu.Of([]gpu.Process{running(11, "c", "carol", 2<<30)})
	site := newSite(t, e.Snapshot, e.Why)
	tab := browsertest.Open(t, 1440, 900)
	visit(t, tab, site)
	shows := func(want string) {
		t.Helper()
		tab.Until(fmt.Sprintf("%s === %q", processNames, want))
	}
	address := func(want string) {
		t.Helper()
		if got := browsertest.Ask[string](tab, `location.search`); got != want {
			t.Errorf("the address has %q, want %q", got, want)
		}
	}
	shows("b 10, a 9, not reported 7, c 11")
	click := func(sel string) { // wherever the page's layout moves it meanwhile
		browsertest.Ask[bool](tab, fmt.Sprintf(`(document.querySelector(%q).click(), true)`, sel))
	}
	click("[data-sort=memory]")
	shows("a 9, c 11, b 10, not reported 7")
	address("?sort=-memory")
	if got := browsertest.Ask[string](tab, `document.querySelector("[aria-sort]").textContent + document.querySelector("[aria-sort]").ariaSort`); got != "VRAMdescending" {
		t.Errorf("what is sorted: %q", got)
	}
	click("[data-sort=memory]")
	shows("b 10, c 11, a 9, not reported 7")
	click("[data-sort=memory]")
	shows("b 10, a 9, not reported 7, c 11")
	address("")

	tab.Do(chromedp.SendKeys("#by-text", "/OPT/c"))
	shows("c 11")
	if got := browsertest.Ask[string](tab, `document.getElementById("process-count").textContent`); got != "1 of 4 processes" {
		t.Errorf("the count is %q", got)
	}
	click("#show-all")
	shows("b 10, a 9, not reported 7, c 11")
	tab.Do(chromedp.Evaluate[chromedp.Void](`void (document.getElementById("by-user").value = "carol", document.getElementById("by-user").onchange())`))
	shows("b 10, c 11")
	tab.Do(chromedp.Evaluate[chromedp.Void](`void (document.getElementById("by-gpu").value = "1", document.getElementById("by-gpu").onchange())`))
	shows("c 11")
	address("?user=carol&gpu=1")

	// The address has it all, for another who opens it.
	tab.Visit(site.URL + base + "?gpu=0&group=user&sort=name")
	site.await(t)
	shows("dave 1 process · 3.0 GiB · 1 GPU, a 9, carol 1 process · 1.0 GiB · 1 GPU, b 10, not reported 1 process · 1 GPU, not reported 7")
	// How one likes it is remembered; what one looked for, and what another
	// sent, is not.
	tab.Visit(site.URL + base)
	site.await(t)
	shows("b 10, a 9, not reported 7, c 11")
	click("[data-sort=name]")
	click("#by-group")
	tab.Visit(site.URL + base)
	site.await(t)
	shows("dave 1 process · 3.0 GiB · 1 GPU, a 9, carol 2 processes · 3.0 GiB · 2 GPUs, b 10, c 11, not reported 1 process · 1 GPU, not reported 7")
	tab.Quiet()
}

func TestProcessDetails(t *testing.T) {
	now := time.Now()
	e := exampleNamed(t, "one", now)
	facts := &e.Snapshot.Devices[0].Processes.Or(nil)[0].Facts
	facts.Pod, facts.Job = gpu.Of(gpu.Pod{}), gpu.Of(gpu.Job{}) // it is in none
	facts.Container = gpu.Of(gpu.Container{ID: strings.Repeat("ab", 32), Runtime: "docker", Name: gpu.Of("trainer")})
	site := newSite(t, e.Snapshot, e.Why)
	tab := browsertest.Open(t, 1440, 900)
	visit(t, tab, site)
	// By the keyboard alone.
	tab.Do(chromedp.Focus("#processes .plain"), chromedp.KeyEvent("\r"))
	tab.Until(`document.getElementById("process").open && document.getElementById("process-title").textContent === "train.py"`)
	text := browsertest.Ask[string](tab, `document.getElementById("process").innerText`)
	for _, part := range []string{"GPU 0 · NVIDIA GeForce RTX 4090 · running for 2\u00a0h 14\u00a0min", "train.py", "48213", "17.0\u00a0GiB", "93\u00a0%", "Encoder", "Power", "not reported", "trainer", "docker"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in %s", part, text)
		}
	}
	if strings.Contains(text, "Pod") || strings.Contains(text, "Slurm") {
		t.Errorf("what there is nothing to say of is shown: %s", text)
	}
	// It goes on while it is open, and says when the process is gone.
	next := exampleNamed(t, "one", now.Add(time.Second)).Snapshot
	next.Devices[0].Processes.Or(nil)[0].SM = gpu.Of[gpu.Percent](41)
	site.publish(t, next, "next")
	tab.Until(`document.querySelector("#process [data-path=sm_percent]").textContent === "41\u00a0%"`)
	next = exampleNamed(t, "one", now.Add(2*time.Second)).Snapshot
	next.Devices[0].Processes = gpu.Of([]gpu.Process{})
	site.publish(t, next, "ended")
	tab.Until(`document.getElementById("process-state").textContent.startsWith("It is no longer")`)
	tab.Do(chromedp.KeyEvent("\u001b"))
	tab.Until(`!document.getElementById("process").open && location.search === ""`)
	tab.Quiet()
}

func TestWall(t *testing.T) {
	now := time.Now()
	e := exampleNamed(t, "fleet", now)
	e.Snapshot.Devices[7].Thermal.GPU = gpu.Of[gpu.Celsius](86)
	site := newSite(t, e.Snapshot, e.Why)
	pastOf(site.past, exampleNamed(t, "eight", now).Snapshot)
	tab := browsertest.Open(t, 1440, 900)
	visit(t, tab, site)
	tab.Until(`document.getElementById("wall-canvas").width > 1000 && document.querySelectorAll("#cards > li").length === 24 && document.querySelectorAll("#processes > tr").length === 200`)
	if got := browsertest.Ask[string](tab, `[...document.querySelectorAll("#cards h3")].slice(0, 2).map((e) => e.textContent).join(", ")`); got != "GPU 500, GPU 7" {
		t.Errorf("what stands out begins with %s", got)
	}
	// By the keyboard: from cell to cell, and into a GPU's page.
	tab.Do(chromedp.Focus("#wall-canvas"), chromedp.KeyEvent("\u0303"), chromedp.KeyEvent("\u0303"))
	tab.Until(`document.getElementById("wall-readout").textContent.startsWith("GPU 1 · NVIDIA H200 · busy · utilization 69\u00a0%")`)
	// Sorted by heat, the hottest is the first; the address says so.
	tab.Do(chromedp.Evaluate[chromedp.Void](`void (["by", "order"].forEach((name, i) => { const s = document.getElementById("wall-" + name); s.value = ["temperature", "value"][i]; s.onchange(); }))`))
	tab.Do(chromedp.KeyEvent("\u0302"))
	tab.Until(`document.getElementById("wall-readout").textContent.startsWith("GPU 7 ")`)
	if got := browsertest.Ask[string](tab, `location.search`); got != "?by=temperature&order=value" {
		t.Errorf("the address has %q", got)
	}
	// The same as a list.
	tab.Do(chromedp.Click("#wall-list"))
	tab.Until(`document.querySelectorAll("#wall-rows > tr").length === 100 && document.querySelector("#wall-rows a").textContent === "GPU 7" && document.getElementById("wall-canvas").hidden`)
	tab.Do(chromedp.Click("#wall-more"))
	tab.Until(`document.querySelectorAll("#wall-rows > tr").length === 200`)
	tab.Do(chromedp.Click("#wall-list"), chromedp.Focus("#wall-canvas"), chromedp.KeyEvent("\r"))
	site.await(t)
	tab.Until(`location.pathname.endsWith("/gpu/GPU-00000000-0000-4000-8000-000000000007") && document.getElementById("wall").hidden`)
	tab.Quiet()
}

// The main tasks work without a pointer: what can be clicked can be reached,
// in the order of the page, and shows that it is.
func TestKeyboardReachesAll(t *testing.T) {
	e := exampleNamed(t, "eight", time.Now())
	site := newSite(t, e.Snapshot, e.Why)
	tab := browsertest.Open(t, 1440, 900)
	visit(t, tab, site)
	tab.Until(`document.querySelectorAll(".uplot canvas").length > 4`)
	reached := map[string]bool{}
	for range 120 {
		tab.Do(chromedp.KeyEvent("\t"))
		what := browsertest.Ask[string](tab, `(() => { const e = document.activeElement; return e.id || e.dataset.sort || e.closest("[data-metric]")?.dataset.metric || e.closest("#cards, #processes, #series, footer, .scroll")?.id || e.tagName; })()`)
		if what == "BODY" {
			break
		}
		if !browsertest.Ask[bool](tab, `getComputedStyle(document.activeElement).outlineStyle !== "none" || document.activeElement.matches("input, select")`) {
			t.Errorf("%s does not show that it is reached", what)
		}
		reached[what] = true
	}
	for _, what := range []string{"ask", "pause", "cards", "series", "utilization_percent", "sm_clock_mhz", "by-text", "by-gpu", "by-user", "by-group", "gpu", "memory", "processes"} {
		if !reached[what] {
			t.Errorf("%s can't be reached by the keyboard: %v", what, reached)
		}
	}
	tab.Quiet()
}

func TestPrints(t *testing.T) {
	e := exampleNamed(t, "eight", time.Now())
	site := newSite(t, e.Snapshot, e.Why)
	tab := browsertest.Open(t, 1440, 900)
	visit(t, tab, site)
	browsertest.Call(tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"})
	if got := browsertest.Ask[string](tab, `[getComputedStyle(document.getElementById("page-tools")).display, getComputedStyle(document.querySelector("#chips > li")).color, getComputedStyle(document.documentElement).backgroundColor].join(" ")`); got != "none rgb(0, 0, 0) rgb(255, 255, 255)" {
		t.Errorf("printed: %s", got)
	}
	tab.Quiet()
}

// In a tab that nobody sees only its title moves; it is up to date as soon as
// it is shown.
func TestHiddenTabIsNotDrawn(t *testing.T) {
	now := time.Now()
	e := exampleNamed(t, "eight", now)
	site := newSite(t, e.Snapshot, e.Why)
	tab := browsertest.Open(t, 1440, 900)
	visit(t, tab, site)
	hide := func(hidden bool) string {
		return fmt.Sprintf(`void (Object.defineProperty(document, "hidden", { value: %v, configurable: true }), document.dispatchEvent(new Event("visibilitychange")))`, hidden)
	}
	tab.Do(chromedp.Evaluate[chromedp.Void](hide(true)))
	tab.Do(chromedp.Evaluate[chromedp.Void](`void (window.changes = 0, new MutationObserver((list) => { window.changes += list.length; }).observe(document.body, { subtree: true, childList: true, attributes: true, characterData: true }))`))
	one := exampleNamed(t, "one", time.Now())
	site.publish(t, one.Snapshot, one.Why)
	tab.Until(`document.title === "97\u00a0% · 71\u00a0°C · gpuwhy"`)
	twoFrames := `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(window.changes))))`
	got := browsertest.Ask[int](tab, twoFrames)
	if got != 0 {
		t.Errorf("%d changes to a hidden page", got)
	}
	tab.Do(chromedp.Evaluate[chromedp.Void](hide(false)))
	untilWhy(t, tab, one.Why)
	tab.Quiet()
}

func TestNothingOverflows(t *testing.T) {
	tab := browsertest.Open(t, 1440, 900)
	now := time.Now()
	examples := fixture.Examples(now)
	hostile := exampleNamed(t, "eight", now)
	hostile.Name, hostile.Why = "hostile", strings.Repeat("W", 10_000)
	for i := range hostile.Snapshot.Devices {
		d := &hostile.Snapshot.Devices[i]
		d.Name = strings.Repeat("Long", 2_000)
		long := gpu.Of(strings.Repeat("x", 10_000))
		d.Processes = gpu.Of([]gpu.Process{{PID: 1 << 22, Facts: gpu.ProcessFacts{Name: long, User: long, Command: long}}})
	}
	hostile.Snapshot.Node = strings.Repeat("n", 300)
	for _, e := range append(examples, hostile) {
		site := newSite(t, e.Snapshot, e.Why)
		visit(t, tab, site)
		for _, width := range []int64{320, 390, 768, 1440, 3840} {
			tab.Do(chromedp.EmulateViewport(width, 900))
			if got := browsertest.Ask[int](tab, `document.documentElement.scrollWidth`); got > int(width) {
				t.Errorf("%s at %d: %d wide: %s", e.Name, width, got, browsertest.Ask[string](tab, `[...document.querySelectorAll("main *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest(".scroll")).slice(0, 5).map((e) => e.outerHTML.slice(0, 120)).join("\n")`))
			}
			if width == 1440 && e.Name == "eight" {
				if got := browsertest.Ask[float64](tab, `document.getElementById("cards").getBoundingClientRect().bottom`); got > 900 {
					t.Errorf("the cards of eight GPUs end at %v of 900", got)
				}
			}
		}
		site.cut()
	}
	tab.Quiet("WebSocket connection to")
}

// randomSnapshot is a machine of which anything may be absent, zero or odd.
func randomSnapshot(r *rand.Rand, now time.Time) *gpu.Snapshot {
	s := &gpu.Snapshot{Time: now, Node: pick(r, "a", "b<i>", "ö\u202e"), Source: pick(r, gpu.SourceNVML, gpu.SourceMixed, gpu.SourceSimulated)}
	for i := range r.IntN(20) {
		s.Devices = append(s.Devices, randomDevice(r, i, s.Node, now))
	}
	for i := range r.IntN(3) {
		f := gpu.Failure{Source: fmt.Sprint("source", i), Since: now.Add(-time.Duration(r.Int64N(1e15))), Advice: gpu.Advice{What: pick(r, "what", "<b>"), Try: pick(r, "", "try")}}
		if r.IntN(2) == 0 {
			f.Next = now.Add(time.Duration(r.Int64N(1e11)))
		}
		s.Failures = append(s.Failures, f)
	}
	for range r.IntN(3) {
		s.Notes = append(s.Notes, pick(r, gpu.Advice{What: "what"}, gpu.Advice{What: "<what>", Try: "try"}))
	}
	for range r.IntN(3) {
		s.Drivers = append(s.Drivers, gpu.Driver{Version: maybe(r, "550.1"), CUDA: maybe(r, "12.4")})
	}
	if r.IntN(4) > 0 {
		s.Host = randomHost(r)
	}
	return s
}

func randomDevice(r *rand.Rand, i int, node string, now time.Time) gpu.Device {
	d := gpu.Device{
		Identity: gpu.Identity{UUID: fmt.Sprint("GPU-", i), Index: i, Node: node, Source: gpu.SourceNVML, Name: pick(r, "", "NVIDIA H100", "<script>x</script>", strings.Repeat("n", 200))},
		State:    gpu.StateOK, Since: now.Add(-time.Duration(r.Int64N(1e15))),
	}
	if r.IntN(4) == 0 {
		d.State = pick(r, gpu.StateAsleep, gpu.StateLost, gpu.StateNotAnswering)
		d.Reason = pick(r, gpu.Advice{}, gpu.Advice{What: "what"}, gpu.Advice{What: "what", Try: "try"})
		return d
	}
	d.Utilization.GPU = reading[gpu.Percent](r, 100)
	d.Memory = gpu.Memory{Used: bytesOf(r), Total: bytesOf(r)}
	d.Thermal = gpu.Thermal{GPU: reading[gpu.Celsius](r, 110), Slowdown: reading[gpu.Celsius](r, 100), Margin: reading[gpu.Celsius](r, 60)}
	d.Power = gpu.Power{Draw: reading[gpu.Watts](r, 900), EnforcedLimit: reading[gpu.Watts](r, 700)}
	d.Fans.Count = pick(r, gpu.Of(0), gpu.Absent[int](gpu.NotSupported), gpu.Reading[int]{})
	for range r.IntN(3) {
		d.Fans.Fans = append(d.Fans.Fans, gpu.Fan{Commanded: reading[gpu.Percent](r, 120), RPM: reading[gpu.RPM](r, 4000), Policy: maybe(r, pick(r, "automatic", "manual"))})
	}
	d.Clocks = gpu.Clocks{SM: reading[gpu.Megahertz](r, 3000), Graphics: reading[gpu.Megahertz](r, 3000), PerformanceState: maybe(r, r.IntN(16)), EventReasons: maybe(r, gpu.ClockEventReasons(r.Uint64N(1<<10)))}
	for n := range r.IntN(2) * r.IntN(7) {
		d.Instances = append(d.Instances, gpu.Instance{
			UUID: fmt.Sprint("MIG-", n), Name: pick(r, "", "1g.5gb", "<b>"), Memory: gpu.Memory{Used: bytesOf(r), Total: bytesOf(r)},
			Multiprocessors: maybe(r, r.IntN(100)), MemorySlices: maybe(r, r.IntN(8)), ComputeSliceCount: maybe(r, r.IntN(8)),
		})
	}
	randomRest(r, &d, now)
	var list []gpu.Process
	for range r.IntN(4) {
		list = append(list, randomProcess(r, now))
	}
	// A list that is not reported, and not known why, looks on the wire as
	// one that is empty.
	if d.Processes = maybe(r, list); d.Processes.Quality() == gpu.NotReported {
		d.Processes = gpu.Absent[[]gpu.Process](gpu.NotSupported)
	}
	return d
}

// randomRest fills in what only a device's own page shows.
func randomRest(r *rand.Rand, d *gpu.Device, now time.Time) {
	d.SampledAt = now.Add(-time.Duration(r.Int64N(1e12)))
	d.IdleFloor = maybe(r, gpu.Watts(100*r.Float64()))
	d.PCI = pick(r, "", "0000:01:00.0")
	d.VendorIndex, d.Architecture, d.Serial = maybe(r, r.IntN(9)), maybe(r, "Hopper"), maybe(r, pick(r, "", "16<b>"))
	d.VBIOS, d.DriverVersion = maybe(r, "96.00"), maybe(r, "550.54.15")
	u, m, t, p, c := &d.Utilization, &d.Memory, &d.Thermal, &d.Power, &d.Clocks
	for _, field := range []*gpu.Reading[gpu.Percent]{&u.Memory, &u.Encoder, &u.Decoder, &u.JPEG, &u.OFA} {
		*field = reading[gpu.Percent](r, 100)
	}
	for _, field := range []*gpu.Reading[gpu.Percent]{&d.Activity.Engine, &d.Activity.Tensor, &d.Activity.MemoryBandwidth} {
		*field = reading[gpu.Percent](r, 100)
	}
	for _, field := range []*gpu.Reading[gpu.BytesPerSecond]{&d.Activity.PCIeSent, &d.Activity.NVLinkReceived} {
		*field = reading[gpu.BytesPerSecond](r, 1e10)
	}
	d.Activity.PCIeMeasuredAt = maybe(r, now.Add(-time.Duration(r.Int64N(1e11))))
	d.Encoding = gpu.Encoding{Sessions: maybe(r, r.IntN(9)), FrameRate: reading[gpu.FramesPerSecond](r, 500), Latency: reading[gpu.Microseconds](r, 1e5)}
	for _, field := range []*gpu.Reading[gpu.Bytes]{&m.Free, &m.Reserved, &m.BAR1Total, &m.BAR1Used} {
		*field = bytesOf(r)
	}
	for _, field := range []*gpu.Reading[gpu.Celsius]{&t.Memory, &t.Shutdown, &t.Target, &t.MemoryMax} {
		*field = reading[gpu.Celsius](r, 100)
	}
	for _, field := range []*gpu.Reading[gpu.Watts]{&p.DefaultLimit, &p.MinLimit, &p.MaxLimit} {
		*field = reading[gpu.Watts](r, 900)
	}
	p.Energy = reading[gpu.Joules](r, 1e10)
	for _, field := range []*gpu.Reading[gpu.Megahertz]{&c.Memory, &c.Video, &c.MaxGraphics, &c.MaxSM, &c.MaxMemory, &c.MaxVideo} {
		*field = reading[gpu.Megahertz](r, 3000)
	}
	for i := range d.Fans.Fans {
		d.Fans.Fans[i].Target = reading[gpu.Percent](r, 100)
	}
	d.PCIe = gpu.PCIe{Generation: maybe(r, r.IntN(6)), MaxGeneration: maybe(r, 5), Width: maybe(r, 8), MaxWidth: maybe(r, 16), Replays: maybe(r, r.Uint64N(1e9))}
	h := &d.Health
	for _, field := range []*gpu.Reading[uint64]{
		&h.CorrectedVolatile, &h.UncorrectedVolatile, &h.CorrectedAggregate, &h.UncorrectedAggregate,
		&h.RemappedCorrectable, &h.RemappedUncorrectable, &h.RetiredSingleBit, &h.RetiredDoubleBit,
	} {
		*field = maybe(r, r.Uint64N(100))
	}
	o := &d.Modes
	for _, field := range []*gpu.Reading[bool]{
		&h.ECCMode, &h.ECCModePending, &h.RemapPending, &h.RemapFailed, &h.RetirementPending, &o.Persistence, &o.MIG, &o.MIGPending, &o.DisplayActive,
	} {
		*field = maybe(r, r.IntN(2) == 0)
	}
	o.Compute = maybe(r, "exclusive_process")
	h.XIDs = maybe(r, []gpu.XID{{Code: 79, Count: 1 + r.Uint64N(5), Last: now}, {Code: 31, Count: 2, Last: now}}[:r.IntN(3)])
	h.Faults = maybe(r, []gpu.Fault{
		{Kind: gpu.FaultEngineHang, Count: 1 + r.Uint64N(5), Last: now, Engine: "gfx_0.0.0", Culprit: gpu.Culprit{PID: 7, Name: "Game.exe"}},
		{Kind: gpu.FaultWedged, Count: 1, Last: now},
	}[:r.IntN(3)])
}

func randomProcess(r *rand.Rand, now time.Time) gpu.Process {
	return gpu.Process{
		PID: r.IntN(6), Type: pick(r, gpu.TypeCompute, gpu.TypeGraphics, gpu.TypeMPS), Memory: bytesOf(r),
		SM: reading[gpu.Percent](r, 100), Encoder: reading[gpu.Percent](r, 100), GPUInstance: maybe(r, r.IntN(2)),
		Facts: gpu.ProcessFacts{
			Name: maybe(r, pick(r, "", "python", "\x1b[31m\xff🚀", strings.Repeat("🚀", 90))), User: maybe(r, "alice"),
			Command: maybe(r, pick(r, "python x.py", strings.Repeat("a ", 400))), Started: maybe(r, now.Add(-time.Duration(r.Int64N(1e15)))),
			Exists:    maybe(r, r.IntN(3) > 0),
			Pod:       maybe(r, pick(r, gpu.Pod{}, gpu.Pod{UID: "1-2"}, gpu.Pod{UID: "1-2", Name: maybe(r, pick(r, "", "pod<b>"))})),
			Container: maybe(r, pick(r, gpu.Container{}, gpu.Container{ID: strings.Repeat("ab", 32), Name: maybe(r, "trainer\u202e")})),
			Job:       maybe(r, gpu.Job{ID: r.IntN(2) * 77}),
			Unit:      maybe(r, pick(r, gpu.Unit{}, gpu.Unit{Name: "a.service"}, gpu.Unit{Slice: "system.slice"})),
		},
	}
}

func randomHost(r *rand.Rand) *gpu.Host {
	h := &gpu.Host{
		Hostname: pick(r, "", "host"), OS: "Debian", Kernel: "6.1", Uptime: maybe(r, time.Duration(r.Int64N(1e16))),
		CPUModel: maybe(r, "EPYC"), Cores: maybe(r, 1+r.IntN(3)), CPU: reading[gpu.Percent](r, 100),
		Load1: reading[float64](r, 50), Load5: reading[float64](r, 50), Load15: reading[float64](r, 50),
		MemoryTotal: bytesOf(r), MemoryUsed: bytesOf(r), SwapTotal: bytesOf(r), SwapUsed: bytesOf(r),
		CPUPower: reading[gpu.Watts](r, 300), CPUThrottled: maybe(r, r.IntN(2) > 0),
		Self: gpu.Self{CPU: reading[gpu.Percent](r, 3), RSS: bytesOf(r)},
	}
	busiest := []gpu.HostProcess{}
	for i := range r.IntN(4) {
		h.Fans = append(h.Fans, gpu.HostFan{Name: fmt.Sprint(pick(r, "CPU fan", "fan\u202e <b>"), i), RPM: reading[gpu.RPM](r, 3000)})
		h.Temperatures = append(h.Temperatures, gpu.HostTemperature{Name: fmt.Sprint(pick(r, "CPU", "sensor <x>"), i), Celsius: reading[gpu.Celsius](r, 100)})
		busiest = append(busiest, gpu.HostProcess{PID: 100 + i, Count: 1 + r.IntN(3), CPU: gpu.Percent(r.IntN(4000)), Facts: randomProcess(r, time.Now()).Facts})
	}
	h.Busiest = maybe(r, busiest)
	for i := range r.IntN(3) {
		h.Disks = append(h.Disks, gpu.Disk{Device: fmt.Sprint("sd", i), Mount: pick(r, "/", "/\u200f<x>"), Total: bytesOf(r), Used: bytesOf(r), Read: reading[gpu.BytesPerSecond](r, 1e7), Write: reading[gpu.BytesPerSecond](r, 5e9)})
		h.Networks = append(h.Networks, gpu.Interface{Name: fmt.Sprint("eth", i), Received: reading[gpu.BytesPerSecond](r, 1e4), Sent: reading[gpu.BytesPerSecond](r, 1e10)})
	}
	return h
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// maybe is v, or absent for one of the reasons.
func maybe[T any](r *rand.Rand, v T) gpu.Reading[T] {
	if r.IntN(3) > 0 {
		return gpu.Of(v)
	}
	return gpu.Absent[T](pick(r, gpu.NotReported, gpu.NotSupported, gpu.NotPermitted, gpu.Stale))
}

// reading is zero, halfway between two integers, or anything up to top.
func reading[T ~float64](r *rand.Rand, top float64) gpu.Reading[T] {
	v := pick(r, 0, top*r.Float64(), float64(r.IntN(int(top)))+0.5)
	if r.IntN(10) == 0 {
		return gpu.DoubtfulOf(T(v))
	}
	return maybe(r, T(v))
}

func bytesOf(r *rand.Rand) gpu.Reading[gpu.Bytes] {
	return maybe(r, gpu.Bytes(pick(r, 0, r.Uint64N(2<<30), r.Uint64N(96<<30), r.Uint64N(40<<40))))
}

// What comes next of a GPU follows its readings. What they do not tell, such as how wrong such forecasts were, is asked for.
func TestWhatComesNextFollows(t *testing.T) {
	now := time.Now()
	snap := exampleNamed(t, "one", now).Snapshot
	d := &snap.Devices[0]
	full := contract.Forecast{Kind: "memory_full", Shown: true, Text: "Full in about 26 min.", ErrorUnit: "MiB", Trials: 14, Error: gpu.Of(512.0)}
	forecasts := func(list ...contract.Forecast) []contract.GPUForecast {
		return []contract.GPUForecast{{PastGPU: contract.PastGPU{Node: d.Node, GPUUUID: d.UUID}, Forecasts: list}}
	}
	site := newSite(t, snap, "why")
	site.next = forecasts(full)
	tab := browsertest.Open(t, 1440, 900)
	tab.Visit(site.URL + base + "gpu/" + d.UUID)
	site.await(t)
	send := func(next ...contract.Prospect) {
		t.Helper()
		now = now.Add(time.Second)
		snap.Time = now
		u := newUpdate(snap, "why")
		u.GPUs[0].Next = next
		site.send(t, "gpu_status_update", u)
	}
	until := func(want string) {
		t.Helper()
		tab.Until(`[...document.querySelectorAll("#next li")].filter((l) => l.checkVisibility()).map((l) => l.innerText).join("|").replaceAll("\u00a0", " ").includes(` + string(encode(want)) + `)`)
	}
	soon := contract.Prospect{Kind: "memory_full", Sentence: "Full in about 25 min."}
	send(soon)
	until("Full in about 25 min. Off by 512 MiB")
	site.mu.Lock()
	site.next = forecasts(full, contract.Forecast{Kind: "quiet", Shown: true, Text: "Quiet in about 30 s.", ErrorUnit: "s", Trials: 9, Error: gpu.Of(8.0)})
	site.mu.Unlock()
	quiet := contract.Prospect{Kind: "quiet", Sentence: "Quiet in about 20 s."}
	send(soon, quiet)
	until("Quiet in about 30 s. Off by 8 s")
	send(soon, quiet)
	until("Full in about 25 min. Off by 512 MiB in the mean of 14 trials; “as now” by not known.|Quiet in about 20 s.")
	send()
	tab.Until(`[...document.querySelectorAll("#next li")].every((l) => !l.checkVisibility())`)
	tab.Quiet()
}
