package explain_test

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// Advice about an unreadable device names no other vendor's tools.
func TestAdviceIsTheVendors(t *testing.T) {
	for _, vendor := range []gpu.Vendor{gpu.NVIDIA, gpu.AMD, gpu.Intel, ""} {
		byHand := made(func(d *gpu.Device) {
			d.Vendor = vendor
			fansAt(d, 80)
			d.Fans.Fans[0].Policy = gpu.Of("manual")
		})
		answer := play(t, during(time.Minute, byHand))
		cause := answer.Main()[0]
		if got := cause.Advice; cause.Kind != explain.FanByHand || strings.Contains(got, "nvidia") != (vendor == gpu.NVIDIA) {
			t.Errorf("a fan of %q set by hand is %s: %q", vendor, cause.Kind, got)
		}
	}
	for vendor, lines := range map[gpu.Vendor]string{gpu.NVIDIA: "NVRM and Xid lines", gpu.AMD: "lines of amdgpu", gpu.Intel: "lines of i915 and xe", "": "lines of its driver"} {
		for _, state := range []gpu.State{gpu.StateLost, gpu.StateNotAnswering} {
			a := explain.Explain(snapshot(gpu.Device{Identity: gpu.Identity{UUID: "GPU-1", Vendor: vendor}, State: state}))
			if got := a.Main()[0].Advice; !strings.HasPrefix(got, "Look for "+lines+" in the kernel log") {
				t.Errorf("a device of %q that is %s: %q", vendor, state, got)
			}
		}
	}
}

