package app

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/access"
	"github.com/gpuwhy/gpuwhy/internal/access/ledger"
	"github.com/gpuwhy/gpuwhy/internal/reading"
	"github.com/gpuwhy/gpuwhy/sampler"
	"github.com/gpuwhy/gpuwhy/sampler/sim"
)

// BenchmarkRequest is a question over an open connection: where everybody is the local owner, and where the kernel says who asks. They take
// turns, so that a busy machine slows both.
func BenchmarkRequest(b *testing.B) {
	accounts, err := ledger.InMemory(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	ways := []access.Way{access.NewKernel(access.KernelConfig{Loopback: true, Log: log})}
	ask := map[string]func(){"without": asking(b, nil), "kernel": asking(b, &access.Options{Ledger: accounts, Ways: ways})}
	took := map[string]time.Duration{}
	for b.Loop() {
		for name, once := range ask {
			begun := time.Now()
			for range 100 {
				once()
			}
			took[name] += time.Since(begun)
		}
	}
	for name, all := range took {
		b.ReportMetric(float64(all.Nanoseconds())/float64(b.N)/100, "ns/"+name)
	}
}

// asking returns a function that asks a program for the summary.
func asking(b *testing.B, who *access.Options) func() {
	b.Helper()
	nodes, err := sim.Nodes("rtx-4090", time.Now)
	if err != nil {
		b.Fatal(err)
	}
	opt := Options{Interval: time.Second, Deadline: time.Minute, AlertUtilization: 50, MaxViewers: 100, Access: who}
	opt.Listen, opt.BasePath = "127.0.0.1:0", "/"
	in := &reading.Inputs{Node: nodes[0].Node(), Origin: "simulate:rtx-4090", Sources: []sampler.Source{nodes[0]}}
	a, err := New(opt, []*reading.Inputs{in}, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	ln, err := new(net.ListenConfig).Listen(b.Context(), "tcp", opt.Listen)
	if err != nil {
		b.Fatal(err)
	}
	go a.viewers.server.Serve(ln) //nolint:errcheck // it ends with the benchmark
	client := &http.Client{Transport: &http.Transport{}}
	b.Cleanup(func() {
		client.CloseIdleConnections()
		if err := a.Close(); err != nil {
			b.Error(err)
		}
		a.viewers.server.Close()
	})
	return func() {
		answer, err := client.Get("http://" + ln.Addr().String() + "/api/gpu/summary")
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, answer.Body); err != nil || answer.StatusCode != http.StatusOK {
			b.Fatal(answer.Status, err)
		}
		answer.Body.Close()
	}
}
