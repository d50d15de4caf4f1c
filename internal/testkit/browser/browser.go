// Package browser drives a real Chromium in tests. Only tests import it.
//
// The tests of a package share one browser. The first [Open] starts it, and
// [Close] ends it:
//
//	func TestMain(m *testing.M) {
//		code := m.Run()
//		browser.Close()
//		os.Exit(code)
//	}
package browser

import (
	"context"
	"fmt"
	"iter"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/storage"
	"github.com/chromedp/chromedp"

	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

type browser struct {
	once sync.Once
	ctx  context.Context // nil until it starts
	err  error
}

// shared is the browser of the package under test.
var shared browser

// Close ends the browser that the tests of a package share, if one was started.
func Close() { shared.close() }

// headless is Chromium without windows, which does the same for two thirds of the CPU time. If it isn't installed, chromedp looks for another.
const headless = "chromium-headless-shell"

// start starts the browser so that none of its processes gives up on another on a machine that is busy or stops for seconds.
// By default a new process ends if the browser does not answer it within 15 s.
func (b *browser) start(more ...Option) {
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.NoSandbox, chromedp.DisableGPU, chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-gpu-watchdog", true), chromedp.Flag("ipc-connection-timeout", "600"),
		// chromedp's own list, and no process in advance for a page that is never opened.
		chromedp.Flag("disable-features", "Translate,BlinkGenPropertyTrees,SpareRendererForSitePerProcess"))
	if path, err := exec.LookPath(headless); err == nil {
		options = append(options, chromedp.ExecPath(path))
	}
	ctx, _ := chromedp.NewExecAllocator(context.Background(), append(options, more...)...)
	b.ctx, _ = chromedp.NewContext(ctx)
	b.err = chromedp.Do(b.ctx)
}

func (b *browser) close() {
	if b.ctx != nil {
		_ = chromedp.Cancel(b.ctx) // it may have ended already
	}
}

// A Tab is one tab with its own storage, cookies and permissions. It closes
// when the test ends.
type Tab struct {
	t   testing.TB
	ctx context.Context

	passed, slept time.Duration // how far Pass and Sleep have moved the clocks of its pages

	mu      sync.Mutex
	said    []string        // on the console
	visited map[string]bool // hosts
	origins map[string]bool // of the visited hosts: what pages may have stored is theirs
	asked   map[string]bool // addresses that pages have asked for
}

// Option is an option for starting the browser, such as a [chromedp.Flag].
type Option = chromedp.ExecAllocatorOption

// Open opens an empty tab of the given size in the shared browser. With options,
// the test gets its own browser, which ends with the test. Without an installed
// browser, the test fails.
func Open(t testing.TB, width, height int, own ...Option) *Tab {
	t.Helper()
	in := &shared
	if len(own) > 0 {
		in = &browser{}
		t.Cleanup(in.close)
	}
	in.once.Do(func() { in.start(own...) })
	if in.err != nil {
		t.Fatalf("these tests need Chromium ('make test' installs it on Debian as root): %v", in.err)
	}
	ctx, _ := chromedp.NewContext(in.ctx, chromedp.WithNewBrowserContext())
	b := &Tab{t: t, ctx: ctx, visited: map[string]bool{}, origins: map[string]bool{}, asked: map[string]bool{}}
	// The tab lives as long as the context of its first step.
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(int64(width), int64(height))); err != nil {
		t.Fatal(err)
	}
	requests := chromedp.Events(ctx, network.RequestWillBeSent)
	Call(b, network.Enable, network.EnableParams{})
	// Only one tab can have the system's focus. Each behaves as if it had it.
	Call(b, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	var done sync.WaitGroup
	done.Go(func() {
		listen(b, requests, func(e network.EventRequestWillBeSent) { b.asked[e.Request.URL] = true })
	})
	done.Go(func() {
		listen(b, chromedp.Console(ctx), func(m chromedp.ConsoleMessage) { b.said = append(b.said, m.String()) })
	})
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // it may be closed already
		done.Wait()
	})
	return b
}

// Lend lets a subtest use the tab until the subtest ends, almost as if the tab were new: what earlier pages have stored, said and asked for is
// gone. A page in a new tab costs almost three times as much CPU time, since a process starts and compiles all scripts. The earlier page stays
// until the next [Tab.Visit], so what goes on complaining needs a tab of its own. Size, preferences, scripts ([Tab.Before]) and history stay,
// too. One subtest at a time may use a tab.
func (b *Tab) Lend(t testing.TB) {
	t.Helper()
	lender := b.t
	b.t = t
	t.Cleanup(func() { b.t = lender })
	b.mu.Lock()
	defer b.mu.Unlock()
	for origin := range b.origins {
		Call(b, storage.ClearDataForOrigin, storage.ClearDataForOriginParams{Origin: origin, StorageTypes: "all"})
	}
	b.said = nil
	clear(b.asked)
}

// listen keeps events until the tab closes.
func listen[E any](b *Tab, events iter.Seq2[E, error], keep func(E)) {
	for e, err := range events {
		if err != nil {
			return
		}
		b.mu.Lock()
		keep(e)
		b.mu.Unlock()
	}
}

// run ends the test if a step fails or hangs.
func run[T any](b *Tab, what string, step func(context.Context) (T, error)) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, testkit.Patience)
	defer cancel()
	v, err := step(ctx)
	if err != nil {
		b.t.Fatalf("%.300s: %v", what, err)
	}
	return v
}

// Do runs steps. A failing step ends the test.
func (b *Tab) Do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	run(b, "steps", func(ctx context.Context) (any, error) { return nil, chromedp.Do(ctx, steps...) })
}

