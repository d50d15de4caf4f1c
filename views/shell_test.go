//go:build !race

package views

import (
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
)

// Each page has the same shell, and its own name is the current one.
func TestShell(t *testing.T) {
	in := input(machine("eight"), "why")
	in.Alerts = []alert.Alert{
		{ID: "a", Severity: alert.Warning, State: alert.Firing}, {ID: "b", Severity: alert.Critical, State: alert.Firing},
		{ID: "c", Severity: alert.Info, State: alert.Firing}, {ID: "d", Severity: alert.Warning, State: alert.Firing, Acknowledged: new(alert.Acknowledgment)},
	}
	for name, html := range map[string]string{
		"Now": render(t, NewPage(in)), "Processes": render(t, NewProcessesPage(in)), "About": render(t, NewAboutPage(in)),
		"Alerts": render(t, NewAlertsPage(AlertsInput{Input: in, AnswerOf: func(*alert.Alert) *explain.DeviceAnswer { return nil }})), "Fleet": render(t, NewNodesPage(in)),
	} {
		current := `data-key="` + name + `" aria-current="page"`
		if strings.Contains(html, `data-key="`+name+`" class="wide"`) {
			current = `data-key="` + name + `" class="wide" aria-current="page"`
		}
		if name != "Fleet" && !strings.Contains(html, current) {
			t.Errorf("%s is not the current page", name)
		}
		if fills, silent := strings.Count(html, "data-fill"), strings.Count(html, `data-fill data-own aria-live="off"`); fills != 3 || silent != fills {
			t.Errorf("%s: of %d texts that change each second %d are not read aloud", name, fills, silent)
		}
		for _, part := range []string{`id="state" role="status" data-state="still" data-is="live"`, `id="pause"`, `id="find"`, "data-theme-next", "<noscript>", `id="main"`, ">API</a>", "<b>2</b>", `class="count bad"`, "theme.js"} {
			if !strings.Contains(html, part) {
				t.Errorf("%s: no %s", name, part)
			}
		}
	}
	if html := render(t, NewPage(in)); strings.Contains(html, `data-key="Fleet"`) {
		t.Error("one node has a page of nodes")
	}
	in.Nodes = fixtureFleet()
	if html := render(t, NewPage(in)); !strings.Contains(html, `data-key="Fleet"`) {
		t.Error("several nodes have no page")
	}
	for status, in := range map[string]Input{"starting": input(nil, ""), "none": input(machine("none"), "")} {
		if html := render(t, NewAboutPage(in)); !strings.Contains(html, `data-is="`+status+`"`) {
			t.Errorf("it is not %s", status)
		}
	}
}

func fixtureFleet() gpu.Nodes { return fixture.Fleet() }

func TestKiosk(t *testing.T) {
	in := input(machine("eight"), "why")
	in.Choices = Choices{Path: "/", Asked: url.Values{"kiosk": {"1"}}}
	html := render(t, NewPage(in))
	for _, part := range []string{"<nav class=\"nav\"", `id="pause"`, `id="more"`, "class=\"foot\""} {
		if strings.Contains(html, part) {
			t.Errorf("it has %s", part)
		}
	}
	if !strings.Contains(html, `class="kiosk"`) || !strings.Contains(html, `id="state"`) || !strings.Contains(html, `id="kind"`) {
		t.Error("it does not say how new it is")
	}
}

func TestFind(t *testing.T) {
	for asked, want := range map[string]string{
		"":             "Now; Past; Processes; Alerts; About; Last night; Guide; API | GPU 0; GPU 1; GPU 2; GPU 3; GPU 4 | finetune.py; eval.py; vllm serve; gnome-shell | ann; bob; svc-llm | job 77",
		"gpu 3":        "GPU 3 | vllm serve",
		"3":            "GPU 3 | vllm serve | ann; bob | job 77",
		"GPU-2":        "GPU 2",
		"eval":         "eval.py",
		"ann":          "ann | finetune.py | job 77",
		"301":          "eval.py",
		"past":         "Past; Last night | The past",
		"slack":        "Tell Slack",
		"<b>nothing":   "",
		"finetune ann": "finetune.py",
	} {
		in := lab(gpu.SourceNVML)
		in.Choices = Choices{Path: "/find", Asked: url.Values{"q": {asked}}}
		p := NewFindPage(in)
		var got []string
		for _, g := range p.Groups {
			var names []string
			for _, f := range g.List {
				names = append(names, f.Name)
			}
			got = append(got, strings.Join(names, "; "))
		}
		if text := strings.ReplaceAll(strings.Join(got, " | "), nbsp, " "); text != want {
			t.Errorf("%q finds %s, want %s", asked, text, want)
		}
		in.Asked.Set("part", "list")
		if html := render(t, NewFindPage(in)); strings.Contains(html, "<html") || !strings.HasPrefix(html, `<div class="found">`) || strings.Contains(html, "<b>nothing") {
			t.Errorf("%q: %s", asked, html)
		}
	}
}

