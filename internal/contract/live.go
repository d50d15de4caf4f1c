package contract

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/gpu/catalog"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/insight/attribute"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// Update is a whole snapshot: the data of gpu_status_update and the answer of GET /api/gpu/metrics.
type Update struct {
	Seq        uint64 `json:"seq" unit:"count"`             // increases with every reading; gaps are normal
	Timestamp  string `json:"timestamp" format:"date-time"` // When the reading began; before the first, when the monitor started.
	Node       string `json:"node"`                         // name of the machine whose monitor made the snapshot
	InstanceID string `json:"instance_id"`                  // the same, under the resource agent's field name
	Source     string `json:"source" enum:"source"`         // the source of the readings
	Status     string `json:"status" enum:"status"`         // the machine as a whole
	// When the node went silent: its readings are stale since then. Left out while it sends data.
	SilentSince string `json:"silent_since,omitempty" format:"date-time"`
	Available   bool   `json:"available"` // whether there is a GPU
	Reason      string `json:"reason"`    // what failed and what to do; empty while all is well
	Layers
	Why string `json:"why"` // the answer in one sentence
	// The causes of heat and noise, loudest first; at most 64. /api/gpu/why has all.
	Causes []Cause `json:"causes"`
	Totals
	GPUs     []UpdateGPU `json:"gpus"`     // all GPUs, by gpu_id
	Usage    Usage       `json:"usage"`    // who uses how much of the GPUs
	Host     *Host       `json:"host"`     // the machine itself. Null if it was not read
	Drivers  []Driver    `json:"drivers"`  // the drivers, one entry per source
	Failures []Failure   `json:"failures"` // sources that can't be read now
	Notes    []string    `json:"notes"`    // what gpuwhy can't see here, and how to change that
	Found    string      `json:"found"`    // what each source found, in words; empty with several nodes or without a GPU
}

// UpdateGPU is one GPU of an Update: its readings and the answer about it.
type UpdateGPU struct {
	GPU
	Layers
}

// Host is the machine that the GPUs are in.
type Host struct {
	// When the machine and its processes were read; at most about once a second, even if the interval is shorter. Null if a
	// recording or simulation does not say.
	SampledAt *string `json:"sampled_at" format:"date-time"`

	Hostname string `json:"hostname"`       // name of the machine
	OS       string `json:"os"`             // distribution and version
	Kernel   string `json:"kernel"`         // version of the kernel
	Uptime   Float  `json:"uptime_seconds"` // since the machine started

	CPUModel Text    `json:"cpu_model"`              // name of the processor
	Cores    Count   `json:"cpu_cores" unit:"count"` // logical cores
	CPU      Percent `json:"cpu_percent"`            // percent of all cores since the last reading
	Load1    Float   `json:"load_1" unit:"count"`    // average number of runnable processes over one minute
	Load5    Float   `json:"load_5" unit:"count"`    // the same over five minutes
	Load15   Float   `json:"load_15" unit:"count"`   // the same over fifteen minutes
	CPUPower Watts   `json:"cpu_power_watts"`        // power draw of all processors since the last reading
	// Whether a processor has been throttled by heat since the last reading. Null if the system does not count that.
	CPUThrottled *bool `json:"cpu_throttled"`
	// The programs that use most CPU, busiest first, at most 8. Null if gpuwhy can't see all processes, or has looked
	// only once.
	Busiest []HostProcess `json:"busiest" null:"true"`

	MemoryTotal     Bytes `json:"memory_total_mb"`     // the machine's memory
	MemoryUsed      Bytes `json:"memory_used_mb"`      // memory that programs hold
	MemoryAvailable Bytes `json:"memory_available_mb"` // memory available to programs
	SwapTotal       Bytes `json:"swap_total_mb"`       // swap space
	SwapUsed        Bytes `json:"swap_used_mb"`        // swap space in use

	Disks    []Disk    `json:"disks"`    // mounted file systems on real block devices
	Networks []Network `json:"networks"` // interfaces that are up, except the loopback
	// The machine's fans, except GPU fans; empty if it reports none.
	Fans []HostFan `json:"fans"`
	// The machine's temperatures, except GPUs and drives; empty if it reports none.
	Temperatures []HostTemperature `json:"temperatures"`
	// Why no fan is reported, and what to do; empty if there is one.
	NoFans string `json:"no_fans"`
	// What /api/gpu/recent keeps for a machine without a GPU, by metric; left out if there are
	// GPUs.
	Kept map[string]Float `json:"kept,omitempty" unit:"any"`
	Self Self             `json:"self"` // what gpuwhy itself costs
}

