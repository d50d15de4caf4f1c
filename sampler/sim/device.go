package sim

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// epoch is where the cycles are counted from.
var epoch = time.Date(2024, time.January, 1, 0, 0, 0, 0, time.UTC)

// A device is one simulated GPU. It never changes once its source is made.
type device struct {
	identity gpu.Identity
	product  *product
	pci      string
	slot     int // in its node: keeps pids apart
	displays bool

	seed     uint64 // of its schedule
	offset   time.Duration
	roster   []job
	tapes    []*tape // of the roster's jobs
	round    float64 // J: the energy of one round of the roster
	fails    bool    // a job of the roster has faults
	services []process

	instances  []gpu.Instance
	remapped   uint64
	errorEvery time.Duration // a corrected memory error now and then; 0: none

	started, booted time.Time
	driver          gpu.Reading[string]
	spent           float64 // J: by the tapes, from epoch until the machine was booted
}

func newDevice(profile string, index int, p *product, s site, roster []job, recorded tapes) *device {
	seed := mix(seedOf(profile), uint64(index))
	a, b := mix(seed, 1), mix(seed, 2)
	d := &device{
		product: p, slot: index, roster: roster, seed: seed,
		fails: slices.ContainsFunc(roster, func(j job) bool { return len(j.faults) > 0 }),
		tapes: recorded.of(p, s, roster),
		identity: gpu.Identity{
			UUID:         fmt.Sprintf("GPU-%08x-%04x-%04x-%04x-%012x", a>>32, a>>16&0xffff, a&0xffff, b>>48, b&0xffffffffffff),
			VendorIndex:  gpu.Of(index),
			Vendor:       gpu.NVIDIA,
			Source:       gpu.SourceSimulated,
			Name:         p.name,
			Architecture: gpu.Of(p.architecture),
			Serial:       gpu.Absent[string](gpu.NotSupported),
			VBIOS:        gpu.Of(p.vbios),
		},
	}
	if p.serial {
		d.identity.Serial = gpu.Of(fmt.Sprintf("165%010d", a%1e10))
	}
	if len(roster) > 1 && profile == "fleet" {
		d.offset = time.Duration(mix(seed, 3)%cycleSeconds) * time.Second
	}
	for _, t := range d.tapes {
		d.round += t.energy()
	}
	return d
}

// follow gives d the schedule of another device, so that they work together.
func (d *device) follow(other *device) { d.seed, d.offset = other.seed, other.offset }

// A moment is where a device is in its schedule.
type moment struct {
	number int64   // of the cycle, counted from epoch
	job    int     // in the roster
	second float64 // of the cycle
	begin  time.Time
}

func (d *device) moment(t time.Time) moment {
	number, in := floorDiv(int64(t.Sub(epoch)+d.offset), int64(cycle))
	_, played, place := d.playing(number)
	return moment{
		number: number,
		job:    played[place],
		second: float64(in) / float64(time.Second),
		begin:  t.Add(-time.Duration(in)),
	}
}

// playing returns the round that a cycle belongs to, the order of the jobs in
// it, and the cycle's place there.
func (d *device) playing(number int64) (round int64, order []int, place int) {
	round, rest := floorDiv(number, int64(len(d.roster)))
	var buf [maxRoster]int
	return round, shuffled(&buf, len(d.roster), d.seed, round), int(rest)
}

// energyAt is the energy that the device would have used since epoch.
func (d *device) energyAt(t time.Time) float64 {
	m := d.moment(t)
	round, order, place := d.playing(m.number)
	sum := float64(round) * d.round
	for _, j := range order[:place] {
		sum += d.tapes[j].energy()
	}
	return sum + d.tapes[m.job].at(m.second).energy
}

// fault returns the fault of the device, if it has one now, and otherwise when its last
// fault in this cycle or the one before ended.
func (d *device) fault(m moment) (f *fault, since time.Time) {
	if !d.fails {
		return nil, since
	}
	for i := range d.roster[m.job].faults {
		f := &d.roster[m.job].faults[i]
		if m.second < float64(f.from) {
			break
		}
		if m.second < float64(f.to) {
			return f, m.begin.Add(time.Duration(f.from) * time.Second)
		}
		since = m.begin.Add(time.Duration(f.to) * time.Second)
	}
	if !since.IsZero() {
		return nil, since
	}
	_, order, place := d.playing(m.number - 1)
	if faults := d.roster[order[place]].faults; len(faults) > 0 {
		since = m.begin.Add(-cycle + time.Duration(faults[len(faults)-1].to)*time.Second)
	}
	return nil, since
}

