package serve_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/serve/servetest"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
)

// An answer about the snapshot may be kept until the next reading is due, and
// not a moment longer; what may change in between is asked for each time.
func TestCacheFitsTheInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no time passes while it is asked
		for _, tt := range []struct {
			age, interval time.Duration
			want          string
		}{
			{0, time.Minute, "private, max-age=60"},
			{time.Nanosecond, time.Minute, "private, max-age=59"},
			{18500 * time.Millisecond, time.Minute, "private, max-age=41"},
			{59500 * time.Millisecond, time.Minute, "private, no-cache"},
			{61 * time.Second, time.Minute, "private, no-cache"},
			{0, 250 * time.Millisecond, "private, no-cache"},
			{-time.Hour, time.Minute, "private, no-cache"}, // the clock was set back
		} {
			st, h := servetest.Serving(t, func(c *servetest.Rig) { c.Monitor.Interval = tt.interval })
			check := func(path, want string) {
				t.Helper()
				if got := servetest.Get(h, path).Header().Get("Cache-Control"); got != want {
					t.Errorf("%v old, each %v: %s has %q, want %q", tt.age, tt.interval, path, got, want)
				}
			}
			check("/api/gpu/devices", "private, no-cache")
			snap := fixture.Workstation()
			snap.Time = time.Now().Add(-tt.age)
			st.Show(t, snap)
			for _, path := range []string{
				"/", "/gpu/info", "/gpu/metrics", "/gpu/metrics/0", "/api/gpu/devices", "/api/v1/monitoring/gpu-metrics",
				"/api/v1/gpu/nodes", "/api/v1/gpu/nodes/workstation", "/api/v1/gpu/processes", "/api/v1/gpu/summary",
			} {
				check(path, tt.want)
			}
			for _, path := range []string{"/api/gpu/summary", "/api/gpu/metrics", "/api/gpu/recent", "/openapi.json", "/docs"} {
				check(path, "private, no-cache")
			}
			check("/health", "no-store")
		}
	})
}

// A source that failed is tried again before the next reading.
func TestNothingIsKeptWhileASourceFails(t *testing.T) {
	st, h := servetest.Serving(t, func(c *servetest.Rig) { c.Monitor.Interval = time.Hour })
	for what, change := range map[string]func(*gpu.Snapshot){
		"a failure": func(s *gpu.Snapshot) { s.Failures = []gpu.Failure{{Source: gpu.SourceNVML}} },
		"no device": func(s *gpu.Snapshot) { s.Devices = nil },
	} {
		snap := fixture.Workstation()
		snap.Time = time.Now()
		change(snap)
		st.Show(t, snap)
		for _, path := range []string{"/gpu/info", "/api/gpu/devices", "/api/gpu/driver", "/api/v1/gpu/nodes"} {
			if got := servetest.Get(h, path).Header().Get("Cache-Control"); got != "private, no-cache" {
				t.Errorf("%s: %s has %q", what, path, got)
			}
		}
	}
}

// A query that can't be read is refused, and not taken for none.
func TestQueriesThatCanNotBeRead(t *testing.T) {
	st, h := servetest.Serving(t)
	st.Show(t, fixture.Workstation())
	for _, path := range []string{
		"/api/v1/gpu/nodes", "/api/v1/gpu/nodes/workstation", "/api/v1/gpu/nodes/local/workstation", "/api/v1/gpu/processes", "/api/v1/gpu/summary", "/api/gpu/recent",
	} {
		for _, query := range []string{"a=1;cluster_id=nope", "gpu=0;gpu=1", ";", "cluster_id=%", "cluster_id=local&gpu=%zz", "node_name=a;b"} {
			if detail := servetest.IsProblem(t, servetest.Get(h, path+"?"+query), http.StatusUnprocessableEntity); !strings.Contains(detail, "the query") || !strings.Contains(detail, "%3B") {
				t.Errorf("%s?%s: %q", path, query, detail)
			}
		}
		for _, query := range []string{"", "a=1&cluster_id=local", "unknown=%3B%25", "&&", "a"} {
			if w := servetest.Get(h, path+"?"+query); w.Code != http.StatusOK {
				t.Errorf("%s?%s: status %d: %s", path, query, w.Code, w.Body)
			}
		}
	}
}
