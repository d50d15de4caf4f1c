package terminal

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	"github.com/gpuwhy/gpuwhy/client"
	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
)

var golden = flag.Bool("update", false, "write the golden files anew; their diff is the review")

// still is a feed that brings nothing.
type still struct{ looked string }

func (*still) Run(context.Context, func(tea.Msg)) error { return nil }
func (s *still) Look(node string)                       { s.looked = node }

// A screen is a model that a test drives.
type screen struct {
	*model
	t    *testing.T
	now  time.Time
	feed *still
	last tea.Cmd
}

func newScreen(t *testing.T, width, height int, messages ...tea.Msg) *screen {
	t.Helper()
	s := &screen{t: t, now: fixture.Time, feed: &still{}}
	s.model = newModel(t.Context(), &Options{Feed: s.feed, Zone: time.UTC, Now: func() time.Time { return s.now }})
	s.send(tea.WindowSizeMsg{Width: width, Height: height})
	s.send(messages...)
	return s
}

func (s *screen) send(messages ...tea.Msg) {
	for _, msg := range messages {
		_, s.last = s.Update(msg)
	}
}

// codes are the keys that are no character.
var codes = map[string]rune{
	"enter": tea.KeyEnter, "esc": tea.KeyEscape, "tab": tea.KeyTab, "up": tea.KeyUp, "down": tea.KeyDown, "left": tea.KeyLeft, "right": tea.KeyRight,
	"pgup": tea.KeyPgUp, "pgdown": tea.KeyPgDown, "home": tea.KeyHome, "end": tea.KeyEnd, "space": tea.KeySpace,
	"f1": tea.KeyF1, "f3": tea.KeyF3, "f4": tea.KeyF4, "f5": tea.KeyF5, "f6": tea.KeyF6, "f10": tea.KeyF10,
}

func press(code string) tea.KeyPressMsg {
	mod := tea.KeyMod(0)
	if rest, is := strings.CutPrefix(code, "ctrl+"); is {
		return tea.KeyPressMsg{Code: []rune(rest)[0], Mod: tea.ModCtrl}
	}
	if rest, is := strings.CutPrefix(code, "shift+"); is {
		code, mod = rest, tea.ModShift
	}
	if r, known := codes[code]; known {
		return tea.KeyPressMsg{Code: r, Mod: mod}
	}
	r := []rune(code)[0]
	return tea.KeyPressMsg{Code: r, Text: code, Mod: mod}
}

// press presses keys: names of keys and single characters, separated by spaces.
func (s *screen) press(keys string) {
	for code := range strings.FieldsSeq(keys) {
		s.send(press(code))
	}
}

// text is the frame without its looks.
func (s *screen) text() string { return ansi.Strip(s.View().Content) }

func (s *screen) shows(parts ...string) {
	s.t.Helper()
	for _, part := range parts {
		if !strings.Contains(s.text(), part) {
			s.t.Errorf("%q is missing in\n%s", part, s.text())
		}
	}
}

func (s *screen) lacks(parts ...string) {
	s.t.Helper()
	for _, part := range parts {
		if strings.Contains(s.text(), part) {
			s.t.Errorf("%q is in\n%s", part, s.text())
		}
	}
}

func everywhere(*insight.Moment) bool { return true }

// fed are the messages that a feed brings about snapshots, with the update of the machine that is looked at; empty: the worst.
func fed(looked string, moments ...*insight.Moment) []tea.Msg {
	f := insight.NewFleet(moments...)
	m := contract.Monitor{Node: "monitor", Several: len(moments) > 1}
	list := contract.NewMachines(f, everywhere).Machines
	if looked == "" {
		looked = list[0].Node
	}
	one, _ := f.Node(looked)
	u := contract.NewUpdate(one, nil)
	return []tea.Msg{greeting{m.Several, 5 * time.Second}, machines{list, contract.NewSummary(m, f, 0).Layers}, update{&u}}
}

func momentOf(name string) *insight.Moment {
	return insight.Of(fixture.Named(name, fixture.Time).Snapshot)
}

