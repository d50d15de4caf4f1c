package alert

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// healthy is a device at rest, which reports everything that is watched.
func healthy() gpu.Device {
	d := gpu.Device{Identity: gpu.Identity{Node: "n", UUID: "GPU-a", Name: "Card"}, State: gpu.StateOK}
	d.Utilization.GPU = gpu.Of(gpu.Percent(0))
	d.Memory.Total, d.Memory.Used = gpu.Of[gpu.Bytes](100*mib), gpu.Of[gpu.Bytes](0)
	d.Thermal = gpu.Thermal{GPU: gpu.Of(gpu.Celsius(40)), Memory: gpu.Of(gpu.Celsius(40)), Slowdown: gpu.Of(gpu.Celsius(90))}
	d.Power = gpu.Power{Draw: gpu.Of(gpu.Watts(20)), EnforcedLimit: gpu.Of(gpu.Watts(400))}
	d.Fans = gpu.Fans{Count: gpu.Of(1), Fans: []gpu.Fan{{Commanded: gpu.Of(gpu.Percent(30)), RPM: gpu.Of(gpu.RPM(1000))}}}
	d.Clocks.EventReasons = gpu.Of(gpu.ReasonIdle)
	d.Health = gpu.Health{XIDs: gpu.Of([]gpu.XID{}), Faults: gpu.Of([]gpu.Fault{}), UncorrectedVolatile: gpu.Of[uint64](0), RemapPending: gpu.Of(false)}
	d.Processes, d.Reservations = gpu.Of([]gpu.Process{}), gpu.Of([]gpu.Reservation{})
	return d
}

func process(pid int, name, user string, sm gpu.Percent, memory gpu.Bytes) gpu.Process {
	return gpu.Process{
		PID: pid, Type: gpu.TypeCompute, SM: gpu.Of(sm), Memory: gpu.Of(memory),
		Facts: gpu.ProcessFacts{Name: gpu.Of(name), User: gpu.Of(user), Exists: gpu.Of(true)},
	}
}

// snapshotOf has devices at a second.
func snapshotOf(second int, devices ...gpu.Device) *gpu.Snapshot {
	return &gpu.Snapshot{Time: start.Add(time.Duration(second) * time.Second), Node: "n", Devices: devices}
}

// The file has all of each watch, and rules that can be in force.
func TestWatchesFile(t *testing.T) {
	for name, w := range watches {
		rule := Default("rule", name)
		if err := rule.Check(); err != nil || rule.Watch != name || !rule.Enabled {
			t.Errorf("%s: its rule is %+v: %v", name, rule, err)
		}
		if w.words.what == "" || w.words.over == "" && w.words.subject == "" && !w.Counter || (w.measure == nil) != (w.About != aDevice) {
			t.Errorf("%s lacks words, or how it is measured: %+v", name, w)
		}
	}
	for name := range wordsOf {
		if watches[name] == nil {
			t.Errorf("words describe %s, which the file has not", name)
		}
	}
	for name := range meansOf {
		if watches[name] == nil {
			t.Errorf("the file has no %s", name)
		}
	}
	for _, r := range Defaults() {
		if err := r.Check(); err != nil {
			t.Errorf("%s: %v", r.Name, err)
		}
	}
}

