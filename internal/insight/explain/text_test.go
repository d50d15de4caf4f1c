package explain

import (
	"testing"
	"time"
)

// In the hour that comes twice, each time says which it is, and no other time does.
func TestClock(t *testing.T) {
	for _, tt := range []struct{ zone, utc, want string }{
		{"Europe/Berlin", "2026-10-24T23:59:59Z", "01:59"},
		{"Europe/Berlin", "2026-10-25T00:00:00Z", "02:00 CEST"},
		{"Europe/Berlin", "2026-10-25T00:59:59Z", "02:59 CEST"},
		{"Europe/Berlin", "2026-10-25T01:00:00Z", "02:00 CET"},
		{"Europe/Berlin", "2026-10-25T01:59:59Z", "02:59 CET"},
		{"Europe/Berlin", "2026-10-25T02:00:00Z", "03:00"},
		{"Europe/Berlin", "2026-03-29T00:59:59Z", "01:59"},
		{"Europe/Berlin", "2026-03-29T01:00:00Z", "03:00"},
		{"America/New_York", "2026-11-01T06:30:00Z", "01:30 EST"},
		{"Australia/Lord_Howe", "2026-04-04T14:45:00Z", "01:45 +11"},
		{"Australia/Lord_Howe", "2026-04-04T15:15:00Z", "01:45 +1030"},
		{"UTC", "2026-10-25T00:30:00Z", "00:30"},
	} {
		zone, err := time.LoadLocation(tt.zone)
		if err != nil {
			t.Fatal(err)
		}
		moment, err := time.Parse(time.RFC3339, tt.utc)
		if err != nil {
			t.Fatal(err)
		}
		if got := Clock(moment.In(zone), "15:04"); got != tt.want {
			t.Errorf("%s in %s is %q, want %q", tt.utc, tt.zone, got, tt.want)
		}
	}
}

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1000: "1.0 kB", 99_999: "100 kB", 999_999: "1.0 MB", 1 << 40: "1.1 TB", 5e15: "5000 TB"} {
		if got := Size(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}