// busy is a machine whose last 15 minutes are known: every 5 s, with a gap.
func busy(t *testing.T) []tea.Msg {
	t.Helper()
	messages := fed("", insight.Of(fixture.Workstation()))
	u := messages[2].(update)
	r := client.Recent{Start: contract.Timestamp(fixture.Time.Add(-14 * time.Minute))}
	values := map[string][]contract.Int{}
	for at := 0.0; at < 14*60; at += 5 {
		r.OffsetsSeconds = append(r.OffsetsSeconds, at)
		gap := at > 300 && at < 360
		for i, name := range charted {
			v := gpu.Of(int64(20*(i+1)) + int64(at)/20)
			if gap {
				v = contract.Int{}
			}
			values[name] = append(values[name], v)
		}
	}
	g := u.GPUs[0]
	r.GPUs = []client.RecentSeries{{GPUID: g.ID, GPUUUID: g.UUID, GPUName: g.Name, Node: g.Node, Values: values}}
	return append(messages, recent{&r})
}

// fleet is 30 machines: one is silent, one can't be read, and one has another clock.
func fleet(looked string) []tea.Msg {
	var moments []*insight.Moment
	for _, n := range fixture.Nodes(fixture.Time, 30, true) {
		moments = append(moments, insight.Of(n.Snapshot).At(insight.Place{Cluster: n.Cluster, Labels: n.Labels},
			insight.Link{Remote: true, Silent: n.Silent, Why: n.Why, At: fixture.Time, Notes: n.Notes}))
	}
	return fed(looked, moments...)
}

// firing is a critical alert about a GPU, which somebody may act on or not.
func firing(node string) alerts {
	return alerts{&client.Alerts{Count: 2, Alerts: []client.Alert{
		{ID: "a-1", Rule: "throttled_by_heat", Severity: "critical", State: "firing", Node: node, GPUID: 0, GPUUUID: "GPU-1", Since: contract.Timestamp(fixture.Time.Add(-time.Minute)), Message: "GPU 0 is slowed by heat."},
		{ID: "a-2", Rule: "disk_full", Severity: "warning", State: "firing", Node: node, GPUID: -1, Since: contract.Timestamp(fixture.Time), Message: "The disk is full."},
		{ID: "a-3", Rule: "idle", Severity: "info", State: "firing", Node: node, GPUID: -1, Since: contract.Timestamp(fixture.Time), Message: "Nothing to do."},
	}}}
}

// long are names as they should not be: too long, of wide characters, and with sequences that control terminals.
func long() []tea.Msg {
	s := fixture.Workstation()
	s.Node = "workstation-with-a-name-that-has-no-end-in-sight.lab.example.org"
	d := &s.Devices[0]
	d.Node = s.Node
	d.Name = "NVIDIA GeForce RTX 4090 Super Duper Titanium Edition \x1b[2J\x1b]0;owned\a"
	list, _ := d.Processes.Get()
	list = slices.Clone(list)
	list[0].Facts.Command = gpu.Of("模型訓練 --name 'a\u202eb\u2066c' \x1b[31mred\n\ttab " + strings.Repeat("x", 500))
	list[0].Facts.User = gpu.Of("user\x9b\u009b2J-of-the-house-at-the-end-of-the-road")
	d.Processes = gpu.Of(list)
	return fed("", insight.Of(s))
}