// One sentence and one advice of each kind of cause, as a person reads them. The stories have the variants.
func TestASentenceOfEachKind(t *testing.T) {
	const minute = time.Minute
	played := func(scenes ...scene) func() explain.Answer {
		return func() explain.Answer { return play(t, scenes...) }
	}
	at0 := func(s *gpu.Snapshot) func() explain.Answer {
		return func() explain.Answer {
			if s == nil {
				return explain.Combine(nil)
			}
			return explain.Explain(s)
		}
	}
	noLibrary := gpu.Failure{Source: "nvml", Since: start, Advice: gpu.Advice{What: "NVIDIA's library was not found", Try: "install the driver"}}
	beside := snapshot(made())
	beside.Failures = []gpu.Failure{{Source: "amdgpu", Since: start, Advice: gpu.Advice{What: "/sys can't be read", Try: "run it as root"}}}
	noted := snapshot(made())
	noted.Notes = []gpu.Advice{{What: "gpuwhy can't see the names of processes from this container", Try: "start it with --pid=host"}}
	loudCase := snapshot(made())
	loudCase.Host = &gpu.Host{Fans: []gpu.HostFan{{Name: "CPU fan", RPM: gpu.Of[gpu.RPM](3100)}}, Temperatures: []gpu.HostTemperature{{Name: "CPU", Celsius: gpu.Of[gpu.Celsius](91)}}}
	alone := made(func(d *gpu.Device) {
		d.Readings = gpu.Readings{}
		d.Reason = gpu.Advice{What: "it is left alone to fall asleep", Try: "open the page to wake it"}
	})
	hot := made(working(98, python), func(d *gpu.Device) { d.Thermal.GPU = gpu.Of[gpu.Celsius](84) })
	four := func(more gpu.Celsius) []gpu.Device {
		var out []gpu.Device
		for i := range 4 {
			out = append(out, made(indexed(i), working(98, python), func(d *gpu.Device) { d.Thermal.GPU = gpu.Of(d.Thermal.GPU.Or(0) + more) }))
		}
		return out
	}
	reasons := func(r gpu.ClockEventReasons) gpu.Device {
		return made(working(98, python), func(d *gpu.Device) { d.Clocks.EventReasons = gpu.Of(r) })
	}
	manual := made(func(d *gpu.Device) {
		fansAt(d, 80)
		d.Fans.Fans[0].Policy = gpu.Of("manual")
	})
	still := made(working(98, python), func(d *gpu.Device) { d.Fans.Fans[1].RPM = gpu.Of[gpu.RPM](0) })
	xid31 := func(d *gpu.Device) {
		d.Health.XIDs = gpu.Of([]gpu.XID{{Code: 31, Count: 2, Last: start.Add(-minute)}, {Code: 45, Count: 1, Last: start.Add(-2 * minute)}, {Code: 79, Count: 1, Last: start.Add(-2 * time.Hour)}})
	}
	left := documented(t)
	for kind, tt := range map[explain.Kind]struct {
		answer       func() explain.Answer
		says, advice string
	}{
		explain.Lost: {at0(snapshot(deviceIn(gpu.StateLost, 0))), "GPU 0 (RTX 4090) is lost: the driver no longer finds it.",
			"Look for lines of its driver in the kernel log, check the card's power cables and seating, and restart the machine."},
		explain.NotAnswering: {at0(snapshot(deviceIn(gpu.StateNotAnswering, 0))), "GPU 0 (RTX 4090) is not answering.",
			"Look for lines of its driver in the kernel log; you may have to restart the machine."},
		explain.Asleep:     {at0(snapshot(deviceIn(gpu.StateAsleep, 0))), "GPU 0 (RTX 4090) is asleep: the system has powered it down.", ""},
		explain.NoReadings: {at0(snapshot(alone)), "GPU 0 (RTX 4090) has no readings now: it is left alone to fall asleep.", "Open the page to wake it."},
		explain.NeedsAction: {at0(snapshot(made(stands(gpu.FaultNeedsReset)))), "GPU 0 (RTX 4090) needs a reset, according to its driver (34 °C, 17 W of 450 W, fan off).",
			"End everything that uses the GPU and reset it (nvidia-smi --gpu-reset, as root), or restart the machine."},
		explain.FanUnreadable: {at0(snapshot(made(stands(gpu.FaultFanUnreadable)))), "The fan of GPU 0 (RTX 4090) can't be read: the driver reports an error.",
			"Check whether the fan is turning, and watch the temperature. Restart the machine; if the fan still can't be read, have the card tested."},
		explain.StuckCounter: {played(during(30*time.Second, made(func(d *gpu.Device) { d.Utilization.GPU = gpu.Of[gpu.Percent](100) }))),
			"GPU 0 (RTX 4090) reports 100 % utilization, but its counter looks stuck: nothing is running on it (34 °C, 17 W of 450 W, fan off).",
			"The fan needs no action. The counter recovers when you reset the GPU or restart the machine; until then, rely on power and temperature."},
		explain.FanFailing: {played(during(2*minute, made(working(98, python))), during(15*time.Second, still)),
			"Fan 2 of GPU 0 (RTX 4090) is not turning, though it is told to run at 66 %.",
			"Check whether something blocks it or its cable is loose, and watch the temperature: without this fan the GPU may have to slow down. If it does not start again, have it replaced."},
		explain.FanByHand: {played(during(minute, manual)),
			"The fan of GPU 0 (RTX 4090) is set to 80 % by hand and does not follow the temperature (34 °C).",
			"Give the fan back to the driver: quit the fan tool that set it, or switch it to automatic control (in nvidia-settings, or in the tool itself)."},
		explain.Work: {played(during(minute, made()), during(12*minute+5*time.Second, made(working(98, python)))),
			"python (pid 4242, alice) has kept GPU 0 (RTX 4090) busy at 98 % for 12 min, 71 °C, 431 W of 450 W, fan at 66 %.",
			"End or pause python (pid 4242, alice). Or keep it running a little slower, with less heat and noise: nvidia-smi -i GPU-0 -pl 360, as root."},
		explain.CoolingDown: {played(during(minute, made()), during(5*minute, made(working(98, python))), during(45*time.Second, made(func(d *gpu.Device) { d.Thermal.GPU = gpu.Of[gpu.Celsius](60) }))),
			"GPU 0 (RTX 4090) is cooling down after python (pid 4242, alice), which left it 40 s ago (60 °C, 17 W of 450 W, fan off).",
			"No action needed: it will become quiet by itself."},
		explain.HeldAwake: {played(during(2*minute, made()), during(3*minute, made(held, func(d *gpu.Device) { d.Processes = gpu.Of([]gpu.Process{process(4242, "python", 0)}) }))),
			"python (pid 4242, alice) keeps GPU 0 (RTX 4090) awake without using it (44 °C, 63 W of 450 W, fan off), 46 W above its idle draw.",
			"End python (pid 4242, alice), or make it release the GPU (notebook: shut down its kernel; model server: unload the model)."},
		explain.FanAtRest: {played(during(minute, made(func(d *gpu.Device) { fansAt(d, 30) }))),
			"The fan of GPU 0 (RTX 4090) turns at 30 %, about as slowly as it can at 34 °C.",
			"No action needed. Some cards can stop their fans when idle: look for a zero-RPM mode."},
		explain.Frozen: {played(during(90*time.Second, made(working(98, python))), during(minute, made(working(98, python), func(d *gpu.Device) { d.Power.Draw = gpu.Of[gpu.Watts](200) }))),
			"GPU 0 (RTX 4090) has kept reporting 71 °C while its power draw changed by 231 W: its temperature sensor looks stuck.",
			"Rely on power and fan until you reload the driver; a driver update may fix it."},
		explain.OtherFan: {at0(loudCase), "It is not the GPU's fan: the CPU fan turns at 3100 RPM, with the CPU at 91 °C.",
			"Check what keeps the CPU busy (top), and check the case fans and their curve in the firmware settings."},
		explain.LimitedByHeat: {at0(snapshot(reasons(gpu.ReasonThermalSlowdown))), "GPU 0 (RTX 4090) is slowed by heat (71 °C, 24 °C below its hardware slowdown).",
			"Give it cooler air: clean filters and fans, leave space in front of the intakes, close empty slots. A lower power limit makes less heat."},
		explain.LimitedPower: {at0(snapshot(reasons(gpu.ReasonPowerCap))), "GPU 0 (RTX 4090) is held back by its power limit (450 W).",
			"This is normal at full load: the limit keeps heat and noise down. You can raise it to 600 W for more speed, heat and noise."},
		explain.HotForPower: {played(during(12*minute, made(working(98, python))), during(2*minute, hot)),
			"GPU 0 (RTX 4090) is hot for its power: 12 °C hotter than it used to be at 431 W.",
			"Clean its fans and filters, and check whether something blocks the air in front of it or behind it."},
		explain.Unexplained: {played(during(minute, made(working(0), func(d *gpu.Device) { d.Clocks.SM = gpu.Of[gpu.Megahertz](300) }))),
			"GPU 0 (RTX 4090) draws power without work (71 °C, 431 W of 450 W, fan at 66 %), and none of its readings explains it.",
			"Check again in a few seconds: work that has just started or ended shows in the power draw first."},
		explain.Idle: {at0(snapshot(made())), "GPU 0 (RTX 4090) is idle at 0 %, 34 °C, 17 W of 450 W, fan off.", ""},
		explain.Reserved: {played(during(12*minute+5*time.Second, made(reservedBy("ml/train-0")))),
			"GPU 0 (RTX 4090) is reserved by pod ml/train-0, which has had no process on it for 12 min.",
			"If the pod does not need it, delete the pod: until then nobody else can use the GPU."},
		explain.ChassisFans: {at0(snapshot(made(passive))), "GPU 0 (RTX 4090) has no fan of its own: you hear the chassis fans.",
			"The chassis fans follow its hottest part: the machine's management controller shows which sensors they follow."},
		explain.DriverError: {at0(snapshot(made(xid31))), "GPU 0 (RTX 4090) had a driver error, XID 31 (a program used a wrong memory address).",
			"Check what the program did: its log, its last change, and whether it runs on another GPU."},
		explain.Doubtful: {at0(snapshot(made(func(d *gpu.Device) {
			d.Power.Draw, d.Thermal.GPU = gpu.DoubtfulOf[gpu.Watts](2000), gpu.Of[gpu.Celsius](511)
		}))),
			"GPU 0 (RTX 4090) reports impossible values, ignored here: temperature (511 °C); and values that are probably wrong: power draw (2000 W).",
			"If this persists, restart the machine or update the driver; a sensor may be broken."},
		explain.NotKnowable: {at0(snapshot(made(working(98, stranger), func(d *gpu.Device) { d.Thermal.GPU = gpu.Absent[gpu.Celsius](gpu.NotSupported) }))),
			"Not known about GPU 0 (RTX 4090): what 1 unnamed process is; how hot it is (not offered by this product or driver).",
			"Let gpuwhy see the host's processes (in a container: --pid=host)."},
		explain.WarmAir: {played(during(12*minute, four(0)...), during(2*minute, four(6)...)),
			"4 of 4 GPUs run hotter than before at the same power, by 6 °C on average: the air that reaches them is probably warmer.",
			"Check the room's cooling, and the chassis fans and filters."},
		explain.CPUWork: {ofHosts(machine(96, 88, 2600, compiler)), "cc1plus (16 processes, ann) keeps the CPU busy at 96 % (88 °C, 110 W, the CPU fan at 2600 RPM).",
			"End or pause cc1plus (16 processes, ann)."},
		explain.CPUCooling: {ofHosts(append(slices.Repeat([]gpu.Host{machine(96, 88, 2600, compiler)}, 6), slices.Repeat([]gpu.Host{machine(2, 80, 2500)}, 2)...)...),
			"The CPU is cooling down after cc1plus (16 processes, ann), which stopped 10 s ago (80 °C, 110 W, the CPU fan at 2500 RPM).",
			"No action needed: it will become quiet by itself."},
		explain.CPUHeat: {ofHosts(machine(96, 99, 3600, compiler, func(h *gpu.Host) { h.CPUThrottled = gpu.Of(true) })),
			"The CPU has been slowed by heat (99 °C, 110 W, the CPU fan at 3600 RPM).",
			"Clean its cooler and filters, and check that the cooler is seated well. Running less at once makes less heat."},
		explain.HotSensor: {ofHosts(machine(3, 41, 800, func(h *gpu.Host) {
			h.Temperatures = append(h.Temperatures, gpu.HostTemperature{Name: "chipset", Celsius: gpu.Of[gpu.Celsius](91)})
		})), "The chipset is hot, at 91 °C; fans may follow it.", "Check the air that reaches it: a fan that is not turning, a crowded case, dust."},
		explain.MachineFan: {ofHosts(machine(3, 41, 3200)), "The CPU fan turns at 3200 RPM, and neither work nor a reported temperature explains it.",
			"Check its curve in the firmware settings. In servers the management controller (BMC) sets the fans, often fast even when idle."},
		explain.NoFanShown:    {ofHosts(machine(3, 41, -1)), "No fan can be read here: no fan sensor driver is loaded.", "Load one."},
		explain.MachineAtRest: {ofHosts(machine(3, 41, 800)), "The machine is doing little work, with its CPU at 3 % (41 °C, 110 W, the CPU fan at 800 RPM).", ""},
		explain.NoDevice:      {at0(&gpu.Snapshot{Failures: []gpu.Failure{noLibrary}}), "No GPU can be read: NVIDIA's library was not found.", "Install the driver."},
		explain.SourceFailed:  {at0(beside), "amdgpu can't be read: /sys can't be read.", "Run it as root."},
		explain.Note:          {at0(noted), "gpuwhy can't see the names of processes from this container.", "Start it with --pid=host."},
		explain.NoMachine: {explain.Unseen, "No machine that you may see is known here now.",
			"Ask the person who runs gpuwhy which machines your account or token is for; a machine that is away appears when it is back."},
		explain.Starting: {at0(nil), "The first reading is still under way.", ""},
	} {
		t.Run(string(kind), func(t *testing.T) {
			a := tt.answer()
			causes := a.Causes()
			i := slices.IndexFunc(causes, func(c explain.Cause) bool { return c.Kind == kind })
			if i < 0 {
				t.Fatalf("it is not among the causes: %s", kindsOf(causes))
			}
			if c := causes[i]; c.Sentence != tt.says || c.Advice != tt.advice {
				t.Errorf("got  %q\n     %q\nwant %q\n     %q", c.Sentence, c.Advice, tt.says, tt.advice)
			}
		})
		delete(left, kind)
	}
	for _, kind := range slices.Sorted(maps.Keys(left)) {
		t.Errorf("there is no sentence here of %s", kind)
	}
}

