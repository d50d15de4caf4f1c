package method

import (
	"math"
	"slices"
	"time"
)

const (
	// What a card's heat does takes no longer than longestHeat; in less than shortestHeat nothing can be told.
	longestHeat  = time.Hour
	shortestHeat = 20 * time.Second
	// fits is how far off the curve the readings are at most, as a part of their rise, where the sensor is finer.
	fits = 0.02
	// alikeWithin is how much farther off than the best curve others may be: about what chance does of two dozen means.
	alikeWithin = 20.0
	// A warming that rises less than brakes of what its curve does is one that something brakes.
	brakes = 0.9
	// Fans and caps of power stop most warmings before the limit. One that was never so hot is told of in the last part of its way,
	// and where it is slow enough for them to have shown.
	lastPart = 0.25
	slowly   = 200.0 // s, for the last part
	aStep    = 20.0  // s, for a step of the sensor
	// The first reading at a limit is about one spread of the readings above the curve. The interval is for 0 to about twice that.
	scatter = 1.2
)

// between is when the curve and those like it are at a level, from the first to the last of them. ok is false where one of
// them levels off below.
func (w *warming) between(level float64) (first, last float64, ok bool) {
	first, last = math.Inf(1), 0
	for _, c := range append(slices.Clip(w.others), *w) {
		reached, comes := c.reach(level - w.noise*scatter)
		if !comes || c.ceiling <= level {
			return 0, 0, false
		}
		first = min(first, reached)
		reached, _ = c.reach(level + w.noise)
		last = max(last, reached)
	}
	return first, last, true
}

// early says why it is too early to tell. Where the device was as hot as that before, nothing holds it below.
func (w *warming) early(x *samples, level float64) Why {
	switch {
	case slices.Max(x.v) >= level:
		return ""
	case level-x.newest() > lastPart*w.rise:
		return TooFar
	case w.below/w.tau > max(lastPart*w.rise/slowly, x.grain[x.len()-1]/aStep):
		return TooFast
	}
	return ""
}

var temperature = &reading{
	kind: KindLimitReached, method: "step response of first order (least squares) since the last change",
	fit: heating, reaches: 0.5, like: 0.5, regular: 256,
}

// LimitReached says when a temperature is reached, by how a body warms up: fast first, then slower, towards a ceiling. Value, Low
// and High are in seconds. The points should be those that were read, not means of a minute.
func LimitReached(temperatures Series, limit float64) Forecast {
	return temperature.until(temperatures, limit)
}

// A warming goes towards a ceiling: ceiling − below·exp(−t/tau), with t from now on.
type warming struct {
	ceiling, below, tau, seconds float64
	rise                         float64   // from the beginning of the window until now
	noise                        float64   // how far the readings are from the curve
	others                       []warming // further curves that go through the same readings nearly as well
}

func (w *warming) after(seconds float64) float64 { return w.ceiling - w.below*math.Exp(-seconds/w.tau) }

func (w *warming) rests() float64 { return w.seconds }

func (w *warming) unit() float64 { return min(w.tau, w.seconds) }

func (w *warming) above() float64 { return w.noise }

func (w *warming) reach(level float64) (float64, bool) {
	left := (w.ceiling - level + w.noise) / w.below
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
		may := max(0.35*grain, fits*rise)
		if rise >= 3*grain && off <= may && distance(w.after(0), x.newest()) <= grain+2*may {
			if b.bends(w) {
				return nil, Braked
			}
			w.rise = rise
			w.tau, w.seconds = w.tau*seconds, seconds
			w.noise = w.spread(x)
			w.others = b.alike(max(off, 0.1*grain))
			for i := range w.others {
				w.others[i].noise = w.noise
				w.others[i].tau *= seconds
			}
			return w, ""
		}
	}
	return nil, NoGrowth
}

// spread is how far the readings of the window are from the curve.
func (w *warming) spread(x *samples) float64 {
	sum, first, n := 0.0, x.firstSince(x.now()-w.seconds), x.len()
	for i := first; i < n; i++ {
		sum += sq(x.v[i] - w.after(x.t[i]-x.now()))
	}
	return math.Sqrt(sum / float64(n-first))
}

// rises reports whether the last point is above that of a while ago.
func (x *samples) rises(seconds float64) bool {
	v, ok := x.valueAt(x.now() - seconds)
	return ok && x.newest() > v
}

// warming is the best curve through buckets, with the window as the unit of time; nil where they do not rise. off is how far
// they are from it. Of a time constant the rest is known (it is linear), so that only that is searched.
func (b *buckets) warming() (best *warming, off float64) {
	off = math.Inf(1)
	var nearest warming
	for tau := 0.06; tau < 4; tau *= 1.15 {
		if w, o := b.through(tau); o < off {
			nearest, off = w, o
		}
	}
	for _, factor := range [...]float64{1.04, 1.02, 1.01} {
		for _, tau := range [...]float64{nearest.tau / factor, nearest.tau * factor} {
			if w, o := b.through(tau); o < off {
				nearest, off = w, o
			}
		}
	}
	if !(nearest.below > 0) || math.IsInf(off, 1) {
		return nil, off
	}
	return &nearest, off
}

// alike are curves that are hardly farther from the buckets than the best one, which is off from them.
func (b *buckets) alike(off float64) (all []warming) {
	may := off * math.Sqrt(1+alikeWithin/float64(len(b.mean)))
	for tau := 0.06; tau < 20; tau *= 1.15 {
		if w, o := b.through(tau); o <= may && w.below > 0 {
			all = append(all, w)
		}
	}
	return all
}

// bends reports whether the newest buckets rise clearly less than a curve through all of them: something brakes the warming.
func (b *buckets) bends(w *warming) bool {
	n := len(b.mean)
	last := n / 4
	var sx, sy, sxx, sxy, cy, cxy float64
	for i := n - last; i < n; i++ {
		x, y, c := b.place[i]-b.place[n-1], b.mean[i], w.after(b.place[i]-1)
		sx, sy, sxx, sxy, cy, cxy = sx+x, sy+y, sxx+x*x, sxy+x*y, cy+c, cxy+x*c
	}
	k := float64(last)
	return k*sxy-sx*sy < brakes*(k*cxy-sx*cy)
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
