//go:build linux

package main

import (
	"flag"
	"fmt"
	"html"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/contract"
)

var updateDocs = flag.Bool("update", false, "write what the faults did into docs/reliability.md")

// A stand is the running program beside a machine whose faults are made.
type stand struct {
	*testing.T
	p      *program
	v      *viewer
	target func(g *contract.UpdateGPU) bool // of the fault that is there; nil: nobody is checked
	u      contract.Update
	began  time.Time     // of the fault
	within time.Duration // the deadline
}

const hurried = 500 * time.Millisecond

func newStand(t *testing.T, env []string, args ...string) *stand {
	t.Helper()
	return newStandWithin(t, hurried, env, args...)
}

func newStandWithin(t *testing.T, within time.Duration, env []string, args ...string) *stand {
	t.Helper()
	p := start(t, env, append([]string{fast, "--deadline=" + within.String(), "--log-level=error"}, args...)...)
	return &stand{T: t, p: p, v: p.dial(), within: within}
}

// next is the next reading, of which it checks what is true of each: who has no fault answers,
// who does not answer says why and has no readings, and nothing old is there without a word.
func (s *stand) next() *contract.Update {
	s.Helper()
	s.u = contract.Update{}
	s.v.next("gpu_status_update", &s.u)
	read := moment(s.T, &s.u.Timestamp)
	for i := range s.u.GPUs {
		g := &s.u.GPUs[i]
		name := g.Source + " " + g.PCIBusID
		if s.target != nil && !s.target(g) && g.State != "ok" {
			s.Errorf("%s has no fault and is %s: %s", name, g.State, g.StateReason)
		}
		switch {
		case g.State != "ok" && (hasReadings(g) || g.SampledAt != nil):
			s.Errorf("%s is %s and has readings", name, g.State)
		case g.State != "ok" && g.StateReason == "":
			s.Errorf("%s is %s, and does not say why", name, g.State)
		case g.State == "ok" && g.StateReason == "" && read.Sub(moment(s.T, g.SampledAt)) > 2*s.within+2*time.Second:
			s.Errorf("%s is ok, and was read at %s; it is %s", name, *g.SampledAt, s.u.Timestamp)
		}
	}
	return &s.u
}

