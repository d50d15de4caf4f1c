package contract

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/gpu/catalog"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/insight/attribute"
)

// GPUInfo answers GET /gpu/info.
type GPUInfo struct {
	Available       bool `json:"available"`        // whether there is a GPU
	GPUCount        int  `json:"gpu_count"`        // the number of GPUs, including those that do not answer
	PynvmlInstalled bool `json:"pynvml_installed"` // whether NVIDIA's management library could be loaded

	Source string `json:"source" enum:"source"` // the source of the readings
	// Time of the newest snapshot; before the first reading, when the monitor started.
	Timestamp string `json:"timestamp" format:"date-time"`
}

// NewGPUInfo makes it.
func NewGPUInfo(m Monitor, f *insight.Fleet) GPUInfo {
	nodes := f.Nodes()
	count := nodes.Totals().Devices
	info := GPUInfo{Available: count > 0, GPUCount: count}
	info.Timestamp, info.Source = m.head(f)
	info.PynvmlInstalled = slices.ContainsFunc(nodes.Drivers(), func(d gpu.Driver) bool { return d.Source == gpu.SourceNVML }) ||
		slices.ContainsFunc(nodes.Failures(), func(f gpu.Failure) bool { return f.Source == gpu.SourceNVML && !errors.Is(&f.Advice, gpu.ErrNoLibrary) })
	return info
}

// GPUMetrics answers GET /gpu/metrics.
type GPUMetrics struct {
	Timestamp  string `json:"timestamp" format:"date-time"` // time of the snapshot
	InstanceID string `json:"instance_id"`                  // name of the machine
	Source     string `json:"source" enum:"source"`         // the source of the readings
	Totals
	GPUs []GPU `json:"gpus"` // all GPUs, by gpu_id
}

// NewGPUMetrics makes it.
func NewGPUMetrics(m Monitor, f *insight.Fleet) GPUMetrics {
	out := GPUMetrics{InstanceID: m.node(f), Totals: Totals(f.Nodes().Totals()), GPUs: []GPU{}}
	out.Timestamp, out.Source = m.head(f)
	for p := range f.Parts() {
		out.GPUs = append(out.GPUs, newGPU(p.Device, p.Attribution))
	}
	return out
}

// OneGPU answers GET /gpu/metrics/{id}: an element of gpus, with the time of its snapshot.
type OneGPU struct {
	Timestamp string `json:"timestamp" format:"date-time"` // time of the snapshot
	GPU
}

// NewOneGPU makes it.
func NewOneGPU(p insight.Part) OneGPU {
	return OneGPU{Timestamp: timestamp(p.Snapshot.Time), GPU: newGPU(p.Device, p.Attribution)}
}

// Totals are sums and averages over the devices that answer. Devices counts the others too.
type Totals struct {
	Devices   int `json:"gpu_count"`           // the number of GPUs, including those that do not answer
	Answering int `json:"answering_gpu_count"` // the number of GPUs that answer
	Busy      int `json:"busy_gpu_count"`      // the number of GPUs with a utilization of 5 % or more
	// The number of processes with a context on a GPU; a process on two GPUs counts twice.
	Processes         int     `json:"process_count"`
	MemoryUsed        Bytes   `json:"total_memory_used_mb"`                      // sum of the memory that programs hold
	MemoryTotal       Bytes   `json:"total_memory_total_mb"`                     // sum of all GPU memory
	Unified           int     `json:"unified_memory_gpu_count"`                  // the number of GPUs that use the machine's memory, which neither sum includes
	Utilization       Percent `json:"average_gpu_utilization" unit:"percent"`    // average over the GPUs that report it
	MemoryUtilization Percent `json:"average_memory_utilization" unit:"percent"` // average of used / total
	Temperature       Celsius `json:"average_temperature" unit:"celsius"`        // average over the GPUs that report it
	MaxTemperature    Celsius `json:"max_temperature" unit:"celsius"`            // temperature of the hottest GPU
	PowerDraw         Watts   `json:"total_power_draw_watts"`                    // sum of the power draws

	MemoryShare Percent `json:"-"` // for the contracts that want the share of the sums
}

