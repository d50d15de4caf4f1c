package control

import (
	"context"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/gpuwhy/gpuwhy/internal/access/peer"
	"github.com/gpuwhy/gpuwhy/internal/regular"
)

// nameOf returns the name of a directory's socket, and the directory's owner. Whatever path leads to the directory, the name is the same.
func nameOf(dir string) (name string, owner peer.UID, err error) {
	at, err := regular.InTime(func() (at unix.Stat_t, err error) { return at, unix.Stat(dir, &at) })
	if err != nil {
		return "", 0, &os.PathError{Op: "stat", Path: dir, Err: err}
	}
	return fmt.Sprintf("@gpuwhy/%x-%x", at.Dev, at.Ino), peer.UID(at.Uid), nil
}

func listen(ctx context.Context, name string) (net.Listener, error) {
	return new(net.ListenConfig).Listen(ctx, "unix", name)
}
