package history

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// seconds is a whole number of them.
func seconds(t *rapid.T, from, to int, what string) time.Duration {
	return time.Duration(rapid.IntRange(from, to).Draw(t, what)) * time.Second
}

// someSessions are sessions of several users, programs, jobs and pods on two devices, at the same time and with gaps; whole says
// that gpuwhy always looked, and that they always worked.
func someSessions(t *rapid.T, whole bool) (out []store.Session) {
	one := func(what string, choices ...string) string { return rapid.SampledFrom(choices).Draw(t, what) }
	for range rapid.IntRange(1, 12).Draw(t, "sessions") {
		begin, long := seconds(t, 0, 3000, "from"), seconds(t, 0, 3000, "long")
		k := store.Key{Node: "a", UUID: one("device", "GPU-1", "GPU-2")}
		out = append(out, session(one("user", "ann", "bob", ""), one("program", "x", "y"), k, begin, begin+long, func(s *store.Session) {
			s.Job, s.Pod = one("job", "", "slurm:1"), one("pod", "", "ml/a")
			if !whole {
				s.Seen = time.Duration(float64(long) * rapid.Float64Range(0, 1).Draw(t, "seen"))
				s.Busy = time.Duration(float64(s.Seen) * rapid.Float64Range(0, 1).Draw(t, "busy"))
			}
			if rapid.Bool().Draw(t, "told") && s.Seen > 0 {
				s.Joules, s.JoulesKnown = rapid.Float64Range(0, 1e6).Draw(t, "joules"), s.Seen
				s.SMSeconds, s.SMKnown = s.Seen.Seconds()*rapid.Float64Range(0, 1).Draw(t, "sm"), s.Seen
			}
		}))
	}
	slices.SortFunc(out, func(a, b store.Session) int { return a.From.Compare(b.From) })
	return out
}

// sums are what usage adds up to, by name.
type sums map[string]sum

type sum struct{ held, busy, sm, joules float64 }

func (s sums) add(list []Usage) sums {
	for _, u := range list {
		sum := s[u.Name+"/"+u.User]
		sum.held, sum.busy = sum.held+u.Held.Seconds(), sum.busy+u.Busy.Seconds()
		sum.sm, sum.joules = sum.sm+u.SMSeconds.Or(0), sum.joules+u.Joules.Or(0)
		s[u.Name+"/"+u.User] = sum
	}
	return s
}

func (s sums) total() (out sum) {
	for _, one := range s {
		out = sum{out.held + one.held, out.busy + one.busy, out.sm + one.sm, out.joules + one.joules}
	}
	return out
}

func (s sum) near(o sum) bool {
	near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-6*max(1, math.Abs(a), math.Abs(b)) }
	return near(s.held, o.held) && near(s.busy, o.busy) && near(s.sm, o.sm) && near(s.joules, o.joules)
}

func (s sums) near(o sums) bool {
	for name := range maps.All(s) {
		if !s[name].near(o[name]) {
			return false
		}
	}
	for name := range maps.All(o) {
		if !s[name].near(o[name]) {
			return false
		}
	}
	return true
}

// The parts of a span add up to the whole, by whatever is summed: each second and joule counts once. Daily says of each part what
// Usage does.
func TestUsageAddsUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := &memory{sessions: someSessions(t, false)}
		if rapid.Bool().Draw(t, "readings") {
			watts := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "watts"), 0))
			for at := midnight; at.Before(midnight.Add(3 * time.Hour)); at = at.Add(time.Minute) {
				if k := (store.Key{Node: "a", UUID: "GPU-1"}); watts.IntN(20) > 0 {
					r := reading(k, at, float64(watts.IntN(700)))
					r.Readings, r.Values[power].Count = 12, 12
					m.rows = append(m.rows, r)
				}
			}
			m.rows = minutes(m.rows)
		}
		p := newPast(m, midnight.Add(24*time.Hour))
		grouping := rapid.SampledFrom(Ways).Draw(t, "by")
		cuts := []time.Time{midnight, midnight.Add(7000 * time.Second)}
		for range rapid.IntRange(1, 5).Draw(t, "cuts") {
			cuts = append(cuts, midnight.Add(seconds(t, 1, 6999, "cut")))
		}
		slices.SortFunc(cuts, time.Time.Compare)
		cuts = slices.Compact(cuts)
		last := len(cuts) - 1
		usage := func(from, to time.Time) []Usage {
			list, err := p.Usage(t.Context(), grouping, store.Query{From: from, To: to})
			if err != nil {
				t.Fatal(err)
			}
			for _, u := range list {
				if u.Busy < 0 || u.Busy > u.Held || u.Held > time.Duration(u.Devices)*to.Sub(from) || u.JoulesKnown < 0 || u.JoulesKnown > 1+1e-9 {
					t.Fatalf("of %v: %+v", to.Sub(from), u)
				}
			}
			return list
		}
		daily, err := p.Daily(t.Context(), grouping, store.Query{From: cuts[0], To: cuts[last]}, cuts)
		if err != nil {
			t.Fatal(err)
		}
		parts := sums{}
		for i := range last {
			part := usage(cuts[i], cuts[i+1])
			parts.add(part)
			if !grouping.countsDevices() && !(sums{}).add(part).near((sums{}).add(daily[i])) {
				t.Fatalf("part %d: %+v, and in Daily %+v", i, part, daily[i])
			}
		}
		if whole := (sums{}).add(usage(cuts[0], cuts[last])); !whole.near(parts) {
			t.Fatalf("by %s the whole is %v, and its parts %v", grouping, whole, parts)
		}
	})
}

