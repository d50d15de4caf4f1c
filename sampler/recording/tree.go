package recording

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"
)

// A Tree is the files below a folder, such as /sys, as one text. Not every disk can store such file names ("0000:03:00.0"), or links. Each
// file begins with a line:
//
//	== class/drm/card0 -> ../../devices/pci0000:00/0000:03:00.0/drm/card0
//	== devices/pci0000:00/0000:03:00.0/vendor
//	0x1002
//	== devices/pci0000:00/0000:03:00.0/gpu_metrics (hex)
//	78000103
//	== devices/pci0000:00/0000:03:00.0/unique_id (open: EACCES)
//
// The lines after it are the file's content; "(hex)" marks content that is not text. A file that could not be read has the failed call and
// its error. Lines before the first file are comments.
type Tree map[string]Entry

// An Entry is one file of a [Tree].
type Entry struct {
	Link  string // its target, relative to its own folder; empty for a file
	Text  []byte
	Error error // an [fs.PathError] without a path, if the file can't be read
}

const mark = "== "

var errnos = map[string]syscall.Errno{
	"EACCES": syscall.EACCES, "EPERM": syscall.EPERM, "EIO": syscall.EIO, "ENODEV": syscall.ENODEV, "ENXIO": syscall.ENXIO,
	"EINVAL": syscall.EINVAL, "EOPNOTSUPP": syscall.EOPNOTSUPP, "EAGAIN": syscall.EAGAIN, "EBUSY": syscall.EBUSY,
	"ETIMEDOUT": syscall.ETIMEDOUT, "ENODATA": syscall.ENODATA, "ENOMEM": syscall.ENOMEM, "ENOENT": syscall.ENOENT,
	"EISDIR": syscall.EISDIR, "ESRCH": syscall.ESRCH,
	"ENOTSUPP": syscall.Errno(524), // internal to the kernel, which should never return it
}

// Failed returns the entry of a file that can't be read. An error without a name in the format becomes EIO.
func Failed(err error) Entry {
	failed := &fs.PathError{Op: "read", Err: syscall.EIO}
	if e, ok := errors.AsType[*fs.PathError](err); ok && e.Op == "open" {
		failed.Op = "open"
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok && slices.Contains(slices.Collect(maps.Values(errnos)), errno) {
		failed.Err = errno
	}
	return Entry{Error: failed}
}

// Bytes returns the tree as text, in the order of the names.
func (t Tree) Bytes() []byte {
	var out bytes.Buffer
	names := make([]string, 0, len(t))
	for name := range t {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		switch e := t[name]; {
		case e.Link != "":
			fmt.Fprintf(&out, "%s%s -> %s\n", mark, name, e.Link)
		case e.Error != nil:
			fmt.Fprintf(&out, "%s%s (%s)\n", mark, name, failure(e.Error))
		case !plain(e.Text):
			fmt.Fprintf(&out, "%s%s (hex)\n", mark, name)
			for line := range slices.Chunk(e.Text, 32) {
				fmt.Fprintf(&out, "%x\n", line)
			}
		default:
			fmt.Fprintf(&out, "%s%s\n%s", mark, name, e.Text)
		}
	}
	return out.Bytes()
}

func failure(err error) string {
	op := "read"
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		op = e.Op
	}
	is, _ := errors.AsType[syscall.Errno](err)
	for name, errno := range errnos {
		if is == errno {
			return op + ": " + name
		}
	}
	return op + ": EIO"
}

// plain reports whether a text can be written as it is: complete lines, none of which looks like the start of a file.
func plain(text []byte) bool {
	if len(text) == 0 {
		return true
	}
	control := func(r rune) bool { return r == utf8.RuneError || unicode.IsControl(r) && r != '\n' && r != '\t' }
	return text[len(text)-1] == '\n' && utf8.Valid(text) && !bytes.ContainsFunc(text, control) &&
		!bytes.HasPrefix(text, []byte(mark)) && !bytes.Contains(text, []byte("\n"+mark))
}

