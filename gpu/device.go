package gpu

import (
	"fmt"
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

// State is whether a device can be read.
type State string

// The states of a device. Only a device in StateOK has readings. The errors that
// the driver reported ([Health].XIDs) stay known in the other states.
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
	// while a source leaves the readings out, such as to let the device fall asleep.
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
	Readings
}

// Enter sets a state without readings. Since changes only with the state, and events stay
// known: one of them can be why a device is lost.
func (d *Device) Enter(state State, since time.Time, reason Advice) {
	if d.State == state {
		since = d.Since
	}
	xids := d.Health.XIDs
	if state == StateLost {
		reason = reasonOf(xids.Or(nil), since, reason)
	}
	*d = Device{Identity: d.Identity, State: state, Since: since, Reason: reason}
	d.Health.XIDs = xids
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
	Index         int             `json:"index"`
	VendorIndex   Reading[int]    `json:"-"` // the driver's own, which may change when the machine restarts
	Vendor        Vendor          `json:"vendor,omitzero"`
	Source        string          `json:"source"` // where the readings come from, such as SourceNVML
	Name          string          `json:"name,omitzero"`
	PCI           string          `json:"pci,omitzero"` // bus address as the kernel writes it, such as "0000:01:00.0"; empty: none
	Architecture  Reading[string] `json:"-"`            // such as "Hopper"
	Serial        Reading[string] `json:"-"`            // the board's
	VBIOS         Reading[string] `json:"-"`
	DriverVersion Reading[string] `json:"-"` // of the kernel driver
}

// UUIDAt is the UUID of the device at a bus address until it reports its own.
func UUIDAt(pci string) string { return "PCI-" + pci }

// UUIDOfIndex is that of a device of which only the driver's index is known.
func UUIDOfIndex(source string, index int) string { return fmt.Sprintf("%s-index-%d", source, index) }

// Readings are what a device reports, group by group.
type Readings struct {
	Utilization Utilization
	Encoding    Encoding
	Activity    Activity
	Memory      Memory
	Thermal     Thermal
	Fans        Fans
	Power       Power
	Clocks      Clocks
	PCIe        PCIe
	Health      Health
	Modes       Modes
	// Processes with a context on the device, busiest first; absent where the driver
	// can't say.
	Processes Reading[[]Process]
	// Instances are the device's MIG instances; empty unless MIG mode is on.
	Instances []Instance
}

// Utilization is the share of the last sample period (1/6 s to 1 s, by
// product) in which an engine had work. 100 % can be one small kernel.
type Utilization struct {
	GPU                    Reading[Percent] // any kernel ran
	Memory                 Reading[Percent] // memory was read or written
	Encoder, Decoder, JPEG Reading[Percent]
	OFA                    Reading[Percent] // optical flow
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

// Power is what the device draws and may draw.
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

// PCIe is the device's link to the host.
type PCIe struct {
	Generation, MaxGeneration Reading[int]
	Width, MaxWidth           Reading[int]    // lanes
	Replays                   Reading[uint64] // packets sent again since the driver was loaded
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
	// XIDs are the driver's error events since gpuwhy began to listen, by code.
	XIDs Reading[[]XID]
}

// An XID counts the error events of one code of the driver's.
type XID struct {
	Code  int
	Count uint64
	Last  time.Time // of the newest
}

// Modes are switches that an administrator can set.
type Modes struct {
	Persistence   Reading[bool]   // the driver stays loaded without clients
	Compute       Reading[string] // "default", "exclusive_thread", "exclusive_process" or "prohibited"
	MIG           Reading[bool]
	MIGPending    Reading[bool] // after the next reset
	DisplayActive Reading[bool] // a display server draws on it
}

// An Instance is a MIG instance: a part of a device. It never counts in totals.
type Instance struct {
	UUID              string // "MIG-…"
	Name              string // such as "NVIDIA A100-SXM4-40GB MIG 1g.5gb"
	GPUInstance       Reading[int]
	ComputeInstance   Reading[int]
	Memory            Memory
	Multiprocessors   Reading[int]
	MemorySlices      Reading[int]
	ComputeSliceCount Reading[int]
}
