package history

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// MostPoints is how many points a series has at most, and FewPoints how many it has about if nobody
// asks for a step.
const (
	MostPoints = 20_000
	FewPoints  = 600
	// MostValues is how many values all series of an answer have at most: of that many, memory and answer take about 150 MB.
	MostValues = 1_000_000
)

// longest is the longest span of a grid, and its longest step: a hundred years.
const longest = 100 * 365 * 24 * time.Hour

// ErrTooFine says that a step would give more than [MostPoints] points, or more than [MostValues] values.
var ErrTooFine = errors.New("the step is too short for the span: it would give more than 20,000 points or 1,000,000 values")

// ErrTooLong says that a span or a step is too long for a grid.
var ErrTooLong = errors.New("the span or its step is longer than 100 years")

// steps are those that are chosen for a person, who reads a clock.
var steps = []time.Duration{
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
}

// Step is the shortest step for a person that is not shorter than that, or the longest that there is.
func Step(least time.Duration) time.Duration {
	i, _ := slices.BinarySearch(steps, least)
	return steps[min(i, len(steps)-1)]
}

// A Grid is the times of the points of a series: From, From+Step, … before To. Point i is about the step that begins then.
type Grid struct {
	From, To time.Time
	Step     time.Duration
	Tier     store.Tier // the rows that the points are made of
}

// Len is the number of points.
func (g Grid) Len() int {
	span := g.To.Sub(g.From)
	points := int(span / g.Step)
	if span%g.Step > 0 {
		points++
	}
	return points
}

// Time returns the start of a point's step.
func (g Grid) Time(point int) time.Time { return g.From.Add(time.Duration(point) * g.Step) }

// Clip returns the grid without everything before a time: it begins with the first whole step at or after that time. If the span has no such
// step, the grid has one point that begins at that time and is made from single readings.
func (g Grid) Clip(begin time.Time) Grid {
	if !g.From.Before(begin) {
		return g
	}
	next := g.From.Add((begin.Sub(g.From) + g.Step - 1).Truncate(g.Step))
	if !next.Before(g.To) {
		next, g.Tier = begin, store.Raw
	}
	g.From = next
	return g
}

// Grid is [Past.BoundedGrid] for a few values.
func (p *Past) Grid(from, to time.Time, step time.Duration) (Grid, error) {
	return p.BoundedGrid(from, to, step, 1)
}

// BoundedGrid chooses the rows and the step for a span. A step of 0 chooses one for a person, with which so many values at each
// point are no more than [MostValues]. Rows of a tier that
// is not kept for as long as the span goes back, or whose span is longer than the step, make the step longer. Grids begin
// at whole steps since 1970. The error is [ErrTooFine] or [ErrTooLong].
func (p *Past) BoundedGrid(from, to time.Time, step time.Duration, values int) (Grid, error) {
	if to.Sub(from) > longest || step > longest {
		return Grid{}, ErrTooLong
	}
	if step <= 0 {
		points := max(1, min(FewPoints, MostValues/max(1, values)-2)) // of the first and the last step only a part may be in the span
		step = Step(to.Sub(from) / time.Duration(points))
		if day := 24 * time.Hour; to.Sub(from)/step > time.Duration(points) {
			step = (to.Sub(from)/time.Duration(points) + day - 1).Truncate(day)
		}
	}
	tier := store.SixHours
	for tier > store.Raw && step%tier.Span() != 0 {
		tier--
	}
	for tier < store.Quarter && !p.keeps(tier, from) {
		tier++
		step = max(step.Truncate(tier.Span()), tier.Span())
	}
	if to.Sub(from)/step > MostPoints {
		return Grid{}, ErrTooFine
	}
	return Grid{from.Truncate(step), to, step, tier}, nil
}

// points are those that a row is about, from the first to the last: the one in which it begins, or of a row that is longer than the
// step all within it. The last is less than the first where there is none.
func (g Grid) points(r *store.Row) (first, last int) {
	begin := r.Time.Sub(g.From)
	first, last = int(begin/g.Step), int(begin/g.Step)
	if long := r.Tier.Span(); long > g.Step {
		last = int((begin + long - 1) / g.Step)
	} else if begin < 0 {
		return 0, -1
	}
	return max(first, 0), min(last, g.Len()-1)
}

// A Series holds the readings of a device or machine on a grid.
type Series struct {
	store.Key
	// Values by the places of the columns that were asked for, and point. Where Count is 0 there is a gap.
	Values [][]store.Value
}

// History reads columns of devices over time, or of machines; no keys stand for all. The series are ordered by node and UUID. Where
// a device has no rows of the grid's tier, they are made of coarser ones: points within the same one are the same. The error is
// [ErrTooFine] where they would have more than [MostValues] values.
func (p *Past) History(ctx context.Context, g Grid, keys []store.Key, machines bool, columns []int) ([]Series, error) {
	all := map[store.Key]*Series{}
	q := store.Query{From: g.From, To: g.To, Keys: keys, Machines: machines, Tier: g.Tier, Columns: columns, Reuse: true}
	for r, err := range p.filled(ctx, q) {
		if err != nil {
			return nil, err
		}
		first, last := g.points(&r)
		if first > last {
			continue
		}
		s := all[r.Key]
		if s == nil {
			if (len(all)+1)*len(columns)*g.Len() > MostValues {
				return nil, ErrTooFine
			}
			s = &Series{r.Key, make([][]store.Value, len(columns))}
			for i := range s.Values {
				s.Values[i] = make([]store.Value, g.Len())
			}
			all[r.Key] = s
		}
		for i, column := range columns {
			v := r.Values[column]
			if v.Doubtful || v.Count == 0 {
				continue
			}
			v.Count = max(1, v.Count/(last-first+1))
			for point := first; point <= last; point++ {
				s.Values[i][point] = join(s.Values[i][point], v)
			}
		}
	}
	return slices.SortedFunc(func(yield func(Series) bool) {
		for s := range maps.Values(all) {
			if !yield(*s) {
				return
			}
		}
	}, func(a, b Series) int { return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.UUID, b.UUID)) }), nil
}

// join is the value of two spans together.
func join(a, b store.Value) store.Value {
	switch {
	case a.Count == 0:
		return b
	case b.Count == 0:
		return a
	}
	n := a.Count + b.Count
	return store.Value{
		Least: min(a.Least, b.Least), Most: max(a.Most, b.Most), Count: n,
		Mean: a.Mean + (b.Mean-a.Mean)*float64(b.Count)/float64(n),
	}
}
