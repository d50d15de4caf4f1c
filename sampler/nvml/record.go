//go:build linux && cgo

package nvml

import (
	"maps"
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// record is what is kept of a device from one session to the next. The device changes
// it, or a job while there is no session.
type record struct {
	xids map[int]gpu.XID // the errors that the driver reported, by code
	// logged are the failing functions of the last log message; none after the
	// message that all work again.
	logged []string
}

// failure is that the last call of a function failed.
type failure struct {
	code code
	at   time.Time
}

// report logs when functions begin to fail, with the code of one of them, and when none
// fails any more. It is only a detail when other functions fail than before. A device
// that is not ours is no failure.
func (d *device) report(c code) {
	failing := []string{"all"}
	if c == success {
		// Some functions are only called where another one fails.
		old := d.began.Add(-2 * seldom)
		maps.DeleteFunc(d.failing, func(_ string, f failure) bool { return f.at.Before(old) })
		failing = slices.Sorted(maps.Keys(d.failing))
		if len(failing) > 0 {
			c = d.failing[failing[0]].code
		}
	}
	switch {
	case slices.Equal(failing, d.logged), c != success && !c.failure():
		return
	case len(failing) == 0:
		d.log.Info("all readings work again")
	case len(d.logged) == 0:
		d.log.Warn("readings fail", "functions", failing, "err", c)
	default:
		d.log.Debug("other readings fail now", "functions", failing, "err", c)
	}
	d.logged = failing
}
