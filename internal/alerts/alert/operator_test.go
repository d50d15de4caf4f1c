package alert

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/insight"
)

// told are the changes that people are told of: "fired a", "repeated a".
func told(changes []Change) []string {
	var out []string
	for _, c := range changes {
		if c.Tell {
			out = append(out, string(c.News)+" "+c.Device.UUID)
		}
	}
	return out
}

// tellings plays utilizations of one device, a reading each minute, and returns
// who was told what when: "3m fired a".
func tellings(e *Engine, first, minutes int, util func(minute int) float64) []string {
	var out []string
	for minute := first; minute < first+minutes; minute++ {
		for _, text := range told(e.Observe(&insight.Moment{Snapshot: snapshotAt(60*minute, util(minute))})) {
			out = append(out, fmt.Sprintf("%dm %s", minute, text))
		}
	}
	return out
}

func always(util float64) func(int) float64 { return func(int) float64 { return util } }

// hourly is without hold, and told again each hour.
func hourly() Rule {
	r := busy(50)
	r.Repeat = time.Hour
	return r
}

func TestRepeats(t *testing.T) {
	e := New([]Rule{hourly()})
	got := tellings(e, 0, 150, always(99))
	if want := []string{"0m fired a", "60m repeated a", "120m repeated a"}; !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
	if got := tellings(e, 150, 10, always(0)); !slices.Equal(got, []string{"150m over a"}) {
		t.Errorf("told %q", got)
	}
	never := busy(50)
	if got := tellings(New([]Rule{never}), 0, 10_000, always(99)); !slices.Equal(got, []string{"0m fired a"}) {
		t.Errorf("without a repeat told %q", got)
	}
}

// A value that swings from one end to the other is told once in a cool-down.
func TestCooldown(t *testing.T) {
	rule := busy(50)
	rule.Cooldown = 10 * time.Minute
	swing := func(minute int) float64 { return float64(minute % 2 * 100) }
	got := tellings(New([]Rule{rule}), 0, 40, swing)
	want := []string{"1m fired a", "2m over a", "13m fired a", "14m over a", "25m fired a", "26m over a", "37m fired a", "38m over a"}
	if !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
}

func TestAcknowledge(t *testing.T) {
	e := New([]Rule{hourly()})
	tellings(e, 0, 1, always(99))
	id := e.Standing()[0].ID
	change, err := e.Acknowledge(id, &Acknowledgment{By: "ann", At: start})
	if err != nil || change.News != Marked || change.Tell || change.Acknowledged.By != "ann" {
		t.Fatalf("%+v, %v", change, err)
	}
	if got := tellings(e, 1, 200, always(99)); got != nil {
		t.Errorf("an acknowledged alert is repeated: %q", got)
	}
	if a := e.Standing()[0]; a.Acknowledged == nil || a.ID != id {
		t.Errorf("forgotten: %+v", a)
	}
	if _, err := e.Acknowledge(id, nil); err != nil {
		t.Fatal(err)
	}
	if got := tellings(e, 201, 2, always(99)); !slices.Equal(got, []string{"201m repeated a"}) {
		t.Errorf("taken back, told %q", got)
	}
	e.Acknowledge(id, &Acknowledgment{}) //nolint:errcheck // as before
	if got := tellings(e, 203, 2, always(0)); !slices.Equal(got, []string{"203m over a"}) {
		t.Errorf("the end of an acknowledged alert: told %q", got)
	}
	if _, err := e.Acknowledge(id, nil); !errors.Is(err, ErrUnknown) {
		t.Errorf("of an alert that is over: %v", err)
	}
	tellings(e, 210, 1, always(99))
	if a := e.Standing()[0]; a.Acknowledged != nil {
		t.Error("the next alert is acknowledged too")
	}
}