// HostProcess is one user's program that uses the CPU: one process, or several with the same name in the
// same place.
type HostProcess struct {
	PID       int     `json:"pid"`                                   // process id of the one that uses most
	Count     int     `json:"process_count" unit:"count"`            // the number of processes
	CPU       float64 `json:"cpu_percent" unit:"percent" max:"none"` // percent of one core since the last look, including ended children; may exceed 100
	Name      string  `json:"process_name"`                          // name of the program; empty if unknown
	Program   *string `json:"program"`                               // its usual name. Null if it is unknown or may not be shown
	Command   *string `json:"command"`                               // command line of the one that uses most. Null if it may not be shown
	User      *string `json:"user"`                                  // who runs it
	StartedAt Time    `json:"started_at" format:"date-time"`         // when the one that uses most started
	// Its container. Null if unknown; an empty id means none.
	Container *Container `json:"container"`
	Pod       *Pod       `json:"pod"`       // Its Kubernetes pod. Null if unknown; an empty uid means none.
	Unit      *Unit      `json:"unit"`      // Its systemd unit. Null if unknown; an empty name means none.
	SlurmJob  *SlurmJob  `json:"slurm_job"` // Its Slurm job. Null if unknown; the id 0 means none.
}

// HostFan is a fan of the machine.
type HostFan struct {
	Name string `json:"name"`            // such as "CPU fan", or "fan 3 of nct6798" if it has no label
	Chip string `json:"chip"`            // the chip that counts, by its kernel name
	RPM  RPM    `json:"rpm" max:"30000"` // speed; also 0 if no fan is connected
}

// HostTemperature is a sensor of the machine.
type HostTemperature struct {
	Name    string  `json:"name"`                                       // such as "CPU" or "chipset"
	Chip    string  `json:"chip"`                                       // the chip that measures, by its kernel name
	Celsius Celsius `json:"celsius" unit:"celsius" min:"-40" max:"150"` // temperature
}

// Disk is a mounted file system with its device's traffic.
type Disk struct {
	Device     string `json:"device"`                 // block device
	Mount      string `json:"mount"`                  // where it is mounted
	FileSystem string `json:"type"`                   // file system
	Total      Bytes  `json:"total_mb"`               // size
	Used       Bytes  `json:"used_mb"`                // part in use
	Read       Rate   `json:"read_bytes_per_second"`  // since the last reading
	Write      Rate   `json:"write_bytes_per_second"` // since the last reading
}

// Network is an interface with its traffic.
type Network struct {
	Name          string `json:"name"`                      // name of the interface
	Received      Rate   `json:"received_bytes_per_second"` // since the last reading
	Sent          Rate   `json:"sent_bytes_per_second"`     // since the last reading
	ReceivedTotal Bytes  `json:"received_mb"`               // since the machine started
	SentTotal     Bytes  `json:"sent_mb"`                   // since the machine started
}

// Self is what gpuwhy itself costs.
type Self struct {
	CPU Percent `json:"cpu_percent" max:"none"` // percent of one core since the last reading; may exceed 100
	RSS Bytes   `json:"memory_mb"`              // resident memory
}

// Driver is the driver of a source's GPUs.
type Driver struct {
	Source  string `json:"source" enum:"source"` // the source whose GPUs it serves
	Version Text   `json:"driver_version"`       // version of the kernel driver
	CUDA    Text   `json:"cuda_driver_version"`  // newest CUDA version that the driver supports, not the toolkit's version
	Library Text   `json:"library_version"`      // version of the management library
}

