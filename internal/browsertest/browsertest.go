// Package browsertest drives a real Chromium in tests. It is imported by tests
// alone.
package browsertest

import (
	"context"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// patience is how long a page may take to become as expected.
const patience = 30 * time.Second

// A Tab is one tab of a browser of its own, which ends with the test.
type Tab struct {
	t   testing.TB
	ctx context.Context

	mu   sync.Mutex
	said []string
}

// Open starts a browser with an empty tab of that size. A browser that is not
// installed fails the test.
func Open(t testing.TB, width, height int) *Tab {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(find(t)), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true), chromedp.Flag("no-first-run", true),
		chromedp.WindowSize(width, height),
	)
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	tab := &Tab{t: t, ctx: ctx}
	// The browser lives as long as the context of the first step.
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	done.Go(tab.listen)
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // it may be closed already
		done.Wait()
	})
	return tab
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

// Visit opens an address.
func (b *Tab) Visit(url string) {
	b.t.Helper()
	b.Do(chromedp.Navigate(url))
}

// Until waits for a JavaScript condition to hold in the page.
func (b *Tab) Until(condition string) {
	b.t.Helper()
	if _, err := chromedp.Run(b.ctx, chromedp.Poll[bool](condition, chromedp.WithPollingTimeout(patience))); err != nil {
		b.t.Fatalf("%s: %v; the page shows:\n%s", condition, err, Ask[string](b, `document.body.innerText.slice(0, 1000)`))
	}
}

// Ask evaluates JavaScript in the page.
func Ask[T any](b *Tab, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// Quiet fails the test if the console said anything that none of the allowed
// texts is part of.
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
}
