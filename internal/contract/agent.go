package contract

import (
	"slices"
	"strconv"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/insight/attribute"
)

// GPUInfo answers GET /gpu/info.
type GPUInfo struct {
	Available       bool `json:"available"`        // whether there is a GPU
	GPUCount        int  `json:"gpu_count"`        // how many GPUs there are, those that do not answer included
	PynvmlInstalled bool `json:"pynvml_installed"` // whether NVIDIA's management library could be loaded

	Source string `json:"source" enum:"source"` // where the readings come from
	// Time of the newest snapshot; the monitor's start, before the first reading.
	Timestamp string `json:"timestamp" format:"date-time"`
}

// NewGPUInfo makes it.
func NewGPUInfo(m Monitor, f *insight.Fleet) GPUInfo {
	nodes := f.Nodes()
	info := GPUInfo{Available: hasDevice(nodes), GPUCount: nodes.Totals().Devices}
	info.Timestamp, info.Source = m.head(f)
	info.PynvmlInstalled = slices.ContainsFunc(nodes.Drivers(), func(d gpu.Driver) bool { return d.Source == gpu.SourceNVML }) ||
		slices.ContainsFunc(nodes.Failures(), func(f gpu.Failure) bool { return f.Source == gpu.SourceNVML && f.LibraryLoaded })
	return info
}

// GPUMetrics answers GET /gpu/metrics.
type GPUMetrics struct {
	Timestamp  string `json:"timestamp" format:"date-time"` // time of the snapshot
	InstanceID string `json:"instance_id"`                  // name of the machine
	Source     string `json:"source" enum:"source"`         // where the readings come from
	Totals
	GPUs []GPU `json:"gpus"` // every GPU, by gpu_id
}

// NewGPUMetrics makes it.
func NewGPUMetrics(m Monitor, f *insight.Fleet) GPUMetrics {
	out := GPUMetrics{InstanceID: m.node(f), Totals: newTotals(f.Nodes().Totals()), GPUs: []GPU{}}
	out.Timestamp, out.Source = m.head(f)
	for p := range f.Parts() {
		out.GPUs = append(out.GPUs, newGPU(p.Device, p.Attribution))
	}
	return out
}

// OneGPU answers GET /gpu/metrics/{id}: an element of gpus, with the time of
// its snapshot.
type OneGPU struct {
	Timestamp string `json:"timestamp" format:"date-time"` // time of the snapshot
	GPU
}

// NewOneGPU makes it.
func NewOneGPU(p insight.Part) OneGPU {
	return OneGPU{Timestamp: timestamp(p.Snapshot.Time), GPU: newGPU(p.Device, p.Attribution)}
}

// Totals are sums and averages over the devices that answer. GPUCount counts
// the others too.
type Totals struct {
	GPUCount          int `json:"gpu_count"`           // how many GPUs there are, those that do not answer included
	AnsweringGPUCount int `json:"answering_gpu_count"` // how many of them answer
	BusyGPUCount      int `json:"busy_gpu_count"`      // how many have a GPU utilization of 5 % or more
	// How many processes have a context on a GPU; one on two GPUs counts twice.
	ProcessCount        int   `json:"process_count"`
	TotalMemoryUsedMB   Float `json:"total_memory_used_mb"`                      // sum of what programs hold
	TotalMemoryTotalMB  Float `json:"total_memory_total_mb"`                     // sum of all memory
	AverageUtilization  Float `json:"average_gpu_utilization" unit:"percent"`    // average over the GPUs that report it
	AverageMemory       Float `json:"average_memory_utilization" unit:"percent"` // average of used / total
	AverageTemperature  Float `json:"average_temperature" unit:"celsius"`        // average over the GPUs that report it
	MaxTemperature      Float `json:"max_temperature" unit:"celsius"`            // the hottest
	TotalPowerDrawWatts Float `json:"total_power_draw_watts"`                    // sum of the power drawn
}

func newTotals(t gpu.Totals) Totals {
	return Totals{
		GPUCount:            t.Devices,
		AnsweringGPUCount:   t.Answering,
		BusyGPUCount:        t.Busy,
		ProcessCount:        t.Processes,
		TotalMemoryUsedMB:   mib(t.MemoryUsed),
		TotalMemoryTotalMB:  mib(t.MemoryTotal),
		AverageUtilization:  float(t.Utilization),
		AverageMemory:       float(t.MemoryUtilization),
		AverageTemperature:  float(t.Temperature),
		MaxTemperature:      float(t.MaxTemperature),
		TotalPowerDrawWatts: float(t.PowerDraw),
	}
}

