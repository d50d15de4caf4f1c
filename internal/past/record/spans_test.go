package record

import (
	"context"
	"log/slog"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

const interval5 = 5 * time.Second

var start = time.Date(2026, 5, 4, 11, 58, 17, 0, time.UTC)

// A run is a gpuwhy that runs and writes when it is told.
type run struct {
	*writer
	t    testing.TB
	fake *fakeStore
}

func newRun(t testing.TB, fake *fakeStore) *run {
	retention, err := ParseRetention(DefaultRetention)
	if err != nil {
		t.Fatal(err)
	}
	return &run{&writer{Recorder: New(Config{
		Store: fake.store(), Nodes: []string{"box"}, Interval: interval5, Retention: retention, Version: "1.2.3", Log: slog.New(slog.DiscardHandler),
	})}, t, fake}
}

// flush writes all that waits.
func (r *run) flush() {
	if err := r.writeAll(context.Background()); err != nil {
		r.t.Fatal(err)
	}
}

func snapshot(when time.Time, devices ...gpu.Device) *gpu.Snapshot {
	s := &gpu.Snapshot{Time: when, Node: "box", Source: gpu.SourceNVML, Devices: devices}
	for i := range s.Devices {
		d := &s.Devices[i]
		d.Node, d.Index, d.Name, d.Source = "box", i, "Card", gpu.SourceNVML
		if d.State == "" {
			d.State, d.SampledAt = gpu.StateOK, when
		}
	}
	return s
}

func card(uuid string) gpu.Device { return gpu.Device{Identity: gpu.Identity{UUID: uuid}} }

func (r *run) observe(s *gpu.Snapshot) { r.Observe(insight.Of(s)) }

// rows are those of a tier, by device and time.
func (f *fakeStore) rowsOf(tier store.Tier) (out []store.Row) {
	for _, r := range f.rows {
		if r.Tier == tier {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b store.Row) int {
		if a.UUID != b.UUID {
			return len(a.UUID) - len(b.UUID)
		}
		return a.Time.Compare(b.Time)
	})
	return out
}

func TestReadingsAsTheyAreKept(t *testing.T) {
	fake := newFake()
	r := newRun(t, fake)
	d := card("GPU-1")
	d.Power.Draw = gpu.Of[gpu.Watts](123.4567)
	d.Thermal.GPU = gpu.DoubtfulOf[gpu.Celsius](255)
	d.Utilization.GPU = gpu.Absent[gpu.Percent](gpu.NotPermitted)
	d.Memory.Used = gpu.Of[gpu.Bytes](0)
	d.Health.CorrectedAggregate = gpu.Of[uint64](math.MaxUint64)
	s := snapshot(start.Add(1234567*time.Nanosecond), d)
	s.Host = &gpu.Host{Hostname: "box", CPU: gpu.Of[gpu.Percent](12.3456), Boot: "b"}
	r.observe(s)
	again := snapshot(start.Add(interval5), d) // a slow device has its last readings once more
	again.Devices[0].SampledAt = s.Devices[0].SampledAt
	r.observe(again)
	lost := card("GPU-1")
	lost.State = gpu.StateLost
	r.observe(snapshot(start.Add(2*interval5), lost))
	r.flush()

	rows := fake.rowsOf(store.Raw)
	if len(rows) != 3 {
		t.Fatalf("%d rows: %+v", len(rows), rows)
	}
	machine, device, gone := rows[0], rows[1], rows[2]
	one := func(v float64) store.Value { return store.Value{Least: v, Mean: v, Most: v, Count: 1} }
	doubtful := one(255)
	doubtful.Doubtful = true
	for name, want := range map[string]store.Value{
		"power_draw": one(123.457), "thermal_gpu": doubtful, "utilization_gpu": {}, "memory_used": one(0), "health_corrected_aggregate": {},
	} {
		i := store.DeviceColumns.Find(name)
		if i < 0 {
			t.Fatalf("there is no column %s", name)
		}
		if got := device.Values[i]; got != want {
			t.Errorf("%s is kept as %+v, want %+v", name, got, want)
		}
	}
	if !device.Time.Equal(start.Add(time.Millisecond)) || device.State != gpu.StateOK || device.Readings != 1 {
		t.Errorf("the row is %+v", device)
	}
	if got := machine.Values[store.MachineColumns.Find("cpu_percent")]; machine.UUID != "" || got != one(12.346) {
		t.Errorf("the machine's row is %+v", machine)
	}
	if gone.State != gpu.StateLost || slices.ContainsFunc(gone.Values, func(v store.Value) bool { return v.Count > 0 }) {
		t.Errorf("a lost device has %+v", gone)
	}
	want := map[store.Key]store.Device{
		{Node: "box"}:                {Node: "box", Name: "box", Kind: gpu.Live},
		{Node: "box", UUID: "GPU-1"}: {Node: "box", UUID: "GPU-1", Name: "Card", Kind: gpu.Live},
	}
	for k, d := range fake.devices {
		d.First, d.Last = time.Time{}, time.Time{}
		if d != want[k] {
			t.Errorf("device %+v, want %+v", d, want[k])
		}
	}
}

func TestFramesComeNotTooOften(t *testing.T) {
	for interval, want := range map[time.Duration]int{time.Second: 12, 2 * time.Second: 10, 5 * time.Second: 12, 20 * time.Second: 3} {
		fake := newFake()
		r := newRun(t, fake)
		for at := time.Duration(0); at < time.Minute; at += interval {
			r.observe(snapshot(start.Add(at+time.Duration(at.Seconds())%3*time.Millisecond), card("GPU-1")))
		}
		r.flush()
		if len(fake.frames) != want {
			t.Errorf("at %v: %d snapshots in a minute, want %d", interval, len(fake.frames), want)
		}
		for _, f := range fake.frames {
			if s, err := gpu.UnmarshalRecord(f.Snapshot); err != nil || !milliseconds(s.Time).Equal(f.Time) {
				t.Fatalf("snapshot of %v: %v, %v", f.Time, s, err)
			}
		}
	}
}

// recomputed is the row of a span, made of all readings of it in the plainest way.
func recomputed(raw []store.Row, key store.Key, tier store.Tier, begin time.Time) store.Row {
	columns := store.DeviceColumns
	if key.UUID == "" {
		columns = store.MachineColumns
	}
	if tier == store.SixHours {
		return recomputedOfQuarters(raw, key, columns, begin)
	}
	out := store.Row{Key: key, Tier: tier, Time: begin, Values: make([]store.Value, len(columns))}
	for i := range columns {
		var values []float64
		out.Readings = 0
		for _, r := range raw {
			if r.Key != key || r.Time.Before(begin) || !r.Time.Before(begin.Add(tier.Span())) {
				continue
			}
			out.Readings++
			out.State = r.State
			if v := r.Values[i]; v.Count > 0 && !v.Doubtful && columns[i].Spans {
				values = append(values, v.Mean)
			}
		}
		if len(values) == 0 {
			continue
		}
		sum := 0.0
		for _, v := range values {
			sum += math.Round(v * columns[i].Scale)
		}
		mean := math.Round(sum/float64(len(values))) / columns[i].Scale
		out.Values[i] = store.Value{Least: slices.Min(values), Mean: mean, Most: slices.Max(values), Count: len(values)}
	}
	return out
}

// recomputedOfQuarters is that of six hours, made of what is recomputed of each quarter of an hour.
func recomputedOfQuarters(raw []store.Row, key store.Key, columns store.Columns, begin time.Time) store.Row {
	out := store.Row{Key: key, Tier: store.SixHours, Time: begin, Values: make([]store.Value, len(columns))}
	sums := make([]float64, len(columns))
	for at := begin; at.Before(begin.Add(6 * time.Hour)); at = at.Add(15 * time.Minute) {
		if !slices.ContainsFunc(raw, func(r store.Row) bool { return r.Key == key && r.Time.Truncate(15*time.Minute).Equal(at) }) {
			continue
		}
		quarter := recomputed(raw, key, store.Quarter, at)
		out.Readings, out.State = out.Readings+quarter.Readings, quarter.State
		for i, v := range quarter.Values {
			switch sum := &out.Values[i]; {
			case v.Count == 0:
				continue
			case sum.Count == 0:
				*sum = v
			default:
				*sum = store.Value{Least: min(sum.Least, v.Least), Most: max(sum.Most, v.Most), Count: sum.Count + v.Count}
			}
			sums[i] += math.Round(v.Mean*columns[i].Scale) * float64(v.Count)
		}
	}
	for i := range out.Values {
		if v := &out.Values[i]; v.Count > 0 {
			v.Mean = math.Round(sums[i]/float64(v.Count)) / columns[i].Scale
		}
	}
	return out
}

// A step is a reading, and what happened before it.
type step struct {
	Passed   time.Duration
	Restart  bool // before the reading
	Flush    bool // after it
	Devices  int
	Watts    float64
	Doubtful bool
	Absent   bool
}

func steps(t *rapid.T) []step {
	second := func(least, most int) *rapid.Generator[time.Duration] {
		return rapid.Map(rapid.IntRange(least*1000, most*1000), func(ms int) time.Duration { return time.Duration(ms) * time.Millisecond })
	}
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		passed := rapid.OneOf(rapid.Just(interval5), rapid.Just(interval5), rapid.Just(-interval5), second(1, 12), second(60, 1900), second(-1900, -1)).Draw(t, "passed")
		return step{
			Passed: passed, Restart: rapid.IntRange(0, 9).Draw(t, "restart") == 0, Flush: rapid.IntRange(0, 2).Draw(t, "flush") == 0,
			Devices: rapid.IntRange(0, 2).Draw(t, "devices"), Watts: float64(rapid.IntRange(0, 500_000).Draw(t, "mW")) / 1000,
			Doubtful: rapid.IntRange(0, 9).Draw(t, "doubtful") == 0, Absent: rapid.IntRange(0, 9).Draw(t, "absent") == 0,
		}
	}), 1, 150).Draw(t, "steps")
}

