package outlook

import (
	"math"
	"strconv"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/forecast/method"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// next returns what comes next for a device at a time, the soonest first. asked is false if the outlook is too old.
func (o *Outlook) next(now time.Time, d *gpu.Device, cooling *explain.Cooldown) (list []explain.Prospect, asked bool) {
	if age := now.Sub(o.At); age > stale || age < -stale {
		return nil, false
	}
	name := explain.DeviceName(d)
	soon := func(f *method.Forecast, short, long string) {
		if p, ok := until(f, now, short, long); ok {
			list = append(list, p)
		}
	}
	if f := &o.MemoryFull; f.Why == method.Reached {
		list = append(list, explain.Prospect{
			Kind: string(f.Kind), Short: "memory full", Sentence: "The memory of " + name + " is full.", Left: gpu.Of(time.Duration(0)),
		})
	} else {
		soon(f, "memory full", "The memory of "+name+" will be full")
	}
	soon(&o.LimitReached, "slowed by heat", name+" will reach its slowdown temperature")
	if cooling != nil && cooling.Begun.Equal(o.cooling) && cooling.Left.Present() {
		soon(&o.Quiet, "quiet", name+" will be quiet")
	}
	for _, f := range []*method.Forecast{&o.Energy, &o.Cost, &o.Free.Forecast} {
		if short := o.short(f, now); f.Shown && short != "" {
			list = append(list, explain.Prospect{Kind: string(f.Kind), Short: short, Sentence: o.sentence(f, name, short)})
		}
	}
	return list, true
}

// until describes something that is expected after a time. It is not ok if that should have come long ago.
func until(f *method.Forecast, now time.Time, short, long string) (p explain.Prospect, ok bool) {
	if !f.Shown {
		return p, false
	}
	ahead := func(s float64) time.Duration {
		return max(f.At.Add(time.Duration(math.Min(s, 1e9)*float64(time.Second))).Sub(now), 0)
	}
	left, low, high := ahead(f.Value), ahead(f.Low), ahead(f.High)
	if high <= 0 {
		return p, false
	}
	p = explain.Prospect{Kind: string(f.Kind), Left: gpu.Of(left)}
	if left <= 0 {
		p.Short, p.Sentence = short+" any moment", long+" any moment now, or within "+about(high)+"."
		return p, true
	}
	p.Short = short + " in about " + about(left)
	p.Sentence = long + " in about " + about(left) + " (" + about(low) + " to " + about(high) + ")."
	return p, true
}

// about is a time as far as it can be known.
func about(d time.Duration) string {
	step := time.Second
	switch {
	case d >= 90*time.Minute:
		step = 10 * time.Minute
	case d >= 2*time.Minute:
		step = time.Minute
	case d >= 20*time.Second:
		step = 5 * time.Second
	}
	d = d.Round(step)
	if hours := d.Hours(); d >= 90*time.Minute && d < 10*time.Hour {
		return strconv.FormatFloat(math.Round(hours*10)/10, 'f', -1, 64) + " h"
	}
	return explain.Span(d)
}

// short is a forecast that has no time until something comes, in a few words; empty where there is nothing to tell now.
func (o *Outlook) short(f *method.Forecast, now time.Time) string {
	switch f.Kind {
	case method.KindEnergy:
		return "about " + amount(f.Value) + " kWh this month"
	case method.KindCost:
		return "costs about " + amount(f.Value) + " this month"
	default:
		return o.usually(now)
	}
}

// sentence is the same with the device and the interval.
func (o *Outlook) sentence(f *method.Forecast, name, short string) string {
	switch f.Kind {
	case method.KindEnergy:
		return name + " will have used about " + amount(f.Value) + " kWh this month (" + amount(f.Low) + " to " + amount(f.High) + ")."
	case method.KindCost:
		return name + " will have cost about " + amount(f.Value) + " this month (" + amount(f.Low) + " to " + amount(f.High) + ")."
	default:
		return name + " is " + short + "."
	}
}

// amount is a number with three digits that count, or more where it is large.
func amount(v float64) string {
	digits := 2
	switch v = math.Max(v, 0); {
	case v >= 100:
		digits = 0
	case v >= 10:
		digits = 1
	}
	return strconv.FormatFloat(v, 'f', digits, 64)
}

// Usually reports whether a device is usually free at an hour: it was so more often than not, also at the lower end of the
// interval.
func Usually(h *method.Hour) bool { return h.EnoughPast && h.Low > 0.5 }

// usually is when the device is usually free next, at most a week from now.
func (o *Outlook) usually(now time.Time) string {
	first := hourOf(now, o.Zone)
	hour := func(i int) (time.Time, bool) {
		t := first.Add(time.Duration(i) * time.Hour).In(o.Zone)
		return t, Usually(&o.Free.Hours[int(t.Weekday())*24+t.Hour()])
	}
	const week = 7 * 24
	begin := 0
	for ; begin < week; begin++ {
		if _, free := hour(begin); free {
			break
		}
	}
	end := begin
	for ; end < begin+week; end++ {
		if _, free := hour(end); !free {
			break
		}
	}
	from, _ := hour(begin)
	to, _ := hour(end)
	const layout = "Mon 15:04"
	switch {
	case begin == week:
		return "" // never
	case end == begin+week:
		return "usually free at any hour"
	case begin == 0:
		return "usually free now, until " + to.Format(layout)
	default:
		return "usually free from " + from.Format(layout) + " to " + to.Format(layout)
	}
}
