package explain

import (
	"cmp"
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

// A memory is what the rules need to know of one device's past.
type memory struct {
	seen    time.Time // the newest snapshot with the device
	breaks  int       // of the readings, as the snapshot counts them
	at      time.Time // of the newest reading; zero: none
	first   time.Time // of the readings without a gap before it
	work    stretch
	cooling bool // after work
	trail   []point
	before  float64 // the newest temperature

	// Since when something is so, without a gap; zero while it isn't.
	stuck, hot, capped, awake, byHand, unused, unheld time.Time

	baseline
}

// copied returns what goes on by itself. Nobody changes the arrays of the trail and the cool-downs.
func (m *memory) copied() *memory {
	out := *m
	out.Curve.Celsius, out.Curve.Seconds = slices.Clone(m.Curve.Celsius), slices.Clone(m.Curve.Seconds)
	out.Fans = slices.Clone(m.Fans)
	return &out
}

// step gives a device its memory, and adds its reading unless it is not newer.
func (m *memory) step(d *device) {
	d.m = m
	broken := m.breaks != d.s.Breaks || m.at.IsZero()
	if d.State != gpu.StateOK || (!broken && !d.at.After(m.at)) {
		return
	}
	since := d.at.Sub(m.at)
	if broken || since > gap {
		m.restart(d.at)
		since, m.before, m.breaks = 0, d.temp, d.s.Breaks
	}
	since = min(since, settling) // what a single reading may count for
	m.at = d.at
	m.leave(point{m.at, d.temp, d.power, d.fan})
	stuck, doing := d.looksStuck(), d.doing
	if stuck {
		doing = resting
	}
	m.follow(doing, d, since)
	m.cool(doing, d)
	rests := doing == resting && !m.cooling && m.at.Sub(m.work.ended) >= settling
	if rests && m.at.Sub(m.first) >= settling {
		m.Rest.learn(d)
	}
	m.before = d.temp
	if since > 0 && d.settled() {
		m.Curve.learn(d, since)
	}
	fans := min(len(d.Fans.Fans), maxFans)
	m.Fans = append(m.Fans, make([]fanMemory, max(fans-len(m.Fans), 0))...)
	for i := range fans {
		m.Fans[i].step(&d.Fans.Fans[i], m.at, since)
	}
	last(&m.stuck, stuck, m.at)
	last(&m.hot, d.reasons&reasonsOfHeat != 0, m.at)
	last(&m.capped, d.reasons&reasonsOfPower != 0, m.at)
	last(&m.awake, doing == resting && (d.fast() || d.costs()), m.at)
	last(&m.byHand, d.byHand() != "", m.at)
	last(&m.unheld, len(d.holders()) == 0, m.at)
	last(&m.unused, doing == resting && d.unused(), m.at)
}

// restart forgets what was under way, and keeps what was learned.
func (m *memory) restart(at time.Time) {
	for i, f := range m.Fans {
		m.Fans[i] = fanMemory{PerPercent: f.PerPercent, Seconds: f.Seconds}
	}
	*m = memory{first: at, baseline: m.baseline}
}

// last notes since when something is so.
func last(since *time.Time, so bool, at time.Time) {
	switch {
	case !so:
		*since = time.Time{}
	case since.IsZero():
		*since = at
	}
}

// A stretch is the present stretch of work, or the last one.
type stretch struct {
	on      bool
	begun   time.Time // the first reading of it
	ended   time.Time // the first reading without work; zero before there was any
	workers [maxWorkers]worker
	// The temperature before it; temperature and fan at its end.
	startTemp, endTemp, endFan float64
}

const maxWorkers = 4

type worker struct {
	process gpu.Process
	done    float64 // share × seconds; 0: no worker
}

func (m *memory) follow(doing activity, d *device, since time.Duration) {
	w := &m.work
	switch {
	case doing == working && !w.on && !w.ended.IsZero() && m.at.Sub(w.ended) < pause:
		w.on = true
	case doing == working && !w.on:
		*w = stretch{on: true, begun: m.at, startTemp: m.before}
	case doing == resting && w.on:
		w.on, w.ended = false, m.at
	}
	if doing != working {
		return
	}
	w.endTemp, w.endFan = d.temp, d.fan
	for _, p := range firsts(d.culprits, maxWorkers) {
		share := highest(processShare(p), 0)
		w.credit(p, (share+0.1)*max(since.Seconds(), 0.1))
	}
}

func firsts[T any](list []T, n int) []T { return list[:min(len(list), n)] }

// credit adds work to a process's account. Where there is no room, the process
// with the least work hands it on to the new one.
func (w *stretch) credit(p *gpu.Process, done float64) {
	least := 0
	for i := range w.workers {
		if have := &w.workers[i]; have.done > 0 && have.process.PID == p.PID {
			have.process = *p
			have.done += done
			return
		}
		if w.workers[i].done < w.workers[least].done {
			least = i
		}
	}
	w.workers[least] = worker{*p, w.workers[least].done + done}
}

// who returns the process that did most of the work; nil where none was listed.
func (w *stretch) who() *gpu.Process {
	best := slices.MaxFunc(w.workers[:], func(a, b worker) int { return cmp.Compare(a.done, b.done) })
	if best.done == 0 {
		return nil
	}
	return &best.process
}

// cool follows a cool-down: it begins when work ends that has warmed the device,
// and is over when neither the temperature nor the fan falls any more.
func (m *memory) cool(doing activity, d *device) {
	since := m.at.Sub(m.work.ended)
	switch {
	case doing == working:
		m.cooling = false
	case doing == resting && m.work.ended.Equal(m.at):
		m.cooling = m.warmed(d)
	case m.cooling && since > longestCooling:
		m.cooling = false
	case m.cooling && d.temp <= value(m.Rest.Celsius)+2 && !(d.fan > value(m.Rest.Fan)):
		m.cooled(since) // it is about as cool and as quiet as at rest
	case m.cooling && since > steady && m.flat(1, none):
		m.cooled(since - steady)
	}
}

func (m *memory) cooled(took time.Duration) {
	m.cooling = false
	learned := m.Cooldowns[max(len(m.Cooldowns)-maxCooldowns+1, 0):]
	m.Cooldowns = append(learned, cooldown{optional(m.work.endTemp), took.Seconds()})
}

// warmed reports whether the work that has just ended left heat behind.
func (m *memory) warmed(d *device) bool {
	w := &m.work
	long := w.ended.Sub(w.begun) >= 10*time.Second
	if !(long || w.endTemp >= w.startTemp+2) {
		return false
	}
	above := d.temp - or(value(m.Rest.Celsius), 40) // no device at rest needs to be hotter
	return above >= 4 || (d.fan > 0 && !(d.fan <= value(m.Rest.Fan)))
}

type point struct {
	at               time.Time
	temp, power, fan float64
}

// leave adds a point to the trail, which is as long as a state must be steady.
func (m *memory) leave(p point) {
	if n := len(m.trail); n == 0 || p.at.Sub(m.trail[n-1].at) >= 2*time.Second {
		m.trail = append(m.trail, p)
	}
	for p.at.Sub(m.trail[0].at) > steady {
		m.trail = m.trail[1:]
	}
}

// flat reports whether temperature and fan have stayed within degrees (and as
// many percent) for a minute, and power within watts; none: any.
func (m *memory) flat(degrees, watts float64) bool {
	if len(m.trail) == 0 || m.at.Sub(m.trail[0].at) < steady*3/4 {
		return false
	}
	least := point{temp: none, power: none, fan: none}
	most := least
	for _, p := range m.trail {
		least.temp, most.temp = lowest(least.temp, p.temp), highest(most.temp, p.temp)
		least.power, most.power = lowest(least.power, p.power), highest(most.power, p.power)
		least.fan, most.fan = lowest(least.fan, p.fan), highest(most.fan, p.fan)
	}
	return most.temp-least.temp <= degrees && !(most.fan-least.fan > degrees) && (!has(watts) || most.power-least.power <= watts)
}

// maxFans is how many fans of a device are remembered. No product has more.
const maxFans = 8

// A fanMemory is what is known of one fan. What it has learned is kept.
type fanMemory struct {
	percent float64   // as commanded
	changed time.Time // since when it has that command
	// Since when it stands still, turns too slowly, or turns against its command.
	still, slow, loose time.Time

	PerPercent float64 `json:"rpm_per_percent"` // the speed for each percent, of a fan that works
	Seconds    float64 `json:"seconds"`         // that went into it
}

const (
	leastCommand = 20               // percent, that a fan must follow: some fans start no lower
	fanSettles   = 10 * time.Second // a fan may take so long to follow a command
	fanKnown     = 60               // seconds make a fan's usual speed
)

func (f *fanMemory) step(fan *gpu.Fan, at time.Time, since time.Duration) {
	percent, rpm := commanded(fan), revolutions(fan)
	if d := percent - f.percent; f.changed.IsZero() || !(d >= -1 && d <= 1) {
		f.percent, f.changed = percent, at
	}
	settled := at.Sub(f.changed) >= fanSettles
	slow := settled && slower(percent, rpm, f.usual())
	last(&f.still, stands(percent, rpm), at)
	last(&f.slow, slow, at)
	last(&f.loose, turnsUnasked(percent, rpm), at)
	if settled && percent >= leastCommand && rpm > 0 && !slow {
		follow(&f.PerPercent, &f.Seconds, rpm/percent, since)
	}
}

// What a fan can do wrong, by its command in percent and its speed.
func stands(percent, rpm float64) bool { return percent >= leastCommand && rpm == 0 }
func slower(percent, rpm, usual float64) bool {
	return percent >= leastCommand && rpm > 0 && rpm < 0.6*usual*percent
}
func turnsUnasked(percent, rpm float64) bool { return percent == 0 && rpm > 300 }

// usual is how fast the fan turns for each percent, or none.
func (f *fanMemory) usual() float64 {
	if f.Seconds >= fanKnown {
		return f.PerPercent
	}
	return none
}
