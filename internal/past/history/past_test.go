package history

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"pgregory.net/rapid"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// memory is a store of lists.
type memory struct {
	store.Store
	rows      []store.Row
	frames    []store.Frame
	sessions  []store.Session
	causes    []store.Cause
	unsettled []store.Bucket
	devices   []store.Device
	err       error
	asked     int // how often Unsettled was
}

func (m *memory) Unsettled(_ context.Context, tier store.Tier, before time.Time) (out []store.Bucket, err error) {
	m.asked++
	for _, b := range m.unsettled {
		if b.Tier == tier && (before.IsZero() || b.Time.Before(before)) {
			out = append(out, b)
		}
	}
	return out, m.err
}

func (m *memory) Devices(context.Context) ([]store.Device, error) { return m.devices, m.err }

func within[T any](list []T, err error, keep func(*T) bool) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for i := range list {
			if keep(&list[i]) && !yield(list[i], nil) {
				return
			}
		}
		if err != nil {
			yield(*new(T), err)
		}
	}
}

func overlaps(q store.Query, from, to time.Time) bool {
	return (q.To.IsZero() || from.Before(q.To)) && (to.After(q.From) || to.Equal(from) && !from.Before(q.From))
}

func asked(q store.Query, k store.Key) bool {
	return len(q.Keys) == 0 && (k.UUID == "") == q.Machines || slices.Contains(q.Keys, k)
}

func (m *memory) Rows(_ context.Context, q store.Query) iter.Seq2[store.Row, error] {
	return within(m.rows, m.err, func(r *store.Row) bool {
		return r.Tier == q.Tier && asked(q, r.Key) && overlaps(q, r.Time, r.Time)
	})
}

func (m *memory) Frames(_ context.Context, q store.Query) iter.Seq2[store.Frame, error] {
	return within(m.frames, m.err, func(f *store.Frame) bool { return f.Node == q.Keys[0].Node && overlaps(q, f.Time, f.Time) })
}

func (m *memory) Sessions(_ context.Context, q store.Query) iter.Seq2[store.Session, error] {
	return within(m.sessions, m.err, func(s *store.Session) bool { return asked(q, s.Key) && overlaps(q, s.From, s.To) })
}

func (m *memory) Causes(_ context.Context, q store.Query) iter.Seq2[store.Cause, error] {
	left := cmp.Or(q.First, math.MaxInt)
	return within(m.causes, m.err, func(c *store.Cause) bool {
		is := asked(q, c.Key) && overlaps(q, c.From, c.To) && (q.Kinds == nil || slices.Contains(q.Kinds, c.Kind)) && c.To.Sub(c.From) >= q.Lasting
		if is {
			left--
		}
		return is && left >= 0
	})
}

var (
	midnight = time.Date(2026, 3, 14, 0, 0, 0, 0, time.UTC)
	gpu3     = store.Key{Node: "a", UUID: "GPU-3"}
	power    = store.DeviceColumns.Find("power_draw")
)

func newPast(m *memory, now time.Time) *Past {
	return &Past{Store: m, Keeps: store.Retention{store.Raw: 48 * time.Hour, store.Minute: 30 * 24 * time.Hour, store.Quarter: 2 * 365 * 24 * time.Hour},
		Now: func() time.Time { return now }}
}

func reading(k store.Key, when time.Time, watts float64) store.Row {
	r := store.Row{Key: k, Time: when, Readings: 1, Values: make([]store.Value, len(store.DeviceColumns)), State: gpu.StateOK}
	r.Values[power] = store.Value{Least: watts, Mean: watts, Most: watts, Count: 1}
	return r
}

// over makes the row of a span of those of the readings within it.
func over(k store.Key, tier store.Tier, when time.Time, raw []store.Row, column int) (out store.Row, some bool) {
	out = store.Row{Key: k, Tier: tier, Time: when, Values: make([]store.Value, len(store.DeviceColumns))}
	var sum float64
	v := store.Value{Least: math.Inf(1), Most: math.Inf(-1)}
	for _, r := range raw {
		if r.Key == k && !r.Time.Before(when) && r.Time.Before(when.Add(tier.Span())) {
			w := r.Values[column].Mean
			v.Least, v.Most, v.Count, sum = min(v.Least, w), max(v.Most, w), v.Count+1, sum+w
		}
	}
	v.Mean = sum / float64(v.Count)
	out.Values[column], out.Readings = v, v.Count
	return out, v.Count > 0
}

// settle makes all rows of tiers.
func (m *memory) settle(column int, tiers ...store.Tier) {
	raw := slices.Clone(m.rows)
	for _, tier := range tiers {
		for at := midnight; at.Before(midnight.Add(24 * time.Hour)); at = at.Add(tier.Span()) {
			if row, some := over(gpu3, tier, at, raw, column); some {
				m.rows = append(m.rows, row)
			}
		}
	}
}

