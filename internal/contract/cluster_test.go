//go:build !race

package contract_test

import (
	"math"
	"slices"
	"testing"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
)

// A fleet's machines are nodes of their own, whose GPUs are counted from 0.
func TestClusterNodesOfAFleet(t *testing.T) {
	nodes := contract.NewClusterNodes(explained(fixture.Fleet()...))
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
	if summary := contract.NewClusterSummary(monitor, explained(fixture.Fleet()...), nil); summary.NodeCount != 3 || summary.GPUCount != 4 || summary.Cluster != nil {
		t.Errorf("summary: %+v", summary)
	}
}

func value(i contract.Int) int64 {
	v, _ := i.Get()
	return v
}

// A GPU that does not answer is counted, has no readings, and is in no sum.
func TestClusterOfABrokenServer(t *testing.T) {
	s := alone(fixture.BrokenServer())
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
	for _, p := range contract.NewClusterProcesses(contract.NewClusterNodes(alone(fixture.Mixed()))) {
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
		"no GPU":   contract.NewClusterSummary(monitor, alone(fixture.Empty()), nil),
	} {
		memory, ok := summary.TotalMemory.Get()
		if _, measured := summary.Utilization.Get(); summary.NodeCount != 0 || summary.GPUCount != 0 || memory != 0 || !ok || measured {
			t.Errorf("%s: %+v", name, summary)
		}
	}
	if nodes := contract.NewClusterNodes(alone(fixture.Empty())); nodes == nil || len(nodes) > 0 {
		t.Errorf("nodes: %v", nodes)
	}
}

// What is divided by something comes from the same GPUs, and what can't be right
// is in no sum.
func TestSumsAreOfTheSameGPUs(t *testing.T) {
	const none = -1
	type memory struct{ used, total gpu.Reading[gpu.Bytes] }
	good, doubtful := func(n gpu.Bytes) gpu.Reading[gpu.Bytes] { return gpu.Of(n << 20) }, func(n gpu.Bytes) gpu.Reading[gpu.Bytes] { return gpu.DoubtfulOf(n << 20) }
	absent := gpu.Absent[gpu.Bytes](gpu.NotSupported)
	for name, tt := range map[string]struct {
		gpus                         []memory
		used, total, percent, ofNode float64
	}{
		"both report both":           {[]memory{{good(10), good(100)}, {good(50), good(100)}}, 60, 200, 30, 200},
		"one does not say its used":  {[]memory{{good(10), good(100)}, {absent, good(300)}}, 10, 400, 10, 400},
		"one does not say its total": {[]memory{{good(10), good(100)}, {good(90), absent}}, 100, 100, 10, 100},
		"one used can't be right":    {[]memory{{good(10), good(100)}, {doubtful(500), good(100)}}, 10, 200, 10, 200},
		"one total can't be right":   {[]memory{{good(10), good(100)}, {good(90), doubtful(1 << 40)}}, 100, 100, 10, 100},
		"each says the other half":   {[]memory{{good(10), absent}, {absent, good(100)}}, 10, 100, none, 100},
		"nobody says anything":       {[]memory{{absent, absent}}, none, none, none, none},
		"nothing in use":             {[]memory{{good(0), good(100)}}, 0, 100, 0, 100},
		"no memory of their own":     {[]memory{{good(0), good(0)}}, 0, 0, none, 0},
		"size beside a lost one":     {[]memory{{good(10), good(100)}, {}}, 10, 100, 10, 100},
	} {
		t.Run(name, func(t *testing.T) {
			s := &gpu.Snapshot{Node: "n"}
			for _, m := range tt.gpus {
				d := gpu.Device{Identity: gpu.Identity{Node: "n"}, State: gpu.StateOK}
				d.Memory.Used, d.Memory.Total = m.used, m.total
				if m == (memory{}) {
					d.State = gpu.StateLost
				}
				s.Devices = append(s.Devices, d)
			}
			check := func(what string, got float64, ok bool, want float64) {
				t.Helper()
				if !ok {
					got = none
				}
				if math.Abs(got-want) > 1e-9 {
					t.Errorf("%s is %v, want %v", what, got, want)
				}
			}
			whole := func(i contract.Int) (float64, bool) { v, ok := i.Get(); return float64(v), ok }
			f := alone(s)
			summary := contract.NewClusterSummary(monitor, f, nil)
			v, ok := whole(summary.UsedMemory)
			check("used_memory_mb", v, ok, tt.used)
			v, ok = whole(summary.TotalMemory)
			check("total_memory_mb", v, ok, tt.total)
			share := float64(none)
			if summary.MemoryUtilization != nil {
				share = *summary.MemoryUtilization
			}
			check("memory_utilization_percent", share, true, tt.percent)
			v, ok = whole(contract.NewClusterNodes(f)[0].TotalMemory)
			check("a node's total_memory_mb", v, ok, tt.ofNode)
			metrics := contract.NewGPUMetrics(monitor, f)
			amount, ok := metrics.MemoryUsed.Get()
			check("total_memory_used_mb", amount.MiB(), ok, tt.used)
			amount, ok = metrics.MemoryTotal.Get()
			check("total_memory_total_mb", amount.MiB(), ok, tt.total)
		})
	}
}

// A share of a limit is one of two readings that can be right.
func TestPowerUsage(t *testing.T) {
	for name, tt := range map[string]struct {
		draw, limit gpu.Reading[gpu.Watts]
		want        string
	}{
		"half":                        {gpu.Of(gpu.Watts(100)), gpu.Of(gpu.Watts(200)), "50.0"},
		"above":                       {gpu.Of(gpu.Watts(210)), gpu.Of(gpu.Watts(200)), "105.0"},
		"a draw that can't be right":  {gpu.DoubtfulOf(gpu.Watts(9999)), gpu.Of(gpu.Watts(200)), "null"},
		"a limit that can't be right": {gpu.Of(gpu.Watts(100)), gpu.DoubtfulOf(gpu.Watts(4e6)), "null"},
		"no limit":                    {gpu.Of(gpu.Watts(100)), gpu.Absent[gpu.Watts](gpu.NotSupported), "null"},
		"a limit of nothing":          {gpu.Of(gpu.Watts(0)), gpu.Of(gpu.Watts(0)), "null"},
	} {
		d := gpu.Device{Readings: gpu.Readings{Fans: gpu.Fans{Fans: make([]gpu.Fan, 1)}}}
		d.Power.Draw, d.Power.EnforcedLimit = tt.draw, tt.limit
		if got := flatten(t, one(&d))["power.power_usage_percent"]; got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}
