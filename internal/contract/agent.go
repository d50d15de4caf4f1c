package contract

import (
	"strconv"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// GPUInfo answers GET /gpu/info.
type GPUInfo struct {
	Available bool `json:"available"`
	GPUCount  int  `json:"gpu_count"`
	// PynvmlInstalled means: NVIDIA's management library could be loaded.
	PynvmlInstalled bool `json:"pynvml_installed"`
}

// NewGPUInfo makes it; s may be nil.
func NewGPUInfo(s *gpu.Snapshot) GPUInfo {
	if s == nil {
		return GPUInfo{}
	}
	info := GPUInfo{Available: len(s.Devices) > 0, GPUCount: len(s.Devices)}
	for _, d := range s.Drivers {
		info.PynvmlInstalled = info.PynvmlInstalled || d.Source == gpu.SourceNVML
	}
	return info
}

// GPUMetrics answers GET /gpu/metrics.
type GPUMetrics struct {
	Timestamp  string `json:"timestamp"`
	InstanceID string `json:"instance_id"` // the node's name
	Source     string `json:"source"`
	Totals
	GPUs []GPU `json:"gpus"`
}

// NewGPUMetrics makes it.
func NewGPUMetrics(s *gpu.Snapshot) GPUMetrics {
	return GPUMetrics{
		Timestamp:  timestamp(s.Time),
		InstanceID: s.Node,
		Source:     s.Source,
		Totals:     newTotals(s),
		GPUs:       NewGPUs(s),
	}
}

// OneGPU answers GET /gpu/metrics/{id}: an element of gpus, with the time of
// its snapshot.
type OneGPU struct {
	Timestamp string `json:"timestamp"`
	GPU
}

// NewOneGPU makes it for a device of s.
func NewOneGPU(s *gpu.Snapshot, d *gpu.Device) OneGPU {
	return OneGPU{Timestamp: timestamp(s.Time), GPU: NewGPU(d)}
}

// Totals are sums and averages over the devices that answer. GPUCount counts
// the others too.
type Totals struct {
	GPUCount            int   `json:"gpu_count"`
	AnsweringGPUCount   int   `json:"answering_gpu_count"`
	BusyGPUCount        int   `json:"busy_gpu_count"` // GPU utilization of 5 % or more
	ProcessCount        int   `json:"process_count"`
	TotalMemoryUsedMB   Float `json:"total_memory_used_mb"`
	TotalMemoryTotalMB  Float `json:"total_memory_total_mb"`
	AverageUtilization  Float `json:"average_gpu_utilization"`
	AverageMemory       Float `json:"average_memory_utilization"` // used / total
	AverageTemperature  Float `json:"average_temperature"`
	MaxTemperature      Float `json:"max_temperature"`
	TotalPowerDrawWatts Float `json:"total_power_draw_watts"`
}

func newTotals(s *gpu.Snapshot) Totals {
	t := s.Totals()
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
	ID            int         `json:"gpu_id"` // place by PCI address, for people
	Name          string      `json:"gpu_name"`
	UUID          string      `json:"gpu_uuid"`
	DriverVersion *string     `json:"driver_version"`
	Utilization   Utilization `json:"utilization"`
	Memory        Memory      `json:"memory"`
	Temperature   Temperature `json:"temperature"`
	Power         Power       `json:"power"`
	Clocks        Clocks      `json:"clocks"`
	Processes     []Process   `json:"processes"`
	// PerformanceState is "P0" (fastest) to "P15".
	PerformanceState *string `json:"performance_state"`
	// FanSpeedPercent is what the driver asks of the fastest fan, not what
	// it turns; it may pass 100.
	FanSpeedPercent Float `json:"fan_speed_percent"`

	Node        string  `json:"node"`
	Source      string  `json:"source"`
	Vendor      string  `json:"vendor"`
	PCIBusID    string  `json:"pci_bus_id"`
	VendorIndex Int     `json:"vendor_index"`
	State       string  `json:"state"` // ok, not_answering, lost, asleep
	StateSince  string  `json:"state_since"`
	StateReason string  `json:"state_reason"` // empty while all is well
	SampledAt   *string `json:"sampled_at"`

	Architecture *string    `json:"architecture"`
	Serial       *string    `json:"serial"`
	VBIOS        *string    `json:"vbios_version"`
	Fans         []Fan      `json:"fans"`
	FanCount     Int        `json:"fan_count"`
	EventReasons []string   `json:"clock_event_reasons"` // null: not reported; empty: nothing holds the clocks
	Throttled    *bool      `json:"throttled"`
	PCIe         PCIe       `json:"pcie"`
	Health       Health     `json:"health"`
	Modes        Modes      `json:"modes"`
	Instances    []Instance `json:"instances"`
	// Quality says why a reading is null, or not to be trusted, by its path
	// in this object; only the exceptions are listed.
	Quality map[string]string `json:"quality"`
}

// Utilization in percent of the last sample period.
type Utilization struct {
	GPU     Float `json:"gpu_percent"`
	Memory  Float `json:"memory_percent"`
	Encoder Float `json:"encoder_percent"`
	Decoder Float `json:"decoder_percent"`
	JPEG    Float `json:"jpeg_percent"`
	OFA     Float `json:"ofa_percent"`
}

// Memory in MiB.
type Memory struct {
	Total       Float `json:"total_mb"`
	Used        Float `json:"used_mb"`
	Free        Float `json:"free_mb"`
	Reserved    Float `json:"reserved_mb"`
	Utilization Float `json:"utilization_percent"` // used / total
	BAR1Total   Float `json:"bar1_total_mb"`
	BAR1Used    Float `json:"bar1_used_mb"`
}

// Temperature in degrees Celsius.
type Temperature struct {
	Current   Float `json:"current_celsius"`
	Memory    Float `json:"memory_celsius"`
	Slowdown  Float `json:"slowdown_threshold_celsius"`
	Shutdown  Float `json:"shutdown_threshold_celsius"`
	Target    Float `json:"target_celsius"`
	MemoryMax Float `json:"memory_max_celsius"`
	Margin    Float `json:"margin_celsius"` // left until the hardware slows itself down
}

// Power in watts.
type Power struct {
	Draw         Float `json:"power_draw_watts"`
	Limit        Float `json:"power_limit_watts"` // enforced
	DefaultLimit Float `json:"default_limit_watts"`
	MinLimit     Float `json:"min_limit_watts"`
	MaxLimit     Float `json:"max_limit_watts"`
	Usage        Float `json:"power_usage_percent"` // draw / limit
	Energy       Float `json:"total_energy_joules"`
}

// Clocks in MHz.
type Clocks struct {
	Graphics    Float `json:"graphics_clock_mhz"`
	SM          Float `json:"sm_clock_mhz"`
	Memory      Float `json:"memory_clock_mhz"`
	Video       Float `json:"video_clock_mhz"`
	MaxGraphics Float `json:"max_graphics_clock_mhz"`
	MaxSM       Float `json:"max_sm_clock_mhz"`
	MaxMemory   Float `json:"max_memory_clock_mhz"`
	MaxVideo    Float `json:"max_video_clock_mhz"`
}

// Fan is one fan of a device.
type Fan struct {
	Percent Float   `json:"percent"` // commanded
	RPM     Float   `json:"rpm"`     // measured
	Target  Float   `json:"target_percent"`
	Policy  *string `json:"policy"` // automatic, manual
}

// PCIe is the link to the host.
type PCIe struct {
	Generation    Int `json:"generation"`
	MaxGeneration Int `json:"max_generation"`
	Width         Int `json:"width"`
	MaxWidth      Int `json:"max_width"`
	Replays       Int `json:"replay_count"`
}

// Health is what has gone wrong in the device's memory; counts since the
// driver was loaded (volatile) and in the device's life (aggregate).
type Health struct {
	ECC                   *bool `json:"ecc_enabled"`
	ECCPending            *bool `json:"ecc_pending"`
	CorrectedVolatile     Int   `json:"ecc_corrected_volatile"`
	UncorrectedVolatile   Int   `json:"ecc_uncorrected_volatile"`
	CorrectedAggregate    Int   `json:"ecc_corrected_aggregate"`
	UncorrectedAggregate  Int   `json:"ecc_uncorrected_aggregate"`
	RemappedCorrectable   Int   `json:"remapped_rows_correctable"`
	RemappedUncorrectable Int   `json:"remapped_rows_uncorrectable"`
	RemapPending          *bool `json:"remapped_rows_pending"`
	RemapFailed           *bool `json:"remapped_rows_failed"`
	RetiredSingleBit      Int   `json:"retired_pages_single_bit"`
	RetiredDoubleBit      Int   `json:"retired_pages_double_bit"`
	RetirementPending     *bool `json:"retired_pages_pending"`
	XIDs                  []XID `json:"xids"` // null: nobody listens; empty: there were none
}

// XID counts one kind of error that the driver reported.
type XID struct {
	Code  int    `json:"code"`
	Count uint64 `json:"count"` // since gpuwhy began to listen
	Last  string `json:"last"`  // time of the newest
}

// Modes are an administrator's switches.
type Modes struct {
	Persistence   *bool   `json:"persistence"`
	Compute       *string `json:"compute"`
	MIG           *bool   `json:"mig"`
	MIGPending    *bool   `json:"mig_pending"`
	DisplayActive *bool   `json:"display_active"`
}

// Process is one process with a context on the device.
type Process struct {
	PID        int    `json:"pid"`
	Name       string `json:"process_name"` // empty where the host can't see the process
	UsedMemory Float  `json:"used_memory_mb"`

	Type            string  `json:"type"`
	SM              Float   `json:"sm_percent"`
	MemoryBandwidth Float   `json:"memory_percent"`
	Encoder         Float   `json:"encoder_percent"`
	Decoder         Float   `json:"decoder_percent"`
	User            *string `json:"user"`
	Command         *string `json:"command"`
	StartedAt       *string `json:"started_at"`
	CPU             Float   `json:"cpu_percent"` // of one core
	RSS             Float   `json:"host_memory_mb"`
	GPUInstance     Int     `json:"gpu_instance_id"`
	ComputeInstance Int     `json:"compute_instance_id"`
	// Quality says why a reading is null; left out where there is nothing
	// to say.
	Quality map[string]string `json:"quality,omitempty"`
}

// Instance is a MIG instance: nested under its device, never in totals.
type Instance struct {
	UUID            string `json:"uuid"`
	Name            string `json:"name"`
	GPUInstance     Int    `json:"gpu_instance_id"`
	ComputeInstance Int    `json:"compute_instance_id"`
	Memory          Memory `json:"memory"`
	Multiprocessors Int    `json:"multiprocessor_count"`
	MemorySlices    Int    `json:"memory_slice_count"`
	ComputeSlices   Int    `json:"compute_slice_count"`
	// Quality says why a reading is null; left out where there is nothing
	// to say.
	Quality map[string]string `json:"quality,omitempty"`
}

// NewGPUs makes the gpus list; never nil.
func NewGPUs(s *gpu.Snapshot) []GPU {
	out := make([]GPU, len(s.Devices))
	for i := range s.Devices {
		out[i] = NewGPU(&s.Devices[i])
	}
	return out
}

// NewGPU makes one element of it.
func NewGPU(d *gpu.Device) GPU {
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
		Processes:        newProcesses(d.Processes, q),
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
		Fans:             newFans(d.Fans, q),
		FanCount:         count(note(q, "fan_count", d.Fans.Count)),
		EventReasons:     d.Clocks.EventReasons.Or(0).Names(),
		Throttled:        pointer(gpu.Map(d.Clocks.EventReasons, gpu.ClockEventReasons.Throttled)),
		PCIe:             newPCIe(d.PCIe, q),
		Health:           newHealth(d.Health, q),
		Modes:            newModes(d.Modes, q),
		Instances:        newInstances(d.Instances),
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
	if out.Draw.ok && out.Limit.ok && out.Limit.value > 0 {
		out.Usage = Float{100 * out.Draw.value / out.Limit.value, true}
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
	out := make([]XID, len(list))
	for i, x := range list {
		out[i] = XID{x.Code, x.Count, timestamp(x.Last)}
	}
	return out
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
func newProcesses(r gpu.Reading[[]gpu.Process], q qualities) []Process {
	list := note(q, "processes", r).Or(nil)
	if r.Quality() == gpu.NotReported {
		// An empty list has no null to say that it is no reading.
		q["processes"] = r.Quality().String()
	}
	out := make([]Process, len(list))
	for i := range list {
		out[i] = newProcess(&list[i])
	}
	return out
}

func newProcess(p *gpu.Process) Process {
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
		GPUInstance:     count(p.GPUInstance),
		ComputeInstance: count(p.ComputeInstance),
		Quality:         q.orNil(),
	}
}

func newInstances(list []gpu.Instance) []Instance {
	out := make([]Instance, len(list))
	for i, in := range list {
		q := qualities{}
		out[i] = Instance{
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
	return out
}