// Each watch fires when what it watches goes wrong, says so in these words, and
// is over when it is right again; and says nothing while it is not reported.
func TestWatches(t *testing.T) {
	trainer := func(d *gpu.Device) { d.Processes = gpu.Of([]gpu.Process{process(7, "python", "alice", 90, 97*mib)}) }
	tests := map[Watch]struct {
		rule        func(*Rule)
		wrong       func(*gpu.Device)
		absent      func(*gpu.Device)
		fired, over string
	}{
		Utilization: {
			wrong:  func(d *gpu.Device) { d.Utilization.GPU = gpu.Of(gpu.Percent(97)); trainer(d) },
			absent: func(d *gpu.Device) { d.Utilization.GPU = gpu.Absent[gpu.Percent](gpu.NotSupported) },
			fired:  "GPU 0 (Card) is 97 % busy; 30 s ago it rose above 50 %. python (pid 7, alice) keeps it busy.",
			over:   "GPU 0 (Card) is 0 % busy, no longer above 50 %. The alert is over after 4 min.",
		},
		Temperature: {
			wrong:  func(d *gpu.Device) { d.Thermal.GPU = gpu.Of(gpu.Celsius(88)) },
			absent: func(d *gpu.Device) { d.Thermal.GPU = gpu.Reading[gpu.Celsius]{} },
			fired:  "GPU 0 (Card) is at 88 °C; 30 s ago it rose above 85 °C.",
			over:   "GPU 0 (Card) is at 40 °C, no longer above 85 °C. The alert is over after 4 min.",
		},
		TemperatureMargin: {
			wrong:  func(d *gpu.Device) { d.Thermal.GPU = gpu.Of(gpu.Celsius(87)); trainer(d) },
			absent: func(d *gpu.Device) { d.Thermal.Slowdown = gpu.Reading[gpu.Celsius]{} },
			fired:  "GPU 0 (Card) is 3 °C below its slowdown temperature; 30 s ago it came within 5 °C of it. python (pid 7, alice) keeps it busy.",
			over:   "GPU 0 (Card) is 50 °C below its slowdown temperature, no longer within 5 °C of it. The alert is over after 4 min.",
		},
		MemoryTemperature: {
			wrong:  func(d *gpu.Device) { d.Thermal.Memory = gpu.Of(gpu.Celsius(99)) },
			absent: func(d *gpu.Device) { d.Thermal.Memory = gpu.DoubtfulOf(gpu.Celsius(40)) },
			fired:  "GPU 0 (Card) has a memory temperature of 99 °C; 30 s ago it rose above 95 °C.",
			over:   "GPU 0 (Card) has a memory temperature of 40 °C, no longer above 95 °C. The alert is over after 4 min.",
		},
		Memory: {
			wrong:  func(d *gpu.Device) { d.Memory.Used = gpu.Of[gpu.Bytes](98 * mib); trainer(d) },
			absent: func(d *gpu.Device) { d.Memory.Total = gpu.Reading[gpu.Bytes]{} },
			fired:  "GPU 0 (Card) has 98 % of its memory in use; 30 s ago usage rose above 95 %. python (pid 7, alice) holds 97 MiB.",
			over:   "GPU 0 (Card) has 0 % of its memory in use, no longer above 95 %. The alert is over after 4 min.",
		},
		Power: {
			wrong:  func(d *gpu.Device) { d.Power.Draw = gpu.Of(gpu.Watts(390)) },
			absent: func(d *gpu.Device) { d.Power.Draw = gpu.Reading[gpu.Watts]{} },
			fired:  "GPU 0 (Card) draws 390 W; 30 s ago power draw rose above 300 W.",
			over:   "GPU 0 (Card) draws 20 W, no longer above 300 W. The alert is over after 4 min.",
		},
		PowerShare: {
			wrong:  func(d *gpu.Device) { d.Power.Draw = gpu.Of(gpu.Watts(396)) },
			absent: func(d *gpu.Device) { d.Power.EnforcedLimit = gpu.Of(gpu.Watts(0)) },
			fired:  "GPU 0 (Card) draws 99 % of its power limit; 30 s ago power draw rose above 98 %.",
			over:   "GPU 0 (Card) draws 5 % of its power limit, no longer above 98 %. The alert is over after 4 min.",
		},
		Fan: {
			rule:   func(r *Rule) { r.Hold = 30 * time.Second },
			wrong:  func(d *gpu.Device) { d.Fans.Fans = []gpu.Fan{{Commanded: gpu.Of(gpu.Percent(100))}} },
			absent: func(d *gpu.Device) { d.Fans = gpu.Fans{} },
			fired:  "GPU 0 (Card) runs its fan at 100 %; 30 s ago fan speed rose above 90 %.",
			over:   "GPU 0 (Card) runs its fan at 30 %, no longer above 90 %. The alert is over after 4 min.",
		},
		FanFailing: {
			wrong: func(d *gpu.Device) {
				d.Fans.Fans = []gpu.Fan{{Commanded: gpu.Of(gpu.Percent(80)), RPM: gpu.Of(gpu.RPM(0))}}
			},
			absent: func(d *gpu.Device) { d.State = gpu.StateNotAnswering },
			fired:  "GPU 0 (Card) has a fan that is not turning as it should; this began 30 s ago.",
			over:   "GPU 0 (Card) no longer shows a failing fan. The alert is over after 4 min.",
		},
		ThrottledByHeat: {
			wrong:  func(d *gpu.Device) { d.Clocks.EventReasons = gpu.Of(gpu.ReasonThermalSlowdown) },
			absent: func(d *gpu.Device) { d.Clocks.EventReasons = gpu.Reading[gpu.ClockEventReasons]{} },
			fired:  "GPU 0 (Card) is slowed by heat; this began 30 s ago.",
			over:   "GPU 0 (Card) is no longer slowed by heat. The alert is over after 4 min.",
		},
		ThrottledByPower: {
			wrong:  func(d *gpu.Device) { d.Clocks.EventReasons = gpu.Of(gpu.ReasonPowerCap) },
			absent: func(d *gpu.Device) { d.Clocks.EventReasons = gpu.Reading[gpu.ClockEventReasons]{} },
			fired:  "GPU 0 (Card) is held back by its power limit or power supply; this began 30 s ago.",
			over:   "GPU 0 (Card) is no longer held back by power. The alert is over after 4 min.",
		},
		XID: {
			rule: func(r *Rule) { r.Clear = 4 * time.Minute },
			wrong: func(d *gpu.Device) {
				d.Health.XIDs = gpu.Of([]gpu.XID{{Code: 79, Count: 2, Last: start.Add(time.Minute)}, {Code: 31, Count: 1, Last: start}})
			},
			absent: func(d *gpu.Device) { d.Health.XIDs = gpu.Reading[[]gpu.XID]{} },
			fired:  "GPU 0 (Card) had 3 driver errors, the last one XID 79 (the GPU has fallen off the bus); the first came just now.",
			over:   "GPU 0 (Card) had 3 driver errors, and no more for 4 min. The alert is over.",
		},
		Fault: {
			rule: func(r *Rule) { r.Clear = 4 * time.Minute },
			wrong: func(d *gpu.Device) {
				d.Health.Faults = gpu.Of([]gpu.Fault{
					{Kind: gpu.FaultEngineHang, Count: 1, Last: start}, {Kind: gpu.FaultDeviceReset, Count: 3, Earlier: 2, Last: start.Add(time.Minute)},
					{Kind: gpu.FaultPage, Count: 9, Last: start.Add(time.Hour)},
				})
			},
			absent: func(d *gpu.Device) { d.Health.Faults = gpu.Reading[[]gpu.Fault]{} },
			fired: "GPU 0 (Card) had 2 hangs, resets or errors, the last one device reset (the whole GPU was reset, and everything running on it was lost); " +
				"the first came just now.",
			over: "GPU 0 (Card) had 2 hangs, resets or errors, and no more for 4 min. The alert is over.",
		},
		NeedsAction: {
			rule: func(r *Rule) { r.Hold = 30 * time.Second },
			wrong: func(d *gpu.Device) {
				d.Health.Faults = gpu.Of([]gpu.Fault{{Kind: gpu.FaultNeedsReset, Count: 1, Last: start}, {Kind: gpu.FaultOffBus, Count: 1, Earlier: 1}})
			},
			absent: func(d *gpu.Device) { d.Health.Faults = gpu.Reading[[]gpu.Fault]{} },
			fired:  "GPU 0 (Card) needs attention, according to its driver: the driver asks for a reset of the GPU; this began 30 s ago.",
			over:   "GPU 0 (Card) no longer needs attention, according to its driver. The alert is over after 4 min.",
		},
		FanUnreadable: {
			rule: func(r *Rule) { r.Hold = 30 * time.Second },
			wrong: func(d *gpu.Device) {
				d.Health.Faults = gpu.Of([]gpu.Fault{{Kind: gpu.FaultFanUnreadable, Count: 1, Last: start}})
			},
			absent: func(d *gpu.Device) { d.State = gpu.StateNotAnswering },
			fired:  "GPU 0 (Card) has a fan that the driver can't read; this began 30 s ago.",
			over:   "GPU 0 (Card) has a fan that can be read again. The alert is over after 4 min.",
		},
		ECC: {
			rule:   func(r *Rule) { r.Clear = 4 * time.Minute },
			wrong:  func(d *gpu.Device) { d.Health.UncorrectedVolatile = gpu.Of[uint64](1) },
			absent: func(d *gpu.Device) { d.Health.UncorrectedVolatile = gpu.Absent[uint64](gpu.NotSupported) },
			fired:  "GPU 0 (Card) had 1 uncorrected memory error, just now.",
			over:   "GPU 0 (Card) had 1 uncorrected memory error, and no more for 4 min. The alert is over.",
		},
		RowRemap: {
			wrong:  func(d *gpu.Device) { d.Health.RemapPending = gpu.Of(true) },
			absent: func(d *gpu.Device) { d.Health.RemapPending = gpu.Reading[bool]{} },
			fired:  "GPU 0 (Card) has faulty memory that spare memory has not replaced yet; this began 30 s ago.",
			over:   "GPU 0 (Card) has no faulty memory left to replace. The alert is over after 4 min.",
		},
		Lost: {
			rule:   func(r *Rule) { r.Hold = 30 * time.Second },
			wrong:  func(d *gpu.Device) { *d = gpu.Device{Identity: d.Identity, State: gpu.StateLost} },
			absent: nil, // the state of a device that is there is always known
			fired:  "GPU 0 (Card) is lost, and the driver no longer finds it; this began 30 s ago.",
			over:   "GPU 0 (Card) is back. The alert is over after 4 min.",
		},
		NotAnswering: {
			wrong: func(d *gpu.Device) { *d = gpu.Device{Identity: d.Identity, State: gpu.StateNotAnswering} },
			fired: "GPU 0 (Card) is not answering; this began 30 s ago.",
			over:  "GPU 0 (Card) answers again. The alert is over after 4 min.",
		},
		IdleHeld: {
			rule: func(r *Rule) { r.Threshold, r.Hold = 50, 30*time.Second },
			wrong: func(d *gpu.Device) {
				d.Processes = gpu.Of([]gpu.Process{process(8, "vllm", "bob", 0, 60*mib), process(7, "python", "alice", 0, 20*mib)})
			},
			absent: func(d *gpu.Device) { d.Processes = gpu.Absent[[]gpu.Process](gpu.NotPermitted) },
			fired:  "GPU 0 (Card) is idle while processes hold 80 MiB of its memory; this began 30 s ago. Of 2 compute processes on it, vllm (pid 8, bob) holds the most, 60 MiB.",
			over:   "GPU 0 (Card) is idle, and no compute process holds its memory any more. The alert is over after 4 min.",
		},
		IdleReserved: {
			rule: func(r *Rule) { r.Hold = 30 * time.Second },
			wrong: func(d *gpu.Device) {
				d.Reservations = gpu.Of([]gpu.Reservation{{Namespace: "ml", Pod: "notebook-0", Container: "main"}})
			},
			absent: func(d *gpu.Device) { d.Utilization.GPU = gpu.Reading[gpu.Percent]{} },
			fired:  "GPU 0 (Card) is reserved but idle: it is reserved for pod ml/notebook-0; this began 30 s ago.",
			over:   "GPU 0 (Card) is no longer reserved. The alert is over after 4 min.",
		},
		OrphanMemory: {
			rule: func(r *Rule) { r.Threshold = 50 },
			wrong: func(d *gpu.Device) {
				p := process(9, "", "", 0, 70*mib)
				p.Facts = gpu.ProcessFacts{Exists: gpu.Of(false)}
				d.Processes, d.Memory.Used = gpu.Of([]gpu.Process{p}), gpu.Of[gpu.Bytes](70*mib)
			},
			absent: func(d *gpu.Device) { d.Processes = gpu.Reading[[]gpu.Process]{} },
			fired:  "GPU 0 (Card) has 70 MiB of memory left behind by ended processes; this began 30 s ago. A process that has ended (pid 9) left 70 MiB behind.",
			over:   "GPU 0 (Card) has reclaimed the memory left behind by ended processes. The alert is over after 4 min.",
		},
	}
	for _, w := range Watches() {
		tt, tested := tests[w]
		if !tested {
			if w != DriverGone && w != MemoryFullIn && w != NodeSilent { // TestDriverGone, TestMemoryFullSoon, TestNodeSilent
				t.Errorf("%s is not tested", w)
			}
			continue
		}
		t.Run(string(w), func(t *testing.T) {
			rule := Default("rule", w)
			if tt.rule != nil {
				tt.rule(&rule)
			}
			if err := rule.Check(); err != nil {
				t.Fatal(err)
			}
			e, history := New([]Rule{rule}), explain.NewHistory()
			see := func(second int, change func(*gpu.Device)) []Change {
				d := healthy()
				if change != nil {
					change(&d)
				}
				s := snapshotOf(second, d)
				answer := history.Add(s)
				return e.Observe(&insight.Moment{Snapshot: s, Answer: answer})
			}
			var said []string
			second := 0
			play := func(until int, change func(*gpu.Device)) {
				for ; second < until; second += 5 {
					for _, c := range see(second, change) {
						said = append(said, string(c.News)+": "+c.Message)
						if c.News == Fired && c.Severity != rule.Severity {
							t.Errorf("severity %q", c.Severity)
						}
					}
				}
			}
			play(60, nil)
			play(240, tt.wrong)
			if tt.absent != nil {
				play(270, func(d *gpu.Device) { tt.wrong(d); tt.absent(d) })
			}
			for len(said) < 10 && second < 600 && (len(said) == 0 || !strings.HasPrefix(said[len(said)-1], "over")) {
				play(second+5, nil)
			}
			var turns []string
			for _, text := range said {
				if strings.HasPrefix(text, "fired") || strings.HasPrefix(text, "over") {
					turns = append(turns, text)
				}
			}
			if len(turns) != 2 {
				t.Fatalf("said %q, want one alert that fires and is over", said)
			}
			// The durations differ by how long a watch needs to be sure.
			want := []string{"fired: " + tt.fired, "over: " + tt.over}
			for i := range want {
				if got := durations.Replace(turns[i]); got != durations.Replace(want[i]) {
					t.Errorf("said\n%q, want\n%q", turns[i], want[i])
				}
			}
			gone := slices.ContainsFunc(said, func(s string) bool {
				return strings.HasPrefix(s, "data_gone: ") && strings.Contains(s, " currently does not report ")
			})
			if gone != (tt.absent != nil) {
				t.Errorf("said %q; that it was absent: %v", said, gone)
			}
		})
	}
}

