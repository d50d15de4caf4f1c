package record

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// A world is a machine with two devices, and what is true of its processes.
type world struct {
	t    testing.TB
	fake *fakeStore
	r    *run
	late bool // the store answers only after some readings

	elapsed time.Duration // true time
	offset  time.Duration // of the clock from it
	breaks  int
	set     time.Duration
	runs    int
	lost    [2]bool
	procs   []*proc // that live
	named   int
	truth   map[string]truth // by the process's name
	written map[string]truth // as it was when all was written last
	looks   [2]looked        // the newest look at each device
}

type proc struct {
	name    string
	device  int
	pid     int
	started time.Duration // true time
	known   bool          // its start
	hidden  bool          // the machine tells nothing of it
}

// looked is a look at a device, in this run.
type looked struct {
	number  int // in this run; 0: there was none
	elapsed time.Duration
	breaks  int
	lost    bool // since then
}

// truth is what must be kept of a process.
type truth struct {
	device            int
	seen              time.Duration
	bytes, sm, joules float64
	run, look         int // the run in which it was seen last, and the number of that look
	offset            time.Duration
	outcome           store.Outcome
	over              bool // it was not in a look after that
	lostIn            int  // the run in which its device was lost before a look at it
	appearance        int
}

func (w *world) wall() time.Time { return start.Add(w.elapsed + w.offset) }

func (w *world) begin() {
	w.runs++
	w.r = newRun(w.t, w.fake)
	w.breaks, w.set, w.looks = 0, 0, [2]looked{}
	if !w.late {
		if err := w.r.load(context.Background()); err != nil {
			w.t.Fatal(err)
		}
	}
}

// moment is the machine as it is.
func (w *world) moment() *insight.Moment {
	devices := []gpu.Device{card("GPU-1"), card("GPU-22")}
	for i := range devices {
		d := &devices[i]
		if w.lost[i] {
			d.State = gpu.StateLost
			continue
		}
		d.IdleFloor, d.Power.Draw = gpu.Of[gpu.Watts](50), gpu.Of(gpu.Watts(50+100*math.Abs(math.Sin(w.elapsed.Seconds()))))
		d.Utilization.GPU, d.Memory.Used = gpu.Of[gpu.Percent](100), gpu.Of[gpu.Bytes](1<<40)
		list := []gpu.Process{}
		for _, p := range w.procs {
			if p.device != i {
				continue
			}
			process := gpu.Process{PID: p.pid, Memory: gpu.Of(gpu.Bytes(1000 * p.pid)), SM: gpu.Of(gpu.Percent(p.pid % 30))}
			if !p.hidden {
				process.Facts.Name, process.Facts.Program = gpu.Of(p.name), gpu.Absent[string](gpu.NotPermitted)
			}
			if p.known {
				process.Facts.Started = gpu.Of(start.Add(p.started + w.offset).Truncate(10 * time.Millisecond))
			}
			list = append(list, process)
		}
		d.Processes = gpu.Of(list)
	}
	s := snapshot(w.wall(), devices...)
	s.Breaks, s.ClockSet, s.Host = w.breaks, w.set, &gpu.Host{Boot: "boot"}
	return insight.Of(s)
}

