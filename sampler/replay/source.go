package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/recording"
)

// Config configures a source.
type Config struct {
	// Clock dates readings. Nil: the machine's clock.
	Clock clockwork.Clock
	// Interval and Deadline are for the sources that read raw files.
	Interval, Deadline time.Duration
	Log                *slog.Logger
}

// A Source plays one capture.
type Source struct {
	capture *recording.Capture
	clock   clockwork.Clock
	node    string
	note    gpu.Advice
	raw     *raw // nil if the capture has readings

	mu     sync.Mutex
	began  time.Time // when the first reading was played
	closed bool
	// How much each device's counters gain in one round, in the order of counters.
	gains map[string][]float64
}

// errClosed is returned by Read after Close.
var errClosed = errors.New("the recording is closed")

// Open opens a capture, and checks it. The error wraps a [gpu.Advice].
func Open(dir string, cfg Config) (*Source, error) {
	c, err := recording.Open(dir)
	if err != nil {
		return nil, err
	}
	cfg.Clock = cmp.Or(cfg.Clock, clockwork.NewRealClock())
	s := &Source{capture: c, clock: cfg.Clock, node: "recorded", gains: map[string][]float64{}}
	if c.Len() == 0 {
		if s.raw, err = openRaw(c, cfg); err != nil {
			return nil, err
		}
	} else {
		first, last := c.Reading(0), c.Reading(c.Len()-1)
		if first.Node != "" {
			s.node = first.Node
		}
		s.measure(first, last)
	}
	s.note = s.about()
	if len(c.Unread) > 0 {
		cfg.Log.Warn("some readings of the recording can't be read", "readings", len(c.Unread), "first", c.Unread[0])
	}
	return s, nil
}

// about says what is played.
func (s *Source) about() gpu.Advice {
	c := s.capture
	what := "this is a recording"
	if c.Title != "" {
		what += " (" + clean(c.Title) + ")"
	}
	switch {
	case c.Public():
		what += ", made from public facts and not measured"
	case !c.Began.IsZero():
		what += " of " + c.Began.UTC().Format("2006-01-02 15:04 MST")
	}
	switch n := c.Len(); {
	case n > 1:
		what += fmt.Sprintf(", with %d readings, repeated every %s", n, s.lasts().Round(time.Second/10))
	default:
		what += ", and its readings do not change"
	}
	if n := len(c.Unread); n > 0 {
		what += fmt.Sprintf("; %d more can't be read (%s)", n, clean(c.Unread[0]))
	}
	return gpu.Advice{What: what, Try: "to see this machine, start gpuwhy without --source replay"}
}

// Name is the source's name on the wire.
func (s *Source) Name() string { return gpu.SourceRecorded }

// Node returns the name of the recorded machine, shown in place of this one's.
func (s *Source) Node() string { return s.node }

// Close ends the sources that read raw files, and removes their files.
func (s *Source) Close() error {
	s.mu.Lock()
	closed := s.closed
	s.closed = true
	s.mu.Unlock()
	if s.raw == nil || closed {
		return nil
	}
	return s.raw.close()
}

// Read returns the recording's current reading: devices, drivers, host and failures. If the machine had no device, Read returns the
// recorded error.
func (s *Source) Read(ctx context.Context) (*gpu.Snapshot, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	if s.raw != nil {
		snap, err := s.raw.read(ctx)
		s.mark(snap)
		return snap, err
	}
	snap := s.play(s.clock.Now().UTC())
	s.mark(snap)
	if len(snap.Devices) > 0 || len(snap.Failures) == 0 {
		return snap, nil
	}
	last := len(snap.Failures) - 1 // reported after the others, so that their order stays
	why := snap.Failures[last]
	snap.Failures = snap.Failures[:last]
	return snap, &why.Advice
}

// mark marks a snapshot as recorded.
func (s *Source) mark(snap *gpu.Snapshot) {
	for i := range snap.Devices {
		d := &snap.Devices[i]
		d.RecordedFrom, d.Source = d.Origin(), gpu.SourceRecorded
	}
	for i := range snap.Drivers {
		snap.Drivers[i].Source = gpu.SourceRecorded
	}
	snap.Source = gpu.SourceRecorded
	snap.Notes = append([]gpu.Advice{s.note}, snap.Notes...)
}

// spacing is the time after the last reading, taken to be as long as the time before it.
func (s *Source) spacing() time.Duration {
	c := s.capture
	if c.Len() < 2 {
		return time.Second
	}
	return min(c.Time(c.Len()-1).Sub(c.Time(c.Len()-2)), time.Minute)
}

// lasts returns the length of one round.
func (s *Source) lasts() time.Duration {
	return s.capture.Time(s.capture.Len()-1).Sub(s.capture.Time(0)) + s.spacing()
}

// play returns the newest reading at a time. The caller holds the lock.
func (s *Source) play(now time.Time) *gpu.Snapshot {
	c := s.capture
	if s.began.IsZero() || now.Before(s.began) { // the clock was set back
		s.began = now
	}
	passed := now.Sub(s.began)
	round := int(passed / s.lasts())
	moment := c.Time(0).Add(passed % s.lasts())
	i := 0
	for i+1 < c.Len() && !c.Time(i+1).After(moment) {
		i++
	}
	snap := c.Reading(i)
	snap.Moved(s.began.Add(time.Duration(round)*s.lasts()).Sub(c.Time(0)), now)
	snap.Breaks += round
	s.advance(snap, round)
	return snap
}

// counters returns the device's readings that only grow.
func counters(d *gpu.Device) []count {
	h := &d.Health
	all := []count{countOf(&d.Power.Energy), countOf(&d.PCIe.Replays)}
	for _, r := range []*gpu.Reading[uint64]{&h.CorrectedVolatile, &h.UncorrectedVolatile, &h.CorrectedAggregate, &h.UncorrectedAggregate} {
		all = append(all, countOf(r))
	}
	return all
}

// A count reads a counter, and adds to it.
type count struct {
	value func() (float64, bool)
	add   func(float64)
}

func countOf[T gpu.Joules | uint64](r *gpu.Reading[T]) count {
	return count{
		value: func() (float64, bool) { v, ok := r.Trusted(); return float64(v), ok },
		add:   func(gain float64) { *r = gpu.Map(*r, func(v T) T { return v + T(gain) }) },
	}
}

// measure records how much the counters gain in one round.
func (s *Source) measure(first, last *gpu.Snapshot) {
	for i := range last.Devices {
		d := &last.Devices[i]
		before, ok := first.Device(d.UUID)
		if !ok {
			continue
		}
		earlier, gains := counters(before), []float64(nil)
		for k, c := range counters(d) {
			before, ok := earlier[k].value()
			after, ok2 := c.value()
			if !ok || !ok2 {
				before = after
			}
			gains = append(gains, max(after-before, 0))
		}
		s.gains[d.UUID] = gains
	}
}

// advance adds the gains of the earlier rounds to the counters.
func (s *Source) advance(snap *gpu.Snapshot, rounds int) {
	if rounds == 0 {
		return
	}
	for i := range snap.Devices {
		d := &snap.Devices[i]
		for k, gain := range s.gains[d.UUID] {
			counters(d)[k].add(gain * float64(rounds))
		}
	}
}
