package views

import (
	"math"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// The functions here have twins in static/format.js, which write the same text
// for the same value.

// A number is a reading rounded to two decimals, as on the wire.
type number struct {
	value   float64
	quality gpu.Quality
}

func (n number) ok() bool      { return n.quality >= gpu.Doubtful }
func (n number) trusted() bool { return n.quality > gpu.Doubtful }

// over reports whether n is present and above other; any number is above an absent one.
func (n number) over(other number) bool { return n.ok() && (!other.ok() || n.value > other.value) }

type measured interface {
	~float64 | ~int
}

func num[T measured](r gpu.Reading[T]) number {
	return newNumber(float64(r.Or(0)), r.Quality())
}

// text writes the number; empty if there is none.
func (n number) text(format func(float64) string) string {
	if !n.ok() {
		return ""
	}
	return format(n.value)
}

// say writes the number within words; empty if there is none.
func (n number) say(words func(string) string, format func(float64) string) string {
	return n.text(func(v float64) string { return words(format(v)) })
}

// mebi is a reading of memory in MiB.
func mebi(r gpu.Reading[gpu.Bytes]) number {
	return newNumber(r.Or(0).MiB(), r.Quality())
}

func newNumber(v float64, q gpu.Quality) number {
	if q < gpu.Doubtful {
		return number{quality: q}
	}
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return number{quality: gpu.NotReported}
	}
	return number{math.Round(v*100) / 100, q}
}

// nbsp keeps a number and its unit on one line.
const nbsp = "\u00a0"

// whole rounds half to even, as fmt's %.0f does in the headline.
func whole(v float64) string { return decimals(v, 0) }

func tenth(v float64) string     { return decimals(v, 1) }
func hundredth(v float64) string { return decimals(v, 2) }

func decimals(v float64, n int) string {
	scale := math.Pow10(n)
	r := math.RoundToEven(v*scale) / scale
	if r == 0 {
		r = 0 // not -0
	}
	return strconv.FormatFloat(r, 'f', n, 64)
}

// exact writes a number with all its decimals.
func exact(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

func percent(v float64) string   { return whole(v) + nbsp + "%" }
func celsius(v float64) string   { return whole(v) + nbsp + "°C" }
func rpm(v float64) string       { return whole(v) + nbsp + "RPM" }
func megahertz(v float64) string { return whole(v) + nbsp + "MHz" }
func fps(v float64) string       { return whole(v) + nbsp + "fps" }

// delay writes microseconds in milliseconds.
func delay(v float64) string { return tenth(v/1000) + nbsp + "ms" }

// A unit is used for values below its limit.
type unit struct {
	limit, size float64
	decimals    int
	name        string
}

var (
	wattUnits   = []unit{{10_000, 1, 0, "W"}, {math.Inf(1), 1000, 1, "kW"}}
	energyUnits = []unit{{1000, 1, 0, "Wh"}, {math.Inf(1), 1000, 1, "kWh"}}
	memoryUnits = []unit{{1 << 10, 1, 0, "MiB"}, {1 << 20, 1 << 10, 1, "GiB"}, {math.Inf(1), 1 << 20, 1, "TiB"}}
	rateUnits   = []unit{{1e3, 1, 0, "B/s"}, {1e6, 1e3, 0, "kB/s"}, {1e9, 1e6, 1, "MB/s"}, {math.Inf(1), 1e9, 1, "GB/s"}}
)

// unitFor returns the first unit for a value.
func unitFor(units []unit, v float64) *unit {
	i := 0
	for i < len(units)-1 && !(v < units[i].limit) {
		i++
	}
	return &units[i]
}

// inUnit writes a value in the first unit for it.
func inUnit(units []unit, v float64) string {
	u := unitFor(units, v)
	return decimals(v/u.size, u.decimals) + nbsp + u.name
}

// watts writes the power of many devices in kilowatts.
func watts(v float64) string { return inUnit(wattUnits, v) }

// energy writes joules as watt hours, the unit in which electricity is sold.
func energy(joules float64) string { return inUnit(energyUnits, joules/3600) }

// memory writes MiB in the unit that keeps the text short.
func memory(mib float64) string { return inUnit(memoryUnits, mib) }

// rate writes bytes per second in decimal units, as networks and disks are sold.
func rate(v float64) string { return inUnit(rateUnits, v) }

// span writes a duration in its two largest units.
func span(seconds float64) string {
	s := int64(max(0, math.Floor(seconds)))
	amount := func(v int64, unit string) string { return strconv.FormatInt(v, 10) + nbsp + unit }
	switch {
	case s < 60:
		return amount(s, "s")
	case s < 3600:
		return amount(s/60, "min")
	case s < 86400:
		return amount(s/3600, "h") + " " + amount(s/60%60, "min")
	default:
		return amount(s/86400, "d") + " " + amount(s/3600%24, "h")
	}
}

// lastsFor writes how long something has lasted, in the words of the answer: a duration reads the same everywhere.
func lastsFor(from, to time.Time) string { return sentence(explain.Span(to.Sub(from))) }

// between writes the time between two moments in whole milliseconds, as a browser counts them.
func between(from, to time.Time) string {
	return span(float64(to.UnixMilli()-from.UnixMilli()) / 1000)
}

// width returns how much of a bar is filled, 0 to 100 with one decimal.
func width(v float64) string {
	return exact(math.Floor(min(max(v, 0), 100)*10+0.5) / 10)
}

// The longest texts from devices and processes that are shown, in characters.
const (
	longestName     = 80
	longestCommand  = 200
	longestSentence = 600
)

// clean cuts a reported text to limit characters, and replaces characters that control a terminal
// or the writing direction with a visible mark.
func clean(text string, limit int) string {
	n := 0
	for i := range text {
		if n++; n > limit {
			text = text[:i] + "…"
			break
		}
	}
	return strings.Map(func(r rune) rune {
		if steers(r) {
			return '\uFFFD'
		}
		return r
	}, text)
}

func steers(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }

// devicePath returns the path of a device's page below the base path.
func devicePath(uuid string) string {
	return "gpu/" + url.PathEscape(uuid)
}

var (
	beforeUnit  = regexp.MustCompile(`(\d) (%|°C|(?:k?Wh?|RPM|MHz|[KMGT]iB|[kMG]?B/s|s|min|h|d)\b)`)
	beforeCount = regexp.MustCompile(`\b(GPU|pid) (\d)`)
)

// sentence cleans a text, and keeps numbers on one line with their units and the word before them.
func sentence(text string) string {
	return beforeCount.ReplaceAllString(beforeUnit.ReplaceAllString(clean(text, longestSentence), "$1"+nbsp+"$2"), "$1"+nbsp+"$2")
}

// list joins words as in a sentence: "a, b and c".
func list(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return andText(strings.Join(words[:last], ", "), words[last])
}

func either(is bool, yes, no string) string {
	if is {
		return yes
	}
	return no
}

// dots joins the parts that are not empty.
func dots(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " · ")
}
