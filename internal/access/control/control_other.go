//go:build !linux

package control

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"

	"github.com/gpuwhy/gpuwhy/internal/access/peer"
)

// nameOf returns the name of a directory's socket, and the directory's owner.
func nameOf(dir string) (name string, owner peer.UID, err error) {
	info, err := os.Stat(dir)
	if err != nil {
		return "", 0, err
	}
	return filepath.Join(dir, "control.socket"), ownerOf(info), nil
}

// listen replaces the socket of a program that was killed: the directory is locked, so that program has ended.
func listen(ctx context.Context, name string) (net.Listener, error) {
	if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "unix", name)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(name, 0o600); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	return ln, nil
}
