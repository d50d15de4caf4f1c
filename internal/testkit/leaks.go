package testkit

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// RunTests runs the tests and returns their exit status. If they pass but leak goroutines, the status is 1, and RunTests prints them to
// standard error. Goroutines may take a while to end after the last test, for example those with a heartbeat.
func RunTests(m *testing.M) int {
	if code := m.Run(); code != 0 {
		return code
	}
	err := goleak.Find() // which itself waits a moment
	for end := time.Now().Add(Patience); err != nil && time.Now().Before(end); {
		err = goleak.Find()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
