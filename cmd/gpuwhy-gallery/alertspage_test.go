package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/browsertest"
)

// The page of a machine where nothing fires says how many rules would, and is
// accessible; so is one with everything on it.
func TestThePageOfAlertsIsAccessible(t *testing.T) {
	t.Run("nothing fires", func(t *testing.T) {
		s, b := newStage(t), quietTab(t, 1440, 900)
		b.Visit(s.url + "alerts")
		b.Until(shows("Nothing is known yet"))
		s.show("one")
		b.Visit(s.url + "alerts")
		b.Until(live)
		b.Until(shows("Nothing fires.") + ` && /\d+ rules are in force/.test(document.body.innerText)`)
		accessible(t, b, "nothing fires")
		b.Visit("about:blank")
	})
	t.Run("much", func(t *testing.T) {
		s, b := newStage(t, 5*time.Second), quietTab(t, 1440, 900)
		s.playPast("dgx-h100", loudest(t, "dgx-h100"), 5*time.Minute, 5*time.Second)
		standing := s.Alerts.Standing()
		for _, width := range []int64{390, 768, 1440, 3840} {
			b.Resize(width, 900)
			b.Visit(s.url + "alerts")
			b.Until(live)
			b.Until(fmt.Sprintf(`document.querySelectorAll(".firing").length === %d`, len(standing)))
			if wide := browsertest.Ask[int64](b, `document.documentElement.scrollWidth`); wide > width {
				t.Errorf("it is %d wide of %d", wide, width)
			}
			if width < 3840 {
				accessible(t, b, fmt.Sprint(width))
			}
		}
		b.Prefer("prefers-contrast: more")
		if found := axe(t, b); found != "" {
			t.Errorf("with more contrast:\n%s", found)
		}
		b.Resize(1440, 900)
		for _, at := range walk(t, b) {
			if !at.Visible {
				t.Errorf("%s has the focus, and it can't be seen", at.Name)
			}
		}
		b.Visit("about:blank")
	})
}
