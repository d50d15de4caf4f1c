package metrics

import (
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
)

// The fans and temperatures of the machine are series of their own.
func TestMachine(t *testing.T) {
	all := samples(t, exporterOf(t, fixture.Named("no card", fixture.Time).Snapshot))
	for name, want := range map[string]struct {
		series int
		most   float64
	}{"gpuwhy_host_fan_rpm": {3, 2210}, "gpuwhy_host_temperature_celsius": {3, 87.5}, "gpuwhy_host_cpu_power_watts": {1, 171.4}} {
		series, most := withName(all, name), 0.0
		for _, v := range series {
			most = max(most, v)
		}
		if len(series) != want.series || most != want.most {
			t.Errorf("%s: %v", name, series)
		}
	}
}
