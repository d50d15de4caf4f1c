package amd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/drm"
)

// metrics are the values used from a gpu_metrics table. A field that the table lacks, or that the firmware leaves out (all bits set), is
// NotSupported.
type metrics struct {
	version    string // "1.3"
	edge       gpu.Reading[gpu.Celsius]
	hotSpot    gpu.Reading[gpu.Celsius]
	memory     gpu.Reading[gpu.Celsius]
	gfx        gpu.Reading[gpu.Percent] // busy
	controller gpu.Reading[gpu.Percent] // of the memory controller, busy
	power      gpu.Reading[gpu.Watts]
	energy     gpu.Reading[gpu.Joules]
	graphics   gpu.Reading[gpu.Megahertz]
	memClock   gpu.Reading[gpu.Megahertz]
	video      gpu.Reading[gpu.Megahertz]
	fan        gpu.Reading[gpu.RPM]
	width      gpu.Reading[int]
	generation gpu.Reading[int]
	replays    gpu.Reading[uint64]
	// reasons are what holds the clocks down, if the table says so for the present. A table with residencies says how long each reason has
	// held them: see (*device).reasons.
	reasons     gpu.Reading[gpu.ClockEventReasons]
	residencies []residency
}

// A residency counts how long a reason has held the clocks down.
type residency struct {
	reason gpu.ClockEventReasons
	count  uint32
}

// errMetrics is wrapped by the error of a table that is cut off or has an unknown version.
var errMetrics = errors.New("unknown gpu_metrics table")

// A layout has the field offsets of a version; 0: the version lacks the field. The offsets follow the struct gpu_metrics_v… in the kernel's
// kgd_pp_interface.h, as C lays it out.
type layout struct {
	size                                  int
	edge, hotSpot, memory                 int // 16 bits: °C
	gfx, controller                       int // 16 bits: %
	power                                 int // 16 bits: W
	energy                                int // 64 bits: 2^-16 J
	graphics, memClock, video             int // 16 bits: MHz
	fan                                   int // 16 bits: RPM
	width, speed                          int // 16 bits: lanes, 0.1 GT/s
	replays                               int // 64 bits
	throttle                              int // 64 bits: the same for every product
	ofProduct                             int // 32 bits that mean something else for each product
	prochot, powerCap, socket, vr, hbm    int // 32 bits: residencies
	spl, fppt, sppt, ofCore, ofGFX, ofSoC int // the same, for an APU
}

// layouts are the versions by format and content. Version 2 has units that differ by product; other files have the same numbers. In 1.4 and
// 1.5 the driver always writes a throttle_status of 0, which says nothing.
var layouts = map[[2]byte]layout{
	{1, 0}: {
		size: 80, edge: 16, hotSpot: 18, memory: 20, gfx: 28, controller: 30, power: 34,
		graphics: 54, memClock: 58, video: 60, ofProduct: 68, fan: 72,
	},
	{1, 1}: dGPU(96),
	{1, 2}: dGPU(104),
	{1, 3}: withThrottle(dGPU(120), 112),
	{1, 4}: {
		size: 288, hotSpot: 4, memory: 6, power: 10, gfx: 12, controller: 14, energy: 24,
		width: 48, speed: 50, replays: 88, graphics: 240, video: 264, memClock: 280,
	},
	{1, 5}: {
		size: 360, hotSpot: 4, memory: 6, power: 10, gfx: 12, controller: 14, energy: 88,
		width: 112, speed: 114, replays: 152, graphics: 312, video: 336, memClock: 352,
	},
	{1, 6}: {
		size: 1664, hotSpot: 4, memory: 6, power: 10, gfx: 12, controller: 14, energy: 16,
		prochot: 36, powerCap: 40, socket: 44, vr: 48, hbm: 52,
		width: 60, speed: 62, replays: 104, graphics: 264, video: 288, memClock: 304,
	},
	{1, 7}: instinct(2208),
	{1, 8}: instinct(3360), // later kernels append to the list of partitions
	{2, 0}: {size: 120, ofProduct: 112},
	{2, 1}: {size: 120, ofProduct: 108},
	{2, 2}: {size: 128, throttle: 120},
	{2, 3}: {size: 152, throttle: 120},
	{2, 4}: {size: 168, throttle: 120},
	{3, 0}: {
		size: 264, video: 184, prochot: 228, spl: 232, fppt: 236, sppt: 240, ofCore: 244, ofGFX: 248, ofSoC: 252,
	},
}

