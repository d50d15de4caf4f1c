package explain

import (
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// Times by which the rules tell one thing from another.
const (
	// gap is how long nothing may be read of a device before what lasts is
	// counted anew. What was learned stays.
	gap = 2 * time.Minute
	// pause is how long work may stop and still be the same work: training
	// saves its state, a game loads a level.
	pause = 30 * time.Second
	// settling is how long after work a driver takes to let a card go to
	// rest.
	settling = 20 * time.Second
	// steady is how long readings must stay alike to say how a card is, not
	// where it is going.
	steady = time.Minute
	// longestCooling is how long heat is put down to work that has ended.
	longestCooling = 20 * time.Minute
)

// A memory is what the rules need to know of one device's past. It has a fixed
// size, and copying it copies all that ever changes.
type memory struct {
	at      time.Time // of the newest reading; zero: none
	first   time.Time // of the readings without a gap before it
	work    session
	cooling cooling
	rest    rest
	curve   curve
	fans    [maxFans]fanMemory
	trail   trail
	before  float64 // the newest temperature

	// Since when something is so, without a gap; zero while it isn't.
	stuck, hot, capped, awake, byHand, unused, unheld time.Time
}

// step takes a device's reading at a time in. Time does not run backwards: an
// older reading, or the same once more, changes nothing.
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
	floor := floorOf(d)
	isStuck := stuck(d, &v, floor)
	doing := activityOf(d, &v, floor)
	if isStuck {
		doing = resting
	}
	since = min(since, settling) // what a single reading may count for
	m.follow(doing, d, &v, floor, since)
	m.cool(doing, &v)
	if doing == resting && !m.cooling.on && m.restsFor(settling) {
		m.rest.learn(&v)
	}
	m.before = v.temp
	m.curve.learn(m, &v, since)
	for i := range min(len(d.Fans.Fans), maxFans) {
		m.fans[i].step(&d.Fans.Fans[i], at)
	}
	last(&m.stuck, isStuck, at)
	last(&m.hot, v.reasoned && v.reasons&reasonsOfHeat != 0, at)
	last(&m.capped, v.reasoned && v.reasons&reasonsOfPower != 0, at)
	last(&m.awake, doing == resting && awake(&v, m, floor), at)
	last(&m.byHand, byHand(d) != "", at)
	last(&m.unheld, len(holders(d)) == 0, at)
	last(&m.unused, doing == resting && unused(d), at)
}

