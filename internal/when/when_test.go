package when

import (
	"strings"
	"testing"
	"time"
	_ "time/tzdata"
)

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	l, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

const written = "Mon 2006-01-02 15:04:05 -0700"

func TestTimes(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 18, 10, 20, 30, 0, zone(t, "Europe/Berlin")) // a Wednesday
	for text, want := range map[string]string{
		"now":                       "Wed 2026-03-18 10:20:30 +0100",
		"-6h":                       "Wed 2026-03-18 04:20:30 +0100",
		"6h ago":                    "Wed 2026-03-18 04:20:30 +0100",
		"90 minutes ago":            "Wed 2026-03-18 08:50:30 +0100",
		"-1h30m":                    "Wed 2026-03-18 08:50:30 +0100",
		"-1d":                       "Tue 2026-03-17 10:20:30 +0100",
		"-2w":                       "Wed 2026-03-04 10:20:30 +0100",
		"yesterday 22:00":           "Tue 2026-03-17 22:00:00 +0100",
		"Yesterday  22:00:07":       "Tue 2026-03-17 22:00:07 +0100",
		"yesterday 10pm":            "Tue 2026-03-17 22:00:00 +0100",
		"yesterday":                 "Tue 2026-03-17 00:00:00 +0100",
		"today 7:05":                "Wed 2026-03-18 07:05:00 +0100",
		"9:00":                      "Wed 2026-03-18 09:00:00 +0100",
		"14:30":                     "Tue 2026-03-17 14:30:00 +0100",
		"6h":                        "Wed 2026-03-18 04:20:30 +0100",
		"10 minutes":                "Wed 2026-03-18 10:10:30 +0100",
		"midnight":                  "Wed 2026-03-18 00:00:00 +0100",
		"yesterday midnight":        "Tue 2026-03-17 00:00:00 +0100",
		"last monday":               "Mon 2026-03-16 00:00:00 +0100",
		"Last  Wednesday 9:00":      "Wed 2026-03-11 09:00:00 +0100",
		"last thu":                  "Thu 2026-03-12 00:00:00 +0100",
		"monday":                    "Mon 2026-03-16 00:00:00 +0100",
		"thu 8:00":                  "Thu 2026-03-12 08:00:00 +0100",
		"wednesday":                 "Wed 2026-03-18 00:00:00 +0100",
		"yesterday noon":            "Tue 2026-03-17 12:00:00 +0100",
		"yesterday 24:00":           "Wed 2026-03-18 00:00:00 +0100",
		"24:00":                     "Wed 2026-03-18 00:00:00 +0100",
		"-2y":                       "Mon 2024-03-18 10:20:30 +0100",
		"2026-03-14":                "Sat 2026-03-14 00:00:00 +0100",
		"2026-03-14 02:30":          "Sat 2026-03-14 02:30:00 +0100",
		"2026-03-14T02:30:00Z":      "Sat 2026-03-14 03:30:00 +0100",
		"2026-03-14T02:30:00-05:00": "Sat 2026-03-14 08:30:00 +0100",
	} {
		if got, err := Time(text, now); err != nil || got.Format(written) != want {
			t.Errorf("%s is %s, want %s; %v", text, got.Format(written), want, err)
		}
	}
	for _, text := range []string{
		"", "soon", "-", "-6", "-6x", "25:00", "yesterday 22", "noon noon", "25:00", "-400y", "2026-02-30", "mo", "--6h", "last", "last mo", "-99999999999h",
		"-99999999999999999999d", "1 2 3 4",
	} {
		if got, err := Time(text, now); err == nil || !strings.Contains(err.Error(), "write it like") {
			t.Errorf("%q is %v, %v", text, got, err)
		}
	}
}