// GPU is one device, an element of gpus. The first part is the contract, the rest gpuwhy's own.
type GPU struct {
	// Place by PCI address, for people; never given to another GPU while gpuwhy runs.
	ID            int         `json:"gpu_id"`
	Name          string      `json:"gpu_name"`       // product name
	UUID          string      `json:"gpu_uuid"`       // the GPU's key, the same after a restart
	DriverVersion *string     `json:"driver_version"` // version of the kernel driver that serves the GPU
	Utilization   Utilization `json:"utilization"`    // how busy its engines are
	Memory        Memory      `json:"memory"`         // its own memory
	Temperature   Temperature `json:"temperature"`    // how hot it is, and its limits
	Power         Power       `json:"power"`          // what it draws and may draw
	Clocks        Clocks      `json:"clocks"`         // frequencies
	// Processes with a context on it, busiest first; empty also where the driver can't say, with the
	// reason under quality.
	Processes        []Process `json:"processes"`
	PerformanceState *string   `json:"performance_state"` // "P0", the fastest, to "P15"
	// What the driver asks of the fastest fan, not what it turns; may pass 100.
	FanSpeedPercent Float `json:"fan_speed_percent" max:"none"`

	Node   string `json:"node"`                           // name of the machine that the GPU is in
	Source string `json:"source" enum:"source"`           // where its readings come from
	Vendor string `json:"vendor" enum:"nvidia,amd,intel"` // who made it
	// Bus address as the kernel writes it; empty where there is none.
	PCIBusID string `json:"pci_bus_id"`
	// The driver's own index, which may change when the machine restarts.
	VendorIndex Int    `json:"vendor_index"`
	State       string `json:"state" enum:"state"`             // whether it can be read
	StateSince  string `json:"state_since" format:"date-time"` // since when
	// Why it is not ok, and what to do; empty while all is well.
	StateReason string  `json:"state_reason"`
	SampledAt   *string `json:"sampled_at" format:"date-time"` // when the readings were taken; null where there are none

	Architecture *string `json:"architecture"`  // such as Hopper
	Serial       *string `json:"serial"`        // the board's serial number
	VBIOS        *string `json:"vbios_version"` // version of its firmware
	Encoder      Encoder `json:"encoder"`       // what its video encoder is asked to do
	// How much of the chip worked, and what went over its links. Null where none of it is
	// reported, with the reason under quality: NVIDIA has it from Hopper on, not in MIG mode.
	Activity *Activity `json:"activity"`
	Fans     []Fan     `json:"fans"`      // its fans, by fan index; empty for a passive GPU
	FanCount Int       `json:"fan_count"` // how many fans it has; 0 for a passive GPU
	// What holds the clocks down. Null where it is not reported; empty where nothing does.
	EventReasons []string    `json:"clock_event_reasons" null:"yes"`
	Throttled    *bool       `json:"throttled"`   // whether heat or power slows it down
	PCIe         PCIe        `json:"pcie"`        // its link to the host
	Health       Health      `json:"health"`      // what has gone wrong in it
	Modes        Modes       `json:"modes"`       // an administrator's switches
	Instances    []Instance  `json:"instances"`   // its MIG instances, which count in no total
	Attribution  Attribution `json:"attribution"` // whose its memory, work and watts are
	// For whom the machine's scheduler keeps it, used or not, in words; nobody where for none. Null where
	// there is no kubelet that tells.
	ReservedBy *string `json:"reserved_by"`
	// The same as a list. Null where it is not known; empty where it is kept for nobody.
	Reservations []Reservation `json:"reservations" null:"yes"`
	// Why a reading is null, or not to be trusted, by its path in this object; only the exceptions are
	// listed.
	Quality map[string]string `json:"quality" enum:"quality"`
}

// Utilization in percent of the last sample period.
type Utilization struct {
	GPU     Float `json:"gpu_percent"`     // time in which a kernel ran
	Memory  Float `json:"memory_percent"`  // time in which memory was read or written
	Encoder Float `json:"encoder_percent"` // of the video encoder
	Decoder Float `json:"decoder_percent"` // of the video decoder
	JPEG    Float `json:"jpeg_percent"`    // of the JPEG decoder
	OFA     Float `json:"ofa_percent"`     // of the optical flow engine
}