// read makes a reading, and says what is true from then on.
func (w *world) read() {
	m := w.moment()
	w.r.Observe(m)
	for i := range m.Snapshot.Devices {
		d, look := &m.Snapshot.Devices[i], &w.looks[i]
		if w.lost[i] {
			look.lost = true
			w.lose(i)
			continue
		}
		passed := w.elapsed - look.elapsed
		follows := look.number > 0 && look.breaks == w.breaks && passed > 0 && passed <= interval5*5/2
		there := map[string]bool{}
		for j, p := range d.Processes.Or(nil) {
			name := p.Facts.Name.Or(hiddenName(p.PID))
			there[name] = true
			v, known := w.truth[name]
			before := follows && v.run == w.runs && v.look == look.number
			same := known && (before || v.outcome == store.Open || !v.over && v.outcome == store.GPULost && v.run == w.runs ||
				!v.over && v.outcome == store.Unseen && v.lostIn == w.runs)
			if !p.Facts.Started.Present() && w.elapsed-v.offset > unwatched {
				same = false
			}
			if before {
				v.seen += passed
				v.bytes += float64(p.Memory.Or(0)) * passed.Seconds()
				v.sm += float64(p.SM.Or(0)) / 100 * passed.Seconds()
				v.joules += float64(m.Attribution[i].Shares[j].Power.Or(0)) * passed.Seconds()
			}
			if !same {
				v.appearance++
			}
			v.device, v.run, v.look, v.offset, v.outcome, v.over = i, w.runs, look.number+1, w.elapsed, store.Open, false
			w.truth[name] = v
		}
		for name, v := range w.truth {
			if v.device != i || there[name] || v.over {
				continue
			}
			v.over = true
			switch {
			case v.run != w.runs && v.outcome == store.GPULost: // of a run before
			case v.run != w.runs:
				v.outcome = store.Unseen
			case look.lost:
				v.outcome = store.GPULost
			case follows:
				v.outcome = store.Ended
			default:
				v.outcome = store.Unseen
			}
			w.truth[name] = v
		}
		*look = looked{number: look.number + 1, elapsed: w.elapsed, breaks: w.breaks}
	}
}

func (w *world) lose(device int) {
	for name, v := range w.truth {
		if v.device == device && v.outcome == store.Open {
			v.outcome = store.GPULost
			if v.run != w.runs {
				v.outcome, v.lostIn = store.Unseen, w.runs
			}
			w.truth[name] = v
		}
	}
}

// hiddenName is what the test calls a process of which the machine tells nothing. Nobody else gets its pid.
func hiddenName(pid int) string { return fmt.Sprint("p", pid-1000) }

// down lets time pass in which gpuwhy does not run. A process may end meanwhile, and another one get its pid, which has another name.
func (w *world) down(t *rapid.T) {
	w.elapsed += time.Duration(rapid.SampledFrom([]int{1, 30, 600, 3000, 4000, 20_000}).Draw(t, "down")) * time.Second
	for _, p := range w.procs {
		if !p.known && !p.hidden && rapid.IntRange(0, 3).Draw(t, "reused") == 0 {
			w.named++
			p.name, p.started = fmt.Sprint("p", w.named), w.elapsed
		}
	}
	w.begin()
}

func (w *world) flush() {
	w.r.flush()
	w.written = maps.Clone(w.truth)
}

// act lets something happen.
func (w *world) act(t *rapid.T) {
	switch rapid.SampledFrom([]string{
		"", "", "", "", "", "", "starts", "starts", "ends", "reused", "loses", "answers", "restart", "kill", "sleep", "set", "gap", "flush",
	}).Draw(t, "what") {
	case "starts":
		w.named++
		p := &proc{
			name: fmt.Sprint("p", w.named), device: rapid.IntRange(0, 1).Draw(t, "on"), pid: 1000 + w.named,
			started: w.elapsed, known: rapid.IntRange(0, 3).Draw(t, "known") > 0,
		}
		p.hidden = !p.known && rapid.Bool().Draw(t, "hidden")
		w.procs = append(w.procs, p)
	case "ends":
		if len(w.procs) > 0 {
			i := rapid.IntRange(0, len(w.procs)-1).Draw(t, "which")
			w.procs = slices.Delete(w.procs, i, i+1)
		}
	case "reused": // the pid of a process, by another at once
		if len(w.procs) > 0 {
			p := w.procs[rapid.IntRange(0, len(w.procs)-1).Draw(t, "which")]
			if w.elapsed-p.started > sameStart+time.Second && p.known {
				w.named++
				p.name, p.started = fmt.Sprint("p", w.named), w.elapsed
			}
		}
	case "loses":
		w.lost[rapid.IntRange(0, 1).Draw(t, "which")] = true
	case "answers":
		w.lost = [2]bool{}
	case "restart":
		w.flush()
		w.down(t)
	case "kill": // what is not written never was
		w.truth = maps.Clone(w.written)
		w.down(t)
	case "sleep":
		w.elapsed += time.Duration(rapid.IntRange(30, 10_000).Draw(t, "asleep")) * time.Second
		w.breaks++
	case "set":
		change := time.Duration(rapid.IntRange(-5000, 5000).Draw(t, "by"))*time.Second + 7*time.Millisecond
		w.offset, w.set = w.offset+change, w.set+change
		w.breaks++
		w.elapsed += interval5
		w.read()
		w.flush() // how far the clock was set is known to this run alone
	case "gap": // readings are missing, and nobody says so
		w.elapsed += time.Duration(rapid.IntRange(8, 24).Draw(t, "gap")) * time.Second
	case "flush":
		w.flush()
	}
	w.elapsed += time.Duration(rapid.IntRange(3000, 7000).Draw(t, "ms")) * time.Millisecond
}

