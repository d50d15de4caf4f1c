// Package leaktest finds goroutines that the tests of a package leave behind.
package leaktest

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long goroutines may take to end after the last test. Some end with a heartbeat, of 5 s, and machines are busy or stop.
const patience = 3 * time.Minute

// Run runs the tests and returns their exit status: 1 where they pass and leave goroutines behind, which it writes to standard error.
func Run(m *testing.M) int {
	if code := m.Run(); code != 0 {
		return code
	}
	err := goleak.Find()
	for end := time.Now().Add(patience); err != nil && time.Now().Before(end); err = goleak.Find() {
		time.Sleep(100 * time.Millisecond)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
