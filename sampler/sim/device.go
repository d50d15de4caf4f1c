package sim

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// epoch is the start of cycle 0.
var epoch = time.Date(2024, time.January, 1, 0, 0, 0, 0, time.UTC)

// A device is one simulated GPU. It never changes once its source is made.
type device struct {
	identity gpu.Identity
	fixed    gpu.Readings // readings that never change, or are not reported
	product  *product
	slot     int // index in its node: keeps pids apart

	seed   uint64 // of its schedule
	offset time.Duration
	roster []*tape // of its jobs
	round  float64 // J: the energy of one round of the roster
	fails  bool    // a job of the roster has faults

	card      *card
	instances []gpu.Instance

	started, booted time.Time
	spent           float64 // J: by the tapes, from epoch until the machine booted
}

// newDevice makes a device from a card; index is its number in the profile, slot in its machine.
func newDevice(profile string, index, slot, grain int, c *card, recorded tapes) *device {
	p := inStock().Products[c.Product]
	seed := mix(seedOf(profile), uint64(index))
	a, b := mix(seed, 1), mix(seed, 2)
	d := &device{
		product: p, slot: slot, seed: seed, card: c,
		identity: gpu.Identity{
			UUID:         fmt.Sprintf("GPU-%08x-%04x-%04x-%04x-%012x", a>>32, a>>16&0xffff, a&0xffff, b>>48, b&0xffffffffffff),
			VendorIndex:  gpu.Of(slot),
			Vendor:       gpu.NVIDIA,
			Source:       gpu.SourceSimulated,
			Name:         p.Name,
			PCI:          c.PCI,
			Architecture: gpu.Of(p.Architecture),
			Serial:       supported(p.Has.Serial, fmt.Sprintf("165%010d", a%1e10)),
			VBIOS:        gpu.Of(p.VBIOS),
		},
	}
	if c.MIG {
		d.instances = p.divide(d.identity.UUID)
	}
	d.fixed = d.fixedReadings()
	for _, name := range c.Jobs {
		d.add(inStock().Jobs[name], c, grain, recorded)
	}
	if len(d.roster) > 1 && profile == "fleet" {
		d.offset = time.Duration(mix(seed, 3)%cycleSeconds) * time.Second
	}
	return d
}

// add adds a job to the roster, in smaller batches if it does not fit into the memory.
func (d *device) add(j job, c *card, grain int, recorded tapes) {
	key := tapeKey{c.Product, c.Site, j.name, grain}
	if recorded[key] == nil {
		j.Processes = slices.Concat(c.Services, j.Processes)
		m := &d.product.Always.Memory
		room := (m.Total.Or(0) - m.Reserved.Or(0) - m.Used.Or(0) - 512*mib) &^ (pageSize - 1)
		for i := range j.Processes {
			p := &j.Processes[i]
			p.Memory = gpu.Of(min(p.Memory.Or(0), room))
			p.complete()
		}
		s := inStock().Sites[c.Site]
		s.grain = grain
		recorded[key] = record(d.product, s, &j)
	}
	d.roster = append(d.roster, recorded[key])
	d.round += recorded[key].energy()
	d.fails = d.fails || len(j.Faults) > 0
}

// A moment is a device's position in its schedule.
type moment struct {
	number int64   // of the cycle, counted from epoch
	round  int64   // of the roster
	order  order   // of the jobs in this round
	place  int     // in the order
	tape   *tape   // of the job
	second float64 // of the cycle
	begin  time.Time
}

func (d *device) moment(t time.Time) moment {
	number, in := floorDiv(int64(t.Sub(epoch)+d.offset), int64(cycle))
	round, place := floorDiv(number, int64(len(d.roster)))
	m := moment{number: number, round: round, order: shuffled(len(d.roster), d.seed, round), place: int(place)}
	m.tape = d.roster[m.order[place]]
	m.second, m.begin = float64(in)/float64(time.Second), t.Add(-time.Duration(in))
	return m
}

// energyBefore returns the energy that the device would have used between epoch and the start of its cycle.
func (d *device) energyBefore(m *moment) float64 {
	sum := float64(m.round) * d.round
	for _, j := range m.order[:m.place] {
		sum += d.roster[j].energy()
	}
	return sum
}

// fault returns the device's fault and its beginning, or when the last one ended recently.
func (d *device) fault(m *moment) (f *fault, since time.Time) {
	if !d.fails {
		return nil, since
	}
	for i := range m.tape.job.Faults {
		f := &m.tape.job.Faults[i]
		if m.second < float64(f.From) {
			break
		}
		if m.second < float64(f.To) {
			return f, m.begin.Add(time.Duration(f.From) * time.Second)
		}
		since = m.begin.Add(time.Duration(f.To) * time.Second)
	}
	if !since.IsZero() {
		return nil, since
	}
	before := d.moment(m.begin.Add(-1))
	if faults := before.tape.job.Faults; len(faults) > 0 {
		since = m.begin.Add(-cycle + time.Duration(faults[len(faults)-1].To)*time.Second)
	}
	return nil, since
}

