//go:build linux && cgo

package nvml

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/nvidia"
	"github.com/gpuwhy/gpuwhy/sampler/perdevice"
)

// Built reports whether this build can load the library.
const Built = true

// A Source reads all NVIDIA GPUs of this machine. A process can use only one Source at a time, since it has only one library.
type Source struct {
	cfg    Config
	kernel *nvidia.Kernel
	set    *perdevice.Set

	// Only Read changes these. A job that begins a session reads last, which changes only during a session.
	pauses nvidia.Pauses
	driver gpu.Driver
	last   map[string]gpu.Device // as last read, by key

	// Only a job uses these.
	records   map[string]*record // by key
	announced string             // the driver named in the last log message

	mu      sync.Mutex
	lib     *library  // nil until it is loaded
	session *session  // nil while the library is not initialized
	reading bool      // a Read is using the session
	ending  bool      // the session ends once no call runs
	held    time.Time // until then an ending session starts no calls
	job     *job      // nil while nothing changes the library's state
	byIndex bool      // the driver knows none of the kernel's addresses
	proven  bool      // it does know them: a device was read by address
	closed  bool
}

// job changes the library's state, on its own goroutine.
type job struct {
	what  string // "being initialized"
	began time.Time
	done  chan struct{}
	err   error // once done is closed
}

// New returns a source. Read loads the library, and looks for it again if it was missing.
func New(cfg Config) *Source {
	cfg.Clock = cmp.Or(cfg.Clock, clockwork.NewRealClock())
	s := &Source{
		cfg:     cfg,
		kernel:  nvidia.NewKernel(cfg.SysfsRoot, cfg.ProcRoot),
		last:    map[string]gpu.Device{},
		records: map[string]*record{},
	}
	s.kernel.Suspects = cfg.Suspects
	s.set = perdevice.New(cfg.Clock, cfg.Deadline, s.settle)
	return s
}

// Costs returns how long the calls of each library function took so far, in no order.
func (s *Source) Costs() (all []gpu.Cost) {
	var lib *library
	s.locked(func() { lib = s.lib })
	if lib == nil {
		return nil
	}
	return lib.costs()
}

// Name is the source's name on the wire.
func (s *Source) Name() string { return gpu.SourceNVML }

// Read reads every device once. It returns when all have answered, or soon after ctx ends; see [perdevice.Set.Read] for slow devices. It
// waits up to the deadline for the library to be loaded and initialized.
//
// Without a driver, the error wraps a *gpu.Advice, which wraps gpu.ErrNoLibrary, gpu.ErrNoDriver, gpu.ErrVersionMismatch,
// gpu.ErrNotPermitted, gpu.ErrNotAnswering or gpu.ErrNoDevices. Sleeping devices are returned together with the error.
func (s *Source) Read(ctx context.Context) (*gpu.Snapshot, error) {
	cards := s.kernel.Cards()
	awake := func(c nvidia.Card) bool { return !c.Asleep() }
	if len(cards) > 0 && !slices.ContainsFunc(cards, awake) {
		s.pauses = nvidia.Pauses{}
		return s.leaveAlone(ctx, cards), nil
	}
	if s.pauses.Pausing(s.cfg.Clock.Now(), cards) {
		return s.leaveAlone(ctx, cards), nil
	}
	sess, err := s.attach(ctx, cards)
	if err == nil {
		snap, err := s.judge(sess, cards, s.set.Read(ctx, s.calls(sess)))
		return s.complete(snap, err, cards)
	}
	s.set.Forget()
	if errors.Is(err, gpu.ErrNoDevices) {
		if snap, err := s.complete(nil, err, cards); err == nil {
			return snap, nil
		}
	}
	if asleep := slices.DeleteFunc(slices.Clone(cards), awake); len(asleep) > 0 {
		return s.leaveAlone(ctx, asleep), err
	}
	return nil, err
}

// complete adds the cards that the driver should list but does not. If they are the only cards, they explain why the driver's list is
// empty.
func (s *Source) complete(snap *gpu.Snapshot, err error, cards []nvidia.Card) (*gpu.Snapshot, error) {
	if err != nil && !errors.Is(err, gpu.ErrNoDevices) {
		return snap, err
	}
	var devices []gpu.Device
	if snap != nil {
		devices = snap.Devices
	}
	missing := s.kernel.Missing(s.cfg.Clock.Now(), cards, devices, s.identity)
	if len(missing) == 0 {
		return snap, err
	}
	return s.snapshot(append(devices, missing...)), nil
}

// identity returns what the card reported about itself, or what the kernel knows about it.
func (s *Source) identity(c nvidia.Card) gpu.Identity {
	for _, d := range s.last {
		if d.PCI == c.Address {
			return d.Identity
		}
	}
	return c.Identity(gpu.SourceNVML)
}

