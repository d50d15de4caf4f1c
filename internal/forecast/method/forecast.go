// Package method forecasts series, and says how often its earlier forecasts were wrong. It is mathematics
// on series: it has no clock, no store and no goroutines, and the same series always gives the same
// forecast. docs/forecast.md describes the methods, their errors, and when each fails.
//
// Each forecast is repeated at earlier times of its own series, using only the data known then (a
// rolling-origin backtest). Those errors give its interval, and its error beside two
// naive forecasts: no change, and the same as at this hour yesterday. A forecast is shown only if it
// beats both.
package method

import "time"

// A Kind says what a forecast is about.
type Kind string

// The kinds of forecasts.
const (
	KindMemoryFull   Kind = "memory_full"   // seconds until the memory is full
	KindLimitReached Kind = "limit_reached" // seconds until a temperature is reached
	KindQuiet        Kind = "quiet"         // seconds until the fan is as at rest
	KindEnergy       Kind = "energy"        // what a span will have used, in the unit of the series
	KindCost         Kind = "cost"          // the same as money
	KindUsuallyFree  Kind = "usually_free"  // the probability that a device is free at an hour of the week
)

// A Why is the reason for which a forecast is not shown.
type Why string

// The reasons. Each is a phrase for people.
const (
	TooLittlePast      Why = "not enough past data"
	NotBetter          Why = "no better than assuming no change"
	NotBetterYesterday Why = "no better than assuming the same as yesterday"
	NoGrowth           Why = "no growth"
	LevelsOff          Why = "it levels off below the limit"
	MayLevelOff        Why = "it may level off below the limit"
	Braked             Why = "something is slowing the warming"
	TooFast            Why = "it is heating up too fast to tell"
	Freed              Why = "similar growth was freed before"
	TooFar             Why = "too far ahead to tell"
	MayNever           Why = "earlier forecasts often did not come true"
	Reached            Why = "it is already there"
)

// Share is the share of forecasts whose interval should hold what happens.
const Share = 0.8

// fewest is the least number of trials whose residuals have an interval of [Share]; with fewer, one of its ends
// would have to be worse than all that was seen. rivals is the least number that a naive forecast needs to count.
const (
	fewest = 9
	rivals = 3
)

// A Forecast is one figure that is not known yet. Where Why is not empty it is not shown; then Value, Low
// and High may be zero, as may be the errors where there was no trial.
type Forecast struct {
	Kind   Kind
	Method string    // in a few words, for people
	At     time.Time // of the newest point that it knows; zero where there was none
	// Value is the expected value, Low ≤ Value ≤ High, the interval of [Share]. Seconds after At for a time
	// until something, never negative; else in the unit of the series, of money, or 0 … 1.
	Value, Low, High float64
	// Error is how wrong it was in the past, and those of the naive forecasts at the same times. Of a memory or a
	// temperature they are in the unit of the series, of the value as far ahead as the forecast reaches now.
	Error            Error
	AsNow, Yesterday Naive
	Shown            bool // it is better than both naive ones, and nothing else speaks against it
	Why              Why  // empty where it is shown
}

// Error is how wrong a method was in trials.
type Error struct {
	MAE    float64 // the mean of the absolute errors
	Scaled float64 // MAE as a part of that of "stays as now": below 1 is better; 0 where that was never wrong
	Trials int     // 0: there was none, and the others mean nothing
}

// Naive is how wrong a naive forecast was, in those of the trials in which it could be made.
type Naive struct {
	MAE    float64
	Method float64 // the MAE of the method in the same trials
	Trials int     // 0: it could never be made
}

// A trial is a forecast of the past, beside what happened.
type trial struct {
	said, was, now, yesterday float64
	hasNow, hasYesterday      bool
}

// judge fills in the errors, and says what speaks against showing the forecast.
func (f *Forecast) judge(trials []trial) Why {
	var own, now, yesterday tally
	for _, t := range trials {
		off := distance(t.said, t.was)
		own.add(off, off)
		if t.hasNow {
			now.add(distance(t.now, t.was), off)
		}
		if t.hasYesterday {
			yesterday.add(distance(t.yesterday, t.was), off)
		}
	}
	f.AsNow, f.Yesterday = now.naive(), yesterday.naive()
	f.Error = Error{MAE: own.naive().MAE, Trials: own.count}
	if f.AsNow.MAE > 0 {
		f.Error.Scaled = f.AsNow.Method / f.AsNow.MAE
	}
	switch {
	case len(trials) < fewest || f.AsNow.Trials < rivals:
		return TooLittlePast
	case f.AsNow.Method >= f.AsNow.MAE:
		return NotBetter
	case f.Yesterday.Trials >= rivals && f.Yesterday.Method >= f.Yesterday.MAE:
		return NotBetterYesterday
	}
	return ""
}

// end sets why the forecast is not shown; an empty text shows it.
func (f Forecast) end(why Why) Forecast {
	f.Why, f.Shown = why, why == ""
	return f
}

// A tally is a sum of errors, and of the method's in the same trials.
type tally struct {
	off, method float64
	count       int
}

func (t *tally) add(off, method float64) {
	t.off, t.method, t.count = t.off+off, t.method+method, t.count+1
}

func (t *tally) naive() Naive {
	if t.count == 0 {
		return Naive{}
	}
	n := float64(t.count)
	return Naive{t.off / n, t.method / n, t.count}
}
