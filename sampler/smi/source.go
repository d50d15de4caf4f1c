package smi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/nvidia"
	"github.com/gpuwhy/gpuwhy/sampler/perdevice"
)

// A Source reads all NVIDIA GPUs through nvidia-smi.
type Source struct {
	cfg     Config
	run     Run
	log     *slog.Logger
	kernel  *nvidia.Kernel
	set     *perdevice.Set
	closing chan struct{} // closed by Close

	// Only Read uses these.
	pauses nvidia.Pauses
	last   map[string]gpu.Device // as last read, by key

	mu        sync.Mutex
	changed   chan struct{} // closed when something came or ended
	closed    bool
	flying    int            // number of running commands
	lingering map[string]int // by kind, including those being ended
	term      int            // grows when everything starts over

	failure *gpu.Advice // why the last attempt failed
	retry   time.Time

	asking bool // asking for this version's fields
	query  query
	cards  []string        // addresses of the kernel's awake cards
	asleep map[string]bool // addresses of its sleeping cards
	loops  []*loop
	pmon   monitor
	driver gpu.Driver
	count  int // number of devices that the driver has; 0: not known

	rows     map[string]*heard    // each device's newest line, by key
	trouble  map[string]*trouble  // devices that nvidia-smi says it can't read
	apart    map[string]time.Time // devices with their own loop, and since when
	unlisted map[string]bool      // cards of the kernel that the driver does not list

	verdicts map[string]*nvidia.Verdicts // by key, for the life of the source

	details     map[string]*details
	settled     bool // every device has had a line, and the XML, or can't have them
	detailed    bool // the XML has been read, or can't be
	detailsDue  time.Time
	stopDetails context.CancelFunc // nil while the XML is not being read
	stopAsking  context.CancelFunc // nil while not asking for the fields
	noted       string             // the last unknown line in the log
}

// longestUnread is how old the XML may be when it replaces a line: it is then read every 10 s.
const longestUnread = 3 * sometimes / 2

// A trouble is why a device can't be read.
type trouble struct {
	err   *gpu.Advice
	since time.Time
}

// New returns a source. Read starts the program, and looks for it again if it was missing.
func New(cfg Config) *Source {
	cfg.Clock = cmp.Or(cfg.Clock, clockwork.NewRealClock())
	s := &Source{
		cfg:       cfg,
		run:       cfg.Run,
		log:       cfg.Log,
		kernel:    nvidia.NewKernel(cfg.SysfsRoot, cfg.ProcRoot),
		closing:   make(chan struct{}),
		last:      map[string]gpu.Device{},
		changed:   make(chan struct{}),
		lingering: map[string]int{},
		verdicts:  map[string]*nvidia.Verdicts{},
	}
	s.kernel.Suspects = cfg.Suspects
	if s.run == nil {
		s.run = Program(cfg.Program)
	}
	s.set = perdevice.New(cfg.Clock, cfg.Deadline, func() {})
	s.forget()
	return s
}

// forget drops everything that was read. The caller holds the lock if other goroutines exist.
func (s *Source) forget() {
	s.term++
	s.query, s.loops, s.count = nil, nil, 0
	s.driver = gpu.Driver{Source: gpu.SourceNvidiaSMI, Library: gpu.Absent[string](gpu.NotSupported)}
	s.rows, s.trouble, s.apart, s.unlisted = map[string]*heard{}, map[string]*trouble{}, map[string]time.Time{}, map[string]bool{}
	s.details, s.detailed, s.settled, s.detailsDue = map[string]*details{}, false, false, time.Time{}
}

// Name is the source's name on the wire.
func (s *Source) Name() string { return gpu.SourceNvidiaSMI }

