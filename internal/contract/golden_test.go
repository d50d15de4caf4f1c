package contract_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alert"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/fixture"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/internal/recent"
)

var update = flag.Bool("update", false, "write the golden files anew; their diff is the review")

// monitor is the one that reads all machines of the golden files.
var monitor = contract.Monitor{
	Node: "asked-node", Source: gpu.SourceNVML, Version: "1.2.3", Interval: 5 * time.Second, AlertThreshold: 50,
	Started: fixture.Time.Add(-time.Hour),
}

// machinesByName are those of the golden files. None was recorded: see package
// machines. A nil one has not been read yet.
var machinesByName = map[string]*gpu.Snapshot{
	"workstation": fixture.Workstation(),
	"broken":      fixture.BrokenServer(),
	"zeros":       fixture.Zeros(),
	"empty":       fixture.Empty(),
	"mig":         fixture.Partitioned(),
	"orphaned":    fixture.Orphaned(),
	"a100":        fixture.A100s(8),
	"b200":        fixture.B200s(8),
	"mixed":       fixture.Mixed(),
	"fleet":       fixture.Fleet(),
	"starting":    nil,
}

// answers is every answer about one machine.
type answers struct {
	Update     contract.Update        `json:"update"`
	Status     contract.GPUStatus     `json:"gpu_status"`
	Summary    contract.Summary       `json:"summary"`
	Why        *contract.Why          `json:"why,omitempty"`
	OneWhy     *contract.OneWhy       `json:"why_0,omitempty"`
	Info       contract.GPUInfo       `json:"gpu_info"`
	Metrics    *contract.GPUMetrics   `json:"gpu_metrics,omitempty"`
	One        *contract.OneGPU       `json:"gpu_metrics_0,omitempty"`
	Devices    contract.Devices       `json:"devices"`
	Driver     contract.DriverInfo    `json:"driver"`
	Service    contract.Service       `json:"service"`
	Probe      contract.Probe         `json:"probe"`
	Health     contract.MonitorHealth `json:"health"`
	Recent     contract.Recent        `json:"recent"`
	RecentNone contract.Recent        `json:"recent_none"`

	Fleet          contract.Fleet            `json:"fleet"`
	Nodes          []contract.ClusterNode    `json:"cluster_nodes"`
	Node           *contract.ClusterNode     `json:"cluster_node,omitempty"`
	Processes      []contract.ClusterProcess `json:"cluster_processes"`
	ClusterSummary contract.ClusterSummary   `json:"cluster_summary"`
	FleetSummary   contract.ClusterSummary   `json:"fleet_summary"`
}

// explained is the answer about a machine that was without work before.
func explained(s *gpu.Snapshot) explain.Answer {
	history := explain.NewHistory()
	if s != nil {
		before := *s
		before.Time = s.Time.Add(-5 * time.Second)
		before.Devices = slices.Clone(s.Devices)
		for i := range before.Devices {
			d := &before.Devices[i]
			d.SampledAt = before.Time
			d.Utilization.GPU = gpu.Map(d.Utilization.GPU, func(gpu.Percent) gpu.Percent { return 0 })
		}
		history.Add(&before)
		history.Add(s)
	}
	return history.Explain(s)
}

func newAnswers(s *gpu.Snapshot) answers {
	answer := explained(s)
	why := answer.Sentence
	parts := map[string]contract.PartState{
		"sampler": {State: "ok", LastSuccess: fixture.Time},
		"nvml":    {State: "failed", LastError: &gpu.Advice{What: "no library", Try: "install it", Err: errors.New("dlopen")}, LastErrorAt: fixture.Time},
		"hub":     {State: "failed", LastError: errors.New("a cause that is for the log alone")},
	}
	a := answers{
		Update:     contract.EmptyUpdate(monitor, why),
		Summary:    contract.NewSummary(monitor, s, why, 2),
		Info:       contract.NewGPUInfo(monitor, s),
		Devices:    contract.NewDevices(monitor, s),
		Driver:     contract.NewDriverInfo(monitor, s),
		Service:    contract.NewService(monitor, s),
		Probe:      contract.NewProbe(monitor, s),
		Health:     contract.NewMonitorHealth(monitor, s, parts, fixture.Time),
		RecentNone: contract.NewRecent(monitor, s, recent.View{}),
	}
	a.Fleet = contract.NewFleet(monitor, s)
	a.Nodes = contract.NewClusterNodes(s)
	if len(a.Nodes) > 0 {
		a.Node = &a.Nodes[0]
	}
	a.Processes = contract.NewClusterProcesses(a.Nodes)
	a.ClusterSummary = contract.NewClusterSummary(monitor, s, new(contract.LocalCluster))
	a.FleetSummary = contract.NewClusterSummary(monitor, s, nil)
	a.Summary.Explain(&answer)
	encoded := json.RawMessage(`"the update"`)
	if s == nil || len(s.Devices) < 8 { // eight alike show no more
		a.Why = new(contract.NewWhy(monitor, s, &answer))
	}
	a.Status = contract.NewGPUStatus(monitor, s, encoded)
	past := recent.New()
	if s != nil {
		a.Update = contract.NewUpdate(s, why)
		a.Update.Explain(s, &answer)
		a.Metrics = new(contract.NewGPUMetrics(s))
		before := *s
		before.Time = s.Time.Add(-5 * time.Second)
		past.Add(&before)
		past.Add(s)
	}
	a.Recent = contract.NewRecent(monitor, s, past.View(nil))
	if s != nil && len(s.Devices) > 0 {
		a.One = new(contract.NewOneGPU(s, &s.Devices[0]))
		a.OneWhy = new(contract.NewOneWhy(s, &answer.Devices[0]))
	}
	return a
}

