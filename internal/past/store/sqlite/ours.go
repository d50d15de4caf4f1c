package sqlite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// What the header of an SQLite file begins with, how long it is, and where it has the mark of the program that made the file, in bytes.
const (
	magic      = "SQLite format 3\x00"
	headerSize = 100
	markAt     = 68
)

// A claim is what the beginning of a file says of whose it is.
type claim uint8

// The claims. Nothing of a file of another program is ever renamed, replaced or made beside it.
const (
	unclaimed claim = iota // it is empty, not there, or a database without a mark: SQLite can say more
	unknown                // it is no database
	others                 // a database of another program
	own
)

func claimOf(file string) claim {
	if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() { // opening it says why it can't be used
		return unclaimed
	}
	opened, err := os.Open(file)
	if err != nil {
		return unclaimed
	}
	defer opened.Close()
	header := make([]byte, headerSize)
	n, err := io.ReadFull(opened, header)
	switch {
	case errors.Is(err, io.EOF):
		return unclaimed
	case n < headerSize || !strings.HasPrefix(string(header), magic):
		return unknown
	}
	switch binary.BigEndian.Uint32(header[markAt:]) {
	case application:
		return own
	case 0: // a program that was killed has its mark in the log
		return unclaimed
	}
	return others
}

// mayUse says why the file of a name must not be touched; target is the file itself, where the name is a link.
func mayUse(name, target string) error {
	switch c := claimOf(target); {
	case c == others:
		return foreign(target)
	case c == unknown && name != target:
		return foreignLink(name, target)
	}
	return nil // what is no database lies where gpuwhy keeps its own: it is set aside
}

// maySetAside says why a damaged file must not be renamed. Where a link leads, only a file that has our mark is ours.
func maySetAside(name, target string) error {
	if name != target && claimOf(target) != own {
		return foreignLink(name, target)
	}
	return mayUse(name, target)
}

func foreignLink(name, target string) error {
	return &gpu.Advice{
		What: fmt.Sprintf("%s is a link to %s, which is not a gpuwhy database: gpuwhy leaves it alone", name, target),
		Try:  "remove the link, or name another folder with --state-dir",
	}
}
