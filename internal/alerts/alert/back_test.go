package alert

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// An alert is over in words that are so: of a device in another state than the
// one it left, and of a value that is back behind its threshold and not gone.
func TestWhatIsSoOnceItIsOver(t *testing.T) {
	in := func(s gpu.State) func(*gpu.Device) {
		return func(d *gpu.Device) { *d = gpu.Device{Identity: d.Identity, State: s} }
	}
	holding := func(list ...gpu.Process) func(*gpu.Device) {
		return func(d *gpu.Device) { d.Processes = gpu.Of(list) }
	}
	both := func(changes ...func(*gpu.Device)) func(*gpu.Device) {
		return func(d *gpu.Device) {
			for _, change := range changes {
				change(d)
			}
		}
	}
	busy := func(d *gpu.Device) { d.Utilization.GPU = gpu.Of(gpu.Percent(60)) }
	reserved := func(d *gpu.Device) { d.Reservations = gpu.Of([]gpu.Reservation{{Namespace: "ml", Pod: "notebook-0"}}) }
	left := func(memory gpu.Bytes) func(*gpu.Device) {
		return func(d *gpu.Device) {
			p := process(9, "", "", 0, memory)
			p.Facts = gpu.ProcessFacts{Exists: gpu.Of(false)}
			d.Processes, d.Memory.Total, d.Memory.Used = gpu.Of([]gpu.Process{p}), gpu.Of[gpu.Bytes](80<<30), gpu.Of(memory)
		}
	}
	margin := func(left gpu.Celsius) func(*gpu.Device) {
		return func(d *gpu.Device) { d.Thermal.Margin = gpu.Of(left) }
	}
	above := func(threshold float64) func(*Rule) { return func(r *Rule) { r.Threshold = threshold } }
	ofAlice := func(r *Rule) { r.Scope.Users = []string{"alice"} }
	alice := func(sm gpu.Percent, memory gpu.Bytes) gpu.Process { return process(7, "python", "alice", sm, memory) }
	bob := process(8, "vllm", "bob", 99, 60*mib)
	for name, tt := range map[string]struct {
		watch       Watch
		rule        func(*Rule)
		wrong, then func(*gpu.Device)
		fired, over string // without the name of the device and how long; fired empty: not what this is about
	}{
		"a silent device is lost": {NotAnswering, nil, in(gpu.StateNotAnswering), in(gpu.StateLost), "",
			"is lost now, not just silent: the driver does not find it"},
		"a silent device falls asleep": {NotAnswering, nil, in(gpu.StateNotAnswering), in(gpu.StateAsleep), "",
			"is asleep now, so no answer is expected"},
		"a lost device is silent": {Lost, nil, in(gpu.StateLost), in(gpu.StateNotAnswering), "",
			"is not answering, and is no longer reported as lost"},
		"a lost device is asleep": {Lost, nil, in(gpu.StateLost), in(gpu.StateAsleep), "",
			"is back and asleep"},

		"less is held": {IdleHeld, above(20_000), holding(alice(0, 30<<30)), holding(alice(0, 19<<30)), "",
			"is idle while processes hold 19.0 GiB of its memory, no longer above 19.5 GiB"},
		"nothing is held": {IdleHeld, nil, holding(alice(0, 30<<30)), nil, "",
			"is idle, and no compute process holds its memory any more"},
		"what is held is used": {IdleHeld, nil, holding(alice(0, 30<<30)), both(holding(alice(60, 30<<30)), busy), "",
			"has work again"},
		"alice holds nothing, bob does": {IdleHeld, ofAlice, holding(alice(0, 30<<30), bob), holding(bob),
			"is idle while processes of alice hold 30.0 GiB of its memory",
			"is idle, and no compute process of alice holds its memory any more"},
		"alice holds less": {IdleHeld, rules(ofAlice, above(20_000)), holding(alice(0, 30<<30), bob), holding(alice(0, 19<<30), bob), "",
			"is idle while processes of alice hold 19.0 GiB of its memory, no longer above 19.5 GiB"},

		"less is left behind": {OrphanMemory, above(20_000), left(30 << 30), left(15 << 30), "",
			"has 15.0 GiB of memory left behind by ended processes, no longer above 19.5 GiB"},
		"what was left behind is free": {OrphanMemory, above(20_000), left(30 << 30), nil, "",
			"has reclaimed the memory left behind by ended processes"},

		"it is no longer reserved": {IdleReserved, nil, reserved, nil, "", "is no longer reserved"},
		"what is reserved works":   {IdleReserved, nil, reserved, both(reserved, busy), "", "has work again"},
		"another's work":           {IdleReserved, nil, reserved, busy, "", "has work again and is no longer reserved"},

		"alice rests, bob works": {Utilization, ofAlice, both(busy, holding(alice(80, mib), bob)), both(busy, holding(alice(3, mib), bob)),
			"is kept 80 % busy by processes of alice", "is kept 3 % busy by processes of alice, no longer above 50 %"},
		"alice needs less, bob does not": {Memory, rules(ofAlice, above(20)), holding(alice(0, 30*mib), bob), holding(alice(0, 10*mib), bob),
			"has 30 % of its memory held by processes of alice", "has 10 % of its memory held by processes of alice, no longer above 20 %"},

		"a margin below zero": {TemperatureMargin, above(-5), margin(-7), margin(-1),
			"is 7 °C above its slowdown temperature", "is 1 °C above its slowdown temperature, no longer more than 5 °C above it"},
		"a margin of zero": {TemperatureMargin, above(0), margin(-2), margin(9),
			"is 2 °C above its slowdown temperature", "is 9 °C below its slowdown temperature, no longer above it"},
	} {
		t.Run(name, func(t *testing.T) {
			rule := Default("rule", tt.watch)
			rule.Hold, rule.Clear = 10*time.Second, 10*time.Second
			if tt.rule != nil {
				tt.rule(&rule)
			}
			if err := rule.Check(); err != nil {
				t.Fatal(err)
			}
			e := New([]Rule{rule})
			see := func(second int, change func(*gpu.Device)) []Change {
				d := healthy()
				if change != nil {
					change(&d)
				}
				return e.Observe(&insight.Moment{Snapshot: snapshotOf(second, d)})
			}
			see(0, tt.wrong)
			fired := see(10, tt.wrong)
			if len(fired) != 1 || fired[0].News != Fired || !strings.HasPrefix(fired[0].Message, "GPU 0 (Card) "+tt.fired) {
				t.Fatalf("said %+v, want that it %s", fired, tt.fired)
			}
			see(20, tt.then)
			standing := e.Standing()
			if want := "GPU 0 (Card) " + tt.over + ". If it stays that way, the alert ends in 10 s."; len(standing) != 1 || standing[0].Message != want {
				t.Errorf("standing is %+v, want\n%q", standing, want)
			}
			over := see(30, tt.then)
			if want := "GPU 0 (Card) " + tt.over + ". The alert is over after at least 20 s."; len(over) != 1 || over[0].News != Over || over[0].Message != want {
				t.Errorf("said %+v, want\n%q", over, want)
			}
		})
	}
}

