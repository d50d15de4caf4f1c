package amd

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/drm"
)

// sensors are the card's sensors, with their labeled channels.
type sensors struct {
	*drm.Hwmon
	found                  bool
	edge, junction, memory drm.Channel // temperatures
	sclk, mclk             drm.Channel // clocks
}

// findSensors finds the card's sensors; without any, each reading is absent.
func (d *device) findSensors() sensors {
	c := d.card
	c.Device.Read = d.files.file
	hw, err := c.Hwmon(driver)
	if err != nil {
		none := func(string) ([]byte, error) { return nil, err }
		hw = &drm.Hwmon{Folder: drm.Folder{Path: c.Device.Path + "/hwmon", Read: none}}
	}
	return sensors{
		Hwmon: hw, found: err == nil,
		edge: sensor(hw, "temp", "edge", 1), junction: sensor(hw, "temp", "junction", 2), memory: sensor(hw, "temp", "mem", 3),
		sclk: sensor(hw, "freq", "sclk", 1), mclk: sensor(hw, "freq", "mclk", 2),
	}
}

// sensor returns the channel with a label or, if no channel has a label, the channel with a number.
func sensor(hw *drm.Hwmon, kind, label string, number int) drm.Channel {
	if c, ok := hw.Labeled(kind, label); ok {
		return c
	}
	for _, c := range hw.Channels(kind) {
		if c.Number == number && c.Label == "" {
			return c
		}
	}
	return drm.Channel{Number: -1} // no such file exists
}

// readLimits reads what hardly changes.
func (d *device) readLimits() {
	card, hw, r := d.driver(), &d.sensors, &d.readings
	die := hw.edge
	if die.Number < 0 {
		die = hw.junction
	}
	r.Thermal.Slowdown = hw.Limit(die.File("temp", "crit"))
	r.Thermal.Shutdown = hw.Limit(die.File("temp", "emergency"))
	r.Thermal.MemoryMax = hw.Limit(hw.memory.File("temp", "crit"))
	r.Thermal.Target = fanTarget(card)
	d.fastest = hw.RPM("fan1_max")

	r.Power.DefaultLimit = powerLimit(hw, "power1_cap_default")
	r.Power.MinLimit = powerLimit(hw, "power1_cap_min")
	r.Power.MaxLimit = powerLimit(hw, "power1_cap_max")

	r.Clocks.MaxGraphics = highest(card, "pp_dpm_sclk")
	r.Clocks.MaxSM = r.Clocks.MaxGraphics
	r.Clocks.MaxMemory = highest(card, "pp_dpm_mclk")
	r.Clocks.MaxVideo = highest(card, "pp_dpm_vclk")

	r.Memory.BAR1Total = card.Size("mem_info_vis_vram_total")
	d.readPages()
	d.nodes = append(append([]string{}, d.card.Nodes...), d.kfd.renderNodes()...)
	slices.Sort(d.nodes) // both lists have the card's own render node
	d.nodes = slices.Compact(d.nodes)
	r.Modes.ComputePartition, r.Modes.MemoryPartition = partitioning(card, "compute"), partitioning(card, "memory")
	r.Instances = d.kfd.instances(d.known(), r.Modes.ComputePartition)
	r.Modes.Instances = gpu.Map(r.Modes.ComputePartition, func(string) int { return len(r.Instances) })
	d.oneVideo = d.oneVideoEngine()
	d.signs = d.findSigns()
}

// powerLimit reads a power limit; 0 means none.
func powerLimit(hw *sensors, name string) gpu.Reading[gpu.Watts] {
	r := hw.Watts(name)
	if v, ok := r.Get(); ok && v == 0 {
		return gpu.Absent[gpu.Watts](gpu.NotSupported)
	}
	return r
}

// partitioning returns how an Instinct is divided: its engines ("SPX" for undivided, "CPX") or its "memory" ("NPS1").
func partitioning(card drm.Folder, what string) gpu.Reading[string] {
	const longest = 8
	switch mode, err := card.Text("current_" + what + "_partition"); {
	case err != nil:
		return gpu.Absent[string](drm.Quality(err))
	case mode == "" || len(mode) > longest || mode == "UNKNOWN":
		return gpu.Reading[string]{}
	default:
		return gpu.Of(mode)
	}
}

