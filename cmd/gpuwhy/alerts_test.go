//go:build !race

package main

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/sampler/nvml/fakenvml"
)

// rulesFile writes a rules file.
func rulesFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "alerts.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// onlyRules returns a rules file with rules such as "{name: hot, above: 80}", in which all others are off. On a slow machine, rules
// that watch for a minute would fire as well.
func onlyRules(rules ...string) (text string) {
	for _, preset := range alert.Defaults() {
		if !slices.ContainsFunc(rules, func(rule string) bool {
			return strings.HasPrefix(strings.TrimSuffix(rule, "}")+",", "{name: "+preset.Name+",")
		}) {
			rules = append(rules, "{name: "+preset.Name+", enabled: false}")
		}
	}
	return "rules:\n- " + strings.Join(rules, "\n- ") + "\n"
}

var (
	// atOnce is the alert for high usage, which fires at the first reading and is over at the first.
	atOnce = onlyRules("{name: high_gpu_usage, hold: 0s, clear: 0s}")
	// hotRules is one alert that comes at once and goes at once.
	hotRules = onlyRules("{name: hot, above: 80, hold: 0s, clear: 0s, cooldown: 0s, enabled: true}")
)

// ask sends a request with a JSON body, and decodes the answer into into unless
// that is nil.
func (p *program) ask(method, path, content string, into any) int {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), method, strings.TrimSuffix(p.url, "/")+path, strings.NewReader(content))
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	if into != nil {
		if err := json.Unmarshal(text, into); err != nil {
			p.t.Fatalf("%s %s: %v\n%s", method, path, err, text)
		}
	}
	return answer.StatusCode
}

// nextAlert waits for news of an alert that matches.
func (v *viewer) nextAlert(what string, is func(contract.Alert) bool) contract.Alert {
	v.t.Helper()
	for late := time.After(testkit.Patience); ; {
		m, err := v.message()
		if err != nil {
			v.t.Fatalf("waiting until %s: %v", what, err)
		}
		var a contract.Alert
		if m.Event == contract.AlertEvent || m.Event == contract.HighGPUUsage {
			if err := m.Decode(&a); err != nil {
				v.t.Fatal(err)
			}
			if is(a) {
				return a
			}
		}
		select {
		case <-late:
			v.t.Fatalf("no news until %s; the last message is %s", what, m.Event)
		default:
		}
	}
}

// In the whole program, every kind of trouble that the fake card can have raises an
// alert with its rule, its severity and a sentence.
func TestTroubleFiresAlerts(t *testing.T) {
	t.Parallel()
	lib, m := machine(t, fakenvml.H100(), fakenvml.RTX4090().At(2))
	rules := rulesFile(t, onlyRules("{name: hot, above: 80, hold: 0s, clear: 0s, enabled: true, severity: critical}", "{name: lost, clear: 0s}", "{name: xid}"))
	p := startRaced(t, lib.Env(), fast, "--alert-rules="+rules)
	v := p.dial()
	v.await("both answer", func(u contract.Update) bool { return u.Answering == 2 })
	state := func(rule, state string) func(contract.Alert) bool {
		return func(a contract.Alert) bool { return a.Rule == rule && a.State == state }
	}

	m.GPU(1).Set(fakenvml.Temperature, 88)
	a := v.nextAlert("it is hot", state("hot", "firing"))
	if a.Severity != "critical" || a.GPUUUID != m.GPU(1).UUID || value(t, "value", a.Value) != 88 || a.Unit != "°C" || value(t, "threshold", a.Limit) != 80 || a.Message == "" || a.Why == "" {
		t.Errorf("hot: %+v", a)
	}
	if _, ok := a.Threshold.Get(); ok {
		t.Errorf("a threshold in percent: %+v", a.Threshold)
	}
	m.GPU(1).Set(fakenvml.Temperature, 60)
	v.nextAlert("it is not hot any more", state("hot", "resolved"))

	m.GPU(0).RaiseXID(79)
	a = v.nextAlert("the driver had an error", state("xid", "firing"))
	if !strings.Contains(a.Message, "XID 79 (the GPU has fallen off the bus)") || a.Advice == "" || a.Severity != "critical" {
		t.Errorf("xid: %q, %q", a.Message, a.Advice)
	}
	m.GPU(0).Lost()
	a = v.nextAlert("it is lost", state("lost", "firing"))
	if a.GPUUUID != m.GPU(0).UUID || !strings.Contains(a.Message, "is lost") {
		t.Errorf("lost: %+v", a)
	}
	m.GPU(0).Back()
	v.nextAlert("it is back", state("lost", "resolved"))
}

