package static_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/views"
)

// complaints collects what the browser's console says.
type complaints struct {
	mu   sync.Mutex
	said []string
}

func listen(t *testing.T, ctx context.Context) *complaints {
	t.Helper()
	do(t, ctx, chromedp.Navigate("about:blank"))
	c := &complaints{}
	var done sync.WaitGroup
	done.Go(func() {
		for m, err := range chromedp.Console(ctx) {
			if err != nil {
				return // the tab is closed
			}
			c.mu.Lock()
			c.said = append(c.said, m.String())
			c.mu.Unlock()
		}
	})
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // it may be closed already
		done.Wait()
	})
	return c
}

// none fails the test if anything was said but what allow allows.
func (c *complaints) none(t *testing.T, allow ...string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
next:
	for _, text := range c.said {
		for _, a := range allow {
			if strings.Contains(text, a) {
				continue next
			}
		}
		t.Errorf("the browser says: %s", text)
	}
}

// until waits for a condition in the page.
func until(t *testing.T, ctx context.Context, condition string) {
	t.Helper()
	if _, err := chromedp.Run(ctx, chromedp.Poll[bool](condition, chromedp.WithPollingTimeout(20*time.Second))); err != nil {
		t.Fatalf("%s: %v; the page shows: %s", condition, err, ask[string](t, ctx, `document.body.innerText.slice(0, 1000)`))
	}
}

func untilWhy(t *testing.T, ctx context.Context, why string) {
	t.Helper()
	until(t, ctx, fmt.Sprintf(`document.getElementById("why").textContent === %q`, why))
}

// visit opens the page and waits until it is live.
func visit(t *testing.T, ctx context.Context, site *site) {
	t.Helper()
	do(t, ctx, chromedp.Navigate(site.URL+base))
	site.await(t)
	until(t, ctx, `document.getElementById("connection").dataset.state === "live"`)
}

