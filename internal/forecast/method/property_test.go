//go:build !race

package method_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gpuwhy/gpuwhy/internal/forecast/method"
)

// sound fails for a forecast that is not a number, is out of order, or contradicts itself.
func sound(t *rapid.T, f method.Forecast) {
	t.Helper()
	for _, v := range []float64{
		f.Value, f.Low, f.High, f.Error.MAE, f.Error.Scaled, f.AsNow.MAE, f.AsNow.Method, f.Yesterday.MAE, f.Yesterday.Method,
	} {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			t.Fatalf("not a number: %+v", f)
		}
	}
	if f.Low > f.Value || f.Value > f.High {
		t.Fatalf("not in order: %+v", f)
	}
	if f.Shown != (f.Why == "") {
		t.Fatalf("shown with a reason not to, or hidden without one: %+v", f)
	}
	if f.Shown && (f.Error.Trials == 0 || f.AsNow.Method >= f.AsNow.MAE || f.At.IsZero()) {
		t.Fatalf("shown, and no better than as-now: %+v", f)
	}
	until := f.Kind == method.KindMemoryFull || f.Kind == method.KindLimitReached || f.Kind == method.KindQuiet
	if until && f.Low < 0 {
		t.Fatalf("before now: %+v", f)
	}
}

// anything is a series with gaps, irregular steps, points out of order, and values that are none.
func anything(t *rapid.T) method.Series {
	s := method.Series{Gap: time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "gap"))}
	now := start
	value := rapid.OneOf(
		rapid.Float64Range(0, 100), rapid.Float64(),
		rapid.SampledFrom([]float64{0, 40, math.NaN(), math.Inf(1), math.MaxFloat64, math.SmallestNonzeroFloat64}),
	)
	step := rapid.OneOf(rapid.Int64Range(1, int64(10*time.Minute)), rapid.Int64Range(-int64(time.Minute), int64(100*time.Hour)))
	rises := rapid.Float64Range(-10, 10).Draw(t, "rises")
	for i := range rapid.IntRange(0, 400).Draw(t, "points") {
		now = now.Add(time.Duration(step.Draw(t, "step")))
		s.Points = append(s.Points, method.Point{Time: now, Value: value.Draw(t, "value") + rises*float64(i)})
	}
	return s
}

func TestWhateverTheSeriesForecastsAreSound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anything(t)
		limit := rapid.OneOf(rapid.Float64Range(0, 2000), rapid.Float64()).Draw(t, "limit")
		sound(t, method.MemoryFull(s, limit))
		sound(t, method.LimitReached(s, limit))
		begin := start.Add(time.Duration(rapid.Int64Range(-int64(1000*time.Hour), int64(1000*time.Hour)).Draw(t, "from")))
		e := method.Energy(s, begin, begin.AddDate(0, 1, 0))
		sound(t, e)
		sound(t, e.Cost(0.3))
		u := method.UsuallyFree(s, time.UTC)
		sound(t, u.Forecast)
		for _, h := range u.Hours {
			if h.Weeks > 0 && !(0 <= h.Low && h.Low <= h.P && h.P <= h.High && h.High <= 1) {
				t.Fatalf("not a probability: %+v", h)
			}
		}
	})
}

func TestWhateverWasToldQuietIsSound(t *testing.T) {
	took := rapid.Int64Range(-int64(time.Minute), int64(time.Hour))
	rapid.Check(t, func(t *rapid.T) {
		var told []method.Told
		for range rapid.IntRange(0, 40).Draw(t, "told") {
			begun := start.Add(time.Duration(rapid.Int64Range(0, int64(50*time.Hour)).Draw(t, "begun")))
			told = append(told, method.Told{
				Begun: begun, At: begun.Add(time.Duration(took.Draw(t, "at"))),
				Said: time.Duration(took.Draw(t, "said")), Took: time.Duration(took.Draw(t, "took")),
			})
		}
		begun := start.Add(49 * time.Hour)
		now := method.Told{Begun: begun, At: begun.Add(time.Minute), Said: time.Duration(took.Draw(t, "now"))}
		f := method.QuietIn(now, told)
		sound(t, f)

		// What was not over then was not known then.
		known := slices.DeleteFunc(slices.Clone(told), func(u method.Told) bool { return u.At.Add(u.Took).After(now.At) })
		if g := method.QuietIn(now, known); g != f {
			t.Fatalf("it knows what came later: %+v and %+v", f, g)
		}
	})
}

