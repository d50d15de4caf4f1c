//go:build unix

package state

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Bequeath gives a file that root has created to the owner of its folder: a service that runs as another user must be able to use what a
// command of root has left in its state directory. A link is not followed, and a file with another name elsewhere stays root's: the
// owner of the folder could have put either there.
func Bequeath(name string) error {
	return bequeath(name, func(info fs.FileInfo, links uint64) bool { return info.Mode().IsRegular() && links == 1 })
}

// MakeFolder makes a folder, with those above it, if it is not there yet. Only its owner may use it. One that root makes belongs to the owner of the
// folder above, as files do that root makes ([Bequeath]).
func MakeFolder(dir string) error {
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return os.MkdirAll(dir, 0o700) // which knows what is wrong
	}
	if above := filepath.Dir(dir); above != dir {
		if err := MakeFolder(above); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		if errors.Is(err, fs.ErrExist) { // somebody else has just made it
			return os.MkdirAll(dir, 0o700)
		}
		return err
	}
	return bequeath(dir, func(info fs.FileInfo, _ uint64) bool { return info.IsDir() })
}

// BelongsToRoot reports whether root owns a file or folder.
func BelongsToRoot(name string) bool {
	info, err := os.Stat(name)
	if err != nil {
		return false
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && s.Uid == 0
}

// bequeath gives away what root has made, if it still is that.
func bequeath(name string, is func(info fs.FileInfo, links uint64) bool) error {
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
	if now, ok := info.Sys().(*syscall.Stat_t); !ok || now.Uid != 0 || !is(info, uint64(now.Nlink)) { //nolint:unconvert // systems differ
		return nil
	}
	return f.Chown(int(heir.Uid), int(heir.Gid))
}
