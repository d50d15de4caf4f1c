// Package when reads times and spans as people write them. A day is a day of now's time zone, even when its clocks change: it
// can have 23 or 25 hours. Text that is ambiguous or meaningless is refused with examples.
package when

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/lazy"
)

// A Span is the time from From up to, but not including, To.
type Span struct{ From, To time.Time }

// parts are those of a day, by the clock of the zone.
var parts = map[string]struct{ begins, ends clock }{
	"morning":   {clock{hour: 6}, clock{hour: 12}},
	"afternoon": {clock{hour: 12}, clock{hour: 18}},
	"evening":   {clock{hour: 18}, clock{hour: 22}},
	"night":     {clock{hour: 22}, clock{hour: 6, day: 1}},
}

const examples = `write it like "2026-03-14 02:30", "2026-03-14T02:30:00Z", "yesterday at 22:00", "monday 9:00", "14:30", "1.5h ago" or 1773448200`

// Time reads one time, in the zone of now. A time of day alone is the latest one that is not after now. A clock
// time that occurs twice on that day, in autumn, means the first; one that is skipped, in spring, means the
// moment when the clocks jump. An error is a [gpu.Advice].
func Time(text string, now time.Time) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, strings.ToUpper(strings.TrimSpace(text))); err == nil {
		return t.In(now.Location()), nil
	}
	text = isoDates(text)
	if t, ok := point(words(text), now); ok {
		return t, nil
	}
	return time.Time{}, unread(text, "is not a time", examples)
}

// lostPlus is RFC 3339 with a space where its + was.
var lostPlus = lazy.Pattern(`^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d(\.\d+)?)? \d\d:\d\d$`)

// unread is the error of a text that can't be understood.
func unread(text, what, try string) error {
	if lostPlus().MatchString(strings.TrimSpace(text)) {
		try = "write the + as %2B in an address"
	}
	return &gpu.Advice{What: strconv.Quote(text) + " " + what, Try: try}
}

// between stands between the ends of a span.
var between = lazy.Pattern(`(?i)\.\.| (?:to|until|till|[-–—]) |/`)

// betweens are the words of a span such as "between 9:00 and 10:00".
var betweens = lazy.Pattern(`(?i)^\s*between\s+(.+)\s+and\s+(.+)$`)

// ambiguous is a date of which nobody can tell the month from the day.
var ambiguous = lazy.Pattern(`^\d{1,2}([/.])\d{1,2}[/.](\d{2}|\d{4})\b`)

// dashed are two times of day with nothing but a dash between them, as in "yesterday 22:00-06:00".
// A short name of a zone may follow each, or the second for both.
var dashed = lazy.Pattern(strings.ReplaceAll(`(?i)^(.*\s)?(CLOCK)( [a-z]{1,5})?[-–](CLOCK)( [a-z]{1,5})?$`, "CLOCK", `\d{1,2}:\d\d(?:[ap]m)?|\d{1,2}[ap]m|noon|midnight`))

