package neterr_test

import (
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/neterr"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

func TestErrors(t *testing.T) {
	t.Parallel()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	_, taken := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	ports, err := testkit.FreePorts(1) // which no other program listens on meanwhile
	if err != nil {
		t.Fatal(err)
	}
	_, refused := new(net.Dialer).DialContext(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", ports[0]))
	tests := map[string]func(error) bool{
		"in use": neterr.InUse, "forbidden": neterr.Forbidden, "refused": neterr.Refused,
		"no network": neterr.NoNetwork, "no host": neterr.NoHost, "cut": neterr.Cut,
	}
	dialError := func(n syscall.Errno) error {
		return fmt.Errorf("ask: %w", &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", n)})
	}
	for _, tt := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{taken, "in use"},
		{refused, "refused"},
		{dialError(syscall.EACCES), "forbidden"},
		{dialError(syscall.EPIPE), "cut"},
		{dialError(syscall.ECONNRESET), "cut"},
		{dialError(syscall.ENETUNREACH), "no network"},
		{dialError(syscall.EHOSTUNREACH), "no host"},
		{dialError(syscall.ETIMEDOUT), ""},
		// As Windows counts them.
		{dialError(10048), "in use"},
		{dialError(10013), "forbidden"},
		{dialError(10061), "refused"},
		{dialError(10051), "no network"},
		{dialError(10065), "no host"},
		{dialError(10054), "cut"},
		{dialError(10060), ""},
	} {
		for name, is := range tests {
			if got := is(tt.err); got != (name == tt.want) {
				t.Errorf("%v is %q: %v", tt.err, name, got)
			}
		}
	}
}
