package explain_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// machine returns a machine of 16 cores without a device: percent of its CPU, °C, and RPM of the CPU fan; a negative RPM means no fan.
func machine(cpu gpu.Percent, temp gpu.Celsius, rpm gpu.RPM, change ...func(*gpu.Host)) gpu.Host {
	h := gpu.Host{
		Cores: gpu.Of(16), CPU: gpu.Of(cpu), CPUPower: gpu.Of[gpu.Watts](110), CPUThrottled: gpu.Of(false),
		Temperatures: []gpu.HostTemperature{{Name: "CPU", Chip: "k10temp", Celsius: gpu.Of(temp)}},
		Busiest:      gpu.Of([]gpu.HostProcess{}),
	}
	if rpm >= 0 {
		h.Fans = []gpu.HostFan{{Name: "CPU fan", Chip: "nct6798", RPM: gpu.Of(rpm)}, {Name: "water pump", Chip: "nct6798", RPM: gpu.Of[gpu.RPM](4800)}}
	} else {
		h.NoFans = gpu.Advice{What: "no fan sensor driver is loaded", Try: "load one"}
	}
	for _, f := range change {
		f(&h)
	}
	return h
}

// using puts a process that uses the CPU first, with percent of one core.
func using(pid, count int, name, user string, cpu gpu.Percent, change ...func(*gpu.ProcessFacts)) func(*gpu.Host) {
	return func(h *gpu.Host) {
		p := gpu.HostProcess{PID: pid, Count: count, CPU: cpu, Facts: gpu.ProcessFacts{
			Name: gpu.Of(name), Program: gpu.Of(name), User: gpu.Of(user), Exists: gpu.Of(true),
			Container: gpu.Of(gpu.Container{}), Pod: gpu.Of(gpu.Pod{}), Job: gpu.Of(gpu.Job{}), Unit: gpu.Of(gpu.Unit{}),
		}}
		for _, f := range change {
			f(&p.Facts)
		}
		h.Busiest = gpu.Of(append(h.Busiest.Or(nil), p))
	}
}

var compiler = using(4242, 16, "cc1plus", "ann", 1450)

func noCard(vendor string) gpu.Failure {
	return gpu.Failure{Source: vendor, Since: start, Advice: gpu.Advice{What: "there is no GPU of " + vendor, Try: "no action needed", Err: gpu.ErrNoCard}}
}

// ofHosts returns the answer after readings of such a machine, five seconds apart.
func ofHosts(hosts ...gpu.Host) func() explain.Answer {
	return func() (a explain.Answer) {
		history := explain.NewHistory()
		for i := range hosts {
			s := &gpu.Snapshot{Node: "box", Time: start.Add(time.Duration(i) * 5 * time.Second), Host: &hosts[i], Failures: []gpu.Failure{noCard("nvml"), noCard("amdgpu")}}
			a = history.Add(s)
		}
		return a
	}
}

func many(n int, h gpu.Host) []gpu.Host { return slices.Repeat([]gpu.Host{h}, n) }

