package serve_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/internal/serve/servetest"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
)

// The routes that are polled, on eight GPUs, beside a handler that writes a
// constant of the same length: over loopback, and by themselves. Compare them
// within one run.
func BenchmarkSummary(b *testing.B)  { benchmarkRoute(b, "/api/gpu/summary") }
func BenchmarkMetrics(b *testing.B)  { benchmarkRoute(b, "/gpu/metrics") }
func BenchmarkUpdate(b *testing.B)   { benchmarkRoute(b, "/api/gpu/metrics") }
func BenchmarkOneGPU(b *testing.B)   { benchmarkRoute(b, "/gpu/metrics/3") }
func BenchmarkHome(b *testing.B)     { benchmarkRoute(b, "/") }
func BenchmarkNotFound(b *testing.B) { benchmarkRoute(b, "/gpu/metrics/99") }

func BenchmarkConstant(b *testing.B) {
	st, h := servetest.Serving(b)
	st.Show(b, fixture.Server())
	for _, path := range []string{"/api/gpu/summary", "/gpu/metrics"} {
		constant := servetest.Get(h, path).Body.Bytes()
		b.Run("like "+path, func(b *testing.B) {
			benchmark(b, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Content-Type"] = []string{typeJSON}
				_, _ = w.Write(constant)
			}), path)
		})
	}
}

func benchmarkRoute(b *testing.B, path string) {
	b.Helper()
	st, h := servetest.Serving(b)
	st.Show(b, fixture.Server())
	benchmark(b, h, path)
}

func benchmark(b *testing.B, h http.Handler, path string) {
	b.Helper()
	b.Run("loopback", func(b *testing.B) {
		ts := httptest.NewUnstartedServer(nil)
		ts.Config = serve.HTTPServer(h, slog.New(slog.DiscardHandler))
		ts.Start()
		defer ts.Close()
		client := ts.Client()
		client.Transport.(*http.Transport).DisableCompression = true
		for b.Loop() {
			r, err := http.NewRequest(http.MethodGet, ts.URL+path, nil)
			if err != nil {
				b.Fatal(err)
			}
			r.Header.Set("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8")
			resp, err := client.Do(r)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, resp.Body); err != nil {
				b.Fatal(err)
			}
			_ = resp.Body.Close()
		}
	})
	b.Run("handler", func(b *testing.B) {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Host = "127.0.0.1:8003"
		r.Header.Set("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8")
		w := &discard{header: http.Header{}}
		b.ReportAllocs()
		for b.Loop() {
			clear(w.header)
			h.ServeHTTP(w, r)
		}
	})
}

// discard is a ResponseWriter that costs nothing.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(int)             {}
