package alert

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// An alert is told in these words where what is watched, or who causes it, is
// out of the ordinary.
func TestWords(t *testing.T) {
	idle := process(8, "vllm", "bob", 0, 3<<30)
	hidden := process(9, "", "", 0, 0)
	hidden.Memory = gpu.Reading[gpu.Bytes]{}
	second := process(11, "python", "alice", 30, 0)
	nameless := process(10, "", "", 40, 0)
	nameless.Facts = gpu.ProcessFacts{Exists: gpu.Of(true)}
	for want, a := range map[string]Alert{
		"GPU 0 (Card) is 2 °C above its slowdown temperature; 12 min ago it came within 5 °C of it.":                                        {Watch: TemperatureMargin, Value: gpu.Of(-2.0)},
		"GPU 0 (Card) is 96 % busy; just now it rose above 5 %. vllm (pid 8, bob) holds 3.0 GiB.":                                           {Watch: Utilization, Value: gpu.Of(96.0), Since: start.Add(12 * time.Minute), Processes: []gpu.Process{idle}},
		"GPU 0 (Card) is 96 % busy; 12 min ago it rose above 5 %. Of 2 compute processes on it, vllm (pid 8, bob) holds the most, 3.0 GiB.": {Watch: Utilization, Value: gpu.Of(96.0), Processes: []gpu.Process{idle, hidden}},
		"GPU 0 (Card) is 96 % busy; 12 min ago it rose above 5 %. A process (pid 10) keeps it busy.":                                        {Watch: Utilization, Value: gpu.Of(96.0), Processes: []gpu.Process{nameless}},
		"GPU 0 (Card) is 96 % busy; 12 min ago it rose above 5 %. Of 2 processes that use it, a process (pid 10) uses it the most.":         {Watch: Utilization, Value: gpu.Of(96.0), Processes: []gpu.Process{nameless, second}},
		"GPU 0 (Card) draws 390 W; 12 min ago power draw rose above 5 W. A process (pid 9) runs on it.":                                     {Watch: Power, Value: gpu.Of(390.0), Processes: []gpu.Process{hidden}},
	} {
		w := watches[a.Watch]
		a.State, a.Device = Firing, healthy().Identity
		a.Time = start.Add(12 * time.Minute)
		if a.Since.IsZero() {
			a.Since = start
		}
		rule := Default("rule", a.Watch)
		rule.Threshold = 5
		text := telling{Alert: &a, rule: &rule, watch: w, value: a.Value.Or(0), beyond: true}
		if text.write(); a.Message != want {
			t.Errorf("%q, want %q", a.Message, want)
		}
	}
	one, two := Alert{Watch: XID, State: Firing, Device: healthy().Identity, Value: gpu.Of(1.0), Since: start, Time: start}, Alert{}
	rule := Default("rule", XID)
	text := telling{Alert: &one, rule: &rule, watch: watches[XID], value: 1, detail: "XID 79 (the GPU has fallen off the bus)", advice: "Look."}
	text.write()
	if want := "GPU 0 (Card) had 1 driver error: XID 79 (the GPU has fallen off the bus), just now."; one.Message != want || one.Advice != "Look." {
		t.Errorf("%q, %q, want %q", one.Message, one.Advice, want)
	}
	for vendor, lines := range map[gpu.Vendor]string{gpu.NVIDIA: "NVRM and Xid lines", gpu.AMD: "lines of amdgpu", gpu.Intel: "lines of i915 and xe", "": "lines of its driver"} {
		for _, about := range []Watch{Lost, NotAnswering} {
			its, rule := Alert{Watch: about, State: Firing, Device: healthy().Identity, Since: start, Time: start}, Default("rule", about)
			its.Device.Vendor = vendor
			text := telling{Alert: &its, rule: &rule, watch: watches[about], beyond: true}
			if text.write(); !strings.HasPrefix(its.Advice, "Look for "+lines+" in the kernel log") {
				t.Errorf("%s of %q advises %q", about, vendor, its.Advice)
			}
		}
	}
	two = one
	two.Value, two.Time, two.State = gpu.Of(2.0), start.Add(time.Hour), NoData
	text = telling{Alert: &two, rule: &rule, watch: watches[XID], value: 2}
	text.write()
	if want := "GPU 0 (Card) currently does not report its driver errors, so it is unclear whether this is over; the first came 60 min ago."; two.Message != want {
		t.Errorf("%q, want %q", two.Message, want)
	}
}
