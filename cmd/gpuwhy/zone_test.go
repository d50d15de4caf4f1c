//go:build !race

package main

import (
	encode "encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"time"
	_ "time/tzdata"
)

// zoneFile returns the file of a zone (RFC 8536, version 1) whose clocks never change.
func zoneFile(east time.Duration, name string) []byte {
	b := append([]byte("TZif"), make([]byte, 16+16)...)          // version, what is reserved, and four counts of 0
	b = encode.BigEndian.AppendUint32(b, 1)                      // kinds of time
	b = encode.BigEndian.AppendUint32(b, uint32(len(name)+1))    // bytes of names
	b = encode.BigEndian.AppendUint32(b, uint32(east.Seconds())) // the one kind
	return append(append(b, 0, 0), name+"\x00"...)
}

// A machine's zone gets its name from where systems keep it, and never the name of another zone.
func TestTheZoneIsNamed(t *testing.T) {
	t.Parallel()
	zone := func(name string) *time.Location {
		l, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	// Without TZ, Go calls a zone Local that it has read from a file. India's clocks have not been set for long.
	local, err := time.LoadLocationFromTZData("Local", zoneFile(5*time.Hour+30*time.Minute, "IST"))
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		zone           *time.Location
		link, timezone string
		want           string
	}{
		"a link":                  {local, "/usr/share/zoneinfo/Asia/Kolkata", "", "Asia/Kolkata"},
		"a short link":            {local, "../usr/share/zoneinfo/posix/Asia/Kolkata", "", "Asia/Kolkata"},
		"macOS":                   {local, "/var/db/timezone/zoneinfo/Asia/Kolkata", "", "Asia/Kolkata"},
		"a name in a file":        {local, "", "Asia/Kolkata\n", "Asia/Kolkata"},
		"a name that is not true": {local, "", "America/New_York\n", "Local"},
		"a link that is not true": {local, "/usr/share/zoneinfo/Moon", "Asia/Kolkata", "Asia/Kolkata"},
		"nothing":                 {local, "", "", "Local"},
		"TZ":                      {zone("Europe/Berlin"), "/usr/share/zoneinfo/Asia/Kolkata", "", "Europe/Berlin"},
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
