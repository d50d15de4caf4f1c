package forecast

import (
	"math"
	"time"
)

// What a card's heat does takes no longer than longestHeat; in less than shortestHeat nothing can be told.
const (
	longestHeat  = time.Hour
	shortestHeat = 20 * time.Second
)

var temperature = &reading{
	kind: KindLimitReached, method: "step response of first order (least squares) since the last change",
	fit: heating, reaches: 0.5, regular: 256,
}

// LimitReached says when a temperature is reached, by how a body warms up: fast first, then slower, towards a ceiling. Value, Low
// and High are in seconds. The points should be those that were read, not means of a minute.
func LimitReached(temperatures Series, limit float64) Forecast {
	return temperature.until(temperatures, limit)
}

// A warming goes towards a ceiling: ceiling − below·exp(−t/tau), with t from now on.
type warming struct{ ceiling, below, tau, seconds float64 }

func (w *warming) after(seconds float64) float64 { return w.ceiling - w.below*math.Exp(-seconds/w.tau) }

func (w *warming) rests() float64 { return w.seconds }

func (w *warming) unit() float64 { return min(w.tau, w.seconds) }

func (w *warming) reach(level float64) (float64, bool) {
	left := (w.ceiling - level) / w.below
	if !(left > 0) {
		return 0, false
	}
	return max(-w.tau*math.Log(left), 0), true
}

// heating finds the longest time until now in which the samples are one warming.
func heating(x *samples) (curve, Why) {
	n := x.len()
	whole := min(x.now()-x.t[x.run[n-1]], longestHeat.Seconds())
	grain := x.grain[n-1]
	switch {
	case whole < shortestHeat.Seconds():
		return nil, TooLittlePast
	case grain == 0 || !x.rises(min(whole, 60)):
		return nil, NoGrowth
	}
	var b buckets
	for seconds := whole; seconds >= shortestHeat.Seconds(); seconds *= 0.8 {
		if !b.cut(x, seconds, 8) {
			continue
		}
		w, off := b.warming()
		if w == nil {
			continue
		}
		rise := w.below * (math.Exp(1/w.tau) - 1)
		may := max(0.35*grain, 0.03*rise)
		if rise >= 3*grain && off <= may && distance(w.after(0), x.newest()) <= grain+2*may {
			w.tau, w.seconds = w.tau*seconds, seconds
			return w, ""
		}
	}
	return nil, NoGrowth
}

// rises reports whether the last point is above that of a while ago.
func (x *samples) rises(seconds float64) bool {
	v, ok := x.at(x.now() - seconds)
	return ok && x.newest() > v
}

// warming is the best curve through buckets, with the window as the unit of time; nil where they do not rise. off is how far
// they are from it. Of a time constant the rest is known (it is linear), so that only that is searched.
func (b *buckets) warming() (best *warming, off float64) {
	off = math.Inf(1)
	var at warming
	for tau := 0.06; tau < 4; tau *= 1.15 {
		if w, o := b.through(tau); o < off {
			at, off = w, o
		}
	}
	for _, by := range [...]float64{1.04, 1.02, 1.01} {
		for _, tau := range [...]float64{at.tau / by, at.tau * by} {
			if w, o := b.through(tau); o < off {
				at, off = w, o
			}
		}
	}
	if !(at.below > 0) || math.IsInf(off, 1) {
		return nil, off
	}
	return &at, off
}

// through is the best curve with a time constant.
func (b *buckets) through(tau float64) (w warming, off float64) {
	var bent [parts]float64
	n := float64(len(b.mean))
	var sy, se, see, sey float64
	for i, y := range b.mean {
		e := math.Exp(-b.place[i] / tau)
		bent[i] = e
		sy, se, see, sey = sy+y, se+e, see+e*e, sey+e*y
	}
	below := (se*sy - n*sey) / (n*see - se*se) // at the beginning of the window
	w = warming{ceiling: (sy + below*se) / n, below: below * math.Exp(-1/tau), tau: tau}
	for i, y := range b.mean {
		off += sq(y - w.ceiling + below*bent[i])
	}
	if off = math.Sqrt(off / n); math.IsNaN(off) {
		off = math.Inf(1)
	}
	return w, off
}

func sq(x float64) float64 { return x * x }
