package when

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/lazy"
)

var (
	// dateAndClock is a date with a clock, as in RFC 3339 but for its seconds or its zone.
	dateAndClock = lazy.Pattern(`^(\d{4}-\d\d-\d\d)t(\d\d:\d\d(?::\d\d(?:\.\d+)?)?)(z|[+-]\d\d(?::?\d\d)?)?$`)
	// dayOfMonth is the number of a day beside the name of its month.
	dayOfMonth = lazy.Pattern(`^(\d{1,2})(?:st|nd|rd|th|\.)?$`)
	aYear      = lazy.Pattern(`^\d{4}$`)
	offset     = lazy.Pattern(`^(?:(?:utc|gmt)([+-]\d\d?)|([+-]\d\d)):?(\d\d)?$`)
	// zoned is a clock with its zone behind it. One with a minus is none: "22:00-06:00" is a span.
	zoned = lazy.Pattern(`^(\d{1,2}:\d\d(?::\d\d)?)(z|\+\d\d:?\d\d)$`)
	// yearFirst and yearLast are dates with slashes or dots.
	yearFirst = lazy.Pattern(`\b(\d{4})/(\d{1,2})/(\d{1,2})\b`)
	yearLast  = lazy.Pattern(`\b(\d{1,2})([/.])(\d{1,2})[/.](\d{4})\b`)
)

// isoDates writes dates such as "2026/11/25" and "25.11.2026" as 2026-11-25. One of which nobody can tell the month from the day stays.
func isoDates(text string) string {
	date := func(whole, year, month, day string) string {
		if t, err := time.Parse("2006/1/2", year+"/"+month+"/"+day); err == nil {
			return t.Format(time.DateOnly)
		}
		return whole
	}
	text = yearFirst().ReplaceAllStringFunc(text, func(whole string) string {
		m := yearFirst().FindStringSubmatch(whole)
		return date(whole, m[1], m[2], m[3])
	})
	return yearLast().ReplaceAllStringFunc(text, func(whole string) string {
		m := yearLast().FindStringSubmatch(whole)
		first, _ := strconv.Atoi(m[1])
		second, _ := strconv.Atoi(m[3])
		switch {
		case first > 12:
			return date(whole, m[4], m[3], m[1])
		case second > 12 && m[2] == "/":
			return date(whole, m[4], m[1], m[3])
		}
		return whole
	})
}

// sameZone gives both ends of a span the zone of one of them, where the second is a clock alone: "22:00 to 06:00 UTC". The names of a
// zone's own hours, such as CEST, are of that end alone, since the other may be beyond the change of the clocks.
func sameZone(a, b string) (begin, end string) {
	first, second := words(a), words(b)
	if len(first) == 0 || len(second) == 0 {
		return a, b
	}
	zoneA, clockA := zoneAtEnd(first)
	zoneB, clockB := zoneAtEnd(second)
	if _, alone := clockOf(second[0]); !alone || !clockA || !clockB {
		return a, b
	}
	switch {
	case zoneA == "" && zoneB != "":
		a += " " + zoneB
	case zoneB == "" && zoneA != "":
		b += " " + zoneA
	}
	return a, b
}

// zoneAtEnd is the zone of a time that ends with a clock: hours from UTC, or UTC itself.
func zoneAtEnd(words []string) (zone string, endsWithClock bool) {
	last := words[len(words)-1]
	if len(words) > 1 && (last == "z" || last == "utc" || last == "gmt" || offset().MatchString(last)) {
		zone, last = last, words[len(words)-2]
	}
	_, endsWithClock = clockOf(last)
	return zone, endsWithClock
}

// monthNamed reads a month by its name: the newest that has begun, "last november", which is over, or "november 2026".
func monthNamed(fields []string, now time.Time) (Span, bool) {
	last := len(fields) == 2 && fields[0] == "last"
	if last {
		fields = fields[1:]
	}
	if len(fields) == 0 || len(fields) > 2 {
		return Span{}, false
	}
	month, ok := monthOf(fields[0])
	year := now.Year()
	switch {
	case !ok:
	case len(fields) == 2:
		var named time.Time
		var err error
		if named, err = time.Parse("2006", fields[1]); err != nil {
			return Span{}, false
		}
		year = named.Year()
	case month > now.Month() || last && month == now.Month():
		year--
	}
	return calendar(year, month, 0, 1, now), ok
}

