//go:build !race && linux

package main

import (
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/client"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

// A sender sends requests from an address of this machine, with more headers.
type sender struct {
	http.RoundTripper
	header http.Header
}

func (s sender) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	maps.Copy(r.Header, s.header)
	return s.RoundTripper.RoundTrip(r)
}

// connect opens /ws from an address of this machine, or returns the refusal.
func (p *program) connect(source string, header http.Header) (status int, detail string, v *viewer) {
	p.t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}}
	transport := &http.Transport{DialContext: dialer.DialContext}
	p.t.Cleanup(transport.CloseIdleConnections)
	v, err := p.view(client.Options{Transport: sender{transport, header}})
	if err == nil {
		return http.StatusSwitchingProtocols, "", v
	}
	problem, ok := errors.AsType[*client.Problem](err)
	if !ok {
		p.t.Fatalf("dial from %s: %v", source, err)
	}
	if problem.After == 0 {
		p.t.Errorf("status %d does not say when to try again", problem.Status)
	}
	return problem.Status, problem.Detail, nil
}

// An address at its limit of viewers gets no more, whatever it claims to be, while another address does.
func TestViewersOfAnAddress(t *testing.T) {
	t.Parallel()
	p := start(t, nil, "--source=simulate:rtx-4090", "--max-viewers-per-address=3")
	var last *viewer
	for range 3 {
		status, detail, v := p.connect("127.0.0.1", nil)
		if status != http.StatusSwitchingProtocols {
			t.Fatalf("%d: %s", status, detail)
		}
		last = v
	}
	for _, header := range []http.Header{nil, {"X-Forwarded-For": {"192.0.2.1"}}, {"Forwarded": {"for=192.0.2.1"}}, {"X-Real-Ip": {"192.0.2.1"}}} {
		status, detail, _ := p.connect("127.0.0.1", header)
		if status != http.StatusTooManyRequests || !strings.Contains(detail, "127.0.0.1") || !strings.Contains(detail, "--max-viewers-per-address") {
			t.Errorf("one more with %v: %d, %s", header, status, detail)
		}
	}
	if status, detail, _ := p.connect("127.0.0.2", nil); status != http.StatusSwitchingProtocols {
		t.Errorf("another address: %d, %s", status, detail)
	}
	_, body := p.fetch("/metrics", nil)
	if refused := regexp.MustCompile(`(?m)^gpuwhy_viewers_refused_total\{.*\} 4$`); !refused.Match(body) {
		t.Error("/metrics has not the four viewers that were refused")
	}
	last.stream.Close()
	testkit.Until(t, "the place of who left is free", func() bool {
		status, _, _ := p.connect("127.0.0.1", nil)
		return status == http.StatusSwitchingProtocols
	})
}

// Behind a trusted proxy, the limit applies to its clients.
func TestViewersBehindAProxy(t *testing.T) {
	t.Parallel()
	p := start(t, nil, "--source=simulate:rtx-4090", "--max-viewers-per-address=1", "--trusted-proxy=127.0.0.2,127.0.1.0/24")
	forwarded := func(address string) http.Header { return http.Header{"X-Forwarded-For": {address}} }
	for _, tt := range []struct {
		source, forwarded string
		status            int
	}{
		{"127.0.0.2", "192.0.2.1", http.StatusSwitchingProtocols},
		{"127.0.0.2", "192.0.2.1", http.StatusTooManyRequests},
		{"127.0.0.2", "203.0.113.5, 192.0.2.1, 127.0.1.9", http.StatusTooManyRequests},
		{"127.0.1.7", "2001:db8::1", http.StatusSwitchingProtocols},
		{"127.0.1.7", "2001:db8::2", http.StatusTooManyRequests},
		{"127.0.1.7", "2001:db8:0:1::2", http.StatusSwitchingProtocols},
		{"127.0.0.3", "192.0.2.2", http.StatusSwitchingProtocols},
		{"127.0.0.3", "192.0.2.3", http.StatusTooManyRequests}, // it is no proxy, and forges
	} {
		if status, detail, _ := p.connect(tt.source, forwarded(tt.forwarded)); status != tt.status {
			t.Errorf("%s for %s: %d, want %d: %s", tt.source, tt.forwarded, status, tt.status, detail)
		}
	}
}

// Connections that never become a request don't pile up, and don't keep others out.
func TestHalfOpenConnections(t *testing.T) {
	t.Parallel()
	p := start(t, nil, "--source=simulate:rtx-4090", "--max-viewers-per-address=1")
	address := strings.TrimSuffix(strings.TrimPrefix(p.url, "http://"), "/")
	var silent []net.Conn
	for range 150 { // of one address there may be 65
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		silent = append(silent, conn)
	}
	if status := p.get("/api/gpu/summary", nil); status != http.StatusOK {
		t.Errorf("among silent connections an answer is %d", status)
	}
	for _, conn := range silent[:80] { // the first had to leave at once
		if err := conn.SetReadDeadline(time.Now().Add(testkit.Patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 1)); err == nil {
			t.Fatal("a silent connection got an answer")
		} else if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("a silent connection stays open")
		}
	}
	slow, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	cut := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, slow)
		cut <- err
	}()
	every := time.NewTicker(200 * time.Millisecond)
	defer every.Stop()
	go func() {
		for rest := "GET /" + strings.Repeat("a", 10_000); ; rest = rest[1:] {
			if _, err := io.WriteString(slow, rest[:1]); err != nil {
				return // it was cut
			}
			<-every.C
		}
	}()
	if err := testkit.Receive(t, "the end of a request that comes byte by byte", cut); err != nil {
		t.Log(err)
	}
}
