package alert

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// What people are told of each thing that can be watched: what a change of words changes, testdata/words.golden.txt shows.
func TestWordsOfEachWatch(t *testing.T) {
	const file = "testdata/words.golden.txt"
	train := process(8, "train.py", "ann", 90, 3<<30)
	var b strings.Builder
	for _, name := range Watches() {
		w := watches[name]
		fmt.Fprintf(&b, "\n# %s\n", name)
		rule := Default("rule", name)
		thresholds := []float64{rule.Threshold}
		if w.Least < 0 && w.Below {
			thresholds = append(thresholds, 0, -3)
		}
		for _, threshold := range thresholds {
			rule.Threshold = threshold
			beyond, back := threshold+7, max(threshold-20, 0)
			if w.Below {
				beyond, back = threshold-7, threshold+20
			}
			switch {
			case w.Condition:
				beyond, back = 1, 0
			case w.Counter:
				beyond, back = 2, 1
			}
			tell := func(how string, change func(*Alert, *Rule, *telling)) {
				a := Alert{Watch: name, State: Firing, Device: healthy().Identity, Since: start, Time: start.Add(12 * time.Minute)}
				a.Device.Vendor = gpu.NVIDIA
				if w.About != aDevice {
					a.Device.UUID, a.Device.Source = "", "nvml"
				}
				r := rule
				text := telling{Alert: &a, rule: &r, watch: w, value: beyond, beyond: true}
				change(&a, &r, &text)
				text.write()
				fmt.Fprintf(&b, "%s: %s\n    %s | %s\n", how, a.Message, a.Is, a.More)
				if how == "fires" {
					fmt.Fprintf(&b, "    %s\n", a.Advice)
				}
			}
			tell("fires", func(*Alert, *Rule, *telling) {})
			tell("one, just now", func(a *Alert, _ *Rule, t *telling) { a.Time, t.value = a.Since, 1 })
			tell("by a process", func(a *Alert, _ *Rule, _ *telling) { a.Processes = []gpu.Process{train} })
			tell("more", func(a *Alert, _ *Rule, t *telling) { t.detail, a.Before = "the detail", true })
			tell("before the first", func(a *Alert, _ *Rule, _ *telling) { a.Time, a.Before = a.Since, true })
			tell("unknown", func(a *Alert, _ *Rule, _ *telling) { a.State = NoData })
			if w.Shares {
				narrow := func(r *Rule) { r.Scope = Scope{Users: []string{"ann"}, Processes: []string{"train*"}} }
				tell("of some", func(_ *Alert, r *Rule, _ *telling) { narrow(r) })
				tell("of some, unknown", func(a *Alert, r *Rule, _ *telling) { a.State = NoData; narrow(r) })
			}
			tell("eases", func(_ *Alert, _ *Rule, t *telling) { t.beyond, t.value, t.remaining = false, back, 20*time.Second })
			tell("between the lines", func(_ *Alert, _ *Rule, t *telling) { t.beyond, t.value = false, back })
			tell("over", func(a *Alert, _ *Rule, t *telling) { a.State, t.beyond, t.value = Resolved, false, back })
			tell("over, with nothing left", func(a *Alert, _ *Rule, t *telling) { a.State, t.beyond, t.value = Resolved, false, 0 })
		}
	}
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("words have changed: go test ./internal/alerts/alert -run TestWordsOfEachWatch -update, and look at the diff of %s", file)
	}
}
