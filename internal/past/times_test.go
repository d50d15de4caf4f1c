package past

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The parts of a span follow one another, and between them lie whole hours, days or months of the zone: also where its clocks
// jump over midnight.
func TestTimesOfASpan(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		zone, err := time.LoadLocation(rapid.SampledFrom([]string{
			"UTC", "Europe/Berlin", "America/Santiago", "America/Havana", "Asia/Kolkata", "Australia/Lord_Howe", "Africa/Cairo", "Pacific/Apia",
		}).Draw(t, "zone"))
		if err != nil {
			t.Fatal(err)
		}
		from := time.Unix(rapid.Int64Range(1_262_304_000, 2_208_988_800).Draw(t, "from"), 0).In(zone)
		if _, ends := from.ZoneBounds(); !ends.IsZero() && rapid.Bool().Draw(t, "near a change") {
			from = ends.Add(-time.Duration(rapid.IntRange(0, 72*60).Draw(t, "minutes")) * time.Minute)
		}
		hours := rapid.SampledFrom([]int{1, 49, 51, 24 * 7, 24 * 69, 24 * 71, 24 * 366}).Draw(t, "hours")
		to := from.Add(time.Duration(hours)*time.Hour + time.Duration(rapid.IntRange(0, 3599).Draw(t, "seconds"))*time.Second)
		times := timesOf(from, to)
		if len(times) > 90 || !times[0].Equal(from) || !times[len(times)-1].Equal(to) {
			t.Fatalf("%d parts from %v to %v", len(times), times[0], times[len(times)-1])
		}
		for i, when := range times[1:] {
			last := i == len(times)-2
			if !times[i].Before(when) {
				t.Fatalf("%v follows %v", when, times[i])
			}
			y, m, d := when.Add(-time.Nanosecond).Date()
			switch year, month, day := when.Date(); {
			case last:
			case hours < 50 && when.Minute() != 0, hours > 50 && y == year && m == month && d == day, hours > 70*24 && y == year && m == month:
				t.Fatalf("a part begins at %v, of %v from %v", when, to.Sub(from), from)
			}
		}
	})
}