// GPU is one device, an element of gpus. The first part is the contract, the rest is gpuwhy's own.
type GPU struct {
	// Place by PCI address, for people. Never reassigned to another GPU while gpuwhy runs.
	ID            int         `json:"gpu_id"`
	Name          string      `json:"gpu_name"`       // product name
	UUID          string      `json:"gpu_uuid"`       // the GPU's key, unchanged by a restart
	DriverVersion *string     `json:"driver_version"` // version of the GPU's kernel driver
	Utilization   Utilization `json:"utilization"`    // how busy its engines are
	Memory        Memory      `json:"memory"`         // its own memory
	// The machine's memory that it uses, in addition to its own or instead of it. Not part of any
	// total.
	SharedMemory SharedMemory `json:"shared_memory"`
	Temperature  Temperature  `json:"temperature"` // how hot it is, and its limits
	Power        Power        `json:"power"`       // its power draw and limits
	Clocks       Clocks       `json:"clocks"`      // its clock frequencies
	// Processes with a context on it, busiest first. Also empty if the driver can't list them;
	// quality then has the reason.
	Processes []Process `json:"processes"`
	// Whether processes that gpuwhy can't see may also use it. Null if there is no list.
	ProcessesPartial Switch  `json:"processes_partial"`
	PerformanceState *string `json:"performance_state"` // "P0", the fastest, to "P15"
	// The speed that the driver requests of the fastest fan, not its actual speed. May exceed 100.
	FanSpeedPercent Percent `json:"fan_speed_percent" max:"none"`

	Node     string `json:"node"`                           // name of the GPU's machine
	Source   string `json:"source" enum:"source"`           // the source of its readings
	Vendor   string `json:"vendor" enum:"nvidia,amd,intel"` // the manufacturer
	PCIBusID string `json:"pci_bus_id"`                     // Bus address as the kernel writes it; empty if it has none.
	// The driver's own index, which may change when the machine restarts.
	VendorIndex Count   `json:"vendor_index"`
	State       string  `json:"state" enum:"state"`             // whether gpuwhy can read it
	StateSince  string  `json:"state_since" format:"date-time"` // when the state began
	StateReason string  `json:"state_reason"`                   // Why the state is not ok, and what to do; empty while all is well.
	SampledAt   *string `json:"sampled_at" format:"date-time"`  // when the readings were taken; null if there are none

	Architecture *string `json:"architecture"`  // such as Hopper
	Serial       *string `json:"serial"`        // the board's serial number
	VBIOS        *string `json:"vbios_version"` // version of its firmware
	Encoder      Encoder `json:"encoder"`       // the work of its video encoder
	// How much of the chip was active, and the traffic on its links. Null if none of it is
	// reported; quality then has the reason. NVIDIA reports it from Hopper on, but not in MIG mode.
	Activity *Activity `json:"activity"`
	Fans     []Fan     `json:"fans"`      // its fans, by fan index; empty for a passive GPU
	FanCount Count     `json:"fan_count"` // the number of its fans; 0 for a passive GPU
	// Whether the one fan listed stands for all of them, because the driver reports a single speed.
	FansCombined Switch `json:"fans_combined"`
	// What limits the clocks. Null if not reported; empty if nothing does.
	EventReasons []string    `json:"clock_event_reasons" null:"yes"`
	Throttled    *bool       `json:"throttled"`   // whether heat or power throttles it
	PCIe         PCIe        `json:"pcie"`        // its link to the host
	NVLink       NVLink      `json:"nvlink"`      // its links to other GPUs
	Health       Health      `json:"health"`      // its errors
	Modes        Modes       `json:"modes"`       // modes that an administrator sets
	Instances    []Instance  `json:"instances"`   // its MIG instances or partitions, which are not part of any total
	Attribution  Attribution `json:"attribution"` // who uses its memory, utilization and power
	// For whom the machine's scheduler reserves it, used or not, in words; "nobody" if it is not
	// reserved. Null if there is no kubelet to ask.
	ReservedBy *string `json:"reserved_by"`
	// The same as a list. Null if unknown; empty if it is not reserved.
	Reservations []Reservation `json:"reservations" null:"yes"`
	// Why a reading is null or doubtful, by its path in this object. Lists only the exceptions.
	Quality map[string]string `json:"quality" enum:"quality"`
}

// Utilization in percent of the last sample period.
type Utilization struct {
	GPU     Percent `json:"gpu_percent"`     // share of the time in which a kernel ran
	Memory  Percent `json:"memory_percent"`  // share of the time in which memory was read or written
	Encoder Percent `json:"encoder_percent"` // of the video encoder
	Decoder Percent `json:"decoder_percent"` // of the video decoder
	JPEG    Percent `json:"jpeg_percent"`    // of the JPEG decoder
	OFA     Percent `json:"ofa_percent"`     // of the optical flow engine
	Video   Percent `json:"video_percent"`   // of the engines that encode and decode, if the driver does not tell them apart
}