// documented returns the kinds in docs/why.md, which another test compares with the rules.
func documented(t *testing.T) map[explain.Kind]bool {
	t.Helper()
	text, err := os.ReadFile("../../../docs/why.md")
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[explain.Kind]bool{}
	_, causes, _ := strings.Cut(string(text), "## Causes of a device")
	for _, row := range regexp.MustCompile("(?m)^\\| (`[a-z_`, ]+`) \\|").FindAllStringSubmatch(causes, -1) {
		for name := range strings.SplitSeq(row[1], ", ") {
			kinds[explain.Kind(strings.Trim(name, "`"))] = true
		}
	}
	return kinds
}

// Another vendor's fault is described like an XID, with the program that the kernel names.
func TestFaultsAreDriverErrors(t *testing.T) {
	hung := deviceIn(gpu.StateOK, 0)
	hung.Health.Faults = gpu.Of([]gpu.Fault{
		{Kind: gpu.FaultEngineHang, Count: 2, Last: start.Add(-time.Minute), Engine: "gfx_0.0.0", Culprit: gpu.Culprit{PID: 7, Name: "Game.exe"}},
		{Kind: gpu.FaultWedged, Count: 1, Last: start.Add(-2 * time.Minute)},
	})
	answer := explain.Explain(snapshot(hung))
	i := slices.IndexFunc(answer.Causes(), func(c explain.Cause) bool { return c.Kind == explain.DriverError })
	if i < 0 {
		t.Fatalf("no cause names it: %+v", answer.Causes())
	}
	cause := answer.Causes()[i]
	if want := "GPU 0 (RTX 4090) had a driver error, engine hang (work on the GPU did not finish)."; cause.Sentence != want || cause.Advice == "" {
		t.Errorf("%q, %q", cause.Sentence, cause.Advice)
	}
	if text := fmt.Sprint(cause.Evidence); !strings.Contains(text, "Game.exe") {
		t.Errorf("who: %s", text)
	}

	lost := deviceIn(gpu.StateLost, 0)
	lost.Health.Faults = gpu.Of([]gpu.Fault{{Kind: gpu.FaultResetFailed, Count: 1, Last: start}})
	answer = explain.Explain(snapshot(lost))
	if got := answer.Causes()[0].Sentence; !strings.HasSuffix(got, ", after reset failed (the GPU could not be reset).") {
		t.Error(got)
	}
}