// Whatever is summed by, all that sessions had is there once; and what was seen without a gap is the time in which at least one
// was on a device, second by second.
func TestUsageIsWhatWasUsed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := &memory{sessions: someSessions(t, true)}
		p := newPast(m, midnight.Add(24*time.Hour))
		var all sum
		for _, s := range m.sessions {
			all.sm, all.joules = all.sm+s.SMSeconds, all.joules+s.Joules
		}
		from, to := 0, 7000
		if rapid.Bool().Draw(t, "a part") {
			from = rapid.IntRange(0, 3000).Draw(t, "begin")
			to = from + rapid.IntRange(1, 4000).Draw(t, "length")
		}
		instant := func(second int) time.Time { return midnight.Add(time.Duration(second) * time.Second) }
		for _, grouping := range Ways {
			list, err := p.Usage(t.Context(), grouping, store.Query{From: instant(from), To: instant(to)})
			if err != nil {
				t.Fatal(err)
			}
			got, want := (sums{}).add(list), map[string]map[string]bool{}
			for _, s := range m.sessions {
				name, user := nameOf(grouping, &s)
				if want[name+"/"+user] == nil {
					want[name+"/"+user] = map[string]bool{}
				}
				for second := from; second < to; second++ {
					if !instant(second).Before(s.From) && instant(second).Before(s.To) {
						want[name+"/"+user][fmt.Sprint(s.UUID, second)] = true
					}
				}
			}
			for name, runs := range want {
				if held := got[name].held; math.Abs(held-float64(len(runs))) > 1e-6 || math.Abs(got[name].busy-held) > 1e-6 {
					t.Fatalf("by %s %q held %v s and worked %v s, want %d", grouping, name, held, got[name].busy, len(runs))
				}
			}
			if total := got.total(); !grouping.countsDevices() && from == 0 && to == 7000 &&
				!(sum{sm: total.sm, joules: total.joules}).near(all) {
				t.Fatalf("by %s %+v, want %+v", grouping, total, all)
			}
		}
	})
}

// A part of a session has what its device drew then: of a process that loads for ten minutes nothing is billed for those but what
// the device drew above rest. Of work that is even, or beside other work, the part is about that of the time.
func TestEnergyOfAPart(t *testing.T) {
	t.Parallel()
	watts := func(minute, loading, working int) float64 {
		if minute < 10 {
			return float64(loading)
		}
		return float64(working + minute%2)
	}
	for name, tt := range map[string]struct {
		loading, working int
		joules           float64 // of the session, in an hour
		want             float64 // of its first ten minutes
		busy             float64 // the part of those; it worked for 50 of 60 minutes
	}{
		"it loads":          {60, 300, 600*10 + 3000*250.5, 600 * 10, 0},
		"even work":         {300, 300, 3600 * 250.5, 600 * 250.5, 5. / 6},
		"even work, beside": {300, 300, 3600 * 20, 600 * 20, 5. / 6},
		"no readings":       {0, 0, 3600, 600, 5. / 6},
	} {
		for _, scale := range []int{1, 15} { // an hour by minutes, and 15 hours by quarters
			long, column := time.Duration(scale)*time.Hour, store.Minute
			if scale > 1 {
				column = store.Quarter
			}
			m := &memory{sessions: []store.Session{session("ann", "x", gpu3, 0, long, func(s *store.Session) {
				s.Joules, s.JoulesKnown, s.Busy = tt.joules*float64(scale), long, long*5/6
			})}}
			for minute := range 60 {
				r := reading(gpu3, midnight.Add(time.Duration(minute)*column.Span()), watts(minute, tt.loading, tt.working))
				if r.Tier, r.Readings = column, 12; tt.working > 0 {
					m.rows = append(m.rows, r)
				}
			}
			p := newPast(m, midnight.Add(24*time.Hour))
			q := store.Query{From: midnight, To: midnight.Add(long / 6)}
			list, err := p.Usage(t.Context(), ByUser, q)
			if want := tt.want * float64(scale); err != nil || math.Abs(list[0].Joules.Or(0)-want) > 0.03*want {
				t.Errorf("%s, %v: %v J of %v, want %v; %v", name, long, list[0].Joules, tt.joules*float64(scale), want, err)
			}
			if share := list[0].Busy.Hours() / (long / 6).Hours(); math.Abs(share-tt.busy) > 0.06 {
				t.Errorf("%s, %v: at work for %.2f of the time, want %.2f", name, long, share, tt.busy)
			}
			daily, err := p.Daily(t.Context(), ByUser, q, []time.Time{q.From, q.To})
			if err != nil || math.Abs(daily[0][0].Joules.Or(0)-list[0].Joules.Or(0)) > 1e-6 {
				t.Errorf("%s, %v: %+v, want %+v; %v", name, long, daily, list, err)
			}
		}
	}
}

