package hub_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/hub"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/insight"
)

// nothing is a Moment without a device.
var nothing = insight.Of(&gpu.Snapshot{})

// A crowd is a hub with n viewers on loopback sockets, each of which reads
// frames of one size and says when it has one.
type crowd struct {
	hub     *hub.Hub
	frame   []byte     // as it goes over the wire
	sockets []net.Conn // the server's ends
	served  sync.WaitGroup
}

// A tap is a listener that keeps what it accepts.
type tap struct {
	net.Listener
	accepted chan net.Conn
}

func (t tap) Accept() (net.Conn, error) {
	c, err := t.Listener.Accept()
	if err == nil {
		t.accepted <- c
	}
	return c, err
}

func gather(b *testing.B, n int) *crowd {
	b.Helper()
	data, err := json.Marshal(map[string]any{"gpus": string(bytes.Repeat([]byte("8 GPUs."), 20_000/7))})
	if err != nil {
		b.Fatal(err)
	}
	c := &crowd{}
	c.hub = hub.New(hub.Config{
		MaxViewers: n,
		Encode:     func(*insight.Moment, auth.Audience, func(*gpu.Device) bool) ([]byte, error) { return data, nil },
		Status:     func(*insight.Fleet, []byte) ([]byte, error) { return []byte("{}"), nil },
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	accepted := make(chan net.Conn, 1)
	server := &http.Server{Handler: signedIn(c.hub)}
	var background sync.WaitGroup
	background.Go(func() { _ = server.Serve(tap{listener, accepted}) })
	b.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // cut them all
		_ = c.hub.Shutdown(ctx, "done")
		_ = server.Close()
		c.hub.Wait()
		background.Wait()
	})

	greeting := len(`..{"event":"gpu_status","data":{}}`)
	size := 4 + len(`{"event":"gpu_status_update","data":}`) + len(data)
	c.served.Add(n)
	first := make(chan []byte, n)
	for range n {
		conn, br := handshake(b, listener.Addr().String())
		c.sockets = append(c.sockets, <-accepted)
		if _, err := io.CopyN(io.Discard, br, int64(greeting)); err != nil {
			b.Fatal(err)
		}
		background.Go(func() {
			defer conn.Close()
			buf := make([]byte, size)
			for told := false; ; told = true {
				if _, err := io.ReadFull(br, buf); err != nil {
					return
				}
				if !told {
					first <- bytes.Clone(buf)
				}
				c.served.Done()
			}
		})
	}
	c.hub.Publish(nothing)
	c.served.Wait()
	c.frame = <-first
	return c
}

func handshake(b *testing.B, addr string) (net.Conn, *bufio.Reader) {
	b.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	fmt.Fprintf(conn, "GET /ws HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", addr)
	br := bufio.NewReaderSize(conn, 64)
	resp, err := http.ReadResponse(br, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		b.Fatal(resp, err)
	}
	if err := resp.Body.Close(); err != nil { // it has none
		b.Fatal(err)
	}
	return conn, br
}

// broadcast hands every viewer a frame through the hub.
func (c *crowd) broadcast() {
	c.served.Add(len(c.sockets))
	c.hub.Publish(nothing)
	c.served.Wait()
}

// bare writes the same frame straight to the same sockets.
func (c *crowd) bare(b *testing.B) {
	b.Helper()
	c.served.Add(len(c.sockets))
	for _, s := range c.sockets {
		if _, err := s.Write(c.frame); err != nil {
			b.Fatal(err)
		}
	}
	c.served.Wait()
}

// bareEach does the same with a goroutine for each socket.
func (c *crowd) bareEach(b *testing.B) {
	b.Helper()
	c.served.Add(len(c.sockets))
	for _, s := range c.sockets {
		go func() {
			if _, err := s.Write(c.frame); err != nil {
				b.Error(err)
			}
		}()
	}
	c.served.Wait()
}

func crowds(b *testing.B, f func(b *testing.B, c *crowd)) {
	b.Helper()
	for _, n := range []int{100, 1000} {
		b.Run(fmt.Sprintf("viewers=%d", n), func(b *testing.B) {
			c := gather(b, n)
			b.ReportAllocs()
			f(b, c)
		})
	}
}

func BenchmarkBareWrite(b *testing.B) {
	crowds(b, func(b *testing.B, c *crowd) {
		b.Helper()
		for b.Loop() {
			c.bare(b)
		}
	})
}

func BenchmarkBroadcast(b *testing.B) {
	crowds(b, func(b *testing.B, c *crowd) {
		b.Helper()
		for b.Loop() {
			c.broadcast()
		}
	})
}

// BenchmarkBroadcastToBare takes the ways in turn, so that all meet the same
// machine, and reports how many times as long as each bare one the hub takes.
func BenchmarkBroadcastToBare(b *testing.B) {
	crowds(b, func(b *testing.B, c *crowd) {
		b.Helper()
		var bare, bareEach, broadcast time.Duration
		for b.Loop() {
			t0 := time.Now()
			c.bare(b)
			t1 := time.Now()
			c.bareEach(b)
			t2 := time.Now()
			c.broadcast()
			bare, bareEach, broadcast = bare+t1.Sub(t0), bareEach+t2.Sub(t1), broadcast+time.Since(t2)
		}
		b.ReportMetric(float64(broadcast)/float64(bare), "times-bare")
		b.ReportMetric(float64(broadcast)/float64(bareEach), "times-bare-goroutines")
	})
}
