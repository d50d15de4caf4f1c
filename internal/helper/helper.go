// Package helper runs parts of gpuwhy in processes of their own, so that a hung disk can't stop the program. A disk may hold a process
// in the kernel, where no signal reaches it. A helper runs the same program file. It ends when the process ends that started it, is
// started again when it ends by itself, and logs through the one that started it. Both talk over sockets that nobody else can reach.
//
// The package knows nothing of what is said over them.
package helper

import (
	"errors"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// Errors of a helper.
var (
	// ErrEnded says that the helper has ended, and is started again.
	ErrEnded = errors.New("the helper process has ended")
	// ErrClosed says that there is no helper any more.
	ErrClosed = errors.New("the helper process is not needed any more")
	// ErrSlow says that the helper takes no connection.
	ErrSlow = errors.New("the helper process does not answer")
	// ErrStuck says that the helper does not end, since a disk holds it.
	ErrStuck = errors.New("the disk holds a helper process, which ends when the disk answers")
)

// Share is how much of a limit of memory, which people have set for gpuwhy (GOMEMLIMIT), is that of each helper. The program that
// has so many helpers keeps the rest.
func Share(limit int64, helpers int) (each, rest int64) {
	each = limit / 4
	return each, limit - int64(helpers)*each
}

// exhausted is the advice where there is no file descriptor left.
func exhausted(err error) error {
	return &gpu.Advice{
		What: "gpuwhy has no file descriptor left for its helper process",
		Try:  "raise the limit of open files (ulimit -n, or LimitNOFILE= of its service), or ask for less at once",
		Err:  err,
	}
}
