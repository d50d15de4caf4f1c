//go:build !race

package views

import (
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/alerts/notify"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
)

// exampleAlerts is a page of alerts with everything that one can have.
func exampleAlerts(eight *gpu.Snapshot, now time.Time) AlertsInput {
	identity := eight.Devices[1].Identity
	hot := alert.Alert{
		ID: "p1", Rule: "hot", Severity: "critical", State: "firing", Device: identity, Since: now.Add(-9 * time.Minute), Time: now,
		Message: "GPU 1 (NVIDIA H100 80GB HBM3) is at 91 °C; 9 min ago it rose above 85 °C.", Advice: "look at its fans and at the air around it",
	}
	known, gone, over := hot, hot, hot
	known.ID, known.Severity, known.Acknowledged, known.SilencedUntil = "p2", "warning", &alert.Acknowledgment{By: "<b>ann</b>", Comment: "a new fan is on its way"}, now.Add(30*time.Hour)
	gone.ID, gone.Severity, gone.State, gone.Device = "p3", "info", "no_data", gpu.Identity{Node: identity.Node, Source: "nvml"}
	over.ID, over.State, over.Time = "p4", "resolved", now.Add(-time.Minute)
	over.Ended = now.Add(-2 * time.Minute)
	dismissed := over
	dismissed.ID, dismissed.Message = "p5", "GPU 1 (NVIDIA H100 80GB HBM3) was above 85 °C, and nothing was reported. Dismissed by hand."
	return AlertsInput{
		Input: Input{Sight: auth.LocalOwner().Sight(), Nodes: gpu.Nodes{eight}, Alerts: []alert.Alert{hot, known, gone}, Now: now, BasePath: "/", Choices: Choices{Path: "/alerts"}},
		AnswerOf: func(a *alert.Alert) *explain.DeviceAnswer {
			if !a.About() {
				return nil
			}
			return &explain.DeviceAnswer{Sentence: "python (pid 9001, carol) keeps GPU 1 (NVIDIA H100 80GB HBM3) busy at 99 %, 91 °C.", Causes: make([]explain.Cause, 1)}
		},
		Past: []alert.Alert{over, dismissed},
		Silences: []alert.Silence{
			{ID: "s1", Rule: "hot", GPU: identity.UUID, By: "<b>ann</b>", Comment: "a new fan is on its way", Until: now.Add(30 * time.Hour)},
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
	in.Alerts[0].Is, in.Alerts[0].More, in.Alerts[0].Watch, in.Alerts[0].Told = "is at 91 °C", "Above 85 °C.", alert.Temperature, noon.Add(-8*time.Minute)
	p := NewAlertsPage(in)
	if p.Title != "▲ 1 alert · gpuwhy" || p.Headline != "GPU 1 is hot." || !p.Broken {
		t.Errorf("%q, %q, broken: %v", p.Title, p.Headline, p.Broken)
	}
	chips := each(p.Chips, func(c *AlertChoice) string { return c.Count + " " + c.Label })
	if diff := cmp.Diff([]string{"1 critical", "1 for your information"}, chips); diff != "" {
		t.Error(diff)
	}
	tabs := each(p.Tabs, func(c *AlertChoice) string { return strings.TrimSpace(c.Label+" "+c.Count) + " " + string(c.Path) })
	if diff := cmp.Diff([]string{"Open now /alerts", "History 2 /alerts?tab=history", "Silenced 2 /alerts?tab=silenced", "Rules 2 /alerts?tab=rules", "Notifications 2 /alerts?tab=told"}, tabs); diff != "" {
		t.Error(diff)
	}
	if len(p.Groups) != 1 || len(p.Groups[0].Items) != 1 {
		t.Fatalf("the list is %+v", p.Groups)
	}
	got := p.Groups[0].Items[0]
	if !got.Open || got.More != "Above 85\u00a0°C." || got.Lasts != "9\u00a0min" || got.Told != "chat, not phone, which can’t be reached now; at" || !got.ToldAt.Equal(in.Alerts[0].Told) ||
		got.Advice != "look at its fans and at the air around it" || !strings.HasPrefix(got.Why, "python (pid\u00a09001, carol) keeps") || got.DevicePath == "" {
		t.Errorf("%+v", got)
	}
	html := render(t, p)
	for _, want := range []string{`formaction="/api/alerts/p1/acknowledge"`, `1</b> <bdi>acknowledged: `, "acknowledged by &lt;b&gt;ann&lt;/b&gt;: a new fan is on its way", "What needs attention now?", "State since"} {
		if !strings.Contains(html, want) {
			t.Errorf("it lacks %s", want)
		}
	}
	const unwritten = `<p id="unwritten" class="banner" role="status">`
	if strings.Contains(html, "<b>ann") || strings.Contains(html, unwritten) {
		t.Error("what somebody calls themselves is markup, or nothing can be written")
	}
	in.Unwritten = true
	if !strings.Contains(render(t, NewAlertsPage(in)), unwritten) {
		t.Error("it does not say that nothing can be written")
	}

	chosen := func(name, value string) AlertsPage {
		in.Choices = Choices{Path: "/alerts", Asked: url.Values{name: {value}}}
		return NewAlertsPage(in)
	}
	info := chosen(chosenOnly, "info").Groups[0].Items[0]
	if info.Alert.State != alert.NoData || info.Kind != "No data" || info.Device != "The driver (nvml)" || info.DevicePath != "" || info.Mark != "info" {
		t.Errorf("%+v", info)
	}
	if known := chosen(chosenOnly, "acknowledged").Groups[0].Items; len(known) != 1 || known[0].Said != "acknowledged by <b>ann</b>: a new fan is on its way" || known[0].Alert.SilencedUntil.IsZero() {
		t.Errorf("%+v", known)
	}
	if past := chosen(chosenTab, "history").Past; past[0].Kind != "Critical" || past[0].Span != "7\u00a0min" || !strings.HasPrefix(past[0].Title, "GPU\u00a01 (NVIDIA") {
		t.Errorf("%+v", past)
	}
	if diff := cmp.Diff([]SilenceRow{
		{&in.Silences[0], "rule hot · GPU 1", "created by <b>ann</b>: a new fan is on its way", "/api/silences/s1/end", true},
		{&in.Silences[1], "all rules · GPUs GPU-5c* · machine other", "", "/api/silences/s2/end", true},
	}, chosen(chosenTab, "silenced").Silences); diff != "" {
		t.Error(diff)
	}
	if want := `<td data-label="Minimum severity">any</td><td data-label="Last sent">not yet</td>` +
		`<td data-label="Last error" class="failing"><span><bdi>it answered 503</bdi>  since <time datetime="2026-01-02T11:00:00Z">2026-01-02 11:00:00 UTC</time></span></td>` +
		`<td data-label="Queued">3</td>`; !strings.Contains(render(t, chosen(chosenTab, "told")), want) {
		t.Errorf("it lacks %s", want)
	}
	var rules []string
	tags := regexp.MustCompile(`(^[^>]*>|\s*<[^>]*>\s*)+`)
	for row := range strings.SplitSeq(render(t, ruleTable(in.Rules)), "<tr ") {
		rules = append(rules, strings.Trim(tags.ReplaceAllString(row, "|"), "|"))
	}
	if diff := cmp.Diff([]string{
		"hot|temperature above 85\u00a0°C|30\u00a0s|5\u00a0°C below that for 1\u00a0min|5\u00a0min|every 4\u00a0h|Critical|everything|all",
		"alice_too_much|disabled|utilization above 90\u00a0%|2\u00a0h|gone for 1\u00a0min|0\u00a0s|never|Info|user alice|chat, phone",
		"lost|lost|immediately|gone for 30\u00a0s|0\u00a0s|never|Critical|everything|all",
	}, rules[1:]); diff != "" {
		t.Error(diff)
	}
}

// alertsOn are alerts of a machine of eight: "rule severity gpu", then what else is so of it.
func alertsOn(s *gpu.Snapshot, list ...string) (out []alert.Alert) {
	for i, text := range list {
		f := strings.Fields(text)
		n, _ := strconv.Atoi(f[2])
		a := alert.Alert{
			ID: strconv.Itoa(i), Rule: f[0], Watch: alert.Watch(f[0]), Severity: alert.Severity(f[1]), State: alert.Firing,
			Device: s.Devices[n].Identity, Since: noon.Add(-time.Duration(60-i) * time.Second), Time: noon, Is: "is " + f[0], Message: "It is " + f[0] + ".",
		}
		for _, also := range f[3:] {
			switch also {
			case "known":
				a.Acknowledged = &alert.Acknowledgment{By: "ann"}
			case "silenced":
				a.SilencedUntil = noon.Add(time.Hour)
			case "easing":
				a.Easing = true
			case "mute":
				a.State = alert.NoData
			}
		}
		out = append(out, a)
	}
	return out
}

// The line has the worst that nobody knows of, and what every working GPU has is information.
func TestAlertLine(t *testing.T) {
	s := machine("eight")
	for i := range s.Devices {
		s.Devices[i].State = gpu.StateOK
	}
	for name, tt := range map[string]struct {
		alerts      []alert.Alert
		title       string
		quiet       string
		more, infos string
	}{
		"none":            {nil, "", "No alert needs attention.", "", ""},
		"usage alone":     {alertsOn(s, "utilization info 0", "utilization info 1"), "", "No alert needs attention.", "", "2 for your information"},
		"the worst first": {alertsOn(s, "utilization info 0", "throttled_by_heat warning 1", "lost critical 2"), "GPU 2 is lost.", "", "1 more", "1 for your information"},
		"the worst is acknowledged": {alertsOn(s, "throttled_by_heat warning 1", "lost critical 2 known"),
			"GPU 1 is throttled_by_heat.", "", "", ""},
		"the worst is silenced": {alertsOn(s, "throttled_by_heat warning 1", "lost critical 2 silenced"),
			"GPU 1 is throttled_by_heat.", "", "", ""},
		"all are known":               {alertsOn(s, "hot warning 1 known", "lost critical 2 silenced"), "", "No new alerts: 2 are acknowledged or silenced.", "", ""},
		"one is known":                {alertsOn(s, "hot warning 1 known"), "", "No new alerts: 1 is acknowledged or silenced.", "", ""},
		"what is so now is first":     {alertsOn(s, "ecc critical 1 easing", "xid critical 3 mute", "throttled_by_heat warning 2"), "GPU 2 is throttled_by_heat.", "", "2 more", ""},
		"what can't be read is first": {alertsOn(s, "xid critical 3", "lost critical 1"), "GPU 1 is lost.", "", "1 more", ""},
		"the oldest first":            {alertsOn(s, "xid warning 3", "ecc warning 1"), "GPU 3 is xid.", "", "1 more", ""},
	} {
		in := input(s, "")
		in.Alerts = tt.alerts
		l := newAlertLine(&in, 0)
		if got := strings.ReplaceAll(l.Item.Title, nbsp, " "); got != tt.title || l.Quiet != tt.quiet || l.More != tt.more || l.Info != tt.infos || l.All != "/alerts" {
			t.Errorf("%s: %q, %+v", name, got, l)
		}
		if n := strings.Count(render(t, alertLine(l)), "Got it"); n != either01(tt.title != "") {
			t.Errorf("%s: %d buttons", name, n)
		}
	}
	for want, s := range map[string]*gpu.Snapshot{"No alerts yet: the first reading is under way.": nil, "No alerts.": machine("none")} {
		if l := newAlertLine(&Input{Sight: auth.LocalOwner().Sight(), Nodes: nodesOf(s), Now: noon}, 0); l.Quiet != want {
			t.Errorf("%q, want %q", l.Quiet, want)
		}
	}
}

// A page that counts a problem does not say that nothing is wrong.
func TestAProblemWithoutAnAlert(t *testing.T) {
	s := machine("one")
	s.Devices[0].Clocks.EventReasons = gpu.Of(gpu.ReasonThermalSlowdown)
	p := NewPage(input(s, ""))
	if p.GPUs.Problem != 1 || strings.ReplaceAll(p.AlertLine.Quiet, nbsp, " ") != "No alert has fired, but 1 GPU has a problem." {
		t.Errorf("%d problems, and it says %q", p.GPUs.Problem, p.AlertLine.Quiet)
	}
}

// The answer and the alert say the same span in the same words.
func TestOneSpan(t *testing.T) {
	s := machine("one")
	in := input(s, "")
	in.Fleet = insight.NewFleet(insight.Of(s))
	in.Now = s.Time.Add(4 * time.Second)
	for lasts, want := range map[time.Duration]string{61 * time.Second: "61 s", 3 * time.Hour: "3 h", 24 * time.Minute: "24 min"} {
		a := alert.Alert{Since: s.Time.Add(-lasts), Severity: alert.Warning, State: alert.Firing, Device: gpu.Identity{Node: s.Node, UUID: s.Devices[0].UUID}}
		if got := strings.ReplaceAll(newAlertItem(&a, &in, "").Lasts, nbsp, " "); got != want || got != explain.Span(lasts) {
			t.Errorf("%v is %q in the alert, and %q in the answer", lasts, got, explain.Span(lasts))
		}
	}
}

// What an alert says is what the answer says: of a GPU that was lost and does not answer now.
func TestWhatAnAlertIsAboutNow(t *testing.T) {
	s := machine("eight")
	for i := range s.Devices {
		s.Devices[i].State = gpu.StateOK
	}
	in := AlertsInput{Input: input(s, ""), AnswerOf: func(*alert.Alert) *explain.DeviceAnswer { return nil }}
	in.Alerts = alertsOn(s, "lost critical 2 easing", "throttled_by_heat warning 1")
	in.Alerts[0].Is = "is not answering, and is no longer reported as lost"
	s.Devices[2].State = gpu.StateNotAnswering
	if got := NewAlertsPage(in).Headline; got != "One GPU is not answering, one is slowed by heat." {
		t.Errorf("%q", got)
	}
	if got := newAlertLine(&in.Input, 0).Item.Title; strings.ReplaceAll(got, nbsp, " ") != "GPU 2 is not answering, and is no longer reported as lost." {
		t.Errorf("%q", got)
	}
	s.Devices[2].State = gpu.StateOK
	if got := NewAlertsPage(in).Headline; got != "One GPU is slowed by heat, one is recovering." {
		t.Errorf("%q", got)
	}
}

func TestSummary(t *testing.T) {
	s := machine("eight")
	for i := range s.Devices {
		s.Devices[i].State = gpu.StateOK
	}
	for want, alerts := range map[string][]alert.Alert{
		"GPU 4 is lost.": alertsOn(s, "lost critical 4", "throttled_by_heat warning 4"),
		"One GPU is slowed by heat, one had memory errors.":                      alertsOn(s, "throttled_by_heat warning 4", "ecc warning 5", "xid warning 5"),
		"Three GPUs are slowed by heat.":                                         alertsOn(s, "throttled_by_heat warning 4", "throttled_by_heat warning 5", "throttled_by_heat warning 6"),
		"One GPU is close to its temperature limit and two more need attention.": alertsOn(s, "temperature_margin critical 1", "orphan_memory warning 2", "fan_failing warning 3"),
	} {
		in := input(s, "")
		if got := strings.ReplaceAll(in.summary(alerts), nbsp, " "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	s.Failures = nil
	in := input(s, "")
	driver := alertsOn(s, "driver_gone critical 0", "throttled_by_heat warning 1")
	driver[0].Device = gpu.Identity{Node: s.Node, Source: "nvml"}
	if got := in.summary(driver); got != "One driver can’t be read and one more needs attention." {
		t.Errorf("%q", got)
	}
	for _, w := range alert.Watches() {
		if is := beingOf(w); is.one == "" || is.many == "" {
			t.Errorf("%s has no words", w)
		}
	}
}

// The list is grouped, searched and narrowed by what the address says; what is quieter is folded.
func TestTheListOfAlerts(t *testing.T) {
	s := machine("eight")
	for i := range s.Devices {
		s.Devices[i].State = gpu.StateOK
	}
	in := AlertsInput{Input: input(s, ""), AnswerOf: func(*alert.Alert) *explain.DeviceAnswer { return nil }}
	in.Alerts = alertsOn(s, "utilization info 0", "utilization info 1", "memory info 1", "throttled_by_heat warning 1", "ecc critical 2", "ecc critical 3", "xid critical 3 known", "lost critical 4 silenced")
	in.Past = []alert.Alert{{ID: "old", Rule: "too_hot", Device: s.Devices[7].Identity, Since: noon.Add(-26 * time.Hour), Time: noon.Add(-25 * time.Hour)}, {ID: "new", Rule: "too_hot", Device: s.Devices[7].Identity, Since: noon.Add(-time.Hour), Time: noon.Add(-time.Minute)}}
	ids := func(asked ...string) (out []string) {
		in.Choices = Choices{Path: "/alerts", Asked: url.Values{}}
		for i := 0; i < len(asked); i += 2 {
			in.Asked.Set(asked[i], asked[i+1])
		}
		for _, g := range NewAlertsPage(in).Groups {
			if g.Title != "" {
				out = append(out, strings.ReplaceAll(g.Title, nbsp, " ")+":")
			}
			for _, a := range g.Items {
				out = append(out, a.Alert.ID)
			}
		}
		return out
	}
	for _, tt := range []struct{ asked, want []string }{
		{nil, []string{"4", "5", "3"}},
		{[]string{"group", "rule"}, []string{"ecc:", "4", "5", "throttled by heat:", "3"}},
		{[]string{"group", "gpu"}, []string{"GPU 2:", "4", "GPU 3:", "5", "GPU 1:", "3"}},
		{[]string{"group", "node"}, []string{s.Node + ":", "4", "5", "3"}},
		{[]string{"only", "warning"}, []string{"3"}},
		{[]string{"only", "info"}, []string{"0", "1", "2"}},
		{[]string{"only", "acknowledged"}, []string{"6"}},
		{[]string{"only", "silenced"}, []string{"7"}},
		{[]string{"q", "gpu 3"}, []string{"5", "6"}},
		{[]string{"q", "ANN"}, []string{"6"}},
		{[]string{"q", s.Devices[1].UUID}, []string{"3", "1", "2"}},
		{[]string{"q", "gpu 1", "only", "info"}, []string{"1", "2"}},
		{[]string{"q", "nothing of that kind"}, nil},
	} {
		if diff := cmp.Diff(tt.want, ids(tt.asked...)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tt.asked, diff)
		}
	}
	ids()
	p := NewAlertsPage(in)
	if diff := cmp.Diff([]string{"4", "5", "3"}, p.Shown); diff != "" || !p.Several {
		t.Errorf("several: %v, %s", p.Several, diff)
	}
	folds := each(p.Folds, func(f *AlertFold) string {
		lines := each(f.Lines, func(l *AlertFoldLine) string { return l.Text })
		return strings.ReplaceAll(f.Count+" "+f.Text+" ["+strings.Join(lines, "; ")+"] "+string(f.All), nbsp, " ")
	})
	if diff := cmp.Diff([]string{
		"3 for your information: 2 GPUs are busy, GPU 1 has nearly full memory [2 GPUs are busy; GPU 1 has nearly full memory] /alerts?only=info",
		"1 acknowledged: GPU 3 had driver errors [GPU 3 is xid. · acknowledged by ann] /alerts?only=acknowledged",
		"1 silenced: GPU 4 is lost [GPU 4 is lost. · silenced until] /alerts?only=silenced",
		"1 ended in the last 24 hours [GPU 7: too hot, for 59 min, ended] /alerts?tab=history",
	}, folds); diff != "" {
		t.Error(diff)
	}
	html := render(t, p)
	for want, n := range map[string]int{`form="chosen" name="alert_ids"`: 3, `type="hidden" name="alert_ids"`: 3, `data-alert="`: 3, "Acknowledge all shown": 1} {
		if got := strings.Count(html, want); got != n {
			t.Errorf("%d of %s, want %d", got, want, n)
		}
	}
	if ids("q", "nothing of that kind"); NewAlertsPage(in).Empty != "No alert matches." || len(NewAlertsPage(in).Folds) != 0 {
		t.Error("nothing is said of an empty list")
	}
}

// That nothing fires is said only where that can be known.
func TestNothingFires(t *testing.T) {
	for want, s := range map[string]*gpu.Snapshot{
		"Nothing to report yet: the first reading is under way.": nil,
		"No alert is firing, but no GPU can be read.":            machine("none"),
		"Nothing needs attention.":                               machine("one"),
	} {
		p := NewAlertsPage(AlertsInput{Input: Input{Sight: auth.LocalOwner().Sight(), Nodes: nodesOf(s), Now: noon}, Rules: []alert.Rule{{Name: "hot", Enabled: true}}})
		if p.Headline != want || p.Title != "Alerts · gpuwhy" || p.Empty != "No alert needs attention now." {
			t.Errorf("%q, %q, want %q", p.Headline, p.Title, want)
		}
	}
	in := Input{Sight: auth.LocalOwner().Sight(), Nodes: gpu.Nodes{fixture.Many(noon, 1000)}, Now: noon, Choices: Choices{Asked: url.Values{chosenTab: {"silenced"}}}}
	if p := NewAlertsPage(AlertsInput{Input: in}); p.GPUChoices != nil {
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
	in := Input{Sight: auth.LocalOwner().Sight(), Nodes: gpu.Nodes{s}, Now: noon}
	for node, want := range map[string]string{
		"":           "all rules · GPU 0",
		d.Node:       "all rules · GPU 0",
		"other-desk": "all rules · GPUs " + d.UUID + " · machine other-desk",
	} {
		if got := newSilence(&alert.Silence{GPU: d.UUID, Node: node}, &in).Subject; strings.ReplaceAll(got, nbsp, " ") != want {
			t.Errorf("of %q: %q, want %q", node, got, want)
		}
	}
}

// Of thousands of alerts the worst hundred are listed, and the way to the
// others is there; what costs something is asked of those alone.
func TestManyAlerts(t *testing.T) {
	in := AlertsInput{Input: Input{Sight: auth.LocalOwner().Sight(), Nodes: gpu.Nodes{machine("one")}, Now: noon, BasePath: "/gpus/", Asset: asset, Choices: Choices{Path: "/gpus/alerts"}}}
	for i := range 2345 {
		in.Alerts = append(in.Alerts, alert.Alert{ID: strconv.Itoa(i), Rule: "hot", Watch: "temperature", Severity: "warning", State: "firing", Since: noon.Add(time.Duration(i) * time.Second), Message: "It is hot.", Device: gpu.Identity{UUID: strconv.Itoa(i), Index: i}})
	}
	in.Alerts[2000].Severity = "critical"
	explained := 0
	in.AnswerOf = func(a *alert.Alert) *explain.DeviceAnswer {
		explained++
		return &explain.DeviceAnswer{Sentence: "Why " + a.ID + ".", Causes: []explain.Cause{{Advice: "Cool it."}}}
	}
	for _, tt := range []struct {
		begin                 int
		first, last           string
		listed, worse, milder string
	}{
		{0, "2000", "98", "Alerts 1 to 100 of 2345, worst first", "", "/gpus/alerts?from=100"},
		{100, "99", "198", "Alerts 101 to 200 of 2345, worst first", "/gpus/alerts", "/gpus/alerts?from=200"},
		{99999, "2300", "2344", "Alerts 2301 to 2345 of 2345, worst first", "/gpus/alerts?from=2200", ""},
	} {
		explained = 0
		in.First = tt.begin
		p := NewAlertsPage(in)
		items := p.Groups[0].Items
		n := len(items)
		if items[0].Alert.ID != tt.first || items[n-1].Alert.ID != tt.last || p.Listed != tt.listed || string(p.Worse) != tt.worse || string(p.Milder) != tt.milder || explained != n || items[0].Why == "" || items[0].Advice != "Cool it." {
			t.Errorf("from %d: %d of them, %q to %q, %q, %q, %q; %d explained", tt.begin, n, items[0].Alert.ID, items[n-1].Alert.ID, p.Listed, p.Worse, p.Milder, explained)
		}
		if p.Title != "▲ 2345 alerts · gpuwhy" || p.Headline != "2345 GPUs are hot." {
			t.Errorf("%q, %q", p.Title, p.Headline)
		}
	}
	in.First = 0
	html := render(t, NewAlertsPage(in))
	if n := len(html); n > 350_000 {
		t.Errorf("the page has %d bytes", n)
	}
	if !strings.Contains(html, `href="/gpus/alerts?from=100"`) || strings.Count(html, `data-alert="`) != mostNews {
		t.Error("there is no way to the others, or all are news")
	}
	if l := newAlertLine(&in.Input, 0); l.More != "2344 more" || l.Item.Alert.ID != "2000" {
		t.Errorf("the line is %+v", l)
	}
	in.Alerts = in.Alerts[:100]
	if p := NewAlertsPage(in); p.Listed != "" || p.Milder != "" || len(p.Groups[0].Items) != 100 {
		t.Errorf("of a hundred: %+v", p.Groups)
	}
}

// Words and moments that stand beside each other have a space between them.
func TestMomentsStandApart(t *testing.T) {
	in := exampleAlerts(machine("eight"), noon)
	in.Asset = asset
	html := ""
	for _, tab := range []string{"", "history", "silenced", "told"} {
		in.Asked = url.Values{chosenTab: {tab}}
		html += render(t, NewAlertsPage(in))
	}
	if found := regexp.MustCompile(`\w<time[^>]*>`).FindAllString(html, -1); found != nil {
		t.Errorf("no space before %q", found)
	}
	if strings.Count(html, "since <time") < 1 {
		t.Error("the pattern is wrong")
	}
}

// An alert that is open says how long it lasts by now, and not how long it had lasted when it fired.
func TestWhyDoesNotSayWhenItFired(t *testing.T) {
	for message, want := range map[string]string{
		"A sends nothing any more: nothing has come; this began just now.": "A sends nothing any more: nothing has come.",
		"GPU 0 is slow; this began 30 s ago.":                              "GPU 0 is slow.",
		"GPU 0 is slow.":                                                   "GPU 0 is slow.",
	} {
		if got := withoutBegin(message); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
