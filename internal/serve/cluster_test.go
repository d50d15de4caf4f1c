package serve

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
)

// A fleet's nodes are found one by one, and processes by their node.
func TestClusterOfManyNodes(t *testing.T) {
	st, h := serving(t)
	st.show(t, fixture.Fleet()...)
	if nodes := decode[[]contract.ClusterNode](t, get(h, "/api/v1/gpu/nodes")); len(nodes) != 3 {
		t.Errorf("%d nodes, want 3", len(nodes))
	}
	for name, gpus := range map[string]int{"node-001": 1, "node-002": 2, "node-003": 1} {
		node := decode[contract.ClusterNode](t, get(h, "/api/v1/gpu/nodes/local/"+name))
		if node.Name != name || node.GPUCount != gpus {
			t.Errorf("%s: %s with %d GPUs, want %d", name, node.Name, node.GPUCount, gpus)
		}
		processes := decode[[]contract.ClusterProcess](t, get(h, "/api/v1/gpu/processes?node_name="+name))
		if len(processes) != gpus || processes[0].Node != name {
			t.Errorf("%s: %d processes, want %d", name, len(processes), gpus)
		}
	}
}

// Whatever is written for a node or a cluster, the answer says what is known.
func TestClusterNames(t *testing.T) {
	st, h := serving(t)
	st.show(t, fixture.Workstation())
	for _, name := range []string{
		"-1", strings.Repeat("9", 5000), "WORKSTATION", "work station", "a/b", "\xff\xfe", "\x00", "%77orkstation", "..", "<script>", "null",
	} {
		escaped := url.PathEscape(name)
		for path, status := range map[string]int{
			"/api/v1/gpu/nodes/" + escaped:                                      http.StatusNotFound,
			"/api/v1/gpu/nodes/local/" + escaped:                                http.StatusNotFound,
			"/api/v1/gpu/nodes/" + escaped + "/workstation":                     http.StatusNotFound,
			"/api/v1/gpu/nodes?cluster_id=" + url.QueryEscape(name):             http.StatusNotFound,
			"/api/v1/gpu/summary?cluster_id=" + url.QueryEscape(name):           http.StatusNotFound,
			"/api/v1/gpu/processes?cluster_id=" + url.QueryEscape(name):         http.StatusNotFound,
			"/api/v1/gpu/nodes/workstation?cluster_id=" + url.QueryEscape(name): http.StatusNotFound,
		} {
			if name == ".." && strings.Contains(path, "/..") {
				continue // leads to another address
			}
			if detail := isProblem(t, get(h, path), status); len(detail) > 400 {
				t.Errorf("%.60q: the detail has %d bytes", path, len(detail))
			}
		}
		if got := get(h, "/api/v1/gpu/processes?node_name="+url.QueryEscape(name)).Body.String(); got != "[]" {
			t.Errorf("%q has the processes %s", name, got)
		}
	}
	if w := get(h, "/api/v1/gpu/nodes/%6Cocal/work%73tation"); w.Code != 200 {
		t.Errorf("a name that is written with escapes: status %d", w.Code)
	}
}

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
			{59500 * time.Millisecond, time.Minute, "no-cache"},
			{61 * time.Second, time.Minute, "no-cache"},
			{0, 250 * time.Millisecond, "no-cache"},
			{-time.Hour, time.Minute, "no-cache"}, // the clock was set back
		} {
			st, h := serving(t, func(c *Config) { c.Monitor.Interval = tt.interval })
			check := func(path, want string) {
				t.Helper()
				if got := get(h, path).Header().Get("Cache-Control"); got != want {
					t.Errorf("%v old, each %v: %s has %q, want %q", tt.age, tt.interval, path, got, want)
				}
			}
			check("/api/gpu/devices", "no-cache")
			snap := fixture.Workstation()
			snap.Time = time.Now().Add(-tt.age)
			st.show(t, snap)
			for _, path := range []string{
				"/", "/gpu/info", "/gpu/metrics", "/gpu/metrics/0", "/api/gpu/devices", "/api/v1/monitoring/gpu-metrics",
				"/api/v1/gpu/nodes", "/api/v1/gpu/nodes/workstation", "/api/v1/gpu/processes", "/api/v1/gpu/summary",
			} {
				check(path, tt.want)
			}
			for _, path := range []string{"/api/gpu/summary", "/api/gpu/metrics", "/api/gpu/recent", "/openapi.json", "/docs"} {
				check(path, "no-cache")
			}
			check("/health", "no-store")
		}
	})
}

