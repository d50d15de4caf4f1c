package views

import (
	"strconv"
	"time"
)

// Pages have moments in UTC, and say beside each which moment it is. A script
// writes them again in the reader's time zone and language, before anything else
// (static/moments.js). A text or title has one moment at most.

// moment writes a moment in UTC.
func moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// stamp is a moment for scripts, in whole seconds; empty for none.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05Z")
}

// millis is a moment for scripts, in milliseconds since 1970; empty for none.
func millis(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return strconv.FormatInt(t.UnixMilli(), 10)
}

// clockLayouts are how a moment is written: a script does so in the reader's time zone.
var clockLayouts = map[string]string{"clock": "15:04", "day": "2 Jan"}