func TestSilences(t *testing.T) {
	minute := func(n int) time.Time { return start.Add(time.Duration(n) * time.Minute) }
	silence := func(e *Engine, x Silence, start, until int) Silence {
		t.Helper()
		x.Until = minute(until)
		made, _, err := e.Silence(x, minute(start))
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	t.Run("before it fires", func(t *testing.T) {
		e := New([]Rule{hourly()})
		silence(e, Silence{Rule: "bus?"}, 0, 30)
		if got := tellings(e, 0, 30, always(99)); got != nil || len(e.Standing()) != 1 || !e.Standing()[0].SilencedUntil.Equal(minute(30)) {
			t.Errorf("told %q; %d stand", got, len(e.Standing()))
		}
		if got := tellings(e, 30, 70, always(99)); !slices.Equal(got, []string{"30m repeated a", "90m repeated a"}) {
			t.Errorf("afterwards told %q", got)
		}
		if len(e.Silences(minute(30))) != 0 {
			t.Error("the silence is still there")
		}
	})
	t.Run("fired and over in between", func(t *testing.T) {
		e := New([]Rule{hourly()})
		silence(e, Silence{}, 0, 30)
		if got := slices.Concat(tellings(e, 0, 10, always(99)), tellings(e, 10, 50, always(0))); got != nil {
			t.Errorf("told %q", got)
		}
	})
	t.Run("after it was told", func(t *testing.T) {
		never := busy(50)
		e := New([]Rule{never})
		tellings(e, 0, 1, always(99))
		silence(e, Silence{}, 1, 30)
		if got := tellings(e, 1, 60, always(99)); !slices.Equal(got, []string{"30m repeated a"}) {
			t.Errorf("told %q, want it told again at the end, once", got)
		}
		silence(e, Silence{}, 61, 90)
		if got := tellings(e, 61, 10, always(0)); !slices.Equal(got, []string{"61m over a"}) {
			t.Errorf("told %q: who was told that it began is told that it is over", got)
		}
	})
	t.Run("ended by hand", func(t *testing.T) {
		e := New([]Rule{hourly()})
		made := silence(e, Silence{Node: "n", GPU: "a"}, 0, 3000)
		tellings(e, 0, 10, always(99))
		changes, err := e.Unsilence(&made)
		if err != nil || len(changes) != 1 || changes[0].News != Marked || !changes[0].SilencedUntil.IsZero() {
			t.Errorf("%+v, %v", changes, err)
		}
		if got := tellings(e, 10, 10, always(99)); !slices.Equal(got, []string{"10m repeated a"}) {
			t.Errorf("told %q", got)
		}
		if _, err := e.Unsilence(&made); !errors.Is(err, ErrUnknown) {
			t.Errorf("again: %v", err)
		}
	})
	t.Run("of others", func(t *testing.T) {
		e := New([]Rule{hourly()})
		for _, x := range []Silence{{Rule: "other"}, {Node: "other"}, {GPU: "b*"}, {Rule: "busy", GPU: "other"}} {
			silence(e, x, 0, 30)
		}
		if got := tellings(e, 0, 1, always(99)); !slices.Equal(got, []string{"0m fired a"}) {
			t.Errorf("told %q", got)
		}
	})
	t.Run("bad ones", func(t *testing.T) {
		e := New([]Rule{hourly()})
		for what, x := range map[string]Silence{
			"no time":   {},
			"the past":  {Until: start.Add(-time.Second)},
			"for ever":  {Until: start.AddDate(2, 0, 0)},
			"a pattern": {Until: minute(1), Rule: "["},
			"a comment": {Until: minute(1), Comment: strings.Repeat("ü", 201)},
			"no text":   {Until: minute(1), By: "\xff"},
			"two lines": {Until: minute(1), Comment: "a\nb"},
			"a NUL":     {Until: minute(1), By: "a\x00"},
		} {
			if _, _, err := e.Silence(x, start); err == nil {
				t.Errorf("%s is taken", what)
			}
		}
		for range mostSilences {
			silence(e, Silence{}, 0, 1)
		}
		if _, _, err := e.Silence(Silence{Until: minute(1)}, start); !errors.Is(err, ErrTooMany) {
			t.Errorf("one too many: %v", err)
		}
	})
}

func TestDismiss(t *testing.T) {
	e := New([]Rule{hourly()})
	tellings(e, 0, 1, always(99))
	id := e.Standing()[0].ID
	if _, err := e.Dismiss(id, start); !errors.Is(err, ErrReported) {
		t.Errorf("while it is reported: %v", err)
	}
	tellings(e, 1, 1, always(missing))
	change, err := e.Dismiss(id, start)
	if err != nil || change.News != Over || !change.Tell || len(e.Standing()) != 0 || e.Past()[0].ID != id {
		t.Errorf("%+v, %v", change, err)
	}
	if got := tellings(e, 2, 1, always(99)); !slices.Equal(got, []string{"2m fired a"}) {
		t.Errorf("back again, told %q", got)
	}
}

// A clock that was wrong for a while silences nothing for long.
func TestAClockThatWasWrong(t *testing.T) {
	rule := hourly()
	rule.Cooldown = time.Hour
	e := New([]Rule{rule})
	const year = 60 * 24 * 365 // in minutes
	tellings(e, year, 1, always(99))
	tellings(e, year+1, 1, always(0))
	if got := tellings(e, 0, 2, always(99)); !slices.Equal(got, []string{"0m fired a"}) {
		t.Errorf("set back while nothing stood, told %q", got)
	}
	tellings(e, year, 1, always(99))
	if got := tellings(e, 10, 62, always(99)); !slices.Equal(got, []string{"70m repeated a"}) {
		t.Errorf("set back while it stood, told %q", got)
	}
}

// Rules that change while alerts stand.
func TestSetRules(t *testing.T) {
	e := New([]Rule{hourly()})
	tellings(e, 0, 1, always(60))
	id := e.Standing()[0].ID
	higher := hourly()
	higher.Threshold, higher.Severity = 55, Critical
	if changes := e.SetRules([]Rule{Default("hot", Temperature), higher}, start); len(changes) != 0 {
		t.Errorf("%+v", changes)
	}
	tellings(e, 1, 1, always(60))
	if a := e.Standing()[0]; a.ID != id || a.Severity != Critical || a.Threshold.Or(0) != 55 {
		t.Errorf("it does not go on: %+v", a)
	}
	elsewhere := hourly()
	elsewhere.Scope.GPUs = []string{"other"}
	off := hourly()
	off.Enabled = false
	another := Rule{Name: "busy", Watch: Memory, Threshold: 1, Severity: Info, Enabled: true}
	for name, rules := range map[string][]Rule{"gone": nil, "elsewhere": {elsewhere}, "off": {off}, "another": {another}} {
		e := New([]Rule{hourly()})
		tellings(e, 0, 1, always(60))
		changes := e.SetRules(rules, start.Add(time.Minute))
		if len(changes) != 1 || changes[0].News != Over || !changes[0].Tell || len(e.Standing()) != 0 || !strings.HasPrefix(changes[0].Message, "Rule busy is no longer in force. ") {
			t.Errorf("%s: %+v", name, changes)
		}
	}
}
