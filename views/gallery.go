package views

import (
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/alerts/notify"
)

// A FrameGroup is frames of one part of the page.
type FrameGroup struct {
	Title  string
	Frames []Frame
}

// A Frame shows a whole page in one state.
type Frame struct {
	ID    string // "large": of its heading, for links
	Title string
	Says  string // what is to be seen; may be empty
	Press string // CSS selector of what is pressed once it is there; empty for nothing
	URL   string
}

// about says of which group a frame is, to those who hear its title alone.
func (f Frame) about(group FrameGroup) string { return group.Title + ": " + f.Title }

// place parts the URL from what it points at: a browser would scroll all pages around to it.
func (f Frame) place() (url, at string) {
	url, at, _ = strings.Cut(f.URL, "#")
	return url, at
}

// galleryTargets are one that takes messages, and one that does not.
var galleryTargets = []notify.Status{
	{Name: "chat", Service: "slack", Severity: alert.Warning, LastSuccess: time.Date(2026, 3, 14, 15, 8, 26, 0, time.UTC)},
	{Name: "phone", Service: "ntfy", Queued: 3, LastError: "it answered 503", FailingSince: time.Date(2026, 3, 14, 14, 9, 26, 0, time.UTC)},
}
