// Package shaky has tests that fail sometimes, for the test of flaky.
package shaky

import (
	"flag"
	"os"
	"os/exec"
	"testing"
)

// TestOdd fails for half of all seeds.
func TestOdd(t *testing.T) {
	seed := flag.Lookup("test.shuffle").Value.String()
	if (seed[len(seed)-1]-'0')%2 == 1 {
		t.Errorf("seed %s is odd", seed)
	}
}

func TestSound(*testing.T) {}

// TestLeaves starts a process that outlives the test, where it is asked to.
func TestLeaves(t *testing.T) {
	if os.Getenv("SHAKY_LEAVES") == "" {
		return
	}
	if err := exec.Command("sleep", "300").Start(); err != nil {
		t.Error(err)
	}
}