// differences compares the page as it is with the page that the server would
// send now, element by element; charts and what tells of the connection aside.
const differences = `(async () => {
  const served = new DOMParser().parseFromString(await (await fetch(location.href)).text(), "text/html");
  const lines = (doc) => {
    const out = [doc.title];
    const walk = (el, depth) => {
      if (el.matches("#charts, #alerts, noscript, template, #age, #connection")) return;
      const attributes = [...el.attributes].filter((a) => !(el === doc.body && /^data-(now|taken|stale)$/.test(a.name)))
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

func sameAsServed(t *testing.T, ctx context.Context) bool {
	t.Helper()
	diff, err := chromedp.Run(ctx, chromedp.Evaluate[string](differences, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatal(err)
	}
	if diff != "" {
		t.Errorf("the live page is not the served one:\n%s", diff)
	}
	return diff == ""
}

// A page that was kept live is the page that the server sends, to the letter,
// after any change of what the machine is like.
func TestLivePageIsTheServedPage(t *testing.T) {
	ctx := browse(t, 1440, 900)
	console := listen(t, ctx)
	site := newSite(t, nil, "The first reading is still under way.")
	visit(t, ctx, site)
	do(t, ctx, chromedp.Evaluate[chromedp.Void](`void (window.sameDocument = true)`))
	sameAsServed(t, ctx)
	now := time.Now()
	for _, name := range []string{"eight", "many", "one", "none", "eight", "one"} {
		t.Run(name, func(t *testing.T) {
			now = now.Add(time.Second)
			e := exampleNamed(t, name, now)
			site.publish(t, e.Snapshot, e.Why)
			untilWhy(t, ctx, e.Why)
			sameAsServed(t, ctx)
		})
	}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 60 {
		now = now.Add(time.Second)
		why := fmt.Sprintf("Random machine %d.", i)
		site.publish(t, randomSnapshot(random, now), why)
		untilWhy(t, ctx, why)
		if !sameAsServed(t, ctx) {
			t.Fatalf("machine %d", i)
		}
	}
	if !ask[bool](t, ctx, `window.sameDocument === true && document.scripts.length === 1`) {
		t.Error("the page was loaded anew, or has another script")
	}
	console.none(t)
}

// The same table of values goes through both languages; package views has it.
func TestFormatAgreesWithGo(t *testing.T) {
	table, err := os.ReadFile("../views/testdata/format.json")
	if err != nil {
		t.Fatal(err)
	}
	ctx := browse(t, 800, 600)
	console := listen(t, ctx)
	site := newSite(t, nil, "why")
	visit(t, ctx, site)
	got, err := chromedp.Run(ctx, chromedp.Evaluate[string](fmt.Sprintf(`(async () => {
	  const format = await import(%q);
	  return %s.map((c) => ({ ...c, got: format[c.Function](c.Text === undefined ? c.Value : c.Text, c.Limit) }))
	    .filter((c) => c.got !== c.Want).map((c) => JSON.stringify(c)).join("\n");
	})()`, site.assets.URL(base, "format.js"), table), chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatal(err)
	}
	if got != "" {
		t.Errorf("these differ:\n%s", got)
	}
	console.none(t)
}

func TestReconnects(t *testing.T) {
	now := time.Now()
	e := exampleNamed(t, "one", now)
	ctx := browse(t, 1440, 900)
	console := listen(t, ctx)
	site := newSite(t, e.Snapshot, e.Why)
	visit(t, ctx, site)

	site.setRefuse(true)
	site.cut()
	until(t, ctx, `document.getElementById("connection").dataset.state === "waiting"`)
	// Nothing comes: what is shown grows old, and says so.
	until(t, ctx, `document.body.hasAttribute("data-stale") && document.getElementById("age").textContent.startsWith("no reading for")`)

	site.setRefuse(false)
	site.await(t)
	until(t, ctx, `document.getElementById("connection").dataset.state === "live"`)
	e = exampleNamed(t, "eight", time.Now())
	site.publish(t, e.Snapshot, e.Why)
	untilWhy(t, ctx, e.Why)
	until(t, ctx, `!document.body.hasAttribute("data-stale") && document.querySelectorAll("#cards > li").length === 8`)
	console.none(t, "WebSocket connection to")
}

func TestAlertsComeAndGo(t *testing.T) {
	now := time.Now()
	e := exampleNamed(t, "one", now)
	ctx := browse(t, 1440, 900)
	console := listen(t, ctx)
	site := newSite(t, e.Snapshot, e.Why)
	visit(t, ctx, site)

	at := func(d time.Duration) string { return now.Add(d).UTC().Format(time.RFC3339Nano) }
	alert := contract.Alert{ID: "a1", State: "firing", Since: at(-42 * time.Second), Timestamp: at(0), Message: "<b>busy</b>"}
	site.send(t, "high_gpu_usage_alert", alert)
	until(t, ctx, `document.querySelector("#alerts > [data-key=a1]")?.innerText.replace(/\s+/g, " ") .trim() === "High usage <b>busy</b>"`)

	// It stands again after the connection was lost, once.
	site.mu.Lock()
	site.alerts = []contract.Alert{alert}
	site.mu.Unlock()
	site.cut()
	site.await(t)
	site.publish(t, exampleNamed(t, "one", now.Add(time.Second)).Snapshot, "again")
	untilWhy(t, ctx, "again")
	until(t, ctx, `document.querySelectorAll("#alerts > *").length === 1`)

	alert.State, alert.Message = "resolved", "it is over"
	site.send(t, "high_gpu_usage_alert", alert)
	until(t, ctx, `document.querySelector("#alerts > [data-state=resolved]")?.innerText.replace(/\s+/g, " ").trim() === "Over it is over"`)

	// One that ended while the page was away is gone after the next reading.
	site.send(t, "high_gpu_usage_alert", contract.Alert{ID: "a2", State: "firing", Since: at(0), Timestamp: at(0), Message: "second"})
	until(t, ctx, `document.querySelectorAll("#alerts > *").length === 2`)
	site.mu.Lock()
	site.alerts = nil
	site.mu.Unlock()
	site.cut()
	site.await(t)
	site.publish(t, exampleNamed(t, "one", now.Add(2*time.Second)).Snapshot, "third")
	untilWhy(t, ctx, "third")
	until(t, ctx, `!document.querySelector("#alerts > [data-key=a2]")`)
	console.none(t, "WebSocket connection to")
}

// Thousands of updates leave as many elements as one.
func TestElementsDoNotGrow(t *testing.T) {
	now := time.Now()
	site := newSite(t, exampleNamed(t, "eight", now).Snapshot, "why")
	ctx := browse(t, 1440, 900)
	console := listen(t, ctx)
	visit(t, ctx, site)
	until(t, ctx, `document.querySelectorAll(".uplot").length === 5`)
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
		untilWhy(t, ctx, fmt.Sprintf("Update %d.", n))
		return ask[int](t, ctx, `document.querySelectorAll("*").length`)
	}
	update(1)
	before := count(1)
	for n := 2; n <= 2000; n++ {
		update(n)
		if n%100 == 0 { // let it draw some of them
			count(n)
		}
	}
	if after := count(2000); after != before {
		t.Errorf("%d elements after 2000 updates, %d after the first", after, before)
	}
	if got := ask[int](t, ctx, `document.querySelectorAll("#processes > tr").length`); got != 5 {
		t.Errorf("%d rows of processes, want 5", got)
	}
	console.none(t)
}

func TestChartsBeginWithThePastAndGoOn(t *testing.T) {
	now := time.Now()
	e := exampleNamed(t, "eight", now)
	site := newSite(t, e.Snapshot, e.Why)
	pastOf(site.past, e.Snapshot)
	ctx := browse(t, 1440, 900)
	console := listen(t, ctx)
	visit(t, ctx, site)
	until(t, ctx, `document.querySelectorAll(".uplot canvas").length === 5 && document.querySelectorAll("#series > li").length === 8`)

	next := exampleNamed(t, "eight", now.Add(time.Second)).Snapshot
	next.Devices[2].Thermal.GPU = gpu.Of[gpu.Celsius](93)
	site.publish(t, next, "next")
	readout := func(metric string) string {
		return fmt.Sprintf(`document.querySelector("[data-metric=%s] [data-f=readout]").textContent`, metric)
	}
	until(t, ctx, readout("temperature_celsius")+` === "highest 93 °C · GPU 2"`)
	if got := ask[string](t, ctx, readout("fan_percent")); got != "not reported" {
		t.Errorf("of cards without fans: %q", got)
	}
	do(t, ctx, chromedp.Click("#series > li:nth-child(2) button"))
	until(t, ctx, readout("temperature_celsius")+` === "85 °C · GPU 1" && document.querySelectorAll("#series [aria-pressed=true]").length === 1`)
	console.none(t)
}

// In a tab that nobody sees only its title moves; it is up to date as soon as
// it is shown.
func TestHiddenTabIsNotDrawn(t *testing.T) {
	now := time.Now()
	e := exampleNamed(t, "eight", now)
	site := newSite(t, e.Snapshot, e.Why)
	ctx := browse(t, 1440, 900)
	console := listen(t, ctx)
	visit(t, ctx, site)
	hide := func(hidden bool) string {
		return fmt.Sprintf(`void (Object.defineProperty(document, "hidden", { value: %v, configurable: true }), document.dispatchEvent(new Event("visibilitychange")))`, hidden)
	}
	do(t, ctx, chromedp.Evaluate[chromedp.Void](hide(true)))
	do(t, ctx, chromedp.Evaluate[chromedp.Void](`void (window.changes = 0, new MutationObserver((list) => { window.changes += list.length; }).observe(document.body, { subtree: true, childList: true, attributes: true, characterData: true }))`))
	one := exampleNamed(t, "one", now.Add(time.Second))
	site.publish(t, one.Snapshot, one.Why)
	until(t, ctx, `document.title === "97 % · 71 °C · gpuwhy"`)
	twoFrames := `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(window.changes))))`
	got, err := chromedp.Run(ctx, chromedp.Evaluate[int](twoFrames, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatal(err)
	}
	if got != 0 {
		t.Errorf("%d changes to a hidden page", got)
	}
	do(t, ctx, chromedp.Evaluate[chromedp.Void](hide(false)))
	untilWhy(t, ctx, one.Why)
	console.none(t)
}

func TestNothingOverflows(t *testing.T) {
	ctx := browse(t, 1440, 900)
	console := listen(t, ctx)
	now := time.Now()
	examples := views.Examples(now)
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
		visit(t, ctx, site)
		for _, width := range []int64{320, 390, 768, 1440, 3840} {
			do(t, ctx, chromedp.EmulateViewport(width, 900))
			if got := ask[int](t, ctx, `document.documentElement.scrollWidth`); got > int(width) {
				t.Errorf("%s at %d: %d wide: %s", e.Name, width, got, ask[string](t, ctx, `[...document.querySelectorAll("main *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest(".scroll")).slice(0, 5).map((e) => e.outerHTML.slice(0, 120)).join("\n")`))
			}
			if width == 1440 && e.Name == "eight" {
				if got := ask[float64](t, ctx, `document.getElementById("cards").getBoundingClientRect().bottom`); got > 900 {
					t.Errorf("the cards of eight GPUs end at %v of 900", got)
				}
			}
		}
		site.cut()
	}
	console.none(t, "WebSocket connection to")
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
	d.Instances = make([]gpu.Instance, r.IntN(2)*r.IntN(7))
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

