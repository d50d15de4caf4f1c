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
	Seq        uint64 `json:"seq" unit:"count"`             // grows with every reading; gaps are normal
	Timestamp  string `json:"timestamp" format:"date-time"` // When the reading began; the monitor's start, before the first.
	Node       string `json:"node"`                         // name of the machine whose monitor made the snapshot
	InstanceID string `json:"instance_id"`                  // the same by the resource agent's name for it
	Source     string `json:"source" enum:"source"`         // where the readings come from
	Status     string `json:"status" enum:"status"`         // the machine as a whole
	// Since when nothing has come of the node: its readings are stale. Left out while news come.
	SilentSince string `json:"silent_since,omitempty" format:"date-time"`
	Available   bool   `json:"available"` // whether there is a GPU
	Reason      string `json:"reason"`    // what failed and what to do; empty while all is well
	Layers
	Why string `json:"why"` // what the snapshot shows, in one sentence
	// What makes the GPUs hot and loud, the loudest first; at most 64, all are at /api/gpu/why.
	Causes []Cause `json:"causes"`
	Totals
	GPUs     []UpdateGPU `json:"gpus"`     // every GPU, by gpu_id
	Usage    Usage       `json:"usage"`    // who has how much of them
	Host     *Host       `json:"host"`     // the machine around the GPUs. Null where it was not read
	Drivers  []Driver    `json:"drivers"`  // what answers for the GPUs, one entry a source
	Failures []Failure   `json:"failures"` // sources that can't be read now
	Notes    []string    `json:"notes"`    // what this monitor can't see, and what would change that
	Found    string      `json:"found"`    // what each source found, in words; empty for several nodes, and without a GPU
}

// UpdateGPU is one GPU of an Update: its readings, and the answer about it.
type UpdateGPU struct {
	GPU
	Layers
}

// Host is the machine around the devices.
type Host struct {
	// When it was read, and with it its processes: about once a second where the interval is shorter. Null where a recording or a simulation does not say.
	SampledAt *string `json:"sampled_at" format:"date-time"`

	Hostname string `json:"hostname"`       // name of the machine
	OS       string `json:"os"`             // distribution and version
	Kernel   string `json:"kernel"`         // version of the kernel
	Uptime   Float  `json:"uptime_seconds"` // since the machine started

	CPUModel Text    `json:"cpu_model"`              // name of the processor
	Cores    Count   `json:"cpu_cores" unit:"count"` // logical cores
	CPU      Percent `json:"cpu_percent"`            // of all cores since the last reading
	Load1    Float   `json:"load_1" unit:"count"`    // average of runnable processes over a minute
	Load5    Float   `json:"load_5" unit:"count"`    // the same over five minutes
	Load15   Float   `json:"load_15" unit:"count"`   // the same over fifteen minutes
	CPUPower Watts   `json:"cpu_power_watts"`        // of all processors since the last reading
	// Whether a processor has slowed itself down for its heat since the last reading. Null where the system does not count that.
	CPUThrottled *bool `json:"cpu_throttled"`
	// Who uses most of the CPU, the busiest first, at most 8. Null where gpuwhy can't see them all, or has looked but once.
	Busiest []HostProcess `json:"busiest" null:"true"`

	MemoryTotal     Bytes `json:"memory_total_mb"`     // the machine's memory
	MemoryUsed      Bytes `json:"memory_used_mb"`      // what programs hold of it
	MemoryAvailable Bytes `json:"memory_available_mb"` // what programs could get of it
	SwapTotal       Bytes `json:"swap_total_mb"`       // swap space
	SwapUsed        Bytes `json:"swap_used_mb"`        // swap space in use

	Disks    []Disk    `json:"disks"`    // mounted file systems on real block devices
	Networks []Network `json:"networks"` // interfaces that are up, without the loopback
	// The machine's own fans, without those of GPUs; empty where it reports none.
	Fans []HostFan `json:"fans"`
	// Its own temperatures, without those of GPUs and drives; empty where it reports none.
	Temperatures []HostTemperature `json:"temperatures"`
	// Why there is no fan, and what to do; empty where there is one.
	NoFans string `json:"no_fans"`
	// What /api/gpu/recent keeps of a machine without a GPU, by metric; left out where there are GPUs.
	Kept map[string]Float `json:"kept,omitempty" unit:"any"`
	Self Self             `json:"self"` // what gpuwhy itself costs
}

