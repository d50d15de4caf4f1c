package contract

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight/attribute"
)

// Update is a whole snapshot: the data of gpu_status_update and the answer of
// GET /api/gpu/metrics.
type Update struct {
	Seq uint64 `json:"seq" unit:"count"` // grows with every reading; gaps are normal
	// When the reading began; the monitor's start, before the first.
	Timestamp  string `json:"timestamp" format:"date-time"`
	Node       string `json:"node"`                 // name of the machine whose monitor made the snapshot
	InstanceID string `json:"instance_id"`          // the same by the resource agent's name for it
	Source     string `json:"source" enum:"source"` // where the readings come from
	Status     string `json:"status" enum:"status"` // the machine as a whole
	Available  bool   `json:"available"`            // whether there is a GPU
	Reason     string `json:"reason"`               // what failed and what to do; empty while all is well
	Why        string `json:"why"`                  // what the snapshot shows, in one sentence
	// What makes the GPUs hot and loud, the loudest first; at most 64, all
	// are at /api/gpu/why.
	Causes []Cause `json:"causes"`
	Totals
	GPUs     []GPU     `json:"gpus"`     // every GPU, by gpu_id
	Usage    Usage     `json:"usage"`    // who has how much of them
	Host     *Host     `json:"host"`     // the machine around the GPUs. Null where it was not read
	Drivers  []Driver  `json:"drivers"`  // what answers for the GPUs, one entry a source
	Failures []Failure `json:"failures"` // sources that can't be read now
	Notes    []string  `json:"notes"`    // what this monitor can't see, and what would change that
}

// Host is the machine around the devices.
type Host struct {
	Hostname string `json:"hostname"`       // name of the machine
	OS       string `json:"os"`             // distribution and version
	Kernel   string `json:"kernel"`         // version of the kernel
	Uptime   Float  `json:"uptime_seconds"` // since the machine started

	CPUModel *string `json:"cpu_model"`              // name of the processor
	Cores    Int     `json:"cpu_cores" unit:"count"` // logical cores
	CPU      Float   `json:"cpu_percent"`            // of all cores since the last reading
	Load1    Float   `json:"load_1" unit:"count"`    // average of runnable processes over a minute
	Load5    Float   `json:"load_5" unit:"count"`    // the same over five minutes
	Load15   Float   `json:"load_15" unit:"count"`   // the same over fifteen minutes

	MemoryTotal     Float `json:"memory_total_mb"`     // the machine's memory
	MemoryUsed      Float `json:"memory_used_mb"`      // what programs hold of it
	MemoryAvailable Float `json:"memory_available_mb"` // what programs could get of it
	SwapTotal       Float `json:"swap_total_mb"`       // swap space
	SwapUsed        Float `json:"swap_used_mb"`        // swap space in use

	Disks    []Disk    `json:"disks"`    // mounted file systems on real block devices
	Networks []Network `json:"networks"` // interfaces that are up, without the loopback
	Self     Self      `json:"self"`     // what gpuwhy itself costs
}

// Disk is a mounted file system with its device's traffic.
type Disk struct {
	Device string `json:"device"`                 // block device
	Mount  string `json:"mount"`                  // where it is mounted
	Type   string `json:"type"`                   // file system
	Total  Float  `json:"total_mb"`               // size
	Used   Float  `json:"used_mb"`                // part in use
	Read   Float  `json:"read_bytes_per_second"`  // since the last reading
	Write  Float  `json:"write_bytes_per_second"` // since the last reading
}

// Network is an interface with its traffic.
type Network struct {
	Name          string `json:"name"`                      // name of the interface
	Received      Float  `json:"received_bytes_per_second"` // since the last reading
	Sent          Float  `json:"sent_bytes_per_second"`     // since the last reading
	ReceivedTotal Float  `json:"received_mb"`               // since the machine started
	SentTotal     Float  `json:"sent_mb"`                   // since the machine started
}

// Self is what gpuwhy itself costs.
type Self struct {
	CPU Float `json:"cpu_percent" max:"none"` // of one core since the last reading; may pass 100
	RSS Float `json:"memory_mb"`              // resident memory
}

