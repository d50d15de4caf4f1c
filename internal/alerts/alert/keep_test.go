package alert

import (
	stdcmp "cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight"
)

// keptOf is what an engine keeps, as in a file.
func keptOf(t *testing.T, e *Engine) []byte {
	t.Helper()
	e.Node = "n"
	text, err := json.Marshal(e.Kept())
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func restore(t *testing.T, e *Engine, text []byte, now time.Time) {
	t.Helper()
	var kept Kept
	err := json.Unmarshal(text, &kept)
	if err == nil {
		e.Node = stdcmp.Or(e.Node, "n")
		err = e.Restore(kept, now)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// restarted is an engine as it comes back after a restart.
func restarted(t *testing.T, e *Engine) *Engine {
	t.Helper()
	next := New(e.Rules())
	restore(t, next, keptOf(t, e), start.Add(24*time.Hour))
	return next
}

// A restart at any point is the same as a moment without data: no alert is
// lost, told twice, or out of order.
func TestARestartIsAMomentWithoutData(t *testing.T) {
	for seed := range uint64(12) {
		random := rand.New(rand.NewPCG(seed, 9))
		rules := []Rule{usage(), Default("ecc", ECC), Default("hot", Temperature)}
		rules[0].Repeat, rules[0].Cooldown = 10*time.Minute, 2*time.Minute
		steady, broken := New(rules), New(rules)
		var a, b []string
		util, errors := 0.0, uint64(0)
		note := func(into *[]string, changes []Change) {
			for _, c := range changes {
				if c.News == Fired || c.News == Over || c.News == Repeated {
					*into = append(*into, fmt.Sprintf("%s %s tell %v %s", c.News, c.ID, c.Tell, c.Time.Format(time.TimeOnly)))
				}
			}
		}
		for second := 0; second < 6000; second += 5 {
			switch random.IntN(12) {
			case 0:
				util = 100 * random.Float64()
			case 1:
				errors++
			}
			d := healthy()
			d.Utilization.GPU, d.Health.UncorrectedVolatile = gpu.Of(gpu.Percent(util)), gpu.Of(errors)
			d.Thermal.GPU = gpu.Of(gpu.Celsius(60 + util/3))
			switch random.IntN(200) {
			case 0: // somebody looks away
				note(&a, steady.Observe(&insight.Moment{Snapshot: snapshotOf(second)}))
				broken = restarted(t, broken)
				continue
			case 1:
				x := Silence{Rule: "hot", Until: start.Add(time.Duration(second+300) * time.Second)}
				for _, e := range []*Engine{steady, broken} {
					if _, _, err := e.Silence(x, start.Add(time.Duration(second)*time.Second)); err != nil {
						t.Fatal(err)
					}
				}
			case 2:
				for _, alert := range steady.Standing() {
					for _, e := range []*Engine{steady, broken} {
						if _, err := e.Acknowledge(alert.ID, &Acknowledgment{By: "ann", At: start}); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
			note(&a, steady.Observe(&insight.Moment{Snapshot: snapshotOf(second, d)}))
			note(&b, broken.Observe(&insight.Moment{Snapshot: snapshotOf(second, d)}))
			if diff := cmp.Diff(a, b); diff != "" {
				t.Fatalf("seed %d, %d s: with restarts (+) it says something else:\n%s", seed, second, diff)
			}
		}
		if len(a) < 10 {
			t.Errorf("seed %d tests little: %q", seed, a)
		}
	}
}

func TestRestore(t *testing.T) {
	e := New([]Rule{hourly(), Default("lost", Lost)})
	lost := healthy()
	lost.UUID, lost.State, lost.Index = "GPU-b", gpu.StateLost, 1
	hot := healthy()
	hot.Utilization.GPU = gpu.Of(gpu.Percent(99))
	e.Observe(&insight.Moment{Snapshot: snapshotOf(0, hot, lost)})
	if _, _, err := e.Silence(Silence{GPU: "GPU-b", Until: start.Add(time.Hour)}, start); err != nil {
		t.Fatal(err)
	}
	next := restarted(t, e)
	standing := next.Standing()
	if len(standing) != 2 || standing[0].State != NoData || standing[0].Rule != "lost" || standing[0].Device.Name != "Card" ||
		!standing[0].SilencedUntil.Equal(start.Add(time.Hour)) || standing[1].Threshold.Or(0) != 50 || len(next.Silences(start)) != 1 {
		t.Fatalf("%+v", standing)
	}
	changes := next.Observe(&insight.Moment{Snapshot: snapshotOf(10, hot)})
	if len(changes) != 1 || changes[0].News != Resumed || changes[0].Tell {
		t.Errorf("%+v", changes)
	}
	if standing := next.Standing(); len(standing) != 2 || standing[1].State != Firing || standing[0].State != NoData {
		t.Errorf("%+v", standing)
	}

	text := keptOf(t, e)
	fewer := New([]Rule{hourly()})
	restore(t, fewer, text, start)
	if len(fewer.Standing()) != 1 || len(fewer.Past()) != 1 || fewer.Past()[0].Rule != "lost" {
		t.Errorf("without the rule: %+v, %+v", fewer.Standing(), fewer.Past())
	}
	changes = fewer.Observe(&insight.Moment{Snapshot: snapshotOf(10, hot)})
	i := slices.IndexFunc(changes, func(c Change) bool { return c.Rule == "lost" })
	if i < 0 || changes[i].News != Over || !strings.HasPrefix(changes[i].Message, "Rule lost is no longer in force.") {
		t.Errorf("its end is not said: %+v", changes)
	}

	renamed := New(e.Rules())
	renamed.Node = "another-name"
	restore(t, renamed, text, start)
	hot.Node = "another-name"
	if changes := renamed.Observe(&insight.Moment{Snapshot: snapshotOf(10, hot)}); len(changes) != 1 || changes[0].News != Resumed {
		t.Errorf("under another name: %+v", changes)
	}
}

// That data are gone or back is said where they were, over a restart too, and not where gpuwhy was away.
func TestDataAreBackWhereTheyWereGone(t *testing.T) {
	hot := healthy()
	hot.Utilization.GPU = gpu.Of(gpu.Percent(99))
	mute := healthy()
	mute.Utilization.GPU = gpu.Absent[gpu.Percent](gpu.NotReported)
	for name, c := range map[string]struct {
		before, after []gpu.Device
		want          []News
	}{
		"a restart alone":                       {[]gpu.Device{hot}, []gpu.Device{hot, hot}, []News{Fired, Resumed}},
		"the first reading tells nothing":       {[]gpu.Device{hot}, []gpu.Device{mute, hot}, []News{Fired, Resumed}},
		"data that were gone come back":         {[]gpu.Device{hot, mute}, []gpu.Device{hot, hot}, []News{Fired, DataGone, DataBack}},
		"gone, over two restarts":               {[]gpu.Device{hot, mute}, []gpu.Device{mute}, []News{Fired, DataGone, DataBack}},
		"gone and back, and then a restart":     {[]gpu.Device{hot, mute, hot}, []gpu.Device{hot, hot}, []News{Fired, DataGone, DataBack, Resumed}},
		"a restart, and later they are gone":    {[]gpu.Device{hot}, []gpu.Device{hot, mute, hot}, []News{Fired, Resumed, DataGone, DataBack}},
		"nothing is known before it runs again": {[]gpu.Device{hot}, nil, []News{Fired, Resumed}},
	} {
		t.Run(name, func(t *testing.T) {
			rule := hourly()
			rule.Hold = 0
			e, second := New([]Rule{rule}), 0
			var news []News
			see := func(d gpu.Device) {
				second += 5
				for _, c := range e.Observe(&insight.Moment{Snapshot: snapshotOf(second, d)}) {
					news = append(news, c.News)
				}
			}
			for _, d := range c.before {
				see(d)
			}
			e = restarted(t, e)
			for _, d := range c.after {
				see(d)
			}
			if len(c.after) < 2 {
				e = restarted(t, e)
				see(hot)
			}
			if !slices.Equal(news, c.want) {
				t.Errorf("said %q, want %q", news, c.want)
			}
		})
	}
}

// What was kept can come after the first readings, from a database that did not answer before: nothing of both is lost.
func TestRestoreThatIsLate(t *testing.T) {
	hot := healthy()
	hot.Utilization.GPU = gpu.Of(gpu.Percent(99))
	lost := healthy()
	lost.UUID, lost.State, lost.Index = "GPU-b", gpu.StateLost, 1
	rules := []Rule{hourly(), Default("lost", Lost)}
	silence := func(e *Engine, uuid string) {
		t.Helper()
		if _, _, err := e.Silence(Silence{GPU: uuid, Until: start.Add(time.Hour)}, start); err != nil {
			t.Fatal(err)
		}
	}
	before, next := New(rules), New(rules)
	before.Observe(&insight.Moment{Snapshot: snapshotOf(0, hot, lost)})
	silence(before, hot.UUID)
	next.Observe(&insight.Moment{Snapshot: snapshotOf(100, hot)})
	silence(next, "GPU-b")
	fired := next.Standing()
	if len(fired) != 1 || !fired[0].SilencedUntil.IsZero() {
		t.Fatalf("%+v", fired)
	}
	restore(t, next, keptOf(t, before), start.Add(100*time.Second))
	changes := next.Observe(&insight.Moment{Snapshot: snapshotOf(110, hot)})
	if len(changes) != 1 || changes[0].ID != fired[0].ID || !changes[0].SilencedUntil.Equal(start.Add(time.Hour)) {
		t.Errorf("what is silenced now is not said: %+v", changes)
	}
	standing := next.Standing()
	if len(standing) != 2 || standing[0].Rule != "lost" || standing[1].ID != fired[0].ID || len(next.Silences(start)) != 2 {
		t.Errorf("%+v, %+v", standing, next.Silences(start))
	}
}

// What is kept does not grow with time.
func TestPastIsBounded(t *testing.T) {
	e := New([]Rule{busy(50)})
	for n := range 1000 {
		e.Observe(&insight.Moment{Snapshot: snapshotAt(n, float64(n%2*100))})
	}
	past := e.Past()
	if len(past) != keptPast || !slices.IsSortedFunc(past, func(a, b Alert) int { return b.Time.Compare(a.Time) }) {
		t.Errorf("%d are remembered", len(past))
	}
	if next := restarted(t, e).Past(); len(next) != keptPast || next[0].ID != past[0].ID {
		t.Errorf("%d are restored", len(next))
	}
	for n := range 5000 { // devices that come and go
		s := snapshotAt(n, 0)
		s.Devices[0].UUID = fmt.Sprint(n)
		e.Observe(&insight.Moment{Snapshot: s})
	}
	if n := len(maps.Collect(e.all())); n > 2 {
		t.Errorf("%d devices are remembered", n)
	}
}

// Silences of one machine alone cover it by its new name; those that cover several, or another one, stay as people wrote them.
func TestSilencesOfAMachineWithAnotherName(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	before, after := New(nil), New(nil)
	before.Node, after.Node = "gpu[1]", "gpu*2"
	for _, node := range []string{Literally("gpu[1]"), "gpu*", "another", ""} {
		if _, _, err := before.Silence(Silence{Rule: "ecc", Node: node, Until: now.Add(time.Hour)}, now); err != nil {
			t.Fatal(err)
		}
	}
	if err := after.Restore(before.Kept(), now); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, x := range after.Silences(now) {
		got = append(got, x.Node)
	}
	if want := []string{Literally("gpu*2"), "gpu*", "another", ""}; !slices.Equal(got, want) {
		t.Errorf("the silences are of %q, want %q", got, want)
	}
}
