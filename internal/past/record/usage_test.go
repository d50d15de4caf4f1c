//go:build !race

package record

import (
	"context"
	"log/slog"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/past/history"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/past/store/sqlite"
)

// An hour is one of a simulated machine of eight devices, with a gap, in a database; and what it was.
type hour struct {
	past     *history.Past
	from, to time.Time
	raw      map[store.Key][]store.Row
	looks    map[string][]look // of the devices, by UUID
}

// look is what one look at a device had, since the look before.
type look struct {
	when   time.Time
	passed time.Duration // 0 where it does not follow
	users  map[string]*used
}

// used is what processes of one name used of a device in one look.
type used struct {
	sm, joules float64
	busy       bool
}

// aGap is when nobody looked.
func aGap(offset time.Duration) bool { return offset >= 20*time.Minute && offset < 27*time.Minute }

// withFloors is a Moment in which the idle floor of each device is known: else energy is estimated.
func withFloors(m *insight.Moment) *insight.Moment {
	s := *m.Snapshot
	s.Devices = slices.Clone(s.Devices)
	for i := range s.Devices {
		if d := &s.Devices[i]; !d.IdleFloor.Present() {
			d.IdleFloor = gpu.Of[gpu.Watts](60)
		}
	}
	return insight.New(&s, m.Answer)
}

