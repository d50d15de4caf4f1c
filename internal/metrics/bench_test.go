package metrics

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/sampler/sim"
)

// simulated returns a reading of a simulated machine, indexed as the sampler
// does.
func simulated(tb testing.TB, profile string, when time.Time) []*insight.Moment {
	tb.Helper()
	nodes, err := sim.Nodes(profile, func() time.Time { return when })
	if err != nil {
		tb.Fatal(err)
	}
	var out []*insight.Moment
	for _, source := range nodes {
		s, err := source.Read(tb.Context())
		if err != nil {
			tb.Fatal(err)
		}
		s.Time, s.Node = when, source.Node()
		for i := range s.Devices {
			s.Devices[i].Index, s.Devices[i].Node = i, s.Node
		}
		out = append(out, insight.Of(s))
	}
	return out
}

// discard is a response that nobody reads.
type discard struct {
	header  http.Header
	written int
}

func (d *discard) Header() http.Header { return d.header }
func (d *discard) WriteHeader(int)     {}
func (d *discard) Write(p []byte) (int, error) {
	d.written += len(p)
	return len(p), nil
}

// A fresh encoding is what a snapshot costs once, a cached one what each
// further scrape of it costs.
func BenchmarkScrape(b *testing.B) {
	for _, m := range []struct{ name, profile string }{{"8 GPUs", "dgx-h100"}, {"64 GPUs", "fleet:64"}} {
		for _, packed := range []bool{false, true} {
			header := http.Header{"Accept": {"text/plain;version=0.0.4"}}
			name := m.name + "/plain"
			if packed {
				header.Set("Accept-Encoding", "gzip")
				name = m.name + "/gzip"
			}
			when := time.Date(2026, 3, 2, 14, 0, 0, 0, time.UTC)
			moments := simulated(b, m.profile, when)
			newest := insight.NewFleet(moments...)
			e, err := New(Config{
				Newest:   func() *insight.Fleet { return newest },
				Self:     func() Self { return Self{} },
				Interval: 5 * time.Second,
				Now:      func() time.Time { return when },
			})
			if err != nil {
				b.Fatal(err)
			}
			r := httptest.NewRequestWithContext(owner(b.Context()), http.MethodGet, "/metrics", nil)
			r.Header = header
			scrape := func() *discard {
				w := &discard{header: http.Header{}}
				e.ServeHTTP(w, r)
				return w
			}
			b.Run(name+"/fresh", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					newest = insight.NewFleet(moments...)
					b.ReportMetric(float64(scrape().written), "bytes")
				}
			})
			b.Run(name+"/cached", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					scrape()
				}
			})
		}
	}
}
