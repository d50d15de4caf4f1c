package main

import (
	"fmt"
	"testing"
	"time"

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

// BenchmarkPageUpdate is what one reading costs the main thread of an open page
// of 1440 × 900 with a quarter of an hour in its charts, from the message on the
// socket to the picture: in all, and of it scripts, style and layout.
func BenchmarkPageUpdate(b *testing.B) {
	for _, gpus := range []int{8, 64, 1000} {
		b.Run(fmt.Sprintf("gpus=%d", gpus), func(b *testing.B) {
			profile := fmt.Sprintf("fleet:%d", gpus)
			if gpus == 8 {
				profile = "dgx-h100"
			}
			s := newStage(b, 5*time.Second)
			a := s.playPast(profile, time.Date(2026, time.March, 3, 12, 0, 0, 0, time.UTC), 15*time.Minute, 5*time.Second)
			tab := quietTab(b, 1440, 900)
			tab.Before(countDraws)
			tab.Visit(s.url)
			tab.Until(live)
			tab.Settle()
			browsertest.Call(tab, performance.Enable, performance.EnableParams{})
			before := durations(tab)
			drawn := 0
			for b.Loop() {
				drawn++
				s.Publish(a.next(b, 5*time.Second))
				browsertest.Ask[bool](tab, fmt.Sprintf("drawn(%d)", drawn))
			}
			after := durations(tab)
			for name, unit := range map[string]string{
				"TaskDuration": "ms-main/op", "ScriptDuration": "ms-script/op", "LayoutDuration": "ms-layout/op", "RecalcStyleDuration": "ms-style/op",
			} {
				b.ReportMetric(1000*(after[name]-before[name])/float64(drawn), unit)
			}
			b.ReportMetric((after["LayoutCount"]-before["LayoutCount"])/float64(drawn), "layouts/op")
		})
	}
}

// durations are the browser's own sums for the page, in seconds, and counts.
func durations(tab *browsertest.Tab) map[string]float64 {
	sums := map[string]float64{}
	for _, m := range browsertest.Call(tab, performance.GetMetrics, cdp.Empty{}).Metrics {
		sums[m.Name] = m.Value
	}
	return sums
}