// ParseTree parses a tree that Bytes, or a person, has written.
func ParseTree(text []byte) (Tree, error) {
	t := Tree{}
	name, isHex := "", false
	for line := range bytes.Lines(text) {
		head, is := bytes.CutPrefix(line, []byte(mark))
		if !is {
			if name != "" {
				e := t[name]
				if e.Link != "" || e.Error != nil {
					return nil, fmt.Errorf("%s has a text, and is no file", name)
				}
				if isHex {
					b, err := hex.DecodeString(strings.Join(strings.Fields(string(line)), ""))
					if err != nil {
						return nil, fmt.Errorf("%s: %w", name, err)
					}
					line = b
				}
				e.Text = append(e.Text, line...)
				t[name] = e
			}
			continue
		}
		var e Entry
		name, isHex = strings.TrimRight(string(head), "\r\n"), false
		if file, target, is := strings.Cut(name, " -> "); is {
			name, e.Link = file, target
		} else if file, note, is := strings.Cut(strings.TrimSuffix(name, ")"), " ("); is {
			name, isHex = file, note == "hex"
			if op, errno, is := strings.Cut(note, ": "); is && errnos[errno] != 0 && (op == "open" || op == "read") {
				e.Error = &fs.PathError{Op: op, Err: errnos[errno]}
			} else if !isHex {
				return nil, fmt.Errorf("%s: nobody knows what (%s) is", name, note)
			}
		}
		if !Name(name) {
			return nil, fmt.Errorf("%q is no name of a file", name)
		}
		if e.Link != "" && (strings.ContainsFunc(e.Link, unicode.IsSpace) || !inside(name, e.Link)) {
			return nil, fmt.Errorf("%s leads out of the folder, to %s", name, e.Link)
		}
		if _, twice := t[name]; twice {
			return nil, fmt.Errorf("%s is there twice", name)
		}
		t[name] = e
	}
	for name := range t {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if _, is := t[dir]; is {
				return nil, fmt.Errorf("%s is below %s, which is no folder", name, dir)
			}
		}
	}
	return t, nil
}

// Name reports whether a tree can have a file of that name. The kernel uses no other names.
func Name(name string) bool {
	odd := func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || r == utf8.RuneError || strings.ContainsRune(`()\`, r)
	}
	return filepath.IsLocal(name) && name == path.Clean(name) && name != "." && !strings.ContainsFunc(name, odd)
}

// inside reports whether a link stays below the root. A link to a device ("/dev/dri/card0") is the text of a descriptor, and is never
// followed.
func inside(name, target string) bool {
	if strings.HasPrefix(target, "/dev/") {
		return true
	}
	return !path.IsAbs(target) && filepath.IsLocal(path.Join(path.Dir(name), target))
}

// Unpack writes the tree, with its links, below a folder. Unreadable files are empty; see Reader.
func (t Tree) Unpack(root string) error {
	for name, e := range t {
		file := filepath.Join(root, filepath.FromSlash(name))
		if e.Link != "" {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(file, e.Text, 0o600); err != nil {
			return err
		}
	}
	for name, e := range t { // after the files, so that none is written through a link
		if e.Link == "" {
			continue
		}
		file := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			return err
		}
		if err := os.Symlink(filepath.FromSlash(e.Link), file); err != nil {
			return err
		}
	}
	return nil
}

// Reader returns a function that reads the files of an unpacked tree with read, and fails for files that could not be read.
func (t Tree) Reader(root string, read func(string) ([]byte, error)) func(string) ([]byte, error) {
	return func(file string) ([]byte, error) {
		if name, err := filepath.Rel(root, file); err == nil {
			if e, ok := errors.AsType[*fs.PathError](t[filepath.ToSlash(name)].Error); ok {
				return nil, &fs.PathError{Op: e.Op, Path: file, Err: e.Err}
			}
		}
		return read(file)
	}
}
