package main

import (
	"os"
	"path/filepath"
	"strings"
	"time"
)

// nameZone gives this machine's time zone its name in the list of zones, which Go does not look up, since only the name can be sent
// to others. If no name is found, the zone stays without one.
func nameZone() { time.Local = named(time.Local, "/etc") } //nolint:gosmopolitan // it is the same zone, with its name

// named returns the zone under the name that it already has, for example from TZ, or that files in etc give, if its clocks are the same.
func named(zone *time.Location, etc string) *time.Location {
	link, _ := os.Readlink(filepath.Join(etc, "localtime"))   // on Linux and macOS
	written, _ := os.ReadFile(filepath.Join(etc, "timezone")) // on Debian where it is a copy
	for _, name := range []string{zone.String(), link, string(written)} {
		if _, zone, isPath := strings.Cut(name, "zoneinfo/"); isPath {
			name = zone
		}
		if name = strings.TrimPrefix(strings.TrimSpace(name), "posix/"); name == "Etc/UTC" {
			name = "UTC"
		}
		if name == "" || name == "Local" {
			continue
		}
		if found, err := time.LoadLocation(name); err == nil && sameClocks(found, zone) {
			return found
		}
	}
	return zone
}

// sameClocks reports whether two zones have had the same clocks in the last three years.
func sameClocks(a, b *time.Location) bool {
	now := time.Now()
	for weeks := range 3 * 52 {
		at := now.AddDate(0, 0, -7*weeks)
		_, one := at.In(a).Zone()
		if _, other := at.In(b).Zone(); one != other {
			return false
		}
	}
	return true
}

// localZone returns this machine's zone in a form that others understand: its name, or else its current offset from UTC.
func localZone() string {
	name := time.Local.String() //nolint:gosmopolitan // that of the person who asks
	if _, err := time.LoadLocation(name); err != nil || name == "Local" {
		return time.Now().Format("-07:00")
	}
	return name
}