// Failure is a source that can't be read now.
type Failure struct {
	Source string  `json:"source" enum:"source"`        // the source
	Since  string  `json:"since" format:"date-time"`    // when it began to fail
	What   string  `json:"what"`                        // what happened
	Try    string  `json:"try"`                         // what to do about it
	Next   *string `json:"next_try" format:"date-time"` // when it is tried again. Null if unknown
}

// NewUpdate makes an Update of a node's Moment. The list, the totals and the causes are about the
// devices that keep allows; nil allows all.
func NewUpdate(m *insight.Moment, keep func(*gpu.Device) bool) Update {
	return newUpdate(Monitor{}, m.Alone(), keep)
}

// NewFleetUpdate makes an Update of the newest Moments of all nodes.
func NewFleetUpdate(m Monitor, f *insight.Fleet) Update { return newUpdate(m, f, nil) }

func newUpdate(m Monitor, f *insight.Fleet, keep func(*gpu.Device) bool) Update {
	parts := slices.Collect(f.Parts())
	if keep != nil {
		parts = slices.DeleteFunc(parts, func(p insight.Part) bool { return !keep(p.Device) })
	}
	attributed := func(yield func(*gpu.Device, *attribute.Attribution) bool) {
		for i := range parts {
			if !yield(parts[i].Device, parts[i].Attribution) {
				return
			}
		}
	}
	nodes, answer := f.Nodes(), f.Answer()
	var causes []explain.Cause
	if len(nodes) > 0 {
		causes = answer.Causes()
	}
	layers := NewLayers(answer)
	if keep != nil {
		causes = slices.DeleteFunc(causes, func(c explain.Cause) bool { return c.Device != nil && !keep(c.Device) })
	}
	out := Update{
		Node:       m.node(f),
		InstanceID: m.node(f),
		Status:     statusOf(f),
		Available:  nodes.Totals().Devices > 0,
		Reason:     Reason(nodes),
		Layers:     layers,
		Why:        answer.Sentence,
		Causes:     newCauses(causes[:min(len(causes), mostCauses)]),
		GPUs:       listOf(parts, newUpdateGPU),
		Usage:      newUsage(attributed),
		Drivers:    listOf(nodes.Drivers(), func(d *gpu.Driver) Driver { return Driver(*d) }),
		Failures:   listOf(nodes.Failures(), newFailure),
		Notes:      listOf(nodes.Notes(), (*gpu.Advice).Text),
	}
	if len(out.GPUs) > 1 {
		for i := range out.GPUs {
			out.GPUs[i].leaveOutLinks()
		}
	}
	out.Timestamp, out.Source = m.head(f)
	for _, m := range f.Moments() {
		out.Seq += m.Snapshot.Seq
		if len(nodes) == 1 {
			out.SilentSince = silentSince(m)
		}
	}
	out.Found = Found(nodes)
	if len(nodes) == 1 {
		out.Host = newHost(nodes[0].Host)
		if out.Host != nil && len(nodes[0].Devices) == 0 {
			out.Host.Kept = map[string]Float{}
			for _, r := range catalog.OfHost {
				out.Host.Kept[r.Kept] = r.Number(nodes[0].Host)
			}
		}
	}
	devices := listOf(parts, func(p *insight.Part) *gpu.Device { return p.Device })
	out.Totals = Totals(gpu.TotalsOf(slices.Values(devices)))
	return out
}

// statusOf sums up the status of nodes. A silent node is only silent; several are silent if all of
// them are.
func statusOf(f *insight.Fleet) string {
	moments := f.Moments()
	if len(moments) > 0 && !slices.ContainsFunc(moments, func(m *insight.Moment) bool { return !m.Silent() }) {
		return string(gpu.StatusSilent)
	}
	return string(f.Status())
}

