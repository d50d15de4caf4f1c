//go:build !race

package method_test

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/forecast/method"
)

var start = time.Date(2026, time.March, 2, 0, 0, 0, 0, time.UTC) // a Monday

func noise(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 4)) }

// each is a made-up series.
func each(step time.Duration, n int, value func(i int) float64) method.Series {
	s := method.Series{Gap: 3 * step}
	for i := range n {
		s.Points = append(s.Points, method.Point{Time: start.Add(time.Duration(i) * step), Value: value(i)})
	}
	return s
}

// leak is memory in GiB, one point a minute: jobs that take some and give it back, then one that loses memory.
func leak(r *rand.Rand, n, begin int, aMinute, jitter float64) method.Series {
	base, left := 4+20*r.Float64(), 0
	return each(time.Minute, n, func(i int) float64 {
		if left--; left < 0 && i < begin {
			base, left = 4+20*r.Float64(), 30+r.IntN(180)
		}
		return base + aMinute*float64(max(i-begin, 0)) + jitter*r.NormFloat64()
	})
}

// teeth is memory that grows within each epoch of a training run, and is given back at its end.
func teeth(r *rand.Rand, n, epoch int) method.Series {
	left, most := 0, 0.0
	return each(time.Minute, n, func(int) float64 {
		if left--; left < 0 {
			left, most = epoch-epoch/10+r.IntN(epoch/5+1), 8+2*r.Float64()
		}
		return 20 + most*(1-float64(left)/float64(epoch)) + 0.1*r.NormFloat64()
	})
}

// steps is memory of programs that start one after another and stay.
func steps(r *rand.Rand, n int) method.Series {
	level := 2.0
	return each(time.Minute, n, func(int) float64 {
		if r.IntN(120) == 0 && level < 60 {
			level += 1 + 5*r.Float64()
		}
		return level + 0.05*r.NormFloat64()
	})
}

// work is the temperature of a card in °C, one point each five seconds: it works and rests, each for a while, at powers that
// differ. The cooler follows in a minute or two, what is around it in ten.
func work(r *rand.Rand, n int) method.Series {
	const step = 5.0
	die, around, watts, left := 35.0, 25.0, 20.0, 0
	return each(step*time.Second, n, func(int) float64 {
		if left--; left < 0 {
			left = 60 + r.IntN(240)
			if watts > 50 {
				watts = 20
			} else {
				watts = 150 + 250*r.Float64()
			}
		}
		around += (25 + 0.02*watts - around) * step / 600
		die += (around + 0.13*watts - die) * step / 80
		return math.Floor(die + 0.4*r.NormFloat64())
	})
}

// fails is the temperature of a card in steady work whose cooling gets worse at a point.
func fails(r *rand.Rand, n, begin int) method.Series {
	die, goal, tau := 66.0, 68.0, 60.0
	return each(5*time.Second, n, func(i int) float64 {
		if i == begin {
			goal, tau = 90+20*r.Float64(), 200+800*r.Float64()
		}
		die += (goal + r.NormFloat64() - die) * 5 / tau
		return math.Floor(die + 0.3*r.NormFloat64())
	})
}

// habits is what a device uses in an hour, in kWh, for some weeks: jobs that are likelier on a working day's afternoon, and go
// on for a while. free is which part of the hour it was free.
func habits(weeks int, r *rand.Rand) (used, free method.Series) {
	busy := false
	var frees []float64
	used = each(time.Hour, weeks*7*24, func(i int) float64 {
		if r.IntN(3) == 0 {
			busy = r.Float64() < likely(i)
		}
		frees = append(frees, 1)
		if busy {
			frees[i] = 0
			return 0.35 + 0.05*r.Float64()
		}
		return 0.03
	})
	return used, each(time.Hour, len(frees), func(i int) float64 { return frees[i] })
}

func likely(hour int) float64 {
	weekday, hourOfDay := hour/24%7, hour%24
	switch {
	case weekday >= 5:
		return 0.1
	case hourOfDay >= 9 && hourOfDay < 20:
		return 0.85
	}
	return 0.2
}

// anyHour is the same without habits: jobs begin and end at any time, and go on for days.
func anyHour(weeks int, r *rand.Rand) (used, free method.Series) {
	watts := 0.03
	used = each(time.Hour, weeks*7*24, func(int) float64 {
		switch {
		case watts < 0.1 && r.IntN(30) == 0:
			watts = 0.2 + 0.2*r.Float64()
		case watts > 0.1 && r.IntN(50) == 0:
			watts = 0.03
		}
		return watts + 0.01*r.Float64()
	})
	return used, each(time.Hour, len(used.Points), func(i int) float64 {
		if used.Points[i].Value > 0.1 {
			return 0
		}
		return 1
	})
}
