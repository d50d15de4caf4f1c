package picture

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var noon = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

// A vertex is a corner of a path; runs of them are what a path draws.
type vertex struct{ x, y float64 }

var (
	runText    = regexp.MustCompile(`M[^M]+`)
	numberText = regexp.MustCompile(`-?\d+`)
)

// runsIn reads a path as browsers do.
func runsIn(t interface{ Fatalf(string, ...any) }, path string) (runs [][]vertex) {
	for _, text := range runText.FindAllString(path, -1) {
		var n []float64
		for _, digits := range numberText.FindAllString(text, -1) {
			v, err := strconv.ParseFloat(digits, 64)
			if err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			n = append(n, v)
		}
		if len(n)%2 != 0 || len(n) < 4 {
			t.Fatalf("%q has %d numbers", text, len(n))
		}
		r := []vertex{{n[0], n[1]}}
		for i := 2; i < len(n); i += 2 {
			last := r[len(r)-1]
			r = append(r, vertex{last.x + n[i], last.y + n[i+1]})
		}
		runs = append(runs, r)
	}
	return runs
}

// heightsAt are those that runs have at a place.
func heightsAt(runs [][]vertex, x float64) (out []float64) {
	for _, r := range runs {
		for i := range len(r) - 1 {
			a, b := r[i], r[i+1]
			if a.x <= x && x <= b.x && a.x < b.x || b.x <= x && x <= a.x && b.x < a.x {
				out = append(out, a.y+(b.y-a.y)*(x-a.x)/(b.x-a.x))
			}
		}
	}
	return out
}

// Every reading is drawn where it was, at its height; nothing is drawn in a gap.
func TestEveryReadingIsDrawnAndNoGap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 60).Draw(t, "points")
		nan := float32(math.NaN())
		least, mean, most := make([]float32, n), make([]float32, n), make([]float32, n)
		for i := range mean {
			least[i], mean[i], most[i] = nan, nan, nan
			if rapid.IntRange(0, 3).Draw(t, "gap") > 0 {
				v := rapid.SampledFrom([]float32{0, 1, 2, 99, 100, 412.4, 0.5}).Draw(t, "mean")
				least[i], mean[i], most[i] = v-1, v, v+float32(rapid.IntRange(0, 9).Draw(t, "most"))
			}
		}
		steps, scale := minutes(n, time.Minute), NewScale(0, 100, 0, 500, 1)
		path, band := steps.Line(mean, scale), steps.Between(least, most, scale)
		runs := runsIn(t, path)
		for i := range mean {
			place := float64(2*i) + 1
			heights := heightsAt(runs, place)
			drawn := strings.Contains(band, fmt.Sprintf("M%d ", 2*i)) || i > 0 && mean[i-1] == mean[i-1]
			if mean[i] != mean[i] {
				for _, x := range []float64{place - 0.9, place, place + 0.9} {
					if len(heightsAt(runs, x)) > 0 {
						t.Fatalf("point %d is a gap, and %q draws there", i, path)
					}
				}
				continue
			}
			if !drawn {
				t.Fatalf("point %d has no band: %q", i, band)
			}
			if want := math.Round(float64(mean[i])); len(heights) == 0 || math.Abs(heights[0]-want) > 1e-9 {
				t.Fatalf("point %d is at %v, want %v: %q", i, heights, want, path)
			}
			for _, x := range []float64{place - 0.9, place + 0.9} { // it stands for its whole step
				if len(heightsAt(runs, x)) == 0 {
					t.Fatalf("point %d is not drawn at %v: %q", i, x, path)
				}
			}
		}
	})
}

