// Package machines has snapshots of machines for tests: none was recorded. They
// are built from public facts (product briefs, the format of nvidia-smi's
// output, the bus addresses of a DGX H100), with made-up loads, UUIDs, people
// and processes. Each call makes a new one, which its caller may change.
package machines

import (
	"fmt"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// Time is when all of them were read.
var Time = time.Date(2026, 3, 14, 15, 9, 26, 535897000, time.UTC)

const mib gpu.Bytes = 1 << 20

// Workstation is a GeForce RTX 4090 with two fans at full load. Its driver
// offers no memory temperature, which GeForce products don't report.
func Workstation() *gpu.Snapshot {
	d := gpu.Device{
		Identity: gpu.Identity{
			UUID:          "GPU-4090c0de-0000-4000-8000-000000000001",
			Node:          "workstation",
			VendorIndex:   gpu.Of(0),
			Vendor:        gpu.NVIDIA,
			Source:        gpu.SourceNVML,
			Name:          "NVIDIA GeForce RTX 4090",
			PCI:           "0000:01:00.0",
			Architecture:  gpu.Of("Ada"),
			Serial:        gpu.Absent[string](gpu.NotSupported),
			VBIOS:         gpu.Of("95.02.3c.00.8c"),
			DriverVersion: gpu.Of("550.54.15"),
		},
		State:     gpu.StateOK,
		Since:     Time.Add(-2 * time.Hour),
		SampledAt: Time,
		IdleFloor: gpu.Of[gpu.Watts](21.5),
		Readings: gpu.Readings{
			Utilization: gpu.Utilization{
				GPU: gpu.Of[gpu.Percent](98), Memory: gpu.Of[gpu.Percent](61),
				Encoder: gpu.Of[gpu.Percent](0), Decoder: gpu.Of[gpu.Percent](0),
				JPEG: gpu.Of[gpu.Percent](0), OFA: gpu.Of[gpu.Percent](0),
			},
			Encoding: gpu.Encoding{Sessions: gpu.Of(0), FrameRate: gpu.Of[gpu.FramesPerSecond](0), Latency: gpu.Of[gpu.Microseconds](0)},
			Activity: gpu.AbsentActivity(gpu.NotSupported),
			Memory: gpu.Memory{
				Total: gpu.Of(24564 * mib), Used: gpu.Of(19231 * mib), Free: gpu.Of(4938 * mib), Reserved: gpu.Of(395 * mib),
				BAR1Total: gpu.Of(32768 * mib), BAR1Used: gpu.Of(19266 * mib),
			},
			Thermal: gpu.Thermal{
				GPU: gpu.Of[gpu.Celsius](71), Memory: gpu.Absent[gpu.Celsius](gpu.NotSupported),
				Slowdown: gpu.Of[gpu.Celsius](88), Shutdown: gpu.Of[gpu.Celsius](95), Target: gpu.Of[gpu.Celsius](84),
				MemoryMax: gpu.Absent[gpu.Celsius](gpu.NotSupported), Margin: gpu.Of[gpu.Celsius](17),
			},
			Fans: gpu.Fans{Count: gpu.Of(2), Fans: []gpu.Fan{
				{Commanded: gpu.Of[gpu.Percent](64), RPM: gpu.Of[gpu.RPM](1893), Target: gpu.Of[gpu.Percent](64), Policy: gpu.Of("automatic")},
				{Commanded: gpu.Of[gpu.Percent](66), RPM: gpu.Of[gpu.RPM](1931), Target: gpu.Of[gpu.Percent](66), Policy: gpu.Of("automatic")},
			}},
			Power: gpu.Power{
				Draw: gpu.Of[gpu.Watts](431.27), EnforcedLimit: gpu.Of[gpu.Watts](450), DefaultLimit: gpu.Of[gpu.Watts](450),
				MinLimit: gpu.Of[gpu.Watts](150), MaxLimit: gpu.Of[gpu.Watts](600), Energy: gpu.Of[gpu.Joules](2_718_281.828),
			},
			Clocks: gpu.Clocks{
				Graphics: gpu.Of[gpu.Megahertz](2715), SM: gpu.Of[gpu.Megahertz](2715), Memory: gpu.Of[gpu.Megahertz](10251), Video: gpu.Of[gpu.Megahertz](2070),
				MaxGraphics: gpu.Of[gpu.Megahertz](3120), MaxSM: gpu.Of[gpu.Megahertz](3120), MaxMemory: gpu.Of[gpu.Megahertz](10501), MaxVideo: gpu.Of[gpu.Megahertz](2415),
				PerformanceState: gpu.Of(2), EventReasons: gpu.Of(gpu.ReasonPowerCap),
			},
			PCIe: gpu.PCIe{
				Generation: gpu.Of(4), MaxGeneration: gpu.Of(4), Width: gpu.Of(16), MaxWidth: gpu.Of(16), Replays: gpu.Of[uint64](0),
			},
			Health: gpu.Health{
				ECCMode: gpu.Of(false), ECCModePending: gpu.Of(false),
				RetiredSingleBit: gpu.Absent[uint64](gpu.NotSupported), RetiredDoubleBit: gpu.Absent[uint64](gpu.NotSupported),
				RetirementPending: gpu.Absent[bool](gpu.NotSupported),
			},
			Modes: gpu.Modes{
				Persistence: gpu.Of(false), Compute: gpu.Of("default"), MIG: gpu.Absent[bool](gpu.NotSupported),
				MIGPending: gpu.Absent[bool](gpu.NotSupported), DisplayActive: gpu.Of(true),
			},
			Processes: gpu.Of([]gpu.Process{
				inDocker(process(48213, "python", gpu.TypeCompute, 18432, 97)),
				process(1877, "Xorg", gpu.TypeGraphics, 412, 1),
				// Of another pid namespace: the host can't see it.
				{PID: 7, Type: gpu.TypeCompute, Memory: gpu.Of(256 * mib), SM: gpu.Of[gpu.Percent](0), Facts: gpu.ProcessFacts{
					Name: gpu.Absent[string](gpu.NotPermitted), Command: gpu.Absent[string](gpu.NotPermitted),
				}},
			}),
		},
	}
	return &gpu.Snapshot{
		Seq: 1440, Time: Time, Node: "workstation", Source: gpu.SourceNVML,
		Devices: []gpu.Device{d},
		Drivers: []gpu.Driver{driver("550.54.15", "12.4", "12.550.54.15")},
		Host:    host("workstation"),
		Notes: []gpu.Advice{{
			What: "processes of other pid namespaces have no names",
			Try:  "run gpuwhy in the host's pid namespace",
		}},
	}
}

func process(pid int, name string, kind gpu.ProcessType, memory gpu.Bytes, sm gpu.Percent) gpu.Process {
	return gpu.Process{
		PID: pid, Type: kind, Memory: gpu.Of(memory * mib),
		SM: gpu.Of(sm), MemoryBandwidth: gpu.Of(sm / 2), Encoder: gpu.Of[gpu.Percent](0), Decoder: gpu.Of[gpu.Percent](0),
		Facts: gpu.ProcessFacts{
			Name: gpu.Of(name), User: gpu.Of("alice"), Command: gpu.Of(name + " train.py --epochs 40"),
			Started: gpu.Of(Time.Add(-90 * time.Minute)), CPU: gpu.Of[gpu.Percent](103.5), RSS: gpu.Of(5120 * mib),
			Exists: gpu.Of(true), Container: gpu.Of(gpu.Container{}), Pod: gpu.Of(gpu.Pod{}),
			Unit: gpu.Of(gpu.Unit{Name: "session-2.scope", Slice: "user-1000.slice"}), Job: gpu.Of(gpu.Job{}),
		},
	}
}

// containerID is a container's.
const containerID = "4f3a9c1e7b25d806f1c4a3b2e5d69788c0a1b2c3d4e5f60718293a4b5c6d7e8f"

// inDocker puts a process into a container.
func inDocker(p gpu.Process) gpu.Process {
	p.Facts.Container = gpu.Of(gpu.Container{
		ID: containerID, Runtime: gpu.RuntimeDocker, Name: gpu.Of("trainer"), Image: gpu.Of("pytorch/pytorch:2.6.0-cuda12.4-cudnn9-runtime"),
	})
	p.Facts.Unit = gpu.Of(gpu.Unit{Slice: "system.slice"})
	return p
}

// inPod puts a process into a pod, whose names gpuwhy may not read.
func inPod(p gpu.Process) gpu.Process {
	no := gpu.Absent[string](gpu.NotPermitted)
	p.Facts.Container = gpu.Of(gpu.Container{ID: containerID, Runtime: gpu.RuntimeContainerd, Name: no, Image: no})
	p.Facts.Pod = gpu.Of(gpu.Pod{UID: "0b5e3a1c-6f2d-4c8e-9a71-2d4f6b8c0e13", Namespace: no, Name: no, Container: no})
	p.Facts.Unit = gpu.Of(gpu.Unit{Slice: "kubepods-pod0b5e3a1c_6f2d_4c8e_9a71_2d4f6b8c0e13.slice"})
	return p
}

// inJob puts a process into a Slurm job.
func inJob(p gpu.Process) gpu.Process {
	p.Facts.Job = gpu.Of(gpu.Job{ID: 280678, Step: "0"})
	p.Facts.Unit = gpu.Of(gpu.Unit{Name: "slurmstepd.scope", Slice: "system.slice"})
	return p
}

func driver(version, cuda, library string) gpu.Driver {
	return gpu.Driver{Source: gpu.SourceNVML, Version: gpu.Of(version), CUDA: gpu.Of(cuda), Library: gpu.Of(library)}
}

func host(name string) *gpu.Host {
	return &gpu.Host{
		Hostname: name, OS: "Debian GNU/Linux 12 (bookworm)", Kernel: "6.1.0-31-amd64", Uptime: gpu.Of(26*time.Hour + 500*time.Millisecond),
		CPUModel: gpu.Of("AMD Ryzen 9 7950X 16-Core Processor"), Cores: gpu.Of(32), CPU: gpu.Of[gpu.Percent](11.25),
		Load1: gpu.Of(3.14), Load5: gpu.Of(2.71), Load15: gpu.Of(1.41),
		MemoryTotal: gpu.Of(64 * 1024 * mib), MemoryUsed: gpu.Of(20 * 1024 * mib), MemoryAvailable: gpu.Of(44 * 1024 * mib),
		SwapTotal: gpu.Of[gpu.Bytes](0), SwapUsed: gpu.Of[gpu.Bytes](0),
		Disks: []gpu.Disk{{
			Device: "/dev/nvme0n1p2", Mount: "/", FileSystem: "ext4", Total: gpu.Of(1_900_000 * mib), Used: gpu.Of(640_000 * mib),
			Read: gpu.Of[gpu.BytesPerSecond](1 << 20), Write: gpu.Of[gpu.BytesPerSecond](0),
		}},
		Networks: []gpu.Interface{{
			Name: "enp6s0", Received: gpu.Of[gpu.BytesPerSecond](125_000), Sent: gpu.Of[gpu.BytesPerSecond](9_000.5),
			ReceivedTotal: gpu.Of(4096 * mib), SentTotal: gpu.Of(512 * mib),
		}},
		Self: gpu.Self{CPU: gpu.Of[gpu.Percent](0.3), RSS: gpu.Of(24 * mib)},
	}
}

// dgx are the bus addresses of a DGX H100's GPUs.
var dgx = [...]string{"1b", "43", "52", "61", "9d", "c3", "d1", "df"}

// Server is eight H100 SXM, which have no fans of their own, all well.
func Server() *gpu.Snapshot { return H100s(8) }

// H100s is n of them.
func H100s(n int) *gpu.Snapshot {
	s := &gpu.Snapshot{
		Seq: 7, Time: Time, Node: "dgx-1", Source: gpu.SourceNVML,
		Drivers: []gpu.Driver{driver("550.54.15", "12.4", "12.550.54.15")},
		Host:    host("dgx-1"),
	}
	for i := range n {
		s.Devices = append(s.Devices, h100(i))
	}
	return s
}

func h100(i int) gpu.Device {
	return gpu.Device{
		Identity: gpu.Identity{
			UUID:          fmt.Sprintf("GPU-800c0de0-0000-4000-8000-%012d", i),
			Node:          "dgx-1",
			Index:         i,
			VendorIndex:   gpu.Of(i),
			Vendor:        gpu.NVIDIA,
			Source:        gpu.SourceNVML,
			Name:          "NVIDIA H100 80GB HBM3",
			PCI:           fmt.Sprintf("%04x:%s:00.0", i/len(dgx), dgx[i%len(dgx)]),
			Architecture:  gpu.Of("Hopper"),
			Serial:        gpu.Of(fmt.Sprintf("16530230%05d", i)),
			VBIOS:         gpu.Of("96.00.89.00.01"),
			DriverVersion: gpu.Of("550.54.15"),
		},
		State:     gpu.StateOK,
		Since:     Time.Add(-48 * time.Hour),
		SampledAt: Time.Add(time.Duration(i) * time.Millisecond),
		IdleFloor: gpu.Of[gpu.Watts](72),
		Readings: gpu.Readings{
			Utilization: gpu.Utilization{
				GPU: gpu.Of(gpu.Percent(90 + i%10)), Memory: gpu.Of(gpu.Percent(40 + i%10)),
				Encoder: gpu.Absent[gpu.Percent](gpu.NotSupported), Decoder: gpu.Of[gpu.Percent](0),
				JPEG: gpu.Of[gpu.Percent](0), OFA: gpu.Of[gpu.Percent](0),
			},
			Encoding: noEncoder,
			Activity: gpu.Activity{
				Engine: gpu.Of(90.5 + gpu.Percent(i%10)), SM: gpu.Of(81.25 + gpu.Percent(i%10)), Occupancy: gpu.Of[gpu.Percent](38.4),
				Tensor: gpu.Of(47.75 + gpu.Percent(i%10)), FP64: gpu.Of[gpu.Percent](0), FP32: gpu.Of[gpu.Percent](3.1), FP16: gpu.Of[gpu.Percent](1.2),
				Integer: gpu.Of[gpu.Percent](12.6), MemoryBandwidth: gpu.Of(42.5 + gpu.Percent(i%10)),
				PCIeSent: gpu.Of[gpu.BytesPerSecond](220e6), PCIeReceived: gpu.Of[gpu.BytesPerSecond](1.24e9),
				NVLinkSent: gpu.Of[gpu.BytesPerSecond](43.2e9), NVLinkReceived: gpu.Of[gpu.BytesPerSecond](43.3e9),
			},
			Memory: gpu.Memory{
				Total: gpu.Of(81559 * mib), Used: gpu.Of(gpu.Bytes(70000+i) * mib), Free: gpu.Of(gpu.Bytes(10988-i) * mib), Reserved: gpu.Of(571 * mib),
				BAR1Total: gpu.Of(131072 * mib), BAR1Used: gpu.Of(70012 * mib),
			},
			Thermal: gpu.Thermal{
				GPU: gpu.Of(gpu.Celsius(55 + i%10)), Memory: gpu.Of(gpu.Celsius(66 + i%10)),
				Slowdown: gpu.Of[gpu.Celsius](87), Shutdown: gpu.Of[gpu.Celsius](92), Target: gpu.Absent[gpu.Celsius](gpu.NotSupported),
				MemoryMax: gpu.Of[gpu.Celsius](95), Margin: gpu.Of(gpu.Celsius(32 - i%10)),
			},
			Fans: gpu.Fans{Count: gpu.Of(0)},
			Power: gpu.Power{
				Draw: gpu.Of(612.345 + gpu.Watts(i%10)), EnforcedLimit: gpu.Of[gpu.Watts](700), DefaultLimit: gpu.Of[gpu.Watts](700),
				MinLimit: gpu.Of[gpu.Watts](200), MaxLimit: gpu.Of[gpu.Watts](700), Energy: gpu.Of(31_415_926.535 + gpu.Joules(i)),
			},
			Clocks: gpu.Clocks{
				Graphics: gpu.Of[gpu.Megahertz](1980), SM: gpu.Of[gpu.Megahertz](1980), Memory: gpu.Of[gpu.Megahertz](2619), Video: gpu.Of[gpu.Megahertz](1545),
				MaxGraphics: gpu.Of[gpu.Megahertz](1980), MaxSM: gpu.Of[gpu.Megahertz](1980), MaxMemory: gpu.Of[gpu.Megahertz](2619), MaxVideo: gpu.Of[gpu.Megahertz](1545),
				PerformanceState: gpu.Of(0), EventReasons: gpu.Of[gpu.ClockEventReasons](0),
			},
			PCIe: gpu.PCIe{
				Generation: gpu.Of(5), MaxGeneration: gpu.Of(5), Width: gpu.Of(16), MaxWidth: gpu.Of(16), Replays: gpu.Of[uint64](0),
			},
			Health: gpu.Health{
				ECCMode: gpu.Of(true), ECCModePending: gpu.Of(true),
				CorrectedVolatile: gpu.Of[uint64](0), UncorrectedVolatile: gpu.Of[uint64](0),
				CorrectedAggregate: gpu.Of[uint64](2), UncorrectedAggregate: gpu.Of[uint64](0),
				RemappedCorrectable: gpu.Of[uint64](0), RemappedUncorrectable: gpu.Of[uint64](0),
				RemapPending: gpu.Of(false), RemapFailed: gpu.Of(false),
				RetiredSingleBit: gpu.Absent[uint64](gpu.NotSupported), RetiredDoubleBit: gpu.Absent[uint64](gpu.NotSupported),
				RetirementPending: gpu.Absent[bool](gpu.NotSupported), XIDs: gpu.Of([]gpu.XID{}),
			},
			Modes: gpu.Modes{
				Persistence: gpu.Of(true), Compute: gpu.Of("default"), MIG: gpu.Of(false), MIGPending: gpu.Of(false), DisplayActive: gpu.Of(false),
			},
			Processes: gpu.Of([]gpu.Process{inJob(process(10_000+i, "pt_main_thread", gpu.TypeCompute, gpu.Bytes(69500+i), gpu.Percent(90+i%10)))}),
		},
	}
}

// BrokenServer is Server with one device lost and one not answering, whose
// readings are stale.
func BrokenServer() *gpu.Snapshot {
	s := Server()
	lost := &s.Devices[3]
	lost.State, lost.Since = gpu.StateLost, Time.Add(-10*time.Minute)
	lost.Reason = gpu.Advice{What: "the GPU has fallen off the bus", Try: "look for XID 79 in the kernel's log, and restart the machine"}
	lost.SampledAt, lost.Readings = time.Time{}, stale()
	lost.Health.XIDs = gpu.Of([]gpu.XID{{Code: 79, Count: 1, Last: lost.Since}})

	silent := &s.Devices[5]
	silent.State, silent.Since = gpu.StateNotAnswering, Time.Add(-12*time.Second)
	silent.Reason = gpu.Advice{What: "a call to the driver has not come back", Try: "look for the driver's messages in the kernel's log", Err: gpu.ErrNotAnswering}
	silent.SampledAt, silent.Readings = time.Time{}, stale()
	return s
}

// stale is what is said of a device that was read before and is not now.
func stale() gpu.Readings {
	return gpu.Readings{
		Utilization: gpu.Utilization{GPU: gpu.Absent[gpu.Percent](gpu.Stale)},
		Activity:    gpu.AbsentActivity(gpu.Stale),
		Memory:      gpu.Memory{Total: gpu.Absent[gpu.Bytes](gpu.Stale), Used: gpu.Absent[gpu.Bytes](gpu.Stale), Free: gpu.Absent[gpu.Bytes](gpu.Stale)},
		Thermal:     gpu.Thermal{GPU: gpu.Absent[gpu.Celsius](gpu.Stale)},
		Power:       gpu.Power{Draw: gpu.Absent[gpu.Watts](gpu.Stale)},
		Processes:   gpu.Absent[[]gpu.Process](gpu.Stale),
	}
}

// Orphaned is one H100 that idles: a process was killed, and the driver still
// holds its memory.
func Orphaned() *gpu.Snapshot {
	s := H100s(1)
	d := &s.Devices[0]
	d.Utilization.GPU, d.Utilization.Memory = gpu.Of[gpu.Percent](0), gpu.Of[gpu.Percent](0)
	d.Memory.Used, d.Memory.Free = gpu.Of(38_501*mib), gpu.Of(42_487*mib)
	d.Activity = gpu.Activity{Engine: gpu.Of[gpu.Percent](0), SM: gpu.Of[gpu.Percent](0), Tensor: gpu.Of[gpu.Percent](0)}
	d.Power.Draw = gpu.Of[gpu.Watts](113.4)
	d.Processes = gpu.Of([]gpu.Process{{
		PID: 9171, Type: gpu.TypeCompute, Memory: gpu.Of(38_412 * mib), SM: gpu.Of[gpu.Percent](0),
		Facts: gpu.ProcessFacts{Exists: gpu.Of(false)},
	}})
	return s
}

// noEncoder is what a product without one says.
var noEncoder = gpu.Encoding{
	Sessions: gpu.Absent[int](gpu.NotSupported), FrameRate: gpu.Absent[gpu.FramesPerSecond](gpu.NotSupported), Latency: gpu.Absent[gpu.Microseconds](gpu.NotSupported),
}

// Partitioned is an A100 in MIG mode with two instances, kept for two pods. In
// that mode the driver gives no utilization of the whole device.
func Partitioned() *gpu.Snapshot {
	s := H100s(1)
	s.Node = "mig-1"
	s.Host = nil
	d := &s.Devices[0]
	d.Node, d.Name, d.UUID, d.PCI = "mig-1", "NVIDIA A100-SXM4-40GB", "GPU-a100c0de-0000-4000-8000-000000000001", "0000:07:00.0"
	d.Architecture = gpu.Of("Ampere")
	d.Utilization = gpu.Utilization{
		GPU: gpu.Absent[gpu.Percent](gpu.NotSupported), Memory: gpu.Absent[gpu.Percent](gpu.NotSupported),
		Encoder: gpu.Absent[gpu.Percent](gpu.NotSupported), Decoder: gpu.Absent[gpu.Percent](gpu.NotSupported),
		JPEG: gpu.Absent[gpu.Percent](gpu.NotSupported), OFA: gpu.Absent[gpu.Percent](gpu.NotSupported),
	}
	d.Encoding = noEncoder
	d.Activity = gpu.AbsentActivity(gpu.NotSupported)
	d.Memory = gpu.Memory{Total: gpu.Of(40960 * mib), Used: gpu.Of(5012 * mib), Free: gpu.Of(35508 * mib), Reserved: gpu.Of(440 * mib)}
	d.Power.Draw, d.Power.EnforcedLimit = gpu.Of[gpu.Watts](151), gpu.Of[gpu.Watts](400)
	d.Power.DefaultLimit, d.Power.MaxLimit, d.Power.MinLimit = gpu.Of[gpu.Watts](400), gpu.Of[gpu.Watts](400), gpu.Of[gpu.Watts](100)
	d.Modes.MIG, d.Modes.MIGPending = gpu.Of(true), gpu.Of(true)
	p := inPod(process(333, "jupyter-lab", gpu.TypeCompute, 4800, 0))
	p.SM, p.MemoryBandwidth = gpu.Absent[gpu.Percent](gpu.NotSupported), gpu.Absent[gpu.Percent](gpu.NotSupported)
	p.GPUInstance, p.ComputeInstance = gpu.Of(7), gpu.Of(0)
	d.Processes = gpu.Of([]gpu.Process{p})
	d.Instances = []gpu.Instance{
		instance("MIG-a100c0de-0000-5000-8000-000000000007", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", 7, 4864, 4803, 14, 1),
		instance("MIG-a100c0de-0000-5000-8000-000000000002", "NVIDIA A100-SXM4-40GB MIG 2g.10gb", 2, 9856, 13, 28, 2),
	}
	d.Reservations = gpu.Of([]gpu.Reservation{
		{Namespace: "research", Pod: "jupyter-bob-0", Container: "notebook", Resource: "nvidia.com/mig-1g.5gb", Instance: d.Instances[0].UUID},
		{Namespace: "research", Pod: "eval-7", Container: "main", Resource: "nvidia.com/mig-2g.10gb", Instance: d.Instances[1].UUID},
	})
	return s
}

// A100s is n A100 SXM with 80 GB.
func A100s(n int) *gpu.Snapshot {
	return others(n, "dgx-a100", func(i int, d *gpu.Device) {
		d.UUID, d.Name, d.Architecture = fmt.Sprintf("GPU-a100c0de-0000-4000-8000-%012d", i), "NVIDIA A100-SXM4-80GB", gpu.Of("Ampere")
		d.VBIOS = gpu.Of("92.00.45.00.05")
		d.Activity = gpu.AbsentActivity(gpu.NotSupported)
		d.Activity.PCIeSent, d.Activity.PCIeReceived = gpu.Of[gpu.BytesPerSecond](181e6), gpu.Of[gpu.BytesPerSecond](2.21e9)
		d.Activity.PCIeMeasuredAt = gpu.Of(d.SampledAt.Add(-5 * time.Second)) // as with --pcie-throughput
		d.Memory = gpu.Memory{
			Total: gpu.Of(81920 * mib), Used: gpu.Of(40123 * mib), Free: gpu.Of(41212 * mib), Reserved: gpu.Of(585 * mib),
			BAR1Total: gpu.Of(131072 * mib), BAR1Used: gpu.Of(40130 * mib),
		}
		d.Thermal.Slowdown, d.Thermal.Shutdown = gpu.Of[gpu.Celsius](89), gpu.Of[gpu.Celsius](92)
		d.Power.Draw = gpu.Of(345.6 + gpu.Watts(i%10))
		for _, limit := range []*gpu.Reading[gpu.Watts]{&d.Power.EnforcedLimit, &d.Power.DefaultLimit, &d.Power.MaxLimit} {
			*limit = gpu.Of[gpu.Watts](400)
		}
		d.Power.MinLimit = gpu.Of[gpu.Watts](100)
		d.Clocks.Graphics, d.Clocks.SM, d.Clocks.Memory, d.Clocks.Video = gpu.Of[gpu.Megahertz](1410), gpu.Of[gpu.Megahertz](1410), gpu.Of[gpu.Megahertz](1593), gpu.Of[gpu.Megahertz](1275)
		d.Clocks.MaxGraphics, d.Clocks.MaxSM, d.Clocks.MaxMemory, d.Clocks.MaxVideo = gpu.Of[gpu.Megahertz](1410), gpu.Of[gpu.Megahertz](1410), gpu.Of[gpu.Megahertz](1593), gpu.Of[gpu.Megahertz](1290)
		d.PCIe.Generation, d.PCIe.MaxGeneration = gpu.Of(4), gpu.Of(4)
	})
}

// B200s is n B200 SXM. Their drivers give the temperature that is left, and no
// threshold to compare it with.
func B200s(n int) *gpu.Snapshot {
	return others(n, "dgx-b200", func(i int, d *gpu.Device) {
		d.UUID, d.Name, d.Architecture = fmt.Sprintf("GPU-b200c0de-0000-4000-8000-%012d", i), "NVIDIA B200", gpu.Of("Blackwell")
		d.VBIOS = gpu.Of("97.00.82.00.1f")
		d.Memory = gpu.Memory{
			Total: gpu.Of(183359 * mib), Used: gpu.Of(160123 * mib), Free: gpu.Of(22511 * mib), Reserved: gpu.Of(725 * mib),
			BAR1Total: gpu.Of(262144 * mib), BAR1Used: gpu.Of(160130 * mib),
		}
		d.Thermal.Slowdown, d.Thermal.Shutdown = gpu.Absent[gpu.Celsius](gpu.NotSupported), gpu.Absent[gpu.Celsius](gpu.NotSupported)
		d.Thermal.MemoryMax = gpu.Absent[gpu.Celsius](gpu.NotSupported)
		d.Power.Draw = gpu.Of(913.5 + gpu.Watts(i%10))
		for _, limit := range []*gpu.Reading[gpu.Watts]{&d.Power.EnforcedLimit, &d.Power.DefaultLimit, &d.Power.MaxLimit} {
			*limit = gpu.Of[gpu.Watts](1000)
		}
		d.Clocks.Graphics, d.Clocks.SM, d.Clocks.Memory, d.Clocks.Video = gpu.Of[gpu.Megahertz](1965), gpu.Of[gpu.Megahertz](1965), gpu.Of[gpu.Megahertz](3996), gpu.Of[gpu.Megahertz](1642)
		d.Clocks.MaxGraphics, d.Clocks.MaxSM, d.Clocks.MaxMemory, d.Clocks.MaxVideo = d.Clocks.Graphics, d.Clocks.SM, d.Clocks.Memory, gpu.Of[gpu.Megahertz](1965)
		d.Clocks.EventReasons = gpu.Of(gpu.ReasonPowerCap)
	})
}

// others is n devices on a node, each changed from an H100.
func others(n int, node string, change func(i int, d *gpu.Device)) *gpu.Snapshot {
	s := H100s(n)
	s.Node, s.Host = node, host(node)
	for i := range s.Devices {
		s.Devices[i].Node = node
		change(i, &s.Devices[i])
	}
	return s
}

// Mixed is one machine with a card with fans, one without, one in MIG mode, one
// that is lost and one asleep. The one without fans shares its process between
// compute and graphics.
func Mixed() *gpu.Snapshot {
	s := Workstation()
	s.Node, s.Host = "mixed", host("mixed")
	lost := BrokenServer().Devices[3]
	asleep := Workstation().Devices[0]
	asleep.UUID, asleep.State, asleep.Readings, asleep.SampledAt = "GPU-4090c0de-0000-4000-8000-000000000002", gpu.StateAsleep, gpu.Readings{}, time.Time{}
	s.Devices = append(s.Devices, H100s(1).Devices[0], Partitioned().Devices[0], lost, asleep)
	for i := range s.Devices {
		d := &s.Devices[i]
		d.Node, d.Index, d.VendorIndex, d.PCI = "mixed", i, gpu.Of(i), fmt.Sprintf("0000:%02x:00.0", i+1)
	}
	s.Devices[1].Processes = gpu.Of([]gpu.Process{
		process(500, "blender", gpu.TypeComputeGraphics, 900, 12),
		process(501, "nvidia-cuda-mps-server", gpu.TypeMPS, 30, 0),
		{PID: 502, Type: gpu.TypeUnknown},
	})
	return s
}

// Fleet is three simulated machines, of which the first name is not the first
// to be listed.
func Fleet() *gpu.Snapshot {
	s := H100s(4)
	s.Node, s.Host, s.Source, s.Drivers = "simulated", nil, gpu.SourceSimulated, nil
	for i, node := range []string{"node-002", "node-001", "node-002", "node-003"} {
		s.Devices[i].Node, s.Devices[i].Source = node, gpu.SourceSimulated
	}
	return s
}

func instance(uuid, name string, id int, total, used gpu.Bytes, multiprocessors, slices int) gpu.Instance {
	return gpu.Instance{
		UUID: uuid, Name: name, GPUInstance: gpu.Of(id), ComputeInstance: gpu.Of(0),
		Memory:          gpu.Memory{Total: gpu.Of(total * mib), Used: gpu.Of(used * mib), Free: gpu.Of((total - used) * mib)},
		Multiprocessors: gpu.Of(multiprocessors), MemorySlices: gpu.Of(slices), ComputeSliceCount: gpu.Of(slices),
	}
}

// Empty is a machine without a driver.
func Empty() *gpu.Snapshot {
	return &gpu.Snapshot{
		Seq: 1, Time: Time, Node: "laptop", Source: gpu.SourceNVML,
		Failures: []gpu.Failure{{
			Source: gpu.SourceNVML, Since: Time.Add(-time.Minute), Next: Time.Add(30 * time.Second),
			Advice: gpu.Advice{What: "NVIDIA's management library was not found", Try: "install the driver, or check that nvidia-smi runs", Err: gpu.ErrNoDriver},
		}},
	}
}

// Zeros is a device that reports 0, false or an empty list wherever it can
// report anything, and P0.
func Zeros() *gpu.Snapshot {
	return &gpu.Snapshot{
		Seq: 1, Time: Time, Node: "zero", Source: gpu.SourceNVML,
		Devices: []gpu.Device{{
			Identity: gpu.Identity{
				UUID: "GPU-00000000-0000-4000-8000-000000000000", Node: "zero", VendorIndex: gpu.Of(0), Vendor: gpu.NVIDIA,
				Source: gpu.SourceNVML, Name: "NVIDIA GeForce RTX 3060", PCI: "0000:01:00.0", Architecture: gpu.Of("Ampere"),
				Serial: gpu.Of("0"), VBIOS: gpu.Of("94.06.2f.00.c8"), DriverVersion: gpu.Of("550.54.15"),
			},
			State: gpu.StateOK, Since: Time, SampledAt: Time,
			Readings: gpu.Readings{
				Utilization: gpu.Utilization{GPU: zero[gpu.Percent](), Memory: zero[gpu.Percent](), Encoder: zero[gpu.Percent](), Decoder: zero[gpu.Percent](), JPEG: zero[gpu.Percent](), OFA: zero[gpu.Percent]()},
				Encoding:    gpu.Encoding{Sessions: zero[int](), FrameRate: zero[gpu.FramesPerSecond](), Latency: zero[gpu.Microseconds]()},
				Activity: gpu.Activity{
					Engine: zero[gpu.Percent](), SM: zero[gpu.Percent](), Occupancy: zero[gpu.Percent](), Tensor: zero[gpu.Percent](),
					FP64: zero[gpu.Percent](), FP32: zero[gpu.Percent](), FP16: zero[gpu.Percent](), Integer: zero[gpu.Percent](), MemoryBandwidth: zero[gpu.Percent](),
					PCIeSent: zero[gpu.BytesPerSecond](), PCIeReceived: zero[gpu.BytesPerSecond](), NVLinkSent: zero[gpu.BytesPerSecond](), NVLinkReceived: zero[gpu.BytesPerSecond](),
				},
				Memory:  gpu.Memory{Total: zero[gpu.Bytes](), Used: zero[gpu.Bytes](), Free: zero[gpu.Bytes](), Reserved: zero[gpu.Bytes](), BAR1Total: zero[gpu.Bytes](), BAR1Used: zero[gpu.Bytes]()},
				Thermal: gpu.Thermal{GPU: zero[gpu.Celsius](), Memory: zero[gpu.Celsius](), Slowdown: zero[gpu.Celsius](), Shutdown: zero[gpu.Celsius](), Target: zero[gpu.Celsius](), MemoryMax: zero[gpu.Celsius](), Margin: zero[gpu.Celsius]()},
				Fans:    gpu.Fans{Count: gpu.Of(1), Fans: []gpu.Fan{{Commanded: zero[gpu.Percent](), RPM: zero[gpu.RPM](), Target: zero[gpu.Percent](), Policy: gpu.Of("automatic")}}},
				Power:   gpu.Power{Draw: zero[gpu.Watts](), EnforcedLimit: zero[gpu.Watts](), DefaultLimit: zero[gpu.Watts](), MinLimit: zero[gpu.Watts](), MaxLimit: zero[gpu.Watts](), Energy: zero[gpu.Joules]()},
				Clocks: gpu.Clocks{
					Graphics: zero[gpu.Megahertz](), SM: zero[gpu.Megahertz](), Memory: zero[gpu.Megahertz](), Video: zero[gpu.Megahertz](),
					MaxGraphics: zero[gpu.Megahertz](), MaxSM: zero[gpu.Megahertz](), MaxMemory: zero[gpu.Megahertz](), MaxVideo: zero[gpu.Megahertz](),
					PerformanceState: zero[int](), EventReasons: zero[gpu.ClockEventReasons](),
				},
				PCIe: gpu.PCIe{Generation: zero[int](), MaxGeneration: zero[int](), Width: zero[int](), MaxWidth: zero[int](), Replays: zero[uint64]()},
				Health: gpu.Health{
					ECCMode: zero[bool](), ECCModePending: zero[bool](),
					CorrectedVolatile: zero[uint64](), UncorrectedVolatile: zero[uint64](), CorrectedAggregate: zero[uint64](), UncorrectedAggregate: zero[uint64](),
					RemappedCorrectable: zero[uint64](), RemappedUncorrectable: zero[uint64](), RemapPending: zero[bool](), RemapFailed: zero[bool](),
					RetiredSingleBit: zero[uint64](), RetiredDoubleBit: zero[uint64](), RetirementPending: zero[bool](), XIDs: gpu.Of([]gpu.XID{}),
				},
				Modes:     gpu.Modes{Persistence: zero[bool](), Compute: gpu.Of("default"), MIG: zero[bool](), MIGPending: zero[bool](), DisplayActive: zero[bool]()},
				Processes: gpu.Of([]gpu.Process{}),
			},
		}},
		Drivers: []gpu.Driver{driver("550.54.15", "12.4", "12.550.54.15")},
	}
}

func zero[T any]() gpu.Reading[T] {
	var v T
	return gpu.Of(v)
}
