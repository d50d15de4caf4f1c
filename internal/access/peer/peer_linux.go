package peer

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// ofUnix returns the user who connected, or who listened when this program connected.
func ofUnix(conn *net.UnixConn) (UID, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	var found *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) { found, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil || failed != nil {
		return 0, fmt.Errorf("%w: %w", ErrUnknown, cmp.Or(err, failed))
	}
	return known(UID(found.Uid))
}

// ofTCP returns the user of the socket that has the connection's ends the other way round.
func ofTCP(local, remote netip.AddrPort) (UID, error) {
	s := pair{own: unmapped(remote), other: unmapped(local)}
	found, err := s.ask()
	if errors.Is(err, errNoDiag) {
		found, err = s.search("/proc/thread-self/net")
	}
	if err != nil {
		return 0, err
	}
	return known(found)
}

func unmapped(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}

// known refuses the number that stands for all users who do not exist in this program's user namespace.
func known(uid UID) (UID, error) {
	if overflow, partly := overflowUID(); partly && uid == overflow {
		return 0, fmt.Errorf("%w: it is none of this user namespace", ErrUnknown)
	}
	return uid, nil
}

// overflowUID returns that number, and whether this user namespace lacks users.
var overflowUID = sync.OnceValues(func() (UID, bool) {
	overflow := UID(65534)
	if text, err := os.ReadFile("/proc/sys/kernel/overflowuid"); err == nil {
		if n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32); err == nil {
			overflow = UID(n)
		}
	}
	all, err := os.ReadFile("/proc/self/uid_map")
	return overflow, err != nil || strings.Join(strings.Fields(string(all)), " ") != "0 0 4294967295"
})

// A pair is both ends of a connection as the other end's socket has them.
type pair struct{ own, other netip.AddrPort }

// errNoDiag is returned where the kernel can't be asked by NETLINK_SOCK_DIAG.
var errNoDiag = errors.New("there is no NETLINK_SOCK_DIAG")

var errNoSocket = fmt.Errorf("%w: this network namespace has no such open socket", ErrUnknown)

// The layout of struct inet_diag_req_v2 and struct inet_diag_msg, behind a struct nlmsghdr (linux/inet_diag.h, linux/netlink.h).
const (
	headerSize  = unix.SizeofNlMsghdr
	requestSize = headerSize + 56
	answerSize  = headerSize + 72

	sockDiagByFamily = 20 // SOCK_DIAG_BY_FAMILY
	noCookie         = ^uint32(0)
)

// ask asks for exactly that socket. A kernel without the module for this answers as if there were no socket, so it is tried once with one
// that exists.
func (s pair) ask() (UID, error) {
	uid, err := s.diag()
	if errors.Is(err, errNoSocket) && !diagWorks() {
		err = errNoDiag
	}
	return uid, err
}

// diagWorks asks about a socket of this program.
var diagWorks = sync.OnceValue(func() bool {
	ln, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return false
	}
	defer ln.Close()
	conn, err := net.DialTCP("tcp", nil, ln.Addr().(*net.TCPAddr))
	if err != nil {
		return false
	}
	defer conn.Close()
	own := pair{unmapped(conn.LocalAddr().(*net.TCPAddr).AddrPort()), unmapped(conn.RemoteAddr().(*net.TCPAddr).AddrPort())}
	_, err = own.diag()
	return err == nil
})

func (s pair) diag() (UID, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return 0, errNoDiag // such as a seccomp filter, or gVisor
	}
	defer unix.Close(fd)
	if err := unix.Sendto(fd, s.request(), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, errNoDiag
	}
	var answer [512]byte
	// The kernel answers before Sendto returns, so nothing has to be waited for.
	n, from, err := unix.Recvfrom(fd, answer[:], unix.MSG_DONTWAIT)
	if err != nil {
		return 0, errNoDiag
	}
	if kernel, ok := from.(*unix.SockaddrNetlink); !ok || kernel.Pid != 0 {
		return 0, errNoSocket
	}
	return s.read(answer[:n])
}

