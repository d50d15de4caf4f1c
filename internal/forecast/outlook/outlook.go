// Package outlook forecasts devices about once a minute, from the stored past and the newest Moment. It runs beside
// the live path: a new Moment takes the latest forecast and never waits for one.
//
// Package method has the mathematics. This package knows which series it needs, and puts forecasts into words.
package outlook

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/forecast/method"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/internal/past/history"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/state"
)

const (
	every = time.Minute
	// hurries is how often memory is looked at that fills fast.
	hurries = 10 * time.Second
	// settles is how long after its first reading a program waits, which has other things to do at its start.
	settles = 2 * time.Second
	// stale is after how long a forecast is not about the present any more, such as where the store hangs.
	stale = 5 * time.Minute
)

// Reasons for which something is not forecast, beside those of package forecast. Each is a phrase for people.
const (
	NoMemory   method.Why = "the device does not report its memory"
	NoLimit    method.Why = "the device does not report its slowdown temperature"
	NoPrice    method.Why = "no price of electricity is set"
	NotCooling method.Why = "it is not cooling down now"
	NotSaid    method.Why = "it is too early to tell how it cools down"
	NotRead    method.Why = "the past can't be read now"
	NoAnswer   method.Why = "the device is not answering"
	Over       method.Why = "the forecast has expired"
)

// An Outlook has the forecasts for one device. It is immutable.
type Outlook struct {
	store.Key
	At time.Time // when it was made
	// MemoryFull, LimitReached and Quiet are in seconds, Energy is in kWh and Cost in money, both of the month of At. Errors of
	// MemoryFull are in MiB, those of LimitReached in °C. Where a forecast is not shown, its Why says why.
	MemoryFull, LimitReached, Quiet, Energy, Cost method.Forecast
	Free                                          method.Usual
	Limit                                         gpu.Reading[gpu.Celsius] // at which the device slows itself down
	Zone                                          *time.Location           // of Free's hours, and of the month
	cooling                                       time.Time                // when the cool-down began that Quiet is about
}

// Forecasts yields all of them.
func (o *Outlook) Forecasts(yield func(*method.Forecast) bool) {
	for _, f := range []*method.Forecast{&o.MemoryFull, &o.LimitReached, &o.Quiet, &o.Energy, &o.Cost, &o.Free.Forecast} {
		if !yield(f) {
			return
		}
	}
}

// Config is what a Forecaster needs.
type Config struct {
	Past     *history.Past
	Newest   func() *insight.Fleet
	Interval time.Duration // between two readings
	Price    float64       // of a kWh; 0: not known
	Zone     *time.Location
	Log      *slog.Logger
}

// A Forecaster makes forecasts. Its methods may be called at the same time.
type Forecaster struct {
	cfg   Config
	begun chan struct{} // closed at the first Moment
	once  sync.Once
	known atomic.Pointer[map[store.Key]*Outlook]

	mu      sync.Mutex
	cools   map[state.Device]*cools
	filling map[store.Key]*filling
	failing bool // the store could not be read

	hourly map[store.Key]*hourly // Run alone uses it
}

// New makes one that knows nothing yet.
func New(cfg Config) *Forecaster {
	f := &Forecaster{cfg: cfg, begun: make(chan struct{}), cools: map[state.Device]*cools{}, filling: map[store.Key]*filling{}, hourly: map[store.Key]*hourly{}}
	f.known.Store(&map[store.Key]*Outlook{})
	return f
}

// Of returns the outlook of a device; nil if there is none yet.
func (f *Forecaster) Of(k store.Key) *Outlook { return (*f.known.Load())[k] }

// Foresee fills in what comes next of the devices of an answer, in their order. It never waits.
func (f *Forecaster) Foresee(s *gpu.Snapshot, a *explain.Answer) {
	known := *f.known.Load()
	for i := range s.Devices {
		d := &s.Devices[i]
		if o := known[store.Key{Node: s.Node, UUID: d.UUID}]; o != nil && d.State == gpu.StateOK {
			a.Devices[i].Next, a.Devices[i].Asked = o.next(s.Time, d, a.Devices[i].Cooling)
		}
	}
}

// Run makes forecasts until ctx ends, of one device after the other: all of them each minute, and in between those of memory that
// fills fast.
func (f *Forecaster) Run(ctx context.Context) {
	ctx = store.Own(ctx)
	select {
	case <-f.begun:
	case <-ctx.Done():
		return
	}
	next := time.NewTimer(settles)
	defer next.Stop()
	for turn := 0; ; turn++ {
		select {
		case <-next.C:
		case <-ctx.Done():
			return
		}
		next.Reset(hurries)
		if turn%int(every/hurries) == 0 {
			f.lookAll(ctx)
		} else {
			f.lookHurried(ctx)
		}
	}
}

// lookHurried makes the forecasts of memory that fills fast. A store that can't be read says so each minute.
func (f *Forecaster) lookHurried(ctx context.Context) {
	for p := range f.cfg.Newest().Parts() {
		k, now := store.Key{Node: p.Snapshot.Node, UUID: p.Device.UUID}, p.Snapshot.Time
		if !f.fillsFast(k, now) {
			continue
		}
		made, err := f.memoryFull(ctx, k, now, p.Device)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			f.change(k, func(o *Outlook) { o.MemoryFull = made })
		}
	}
}

// lookAll makes the forecasts of all devices that there are now, and forgets those of others.
func (f *Forecaster) lookAll(ctx context.Context) {
	there := map[store.Key]bool{}
	var failed error
	for p := range f.cfg.Newest().Parts() {
		k := store.Key{Node: p.Snapshot.Node, UUID: p.Device.UUID}
		there[k] = true
		was := f.Of(k)
		o, err := f.look(ctx, p)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			failed = err
		}
		f.put(o, was)
	}
	maps.DeleteFunc(f.hourly, func(k store.Key, _ *hourly) bool { return !there[k] })
	f.mu.Lock()
	defer f.mu.Unlock()
	all := maps.Clone(*f.known.Load())
	maps.DeleteFunc(all, func(k store.Key, _ *Outlook) bool { return !there[k] })
	maps.DeleteFunc(f.filling, func(k store.Key, _ *filling) bool { return !there[k] })
	f.known.Store(&all)
	switch {
	case failed != nil && !f.failing:
		f.cfg.Log.Warn("no forecasts can be made", "err", failed)
	case failed == nil && f.failing:
		f.cfg.Log.Info("forecasts can be made again")
	}
	f.failing = failed != nil
}

// put makes an outlook the newest of its device. Where that is not what it was any more, a newer Moment has told of the cool-down.
func (f *Forecaster) put(o, was *Outlook) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if newer := f.Of(o.Key); newer != nil && newer != was {
		o.Quiet, o.cooling = newer.Quiet, newer.cooling
	}
	f.keep(o)
}

// change changes a copy of the newest outlook of a device, and makes that the newest; nothing where there is none.
func (f *Forecaster) change(k store.Key, do func(*Outlook)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if o := f.Of(k); o != nil {
		next := *o
		do(&next)
		f.keep(&next)
	}
}

// keep is put for who has f.mu.
func (f *Forecaster) keep(o *Outlook) {
	all := maps.Clone(*f.known.Load())
	all[o.Key] = o
	f.known.Store(&all)
}