// read fills dev with what the device reports at a time.
func (d *device) read(dev *gpu.Device, now time.Time) {
	dev.Identity = d.identity
	dev.PCI = d.pci
	dev.DriverVersion = d.driver
	m := d.moment(now)
	f, since := d.fault(m)
	if f != nil {
		dev.State, dev.Since, dev.Reason = f.state, since, f.reason
		return
	}
	dev.State = gpu.StateOK
	dev.Since = since
	if since.Before(d.started) {
		dev.Since = d.started
	}
	if now.Before(d.started) {
		dev.Since = now
	}
	dev.SampledAt = now
	s := d.tapes[m.job].at(m.second)
	dev.Utilization = d.utilization(&s)
	dev.Encoding = d.encoding(&s)
	dev.Activity = d.activity(&s)
	dev.Thermal = d.thermal(&s)
	dev.Fans = d.fans(&s)
	dev.Power = d.power(&s, now)
	dev.Clocks = d.clocks(&s)
	dev.PCIe = d.pcie(&s, now)
	dev.Health = d.health(now)
	dev.Modes = d.modes()
	processes := d.processes(m, &s)
	dev.Memory = d.memory(processes)
	dev.Processes = gpu.Of(processes)
	dev.Instances = d.migInstances(processes)
}

// supported returns the value of a reading, not supported unless ok.
func supported[T any](ok bool, v T) gpu.Reading[T] {
	if !ok {
		return gpu.Absent[T](gpu.NotSupported)
	}
	return gpu.Of(v)
}

func (d *device) utilization(s *sample) gpu.Utilization {
	if d.instances != nil { // the classic call knows no MIG instances
		return gpu.AllAbsent[gpu.Utilization](gpu.NotSupported)
	}
	idle := supported(d.product.engines, gpu.Percent(0))
	return gpu.Utilization{
		GPU: gpu.Of(gpu.Percent(s.gpu)), Memory: gpu.Of(gpu.Percent(s.memory)),
		Encoder: gpu.Of(gpu.Percent(s.enc)), Decoder: gpu.Of(gpu.Percent(s.dec)),
		JPEG: idle, OFA: idle,
	}
}

// encoding is one session while the encoder works. Its frame rate follows the
// utilization of the encoder: some 240 frames a second at 75 %.
func (d *device) encoding(s *sample) gpu.Encoding {
	if d.instances != nil {
		return gpu.AllAbsent[gpu.Encoding](gpu.NotSupported)
	}
	if s.enc == 0 {
		return gpu.Encoding{Sessions: gpu.Of(0), FrameRate: gpu.Of[gpu.FramesPerSecond](0), Latency: gpu.Of[gpu.Microseconds](0)}
	}
	frames := math.Round(3.2 * float64(s.enc))
	return gpu.Encoding{
		Sessions:  gpu.Of(1),
		FrameRate: gpu.Of(gpu.FramesPerSecond(frames)),
		Latency:   gpu.Of(gpu.Microseconds(math.Round(1e6 / max(frames, 1)))),
	}
}

// activity follows the utilization of the device and the power of the work, which is
// high if the tensor cores do it.
func (d *device) activity(s *sample) gpu.Activity {
	if !d.product.counters || d.instances != nil {
		return gpu.AbsentActivity(gpu.NotSupported)
	}
	busy := float64(s.gpu)
	hard := min(max((float64(s.power)-d.product.heldIdle)/(d.product.full-d.product.heldIdle), 0), 1)
	sm := busy * (0.55 + 0.4*hard)
	part := func(v float64) gpu.Reading[gpu.Percent] { return gpu.Of(gpu.Percent(tenth(v))) }
	rate := func(megabytes float64) gpu.Reading[gpu.BytesPerSecond] {
		return gpu.Of(gpu.BytesPerSecond(math.Round(megabytes * 1e6)))
	}
	return gpu.Activity{
		Engine: part(busy), SM: part(sm), Occupancy: part(0.47 * sm),
		Tensor: part(0.62 * sm * hard), FP64: part(0), FP32: part(0.05 * sm), FP16: part(0.02 * sm), Integer: part(0.14 * sm),
		MemoryBandwidth: part(0.97 * float64(s.memory)),
		PCIeSent:        rate(0.5 + 2.3*busy), PCIeReceived: rate(0.5 + 12.5*busy),
		NVLinkSent: rate(430 * busy * hard), NVLinkReceived: rate(430 * busy * hard),
	}
}