func TestAbout(t *testing.T) {
	s := machine("eight")
	s.Host.Self = gpu.Self{CPU: gpu.Of[gpu.Percent](1.25), RSS: gpu.Of(gpu.Bytes(48 << 20))}
	s.Notes = []gpu.Advice{{What: "other users' processes are hidden", Try: "run it as root"}}
	in := input(s, "why")
	in.Started = noon
	in.Costs = []gpu.Cost{{Source: "nvml", Call: "nvmlDeviceGetPowerUsage", Count: 4, Total: 10 * time.Millisecond, Longest: 7 * time.Millisecond}}
	html := render(t, NewAboutPage(in))
	for _, part := range []string{"1.2\u00a0%", "48\u00a0MiB", "v1.2.3", "Other users' processes are hidden", "2026-01-02 12:00:00 UTC", "What the readings mean",
		"nvml · nvmlDeviceGetPowerUsage", "2.500\u00a0ms", "of 4; the longest took 7.000\u00a0ms"} {
		if !strings.Contains(strings.ReplaceAll(html, "&#39;", "'"), part) {
			t.Errorf("%q is missing", part)
		}
	}
	if html := render(t, NewAboutPage(input(machine("none"), ""))); !strings.Contains(html, "libnvidia-ml") {
		t.Error("it does not say what was tried")
	}
}

// The page about gpuwhy says how it does as a part of a fleet, and nothing of that where it is none.
func TestAboutAFleet(t *testing.T) {
	in := input(machine("one"), "")
	if html := render(t, NewAboutPage(in)); len(NewAboutPage(in).Fleet) != 0 || !strings.Contains(html, "the GPUs of this machine and says") {
		t.Error("a machine alone has a fleet")
	}
	why := "no NATS server listens there; see that the server runs"
	in.Parts = map[string]contract.Part{
		"fleet": {State: "failed", LastError: &why}, "delivery": {State: "ok"}, "cluster east": {State: "starting"}, "hub": {State: "ok"},
	}
	in.Member = &contract.Member{Shows: true, Publishes: true, Nodes: 12, Silent: 2, Refused: map[string]uint64{"<b>": 7, "gpu-2": 9}, Past: 41, Joins: "tls://127.0.0.1:4222"}
	p := NewAboutPage(in)
	var got []string
	for _, f := range p.Fleet {
		got = append(got, f.Label+": "+f.Value.Text)
	}
	want := []string{
		"Connection: not working", "Machines join at: tls://127.0.0.1:4222", "Remote machines: 12", "Silent machines: 2", "Refused from gpu-2: 9", "Refused from <b>: 7",
		"Events waiting: 0", "History delivery: working", "Parts waiting: 41", "Cluster east: not known yet",
	}
	if !slices.Equal(got, want) {
		t.Errorf("it says\n%q, want\n%q", got, want)
	}
	if html := render(t, p); !strings.Contains(html, "no NATS server listens there") || strings.Contains(html, "of <b>") {
		t.Error("it does not say why, or lets a name be markup")
	}
}

// What another program costs is not what this one costs.
func TestAboutAHub(t *testing.T) {
	s := machine("eight")
	s.Host.Self = gpu.Self{CPU: gpu.Of[gpu.Percent](1.25), RSS: gpu.Of(gpu.Bytes(48 << 20))}
	in := input(s, "why")
	m := insight.Of(s)
	in.Fleet = insight.NewFleet(m.At(m.Place, insight.Link{Remote: true}))
	if html := render(t, NewAboutPage(in)); strings.Contains(html, "48\u00a0MiB") || !strings.Contains(html, "not measured") {
		t.Error("it costs what an agent elsewhere costs")
	}
}

// A page is as old as the pace of its nodes lets it be, and says that pace.
func TestPaceOfThePage(t *testing.T) {
	every := func(node string, every time.Duration) *insight.Moment {
		s := machine("eight")
		s.Node = node
		return insight.Of(s).At(insight.Place{}, insight.Link{Remote: true, Every: every})
	}
	in := input(machine("eight"), "why")
	in.Interval = 5 * time.Second
	for _, tt := range []struct {
		fleet *insight.Fleet
		want  []string
	}{
		{nil, []string{`data-interval="5"`, "every 5\u00a0s", "one reading every 5\u00a0s"}},
		{insight.NewFleet(every("a", time.Minute)), []string{`data-interval="60"`, "every 60\u00a0s"}},
		{insight.NewFleet(every("a", time.Minute), every("b", time.Second)), []string{`data-interval="1"`, "every 1 to 60\u00a0s"}},
	} {
		in.Fleet = tt.fleet
		html := render(t, NewAboutPage(in))
		for _, text := range tt.want {
			if !strings.Contains(html, text) {
				t.Errorf("of %d nodes, the page lacks %q", len(tt.fleet.Moments()), text)
			}
		}
	}
}

