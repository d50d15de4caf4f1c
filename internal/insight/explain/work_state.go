package explain

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// How readings become work and its end. One reading alone is mostly chance: a driver's sample fell into a pause, or a window was redrawn.
const (
	strong     = 15               // percent that is work at once if the power shows it too
	restsAfter = 10 * time.Second // without work: one reading of 0 % is not the end
	burstsOf   = 2                // this many pauses within the trail make work that comes and goes
	longPause  = 90 * time.Second // longest pause within work that comes and goes
)

// A stretch is the current or the last stretch of work. Work that comes and goes is one stretch.
type stretch struct {
	active bool
	bursts bool      // it comes and goes
	begun  time.Time // its first reading
	last   time.Time // its newest reading with work
	stirs  time.Time // for work in bursts: the newest reading in which the power shows work
	ended  time.Time // the first reading without work; zero: not yet
	// The temperature before it; temperature, fan and power at its end.
	startTemp, endTemp, endFan float64
	peakTemp, peakPower        float64 // of its last minutes: they wear off
	spent                      spell
	accounts                   []account // of the processes that work or worked
	hidden                     float64   // the heat of work that no listed process does
}

// An account is what is known about the work of one process. A reused pid is another process.
type account struct {
	process gpu.Process // as last seen
	begun   time.Time   // the first reading of its work
	last    time.Time   // the newest reading of its work
	spent   spell       // how long it worked
	heat    float64     // what its work has added and is still left: it wears off
	watts   float64     // recent average while it worked
	share   float64     // recent average share
}

// A spell is how long a process has worked, without the pauses.
type spell struct {
	resumed time.Time     // the first reading after the last pause; zero: no pause
	worked  time.Duration // total
}

// pausesFrom is the time without work that counts as a pause. The alert about utilization ends after the same time, so that both report the
// same beginning.
const pausesFrom = 15 * time.Second

// goOn adds a reading with work to a spell. last is the previous reading with work, and since the time since the newest reading.
func (s *spell) goOn(now, last time.Time, since time.Duration) {
	switch between := now.Sub(last); {
	case last.IsZero() || between <= 0:
	case between-since > pausesFrom:
		s.resumed = now
	default:
		s.worked += between
	}
}

const (
	maxAccounts = 16
	wearsOff    = 90 * time.Second // the time constant of heat: what a cooler stores
)

// forgetStart is used for a while after the clock was set, while the host may still report the start by the old clock.
func (a *account) forgetStart() { a.process.Facts.Started = gpu.Reading[time.Time]{} }

// same reports whether two entries of a list are one process.
func same(a, b *gpu.Process) bool {
	if a.PID != b.PID {
		return false
	}
	x, known := a.Facts.Started.Get()
	y, too := b.Facts.Started.Get()
	return (!known || !too || x.Sub(y).Abs() < time.Second) &&
		(known == too || a.Facts.Name.Or("") == b.Facts.Name.Or(""))
}

// account returns a process's account; nil if it never worked.
func (w *stretch) account(p *gpu.Process) *account {
	for i := range w.accounts {
		if a := &w.accounts[i].process; a.PID == p.PID && same(a, p) {
			return &w.accounts[i]
		}
	}
	return nil
}

// follow tells work from chance, and its end from a pause.
func (m *memory) follow(d *device, active bool, since time.Duration) {
	w := &m.work
	wear := math.Exp(-since.Seconds() / wearsOff.Seconds())
	for i := range w.accounts {
		w.accounts[i].heat *= wear
		w.accounts[i].share -= w.accounts[i].share / 3
	}
	w.hidden *= wear
	w.bursts = m.comesAndGoes(d)
	if active {
		m.credit(d, since)
	}
	switch {
	case active && w.active:
		w.spent.goOn(m.readAt, w.last, since)
		w.last = m.readAt
	case active && (m.begins(d) || m.goesOn() || w.bursts):
		if w.ended.IsZero() || m.readAt.Sub(w.ended) >= pause {
			w.begun, w.startTemp = m.firstActive(), m.before
		}
		w.spent.goOn(m.readAt, w.last, since)
		w.active, w.last, m.looked = true, m.readAt, false
	case w.active && w.bursts && !m.allGone(d) && m.stirs(d):
		w.stirs = m.readAt
	case w.active && m.isOver(d):
		w.active, w.ended = false, m.firstRest()
		if w.stirs.After(w.ended) {
			w.ended = w.stirs
		}
	}
	w.peakTemp, w.peakPower = highest(d.temp, w.peakTemp-0.02*since.Seconds()), highest(d.power, w.peakPower*wear)
	if w.active && active {
		w.endTemp, w.endFan = d.temp, d.fan
	}
	for i := 0; i < len(w.accounts); {
		if m.readAt.Sub(w.accounts[i].last) > longestCooling {
			w.accounts = slices.Delete(w.accounts, i, i+1)
		} else {
			i++
		}
	}
}

