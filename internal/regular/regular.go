// Package regular reads files that people or earlier runs have written: state, rules, addresses.
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

// ErrIrregular is the error for anything that is not a regular file: a directory, or a pipe or
// device, which might never end or never begin.
var ErrIrregular = errors.New("it is not a regular file")

// ErrLong is the error for a file that is too long.
var ErrLong = errors.New("it is too long")

// ErrSlow is the error for a disk that does not answer, such as a mount whose server is gone.
var ErrSlow = errors.New("the disk does not answer")

// patience is how long a disk may take, and looks how often that is measured: of the time in which this program
// is stopped, one of them passes at most. The disk may have answered meanwhile.
const (
	patience = 5 * time.Second
	looks    = 10
)

// InTime runs a function that a dead mount might block for ever. After 5 s it returns [ErrSlow],
// and do continues in the background.
func InTime[T any](do func() (T, error)) (T, error) { return Within(patience, do) }

// Within is [InTime] with a time limit other than 5 s.
func Within[T any](span time.Duration, do func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := do()
		done <- result{value, err}
	}()
	passes := time.NewTicker(max(span/looks, 1))
	defer passes.Stop()
	for range looks {
		select {
		case r := <-done:
			return r.value, r.err
		case <-passes.C:
		}
	}
	var none T
	return none, ErrSlow
}

// Read reads a regular file of at most so many bytes, within 5 s. Errors are
// [fs.PathError], which wrap ErrIrregular, ErrLong and ErrSlow.
func Read(name string, most int64) ([]byte, error) {
	text, err := InTime(func() ([]byte, error) { return read(name, most) })
	if errors.Is(err, ErrSlow) {
		err = &fs.PathError{Op: "read", Path: name, Err: err}
	}
	return text, err
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
