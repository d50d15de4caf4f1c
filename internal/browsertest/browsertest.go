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
	"net/url"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// patience ends a step that hangs. It is no expectation of how long a step
// takes: a test must also pass on a machine that is busy with other work.
const patience = 2 * time.Minute

// shared is the browser of the package under test.
var shared struct {
	start sync.Once
	ctx   context.Context
	err   error
}

// Close ends the browser that the tests of a package share, if one was started.
func Close() {
	if shared.ctx != nil {
		_ = chromedp.Cancel(shared.ctx) // it may have ended already
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
	parent, err := context.Context(nil), error(nil)
	if len(own) > 0 {
		parent, err = start(own...)
		t.Cleanup(func() { _ = chromedp.Cancel(parent) }) // it may have ended already
	} else {
		shared.start.Do(func() { shared.ctx, shared.err = start() })
		parent, err = shared.ctx, shared.err
	}
	if err != nil {
		t.Fatalf("these tests need Chromium ('make test' installs it on Debian as root): %v", err)
	}
	ctx, _ := chromedp.NewContext(parent, chromedp.WithNewBrowserContext())
	tab := &Tab{t: t, ctx: ctx, visited: map[string]bool{}, asked: map[string]bool{}}
	// The tab lives as long as the context of its first step.
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(int64(width), int64(height))); err != nil {
		t.Fatal(err)
	}
	requests := chromedp.Events(ctx, network.RequestWillBeSent)
	Call(tab, network.Enable, network.EnableParams{})
	// Several tabs can't have the system's focus. Each behaves as if it had.
	Call(tab, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
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

// start starts a browser.
func start(more ...Option) (context.Context, error) {
	path, err := find("chromium", "google-chrome", "chromium-browser")
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.Flag("disable-component-update", true))
	ctx, _ := chromedp.NewExecAllocator(context.Background(), append(options, more...)...)
	ctx, _ = chromedp.NewContext(ctx)
	if err == nil {
		err = chromedp.Do(ctx)
	}
	return ctx, err
}

// find returns the path of the first program that is installed.
func find(names ...string) (path string, err error) {
	for _, name := range names {
		if path, err = exec.LookPath(name); err == nil {
			break
		}
	}
	return path, err
}

// listen keeps the messages of the console.
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

// Do takes steps. A step that fails ends the test.
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

// Settle waits until the page has drawn its current state.
func (b *Tab) Settle() {
	b.t.Helper()
	Ask[bool](b, `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`)
}

// Call sends a command of the DevTools protocol and returns the result.
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

// Until waits until a JavaScript condition holds in the page.
func (b *Tab) Until(condition string) {
	b.t.Helper()
	// The page itself polls, and a page without scripts never does.
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	for {
		_, err := chromedp.Run(ctx, chromedp.Poll[bool](condition, chromedp.WithPollingTimeout(2*patience)))
		if err == nil {
			return
		}
		// While another page replaces this one, there is nothing to ask.
		if !strings.Contains(err.Error(), "Cannot find context") || ctx.Err() != nil {
			b.t.Fatalf("%s: %v; the page shows:\n%s", condition, err, Ask[string](b, `document.body.innerText.slice(0, 1000)`))
		}
	}
}

// Ask evaluates JavaScript in the page. If the result is a promise, it returns
// what the promise resolves to.
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

// Quiet fails the test if the console has a message that contains none of the
// allowed texts, or if a page has asked a host that was not visited.
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

// Grant gives a site a permission, such as "notifications", in this tab alone.
func (b *Tab) Grant(site, permission string) {
	b.t.Helper()
	Call(b, browser.SetPermission, browser.SetPermissionParams{
		Origin: site, BrowserContextID: chromedp.FromContext(b.ctx).BrowserContextID,
		Permission: &browser.PermissionDescriptor{Name: permission}, Setting: browser.PermissionSettingGranted,
	})
}