// Call sends a command of the DevTools protocol and returns the result.
func Call[P, R any](b *Tab, command cdp.Command[P, R], params P) R {
	b.t.Helper()
	return run(b, "DevTools", func(ctx context.Context) (R, error) { return chromedp.Call(ctx, command, params) })
}

// Ask evaluates JavaScript in the page. If the result is a promise, it returns
// what the promise resolves to.
func Ask[T any](b *Tab, expression string) T {
	b.t.Helper()
	return run(b, expression, func(ctx context.Context) (T, error) {
		return chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	})
}

// Until waits until a JavaScript condition holds in the page.
func (b *Tab) Until(condition string) {
	b.t.Helper()
	testkit.Until(b.t, condition, func() bool {
		// The page itself polls, and a page that must not run scripts never does.
		ctx, cancel := context.WithTimeout(b.ctx, testkit.Patience)
		defer cancel()
		_, err := chromedp.Run(ctx, chromedp.Poll[bool](condition, chromedp.WithPollingTimeout(0)))
		if b.ctx.Err() != nil {
			b.t.Fatalf("%s: %v", condition, err) // the browser has ended
		}
		return err == nil // or another page replaces this one, and there is nothing to ask
	}, func() string {
		return "the page shows:\n" + Ask[string](b, `document.body?.innerText.slice(0, 1000) ?? "nothing"`)
	})
}

// stillClock is a clock for a page's scripts that only [Tab.Pass] moves. It counts how often intervals have run.
const stillClock = `window.stillClock = { begun: %d, passed: 0, slept: 0, runs: new Map() };
performance.now = () => 1_000_000 + stillClock.passed;
Date.now = () => stillClock.begun + stillClock.passed + stillClock.slept;
{
  const [begin, end] = [setInterval, clearInterval], { runs } = stillClock;
  window.setInterval = (f, ...more) => {
    const id = begin((...of) => { f(...of); if (runs.has(id)) runs.set(id, runs.get(id) + 1); }, ...more);
    runs.set(id, 0);
    return id;
  };
  window.clearInterval = (id) => { runs.delete(id); end(id); };
}`

// StopClock makes time stand still for the scripts of pages visited from now on: only [Tab.Pass] moves what they measure
// with performance.now or Date.now. So no script concludes that the server took too long because the machine is busy.
// Timers still use the machine's clock: what a script does after a while happens sooner or later.
func (b *Tab) StopClock() {
	b.t.Helper()
	b.Before(fmt.Sprintf(stillClock, time.Now().UnixMilli()))
}

// Pass moves the clock of [Tab.StopClock]. It returns once everything that the page does at intervals has run at the new time.
func (b *Tab) Pass(d time.Duration) {
	b.t.Helper()
	b.passed += d
	b.moveClock()
}

// Sleep moves the clock of [Tab.StopClock] as if the machine had slept, on Linux and macOS: Date.now moves, and
// performance.now stands still.
func (b *Tab) Sleep(d time.Duration) {
	b.t.Helper()
	b.slept += d
	b.moveClock()
}

func (b *Tab) moveClock() {
	b.t.Helper()
	move := fmt.Sprintf(`stillClock.passed = %d, stillClock.slept = %d`, b.passed.Milliseconds(), b.slept.Milliseconds())
	b.Before(move) // in the pages after this one
	b.Until(`(` + move + `, stillClock.before = new Map(stillClock.runs), true)`)
	// A page that has replaced this one meanwhile began at the new time.
	b.Until(`[...stillClock.before ?? []].every(([id, n]) => !stillClock.runs.has(id) || stillClock.runs.get(id) > n)`)
}

// Settle waits until the page has drawn its current state.
func (b *Tab) Settle() {
	b.t.Helper()
	Ask[bool](b, `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`)
}

// Visit opens an address and waits until it has loaded.
func (b *Tab) Visit(address string) {
	b.t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		b.t.Fatal(err)
	}
	b.mu.Lock()
	b.visited[u.Host], b.origins[u.Scheme+"://"+u.Host] = true, true
	b.mu.Unlock()
	b.Do(chromedp.Navigate(address))
}

// Resize changes the page's size.
func (b *Tab) Resize(width, height int64) {
	b.t.Helper()
	b.Do(chromedp.EmulateViewport(width, height))
}

// Prefer sets the preferences of the user's system, such as
// "prefers-color-scheme: dark", and removes all others.
func (b *Tab) Prefer(features ...string) {
	b.t.Helper()
	params := emulation.SetEmulatedMediaParams{}
	for _, f := range features {
		name, value, _ := strings.Cut(f, ": ")
		params.Features = append(params.Features, &emulation.MediaFeature{Name: name, Value: value})
	}
	Call(b, emulation.SetEmulatedMedia, params)
}

// Before runs a script in each page visited from now on, before the page's own
// scripts.
func (b *Tab) Before(script string) {
	b.t.Helper()
	Call(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
}

// Quiet fails the test if the console has a message without any of the allowed
// texts, or if a page has sent a request to a host that was not visited.
func (b *Tab) Quiet(allowed ...string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	slices.Sort(b.said)
next:
	for _, text := range slices.Compact(b.said) {
		for _, a := range allowed {
			if strings.Contains(text, a) {
				continue next
			}
		}
		b.t.Errorf("the browser's console says: %s", text)
	}
	for asked := range b.asked {
		if u, err := url.Parse(asked); err != nil || (u.Host != "" && !b.visited[u.Host]) {
			b.t.Errorf("the page asks for %s", asked)
		}
	}
}
