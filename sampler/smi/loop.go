package smi

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A loop is a command that repeatedly prints a line for each of its devices.
type loop struct {
	keys []string // its devices; nil: all that the driver has
	q    query

	stop    context.CancelFunc // nil before it runs
	running bool
	began   time.Time
	next    time.Time // when it may start again
	silent  clockwork.Timer

	seen     map[string]int // lines by device, in this run
	heard    time.Time      // the newest line
	barren   int            // runs in a row without a line
	foreign  time.Time      // time of the newest unknown line
	strange  int            // number of unknown lines in this run
	quote    string         // the first unknown line, of this run or the previous one
	err      *gpu.Advice    // what it said about the driver
	badField string
	stalled  bool      // silent, or printing again for too short a time
	back     time.Time // since when it prints lines again; zero: it is silent, or never was
}

func (l *loop) id() string { return strings.Join(l.keys, ",") }

// rounds returns the most lines that the loop has printed for one device.
func (l *loop) rounds() (most int) {
	for _, n := range l.seen {
		most = max(most, n)
	}
	return most
}

// whole reports whether the loop has printed a line for each of its devices, or can't.
func (l *loop) whole(expected int) bool {
	if l.keys != nil {
		expected = len(l.keys)
	}
	return l.rounds() > 1 || expected > 0 && len(l.seen) >= expected || l.stalled
}

// A heard is a device's newest line.
type heard struct {
	row
	read    time.Time
	spacing time.Duration // time since the previous line
}

// fresh reports whether the line is as new as it can be.
func (h *heard) fresh(now time.Time, period time.Duration) bool {
	return now.Sub(h.read) <= 2*max(h.spacing, period)
}

// due is when the next line is expected.
func (h *heard) due(period time.Duration) time.Time { return h.read.Add(max(h.spacing, period)) }

// spawn runs a command on its own goroutine. It calls line for each line, and ended when the command has ended, both with the lock held.
// The caller holds the lock.
func (s *Source) spawn(ctx context.Context, id string, args []string, line func(string), ended func(error)) {
	s.flying++
	s.lingering[id]++
	locked := func(text string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		line(text)
		s.wake()
	}
	go func() {
		out, errs := &lines{f: locked}, &lines{f: locked}
		err := s.run(ctx, out, errs, args...)
		out.end()
		errs.end()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.flying--
		if s.lingering[id]--; s.lingering[id] == 0 {
			delete(s.lingering, id)
		}
		ended(err)
		s.wake()
	}()
}