// oneVideoEngine reports whether one queue encodes and decodes, as from VCN 4 on: by the version that the chip reports and the driver
// keeps, otherwise by the card's architecture.
func (d *device) oneVideoEngine() bool {
	const vcn, rdna3, cdna3 = "ip_discovery/die/0/12/0", 110000, 90400
	if major, err := d.driver().In(vcn).Number("major"); err == nil {
		return major >= 4
	}
	target := d.kfd.target()
	return target >= rdna3 || target >= cdna3 && target < 100000
}

// fanTarget returns the temperature that the fan control aims at: the second line of the file, on products with overdrive on.
func fanTarget(card drm.Folder) gpu.Reading[gpu.Celsius] {
	text, err := card.Bytes("gpu_od/fan_ctrl/fan_target_temperature")
	if err != nil {
		return gpu.Absent[gpu.Celsius](drm.Quality(err))
	}
	lines := strings.Split(string(text), "\n")
	if len(lines) < 2 {
		return gpu.Reading[gpu.Celsius]{}
	}
	n, err := strconv.Atoi(strings.TrimSpace(lines[1]))
	return drm.Of(float64(n), err, 1, 1, drm.Hottest)
}

// A level is one line of a clock table, "1: 2304Mhz *". The star marks the level in use; "S: 19Mhz *" is a sleeping clock.
type level struct {
	clock gpu.Megahertz
	now   bool
}

func levels(table []byte) (all []level) {
	const most = 64
	for lines := bufio.NewScanner(bytes.NewReader(table)); lines.Scan() && len(all) < most; {
		_, rest, ok := strings.Cut(lines.Text(), ":")
		text, rest, _ := strings.Cut(strings.ToLower(strings.TrimSpace(rest)), "mhz")
		n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 32)
		if !ok || err != nil || gpu.Megahertz(n) > drm.FastestClock {
			continue
		}
		all = append(all, level{gpu.Megahertz(n), strings.Contains(rest, "*")})
	}
	return all
}

// highest returns the highest clock in a table.
func highest(card drm.Folder, name string) gpu.Reading[gpu.Megahertz] {
	table, err := card.Bytes(name)
	if err != nil {
		return gpu.Absent[gpu.Megahertz](drm.Quality(err))
	}
	var most gpu.Megahertz
	for _, l := range levels(table) {
		most = max(most, l.clock)
	}
	if most == 0 {
		return gpu.Absent[gpu.Megahertz](gpu.NotSupported) // an empty table
	}
	return gpu.Of(most)
}

// current returns the clock in use in a table.
func current(card drm.Folder, name string) gpu.Reading[gpu.Megahertz] {
	table, err := card.Bytes(name)
	if err != nil {
		return gpu.Absent[gpu.Megahertz](drm.Quality(err))
	}
	for _, l := range levels(table) {
		if l.now {
			return gpu.Of(l.clock)
		}
	}
	return gpu.Absent[gpu.Megahertz](gpu.NotSupported)
}

// readState reads what changes now and then: memory errors and displays.
func (d *device) readState() {
	d.readErrors()
	d.readings.Modes.DisplayActive = d.displays()
}

// displays reports whether a display server draws on one of the card's outputs. The kernel knows that without asking the card.
func (d *device) displays() gpu.Reading[bool] {
	dir := d.card.DRM()
	dir.Read = d.cfg.Read
	entries, err := os.ReadDir(dir.Path)
	if err != nil {
		return gpu.Absent[bool](drm.Quality(err))
	}
	outputs := gpu.Absent[bool](gpu.NotSupported)
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), d.card.Node()+"-") {
			continue
		}
		switch state, err := dir.In(e.Name()).Text("enabled"); {
		case err != nil:
			if !outputs.Present() {
				outputs = gpu.Absent[bool](drm.Quality(err))
			}
		case state == "enabled":
			return gpu.Of(true)
		default:
			outputs = gpu.Of(false)
		}
	}
	return outputs
}

