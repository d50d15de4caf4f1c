package notify

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
)

func severe(id string, news alert.News, s alert.Severity) alert.Change {
	c := change(id, news)
	c.Severity = s
	return c
}

// In a storm of alerts, which come worst first, it is the mildest that are not
// told, and the oldest of those.
func TestStormKeepsTheWorst(t *testing.T) {
	inSync(t, func(t *testing.T) {
		r := newRig(t, config("ops"), nil, nil)
		defer r.stop()
		r.tell(severe("early", alert.Fired, alert.Info))
		time.Sleep(15 * time.Second)
		var storm []alert.Change
		for i := range 1000 {
			switch {
			case i < 12:
				storm = append(storm, severe(fmt.Sprintf("c%d", i), alert.Fired, alert.Critical))
			case i < 100:
				storm = append(storm, severe(fmt.Sprintf("w%d", i), alert.Fired, alert.Warning))
			default:
				storm = append(storm, severe(fmt.Sprintf("i%d", i), alert.Fired, alert.Info))
			}
			if i == 200 {
				storm = append(storm, severe("early", alert.Over, alert.Info))
			}
		}
		r.tell(storm...)
		text := kept(t, r)
		for id, want := range map[string]bool{"c0": true, "w99": true, "early": true, "i100": false, "i600": false, "i601": true, "i999": true} {
			if got := strings.Contains(string(text), `{"id":"`+id+`","news"`); got != want {
				t.Errorf("%s waits: %v, want %v", id, got, want)
			}
		}
		r.tell(severe("i100", alert.Over, alert.Info)) // ends with its beginning
		time.Sleep(2 * time.Minute)
		got := r.wire(urlOf("ops")).all()
		if len(got) != 2 {
			t.Fatalf("%d messages", len(got))
		}
		body := got[1].body
		if !strings.HasPrefix(body, "- 55 s ago (") || !strings.Contains(got[1].title, "and 499 more") {
			t.Errorf("it begins with %.200q", body)
		}
		for i := range 12 {
			if !strings.Contains(body, fmt.Sprintf("<c%d fired>", i)) {
				t.Errorf("c%d is not told", i)
			}
		}
		for _, want := range []string{"… and 480 more: 80 warning, 399 info, 1 over.", "\ngpuwhy dropped 501 events: there were too many."} {
			if !strings.Contains(body, want) {
				t.Errorf("%q is not in %q", want, body)
			}
		}
		if strings.Contains(body, "in time") {
			t.Errorf("it says a reason that is none: %q", body)
		}
	})
}

// What comes without end is told none the later.
func TestStormThatDoesNotEnd(t *testing.T) {
	inSync(t, func(t *testing.T) {
		r := newRig(t, config("ops"), nil, nil)
		defer r.stop()
		begun := time.Now()
		for second := range 30 {
			for i := range 100 {
				r.tell(change(fmt.Sprintf("n%d-%d", second, i), alert.Fired))
			}
			time.Sleep(time.Second)
		}
		got := r.wire(urlOf("ops")).all()
		if len(got) != 1 || got[0].now.Sub(begun) != 10*time.Second {
			t.Fatalf("%d messages", len(got))
		}
	})
}

func TestWeight(t *testing.T) {
	// From what is dropped first to what is dropped last.
	order := []Event{
		{News: brief, Severity: "info"}, {News: repeated, Severity: "info"}, {News: fired, Severity: "info"}, {News: over, Severity: "info"},
		{News: brief, Severity: "warning"}, {News: fired, Severity: "warning"}, {News: over, Severity: "warning"},
		{News: fired, Severity: "critical"}, {News: over, Severity: "critical"},
	}
	var q queue
	for i := range order {
		e := order[len(order)-1-i]
		e.ID = fmt.Sprint(len(order) - 1 - i)
		q.add(e, time.Now())
	}
	for i := range order {
		q.trim(len(order) - i - 1)
		if slices.ContainsFunc(q.Pending, func(p pending) bool { return p.ID == fmt.Sprint(i) }) {
			t.Errorf("%+v is there still", order[i])
		}
	}
	if q.dropped != (dropped{Crowded: len(order)}) {
		t.Errorf("dropped: %+v", q.dropped)
	}
}