// wake wakes everybody who waits for a change. The caller holds the lock.
func (s *Source) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// start starts a loop. The caller holds the lock.
func (s *Source) start(l *loop, now time.Time) {
	if s.lingering[l.id()] > 0 || s.flying >= mostCommands {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	l.stop, l.running, l.began, l.q = stop, true, now, s.query
	l.seen, l.err, l.badField, l.stalled, l.back = map[string]int{}, nil, "", false, time.Time{}
	l.strange = 0
	args := []string{
		"--query-gpu=" + l.q.names(), "--format=csv,noheader,nounits",
		fmt.Sprintf("--loop-ms=%d", max(s.cfg.period().Milliseconds(), 1)),
	}
	if l.keys != nil {
		args = append(args, "--id="+l.id())
	}
	l.silent = s.cfg.Clock.AfterFunc(5*s.cfg.Deadline, func() { s.stuckIn(l) })
	s.spawn(ctx, l.id(), args, func(text string) { s.hear(l, text) }, func(err error) {
		stop()
		l.silent.Stop()
		l.running = false
		if len(l.seen) == 0 {
			l.barren++
		}
		pause := min(firstRetry<<min(l.barren, 8), lastRetry)
		if l.barren == 0 {
			pause = 0
		}
		l.next = s.cfg.Clock.Now().Add(pause)
		if l.err == nil && err != nil {
			l.err = exitOf(err)
		}
		s.log.Debug("a loop of nvidia-smi ended", "devices", l.id(), "err", err, "said", l.err)
	})
}

const (
	mostCommands = 64  // that may run at once, including those that can't be ended
	mostDevices  = 256 // that are believed
)

// hear takes a line of a loop. The caller holds the lock.
func (s *Source) hear(l *loop, text string) {
	if !slices.Contains(s.loops, l) {
		return // it is being ended
	}
	now := s.cfg.Clock.Now()
	r, ok := l.q.read(text, s.nameOf)
	if !ok {
		s.told(l, text, now)
		return
	}
	if s.rows[r.key] == nil && len(s.rows) >= mostDevices {
		return
	}
	h := &heard{row: r, read: now}
	before := s.rows[r.key]
	if before != nil && l.seen[r.key] > 0 {
		h.spacing = min(now.Sub(before.read), s.cfg.Deadline)
	}
	s.rows[r.key] = h
	s.dropTwin(h)
	l.seen[r.key] = max(l.seen[r.key]+1, l.rounds()-1) // a device that was away is not counted as missing
	l.heard, l.barren, l.err = now, 0, nil
	if l.stalled && l.back.IsZero() {
		l.back = now
	}
	l.stalled = l.stalled && now.Sub(l.back) < sometimes // a device that only answers now and then disturbs no others
	l.silent.Reset(max(s.cfg.stall(), 2*h.spacing))
	if s.trouble[r.key] != nil { // back: it keeps its own loop for a while
		delete(s.trouble, r.key)
		s.apart[r.key] = now
	}
	delete(s.unlisted, r.key)
	if r.unread == "" {
		s.count = r.count
	} else if before != nil && before.unread == "" {
		s.detailsDue = now // the XML has its readings in another form
	}
	if v := r.driver.Or(""); v != "" && v != s.driver.Version.Or("") {
		s.driver.Version = r.driver
		s.log.Info("the NVIDIA driver answers", "driver", v, "devices", r.count)
	}
	s.forgetUnlisted(l)
}

// nameOf returns the name of the device with a UUID, from the XML or an earlier line; empty if not known.
func (s *Source) nameOf(uuid string) string {
	for _, x := range s.details {
		if strings.TrimSpace(x.UUID) == uuid {
			return clean(x.Name)
		}
	}
	for _, h := range s.rows {
		if h.device.UUID == uuid && h.unread == "" && h.device.Name != unnamed {
			return h.device.Name
		}
	}
	return ""
}

// dropTwin handles two lines with one UUID: the later one is a driver error, and gets a UUID made from its address.
func (s *Source) dropTwin(h *heard) {
	for key, other := range s.rows {
		if key != h.key && other.device.UUID == h.device.UUID && h.device.PCI != "" {
			h.device.UUID = gpu.UUIDAt(h.device.PCI)
		}
	}
}

// note logs an unknown line, once if it repeats.
func (s *Source) note(text string) {
	if text != s.noted {
		s.noted = text
		s.log.Debug("nvidia-smi printed a line that is no data", "line", text)
	}
}

// told takes a line that is not data.
func (s *Source) told(l *loop, text string, now time.Time) {
	t, ok := sentenceOf(text)
	switch {
	case !ok:
		if text = clean(text); text != "" {
			if l.foreign, l.strange = now, l.strange+1; l.strange == 1 {
				l.quote = text
			}
			s.note(text)
		}
	case t.field != "":
		l.badField = t.field
	case t.about():
		key := t.address
		for k, h := range s.rows {
			if key == "" && fmt.Sprint(h.index) == t.index {
				key = k
			}
		}
		if key == "" {
			l.err = t.err
			return
		}
		if s.trouble[key] == nil && len(s.trouble) < mostDevices {
			s.trouble[key] = &trouble{err: t.err, since: now}
		}
	case t.err != nil:
		l.err = t.err
	}
}

// forgetUnlisted forgets devices of a loop that goes on without them, unless it printed lines that may have been theirs.
func (s *Source) forgetUnlisted(l *loop) {
	const often = 3
	if l.heard.Sub(l.foreign) < s.cfg.stall() {
		return
	}
	for key := range s.rows {
		mine := l.keys == nil || slices.Contains(l.keys, key)
		if mine && s.trouble[key] == nil && l.rounds()-l.seen[key] >= often {
			delete(s.rows, key)
			delete(s.details, key)
			s.unlisted[key] = true
		}
	}
}

// stuckIn is called when a loop is silent: one of its devices does not answer. Each device gets its own loop. After a long time, the
// command of a single device is ended.
func (s *Source) stuckIn(l *loop) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || !l.running || !slices.Contains(s.loops, l) {
		return
	}
	now := s.cfg.Clock.Now()
	l.stalled, l.back = true, time.Time{}
	members := l.keys
	if members == nil {
		members = s.listed()
	}
	if len(members) > 1 {
		s.log.Warn("nvidia-smi stopped in the middle; each device gets a command of its own", "devices", members)
		for _, key := range members {
			s.apart[key] = now
		}
		s.arrange(now)
		s.restartOthers()
	} else if now.Sub(l.heard) >= lastRetry && now.Sub(l.began) >= lastRetry {
		l.stop()
	} else {
		l.silent.Reset(lastRetry)
	}
	s.wake()
}

