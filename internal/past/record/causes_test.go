package record

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// said is a Moment of a device in which the answer names a cause for each word: its kind, and after "=" whom it names.
func said(when time.Time, words string) *insight.Moment {
	s := snapshot(when, card("GPU-1"))
	var d explain.DeviceAnswer
	for word := range strings.FieldsSeq(words) {
		kind, who, _ := strings.Cut(word, "=")
		d.Causes = append(d.Causes, explain.Cause{ID: kind + ":GPU-1", Kind: explain.Kind(kind), Who: who, Sentence: "It is " + kind + "."})
	}
	return insight.New(s, explain.Answer{Devices: []explain.DeviceAnswer{d}})
}

// intervals are the causes that the store has, in readings since the start: "work ann 0-3" or, while it goes on, "work 4-".
func (f *fakeStore) intervals() string {
	var out []store.Cause
	for _, c := range f.causes {
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b store.Cause) int { return cmp.Or(a.From.Compare(b.From), cmp.Compare(a.ID, b.ID)) })
	var texts []string
	for _, c := range out {
		number := func(t time.Time) int { return int(t.Sub(start) / interval5) }
		text := fmt.Sprintf("%s %d-%d", strings.TrimSpace(c.Kind+" "+c.Who), number(c.From), number(c.To))
		if c.Open {
			text = text[:strings.LastIndex(text, "-")+1]
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}

func TestCausesAreIntervals(t *testing.T) {
	for _, tt := range []struct{ why, readings, want string }{
		{"it goes on", "work work work", "work 0-"},
		{"it ends", "work work idle idle idle", "work 0-1, idle 2-"},
		{"it is missing for two readings", "work work - - work work", "work 0-"},
		{"for three", "work work - - - work", "work 0-1, work 5-"},
		{"several at once", "work,heat work work work,heat work,heat", "heat 0-, work 0-"},
		{"another works", "work=ann work=ann work=bob work=bob work=bob", "work ann 0-1, work bob 2-"},
		{"for a moment another seems to work", "work=ann work=bob work=bob work=ann work=ann", "work ann 0-"},
		{"it is known only a little later who works", "work work=ann work=ann work=ann work=ann", "work ann 0-"},
		{"it is known only later", "work work work work work work=ann work=ann work=ann", "work 0-4, work ann 5-"},
		{"nobody looks for a while", "work ? ? work work", "work 0-0, work 3-"},
		{"a reading is late", "work ? work", "work 0-"},
		{"gpuwhy starts again at once", "work=ann R work=ann work=ann", "work ann 0-"},
		{"it starts again at once, and another works", "work=ann R work=bob work=bob work=bob", "work ann 0-0, work bob 1-"},
		{"it starts again later", "work work R ? ? work", "work 0-1, work 4-"},
		{"it is killed: what stood is known until the last reading", "work work work K ? ? ? idle", "work 0-2, idle 6-"},
		{"it starts again, and the cause is over", "work work R idle idle idle", "work 0-1, idle 2-"},
	} {
		fake := newFake()
		r := newRun(t, fake)
		when := start
		for word := range strings.FieldsSeq(tt.readings) {
			switch word {
			case "R", "K":
				r.flush()
				r = newRun(t, fake)
				if err := r.load(t.Context()); err != nil {
					t.Fatal(err)
				}
				continue
			case "?":
			case "-":
				r.Observe(said(when, ""))
			default:
				r.Observe(said(when, strings.ReplaceAll(word, ",", " ")))
			}
			when = when.Add(interval5)
		}
		r.flush()
		if got := fake.intervals(); got != tt.want {
			t.Errorf("%s (%s): %s, want %s", tt.why, tt.readings, got, tt.want)
		}
	}
}

// A cause that goes on is not written at each reading, and not left as it was for long.
func TestCausesAreToldAgain(t *testing.T) {
	fake := newFake()
	r := newRun(t, fake)
	for i := range 120 {
		r.Observe(said(start.Add(time.Duration(i)*interval5), "work"))
		r.flush()
	}
	writes := 0
	for _, b := range fake.batches {
		writes += len(b.Causes)
	}
	if writes != 10 {
		t.Errorf("written %d times in ten minutes", writes)
	}
}

// When the clock is set, or the machine sleeps, causes end and begin anew; none lasts less than nothing.
func TestCausesAndTheClock(t *testing.T) {
	fake := newFake()
	r := newRun(t, fake)
	for i, second := range []int{0, 5, 10, -3600, -3595, 9000, 9005, 9010} {
		m := said(start.Add(time.Duration(second)*time.Second), "work")
		if i >= 3 {
			m.Snapshot.Breaks, m.Snapshot.ClockSet = 1, -3615*time.Second
		}
		if i >= 5 {
			m.Snapshot.Breaks = 2
		}
		if i == 7 {
			m.Snapshot.Breaks = 3 // so short that only the machine knows
		}
		r.Observe(m)
	}
	r.flush()
	if got, want := fake.intervals(), "work -720--719, work 0-2, work 1800-1801, work 1802-"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for _, e := range fake.events {
		if e.Kind != kindClockSet || e.Text != "The machine's clock was set back by 60 min." || e.UUID != "" {
			t.Errorf("event %+v", e)
		}
	}
	if len(fake.events) != 1 {
		t.Errorf("%d events", len(fake.events))
	}
}

// The whole chain: who works, by the answer about real readings.
func TestWhoWorks(t *testing.T) {
	fake := newFake()
	r := newRun(t, fake)
	stage := insight.NewStage()
	for i := range 30 {
		d := card("GPU-1")
		d.Utilization.GPU, d.Power.Draw, d.Thermal.GPU = gpu.Of[gpu.Percent](97), gpu.Of[gpu.Watts](300), gpu.Of[gpu.Celsius](70)
		d.ProcessesPartial = gpu.Of(false)
		d.Processes = gpu.Of([]gpu.Process{{PID: 5, Type: gpu.TypeCompute, SM: gpu.Of[gpu.Percent](96), Facts: gpu.ProcessFacts{
			Program: gpu.Of("train.py"), User: gpu.Of("mchen"), Exists: gpu.Of(true), Command: gpu.Absent[string](gpu.NotPermitted),
		}}})
		r.Observe(stage.Next(snapshot(start.Add(time.Duration(i)*interval5), d)))
	}
	r.flush()
	found := false
	for _, c := range fake.causes {
		if c.Kind == string(explain.Work) {
			found = c.Who == "train.py (mchen)" && c.Open && c.From.Equal(start) && c.Confidence == float64(explain.High) && c.Sentence != ""
		}
	}
	if !found {
		t.Errorf("the causes are %+v", fake.causes)
	}
}

// What is kept of a cause is what was said when the device drew most, not what was said as it ended.
func TestACauseSaysWhatItWasAtItsMost(t *testing.T) {
	fake := newFake()
	r := newRun(t, fake)
	for i, watts := range []gpu.Watts{90, 700, 650, 11} {
		m := said(start.Add(time.Duration(i)*interval5), "work=ann")
		d := m.Snapshot.Devices[0]
		d.Power.Draw = gpu.Of(watts)
		c := &m.Answer.Devices[0].Causes[0]
		c.Device, c.Sentence = &d, fmt.Sprintf("ann's work draws %v W.", watts)
		r.Observe(m)
	}
	for i := range missed + 1 {
		r.Observe(said(start.Add(time.Duration(4+i)*interval5), ""))
	}
	r.flush()
	for _, c := range fake.causes {
		if want := "ann's work draws 700 W."; c.Sentence != want {
			t.Errorf("%q, want %q", c.Sentence, want)
		}
	}
	if len(fake.causes) != 1 {
		t.Errorf("%d causes", len(fake.causes))
	}
}
