package views

import (
	"fmt"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// An Example is a made-up machine: for the gallery, and for tests. Nothing of
// it was measured.
type Example struct {
	Name     string
	Why      string
	Causes   []Cause       // behind Why
	Snapshot *gpu.Snapshot // nil: no reading yet
}

// Examples are machines in the states that a page can meet, at the time now.
func Examples(now time.Time) []Example {
	list := []Example{
		{"one", "python (pid 48213, alice) with 1 other process keeps GPU 0 (NVIDIA GeForce RTX 4090) busy at 97 %, 71 °C, 412 W of 450 W, fan at 68 %.", nil, exampleOne(now)},
		{"eight", "python (pid 9001, carol) keeps GPU 0 (NVIDIA H100 80GB HBM3) busy at 99 %, 74 °C, 699 W of 700 W; GPU 5 (NVIDIA H100 80GB HBM3) is not answering; GPU 6 (NVIDIA H100 80GB HBM3) is lost; GPU 7 (NVIDIA H100 80GB HBM3) is asleep.", nil, exampleEight(now)},
		{"many", "python (pid 20000, user0) keeps GPU 0 (NVIDIA H200) busy at 98 %, 68 °C, 655 W of 700 W.", nil, exampleMany(now, 64)},
		{"fleet", "python (pid 20000, user0) keeps GPU 0 (NVIDIA H200) busy at 98 %, 68 °C, 655 W of 700 W; 199 other GPUs are at work.", nil, exampleMany(now, 1000)},
		{"none", "No GPU can be read.", nil, exampleNone(now)},
		{"idle", "GPU 0 (NVIDIA GeForce RTX 4090) does nothing: no fan needs to run for it.", nil, exampleIdle(now)},
		{"odd", "GPU 22 (all at the limit) is at 100 %, 91 °C, 704 W.", nil, exampleSnapshot(now, "gallery", oddDevices(now))},
		{"silent", "GPU 0 (NVIDIA Tesla K80) reports nothing.", nil, exampleSilent(now)},
		{"starting", "The first reading is still under way.", nil, nil},
	}
	for i := range list {
		list[i].Causes = exampleCauses(&list[i], now)
	}
	return list
}

// exampleCauses are what an example's sentence could rest on.
func exampleCauses(e *Example, now time.Time) []Cause {
	first, _, _ := strings.Cut(e.Why, ";")
	cause := Cause{ID: "starting", Sentence: strings.TrimSuffix(first, ".") + ".", Certainty: "high"}
	if e.Snapshot == nil {
		return []Cause{cause}
	}
	if len(e.Snapshot.Devices) == 0 {
		cause.ID, cause.Since, cause.Advice = "no_gpu", now.Add(-20*time.Minute), "Install the driver, or check that nvidia-smi runs on this machine."
		cause.Evidence = []Evidence{{"failed: nvml", "libnvidia-ml.so.1 was not found", cause.Since, false}}
		return []Cause{cause}
	}
	d := &e.Snapshot.Devices[0]
	cause.ID, cause.Node, cause.UUID, cause.Since = "work:"+d.UUID, d.Node, d.UUID, now.Add(-134*time.Minute)
	cause.Advice = "End it, or let it run with less power (nvidia-smi -pl)."
	cause.Evidence = []Evidence{
		{"utilization", show(num(d.Utilization.GPU), percent).Text, now, false},
		{"temperature", show(num(d.Thermal.GPU), celsius).Text, now, false},
		{"power draw", show(num(d.Power.Draw), watts).Text, now, false},
		{"work began", moment(cause.Since), cause.Since, true},
	}
	return []Cause{
		{ID: "note:0", Sentence: "Processes of other users are listed without their commands.", Certainty: "high", Advice: "Start gpuwhy with --show-commands."},
		cause,
		{
			ID: "limited_by_power:" + d.UUID, Node: d.Node, UUID: d.UUID, Certainty: "medium",
			Sentence: "GPU 0 is at its power limit, which holds its clocks down.",
			Evidence: []Evidence{{"clocks held down by", "the power limit", now, false}},
		},
		{
			ID: "not_knowable:" + d.UUID, Node: d.Node, UUID: d.UUID, Certainty: "low",
			Sentence: "What can't be told: the temperature of its memory, which this product does not report.",
		},
	}
}

func exampleOne(now time.Time) *gpu.Snapshot {
	d := exampleDevice(now, 0, "NVIDIA GeForce RTX 4090", 24564<<20, 97)
	d.Memory.Used = gpu.Of(gpu.Bytes(18_812 << 20))
	d.Clocks.Memory, d.PCIe.Generation, d.PCIe.Width = gpu.Of[gpu.Megahertz](10251), gpu.Of(4), gpu.Of(16)
	d.Utilization.Encoder = gpu.Of[gpu.Percent](12)
	d.Thermal.GPU, d.Thermal.Slowdown = gpu.Of[gpu.Celsius](71), gpu.Of[gpu.Celsius](84)
	d.Power.Draw, d.Power.EnforcedLimit = gpu.Of[gpu.Watts](412.4), gpu.Of[gpu.Watts](450)
	d.Fans = gpu.Fans{Count: gpu.Of(2), Fans: []gpu.Fan{
		{Commanded: gpu.Of[gpu.Percent](68), RPM: gpu.Of[gpu.RPM](2105), Policy: gpu.Of("automatic")},
		{Commanded: gpu.Of[gpu.Percent](68), RPM: gpu.Of[gpu.RPM](2098), Policy: gpu.Of("automatic")},
	}}
	d.Processes = gpu.Of([]gpu.Process{
		exampleProcess(48213, gpu.TypeCompute, "python", "alice", "python train.py --config configs/llama-7b-lora.yaml --batch-size 8 --resume", 17_420<<20, 93, now.Add(-134*time.Minute)),
		exampleProcess(3120, gpu.TypeGraphics, "Xorg", "root", "", 512<<20, 1, now.Add(-75*time.Hour)),
		exampleProcess(3391, gpu.TypeComputeGraphics, "gnome-shell", "alice", "/usr/bin/gnome-shell", 302<<20, 0, now.Add(-75*time.Hour)),
	})
	return exampleSnapshot(now, "workstation", []gpu.Device{d})
}

func exampleIdle(now time.Time) *gpu.Snapshot {
	d := exampleDevice(now, 0, "NVIDIA GeForce RTX 4090", 24564<<20, 0)
	d.Thermal.GPU, d.Power.Draw, d.Power.EnforcedLimit = gpu.Of[gpu.Celsius](34), gpu.Of[gpu.Watts](18.4), gpu.Of[gpu.Watts](450)
	d.Fans = gpu.Fans{Count: gpu.Of(2), Fans: []gpu.Fan{{Commanded: gpu.Of[gpu.Percent](0), RPM: gpu.Of[gpu.RPM](0), Policy: gpu.Of("automatic")}}}
	return exampleSnapshot(now, "workstation", []gpu.Device{d})
}

// exampleSilent has one device that answers, and says nothing.
func exampleSilent(now time.Time) *gpu.Snapshot {
	d := exampleDevice(now, 0, "NVIDIA Tesla K80", 0, 0)
	d.Readings = gpu.Readings{Processes: gpu.Absent[[]gpu.Process](gpu.NotSupported)}
	s := exampleSnapshot(now, "old-box", []gpu.Device{d})
	s.Host = &gpu.Host{Hostname: "old-box"}
	s.Notes = []gpu.Advice{{What: "processes of other users can't be seen from here", Try: "mount /proc without hidepid"}}
	return s
}

func exampleEight(now time.Time) *gpu.Snapshot {
	devices := make([]gpu.Device, 8)
	users := []string{"carol", "dave", "erin", "frank"}
	for i := range devices {
		busy := 99 - 6*float64(i)
		if i >= 4 {
			busy = 0
		}
		d := exampleDevice(now, i, "NVIDIA H100 80GB HBM3", 81559<<20, busy)
		d.Fans = gpu.Fans{Count: gpu.Absent[int](gpu.NotSupported)}
		d.Thermal.Slowdown = gpu.Of[gpu.Celsius](87)
		d.Thermal.Margin = gpu.Of(87 - d.Thermal.GPU.Or(0))
		d.Processes = gpu.Of([]gpu.Process{})
		if i < 4 {
			d.Processes = gpu.Of([]gpu.Process{
				exampleProcess(9001+100*i, gpu.TypeCompute, "python", users[i], "", gpu.Bytes(70-9*i)<<30, gpu.Percent(busy-3), now.Add(-time.Duration(3+i)*time.Hour)),
			})
		}
		devices[i] = d
	}
	devices[0].Power.Draw = gpu.Of[gpu.Watts](698.7)
	devices[0].Clocks.EventReasons = gpu.Of(gpu.ReasonPowerCap)
	devices[0].Thermal.GPU = gpu.Of[gpu.Celsius](74)
	devices[1].Thermal.GPU = gpu.Of[gpu.Celsius](85)
	devices[1].Clocks.EventReasons = gpu.Of(gpu.ReasonThermalSlowdown | gpu.ReasonHardwareThermal)
	devices[2].Processes = gpu.Absent[[]gpu.Process](gpu.NotPermitted)
	devices[3].Power.Draw = gpu.DoubtfulOf[gpu.Watts](1890)
	devices[3].Utilization.GPU = gpu.Absent[gpu.Percent](gpu.NotSupported)
	exampleAway(&devices[5], gpu.StateNotAnswering, now.Add(-14*time.Minute), gpu.Advice{What: "a driver call has not come back", Try: "look for Xid messages in dmesg; the other GPUs are read as before"})
	exampleAway(&devices[6], gpu.StateLost, now.Add(-50*time.Hour), gpu.Advice{})
	exampleAway(&devices[7], gpu.StateAsleep, now.Add(-3*time.Hour), gpu.Advice{})
	return exampleSnapshot(now, "dgx-07", devices)
}

func exampleMany(now time.Time, n int) *gpu.Snapshot {
	devices := make([]gpu.Device, n)
	for i := range devices {
		busy := float64(98 - 29*i%99)
		d := exampleDevice(now, i, "NVIDIA H200", 143771<<20, busy)
		d.Source = gpu.SourceSimulated
		d.Fans = gpu.Fans{Count: gpu.Of(0)}
		if busy >= gpu.BusyFrom {
			d.Processes = gpu.Of([]gpu.Process{
				exampleProcess(20000+i, gpu.TypeCompute, "python", fmt.Sprintf("user%d", i%5), "", d.Memory.Used.Or(0)-(1<<30), gpu.Percent(busy), now.Add(-time.Duration(i)*time.Minute)),
			})
		}
		devices[i] = d
	}
	exampleAway(&devices[n/2], gpu.StateLost, now.Add(-3*time.Minute), gpu.Advice{})
	s := exampleSnapshot(now, "sim-rack", devices)
	s.Source = gpu.SourceSimulated
	s.Drivers = nil
	return s
}

func exampleNone(now time.Time) *gpu.Snapshot {
	s := exampleSnapshot(now, "build-box", nil)
	s.Drivers = nil
	s.Failures = []gpu.Failure{
		{Source: gpu.SourceNVML, Since: now.Add(-20 * time.Minute), Next: now.Add(12 * time.Second), Advice: gpu.Advice{What: "the NVIDIA driver is not loaded: libnvidia-ml.so.1 was not found", Try: "install the driver, or check that nvidia-smi runs on this machine"}},
		{Source: gpu.SourceAMD, Since: now.Add(-20 * time.Minute), Next: now.Add(12 * time.Second), Advice: gpu.Advice{What: "no AMD card in /sys/class/drm", Try: ""}},
	}
	return s
}

func exampleSnapshot(now time.Time, node string, devices []gpu.Device) *gpu.Snapshot {
	for i := range devices {
		devices[i].Node = node
	}
	return &gpu.Snapshot{
		Seq: 4711, Time: now, Node: node, Source: gpu.SourceNVML, Devices: devices,
		Drivers: []gpu.Driver{{Source: gpu.SourceNVML, Version: gpu.Of("550.54.15"), CUDA: gpu.Of("12.4")}},
		Host:    exampleHost(node),
	}
}

// exampleDevice makes readings up that go with how busy the device is.
func exampleDevice(now time.Time, index int, name string, total gpu.Bytes, busy float64) gpu.Device {
	return gpu.Device{
		Identity: gpu.Identity{
			UUID: fmt.Sprintf("GPU-00000000-0000-4000-8000-%012d", index), Index: index,
			Vendor: gpu.NVIDIA, Source: gpu.SourceNVML, Name: name, PCI: fmt.Sprintf("0000:%02x:00.0", index+1),
		},
		State: gpu.StateOK, Since: now.Add(-75 * time.Hour), SampledAt: now,
		Readings: gpu.Readings{
			Utilization: gpu.Utilization{GPU: gpu.Of(gpu.Percent(busy)), Memory: gpu.Of(gpu.Percent(busy / 2))},
			Memory: gpu.Memory{
				Total: gpu.Of(total),
				Used:  gpu.Of(gpu.Bytes(float64(total)*(0.02+0.9*busy/100)) &^ 0xfffff),
			},
			Thermal: gpu.Thermal{GPU: gpu.Of(gpu.Celsius(34 + float64(int(busy*0.35)))), Slowdown: gpu.Of[gpu.Celsius](87)},
			Power:   gpu.Power{Draw: gpu.Of(gpu.Watts(72 + 5.95*busy)), EnforcedLimit: gpu.Of[gpu.Watts](700)},
			Clocks: gpu.Clocks{
				SM:               gpu.Of(gpu.Megahertz(345 + 15*float64(int(busy)))),
				PerformanceState: gpu.Of(map[bool]int{true: 0, false: 8}[busy >= gpu.BusyFrom]),
				EventReasons:     gpu.Of(gpu.ClockEventReasons(0)),
			},
			Processes: gpu.Of([]gpu.Process{}),
		},
	}
}

func exampleAway(d *gpu.Device, state gpu.State, since time.Time, why gpu.Advice) {
	d.State, d.Since, d.Reason = state, since, why
	d.SampledAt, d.Readings = time.Time{}, gpu.Readings{}
}

// exampleProcess makes a process up; one without a command line hides it.
func exampleProcess(pid int, kind gpu.ProcessType, name, user, command string, held gpu.Bytes, sm gpu.Percent, started time.Time) gpu.Process {
	p := gpu.Process{PID: pid, Type: kind, Memory: gpu.Of(held), SM: gpu.Of(sm), Facts: gpu.ProcessFacts{
		Name: gpu.Of(name), User: gpu.Of(user), Command: gpu.Of(command), Started: gpu.Of(started),
	}}
	if command == "" {
		p.Facts.Command = gpu.Absent[string](gpu.NotPermitted)
	}
	return p
}

func exampleHost(node string) *gpu.Host {
	return &gpu.Host{
		Hostname: node, OS: "Debian GNU/Linux 12 (bookworm)", Kernel: "6.1.0-28-amd64", Uptime: gpu.Of(75 * time.Hour),
		CPUModel: gpu.Of("AMD EPYC 9354 32-Core Processor"), Cores: gpu.Of(64), CPU: gpu.Of[gpu.Percent](23.4),
		Load1: gpu.Of(12.31), Load5: gpu.Of(11.9), Load15: gpu.Of(9.04),
		MemoryTotal: gpu.Of(gpu.Bytes(503 << 30)), MemoryUsed: gpu.Of(gpu.Bytes(188 << 30)),
		SwapTotal: gpu.Of(gpu.Bytes(8 << 30)), SwapUsed: gpu.Of(gpu.Bytes(0)),
		Disks: []gpu.Disk{
			{Device: "nvme0n1p2", Mount: "/", FileSystem: "ext4", Total: gpu.Of(gpu.Bytes(1800 << 30)), Used: gpu.Of(gpu.Bytes(412 << 30)), Read: gpu.Of[gpu.BytesPerSecond](1_230_000), Write: gpu.Of[gpu.BytesPerSecond](48_000)},
			{Device: "nvme1n1", Mount: "/data", FileSystem: "xfs", Total: gpu.Of(gpu.Bytes(14 << 40)), Used: gpu.Of(gpu.Bytes(11 << 40)), Read: gpu.Of[gpu.BytesPerSecond](2.4e9), Write: gpu.Of[gpu.BytesPerSecond](0)},
		},
		Networks: []gpu.Interface{{Name: "eth0", Received: gpu.Of[gpu.BytesPerSecond](812_000), Sent: gpu.Of[gpu.BytesPerSecond](93_000)}},
		Self:     gpu.Self{CPU: gpu.Of[gpu.Percent](0.3), RSS: gpu.Of(gpu.Bytes(24 << 20))},
	}
}
