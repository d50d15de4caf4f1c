package keep

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/regular"
)

// Lock takes a folder for this program alone, until release is called or the program
// ends, however it ends. If another program has it, the error is a [gpu.Advice] that
// says which.
func Lock(dir string) (release func() error, err error) {
	name := filepath.Join(dir, "lock")
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
	host, _ := os.Hostname() // only to tell people
	if err := os.WriteFile(name, fmt.Appendf(nil, "process %d on %s\n", os.Getpid(), host), 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("the state directory can't be written to: %w", err), lock.Close())
	}
	return lock.Close, nil
}
