package record

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// happened are the texts of the events, the oldest first.
func (f *fakeStore) happened() (out []string) {
	var all []store.Event
	for _, e := range f.events {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b store.Event) int { return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.ID, b.ID)) })
	for _, e := range all {
		out = append(out, strings.TrimSpace(e.Time.Sub(start).String()+" "+e.Kind+" "+e.Severity)+": "+e.Text)
	}
	return out
}

func TestEventsOfADevice(t *testing.T) {
	fake := newFake()
	r := newRun(t, fake)
	second := func(n int) time.Time { return start.Add(time.Duration(n) * time.Second) }
	read := func(seconds int, state gpu.State, xids ...gpu.XID) {
		d := card("GPU-1")
		d.State, d.SampledAt = state, second(seconds)
		if state != gpu.StateOK {
			d.Since, d.Reason.What = second(seconds-2), "it fell off"
		}
		d.Health.XIDs = gpu.Of(xids)
		r.observe(snapshot(second(seconds), d))
	}
	old := gpu.XID{Code: 13, Count: 2, Earlier: 2, Last: second(-500)}
	again := func() {
		r.flush()
		r = newRun(t, fake)
	}
	read(0, gpu.StateOK, old)
	again() // the kernel's log is read again from its beginning
	read(5, gpu.StateOK, old)
	r.flush()
	read(70, gpu.StateOK, old)
	newer := old
	newer.Count, newer.Last = 3, second(71)
	read(75, gpu.StateOK, newer)
	read(80, gpu.StateLost, newer, gpu.XID{Code: 79, Count: 1, Last: second(78), Culprit: gpu.Culprit{PID: 7, Name: "python3"}})
	read(85, gpu.StateLost, newer, gpu.XID{Code: 79, Count: 1, Last: second(78)})
	again()
	read(90, gpu.StateLost, newer, gpu.XID{Code: 79, Count: 1, Last: second(78)})
	read(95, gpu.StateOK, newer)
	read(100, gpu.StateAsleep, newer)
	read(105, gpu.StateOK, newer)
	r.flush()
	want := []string{
		"-8m20s xid warning: GPU 0 (Card): XID 13: ",
		"1m11s xid warning: GPU 0 (Card): XID 13: ",
		"1m18s state critical: GPU 0 (Card) is lost: it fell off.",
		"1m18s xid critical: GPU 0 (Card): XID 79: ",
		"1m28s state critical: GPU 0 (Card) is lost: it fell off.", // since a run that did not see it before
		"1m35s state info: GPU 0 (Card) answers again.",
		"1m38s state info: GPU 0 (Card) is asleep: it fell off.",
		"1m45s state info: GPU 0 (Card) is awake again.",
	}
	got := fake.happened()
	if len(got) != len(want) {
		t.Fatalf("happened:\n%s", strings.Join(got, "\n"))
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("%s, want %s", got[i], want[i])
		}
	}
	if !strings.HasSuffix(got[3], ", while running python3 (pid 7).") {
		t.Error(got[3])
	}
}

func TestAnEventFromElsewhereIsKeptOnce(t *testing.T) {
	fake := newFake()
	r := newRun(t, fake)
	for range 3 {
		r.AddEvent(store.Event{ID: "alert/1", Key: store.Key{Node: "box"}, Time: start, Kind: "alert_firing", Text: "Hot."})
		r.flush()
	}
	if len(fake.events) != 1 || fake.events["alert/1"].Text != "Hot." {
		t.Errorf("events: %+v", fake.events)
	}
}

// Throttling is told once it lasts, and is over when it stays away.
func TestThrottling(t *testing.T) {
	fake := newFake()
	r := newRun(t, fake)
	heat, power := gpu.ReasonThermalSlowdown, gpu.ReasonPowerCap
	for second := 0; second <= 2000; second += 5 {
		var reasons gpu.ClockEventReasons
		switch {
		case second == 100, second >= 200 && second <= 220, second >= 700 && second < 760, second >= 900 && second <= 1000:
			reasons = power // a moment, not long enough; and later with a pause
		}
		if second >= 1100 && second <= 1130 {
			reasons |= heat
		}
		d := card("GPU-1")
		d.Clocks.EventReasons = gpu.Of(reasons)
		r.observe(snapshot(start.Add(time.Duration(second)*time.Second), d))
	}
	r.flush()
	want := []string{
		"11m40s throttling info: GPU 0 (Card) is held back by power.",
		"16m40s throttling info: GPU 0 (Card) is no longer held back by power.",
		"18m20s throttling info: GPU 0 (Card) is slowed by heat.",
		"18m50s throttling info: GPU 0 (Card) is no longer slowed by heat.",
	}
	if got := fake.happened(); !slices.Equal(got, want) {
		t.Errorf("happened:\n%s", strings.Join(got, "\n"))
	}
}

