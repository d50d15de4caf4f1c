package ownfile

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// release lets go of the program's file. A program's own mappings stay where they are until it
// ends, those of libraries may not: their addresses could be the heap's by now.
func release() error {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	return releaseOf(program)
}

var errNone = errors.New("/proc/self/smaps has no mapping of it that nobody wrote to")

func releaseOf(file string) error {
	smaps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return err
	}
	defer smaps.Close()
	all, err := unwritten(smaps, file)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return fmt.Errorf("%w: %s", errNone, file)
	}
	for _, s := range all {
		if _, _, errno := syscall.Syscall(syscall.SYS_MADVISE, s.from, s.to-s.from, syscall.MADV_DONTNEED); errno != 0 {
			return fmt.Errorf("madvise of %x-%x: %w", s.from, s.to, errno)
		}
	}
	return nil
}
