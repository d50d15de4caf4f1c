package record

import (
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// goneFor is how long a session is remembered after its end, not to be taken for one that only the driver knows of.
const goneFor = time.Hour

// accounted is what the driver's accounting told of a device.
type accounted struct {
	told map[accountID]bool // in the newest Moment
	gone []gone             // sessions that ended, the oldest first
}

// An accountID is a process that the driver accounted for: a pid that is used again has another start.
type accountID struct {
	pid     int
	started time.Time
}

// gone is a session that ended.
type gone struct {
	pid      int
	from, to time.Time
}

// end remembers a session that ended.
func (a *accounted) end(s *store.Session) {
	old := 0
	for old < len(a.gone) && s.To.Sub(a.gone[old].to) > goneFor {
		old++
	}
	a.gone = append(slices.Delete(a.gone, 0, old), gone{s.PID, s.From, s.To})
}

// observeAccounted makes sessions of processes that came and went between two readings, of which the driver's accounting
// tells. One that was seen to run has a session already.
func (r *Recorder) observeAccounted(n *node, d *device, list gpu.Reading[[]gpu.AccountedProcess]) {
	x := &d.sessions
	all, accounting := list.Get()
	if !accounting {
		x.gone = nil
		return // what was told stays told
	}
	told := make(map[accountID]bool, len(all))
	for i := range all {
		p := &all[i]
		id := accountID{p.PID, p.Started}
		told[id] = true
		if !x.told[id] && !x.saw(p) {
			r.out.session(accountedSession(d.Key(), n.boot, p))
		}
	}
	x.told = told
}

// saw reports whether a session is of the process: it had the same pid at the same time.
func (x *sessions) saw(p *gpu.AccountedProcess) bool {
	same := func(pid int, from, to time.Time) bool {
		return pid == p.PID && !from.After(p.Ended().Add(sameStart)) && !to.Before(p.Started.Add(-sameStart))
	}
	return slices.ContainsFunc(x.live, func(s *session) bool { return same(s.PID, s.From, s.To) }) ||
		slices.ContainsFunc(x.gone, func(g gone) bool { return same(g.pid, g.from, g.to) })
}

// accountedSession is a session of which only the driver knows.
func accountedSession(device store.Key, boot string, p *gpu.AccountedProcess) store.Session {
	began := milliseconds(p.Started)
	s := store.Session{
		SessionKey: store.SessionKey{Key: device, Boot: boot, PID: p.PID, Begin: began},
		Type:       gpu.TypeUnknown,
		From:       began, To: began.Add(p.Ran), Outcome: store.Ended, Seen: p.Ran,
		PeakMemory: p.PeakMemory, Accounted: true,
	}
	if share, ok := p.Utilization.Trusted(); ok {
		s.SMSeconds, s.SMKnown = float64(share)/100*p.Ran.Seconds(), p.Ran
		s.Busy = time.Duration(float64(share) / 100 * float64(p.Ran))
	}
	return s
}