// begins reports whether one reading is enough to see that work begins: the power shows it too.
func (m *memory) begins(d *device) bool {
	first := len(m.trail) == 1
	if !present(d.util) || first && (d.contradicted() || !d.hidden() && len(d.culprits) > 0) {
		return true
	}
	if m.blip() {
		return false
	}
	if highest(d.util, d.video) < strong || d.load() <= 0.35 && !(first && !present(d.load())) {
		return false
	}
	if d.load() > 0.6 {
		return true
	}
	// Processes that worked a moment ago may just be continuing for one more reading.
	again := func(p *gpu.Process) bool { a := m.work.account(p); return a != nil && a.begun.Before(m.readAt) }
	return m.work.ended.IsZero() || m.readAt.Sub(m.work.ended) > trailed/2 || !slices.ContainsFunc(d.culprits, again)
}

// works reports whether a reading shows work worth mentioning. A desktop redraws its windows now and then.
func (m *memory) works(d *device) bool {
	busy := highest(d.util, d.video)
	goesOn := m.littleWork() && busy >= 1 && m.costs(d)
	if d.doing != working && !goesOn {
		return false
	}
	switch {
	case !present(d.util):
		return true
	case !m.heats(d) && !(d.unified() && busy >= 2*strong): // whatever the counter says: that is about the counter
		return d.contradicted() && !slices.ContainsFunc(d.Processes.Or(nil), func(p gpu.Process) bool { return processShare(&p) >= idleBelow })
	case busy >= strong, d.traffic >= copies:
		return true
	case d.costs(), goesOn:
		return m.worksALittle(d, busy)
	}
	// Small work that continues may get a little less: its answer does not flicker with it.
	least, watts := 1.5*idleBelow, 1.3*d.idleWatts+8
	if m.littleWork() {
		least, watts = idleBelow, 1.15*d.idleWatts+3
	}
	return busy >= idleBelow && !(d.power <= watts) && m.usual(busy, pause) >= least
}

// heats reports whether a device draws more than at rest: otherwise whatever goes on in it heats nothing. The draw at rest varies by a watt
// or two, so the average of some seconds counts, and ongoing work needs less power to continue than it needed to begin.
func (m *memory) heats(d *device) bool {
	if !present(d.idleWatts) {
		most := 0.12 // of its limit, at slow clocks
		switch {
		case m.work.active:
			most = 0.08
		case d.state >= 8: // a resting state, in which no clock does much
			most = 0.25
		}
		return !(d.slow() && !(d.speed() >= 0.6) && d.load() <= most)
	}
	some := min(3, 0.3*d.idleWatts)
	if !present(d.power) || d.power > 1.5*d.idleWatts+4*some {
		return true
	}
	line := 1.2*d.idleWatts + some
	if m.work.active {
		line = 1.1*d.idleWatts + 0.6*some
	}
	sum, n := d.power, 1.0
	recent := m.within(settling)
	for i := range recent {
		if v := recent[i].power; present(v) {
			sum, n = sum+min(v, 1.5*d.idleWatts+4*some), n+1
		}
	}
	return sum/n > line
}

// stirs reports whether the power shows that work continues in bursts although the busy counter missed this one: the power is clearly above
// its recent minimum.
func (m *memory) stirs(d *device) bool {
	least := none
	recent := m.within(trailed / 2)
	for i := range recent {
		least = lowest(least, recent[i].power)
	}
	return d.power > 1.25*least+5
}