// words are those of a text, in small letters: a day before its clock, and the clock before its zone. "last monday" is one, as is a
// date however it is written; "at", "on" and commas are none.
func words(text string) []string {
	fields := strings.Fields(strings.ToLower(strings.ReplaceAll(text, ", ", " ")))
	fields = slices.DeleteFunc(fields, func(w string) bool { return w == "at" || w == "on" })
	var out []string
	for i := 0; i < len(fields); i++ {
		word := fields[i]
		next := ""
		if i+1 < len(fields) {
			next = fields[i+1]
		}
		_, isDay := weekday(next)
		switch m := dateAndClock().FindStringSubmatch(word); {
		case word == "last" && isDay:
			out = append(out, "last "+next)
			i++
		case (next == "am" || next == "pm") && strings.Trim(word, "0123456789:") == "":
			out = append(out, word+next)
			i++
		case m != nil:
			out = append(out, m[1], m[2])
			if m[3] != "" {
				out = append(out, m[3])
			}
		case zoned().MatchString(word):
			out = append(out, zoned().FindStringSubmatch(word)[1:]...)
		default:
			if date, n := dateIn(fields[i:]); n > 0 {
				out = append(out, date)
				i += n - 1
				continue
			}
			out = append(out, word)
		}
	}
	if last := len(out) - 1; last > 1 && strings.HasPrefix(out[0], noYear) && aYear().MatchString(out[last]) { // as the program date writes it
		monthAndDay, name, named := strings.Cut(strings.TrimPrefix(out[0], noYear), " ")
		wanted, _ := weekday(name)
		if day, err := time.Parse(time.DateOnly, out[last]+"-"+monthAndDay); err == nil && (!named || day.Weekday() == wanted) {
			out = append([]string{day.Format(time.DateOnly)}, out[1:last]...)
		}
	}
	if len(out) > 1 { // "22:00 yesterday", "02:30 CEST 2026-10-25"
		n := 1
		if _, isClock := clockOf(out[0]); isClock {
			if n < len(out)-1 && isZone(out[n]) {
				n++
			}
			if isDayWord(out[n]) && len(out) == n+1 {
				out = append([]string{out[n]}, out[:n]...)
			}
		}
	}
	return out
}

func isDayWord(word string) bool {
	if _, ok := weekday(strings.TrimPrefix(word, "last ")); ok {
		return true
	}
	return word == "today" || word == "yesterday" || strings.HasPrefix(word, noYear) || len(word) == len(time.DateOnly) && word[4] == '-'
}

// noYear begins a date without a year: it is the newest such day.
const noYear = "--"

// dateIn reads a date at the beginning of words, and says how many of them it is: "25 nov 2026", "nov 25", "fri 2026-11-27". One with a
// year is written as 2006-01-02, and one without as --01-02; after a day of the week that is another one it is none.
func dateIn(fields []string) (date string, n int) {
	begin := 0
	wanted, named := weekday(fields[0])
	if named && len(fields) > 1 {
		begin = 1
	}
	rest := fields[begin:]
	day := time.Time{}
	switch t, err := time.Parse(time.DateOnly, rest[0]); {
	case err == nil && begin == 1:
		day, n = t, 1
	case len(rest) > 1:
		number, month := rest[0], rest[1]
		if _, isMonth := monthOf(number); isMonth {
			number, month = month, number
		}
		m := dayOfMonth().FindStringSubmatch(number)
		named, isMonth := monthOf(month)
		if m == nil || !isMonth {
			return "", 0
		}
		n = 2
		layout, text := "2006-January-2", "2000-"+named.String()+"-"+m[1]
		year := len(rest) > 2 && aYear().MatchString(rest[2])
		if year {
			n, text = 3, rest[2]+"-"+named.String()+"-"+m[1]
		}
		if day, err = time.Parse(layout, text); err != nil {
			return "", 0
		}
		if !year {
			date = noYear + day.Format("01-02")
			if begin == 1 {
				date += " " + fields[0]
			}
			return date, begin + n
		}
	}
	if n == 0 || begin == 1 && day.Weekday() != wanted {
		return "", 0
	}
	return day.Format(time.DateOnly), begin + n
}

