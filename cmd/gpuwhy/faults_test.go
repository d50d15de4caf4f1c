//go:build !race && linux

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
	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

var updateDocs = flag.Bool("update", false, "write what the faults did into docs/reliability.md")

// A stand is the running program with a machine whose faults the test causes.
type stand struct {
	*testing.T
	p       *program
	v       *viewer
	target  func(g *contract.UpdateGPU) bool // of the fault that is there; nil: nobody is checked
	u       contract.Update
	began   time.Time // of a reading that began after the fault, by the program's clock
	read    time.Time // of the newest reading
	differs string    // how what is said of a device differs in two places
	late    int       // for how many readings more it counts that the program itself was late
	// For how many readings in a row a device without a fault does not answer, and how many may pass, by vendor. It is none
	// where the program alone reads it.
	astray, allowed map[string]int
}

const (
	// hurried is the deadline of all devices.
	hurried = time.Second
	// standsStill is how far two readings are apart where the program, or the machine, stands still for a while: in time are
	// those of each 250 ms. A device that is well misses its deadline then, and has some readings to recover.
	standsStill, recovers = hurried / 2, 12
)

func newStand(t *testing.T, begin starter, env []string, args ...string) *stand {
	t.Helper()
	p := begin(t, env, append([]string{fast, recordedSoon, "--deadline=" + hurried.String(), "--log-level=error"}, args...)...)
	return &stand{T: t, p: p, v: p.dial(), astray: map[string]int{}, allowed: map[string]int{}}
}

// next returns the next reading, and checks its invariants.
func (s *stand) next() *contract.Update {
	s.Helper()
	var u contract.Update
	s.v.next("gpu_status_update", &u)
	s.check(u)
	return &s.u
}

// check checks the invariants of a reading: a GPU without a fault answers, a GPU that does not answer says why and has no
// readings, and old readings are marked as old. A GPU without a fault may be late if the program is.
func (s *stand) check(u contract.Update) {
	s.Helper()
	s.u = u
	before := s.read
	s.read = moment(s.T, &u.Timestamp)
	if s.late--; !before.IsZero() && s.read.Sub(before) > standsStill {
		s.late = recovers
	}
	inTime := s.late <= 0
	for i := range s.u.GPUs {
		g := &s.u.GPUs[i]
		name := g.Source + " " + g.PCIBusID
		if g.State == "ok" || s.target == nil || s.target(g) {
			delete(s.astray, name)
		} else if s.astray[name]++; inTime && s.astray[name] > s.allowed[g.Vendor] {
			s.Errorf("%s has no fault and is %s: %s", name, g.State, g.StateReason)
		}
		switch {
		case g.State != "ok" && (hasReadings(g) || g.SampledAt != nil):
			s.Errorf("%s is %s and has readings", name, g.State)
		case g.State != "ok" && g.StateReason == "":
			s.Errorf("%s is %s, and does not say why", name, g.State)
		case inTime && g.State == "ok" && g.StateReason == "" && s.read.Sub(moment(s.T, g.SampledAt)) > 2*hurried+2*time.Second:
			s.Errorf("%s is ok, and was read at %s; it is %s", name, *g.SampledAt, s.u.Timestamp)
		}
	}
}

func hasReadings(g *contract.UpdateGPU) bool {
	return g.Utilization.GPU.Present() || g.Temperature.GPU.Present() || g.Power.Draw.Present() ||
		g.Memory.Used.Present() || g.Clocks.SM.Present() || len(g.Processes) > 0
}

// until reads until a condition holds.
func (s *stand) until(what string, done func(u *contract.Update) bool) *contract.Update {
	s.Helper()
	for late := time.After(testkit.Patience); ; {
		if u := s.next(); done(u) {
			return u
		}
		select {
		case <-late:
			for i := range s.u.GPUs {
				g := &s.u.GPUs[i]
				s.Logf("%s %s: %s %s", g.Source, g.PCIBusID, g.State, g.StateReason)
			}
			s.Fatalf("never %s; %v; %s", what, s.u.Failures, s.differs)
		default:
		}
	}
}

// is reports whether there is a GPU to check, and all of them satisfy a condition.
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

func hasAddress(address string) func(*contract.UpdateGPU) bool {
	return func(g *contract.UpdateGPU) bool { return g.PCIBusID == address }
}

func hasVendor(vendor string) func(*contract.UpdateGPU) bool {
	return func(g *contract.UpdateGPU) bool { return g.Vendor == vendor }
}

// word returns a GPU's state in a word.
func word(g *contract.UpdateGPU) string {
	if g.State == "ok" && strings.HasPrefix(g.StateReason, "slow since ") {
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

// mark starts a new check: only device readings from now on count.
func (s *stand) mark() {
	s.Helper()
	u := s.v.request("now", s.check)
	s.check(u)
	s.began = moment(s.T, &u.Timestamp)
}

// fresh reports whether a device was read since the mark.
func (s *stand) fresh(g *contract.UpdateGPU) bool { return !moment(s.T, g.SampledAt).Before(s.began) }

// well waits until all is as it was.
func (s *stand) well(n int) {
	s.Helper()
	s.target = nil
	s.mark()
	s.until("all is well", func(u *contract.Update) bool {
		return len(u.GPUs) == n && u.Answering == n && is(everyone, func(g *contract.UpdateGPU) bool { return g.StateReason == "" && s.fresh(g) })(u)
	})
}

// fault begins one: only these GPUs may show it.
func (s *stand) fault(target func(*contract.UpdateGPU) bool) { s.target = target }

// heard waits for so many readings, and then for newer ones of everybody that the fault does not touch.
func (s *stand) heard(readings int) {
	s.Helper()
	for range readings {
		s.next()
	}
	s.mark()
	s.until("the others are read", is(func(g *contract.UpdateGPU) bool { return !s.target(g) }, s.fresh))
}

// said is what the update, /api/health and the page say of a GPU that can't be read, or is slow. They are of two readings, and
// agree soon.
func (s *stand) said(which func(*contract.UpdateGPU) bool) (reason string) {
	s.Helper()
	s.until("all say the same", func(u *contract.Update) bool {
		i := slices.IndexFunc(u.GPUs, func(g contract.UpdateGPU) bool { return which(&g) && g.StateReason != "" })
		if i < 0 {
			reason = ""
			return true
		}
		g := &u.GPUs[i]
		// The next reading may say another number.
		common, _, _ := strings.Cut(regexp.MustCompile(`\d+(\.\d+)?m?s\b`).ReplaceAllString(g.StateReason, "\x00"), "\x00")
		var health contract.MonitorHealth
		s.p.get("/api/health", &health)
		_, page := s.p.fetch("/", map[string][]string{"Accept": {"text/html"}})
		_, rest, _ := strings.Cut(common, " ") // the page begins a sentence with a capital
		reason, s.differs = g.StateReason, ""
		switch {
		case !strings.Contains(health.Reason, common):
			s.differs = fmt.Sprintf("/api/health says %q, and the GPU %q", health.Reason, g.StateReason)
		case g.State != "ok" && health.Status == "ok":
			s.differs = fmt.Sprintf("/api/health says %s of a GPU that is %s", health.Status, g.State)
		case !strings.Contains(html.UnescapeString(string(page)), rest):
			s.differs = fmt.Sprintf("the page does not say %q", rest)
		}
		return s.differs == ""
	})
	return reason
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
		for late := time.After(testkit.Patience); s.leaks(before, s.use()); {
			s.next() // what was begun for a reading ends soon after it
			select {
			case <-late:
				s.Fatalf("before %+v, after %+v", before, s.use())
			default:
			}
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
