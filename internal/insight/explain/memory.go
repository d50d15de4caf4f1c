package explain

import (
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// Times by which the rules tell one thing from another.
const (
	// gap is how long a device may have no reading before all durations start
	// again. What was learned stays.
	gap = 2 * time.Minute
	// pause is how long work may stop and still be the same work: training
	// saves its state, a game loads a level.
	pause = 30 * time.Second
	// settling is how long a driver needs after work to let a device rest.
	settling = 20 * time.Second
	// steady is how long readings must stay alike to show a state, not a
	// change.
	steady = time.Minute
	// longestCooling is how long work that has ended can explain heat.
	longestCooling = 20 * time.Minute
)

// A memory is what the rules need to know of one device's past. It has a fixed
// size, and copying it copies all that ever changes.
type memory struct {
	at      time.Time // of the newest reading; zero: none
	first   time.Time // of the readings without a gap before it
	work    stretch
	cooling cooling
	rest    rest
	curve   curve
	fans    [maxFans]fanMemory
	trail   trail
	before  float64 // the newest temperature

	// Since when something is so, without a gap; zero while it isn't.
	stuck, hot, capped, awake, byHand, unused, unheld time.Time
}

// step adds a device's reading. An older reading, or the same reading again,
// changes nothing.
func (m *memory) step(d *gpu.Device, at time.Time) {
	if d.State != gpu.StateOK || (!m.at.IsZero() && !at.After(m.at)) {
		return
	}
	since := at.Sub(m.at)
	if m.at.IsZero() || since > gap {
		m.restart(at)
		since = 0
	}
	m.at = at
	v := vitalsOf(d)
	m.trail.add(point{at, v.temp, v.power, v.fan})
	stuck, doing := v.looksStuck(), v.activity()
	if stuck {
		doing = resting
	}
	since = min(since, settling) // what a single reading may count for
	m.follow(doing, &v, since)
	m.cool(doing, &v)
	if doing == resting && !m.cooling.on && m.restsFor(settling) {
		m.rest.learn(&v)
	}
	m.before = v.temp
	m.curve.learn(m, &v, since)
	for i := range min(len(d.Fans.Fans), maxFans) {
		m.fans[i].step(&d.Fans.Fans[i], at)
	}
	last(&m.stuck, stuck, at)
	last(&m.hot, v.reasoned && v.reasons&reasonsOfHeat != 0, at)
	last(&m.capped, v.reasoned && v.reasons&reasonsOfPower != 0, at)
	last(&m.awake, doing == resting && v.awake(m), at)
	last(&m.byHand, v.byHand() != "", at)
	last(&m.unheld, len(v.holders()) == 0, at)
	last(&m.unused, doing == resting && v.unused(), at)
}

// restart forgets what was under way, and keeps what was learned.
func (m *memory) restart(at time.Time) {
	*m = memory{first: at, rest: m.rest, curve: m.curve, cooling: cooling{learned: m.cooling.learned}, fans: m.fans}
	for i, f := range m.fans {
		m.fans[i] = fanMemory{percent: none, perPercent: f.perPercent, learned: f.learned}
	}
}

// last keeps since when something is so.
func last(since *time.Time, so bool, at time.Time) {
	switch {
	case !so:
		*since = time.Time{}
	case since.IsZero():
		*since = at
	}
}

// lasted is how long something has been so.
func (m *memory) lasted(since time.Time) time.Duration {
	if since.IsZero() {
		return 0
	}
	return m.at.Sub(since)
}

// restsFor reports whether there has been no work for that long.
func (m *memory) restsFor(d time.Duration) bool {
	return !m.work.on && m.at.Sub(m.first) >= d && m.at.Sub(m.work.ended) >= d
}

// A stretch is the present stretch of work, or the last one.
type stretch struct {
	on      bool
	since   time.Time // when it began; zero where that was not seen
	begun   time.Time // the first reading of it
	ended   time.Time // the first reading without work; zero before there was any
	workers [maxWorkers]worker
	// The temperature at the first reading of it; temperature and fan at its end.
	startTemp, endTemp, endFan float64
}

const maxWorkers = 4

// A worker is a process of a stretch of work, and how much it has worked.
type worker struct {
	process gpu.Process
	done    float64 // share × seconds; 0: no worker
}

func (m *memory) follow(doing activity, v *vitals, since time.Duration) {
	w := &m.work
	switch {
	case doing == working && !w.on && !w.ended.IsZero() && m.at.Sub(w.ended) < pause:
		w.on = true
	case doing == working && !w.on:
		*w = stretch{on: true, begun: m.at, startTemp: v.temp}
		if m.at.After(m.first) {
			w.since, w.startTemp = m.at, m.before
		}
	case doing == resting && w.on:
		w.on, w.ended = false, m.at
	}
	if doing != working {
		return
	}
	w.endTemp, w.endFan = v.temp, v.fan
	for _, p := range firsts(v.workers(), maxWorkers) {
		share := highest(processShare(p), 0)
		w.credit(p, (share+0.1)*max(since.Seconds(), 0.1))
	}
}

// firsts is the beginning of a list, at most n long.
func firsts[T any](list []T, n int) []T { return list[:min(len(list), n)] }

// credit adds work to a process's account. Where there is no room, the process
// with the least work leaves its place and its work to the new one. So a
// process with much work never leaves.
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
	best, most := (*gpu.Process)(nil), 0.0
	for i := range w.workers {
		if x := &w.workers[i]; x.done > most {
			best, most = &x.process, x.done
		}
	}
	return best
}