// Encoder is what the video encoder is asked to do, over all sessions on it; zeros while there is none.
type Encoder struct {
	Sessions  Int   `json:"session_count"`      // open now: recording, streaming, transcoding
	FrameRate Float `json:"average_fps"`        // pictures a second of a session, as a mean
	Latency   Float `json:"average_latency_us"` // microseconds until a picture is encoded, as a mean
}

// Activity is a mean of the time since the reading before, from counters of the hardware. Without those, traffic
// over PCIe may be there alone, see pcie_measured_at.
type Activity struct {
	Engine          Float `json:"engine_percent"`                   // of the time, a compute or graphics engine worked
	SM              Float `json:"sm_percent"`                       // of the multiprocessors had work, over the time
	Occupancy       Float `json:"sm_occupancy_percent"`             // of the warps that the multiprocessors can hold were there
	Tensor          Float `json:"tensor_percent"`                   // of the time, tensor cores worked
	FP64            Float `json:"fp64_percent"`                     // of the time, units for 64-bit floating point worked
	FP32            Float `json:"fp32_percent"`                     // of the time, units for 32-bit floating point worked
	FP16            Float `json:"fp16_percent"`                     // of the time, units for 16-bit floating point worked, tensor cores aside
	Integer         Float `json:"integer_percent"`                  // of the time, units for integers worked
	MemoryBandwidth Float `json:"memory_bandwidth_percent"`         // of the memory's bandwidth was in use
	PCIeSent        Float `json:"pcie_sent_bytes_per_second"`       // to the host
	PCIeReceived    Float `json:"pcie_received_bytes_per_second"`   // from the host
	NVLinkSent      Float `json:"nvlink_sent_bytes_per_second"`     // over all NVLinks
	NVLinkReceived  Float `json:"nvlink_received_bytes_per_second"` // over all NVLinks
	// When traffic over PCIe was measured, for 20 ms each direction, where no hardware counts it
	// (--pcie-throughput). Null where it is such a mean, or not there.
	PCIeMeasuredAt *string `json:"pcie_measured_at" format:"date-time"`
}

// Memory in MiB.
type Memory struct {
	Total       Float `json:"total_mb"`            // all of it
	Used        Float `json:"used_mb"`             // what programs hold, without what the driver reserves for itself
	Free        Float `json:"free_mb"`             // what is left
	Reserved    Float `json:"reserved_mb"`         // what the driver keeps for itself
	Utilization Float `json:"utilization_percent"` // used / total
	BAR1Total   Float `json:"bar1_total_mb"`       // window through which the host maps it
	BAR1Used    Float `json:"bar1_used_mb"`        // part of the window that is in use
}

// Temperature in degrees Celsius.
type Temperature struct {
	Current   Float `json:"current_celsius"`            // of the die
	HotSpot   Float `json:"hot_spot_celsius"`           // of the hottest spot of the die
	Memory    Float `json:"memory_celsius"`             // of the memory
	Slowdown  Float `json:"slowdown_threshold_celsius"` // where the hardware slows itself down
	Shutdown  Float `json:"shutdown_threshold_celsius"` // where it switches itself off
	Target    Float `json:"target_celsius"`             // what the driver steers towards
	MemoryMax Float `json:"memory_max_celsius"`         // where hot memory slows it down
	// Degrees left until the hardware slows itself down; may be negative.
	Margin Float `json:"margin_celsius"`
}

// Power in watts.
type Power struct {
	Draw         Float `json:"power_draw_watts"`               // drawn now, or over the last second, by product
	Limit        Float `json:"power_limit_watts"`              // the lowest of all limits in force
	DefaultLimit Float `json:"default_limit_watts"`            // limit that it starts with
	MinLimit     Float `json:"min_limit_watts"`                // lowest limit that can be set
	MaxLimit     Float `json:"max_limit_watts"`                // highest limit that can be set
	Usage        Float `json:"power_usage_percent" max:"none"` // draw / limit; may pass 100. Null where one of them is, or is doubtful
	Energy       Float `json:"total_energy_joules"`            // energy used since the driver was loaded
}

// Clocks in MHz.
type Clocks struct {
	Graphics    Float `json:"graphics_clock_mhz"`     // of the graphics engine
	SM          Float `json:"sm_clock_mhz"`           // of the multiprocessors
	Memory      Float `json:"memory_clock_mhz"`       // of the memory
	Video       Float `json:"video_clock_mhz"`        // of the video engines
	MaxGraphics Float `json:"max_graphics_clock_mhz"` // highest of the graphics engine
	MaxSM       Float `json:"max_sm_clock_mhz"`       // highest of the multiprocessors
	MaxMemory   Float `json:"max_memory_clock_mhz"`   // highest of the memory
	MaxVideo    Float `json:"max_video_clock_mhz"`    // highest of the video engines
}