// Too many and too late are two reasons, over a restart too.
func TestReasonsAreApart(t *testing.T) {
	inSync(t, func(t *testing.T) {
		line := &wire{fail: func(int, string) error { return &failure{text: "no"} }}
		wires := map[Secret]*wire{urlOf("ops"): line}
		r := newRig(t, config("ops"), wires, nil)
		r.tell(change("old", alert.Fired))
		time.Sleep(25 * time.Hour)
		for i := range mostPending + 3 {
			r.tell(severe(fmt.Sprint(i), alert.Fired, alert.Info))
		}
		r.stop()
		text := kept(t, r)
		line.now(nil)
		next := newRig(t, config("ops"), wires, text)
		defer next.stop()
		time.Sleep(time.Hour)
		all := line.all()
		body := all[len(all)-1].body
		for _, want := range []string{"\ngpuwhy dropped 3 events: there were too many.", "\ngpuwhy dropped 1 event that could not be delivered in time."} {
			if !strings.Contains(body, want) {
				t.Errorf("%q is not in %q", want, body)
			}
		}
		next.tell(change("new", alert.Fired))
		time.Sleep(time.Hour)
		all = line.all()
		if body := all[len(all)-1].body; strings.Contains(body, "gpuwhy dropped") {
			t.Errorf("it is told twice: %q", body)
		}
	})
}

// Who was told that an alert began is told that it is over, whatever the rule
// and the target say by then; who was not, is not.
func TestTheEndIsTold(t *testing.T) {
	inSync(t, func(t *testing.T) {
		c := config("loud", "moved")
		c.Targets[0].Severity = alert.Critical
		wires := map[Secret]*wire{}
		r := newRig(t, c, wires, nil)
		routed := func(id string, news alert.News, s alert.Severity, target string) alert.Change {
			out := severe(id, news, s)
			out.Targets = []string{target}
			return out
		}
		r.tell(routed("told", alert.Fired, alert.Critical, "loud"), routed("mild", alert.Fired, alert.Warning, "loud"), routed("away", alert.Fired, alert.Info, "moved"))
		time.Sleep(time.Minute)
		r.tell(routed("waits", alert.Fired, alert.Critical, "loud"), routed("waits", alert.Over, alert.Info, "loud"))
		time.Sleep(time.Minute)
		r.stop()
		text := kept(t, r)
		c.Targets[1].Severity = alert.Critical
		r = newRig(t, c, wires, text)
		defer r.stop()
		r.tell(routed("told", alert.Over, alert.Info, "loud"), routed("mild", alert.Over, alert.Warning, "loud"), routed("away", alert.Over, alert.Info, "nobody"))
		time.Sleep(2 * time.Minute)
		for name, want := range map[string][]string{"loud": {"<told fired>", "<waits over>", "<told over>"}, "moved": {"<away fired>", "<away over>"}} {
			got := wires[urlOf(name)].all()
			if len(got) != len(want) {
				t.Fatalf("%s: %+v", name, got)
			}
			for i := range got {
				if !strings.Contains(got[i].body, want[i]) || strings.Count(got[i].body, "<") != 1 {
					t.Errorf("%s was sent %q, want %s", name, got[i].body, want[i])
				}
			}
		}
	})
}

// What is told later than it was so begins with when it was, as of the moment at
// which it is sent.
func TestLateMessages(t *testing.T) {
	inSync(t, func(t *testing.T) {
		line := &wire{fail: func(int, string) error { return &failure{text: "no"} }}
		r := newRig(t, config("ops"), map[Secret]*wire{urlOf("ops"): line}, nil)
		defer r.stop()
		now := time.Now().UTC()
		r.tell(change("a", alert.Fired))
		time.Sleep(20 * time.Second)
		all := line.all()
		if len(all) == 0 || strings.Contains(all[0].body, " ago (") {
			t.Errorf("at once: %+v", all)
		}
		time.Sleep(3 * time.Hour)
		line.now(nil)
		time.Sleep(time.Hour)
		all = line.all()
		last := all[len(all)-1]
		want := fmt.Sprintf("3 h ago (%s UTC): [warning too_hot] node-1: <a fired> Look.", now.Format("15:04:05"))
		if last.err != nil || last.body != want {
			t.Errorf("late: %q, want %q", last.body, want)
		}
	})
}

// After each try there is something to keep; with it, a message that was taken
// is not sent again after a crash.
func TestChanged(t *testing.T) {
	inSync(t, func(t *testing.T) {
		line := &wire{fail: func(n int, _ string) error {
			if n == 1 {
				return &failure{text: "no"}
			}
			return nil
		}}
		wires := map[Secret]*wire{urlOf("ops"): line}
		r := newRig(t, config("ops"), wires, nil)
		defer r.stop()
		<-r.changed // the configuration
		begun := time.Now()
		r.tell(change("a", alert.Fired))
		<-r.changed
		if s := r.Status()[0]; time.Since(begun) != 10*time.Second || s.Failed != 1 || s.Queued != 1 {
			t.Errorf("after the first try: %+v", s)
		}
		<-r.changed
		if s := r.Status()[0]; time.Since(begun) > 12*time.Second || s.Sent != 1 || s.Queued != 0 {
			t.Errorf("after the second try: %+v", s)
		}
		text := kept(t, r)
		next := newRig(t, config("ops"), wires, text)
		defer next.stop()
		time.Sleep(time.Hour)
		if n := len(line.all()); n != 2 {
			t.Errorf("it was sent %d times", n)
		}
	})
}
