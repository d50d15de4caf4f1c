package method

import (
	"math"
	"slices"
	"time"
)

// A curve is how a reading goes on after the last point that it knows.
type curve interface {
	after(seconds float64) float64
	// reach is after how many seconds it is at a level for the first time.
	reach(level float64) (seconds float64, ok bool)
	// above is how far above the curve a reading is now and then: the first that reaches a level comes so much earlier.
	above() float64
	// between is when it and the curves that are as good reach a level, from the first to the last; ok is false where one of them may
	// never do.
	between(level float64) (first, last float64, ok bool)
	// early says what speaks against telling yet when a level is reached.
	early(x *samples, level float64) Why
	// rests is how many seconds of the past it rests on.
	rests() float64
	// unit is the time with which forecasts of curves of its kind are compared, in seconds.
	unit() float64
}

// A reading is a way to forecast when a reading reaches a limit.
type reading struct {
	kind    Kind
	method  string
	fit     func(*samples) (curve, Why) // a curve, or why there is none
	reaches float64                     // how far ahead it says something, in parts of what the curve rests on
	like    float64                     // which part of how far ahead it is asked a trial reaches at least
	regular int                         // how many of the trials are spread over all of the past
}

// until says when a limit is reached.
func (r *reading) until(s Series, limit float64) Forecast {
	f := Forecast{Kind: r.kind, Method: r.method}
	x := s.samples()
	if x.len() == 0 || !(math.Abs(limit) <= most) {
		return f.end(TooLittlePast)
	}
	f.At = x.time(x.now())
	limit -= x.level
	if x.newest() >= limit {
		return f.end(Reached)
	}
	c, why := r.fit(x)
	if why != "" {
		return f.end(why)
	}
	ahead, ok := c.reach(limit)
	switch {
	case !ok:
		return f.end(LevelsOff)
	case ahead > r.reaches*c.rests():
		return f.end(TooFar)
	}
	soonest, latest, sure := c.between(limit)
	if !sure {
		return f.end(MayLevelOff)
	}
	if why := c.early(x, limit); why != "" {
		return f.end(why)
	}
	tries := r.tries(x, ahead, c.unit())
	trials, late := make([]trial, len(tries)), make([]float64, len(tries))
	for i, t := range tries {
		trials[i], late[i] = t.trial, t.late
	}
	if why = f.judge(trials); why == TooLittlePast {
		return f.end(why)
	}
	low, high := interval(late, apart(x, tries))
	if math.IsInf(high, 1) {
		return f.end(MayNever)
	}
	f.Low, f.High = min(ahead*low, soonest), max(ahead*high, latest)
	f.Value = min(max(ahead, f.Low), f.High)
	return f.end(why)
}

// A try is a forecast of a reading, made at an earlier point.
type try struct {
	trial
	origin int // the number of points that were known
	ahead  float64
	// late is after how much of ahead the reading was at the level that was said for then; infinite where it was
	// not within twice that.
	late float64
}

// tries makes the forecast at earlier points, about as far ahead, in units of its curve, as it reaches now.
func (r *reading) tries(x *samples, ahead, unit float64) (out []try) {
	for _, n := range x.origins(ahead*r.like, r.regular) {
		if t, ok := r.try(x, n, ahead, unit); ok {
			out = append(out, t)
		}
	}
	return out
}

func (r *reading) try(x *samples, n int, ahead, unit float64) (t try, ok bool) {
	known := x.until(n)
	now, step := known.now(), known.now()-known.t[n-2]
	c, why := r.fit(known)
	if why != "" {
		return t, false
	}
	like := ahead / unit * c.unit()
	h := min(like, (x.now()-now)/2, r.reaches*c.rests())
	if h < r.like*like || h < 2*step || x.run[min(x.firstSince(now+2*h), x.len()-1)] > n-1 {
		return t, false // too short for what is asked, or nobody looked what became of it
	}
	t.origin, t.ahead, t.said, t.now, t.hasNow = n, h, c.after(h), known.newest(), true
	t.was, _ = x.valueAt(now + h)
	if before := now + h - (24 * time.Hour).Seconds(); before <= now {
		t.yesterday, t.hasYesterday = x.valueAt(before)
	}
	t.late = (x.passes(n, t.said+c.above(), now+2*h) - now) / h
	return t, t.said-c.after(0) >= known.grain[n-1] // less than a step of the sensor can't be seen
}

// apart is how many of the tries say something of their own: those that overlap with none before.
func apart(x *samples, tries []try) (count int) {
	end := math.Inf(-1)
	for _, t := range tries {
		if begin := x.t[t.origin-1]; begin >= end {
			count, end = count+1, begin+t.ahead
		}
	}
	return count
}

// passes is the time of the first point after the first n that is at a level, until an end; infinite where there is none.
func (x *samples) passes(n int, level, end float64) float64 {
	for i := n; i < x.len() && x.t[i] <= end; i++ {
		if x.v[i] >= level {
			return x.t[i]
		}
	}
	return math.Inf(1)
}

// origins are numbers of points, at which forecasts are tried: some evenly over the past, and some ever closer to
// now, where what goes on now began. None is newer than the shortest time.
func (x *samples) origins(shortest float64, regular int) []int {
	const closer = 64
	oldest := x.now() - x.t[0]
	var out []int
	for i := range regular {
		out = append(out, x.firstSince(x.t[0]+oldest*float64(i+1)/float64(regular+1)))
	}
	if oldest > shortest {
		for i := range closer {
			back := shortest * math.Pow(oldest/shortest, float64(i)/closer)
			out = append(out, x.firstSince(x.now()-back))
		}
	}
	slices.Sort(out)
	return slices.DeleteFunc(slices.Compact(out), func(n int) bool { return n < 2 || n >= x.len() })
}