// durations takes away what depends on when somebody looked.
var durations = strings.NewReplacer("3 min", "4 min", "5 min", "4 min", "6 min", "4 min", "35 s", "30 s", "40 s", "30 s", "55 s", "30 s", "just now", "30 s ago")

// What the firmware sets apart for the GPU of a processor is nearly always full, which nobody
// minds: the machine's memory counts with it.
func TestMemoryOfTheMachine(t *testing.T) {
	d := healthy()
	d.Memory.Used = gpu.Of[gpu.Bytes](98 * mib)
	d.Shared = gpu.SharedMemory{Unified: gpu.Of(true), Total: gpu.Of[gpu.Bytes](900 * mib), Used: gpu.Of[gpu.Bytes](302 * mib)}
	rule := Default("memory", Memory)
	measured := func() (float64, bool) {
		return watches[Memory].measure(&look{state: &state{ruled: ruled{Rule: &rule}}, d: &d})
	}
	if share, ok := measured(); !ok || share != 40 {
		t.Errorf("of 400 of 1000 MiB %v %% is in use (%v)", share, ok)
	}
	d.Shared.Used = gpu.Of[gpu.Bytes](890 * mib)
	if share, ok := measured(); !ok || share < 98 {
		t.Errorf("of 988 of 1000 MiB %v %% is in use (%v)", share, ok)
	}
	d.Shared.Used = gpu.Reading[gpu.Bytes]{}
	if share, ok := measured(); ok {
		t.Errorf("without what it uses of the machine's, %v %% is in use", share)
	}
	d.Shared.Unified = gpu.Of(false)
	if share, ok := measured(); !ok || share != 98 {
		t.Errorf("of a card %v %% is in use (%v)", share, ok)
	}
}

