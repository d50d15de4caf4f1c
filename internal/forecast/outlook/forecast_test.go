package outlook_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"log/slog"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/forecast/method"
	"github.com/gpuwhy/gpuwhy/internal/forecast/outlook"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/internal/past/history"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/past/store/sqlite"
	"github.com/gpuwhy/gpuwhy/internal/past/store/storetest"
	"github.com/gpuwhy/gpuwhy/internal/state"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
	"github.com/gpuwhy/gpuwhy/sampler/sim"
)

// now is a Wednesday.
var now = time.Date(2026, time.March, 18, 14, 5, 30, 0, time.UTC)

var card = store.Key{Node: "node", UUID: "GPU-3a"}

const gib = 1 << 30

// device is a card of 24 GiB that has used some of it.
func device(used float64) *gpu.Device {
	d := fixture.Named("one", now).Snapshot.Devices[0]
	d.Node, d.UUID = card.Node, card.UUID
	d.Memory = gpu.Memory{Total: gpu.Of[gpu.Bytes](24 * gib), Used: gpu.Of(gpu.Bytes(used * gib)), Free: gpu.Of(gpu.Bytes((23.5 - used) * gib))}
	d.Thermal = gpu.Thermal{GPU: gpu.Of[gpu.Celsius](60), Slowdown: gpu.Of[gpu.Celsius](90)}
	return &d
}

func moment(now time.Time, d *gpu.Device, f *outlook.Forecaster) *insight.Moment {
	s := &gpu.Snapshot{Node: card.Node, Time: now, Source: gpu.SourceNVML, Devices: []gpu.Device{*d}}
	stage := insight.NewStage()
	if f != nil {
		stage.Foresee = f.Foresee
	}
	return stage.Next(s)
}

// row has values by the names of columns.
func row(tier store.Tier, begin time.Time, values map[string]float64) store.Row {
	r := store.Row{Key: card, Tier: tier, Time: begin, Readings: 1, State: gpu.StateOK, Values: make([]store.Value, len(store.DeviceColumns))}
	for name, v := range values {
		r.Values[store.DeviceColumns.Find(name)] = store.Value{Least: v, Mean: v, Most: v, Count: 1}
	}
	return r
}

// leaking is a day of minutes: jobs that take memory and give it back, then one that loses 24 MiB a minute, since two hours.
// It returns how many GiB are used at the end.
func leaking(b *store.Batch) (used float64) {
	r := rand.New(rand.NewPCG(7, 4))
	base, left := 4.0, 0
	const leakFor = 120
	for i := 24 * 60; i >= 0; i-- {
		if left--; left < 0 && i > leakFor {
			base, left = 3+6*r.Float64(), 30+r.IntN(180)
		}
		used = base + 0.1*float64(max(leakFor-i, 0)) + 0.01*r.NormFloat64()
		b.Rows = append(b.Rows, row(store.Minute, now.Truncate(time.Minute).Add(-time.Duration(i)*time.Minute), map[string]float64{"memory_used": used * gib}))
	}
	return used
}

// office is ten weeks of quarters: work on working days from 9 to 18 o'clock.
func office(b *store.Batch) {
	r := rand.New(rand.NewPCG(9, 4))
	for at := now.Truncate(time.Hour).Add(-10 * 7 * 24 * time.Hour); at.Before(now.Truncate(time.Hour)); at = at.Add(15 * time.Minute) {
		watts, work := 20+r.Float64(), 0.0
		if day := at.Weekday(); day != time.Saturday && day != time.Sunday && at.Hour() >= 9 && at.Hour() < 18 {
			watts, work = 300+40*r.Float64(), 90
		}
		b.Rows = append(b.Rows, row(store.Quarter, at, map[string]float64{"power_draw": watts, "utilization_gpu": work, "memory_share": 10}))
	}
}

