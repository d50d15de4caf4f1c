//go:build !race

package method_test

import (
	"cmp"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/forecast/method"
)

var (
	update = flag.Bool("update", false, "measure all, and write the table of docs/forecast.md anew; its diff is the review")
	traces = flag.String("traces", "", "a directory of readings of cards: CSV files with the columns "+strings.Join(traceColumns, ", "))
)

// traceColumns are what is read of a file of -traces.
var traceColumns = []string{"t_s", "gpu", "mem_used_mib", "temp_c"}

// A line is a row of the table: forecasts of a kind, from one source, about as far ahead.
type line struct {
	source, kind, ahead string
	asked, shown        int // forecasts, and those that would be shown
	decided, held       int // of those shown: what came is known; it was in the interval
	came                int // of those shown: what was forecast came at all
	own, now, yesterday score
	inTime              score // of those that came: how far the time was off, in s
	worse               score // of those not shown that had an interval: error in parts of that of as-now
}

type score struct {
	sum   float64
	count int
}

func (s *score) add(x float64) { s.sum, s.count = s.sum+x, s.count+1 }

func (s *score) mean() float64 { return s.sum / float64(s.count) }

// A table has its lines in the order in which they came.
type table struct {
	t     *testing.T
	lines []*line
}

func (t *table) entry(source, kind, ahead string) *line {
	for _, l := range t.lines {
		if l.source == source && l.kind == kind && l.ahead == ahead {
			return l
		}
	}
	l := &line{source: source, kind: kind, ahead: ahead}
	t.lines = append(t.lines, l)
	return l
}

// A horizon sorts forecasts by how far they reach.
type horizon struct {
	until time.Duration
	text  string
}

var (
	ofMemory = []horizon{{30 * time.Minute, "to 30 min"}, {2 * time.Hour, "30 min to 2 h"}, {math.MaxInt64, "over 2 h"}}
	ofHeat   = []horizon{{time.Minute, "to 1 min"}, {5 * time.Minute, "1 to 5 min"}, {math.MaxInt64, "over 5 min"}}
)

func in(horizons []horizon, seconds float64) string {
	i := slices.IndexFunc(horizons, func(h horizon) bool { return seconds < h.until.Seconds() })
	return horizons[i].text
}

// reading plays a series and asks, at many points of it, when a limit is reached. above is the limits over what it is then; with
// none, limit.
func (t *table) reading(source, kind string, s method.Series, every int, limit float64, above ...float64) {
	ask, horizons := method.MemoryFull, ofMemory
	if kind == "limit reached" {
		ask, horizons = method.LimitReached, ofHeat
	}
	whole := t.entry(source, kind, "all")
	for n := every; n < len(s.Points); n += every {
		past := s
		past.Points = s.Points[:n]
		limits := []float64{limit}
		if len(above) > 0 {
			limits = limits[:0]
			for _, a := range above {
				limits = append(limits, s.Points[n-1].Value+a)
			}
		}
		for _, limit := range limits {
			f := ask(past, limit)
			whole.asked++
			if f.High > 0 {
				t.entry(source, kind, in(horizons, f.Value)).judge(s, n, limit, &f)
			}
		}
	}
}

// judge looks at what came after the first n points.
func (l *line) judge(s method.Series, n int, limit float64, f *method.Forecast) {
	l.asked++
	then, known := valueAt(s, f.At.Add(seconds(f.Value)))
	now := s.Points[n-1].Value
	if !f.Shown {
		if off := math.Abs(now - then); known && off > 0 {
			l.worse.add(math.Abs(limit-then) / off)
		}
		return
	}
	l.shown++
	if known {
		l.own.add(math.Abs(limit - then))
		l.now.add(math.Abs(now - then))
		if v, ok := valueAt(s, f.At.Add(seconds(f.Value)-24*time.Hour)); ok {
			l.yesterday.add(math.Abs(v - then))
		}
	}
	i := slices.IndexFunc(s.Points[n:], func(p method.Point) bool { return p.Value >= limit })
	if i < 0 {
		if s.Points[len(s.Points)-1].Time.Sub(f.At).Seconds() > f.High {
			l.decided++
		}
		return
	}
	took := s.Points[n+i].Time.Sub(f.At).Seconds()
	l.came++
	l.inTime.add(math.Abs(took - f.Value))
	l.decide(took, f)
}

