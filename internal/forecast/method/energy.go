package method

import (
	"math"
	"time"
)

const (
	day  = 24
	week = 7 * day

	longestHabit = 26 * week // hours of the past that count
	leastHabit   = week      // that are known at least
	mostOrigins  = 60        // one a day
	leastSpan    = day       // of a trial
)

// Energy says what the hours from a time until another will have used together, such as those of a month. A point is what one
// hour used that begins at its time; the hours must be whole ones of their time zone. The newest point says until when it is
// known, and time zone and calendar are those of from. A missing hour is unknown: it counts with the usual energy of
// that hour.
//
// What is usual is the mean by hour of the week, where newer weeks count more, drawn towards that of the hour of any day, and
// that towards the mean of all, the more the fewer weeks there are.
func Energy(hours Series, begin, until time.Time) Forecast {
	f := Forecast{Kind: KindEnergy, Method: "mean by hour of the week, pulled towards the overall mean"}
	x := hourly(hours, begin.Location())
	if x == nil {
		return f.end(TooLittlePast)
	}
	n := len(x.used)
	f.At = x.hour(n)
	rest := x.number(until) - max(n, x.number(begin))
	if rest <= 0 {
		return f.end(Reached)
	}
	if x.known(n) < leastHabit || x.number(begin) < n-longestHabit {
		return f.end(TooLittlePast)
	}
	p := x.habit(n)
	sum, known := 0.0, 0
	for i := x.number(begin); i < x.number(until); i++ {
		if i >= 0 && i < n && !math.IsNaN(x.used[i]) {
			sum, known = sum+x.used[i], known+1
		} else {
			sum += p[x.ofWeek(i)]
		}
	}
	if behind := n - x.number(begin); 2*known < behind {
		return f.end(TooLittlePast) // most of the span so far was not measured
	}
	trials, off := x.trials(rest)
	why := f.judge(trials)
	if why == TooLittlePast {
		return f.end(why)
	}
	low, high := interval(off, len(off))
	level := x.level * float64(x.number(until)-x.number(begin))
	f.Low, f.High = sum+low+level, sum+high+level
	f.Value = min(max(sum+level, f.Low), f.High)
	return f.end(why)
}

// Cost is the forecast of an energy as money: price is that of one unit of the series. The errors are money too.
func (f Forecast) Cost(price float64) Forecast {
	f.Kind = KindCost
	money := []*float64{
		&f.Value, &f.Low, &f.High, &f.Error.MAE, &f.AsNow.MAE, &f.AsNow.Method, &f.Yesterday.MAE, &f.Yesterday.Method,
	}
	for _, v := range money {
		*v *= price
	}
	return f
}

// A habits is hours one after the other. What they used is above a level, so that it does not matter how high that is.
type habits struct {
	begin time.Time
	level float64
	used  []float64 // NaN: not known
	hours []int     // hour of the week of used, and on for as long as they were asked for
	zone  *time.Location
}

// hourly puts a series on whole hours; nil where it has none.
func hourly(s Series, zone *time.Location) *habits {
	var x *habits
	for _, p := range s.Points {
		if !(math.Abs(p.Value) <= most) {
			continue
		}
		if x == nil {
			x = &habits{begin: p.Time, level: p.Value, zone: zone}
		}
		i := x.number(p.Time)
		if i < len(x.used) || i > 100*longestHabit {
			continue
		}
		for len(x.used) < i {
			x.used = append(x.used, math.NaN())
		}
		x.used = append(x.used, p.Value-x.level)
	}
	if x == nil {
		return nil
	}
	if over := len(x.used) - longestHabit; over > 0 {
		x.used, x.begin = x.used[over:], x.hour(over)
	}
	return x
}

// number is that of the hour that a time is in.
func (x *habits) number(t time.Time) int { return int(math.Floor(t.Sub(x.begin).Hours())) }

func (x *habits) hour(i int) time.Time { return x.begin.Add(time.Duration(i) * time.Hour) }

// ofWeek is which hour of the week that of a number is, by the clock on the wall.
func (x *habits) ofWeek(i int) int {
	if i < 0 {
		return ofWeek(x.hour(i), x.zone)
	}
	for len(x.hours) <= i {
		x.hours = append(x.hours, ofWeek(x.hour(len(x.hours)), x.zone))
	}
	return x.hours[i]
}

func ofWeek(t time.Time, zone *time.Location) int {
	t = t.In(zone)
	return int(t.Weekday())*day + t.Hour()
}

// known is how many of the hours before one are known.
func (x *habits) known(before int) (count int) {
	for _, v := range x.used[:before] {
		if !math.IsNaN(v) {
			count++
		}
	}
	return count
}

// habit returns the usual energy of each hour of the week, from the hours before one.
func (x *habits) habit(before int) (usual [week]float64) {
	const (
		half   = 3.0 // weeks after which an hour counts half
		within = 3.0 // hours of the same kind that count as much as what they are drawn to
	)
	var w, sum [week]float64
	for i := max(before-longestHabit, 0); i < before; i++ {
		if v := x.used[i]; !math.IsNaN(v) {
			weight := halves[(before-1-i)/week]
			k := x.ofWeek(i)
			w[k], sum[k] = w[k]+weight, sum[k]+weight*v
		}
	}
	var all, allSum float64
	var dayW, daySum [day]float64
	for k := range week {
		dayW[k%day], daySum[k%day] = dayW[k%day]+w[k], daySum[k%day]+sum[k]
		all, allSum = all+w[k], allSum+sum[k]
	}
	for k := range week {
		ofDay := (daySum[k%day] + within*allSum/all) / (dayW[k%day] + within)
		usual[k] = (sum[k] + within*ofDay) / (w[k] + within)
	}
	return usual
}

// halves is the weight of an hour by its age in weeks.
var halves = func() (out [longestHabit/week + 1]float64) {
	for i := range out {
		out[i] = math.Pow(0.5, float64(i)/3)
	}
	return out
}()

// trials are the same a day ago, two days ago and so on, for as many hours as there are now, or as the past has room for five
// times over: trials that overlap say less than they are many. What fewer hours were off counts as if it went on. off are the
// residuals.
func (x *habits) trials(hours int) (out []trial, off []float64) {
	n := len(x.used)
	h := min(hours, (n-leastHabit)/5)
	if h < leastSpan || 4*h < hours {
		return nil, nil
	}
	for o := n - h; o >= leastHabit && len(out) < mostOrigins; o -= day {
		if t, known := x.trial(o, h); 2*known > h {
			t.times(float64(hours) / float64(known))
			out, off = append(out, t), append(off, t.was-t.said)
		}
	}
	return out, off
}

// trial is the forecast of the hours from one on, and how many of them are known. The others count on no side.
func (x *habits) trial(o, hours int) (t trial, known int) {
	if 4*x.known(o) < 3*leastHabit || math.IsNaN(x.used[o-1]) {
		return t, 0
	}
	usual, now := x.habit(o), x.used[o-1]
	t.hasNow, t.hasYesterday = true, true
	for i := o; i < o+hours; i++ {
		v := x.used[i]
		if math.IsNaN(v) {
			continue
		}
		yesterday := x.used[o-day+(i-o)%day]
		t.was, t.said, t.now, t.yesterday = t.was+v, t.said+usual[x.ofWeek(i)], t.now+now, t.yesterday+yesterday
		t.hasYesterday = t.hasYesterday && !math.IsNaN(yesterday)
		known++
	}
	return t, known
}

func (t *trial) times(factor float64) {
	t.said, t.was, t.now, t.yesterday = t.said*factor, t.was*factor, t.now*factor, t.yesterday*factor
}