// The sentence about a lost device says which error came shortly before it, if any.
func TestALostDeviceNamesItsXID(t *testing.T) {
	for ago, want := range map[time.Duration]string{
		time.Minute:   "GPU 0 (RTX 4090) is lost: the driver no longer finds it, after XID 79 (the GPU has fallen off the bus).",
		2 * time.Hour: "GPU 0 (RTX 4090) is lost: the driver no longer finds it.",
	} {
		lost := deviceIn(gpu.StateLost, 0)
		lost.Health.XIDs = gpu.Of([]gpu.XID{{Code: 79, Count: 1, Last: start.Add(-ago)}})
		answer := explain.Explain(snapshot(lost))
		if got := answer.Causes()[0].Sentence; got != want {
			t.Errorf("%v before: %q, want %q", ago, got, want)
		}
	}
}

// stands makes the driver report current faults of a device.
func stands(kinds ...gpu.FaultKind) func(*gpu.Device) {
	return func(d *gpu.Device) {
		var all []gpu.Fault
		for _, kind := range kinds {
			what, try := kind.Meaning()
			all = append(all, gpu.Fault{Kind: kind, Count: 1, Last: start})
			d.Reason = gpu.Advice{What: what, Try: try, Err: gpu.ErrNeedsAction}
		}
		d.Health.Faults = gpu.Of(all)
	}
}

