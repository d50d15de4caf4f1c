package method

import (
	"cmp"
	"slices"
	"time"
)

// A Told is what a thermal model said in a cool-down, and what came of it.
type Told struct {
	Begun time.Time     // when the cool-down began
	At    time.Time     // when the model said it
	Said  time.Duration // how long from At it would take until it is quiet
	Took  time.Duration // how long from At it took. Where work began before, nobody knows, and it is not told
}

func (t *Told) over() time.Time { return t.At.Add(t.Took) }

// whole is how long the cool-down took.
func (t *Told) whole() time.Duration { return t.over().Sub(t.Begun) }

// grace keeps a few seconds from being many times a few seconds.
const grace = 5 * time.Second

// QuietIn puts an interval and an error to what a thermal model says in a cool-down that goes on; of now, Begun, At and Said
// count. An earlier cool-down may have told several times: the one in the situation most like now's counts. What was not over
// then is left out. Value, Low, High and the errors are in seconds.
//
// "As now" is that it takes as long as the cool-down before; "as yesterday", as long as the one that began within an hour
// of the same time a day before.
func QuietIn(now Told, past []Told) Forecast {
	f := Forecast{Kind: KindQuiet, Method: "the thermal model of the answer", At: now.At}
	if now.Said < 0 || now.At.Before(now.Begun) {
		return f.end(TooLittlePast)
	}
	told := alike(&now, past)
	var trials []trial
	var late []float64
	for i := range told {
		trials = append(trials, told[i].beside(told[:i]))
		late = append(late, (told[i].Took+grace).Seconds()/(told[i].Said+grace).Seconds())
	}
	why := f.judge(trials)
	if why == TooLittlePast {
		return f.end(why)
	}
	low, high := interval(late, len(late))
	said := (now.Said + grace).Seconds()
	f.Low, f.High = max(said*low-grace.Seconds(), 0), max(said*high-grace.Seconds(), 0)
	f.Value = min(max(now.Said.Seconds(), f.Low), f.High)
	return f.end(why)
}

// alike has one entry of each cool-down that was over, by when they began: that which was said about as late in it.
func alike(now *Told, past []Told) []Told {
	late := now.At.Sub(now.Begun)
	off := func(t *Told) time.Duration { return (t.At.Sub(t.Begun) - late).Abs() }
	var told []Told
	for _, t := range past {
		if !t.over().After(now.At) && t.Begun.Before(now.Begun) && t.Said >= 0 && t.Took >= 0 && !t.At.Before(t.Begun) {
			told = append(told, t)
		}
	}
	slices.SortStableFunc(told, func(a, b Told) int {
		if order := a.Begun.Compare(b.Begun); order != 0 {
			return order
		}
		return cmp.Compare(off(&a), off(&b))
	})
	return slices.CompactFunc(told, func(a, b Told) bool { return a.Begun.Equal(b.Begun) })
}

// beside is the entry as a trial, with what cool-downs before it say.
func (t *Told) beside(earlier []Told) trial {
	out := trial{said: t.Said.Seconds(), was: t.Took.Seconds()}
	sofar := t.At.Sub(t.Begun)
	for i := range earlier {
		u := &earlier[i]
		if u.over().After(t.Begun) {
			break
		}
		left := max(u.whole()-sofar, 0).Seconds()
		out.now, out.hasNow = left, true
		if day := t.Begun.Sub(u.Begun) - 24*time.Hour; day.Abs() <= time.Hour {
			out.yesterday, out.hasYesterday = left, true
		}
	}
	return out
}
