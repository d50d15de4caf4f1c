// Package regular reads files that people and earlier runs have written: state,
// rules, addresses.
package regular

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// ErrIrregular is the error of what is no regular file: a directory, or a pipe or
// a device, which might have no end or never begin.
var ErrIrregular = errors.New("it is no regular file")

// ErrLong is the error of a file that is longer than it may be.
var ErrLong = errors.New("it is too long")

// Read reads a regular file of at most so many bytes. Errors are [fs.PathError],
// which wrap ErrIrregular and ErrLong.
func Read(name string, most int64) ([]byte, error) {
	file, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // opening a pipe would wait for a writer
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: name, Err: ErrIrregular}
	}
	text, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && int64(len(text)) > most {
		err = &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("%w: more than %d KiB", ErrLong, most>>10)}
	}
	if err != nil {
		return nil, err
	}
	return text, nil
}