func TestGolden(t *testing.T) {
	for name, s := range machinesByName {
		t.Run(name, func(t *testing.T) { golden(t, name, newAnswers(s)) })
	}
}

func TestGoldenAlert(t *testing.T) {
	engine := alert.New(alert.Defaults())
	var messages []contract.Alert
	see := func(after time.Duration, util gpu.Percent) {
		s := fixture.Workstation()
		s.Time = fixture.Time.Add(after)
		s.Devices[0].Utilization.GPU = gpu.Of(util)
		answer := explain.Explain(s)
		for _, a := range engine.Observe(s, &answer) {
			message := contract.NewAlert(&a.Alert)
			message.Explain(answer.Of(a.Device.Node, a.Device.UUID))
			messages = append(messages, message)
		}
	}
	see(0, 98)
	see(10*time.Second, 97)
	see(15*time.Second, 0)
	see(30*time.Second, 0)
	golden(t, "alert", messages)
}

// TestGoldenAlerts has what is asked about alerts, and what people say of them.
func TestGoldenAlerts(t *testing.T) {
	rules := alert.Defaults()
	engine := alert.New(rules)
	s := fixture.Workstation()
	s.Devices[0].Utilization.GPU = gpu.Of(gpu.Percent(98))
	answer := explain.Explain(s)
	engine.Observe(s, &answer)
	s = new(*s)
	s.Time = s.Time.Add(10 * time.Second)
	engine.Observe(s, &answer)
	message := func(a alert.Alert) contract.Alert {
		out := contract.NewAlert(&a)
		out.Explain(answer.Of(a.Device.Node, a.Device.UUID))
		return out
	}
	fires := engine.Standing()[0]
	note := contract.Note{Comment: "the nightly training"}
	known, err := engine.Acknowledge(fires.ID, &alert.Acknowledgment{By: "local owner", Comment: note.Comment, At: s.Time})
	if err != nil {
		t.Fatal(err)
	}
	ask := contract.SilenceRequest{Rule: fires.Rule, GPUUUID: fires.Device.UUID, Comment: note.Comment, Duration: 3600}
	silence, _, err := engine.Silence(alert.Silence{
		Rule: ask.Rule, GPU: ask.GPUUUID, By: "local owner", Comment: ask.Comment, Until: s.Time.Add(time.Hour),
	}, s.Time)
	if err != nil {
		t.Fatal(err)
	}
	silence.ID = "silence-1" // it is random
	list := contract.NewAlerts(monitor, s, &answer, engine.Standing(), engine.Past(), []alert.Silence{silence})
	gone := new(*s)
	gone.Time, gone.Devices = s.Time.Add(time.Minute), nil
	engine.Observe(gone, nil)
	dismissed, err := engine.Dismiss(fires.ID, gone.Time)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "alerts", map[string]any{
		"alerts":             list,
		"alert_rules":        contract.NewAlertRules(rules),
		"alert_acknowledged": message(known.Alert),
		"alert_dismissed":    contract.NewAlert(&dismissed.Alert),
		"note":               note,
		"silence":            contract.NewSilence(&silence),
		"silences":           contract.NewSilences([]alert.Silence{silence}),
		"silence_request":    ask,
		"silence_span":       contract.SilenceSpan{Comment: note.Comment, Duration: 3600},
	})
}

// golden compares what v is encoded to with its file.
func golden(t *testing.T, name string, v any) {
	t.Helper()
	var got bytes.Buffer
	enc := json.NewEncoder(&got)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", name+".golden.json")
	if *update {
		if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", path, diff)
	}
}