// A rule that is narrowed to users or processes looks at what those use.
func TestScopes(t *testing.T) {
	d := healthy()
	d.Utilization.GPU = gpu.Of(gpu.Percent(99))
	d.Processes = gpu.Of([]gpu.Process{process(1, "python", "alice", 60, 60*mib), process(2, "blender", "bob", 39, 30*mib)})
	unknown := healthy()
	unknown.UUID, unknown.Node = "GPU-b", "other"
	unknown.Processes = gpu.Of([]gpu.Process{{PID: 3, SM: gpu.Of(gpu.Percent(99))}})
	tests := []struct {
		watch Watch
		scope Scope
		want  map[string]float64 // by UUID, the value of those that fire
	}{
		{Utilization, Scope{}, map[string]float64{"GPU-a": 99}},
		{Utilization, Scope{Users: []string{"alice"}}, map[string]float64{"GPU-a": 60}},
		{Utilization, Scope{Users: []string{"a*", "b?b"}}, map[string]float64{"GPU-a": 99}},
		{Utilization, Scope{Processes: []string{"blender"}}, map[string]float64{"GPU-a": 39}},
		{Utilization, Scope{Users: []string{"alice"}, Processes: []string{"blender"}}, map[string]float64{}},
		{Utilization, Scope{Users: []string{"*"}, GPUs: []string{"GPU-b"}}, map[string]float64{}}, // whose is not known
		{Memory, Scope{Users: []string{"bob"}}, map[string]float64{"GPU-a": 30}},
		{Temperature, Scope{GPUs: []string{"GPU-?"}}, map[string]float64{"GPU-a": 40, "GPU-b": 40}},
		{Temperature, Scope{Nodes: []string{"other"}}, map[string]float64{"GPU-b": 40}},
		{Temperature, Scope{Nodes: []string{"other"}, GPUs: []string{"GPU-a"}}, map[string]float64{}},
	}
	for _, tt := range tests {
		rule := Rule{Name: "r", Watch: tt.watch, Threshold: 10, Severity: Info, Enabled: true, Scope: tt.scope}
		if err := rule.Check(); err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, c := range New([]Rule{rule}).Observe(&insight.Moment{Snapshot: snapshotOf(0, d, unknown)}) {
			got[c.Device.UUID] = c.Value.Or(-1)
			if len(tt.scope.Users) == 1 && len(c.Processes) != 1 && tt.scope.Users[0] != "*" {
				t.Errorf("%+v names %d processes", tt.scope, len(c.Processes))
			}
		}
		if !maps.Equal(got, tt.want) {
			t.Errorf("%s of %+v: %v, want %v", tt.watch, tt.scope, got, tt.want)
		}
	}
}

