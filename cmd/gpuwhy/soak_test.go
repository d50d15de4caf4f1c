//go:build !race && soak

package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/gpuwhy/gpuwhy/internal/contract"
)

// A connection on which nothing is sent for longer than nginx's 60 s stays open with
// the real timeouts: the hub's pings every 20 s are enough.
func TestSoakIdleBehindNginx(t *testing.T) {
	t.Parallel()
	const timeout = 60 * time.Second
	behind := start(t, nil, "--interval=1h", "--source=simulate:rtx-4090")
	p := newProxy(t, "gpuwhy.conf", hostport(t, behind.url))
	if config := readTop(t, "deploy/nginx/gpuwhy.conf"); strings.Contains(config, "\n    proxy_read_timeout ") {
		t.Fatal("the file has a timeout of its own")
	}
	pinged := make(chan struct{}, 100)
	conn, _, err := websocket.Dial(t.Context(), "ws://"+p.addr+"/ws", &websocket.DialOptions{
		OnPingReceived: func(context.Context, []byte) bool { pinged <- struct{}{}; return true },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	conn.SetReadLimit(1 << 20)
	said := make(chan string, 100) // ended by an error
	go func() {
		defer close(said)
		for {
			_, m, err := conn.Read(context.Background()) // until it is closed
			if err != nil {
				return
			}
			said <- string(m)
		}
	}()
	for m := range said {
		if strings.Contains(m, `"gpu_status_update"`) || strings.Contains(m, `"status":"ok"`) {
			break // the only reading of this hour
		}
	}
	for begun := time.Now(); time.Since(begun) <= timeout; {
		select {
		case <-pinged:
		case m, open := <-said:
			t.Fatalf("after %v of quiet: open %v, %.200s", time.Since(begun), open, m)
		}
	}
	if err := conn.Write(t.Context(), websocket.MessageText, []byte(`{"event":"request_gpu_update","id":"still there"}`)); err != nil {
		t.Fatal(err)
	}
	if m := <-said; !strings.Contains(m, `"still there"`) || !strings.Contains(m, `"gpu_status_update"`) {
		t.Errorf("it is answered with %.300s", m)
	}
}

// Viewers that ask again and again for a reading and never read an answer cost
// little memory: the hub drops each of them, and each comes back at once. Other
// viewers are served meanwhile. SOAK=duration makes it longer than 30 s. The bounds
// are in docs/performance.md.
func TestSoakViewersThatNeverRead(t *testing.T) {
	t.Run("300 viewers of 8 GPUs", func(t *testing.T) { neverRead(t, "simulate:dgx-h100", 300, 128<<20) })
	t.Run("10 viewers of 1,000 GPUs", func(t *testing.T) { neverRead(t, "simulate:fleet:1000", 10, 512<<20) })
}

// neverRead fails above that many bytes of resident memory.
func neverRead(t *testing.T, source string, viewers int, bound float64) {
	span := 30 * time.Second
	if set := os.Getenv("SOAK"); set != "" {
		var err error
		if span, err = time.ParseDuration(set); err != nil {
			t.Fatal(err)
		}
	}
	p := start(t, []string{"GOMEMLIMIT=400MiB"}, fast, "--source="+source, "--max-viewers=500") // as in the unit
	reader := p.dial()
	reader.await("the eight GPUs of a node are there", func(u contract.Update) bool { return u.Devices == 8 })
	ctx, end := context.WithTimeout(t.Context(), span)
	defer end()
	ended := make(chan int, viewers)
	for range viewers {
		go func() { // until the time is over
			connections := 0
			defer func() { ended <- connections }()
			for ctx.Err() == nil {
				conn, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(p.url, "http")+"ws", nil)
				if err != nil {
					continue // refused: the one before is not forgotten yet
				}
				connections++
				for n := 0; err == nil; n++ {
					err = conn.Write(ctx, websocket.MessageText, fmt.Appendf(nil, `{"event":"request_gpu_update","id":%d}`, n))
				}
				conn.CloseNow()
			}
		}()
	}
	var most float64
	readings := 0
	for ctx.Err() == nil {
		reader.next("gpu_status_update", nil)
		readings++
		most = max(most, resident(t, p.cmd.Process.Pid))
	}
	connections := 0
	for range viewers {
		connections += <-ended
	}
	t.Logf("%d viewers that never read, %v: %d connections, %d readings for one that reads, at most %.0f MiB resident",
		viewers, span, connections, readings, most/(1<<20))
	if most > bound {
		t.Errorf("%.0f MiB resident, want at most %.0f", most/(1<<20), bound/(1<<20))
	}
	if connections < viewers {
		t.Errorf("only %d connections were made", connections)
	}
}