// Parse reads a span, in the zone of now: a day, a night, a week, a month or a year by name or number, "last 6 hours" or "6h", "A
// to B", "A..B", "between A and B", or "since A", which ends now whatever A is. A single time means a span from then until now.
// If B is a length of time, such as "2h", it means that long ago; if it is a day, a month or the like, it means the end of it.
//
// Two times of day without a day, such as "22:00-06:00", are the latest such span that ends today and has begun: at 22:29 it is
// the night that ended this morning, and at 2:00 the current one. "9:00-17:00" is today's from 9:00 on, and before that
// yesterday's.
//
// A span never ends after now, unless its end is written with a later day. An error is a [gpu.Advice].
func Parse(text string, now time.Time) (Span, error) {
	text = isoDates(text)
	if ambiguous().MatchString(strings.TrimSpace(text)) {
		return Span{}, unread(text, "could mean several dates", `write it like "2026-03-14" or "14 Mar 2026"`)
	}
	if ab := betweens().FindStringSubmatch(text); ab != nil {
		return ends(ab[1], ab[2], text, now)
	}
	if ab := dashed().FindStringSubmatch(strings.TrimSpace(text)); ab != nil {
		return ends(ab[1]+ab[2]+ab[3], ab[4]+ab[5], text, now)
	}
	if ab := between().Split(text, 2); len(ab) == 2 {
		return ends(ab[0], ab[1], text, now)
	}
	fields := words(text)
	if len(fields) > 1 && begins(fields[0]) {
		s, err := Parse(strings.TrimSpace(strings.TrimSpace(text)[len(fields[0]):]), now)
		return Span{s.From, now}, err
	}
	s, ok := named(fields, now)
	if !ok {
		begin, err := Time(text, now)
		if err != nil {
			return Span{}, unread(text, "is not a span of time", `write it like "last night", "1.5h", "since monday", "22:00-06:00", "yesterday 22:00 to 06:00" or "2026-03-14T02:30 to 2026-03-14T04:00"`)
		}
		s = Span{begin, now}
	}
	if s.To.After(now) {
		s.To = now
	}
	if s.From.Equal(now) {
		return Span{}, unread(text, "begins only now", "give an earlier time")
	}
	if !s.From.Before(s.To) {
		return Span{}, unread(text, "is in the future", "give a time in the past")
	}
	return s, nil
}

// begins reports whether a word stands before the begin of a span.
func begins(word string) bool { return word == "since" || word == "from" }

// ofDay reads a span between two times of day, which are of the day of now.
func ofDay(a, b []string, now time.Time) (Span, bool) {
	if len(a) > 1 && begins(a[0]) {
		a = a[1:]
	}
	from, hasFrom := clockIn(a, now)
	to, hasTo := clockIn(b, now)
	if !hasFrom || !hasTo {
		return Span{}, false
	}
	same := from.clock == to.clock && from.in == to.in // which is a whole day
	if to.clock == (clock{}) {                         // midnight ends a day here
		to.day = 1
	}
	over := to.onDay(now, 0)
	begins := from.onDay(now, 0)
	skipped := begins.Equal(over) && !same // the clocks jump over all of it today
	switch {
	case skipped, begins.Before(over) && begins.After(now):
		return Span{from.onDay(now, -1), to.onDay(now, -1)}, true
	case begins.Before(over):
		return Span{begins, over}, true
	}
	return Span{from.onDay(now, -1), over}, true
}

// ends reads both ends of a span. The second can be a time of day: the first such time after the first end.
func ends(a, b, text string, now time.Time) (Span, error) {
	a, b = sameZone(a, b)
	if s, ok := ofDay(words(a), words(b), now); ok && s.From.Before(now) {
		if s.To.After(now) {
			s.To = now
		}
		return s, nil
	}
	from, err := Parse(a, now)
	if err != nil {
		return Span{}, err
	}
	to, err := end(b, from.From, now)
	if err == nil && !from.From.Before(to) {
		err = unread(text, "ends before it begins", "give the earlier time first")
	}
	return Span{from.From, to}, err
}

func end(text string, begin, now time.Time) (time.Time, error) {
	fields := words(text)
	if t, ok := after(fields, begin); ok {
		return earliest(t, now), nil
	}
	if t, ok := ago(fields, now); ok {
		return t, nil
	}
	if s, ok := named(fields, now); !ok {
		return Time(text, now)
	} else if s.To.Before(now) {
		return s.To, nil
	}
	return now, nil
}

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func after(fields []string, begin time.Time) (time.Time, bool) {
	c, ok := clockIn(fields, begin)
	if !ok {
		return time.Time{}, false
	}
	if t := c.onDay(begin, 0); t.After(begin) {
		return t, true
	}
	return c.onDay(begin, 1), true
}