// restartOthers ends pmon and the XML query, which may be stuck in the same device.
func (s *Source) restartOthers() {
	if s.pmon.stop != nil {
		s.pmon.stop()
	}
	if s.stopDetails != nil {
		s.stopDetails()
	}
	s.detailsDue = time.Time{}
}

// listed returns the devices that a loop for all of them reads, as far as known.
func (s *Source) listed() []string {
	var keys []string
	add := func(key string) {
		if !slices.Contains(keys, key) && !s.unlisted[key] && !s.asleep[key] {
			keys = append(keys, key)
		}
	}
	for key := range s.rows {
		add(key)
	}
	for key := range s.trouble {
		add(key)
	}
	if s.cardsCount() {
		for _, key := range s.cards {
			add(key)
		}
	}
	slices.Sort(keys)
	return keys
}

// cardsCount reports whether the kernel's cards are the driver's: a container may see more of them.
func (s *Source) cardsCount() bool {
	return s.count == 0 || s.count == len(s.cards) || len(s.asleep) > 0
}

// groups returns the devices that share a loop: all of them, unless one sleeps, fails or does not answer. A nil group means all that the
// driver has.
func (s *Source) groups() [][]string {
	keys := s.listed()
	apart := func(key string) bool { return s.trouble[key] != nil || !s.apart[key].IsZero() }
	if len(s.asleep) == 0 && !slices.ContainsFunc(keys, apart) {
		return [][]string{nil}
	}
	var out [][]string
	if together := slices.DeleteFunc(slices.Clone(keys), apart); len(together) > 0 {
		out = append(out, together)
	}
	for _, key := range keys {
		if apart(key) {
			out = append(out, []string{key})
		}
	}
	return out
}

// arrange makes the loops match the groups, and starts the loops that are due.
func (s *Source) arrange(now time.Time) {
	groups := s.groups()
	same := func(l *loop, g []string) bool { return (l.keys == nil) == (g == nil) && slices.Equal(l.keys, g) }
	s.loops = slices.DeleteFunc(s.loops, func(l *loop) bool {
		if slices.ContainsFunc(groups, func(g []string) bool { return same(l, g) }) {
			return false
		}
		s.end(l)
		return true
	})
	for _, g := range groups {
		if !slices.ContainsFunc(s.loops, func(l *loop) bool { return same(l, g) }) {
			s.loops = append(s.loops, &loop{keys: g})
		}
	}
	for _, l := range s.loops {
		if !l.running && !now.Before(l.next) {
			s.start(l, now)
		}
	}
}

func (s *Source) end(l *loop) {
	if l.stop != nil {
		l.stop()
		l.silent.Stop()
	}
}