// Answers to an alert reach every viewer and the API.
func TestWhatPeopleSayOfAlerts(t *testing.T) {
	t.Parallel()
	lib, m := machine(t, fakenvml.RTX4090())
	m.GPU(0).Set(fakenvml.Temperature, 88)
	p := start(t, lib.Env(), fast, "--alert-rules="+rulesFile(t, onlyRules("{name: hot, above: 80, hold: 0s, enabled: true}")))
	v := p.dial()
	fired := v.nextAlert("it is hot", func(a contract.Alert) bool { return a.Rule == "hot" })
	d := readDocument(p, "/openapi.json")

	var list contract.Alerts
	if p.get("/api/alerts", &list); len(list.Alerts) != 1 || list.Alerts[0].ID != fired.ID {
		t.Fatalf("%+v", list.Alerts)
	}
	var a contract.Alert
	path := "/api/alerts/" + fired.ID + "/acknowledge"
	if status := p.ask("POST", path, `{"comment":"a new fan is on its way"}`, &a); status != 200 || a.Acknowledged == nil || a.Acknowledged.By != owner() {
		t.Errorf("acknowledge: %d, %+v", status, a)
	}
	v.nextAlert("it is acknowledged", func(a contract.Alert) bool { return a.ID == fired.ID && a.Acknowledged != nil })
	p.ask("DELETE", path, "", &a)
	v.nextAlert("that is taken back", func(a contract.Alert) bool { return a.ID == fired.ID && a.Acknowledged == nil })

	var silence contract.Silence
	if status := p.ask("POST", "/api/silences", `{"gpu_uuid":"`+fired.GPUUUID+`","duration_seconds":60}`, &silence); status != 201 {
		t.Errorf("silence: %d", status)
	}
	v.nextAlert("it is silenced", func(a contract.Alert) bool { return a.ID == fired.ID && a.SilencedUntil != nil })
	if status := p.ask("DELETE", "/api/silences/"+silence.ID, "", nil); status != 204 {
		t.Errorf("end of the silence: %d", status)
	}
	v.nextAlert("the silence is over", func(a contract.Alert) bool { return a.ID == fired.ID && a.SilencedUntil == nil })
	if status := p.ask("DELETE", "/api/alerts/"+fired.ID, "", nil); status != 409 {
		t.Errorf("dismissed although it is hot: %d", status)
	}
	for _, documented := range []string{"/api/alerts", "/api/alert-rules"} {
		d.check(p, documented, documented, 200)
	}
}

// text returns a page's text, without markup, from its main part on.
func (p *program) text(path string) string {
	p.t.Helper()
	_, page := p.fetch(path, http.Header{"Accept": {"text/html"}})
	_, text, _ := strings.Cut(string(page), "<main")
	text = html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(text, " "))
	return strings.Join(strings.Fields(strings.ReplaceAll(text, "\u00a0", " ")), " ")
}

// says waits until a page contains a text, and returns the whole text of the page.
func (p *program) says(path, want string) (text string) {
	p.t.Helper()
	testkit.Until(p.t, fmt.Sprintf("%s says %q", path, want), func() bool {
		text = p.text(path)
		return strings.Contains(text, want)
	}, func() string { return text })
	return text
}

// If a lost GPU then hangs, its alert does not call it lost while the headline says that it does not answer.
func TestTheAlertOfALostGPUThatHangs(t *testing.T) {
	t.Parallel()
	lib, m := machine(t, fakenvml.RTX4090(), fakenvml.RTX4090().At(2))
	p := start(t, lib.Env(), fast, "--deadline=1s", "--alert-rules="+rulesFile(t, onlyRules("{name: lost}")))
	v := p.dial()
	v.await("both answer", func(u contract.Update) bool { return u.Answering == 2 })
	m.GPU(1).Lost()
	v.nextAlert("it is lost", func(a contract.Alert) bool { return a.Rule == "lost" && a.State == "firing" })
	for path, want := range map[string]string{"/": "GPU 1 is lost. The driver no longer finds it.", "/alerts": "What needs attention now? GPU 1 is lost."} {
		p.says(path, want)
	}
	m.GPU(1).Back()
	m.GPU(1).Hang()
	v.await("it hangs", func(u contract.Update) bool { return u.GPUs[1].State == "not_answering" })
	// Alerts see that a little later than viewers.
	for path, want := range map[string]string{"/": "GPU 1 is not answering, and is no longer reported as lost. If it stays that way, the alert ends in", "/alerts": "What needs attention now? GPU 1 is not answering. 1 critical"} {
		if got := p.says(path, want); strings.Contains(got, "is lost") {
			t.Errorf("%s says %s", path, got)
		}
	}
	m.GPU(1).Back()
}

