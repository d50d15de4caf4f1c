package views

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alert"
	"github.com/gpuwhy/gpuwhy/internal/alert/notify"
	"github.com/gpuwhy/gpuwhy/internal/fixture"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// exampleAlerts is a page of alerts with everything that one can have.
func exampleAlerts(eight *gpu.Snapshot, now time.Time) AlertsInput {
	of := eight.Devices[1].Identity
	hot := alert.Alert{
		ID: "p1", Rule: "hot", Severity: "critical", State: "firing", Device: of, Since: now.Add(-9 * time.Minute), Time: now,
		Message: "GPU 1 (NVIDIA H100 80GB HBM3) is at 91 °C; 9 min ago it rose above 85 °C.", Advice: "look at its fans and at the air around it",
	}
	known, gone, over := hot, hot, hot
	known.ID, known.Severity, known.Acknowledged, known.SilencedUntil = "p2", "warning", &alert.Acknowledgment{By: "<b>ann</b>", Comment: "a new fan is on its way"}, now.Add(30*time.Hour)
	gone.ID, gone.Severity, gone.State, gone.Device = "p3", "info", "no_data", gpu.Identity{Node: of.Node}
	over.ID, over.State, over.Time = "p4", "resolved", now.Add(-time.Minute)
	over.Ended = now.Add(-2 * time.Minute)
	dismissed := over
	dismissed.ID, dismissed.Message = "p5", "GPU 1 (NVIDIA H100 80GB HBM3) was above 85 °C, and nothing was reported. Dismissed by hand."
	return AlertsInput{
		Input: Input{Nodes: gpu.Nodes{eight}, Alerts: []alert.Alert{hot, known, gone}, Now: now, BasePath: "/"},
		AnswerOf: func(a *alert.Alert) *explain.DeviceAnswer {
			if !a.About() {
				return nil
			}
			return &explain.DeviceAnswer{Sentence: "python (pid 9001, carol) keeps GPU 1 (NVIDIA H100 80GB HBM3) busy at 99 %, 91 °C.", Causes: make([]explain.Cause, 1)}
		},
		Past: []alert.Alert{over, dismissed},
		Silences: []alert.Silence{
			{ID: "s1", Rule: "hot", GPU: of.UUID, By: "<b>ann</b>", Comment: "a new fan is on its way", Until: now.Add(30 * time.Hour)},
			{ID: "s2", GPU: "GPU-5c*", Node: "other", Until: now.Add(time.Hour)},
		},
		Rules: []alert.Rule{
			{Name: "hot", Watch: "temperature", Severity: "critical", Enabled: true, Threshold: 85, Margin: 5, Hold: 30 * time.Second, Clear: time.Minute, Cooldown: 5 * time.Minute, Repeat: 4 * time.Hour},
			{Name: "alice_too_much", Watch: "utilization", Severity: "info", Threshold: 90, Hold: 2 * time.Hour, Clear: time.Minute, Scope: alert.Scope{Users: []string{"alice"}}, Targets: []string{"chat", "phone"}},
			{Name: "lost", Watch: "lost", Severity: "critical", Enabled: true, Clear: 30 * time.Second},
		},
		Targets: []notify.Status{
			{Name: "chat", Service: "slack", Severity: "warning", LastSuccess: now.Add(-time.Minute)},
			{Name: "phone", Service: "ntfy", Queued: 3, LastError: "it answered 503", FailingSince: now.Add(-time.Hour)},
		},
	}
}

