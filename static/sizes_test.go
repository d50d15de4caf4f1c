//go:build !race

package static_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/reading"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/internal/testkit/browser"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
	"github.com/gpuwhy/gpuwhy/sampler"
	"github.com/gpuwhy/gpuwhy/sampler/sim"
)

// simulated begins a site with a simulation, which has been read every five seconds for that long.
func simulated(tb testing.TB, profile string, past time.Duration) (s *site, step func()) {
	tb.Helper()
	s = newSite(tb)
	s.driven.Store(true) // how often a page is rendered does not depend on how fast the machine is
	nodes, err := sim.Nodes(profile, s.time)
	if err != nil {
		tb.Fatal(err)
	}
	var inputs []*reading.Inputs
	for _, node := range nodes {
		inputs = append(inputs, &reading.Inputs{Node: node.Node(), Sources: []sampler.Source{node}})
	}
	s.begin(inputs...)
	read := func() {
		for _, node := range nodes {
			snap, err := node.Read(context.Background())
			if err != nil {
				tb.Fatal(err)
			}
			snap.Node = node.Node()
			for i := range snap.Devices {
				snap.Devices[i].Index, snap.Devices[i].Node = i, node.Node()
			}
			s.publish(snap)
		}
	}
	for elapsed := time.Duration(0); elapsed < past; elapsed += 5 * time.Second {
		s.pass(5 * time.Second)
		read()
	}
	return s, func() {
		s.pass(s.opt.Interval - 300*time.Millisecond)
		read()
		s.pass(300 * time.Millisecond) // of many nodes a page is rendered once more
		s.Hub.Turn()
	}
}

// idle is a machine at rest: little moves, and that a little.
func idle(n int) *gpu.Snapshot {
	s := fixture.H100s(8)
	for i := range s.Devices {
		d := &s.Devices[i]
		d.Processes = gpu.Of([]gpu.Process{})
		d.Utilization.GPU, d.Utilization.Memory, d.Activity = gpu.Of[gpu.Percent](0), gpu.Of[gpu.Percent](0), gpu.Activity{}
		d.Memory.Used, d.Memory.Free = gpu.Of[gpu.Bytes](600<<20), gpu.Of[gpu.Bytes](80_000<<20)
		d.Power.Draw = gpu.Of(68 + gpu.Watts((n*7+i*3)%11)/20)
		if i == 6 { // it stays the one that draws most
			d.Power.Draw = gpu.Map(d.Power.Draw, func(w gpu.Watts) gpu.Watts { return w + 4 })
		}
		d.Thermal.GPU = gpu.Of(29 + gpu.Celsius((n/20+i)%2))
		d.Clocks.SM, d.Clocks.Graphics = gpu.Of[gpu.Megahertz](345), gpu.Of[gpu.Megahertz](345)
	}
	return s
}

// A reader gets pages as a browser does.
type reader struct {
	*site
	conn *websocket.Conn
	page string
}

func (s *site) reader(tb testing.TB, page string) *reader {
	tb.Helper()
	address := strings.Replace(s.URL, "http", "ws", 1) + "ws?page=" + url.QueryEscape(page) + "&have=" + s.version(tb, page)
	conn, _, err := websocket.Dial(tb.Context(), address, nil) //nolint:bodyclose // Dial says that nobody needs to
	if err != nil {
		tb.Fatal(err)
	}
	conn.SetReadLimit(-1)
	tb.Cleanup(func() { _ = conn.CloseNow() })
	return &reader{s, conn, page}
}

var versionIn = regexp.MustCompile(`<meta name="version" content="([^"]+)"`)

// version is that of a page as the server would send it now.
func (s *site) version(tb testing.TB, page string) string {
	tb.Helper()
	r, err := http.NewRequestWithContext(tb.Context(), http.MethodGet, s.URL+page, http.NoBody)
	if err != nil {
		tb.Fatal(err)
	}
	r.Header.Set("Accept", "text/html")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		tb.Fatal(err)
	}
	defer answer.Body.Close()
	html, err := io.ReadAll(answer.Body)
	if err != nil {
		tb.Fatal(err)
	}
	m := versionIn.FindSubmatch(html)
	if m == nil {
		tb.Fatalf("%s has no version: %d", page, answer.StatusCode)
	}
	return string(m[1])
}