// scenes are the frames that goldens show.
var scenes = map[string]func(s *screen){
	"one":   func(s *screen) { s.send(busy(s.t)...) },
	"eight": func(s *screen) { s.send(append(fed("", momentOf("eight")), firing(s.node()))...) },
	"fleet": func(s *screen) {
		s.send(fleet("lab:gpu-0005.example.org")...)
		s.choose(machinePane, "lab:gpu-0005.example.org")
		s.send(firing(s.node()))
	},
	"silent": func(s *screen) {
		const name = "render:gpu-0002.example.org"
		s.send(fleet(name)...)
		s.choose(machinePane, name)
	},
	"lost": func(s *screen) {
		s.send(busy(s.t)...)
		s.now = s.now.Add(90 * time.Second)
		s.send(lost{&gpu.Advice{What: "no gpuwhy answers at http://127.0.0.1:8003", Try: "start it"}})
	},
	"none":     func(s *screen) { s.send(fed("", momentOf("none"))...) },
	"no-card":  func(s *screen) { s.send(fed("", momentOf("no card"))...) },
	"long":     func(s *screen) { s.send(long()...) },
	"starting": func(*screen) {},
	"tree":     func(s *screen) { s.send(fed("", momentOf("eight at work"))...); s.press("t") },
	"details":  func(s *screen) { s.send(busy(s.t)...); s.press("tab enter") },
	"help":     func(s *screen) { s.send(busy(s.t)...); s.press("?") },
	"menu":     func(s *screen) { s.send(busy(s.t)...); s.press("s down") },
	"past": func(s *screen) {
		u := fed("", insight.Of(fixture.Workstation()))[2].(update).Update
		s.past = newPastView("", fixture.Time)
		s.send(pastAnswer{of: s.past, at: fixture.Time, moment: &client.PastMoment{Then: *u}, story: &client.PastWhy{
			Sentence: "python (alice) worked on GPU 0 for 6 h.",
			Chapters: []client.PastChapter{{From: contract.Timestamp(fixture.Time.Add(-time.Hour)), Sentence: "python (alice) worked."}},
		}})
	},
}

// Frames are what they were; see testdata. Each has exactly the cells of its terminal, and nothing that controls it but looks.
func TestFrames(t *testing.T) {
	t.Parallel()
	for name, scene := range scenes {
		for _, size := range [][2]int{{80, 24}, {200, 60}} {
			t.Run(fmt.Sprintf("%s-%dx%d", name, size[0], size[1]), func(t *testing.T) {
				t.Parallel()
				s := newScreen(t, size[0], size[1])
				scene(s)
				s.fits()
				var lines []string
				for line := range strings.Lines(s.text()) {
					lines = append(lines, strings.TrimRight(line, " \n"))
				}
				text := strings.Join(lines, "\n") + "\n"
				path := filepath.Join("testdata", fmt.Sprintf("%s-%dx%d.golden.txt", name, size[0], size[1]))
				if *golden {
					if err := os.WriteFile(path, []byte(text), 0o644); err != nil { //nolint:gosec // is part of the source
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(string(want), text); diff != "" {
					t.Errorf("the frame changed (-then +now):\n%s", diff)
				}
			})
		}
	}
}

var look = regexp.MustCompile(`\x1b\[[0-9;:]*m`)

// fits checks that a frame has exactly the cells of its terminal.
func (s *screen) fits() {
	s.t.Helper()
	content := s.View().Content
	lines := strings.Split(content, "\n")
	if len(lines) != s.height {
		s.t.Errorf("%d lines in a window of %d×%d:\n%s", len(lines), s.width, s.height, s.text())
	}
	for i, line := range lines {
		bare := look.ReplaceAllString(line, "")
		if w := width(bare); w != s.width {
			s.t.Errorf("line %d has %d cells in a window of %d×%d: %q", i, w, s.width, s.height, bare)
		}
		if strings.ContainsFunc(bare, func(r rune) bool { return !unicode.IsPrint(r) }) {
			s.t.Errorf("line %d has what is not printable: %q", i, bare)
		}
	}
}

// Whatever the size, frames have exactly its cells, and no figure is cut. A window that is too small says so.
func TestSizes(t *testing.T) {
	t.Parallel()
	cut := regexp.MustCompile(`\d/\d*…`)
	for name, scene := range scenes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScreen(t, 80, 24)
			scene(s)
			for _, size := range [][2]int{{20, 5}, {39, 24}, {40, 9}, {40, 10}, {57, 13}, {80, 19}, {81, 20}, {120, 40}, {163, 33}, {200, 25}, {400, 120}} {
				s.send(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
				s.fits()
				if small := size[0] < leastWidth || size[1] < leastHeight; small != strings.Contains(s.text(), "needs") && size[0] > 30 {
					t.Errorf("at %v:\n%s", size, s.text())
				}
				if figure := cut.FindString(s.text()); figure != "" {
					t.Errorf("%q is cut at %v:\n%s", figure, size, s.text())
				}
			}
		})
	}
}