// Driver is what answers for a source's devices.
type Driver struct {
	Source  string  `json:"source" enum:"source"` // whose GPUs it serves
	Version *string `json:"driver_version"`       // of the kernel driver
	// Newest CUDA that the driver supports, not the toolkit's version.
	CUDA    *string `json:"cuda_driver_version"`
	Library *string `json:"library_version"` // of the management library
}

// Failure is a source that can't be read now.
type Failure struct {
	Source string  `json:"source" enum:"source"`        // what was tried
	Since  string  `json:"since" format:"date-time"`    // when it began to fail
	What   string  `json:"what"`                        // what happened
	Try    string  `json:"try"`                         // what to do about it
	Next   *string `json:"next_try" format:"date-time"` // when it is tried again. Null where that is not known
}

// NewUpdate makes it; [Update.Explain] adds the causes.
func NewUpdate(s *gpu.Snapshot, why string) Update {
	attributed := attribute.Snapshot(s)
	return Update{
		Seq:        s.Seq,
		Timestamp:  timestamp(s.Time),
		Node:       s.Node,
		InstanceID: s.Node,
		Source:     s.Source,
		Status:     string(s.Status()),
		Available:  len(s.Whole().Devices) > 0,
		Reason:     Reason(s),
		Why:        why,
		Causes:     []Cause{},
		Totals:     newTotals(s),
		GPUs:       newGPUs(s, attributed),
		Usage:      newUsage(s, attributed),
		Host:       newHost(s.Host),
		Drivers:    newDrivers(s.Drivers),
		Failures:   newFailures(s.Failures),
		Notes:      newNotes(s.Notes),
	}
}

// Reason is what is not as it should be and what to do about it: each source
// that can't be read, and each device that is lost or does not answer though
// its source can; empty where all is well.
func Reason(s *gpu.Snapshot) string {
	whole := s.Whole()
	if len(s.Failures) == 0 && len(whole.Devices) == 0 {
		none := gpu.Advice{What: "the driver (" + s.Source + ") finds no GPU", Try: "check that one is installed and that this machine may use it"}
		return none.Text()
	}
	var texts []string
	failed := map[string]bool{}
	for i := range s.Failures {
		texts = append(texts, s.Failures[i].Advice.Text())
		failed[s.Failures[i].Advice.What] = true
	}
	for i := range whole.Devices {
		d := &whole.Devices[i]
		if (d.State == gpu.StateLost || d.State == gpu.StateNotAnswering) && !failed[d.Reason.What] {
			texts = append(texts, "GPU "+strconv.Itoa(d.Index)+": "+stateText(d))
		}
	}
	return strings.Join(texts, "; ")
}

func newHost(h *gpu.Host) *Host {
	if h == nil {
		return nil
	}
	out := &Host{
		Hostname:        h.Hostname,
		OS:              h.OS,
		Kernel:          h.Kernel,
		Uptime:          float(gpu.Map(h.Uptime, time.Duration.Seconds)),
		CPUModel:        pointer(h.CPUModel),
		Cores:           count(h.Cores),
		CPU:             float(h.CPU),
		Load1:           float(h.Load1),
		Load5:           float(h.Load5),
		Load15:          float(h.Load15),
		MemoryTotal:     mib(h.MemoryTotal),
		MemoryUsed:      mib(h.MemoryUsed),
		MemoryAvailable: mib(h.MemoryAvailable),
		SwapTotal:       mib(h.SwapTotal),
		SwapUsed:        mib(h.SwapUsed),
		Disks:           make([]Disk, len(h.Disks)),
		Networks:        make([]Network, len(h.Networks)),
		Self:            Self{CPU: float(h.Self.CPU), RSS: mib(h.Self.RSS)},
	}
	for i, d := range h.Disks {
		out.Disks[i] = Disk{d.Device, d.Mount, d.FileSystem, mib(d.Total), mib(d.Used), float(d.Read), float(d.Write)}
	}
	for i, n := range h.Networks {
		out.Networks[i] = Network{n.Name, float(n.Received), float(n.Sent), mib(n.ReceivedTotal), mib(n.SentTotal)}
	}
	return out
}

func newDrivers(list []gpu.Driver) []Driver {
	out := make([]Driver, len(list))
	for i, d := range list {
		out[i] = Driver{d.Source, pointer(d.Version), pointer(d.CUDA), pointer(d.Library)}
	}
	return out
}