// worksALittle reports whether work of a few percent goes on that costs clearly more power than rest: it keeps the clocks up. A process
// that draws a little while another program keeps the clocks up and does nothing does not count.
func (m *memory) worksALittle(d *device, busy float64) bool {
	least := 0.9 * idleBelow
	if m.littleWork() {
		least = 0.5 * idleBelow
	}
	return m.usual(busy, steady) >= least && (busy >= 2*idleBelow || !d.sleeperHolds())
}

// littleWork reports whether work goes on that was never more than a little.
func (m *memory) littleWork() bool {
	return m.work.active && !slices.ContainsFunc(m.trail, func(p point) bool { return p.busy >= 2*strong })
}

// usual returns the mean utilization over a while, including this reading. Strong earlier readings say nothing about a little now; without
// any others, the reading must be twice the threshold.
func (m *memory) usual(busy float64, last time.Duration) float64 {
	sum, n := busy, 1.0
	recent := m.within(last)
	for i := range recent {
		if v := recent[i].busy; v < strong {
			sum, n = sum+v, n+1
		}
	}
	if n == 1 && busy < 2*idleBelow {
		return 0
	}
	return sum / n
}

// goesOn reports whether the readings before this one showed work too, for at least two seconds.
func (m *memory) goesOn() bool {
	return !m.active.IsZero() && m.readAt.Sub(m.active) >= 2*time.Second && !m.blip()
}

// blip reports whether work has just begun on a device that was kept awake for a while by a program that has worked before: a loaded model
// answers a question now and then, and two seconds of that don't change the answer.
func (m *memory) blip() bool {
	const short = 4 * time.Second
	if m.work.active || m.work.ended.IsZero() || m.awake.IsZero() || m.readAt.Sub(m.awake) < settling || m.readAt.Sub(m.firstActive()) >= short {
		return false
	}
	a := m.work.account(&m.holder)
	return a != nil && !a.spent.resumed.IsZero()
}

// firstActive returns when the run of readings with work began that the newest one belongs to.
func (m *memory) firstActive() time.Time {
	i := len(m.trail) - 1
	for i > 0 && m.trail[i-1].active {
		i--
	}
	return m.trail[max(i, 0)].time
}

// firstRest returns the first reading after the last work.
func (m *memory) firstRest() time.Time {
	first := m.readAt
	for i := len(m.trail) - 1; i >= 0 && !m.trail[i].active; i-- {
		first = m.trail[i].time
	}
	return first
}

// isOver reports whether work has ended and not just paused.
func (m *memory) isOver(d *device) bool {
	w := &m.work
	rests := m.readAt.Sub(w.newest())
	switch {
	case m.allGone(d):
		return true
	case !w.bursts && m.littleWork() && m.readAt.Sub(w.begun) > pause && m.drawsYet(d): // it was also reported only after it had lasted for a while
		return m.readAt.Sub(m.firstRest()) >= 2*restsAfter
	case !w.bursts:
		return m.readAt.Sub(m.firstRest()) >= restsAfter
	case present(d.idleWatts) && d.power <= 1.3*d.idleWatts+8:
		return rests >= 2*restsAfter // nothing keeps it warm between two bursts
	default:
		return rests > min(max(2*restsAfter, m.longestPause()*2), longPause)
	}
}

// drawsYet reports whether the recent power is above that at rest, even if only a little.
func (m *memory) drawsYet(d *device) bool {
	return !d.unified() && mean(m.within(settling), func(p point) float64 { return p.power }) > 1.1*d.idleWatts+5
}

// newest returns the newest sign of work.
func (w *stretch) newest() time.Time {
	if w.stirs.After(w.last) {
		return w.stirs
	}
	return w.last
}