// check compares what is kept with what is true.
func (w *world) check(rt *rapid.T) {
	kept := map[string][]store.Session{}
	for _, s := range w.fake.sessions {
		whole := s.To.Sub(s.From)
		if whole < 0 || s.Seen < 0 || s.Seen > whole || max(s.MemoryKnown, s.SMKnown, s.JoulesKnown, s.Busy) > s.Seen {
			rt.Fatalf("a session of %v, seen for %v: %+v", whole, s.Seen, s)
		}
		if s.Boot != "boot" || s.Program != "" || s.JoulesKnown > 0 && s.JoulesMethod == "" {
			rt.Fatalf("the session is %+v", s)
		}
		name := s.Name
		if name == "" {
			name = hiddenName(s.PID)
		}
		kept[name] = append(kept[name], s)
	}
	if got, want := slices.Sorted(maps.Keys(kept)), slices.Sorted(maps.Keys(w.truth)); !slices.Equal(got, want) {
		rt.Fatalf("there are sessions of %v, want %v", got, want)
	}
	for name, want := range w.truth {
		all := kept[name]
		slices.SortFunc(all, func(a, b store.Session) int { return cmp.Or(a.To.Compare(b.To), a.Begin.Compare(b.Begin)) })
		var got truth
		for _, s := range all {
			got.seen += s.Seen
			got.bytes += s.MemorySeconds
			got.sm += s.SMSeconds
			got.joules += s.Joules
		}
		near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(math.Abs(a), math.Abs(b), 1) }
		if got.seen != want.seen || !near(got.bytes, want.bytes) || !near(got.sm, want.sm) || !near(got.joules, want.joules) {
			rt.Fatalf("of %s are kept %v, %g B·s, %g s, %g J; want %v, %g, %g, %g: %+v",
				name, got.seen, got.bytes, got.sm, got.joules, want.seen, want.bytes, want.sm, want.joules, all)
		}
		if !w.late && !slices.ContainsFunc(all, func(s store.Session) bool { return s.Outcome == want.outcome }) {
			rt.Fatalf("%s is %s, want %s: %+v", name, all[len(all)-1].Outcome, want.outcome, all)
		}
		if !w.late && len(all) != want.appearance {
			rt.Fatalf("%s has %d sessions, want %d: %+v", name, len(all), want.appearance, all)
		}
	}
}

// Whatever happens, each second and each joule is counted once, for the process whose they were, and every process has its
// session.
func TestSessionsAreTrue(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{t: t, fake: newFake(), truth: map[string]truth{}, written: map[string]truth{}, late: rapid.Bool().Draw(rt, "late")}
		w.begin()
		for range rapid.IntRange(1, 120).Draw(rt, "steps") {
			w.act(rt)
			w.read()
		}
		w.flush() // reads what runs before have left
		w.elapsed += interval5
		w.read()
		w.flush()
		w.check(rt)
	})
}