// Encoder is the work of the video encoder over all its sessions; zeros while there are none.
type Encoder struct {
	Sessions  Count        `json:"session_count"`      // sessions that are open now: recording, streaming, transcoding
	FrameRate FPS          `json:"average_fps"`        // mean frames per second of a session
	Latency   Microseconds `json:"average_latency_us"` // mean time to encode a frame, in microseconds
}

// Activity has means over the time since the previous reading, from hardware counters. Without those counters
// there may be PCIe traffic alone; see pcie_measured_at.
type Activity struct {
	Engine          Percent `json:"engine_percent"`                   // share of the time in which a compute or graphics engine was active
	SM              Percent `json:"sm_percent"`                       // share of the multiprocessors that had work, over the time
	Occupancy       Percent `json:"sm_occupancy_percent"`             // share of the warps that the multiprocessors can hold, over the time
	Tensor          Percent `json:"tensor_percent"`                   // share of the time in which tensor cores were active
	FP64            Percent `json:"fp64_percent"`                     // share of the time in which 64-bit floating-point units were active
	FP32            Percent `json:"fp32_percent"`                     // share of the time in which 32-bit floating-point units were active
	FP16            Percent `json:"fp16_percent"`                     // share of the time in which 16-bit floating-point units were active, not counting tensor cores
	Integer         Percent `json:"integer_percent"`                  // share of the time in which integer units were active
	MemoryBandwidth Percent `json:"memory_bandwidth_percent"`         // share of the memory bandwidth in use
	PCIeSent        Rate    `json:"pcie_sent_bytes_per_second"`       // traffic to the host
	PCIeReceived    Rate    `json:"pcie_received_bytes_per_second"`   // traffic from the host
	NVLinkSent      Rate    `json:"nvlink_sent_bytes_per_second"`     // traffic over all NVLinks
	NVLinkReceived  Rate    `json:"nvlink_received_bytes_per_second"` // traffic over all NVLinks
	// When PCIe traffic was measured, for 20 ms in each direction, if no hardware counts it
	// (--pcie-throughput). Null if the traffic is a mean or not reported.
	PCIeMeasuredAt Time `json:"pcie_measured_at" format:"date-time"`
}

// Memory in MiB.
type Memory struct {
	Total       Bytes   `json:"total_mb"`            // total memory
	Used        Bytes   `json:"used_mb"`             // memory that programs hold, without the driver's own reserve
	Free        Bytes   `json:"free_mb"`             // free memory
	Reserved    Bytes   `json:"reserved_mb"`         // memory that the driver reserves for itself
	Utilization Percent `json:"utilization_percent"` // used / total
	BAR1Total   Bytes   `json:"bar1_total_mb"`       // size of the window through which the host maps the memory
	BAR1Used    Bytes   `json:"bar1_used_mb"`        // part of that window in use
}

// SharedMemory is memory of the machine, in MiB.
type SharedMemory struct {
	Unified Switch `json:"unified"`  // whether the GPU uses this memory and has none of its own
	Total   Bytes  `json:"total_mb"` // the most that the GPU may use
	Used    Bytes  `json:"used_mb"`  // the memory that it uses
}

// Temperature in degrees Celsius.
type Temperature struct {
	GPU       Celsius `json:"current_celsius"`            // of the die
	HotSpot   Celsius `json:"hot_spot_celsius"`           // of the hottest spot on the die
	Memory    Celsius `json:"memory_celsius"`             // of the memory
	Slowdown  Celsius `json:"slowdown_threshold_celsius"` // temperature at which the hardware throttles itself
	Shutdown  Celsius `json:"shutdown_threshold_celsius"` // temperature at which it shuts itself down
	Target    Celsius `json:"target_celsius"`             // temperature that the driver aims for
	MemoryMax Celsius `json:"memory_max_celsius"`         // temperature at which hot memory throttles the GPU
	Margin    Celsius `json:"margin_celsius"`             // Degrees left until the hardware throttles itself; may be negative.
}

// Power in watts.
type Power struct {
	Draw         Watts   `json:"power_draw_watts"`               // power draw now or over the last second, depending on the product
	Limit        Watts   `json:"power_limit_watts"`              // the lowest limit in force
	DefaultLimit Watts   `json:"default_limit_watts"`            // the default limit
	MinLimit     Watts   `json:"min_limit_watts"`                // the lowest limit that can be set
	MaxLimit     Watts   `json:"max_limit_watts"`                // the highest limit that can be set
	Usage        Percent `json:"power_usage_percent" max:"none"` // draw / limit; may exceed 100. Null if either is null or doubtful
	Energy       Joules  `json:"total_energy_joules"`            // energy used since the driver was loaded
}