func (l *line) decide(was float64, f *method.Forecast) {
	l.decided++
	if f.Low <= was && was <= f.High {
		l.held++
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func valueAt(s method.Series, moment time.Time) (float64, bool) {
	i, found := slices.BinarySearchFunc(s.Points, moment, func(p method.Point, moment time.Time) int { return p.Time.Compare(moment) })
	if !found {
		i--
	}
	if i < 0 || moment.Sub(s.Points[i].Time) > s.Gap {
		return 0, false
	}
	return s.Points[i].Value, true
}

// made are series that were made up, with what forecasts must and must not take for growth.
func (t *table) made(seeds uint64) {
	const origin = "made up"
	const fresh = 1000 // seeds from here on were not looked at when the methods were chosen
	for seed := range seeds {
		r := noise(fresh + seed)
		t.reading(origin+": leak", "memory full", leak(r, 2000, 1000+r.IntN(400), 0.05+0.3*r.Float64(), 0.05+0.3*r.Float64()), 25, 80)
		t.reading(origin+": teeth", "memory full", teeth(r, 1440, 20+r.IntN(100)), 25, 32)
		t.reading(origin+": steps", "memory full", steps(r, 1440), 25, 70)
		t.reading(origin+": fan fails", "limit reached", fails(r, 3*720, 2*720+r.IntN(200)), 11, 92)
		t.reading(origin+": work", "limit reached", work(r, 5*720), 11, 0, 3, 6, 10)
	}
	for seed := range 2 * seeds {
		hours, free := habits(20, noise(fresh+seed))
		t.energy(origin+": week", hours)
		t.free(origin+": week", free, truly())
		hours, free = anyHour(20, noise(fresh+seed))
		t.energy(origin+": any hour", hours)
		t.free(origin+": any hour", free, nil)
	}
}

// energy asks on each third day what the next days will use, and judges it.
func (t *table) energy(source string, hours method.Series) {
	for _, days := range []int{3, 7, 14, 28} {
		l := t.entry(source, "energy", fmt.Sprintf("%d days", days))
		for n := 24; n+days*24 <= len(hours.Points); n += 73 {
			past := method.Series{Points: hours.Points[:n]}
			begin := hours.Points[n].Time
			f := method.Energy(past, begin, begin.Add(time.Duration(days)*24*time.Hour))
			l.asked++
			var was, yesterday float64
			for i, p := range hours.Points[n : n+days*24] {
				was, yesterday = was+p.Value, yesterday+hours.Points[n-24+i%24].Value
			}
			l.total(&f, was, hours.Points[n-1].Value*float64(days*24), yesterday)
		}
	}
}

func (l *line) total(f *method.Forecast, was, now, yesterday float64) {
	if !f.Shown {
		if off := math.Abs(now - was); f.High != 0 && off > 0 {
			l.worse.add(math.Abs(f.Value-was) / off)
		}
		return
	}
	l.shown++
	l.came++
	l.own.add(math.Abs(f.Value - was))
	l.now.add(math.Abs(now - was))
	l.yesterday.add(math.Abs(yesterday - was))
	l.decide(was, f)
}

// free asks on each third day at which hours the device is free. Where it is known how likely that truly is, the interval is
// judged by that.
func (t *table) free(source string, free method.Series, truth []float64) {
	l := t.entry(source, "usually free", "next day")
	for n := 24; n+24 <= len(free.Points); n += 73 {
		u := method.UsuallyFree(method.Series{Points: free.Points[:n]}, time.UTC)
		l.asked++
		if !u.Shown {
			continue
		}
		l.shown++
		for i := range 24 {
			p := free.Points[n+i]
			k := int(p.Time.Weekday())*24 + p.Time.Hour()
			h := u.Hours[k]
			said := 0.0
			if h.P >= 0.5 {
				said = 1
			}
			l.came++
			was := freely(p)
			l.own.add(math.Abs(said - was))
			l.now.add(math.Abs(freely(free.Points[n-1]) - was))
			l.yesterday.add(math.Abs(freely(free.Points[n+i-24]) - was))
			if truth != nil {
				l.decide(truth[k], &method.Forecast{Low: h.Low, High: h.High})
			}
		}
	}
}

// freely is whether a device was free in an hour.
func freely(p method.Point) float64 {
	if p.Value >= 0.9 {
		return 1
	}
	return 0
}

// truly is how likely a device of [habits] is free at each hour of the week.
func truly() []float64 {
	const weeks = 3000
	out := make([]float64, 7*24)
	_, free := habits(weeks, noise(99))
	for _, p := range free.Points {
		out[int(p.Time.Weekday())*24+p.Time.Hour()] += p.Value / weeks
	}
	return out
}

// quiet judges what a thermal model told, each time with what was told before.
func (t *table) quiet(source string, told []method.Told) {
	l := t.entry(source, "quiet", "all")
	for i, now := range told {
		f := method.QuietIn(now, told[:i])
		l.asked++
		if !f.Shown {
			continue
		}
		l.shown++
		l.came++
		l.own.add(math.Abs(f.Value - now.Took.Seconds()))
		l.inTime.add(math.Abs(f.Value - now.Took.Seconds()))
		l.decide(now.Took.Seconds(), &f)
		if i := slices.IndexFunc(told, func(u method.Told) bool { return !u.Begun.Before(now.Begun) }); i > 0 {
			before := told[i-1]
			whole := before.At.Add(before.Took).Sub(before.Begun)
			left := max(whole-now.At.Sub(now.Begun), 0)
			l.now.add(math.Abs(left.Seconds() - now.Took.Seconds()))
		}
		near := func(u method.Told) bool { return (now.Begun.Sub(u.Begun) - 24*time.Hour).Abs() <= time.Hour }
		if i := slices.IndexFunc(told, near); i >= 0 {
			whole := told[i].At.Add(told[i].Took).Sub(told[i].Begun)
			left := max(whole-now.At.Sub(now.Begun), 0)
			l.yesterday.add(math.Abs(left.Seconds() - now.Took.Seconds()))
		}
	}
}

// markdown is the table as docs/forecast.md has it.
func (t *table) markdown() string {
	var b strings.Builder
	fmt.Fprintln(&b, "| source | forecast | ahead | asked | shown | came | in the interval | error | as now | as yesterday | time off |")
	fmt.Fprintln(&b, "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
	lines := slices.Clone(t.lines)
	slices.SortStableFunc(lines, func(a, b *line) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.source, b.source))
	})
	for _, l := range lines {
		held := ""
		if l.decided > 0 {
			held = fmt.Sprintf("%.0f %% of %d", 100*float64(l.held)/float64(l.decided), l.decided)
		}
		shown, came := fmt.Sprint(l.shown), fmt.Sprint(l.came)
		if l.ahead == "all" && l.kind != "quiet" {
			shown, came = "", ""
		}
		if l.decided == 0 {
			came = ""
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %d | %s | %s | %s | %s | %s | %s | %s |\n",
			l.source, l.kind, l.ahead, l.asked, shown, came, held,
			l.own.text(""), l.now.text(""), l.yesterday.text(""), l.inTime.text(" s"))
	}
	return b.String()
}