// What the driver asks for comes first: the headline says it, and it is not an error of the past.
func TestWhatTheDriverAsksFor(t *testing.T) {
	for _, tt := range []struct {
		kinds    []gpu.FaultKind
		headline string
		causes   string
	}{
		{[]gpu.FaultKind{gpu.FaultNeedsReset}, "GPU 1 needs a reset, according to its driver.", "needs_action high, work high"},
		{[]gpu.FaultKind{gpu.FaultNeedsRestart}, "The machine needs a restart to recover GPU 1.", "needs_action high, work high"},
		{[]gpu.FaultKind{gpu.FaultNeedsDrain}, "The driver asks you to end the work that GPU 1 shares with other GPUs.", "needs_action high, work high"},
		{[]gpu.FaultKind{gpu.FaultNeedsLaterReset}, "GPU 1 needs a reset once its work is done.", "needs_action high, work high"},
		{[]gpu.FaultKind{gpu.FaultNeedsAction}, "GPU 1 needs attention, according to its driver.", "needs_action high, work high"},
		{[]gpu.FaultKind{gpu.FaultNeedsReset, gpu.FaultFanUnreadable}, "GPU 1 needs a reset, according to its driver.", "needs_action high, fan_unreadable high, work high"},
		{[]gpu.FaultKind{gpu.FaultFanUnreadable}, "GPU 1's fan can't be read: the driver reports an error.", "fan_unreadable high, work high"},
	} {
		answer := play(t, during(time.Minute, made(), made(indexed(1), working(93, python), stands(tt.kinds...))))
		if answer.Headline != tt.headline || !answer.Broken() {
			t.Errorf("%v: the headline is %q, broken %v", tt.kinds, answer.Headline, answer.Broken())
		}
		second := answer.Devices[1]
		if got := kindsOf(second.Causes); got != tt.causes {
			t.Errorf("%v: the causes are %s", tt.kinds, got)
		}
		if other := answer.Devices[0]; strings.Contains(kindsOf(other.Causes), "needs_action") || other.Standing() == explain.Broken {
			t.Errorf("%v: the other is %s", tt.kinds, kindsOf(other.Causes))
		}
	}
	// A broken device comes first, even if people hear another one.
	answer := play(t, during(time.Minute, made(working(98, python)), made(indexed(1), stands(gpu.FaultNeedsReset))))
	if answer.Headline != "GPU 1 needs a reset, according to its driver." || !strings.Contains(answer.Rest, "python (alice) is heating GPU 0") {
		t.Errorf("%q, %q", answer.Headline, answer.Rest)
	}
	// A reset ends what is running: there is a command only if nothing is.
	free := func(d *gpu.Device) { d.Vendor, d.UUID, d.Source = gpu.NVIDIA, "GPU-0", gpu.SourceNVML }
	if got := play(t, during(time.Minute, made(free, stands(gpu.FaultNeedsReset)))).Action.Command; got != "sudo nvidia-smi --gpu-reset -i GPU-0" {
		t.Errorf("the command is %q", got)
	}
	if got := play(t, during(time.Minute, made(free, working(98, python), stands(gpu.FaultNeedsReset)))).Action.Command; got != "" {
		t.Errorf("while it works the command is %q", got)
	}
}