func dGPU(size int) layout {
	return layout{
		size: size, edge: 4, hotSpot: 6, memory: 8, gfx: 16, controller: 18, power: 22,
		graphics: 54, memClock: 58, video: 60, ofProduct: 68, fan: 72, width: 74, speed: 76,
	}
}

func withThrottle(l layout, offset int) layout {
	l.throttle, l.ofProduct = offset, 0
	return l
}

func instinct(size int) layout {
	return layout{
		size: size, hotSpot: 4, memory: 6, power: 10, gfx: 12, controller: 14, energy: 24,
		prochot: 44, powerCap: 48, socket: 52, vr: 56, hbm: 60,
		width: 68, speed: 70, replays: 112, graphics: 296, video: 320, memClock: 336,
	}
}

// shortestTable is the size of a table's header: its length in 16 bits, its format and its content.
const shortestTable = 4

// formatOf returns the format of a table, the number before the point, even for unknown versions; 0 if the table is incomplete.
func formatOf(table []byte) byte {
	if len(table) < shortestTable || int(binary.LittleEndian.Uint16(table)) != len(table) {
		return 0
	}
	return table[2]
}

// parseMetrics reads a gpu_metrics table: versions 1.0 to 1.8 for cards, 2.0 to 2.4 and 3.0 for APUs. Version 1.9, in which each field
// describes itself, is not supported.
func parseMetrics(table []byte) (metrics, error) {
	if len(table) < shortestTable {
		return metrics{}, fmt.Errorf("%w: of %d bytes", errMetrics, len(table))
	}
	size, version := int(binary.LittleEndian.Uint16(table)), [2]byte{table[2], table[3]}
	l, known := layouts[version]
	if !known {
		return metrics{}, fmt.Errorf("%w: version %d.%d", errMetrics, version[0], version[1])
	}
	if size < l.size || len(table) < l.size { // a different layout that used this number for a while is shorter
		return metrics{}, fmt.Errorf("%w: version %d.%d of %d bytes, and says %d", errMetrics, version[0], version[1], len(table), size)
	}
	f := fields{table}
	m := metrics{
		version: fmt.Sprintf("%d.%d", version[0], version[1]),
		edge:    celsius(f.short(l.edge)), hotSpot: celsius(f.short(l.hotSpot)), memory: celsius(f.short(l.memory)),
		gfx: percent(f.short(l.gfx)), controller: percent(f.short(l.controller)),
		power:    scaled(f.short(l.power), 1, drm.MostPower),
		energy:   scaled(f.long(l.energy), 1<<16, drm.MostEnergy),
		graphics: clock(f.short(l.graphics)), memClock: clock(f.short(l.memClock)), video: clock(f.short(l.video)),
		fan:   scaled(f.short(l.fan), 1, drm.FastestFan),
		width: lanes(f.short(l.width)), generation: generation(f.short(l.speed)),
		replays: gpu.Map(f.long(l.replays), func(n uint64) uint64 { return n }),
	}
	m.reasons = l.reasons(f)
	m.residencies = l.residencies(f)
	return m, nil
}

// fields reads the fields of a table that is long enough. All bits set means "none".
type fields struct{ table []byte }

func (f fields) short(offset int) gpu.Reading[uint64] {
	return field(offset, uint64(binary.LittleEndian.Uint16(f.table[offset:])), math.MaxUint16)
}

func (f fields) word(offset int) gpu.Reading[uint64] {
	return field(offset, uint64(binary.LittleEndian.Uint32(f.table[offset:])), math.MaxUint32)
}

func (f fields) long(offset int) gpu.Reading[uint64] {
	if offset == 0 { // the table may be shorter
		return gpu.Absent[uint64](gpu.NotSupported)
	}
	return field(offset, binary.LittleEndian.Uint64(f.table[offset:]), math.MaxUint64)
}

func field(offset int, value, none uint64) gpu.Reading[uint64] {
	if offset == 0 || value == none {
		return gpu.Absent[uint64](gpu.NotSupported)
	}
	return gpu.Of(value)
}

