package kube

import (
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // WebSocket has it
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

// An exec ends with its context, whatever the server does. The end of all tests shows that nothing is left.
func TestExecEndsWithItsContext(t *testing.T) {
	t.Parallel()
	pong, data := []byte{0x8a, 0}, []byte{0x82, 2, 1, 'x'}
	for name, sends := range map[string][]byte{"never answers": nil, "sends pongs": pong, "sends data": data, "sends both": append(data, pong...)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			come := make(chan struct{}) // closed when the client has received a lot
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				c, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				if sends == nil {
					close(come)
					_, _ = io.Copy(io.Discard, c)
					return
				}
				if err = c.(*net.TCPConn).SetWriteBuffer(16 << 10); err != nil {
					t.Error(err)
				}
				upgrade(c, r)
				go func() { _, _ = io.Copy(io.Discard, c) }()
				many := bytes.Repeat(sends, 32<<10/len(sends))
				for i := 0; err == nil; i++ {
					if _, err = c.Write(many); i == 12 { // more than fits into the buffers
						close(come)
					}
				}
			}))
			defer s.Close()
			a, err := newAPI(&Cluster{URL: s.URL})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() {
				done <- a.exec(ctx, target{namespace: "n", pod: "p", container: "c"}, []string{"sh"}, nil, io.Discard, io.Discard)
			}()
			testkit.Receive(t, "the server is asked, and sends much", come)
			cancel()
			if err := testkit.Receive(t, "the exec ends", done); !errors.Is(err, context.Canceled) {
				t.Errorf("it ended with %v", err)
			}
		})
	}
}

// upgrade answers as a server that speaks the kubelet's protocol.
func upgrade(c net.Conn, r *http.Request) {
	sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) //nolint:gosec // WebSocket has it
	_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Protocol: v5.channel.k8s.io\r\nSec-WebSocket-Accept: "+base64.StdEncoding.EncodeToString(sum[:])+"\r\n\r\n")
}
