//go:build !race

package method_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/forecast/method"
)

// cut is a series until a time after its start.
func cut(s method.Series, until time.Duration) method.Series {
	for i, p := range s.Points {
		if p.Time.Sub(start) > until {
			s.Points = s.Points[:i]
			break
		}
	}
	return s
}

// without is a series without the points of a span.
func without(s method.Series, begin, until time.Duration) method.Series {
	out := method.Series{Gap: s.Gap}
	for _, p := range s.Points {
		if offset := p.Time.Sub(start); offset < begin || offset >= until {
			out.Points = append(out.Points, p)
		}
	}
	return out
}

func is(t *testing.T, f method.Forecast, want, within float64) {
	t.Helper()
	if !f.Shown || math.Abs(f.Value-want) > within {
		t.Errorf("%+v, want %g ± %g", f, want, within)
	}
	if f.Low > want+within || f.High < want-within {
		t.Errorf("the interval is far from %g: %+v", want, f)
	}
}

func hidden(t *testing.T, f method.Forecast, why method.Why) {
	t.Helper()
	if f.Shown || f.Why != why {
		t.Errorf("%+v, want it hidden: %s", f, why)
	}
}

func TestMemoryFull(t *testing.T) {
	// From 10 GiB, since hour 10, 0.1 GiB more each minute: 80 GiB after 700 minutes.
	s := leak(noise(1), 24*60, 600, 0.1, 0.05)
	base := s.Points[599].Value
	full := base + 70
	is(t, method.MemoryFull(cut(s, 18*time.Hour), full), 220*60, 15*60)
	// Nobody looked for an hour: it goes on all the same.
	is(t, method.MemoryFull(without(cut(s, 19*time.Hour), 11*time.Hour, 12*time.Hour), full), 160*60, 15*60)

	hidden(t, method.MemoryFull(method.Series{}, 80), method.TooLittlePast)
	hidden(t, method.MemoryFull(cut(s, 5*time.Minute), full), method.TooLittlePast)
	hidden(t, method.MemoryFull(cut(s, 9*time.Hour), full), method.NoGrowth)
	hidden(t, method.MemoryFull(cut(s, 16*time.Hour), 10*full), method.TooFar)
	hidden(t, method.MemoryFull(s, 20), method.Reached)
}

// Memory that epochs take and give back is never full, once two of them were seen.
func TestTeethAreNotGrowth(t *testing.T) {
	for seed := range uint64(10) {
		s := teeth(noise(seed), 1440, 60)
		for hours := 3; hours <= 24; hours++ {
			if f := method.MemoryFull(cut(s, time.Duration(hours)*time.Hour), 32); f.Shown {
				t.Errorf("seed %d, after %d h: %+v", seed, hours, f)
			}
		}
	}
}

// warms is a card that works for ten minutes of each twenty: to 85 °C with a time constant of two minutes, and back.
func warms(in float64) float64 {
	if in < 600 {
		return 40 + 45*(1-math.Exp(-in/120))
	}
	return 40 + 45*math.Exp(-(in-600)/120)
}

func TestLimitReached(t *testing.T) {
	r := noise(1)
	s := each(5*time.Second, 6*720, func(i int) float64 {
		return math.Floor(warms(math.Mod(float64(i)*5, 1200)) + 0.2*r.NormFloat64())
	})
	// 100 s of the last warming are over. It is at 71 °C after 140 s, and at 80 °C after 264 s.
	then := cut(s, 5*time.Hour+100*time.Second)
	hidden(t, method.LimitReached(then, 80), method.TooFar)
	is(t, method.LimitReached(then, 71), 140-100, 10)
	hidden(t, method.LimitReached(then, 95), method.LevelsOff)
	hidden(t, method.LimitReached(then, 60), method.Reached)
	hidden(t, method.LimitReached(cut(s, 5*time.Hour+11*time.Minute), 84), method.NoGrowth)
	// What was before a gap says nothing about how it warms up now.
	hidden(t, method.LimitReached(without(then, time.Hour, 5*time.Hour+90*time.Second), 71), method.TooLittlePast)
}

func TestQuietIn(t *testing.T) {
	// Cool-downs of very different lengths each hour and a half, of which the model knows 60 s after they began how long they
	// take, but for a tenth.
	r := noise(1)
	var told []method.Told
	for i := range 20 {
		begun := start.Add(time.Duration(i) * 90 * time.Minute)
		took := time.Duration(60+600*r.Float64()) * time.Second
		said := time.Duration(float64(took) * (0.9 + 0.2*r.Float64()))
		told = append(told,
			method.Told{Begun: begun, At: begun.Add(5 * time.Second), Said: 20 * time.Minute, Took: took + 55*time.Second},
			method.Told{Begun: begun, At: begun.Add(time.Minute), Said: said, Took: took})
	}
	begun := start.Add(31 * time.Hour)
	now := method.Told{Begun: begun, At: begun.Add(70 * time.Second), Said: 200 * time.Second}
	f := method.QuietIn(now, told)
	is(t, f, 200, 1)
	if f.Low < 170 || f.High > 230 || f.Yesterday.Trials == 0 {
		t.Errorf("%+v, want about 180 to 220 s, and a yesterday", f)
	}
	// One that was not over then was not known then.
	open := method.Told{Begun: begun.Add(-time.Hour), At: begun.Add(-59 * time.Minute), Said: time.Minute, Took: 10 * time.Hour}
	if g := method.QuietIn(now, append(slices.Clip(told), open)); g != f {
		t.Errorf("%+v, and with what came later %+v", f, g)
	}
	// Just after it began, the model was always far off.
	early := method.Told{Begun: begun, At: begun.Add(5 * time.Second), Said: 20 * time.Minute}
	hidden(t, method.QuietIn(early, told), method.NotBetter)
	hidden(t, method.QuietIn(now, told[:16]), method.TooLittlePast)
}

