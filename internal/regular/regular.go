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
	"time"
)

// ErrIrregular is the error of what is no regular file: a directory, or a pipe or
// a device, which might have no end or never begin.
var ErrIrregular = errors.New("it is no regular file")

// ErrLong is the error of a file that is longer than it may be.
var ErrLong = errors.New("it is too long")

// ErrSlow is the error of a file that can't be read in time, as on a mount whose
// server is gone.
var ErrSlow = errors.New("it can't be read in time")

// patience is how long a file may take.
const patience = 5 * time.Second

// Read reads a regular file of at most so many bytes, within 5 s. Errors are
// [fs.PathError], which wrap ErrIrregular, ErrLong and ErrSlow.
func Read(name string, most int64) ([]byte, error) {
	type result struct {
		text []byte
		err  error
	}
	done := make(chan result, 1)
	go func() { // a dead mount holds it for ever
		text, err := read(name, most)
		done <- result{text, err}
	}()
	select {
	case r := <-done:
		return r.text, r.err
	case <-time.After(patience):
		return nil, &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("%w: not within %v", ErrSlow, patience)}
	}
}

func read(name string, most int64) ([]byte, error) {
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
