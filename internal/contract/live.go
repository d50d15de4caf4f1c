package contract

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// Update is a whole snapshot: the data of gpu_status_update and the answer of
// GET /api/gpu/metrics.
type Update struct {
	Seq       uint64 `json:"seq"`
	Timestamp string `json:"timestamp"`
	Node      string `json:"node"`
	// InstanceID is Node by the resource agent's name for it.
	InstanceID string `json:"instance_id"`
	Source     string `json:"source"`
	Status     string `json:"status"`
	Available  bool   `json:"available"`
	// Reason says what failed and what to do; empty while all is well.
	Reason string `json:"reason"`
	Why    string `json:"why"` // one sentence
	Totals
	GPUs     []GPU     `json:"gpus"`
	Host     *Host     `json:"host"`
	Drivers  []Driver  `json:"drivers"`
	Failures []Failure `json:"failures"`
	// Notes say what this monitor can't see, and what would change that.
	Notes []string `json:"notes"`
}

// Host is the machine around the devices.
type Host struct {
	Hostname string `json:"hostname"`
	OS       string `json:"os"`
	Kernel   string `json:"kernel"`
	Uptime   Float  `json:"uptime_seconds"`

	CPUModel *string `json:"cpu_model"`
	Cores    Int     `json:"cpu_cores"`
	CPU      Float   `json:"cpu_percent"` // of all cores
	Load1    Float   `json:"load_1"`
	Load5    Float   `json:"load_5"`
	Load15   Float   `json:"load_15"`

	MemoryTotal     Float `json:"memory_total_mb"`
	MemoryUsed      Float `json:"memory_used_mb"`
	MemoryAvailable Float `json:"memory_available_mb"`
	SwapTotal       Float `json:"swap_total_mb"`
	SwapUsed        Float `json:"swap_used_mb"`

	Disks    []Disk    `json:"disks"`
	Networks []Network `json:"networks"`
	Self     Self      `json:"self"`
}

// Disk is a mounted file system with its device's traffic.
type Disk struct {
	Device string `json:"device"`
	Mount  string `json:"mount"`
	Type   string `json:"type"`
	Total  Float  `json:"total_mb"`
	Used   Float  `json:"used_mb"`
	Read   Float  `json:"read_bytes_per_second"`
	Write  Float  `json:"write_bytes_per_second"`
}

// Network is an interface with its traffic.
type Network struct {
	Name          string `json:"name"`
	Received      Float  `json:"received_bytes_per_second"`
	Sent          Float  `json:"sent_bytes_per_second"`
	ReceivedTotal Float  `json:"received_mb"`
	SentTotal     Float  `json:"sent_mb"`
}

// Self is what gpuwhy itself costs.
type Self struct {
	CPU Float `json:"cpu_percent"` // of one core
	RSS Float `json:"memory_mb"`
}

// Driver is what answers for a source's devices.
type Driver struct {
	Source  string  `json:"source"`
	Version *string `json:"driver_version"`
	CUDA    *string `json:"cuda_driver_version"`
	Library *string `json:"library_version"`
}

// Failure is a source that can't be read now.
type Failure struct {
	Source string  `json:"source"`
	Since  string  `json:"since"`
	What   string  `json:"what"`
	Try    string  `json:"try"`
	Next   *string `json:"next_try"`
}

// NewUpdate makes it.
func NewUpdate(s *gpu.Snapshot, why string) Update {
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
		Totals:     newTotals(s),
		GPUs:       NewGPUs(s),
		Host:       newHost(s.Host),
		Drivers:    newDrivers(s.Drivers),
		Failures:   newFailures(s.Failures),
		Notes:      newNotes(s.Notes),
	}
}

// Reason is what failed and what to do about it, for each source that can't
// be read; empty where all can and there is a device.
func Reason(s *gpu.Snapshot) string {
	if len(s.Failures) == 0 && len(s.Whole().Devices) == 0 {
		none := gpu.Advice{What: "the driver (" + s.Source + ") finds no GPU", Try: "check that one is installed and that this machine may use it"}
		return none.Text()
	}
	texts := make([]string, len(s.Failures))
	for i := range s.Failures {
		texts[i] = s.Failures[i].Advice.Text()
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
	Status         string          `json:"status"`
	Source         string          `json:"source"`
	Version        string          `json:"version"`
	Interval       float64         `json:"interval_seconds"`
	AlertThreshold float64         `json:"alert_threshold_percent"`
	Node           string          `json:"node"`
	Snapshot       json.RawMessage `json:"snapshot"` // an Update, or null before the first reading
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
	Available bool   `json:"available"`
	Status    string `json:"status"`
	Source    string `json:"source"`
	Node      string `json:"node"`
	Timestamp string `json:"timestamp"` // the monitor's start, before the first reading
	Reason    string `json:"reason"`
	Totals
	ActiveAlerts int    `json:"active_alerts"`
	Why          string `json:"why"`
}

// NewSummary makes it; newest may be nil.
func NewSummary(m Monitor, newest *gpu.Snapshot, why string, activeAlerts int) Summary {
	if newest == nil {
		return Summary{Status: string(gpu.StatusStarting), Source: m.Source, Node: m.Node, Timestamp: timestamp(m.Started), Why: why}
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
	}
}

// EmptyUpdate answers GET /api/gpu/metrics before the first reading.
func EmptyUpdate(m Monitor, why string) Update {
	s := &gpu.Snapshot{Node: m.Node, Source: m.Source, Time: m.Started}
	u := NewUpdate(s, why)
	u.Status, u.Reason = string(gpu.StatusStarting), ""
	return u
}