// Read returns the newest reading of every device. It waits for a newer one that is due before ctx ends; see [perdevice.Set.Read] for slow
// devices. It waits for the program's first answer up to the deadline, if that is later.
//
// Without a driver, the error wraps a *gpu.Advice, which wraps gpu.ErrNoDriver, gpu.ErrNoLibrary, gpu.ErrVersionMismatch,
// gpu.ErrNotPermitted, gpu.ErrNotAnswering or gpu.ErrNoDevices. Sleeping devices are returned together with the error.
func (s *Source) Read(ctx context.Context) (*gpu.Snapshot, error) {
	cards := s.kernel.Cards()
	awake := func(c nvidia.Card) bool { return !c.Asleep() }
	if len(cards) > 0 && !slices.ContainsFunc(cards, awake) {
		s.pauses = nvidia.Pauses{}
		s.letGo()
		return s.leaveAlone(ctx, cards), nil
	}
	if s.pauses.Pausing(s.cfg.Clock.Now(), cards) {
		s.letGo()
		return s.leaveAlone(ctx, cards), nil
	}
	if err := s.attach(ctx, cards); err != nil {
		s.set.Forget()
		if errors.Is(err, gpu.ErrNoDevices) {
			if missing := s.missing(cards, nil); len(missing) > 0 {
				return s.snapshot(missing), nil
			}
		}
		if asleep := slices.DeleteFunc(slices.Clone(cards), awake); len(asleep) > 0 {
			return s.leaveAlone(ctx, asleep), err
		}
		return nil, err
	}
	devices := s.devices(ctx, cards)
	out := s.set.Read(ctx, devices)
	if s.settling() && !errors.Is(ctx.Err(), context.Canceled) {
		more, cancel := perdevice.WithTimeout(context.WithoutCancel(ctx), s.cfg.Clock, time.Second)
		defer cancel()
		out = s.set.Read(more, s.devices(more, cards))
	}
	for i, d := range out {
		if d.State == gpu.StateOK && i < len(devices) {
			s.last[devices[i].Key] = d
		}
	}
	if s.pauses.Note(s.cfg.Clock.Now(), mayDoze(cards, out)) {
		s.letGo()
	}
	out = append(out, s.missing(cards, out)...)
	if failure := s.misread(); len(out) == 0 && failure != nil {
		return nil, failure
	}
	return s.snapshot(out), nil
}

// missing returns the cards that the driver should list but does not.
func (s *Source) missing(cards []nvidia.Card, devices []gpu.Device) []gpu.Device {
	return s.kernel.Missing(s.cfg.Clock.Now(), cards, devices, func(c nvidia.Card) gpu.Identity {
		if known := s.last[c.Address]; known.UUID != "" {
			return known.Identity
		}
		return c.Identity(gpu.SourceNvidiaSMI)
	})
}

// misread returns an error that quotes the loops' output if none of it is understood; nil if some is.
func (s *Source) misread() *gpu.Advice {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.notUnderstood()
}

// notUnderstood is misread for a caller that holds the lock.
func (s *Source) notUnderstood() *gpu.Advice {
	if len(s.rows)+len(s.trouble) > 0 {
		return nil
	}
	for _, l := range s.loops {
		if l.quote != "" && len(l.seen) == 0 {
			return misunderstood(l.quote)
		}
	}
	return nil
}

// mayDoze reports whether the system would power all cards down if nobody read them.
func mayDoze(cards []nvidia.Card, devices []gpu.Device) bool {
	return len(cards) > 0 &&
		!slices.ContainsFunc(cards, func(c nvidia.Card) bool { return !c.MayDoze() }) &&
		!slices.ContainsFunc(devices, func(d gpu.Device) bool { return !nvidia.Idle(&d) })
}

// leaveAlone runs no command: the devices are as last read.
func (s *Source) leaveAlone(ctx context.Context, cards []nvidia.Card) *gpu.Snapshot {
	devices := make([]perdevice.Device, len(cards))
	for i, c := range cards {
		known := s.last[c.Address]
		identity := c.Identity(gpu.SourceNvidiaSMI)
		if known.UUID != "" {
			identity = known.Identity
		}
		devices[i] = perdevice.Device{
			Key: c.Address, Identity: identity, Asleep: c.Asleep,
			Read: func() (gpu.Device, error) {
				return gpu.Device{Identity: identity, Readings: known.Stale(), Reason: nvidia.LeftAlone}, nil
			},
		}
	}
	out := s.set.Read(ctx, devices)
	for i := range out {
		if d := &out[i]; d.State == gpu.StateOK { // an earlier call is still running
			d.Readings, d.Reason, d.SampledAt = d.Stale(), nvidia.LeftAlone, time.Time{}
		}
	}
	return s.snapshot(out)
}

func (s *Source) snapshot(devices []gpu.Device) *gpu.Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	snap := &gpu.Snapshot{Source: gpu.SourceNvidiaSMI, Devices: devices}
	if s.driver.Version.Present() {
		snap.Drivers = []gpu.Driver{s.driver}
	}
	return snap
}