func rules(changes ...func(*Rule)) func(*Rule) {
	return func(r *Rule) {
		for _, change := range changes {
			change(r)
		}
	}
}

// What can't be seen any more is not told to be over.
func TestWhatIsNotSeenIsNotOver(t *testing.T) {
	orphan := func(pid int, memory gpu.Reading[gpu.Bytes]) gpu.Process {
		return gpu.Process{PID: pid, Type: gpu.TypeCompute, Memory: memory, Facts: gpu.ProcessFacts{Exists: gpu.Of(false)}}
	}
	fan := func(told gpu.Percent, rpm gpu.Reading[gpu.RPM]) func(*gpu.Device) {
		return func(d *gpu.Device) { d.Fans.Fans = []gpu.Fan{{Commanded: gpu.Of(told), RPM: rpm}} }
	}
	list := func(processes ...gpu.Process) func(*gpu.Device) {
		return func(d *gpu.Device) {
			d.Memory.Used, d.Processes = gpu.Of[gpu.Bytes](90*mib), gpu.Of(processes)
		}
	}
	worker := process(7, "python", "alice", 0, mib)
	mute := worker
	mute.SM = gpu.Reading[gpu.Percent]{}
	worker.SM = gpu.Of(gpu.Percent(90))
	for name, tt := range map[string]struct {
		watch       Watch
		rule        func(*Rule)
		wrong, then func(*gpu.Device)
		want        string // without the name of the device
	}{
		"the fan's speed": {FanFailing, nil, fan(80, gpu.Of(gpu.RPM(0))), fan(80, gpu.Reading[gpu.RPM]{}), "currently does not report its fans"},
		"what a process that ended holds": {OrphanMemory, func(r *Rule) { r.Threshold = 50 }, list(orphan(9, gpu.Of[gpu.Bytes](70*mib)), worker),
			list(orphan(9, gpu.Reading[gpu.Bytes]{}), worker), "currently does not report its processes"},
		"the work of alice": {Utilization, func(r *Rule) { r.Scope.Users = []string{"alice"} }, list(worker), list(mute), "currently does not report usage by processes of alice"},
	} {
		t.Run(name, func(t *testing.T) {
			rule := Default("rule", tt.watch)
			if tt.rule != nil {
				tt.rule(&rule)
			}
			e, history := New([]Rule{rule}), explain.NewHistory()
			var news []News
			for second := 0; second < 400; second += 5 {
				d := healthy()
				tt.wrong(&d)
				if second >= 200 {
					tt.then(&d)
				}
				s := snapshotOf(second, d)
				answer := history.Add(s)
				for _, c := range e.Observe(&insight.Moment{Snapshot: s, Answer: answer}) {
					news = append(news, c.News)
				}
			}
			if want := []News{Fired, DataGone}; !slices.Equal(news, want) {
				t.Fatalf("said %q, want %q", news, want)
			}
			if got := e.Standing()[0].Message; !strings.HasPrefix(got, "GPU 0 (Card) "+tt.want+", so it is unclear whether this is over; ") {
				t.Errorf("said %q, want that it %s", got, tt.want)
			}
		})
	}
	// Of one of two that does not say, what the other holds is enough to know.
	rule := Default("rule", OrphanMemory)
	rule.Threshold, rule.Hold = 50, 0
	d := healthy()
	list(orphan(9, gpu.Of[gpu.Bytes](70*mib)), orphan(10, gpu.Reading[gpu.Bytes]{}))(&d)
	if changes := New([]Rule{rule}).Observe(&insight.Moment{Snapshot: snapshotOf(0, d)}); len(changes) != 1 || changes[0].News != Fired {
		t.Errorf("said %+v of 70 MiB at least, want that it fires", changes)
	}
}