func TestSpans(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 18, 10, 20, 30, 0, zone(t, "Europe/Berlin"))
	for text, want := range map[string]string{
		"last night":               "Tue 2026-03-17 22:00:00 +0100, Wed 2026-03-18 06:00:00 +0100",
		"yesterday":                "Tue 2026-03-17 00:00:00 +0100, Wed 2026-03-18 00:00:00 +0100",
		"today":                    "Wed 2026-03-18 00:00:00 +0100, Wed 2026-03-18 10:20:30 +0100",
		"monday":                   "Mon 2026-03-16 00:00:00 +0100, Tue 2026-03-17 00:00:00 +0100",
		"since monday":             "Mon 2026-03-16 00:00:00 +0100, Wed 2026-03-18 10:20:30 +0100",
		"this week":                "Mon 2026-03-16 00:00:00 +0100, Wed 2026-03-18 10:20:30 +0100",
		"last week":                "Mon 2026-03-09 00:00:00 +0100, Mon 2026-03-16 00:00:00 +0100",
		"this month":               "Sun 2026-03-01 00:00:00 +0100, Wed 2026-03-18 10:20:30 +0100",
		"last month":               "Sun 2026-02-01 00:00:00 +0100, Sun 2026-03-01 00:00:00 +0100",
		"last year":                "Wed 2025-01-01 00:00:00 +0100, Thu 2026-01-01 00:00:00 +0100",
		"2026-02":                  "Sun 2026-02-01 00:00:00 +0100, Sun 2026-03-01 00:00:00 +0100",
		"2025":                     "Wed 2025-01-01 00:00:00 +0100, Thu 2026-01-01 00:00:00 +0100",
		"2026-03-14":               "Sat 2026-03-14 00:00:00 +0100, Sun 2026-03-15 00:00:00 +0100",
		"last 6 hours":             "Wed 2026-03-18 04:20:30 +0100, Wed 2026-03-18 10:20:30 +0100",
		"6h":                       "Wed 2026-03-18 04:20:30 +0100, Wed 2026-03-18 10:20:30 +0100",
		"-6h":                      "Wed 2026-03-18 04:20:30 +0100, Wed 2026-03-18 10:20:30 +0100",
		"yesterday 22:00":          "Tue 2026-03-17 22:00:00 +0100, Wed 2026-03-18 10:20:30 +0100",
		"yesterday 22:00 to 06:00": "Tue 2026-03-17 22:00:00 +0100, Wed 2026-03-18 06:00:00 +0100",
		"monday 9:00 to yesterday": "Mon 2026-03-16 09:00:00 +0100, Wed 2026-03-18 00:00:00 +0100",
		"Saturday to sunday":       "Sat 2026-03-14 00:00:00 +0100, Mon 2026-03-16 00:00:00 +0100",
		"2026-01..2026-02":         "Thu 2026-01-01 00:00:00 +0100, Sun 2026-03-01 00:00:00 +0100",
		"yesterday..today":         "Tue 2026-03-17 00:00:00 +0100, Wed 2026-03-18 10:20:30 +0100",
		"last monday":              "Mon 2026-03-16 00:00:00 +0100, Tue 2026-03-17 00:00:00 +0100",
		"last wednesday":           "Wed 2026-03-11 00:00:00 +0100, Thu 2026-03-12 00:00:00 +0100",
		"since last friday":        "Fri 2026-03-13 00:00:00 +0100, Wed 2026-03-18 10:20:30 +0100",
		"last friday 9:00 to noon": "Fri 2026-03-13 09:00:00 +0100, Fri 2026-03-13 12:00:00 +0100",
		"yesterday afternoon":      "Tue 2026-03-17 12:00:00 +0100, Tue 2026-03-17 18:00:00 +0100",
		"monday evening":           "Mon 2026-03-16 18:00:00 +0100, Mon 2026-03-16 22:00:00 +0100",
		"last monday night":        "Mon 2026-03-16 22:00:00 +0100, Tue 2026-03-17 06:00:00 +0100",
		"2026-03-14 morning":       "Sat 2026-03-14 06:00:00 +0100, Sat 2026-03-14 12:00:00 +0100",
		"22:00-06:00":              "Tue 2026-03-17 22:00:00 +0100, Wed 2026-03-18 06:00:00 +0100",
		"9:00–10:00":               "Wed 2026-03-18 09:00:00 +0100, Wed 2026-03-18 10:00:00 +0100",
		"yesterday 2pm-4:30PM":     "Tue 2026-03-17 14:00:00 +0100, Tue 2026-03-17 16:30:00 +0100",
		"monday 22:00-midnight":    "Mon 2026-03-16 22:00:00 +0100, Tue 2026-03-17 00:00:00 +0100",
		"since midnight":           "Wed 2026-03-18 00:00:00 +0100, Wed 2026-03-18 10:20:30 +0100",
		"yesterday..now":           "Tue 2026-03-17 00:00:00 +0100, Wed 2026-03-18 10:20:30 +0100",
		"5m..1m":                   "Wed 2026-03-18 10:15:30 +0100, Wed 2026-03-18 10:19:30 +0100",
		"6h to 2 hours":            "Wed 2026-03-18 04:20:30 +0100, Wed 2026-03-18 08:20:30 +0100",
		"-6h..2h ago":              "Wed 2026-03-18 04:20:30 +0100, Wed 2026-03-18 08:20:30 +0100",
		"yesterday 22:00 to 24:00": "Tue 2026-03-17 22:00:00 +0100, Wed 2026-03-18 00:00:00 +0100",
		"1y":                       "Tue 2025-03-18 10:20:30 +0100, Wed 2026-03-18 10:20:30 +0100",
		"10 minutes":               "Wed 2026-03-18 10:10:30 +0100, Wed 2026-03-18 10:20:30 +0100",
		"last hour":                "Wed 2026-03-18 09:20:30 +0100, Wed 2026-03-18 10:20:30 +0100",
		"this morning":             "Wed 2026-03-18 06:00:00 +0100, Wed 2026-03-18 10:20:30 +0100",
		"-6h..-2h":                 "Wed 2026-03-18 04:20:30 +0100, Wed 2026-03-18 08:20:30 +0100",
		"2026-03-14T00:00:00Z/2026-03-14T01:00:00Z": "Sat 2026-03-14 01:00:00 +0100, Sat 2026-03-14 02:00:00 +0100",
	} {
		if s, err := Parse(text, now); err != nil || s.From.Format(written)+", "+s.To.Format(written) != want {
			t.Errorf("%s is %s, %s, want %s; %v", text, s.From.Format(written), s.To.Format(written), want, err)
		}
	}
	for text, want := range map[string]string{
		"tomorrow":             "is not a span of time",
		"since moon":           `"moon" is not a span of time`,
		"2026-03-20":           "is in the future",
		"this afternoon":       `"this afternoon" is in the future`,
		"this night":           "is not a span of time",
		"last afternoon":       "is not a span of time",
		"now":                  `"now" begins only now: give an earlier time`,
		"now to 6h":            `"now" begins only now`,
		"0h":                   `"0h" begins only now`,
		"-2h..-6h":             "ends before it begins",
		"yesterday to nothing": "is not a time",
		"11/12/2026":           `"11/12/2026" could mean several dates: write it like "2026-03-14"`,
		"11.12.2026 22:00":     "could mean several dates",
		"last":                 "is not a span of time",
		"last moon":            "is not a span of time",

		"2026-05-20T00:00:00Z..2026-05-21T00:00:00Z": `"2026-05-20T00:00:00Z" is in the future: give a time in the past`,
		"1m..5m":                          `"1m..5m" ends before it begins: give the earlier time first`,
		"2026-03-14T00:00:00 01:00":       `is not a span of time: write the + as %2B in an address`,
		"2d to 2026-03-18T00:00:00 01:00": `is not a time: write the + as %2B in an address`,
		"":                                "is not a span of time",
	} {
		if s, err := Parse(text, now); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is %v, %v", text, s, err)
		}
	}
	if s, err := Parse("this afternoon", now.Add(5*time.Hour)); err != nil || s.From.Hour() != 12 || s.To.Hour() != 15 {
		t.Errorf("this afternoon, while it lasts, is %v; %v", s, err)
	}
	inTheNight := time.Date(2026, 3, 18, 3, 0, 0, 0, now.Location())
	if s, err := Parse("last night", inTheNight); err != nil || s.From.Hour() != 22 || !s.To.Equal(inTheNight) {
		t.Errorf("last night, while it lasts, is %v; %v", s, err)
	}
}

