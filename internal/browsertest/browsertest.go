// Package browsertest drives a real Chromium in tests. It is imported by tests
// alone.
package browsertest

import (
	"context"
	"net/url"
	"os/exec"
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

// patience is how long a page may take to become as expected.
const patience = 30 * time.Second

// A Tab is one tab of a browser of its own, which ends with the test.
type Tab struct {
	t   testing.TB
	ctx context.Context

	mu      sync.Mutex
	said    []string        // on the console
	visited map[string]bool // hosts
	asked   map[string]bool // addresses that pages have asked for
}

// Option is one of how the browser is started, such as a [chromedp.Flag].
type Option = chromedp.ExecAllocatorOption

// Open starts a browser with an empty tab of that size. A browser that is not
// installed fails the test.
func Open(t testing.TB, width, height int, more ...Option) *Tab {
	t.Helper()
	ctx := Start(t, width, height, more...)
	tab := &Tab{t: t, ctx: ctx, visited: map[string]bool{}, asked: map[string]bool{}}
	// The browser lives as long as the context of the first step.
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil {
		t.Fatal(err)
	}
	requests := chromedp.Events(ctx, network.RequestWillBeSent)
	Call(tab, network.Enable, network.EnableParams{})
	var done sync.WaitGroup
	done.Go(tab.listen)
	done.Go(func() {
		for e, err := range requests {
			if err != nil {
				return // the tab is closed
			}
			tab.mu.Lock()
			tab.asked[e.Request.URL] = true
			tab.mu.Unlock()
		}
	})
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // it may be closed already
		done.Wait()
	})
	return tab
}

// Start starts a browser for steps of chromedp's own. It begins at the first
// step, lives as long as that step's context, and ends with the test. A browser
// that is not installed fails the test.
func Start(t testing.TB, width, height int, more ...Option) context.Context {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(find(t)), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true), chromedp.Flag("no-first-run", true),
		chromedp.WindowSize(width, height),
	)
	options = append(options, more...)
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	return ctx
}

func find(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"chromium", "google-chrome", "chromium-browser"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal("these tests need Chromium: 'make test' installs it on Debian as root")
	return ""
}

// listen keeps what the console says.
func (b *Tab) listen() {
	for m, err := range chromedp.Console(b.ctx) {
		if err != nil {
			return // the tab is closed
		}
		b.mu.Lock()
		b.said = append(b.said, m.String())
		b.mu.Unlock()
	}
}

// Do takes steps, or fails the test.
func (b *Tab) Do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
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

// Prefer sets what the user's system asks of pages, such as
// "prefers-color-scheme: dark", and nothing else.
func (b *Tab) Prefer(features ...string) {
	b.t.Helper()
	params := emulation.SetEmulatedMediaParams{}
	for _, f := range features {
		name, value, _ := strings.Cut(f, ": ")
		params.Features = append(params.Features, &emulation.MediaFeature{Name: name, Value: value})
	}
	Call(b, emulation.SetEmulatedMedia, params)
}

// Before runs a script in each page that is visited from now on, before those
// of the page.
func (b *Tab) Before(script string) {
	b.t.Helper()
	Call(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
}

// Settle waits until what the page knows now has been drawn.
func (b *Tab) Settle() {
	b.t.Helper()
	Ask[bool](b, `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`)
}

// Call is a command of the DevTools protocol.
func Call[P, R any](b *Tab, command cdp.Command[P, R], params P) R {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	answer, err := chromedp.Call(ctx, command, params)
	if err != nil {
		b.t.Fatal(err)
	}
	return answer
}

// Until waits for a JavaScript condition to hold in the page.
func (b *Tab) Until(condition string) {
	b.t.Helper()
	if _, err := chromedp.Run(b.ctx, chromedp.Poll[bool](condition, chromedp.WithPollingTimeout(patience))); err != nil {
		b.t.Fatalf("%s: %v; the page shows:\n%s", condition, err, Ask[string](b, `document.body.innerText.slice(0, 1000)`))
	}
}

// Ask evaluates JavaScript in the page, and waits for it if it is a promise.
func Ask[T any](b *Tab, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%.300s: %v", expression, err)
	}
	return v
}

// Quiet fails the test if the console said anything that none of the allowed
// texts is part of, or if a page has asked a host that was not visited.
func (b *Tab) Quiet(allowed ...string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
next:
	for _, text := range b.said {
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