func TestAlertsPage(t *testing.T) {
	in := exampleAlerts(machine("eight"), noon)
	in.Asset = asset
	p := NewAlertsPage(in)
	if p.Title != "▲ 3 alerts · gpuwhy" || p.Sentence != "1 critical alert, 1 warning and 1 note." || p.RuleCount != "2 rules are in force" {
		t.Errorf("%q, %q, %q", p.Title, p.Sentence, p.RuleCount)
	}
	if got := p.Firing[1]; got.Said != "acknowledged by <b>ann</b>: a new fan is on its way · silenced until 2026-01-03 18:00:00 UTC" || got.Alert.ID != "p2" {
		t.Errorf("%+v", got)
	}
	if got := p.Firing[2]; got.Alert.State != alert.NoData || got.Device != "the machine" || got.DevicePath != "" {
		t.Errorf("%+v", got)
	}
	if got := p.Past[0]; got.Label != "Critical" || got.Span != "7\u00a0min" {
		t.Errorf("%+v", got)
	}
	var rules []string
	tags := regexp.MustCompile(`(^[^>]*>|\s*<[^>]*>\s*)+`)
	for row := range strings.SplitSeq(render(t, ruleTable(in.Rules)), "<tr ") {
		rules = append(rules, strings.Trim(tags.ReplaceAllString(row, "|"), "|"))
	}
	if diff := cmp.Diff([]string{
		"hot|temperature above 85\u00a0°C|30\u00a0s|back by 5\u00a0°C for 1\u00a0min|5\u00a0min|every 4\u00a0h|Critical|everything|all",
		"alice_too_much|not enabled|utilization above 90\u00a0%|2\u00a0h|after 1\u00a0min|0\u00a0s|never|Note|user alice|chat, phone",
		"lost|lost|at once|after 30\u00a0s|0\u00a0s|never|Critical|everything|all",
	}, rules[1:]); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]SilenceRow{
		{&in.Silences[0], "rule hot · GPU 1", "made by <b>ann</b>: a new fan is on its way", "/api/silences/s1/end"},
		{&in.Silences[1], "every rule · GPUs GPU-5c* · machine other", "", "/api/silences/s2/end"},
	}, p.Silences); diff != "" {
		t.Error(diff)
	}
	var html bytes.Buffer
	if err := p.Render(t.Context(), &html); err != nil {
		t.Fatal(err)
	}
	if want := `<td data-label="Told of">everything</td><td data-label="Last told">not yet</td>` +
		`<td data-label="Last error" class="failing"><span><bdi>it answered 503</bdi>  since <time datetime="2026-01-02T11:00:00Z">2026-01-02 11:00:00 UTC</time></span></td>` +
		`<td data-label="Waiting">3</td>`; !strings.Contains(html.String(), want) {
		t.Errorf("it lacks %s", want)
	}
	const unwritten = "a restart would lose them"
	if strings.Contains(html.String(), unwritten) {
		t.Error("it says that nothing can be written")
	}
	in.Unwritten = true
	if !strings.Contains(render(t, NewAlertsPage(in)), unwritten) {
		t.Error("it does not say that nothing can be written")
	}
	if text := html.String(); strings.Contains(text, "<b>ann") || !strings.Contains(text, "&lt;b&gt;ann") || !strings.Contains(text, `formaction="/api/alerts/p1/acknowledge"`) || !strings.Contains(text, `data-at="2026-01-03T18:00:00Z"`) {
		t.Error("what somebody calls themselves is markup, or nothing can be said")
	}
}