// Texts from outside control nothing: see also TestFrames.
func TestHostileTexts(t *testing.T) {
	t.Parallel()
	s := newScreen(t, 200, 60, long()...)
	for _, keys := range []string{"", "tab enter", "esc tab enter", "esc u", "esc t"} {
		s.press(keys)
		s.fits()
		if bare := look.ReplaceAllString(s.View().Content, ""); strings.ContainsAny(bare, "\x1b\u009b\a\u202e\u2066\t") {
			t.Errorf("%q", bare)
		}
	}
	s.press("esc esc")
	s.send(notice("\x1b[2Jtold"), lost{fmt.Errorf("\x1b]0;x\a failed")})
	s.fits()
}

// Each key does what the help says of it.
func TestKeys(t *testing.T) {
	t.Parallel()
	eight := fed("", momentOf("eight at work"))
	pid := func(s *screen) string { return s.keysOf(processPane)[0] }
	tested := map[string]bool{}
	for _, tt := range []struct {
		keys  string
		check func(s *screen)
	}{
		{"f1", func(s *screen) { s.shows("sort by watts", "Ctrl+Z") }},
		{"?", func(s *screen) { s.shows("this help") }},
		{"h", func(s *screen) { s.shows("this help") }},
		{"? esc", func(s *screen) { s.lacks("this help") }},
		{"? q", func(s *screen) { s.lacks("this help") }},
		{"enter", func(s *screen) { s.shows("Process 20000", "kind of work") }},
		{"i", func(s *screen) { s.shows("kind of work") }},
		{"i i", func(s *screen) { s.lacks("kind of work") }},
		{"tab down enter", func(s *screen) { s.shows("Readings", "certainty", "slows down at") }},
		{"f3 2 0 0 0 3 enter", func(s *screen) { s.selects(processPane, "20003") }},
		{"/ u s e r 2 enter n", func(s *screen) { s.selects(processPane, "20002") }},
		{"/ z z z enter n", func(s *screen) { s.shows("Nothing here has “zzz”.") }},
		{"f4 u s e r 1 enter", func(s *screen) { s.shows("Only processes with “user1”"); s.lacks("20002") }},
		{"\\ u s e r 1 esc", func(s *screen) { s.shows("20002"); s.lacks("Only") }},
		{"\\ u s e r 1 enter esc", func(s *screen) { s.shows("20002"); s.lacks("Only") }},
		{"f5", func(s *screen) { s.shows("2×  user0") }},
		{"t t", func(s *screen) { s.lacks("2×") }},
		{"f6 down enter", func(s *screen) { s.shows("GPU %▾") }},
		{"s esc", func(s *screen) { s.lacks("Sort processes by"); s.shows("WATTS▾") }},
		{"P", func(s *screen) { s.shows("GPU %▾") }},
		{"M", func(s *screen) { s.shows("MEMORY▾") }},
		{"T", func(s *screen) { s.shows("TIME▾") }},
		{"N", func(s *screen) { s.shows("PID▾"); s.first("20000") }},
		{"N I", func(s *screen) { s.shows("PID▴"); s.first("20007") }},
		{"N N", func(s *screen) { s.shows("PID▴") }},
		{"W", func(s *screen) { s.shows("WATTS▴") }},
		{"u down down enter", func(s *screen) { s.shows("Only processes of user1"); s.lacks("20002") }},
		{"u down down enter u up up enter", func(s *screen) { s.shows("20002") }},
		{"space", func(s *screen) {
			s.shows("PAUSED")
			later := *s.live.updates[s.node()]
			later.Headline = "Something else."
			s.send(update{&later})
			s.lacks("Something else.")
			s.press("space")
			s.shows("Something else.")
			s.lacks("PAUSED")
		}},
		{"down", func(s *screen) { s.selects(processPane, pid(s)) }},
		{"j j k", func(s *screen) { s.selects(processPane, pid(s)) }},
		{"pgdown pgdown", func(s *screen) { s.selects(processPane, s.keysOf(processPane)[7]) }},
		{"end home", func(s *screen) { s.selects(processPane, pid(s)) }},
		{"G", func(s *screen) { s.selects(processPane, s.keysOf(processPane)[7]) }},
		{"G up", func(s *screen) { s.selects(processPane, s.keysOf(processPane)[6]) }},
		{"G g", func(s *screen) { s.selects(processPane, pid(s)) }},
		{"G pgup", func(s *screen) { s.selects(processPane, pid(s)) }},
		{"tab down", func(s *screen) { s.selects(gpuPane, s.keysOf(gpuPane)[0]) }},
		{"shift+tab tab down", func(s *screen) { s.selects(processPane, pid(s)) }},
		{"a", func(s *screen) { s.is(s.last == nil, "acknowledges an alert without a gpuwhy") }},
		{"x", func(s *screen) { s.is(s.menu == nil, "silences an alert without a gpuwhy") }},
		{"[", func(s *screen) { s.is(s.past == nil, "goes into a past that there is not") }},
		{"ctrl+z", func(s *screen) {
			s.is(s.last() == tea.Suspend() && s.text() == "", "does not suspend, with an empty screen")
			s.send(tea.SuspendMsg{})
			s.shows("20000")
		}},
		{"q", (*screen).quits}, {"f10", (*screen).quits}, {"ctrl+c", (*screen).quits},
	} {
		for code := range strings.FieldsSeq(tt.keys) {
			tested[code] = true
		}
		t.Run(tt.keys, func(t *testing.T) {
			t.Parallel()
			s := newScreen(t, 200, 60, append(slices.Clone(eight), firing("lab"))...)
			s.press(tt.keys)
			tt.check(s)
			if !s.left {
				s.fits()
			}
		})
	}
	for _, code := range []string{"]", "{", "}", "l", "c", "left", "right"} {
		tested[code] = true // by TestPast
	}
	for _, b := range bindings {
		for _, k := range b.keys {
			if !tested[k.code] {
				t.Errorf("the key %s is not tested", k.code)
			}
		}
	}
}