// read fills in a zero device.
func (d *device) read(dev *gpu.Device, m *moment, now time.Time) {
	f, since := d.fault(m)
	dev.Identity = d.identity
	if f != nil {
		dev.State, dev.Since, dev.Reason = f.State, since, f.Reason
		if f.State == gpu.StateNotAnswering {
			dev.Reason.Err = gpu.ErrNotAnswering
		}
		return
	}
	if since.Before(d.started) {
		since = d.started
	}
	if now.Before(since) {
		since = now
	}
	dev.State, dev.Since, dev.SampledAt, dev.Readings = gpu.StateOK, since, now, d.fixed
	s := m.tape.sampleAt(m.second)
	if d.instances == nil { // the classic calls don't know MIG instances
		d.readWork(dev, &s)
	}
	d.readHeat(dev, &s)
	d.readClocks(dev, &s)
	dev.Power.Draw = gpu.Of(gpu.Watts(milli(float64(s.power))))
	dev.Power.Energy = gpu.Of(gpu.Joules(milli(max(0, d.energyBefore(m)+s.energy-d.spent))))
	dev.PCIe.Replays = gpu.Of(d.happened(90*time.Hour, now))
	if dev.Health.ECCMode.Present() {
		corrected := d.happened(time.Duration(d.card.ErrorEvery)*time.Second, now)
		dev.Health.CorrectedVolatile = gpu.Of(corrected)
		dev.Health.CorrectedAggregate = gpu.Of(corrected + 3*d.card.Remapped)
	}
	processes := d.processes(m, &s)
	dev.Memory = occupied(dev.Memory, processes, func(*gpu.Process) bool { return true })
	dev.Processes, dev.ProcessesPartial = gpu.Of(processes), gpu.Of(false)
	dev.Instances = d.usedInstances(processes, &s)
	dev.Modes.Instances = gpu.Map(dev.Modes.MIG, func(bool) int { return len(dev.Instances) })
	dev.CountProcesses()
}

// supported returns a reading of a value, NotSupported unless ok.
func supported[T any](ok bool, v T) gpu.Reading[T] {
	if !ok {
		return gpu.Absent[T](gpu.NotSupported)
	}
	return gpu.Of(v)
}

func percent[T float32 | float64](v T) gpu.Reading[gpu.Percent] { return gpu.Of(gpu.Percent(v)) }

func celsius(v float64) gpu.Reading[gpu.Celsius] { return gpu.Of(gpu.Celsius(v)) }

func megahertz(v float64) gpu.Reading[gpu.Megahertz] { return gpu.Of(gpu.Megahertz(v)) }

// milli rounds to thousandths: drivers report mW and mJ.
func milli(v float64) float64 { return math.Round(v*1000) / 1000 }

// happened returns how often something has happened since the machine booted; every 0: never.
func (d *device) happened(every time.Duration, now time.Time) uint64 {
	if every == 0 {
		return 0
	}
	return uint64(max(0, now.Sub(d.booted)/every))
}

// fixedReadings returns limits, modes and what the device does not report.
func (d *device) fixedReadings() gpu.Readings {
	r := d.product.Always
	if r.Health.ECCMode.Present() {
		r.Health.RemappedCorrectable = gpu.Of(d.card.Remapped)
	}
	if d.card.MIG {
		r.Modes.MIG, r.Modes.MIGPending = gpu.Of(true), gpu.Of(true)
	}
	r.NVLink = d.product.Has.NVLinks.read()
	r.Shared.Unified, r.Modes.Virtualization = gpu.Of(false), gpu.Of("none")
	r.Fans.Combined = gpu.Map(r.Fans.Count, func(int) bool { return false })
	// Servers run the persistence daemon.
	r.Modes.Persistence, r.Modes.DisplayActive = gpu.Of(!d.card.Displays), gpu.Of(d.card.Displays)
	return r
}

// read returns the links, which are active and have no errors.
func (l *links) read() gpu.NVLink {
	out := gpu.NVLink{Count: supported(l.Count > 0, l.Count)}
	for i := range l.Count {
		zero := gpu.Of[uint64](0)
		out.Links = append(out.Links, gpu.Link{
			Index: i, Active: gpu.Of(true), Version: gpu.Of(l.Version), Speed: gpu.Of(gpu.BytesPerSecond(l.Speed)),
			Peer: gpu.Of("switch"), PeerPCI: gpu.Of(l.Switches[i%len(l.Switches)]),
			CRCFlit: zero, CRCData: zero, Replays: zero, Recoveries: zero,
		})
	}
	return out
}