// A node has as many busy GPUs as its own page says.
func TestBusyOfNodes(t *testing.T) {
	s := working(5, func(i int, d *gpu.Device) {
		switch i {
		case 0, 1:
			d.Utilization.GPU = gpu.Absent[gpu.Percent](gpu.NotSupported)
			d.Power.EnforcedLimit = gpu.Of[gpu.Watts](310)
		case 3:
			d.State = gpu.StateAsleep
		}
	})
	m := insight.Of(s)
	a := m.Answer
	in := input(s, "")
	in.Fleet = m.Alone()
	in.Said = func(d *gpu.Device) *explain.DeviceAnswer { return &a.Devices[d.Index] }
	if own, busy := NewPage(in).GPUs.Busy, NewNodesPage(in).List.Groups[0].Rows[0].Busy; own != 4 || busy != "4 of 5" {
		t.Errorf("its page says %d, the list %s", own, busy)
	}
	s.Devices[2].State = gpu.StateLost
	if busy := NewNodesPage(in).List.Groups[0].Rows[0].Busy; busy != "3, others unknown" {
		t.Errorf("with one lost: %s", busy)
	}
}

func TestEmbed(t *testing.T) {
	s := machine("eight")
	html := render(t, NewEmbedPage(input(s, ""), &s.Devices[2]))
	for _, part := range []string{"GPU 2", `id="state"`, `target="_blank" rel="noopener"`, s.Devices[2].UUID} {
		if !strings.Contains(html, part) {
			t.Errorf("%q is missing", part)
		}
	}
	if strings.Contains(html, s.Devices[3].UUID) || strings.Contains(html, "<nav") || strings.Contains(html, "manifest") {
		t.Error("it has more than the card")
	}
}

// A page whose styles are not found, as behind a proxy that cuts the path off, says what to do; the manifest is asked for with
// the sign-in of the page.
func TestWithoutItsStyles(t *testing.T) {
	in := input(machine("one"), "")
	for name, html := range map[string]string{
		"the page": render(t, NewPage(in)), "an error": render(t, ErrorPage(404, "Nothing is here", gpu.Advice{What: "no page"}, Site{Base: "/", Asset: in.Asset})),
	} {
		if !strings.Contains(html, `<p class="unstyled">`) || !strings.Contains(html, "--base-path") {
			t.Errorf("%s does not say it", name)
		}
		if strings.Contains(html, `rel="manifest"`) && !strings.Contains(html, `crossorigin="use-credentials"`) {
			t.Errorf("%s asks for its manifest without a sign-in", name)
		}
	}
	css, err := os.ReadFile("../static/dist/app.css")
	if err != nil || !strings.Contains(string(css), ".unstyled{display:none") {
		t.Errorf("styles do not hide it: %v", err)
	}
}

// Only administrators of all machines find the pages about others, and only people who have signed in find their account: in the menu of every
// page, in the tabs of these pages, and by searching.
func TestWhoFindsThePagesOfAccess(t *testing.T) {
	const admin = "users tokens sessions audit"
	some := auth.NewAudience("node:a", auth.Shown)
	for _, c := range []struct {
		name       string
		who        auth.Sight
		menu, tabs string
	}{
		{"administrator", auth.Sight{Audience: auth.Everything, Access: auth.Administer, SignedIn: true}, "account " + admin, "account " + admin},
		{"local owner", auth.LocalOwner().Sight(), admin, admin},
		{"administrator of a machine", auth.Sight{Audience: auth.Everything, Access: auth.Administer, Scope: "node:a", SignedIn: true}, "account", "account tokens sessions"},
		{"who sees a machine alone", auth.Sight{Audience: some, Access: auth.Administer}, "", ""},
		{"operator", auth.Sight{Audience: auth.Everything, Access: auth.Operate, SignedIn: true}, "account", "account tokens sessions"},
		{"viewer", auth.Sight{Audience: auth.Everything, Access: auth.Read, SignedIn: true}, "account", "account tokens sessions"},
		{"somebody of the machine", auth.Sight{Audience: auth.Everything, Access: auth.Read}, "", ""},
	} {
		in := input(machine("one"), "why")
		in.Accounts, in.BasePath, in.Root, in.Sight = true, "/base/node/a/", "/base/", c.who
		linked := func(html string) string {
			var found []string
			for _, page := range []string{"account", "users", "tokens", "sessions", "audit"} {
				if strings.Contains(html, `href="/base/`+page+`"`) {
					found = append(found, page)
				}
			}
			return strings.Join(found, " ")
		}
		for page, html := range map[string]string{"now": render(t, NewPage(in)), "about": render(t, NewAboutPage(in))} {
			if got := linked(html); got != c.menu {
				t.Errorf("%s: the page %s links %q, want %q", c.name, page, got, c.menu)
			}
		}
		if got := linked(render(t, NewTokensPage(AccountsInput{Input: in}, new(contract.Tokens)))); got != c.tabs {
			t.Errorf("%s: the tabs lead to %q, want %q", c.name, got, c.tabs)
		}
		in.Choices = Choices{Path: "/base/find", Asked: url.Values{"q": {"who may do"}}}
		if got := linked(render(t, NewFindPage(in))); got != c.tabs {
			t.Errorf("%s finds %q, want %q", c.name, got, c.tabs)
		}
	}
}
