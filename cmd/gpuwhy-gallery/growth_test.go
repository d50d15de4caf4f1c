package main

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/memory"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/gpuwhy/gpuwhy/internal/browsertest"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
)

// fakeSocket takes the place of the page's WebSocket: what the test says comes
// out of it at once, and thousands of messages take seconds.
const fakeSocket = `window.WebSocket = class extends EventTarget {
  static OPEN = 1;
  readyState = 1;
  constructor() { super(); window.socket = this; setTimeout(() => { this.onopen?.({}); this.dispatchEvent(new Event("open")); }); }
  send() {}
  close() {}
  say(event, data) {
    const message = new MessageEvent("message", { data: JSON.stringify({ event, data }) });
    this.onmessage?.(message);
    this.dispatchEvent(message);
  }
}`

// play says n updates, ten seconds apart by their own clocks, of a machine on
// which everything moves and processes come and go, and lets the page draw each
// twentieth.
const play = `(async (n) => {
  const { test, socket } = window;
  const { update } = test;
  const frame = () => new Promise(requestAnimationFrame);
  for (let i = 0; i < n; i++) {
    const at = (test.said += 1);
    update.seq = at;
    update.timestamp = new Date(test.begin + 10_000 * at).toISOString();
    update.why = "Update " + at + ".";
    for (const g of update.gpus) {
      g.sampled_at = update.timestamp;
      g.utilization.gpu_percent = (7 * at + 13 * g.gpu_id) % 101;
      if (g.temperature.current_celsius !== null) g.temperature.current_celsius = 40 + (at + g.gpu_id) % 50;
      if (g.processes.length > 0) g.processes[0].pid = 10_000 + at; // one has gone, one has come
    }
    socket.say("gpu_status_update", update);
    if (at % 20 === 0) await frame();
  }
  await frame();
  await frame();
  return document.getElementById("why").textContent;
})`

// weight is what a page holds after everything that can be freed was.
type weight struct {
	nodes, listeners int64
	heap             float64 // bytes
}

func weigh(b *browsertest.Tab) weight {
	// What a first collection has finalized takes another.
	for range 3 {
		browsertest.Call(b, heapprofiler.CollectGarbage, cdp.Empty{})
	}
	counters := browsertest.Call(b, memory.GetDOMCounters, cdp.Empty{})
	heap := browsertest.Call(b, runtime.GetHeapUsage, cdp.Empty{})
	return weight{counters.Nodes, counters.JsEventListeners, heap.UsedSize + heap.EmbedderHeapUsedSize}
}

// Many updates leave the page as heavy as the first ones did, by which the
// charts' quarter of an hour is full. `make soak` has ten thousand.
func TestUpdatesLeaveNothingBehind(t *testing.T) { growth(t, 500, 1000) }

// growth compares the weight of a page after some updates and after more.
func growth(t *testing.T, first, more int) {
	t.Helper()
	s, b := newStage(t), quietTab(t, 1440, 900, chromedp.Flag("disable-frame-rate-limit", true), chromedp.Flag("disable-gpu-vsync", true))
	begin := time.Now()
	snap := newActor(t, "dgx-h100", begin, begin).next(t, 0)
	s.Publish(snap)
	update, err := json.Marshal(contract.NewUpdate(insight.Of(snap), nil))
	if err != nil {
		t.Fatal(err)
	}
	b.Before(fakeSocket)
	b.Visit(s.url)
	b.Until(`window.socket !== undefined && document.querySelectorAll(".uplot").length > 0`)
	b.Do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`void (window.test = { update: %s, begin: %d, said: 0 })`, update, begin.UnixMilli())))
	said := 0
	say := func(updates int) {
		t.Helper()
		const at = 500 // a time: one step of the browser is to end soon
		for range updates / at {
			said += at
			if got := browsertest.Ask[string](b, fmt.Sprintf("%s(%d)", play, at)); got != fmt.Sprintf("Update %d.", said) {
				t.Fatalf("the page shows %q after update %d", got, said)
			}
		}
	}
	say(first)
	before, begun := weigh(b), time.Now()
	say(more)
	took, after := time.Since(begun), weigh(b)
	t.Logf("%d updates in %v: before %+v, after %+v", more, took.Round(time.Millisecond), before, after)
	if after.nodes > before.nodes+50 {
		t.Errorf("%d nodes have become %d", before.nodes, after.nodes)
	}
	if after.listeners > before.listeners {
		t.Errorf("%d event listeners have become %d", before.listeners, after.listeners)
	}
	// The engine itself keeps a little more the longer it runs. An update is
	// 28 KiB of text, a row of the table more than a kilobyte.
	if grown := after.heap - before.heap; grown > float64(max(more*100, 500_000)) {
		t.Errorf("the heap has grown by %.0f KiB, from %.0f", grown/1024, before.heap/1024)
	}
}
