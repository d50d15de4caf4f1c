package method

import (
	"slices"
	"time"
)

const (
	// leastGrowth is how long something grows at least before it is called growth, and leastPoints how often it was read.
	leastGrowth = time.Minute
	leastPoints = 12
	// A growth that fills the memory within soon is told of when it has lasted as long as it has still to go; where there is more
	// time, twice as long.
	soon = 15 * time.Minute
	// A few jumps are no growth: they are a job that loads in stages.
	fewJumps = 16
)

var memory = &reading{
	kind: KindMemoryFull, method: "robust trend (Theil-Sen) since the last change",
	fit: growth, reaches: 0.9, like: 0.25, regular: 64,
}

// MemoryFull says when a memory is full that grows steadily. Steps, and the teeth of a saw, are no growth. Value, Low and
// High are in seconds. The series and full have the same unit. A day of points, one a minute, is a good past.
func MemoryFull(used Series, full float64) Forecast { return memory.until(used, full) }

// A line goes through a level at now.
type line struct {
	level, slope float64 // the slope per second
	seconds      float64 // since it began
}

func (l *line) after(seconds float64) float64 { return l.level + l.slope*seconds }

func (l *line) above() float64 { return 0 }

func (l *line) rests() float64 { return l.seconds }

func (l *line) unit() float64 { return 1 }

func (l *line) reach(level float64) (float64, bool) { return max((level-l.level)/l.slope, 0), true }

// growth finds the longest time until now in which the samples grow in one way.
func growth(x *samples) (curve, Why) {
	whole := x.now() - x.t[0]
	if whole < leastGrowth.Seconds() || x.len() < leastPoints {
		return nil, TooLittlePast
	}
	var b buckets
	through := func(seconds float64) *line {
		if !b.cut(x, seconds, leastPoints) {
			return nil
		}
		l, ok := b.line()
		if !ok || l.level-x.newest() > l.slope/8 || x.jumps(seconds, l.slope) { // or it was freed just now
			return nil
		}
		return &line{l.level, l.slope / seconds, seconds}
	}
	for seconds := whole; seconds >= leastGrowth.Seconds(); seconds *= 0.75 {
		l := through(seconds)
		if l == nil {
			continue
		}
		for _, more := range [...]float64{1.25, 1.12} { // the steps are coarse
			if longer := through(min(more*seconds, whole)); longer != nil {
				return longer, ""
			}
		}
		return l, ""
	}
	return nil, NoGrowth
}

// jumps reports whether a few jumps make more than a third of a growth.
func (x *samples) jumps(seconds, growth float64) bool {
	first := max(x.firstSince(x.now()-seconds), 1)
	v := x.v[first-1:]
	up := make([]float64, len(v)-1)
	for i := range up {
		up[i] = v[i+1] - v[i]
	}
	usual := median(slices.Clone(up))
	off := make([]float64, len(up))
	for i := range up {
		off[i] = distance(up[i], usual)
	}
	far := usual + max(6*median(off), growth/200)
	sum, count, before := 0.0, 0, false
	for _, d := range up {
		jump := d > far
		if jump {
			sum += d - usual
			if !before {
				count++
			}
		}
		before = jump
	}
	return count < fewJumps && sum > 0.35*growth
}

func (l *line) between(level float64) (first, last float64, ok bool) {
	first, ok = l.reach(level)
	return first, first, ok
}

// early says that it must go on for longer, or that similar growth was freed before.
func (l *line) early(x *samples, level float64) Why {
	ahead, _ := l.reach(level)
	switch {
	case ahead > max(min(l.seconds, soon.Seconds()), l.seconds/2):
		return TooFar
	case x.until(x.firstSince(x.now()-0.85*l.seconds)).freed(l, level): // the drop may be in the window's first part
		return Freed
	}
	return ""
}

// freed reports whether the samples have a tooth that a growth has not outgrown yet: at least half as high, and more than two
// thirds as long. One that filled the memory is none.
func (x *samples) freed(l *line, full float64) bool {
	grown := l.slope * l.seconds
	var low, high int
	rises := false
	for i := range x.v {
		switch v := x.v[i]; {
		case rises && v > x.v[high]:
			high = i
		case rises && x.v[high]-v >= max(grown/4, (x.v[high]-x.v[low])/2):
			if x.tooth(low, high, full, grown/2, l.seconds/1.5) {
				return true
			}
			low, rises = i, false
		case !rises && v <= x.v[low]:
			low = i
		case !rises && v-x.v[low] >= grown/4:
			high, rises = i, true
		}
	}
	return false
}

// tooth reports whether a rise is at least so high and so long, and gradual. Its ends are where 15 % of it are missing.
func (x *samples) tooth(low, high int, full, height, seconds float64) bool {
	h := x.v[high] - x.v[low]
	if h < height || full-x.v[high] < 0.03*h {
		return false
	}
	from, to := high, low
	for from > low && x.v[from] > x.v[low]+0.15*h {
		from--
	}
	for to < high && x.v[to] < x.v[high]-0.15*h {
		to++
	}
	return to > from+2 && (x.t[to]-x.t[from])/0.7 > seconds
}

// line returns the robust line through buckets, with the slope of the whole window. ok is false if they do not grow
// steadily: the line is lost in noise, a few steps make most of it, or its halves differ.
func (b *buckets) line() (l line, ok bool) {
	n := len(b.mean)
	if mean(b.mean[:n/4]) >= mean(b.mean[n-n/4:]) {
		return l, false
	}
	var room [parts * parts]float64
	slopes, rising := b.slopes(0, n, room[:0])
	if rising < 0.9 {
		return l, false
	}
	slope := median(slopes)
	slopes, _ = b.slopes(0, n/2, room[:0])
	first := median(slopes)
	slopes, _ = b.slopes(n/2, n, room[:0])
	second := median(slopes)
	if min(first, second) < slope/2 || max(first, second) > 2*slope {
		return l, false
	}
	rest := room[:0]
	for i, place := range b.place {
		rest = append(rest, b.mean[i]-slope*place)
	}
	base := median(rest)
	for i := range rest {
		rest[i] = distance(rest[i], base)
	}
	if spread := 1.4826 * median(rest); slope < 4*spread {
		return l, false
	}
	steps := room[:0]
	for i := 1; i < n; i++ {
		steps = append(steps, b.mean[i]-b.mean[i-1])
	}
	slices.Sort(steps)
	largest := 0.0
	for _, s := range steps[len(steps)-(n+7)/8:] {
		largest += s
	}
	return line{level: base + slope, slope: slope}, largest <= 0.35*slope
}

// slopes are those between all pairs of some buckets, and the share of them that rise. Their median is Theil and Sen's.
func (b *buckets) slopes(from, to int, room []float64) (slopes []float64, rising float64) {
	for i := from + 1; i < to; i++ {
		for j := from; j < i; j++ {
			s := (b.mean[i] - b.mean[j]) / (b.place[i] - b.place[j])
			if s > 0 {
				rising++
			}
			room = append(room, s)
		}
	}
	return room, rising / float64(len(room))
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}
