//go:build !race

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
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/past/recent"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
)

var update = flag.Bool("update", false, "write the golden files anew; their diff is the review")

// monitor is the one that reads all machines of the golden files.
var monitor = contract.Monitor{
	Node: "asked-node", Source: gpu.SourceNVML, Version: "1.2.3", Interval: 5 * time.Second, AlertThreshold: 50,
	Started: fixture.Time.Add(-time.Hour),
}

// machinesByName are those of the golden files. None was recorded: see package
// machines. A nil one has not been read yet.
var machinesByName = map[string][]*gpu.Snapshot{
	"workstation": {fixture.Workstation()},
	"broken":      {fixture.BrokenServer()},
	"zeros":       {fixture.Zeros()},
	"empty":       {fixture.Empty()},
	"mig":         {fixture.Partitioned()},
	"orphaned":    {fixture.Orphaned()},
	"a100":        {fixture.A100s(8)},
	"b200":        {fixture.B200s(8)},
	"mixed":       {fixture.Mixed()},
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
	Machines   contract.Machines      `json:"machines"`
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

// explained is the fleet of machines that were without work before.
func explained(snaps ...*gpu.Snapshot) *insight.Fleet {
	if len(snaps) == 0 {
		return nil
	}
	stage := insight.NewStage()
	var moments []*insight.Moment
	for _, s := range snaps {
		before := *s
		before.Time = s.Time.Add(-5 * time.Second)
		before.Devices = slices.Clone(s.Devices)
		for i := range before.Devices {
			d := &before.Devices[i]
			d.SampledAt = before.Time
			d.Utilization.GPU = gpu.Map(d.Utilization.GPU, func(gpu.Percent) gpu.Percent { return 0 })
			d.Activity = gpu.Activity{} // who copies data over PCIe works
		}
		stage.History.Add(&before)
		moments = append(moments, insight.New(s, stage.History.Add(s)))
	}
	return insight.NewFleet(moments...)
}

// alone is the fleet of one snapshot without a past.
func alone(s *gpu.Snapshot) *insight.Fleet { return insight.Of(s).Alone() }

func first(f *insight.Fleet) insight.Part {
	for p := range f.Parts() {
		return p
	}
	panic("no device")
}

func newAnswers(snaps ...*gpu.Snapshot) answers {
	f := explained(snaps...)
	monitor := monitor
	monitor.Several = len(f.Moments()) > 1
	parts := map[string]contract.Part{
		"sampler": contract.NewPart("ok", fixture.Time),
		"nvml":    contract.Part{}.Failed(&gpu.Advice{What: "no library", Try: "install it", Err: errors.New("dlopen")}, fixture.Time),
		"hub":     contract.Part{}.Failed(errors.New("a cause that is for the log alone"), time.Time{}),
	}
	a := answers{
		Update:     contract.NewFleetUpdate(monitor, f),
		Summary:    contract.NewSummary(monitor, f, 2),
		Machines:   contract.NewMachines(f, func(*insight.Moment) bool { return true }),
		Info:       contract.NewGPUInfo(monitor, f),
		Devices:    contract.NewDevices(monitor, f),
		Driver:     contract.NewDriverInfo(monitor, f),
		Service:    contract.NewService(monitor, f),
		Probe:      contract.NewProbe(monitor, f),
		Health:     contract.NewMonitorHealth(monitor, f, parts, time.Hour),
		RecentNone: contract.NewRecent(monitor, f, recent.View{}),
	}
	a.Fleet = contract.NewFleet(monitor, f)
	a.Nodes = contract.NewClusterNodes(f)
	if len(a.Nodes) > 0 {
		a.Node = &a.Nodes[0]
	}
	a.Processes = contract.NewClusterProcesses(a.Nodes)
	a.ClusterSummary = contract.NewClusterSummary(monitor, f, new(contract.LocalCluster))
	a.FleetSummary = contract.NewClusterSummary(monitor, f, nil)
	encoded := json.RawMessage(`"the update"`)
	if f.Nodes().Totals().Devices < 8 { // eight alike show no more
		a.Why = new(contract.NewWhy(monitor, f))
	}
	a.Status = contract.NewGPUStatus(monitor, f, encoded, fixture.Time.Add(time.Second))
	past := recent.New()
	if f != nil {
		a.Metrics = new(contract.NewGPUMetrics(monitor, f))
		for _, ago := range []time.Duration{5 * time.Second, 0} {
			for _, s := range f.Nodes() {
				then := *s
				then.Time = s.Time.Add(-ago)
				past.Add(&then)
			}
		}
	}
	a.Recent = contract.NewRecent(monitor, f, past.View(nil))
	if f.Nodes().Totals().Devices > 0 {
		a.One = new(contract.NewOneGPU(first(f)))
		a.OneWhy = new(contract.NewOneWhy(first(f)))
	}
	return a
}

func TestGolden(t *testing.T) {
	for name, snaps := range machinesByName {
		t.Run(name, func(t *testing.T) { golden(t, name, newAnswers(snaps...)) })
	}
}

func TestGoldenAlert(t *testing.T) {
	engine := alert.New(alert.Defaults())
	var messages []contract.Alert
	see := func(after time.Duration, util gpu.Percent) {
		s := fixture.Workstation()
		s.Time = fixture.Time.Add(after)
		s.Devices[0].Utilization.GPU = gpu.Of(util)
		m := insight.Of(s)
		for _, a := range engine.Observe(m) {
			messages = append(messages, contract.NewAlert(&a.Alert, m.Alone()))
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
	engine.Observe(&insight.Moment{Snapshot: s})
	s = new(*s)
	s.Time = s.Time.Add(10 * time.Second)
	m := insight.Of(s)
	engine.Observe(m)
	message := func(a alert.Alert) contract.Alert { return contract.NewAlert(&a, m.Alone()) }
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
	list := contract.NewAlerts(monitor, m.Alone(), engine.Standing(), engine.Past(), engine.EndedSince("", time.Time{}), []alert.Silence{silence})
	gone := new(*s)
	gone.Time, gone.Devices = s.Time.Add(time.Minute), nil
	engine.Observe(&insight.Moment{Snapshot: gone})
	dismissed, err := engine.Dismiss(fires.ID, gone.Time)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "alerts", map[string]any{
		"alerts":             list,
		"alert_rules":        contract.NewAlertRules(rules),
		"alert_acknowledged": message(known.Alert),
		"alert_dismissed":    contract.NewAlert(&dismissed.Alert, nil),
		"note":               note,
		"silence":            contract.NewSilence(&silence),
		"silences":           contract.NewSilences([]alert.Silence{silence}),
		"silence_request":    ask,
		"silence_span":       contract.SilenceSpan{Comment: note.Comment, Duration: 3600},
		"note_of_several":    contract.NoteOfSeveral{IDs: []string{fires.ID}, Comment: note.Comment},
		"silence_of_several": contract.SilenceOfSeveral{IDs: []string{fires.ID}, Comment: note.Comment, Duration: 3600},
		"several_alerts":     contract.NewSeveralAlerts([]alert.Alert{known.Alert}, m.Alone()),
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