// Clocks in MHz.
type Clocks struct {
	Graphics    Megahertz `json:"graphics_clock_mhz"`     // of the graphics engine
	SM          Megahertz `json:"sm_clock_mhz"`           // of the multiprocessors
	Memory      Megahertz `json:"memory_clock_mhz"`       // of the memory
	Video       Megahertz `json:"video_clock_mhz"`        // of the video engines
	MaxGraphics Megahertz `json:"max_graphics_clock_mhz"` // highest of the graphics engine
	MaxSM       Megahertz `json:"max_sm_clock_mhz"`       // highest of the multiprocessors
	MaxMemory   Megahertz `json:"max_memory_clock_mhz"`   // highest of the memory
	MaxVideo    Megahertz `json:"max_video_clock_mhz"`    // highest of the video engines

	PerformanceState Count                              `json:"-"` // in GPU
	EventReasons     gpu.Reading[gpu.ClockEventReasons] `json:"-"` // in GPU
}

// Fan is one fan of a device.
type Fan struct {
	Commanded Percent `json:"percent" max:"none"`             // speed that the driver requests; may exceed 100
	RPM       RPM     `json:"rpm"`                            // speed that the fan's tachometer reports
	Target    Percent `json:"target_percent" max:"none"`      // speed that the driver aims for; may exceed 100
	Policy    Text    `json:"policy" enum:"automatic,manual"` // who sets the speed
}

// PCIe is the link to the host.
type PCIe struct {
	Generation    Count `json:"generation"`     // current generation; falls while the GPU is idle
	MaxGeneration Count `json:"max_generation"` // highest generation that both GPU and host support
	Width         Count `json:"width"`          // lanes in use now
	MaxWidth      Count `json:"max_width"`      // most lanes that both GPU and host support
	Replays       Total `json:"replay_count"`   // packets resent since the driver was loaded
}

// NVLink has the links to other GPUs and to switches.
type NVLink struct {
	Count Count `json:"link_count"` // the number of links, used or not; null if the product has none
	// The links by number. Empty if there are none, and in updates and summaries about several GPUs.
	Links []Link `json:"links"`
}

// Link is one NVLink. gpuwhy reads its errors at most every ten seconds.
type Link struct {
	Index      int    `json:"index"`                            // the driver's number, from 0
	Active     Switch `json:"active"`                           // whether it is trained and carries data
	Version    Text   `json:"version"`                          // of its protocol, such as 4.0
	Speed      Rate   `json:"speed_bytes_per_second"`           // capacity in each direction
	Peer       Text   `json:"peer" enum:"GPU,switch,processor"` // the kind of device at the other end
	PeerPCI    Text   `json:"peer_pci_bus_id"`                  // its bus address
	CRCFlit    Total  `json:"crc_flit_errors" unit:"count"`     // flow control digits received with errors
	CRCData    Total  `json:"crc_data_errors" unit:"count"`     // data received with errors
	Replays    Total  `json:"replays" unit:"count"`             // number of resends
	Recoveries Total  `json:"recoveries" unit:"count"`          // number of link recoveries
}

// Health has the device's errors; counts are since the driver was loaded (volatile) or over the
// device's life (aggregate).
type Health struct {
	MemoryHealth
	// Errors that NVIDIA's driver reported, by code. Null if they can't be known; empty if there were
	// none.
	XIDs []XID `json:"xids" null:"yes"`
	// Failures without a code, by kind, and what an NVIDIA driver asks for. Null if they can't be known; empty if there were
	// none.
	Faults []Fault `json:"faults" null:"yes"`
}

