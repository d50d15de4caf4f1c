//go:build unix

package state

import (
	"os"
	"path/filepath"
	"syscall"
)

// Bequeath gives a file that root has created to the owner of its folder: a service that runs as another user must be able to use what a
// command of root has left in its state directory. A link is not followed, and a file with another name elsewhere stays root's: the
// owner of the folder could have put either there.
func Bequeath(name string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	folder, err := os.Stat(filepath.Dir(name))
	if err != nil {
		return err
	}
	heir, ok := folder.Sys().(*syscall.Stat_t)
	if !ok || heir.Uid == 0 {
		return nil
	}
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if now, ok := info.Sys().(*syscall.Stat_t); !ok || !info.Mode().IsRegular() || now.Uid != 0 || now.Nlink != 1 {
		return nil
	}
	return f.Chown(int(heir.Uid), int(heir.Gid))
}
