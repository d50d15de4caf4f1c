package metrics

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/metrics/promtest"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

const (
	rulesFile = "../../deploy/prometheus/gpuwhy-rules.yml"
	fleetFile = "../../deploy/prometheus/gpuwhy-fleet-rules.yml"
)

// boardFiles are our boards: one for machines, one for a fleet of them.
var boardFiles = []string{"../../deploy/grafana/gpuwhy.json", "../../deploy/grafana/gpuwhy-fleet.json"}

// promtool runs it and returns its exit status and all that it said.
func promtool(t *testing.T, stdin string, args ...string) (status int, output string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), promtest.Program(t, "promtool"), args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), string(out)
	}
	if err != nil {
		t.Fatalf("promtool %v: %v", args, err)
	}
	return 0, string(out)
}

func TestPromtoolTakesWhatWeServe(t *testing.T) {
	for name, snap := range map[string]*gpu.Snapshot{"zero": zeros(), "rtx4090": desktop(), "h100": server(), "no_gpu": bare(), "starting": nil} {
		if status, out := promtool(t, text(t, exporterOf(t, snap, FamilyGPUWhy)), "check", "metrics"); status != 0 {
			t.Errorf("%s: promtool check metrics: %s", name, out)
		}
	}
	// DCGM's names are not as promtool would have them, which is 3; what
	// can't be parsed is 1.
	if status, out := promtool(t, text(t, exporterOf(t, zeros(), FamilyDCGM)), "check", "metrics"); status != 3 {
		t.Errorf("promtool check metrics of the DCGM family: %d: %s", status, out)
	}
}

func TestPromtoolTakesOurFiles(t *testing.T) {
	for _, args := range [][]string{
		{"check", "rules", rulesFile},
		{"test", "rules", "../../deploy/prometheus/gpuwhy-rules_test.yml"},
		{"check", "config", "../../deploy/prometheus/prometheus.yml"},
		{"check", "rules", fleetFile},
		{"test", "rules", "../../deploy/prometheus/gpuwhy-fleet-rules_test.yml"},
		{"check", "config", "../../deploy/prometheus/prometheus-fleet.yml"},
	} {
		if status, out := promtool(t, "", args...); status != 0 {
			t.Errorf("promtool %s: %d: %s", strings.Join(args, " "), status, out)
		}
	}
}

type rule struct {
	Alert, Expr string
	Labels      map[string]string
	Annotations map[string]string
}

func rules(t *testing.T) []rule {
	t.Helper()
	return rulesOf(t, rulesFile)
}

func rulesOf(t *testing.T, name string) []rule {
	t.Helper()
	var file struct {
		Groups []struct{ Rules []rule }
	}
	decode(t, name, yaml.Unmarshal, &file)
	var out []rule
	for _, g := range file.Groups {
		out = append(out, g.Rules...)
	}
	if len(out) == 0 {
		t.Fatal("no rules")
	}
	return out
}

