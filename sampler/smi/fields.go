package smi

import (
	"slices"
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/lazy"
	"github.com/gpuwhy/gpuwhy/sampler/nvidia"
)

// A field is one that --query-gpu may know. Some had another name in older versions.
type field struct {
	names []string
	core  bool
	set   func(d *gpu.Device, v value)
}

type dev = gpu.Device

// of is a field by its names, the newest first.
func of(names string, set func(d *dev, v value)) field {
	return field{names: strings.Fields(names), set: set}
}

// core is a field of which a device that works reports one.
func core(f field) field {
	f.core = true
	return f
}

// fields are all that a device's line has, beside those that say which device it is.
var fields = []field{
	of("serial", func(d *dev, v value) { d.Serial = name(v) }),
	of("vbios_version", func(d *dev, v value) { d.VBIOS = name(v) }),
	core(of("utilization.gpu", func(d *dev, v value) { d.Utilization.GPU = share(v) })),
	of("utilization.memory", func(d *dev, v value) { d.Utilization.Memory = share(v) }),
	of("utilization.encoder", func(d *dev, v value) { d.Utilization.Encoder = share(v) }),
	of("utilization.decoder", func(d *dev, v value) { d.Utilization.Decoder = share(v) }),
	of("utilization.jpeg", func(d *dev, v value) { d.Utilization.JPEG = share(v) }),
	of("utilization.ofa", func(d *dev, v value) { d.Utilization.OFA = share(v) }),
	of("encoder.stats.sessionCount", func(d *dev, v value) { d.Encoding.Sessions = sessions(v) }),
	of("encoder.stats.averageFps", func(d *dev, v value) { d.Encoding.FrameRate = amount(v, nvidia.FastestVideo) }),
	of("encoder.stats.averageLatency", func(d *dev, v value) { d.Encoding.Latency = amount(v, nvidia.LongestLatency) }),
	core(of("memory.total", setMemory)),
	of("memory.reserved", func(d *dev, v value) { d.Memory.Reserved = mebibytes(v) }),
	of("memory.used", func(d *dev, v value) { d.Memory.Used = mebibytes(v) }),
	of("memory.free", func(d *dev, v value) { d.Memory.Free = mebibytes(v) }),
	core(of("temperature.gpu", func(d *dev, v value) { d.Thermal.GPU = degrees(v) })),
	of("temperature.gpu.tlimit", func(d *dev, v value) { d.Thermal.Margin = degrees(v) }),
	of("temperature.memory", func(d *dev, v value) { d.Thermal.Memory = degrees(v) }),
	of("fan.speed", setFan),
	core(of("power.draw", func(d *dev, v value) { d.Power.Draw = watts(v) })),
	of("enforced.power.limit", func(d *dev, v value) { d.Power.EnforcedLimit = watts(v) }),
	of("power.default_limit", func(d *dev, v value) { d.Power.DefaultLimit = watts(v) }),
	of("power.min_limit", func(d *dev, v value) { d.Power.MinLimit = watts(v) }),
	of("power.max_limit", func(d *dev, v value) { d.Power.MaxLimit = watts(v) }),
	of("clocks.current.graphics clocks.gr", func(d *dev, v value) { d.Clocks.Graphics = megahertz(v) }),
	of("clocks.current.sm clocks.sm", func(d *dev, v value) { d.Clocks.SM = megahertz(v) }),
	of("clocks.current.memory clocks.mem", func(d *dev, v value) { d.Clocks.Memory = megahertz(v) }),
	of("clocks.current.video clocks.video", func(d *dev, v value) { d.Clocks.Video = megahertz(v) }),
	of("clocks.max.graphics clocks.max.gr", func(d *dev, v value) { d.Clocks.MaxGraphics = megahertz(v) }),
	of("clocks.max.sm", func(d *dev, v value) { d.Clocks.MaxSM = megahertz(v) }),
	of("clocks.max.memory clocks.max.mem", func(d *dev, v value) { d.Clocks.MaxMemory = megahertz(v) }),
	of("pstate", func(d *dev, v value) { d.Clocks.PerformanceState = state(v) }),
	of("clocks_event_reasons.active clocks_throttle_reasons.active",
		func(d *dev, v value) { d.Clocks.EventReasons = reasons(v) }),
	of("pcie.link.gen.gpucurrent pcie.link.gen.current", func(d *dev, v value) { d.PCIe.Generation = count[int](v) }),
	of("pcie.link.gen.max", func(d *dev, v value) { d.PCIe.MaxGeneration = count[int](v) }),
	of("pcie.link.width.current", func(d *dev, v value) { d.PCIe.Width = count[int](v) }),
	of("pcie.link.width.max", func(d *dev, v value) { d.PCIe.MaxWidth = count[int](v) }),
	of("ecc.mode.current", func(d *dev, v value) { d.Health.ECCMode = flag(v) }),
	of("ecc.mode.pending", func(d *dev, v value) { d.Health.ECCModePending = flag(v) }),
	of("ecc.errors.corrected.volatile.total", func(d *dev, v value) { d.Health.CorrectedVolatile = count[uint64](v) }),
	of("ecc.errors.uncorrected.volatile.total", func(d *dev, v value) { d.Health.UncorrectedVolatile = count[uint64](v) }),
	of("ecc.errors.corrected.aggregate.total", func(d *dev, v value) { d.Health.CorrectedAggregate = count[uint64](v) }),
	of("ecc.errors.uncorrected.aggregate.total", func(d *dev, v value) { d.Health.UncorrectedAggregate = count[uint64](v) }),
	of("persistence_mode", func(d *dev, v value) { d.Modes.Persistence = flag(v) }),
	of("compute_mode", func(d *dev, v value) { d.Modes.Compute = computeMode(v) }),
	of("display_active", func(d *dev, v value) { d.Modes.DisplayActive = flag(v) }),
	of("mig.mode.current", func(d *dev, v value) { d.Modes.MIG = flag(v) }),
	of("mig.mode.pending", func(d *dev, v value) { d.Modes.MIGPending = flag(v) }),
}