// leaveAlone makes no driver call: the devices are as last read.
func (s *Source) leaveAlone(ctx context.Context, cards []nvidia.Card) *gpu.Snapshot {
	devices := make([]perdevice.Device, len(cards))
	for i, c := range cards {
		identity, known := s.identity(c), s.last[c.Address].Readings
		devices[i] = perdevice.Device{
			Key:      c.Address,
			Identity: identity,
			Asleep:   c.Asleep,
			Read: func() (gpu.Device, error) {
				return gpu.Device{Identity: identity, Readings: known.Stale(), Reason: nvidia.LeftAlone}, nil
			},
		}
	}
	out := s.set.Read(ctx, devices)
	for i := range out {
		out[i].SampledAt = time.Time{}
	}
	return s.snapshot(out)
}

// calls returns the devices to read. While an ending session waits for running calls, none of them is called.
func (s *Source) calls(sess *session) []perdevice.Device {
	var held bool
	s.locked(func() { held = s.ending && s.cfg.Clock.Now().Before(s.held) })
	if !held {
		return sess.calls
	}
	none := slices.Clone(sess.calls)
	for i := range none {
		none[i].Read = nil
	}
	return none
}

// judge decides whether the session continues after a reading, and returns the snapshot.
func (s *Source) judge(sess *session, cards []nvidia.Card, devices []gpu.Device) (*gpu.Snapshot, error) {
	for i := range devices {
		if d := &devices[i]; d.State == gpu.StateOK {
			s.last[sess.calls[i].Key] = *d
			sess.answered = true
			if sess.byAddress {
				s.locked(func() { s.proven = true })
			}
		}
	}
	now := s.cfg.Clock.Now()
	age := now.Sub(sess.began)
	pause := s.pauses.Note(now, sess.mayDoze(cards, devices))
	s.locked(func() { s.reading = false })
	switch {
	case driverGone(devices) && (sess.answered || age > sometimes), age > seldom && allFail(devices):
		s.finish(perdevice.MostDeadlines * s.cfg.Deadline)
	case sess.outdated(cards):
		s.locked(func() { s.byIndex = false })
		s.finish(s.cfg.Deadline)
	case pause:
		s.finish(0)
	default:
		s.locked(func() { s.ending = s.ending && now.Before(s.held) })
		s.settle()
	}
	tellApart(sess.byAddress, devices)
	ours, err := s.ours(sess, devices)
	if err != nil {
		return nil, err
	}
	return s.snapshot(ours), nil
}

// allFail reports whether no device answers, and the driver refuses one of them.
func allFail(devices []gpu.Device) bool {
	refused := false
	for i := range devices {
		if devices[i].State == gpu.StateOK {
			return false
		}
		refused = refused || codeOf(&devices[i]).failure()
	}
	return refused
}

// mayDoze reports whether the system would power all cards down if the session ended.
func (s *session) mayDoze(cards []nvidia.Card, devices []gpu.Device) bool {
	return s.byAddress &&
		!slices.ContainsFunc(cards, func(c nvidia.Card) bool { return !c.MayDoze() }) &&
		!slices.ContainsFunc(devices, func(d gpu.Device) bool { return !nvidia.Idle(&d) })
}

// driverGone reports whether every awake device fails as if the driver were gone.
func driverGone(devices []gpu.Device) bool {
	gone := false
	for i := range devices {
		switch d := &devices[i]; {
		case codeOf(d).ofDriver():
			gone = true
		case d.State != gpu.StateAsleep:
			return false
		}
	}
	return gone
}

// tellApart removes wrong identities: a device that has not answered has the identity last seen at its index. It loses that identity if
// another device turns out to have it.
func tellApart(byAddress bool, devices []gpu.Device) {
	claimed := map[string]bool{}
	for _, d := range devices {
		claimed[d.UUID] = claimed[d.UUID] || d.State == gpu.StateOK
	}
	for i := range devices {
		d := &devices[i]
		if d.State == gpu.StateOK || byAddress {
			continue
		}
		if claimed[d.UUID] {
			d.Identity = identityByIndex(i)
		}
		claimed[d.UUID] = true
	}
}

// ours returns the devices that the driver knows and permits; in a container the kernel lists others too. If the driver knows none of the
// kernel's addresses, the next session uses the driver's own list.
func (s *Source) ours(sess *session, devices []gpu.Device) ([]gpu.Device, error) {
	var refused code
	out := slices.DeleteFunc(devices, func(d gpu.Device) bool {
		switch c := codeOf(&d); c {
		case notFound, invalidArgument, noPermission:
			refused = c
			return true
		default:
			return false
		}
	})
	switch {
	case len(out) > 0 || refused == success:
		return out, nil
	case refused == noPermission:
		return nil, refused.advice()
	}
	s.locked(func() { s.byIndex = true })
	s.finish(perdevice.MostDeadlines * s.cfg.Deadline)
	return nil, &gpu.Advice{
		What: "the NVIDIA driver does not recognize the GPUs that the kernel lists",
		Try:  "wait a moment: gpuwhy looks in the driver's own list next",
		Err:  fmt.Errorf("%w: %w: %v", gpu.ErrNoDevices, refused, sess.cards),
	}
}

