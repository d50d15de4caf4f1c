package views

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuwhy/gpuwhy/gpu"
)

func TestAlertsPage(t *testing.T) {
	in := exampleAlerts(noon)
	in.Asset = asset
	p := NewAlertsPage(in)
	if p.Title != "▲ 3 · Alerts · gpuwhy" || p.Sentence != "3 alerts stand: 1 critical, 1 warning and 1 note." || p.RuleCount != "2 rules are in force" {
		t.Errorf("%q, %q, %q", p.Title, p.Sentence, p.RuleCount)
	}
	if got := p.Firing[1]; got.Said != "acknowledged by <b>ann</b>: a new fan is on its way · silenced until 2026-01-03 18:00:00 UTC" || got.Until != "2026-01-03T18:00:00Z" || !got.Known || !got.Silenced {
		t.Errorf("%+v", got)
	}
	if got := p.Firing[2]; !got.NoData || got.Device != "the machine" || got.DevicePath != "" {
		t.Errorf("%+v", got)
	}
	if got := p.Past[0]; got.Label != "Critical" || got.Span != "8\u00a0min" {
		t.Errorf("%+v", got)
	}
	if diff := cmp.Diff([]RuleRow{
		{"hot", "temperature above 85\u00a0°C", "30\u00a0s", "back by 5\u00a0°C for 1\u00a0min", "5\u00a0min", "every 4\u00a0h", "Critical", "everything", "all", true},
		{"alice_too_much", "utilization above 90\u00a0%", "2\u00a0h", "after 1\u00a0min", "0\u00a0s", "never", "Note", "user alice", "chat, phone", false},
		{"lost", "lost", "at once", "after 30\u00a0s", "0\u00a0s", "never", "Critical", "everything", "all", true},
	}, p.Rules); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]SilenceRow{
		{"s1", "rule hot · GPU 1", "made by <b>ann</b>: a new fan is on its way", Moment{"2026-01-03 18:00:00 UTC", "2026-01-03T18:00:00Z"}, "/api/silences/s1/end"},
		{"s2", "every rule · GPUs GPU-5c* · machine other", "", Moment{"2026-01-02 13:00:00 UTC", "2026-01-02T13:00:00Z"}, "/api/silences/s2/end"},
	}, p.Silences); diff != "" {
		t.Error(diff)
	}
	if got := p.Targets[1]; got.Since.Text != "2026-01-02 11:00:00 UTC" || got.Error != "it answered 503" || got.Success != (Moment{}) || got.Severity != "everything" {
		t.Errorf("%+v", got)
	}
	var html bytes.Buffer
	if err := p.Render(t.Context(), &html); err != nil {
		t.Fatal(err)
	}
	if text := html.String(); strings.Contains(text, "<b>ann") || !strings.Contains(text, "&lt;b&gt;ann") || !strings.Contains(text, `formaction="/api/alerts/p1/acknowledge"`) {
		t.Error("what somebody calls themselves is markup, or nothing can be said")
	}
}

// That nothing fires is said only where that can be known.
func TestNothingFires(t *testing.T) {
	for want, s := range map[string]*gpu.Snapshot{
		"Nothing is known yet: the first reading is under way.": nil,
		"Nothing fires, and no GPU can be read.":                exampleNone(noon),
		"Nothing fires.":                                        exampleOne(noon),
	} {
		p := NewAlertsPage(AlertsInput{Input: Input{Snapshot: s, Now: noon}, Rules: []Rule{{Name: "hot", Enabled: true}}})
		if p.Sentence != want || p.RuleCount != "1 rule is in force" || p.Title != "Alerts · gpuwhy" {
			t.Errorf("%q, %q, %q, want %q", p.Sentence, p.RuleCount, p.Title, want)
		}
	}
	if p := NewAlertsPage(AlertsInput{Input: Input{Snapshot: exampleMany(noon, 1000), Now: noon}}); p.GPUChoices != nil {
		t.Errorf("%d GPUs to choose from", len(p.GPUChoices))
	}
}

func TestLength(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0\u00a0s", 10 * time.Second: "10\u00a0s", 10 * time.Minute: "10\u00a0min", 4 * time.Hour: "4\u00a0h",
		90 * time.Minute: "1\u00a0h 30\u00a0min", 20*time.Hour + 5*time.Minute: "20\u00a0h 5\u00a0min", 24 * time.Hour: "1\u00a0d",
	} {
		if got := length(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}
