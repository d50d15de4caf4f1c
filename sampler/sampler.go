// Package sampler decides when the GPUs of one node are read, and combines all reports into one
// snapshot. Only sources know a driver, and they don't import this package. The sampler keeps
// listing devices that it has seen before, gives each device a stable index, and retries failed
// sources.
package sampler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/clock"
	"github.com/gpuwhy/gpuwhy/sampler/plausible"
)

// A Source reads every device of one kind of driver. Read returns what the source
// could read, even together with an error, and returns soon after ctx ends. The
// caller owns the result: the source never changes it afterwards. The sampler sets
// the devices' Node and Index. Only a recording sets Failures and Breaks, which are
// the recorded machine's.
//
// Without a driver, Read returns an error that wraps a [gpu.Advice], and the sampler
// calls it again later. One goroutine at a time calls Read.
type Source interface {
	Name() string // as on the wire, such as gpu.SourceNVML
	Read(ctx context.Context) (*gpu.Snapshot, error)
	// Close releases the driver. It does not wait for a hanging call.
	Close() error
}

// A Host knows the machine around the devices.
type Host interface {
	// Read returns what it could read, even together with an error. The sampler sets SampledAt.
	Read(ctx context.Context) (gpu.Host, error)
	// Describe fills in the facts of this machine's processes, in place. Only their pids are set.
	Describe(ctx context.Context, processes []gpu.Process)
}

// A KernelLog reads what drivers wrote about devices to the kernel log.
type KernelLog interface {
	// Read reads the new lines; now is the clock's time. It returns soon after ctx ends.
	Read(ctx context.Context, now time.Time)
	// Describe adds the errors to the devices of a reading, in place, and merges them with
	// the errors that the source reported. It returns notes for the snapshot.
	Describe(now time.Time, devices []gpu.Device) []gpu.Advice
	// Close does not wait for a hanging call.
	Close() error
}

// Config configures a sampler. Node, Interval, Sources and Publish have no
// defaults.
type Config struct {
	Node     string
	Interval time.Duration
	// Idle is the time between readings while Watched reports that nobody is looking; 0: always Interval.
	Idle    time.Duration
	Watched func() bool
	Sources []Source
	Host    Host // nil: snapshots have no host and processes no facts
	// Guessed means that nobody named the sources. Then a source that finds no card of its
	// vendor has not failed as long as another source has devices.
	Guessed bool
	// KernelLog reports errors that sources don't; nil: only errors from sources are known.
	KernelLog KernelLog
	// Notes go into each snapshot, before the notes of the sources.
	Notes []gpu.Advice
	// Deadline is how long a source may take to answer for one device. A
	// source that has not returned that long after its context ended is
	// not answering itself.
	Deadline time.Duration
	// Publish receives each periodic reading. It must not block.
	Publish func(*gpu.Snapshot)
	// Demanded receives each reading on demand between two periodic ones, before
	// Refresh returns it. It may be nil, and must not block.
	Demanded func(*gpu.Snapshot)
	Clock    clock.Clock // dates readings, and detects breaks between them
	Log      *slog.Logger
}

const (
	pace = 250 * time.Millisecond // least time between two readings
	// The machine and its processes are read about so often, and at each reading where the interval is longer.
	hostEvery = time.Second
	// While reading them takes too long, they are as they were read last, for so long.
	hostKept = 10 * time.Second
	// A reading waits a quarter of the interval for a slow device, within
	// these bounds.
	maxPatience   = time.Second
	minPatience   = 100 * time.Millisecond
	startPatience = 5 * time.Second // for a source that has never answered: a driver may be loaded
)

