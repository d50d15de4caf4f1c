package fleet_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/serve/servetest"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
)

// A fleet's nodes are found one by one, and processes by their node.
func TestClusterOfManyNodes(t *testing.T) {
	st, h := servetest.Serving(t)
	st.Show(t, fixture.Fleet()...)
	if nodes := servetest.Decode[[]contract.ClusterNode](t, servetest.Get(h, "/api/v1/gpu/nodes")); len(nodes) != 3 {
		t.Errorf("%d nodes, want 3", len(nodes))
	}
	for name, gpus := range map[string]int{"node-001": 1, "node-002": 2, "node-003": 1} {
		node := servetest.Decode[contract.ClusterNode](t, servetest.Get(h, "/api/v1/gpu/nodes/local/"+name))
		if node.Name != name || node.GPUCount != gpus {
			t.Errorf("%s: %s with %d GPUs, want %d", name, node.Name, node.GPUCount, gpus)
		}
		processes := servetest.Decode[[]contract.ClusterProcess](t, servetest.Get(h, "/api/v1/gpu/processes?node_name="+name))
		if len(processes) != gpus || processes[0].Node != name {
			t.Errorf("%s: %d processes, want %d", name, len(processes), gpus)
		}
	}
}

// Whatever is written for a node or a cluster, the answer says what is known.
func TestClusterNames(t *testing.T) {
	st, h := servetest.Serving(t)
	st.Show(t, fixture.Workstation())
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
			if detail := servetest.IsProblem(t, servetest.Get(h, path), status); len(detail) > 400 {
				t.Errorf("%.60q: the detail has %d bytes", path, len(detail))
			}
		}
		if got := servetest.Get(h, "/api/v1/gpu/processes?node_name="+url.QueryEscape(name)).Body.String(); got != "[]" {
			t.Errorf("%q has the processes %s", name, got)
		}
	}
	if w := servetest.Get(h, "/api/v1/gpu/nodes/%6Cocal/work%73tation"); w.Code != 200 {
		t.Errorf("a name that is written with escapes: status %d", w.Code)
	}
}

// Each answer of the cluster has its own ETag, kept until there is another
// snapshot.
func TestClusterRevalidation(t *testing.T) {
	st, h := servetest.Serving(t)
	st.Show(t, fixture.Server())
	tags := map[string]string{}
	for _, path := range []string{
		"/api/v1/gpu/nodes", "/api/v1/gpu/nodes/dgx-1", "/api/v1/gpu/processes", "/api/v1/gpu/summary", "/api/v1/gpu/summary?cluster_id=local",
		"/api/v1/monitoring/gpu-metrics",
	} {
		tag := servetest.Get(h, path).Header().Get("ETag")
		if other, taken := tags[tag]; taken || tag == "" {
			t.Errorf("%s has the ETag %q of %s", path, tag, other)
		}
		tags[tag] = path
		if w := servetest.Get(h, path, "If-None-Match: "+tag); w.Code != http.StatusNotModified {
			t.Errorf("%s: status %d for its own ETag", path, w.Code)
		}
	}
	st.Show(t, fixture.BrokenServer())
	for tag, path := range tags {
		if w := servetest.Get(h, path, "If-None-Match: "+tag); w.Code != http.StatusOK {
			t.Errorf("%s: status %d after another snapshot", path, w.Code)
		}
	}
	if got := fmt.Sprint(len(servetest.Decode[[]contract.ClusterProcess](t, servetest.Get(h, "/api/v1/gpu/processes")))); got != "6" {
		t.Errorf("%s processes, want 6", got)
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
	_, h := servetest.Serving(t, func(c *servetest.Rig) {
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
		for _, n := range servetest.Decode[[]struct{ Node_name, Cluster_id string }](t, servetest.Get(h, path)) { //nolint:revive // as on the wire
			got = append(got, n.Cluster_id+"/"+n.Node_name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", path, got, want)
		}
	}
	for path, cluster := range map[string]string{"lab/gpu-1": "lab", "prod/gpu-1": "prod", "gpu-1?cluster_id=prod": "prod", "local/node-003": "local"} {
		if n := servetest.Decode[contract.ClusterNode](t, servetest.Get(h, "/api/v1/gpu/nodes/"+path)); n.Cluster != cluster || (n.Labels["rack"] == "7") != (cluster == "lab") {
			t.Errorf("%s: %s with the labels %v", path, n.Cluster, n.Labels)
		}
	}
	for path, gpus := range map[string]int{"": 4, "?cluster_id=lab": 1, "?cluster_id=prod": 2, "?cluster_id=local": 1} {
		if got := servetest.Decode[contract.ClusterSummary](t, servetest.Get(h, "/api/v1/gpu/summary"+path)); got.GPUCount != gpus {
			t.Errorf("summary%s: %d GPUs, want %d", path, got.GPUCount, gpus)
		}
	}
	for path, status := range map[string]int{
		"/api/v1/gpu/nodes?cluster_id=new": 400, "/api/v1/gpu/nodes?cluster_id=other": 404, "/api/v1/gpu/nodes/new/gpu-1": 404,
		"/api/v1/gpu/nodes/local/gpu-1": 404, "/api/v1/gpu/nodes/prod/node-003": 404, "/api/v1/gpu/summary?cluster_id=new": 400,
	} {
		detail := servetest.IsProblem(t, servetest.Get(h, path), status)
		if path == "/api/v1/gpu/nodes?cluster_id=other" && !strings.Contains(detail, "lab") {
			t.Errorf("%s does not say which there are: %s", path, detail)
		}
	}
}

func TestAnswers(t *testing.T) {
	server := fixture.BrokenServer()
	f := insight.Of(server).Alone()
	for _, tt := range []struct {
		path   string
		answer any
	}{
		{"/api/v1/monitoring/gpu-metrics", contract.NewFleet(servetest.Monitor, f)},
		{"/api/v1/gpu/nodes", contract.NewClusterNodes(f)},
		{"/api/v1/gpu/nodes?cluster_id=local", contract.NewClusterNodes(f)},
		{"/api/v1/gpu/nodes/dgx-1", contract.NewClusterNodes(f)[0]},
		{"/api/v1/gpu/nodes/local/dgx-1", contract.NewClusterNodes(f)[0]},
		{"/api/v1/gpu/processes", contract.NewClusterProcesses(contract.NewClusterNodes(f))},
		{"/api/v1/gpu/processes?node_name=dgx-1&cluster_id=local", contract.NewClusterProcesses(contract.NewClusterNodes(f))},
		{"/api/v1/gpu/processes?node_name=dgx-2", []contract.ClusterProcess{}},
		{"/api/v1/gpu/summary", contract.NewClusterSummary(servetest.Monitor, f, nil)},
		{"/api/v1/gpu/summary?cluster_id=local", contract.NewClusterSummary(servetest.Monitor, f, new(contract.LocalCluster))},
	} {
		st, h := servetest.Serving(t)
		st.Show(t, server)
		want, err := json.Marshal(tt.answer)
		if err != nil {
			t.Fatal(err)
		}
		if w := servetest.Get(h, tt.path); w.Code != http.StatusOK || w.Body.String() != string(want) {
			t.Errorf("%s: status %d\ngot  %s\nwant %s", tt.path, w.Code, w.Body, want)
		}
	}
}
