package gpu

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Vendor is who made a device.
type Vendor string

// The vendors that gpuwhy can read.
const (
	NVIDIA Vendor = "nvidia"
	AMD    Vendor = "amd"
	Intel  Vendor = "intel"
)

// LogLines names, for advice, the lines to look for in the kernel log when one of the vendor's
// devices is in trouble.
func (v Vendor) LogLines() string {
	switch v {
	case NVIDIA:
		return "NVRM and Xid lines"
	case AMD:
		return "lines of amdgpu"
	case Intel:
		return "lines of i915 and xe"
	default:
		return "lines of its driver"
	}
}

// State is whether a device can be read.
type State string

// The states of a device. Only a device in StateOK has readings. The errors that
// the driver reported ([Health].XIDs and Faults) are kept in the other states.
const (
	StateOK           State = "ok"
	StateNotAnswering State = "not_answering" // a driver call has not returned, or every call fails
	StateLost         State = "lost"          // the driver says that it has left the bus, or no longer lists it
	StateAsleep       State = "asleep"        // powered down by the system, and left asleep
)

// A Device is one GPU: its identity, whether it answers, and what it reports. Package
// catalog lists which driver call each reading comes from.
type Device struct {
	Identity
	State State
	Since time.Time // when State began; for StateOK, when the device was first seen or came back
	// Reason says why State is not StateOK, and what to do. In StateOK it is set
	// while a source leaves out the readings, for example to let the device fall asleep,
	// while the device is slow ([ErrSlow]; SampledAt says how old its readings are), and while
	// its driver asks for an action, such as a reset ([ErrNeedsAction]).
	Reason    Advice
	SampledAt time.Time // when the reading of the values below began; zero if there are none
	// IdleFloor is the lowest steady draw without work. No source reports it:
	// gpuwhy learns it while it runs.
	IdleFloor Reading[Watts]
	// Reservations are the containers for which the machine's scheduler reserves the
	// device, used or not. NotReported without a scheduler or until it has answered,
	// NotPermitted if it may not be asked, NotSupported if its names do not identify
	// a device.
	Reservations Reading[[]Reservation]
	// Accounted lists processes that ended after gpuwhy started and were never in Processes: they came and went between two
	// readings. Each is listed for a minute after the driver reported it, which can be minutes after it ended if there are many.
	// NotSupported if the accounting mode of NVIDIA's driver is off (only an administrator can turn it on) or missing,
	// NotPermitted if it may not be asked, NotReported until it has answered, and for other drivers.
	Accounted Reading[[]AccountedProcess]
	Readings
}

// Enter sets a state without readings. Since changes only with the state. Events are kept,
// since one of them can be why a device is lost.
func (d *Device) Enter(state State, since time.Time, reason Advice) {
	if d.State == state {
		since = d.Since
	}
	xids, faults := d.Health.XIDs, d.Health.Faults
	*d = Device{Identity: d.Identity, State: state, Since: since, Reason: reason}
	d.Health.XIDs, d.Health.Faults = xids, faults
	d.Blame()
}

// Identity is the part of a device that does not change while it is in the machine. The
// fields with a JSON name are kept across a restart.
type Identity struct {
	// UUID is the device's key, such as "GPU-5c8f…". Without one, a source makes a key
	// from the PCI address or, until the device answers, from the driver's index.
	UUID string `json:"uuid,omitzero"`
	Node string `json:"node"` // the name of the machine that the device is in
	// Index is the position by PCI address. The sampler assigns it, and never gives it to
	// another device while gpuwhy runs.
	Index       int          `json:"index"`
	VendorIndex Reading[int] `json:"-"` // the driver's own, which may change when the machine restarts
	Vendor      Vendor       `json:"vendor,omitzero"`
	Source      string       `json:"source"` // where the readings come from, such as SourceNVML
	// RecordedFrom is the source that made the recorded reading, if Source is
	// SourceRecorded; otherwise empty.
	RecordedFrom  string          `json:"-"`
	Name          string          `json:"name,omitzero"`
	PCI           string          `json:"pci,omitzero"` // bus address as the kernel writes it, such as "0000:01:00.0"; empty: none
	Architecture  Reading[string] `json:"-"`            // such as "Hopper"
	Serial        Reading[string] `json:"-"`            // the board's
	VBIOS         Reading[string] `json:"-"`
	DriverVersion Reading[string] `json:"-"` // of the kernel driver
}