// attach keeps the commands running, and waits until every device has its first line, or can't have one.
func (s *Source) attach(ctx context.Context, cards []nvidia.Card) error {
	until := s.cfg.Clock.Now().Add(s.cfg.Deadline)
	if patience, ok := ctx.Deadline(); ok && patience.After(until) {
		until = patience
	}
	for {
		ready, changed, err := s.tend(cards)
		if ready || err != nil {
			return err
		}
		if !perdevice.Await(ctx, s.cfg.Clock, changed, s.closing, until, true) {
			s.mu.Lock()
			known, failure := len(s.rows)+len(s.trouble), s.notUnderstood()
			s.mu.Unlock()
			switch {
			case known > 0:
				return nil
			case failure != nil:
				return failure
			}
			return &gpu.Advice{
				What: "nvidia-smi has not answered yet",
				Try:  "run it by hand; if it hangs, look for hung tasks and XIDs in the kernel log (dmesg)",
				Err:  gpu.ErrNotAnswering,
			}
		}
	}
}

// tend starts and ends commands, and reports whether the devices can be read. Otherwise changed is closed when it is worth looking again.
func (s *Source) tend(cards []nvidia.Card) (ready bool, changed <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Clock.Now()
	if s.closed {
		return false, nil, &gpu.Advice{What: "gpuwhy is shutting down", Try: "start it again", Err: gpu.ErrNoDriver}
	}
	if s.failure != nil && now.Before(s.retry) {
		return false, nil, s.failure
	}
	s.failure = nil
	s.notice(cards)
	if s.query == nil {
		s.ask()
		return false, s.changed, nil
	}
	for _, l := range s.loops {
		if failure := s.judge(l, now); failure != nil {
			s.fail(failure, now)
			return false, nil, failure
		}
	}
	for _, l := range s.loops {
		if failure := s.notUnderstood(); failure != nil && l.strange >= 3 && now.Sub(l.began) >= 3*s.cfg.period() {
			s.fail(failure, now)
			return false, nil, failure
		}
	}
	s.reunite(now)
	s.renew(now)
	s.arrange(now)
	if len(s.rows) > 0 {
		s.watch(now)
		s.detail(now)
	}
	s.settled = s.settled || s.whole() && (s.detailed || len(s.rows) == 0)
	return s.settled, s.changed, nil
}

// whole reports whether there is nothing left to wait for: devices without a line can't be read, or don't answer.
func (s *Source) whole() bool {
	waits := func(l *loop) bool {
		alone := len(l.keys) == 1 && (s.trouble[l.keys[0]] != nil || !s.apart[l.keys[0]].IsZero())
		return !alone && !l.whole(s.count)
	}
	return len(s.loops) > 0 && !slices.ContainsFunc(s.loops, waits)
}

// notice records the kernel's cards. When they change, the loops start over: a running loop keeps the devices that it began with.
func (s *Source) notice(cards []nvidia.Card) {
	var all []string
	asleep := map[string]bool{}
	for _, c := range cards {
		if c.Asleep() {
			asleep[c.Address] = true
		} else {
			all = append(all, c.Address)
		}
	}
	if slices.Equal(all, s.cards) {
		return
	}
	s.cards, s.asleep = all, asleep
	for _, l := range s.loops {
		s.end(l)
	}
	s.loops = nil
	s.settled, s.detailsDue = false, time.Time{}
	clear(s.unlisted)
	for key := range asleep {
		delete(s.rows, key)
		delete(s.trouble, key)
		delete(s.apart, key)
	}
	s.wake() // wakes readers waiting for a card that sleeps now
}

// mostHelp is how much of the help is read. It has about 30 KiB.
const mostHelp = 1 << 20

// ask asks which fields this version knows.
func (s *Source) ask() {
	if s.asking || s.lingering["help"] > 0 || s.flying >= mostCommands {
		return
	}
	s.asking = true
	var text strings.Builder
	var failure *gpu.Advice
	ctx, stop := perdevice.WithTimeout(context.Background(), s.cfg.Clock, lastRetry)
	s.stopAsking = stop
	s.spawn(ctx, "help", []string{"--help-query-gpu"}, func(line string) {
		if text.Len() < mostHelp {
			text.WriteString(line + "\n")
		}
		if t, ok := sentenceOf(line); ok && t.err != nil && text.Len() < 4<<10 {
			failure = t.err
		}
	}, func(err error) {
		stop()
		s.asking, s.stopAsking = false, nil
		if s.closed {
			return
		}
		s.query = known(text.String())
		if len(s.query) > 0 {
			return
		}
		s.query = nil
		if failure == nil && err != nil {
			failure = exitOf(err)
		}
		if failure == nil {
			failure = &gpu.Advice{
				What: "nvidia-smi does not list the fields it knows" + quoting(text.String()),
				Try:  "run nvidia-smi --help-query-gpu by hand; gpuwhy needs a driver of the 390 series or later",
				Err:  errors.Join(gpu.ErrNoDriver, errEnded, err),
			}
		}
		s.fail(failure, s.cfg.Clock.Now())
	})
}

