//go:build unix

package audit

import (
	"fmt"
	"log/syslog"

	"github.com/gpuwhy/gpuwhy/internal/regular"
)

// OpenSystemLog opens the machine's system log, where entries have the facility authpriv, the severity info and the name gpuwhy.
func OpenSystemLog() (SystemLog, error) {
	w, err := syslog.New(syslog.LOG_AUTHPRIV|syslog.LOG_INFO, "gpuwhy")
	if err != nil {
		return nil, fmt.Errorf("the system log can't be opened: %w", err)
	}
	return &system{w, make(chan struct{}, 1)}, nil
}

// A system log may hang, like a disk.
type system struct {
	w    *syslog.Writer
	busy chan struct{} // has a value while a line is being written
}

// Tell implements [SystemLog]. While a line is being written, others wait for it; they are not told if that takes long.
func (s *system) Tell(line string) error {
	_, err := regular.Within(Patience/2, func() (none struct{}, err error) {
		s.busy <- struct{}{}
		defer func() { <-s.busy }()
		return none, s.w.Info(line)
	})
	return err
}
