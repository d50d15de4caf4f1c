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

// LogLines are the lines of the kernel's log to look for when a device of that vendor is in
// trouble, as advice calls them.
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
// the driver reported ([Health].XIDs and Faults) stay known in the other states.
const (
	StateOK           State = "ok"
	StateNotAnswering State = "not_answering" // a driver call has not come back, or every call fails
	StateLost         State = "lost"          // the driver says that it is gone from the bus, or no longer lists it
	StateAsleep       State = "asleep"        // powered down by the system, and left asleep
)

// A Device is one GPU: who it is, whether it answers, and what it reports. Package
// catalog says of each reading which driver call has it.
type Device struct {
	Identity
	State State
	Since time.Time // when State began; for StateOK, when the device was first seen or came back
	// Reason says why State is not StateOK, and what to do. In StateOK it is set
	// while a source leaves the readings out, such as to let the device fall asleep,
	// while the device is slow ([ErrSlow]; SampledAt says how old its readings are), and while
	// its driver asks for something to be done about it ([ErrNeedsAction]).
	Reason    Advice
	SampledAt time.Time // when the reading of the values below began; zero where there are none
	// IdleFloor is the lowest steady draw without work. No source reports it:
	// gpuwhy learns it while it runs.
	IdleFloor Reading[Watts]
	// Reservations are for whom the machine's scheduler keeps the device, used or
	// not. NotReported where there is no scheduler or it has not answered,
	// NotPermitted where it may not be asked, NotSupported where its names do not
	// identify a device.
	Reservations Reading[[]Reservation]
	// Accounted are processes that ended since gpuwhy began to look, and that were in no list of Processes: they came and
	// went between two readings. Each is told for a minute after the driver told it; which can be minutes after it ended,
	// where there are many. NotSupported where accounting mode of NVIDIA's driver is off (only an administrator turns it on) or
	// it has none, NotPermitted where it may not be asked, NotReported until it has answered, and of other drivers.
	Accounted Reading[[]AccountedProcess]
	Readings
}

// Enter sets a state without readings. Since changes only with the state, and events stay
// known: one of them can be why a device is lost.
func (d *Device) Enter(state State, since time.Time, reason Advice) {
	if d.State == state {
		since = d.Since
	}
	xids, faults := d.Health.XIDs, d.Health.Faults
	*d = Device{Identity: d.Identity, State: state, Since: since, Reason: reason}
	d.Health.XIDs, d.Health.Faults = xids, faults
	d.Blame()
}

// Identity is what stays the same while a device is in the machine. What has a name
// in JSON is kept over a restart.
type Identity struct {
	// UUID is the device's key, such as "GPU-5c8f…". Where there is none, a source makes
	// one from the PCI address or, until the device answers, from the driver's index.
	UUID string `json:"uuid,omitzero"`
	Node string `json:"node"` // the name of the machine that the device is in
	// Index is the place by PCI address, never given to another device while gpuwhy
	// runs. The sampler gives it.
	Index       int          `json:"index"`
	VendorIndex Reading[int] `json:"-"` // the driver's own, which may change when the machine restarts
	Vendor      Vendor       `json:"vendor,omitzero"`
	Source      string       `json:"source"` // where the readings come from, such as SourceNVML
	// RecordedFrom is the source that read what a recording plays, where Source is
	// SourceRecorded; else empty.
	RecordedFrom  string          `json:"-"`
	Name          string          `json:"name,omitzero"`
	PCI           string          `json:"pci,omitzero"` // bus address as the kernel writes it, such as "0000:01:00.0"; empty: none
	Architecture  Reading[string] `json:"-"`            // such as "Hopper"
	Serial        Reading[string] `json:"-"`            // the board's
	VBIOS         Reading[string] `json:"-"`
	DriverVersion Reading[string] `json:"-"` // of the kernel driver
}

// Origin is the source that read the device, now or for a recording.
func (i *Identity) Origin() string { return cmp.Or(i.RecordedFrom, i.Source) }

// UUIDAt is the UUID of the device at a bus address until it reports its own.
func UUIDAt(pci string) string { return "PCI-" + pci }

// UUIDOfIndex is that of a device of which only the driver's index is known.
func UUIDOfIndex(source string, index int) string { return fmt.Sprintf("%s-index-%d", source, index) }

// OneDevice reports whether a UUID is that of one device wherever it is, and not made of its place in a machine.
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
	// Processes with a context on the device, busiest first; absent where the driver
	// can't say.
	Processes Reading[[]Process]
	// ProcessesPartial is whether others may use the device, too, who can't be seen:
	// then nothing follows from a process that is not in the list. Absent where there
	// is no list.
	ProcessesPartial Reading[bool]
	// Instances are the device's MIG instances or, of an AMD Instinct, its partitions;
	// see [Modes.Instances].
	Instances []Instance
}

// AllProcesses are the processes, if the list is whole: only then does anything follow from
// a process that is not in it.
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
	// Video is of engines that encode and decode, of which the driver does not say
	// which they do: AMD's from VCN 4 on, Intel's. NotSupported where Encoder and
	// Decoder are told apart.
	Video Reading[Percent]
}

