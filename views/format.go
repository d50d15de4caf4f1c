package views

import (
	"math"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// The functions here have twins in static/format.js that write the same text
// for the same value.

// A number is a reading whose unit is known by who asks for it, rounded to two
// decimals as it is on the wire.
type number struct {
	value   float64
	quality gpu.Quality
}

func (n number) ok() bool      { return n.quality >= gpu.Doubtful }
func (n number) trusted() bool { return n.quality > gpu.Doubtful }

type measured interface {
	~float64 | ~int
}

func num[T measured](r gpu.Reading[T]) number {
	return newNumber(float64(r.Or(0)), r.Quality())
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

// whole rounds half to even, as fmt's %.0f does in the sentence above the
// cards.
func whole(v float64) string { return decimals(v, 0) }

// tenth keeps one decimal.
func tenth(v float64) string { return decimals(v, 1) }

// hundredth keeps two.
func hundredth(v float64) string { return decimals(v, 2) }

func decimals(v float64, n int) string {
	scale := math.Pow10(n)
	r := math.RoundToEven(v*scale) / scale
	if r == 0 {
		r = 0 // not -0
	}
	return strconv.FormatFloat(r, 'f', n, 64)
}

func percent(v float64) string   { return whole(v) + nbsp + "%" }
func celsius(v float64) string   { return whole(v) + nbsp + "°C" }
func rpm(v float64) string       { return whole(v) + nbsp + "RPM" }
func megahertz(v float64) string { return whole(v) + nbsp + "MHz" }
func fps(v float64) string       { return whole(v) + nbsp + "fps" }

// delay writes microseconds as people know them.
func delay(v float64) string { return tenth(v/1000) + nbsp + "ms" }

// watts writes what many devices draw in kilowatts.
func watts(v float64) string {
	if v < 10_000 {
		return whole(v) + nbsp + "W"
	}
	return tenth(v/1000) + nbsp + "kW"
}

// energy writes joules as people pay for them.
func energy(joules float64) string {
	if wh := joules / 3600; wh < 1000 {
		return whole(wh) + nbsp + "Wh"
	}
	return tenth(joules/3600/1000) + nbsp + "kWh"
}

// memory writes MiB in the unit that keeps it short.
func memory(mib float64) string {
	switch {
	case mib < 1024:
		return whole(mib) + nbsp + "MiB"
	case mib < 1024*1024:
		return tenth(mib/1024) + nbsp + "GiB"
	default:
		return tenth(mib/1024/1024) + nbsp + "TiB"
	}
}

// rate writes bytes a second, in thousands as networks and disks are sold.
func rate(v float64) string {
	switch {
	case v < 1e3:
		return whole(v) + nbsp + "B/s"
	case v < 1e6:
		return whole(v/1e3) + nbsp + "kB/s"
	case v < 1e9:
		return tenth(v/1e6) + nbsp + "MB/s"
	default:
		return tenth(v/1e9) + nbsp + "GB/s"
	}
}

// span writes how long something takes, in its two largest units.
func span(seconds float64) string {
	s := int64(max(0, math.Floor(seconds)))
	unit := func(v int64, name string) string { return strconv.FormatInt(v, 10) + nbsp + name }
	switch {
	case s < 60:
		return unit(s, "s")
	case s < 3600:
		return unit(s/60, "min")
	case s < 86400:
		return unit(s/3600, "h") + " " + unit(s/60%60, "min")
	default:
		return unit(s/86400, "d") + " " + unit(s/3600%24, "h")
	}
}

// between is the span from one moment to a later one, in whole milliseconds
// as a browser counts them.
func between(from, to time.Time) string {
	return span(float64(to.UnixMilli()-from.UnixMilli()) / 1000)
}

// width is how much of a bar is filled, 0 to 100 with one decimal.
func width(v float64) string {
	return strconv.FormatFloat(math.Floor(min(max(v, 0), 100)*10+0.5)/10, 'f', -1, 64)
}

// The longest texts that are shown of what devices and processes report.
const (
	longestName     = 80
	longestCommand  = 200
	longestSentence = 600
)

// clean makes reported text fit to be shown: at most limit characters, and in
// place of those that steer a terminal or the direction of writing a mark that
// can be seen.
func clean(text string, limit int) string {
	var b strings.Builder
	n := 0
	for _, r := range text {
		if n == limit {
			b.WriteRune('…')
			break
		}
		if steers(r) {
			r = '\uFFFD'
		}
		b.WriteRune(r)
		n++
	}
	return b.String()
}

func steers(r rune) bool {
	return r < 0x20 || r >= 0x7f && r < 0xa0 ||
		r == 0x061c || r == 0x200e || r == 0x200f ||
		r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// devicePath is where a device's page is, below the base path.
func devicePath(uuid string) string {
	return "gpu/" + url.PathEscape(uuid)
}

var (
	beforeUnit  = regexp.MustCompile(`(\d) (%|°C|(?:k?Wh?|RPM|MHz|[KMGT]iB|[kMG]?B/s|s|min|h|d)\b)`)
	beforeCount = regexp.MustCompile(`\b(GPU|pid) (\d)`)
)

// sentence is a sentence of gpuwhy's own, not too long, whose numbers stay on a
// line with their units and with what they number.
func sentence(text string) string {
	return beforeCount.ReplaceAllString(beforeUnit.ReplaceAllString(clean(text, longestSentence), "$1"+nbsp+"$2"), "$1"+nbsp+"$2")
}

// list joins words as a sentence does: "a, b and c".
func list(words []string) string {
	switch n := len(words); n {
	case 0:
		return ""
	case 1:
		return words[0]
	default:
		return say("and", strings.Join(words[:n-1], ", "), words[n-1])
	}
}