// Who asks for events of a kind is told which kinds there are.
func TestKindsAreListed(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{kindState, kindXID, kindFault, kindThrottling, kindClockSet, kindStarted, kindStopped} {
		if !slices.Contains(store.EventKinds, kind) {
			t.Errorf("%s is not among the kinds of events", kind)
		}
	}
}

// What slowed a device down ends, also where gpuwhy was killed meanwhile, the device has left, or nobody looked for a while.
func TestThrottlingEnds(t *testing.T) {
	held := func(held bool) gpu.Device {
		d := card("GPU-1")
		d.Clocks.EventReasons = gpu.Of[gpu.ClockEventReasons](0)
		if held {
			d.Clocks.EventReasons = gpu.Of(gpu.ReasonThermalSlowdown)
		}
		return d
	}
	const begins, ends = "GPU 0 (Card) is slowed by heat.", "GPU 0 (Card) is no longer slowed by heat."
	// The world begins in seconds of now: what an earlier run told of is looked for in the last month.
	begin := time.Now().UTC().Truncate(time.Second).Add(-2 * time.Hour)
	for name, tt := range map[string]struct {
		second  func(r *run, second int) *run // may start another gpuwhy
		devices func(second int) []gpu.Device
		want    string
	}{
		"while it runs": {nil, func(s int) []gpu.Device { return []gpu.Device{held(s <= 300)} }, "0 begins, 300 ends"},
		"it is killed, and heat goes on": {
			func(r *run, s int) *run { return r.againAt(s == 200) },
			func(s int) []gpu.Device { return []gpu.Device{held(s <= 300)} }, "0 begins, 300 ends",
		},
		"it is killed, and heat is over": {
			func(r *run, s int) *run { return r.againAt(s == 200) },
			func(s int) []gpu.Device { return []gpu.Device{held(s < 200)} }, "0 begins, 195 ends",
		},
		"it is killed, and heat comes again much later": {
			func(r *run, s int) *run { return r.againAt(s == 200) },
			func(s int) []gpu.Device {
				if s >= 200 && s < 1000 {
					return nil
				}
				return []gpu.Device{held(s < 1200)}
			}, "0 begins, 195 ends, 1000 begins, 1195 ends",
		},
		"the device leaves": {nil, func(s int) []gpu.Device {
			if s > 300 {
				return []gpu.Device{card("GPU-2")}
			}
			return []gpu.Device{held(true)}
		}, "0 begins, 300 ends"},
	} {
		fake := newFake()
		r := newRun(t, fake)
		if err := r.load(t.Context()); err != nil {
			t.Fatal(err)
		}
		for second := 0; second <= 1500; second += 5 {
			if tt.second != nil {
				r = tt.second(r, second)
			}
			if devices := tt.devices(second); devices != nil {
				r.observe(snapshot(begin.Add(time.Duration(second)*time.Second), devices...))
			}
		}
		r.flush()
		var got []string
		for _, e := range fake.events {
			if e.Kind == kindThrottling {
				phase := map[string]string{begins: "begins", ends: "ends"}[e.Text]
				got = append(got, fmt.Sprintf("%04d %s", int(e.Time.Sub(begin).Seconds()), phase))
			}
		}
		slices.Sort(got)
		for i := range got {
			if got[i] = strings.TrimLeft(got[i], "0"); got[i][0] == ' ' {
				got[i] = "0" + got[i]
			}
		}
		if strings.Join(got, ", ") != tt.want {
			t.Errorf("%s: %s, want %s", name, strings.Join(got, ", "), tt.want)
		}
	}
}

// againAt is the run, or where it is killed now one that goes on with what the store has.
func (r *run) againAt(now bool) *run {
	if !now {
		return r
	}
	r.flush()
	next := newRun(r.t, r.fake)
	if err := next.load(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	return next
}