// Days and clocks are right where the clocks change.
func TestClocksChange(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		zone, now, text, want string
	}{
		"spring day":               {"Europe/Berlin", "2026-03-30T09:00:00+02:00", "yesterday", "23h0m0s from Sun 2026-03-29 00:00:00 +0100"},
		"autumn day":               {"Europe/Berlin", "2026-10-26T09:00:00+01:00", "yesterday", "25h0m0s from Sun 2026-10-25 00:00:00 +0200"},
		"autumn night":             {"Europe/Berlin", "2026-10-25T09:00:00+01:00", "last night", "9h0m0s from Sat 2026-10-24 22:00:00 +0200"},
		"a clock that is left out": {"Europe/Berlin", "2026-03-29T09:00:00+02:00", "2:30 to 4:00", "1h0m0s from Sun 2026-03-29 03:00:00 +0200"},
		"a clock that comes twice": {"Europe/Berlin", "2026-10-25T09:00:00+01:00", "2:30 to 3:00", "1h30m0s from Sun 2026-10-25 02:30:00 +0200"},
		"America":                  {"America/New_York", "2026-11-01T12:00:00-05:00", "1:30 to 2:00", "1h30m0s from Sun 2026-11-01 01:30:00 -0400"},
		"half an hour":             {"Australia/Lord_Howe", "2026-04-05T12:00:00+10:30", "today", "12h30m0s from Sun 2026-04-05 00:00:00 +1100"},
		"a day without midnight":   {"America/Santiago", "2026-09-06T12:00:00-03:00", "today", "11h0m0s from Sun 2026-09-06 01:00:00 -0300"},
		"a day ago":                {"Europe/Berlin", "2026-03-29T12:00:00+02:00", "-1d", "23h0m0s from Sat 2026-03-28 12:00:00 +0100"},
		"24 hours ago":             {"Europe/Berlin", "2026-03-29T12:00:00+02:00", "-24h", "24h0m0s from Sat 2026-03-28 11:00:00 +0100"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now, err := time.Parse(time.RFC3339, tt.now)
			if err != nil {
				t.Fatal(err)
			}
			s, err := Parse(tt.text, now.In(zone(t, tt.zone)))
			if got := s.To.Sub(s.From).String() + " from " + s.From.Format(written); err != nil || got != tt.want {
				t.Errorf("it is %s, want %s; %v", got, tt.want, err)
			}
		})
	}
}

