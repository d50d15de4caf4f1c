package forecast

import (
	"slices"
	"time"
)

// leastGrowth is how long something grows at least before it is called growth: what a program takes at its start is not.
const leastGrowth = 10 * time.Minute

var memory = &reading{
	kind: KindMemoryFull, method: "robust trend (Theil-Sen) since the last change",
	fit: growth, reaches: 1, regular: 64,
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

func (l *line) rests() float64 { return l.seconds }

func (l *line) unit() float64 { return 1 }

func (l *line) reach(level float64) (float64, bool) { return max((level-l.level)/l.slope, 0), true }

// growth finds the longest time until now in which the samples grow in one way.
func growth(x *samples) (curve, Why) {
	whole := x.now() - x.t[0]
	if whole < leastGrowth.Seconds() {
		return nil, TooLittlePast
	}
	var b buckets
	for seconds := whole; seconds >= leastGrowth.Seconds(); seconds *= 0.75 {
		if !b.cut(x, seconds, 12) {
			continue
		}
		if l, ok := b.line(); ok {
			return &line{l.level, l.slope / seconds, seconds}, ""
		}
	}
	return nil, NoGrowth
}

// line is the robust line through buckets, its slope that of the whole window. ok is false where they do not grow in one
// way: the line is lost in what is around it, a few steps make most of it, or its halves differ.
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