// judge decides what follows from the end of a loop. It returns an error if the driver can't be read at all.
func (s *Source) judge(l *loop, now time.Time) *gpu.Advice {
	if l.running || l.stop == nil {
		return nil
	}
	failure := l.err
	if failure == nil && l.barren > 2 {
		failure = &gpu.Advice{
			What: "nvidia-smi exits without an answer",
			Try:  "run it by hand, and look for NVRM lines in the kernel log (dmesg)",
			Err:  errors.Join(gpu.ErrNoDriver, errEnded),
		}
		if l.quote != "" {
			failure = misunderstood(l.quote)
		}
	}
	switch {
	case l.badField != "":
		s.query = s.query.without(l.badField)
		l.next, l.barren, l.badField = now, 0, ""
		return nil
	case failure == nil:
		return nil
	case s.oneFailed(l):
		return nil
	case len(l.keys) == 1 && s.othersAnswer(l, now):
		if s.trouble[l.keys[0]] == nil {
			s.trouble[l.keys[0]] = &trouble{err: failure, since: now}
		}
		return nil
	default:
		return failure
	}
}

// oneFailed reports whether a loop ended because of one of its devices.
func (s *Source) oneFailed(l *loop) bool {
	mine := func(key string) bool { return s.trouble[key] != nil }
	keys := l.keys
	if keys == nil {
		keys = s.listed()
	}
	ofDevice := l.err == nil || errors.Is(l.err, perdevice.ErrLost) || l.keys != nil && errors.Is(l.err, gpu.ErrNoDevices)
	return ofDevice && slices.ContainsFunc(keys, mine)
}

// othersAnswer reports whether another loop answers.
func (s *Source) othersAnswer(l *loop, now time.Time) bool {
	return slices.ContainsFunc(s.loops, func(other *loop) bool {
		return other != l && other.running && now.Sub(other.heard) < s.cfg.stall()+s.cfg.Deadline
	})
}

// reunite lets devices share a loop again after they have answered in their own for a while.
func (s *Source) reunite(now time.Time) {
	for _, l := range s.loops {
		if len(l.keys) != 1 || s.apart[l.keys[0]].IsZero() || !l.running || l.stalled {
			continue
		}
		if h := s.rows[l.keys[0]]; h == nil || h.err != nil {
			continue
		}
		if now.Sub(l.began) >= sometimes && now.Sub(l.heard) < s.cfg.stall() && now.Sub(s.apart[l.keys[0]]) >= sometimes {
			delete(s.apart, l.keys[0])
		}
	}
}

// renew restarts, once a minute, a loop whose devices all fail: a program that found a device lost can report it lost until it ends. A
// device that fails beside others gets its own loop for that.
func (s *Source) renew(now time.Time) {
	for _, l := range s.loops {
		if !l.running || now.Sub(l.began) < seldom {
			continue
		}
		var failing, working []string
		for key := range l.seen {
			if h := s.rows[key]; h != nil && h.err != nil && h.unread == "" {
				failing = append(failing, key)
			} else if h != nil {
				working = append(working, key)
			}
		}
		switch {
		case len(failing) == 0:
		case len(working) == 0:
			l.stop()
		default:
			for _, key := range failing {
				s.apart[key] = now
			}
		}
	}
}

// fail ends all commands, and starts everything over later.
func (s *Source) fail(why *gpu.Advice, now time.Time) {
	s.endAll()
	s.forget()
	s.failure, s.retry = why, now.Add(firstRetry)
}

func (s *Source) endAll() {
	for _, l := range s.loops {
		s.end(l)
	}
	s.loops = nil
	if s.pmon.stop != nil {
		s.pmon.stop()
	}
	s.pmon = monitor{running: s.pmon.running, stop: s.pmon.stop}
	if s.stopDetails != nil {
		s.stopDetails()
	}
}

// letGo ends all commands, so that the devices can fall asleep.
func (s *Source) letGo() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endAll()
	s.term++
	s.rows, s.settled, s.detailed, s.detailsDue = map[string]*heard{}, false, false, time.Time{}
}