// While an alert waits to be over nobody is blamed any more, and the sentence
// says what it waits for.
func TestAnAlertThatIsAboutToBeOver(t *testing.T) {
	e := New([]Rule{usage()})
	see := func(second int, util gpu.Percent) string {
		d := healthy()
		d.Utilization.GPU = gpu.Of(util)
		d.Processes = gpu.Of([]gpu.Process{process(7, "python", "alice", util, mib)})
		e.Observe(&insight.Moment{Snapshot: snapshotOf(second, d)})
		if standing := e.Standing(); len(standing) == 1 {
			return standing[0].Message
		}
		return ""
	}
	see(-5, 3)
	see(0, 99)
	for _, step := range []struct {
		second int
		util   gpu.Percent
		want   string
	}{
		{10, 99, "GPU 0 (Card) is 99 % busy; 10 s ago it rose above 50 %. python (pid 7, alice) keeps it busy."},
		{15, 47, "GPU 0 (Card) is 47 % busy, no longer above 50 %. The alert ends after 15 s at 45 % or less."},
		{20, 3, "GPU 0 (Card) is 3 % busy, no longer above 50 %. If it stays that way, the alert ends in 15 s."},
		{22, 3, "GPU 0 (Card) is 3 % busy, no longer above 50 %. If it stays that way, the alert ends in 13 s."},
		{25, 60, "GPU 0 (Card) is 60 % busy; 25 s ago it rose above 50 %. python (pid 7, alice) keeps it busy."},
	} {
		if got := see(step.second, step.util); got != step.want {
			t.Errorf("at %d s: %q, want %q", step.second, got, step.want)
		}
	}
	e.Observe(&insight.Moment{Snapshot: snapshotOf(30)})
	if got, want := e.Standing()[0].Message, "GPU 0 (Card) currently does not report its utilization, so it is unclear whether this is over; 30 s ago it rose above 50 %."; got != want {
		t.Errorf("without data: %q, want %q", got, want)
	}
}

