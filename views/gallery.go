package views

import (
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/alerts/notify"
)

// A FrameGroup is the frames about one part of the page.
type FrameGroup struct {
	Title  string
	Frames []Frame
}

// A Frame shows a whole page in one state.
type Frame struct {
	ID    string // anchor of its heading, such as "large"
	Title string
	Says  string // what to look for; may be empty
	Press string // CSS selector of an element to click after loading; empty for none
	URL   string
}

// about names the group and the frame, for people who only hear the title.
func (f Frame) about(group FrameGroup) string { return group.Title + ": " + f.Title }

// place splits the anchor off the URL: with it, browsers would scroll the outer pages too.
func (f Frame) place() (url, anchor string) {
	url, anchor, _ = strings.Cut(f.URL, "#")
	return url, anchor
}

// galleryTargets are a target that works and one that fails.
var galleryTargets = []notify.Status{
	{Name: "chat", Service: "slack", Severity: alert.Warning, LastSuccess: time.Date(2026, 3, 14, 15, 8, 26, 0, time.UTC)},
	{Name: "phone", Service: "ntfy", Queued: 3, LastError: "it answered 503", FailingSince: time.Date(2026, 3, 14, 14, 9, 26, 0, time.UTC)},
}