// A rest is what a device is like without work. Its power draw then is its idle
// floor.
type rest struct {
	known     bool
	temp, fan float64 // the lowest that were seen
	state     float64 // the slowest performance state
}

func (r *rest) learn(v *vitals) {
	if !r.known {
		*r = rest{known: true, temp: none, fan: none, state: none}
	}
	r.temp, r.fan = lowest(r.temp, v.temp), lowest(r.fan, v.fan)
	r.state = highest(r.state, v.state)
}

// cooling is the cool-down after work, and how long earlier ones took.
type cooling struct {
	on      bool
	learned [maxCooldowns]cooldown // the newest last
}

const maxCooldowns = 8

// A cooldown is one that was seen from its beginning to its end.
type cooldown struct {
	from float64 // °C when work ended
	took time.Duration
}

// cool follows a cool-down: it begins when work ends that has warmed the device,
// and is over when neither the temperature nor the fan falls any more.
func (m *memory) cool(doing activity, v *vitals) {
	c, w := &m.cooling, &m.work
	since := m.at.Sub(w.ended)
	switch {
	case doing == working:
		c.on = false
	case doing == resting && w.ended.Equal(m.at):
		c.on = m.warmed(v)
	case c.on && since > longestCooling:
		c.on = false
	case c.on && m.isCool(v):
		c.over(w.endTemp, since)
	case c.on && since > steady && m.trail.flat(m.at, 1, none):
		c.over(w.endTemp, since-steady)
	}
}

// isCool reports whether a device is about as cool and as quiet as at rest.
func (m *memory) isCool(v *vitals) bool {
	return m.rest.known && v.temp <= m.rest.temp+2 && !(v.fan > m.rest.fan)
}

func (c *cooling) over(from float64, took time.Duration) {
	c.on = false
	copy(c.learned[:], c.learned[1:])
	c.learned[maxCooldowns-1] = cooldown{from, took}
}

// warmed reports whether the work that has just ended left heat behind.
func (m *memory) warmed(v *vitals) bool {
	w := &m.work
	long := w.ended.Sub(w.begun) >= 10*time.Second
	if !(long || w.endTemp >= w.startTemp+2) {
		return false
	}
	above := v.temp - 40 // no device at rest needs to be hotter
	if m.rest.known && has(m.rest.temp) {
		above = v.temp - m.rest.temp
	}
	return above >= 4 || (v.fan > 0 && !(v.fan <= m.rest.fan))
}

// usual is how long this device takes to cool down from a temperature: the
// middle of the times that began within 10 °C of it, or else of all.
func (c *cooling) usual(from float64) (took time.Duration, seen int) {
	var near, all []time.Duration
	for _, past := range c.learned {
		if past.took > 0 {
			all = append(all, past.took)
		}
		if d := past.from - from; past.took > 0 && d >= -10 && d <= 10 {
			near = append(near, past.took)
		}
	}
	switch {
	case len(all) == 0:
		return 0, 0
	case len(near) == 0:
		near = all
	}
	slices.Sort(near)
	return near[(len(near)-1)/2], len(near)
}

// A curve is how hot a device runs at a power: a mean for each step of power.
type curve struct {
	step float64 // W
	mean [curveSteps]float64
	held [curveSteps]float64 // seconds that went into the mean
}

const (
	curveSteps = 24
	// A mean counts after five minutes. It follows changes with a time
	// constant of two hours, so that a change stands out.
	curveKnown = 5 * 60
	curveSlow  = 2 * 3600
)

