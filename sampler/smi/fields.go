package smi

import (
	"slices"
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/lazy"
	"github.com/gpuwhy/gpuwhy/sampler/nvidia"
)

// A field is a field that --query-gpu may know. Some fields had another name in older versions.
type field struct {
	names []string
	core  bool
	set   func(d *gpu.Device, v value)
	form  func(v value) bool                             // what a present value looks like
	text  bool                                           // it may contain commas
	asks  func(v value) (kind gpu.FaultKind, known bool) // the recovery that the driver asks for; nil: the field is a reading
}

type dev = gpu.Device

// newField returns a numeric field by its names, newest first.
func newField(names string, set func(d *dev, v value)) field {
	return field{names: strings.Fields(names), set: set, form: isNumber}
}

// formed returns a field with another form.
func formed(form func(v value) bool, f field) field {
	f.form = form
	return f
}

// freeText returns a field whose value can be any text.
func freeText(names string, set func(d *dev, v value)) field {
	f := formed(isText, newField(names, set))
	f.text = true
	return f
}

// asking returns a field with the recovery that the driver asks for.
func asking(names string, form func(v value) bool, asks func(v value) (gpu.FaultKind, bool)) field {
	return field{names: strings.Fields(names), form: form, asks: asks, set: func(*dev, value) {}}
}

func isNumber(v value) bool { _, ok := v.number(); return ok }
func isFlag(v value) bool   { return flag(v).Present() }
func isState(v value) bool {
	return strings.HasPrefix(strings.TrimSpace(string(v)), "P") && len(v) <= len("P15")
}
func isSet(v value) bool {
	return reasons(v).Present() || strings.HasPrefix(strings.TrimSpace(string(v)), "0x")
}
func isText(value) bool   { return true }
func isMode(v value) bool { return computeMode(v).Present() }

func isAction(v value) bool {
	kind, known := nvidia.NeedsByWords(string(v))
	return known && kind != gpu.FaultNeedsAction
}

// yes is for an old recovery field: "Yes" asks for the recovery.
func yes(kind gpu.FaultKind) func(value) (gpu.FaultKind, bool) {
	return func(v value) (gpu.FaultKind, bool) {
		needed := flag(v)
		if needed.Or(false) {
			return kind, true
		}
		return "", needed.Present()
	}
}

// core marks a field: a working device reports at least one of these.
func core(f field) field {
	f.core = true
	return f
}