func (s *screen) is(holds bool, otherwise string) {
	s.t.Helper()
	if !holds {
		s.t.Error("it " + otherwise)
	}
}

func (s *screen) selects(p pane, key string) {
	s.t.Helper()
	if s.selected[p] != key {
		s.t.Errorf("%q is selected, want %q", s.selected[p], key)
	}
	s.shows("▸")
}

func (s *screen) first(key string) {
	s.t.Helper()
	if got := s.keysOf(processPane)[0]; got != key {
		s.t.Errorf("%s comes first, want %s", got, key)
	}
}

func (s *screen) quits() {
	s.t.Helper()
	if s.last == nil || s.last() != tea.Quit() || s.text() != "" {
		s.t.Error("it does not quit, with an empty screen")
	}
}

// The mouse selects, opens, sorts and scrolls.
func TestMouse(t *testing.T) {
	t.Parallel()
	s := newScreen(t, 120, 40, fed("", momentOf("eight at work"))...)
	at := func(text string) (x, y int) {
		t.Helper()
		for y, line := range strings.Split(s.text(), "\n") {
			if before, _, found := strings.Cut(line, text); found {
				return width(before), y
			}
		}
		t.Fatalf("%q is not in\n%s", text, s.text())
		return 0, 0
	}
	click := func(text string) {
		t.Helper()
		x, y := at(text)
		s.send(tea.MouseClickMsg{X: x, Y: y, Button: tea.MouseLeft})
	}
	click("20003")
	s.selects(processPane, "20003")
	click("20003")
	s.shows("Process 20003")
	s.press("esc")
	click("MEMORY   GPU %")
	s.shows("MEMORY▾")
	click("MEMORY▾")
	s.shows("MEMORY▴")
	x, y := at("20000 ")
	s.send(tea.MouseWheelMsg{X: x, Y: y, Button: tea.MouseWheelDown})
	s.is(s.selected[processPane] != "20003", "does not scroll")
	s.press("s")
	click("process id")
	s.shows("PID▾")
}

