package contract_test

import (
	"slices"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/contract/machines"
)

// A fleet's machines are nodes of their own, whose GPUs are counted from 0.
func TestClusterNodesOfAFleet(t *testing.T) {
	nodes := contract.NewClusterNodes(machines.Fleet())
	var got []string
	for _, n := range nodes {
		got = append(got, n.Name)
		for i, g := range n.GPUs {
			if g.Index != i || g.Processes[0].GPUIndex != i || g.Processes[0].Node != n.Name || n.Cluster != "local" {
				t.Errorf("%s: GPU %d has index %d, and a process of GPU %d on %s", n.Name, i, g.Index, g.Processes[0].GPUIndex, g.Processes[0].Node)
			}
		}
		if want := int64(81559 * n.GPUCount); value(n.TotalMemory) != want || len(n.GPUs) != n.GPUCount {
			t.Errorf("%s: %v MiB of %d GPUs, want %d", n.Name, n.TotalMemory, n.GPUCount, want)
		}
	}
	if want := []string{"node-001", "node-002", "node-003"}; !slices.Equal(got, want) {
		t.Errorf("nodes %v, want %v", got, want)
	}
	if summary := contract.NewClusterSummary(monitor, machines.Fleet(), nil); summary.NodeCount != 3 || summary.GPUCount != 4 || summary.Cluster != nil {
		t.Errorf("summary: %+v", summary)
	}
}

func value(i contract.Int) int64 {
	v, _ := i.Get()
	return v
}

// A GPU that does not answer is counted, has no readings, and is in no sum.
func TestClusterOfABrokenServer(t *testing.T) {
	s := machines.BrokenServer()
	node := contract.NewClusterNodes(s)[0]
	if node.GPUCount != 8 || value(node.TotalMemory) != 6*81559 {
		t.Errorf("%d GPUs with %v MiB, want 8 of which 6 count", node.GPUCount, node.TotalMemory)
	}
	lost := node.GPUs[3]
	if _, ok := lost.Temperature.Get(); ok || lost.State != "lost" || len(lost.Processes) != 0 {
		t.Errorf("the lost one: %+v", lost)
	}
	fleet := contract.NewFleet(monitor, s)
	if _, ok := fleet.GPUs[3].PowerUsage.Get(); ok || len(fleet.GPUs) != 8 || fleet.GPUs[3].State != "lost" {
		t.Errorf("the lost one: %+v", fleet.GPUs[3])
	}
	summary := contract.NewClusterSummary(monitor, s, nil)
	if summary.GPUCount != 8 || value(summary.TotalMemory) != 6*81559 {
		t.Errorf("summary: %+v", summary)
	}
	// 55, 56, 57, 59, 61 and 62 degrees.
	if got, _ := summary.Temperature.Get(); got != 58.3 {
		t.Errorf("average temperature %v, want 58.3: one decimal", got)
	}
}

// What pmon calls C+G and M+C is compute.
func TestClusterProcessTypes(t *testing.T) {
	got := map[string]string{}
	for _, p := range contract.NewClusterProcesses(contract.NewClusterNodes(machines.Mixed())) {
		got[p.Command] = p.Type
	}
	for command, want := range map[string]string{
		"python": "compute", "Xorg": "graphics", "blender": "compute", "nvidia-cuda-mps-server": "compute",
	} {
		if got[command] != want {
			t.Errorf("%s is %q, want %q", command, got[command], want)
		}
	}
}

// Without a GPU there is nothing to count, and nothing to measure.
func TestClusterWithoutGPU(t *testing.T) {
	for name, summary := range map[string]contract.ClusterSummary{
		"starting": contract.NewClusterSummary(monitor, nil, nil),
		"no GPU":   contract.NewClusterSummary(monitor, machines.Empty(), nil),
	} {
		memory, ok := summary.TotalMemory.Get()
		if _, measured := summary.Utilization.Get(); summary.NodeCount != 0 || summary.GPUCount != 0 || memory != 0 || !ok || measured {
			t.Errorf("%s: %+v", name, summary)
		}
	}
	if nodes := contract.NewClusterNodes(machines.Empty()); nodes == nil || len(nodes) > 0 {
		t.Errorf("nodes: %v", nodes)
	}
}
