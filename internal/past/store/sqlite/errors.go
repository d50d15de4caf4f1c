package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// kind is the error of package store that an error of SQLite or of the system is; nil: none of them.
func kind(err error) error {
	if failed, ok := errors.AsType[*sqlite.Error](err); ok {
		if failed.Code() == lib.SQLITE_IOERR_SHMSIZE {
			return store.ErrFull
		}
		switch failed.Code() & 0xff { // the rest says where
		case lib.SQLITE_FULL:
			return store.ErrFull
		case lib.SQLITE_READONLY, lib.SQLITE_PERM, lib.SQLITE_AUTH:
			return store.ErrReadOnly
		case lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB:
			return store.ErrCorrupt
		case lib.SQLITE_BUSY, lib.SQLITE_LOCKED, lib.SQLITE_PROTOCOL:
			return store.ErrLocked
		case lib.SQLITE_IOERR, lib.SQLITE_CANTOPEN:
			return store.ErrGone
		}
		return nil
	}
	switch {
	case errors.Is(err, store.ErrCorrupt):
		return store.ErrCorrupt
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return store.ErrFull
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return store.ErrReadOnly
	}
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return store.ErrGone
	}
	return nil
}

// advise says what to do about an error of the database in a file. Its users get what is no error of the database as it is.
func advise(file string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if _, ok := errors.AsType[*gpu.Advice](err); ok {
		return err
	}
	if exhausted(err) {
		return &gpu.Advice{
			What: "gpuwhy has no file descriptor left to open " + file,
			Try:  "raise the limit of open files (ulimit -n, or LimitNOFILE= of its service), or ask for less at once",
			Err:  fmt.Errorf("%w: %w", store.ErrGone, err),
		}
	}
	is := kind(err)
	advice := gpu.Advice{Err: err}
	if is != nil && !errors.Is(err, is) {
		advice.Err = fmt.Errorf("%w: %w", is, err)
	}
	switch {
	case errors.Is(is, store.ErrFull):
		advice.What, advice.Try = "the disk with "+file+" is full", "free some space, or keep less with --history-retention"
	case errors.Is(is, store.ErrReadOnly):
		advice.What = file + " can't be written to"
		advice.Try = "give the user that runs gpuwhy write access to " + filepath.Dir(file) + ", or name another folder with --state-dir"
	case errors.Is(is, store.ErrCorrupt):
		advice.What, advice.Try = file+" is damaged", "keep gpuwhy running, or start it: it sets the file aside and begins a new one"
	case errors.Is(is, store.ErrLocked):
		advice.What, advice.Try = "another program has locked "+file, "stop the other program that reads or writes the file"
	case errors.Is(is, store.ErrGone):
		advice.What, advice.Try = file+" can't be reached", "check that its disk is there and answers"
	default:
		return fmt.Errorf("%s: %w", file, err)
	}
	return &advice
}

// exhausted reports whether what failed was for want of a file descriptor. SQLite says only that it can't open a file: whether
// another one can be opened tells why.
func exhausted(err error) bool {
	if failed, ok := errors.AsType[*sqlite.Error](err); ok && failed.Code()&0xff == lib.SQLITE_CANTOPEN {
		var null *os.File
		if null, err = os.Open(os.DevNull); err == nil {
			_ = null.Close() // nothing was written
		}
	}
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

func irregular(file string) error {
	return &gpu.Advice{What: file + " is not a regular file", Try: "remove it, or name another folder with --state-dir"}
}

func foreign(file string) error {
	return &gpu.Advice{What: file + " is another program's database", Try: "move it away, or name another folder with --state-dir"}
}