// play plays steps, with restarts or without, and returns what the store has seven hours later.
func play(t testing.TB, all []step, restarts bool) *fakeStore {
	return playInto(t, newFake(), all, restarts)
}

func playInto(t testing.TB, fake *fakeStore, all []step, restarts bool) *fakeStore {
	r := newRun(t, fake)
	when, latest, breaks := start, start, 0
	var set time.Duration
	for number, s := range all {
		when = when.Add(s.Passed)
		if when.After(latest) {
			latest = when
		}
		if s.Passed < 0 {
			breaks++
			set += s.Passed
		}
		if s.Restart && restarts {
			r.flush()
			r, breaks, set = newRun(t, fake), 0, 0
		}
		var devices []gpu.Device
		for i := range s.Devices {
			d := card([]string{"GPU-1", "GPU-22"}[i])
			d.Power.Draw = gpu.Of(gpu.Watts(s.Watts))
			if s.Doubtful {
				d.Power.Draw = gpu.DoubtfulOf(gpu.Watts(s.Watts))
			}
			if !s.Absent {
				d.Thermal.GPU = gpu.Of(gpu.Celsius(s.Watts / 7))
			}
			devices = append(devices, d)
		}
		snap := snapshot(when, devices...)
		for i := range snap.Devices { // each is a reading of its own, also at a time that was before
			snap.Devices[i].SampledAt = when.Add(time.Duration(number))
		}
		snap.Breaks, snap.ClockSet = breaks, set
		snap.Host = &gpu.Host{CPU: gpu.Of(gpu.Percent(s.Watts / 5))}
		r.observe(snap)
		if s.Flush {
			r.flush()
		}
	}
	last := snapshot(latest.Add(7 * time.Hour)) // all spans of before are over
	last.Breaks, last.ClockSet = breaks, set
	r.observe(last)
	r.flush()
	return fake
}