// Origin returns the source that read the device, now or for a recording.
func (i *Identity) Origin() string { return cmp.Or(i.RecordedFrom, i.Source) }

// UUIDAt returns the key of the device at a bus address, used until it reports its own UUID.
func UUIDAt(pci string) string { return "PCI-" + pci }

// UUIDOfIndex returns the key of a device if only the driver's index is known.
func UUIDOfIndex(source string, index int) string { return fmt.Sprintf("%s-index-%d", source, index) }

// OneDevice reports whether a UUID identifies one device wherever it is, and was not made from its place in a machine.
func OneDevice(uuid string) bool {
	return strings.HasPrefix(uuid, "GPU-") || strings.HasPrefix(uuid, "MIG-") || bareUUID(uuid)
}

// bareUUID reports whether a text is 32 hexadecimal digits in groups, as the GPUs of Orin and Thor have it.
func bareUUID(s string) bool {
	if len(s) != len("00000000-0000-0000-0000-000000000000") {
		return false
	}
	for i, c := range []byte(s) {
		switch group := i == 8 || i == 13 || i == 18 || i == 23; {
		case group && c != '-', !group && !strings.ContainsRune("0123456789abcdefABCDEF", rune(c)):
			return false
		}
	}
	return true
}

// Readings are what a device reports, group by group.
type Readings struct {
	Utilization Utilization
	Encoding    Encoding
	Activity    Activity
	Memory      Memory
	Shared      SharedMemory
	Thermal     Thermal
	Fans        Fans
	Power       Power
	Clocks      Clocks
	PCIe        PCIe
	NVLink      NVLink
	Health      Health
	Modes       Modes
	// Processes with a context on the device, busiest first; absent if the driver can't
	// list them.
	Processes Reading[[]Process]
	// ProcessesPartial is whether processes that gpuwhy can't see may also use the device;
	// then a process may use it without being in the list. Absent if there is no list.
	ProcessesPartial Reading[bool]
	// Instances are the device's MIG instances or, of an AMD Instinct, its partitions;
	// see [Modes.Instances].
	Instances []Instance
}

// AllProcesses returns the processes if the list is complete: only then is a process that is
// not in it certainly not on the device.
func (r *Readings) AllProcesses() (list []Process, ok bool) {
	list, ok = r.Processes.Get()
	return list, ok && !r.ProcessesPartial.Or(false)
}

// Utilization is the share of the last sample period (1/6 s to 1 s, by
// product) in which an engine had work. 100 % can be one small kernel.
type Utilization struct {
	GPU                    Reading[Percent] // any kernel ran
	Memory                 Reading[Percent] // memory was read or written
	Encoder, Decoder, JPEG Reading[Percent]
	OFA                    Reading[Percent] // optical flow
	// Video is for engines that both encode and decode, if the driver does not say
	// which of the two they do: AMD from VCN 4 on, and Intel. NotSupported if the
	// driver reports Encoder and Decoder separately.
	Video Reading[Percent]
}

// Encoding is the work of the video encoder: recording, streaming, transcoding.
// Without a session, all readings are a reported 0. With MIG, all are absent.
type Encoding struct {
	Sessions  Reading[int]             // open now
	FrameRate Reading[FramesPerSecond] // mean over the sessions and over a time that the driver chooses
	Latency   Reading[Microseconds]    // mean time to encode a picture
}