// What a driver never offers is not missing now; memory is a reading.
func TestWhatTheDriverOffers(t *testing.T) {
	offering := func(q gpu.Quality, memory bool, more ...func(*gpu.Device)) gpu.Device {
		d := made()
		gpu.Withdraw(&d.Readings, q)
		d.Fans = gpu.Fans{Count: gpu.Absent[int](q)}
		if memory {
			d.Memory.Total, d.Memory.Used = gpu.Of[gpu.Bytes](24<<30), gpu.Of[gpu.Bytes](1204<<20)
		}
		for _, change := range more {
			change(&d)
		}
		return d
	}
	used := func(d *gpu.Device) { d.Processes = gpu.Of([]gpu.Process{process(7, "python", 0)}) }
	for what, tt := range map[string]struct {
		device           gpu.Device
		headline, causes string
	}{
		"nothing":                {offering(gpu.NotSupported, false), "The driver reports no readings for the GPU.", "no_readings high"},
		"memory alone":           {offering(gpu.NotSupported, true), "The driver reports only the memory of the GPU.", "no_readings high"},
		"nothing now":            {offering(gpu.Stale, false), "The GPU has no readings now.", "no_readings high"},
		"not reported now":       {offering(gpu.NotReported, false), "The GPU has no readings now.", "no_readings high"},
		"memory alone now":       {offering(gpu.NotReported, true), "Too early to tell how busy the GPU is.", "idle low"},
		"memory and who uses it": {offering(gpu.NotSupported, true, used), "", ""},
	} {
		answer := explain.Explain(snapshot(tt.device))
		if tt.headline == "" { // whoever holds it is more important
			if strings.Contains(kindsOf(answer.Causes()), "no_readings") {
				t.Errorf("%s: %s", what, kindsOf(answer.Causes()))
			}
			continue
		}
		if got := kindsOf(answer.Causes()); answer.Headline != tt.headline || got != tt.causes {
			t.Errorf("%s: %q, %s", what, answer.Headline, got)
		}
	}
	answer := explain.Explain(snapshot(offering(gpu.NotSupported, true)))
	if want := "The driver reports nothing about GPU 0 (RTX 4090) except memory (1.2 of 24.0 GiB of memory in use): temperature, power, utilization and fan are unknown here."; answer.Sentence != want {
		t.Errorf("%q", answer.Sentence)
	}
	if len(answer.Facts) != 1 || answer.Facts[0].Text != "1.2 of 24.0 GiB of memory in use" {
		t.Errorf("%v", answer.Facts)
	}
}