func scaled[T gpu.Celsius | gpu.Percent | gpu.Watts | gpu.Joules | gpu.Megahertz | gpu.RPM | uint64](
	r gpu.Reading[uint64], unit float64, most T,
) gpu.Reading[T] {
	v, ok := r.Get()
	if !ok {
		return gpu.Absent[T](r.Quality())
	}
	return drm.Of(float64(v), nil, unit, 0, most)
}

func celsius(r gpu.Reading[uint64]) gpu.Reading[gpu.Celsius] { return scaled(r, 1, drm.Hottest) }

func clock(r gpu.Reading[uint64]) gpu.Reading[gpu.Megahertz] { return scaled(r, 1, drm.FastestClock) }

func percent(r gpu.Reading[uint64]) gpu.Reading[gpu.Percent] {
	v, ok := r.Get()
	if !ok {
		return gpu.Absent[gpu.Percent](r.Quality())
	}
	return drm.Share(float64(v), nil)
}

func lanes(r gpu.Reading[uint64]) gpu.Reading[int] {
	const most = 32
	v, ok := r.Get()
	if !ok || v == 0 || v > most {
		return gpu.Absent[int](gpu.NotSupported)
	}
	return gpu.Of(int(v))
}

// generation converts a speed in tenths of GT/s to a PCIe generation.
func generation(r gpu.Reading[uint64]) gpu.Reading[int] {
	v, ok := r.Get()
	if !ok {
		return gpu.Absent[int](r.Quality())
	}
	return drm.Generation(fmt.Sprint(float64(v) / 10))
}

// throttlers are the bits with the same meaning for every product (SMU_THROTTLER_… in the kernel's amdgpu_smu.h), as the first and last bit
// of each reason.
var throttlers = []struct {
	first, last int
	reason      gpu.ClockEventReasons
}{
	{0, 7, gpu.ReasonPowerCap},     // package power tracking (PPT, SPL, FPPT, SPPT)
	{16, 23, gpu.ReasonBoardLimit}, // currents (TDC, EDC) and the supply (APCC)
	{32, 43, gpu.ReasonThermalSlowdown},
	{44, 47, gpu.ReasonHardwareThermal}, // VRHOT, PROCHOT
	{56, 56, gpu.ReasonPowerCap},        // the platform's power (PPM)
	{57, 57, gpu.ReasonReliability},     // FIT
}

// reasons returns what the table says holds the clocks down now. It is NotReported if the set bits mean something else for each product.
func (l *layout) reasons(f fields) gpu.Reading[gpu.ClockEventReasons] {
	var set gpu.ClockEventReasons
	switch {
	case l.throttle != 0:
		bits, ok := f.long(l.throttle).Get()
		if !ok {
			break
		}
		for _, t := range throttlers {
			for bit := t.first; bit <= t.last; bit++ {
				if bits&(1<<bit) != 0 {
					set |= t.reason
				}
			}
		}
		return gpu.Of(set)
	case l.ofProduct != 0:
		if bits, ok := f.word(l.ofProduct).Get(); ok && bits == 0 {
			return gpu.Of(set)
		} else if ok {
			return gpu.Reading[gpu.ClockEventReasons]{}
		}
	}
	return gpu.Absent[gpu.ClockEventReasons](gpu.NotSupported)
}

func (l *layout) residencies(f fields) []residency {
	var all []residency
	for _, r := range []struct {
		offset int
		reason gpu.ClockEventReasons
	}{
		{l.prochot, gpu.ReasonHardwareThermal}, {l.powerCap, gpu.ReasonPowerCap},
		{l.socket, gpu.ReasonThermalSlowdown}, {l.vr, gpu.ReasonThermalSlowdown}, {l.hbm, gpu.ReasonThermalSlowdown},
		{l.spl, gpu.ReasonPowerCap}, {l.fppt, gpu.ReasonPowerCap}, {l.sppt, gpu.ReasonPowerCap},
		{l.ofCore, gpu.ReasonThermalSlowdown}, {l.ofGFX, gpu.ReasonThermalSlowdown}, {l.ofSoC, gpu.ReasonThermalSlowdown},
	} {
		if n, ok := f.word(r.offset).Get(); ok && r.offset != 0 {
			all = append(all, residency{r.reason, uint32(n)})
		}
	}
	return all
}