// Fan is one fan of a device.
type Fan struct {
	Percent Float   `json:"percent" max:"none"`             // what the driver asks for; may pass 100
	RPM     Float   `json:"rpm"`                            // what the fan's tachometer says
	Target  Float   `json:"target_percent" max:"none"`      // what the driver steers towards; may pass 100
	Policy  *string `json:"policy" enum:"automatic,manual"` // who decides
}

// PCIe is the link to the host.
type PCIe struct {
	Generation    Int `json:"generation"`     // now; falls while the GPU is idle
	MaxGeneration Int `json:"max_generation"` // highest that GPU and host can do
	Width         Int `json:"width"`          // lanes now
	MaxWidth      Int `json:"max_width"`      // most lanes that GPU and host can do
	Replays       Int `json:"replay_count"`   // packets sent again since the driver was loaded
}

// Health is what has gone wrong in the device's memory; counts since the
// driver was loaded (volatile) and in the device's life (aggregate).
type Health struct {
	ECC                   *bool `json:"ecc_enabled"`                              // whether memory errors are corrected
	ECCPending            *bool `json:"ecc_pending"`                              // whether they will be after a restart
	CorrectedVolatile     Int   `json:"ecc_corrected_volatile" unit:"count"`      // corrected errors since the driver was loaded
	UncorrectedVolatile   Int   `json:"ecc_uncorrected_volatile" unit:"count"`    // uncorrected errors since the driver was loaded
	CorrectedAggregate    Int   `json:"ecc_corrected_aggregate" unit:"count"`     // corrected errors in the GPU's life
	UncorrectedAggregate  Int   `json:"ecc_uncorrected_aggregate" unit:"count"`   // uncorrected errors in the GPU's life
	RemappedCorrectable   Int   `json:"remapped_rows_correctable" unit:"count"`   // rows replaced because of corrected errors
	RemappedUncorrectable Int   `json:"remapped_rows_uncorrectable" unit:"count"` // rows replaced because of uncorrected errors
	RemapPending          *bool `json:"remapped_rows_pending"`                    // whether a row is replaced at the next restart
	RemapFailed           *bool `json:"remapped_rows_failed"`                     // whether a row could not be replaced
	RetiredSingleBit      Int   `json:"retired_pages_single_bit" unit:"count"`    // pages given up because of corrected errors
	RetiredDoubleBit      Int   `json:"retired_pages_double_bit" unit:"count"`    // pages given up because of uncorrected errors
	RetirementPending     *bool `json:"retired_pages_pending"`                    // whether a page is given up at the next restart
	// Errors that the driver reported, by code. Null where nobody listens; empty where there were none.
	XIDs []XID `json:"xids" null:"yes"`
}

// XID counts one kind of error that the driver reported.
type XID struct {
	Code  int    `json:"code" unit:"count"`       // the driver's number for the error, such as 79
	Count uint64 `json:"count"`                   // how often since gpuwhy began to listen
	Last  string `json:"last" format:"date-time"` // time of the newest
}

// Modes are an administrator's switches.
type Modes struct {
	Persistence   *bool   `json:"persistence"`                                                          // whether the driver stays loaded without programs
	Compute       *string `json:"compute" enum:"default,exclusive_thread,prohibited,exclusive_process"` // who may use it for compute
	MIG           *bool   `json:"mig"`                                                                  // whether it is divided into instances
	MIGPending    *bool   `json:"mig_pending"`                                                          // whether it will be after a restart
	DisplayActive *bool   `json:"display_active"`                                                       // whether a display server draws on it
}

