//go:build !race

package explain_test

import (
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// Each prediction of when a cool-down is quiet is compared with what happened.
func TestCooldownsAreToldWithTheirEnd(t *testing.T) {
	type told struct {
		read time.Time
		left time.Duration
	}
	said := map[time.Time][]told{}
	over := map[time.Time]time.Time{}
	simulated(t, "rtx-4090", 6*time.Hour, func(now time.Time, a *explain.Answer) {
		d := &a.Devices[0]
		if c := d.Cooling; c != nil {
			if c.Begun.After(now) || !c.Over.IsZero() {
				t.Errorf("%s: goes on: %+v", now, c)
			}
			if left, known := c.Left.Get(); known {
				said[c.Begun] = append(said[c.Begun], told{now, left})
			}
		}
		if c := d.Cooled; c != nil {
			if c.Over.Before(c.Begun) || c.Over.After(now) || c.Left.Present() {
				t.Errorf("%s: is over: %+v", now, c)
			}
			over[c.Begun] = c.Over
		}
	})
	var off time.Duration
	n := 0
	for begun, list := range said {
		for _, s := range list {
			if end, known := over[begun]; known {
				off += (s.read.Add(s.left).Sub(end)).Abs()
				n++
			}
		}
	}
	if len(over) < 5 || n < 20 || off/time.Duration(n) > 30*time.Second {
		t.Errorf("%d cool-downs were over, %d times it was said when, %s off in the mean", len(over), n, off/time.Duration(max(n, 1)))
	}
}