// silentSince is when a node went silent; empty while it sends data.
func silentSince(m *insight.Moment) string {
	if !m.Silent() {
		return ""
	}
	return timestamp(m.Link.Silent)
}

func newUpdateGPU(p *insight.Part) UpdateGPU {
	return UpdateGPU{newGPU(p.Device, p.Attribution), NewLayersOfOne(p.Why)}
}

// leaveOutLinks leaves out the NVLinks: for eight GPUs they are larger than all other readings
// together.
func (g *GPU) leaveOutLinks() {
	g.NVLink.Links = []Link{}
	maps.DeleteFunc(g.Quality, func(path, _ string) bool { return strings.HasPrefix(path, "nvlink.links.") })
}

// Reason says what fails and what to do about it: each source that can't be read, and each device
// that is lost or does not answer although its source can be read. It is empty if nothing fails,
// and before the first reading.
func Reason(nodes gpu.Nodes) string {
	var texts []string
	for _, s := range nodes {
		prefix := ""
		if len(nodes) > 1 {
			prefix = s.Node + ": "
		}
		for _, text := range reasons(s) {
			texts = append(texts, prefix+text)
		}
	}
	return strings.Join(texts, "; ")
}

// Found says what each source of a node found, or why it found nothing. It is empty for several
// nodes and for a node without a GPU, whose failures say what was tried.
func Found(nodes gpu.Nodes) string {
	if len(nodes) != 1 || len(nodes[0].Devices) == 0 {
		return ""
	}
	var texts []string
	for _, t := range nodes[0].Tried {
		text := t.Source + ": " + t.Advice.What
		if t.Advice.IsZero() || t.Devices > 0 {
			text = fmt.Sprintf("%s: %d GPUs", t.Source, t.Devices)
			if t.Devices == 1 {
				text = t.Source + ": 1 GPU"
			}
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ")
}

func reasons(s *gpu.Snapshot) (texts []string) {
	if len(s.Failures) == 0 && len(s.Devices) == 0 {
		none := gpu.Advice{What: "the driver (" + s.Source + ") finds no GPU", Try: "check that one is installed and that this machine may use it"}
		return []string{none.Text()}
	}
	failed := map[string]bool{}
	for i := range s.Failures {
		texts = append(texts, s.Failures[i].Advice.Text())
		failed[s.Failures[i].Advice.What] = true
	}
	for i := range s.Devices {
		d := &s.Devices[i]
		failing := d.State == gpu.StateLost || d.State == gpu.StateNotAnswering || errors.Is(&d.Reason, gpu.ErrSlow) ||
			errors.Is(&d.Reason, gpu.ErrNeedsAction)
		if failing && !failed[d.Reason.What] {
			texts = append(texts, "GPU "+strconv.Itoa(d.Index)+": "+stateText(d))
		}
	}
	return texts
}

func newHost(h *gpu.Host) *Host {
	if h == nil {
		return nil
	}
	return &Host{
		SampledAt:       optionalTime(h.SampledAt),
		Hostname:        h.Hostname,
		OS:              h.OS,
		Kernel:          h.Kernel,
		Uptime:          gpu.Map(h.Uptime, time.Duration.Seconds),
		CPUModel:        h.CPUModel,
		Cores:           h.Cores,
		CPU:             h.CPU,
		Load1:           h.Load1,
		Load5:           h.Load5,
		Load15:          h.Load15,
		CPUPower:        h.CPUPower,
		CPUThrottled:    pointer(h.CPUThrottled),
		Busiest:         newBusiest(h.Busiest),
		NoFans:          h.NoFans.Text(),
		MemoryTotal:     h.MemoryTotal,
		MemoryUsed:      h.MemoryUsed,
		MemoryAvailable: h.MemoryAvailable,
		SwapTotal:       h.SwapTotal,
		SwapUsed:        h.SwapUsed,
		Disks:           listOf(h.Disks, func(d *gpu.Disk) Disk { return Disk(*d) }),
		Networks:        listOf(h.Networks, func(n *gpu.Interface) Network { return Network(*n) }),
		Fans:            listOf(h.Fans, func(f *gpu.HostFan) HostFan { return HostFan(*f) }),
		Temperatures:    listOf(h.Temperatures, func(t *gpu.HostTemperature) HostTemperature { return HostTemperature(*t) }),
		Self:            Self(h.Self),
	}
}

func newBusiest(r gpu.Reading[[]gpu.HostProcess]) []HostProcess {
	list, known := r.Get()
	if !known {
		return nil
	}
	return listOf(list, func(p *gpu.HostProcess) HostProcess {
		f := newProcess(&gpu.Process{PID: p.PID, Facts: p.Facts}, gpu.Reading[gpu.Watts]{})
		return HostProcess{
			PID: p.PID, Count: p.Count, CPU: math.Round(float64(p.CPU)*100) / 100,
			Name: f.Name, Program: f.Program, Command: f.Command, User: f.User, StartedAt: f.StartedAt,
			Container: f.Container, Pod: f.Pod, Unit: f.Unit, SlurmJob: f.SlurmJob,
		}
	})
}

func newFailure(f *gpu.Failure) Failure {
	return Failure{f.Source, timestamp(f.Since), f.Advice.What, f.Advice.Try, optionalTime(f.Next)}
}

// A Monitor is what gpu_status says about gpuwhy itself, in addition to the snapshot.
type Monitor struct {
	Node           string // the machine's name
	Several        bool   // it shows several nodes; Node need not be one of them
	Source         string // the configured source, until a snapshot says which one answers
	Version        string
	Interval       time.Duration // time between readings
	Idle           time.Duration // time between readings while nobody looks; 0: Interval
	AlertThreshold gpu.Percent
	Started        time.Time // Started is the time that answers carry until there is a reading.
}

// head returns when the newest reading began and its source; before the first reading, when the
// monitor started and the configured source.
func (m Monitor) head(f *insight.Fleet) (sampledAt, source string) {
	nodes := f.Nodes()
	if len(nodes) == 0 {
		return timestamp(m.Started), m.Source
	}
	return timestamp(nodes.Time()), nodes.Source()
}

// Of returns the monitor of a fleet; for a single Moment of several, the monitor of its node alone. Its Interval is the usual one
// of [Monitor.Pace].
func (m Monitor) Of(f *insight.Fleet) Monitor {
	_, m.Interval, _ = m.Pace(f)
	if moments := f.Moments(); m.Several && len(moments) == 1 && moments[0].Alone() == f {
		m.Several, m.Node = false, moments[0].Snapshot.Node
	}
	return m
}

// Pace returns the shortest, the usual and the longest time between readings of a fleet's nodes: of those that send data, if
// there are several; otherwise its own. Half of the nodes are read at the usual interval or more often.
func (m Monitor) Pace(f *insight.Fleet) (least, usual, most time.Duration) {
	moments := f.Moments()
	all := make([]time.Duration, 0, len(moments))
	for _, moment := range moments {
		if len(moments) == 1 || !moment.Silent() {
			all = append(all, cmp.Or(moment.Link.Every, m.Interval))
		}
	}
	if len(all) == 0 {
		return m.Interval, m.Interval, m.Interval
	}
	slices.Sort(all)
	return all[0], all[(len(all)-1)/2], all[len(all)-1]
}

// node is the name of the only node of a fleet, or the monitor's name.
func (m Monitor) node(f *insight.Fleet) string {
	if nodes := f.Nodes(); len(nodes) == 1 {
		return nodes[0].Node
	}
	return m.Node
}

// GPUStatus is the data of gpu_status.
type GPUStatus struct {
	Status         string          `json:"status" enum:"status"`     // the machine as a whole
	Source         string          `json:"source" enum:"source"`     // the source of the readings
	Version        string          `json:"version"`                  // gpuwhy's version
	Interval       float64         `json:"interval_seconds"`         // time between readings
	AlertThreshold float64         `json:"alert_threshold_percent"`  // utilization above which high_gpu_usage_alert fires
	Node           string          `json:"node"`                     // name of the machine; with several machines, of the monitor
	Snapshot       json.RawMessage `json:"snapshot" schema:"Update"` // the newest snapshot. Null before the first reading, and if nodes is present
	Nodes          []NodeState     `json:"nodes,omitzero"`           // the nodes, if there are several; each sends its own snapshots
}

// NodeState is the state of one of several nodes.
type NodeState struct {
	Name     string  `json:"name"`                 // the node's name
	State    string  `json:"state" enum:"status"`  // the node as a whole
	Age      float64 `json:"age_seconds"`          // age of its newest reading
	GPUCount int     `json:"gpu_count"`            // the number of its GPUs
	Source   string  `json:"source" enum:"source"` // the source of its readings
	// When it went silent, if its state is silent; left out while it sends data.
	SilentSince string `json:"silent_since,omitempty" format:"date-time"`
}

// NewGPUStatus makes it; encoded is the newest snapshot, if there is one node.
func NewGPUStatus(m Monitor, f *insight.Fleet, encoded []byte, now time.Time) GPUStatus {
	_, source := m.head(f)
	out := GPUStatus{
		Status:         statusOf(f),
		Source:         source,
		Version:        m.Version,
		Interval:       m.Interval.Seconds(),
		AlertThreshold: float64(m.AlertThreshold),
		Node:           m.Node,
		Snapshot:       json.RawMessage("null"),
	}
	switch {
	case m.Several:
		out.Nodes = []NodeState{}
		for _, m := range f.Moments() {
			s := m.Snapshot
			age := inSeconds(max(0, now.Sub(s.Time)))
			out.Nodes = append(out.Nodes, NodeState{s.Node, statusOf(m.Alone()), age, len(s.Devices), s.Source, silentSince(m)})
		}
	case len(f.Nodes()) > 0:
		out.Snapshot = encoded
	}
	return out
}

// Summary answers GET /api/gpu/summary: totals, cheap enough to poll.
type Summary struct {
	Available bool    `json:"available"`            // whether there is a GPU
	Status    string  `json:"status" enum:"status"` // the machine as a whole
	Source    string  `json:"source" enum:"source"` // the source of the readings
	Node      *string `json:"node"`                 // name of the machine. Null if there are several
	NodeCount int     `json:"node_count,omitempty"` // the number of machines; left out if there is one
	// The number of silent machines: their GPUs count, but their readings do not. Left out if none
	// is silent.
	SilentNodes int `json:"silent_node_count,omitempty"`
	// Time of the snapshot; before the first reading, when the monitor started.
	Timestamp string `json:"timestamp" format:"date-time"`
	Reason    string `json:"reason"` // what failed and what to do; empty while all is well
	Totals
	ActiveAlerts int `json:"active_alerts" unit:"count"` // the number of firing alerts
	Layers
	Why    string  `json:"why"`    // the answer in one sentence
	Causes []Cause `json:"causes"` // the causes behind that sentence; /api/gpu/why has the causes of every GPU
}

// NewSummary makes it.
func NewSummary(m Monitor, f *insight.Fleet, activeAlerts int) Summary {
	nodes, answer := f.Nodes(), f.Answer()
	totals, causes := nodes.Totals(), answer.Main()
	out := Summary{
		Available: totals.Devices > 0, Status: statusOf(f), Reason: Reason(nodes),
		Totals: Totals(totals), Layers: NewLayers(answer), Why: answer.Sentence, Causes: m.causes(causes),
	}
	out.Timestamp, out.Source = m.head(f)
	if m.Several {
		out.NodeCount = len(nodes)
		for _, m := range f.Moments() {
			if m.Silent() {
				out.SilentNodes++
			}
		}
	} else {
		out.Node = new(m.node(f))
	}
	if len(nodes) > 0 {
		out.ActiveAlerts = activeAlerts
	}
	return out
}
