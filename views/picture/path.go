package picture

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// A text writes a path: each part is an absolute position followed by short relative steps. Steps along a level line are merged.
type text struct {
	strings.Builder
	x, y   int // current position
	ahead  int // length of a level stretch not written yet
	inLine bool
}

func (t *text) move(x, y int) {
	t.flush()
	t.inLine = false
	t.WriteByte('M')
	t.number(x, true)
	t.number(y, false)
	t.x, t.y = x, y
}

func (t *text) line(x, y int) {
	if y == t.y {
		t.ahead = x - t.x
		return
	}
	t.flush()
	t.step(x-t.x, y-t.y)
}

// flush writes the pending level stretch.
func (t *text) flush() {
	if t.ahead != 0 {
		t.step(t.ahead, 0)
	}
}

func (t *text) step(dx, dy int) {
	first := !t.inLine
	if first {
		t.WriteByte('l')
		t.inLine = true
	}
	t.number(dx, first)
	t.number(dy, false)
	t.x, t.y, t.ahead = t.x+dx, t.y+dy, 0
}

func (t *text) number(v int, first bool) {
	if !first && v >= 0 {
		t.WriteByte(' ')
	}
	var digits [20]byte
	t.Write(strconv.AppendInt(digits[:0], int64(v), 10))
}

// command writes another path command with its numbers.
func (t *text) command(name byte, numbers ...int) {
	t.WriteByte(name)
	for i, v := range numbers {
		t.number(v, i == 0)
	}
}

// A run is a range of points without a gap; the end is exclusive.
type run struct{ first, end int }

func runs(n int, counts func(int) bool) (out []run) {
	for i := range n {
		switch {
		case !counts(i):
		case len(out) > 0 && out[len(out)-1].end == i:
			out[len(out)-1].end++
		default:
			out = append(out, run{i, i + 1})
		}
	}
	return out
}

// known reports which values were read; the others are NaN.
func known(values []float32) func(int) bool {
	return func(i int) bool { return values[i] == values[i] }
}

// Steps places the values of a series on an axis: each value stands for one step, and NaN is a gap.
type Steps struct {
	Axis
	Begin time.Time // start of the first step
	Step  time.Duration
	// Middle draws a value in the middle of its step, for means over the step; otherwise it is drawn at the end of the step.
	Middle bool
	// First and Last bound the span that can have data, if steps reach beyond it; zero means no bound. A live picture has no bounds, so
	// points don't change as they leave it.
	First, Last time.Time
}

// within clamps a position to the bounds.
func (s Steps) within(x int) int {
	if !s.First.IsZero() {
		x = max(x, s.X(s.First))
	}
	if !s.Last.IsZero() {
		x = min(x, s.X(s.Last.Add(s.Unit-1)))
	}
	return x
}

// edge returns where a step begins and the previous one ends.
func (s Steps) edge(i int) int {
	return s.within(s.X(s.Begin) + int(time.Duration(i)*s.Step/s.Unit))
}

// place returns where the value of a step is drawn.
func (s Steps) place(i int) int {
	if s.Middle {
		return s.within(s.X(s.Begin) + int((2*time.Duration(i)+1)*s.Step/(2*s.Unit)))
	}
	return s.edge(i + 1)
}

// upper draws the values of a run from the left edge of its first step to the right edge of its last.
func (s Steps) upper(out *text, r run, values []float32, scale Scale) {
	y := 0
	for i := r.first; i < r.end; i++ {
		y = scale.steps(float64(values[i]))
		out.line(s.place(i), y)
	}
	out.line(s.edge(r.end), y)
	out.flush()
}

// shown returns the runs of values within the axis.
func (s Steps) shown(values []float32) []run {
	end := s.X(s.To)
	return runs(len(values), func(i int) bool {
		return values[i] == values[i] && s.X(s.Begin)+int(time.Duration(i)*s.Step/s.Unit) < end
	})
}

// Line draws a line through values, with gaps between runs.
func (s Steps) Line(values []float32, scale Scale) string {
	var out text
	for _, r := range s.shown(values) {
		out.move(s.edge(r.first), scale.steps(float64(values[r.first])))
		s.upper(&out, r, values, scale)
	}
	return out.String()
}

// Area fills the area below values, down to the lane's floor.
func (s Steps) Area(values []float32, scale Scale) string {
	return s.area(s.shown(values), values, scale)
}

func (s Steps) area(runs []run, values []float32, scale Scale) string {
	var out text
	floor := scale.steps(scale.low)
	for _, r := range runs {
		out.move(s.edge(r.first), floor)
		out.line(s.edge(r.first), scale.steps(float64(values[r.first])))
		s.upper(&out, r, values, scale)
		out.line(s.edge(r.end), floor)
		out.flush()
	}
	return out.String()
}

// Between fills the area between two series. Each step is a bar of its width, so new steps can be appended.
func (s Steps) Between(low, high []float32, scale Scale) string {
	var out text
	for _, r := range runs(len(low), func(i int) bool { return low[i] == low[i] && high[i] == high[i] }) {
		if slices.Equal(low[r.first:r.end], high[r.first:r.end]) {
			continue // nothing to fill
		}
		top := scale.steps(float64(high[r.first]))
		out.command('M', s.edge(r.first), top)
		for i := r.first; i < r.end; i++ {
			y := scale.steps(float64(high[i]))
			if i > r.first {
				out.command('m', 0, y-top)
			}
			top = y
			down := y - scale.steps(float64(low[i]))
			out.command('v', -down) // from the upper left edge down, right, and up: fills close the path
			out.command('h', s.edge(i+1)-s.edge(i))
			out.command('v', down)
		}
	}
	return out.String()
}

// Bars draws values like a sound wave: a bar at each multiple of a number of units, plus an offset, as high above the middle
// as below.
func (s Steps) Bars(values []float32, scale Scale, every, phase int) string {
	var out text
	last, under := 0, 0
	for i, v := range values {
		x := s.edge(i)
		if v != v || x%every != phase {
			continue
		}
		half := max(scale.steps(float64(v)), 1)
		if out.Len() == 0 {
			out.command('M', x, -half)
		} else {
			out.command('m', x-last, -half-under)
		}
		out.command('v', 2*half)
		last, under = x, half
	}
	return out.String()
}