// Answers that a person in front of a machine without a GPU would call right.
func TestAMachineWithoutADevice(t *testing.T) {
	rest, work := machine(2, 40, 800), machine(96, 88, 2600, compiler)
	chipset := func(c gpu.Celsius) func(*gpu.Host) {
		return func(h *gpu.Host) {
			h.Temperatures = append(h.Temperatures, gpu.HostTemperature{Name: "chipset", Celsius: gpu.Of(c)})
		}
	}
	inContainer := func(f *gpu.ProcessFacts) {
		f.Container = gpu.Of(gpu.Container{ID: strings.Repeat("a", 64), Runtime: gpu.RuntimeDocker, Name: gpu.Of("builder")})
	}
	untold := machine(2, 40, 3300)
	untold.CPU, untold.Temperatures = gpu.Reading[gpu.Percent]{}, nil
	for _, tt := range []struct {
		name               string
		hosts              []gpu.Host
		headline, sentence string
		kind               explain.Kind
		sure               explain.Confidence
		rest, command      string
	}{
		{"at rest", many(4, rest), "The machine is idle, and its fans turn slowly.",
			"The machine is doing little work, with its CPU at 2 % (40 °C, 110 W, the CPU fan at 800 RPM).", explain.MachineAtRest, explain.High, "", ""},
		{"all fans off", many(4, machine(2, 40, 0)), "The machine is idle, and its fans are off.", "", explain.MachineAtRest, explain.High, "", ""},
		{"the first reading", []gpu.Host{untold}, "Too early to tell why the fans are running.", "", explain.MachineAtRest, explain.Low, "", ""},
		{"a build", append(many(3, rest), many(12, work)...), "cc1plus (ann) keeps the CPU busy, so the fans are running.",
			"cc1plus (16 processes, ann) has kept the CPU busy at 96 % for 55 s (88 °C, 110 W, the CPU fan at 2600 RPM).", explain.CPUWork, explain.High, "for 55 s", ""},
		{"one process", append(many(3, rest), many(4, machine(50, 75, 1900, using(77, 1, "xmrig", "bob", 790)))...), "xmrig (bob) keeps the CPU busy, so the fans are running.",
			"xmrig (pid 77, bob) has kept the CPU busy at 50 % for 15 s (75 °C, 110 W, the CPU fan at 1900 RPM).", explain.CPUWork, explain.High, "for 15 s", "sudo kill 77"},
		{"in a container", append(many(3, rest), many(4, machine(50, 75, 1900, using(77, 3, "pytest", "bob", 790, inContainer)))...), "pytest (bob) keeps the CPU busy, so the fans are running.",
			"", explain.CPUWork, explain.High, "for 15 s", "docker stop builder"},
		{"many small ones", append(many(3, rest), many(4, machine(90, 75, 1900, using(1, 1, "a", "x", 100), using(2, 1, "b", "x", 90)))...), "Many processes keep the CPU busy.",
			"", explain.CPUWork, explain.Medium, "for 15 s", ""},
		{"somebody unseen", append(many(3, rest), many(4, machine(90, 75, 1900))...), "Something keeps the CPU busy.", "", explain.CPUWork, explain.Low, "for 15 s", ""},
		{"it was so at the start", many(6, work), "cc1plus (ann) keeps the CPU busy, so the fans are running.", "", explain.CPUWork, explain.High, "", ""},
		{"a blip", append(many(3, rest), machine(30, 45, 800, compiler)), "The machine is idle, and its fans turn slowly.", "", explain.MachineAtRest, explain.High, "", ""},
		{"a core of 16 and cool", append(many(3, rest), many(4, machine(6, 50, 900, using(5, 1, "one", "ann", 99)))...), "The machine is idle, and its fans turn slowly.", "", explain.MachineAtRest, explain.High, "", ""},
		{"a core of 16 and warm", append(many(3, rest), many(4, machine(6, 68, 1500, using(5, 1, "one", "ann", 99)))...), "one (ann) keeps the CPU busy, so the fans are running.", "", explain.CPUWork, explain.High, "for 15 s", "sudo kill 5"},
		{"it cools down", slices.Concat(many(3, rest), many(12, work), []gpu.Host{machine(1, 80, 2500), machine(1, 74, 2300), machine(1, 70, 2200)}),
			"The CPU is cooling down after cc1plus (ann).", "", explain.CPUCooling, explain.High, "", ""},
		{"cool again", slices.Concat(many(3, rest), many(12, work), []gpu.Host{machine(1, 80, 2500), machine(1, 74, 2300), machine(1, 60, 1500)}, many(12, rest)),
			"The machine is idle, and its fans turn slowly.", "", explain.MachineAtRest, explain.High, "", ""},
		{"too hot", append(many(3, rest), many(4, machine(96, 99, 3900, compiler, func(h *gpu.Host) { h.CPUThrottled = gpu.Of(true) }))...),
			"cc1plus (ann) heats the CPU until it slows down.", "", explain.CPUHeat, explain.High, "", ""},
		{"a hot chipset", many(4, machine(2, 40, 800, chipset(92))), "The chipset is hot.", "The chipset is hot, at 92 °C; fans may follow it.", explain.HotSensor, explain.Medium, "", ""},
		{"a hot chipset, and it is heard", append(many(3, rest), many(2, machine(2, 40, 2300, chipset(92)))...), "The chipset is hot, so the fans are running.", "", explain.HotSensor, explain.Medium, "", ""},
		{"work, and a hot chipset", append(many(3, rest), many(4, machine(96, 88, 2600, compiler, chipset(92)))...), "cc1plus (ann) keeps the CPU busy, so the fans are running.",
			"", explain.CPUWork, explain.High, "for 15 s · chipset 92 °C", ""},
		{"a fan for nothing", append(many(3, rest), many(4, machine(2, 40, 1900))...), "The CPU fan is fast, and nothing here explains it.", "", explain.MachineFan, explain.Medium, "", ""},
		{"hot without work", append(many(3, rest), many(4, machine(2, 78, 3100))...), "The CPU is hot without work, so the fans are running.", "", explain.MachineFan, explain.Medium, "", ""},
		{"a fan of which nothing is known", many(3, untold), "The CPU fan is fast for an unknown reason.", "", explain.MachineFan, explain.Low, "", ""},
		{"a fan that is not turning", append(many(3, work), many(4, machine(96, 95, 0, compiler))...), "The CPU fan is not turning, and the CPU is hot.", "", explain.MachineFan, explain.High, "for 15 s", ""},
		{"no fan, and no work", many(4, machine(2, 40, -1)), "No fan can be read here.", "No fan can be read here: no fan sensor driver is loaded.", explain.NoFanShown, explain.High, "", ""},
		{"no fan, and work", append(many(3, machine(2, 40, -1)), many(4, machine(96, 88, -1, compiler))...), "cc1plus (ann) keeps the CPU busy.", "", explain.CPUWork, explain.High,
			"for 15 s · no fan can be read here", ""},
		{"much on the disks", many(4, machine(2, 40, 800, func(h *gpu.Host) {
			h.Disks = []gpu.Disk{{Read: gpu.Of[gpu.BytesPerSecond](3e9), Write: gpu.Of[gpu.BytesPerSecond](1e6)}}
		})), "The machine is idle, and its fans turn slowly.", "", explain.MachineAtRest, explain.High, "disks 3001 MB/s", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := ofHosts(tt.hosts...)()
			first := a.Main()[0]
			if a.Headline != tt.headline || tt.sentence != "" && a.Sentence != tt.sentence || first.Kind != tt.kind || first.Confidence != tt.sure {
				t.Errorf("[%s %v] %s\n%s", first.Kind, first.Confidence, a.Headline, a.Sentence)
			}
			if a.Rest != tt.rest || a.Action.Command != tt.command {
				t.Errorf("the rest is %q, the command %q", a.Rest, a.Action.Command)
			}
			if last := a.Main()[len(a.Main())-1]; last.Kind != explain.NoDevice || last.Case != "no card" {
				t.Errorf("the last cause is %s/%s", last.Kind, last.Case)
			}
		})
	}
}

