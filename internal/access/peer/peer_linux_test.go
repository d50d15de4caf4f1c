package peer_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gpuwhy/gpuwhy/internal/access/peer"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

// This program is also the one at the other end: with the variable it dials, or listens and says who has connected.
const dials, listens = "PEER_TEST_DIALS", "PEER_TEST_LISTENS"

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(dials) != "":
		network, address, _ := strings.Cut(os.Getenv(dials), " ")
		conn, err := net.Dial(network, address)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(conn.LocalAddr())
		_, _ = io.Copy(io.Discard, os.Stdin) // until the test closes it
	case os.Getenv(listens) != "":
		ln, err := net.Listen("tcp", os.Getenv(listens))
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(ln.Addr())
		conn, err := ln.Accept()
		if err == nil {
			fmt.Println(peer.Lookup(conn))
		}
	default:
		os.Exit(m.Run())
	}
}

// another starts this program as another user, and returns what it prints.
func another(t *testing.T, attr *syscall.SysProcAttr, env string) *bufio.Scanner {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can start programs of other users")
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe") // other users need not reach the folder of this program
	cmd.SysProcAttr, cmd.Env, cmd.Dir = attr, []string{env}, "/"
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
	return bufio.NewScanner(out)
}

func as(uid uint32) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
}

func listen(t testing.TB, network, address string) net.Listener {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(t.Context(), network, address)
	if err != nil {
		t.Skip(err) // such as without IPv6
	}
	t.Cleanup(func() { ln.Close() })
	return ln
}

func accept(t testing.TB, ln net.Listener) net.Conn {
	t.Helper()
	conn, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// connected returns both ends of a connection of this program.
func connected(t testing.TB, network, address string) (server, client net.Conn) {
	t.Helper()
	ln := listen(t, network, address)
	client, err := new(net.Dialer).DialContext(t.Context(), network, ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return accept(t, ln), client
}

// publicSocket is the path of a socket that all users reach.
func publicSocket(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(filepath.Dir(dir), 0o755)); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "s")
}

func TestAnotherUser(t *testing.T) {
	for name, tt := range map[string]struct{ network, listens, dials string }{
		"IPv4":                {"tcp", "127.0.0.1:0", "127.0.0.1"},
		"IPv6":                {"tcp", "[::1]:0", "::1"},
		"IPv4 of a dual port": {"tcp", "[::]:0", "127.0.0.1"},
		"Unix":                {"unix", publicSocket(t), ""},
	} {
		t.Run(name, func(t *testing.T) {
			ln := listen(t, tt.network, tt.listens)
			address := ln.Addr().String()
			if tt.dials != "" {
				_, port, _ := net.SplitHostPort(address)
				address = net.JoinHostPort(tt.dials, port)
			} else if err := os.Chmod(address, 0o777); err != nil {
				t.Fatal(err)
			}
			const stranger = 4711
			other := another(t, as(stranger), dials+"="+tt.network+" "+address)
			if !other.Scan() {
				t.Fatal("it has not connected")
			}
			conn := accept(t, ln)
			if uid, err := peer.Lookup(conn); uid != stranger || err != nil {
				t.Errorf("%v (%s) is of %d, %v", conn.RemoteAddr(), other.Text(), uid, err)
			}
			if tt.network == "tcp" {
				if uid, err := peer.Search(conn, "/proc/thread-self/net"); uid != stranger || err != nil {
					t.Errorf("%v is of %d, %v, as /proc says", conn.RemoteAddr(), uid, err)
				}
			}
		})
	}
}

// The kernel says 0, which is root, of sockets that no program has any more.
func TestClosedSockets(t *testing.T) {
	for name, way := range map[string]func(net.Conn) (peer.UID, error){
		"netlink": peer.Lookup,
		"proc":    func(conn net.Conn) (peer.UID, error) { return peer.Search(conn, "/proc/thread-self/net") },
	} {
		t.Run(name, func(t *testing.T) {
			server, client := connected(t, "tcp", "127.0.0.1:0")
			self := peer.UID(os.Getuid())
			if uid, err := way(server); uid != self || err != nil {
				t.Fatalf("an open one is of %d, %v", uid, err)
			}
			if err := client.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			if uid, err := way(server); uid != self || err != nil {
				t.Errorf("one that has sent all is of %d, %v", uid, err)
			}
			if err := client.Close(); err != nil {
				t.Fatal(err)
			}
			if uid, err := way(server); !errors.Is(err, peer.ErrUnknown) {
				t.Errorf("a closed one is of %d, %v", uid, err)
			}
		})
	}
}