func randomProcess(r *rand.Rand, now time.Time) gpu.Process {
	return gpu.Process{
		PID: r.IntN(6), Type: pick(r, gpu.TypeCompute, gpu.TypeGraphics, gpu.TypeMPS), Memory: bytesOf(r),
		SM: reading[gpu.Percent](r, 100), Encoder: reading[gpu.Percent](r, 100), GPUInstance: maybe(r, r.IntN(2)),
		Facts: gpu.ProcessFacts{
			Name: maybe(r, pick(r, "", "python", "\x1b[31m\xff🚀", strings.Repeat("🚀", 90))), User: maybe(r, "alice"),
			Command: maybe(r, pick(r, "python x.py", strings.Repeat("a ", 400))), Started: maybe(r, now.Add(-time.Duration(r.Int64N(1e15)))),
		},
	}
}

func randomHost(r *rand.Rand) *gpu.Host {
	h := &gpu.Host{
		Hostname: pick(r, "", "host"), OS: "Debian", Kernel: "6.1", Uptime: maybe(r, time.Duration(r.Int64N(1e16))),
		CPUModel: maybe(r, "EPYC"), Cores: maybe(r, 1+r.IntN(3)), CPU: reading[gpu.Percent](r, 100),
		Load1: reading[float64](r, 50), Load5: reading[float64](r, 50), Load15: reading[float64](r, 50),
		MemoryTotal: bytesOf(r), MemoryUsed: bytesOf(r), SwapTotal: bytesOf(r), SwapUsed: bytesOf(r),
		Self: gpu.Self{CPU: reading[gpu.Percent](r, 3), RSS: bytesOf(r)},
	}
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
