package history

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// A weight says when in a session its energy was drawn and when it worked, by what its device drew. It is an estimate.
type weight struct {
	past        *Past
	rows        []looked // of the device, around the session
	rest, whole float64
	work        []stretch // when it worked; nil: evenly
}

// closely is the longest session that is weighed by minutes; a longer one is weighed by quarters of an hour. The choice does not depend on
// the query, so the parts of a session add up.
const closely = 12 * time.Hour

// weights are those of sessions of which a part is asked for.
func (p *Past) weights(ctx context.Context, list []store.Session) ([]weight, error) {
	out := make([]weight, len(list))
	for _, tier := range [...]store.Tier{store.Minute, store.Quarter} {
		var chosen []int
		for i := range list {
			s := &list[i]
			short := s.To.Sub(s.From) <= closely && p.keeps(store.Minute, s.From)
			if s.JoulesKnown > 0 && s.From.Before(s.To) && short == (tier == store.Minute) {
				chosen = append(chosen, i)
			}
		}
		slices.SortFunc(chosen, func(a, b int) int { return list[a].From.Compare(list[b].From) })
		for len(chosen) > 0 { // those that are near one another are asked for together
			q := store.Query{Tier: tier, From: list[chosen[0]].From.Add(-around).Truncate(tier.Span())}
			n := 0
			for ; n < len(chosen) && (n == 0 || list[chosen[n]].From.Before(q.To)); n++ {
				s := &list[chosen[n]]
				q.To = latest(q.To, s.To.Add(around))
				if !slices.Contains(q.Keys, s.Key) {
					q.Keys = append(q.Keys, s.Key)
				}
			}
			column := store.DeviceColumns.Find("power_draw")
			q.Columns, q.Reuse = []int{column, store.ReadSeconds}, true
			all, err := p.looked(ctx, q, column)
			if err != nil {
				return nil, err
			}
			for _, i := range chosen[:n] {
				out[i] = p.weightOf(all[list[i].Key], &list[i])
			}
			chosen = chosen[n:]
		}
	}
	return out, nil
}

// weightOf is that of a session. What is not drawn for it is what its device drew beside the session's own mean, or the least that
// the device drew meanwhile where that is less, as beside other work.
func (p *Past) weightOf(rows []looked, s *store.Session) weight {
	first, _ := slices.BinarySearchFunc(rows, s.From.Add(-around), func(r looked, t time.Time) int { return r.begin.Compare(t) })
	last, _ := slices.BinarySearchFunc(rows, s.To.Add(around), func(r looked, t time.Time) int { return r.begin.Compare(t) })
	w := weight{past: p, rows: rows[first:last]}
	least := math.Inf(1)
	var joules, seconds float64
	for mean, long := range w.parts(s.From, s.To) {
		least, joules, seconds = min(least, mean), joules+mean*long, seconds+long
	}
	if seconds > 0 {
		w.rest = max(0, min(least, joules/seconds-s.Joules/s.JoulesKnown.Seconds()))
		w.whole = joules - w.rest*seconds
	}
	if w.known(s) {
		w.spread(s)
	}
	return w
}

// known reports whether the device says when the session worked.
func (w *weight) known(s *store.Session) bool {
	return w != nil && w.whole > 1e-9*cmp.Or(w.rest, 1)*s.To.Sub(s.From).Seconds()
}

// spread says when the session worked: the more of the time, the more was drawn for it; nowhere for more than was seen. What is left
// then was where nothing was drawn for it, or nothing read.
func (w *weight) spread(s *store.Session) {
	from, to := s.From.UnixNano(), s.To.UnixNano()
	most := min(float64(s.Seen)/float64(to-from), 1)
	var above []float64 // what was drawn for it in each stretch
	cut := func(begin, end int64, watts float64) {
		if begin, end = max(begin, from), min(end, to); begin < end {
			w.work = append(w.work, stretch{from: begin, to: end, seen: most})
			above = append(above, watts)
		}
	}
	done := from
	for i := range w.rows {
		r := &w.rows[i]
		begin, end := r.begin.UnixNano(), r.begin.Add(r.span).UnixNano()
		if r.count == 0 || end <= done || begin >= to {
			continue
		}
		cut(done, begin, 0)
		cut(max(done, begin), end, max(0, r.mean-w.rest))
		done = end
	}
	cut(done, to, 0)

	order := make([]int, len(above))
	var drawn, idle float64 // of those that are left
	for i := range order {
		order[i] = i
		long := float64(w.work[i].to - w.work[i].from)
		if drawn += above[i] * long; above[i] == 0 {
			idle += long
		}
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(above[b], above[a]) })
	left := min(float64(s.Busy), most*float64(to-from))
	for _, i := range order {
		part := &w.work[i]
		var share float64
		long := float64(part.to - part.from)
		switch {
		case above[i] > 0 && drawn > 0:
			share = min(left*above[i]/drawn, most)
		case above[i] > 0: // what is left of the sum was rounded away
			share = min(left/long, most)
		default:
			share, idle = min(left/max(idle, 1), most), idle-long
		}
		part.busy = share
		left, drawn = max(0, left-share*long), drawn-above[i]*long
	}
}

// during is a stretch of the session, divided by when it worked.
func (w *weight) during(whole stretch) []stretch {
	if w == nil || w.work == nil {
		return []stretch{whole}
	}
	first, _ := slices.BinarySearchFunc(w.work, whole.from, func(s stretch, begin int64) int { return cmp.Compare(s.to, begin) })
	var out []stretch
	for _, s := range w.work[first:] {
		if s.from >= whole.to {
			break
		}
		if s.from, s.to = max(s.from, whole.from), min(s.to, whole.to); s.from < s.to {
			out = append(out, s)
		}
	}
	return out
}

// parts yields what the device drew between two times, and for how many seconds.
func (w *weight) parts(from, to time.Time) func(yield func(watts, seconds float64) bool) {
	return func(yield func(watts, seconds float64) bool) {
		now := w.past.Now()
		for i := range w.rows {
			r := &w.rows[i]
			if r.count == 0 || r.begin.Add(rarest+r.span).Before(from) || r.begin.Add(-rarest).After(to) {
				continue
			}
			if long := part(w.rows, i, w.past.paces(), from, to, now); long > 0 && !yield(r.mean, long.Seconds()) {
				return
			}
		}
	}
}

// share is the part, 0 to 1, of a session's energy that was drawn between two times within it; of one whose device nobody read, the
// part of the time.
func (w *weight) share(s *store.Session, from, to time.Time) float64 {
	long := s.To.Sub(s.From).Seconds()
	if !w.known(s) {
		return to.Sub(from).Seconds() / long
	}
	sum := 0.0
	for watts, seconds := range w.parts(from, to) {
		sum += (watts - w.rest) * seconds
	}
	return sum / w.whole
}