// The port may be one that another program listens on.
func TestAListenerIsNoPeer(t *testing.T) {
	server, client := connected(t, "tcp", "127.0.0.1:0")
	port := client.LocalAddr().String()
	if err := client.(*net.TCPConn).SetLinger(0); err != nil { // so that the port is free
		t.Fatal(err)
	}
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	listen(t, "tcp", port)
	if uid, err := peer.Lookup(server); !errors.Is(err, peer.ErrUnknown) {
		t.Errorf("it is of %d, %v", uid, err)
	}
}

// Whoever is in another network namespace is nobody here, whatever sockets there are in this one.
func TestAnotherNetworkNamespace(t *testing.T) {
	server, _ := connected(t, "tcp", "127.0.0.1:0")
	if _, err := peer.Lookup(server); err != nil { // which also finds that the kernel can be asked
		t.Fatal(err)
	}
	type said struct {
		uid      peer.UID
		err, not error
	}
	asked := make(chan said)
	go func() {
		runtime.LockOSThread() // and never unlock: the thread ends with the goroutine
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			asked <- said{not: err}
			return
		}
		uid, err := peer.Lookup(server)
		asked <- said{uid, err, nil}
	}()
	switch got := testkit.Receive(t, "the answer", asked); {
	case got.not != nil:
		t.Skipf("no namespace can be made here: %v", got.not)
	case !errors.Is(got.err, peer.ErrUnknown):
		t.Errorf("it is of %d, %v", got.uid, got.err)
	}
}

// In a user namespace, all users that it lacks have one number.
func TestAnotherUserNamespace(t *testing.T) {
	attr := &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: 4711, Size: 1}}, GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: 4711, Size: 1}},
	}
	server := another(t, attr, listens+"=127.0.0.1:0")
	if !server.Scan() {
		t.Fatal("it does not listen")
	}
	conn, err := net.Dial("tcp", server.Text())
	if err != nil {
		t.Fatalf("%s: %v", server.Text(), err)
	}
	defer conn.Close()
	if !server.Scan() || !strings.HasPrefix(server.Text(), "0 "+peer.ErrUnknown.Error()) {
		t.Errorf("there, root of the machine is %q", server.Text())
	}
}

// A program may use a socket of IPv6 for an address of IPv4.
func TestMappedAddress(t *testing.T) {
	ln := listen(t, "tcp", "127.0.0.1:0")
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Skip(err)
	}
	defer unix.Close(fd)
	to := &unix.SockaddrInet6{Port: ln.Addr().(*net.TCPAddr).Port}
	copy(to.Addr[:], net.IPv4(127, 0, 0, 1).To16())
	if err := unix.Connect(fd, to); err != nil {
		t.Fatal(err)
	}
	server := accept(t, ln)
	if _, err := peer.Lookup(server); err != nil {
		t.Error(err)
	}
	if _, err := peer.Search(server, "/proc/thread-self/net"); err != nil {
		t.Errorf("/proc: %v", err)
	}
}

func TestOtherConnections(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if _, err := peer.Lookup(a); !errors.Is(err, peer.ErrUnknown) {
		t.Errorf("a pipe: %v", err)
	}
	if end := peer.FromContext(t.Context()); end != nil {
		t.Errorf("a context without a connection has %v", end)
	}
}

// The kernel is asked once for each connection: after that, it may be closed.
func TestEndIsAskedOnce(t *testing.T) {
	server, client := connected(t, "tcp", "127.0.0.1:0")
	end := peer.FromContext(peer.NewContext(t.Context(), wrapped{server}))
	if !end.Loopback() || end.Unix() {
		t.Error("it is not of the loopback network")
	}
	first, err := end.UID()
	if err != nil {
		t.Fatal(err)
	}
	client.Close()
	if again, err := end.UID(); again != first || err != nil {
		t.Errorf("first %d, then %d, %v", first, again, err)
	}
}

// wrapped is a connection as TLS has it.
type wrapped struct{ net.Conn }

func (w wrapped) NetConn() net.Conn { return w.Conn }

func BenchmarkLookup(b *testing.B) {
	server, _ := connected(b, "tcp", "127.0.0.1:0")
	for name, way := range map[string]func(net.Conn) (peer.UID, error){
		"netlink": peer.Lookup,
		"proc":    func(conn net.Conn) (peer.UID, error) { return peer.Search(conn, "/proc/thread-self/net") },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := way(server); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
