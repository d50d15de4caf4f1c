//go:build linux && cgo

package nvml

import (
	"log/slog"
	"maps"
	"slices"
	"time"
)

// record is what is kept of a device from one session to the next: the errors
// that the driver reported, and what the log says of it. It is the device's to
// change, or a job's while there is no session.
type record struct {
	xids xids
	// told are the functions that fail, as the log has said last; none where
	// it has said that all work.
	told []string
}

func newRecord() *record { return &record{xids: xids{}} }

// allFunctions stands for all functions in the log.
var allFunctions = []string{"all"}

// tell logs when functions begin to fail, with the code of one of them, and when
// none does any more. That others begin to fail meanwhile is a detail.
func (r *record) tell(log *slog.Logger, failing []string, c code) {
	switch {
	case slices.Equal(failing, r.told):
		return
	case len(failing) == 0:
		log.Info("all readings work again")
	case len(r.told) == 0:
		log.Warn("readings fail", "functions", failing, "err", c)
	default:
		log.Debug("other readings fail now", "functions", failing, "err", c)
	}
	r.told = failing
}

// failures are the functions whose last call failed, with when and how.
type failures map[string]failure

type failure struct {
	code code
	at   time.Time
}

// forget drops those before a time: a function can be one that is asked only
// where another fails.
func (f failures) forget(before time.Time) {
	maps.DeleteFunc(f, func(_ string, at failure) bool { return at.at.Before(before) })
}

// functions lists them, with the code of the first.
func (f failures) functions() ([]string, code) {
	names := slices.Sorted(maps.Keys(f))
	if len(names) == 0 {
		return nil, success
	}
	return names, f[names[0]].code
}