// readErrors adds up the errors of all blocks with a counter: lines "ue: 0", "ce: 0".
func (d *device) readErrors() {
	ras, h := d.driver().In("ras"), &d.readings.Health
	h.CorrectedVolatile, h.UncorrectedVolatile = gpu.Absent[uint64](gpu.NotSupported), gpu.Absent[uint64](gpu.NotSupported)
	entries, err := os.ReadDir(ras.Path)
	if err != nil {
		q := drm.Quality(err)
		h.CorrectedVolatile, h.UncorrectedVolatile = gpu.Absent[uint64](q), gpu.Absent[uint64](q)
		return
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), "_err_count") {
			continue
		}
		text, err := ras.Bytes(e.Name())
		q := drm.Quality(err)
		if err == nil {
			q = gpu.NotReported // unless the lines exist
		}
		corrected, uncorrected := errorCounts(text)
		h.CorrectedVolatile = sum(h.CorrectedVolatile, corrected, q)
		h.UncorrectedVolatile = sum(h.UncorrectedVolatile, uncorrected, q)
	}
}

const mostErrors = 1 << 40 // in a plausible counter

// errorCounts parses a RAS file.
func errorCounts(text []byte) (corrected, uncorrected gpu.Reading[uint64]) {
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		key, value, _ := strings.Cut(lines.Text(), ":")
		n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 64)
		if err != nil || n > mostErrors {
			continue
		}
		switch strings.TrimSpace(key) {
		case "ce":
			corrected = gpu.Of(n)
		case "ue":
			uncorrected = gpu.Of(n)
		}
	}
	return corrected, uncorrected
}

// sum adds a counter. If one is missing, for the reason q, the sum of the others would be too low.
func sum(total, more gpu.Reading[uint64], q gpu.Quality) gpu.Reading[uint64] {
	v, ok := more.Get()
	switch before, known := total.Get(); {
	case ok && known && total.Quality() == gpu.Good:
		return gpu.Of(before + v)
	case known:
		return gpu.DoubtfulOf(before + v)
	case ok && total.Quality() == gpu.NotSupported:
		return gpu.Of(v)
	case ok:
		return gpu.DoubtfulOf(v)
	case q == gpu.NotSupported:
		return total
	default:
		return gpu.Absent[uint64](q)
	}
}

// readPages counts retired pages: lines "0x… : 0x… : R" for reserved pages, P for pending ones, F for pages that can't be reserved.
func (d *device) readPages() {
	h := &d.readings.Health
	text, err := d.driver().Bytes("ras/gpu_vram_bad_pages")
	if err != nil {
		q := drm.Quality(err)
		h.RetiredDoubleBit, h.RetirementPending = gpu.Absent[uint64](q), gpu.Absent[bool](q)
		return
	}
	retired, pending := badPages(text)
	h.RetiredDoubleBit, h.RetirementPending = gpu.Of(retired), gpu.Of(pending)
}

func badPages(text []byte) (retired uint64, pending bool) {
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		part := strings.Split(lines.Text(), ":")
		if len(part) != 3 || !strings.HasPrefix(strings.TrimSpace(part[0]), "0x") {
			continue
		}
		switch strings.TrimSpace(part[2]) {
		case "R", "F":
			retired++
		case "P":
			retired, pending = retired+1, true
		}
	}
	return retired, pending
}