// heating is four hours of readings, of a card that works, and whose fan has failed twelve minutes ago.
func heating(b *store.Batch) (celsius float64) {
	r := rand.New(rand.NewPCG(3, 4))
	die := 66.0
	const n, failed = 4 * 720, 150
	for i := range n {
		goal, tau := 68.0, 60.0
		if i >= n-failed {
			goal, tau = 110, 1200
		}
		die += (goal + 0.5*r.NormFloat64() - die) * 5 / tau
		celsius = math.Floor(die + 0.2*r.NormFloat64())
		b.Rows = append(b.Rows, row(store.Raw, now.Add(time.Duration(i-n)*5*time.Second), map[string]float64{"thermal_gpu": celsius}))
	}
	return celsius
}

func opened(t testing.TB, b *store.Batch) store.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Options{File: filepath.Join(t.TempDir(), "history.db"), Log: slog.New(slog.DiscardHandler), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	b.Devices = []store.Device{{Node: card.Node, UUID: card.UUID, Name: "card"}}
	if err := s.Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	return s
}

func config(s store.Store, newest *insight.Fleet) outlook.Config {
	return outlook.Config{
		Past:   &history.Past{Store: s, Keeps: store.Retention{store.Raw: 48 * time.Hour, store.Minute: 30 * 24 * time.Hour}, Now: func() time.Time { return now }},
		Newest: func() *insight.Fleet { return newest }, Interval: 5 * time.Second, Price: 0.25, Zone: time.UTC, Log: slog.New(slog.DiscardHandler),
	}
}

// forecasts of a device that has the past b.
func forecasts(t testing.TB, b *store.Batch, d *gpu.Device) *outlook.Forecaster {
	t.Helper()
	f := outlook.New(config(opened(t, b), moment(now, d, nil).Alone()))
	f.LookAll(t.Context())
	return f
}

func prospects(m *insight.Moment) map[string]explain.Prospect {
	out := map[string]explain.Prospect{}
	for _, p := range m.Answer.Devices[0].Next {
		out[p.Kind] = p
	}
	return out
}

// A leak is told with the time, the interval and the errors; and it is told of a Moment that is made later, with less time left.
func TestALeak(t *testing.T) {
	b := &store.Batch{}
	used := leaking(b)
	d := device(used)
	f := forecasts(t, b, d)
	o := f.Of(card).MemoryFull
	want := (23.5 - used) / 0.1 * 60 // s
	if !o.Shown || math.Abs(o.Value-want) > 0.1*want || o.Low > want || o.High < want {
		t.Fatalf("%+v, not %g s", o, want)
	}
	if o.Error.Trials < 9 || o.AsNow.MAE <= o.AsNow.Method || o.Error.MAE > 200 {
		t.Errorf("errors: %+v", o)
	}
	first := prospects(moment(now, d, f))["memory_full"]
	later := prospects(moment(now.Add(4*time.Minute), d, f))["memory_full"]
	if got := first.Left.Or(0) - later.Left.Or(0); got != 4*time.Minute {
		t.Errorf("4 min later it comes %s earlier", got)
	}
	if !strings.HasPrefix(first.Short, "memory full in about ") || !strings.Contains(first.Sentence, " will be full in about ") || !strings.Contains(first.Sentence, " to ") {
		t.Errorf("%+v", first)
	}
	// What was forecast long ago, or of a device that does not answer, is not told.
	if old := moment(now.Add(6*time.Minute), d, f).Answer.Devices[0]; old.Asked || len(old.Next) > 0 {
		t.Errorf("%+v", old.Next)
	}
	lost := *d
	lost.State = gpu.StateLost
	if lost := moment(now, &lost, f).Answer.Devices[0]; lost.Asked || len(lost.Next) > 0 {
		t.Errorf("%+v", lost.Next)
	}
}

