package explain_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight/attribute"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// A scene is a period in which a machine's reports don't change.
type scene struct {
	lasts   time.Duration
	devices []gpu.Device
}

// play plays the scenes to a history, with a reading every five seconds, and returns the last answer.
func play(t *testing.T, scenes ...scene) explain.Answer {
	t.Helper()
	return playOn(t, explain.NewHistory(), new(attribute.Floors), start, scenes...)
}

// playOn continues with a history, and with what is known about devices at rest.
func playOn(t *testing.T, h *explain.History, floors *attribute.Floors, now time.Time, scenes ...scene) explain.Answer {
	t.Helper()
	var last explain.Answer
	for _, sc := range scenes {
		for end := now.Add(sc.lasts); now.Before(end); now = now.Add(5 * time.Second) {
			s := floors.Note(&gpu.Snapshot{Time: now, Node: "desk", Devices: sampled(sc.devices, now)})
			for i := range s.Devices {
				if floor := sc.devices[i].IdleFloor; floor.Present() { // known before
					s.Devices[i].IdleFloor = floor
				}
			}
			last = h.Add(s)
			check(t, last)
		}
	}
	return last
}

// reservedBy reserves a device for pods.
func reservedBy(pods ...string) func(*gpu.Device) {
	return func(d *gpu.Device) {
		var list []gpu.Reservation
		for _, pod := range pods {
			namespace, name, _ := strings.Cut(pod, "/")
			list = append(list, gpu.Reservation{Namespace: namespace, Pod: name, Container: "main", Resource: "nvidia.com/gpu"})
		}
		d.Reservations = gpu.Of(list)
	}
}

// sampled returns devices that were read at a time.
func sampled(devices []gpu.Device, now time.Time) []gpu.Device {
	out := slices.Clone(devices)
	for i := range out {
		out[i].SampledAt = now
	}
	return out
}

// during returns a scene.
func during(lasts time.Duration, devices ...gpu.Device) scene { return scene{lasts, devices} }

// coolingDown is a minute and a half in which a device gets cooler and its fans slower, then two minutes at rest.
func coolingDown() []scene {
	var out []scene
	for i := range 18 {
		left := float64(18-i) / 18
		out = append(out, during(5*time.Second, made(func(d *gpu.Device) {
			d.Thermal.GPU, d.Power.Draw = gpu.Of(gpu.Celsius(36+35*left)), gpu.Of[gpu.Watts](22)
			fansAt(d, gpu.Percent(60*left))
		})))
	}
	return append(out, during(2*time.Minute, made()))
}

