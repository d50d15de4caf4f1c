package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"
	_ "time/tzdata"
)

// A machine's zone gets its name from where systems keep it, and never that of another zone.
func TestTheZoneIsNamed(t *testing.T) {
	t.Parallel()
	zone := func(name string) *time.Location {
		l, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	// Without TZ, Go calls a zone Local that it has read from a file.
	data, err := os.ReadFile("/usr/share/zoneinfo/Europe/Berlin")
	if err != nil {
		t.Skip("this machine has no list of zones")
	}
	local, err := time.LoadLocationFromTZData("Local", data)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		zone           *time.Location
		link, timezone string
		want           string
	}{
		"a link":                  {local, "/usr/share/zoneinfo/Europe/Berlin", "", "Europe/Berlin"},
		"a short link":            {local, "../usr/share/zoneinfo/posix/Europe/Berlin", "", "Europe/Berlin"},
		"macOS":                   {local, "/var/db/timezone/zoneinfo/Europe/Berlin", "", "Europe/Berlin"},
		"a name in a file":        {local, "", "Europe/Berlin\n", "Europe/Berlin"},
		"a name that is not true": {local, "", "America/New_York\n", "Local"},
		"a link that is not true": {local, "/usr/share/zoneinfo/Moon", "Europe/Berlin", "Europe/Berlin"},
		"nothing":                 {local, "", "", "Local"},
		"TZ":                      {zone("Asia/Kolkata"), "/usr/share/zoneinfo/Europe/Berlin", "", "Asia/Kolkata"},
		"UTC":                     {time.UTC, "", "", "UTC"},
		"UTC in a file":           {zone("Etc/UTC"), "", "", "UTC"},
	} {
		etc := t.TempDir()
		if tt.link != "" {
			if err := os.Symlink(tt.link, filepath.Join(etc, "localtime")); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(etc, "timezone"), []byte(tt.timezone), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := named(tt.zone, etc).String(); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}