// What was not reported is no zero, and what is doubtful says so.
func TestAbsent(t *testing.T) {
	t.Parallel()
	s := newScreen(t, 200, 60, fed("", momentOf("silent"))...)
	s.shows(absent)
	s.lacks(" 0 %", " 0 °C", "0.0/")
	messages := fed("", insight.Of(fixture.Zeros()))
	u := messages[2].(update)
	u.GPUs[0].Quality = map[string]string{"temperature.current_celsius": "doubtful"}
	s = newScreen(t, 200, 60, messages...)
	s.shows(" 0 %", "0 °C?")
}

// What happened is shown for a while, in place of the keys.
func TestNotices(t *testing.T) {
	t.Parallel()
	s := newScreen(t, 80, 24, append(busy(t), notice("Something happened."))...)
	s.shows("Something happened.")
	s.lacks("q Quit")
	s.now = s.now.Add(11 * time.Second)
	s.send(tick{})
	s.lacks("Something happened.")
	s.shows("q Quit")
}

// Without news, what is shown says how old it is; with news, it does not.
func TestOld(t *testing.T) {
	t.Parallel()
	s := newScreen(t, 80, 24, busy(t)...)
	s.now = s.now.Add(19 * time.Second)
	s.send(tick{})
	s.lacks("OLD", "Last known")
	s.now = s.now.Add(2 * time.Second) // nobody said that the connection has ended
	s.send(tick{})
	s.shows("OLD: 21 s", "Last known: ")
	s.send(busy(t)[2])
	s.lacks("OLD")
	s.send(lost{fmt.Errorf("the network is gone")})
	s.shows("OLD: 0 s", "the network is gone; trying again")
	s.now = s.now.Add(time.Second)
	s.send(tick{})
	s.shows("OLD: 1 s")
	s.send(greeting{false, time.Second})
	s.lacks("OLD", "the network is gone")
}

// A frame is drawn again only if something has changed.
func TestDrawsOnlyWhatChanged(t *testing.T) {
	t.Parallel()
	s := newScreen(t, 80, 24, busy(t)...)
	s.View()
	s.send(tick{})
	s.is(s.drawn, "draws at each tick")
	s.press("space")
	s.View()
	s.send(busy(t)...)
	s.is(s.drawn, "draws what arrives while it is paused")
	s.press("space")
	s.is(!s.drawn, "does not draw after a key")
}

// On a fleet, the machine that is selected is the one that is asked for. The worst comes first, as gpuwhy sorts them.
func TestFleet(t *testing.T) {
	t.Parallel()
	s := newScreen(t, 200, 60, fleet("")...)
	first := s.keysOf(machinePane)[0]
	if s.feed.looked != first || s.live.machines[0].State != "broken" && s.live.machines[0].State != "unread" && s.live.machines[0].State != "silent" {
		t.Errorf("it looks at %q, and the first is %+v", s.feed.looked, s.live.machines[0])
	}
	s.press("shift+tab shift+tab down")
	if second := s.keysOf(machinePane)[1]; s.feed.looked != second {
		t.Errorf("it looks at %q, want %q", s.feed.looked, second)
	}
	s.shows("30 machines", "SIMULATED")
	s.press("/ 0 0 2 9 enter")
	if !strings.Contains(s.feed.looked, "0029") {
		t.Errorf("it looks at %q", s.feed.looked)
	}
	s.press("enter")
	s.shows("Waiting for the first reading.")
}