// HostProcess is a program of one user that uses the CPU: one process, or several of one name in one place.
type HostProcess struct {
	PID       int     `json:"pid"`                                   // of the one that uses most
	Count     int     `json:"process_count" unit:"count"`            // how many they are
	CPU       float64 `json:"cpu_percent" unit:"percent" max:"none"` // of one core since the last look, with children that ended; may pass 100
	Name      string  `json:"process_name"`                          // name of the program; empty where it is not known
	Program   *string `json:"program"`                               // what people call it. Null where it is not permitted to be shown, or not known
	Command   *string `json:"command"`                               // command line of the one that uses most. Null where it is not permitted to be shown
	User      *string `json:"user"`                                  // who runs it
	StartedAt Time    `json:"started_at" format:"date-time"`         // when the one that uses most was started
	// Container that it runs in. Null where that is not known; in none has an empty id.
	Container *Container `json:"container"`
	Pod       *Pod       `json:"pod"`       // Kubernetes pod. Null where that is not known; in none has an empty uid.
	Unit      *Unit      `json:"unit"`      // Systemd unit. Null where that is not known; in none has an empty name.
	SlurmJob  *SlurmJob  `json:"slurm_job"` // Slurm job. Null where that is not known; in none has the id 0.
}

// HostFan is a fan of the machine.
type HostFan struct {
	Name string `json:"name"`            // such as "CPU fan", or "fan 3 of nct6798" where it has no label
	Chip string `json:"chip"`            // what counts, by the kernel's name
	RPM  RPM    `json:"rpm" max:"30000"` // speed; 0 also where no fan is connected
}

// HostTemperature is a sensor of the machine.
type HostTemperature struct {
	Name    string  `json:"name"`                                       // such as "CPU" or "chipset"
	Chip    string  `json:"chip"`                                       // what measures, by the kernel's name
	Celsius Celsius `json:"celsius" unit:"celsius" min:"-40" max:"150"` // how hot it is
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
	CPU Percent `json:"cpu_percent" max:"none"` // of one core since the last reading; may pass 100
	RSS Bytes   `json:"memory_mb"`              // resident memory
}

// Driver is what answers for a source's devices.
type Driver struct {
	Source  string `json:"source" enum:"source"` // whose GPUs it serves
	Version Text   `json:"driver_version"`       // of the kernel driver
	CUDA    Text   `json:"cuda_driver_version"`  // newest CUDA that the driver supports, not the toolkit's version
	Library Text   `json:"library_version"`      // of the management library
}