// Any span, step and tier gives what the readings give, also while spans are not made yet.
func TestHistoryIsThatOfTheReadings(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		keys := []store.Key{{Node: "a", UUID: "1"}, {Node: "b", UUID: "1"}}
		m := &memory{}
		for _, k := range keys {
			when := midnight
			gap := rapid.OneOf(rapid.IntRange(1, 400), rapid.IntRange(1, 400), rapid.IntRange(1, 8000))
			for range rapid.IntRange(0, 60).Draw(t, "readings") {
				when = when.Add(time.Duration(gap.Draw(t, "gap")) * time.Second)
				m.rows = append(m.rows, reading(k, when, float64(rapid.IntRange(10, 700).Draw(t, "watts"))))
			}
		}
		raw := slices.Clone(m.rows)
		settled := midnight.Add(time.Duration(rapid.IntRange(0, 40*60).Draw(t, "settled")) * time.Minute)
		for _, k := range keys {
			for _, tier := range store.Tiers[store.Minute:] {
				for at := midnight; at.Before(midnight.Add(48 * time.Hour)); at = at.Add(tier.Span()) {
					row, some := over(k, tier, at, raw, power)
					switch late := !at.Add(tier.Span()).Before(settled); {
					case !some:
					case late:
						m.unsettled = append(m.unsettled, store.Bucket{Key: k, Tier: tier, Time: at})
						if rapid.Bool().Draw(t, "incomplete") {
							row.Values[power].Mean = -1
							m.rows = append(m.rows, row)
						}
					default:
						m.rows = append(m.rows, row)
					}
				}
			}
		}
		p := newPast(m, midnight.Add(48*time.Hour))
		step := time.Duration(rapid.SampledFrom([]int{1, 7, 60, 120, 900, 3600, 5400, 21600, 43200, 86400}).Draw(t, "step")) * time.Second
		from := midnight.Add(time.Duration(rapid.IntRange(0, 24*60).Draw(t, "from")) * time.Minute)
		to := from.Add(time.Duration(rapid.OneOf(rapid.IntRange(1, 5*60), rapid.IntRange(1, 40*60)).Draw(t, "long")) * time.Minute)
		if step < time.Minute {
			to = earliest(to, from.Add(5*time.Hour))
		}
		g, err := p.Grid(from, to, step)
		if err != nil {
			t.Fatal(err)
		}
		end := to // rows of spans are asked whole, but for those of six hours
		if span := min(g.Tier, store.Quarter).Span(); span > 0 {
			end = to.Add(span - 1).Truncate(span)
		}
		series, err := p.History(t.Context(), g, nil, false, []int{power})
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range keys {
			i := slices.IndexFunc(series, func(s Series) bool { return s.Key == k })
			for point := range g.Len() {
				var want, got store.Value
				for _, r := range raw {
					if r.Key == k && !r.Time.Before(g.Time(point)) && r.Time.Before(earliest(g.Time(point).Add(step), end)) {
						want = join(want, r.Values[power])
					}
				}
				if i >= 0 {
					got = series[i].Values[0][point]
				}
				if got.Least != want.Least || got.Most != want.Most || got.Count != want.Count || math.Abs(got.Mean-want.Mean) > 1e-6 {
					t.Fatalf("%v, %v, from tier %v: %+v, want %+v", k, g.Time(point), g.Tier, got, want)
				}
			}
		}
	})
}

func TestGrid(t *testing.T) {
	t.Parallel()
	now := midnight
	for name, tt := range map[string]struct {
		ago, long, step time.Duration
		want            time.Duration
		tier            store.Tier
		err             error
	}{
		"15 minutes":           {15 * time.Minute, 15 * time.Minute, 0, 2 * time.Second, store.Raw, nil},
		"a day":                {24 * time.Hour, 24 * time.Hour, 0, 5 * time.Minute, store.Minute, nil},
		"a week":               {7 * 24 * time.Hour, 7 * 24 * time.Hour, 0, 30 * time.Minute, store.Quarter, nil},
		"a month":              {30 * 24 * time.Hour, 30 * 24 * time.Hour, 0, 2 * time.Hour, store.Quarter, nil},
		"a year":               {365 * 24 * time.Hour, 365 * 24 * time.Hour, 0, 24 * time.Hour, store.SixHours, nil},
		"a step of 6 hours":    {90 * 24 * time.Hour, 90 * 24 * time.Hour, 6 * time.Hour, 6 * time.Hour, store.SixHours, nil},
		"a step of 9 hours":    {90 * 24 * time.Hour, 90 * 24 * time.Hour, 9 * time.Hour, 9 * time.Hour, store.Quarter, nil},
		"an hour of long ago":  {90 * 24 * time.Hour, time.Hour, 0, 15 * time.Minute, store.Quarter, nil},
		"an hour last week":    {7 * 24 * time.Hour, time.Hour, 10 * time.Second, time.Minute, store.Minute, nil},
		"a step of 90 seconds": {time.Hour, time.Hour, 90 * time.Second, 90 * time.Second, store.Raw, nil},
		"much too fine":        {24 * time.Hour, 24 * time.Hour, time.Second, 0, store.Raw, ErrTooFine},
		"a step of a moment":   {time.Hour, time.Hour, time.Nanosecond, 0, store.Raw, ErrTooFine},
		"as long as can be":    {math.MaxInt64, math.MaxInt64, 2562047 * time.Hour, 0, store.Raw, ErrTooLong},
		"much too long a step": {time.Hour, time.Hour, 2562047 * time.Hour, 0, store.Raw, ErrTooLong},
		"a step of 99 years":   {time.Hour, time.Hour, 99 * 8760 * time.Hour, 99 * 8760 * time.Hour, store.SixHours, nil},
	} {
		begin := now.Add(-tt.ago)
		g, err := newPast(&memory{}, now).Grid(begin, begin.Add(tt.long), tt.step)
		if !errors.Is(err, tt.err) || g.Step != tt.want || g.Tier != tt.tier {
			t.Errorf("%s: step %v of tier %v, %v", name, g.Step, g.Tier, err)
		}
		if err == nil && g.Len() < 1 {
			t.Errorf("%s: %d points", name, g.Len())
		}
	}
}

// A span that begins with what is kept has rows of that, also where time passes before the rows are chosen.
func TestAllThatIsKept(t *testing.T) {
	t.Parallel()
	asked := midnight
	p := newPast(&memory{}, asked.Add(3*time.Second))
	for tier, step := range map[store.Tier]time.Duration{store.Raw: 10 * time.Second, store.Minute: 3 * time.Minute} {
		begin := p.Keeps.Cutoff(tier, asked)
		if g, err := p.Grid(begin, begin.Add(time.Hour), step); err != nil || g.Tier != tier || g.Step != step {
			t.Errorf("%v: a step of %v of %v, %v", tier, g.Step, g.Tier, err)
		}
		if finest, err := p.Finest(t.Context(), store.Query{From: begin, To: asked}); err != nil || finest != tier {
			t.Errorf("%v: the finest is %v, %v", tier, finest, err)
		}
	}
}