// Process is one process with a context on the device.
type Process struct {
	PID        int    `json:"pid"`            // process id on its machine
	Name       string `json:"process_name"`   // name of the program; empty where the host can't see the process
	UsedMemory Float  `json:"used_memory_mb"` // GPU memory that it holds

	Type            string  `json:"type" enum:"compute,graphics,compute+graphics,mps,unknown"` // kind of context that it has on the GPU
	SM              Float   `json:"sm_percent"`                                                // share of the multiprocessors' time
	MemoryBandwidth Float   `json:"memory_percent"`                                            // share of the time in which it used the memory
	Encoder         Float   `json:"encoder_percent"`                                           // share of the video encoder's time
	Decoder         Float   `json:"decoder_percent"`                                           // share of the video decoder's time
	User            *string `json:"user"`                                                      // who runs it
	// Its command line; null where it is not permitted to be shown, or not known.
	Command   *string `json:"command"`
	StartedAt *string `json:"started_at" format:"date-time"` // when it was started
	CPU       Float   `json:"cpu_percent" max:"none"`        // of one core since the last reading; may pass 100
	RSS       Float   `json:"host_memory_mb"`                // resident memory on the host
	Power     Float   `json:"power_watts"`                   // estimated part of the power drawn; how it is split is in the GPU's attribution
	// Whether the system has such a process. False: what it holds is held by nobody. Null where that can't be told.
	Exists *bool `json:"exists"`
	// Container that it runs in. Null where that is not known; in none has an empty id.
	Container *Container `json:"container"`
	// Kubernetes pod. Null where that is not known; in none has an empty uid.
	Pod *Pod `json:"pod"`
	// Systemd unit. Null where that is not known; in none has an empty name.
	Unit *Unit `json:"unit"`
	// Slurm job. Null where that is not known; in none has the id 0.
	SlurmJob        *SlurmJob `json:"slurm_job"`
	GPUInstance     Int       `json:"gpu_instance_id"`     // MIG GPU instance. Null outside MIG mode
	ComputeInstance Int       `json:"compute_instance_id"` // MIG compute instance. Null outside MIG mode
	// Why a reading is null; left out where there is nothing to say.
	Quality map[string]string `json:"quality,omitempty" enum:"quality"`
}

// Instance is a MIG instance: nested under its device, never in totals.
type Instance struct {
	UUID            string `json:"uuid"`                 // the instance's key
	Name            string `json:"name"`                 // product and profile
	GPUInstance     Int    `json:"gpu_instance_id"`      // GPU instance
	ComputeInstance Int    `json:"compute_instance_id"`  // compute instance
	Memory          Memory `json:"memory"`               // its part of the memory
	Multiprocessors Int    `json:"multiprocessor_count"` // its multiprocessors
	MemorySlices    Int    `json:"memory_slice_count"`   // its slices of the GPU's memory
	ComputeSlices   Int    `json:"compute_slice_count"`  // its slices of the GPU's multiprocessors
	// Why a reading is null; left out where there is nothing to say.
	Quality map[string]string `json:"quality,omitempty" enum:"quality"`
}

func newGPU(d *gpu.Device, a *attribute.Attribution) GPU {
	q := qualities{}
	g := GPU{
		ID:               d.Index,
		Name:             d.Name,
		UUID:             d.UUID,
		DriverVersion:    pointer(note(q, "driver_version", d.DriverVersion)),
		Utilization:      newUtilization(d, q),
		Memory:           newMemory(d.Memory, q),
		Temperature:      newTemperature(d.Thermal, q),
		Power:            newPower(d.Power, q),
		Clocks:           newClocks(d.Clocks, q),
		Processes:        newProcesses(d.Processes, a.Shares, q),
		PerformanceState: pointer(gpu.Map(d.Clocks.PerformanceState, pState)),
		FanSpeedPercent:  float(note(q, "fan_speed_percent", d.Fans.Commanded())),
		Node:             d.Node,
		Source:           d.Source,
		Vendor:           string(d.Vendor),
		PCIBusID:         d.PCI,
		VendorIndex:      count(note(q, "vendor_index", d.VendorIndex)),
		State:            string(d.State),
		StateSince:       timestamp(d.Since),
		StateReason:      d.Reason.Text(),
		SampledAt:        optionalTime(d.SampledAt),
		Architecture:     pointer(note(q, "architecture", d.Architecture)),
		Serial:           pointer(note(q, "serial", d.Serial)),
		VBIOS:            pointer(note(q, "vbios_version", d.VBIOS)),
		Encoder:          newEncoder(d.Encoding, q),
		Activity:         newActivity(d.Activity, q),
		Fans:             newFans(d.Fans, q),
		FanCount:         count(note(q, "fan_count", d.Fans.Count)),
		EventReasons:     d.Clocks.EventReasons.Or(0).Names(),
		Throttled:        pointer(gpu.Map(d.Clocks.EventReasons, gpu.ClockEventReasons.Throttled)),
		PCIe:             newPCIe(d.PCIe, q),
		Health:           newHealth(d.Health, q),
		Modes:            newModes(d.Modes, q),
		Instances:        listOf(d.Instances, newInstance),
		Attribution:      newAttribution(d, a, q),
		ReservedBy:       pointer(note(q, "reserved_by", d.ReservedBy())),
		Reservations:     newReservations(note(q, "reservations", d.Reservations)),
		Quality:          q,
	}
	note(q, "performance_state", d.Clocks.PerformanceState)
	if !note(q, "clock_event_reasons", d.Clocks.EventReasons).Present() {
		g.EventReasons = nil
	}
	return g
}

