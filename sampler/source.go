package sampler

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

const (
	firstRetry = time.Second
	lastRetry  = 30 * time.Second
)

// source is a Source with its state.
type source struct {
	Source
	log     *slog.Logger
	guessed bool // nobody named the source
	lane    lane[*gpu.Snapshot]
	grace   time.Duration // how long Read may take to return after its context ended

	took        sync.Map     // the readings, also those that came too late: a *gpu.Meter by the name of the source
	last        gpu.Snapshot // of the newest reading; empty after a failure
	failure     *gpu.Failure // nil while it can be read
	retry       time.Duration
	lastSuccess time.Time
}

// read reads the source unless it waits for a retry.
func (s *source) read(ctx context.Context, now time.Time, patience time.Duration) {
	if s.failure != nil && now.Before(s.failure.Next) {
		return
	}
	if s.failure == nil && s.lastSuccess.IsZero() {
		patience = startPatience
	}
	soon, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	wait, cancelWait := context.WithTimeout(ctx, patience+s.grace)
	defer cancelWait()
	snap, err := s.lane.do(wait, func() (*gpu.Snapshot, error) {
		began := gpu.Clock()
		defer func() { s.meter().Since(began) }()
		return s.Read(soon)
	})
	if ctx.Err() != nil {
		return
	}
	if errors.Is(err, errSlow) {
		err = &gpu.Advice{
			What: "the " + s.Name() + " driver is not answering",
			Try:  "look for hung driver calls in the kernel log (dmesg); you may have to restart the machine",
			Err:  gpu.ErrNotAnswering,
		}
	}
	if _, said := errors.AsType[*gpu.Advice](err); !said && errors.Is(err, context.DeadlineExceeded) {
		err = &gpu.Advice{
			What: "the " + s.Name() + " source did not answer in time",
			Try:  "check what keeps the machine's processors busy; gpuwhy continues by itself",
			Err:  gpu.ErrSlow,
		}
	}
	s.last = gpu.Snapshot{}
	if snap != nil {
		s.last = *snap
	}
	switch {
	case err == nil && len(s.last.Devices) == 0:
		s.fail(now, &gpu.Advice{
			What: "the " + s.Name() + " driver lists no GPU",
			Try:  "check that the card is seated and powered and, in a container, that it is visible there",
			Err:  gpu.ErrNoDevices,
		})
	case err == nil:
		s.recover(now)
	default:
		s.fail(now, err)
	}
}

// fail records a failure and, if no devices came with it, when to retry.
func (s *source) fail(now time.Time, err error) {
	advice := gpu.AsAdvice(err)
	next := gpu.Failure{Source: s.Name(), Since: now.UTC(), Advice: advice}
	if s.failure != nil {
		next.Since = s.failure.Since
	}
	if len(s.last.Devices) == 0 {
		s.retry = min(max(2*s.retry, firstRetry), lastRetry)
		next.Next = now.Add(s.retry).UTC()
	} else {
		s.lastSuccess = now.UTC()
	}
	if s.failure == nil || s.failure.Advice.Text() != advice.Text() {
		if s.guessed && errors.Is(err, gpu.ErrNoCard) {
			s.log.Info("the source finds no card", "what", advice.What)
		} else {
			s.log.Warn("the source can't be read", "what", advice.What, "try", advice.Try)
		}
		s.log.Debug("why the source can't be read", "err", err)
	}
	s.failure = &next
}

func (s *source) recover(now time.Time) {
	if s.failure != nil {
		s.log.Info("the source can be read", "devices", len(s.last.Devices), "failed_since", s.failure.Since)
	}
	s.failure, s.retry, s.lastSuccess = nil, 0, now.UTC()
}

// attempt is what the newest reading found.
func (s *source) attempt() gpu.Attempt {
	a := gpu.Attempt{Source: s.Name(), Devices: len(s.last.Devices)}
	if s.failure != nil {
		a.Advice = s.failure.Advice
	}
	return a
}

// noCard reports whether there is no card of the source's vendor.
func (s *source) noCard() bool {
	return s.failure != nil && errors.Is(&s.failure.Advice, gpu.ErrNoCard)
}

// costs returns how long the source's readings took and, if the source knows, their single calls.
func (s *source) costs() []gpu.Cost {
	var all []gpu.Cost
	if metered, ok := s.Source.(interface{ Costs() []gpu.Cost }); ok {
		all = metered.Costs()
	}
	s.took.Range(func(name, meter any) bool {
		all = append(all, meter.(*gpu.Meter).Cost(name.(string), "reading"))
		return true
	})
	return all
}

// meter returns the meter of the way just used to read: a source can have several.
func (s *source) meter() *gpu.Meter {
	meter, _ := s.took.LoadOrStore(s.Name(), new(gpu.Meter))
	return meter.(*gpu.Meter)
}