// monthOf reads the name of a month, also in short.
func monthOf(word string) (time.Month, bool) {
	word = strings.TrimSuffix(word, ".")
	for m := time.January; m <= time.December; m++ {
		if len(word) >= 3 && strings.HasPrefix(strings.ToLower(m.String()), word) {
			return m, true
		}
	}
	return 0, false
}

// newestDate is the newest day of such a date without a year, maybe with the day of the week that it was.
func newestDate(word string, now time.Time) (time.Time, bool) {
	date, name, _ := strings.Cut(strings.TrimPrefix(word, noYear), " ")
	wanted, named := weekday(name)
	for year := now.Year(); year > now.Year()-8; year-- {
		t, err := time.Parse("2006-01-02", time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC).Format("2006")+"-"+date)
		if err != nil { // the 29th of February
			continue
		}
		day := clock{}.onDay(time.Date(t.Year(), t.Month(), t.Day(), 12, 0, 0, 0, now.Location()), 0)
		if !day.After(now) && (!named || day.Weekday() == wanted) {
			return day, true
		}
	}
	return time.Time{}, false
}

// A zoned clock is one that is meant in a zone; nil: in that of now.
type zonedClock struct {
	clock
	in *time.Location
}

// on is as of a clock, in the zone of t.
func (c zonedClock) onDay(t time.Time, days int) time.Time {
	if c.in == nil {
		return c.clock.onDay(t, days)
	}
	return c.clock.onDay(t.In(c.in), days).In(t.Location())
}

// clockIn reads a time of day, maybe with its zone: "22:00", "02:30 CEST", "22:00 UTC", "22:00 +02:00".
func clockIn(fields []string, near time.Time) (c zonedClock, ok bool) {
	if len(fields) == 0 || len(fields) > 2 {
		return c, false
	}
	if c.clock, ok = clockOf(fields[0]); ok && len(fields) == 2 {
		c.in, ok = zoneOf(fields[1], near)
	}
	return c, ok
}

// isZone reports whether a word may name hours from UTC.
func isZone(word string) bool {
	return offset().MatchString(word) || len(word) >= 1 && len(word) <= 5 && strings.Trim(word, "abcdefghijklmnopqrstuvwxyz") == "" && !isDayWord(word)
}

// zoneOf reads hours from UTC, UTC itself, or a short name that the clocks of the zone of a time have in the years around it, such as CEST
// in Berlin. Elsewhere such a name is not unique.
func zoneOf(word string, near time.Time) (*time.Location, bool) {
	if word == "z" || word == "utc" || word == "gmt" {
		return time.UTC, true
	}
	if m := offset().FindStringSubmatch(word); m != nil {
		signed := m[1] + m[2]
		hours, _ := strconv.Atoi(signed[1:])
		minutes, _ := strconv.Atoi(m[3])
		seconds := 3600*hours + 60*minutes
		if seconds > 15*3600 {
			return nil, false
		}
		if signed[0] == '-' {
			seconds = -seconds
		}
		return time.FixedZone("", seconds), true
	}
	offsets := map[int]bool{}
	later := near.AddDate(1, 0, 0)
	for range 8 {
		name, seconds := later.Zone()
		if strings.EqualFold(name, word) {
			offsets[seconds] = true
		}
		begins, _ := later.ZoneBounds()
		if begins.IsZero() {
			break
		}
		later = begins.Add(-time.Second)
	}
	for seconds := range offsets {
		return time.FixedZone(word, seconds), len(offsets) == 1
	}
	return nil, false
}
