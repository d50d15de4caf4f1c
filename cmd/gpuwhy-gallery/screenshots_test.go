package main

import (
	"cmp"
	"flag"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/browsertest"
)

var screenshots = flag.String("screenshots", "", "folder for the pictures that the documentation shows")

// largestScreenshot is what a picture in the documentation may weigh, in bytes.
const largestScreenshot = 300_000

// The pictures in docs/screenshots: the page as it is on simulated machines,
// with a quarter of an hour behind it. `make screenshots` takes them anew.
func TestScreenshots(t *testing.T) {
	dir := cmp.Or(*screenshots, t.TempDir())
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, shot := range []struct {
		name, path, profile, look string
		width, height             int
	}{
		{"server.png", "", "dgx-h100", "light", 1440, 900},
		{"workstation.png", "", "rtx-4090", "dark", 1440, 900},
		{"wall.png", "", "fleet:1000", "light", 1440, 900},
		{"phone.png", "", "rtx-4090", "light", 390, 844},
		{"alerts.png", "alerts", "dgx-h100", "light", 1440, 900},
	} {
		t.Run(shot.name, func(t *testing.T) {
			s := newStage(t, 5*time.Second)
			s.playPast(shot.profile, loudest(t, shot.profile), 15*time.Minute, 5*time.Second)
			b := quietTab(t, shot.width, shot.height)
			b.Resize(int64(shot.width), int64(shot.height))
			b.Prefer("prefers-color-scheme: " + shot.look)
			b.Visit(s.url + shot.path)
			b.Until(live)
			b.Until(`document.getElementById("charts") === null || performance.getEntriesByType("resource").some((e) => e.name.includes("/api/gpu/recent") && e.responseEnd > 0)`)
			b.Settle()
			picture := browsertest.Call(b, page.CaptureScreenshot, page.CaptureScreenshotParams{}).Data
			if len(picture) == 0 || len(picture) > largestScreenshot {
				t.Errorf("it weighs %d bytes", len(picture))
			}
			if err := os.WriteFile(filepath.Join(dir, shot.name), picture, 0o644); err != nil { //nolint:gosec // for everyone to read
				t.Fatal(err)
			}
		})
	}
}

// loudest is the moment of a simulated day at which the machine is busiest,
// having been quieter ten minutes before.
func loudest(t *testing.T, profile string) time.Time {
	t.Helper()
	day := time.Date(2026, time.March, 3, 0, 0, 0, 0, time.UTC)
	a := newActor(t, profile, day, day)
	const step = time.Minute
	var power []gpu.Watts
	var best time.Time
	most := gpu.Watts(math.Inf(-1))
	for range 12 * time.Hour / step {
		var sum gpu.Watts
		for _, d := range a.next(t, step).Devices {
			sum += d.Power.Draw.Or(0)
		}
		if power = append(power, sum); len(power) <= 10 {
			continue
		}
		if risen := sum - power[len(power)-11]/2; risen > most {
			most, best = risen, a.now
		}
	}
	return best
}