// A failure comes first, unless it only says that there is no card.
func TestAMachineWhoseDeviceFails(t *testing.T) {
	h := machine(96, 88, 2600, compiler)
	broken := gpu.Failure{Source: "nvml", Since: start, Advice: gpu.Advice{What: "the driver is not loaded", Try: "load it", Err: gpu.ErrNoDriver}}
	s := &gpu.Snapshot{Node: "box", Time: start, Host: &h, Failures: []gpu.Failure{noCard("amdgpu"), broken}}
	a := explain.Explain(s)
	if a.Headline != "No GPU can be read here." || a.Sentence != "No GPU can be read." || a.Rest != "cc1plus (ann) keeps the CPU busy, so the fans are running" {
		t.Errorf("%q, %q, %q", a.Headline, a.Sentence, a.Rest)
	}
	if c := a.Main()[0]; c.Kind != explain.NoDevice || c.Case != "" {
		t.Errorf("first: %+v", c)
	}
	s.Host, s.Failures = nil, []gpu.Failure{noCard("amdgpu")}
	if a := explain.Explain(s); a.Headline != "No GPU can be read here." {
		t.Errorf("of a machine that was not read: %q", a.Headline)
	}
}

// After a gap in the readings everything starts over: work from before is not known.
func TestAMachineThatSlept(t *testing.T) {
	history := explain.NewHistory()
	work := machine(96, 88, 2600, compiler)
	add := func(after time.Duration, breaks int, h gpu.Host) explain.Answer {
		return history.Add(&gpu.Snapshot{Node: "box", Time: start.Add(after), Breaks: breaks, Host: &h, Failures: []gpu.Failure{noCard("nvml")}})
	}
	for i := range 6 {
		add(time.Duration(i)*5*time.Second, 0, work)
	}
	after := add(8*time.Hour, 1, machine(1, 60, 900))
	for _, c := range after.Main() {
		if c.Kind == explain.CPUCooling || c.Kind == explain.CPUWork {
			t.Errorf("%s", c.Sentence)
		}
	}
}

// Beside a resting device, whoever uses the CPU is named, too.
func TestOtherFanNamesWhoUsesTheCPU(t *testing.T) {
	h := machine(96, 91, 3100, compiler)
	s := snapshot(made())
	s.Host = &h
	a := explain.Explain(s)
	want := "Check what keeps the CPU busy (first cc1plus (16 processes, ann)), and check the case fans and their curve in the firmware settings."
	if c := a.Main()[0]; c.Kind != explain.OtherFan || c.Advice != want {
		t.Errorf("[%s] %q", c.Kind, c.Advice)
	}
}

// Names of programs are foreign text.
func TestHostileNamesOfPrograms(t *testing.T) {
	a := ofHosts(machine(96, 88, 2600, using(7, 1, "it\x1b[31m rests\u202e", "nobody", 1500)))()
	if strings.ContainsAny(a.Headline+a.Sentence, "\x1b\u202e") || !strings.Contains(a.Headline, "“") {
		t.Errorf("%q", a.Headline)
	}
}
