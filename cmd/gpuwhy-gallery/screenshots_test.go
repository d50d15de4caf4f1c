//go:build !race && screenshots

package main

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"

	"github.com/gpuwhy/gpuwhy/internal/testkit/browser"
)

var screenshots = flag.String("screenshots", "../../docs/screenshots", "folder for the pictures that the documentation shows")

// largestScreenshot is what a picture in the documentation may weigh, in bytes.
const largestScreenshot = 300_000

// onDay is a time of a simulated day.
func onDay(hour, minute int) time.Time {
	return time.Date(2026, time.March, 3, hour, minute, 0, 0, time.UTC)
}

// This test takes the pictures in docs/screenshots: pages of simulated machines
// with a quarter of an hour in their charts. `make screenshots` runs it.
func TestScreenshots(t *testing.T) {
	for _, shot := range []struct {
		name, path, profile, look string
		daytime                   time.Time // of the simulated day
		width, height             int
	}{
		{"server.png", "", "dgx-h100", "light", onDay(1, 52), 1440, 900},
		{"workstation.png", "", "rtx-4090", "dark", onDay(1, 41), 1440, 900},
		{"wall.png", "", "fleet:96", "light", onDay(13, 38), 1440, 900},
		{"phone.png", "", "rtx-4090", "light", onDay(3, 36), 390, 844},
		{"alerts.png", "alerts", "dgx-h100", "light", onDay(1, 52), 1440, 900},
	} {
		t.Run(shot.name, func(t *testing.T) {
			s := newStage(t, shot.profile, 5*time.Second)
			s.playPast(shot.profile, shot.daytime, 15*time.Minute)
			b := quietTab(t, shot.width, shot.height)
			b.Resize(int64(shot.width), int64(shot.height))
			b.Prefer("prefers-color-scheme: " + shot.look)
			b.Visit(s.url + shot.path)
			b.Until(live)
			b.Settle()
			picture := browser.Call(b, page.CaptureScreenshot, page.CaptureScreenshotParams{}).Data
			if len(picture) == 0 || len(picture) > largestScreenshot {
				t.Errorf("it weighs %d bytes", len(picture))
			}
			if err := os.WriteFile(filepath.Join(*screenshots, shot.name), picture, 0o644); err != nil { //nolint:gosec // for everyone to read
				t.Fatal(err)
			}
		})
	}
}