// point reads a time that is not RFC 3339.
func point(fields []string, now time.Time) (time.Time, bool) {
	if t, ok := ago(fields, now); ok {
		return t, true
	}
	switch last := len(fields) - 1; {
	case last < 0:
		return time.Time{}, false
	case last > 0 && fields[last] == "ago":
		return before(now, strings.Join(fields[:last], ""))
	case last == 0 && fields[0] == "now":
		return now, true
	case last == 0:
		if t, ok := unix(fields[0]); ok {
			return t.In(now.Location()), true
		}
	}
	if c, ok := clockIn(fields, now); ok {
		if t := c.onDay(now, 0); !t.After(now) {
			return t, true
		}
		return c.onDay(now, -1), true
	}
	if day, ok := dayOf(fields[0], now); ok {
		if len(fields) == 1 {
			return day, true
		}
		c, ok := clockIn(fields[1:], day)
		if !ok {
			return time.Time{}, false
		}
		if c.in != nil { // the day is one of that zone
			day, _ = dayOf(fields[0], now.In(c.in))
		}
		return c.onDay(day, 0).In(now.Location()), true
	}
	return time.Time{}, false
}

// unix reads seconds since 1970, or milliseconds: those of times from 1973 to 2286, so that no year or date is one.
func unix(word string) (time.Time, bool) {
	whole, _, _ := strings.Cut(strings.TrimPrefix(word, "@"), ".")
	seconds, err := strconv.ParseFloat(strings.TrimPrefix(word, "@"), 64)
	if err != nil || strings.Trim(whole, "0123456789") != "" {
		return time.Time{}, false
	}
	switch len(whole) {
	case 9, 10:
		return time.UnixMilli(int64(math.Round(seconds * 1000))), true
	case 12, 13:
		return time.UnixMilli(int64(math.Round(seconds))), true
	}
	return time.Time{}, false
}

// dayOf is when a day begins: today, yesterday, the newest day of the week that has this name, or a date.
func dayOf(word string, now time.Time) (time.Time, bool) {
	if date, err := time.Parse(time.DateOnly, word); err == nil {
		return clock{}.onDay(time.Date(date.Year(), date.Month(), date.Day(), 12, 0, 0, 0, now.Location()), 0), true
	}
	if strings.HasPrefix(word, noYear) {
		return newestDate(word, now)
	}
	switch word {
	case "today":
		return clock{}.onDay(now, 0), true
	case "yesterday":
		return clock{}.onDay(now, -1), true
	}
	word, last := strings.CutPrefix(word, "last ")
	wanted, ok := weekday(word)
	for days := range 8 {
		day := clock{}.onDay(now, -days)
		if ok && day.Weekday() == wanted && (days > 0 || !last) {
			return day, true
		}
	}
	return time.Time{}, false
}

// weekday reads the name of a day of the week, also in short.
func weekday(word string) (time.Weekday, bool) {
	for day := time.Sunday; day <= time.Saturday; day++ {
		if len(word) >= 3 && strings.HasPrefix(strings.ToLower(day.String()), word) {
			return day, true
		}
	}
	return 0, false
}

// partOf reads a part of a day, such as "last night", "this afternoon" or "monday evening".
func partOf(fields []string, now time.Time) (Span, bool) {
	if len(fields) != 2 {
		return Span{}, false
	}
	part, ok := parts[fields[1]]
	day, known := dayOf(fields[0], now)
	switch {
	case fields[0] == "last" && fields[1] == "night":
		day, known = clock{}.onDay(now, -1), true
	case fields[0] == "this" && fields[1] != "night":
		day, known = now, true
	}
	return Span{part.begins.onDay(day, 0), part.ends.onDay(day, 0)}, ok && known
}

