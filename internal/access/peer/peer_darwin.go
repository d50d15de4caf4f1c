package peer

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// ofUnix returns the user who connected, or who listened when this program connected.
func ofUnix(conn *net.UnixConn) (UID, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	var found *unix.Xucred
	var failed error
	if err := raw.Control(func(fd uintptr) { found, failed = unix.GetsockoptXucred(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERCRED) }); err != nil || failed != nil {
		return 0, fmt.Errorf("%w: %w", ErrUnknown, cmp.Or(err, failed))
	}
	return UID(found.Uid), nil
}

// ofTCP knows nobody: macOS tells only root about sockets of others.
func ofTCP(_, _ netip.AddrPort) (UID, error) {
	return 0, fmt.Errorf("%w: macOS says it only for Unix sockets; listen on one with --listen unix:PATH", ErrUnknown)
}