// untimed are rows without for how long their readings stand: that is less where gpuwhy was started again.
func untimed(rows map[rowKey]store.Row) map[rowKey]store.Row {
	out := maps.Clone(rows)
	for k, r := range out {
		if r.UUID != "" {
			r.Values = slices.Clone(r.Values)
			r.Values[store.ReadSeconds] = store.Value{}
			out[k] = r
		}
	}
	return out
}

// Whether gpuwhy runs on or is started again and again, the rows of spans are those of the readings that the store has.
func TestSpansAreThoseOfTheReadings(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		all := steps(rt)
		once := play(t, all, false)
		often := play(t, all, true)
		if diff := cmp.Diff(untimed(once.rows), untimed(often.rows)); diff != "" {
			rt.Fatalf("rows differ by restarts (-one run +several):\n%s", diff)
		}
		raw := once.rowsOf(store.Raw)
		checked := map[rowKey]bool{}
		for _, tier := range tiers {
			for _, r := range raw {
				begin := r.Time.Truncate(tier.Span())
				key := rowKey{r.Key, tier, begin}
				if checked[key] {
					continue
				}
				checked[key] = true
				got, found := once.rows[key]
				if !found || once.open[store.Bucket{Key: r.Key, Tier: tier, Time: begin}] {
					rt.Fatalf("the span %s of %v at %v has a row: %v; it is over and must not wait for one", tier, r.Key, begin, found)
				}
				if want := recomputed(raw, r.Key, tier, begin); !cmp.Equal(got, want) {
					rt.Fatalf("the row of %s at %v differs from its readings (-want +got):\n%s", tier, begin, cmp.Diff(want, got))
				}
			}
		}
	})
}