// While a margin is on its way back, the line it has to reach is told as a
// distance, which can't be taken for a temperature.
func TestTheLineOfAMargin(t *testing.T) {
	for _, tt := range []struct {
		threshold, value float64
		want             string
	}{
		{5, 7, "GPU 0 (Card) is 7 °C below its slowdown temperature, no longer within 5 °C of it. The alert ends after 60 s at 8 °C below it or more."},
		{-5, -4, "GPU 0 (Card) is 4 °C above its slowdown temperature, no longer more than 5 °C above it. The alert ends after 60 s at 2 °C above it or less."},
	} {
		rule, w := Default("rule", TemperatureMargin), watches[TemperatureMargin]
		rule.Threshold = tt.threshold
		a := Alert{Watch: TemperatureMargin, State: Firing, Device: healthy().Identity, Since: start, Time: start}
		text := telling{Alert: &a, rule: &rule, watch: w, value: tt.value}
		if text.write(); a.Message != tt.want {
			t.Errorf("said\n%q, want\n%q", a.Message, tt.want)
		}
	}
}

// A scope says of itself whose processes those are.
func TestWhoseProcesses(t *testing.T) {
	for want, s := range map[string]Scope{
		"":                              {GPUs: []string{"GPU-a"}},
		" of alice":                     {Users: []string{"alice"}},
		" of alice, a* or b?b":          {Users: []string{"alice", "a*", "b?b"}},
		" named python or blender":      {Processes: []string{"python", "blender"}},
		" of alice or bob named python": {Users: []string{"alice", "bob"}, Processes: []string{"python"}},
	} {
		if got := s.whose(); got != want {
			t.Errorf("%+v: %q, want %q", s, got, want)
		}
	}
}