func pState(p int) string { return "P" + strconv.Itoa(p) }

// qualities collects the exceptions: readings that are absent for a known
// reason, or doubtful.
type qualities map[string]string

func note[T any](q qualities, path string, r gpu.Reading[T]) gpu.Reading[T] {
	if k := r.Quality(); k != gpu.Good && k != gpu.NotReported {
		q[path] = k.String()
	}
	return r
}

func (q qualities) orNil() map[string]string {
	if len(q) == 0 {
		return nil
	}
	return q
}

func newUtilization(d *gpu.Device, q qualities) Utilization {
	u := d.Utilization
	return Utilization{
		GPU:     float(note(q, "utilization.gpu_percent", u.GPU)),
		Memory:  float(note(q, "utilization.memory_percent", u.Memory)),
		Encoder: float(note(q, "utilization.encoder_percent", u.Encoder)),
		Decoder: float(note(q, "utilization.decoder_percent", u.Decoder)),
		JPEG:    float(note(q, "utilization.jpeg_percent", u.JPEG)),
		OFA:     float(note(q, "utilization.ofa_percent", u.OFA)),
	}
}

func newEncoder(e gpu.Encoding, q qualities) Encoder {
	return Encoder{
		Sessions:  count(note(q, "encoder.session_count", e.Sessions)),
		FrameRate: float(note(q, "encoder.average_fps", e.FrameRate)),
		Latency:   float(note(q, "encoder.average_latency_us", e.Latency)),
	}
}

// newActivity is nil where there is no reading at all: most products have none,
// and the reason is said once then, not for each.
func newActivity(a gpu.Activity, q qualities) *Activity {
	if !a.Engine.Present() && a == gpu.AbsentActivity(a.Engine.Quality()) {
		note(q, "activity", a.Engine)
		return nil
	}
	return &Activity{
		Engine:          float(note(q, "activity.engine_percent", a.Engine)),
		SM:              float(note(q, "activity.sm_percent", a.SM)),
		Occupancy:       float(note(q, "activity.sm_occupancy_percent", a.Occupancy)),
		Tensor:          float(note(q, "activity.tensor_percent", a.Tensor)),
		FP64:            float(note(q, "activity.fp64_percent", a.FP64)),
		FP32:            float(note(q, "activity.fp32_percent", a.FP32)),
		FP16:            float(note(q, "activity.fp16_percent", a.FP16)),
		Integer:         float(note(q, "activity.integer_percent", a.Integer)),
		MemoryBandwidth: float(note(q, "activity.memory_bandwidth_percent", a.MemoryBandwidth)),
		PCIeSent:        float(note(q, "activity.pcie_sent_bytes_per_second", a.PCIeSent)),
		PCIeReceived:    float(note(q, "activity.pcie_received_bytes_per_second", a.PCIeReceived)),
		NVLinkSent:      float(note(q, "activity.nvlink_sent_bytes_per_second", a.NVLinkSent)),
		NVLinkReceived:  float(note(q, "activity.nvlink_received_bytes_per_second", a.NVLinkReceived)),
		PCIeMeasuredAt:  pointer(gpu.Map(note(q, "activity.pcie_measured_at", a.PCIeMeasuredAt), timestamp)),
	}
}

func newMemory(m gpu.Memory, q qualities) Memory {
	return Memory{
		Total:       mib(note(q, "memory.total_mb", m.Total)),
		Used:        mib(note(q, "memory.used_mb", m.Used)),
		Free:        mib(note(q, "memory.free_mb", m.Free)),
		Reserved:    mib(note(q, "memory.reserved_mb", m.Reserved)),
		Utilization: float(m.Utilization()),
		BAR1Total:   mib(note(q, "memory.bar1_total_mb", m.BAR1Total)),
		BAR1Used:    mib(note(q, "memory.bar1_used_mb", m.BAR1Used)),
	}
}