// However much is asked for, a step that nobody named gives no more than can be answered; a step that somebody named is refused.
func TestMuchAtOnce(t *testing.T) {
	t.Parallel()
	const devices = 400
	m := &memory{}
	for i := range devices {
		m.rows = append(m.rows, reading(keyOf(i), midnight, 100))
	}
	p, columns := newPast(m, midnight.Add(time.Hour)), make([]int, 30)
	for _, span := range []time.Duration{time.Hour, 30 * time.Hour, 400 * 24 * time.Hour, longest} {
		g, err := p.BoundedGrid(midnight.Add(time.Hour-span), midnight.Add(time.Hour), 0, devices*len(columns))
		if err != nil || g.Len()*devices*len(columns) > MostValues {
			t.Errorf("%v: %d points, %v", span, g.Len(), err)
		}
		g.Tier = store.Raw
		if series, err := p.History(t.Context(), g, nil, false, columns); err != nil || len(series) != devices {
			t.Errorf("%v: %d series, %v", span, len(series), err)
		}
	}
	g, err := p.Grid(midnight, midnight.Add(time.Hour), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.History(t.Context(), g, nil, false, columns); !errors.Is(err, ErrTooFine) {
		t.Errorf("%d values: %v", g.Len()*devices*len(columns), err)
	}
}

func session(user, program string, k store.Key, from, to time.Duration, set func(*store.Session)) store.Session {
	s := store.Session{User: user, Program: program, From: midnight.Add(from), To: midnight.Add(to), Outcome: store.Ended}
	s.Key, s.Seen, s.Busy = k, to-from, to-from
	if set != nil {
		set(&s)
	}
	return s
}

func TestUsage(t *testing.T) {
	t.Parallel()
	gpu4 := store.Key{Node: "a", UUID: "GPU-4"}
	m := &memory{sessions: []store.Session{
		session("ann", "train.py", gpu3, 1*time.Hour, 5*time.Hour, func(s *store.Session) {
			s.Busy, s.Joules, s.JoulesKnown, s.SMSeconds, s.SMKnown = 2*time.Hour, 7.2e6, 4*time.Hour, 3600, 4*time.Hour
			s.PeakMemory = gpu.Of[gpu.Bytes](8 << 30)
		}),
		session("ann", "eval.py", gpu3, 4*time.Hour, 6*time.Hour, nil), // one hour beside the other
		session("ann", "train.py", gpu4, 0, 2*time.Hour, nil),
		session("bob", "serve", gpu3, 0, 10*time.Hour, func(s *store.Session) { s.Busy, s.Seen = 0, 8*time.Hour }),
		session("", "x", gpu3, 7*time.Hour, 7*time.Hour, nil), // seen once
	}}
	p := newPast(m, midnight.Add(24*time.Hour))
	got, err := p.Usage(t.Context(), ByUser, store.Query{From: midnight, To: midnight.Add(24 * time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	want := []Usage{
		{Name: "bob", Sessions: 1, Devices: 1, Held: 8 * time.Hour},
		{
			Name: "ann", Sessions: 3, Devices: 2, Held: 7 * time.Hour, Busy: 330 * time.Minute, SMSeconds: gpu.Of(3600.0), Joules: gpu.Of(7.2e6),
			JoulesKnown: 0.5, PeakMemory: gpu.Of[gpu.Bytes](8 << 30),
		},
		{Sessions: 1, Devices: 1},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v\nwant\n%+v", got, want)
	}
	if kwh := got[1].KWh(); kwh != gpu.Of(2.0) {
		t.Errorf("%v kWh", kwh)
	}
	got, err = p.Usage(t.Context(), ByProcess, store.Query{From: midnight.Add(90 * time.Minute), To: midnight.Add(3 * time.Hour)})
	if err != nil || len(got) != 2 || got[0].Name != "train.py" || got[0].Held != 2*time.Hour || got[0].Joules != gpu.Of(2.7e6) || got[1].Name != "serve" {
		t.Errorf("a part of the time: %+v; %v", got, err)
	}
}

// Who asks for one user's part of a device is not given all that it drew.
func TestEnergyOfAUserOnADevice(t *testing.T) {
	t.Parallel()
	m := &memory{sessions: []store.Session{session("ann", "x", gpu3, 0, time.Hour, func(s *store.Session) {
		s.Joules, s.JoulesKnown = 1000, time.Hour
	})}}
	for at := midnight; at.Before(midnight.Add(time.Hour)); at = at.Add(time.Minute) {
		m.rows = append(m.rows, reading(gpu3, at, 100), reading(keyOf(1), at, 100))
	}
	m.rows = minutes(m.rows)
	p := newPast(m, midnight.Add(time.Hour))
	for user, want := range map[string]float64{"": 360_000, "ann": 1000} {
		list, err := p.Usage(t.Context(), ByGPU, store.Query{From: midnight, To: midnight.Add(time.Hour), User: user})
		if err != nil || list[0].Key != gpu3 || list[0].Joules != gpu.Of(want) || (len(list) > 1) != (user == "") {
			t.Errorf("%q: %+v; %v, want %v J", user, list, err, want)
		}
	}
}

func TestEnergy(t *testing.T) {
	t.Parallel()
	m := &memory{}
	for at := time.Duration(0); at < time.Hour; at += 5 * time.Second {
		if at < 20*time.Minute || at >= 30*time.Minute { // a gap
			m.rows = append(m.rows, reading(gpu3, midnight.Add(at), 360))
		}
	}
	m.settle(power, store.Minute)
	p := newPast(m, midnight.Add(2*time.Hour))
	e, err := p.Energy(t.Context(), store.Query{From: midnight.Add(5 * time.Minute), To: midnight.Add(time.Hour)})
	if err != nil || math.Abs(e[gpu3].Joules-360*45*60) > 1 || math.Abs(e[gpu3].Known-45.0/55) > 1e-9 {
		t.Errorf("%+v; %v", e, err)
	}
}

// After a longer retention there are times of which only coarser rows are kept. They are answered from those, beside times with finer
// ones, and a gap stays a gap.
func TestOnlyCoarserRowsAreLeft(t *testing.T) {
	t.Parallel()
	for _, tier := range []store.Tier{store.Minute, store.Quarter} {
		finer := tier - 1
		span, fine := tier.Span(), max(finer.Span(), 5*time.Second)
		whole := &memory{}
		for at := time.Duration(0); at < 8*span; at += 5 * time.Second {
			if at < 2*span || at >= 3*span { // a gap
				whole.rows = append(whole.rows, reading(gpu3, midnight.Add(at), 100*float64(1+at/span)))
			}
		}
		raw := slices.Clone(whole.rows)
		m := &memory{}
		for at := time.Duration(0); at < 8*span; at += span {
			if row, some := over(gpu3, tier, midnight.Add(at), raw, power); some {
				m.rows = append(m.rows, row)
			}
		}
		for at := 5 * span; at < 8*span; at += fine { // before those, none is left
			if row, some := over(gpu3, store.Minute, midnight.Add(at), raw, power); some && finer == store.Minute {
				m.rows = append(m.rows, row)
			}
		}
		if finer == store.Raw {
			m.rows = append(m.rows, slices.DeleteFunc(raw, func(r store.Row) bool { return r.Time.Before(midnight.Add(5 * span)) })...)
		}
		m.devices = []store.Device{{Node: gpu3.Node, UUID: gpu3.UUID}}
		p := newPast(m, midnight.Add(8*span))
		from, to := midnight.Add(span/2), midnight.Add(7*span+span/2)
		g := Grid{from.Truncate(fine), to, fine, finer}
		series, err := p.History(t.Context(), g, nil, false, []int{power})
		if err != nil || len(series) != 1 {
			t.Fatalf("%v: %d series, %v", tier, len(series), err)
		}
		for point, v := range series[0].Values[0] {
			bucket := g.Time(point).Sub(midnight) / span
			want := 100 * float64(1+bucket)
			if bucket == 2 && v.Count > 0 || bucket != 2 && (v.Count == 0 || math.Abs(v.Mean-want) > 1e-9) {
				t.Errorf("%v, %v: %+v, want %v", tier, g.Time(point), v, want)
			}
		}
		finest, err := p.Finest(t.Context(), store.Query{From: from, To: to})
		if err != nil || finest != tier {
			t.Errorf("%v: the finest is %v, %v", tier, finest, err)
		}
		late := store.Query{From: midnight.Add(6 * span), To: to, Keys: []store.Key{gpu3}}
		if finest, err := p.Finest(t.Context(), late); err != nil || finer == store.Raw && finest != store.Raw {
			t.Errorf("%v: later the finest is %v, %v", tier, finest, err)
		}
		e, err := p.Energy(t.Context(), store.Query{From: from, To: to})
		joules := (100*0.5 + 200 + 400 + 500 + 600 + 700 + 800*0.5) * span.Seconds()
		if err != nil || math.Abs(e[gpu3].Joules-joules) > 1 || math.Abs(e[gpu3].Known-6.0/7) > 1e-9 {
			t.Errorf("%v: %+v, want %v J; %v", tier, e, joules, err)
		}
	}
}

// What is still to come is not missing.
func TestEnergyUntilNow(t *testing.T) {
	t.Parallel()
	m := &memory{}
	for at := time.Duration(0); at <= 3*time.Minute+30*time.Second; at += 5 * time.Second {
		m.rows = append(m.rows, reading(gpu3, midnight.Add(at), 360))
	}
	m.settle(power, store.Minute)
	p := newPast(m, midnight.Add(3*time.Minute+30*time.Second))
	for _, end := range []time.Duration{time.Hour, 365 * 24 * time.Hour} {
		e, err := p.Energy(t.Context(), store.Query{From: midnight, To: midnight.Add(end)})
		if err != nil || math.Abs(e[gpu3].Joules-360*210) > 1 || e[gpu3].Known != 1 {
			t.Errorf("%v: %+v; %v", end, e, err)
		}
	}
	if e, err := p.Energy(t.Context(), store.Query{From: midnight.Add(time.Hour), To: midnight.Add(2 * time.Hour)}); err != nil || len(e) > 0 {
		t.Errorf("of a time that is to come: %+v; %v", e, err)
	}
}

func TestWhy(t *testing.T) {
	t.Parallel()
	cause := func(kind explain.Kind, from, to time.Duration) store.Cause {
		return store.Cause{Key: gpu3, From: midnight.Add(from), To: midnight.Add(to), Kind: string(kind)}
	}
	onGPU := func(i int) store.Key { return store.Key{Node: gpu3.Node, UUID: strconv.Itoa(i)} }
	concerning := func(i int, c store.Cause) store.Cause {
		c.Key = onGPU(i)
		return c
	}
	held := func(who string, c store.Cause) store.Cause {
		c.Who = who
		return c
	}
	ran := []store.Cause{
		cause(explain.Work, 130*time.Minute, 200*time.Minute), cause(explain.Work, 202*time.Minute, 340*time.Minute),
		cause(explain.CoolingDown, 340*time.Minute, 344*time.Minute), cause(explain.Idle, 344*time.Minute, 600*time.Minute),
	}
	busy := &memory{causes: ran, sessions: []store.Session{session("mchen", "train.py", gpu3, 130*time.Minute, 340*time.Minute, nil)}}
	for at := time.Duration(0); at < 8*time.Hour; at += 10 * time.Second {
		r := reading(gpu3, midnight.Add(at), 100)
		u := 0.0
		if at >= 130*time.Minute && at < 340*time.Minute {
			u = 96
		}
		r.Values[store.DeviceColumns.Find("utilization_gpu")] = store.Value{Least: u, Mean: u, Most: u, Count: 1}
		busy.rows = append(busy.rows, r)
	}
	busy.settle(store.DeviceColumns.Find("utilization_gpu"), store.Minute, store.Quarter)
	var onThree []store.Session
	for i := range 3 {
		onThree = append(onThree, session("ann", "a.py", onGPU(i), 0, 8*time.Hour, nil))
	}
	for name, tt := range map[string]struct {
		m    *memory
		want string
	}{
		"work":         {busy, "Between 02:10 and 05:40, train.py of mchen ran on GPU 3 at 96 %, then it cooled for 4 min."},
		"nothing kept": {&memory{}, "No data for that time: gpuwhy was not reading then, or no longer keeps it."},
		"idle":         {&memory{causes: []store.Cause{cause(explain.Idle, 0, 8*time.Hour)}}, "No GPU did any work."},
		"lost": {
			&memory{causes: []store.Cause{cause(explain.Lost, 5*time.Hour, 9*time.Hour), cause(explain.Work, time.Hour, 2*time.Hour)}},
			"Between 01:00 and 02:00, something ran on GPU 3; GPU 3 was lost from 05:00 on.",
		},
		"a pause just before its end": {
			&memory{causes: []store.Cause{
				cause(explain.Work, time.Hour, 118*time.Minute), cause(explain.CoolingDown, 118*time.Minute, 119*time.Minute),
				cause(explain.Work, 119*time.Minute, 2*time.Hour-10*time.Second),
			}},
			"Between 01:00 and 01:59, something ran on GPU 3.",
		},
		"two at once": {
			&memory{causes: []store.Cause{cause(explain.Work, 0, 9*time.Hour)}, sessions: []store.Session{
				session("ann", "a.py", gpu3, 0, 8*time.Hour, func(s *store.Session) { s.Busy = time.Hour }), session("bob", "", gpu3, 0, 8*time.Hour, func(s *store.Session) { s.PID = 7 }),
			}},
			"The whole time, process 7 of bob and 1 other ran on GPU 3.",
		},
		"the same work on several, and trouble that comes again": {
			&memory{causes: []store.Cause{
				concerning(0, cause(explain.Work, 0, 2*time.Hour)), concerning(1, cause(explain.Work, time.Minute, 2*time.Hour)), concerning(2, cause(explain.Work, 0, 121*time.Minute)),
				cause(explain.Lost, 3*time.Hour, 190*time.Minute), cause(explain.Lost, 4*time.Hour, 250*time.Minute),
				cause(explain.HeldAwake, 5*time.Hour, 5*time.Hour+20*time.Second),
			}, sessions: []store.Session{
				session("ann", "a.py", onGPU(0), 0, 2*time.Hour, nil), session("ann", "a.py", onGPU(1), 0, 2*time.Hour, nil), session("ann", "a.py", onGPU(2), 0, 2*time.Hour, nil),
			}},
			"Until 02:01, a.py of ann ran on GPUs 0–2; GPU 3 was lost, twice between 03:00 and 04:10, 20 min in all.",
		},
		"work that goes on": {
			&memory{causes: []store.Cause{cause(explain.Work, 3*time.Hour, 9*time.Hour)}, sessions: []store.Session{session("mchen", "train.py", gpu3, 3*time.Hour, 9*time.Hour, nil)}},
			"train.py of mchen ran on GPU 3 from 03:00 on.",
		},
		"several lost at once": {
			&memory{causes: []store.Cause{
				concerning(0, cause(explain.Lost, 3*time.Hour, 9*time.Hour)), concerning(1, cause(explain.Lost, 3*time.Hour+20*time.Second, 9*time.Hour)), concerning(2, cause(explain.Lost, 4*time.Hour, 9*time.Hour)),
			}},
			"GPUs 0 and 1 were lost from 03:00 on; GPU 2 was lost from 04:00 on.",
		},
		"held awake": {
			&memory{causes: []store.Cause{
				held("vllm (bob)", concerning(0, cause(explain.HeldAwake, time.Hour, 2*time.Hour))), held("vllm (bob)", concerning(1, cause(explain.HeldAwake, time.Hour, 2*time.Hour))),
				held("a.py (ann)", concerning(2, cause(explain.HeldAwake, time.Hour, 2*time.Hour))), held("b.py (ann)", concerning(2, cause(explain.HeldAwake, 2*time.Hour, 3*time.Hour))),
			}},
			"Between 01:00 and 02:00, GPUs 0 and 1 were held awake by vllm (bob) without work; between 01:00 and 02:00, GPU 2 was held awake by a.py (ann) without work; " +
				"between 02:00 and 03:00, GPU 2 was held awake by b.py (ann) without work.",
		},
		"held awake, nobody can tell by whom": {
			&memory{causes: []store.Cause{cause(explain.HeldAwake, 0, time.Hour)}}, "Until 01:00, GPU 3 was held awake without work.",
		},
		"somebody's work that goes on": {&memory{causes: []store.Cause{cause(explain.Work, 3*time.Hour, 9*time.Hour)}}, "Something ran on GPU 3 from 03:00 on."},
		"heat that goes on":            {&memory{causes: []store.Cause{cause(explain.LimitedByHeat, 3*time.Hour, 9*time.Hour)}}, "Heat slowed GPU 3 down from 03:00 on."},
		"the same work again": {
			&memory{causes: []store.Cause{
				concerning(0, cause(explain.Work, time.Hour, 2*time.Hour)), concerning(1, cause(explain.Work, 3*time.Hour, 4*time.Hour)), concerning(0, cause(explain.Work, 5*time.Hour, 8*time.Hour)),
			}, sessions: []store.Session{
				session("ann", "a.py", onGPU(0), 0, 8*time.Hour, nil), session("ann", "a.py", onGPU(1), 0, 8*time.Hour, nil),
			}},
			"a.py of ann ran on GPUs 0 and 1, 3 times since 01:00, 5 h in all.",
		},
		"some go on, and one has cooled": {
			&memory{causes: []store.Cause{
				concerning(0, cause(explain.Work, 3*time.Hour, 9*time.Hour)), concerning(1, cause(explain.Work, 3*time.Hour, 9*time.Hour)), concerning(2, cause(explain.Work, 3*time.Hour, 7*time.Hour+55*time.Minute)),
				concerning(2, cause(explain.CoolingDown, 7*time.Hour+55*time.Minute, 7*time.Hour+58*time.Minute)),
			}, sessions: onThree},
			"a.py of ann ran on GPUs 0–2 from 03:00 on, GPU 2 only between 03:00 and 07:55.",
		},
		"some are at work for less time": {
			&memory{causes: []store.Cause{
				concerning(0, cause(explain.Work, time.Hour, 6*time.Hour)), concerning(1, cause(explain.Work, 2*time.Hour, 6*time.Hour)), concerning(2, cause(explain.Work, time.Hour, 4*time.Hour)),
				concerning(0, cause(explain.CoolingDown, 6*time.Hour, 6*time.Hour+4*time.Minute)),
			}, sessions: onThree},
			"Between 01:00 and 06:00, a.py of ann ran on GPUs 0–2, not all of them all the time.",
		},
		"all have cooled": {
			&memory{causes: []store.Cause{
				concerning(0, cause(explain.Work, time.Hour, 2*time.Hour)), concerning(1, cause(explain.Work, time.Hour, 2*time.Hour)),
				concerning(0, cause(explain.CoolingDown, 2*time.Hour, 124*time.Minute)), concerning(1, cause(explain.CoolingDown, 2*time.Hour, 126*time.Minute)),
			}, sessions: onThree},
			"Between 01:00 and 02:00, a.py of ann ran on GPUs 0 and 1, then they cooled for up to 6 min.",
		},
		"one of them did not cool": {
			&memory{causes: []store.Cause{
				concerning(0, cause(explain.Work, time.Hour, 2*time.Hour)), concerning(1, cause(explain.Work, time.Hour, 2*time.Hour)), concerning(0, cause(explain.CoolingDown, 2*time.Hour, 124*time.Minute)),
			}, sessions: onThree},
			"Between 01:00 and 02:00, a.py of ann ran on GPUs 0 and 1.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := store.Query{From: midnight, To: midnight.Add(8 * time.Hour)}
			s, err := newPast(tt.m, midnight.Add(9*time.Hour)).Why(t.Context(), q, func(k store.Key) string {
				if k == gpu3 {
					return "GPU 3"
				}
				return "GPU " + k.UUID
			})
			if err != nil || s.Sentence != tt.want {
				t.Errorf("%s\nwant\n%s\n%v", s.Sentence, tt.want, err)
			}
			for _, c := range s.Chapters {
				if named := c.Who != "" && strings.HasPrefix(s.Tell(&c), c.Who+" ran "); !named && !unicode.IsUpper(rune(s.Tell(&c)[0])) {
					t.Errorf("a chapter begins in lower case: %s", s.Tell(&c))
				}
			}
		})
	}
}

// No sentence runs backwards: of an hour that comes twice it says which, and of a night that ends near the time at which it began the day.
func TestSentencesOfTwoHours(t *testing.T) {
	t.Parallel()
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	twice := time.Date(2026, 10, 25, 0, 0, 0, 0, time.UTC) // 02:00 CEST
	again := func(times ...time.Duration) (out []store.Cause) {
		for _, offset := range times {
			out = append(out, store.Cause{Key: gpu3, From: twice.Add(offset), To: twice.Add(offset + 10*time.Minute), Kind: string(explain.Lost)})
		}
		return out
	}
	for want, causes := range map[string][]store.Cause{
		"Between 02:30 CEST and 02:10 CET, GPU 3 was lost.": {
			{Key: gpu3, From: twice.Add(30 * time.Minute), To: twice.Add(70 * time.Minute), Kind: string(explain.Lost)},
		},
		"Between 02:30 CEST and 02:30 CET, GPU 3 was lost.": {
			{Key: gpu3, From: twice.Add(30 * time.Minute), To: twice.Add(90 * time.Minute), Kind: string(explain.Lost)},
		},
		"GPU 3 was lost, twice between 02:40 CEST and 02:15 CET, 20 min in all.": again(40*time.Minute, 65*time.Minute),
		"Between 07:24 and Sun 05:32, GPU 3 was lost.": {
			{Key: gpu3, From: twice.Add(-19*time.Hour + 24*time.Minute), To: twice.Add(4*time.Hour + 32*time.Minute), Kind: string(explain.Lost)},
		},
	} {
		q := store.Query{From: twice.Add(-19 * time.Hour).In(zone), To: twice.Add(5 * time.Hour).In(zone)}
		s, err := newPast(&memory{causes: causes}, twice.Add(48*time.Hour)).Why(t.Context(), q, func(store.Key) string { return "GPU 3" })
		if err != nil || s.Sentence != want {
			t.Errorf("%s\nwant\n%s\n%v", s.Sentence, want, err)
		}
	}
}

// A sentence about more than a year says of which year its times are.
func TestSentencesOfTwoYears(t *testing.T) {
	t.Parallel()
	m := &memory{causes: []store.Cause{{Key: gpu3, From: midnight.Add(-300 * 24 * time.Hour), To: midnight.Add(-299 * 24 * time.Hour), Kind: string(explain.Lost)}}}
	q := store.Query{From: midnight.Add(-400 * 24 * time.Hour), To: midnight}
	s, err := newPast(m, midnight).Why(t.Context(), q, func(store.Key) string { return "GPU 3" })
	if err != nil || s.Sentence != "Between Sun 18 May 2025 00:00 and Mon 19 May 2025 00:00, GPU 3 was lost." {
		t.Errorf("%s, %v", s.Sentence, err)
	}
}

// asking counts the rows that it yields.
type asking struct {
	*memory
	rows int
}

func (a *asking) Rows(ctx context.Context, q store.Query) iter.Seq2[store.Row, error] {
	return func(yield func(store.Row, error) bool) {
		for r, err := range a.memory.Rows(ctx, q) {
			if a.rows++; !yield(r, err) {
				return
			}
		}
	}
}

// What went on has the same utilization however long a span is asked about, also of the time in which the device did not work, and few
// rows are read for it.
func TestUtilizationIsThatOfTheChapter(t *testing.T) {
	t.Parallel()
	column := store.DeviceColumns.Find("utilization_gpu")
	now := midnight.Add(40 * 24 * time.Hour)
	for name, tt := range map[string]struct {
		ago, long time.Duration // when it began, before now
		kind      explain.Kind
		rows      int // at most
		want      gpu.Reading[gpu.Percent]
	}{
		"a minute of work":                   {20 * time.Minute, time.Minute, explain.Work, 40, gpu.Of[gpu.Percent](93)},
		"three minutes of work":              {20 * time.Minute, 3 * time.Minute, explain.Work, 80, gpu.Of[gpu.Percent](93)},
		"half an hour of work":               {45 * time.Minute, 30 * time.Minute, explain.Work, 80, gpu.Of[gpu.Percent](93)},
		"work that goes on":                  {12 * time.Minute, 12 * time.Minute, explain.Work, 80, gpu.Of[gpu.Percent](93)},
		"hours of work":                      {10*time.Hour + 7*time.Minute, 3 * time.Hour, explain.Work, 80, gpu.Of[gpu.Percent](93)},
		"days of work":                       {9*24*time.Hour + 7*time.Minute, 5 * 24 * time.Hour, explain.Work, 80, gpu.Of[gpu.Percent](93)},
		"held awake":                         {3 * time.Hour, 30 * time.Minute, explain.HeldAwake, 80, gpu.Of[gpu.Percent](93)},
		"minutes of work, three days ago":    {3 * 24 * time.Hour, 3 * time.Minute, explain.Work, 80, gpu.Of[gpu.Percent](93)},
		"half an hour, 35 days ago":          {35*24*time.Hour + 4*time.Minute, 35 * time.Minute, explain.Work, 80, gpu.Of[gpu.Percent](93)},
		"ten minutes, of which none is left": {35*24*time.Hour + 4*time.Minute, 10 * time.Minute, explain.Work, 80, gpu.Reading[gpu.Percent]{}},
	} {
		begin := now.Add(-tt.ago)
		c := store.Cause{Key: gpu3, From: begin, To: begin.Add(tt.long), Kind: string(tt.kind)}
		m := &memory{causes: []store.Cause{c}}
		row := func(tier store.Tier, when time.Time, u float64, readings int) {
			r := store.Row{Key: gpu3, Tier: tier, Time: when, Readings: readings, Values: make([]store.Value, len(store.DeviceColumns))}
			r.Values[column] = store.Value{Least: u, Mean: u, Most: u, Count: readings}
			m.rows = append(m.rows, r)
		}
		for tier, kept := range map[store.Tier]time.Duration{store.Raw: 48 * time.Hour, store.Minute: 30 * 24 * time.Hour, store.Quarter: 40 * 24 * time.Hour, store.SixHours: 40 * 24 * time.Hour} {
			span := max(tier.Span(), 5*time.Second)
			for at := now.Add(-kept); at.Before(now); at = at.Add(span) {
				within := earliest(at.Add(span), c.To).Sub(latest(at, c.From)) // of a row, how much of it was that work
				row(tier, at, 93*max(0, within.Seconds())/span.Seconds(), int(span/(5*time.Second)))
			}
		}
		for _, before := range []time.Duration{0, time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour, 365 * 24 * time.Hour} {
			a := &asking{memory: m}
			p := newPast(m, now)
			p.Store = a
			s, err := p.Why(t.Context(), store.Query{From: begin.Add(-before), To: now}, Names(nil))
			if err != nil || len(s.Chapters) != 1 {
				t.Fatalf("%s: %+v, %v", name, s, err)
			}
			if got := s.Chapters[0].Utilization; math.Abs(float64(got.Or(0)-tt.want.Or(0))) > 1e-6 || got.Present() != tt.want.Present() {
				t.Errorf("%s, asked since %v before it: %v, want %v", name, before, got, tt.want)
			}
			if a.rows > tt.rows {
				t.Errorf("%s, asked since %v before it: %d rows are read", name, before, a.rows)
			}
		}
	}
}

// The machine as it was has the answer that was given then.
func TestAt(t *testing.T) {
	t.Parallel()
	m := &memory{}
	stage := insight.NewStage()
	var said []string
	for i := range 60 {
		snap := &gpu.Snapshot{Seq: uint64(i), Time: midnight.Add(time.Duration(i) * 5 * time.Second), Node: "a", Source: gpu.SourceNVML}
		d := gpu.Device{Identity: gpu.Identity{UUID: "GPU-3", Node: "a", Index: 3, Name: "RTX 4090", Vendor: gpu.NVIDIA, Source: gpu.SourceNVML}, State: gpu.StateOK, SampledAt: snap.Time}
		d.Utilization.GPU, d.Thermal.GPU, d.Power.Draw = gpu.Of[gpu.Percent](0), gpu.Of[gpu.Celsius](40), gpu.Of[gpu.Watts](20)
		if i < 30 {
			d.Utilization.GPU, d.Thermal.GPU, d.Power.Draw = gpu.Of[gpu.Percent](97), gpu.Of[gpu.Celsius](74), gpu.Of[gpu.Watts](400)
		}
		snap.Devices = []gpu.Device{d}
		made := stage.Next(snap)
		record, err := gpu.MarshalRecord(made.Snapshot)
		if err != nil {
			t.Fatal(err)
		}
		m.frames = append(m.frames, store.Frame{Node: "a", Time: snap.Time, Snapshot: record})
		said = append(said, made.Answer.Headline+" "+made.Answer.Sentence)
	}
	p := newPast(m, midnight.Add(time.Hour))
	for i, want := range said {
		made, err := p.Moment(t.Context(), "a", midnight.Add(time.Duration(i)*5*time.Second+time.Second), insight.NewStage())
		if err != nil {
			t.Fatal(err)
		}
		if got := made.Answer.Headline + " " + made.Answer.Sentence; got != want {
			t.Errorf("at %d s: %s\nwant %s", i*5, got, want)
		}
	}
	if _, err := p.Moment(t.Context(), "b", midnight, insight.NewStage()); !errors.Is(err, ErrNotSeen) {
		t.Errorf("of another node: %v", err)
	}
	m.frames[3].Snapshot = []byte("{")
	if _, err := p.Moment(t.Context(), "a", midnight.Add(time.Minute), insight.NewStage()); err == nil {
		t.Error("a damaged snapshot is no error")
	}
}

// Where gpuwhy did not look, the machine is not shown as it was before. How often it looked then, the snapshots say; one alone is as
// old as the interval of now lets it be.
func TestAtOfAGap(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		every, usual time.Duration
		seldom       time.Duration
		looks        int
		known, gone  time.Duration // since the newest
	}{
		"each 5 s":                      {5 * time.Second, 5 * time.Second, 0, 60, 29 * time.Second, 31 * time.Second},
		"each 5 s, and now each 20 min": {5 * time.Second, 20 * time.Minute, 0, 60, 29 * time.Second, 31 * time.Second},
		"each 2 minutes":                {2 * time.Minute, 5 * time.Second, 0, 60, 5 * time.Minute, 6 * time.Minute},
		"each half hour":                {30 * time.Minute, 30 * time.Minute, 0, 3, 74 * time.Minute, 76 * time.Minute},
		"each hour":                     {time.Hour, time.Hour, 0, 3, 149 * time.Minute, 151 * time.Minute},
		"each 5 s while somebody looks": {5 * time.Second, time.Minute, time.Minute, 60, 149 * time.Second, 151 * time.Second},
		"one alone":                     {time.Hour, time.Minute, 0, 1, 149 * time.Second, 151 * time.Second},
	} {
		m, newest := &memory{}, midnight.Add(time.Duration(tt.looks-1)*tt.every)
		for at := midnight; !at.After(newest); at = at.Add(tt.every) {
			record, err := gpu.MarshalRecord(&gpu.Snapshot{Time: at, Node: "a", Source: gpu.SourceNVML})
			if err != nil {
				t.Fatal(err)
			}
			m.frames = append(m.frames, store.Frame{Node: "a", Time: at, Snapshot: record})
		}
		p := newPast(m, newest.Add(24*time.Hour))
		p.Interval, p.Seldom = tt.usual, tt.seldom
		if made, err := p.Moment(t.Context(), "a", newest.Add(tt.known), insight.NewStage()); err != nil || !made.Snapshot.Time.Equal(newest) {
			t.Errorf("%s: after %v: %v", name, tt.known, err)
		}
		_, err := p.Moment(t.Context(), "a", newest.Add(tt.gone), insight.NewStage())
		gap, told := errors.AsType[*NotSeenError](err)
		if !errors.Is(err, ErrNotSeen) || told != (tt.gone < max(before, lasts(tt.usual))) || told && !gap.Before.Equal(newest) {
			t.Errorf("%s: after %v: %v", name, tt.gone, err)
		}
	}
}

// What a gpuwhy that was killed has left open does not go on for ever, and lasts for as long as it looked.
func TestWhatIsLeftOpen(t *testing.T) {
	t.Parallel()
	told := midnight.Add(time.Hour) // of the cause last
	m := &memory{
		devices:  []store.Device{{Node: gpu3.Node, UUID: gpu3.UUID, Last: told.Add(50 * time.Second)}},
		causes:   []store.Cause{{Key: gpu3, ID: "work", Kind: "work", From: midnight, To: told, Open: true}},
		sessions: []store.Session{{SessionKey: store.SessionKey{Key: gpu3, PID: 1}, From: midnight, To: told.Add(50 * time.Second), Outcome: store.Open}},
	}
	span := func(from, to time.Duration) store.Query {
		return store.Query{From: midnight.Add(from), To: midnight.Add(to)}
	}
	for name, tt := range map[string]struct {
		since    time.Duration // since it was told
		interval time.Duration
		q        store.Query
		causes   int
		end      time.Duration // of the cause, since midnight
		open     bool
	}{
		"it goes on":                  {time.Minute, 0, span(0, 2*time.Hour), 1, time.Hour + time.Minute, true},
		"in the last seconds":         {time.Minute, 0, span(time.Hour+55*time.Second, 2*time.Hour), 1, time.Hour + time.Minute, true},
		"gpuwhy was killed":           {time.Hour, 0, span(0, 2*time.Hour), 1, time.Hour + 50*time.Second, false},
		"between its last words":      {time.Hour, 0, span(time.Hour+10*time.Second, 2*time.Hour), 1, time.Hour + 50*time.Second, false},
		"after that":                  {time.Hour, 0, span(time.Hour+51*time.Second, 2*time.Hour), 0, 0, false},
		"it looks each quarter":       {10 * time.Minute, 15 * time.Minute, span(0, 2*time.Hour), 1, time.Hour + 10*time.Minute, true},
		"only what goes on":           {time.Minute, 0, store.Query{Open: true}, 1, time.Hour + time.Minute, true},
		"only what goes on, if it is": {time.Hour, 0, store.Query{Open: true}, 0, 0, false},
	} {
		p := newPast(m, told.Add(tt.since))
		p.Interval = tt.interval
		causes := 0
		for c, err := range p.Causes(t.Context(), tt.q) {
			if causes++; err != nil || c.Open != tt.open || !c.To.Equal(midnight.Add(tt.end)) {
				t.Errorf("%s: %+v, %v", name, c, err)
			}
		}
		if causes != tt.causes {
			t.Errorf("%s: %d causes", name, causes)
		}
		sessions := 0
		for s, err := range p.Sessions(t.Context(), tt.q) {
			if sessions++; err != nil || (s.Outcome == store.Open) != tt.open || !tt.open && s.Outcome != store.Unseen {
				t.Errorf("%s: %+v, %v", name, s, err)
			}
		}
		if tt.q.Open && sessions != tt.causes {
			t.Errorf("%s: %d sessions", name, sessions)
		}
	}
}

// What the database says is passed on.
func TestErrors(t *testing.T) {
	t.Parallel()
	m := &memory{err: store.ErrGone}
	p := newPast(m, midnight)
	q := store.Query{From: midnight.Add(-24 * time.Hour), To: midnight}
	_, a := p.Usage(t.Context(), ByUser, q)
	_, b := p.Why(t.Context(), q, func(store.Key) string { return "" })
	_, c := p.Energy(t.Context(), q)
	_, d := p.Moment(t.Context(), "a", midnight, insight.NewStage())
	_, e := ParseGrouping("moon")
	for i, err := range []error{a, b, c, d} {
		if !errors.Is(err, store.ErrGone) {
			t.Errorf("%d: %v", i, err)
		}
	}
	if grouping, err := ParseGrouping("User"); e == nil || err != nil || grouping != ByUser {
		t.Errorf("%v, %v, %v", e, grouping, err)
	}
}

// What a user had on each day adds up to what the user had in all, and is on the day on which it was.
func TestDailyAddsUp(t *testing.T) {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	var days []time.Time // with that on which clocks change, which has 23 hours
	for day := range 5 {
		days = append(days, time.Date(2026, 3, 27+day, 0, 0, 0, 0, zone))
	}
	m := &memory{}
	session := func(user string, pid int, begin time.Time, length time.Duration) {
		s := store.Session{User: user, From: begin, To: begin.Add(length), Seen: length, Busy: length / 2}
		s.Key, s.PID = store.Key{Node: "n", UUID: "GPU-1"}, pid
		m.sessions = append(m.sessions, s)
	}
	session("mchen", 1, days[1].Add(20*time.Hour), 30*time.Hour) // over three days
	session("mchen", 2, days[3], time.Hour)                      // at the same time, on the same device
	session("mchen", 4, days[3].Add(9*time.Hour), time.Hour)
	session("ann", 3, days[2].Add(-time.Hour), time.Hour) // ends with one
	p := &Past{Store: m, Now: func() time.Time { return days[4] }}
	q := store.Query{From: days[0], To: days[4]}
	daily, err := p.Daily(t.Context(), ByUser, q, days)
	if err != nil {
		t.Fatal(err)
	}
	held := map[string][]time.Duration{"mchen": make([]time.Duration, 4), "ann": make([]time.Duration, 4)}
	for day, list := range daily {
		for _, u := range list {
			held[u.Name][day] += u.Held.Round(time.Second)
		}
	}
	if want := []time.Duration{0, 4 * time.Hour, 23 * time.Hour, 3*time.Hour + time.Hour}; !slices.Equal(held["mchen"], want) {
		t.Errorf("mchen had %v, want %v", held["mchen"], want)
	}
	if want := []time.Duration{0, time.Hour, 0, 0}; !slices.Equal(held["ann"], want) {
		t.Errorf("ann had %v, want %v", held["ann"], want)
	}
	m.err = errors.New("gone")
	if _, err := p.Daily(t.Context(), ByUser, q, days); err == nil {
		t.Error("an error is not returned")
	}
}
