//go:build unix

package audit

import (
	"errors"
	"fmt"
	"log/syslog"
	"syscall"
)

// OpenSystemLog returns the machine's system log, where entries have the facility authpriv, the severity info and the name gpuwhy. It need
// not be there yet.
func OpenSystemLog() (SystemLog, error) { return &system{}, nil }

// A system is the machine's system log at an address; empty: where the system has it. It is opened for the first line, and again when it has
// gone.
type system struct {
	network, address string
	w                *syslog.Writer // nil: it is not open yet
}

// Tell implements [SystemLog].
func (s *system) Tell(line string) error {
	if s.w == nil {
		w, err := syslog.Dial(s.network, s.address, syslog.LOG_AUTHPRIV|syslog.LOG_INFO, "gpuwhy")
		if err != nil {
			return fmt.Errorf("the system log can't be opened: %w", err)
		}
		s.w = w
	}
	return s.w.Info(line)
}

// isTooLong reports whether the system log can never take a line.
func isTooLong(err error) bool { return errors.Is(err, syscall.EMSGSIZE) }