// That a memory is full soon is an alert only while it can be told, and only of what a forecast was made of.
func TestMemoryFullSoon(t *testing.T) {
	rules := Defaults()
	e := New(slices.DeleteFunc(rules, func(r Rule) bool { return r.Watch != MemoryFullIn }))
	if r := e.Rules(); len(r) != 1 || !r[0].Enabled || r[0].Threshold != 30 {
		t.Fatalf("%+v", r)
	}
	const notAsked, cantBeTold = -1, 0
	second := 0
	see := func(lasts int, minutes float64) (said []string) {
		for end := second + lasts; second < end; second += 5 {
			d := healthy()
			d.Processes = gpu.Of([]gpu.Process{process(7, "python", "alice", 90, 97*mib)})
			s := snapshotOf(second, d)
			answer := explain.Answer{Devices: []explain.DeviceAnswer{{Device: &s.Devices[0], Asked: minutes != notAsked}}}
			if minutes > 0 {
				left := gpu.Of(time.Duration(minutes * float64(time.Minute)))
				answer.Devices[0].Next = []explain.Prospect{{Kind: "quiet", Left: gpu.Of(time.Second)}, {Kind: "memory_full", Left: left}}
			}
			for _, c := range e.Observe(&insight.Moment{Snapshot: s, Answer: answer}) {
				said = append(said, string(c.News)+": "+c.Message)
				if value, known := c.Value.Get(); known != (minutes > 0) || known && value != minutes {
					t.Errorf("its value is %v, at %g min", c.Value, minutes)
				}
			}
		}
		return said
	}
	for _, step := range []struct {
		lasts   int
		minutes float64
		want    []string
	}{
		{300, notAsked, nil},
		{300, cantBeTold, nil},
		{300, 45, nil},
		{60, 26, nil}, // shorter than it holds
		{300, 40, nil},
		{150, 24, []string{
			"fired: GPU 0 (Card) will fill its memory in about 24 min; 2 min ago the estimate fell below 30 min. python (pid 7, alice) holds 97 MiB.",
		}},
		{60, notAsked, []string{
			"data_gone: GPU 0 (Card) currently does not report its memory growth, so it is unclear whether this is over; 2 min ago the estimate fell below 30 min.",
		}},
		{400, cantBeTold, []string{
			"data_back: GPU 0 (Card) no longer seems to fill its memory. If it stays that way, the alert ends in 5 min.",
			"over: GPU 0 (Card) no longer seems to fill its memory. The alert is over after 3 min.",
		}},
	} {
		if got := see(step.lasts, step.minutes); !slices.Equal(got, step.want) {
			t.Errorf("at %g min for %d s: said\n%q, want\n%q", step.minutes, step.lasts, got, step.want)
		}
	}
}