func (d *device) memory(processes []gpu.Process) gpu.Memory {
	used := d.product.ownUse
	for i := range processes {
		used += processes[i].Memory.Or(0)
	}
	return memoryOf(d.product.total, d.product.reserved, used, d.product.bar1)
}

func memoryOf(total, reserved, used, bar1 gpu.Bytes) gpu.Memory {
	return gpu.Memory{
		Total: gpu.Of(total), Reserved: gpu.Of(reserved), Used: gpu.Of(used),
		Free:      gpu.Of(total - reserved - used),
		BAR1Total: gpu.Of(bar1), BAR1Used: gpu.Of(gpu.Bytes(2 * mib)),
	}
}

func (d *device) thermal(s *sample) gpu.Thermal {
	p := d.product
	temp := math.Floor(float64(s.temp))
	return gpu.Thermal{
		GPU:       gpu.Of(gpu.Celsius(temp)),
		HotSpot:   supported(p.hotSpot > 0, gpu.Celsius(math.Floor(float64(s.temp)+p.hotSpot*float64(s.power)/p.limit))),
		Memory:    supported(p.memoryMax > 0, gpu.Celsius(math.Floor(float64(s.memTemp)))),
		Slowdown:  gpu.Of(gpu.Celsius(p.slowdown)),
		Shutdown:  gpu.Of(gpu.Celsius(p.shutdown)),
		Target:    supported(p.target > 0, gpu.Celsius(p.target)),
		MemoryMax: supported(p.memoryMax > 0, gpu.Celsius(p.memoryMax)),
		Margin:    gpu.Of(gpu.Celsius(p.slowdown - temp)),
	}
}

func (d *device) fans(s *sample) gpu.Fans {
	p := d.product
	if p.fans == 0 {
		return gpu.Fans{Count: gpu.Absent[int](gpu.NotSupported)}
	}
	fans := make([]gpu.Fan, p.fans)
	for i := range fans {
		// Each fan turns half a percent slower than the one before.
		rpm := math.Round(float64(s.fan) / 100 * p.fanMax * (1 - 0.005*float64(i)))
		fans[i] = gpu.Fan{
			Commanded: gpu.Of(gpu.Percent(s.fan)),
			RPM:       gpu.Of(gpu.RPM(rpm)),
			Target:    gpu.Of(gpu.Percent(s.fanTarget)),
			Policy:    gpu.Of("automatic"),
		}
	}
	return gpu.Fans{Count: gpu.Of(p.fans), Fans: fans}
}

func (d *device) power(s *sample, now time.Time) gpu.Power {
	p := d.product
	milli := func(v float64) float64 { return math.Round(v*1000) / 1000 } // drivers report mW and mJ
	return gpu.Power{
		Draw:          gpu.Of(gpu.Watts(milli(float64(s.power)))),
		EnforcedLimit: gpu.Of(gpu.Watts(p.limit)),
		DefaultLimit:  gpu.Of(gpu.Watts(p.limit)),
		MinLimit:      gpu.Of(gpu.Watts(p.minLimit)),
		MaxLimit:      gpu.Of(gpu.Watts(p.maxLimit)),
		Energy:        gpu.Of(gpu.Joules(milli(max(0, d.energyAt(now)-d.spent)))),
	}
}

func (d *device) clocks(s *sample) gpu.Clocks {
	p := d.product
	memory, video := p.maxMemory, p.maxVideo*float64(s.clock)/p.boostClock
	switch s.pstate {
	case 8:
		memory, video = p.idleMemory, p.idleVideo
	case 5:
		memory, video = math.Round(p.maxMemory/13), p.idleVideo
	case 2:
		memory = p.computeMemory
	}
	graphics := gpu.Megahertz(s.clock)
	return gpu.Clocks{
		Graphics: gpu.Of(graphics), SM: gpu.Of(graphics),
		Memory:      gpu.Of(gpu.Megahertz(memory)),
		Video:       gpu.Of(gpu.Megahertz(max(p.idleVideo, math.Floor(video/15)*15))),
		MaxGraphics: gpu.Of(gpu.Megahertz(p.maxClock)), MaxSM: gpu.Of(gpu.Megahertz(p.maxClock)),
		MaxMemory:        gpu.Of(gpu.Megahertz(p.maxMemory)),
		MaxVideo:         gpu.Of(gpu.Megahertz(p.maxVideo)),
		PerformanceState: gpu.Of(int(s.pstate)),
		EventReasons:     gpu.Of(s.reasons),
	}
}

