package contract_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alert"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/fixture"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/internal/recent"
)

// Invented readings say so in every answer and event that has any.
func TestSimulatedSaysSo(t *testing.T) {
	s := fixture.Workstation()
	s.Source = gpu.SourceSimulated
	s.Devices[0].Source = gpu.SourceSimulated
	past := recent.New()
	past.Add(s)
	engine := alert.New([]alert.Rule{{Name: "busy", Watch: alert.Utilization, Threshold: 50, Enabled: true}})
	firing := engine.Observe(s, nil)
	if len(firing) != 1 {
		t.Fatalf("%d alerts, want one", len(firing))
	}
	why := explain.Explain(s)
	for name, answer := range map[string]any{
		"why":         contract.NewWhy(monitor, s, &why),
		"why_0":       contract.NewOneWhy(s, &why.Devices[0]),
		"update":      contract.NewUpdate(s, ""),
		"gpu_status":  contract.NewGPUStatus(monitor, s, []byte("null")),
		"summary":     contract.NewSummary(monitor, s, "", 0),
		"gpu_metrics": contract.NewGPUMetrics(s),
		"one":         contract.NewOneGPU(s, &s.Devices[0]),
		"devices":     contract.NewDevices(monitor, s),
		"driver":      contract.NewDriverInfo(monitor, s),
		"fleet":       contract.NewFleet(monitor, s),
		"nodes":       contract.NewClusterNodes(s),
		"processes":   contract.NewClusterProcesses(contract.NewClusterNodes(s)),
		"cluster":     contract.NewClusterSummary(monitor, s, nil),
		"recent":      contract.NewRecent(monitor, s, past.View(nil)),
		"alert":       contract.NewAlert(&firing[0].Alert),
	} {
		encoded, err := json.Marshal(answer)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(encoded), `"source":"simulated"`) {
			t.Errorf("%s does not say that it is simulated: %s", name, encoded)
		}
	}
}
