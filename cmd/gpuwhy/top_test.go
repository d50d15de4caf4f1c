//go:build !race

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

// A tmux is a window of a tmux server of its own, in which a shell runs.
type tmux struct {
	t      *testing.T
	socket string
}

// newTmux starts tmux. It ends with the test.
func newTmux(t *testing.T, width, height int) *tmux {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Fatalf("%v: make needs-test installs it on Debian", err)
	}
	w := &tmux{t, filepath.Join(t.TempDir(), "tmux")}
	w.do("-f", os.DevNull, "new-session", "-d", "-x", fmt.Sprint(width), "-y", fmt.Sprint(height), "env PS1='ready> ' sh")
	t.Cleanup(func() { w.do("kill-server") })
	w.awaits("ready>")
	return w
}

func (w *tmux) do(args ...string) string {
	w.t.Helper()
	out, err := exec.Command("tmux", append([]string{"-u", "-S", w.socket}, args...)...).CombinedOutput()
	if err != nil {
		w.t.Fatalf("tmux %v: %v: %s", args, err, out)
	}
	return string(out)
}

// types presses keys, as tmux names them.
func (w *tmux) types(keys ...string) {
	w.t.Helper()
	w.do(append([]string{"send-keys"}, keys...)...)
}

func (w *tmux) runs(command ...string) {
	w.t.Helper()
	w.types("-l", strings.Join(command, " "))
	w.types("Enter")
}

// String is the screen, for failures.
func (w *tmux) String() string { return w.screen() }

func (w *tmux) screen() string { w.t.Helper(); return w.do("capture-pane", "-p") }

// awaits waits until the screen has the texts.
func (w *tmux) awaits(texts ...string) string {
	w.t.Helper()
	var now string
	testkit.Until(w.t, fmt.Sprintf("the screen shows %q", texts), func() bool {
		now = w.screen()
		for _, text := range texts {
			if !strings.Contains(now, text) {
				return false
			}
		}
		return true
	}, w)
	return now
}

// gpuwhy top in a terminal: it follows a running gpuwhy through keys, a change of the window's size, Ctrl+Z and the end of the server, whose readings are
// then old, and gives the terminal back, also after SIGTERM. Without a gpuwhy it reads by itself, and without a terminal it prints a frame.
func TestTopInATerminal(t *testing.T) {
	t.Parallel()
	server := start(t, nil, "--source", "simulate:dgx-h100", "--interval", "250ms")
	w := newTmux(t, 80, 24)
	w.runs(binary, "top", "--url", server.url)
	first := w.awaits("dgx-01", "SIMULATED", "UTIL 5 MIN", "WATTS▾", "q Quit", "H100")
	if strings.Contains(first, "ready>") || strings.Contains(first, "OLD") {
		t.Errorf("a first frame:\n%s", first)
	}
	w.types("F6", "Down", "Enter")
	w.awaits("GPU %▾")
	w.types("?")
	w.awaits("sort by watts")
	w.types("Escape") // alone, since terminals send it before what is pressed with Alt
	w.awaits("UTIL 5 MIN")
	w.types("Tab", "Down", "Enter")
	w.awaits("certainty", "GPU 0  NVIDIA H100")
	w.types("q")
	w.do("resize-window", "-x", "200", "-y", "60")
	wide := w.awaits("WHY", "COMMAND", "GPU 7 utilization", "Tab Pane")
	if lines := strings.Split(strings.TrimRight(wide, "\n"), "\n"); len(lines) != 60 {
		t.Errorf("%d lines in a window of 200×60:\n%s", len(lines), wide)
	}
	w.types("C-z")
	if stopped := w.awaits("ready>"); strings.Contains(stopped, "utilization") {
		t.Errorf("the terminal is not as it was:\n%s", stopped)
	}
	w.runs("fg")
	w.awaits("GPU 7 utilization")
	server.kill()
	w.awaits("OLD: ", "trying again", "Last known: ")
	w.types("q")
	w.awaits("ready>")
	w.runs("echo ended $?")
	if after := w.awaits("ended 0"); strings.Contains(after, "Last known") {
		t.Errorf("the terminal is not as it was:\n%s", after)
	}

	w.runs("clear; NO_COLOR=1", binary, "top", "--listen", "127.0.0.1:1", "--source", "simulate:rtx-4090; echo gone $?")
	w.awaits("desktop", "RTX 4090", "WATTS▾")
	if colors := regexp.MustCompile(`\x1b\[(?:\d+;)*(?:3[0-8]|9[0-7])[;m]`).FindString(w.do("capture-pane", "-p", "-e")); colors != "" {
		t.Errorf("with NO_COLOR there is %q", colors)
	}
	shell := strings.TrimSpace(w.do("list-panes", "-F", "#{pane_pid}"))
	children, err := os.ReadFile(filepath.Join("/proc", shell, "task", shell, "children"))
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscan(string(children), &pid); err != nil {
		t.Fatalf("%q: %v", children, err)
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if after := w.awaits("gone 0"); strings.Contains(after, "WATTS") {
		t.Errorf("after SIGTERM the terminal is not as it was:\n%s", after)
	}

	// What the log would say about a source that finds no card is neither over the view nor left behind.
	w.runs("clear;", binary, "top", "--listen", "127.0.0.1:1", "--source", "intel; echo left $?")
	w.awaits("without alerts.")
	w.types("q")
	if after := w.awaits("left 0"); strings.Contains(after, "level=") {
		t.Errorf("the log is in the terminal:\n%s", after)
	}
}

// Without a terminal, or with one that can't be drawn on, gpuwhy top prints one frame as plain text.
func TestTopPrints(t *testing.T) {
	t.Parallel()
	r := command(t, []string{"COLUMNS=120"}, "top", "--listen", "127.0.0.1:1", "--source", "simulate:dgx-h100")
	if r.code != exitOK || strings.Contains(r.stdout, "\x1b") || !strings.Contains(r.stdout, "SIMULATED") || !strings.Contains(r.stdout, "H100") || !strings.Contains(r.stdout, "WATTS") {
		t.Errorf("exit status %d, %s\n%s", r.code, r.stderr, r.stdout)
	}
	if r := command(t, nil, "top", "--listen", "127.0.0.1:1", "--source", "auto"); strings.Contains(r.stderr, "level=INFO") {
		t.Errorf("it says what is only news to somebody who runs gpuwhy for long: %s", r.stderr)
	}
	if r := inside("top", "--at", "when pigs fly"); r.code != exitUsage || !strings.Contains(r.stderr, "not a span of time") {
		t.Errorf("exit status %d, %s", r.code, r.stderr)
	}
}