// Encoding is the work of the video encoder: recording, streaming, transcoding.
// While there is no session, all are a reported 0. With MIG all are absent.
type Encoding struct {
	Sessions  Reading[int]             // open now
	FrameRate Reading[FramesPerSecond] // mean of the sessions, over a time that the driver chooses
	Latency   Reading[Microseconds]    // mean time to encode a picture
}

// Activity is how much of the chip worked, and the traffic over its links: means
// since the reading before, from hardware counters. NotSupported without such
// counters and in MIG mode; NotReported at a device's first reading.
type Activity struct {
	Engine    Reading[Percent] // of the time in which a compute or graphics engine worked
	SM        Reading[Percent] // of the SMs that had work, over the time
	Occupancy Reading[Percent] // of the warps that the SMs can hold, how many were there
	// Of the time in which the tensor cores or the units for other arithmetic worked.
	Tensor, FP64, FP32, FP16, Integer Reading[Percent]
	MemoryBandwidth                   Reading[Percent] // of the bandwidth of the device's memory
	PCIeSent, PCIeReceived            Reading[BytesPerSecond]
	NVLinkSent, NVLinkReceived        Reading[BytesPerSecond] // over all links
	// PCIeMeasuredAt is present where PCIeSent and PCIeReceived are not such means:
	// without counters a source can measure them, each for 20 ms, every ten seconds
	// at most, where the user asked for it. It is when the newest measurement began.
	PCIeMeasuredAt Reading[time.Time]
}

// AbsentActivity is an activity in which every reading is absent for one reason.
func AbsentActivity(q Quality) Activity { return absentActivities[q] }

var absentActivities = func() (all [Doubtful]Activity) {
	for q := range all {
		Withdraw(&all[q], Quality(q))
	}
	return all
}()

// PCIeMeasured reports whether the traffic over PCIe was measured, not counted.
func (a Activity) PCIeMeasured() bool { return a.PCIeMeasuredAt.Present() }

// Memory is the device's own. What the driver reserves for itself is not in Used.
type Memory struct {
	Total, Used, Free, Reserved Reading[Bytes]
	BAR1Total, BAR1Used         Reading[Bytes] // window through which the host maps device memory
}

// Utilization is used / total; absent where one of them is, or can't be right.
func (m Memory) Utilization() Reading[Percent] {
	used, ok := m.Used.Trusted()
	total, ok2 := m.Total.Trusted()
	if !ok || !ok2 || total == 0 || used > total {
		return Reading[Percent]{}
	}
	return Of(Percent(100 * float64(used) / float64(total)))
}

// Pool is the memory that programs on the device work in, with Total and Used alone: the device's
// own or, where it works in the machine's beside what the firmware sets apart for it, both
// together. It is absent as the device's own is, or as the machine's.
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

// SharedMemory is the machine's memory, as far as the device uses it. None of it is in
// [Memory], and it never counts in totals: it is the host's.
type SharedMemory struct {
	// Unified is whether the device works in the machine's memory and has none of its
	// own, but what the firmware may set apart for it: GB10, Jetson, processors with
	// a GPU. What processes hold and what the device draws may then be the
	// processor's, too. It takes more than memory that is not on offer, which
	// that of a card in MIG mode may be: NotReported where nothing tells.
	Unified Reading[bool]
	// Total is how much of it the device may use at most, Used how much it does now,
	// beside its own (AMD's GTT; of Intel's integrated GPUs what their clients hold).
	// NotSupported where the driver does not say.
	Total, Used Reading[Bytes]
}

// Thermal is how hot the device is, and the limits it knows of itself.
type Thermal struct {
	GPU     Reading[Celsius] // the die's own sensor
	HotSpot Reading[Celsius] // the hottest of the die's sensors, also called junction
	Memory  Reading[Celsius] // mostly of products with HBM
	// Slowdown is where the hardware slows itself down, Shutdown where it
	// switches off, Target what the driver steers towards, MemoryMax where
	// hot memory makes the hardware slow down.
	Slowdown, Shutdown, Target, MemoryMax Reading[Celsius]
	Margin                                Reading[Celsius] // left to the nearest slowdown limit; may be negative
}

// Fans are the device's own. A product that the chassis cools has none: Count is
// a reported 0, or not supported.
type Fans struct {
	Count Reading[int]
	Fans  []Fan // by fan index
	// Combined is whether the one fan stands for all that the device has: the driver
	// shows one speed. Count is then 1, however many there are.
	Combined Reading[bool]
}

// Commanded is the highest commanded speed of the fans; absent where no fan
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
	Commanded Reading[Percent] // what the driver asks for, of a noise limit; may pass 100, also of a blocked fan
	RPM       Reading[RPM]     // what the fan's tachometer counts
	Target    Reading[Percent] // what the driver steers towards
	Policy    Reading[string]  // who decides: "automatic" or "manual"
}