// restart forgets what was going on, and keeps what was learned.
func (m *memory) restart(at time.Time) {
	*m = memory{first: at, rest: m.rest, curve: m.curve, cooling: cooling{learned: m.cooling.learned}, fans: m.fans}
	for i := range m.fans {
		m.fans[i].restart()
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

// floorOf is what the device draws at rest, or none.
func floorOf(d *gpu.Device) float64 { return believed(d.IdleFloor, 1, mostWatts) }

// restsFor reports whether there has been no work for that long.
func (m *memory) restsFor(d time.Duration) bool {
	return !m.work.on && m.at.Sub(m.first) >= d && m.at.Sub(m.work.ended) >= d
}

// A session is a stretch of work, the present one or the last.
type session struct {
	on      bool
	since   time.Time // zero where work was under way when it was first seen
	begun   time.Time // first seen
	ended   time.Time // the first reading without work; zero before there was any
	workers [maxWorkers]worker
	// How hot it was when it was first seen, and when it ended.
	startTemp, endTemp, endFan, endPower float64
}

const maxWorkers = 4

// A worker is a process of a session, with the work that it has done there.
type worker struct {
	process gpu.Process
	done    float64 // share × seconds; 0: no worker
}

func (m *memory) follow(doing activity, d *gpu.Device, v *vitals, floor float64, since time.Duration) {
	w := &m.work
	switch {
	case doing == working && !w.on && !w.ended.IsZero() && m.at.Sub(w.ended) < pause:
		w.on = true
	case doing == working && !w.on:
		*w = session{on: true, begun: m.at, startTemp: v.temp}
		if m.at.After(m.first) {
			w.since, w.startTemp = m.at, m.before
		}
	case doing == resting && w.on:
		w.on, w.ended = false, m.at
	}
	if doing != working {
		return
	}
	w.endTemp, w.endFan, w.endPower = v.temp, v.fan, v.power
	for _, p := range firsts(workers(d, v, floor), maxWorkers) {
		share := highest(processShare(p), 0)
		w.credit(p, (share+0.1)*max(since.Seconds(), 0.1))
	}
}

// firsts is the beginning of a list, at most n long.
func firsts[T any](list []T, n int) []T { return list[:min(len(list), n)] }

// credit adds work to a process's account. Where there is no room, the one that
// has done the least makes way, and leaves what it has done to its successor:
// nobody who has done much can be pushed out.
func (w *session) credit(p *gpu.Process, done float64) {
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

// who did most of the session's work; nil where no process was listed.
func (w *session) who() *gpu.Process {
	best := 0
	for i := range w.workers {
		if w.workers[i].done > w.workers[best].done {
			best = i
		}
	}
	if w.workers[best].done == 0 {
		return nil
	}
	return &w.workers[best].process
}

// A rest is what a device is like without work. What it draws then is its idle
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

// cooling is the way back to rest after work, and how long it took before.
type cooling struct {
	on      bool
	learned [maxCooldowns]cooldown // the newest last
}

const maxCooldowns = 8

// A cooldown is one that was seen from the end of work to the end.
type cooldown struct {
	from float64 // °C when work ended
	took time.Duration
}

// cool follows a cool-down: it begins when work ends that has warmed the card,
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

// isCool reports whether a card is about as cool and as quiet as it was seen at
// rest.
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
	above := v.temp - 40 // what no card at rest needs to be
	if m.rest.known && has(m.rest.temp) {
		above = v.temp - m.rest.temp
	}
	return above >= 4 || (v.fan > 0 && !(v.fan <= m.rest.fan))
}

// usual is how long this card takes to cool down from a temperature: the
// middle of those times that began within 10 °C of it, or of all.
func (c *cooling) usual(from float64) (took time.Duration, seen int) {
	var near, all []time.Duration
	for _, past := range c.learned {
		if past.took == 0 {
			continue
		}
		all = append(all, past.took)
		if d := past.from - from; d >= -10 && d <= 10 {
			near = append(near, past.took)
		}
	}
	if len(near) == 0 {
		near = all
	}
	if len(near) == 0 {
		return 0, 0
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
	// A mean counts once five minutes went into it, and follows changes
	// with a time constant of two hours, so that what is new stands out.
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

// learn takes a reading in that is no passing one.
func (c *curve) learn(m *memory, v *vitals, since time.Duration) {
	if since <= 0 || !settled(v, m) {
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

// A trail is the last two minutes and more of a device, in steps of two seconds
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
	least, most := point{temp: none, power: none, fan: none}, point{temp: none, power: none, fan: none}
	var reach time.Duration
	for i := t.n - 1; i >= 0; i-- {
		p := t.get(i)
		if now.Sub(p.at) > steady {
			break
		}
		reach = now.Sub(p.at)
		least.temp, most.temp = lowest(least.temp, p.temp), highest(most.temp, p.temp)
		least.power, most.power = lowest(least.power, p.power), highest(most.power, p.power)
		least.fan, most.fan = lowest(least.fan, p.fan), highest(most.fan, p.fan)
	}
	if reach < steady*3/4 || !has(most.temp) || most.temp-least.temp > degrees || most.fan-least.fan > degrees {
		return false
	}
	return !has(watts) || most.power-least.power <= watts
}

// maxFans is how many fans of a device are remembered; no card has more.
const maxFans = 8

// A fanMemory is what is known of one fan.
type fanMemory struct {
	percent float64   // as commanded
	changed time.Time // since when it is that
	// Since when it stands still, or turns too slowly, while it is told to
	// turn; or turns while it is told to stand still.
	still, slow, loose time.Time
	// perPercent is how fast it turns for each percent, while it is well.
	perPercent float64
	learned    float64 // seconds that went into it
	at         time.Time
}

func (f *fanMemory) restart() {
	*f = fanMemory{percent: none, perPercent: f.perPercent, learned: f.learned}
}

const (
	// slowestTold is the least command, in percent, that a fan must follow:
	// some start no lower.
	slowestTold = 20
	// fanSettles is how long a fan may take to do what it is told.
	fanSettles = 10 * time.Second
	// fanKnown is how many seconds make a fan's usual speed.
	fanKnown = 60
)

func (f *fanMemory) step(fan *gpu.Fan, at time.Time) {
	told, rpm := commanded(fan), revolutions(fan)
	var since time.Duration
	if !f.at.IsZero() {
		since = min(at.Sub(f.at), settling)
	}
	f.at = at
	if d := told - f.percent; !(d >= -1 && d <= 1) {
		f.percent, f.changed = told, at
	}
	settled := at.Sub(f.changed) >= fanSettles
	slow := settled && slower(told, rpm, f.usual())
	last(&f.still, stands(told, rpm), at)
	last(&f.slow, slow, at)
	last(&f.loose, turnsUnasked(told, rpm), at)
	if settled && told >= slowestTold && rpm > 0 && !slow {
		if f.learned = min(f.learned+since.Seconds(), curveSlow); f.learned > 0 {
			f.perPercent += (rpm/told - f.perPercent) * since.Seconds() / f.learned
		}
	}
}

// What a fan can do wrong, by what it is told in percent and what it turns.
func stands(told, rpm float64) bool { return told >= slowestTold && rpm == 0 }
func slower(told, rpm, usual float64) bool {
	return told >= slowestTold && rpm > 0 && rpm < 0.6*usual*told
}
func turnsUnasked(told, rpm float64) bool { return told == 0 && rpm > 300 }

// usual is how fast the fan turns for each percent, or none.
func (f *fanMemory) usual() float64 {
	if f.learned >= fanKnown {
		return f.perPercent
	}
	return none
}