// named reads what has a name and two ends.
func named(fields []string, now time.Time) (s Span, ok bool) {
	if s, ok := partOf(fields, now); ok {
		return s, true
	}
	switch text := strings.Join(fields, " "); text {
	case "this week", "last week":
		monday := -(int(now.Weekday()) + 6) % 7
		if text == "last week" {
			monday -= 7
		}
		return Span{clock{}.onDay(now, monday), clock{}.onDay(now, monday+7)}, true
	case "this month", "last month", "this year", "last year":
		year, month := now.Year(), now.Month()
		if fields[0] == "last" && fields[1] == "month" {
			month--
		}
		if fields[1] == "month" {
			return calendar(year, month, 0, 1, now), true
		}
		if fields[0] == "last" {
			year--
		}
		return calendar(year, 1, 1, 0, now), true
	}
	if s, ok := monthNamed(fields, now); ok {
		return s, true
	}
	if len(fields) > 1 && (fields[0] == "last" || fields[0] == "past") {
		begin, ok := before(now, strings.Join(fields[1:], ""))
		if !ok && len(fields) == 2 { // "last hour"
			begin, ok = before(now, "1"+fields[1])
		}
		return Span{begin, now}, ok
	}
	if begin, ok := ago(fields, now); ok {
		return Span{begin, now}, true
	}
	if len(fields) != 1 {
		return Span{}, false
	}
	if month, err := time.Parse("2006-01", fields[0]); err == nil {
		return calendar(month.Year(), month.Month(), 0, 1, now), true
	}
	if year, err := time.Parse("2006", fields[0]); err == nil {
		return calendar(year.Year(), 1, 1, 0, now), true
	}
	day, ok := dayOf(fields[0], now)
	return Span{day, clock{}.onDay(day, 1)}, ok
}

func calendar(year int, month time.Month, years, months int, now time.Time) Span {
	begin := func(year int, month time.Month) time.Time {
		return clock{}.onDay(time.Date(year, month, 1, 12, 0, 0, 0, now.Location()), 0)
	}
	return Span{begin(year, month), begin(year+years, month+time.Month(months))}
}

// units are those of a length of time. Days, weeks and years are of the calendar.
var units = map[string]struct {
	length       time.Duration
	days, months int
}{
	"s": {time.Second, 0, 0}, "m": {time.Minute, 0, 0}, "h": {time.Hour, 0, 0}, "d": {0, 1, 0}, "w": {0, 7, 0}, "y": {0, 0, 12},
	"sec": {time.Second, 0, 0}, "min": {time.Minute, 0, 0}, "hour": {time.Hour, 0, 0}, "day": {0, 1, 0}, "week": {0, 7, 0}, "year": {0, 0, 12},
	"second": {time.Second, 0, 0}, "minute": {time.Minute, 0, 0}, "hr": {time.Hour, 0, 0}, "month": {0, 0, 1},
}

// furthest bounds numbers: nobody has a past of that many seconds.
const furthest = 1e10

// ago reads a length of time, with or without a minus, as so long before now.
func ago(fields []string, now time.Time) (time.Time, bool) {
	return before(now, strings.TrimPrefix(strings.Join(fields, ""), "-"))
}

// before is the time that is so long before now: "90s", "6h", "1h30m", "1.5h", "2d", "6hours", "anhour".
func before(now time.Time, length string) (time.Time, bool) {
	const digits = "0123456789."
	t, some := now, false
	for _, one := range [...]string{"an", "a", "one"} {
		if unit, ok := strings.CutPrefix(length, one); ok && units[unit].length+time.Duration(units[unit].days+units[unit].months) > 0 {
			length = "1" + unit
		}
	}
	for length != "" {
		number := length[:len(length)-len(strings.TrimLeft(length, digits))]
		rest := length[len(number):]
		unit := rest
		if i := strings.IndexAny(rest, digits); i >= 0 {
			unit = rest[:i]
		}
		length = rest[len(unit):]
		u, known := units[unit]
		if !known && len(unit) > 2 { // "ms" are not minutes
			u, known = units[strings.TrimSuffix(unit, "s")]
		}
		n, err := strconv.ParseFloat(number, 64)
		if err != nil || !known || strings.HasPrefix(number, ".") || strings.HasSuffix(number, ".") ||
			n*max(u.length.Seconds(), float64(u.days)*86400, float64(u.months)*31*86400) > furthest {
			return time.Time{}, false
		}
		whole := math.Floor(n)
		part := time.Duration((n - whole) * float64(u.length+time.Duration(u.days)*24*time.Hour)) // of a day it is hours
		if u.months > 0 && n != whole {                                                           // how long half a month is, nobody can say
			return time.Time{}, false
		}
		t = daysBefore(t, int(whole)*u.months, int(whole)*u.days).Add(-time.Duration(whole)*u.length - part)
		some = true
	}
	return t, some
}

