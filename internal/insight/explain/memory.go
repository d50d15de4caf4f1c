package explain

import (
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// Times by which the rules tell one thing from another.
const (
	gap            = 2 * time.Minute  // in the readings: all durations start again, and what was learned stays
	pause          = 30 * time.Second // in the same work: training saves its state, a game loads a level
	settling       = 20 * time.Second // after work, until a driver lets a device rest
	steady         = time.Minute      // readings that stay alike for so long show a state, not a change
	longestCooling = 20 * time.Minute // in which work that has ended can explain heat
)

// How much a temperature can change from one reading to the next where little power is drawn, in °C.
const (
	mostRise = 25
	mostFall = 40
)

// A memory is what the rules need to know of one device's past.
type memory struct {
	seen    time.Time     // the newest snapshot with the device
	breaks  int           // of the readings, as the snapshot counts them
	set     time.Duration // how far the clock was set in all, at the newest reading
	moved   time.Time     // when it was set last
	readAt  time.Time     // of the newest reading; zero: none
	first   time.Time     // of the readings without a gap before it
	work    stretch
	cooling *cooling  // after work; nil: none
	quieted Cooldown  // the last that was over by itself; zero: none was seen
	led     bool      // the machine's answer was about it
	slept   time.Time // the newest snapshot in which it was powered down
	woke    bool      // the first reading came right after: what goes on then began then
	letGo   bool      // what kept it awake for a while has just let it go
	looked  bool      // the heat of the last work was looked at
	trail   []point
	before  float64     // the newest temperature
	coolest float64     // since work ended, and since the fan began to turn; none in work
	living  []int       // the pids of those now listed that were seen alive
	holder  gpu.Process // who keeps it awake, or did until now; PID 0: nobody that is listed

	// The fan's speed, since when it has that, and between which temperatures meanwhile.
	fanSpeed, fanLeast, fanMost float64
	fanSince                    time.Time

	// Since when something is so, without a gap; zero while it isn't.
	active, stuck, offHot, awake, odd, byHand, unused, unheld time.Time
	// The same of what comes and goes: without a gap of a minute, and the newest reading in which it was so.
	hot, hotLast, capped, cappedLast time.Time

	baseline
}

// copied returns what goes on by itself. Nobody changes the arrays of the trail and the cool-downs.
func (m *memory) copied() *memory {
	out := *m
	out.Curve.Celsius, out.Curve.Seconds = slices.Clone(m.Curve.Celsius), slices.Clone(m.Curve.Seconds)
	out.Stops = m.Stops.copied()
	out.Fans, out.work.accounts = slices.Clone(m.Fans), slices.Clone(m.work.accounts)
	if m.cooling != nil {
		c := *m.cooling
		c.fall = slices.Clone(c.fall)
		out.cooling = &c
	}
	return &out
}

// step gives a device its memory, and adds its reading unless it is not newer.
func (m *memory) step(d *device) {
	d.m = m
	if d.State == gpu.StateAsleep {
		m.slept = d.s.Time
	}
	if d.State != gpu.StateOK || d.readAt.Equal(m.readAt) {
		return
	}
	if set := d.s.ClockSet - m.set; set != 0 && m.breaks != d.s.Breaks {
		if between := d.readAt.Sub(m.readAt) - set; between > 0 && between <= gap { // the clock was set, and the machine went on
			m.shift(set)
			m.breaks = d.s.Breaks
		}
	}
	m.set = d.s.ClockSet
	m.meet(d.Processes.Or(nil))
	broken := m.breaks != d.s.Breaks || m.readAt.IsZero()
	if !broken && !d.readAt.After(m.readAt) {
		return
	}
	since := d.readAt.Sub(m.readAt)
	if broken || since > gap {
		woke := d.s.Breaks == m.breaks && d.s.Time.Sub(m.slept) <= settling
		m.restart(d.readAt)
		since, m.before, m.breaks, m.woke = 0, d.temp, d.s.Breaks, woke
	}
	if jump := d.temp - m.before; since <= settling && (jump > mostRise || jump < -mostFall) && !(d.load() > 0.2) {
		d.temp = none // no device changes so fast; a second reading like it is believed
		d.figures = d.summary()
	}
	since = min(since, settling) // what a single reading may count for
	m.readAt = d.readAt
	stuck := d.looksStuck()
	active := m.works(d) && !stuck
	m.leave(point{m.readAt, d.temp, d.power, d.fan, highest(d.util, d.video), active})
	last(&m.active, active, m.readAt)
	m.follow(d, active, since)
	held := d.doing != unknown && !m.work.active && d.isUp()
	m.letGo = !held && !m.work.active && !m.awake.IsZero() && m.readAt.Sub(m.awake) >= steady
	m.cool(d)
	m.noteHolder(d, held)
	if m.rests(d) {
		m.Rest.learn(d)
	}
	m.Stops.learn(d, m)
	if m.work.active || m.Stops.since.Equal(m.readAt) {
		m.coolest = none
	}
	if !m.work.active {
		m.coolest = lowest(m.coolest, d.temp)
	}
	m.keepFan(d)
	m.before = d.temp
	if since > 0 && d.settled() {
		m.Curve.learn(d, since)
	}
	fans := min(len(d.Fans.Fans), maxFans)
	m.Fans = append(m.Fans, make([]fanMemory, max(fans-len(m.Fans), 0))...)
	for i := range fans {
		m.Fans[i].step(&d.Fans.Fans[i], d.temp, m.readAt, since)
	}
	last(&m.stuck, stuck, m.readAt)
	last(&m.offHot, d.fan == 0 && !(d.rpm > 0) && d.temp >= offAt && d.byHand() == "", m.readAt)
	lately(&m.hot, &m.hotLast, d.reasons&reasonsOfHeat != 0, m.readAt)
	lately(&m.capped, &m.cappedLast, d.reasons&reasonsOfPower != 0, m.readAt)
	rests := !m.work.active && d.doing != unknown
	last(&m.awake, held, m.readAt)
	last(&m.odd, rests && d.load() > 0.35, m.readAt)
	last(&m.byHand, d.byHand() != "", m.readAt)
	last(&m.unheld, !slices.ContainsFunc(d.Processes.Or(nil), d.mayHold), m.readAt)
	last(&m.unused, rests && d.unused(), m.readAt)
}

// meet notes who of those listed is alive, or was: one that exists no more for the host may also be one that it
// never saw. Nobody changes the array.
func (m *memory) meet(list []gpu.Process) {
	known := func(p *gpu.Process) bool { return p.Facts.Exists.Or(false) || m.sawAlive(p) }
	n := 0
	changed := slices.ContainsFunc(list, func(p gpu.Process) bool {
		if known(&p) {
			n++
		}
		return known(&p) != m.sawAlive(&p)
	})
	if !changed && n == len(m.living) {
		return
	}
	living := make([]int, 0, len(list))
	for _, p := range those(list, known) {
		if !slices.Contains(living, p.PID) {
			living = append(living, p.PID)
		}
	}
	m.living = living
}

// sawAlive reports whether a process was seen alive while it was listed.
func (m *memory) sawAlive(p *gpu.Process) bool { return slices.Contains(m.living, p.PID) }

// noteHolder remembers who keeps the device awake: once that process has let go, it may be off the list.
func (m *memory) noteHolder(d *device, held bool) {
	if !held {
		m.holder = gpu.Process{}
		return
	}
	var found *gpu.Process
	list := d.Processes.Or(nil)
	for i := range list {
		if p := &list[i]; p.Type != gpu.TypeGraphics && !gone(p) && (found == nil || byMemory(p, found) < 0) {
			found = p
		}
	}
	if found != nil {
		m.holder = *found
	} else {
		m.holder = gpu.Process{}
	}
}

// restart forgets what was under way, and keeps what was learned.
func (m *memory) restart(now time.Time) {
	for i, f := range m.Fans {
		m.Fans[i] = fanMemory{PerPercent: f.PerPercent, Seconds: f.Seconds}
	}
	m.Stops.known, m.Stops.held = false, time.Time{}
	*m = memory{first: now, coolest: none, set: m.set, led: m.led, living: m.living, baseline: m.baseline}
}

// shift moves all moments by how far the clock was set.
func (m *memory) shift(offset time.Duration) {
	move := func(moments ...*time.Time) {
		for _, moment := range moments {
			if !moment.IsZero() {
				*moment = moment.Add(offset)
			}
		}
	}
	w := &m.work
	m.moved = m.readAt.Add(offset)
	move(&m.readAt, &m.first, &m.slept, &m.fanSince, &w.begun, &w.last, &w.stirs, &w.ended, &w.spent.resumed, &m.Stops.since, &m.Stops.held,
		&m.active, &m.stuck, &m.offHot, &m.hot, &m.hotLast, &m.capped, &m.cappedLast, &m.awake, &m.odd, &m.byHand, &m.unused, &m.unheld)
	m.trail = slices.Clone(m.trail)
	for i := range m.trail {
		move(&m.trail[i].time)
	}
	for i := range w.accounts {
		a := &w.accounts[i]
		move(&a.begun, &a.last, &a.spent.resumed)
		a.forgetStart()
	}
	for i := range m.Fans {
		f := &m.Fans[i]
		move(&f.changed, &f.still, &f.slow, &f.loose, &f.turned)
	}
	move(&m.quieted.Begun, &m.quieted.Over)
	if m.cooling != nil {
		move(&m.cooling.begun, &m.cooling.fell, &m.cooling.quiet)
	}
}

// rests reports whether a device is at rest: it lets its clocks go, nobody works, and it
// has had the time to get cool. Without clocks that say so it is never known.
func (m *memory) rests(d *device) bool {
	return d.doing != unknown && !m.work.active && m.cooling == nil && d.slow() && !d.warm() &&
		m.readAt.Sub(m.work.ended) >= settling && m.readAt.Sub(m.first) >= settling
}

// last notes since when something is so.
func last(since *time.Time, so bool, now time.Time) {
	switch {
	case !so:
		*since = time.Time{}
	case since.IsZero():
		*since = now
	}
}

// lately notes since when something is so that comes and goes, as a limit does: a minute without it ends it, as it ends the alert.
func lately(since, newest *time.Time, so bool, now time.Time) {
	switch {
	case so:
		if since.IsZero() {
			*since = now
		}
		*newest = now
	case !since.IsZero() && now.Sub(*newest) > steady:
		*since, *newest = time.Time{}, time.Time{}
	}
}

// A point is one reading of the trail.
type point struct {
	time                   time.Time
	temp, power, fan, busy float64
	active                 bool // somebody worked
}

// trailed is how far back the trail goes: it shows work that comes and goes.
const trailed = 4 * time.Minute

// leave adds a point to the trail. Of readings that follow each other sooner than
// every two seconds it keeps some.
func (m *memory) leave(p point) {
	if n := len(m.trail); n == 0 || p.time.Sub(m.trail[n-1].time) >= 2*time.Second {
		m.trail = append(m.trail, p)
	}
	for p.time.Sub(m.trail[0].time) > trailed {
		m.trail = m.trail[1:]
	}
}

// within are the points of the last while.
func (m *memory) within(last time.Duration) []point {
	begin := m.readAt.Add(-last)
	i, _ := slices.BinarySearchFunc(m.trail, begin, func(p point, begin time.Time) int { return p.time.Compare(begin) })
	return m.trail[i:]
}

// mean is that of a reading over some points; none where there is none.
func mean(points []point, reading func(point) float64) float64 {
	sum, n := 0.0, 0.0
	for _, p := range points {
		if v := reading(p); present(v) {
			sum, n = sum+v, n+1
		}
	}
	return sum / n // NaN without any
}

// flat reports whether temperature and fan have stayed within degrees (and as
// many percent) for a minute, and power within watts; none: any.
func (m *memory) flat(degrees, watts float64) bool {
	minute := m.within(steady)
	if len(minute) == 0 || m.readAt.Sub(minute[0].time) < steady*3/4 {
		return false
	}
	least := point{temp: none, power: none, fan: none}
	most := least
	for _, p := range minute {
		least.temp, most.temp = lowest(least.temp, p.temp), highest(most.temp, p.temp)
		least.power, most.power = lowest(least.power, p.power), highest(most.power, p.power)
		least.fan, most.fan = lowest(least.fan, p.fan), highest(most.fan, p.fan)
	}
	return most.temp-least.temp <= degrees && !(most.fan-least.fan > degrees) && (!present(watts) || most.power-least.power <= watts)
}

// maxFans is how many fans of a device are remembered. No product has more.
const maxFans = 8

// A fanMemory is what is known of one fan. What it has learned is kept.
type fanMemory struct {
	percent float64   // as commanded
	changed time.Time // since when it has that command
	// Since when it stands still, turns too slowly, or turns against its command.
	still, slow, loose time.Time
	turned             time.Time // when its tachometer last counted a turn

	PerPercent float64 `json:"rpm_per_percent"` // the speed for each percent, of a fan that works
	Seconds    float64 `json:"seconds"`         // that went into it
}

const (
	leastCommand = 20               // percent, that a fan must follow: some fans start no lower
	fanSettles   = 10 * time.Second // a fan may take so long to follow a command
	fanKnown     = 60               // seconds make a fan's usual speed
	offAt        = 80               // °C, at which every fan turns
)

func (f *fanMemory) step(fan *gpu.Fan, temp float64, now time.Time, since time.Duration) {
	percent, rpm := commanded(fan), f.revolutions(fan, temp)
	if d := percent - f.percent; f.changed.IsZero() || !(d >= -4 && d <= 4) {
		f.percent, f.changed = percent, now
	}
	if revolutions(fan) > 0 {
		f.turned = now
	}
	settled := now.Sub(f.changed) >= fanSettles
	slow := (settled || !f.slow.IsZero()) && slower(percent, rpm, f.usual()) // its command may rise meanwhile
	last(&f.still, stands(percent, rpm), now)
	last(&f.slow, slow, now)
	last(&f.loose, turnsUnasked(percent, rpm, fan), now)
	if settled && percent >= leastCommand && rpm > 0 && !slow {
		follow(&f.PerPercent, &f.Seconds, rpm/percent, since)
	}
}

// What a fan can do wrong, by its command in percent and its speed.
func stands(percent, rpm float64) bool { return percent >= leastCommand && rpm == 0 }
func slower(percent, rpm, usual float64) bool {
	return percent >= leastCommand && rpm > 0 && rpm < 0.6*usual*percent
}
func turnsUnasked(percent, rpm float64, fan *gpu.Fan) bool { return percent == 0 && rpm > slowest(fan) }

// slowest is at least the least speed that a fan has: many do not stop, whatever they are told. One that somebody has set to
// 0 % and that is faster than others at their least may be a small one.
func slowest(fan *gpu.Fan) float64 {
	const usual, small = 0.4 * fullRPM, 0.75 * fullRPM
	if fan.Policy.Or("") == "manual" {
		return small
	}
	return usual
}

// revolutions is the speed that the fan's tachometer counts. Of a 0 that is only doubtful, since the tachometer has counted
// nothing since the program began, what was learned before says more: the fan has turned.
func (f *fanMemory) revolutions(fan *gpu.Fan, temp float64) float64 {
	const hot = 65 // °C, at which no fan stands that is told to turn
	if v, ok := fan.RPM.Get(); ok && v == 0 && present(f.usual()) && temp >= hot {
		return 0
	}
	return revolutions(fan)
}

// usual is how fast the fan turns for each percent, or none.
func (f *fanMemory) usual() float64 {
	if f.Seconds >= fanKnown {
		return f.PerPercent
	}
	return none
}
