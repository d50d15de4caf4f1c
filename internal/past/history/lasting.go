package history

import (
	"context"
	"iter"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// fresh is how old the end of what goes on can be. A session is written with each reading, a cause each minute, and what is
// written waits a little.
func (p *Past) fresh() time.Duration { return max(2*time.Minute, 3*p.Interval) }

// Sessions are those of the store. One that goes on, and that nobody has written for a while, is [store.Unseen]: the gpuwhy that
// saw it was killed, and did not come back.
func (p *Past) Sessions(ctx context.Context, q store.Query) iter.Seq2[store.Session, error] {
	return func(yield func(store.Session, error) bool) {
		now := p.Now()
		for s, err := range p.Store.Sessions(ctx, q) {
			if s.Outcome == store.Open && now.Sub(s.To) >= p.fresh() {
				if q.Open {
					continue
				}
				s.Outcome = store.Unseen
			}
			if !yield(s, err) || err != nil {
				return
			}
		}
	}
}

// Causes are those of the store. One that goes on lasts until now; if no gpuwhy looks any more, until the last reading.
func (p *Past) Causes(ctx context.Context, q store.Query) iter.Seq2[store.Cause, error] {
	return func(yield func(store.Cause, error) bool) {
		now, begin, first := p.Now(), q.From, q.First
		if !begin.IsZero() {
			q.From = begin.Add(-p.fresh()) // what was written before the span can last into it
		}
		var read map[store.Key]time.Time
		given := 0
		for ended := 100; ; ended *= 10 { // how many may have ended before the span: nobody knows, and they are no part of it
			if first > 0 {
				q.First = first + ended
			}
			found, inside := 0, 0
			for c, err := range p.Store.Causes(ctx, q) {
				found++
				if err == nil && c.Open {
					if read == nil {
						read, err = p.lastRead(ctx)
					}
					p.last(&c, now, read[c.Key])
				}
				if err == nil {
					if q.Open && !c.Open || !c.To.After(begin) && c.From.Before(begin) {
						continue
					}
					if inside++; inside <= given { // as before
						continue
					}
				}
				given++
				if !yield(c, err) || err != nil || given == first {
					return
				}
			}
			if first == 0 || found < q.First {
				return
			}
		}
	}
}

// last lets a cause last.
func (p *Past) last(c *store.Cause, now, read time.Time) {
	c.To = latest(c.To, read)
	if c.Open = now.Sub(c.To) < p.fresh(); c.Open {
		c.To = latest(c.To, now)
	}
}

// lastRead is when each device was read last.
func (p *Past) lastRead(ctx context.Context) (map[store.Key]time.Time, error) {
	devices, err := p.Store.Devices(ctx)
	if err != nil {
		return nil, err
	}
	read := make(map[store.Key]time.Time, len(devices))
	for i := range devices {
		read[devices[i].Key()] = devices[i].Last
	}
	return read, nil
}
