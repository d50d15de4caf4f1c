package sim

import (
	"fmt"
	"math"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A host is the machine around simulated devices, shown instead of the real one.
type host struct {
	name, os, kernel, cpu string
	cores                 int
	memory, memoryBase    gpu.Bytes // installed, and used without GPU work
	swap                  gpu.Bytes
	busyCores             float64 // without GPU work
	disks                 []disk
	networks              []network
}

type disk struct {
	device, mount, fileSystem string
	total, used               gpu.Bytes
	read, write               float64 // mean bytes a second
}

type network struct {
	name           string
	received, sent float64 // bytes a second
}

const (
	gib = 1 << 30
	tib = 1 << 40
)

var (
	desktopHost = host{
		name: "desktop", os: "Ubuntu 24.04.2 LTS", kernel: "6.11.0-21-generic",
		cpu: "AMD Ryzen 9 7950X 16-Core Processor", cores: 32,
		memory: 62 * gib, memoryBase: 6 * gib, swap: 8 * gib, busyCores: 0.5,
		disks: []disk{
			{"/dev/nvme0n1p2", "/", "ext4", 1832 * gib, 988 * gib, 0.3e6, 0.9e6},
			{"/dev/nvme0n1p1", "/boot/efi", "vfat", 510 * mib, 6 * mib, 0, 0},
		},
		networks: []network{{"enp8s0", 42e3, 11e3}},
	}
	dgxHost = host{
		name: "dgx-01", os: "Ubuntu 22.04.5 LTS", kernel: "5.15.0-1063-nvidia",
		cpu: "Intel(R) Xeon(R) Platinum 8480C", cores: 224,
		memory: 2015 * gib, memoryBase: 41 * gib, busyCores: 2.5,
		disks: []disk{
			{"/dev/md0", "/", "ext4", 1789 * gib, 312 * gib, 0.2e6, 2.1e6},
			{"/dev/md1", "/raid", "xfs", 28 * tib, 19 * tib, 612e6, 38e6},
		},
		networks: []network{{"eno3", 0.4e6, 0.9e6}, {"enp170s0f0np0", 186e6, 24e6}},
	}
)

// nodeHost is a node of a fleet. All nodes are built alike, and each is used
// in its own way.
func nodeHost(number int) host {
	name := fmt.Sprintf("node-%03d", number)
	seed := seedOf(name)
	part := func(which uint64) float64 { return 0.55 + 0.4*signed(mix(seed, which)) }
	return host{
		name: name, os: "Ubuntu 22.04.5 LTS", kernel: "5.15.0-1066-nvidia",
		cpu: "AMD EPYC 9354 32-Core Processor", cores: 64,
		memory: 1007 * gib, memoryBase: 24 * gib, busyCores: 4 * part(1),
		disks: []disk{
			{"/dev/md0", "/", "ext4", 878 * gib, gpu.Bytes(878 * gib * part(2)), 0.2e6, 3e6 * part(3)},
			{"/dev/md1", "/scratch", "xfs", 14 * tib, gpu.Bytes(14 * tib * part(4)), 800e6 * part(5), 60e6 * part(6)},
		},
		networks: []network{{"eno1", 0.6e6 * part(7), 0.9e6 * part(8)}, {"ens3f0np0", 300e6 * part(9), 40e6 * part(10)}},
	}
}

func (s *Source) readHost(now time.Time) *gpu.Host {
	h := &s.host
	busy := s.busyCores(now)
	up := max(0, now.Sub(s.booted))
	used := h.memoryBase + s.resident(now)
	out := &gpu.Host{
		Hostname: h.name, OS: h.os, Kernel: h.kernel, Uptime: gpu.Of(up.Truncate(time.Second)),
		CPUModel: gpu.Of(h.cpu), Cores: gpu.Of(h.cores),
		CPU:             gpu.Of(gpu.Percent(tenth(100 * busy / float64(h.cores)))),
		Load1:           gpu.Of(s.load(now, time.Minute)),
		Load5:           gpu.Of(s.load(now, 5*time.Minute)),
		Load15:          gpu.Of(s.load(now, 15*time.Minute)),
		MemoryTotal:     gpu.Of(h.memory),
		MemoryUsed:      gpu.Of(used),
		MemoryAvailable: gpu.Of(h.memory - used),
		SwapTotal:       gpu.Of(h.swap),
		SwapUsed:        gpu.Of(h.swap / 64),
		Disks:           make([]gpu.Disk, len(h.disks)),
		Networks:        make([]gpu.Interface, len(h.networks)),
		Self:            gpu.Self{CPU: gpu.Of(gpu.Percent(tenth(0.4 + 0.002*float64(len(s.devices))))), RSS: gpu.Of(gpu.Bytes(24*mib + len(s.devices)*16<<10))},
	}
	for i, d := range h.disks {
		out.Disks[i] = gpu.Disk{
			Device: d.device, Mount: d.mount, FileSystem: d.fileSystem,
			Total: gpu.Of(d.total), Used: gpu.Of(d.used),
			Read: gpu.Of(flow(d.read, up)), Write: gpu.Of(flow(d.write, up)),
		}
	}
	for i, n := range h.networks {
		out.Networks[i] = gpu.Interface{
			Name:     n.name,
			Received: gpu.Of(flow(n.received, up)), Sent: gpu.Of(flow(n.sent, up)),
			ReceivedTotal: gpu.Of(flowed(n.received, up)), SentTotal: gpu.Of(flowed(n.sent, up)),
		}
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
		for p := range d.alive(m) {
			f(p, &d.tapes[m.job][int(m.second)])
		}
	}
}

// busyCores is the number of cores with work.
func (s *Source) busyCores(now time.Time) float64 {
	_, second := floorDiv(now.Unix(), cycleSeconds)
	busy := s.host.busyCores * (1 + 0.4*wobble(seedOf(s.host.name), int(second)))
	s.eachProcess(now, func(p *process, at *sample) { busy += cpuOf(p, at) / 100 })
	return min(busy, float64(s.host.cores))
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
	s.eachProcess(now, func(p *process, _ *sample) { sum += p.rss })
	return sum
}

// Traffic swings around its mean; the total is the integral of the rate.
const (
	swing  = 0.35
	period = 340 // seconds
)

func flow(mean float64, up time.Duration) gpu.BytesPerSecond {
	return gpu.BytesPerSecond(math.Round(mean * (1 + swing*math.Sin(2*math.Pi*up.Seconds()/period))))
}

func flowed(mean float64, up time.Duration) gpu.Bytes {
	t := up.Seconds()
	return gpu.Bytes(mean * (t + swing*period/(2*math.Pi)*(1-math.Cos(2*math.Pi*t/period))))
}

func tenth(v float64) float64 { return math.Round(v*10) / 10 }