// readWork sets how busy the chip is. A session of the encoder has 240 frames a second at 75 %.
func (d *device) readWork(dev *gpu.Device, s *sample) {
	dev.Utilization = gpu.Utilization{
		GPU: percent(s.gpu), Memory: percent(s.memory), Encoder: percent(s.enc), Decoder: percent(s.dec),
		JPEG: percent(0.0), OFA: percent(0.0), Video: gpu.Absent[gpu.Percent](gpu.NotSupported),
	}
	var sessions int
	var frames, latency float64
	if s.enc > 0 {
		sessions, frames = 1, math.Round(3.2*float64(s.enc))
		latency = math.Round(1e6 / max(frames, 1))
	}
	dev.Encoding = gpu.Encoding{
		Sessions:  gpu.Of(sessions),
		FrameRate: gpu.Of(gpu.FramesPerSecond(frames)),
		Latency:   gpu.Of(gpu.Microseconds(latency)),
	}
	if d.product.Has.Counters {
		dev.Activity = d.activity(s)
	}
}

// activity follows the utilization and the power, which is high if the tensor cores work.
func (d *device) activity(s *sample) gpu.Activity {
	busy, p := float64(s.gpu), &d.product.Power
	hard := min(max((float64(s.power)-p.Held)/(p.Full-p.Held), 0), 1)
	sm := busy * (0.55 + 0.4*hard)
	part := func(v float64) gpu.Reading[gpu.Percent] { return percent(tenth(v)) }
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

// occupied returns the memory of a device or instance including its processes.
func occupied(m gpu.Memory, processes []gpu.Process, own func(*gpu.Process) bool) gpu.Memory {
	used := m.Used.Or(0)
	for i := range processes {
		if own(&processes[i]) {
			used += processes[i].Memory.Or(0)
		}
	}
	m.Used, m.Free = gpu.Of(used), gpu.Of(m.Total.Or(0)-m.Reserved.Or(0)-used)
	m.BAR1Used = gpu.Of[gpu.Bytes](2 * mib)
	return m
}

// readHeat sets the temperatures and the fans.
func (d *device) readHeat(dev *gpu.Device, s *sample) {
	p, t := d.product, &dev.Thermal
	temp := math.Floor(float64(s.temp))
	t.GPU, t.Margin = celsius(temp), celsius(float64(t.Slowdown.Or(0))-temp)
	if p.Heat.HotSpot > 0 {
		t.HotSpot = celsius(math.Floor(float64(s.temp) + p.Heat.HotSpot*float64(s.power)/p.limit()))
	}
	if t.MemoryMax.Present() {
		t.Memory = celsius(math.Floor(float64(s.memTemp)))
	}
	for i := range p.fans() {
		// Each fan turns half a percent slower than the previous one.
		rpm := math.Round(float64(s.rpm) * (1 - 0.005*float64(i)))
		dev.Fans.Fans = append(dev.Fans.Fans, gpu.Fan{
			Commanded: percent(s.fan), RPM: gpu.Of(gpu.RPM(rpm)), Target: percent(s.fanTarget), Policy: gpu.Of("automatic"),
		})
	}
}

// readClocks sets the clocks and the PCIe generation, which is lowered to save power too.
func (d *device) readClocks(dev *gpu.Device, s *sample) {
	p, c := d.product, &dev.Clocks
	memory, video := float64(c.MaxMemory.Or(0)), float64(c.MaxVideo.Or(0))*float64(s.clock)/p.Graphics.Boost
	switch s.pstate {
	case 8:
		memory, video = p.MemoryClock.Idle, p.Video.Idle
	case 5:
		memory, video = math.Round(memory/13), p.Video.Idle
	case 2:
		memory = p.MemoryClock.Compute
	}
	c.Graphics, c.SM = megahertz(float64(s.clock)), megahertz(float64(s.clock))
	c.Memory, c.Video = megahertz(memory), megahertz(max(p.Video.Idle, math.Floor(video/15)*15))
	c.PerformanceState, c.EventReasons = gpu.Of(int(s.pstate)), gpu.Of(s.reasons)
	dev.PCIe.Generation = dev.PCIe.MaxGeneration
	if s.pstate >= gpu.RestsFrom {
		dev.PCIe.Generation = gpu.Of(1)
	}
}

// processes lists the processes with a context on the device, busiest first.
func (d *device) processes(m *moment, s *sample) []gpu.Process {
	list := m.tape.job.Processes
	var alive int
	var shares float64
	for i := range list {
		if list[i].runsAt(m.second) {
			alive++
			shares += list[i].Share
		}
	}
	out := make([]gpu.Process, 0, alive)
	for i := range list {
		if p := &list[i]; p.runsAt(m.second) {
			out = append(out, p.Process)
			d.run(&out[len(out)-1], p, i, m, s, p.Share/max(shares, 1e-9))
		}
	}
	slices.SortStableFunc(out, func(a, b gpu.Process) int {
		return cmp.Or(
			-cmp.Compare(a.SM.Or(0), b.SM.Or(0)),
			-cmp.Compare(a.Memory.Or(0), b.Memory.Or(0)),
			cmp.Compare(a.PID, b.PID))
	})
	return out
}

// run sets the changing facts of a process.
func (d *device) run(out *gpu.Process, p *process, i int, m *moment, s *sample, share float64) {
	part := func(v float32) gpu.Reading[gpu.Percent] {
		return supported(d.instances == nil, gpu.Percent(math.Floor(float64(v)*share)))
	}
	out.PID, out.Memory, out.SM, out.MemoryBandwidth = d.pid(p, i, m), gpu.Of(p.holds(m.second)), part(s.gpu), part(s.memory)
	out.Encoder, out.Decoder, out.Video = part(0), part(0), gpu.Absent[gpu.Percent](gpu.NotSupported)
	if p.Remains {
		out.PID = d.pid(&m.tape.job.Processes[0], 0, m)
		return
	}
	out.Facts.Started, out.Facts.CPU = gpu.Of(d.startOf(p, i, m)), percent(cpuOf(p, s))
	if p.Step != "" {
		out.Facts.Job = gpu.Of(gpu.Job{ID: d.slurmJob(p, m), Step: p.Step})
	}
	if p.Type == gpu.TypeCompute && (s.enc > 0 || s.dec > 0) {
		out.Encoder, out.Decoder = percent(s.enc), percent(s.dec)
	}
}

// cpuOf returns the process's usage of one core, in percent, rounded to a tenth.
func cpuOf(p *process, s *sample) float64 {
	return tenth(p.CPU.Idle + (p.CPU.Busy-p.CPU.Idle)*float64(s.gpu)/100)
}

// pid never changes during the process's life, and no other process of its node has it.
func (d *device) pid(p *process, i int, m *moment) int {
	slot := int64(d.slot%8*8 + i)
	if p.service() {
		return int(1200 + 17*slot)
	}
	_, generation := floorDiv(m.number, 60_000)
	return int(4000 + 64*generation + slot)
}

// slurmJob returns the number of the Slurm job on all devices with the same schedule.
func (d *device) slurmJob(p *process, m *moment) int {
	number := uint64(m.number)
	if p.service() {
		number = 0
	}
	return 100_000 + int(mix(d.seed, number)%900_000)
}

// startOf returns the start in clock ticks of 10 ms, as the kernel counts.
func (d *device) startOf(p *process, i int, m *moment) time.Time {
	late := time.Duration(mix(d.seed, uint64(i))%100) * 10 * time.Millisecond
	if p.service() {
		return d.booted.Add(9*time.Second + time.Duration(i)*3*time.Second + late)
	}
	// Its first second is not complete: it starts a little earlier.
	return m.begin.Add(time.Duration(p.From)*time.Second - late).Truncate(10 * time.Millisecond)
}

// divide divides a device into MIG instances.
func (p *product) divide(parent string) []gpu.Instance {
	out := slices.Clone(p.Instances)
	for i := range out {
		in := &out[i]
		a := mix(seedOf(parent), uint64(in.GPUInstance.Or(0)))
		b := mix(a, 1) & 0xffffffffffff
		in.UUID = fmt.Sprintf("MIG-%08x-%04x-5%03x-%04x-%012x", a>>32, a>>16&0xffff, a&0xfff, 0x8000|a>>20&0x3fff, b)
		in.Profile, in.Name = gpu.Of(in.Name), p.Name+" MIG "+in.Name
		none := gpu.Absent[gpu.Percent](gpu.NotSupported)
		in.Engine, in.SM, in.Tensor, in.MemoryBandwidth = none, none, none, none
	}
	return out
}

// usedInstances returns the instances with the processes' usage of each.
func (d *device) usedInstances(processes []gpu.Process, s *sample) []gpu.Instance {
	out := slices.Clone(d.instances)
	for i := range out {
		in := &out[i]
		if d.product.Has.Counters {
			var a gpu.Activity // of an instance without processes
			for _, r := range []*gpu.Reading[gpu.Percent]{&a.Engine, &a.SM, &a.Tensor, &a.MemoryBandwidth} {
				*r = percent(0.0)
			}
			if slices.ContainsFunc(processes, func(p gpu.Process) bool { return p.GPUInstance == in.GPUInstance }) {
				a = d.activity(s)
			}
			in.Engine, in.SM, in.Tensor, in.MemoryBandwidth = a.Engine, a.SM, a.Tensor, a.MemoryBandwidth
		}
		in.Memory = occupied(in.Memory, processes, func(p *gpu.Process) bool { return p.GPUInstance == in.GPUInstance })
	}
	return out
}