// Power is what the device draws and may draw; of a processor with a GPU mostly what the
// whole processor draws.
type Power struct {
	Draw               Reading[Watts] // now or over the last second, by product
	EnforcedLimit      Reading[Watts] // the lowest of all limits in force
	DefaultLimit       Reading[Watts]
	MinLimit, MaxLimit Reading[Watts]  // what a limit may be set to
	Energy             Reading[Joules] // since the driver was loaded
}

// Clocks are frequencies now and at most, and what holds them down.
type Clocks struct {
	Graphics, SM, Memory, Video             Reading[Megahertz]
	MaxGraphics, MaxSM, MaxMemory, MaxVideo Reading[Megahertz]
	PerformanceState                        Reading[int]               // 0 (fastest) to 15
	EventReasons                            Reading[ClockEventReasons] // an empty set is a reading too
}

// PCIe is the device's link to the host. A device that is part of a processor or of a system
// on a chip is in no slot: all of it is NotSupported then.
type PCIe struct {
	Generation, MaxGeneration Reading[int]
	Width, MaxWidth           Reading[int]    // lanes
	Replays                   Reading[uint64] // packets sent again since the driver was loaded
}

// NVLink is the device's links to other GPUs and to switches.
type NVLink struct {
	// Count is how many links the device has, used or not: a reported 0 where it has
	// none, NotSupported where the product or the source can't say.
	Count Reading[int]
	Links []Link
}

// A Link is one NVLink. Its errors are counted since the driver was loaded or the
// link was reset; they are read every ten seconds at most.
type Link struct {
	Index   int                     // the driver's number, from 0
	Active  Reading[bool]           // it is trained and carries data
	Version Reading[string]         // of the link's protocol, such as "4.0"
	Speed   Reading[BytesPerSecond] // in each direction; absent where the link is not active
	// Peer is what is at the other end: "GPU", "switch" or "processor"; PeerPCI its bus
	// address, such as "0000:4f:00.0". Absent where the link is not active.
	Peer, PeerPCI Reading[string]
	// CRCFlit and CRCData are received parts that were damaged, Replays parts sent
	// again, Recoveries how often the link had to be trained again. From NVLink 5 on
	// not supported.
	CRCFlit, CRCData, Replays, Recoveries Reading[uint64]
}

// Health is what has gone wrong in the device's memory, and in its driver.
type Health struct {
	ECCMode        Reading[bool]
	ECCModePending Reading[bool] // after the next restart
	// Memory errors since the driver was loaded (volatile), and in the device's life.
	CorrectedVolatile, UncorrectedVolatile   Reading[uint64]
	CorrectedAggregate, UncorrectedAggregate Reading[uint64]
	// Remapped rows: spares in use.
	RemappedCorrectable, RemappedUncorrectable Reading[uint64]
	RemapPending, RemapFailed                  Reading[bool]
	// Retired pages, on products without row remapping.
	RetiredSingleBit, RetiredDoubleBit Reading[uint64]
	RetirementPending                  Reading[bool]
	// XIDs are the error events of NVIDIA's driver, by code: since gpuwhy began to listen,
	// and before that as far back as the kernel's log goes. NotPermitted where neither the
	// driver nor the log tells of any, and the log may not be read; NotSupported of others' devices.
	XIDs Reading[[]XID]
	// Faults are what the drivers wrote into the kernel's log without a code, by kind, and of NVIDIA's devices
	// what the driver itself asks for ([FaultKind.Stands]). NotPermitted where the log may not be read,
	// NotSupported where there is none, and nothing else tells.
	Faults Reading[[]Fault]
}

// An XID counts the error events of one code of the driver's.
type XID struct {
	Code    int
	Count   uint64
	Earlier uint64    // of Count, how many were before gpuwhy began
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
	// Instances is how many MIG instances or partitions the device has: a reported 0
	// where it is not divided, or divided and nobody has made one. NotSupported where
	// the product can't be divided, NotPermitted where they may not be listed.
	Instances Reading[int]
	// Virtualization is the device's part in a virtual machine: "none", "passthrough"
	// (given to this machine whole), "vgpu" (a part of one, in this machine),
	// "host_vgpu" or "host_vsga" (this machine gives parts to others, which are not
	// read).
	Virtualization Reading[string]
	// ComputePartition and MemoryPartition are how an AMD Instinct is divided: "SPX"
	// (whole), "DPX", "TPX", "QPX", "CPX"; "NPS1" to "NPS8".
	ComputePartition, MemoryPartition Reading[string]
}

// An Instance is a MIG instance or a partition: a part of a device. It never counts in
// totals.
type Instance struct {
	UUID              string          // "MIG-…"
	Name              string          // such as "NVIDIA A100-SXM4-40GB MIG 1g.5gb"
	Profile           Reading[string] // how it was cut, such as "1g.5gb", or "CPX" of a partition
	GPUInstance       Reading[int]
	ComputeInstance   Reading[int]
	Memory            Memory
	Multiprocessors   Reading[int]
	MemorySlices      Reading[int]
	ComputeSliceCount Reading[int]
	// Processes is how many of the device's processes run in it; absent where it is not
	// known in which instance each runs.
	Processes Reading[int]
	// Means since the reading before, from hardware counters, of the GPU instance: its
	// compute instances share them. From Hopper on, see [Activity].
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