// allGone reports whether all recent workers are off the list.
func (m *memory) allGone(d *device) bool {
	list, listed := d.Processes.Get()
	if !listed {
		return false
	}
	if m.work.bursts && m.comesBack() {
		return false
	}
	worked, most := false, 0.0
	lately := func(a *account) bool { return m.work.last.Sub(a.last) <= pause }
	for i := range m.work.accounts {
		if a := &m.work.accounts[i]; lately(a) {
			most = max(most, a.heat)
		}
	}
	for i := range m.work.accounts {
		a := &m.work.accounts[i]
		if !lately(a) || a.heat < 0.1*most {
			continue // a desktop draws a little beside any work, and stays
		}
		worked = true
		draws := func(p *gpu.Process) bool { // as a desktop does beside light work
			return p.Type == gpu.TypeGraphics && processShare(p) < idleBelow && a.heat < 0.3*most
		}
		if slices.ContainsFunc(list, func(p gpu.Process) bool { return same(&p, &a.process) && !gone(&p) && !draws(&p) }) {
			return false
		}
	}
	return worked
}

// partAtWork returns the percentage of the trail's readings, since the first with work, in which somebody worked.
func (m *memory) partAtWork() float64 {
	first := slices.IndexFunc(m.trail, func(p point) bool { return p.active })
	if first < 0 {
		return none
	}
	worked := len(those(m.trail[first:], func(p *point) bool { return p.active }))
	return 100 * float64(worked) / float64(len(m.trail)-first)
}

// comesBack reports whether the work is a program that ends and starts again with another pid, as tests do.
func (m *memory) comesBack() bool {
	again := 0
	if h := m.work.hottest(); h != nil {
		for i := range m.work.accounts {
			p := &m.work.accounts[i].process
			if p.PID != h.process.PID && alike(p, &h.process) && m.readAt.Sub(m.work.accounts[i].last) <= trailed {
				again++
			}
		}
	}
	return again >= burstsOf
}

// alike reports whether two processes run the same for the same user.
func alike(a, b *gpu.Process) bool {
	its := runs(a)
	return its == runs(b) && a.Facts.User.Or("") == b.Facts.User.Or("") && (its != "" || gone(a) == gone(b))
}

// comesAndGoes reports whether the trail has pauses between work that are not chance.
func (m *memory) comesAndGoes(d *device) bool {
	if m.trail[len(m.trail)-1].active && m.readAt.Sub(m.firstActive()) >= max(steady*3/4, m.longestPause()*3/2) {
		return false // it has lasted longer than any pause
	}
	if m.work.bursts && m.work.active && m.readAt.Sub(m.work.newest()) <= longPause {
		return true
	}
	pauses, rested, worked, resting := 0, 0, 0, 0
	for i := range m.trail {
		switch p := &m.trail[i]; {
		case p.active && worked > 0 && resting > 0:
			pauses++
			rested += resting
			worked, resting = worked+1, 0
		case p.active:
			worked, resting = worked+1, 0
		default:
			resting++
		}
	}
	all := rested + worked
	usual := mean(m.within(trailed/2), func(p point) float64 { return p.busy })
	// Short bursts may fall between two readings. A desktop that redraws its windows makes no heat.
	known := m.work.hottest() != nil || !d.Processes.Present() // otherwise the work of an unlisted process may be chance
	return pauses >= burstsOf && rested*5 >= all && !(usual < idleBelow) && (worked*6 >= all && known || m.costly(d))
}

// costly reports whether the trail's mean power is clearly above that at rest.
func (m *memory) costly(d *device) bool {
	return mean(m.within(2*time.Minute), func(p point) float64 { return p.power }) > 1.25*d.idleWatts+15
}

// longestPause returns the longest pause in the trail between two times of work.
func (m *memory) longestPause() (longest time.Duration) {
	var rested time.Time
	worked := false
	for i := range m.trail {
		p := &m.trail[i]
		switch {
		case p.active && worked && !rested.IsZero():
			longest = max(longest, p.time.Sub(rested))
			rested = time.Time{}
		case p.active:
			worked, rested = true, time.Time{}
		case rested.IsZero():
			rested = p.time
		}
	}
	return longest
}

