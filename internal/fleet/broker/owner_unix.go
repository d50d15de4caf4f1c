//go:build unix

package broker

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// giveOwner gives files that root has changed to the directory's owner, since the server runs as that user.
func (a *Authority) giveOwner() error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Stat(a.dir)
	if err != nil {
		return fmt.Errorf("the fleet's keys: %w", err)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || owner.Uid == 0 {
		return nil
	}
	for _, name := range []string{authorityFile, lockFile} {
		if err := os.Lchown(filepath.Join(a.dir, name), int(owner.Uid), int(owner.Gid)); err != nil {
			return fmt.Errorf("the fleet's keys: %w", err)
		}
	}
	return nil
}