// MemoryHealth is the part of [Health] about memory.
type MemoryHealth struct {
	ECCMode               Switch `json:"ecc_enabled"`                              // whether memory errors are corrected
	ECCModePending        Switch `json:"ecc_pending"`                              // whether they will be corrected after a restart
	CorrectedVolatile     Total  `json:"ecc_corrected_volatile" unit:"count"`      // corrected errors since the driver was loaded
	UncorrectedVolatile   Total  `json:"ecc_uncorrected_volatile" unit:"count"`    // uncorrected errors since the driver was loaded
	CorrectedAggregate    Total  `json:"ecc_corrected_aggregate" unit:"count"`     // corrected errors over the GPU's life
	UncorrectedAggregate  Total  `json:"ecc_uncorrected_aggregate" unit:"count"`   // uncorrected errors over the GPU's life
	RemappedCorrectable   Total  `json:"remapped_rows_correctable" unit:"count"`   // rows replaced because of corrected errors
	RemappedUncorrectable Total  `json:"remapped_rows_uncorrectable" unit:"count"` // rows replaced because of uncorrected errors
	RemapPending          Switch `json:"remapped_rows_pending"`                    // whether a row will be replaced at the next restart
	RemapFailed           Switch `json:"remapped_rows_failed"`                     // whether a row could not be replaced
	RetiredSingleBit      Total  `json:"retired_pages_single_bit" unit:"count"`    // pages retired because of corrected errors
	RetiredDoubleBit      Total  `json:"retired_pages_double_bit" unit:"count"`    // pages retired because of uncorrected errors
	RetirementPending     Switch `json:"retired_pages_pending"`                    // whether a page will be retired at the next restart

	XIDs   gpu.Reading[[]gpu.XID]   `json:"-"` // in Health
	Faults gpu.Reading[[]gpu.Fault] `json:"-"` // in Health
}

// XID counts one kind of error that the driver reported.
type XID struct {
	Code int `json:"code" unit:"count"` // the driver's number for the error, such as 79
	ErrorEvents
}

// Fault counts one kind of failure on a GPU that its driver wrote to the kernel log, or is an action that the driver asks
// for; such an entry stays as long as the driver asks.
type Fault struct {
	Kind   string `json:"kind" enum:"engine_hang,engine_reset,device_reset,reset_failed,wedged,page_fault,memory_error,off_bus,init_failed,needs_reset,needs_restart,needs_drain,needs_drain_and_reset,needs_action,fan_unreadable"` // what went wrong
	Engine Text   `json:"engine"`                                                                                                                                                                                                    // engine of the newest failure, as the driver names it, such as "gfx_0.0.0"
	ErrorEvents
}

// ErrorEvents are what XIDs and faults have in common.
type ErrorEvents struct {
	Count    uint64 `json:"count"`                                              // the number since gpuwhy started, and before that as far back as the kernel log goes
	Earlier  uint64 `json:"earlier" unit:"count"`                               // the number of these before gpuwhy started
	Last     string `json:"last" format:"date-time"`                            // time of the newest
	Severity Text   `json:"severity" enum:"information,warning,error,critical"` // how much it matters; null for a code that gpuwhy does not know
	Meaning  Text   `json:"meaning"`                                            // what it means, such as "the GPU has fallen off the bus"; null for a code that gpuwhy does not know
	Advice   Text   `json:"advice"`                                             // what to do, in a sentence; null for a code that gpuwhy does not know
	Process  Text   `json:"process"`                                            // name of the program that the newest one affected, if the kernel names it
	PID      Count  `json:"pid"`                                                // process id of that program
}

// Modes are set by an administrator.
type Modes struct {
	Persistence   Switch `json:"persistence"`                                                          // whether the driver stays loaded without programs
	Compute       Text   `json:"compute" enum:"default,exclusive_thread,prohibited,exclusive_process"` // who may use it for compute
	MIG           Switch `json:"mig"`                                                                  // whether it is divided into instances
	MIGPending    Switch `json:"mig_pending"`                                                          // whether it will be divided after a restart
	DisplayActive Switch `json:"display_active"`                                                       // whether a display server draws on it
	// The number of MIG instances or partitions; null if not offered or not permitted.
	Instances        Count `json:"instance_count"`
	Virtualization   Text  `json:"virtualization" enum:"none,passthrough,vgpu,host_vgpu,host_vsga"` // its role in virtualization
	ComputePartition Text  `json:"compute_partition"`                                               // how an AMD Instinct is divided, such as SPX
	MemoryPartition  Text  `json:"memory_partition"`                                                // such as NPS1
}