// fields are all fields of a device's line, apart from those that identify the device.
var fields = []field{
	freeText("serial", func(d *dev, v value) { d.Serial = name(v) }),
	freeText("vbios_version", func(d *dev, v value) { d.VBIOS = name(v) }),
	core(newField("utilization.gpu", func(d *dev, v value) { d.Utilization.GPU = share(v) })),
	newField("utilization.memory", func(d *dev, v value) { d.Utilization.Memory = share(v) }),
	newField("utilization.encoder", func(d *dev, v value) { d.Utilization.Encoder = share(v) }),
	newField("utilization.decoder", func(d *dev, v value) { d.Utilization.Decoder = share(v) }),
	newField("utilization.jpeg", func(d *dev, v value) { d.Utilization.JPEG = share(v) }),
	newField("utilization.ofa", func(d *dev, v value) { d.Utilization.OFA = share(v) }),
	newField("encoder.stats.sessionCount", func(d *dev, v value) { d.Encoding.Sessions = sessions(v) }),
	newField("encoder.stats.averageFps", func(d *dev, v value) { d.Encoding.FrameRate = amount(v, nvidia.FastestVideo) }),
	newField("encoder.stats.averageLatency", func(d *dev, v value) { d.Encoding.Latency = amount(v, nvidia.LongestLatency) }),
	core(newField("memory.total", func(d *dev, v value) { d.Memory.Total = mebibytes(v) })),
	newField("memory.reserved", func(d *dev, v value) { d.Memory.Reserved = mebibytes(v) }),
	newField("memory.used", func(d *dev, v value) { d.Memory.Used = mebibytes(v) }),
	newField("memory.free", func(d *dev, v value) { d.Memory.Free = mebibytes(v) }),
	core(newField("temperature.gpu", func(d *dev, v value) { d.Thermal.GPU = degrees(v) })),
	newField("temperature.gpu.tlimit", func(d *dev, v value) { d.Thermal.Margin = degrees(v) }),
	newField("temperature.memory", func(d *dev, v value) { d.Thermal.Memory = degrees(v) }),
	newField(fanField, setFan),
	core(newField("power.draw", func(d *dev, v value) { d.Power.Draw = watts(v) })),
	newField("enforced.power.limit", func(d *dev, v value) { d.Power.EnforcedLimit = watts(v) }),
	newField("power.default_limit", func(d *dev, v value) { d.Power.DefaultLimit = watts(v) }),
	newField("power.min_limit", func(d *dev, v value) { d.Power.MinLimit = watts(v) }),
	newField("power.max_limit", func(d *dev, v value) { d.Power.MaxLimit = watts(v) }),
	newField("clocks.current.graphics clocks.gr", func(d *dev, v value) { d.Clocks.Graphics = megahertz(v) }),
	newField("clocks.current.sm clocks.sm", func(d *dev, v value) { d.Clocks.SM = megahertz(v) }),
	newField("clocks.current.memory clocks.mem", func(d *dev, v value) { d.Clocks.Memory = megahertz(v) }),
	newField("clocks.current.video clocks.video", func(d *dev, v value) { d.Clocks.Video = megahertz(v) }),
	newField("clocks.max.graphics clocks.max.gr", func(d *dev, v value) { d.Clocks.MaxGraphics = megahertz(v) }),
	newField("clocks.max.sm", func(d *dev, v value) { d.Clocks.MaxSM = megahertz(v) }),
	newField("clocks.max.memory clocks.max.mem", func(d *dev, v value) { d.Clocks.MaxMemory = megahertz(v) }),
	formed(isState, newField("pstate", func(d *dev, v value) { d.Clocks.PerformanceState = state(v) })),
	formed(isSet, newField("clocks_event_reasons.active clocks_throttle_reasons.active",
		func(d *dev, v value) { d.Clocks.EventReasons = reasons(v) })),
	newField("pcie.link.gen.gpucurrent pcie.link.gen.current", func(d *dev, v value) { d.PCIe.Generation = count[int](v) }),
	newField("pcie.link.gen.max", func(d *dev, v value) { d.PCIe.MaxGeneration = count[int](v) }),
	newField("pcie.link.width.current", func(d *dev, v value) { d.PCIe.Width = count[int](v) }),
	newField("pcie.link.width.max", func(d *dev, v value) { d.PCIe.MaxWidth = count[int](v) }),
	formed(isFlag, newField("ecc.mode.current", func(d *dev, v value) { d.Health.ECCMode = flag(v) })),
	formed(isFlag, newField("ecc.mode.pending", func(d *dev, v value) { d.Health.ECCModePending = flag(v) })),
	newField("ecc.errors.corrected.volatile.total", func(d *dev, v value) { d.Health.CorrectedVolatile = count[uint64](v) }),
	newField("ecc.errors.uncorrected.volatile.total", func(d *dev, v value) { d.Health.UncorrectedVolatile = count[uint64](v) }),
	newField("ecc.errors.corrected.aggregate.total", func(d *dev, v value) { d.Health.CorrectedAggregate = count[uint64](v) }),
	newField("ecc.errors.uncorrected.aggregate.total", func(d *dev, v value) { d.Health.UncorrectedAggregate = count[uint64](v) }),
	formed(isFlag, newField("persistence_mode", func(d *dev, v value) { d.Modes.Persistence = flag(v) })),
	formed(isMode, newField("compute_mode", func(d *dev, v value) { d.Modes.Compute = computeMode(v) })),
	formed(isFlag, newField("display_active", func(d *dev, v value) { d.Modes.DisplayActive = flag(v) })),
	formed(isFlag, newField("mig.mode.current", func(d *dev, v value) { d.Modes.MIG = flag(v) })),
	formed(isFlag, newField("mig.mode.pending", func(d *dev, v value) { d.Modes.MIGPending = flag(v) })),
	asking("gpu_recovery_action", isAction, func(v value) (gpu.FaultKind, bool) { return nvidia.NeedsByWords(string(v)) }),
	asking("reset_status.reset_required gpu_reset_status.reset_required", isFlag, yes(gpu.FaultNeedsReset)),
	asking("reset_status.drain_and_reset_recommended gpu_reset_status.drain_and_reset_recommended", isFlag, yes(gpu.FaultNeedsLaterReset)),
}

// setFan sets one fan: nvidia-smi has one speed per device, whatever the number of its fans.
func setFan(d *gpu.Device, v value) {
	speed := amount(v, nvidia.LoudestFan)
	if !speed.Present() {
		d.Fans = gpu.Fans{Count: gpu.Absent[int](speed.Quality()), Combined: gpu.Absent[bool](speed.Quality())}
		return
	}
	fan := gpu.Fan{}
	gpu.Withdraw(&fan, gpu.NotSupported)
	fan.Commanded = speed
	d.Fans = gpu.Fans{Fans: []gpu.Fan{fan}, Combined: gpu.Of(true)} // nvidia-smi does not report how many fans there are
}