// checkSpans compares the rows of spans with those of the readings that the store has.
func checkSpans(t *testing.T, fake *fakeStore) {
	t.Helper()
	raw := fake.rowsOf(store.Raw)
	for _, tier := range tiers {
		for _, got := range fake.rowsOf(tier) {
			if want := recomputed(raw, got.Key, tier, got.Time); !cmp.Equal(got, want) {
				t.Errorf("the row of %s at %v differs from its readings (-want +got):\n%s", tier, got.Time, cmp.Diff(want, got))
			}
		}
	}
}

// The clock is set back while gpuwhy does not run, and the store answers late: then spans of before get more readings.
func TestTheClockIsSetBackOverARestart(t *testing.T) {
	fake := newFake()
	r := newRun(t, fake)
	read := func(second int) {
		d := card("GPU-1")
		d.Power.Draw = gpu.Of(gpu.Watts(second))
		r.observe(snapshot(start.Add(time.Duration(second)*time.Second), d))
	}
	for second := 0; second <= 600; second += 5 {
		read(second)
	}
	r.flush()
	r = newRun(t, fake)
	for second := 62; second < 1000; second += 5 {
		read(second)
		r.flush()
	}
	checkSpans(t, fake)
	if n := len(fake.rowsOf(store.Minute)); n != 16 {
		t.Errorf("%d minutes have a row", n)
	}
}

// A span gets a reading while its row is made: the row waits.
func TestAReadingComesAsARowIsMade(t *testing.T) {
	fake := newFake()
	r := newRun(t, fake)
	instant := func(second int) time.Time {
		return start.Truncate(time.Minute).Add(time.Duration(second) * time.Second)
	}
	r.observe(snapshot(instant(10), card("GPU-1")))
	r.observe(snapshot(instant(70), card("GPU-1"))) // the first minute waits to be made, since the store has not said what it has
	fake.during = func() {
		fake.during = nil
		back := snapshot(instant(20), card("GPU-1"))
		back.Breaks = 1
		r.observe(back)
	}
	r.flush()
	b := store.Bucket{Key: store.Key{Node: "box", UUID: "GPU-1"}, Tier: store.Minute, Time: instant(0)}
	if _, found := fake.rows[rowKey{b.Key, b.Tier, b.Time}]; found || !fake.open[b] {
		t.Errorf("the minute has a row: %v, and waits: %v", found, fake.open[b])
	}
	last := snapshot(instant(200), card("GPU-1"))
	last.Breaks = 1
	r.observe(last)
	r.flush()
	if got := fake.rows[rowKey{b.Key, b.Tier, b.Time}]; got.Readings != 2 || fake.open[b] {
		t.Errorf("the minute has %d readings", got.Readings)
	}
}