// A Sampler reads one node at an interval, and on demand.
//
// It waits for a slow device for a quarter of the interval, at least 100 ms and at most 1 s (docs/adr/0001-patience.md). Then the
// reading goes on with the device's last values and their older SampledAt. While a call to a device runs, no second one starts, so a
// device that hangs delays the others once and never again. A source that has never answered gets 5 s, since its driver may still be
// loading.
//
// A source that fails is tried again after 1, 2, 4 and at most 30 s. Its devices stay on the list as not answering. A device that a working
// driver no longer lists is lost. Tried in [gpu.Snapshot] says what each source found; with guessed sources, a missing card is no failure
// (docs/adr/0015-sources.md).
//
// If the interval is shorter than a second, the machine and its processes are read once a second. Readings in between repeat those
// values, with their time in the host's SampledAt, and read only processes that are new. A reading on demand, the first one after a
// break, and one of a machine without devices read everything.
type Sampler struct {
	cfg     Config
	sources []*source
	host    lane[gpu.Host]
	kernel  lane[struct{}]
	roster  roster
	judge   *plausible.Judge
	seq     uint64
	clock   clock.Watch
	begins  map[string]begin // by device, source and error
	hostBad bool
	around  around

	asked   chan struct{} // of size 1: there is a demand
	watched chan struct{} // of size 1: somebody looks now
	stopped chan struct{} // closed when Run has ended

	mu     sync.Mutex
	demand *demand // nil while nobody waits for a reading that has not begun
	health Health
}

// A demand is a reading that was asked for.
type demand struct {
	snap *gpu.Snapshot
	done chan struct{} // closed when there is the snapshot
}

// New returns a sampler that reads nothing until Run is called.
func New(cfg Config) *Sampler {
	s := &Sampler{
		cfg:     cfg,
		asked:   make(chan struct{}, 1),
		watched: make(chan struct{}, 1),
		stopped: make(chan struct{}),
		roster:  roster{node: cfg.Node, byUUID: map[string]*entry{}},
		judge:   plausible.New(),
		begins:  map[string]begin{},
		clock:   clock.Watch{Clock: cfg.Clock, Longest: 3*max(cfg.Interval, cfg.Idle) + 10*time.Second},
	}
	for _, src := range cfg.Sources {
		s.sources = append(s.sources, &source{Source: src, grace: 2 * cfg.Deadline, guessed: cfg.Guessed, log: cfg.Log.With("source", src.Name())})
	}
	return s
}

// Run reads until ctx ends, then closes the sources. It does not wait for a
// hanging driver call.
func (s *Sampler) Run(ctx context.Context) error {
	defer s.close()
	tick := time.NewTimer(0)
	defer tick.Stop()
	paced := time.NewTimer(0)
	paced.Stop()
	defer paced.Stop()
	next := time.Now()
	var begun time.Time
	rests := false // next is later than the interval, as nobody looks: a source that failed waits as well
	wake := func() time.Time {
		if rests {
			return next
		}
		return s.wake(next)
	}
	for {
		var periodic bool
		select {
		case <-ctx.Done():
			return nil
		case <-s.asked:
			paced.Reset(time.Until(begun.Add(pace)))
			continue
		case <-s.watched:
			if rests {
				if next = begun.Add(s.cfg.Interval); next.Before(time.Now()) {
					next = time.Now() // from which the grid goes on
				}
				rests = false
				tick.Reset(time.Until(wake()))
			}
			continue
		case <-paced.C:
			periodic = !time.Now().Before(wake()) // it is also the tick's turn
		case <-tick.C:
			periodic = true
		}
		if early := time.Until(begun.Add(pace)); early > 0 { // another one was just read
			if periodic {
				tick.Reset(early)
			} else {
				paced.Reset(early)
			}
			continue
		}
		asked := s.take()
		if asked == nil && !periodic { // a periodic reading has served it
			continue
		}
		begun = time.Now()
		snap := s.read(ctx, asked != nil)
		switch {
		case ctx.Err() != nil:
			return nil
		case periodic:
			s.cfg.Publish(snap)
			if now := time.Now(); !now.Before(next) { // not only a retry of a source
				every := s.interval()
				next, rests = following(next, every, now), every > s.cfg.Interval
			}
		case s.cfg.Demanded != nil:
			s.cfg.Demanded(snap)
		}
		if asked != nil {
			asked.snap = snap
			close(asked.done)
		}
		tick.Reset(time.Until(wake()))
	}
}