// Failure is a source that can't be read now.
type Failure struct {
	Source string  `json:"source" enum:"source"`        // what was tried
	Since  string  `json:"since" format:"date-time"`    // when it began to fail
	What   string  `json:"what"`                        // what happened
	Try    string  `json:"try"`                         // what to do about it
	Next   *string `json:"next_try" format:"date-time"` // when it is tried again. Null where that is not known
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

// statusOf sums nodes up. One that is silent is nothing else, and several are where all of them are.
func statusOf(f *insight.Fleet) string {
	moments := f.Moments()
	if len(moments) > 0 && !slices.ContainsFunc(moments, func(m *insight.Moment) bool { return !m.Silent() }) {
		return string(gpu.StatusSilent)
	}
	return string(f.Nodes().Status())
}

// silentSince is since when nothing has come of a node; empty while news come.
func silentSince(m *insight.Moment) string {
	if !m.Silent() {
		return ""
	}
	return timestamp(m.Link.Silent)
}

func newUpdateGPU(p *insight.Part) UpdateGPU {
	return UpdateGPU{newGPU(p.Device, p.Attribution), NewLayersOfOne(p.Why)}
}

// leaveOutLinks leaves out the NVLinks: those of eight GPUs are more than all their other readings.
func (g *GPU) leaveOutLinks() {
	g.NVLink.Links = []Link{}
	maps.DeleteFunc(g.Quality, func(path, _ string) bool { return strings.HasPrefix(path, "nvlink.links.") })
}

// Reason says what fails and what to do about it: each source that can't be read,
// and each device that is lost or does not answer although its source can be read.
// It is empty if nothing fails, and before the first reading.
func Reason(nodes gpu.Nodes) string {
	var texts []string
	for _, s := range nodes {
		of := ""
		if len(nodes) > 1 {
			of = s.Node + ": "
		}
		for _, text := range reasons(s) {
			texts = append(texts, of+text)
		}
	}
	return strings.Join(texts, "; ")
}

// Found says of each source of a node what it found, or why nothing. It is empty for several
// nodes, and for one without a GPU: what was tried there is among the failures.
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

// A Monitor is what gpu_status says of gpuwhy itself, beside the snapshot.
type Monitor struct {
	Node           string // the machine's name
	Several        bool   // it shows several nodes, of which Node need not be one
	Source         string // what was asked for, until a snapshot says what answers
	Version        string
	Interval       time.Duration // between readings
	Idle           time.Duration // between readings while nobody looks; 0: Interval
	AlertThreshold gpu.Percent
	Started        time.Time // Started is the time that answers carry until there is a reading.
}

// head is the time when the newest reading began and where the readings come from: before the first
// one, the monitor's start and the source in the configuration.
func (m Monitor) head(f *insight.Fleet) (at, source string) {
	nodes := f.Nodes()
	if len(nodes) == 0 {
		return timestamp(m.Started), m.Source
	}
	return timestamp(nodes.Time()), nodes.Source()
}

// Of is the monitor of a fleet: for a single Moment of several, of its node alone. Its Interval is the usual one of [Monitor.Pace].
func (m Monitor) Of(f *insight.Fleet) Monitor {
	_, m.Interval, _ = m.Pace(f)
	if moments := f.Moments(); m.Several && len(moments) == 1 && moments[0].Alone() == f {
		m.Several, m.Node = false, moments[0].Snapshot.Node
	}
	return m
}

// Pace is the shortest, the usual and the longest time between readings of the nodes of a fleet: of those from which news come, if there are several;
// its own where there is none. Half of the nodes are read as often as usual, or more often.
func (m Monitor) Pace(f *insight.Fleet) (least, usual, most time.Duration) {
	moments := f.Moments()
	all := make([]time.Duration, 0, len(moments))
	for _, of := range moments {
		if len(moments) == 1 || !of.Silent() {
			all = append(all, cmp.Or(of.Link.Every, m.Interval))
		}
	}
	if len(all) == 0 {
		return m.Interval, m.Interval, m.Interval
	}
	slices.Sort(all)
	return all[0], all[(len(all)-1)/2], all[len(all)-1]
}

// node is the name of the one node of a fleet, or the monitor's.
func (m Monitor) node(f *insight.Fleet) string {
	if nodes := f.Nodes(); len(nodes) == 1 {
		return nodes[0].Node
	}
	return m.Node
}

// GPUStatus is the data of gpu_status.
type GPUStatus struct {
	Status         string          `json:"status" enum:"status"`     // the machine as a whole
	Source         string          `json:"source" enum:"source"`     // where the readings come from
	Version        string          `json:"version"`                  // gpuwhy's version
	Interval       float64         `json:"interval_seconds"`         // time between readings
	AlertThreshold float64         `json:"alert_threshold_percent"`  // utilization above which high_gpu_usage_alert fires
	Node           string          `json:"node"`                     // name of the machine; of the monitor, where there are several
	Snapshot       json.RawMessage `json:"snapshot" schema:"Update"` // the newest snapshot. Null before the first reading, and where nodes is there
	Nodes          []NodeState     `json:"nodes,omitzero"`           // the nodes, where there are several; each sends its snapshots by itself
}

// NodeState is how one node of several does.
type NodeState struct {
	Name     string  `json:"name"`                 // the node's name
	State    string  `json:"state" enum:"status"`  // the node as a whole
	Age      float64 `json:"age_seconds"`          // since its newest reading began
	GPUCount int     `json:"gpu_count"`            // how many GPUs it has
	Source   string  `json:"source" enum:"source"` // where its readings come from
	// Since when nothing has come of it, where its state is silent; left out while news come.
	SilentSince string `json:"silent_since,omitempty" format:"date-time"`
}

// NewGPUStatus makes it; encoded is the newest snapshot, where there is one node.
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
	Source    string  `json:"source" enum:"source"` // where the readings come from
	Node      *string `json:"node"`                 // name of the machine. Null where there are several
	NodeCount int     `json:"node_count,omitempty"` // how many machines there are; left out where there is one
	// How many of them are silent: their GPUs count, and their readings do not. Left out where none is.
	SilentNodes int `json:"silent_node_count,omitempty"`
	// Time of the snapshot; the monitor's start, before the first reading.
	Timestamp string `json:"timestamp" format:"date-time"`
	Reason    string `json:"reason"` // what failed and what to do; empty while all is well
	Totals
	ActiveAlerts int `json:"active_alerts" unit:"count"` // how many alerts are firing
	Layers
	Why    string  `json:"why"`    // what the snapshot shows, in one sentence
	Causes []Cause `json:"causes"` // what is behind that sentence; /api/gpu/why has the causes of every GPU
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
