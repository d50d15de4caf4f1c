package contract

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight"
)

// LocalCluster is the cluster name of machines that belong to no cluster.
const LocalCluster = "local"

// ClusterOf is the name of the cluster that a node is in.
func ClusterOf(m *insight.Moment) string { return cmp.Or(m.Place.Cluster, LocalCluster) }

// InCluster returns the nodes of a cluster.
func InCluster(f *insight.Fleet, cluster string) *insight.Fleet {
	there := func(m *insight.Moment) bool { return ClusterOf(m) == cluster }
	if !slices.ContainsFunc(f.Moments(), func(m *insight.Moment) bool { return !there(m) }) {
		return f // most often all are in one
	}
	var members []*insight.Moment
	for _, m := range f.Moments() {
		if there(m) {
			members = append(members, m)
		}
	}
	return insight.NewFleet(members...)
}

// ClusterNode is a machine with GPUs: an element of GET /api/v1/gpu/nodes, and
// the answer of GET /api/v1/gpu/nodes/{cluster}/{node}.
type ClusterNode struct {
	Name        string            `json:"node_name"`       // Name of the machine in its cluster.
	Cluster     string            `json:"cluster_id"`      // Name of the machine's cluster; "local" outside any cluster.
	GPUCount    int               `json:"gpu_count"`       // The number of its GPUs, including those that do not answer.
	TotalMemory Int               `json:"total_memory_mb"` // Total memory of its GPUs; null if none reports it.
	Labels      map[string]string `json:"labels"`          // The machine's labels in the cluster; empty outside Kubernetes.
	GPUs        []ClusterGPU      `json:"gpus"`            // Its GPUs, by index.

	Timestamp string `json:"timestamp" format:"date-time"` // Time of the snapshot.
	Source    string `json:"source" enum:"source"`         // The source of the readings.
}

// ClusterGPU is one GPU of a node. A GPU that does not answer stays in the list with null readings.
type ClusterGPU struct {
	Index         int    `json:"index"`                   // Place among the GPUs of its node, by PCI address.
	UUID          string `json:"uuid"`                    // The GPU's key, unchanged by a restart.
	Name          string `json:"name"`                    // Product name.
	DriverVersion Text   `json:"driver_version"`          // Version of the GPU's kernel driver.
	Temperature   Int    `json:"temperature_celsius"`     // Of the die.
	Utilization   Int    `json:"utilization_gpu_percent"` // Share of the last sample period in which a kernel ran.
	// Share of the last sample period in which memory was read or written.
	MemoryUtilization Int   `json:"utilization_memory_percent"`
	MemoryTotal       Int   `json:"memory_total_mb"`   // Total memory.
	MemoryUsed        Int   `json:"memory_used_mb"`    // Memory that programs hold, without the driver's own reserve.
	MemoryFree        Int   `json:"memory_free_mb"`    // Free memory.
	PowerDraw         Watts `json:"power_draw_watts"`  // Power draw.
	PowerLimit        Watts `json:"power_limit_watts"` // The lowest limit in force.
	// The speed that the driver requests of the fastest fan, not its actual speed. Null for a GPU
	// without its own fan.
	FanSpeed       Int   `json:"fan_speed_percent" max:"none"`
	PCIeGeneration Count `json:"pcie_generation"` // Current generation of the PCIe link; it falls while the GPU is idle.
	PCIeWidth      Count `json:"pcie_link_width"` // Current number of lanes of the PCIe link.
	// Processes with a context on the GPU, busiest first. Also empty if the driver can't list them.
	Processes []ClusterProcess `json:"processes"`

	State  string `json:"state" enum:"state"`   // Whether gpuwhy can read the GPU.
	Source string `json:"source" enum:"source"` // The source of the GPU's readings.
}

// ClusterProcess is a process on a GPU, as nvidia-smi pmon lists it: an element
// of GET /api/v1/gpu/processes.
type ClusterProcess struct {
	PID      int `json:"pid"`       // Process id on its machine.
	GPUIndex int `json:"gpu_index"` // The GPU's place on its node.
	// Kind of context; compute if it has both kinds.
	Type     string `json:"process_type" enum:"compute,graphics,unknown"`
	SM       Int    `json:"sm_utilization" unit:"percent"`      // Share of the multiprocessors' time.
	Memory   Int    `json:"memory_utilization" unit:"percent"`  // Share of the time in which it used the memory.
	Encoder  Int    `json:"encoder_utilization" unit:"percent"` // Share of the video encoder's time.
	Decoder  Int    `json:"decoder_utilization" unit:"percent"` // Share of the video decoder's time.
	FBMemory Int    `json:"fb_memory_mb"`                       // GPU memory that it holds.
	Command  string `json:"command"`                            // Name of the process; empty if the host can't see it.
	Node     string `json:"node_name"`                          // Name of the machine.
	Cluster  string `json:"cluster_id"`                         // Name of the machine's cluster.

	GPUUUID   string `json:"gpu_uuid"`                     // The GPU's key.
	Timestamp string `json:"timestamp" format:"date-time"` // Time of the snapshot.
	Source    string `json:"source" enum:"source"`         // The source of the readings.
}