// Process is one process with a context on the device.
type Process struct {
	PID        int    `json:"pid"`            // process id on its machine
	Name       string `json:"process_name"`   // name of the program; empty if the host can't see the process
	UsedMemory Bytes  `json:"used_memory_mb"` // GPU memory that it holds

	Type            string  `json:"type" enum:"compute,graphics,compute+graphics,mps,unknown"` // kind of its context on the GPU
	SM              Percent `json:"sm_percent"`                                                // share of the multiprocessors' time
	MemoryBandwidth Percent `json:"memory_percent"`                                            // share of the time in which it used the memory
	Encoder         Percent `json:"encoder_percent"`                                           // share of the video encoder's time
	Decoder         Percent `json:"decoder_percent"`                                           // share of the video decoder's time
	Video           Percent `json:"video_percent"`                                             // share of the time of engines that encode and decode
	User            *string `json:"user"`                                                      // who runs it
	// The usual name of what it runs: a script, a module or a program, without folders and
	// arguments. Null if it is unknown or may not be shown.
	Program *string `json:"program"`
	// Its command line. Null if it is unknown or may not be shown.
	Command   *string `json:"command"`
	StartedAt Time    `json:"started_at" format:"date-time"` // when it started
	CPU       Percent `json:"cpu_percent" max:"none"`        // percent of one core since the last reading; may exceed 100
	RSS       Bytes   `json:"host_memory_mb"`                // resident memory on the host
	Power     Watts   `json:"power_watts"`                   // estimated share of the power draw; the GPU's attribution says how it is split
	// Whether the process exists. If false, nobody uses the memory that it holds. Null if unknown.
	Exists    *bool      `json:"exists"`
	Container *Container `json:"container"` // Its container. Null if unknown; an empty id means none.
	Pod       *Pod       `json:"pod"`       // Its Kubernetes pod. Null if unknown; an empty uid means none.
	Unit      *Unit      `json:"unit"`      // Its systemd unit. Null if unknown; an empty name means none.
	// Its Slurm job. Null if unknown; the id 0 means none.
	SlurmJob        *SlurmJob `json:"slurm_job"`
	GPUInstance     Count     `json:"gpu_instance_id"`     // MIG GPU instance. Null outside MIG mode
	ComputeInstance Count     `json:"compute_instance_id"` // MIG compute instance. Null outside MIG mode
	// Why readings are null; left out if none needs a reason.
	Quality map[string]string `json:"quality,omitempty" enum:"quality"`
}

// Instance is a MIG instance or a partition. It is nested under its device and never part of
// totals.
type Instance struct {
	UUID            string `json:"uuid"`                 // the instance's key
	Name            string `json:"name"`                 // product and profile
	Profile         Text   `json:"profile"`              // its profile, such as 1g.10gb
	GPUInstance     Count  `json:"gpu_instance_id"`      // GPU instance
	ComputeInstance Count  `json:"compute_instance_id"`  // compute instance
	Memory          Memory `json:"memory"`               // its share of the memory
	Multiprocessors Count  `json:"multiprocessor_count"` // its multiprocessors
	MemorySlices    Count  `json:"memory_slice_count"`   // its slices of the GPU's memory
	ComputeSlices   Count  `json:"compute_slice_count"`  // its slices of the GPU's multiprocessors
	Processes       Count  `json:"process_count"`        // the number of processes that run in it
	// Means over the time since the previous reading, for its GPU instance. NVIDIA reports them
	// from Hopper on.
	Engine          Percent `json:"engine_percent"`           // share of the time in which an engine was active
	SM              Percent `json:"sm_percent"`               // share of the multiprocessors that had work, over the time
	Tensor          Percent `json:"tensor_percent"`           // share of the time in which tensor cores were active
	MemoryBandwidth Percent `json:"memory_bandwidth_percent"` // share of the memory bandwidth in use
	// Why readings are null; left out if none needs a reason.
	Quality map[string]string `json:"quality,omitempty" enum:"quality"`
}