// credit adds a reading to the accounts of those who work.
func (m *memory) credit(d *device, since time.Duration) {
	w := &m.work
	sum := 0.0
	for _, p := range d.culprits {
		sum += highest(d.shareOf(p), 0) + 0.1
	}
	watts := highest(d.power-orElse(d.idleWatts, 0), 1)
	heat := watts * max(since.Seconds(), 0.1)
	hidden, pauses := d.hidden(), m.longestPause()
	listed := 0.0 // the part of the heat that visible processes make
	for _, p := range d.culprits {
		share := highest(d.shareOf(p), 0)
		if hidden && share < idleBelow {
			continue
		}
		part := (share + 0.1) / max(sum, orElse(d.util, 0))
		a := w.account(p)
		if a == nil {
			if len(w.accounts) < maxAccounts {
				w.accounts = append(w.accounts, account{})
				a = &w.accounts[len(w.accounts)-1]
			} else if a = w.coolest(); a.last.Equal(m.readAt) || a.heat > part*heat {
				continue // those that do more are enough
			}
			*a = account{process: *p, begun: m.firstShare(p), share: share, watts: part * watts}
			a.spent.worked = m.readAt.Sub(a.begun)
		} else if longest := max(pause, min(pauses*3/2, longPause)); m.readAt.Sub(a.last) >= longest || !w.bursts && m.readAt.Sub(a.last)-since >= pause {
			a.begun = m.readAt
		}
		a.spent.goOn(m.readAt, a.last, since)
		a.process, a.last = *p, m.readAt
		if !m.moved.IsZero() && m.readAt.Sub(m.moved) <= gap {
			a.forgetStart()
		}
		if since > 0 {
			a.share += share / 3
			a.watts += (part*watts - a.watts) * (1 - math.Exp(-since.Seconds()/restsAfter.Seconds()))
		}
		if !gone(p) {
			a.heat += part * heat
			listed += part
		}
	}
	if hidden {
		w.hidden += max(1-listed, 0) * heat
	}
}

// firstShare returns since when a process may have worked whose work counts from this reading on: a little work must last before it counts.
// Nobody else worked in those readings.
func (m *memory) firstShare(p *gpu.Process) time.Time {
	started, known := p.Facts.Started.Get()
	first := m.readAt
	for i := len(m.trail) - 2; known && i >= 0 && m.trail[i].busy >= idleBelow && !m.trail[i].active && !m.trail[i].time.Before(started); i-- {
		first = m.trail[i].time
	}
	return first
}

// coolest returns the account with the least heat.
func (w *stretch) coolest() *account {
	least := &w.accounts[0]
	for i := range w.accounts {
		if a := &w.accounts[i]; a.heat < least.heat {
			least = a
		}
	}
	return least
}

// hottest returns the account whose process caused the heat; nil if no listed process did. That is the process that made most of it, unless
// another one has worked since with about as many watts, long enough to warm the device by itself: then the first one's heat has left.
func (w *stretch) hottest() *account {
	var most *account
	for i := range w.accounts {
		if a := &w.accounts[i]; a.heat > w.hidden && (most == nil || a.heat > most.heat) {
			most = a
		}
	}
	if most == nil {
		return nil
	}
	best := most
	for i := range w.accounts {
		a := &w.accounts[i]
		if a.last.Sub(best.last) >= restsAfter && a.heat > w.hidden && a.heat >= 0.12*most.heat && a.watts >= 0.6*most.watts {
			best = a
		}
	}
	return best
}

// lately returns the listed processes that work, or did until a short while ago, the one with most work first.
func (m *memory) lately(d *device) []*gpu.Process {
	type candidate struct {
		p *gpu.Process
		a *account
		i int
	}
	var found []candidate
	told := false // somebody does a part worth mentioning
	list := d.Processes.Or(nil)
	for i := range list {
		if a := m.work.account(&list[i]); a != nil && m.work.last.Sub(a.last) <= longPause {
			found = append(found, candidate{&list[i], a, i})
			told = told || a.share >= 1
		}
	}
	if !told && len(d.culprits) > 0 && (!m.work.bursts || m.work.hottest() == nil) { // between two bursts no share is left
		return d.culprits
	}
	slices.SortFunc(found, func(x, y candidate) int {
		return cmp.Or(cmp.Compare(y.a.share, x.a.share), cmp.Compare(y.a.heat, x.a.heat), x.i-y.i)
	})
	out := make([]*gpu.Process, len(found))
	for i := range found {
		out[i] = found[i].p
	}
	return out
}

func firsts[T any](list []T, n int) []T { return list[:min(len(list), n)] }
