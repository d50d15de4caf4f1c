package smi

import (
	"regexp"
	"slices"
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/nvidia"
)

// A field is one that --query-gpu may know. Some had another name in older versions.
type field struct {
	names []string
	// core marks the fields of which a device that works reports one.
	core bool
	set  func(d *gpu.Device, v value)
}

// fields are all that a device's line has, beside those that say which device it is.
var fields = []field{
	{names: []string{"serial"}, set: func(d *gpu.Device, v value) { d.Serial = name(v) }},
	{names: []string{"vbios_version"}, set: func(d *gpu.Device, v value) { d.VBIOS = name(v) }},
	{names: []string{"utilization.gpu"}, core: true, set: func(d *gpu.Device, v value) { d.Utilization.GPU = share(v) }},
	{names: []string{"utilization.memory"}, set: func(d *gpu.Device, v value) { d.Utilization.Memory = share(v) }},
	{names: []string{"utilization.encoder"}, set: func(d *gpu.Device, v value) { d.Utilization.Encoder = share(v) }},
	{names: []string{"utilization.decoder"}, set: func(d *gpu.Device, v value) { d.Utilization.Decoder = share(v) }},
	{names: []string{"utilization.jpeg"}, set: func(d *gpu.Device, v value) { d.Utilization.JPEG = share(v) }},
	{names: []string{"utilization.ofa"}, set: func(d *gpu.Device, v value) { d.Utilization.OFA = share(v) }},
	{names: []string{"encoder.stats.sessionCount"}, set: func(d *gpu.Device, v value) { d.Encoding.Sessions = sessions(v) }},
	{names: []string{"encoder.stats.averageFps"}, set: func(d *gpu.Device, v value) { d.Encoding.FrameRate = amount(v, nvidia.FastestVideo) }},
	{names: []string{"encoder.stats.averageLatency"}, set: func(d *gpu.Device, v value) { d.Encoding.Latency = amount(v, nvidia.LongestLatency) }},
	{names: []string{"memory.total"}, core: true, set: func(d *gpu.Device, v value) { d.Memory.Total = mebibytes(v) }},
	{names: []string{"memory.reserved"}, set: func(d *gpu.Device, v value) { d.Memory.Reserved = mebibytes(v) }},
	{names: []string{"memory.used"}, set: func(d *gpu.Device, v value) { d.Memory.Used = mebibytes(v) }},
	{names: []string{"memory.free"}, set: func(d *gpu.Device, v value) { d.Memory.Free = mebibytes(v) }},
	{names: []string{"temperature.gpu"}, core: true, set: func(d *gpu.Device, v value) { d.Thermal.GPU = degrees(v) }},
	{names: []string{"temperature.gpu.tlimit"}, set: func(d *gpu.Device, v value) { d.Thermal.Margin = degrees(v) }},
	{names: []string{"temperature.memory"}, set: func(d *gpu.Device, v value) { d.Thermal.Memory = degrees(v) }},
	{names: []string{"fan.speed"}, set: setFan},
	{names: []string{"power.draw"}, core: true, set: func(d *gpu.Device, v value) { d.Power.Draw = watts(v) }},
	{names: []string{"enforced.power.limit"}, set: func(d *gpu.Device, v value) { d.Power.EnforcedLimit = watts(v) }},
	{names: []string{"power.default_limit"}, set: func(d *gpu.Device, v value) { d.Power.DefaultLimit = watts(v) }},
	{names: []string{"power.min_limit"}, set: func(d *gpu.Device, v value) { d.Power.MinLimit = watts(v) }},
	{names: []string{"power.max_limit"}, set: func(d *gpu.Device, v value) { d.Power.MaxLimit = watts(v) }},
	{names: []string{"clocks.current.graphics", "clocks.gr"}, set: func(d *gpu.Device, v value) { d.Clocks.Graphics = megahertz(v) }},
	{names: []string{"clocks.current.sm", "clocks.sm"}, set: func(d *gpu.Device, v value) { d.Clocks.SM = megahertz(v) }},
	{names: []string{"clocks.current.memory", "clocks.mem"}, set: func(d *gpu.Device, v value) { d.Clocks.Memory = megahertz(v) }},
	{names: []string{"clocks.current.video", "clocks.video"}, set: func(d *gpu.Device, v value) { d.Clocks.Video = megahertz(v) }},
	{names: []string{"clocks.max.graphics", "clocks.max.gr"}, set: func(d *gpu.Device, v value) { d.Clocks.MaxGraphics = megahertz(v) }},
	{names: []string{"clocks.max.sm"}, set: func(d *gpu.Device, v value) { d.Clocks.MaxSM = megahertz(v) }},
	{names: []string{"clocks.max.memory", "clocks.max.mem"}, set: func(d *gpu.Device, v value) { d.Clocks.MaxMemory = megahertz(v) }},
	{names: []string{"pstate"}, set: func(d *gpu.Device, v value) { d.Clocks.PerformanceState = state(v) }},
	{names: []string{"clocks_event_reasons.active", "clocks_throttle_reasons.active"},
		set: func(d *gpu.Device, v value) { d.Clocks.EventReasons = reasons(v) }},
	{names: []string{"pcie.link.gen.gpucurrent", "pcie.link.gen.current"}, set: func(d *gpu.Device, v value) { d.PCIe.Generation = count[int](v) }},
	{names: []string{"pcie.link.gen.max"}, set: func(d *gpu.Device, v value) { d.PCIe.MaxGeneration = count[int](v) }},
	{names: []string{"pcie.link.width.current"}, set: func(d *gpu.Device, v value) { d.PCIe.Width = count[int](v) }},
	{names: []string{"pcie.link.width.max"}, set: func(d *gpu.Device, v value) { d.PCIe.MaxWidth = count[int](v) }},
	{names: []string{"ecc.mode.current"}, set: func(d *gpu.Device, v value) { d.Health.ECCMode = flag(v) }},
	{names: []string{"ecc.mode.pending"}, set: func(d *gpu.Device, v value) { d.Health.ECCModePending = flag(v) }},
	{names: []string{"ecc.errors.corrected.volatile.total"}, set: func(d *gpu.Device, v value) { d.Health.CorrectedVolatile = count[uint64](v) }},
	{names: []string{"ecc.errors.uncorrected.volatile.total"}, set: func(d *gpu.Device, v value) { d.Health.UncorrectedVolatile = count[uint64](v) }},
	{names: []string{"ecc.errors.corrected.aggregate.total"}, set: func(d *gpu.Device, v value) { d.Health.CorrectedAggregate = count[uint64](v) }},
	{names: []string{"ecc.errors.uncorrected.aggregate.total"},
		set: func(d *gpu.Device, v value) { d.Health.UncorrectedAggregate = count[uint64](v) }},
	{names: []string{"persistence_mode"}, set: func(d *gpu.Device, v value) { d.Modes.Persistence = flag(v) }},
	{names: []string{"compute_mode"}, set: func(d *gpu.Device, v value) { d.Modes.Compute = computeMode(v) }},
	{names: []string{"display_active"}, set: func(d *gpu.Device, v value) { d.Modes.DisplayActive = flag(v) }},
	{names: []string{"mig.mode.current"}, set: func(d *gpu.Device, v value) { d.Modes.MIG = flag(v) }},
	{names: []string{"mig.mode.pending"}, set: func(d *gpu.Device, v value) { d.Modes.MIGPending = flag(v) }},
}

// setFan: nvidia-smi has one speed of a device, whatever the number of its fans.
func setFan(d *gpu.Device, v value) {
	speed := amount(v, nvidia.LoudestFan)
	if !speed.Present() {
		d.Fans = gpu.Fans{Count: gpu.Absent[int](speed.Quality())}
		return
	}
	fan := gpu.Fan{}
	gpu.Withdraw(&fan, gpu.NotSupported)
	fan.Commanded = speed
	d.Fans = gpu.Fans{Fans: []gpu.Fan{fan}} // how many there are, nobody says
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
var fieldLine = regexp.MustCompile(`^\s*"([a-zA-Z0-9_.]+)"(?: or "([a-zA-Z0-9_.]+)")*\s*$`)

var quoted = regexp.MustCompile(`"([a-zA-Z0-9_.]+)"`)

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
	m.Used, m.Free, m.Reserved = nvidia.Within(m.Used, m.Total), nvidia.Within(m.Free, m.Total), nvidia.Within(m.Reserved, m.Total)
	d.Power.Draw = nvidia.Plausible(d.Power.Draw, d.Power.MaxLimit)
	return nil
}
