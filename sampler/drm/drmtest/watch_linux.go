package drmtest

import (
	"bytes"
	"io/fs"
	"path/filepath"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Watch records which files and folders below root anybody opens. The returned function lists those opened since then, each once and
// relative to root.
func Watch(t testing.TB, root string) (opened func() []string) {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	dirs := map[int32]string{}
	err = filepath.WalkDir(root, func(dir string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		id, err := unix.InotifyAddWatch(fd, dir, unix.IN_OPEN)
		dirs[int32(id)] = dir
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	events := func() (names []string) {
		buf := make([]byte, 1<<20)
		for {
			n, err := unix.Read(fd, buf)
			if err != nil || n <= 0 {
				slices.Sort(names)
				return slices.Compact(names)
			}
			for offset := 0; offset+unix.SizeofInotifyEvent <= n; {
				e := (*unix.InotifyEvent)(unsafe.Pointer(&buf[offset]))
				name := buf[offset+unix.SizeofInotifyEvent:][:e.Len]
				offset += unix.SizeofInotifyEvent + int(e.Len)
				file := filepath.Join(dirs[e.Wd], string(bytes.TrimRight(name, "\x00")))
				relative, err := filepath.Rel(root, file)
				if err != nil {
					t.Fatal(err)
				}
				names = append(names, relative)
			}
		}
	}
	events() // events caused by setting up the watches
	return events
}