func newGPU(d *gpu.Device, a *attribute.Attribution) GPU {
	none := noActivity(d)
	q := qualitiesOf(d, none)
	g := GPU{
		ID:               d.Index,
		Name:             d.Name,
		UUID:             d.UUID,
		DriverVersion:    pointer(d.DriverVersion),
		Utilization:      Utilization(d.Utilization),
		Memory:           newMemory(d.Memory),
		SharedMemory:     SharedMemory(d.Shared),
		ProcessesPartial: d.ProcessesPartial,
		FansCombined:     d.Fans.Combined,
		NVLink:           NVLink{d.NVLink.Count, listOf(d.NVLink.Links, func(l *gpu.Link) Link { return Link(*l) })},
		Temperature:      Temperature(d.Thermal),
		Power:            newPower(d.Power),
		Clocks:           Clocks(d.Clocks),
		Processes:        newProcesses(d.Processes, a.Shares, q),
		PerformanceState: pointer(gpu.Map(d.Clocks.PerformanceState, pState)),
		FanSpeedPercent:  d.Fans.Commanded(),
		Node:             d.Node,
		Source:           d.Source,
		Vendor:           string(d.Vendor),
		PCIBusID:         d.PCI,
		VendorIndex:      d.VendorIndex,
		State:            string(d.State),
		StateSince:       timestamp(d.Since),
		StateReason:      d.Reason.Text(),
		SampledAt:        optionalTime(d.SampledAt),
		Architecture:     pointer(d.Architecture),
		Serial:           pointer(d.Serial),
		VBIOS:            pointer(d.VBIOS),
		Encoder:          Encoder(d.Encoding),
		Fans:             listOf(d.Fans.Fans, func(f *gpu.Fan) Fan { return Fan(*f) }),
		FanCount:         d.Fans.Count,
		Throttled:        pointer(gpu.Map(d.Clocks.EventReasons, gpu.ClockEventReasons.Throttled)),
		PCIe:             PCIe(d.PCIe),
		Health:           Health{MemoryHealth(d.Health), listOrNull(d.Health.XIDs, newXID), listOrNull(d.Health.Faults, newFault)},
		Modes:            Modes(d.Modes),
		Instances:        newInstances(d),
		Attribution:      newAttribution(d, a),
		ReservedBy:       pointer(d.ReservedBy()),
		Reservations:     listOrNull(d.Reservations, newReservation),
		Quality:          q,
	}
	if reasons, ok := d.Clocks.EventReasons.Get(); ok {
		g.EventReasons = reasons.Names()
	}
	if !none {
		g.Activity = new(Activity(d.Activity))
	}
	return g
}

func pState(p int) string { return "P" + strconv.Itoa(p) }

// noActivity reports whether all activity readings are absent, for one and the same reason.
func noActivity(d *gpu.Device) bool {
	why := d.Activity.Engine
	return !why.Present() && d.Activity == gpu.AbsentActivity(why.Quality())
}

func newMemory(m gpu.Memory) Memory {
	return Memory{
		Total: m.Total, Used: m.Used, Free: m.Free, Reserved: m.Reserved, Utilization: m.Utilization(),
		BAR1Total: m.BAR1Total, BAR1Used: m.BAR1Used,
	}
}

func newPower(p gpu.Power) Power {
	out := Power{
		Draw: p.Draw, Limit: p.EnforcedLimit, DefaultLimit: p.DefaultLimit,
		MinLimit: p.MinLimit, MaxLimit: p.MaxLimit, Energy: p.Energy,
	}
	draw, good := p.Draw.Trusted()
	if limit, ok := p.EnforcedLimit.Trusted(); good && ok && limit > 0 {
		out.Usage = gpu.Of(gpu.Percent(100 * draw / limit))
	}
	return out
}

func newXID(x *gpu.XID) XID {
	what, try := x.Meaning()
	return XID{x.Code, newErrorEvents(x.Count, x.Earlier, x.Last, x.Severity(), what, try, x.Culprit)}
}

func newFault(f *gpu.Fault) Fault {
	what, try := f.Kind.Meaning()
	return Fault{string(f.Kind), known(f.Engine), newErrorEvents(f.Count, f.Earlier, f.Last, f.Kind.Severity(), what, try, f.Culprit)}
}

func newErrorEvents(count, earlier uint64, last time.Time, severity gpu.Severity, what, try string, culprit gpu.Culprit) ErrorEvents {
	return ErrorEvents{
		Count: count, Earlier: earlier, Last: timestamp(last),
		Severity: known(string(severity)), Meaning: known(what), Advice: known(try),
		Process: known(culprit.Name), PID: known(culprit.PID),
	}
}

// known is null for the zero.
func known[T comparable](v T) gpu.Reading[T] {
	if v == *new(T) {
		return gpu.Reading[T]{}
	}
	return gpu.Of(v)
}

// newProcesses returns an empty list if the driver can't list processes, because clients walk the
// list. The reason is among the qualities.
func newProcesses(r gpu.Reading[[]gpu.Process], shares []attribute.Share, q qualities) []Process {
	if r.Quality() != gpu.Good {
		q["processes"] = r.Quality().String()
	}
	list := r.Or(nil)
	out := make([]Process, len(list))
	for i := range list {
		out[i] = newProcess(&list[i], shares[i].Power)
	}
	return out
}

