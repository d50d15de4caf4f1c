package when

import (
	"strings"
	"testing"
	"time"
)

// What people and programs write as a time is taken, and what gpuwhy itself writes.
func TestTimesPeopleWrite(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 27, 14, 23, 0, 0, zone(t, "Europe/Berlin")) // a Friday
	for want, texts := range map[string][]string{
		"Wed 2026-11-25 22:00:00 +0100": {
			"2026-11-25T22:00", "2026-11-25t22:00", "2026-11-25T22:00:00", "2026-11-25T22:00:00.000", "2026-11-25T21:00Z", "2026-11-25T22:00+01:00",
			"2026-11-25T22:00+0100", "2026-11-25T22:00+01", "2026-11-25 22:00", "2026-11-25 at 22:00", "2026-11-25, 22:00", "2026-11-25 22:00 CET",
			"2026-11-25 21:00 UTC", "2026-11-25 22:00 +01:00", "2026-11-25 10 pm", "25 Nov 22:00", "Nov 25, 2026 22:00", "25. November 22:00",
			"November 25th at 10pm", "Wed 25 Nov 22:00", "Wed 2026-11-25 22:00:00", "Wed 25 Nov 2026 22:00", "22:00 on Wednesday", "wednesday at 22:00",
			"on Wednesday at 22:00", "22:00 2026-11-25", "2026/11/25 22:00", "25.11.2026 22:00", "25/11/2026, 22:00", "11/25/2026 10pm", "Wed Nov 25 22:00:00 CET 2026",
			"Wed Nov 25 09:00:00 PM UTC 2026", "2026-11-25 21:00Z", "2026-11-25 22:00 UTC+1", "25 Nov 23:00+02:00", "1795640400", "@1795640400", "1795640400.0", "1795640400000",
		},
		"Thu 2026-11-26 22:00:00 +0100": {"yesterday at 22:00", "Yesterday, 22:00", "22:00 yesterday", "at 22:00", "22:00", "21:00 UTC", "yesterday 22:00 CET", "yesterday 23:00 CEST"},
		"Fri 2026-11-27 12:53:00 +0100": {"1.5h", "-1.5h", "1.5 hours", "1.5h ago", "90 min", "1 hour 30 minutes ago", "1.5 hr"},
		"Fri 2026-11-27 13:23:00 +0100": {"an hour ago", "1h ago", "one hour ago"},
		"Thu 2026-11-26 02:23:00 +0100": {"1.5d", "1.5 days ago", "36h"},
		"Tue 2026-10-27 14:23:00 +0100": {"1 month ago", "a month"},
		"Thu 2025-12-25 09:00:00 +0100": {"25 Dec 9:00", "Dec 25 at 9am"},
	} {
		for _, text := range texts {
			if got, err := Time(text, now); err != nil || got.Format(written) != want {
				t.Errorf("%s is %s, want %s; %v", text, got.Format(written), want, err)
			}
		}
	}
	for _, text := range []string{
		"02:30 CST", "02:30 IST", "02:30 WHAT", "22:00 +25:00", "11/12/2026", "11.12.2026", "11.25.2026", "31.11.2026", "2026/13/25", "22:00 -2", "1ms", "500ms", "2hs", "20261125", "1764", "99999999", "12345678901234567",
		"yesterday at 9", "at", "Fri 2026-11-25", "31 Feb", "Thu 25 Nov 2026", "0.5y", "1.5 months", "1.h", ".5h", "1,5h", "2026-11-25T25:00", "2026-11-25T22", "22:00-06:00",
		"last night", "22:00 22:00", "yesterday yesterday", "pm", "10 pm pm",
	} {
		if got, err := Time(text, now); err == nil || !strings.Contains(err.Error(), "write it like") {
			t.Errorf("%q is %v, %v", text, got, err)
		}
	}
	// The hour that comes twice, as gpuwhy writes it.
	now = time.Date(2026, 10, 25, 9, 0, 0, 0, now.Location())
	for text, want := range map[string]string{
		"02:30 CEST": "Sun 2026-10-25 02:30:00 +0200", "02:30 CET": "Sun 2026-10-25 02:30:00 +0100", "02:30 cest": "Sun 2026-10-25 02:30:00 +0200",
		"Sun 2026-10-25 02:30:00 CET": "Sun 2026-10-25 02:30:00 +0100", "Sun 25 Oct 02:30 CET": "Sun 2026-10-25 02:30:00 +0100",
		"02:30 +01:00": "Sun 2026-10-25 02:30:00 +0100", "today 02:30 CET": "Sun 2026-10-25 02:30:00 +0100",
	} {
		if got, err := Time(text, now); err != nil || got.Format(written) != want {
			t.Errorf("%s is %s, want %s; %v", text, got.Format(written), want, err)
		}
	}
	if s, err := Parse("02:00 CEST to 02:30 CET", now); err != nil || s.To.Sub(s.From) != 90*time.Minute {
		t.Errorf("an hour that comes twice: %v, %v", s, err)
	}
	if got, err := Time("12:00 CST", time.Date(2026, 11, 27, 14, 23, 0, 0, zone(t, "America/Chicago"))); err != nil || got.Hour() != 12 {
		t.Errorf("CST in Chicago is %v, %v", got, err)
	}
}

