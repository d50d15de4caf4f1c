package term

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"
)

func TestWrap(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text  string
		width int
		want  []string
	}{
		{"as long as it is", 0, []string{"as long as it is"}},
		{"it fits", 7, []string{"it fits"}},
		{"  one two three", 9, []string{"  one two", "> three"}},
		{"busy at 99 %, 84 °C now", 11, []string{"busy at", "> 99 %,", "> 84 °C now"}},
		{"nvidia-smi-that-is-too-long yes", 5, []string{"nvidia-smi-that-is-too-long", "> yes"}},
	} {
		if got := wrap(tt.text, tt.width, "> "); !slices.Equal(got, tt.want) {
			t.Errorf("%q in %d columns: %q, want %q", tt.text, tt.width, got, tt.want)
		}
	}
}

// Only a terminal has colors, unless somebody asks for none, and no text can add its own.
func TestColors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, system    string
		variables       map[string]string
		terminal, color bool
	}{
		{"a terminal", "linux", map[string]string{"TERM": "xterm-256color"}, true, true},
		{"NO_COLOR", "linux", map[string]string{"TERM": "xterm", "NO_COLOR": "1"}, true, false},
		{"an empty NO_COLOR", "linux", map[string]string{"NO_COLOR": ""}, true, true},
		{"a dumb one", "linux", map[string]string{"TERM": "dumb"}, false, false},
		{"an old console", "windows", nil, false, false},
		{"Windows Terminal", "windows", map[string]string{"WT_SESSION": "x"}, true, true},
	} {
		s := Screen{}.withVariables(func(name string) string { return tt.variables[name] }, tt.system)
		if s.Terminal != tt.terminal || s.Color != tt.color {
			t.Errorf("%s: %+v", tt.name, s)
		}
	}
	if got := (Screen{Color: true}).Styled(Bad, "a\x1b[0mb"); got != "\x1b[1;31ma\ufffd[0mb\x1b[0m" {
		t.Errorf("%q", got)
	}
	if s := ScreenOf(new(bytes.Buffer)); s.Terminal || s.Color || s.Width != 0 {
		t.Errorf("a buffer is %+v", s)
	}
}

// What takes long is shown after a second, gives way to messages, and leaves nothing behind.
func TestDuring(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		n := &Notes{screen: Screen{Writer: &out, Terminal: true, Width: 30}}
		said := func() string { // since the last time
			n.mu.Lock()
			defer n.mu.Unlock()
			defer out.Reset()
			return out.String()
		}
		end := n.During("recording", func(passed time.Duration) string {
			return passed.Truncate(time.Second).String() + " of 1m, which is long"
		})
		time.Sleep(patience - time.Millisecond)
		synctest.Wait()
		if got := said(); got != "" {
			t.Errorf("within a second: %q", got)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := said(); !strings.HasSuffix(got, erase+"gpuwhy: recording: 1s of 1m,…") {
			t.Errorf("after 2 seconds: %q", got)
		}
		if _, err := n.Write([]byte("a message\n")); err != nil {
			t.Error(err)
		}
		if got := said(); got != erase+"a message\n" {
			t.Errorf("%q", got)
		}
		time.Sleep(between)
		synctest.Wait()
		end()
		end()
		if got := said(); !strings.HasSuffix(got, "…"+erase) {
			t.Errorf("at the end: %q", got)
		}
		n.During("at once", nil)()
		n.screen.Terminal = false
		end = n.During("elsewhere", nil)
		time.Sleep(time.Minute)
		end()
		if out.Len() > 0 {
			t.Errorf("what is quick, or goes to a file: %q", out.String())
		}
	})
}

// A grid fits the screen: it shortens what can be, then leaves out what matters least. A wide one does neither.
func TestGridFits(t *testing.T) {
	t.Parallel()
	g := &grid{columns: []Column{{Title: "GPU"}, {Title: "NAME", Rank: 2, Least: 6}, {Title: "TEMP", Right: true}, {Title: "FAN", Rank: 1, Right: true}, {Title: "UUID", Seldom: true}}}
	g.add(plainCell("0"), plainCell("NVIDIA H100"), plainCell("84 °C"), plainCell("60 %"), plainCell("GPU-1"))
	for width, want := range map[int]string{
		0:  "GPU  NAME          TEMP   FAN\n0    NVIDIA H100  84 °C  60 %",
		29: "GPU  NAME          TEMP   FAN\n0    NVIDIA H100  84 °C  60 %",
		24: "GPU  NAME     TEMP   FAN\n0    NVIDI…  84 °C  60 %",
		23: "GPU   TEMP   FAN\n0    84 °C  60 %",
		12: "GPU   TEMP\n0    84 °C",
		3:  "GPU   TEMP\n0    84 °C",
	} {
		if got := strings.Join(g.lines(Screen{Width: width}, false), "\n"); got != want {
			t.Errorf("in %d columns:\n%s\nwant\n%s", width, got, want)
		}
	}
	if got := strings.Join(g.lines(Screen{Width: 10}, true), "\n"); !strings.HasSuffix(got, "60 %  GPU-1") {
		t.Errorf("wide:\n%s", got)
	}
	for width := 10; width < 60; width++ {
		for _, line := range g.lines(Screen{Width: width, Color: false}, false) {
			if n := utf8.RuneCountInString(line); n > max(width, 10) {
				t.Errorf("%d columns in %d: %q", n, width, line)
			}
		}
	}
}