func (s pair) request() []byte {
	b, native := make([]byte, requestSize), binary.NativeEndian
	native.PutUint32(b, requestSize)
	native.PutUint16(b[4:], sockDiagByFamily)
	native.PutUint16(b[6:], unix.NLM_F_REQUEST)
	r := b[headerSize:]
	r[0], r[1] = unix.AF_INET6, unix.IPPROTO_TCP
	if s.own.Addr().Is4() {
		r[0] = unix.AF_INET
	}
	native.PutUint32(r[4:], ^uint32(0)) // in any state: read tells them apart
	binary.BigEndian.PutUint16(r[8:], s.own.Port())
	binary.BigEndian.PutUint16(r[10:], s.other.Port())
	copy(r[12:28], s.own.Addr().AsSlice())
	copy(r[28:44], s.other.Addr().AsSlice())
	native.PutUint32(r[48:], noCookie)
	native.PutUint32(r[52:], noCookie)
	return b
}

// read returns the user of an answer that is about the socket. Without that socket, the kernel may answer about one that listens.
func (s pair) read(b []byte) (UID, error) {
	native := binary.NativeEndian
	if len(b) < answerSize || native.Uint16(b[4:]) != sockDiagByFamily {
		if len(b) >= headerSize+4 && native.Uint16(b[4:]) == unix.NLMSG_ERROR {
			if errno := unix.Errno(-int32(native.Uint32(b[headerSize:]))); errno != unix.ENOENT && errno != unix.ESTALE {
				return 0, errNoDiag
			}
		}
		return 0, errNoSocket
	}
	m := b[headerSize:]
	found := pair{endpoint(m[0], m[8:24], m[4:6]), endpoint(m[0], m[24:40], m[6:8])}
	uid, inode := native.Uint32(m[64:]), native.Uint32(m[68:])
	if found != s || !open(m[1], uint64(inode)) {
		return 0, errNoSocket
	}
	return UID(uid), nil
}

func endpoint(family byte, address, port []byte) netip.AddrPort {
	size := 4
	if family == unix.AF_INET6 {
		size = 16
	}
	a, _ := netip.AddrFromSlice(address[:size])
	return netip.AddrPortFrom(a.Unmap(), binary.BigEndian.Uint16(port))
}

// The states of a socket of TCP in which a program still has it (include/net/tcp_states.h).
const (
	established = 1
	finWait1    = 4
	finWait2    = 5
	closeWait   = 8
)

// open reports whether a program has the socket. Of others, the kernel says that their user is 0, which is root.
func open(state byte, inode uint64) bool {
	return inode != 0 && (state == established || state == finWait1 || state == finWait2 || state == closeWait)
}

// search reads the kernel's lists of sockets in a folder like /proc/net of this thread. It takes the longer the more sockets there are.
func (s pair) search(folder string) (UID, error) {
	names := []string{"tcp6"}
	if s.own.Addr().Is4() {
		names = []string{"tcp", "tcp6"}
	}
	for _, name := range names {
		f, err := os.Open(folder + "/" + name)
		if err != nil {
			continue // without IPv6
		}
		uid, err := s.find(f)
		f.Close()
		if err == nil {
			return uid, nil
		}
	}
	return 0, errNoSocket
}

// find reads one list.
func (s pair) find(list io.Reader) (UID, error) {
	for lines := bufio.NewScanner(list); lines.Scan(); {
		fields := bytes.Fields(lines.Bytes()) // number, own end, other end, state, queues, timer, retransmissions, uid, timeout, inode
		if len(fields) < 10 || listed(fields[1]) != s.own || listed(fields[2]) != s.other {
			continue
		}
		state, badState := strconv.ParseUint(string(fields[3]), 16, 8)
		uid, badUID := strconv.ParseUint(string(fields[7]), 10, 32)
		inode, badInode := strconv.ParseUint(string(fields[9]), 10, 64)
		if badState == nil && badUID == nil && badInode == nil && open(byte(state), inode) {
			return UID(uid), nil
		}
	}
	return 0, errNoSocket
}

// listed reads an end as /proc/net has it: words of the address in the machine's order of bytes, and the port.
func listed(text []byte) netip.AddrPort {
	address, port, _ := bytes.Cut(text, []byte(":"))
	n, err := strconv.ParseUint(string(port), 16, 16)
	var b [16]byte
	size, wrong := hex.Decode(b[:], address[:min(len(address), 32)])
	if err != nil || wrong != nil || size%4 != 0 {
		return netip.AddrPort{}
	}
	for i := 0; i < size; i += 4 {
		binary.NativeEndian.PutUint32(b[i:], binary.BigEndian.Uint32(b[i:]))
	}
	a, _ := netip.AddrFromSlice(b[:size])
	return netip.AddrPortFrom(a.Unmap(), uint16(n))
}