// Activity is how busy the parts of the chip were, and the traffic over its links:
// averages since the previous reading, from hardware counters. NotSupported without
// such counters and in MIG mode; NotReported at a device's first reading.
type Activity struct {
	Engine    Reading[Percent] // share of time in which a compute or graphics engine worked
	SM        Reading[Percent] // average share of SMs that had work
	Occupancy Reading[Percent] // average share of the warps that the SMs can hold
	// Share of time in which the tensor cores or the other arithmetic units worked.
	Tensor, FP64, FP32, FP16, Integer Reading[Percent]
	MemoryBandwidth                   Reading[Percent] // share of the memory bandwidth
	PCIeSent, PCIeReceived            Reading[BytesPerSecond]
	NVLinkSent, NVLinkReceived        Reading[BytesPerSecond] // over all links
	// PCIeMeasuredAt is present if PCIeSent and PCIeReceived are not such averages.
	// Without counters, a source can measure each of them for 20 ms, at most every ten
	// seconds, if the user asked for it. It is when the newest measurement began.
	PCIeMeasuredAt Reading[time.Time]
}

// AbsentActivity returns an activity in which every reading is absent for one reason.
func AbsentActivity(q Quality) Activity { return absentActivities[q] }

var absentActivities = func() (all [Doubtful]Activity) {
	for q := range all {
		Withdraw(&all[q], Quality(q))
	}
	return all
}()

// PCIeMeasured reports whether the traffic over PCIe was measured, not counted.
func (a Activity) PCIeMeasured() bool { return a.PCIeMeasuredAt.Present() }

// Memory is the device's own memory. Used leaves out what the driver reserves for itself.
type Memory struct {
	Total, Used, Free, Reserved Reading[Bytes]
	BAR1Total, BAR1Used         Reading[Bytes] // the window through which the host maps device memory
}

// Utilization returns used / total; absent if one of them is absent or can't be right.
func (m Memory) Utilization() Reading[Percent] {
	used, ok := m.Used.Trusted()
	total, ok2 := m.Total.Trusted()
	if !ok || !ok2 || total == 0 || used > total {
		return Reading[Percent]{}
	}
	return Of(Percent(100 * float64(used) / float64(total)))
}

// Pool returns the memory that programs on the device work in, with only Total and Used set: the
// device's own memory or, if the device works in the machine's memory and in what the firmware
// reserves for it, the sum of both. It is absent for the same reason as those readings.
func (r *Readings) Pool() Memory {
	pool := Memory{Total: r.Memory.Total, Used: r.Memory.Used}
	if r.Shared.Unified.Or(false) {
		pool.Total, pool.Used = together(pool.Total, r.Shared.Total), together(pool.Used, r.Shared.Used)
	}
	return pool
}

// together is the sum of two readings where both are there.
func together(a, b Reading[Bytes]) Reading[Bytes] {
	v, ok := a.Get()
	more, known := b.Get()
	switch {
	case !ok:
		return a
	case !known:
		return b
	case v+more < v:
		return Reading[Bytes]{}
	case a.Quality() == Doubtful || b.Quality() == Doubtful:
		return DoubtfulOf(v + more)
	default:
		return Of(v + more)
	}
}

// SharedMemory is the part of the machine's memory that the device uses. It is not included in
// [Memory] and never counts in totals, since it is the host's.
type SharedMemory struct {
	// Unified is whether the device works in the machine's memory and has none of its own,
	// except what the firmware may reserve for it: GB10, Jetson, processors with a GPU.
	// The memory of processes and the power draw may then include the processor's. That a
	// device reports no memory is not enough, since a card in MIG mode may not either:
	// NotReported if nothing else tells.
	Unified Reading[bool]
	// Total is the most that the device may use, Used what it uses now, in addition to its
	// own memory (AMD: GTT; Intel's integrated GPUs: what their clients hold).
	// NotSupported if the driver does not say.
	Total, Used Reading[Bytes]
}

// Thermal holds the device's temperatures and the temperature limits that it reports.
type Thermal struct {
	GPU     Reading[Celsius] // the die's own sensor
	HotSpot Reading[Celsius] // the hottest of the die's sensors, also called junction
	Memory  Reading[Celsius] // mostly reported by products with HBM
	// Slowdown is where the hardware slows itself down, Shutdown where it
	// switches off, Target what the driver aims for, MemoryMax the memory
	// temperature at which the hardware slows down.
	Slowdown, Shutdown, Target, MemoryMax Reading[Celsius]
	Margin                                Reading[Celsius] // degrees left to the nearest slowdown limit; may be negative
}