func newProcess(p *gpu.Process, power gpu.Reading[gpu.Watts]) Process {
	q := qualities{}
	f := &p.Facts
	container, pod := f.Container.Or(gpu.Container{}), f.Pod.Or(gpu.Pod{})
	note(q, "container.name", container.Name)
	note(q, "container.image", container.Image)
	note(q, "pod.namespace", pod.Namespace)
	note(q, "pod.name", pod.Name)
	note(q, "pod.container", pod.Container)
	return Process{
		PID:             p.PID,
		Name:            note(q, "process_name", f.Name).Or(""),
		UsedMemory:      note(q, "used_memory_mb", p.Memory),
		Type:            string(p.Type),
		SM:              note(q, "sm_percent", p.SM),
		MemoryBandwidth: note(q, "memory_percent", p.MemoryBandwidth),
		Encoder:         note(q, "encoder_percent", p.Encoder),
		Decoder:         note(q, "decoder_percent", p.Decoder),
		Video:           note(q, "video_percent", p.Video),
		User:            pointer(note(q, "user", f.User)),
		Program:         pointer(note(q, "program", f.Program)),
		Command:         pointer(note(q, "command", f.Command)),
		StartedAt:       note(q, "started_at", f.Started),
		CPU:             note(q, "cpu_percent", f.CPU),
		RSS:             note(q, "host_memory_mb", f.RSS),
		Power:           note(q, "power_watts", power),
		Exists:          pointer(note(q, "exists", f.Exists)),
		Container:       (*Container)(pointer(note(q, "container", f.Container))),
		Pod:             (*Pod)(pointer(note(q, "pod", f.Pod))),
		Unit:            (*Unit)(pointer(note(q, "unit", f.Unit))),
		SlurmJob:        (*SlurmJob)(pointer(note(q, "slurm_job", f.Job))),
		GPUInstance:     p.GPUInstance,
		ComputeInstance: p.ComputeInstance,
		Quality:         q,
	}
}

func newInstances(d *gpu.Device) []Instance {
	out := listOf(d.Instances, func(in *gpu.Instance) Instance {
		return Instance{
			UUID: in.UUID, Name: in.Name, Profile: in.Profile, GPUInstance: in.GPUInstance, ComputeInstance: in.ComputeInstance,
			Memory: newMemory(in.Memory), Multiprocessors: in.Multiprocessors, MemorySlices: in.MemorySlices,
			ComputeSlices: in.ComputeSliceCount, Processes: in.Processes, Engine: in.Engine, SM: in.SM, Tensor: in.Tensor,
			MemoryBandwidth: in.MemoryBandwidth, Quality: qualities{},
		}
	})
	eachException(d, instanceRows, func(i int, path, quality string) { out[i].Quality[path] = quality })
	return out
}

// qualities are the exceptions by path: readings that are doubtful, or absent for a known reason.
type qualities map[string]string

// The rows of the catalog that are on the wire and can be exceptions: those of a device that any
// source reports, and those of its parts.
var (
	deviceRows, fanRows    = rowsOnWire(""), rowsOnWire("fans")
	linkRows, instanceRows = rowsOnWire("nvlink.links"), rowsOnWire("instances")
)

func rowsOnWire(list string) (rows []*catalog.Row) {
	for r := range catalog.All() {
		if r.List == list && r.Path != "" && (list != "" || r.From != nil) {
			rows = append(rows, r)
		}
	}
	return rows
}

func qualitiesOf(d *gpu.Device, noActivity bool) qualities {
	q := qualities{}
	note(q, "reservations", d.Reservations)
	note(q, "attribution.idle_floor_watts", d.IdleFloor)
	if noActivity { // the reason is said once: most products have no such counters
		note(q, "activity", d.Activity.Engine)
	}
	for _, r := range deviceRows {
		if ref := r.At(d); exceptional(ref.Quality()) && (!noActivity || !strings.HasPrefix(r.Path, "activity.")) {
			q[r.Path] = ref.Quality().String()
		}
	}
	in := func(list string) func(int, string, string) {
		return func(i int, path, quality string) { q[list+"."+strconv.Itoa(i)+"."+path] = quality }
	}
	eachException(d, fanRows, in("fans"))
	eachException(d, linkRows, in("nvlink.links"))
	return q
}

// eachException calls add for each exception in the parts of a device, with the part's place.
func eachException(d *gpu.Device, rows []*catalog.Row, add func(i int, path, quality string)) {
	var path string
	var i int
	visit := func(_ string, ref catalog.Ref) {
		if exceptional(ref.Quality()) {
			add(i, path, ref.Quality().String())
		}
		i++
	}
	for _, r := range rows {
		path, i = r.Path, 0
		r.Visit(d, visit)
	}
}

func exceptional(q gpu.Quality) bool { return q != gpu.Good && q != gpu.NotReported }

func note[T any](q qualities, path string, r gpu.Reading[T]) gpu.Reading[T] {
	if exceptional(r.Quality()) {
		q[path] = r.Quality().String()
	}
	return r
}