// A card that the driver does not list is named, with its address and the reason.
func TestACardThatIsNotListed(t *testing.T) {
	for what, want := range map[string][2]string{
		"the kernel log says about the card at 0000:b3:00.0: the GPU has fallen off the bus": {
			"GPU 1 has fallen off the bus.",
			"GPU 1 (RTX 4090) is lost: the kernel log says about the card at 0000:b3:00.0: the GPU has fallen off the bus.",
		},
		"the GPU has fallen off the bus": {"GPU 1 has fallen off the bus.", "GPU 1 (RTX 4090) is lost: the GPU has fallen off the bus (0000:b3:00.0)."},
		"the driver does not list the card at 0000:b3:00.0, although the kernel has bound it to the driver": {
			"GPU 1 is broken: the driver does not list it.",
			"GPU 1 (RTX 4090) is broken: the driver does not list the card at 0000:b3:00.0, although the kernel has bound it to the driver.",
		},
	} {
		lost := deviceIn(gpu.StateLost, 1)
		lost.PCI, lost.Reason = "0000:b3:00.0", gpu.Advice{What: what, Try: "look at it", Err: gpu.ErrNotListed}
		answer := explain.Explain(snapshot(made(), lost))
		if got := answer.Devices[1].Sentence; answer.Headline != want[0] || got != want[1] || answer.Devices[1].Action.Text != "Look at it." {
			t.Errorf("%q, %q, %q", answer.Headline, got, answer.Devices[1].Action.Text)
		}
	}
}
