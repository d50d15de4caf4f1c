// Package helper runs parts of gpuwhy in processes of their own, so that a hung disk can't stop the program. They do work during
// which a disk may block a process in the kernel, where no signal reaches it. A helper ends when the process that started it
// ends, is restarted if it ends on its own, and logs through its starter. The two talk over sockets that nobody else can reach.
//
// The package knows nothing about what they say.
package helper

import (
	"errors"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// Errors of a helper.
var (
	// ErrEnded says that the helper has ended and is being restarted.
	ErrEnded = errors.New("the helper process has ended")
	// ErrClosed says that there is no longer a helper.
	ErrClosed = errors.New("the helper process is no longer needed")
	// ErrSlow says that the helper accepts no connection.
	ErrSlow = errors.New("the helper process does not answer")
	// ErrStuck says that the helper does not end because a disk blocks it.
	ErrStuck = errors.New("a helper process is stuck on the disk and ends when the disk answers")
)

// Share splits a memory limit that people have set for gpuwhy (GOMEMLIMIT): each helper gets a share, and the program keeps the
// rest.
func Share(limit int64, helpers int) (each, rest int64) {
	each = limit / 4
	return each, limit - int64(helpers)*each
}

// exhausted is the advice if there is no file descriptor left.
func exhausted(err error) error {
	return &gpu.Advice{
		What: "gpuwhy has no file descriptor left for its helper process",
		Try:  "raise the limit on open files (ulimit -n, or LimitNOFILE= in its service), or request less at once",
		Err:  err,
	}
}
