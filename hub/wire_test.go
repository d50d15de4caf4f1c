package hub_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/coder/websocket"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/hub"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/insight"
)

// Messages that a connection takes in pieces, pongs and replies never mix: a slow reader with little buffer that sends requests and pings
// meanwhile gets each message whole, and finally the newest, with and without compression, and over TLS.
func TestMessagesInPiecesNeverMix(t *testing.T) {
	t.Parallel()
	const last = 400
	filling := strings.Repeat("8 GPUs ", 20_000)
	for name, mode := range map[string]websocket.CompressionMode{
		"plain": websocket.CompressionDisabled, "compressed": websocket.CompressionNoContextTakeover, "TLS": websocket.CompressionDisabled,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begin := startTLS
			if name != "TLS" {
				begin = func(tb testing.TB, set func(*hub.Config)) *monitor { tb.Helper(); return start(tb, set) }
			}
			m := begin(t, func(cfg *hub.Config) {
				cfg.Encode = func(moment *insight.Moment, _ auth.Audience, _ func(*gpu.Device) bool) ([]byte, error) {
					noise := make([]byte, 30_000) // hardly compressible
					for i := range noise {
						noise[i] = 'a' + byte(rand.N(26))
					}
					return fmt.Appendf(nil, `{"seq":%d,"filling":%q,"noise":%q}`, moment.Snapshot.Seq, filling[:1000*(moment.Snapshot.Seq%100)], noise), nil
				}
			})
			narrow := &net.Dialer{Control: func(_, _ string, c syscall.RawConn) (err error) {
				if closed := c.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096) }); closed != nil {
					return closed
				}
				return err
			}}
			conn, _, err := websocket.Dial(t.Context(), m.url, &websocket.DialOptions{ //nolint:bodyclose // Dial says that nobody needs to
				HTTPClient: &http.Client{Transport: &http.Transport{
					DialContext: narrow.DialContext, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // httptest's
				}}, CompressionMode: mode,
			})
			if err != nil {
				t.Fatal(err)
			}
			conn.SetReadLimit(-1)
			c := &client{t, conn}
			c.want("gpu_status")

			ctx, cancel := context.WithCancel(t.Context())
			var others sync.WaitGroup
			others.Go(func() {
				for seq := range uint64(last) {
					m.publish(snapshot(seq + 1))
				}
			})
			others.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					if err := conn.Ping(ctx); err != nil && ctx.Err() == nil {
						t.Errorf("ping: %v", err)
						return
					}
					if n%10 == 0 {
						if err := conn.Write(ctx, websocket.MessageText, []byte(`{"event":"unsubscribe"}`)); err != nil && ctx.Err() == nil {
							t.Errorf("write: %v", err)
							return
						}
					}
				}
			})
			var seq uint64
			for seq < last {
				got, err := c.read()
				if err != nil {
					t.Fatalf("after %d: %v", seq, err)
				}
				if got.Event == "gpu_status_update" {
					var data struct{ Seq uint64 }
					if err := json.Unmarshal(got.Data, &data); err != nil || data.Seq <= seq {
						t.Fatalf("%d came after %d: %v", data.Seq, seq, err)
					}
					seq = data.Seq
				}
			}
			cancel()
			_ = conn.CloseNow() // this ends the waiting ping
			others.Wait()
		})
	}
}

// A viewer that accepts compressed messages gets the same ones in fewer bytes, compressed once for all.
func TestCompressedMessages(t *testing.T) {
	t.Parallel()
	m := start(t, func(cfg *hub.Config) {
		cfg.Encode = func(moment *insight.Moment, _ auth.Audience, _ func(*gpu.Device) bool) ([]byte, error) {
			return fmt.Appendf(nil, `{"seq":%d,"filling":%q}`, moment.Snapshot.Seq, strings.Repeat("8 GPUs ", 10_000)), nil
		}
	})
	sent := func(messages int) (bytes uint64) {
		t.Helper()
		m.untilCounted(t, uint64(messages)) //nolint:gosec // a small number
		return m.Stats().Bytes
	}
	sizes := map[websocket.CompressionMode]uint64{}
	for _, mode := range []websocket.CompressionMode{websocket.CompressionDisabled, websocket.CompressionNoContextTakeover, websocket.CompressionContextTakeover} {
		conn, answer, err := websocket.Dial(t.Context(), m.url, &websocket.DialOptions{HTTPClient: m.client, CompressionMode: mode}) //nolint:bodyclose // Dial says that nobody needs to
		if err != nil {
			t.Fatal(err)
		}
		if got := answer.Header.Get("Sec-WebSocket-Extensions"); (got != "") != (mode != websocket.CompressionDisabled) || got != "" && !strings.Contains(got, "server_no_context_takeover") {
			t.Errorf("mode %v: the extensions are %q", mode, got)
		}
		conn.SetReadLimit(-1)
		c := &client{t, conn}
		c.want("gpu_status")
		before := sent(3*len(sizes) + 1)
		m.publish(snapshot(uint64(len(sizes) + 1)))
		c.wantFrame(uint64(len(sizes) + 1))
		m.publish(snapshot(uint64(len(sizes) + 10)))
		c.wantFrame(uint64(len(sizes) + 10))
		sizes[mode] = sent(3*len(sizes)+3) - before
		if err := conn.CloseNow(); err != nil {
			t.Error(err)
		}
	}
	if plain := sizes[websocket.CompressionDisabled]; plain < 140_000 || sizes[websocket.CompressionNoContextTakeover] > plain/10 || sizes[websocket.CompressionContextTakeover] > plain/10 {
		t.Errorf("bytes by mode: %v", sizes)
	}
}