// A leak that fills the memory within ten minutes is told of soon after half of them, from the readings of the last minutes.
func TestALeakOfMinutes(t *testing.T) {
	const fills, over, beat = 600.0, 350.0, 5.0
	b := &store.Batch{}
	r := rand.New(rand.NewPCG(5, 4))
	usedAt := func(after float64) float64 { return 3.5 + 20*max(after, 0)/fills }
	for at := over - 1800; at <= over; at += beat {
		used := usedAt(at) + 0.02*r.NormFloat64()
		b.Rows = append(b.Rows, row(store.Raw, now.Add(time.Duration((at-over)*float64(time.Second))), map[string]float64{"memory_used": used * gib}))
	}
	d := device(usedAt(over))
	f := outlook.New(config(opened(t, b), moment(now, d, nil).Alone()))
	for at := over - 120; at <= over; at += beat {
		f.Observe(moment(now.Add(time.Duration((at-over)*float64(time.Second))), device(usedAt(at)), nil))
	}
	f.LookAll(t.Context())
	if o := f.Of(card).MemoryFull; !o.Shown || o.Low > fills-over || o.High < fills-over {
		t.Errorf("%+v, want %g s", o, fills-over)
	}
}

// Without a leak, and of devices that do not say what is needed, nothing is told but why.
func TestNothingToTell(t *testing.T) {
	b := &store.Batch{}
	for i := range 600 {
		b.Rows = append(b.Rows, row(store.Minute, now.Truncate(time.Minute).Add(time.Duration(i-600)*time.Minute), map[string]float64{"memory_used": 4 * gib, "thermal_gpu": 50}))
	}
	d := device(4)
	f := forecasts(t, b, d)
	m := moment(now, d, f)
	if a := m.Answer.Devices[0]; !a.Asked || len(a.Next) > 0 {
		t.Errorf("told: %+v", a.Next)
	}
	o := f.Of(card)
	for got := range o.Forecasts {
		if got.Shown || got.Why == "" {
			t.Errorf("%+v", got)
		}
	}
	if o.MemoryFull.Why != method.NoGrowth || o.Quiet.Why != outlook.NotCooling || o.Energy.Why != method.TooLittlePast {
		t.Errorf("%+v", o)
	}
	d.Memory, d.Thermal = gpu.Memory{}, gpu.Thermal{}
	if o = forecasts(t, &store.Batch{}, d).Of(card); o.MemoryFull.Why != outlook.NoMemory || o.LimitReached.Why != outlook.NoLimit || o.Limit.Present() {
		t.Errorf("%+v", o)
	}
	full := device(23.5)
	b = &store.Batch{Rows: []store.Row{row(store.Minute, now.Truncate(time.Minute), map[string]float64{"memory_used": 23.5 * gib})}}
	if p := prospects(moment(now, full, forecasts(t, b, full)))["memory_full"]; p.Left != gpu.Of(time.Duration(0)) || !strings.HasSuffix(p.Sentence, " is full.") {
		t.Errorf("full: %+v", p)
	}
}

// A card whose fan has failed reaches its limit.
func TestALimit(t *testing.T) {
	b := &store.Batch{}
	celsius := heating(b)
	d := device(4)
	d.Thermal.GPU = gpu.Of(gpu.Celsius(celsius))
	f := forecasts(t, b, d)
	o := f.Of(card)
	if o.LimitReached.Why == outlook.NoLimit || o.LimitReached.Why == method.NoGrowth || o.LimitReached.Method == "" || o.Limit != gpu.Of[gpu.Celsius](90) {
		t.Fatalf("%+v", o.LimitReached)
	}
	if !o.LimitReached.Shown {
		t.Fatalf("not shown: %+v at %g °C", o.LimitReached, celsius)
	}
	want := 1200 * math.Log((110-celsius-0.5)/(110-90)) // celsius is rounded down
	if o.LimitReached.Low > want || o.LimitReached.High < want {
		t.Errorf("%+v, not %g s", o.LimitReached, want)
	}
	if p := prospects(moment(now, d, f))["limit_reached"]; !strings.Contains(p.Sentence, "will reach its slowdown temperature in about") {
		t.Errorf("%+v", p)
	}
}