// place is the step that a power belongs to, or -1.
func (c *curve) place(power float64) int {
	if !has(power) || c.step <= 0 {
		return -1
	}
	return min(int(power/c.step), curveSteps-1)
}

// learn adds a reading, unless the device is in a change.
func (c *curve) learn(m *memory, v *vitals, since time.Duration) {
	if since <= 0 || !v.settled(m) {
		return
	}
	if c.step == 0 {
		c.step = 25
		if has(v.limit) {
			c.step = v.limit / (curveSteps - 4)
		}
	}
	i := c.place(v.power)
	c.held[i] = min(c.held[i]+since.Seconds(), curveSlow)
	c.mean[i] += (v.temp - c.mean[i]) * since.Seconds() / c.held[i]
}

// usual is the temperature at a power, where it is known.
func (c *curve) usual(power float64) float64 {
	if i := c.place(power); i >= 0 && c.held[i] >= curveKnown {
		return c.mean[i]
	}
	return none
}

// A trail is the last two minutes of a device or more, in steps of two seconds
// or longer.
type trail struct {
	points   [trailLength]point
	start, n int
}

const (
	trailLength = 64
	trailStep   = 2 * time.Second
)

type point struct {
	at               time.Time
	temp, power, fan float64
}

func (t *trail) add(p point) {
	if t.n > 0 && p.at.Sub(t.get(t.n-1).at) < trailStep {
		return
	}
	if t.n == trailLength {
		t.start = (t.start + 1) % trailLength
		t.n--
	}
	t.n++
	*t.get(t.n - 1) = p
}

func (t *trail) get(i int) *point { return &t.points[(t.start+i)%trailLength] }

// flat reports whether temperature and fan have stayed within degrees (and as
// many percent) for a minute, and power within watts; none: any.
func (t *trail) flat(now time.Time, degrees, watts float64) bool {
	absent := point{temp: none, power: none, fan: none}
	least, most := absent, absent
	var reach time.Duration
	for i := t.n - 1; i >= 0 && now.Sub(t.get(i).at) <= steady; i-- {
		p := t.get(i)
		reach = now.Sub(p.at)
		least.temp, most.temp = lowest(least.temp, p.temp), highest(most.temp, p.temp)
		least.power, most.power = lowest(least.power, p.power), highest(most.power, p.power)
		least.fan, most.fan = lowest(least.fan, p.fan), highest(most.fan, p.fan)
	}
	return reach >= steady*3/4 && most.temp-least.temp <= degrees && !(most.fan-least.fan > degrees) &&
		(!has(watts) || most.power-least.power <= watts)
}

// maxFans is how many fans of a device are remembered. No product has more.
const maxFans = 8

// A fanMemory is what is known of one fan.
type fanMemory struct {
	percent float64   // as commanded
	changed time.Time // since when it has that command
	// Since when it stands still or turns too slowly for its command, or turns
	// against its command.
	still, slow, loose time.Time
	// perPercent is the speed for each percent, of a fan that works.
	perPercent float64
	learned    float64 // seconds that went into it
	at         time.Time
}

const (
	// leastCommand, in percent, is the lowest that a fan must follow: some
	// fans start no lower.
	leastCommand = 20
	// fanSettles is how long a fan may take to follow a command.
	fanSettles = 10 * time.Second
	// fanKnown is how many seconds make a fan's usual speed.
	fanKnown = 60
)

func (f *fanMemory) step(fan *gpu.Fan, at time.Time) {
	percent, rpm := commanded(fan), revolutions(fan)
	var since time.Duration
	if !f.at.IsZero() {
		since = min(at.Sub(f.at), settling)
	}
	f.at = at
	if d := percent - f.percent; !(d >= -1 && d <= 1) {
		f.percent, f.changed = percent, at
	}
	settled := at.Sub(f.changed) >= fanSettles
	slow := settled && slower(percent, rpm, f.usual())
	last(&f.still, stands(percent, rpm), at)
	last(&f.slow, slow, at)
	last(&f.loose, turnsUnasked(percent, rpm), at)
	if settled && percent >= leastCommand && rpm > 0 && !slow {
		if f.learned = min(f.learned+since.Seconds(), curveSlow); f.learned > 0 {
			f.perPercent += (rpm/percent - f.perPercent) * since.Seconds() / f.learned
		}
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
	if f.learned >= fanKnown {
		return f.perPercent
	}
	return none
}