// setFan: nvidia-smi has one speed of a device, whatever the number of its fans.
func setFan(d *gpu.Device, v value) {
	speed := amount(v, nvidia.LoudestFan)
	if !speed.Present() {
		d.Fans = gpu.Fans{Count: gpu.Absent[int](speed.Quality()), Combined: gpu.Absent[bool](speed.Quality())}
		return
	}
	fan := gpu.Fan{}
	gpu.Withdraw(&fan, gpu.NotSupported)
	fan.Commanded = speed
	d.Fans = gpu.Fans{Fans: []gpu.Fan{fan}, Combined: gpu.Of(true)} // how many there are, nobody says
}

// setMemory: fill says what follows where there is no memory.
func setMemory(d *gpu.Device, v value) {
	d.Memory.Total = mebibytes(v)
	d.Shared.Unified = gpu.Map(d.Memory.Total, func(gpu.Bytes) bool { return false })
}

// The fields that every line begins with, and the two that it ends with. A name may hold a
// comma, and a whole bus address shows that the line was not cut.
var (
	begins = []string{"index", "uuid", "driver_version", "count"}
	ends   = []string{"name", "pci.bus_id"}
)

// A query is the fields that a loop asks for.
type query []field

// names are the query's fields as --query-gpu takes them.
func (q query) names() string {
	all := slices.Clone(begins)
	for _, f := range q {
		all = append(all, f.names[0])
	}
	return strings.Join(append(all, ends...), ",")
}

// without is the query without a field that this version refuses after all.
func (q query) without(name string) query {
	return slices.DeleteFunc(slices.Clone(q), func(f field) bool { return f.names[0] == name })
}

// fieldLine is a line of --help-query-gpu that names a field: "a" or "b".
var fieldLine = lazy.Pattern(`^\s*"([a-zA-Z0-9_.]+)"(?: or "([a-zA-Z0-9_.]+)")*\s*$`)

var quoted = lazy.Pattern(`"([a-zA-Z0-9_.]+)"`)