func (d *device) pcie(s *sample, now time.Time) gpu.PCIe {
	p := d.product
	generation := p.pcieGen
	if s.pstate >= gpu.RestsFrom {
		generation = 1 // the link saves power too
	}
	return gpu.PCIe{
		Generation: gpu.Of(generation), MaxGeneration: gpu.Of(p.pcieGen),
		Width: gpu.Of(p.pcieWidth), MaxWidth: gpu.Of(p.pcieWidth),
		Replays: gpu.Of(uint64(max(0, now.Sub(d.booted)/(90*time.Hour)))),
	}
}

func (d *device) health(now time.Time) gpu.Health {
	h := gpu.AllAbsent[gpu.Health](gpu.NotSupported) // such as retired pages, which older products have
	h.XIDs = gpu.Reading[[]gpu.XID]{}
	if !d.product.ecc {
		return h
	}
	var corrected uint64
	if d.errorEvery > 0 {
		corrected = uint64(max(0, now.Sub(d.booted)/d.errorEvery))
	}
	h.ECCMode, h.ECCModePending = gpu.Of(true), gpu.Of(true)
	h.CorrectedVolatile, h.UncorrectedVolatile = gpu.Of(corrected), gpu.Of[uint64](0)
	h.CorrectedAggregate, h.UncorrectedAggregate = gpu.Of(corrected+3*d.remapped), gpu.Of[uint64](0)
	h.RemappedCorrectable, h.RemappedUncorrectable = gpu.Of(d.remapped), gpu.Of[uint64](0)
	h.RemapPending, h.RemapFailed = gpu.Of(false), gpu.Of(false)
	return h
}

func (d *device) modes() gpu.Modes {
	return gpu.Modes{
		Persistence:   gpu.Of(!d.displays), // servers run the persistence daemon
		Compute:       gpu.Of("default"),
		MIG:           supported(d.product.mig, d.instances != nil),
		MIGPending:    supported(d.product.mig, d.instances != nil),
		DisplayActive: gpu.Of(d.displays),
	}
}

// alive yields the device's processes, each with a number of its own.
func (d *device) alive(m moment) iter.Seq2[*process, int] {
	return func(yield func(*process, int) bool) {
		number := 0
		for _, list := range [...][]process{d.services, d.roster[m.job].processes} {
			for i := range list {
				if list[i].at(m.second) && !yield(&list[i], number) {
					return
				}
				number++
			}
		}
	}
}

// processes lists the processes with a context on the device, busiest first.
func (d *device) processes(m moment, s *sample) []gpu.Process {
	out := make([]gpu.Process, 0, len(d.services)+len(d.roster[m.job].processes))
	var shares float64
	for p := range d.alive(m) {
		shares += p.share
	}
	for p, i := range d.alive(m) {
		out = append(out, d.process(p, i, m, s, p.share/max(shares, 1e-9)))
	}
	slices.SortStableFunc(out, func(a, b gpu.Process) int {
		return cmp.Or(
			-cmp.Compare(a.SM.Or(0), b.SM.Or(0)),
			-cmp.Compare(a.Memory.Or(0), b.Memory.Or(0)),
			cmp.Compare(a.PID, b.PID))
	})
	return out
}