// ClusterSummary answers GET /api/v1/gpu/summary: sums and averages over the GPUs that answer.
type ClusterSummary struct {
	Cluster     *string `json:"cluster_id"`      // The requested cluster; null for all.
	NodeCount   int     `json:"node_count"`      // The number of machines with GPUs.
	GPUCount    int     `json:"gpu_count"`       // The number of GPUs, including those that do not answer.
	TotalMemory Int     `json:"total_memory_mb"` // Memory of all GPUs; 0 without GPUs, null if none reports it.
	UsedMemory  Int     `json:"used_memory_mb"`  // Memory that programs hold; 0 without GPUs, null if none reports it.
	// Used of total, over the GPUs that report both. Null if none does.
	MemoryUtilization *float64 `json:"memory_utilization_percent"` // not rounded
	// Average over the GPUs that report it. Null if none does.
	Utilization Percent `json:"average_gpu_utilization_percent"`
	Temperature Celsius `json:"average_temperature_celsius"` // Average over the GPUs that report it. Null if none does.

	Timestamp string `json:"timestamp" format:"date-time"` // Time of the snapshot; before the first reading, when the monitor started.
	Source    string `json:"source" enum:"source"`         // The source of the readings.
}

// NewClusterNodes lists the machines with GPUs, each identified by its cluster and name together; never nil.
func NewClusterNodes(f *insight.Fleet) []ClusterNode {
	out := []ClusterNode{}
	for _, m := range f.Moments() {
		s := m.Snapshot
		if len(s.Devices) == 0 {
			continue
		}
		n := ClusterNode{
			Name: m.Name(), Cluster: ClusterOf(m), Labels: map[string]string{}, GPUs: []ClusterGPU{},
			Timestamp: timestamp(s.Time), Source: s.Source,
		}
		maps.Copy(n.Labels, m.Place.Labels)
		for i := range s.Devices {
			g := newClusterGPU(m, i)
			n.GPUs = append(n.GPUs, g)
			if _, good := s.Devices[i].Memory.Total.Trusted(); good {
				n.TotalMemory = gpu.Of(n.TotalMemory.Or(0) + g.MemoryTotal.Or(0))
			}
		}
		n.GPUCount = len(n.GPUs)
		out = append(out, n)
	}
	return out
}

func newClusterGPU(m *insight.Moment, index int) ClusterGPU {
	s := m.Snapshot
	d := &s.Devices[index]
	return ClusterGPU{
		Index:             index,
		UUID:              d.UUID,
		Name:              d.Name,
		DriverVersion:     d.DriverVersion,
		Temperature:       integer(d.Thermal.GPU),
		Utilization:       integer(d.Utilization.GPU),
		MemoryUtilization: integer(d.Utilization.Memory),
		MemoryTotal:       mibInteger(d.Memory.Total),
		MemoryUsed:        mibInteger(d.Memory.Used),
		MemoryFree:        mibInteger(d.Memory.Free),
		PowerDraw:         d.Power.Draw,
		PowerLimit:        d.Power.EnforcedLimit,
		FanSpeed:          integer(d.Fans.Commanded()),
		PCIeGeneration:    d.PCIe.Generation,
		PCIeWidth:         d.PCIe.Width,
		State:             string(d.State),
		Source:            d.Source,
		Processes: listOf(d.Processes.Or(nil), func(p *gpu.Process) ClusterProcess {
			return ClusterProcess{
				PID:       p.PID,
				GPUIndex:  index,
				Type:      clusterType(p.Type),
				SM:        integer(p.SM),
				Memory:    integer(p.MemoryBandwidth),
				Encoder:   integer(p.Encoder),
				Decoder:   integer(p.Decoder),
				FBMemory:  mibInteger(p.Memory),
				Command:   p.Facts.Name.Or("unknown"),
				Node:      m.Name(),
				Cluster:   ClusterOf(m),
				GPUUUID:   d.UUID,
				Timestamp: timestamp(s.Time),
				Source:    d.Source,
			}
		}),
	}
}

// clusterType is pmon's word: it writes C+G for both, and M+C for compute through MPS.
func clusterType(t gpu.ProcessType) string {
	switch t {
	case gpu.TypeCompute, gpu.TypeComputeGraphics, gpu.TypeMPS:
		return "compute"
	case gpu.TypeGraphics:
		return "graphics"
	default:
		return "unknown"
	}
}

// NewClusterProcesses lists the processes of the nodes; never nil.
func NewClusterProcesses(nodes []ClusterNode) []ClusterProcess {
	out := []ClusterProcess{}
	for i := range nodes {
		for j := range nodes[i].GPUs {
			out = append(out, nodes[i].GPUs[j].Processes...)
		}
	}
	return out
}

// NewClusterSummary makes it for the cluster asked for, nil for the whole fleet.
func NewClusterSummary(m Monitor, f *insight.Fleet, cluster *string) ClusterSummary {
	out := ClusterSummary{Cluster: cluster, TotalMemory: gpu.Of[int64](0), UsedMemory: gpu.Of[int64](0)}
	out.Timestamp, out.Source = m.head(f)
	totals := f.Nodes().Totals()
	if totals.Devices == 0 {
		return out
	}
	for _, s := range f.Nodes() {
		if len(s.Devices) > 0 {
			out.NodeCount++
		}
	}
	out.GPUCount = totals.Devices
	out.TotalMemory, out.UsedMemory = mibInteger(totals.MemoryTotal), mibInteger(totals.MemoryUsed)
	if share, ok := totals.MemoryShare.Get(); ok {
		out.MemoryUtilization = new(float64(share))
	}
	out.Utilization, out.Temperature = gpu.Map(totals.Utilization, tenth), gpu.Map(totals.Temperature, tenth)
	return out
}

// tenth rounds to one decimal.
func tenth[T ~float64](v T) T { return T(math.Round(10*float64(v)) / 10) }
