package keep

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/gofrs/flock"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/regular"
)

// Lock takes a folder for this program alone, until release is called or the program
// ends. If another program has it, the error is a [gpu.Advice] that says which.
func Lock(dir string) (release func() error, err error) {
	release, holder, err := LockFile(filepath.Join(dir, "lock"))
	switch {
	case noLocks(err):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("the state directory can't be locked: %w", err)
	case holder != "":
		return nil, &gpu.Advice{
			What: fmt.Sprintf("another gpuwhy, %s, keeps its state in %s", holder, dir),
			Try:  "end it, or give this one a --state-dir of its own",
		}
	}
	return release, nil
}

// LockFile takes a file that is there for this alone, and is made where it is not. If another program has it, holder says
// which, and release is nil.
func LockFile(name string) (release func() error, holder string, err error) {
	if info, err := os.Lstat(name); err == nil && info.Mode()&os.ModeSymlink != 0 {
		return nil, "", fmt.Errorf("%s is a link to another file: remove it", name)
	}
	lock := flock.New(name, flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o600)) // which waits for no pipe
	switch taken, err := lock.TryLock(); {
	case err != nil:
		return nil, "", explained(name, err)
	case !taken:
		holder, err := regular.Read(name, 1<<10)
		if holder = bytes.TrimSpace(holder); err != nil || len(holder) == 0 {
			holder = []byte("of which no more is known")
		}
		return nil, string(holder), nil
	}
	// This only tells people who has it: a full disk keeps nothing from starting.
	host, _ := os.Hostname()
	_ = os.WriteFile(name, fmt.Appendf(nil, "process %d on %s\n", os.Getpid(), host), 0o600)
	return lock.Close, "", nil
}

// explained says what to do about a file that can't be locked.
func explained(name string, err error) error {
	if !noLocks(err) {
		return err
	}
	return &gpu.Advice{
		What: fmt.Sprintf("the file system of %s has no locks, so two gpuwhys could write there at once", filepath.Dir(name)),
		Try:  "give --state-dir a folder on a disk of this machine, or mount this one with locks (NFS with lockd and without nolock, 9p and FUSE with flock)",
		Err:  err,
	}
}

// noLocks reports whether an error says that a file system can't lock.
func noLocks(err error) bool {
	return errors.Is(err, syscall.ENOLCK) || errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, errors.ErrUnsupported)
}