// interval is the time to the next reading.
func (s *Sampler) interval() time.Duration {
	if s.cfg.Idle > s.cfg.Interval && !s.cfg.Watched() {
		return s.cfg.Idle
	}
	return s.cfg.Interval
}

// Watch tells the sampler that somebody is looking now: a reading that was put off for [Config.Idle] begins as
// soon as the interval since the last one is over, which may be at once. Any goroutine may call it at any time.
func (s *Sampler) Watch() {
	select {
	case s.watched <- struct{}{}:
	default:
	}
}

// take returns the demand that the reading which begins now serves; nil if there is none.
func (s *Sampler) take() *demand {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.demand
	s.demand = nil
	return taken
}

// wake returns when to read again: at next, or earlier to retry a failed source. A guessed source without a card here waits for the next
// reading, which covers all sources.
func (s *Sampler) wake(next time.Time) time.Time {
	for _, src := range s.sources {
		if src.guessed && src.noCard() {
			continue
		}
		if src.failure != nil && !src.failure.Next.IsZero() && src.failure.Next.Before(next) {
			next = src.failure.Next
		}
	}
	return next
}

// following returns the next time on the grid of the interval that has not passed yet.
func following(last time.Time, interval time.Duration, now time.Time) time.Time {
	passed := int64((now.Sub(last) + interval - 1) / interval) // rounded up
	return last.Add(time.Duration(max(passed, 1)) * interval)
}

// ErrStopped is what Refresh returns once Run has ended.
var ErrStopped = errors.New("sampler: stopped")