// The first readings of a run may not say yet when a process began. Whether it is that of before shows later, and each second is
// counted once.
func TestAProcessOfWhichNothingIsToldYet(t *testing.T) {
	for name, tt := range map[string]struct {
		late  bool // the store says only after two readings what there was
		until int  // the look that first tells when the process began
		other bool // it is another process
		gap   bool // after the first reading
		want  []store.Session
	}{
		"the same":                    {false, 3, false, false, []store.Session{{Outcome: store.Open, Seen: 12 * interval5}}},
		"the same, and late":          {true, 3, false, false, []store.Session{{Outcome: store.Open, Seen: 12 * interval5}}},
		"the same at once":            {true, 0, false, false, []store.Session{{Outcome: store.Open, Seen: 12 * interval5}}},
		"another":                     {false, 3, true, false, []store.Session{{Outcome: store.Unseen, Seen: 4 * interval5}, {Outcome: store.Open, Seen: 8 * interval5}}},
		"another, and late":           {true, 3, true, false, []store.Session{{Outcome: store.Unseen, Seen: 4 * interval5}, {Outcome: store.Open, Seen: 8 * interval5}}},
		"it ends before":              {false, -1, false, false, []store.Session{{Outcome: store.Ended, Seen: 6 * interval5}}},
		"it is never told":            {false, 99, false, false, []store.Session{{Outcome: store.Open, Seen: 22 * interval5}}},
		"it is never told, later":     {true, 99, false, false, []store.Session{{Outcome: store.Open, Seen: 22 * interval5}}},
		"the same, after a gap":       {false, 3, false, true, []store.Session{{Outcome: store.Open, Seen: 11 * interval5}}},
		"the same, after a gap, late": {true, 3, false, true, []store.Session{{Outcome: store.Open, Seen: 11 * interval5}}},
		"told after a gap, late":      {true, 1, false, true, []store.Session{{Outcome: store.Open, Seen: 11 * interval5}}},
	} {
		t.Run(name, func(t *testing.T) {
			fake, when := newFake(), start
			var r *run
			read := func(began time.Time, there bool) {
				d := card("GPU-1")
				var list []gpu.Process
				if p := (gpu.Process{PID: 7, Memory: gpu.Of[gpu.Bytes](1000)}); there {
					if !began.IsZero() {
						p.Facts.Started = gpu.Of(began)
					}
					list = append(list, p)
				}
				d.Processes = gpu.Of(list)
				s := snapshot(when, d)
				s.Host = &gpu.Host{Boot: "boot"}
				r.observe(s)
				when = when.Add(interval5)
			}
			r = newRun(t, fake)
			for range 5 {
				read(start, true)
			}
			r.flush()
			r, when = newRun(t, fake), when.Add(time.Minute)
			if !tt.late {
				if err := r.load(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			looks := 9
			if tt.until == 99 {
				looks = 19
			}
			for look := range looks {
				began := time.Time{}
				if tt.until >= 0 && look >= tt.until {
					if began = start; tt.other {
						began = start.Add(30 * time.Second)
					}
				}
				read(began, tt.until >= 0 || look < 3)
				if tt.gap && look == 0 {
					when = when.Add(20 * time.Second)
				}
				if look >= 1 {
					r.flush() // a run that is killed leaves nothing twice
				}
			}
			var got []store.Session
			for _, s := range fake.sessions {
				got = append(got, store.Session{Outcome: s.Outcome, Seen: s.Seen})
			}
			slices.SortFunc(got, func(a, b store.Session) int { return cmp.Compare(a.Seen, b.Seen) })
			slices.SortFunc(tt.want, func(a, b store.Session) int { return cmp.Compare(a.Seen, b.Seen) })
			if !slices.Equal(got, tt.want) {
				t.Errorf("%+v\nwant %+v", fake.sessions, tt.want)
			}
		})
	}
}