// Fans are the device's own fans. A product cooled by the chassis has none: Count is
// a reported 0, or NotSupported.
type Fans struct {
	Count Reading[int]
	Fans  []Fan // by fan index
	// Combined is whether the one fan represents all fans of the device, because the
	// driver reports one speed. Count is then 1, however many there are.
	Combined Reading[bool]
}

// Commanded returns the highest commanded speed of the fans; absent if no fan
// reports one.
func (f Fans) Commanded() Reading[Percent] {
	switch {
	case len(f.Fans) > 0:
		var highest Reading[Percent]
		for _, fan := range f.Fans {
			if v, ok := fan.Commanded.Get(); !highest.Present() || ok && v > highest.Or(0) {
				highest = fan.Commanded
			}
		}
		return highest
	case f.Count.Present():
		return Absent[Percent](NotSupported) // it has no fan
	default:
		return Absent[Percent](f.Count.Quality())
	}
}

// A Fan is one fan of a device.
type Fan struct {
	Commanded Reading[Percent] // what the driver commands, in percent of a noise limit; may exceed 100, and a blocked fan has it too
	RPM       Reading[RPM]     // what the fan's tachometer measures
	Target    Reading[Percent] // what the driver aims for
	Policy    Reading[string]  // who controls it: "automatic" or "manual"
}

// Power is what the device draws and may draw. For a processor with a GPU it is mostly the
// draw of the whole processor.
type Power struct {
	Draw               Reading[Watts] // now or over the last second, depending on the product
	EnforcedLimit      Reading[Watts] // the lowest of all limits in force
	DefaultLimit       Reading[Watts]
	MinLimit, MaxLimit Reading[Watts]  // the range for a limit
	Energy             Reading[Joules] // since the driver was loaded
}

// Clocks are the current and highest frequencies, and the reasons for them.
type Clocks struct {
	Graphics, SM, Memory, Video             Reading[Megahertz]
	MaxGraphics, MaxSM, MaxMemory, MaxVideo Reading[Megahertz]
	PerformanceState                        Reading[int]               // 0 (fastest) to 15
	EventReasons                            Reading[ClockEventReasons] // an empty set is a reading too
}

// PCIe is the device's link to the host. A device in a processor or in a system on a chip has
// no slot: all of its readings are NotSupported.
type PCIe struct {
	Generation, MaxGeneration Reading[int]
	Width, MaxWidth           Reading[int]    // lanes
	Replays                   Reading[uint64] // packets resent since the driver was loaded
}

// NVLink is the device's links to other GPUs and to switches.
type NVLink struct {
	// Count is how many links the device has, used or not: a reported 0 if it has
	// none, NotSupported if the product or the source can't say.
	Count Reading[int]
	Links []Link
}

// A Link is one NVLink. Its errors are counted since the driver was loaded or the
// link was reset; they are read at most every ten seconds.
type Link struct {
	Index   int                     // the driver's number, from 0
	Active  Reading[bool]           // trained, and carries data
	Version Reading[string]         // of the link's protocol, such as "4.0"
	Speed   Reading[BytesPerSecond] // in each direction; absent if the link is not active
	// Peer is what is at the other end: "GPU", "switch" or "processor"; PeerPCI its bus
	// address, such as "0000:4f:00.0". Absent if the link is not active.
	Peer, PeerPCI Reading[string]
	// CRCFlit and CRCData are received parts that were damaged, Replays parts sent
	// again, Recoveries how often the link had to be trained again. From NVLink 5 on
	// not supported.
	CRCFlit, CRCData, Replays, Recoveries Reading[uint64]
}

