package views

import (
	"strconv"
	"time"
)

// Pages contain moments in UTC, each marked with its time. A script rewrites them in
// the reader's time zone and language before it does anything else
// (static/moments.js). A text or title has at most one moment.

// moment writes a moment in UTC.
func moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// stamp writes a moment for scripts, in whole seconds; empty for the zero time.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05Z")
}

// millis writes a moment for scripts, in milliseconds since 1970; empty for the zero time.
func millis(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return strconv.FormatInt(t.UnixMilli(), 10)
}

// clockLayouts are the short forms of a moment. A script rewrites them in the reader's time zone.
var clockLayouts = map[string]string{"clock": "15:04", "day": "2 Jan"}