// Minutes of a machine, and the answer at their end: the machine's sentence, and the kinds and confidences of the causes behind it.
func TestStories(t *testing.T) {
	const minute = time.Minute
	warm := made(func(d *gpu.Device) {
		d.Thermal.GPU, d.Power.Draw = gpu.Of[gpu.Celsius](63), gpu.Of[gpu.Watts](30)
		fansAt(d, 48)
	})
	heldBy := func(processes ...gpu.Process) gpu.Device {
		return made(held, func(d *gpu.Device) { d.Processes = gpu.Of(processes) })
	}
	reservedWarm, warmByHand := warm, warm
	warmByHand.Fans.Fans = []gpu.Fan{{Commanded: gpu.Of[gpu.Percent](80), Policy: gpu.Of("manual")}}
	reservedBy("ml/train-0")(&reservedWarm)
	exists := func(yes bool) gpu.Device {
		d := heldBy(gpu.Process{PID: 7, Type: gpu.TypeCompute, Facts: gpu.ProcessFacts{Exists: gpu.Of(yes)}})
		d.IdleFloor = gpu.Of[gpu.Watts](21.4)
		return d
	}
	idler := process(4242, "python", 0)
	reasons := func(r gpu.ClockEventReasons) func(*gpu.Device) {
		return func(d *gpu.Device) { d.Clocks.EventReasons = gpu.Of(r) }
	}
	still := func(d *gpu.Device) { d.Fans.Fans[1].RPM = gpu.Of[gpu.RPM](0) }
	slow := func(d *gpu.Device) { d.Fans.Fans[0].RPM = gpu.Of[gpu.RPM](900) }
	loose := func(d *gpu.Device) { d.Fans.Fans[0].RPM = gpu.Of[gpu.RPM](1500) }
	manual := func(d *gpu.Device) {
		fansAt(d, 80)
		d.Fans.Fans[0].Policy, d.Fans.Fans[1].Policy = gpu.Of("manual"), gpu.Of("manual")
	}
	elsewhere := func(d *gpu.Device) {
		fansAt(d, 80)
		for i := range d.Fans.Fans {
			d.Fans.Fans[i].Policy, d.Fans.Fans[i].Target = gpu.Absent[string](gpu.NotSupported), gpu.Of[gpu.Percent](30)
		}
	}
	stuck := func(d *gpu.Device) { d.Utilization.GPU = gpu.Of[gpu.Percent](100) }
	sleeper := gpu.Process{PID: 4711, Type: gpu.TypeCompute, Facts: gpu.ProcessFacts{Name: gpu.Of("sleep")}}
	listing := func(n int, like gpu.Process) func(*gpu.Device) {
		return func(d *gpu.Device) {
			list := slices.Repeat([]gpu.Process{like}, n)
			for i := range list {
				list[i].PID += i
			}
			d.Processes = gpu.Of(list)
		}
	}
	hotter := func(degrees gpu.Celsius) func(*gpu.Device) {
		return func(d *gpu.Device) { d.Thermal.GPU = gpu.Of(d.Thermal.GPU.Or(0) + degrees) }
	}
	mig := func(d *gpu.Device) {
		d.Utilization.GPU, d.Modes.MIG = gpu.Absent[gpu.Percent](gpu.NotSupported), gpu.Of(true)
		d.Utilization.Encoder, d.Utilization.Decoder = gpu.Reading[gpu.Percent]{}, gpu.Reading[gpu.Percent]{}
	}
	display := func(d *gpu.Device) { d.Modes.DisplayActive = gpu.Of(true) }
	polled := func(d *gpu.Device) { d.Modes.Persistence = gpu.Of(false) }
	bySMI := func(d *gpu.Device) { d.Source = gpu.SourceNvidiaSMI }
	partial := func(d *gpu.Device) { d.ProcessesPartial = gpu.Of(true) }
	radeonAt := func(util gpu.Percent) func(*gpu.Device) {
		return func(d *gpu.Device) { working(util, python)(d); radeon(d) }
	}
	spot := func(d *gpu.Device) {
		radeon(d)
		d.Thermal.GPU, d.Thermal.HotSpot = gpu.Of[gpu.Celsius](46), gpu.Of[gpu.Celsius](88)
		fansAt(d, 75)
	}
	tooHot := func(d *gpu.Device) {
		d.Thermal.HotSpot, d.Clocks.EventReasons = gpu.Of[gpu.Celsius](110), gpu.Of(gpu.ReasonThermalSlowdown)
	}
	row := func(changes ...func(*gpu.Device)) []gpu.Device { // four passive cards with the same work
		var out []gpu.Device
		for i := range 4 {
			out = append(out, made(append([]func(*gpu.Device){indexed(i), working(98, python), passive}, changes...)...))
		}
		return out
	}
	oneHot := row()
	hotter(14)(&oneHot[2])

	for _, tt := range []struct {
		name   string
		scenes []scene
		want   string
		causes string
	}{
		{"work is timed", []scene{during(minute, made()), during(12*minute+5*time.Second, made(working(98, python)))},
			"python (pid 4242, alice) has kept GPU 0 (RTX 4090) busy at 98 % for 12 min, 71 °C, 431 W of 450 W, fan at 66 %.",
			"work high"},
		{"work that was there first is not", []scene{during(12*minute, made(working(98, python)))},
			"python (pid 4242, alice) keeps GPU 0 (RTX 4090) busy at 98 %, 71 °C, 431 W of 450 W, fan at 66 %.",
			"work high"},
		{"a pause does not end it", []scene{during(minute, made()), during(5*minute, made(working(98, python))), during(20*time.Second, heldBy(idler)), during(minute, made(working(98, python)))},
			"python (pid 4242, alice) has kept GPU 0 (RTX 4090) busy at 98 % again for 55 s, 5 min in all, 71 °C, 431 W of 450 W, fan at 66 %.",
			"work high"},

		{"cooling down, for the first time", []scene{during(minute, made()), during(5*minute, made(working(98, python))), during(45*time.Second, warm)},
			"GPU 0 (RTX 4090) is cooling down after python (pid 4242, alice), which left it 40 s ago (63 °C, 30 W of 450 W, fan at 48 %).",
			"cooling_down high"},
		{"cooling down, as before", append(append([]scene{during(minute, made()), during(5*minute, made(working(98, python)))}, coolingDown()...),
			during(5*minute, made(working(98, blender, python))), during(25*time.Second, warm)),
			"GPU 0 (RTX 4090) is cooling down after python (pid 4242, alice), which left it 20 s ago (63 °C, 30 W of 450 W, fan at 48 %), and should be quiet in about 70 s.",
			"cooling_down high"},
		{"a pause of ten seconds is no end yet", []scene{during(minute, made()), during(5*minute, made(working(98, python))), during(10*time.Second, heldBy(idler))},
			"python (pid 4242, alice) has kept GPU 0 (RTX 4090) busy at about 49 % for 5 min, 44 °C, 63 W of 450 W, fan off.",
			"work high"},
		{"who did most, not who was last", []scene{during(minute, made()), during(5*minute, made(working(98, python))), during(10*time.Second, made(working(8, shell))), during(10*time.Second, warm)},
			"GPU 0 (RTX 4090) is cooling down after python (pid 4242, alice), which left it 15 s ago (63 °C, 30 W of 450 W, fan at 48 %).",
			"cooling_down high"},
		{"who made the heat ends, and a desktop stays", []scene{during(minute, made()), during(5*minute, made(working(98, python, shell))), during(5*time.Second, made(working(0, shell)))},
			"GPU 0 (RTX 4090) is starting to cool down after python (pid 4242, alice), which left it just now (71 °C, 431 W of 450 W, fan at 66 %).",
			"cooling_down medium"},
		{"nobody was listed", []scene{during(minute, made()), during(5*minute, made(working(98))), during(20*time.Second, warm)},
			"GPU 0 (RTX 4090) is cooling down after work that stopped 15 s ago (63 °C, 30 W of 450 W, fan at 48 %).",
			"cooling_down high"},
		{"cool again", append([]scene{during(minute, made()), during(5*minute, made(working(98, python)))}, coolingDown()...),
			"GPU 0 (RTX 4090) is idle at 0 %, 34 °C, 17 W of 450 W, fan off.",
			"idle high"},
		{"work that warmed nothing", []scene{during(minute, made()), during(30*time.Second, made(func(d *gpu.Device) { d.Utilization.GPU = gpu.Of[gpu.Percent](6) })), during(10*time.Second, made())},
			"GPU 0 (RTX 4090) is idle at 0 %, 34 °C, 17 W of 450 W, fan off.",
			"idle high"},

		{"held awake by a process", []scene{during(2*minute, made()), during(3*minute, heldBy(idler, shell))},
			"python (pid 4242, alice) keeps GPU 0 (RTX 4090) awake without using it (44 °C, 63 W of 450 W, fan off), 46 W above its idle draw.",
			"held_awake high"},
		{"held awake since it was first seen", []scene{during(3*minute, heldBy(idler))},
			"python (pid 4242, alice) keeps GPU 0 (RTX 4090) awake without using it (44 °C, 63 W of 450 W, fan off): its clocks are up.",
			"held_awake medium"},
		{"held awake by one who was never seen", []scene{during(minute, exists(false))},
			"A process that gpuwhy can't see (pid 7) keeps GPU 0 (RTX 4090) awake without using it (44 °C, 63 W of 450 W, fan off), 42 W above its idle draw.",
			"held_awake medium"},
		{"held awake, with a floor that is known from before", []scene{during(5*time.Second, exists(true)), during(minute, exists(false))},
			"Leftovers from a process that has ended (pid 7) keep GPU 0 (RTX 4090) awake (44 °C, 63 W of 450 W, fan off), 42 W above its idle draw.",
			"held_awake high"},
		{"held awake by a display", []scene{during(2*minute, made(display)), during(3*minute, made(held, display, func(d *gpu.Device) { d.Processes = gpu.Of([]gpu.Process{shell}) }))},
			"A display keeps GPU 0 (RTX 4090) awake (44 °C, 63 W of 450 W, fan off), 46 W above its idle draw.",
			"held_awake medium"},
		{"held awake by being asked", []scene{during(2*minute, made(polled)), during(3*minute, made(held, polled))},
			"Monitoring (by gpuwhy or by another tool) keeps GPU 0 (RTX 4090) awake, because persistence mode is off (44 °C, 63 W of 450 W, fan off), 46 W above its idle draw.",
			"held_awake medium"},
		{"held awake by being asked, through nvidia-smi too", []scene{during(2*minute, made(polled, bySMI)), during(3*minute, made(held, polled, bySMI))},
			"Monitoring (by gpuwhy or by another tool) keeps GPU 0 (RTX 4090) awake, because persistence mode is off (44 °C, 63 W of 450 W, fan off), 46 W above its idle draw.",
			"held_awake medium"},
		{"held awake, and not all processes are seen", []scene{during(2*minute, made(polled, partial)), during(3*minute, made(held, polled, partial))},
			"GPU 0 (RTX 4090) is awake without work (44 °C, 63 W of 450 W, fan off), 46 W above its idle draw, and nothing listed explains it.",
			"held_awake low"},
		{"a Radeon rests though no state says so, and cools down to that", append([]scene{during(2*minute, made(radeon)), during(5*minute, made(radeonAt(98)))},
			during(2*minute, made(radeon, hotter(2)))),
			"GPU 0 (Radeon RX 7900 XTX) is idle at 0 %, 36 °C, 17 W of 450 W, fan off.",
			"idle high"},
		{"a fan that goes by the hot spot", []scene{during(minute, made(radeon)), during(4*minute, made(working(98, python), spot))},
			"python (pid 4242, alice) has kept GPU 0 (Radeon RX 7900 XTX) busy at 98 % for 3 min, 46 °C, hot spot 88 °C, 431 W of 450 W, fan at 75 %.",
			"work high"},
		{"a hot spot holds the fan", []scene{during(minute, made(radeon)), during(4*minute, made(radeon, spot))},
			"The fan of GPU 0 (Radeon RX 7900 XTX) turns at 75 % because of the chip's hot spot, which is at 88 °C; the GPU is idle at 0 %.",
			"fan_at_rest medium, idle high"},
		{"a hot spot slows it down", []scene{during(minute, made(radeon)), during(2*minute, made(working(98, python), spot, tooHot))},
			"GPU 0 (Radeon RX 7900 XTX) is slowed by its hot spot, which is at 110 °C (46 °C); python (pid 4242, alice) has kept it busy at 98 % for 115 s.",
			"limited_by_heat high, work high"},
		{"a fan that is only counted is not turning", []scene{during(minute, made(counted(900))), during(15*time.Second, made(working(98, python), counted(0), hotter(14)))},
			"The fan of GPU 0 (RTX 4090) is off at 85 °C, when it should be turning; python (pid 4242, alice) keeps the GPU busy at 98 %.",
			"fan_failing medium, work high"},
		{"the processor's heat is none of the GPU in it", []scene{during(3*minute, made(partOfCPU, hotter(46)))},
			"GPU 0 (RTX 4090) is idle at 0 %, 80 °C, 17 W of 450 W.",
			"idle high, chassis_fans high"},
		{"held awake by nobody knows what", []scene{during(2*minute, made()), during(3*minute, made(held))},
			"GPU 0 (RTX 4090) is awake without work (44 °C, 63 W of 450 W, fan off), 46 W above its idle draw, and nothing listed explains it.",
			"held_awake low"},
		{"what holds it awake is told when it has cooled down", []scene{during(minute, made()), during(5*minute, made(working(98, python))), during(45*time.Second, made(held, hotter(16), func(d *gpu.Device) { d.Processes = gpu.Of([]gpu.Process{idler}) }))},
			"GPU 0 (RTX 4090) is cooling down after python (pid 4242, alice), which stopped working 40 s ago (60 °C, 63 W of 450 W, fan off).",
			"cooling_down high"},

		{"reserved, and not used", []scene{during(30*time.Second, made(reservedBy("ml/train-0")))},
			"GPU 0 (RTX 4090) is idle at 0 %, 34 °C, 17 W of 450 W, fan off; it is reserved by pod ml/train-0, which has no process on it.",
			"idle high, reserved_unused high"},
		{"reserved for a while", []scene{during(12*minute+5*time.Second, made(reservedBy("ml/train-0")))},
			"GPU 0 (RTX 4090) is idle at 0 %, 34 °C, 17 W of 450 W, fan off; it is reserved by pod ml/train-0, which has had no process on it for 12 min.",
			"idle high, reserved_unused high"},
		{"shared by several", []scene{during(30*time.Second, made(reservedBy("ml/train-0", "ml/train-0", "ml/eval", "web/llm")))},
			"GPU 0 (RTX 4090) is idle at 0 %, 34 °C, 17 W of 450 W, fan off; it is reserved by pods ml/train-0, ml/eval and web/llm, which have no process on it.",
			"idle high, reserved_unused high"},
		{"shared by many", []scene{during(30*time.Second, made(reservedBy("a/1", "a/2", "a/3", "a/4", "a/5")))},
			"GPU 0 (RTX 4090) is idle at 0 %, 34 °C, 17 W of 450 W, fan off; it is reserved by 5 pods (a/1, a/2, …), which have no process on it.",
			"idle high, reserved_unused high"},
		{"an instance is reserved", []scene{during(30*time.Second, made(reservedBy("ml/train-0"), func(d *gpu.Device) {
			d.Reservations = gpu.Of([]gpu.Reservation{{Namespace: "ml", Pod: "train-0", Container: "main", Instance: "MIG-1"}})
		}))},
			"GPU 0 (RTX 4090) is idle at 0 %, 34 °C, 17 W of 450 W, fan off; a part of it is reserved by pod ml/train-0, which has no process on it.",
			"idle high, reserved_unused high"},
		{"reserved, with a desktop on it", []scene{during(30*time.Second, made(reservedBy("ml/train-0"), func(d *gpu.Device) {
			ours := shell
			ours.Facts.Pod = gpu.Of(gpu.Pod{})
			d.Processes = gpu.Of([]gpu.Process{ours})
		}))},
			"GPU 0 (RTX 4090) is idle at 0 %, 34 °C, 17 W of 450 W, fan off; it is reserved by pod ml/train-0, which has no process on it.",
			"idle high, reserved_unused high"},
		{"reserved, with a process of nobody knows whom", []scene{during(30*time.Second, made(reservedBy("ml/train-0"), func(d *gpu.Device) { d.Processes = gpu.Of([]gpu.Process{shell}) }))},
			"GPU 0 (RTX 4090) is idle at 0 %, 34 °C, 17 W of 450 W, fan off.",
			"idle high"},
		{"reserved, while the driver lists nothing", []scene{during(30*time.Second, made(reservedBy("ml/train-0"), func(d *gpu.Device) { d.Processes = gpu.Reading[[]gpu.Process]{} }))},
			"GPU 0 (RTX 4090) is idle at 0 %, 34 °C, 17 W of 450 W, fan off.",
			"idle high"},
		{"reserved, and work of nobody", []scene{during(30*time.Second, made(working(98), reservedBy("ml/train-0")))},
			"GPU 0 (RTX 4090) is busy at 98 %, 71 °C, 431 W of 450 W, fan at 66 %, and no listed process explains it (it is reserved by pod ml/train-0).",
			"work low"},
		{"cooling down, and reserved", []scene{during(minute, made()), during(5*minute, made(working(98, python), reservedBy("ml/train-0"))), during(10*time.Second, warm), during(5*time.Second, reservedWarm)},
			"GPU 0 (RTX 4090) is cooling down after python (pid 4242, alice), which left it 10 s ago (63 °C, 30 W of 450 W, fan at 48 %); it is reserved by pod ml/train-0, which has no process on it.",
			"cooling_down high, reserved_unused high"},

		{"fan set by hand", []scene{during(minute, made(manual))},
			"The fan of GPU 0 (RTX 4090) is set to 80 % by hand and does not follow the temperature (34 °C); the GPU is idle at 0 %.",
			"fan_set_by_hand high, idle high"},
		{"fan set by hand, and work", []scene{during(minute, made(working(98, python), manual))},
			"The fan of GPU 0 (RTX 4090) is set to 80 % by hand and does not follow the temperature (71 °C); python (pid 4242, alice) keeps the GPU busy at 98 %.",
			"fan_set_by_hand high, work high"},
		{"fan that goes elsewhere", []scene{during(2*minute, made(elsewhere))},
			"The fan of GPU 0 (RTX 4090) stays at 80 %, though the driver wants 30 % (34 °C); the GPU is idle at 0 %.",
			"fan_set_by_hand medium, idle high"},
		{"fan on its way", []scene{during(20*time.Second, made(elsewhere))},
			"The fan of GPU 0 (RTX 4090) turns at 80 % with no work running at 34 °C, and no reading explains it; the GPU is idle at 0 %.",
			"fan_at_rest medium, idle high"},

		{"fan that is not turning", []scene{during(2*minute, made(working(98, python))), during(15*time.Second, made(working(98, python), still))},
			"Fan 2 of GPU 0 (RTX 4090) is not turning, though it is told to run at 66 %; python (pid 4242, alice) keeps the GPU busy at 98 %.",
			"fan_failing high, work high"},
		{"fan that starts", []scene{during(minute, made()), during(10*time.Second, made(working(98, python), still))},
			"python (pid 4242, alice) keeps GPU 0 (RTX 4090) busy at 98 %, 71 °C, 431 W of 450 W, fan at 66 %.",
			"work high"},
		{"fan that is slower than it was", []scene{during(3*minute, made(working(98, python))), during(15*time.Second, made(working(98, python), slow))},
			"Fan 1 of GPU 0 (RTX 4090) turns at 900 RPM, but 2112 RPM is usual at 66 %; python (pid 4242, alice) keeps the GPU busy at 98 %.",
			"fan_failing medium, work high"},
		{"fan that turns unasked", []scene{during(minute, made(loose))},
			"Fan 1 of GPU 0 (RTX 4090) turns at 1500 RPM, though the driver asks for 0 %; the GPU is idle at 0 %.",
			"fan_failing medium, idle high"},

		{"at its power limit", []scene{during(minute, made(working(98, python), reasons(gpu.ReasonPowerCap)))},
			"python (pid 4242, alice) keeps GPU 0 (RTX 4090) busy at 98 %, 71 °C, 431 W of 450 W, fan at 66 %; it is held back by its power limit (450 W).",
			"work high, limited_by_power high"},
		{"too hot", []scene{during(minute, made(working(98, python), reasons(gpu.ReasonThermalSlowdown), hotter(19)))},
			"GPU 0 (RTX 4090) is slowed by heat (90 °C, 5 °C below its hardware slowdown); python (pid 4242, alice) keeps it busy at 98 %.",
			"limited_by_heat high, work high"},
		{"at the limit of the hardware", []scene{during(minute, made(working(98, python), reasons(gpu.ReasonThermalSlowdown), hotter(24)))},
			"GPU 0 (RTX 4090) is slowed by heat (95 °C); python (pid 4242, alice) keeps it busy at 98 %.",
			"limited_by_heat high, work high"},
		{"far too hot", []scene{during(minute, made(working(98, python), reasons(gpu.ReasonHardwareSlowdown|gpu.ReasonHardwareThermal), hotter(25)))},
			"GPU 0 (RTX 4090) is slowed sharply because it is too hot (96 °C); python (pid 4242, alice) keeps it busy at 98 %.",
			"limited_by_heat high, work high"},
		{"heat and power", []scene{during(minute, made(working(98, python), reasons(gpu.ReasonThermalSlowdown|gpu.ReasonPowerCap)))},
			"python (pid 4242, alice) keeps GPU 0 (RTX 4090) busy at 98 %, 71 °C, 431 W of 450 W, fan at 66 %; it is slowed by heat (71 °C, 24 °C below its hardware slowdown); it is held back by its power limit (450 W).",
			"work high, limited_by_heat high, limited_by_power high"},
		{"the power supply", []scene{during(minute, made(working(98, python), reasons(gpu.ReasonHardwareSlowdown|gpu.ReasonHardwarePowerBrake)))},
			"python (pid 4242, alice) keeps GPU 0 (RTX 4090) busy at 98 %, 71 °C, 431 W of 450 W, fan at 66 %; it is slowed because the power supply asks it to draw less.",
			"work high, limited_by_power high"},
		{"its own hardware", []scene{during(minute, made(working(98, python), reasons(gpu.ReasonHardwareSlowdown)))},
			"python (pid 4242, alice) keeps GPU 0 (RTX 4090) busy at 98 %, 71 °C, 431 W of 450 W, fan at 66 %; it is slowed by its own hardware, because of heat or the power supply.",
			"work high, limited_by_power medium"},

		{"hotter than it was", []scene{during(12*minute, made(working(98, python))), during(2*minute, made(working(98, python), hotter(12)))},
			"GPU 0 (RTX 4090) is hot for its power: 11 °C hotter than it used to be at 431 W; python (pid 4242, alice) keeps it busy at 98 %.",
			"hot_for_its_power medium, work high"},
		{"hotter than its neighbors", []scene{during(2*minute, oneHot...)},
			"python (pid 4242, alice) keeps GPU 2 (RTX 4090) busy at 98 %, 85 °C, 431 W of 450 W; it is hot for its power: 14 °C hotter than its neighbors at 431 W; it has no fan of its own: you hear the chassis fans; 3 other GPUs are busy.",
			"work high, hot_for_its_power medium, chassis_fans high"},
		{"all are hotter than they were", []scene{during(12*minute, row()...), during(2*minute, row(hotter(6))...)},
			"python (pid 4242, alice) keeps GPU 0 (RTX 4090) busy at 98 %, 77 °C, 431 W of 450 W; it has no fan of its own: you hear the chassis fans; 3 other GPUs are busy; 4 of 4 GPUs run hotter than before at the same power, by 6 °C on average: the air that reaches them is probably warmer.",
			"work high, chassis_fans high"},

		{"a fan that stands still, work, and heat", []scene{during(2*minute, made(working(98, python))), during(minute, made(working(98, python), still, hotter(19), reasons(gpu.ReasonThermalSlowdown|gpu.ReasonPowerCap)))},
			"Fan 2 of GPU 0 (RTX 4090) is not turning, though it is told to run at 66 %; the GPU is slowed by heat (90 °C, 5 °C below its hardware slowdown); python (pid 4242, alice) keeps the GPU busy at 98 %.",
			"fan_failing high, limited_by_heat high, work high, limited_by_power high"},
		{"fan set by hand, and held awake", []scene{during(2*minute, made()), during(3*minute, made(held, manual, func(d *gpu.Device) { d.Processes = gpu.Of([]gpu.Process{idler}) }))},
			"The fan of GPU 0 (RTX 4090) is set to 80 % by hand and does not follow the temperature (44 °C); python (pid 4242, alice) keeps the GPU awake without using it, 46 W above its idle draw.",
			"fan_set_by_hand high, held_awake high"},
		{"let go a moment ago", []scene{during(2*minute, made()), during(3*minute, heldBy(idler)), during(10*time.Second, made(held))},
			"GPU 0 (RTX 4090) is idle at 0 %, 44 °C, 63 W of 450 W, fan off.",
			"idle high"},
		{"let go, and still awake", []scene{during(2*minute, made()), during(3*minute, heldBy(idler)), during(30*time.Second, made(held))},
			"GPU 0 (RTX 4090) is awake without work (44 °C, 63 W of 450 W, fan off), 46 W above its idle draw, and nothing listed explains it.",
			"held_awake low"},
		{"work that ended this moment", []scene{during(minute, made()), during(5*minute, made(working(98, python))), during(5*time.Second, made(working(0), func(d *gpu.Device) { d.Clocks.SM = gpu.Of[gpu.Megahertz](210) }))},
			"GPU 0 (RTX 4090) is starting to cool down after python (pid 4242, alice), which left it just now (71 °C, 431 W of 450 W, fan at 66 %).",
			"cooling_down medium"},
		{"fan set by hand, and cooling down", []scene{during(minute, made(manual)), during(5*minute, made(working(98, python), manual)), during(45*time.Second, warmByHand)},
			"The fan of GPU 0 (RTX 4090) is set to 80 % by hand and does not follow the temperature (63 °C).",
			"fan_set_by_hand high, cooling_down high"},
		{"stuck counter, and fan set by hand", []scene{during(30*time.Second, made(stuck, manual))},
			"GPU 0 (RTX 4090) reports 100 % utilization, but its counter looks stuck: nothing is running on it (34 °C, 17 W of 450 W, fan at 80 %); its fan is set to 80 % by hand and does not follow the temperature (34 °C).",
			"busy_counter_stuck high, fan_set_by_hand high"},
		{"four causes, of which three are told", []scene{during(12*minute, made(working(98, python), passive)), during(2*minute, made(working(98, python), passive, hotter(12), reasons(gpu.ReasonPowerCap)))},
			"GPU 0 (RTX 4090) is hot for its power: 11 °C hotter than it used to be at 431 W; python (pid 4242, alice) keeps it busy at 98 %; it is held back by its power limit (450 W).",
			"hot_for_its_power medium, work high, limited_by_power high, chassis_fans high"},
		{"warm for seconds, and reserved", []scene{during(10*time.Second, reservedWarm)},
			"GPU 0 (RTX 4090) is warm without work (63 °C, 30 W of 450 W, fan at 48 %), and gpuwhy has not watched long enough to tell why; it is reserved by pod ml/train-0, which has no process on it.",
			"idle low, reserved_unused high"},
		{"warm for a long time", []scene{during(25*minute, warm)},
			"GPU 0 (RTX 4090) is idle at 0 %, 63 °C, 30 W of 450 W, fan at 48 %; it stays warm without work, and none of its readings explains it.",
			"idle low"},
		{"as warm as ever", []scene{during(25*minute, made(func(d *gpu.Device) { d.Thermal.GPU = gpu.Of[gpu.Celsius](52) }))},
			"GPU 0 (RTX 4090) is idle at 0 %, 52 °C, 17 W of 450 W, fan off.",
			"idle high"},
		{"held awake, and no power at rest is known that is lower", []scene{during(minute, made(func(d *gpu.Device) { d.Power.Draw = gpu.Of[gpu.Watts](62) })), during(3*minute, made(held, func(d *gpu.Device) { d.Processes = gpu.Of([]gpu.Process{idler}) }))},
			"python (pid 4242, alice) keeps GPU 0 (RTX 4090) awake without using it (44 °C, 63 W of 450 W, fan off): its clocks are up.",
			"held_awake medium"},

		{"stuck counter", []scene{during(30*time.Second, made(stuck))},
			"GPU 0 (RTX 4090) reports 100 % utilization, but its counter looks stuck: nothing is running on it (34 °C, 17 W of 450 W, fan off).",
			"busy_counter_stuck high"},
		{"one reading that nothing else shows", []scene{during(time.Minute, made()), during(5*time.Second, made(stuck))},
			"GPU 0 (RTX 4090) is idle except for a moment at 100 %, 34 °C, 17 W of 450 W, fan off.",
			"idle medium"},
		{"stuck counter, and many who do nothing", []scene{during(30*time.Second, made(stuck, listing(36, idler)))},
			"GPU 0 (RTX 4090) reports 100 % utilization, but its counter looks stuck: none of the 36 processes on it does anything (34 °C, 17 W of 450 W, fan off).",
			"busy_counter_stuck medium"},
		{"stuck counter, and one who does nothing", []scene{during(30*time.Second, made(stuck, listing(1, idler)))},
			"GPU 0 (RTX 4090) reports 100 % utilization, but its counter looks stuck: the only process on it does nothing (34 °C, 17 W of 450 W, fan off).",
			"busy_counter_stuck medium"},
		{"stuck counter, at the first reading", []scene{during(5*time.Second, made(stuck, listing(36, idler)))},
			"GPU 0 (RTX 4090) reports 100 % utilization, but its counter looks stuck: none of the 36 processes on it does anything (34 °C, 17 W of 450 W, fan off).",
			"busy_counter_stuck low"},
		{"stuck counter, and a desktop without a share", []scene{during(30*time.Second, made(stuck, listing(2, gpu.Process{PID: 9, Type: gpu.TypeGraphics, Facts: shell.Facts})))},
			"GPU 0 (RTX 4090) reports 100 % utilization, but its counter looks stuck: no process on it is seen working (34 °C, 17 W of 450 W, fan off).",
			"busy_counter_stuck medium"},
		{"busy, at rest, and a process without a share, at the first reading", []scene{during(5*time.Second, made(stuck, listing(1, sleeper)))},
			"GPU 0 (RTX 4090) reports 100 % utilization, 34 °C, 17 W of 450 W, fan off, but its power and clocks are at idle level: gpuwhy can't tell yet whether anything is working on it.",
			"work low"},
		{"busy, at rest, and one who has just come", []scene{during(minute, made()), during(5*time.Second, made(stuck, listing(1, idler)))},
			"GPU 0 (RTX 4090) is idle except for a moment at 100 %, 34 °C, 17 W of 450 W, fan off.",
			"idle medium"},
		{"who had no share is not blamed for the heat", []scene{during(minute, made()), during(2*minute, made(stuck, listing(1, sleeper))), during(45*time.Second, warm)},
			"GPU 0 (RTX 4090) is idle at 0 %, 63 °C, 30 W of 450 W, fan at 48 %; it stays warm without work, and none of its readings explains it.",
			"idle low"},
		{"busy, at rest, and the driver gives one a share", []scene{during(minute, made()), during(5*time.Second, made(stuck, listing(1, python)))},
			"GPU 0 (RTX 4090) is idle except for a moment at 100 %, 34 °C, 17 W of 450 W, fan off.",
			"idle medium"},
		{"another that only says it is busy is not at work", []scene{during(minute, made(), made(indexed(1))), during(5*time.Second, made(working(98, python)), made(indexed(1), stuck, listing(1, idler)))},
			"python (pid 4242, alice) keeps GPU 0 (RTX 4090) busy at 98 %, 71 °C, 431 W of 450 W, fan at 66 %.",
			"work high"},
		{"impossible power", []scene{during(minute, made(func(d *gpu.Device) { d.Power.Draw = gpu.DoubtfulOf[gpu.Watts](2000) }))},
			"GPU 0 (RTX 4090) is idle at 0 %, 34 °C, fan off.",
			"idle high, doubtful_reading medium"},
		{"cut into instances", []scene{during(minute, made(working(0, gpu.Process{PID: 5, Type: gpu.TypeCompute, Facts: python.Facts}), mig, passive))},
			"python (pid 5, alice) probably keeps GPU 0 (RTX 4090) busy, 71 °C, 431 W of 450 W; it has no fan of its own: you hear the chassis fans.",
			"work low, chassis_fans high, not_knowable high"},
		{"hidden processes", []scene{during(minute, made(working(98, stranger)))},
			"A process (pid 7) keeps GPU 0 (RTX 4090) busy at 98 %, 71 °C, 431 W of 450 W, fan at 66 %.",
			"work high, not_knowable high"},
		{"it hangs", []scene{during(minute, made(working(98, python))), during(minute, deviceIn(gpu.StateNotAnswering, 0))},
			"GPU 0 (RTX 4090) is not answering.", "not_answering high"},
		{"it is back after a long time", []scene{during(minute, made()), during(minute, made(working(98, python))), during(10*minute, deviceIn(gpu.StateLost, 0)), during(10*time.Second, warm)},
			"GPU 0 (RTX 4090) is warm without work (63 °C, 30 W of 450 W, fan at 48 %), and gpuwhy has not watched long enough to tell why.", "idle low"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := play(t, tt.scenes...)
			if got.Sentence != tt.want {
				t.Errorf("got  %q\nwant %q", got.Sentence, tt.want)
			}
			if causes := kindsOf(loudest(&got)); causes != tt.causes {
				t.Errorf("causes are %q, want %q", causes, tt.causes)
			}
		})
	}
}