// The band of each step is as high as from the least to the most of it.
func TestTheBandOfAStep(t *testing.T) {
	nan := float32(math.NaN())
	got := minutes(4, time.Minute).Between([]float32{10, 20, nan, 5}, []float32{30, 20, nan, 9}, NewScale(0, 100, 0, 500, 1))
	if want := "M0 30v-20h2v20m0-10v0h2v0M6 9v-4h2v4"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// minutes are so many steps of that length over as many minutes, of which each is two units wide.
func minutes(n int, step time.Duration) Steps {
	a := Axis{From: noon, To: noon.Add(time.Duration(n) * time.Minute), Zero: noon, Unit: 30 * time.Second}
	return Steps{Axis: a, Begin: noon, Step: step, Middle: true, First: a.From, Last: a.To}
}

// What has longer steps than the picture is as wide as the time that it is about.
func TestALineOfLongerSteps(t *testing.T) {
	runs := runsIn(t, minutes(12, 3*time.Minute).Line([]float32{10, float32(math.NaN()), 20, 30, 40, 50}, NewScale(0, 100, 0, 100, 1)))
	for x, want := range map[float64]string{3: "[10]", 9: "[]", 14.9: "[20]", 23.9: "[30]", 27: "[]"} {
		if got := fmt.Sprint(heightsAt(runs, x)); got != want {
			t.Errorf("at %v it has %s, want %s", x, got, want)
		}
	}
}

func labels(ticks []Tick) string {
	var out []string
	for _, t := range ticks {
		out = append(out, t.Label)
	}
	return strings.Join(out, ", ")
}

// Round times are those that clocks show, also where they are set forward and back.
func TestTicks(t *testing.T) {
	zone := func(name string) *time.Location {
		z, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		return z
	}
	berlin := zone("Europe/Berlin")
	parsed := func(z *time.Location, text string) time.Time {
		when, err := time.ParseInLocation("2006-01-02 15:04", text, z)
		if err != nil {
			t.Fatal(err)
		}
		return when
	}
	spring, autumn := parsed(berlin, "2026-03-28 23:30"), parsed(berlin, "2026-10-24 23:30")
	for _, c := range []struct {
		begin  time.Time
		length time.Duration
		want   string
	}{
		{parsed(berlin, "2026-01-10 11:58"), 10 * time.Minute, "11:58, 12:00, 12:02, 12:04, 12:06, 12:08"},
		{spring, 6 * time.Hour, "Sun 29, 01:00, 03:00 CEST, 04:00, 05:00, 06:00"},
		{autumn, 6 * time.Hour, "Sun 25, 01:00, 02:00, 02:00 CET, 03:00, 04:00"},
		{spring, 24 * time.Hour, "Sun 29, 03:00 CEST, 06:00, 09:00, 12:00, 15:00, 18:00, 21:00, Mon 30"},
		{parsed(berlin, "2026-03-26 12:00"), 7 * 24 * time.Hour, "Fri 27, Sat 28, Sun 29, Mon 30, Tue 31, 1 Apr, Thu 2"},
		{parsed(zone("Asia/Kathmandu"), "2026-01-10 11:58"), 3 * time.Hour, "12:00, 12:30, 13:00, 13:30, 14:00, 14:30"},
		{parsed(berlin, "2025-07-10 11:58"), 365 * 24 * time.Hour, "Sep, Nov, 2026, Mar, May, Jul"},
	} {
		ticks := Ticks(c.begin, c.begin.Add(c.length))
		if got := labels(ticks); got != c.want {
			t.Errorf("%v from %v: %s, want %s", c.length, c.begin, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		from := spring.Add(time.Duration(rapid.Int64Range(-5e6, 5e7).Draw(t, "seconds")) * time.Second)
		to := from.Add(time.Duration(rapid.Int64Range(60, 6e7).Draw(t, "length")) * time.Second)
		ticks := Ticks(from, to)
		if len(ticks) > mostTicks+2 {
			t.Fatalf("%d ticks from %v to %v", len(ticks), from, to)
		}
		for i, k := range ticks {
			if k.Time.Before(from) || k.Time.After(to) || k.Time.Second() != 0 || i > 0 && !ticks[i-1].Time.Before(k.Time) {
				t.Fatalf("tick %d of %v to %v is %v", i, from, to, k.Time)
			}
		}
	})
}

// The style sheet of the pages is the one that the table makes.
func TestTheStylesheetIsMade(t *testing.T) {
	css, err := os.ReadFile("../../static/colors.css")
	if err != nil || string(css) != Stylesheet() {
		t.Errorf("static/colors.css is another one: run make generate; %v", err)
	}
}

// What is drawn in an image looks as it does on a page: its attributes are the properties there, with colors in place of tokens.
func TestAnImageLooksAsAPageDoes(t *testing.T) {
	for _, tt := range []struct{ kind, hue, name, want string }{
		{"band lead", "p2", "fill", Light.Mixed("p2", .36)}, {"band", "p2", "fill", Light.Mixed("p2", .2)}, {"part", "rest", "fill", Light.Mixed("ink-3", .26)},
		{"raised", "bad", "stroke", "#d62839"}, {"raised", "bad", "fill", "none"}, {"says", "warn", "fill", "#9a4700"}, {"wave more", "", "stroke-linecap", "round"},
		{"tick halo", "", "stroke", "#f6f6f3"}, {"hotline first", "", "opacity", "1"}, {"hotline first", "", "stroke-width", "1.1"}, {"shade", "others", "fill", "#64707d"},
	} {
		var got any
		for _, a := range Light.attributes(tt.kind, tt.hue) {
			if a.Key == tt.name {
				got = a.Value
			}
		}
		if got != tt.want {
			t.Errorf("the %s of %s %s is %v, want %s", tt.name, tt.kind, tt.hue, got, tt.want)
		}
	}
	if len(Dark.attributes("lanes", "")) > 0 {
		t.Error("what has no look has attributes")
	}
}