// settling reports whether new loops have not answered yet, beside a loop that does not answer.
func (s *Source) settling() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.loops, func(l *loop) bool {
		begins := l.running && len(l.seen) == 0 && s.cfg.Clock.Since(l.began) < time.Second
		return begins && len(l.keys) == 1 && !s.apart[l.keys[0]].IsZero()
	})
}

// devices returns the devices to read: all that have a line or can't have one, and the sleeping cards.
func (s *Source) devices(ctx context.Context, cards []nvidia.Card) []perdevice.Device {
	patience, _ := ctx.Deadline()
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := s.listed()
	byAddress := map[string]nvidia.Card{}
	for _, c := range cards {
		byAddress[c.Address] = c
		if s.asleep[c.Address] && !slices.Contains(keys, c.Address) {
			keys = append(keys, c.Address)
		}
	}
	slices.Sort(keys)
	out := make([]perdevice.Device, 0, len(keys))
	for _, key := range keys {
		d := perdevice.Device{Key: key, Identity: s.identity(key)}
		if c, ok := byAddress[key]; ok {
			d.Asleep = c.Asleep
			if d.Identity.UUID == "" {
				d.Identity = c.Identity(gpu.SourceNvidiaSMI)
			}
		}
		term := s.term
		d.Read = func() (gpu.Device, error) { return s.await(key, term, patience) }
		out = append(out, d)
	}
	return out
}

// identity returns what the device has reported about itself.
func (s *Source) identity(key string) gpu.Identity {
	if h := s.rows[key]; h != nil {
		return h.device.Identity
	}
	if d, ok := s.last[key]; ok {
		return d.Identity
	}
	id := gpu.Identity{UUID: gpu.UUIDAt(key), Vendor: gpu.NVIDIA, Source: gpu.SourceNvidiaSMI, Name: "NVIDIA GPU", PCI: key}
	if !strings.Contains(key, ":") {
		id.UUID, id.PCI = key, ""
	}
	return id
}

// await returns the device's newest line, or the next one if that is overdue or due before patience ends.
func (s *Source) await(key string, term int, patience time.Time) (gpu.Device, error) {
	begun := s.cfg.Clock.Now()
	for {
		d, changed, err := s.newest(key, term, begun, patience)
		if changed == nil {
			return d, err
		}
		select {
		case <-changed:
		case <-s.closing:
		}
	}
}

// newest returns a device, or what to wait for.
func (s *Source) newest(key string, term int, begun, patience time.Time) (gpu.Device, <-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Clock.Now()
	h, t := s.rows[key], s.trouble[key]
	switch {
	case s.closed || term != s.term || s.asleep[key]:
		ended := gpu.Advice{What: "nvidia-smi was stopped", Try: "wait until it starts again", Err: gpu.ErrNotAnswering}
		return gpu.Device{}, nil, &ended
	case t != nil:
		return gpu.Device{}, nil, t.err
	case h == nil && s.unlisted[key]:
		return gpu.Device{}, nil, &gpu.Advice{
			What: "nvidia-smi no longer lists the device",
			Try:  nvidia.Lost.Try,
			Err:  fmt.Errorf("%w: %w", perdevice.ErrLost, gpu.ErrNoDevices),
		}
	case h == nil:
		return gpu.Device{}, s.changed, nil
	case h.read.Before(begun) && (!h.fresh(now, s.cfg.period()) || h.due(s.cfg.period()).Before(patience)):
		return gpu.Device{}, s.changed, nil
	case h.err != nil && (h.unread == "" || s.detailsOf(h) == nil || now.Sub(s.detailsOf(h).read) > longestUnread):
		return gpu.Device{}, nil, h.err
	default:
		return s.compose(h, now), nil, nil
	}
}

// Close ends the program. It waits up to a second, but not for a command that can't be ended. After Close, Read returns an error.
func (s *Source) Close() error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.closing)
	}
	s.endAll()
	if s.stopAsking != nil {
		s.stopAsking()
	}
	s.mu.Unlock()
	s.set.Close()
	until := s.cfg.Clock.Now().Add(time.Second)
	for {
		s.mu.Lock()
		flying, changed := s.flying, s.changed
		s.mu.Unlock()
		if flying == 0 || !perdevice.Await(context.Background(), s.cfg.Clock, changed, nil, until, false) {
			return nil
		}
	}
}

var _ io.Writer = (*lines)(nil)
