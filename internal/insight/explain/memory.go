package explain

import (
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// Times by which the rules tell one thing from another.
const (
	gap            = 2 * time.Minute  // between readings: after it all durations start over, but what was learned stays
	pause          = 30 * time.Second // within the same work: training saves its state, a game loads a level
	settling       = 20 * time.Second // after work, until a driver lets a device rest
	steady         = time.Minute      // readings that stay alike for this long show a state, not a change
	longestCooling = 20 * time.Minute // for this long after work its heat can explain readings
)

// How much a temperature can change between two readings at low power, in °C.
const (
	mostRise = 25
	mostFall = 40
)

// A memory is what the rules need to know about one device's past.
type memory struct {
	seen    time.Time     // time of the newest snapshot with the device
	breaks  int           // as counted by the snapshot of the newest reading
	set     time.Duration // total adjustment of the clock, as of the newest reading
	moved   time.Time     // when the clock was last set
	readAt  time.Time     // time of the newest reading; zero: none
	first   time.Time     // time of the first reading since the last gap
	work    stretch
	cooling *cooling  // after work; nil: none
	quieted Cooldown  // the last one that ended by itself; zero: none was seen
	led     bool      // the machine's answer named it first
	slept   time.Time // time of the newest snapshot in which it was powered down
	woke    bool      // the first reading came right after: whatever is going on began then
	letGo   bool      // what kept it awake for a while has just let it go
	looked  bool      // the heat of the last work was examined
	trail   []point
	before  float64     // the newest temperature
	coolest float64     // since work ended, and since the fan began to turn; NaN during work
	living  []int       // the listed pids that were seen alive
	holder  gpu.Process // the process that keeps it awake, or did until now; PID 0: no listed one

	// The fan's speed, since when it has that speed, and the range of temperatures meanwhile.
	fanSpeed, fanLeast, fanMost float64
	fanSince                    time.Time

	// Since when something has been so, without a gap; zero: it is not so.
	active, stuck, offHot, awake, odd, byHand, unused, unheld time.Time
	// The same for things that come and go: without a gap of a minute; and the newest reading in which it was so.
	hot, hotLast, capped, cappedLast time.Time

	baseline
}

// copied returns a copy that can change independently. The arrays of the trail and the cool-downs are never changed in place.
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

// step gives a device its memory, and adds its reading if that is newer.
func (m *memory) step(d *device) {
	d.m = m
	if d.State == gpu.StateAsleep {
		m.slept = d.s.Time
	}
	if d.State != gpu.StateOK || d.readAt.Equal(m.readAt) {
		return
	}
	if set := d.s.ClockSet - m.set; set != 0 && m.breaks != d.s.Breaks {
		if between := d.readAt.Sub(m.readAt) - set; between > 0 && between <= gap { // the clock was set, but the machine kept running
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
	since = min(since, settling) // the most that a single reading may count for
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

// meet records which listed processes are alive, or were: a process that no longer exists for the host may also be one that the host never
// saw. The array is never changed in place.
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

// restart forgets what was in progress, and keeps what was learned.
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

// rests reports whether a device is at rest: it has lowered its clocks, nobody works, and it has had time to cool. It is never known for
// devices whose clocks don't show it.
func (m *memory) rests(d *device) bool {
	return d.doing != unknown && !m.work.active && m.cooling == nil && d.slow() && !d.warm() &&
		m.readAt.Sub(m.work.ended) >= settling && m.readAt.Sub(m.first) >= settling
}

// last records since when something has been so.
func last(since *time.Time, so bool, now time.Time) {
	switch {
	case !so:
		*since = time.Time{}
	case since.IsZero():
		*since = now
	}
}

// lately records since when something that comes and goes, such as a limit, has been so. A minute without it ends it, just as it ends the
// alert.
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

// trailed is how far back the trail goes: far enough to show work that comes and goes.
const trailed = 4 * time.Minute

// leave adds a point to the trail. If readings are less than two seconds apart, it keeps only some.
func (m *memory) leave(p point) {
	if n := len(m.trail); n == 0 || p.time.Sub(m.trail[n-1].time) >= 2*time.Second {
		m.trail = append(m.trail, p)
	}
	for p.time.Sub(m.trail[0].time) > trailed {
		m.trail = m.trail[1:]
	}
}

// within returns the points of the last while.
func (m *memory) within(last time.Duration) []point {
	begin := m.readAt.Add(-last)
	i, _ := slices.BinarySearchFunc(m.trail, begin, func(p point, begin time.Time) int { return p.time.Compare(begin) })
	return m.trail[i:]
}

// mean returns the mean of a reading over some points; NaN if none has it.
func mean(points []point, reading func(point) float64) float64 {
	sum, n := 0.0, 0.0
	for _, p := range points {
		if v := reading(p); present(v) {
			sum, n = sum+v, n+1
		}
	}
	return sum / n // NaN without any
}

// flat reports whether temperature and fan have stayed within a range of degrees (and as many percent) for a minute, and power within a
// range of watts; NaN: any.
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

// A fanMemory is what is known about one fan. Learned values are kept across restarts.
type fanMemory struct {
	percent float64   // as commanded
	changed time.Time // since when it has that command
	// Since when it stands still, turns too slowly, or turns against its command.
	still, slow, loose time.Time
	turned             time.Time // when its tachometer last counted a turn

	PerPercent float64 `json:"rpm_per_percent"` // RPM per percent of command, of a working fan
	Seconds    float64 `json:"seconds"`         // time that went into it
}

const (
	leastCommand = 20               // percent that a fan must follow: some fans don't start lower
	fanSettles   = 10 * time.Second // the time that a fan may take to follow a command
	fanKnown     = 60               // seconds needed to learn a fan's usual speed
	offAt        = 80               // °C at which every fan turns
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

// slowest is at least a fan's lowest speed: many fans never stop, whatever their command. A fan that somebody has set to 0 % and that is
// faster than other fans at their lowest may be a small one.
func slowest(fan *gpu.Fan) float64 {
	const usual, small = 0.4 * fullRPM, 0.75 * fullRPM
	if fan.Policy.Or("") == "manual" {
		return small
	}
	return usual
}

// revolutions returns the speed that the fan's tachometer counts. If a 0 is only doubtful, because the tachometer has counted nothing since
// the program began, then earlier learning says more: the fan has turned.
func (f *fanMemory) revolutions(fan *gpu.Fan, temp float64) float64 {
	const hot = 65 // °C at which no fan stands still if it is told to turn
	if v, ok := fan.RPM.Get(); ok && v == 0 && present(f.usual()) && temp >= hot {
		return 0
	}
	return revolutions(fan)
}

// usual returns how fast the fan turns per percent of command, or NaN.
func (f *fanMemory) usual() float64 {
	if f.Seconds >= fanKnown {
		return f.PerPercent
	}
	return none
}