// Length reads a length of time, such as "1.5h", "90 s", "15 minutes" or "1d", which means 24 hours here. It is not ok for months
// or years.
func Length(text string) (length time.Duration, ok bool) {
	joined := strings.Join(strings.Fields(strings.ToLower(text)), "")
	begin, ok := before(time.Unix(0, 0).UTC(), joined)
	if strings.Contains(joined, "month") || strings.HasSuffix(joined, "y") && !strings.HasSuffix(joined, "day") || strings.Contains(joined, "year") {
		return 0, false
	}
	if !ok {
		return 0, false
	}
	return time.Unix(0, 0).Sub(begin), true
}

// daysBefore is the same clock so many months and days earlier. The moment itself stays where there are none of them: a clock that
// is shown twice would not lead back to it. A month that has no such day has its last one.
func daysBefore(t time.Time, months, days int) time.Time {
	if months == 0 && days == 0 {
		return t
	}
	y, m, d := t.Date()
	hour, minute, second := t.Clock()
	if months > 0 {
		first := time.Date(y, m-time.Month(months), 1, 0, 0, 0, 0, time.UTC)
		y, m, d = first.Year(), first.Month(), min(d, first.AddDate(0, 1, -1).Day())
	}
	day := time.Date(y, m, d-days, 12, 0, 0, 0, t.Location())
	return clock{hour: hour, minute: minute, second: second}.onDay(day, 0).Add(time.Duration(t.Nanosecond()))
}

// Day returns when a day of t's zone begins, the given number of days after t's day. A day that the zone skipped, as Samoa
// did at the end of 2011, begins with the day after it.
func Day(t time.Time, days int) time.Time { return clock{}.onDay(t, days) }

// Month returns when a month of t's zone begins, the given number of months after t's month.
func Month(t time.Time, months int) time.Time {
	return calendar(t.Year(), t.Month()+time.Month(months), 0, 0, t).From
}

// A clock is a time of day.
type clock struct{ hour, minute, second, day int }

func clockOf(word string) (clock, bool) {
	switch word {
	case "noon":
		return clock{hour: 12}, true
	case "midnight":
		return clock{}, true
	case "24:00":
		return clock{day: 1}, true
	}
	for _, layout := range []string{"15:04", "15:04:05", "3pm", "3:04pm", "3:04:05pm"} {
		if t, err := time.Parse(layout, word); err == nil {
			return clock{t.Hour(), t.Minute(), t.Second(), 0}, true
		}
	}
	return clock{}, false
}

// onDay is when the clock shows that, so many days after the day of t.
func (c clock) onDay(t time.Time, days int) time.Time {
	y, m, d := t.Date()
	days += c.day
	made := time.Date(y, m, d+days, c.hour, c.minute, c.second, 0, t.Location())
	begins, ends := made.ZoneBounds()
	day := time.Date(y, m, d+days, 0, 0, 0, 0, time.UTC).Day()
	if made.Hour() != c.hour || made.Minute() != c.minute || made.Day() != day { // the clocks jump over it, once over a whole day
		if made.Sub(begins).Abs() <= ends.Sub(made).Abs() && !begins.IsZero() {
			return begins
		}
		return ends
	}
	if begins.IsZero() {
		return made
	}
	_, now := made.Zone()
	_, before := begins.Add(-time.Second).Zone()
	if first := made.Add(time.Duration(now-before) * time.Second); before > now && first.Before(begins) {
		return first
	}
	return made
}