// readLive reads what changes between readings.
func (d *device) readLive() {
	card, hw, r := d.driver(), &d.sensors, &d.readings
	m := d.metrics()
	r.Utilization.GPU = busy(card, m)
	r.Utilization.Memory = either(card.Percent("mem_busy_percent"), m.controller)

	r.Memory.Total = card.Size("mem_info_vram_total")
	r.Memory.Used = within(card.Size("mem_info_vram_used"), r.Memory.Total)
	r.Memory.Free = free(r.Memory)
	r.Memory.BAR1Used = within(card.Size("mem_info_vis_vram_used"), r.Memory.BAR1Total)
	r.Shared.Total = card.Size("mem_info_gtt_total")
	r.Shared.Used = within(card.Size("mem_info_gtt_used"), r.Shared.Total)
	if is := d.signs.integrated(d.format, r.Memory.Total, r.Shared.Total); is.Present() {
		d.unified = is // once known it stays, even if a file fails later
	}
	r.Shared.Unified, d.apu = d.unified, d.unified.Or(false)

	temperature := func(c drm.Channel) gpu.Reading[gpu.Celsius] { return hw.Celsius(c.File("temp", "input")) }
	r.Thermal.HotSpot = either(temperature(hw.junction), m.hotSpot)
	r.Thermal.GPU = either(temperature(hw.edge), m.edge)
	if hw.edge.Number < 0 && !r.Thermal.GPU.Present() {
		r.Thermal.GPU = r.Thermal.HotSpot
	}
	r.Thermal.Memory = either(temperature(hw.memory), m.memory)

	d.readFan(m)

	r.Power.EnforcedLimit = powerLimit(hw, "power1_cap")
	r.Power.Draw = plausible(either(draw(hw), m.power), r.Power.MaxLimit)
	if r.Power.Draw == gpu.Of[gpu.Watts](0) && r.Power.EnforcedLimit.Quality() == gpu.NotSupported {
		r.Power.Draw = gpu.Absent[gpu.Watts](gpu.NotSupported) // the second die of an MI250 reports 0 for both
	}
	r.Power.Energy = m.energy

	clock := func(c drm.Channel) gpu.Reading[gpu.Megahertz] { return hw.Hertz(c.File("freq", "input")) }
	r.Clocks.Graphics = orCurrent(either(clock(hw.sclk), m.graphics), card, "pp_dpm_sclk")
	r.Clocks.SM = r.Clocks.Graphics
	r.Clocks.Memory = orCurrent(either(clock(hw.mclk), m.memClock), card, "pp_dpm_mclk")
	r.Clocks.Video = orCurrent(m.video, card, "pp_dpm_vclk")
	r.Clocks.EventReasons = d.reasons(m)

	link := d.card.Link()
	r.PCIe.Generation, r.PCIe.MaxGeneration = either(link.Generation, m.generation), link.MaxGeneration
	r.PCIe.Width, r.PCIe.MaxWidth = either(link.Width, m.width), link.MaxWidth
	r.PCIe.Replays = m.replays
	if replays, err := card.Number("pcie_replay_count"); err == nil {
		r.PCIe.Replays = drm.Of[uint64](replays, nil, 1, 0, mostErrors)
	}
	if d.apu {
		r.PCIe = drm.NoSlot
	}
}

// busy returns the GPU's utilization as the driver reports it. It is NotSupported if no file has it or the file has no number: then the
// clients may show it, see [device.ofClients].
func busy(card drm.Folder, m metrics) gpu.Reading[gpu.Percent] {
	n, err := card.Number("gpu_busy_percent")
	if errors.Is(err, drm.ErrMalformed) && !m.gfx.Present() {
		return gpu.Absent[gpu.Percent](gpu.NotSupported)
	}
	return either(drm.Share(n, err), m.gfx)
}

// metrics reads the driver's table. If the table is missing or unknown, all its values are absent.
func (d *device) metrics() metrics {
	table, err := d.driver().Bytes("gpu_metrics")
	var m metrics
	if err == nil {
		d.format = cmp.Or(formatOf(table), d.format)
		m, err = parseMetrics(table)
		if err == nil {
			return m
		}
		if d.isDue("metrics", d.cfg.Clock.Now(), seldom) {
			d.log.Debug("the table gpu_metrics is not read", "err", err)
		}
		err = nil
	}
	q := gpu.NotSupported
	if err != nil {
		q = drm.Quality(err)
	}
	for _, group := range []any{
		&m.edge, &m.hotSpot, &m.memory, &m.gfx, &m.controller, &m.power, &m.energy, &m.graphics, &m.memClock, &m.video,
		&m.fan, &m.width, &m.generation, &m.replays, &m.reasons,
	} {
		gpu.Withdraw(group, q)
	}
	return m
}

// reasons returns what holds the clocks down: as the table says now, or what has held them down since the previous reading.
func (d *device) reasons(m metrics) gpu.Reading[gpu.ClockEventReasons] {
	before := d.counted
	d.counted = m.residencies
	if len(m.residencies) == 0 {
		return m.reasons
	}
	if len(before) != len(m.residencies) {
		return gpu.Reading[gpu.ClockEventReasons]{} // the first reading
	}
	var set gpu.ClockEventReasons
	for i, r := range m.residencies {
		if r.count != before[i].count && r.count != 0 {
			set |= r.reason
		}
	}
	return gpu.Of(set)
}

