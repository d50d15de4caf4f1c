package testkit_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

// A program can run as soon as it is written, even if others are started meanwhile.
func TestWriteProgram(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 50 {
				path := filepath.Join(dir, fmt.Sprint(i, "-", j))
				if err := testkit.WriteProgram(path, []byte("#!/bin/sh\nexit 0\n")); err != nil {
					t.Error(err)
				}
				if out, err := exec.CommandContext(t.Context(), path).CombinedOutput(); err != nil {
					t.Errorf("%v: %s", err, out)
				}
			}
		})
	}
	all.Wait()
}