// Who may act on an alert can acknowledge and silence it; nobody else sees how.
func TestActing(t *testing.T) {
	t.Parallel()
	var asked []string
	refuse := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = append(asked, r.Method+" "+r.URL.Path+" "+string(body))
		if refuse {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"detail": "you may only read\u001b[2J"}`)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{}`)
	}))
	defer server.Close()
	c, err := client.New(server.URL, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	messages := fed("", insight.Of(fixture.Workstation()))
	s := newScreen(t, 120, 24, messages...)
	s.options.Server = c
	s.send(firing(s.node()))
	s.shows("!! Critical", "throttled by heat on GPU 0 since", "+1 more", "a Acknowledge", "x Silence")
	s.press("a")
	s.send(s.last())
	s.shows("Acknowledged: GPU 0 is slowed by heat.")
	s.press("x down enter")
	s.send(s.last())
	s.shows("Silenced for 4 hours")
	want := []string{`POST /api/alerts/a-1/acknowledge {}`, `POST /api/alerts/a-1/silence {"duration_seconds":14400}`}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Error(diff)
	}
	refuse = true
	s.press("a")
	s.send(s.last())
	s.shows("! you may only read\ufffd[2J")
	s.live.machines[0].MayOperate = false
	s.press("down")
	s.lacks("Acknowledge", "Silence")
	s.press("a")
	s.is(len(asked) == 3, "acts without the right to")
}

// The keys go through the past, and back to now.
func TestPast(t *testing.T) {
	t.Parallel()
	var asked []string
	u := fed("", insight.Of(fixture.Workstation()))[2].(update).Update
	s := newScreen(t, 120, 30, busy(t)...)
	var failure error
	s.options.Past = func(_ context.Context, r client.Request, w io.Writer) error {
		asked = append(asked, r.Path+" "+r.Query.Get("time")+r.Query.Get("from"))
		if failure != nil {
			return failure
		}
		var answer any = client.PastMoment{Then: *u}
		switch r.Path {
		case "/api/gpu/why":
			answer = client.PastWhy{Sentence: "It worked.", Chapters: []client.PastChapter{{From: "2026-03-14T14:00:00Z", Sentence: "It began."}, {From: "2026-03-14T15:00:00Z", Sentence: "It went on."}}}
		case "/api/gpu/history":
			answer = client.History{Start: contract.Timestamp(fixture.Time.Add(-10 * time.Minute)), Step: 60, Points: 2, GPUs: []client.HistorySeries{{
				PastGPU: client.PastGPU{GPUUUID: u.GPUs[0].UUID, Node: u.Node}, Metrics: map[string]client.HistoryMetric{"power_draw": {Mean: []contract.Float{gpu.Of(100.0), gpu.Of(200.0)}}},
			}}}
		}
		return jsonTo(w, answer)
	}
	do := func(keys string) {
		s.press(keys)
		s.send(s.last())
	}
	at := moment(u.Timestamp)
	for _, step := range []struct {
		keys string
		by   time.Duration
	}{{"[", -time.Minute}, {"left", -2 * time.Minute}, {"{", -17 * time.Minute}, {"]", -16 * time.Minute}, {"right", -15 * time.Minute}, {"}", 0}} {
		do(step.keys)
		when := at.Add(step.by).Format(time.RFC3339)
		if !slices.ContainsFunc(asked, func(a string) bool { return strings.HasPrefix(a, "/api/gpu/at "+when) }) {
			t.Errorf("after %q it asked %q, want for %s", step.keys, asked, when)
		}
		s.shows("PAST", at.Add(step.by).Format("15:04:05"))
	}
	if points := s.past.then.series[[2]string{u.Node, u.GPUs[0].UUID}]; len(points) != 2 || points[1].values[power] != gpu.Of(200.0) {
		t.Errorf("charts of the past show %v", points)
	}
	failure = &gpu.Advice{What: "no history is kept", Try: "keep one"}
	do("[")
	s.shows("! no history is kept")
	failure = nil
	s.press("l")
	s.lacks("PAST", "no history")

	// A span begins where something happened, and its chapters can be chosen.
	ask := s.options.Past
	s = newScreen(t, 120, 30)
	s.options.Past, s.options.From, s.options.To = ask, at.Add(-4*time.Hour), at
	s.past = newPastView("", s.options.From)
	s.shows("Looking it up.")
	s.send(s.begin()())
	s.shows("It worked.", "Sat 2026-03-14 14:00:00", "c Chapters")
	s.press("c")
	s.shows("What happened", "Sat 15:00  It went on.")
	do("down enter")
	s.shows("Sat 2026-03-14 15:00:00")
}

func jsonTo(w io.Writer, answer any) error { return json.NewEncoder(w).Encode(answer) }