func moment(t *testing.T, text *string) time.Time {
	t.Helper()
	if text == nil {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, *text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func hasReadings(g *contract.UpdateGPU) bool {
	return g.Utilization.GPU.Present() || g.Temperature.GPU.Present() || g.Power.Draw.Present() ||
		g.Memory.Used.Present() || g.Clocks.SM.Present() || len(g.Processes) > 0
}

// until reads until it is so.
func (s *stand) until(what string, done func(u *contract.Update) bool) *contract.Update {
	s.Helper()
	for end := time.Now().Add(patience); ; {
		if u := s.next(); done(u) {
			return u
		}
		if time.Now().After(end) {
			for i := range s.u.GPUs {
				g := &s.u.GPUs[i]
				s.Logf("%s %s: %s %s", g.Source, g.PCIBusID, g.State, g.StateReason)
			}
			s.Fatalf("waited %v until %s; %v", patience, what, s.u.Failures)
		}
	}
}

// is reports whether every GPU that is asked for is so, and there is one.
func is(which func(*contract.UpdateGPU) bool, so func(*contract.UpdateGPU) bool) func(*contract.Update) bool {
	return func(u *contract.Update) bool {
		found := false
		for i := range u.GPUs {
			if g := &u.GPUs[i]; which(g) {
				if !so(g) {
					return false
				}
				found = true
			}
		}
		return found
	}
}

func everyone(*contract.UpdateGPU) bool { return true }

func at(address string) func(*contract.UpdateGPU) bool {
	return func(g *contract.UpdateGPU) bool { return g.PCIBusID == address }
}

func of(vendor string) func(*contract.UpdateGPU) bool {
	return func(g *contract.UpdateGPU) bool { return g.Vendor == vendor }
}

// word says how a GPU does.
func word(g *contract.UpdateGPU) string {
	if g.State == "ok" && strings.HasPrefix(g.StateReason, "slow: ") {
		return "slow"
	}
	return strings.ReplaceAll(g.State, "_", " ")
}

func (s *stand) words(which func(*contract.UpdateGPU) bool) string {
	var all []string
	for i := range s.u.GPUs {
		if g := &s.u.GPUs[i]; which(g) {
			all = append(all, word(g))
		}
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ", ")
}

// well waits until all is as it was.
func (s *stand) well(n int) {
	s.Helper()
	s.target = nil
	s.until("all is well", func(u *contract.Update) bool {
		return len(u.GPUs) == n && u.Answering == n && is(everyone, func(g *contract.UpdateGPU) bool {
			return g.StateReason == "" && moment(s.T, g.SampledAt).After(s.began)
		})(u)
	})
}

// fault begins one: only these GPUs may show it.
func (s *stand) fault(target func(*contract.UpdateGPU) bool) {
	s.target, s.began = target, time.Now()
}

// heard waits for readings of everybody that the fault does not touch, and for so many
// readings at all.
func (s *stand) heard(readings int) {
	s.Helper()
	for range readings {
		s.next()
	}
	spared := func(g *contract.UpdateGPU) bool { return !s.target(g) }
	read := func(g *contract.UpdateGPU) bool { return moment(s.T, g.SampledAt).After(s.began) }
	s.until("the others are read", is(spared, read))
}

// said is what the update, /api/health and the page say of a GPU that can't be read, or is slow.
func (s *stand) said(which func(*contract.UpdateGPU) bool) string {
	s.Helper()
	for i := range s.u.GPUs {
		g := &s.u.GPUs[i]
		if !which(g) || g.StateReason == "" {
			continue
		}
		// The next reading may say another number.
		common, _, _ := strings.Cut(regexp.MustCompile(`\d+(\.\d+)?m?s\b`).ReplaceAllString(g.StateReason, "\x00"), "\x00")
		var health contract.MonitorHealth
		if s.p.get("/api/health", &health); !strings.Contains(health.Reason, common) {
			s.Errorf("/api/health says %q, and the GPU %q", health.Reason, g.StateReason)
		}
		if degraded := g.State != "ok"; (health.Status != "ok") != degraded && degraded {
			s.Errorf("/api/health says %s of a GPU that is %s", health.Status, g.State)
		}
		_, page := s.p.fetch("/", map[string][]string{"Accept": {"text/html"}})
		_, rest, _ := strings.Cut(common, " ") // the page begins a sentence with a capital
		if !strings.Contains(html.UnescapeString(string(page)), rest) {
			s.Errorf("the page does not say %q", rest)
		}
		return g.StateReason
	}
	return ""
}

// use is what the program has, by its own account and by that of the system.
type use struct{ goroutines, descriptors, threads, mebibytes int }

func (s *stand) use() use {
	s.Helper()
	pid := strconv.Itoa(s.p.cmd.Process.Pid)
	_, metrics := s.p.fetch("/metrics", nil)
	u := use{mebibytes: int(resident(s, s.p.cmd.Process.Pid)) >> 20}
	for line := range strings.Lines(string(metrics)) {
		if n, ok := strings.CutPrefix(line, "go_goroutines "); ok {
			u.goroutines, _ = strconv.Atoi(strings.TrimSpace(n))
		}
	}
	for file, n := range map[string]*int{"fd": &u.descriptors, "task": &u.threads} {
		entries, err := os.ReadDir(filepath.Join("/proc", pid, file))
		if err != nil {
			s.Fatal(err)
		}
		*n = len(entries)
	}
	if u.goroutines == 0 {
		s.Fatal("/metrics does not say how many goroutines there are")
	}
	return u
}

// leaks reports whether something was not given back. A thread stays that once waited for a call.
func (s *stand) leaks(before, after use) bool {
	const goroutines, descriptors, threads = 5, 5, 30
	return after.goroutines > before.goroutines+goroutines || after.descriptors > before.descriptors+descriptors ||
		after.threads > before.threads+threads
}

// keepAccount checks at the end of the test that the faults have left nothing behind.
func (s *stand) keepAccount() {
	before := s.use()
	s.Cleanup(func() {
		if s.Failed() {
			return
		}
		for end := time.Now().Add(patience); s.leaks(before, s.use()) && time.Now().Before(end); {
			s.next() // what was begun for a reading ends soon after it
		}
		if after := s.use(); s.leaks(before, after) {
			s.Errorf("before %+v, after %+v", before, after)
		}
	})
}

// A table is a part of docs/reliability.md: what each fault did to each place.
type table struct {
	title, place string
	faults       []string

	mu    sync.Mutex
	cells map[string]map[string]string // by place, by fault
}

func (t *table) put(place, fault, outcome string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cells == nil {
		t.cells = map[string]map[string]string{}
	}
	if t.cells[place] == nil {
		t.cells[place] = map[string]string{}
	}
	t.cells[place][fault] = outcome
}

func (t *table) markdown() string {
	var b strings.Builder
	n := 0
	for _, row := range t.cells {
		n += len(row)
	}
	fmt.Fprintf(&b, "### %s\n\n%d faults.\n\n| %s | %s |\n|---|%s\n", t.title, n, t.place, strings.Join(t.faults, " | "),
		strings.Repeat("---|", len(t.faults)))
	for _, place := range slices.Sorted(maps.Keys(t.cells)) {
		fmt.Fprintf(&b, "| `%s` |", place)
		for _, f := range t.faults {
			fmt.Fprintf(&b, " %s |", t.cells[place][f])
		}
		b.WriteString("\n")
	}
	return b.String() + "\n"
}

const reliability = "../../docs/reliability.md"

// document writes or compares the part of docs/reliability.md that is between marks.
func document(t *testing.T, text string) {
	t.Helper()
	const file, begin, end = reliability, "<!-- faults -->\n", "<!-- /faults -->"
	old, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(old), begin)
	was, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no marks", file)
	}
	switch text = "\n" + text; {
	case *updateDocs:
		if err := os.WriteFile(file, []byte(head+begin+text+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
	case was != text:
		t.Errorf("%s differs from what the faults did: make faults, and look at the difference", file)
	}
}

// TestFaultsAreDocumented: docs/reliability.md has every function of the library that is
// called, and each fault that has a name here.
func TestFaultsAreDocumented(t *testing.T) {
	text, err := os.ReadFile(reliability)
	if err != nil {
		t.Fatal(err)
	}
	rows := []string{}
	for _, f := range usedFunctions(t) {
		rows = append(rows, "| `"+f+"` |")
	}
	for _, tr := range troubles {
		rows = append(rows, "| "+tr.name+" | "+tr.state+" |")
	}
	for _, row := range rows {
		if !strings.Contains(string(text), row) {
			t.Errorf("%s lacks %s: make faults", reliability, row)
		}
	}
}
