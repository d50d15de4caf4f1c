// Package browsertest drives a real Chromium in tests. Only tests import it.
//
// The tests of a package share one browser. The first [Open] starts it, and
// [Close] ends it:
//
//	func TestMain(m *testing.M) {
//		code := m.Run()
//		browsertest.Close()
//		os.Exit(code)
//	}
package browsertest

import (
	"context"
	"iter"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// patience ends a step that hangs. It is no expectation of how long a step
// takes: a test must also pass on a machine that is busy with other work.
const patience = 2 * time.Minute

type browser struct {
	once sync.Once
	ctx  context.Context // nil until it starts
	err  error
}

// shared is the browser of the package under test.
var shared browser

// Close ends the browser that the tests of a package share, if one was started.
func Close() { shared.close() }

func (b *browser) start(more ...Option) {
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.NoSandbox, chromedp.DisableGPU, chromedp.Flag("disable-component-update", true), chromedp.WSURLReadTimeout(patience))
	ctx, _ := chromedp.NewExecAllocator(context.Background(), append(options, more...)...)
	b.ctx, _ = chromedp.NewContext(ctx)
	b.err = chromedp.Do(b.ctx)
}

func (b *browser) close() {
	if b.ctx != nil {
		_ = chromedp.Cancel(b.ctx) // it may have ended already
	}
}

// A Tab is one tab with storage, cookies and permissions of its own. It closes
// when the test ends.
type Tab struct {
	t   testing.TB
	ctx context.Context

	mu      sync.Mutex
	said    []string        // on the console
	visited map[string]bool // hosts
	asked   map[string]bool // addresses that pages have asked for
}

// Option is an option of the browser's start, such as a [chromedp.Flag].
type Option = chromedp.ExecAllocatorOption

// Open opens an empty tab of that size in the shared browser. A test that needs
// options gets a browser of its own, which ends with the test. Without an
// installed browser the test fails.
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
	b := &Tab{t: t, ctx: ctx, visited: map[string]bool{}, asked: map[string]bool{}}
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
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	v, err := step(ctx)
	if err != nil {
		b.t.Fatalf("%.300s: %v", what, err)
	}
	return v
}

// Do takes steps. A step that fails ends the test.
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
	// The page itself polls, and a page that must not run scripts never does.
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	for {
		_, err := chromedp.Run(ctx, chromedp.Poll[bool](condition, chromedp.WithPollingTimeout(2*patience)))
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			b.t.Fatalf("%s: %v; the page shows:\n%s", condition, err, Ask[string](b, `document.body?.innerText.slice(0, 1000) ?? "nothing"`))
		}
		time.Sleep(10 * time.Millisecond) // another page replaces this one, and there is nothing to ask
	}
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
	b.visited[u.Host] = true
	b.mu.Unlock()
	b.Do(chromedp.Navigate(address))
}

// Resize gives the page another size.
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

// Before runs a script in each page that is visited from now on, before the
// page's own scripts.
func (b *Tab) Before(script string) {
	b.t.Helper()
	Call(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
}

// Quiet fails the test if the console has a message that contains none of the
// allowed texts, or if a page has asked a host that was not visited.
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
