//go:build !race

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/testkit/browser"
	"github.com/gpuwhy/gpuwhy/sampler/nvml/fakenvml"
)

// No text from a device or a process becomes markup or changes the text around it,
// however long it is: through the driver, the hub and the scripts.
func TestAHostileMachineShowsAsText(t *testing.T) {
	t.Parallel()
	marked := `<img src=x onerror="document.title='owned'"><script>document.title="owned"</script>`
	turned := "\u202egpj.exe\u202c \u200f\u2067 RTL"
	names := []string{marked, turned, strings.Repeat("W", 90), "🚀👩‍👩‍👧‍👦 \x1b[31mred\x07", `"><svg onload=alert(1)> {{7*7}} ${1}`}
	gpus := make([]fakenvml.GPU, len(names))
	for i, name := range names {
		gpus[i] = fakenvml.RTX4090().At(i+1).With(fakenvml.Name, name)
	}
	lib, m := machine(t, gpus...)
	for i, name := range []string{marked, turned, strings.Repeat("long ", 2000), "🚀 \x1b[31m\xff", "</script><style>*{display:none}</style>"} {
		pid := processNamed(t, name, strings.Repeat("x", 10_000), marked)
		m.GPU(i).SetProcesses(fakenvml.Process{PID: uint32(pid), Type: "compute", Memory: 1 << 30, SM: 40})
	}
	p, b := start(t, lib.Env(), fast, "--show-commands=all"), quietTab(t, 1440, 900)
	u := p.await("every process has a command", func(u contract.Update) bool {
		for _, g := range u.GPUs {
			if len(g.Processes) != 1 || g.Processes[0].Command == nil {
				return false
			}
		}
		return len(u.GPUs) == len(names)
	})
	if u.GPUs[0].Name != marked {
		t.Errorf("the device's name is %q", u.GPUs[0].Name)
	}
	check := func(how string) {
		t.Helper()
		if title := browser.Ask[string](b, `document.title`); strings.Contains(title, "owned") {
			t.Errorf("%s: the title is %q", how, title)
		}
		if n := browser.Ask[int](b, `document.querySelectorAll("img, main script, main style, [onerror], [onload]").length`); n != 0 {
			t.Errorf("%s: %d elements are of a device's or a process's making", how, n)
		}
		if !browser.Ask[bool](b, `document.body.innerText.includes("<img src=x onerror=")`) {
			t.Errorf("%s: the text itself is not shown", how)
		}
		if wide := browser.Ask[int](b, `document.documentElement.scrollWidth`); wide > 1440 {
			t.Errorf("%s: the page is %d wide", how, wide)
		}
		if turns := browser.Ask[[]string](b, `(() => {
		  const found = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
		  while (walk.nextNode()) {
		    const text = walk.currentNode.data, of = walk.currentNode.parentElement;
		    if (/[\u202a-\u202e\u2066-\u2069\u200e\u200f\x00-\x08\x0b-\x1f\x7f]/.test(text) && !of.closest("bdi, [dir=auto], script, style"))
		      found.push(of.outerHTML.slice(0, 200));
		  }
		  return found;
		})()`); len(turns) > 0 {
			t.Errorf("%s: these may turn the text around them, or are no text:\n%s", how, strings.Join(turns, "\n"))
		}
	}
	b.Visit(p.url)
	b.Until(live)
	b.Until(`document.querySelectorAll(".processes tbody tr").length === 5`)
	check("as served")
	// All of it once more by the scripts, from nothing: another script removes what it may not.
	b.Do(chromedp.Evaluate[chromedp.Void](`void document.querySelectorAll(".cards > li, .processes tbody tr").forEach((e) => e.remove())`))
	b.Until(fmt.Sprintf(`document.querySelectorAll(".cards > li").length === %d && document.querySelectorAll(".processes tbody tr").length === 5`, len(names)))
	check("by the scripts")
}

// processNamed starts a process with this name and these arguments. It ends with
// the test.
func processNamed(t testing.TB, name string, args ...string) int {
	t.Helper()
	program := filepath.Join(t.TempDir(), strings.ReplaceAll(name[:min(len(name), 200)], "/", "\u2215"))
	if err := os.Symlink("/bin/sh", program); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, append([]string{"-c", "read end"}, args...)...)
	cmd.Args[0] = name
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		_ = cmd.Wait() // the test's context may have killed it
	})
	return cmd.Process.Pid
}
