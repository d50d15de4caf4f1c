package access_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuwhy/gpuwhy/internal/access"
	"github.com/gpuwhy/gpuwhy/internal/access/ledger"
	"github.com/gpuwhy/gpuwhy/internal/access/peer"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/clock"
	"github.com/gpuwhy/gpuwhy/internal/part"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

// stranger has no name on any machine, and is in no group.
const stranger = 4711

// judged answers with what a way says about each request: the access, the name, the ID and the address.
func judged(t *testing.T, way access.Way, network, address string) (where string) {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(t.Context(), network, address)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, known, err := way.Recognize(r)
		if !known || err != nil {
			fmt.Fprintln(w, "nobody", err)
			return
		}
		level, _ := who.Access.MarshalText()
		fmt.Fprintln(w, string(level), who.Name, who.ID, who.Way, who.Audience.Commands())
	}))
	server.Config.ConnContext = peer.NewContext
	server.Listener.Close()
	server.Listener = ln
	server.Start()
	t.Cleanup(server.Close)
	return ln.Addr().String()
}

// ask requests the page as a user of this machine: the socket is one of that user's.
func ask(t *testing.T, uid int, network, address string, header http.Header) string {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return dialAs(ctx, uid, network, address) },
	}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header = header
	answer, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// dialAs connects from a thread of another user, which ends with it.
func dialAs(ctx context.Context, uid int, network, address string) (conn net.Conn, err error) {
	if uid == os.Getuid() {
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlock
		if _, _, no := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); no != 0 {
			err = no
			return
		}
		conn, err = new(net.Dialer).DialContext(ctx, network, address)
	}()
	<-done
	return conn, err
}

func needsRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can be another user")
	}
}

