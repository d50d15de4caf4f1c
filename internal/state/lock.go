package state

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/regular"
)

// Lock locks a folder for this program until release is called or the program ends. If another
// program has it, the error is a [gpu.Advice] that says which.
func Lock(dir string) (release func() error, err error) {
	release, holder, err := LockFile(filepath.Join(dir, "lock"))
	switch {
	case noLocks(err):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("the state directory can't be locked: %w", err)
	case holder != "":
		return nil, &gpu.Advice{
			What: fmt.Sprintf("another gpuwhy, %s, uses the state directory %s", holder, dir),
			Try:  "stop it, or give this one its own --state-dir",
		}
	}
	return release, nil
}

// behalf is the process that a lock is for; 0: this one.
var behalf atomic.Int64

// OnBehalfOf says that this process takes locks for another one, which is the process to stop if somebody wants the
// folder.
func OnBehalfOf(pid int) { behalf.Store(int64(pid)) }

func owner() int {
	if pid := behalf.Load(); pid != 0 {
		return int(pid)
	}
	return os.Getpid()
}

const (
	held = "process %d on %s" // what a lock's file says
	// A killed program keeps its locks until the process that writes for it has ended too. This is how long, and how often, to
	// check for that.
	afterlife, lookAgain = 2 * time.Second, 20 * time.Millisecond
)

// orphaned reports whether a lock's file names a process of this machine that has ended.
func orphaned(holder string) bool {
	var pid int
	var host string
	if n, err := fmt.Sscanf(holder, held, &pid, &host); err != nil || n != 2 || pid <= 0 {
		return false
	}
	own, err := os.Hostname()
	return err == nil && host == own && !running(pid)
}

// LockFile locks a file that exists only for this purpose, and creates it if needed. If another program has it, holder
// says which, and release is nil.
func LockFile(name string) (release func() error, holder string, err error) {
	for end := time.Now().Add(afterlife); ; time.Sleep(lookAgain) {
		release, holder, err = lockFile(name)
		if err != nil || release != nil || !orphaned(holder) || time.Now().After(end) {
			return release, holder, err
		}
	}
}

func lockFile(name string) (release func() error, holder string, err error) {
	info, missing := os.Lstat(name)
	if missing == nil && info.Mode()&os.ModeSymlink != 0 {
		return nil, "", fmt.Errorf("%s is a link to another file: remove it", name)
	}
	lock := flock.New(name, flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o600)) // which waits for no pipe
	switch taken, err := lock.TryLock(); {
	case err != nil:
		return nil, "", explained(name, err)
	case !taken:
		holder, err := regular.Read(name, 1<<10)
		if holder = bytes.TrimSpace(holder); err != nil || len(holder) == 0 {
			holder = []byte("with no further details")
		}
		return nil, string(holder), nil
	}
	// This only tells people who has the lock: a full disk must not prevent a start.
	host, _ := os.Hostname()
	_ = os.WriteFile(name, fmt.Appendf(nil, held+"\n", owner(), host), 0o600)
	if missing != nil {
		if err := Bequeath(name); err != nil {
			return nil, "", errors.Join(err, lock.Close())
		}
	}
	return lock.Close, "", nil
}

// explained says what to do about a file that can't be locked.
func explained(name string, err error) error {
	if !noLocks(err) {
		return err
	}
	return &gpu.Advice{
		What: fmt.Sprintf("the file system of %s does not support locks, so two gpuwhys could write there at once", filepath.Dir(name)),
		Try:  "give --state-dir a folder on a local disk, or mount this one with locks (NFS with lockd and without nolock, 9p and FUSE with flock)",
		Err:  err,
	}
}

// noLocks reports whether an error says that a file system can't lock.
func noLocks(err error) bool {
	return errors.Is(err, syscall.ENOLCK) || errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, errors.ErrUnsupported)
}
