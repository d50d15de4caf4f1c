package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/neterr"
	"github.com/gpuwhy/gpuwhy/internal/serve"
)

// listenHere opens the address of the page, or returns what is wrong with it.
func (f *programFlags) listenHere(ctx context.Context) (net.Listener, error) {
	if path, unix := serve.UnixSocket(f.address()); unix {
		return listenUnix(ctx, path, f.OwnerGroup)
	}
	return listen(ctx, "listen", f.address())
}

// A socketFile is the listener of a Unix socket. Closing it removes the file.
type socketFile struct {
	net.Listener
	path  string
	made  fs.FileInfo
	close func() error
}

// Addr implements [net.Listener].
func (s *socketFile) Addr() net.Addr { return &net.UnixAddr{Name: s.path, Net: "unix"} }

// Close implements [net.Listener].
func (s *socketFile) Close() error { return s.close() }

// remove removes the file, unless another program has replaced it.
func (s *socketFile) remove() error {
	if now, err := os.Lstat(s.path); err == nil && os.SameFile(now, s.made) {
		return os.Remove(s.path)
	}
	return nil
}

// listenUnix listens on a socket that its owner and its group may use: the owner group, or else the group of this program. It takes the
// place of a socket on which nobody listens any more.
func listenUnix(ctx context.Context, path, group string) (_ net.Listener, err error) {
	if err := free(ctx, path); err != nil {
		return nil, err
	}
	// It gets its name once others may only do with it what they should.
	temporary := fmt.Sprintf("%s.%d", path, os.Getpid())
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, unusable(path, err)
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "unix", temporary)
	if err != nil {
		return nil, unusable(path, err)
	}
	if own, ok := ln.(*net.UnixListener); ok {
		own.SetUnlinkOnClose(false)
	}
	s := &socketFile{Listener: ln, path: path}
	s.close = sync.OnceValue(func() error { return errors.Join(s.remove(), ln.Close()) })
	if err = errors.Join(giveTo(temporary, group), os.Chmod(temporary, 0o660)); err == nil {
		s.made, err = os.Lstat(temporary)
	}
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		return nil, errors.Join(unusable(path, err), os.Remove(temporary), ln.Close())
	}
	return s, nil
}

// free returns why a path can't be that of a new socket.
func free(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return unusable(path, err)
	case info.Mode()&fs.ModeSocket == 0:
		return usageError{bad("listen", "unix:"+path, "this file is no socket: choose another path")}
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		return errors.Join(&gpu.Advice{What: "another program is listening on unix:" + path, Try: "stop it, or choose another path with --listen"}, conn.Close())
	case neterr.Refused(err): // it is left over
		return nil
	default:
		return unusable(path, err)
	}
}

// giveTo gives a file to a group, if there is such a group.
func giveTo(path, group string) error {
	if group == "" {
		return nil
	}
	found, err := user.LookupGroup(group)
	if _, none := errors.AsType[user.UnknownGroupError](err); none {
		return nil
	}
	if err != nil {
		return err
	}
	gid, err := strconv.Atoi(found.Gid)
	if err != nil {
		return err
	}
	if err := os.Lchown(path, -1, gid); err != nil {
		return fmt.Errorf("it can't be given to the group %s, of which the user who runs gpuwhy has to be a member: %w", group, err)
	}
	return nil
}

func unusable(path string, err error) error {
	return &gpu.Advice{
		What: "can't listen on unix:" + path, Try: "give --listen the path of a socket in a folder that exists and that gpuwhy may write to, such as unix:" +
			filepath.Join("/run/gpuwhy", "page") + " (" + err.Error() + ")", Err: err,
	}
}