// A driver that is gone is one alert, not one more for each of its devices.
func TestDevicesOfADriverThatIsGone(t *testing.T) {
	for _, rules := range [][]Rule{{Default("lost", Lost), Default("not_answering", NotAnswering), Default("driver_gone", DriverGone)}, {Default("lost", Lost)}} {
		e := New(rules)
		var fired []string
		for second := 0; second < 200; second += 10 {
			d := healthy()
			d.Source = gpu.SourceNVML
			s := snapshotOf(second, d)
			s.Drivers = []gpu.Driver{{Source: gpu.SourceNVML}}
			if second > 50 {
				s.Devices[0].State, s.Devices[0].Readings = gpu.StateLost, gpu.Readings{}
				s.Drivers, s.Failures = nil, []gpu.Failure{{Source: gpu.SourceNVML, Advice: gpu.Advice{What: "the driver was unloaded"}}}
			}
			for _, c := range e.Observe(&insight.Moment{Snapshot: s}) {
				fired = append(fired, string(c.News)+" "+c.Rule)
			}
		}
		want := "fired " + rules[len(rules)-1].Name
		if !slices.Equal(fired, []string{want}) {
			t.Errorf("said %q, want %q alone", fired, want)
		}
	}
}

// Counters: what was there before is no news, what restarts is, and each rule
// counts its own codes.
func TestCounters(t *testing.T) {
	program := Default("program", XID)
	program.Codes = []int{13, 31}
	hardware := Default("hardware", XID)
	hardware.IgnoreCodes = []int{13, 31}
	e := New([]Rule{Default("ecc", ECC), program, hardware})
	see := func(second int, errors uint64, list ...gpu.XID) (out []string) {
		d := healthy()
		d.Health.UncorrectedVolatile = gpu.Of(errors)
		d.Health.XIDs = gpu.Of(list)
		for _, c := range e.Observe(&insight.Moment{Snapshot: snapshotOf(second, d)}) {
			out = append(out, fmt.Sprintf("%s %s %v", c.News, c.Rule, c.Value.Or(-1)))
		}
		return out
	}
	for _, step := range []struct {
		second int
		errors uint64
		xids   []gpu.XID
		want   []string
	}{
		{0, 3, nil, nil}, // they were there before
		{5, 3, []gpu.XID{{Code: 31, Count: 6, Earlier: 5}}, []string{"fired program 1"}}, // five of which the kernel's log told
		{10, 4, []gpu.XID{{Code: 31, Count: 8, Earlier: 5}}, []string{"fired ecc 1"}},
		{15, 6, []gpu.XID{{Code: 31, Count: 8, Earlier: 5}, {Code: 79, Count: 1}}, []string{"fired hardware 1"}},
		{605, 6, []gpu.XID{{Code: 31, Count: 8, Earlier: 5}, {Code: 79, Count: 1}}, nil},
		{610, 6, []gpu.XID{{Code: 31, Count: 8, Earlier: 5}, {Code: 79, Count: 1}}, []string{"over program 3"}},
		{3700, 2, []gpu.XID{{Code: 31, Count: 8, Earlier: 5}, {Code: 79, Count: 1}}, []string{"over hardware 1"}}, // the driver was loaded anew: two more
		{7300, 2, []gpu.XID{{Code: 31, Count: 8, Earlier: 5}, {Code: 79, Count: 1}}, []string{"over ecc 5"}},
		{7305, 3, []gpu.XID{{Code: 31, Count: 9, Earlier: 5}, {Code: 79, Count: 1}}, []string{"fired ecc 1", "fired program 1"}},
	} {
		if got := see(step.second, step.errors, step.xids...); !slices.Equal(got, step.want) {
			t.Errorf("at %d s: %q, want %q", step.second, got, step.want)
		}
	}
}