// readFan reads the fan, or the average of all of a card's fans, which the driver shows as one.
func (d *device) readFan(m metrics) {
	hw, r := &d.sensors, &d.readings
	if !hw.Has("fan1_input") && !hw.Has("pwm1") {
		r.Fans = gpu.Fans{Count: gpu.Absent[int](gpu.NotSupported), Combined: gpu.Absent[bool](gpu.NotSupported)}
		return
	}
	full, err := hw.Number("pwm1_max")
	if err != nil || full <= 0 {
		full = 255
	}
	asked, err := hw.Number("pwm1")
	fan := gpu.Fan{
		Commanded: drm.Share(100*asked/full, err),
		RPM:       upTo(d.fastest, either(hw.RPM("fan1_input"), m.fan)),
		Target:    gpu.Absent[gpu.Percent](gpu.NotSupported),
		Policy:    gpu.Absent[string](gpu.NotSupported),
	}
	switch mode, err := hw.Number("pwm1_enable"); {
	case err != nil:
		fan.Policy = gpu.Absent[string](drm.Quality(err))
	case mode == 2:
		fan.Policy = gpu.Of("automatic")
	case mode == 0 || mode == 1: // at full speed, or at a speed set by somebody
		fan.Policy = gpu.Of("manual")
	default:
		fan.Policy = gpu.Reading[string]{}
	}
	r.Fans = gpu.Fans{Count: gpu.Of(1), Fans: []gpu.Fan{fan}, Combined: gpu.Of(true)}
}

// upTo doubts a speed well above the fan's maximum as the driver reports it: fans differ by some percent. A maximum of 0 is none.
func upTo(most, speed gpu.Reading[gpu.RPM]) gpu.Reading[gpu.RPM] {
	const room = 1.1
	limit, known := most.Trusted()
	if v, ok := speed.Get(); ok && known && limit > 0 && v > room*limit {
		return gpu.DoubtfulOf(v)
	}
	return speed
}

// either returns the first reading, or the second if the first is unsupported or failed.
func either[T any](first, second gpu.Reading[T]) gpu.Reading[T] {
	if first.Present() || !second.Present() {
		return first
	}
	return second
}

// orCurrent returns the reading or, if it is unsupported, the clock in use in a table.
func orCurrent(r gpu.Reading[gpu.Megahertz], card drm.Folder, name string) gpu.Reading[gpu.Megahertz] {
	if r.Quality() != gpu.NotSupported {
		return r
	}
	return current(card, name)
}

// draw returns the average power over a short time or, if the product lacks it, the momentary power.
func draw(hw *sensors) gpu.Reading[gpu.Watts] {
	if mean := power(hw, "power1_average"); mean.Quality() != gpu.NotSupported {
		return mean
	}
	return power(hw, "power1_input")
}

// power is NotSupported if the file has an error as a number: Linux 6.5 wrote -22 as 4294967274.
func power(hw *sensors, name string) gpu.Reading[gpu.Watts] {
	const none, most = 1<<32 - 4096, 1<<32 - 1
	n, err := hw.Number(name)
	if err == nil && n >= none && n <= most {
		return gpu.Absent[gpu.Watts](gpu.NotSupported)
	}
	return drm.Of(n, err, 1e6, 0, drm.MostPower)
}

// within marks an amount above the whole as doubtful.
func within(r, whole gpu.Reading[gpu.Bytes]) gpu.Reading[gpu.Bytes] {
	v, ok := r.Get()
	if total, known := whole.Get(); ok && known && v > total {
		return gpu.DoubtfulOf(v)
	}
	return r
}

func free(m gpu.Memory) gpu.Reading[gpu.Bytes] {
	total, ok := m.Total.Trusted()
	used, ok2 := m.Used.Trusted()
	switch {
	case ok && ok2:
		return gpu.Of(total - used)
	case ok && !m.Used.Present():
		return gpu.Absent[gpu.Bytes](m.Used.Quality())
	case m.Total.Present():
		return gpu.Reading[gpu.Bytes]{}
	default:
		return gpu.Absent[gpu.Bytes](m.Total.Quality())
	}
}

// plausible marks a power draw far above the limit as doubtful. Short peaks above the limit are real.
func plausible(draw, most gpu.Reading[gpu.Watts]) gpu.Reading[gpu.Watts] {
	const far = 3
	v, ok := draw.Get()
	if limit, known := most.Trusted(); ok && known && limit > 0 && v > far*limit {
		return gpu.DoubtfulOf(v)
	}
	return draw
}
