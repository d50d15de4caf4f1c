package nearest

import (
	"strings"
	"testing"
)

func TestName(t *testing.T) {
	metrics := []string{"power_draw", "power_limit", "utilization", "memory_used", "temperature", "fan_speed", "clock_sm"}
	settings := []string{"GPUWHY_LISTEN", "GPUWHY_STATE_DIR", "GPUWHY_ALLOW_HOST", "GPUWHY_ALLOW_ORIGIN", "GPUWHY_NODE"}
	for _, tt := range []struct {
		written string
		names   []string
		want    string
	}{
		{"power", metrics, "power_draw"}, {"Power-Draw", metrics, "power_draw"}, {"powerdraw", metrics, "power_draw"}, {"utilisation", metrics, "utilization"},
		{"temp", metrics, "temperature"}, {"memory", metrics, "memory_used"}, {"fan", metrics, "fan_speed"}, {"tempreature", metrics, "temperature"}, {"draw", metrics, "power_draw"},
		{"speeed", metrics, ""}, {"x", metrics, ""}, {"7", []string{"0", "17"}, ""}, {"5m", []string{"1m", "15m"}, "15m"}, {"op", []string{"ops", "on"}, "ops"}, {"b", []string{"n"}, ""}, {"", metrics, ""}, {"colour", metrics, ""}, {strings.Repeat("power", 100), metrics, ""},
		{"GPUWHY_LISTN", settings, "GPUWHY_LISTEN"}, {"GPUWHY_STATEDIR", settings, "GPUWHY_STATE_DIR"}, {"GPUWHY_ALLOW_HOSTS", settings, "GPUWHY_ALLOW_HOST"}, {"GPUWHY_NOED", settings, "GPUWHY_NODE"},
		{"HISTORY_RETENTON", []string{"HISTORY", "HISTORY_RETENTION"}, "HISTORY_RETENTION"}, {"FLEET_CREDENTAILS", []string{"FLEET", "FLEET_HOST", "FLEET_CREDENTIALS"}, "FLEET_CREDENTIALS"},
		{"memory_usde", []string{"memory", "memory_used"}, "memory_used"}, {"nodename", []string{"node", "listen"}, "node"},
	} {
		if got := Name(tt.written, tt.names); got != tt.want {
			t.Errorf("%q is like %q, want %q", tt.written, got, tt.want)
		}
	}
	if got := Hint("power", metrics); got != ` (did you mean "power_draw"?)` {
		t.Error(got)
	}
	if got := Hint("colour", metrics); got != "" {
		t.Error(got)
	}
}
