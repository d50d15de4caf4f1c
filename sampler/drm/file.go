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

// ErrMalformed is wrapped by the error of a file whose text has an unexpected form.
var ErrMalformed = errors.New("unexpected text")

// mostFile is more than a driver's file can have: one page, of 64 KiB on some machines.
const mostFile = 64<<10 + 1

// A Folder has small files that the kernel answers, such as a card's folder in sysfs.
type Folder struct {
	Path string
	// Read reads a file; nil means [ReadFile].
	Read func(file string) ([]byte, error)
}

// In returns a subfolder, read in the same way.
func (f Folder) In(name string) Folder { return Folder{filepath.Join(f.Path, name), f.Read} }

// Bytes reads a file as it is.
func (f Folder) Bytes(name string) ([]byte, error) {
	file := filepath.Join(f.Path, name)
	if f.Read != nil {
		return f.Read(file)
	}
	return ReadFile(file)
}

// Text reads a one-line file and makes it safe to show; see [Clean].
func (f Folder) Text(name string) (string, error) {
	b, err := f.Bytes(name)
	return Clean(string(b)), err
}

// Number reads a file with a whole number. Numbers above 2^53 lose their last digits.
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

// ID reads a file with a number of up to 32 bits after "0x", such as a PCI id.
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

// mostText is the longest text from the kernel that is shown, in bytes.
const mostText = 128

// Clean makes a text from the kernel or a card safe to show: one line of at most 128 bytes, without control characters and without
// surrounding white space.
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

// errNotSupp is the kernel's internal ENOTSUPP. Programs should never see it, but drivers return it all the same.
const errNotSupp = syscall.Errno(524)

// Quality says what a file's error means for the reading:
//
//   - [gpu.NotSupported]: the file does not exist, or the driver says that it does not offer it.
//   - [gpu.NotPermitted]: the file may not be read.
//   - [gpu.NotReported]: reading failed (EIO), the driver refuses for now, as amdgpu does
//     with EPERM while the card is reset, or the text has an unexpected form.
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

// Gone reports whether an error means that the device no longer exists.
func Gone(err error) bool { return errors.Is(err, syscall.ENODEV) || errors.Is(err, syscall.ENXIO) }

// absent returns a reading without a value, for an error.
func absent[T any](err error) gpu.Reading[T] { return gpu.Absent[T](Quality(err)) }