// A source that failed is tried again before the next reading.
func TestNothingIsKeptWhileASourceFails(t *testing.T) {
	st, h := serving(t, func(c *Config) { c.Monitor.Interval = time.Hour })
	for what, change := range map[string]func(*gpu.Snapshot){
		"a failure": func(s *gpu.Snapshot) { s.Failures = []gpu.Failure{{Source: gpu.SourceNVML}} },
		"no device": func(s *gpu.Snapshot) { s.Devices = nil },
	} {
		snap := fixture.Workstation()
		snap.Time = time.Now()
		change(snap)
		st.show(t, snap)
		for _, path := range []string{"/gpu/info", "/api/gpu/devices", "/api/gpu/driver", "/api/v1/gpu/nodes"} {
			if got := get(h, path).Header().Get("Cache-Control"); got != "no-cache" {
				t.Errorf("%s: %s has %q", what, path, got)
			}
		}
	}
}

// Each answer of the cluster has its own ETag, kept until there is another
// snapshot.
func TestClusterRevalidation(t *testing.T) {
	st, h := serving(t)
	st.show(t, fixture.Server())
	tags := map[string]string{}
	for _, path := range []string{
		"/api/v1/gpu/nodes", "/api/v1/gpu/nodes/dgx-1", "/api/v1/gpu/processes", "/api/v1/gpu/summary", "/api/v1/gpu/summary?cluster_id=local",
		"/api/v1/monitoring/gpu-metrics",
	} {
		tag := get(h, path).Header().Get("ETag")
		if other, taken := tags[tag]; taken || tag == "" {
			t.Errorf("%s has the ETag %q of %s", path, tag, other)
		}
		tags[tag] = path
		if w := get(h, path, "If-None-Match: "+tag); w.Code != http.StatusNotModified {
			t.Errorf("%s: status %d for its own ETag", path, w.Code)
		}
	}
	st.show(t, fixture.BrokenServer())
	for tag, path := range tags {
		if w := get(h, path, "If-None-Match: "+tag); w.Code != http.StatusOK {
			t.Errorf("%s: status %d after another snapshot", path, w.Code)
		}
	}
	if got := fmt.Sprint(len(decode[[]contract.ClusterProcess](t, get(h, "/api/v1/gpu/processes")))); got != "6" {
		t.Errorf("%s processes, want 6", got)
	}
}

// A query that can't be read is refused, and not taken for none.
func TestQueriesThatCanNotBeRead(t *testing.T) {
	st, h := serving(t)
	st.show(t, fixture.Workstation())
	for _, path := range []string{
		"/api/v1/gpu/nodes", "/api/v1/gpu/nodes/workstation", "/api/v1/gpu/nodes/local/workstation", "/api/v1/gpu/processes", "/api/v1/gpu/summary", "/api/gpu/recent",
	} {
		for _, query := range []string{"a=1;cluster_id=nope", "gpu=0;gpu=1", ";", "cluster_id=%", "cluster_id=local&gpu=%zz", "node_name=a;b"} {
			if detail := isProblem(t, get(h, path+"?"+query), http.StatusUnprocessableEntity); !strings.Contains(detail, "the query") || !strings.Contains(detail, "%3B") {
				t.Errorf("%s?%s: %q", path, query, detail)
			}
		}
		for _, query := range []string{"", "a=1&cluster_id=local", "unknown=%3B%25", "&&", "a"} {
			if w := get(h, path+"?"+query); w.Code != http.StatusOK {
				t.Errorf("%s?%s: status %d: %s", path, query, w.Code, w.Body)
			}
		}
	}
}

