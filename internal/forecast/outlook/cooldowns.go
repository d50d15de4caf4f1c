package outlook

import (
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/forecast/method"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/state"
)

const (
	askedEvery    = 10 * time.Second // how often the forecast of a cool-down is recorded
	keptCooldowns = 32               // of a device
	keptSaid      = 8                // of a cool-down
	longest       = time.Hour        // that a cool-down takes
)

// cools has the forecasts of a device's cool-downs, and their outcomes.
type cools struct {
	seen  time.Time
	begun time.Time // of the one that goes on; zero: none does
	open  []method.Told
	over  []cooled // the oldest first
}

// A cooled is a cool-down that was over by itself.
type cooled struct {
	Begun time.Time `json:"begun"`
	Over  time.Time `json:"over"`
	Said  []said    `json:"said"`
}

// A said is how long it would still take, some seconds after it began.
type said struct {
	After float64 `json:"after_seconds"`
	Left  float64 `json:"left_seconds"`
}

// Observe follows the cool-downs and the memory of a node's devices. It does not wait for the store.
func (f *Forecaster) Observe(m *insight.Moment) {
	f.once.Do(func() { close(f.begun) })
	for i := range m.Snapshot.Devices {
		d, why := &m.Snapshot.Devices[i], &m.Answer.Devices[i]
		f.followMemory(m.Snapshot.Time, store.Key{Node: m.Snapshot.Node, UUID: d.UUID}, d)
		if d.State != gpu.StateOK || why.Cooling == nil && why.Cooled == nil {
			continue
		}
		if !f.follow(m.Snapshot.Time, state.DeviceOf(d), insight.Part{Moment: m, Device: d, Why: why}) {
			continue
		}
		k := store.Key{Node: m.Snapshot.Node, UUID: d.UUID}
		quiet, begun := f.quiet(insight.Part{Moment: m, Device: d, Why: why})
		f.change(k, func(o *Outlook) { o.Quiet, o.cooling = quiet, begun }) // until the next minute the cool-down may be over
	}
}

// follow takes one reading of a device in, and reports whether something new was said of its cool-down.
func (f *Forecaster) follow(now time.Time, device state.Device, p insight.Part) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.cools[device]
	if c == nil {
		c = new(cools)
		f.cools[device] = c
	}
	c.seen = now
	cooling, last := p.Why.Cooling, p.Why.Cooled
	if !c.begun.IsZero() && (cooling == nil || !cooling.Begun.Equal(c.begun)) {
		if last != nil && last.Begun.Equal(c.begun) {
			c.end(last.Over)
		}
		c.begun, c.open = time.Time{}, nil
	}
	if cooling == nil {
		return false
	}
	c.begun = cooling.Begun
	left, known := cooling.Left.Get()
	if n := len(c.open); !known || n > 0 && now.Sub(c.open[n-1].At) < askedEvery {
		return false
	}
	c.open = append(c.open, method.Told{Begun: cooling.Begun, At: now, Said: left})
	return true
}

// end keeps some forecasts of a cool-down that is over, evenly spaced.
func (c *cools) end(over time.Time) {
	n := len(c.open)
	for n > 0 && c.open[n-1].At.After(over) {
		n--
	}
	if n == 0 || over.Sub(c.begun) > longest {
		return
	}
	done := cooled{Begun: c.begun, Over: over}
	for i := range min(n, keptSaid) {
		t := c.open[i*n/min(n, keptSaid)]
		done.Said = append(done.Said, said{t.At.Sub(t.Begun).Seconds(), t.Said.Seconds()})
	}
	if c.over = append(c.over, done); len(c.over) > keptCooldowns {
		c.over = c.over[1:]
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// told returns the forecasts with their outcomes.
func (c *cools) told() (out []method.Told) {
	for _, d := range c.over {
		for _, s := range d.Said {
			said := d.Begun.Add(seconds(s.After))
			out = append(out, method.Told{Begun: d.Begun, At: said, Said: seconds(s.Left), Took: d.Over.Sub(said)})
		}
	}
	return out
}

// quiet forecasts when a device that cools down is quiet, and says when the cool-down began.
func (f *Forecaster) quiet(p insight.Part) (method.Forecast, time.Time) {
	now, cooling := p.Snapshot.Time, p.Why.Cooling
	if cooling == nil {
		return notMade(method.KindQuiet, now, NotCooling), time.Time{}
	}
	left, known := cooling.Left.Get()
	if !known {
		return notMade(method.KindQuiet, now, NotSaid), cooling.Begun
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var earlier []method.Told
	if c := f.cools[state.DeviceOf(p.Device)]; c != nil {
		earlier = c.told()
	}
	return method.QuietIn(method.Told{Begun: cooling.Begun, At: now, Said: left}, earlier), cooling.Begun
}

// Kept has the forecasts of cool-downs and their outcomes, as they are kept across restarts.
type Kept struct {
	Devices []keptDevice `json:"devices"`
}

type keptDevice struct {
	state.Learned
	Cooldowns []cooled `json:"cooldowns"`
}

// Kept returns the state to keep across restarts.
func (f *Forecaster) Kept() Kept {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []keptDevice
	for k, c := range f.cools {
		if len(c.over) > 0 {
			all = append(all, keptDevice{state.Learned{Device: k, Seen: c.seen}, append([]cooled(nil), c.over...)})
		}
	}
	return Kept{state.Newest(all)}
}

// Restore takes what an earlier run has kept, before the first Observe.
func (f *Forecaster) Restore(kept Kept, now time.Time) error {
	fresh, err := state.Fresh(kept.Devices, now, (*keptDevice).plausible)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range fresh {
		f.cools[d.Device] = &cools{seen: d.Seen, over: d.Cooldowns}
	}
	return err
}

// plausible reports whether it is what this program could have kept.
func (d *keptDevice) plausible() bool {
	if len(d.Cooldowns) > keptCooldowns {
		return false
	}
	for i := range d.Cooldowns {
		c := &d.Cooldowns[i]
		if took := c.Over.Sub(c.Begun); took < 0 || took > longest || len(c.Said) > keptSaid || c.Begun.After(d.Seen) {
			return false
		}
		for _, s := range c.Said {
			if !(s.After >= 0 && s.After <= longest.Seconds() && s.Left >= 0 && s.Left <= longest.Seconds()) {
				return false
			}
		}
	}
	return true
}
