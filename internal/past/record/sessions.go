package record

import (
	"cmp"
	"math"
	"strconv"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/insight/attribute"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// sameStart is by how much the start of one process may differ from reading to reading, and from run to run: it is
// counted from the machine's start, which is known to a second.
const sameStart = 2 * time.Second

// methodMixed is the method of joules that were divided in more than one way.
const methodMixed = "mixed"

// sessions are those of one device. A look is a list of its processes.
type sessions struct {
	looks  int
	began  time.Time // the first look of this run, by the clock as it was set then
	looked time.Time // the newest look; zero before the first
	breaks int       // of the node's readings, at that
	lost   bool      // since then the device did not answer
	live   []*session
	found  map[int]int // by pid, in the newest look
	seen   []seen
	accounted
	owing []*session // that have ended and still owe their rest, the newest last
	rest  rest
}

// mostOwing is how many sessions of a device wait for its idle floor after their end.
const mostOwing = 100

// A session is one that may go on.
type session struct {
	store.Session
	start time.Time // of the process, by the clock as it is set now; zero: not known
	look  int       // the number of the newest look that has it; 0: none of this run
	gone  bool      // the machine has no such process any more: only the driver lists it

	owed owed // its joules since the idle floor of its device is not known

	waited int      // looks in which it was undecided whether the process with its pid is its own
	waits  bool     // it was so in the newest
	rival  *session // an earlier one that may be of the same process; nil: there is none
}

// held reports whether it may turn out to be a part of another session: it is not written before.
func (s *session) held() bool { return s.rival != nil && s.rival.waits }

// seen is one process in a look. A process can have several elements in the list, such as one for each MIG instance.
type seen struct {
	process    *gpu.Process
	memory, sm float64 // bytes, and percent of the device; NaN: not known
	watts      float64
	busy       bool
	taken      bool // a session has it
}

// move moves all times that are not yet over by how far the clock was set.
func (x *sessions) move(change time.Duration) {
	for _, s := range x.live {
		s.move(change)
	}
	for i := range x.gone {
		x.gone[i].from, x.gone[i].to = x.gone[i].from.Add(change), x.gone[i].to.Add(change)
	}
}

func (s *session) move(change time.Duration) {
	s.From, s.To = s.From.Add(change), s.To.Add(change)
	if !s.start.IsZero() {
		s.start = s.start.Add(change)
	}
}

// observeSessions takes in who is on a device.
func (r *Recorder) observeSessions(n *node, d *device, m *insight.Moment, i int, readAt time.Time, fresh bool) {
	seen, x := &m.Snapshot.Devices[i], &d.sessions
	switch {
	case seen.State == gpu.StateLost, seen.State == gpu.StateNotAnswering:
		r.lose(d)
		return
	case seen.State == gpu.StateAsleep: // nobody uses it
		x.list(nil, nil)
	case !seen.Processes.Present() || !fresh:
		if readAt.Sub(x.looked) > r.longest() {
			r.suspend(d, store.Unseen)
		}
		return
	default:
		x.list(seen.Processes.Or(nil), m.Attribution[i].Shares)
	}
	passed := readAt.Sub(x.looked)
	follows := x.looks > 0 && x.breaks == n.breaks && passed > 0 && passed <= r.longest()
	if x.looks++; x.looks == 1 {
		x.began = readAt
	}
	power := &m.Attribution[i].Power
	drawn := trusted(seen.Power.Draw, math.MaxFloat64)
	floor := trusted(seen.IdleFloor, math.MaxFloat64)
	x.settleOwed(r, floor)
	if math.IsNaN(floor) && fresh {
		x.rest.observe(seen)
	}
	for _, s := range x.live {
		unbroken := follows && s.look == x.looks-1
		p, goesOn := r.find(n, x, s, m.Snapshot.Host != nil, unbroken, readAt)
		if !goesOn {
			continue
		}
		if s.waited > 0 {
			x.absorb(s)
			unbroken, s.waited = follows && s.look == x.looks-1, 0
		}
		if p == nil {
			continue
		}
		p.taken = true
		s.meet(p, readAt)
		if unbroken {
			s.count(p, passed, string(power.Method), drawn, floor)
		}
		s.look = x.looks
	}
	for j := range x.seen {
		if p := &x.seen[j]; !p.taken {
			s := &session{Session: store.Session{SessionKey: store.SessionKey{
				Key: d.Key(), Boot: n.boot, PID: p.process.PID, Started: milliseconds(p.process.Facts.Started.Or(time.Time{})), Begin: readAt,
			}, From: readAt, To: readAt}, look: x.looks}
			s.meet(p, readAt)
			s.rival = x.waiting(p.process.PID)
			x.live = append(x.live, s)
		}
	}
	r.settleSessions(x, follows)
	x.looked, x.breaks, x.lost = readAt, n.breaks, false
}

// find finds the process of a session in the newest look, and says whether the session goes on. If its process has gone while it waited,
// it goes on up to the look that had the process last.
func (r *Recorder) find(n *node, x *sessions, s *session, hostRead, unbroken bool, readAt time.Time) (p *seen, goesOn bool) {
	waited := s.waits
	s.waits = false
	j, listed := x.found[s.PID]
	if !listed {
		return nil, waited
	}
	if p = &x.seen[j]; p.taken {
		return nil, false
	}
	sighting := n.sighting(p.process, hostRead, readAt)
	switch s.recognize(&sighting, unbroken, r.unwatched()) {
	case another:
		return nil, false
	case undecided:
		if s.rival == nil && s.waited < mostWaits {
			s.waits = true
			s.waited++
			return nil, false
		}
	}
	return p, true
}

// settleSessions writes the sessions of the newest look, and ends those that are not in it.
func (r *Recorder) settleSessions(x *sessions, follows bool) {
	live := x.live[:0]
	for _, s := range x.live {
		switch {
		case s.rival != nil && s.look == absorbed:
			continue
		case s.waits, s.held():
			if s.waits && s.waited == 1 { // if it turns out to have ended, this is how
				s.Outcome = store.Unseen
				if x.lost && s.look > 0 {
					s.Outcome = store.GPULost
				}
			}
			live = append(live, s)
			continue
		case s.look == x.looks:
			s.Outcome = store.Open
			live = append(live, s)
		case s.waited > 0: // its process was another one
		case s.look == 0:
			s.Outcome = store.Unseen
		case x.lost:
			s.Outcome = store.GPULost
		case follows && s.look == x.looks-1:
			s.Outcome = store.Ended
		default:
			s.Outcome = store.Unseen
		}
		r.out.session(s.estimated(&x.rest))
		if s.Outcome != store.Open {
			x.end(&s.Session)
			if s.owed.known > 0 {
				x.owing = append(x.owing[max(0, len(x.owing)-mostOwing+1):], s)
			}
		}
	}
	clear(x.live[len(live):])
	x.live = live
}

// lose takes note of a device that does not answer.
func (r *Recorder) lose(d *device) {
	d.sessions.lost = true
	r.suspend(d, store.GPULost)
}

// suspend ends the sessions of a device whose processes are unknown for now. A session continues if its process is seen again.
func (r *Recorder) suspend(d *device, outcome store.Outcome) {
	for _, s := range d.sessions.live {
		if s.Outcome == store.Open && !s.held() {
			s.Outcome = outcome
			if s.look == 0 {
				s.Outcome = store.Unseen
			}
			r.out.session(s.estimated(&d.sessions.rest))
		}
	}
}

// list makes seen of a list of processes.
func (x *sessions) list(list []gpu.Process, shares []attribute.Share) {
	x.seen = x.seen[:0]
	if x.found == nil {
		x.found = map[int]int{}
	}
	clear(x.found)
	for i := range list {
		p := &list[i]
		j, known := x.found[p.PID]
		if !known {
			j = len(x.seen)
			x.found[p.PID] = j
			x.seen = append(x.seen, seen{process: p, memory: math.NaN(), sm: math.NaN(), watts: math.NaN()})
		}
		if i < len(shares) && shares[i].Repeated {
			continue
		}
		s := &x.seen[j]
		s.memory = plus(s.memory, trusted(p.Memory, math.MaxUint64))
		s.sm = min(plus(s.sm, trusted(p.SM, 100)), 100) // stays NaN
		if i < len(shares) {
			s.watts = plus(s.watts, trusted(shares[i].Power, math.MaxFloat64))
		}
		for _, share := range [...]gpu.Reading[gpu.Percent]{p.SM, p.Encoder, p.Decoder, p.Video} {
			v, ok := share.Trusted()
			s.busy = s.busy || ok && v >= gpu.BusyFrom
		}
	}
}

// plus adds two numbers of which either may not be known.
func plus(a, b float64) float64 {
	switch {
	case math.IsNaN(a):
		return b
	case math.IsNaN(b):
		return a
	}
	return a + b
}

// trusted is a reading that is not negative, and not above the most; NaN where it can't be trusted.
func trusted[T ~float64 | ~uint64](r gpu.Reading[T], most float64) float64 {
	if v, ok := r.Trusted(); ok && float64(v) >= 0 {
		return min(float64(v), most)
	}
	return math.NaN()
}

// absorbed is the look of a session that has become a part of another one.
const absorbed = -1

// waiting returns the session that waits for details about a process; nil if there is none.
func (x *sessions) waiting(pid int) *session {
	for _, s := range x.live {
		if s.waits && s.PID == pid {
			return s
		}
	}
	return nil
}

// absorb merges into a session what was seen of its process while it was undecided whether the process belongs to the session.
func (x *sessions) absorb(s *session) {
	for _, part := range x.live {
		if part.look != absorbed && part.rival != nil && (part.rival == s || part.rival.look == absorbed) {
			s.Session, s.look = after(s.Session, part.Session), part.look
			s.owed.add(part.owed)
			part.look = absorbed
		}
	}
}

// meet records that the process was seen, with its current details.
func (s *session) meet(p *seen, seenAt time.Time) {
	if back := seenAt.Sub(s.To); back < 0 { // the clock was set back while nobody looked
		s.From = s.From.Add(back)
	}
	s.To = seenAt
	f := &p.process.Facts
	s.gone = !f.Exists.Or(true)
	if started, ok := f.Started.Get(); ok {
		s.start = started
	}
	if !math.IsNaN(p.memory) {
		s.PeakMemory = gpu.Of(max(s.PeakMemory.Or(0), gpu.Bytes(p.memory)))
	}
	s.Type = p.process.Type
	s.User, s.Name = f.User.Or(s.User), f.Name.Or(s.Name)
	s.Program, s.Command = permitted(f.Program, s.Program), permitted(f.Command, s.Command)
	if c, ok := f.Container.Get(); ok {
		s.Container, s.Image = c.Name.Or(cmp.Or(s.Container, c.ID)), c.Image.Or(s.Image)
	}
	if pod, ok := f.Pod.Get(); ok && !pod.None() {
		if name, named := pod.Name.Get(); named {
			s.Pod = pod.Namespace.Or("") + "/" + name
		} else {
			s.Pod = cmp.Or(s.Pod, pod.UID)
		}
	}
	if u, ok := f.Unit.Get(); ok {
		s.Unit = u.Name
	}
	if j, ok := f.Job.Get(); ok && !j.None() {
		s.Job = "slurm:" + strconv.Itoa(j.ID)
	}
}

// permitted is a text of now, or of before; none where it may not be shown any more.
func permitted(r gpu.Reading[string], before string) string {
	if r.Quality() == gpu.NotPermitted {
		return ""
	}
	return r.Or(before)
}

// count adds the time since the look before. The device drew so many watts, and so many are its idle floor; NaN: not known.
func (s *session) count(p *seen, passed time.Duration, method string, drawn, floor float64) {
	s.Seen += passed
	if p.busy {
		s.Busy += passed
	}
	if !math.IsNaN(p.memory) {
		s.MemorySeconds += p.memory * passed.Seconds()
		s.MemoryKnown += passed
	}
	if !math.IsNaN(p.sm) {
		s.SMSeconds += p.sm / 100 * passed.Seconds()
		s.SMKnown += passed
	}
	switch {
	case math.IsNaN(p.watts):
	case !math.IsNaN(floor):
		s.Joules += p.watts * passed.Seconds()
		s.JoulesKnown += passed
		s.JoulesMethod = mixed(s.JoulesMethod, method)
	case drawn > 0:
		s.owed.joules += p.watts * passed.Seconds()
		s.owed.seconds += p.watts / drawn * passed.Seconds()
		s.owed.known += passed
		s.owed.method = mixed(s.owed.method, method)
	}
}

func mixed(a, b string) string {
	if a == store.Estimated || b == store.Estimated {
		return store.Estimated
	}
	if a != "" && b != "" && a != b {
		return methodMixed
	}
	return cmp.Or(a, b)
}

// after is a session that goes on with one that began later.
func after(before, s store.Session) store.Session {
	if back := s.From.Sub(before.To); back < 0 { // the clock was set back while nobody looked
		before.From = before.From.Add(back)
	}
	out := s
	out.SessionKey, out.From = before.SessionKey, before.From
	out.Seen += before.Seen
	if peak, ok := before.PeakMemory.Get(); ok {
		out.PeakMemory = gpu.Of(max(peak, s.PeakMemory.Or(0)))
	}
	out.MemorySeconds, out.MemoryKnown = s.MemorySeconds+before.MemorySeconds, s.MemoryKnown+before.MemoryKnown
	out.SMSeconds, out.SMKnown = s.SMSeconds+before.SMSeconds, s.SMKnown+before.SMKnown
	out.Joules, out.JoulesKnown = s.Joules+before.Joules, s.JoulesKnown+before.JoulesKnown
	out.JoulesMethod = mixed(before.JoulesMethod, s.JoulesMethod)
	out.Busy += before.Busy
	return out
}