// Two times of day are the newest span that ends today and has begun, at any moment of a day.
func TestSpansOfADay(t *testing.T) {
	t.Parallel()
	berlin := zone(t, "Europe/Berlin")
	for _, tt := range []struct{ text, now, want string }{
		{"22:00-06:00", "00:30", "26 22:00, 27 00:30"},
		{"22:00-06:00", "05:59", "26 22:00, 27 05:59"},
		{"22:00-06:00", "06:00", "26 22:00, 27 06:00"},
		{"22:00-06:00", "14:00", "26 22:00, 27 06:00"},
		{"22:00-06:00", "22:00", "26 22:00, 27 06:00"},
		{"22:00-06:00", "22:29", "26 22:00, 27 06:00"},
		{"22:00 to 06:00", "22:29", "26 22:00, 27 06:00"},
		{"22:00..06:00", "23:59", "26 22:00, 27 06:00"},
		{"22:00 – 06:00", "22:29", "26 22:00, 27 06:00"},
		{"between 22:00 and 06:00", "22:29", "26 22:00, 27 06:00"},
		{"from 22:00 to 06:00", "22:29", "26 22:00, 27 06:00"},
		{"10pm to 6am", "22:29", "26 22:00, 27 06:00"},
		{"21:00 UTC to 05:00 UTC", "22:29", "26 22:00, 27 06:00"},
		{"9:00-17:00", "08:00", "26 09:00, 26 17:00"},
		{"9:00-17:00", "09:30", "27 09:00, 27 09:30"},
		{"9:00-17:00", "15:00", "27 09:00, 27 15:00"},
		{"9:00-17:00", "18:00", "27 09:00, 27 17:00"},
		{"20:00 to 24:00", "10:00", "26 20:00, 27 00:00"},
		{"20:00 to 24:00", "22:29", "27 20:00, 27 22:29"},
		{"20:00 to midnight", "22:29", "27 20:00, 27 22:29"},
		{"midnight to 6:00", "22:29", "27 00:00, 27 06:00"},
		{"yesterday 22:00-06:00", "22:29", "26 22:00, 27 06:00"},
		{"2026-11-25T22:00 to 2026-11-26T06:00", "22:29", "25 22:00, 26 06:00"},
		{"1795640400..1795669200", "22:29", "25 22:00, 26 06:00"},
		{"since monday", "22:29", "23 00:00, 27 22:29"},
		{"since yesterday", "22:29", "26 00:00, 27 22:29"},
		{"since 2026-11-25", "22:29", "25 00:00, 27 22:29"},
		{"since last week", "22:29", "16 00:00, 27 22:29"},
		{"since yesterday at 22:00", "22:29", "26 22:00, 27 22:29"},
		{"since last night", "22:29", "26 22:00, 27 22:29"},
		{"since 25 Nov", "22:29", "25 00:00, 27 22:29"},
		{"since 1.5h", "22:29", "27 20:59, 27 22:29"},
		{"25 Nov", "22:29", "25 00:00, 26 00:00"},
		{"1.5h", "22:29", "27 20:59, 27 22:29"},
		{"last 1.5 hours", "22:29", "27 20:59, 27 22:29"},
		{"tue to wed", "22:29", "24 00:00, 26 00:00"},
		{"9:00-9:00", "22:29", "26 09:00, 27 09:00"},
		{"9:00 to 9:00", "08:00", "26 09:00, 27 08:00"},
		{"0:00-0:00", "22:29", "27 00:00, 27 22:29"},
		{"today 9:00 to 23:30", "22:29", "27 09:00, 27 22:29"},
		{"today to 23:30", "22:29", "27 00:00, 27 22:29"},
		{"22:00 to 06:00 UTC", "22:29", "26 23:00, 27 07:00"},
		{"22:00 UTC to 06:00", "22:29", "26 23:00, 27 07:00"},
		{"22:00-06:00 UTC", "22:29", "26 23:00, 27 07:00"},
		{"22:00 UTC-06:00 UTC", "22:29", "26 23:00, 27 07:00"},
		{"yesterday 22:00Z to 06:00", "22:29", "26 23:00, 27 07:00"},
		{"2026/11/25", "22:29", "25 00:00, 26 00:00"},
		{"24.11.2026 to 25.11.2026", "22:29", "24 00:00, 26 00:00"},
		{"november", "22:29", "01 00:00, 27 22:29"},
		{"since November 2026", "22:29", "01 00:00, 27 22:29"},
	} {
		now, err := time.ParseInLocation("2006-01-02 15:04", "2026-11-27 "+tt.now, berlin)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Parse(tt.text, now)
		if got := s.From.Format("02 15:04, ") + s.To.Format("02 15:04"); err != nil || got != tt.want {
			t.Errorf("%s at %s is %s, want %s; %v", tt.text, tt.now, got, tt.want, err)
		}
	}
}