func TestWhoTheKernelSays(t *testing.T) {
	t.Parallel()
	needsRoot(t)
	root, err := user.LookupId("0")
	if err != nil {
		t.Fatal(err)
	}
	owner := "administer " + root.Username + " uid:0 local " + string(auth.Shown)
	viewer := fmt.Sprintf("read user %d uid:%d local %s", stranger, stranger, auth.CommandsOf(strconv.Itoa(stranger)))
	forwarded := http.Header{"X-Forwarded-For": {"203.0.113.9"}}
	proxies, err := serve.ParseProxies([]string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		cfg     access.KernelConfig
		network string
		uid     int
		header  http.Header
		want    string
	}{
		"root":                                  {access.KernelConfig{Loopback: true}, "tcp", 0, nil, owner},
		"somebody else":                         {access.KernelConfig{Loopback: true}, "tcp", stranger, nil, viewer},
		"where all others sign in":              {access.KernelConfig{Loopback: true, OwnersOnly: true}, "tcp", stranger, nil, "nobody <nil>"},
		"root, where all others sign in":        {access.KernelConfig{Loopback: true, OwnersOnly: true}, "tcp", 0, nil, owner},
		"an address that other machines reach":  {access.KernelConfig{}, "tcp", 0, nil, "nobody <nil>"},
		"a trusted proxy":                       {access.KernelConfig{Loopback: true, Proxies: proxies}, "tcp", 0, forwarded, "nobody <nil>"},
		"a trusted proxy that names nobody":     {access.KernelConfig{Loopback: true, Proxies: proxies}, "tcp", 0, nil, "nobody <nil>"},
		"a proxy of root that nobody has named": {access.KernelConfig{Loopback: true}, "tcp", 0, forwarded, "nobody <nil>"},
		"another header":                        {access.KernelConfig{Loopback: true}, "tcp", 0, http.Header{"Forwarded": {"for=203.0.113.9"}}, "nobody <nil>"},
		"a header of a cloud":                   {access.KernelConfig{Loopback: true}, "tcp", 0, http.Header{"True-Client-Ip": {"203.0.113.9"}}, "nobody <nil>"},
		"a prefix of a proxy":                   {access.KernelConfig{Loopback: true}, "tcp", 0, http.Header{"X-Forwarded-Prefix": {"/gpus"}}, "nobody <nil>"},
		"a named user": {
			access.KernelConfig{Loopback: true, Proxies: serve.Proxies{Here: access.ProxyUsers([]peer.UID{stranger})}}, "tcp", stranger, nil, "nobody <nil>",
		},
		"a named user over Unix": {access.KernelConfig{Proxies: serve.Proxies{Here: access.ProxyUsers([]peer.UID{stranger})}}, "unix", stranger, forwarded, "nobody <nil>"},
		"not the named user, at a trusted address": {
			access.KernelConfig{Loopback: true, Proxies: serve.Proxies{Networks: proxies.Networks, Here: access.ProxyUsers([]peer.UID{stranger})}}, "tcp", 0, nil, owner,
		},
		"an empty header":                        {access.KernelConfig{Loopback: true}, "tcp", 0, http.Header{"X-Real-Ip": {""}}, "nobody <nil>"},
		"root over Unix":                         {access.KernelConfig{}, "unix", 0, nil, owner},
		"somebody else over Unix":                {access.KernelConfig{}, "unix", stranger, nil, viewer},
		"a proxy over Unix":                      {access.KernelConfig{}, "unix", 0, forwarded, "nobody <nil>"},
		"somebody else over Unix, with sign-in":  {access.KernelConfig{OwnersOnly: true}, "unix", stranger, nil, "nobody <nil>"},
		"a group that does not exist has nobody": {access.KernelConfig{Loopback: true, OwnerGroup: "no-such-group"}, "tcp", stranger, nil, viewer},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.cfg.Log = slog.New(slog.DiscardHandler)
			address := "127.0.0.1:0"
			if tt.network == "unix" {
				address = publicSocket(t)
			}
			where := judged(t, access.NewKernel(tt.cfg), tt.network, address)
			if tt.network == "unix" {
				if err := os.Chmod(where, 0o777); err != nil {
					t.Fatal(err)
				}
			}
			if got := ask(t, tt.uid, tt.network, where, tt.header); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// Whoever connects in another network namespace, such as behind a container's bridge, is nobody whom the kernel knows, even if it is root and the
// address is one of loopback: what everybody may do without signing in is left. A Unix socket leads into the same users from everywhere.
func TestWhoComesFromAnotherNetworkNamespace(t *testing.T) {
	t.Parallel()
	needsRoot(t)
	type made struct {
		tcp, unix net.Listener
		err       error
	}
	path := publicSocket(t)
	dials, dialed, ready := make(chan string), make(chan net.Conn), make(chan made, 1)
	go func() { // is there
		defer close(dialed)
		runtime.LockOSThread() // and never unlock: the thread ends with the goroutine
		var m made
		if m.err = errors.Join(unix.Unshare(unix.CLONE_NEWNET), loopbackUp()); m.err == nil {
			m.tcp, m.err = new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
		}
		if m.err == nil {
			m.unix, m.err = new(net.ListenConfig).Listen(context.Background(), "unix", path)
		}
		ready <- m
		for network := range dials {
			at := path
			if network == "tcp" {
				at = m.tcp.Addr().String()
			}
			conn, err := new(net.Dialer).DialContext(context.Background(), network, at)
			if err != nil {
				t.Error(err)
			}
			dialed <- conn
		}
	}()
	defer close(dials)
	there := testkit.Receive(t, "the namespace", ready)
	if there.err != nil {
		t.Skipf("no namespace can be made here: %v", there.err)
	}
	defer there.tcp.Close()
	defer there.unix.Close()
	log := slog.New(slog.DiscardHandler)
	for network, ln := range map[string]net.Listener{"tcp": there.tcp, "unix": there.unix} {
		dials <- network
		conn, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		defer (<-dialed).Close()
		r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		r = r.WithContext(peer.NewContext(t.Context(), conn))
		who, known, err := access.NewKernel(access.KernelConfig{Loopback: true, Clock: clock.Program(), Log: log}).Recognize(r)
		if err != nil || known != (network == "unix") || (who.Access == auth.Administer) != known {
			t.Errorf("over %s it is %+v, known %v, %v", network, who, known, err)
		}
	}
}

// loopbackUp switches the loopback device of this thread's network namespace on.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo)
}

// publicSocket is the path of a socket that all users reach.
func publicSocket(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "s")
}

// Members of the owner group are owners. The database of this machine has some group with somebody in it.
func TestOwnerGroup(t *testing.T) {
	needsRoot(t)
	member, group := aMember(t)
	uid, err := strconv.Atoi(member.Uid)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		group, want string
		commands    auth.Commands
	}{{"", "read", auth.CommandsOf(member.Username)}, {group, "administer", auth.Shown}} {
		way := access.NewKernel(access.KernelConfig{Loopback: true, OwnerGroup: tt.group, Log: slog.New(slog.DiscardHandler)})
		where := judged(t, way, "tcp", "127.0.0.1:0")
		if got, want := ask(t, uid, "tcp", where, nil), fmt.Sprintf("%s %s uid:%d local %s", tt.want, member.Username, uid, tt.commands); got != want {
			t.Errorf("with the owner group %q: %q, want %q", tt.group, got, want)
		}
	}
}