// A length of time is that long, also in the hour that is shown twice in autumn and around the one that is left out in spring.
func TestLengthsWhereClocksChange(t *testing.T) {
	t.Parallel()
	berlin := zone(t, "Europe/Berlin")
	for _, begins := range []time.Time{
		time.Date(2026, 3, 28, 22, 0, 0, 0, time.UTC), // the clocks jump at 1:00 UTC
		time.Date(2026, 10, 24, 22, 0, 0, 0, time.UTC),
	} {
		for now := begins; now.Before(begins.Add(8 * time.Hour)); now = now.Add(7*time.Minute + 7*time.Nanosecond) {
			now := now.In(berlin)
			for text, want := range map[string]time.Duration{
				"1s": time.Second, "15m": 15 * time.Minute, "1h": time.Hour, "last hour": time.Hour, "90 minutes": 90 * time.Minute,
				"-2h": 2 * time.Hour, "24h": 24 * time.Hour, "0d3h": 3 * time.Hour, "last 30 minutes": 30 * time.Minute,
			} {
				s, err := Parse(text, now)
				if got := s.To.Sub(s.From); err != nil || got != want || !s.To.Equal(now) {
					t.Fatalf("%q at %v is %v long, want %v; %v", text, now, got, want, err)
				}
				if !strings.HasPrefix(text, "last") {
					if got, err := Time("-"+strings.TrimPrefix(strings.ReplaceAll(text, " ", ""), "-"), now); err != nil || now.Sub(got) != want {
						t.Fatalf("%q before %v is %v; %v", text, now, got, err)
					}
				}
			}
			for text, days := range map[string]int{"1d": 1, "7d": 7, "1w": 7, "2 days": 2} {
				s, err := Parse(text, now)
				jumped := now.AddDate(0, 0, -days).Hour() != now.Hour()
				if got := s.From.Format("15:04:05.999999999"); err != nil || !jumped && got != now.Format("15:04:05.999999999") ||
					now.YearDay()-s.From.YearDay() != days {
					t.Fatalf("%q before %v is %v; %v", text, now, s.From, err)
				}
			}
		}
	}
	// A day before a clock that is shown twice is the first of both; before one that is left out, when the clocks jump.
	for now, want := range map[string]string{
		"2026-10-26T02:30:00+01:00": "Sun 2026-10-25 02:30:00 +0200",
		"2026-03-30T02:30:00+02:00": "Sun 2026-03-29 03:00:00 +0200",
	} {
		parsed, err := time.Parse(time.RFC3339, now)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Time("-1d", parsed.In(berlin)); err != nil || got.Format(written) != want {
			t.Errorf("a day before %s is %s, want %s; %v", now, got.Format(written), want, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"last night", "yesterday 22:00 to 06:00", "-6h", "2026-03", "since monday 9:00", "A..B"} {
		f.Add(text, int64(1_773_000_000))
	}
	f.Fuzz(func(t *testing.T, text string, unix int64) {
		now := time.Unix(unix%10_000_000_000, 0).In(zone(t, "Europe/Berlin"))
		s, err := Parse(text, now)
		if err == nil && !s.From.Before(s.To) {
			t.Errorf("%q is %v", text, s)
		}
	})
}
