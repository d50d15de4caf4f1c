package history

import (
	"time"

	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// A looked is a row of one device: the readings of a span, and the mean of those that had a value.
type looked struct {
	begin           time.Time
	span            time.Duration
	readings, count int
	mean            float64
	// stood is for how long some of the readings stand, see [store.ReadSeconds], and timed of how many that is known.
	stood time.Duration
	timed int
}

// rarest is the longest time between two readings, and around how much more than that the rows next to a span say how often
// devices were read in it.
const rarest, around = time.Hour, 4 * time.Hour

// paces are how often devices are read now: at the longest of them, and while nobody looks; 0: that is not known, and no other one.
type paces struct{ usual, seldom time.Duration }

func (p *Past) paces() paces { return paces{p.Interval, p.Seldom} }

// interval is how often the device was read when row i was made. Where it is read more seldom while nobody looks, it may have been
// for a part of the row.
func interval(rows []looked, i int, now paces) time.Duration {
	r, every := &rows[i], usually(rows, i, now.usual)
	beside := i > 0 && rows[i-1].begin.Equal(r.begin) || i+1 < len(rows) && rows[i+1].begin.Equal(r.begin) // a reading in the minute of another one
	if now.seldom > every && !beside {
		return max(every, min(now.seldom, r.span/time.Duration(r.readings)))
	}
	return every
}

// usually is that interval of a device that was always read as often. Three rows that follow one another tell, as of a database that
// was written with several intervals; of fewer it is the one that is usual now, or 0: then the row had no gap.
func usually(rows []looked, i int, usual time.Duration) time.Duration {
	for _, first := range [...]int{i - 1, i, i - 2} {
		if first < 0 || first+2 >= len(rows) {
			continue
		}
		if found := paceOf(rows[first], rows[first+1], rows[first+2]); found > 0 {
			return found
		}
	}
	r := &rows[i]
	if usual == 0 {
		usual = r.span / time.Duration(r.readings)
	}
	if r.readings > 1 { // they were all within the span
		usual = min(usual, r.span/time.Duration(r.readings-1))
	}
	return usual
}

// paceOf is the time between the readings of three rows, of which one may have a gap; 0: they don't follow one another.
func paceOf(a, b, c looked) time.Duration {
	if a.span != b.span || b.span != c.span {
		return 0
	}
	span, first, second := a.span, b.begin.Sub(a.begin), c.begin.Sub(b.begin)
	most := max(a.readings, b.readings, c.readings)
	if first == span && second == span {
		least := min(a.readings, b.readings, c.readings)
		return span / time.Duration(a.readings+b.readings+c.readings-most-least)
	}
	pace := (first + second) / time.Duration(a.readings+b.readings)
	even := func(apart time.Duration, readings int) bool {
		return (apart - time.Duration(readings)*pace).Abs() <= span
	}
	if pace > rarest || most > 2 || most == 2 && pace > span || !even(first, a.readings) || !even(second, b.readings) {
		return 0
	}
	return pace
}

// seen is for how long row i stands. Where that is not kept, it is each of its readings for the interval that was in force; and if
// that is not much shorter than the span of the row, it stands until the next one.
func seen(rows []looked, i int, known paces, now time.Time) time.Duration {
	r := &rows[i]
	if r.timed > 0 {
		return time.Duration(float64(r.stood) * float64(r.readings) / float64(r.timed))
	}
	every := interval(rows, i, known)
	long := time.Duration(r.readings) * every
	switch {
	case 2*every > r.span:
		if i+1 < len(rows) && rows[i+1].begin.Sub(r.begin) <= long+r.span {
			return rows[i+1].begin.Sub(r.begin)
		}
		return long
	case long+every+every/2 > min(r.span, now.Sub(r.begin)): // one can fall into the span beside
		return r.span
	}
	return long
}

// part is for how long of the time between two row i stands. A row that stands for less than its span has its readings at the end
// of that where only another one follows at once, at its beginning where only one goes before, and else anywhere. Nothing was
// seen after now. A row that stands for more than its span, of devices that are read seldom, stands until its next one; one whose
// readings stand for the time before them, as is kept, has stood before it.
func part(rows []looked, i int, known paces, from, to, now time.Time) time.Duration {
	r, stands := &rows[i], seen(rows, i, known, now)
	begin, end := r.begin, r.begin.Add(max(r.span, stands))
	if r.timed > 0 {
		end = earliest(r.begin.Add(r.span), now)
		begin = earliest(r.begin, end.Add(-stands))
	}
	before := i > 0 && rows[i-1].begin.Add(rows[i-1].span).Equal(begin)
	after := i+1 < len(rows) && rows[i+1].begin.Equal(end)
	switch {
	case after && !before:
		begin = end.Add(-stands)
	case before && !after:
		end = begin.Add(stands)
	}
	end = earliest(end, now)
	length, part := end.Sub(begin), earliest(end, to).Sub(latest(begin, from))
	if length <= 0 || part <= 0 {
		return 0
	}
	return time.Duration(float64(min(stands, length)) * float64(part) / float64(length))
}

// lookedAt is one of a row. That of a reading is of its minute, and of that reading alone.
func lookedAt(r *store.Row, column int) looked {
	v, read := &r.Values[column], &r.Values[store.ReadSeconds]
	out := looked{begin: r.Time, span: r.Tier.Span(), readings: max(r.Readings, 1)}
	out.timed = min(read.Count, out.readings)
	out.stood = time.Duration(read.Mean * float64(out.timed) * float64(time.Second))
	if !v.Doubtful {
		out.count, out.mean = min(v.Count, out.readings), v.Mean
	}
	if r.Tier == store.Raw {
		out.begin, out.span = r.Time.UTC().Truncate(time.Minute), time.Minute
	}
	return out
}