func newFailures(list []gpu.Failure) []Failure {
	out := make([]Failure, len(list))
	for i, f := range list {
		out[i] = Failure{f.Source, timestamp(f.Since), f.Advice.What, f.Advice.Try, optionalTime(f.Next)}
	}
	return out
}

func newNotes(list []gpu.Advice) []string {
	out := make([]string, len(list))
	for i := range list {
		out[i] = list[i].Text()
	}
	return out
}

// A Monitor is what gpu_status says of gpuwhy itself, beside the snapshot.
type Monitor struct {
	Node           string
	Source         string // what was asked for, until a snapshot says what answers
	Version        string
	Interval       time.Duration
	AlertThreshold gpu.Percent
	// Started is the time that answers carry until there is a reading.
	Started time.Time
}

// GPUStatus is the data of gpu_status.
type GPUStatus struct {
	Status         string          `json:"status" enum:"status"`     // the machine as a whole
	Source         string          `json:"source" enum:"source"`     // where the readings come from
	Version        string          `json:"version"`                  // gpuwhy's version
	Interval       float64         `json:"interval_seconds"`         // time between readings
	AlertThreshold float64         `json:"alert_threshold_percent"`  // utilization above which high_gpu_usage_alert fires
	Node           string          `json:"node"`                     // name of the machine
	Snapshot       json.RawMessage `json:"snapshot" schema:"Update"` // the newest snapshot. Null before the first reading
}

// NewGPUStatus makes it from the newest snapshot, which may be nil, and the
// bytes that it was encoded to.
func NewGPUStatus(m Monitor, newest *gpu.Snapshot, encoded []byte) GPUStatus {
	out := GPUStatus{
		Status:         string(newest.Status()),
		Source:         m.Source,
		Version:        m.Version,
		Interval:       m.Interval.Seconds(),
		AlertThreshold: float64(m.AlertThreshold),
		Node:           m.Node,
		Snapshot:       json.RawMessage("null"),
	}
	if newest != nil {
		out.Source, out.Snapshot = newest.Source, encoded
	}
	return out
}

// Summary answers GET /api/gpu/summary: totals, cheap enough to poll.
type Summary struct {
	Available bool   `json:"available"`            // whether there is a GPU
	Status    string `json:"status" enum:"status"` // the machine as a whole
	Source    string `json:"source" enum:"source"` // where the readings come from
	Node      string `json:"node"`                 // name of the machine
	// Time of the snapshot; the monitor's start, before the first reading.
	Timestamp string `json:"timestamp" format:"date-time"`
	Reason    string `json:"reason"` // what failed and what to do; empty while all is well
	Totals
	ActiveAlerts int     `json:"active_alerts" unit:"count"` // how many alerts are firing
	Why          string  `json:"why"`                        // what the snapshot shows, in one sentence
	Causes       []Cause `json:"causes"`                     // what is behind that sentence; /api/gpu/why has the causes of every GPU
}

// NewSummary makes it; newest may be nil. [Summary.Explain] adds the causes.
func NewSummary(m Monitor, newest *gpu.Snapshot, why string, activeAlerts int) Summary {
	if newest == nil {
		return Summary{Status: string(gpu.StatusStarting), Source: m.Source, Node: m.Node, Timestamp: timestamp(m.Started), Why: why, Causes: []Cause{}}
	}
	return Summary{
		Available:    len(newest.Devices) > 0,
		Status:       string(newest.Status()),
		Source:       newest.Source,
		Node:         newest.Node,
		Timestamp:    timestamp(newest.Time),
		Reason:       Reason(newest),
		Totals:       newTotals(newest),
		ActiveAlerts: activeAlerts,
		Why:          why,
		Causes:       []Cause{},
	}
}

// EmptyUpdate answers GET /api/gpu/metrics before the first reading.
func EmptyUpdate(m Monitor, why string) Update {
	s := &gpu.Snapshot{Node: m.Node, Source: m.Source, Time: m.Started}
	u := NewUpdate(s, why)
	u.Status, u.Reason = string(gpu.StatusStarting), ""
	return u
}
