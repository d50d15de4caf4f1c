//go:build !unix

package audit

import "errors"

// OpenSystemLog returns an error: this system has none.
func OpenSystemLog() (SystemLog, error) { return nil, errors.New("this system has no system log") }

func isTooLong(error) bool { return false }
