package record

import (
	"cmp"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

const (
	// unwatched is for how long nobody may have looked at a device for a pid alone to say that the process is still the same: the
	// system gives pids to other processes in time. A known start says so after any time.
	unwatched = time.Hour
	// mostWaits is for how many looks a session waits while a process has its pid and the machine has not told of that process yet,
	// as in the first readings of a run.
	mostWaits = 10
)

// unwatched is that time, and no less than the longest between two readings that follow one another.
func (r *Recorder) unwatched() time.Duration { return max(unwatched, r.longest()) }

// A sighting describes the process that has a session's pid, seen after the session was last seen.
type sighting struct {
	pid                    int
	seenAt                 time.Time
	start                  time.Time // of the process; zero: not known
	kind                   gpu.ProcessType
	name, program, command string    // empty: not known, or may not be shown
	told                   bool      // the machine has told of the process
	gone                   bool      // the machine has no process of this pid any more: only the driver lists it
	boot                   string    // of the machine; empty: not known
	booted                 time.Time // when the machine was started; zero: not known
	hostRead               bool      // the machine was read, too
	next                   bool      // there was no look in between
}

// sighting is one in the newest look. HostRead says that the machine was read, too.
func (n *node) sighting(p *gpu.Process, hostRead bool, seenAt time.Time) sighting {
	f := &p.Facts
	return sighting{
		pid: p.PID, seenAt: seenAt, start: f.Started.Or(time.Time{}), kind: p.Type,
		name: f.Name.Or(""), program: f.Program.Or(""), command: f.Command.Or(""), told: f.Exists.Present() || f.Name.Present(),
		gone: !f.Exists.Or(true),
		boot: n.boot, booted: n.booted, hostRead: hostRead, next: true,
	}
}

// beginning is the first sighting of a session of this run. Next says that it was in the first look of the run.
func (n *node) beginning(s *session, next bool) sighting {
	return sighting{
		pid: s.PID, seenAt: s.From, start: s.start, kind: s.Type,
		name: s.Name, program: s.Program, command: s.Command, told: s.described() || s.gone, gone: s.gone,
		boot: cmp.Or(s.Boot, n.boot), booted: n.booted, hostRead: n.boot != "" || !n.booted.IsZero(), next: next,
	}
}

// described reports whether the machine has told of the session's process.
func (s *session) described() bool { return !s.start.IsZero() || s.Name != "" }

// A verdict says whether a process is that of a session.
type verdict int

const (
	another verdict = iota
	undecided
	own
)

// recognize says whether a process is a session's own. Where its start is not known, a pid that is still on the device says so, unless
// something speaks against it, or nobody has looked for longer than a limit. Unbroken says that it was seen in the reading just before.
func (s *session) recognize(p *sighting, unbroken bool, limit time.Duration) verdict {
	switch {
	case s.PID != p.pid || !p.next || !sameBoot(s.Boot, p.boot):
		return another
	case !p.start.IsZero() && !s.start.IsZero():
		if p.start.Sub(s.start).Abs() > sameStart {
			return another
		}
		return own
	case !p.start.IsZero() && !p.start.After(s.From.Add(sameStart)): // it had the pid when the session began
		return own
	case !p.start.IsZero() && (!unbroken || p.start.After(s.To.Add(sameStart))):
		return another
	case unbroken:
		return own
	case p.seenAt.Sub(s.To).Abs() > limit || s.restarted(p) || s.contradicts(p):
		return another
	case !p.hostRead || s.described() && !p.told:
		return undecided
	}
	return own
}

func sameBoot(a, b string) bool { return a == b || a == "" || b == "" }

// restarted reports whether the machine was started after the session was seen last, where no boot ID says so.
func (s *session) restarted(p *sighting) bool {
	return (s.Boot == "" || p.boot == "") && p.booted.After(s.To.Add(sameStart))
}

// contexts are those on a device that a process of a type has, as bits; none where the type is not known.
var contexts = map[gpu.ProcessType]uint8{gpu.TypeCompute: 1, gpu.TypeMPS: 1, gpu.TypeGraphics: 2, gpu.TypeComputeGraphics: 3}

// contradicts reports whether the process has another name than that of the session, uses the device in another way, or has ended
// while that of the session was still there.
func (s *session) contradicts(p *sighting) bool {
	if p.gone && !s.gone && s.described() {
		return true
	}
	for _, texts := range [...][2]string{{s.Name, p.name}, {s.Program, p.program}, {s.Command, p.command}} {
		if before, now := store.Text(texts[0]), store.Text(texts[1]); before != "" && now != "" && before != now {
			return true
		}
	}
	before, now := contexts[s.Type], contexts[p.kind]
	return before != 0 && now != 0 && before&now == 0
}