// update reads until the page is the newest. It returns the bytes on the wire, and the last patch.
func (r *reader) update(tb testing.TB) (n int, last []byte) {
	tb.Helper()
	want := r.version(tb, r.page)
	for {
		ctx, cancel := context.WithTimeout(tb.Context(), testkit.Patience)
		_, message, err := r.conn.Read(ctx)
		cancel()
		if err != nil {
			tb.Fatal(err)
		}
		n += len(message) + 4 // the head of a frame
		var m struct {
			Data struct{ To, HTML string }
		}
		if err := json.Unmarshal(message, &m); err != nil {
			tb.Fatal(err)
		}
		if m.Data.HTML != "" {
			tb.Fatalf("a whole page of %d bytes", len(message))
		}
		if m.Data.To == want {
			return n, message
		}
	}
}

// An update is as short as what changed.
func TestUpdatesAreShort(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, profile, page string
		gpus, most          int
	}{
		{"8 idle", "", "", 8, 1_000},
		{"8 busy", "dgx-h100", "", 8, 3_000},
		{"64 busy", "fleet:64", "", 64, 15_000},
		{"1000", "fleet:1000", "", 1000, 120_000},
		{"8 busy, processes", "dgx-h100", "processes", 8, 3_000},
		{"8 busy, alerts", "dgx-h100", "alerts", 8, 3_000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var s *site
			var step func()
			updates := max(4, 40-tt.gpus/8)
			if tt.profile == "" {
				s = newSite(t)
				n := 0
				step = func() { n++; s.next(idle(n)) }
				for range 100 {
					step()
				}
			} else {
				s, step = simulated(t, tt.profile, min(10*time.Minute, 400*time.Minute/time.Duration(tt.gpus)))
			}
			r := s.reader(t, tt.page)
			sum, most := 0, []byte{}
			for range updates {
				step()
				n, frame := r.update(t)
				sum += n
				if len(frame) > len(most) {
					most = frame
				}
			}
			t.Logf("%d bytes in the mean, %d at most", sum/updates, len(most))
			if sum/updates > tt.most {
				t.Errorf("an update has %d bytes in the mean, more than %d; the longest is %d:\n%.3000s", sum/updates, tt.most, len(most), most)
			}
		})
	}
}

// What a browser loads for the first page is little.
func TestTheFirstLoadIsSmall(t *testing.T) {
	t.Parallel()
	s, _ := simulated(t, "dgx-h100", 15*time.Minute)
	tab := s.open(t, "", 1440, 900)
	loaded := browser.Ask[map[string]int](tab, `Object.fromEntries([...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")].map((e) => [e.name.replace(/.*\//, ""), e.encodedBodySize]))`)
	sum := 0
	for _, n := range loaded {
		sum += n
	}
	t.Logf("%d bytes: %v", sum, loaded)
	if sum > 65_000 || len(loaded) < 4 {
		t.Errorf("%d bytes, of %v", sum, loaded)
	}
	quiet(tab)
}

// Nothing jumps while readings come, and what the page holds does not grow.
func TestUpdatesMoveNothing(t *testing.T) {
	t.Parallel()
	for _, page := range []string{"", "processes"} {
		t.Run("page "+page, func(t *testing.T) {
			t.Parallel()
			s, step := simulated(t, "dgx-h100", 5*time.Minute)
			tab := s.open(t, page, 1440, 900, `window.shift = 0, window.shifts = [], new PerformanceObserver((list) => { for (const e of list.getEntries()) { if (e.sources.some((s) => s.node?.matches?.("ul.stop, #evidence"))) continue; shift = Math.max(shift, e.value); shifts.push(e.value.toFixed(4) + " " + e.sources.map((s) => s.node?.outerHTML?.slice(0, 80) ?? s.node?.parentElement?.outerHTML.slice(0, 80)).join(", ")); } }).observe({ type: "layout-shift", buffered: true });`)
			for range 40 {
				step()
				sameAsServed(t, tab)
			}
			if got := browser.Ask[float64](tab, `shift`); got > 0.01 {
				t.Errorf("it shifts by %.4f: %s", got, browser.Ask[string](tab, `shifts.join("\n")`))
			}
			quiet(tab)
		})
	}
}