func (d *device) process(p *process, i int, m moment, s *sample, share float64) gpu.Process {
	part := func(v float32) gpu.Reading[gpu.Percent] {
		return supported(d.instances == nil, gpu.Percent(math.Floor(float64(v)*share)))
	}
	out := gpu.Process{
		PID: d.pid(p, i, m), Type: p.kind, Memory: gpu.Of(p.holds(m.second)),
		SM: part(s.gpu), MemoryBandwidth: part(s.memory),
		Encoder: part(0), Decoder: part(0),
		GPUInstance: gpu.Absent[int](gpu.NotSupported), ComputeInstance: gpu.Absent[int](gpu.NotSupported),
	}
	if p.remains {
		out.PID = d.pid(&d.roster[m.job].processes[0], len(d.services), m)
		out.Facts.Exists = gpu.Of(false)
		return out
	}
	out.Facts = gpu.ProcessFacts{
		Name: gpu.Of(p.name), User: gpu.Of(p.user), Command: gpu.Of(p.command),
		Started: gpu.Of(d.startOf(p, i, m)),
		CPU:     gpu.Of(gpu.Percent(cpuOf(p, s))),
		RSS:     gpu.Of(p.rss),
		Exists:  gpu.Of(true),
	}
	p.in.tell(&out.Facts, d.slurmJob(p, m))
	if p.kind == gpu.TypeCompute && (s.enc > 0 || s.dec > 0) {
		out.Encoder, out.Decoder = gpu.Of(gpu.Percent(s.enc)), gpu.Of(gpu.Percent(s.dec))
	}
	if p.instance > 0 {
		out.GPUInstance, out.ComputeInstance = gpu.Of(p.instance), gpu.Of(0)
	}
	return out
}

// cpuOf is what the process uses of one core, in percent, to a tenth.
func cpuOf(p *process, s *sample) float64 {
	return tenth(p.cpuIdle + (p.cpu-p.cpuIdle)*float64(s.gpu)/100)
}

// pid never changes while the process lives, and no other process of its node has it.
func (d *device) pid(p *process, i int, m moment) int {
	slot := int64(d.slot%8*8 + i)
	if p.service() {
		return int(1200 + 17*slot)
	}
	_, generation := floorDiv(m.number, 60_000)
	return int(4000 + 64*generation + slot)
}

// slurmJob is the number of the Slurm job on the device, and on all devices with the same
// schedule.
func (d *device) slurmJob(p *process, m moment) int {
	number := uint64(m.number)
	if p.service() {
		number = 0
	}
	return 100_000 + int(mix(d.seed, number)%900_000)
}

// startOf is in clock ticks of 10 ms, as the kernel counts.
func (d *device) startOf(p *process, i int, m moment) time.Time {
	late := time.Duration(mix(d.seed, uint64(i))%100) * 10 * time.Millisecond
	if p.service() {
		return d.booted.Add(9*time.Second + time.Duration(i)*3*time.Second + late)
	}
	// The first second of its life is not full: it starts a little earlier.
	return m.begin.Add(time.Duration(p.from)*time.Second - late).Truncate(10 * time.Millisecond)
}

// migInstances divides an H100 into three instances, as "nvidia-smi mig -cgi 9,14,19"
// does.
func migInstances(parent string) []gpu.Instance {
	profiles := [...]struct {
		name              string
		id                int
		memory            gpu.Bytes
		multiprocessors   int
		compute, memories int
	}{
		{"3g.40gb", 1, 40448 * mib, 60, 3, 4},
		{"2g.20gb", 5, 20096 * mib, 32, 2, 2},
		{"1g.10gb", 13, 9984 * mib, 16, 1, 1},
	}
	out := make([]gpu.Instance, len(profiles))
	for i, p := range profiles {
		a := mix(seedOf(parent), uint64(p.id))
		out[i] = gpu.Instance{
			UUID:        fmt.Sprintf("MIG-%08x-%04x-5%03x-%04x-%012x", a>>32, a>>16&0xffff, a&0xfff, 0x8000|a>>20&0x3fff, mix(a, 1)&0xffffffffffff),
			Name:        h100.name + " MIG " + p.name,
			GPUInstance: gpu.Of(p.id), ComputeInstance: gpu.Of(0),
			Memory:            memoryOf(p.memory, 0, 0, 0),
			Multiprocessors:   gpu.Of(p.multiprocessors),
			MemorySlices:      gpu.Of(p.memories),
			ComputeSliceCount: gpu.Of(p.compute),
		}
	}
	return out
}

// migInstances returns the instances with the memory that processes use in each.
func (d *device) migInstances(processes []gpu.Process) []gpu.Instance {
	if d.instances == nil {
		return nil
	}
	out := slices.Clone(d.instances)
	for i := range out {
		in := &out[i]
		used := gpu.Bytes(12 * mib)
		for k := range processes {
			if processes[k].GPUInstance == in.GPUInstance {
				used += processes[k].Memory.Or(0)
			}
		}
		total := in.Memory.Total.Or(0)
		bar1 := total / (128 * mib) * (128 * mib)
		in.Memory = memoryOf(total, 0, used, bar1)
	}
	return out
}