// A source that worked and fails is gone; one that never worked is not.
func TestDriverGone(t *testing.T) {
	rule := Default("driver_gone", DriverGone)
	e := New([]Rule{rule})
	works := func(s *gpu.Snapshot) { s.Drivers = []gpu.Driver{{Source: gpu.SourceNVML}} }
	fails := func(s *gpu.Snapshot) {
		s.Failures = []gpu.Failure{{Source: gpu.SourceNVML, Advice: gpu.Advice{What: "the library was replaced", Try: "restart gpuwhy"}}}
	}
	see := func(second int, how func(*gpu.Snapshot)) []Change {
		s := snapshotOf(second)
		how(s)
		return e.Observe(&insight.Moment{Snapshot: s})
	}
	for second := 0; second < 300; second += 10 {
		if changes := see(second, fails); len(changes) > 0 {
			t.Fatalf("a driver that never answered is gone: %q", changes[0].Message)
		}
	}
	see(300, works)
	see(310, fails)
	changes := see(340, fails)
	if len(changes) != 1 || changes[0].About() || changes[0].Device.Node != "n" ||
		changes[0].Message != "The driver (nvml) can no longer be read: the library was replaced; this began 30 s ago." || changes[0].Advice != "Restart gpuwhy." {
		t.Fatalf("%+v", changes)
	}
	if changes := see(350, func(*gpu.Snapshot) {}); len(changes) != 1 || changes[0].State != NoData {
		t.Errorf("nothing is said of it: %+v", changes)
	}
	see(360, works)
	if changes := see(375, works); len(changes) != 1 || changes[0].State != Resolved || changes[0].Message != "The driver (nvml) can be read again. The alert is over after 50 s." {
		t.Errorf("%+v", changes)
	}
}