// Sums by day count each second on its day, also of 23 and 25 hours.
func TestDaysOfUsage(t *testing.T) {
	t.Parallel()
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for begins, want := range map[time.Time]time.Duration{
		time.Date(2026, 3, 29, 0, 0, 0, 0, zone): 23 * time.Hour, time.Date(2026, 10, 25, 0, 0, 0, 0, zone): 25 * time.Hour,
	} {
		day := func(n int) time.Time {
			return time.Date(begins.Year(), begins.Month(), begins.Day()+n, 0, 0, 0, 0, zone)
		}
		s := store.Session{SessionKey: store.SessionKey{Key: gpu3}, User: "ann", From: day(-2), To: day(3)}
		s.Seen = s.To.Sub(s.From)
		s.Busy, s.Joules, s.JoulesKnown = s.Seen, 100*s.Seen.Seconds(), s.Seen
		m := &memory{sessions: []store.Session{s}}
		for at := day(0); at.Before(day(1)); at = at.Add(time.Minute) {
			m.rows = append(m.rows, reading(gpu3, at, 100))
		}
		m.rows = minutes(m.rows)
		p := newPast(m, day(4))
		daily, err := p.Daily(t.Context(), ByUser, store.Query{From: day(-1), To: day(2)}, []time.Time{day(-1), day(0), day(1), day(2)})
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []time.Duration{24 * time.Hour, want, 24 * time.Hour} {
			if u := daily[i][0]; u.Held != want || u.Busy != want || math.Abs(u.Joules.Or(0)-100*want.Seconds()) > 1e-3 {
				t.Errorf("%v: %+v, want %v", day(i-1), u, want)
			}
		}
		energy, err := p.Energy(t.Context(), store.Query{From: day(0), To: day(1)})
		if e := energy[gpu3]; err != nil || math.Abs(e.Joules-100*want.Seconds()) > 1e-3 || math.Abs(e.Known-1) > 1e-9 {
			t.Errorf("%v: %+v, want %v at 100 W; %v", begins, e, want, err)
		}
	}
}

// minutes are the rows of spans of one reading each.
func minutes(raw []store.Row) []store.Row {
	out := slices.Clone(raw)
	for i := range out {
		out[i].Tier = store.Minute
	}
	return out
}

// Energy is the sum of the readings, of any span and in any parts; a gap counts nothing, however long the span is.
func TestEnergyAddsUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		length := rapid.SampledFrom([]time.Duration{time.Hour, 30 * time.Hour, 60 * time.Hour}).Draw(t, "length")
		m := &memory{}
		var want float64
		var known time.Duration
		begins, over := midnight, midnight.Add(length)
		for at := begins; at.Before(over); {
			run := time.Duration(rapid.IntRange(1, 40).Draw(t, "quarters")) * 15 * time.Minute
			watts := float64(rapid.IntRange(10, 700).Draw(t, "watts"))
			for end := at.Add(run); at.Before(end) && at.Before(over); at = at.Add(15 * time.Minute) {
				for _, tier := range []store.Tier{store.Minute, store.Quarter} {
					for minute := at; minute.Before(at.Add(15 * time.Minute)); minute = minute.Add(tier.Span()) {
						r := reading(gpu3, minute, watts)
						r.Tier, r.Readings = tier, 12
						r.Values[power].Count = 12
						m.rows = append(m.rows, r)
					}
				}
				want, known = want+watts*900, known+15*time.Minute
			}
			at = at.Add(time.Duration(rapid.IntRange(0, 100).Draw(t, "gap")) * 15 * time.Minute)
		}
		p := newPast(m, over.Add(time.Hour))
		energy := func(from, to time.Time) Energy {
			e, err := p.Energy(t.Context(), store.Query{From: from, To: to})
			if err != nil {
				t.Fatal(err)
			}
			return e[gpu3]
		}
		whole := energy(begins, over)
		if math.Abs(whole.Joules-want) > 1e-6*want || math.Abs(whole.Known-float64(known)/float64(length)) > 1e-9 {
			t.Fatalf("%+v, want %v J of %v", whole, want, known)
		}
		cut := begins.Add(time.Duration(rapid.Int64Range(1, int64(length/time.Second)-1).Draw(t, "cut")) * time.Second)
		if a, b := energy(begins, cut), energy(cut, over); math.Abs(a.Joules+b.Joules-want) > 1e-6*want {
			t.Fatalf("until %v %v J, then %v J, want %v", cut, a.Joules, b.Joules, want)
		}
	})
}
