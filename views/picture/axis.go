// Package picture draws what happened over a span of time: readings as lanes, work as bands, alerts as flags. All pictures of gpuwhy are
// made of its fields: the live picture, charts, cards, the past and the shared image.
//
// Paths have their own coordinates: x counts units of time from a fixed moment, y steps of the reading. A live picture only grows at the end
// of its paths, so its patches are short. The scalable part is a nested image with the texts around it, so resizing the window redraws
// nothing. The script static/picture.js reads the values at the cursor from the paths.
//
// One table (palette.go) defines how everything looks. The style sheet of the pages and the attributes of the shared image are made from it.
//
// To add a quantity, add a lane. To draw something new, add a row to the table of looks and its element to Draw. A page may mark a picture
// with data-spans: there a drag chooses a span, and a click a time.
package picture

import (
	"math"
	"strconv"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/when"
)

// An Axis is the time of a picture, from left to right.
type Axis struct {
	From, To time.Time
	Zero     time.Time     // where x is 0
	Unit     time.Duration // time per unit of x
}

// X returns the x coordinate of a moment in whole units. It may lie outside the picture.
func (a Axis) X(t time.Time) int { return int(t.Sub(a.Zero) / a.Unit) }

// Width returns the width of the picture, in units of x.
func (a Axis) Width() int { return int(a.To.Sub(a.From) / a.Unit) }

// Share returns the position of a moment: 0 at the left edge, 1 at the right edge.
func (a Axis) Share(t time.Time) float64 {
	return float64(t.Sub(a.From)) / float64(a.To.Sub(a.From))
}

// Percent returns the position of a moment in percent of the width, clamped to the picture.
func (a Axis) Percent(t time.Time) string { return Percent(min(max(a.Share(t), 0), 1)) }

// Percent writes a share of 1 in percent, with two decimals.
func Percent(share float64) string { return strconv.FormatFloat(100*share, 'f', 2, 64) + "%" }

// exact writes a number with all its decimals.
func exact(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// A Tick is a round time in a time zone.
type Tick struct {
	Time  time.Time
	Label string
	Minor bool // its name is left out on a narrow picture
}

// mostTicks limits the ticks of a picture.
const mostTicks = 9

// tickMinutes are the distances between ticks below a day, in minutes.
var tickMinutes = []int{1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720}

// tickDays are the longer distances in days; from 30 on they stand for months.
var tickDays = []int{1, 2, 7, 14, 30, 61, 91, 182, 365}

// Ticks returns round times between two times in their zone. When clocks go back, an hour appears twice; when they go
// forward, one is missing.
func Ticks(from, to time.Time) []Tick {
	length := to.Sub(from)
	for _, minutes := range tickMinutes {
		if length <= mostTicks*time.Duration(minutes)*time.Minute {
			return clockTicks(from, to, minutes)
		}
	}
	for _, days := range tickDays {
		if length <= mostTicks*time.Duration(days)*24*time.Hour {
			return dayTicks(from, to, days)
		}
	}
	return dayTicks(from, to, 365*int(1+length/(mostTicks*365*24*time.Hour)))
}

func clockTicks(from, to time.Time, minutes int) (out []Tick) {
	// UTC offsets are multiples of a quarter of an hour.
	unit := time.Duration(min(minutes, 15)) * time.Minute
	if 15%min(minutes, 15) != 0 {
		unit = time.Minute
	}
	for t := from.Truncate(unit); !t.After(to); t = t.Add(unit) {
		clock := t.Hour()*60 + t.Minute()
		near := len(out) > 0 && t.Sub(out[len(out)-1].Time) <= time.Duration(minutes)*time.Minute/2
		if t.Before(from) || clock%minutes != 0 || near {
			continue
		}
		label := t.Format("15:04")
		name, offset := t.Zone()
		if _, before := t.Add(-time.Duration(max(minutes, 60)) * time.Minute).Zone(); len(out) > 0 && before != offset {
			label += " " + name
		} else if clock == 0 {
			label = t.Format("Mon 2")
		}
		out = append(out, Tick{t, label, clock/minutes%2 != 0}) // by the clock, so it doesn't change while the picture moves
	}
	return out
}

// dayTicks returns the starts of days, weeks or months.
func dayTicks(from, to time.Time, days int) (out []Tick) {
	months := days / 30
	for n := 0; ; n++ {
		t, label := when.Day(from, n), "Mon 2"
		round := days < 3 && (t.YearDay()%days == 0) || days >= 7 && t.Weekday() == time.Monday && (days == 7 || t.YearDay()/7%2 == 0)
		if months > 0 {
			t, label = when.Month(from, n), "Jan"
			round = (int(t.Month())-1)%min(months, 12) == 0 && (months < 12 || t.Year()%(months/12) == 0)
			if t.Month() == time.January {
				label = "2006"
			}
		} else if days >= 7 || t.Day() == 1 {
			label = "2 Jan"
		}
		if t.After(to) {
			return out
		}
		if round && !t.Before(from) {
			out = append(out, Tick{t, t.Format(label), len(out)%2 != 0})
		}
	}
}

// A Scale maps values to heights of a field.
type Scale struct {
	top, bottom float64 // its edges, in units of the field's height
	low, high   float64 // values at the bottom and the top
	step        float64 // step of a path, in units of the reading
}

// NewScale returns the scale of a lane between two heights. Step is the resolution of its paths, in units of the reading.
func NewScale(top, bottom, low, high, step float64) Scale {
	if !(high > low) {
		high = low + 1
	}
	return Scale{top, bottom, low, high, step}
}

// Resolution returns a step for paths with values up to high: at most a hundredth of it.
func Resolution(high float64) float64 {
	return math.Pow10(int(math.Floor(math.Log10(max(high, 1e-6) / 100))))
}

// Round returns a round number not below v.
func Round(v float64) float64 {
	if v <= 0 {
		return 1
	}
	p := math.Pow10(int(math.Floor(math.Log10(v))))
	for _, f := range []float64{1, 1.5, 2, 3, 4, 5, 6, 8, 10} {
		if f*p >= v*.9999 {
			return f * p
		}
	}
	return 10 * p
}

func (s Scale) perUnit() float64 { return (s.bottom - s.top) / (s.high - s.low) }

// High returns the value at the upper edge.
func (s Scale) High() float64 { return s.high }

// Step returns the step of a path, in units of the reading.
func (s Scale) Step() float64 { return s.step }

// Y returns the height of a value, in units of the field's height from the top.
func (s Scale) Y(v float64) float64 { return s.bottom - (v-s.low)*s.perUnit() }

// transform maps the steps of a path into the field.
func (s Scale) transform() string {
	brief := func(v float64) string { return exact(math.Round(v*1e4) / 1e4) }
	return "matrix(1 0 0 " + brief(-s.perUnit()*s.step) + " 0 " + brief(s.bottom+s.low*s.perUnit()) + ")"
}

func (s Scale) steps(v float64) int { return int(math.Round(v / s.step)) }
