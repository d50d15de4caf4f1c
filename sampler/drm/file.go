package drm

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// ErrMalformed is wrapped by the error of a file whose text is not what it should be.
var ErrMalformed = errors.New("unexpected text")

// mostFile is more than a driver's file can have: a page, of 64 KiB on some machines.
const mostFile = 64<<10 + 1

// A Folder has small files that the kernel answers, such as those of a card in sysfs.
type Folder struct {
	Path string
	// Read reads a file; nil stands for [ReadFile].
	Read func(file string) ([]byte, error)
}

// In is a folder within the folder, read in the same way.
func (f Folder) In(name string) Folder { return Folder{filepath.Join(f.Path, name), f.Read} }

// Bytes reads a file as it is.
func (f Folder) Bytes(name string) ([]byte, error) {
	file := filepath.Join(f.Path, name)
	if f.Read != nil {
		return f.Read(file)
	}
	return ReadFile(file)
}

// Text reads a file of one line, which it makes safe to be shown, see [Clean].
func (f Folder) Text(name string) (string, error) {
	b, err := f.Bytes(name)
	return Clean(string(b)), err
}

// Number reads a file that has a whole number. Numbers above 2^53 lose their last digits.
func (f Folder) Number(name string) (float64, error) {
	b, err := f.Bytes(name)
	if err != nil {
		return 0, err
	}
	return f.number(name, strings.TrimSpace(string(b)))
}

func (f Folder) number(name, text string) (float64, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return float64(n), nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w %.40q", filepath.Join(f.Path, name), ErrMalformed, text)
	}
	return float64(n), nil
}

// ID reads a file that has a number of up to 32 bits with "0x" before it, such as a PCI id.
func (f Folder) ID(name string) (uint32, error) {
	b, err := f.Bytes(name)
	if err != nil {
		return 0, err
	}
	text := strings.TrimSpace(string(b))
	n, err := strconv.ParseUint(strings.TrimPrefix(text, "0x"), 16, 32)
	if err != nil {
		return 0, fmt.Errorf("%s: %w %.40q", filepath.Join(f.Path, name), ErrMalformed, text)
	}
	return uint32(n), nil
}

// mostText is how long a text of the kernel may be that is shown, in bytes.
const mostText = 128

// Clean makes a text of the kernel or of a card safe to be shown: it is one line of 128
// bytes at most, without control characters and without white space around it.
func Clean(text string) string {
	if len(text) > 4*mostText {
		text = text[:4*mostText]
	}
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case r == 0:
			return -1
		case unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r):
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(text, string(utf8.RuneError)))
	text = strings.Join(strings.Fields(text), " ")
	for len(text) > mostText {
		_, last := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-last]
	}
	return strings.TrimSpace(text)
}

// errNotSupp is the kernel's ENOTSUPP. It has no number for programs, and drivers let it out all the same.
const errNotSupp = syscall.Errno(524)

// Quality is what an error of a file means for the reading:
//
//   - [gpu.NotSupported]: there is no such file, or the driver says that it does not offer it.
//   - [gpu.NotPermitted]: the file may not be read.
//   - [gpu.NotReported]: reading failed (EIO), the driver refuses for now, as amdgpu does
//     with EPERM while the card is reset, or the text is not what it should be.
func Quality(err error) gpu.Quality {
	var opened bool
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		opened = e.Op != "read"
	}
	switch {
	case errors.Is(err, syscall.EPERM) && !opened:
		return gpu.NotReported
	case errors.Is(err, fs.ErrPermission):
		return gpu.NotPermitted
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, errors.ErrUnsupported), errors.Is(err, syscall.ENODATA),
		errors.Is(err, errNotSupp), errors.Is(err, syscall.EINVAL) && !opened:
		return gpu.NotSupported
	default:
		return gpu.NotReported
	}
}

// Gone reports whether an error says that the device is no longer there.
func Gone(err error) bool { return errors.Is(err, syscall.ENODEV) || errors.Is(err, syscall.ENXIO) }

// absent is a reading without a value, for an error.
func absent[T any](err error) gpu.Reading[T] { return gpu.Absent[T](Quality(err)) }
