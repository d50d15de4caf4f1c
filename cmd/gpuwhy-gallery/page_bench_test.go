package main

import (
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/performance"

	"github.com/gpuwhy/gpuwhy/internal/browsertest"
)

// countDraws makes drawn(n), a promise for the moment at which n updates have
// come over the page's socket and the page has been drawn with them.
const countDraws = `(() => {
  const Native = window.WebSocket;
  let count = 0;
  const waiting = [];
  const arrived = () => requestAnimationFrame(() => requestAnimationFrame(() => {
    count += 1;
    for (const w of waiting) if (count >= w.n) w.done(true);
  }));
  window.WebSocket = class extends Native {
    constructor(...args) {
      super(...args);
      this.addEventListener("message", (e) => { if (e.data.startsWith('{"event":"gpu_status_update"')) arrived(); });
    }
  };
  window.drawn = (n) => new Promise((done) => (count >= n ? done(true) : waiting.push({ n, done })));
})()`

// durations are the browser's own sums for the page, in seconds, and counts.
func durations(tab *browsertest.Tab) map[string]float64 {
	sums := map[string]float64{}
	for _, m := range browsertest.Call(tab, performance.GetMetrics, cdp.Empty{}).Metrics {
		sums[m.Name] = m.Value
	}
	return sums
}