// Nodes of several clusters are told apart, and a cluster that is to be read and has no node yet is no unknown one.
func TestRealClusters(t *testing.T) {
	fleet := fixture.Fleet()
	var moments []*insight.Moment
	for i, place := range []insight.Place{
		{Name: "gpu-1", Cluster: "lab", Labels: map[string]string{"rack": "7"}}, {Name: "gpu-1", Cluster: "prod"}, {},
	} {
		snap := *fleet[i]
		if place.Cluster != "" {
			snap.Node = insight.Key(place.Cluster, place.Name)
		}
		moments = append(moments, insight.Of(&snap).At(place, insight.Link{}))
	}
	_, h := serving(t, func(c *Config) {
		c.Newest = func() *insight.Fleet { return insight.NewFleet(moments...) }
		c.Clusters = func() []string { return []string{"lab", "prod", "new"} }
	})
	for path, want := range map[string]string{
		"/api/v1/gpu/nodes":                                               "lab/gpu-1 local/node-003 prod/gpu-1",
		"/api/v1/gpu/nodes?cluster_id=lab":                                "lab/gpu-1",
		"/api/v1/gpu/nodes?cluster_id=prod":                               "prod/gpu-1",
		"/api/v1/gpu/nodes?cluster_id=local":                              "local/node-003",
		"/api/v1/gpu/processes?cluster_id=prod":                           "prod/gpu-1 prod/gpu-1",
		"/api/v1/gpu/processes?node_name=gpu-1&cluster_id=lab":            "lab/gpu-1",
		"/api/v1/gpu/processes?node_name=node-003&cluster_id=lab":         "",
		"/api/v1/gpu/processes?node_name=node-003&cluster_id=local":       "local/node-003",
		"/api/v1/gpu/processes?node_name=" + url.QueryEscape("lab:gpu-1"): "lab/gpu-1",
	} {
		var got []string
		for _, n := range decode[[]struct{ Node_name, Cluster_id string }](t, get(h, path)) { //nolint:revive // as on the wire
			got = append(got, n.Cluster_id+"/"+n.Node_name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", path, got, want)
		}
	}
	for path, cluster := range map[string]string{"lab/gpu-1": "lab", "prod/gpu-1": "prod", "gpu-1?cluster_id=prod": "prod", "local/node-003": "local"} {
		if n := decode[contract.ClusterNode](t, get(h, "/api/v1/gpu/nodes/"+path)); n.Cluster != cluster || (n.Labels["rack"] == "7") != (cluster == "lab") {
			t.Errorf("%s: %s with the labels %v", path, n.Cluster, n.Labels)
		}
	}
	for path, gpus := range map[string]int{"": 4, "?cluster_id=lab": 1, "?cluster_id=prod": 2, "?cluster_id=local": 1} {
		if got := decode[contract.ClusterSummary](t, get(h, "/api/v1/gpu/summary"+path)); got.GPUCount != gpus {
			t.Errorf("summary%s: %d GPUs, want %d", path, got.GPUCount, gpus)
		}
	}
	for path, status := range map[string]int{
		"/api/v1/gpu/nodes?cluster_id=new": 400, "/api/v1/gpu/nodes?cluster_id=other": 404, "/api/v1/gpu/nodes/new/gpu-1": 404,
		"/api/v1/gpu/nodes/local/gpu-1": 404, "/api/v1/gpu/nodes/prod/node-003": 404, "/api/v1/gpu/summary?cluster_id=new": 400,
	} {
		detail := isProblem(t, get(h, path), status)
		if path == "/api/v1/gpu/nodes?cluster_id=other" && !strings.Contains(detail, "lab") {
			t.Errorf("%s does not say which there are: %s", path, detail)
		}
	}
}
