//go:build !linux

package helper

import (
	"errors"
	"log/slog"
	"net"
	"time"
)

// A Helper is a process. Only Linux has them.
type Helper struct{}

// A Process is one that runs.
type Process struct{}

// A Task is the job that a helper was started for.
type Task struct {
	Args  []string
	Owner int
	Log   *slog.Logger
}

// New returns a helper that never runs.
func New(string, []string, *slog.Logger) *Helper { return &Helper{} }

// Running returns [errors.ErrUnsupported].
func (*Helper) Running() (*Process, error) { return nil, errors.ErrUnsupported }

// Begin returns [errors.ErrUnsupported].
func (*Helper) Begin() (*Process, error) { return nil, errors.ErrUnsupported }

// Pid is 0.
func (*Helper) Pid() int { return 0 }

// Close ends nothing.
func (*Helper) Close(time.Duration) error { return nil }

// Cost is never called.
func Cost(int) (resident int64, cpu time.Duration, err error) { return 0, 0, errors.ErrUnsupported }

// Ended is never called.
func (*Process) Ended() <-chan struct{} { return nil }

// Dial is never called.
func (*Process) Dial() (net.Conn, error) { return nil, errors.ErrUnsupported }

// Accept is never called.
func (*Task) Accept() (net.Conn, error) { return nil, errors.ErrUnsupported }

// Asked reports whether a program's arguments are those of a helper.
func Asked([]string) bool { return false }

// Run is never called.
func Run([]string, map[string]func(*Task)) int { return 2 }
