//go:build !race && linux

package bench

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// A side is a server with its viewers and their measurements.
type side struct {
	kind, addr      string
	server, viewers *process
	count           int
	health          health  // when all are connected
	goroutines      float64 // for each viewer
	memory          float64 // kB for each viewer, when all have had a message
	atOnce          float64 // the same before the server has given back what is free

	cpu     []float64 // of rounds: µs for each message delivered
	writes  []float64 // of rounds: calls for each message delivered
	mallocs []float64 // of rounds: allocations for each message delivered
	spread  []float64 // of messages: ms from the first viewer to the last
	bytes   int       // of a message
}

const (
	// encrypted is the suffix of a kind whose connections are TLS.
	encrypted = "-tls"
	// deflated is the suffix of a kind whose viewers accept compressed messages. It comes after the other.
	deflated = "-deflated"
)

// gather starts a server and connects viewers to it.
func gather(tb testing.TB, kind string, viewers, size int) *side {
	tb.Helper()
	var greeting hello
	s := &side{kind: kind, server: begin(tb, role{Server: strings.TrimSuffix(kind, deflated)}, &greeting), count: viewers}
	s.addr = greeting.Addr
	var alone health
	s.server.ask(&alone, "settle")
	before := s.server.anonymous()
	s.viewers = s.crowd(viewers, doesRead)
	s.publish(size)
	s.atOnce = (s.server.anonymous() - before) / float64(viewers)
	s.server.ask(&s.health, "settle")
	s.goroutines = float64(s.health.Goroutines-alone.Goroutines) / float64(viewers)
	s.memory = (s.server.anonymous() - before) / float64(viewers)
	return s
}

// crowd connects viewers to the server.
func (s *side) crowd(viewers int, does string) *process {
	s.server.tb.Helper()
	var connected int
	cfg := crowdConfig{Addr: s.addr, Path: "/ws", Viewers: viewers, Does: does, Deflate: strings.HasSuffix(s.kind, deflated), TLS: strings.Contains(s.kind, encrypted)}
	return begin(s.server.tb, role{Crowd: &cfg}, &connected)
}

// end ends the processes.
func (s *side) end() {
	s.viewers.end()
	s.server.end()
}

// publish sends all viewers a message, and returns how long after the first viewer the
// last one had it.
func (s *side) publish(size int) time.Duration {
	tb := s.server.tb
	tb.Helper()
	var stamp int64
	var a arrival
	s.server.ask(&stamp, "publish %d", size)
	s.viewers.ask(&a, "await %d", stamp)
	if a.Count != s.count {
		tb.Fatalf("%s: %d of %d viewers got a message", s.kind, a.Count, s.count)
	}
	s.bytes = a.Bytes
	return time.Duration(a.Last - a.First)
}

// round publishes some messages, one after the other.
func (s *side) round(messages, size int) {
	s.server.tb.Helper()
	var before, then health
	s.server.ask(&before, "health")
	writes, cpu := s.server.writes(), s.server.cpu()
	for range messages {
		s.spread = append(s.spread, s.publish(size).Seconds()*1e3)
	}
	delivered := float64(messages * s.count)
	s.cpu = append(s.cpu, (s.server.cpu()-cpu).Seconds()*1e6/delivered)
	s.writes = append(s.writes, (s.server.writes()-writes)/delivered)
	s.server.ask(&then, "health")
	s.mallocs = append(s.mallocs, float64(then.Mallocs-before.Mallocs)/delivered)
}

// fanOut measures servers by turns.
func fanOut(tb testing.TB, kinds []string, viewers, size, rounds, messages int) map[string]*side {
	tb.Helper()
	sides := map[string]*side{}
	for _, kind := range kinds {
		sides[kind] = gather(tb, kind, viewers, size)
	}
	for range rounds {
		for _, kind := range kinds {
			sides[kind].round(messages, size)
		}
	}
	for _, s := range sides {
		s.end()
	}
	return sides
}

// benchmarkFanOut reports fanOut's measurements, each server relative to the raw one.
func benchmarkFanOut(b *testing.B, viewers, size int) {
	b.Helper()
	benchmarkKinds(b, []string{kindRaw, kindRaw + deflated, kindNaive, kindHub, kindHub + deflated}, viewers, size)
}

// benchmarkTLS is benchmarkFanOut over TLS, where a server encrypts a message for each viewer.
func benchmarkTLS(b *testing.B, viewers, size int) {
	b.Helper()
	benchmarkKinds(b, []string{kindRaw + encrypted, kindHub + encrypted, kindRaw + encrypted + deflated, kindHub + encrypted + deflated}, viewers, size)
}

// benchmarkKinds reports the measurements of fanOut, each server relative to the first.
func benchmarkKinds(b *testing.B, kinds []string, viewers, size int) {
	b.Helper()
	b.Run(fmt.Sprintf("viewers=%d/kB=%d", viewers, size/1000), func(b *testing.B) {
		sides := fanOut(b, kinds, viewers, size, 5, max(5, 20_000/viewers))
		raw := sides[kinds[0]]
		for _, kind := range kinds {
			b.Run("server="+kind, func(b *testing.B) {
				s := sides[kind]
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(float64(s.bytes), "bytes/msg")
				b.ReportMetric(median(s.cpu), "us-cpu/msg")
				b.ReportMetric(median(quotients(s.cpu, raw.cpu)), "x-raw-cpu")
				b.ReportMetric(s.goroutines, "goroutines/viewer")
				b.ReportMetric(s.memory, "kB/viewer")
				b.ReportMetric(s.atOnce, "kB/viewer-at-once")
				b.ReportMetric(median(s.spread), "ms-spread")
				b.ReportMetric(median(s.spread)/median(raw.spread), "x-raw-spread")
				b.ReportMetric(median(s.writes), "writes/msg")
				b.ReportMetric(median(s.mallocs), "allocs/msg")
			})
		}
	})
}

// BenchmarkFanOut sends a message to 1,000 viewers, a short one and one as long as an update about eight GPUs.
func BenchmarkFanOut(b *testing.B) {
	for _, size := range []int{16_000, 57_000} {
		benchmarkFanOut(b, 1000, size)
	}
}

// BenchmarkTLS is BenchmarkFanOut over TLS.
func BenchmarkTLS(b *testing.B) {
	for _, size := range []int{16_000, 57_000} {
		benchmarkTLS(b, 1000, size)
	}
}

func median[T cmp.Ordered](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// quotients divides measurements of the same rounds.
func quotients(a, b []float64) []float64 {
	out := make([]float64, len(a))
	for i := range a {
		out[i] = a[i] / b[i]
	}
	return out
}