// known is the query for a version, by what its --help-query-gpu says. It is empty where
// that names no field.
func known(help string) query {
	names := map[string]bool{}
	for line := range strings.Lines(help) {
		if fieldLine.MatchString(strings.TrimRight(line, "\r\n")) {
			for _, m := range quoted.FindAllStringSubmatch(line, -1) {
				names[m[1]] = true
			}
		}
	}
	var q query
	for _, f := range fields {
		if i := slices.IndexFunc(f.names, func(n string) bool { return names[n] }); i >= 0 {
			f.names = f.names[i : i+1]
			q = append(q, f)
		}
	}
	return q
}

// A row is what one line says of one device.
type row struct {
	index  int
	driver gpu.Reading[string]
	count  int    // of devices that the driver has; 0: not said
	key    string // its bus address, or where it has none its UUID
	device gpu.Device
	err    error // why the device as a whole can't be read
}

const uuidBegins = "GPU-"

// parse reads a line. It is not ok where the line is none of this query.
func (q query) parse(line string) (r row, ok bool) {
	parts := strings.Split(line, ", ")
	first, last := len(begins), len(begins)+len(q)
	if len(parts) < last+len(ends) {
		return row{}, false
	}
	index, isIndex := value(parts[0]).number()
	address, isAddress := busAddress(value(parts[len(parts)-1]))
	uuid := name(value(parts[1]))
	isUUID := strings.HasPrefix(uuid.Or(""), uuidBegins)
	if !isIndex || index < 0 || index > 1<<10 || index != float64(int(index)) || !isAddress && !isUUID {
		return row{}, false
	}
	another := func(part string) bool { return strings.HasPrefix(part, uuidBegins) }
	if uuid.Present() && !isUUID || slices.ContainsFunc(parts[2:], another) { // two lines in one
		return row{}, false
	}
	if end := value(parts[len(parts)-1]); !isAddress && end.plain() != "n/a" { // cut, or shifted
		return row{}, false
	}
	devices, _ := value(parts[3]).number()
	r = row{index: int(index), driver: name(value(parts[2])), count: int(min(max(devices, 0), 1<<10)), key: address}
	d := &r.device
	d.Vendor, d.Source, d.VendorIndex, d.DriverVersion = gpu.NVIDIA, gpu.SourceNvidiaSMI, gpu.Of(r.index), r.driver
	d.PCI = address
	switch {
	case isUUID:
		d.UUID = uuid.Or("")
	case isAddress:
		d.UUID = gpu.UUIDAt(address)
	}
	if !isAddress {
		r.key = d.UUID
	}
	d.Name = name(value(strings.Join(parts[last:len(parts)-1], ", "))).Or("NVIDIA GPU")
	gpu.Withdraw(&d.Readings, gpu.NotSupported) // what this version has no field for
	gpu.Withdraw(&d.Serial, gpu.NotSupported)
	gpu.Withdraw(&d.VBIOS, gpu.NotSupported)
	gpu.Withdraw(&d.Architecture, gpu.NotReported) // the XML has it
	r.err = q.fill(d, parts[first:last])
	return r, true
}

// fill sets the readings, and returns why the device as a whole can't be read.
func (q query) fill(d *gpu.Device, parts []string) error {
	var worst value
	works := false
	for i, f := range q {
		v := value(parts[i])
		f.set(d, v)
		if v.failed() && strings.Contains(v.plain(), "is lost") {
			return failureOf(v.plain())
		}
		if f.core {
			_, isNumber := v.number()
			works = works || isNumber
			if v.failed() {
				worst = v
			}
		}
	}
	if !works && worst != "" {
		return failureOf(worst.plain())
	}
	m := &d.Memory
	switch {
	case works && m.Total.Quality() == gpu.NotSupported:
		d.Shared.Unified = nvidia.Unified(d.Name, &d.Readings)
	case !works && !m.Total.Present():
		d.Shared.Unified = gpu.Absent[bool](gpu.NotReported)
	}
	for _, part := range []*gpu.Reading[gpu.Bytes]{&m.Used, &m.Free, &m.Reserved} {
		*part = nvidia.Within(*part, m.Total)
	}
	d.Power.Draw = nvidia.Plausible(d.Power.Draw, d.Power.MaxLimit)
	return nil
}
