package plausible

import (
	"slices"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// Values that no device has, whatever its limits. Silicon does not work above about 150 °C, and no card's sensor is made for less than -60
// °C. One package draws 1 to 2 kW today. Server fans reach 30,000 RPM.
const (
	coldest, hottest                  = -60, 150
	coldestLimit, hottestLimit        = 20, 200 // for limits: there are none for cold
	mostWatts                         = 10_000
	mostJoules                        = 1e15
	mostMegahertz                     = 10_000
	mostMemoryMegahertz               = 40_000 // drivers may report the effective rate of the memory
	mostRPM                           = 30_000
	mostFan                           = 300 // percent of the noise limit
	mostMemory                        = 1 << 50
	mostGeneration, mostLanes         = 9, 32
	mostState                         = 15
	mostSessions                      = 10_000
	mostFrames                        = 1e6
	mostLatency                       = 6e7 // µs
	mostBytesPerSecond                = 1e14
	mostLinks, mostFans               = 256, 64
	mostErrors                 uint64 = 1 << 60
)

// Values that a card may have, as far as is known, but hardly ever does.
const (
	cold         = -20    // °C
	pastShutdown = 10     // °C above the temperature at which it would switch itself off
	fastFan      = 12_000 // RPM, for a card's own fan
	loudFan      = 150    // percent
	fastClock    = 2      // times the highest
)

// bounds judges each reading by itself, and readings with a limit by their limit.
func bounds(d *gpu.Device) {
	t := &d.Thermal
	for _, r := range []*gpu.Reading[gpu.Celsius]{&t.GPU, &t.HotSpot, &t.Memory} {
		within(r, coldest, hottest)
	}
	for _, r := range []*gpu.Reading[gpu.Celsius]{&t.Slowdown, &t.Shutdown, &t.Target, &t.MemoryMax} {
		within(r, coldestLimit, hottestLimit)
	}
	within(&t.Margin, coldest-hottestLimit, hottestLimit-coldest)
	p := &d.Power
	for _, r := range []*gpu.Reading[gpu.Watts]{&p.Draw, &p.EnforcedLimit, &p.DefaultLimit, &p.MinLimit, &p.MaxLimit} {
		within(r, 0, mostWatts)
	}
	within(&p.Energy, 0, mostJoules)
	if allOnes(float64(p.Energy.Or(0))*1000) || allOnes(float64(p.Energy.Or(0))*1e6) {
		impossible(&p.Energy)
	}
	c := &d.Clocks
	for _, r := range []*gpu.Reading[gpu.Megahertz]{&c.Graphics, &c.SM, &c.Video, &c.MaxGraphics, &c.MaxSM, &c.MaxVideo} {
		within(r, 0, mostMegahertz)
	}
	within(&c.Memory, 0, mostMemoryMegahertz)
	within(&c.MaxMemory, 0, mostMemoryMegahertz)
	within(&c.PerformanceState, 0, mostState)
	times(&c.Graphics, c.MaxGraphics, fastClock)
	times(&c.SM, c.MaxSM, fastClock)
	times(&c.Memory, c.MaxMemory, fastClock)
	times(&c.Video, c.MaxVideo, fastClock)
	for _, r := range []*gpu.Reading[gpu.Celsius]{&t.GPU, &t.HotSpot, &t.Memory} {
		if v := trusted(*r); v < cold {
			doubt(r)
		}
	}
	if v, off := trusted(t.GPU), trusted(t.Shutdown); v > off+pastShutdown {
		doubt(&t.GPU)
	}
	for _, r := range shares(d) {
		within(r, 0, 100)
	}
	memoryBounds(&d.Memory)
	within(&d.Shared.Total, 0, mostMemory)
	within(&d.Shared.Used, 0, mostMemory)
	times(&d.Shared.Used, d.Shared.Total, 1)
	counterBounds(d)
	for i := range d.Fans.Fans {
		fanBounds(&d.Fans.Fans[i])
	}
	d.Processes = bounded(d.Processes)
}

// within removes a value outside two bounds, or one that is not a number.
func within[T ~float64 | ~int | ~uint64](r *gpu.Reading[T], least, most float64) {
	if v, ok := r.Get(); ok && !(float64(v) >= least && float64(v) <= most) {
		impossible(r)
	}
}

// times doubts a value above n times its highest.
func times[T ~float64 | ~uint64](r *gpu.Reading[T], most gpu.Reading[T], n T) {
	limit, known := most.Trusted()
	if v, ok := r.Get(); ok && known && limit > 0 && v > n*limit {
		doubt(r)
	}
}

// allOnes reports whether a counter has all bits of a word set, as a missing register reads.
func allOnes(v float64) bool { return v == 1<<32-1 || v >= 1<<64-1 }

func shares(d *gpu.Device) []*gpu.Reading[gpu.Percent] {
	u, a := &d.Utilization, &d.Activity
	return []*gpu.Reading[gpu.Percent]{
		&u.GPU, &u.Memory, &u.Encoder, &u.Decoder, &u.JPEG, &u.OFA, &u.Video,
		&a.Engine, &a.SM, &a.Occupancy, &a.Tensor, &a.FP64, &a.FP32, &a.FP16, &a.Integer, &a.MemoryBandwidth,
	}
}

func memoryBounds(m *gpu.Memory) {
	for _, r := range []*gpu.Reading[gpu.Bytes]{&m.Total, &m.Used, &m.Free, &m.Reserved, &m.BAR1Total, &m.BAR1Used} {
		within(r, 0, mostMemory)
	}
	for _, r := range []*gpu.Reading[gpu.Bytes]{&m.Used, &m.Free, &m.Reserved} {
		times(r, m.Total, 1)
	}
	times(&m.BAR1Used, m.BAR1Total, 1)
}

func counterBounds(d *gpu.Device) {
	within(&d.PCIe.Generation, 0, mostGeneration)
	within(&d.PCIe.MaxGeneration, 0, mostGeneration)
	within(&d.PCIe.Width, 0, mostLanes)
	within(&d.PCIe.MaxWidth, 0, mostLanes)
	within(&d.Encoding.Sessions, 0, mostSessions)
	within(&d.Encoding.FrameRate, 0, mostFrames)
	within(&d.Encoding.Latency, 0, mostLatency)
	within(&d.NVLink.Count, 0, mostLinks)
	within(&d.Fans.Count, 0, mostFans)
	a := &d.Activity
	for _, r := range []*gpu.Reading[gpu.BytesPerSecond]{&a.PCIeSent, &a.PCIeReceived, &a.NVLinkSent, &a.NVLinkReceived} {
		within(r, 0, mostBytesPerSecond)
	}
	h := &d.Health
	for _, r := range []*gpu.Reading[uint64]{
		&d.PCIe.Replays, &h.CorrectedVolatile, &h.UncorrectedVolatile, &h.CorrectedAggregate, &h.UncorrectedAggregate,
		&h.RemappedCorrectable, &h.RemappedUncorrectable, &h.RetiredSingleBit, &h.RetiredDoubleBit,
	} {
		if v, ok := r.Get(); ok && (v > mostErrors || allOnes(float64(v))) {
			impossible(r)
		}
	}
}

func fanBounds(f *gpu.Fan) {
	within(&f.RPM, 0, mostRPM)
	within(&f.Commanded, 0, mostFan)
	within(&f.Target, 0, mostFan)
	if f.RPM.Or(0) > fastFan {
		doubt(&f.RPM)
	}
	for _, r := range []*gpu.Reading[gpu.Percent]{&f.Commanded, &f.Target} {
		if r.Or(0) > loudFan {
			doubt(r)
		}
	}
}

// bounded returns the processes without values that no process can hold or use; it returns the same list if there are none.
func bounded(r gpu.Reading[[]gpu.Process]) gpu.Reading[[]gpu.Process] {
	wrong := func(p gpu.Process) bool {
		ofShare := func(s gpu.Reading[gpu.Percent]) bool { v := s.Or(0); return !(v >= 0 && v <= 100) }
		return p.Memory.Or(0) > mostMemory || slices.ContainsFunc([]gpu.Reading[gpu.Percent]{p.SM, p.MemoryBandwidth, p.Encoder, p.Decoder, p.Video}, ofShare)
	}
	if !slices.ContainsFunc(r.Or(nil), wrong) {
		return r
	}
	return gpu.Map(r, func(list []gpu.Process) []gpu.Process {
		list = slices.Clone(list)
		for i := range list {
			p := &list[i]
			within(&p.Memory, 0, mostMemory)
			for _, share := range []*gpu.Reading[gpu.Percent]{&p.SM, &p.MemoryBandwidth, &p.Encoder, &p.Decoder, &p.Video} {
				within(share, 0, 100)
			}
		}
		return list
	})
}
