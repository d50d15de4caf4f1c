//go:build !race

package contract_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/past/recent"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
)

// Readings that are invented or recorded say so in every answer and event that has any.
func TestWhatIsNotLiveSaysSo(t *testing.T) {
	for _, source := range []string{gpu.SourceSimulated, gpu.SourceRecorded} {
		t.Run(source, func(t *testing.T) { saysSo(t, source) })
	}
}

func saysSo(t *testing.T, source string) {
	s := fixture.Workstation()
	s.Source = source
	s.Devices[0].Source = source
	past := recent.New()
	past.Add(s)
	engine := alert.New([]alert.Rule{{Name: "busy", Watch: alert.Utilization, Threshold: 50, Enabled: true}})
	firing := engine.Observe(&insight.Moment{Snapshot: s})
	if len(firing) != 1 {
		t.Fatalf("%d alerts, want one", len(firing))
	}
	f := alone(s)
	one := first(f)
	for name, answer := range map[string]any{
		"why":         contract.NewWhy(monitor, f),
		"why_0":       contract.NewOneWhy(one),
		"update":      contract.NewUpdate(one.Moment, nil),
		"gpu_status":  contract.NewGPUStatus(monitor, f, []byte("null"), s.Time),
		"summary":     contract.NewSummary(monitor, f, 0),
		"gpu_metrics": contract.NewGPUMetrics(monitor, f),
		"one":         contract.NewOneGPU(one),
		"devices":     contract.NewDevices(monitor, f),
		"driver":      contract.NewDriverInfo(monitor, f),
		"fleet":       contract.NewFleet(monitor, f),
		"nodes":       contract.NewClusterNodes(f),
		"processes":   contract.NewClusterProcesses(contract.NewClusterNodes(f)),
		"cluster":     contract.NewClusterSummary(monitor, f, nil),
		"recent":      contract.NewRecent(monitor, f, past.View(nil)),
		"alert":       contract.NewAlert(&firing[0].Alert, f),
	} {
		encoded, err := json.Marshal(answer)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(encoded), `"source":"`+source+`"`) {
			t.Errorf("%s does not say that it is %s: %s", name, source, encoded)
		}
	}
}