// A month's energy, what it costs, and when a device is free.
func TestHabits(t *testing.T) {
	b := &store.Batch{}
	office(b)
	d := device(4)
	f := forecasts(t, b, d)
	o := f.Of(card)
	// March 2026 has 22 working days, each with 9 hours of about 320 W.
	want := 22*9*0.32 + (31*24-22*9)*0.0205
	if !o.Energy.Shown || math.Abs(o.Energy.Value-want) > 3 || o.Energy.Low > want || o.Energy.High < want {
		t.Errorf("energy: %+v, not %g", o.Energy, want)
	}
	if !o.Cost.Shown || o.Cost.Kind != method.KindCost || math.Abs(o.Cost.Value-0.25*o.Energy.Value) > 1e-9 {
		t.Errorf("cost: %+v", o.Cost)
	}
	if !o.Free.Shown || !outlook.Usually(&o.Free.Hours[0]) || outlook.Usually(&o.Free.Hours[3*24+14]) {
		t.Errorf("free: %+v", o.Free.Forecast)
	}
	next := prospects(moment(now, d, f))
	if got := next["usually_free"].Short; got != "usually free from Wed 18:00 to Thu 09:00" {
		t.Errorf("free: %q", got)
	}
	if got := next["energy"]; !strings.HasPrefix(got.Short, "about 7") || got.Left.Present() {
		t.Errorf("energy: %+v", got)
	}
	if got := next["cost"].Sentence; !strings.Contains(got, "will have cost about 1") {
		t.Errorf("cost: %q", got)
	}
}

// failing is a store whose rows can't be read for a while.
type failing struct {
	store.Store
	broken atomic.Bool
	asked  atomic.Int32 // questions under way
	most   atomic.Int32
	all    atomic.Int32
}

func (s *failing) Rows(ctx context.Context, q store.Query) iter.Seq2[store.Row, error] {
	return func(yield func(store.Row, error) bool) {
		s.all.Add(1)
		s.most.Store(max(s.most.Load(), s.asked.Add(1)))
		defer s.asked.Add(-1)
		if s.broken.Load() {
			yield(store.Row{}, &gpu.Advice{What: "the database can't be reached", Err: store.ErrGone})
			return
		}
		s.Store.Rows(ctx, q)(yield)
	}
}

// A database that fails is said, once in the log; what can be told without it still is, and all is well when it is back.
func TestADatabaseThatFails(t *testing.T) {
	b := &store.Batch{}
	d := device(leaking(b))
	s := &failing{Store: opened(t, b)}
	s.broken.Store(true)
	var log strings.Builder
	cfg := config(s, moment(now, d, nil).Alone())
	cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	f := outlook.New(cfg)
	for range 3 {
		f.LookAll(t.Context())
	}
	o := f.Of(card)
	if o.MemoryFull.Why != outlook.NotRead || o.Energy.Why != outlook.NotRead || o.Free.Why != outlook.NotRead || o.Quiet.Why != outlook.NotCooling {
		t.Errorf("%+v", o)
	}
	if m := moment(now, d, f); len(m.Answer.Devices[0].Next) > 0 {
		t.Errorf("told: %+v", m.Answer.Devices[0].Next)
	}
	s.broken.Store(false)
	f.LookAll(t.Context())
	if !f.Of(card).MemoryFull.Shown {
		t.Errorf("%+v", f.Of(card).MemoryFull)
	}
	if text := log.String(); strings.Count(text, "no forecasts can be made") != 1 || strings.Count(text, "can be made again") != 1 {
		t.Errorf("log: %s", text)
	}
}