func newTemperature(t gpu.Thermal, q qualities) Temperature {
	return Temperature{
		Current:   float(note(q, "temperature.current_celsius", t.GPU)),
		HotSpot:   float(note(q, "temperature.hot_spot_celsius", t.HotSpot)),
		Memory:    float(note(q, "temperature.memory_celsius", t.Memory)),
		Slowdown:  float(note(q, "temperature.slowdown_threshold_celsius", t.Slowdown)),
		Shutdown:  float(note(q, "temperature.shutdown_threshold_celsius", t.Shutdown)),
		Target:    float(note(q, "temperature.target_celsius", t.Target)),
		MemoryMax: float(note(q, "temperature.memory_max_celsius", t.MemoryMax)),
		Margin:    float(note(q, "temperature.margin_celsius", t.Margin)),
	}
}

func newPower(p gpu.Power, q qualities) Power {
	out := Power{
		Draw:         float(note(q, "power.power_draw_watts", p.Draw)),
		Limit:        float(note(q, "power.power_limit_watts", p.EnforcedLimit)),
		DefaultLimit: float(note(q, "power.default_limit_watts", p.DefaultLimit)),
		MinLimit:     float(note(q, "power.min_limit_watts", p.MinLimit)),
		MaxLimit:     float(note(q, "power.max_limit_watts", p.MaxLimit)),
		Energy:       float(note(q, "power.total_energy_joules", p.Energy)),
	}
	draw, good := p.Draw.Trusted()
	if limit, ok := p.EnforcedLimit.Trusted(); good && ok && limit > 0 {
		out.Usage = Float{100 * float64(draw) / float64(limit), true}
	}
	return out
}

func newClocks(c gpu.Clocks, q qualities) Clocks {
	return Clocks{
		Graphics:    float(note(q, "clocks.graphics_clock_mhz", c.Graphics)),
		SM:          float(note(q, "clocks.sm_clock_mhz", c.SM)),
		Memory:      float(note(q, "clocks.memory_clock_mhz", c.Memory)),
		Video:       float(note(q, "clocks.video_clock_mhz", c.Video)),
		MaxGraphics: float(note(q, "clocks.max_graphics_clock_mhz", c.MaxGraphics)),
		MaxSM:       float(note(q, "clocks.max_sm_clock_mhz", c.MaxSM)),
		MaxMemory:   float(note(q, "clocks.max_memory_clock_mhz", c.MaxMemory)),
		MaxVideo:    float(note(q, "clocks.max_video_clock_mhz", c.MaxVideo)),
	}
}

func newFans(f gpu.Fans, q qualities) []Fan {
	out := make([]Fan, len(f.Fans))
	for i, fan := range f.Fans {
		at := "fans." + strconv.Itoa(i) + "."
		out[i] = Fan{
			Percent: float(note(q, at+"percent", fan.Commanded)),
			RPM:     float(note(q, at+"rpm", fan.RPM)),
			Target:  float(note(q, at+"target_percent", fan.Target)),
			Policy:  pointer(note(q, at+"policy", fan.Policy)),
		}
	}
	return out
}

func newPCIe(p gpu.PCIe, q qualities) PCIe {
	return PCIe{
		Generation:    count(note(q, "pcie.generation", p.Generation)),
		MaxGeneration: count(note(q, "pcie.max_generation", p.MaxGeneration)),
		Width:         count(note(q, "pcie.width", p.Width)),
		MaxWidth:      count(note(q, "pcie.max_width", p.MaxWidth)),
		Replays:       count(note(q, "pcie.replay_count", p.Replays)),
	}
}