// aMember returns a user of this machine who is not root, and a group of theirs.
func aMember(t *testing.T) (*user.User, string) {
	t.Helper()
	for _, name := range []string{"nobody", "daemon", "bin", "www-data", "mail"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		if g, err := user.LookupGroupId(u.Gid); err == nil {
			return u, g.Name
		}
	}
	t.Skip("this machine has no other users")
	return nil, ""
}

// A warning about a proxy that nobody has named names who runs it, and goes once it has been quiet for a while.
func TestUnnamedProxy(t *testing.T) {
	var elapsed time.Duration
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var log strings.Builder
	way := access.NewKernel(access.KernelConfig{
		Loopback: true, Log: slog.New(slog.NewTextHandler(&log, nil)),
		Clock: clock.Of(func() time.Time { return now.Add(elapsed) }, func() time.Duration { return elapsed }),
	})
	if advice, _ := way.Warning(); advice != nil {
		t.Fatalf("nothing has happened, and it says %q", advice.Text())
	}
	where := judged(t, way, "tcp", "127.0.0.1:0")
	self, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		ask(t, os.Getuid(), "tcp", where, http.Header{"X-Forwarded-For": {"203.0.113.9"}})
	}
	advice, since := way.Warning()
	if advice == nil || !strings.Contains(advice.Text(), self.Username) || !strings.Contains(advice.Text(), "--trusted-proxy 127.0.0.1") || !since.Equal(now) {
		t.Errorf("%v says %v", since, advice)
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 1 {
		t.Errorf("it is logged %d times:\n%s", n, &log)
	}
	elapsed = time.Hour
	if advice, _ := way.Warning(); advice != nil {
		t.Errorf("an hour later it says %q", advice.Text())
	}
}

// Without a connection of its own, as in a test, nobody is known.
func TestNoConnection(t *testing.T) {
	way := access.NewKernel(access.KernelConfig{Loopback: true})
	if who, known, err := way.Recognize(httptest.NewRequest(http.MethodGet, "/", http.NoBody)); known || err != nil || who != (auth.Principal{}) {
		t.Errorf("%+v, %t, %v", who, known, err)
	}
}

// BenchmarkRecognize is what judging a request costs once its connection is known.
func BenchmarkRecognize(b *testing.B) {
	ln, err := new(net.ListenConfig).Listen(b.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer ln.Close()
	client, err := new(net.Dialer).DialContext(b.Context(), "tcp", ln.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	conn, err := ln.Accept()
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	r = r.WithContext(peer.NewContext(b.Context(), conn))
	way := access.NewKernel(access.KernelConfig{Loopback: true})
	for b.Loop() {
		if _, known, err := way.Recognize(r); !known || err != nil {
			b.Fatal(err)
		}
	}
}

// A header that says who somebody is comes from a proxy too, although it is taken off before anybody believes it.
func TestStrippedHeader(t *testing.T) {
	l, err := ledger.InMemory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	room := access.New(access.Config{
		Host: part.Host{Log: log}, Options: access.Options{Ledger: l, Ways: []access.Way{access.NewKernel(access.KernelConfig{Loopback: true, Log: log})}},
	})
	defer room.Close()
	where := judged(t, identifying{room}, "tcp", "127.0.0.1:0")
	for header, want := range map[string]string{"Remote-User": "nobody <nil>", "X-Auth-Request-User": "nobody <nil>", "Tailscale-User-Login": "nobody <nil>", "X-Other": "administer " + ownName(t)} {
		got := ask(t, os.Getuid(), "tcp", where, http.Header{header: {"root"}})
		if !strings.HasPrefix(got, want) {
			t.Errorf("with %s: %q, want %q", header, got, want)
		}
	}
}

func ownName(t *testing.T) string {
	t.Helper()
	self, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	return self.Username
}

// identifying is a whole room as a way.
type identifying struct{ *access.Room }

func (r identifying) Recognize(request *http.Request) (auth.Principal, bool, error) {
	who, err := r.Identify(nil, request)
	return who, who != (auth.Principal{}), err
}
