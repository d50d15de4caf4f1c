package hub

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

// through stands for TLS: it writes what it gets to the connection below.
type through struct{ *below }

func pairOf(t *testing.T) (*below, net.Conn) {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	client, err := new(net.Dialer).DialContext(t.Context(), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server, err := Listen(ln).Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(server.Close(), client.Close()) })
	return server.(*below), client //nolint:forcetypeassert // of Listen
}

// Of a frame that a client does not take, TLS has encrypted only a part. What it writes then does not wait, and there is a bound to it.
func TestBelowDoesNotWait(t *testing.T) {
	t.Parallel()
	b, client := pairOf(t)
	b.wire()
	frame := bytes.Repeat([]byte("0123456789abcdef"), 4<<20) // far more than the system buffers
	type result struct {
		n    int
		rest bool
		err  error
	}
	done := make(chan result)
	offer := func(frame []byte) result {
		t.Helper()
		go func() {
			n, rest, err := b.offer(through{b}, frame)
			done <- result{n, rest, err}
		}()
		return testkit.Receive(t, "an offer does not wait", done)
	}
	first := offer(frame)
	if first.err != nil || !first.rest || first.n == 0 || first.n >= len(frame) || len(b.rest) > sealed {
		t.Fatalf("the first offer: %+v, and a rest of %d bytes", first, len(b.rest))
	}
	if again := offer(frame); again.err != nil || again.n != 0 || !again.rest {
		t.Errorf("an offer before the rest is written: %+v", again)
	}
	written := make(chan error)
	answers := 0
	for answer := make([]byte, 100); ; answers++ { // of TLS, to a client that asks for new keys
		go func() {
			_, err := b.Write(answer)
			written <- err
		}()
		if err := testkit.Receive(t, "an answer does not wait", written); errors.Is(err, errUnread) {
			break
		} else if err != nil || answers > mostAnswers/100 {
			t.Fatalf("%d answers wait; %v", answers, err)
		}
	}
	if answers == 0 {
		t.Error("no answer may wait")
	}

	if err := b.SetWriteDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	if n, err := b.finish(through{b}, frame[first.n:], nil); n != 0 || err == nil {
		t.Errorf("after the deadline: %d, %v", n, err)
	}
	if _, err := client.Read(make([]byte, 10)); err != nil {
		t.Error(err)
	}
}

// All that is offered and finished arrives, in order.
func TestBelowKeepsOrder(t *testing.T) {
	t.Parallel()
	b, client := pairOf(t)
	b.wire()
	frame := make([]byte, 8<<20)
	for i := range frame {
		frame[i] = byte(i ^ i>>8 ^ i>>16)
	}
	n, rest, err := b.offer(through{b}, frame)
	if err != nil || !rest {
		t.Fatalf("%d, %v, %v", n, rest, err)
	}
	got := make(chan []byte)
	go func() {
		all := make([]byte, len(frame)+len("tail"))
		_, _ = io.ReadFull(client, all)
		got <- all
	}()
	if m, err := b.finish(through{b}, frame[n:], []byte("tail")); err != nil || m != int64(len(frame)-n+len("tail")) {
		t.Errorf("%d bytes, %v", m, err)
	}
	if all := testkit.Receive(t, "everything arrives", got); !bytes.Equal(all, append(frame, "tail"...)) {
		t.Error("what arrives is not what was written")
	}
}