// Refresh returns a reading that began after the call: at once, or 250 ms after the
// previous reading. Concurrent callers share the reading, and it is not published.
// The error is ctx's.
func (s *Sampler) Refresh(ctx context.Context) (*gpu.Snapshot, error) {
	s.mu.Lock()
	if s.demand == nil {
		s.demand = &demand{done: make(chan struct{})}
		select {
		case s.asked <- struct{}{}:
		default:
		}
	}
	d := s.demand
	s.mu.Unlock()
	select {
	case <-d.done:
		return d.snap, nil
	case <-s.stopped:
		return nil, ErrStopped
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (s *Sampler) close() {
	close(s.stopped)
	for _, src := range s.sources {
		if err := src.Close(); err != nil {
			src.log.Warn("the source did not close cleanly", "err", err)
		}
	}
	if s.cfg.KernelLog != nil {
		if err := s.cfg.KernelLog.Close(); err != nil {
			s.cfg.Log.Warn("the kernel's log did not close cleanly", "err", err)
		}
	}
}

// read makes one snapshot of everything; asked says that somebody is waiting for it.
func (s *Sampler) read(ctx context.Context, asked bool) *gpu.Snapshot {
	begun := time.Now()
	now, breaks, set := s.clock.Look()
	patience := min(max(s.cfg.Interval/4, minPatience), maxPatience)
	var wg sync.WaitGroup
	for _, src := range s.sources {
		wg.Go(func() { src.read(ctx, begun, patience) })
	}
	wg.Wait()

	s.seq++
	snap := &gpu.Snapshot{Seq: s.seq, Time: now.UTC(), Breaks: breaks, ClockSet: set, Node: s.cfg.Node, Notes: slices.Clip(s.cfg.Notes)}
	for _, src := range s.sources {
		snap.Notes = append(snap.Notes, src.last.Notes...)
		snap.Drivers = append(snap.Drivers, src.last.Drivers...)
		snap.Failures = append(snap.Failures, src.last.Failures...)
		snap.Breaks += src.last.Breaks
		if src.last.Host != nil {
			snap.Host = src.last.Host
		}
	}
	snap.Devices = s.roster.merge(s.sources, snap.Time)
	s.judge.Judge(snap.Devices, snap.Breaks)
	for _, src := range s.sources {
		snap.Tried = append(snap.Tried, src.attempt())
		if s.fails(src, snap) {
			snap.Failures = append(snap.Failures, *src.failure)
		}
	}
	snap.Source = s.sourceName(snap.Devices)
	s.blame(ctx, snap)
	s.follow(snap)
	s.describe(ctx, snap, asked)
	s.note(snap, time.Since(begun))
	return snap
}

// fails reports whether the source has failed. A guessed source that finds no card of its
// vendor has not, unless no other source has anything to report.
func (s *Sampler) fails(src *source, snap *gpu.Snapshot) bool {
	if !src.guessed || !src.noCard() {
		return src.failure != nil
	}
	return len(snap.Devices) == 0 && !slices.ContainsFunc(s.sources, func(other *source) bool { return !other.noCard() })
}

// A begin is when a state began, by the clock as it was set then.
type begin struct {
	began time.Time
	set   time.Duration
}

// follow moves the times when states began by how far the clock was set since.
func (s *Sampler) follow(snap *gpu.Snapshot) {
	now := snap.Time.Round(0) // without Go's monotonic clock, which does not move
	move := func(key string, since *time.Time) {
		b := s.begins[key]
		if !b.began.Equal(*since) {
			b = begin{*since, snap.ClockSet}
			s.begins[key] = b
		}
		if *since = b.began.Round(0).Add(snap.ClockSet - b.set); since.After(now) {
			*since = now
		}
	}
	for i := range snap.Failures {
		move(snap.Failures[i].Source, &snap.Failures[i].Since)
	}
	for i := range snap.Devices {
		d := &snap.Devices[i]
		move(d.UUID, &d.Since)
		d.Health.XIDs = gpu.Map(d.Health.XIDs, slices.Clone)
		for j := range d.Health.XIDs.Or(nil) {
			x := &d.Health.XIDs.Or(nil)[j]
			move(fmt.Sprint(d.UUID, " XID ", x.Code), &x.Last)
		}
		d.Health.Faults = gpu.Map(d.Health.Faults, slices.Clone)
		for j := range d.Health.Faults.Or(nil) {
			f := &d.Health.Faults.Or(nil)[j]
			move(d.UUID+" fault "+string(f.Kind), &f.Last)
		}
	}
}

// blame adds what the kernel log says about the devices, after the sources have reported.
func (s *Sampler) blame(ctx context.Context, snap *gpu.Snapshot) {
	if s.cfg.KernelLog == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, min(s.cfg.Interval, maxPatience))
	defer cancel()
	now := s.clock.Now()
	if _, err := s.kernel.do(ctx, func() (struct{}, error) {
		s.cfg.KernelLog.Read(ctx, now)
		return struct{}{}, nil
	}); err != nil {
		s.cfg.Log.Debug("reading the kernel's log takes long", "err", err)
	}
	snap.Notes = append(snap.Notes, s.cfg.KernelLog.Describe(now, snap.Devices)...)
}

// sourceName is the source of all devices, or "mixed".
func (s *Sampler) sourceName(devices []gpu.Device) string {
	name := ""
	if len(s.sources) > 0 {
		name = s.sources[0].Name()
	}
	for i := range devices {
		if i > 0 && devices[i].Source != name {
			return gpu.SourceMixed
		}
		name = devices[i].Source
	}
	return name
}

// around is the machine and its processes as of the newest reading.
type around struct {
	host   *gpu.Host
	facts  map[int]gpu.ProcessFacts // by pid
	read   time.Time                // when the machine was read last; zero: it is to be read
	breaks int                      // that there were then
}

// describe adds the host and the facts of its processes, unless the source has done so. If the interval is shorter than hostEvery, readings
// in between repeat the last values, with their time, and add the facts of new processes. A requested reading, and one without devices,
// gets its own values. It works on copies, since reading files of a stuck process can hang too.
func (s *Sampler) describe(ctx context.Context, snap *gpu.Snapshot, asked bool) {
	if s.cfg.Host == nil || snap.Host != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, min(s.cfg.Interval, maxPatience))
	defer cancel()
	before, now := s.around, time.Now()
	last := before
	due := asked || len(snap.Devices) == 0 || last.read.IsZero() || last.breaks != snap.Breaks ||
		now.Sub(last.read) > hostEvery-s.cfg.Interval/2 // the reading that comes next to it
	if due {
		last.facts, last.read, last.breaks = nil, now, snap.Breaks
	}
	s.around = around{} // so that what fails is tried again

	facts := map[int]gpu.ProcessFacts{}
	var unknown []gpu.Process // each once, however many devices it is on
	for i := range snap.Devices {
		for _, p := range snap.Devices[i].Processes.Or(nil) {
			if _, seen := facts[p.PID]; seen {
				continue
			}
			is, known := last.facts[p.PID]
			if facts[p.PID] = is; !known {
				unknown = append(unknown, gpu.Process{PID: p.PID})
			}
		}
	}
	if due || len(unknown) > 0 {
		sampled := s.clock.Now().UTC()
		host, err := s.host.do(ctx, func() (host gpu.Host, err error) {
			if due {
				host, err = s.cfg.Host.Read(ctx)
				host.SampledAt = sampled
			}
			s.cfg.Host.Describe(ctx, unknown)
			return host, err
		})
		if errors.Is(err, errSlow) {
			s.logHost(fmt.Errorf("reading the host's own figures: %w", err))
			if before.host != nil && before.breaks == snap.Breaks && now.Sub(before.read) <= hostKept {
				s.around = before.only(facts)
				s.around.describe(snap)
			}
			return
		}
		if due {
			last.host = &host
			s.logHost(err)
		}
		for _, p := range unknown {
			facts[p.PID] = p.Facts
		}
	}
	if last.facts = facts; ctx.Err() == nil {
		s.around = last
	}
	last.describe(snap)
}