func newHealth(h gpu.Health, q qualities) Health {
	return Health{
		ECC:                   pointer(note(q, "health.ecc_enabled", h.ECCMode)),
		ECCPending:            pointer(note(q, "health.ecc_pending", h.ECCModePending)),
		CorrectedVolatile:     count(note(q, "health.ecc_corrected_volatile", h.CorrectedVolatile)),
		UncorrectedVolatile:   count(note(q, "health.ecc_uncorrected_volatile", h.UncorrectedVolatile)),
		CorrectedAggregate:    count(note(q, "health.ecc_corrected_aggregate", h.CorrectedAggregate)),
		UncorrectedAggregate:  count(note(q, "health.ecc_uncorrected_aggregate", h.UncorrectedAggregate)),
		RemappedCorrectable:   count(note(q, "health.remapped_rows_correctable", h.RemappedCorrectable)),
		RemappedUncorrectable: count(note(q, "health.remapped_rows_uncorrectable", h.RemappedUncorrectable)),
		RemapPending:          pointer(note(q, "health.remapped_rows_pending", h.RemapPending)),
		RemapFailed:           pointer(note(q, "health.remapped_rows_failed", h.RemapFailed)),
		RetiredSingleBit:      count(note(q, "health.retired_pages_single_bit", h.RetiredSingleBit)),
		RetiredDoubleBit:      count(note(q, "health.retired_pages_double_bit", h.RetiredDoubleBit)),
		RetirementPending:     pointer(note(q, "health.retired_pages_pending", h.RetirementPending)),
		XIDs:                  newXIDs(note(q, "health.xids", h.XIDs)),
	}
}

func newXIDs(r gpu.Reading[[]gpu.XID]) []XID {
	list, ok := r.Get()
	if !ok {
		return nil
	}
	return listOf(list, func(x *gpu.XID) XID { return XID{x.Code, x.Count, timestamp(x.Last)} })
}

func newModes(m gpu.Modes, q qualities) Modes {
	return Modes{
		Persistence:   pointer(note(q, "modes.persistence", m.Persistence)),
		Compute:       pointer(note(q, "modes.compute", m.Compute)),
		MIG:           pointer(note(q, "modes.mig", m.MIG)),
		MIGPending:    pointer(note(q, "modes.mig_pending", m.MIGPending)),
		DisplayActive: pointer(note(q, "modes.display_active", m.DisplayActive)),
	}
}

// newProcesses gives an empty list where the driver can't say which processes
// there are, with the reason under "processes" in the qualities: clients of
// the contract walk the list.
func newProcesses(r gpu.Reading[[]gpu.Process], shares []attribute.Share, q qualities) []Process {
	list := note(q, "processes", r).Or(nil)
	if r.Quality() == gpu.NotReported {
		// An empty list has no null to say that it is no reading.
		q["processes"] = r.Quality().String()
	}
	out := make([]Process, len(list))
	for i := range list {
		out[i] = newProcess(&list[i], shares[i].Power)
	}
	return out
}

func newProcess(p *gpu.Process, power gpu.Reading[gpu.Watts]) Process {
	q := qualities{}
	f := &p.Facts
	return Process{
		PID:             p.PID,
		Name:            note(q, "process_name", f.Name).Or(""),
		UsedMemory:      mib(note(q, "used_memory_mb", p.Memory)),
		Type:            string(p.Type),
		SM:              float(note(q, "sm_percent", p.SM)),
		MemoryBandwidth: float(note(q, "memory_percent", p.MemoryBandwidth)),
		Encoder:         float(note(q, "encoder_percent", p.Encoder)),
		Decoder:         float(note(q, "decoder_percent", p.Decoder)),
		User:            pointer(note(q, "user", f.User)),
		Command:         pointer(note(q, "command", f.Command)),
		StartedAt:       pointer(gpu.Map(note(q, "started_at", f.Started), timestamp)),
		CPU:             float(note(q, "cpu_percent", f.CPU)),
		RSS:             mib(note(q, "host_memory_mb", f.RSS)),
		Power:           float(note(q, "power_watts", power)),
		Exists:          pointer(note(q, "exists", f.Exists)),
		Container:       newContainer(f.Container, q),
		Pod:             newPod(f.Pod, q),
		Unit:            newUnit(f.Unit, q),
		SlurmJob:        newSlurmJob(f.Job, q),
		GPUInstance:     count(p.GPUInstance),
		ComputeInstance: count(p.ComputeInstance),
		Quality:         q.orNil(),
	}
}

func newInstance(in *gpu.Instance) Instance {
	q := qualities{}
	return Instance{
		UUID:            in.UUID,
		Name:            in.Name,
		GPUInstance:     count(note(q, "gpu_instance_id", in.GPUInstance)),
		ComputeInstance: count(note(q, "compute_instance_id", in.ComputeInstance)),
		Memory:          newMemory(in.Memory, q),
		Multiprocessors: count(note(q, "multiprocessor_count", in.Multiprocessors)),
		MemorySlices:    count(note(q, "memory_slice_count", in.MemorySlices)),
		ComputeSlices:   count(note(q, "compute_slice_count", in.ComputeSliceCount)),
		Quality:         q.orNil(),
	}
}