// Health holds errors of the device's memory and of its driver.
type Health struct {
	ECCMode        Reading[bool]
	ECCModePending Reading[bool] // after the next restart
	// Memory errors since the driver was loaded (volatile), and in the device's lifetime.
	CorrectedVolatile, UncorrectedVolatile   Reading[uint64]
	CorrectedAggregate, UncorrectedAggregate Reading[uint64]
	// Remapped rows: spares in use.
	RemappedCorrectable, RemappedUncorrectable Reading[uint64]
	RemapPending, RemapFailed                  Reading[bool]
	// Retired pages, on products without row remapping.
	RetiredSingleBit, RetiredDoubleBit Reading[uint64]
	RetirementPending                  Reading[bool]
	// XIDs are the error events of NVIDIA's driver, by code: those since gpuwhy started, and
	// earlier ones as far back as the kernel log goes. NotPermitted if the log may not be read
	// and the driver reported none; NotSupported for other vendors.
	XIDs Reading[[]XID]
	// Faults are errors without a code that drivers wrote to the kernel log, by kind, and for NVIDIA's devices
	// also actions that the driver asks for ([FaultKind.Stands]). If nothing reports any: NotPermitted if the
	// log may not be read, NotSupported if there is none.
	Faults Reading[[]Fault]
}

// An XID counts the driver's error events with one code.
type XID struct {
	Code    int
	Count   uint64
	Earlier uint64    // how many of Count happened before gpuwhy started
	Last    time.Time // of the newest
	Culprit Culprit   // of the newest
}

// Modes are switches that an administrator can set.
type Modes struct {
	Persistence   Reading[bool]   // the driver stays loaded without clients
	Compute       Reading[string] // "default", "exclusive_thread", "exclusive_process" or "prohibited"
	MIG           Reading[bool]
	MIGPending    Reading[bool] // after the next reset
	DisplayActive Reading[bool] // a display server draws on it
	// Instances is how many MIG instances or partitions the device has: a reported 0 if
	// it is not divided, or if nobody has created one. NotSupported if the product
	// can't be divided, NotPermitted if they may not be listed.
	Instances Reading[int]
	// Virtualization is the device's role in virtualization: "none", "passthrough" (this
	// virtual machine has the whole device), "vgpu" (it has a part of one), "host_vgpu" or
	// "host_vsga" (this machine gives parts to virtual machines; gpuwhy does not read those).
	Virtualization Reading[string]
	// ComputePartition and MemoryPartition are how an AMD Instinct is divided: "SPX"
	// (whole), "DPX", "TPX", "QPX", "CPX"; "NPS1" to "NPS8".
	ComputePartition, MemoryPartition Reading[string]
}

// An Instance is a part of a device: a MIG instance or a partition. It never counts in
// totals.
type Instance struct {
	UUID              string          // "MIG-…"
	Name              string          // such as "NVIDIA A100-SXM4-40GB MIG 1g.5gb"
	Profile           Reading[string] // its size, such as "1g.5gb", or "CPX" for a partition
	GPUInstance       Reading[int]
	ComputeInstance   Reading[int]
	Memory            Memory
	Multiprocessors   Reading[int]
	MemorySlices      Reading[int]
	ComputeSliceCount Reading[int]
	// Processes is how many of the device's processes run in it; absent if gpuwhy does not
	// know which instance each runs in.
	Processes Reading[int]
	// Averages since the previous reading, from the GPU instance's hardware counters, which
	// its compute instances share. Hopper and newer; see [Activity].
	Engine, SM, Tensor, MemoryBandwidth Reading[Percent]
}

// CountProcesses sets how many processes each instance has, by the instances that the
// processes name.
func (r *Readings) CountProcesses() {
	list, listed := r.Processes.Get()
	named := slices.ContainsFunc(list, func(p Process) bool { return p.GPUInstance.Present() })
	for i := range r.Instances {
		in := &r.Instances[i]
		switch {
		case !listed:
			in.Processes = Absent[int](r.Processes.Quality())
		case len(list) > 0 && !named || r.ProcessesPartial.Or(false):
			in.Processes = Absent[int](NotReported)
		default:
			pids := map[int]bool{}
			for _, p := range list {
				if p.in(in) {
					pids[p.PID] = true
				}
			}
			in.Processes = Of(len(pids))
		}
	}
}

// in reports whether a process runs in an instance. Of one without a compute instance only
// the GPU instance is known.
func (p *Process) in(in *Instance) bool {
	return p.GPUInstance.Present() && p.GPUInstance == in.GPUInstance &&
		(!p.ComputeInstance.Present() || !in.ComputeInstance.Present() || p.ComputeInstance == in.ComputeInstance)
}