func (s *score) text(unit string) string {
	if s.count == 0 {
		return ""
	}
	return fmt.Sprintf("%.3g%s", s.mean(), unit)
}

const (
	doc    = "../../../docs/forecast.md"
	opens  = "<!-- measured: `go test ./internal/forecast/method -run TestForecastsAreWorthShowing -update -traces DIR` writes what follows -->\n"
	closes = "<!-- measured: end -->\n"
)

// What is shown is better than both naive forecasts, and the intervals hold what they promise, on made-up series and on the
// simulator; with -traces also on readings of real cards, which are only printed.
func TestForecastsAreWorthShowing(t *testing.T) {
	if testing.Short() {
		t.Skip("it plays days of machines")
	}
	all := &table{t: t}
	seeds, lasts := uint64(2), 2*time.Hour
	if *update || *traces != "" {
		seeds, lasts = 20, 36*time.Hour
	}
	all.made(seeds)
	all.simulator(lasts)
	if *traces != "" {
		all.recorded(*traces)
	}
	t.Log("\n" + all.markdown())
	for _, l := range all.lines {
		l.worth(t)
	}
	if *update {
		old, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		before, rest, ok1 := strings.Cut(string(old), opens)
		_, after, ok2 := strings.Cut(rest, closes)
		if !ok1 || !ok2 {
			t.Fatalf("%s has no place for the table", doc)
		}
		if err := os.WriteFile(doc, []byte(before+opens+"\n"+all.markdown()+"\n"+closes+after), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// The document says what -traces reads, and a file without that is refused.
func TestTracesAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	for _, column := range traceColumns {
		if !strings.Contains(string(text), "`"+column+"`") {
			t.Errorf("the document does not name the column %s", column)
		}
	}
	if _, err := columnsOf([]string{"t_s", "gpu", "temp_c", "power_w"}); err == nil {
		t.Error("a file without a column is read")
	}
	if columns, err := columnsOf([]string{"gpu", "power_w", "temp_c", "mem_used_mib", "t_s"}); err != nil || columns["t_s"] != 4 || columns["gpu"] != 0 {
		t.Errorf("%v, %v", columns, err)
	}
}

// columnsOf says where the columns are.
func columnsOf(names []string) (map[string]int, error) {
	columns := map[string]int{}
	for _, name := range traceColumns {
		i := slices.Index(names, name)
		if i < 0 {
			return nil, fmt.Errorf("the column %s is missing", name)
		}
		columns[name] = i
	}
	return columns, nil
}

// worth fails for forecasts that would better not have been shown.
func (l *line) worth(t *testing.T) {
	name := fmt.Sprintf("%s, %s, %s", l.source, l.kind, l.ahead)
	if l.shown >= 30 && (l.own.mean() >= l.now.mean() || l.yesterday.count >= 30 && l.own.mean() >= l.yesterday.mean()) {
		t.Errorf("%s: off by %.3g, as now by %.3g, as yesterday by %.3g", name, l.own.mean(), l.now.mean(), l.yesterday.mean())
	}
	if l.decided >= 30 {
		if held := float64(l.held) / float64(l.decided); held < 0.65 {
			t.Errorf("%s: %.0f %% of %d intervals held what came", name, 100*held, l.decided)
		}
	}
}