// Forecasts are made each minute from the first reading on, one after the other, until the program ends. Of devices that are not
// there any more nothing is known.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &failing{Store: storetest.NewModel()}
		d := device(4)
		var newest atomic.Pointer[insight.Moment]
		newest.Store(moment(now, d, nil))
		cfg := config(s, nil)
		cfg.Newest = func() *insight.Fleet { return newest.Load().Alone() }
		f := outlook.New(cfg)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); f.Run(ctx) }()
		time.Sleep(time.Hour)
		if s.all.Load() != 0 || f.Of(card) != nil {
			t.Error("it does not wait for a reading")
		}
		f.Observe(newest.Load())
		time.Sleep(5 * time.Second)
		first := s.all.Load()
		if first == 0 || f.Of(card) == nil {
			t.Error("nothing was forecast")
		}
		time.Sleep(10 * time.Minute)
		if n := s.all.Load() - first; n < 10 || n > 120 || s.most.Load() != 1 {
			t.Errorf("%d questions in 10 min, %d at a time", n, s.most.Load())
		}
		other := *d
		other.UUID = "GPU-other"
		newest.Store(moment(now, &other, nil))
		time.Sleep(2 * time.Minute)
		if f.Of(card) != nil {
			t.Error("a device that left is known")
		}
		stop()
		<-done
	})
}

// Cool-downs of a simulated desktop: what was said of them is held against what came, also after a restart.
func TestQuiet(t *testing.T) {
	current := now
	nodes, err := sim.Nodes("rtx-4090", func() time.Time { return current })
	if err != nil {
		t.Fatal(err)
	}
	f := outlook.New(config(storetest.NewModel(), nil))
	stage := insight.NewStage()
	stage.Foresee = func(s *gpu.Snapshot, a *explain.Answer) { f.Foresee(s, a) }
	var newest *insight.Moment
	follow := func(until time.Duration, see func(*insight.Moment, *method.Forecast)) {
		for end := current.Add(until); current.Before(end); current = current.Add(5 * time.Second) {
			s, err := nodes[0].Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			s.Node, s.Time = "desktop", current
			s.Devices[0].Node = s.Node
			newest = stage.Next(s)
			f.Observe(newest)
			if current.Sub(now)%time.Minute == 0 {
				f = looked(t, f, newest)
			}
			if o := f.Of(store.Key{Node: s.Node, UUID: s.Devices[0].UUID}); o != nil && see != nil {
				see(newest, &o.Quiet)
			}
		}
	}
	follow(14*time.Hour, nil)
	kept, err := json.Marshal(f.Kept())
	if err != nil {
		t.Fatal(err)
	}
	if len(kept) < 500 || len(kept) > 32<<10 {
		t.Errorf("%d bytes are kept", len(kept))
	}
	again := outlook.New(config(storetest.NewModel(), nil))
	if err := state.Of("cooldowns", "", state.Regularly, again).Restore(kept, current); err != nil {
		t.Fatal(err)
	}
	f = again
	var shown, told int
	follow(6*time.Hour, func(m *insight.Moment, q *method.Forecast) {
		p, known := prospects(m)["quiet"]
		if q.Shown {
			shown++
			if q.Low > q.Value || q.Value > q.High || q.Error.Trials < 9 {
				t.Errorf("%+v", q)
			}
		}
		if known {
			told++
			if m.Answer.Devices[0].Cooling == nil || !strings.Contains(p.Sentence, " will be quiet ") {
				t.Errorf("%s: %+v, and it does not cool down", m.Snapshot.Time, p)
			}
		}
	})
	if shown < 20 || told < 20 {
		t.Errorf("shown %d times, told %d times", shown, told)
	}
	if err := again.Restore(outlook.Kept{}, current); err != nil {
		t.Error(err)
	}
	wrong := strings.Replace(string(kept), `"left_seconds":`, `"left_seconds":-`, 1)
	if err := state.Of("cooldowns", "", state.Regularly, outlook.New(config(storetest.NewModel(), nil))).Restore([]byte(wrong), current); err == nil {
		t.Error("a negative time was taken")
	}
}

// looked makes all forecasts with a Moment as the newest.
func looked(t *testing.T, f *outlook.Forecaster, m *insight.Moment) *outlook.Forecaster {
	t.Helper()
	f.SetNewest(func() *insight.Fleet { return m.Alone() })
	f.LookAll(t.Context())
	return f
}

// watched is a store of which something happens while it is read.
type watched struct {
	store.Store
	during func()
}