// office is 0.4 kWh at each hour from 9 to 17 of a working day, and 0.1 else.
func office(t time.Time) float64 {
	if t.Weekday() != time.Saturday && t.Weekday() != time.Sunday && t.Hour() >= 9 && t.Hour() < 17 {
		return 0.4
	}
	return 0.1
}

func TestEnergyOfAMonth(t *testing.T) {
	// The clock changes on 29 March.
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	begin, until := time.Date(2026, time.March, 1, 0, 0, 0, 0, berlin), time.Date(2026, time.April, 1, 0, 0, 0, 0, berlin)
	s := method.Series{}
	now := time.Date(2026, time.March, 20, 12, 0, 0, 0, berlin)
	for at := time.Date(2026, time.January, 1, 0, 0, 0, 0, berlin); at.Before(now); at = at.Add(time.Hour) {
		s.Points = append(s.Points, method.Point{Time: at, Value: office(at)})
	}
	want := 0.0
	for at := begin; at.Before(until); at = at.Add(time.Hour) {
		want += office(at)
	}
	f := method.Energy(s, begin, until)
	is(t, f, want, 0.03*want)
	// An hour that nobody measured is not one without use.
	gaps := method.Series{}
	for i, p := range s.Points {
		if i%5 != 0 {
			gaps.Points = append(gaps.Points, p)
		}
	}
	is(t, method.Energy(gaps, begin, until), want, 0.03*want)

	cost := f.Cost(0.3)
	is(t, cost, 0.3*f.Value, 1e-9)
	if cost.Kind != method.KindCost || math.Abs(cost.Error.MAE-0.3*f.Error.MAE) > 1e-9 {
		t.Errorf("%+v of %+v", cost, f)
	}
	hidden(t, method.Energy(method.Series{Points: s.Points[:160]}, begin, until), method.TooLittlePast)
	hidden(t, method.Energy(s, begin.AddDate(0, -1, 0), begin), method.Reached)
}

// What grows from week to week, and is the same from day to day, yesterday says better.
func TestNotBetterThanYesterday(t *testing.T) {
	s := each(time.Hour, 10*7*24, func(i int) float64 {
		daily := 1.0
		if i%24 >= 9 && i%24 < 17 {
			daily = 3
		}
		return daily * math.Exp2(float64(i/24)/28)
	})
	end := start.AddDate(0, 0, 70)
	hidden(t, method.Energy(s, end, end.AddDate(0, 0, 2)), method.NotBetterYesterday)
}

// Habits follow the clock on the wall, also over a change of summer time.
func TestHabitsFollowTheClockOnTheWall(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	var s method.Series
	begin := time.Date(2026, time.March, 2, 0, 0, 0, 0, berlin)
	for at := begin; at.Before(begin.AddDate(0, 0, 56)); at = at.Add(time.Hour) {
		s.Points = append(s.Points, method.Point{Time: at, Value: 1 - (office(at)-0.1)/0.3})
	}
	hours := method.UsuallyFree(s, berlin).Hours
	for hour, h := range hours[24:48] {
		if works := hour >= 9 && hour < 17; h.Weeks != 8 || works && h.P > 0.1 || !works && h.P < 0.9 {
			t.Errorf("Monday at %d: %+v", hour, h)
		}
	}
}

func TestUsuallyFree(t *testing.T) {
	s := each(time.Hour, 8*7*24, func(i int) float64 { return 1 - (office(start.Add(time.Duration(i)*time.Hour))-0.1)/0.3 })
	u := method.UsuallyFree(s, time.UTC)
	if !u.Shown || u.Error.MAE != 0 || u.AsNow.MAE == 0 {
		t.Errorf("%+v", u.Forecast)
	}
	monday := 24
	if h := u.Hours[monday+10]; h.P > 0.1 || h.High > 0.2 || h.Weeks != 8 {
		t.Errorf("on Monday at 10 it works: %+v", h)
	}
	if h := u.Hours[monday+20]; h.P < 0.9 || h.Low < 0.8 || !h.EnoughPast {
		t.Errorf("on Monday at 20 it is free: %+v", h)
	}
	few := method.UsuallyFree(method.Series{Points: s.Points[:3*7*24]}, time.UTC)
	hidden(t, few.Forecast, method.TooLittlePast)
}