// Acknowledging the worse of two alerts shows the other. Two more presses acknowledge all shown alerts.
func TestTheNextAlertIsShown(t *testing.T) {
	t.Parallel()
	lib, m := machine(t, fakenvml.RTX4090(), fakenvml.RTX4090().At(2), fakenvml.RTX4090().At(3))
	rules := rulesFile(t, onlyRules("{name: hot, above: 80, hold: 0s, enabled: true}", "{name: lost}"))
	m.GPU(1).Set(fakenvml.Temperature, 88)
	p := start(t, lib.Env(), fast, "--alert-rules="+rules)
	v := p.dial()
	v.nextAlert("one is hot", func(a contract.Alert) bool { return a.Rule == "hot" })
	m.GPU(2).Lost()
	lost := v.nextAlert("one is lost", func(a contract.Alert) bool { return a.Rule == "lost" })
	line := func(want string) {
		t.Helper()
		if got := p.text("/"); !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
	line("Critical: GPU 2 is lost. The driver no longer finds it.")
	line("1 more alerts")
	p.ask("POST", "/api/alerts/"+lost.ID+"/acknowledge", "{}", nil)
	line("Warning: GPU 1 is at 88 °C. Above 80 °C.")
	ids, err := json.Marshal(map[string]any{"alert_ids": []string{lost.ID, p.alerts().Alerts[1].ID}})
	if err != nil {
		t.Fatal(err)
	}
	var done contract.SeveralAlerts
	if status := p.ask("POST", "/api/alerts/acknowledge", string(ids), &done); status != 200 || len(done.Alerts) != 2 {
		t.Errorf("status %d: %+v", status, done)
	}
	line("No new alerts: 2 are acknowledged or silenced.")
	if got := p.text("/alerts"); !strings.Contains(got, "Nothing new needs attention.") || !strings.Contains(got, "2 acknowledged: GPU 2 is lost, GPU 1 is hot") {
		t.Errorf("the page of alerts says %s", got)
	}
}

// Current and past alerts and silences survive a restart. An alert that goes on keeps
// its ID, and is not sent twice.
func TestAlertsSurviveARestart(t *testing.T) {
	t.Parallel()
	lib, m := machine(t, fakenvml.RTX4090())
	m.GPU(0).Set(fakenvml.Temperature, 88)
	dir := t.TempDir()
	args := []string{fast, "--history=off", "--state-dir=" + dir, "--alert-rules=" + rulesFile(t, onlyRules("{name: hot, above: 80, hold: 0s, clear: 0s, enabled: true}"))}
	p := startRaced(t, lib.Env(), args...)
	fired := p.dial().nextAlert("it is hot", func(a contract.Alert) bool { return a.Rule == "hot" })
	p.ask("POST", "/api/alerts/"+fired.ID+"/acknowledge", `{"by":"ann"}`, nil)
	p.ask("POST", "/api/silences", `{"rule":"ecc","duration_seconds":3600}`, nil)
	if err := p.stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}

	p = startRaced(t, lib.Env(), args...)
	v := p.dial()
	p.await("it answers", func(u contract.Update) bool { return u.Answering == 1 })
	var list contract.Alerts
	if p.get("/api/alerts", &list); len(list.Alerts) != 1 || list.Alerts[0].ID != fired.ID || list.Alerts[0].Acknowledged == nil || len(list.Silences) != 1 {
		t.Fatalf("after the restart: %+v", list)
	}
	m.GPU(0).Set(fakenvml.Temperature, 50)
	v.nextAlert("it is over", func(a contract.Alert) bool { return a.ID == fired.ID && a.State == "resolved" })
	if p.get("/api/alerts", &list); len(list.Alerts) != 0 || len(list.Past) != 1 || list.Past[0].ID != fired.ID {
		t.Errorf("past: %+v", list)
	}

	// A file that is damaged is said, and keeps nothing from working.
	if err := p.stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "alerts.json"), []byte(`{"version":1,`), 0o600); err != nil {
		t.Fatal(err)
	}
	p = startRaced(t, lib.Env(), args...)
	p.await("it answers", func(u contract.Update) bool { return u.Answering == 1 })
	if !strings.Contains(p.log.String(), `what="alerts and silences"`) {
		t.Error("nothing is said of a damaged file")
	}
}