func (s *watched) Rows(ctx context.Context, q store.Query) iter.Seq2[store.Row, error] {
	if s.during != nil {
		s.during()
	}
	return s.Store.Rows(ctx, q)
}

// What a Moment says of a cool-down while the store is read stays: the forecasts that come of it began before.
func TestAMomentWhileTheStoreIsRead(t *testing.T) {
	b := &store.Batch{}
	d := device(leaking(b))
	s := &watched{Store: opened(t, b)}
	cooling := func(instant time.Time) *insight.Moment {
		m := moment(instant, d, nil)
		m.Answer.Devices[0].Cooling = &explain.Cooldown{Begun: now.Add(-time.Minute), Left: gpu.Of(5 * time.Minute)}
		return m
	}
	f := outlook.New(config(s, cooling(now).Alone()))
	f.LookAll(t.Context())
	later := now.Add(20 * time.Second)
	s.during = func() { f.Observe(cooling(later)) }
	f.LookAll(t.Context())
	if o := f.Of(card); !o.Quiet.At.Equal(later) || !o.MemoryFull.Shown {
		t.Errorf("it is that of %v, want %v", o.Quiet.At, later)
	}
	s.during = nil
	f.SetNewest(func() *insight.Fleet { return cooling(later.Add(time.Second)).Alone() })
	f.LookAll(t.Context())
	if o := f.Of(card); !o.Quiet.At.Equal(later.Add(time.Second)) {
		t.Errorf("afterwards it is that of %v", o.Quiet.At)
	}
}

// A program that ends in the middle makes no forecast of half of a past.
func TestItEnds(t *testing.T) {
	b := &store.Batch{}
	d := device(leaking(b))
	f := outlook.New(config(opened(t, b), moment(now, d, nil).Alone()))
	ctx, stop := context.WithCancelCause(t.Context())
	stop(errors.New("it ends"))
	f.LookAll(ctx)
	if f.Of(card) != nil {
		t.Errorf("%+v", f.Of(card))
	}
}

// BenchmarkForetelling is what the forecasts of one device cost each minute, from SQLite: of most devices; at worst, of one that
// leaks and gets so hot that it soon slows itself down; and with those by hours, which are made once an hour.
func BenchmarkForetelling(b *testing.B) {
	for _, c := range []struct {
		name          string
		worst, hourly bool
	}{{"steady", false, false}, {"worst", true, false}, {"hour", false, true}} {
		b.Run(c.name, func(b *testing.B) {
			batch, used, celsius := &store.Batch{}, 4.0, 60.0
			office(batch)
			if c.worst {
				used, celsius = leaking(batch), heating(batch)
			} else {
				still(batch)
			}
			d := device(used)
			d.Thermal.GPU = gpu.Of(gpu.Celsius(celsius))
			f := forecasts(b, batch, d)
			if o := f.Of(card); o.MemoryFull.Shown != c.worst || o.LimitReached.Shown != c.worst || !o.Energy.Shown {
				b.Fatalf("%+v %+v %+v", o.MemoryFull, o.LimitReached, o.Energy)
			}
			for b.Loop() {
				if c.hourly {
					f.ForgetHours()
				}
				f.LookAll(b.Context())
			}
		})
	}
}

// still is a day of minutes and four hours of readings of a device whose memory and temperature stay about as they are.
func still(b *store.Batch) {
	r := rand.New(rand.NewPCG(11, 4))
	for i := range 24 * 60 {
		at := now.Truncate(time.Minute).Add(time.Duration(i-24*60) * time.Minute)
		b.Rows = append(b.Rows, row(store.Minute, at, map[string]float64{"memory_used": (4 + 0.01*r.NormFloat64()) * gib}))
	}
	for i := range 4 * 720 {
		b.Rows = append(b.Rows, row(store.Raw, now.Add(time.Duration(i-4*720)*5*time.Second), map[string]float64{"thermal_gpu": math.Floor(60 + r.NormFloat64())}))
	}
}
