package ownfile

import (
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
	for _, s := range all {
		if _, _, errno := syscall.Syscall(syscall.SYS_MADVISE, s.from, s.to-s.from, syscall.MADV_DONTNEED); errno != 0 {
			return fmt.Errorf("madvise of %x-%x: %w", s.from, s.to, errno)
		}
	}
	return nil
}
