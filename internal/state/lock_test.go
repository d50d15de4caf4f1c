package state

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A file system without locks, as some of NFS, 9p and FUSE are, is named, with what to do.
func TestNoLocks(t *testing.T) {
	for _, no := range []error{syscall.ENOLCK, syscall.ENOSYS, syscall.EOPNOTSUPP} {
		err := explained("/mnt/state/lock", &os.PathError{Op: "flock", Path: "/mnt/state/lock", Err: no})
		advice, ok := errors.AsType[*gpu.Advice](fmt.Errorf("it fails: %w", err))
		if !ok || !strings.Contains(advice.Text(), "the file system of /mnt/state does not support locks") || !strings.Contains(advice.Try, "--state-dir") || !errors.Is(err, no) {
			t.Errorf("%v: %v", no, err)
		}
	}
	if err := explained("/mnt/state/lock", syscall.EACCES); !errors.Is(err, syscall.EACCES) || noLocks(err) {
		t.Errorf("not permitted: %v", err)
	}
}