// A good file takes effect at SIGHUP. A bad one changes nothing, and the log says where
// it is wrong.
func TestRulesAreReadAgainOnHangup(t *testing.T) {
	t.Parallel()
	lib, m := machine(t, fakenvml.RTX4090())
	m.GPU(0).Set(fakenvml.Temperature, 70)
	name := rulesFile(t, "rules: [{name: hot, above: 80, hold: 0s, enabled: true}]")
	p := start(t, lib.Env(), fast, "--alert-rules="+name)
	v := p.dial()
	v.await("it answers", func(u contract.Update) bool { return u.Answering == 1 })
	write := func(text string) {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		p.reload()
	}
	threshold := func() float64 {
		var rules contract.AlertRules
		p.get("/api/alert-rules", &rules)
		for _, r := range rules.Rules {
			if r.Name == "hot" {
				return value(t, "threshold", r.Threshold)
			}
		}
		return -1
	}
	write("rules:\n- name: hot\n  above: 900\n")
	p.log.await(t, name+":3: rules[0] (hot): above: must be from -50 to 200 °C")
	if got := threshold(); got != 80 {
		t.Errorf("a bad file changed the threshold to %v", got)
	}
	write("rules: [{name: hot, above: 60, hold: 0s, enabled: true}]")
	v.nextAlert("it is hotter than the new threshold", func(a contract.Alert) bool { return a.Rule == "hot" && a.State == "firing" })
	if got := threshold(); got != 60 {
		t.Errorf("the threshold is %v", got)
	}
	write("rules: []")
	v.nextAlert("the rule is not in force any more", func(a contract.Alert) bool { return a.Rule == "hot" && a.State == "resolved" })
}

// SIGHUP does not end a gpuwhy without a rules file.
func TestAHangupWithoutRules(t *testing.T) {
	t.Parallel()
	lib, _ := machine(t, fakenvml.RTX4090())
	p := start(t, lib.Env(), fast)
	p.reload()
	p.log.await(t, "no alert rules to read again")
}

func TestCheckConfig(t *testing.T) {
	t.Parallel()
	good := rulesFile(t, "rules: [{name: hot, enabled: true}]")
	if r := inside("check-config", "--alert-rules", good); r.code != exitOK || !strings.Contains(r.stdout, "The configuration is valid: 26 alert rules, 23 of them enabled; targets for messages: 0.") {
		t.Errorf("%+v", r)
	}
	bad := rulesFile(t, "rules:\n- name: hot\n  above: 900\n- nam: x\n")
	want := fmt.Sprintf("gpuwhy: %[1]s:3: rules[0] (hot): above: must be from -50 to 200 °C\ngpuwhy: %[1]s:4: rules[1]: unknown key \"nam\"", bad)
	for _, args := range [][]string{{"check-config"}, {"serve", "--listen=127.0.0.1:0"}} {
		if r := command(t, nil, append(args, "--alert-rules", bad)...); r.code != exitUsage || !strings.HasPrefix(r.stderr, want) {
			t.Errorf("%v: %+v", args, r)
		}
	}
	if r := inside("check-config", "--alert-rules", "/nowhere/rules.yaml"); r.code != exitUsage || !strings.Contains(r.stderr, "/nowhere/rules.yaml") {
		t.Errorf("%+v", r)
	}
	long := rulesFile(t, strings.Repeat("#", 1<<20+1))
	for name, want := range map[string]string{long: long + ":1: the file is larger than 1 MiB: shorten it", "/dev/null": "/dev/null is a folder, a pipe or a device: name a regular file"} {
		if r := inside("check-config", "--alert-rules", name); r.code != exitUsage || !strings.HasPrefix(r.stderr, "gpuwhy: "+want) {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if r := inside("check-config", "--schema"); r.code != exitOK || !json.Valid([]byte(r.stdout)) {
		t.Errorf("%+v", r)
	}
}
