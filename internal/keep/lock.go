package keep

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/regular"
)

// Lock takes a folder for this program alone, until release is called or the program
// ends. If another program has it, the error is a [gpu.Advice] that says which.
func Lock(dir string) (release func() error, err error) {
	name := filepath.Join(dir, "lock")
	if info, err := os.Lstat(name); err == nil && info.Mode()&os.ModeSymlink != 0 {
		return nil, fmt.Errorf("%s is a link to another file: remove it", name)
	}
	lock := flock.New(name, flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o600)) // which waits for no pipe
	switch taken, err := lock.TryLock(); {
	case err != nil:
		return nil, fmt.Errorf("the state directory can't be locked: %w", err)
	case !taken:
		holder, err := regular.Read(name, 1<<10)
		if holder = bytes.TrimSpace(holder); err != nil || len(holder) == 0 {
			holder = []byte("of which no more is known")
		}
		return nil, &gpu.Advice{
			What: fmt.Sprintf("another gpuwhy, %s, keeps its state in %s", holder, dir),
			Try:  "end it, or give this one a --state-dir of its own",
		}
	}
	// This only tells people who has it: a full disk keeps nothing from starting.
	host, _ := os.Hostname()
	_ = os.WriteFile(name, fmt.Appendf(nil, "process %d on %s\n", os.Getpid(), host), 0o600)
	return lock.Close, nil
}