// loudest returns the causes of the device that the machine's sentence is about.
func loudest(a *explain.Answer) []explain.Cause {
	causes := a.Causes()[len(a.Machine):]
	for i := range causes {
		if causes[i].Device != causes[0].Device {
			return causes[:i]
		}
	}
	return causes
}

func kindsOf(causes []explain.Cause) string {
	var out []string
	for _, c := range causes {
		out = append(out, string(c.Kind)+" "+c.Confidence.String())
	}
	return strings.Join(out, ", ")
}

// Every figure in a sentence is among its evidence, and each has its time.
func TestEvidence(t *testing.T) {
	a := play(t,
		during(2*time.Minute, made()), during(5*time.Minute, made(working(98, python))),
		during(45*time.Second, made(held, func(d *gpu.Device) {
			d.Thermal.GPU, d.Processes = gpu.Of[gpu.Celsius](60), gpu.Of([]gpu.Process{process(4242, "python", 0)})
		})))
	var got []string
	for _, c := range a.Devices[0].Causes {
		got = append(got, string(c.Kind)+" since "+c.Since.Format(time.TimeOnly)+": "+c.Advice)
		for _, e := range c.Evidence {
			line := "  " + e.Name + ": " + e.Text
			if e.Moment {
				line = "  " + e.Name + ": the moment"
			}
			if !e.At.IsZero() {
				line += " @" + e.At.Format(time.TimeOnly)
			}
			got = append(got, line)
		}
	}
	want := `cooling_down since 15:07:00: No action needed: it will become quiet by itself.
  temperature: 60 °C @15:07:40
  power draw: 63 W @15:07:40
  power limit: 450 W @15:07:40
  fan, as commanded: 0 % @15:07:40
  temperature when it began: 71 °C @15:07:00
  lowest temperature since: 60 °C @15:07:40
  last work: python (pid 4242, alice) @15:07:00
  work ended: the moment @15:07:00
  fan when it ended: 66 % @15:07:00`
	if strings.Join(got, "\n") != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
}

// A reading on demand is answered with the existing past, and does not change it.
func TestAReadingOnDemand(t *testing.T) {
	h := explain.NewHistory()
	h.Add(snapshot(made()))
	newest := snapshot(made(working(98, python)))
	newest.Time = start.Add(time.Minute)
	answer := h.Add(newest)
	beside := snapshot(made(func(d *gpu.Device) { d.Thermal.GPU = gpu.Of[gpu.Celsius](70); fansAt(d, 60) }))
	beside.Time = start.Add(2 * time.Minute)
	const want = "GPU 0 (RTX 4090) is cooling down after python (pid 4242, alice), which left it just now (70 °C, 17 W of 450 W, fan at 60 %)."
	for range 2 {
		if got := h.Beside(beside).Sentence; got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
	if got := answer.Sentence; !strings.HasPrefix(got, "python (pid 4242, alice) keeps") {
		t.Errorf("the newest: %q", got)
	}
	old := snapshot(made())
	old.Time = start.Add(-time.Hour)
	check(t, h.Beside(old))
}
