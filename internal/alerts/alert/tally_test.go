package alert

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight"
)

// However many alerts ended, all of the last 24 hours are counted, also over a restart and of each node alone.
func TestAllThatEndedIsCounted(t *testing.T) {
	e := New([]Rule{busy(50)})
	const ends = 1258
	for n := range 2 * ends {
		e.Observe(&insight.Moment{Snapshot: snapshotAt(n*20, float64((n+1)%2*100))})
	}
	newest := e.Past()[0]
	day := newest.Time.Add(-24 * time.Hour)
	if got := e.EndedSince("", day); got != ends {
		t.Errorf("%d ended, want %d", got, ends)
	}
	if got := restarted(t, e).EndedSince(newest.Device.Node, day); got != ends {
		t.Errorf("%d after a restart, want %d", got, ends)
	}
	if got := e.EndedSince("another", day); got != 0 {
		t.Errorf("%d of another node", got)
	}
	if got := e.EndedSince("", newest.Time.Add(-10*time.Minute)); got < 14 || got > 17 { // one in 40 s
		t.Errorf("%d in ten minutes", got)
	}
	text := strings.Replace(string(keptOf(t, e)), `"ended":{`, `"unknown":{`, 1) // as an earlier gpuwhy keeps it
	old := New(e.Rules())
	restore(t, old, []byte(text), newest.Time)
	if got := old.EndedSince("", day); got != keptPast {
		t.Errorf("%d of those that an earlier gpuwhy remembers, want %d", got, keptPast)
	}
}

// A fleet counts what ended at each of its nodes, and none twice.
func TestAFleetCountsWhatEnded(t *testing.T) {
	s := Share(New(nil))
	for n := range 600 {
		a := Alert{ID: strconv.Itoa(n / 2), Device: gpu.Identity{Node: "node-" + strconv.Itoa(n/2%3)}, Time: start.Add(time.Duration(n) * time.Second)}
		s.Ended(&a)
	}
	if all, one := s.EndedSince("", start.Add(-time.Hour)), s.EndedSince("node-1", start.Add(-time.Hour)); all != 300 || one != 100 {
		t.Errorf("%d ended, %d of one node", all, one)
	}
	s.Ended(&Alert{ID: "later", Device: gpu.Identity{Node: "node-1"}, Time: start.Add(30 * time.Hour)})
	if n := len(s.ended["node-1"]); n != 1 {
		t.Errorf("%d minutes of more than a day ago are remembered", n-1)
	}
}

// What an alert fired for, how far it went and who caused it is there once it is over, also after a restart.
func TestWhatAnAlertFiredFor(t *testing.T) {
	r := busy(50)
	r.Clear = time.Second
	e := New([]Rule{r})
	for second, percent := range []float64{60, 93, 70, 3, 2, 1} {
		s := snapshotAt(second, percent)
		s.Devices[0].Processes = gpu.Of([]gpu.Process{{PID: 7, SM: gpu.Of(gpu.Percent(percent)), Facts: gpu.ProcessFacts{Name: gpu.Of("python3"), User: gpu.Of("ann")}}})
		e.Observe(&insight.Moment{Snapshot: s})
	}
	for name, e := range map[string]*Engine{"over": e, "after a restart": restarted(t, e)} {
		list := e.Past()
		if len(list) != 1 {
			t.Fatalf("%s: %+v", name, list)
		}
		a := list[0]
		if !strings.Contains(a.Fired, "60 %") || !strings.Contains(a.FiredIs, "60 %") || a.PeakText() != "93 %" || len(a.Users) != 1 || a.Users[0] != "ann" || strings.Contains(a.Message, "60 %") {
			t.Errorf("%s: it fired as %q (%q), went to %q, of %q; the end is %q", name, a.Fired, a.FiredIs, a.PeakText(), a.Users, a.Message)
		}
	}
}