func decode(t *testing.T, path string, unmarshal func([]byte, any) error, v any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := unmarshal(data, v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// Each alert has a unit test in which it fires, one in which it doesn't, and
// says what to do.
func TestEachAlertIsTested(t *testing.T) {
	for _, file := range []string{rulesFile, fleetFile} {
		isTested(t, rulesOf(t, file), strings.TrimSuffix(file, ".yml")+"_test.yml")
	}
}

func isTested(t *testing.T, rules []rule, tests string) {
	t.Helper()
	var file struct {
		Tests []struct {
			Cases []struct {
				Name   string `yaml:"alertname"`
				Alerts []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	decode(t, tests, yaml.Unmarshal, &file)
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, test := range file.Tests {
		for _, c := range test.Cases {
			fires[c.Name] = fires[c.Name] || len(c.Alerts) > 0
			quiet[c.Name] = quiet[c.Name] || len(c.Alerts) == 0
		}
	}
	for _, r := range rules {
		if !fires[r.Alert] || !quiet[r.Alert] {
			t.Errorf("%s: tested firing %v, quiet %v", r.Alert, fires[r.Alert], quiet[r.Alert])
		}
		if !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) {
			t.Errorf("%s: severity %q", r.Alert, r.Labels["severity"])
		}
		for _, name := range []string{"summary", "description"} {
			if r.Annotations[name] == "" {
				t.Errorf("%s has no %s", r.Alert, name)
			}
		}
	}
}

// Which errors are a program's own, and how much memory is held, is the same
// here as for gpuwhy's own alerts.
func TestRulesAreTheProgramsOwn(t *testing.T) {
	program, held := "", 0.0
	for _, r := range alert.Defaults() {
		switch {
		case r.Watch == alert.XID && len(r.Codes) > 0:
			program = strings.Trim(strings.ReplaceAll(fmt.Sprint(r.Codes), " ", "|"), "[]")
		case r.Watch == alert.IdleHeld:
			held = r.Threshold // MiB
		}
	}
	for name, part := range map[string]string{
		"GPUXid":          fmt.Sprintf(`{xid!~%q}`, program),
		"GPUXidOfProgram": fmt.Sprintf(`{xid=~%q}`, program),
		"GPUIdleButHeld":  fmt.Sprintf(`> %v*1024*1024 and`, held),
	} {
		all := rules(t)
		i := slices.IndexFunc(all, func(r rule) bool { return r.Alert == name })
		if i < 0 || !strings.Contains(all[i].Expr, part) {
			t.Errorf("%s does not ask %s", name, part)
		}
	}
}

// A board is what we need to know of a Grafana dashboard.
type board struct {
	Panels []struct {
		ID         int
		Type       string
		Title      string
		Datasource struct{ UID string }
		GridPos    struct{ X, Y, W, H int }
		Targets    []struct{ Expr string }
	}
	Templating struct {
		List []struct{ Name, Type, Definition string }
	}
}

func ourBoard(t *testing.T, file string) board {
	t.Helper()
	var b board
	decode(t, file, json.Unmarshal, &b)
	if len(b.Panels) == 0 {
		t.Fatal("no panels")
	}
	return b
}

func TestBoardIsWellFormed(t *testing.T) {
	for _, file := range boardFiles {
		t.Run(filepath.Base(file), func(t *testing.T) { isWellFormed(t, ourBoard(t, file)) })
	}
}

func isWellFormed(t *testing.T, b board) {
	t.Helper()
	ids := map[int]bool{}
	type cell struct{ x, y int }
	taken := map[cell]string{}
	byCode := false
	for _, p := range b.Panels {
		if ids[p.ID] {
			t.Errorf("%s: the id %d is there twice", p.Title, p.ID)
		}
		ids[p.ID] = true
		if p.Type != "row" && (p.Datasource.UID != "${datasource}" || len(p.Targets) == 0) {
			t.Errorf("%s: data source %q, %d targets", p.Title, p.Datasource.UID, len(p.Targets))
		}
		for _, target := range p.Targets {
			byCode = byCode || p.Type == "table" && strings.Contains(target.Expr, "by (node, gpu, xid)")
			if strings.Contains(target.Expr, "gpuwhy_gpu_xid_errors_total[") {
				t.Errorf("%s: a code's series begins with its first event, which no increase shows: %s", p.Title, target.Expr)
			}
		}
		place := p.GridPos
		if place.X+place.W > 24 {
			t.Errorf("%s is beyond the edge", p.Title)
		}
		for x := place.X; x < place.X+place.W; x++ {
			for y := place.Y; y < place.Y+place.H; y++ {
				if other, ok := taken[cell{x, y}]; ok {
					t.Fatalf("%s lies over %s", p.Title, other)
				}
				taken[cell{x, y}] = p.Title
			}
		}
	}
	if !byCode {
		t.Error("no table has the driver's errors by their code")
	}
}

// Alerts on errors of the driver say which code it was.
func TestAlertsHaveTheCode(t *testing.T) {
	for _, r := range rules(t) {
		if !strings.Contains(r.Expr, "xid") && !slices.Contains([]string{"GPULost", "GPUNotAnswering", "GPUUncorrectedMemoryErrors"}, r.Alert) {
			continue
		}
		text := r.Annotations["summary"] + r.Annotations["description"]
		if !strings.Contains(text, "$labels.xid") && !strings.Contains(text, ".Labels.xid") {
			t.Errorf("%s: the code is in no annotation: %s", r.Alert, text)
		}
	}
}

// nvidiaBoard has every expression of NVIDIA's board for dcgm-exporter, number
// 12239 on grafana.com, and whether there is data for it on any card, or from
// Hopper on.
var nvidiaBoard = map[string]bool{
	`DCGM_FI_DEV_GPU_TEMP{instance=~"$instance", gpu=~"$gpu"}`:            true,
	`avg(DCGM_FI_DEV_GPU_TEMP{instance=~"$instance", gpu=~"$gpu"})`:       true,
	`DCGM_FI_DEV_POWER_USAGE{instance=~"$instance", gpu=~"$gpu"}`:         true,
	`sum(DCGM_FI_DEV_POWER_USAGE{instance=~"$instance", gpu=~"$gpu"})`:    true,
	`DCGM_FI_DEV_SM_CLOCK{instance=~"$instance", gpu=~"$gpu"} * 1000000`:  true,
	`DCGM_FI_DEV_GPU_UTIL{instance=~"$instance", gpu=~"$gpu"}`:            true,
	`DCGM_FI_DEV_FB_USED{instance=~"$instance", gpu=~"$gpu"}`:             true,
	`DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{instance=~"$instance", gpu=~"$gpu"}`: false, // counters
	`group by (instance) (DCGM_FI_DEV_GPU_TEMP{})`:                        true,  // its variables
	`group by (gpu) (DCGM_FI_DEV_GPU_TEMP{})`:                             true,
}

var (
	labelValues = regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)
	variables   = strings.NewReplacer("$instance", ".*", "$node", ".*", "$gpu", ".*", "$__rate_interval", "1m", "$__range", "1m")
)

// A real Prometheus scrapes us while the machine is well, while it is ill,
// while it can't be read, and while we are down, and is asked for all that the
// boards and the rules ask. The machine stays in each state until Prometheus'
// own answers show that it has scraped it, and has evaluated the rules on it.
func TestPrometheus(t *testing.T) {
	m := &machine{}
	e, err := New(Config{
		Newest: m.newest, Self: m.self, Interval: time.Minute, Node: "desk", Version: "v1.2.3", Log: newLogger(t.Output()),
	})
	if err != nil {
		t.Fatal(err)
	}
	m.exporter = e
	m.set(wellMachine)
	srv := httptest.NewServer(owned(m))
	t.Cleanup(srv.Close)
	p := startPrometheus(t, srv.Listener.Addr().String())

	instant := p.scraped(t, 0)
	for _, file := range boardFiles {
		b := ourBoard(t, file)
		for _, panel := range b.Panels {
			for _, target := range panel.Targets {
				p.wantData(t, instant, panel.Title, target.Expr, true)
			}
		}
		for _, v := range b.Templating.List {
			if v.Type == "query" {
				p.wantData(t, instant, "variable "+v.Name, labelValues.ReplaceAllString(v.Definition, "group by ($2) ($1)"), true)
			}
		}
	}
	t.Run("what can't be right", func(t *testing.T) {
		p.wantData(t, instant, "the mark", `gpuwhy_gpu_reading_doubtful{metric="gpuwhy_gpu_temperature_celsius"}`, true)
		for _, name := range []string{"gpuwhy_gpu_temperature_celsius", "DCGM_FI_DEV_GPU_TEMP"} {
			p.wantData(t, instant, "the hottest", "max("+name+") < 500", true)
		}
	})
	t.Run("NVIDIA's board", func(t *testing.T) {
		for expr := range nvidiaBoard {
			p.wantData(t, instant, "12239", expr, true)
		}
	})
	t.Run("NVIDIA's board without a Hopper", func(t *testing.T) {
		instant := p.scraped(t, m.set(desktopMachine))
		for expr, want := range nvidiaBoard {
			p.wantData(t, instant, "12239", expr, want)
		}
	})
	t.Run("rules", func(t *testing.T) {
		// Once there, these two stay for the minutes that they look back.
		const power, memory = "GPUThrottledByPower", "GPUUncorrectedMemoryErrors"
		never := map[string]bool{}
		for _, r := range rules(t) {
			never[r.Alert] = true
		}
		for _, tt := range []struct {
			name  string
			state func(int) state
			want  []string
		}{
			// One of the eight is lost, and the desktop is at its power limit.
			{"well", wellMachine, []string{"GPULost", power}},
			{"ill", illMachine, []string{
				"GPUFanBlocked", "GPUFault", "GPUIdleButHeld", "GPULost", "GPUMemoryRepairPending", "GPUNotAnswering", "GPUPowerBrake", "GPURowRemapFailed",
				"GPUThrottledByHeat", power, "GPUTooHot", memory, "GPUXid", "GPUXidOfProgram",
			}},
			{"unreadable", unreadableMachine, []string{"GPUNoSource", "GPUReadingsStale", power, memory}},
			{"gone", goneMachine, []string{"GPUMonitorDown", power, memory}},
		} {
			m.set(tt.state)
			var got []string
			testkit.Until(t, "the alerts of a machine that is "+tt.name, func() bool {
				got = p.alerts(t)
				return slices.Equal(got, tt.want)
			}, func() string { return cmp.Diff(tt.want, got) })
			for _, name := range got {
				delete(never, name)
			}
		}
		for name := range never {
			t.Errorf("%s: no data in any state of the machine", name)
		}
	})
}

// A state is what a machine shows at one scrape; no snapshot and no Self is
// that it does not answer.
type state struct {
	snapshot *gpu.Snapshot
	self     *Self
}

// wellMachine is a desktop that has also the server's cards, working.
func wellMachine(n int) state {
	s := desktop()
	s.Devices = append(s.Devices, server().Devices...)
	now := time.Now()
	s.Time = now
	for i := range s.Devices {
		d := &s.Devices[i]
		d.Since = now.Add(-time.Hour)
		if d.State == gpu.StateOK {
			d.SampledAt = now
			d.Power.Energy = gpu.Map(d.Power.Energy, func(j gpu.Joules) gpu.Joules { return j + gpu.Joules(30*n) })
		}
	}
	s.Devices[0].Health.XIDs = gpu.Of([]gpu.XID{{Code: 31, Count: 1, Last: now.Add(-time.Hour)}})
	nonsense := desktop().Devices[0] // it works, and says what can't be right
	nonsense.UUID, nonsense.Index, nonsense.State = "GPU-nonsense", len(s.Devices), gpu.StateOK
	nonsense.Since, nonsense.SampledAt = now.Add(-time.Hour), now
	nonsense.Thermal.GPU, nonsense.Thermal.Margin = gpu.DoubtfulOf(gpu.Celsius(500)), gpu.Reading[gpu.Celsius]{}
	nonsense.Thermal.Slowdown = gpu.Of(gpu.Celsius(90))
	nonsense.Clocks.EventReasons = gpu.DoubtfulOf(gpu.ReasonHardwareThermal)
	s.Devices = append(s.Devices, nonsense)
	self := healthy()
	self.Viewers = n
	return state{s, &self}
}

// scrapes is a metric of ours that has the number of the scrape here.
const scrapes = "gpuwhy_viewers"

// desktopMachine is the desktop alone.
func desktopMachine(n int) state {
	st := wellMachine(n)
	st.snapshot.Devices = st.snapshot.Devices[:1]
	return st
}

// illMachine has besides one device that hangs, and one with every fault that
// a device can have.
func illMachine(n int) state {
	st := wellMachine(n)
	now := st.snapshot.Time
	hanging := h100(8)
	hanging.State, hanging.Readings = gpu.StateNotAnswering, gpu.Readings{}

	ill := desktop().Devices[0]
	ill.UUID, ill.Index = "GPU-ill", 9
	ill.Thermal.Margin = gpu.Of(gpu.Celsius(-1))
	ill.Clocks.EventReasons = gpu.Of(gpu.ReasonHardwareThermal | gpu.ReasonHardwarePowerBrake | gpu.ReasonPowerCap)
	ill.Health = gpu.Health{
		XIDs:                gpu.Of([]gpu.XID{{Code: 79, Count: 1, Last: now}, {Code: 31, Count: 1, Last: now}}),
		Faults:              gpu.Of([]gpu.Fault{{Kind: gpu.FaultWedged, Count: 1, Last: now}}),
		UncorrectedVolatile: gpu.Of(uint64(n)), RemapFailed: gpu.Of(true), RemapPending: gpu.Of(true),
	}
	ill.Fans.Fans = []gpu.Fan{{Commanded: gpu.Of(gpu.Percent(60)), RPM: gpu.Of(gpu.RPM(0))}}
	ill.Utilization.GPU = gpu.Of(gpu.Percent(0))
	st.snapshot.Devices = append(st.snapshot.Devices, hanging, ill)
	return st
}

// unreadableMachine was read an hour ago.
func unreadableMachine(n int) state {
	st := wellMachine(n)
	st.snapshot.Time = time.Now().Add(-time.Hour)
	st.self.Sources = []Source{{Name: gpu.SourceNVML, Failing: true, LastSuccess: st.snapshot.Time}}
	return st
}

func goneMachine(int) state { return state{} }

// A machine is scraped, and in another state each time.
type machine struct {
	exporter *Exporter

	scraping sync.Mutex // held during a scrape
	now      state      // of the scrape

	mu   sync.Mutex
	n    int // scrapes that have begun
	next func(n int) state
}

// set changes what the next scrapes show, and returns how many began before.
func (m *machine) set(next func(n int) state) (before int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.next = next
	return m.n
}

func (m *machine) newest() *insight.Fleet { return fleetOf(m.now.snapshot) }

func (m *machine) self() Self { return *m.now.self }

func (m *machine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.scraping.Lock()
	defer m.scraping.Unlock()
	m.mu.Lock()
	m.n++
	m.now = m.next(m.n)
	m.mu.Unlock()
	if m.now.snapshot == nil {
		http.Error(w, "gone", http.StatusServiceUnavailable)
		return
	}
	m.exporter.ServeHTTP(w, r)
}

// A prom is a running Prometheus.
type prom struct{ *promtest.Server }

// startPrometheus starts one that scrapes a target each second and evaluates
// our rules as often. Its timeout can't be longer than that: a scrape may fail
// on a busy machine, and another one follows.
func startPrometheus(t *testing.T, target string) *prom {
	t.Helper()
	abs, err := filepath.Abs(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	return &prom{promtest.Start(t, fmt.Sprintf(`
global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}
rule_files: [%q]
scrape_configs:
  - job_name: gpuwhy
    static_configs: [{targets: [%q]}]
`, abs, target))}
}

// scraped waits until two of the scrapes that began after so many are in
// Prometheus' store, near enough for what looks back a minute. It returns the
// time of the second, at which the store has all of it.
func (p *prom) scraped(t *testing.T, before int) (instant string) {
	t.Helper()
	testkit.Until(t, "two scrapes within a minute", func() bool {
		series := p.Query(t, scrapes+"[50s]", "")
		if len(series) == 0 {
			return false
		}
		values := slices.DeleteFunc(series[0].Values, func(v [2]any) bool {
			n, err := strconv.Atoi(v[1].(string))
			return err != nil || n <= before
		})
		if len(values) < 2 {
			return false
		}
		instant = strconv.FormatFloat(values[len(values)-1][0].(float64), 'f', 3, 64)
		return true
	})
	return instant
}

// alerts are the names of the rules that have found something when they were
// evaluated last.
func (p *prom) alerts(t *testing.T) (names []string) {
	t.Helper()
	var data struct {
		Groups []struct {
			Rules []struct {
				Name, LastError string
				Alerts          []any
			}
		}
	}
	p.Get(t, "/api/v1/rules", nil, &data)
	known := 0
	for _, g := range data.Groups {
		for _, r := range g.Rules {
			if known++; r.LastError != "" {
				t.Fatalf("%s: %s", r.Name, r.LastError)
			}
			if len(r.Alerts) > 0 {
				names = append(names, r.Name)
			}
		}
	}
	if known != len(rules(t)) {
		t.Fatalf("%d rules, want %d", known, len(rules(t)))
	}
	slices.Sort(names)
	return names
}

// wantData checks that an expression gives data at a time, or doesn't.
func (p *prom) wantData(t *testing.T, instant, where, expr string, want bool) {
	t.Helper()
	expr = variables.Replace(expr)
	if strings.Contains(strings.ReplaceAll(expr, `"$1"`, ""), "$") {
		t.Errorf("%s: a variable is left in %s", where, expr)
	}
	if len(p.Query(t, expr, instant)) > 0 != want {
		t.Errorf("%s: data %v, want %v: %s", where, !want, want, expr)
	}
}
