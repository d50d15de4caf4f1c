package sim

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// nodeHost is a node of a fleet: built like all, and used in its own way.
func nodeHost(h host, number int) host {
	h.Name = fmt.Sprintf("%s-%03d", h.Name, number)
	seed := seedOf(h.Name)
	part := func(which uint64) float64 { return 0.55 + 0.4*signed(mix(seed, which)) }
	h.Disks, h.Networks = slices.Clone(h.Disks), slices.Clone(h.Networks)
	system, scratch := &h.Disks[0], &h.Disks[1]
	system.Used, scratch.Used = size(float64(system.Used)*part(2)), size(float64(scratch.Used)*part(4))
	h.Busy *= part(1)
	system.Write *= part(3)
	scratch.Read *= part(5)
	scratch.Write *= part(6)
	for i := range h.Networks {
		h.Networks[i].Received *= part(uint64(7 + 2*i))
		h.Networks[i].Sent *= part(uint64(8 + 2*i))
	}
	return h
}

func (s *Source) readHost(now time.Time) *gpu.Host {
	h := &s.host
	up := max(0, now.Sub(s.booted))
	total, used := gpu.Bytes(h.Memory), gpu.Bytes(h.Used)+s.resident(now)
	cards := len(s.devices)
	out := &gpu.Host{
		Hostname: h.Name, OS: h.OS, Kernel: h.Kernel, Uptime: gpu.Of(up.Truncate(time.Second)),
		CPUModel: gpu.Of(h.CPU), Cores: gpu.Of(h.Cores),
		CPU:         percent(tenth(100 * s.busyCores(now) / float64(h.Cores))),
		Load1:       gpu.Of(s.load(now, time.Minute)),
		Load5:       gpu.Of(s.load(now, 5*time.Minute)),
		Load15:      gpu.Of(s.load(now, 15*time.Minute)),
		MemoryTotal: gpu.Of(total), MemoryUsed: gpu.Of(used), MemoryAvailable: gpu.Of(total - used),
		SwapTotal: gpu.Of(gpu.Bytes(h.Swap)), SwapUsed: gpu.Of(gpu.Bytes(h.Swap / 64)),
		Self: gpu.Self{CPU: percent(tenth(0.4 + 0.002*float64(cards))), RSS: gpu.Of(gpu.Bytes(24*mib + cards*16<<10))},
	}
	for _, d := range h.Disks {
		out.Disks = append(out.Disks, gpu.Disk{
			Device: d.Device, Mount: d.Mount, FileSystem: d.FileSystem,
			Total: gpu.Of(gpu.Bytes(d.Total)), Used: gpu.Of(gpu.Bytes(d.Used)),
			Read: flow(d.Read, up), Write: flow(d.Write, up),
		})
	}
	for _, n := range h.Networks {
		out.Networks = append(out.Networks, gpu.Interface{
			Name:     n.Name,
			Received: flow(n.Received, up), Sent: flow(n.Sent, up),
			ReceivedTotal: flowed(n.Received, up), SentTotal: flowed(n.Sent, up),
		})
	}
	return out
}

// eachProcess calls f with each process that a readable device lists.
func (s *Source) eachProcess(now time.Time, f func(p *process, at *sample)) {
	for _, d := range s.devices {
		m := d.moment(now)
		if fault, _ := d.fault(m); fault != nil {
			continue
		}
		for _, p := range d.alive(m) {
			f(p, &d.tapes[m.job][int(m.second)])
		}
	}
}

// busyCores is the number of cores with work.
func (s *Source) busyCores(now time.Time) float64 {
	_, second := floorDiv(now.Unix(), cycleSeconds)
	busy := s.host.Busy * (1 + 0.4*wobble(seedOf(s.host.Name), int(second)))
	s.eachProcess(now, func(p *process, at *sample) { busy += cpuOf(p, at) / 100 })
	return min(busy, float64(s.host.Cores))
}

// load is the average number of busy cores over that time, from a few samples.
func (s *Source) load(now time.Time, over time.Duration) float64 {
	const looks = 5
	var sum float64
	for i := range looks {
		sum += s.busyCores(now.Add(-over * time.Duration(i) / looks))
	}
	return math.Round(sum/looks*100) / 100
}

// resident is the host memory of the processes with a context on a device.
func (s *Source) resident(now time.Time) gpu.Bytes {
	var sum gpu.Bytes
	s.eachProcess(now, func(p *process, _ *sample) { sum += gpu.Bytes(p.RSS) })
	return sum
}

// Traffic swings around its mean; the total is the integral of the rate.
const (
	swing  = 0.35
	period = 340 // seconds
)

func flow(mean float64, up time.Duration) gpu.Reading[gpu.BytesPerSecond] {
	return gpu.Of(gpu.BytesPerSecond(math.Round(mean * (1 + swing*math.Sin(2*math.Pi*up.Seconds()/period)))))
}

func flowed(mean float64, up time.Duration) gpu.Reading[gpu.Bytes] {
	t := up.Seconds()
	return gpu.Of(gpu.Bytes(mean * (t + swing*period/(2*math.Pi)*(1-math.Cos(2*math.Pi*t/period)))))
}

func tenth(v float64) float64 { return math.Round(v*10) / 10 }
