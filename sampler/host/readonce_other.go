//go:build !unix

package host

import (
	"errors"
	"io"
	"os"
	"strings"
)

// readOnce reads a short file.
func readOnce(file string) (string, error) {
	text, err := os.ReadFile(file)
	return strings.TrimSpace(string(text)), err
}

// readInto reads as much of a file as fits into buf.
func readInto(file string, buf []byte, _ int) (int, error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	n, err := io.ReadFull(f, buf)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return n, err
}
