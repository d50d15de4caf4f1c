package method

import (
	"math"
	"time"

	"gonum.org/v1/gonum/mathext"
)

// A Usual is how often a device is free at each hour of the week.
type Usual struct {
	// Forecast has how good it is: the errors are shares of the hours of a next day that were called wrongly.
	// Value, Low and High are those of the hour after the newest.
	Forecast
	Hours [week]Hour // from Sunday, 0 o'clock, by the clock on the wall
}

// An Hour is one of the week.
type Hour struct {
	Weeks      int     // in which it is known
	P          float64 // the probability that the device is free, 0 … 1; meaningless where Weeks is 0
	Low, High  float64 // the interval of [Share] of P
	EnoughPast bool    // it is known in at least four weeks
}

const (
	leastWeeks = 4
	freeFrom   = 0.9 // of an hour
)

// UsuallyFree says at which hours of the week a device is usually free. A point is which part of an hour, 0 … 1, it was free,
// by the hour's beginning. An hour counts as free from 0.9 on. An hour that is not there is not known.
func UsuallyFree(free Series, zone *time.Location) Usual {
	u := Usual{Forecast: Forecast{Kind: KindUsuallyFree, Method: "how often it was free at that hour of the week (Beta interval)"}}
	x := hourly(free, zone)
	if x == nil {
		u.Forecast = u.end(TooLittlePast)
		return u
	}
	for i, v := range x.used {
		if !math.IsNaN(v) {
			x.used[i] = flag(v+x.level >= freeFrom)
		}
	}
	n := len(x.used)
	u.At = x.hour(n)
	count := x.counts(n)
	seen := map[counted]Hour{} // few differ, and an interval costs
	for k, c := range count {
		h, known := seen[c]
		if !known {
			h = c.hour()
			seen[c] = h
		}
		u.Hours[k] = h
	}
	next := u.Hours[x.ofWeek(n)]
	u.Value, u.Low, u.High = next.P, next.Low, next.High
	why := u.judge(x.calls())
	if !next.EnoughPast {
		why = TooLittlePast
	}
	u.Forecast = u.end(why)
	return u
}

// A counted is how often an hour of the week was known, and free.
type counted struct{ weeks, free int }

func (x *habits) counts(before int) (out [week]counted) {
	for i := max(before-longestHabit, 0); i < before; i++ {
		if v := x.used[i]; !math.IsNaN(v) {
			c := &out[x.ofWeek(i)]
			c.weeks++
			c.free += int(v)
		}
	}
	return out
}

// hour has the interval that a Beta distribution gives, with Jeffreys' prior.
func (c counted) hour() Hour {
	a, b := float64(c.free)+0.5, float64(c.weeks-c.free)+0.5
	tail := (1 - Share) / 2
	h := Hour{Weeks: c.weeks, P: a / (a + b), EnoughPast: c.weeks >= leastWeeks}
	h.Low, h.High = mathext.InvRegIncBeta(a, b, tail), mathext.InvRegIncBeta(a, b, 1-tail)
	h.Low, h.High = min(h.Low, h.P), max(h.High, h.P)
	return h
}

// calls are the hours of the days of the last four weeks, called free or not at the beginning of each day from at least three
// weeks before it.
func (x *habits) calls() (out []trial) {
	n := len(x.used)
	for o := n - day; o >= (leastWeeks-1)*week && o >= n-4*week; o -= day {
		if math.IsNaN(x.used[o-1]) {
			continue
		}
		count := x.counts(o)
		for i := o; i < o+day; i++ {
			c := count[x.ofWeek(i)]
			if math.IsNaN(x.used[i]) || c.weeks == 0 {
				continue
			}
			t := trial{said: flag(2*c.free >= c.weeks), was: x.used[i], now: x.used[o-1], hasNow: true}
			if yesterday := x.used[i-day]; !math.IsNaN(yesterday) {
				t.yesterday, t.hasYesterday = yesterday, true
			}
			out = append(out, t)
		}
	}
	return out
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