func anHour(t *testing.T) *hour {
	db, err := sqlite.Open(t.Context(), sqlite.Options{File: filepath.Join(t.TempDir(), "history.db"), Log: slog.New(slog.DiscardHandler), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	r := newRun(t, newFake())
	r.cfg.Store = db
	x := simulate(t, "dgx-h100", start)
	r.cfg.Nodes = []string{x.nodes[0].Node()}
	if err := r.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	h := &hour{from: start, to: start.Add(time.Hour), raw: map[store.Key][]store.Row{}, looks: map[string][]look{}}
	h.past = &history.Past{Store: db, Now: func() time.Time { return h.to }}
	stage := insight.NewStage()
	type process struct {
		pid     int
		started time.Time
	}
	before, last := map[string]map[process]bool{}, time.Time{}
	for since := time.Duration(0); since < time.Hour; since += interval5 {
		if aGap(since) {
			continue
		}
		x.now = start.Add(since)
		m := withFloors(stage.Next(x.read(x.nodes[0])))
		r.Observe(m)
		if since%time.Minute == 0 {
			r.flush()
		}
		when, passed := milliseconds(m.Snapshot.Time), time.Duration(0)
		if since > 0 && when.Sub(last) <= r.longest() {
			passed = when.Sub(last)
		}
		last = when
		for i := range m.Snapshot.Devices {
			d := &m.Snapshot.Devices[i]
			k := store.Key{Node: m.Snapshot.Node, UUID: d.UUID}
			h.raw[k] = append(h.raw[k], rawOf(k, when, d))
			is, seen := map[process]bool{}, look{when, passed, map[string]*used{}}
			for j, p := range d.Processes.Or(nil) {
				id := process{p.PID, p.Facts.Started.Or(time.Time{})}
				is[id] = true
				if m.Attribution[i].Shares[j].Repeated || !before[d.UUID][id] {
					continue
				}
				u := seen.users[p.Facts.User.Or("")]
				if u == nil {
					u = &used{}
					seen.users[p.Facts.User.Or("")] = u
				}
				u.sm += float64(p.SM.Or(0)) / 100 * passed.Seconds()
				for _, share := range [...]gpu.Reading[gpu.Percent]{p.SM, p.Encoder, p.Decoder, p.Video} {
					u.busy = u.busy || share.Or(0) >= gpu.BusyFrom
				}
				u.joules += float64(m.Attribution[i].Shares[j].Power.Or(0)) * passed.Seconds()
			}
			h.looks[d.UUID] = append(h.looks[d.UUID], seen)
			before[d.UUID] = is
		}
	}
	r.flush()
	return h
}

// rawOf is a reading with the resolution in which it is kept.
func rawOf(k store.Key, when time.Time, d *gpu.Device) store.Row {
	out := store.Row{Key: k, Time: when, Readings: 1, Values: make([]store.Value, len(store.DeviceColumns))}
	for i, row := range store.Readings {
		reading := row.Number(d)
		if v, ok := reading.Get(); ok {
			v = math.Round(v*store.DeviceColumns[i].Scale) / store.DeviceColumns[i].Scale
			out.Values[i] = store.Value{Least: v, Mean: v, Most: v, Count: 1, Doubtful: reading.Quality() == gpu.Doubtful}
		}
	}
	return out
}

// What is answered of a simulated machine from a database is what it was: readings of any span, step and tier, and who used what.
func TestAnswersAreTrue(t *testing.T) {
	if testing.Short() {
		t.Skip("fills a database")
	}
	h := anHour(t)
	t.Run("history", func(t *testing.T) { rapid.Check(t, h.checkHistory) })
	t.Run("usage", h.checkUsage)
	t.Run("parts", func(t *testing.T) { rapid.Check(t, h.checkParts) })
	t.Run("energy", h.checkEnergy)
}

func (h *hour) checkHistory(t *rapid.T) {
	p := &history.Past{Store: h.past.Store, Now: h.past.Now}
	if rapid.Bool().Draw(t, "raw is forgotten") {
		p.Keeps = store.Retention{store.Raw: time.Minute}
		if rapid.Bool().Draw(t, "minutes too") {
			p.Keeps[store.Minute] = 2 * time.Minute
		}
	}
	from := h.from.Add(time.Duration(rapid.IntRange(-10*60, 59*60).Draw(t, "from")) * time.Second)
	to := from.Add(time.Duration(rapid.IntRange(1, 75*60).Draw(t, "long")) * time.Second)
	step := time.Duration(rapid.SampledFrom([]int{0, 1, 5, 7, 60, 90, 120, 900, 1800, 3600, 21600, 43200, 86400}).Draw(t, "step")) * time.Second
	var columns []int
	for i, c := range store.DeviceColumns {
		if c.Spans && i != store.ReadSeconds {
			columns = append(columns, i)
		}
	}
	columns = []int{rapid.SampledFrom(columns).Draw(t, "column"), store.DeviceColumns.Find("power_draw")}
	g, err := p.Grid(from, to, step)
	if err != nil {
		t.Fatal(err)
	}
	series, err := p.History(t.Context(), g, nil, false, columns)
	if err != nil {
		t.Fatal(err)
	}
	for k, raw := range h.raw {
		index := slices.IndexFunc(series, func(s history.Series) bool { return s.Key == k })
		for i, column := range columns {
			want := make([]struct {
				store.Value
				sum float64
			}, g.Len())
			end := g.To
			if g.Tier != store.Raw { // rows of spans are asked whole
				span := min(g.Tier, store.Quarter).Span() // six hours that go on after it are asked by quarters of an hour
				end = end.Add(span - 1).Truncate(span)
			}
			for _, r := range raw {
				point := int(r.Time.Sub(g.From) / g.Step)
				v := r.Values[column]
				if r.Time.Before(g.From) || point >= g.Len() || !r.Time.Before(end) || v.Count == 0 || v.Doubtful {
					continue
				}
				w := &want[point]
				if w.Count == 0 {
					w.Least, w.Most = v.Least, v.Most
				}
				w.Least, w.Most, w.Count, w.sum = min(w.Least, v.Least), max(w.Most, v.Most), w.Count+1, w.sum+v.Mean
			}
			for point := range want {
				var got store.Value
				if index >= 0 {
					got = series[index].Values[i][point]
				}
				w := &want[point]
				resolution := 1 / store.DeviceColumns[column].Scale
				if got.Count != w.Count || w.Count > 0 &&
					(got.Least != w.Least || got.Most != w.Most || math.Abs(got.Mean-w.sum/float64(w.Count)) > resolution) {
					t.Fatalf("%s of %v at %v + %v from tier %v: %+v, want %+v", store.DeviceColumns[column].Name, k, g.Time(point), g.Step, g.Tier, got, *w)
				}
			}
		}
	}
}

// truth is what each user had: held seconds, SM-seconds, joules, and busy seconds.
func (h *hour) truth() map[string][4]float64 {
	out := map[string][4]float64{}
	for _, looks := range h.looks {
		for _, l := range looks {
			for user, u := range l.users {
				sums := out[user]
				sums[0], sums[1], sums[2] = sums[0]+l.passed.Seconds(), sums[1]+u.sm, sums[2]+u.joules
				if u.busy {
					sums[3] += l.passed.Seconds()
				}
				out[user] = sums
			}
		}
	}
	return out
}

func (h *hour) usage(t interface{ Fatal(...any) }, grouping history.Grouping, from, to time.Time) []history.Usage {
	list, err := h.past.Usage(context.Background(), grouping, store.Query{From: from, To: to})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func (h *hour) checkUsage(t *testing.T) {
	truth, got := h.truth(), map[string]history.Usage{}
	for _, u := range h.usage(t, history.ByUser, h.from, h.to) {
		got[u.Name] = u
	}
	if len(truth) < 2 || len(got) != len(truth) {
		t.Fatalf("%d users, want %v", len(got), slices.Collect(maps.Keys(truth)))
	}
	for user, want := range truth {
		u := got[user]
		t.Logf("%q held %.0f s (%.0f), worked %.0f s (%.0f), SM %.0f s (%.0f), %.0f J (%.0f)", user, u.Held.Seconds(), want[0], u.Busy.Seconds(), want[3], u.SMSeconds.Or(0), want[1], u.Joules.Or(0), want[2])
		// A session with the gap in it is known to be held for a part of its time, and not which.
		if math.Abs(u.Held.Seconds()-want[0]) > 0.02*want[0] {
			t.Errorf("%q held %v, want %.0f s", user, u.Held, want[0])
		}
		if math.Abs(u.Busy.Seconds()-want[3]) > 0.02*want[0] { // of processes beside each other it is not known when each worked
			t.Errorf("%q worked %v, want %.0f s", user, u.Busy, want[3])
		}
		if math.Abs(u.SMSeconds.Or(0)-want[1]) > 1e-3*(1+want[1]) || math.Abs(u.Joules.Or(0)-want[2]) > 1e-3*(1+want[2]) {
			t.Errorf("%q had %v SM-seconds and %v J, want %v", user, u.SMSeconds, u.Joules, want)
		}
	}
	// By whatever it is summed, all of it is there once.
	var sm, joules float64
	for _, sums := range truth {
		sm, joules = sm+sums[1], joules+sums[2]
	}
	for _, grouping := range []history.Grouping{history.ByUser, history.ByProcess, history.ByJob, history.ByPod} {
		var gotSM, gotJoules float64
		for _, u := range h.usage(t, grouping, h.from, h.to) {
			gotSM, gotJoules = gotSM+u.SMSeconds.Or(0), gotJoules+u.Joules.Or(0)
		}
		if math.Abs(gotSM-sm) > 1e-3*sm || math.Abs(gotJoules-joules) > 1e-3*joules {
			t.Errorf("by %s %.1f SM-seconds of %.1f, %.1f J of %.1f", grouping, gotSM, sm, gotJoules, joules)
		}
	}
}

func (h *hour) checkParts(t *rapid.T) {
	grouping := rapid.SampledFrom(history.Ways).Draw(t, "by")
	cuts := []time.Time{h.from, h.to}
	for range rapid.IntRange(1, 4).Draw(t, "cuts") {
		cuts = append(cuts, h.from.Add(time.Duration(rapid.IntRange(1, 3_599_999).Draw(t, "cut"))*time.Millisecond))
	}
	slices.SortFunc(cuts, time.Time.Compare)
	parts := map[string][4]float64{}
	add := func(list []history.Usage, sign float64) {
		for _, u := range list {
			sums := parts[u.Name+"/"+u.User]
			for i, v := range [...]float64{u.Held.Seconds(), u.Busy.Seconds(), u.SMSeconds.Or(0), u.Joules.Or(0)} {
				sums[i] += sign * v
			}
			parts[u.Name+"/"+u.User] = sums
		}
	}
	for i := range len(cuts) - 1 {
		add(h.usage(t, grouping, cuts[i], cuts[i+1]), 1)
	}
	add(h.usage(t, grouping, h.from, h.to), -1)
	for name, rest := range parts {
		for i, what := range []string{"s held", "s busy", "SM-seconds", "J"} {
			if math.Abs(rest[i]) > 0.01 {
				t.Fatalf("by %s %q: the parts have %v %s more than the whole", grouping, name, rest[i], what)
			}
		}
	}
}

func (h *hour) checkEnergy(t *testing.T) {
	got, err := h.past.Energy(t.Context(), store.Query{From: h.from, To: h.to})
	if err != nil {
		t.Fatal(err)
	}
	power := store.DeviceColumns.Find("power_draw")
	for k, raw := range h.raw {
		var want float64 // each reading stands until the next one
		for i, r := range raw {
			next := h.to
			if i+1 < len(raw) {
				next = raw[i+1].Time
			}
			want += r.Values[power].Mean * min(next.Sub(r.Time), interval5).Seconds()
		}
		// The minutes in which the hour and the gap begin and end count whole.
		var most float64
		for _, r := range raw {
			most = max(most, r.Values[power].Mean)
		}
		e := got[k]
		t.Logf("%s: %.0f J, %+.2f %%", k.UUID, e.Joules, 100*(e.Joules/want-1))
		if math.Abs(e.Joules-want) > 120*most+1e-3*want || want == 0 {
			t.Errorf("%s: %.0f J for %v of the time, want %.0f", k.UUID, e.Joules, e.Known, want)
		}
	}
}
