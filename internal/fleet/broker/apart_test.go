//go:build linux

package broker

import (
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/fleet/bus"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

func startApart(t *testing.T, dir, listen string) Server {
	t.Helper()
	s, err := StartApart(t.Context(), Config{Dir: dir, Listen: listen, Patience: testkit.Patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeAll(t, s) })
	if s.Pid() == 0 {
		t.Fatal("it is in this process")
	}
	return s
}

// A server in its own process works like one in this process, for this program and for others, and works again after that
// process has ended.
func TestApart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startApart(t, dir, "127.0.0.1:0")
	authority, err := OpenAuthority(dir)
	if err != nil {
		t.Fatal(err)
	}
	text, err := authority.Join(Node, "node")
	if err != nil {
		t.Fatal(err)
	}
	node := connect(t, s.Addr(), text, Node, "node")
	own, err := bus.Open(bus.Config{InProcess: s.InProcess(), Credentials: s.Credentials(), Patience: testkit.Patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeAll(t, own) })
	live := make(chan string, 1000)
	if _, err := own.Subscribe(bus.AllLive, func(m *nats.Msg) { live <- string(m.Data) }); err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{"before", "after"} {
		testkit.Until(t, "a live value goes through, "+value, func() bool {
			if node.Conn().Publish(bus.Live("node"), []byte(value)) != nil {
				return false // the connection is being made
			}
			select {
			case got := <-live:
				return got == value
			default:
				return false
			}
		})
		testkit.Until(t, "a state is kept, "+value, func() bool { return node.Put(t.Context(), "node", []byte(value)) == nil })
		if what, _ := s.Trouble(); what != nil {
			t.Errorf("trouble: %v", what)
		}
		pid := s.Pid()
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		testkit.Until(t, "it is told that the server is gone, or back", func() bool {
			what, since := s.Trouble()
			if what != nil && strings.Contains(what.Try, "disk") {
				t.Errorf("told of a server that was killed: %v", what)
			}
			return what != nil && !since.IsZero() && what.Try != "" || s.Pid() != pid && s.Pid() != 0
		})
	}
	hub, err := authority.Join(Hub, "hub")
	if err != nil {
		t.Fatal(err)
	}
	if connect(t, s.Addr(), hub, Hub, "hub").Prepare(t.Context(), bus.Limits{}) != nil {
		t.Error("what is kept is not there")
	}
}

// If a server can't start, the error is the same as for one in this process.
func TestApartRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := startApart(t, dir, "127.0.0.1:0")
	for listen, says := range map[string]string{"127.0.0.1:0": "another gpuwhy, process ", first.Addr().String(): "another program is listening on", "here": "is not an address and port"} {
		s, err := StartApart(t.Context(), Config{Dir: dir, Listen: listen, Patience: testkit.Patience})
		if _, ok := errors.AsType[*gpu.Advice](err); !ok || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", listen, err)
		}
		if s != nil {
			_ = s.Close()
		}
	}
}

// Closing the server frees the address and ends connections.
func TestApartClosed(t *testing.T) {
	t.Parallel()
	s, err := StartApart(t.Context(), Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", Patience: testkit.Patience})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if n, err := conn.Read(make([]byte, 4)); n == 0 || err != nil {
		t.Fatalf("it says nothing: %v", err)
	}
	addr := s.Addr().String()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the connection ends", func() bool {
		_, err := conn.Read(make([]byte, 1<<10))
		return err != nil
	})
	again, err := new(net.ListenConfig).Listen(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	closeAll(t, again)
}