// That nothing fires is said only where that can be known.
func TestNothingFires(t *testing.T) {
	for want, s := range map[string]*gpu.Snapshot{
		"Nothing is known yet: the first reading is under way.": nil,
		"Nothing fires, and no GPU can be read.":                machine("none"),
		"Nothing fires.":                                        machine("one"),
	} {
		p := NewAlertsPage(AlertsInput{Input: Input{Nodes: nodesOf(s), Now: noon}, Rules: []alert.Rule{{Name: "hot", Enabled: true}}})
		if p.Sentence != want || p.RuleCount != "1 rule is in force" || p.Title != "Alerts · gpuwhy" {
			t.Errorf("%q, %q, %q, want %q", p.Sentence, p.RuleCount, p.Title, want)
		}
	}
	if p := NewAlertsPage(AlertsInput{Input: Input{Nodes: gpu.Nodes{fixture.Many(noon, 1000)}, Now: noon}}); p.GPUChoices != nil {
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

// A silence names a GPU by its index only where the machine is the same too.
func TestSilenceOfAnotherMachine(t *testing.T) {
	s := machine("one")
	d := &s.Devices[0]
	in := Input{Nodes: gpu.Nodes{s}, Now: noon}
	for node, want := range map[string]string{
		"":           "every rule · GPU 0",
		d.Node:       "every rule · GPU 0",
		"other-desk": "every rule · GPUs " + d.UUID + " · machine other-desk",
	} {
		if got := newSilence(&alert.Silence{GPU: d.UUID, Node: node}, &in).Of; strings.ReplaceAll(got, nbsp, " ") != want {
			t.Errorf("of %q: %q, want %q", node, got, want)
		}
	}
}

// Of thousands of alerts the worst hundred are listed, and the way to the
// others is there; what costs something is asked of those alone.
func TestManyAlerts(t *testing.T) {
	in := AlertsInput{Input: Input{Nodes: gpu.Nodes{machine("one")}, Now: noon, BasePath: "/gpus/", Asset: asset}}
	for i := range 2345 {
		in.Alerts = append(in.Alerts, alert.Alert{ID: strconv.Itoa(i), Rule: "hot", Severity: "info", State: "firing", Since: noon.Add(time.Duration(i) * time.Second), Message: "It is hot."})
	}
	in.Alerts[2000].Severity, in.Alerts[1000].Severity = "critical", "warning"
	explained := 0
	in.AnswerOf = func(a *alert.Alert) *explain.DeviceAnswer {
		explained++
		return &explain.DeviceAnswer{Sentence: "Why " + a.ID + ".", Causes: []explain.Cause{{Advice: "Cool it."}}}
	}
	for _, tt := range []struct {
		from                  int
		first, last           string
		listed, worse, milder string
	}{
		{0, "2000", "97", "Alerts 1 to 100 of 2345, the worst first", "", "/gpus/alerts?from=100"},
		{100, "98", "197", "Alerts 101 to 200 of 2345, the worst first", "/gpus/alerts?from=0", "/gpus/alerts?from=200"},
		{99999, "2300", "2344", "Alerts 2301 to 2345 of 2345, the worst first", "/gpus/alerts?from=2200", ""},
	} {
		explained = 0
		in.From = tt.from
		p := NewAlertsPage(in)
		n := len(p.Firing)
		if p.Firing[0].Alert.ID != tt.first || p.Firing[n-1].Alert.ID != tt.last || p.Listed != tt.listed || p.Worse != tt.worse || p.Milder != tt.milder || explained != n || p.Firing[0].Why == "" || p.Firing[0].Advice != "Cool it." {
			t.Errorf("from %d: %d of them, %q to %q, %q, %q, %q; %d explained", tt.from, n, p.Firing[0].Alert.ID, p.Firing[n-1].Alert.ID, p.Listed, p.Worse, p.Milder, explained)
		}
		if p.Title != "▲ 2345 alerts · gpuwhy" || p.Sentence != "1 critical alert, 1 warning and 2343 notes." {
			t.Errorf("%q, %q", p.Title, p.Sentence)
		}
	}
	in.From = 0
	var html bytes.Buffer
	if err := NewAlertsPage(in).Render(t.Context(), &html); err != nil {
		t.Fatal(err)
	}
	if n := html.Len(); n > 250_000 {
		t.Errorf("the page has %d bytes", n)
	}
	if !strings.Contains(html.String(), `href="/gpus/alerts?from=100"`) {
		t.Error("there is no way to the others")
	}
	board := NewPage(in.Input)
	if len(board.Alerts) != 100 || board.MoreAlerts != "Show the worst 100 of 2345" || board.Alerts[0].Alert.ID != "2000" {
		t.Errorf("the dashboard has %d, the first %q; %q", len(board.Alerts), board.Alerts[0].Alert.ID, board.MoreAlerts)
	}
	in.Alerts = in.Alerts[:100]
	if p := NewAlertsPage(in); p.Listed != "" || p.Milder != "" || len(p.Firing) != 100 {
		t.Errorf("of a hundred: %d, %q", len(p.Firing), p.Listed)
	}
}

// Words and moments that stand beside each other have a space between them.
func TestMomentsStandApart(t *testing.T) {
	in := exampleAlerts(machine("eight"), noon)
	in.Asset = asset
	html := render(t, NewAlertsPage(in))
	if found := regexp.MustCompile(`\w<time[^>]*>`).FindAllString(html, -1); found != nil {
		t.Errorf("no space before %q", found)
	}
	if strings.Count(html, "since <time") < 2 || !strings.Contains(html, "as of <time") {
		t.Error("the pattern is wrong")
	}
}