// A month by its name is the newest that has begun, and the last one of it is over.
func TestMonthsByName(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 27, 14, 23, 0, 0, zone(t, "Europe/Berlin"))
	for text, want := range map[string]string{
		"october": "2026-10-01, 2026-11-01", "Dec": "2025-12-01, 2026-01-01", "last november": "2025-11-01, 2025-12-01", "last oct": "2026-10-01, 2026-11-01",
		"mar 2025": "2025-03-01, 2025-04-01", "september to october": "2026-09-01, 2026-11-01",
	} {
		s, err := Parse(text, now)
		if got := s.From.Format("2006-01-02, ") + s.To.Format("2006-01-02"); err != nil || got != want {
			t.Errorf("%s is %s, want %s; %v", text, got, want, err)
		}
	}
}

// What the clocks jump over in spring is that of the day before.
func TestAnHourThatIsLeftOut(t *testing.T) {
	t.Parallel()
	s, err := Parse("2:00 to 3:00", time.Date(2026, 3, 29, 9, 0, 0, 0, zone(t, "Europe/Berlin")))
	if got := s.From.Format("02 15:04, ") + s.To.Format("02 15:04"); err != nil || got != "28 02:00, 28 03:00" {
		t.Errorf("%s; %v", got, err)
	}
}

func TestLengths(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"1.5h": 90 * time.Minute, "90 s": 90 * time.Second, "15 minutes": 15 * time.Minute, "1d": 24 * time.Hour, "1 day": 24 * time.Hour,
		"0.5 d": 12 * time.Hour, "1h30m": 90 * time.Minute, "1y": 0, "2 months": 0, "": 0, "5": 0, "soon": 0, "1500ms": 0, "1 ms": 0,
	} {
		if got, ok := Length(text); got != want || ok != (want > 0) {
			t.Errorf("%q is %v, %v", text, got, ok)
		}
	}
}