// describe puts what is known about the machine and its processes into a snapshot.
func (a *around) describe(snap *gpu.Snapshot) {
	snap.Host, snap.Devices = a.host, slices.Clone(snap.Devices)
	for i := range snap.Devices {
		processes := gpu.Map(snap.Devices[i].Processes, slices.Clone[[]gpu.Process])
		for j := range processes.Or(nil) {
			p := &processes.Or(nil)[j]
			p.Facts = a.facts[p.PID]
		}
		snap.Devices[i].Processes = processes
	}
}

// only returns a with the facts of these pids alone: the pids of ended processes may be reused.
func (a around) only(pids map[int]gpu.ProcessFacts) around {
	a.facts = maps.Clone(a.facts)
	maps.DeleteFunc(a.facts, func(pid int, _ gpu.ProcessFacts) bool { _, there := pids[pid]; return !there })
	return a
}

func (s *Sampler) logHost(err error) {
	if (err != nil) == s.hostBad {
		return
	}
	s.hostBad = err != nil
	if s.hostBad {
		s.cfg.Log.Warn("some of the host's figures can't be read", "err", err)
	} else {
		s.cfg.Log.Info("the host's figures can be read again")
	}
}

// Costs returns how long the readings of each source took so far, and their calls to the driver. The
// longest total comes first.
func (s *Sampler) Costs() []gpu.Cost {
	var all []gpu.Cost
	for _, src := range s.sources {
		all = append(all, src.costs()...)
	}
	slices.SortFunc(all, func(a, b gpu.Cost) int {
		return cmp.Or(cmp.Compare(b.Total, a.Total), cmp.Compare(a.Source, b.Source), cmp.Compare(a.Call, b.Call))
	})
	return all
}

// Health is the state of the sampler and its sources.
type Health struct {
	LastReading time.Time     // when the newest reading began; zero before the first
	Took        time.Duration // how long it took
	Sources     []SourceHealth
}

// SourceHealth is the state of one source.
type SourceHealth struct {
	gpu.Attempt
	LastSuccess time.Time    // zero if the source was never read
	Failure     *gpu.Failure // nil while the source can be read, and if its absence is no failure
}

// Health returns the state as of the newest reading.
func (s *Sampler) Health() Health {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.health
}

func (s *Sampler) note(snap *gpu.Snapshot, took time.Duration) {
	h := Health{LastReading: snap.Time, Took: took}
	for _, src := range s.sources {
		health := SourceHealth{Attempt: src.attempt(), LastSuccess: src.lastSuccess, Failure: src.failure}
		if src.guessed && src.noCard() {
			health.Failure = nil
		}
		h.Sources = append(h.Sources, health)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.health = h
}
