package app

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/access"
	"github.com/gpuwhy/gpuwhy/internal/access/ledger"
	"github.com/gpuwhy/gpuwhy/internal/access/peer"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/clock"
	"github.com/gpuwhy/gpuwhy/internal/reading"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
	"github.com/gpuwhy/gpuwhy/sampler"
	"github.com/gpuwhy/gpuwhy/sampler/sim"
)

// discard is a ResponseWriter that costs nothing.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(int)             {}

// BenchmarkReading asks for what everybody may see, by turns: of a program without any access, of one with accounts where nobody has to sign
// in, and of one where the kernel says who is at the other end, over one connection of this machine. It reports medians, and how they compare
// in the same round.
func BenchmarkReading(b *testing.B) {
	log := slog.New(slog.DiscardHandler)
	kernel := access.NewKernel(access.KernelConfig{Loopback: true, Clock: clock.Program(), Log: log})
	variants := []struct {
		name string
		opt  func(ledger.Ledger) *access.Options
		ask  func()
		took []float64 // ns a request, of each round
	}{
		{name: "without", opt: func(ledger.Ledger) *access.Options { return nil }},
		{name: "open", opt: func(l ledger.Ledger) *access.Options { return &access.Options{Ledger: l, Open: auth.Read} }},
		{name: "kernel", opt: func(l ledger.Ledger) *access.Options { return &access.Options{Ledger: l, Ways: []access.Way{kernel}} }},
	}
	conn := connected(b)
	for i := range variants {
		v := &variants[i]
		accounts, err := ledger.InMemory(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		nodes, err := sim.Nodes("dgx-h100", time.Now)
		if err != nil {
			b.Fatal(err)
		}
		a, err := New(Options{
			Address: serve.Address{Listen: "127.0.0.1:0", BasePath: "/"}, Interval: time.Hour, Deadline: time.Second, MaxViewers: 1, Access: v.opt(accounts),
		}, []*reading.Inputs{{Node: "box", Origin: "auto", Sources: []sampler.Source{nodes[0]}}}, log)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = a.Close() })
		a.Publish(fixture.Server())
		r := httptest.NewRequest(http.MethodGet, "/api/gpu/summary", http.NoBody).WithContext(peer.NewContext(context.Background(), conn))
		r.Host, r.RemoteAddr = "127.0.0.1:8003", conn.RemoteAddr().String()
		w := httptest.NewRecorder()
		if a.Handler().ServeHTTP(w, r); w.Code != http.StatusOK {
			b.Fatalf("%s: %d %s", v.name, w.Code, w.Body)
		}
		none := &discard{header: http.Header{}}
		v.ask = func() {
			clear(none.header)
			a.Handler().ServeHTTP(none, r)
		}
	}
	const requests = 200
	for b.Loop() {
		for i := range variants {
			begun := time.Now()
			for range requests {
				variants[i].ask()
			}
			variants[i].took = append(variants[i].took, float64(time.Since(begun))/requests)
		}
	}
	b.ReportMetric(0, "ns/op")
	for _, v := range variants {
		b.ReportMetric(median(v.took), "ns-"+v.name)
		more := make([]float64, len(v.took))
		for i := range more {
			more[i] = v.took[i] - variants[0].took[i]
		}
		b.ReportMetric(median(more), "ns-more-"+v.name)
	}
}

func median(values []float64) float64 { return slices.Sorted(slices.Values(values))[len(values)/2] }

// connected is a connection of this machine, as the server has it.
func connected(b *testing.B) net.Conn {
	b.Helper()
	ln, err := new(net.ListenConfig).Listen(b.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer ln.Close()
	client, err := new(net.Dialer).DialContext(b.Context(), "tcp", ln.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	server, err := ln.Accept()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _, _ = server.Close(), client.Close() })
	return server
}