// What is twice as much, from another level, is forecast alike. The numbers are such that this is exact.
func TestScaleAndLevelDoNotMatter(t *testing.T) {
	shown := 0
	rapid.Check(t, func(t *rapid.T) {
		r := noise(rapid.Uint64().Draw(t, "seed"))
		scale := math.Exp2(float64(rapid.IntRange(-8, 8).Draw(t, "scale")))
		level := float64(rapid.IntRange(-1000, 1000).Draw(t, "level"))
		moved := func(s method.Series) method.Series {
			out := method.Series{Gap: s.Gap}
			for _, p := range s.Points {
				out.Points = append(out.Points, method.Point{Time: p.Time, Value: (p.Value + level) * scale})
			}
			return out
		}
		whole := func(s method.Series) method.Series {
			for i := range s.Points {
				s.Points[i].Value = math.Round(s.Points[i].Value * 64)
			}
			return s
		}
		same := func(f, g method.Forecast) {
			t.Helper()
			if f.Shown {
				shown++
			}
			times := f.Value == g.Value && f.Low == g.Low && f.High == g.High
			errors := f.Error.MAE*scale == g.Error.MAE && f.Error.Scaled == g.Error.Scaled
			if !times || !errors || f.Why != g.Why {
				t.Fatalf("scaled by %g, moved by %g:\n%+v\n%+v", scale, level, f, g)
			}
		}
		memory := whole(leak(r, 500, 100, 0.2, 0.1))
		same(method.MemoryFull(memory, 90*64), method.MemoryFull(moved(memory), (90*64+level)*scale))
		heat := whole(work(r, 1500))
		limit := heat.Points[len(heat.Points)-1].Value + 3*64
		same(method.LimitReached(heat, limit), method.LimitReached(moved(heat), (limit+level)*scale))

		hours, _ := habits(6, r)
		hours = whole(hours)
		end := hours.Points[len(hours.Points)-1].Time.Add(time.Hour)
		f := method.Energy(hours, end, end.AddDate(0, 0, 4))
		g := method.Energy(moved(hours), end, end.AddDate(0, 0, 4))
		if want := (f.Value + 96*level) * scale; math.Abs(g.Value-want) > 1e-9*math.Abs(want) || f.Shown != g.Shown {
			t.Fatalf("energy scaled by %g, moved by %g:\n%+v\n%+v", scale, level, f, g)
		}
	})
	if shown == 0 {
		t.Error("nothing was ever forecast")
	}
}

func TestWhatDoesNotChangeIsNotForecast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.Float64Range(-1e12, 1e12).Draw(t, "value")
		limit := value + rapid.Float64Range(1, 1e12).Draw(t, "above")
		s := each(time.Minute, rapid.IntRange(30, 2000).Draw(t, "points"), func(int) float64 { return value })
		for _, f := range []method.Forecast{method.MemoryFull(s, limit), method.LimitReached(s, limit)} {
			if f.Why != method.NoGrowth {
				t.Fatalf("of %g up to %g: %+v", value, limit, f)
			}
		}
		hours := each(time.Hour, 24*7*6, func(int) float64 { return value })
		end := start.AddDate(0, 0, 42)
		if f := method.Energy(hours, end, end.AddDate(0, 0, 3)); f.Why != method.NotBetter {
			t.Fatalf("energy of %g: %+v", value, f)
		}
		if u := method.UsuallyFree(hours, time.UTC); u.Why != method.NotBetter {
			t.Fatalf("free or not: %+v", u.Forecast)
		}
	})
}

// Noise around a level, and one or two steps, are not growth.
func TestNoiseAndStepsAreNotGrowth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := noise(rapid.Uint64().Draw(t, "seed"))
		up := rapid.Float64Range(0, 30).Draw(t, "up")
		steps := []int{rapid.IntRange(0, 600).Draw(t, "first"), rapid.IntRange(0, 600).Draw(t, "second")}
		s := each(time.Minute, 600, func(i int) float64 {
			v := 10 + 0.1*r.NormFloat64()
			for _, step := range steps {
				if i >= step {
					v += up
				}
			}
			return v
		})
		if f := method.MemoryFull(s, 80); f.Shown {
			t.Fatalf("steps of %g at %v: %+v", up, steps, f)
		}
	})
}
