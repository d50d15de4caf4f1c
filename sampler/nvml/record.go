//go:build linux && cgo

package nvml

import (
	"log/slog"
	"maps"
	"slices"
	"time"
)

// record is what is kept of a device from one session to the next: the errors that
// the driver reported, and the last log message about it. The device changes it, or a
// job while there is no session.
type record struct {
	xids xids
	// logged are the failing functions of the last log message; none after the
	// message that all work again.
	logged []string
}

func newRecord() *record { return &record{xids: xids{}} }

// allFunctions stands for all functions in the log.
var allFunctions = []string{"all"}

// tell logs when functions begin to fail, with the code of one of them, and when none
// fails any more. It is only a detail when other functions fail than before.
func (r *record) tell(log *slog.Logger, failing []string, c code) {
	switch {
	case slices.Equal(failing, r.logged):
		return
	case len(failing) == 0:
		log.Info("all readings work again")
	case len(r.logged) == 0:
		log.Warn("readings fail", "functions", failing, "err", c)
	default:
		log.Debug("other readings fail now", "functions", failing, "err", c)
	}
	r.logged = failing
}

// failures are the functions whose last call failed, with the code and the time.
type failures map[string]failure

type failure struct {
	code code
	at   time.Time
}

// forget drops failures before a time, since some functions are only called where
// another one fails.
func (f failures) forget(before time.Time) {
	maps.DeleteFunc(f, func(_ string, at failure) bool { return at.at.Before(before) })
}

// functions lists the functions, with the code of the first.
func (f failures) functions() ([]string, code) {
	names := slices.Sorted(maps.Keys(f))
	if len(names) == 0 {
		return nil, success
	}
	return names, f[names[0]].code
}