// The fields that every line begins with, and the two that it ends with. A complete bus address at the end shows that the line was not cut.
var (
	begins = []string{"index", "uuid", "driver_version", "count"}
	ends   = []string{"name", "pci.bus_id"}
)

// A query is the fields that a loop asks for.
type query []field

// names returns the query's fields as --query-gpu takes them.
func (q query) names() string {
	all := slices.Clone(begins)
	for _, f := range q {
		all = append(all, f.names[0])
	}
	return strings.Join(append(all, ends...), ",")
}

// without returns the query without a field that this version refuses after all.
func (q query) without(name string) query {
	return slices.DeleteFunc(slices.Clone(q), func(f field) bool { return f.names[0] == name })
}

// fieldLine matches a line of --help-query-gpu that names a field: "a" or "b".
var fieldLine = lazy.Pattern(`^\s*"([a-zA-Z0-9_.]+)"(?: or "([a-zA-Z0-9_.]+)")*\s*$`)

var quoted = lazy.Pattern(`"([a-zA-Z0-9_.]+)"`)

// known returns the query for a version, from its --help-query-gpu. It is empty if the help names no field.
func known(help string) query {
	names := map[string]bool{}
	for line := range strings.Lines(help) {
		if fieldLine().MatchString(strings.TrimRight(line, "\r\n")) {
			for _, m := range quoted().FindAllStringSubmatch(line, -1) {
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

// A row is what one line says about one device.
type row struct {
	index  int
	driver gpu.Reading[string]
	count  int    // number of devices that the driver has; 0: not reported
	key    string // its bus address or, without one, its UUID
	device gpu.Device
	err    error // why the whole device can't be read
	// unread is the line if its values can't be matched with the fields: then all that is known is which device it is about.
	unread string
	says   []gpu.FaultKind // the driver's persistent complaints
	known  bool            // whether the driver can say that it asks for nothing
}

// split returns the values of a line. A comma within brackets is part of a text from the driver.
func split(line string) []string {
	var parts []string
	depth, begin := 0, 0
	for i := range len(line) {
		switch {
		case line[i] == '[':
			depth++
		case line[i] == ']':
			depth = max(depth-1, 0)
		case depth == 0 && strings.HasPrefix(line[i:], ", "):
			parts = append(parts, line[begin:i])
			begin = i + len(", ")
		}
	}
	if depth > 0 { // the bracket never closes
		return strings.Split(line, ", ")
	}
	return append(parts, line[begin:])
}

// forms returns the forms of all fields, in the order of a line.
func (q query) forms() []func(value) bool {
	name := func(v value) bool { return !isNumber(v) }
	place := func(v value) bool { _, ok := busAddress(v); return ok }
	all := []func(value) bool{isNumber, func(v value) bool { return nvidia.IsUUID(string(v)) }, isText, isNumber}
	for _, f := range q {
		all = append(all, f.form)
	}
	return append(all, name, place)
}

// match assigns the values of a line to the fields. If values contain commas, there are more parts than fields: then exactly one way of
// joining the parts must make all of them look like values of their fields. known returns the device's known name, which is taken as it is,
// so that a bad value beside it costs only itself; known is called only if there are more parts than fields.
func (q query) match(parts []string, known func() string) (values []string, ok bool) {
	forms := q.forms()
	more := len(parts) - len(forms)
	if more == 0 {
		return parts, true
	}
	if more > 0 {
		begin, name := len(forms)-len(ends), known()
		if name != "" && strings.Join(parts[begin:len(parts)-1], ", ") == name {
			return append(parts[:begin:begin], name, parts[len(parts)-1]), true
		}
	}
	for i := 0; more > 0 && i < len(forms); i++ {
		joined := slices.Concat(parts[:i:i], []string{strings.Join(parts[i:i+more+1], ", ")}, parts[i+more+1:])
		// The free-text fields: the driver's version, those of the query, and the name.
		free := i == 2 || i == len(forms)-2 || i >= len(begins) && i < len(begins)+len(q) && q[i-len(begins)].text
		fits := free || value(joined[i]).excuse()
		for k, form := range forms {
			v := value(joined[k])
			fits = fits && (form(v) || v.excuse())
		}
		if !fits {
			continue
		}
		if ok {
			return nil, false
		}
		values, ok = joined, true
	}
	return values, ok
}

// parse reads a line of a device about which nothing is known.
func (q query) parse(line string) (r row, ok bool) {
	return q.read(line, func(string) string { return "" })
}

// read reads a line; ok is false if it is not a line of this query. nameOf returns the name of the device with a UUID; empty if not known.
func (q query) read(line string, nameOf func(uuid string) string) (r row, ok bool) {
	parts := split(line)
	first, last := len(begins), len(begins)+len(q)
	if len(parts) < last+len(ends) {
		return row{}, false
	}
	index, isIndex := value(parts[0]).number()
	address, isAddress := busAddress(value(parts[len(parts)-1]))
	uuid := name(value(parts[1]))
	isUUID := nvidia.IsUUID(uuid.Or(""))
	if !isIndex || index < 0 || index > 1<<10 || index != float64(int(index)) || !isAddress && !isUUID {
		return row{}, false
	}
	if uuid.Present() && !isUUID || slices.ContainsFunc(parts[2:], nvidia.IsUUID) { // two lines in one
		return row{}, false
	}
	if end := value(parts[len(parts)-1]); !isAddress && end.plain() != "n/a" { // cut, or shifted
		return row{}, false
	}
	r = row{index: int(index), key: address}
	d := &r.device
	d.Vendor, d.Source, d.VendorIndex, d.PCI, d.Name = gpu.NVIDIA, gpu.SourceNvidiaSMI, gpu.Of(r.index), address, unnamed
	switch {
	case isUUID:
		d.UUID = uuid.Or("")
	case isAddress:
		d.UUID = gpu.UUIDAt(address)
	}
	if !isAddress {
		r.key = d.UUID
	}
	gpu.Withdraw(&d.Readings, gpu.NotSupported) // readings for which this version has no field
	gpu.Withdraw(&d.Serial, gpu.NotSupported)
	gpu.Withdraw(&d.VBIOS, gpu.NotSupported)
	gpu.Withdraw(&d.Architecture, gpu.NotReported) // the XML has it
	values, matched := q.match(parts, func() string { return nameOf(d.UUID) })
	if !matched {
		gpu.Withdraw(&d.Readings, gpu.NotReported)
		r.unread, r.err = clean(line), unmatched(line)
		return r, true
	}
	devices, _ := value(values[3]).number()
	r.driver, r.count = version(value(values[2])), int(min(max(devices, 0), 1<<10))
	d.DriverVersion, d.Name = r.driver, name(value(values[last])).Or(unnamed)
	r.err = q.fill(&r, values[first:last])
	return r, true
}

// unnamed is the name of a device without a name.
const unnamed = "NVIDIA GPU"

// unmatched is the error for a line whose values can't be matched with the fields.
func unmatched(line string) *gpu.Advice {
	return &gpu.Advice{
		What: "nvidia-smi printed a row that does not match its fields: “" + clean(line) + "”",
		Try:  "wait: gpuwhy tries nvidia-smi -q -x next; if this persists, update the driver",
		Err:  gpu.ErrNotAnswering,
	}
}

// fill sets the readings, and returns why the whole device can't be read.
func (q query) fill(r *row, values []string) error {
	d := &r.device
	var worst value
	works := false
	says := func(kind gpu.FaultKind) {
		if kind != "" && !slices.Contains(r.says, kind) {
			r.says = append(r.says, kind)
		}
	}
	for i, f := range q {
		v := value(values[i])
		f.set(d, v)
		if v.failed() && strings.Contains(v.plain(), "is lost") {
			return failureOf(v.plain())
		}
		switch {
		case nvidia.RequiresReset(string(v)):
			says(gpu.FaultNeedsReset)
		case f.asks != nil:
			kind, known := f.asks(v)
			r.known = r.known || known
			says(kind)
		case f.names[0] == fanField && v.isError():
			says(gpu.FaultFanUnreadable)
		}
		if f.core {
			works = works || isNumber(v)
			if v.failed() {
				worst = v
			}
		}
	}
	if !works && worst != "" {
		return failureOf(worst.plain())
	}
	crossCheck(d)
	return nil
}

// fanField is the field of the fan speed.
const fanField = "fan.speed"

// crossCheck compares readings with each other.
func crossCheck(d *gpu.Device) {
	m := &d.Memory
	for _, part := range []*gpu.Reading[gpu.Bytes]{&m.Used, &m.Free, &m.Reserved} {
		*part = nvidia.Within(*part, m.Total)
	}
	d.Power.Draw = nvidia.Plausible(d.Power.Draw, d.Power.MaxLimit)
}
