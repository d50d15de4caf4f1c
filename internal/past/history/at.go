package history

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// before is how much of the past an answer rests on: work that has just ended, clocks that are held down. All snapshots of it are
// needed: with one each 15 s, work that comes and goes looks like work without a pause.
const before = 20 * time.Minute

// answered is how much of it is answered for: of several devices one that was told of first stays so until another is clearly louder.
const answered = time.Minute

// lasts is until how long after a snapshot the machine is taken to be as it says, where one is made so often: a reading that
// follows comes within two and a half intervals, and one waits a little to be written.
func lasts(every time.Duration) time.Duration { return max(30*time.Second, every*5/2) }

// ErrNotSeen says that gpuwhy was not reading at that time, or no longer keeps its data.
var ErrNotSeen = errors.New("no data is kept for that time")

// A NotSeenError is an [ErrNotSeen] for a time in a gap.
type NotSeenError struct {
	Before time.Time // of the newest snapshot before the gap
}

func (e *NotSeenError) Error() string {
	return "there is no data since " + e.Before.Format(time.RFC3339)
}

// Unwrap is ErrNotSeen.
func (e *NotSeenError) Unwrap() error { return ErrNotSeen }

// Moment returns the state of a node at a time: the newest Moment that is not later. Its answer is recomputed from
// the snapshots of the 15 minutes before, as the stage did then; stage is a new one that has the learned state of the
// devices. Where there is no snapshot of that time the error is [ErrNotSeen], and a [NotSeenError] where one of
// shortly before would have been followed by another one if gpuwhy had looked. Two at
// once are answered, which is much work; one for which there is no place in time gets [ErrBusy].
func (p *Past) Moment(ctx context.Context, node string, t time.Time, stage *insight.Stage) (*insight.Moment, error) {
	leave, err := p.moments.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	ctx, cancel := context.WithCancel(ctx)
	read := p.read(ctx, node, t.Add(-max(before, lasts(p.Interval))), t.Add(time.Millisecond))
	defer func() {
		cancel()
		for range read { // until the reader has ended
		}
	}()
	var m *insight.Moment
	var newest *gpu.Snapshot // that is not answered for yet
	var last time.Time
	gap := time.Duration(math.MaxInt64) // the shortest between two of them
	for r := range read {
		if r.err != nil {
			return nil, r.err
		}
		if !last.IsZero() {
			gap = min(gap, r.Time.Sub(last))
		}
		last = r.Time
		if t.Sub(r.Time) > answered {
			newest = r.Snapshot
			stage.Learn(newest)
			continue
		}
		newest, m = nil, stage.Next(r.Snapshot)
	}
	if gap == math.MaxInt64 && p.Interval > 0 { // one alone says nothing
		gap = p.Interval
	}
	switch err := ctx.Err(); {
	case err != nil: // some may not have come
		return nil, err
	case gap < math.MaxInt64 && !last.IsZero() && t.Sub(last) > lasts(max(gap, p.Seldom)):
		return nil, &NotSeenError{last}
	case newest != nil: // nothing followed
		return stage.Beside(newest), nil
	case m == nil:
		return nil, ErrNotSeen
	}
	return m, nil
}

type readSnapshot struct {
	*gpu.Snapshot
	err error
}

// read reads snapshots beside the one who takes them, which is most of the work. An error is the last.
func (p *Past) read(ctx context.Context, node string, from, to time.Time) <-chan readSnapshot {
	read := make(chan readSnapshot, 4)
	go func() {
		defer close(read)
		for f, err := range p.Store.Frames(ctx, store.Query{From: from, To: to, Keys: []store.Key{{Node: node}}}) {
			r := readSnapshot{err: err}
			if err == nil {
				r.Snapshot, err = gpu.UnmarshalRecord(f.Snapshot)
			}
			if r.Snapshot != nil {
				r.Node = node // whatever whoever delivered it says
				p.Permits.withhold(r.Snapshot)
			}
			if r.err == nil && err != nil {
				r.err = fmt.Errorf("the snapshot of %s at %s can't be read: %w", node, f.Time.Format(time.RFC3339), err)
			}
			select {
			case read <- r:
			case <-ctx.Done():
				return
			}
			if r.err != nil {
				return
			}
		}
	}()
	return read
}