// A row is not replaced by one of fewer readings, when some of its readings are forgotten by now.
func TestReadingsAreForgottenBeforeARowIsMadeAgain(t *testing.T) {
	fake := newFake()
	r := newRun(t, fake)
	begin := start.Truncate(time.Minute)
	key := store.Key{Node: "box", UUID: "GPU-1"}
	row := func(tier store.Tier, when time.Time, readings int) store.Row {
		return store.Row{Key: key, Tier: tier, Time: when, Readings: readings, Values: make([]store.Value, len(store.DeviceColumns))}
	}
	b := store.Bucket{Key: key, Tier: store.Minute, Time: begin}
	if err := fake.Write(t.Context(), &store.Batch{
		Rows: []store.Row{row(store.Minute, begin, 12), row(store.Raw, begin.Add(time.Second), 1)}, Unsettled: []store.Bucket{b},
	}); err != nil {
		t.Fatal(err)
	}
	r.flush()
	if got := fake.rows[rowKey{key, store.Minute, begin}].Readings; got != 12 || fake.open[b] {
		t.Errorf("the row is of %d readings; it waits: %v", got, fake.open[b])
	}
}

// After a stop, six hours have all their quarters of an hour: those whose readings are forgotten by now, and those whose row is
// made only now.
func TestSixHoursAfterAStop(t *testing.T) {
	fake := newFake()
	begin := start.Truncate(6 * time.Hour)
	key := store.Key{Node: "box", UUID: "GPU-1"}
	row := func(tier store.Tier, offset time.Duration, readings int, mean float64) store.Row {
		r := store.Row{Key: key, Tier: tier, Time: begin.Add(offset), Readings: readings, Values: make([]store.Value, len(store.DeviceColumns)), State: gpu.StateOK}
		r.Values[store.DeviceColumns.Find("power_draw")] = store.Value{Least: mean - 1, Mean: mean, Most: mean + 1, Count: readings}
		return r
	}
	bucket := func(tier store.Tier, offset time.Duration) store.Bucket {
		return store.Bucket{Key: key, Tier: tier, Time: begin.Add(offset)}
	}
	last := row(store.Raw, 5*time.Hour, 1, 400)
	last.State, last.Values[store.DeviceColumns.Find("power_draw")] = gpu.StateLost, store.Value{Least: 400, Mean: 400, Most: 400, Count: 1}
	if err := fake.Write(t.Context(), &store.Batch{
		Rows:      []store.Row{row(store.Quarter, 0, 180, 100), row(store.Quarter, time.Hour, 19, 200), last},
		Unsettled: []store.Bucket{bucket(store.SixHours, 0), bucket(store.Quarter, 5*time.Hour)},
	}); err != nil {
		t.Fatal(err)
	}
	newRun(t, fake).flush()
	want := store.Value{Least: 99, Mean: (180*100 + 19*200 + 400) / 200., Most: 400, Count: 200}
	got := fake.rows[rowKey{key, store.SixHours, begin}]
	if v := got.Values[store.DeviceColumns.Find("power_draw")]; v != want || got.Readings != 200 || got.State != gpu.StateLost || len(fake.open) > 0 {
		t.Errorf("%+v of %d readings, %s, want %+v; %v wait", v, got.Readings, got.State, want, fake.open)
	}

	// Some quarters are forgotten, and then a reading comes late.
	delete(fake.rows, rowKey{key, store.Quarter, begin})
	if err := fake.Write(t.Context(), &store.Batch{Unsettled: []store.Bucket{bucket(store.SixHours, 0)}}); err != nil {
		t.Fatal(err)
	}
	newRun(t, fake).flush()
	if again := fake.rows[rowKey{key, store.SixHours, begin}]; again.Readings != 200 || len(fake.open) > 0 {
		t.Errorf("later of %d readings; %v wait", again.Readings, fake.open)
	}
}
