//go:build !race

package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/sampler/kube/fakekube"
	"github.com/gpuwhy/gpuwhy/sampler/smi/fakesmi"
)

// A program without its own GPU reads the nodes of a cluster, which come and go, and says what is wrong with the cluster.
func TestClusters(t *testing.T) {
	t.Parallel()
	s := fakekube.New(t)
	file := filepath.Join(t.TempDir(), "clusters.yaml")
	if err := os.WriteFile(file, []byte("clusters:\n- id: lab\n  url: "+s.URL+"\n  interval: 2s\n  exec_interval: 2s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, nil, "hub", "--clusters", file, "--interval", "1s")
	health := func() string {
		_, body := p.fetch("/api/health", nil)
		return string(body)
	}
	page := func() string {
		_, body := p.fetch("/", http.Header{"Accept": {"text/html"}})
		return string(body)
	}
	testkit.Until(t, "the cluster has no GPU", func() bool { return strings.Contains(health(), `"cluster lab":{"state":"failed"`) })
	testkit.Until(t, "the same on the page", func() bool { return strings.Contains(page(), "lab") && strings.Contains(page(), "nvidia.com/gpu") })

	nodes := func() (all []struct {
		Node    string            `json:"node_name"`
		Cluster string            `json:"cluster_id"`
		Labels  map[string]string `json:"labels"`
		GPUs    []json.RawMessage `json:"gpus"`
	}) {
		p.get("/api/v1/gpu/nodes", &all)
		return all
	}
	m := fakesmi.New(t, "rtx4090-550")
	m.Fault("pmon-ms 20")
	s.Node("gpu-1", func(node map[string]any) {
		node["metadata"].(map[string]any)["labels"] = map[string]any{"rack": "r7", "nvidia.com/gpu.present": "true"}
	})
	s.Pod("gpu-operator", "driver-1", "gpu-1", filepath.Dir(m.Program()))
	testkit.Until(t, "its node", func() bool { all := nodes(); return len(all) == 1 && len(all[0].GPUs) == 1 })
	if n := nodes()[0]; n.Node != "gpu-1" || n.Cluster != "lab" || n.Labels["rack"] != "r7" {
		t.Errorf("%+v", n)
	}
	testkit.Until(t, "the cluster is well", func() bool { return strings.Contains(health(), `"cluster lab":{"state":"ok"`) })
	var one map[string]any
	if status := p.get("/node/lab:gpu-1/api/gpu/summary", &one); status != 200 || one["node"] != "lab:gpu-1" {
		t.Errorf("%d, %v", status, one["node"])
	}
	var recent contract.Recent
	if p.get("/node/lab:gpu-1/api/gpu/recent", &recent); recent.Interval != 2 {
		t.Errorf("it is read every %v s, and not every 2 s as the file says", recent.Interval)
	}
	if status := p.get("/api/v1/gpu/nodes?cluster_id=other", nil); status != 404 {
		t.Errorf("another cluster: %d", status)
	}
	s.Remove("nodes", "", "gpu-1")
	testkit.Until(t, "it has gone", func() bool { return len(nodes()) == 0 && !strings.Contains(page(), "lab:gpu-1") })
}