func (s *Source) snapshot(devices []gpu.Device) *gpu.Snapshot {
	snap := &gpu.Snapshot{Source: gpu.SourceNVML, Devices: devices}
	if s.driver.Source != "" {
		snap.Drivers = []gpu.Driver{s.driver}
	}
	return snap
}

// attach returns the session, and begins one if there is none. It waits beyond the deadline of ctx, since nothing can be read before.
func (s *Source) attach(ctx context.Context, cards []nvidia.Card) (*session, error) {
	for {
		sess, j, err := s.next(cards)
		if err != nil {
			return nil, err
		}
		if sess != nil {
			s.driver = sess.driver
			return sess, nil
		}
		if !perdevice.Await(ctx, s.cfg.Clock, j.done, nil, j.began.Add(s.cfg.Deadline), true) {
			return nil, &gpu.Advice{
				What: "the NVIDIA driver is not answering while its library is " + j.what,
				Try:  "look for hung tasks and XIDs in the kernel log (dmesg); you may have to restart the machine",
				Err:  gpu.ErrNotAnswering,
			}
		}
		if j.err != nil {
			return nil, j.err
		}
	}
}

// next returns the session, or the job that must end first.
func (s *Source) next(cards []nvidia.Card) (*session, *job, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, nil, &gpu.Advice{What: "gpuwhy is shutting down", Try: "start it again", Err: gpu.ErrNoDriver}
	case s.job != nil:
	case s.session == nil:
		s.startBegin(cards)
	case s.session.outdated(cards) && s.set.Flying() == 0:
		s.byIndex = false
		s.startEnd()
	default:
		s.reading = true
		return s.session, nil, nil
	}
	return nil, s.job, nil
}

// startBegin loads the library and begins a session. The caller holds mu.
func (s *Source) startBegin(cards []nvidia.Card) {
	lib, byIndex, proven := s.lib, s.byIndex, s.proven
	s.start("being initialized", func() (err error) {
		before := lib
		if lib == nil {
			if lib, err = load(s.cfg.LibraryPath, s.cfg.Log); err != nil {
				return err
			}
			s.locked(func() { s.lib = lib })
		}
		sess, err := s.begin(lib, cards, byIndex, proven)
		s.locked(func() { s.session = sess })
		// A library that was loaded before may belong to the driver before an update.
		if a, ok := errors.AsType[*gpu.Advice](err); ok && before != nil && errors.Is(err, gpu.ErrVersionMismatch) {
			a.Try = "restart gpuwhy, which still uses the library it started with; " +
				"if that does not help, restart the machine"
		}
		return err
	})
}

func (s *Source) locked(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

// startEnd ends the session. The caller holds mu, and has made sure that no call runs.
func (s *Source) startEnd() {
	sess := s.session
	s.session, s.ending = nil, false
	s.start("being shut down", func() error {
		sess.end()
		return nil
	})
}

// start starts a job. The caller holds mu.
func (s *Source) start(what string, work func() error) {
	j := &job{what: what, began: s.cfg.Clock.Now(), done: make(chan struct{})}
	s.job = j
	go func() {
		defer close(j.done)
		j.err = work()
		s.locked(func() { s.job = nil })
		s.settle()
	}()
}

// finish ends the session now, or once no call runs. Overlapping calls would never leave such a moment, so no call begins for a while;
// after hold, a hanging device no longer holds up the others.
func (s *Source) finish(hold time.Duration) {
	s.locked(func() {
		if s.session != nil && !s.ending {
			s.ending, s.held = true, s.cfg.Clock.Now().Add(hold)
		}
	})
	s.letGo()
}

// settle ends a session whose end was waiting for a job or a call.
func (s *Source) settle() {
	var due bool
	s.locked(func() { due = (s.closed || s.ending) && !s.reading })
	if due {
		s.letGo()
	}
}

// letGo ends the session, unless a call runs.
func (s *Source) letGo() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session != nil && s.job == nil && s.set.Flying() == 0 {
		s.startEnd()
	}
}

// Close releases the driver. It waits up to a second for the library to shut down, but not for a hanging call. After Close, Read returns an
// error.
func (s *Source) Close() error {
	s.locked(func() { s.closed = true })
	s.set.Close()
	s.letGo()
	ctx, cancel := perdevice.WithTimeout(context.Background(), s.cfg.Clock, time.Second)
	defer cancel()
	for {
		var j *job
		s.locked(func() { j = s.job })
		if j == nil || !perdevice.Await(ctx, s.cfg.Clock, j.done, nil, j.began.Add(s.cfg.Deadline), false) {
			return nil
		}
	}
}
